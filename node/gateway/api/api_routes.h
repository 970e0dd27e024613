/* api_routes.h - the one table of what HTTP is answered here. */
#ifndef NODE_GATEWAY_API_API_ROUTES_H
#define NODE_GATEWAY_API_API_ROUTES_H

#include "node/gateway/http/http_routes.h"

/* The table; *count gets its length. */
const struct http_route *api_routes(size_t *count);

#endif
