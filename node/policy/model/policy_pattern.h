/* policy_pattern.h - whether a text matches a pattern, in time linear in the two.
 *
 * A trailing * is any rest, also none; an inner or leading * is one or more bytes other than '/'.
 * Of a path, which has lost a slash at its end, a trailing / and * are any rest behind a slash, or
 * neither.
 */
#ifndef NODE_POLICY_MODEL_POLICY_PATTERN_H
#define NODE_POLICY_MODEL_POLICY_PATTERN_H

#include "node/policy/model/policy.h"

enum {
    /* A bit for each place of a text, and what is read behind the last. */
    POLICY_PATTERN_ROW = POLICY_VALUE_LEN_MAX / 8 + 8,
    /* What looking at the bytes one after the other may cost, before their places are learned. */
    POLICY_PATTERN_STEPS_FIRST = 128,
    /* A match costs at most so many steps for each byte of pattern and text, and those. */
    POLICY_PATTERN_STEPS_EACH = 5,
};

/* Where each byte of one text stands. It is learned when a pattern makes it worth it, and serves
 * all patterns that this text is then compared with. */
struct policy_pattern_space {
    const char *data; /* the text, which must stay as it is; NULL: none is learned */
    size_t len;
    uint64_t steps;       /* of all comparisons: bytes or words, and a few a value */
    uint16_t counts[256]; /* how often each byte is there */
    uint8_t rows[256][POLICY_PATTERN_ROW]; /* of those that are */
};

/* An empty one. The rest of it is not touched before it is needed. */
static inline void policy_pattern_begin(struct policy_pattern_space *space)
{
    space->data = NULL;
    space->steps = 0;
}

/* Whether `text`, of at most POLICY_VALUE_LEN_MAX bytes, matches `pattern`. */
bool policy_pattern_match(const struct policy_text *pattern, const struct policy_text *text,
                          bool is_path, struct policy_pattern_space *space);
/* Whether it ends with a slash and a star, and has something before them. */
static inline bool policy_pattern_folds(const struct policy_text *pattern)
{
    return pattern->len > 2 && pattern->data[pattern->len - 2] == '/' &&
           pattern->data[pattern->len - 1] == '*';
}

#endif
