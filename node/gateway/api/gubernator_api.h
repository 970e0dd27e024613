/* gubernator_api.h - pb.gubernator.V1 by HTTP: POST /v1/GetRateLimits, GET /v1/HealthCheck and
 * /v1/LiveCheck. */
#ifndef NODE_GATEWAY_API_GUBERNATOR_API_H
#define NODE_GATEWAY_API_GUBERNATOR_API_H

#include "node/gateway/http/http_routes.h"

http_handler_fn gubernator_api_limits;
extern const struct http_document gubernator_api_document; /* of that */
/* 503 where the node is not ready. */
http_handler_fn gubernator_api_health;
http_handler_fn gubernator_api_live;

#endif
