/* policy.c - what a compiled policy holds, listed; and how long it lives.
 *
 * Must not: read files, allocate, or change a policy.
 */
#include "node/policy/model/policy.h"

#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"

static const struct policy empty_policy = {.kinds = NULL};

const struct policy *policy_empty(void)
{
    return &empty_policy;
}

struct policy *policy_share(struct policy *policy)
{
    const uint32_t before = atomic_fetch_add(&policy->shares, 1);
    ASSERT(before < UINT32_MAX && policy != &empty_policy);
    return policy;
}

void policy_free(struct policy **pointer)
{
    struct policy *policy = *pointer;

    *pointer = NULL;
    if (policy == NULL || policy == &empty_policy || atomic_fetch_sub(&policy->shares, 1) != 0)
        return;
    ASSERT((policy->joiner != NULL) == (policy->free_joined != NULL)); /* JOIN-1 */
    if (policy->joiner != NULL) {
        policy->free_joined(policy);
        return;
    }
    struct chunks chunks = policy->chunks; /* the policy itself is in there */
    chunks_fini(&chunks);
}

uint64_t policy_digest(const struct policy *policy)
{
    return policy->digest;
}

bool policy_unmatched_deny(const struct policy *policy)
{
    return policy->unmatched_deny;
}

size_t policy_rule_count(const struct policy *policy)
{
    return policy->rule_count;
}

const struct attribute_kinds *policy_kinds(const struct policy *policy)
{
    return policy->kinds != NULL ? policy->kinds : attribute_kinds_default();
}

size_t policy_pool_count(const struct policy *policy)
{
    return policy->pool_count;
}

const struct policy_pool *policy_pool_at(const struct policy *policy, size_t index)
{
    ASSERT(index < policy->pool_count);
    return &policy->pools[index];
}

const struct policy_pool *policy_pool_find(const struct policy *policy, const char *name,
                                           size_t len)
{
    const struct policy_text wanted = {name, len};

    for (size_t i = 0; i < policy->pool_count; i++) {
        if (policy_text_equal(&policy->pools[i].name, &wanted))
            return &policy->pools[i];
    }
    return NULL;
}

const struct policy_pool *policy_pool_by_id(const struct policy *policy, uint32_t id)
{
    for (size_t i = 0; i < policy->pool_count; i++) {
        if (policy->pools[i].id == id)
            return &policy->pools[i];
    }
    return NULL;
}

bool policy_has_quorum(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy->rules[i]->enabled && policy->rules[i]->consistency == POLICY_CONSISTENCY_QUORUM)
            return true;
    }
    return false;
}

bool policy_has_global(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy->rules[i]->enabled && policy->rules[i]->scope == POLICY_SCOPE_GLOBAL)
            return true;
    }
    for (size_t i = 0; i < policy->pool_count; i++) {
        if (policy->pools[i].scope == POLICY_SCOPE_GLOBAL)
            return true;
    }
    return false;
}

const struct policy_rule *policy_rule_at(const struct policy *policy, size_t index)
{
    ASSERT(index < policy->rule_count);
    return policy->rules[index];
}

const struct policy_rule *policy_rule_find(const struct policy *policy, const char *name,
                                           size_t len)
{
    const struct policy_text wanted = {name, len};

    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy_text_equal(&policy->rules[i]->name, &wanted))
            return policy->rules[i];
    }
    return NULL;
}
