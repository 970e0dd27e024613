/* http_query.h - what stands behind the '?' of a target: NAME=VALUE&NAME=VALUE.
 *
 * '+' is a blank, as forms write it; escapes are decoded, once. Pure.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_QUERY_H
#define NODE_GATEWAY_HTTP_HTTP_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "client/protocol/wire_base.h"

struct http_query {
    struct wire_text left; /* to be read */
};

enum http_query_found { HTTP_QUERY_END, HTTP_QUERY_PAIR, HTTP_QUERY_BAD };

/* Takes the next pair, decoded into `room` of `room_len` bytes; a name without '=' has an empty
 * value, and empty pairs are passed over. BAD: an escape is none, or the pair has no room. */
enum http_query_found http_query_next(struct http_query *query, char *room, size_t room_len,
                                      struct wire_text *name, struct wire_text *value);

#endif
