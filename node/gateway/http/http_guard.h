/* http_guard.h - who may ask: loopback is not trust, for a browser on the machine is there, too.
 *
 *   Host              loopback, where the connection has reached the node, or a configured name:
 *                     else a name that an attacker made to lead here would do (DNS rebinding)
 *   Origin            that of the host itself, if it is there
 *   Sec-Fetch-Site    same-origin or none, if it is there
 *   Authorization     Bearer and the operators' token, of their calls
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
};

/* Looks at a request; `route` may be NULL, of what has none. */
void http_guard(const struct http1_request *request, const struct http_route *route,
                const struct http_facts *facts, const struct gateway_peer *peer,
                struct http_stats *stats, struct http_guarded *out);

/* Whether the body is a document of rules as it is, by its Content-Type. */
bool http_is_yaml(const struct http1_request *request);

#endif
