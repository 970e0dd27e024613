/* policy_path.c - a path as RFC 3986 (6.2.2, 5.2.4) writes it, with its slashes folded.
 *
 *   http://shop.example/a/%7Euser/./b/../c//d/?page=2#top
 *   1  query and fragment off          http://shop.example/a/%7Euser/./b/../c//d/
 *   2  scheme and host off             /a/%7Euser/./b/../c//d/
 *   3  unreserved characters decoded   /a/~user/./b/../c//d/
 *   4  dot segments taken out          /a/~user/c//d/
 *   5  slashes folded                  /a/~user/c/d
 *
 * Letters keep their case, but for the two digits of an escape that stays (%2f is %2F). An escape
 * that is none stays as it is; so do `;parameters`, `*` and backslashes. What is left empty is "/".
 *
 * PATH-1  The result is never longer than the text.
 * PATH-2  The result is its own one spelling. So step 3 also decodes an escape that came of
 *         decoding: %4%31 is %41 is A.
 * PATH-3  No segment is removed that the text does not spell as one of dots, or that `..` takes
 *         away.
 *
 * Must not: allocate.
 */
#include "node/policy/model/policy_path.h"

#include <string.h>

#include "base/assert.h"
#include "base/hex.h"

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_unreserved(char c)
{
    return is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* ---- parts ----------------------------------------------------------------------------------- */

size_t policy_path_end(const char *text, size_t len)
{
    size_t end = 0;

    while (end < len && text[end] != '?' && text[end] != '#')
        end++;
    return end;
}

size_t policy_path_origin(const char *text, size_t len)
{
    size_t at = 0;

    if (len == 0 || !is_alpha(text[0]))
        return 0;
    while (at < len && (is_alpha(text[at]) || is_digit(text[at]) || text[at] == '+' ||
                        text[at] == '-' || text[at] == '.'))
        at++;
    if (len - at < 3 || memcmp(text + at, "://", 3) != 0)
        return 0;
    at += 3;
    while (at < len && text[at] != '/' && text[at] != '?' && text[at] != '#')
        at++;
    return at;
}

/* Decodes the escape that `out` ends with, again if that makes one (PATH-2); one that stays is
 * written in upper case. Returns the new length. */
static size_t decode_tail(char *out, size_t len)
{
    while (len >= 3 && out[len - 3] == '%') {
        const int high = hex_digit(out[len - 2]);
        const int low = hex_digit(out[len - 1]);
        if (high < 0 || low < 0)
            return len;
        const char c = (char)(high << 4 | low);
        if (!is_unreserved(c)) {
            out[len - 2] = upper(out[len - 2]);
            out[len - 1] = upper(out[len - 1]);
            return len;
        }
        len -= 2;
        out[len - 1] = c;
    }
    return len;
}

static size_t decode(const char *text, size_t len, char *out)
{
    size_t to = 0;

    for (size_t i = 0; i < len; i++) {
        out[to++] = text[i];
        to = decode_tail(out, to);
        ASSERT(to >= 1 && to <= i + 1); /* PATH-1 */
    }
    return to;
}

/* Whether `text` is `word`, or begins with it and a slash. */
static bool is_segment(const char *text, size_t len, const char *word)
{
    const size_t word_len = strlen(word);

    return len >= word_len && memcmp(text, word, word_len) == 0 &&
           (len == word_len || text[word_len] == '/');
}

/* The length without the last segment and the slash before it. */
static size_t drop_segment(const char *text, size_t len)
{
    while (len > 0 && text[--len] != '/') {
    }
    return len;
}

/* Takes out dot segments in place, as RFC 3986 5.2.4 does. Returns the new length. */
static size_t remove_dots(char *text, size_t len)
{
    size_t from = 0;
    size_t to = 0;

    for (;;) { /* those at the very beginning, with no slash before them */
        const bool up = is_segment(text + from, len - from, "..");
        if (!up && !is_segment(text + from, len - from, "."))
            break;
        from += up ? 2 : 1;
        if (from == len)
            return 0;
        from++; /* the slash behind */
    }
    while (from < len) {
        const bool up = is_segment(text + from, len - from, "/..");
        if (!up && !is_segment(text + from, len - from, "/.")) {
            do
                text[to++] = text[from++];
            while (from < len && text[from] != '/');
            continue;
        }
        to = up ? drop_segment(text, to) : to;
        from += up ? 3 : 2;
        if (from == len)
            text[to++] = '/'; /* a/b/.. is a/ */
    }
    return to;
}

/* Folds slashes that follow each other in place, and takes off one at the end. */
static size_t fold_slashes(char *text, size_t len)
{
    size_t to = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] != '/' || to == 0 || text[to - 1] != '/')
            text[to++] = text[i];
    }
    return to > 1 && text[to - 1] == '/' ? to - 1 : to;
}

size_t policy_path_put(const char *text, size_t len, char *out)
{
    const size_t end = policy_path_end(text, len);
    const size_t origin = policy_path_origin(text, end);

    ASSERT(len > 0);
    size_t out_len = decode(text + origin, end - origin, out);
    out_len = remove_dots(out, out_len);
    out_len = fold_slashes(out, out_len);
    if (out_len == 0)
        out[out_len++] = '/';
    ASSERT(out_len <= len); /* PATH-1 */
    return out_len;
}
