/* page.h - GET /: the cluster at a glance, as a page of a browser.
 *
 *   status command --> struct screen (client/screen) --> HTML
 *
 * What it says and shows is what `tidegate status` does, from the same place. It is whole without
 * JavaScript, and then loads itself again; with it, it keeps itself up to date.
 */
#ifndef NODE_GATEWAY_PAGE_PAGE_H
#define NODE_GATEWAY_PAGE_PAGE_H

#include "node/gateway/http/http_exchange.h"

/* GET / */
enum http_verdict page_show(struct http_exchange *exchange);
/* GET /live: what stands in <main>, every two seconds, as server-sent events; their name is the
 * verdict. */
enum http_verdict page_live(struct http_exchange *exchange);

#endif
