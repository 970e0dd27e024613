/* policy_internal.h - what a compiled policy is made of; for node/policy alone.
 *
 *   struct policy --> rules[rule_count]   where each is, in acting order ("rank")
 *                 --> index               (attribute, text) -> which of them to look at
 *                       plan | rule, plan | rule, ..   its plan says when it acts (policy_plan.h)
 *
 * All of it lives in the policy's chunks and, but for the count of those who share it, is never
 * changed after compilation.
 */
#ifndef NODE_POLICY_MODEL_POLICY_INTERNAL_H
#define NODE_POLICY_MODEL_POLICY_INTERNAL_H

#include <stdatomic.h>

#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/chunks.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_joined.h"

enum { POLICY_MEMORY_MAX = 512 * 1024 * 1024 /* of one compiled policy */ };
static_assert(POLICY_RULES_MAX + POLICY_TIERS_MAX <= UINT16_MAX, "a rank fits");

struct policy {
    struct chunks chunks;    /* everything below, and this struct's own allocator */
    _Atomic uint32_t shares; /* how often policy_free leaves it in place */
    struct policy *base;     /* whose rules these are, if it is joined of them; or NULL */
    struct policy_joined joined;
    const struct allocator *joiner; /* of a joined policy, which is its own; else NULL */
    /* Frees a joined policy, but not the rules that it shares; else NULL. */
    void (*free_joined)(struct policy *policy);
    struct policy_rule *listed; /* in file order, as they were read */
    size_t listed_max;          /* for which there is room */
    struct policy_rule **rules; /* by rank; once the index is built, those behind their plans */
    size_t rule_count;
    struct policy_pool *pools; /* by name */
    size_t pool_count;
    const struct attribute_kinds *kinds;   /* NULL: those of a file that says nothing */
    const struct descriptors *descriptors; /* NULL: there are no domains */
    bool unmatched_deny;
    uint64_t digest;
    const struct policy_index *index; /* NULL: there are no rules */
};

/* Under which name a rule of a domain is counted. */
static inline struct policy_text policy_descriptor_counted(const struct policy *policy,
                                                           const struct policy_rule *rule)
{
    const struct descriptors *descriptors = policy->descriptors;
    const uint32_t domain = descriptors->nodes[rule->descriptor->node].domain;
    return descriptors->domains[domain].given.counted;
}

/* The digest of all that the policy means. */
uint64_t policy_digest_all(const struct policy *policy);

/* Orders two texts by bytes, as memcmp does, a prefix first. */
int policy_text_compare(const struct policy_text *a, const struct policy_text *b);
static inline bool policy_text_equal(const struct policy_text *a, const struct policy_text *b)
{
    return policy_text_compare(a, b) == 0;
}
static inline bool policy_text_is(const struct policy_text *text, const char *word)
{
    const struct policy_text other = {word, __builtin_strlen(word)};
    return policy_text_equal(text, &other);
}

#endif
