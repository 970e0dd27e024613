/* mp_json.h - a msgpack value as JSON, and how its tokens are walked.
 *
 *   {"a": [1]}      tokens  MAP(1)   STR a      ARRAY(1)   UINT 1
 *                   stack   {2       {1         {0 [1      (all closed)
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

/* ---- walking --------------------------------------------------------------------------------- */

enum { MP_WALK_MAX = MP_DEPTH_MAX + 1 };

/* An open container, and how many values it waits for. */
struct mp_frame {
    uint64_t left; /* a map counts keys and values: an even number means that a key comes next */
    bool map;
    bool first;
};

struct mp_walk {
    struct mp_frame frames[MP_WALK_MAX];
    size_t depth;
};

static inline bool mp_is_container(const struct mp_token *token)
{
    return token->type == MP_ARRAY || token->type == MP_MAP;
}

/* Opens the container. */
void mp_walk_push(struct mp_walk *walk, const struct mp_token *token);
/* The innermost open container, or NULL. */
struct mp_frame *mp_walk_top(struct mp_walk *walk);
/* Whether a key comes next in the container; NULL: no. */
bool mp_walk_at_key(const struct mp_frame *frame);
/* How many tokens the value has that begins at `tokens`. */
size_t mp_value_len(const struct mp_token *tokens, size_t count);

#endif
