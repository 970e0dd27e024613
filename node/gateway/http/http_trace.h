/* http_trace.h - the spans of requests of HTTP: begun here, ended where the response is complete.
 *
 * A request is traced if it has one `traceparent` that is valid, and the sampler takes it; or, if
 * it asks for checks, as the sampler's own. Several `traceparent` are none. */
#ifndef NODE_GATEWAY_HTTP_HTTP_TRACE_H
#define NODE_GATEWAY_HTTP_HTTP_TRACE_H

#include "node/gateway/http/http_exchange.h"

/* The number of the span that the request has from now on, or 0. */
uint32_t http_trace_begin(const struct http_exchange *exchange);
/* The same for one whose checks, `count` from `first` on, are in exchange->builder. */
uint32_t http_trace_asked(const struct http_exchange *exchange, uint32_t first, uint32_t count);

#endif
