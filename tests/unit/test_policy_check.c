/* test_policy_check.c - a policy with one wrong field, and sets of users, keys and blocks with one,
 * are seen by their x_check_invariants, which name the invariant that is broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/lookup.h"
#include "node/policy/index/policy_index.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"
#include "tests/unit/support_death.h"

/* Whether looking at what is corrupt ends in an assertion that begins with the invariant's id. */
static void assert_death(void (*check)(void *whole), void *whole, const char *id)
{
    char text[256];

    assert_true(death_by_assert(check, whole, text, sizeof text));
    assert_non_null(strstr(text, id));
}

/* ---- a policy -------------------------------------------------------------------------------- */

static const char rules[] =
    "pools: {a: {rate: 100/s}, b: {rate: 100/s}}\n"
    "rules:\n"
    "- {name: first, priority: 9, match: {api: /v1/a, method: [GET, PUT]}, key: [user],\n"
    "   limits: [{rate: 5/h}, {rate: 9/24h}], group: g}\n"
    "- {name: second, match: {api: /v1/a}, key: [user, tier], limits: [{rate: 5/h}], group: h}\n"
    "- {name: third, match: {api: /v2/*/b}, action: block}\n"
    "- {name: fourth, match: {ip: 10.0.0.0/8}, action: allow}\n"
    "- {name: fifth, match: {api: /v1/a, method: POST}, action: block}\n"
    "- {name: always, key: [user], limits: [{rate: 100/h}]}\n"
    "- {name: off, enabled: false, match: {api: /v1/a}, action: block}\n";

enum { FIRST, SECOND, THIRD, FOURTH, FIFTH, ALWAYS, OFF, RULES };

static struct policy *policy; /* of the test at hand */

/* What is constant once it is compiled is changed behind its back. */
static struct policy_index *index_of(void)
{
    return (struct policy_index *)(uintptr_t)policy->index;
}

static struct policy_plan *plan_of(size_t rank)
{
    return (struct policy_plan *)(uintptr_t)policy_index_plan(policy->index,
                                                              policy->index->plan_at[rank]);
}

static struct limit *limit_of(size_t rank, size_t i)
{
    return (struct limit *)(uintptr_t)&policy->rules[rank]->limits[i];
}

/* The bucket under which a rule that is filed alone is found. */
static struct policy_bucket *bucket_of(size_t rank)
{
    for (uint32_t i = 0; i <= policy->index->bucket_mask; i++)
        if (policy->index->buckets[i].at == policy->index->plan_at[rank])
            return &policy->index->buckets[i];
    fail();
    return NULL;
}

