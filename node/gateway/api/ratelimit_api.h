/* ratelimit_api.h - the rate limit service by HTTP: /json and /healthcheck.
 *
 *   POST /json {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ada"}],
 *                "limit": {"requestsPerUnit": 5, "unit": "MINUTE"}, "hitsAddend": "1"}]}
 *   200, or 429: {"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":5,
 *                "unit":"MINUTE"},"limitRemaining":4,"durationUntilReset":"42s"}]}
 *
 * The messages are those of gRPC in the JSON of Protocol Buffers: fields in either spelling, whole
 * numbers in quotes or not, units by name or number; what is not known is refused, and zeros are
 * left out of the answer.
 */
#ifndef NODE_GATEWAY_API_RATELIMIT_API_H
#define NODE_GATEWAY_API_RATELIMIT_API_H

#include "node/gateway/http/http_exchange.h"
#include "node/gateway/http/http_routes.h"

http_handler_fn ratelimit_api_json;
/* 200 while the process lives and has rules, 500 else: neither quorum, disk nor peers are looked
 * at. */
http_handler_fn ratelimit_api_health;
extern const struct http_document ratelimit_api_document;

#endif
