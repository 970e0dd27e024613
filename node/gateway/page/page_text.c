/* page_text.c - see page_text.h.
 *
 * PAGE-1  What nodes say is text: each letter that HTML gives a meaning to is written as a
 *         reference, and control characters as U+FFFD.
 */
#include "node/gateway/page/page_text.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

enum { CHARACTER_MAX = 4, NUMBER_LEN = 48 };

void page_put(struct http_reply *reply, const char *markup)
{
    if (reply->form.stream == HTTP_STREAM_NONE) {
        http_put_text(reply, markup);
        return;
    }
    for (const char *end; (end = strchr(markup, '\n')) != NULL; markup = end + 1) {
        http_put(reply, markup, (size_t)(end - markup));
        http_put_text(reply, "\ndata: ");
    }
    http_put_text(reply, markup);
}

void page_put_bytes(struct http_reply *reply, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        const size_t step = utf8_len(text + i, len - i);
        const char *at = text + i;
        const bool control = step == 0 || (unsigned char)*at < ' ' || *at == 0x7f ||
                             (step == 2 && at[0] == '\xc2' && (unsigned char)at[1] < 0xa0);
        i += step == 0 ? 1 : step;
        ASSERT(step <= CHARACTER_MAX);
        if (*at == '\n' || *at == '\t')
            http_put_text(reply, " ");
        else if (control)
            http_put_text(reply, "\xef\xbf\xbd");
        else if (*at == '<')
            http_put_text(reply, "&lt;");
        else if (*at == '>')
            http_put_text(reply, "&gt;");
        else if (*at == '&')
            http_put_text(reply, "&amp;");
        else if (*at == '"')
            http_put_text(reply, "&quot;");
        else if (*at == '\'')
            http_put_text(reply, "&#39;");
        else
            http_put(reply, at, step);
    }
}

void page_put_text(struct http_reply *reply, const char *text)
{
    page_put_bytes(reply, text, strlen(text));
}

void page_put_sentence(struct http_reply *reply, const char *text)
{
    bool code = false;
    for (const char *end; (end = strchr(text, '`')) != NULL; text = end + 1) {
        page_put_bytes(reply, text, (size_t)(end - text));
        page_put(reply, code ? "</code>" : "<code>");
        code = !code;
    }
    page_put_text(reply, text);
    page_put(reply, code ? "</code>" : "");
}

void page_put_number(struct http_reply *reply, double number, int decimals)
{
    char text[NUMBER_LEN];
    (void)snprintf(text, sizeof text, "%.*f", decimals, number);
    http_put_text(reply, text);
}
