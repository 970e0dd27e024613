/* http_guard.h - who may ask: loopback is not trust, for a browser on the machine is there, too.
 *
 *   Host              loopback, where the connection has reached the node, or a configured name:
 *                     else a name that an attacker made to lead here would do (DNS rebinding)
 *   Origin            that of the host itself, if it is there
 *   Sec-Fetch-Site    same-origin or none, if it is there
 *   Authorization     Bearer and a token: of a credential, or the operators' one of the node
 *   Tidegate-Token    the same without Bearer, where Authorization is somebody else's; if it is
 *                     there, the other is not looked at
 *   Content-Type      application/json, of what has a body of JSON: forms of pages cannot send it
 *
 * A request of HTTP/1.0 may have no Host. Pure.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_GUARD_H
#define NODE_GATEWAY_HTTP_HTTP_GUARD_H

#include "node/gateway/http/http_routes.h"

struct http_guarded {
    uint16_t status; /* 0: it may pass */
    const char *detail;
    uint64_t *counter; /* of such refusals, or NULL */
    uint8_t needed;    /* of 401 and 403: the right that is missing; 0: it is not about that */
    char text[ACCESS_SENTENCE_LEN]; /* what `detail` may point to */
};

/* Looks at a request, and who asks: exchange->access. `route` may be NULL, of what has none.
 * `early`: nobody decides yet, and credentials are not known. */
void http_guard(struct http_exchange *exchange, const struct http_route *route, bool early,
                struct http_stats *stats, struct http_guarded *out);
/* Refuses what a handler has asked for, if who asks may not; false: he may. Checks from the one
 * numbered `from` on are looked at. */
bool http_guard_checks(const struct http_exchange *exchange,
                       const struct wire_checks_builder *builder, uint32_t from,
                       struct http_stats *stats, struct http_guarded *out);

/* Whether the body is a document of rules as it is, by its Content-Type. */
bool http_is_yaml(const struct http1_request *request);

#endif
