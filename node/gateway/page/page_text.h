/* page_text.h - bytes of a page: markup, and what others wrote, which stays text.
 *
 * In a stream of server-sent events each line of it is one of the event's data.
 */
#ifndef NODE_GATEWAY_PAGE_PAGE_TEXT_H
#define NODE_GATEWAY_PAGE_PAGE_TEXT_H

#include "node/gateway/http/http_reply.h"

/* Markup of our own. */
void page_put(struct http_reply *reply, const char *markup);
/* What nodes, rules and people are called, or say (PAGE-1). */
void page_put_text(struct http_reply *reply, const char *text);
/* The same of a sentence, in which `this` is a command. */
void page_put_sentence(struct http_reply *reply, const char *text);
void page_put_bytes(struct http_reply *reply, const char *text, size_t len);
/* A number with so many decimals. */
void page_put_number(struct http_reply *reply, double number, int decimals);

#endif
