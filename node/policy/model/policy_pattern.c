/* policy_pattern.c - matching patterns.
 *
 *   /user/{*}/posts/{*}        pattern /user/{*}/posts/{*} with {} around the runs
 *   /user/{42}/posts/{7/edit}  the inner run holds no '/', the trailing one may
 *
 * A pattern is matched left to right. At a `*` the shortest run is tried first, and on a mismatch
 * the latest `*` takes one byte more. Going back to an earlier `*` can never help: giving it more
 * bytes leaves the later one fewer, and both stop at the same '/'.
 *
 * Of a path, /a/ has lost its slash before it comes here. So that a pattern still holds it, the
 * last two bytes of /a/{*} may be left over: it holds /a, too.
 *
 * Almost every match ends after a few bytes. One that goes back often could compare each byte of
 * the text with each of the pattern; so, when it has, the places of all bytes of the text are
 * learned, as bits, and the pieces between stars are looked for at WIDTH places at once:
 *
 *   text          a b a a b b a
 *   places of a   1 0 1 1 0 0 1        piece "ab": those of a, and those of b
 *   places of b   0 1 0 0 1 1 0        moved by one:   1 0 0 1 0 0 .
 *
 * PATTERN-1  Each block of WIDTH places costs a piece little more than its length, and only those
 *            between the star and the next '/' are looked at, from left to right, none of them
 *            twice but those of the block in which a piece is found. A text has at most
 *            POLICY_VALUE_LEN_MAX / WIDTH blocks, so a match takes at most
 *            POLICY_PATTERN_STEPS_EACH steps a byte of both.
 *
 * Must not: allocate.
 */
#include "node/policy/model/policy_pattern.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"

enum {
    WIDTH = 57, /* of 64 places that are read from a whole byte on */
    FEW = 4,    /* places, at each of which the text is then compared as it is */
    FEW_EVERY = 8
};
#define NOWHERE SIZE_MAX

enum compared { MATCHES, DIFFERS, TAKES_LONG };

/* A text, a pattern, and how far both are matched: up to a star, of which `run` is the first byte
 * that it may take. */
struct matching {
    struct policy_pattern_space *space;
    struct policy_text pattern;
    struct policy_text text;
    size_t at;    /* of the pattern, behind the star */
    size_t run;   /* of the text */
    size_t slash; /* the first from `run` on, or the end */
    bool folds;
};

static void learn(struct policy_pattern_space *space, const struct policy_text *text)
{
    ASSERT(text->len <= POLICY_VALUE_LEN_MAX);
    space->data = text->data;
    space->len = text->len;
    memset(space->counts, 0, sizeof(space->counts));
    for (size_t i = 0; i < text->len; i++) {
        const uint8_t byte = (uint8_t)text->data[i];
        if (space->counts[byte]++ == 0)
            memset(space->rows[byte], 0, sizeof(space->rows[byte]));
        space->rows[byte][i / 8] |= (uint8_t)(1U << i % 8);
    }
}

/* The places from `at` on where the byte stands, the first WIDTH of them being right. */
static inline uint64_t places_of(const struct policy_pattern_space *space, char byte, size_t at)
{
    uint64_t word;

    memcpy(&word, space->rows[(uint8_t)byte] + at / 8, sizeof(word));
    return le64toh(word) >> at % 8;
}

/* The place of the byte in the piece that the text has least often; NOWHERE: it lacks one. */
static size_t rarest_byte(const struct policy_pattern_space *space, const struct policy_text *piece)
{
    size_t rarest = 0;
    uint16_t least = UINT16_MAX;

    for (size_t i = 0; i < piece->len; i++) {
        const uint16_t count = space->counts[(uint8_t)piece->data[i]];
        if (count < least) {
            least = count;
            rarest = i;
        }
    }
    return least == 0 ? NOWHERE : rarest;
}

/* Whether a word has so few bits that looking at each place costs less than at all together. */
static inline bool are_few(uint64_t found)
{
    for (int i = 0; i < FEW && found != 0; i++)
        found &= found - 1;
    return found == 0;
}

/* The first of a few places from `at` on where the text has the whole piece, or NOWHERE. */
static size_t look_at_each(struct policy_pattern_space *space, const struct policy_text *piece,
                           size_t at, uint64_t found)
{
    for (; found != 0; found &= found - 1) {
        const size_t place = at + (size_t)__builtin_ctzll(found);
        space->steps += piece->len / sizeof(uint64_t) + 1;
        if (memcmp(space->data + place, piece->data, piece->len) == 0)
            return place;
    }
    return NOWHERE;
}

/* Of the places from `at` on that are bits of `found`, the first where the text has the piece, or
 * NOWHERE. */
static size_t find_in_block(struct policy_pattern_space *space, const struct policy_text *piece,
                            size_t at, uint64_t found)
{
    for (size_t i = 0; i < piece->len; i++) {
        if (i % FEW_EVERY == 0 && are_few(found)) {
            space->steps += i;
            return look_at_each(space, piece, at, found);
        }
        found &= places_of(space, piece->data[i], at + i);
    }
    space->steps += piece->len;
    return found != 0 ? at + (size_t)__builtin_ctzll(found) : NOWHERE;
}

