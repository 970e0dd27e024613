/* mp_walk.c - see mp_walk.h.
 *
 * MPWALK-1  A walk is never deeper than what mp_parse takes: MP_DEPTH_MAX.
 */
#include "base/mp_walk.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void mp_walk_push(struct mp_walk *walk, const struct mp_token *token)
{
    const bool map = token->type == MP_MAP;
    ASSERT(walk->depth < MP_WALK_MAX && mp_is_container(token)); /* MPWALK-1 */
    walk->frames[walk->depth++] = (struct mp_frame){
        .left = map ? 2 * (uint64_t)token->count : token->count,
        .map = map,
        .first = true,
    };
}

struct mp_frame *mp_walk_top(struct mp_walk *walk)
{
    return walk->depth > 0 ? &walk->frames[walk->depth - 1] : NULL;
}

bool mp_walk_at_key(const struct mp_frame *frame)
{
    return frame != NULL && frame->map && frame->left % 2 == 0;
}

size_t mp_value_len(const struct mp_token *tokens, size_t count)
{
    uint64_t left = 1;
    size_t used = 0;
    while (left > 0 && used < count) {
        const struct mp_token *token = &tokens[used++];
        left--;
        if (mp_is_container(token))
            left += token->type == MP_MAP ? 2 * (uint64_t)token->count : token->count;
    }
    ASSERT(used <= count);
    return used;
}

const struct mp_token *mp_find(const struct mp_token *tokens, size_t count, const char *name)
{
    const uint32_t pairs = count > 0 && tokens[0].type == MP_MAP ? tokens[0].count : 0;
    const size_t len = strlen(name);
    size_t at = 1;
    for (uint32_t i = 0; i < pairs && at < count; i++) {
        const size_t value = at + mp_value_len(tokens + at, count - at);
        const struct mp_token *key = &tokens[at];
        if (value < count && key->type == MP_STR && key->count == len &&
            memcmp(key->data, name, len) == 0)
            return &tokens[value];
        at = value + mp_value_len(tokens + value, count - value);
    }
    return NULL;
}

void mp_text_of(const struct mp_token *token, char *out, size_t capacity)
{
    const bool text = token != NULL && token->type == MP_STR;
    (void)snprintf(out, capacity, "%.*s", text ? (int)token->count : 0,
                   text ? (const char *)token->data : "");
}
