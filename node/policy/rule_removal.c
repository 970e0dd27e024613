/* rule_removal.c - takes the lines of one rule out of a document; see rule_removal.h.
 *
 *     rules:
 *       - name: a           <- from the dash of the rule ...
 *         limits: ...
 *
 *       # about b           <- ... to before what belongs to the next line that is not deeper
 *       - name: b
 *
 * I1  Whether that was right is not argued but tried: the result has to compile to the same rules
 *     without that one. If it does not, the document is written otherwise, and is left alone.
 */
#include <string.h>

#include "node/policy/policy_diff.h"
#include "node/policy/rule_removal.h"

struct line {
    size_t start;
    size_t end;    /* behind its newline */
    size_t indent; /* of its first character that is no space */
    char first;    /* that character; 0: blank */
};

static struct line line_at(const char *text, size_t len, size_t start)
{
    struct line line = {.start = start, .end = start, .indent = 0, .first = 0};
    while (line.end < len && text[line.end] != '\n') {
        const char c = text[line.end];
        if (line.first == 0 && c != ' ' && c != '\t' && c != '\r') {
            line.first = c;
            line.indent = line.end - start;
        }
        line.end++;
    }
    line.end += line.end < len;
    return line;
}

/* The line of that number, from 1. */
static struct line line_of(const char *text, size_t len, uint32_t number)
{
    struct line line = line_at(text, len, 0);
    for (uint32_t i = 1; i < number && line.end < len; i++)
        line = line_at(text, len, line.end);
    return line;
}

/* Where the item ends that begins with the dash of `item`. */
static size_t end_of(const char *text, size_t len, const struct line *item)
{
    size_t end = item->end;
    for (size_t at = item->end; at < len;) {
        const struct line line = line_at(text, len, at);
        const bool empty = line.first == 0 || line.first == '#';
        if (!empty && line.indent <= item->indent)
            break;
        at = line.end;
        if (!empty || (line.first == '#' && line.indent > item->indent))
            end = at; /* comments at its own depth belong to what follows */
    }
    return end;
}

/* Whether `out` has the same rules but that one (I1). */
static bool is_right(const char *out, size_t len, const struct policy *before,
                     const struct policy_text *name, const struct policy_zones *zones,
                     const struct allocator *allocator)
{
    struct policy *after;
    struct policy_error error;
    if (policy_compile_zoned(out, len, allocator, zones, &after, &error) != 0)
        return false;
    struct policy_diff diff = {.counts = {0}};
    const bool right = policy_compare(before, after, allocator, 0, &diff) == 0 &&
                       diff.counts[POLICY_ADDED] == 0 && diff.counts[POLICY_CHANGED] == 0 &&
                       diff.counts[POLICY_REMOVED] == 1 &&
                       policy_rule_find(after, name->data, name->len) == NULL &&
                       policy_unmatched_deny(after) == policy_unmatched_deny(before);
    policy_free(&after);
    return right;
}

/* Copies the document without the rule; `last`: with an empty list in its place. */
static int cut(const char *text, size_t len, const struct policy_rule *rule, bool last, char *out,
               size_t capacity, size_t *out_len)
{
    static const char none[] = "  []\n";
    const struct line item = line_of(text, len, rule->line);
    if (item.first != '-')
        return TG_EUNSUPPORTED;
    const size_t end = end_of(text, len, &item);
    if (len + sizeof none > capacity)
        return TG_ETOOBIG;
    memcpy(out, text, item.start);
    *out_len = item.start;
    if (last) {
        memcpy(out + *out_len, none, sizeof none - 1);
        *out_len += sizeof none - 1;
    }
    memcpy(out + *out_len, text + end, len - end);
    *out_len += len - end;
    return 0;
}

int policy_remove_rule(const char *text, size_t len, const struct policy_text *name,
                       const struct policy_zones *zones, const struct allocator *allocator,
                       char *out, size_t capacity, size_t *out_len)
{
    struct policy *policy;
    struct policy_error error;
    *out_len = 0;
    int result = policy_compile_zoned(text, len, allocator, zones, &policy, &error);
    if (result != 0)
        return result;
    const struct policy_rule *rule = policy_rule_find(policy, name->data, name->len);
    result = rule == NULL ? TG_ENOTFOUND : TG_EUNSUPPORTED;
    for (uint32_t last = 0; last < 2 && result == TG_EUNSUPPORTED; last++) { /* I1 */
        result = cut(text, len, rule, last != 0, out, capacity, out_len);
        if (result == 0 && !is_right(out, *out_len, policy, name, zones, allocator))
            result = TG_EUNSUPPORTED;
    }
    policy_free(&policy);
    return result;
}
