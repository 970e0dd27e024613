/* check_api.h - /v1/check, peek, hit, refund, reset, lease, release, renew.
 *
 *   POST /v1/check   {"key":"ada","rate":"5/60s"}          --> 200 or 429, a decision
 *   POST /v1/check   {"checks":[{...}, ... at most 4096]}  --> 200, {"decisions":[...]}
 *   ?status=200      a single one has status 200, too, whatever was decided
 *
 * The checks of a list are independent of one another, and answered in their order. Of one request
 * in several limits all are charged or none is: that is a check by the rules. With Idempotency-Key
 * a request that is sent again within two seconds, through any node, is charged once, and answered
 * as it was.
 */
#ifndef NODE_GATEWAY_API_CHECK_API_H
#define NODE_GATEWAY_API_CHECK_API_H

#include "node/gateway/http/http_exchange.h"

http_handler_fn api_check;
http_handler_fn api_peek;
http_handler_fn api_hit;
http_handler_fn api_refund;
http_handler_fn api_reset;
http_handler_fn api_lease;
http_handler_fn api_release;
http_handler_fn api_renew;
http_handler_fn api_reserve;
http_handler_fn api_commit;
http_handler_fn api_cancel;

#endif
