/* policy_check.c - whether a compiled policy is whole; each invariant is told by the file that
 * keeps it.
 *
 * INDEX-1 is checked from the side of the rules: a value that each of its patterns matches is made
 * up, and asked for as a request would. That what is filed is found tells nothing of the rules that
 * are filed nowhere, so these are counted as well.
 *
 * Must not: allocate, or be called on the check path.
 */
#include "node/policy/compile/policy_check.h"

#include <string.h>

#include "base/assert.h"
#include "node/policy/compile/ordinals.h"
#include "node/policy/index/policy_index.h"
#include "node/policy/index/policy_plan.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"

/* ---- the rules ------------------------------------------------------------------------------- */

static void check_matches(const struct policy *policy, const struct policy_rule *rule)
{
    INVARIANT("MATCHREADER-1", rule->match_count <= POLICY_MATCH_MAX);
    for (uint32_t m = 0; m < rule->match_count; m++) {
        const struct policy_match *match = &rule->matches[m];
        const struct policy_text *name = &match->attribute;
        INVARIANT("MATCHREADER-3",
                  match->kind == attribute_kinds_of(policy_kinds(policy), name->data, name->len));
        INVARIANT("MATCHREADER-1",
                  match->value_count >= 1 && match->value_count <= POLICY_MATCH_VALUES_MAX);
        for (uint32_t v = 1; v < match->value_count; v++)
            INVARIANT("MATCHREADER-1",
                      policy_text_compare(&match->values[v - 1], &match->values[v]) < 0);
    }
}

static void check_limits(const struct policy_rule *rule)
{
    char error[QUANTITY_ERROR_LEN];
    INVARIANT("LIMITREADER-1", rule->limit_count <= POLICY_LIMITS_MAX);
    INVARIANT("LIMITREADER-1", (rule->act == POLICY_ACT_THROTTLE) == (rule->limit_count > 0));
    INVARIANT("LIMITREADER-1", (rule->limit_count > 0) == (rule->key_count > 0));
    for (uint32_t i = 0; i < rule->limit_count; i++) {
        const struct limit *limit = &rule->limits[i];
        INVARIANT("LIMITREADER-1", limit_validate(limit, error) == 0);
        INVARIANT("ALIGNREADER-1",
                  !limit_is_calendar(limit->align) || rule->calendars[i].zone != NULL);
        for (uint32_t k = 0; k < i; k++)
            INVARIANT("ORDINALS-6", limit->ordinal == ORDINALS_MAX - 1 || /* there were no more */
                                        rule->limits[k].algorithm != limit->algorithm ||
                                        rule->limits[k].ordinal != limit->ordinal);
    }
}

