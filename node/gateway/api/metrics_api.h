/* metrics_api.h - /metrics: what the control core tells of the node, as it is. */
#ifndef NODE_GATEWAY_API_METRICS_API_H
#define NODE_GATEWAY_API_METRICS_API_H

#include "node/gateway/http/http_exchange.h"

/* Asks for the command `metrics`, and answers its text: 200, or 503 with why there is none. */
http_handler_fn api_metrics;

#endif
