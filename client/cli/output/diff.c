/* diff.c - see diff.h.
 *
 *      equal ...  | first  ............ last |  ... equal
 *                   lengths[i][j]: of the longest common sequence of what is left from there on
 *
 * DIFF-1  What was taken from either text is printed once, in its order.
 */
#include "client/cli/output/diff.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { CONTEXT = 3, CELLS_MAX = 4 << 20 };

struct lines {
    const char *text;
    size_t *starts; /* count + 1 of them */
    size_t count;
    size_t capacity;
};

struct diff {
    struct lines old;
    struct lines new;
    struct cli_text *out;
    bool colour;
    size_t told; /* lines of `old` told of, or left out */
    uint16_t *lengths;
    size_t width;
    size_t first; /* equal lines before it */
    size_t old_last;
    size_t new_last;
};

static bool split(struct lines *lines, const char *text, size_t len)
{
    lines->text = text;
    lines->count = 0;
    for (size_t i = 0; i < len; i++)
        lines->count += text[i] == '\n' || i + 1 == len;
    lines->capacity = lines->count + 1;
    lines->starts = alloc_array(alloc_heap(), lines->capacity, sizeof *lines->starts);
    if (lines->starts == NULL)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n' || i + 1 == len)
            lines->starts[++at] = i + 1;
    ASSERT(at == lines->count && lines->starts[at] == len); /* DIFF-1 */
    return true;
}

static void release(struct lines *lines)
{
    if (lines->starts != NULL)
        alloc_put(alloc_heap(), lines->starts, lines->capacity * sizeof *lines->starts);
}

static size_t length_of(const struct lines *lines, size_t at)
{
    ASSERT(at < lines->count && lines->starts[at] < lines->starts[at + 1]);
    return lines->starts[at + 1] - lines->starts[at];
}

static bool equal(const struct diff *diff, size_t old, size_t new)
{
    const size_t len = length_of(&diff->old, old);
    return len == length_of(&diff->new, new) &&
           memcmp(diff->old.text + diff->old.starts[old], diff->new.text + diff->new.starts[new],
                  len) == 0;
}

static void put_line(struct diff *diff, const struct lines *lines, size_t at, char mark)
{
    size_t len = length_of(lines, at);
    const char *line = lines->text + lines->starts[at];
    len -= len > 0 && line[len - 1] == '\n';
    if (diff->colour && mark != ' ')
        cli_text_str(diff->out, mark == '+' ? "\033[32m" : "\033[31m");
    cli_text_add(diff->out, &mark, 1);
    cli_text_shown(diff->out, line, len);
    cli_text_str(diff->out, diff->colour && mark != ' ' ? "\033[0m\n" : "\n");
}

/* Tells of equal lines before a difference at `old`: those near the last one, and near this one. */
static void put_context(struct diff *diff, size_t old, size_t since, bool more)
{
    for (; diff->told < old && diff->told < since + CONTEXT && since > 0; diff->told++)
        put_line(diff, &diff->old, diff->told, ' ');
    if (!more)
        return;
    if (diff->told + CONTEXT < old)
        diff->told = old - CONTEXT;
    if (since == 0 || diff->told > since + CONTEXT)
        cli_text_format(diff->out, "@@ line %zu @@\n", diff->told + 1);
    for (; diff->told < old; diff->told++)
        put_line(diff, &diff->old, diff->told, ' ');
}

static uint16_t *cell(const struct diff *diff, size_t old, size_t new)
{
    ASSERT(old >= diff->first && old <= diff->old_last && new >= diff->first);
    ASSERT(new <= diff->new_last && diff->lengths != NULL);
    return &diff->lengths[(old - diff->first) * diff->width + (new - diff->first)];
}

/* Sets equal ends aside and measures the rest; without `lengths` nothing of it is common. */
static void measure(struct diff *diff)
{
    diff->old_last = diff->old.count;
    diff->new_last = diff->new.count;
    while (diff->first < diff->old_last && diff->first < diff->new_last &&
           equal(diff, diff->first, diff->first))
        diff->first++;
    while (diff->old_last > diff->first && diff->new_last > diff->first &&
           equal(diff, diff->old_last - 1, diff->new_last - 1)) {
        diff->old_last--;
        diff->new_last--;
    }
    ASSERT(diff->first <= diff->old_last && diff->first <= diff->new_last);
    const size_t height = diff->old_last - diff->first + 1;
    diff->width = diff->new_last - diff->first + 1;
    if (height >= UINT16_MAX || diff->width >= UINT16_MAX || height > CELLS_MAX / diff->width)
        return;
    diff->lengths = alloc_array(alloc_heap(), height * diff->width, sizeof *diff->lengths);
    if (diff->lengths == NULL)
        return;
    for (size_t i = diff->old_last; i > diff->first; i--)
        for (size_t j = diff->new_last; j > diff->first; j--) {
            const uint16_t down = *cell(diff, i, j - 1);
            const uint16_t best = down > *cell(diff, i - 1, j) ? down : *cell(diff, i - 1, j);
            *cell(diff, i - 1, j - 1) =
                equal(diff, i - 1, j - 1) ? (uint16_t)(*cell(diff, i, j) + 1) : best;
        }
}

/* Whether the line of `old` goes next; else that of `new` comes. */
static bool old_goes(const struct diff *diff, size_t old, size_t new)
{
    if (old == diff->old_last || new == diff->new_last || diff->lengths == NULL)
        return old < diff->old_last;
    return *cell(diff, old + 1, new) >= *cell(diff, old, new + 1);
}

static void put_all(struct diff *diff)
{
    size_t old = diff->first;
    size_t new = diff->first;
    size_t since = 0; /* lines of `old` up to the end of the last difference; 0: none yet */
    while (old < diff->old_last || new < diff->new_last) {
        if (old < diff->old_last && new < diff->new_last && equal(diff, old, new)) {
            old++;
            new ++;
            continue;
        }
        if (since == 0 || old > diff->told)
            put_context(diff, old, since, true);
        if (old_goes(diff, old, new)) {
            put_line(diff, &diff->old, old++, '-');
            diff->told = old;
        } else {
            put_line(diff, &diff->new, new ++, '+');
        }
        since = old > 0 ? old : 1;
    }
    if (since > 0)
        put_context(diff, diff->old.count, since, false);
}

void cli_diff(struct cli_text *text, const char *old, size_t old_len, const char *new,
              size_t new_len, bool colour)
{
    struct diff diff = {.out = text, .colour = colour};
    if (split(&diff.old, old, old_len) && split(&diff.new, new, new_len)) {
        measure(&diff);
        put_all(&diff);
        if (diff.lengths != NULL)
            alloc_put(alloc_heap(), diff.lengths,
                      (diff.old_last - diff.first + 1) * diff.width * sizeof *diff.lengths);
    } else {
        text->failed = true;
    }
    release(&diff.old);
    release(&diff.new);
}
