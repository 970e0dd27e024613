/* policy_compile.c - compiling a rules file into an immutable policy.
 *
 *   text --yaml_reader--> tree --file_reader--> rules --sort--> ranks --policy_index--> index
 *                                                          '--> digest
 *
 * COMPILE-1  A policy is complete or not there: every failure gives all memory back.
 * COMPILE-2  Rules are in acting order: higher priority first, equal ones in file order.
 *
 * Must not: read files, or be called on the check path.
 */
#include "node/policy/compile/policy_compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/compile/ordinals.h"
#include "node/policy/index/policy_index.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/own_limits.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

/* The rules of a file are one array in file order, so their addresses tell equal priorities apart:
 * qsort alone is not stable. */
static int compare_rules(const void *a, const void *b)
{
    const struct policy_rule *left = *(const struct policy_rule *const *)a;
    const struct policy_rule *right = *(const struct policy_rule *const *)b;

    if (left->priority != right->priority)
        return left->priority > right->priority ? -1 : 1;
    return left < right ? -1 : 1;
}

/* Puts the rules in acting order (COMPILE-2). */
static int sort_rules(struct policy *policy)
{
    const size_t count = policy->rule_count;
    ASSERT(policy->rules == NULL && count <= POLICY_RULES_MAX + POLICY_TIERS_MAX);
    struct policy_rule **order = chunks_get(&policy->chunks, count, sizeof(struct policy_rule *));

    if (order == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i < count; i++)
        order[i] = &policy->listed[i];
    if (count > 1)
        qsort(order, count, sizeof(struct policy_rule *), compare_rules);
    for (size_t i = 0; i < count; i++)
        order[i]->rank = (uint16_t)i;
    policy->rules = order;
    return TG_OK;
}

/* A policy that lives in its own chunks, or NULL. */
static struct policy *new_policy(const struct allocator *allocator)
{
    struct chunks chunks;

    chunks_init(&chunks, allocator, POLICY_MEMORY_MAX);
    struct policy *policy = chunks_get(&chunks, 1, sizeof(*policy));
    if (policy != NULL)
        policy->chunks = chunks;
    return policy;
}

/* Under which name each rule is counted: all plans of users under one. */
static void name_counts(struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        struct policy_rule *rule = policy->rules[i];
        rule->counted = rule->plan ? own_limits_user_rule()->name : rule->name;
        if (rule->descriptor != NULL)
            rule->counted = policy_descriptor_counted(policy, rule);
    }
}

/* The index has moved the rules: descriptors point to where they are now. */
static void bind_descriptors(struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct policy_rule *rule = policy->rules[i];
        if (rule->descriptor != NULL)
            policy->descriptors->nodes[rule->descriptor->node].rule = rule;
    }
}

static int build_index(struct policy *policy)
{
    struct policy_index *index = chunks_get(&policy->chunks, 1, sizeof *index);

    if (index == NULL)
        return TG_ENOMEM;
    ASSERT(policy->index == NULL);
    policy->index = index;
    return policy_index_init(index, &policy->chunks, policy_kinds(policy), policy->rules,
                             policy->rule_count);
}

static int build(struct policy *policy, const struct yaml_reader *reader,
                 const struct policy_zones *zones)
{
    int result = policy_read_file(policy, reader);
    if (result == TG_OK)
        result = policy_bind_zones(policy, zones, reader->error);
    if (result == TG_OK)
        result = sort_rules(policy);
    if (result == TG_OK)
        result = build_index(policy);
    if (result == TG_OK) {
        bind_descriptors(policy);
        name_counts(policy);
        ordinals_place(policy);
        policy->digest = policy_digest_all(policy);
    }
    return result;
}

/* Tells the caller what the reader found, or that memory ran out. */
static void report(struct policy_error *error, int result, const struct yaml_reader_error *found)
{
    *error = (struct policy_error){0};
    if (result == TG_ENOMEM) {
        (void)snprintf(error->message, sizeof(error->message),
                       "out of memory while compiling the rules");
        return;
    }
    error->line = found->line;
    error->column = found->column;
    (void)snprintf(error->message, sizeof(error->message), "%s", found->message);
}

int policy_compile(const char *text, size_t len, const struct allocator *allocator,
                   struct policy **out, struct policy_error *error)
{
    return policy_compile_zoned(text, len, allocator, NULL, out, error);
}

int policy_compile_zoned(const char *text, size_t len, const struct allocator *allocator,
                         const struct policy_zones *zones, struct policy **out,
                         struct policy_error *error)
{
    return policy_compile_collecting(text, len, allocator, zones, out, error, NULL);
}

int policy_compile_collecting(const char *text, size_t len, const struct allocator *allocator,
                              const struct policy_zones *zones, struct policy **out,
                              struct policy_error *error, struct yaml_reader_errors *all)
{
    struct yaml_reader_error found;
    struct yaml_reader reader;

    ASSERT(out != NULL && error != NULL);
    *out = NULL;
    *error = (struct policy_error){0};
    int result = yaml_reader_init_stream(&reader, text, len, allocator, &found);
    if (result == TG_OK) {
        reader.all = all;
        struct policy *policy = new_policy(allocator);
        result = policy == NULL ? TG_ENOMEM : build(policy, &reader, zones);
        yaml_reader_fini(&reader);
        ASSERT(result != TG_OK || policy->index != NULL); /* COMPILE-1 */
        if (result == TG_OK)
            *out = policy;
        else
            policy_free(&policy);
    }
    if (result != TG_OK)
        report(error, result, &found);
    return result;
}