static void whole(void)
{
    struct policy_error error;

    if (policy_compile(rules, sizeof rules - 1, alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s", error.line, error.column, error.message);
    assert_int_equal(policy_rule_count(policy), RULES);
    policy_check_invariants(policy);
}

static void check_policy(void *checked)
{
    policy_check_invariants(checked);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    whole();
    corrupt();
    assert_death(check_policy, policy, id);
    policy_free(&policy);
}

CORRUPTION(a_rule_that_says_another_rank_is_seen, "COMPILE-2", policy->rules[SECOND]->rank = THIRD)
CORRUPTION(rules_that_are_not_by_priority_are_seen, "COMPILE-2",
           policy->rules[SECOND]->priority = 10)
CORRUPTION(
    a_rule_of_another_kind_of_attribute_is_seen, "MATCHREADER-3",
    ((struct policy_match *)(uintptr_t)policy->rules[FIRST]->matches)->kind = ATTRIBUTE_ADDRESS)
CORRUPTION(a_limit_of_nothing_is_seen, "LIMITREADER-1", limit_of(FIRST, 0)->count = 0)
CORRUPTION(a_rule_that_blocks_and_has_limits_is_seen, "LIMITREADER-1",
           policy->rules[SECOND]->act = POLICY_ACT_BLOCK)
CORRUPTION(two_limits_that_would_share_a_count_are_seen, "ORDINALS-6",
           limit_of(FIRST, 1)->ordinal = limit_of(FIRST, 0)->ordinal)
CORRUPTION(pools_that_are_not_by_name_are_seen, "POOLREADER-1", policy->pools[1].name.len = 0)
CORRUPTION(two_pools_of_one_id_are_seen, "POOLREADER-2", policy->pools[1].id = policy->pools[0].id)
CORRUPTION(a_plan_of_another_rule_is_seen, "PLAN-1", plan_of(FIRST)->rule = policy->rules[SECOND])
CORRUPTION(a_plan_that_acts_otherwise_is_seen, "PLAN-1", plan_of(THIRD)->act = POLICY_ACT_ALLOW)
CORRUPTION(a_plan_that_compares_another_value_is_seen, "PLAN-1",
           ((char *)(plan_of(FIRST)->words + 1 + 4))[0] = '!')
CORRUPTION(a_plan_that_counts_by_another_attribute_is_seen, "PLAN-1",
           plan_of(SECOND)->words[0] = plan_of(SECOND)->words[1])
CORRUPTION(two_groups_of_one_number_are_seen, "PLAN-1",
           plan_of(SECOND)->group = plan_of(FIRST)->group)
CORRUPTION(a_rule_that_no_request_finds_is_seen, "INDEX-1", bucket_of(THIRD)->hash ^= 1)
CORRUPTION(an_enabled_rule_that_is_filed_nowhere_is_seen, "INDEX-1",
           policy->rules[OFF]->enabled = true)
CORRUPTION(a_rule_that_is_off_and_filed_is_seen, "INDEX-2", policy->rules[FOURTH]->enabled = false)
CORRUPTION(a_rule_that_is_looked_at_always_and_matches_something_is_seen, "INDEX-2",
           ((uint32_t *)(uintptr_t)policy->index->always.places)[0] = policy->index->plan_at[FIRST])
CORRUPTION(an_attribute_that_is_not_found_by_name_is_seen, "INDEX-4",
           index_of()->attributes[1].name.len--)
CORRUPTION(a_policy_that_means_something_else_than_it_says_is_seen, "POLICYDIGEST-1",
           policy->unmatched_deny = true)
CORRUPTION(a_policy_joined_with_the_rules_of_another_is_seen, "JOIN-2",
           policy->base = (struct policy *)(uintptr_t)policy_empty())

/* ---- who asks -------------------------------------------------------------------------------- */

static uint64_t hash_of(const void *entry)
{
    return *(const uint64_t *)entry;
}

static void check_lookup(void *checked)
{
    lookup_check(checked, hash_of);
}

/* Three entries, which are their own hashes; two of them are at home in one slot. */
static void lookup_of_three(struct lookup *lookup)
{
    static const uint64_t hashes[] = {3, 11, 5};

    assert_int_equal(lookup_init(lookup, alloc_heap(), 3, sizeof hashes[0], 16), 0);
    for (size_t i = 0; i < 3; i++) {
        uint64_t *entry = lookup_add(lookup);
        *entry = hashes[i];
        (void)lookup_keep(lookup, "ada", 3);
        lookup_file(lookup, hashes[i]);
    }
    lookup_check(lookup, hash_of);
}

static void an_entry_that_is_filed_under_another_hash_is_seen(void **state)
{
    struct lookup lookup;

    (void)state;
    lookup_of_three(&lookup);
    ((uint64_t *)(void *)lookup.entries)[2] = 6;
    assert_death(check_lookup, &lookup, "LOOKUP-1: ");
    lookup_fini(&lookup);
}

static void a_slot_that_was_lost_is_seen(void **state)
{
    struct lookup lookup;

    (void)state;
    lookup_of_three(&lookup);
    lookup.slots[5] = 0;
    assert_death(check_lookup, &lookup, "LOOKUP-1: ");
    lookup_fini(&lookup);
}

static void texts_beyond_their_room_are_seen(void **state)
{
    struct lookup lookup;

    (void)state;
    lookup_of_three(&lookup);
    lookup.bytes_used = lookup.bytes_len;
    assert_death(check_lookup, &lookup, "LOOKUP-3: ");
    lookup_fini(&lookup);
}

static void check_people(void *checked)
{
    people_check_invariants(checked);
}

/* A user who is blocked, and has limits of his own. */
static struct people *people_of_one(struct person *found)
{
    static const struct quota quota = {.user = {"ada", 3},
                                       .tier = {"gold", 4},
                                       .own = {.counts = {[OWN_HOUR] = 500}},
                                       .blocked = true,
                                       .reason = {"unpaid", 6},
                                       .notes = {"", 0}};
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX] = {{"user", 4, "ada", 3}};
    size_t count = 1;
    struct people *people;

    assert_int_equal(people_new(alloc_heap(), &quota, 1, &people), 0);
    people_check_invariants(people);
    people_begin(NULL, found);
    people_find(people, attributes, &count, 0, found);
    assert_non_null(found->denied);
    assert_non_null(found->own);
    return people;
}

static void a_verdict_that_allows_is_seen(void **state)
{
    struct person found;
    struct people *people = people_of_one(&found);

    (void)state;
    ((struct policy_rule *)(uintptr_t)found.denied)->act = POLICY_ACT_ALLOW;
    assert_death(check_people, people, "PEOPLE-4: ");
    people_free(&people);
}

static void own_limits_of_nothing_are_seen(void **state)
{
    struct person found;
    struct people *people = people_of_one(&found);

    (void)state;
    ((struct own_limits *)(uintptr_t)found.own)->counts[OWN_HOUR] = 0;
    assert_death(check_people, people, "PEOPLE-4: ");
    people_free(&people);
}

static void check_keys(void *checked)
{
    api_keys_check_invariants(checked);
}

/* The set of one key, and what it knows of it. */
static struct api_keys *keys_of_one(struct api_key **found)
{
    static const char text[] = "tgk_abcdefghijkl_abcdefghijklmnopqrstuvwxyz234567";
    static uint8_t bytes[API_KEY_RECORD_LEN_MAX];
    struct api_key_record record = {.name = {"", 0},
                                    .owner = {"ada", 3},
                                    .tier = {"", 0},
                                    .created_by = {"", 0},
                                    .revoked_by = {"", 0},
                                    .own = {.counts = {[OWN_HOUR] = 500}}};
    struct api_keys *keys;

    digest_make(text, sizeof text - 1, &record.digest);
    const int len = api_key_encode(&record, bytes, sizeof bytes);
    assert_true(len > 0);
    const struct api_key_entry entry = {{"abcdefghijkl", 12}, {(const char *)bytes, (size_t)len}};
    assert_int_equal(api_keys_new(alloc_heap(), &entry, 1, &keys), 0);
    api_keys_check_invariants(keys);
    *found = (struct api_key *)(uintptr_t)api_keys_find(keys, text, sizeof text - 1);
    assert_non_null(*found);
    return keys;
}

static void a_key_that_is_counted_under_another_name_is_seen(void **state)
{
    struct api_key *key;
    struct api_keys *keys = keys_of_one(&key);

    (void)state;
    key->hash++;
    assert_death(check_keys, keys, "APIKEYS-5: ");
    api_keys_free(&keys);
}

static void a_key_whose_rate_would_not_be_asked_for_is_seen(void **state)
{
    struct api_key *key;
    struct api_keys *keys = keys_of_one(&key);

    (void)state;
    key->limited = false;
    assert_death(check_keys, keys, "APIKEYS-5: ");
    api_keys_free(&keys);
}

static void a_key_that_nobody_finds_is_seen(void **state)
{
    struct api_key *key;
    struct api_keys *keys = keys_of_one(&key);

    (void)state;
    for (size_t i = 0; i < DIGEST_LEN; i++)
        key->digest.bytes[i] ^= 1;
    assert_death(check_keys, keys, "LOOKUP-1: ");
    api_keys_free(&keys);
}

static void check_blocks(void *checked)
{
    blocks_check_invariants(checked);
}

static void a_block_that_allows_is_seen(void **state)
{
    static const struct block block = {{"cidr 10.0.0.0/8", 15}, {"abuse", 5}, 0};
    static const struct policy_attribute from = {"ip", 2, "10.1.2.3", 8};
    struct blocks *blocks;

    (void)state;
    assert_int_equal(blocks_new(alloc_heap(), attribute_kinds_default(), &block, 1, &blocks), 0);
    blocks_check_invariants(blocks);
    const struct policy_rule *rule = blocks_find(blocks, &from, 1, 0);
    assert_non_null(rule);
    ((struct policy_rule *)(uintptr_t)rule)->act = POLICY_ACT_ALLOW;
    assert_death(check_blocks, blocks, "BLOCKS-3: ");
    blocks_free(&blocks);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rule_that_says_another_rank_is_seen),
        TEST(rules_that_are_not_by_priority_are_seen),
        TEST(a_rule_of_another_kind_of_attribute_is_seen),
        TEST(a_limit_of_nothing_is_seen),
        TEST(a_rule_that_blocks_and_has_limits_is_seen),
        TEST(two_limits_that_would_share_a_count_are_seen),
        TEST(pools_that_are_not_by_name_are_seen),
        TEST(two_pools_of_one_id_are_seen),
        TEST(a_plan_of_another_rule_is_seen),
        TEST(a_plan_that_acts_otherwise_is_seen),
        TEST(a_plan_that_compares_another_value_is_seen),
        TEST(a_plan_that_counts_by_another_attribute_is_seen),
        TEST(two_groups_of_one_number_are_seen),
        TEST(a_rule_that_no_request_finds_is_seen),
        TEST(an_enabled_rule_that_is_filed_nowhere_is_seen),
        TEST(a_rule_that_is_off_and_filed_is_seen),
        TEST(a_rule_that_is_looked_at_always_and_matches_something_is_seen),
        TEST(an_attribute_that_is_not_found_by_name_is_seen),
        TEST(a_policy_that_means_something_else_than_it_says_is_seen),
        TEST(a_policy_joined_with_the_rules_of_another_is_seen),
        TEST(an_entry_that_is_filed_under_another_hash_is_seen),
        TEST(a_slot_that_was_lost_is_seen),
        TEST(texts_beyond_their_room_are_seen),
        TEST(a_verdict_that_allows_is_seen),
        TEST(own_limits_of_nothing_are_seen),
        TEST(a_key_that_is_counted_under_another_name_is_seen),
        TEST(a_key_whose_rate_would_not_be_asked_for_is_seen),
        TEST(a_key_that_nobody_finds_is_seen),
        TEST(a_block_that_allows_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