static void check_rule(const struct policy *policy, size_t rank)
{
    const struct policy_rule *rule = policy->rules[rank];
    INVARIANT("COMPILE-2", rule->rank == rank);
    INVARIANT("COMPILE-2", rank == 0 || policy->rules[rank - 1]->priority >= rule->priority);
    INVARIANT("RULEREADER-1", rule->name.len > 0 && rule->name.len <= POLICY_NAME_LEN_MAX);
    INVARIANT("RULEREADER-1", rule->counted.len > 0);
    INVARIANT("RULEREADER-1", rule->ipv6_prefix >= 1 && rule->ipv6_prefix <= 128);
    INVARIANT("RULEREADER-1", (rule->scope == POLICY_SCOPE_REGION) || rule->limit_count > 0);
    check_matches(policy, rule);
    check_limits(rule);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void check_name(const struct policy_index *index, uint32_t attribute,
                       const struct policy_text *name)
{
    INVARIANT("PLAN-1", attribute < index->attribute_count);
    INVARIANT("PLAN-1", policy_text_equal(&index->attributes[attribute].name, name));
}

/* The values of a condition, in their order. */
static void check_condition(const uint32_t *condition, const struct policy_match *match)
{
    const uint32_t *at = condition + 3;
    INVARIANT("PLAN-1", condition[2] == match->value_count);
    for (uint32_t v = 0; v < match->value_count; v++) {
        const struct policy_text *value = &match->values[v];
        const uint32_t len = *at & POLICY_PLAN_LEN;
        if ((*at & POLICY_PLAN_BLOCK) != 0)
            INVARIANT("PLAN-1", policy_plan_is_block(match, value));
        else
            INVARIANT("PLAN-1", len == value->len && memcmp(at + 1, value->data, len) == 0);
        INVARIANT("PLAN-1",
                  (*at & POLICY_PLAN_WILD) == 0 || memchr(value->data, '*', value->len) != NULL);
        at += 1 + (len + sizeof *at - 1) / sizeof *at;
    }
    INVARIANT("PLAN-1", at == policy_plan_next(condition));
}

static void check_plan(const struct policy *policy, size_t rank)
{
    const struct policy_index *index = policy->index;
    const struct policy_plan *plan = policy_index_plan(index, index->plan_at[rank]);
    const struct policy_rule *rule = policy->rules[rank];
    INVARIANT("PLAN-1", plan->rule == rule);
    INVARIANT("PLAN-1", plan->act == rule->act && plan->match_count == rule->match_count);
    INVARIANT("PLAN-1",
              plan->key_count == rule->key_count && plan->ipv6_prefix == rule->ipv6_prefix);
    INVARIANT("PLAN-1", plan->shadow == rule->shadow && plan->missing_deny == rule->missing_deny);
    INVARIANT("PLAN-1", (plan->group == 0) == (rule->group.len == 0));
    if (rank > 0) {
        const struct policy_plan *before = policy_index_plan(index, index->plan_at[rank - 1]);
        INVARIANT("PLAN-1", (before->group == plan->group) ==
                                policy_text_equal(&before->rule->group, &rule->group));
    }
    for (uint32_t k = 0; k < rule->key_count; k++)
        check_name(index, policy_plan_key(plan)[k], &rule->key[k]);
    const uint32_t *condition = policy_plan_conditions(plan);
    for (uint32_t m = 0; m < rule->match_count; m++) {
        check_name(index, condition[0], &rule->matches[m].attribute);
        check_condition(condition, &rule->matches[m]);
        condition = policy_plan_next(condition);
    }
    INVARIANT("PLAN-1", (const char *)condition <= (const char *)rule);
}

/* ---- the index ------------------------------------------------------------------------------- */

/* INDEX-2: in rank order, which is that of places, each once, and none of a rule that is off. */
static void check_places(const struct policy_index *index, const struct policy_places *places)
{
    for (uint32_t i = 0; i < places->count; i++) {
        const struct policy_rule *rule = policy_index_plan(index, places->places[i])->rule;
        INVARIANT("INDEX-2", i == 0 || places->places[i - 1] < places->places[i]);
        INVARIANT("INDEX-2", policy_acts(rule));
        INVARIANT("INDEX-2", index->plan_at[rule->rank] == places->places[i]);
        INVARIANT("INDEX-2", (rule->match_count == 0) == (places == &index->always));
    }
}

static bool holds(const struct policy_places *places, uint32_t place)
{
    uint32_t low = 0;
    uint32_t high = places->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (places->places[middle] == place)
            return true;
        if (places->places[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* A value of the match's attribute that the pattern matches: each of its stars stands for nothing,
 * and a block is its first address. */
static struct policy_text example_of(const struct policy_match *match,
                                     const struct policy_text *value, struct policy_ip *ip,
                                     char out[POLICY_VALUE_LEN_MAX])
{
    size_t len = 0;
    ip->len = 0;
    for (size_t i = 0; i < value->len; i++)
        if (value->data[i] != '*')
            out[len++] = value->data[i];
    if (policy_plan_is_block(match, value))
        len = (size_t)((const char *)memchr(out, '/', len) - out);
    if (match->kind == ATTRIBUTE_ADDRESS)
        (void)policy_ip_parse(out, len, ip);
    return (struct policy_text){out, len};
}

/* Whether a request with such a value meets the plan at `place`. */
static bool met(const struct policy_index *index, uint32_t attribute,
                const struct policy_match *match, const struct policy_text *value, uint32_t place)
{
    char text[POLICY_VALUE_LEN_MAX];
    struct policy_ip ip;
    uint32_t hashes[POLICY_HASHES_MAX + POLICY_LENGTHS_MAX];
    const struct policy_text example = example_of(match, value, &ip, text);
    size_t count = policy_index_hashes(index, attribute, &example, &ip, hashes);
    count = policy_index_find(index, hashes, count);
    for (size_t i = 0; i < count; i++) {
        const struct policy_places places = policy_index_places(index, &hashes[i]);
        if (holds(&places, place))
            return true;
    }
    return false;
}

/* INDEX-1: of one of its matches the rule is found by each value. */
static bool found(const struct policy_index *index, const struct policy_rule *rule)
{
    const uint32_t place = index->plan_at[rule->rank];
    for (uint32_t m = 0; m < rule->match_count; m++) {
        const struct policy_match *match = &rule->matches[m];
        const uint32_t attribute =
            policy_index_attribute(index, match->attribute.data, match->attribute.len);
        uint32_t values = 0;
        while (values < match->value_count &&
               met(index, attribute, match, &match->values[values], place))
            values++;
        if (values == match->value_count)
            return true;
    }
    return rule->match_count == 0 && holds(&index->always, place);
}

static void check_attributes(const struct policy *policy)
{
    const struct policy_index *index = policy->index;
    uint32_t names = 0;
    for (uint32_t i = 0; i < index->attribute_count; i++) {
        const struct policy_index_attribute *at = &index->attributes[i];
        INVARIANT("INDEX-4", policy_index_attribute(index, at->name.data, at->name.len) == i);
        INVARIANT("INDEX-4", at->kind == attribute_kinds_of(policy_kinds(policy), at->name.data,
                                                            at->name.len));
    }
    for (uint32_t i = 0; i <= index->name_mask; i++)
        names += index->name_table[i] != POLICY_INDEX_NONE;
    INVARIANT("INDEX-4", names == index->attribute_count && names <= index->name_mask);
}

static void check_index(const struct policy *policy)
{
    const struct policy_index *index = policy->index;
    uint32_t used = 0;
    check_attributes(policy);
    for (size_t rank = 0; rank < policy->rule_count; rank++)
        check_plan(policy, rank);
    check_places(index, &index->always);
    for (uint32_t i = 0; i <= index->bucket_mask; i++) {
        const struct policy_bucket *bucket = &index->buckets[i];
        if (bucket->at == POLICY_INDEX_NONE)
            continue;
        const struct policy_places places = policy_index_places(index, &bucket->at);
        INVARIANT("INDEX-2", places.count > 0);
        check_places(index, &places);
        used++;
    }
    INVARIANT("INDEX-4", used <= index->bucket_mask);
    for (size_t rank = 0; rank < policy->rule_count; rank++)
        if (policy_acts(policy->rules[rank]))
            INVARIANT("INDEX-1", found(index, policy->rules[rank]));
}

/* ---- the policy ------------------------------------------------------------------------------ */

static void check_pools(const struct policy *policy)
{
    INVARIANT("POOLREADER-1", policy->pool_count <= POLICY_POOLS_MAX);
    for (size_t i = 0; i < policy->pool_count; i++) {
        const struct policy_pool *pool = &policy->pools[i];
        INVARIANT("POOLREADER-1",
                  i == 0 || policy_text_compare(&policy->pools[i - 1].name, &pool->name) < 0);
        INVARIANT("POOLREADER-2", pool->id != 0);
        INVARIANT("POOLREADER-2", policy_pool_by_id(policy, pool->id) == pool);
    }
}

void policy_check_invariants(const struct policy *policy)
{
    INVARIANT("COMPILE-1", policy->rule_count <= POLICY_RULES_MAX + POLICY_TIERS_MAX);
    INVARIANT("COMPILE-1", policy->rule_count == 0 || policy->index != NULL);
    INVARIANT("JOIN-1", (policy->joiner != NULL) == (policy->free_joined != NULL));
    INVARIANT("JOIN-2", policy->base == NULL || (policy->base->rules == policy->rules &&
                                                 policy->base->index == policy->index));
    for (size_t rank = 0; rank < policy->rule_count; rank++)
        check_rule(policy, rank);
    check_pools(policy);
    blocks_check_invariants(policy->joined.blocks);
    api_keys_check_invariants(policy->joined.api_keys);
    people_check_invariants(policy->joined.people);
    if (policy->rule_count > 0)
        check_index(policy);
    INVARIANT("POLICYDIGEST-1", policy == policy_empty() || policy->joiner != NULL ||
                                    policy->digest == policy_digest_all(policy));
}
