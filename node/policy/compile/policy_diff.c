/* policy_diff.c - two sorted lists of names, walked side by side; see policy_diff.h. */
#include "node/policy/compile/policy_diff.h"

#include <stdlib.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"

#define NO_PLACE UINT32_MAX

struct names {
    const struct policy_rule **rules;
    size_t count;
};

/* Where each rule of the old policy, in acting order, stands in the new one; NO_PLACE: not alike.
 */
struct places {
    uint32_t *after;
    size_t count;
};

static int compare_names(const void *a, const void *b)
{
    const struct policy_rule *left = *(const struct policy_rule *const *)a;
    const struct policy_rule *right = *(const struct policy_rule *const *)b;
    return policy_text_compare(&left->name, &right->name);
}

static bool sort_names(struct names *names, const struct policy *policy,
                       const struct allocator *allocator)
{
    names->count = policy_rule_count(policy);
    names->rules = alloc_array(allocator, names->count + 1, sizeof *names->rules);
    if (names->rules == NULL)
        return false;
    for (size_t i = 0; i < names->count; i++)
        names->rules[i] = policy_rule_at(policy, i);
    if (names->count > 1)
        qsort(names->rules, names->count, sizeof *names->rules, compare_names);
    return true;
}

static void release(struct names *names, const struct allocator *allocator)
{
    alloc_put(allocator, names->rules, (names->count + 1) * sizeof *names->rules);
}

static void note(struct policy_diff *diff, enum policy_difference what, uint32_t room,
                 const struct policy_rule *rule)
{
    ASSERT(diff->listed[what] <= diff->counts[what]);
    diff->counts[what]++;
    if (diff->rules[what] != NULL && diff->listed[what] < room)
        diff->rules[what][diff->listed[what]++] = rule;
}

static void walk(const struct names *old, const struct names *new, struct places *places,
                 uint32_t room, struct policy_diff *diff)
{
    size_t i = 0;
    size_t j = 0;
    ASSERT(places->count == old->count);
    while (i < old->count || j < new->count) {
        const struct policy_rule *a = i < old->count ? old->rules[i] : NULL;
        const struct policy_rule *b = j < new->count ? new->rules[j] : NULL;
        const int order = a == NULL ? 1 : b == NULL ? -1 : policy_text_compare(&a->name, &b->name);
        i += order <= 0;
        j += order >= 0;
        if (order < 0)
            note(diff, POLICY_REMOVED, room, a);
        else if (order > 0)
            note(diff, POLICY_ADDED, room, b);
        else if (policy_rule_digest(a) != policy_rule_digest(b))
            note(diff, POLICY_CHANGED, room, b);
        else
            places->after[a->rank] = b->rank;
    }
}

static bool init_places(struct places *places, const struct policy *old,
                        const struct allocator *allocator)
{
    places->count = policy_rule_count(old);
    places->after = alloc_array(allocator, places->count + 1, sizeof *places->after);
    for (size_t i = 0; places->after != NULL && i < places->count; i++)
        places->after[i] = NO_PLACE;
    return places->after != NULL;
}

static bool is_reordered(const struct places *places)
{
    uint32_t last = 0;
    for (size_t i = 0; i < places->count; i++) {
        if (places->after[i] == NO_PLACE)
            continue;
        if (places->after[i] < last)
            return true;
        last = places->after[i];
    }
    return false;
}

int policy_compare(const struct policy *old, const struct policy *new,
                   const struct allocator *allocator, uint32_t room, struct policy_diff *diff)
{
    struct names before = {.rules = NULL, .count = 0};
    struct names after = {.rules = NULL, .count = 0};
    struct places places = {.count = 0};
    diff->reordered = false;
    for (uint32_t i = 0; i < POLICY_DIFFERENCES; i++) {
        diff->counts[i] = 0;
        diff->listed[i] = 0;
    }
    const bool ok = sort_names(&before, old, allocator) && sort_names(&after, new, allocator) &&
                    init_places(&places, old, allocator);
    if (ok) {
        walk(&before, &after, &places, room, diff);
        diff->reordered = is_reordered(&places);
    }
    alloc_put(allocator, places.after, (places.count + 1) * sizeof *places.after);
    release(&before, allocator);
    release(&after, allocator);
    return ok ? 0 : TG_ENOMEM;
}
