/* events_api.h - GET /v1/events: what came about lately, as JSON, or as a stream of server-sent
 * events (HTML Living Standard, 9.2).
 *
 *   id: 1764208010123456                      the event's id; Last-Event-ID of who comes again
 *   event: told | begun | over | missed
 *   data: {"id":...,"time":...,"says":...}    as of the JSON
 *
 * Who names no event that it knows, by Last-Event-ID or ?after=, is told all that are kept.
 */
#ifndef NODE_GATEWAY_API_EVENTS_API_H
#define NODE_GATEWAY_API_EVENTS_API_H

#include "node/gateway/http/http_exchange.h"

/* The handler. */
enum http_verdict api_events(struct http_exchange *exchange);

#endif
