/* http_probe.h - /livez and /readyz: whether the process lives, and whether to send requests here.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_PROBE_H
#define NODE_GATEWAY_HTTP_HTTP_PROBE_H

#include "node/gateway/http/http_exchange.h"

/* 200 as long as anybody answers: neither quorum, disk nor peers are looked at, for one failure
 * would have every node killed that sees it. */
http_handler_fn http_live;
/* 200 while the node decides or can pass on; else 503, and why. */
http_handler_fn http_ready;

#endif
