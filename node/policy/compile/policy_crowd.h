/* policy_crowd.h - whether more rules with limits can meet on one request than may act on it.
 *
 * Such a request is an error (POLICY_OVERFLOW), which nobody wants to find out by it. What is told
 * is sound, not exact: where nothing is found no request can be one; what is found may still be
 * kept apart by what is not looked at (an allow or block rule before, two patterns with one
 * beginning).
 */
#ifndef NODE_POLICY_COMPILE_POLICY_CROWD_H
#define NODE_POLICY_COMPILE_POLICY_CROWD_H

#include "node/policy/model/policy.h"

enum { POLICY_CROWD_MAX = POLICY_PARTS_MAX + 1 };

struct policy_crowd {
    uint32_t count; /* 0: no request can meet too many; else POLICY_CROWD_MAX */
    bool guessed;   /* the rules are too many and too entangled to look at every combination */
    const struct policy_rule *rules[POLICY_CROWD_MAX]; /* some of which all can meet */
};

/* Looks for enabled rules that throttle in earnest and can meet; of a group one counts. Its work is
 * bounded, whatever the rules are. 0 or TG_ENOMEM. Not for the check path: it allocates. */
MUST_USE int policy_crowd_find(const struct policy *policy, const struct allocator *allocator,
                               struct policy_crowd *out);

#endif
