/* operate_api.h - operators' calls: the commands of the client protocol as requests and JSON. */
#ifndef NODE_GATEWAY_API_OPERATE_API_H
#define NODE_GATEWAY_API_OPERATE_API_H

#include "node/gateway/http/http_exchange.h"

/* The handler of all of them; the route says which. */
enum http_verdict api_operate(struct http_exchange *exchange);

#endif
