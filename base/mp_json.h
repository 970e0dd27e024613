/* mp_json.h - a msgpack value as JSON.
 *
 * What JSON cannot say becomes what it can: bytes a string of hexadecimal digits, what is no UTF-8
 * U+FFFD, a number that is not finite null, a key the string that it looks like.
 *
 * Any thread, on the caller's memory.
 */
#ifndef BASE_MP_JSON_H
#define BASE_MP_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mp.h"

/* Where the text goes, piece by piece. */
struct mp_sink {
    void (*put)(void *context, const char *data, size_t len);
    void *context;
};

/* The value that begins at `tokens`, of which there are `count`, as JSON in one line. The end of
 * the tokens within a container leaves it open. */
void mp_json(const struct mp_sink *sink, const struct mp_token *tokens, size_t count);
/* A string with its quotes. Nothing in it ends a line, moves a cursor, or is refused by a reader of
 * YAML. */
void mp_json_string(const struct mp_sink *sink, const char *data, size_t len);
/* A scalar; a container is null. */
void mp_json_scalar(const struct mp_sink *sink, const struct mp_token *token);
/* A key, whose string is in quotes whatever it was. */
void mp_json_key(const struct mp_sink *sink, const struct mp_token *token);
/* The digits of a token of bytes. */
void mp_json_hex(const struct mp_sink *sink, const struct mp_token *token);

#endif
