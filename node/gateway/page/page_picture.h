/* page_picture.h - pictures of the page, as SVG: ten minutes of decisions, and the ring. */
#ifndef NODE_GATEWAY_PAGE_PAGE_PICTURE_H
#define NODE_GATEWAY_PAGE_PAGE_PICTURE_H

#include "client/screen/screen.h"
#include "node/gateway/http/http_reply.h"

/* What was decided in ten minutes, allowed and denied; nothing if nobody asked. */
void page_put_history(struct http_reply *reply, const struct screen_history *history);
/* Which node decides how much of the own region's ring; nothing where it is not known. */
void page_put_ring(struct http_reply *reply, const struct screen *screen);

#endif
