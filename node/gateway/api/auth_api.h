/* auth_api.h - /v1/auth: a proxy asks whether a request may pass.
 *
 *   ANY /v1/auth             the endpoint `default`
 *   ANY /v1/auth/NAME[/...]  that endpoint; what follows is of the caller's request
 *
 * The rules decide by what auth_request.h reads. It passes: the endpoint's status, 204 or 200, and
 * RateLimit. It does not: 429, or the status of the rule or of the endpoint, with Retry-After and a
 * problem that names the rule. What cannot be decided is 503: the proxy's own setting tells what to
 * do then.
 */
#ifndef NODE_GATEWAY_API_AUTH_API_H
#define NODE_GATEWAY_API_AUTH_API_H

#include "node/gateway/http/http_exchange.h"

http_handler_fn api_auth;

#endif