/* The first place in [from, last] where the text has the piece, or NOWHERE. */
static size_t find_piece(struct policy_pattern_space *space, const struct policy_text *piece,
                         size_t from, size_t last)
{
    const size_t rarest = rarest_byte(space, piece);
    size_t place = NOWHERE;

    space->steps += piece->len;
    if (piece->len == 0 || rarest == NOWHERE)
        return piece->len == 0 && from <= last ? from : NOWHERE;
    for (size_t at = from; at <= last && place == NOWHERE; at += WIDTH) {
        const size_t width = last - at + 1 < WIDTH ? last - at + 1 : WIDTH;
        const uint64_t found = places_of(space, piece->data[rarest], at + rarest);
        space->steps++;
        place = find_in_block(space, piece, at, found & ((UINT64_C(1) << width) - 1));
    }
    return place;
}

/* Whether the piece is the end of the text, and the star takes all before it. */
static bool ends_with(struct matching *matching, const struct policy_text *piece)
{
    const struct policy_text *text = &matching->text;

    if (piece->len > text->len || text->len - piece->len <= matching->run ||
        text->len - piece->len > matching->slash)
        return false;
    matching->space->steps += piece->len;
    return memcmp(text->data + text->len - piece->len, piece->data, piece->len) == 0;
}

/* Lets the star take what is before the first place of the piece behind it, and steps over both.
 * False if it is nowhere. */
static bool take_piece(struct matching *matching, const struct policy_text *piece)
{
    const struct policy_text *text = &matching->text;

    if (piece->len > text->len)
        return false;
    size_t last = text->len - piece->len;
    last = last < matching->slash ? last : matching->slash;
    const size_t found = find_piece(matching->space, piece, matching->run + 1, last);
    if (found == NOWHERE)
        return false;
    matching->at += piece->len + 1; /* a star is behind it */
    matching->run = found + piece->len;
    return true;
}

/* Matches the rest behind a star by the places of its pieces. */
static bool match_pieces(struct matching *matching)
{
    const struct policy_text *pattern = &matching->pattern;
    const struct policy_text *text = &matching->text;
    bool sought = false;

    for (;;) {
        const char *from = pattern->data + matching->at;
        const char *star = memchr(from, '*', pattern->len - matching->at);
        struct policy_text piece = {from, pattern->len - matching->at};
        if (!sought || matching->slash < matching->run) {
            const char *slash = matching->run < text->len ? memchr(text->data + matching->run, '/',
                                                                   text->len - matching->run)
                                                          : NULL;
            matching->slash = slash == NULL ? text->len : (size_t)(slash - text->data);
            sought = true;
        }
        if (star == NULL)
            return ends_with(matching, &piece);
        const bool trailing = star + 1 == pattern->data + pattern->len;
        piece.len = (size_t)(star - from);
        if (trailing && matching->folds && piece.len > 0) {
            const struct policy_text folded = {from, piece.len - 1};
            if (ends_with(matching, &folded))
                return true;
        }
        if (!take_piece(matching, &piece))
            return false;
        if (trailing)
            return true;
    }
}

/* Matches the rest behind the first star, whose place in both is given: not the last byte of the
 * pattern. */
static bool match_behind(struct policy_pattern_space *space, const struct policy_text *pattern,
                         const struct policy_text *text, bool folds)
{
    const char *star = memchr(pattern->data, '*', pattern->len);
    const size_t before = (size_t)(star - pattern->data); /* matched already */
    struct matching matching = {.space = space,
                                .pattern = *pattern,
                                .text = *text,
                                .at = before + 1,
                                .run = before,
                                .folds = folds};

    if (space->data != text->data || space->len != text->len)
        learn(space, text);
    return match_pieces(&matching);
}

/* Compares byte by byte, and goes back to the latest star, so long as that takes `steps_max` steps
 * at most; beyond it is left to the places of the text. Counts what it compared in *steps. */
static inline enum compared match_bytes(const struct policy_text *pattern,
                                        const struct policy_text *text, bool folds,
                                        size_t steps_max, size_t *steps)
{
    size_t p = 0;
    size_t t = 0;
    size_t back = 0;          /* steps of going back */
    size_t star_p = SIZE_MAX; /* just behind the latest inner * */
    size_t star_t = 0;        /* the first byte behind its run */

    for (;;) {
        if (p + 1 == pattern->len && pattern->data[p] == '*')
            break; /* a trailing * takes any rest */
        if (t == text->len && (p == pattern->len || (folds && p + 2 == pattern->len)))
            break;
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
        *steps = back + p;
        if (star_p == SIZE_MAX || star_t == text->len || text->data[star_t] == '/')
            return DIFFERS;
        back += p - star_p + 1;
        if (back > steps_max)
            return TAKES_LONG;
        p = star_p;
        t = ++star_t;
    }
    *steps = back + p;
    return MATCHES;
}

bool policy_pattern_match(const struct policy_text *pattern, const struct policy_text *text,
                          bool is_path, struct policy_pattern_space *space)
{
    const bool folds = is_path && policy_pattern_folds(pattern);
    const size_t steps_max = space->data == text->data ? 0 : POLICY_PATTERN_STEPS_FIRST;
    size_t steps;
    const enum compared compared = match_bytes(pattern, text, folds, steps_max, &steps);

    space->steps += steps;
    return compared == TAKES_LONG ? match_behind(space, pattern, text, folds) : compared == MATCHES;
}
