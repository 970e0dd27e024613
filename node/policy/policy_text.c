/* policy_text.c - comparing texts, and matching patterns.
 *
 * A pattern is matched left to right. At a `*` the shortest run is tried first, and on a mismatch
 * the latest `*` takes one byte more. Going back to an earlier `*` can never help: giving it more
 * bytes leaves the later one fewer, and both stop at the same '/'.
 *
 *   /user/{*}/posts/{*}        pattern /user/{*}/posts/{*} with {} around the runs
 *   /user/{42}/posts/{7/edit}  the inner run holds no '/', the trailing one may
 *
 * Of a path, /a/ has lost its slash before it comes here. So that a pattern still holds it, the
 * last two bytes of /a/{*} may be left over: it holds /a, too.
 *
 * Must not: allocate.
 */
#include <string.h>

#include "node/policy/policy_internal.h"

int policy_text_compare(const struct policy_text *a, const struct policy_text *b)
{
    const size_t len = a->len < b->len ? a->len : b->len;
    const int order = len == 0 ? 0 : memcmp(a->data, b->data, len);

    if (order != 0)
        return order;
    return (a->len > b->len) - (a->len < b->len);
}

bool policy_pattern_match(const struct policy_text *pattern, const struct policy_text *text,
                          bool is_path)
{
    const bool folds = is_path && policy_pattern_folds(pattern);
    size_t p = 0;
    size_t t = 0;
    size_t star_p = SIZE_MAX; /* just behind the latest inner * */
    size_t star_t = 0;        /* the first byte behind its run */

    for (;;) {
        if (p + 1 == pattern->len && pattern->data[p] == '*')
            return true; /* a trailing * takes any rest */
        if (t == text->len && (p == pattern->len || (folds && p + 2 == pattern->len)))
            return true;
        const bool star = p < pattern->len && pattern->data[p] == '*';
        if (star && t < text->len && text->data[t] != '/') {
            star_p = ++p;
            star_t = ++t;
            continue;
        }
        if (!star && p < pattern->len && t < text->len && pattern->data[p] == text->data[t]) {
            p++;
            t++;
            continue;
        }
        if (star_p == SIZE_MAX || star_t == text->len || text->data[star_t] == '/')
            return false;
        p = star_p;
        t = ++star_t;
    }
}
