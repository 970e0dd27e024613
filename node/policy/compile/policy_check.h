/* policy_check.h - whether a compiled policy is whole: its order, index, plans, limits and pools,
 * and those who may ask, where it is joined with them.
 *
 * For tests and fuzzers: it looks at every rule, value and place, and allocates nothing.
 */
#ifndef NODE_POLICY_COMPILE_POLICY_CHECK_H
#define NODE_POLICY_COMPILE_POLICY_CHECK_H

struct policy;

/* Asserts the invariants that a policy alone can show. */
void policy_check_invariants(const struct policy *policy);

#endif
