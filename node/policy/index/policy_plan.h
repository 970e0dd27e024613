/* policy_plan.h - what must be compared to see whether a rule acts, packed into one piece of
 * memory.
 *
 * With thousands of rules a request's cost is cache misses, not comparisons. A rule as listed is
 * spread over a dozen places; its plan is a few neighbouring cache lines, texts included:
 *
 *   header | key attribute.. | condition | condition ..          all in 32-bit words
 *   condition: attribute | words that follow | values | value ..
 *   value:     length, PLAN_WILD if it holds a * | its bytes, padded to whole words
 *              length, PLAN_BLOCK              | a struct policy_block, of an address
 *
 * PLAN_PATH beside PLAN_WILD: it is matched as paths are.
 *
 * Attributes and groups are small numbers here; the index gives them out.
 */
#ifndef NODE_POLICY_INDEX_POLICY_PLAN_H
#define NODE_POLICY_INDEX_POLICY_PLAN_H

#include "node/policy/model/chunks.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_pattern.h"

#define POLICY_PLAN_WILD  0x80000000U
#define POLICY_PLAN_BLOCK 0x40000000U
#define POLICY_PLAN_PATH  0x20000000U
#define POLICY_PLAN_LEN   0x1fffffffU

struct policy_plan {
    const struct policy_rule *rule;
    uint32_t group; /* 0 = none */
    uint8_t act;    /* enum policy_act */
    uint8_t match_count;
    uint8_t key_count;
    uint8_t ipv6_prefix;
    bool shadow;
    bool missing_deny;
    uint32_t words[];
};

enum { POLICY_PLAN_ALIGN = 8 };

/* The bytes that a rule's plan takes, a multiple of POLICY_PLAN_ALIGN. */
size_t policy_plan_len(const struct policy_rule *rule);
/* Packs a rule into policy_plan_len(rule) aligned bytes. `attributes` are the numbers of its
 * matched and then of its key attributes. */
void policy_plan_put(struct policy_plan *plan, const struct policy_rule *rule,
                     const uint32_t *attributes, uint32_t group);

/* The numbers of the key attributes, plan->key_count of them. */
static inline const uint32_t *policy_plan_key(const struct policy_plan *plan)
{
    return plan->words;
}

/* The first of plan->match_count conditions, and the one behind `condition`. */
static inline const uint32_t *policy_plan_conditions(const struct policy_plan *plan)
{
    return plan->words + plan->key_count;
}
static inline const uint32_t *policy_plan_next(const uint32_t *condition)
{
    return condition + 2 + condition[1];
}

/* Whether a match value is a block of addresses: an address with a slash and without a star. */
bool policy_plan_is_block(const struct policy_match *match, const struct policy_text *value);
/* Whether one of the condition's values matches `value`; `ip` is the address that it is, if it is
 * one. `space` is that of the request. */
bool policy_plan_holds(const uint32_t *condition, const struct policy_text *value,
                       const struct policy_ip *ip, struct policy_pattern_space *space);

#endif
