/* policy_path.h - the one spelling of a path, for the files of this folder and client/replay.
 *
 * Callers spell one path in many ways, and a server behind them reads all of them alike: with a
 * query, with %7E for ~, with /./ and /../, with // or a slash at the end. policy_path_put writes
 * what they have in common.
 */
#ifndef NODE_POLICY_POLICY_PATH_H
#define NODE_POLICY_POLICY_PATH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

/* Writes the one spelling of a path of 1 byte or more into `out`, which has room for `len` bytes.
 * Returns its length, from 1 to `len`. */
size_t policy_path_put(const char *text, size_t len, char *out);
/* How long the "scheme://host" is that the text begins with; 0 if there is none. */
size_t policy_path_origin(const char *text, size_t len);
/* Where a query or a fragment begins; `len` if there is none. */
size_t policy_path_end(const char *text, size_t len);

/* ---- whether there is anything to do: inline, for nearly every request has a path ------------ */

enum { POLICY_PATH_WORD = 8 };

#define POLICY_PATH_EACH(c) (UINT64_C(0x0101010101010101) * (uint8_t)(c))

/* The high bit of each byte of `word` that is 0; above one, also of a byte that is 1. */
static inline uint64_t policy_path_zeros(uint64_t word)
{
    return (word - POLICY_PATH_EACH(1)) & ~word & POLICY_PATH_EACH(0x80);
}

/* Whether one of eight bytes ends a path or begins an escape, or a slash is followed by another or
 * a dot. They are looked at together: nearly every request has a path. */
static inline bool policy_path_special(uint64_t word)
{
    const uint64_t ends = policy_path_zeros(word ^ POLICY_PATH_EACH('?')) |
                          policy_path_zeros(word ^ POLICY_PATH_EACH('#')) |
                          policy_path_zeros(word ^ POLICY_PATH_EACH('%'));
    const uint64_t slashes = policy_path_zeros(word ^ POLICY_PATH_EACH('/'));
    const uint64_t either =
        policy_path_zeros((word & ~POLICY_PATH_EACH(1)) ^ POLICY_PATH_EACH('.')); /* . is / - 1 */

    return (ends | (slashes << 8 & either)) != 0; /* a 1 above a slash is a dot: special as well */
}
static_assert('.' + 1 == '/' && '.' % 2 == 0, "a dot and a slash differ in the last bit");

/* Whether policy_path_put would change nothing, as one scan can tell: false also for a path with an
 * escape that stays. */
static inline bool policy_path_is_plain(const char *text, size_t len)
{
    const uint8_t *bytes = (const uint8_t *)text;
    uint8_t few[POLICY_PATH_WORD] = {0};

    if (len == 0 || text[0] == '.' || (len > 1 && text[len - 1] == '/'))
        return false;
    if (len < POLICY_PATH_WORD) {
        memcpy(few, text, len);
        return !policy_path_special(bytes_u64_at(few, 0));
    }
    for (size_t at = 0; at + POLICY_PATH_WORD < len;
         at += POLICY_PATH_WORD - 1) { /* so that no two are torn apart */
        if (policy_path_special(bytes_u64_at(bytes + at, 0)))
            return false;
    }
    return !policy_path_special(bytes_u64_at(bytes + len - POLICY_PATH_WORD, 0));
}

#endif
