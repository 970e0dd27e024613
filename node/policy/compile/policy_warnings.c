/* policy_warnings.c - see policy_warnings.h. */
#include "node/policy/compile/policy_warnings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mp.h"
#include "node/policy/compile/policy_crowd.h"
#include "node/policy/model/descriptors.h"

struct warnings {
    struct policy_warning *out;
    size_t max;
    size_t count;
};

static struct policy_warning *add(struct warnings *warnings, uint32_t line)
{
    if (warnings->count == warnings->max)
        return NULL;
    struct policy_warning *warning = &warnings->out[warnings->count++];
    warning->line = line;
    return warning;
}

static int compare_rules(const void *a, const void *b)
{
    const struct policy_rule *const *left = a;
    const struct policy_rule *const *right = b;
    return ((*left)->line > (*right)->line) - ((*left)->line < (*right)->line);
}

static void warn_crowd(struct warnings *warnings, struct policy_crowd *crowd)
{
    enum { NAME_SHOWN = 32 };
    char names[POLICY_CROWD_MAX * (NAME_SHOWN + 2) + 1] = "";
    size_t len = 0;

    if (crowd->count == 0)
        return;
    qsort(crowd->rules, crowd->count, sizeof crowd->rules[0], compare_rules);
    for (uint32_t i = 0; i < crowd->count; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.*s", i > 0 ? ", " : "",
                                NAME_SHOWN, crowd->rules[i]->name.data);
    struct policy_warning *warning = add(warnings, crowd->rules[crowd->count - 1]->line);
    if (warning != NULL)
        (void)snprintf(warning->message, sizeof warning->message,
                       "more than 8 rules with limits %s meet on one request as far as their "
                       "conditions tell, which is an error then: %s; expected at most 8, or a "
                       "group, of which one acts",
                       crowd->guessed ? "may (there are too many combinations to be sure)" : "can",
                       names);
}

static void warn_soft(struct warnings *warnings, const struct policy_rule *rule)
{
    for (uint8_t i = 0; i < rule->limit_count; i++) {
        const struct limit *limit = &rule->limits[i];
        const struct limit effective = limit_effective(limit);
        if (limit->exceed_percent == 0 || effective.count != limit->count ||
            effective.burst != limit->burst)
            continue;
        struct policy_warning *warning = add(warnings, rule->line);
        if (warning == NULL)
            return;
        (void)snprintf(warning->message, sizeof warning->message,
                       "rule %.64s: soft by %u%% of %s is less than one: the limit is as hard as "
                       "one without it; expected a larger share, or a larger limit",
                       rule->name.data, (unsigned)limit->exceed_percent, rule->windows[i]);
    }
}

static int compare_lines(const void *a, const void *b)
{
    const struct policy_warning *left = a;
    const struct policy_warning *right = b;
    return (left->line > right->line) - (left->line < right->line);
}

/* Keys that the reference ignores where they stand. */
static void warn_notes(struct warnings *warnings, const struct descriptors *descriptors)
{
    for (uint32_t i = 0; descriptors != NULL && i < descriptors->note_count; i++) {
        const struct descriptor_note *note = &descriptors->notes[i];
        struct policy_warning *warning = add(warnings, note->line);
        if (warning != NULL)
            (void)snprintf(warning->message, sizeof warning->message,
                           "found \"%s\" in a %s, where it has no effect; expected it elsewhere",
                           note->key, note->where);
    }
}

int policy_warnings(const struct policy *policy, const struct allocator *allocator,
                    struct policy_warning *out, size_t max)
{
    struct warnings warnings = {.out = out, .max = max};
    struct policy_crowd crowd;

    const int result = policy_crowd_find(policy, allocator, &crowd);
    if (result != TG_OK)
        return result;
    warn_crowd(&warnings, &crowd);
    for (size_t i = 0; i < policy_rule_count(policy); i++)
        if (policy_rule_at(policy, i)->enabled)
            warn_soft(&warnings, policy_rule_at(policy, i));
    warn_notes(&warnings, policy_descriptors(policy));
    qsort(out, warnings.count, sizeof *out, compare_lines);
    return (int)warnings.count;
}

void policy_warnings_put(struct mp_writer *writer, const struct policy_warning *warnings,
                         size_t count)
{
    mp_put_str(writer, "warnings");
    mp_put_array(writer, count);
    for (size_t i = 0; i < count; i++) {
        mp_put_map(writer, 2);
        mp_put_str(writer, "line");
        mp_put_uint(writer, warnings[i].line);
        mp_put_str(writer, "message");
        mp_put_str(writer, warnings[i].message);
    }
}
