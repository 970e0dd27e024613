/* policy_path.h - the one spelling of a path, for the files of this folder and client/replay.
 *
 * Callers spell one path in many ways, and a server behind them reads all of them alike: with a
 * query, with %7E for ~, with /./ and /../, with // or a slash at the end. policy_path_put writes
 * what they have in common.
 */
#ifndef NODE_POLICY_MODEL_POLICY_PATH_H
#define NODE_POLICY_MODEL_POLICY_PATH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Writes the one spelling of a path of 1 byte or more into `out`, which has room for `len` bytes,
 * and may be the text itself. Returns its length, from 1 to `len`. */
size_t policy_path_put(const char *text, size_t len, char *out);
/* How long the "scheme://host" is that the text begins with; 0 if there is none. */
size_t policy_path_origin(const char *text, size_t len);
/* Where a query or a fragment begins; `len` if there is none. */
size_t policy_path_end(const char *text, size_t len);

/* ---- whether there is anything to do: inline, for nearly every request has a path ------------ */

enum { POLICY_PATH_STEP = 16 };
typedef uint8_t policy_path_bytes __attribute__((vector_size(POLICY_PATH_STEP)));

#define POLICY_PATH_EACH(c)                                                                        \
    ((policy_path_bytes){(c), (c), (c), (c), (c), (c), (c), (c), (c), (c), (c), (c), (c), (c),     \
                         (c), (c)})

/* Whether one of 16 bytes ends a path or begins an escape, or is a slash that another or a dot
 * follows; so 17 bytes are read. They are looked at together. */
static inline bool policy_path_special(const char *at)
{
    policy_path_bytes here;
    policy_path_bytes next;
    uint64_t found[2];

    memcpy(&here, at, sizeof here);
    memcpy(&next, at + 1, sizeof next);
    const policy_path_bytes ends =
        (policy_path_bytes)((here == POLICY_PATH_EACH('?')) | (here == POLICY_PATH_EACH('#')) |
                            (here == POLICY_PATH_EACH('%')));
    const policy_path_bytes pairs =
        (policy_path_bytes)((here == POLICY_PATH_EACH('/')) &
                            ((next | POLICY_PATH_EACH(1)) == POLICY_PATH_EACH('/')));
    const policy_path_bytes either = ends | pairs;
    memcpy(found, &either, sizeof found);
    return (found[0] | found[1]) != 0;
}
static_assert(('.' | 1) == '/', "a dot and a slash differ in the last bit");

/* Whether policy_path_put would change nothing, as one scan can tell: false also for a path with an
 * escape that stays. */
static inline bool policy_path_is_plain(const char *text, size_t len)
{
    char few[POLICY_PATH_STEP + 1] = {0};
    const char last = len > 0 ? text[len - 1] : '?';

    if (last == '?' || last == '#' || last == '%' || (last == '/' && len > 1) || text[0] == '.')
        return false; /* the last byte is no first of two */
    if (len < sizeof few) {
        memcpy(few, text, len);
        return !policy_path_special(few);
    }
    for (size_t at = 0; at + sizeof few < len; at += POLICY_PATH_STEP) {
        if (policy_path_special(text + at))
            return false;
    }
    return !policy_path_special(text + len - sizeof few);
}

#endif
