/* http_check.h - POST /v1/check: one key, one limit, one decision. */
#ifndef NODE_GATEWAY_HTTP_HTTP_CHECK_H
#define NODE_GATEWAY_HTTP_HTTP_CHECK_H

#include "node/gateway/http/http_exchange.h"

/* {"key": "ada", "rate": "5/60s"} --> 200 or 429, and the figures of the decision. */
http_handler_fn http_check;

#endif
