/* page_parts.h - what of the page never changes, and who may be asked for what by it. */
#ifndef NODE_GATEWAY_PAGE_PAGE_PARTS_H
#define NODE_GATEWAY_PAGE_PAGE_PARTS_H

extern const char page_style[];
extern const char page_script[];
/* Content-Security-Policy: that style and that script by their digests, and nothing else. */
extern const char page_policy[];

#endif
