/* policy_join.c - see policy_join.h.
 *
 *   policy_join(base, with)  = a copy of the base's head that points to the base's rules
 *        '-- base: shared, so that these rules live as long
 *        '-- with: owned
 */
#include "node/policy/people/policy_join.h"

#include "node/policy/model/policy_internal.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"
#include "node/policy/rights/credentials.h"

static void free_joined(struct policy *policy)
{
    policy_free(&policy->base);
    blocks_free(&policy->joined.blocks);
    api_keys_free(&policy->joined.api_keys);
    people_free(&policy->joined.people);
    credentials_free(&policy->joined.credentials);
    alloc_put(policy->joiner, policy, sizeof *policy);
}

int policy_join(const struct allocator *allocator, const struct policy *base,
                const struct policy_joined *with, struct policy **out)
{
    struct policy *policy = alloc_get(allocator, sizeof *policy);

    *out = NULL;
    if (policy == NULL)
        return TG_ENOMEM;
    *policy = *base; /* what it points to lives in the base, which is kept as long */
    policy->shares = 0;
    policy->base = base != policy_empty() ? policy_share((struct policy *)(uintptr_t)base) : NULL;
    policy->joined = *with;
    policy->joiner = allocator;
    policy->free_joined = free_joined;
    *out = policy;
    return TG_OK;
}

const struct policy_joined *policy_joined(const struct policy *policy)
{
    return &policy->joined;
}
