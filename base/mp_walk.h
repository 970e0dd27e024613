/* mp_walk.h - the tokens of a msgpack value, found by name and walked without recursion.
 *
 *   {"a": [1]}      tokens  MAP(1)   STR a      ARRAY(1)   UINT 1
 *                   stack   {2       {1         {0 [1      (all closed)
 *
 * Any thread, on the caller's memory.
 */
#ifndef BASE_MP_WALK_H
#define BASE_MP_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mp.h"

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
/* The value of that name in the map that begins at `tokens`; NULL: there is none, or no map. How
 * many tokens are left from there on is `count` less what is before it. */
const struct mp_token *mp_find(const struct mp_token *tokens, size_t count, const char *name);
/* Copies a text and a NUL, as much as fits; "" of what is no text. */
void mp_text_of(const struct mp_token *token, char *out, size_t capacity);

#endif
