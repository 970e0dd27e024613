/* policy_join.h - rules in force, together with what operators keep beside them one by one.
 *
 *   rules (compiled from one document) + blocks + ... --> one policy that shards resolve with
 *
 * Rules are compiled seldom and are costly; the rest changes often. So a joined policy shares the
 * rules of its base, and only the parts that changed are made anew.
 *
 * JOIN-1  A joined policy is a policy: immutable, shared by shards, freed by policy_free.
 * JOIN-2  What was joined lives exactly as long as it.
 */
#ifndef NODE_POLICY_PEOPLE_POLICY_JOIN_H
#define NODE_POLICY_PEOPLE_POLICY_JOIN_H

#include "node/policy/model/policy.h"
#include "node/policy/model/policy_joined.h"

/* The rules of `base` with these, which are its own from now on unless this fails; `base` stays the
 * caller's. 0 or TG_ENOMEM. Free it with policy_free. */
MUST_USE int policy_join(const struct allocator *allocator, const struct policy *base,
                         const struct policy_joined *with, struct policy **out);
/* What the policy was joined with: lives as long as the policy. */
const struct policy_joined *policy_joined(const struct policy *policy);

#endif
