/* openapi_operators.h - operators' calls in the document of openapi.c, of their table. */
#ifndef NODE_GATEWAY_API_OPENAPI_OPERATORS_H
#define NODE_GATEWAY_API_OPENAPI_OPERATORS_H

#include "node/gateway/http/http_reply.h"
#include "node/gateway/http/http_routes.h"

/* Who may ask, the parameters and the body of the call, each behind a comma. Pure. */
void openapi_put_call(struct http_reply *reply, const struct http_route *route);
/* What it answers with success, a comma behind it. */
void openapi_put_answers(struct http_reply *reply, const struct operate_call *call);

#endif
