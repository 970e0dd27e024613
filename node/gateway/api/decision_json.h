/* decision_json.h - a decision as JSON and as header fields, by the names that every client knows.
 *
 *   {"allowed":false,"outcome":"deny","rule":"login","window":"5/min","limit":5,"used":5,
 *    "remaining":0,"granted":0,"reset_after_ms":1200,"retry_after_ms":1200,"delay_ms":0,
 *    "status":429,"message":"...","degraded":false,"node":"n1"}
 *
 *   RateLimit-Policy: "login";q=5;w=60
 *   RateLimit: "login";r=0;t=2
 *   Retry-After: 2
 *
 *   X-RateLimit-Limit: 5            legacy, instead of the first two: the reset is in Unix seconds,
 *   X-RateLimit-Remaining: 0        as most clients of these fields read it
 *   X-RateLimit-Reset: 1795788002
 *
 * and where there is something to tell "shadow_rule", "lease_id" and "lease_ms", of a reservation
 * "hold_id" and "hold_ms"; "explain" where that was asked for. The fields are
 * those of draft-ietf-httpapi-ratelimit-headers-10, whose letters are in one table: they may change
 * still. Pure.
 */
#ifndef NODE_GATEWAY_API_DECISION_JSON_H
#define NODE_GATEWAY_API_DECISION_JSON_H

#include "client/protocol/wire.h"
#include "node/gateway/http/http_reply.h"

/* Which header fields tell of the limit. */
enum decision_headers { DECISION_IETF, DECISION_LEGACY, DECISION_NO_HEADERS };
/* What a configuration calls these: ietf, legacy, off; and NULL. */
extern const char *const decision_headers_words[];

/* The status of HTTP: 200, that of the rule, 403 of a block, 503 of what could not be decided. */
unsigned decision_status(const struct wire_decision *decision);
/* How a decision is told. */
enum decision_manner {
    DECISION_BRIEF = 1,   /* without the texts of people: there is no room */
    DECISION_RESERVED = 2 /* what it gives is a reservation, not a lease */
};
/* Puts the decision into the body; `manner`: a sum of these. */
void decision_put(struct http_reply *reply, const struct wire_decision *decision, unsigned manner);
/* The same, with all limits that it has met, `rows`, as "explain". */
void decision_put_explained(struct http_reply *reply, const struct wire_decision *decision,
                            const struct wire_explain_row *rows, uint32_t count);
/* The header fields of a response that tells one decision; `now_ns` is Unix time. */
void decision_put_headers(struct http_reply *reply, const struct wire_decision *decision,
                          enum decision_headers kind, int64_t now_ns);

#endif
