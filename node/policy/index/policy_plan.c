/* policy_plan.c - packing a rule for comparison, and comparing. See policy_plan.h for the layout.
 *
 * PLAN-1  A plan says what its rule says: it is written once, from the rule, and never changed.
 */
#include "node/policy/index/policy_plan.h"

#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_pattern.h"

enum { VALUE_STEPS = 2 }; /* a value that differs costs about so many steps of a pattern */

static size_t words_of(size_t bytes)
{
    return (bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t);
}

bool policy_plan_is_block(const struct policy_match *match, const struct policy_text *value)
{
    return match->kind == ATTRIBUTE_ADDRESS && memchr(value->data, '*', value->len) == NULL &&
           memchr(value->data, '/', value->len) != NULL;
}

/* The bytes that a value takes in a condition. */
static size_t value_len(const struct policy_match *match, const struct policy_text *value)
{
    return policy_plan_is_block(match, value) ? sizeof(struct policy_block) : value->len;
}

static size_t condition_words(const struct policy_match *match)
{
    size_t words = 1; /* the number of values */

    for (size_t v = 0; v < match->value_count; v++)
        words += 1 + words_of(value_len(match, &match->values[v]));
    return words;
}

/* Writes one condition and returns the place behind it. */
static uint32_t *put_condition(uint32_t *at, const struct policy_match *match, uint32_t attribute)
{
    *at++ = attribute;
    *at++ = (uint32_t)condition_words(match);
    *at++ = match->value_count;
    for (size_t v = 0; v < match->value_count; v++) {
        const struct policy_text *value = &match->values[v];
        const size_t len = value_len(match, value);
        if (policy_plan_is_block(match, value)) {
            struct policy_block block;
            const enum policy_block_result result =
                policy_block_parse(value->data, value->len, &block);
            ASSERT(result == POLICY_BLOCK_GOOD); /* match_reader.c wrote it */
            *at++ = (uint32_t)len | POLICY_PLAN_BLOCK;
            memcpy(at, &block, len);
        } else {
            const bool wild = memchr(value->data, '*', value->len) != NULL;
            const bool path = match->kind == ATTRIBUTE_PATH;
            *at++ = (uint32_t)len | (wild ? POLICY_PLAN_WILD : 0) | (path ? POLICY_PLAN_PATH : 0);
            memcpy(at, value->data, len);
        }
        at += words_of(len);
    }
    return at;
}

static size_t plan_words(const struct policy_rule *rule)
{
    size_t words = rule->key_count;

    for (size_t m = 0; m < rule->match_count; m++)
        words += 2 + condition_words(&rule->matches[m]);
    return words;
}

size_t policy_plan_len(const struct policy_rule *rule)
{
    const size_t len = sizeof(struct policy_plan) + plan_words(rule) * sizeof(uint32_t);

    return (len + POLICY_PLAN_ALIGN - 1) / POLICY_PLAN_ALIGN * POLICY_PLAN_ALIGN;
}

void policy_plan_put(struct policy_plan *plan, const struct policy_rule *rule,
                     const uint32_t *attributes, uint32_t group)
{
    *plan = (struct policy_plan){.rule = rule,
                                 .group = group,
                                 .act = rule->act,
                                 .match_count = rule->match_count,
                                 .key_count = rule->key_count,
                                 .ipv6_prefix = rule->ipv6_prefix,
                                 .shadow = rule->shadow,
                                 .missing_deny = rule->missing_deny};
    uint32_t *at = plan->words;
    for (size_t k = 0; k < rule->key_count; k++)
        *at++ = attributes[rule->match_count + k];
    for (size_t m = 0; m < rule->match_count; m++)
        at = put_condition(at, &rule->matches[m], attributes[m]);
    ASSERT(at == plan->words + plan_words(rule)); /* PLAN-1 */
    ASSERT((const char *)at <= (const char *)plan + policy_plan_len(rule));
}

bool policy_plan_holds(const uint32_t *condition, const struct policy_text *value,
                       const struct policy_ip *ip, struct policy_pattern_space *space)
{
    const uint32_t *at = condition + 3;

    for (uint32_t left = condition[2]; left > 0; left--) {
        const struct policy_text expected = {(const char *)(at + 1), *at & POLICY_PLAN_LEN};
        if ((*at & POLICY_PLAN_WILD) != 0) {
            if (policy_pattern_match(&expected, value, (*at & POLICY_PLAN_PATH) != 0, space))
                return true;
        } else if ((*at & POLICY_PLAN_BLOCK) != 0) {
            struct policy_block block;
            memcpy(&block, at + 1, sizeof(block));
            if (policy_block_holds(&block, ip))
                return true;
        } else if (expected.len == value->len &&
                   memcmp(expected.data, value->data, value->len) == 0) {
            return true;
        }
        at += 1 + words_of(expected.len);
        space->steps += VALUE_STEPS;
    }
    return false;
}
