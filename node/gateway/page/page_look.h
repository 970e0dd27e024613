/* page_look.h - GET /look?request=...&see=...: what becomes of a request, asked about on a page.
 *
 *   see=left    every limit that it meets, and what is left of it (a peek, explained)
 *   see=rules   which rules act on it, and why the others do not (rules.explain)
 *   see=owner   which nodes count and decide (owner)
 *
 * It changes nothing.
 */
#ifndef NODE_GATEWAY_PAGE_PAGE_LOOK_H
#define NODE_GATEWAY_PAGE_PAGE_LOOK_H

#include "node/gateway/http/http_exchange.h"

enum http_verdict page_look(struct http_exchange *exchange);

#endif
