/* policy_diff.h - which rules two policies do not have alike.
 *
 * Rules are the same if they mean the same, whatever they look like: a rule is known by its name,
 * and compared by what the digest of a policy covers. Not for the check path: it takes memory.
 */
#ifndef NODE_POLICY_COMPILE_POLICY_DIFF_H
#define NODE_POLICY_COMPILE_POLICY_DIFF_H

#include "node/policy/model/policy.h"

enum policy_difference { POLICY_ADDED, POLICY_REMOVED, POLICY_CHANGED, POLICY_DIFFERENCES };

/* How many rules differ in each way, and the first of them in the order of their names. */
struct policy_diff {
    uint32_t counts[POLICY_DIFFERENCES];
    uint32_t listed[POLICY_DIFFERENCES];
    const struct policy_rule **rules[POLICY_DIFFERENCES]; /* of `new`, but REMOVED: of `old` */
    bool reordered; /* of the rules that are alike some act in another order */
};

/* Compares in time n log n. `diff->rules` are the caller's, or NULL, with room for `room` each; the
 * rules in them live as long as the policies. 0 or TG_ENOMEM. */
MUST_USE int policy_compare(const struct policy *old, const struct policy *new,
                            const struct allocator *allocator, uint32_t room,
                            struct policy_diff *diff);

#endif
