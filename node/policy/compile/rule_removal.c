/* rule_removal.c - takes one rule out of a document; see rule_removal.h.
 *
 *     rules:
 *       - name: a           <- from the dash of the rule ...
 *         limits: ...
 *
 *       # about b           <- ... to before what belongs to the next line that is not deeper
 *       - name: b
 *
 *     rules: [{name: a, ...}, {name: b, ...}]
 *             |<--------------->|       from its brace to behind the comma; of the last one, from
 *                                       the comma before it
 *
 * REMOVAL-1  Whether that was right is not argued but tried: the result has to compile to the same
 *            rules without that one. If it does not, the document is written otherwise, and is left
 *            alone.
 */
#include <string.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_diff.h"
#include "node/policy/compile/rule_removal.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/readers/document.h"
#include "node/policy/readers/yaml_reader.h"

struct span {
    size_t start;
    size_t end; /* behind it */
};

/* The item that begins with the brace at `start`, with one of the commas beside it. False if it
 * does not end. */
static bool flow_item(const struct document *document, size_t start, struct span *out)
{
    const char *text = document->text;
    size_t end = document_brackets_end(document, start);
    if (end == 0)
        return false;
    *out = (struct span){start, end};
    while (end < document->len && document_is_space(text[end]))
        end++;
    if (end < document->len && text[end] == ',') {
        for (end++; end < document->len && document_is_space(text[end]);)
            end++;
        out->end = end;
        return true;
    }
    while (start > 0 && document_is_space(text[start - 1]))
        start--;
    if (start > 0 && text[start - 1] == ',')
        out->start = start - 1;
    return true;
}

/* ---- finding --------------------------------------------------------------------------------- */

static uint32_t find_rule(const struct yaml_reader *reader, const struct policy_text *name)
{
    const uint32_t list = document_value(reader, reader->root, "rules");
    uint32_t rule = list == YAML_READER_NONE ? list : yaml_reader_at(reader, list)->first;
    for (; rule != YAML_READER_NONE; rule = yaml_reader_at(reader, rule)->next) {
        const struct yaml_reader_node *found =
            yaml_reader_at(reader, document_value(reader, rule, "name"));
        if (found->len == name->len && memcmp(found->text, name->data, name->len) == 0)
            return rule;
    }
    return YAML_READER_NONE; /* of the older form, where rules have no names in the file */
}

/* Where a rule stands. */
struct place {
    uint32_t line;   /* from 1 */
    uint32_t column; /* from 1; 0: not known */
    bool only;       /* there is no other in the list */
};

/* Of a rule of a document that compiles. */
static int find_place(const char *text, size_t len, const struct policy_text *name,
                      const struct allocator *allocator, struct place *out)
{
    struct yaml_reader_error ignored;
    struct yaml_reader reader;
    const int result = yaml_reader_init_stream(&reader, text, len, allocator, &ignored);
    if (result != 0)
        return result;
    const uint32_t rule = find_rule(&reader, name);
    if (rule != YAML_READER_NONE) {
        out->line = yaml_reader_at(&reader, rule)->line;
        out->column = yaml_reader_at(&reader, rule)->column;
        out->only =
            yaml_reader_at(&reader, document_value(&reader, reader.root, "rules"))->len == 1;
    }
    yaml_reader_fini(&reader);
    return 0;
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* Whether `out` has the same rules but one (REMOVAL-1). */
static bool is_right(const char *out, size_t len, const struct policy *before,
                     const struct policy_text *name, const struct policy_zones *zones,
                     const struct allocator *allocator)
{
    struct policy *after;
    struct policy_error error;
    struct policy_diff diff = {.rules = {NULL, NULL, NULL}};
    if (policy_compile_zoned(out, len, allocator, zones, &after, &error) != 0)
        return false;
    const bool right = policy_compare(before, after, allocator, 0, &diff) == 0 &&
                       diff.counts[POLICY_REMOVED] == 1 && diff.counts[POLICY_ADDED] == 0 &&
                       diff.counts[POLICY_CHANGED] == 0 &&
                       policy_rule_find(after, name->data, name->len) == NULL &&
                       policy_unmatched_deny(after) == policy_unmatched_deny(before) &&
                       attribute_kinds_equal(policy_kinds(after), policy_kinds(before));
    policy_free(&after);
    return right;
}

static int cut(const struct document *from, const struct place *where, char *out, size_t capacity,
               size_t *out_len)
{
    static const char none[] = "  []\n";
    const struct document_line line = document_line(from, where->line);
    const size_t place = document_place(from, &line, where->column);
    const bool block = line.first == '-';
    struct span item = {line.start, 0};
    if (block)
        item.end = document_block_end(from, &line);
    else if (where->column == 0 || place == from->len || from->text[place] != '{' ||
             !flow_item(from, place, &item))
        return TG_EUNSUPPORTED;
    if (from->len + sizeof none > capacity)
        return TG_ETOOBIG;
    memcpy(out, from->text, item.start);
    *out_len = item.start;
    if (block && where->only) {
        memcpy(out + *out_len, none, sizeof none - 1);
        *out_len += sizeof none - 1;
    }
    memcpy(out + *out_len, from->text + item.end, from->len - item.end);
    *out_len += from->len - item.end;
    return 0;
}

int policy_remove_rule(const char *text, size_t len, const struct policy_text *name,
                       const struct policy_zones *zones, const struct allocator *allocator,
                       char *out, size_t capacity, size_t *out_len, uint32_t *line)
{
    struct policy *policy;
    struct policy_error error;
    const struct document from = {text, len};
    struct place where = {.line = 0};
    *out_len = 0;
    *line = 0;
    int result = policy_compile_zoned(text, len, allocator, zones, &policy, &error);
    if (result != 0)
        return result;
    const struct policy_rule *rule = policy_rule_find(policy, name->data, name->len);
    if (rule == NULL) {
        result = TG_ENOTFOUND;
    } else {
        where.line = rule->line;
        /* Without it another descriptor may be met by what met it: that is for people to see. */
        result = rule->descriptor != NULL ? TG_EUNSUPPORTED
                                          : find_place(text, len, name, allocator, &where);
        *line = where.line;
    }
    if (result == 0)
        result = cut(&from, &where, out, capacity, out_len);
    if (result == 0 && !is_right(out, *out_len, policy, name, zones, allocator))
        result = TG_EUNSUPPORTED;
    policy_free(&policy);
    return result;
}
