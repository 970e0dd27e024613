/* page_frame.h - what each page begins and ends with. */
#ifndef NODE_GATEWAY_PAGE_PAGE_FRAME_H
#define NODE_GATEWAY_PAGE_PAGE_FRAME_H

#include "node/gateway/http/http_reply.h"

struct page_frame {
    const char *verdict; /* static: what the title begins with */
    const char *node;
    const char *version;
    const char *asked; /* what the form has; "" or NULL: nothing */
    bool live;         /* it keeps itself up to date */
};

/* The head, up to <main>. */
void page_begin(struct http_reply *reply, const struct page_frame *frame);
/* The form and all else behind </main>. */
void page_end(struct http_reply *reply, const struct page_frame *frame);

#endif
