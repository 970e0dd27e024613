/* openapi.h - GET /v1/openapi.json: the table of routes as a document of OpenAPI 3.1. */
#ifndef NODE_GATEWAY_API_OPENAPI_H
#define NODE_GATEWAY_API_OPENAPI_H

#include "node/gateway/http/http_exchange.h"

http_handler_fn api_openapi;

#endif
