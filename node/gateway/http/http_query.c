/* http_query.c - pairs of a query, decoded one after the other.
 *
 * HTTPQUERY-1  What is decoded is never longer than what it was, and never decoded again.
 */
#include "node/gateway/http/http_query.h"

#include <string.h>

#include "base/hex.h"

/* Decodes into *room, of which *len bytes are free; both are moved behind that. */
static bool decode(struct wire_text text, char **room, size_t *len, struct wire_text *out)
{
    size_t to = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i] == '+' ? ' ' : text.data[i];
        if (c == '%') {
            if (text.len - i < 3 || hex_digit(text.data[i + 1]) < 0 ||
                hex_digit(text.data[i + 2]) < 0)
                return false;
            c = (char)(hex_digit(text.data[i + 1]) << 4 | hex_digit(text.data[i + 2]));
            i += 2;
        }
        if (to == *len)
            return false;
        (*room)[to++] = c; /* HTTPQUERY-1 */
    }
    *out = (struct wire_text){*room, to};
    *room += to;
    *len -= to;
    return true;
}

/* What is before the first `c`; *text is what is behind it. */
static struct wire_text take(struct wire_text *text, char c)
{
    const char *found = text->len > 0 ? memchr(text->data, c, text->len) : NULL;
    const size_t len = found != NULL ? (size_t)(found - text->data) : text->len;
    const struct wire_text before = {text->data, len};
    const size_t used = len + (found != NULL);
    *text = (struct wire_text){text->data + used, text->len - used};
    return before;
}

enum http_query_found http_query_next(struct http_query *query, char *room, size_t room_len,
                                      struct wire_text *name, struct wire_text *value)
{
    while (query->left.len > 0) {
        struct wire_text pair = take(&query->left, '&');
        if (pair.len == 0)
            continue;
        const struct wire_text before = take(&pair, '=');
        return decode(before, &room, &room_len, name) && decode(pair, &room, &room_len, value)
                   ? HTTP_QUERY_PAIR
                   : HTTP_QUERY_BAD;
    }
    return HTTP_QUERY_END;
}
