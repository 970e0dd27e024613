/* test_policy_diff.c - which rules two policies do not have alike, against looking for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_diff.h"

enum { RULES = 40, ROUNDS = 200, TEXT_LEN = RULES * 96, ROOM = 5 };

/* A policy of some of the rules r0 .. r39, in any order, each with one of two rates. */
static struct policy *make(struct random *random)
{
    char text[TEXT_LEN];
    struct policy_error error;
    struct policy *policy;
    size_t len = (size_t)snprintf(text, sizeof text, "rules:\n");
    const uint64_t first = random_below(random, RULES);
    for (uint64_t i = 0; i < RULES; i++) {
        if (random_below(random, 3) == 0)
            continue;
        len += (size_t)snprintf(
            text + len, sizeof text - len, "  - {name: r%u, key: [user], limits: [{rate: %u/h}]}\n",
            (unsigned)((first + i) % RULES), (unsigned)(1 + random_below(random, 2)));
    }
    if (strchr(text, '-') == NULL)
        len = (size_t)snprintf(text, sizeof text, "rules: []\n");
    assert_int_equal(policy_compile(text, len, alloc_heap(), &policy, &error), 0);
    return policy;
}

/* How many rules of `a` are not in `b`, or (`differ`) are there with another meaning. */
static uint32_t count(const struct policy *a, const struct policy *b, bool differ)
{
    uint32_t found = 0;
    for (size_t i = 0; i < policy_rule_count(a); i++) {
        const struct policy_rule *rule = policy_rule_at(a, i);
        const struct policy_rule *other = policy_rule_find(b, rule->name.data, rule->name.len);
        if (differ)
            found += other != NULL && other->limits[0].count != rule->limits[0].count;
        else
            found += other == NULL;
    }
    return found;
}

/* Whether two rules that are alike in both act in one order in `a`, and in the other in `b`. */
static bool order_differs(const struct policy *a, const struct policy *b)
{
    const struct policy_rule *last = NULL;
    for (size_t i = 0; i < policy_rule_count(a); i++) {
        const struct policy_rule *rule = policy_rule_at(a, i);
        const struct policy_rule *other = policy_rule_find(b, rule->name.data, rule->name.len);
        if (other == NULL || other->limits[0].count != rule->limits[0].count)
            continue;
        if (last != NULL && other < last)
            return true;
        last = other;
    }
    return false;
}

/* The rule of that name in `policy`. */
static const struct policy_rule *find_same(const struct policy *policy,
                                           const struct policy_rule *rule)
{
    return policy_rule_find(policy, rule->name.data, rule->name.len);
}

/* Added, removed and changed rules are those that a search for each name finds, listed as far as
 * there is room. */
static void differences_are_those_that_a_search_finds(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 2);
    unsigned reordered = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const struct policy_rule *rules[POLICY_DIFFERENCES][ROOM];
        struct policy_diff diff = {.rules = {rules[0], rules[1], rules[2]}};
        struct policy *old = make(&random);
        struct policy *new = make(&random);
        assert_int_equal(policy_compare(old, new, alloc_heap(), ROOM, &diff), 0);
        assert_int_equal(diff.counts[POLICY_ADDED], count(new, old, false));
        assert_int_equal(diff.counts[POLICY_REMOVED], count(old, new, false));
        assert_int_equal(diff.counts[POLICY_CHANGED], count(new, old, true));
        assert_int_equal(diff.reordered, order_differs(old, new));
        reordered += diff.reordered;
        for (uint32_t i = 0; i < POLICY_DIFFERENCES; i++)
            assert_int_equal(diff.listed[i], diff.counts[i] < ROOM ? diff.counts[i] : ROOM);
        for (uint32_t i = 0; i < diff.listed[POLICY_REMOVED]; i++) {
            assert_ptr_equal(find_same(old, rules[POLICY_REMOVED][i]), rules[POLICY_REMOVED][i]);
            assert_null(find_same(new, rules[POLICY_REMOVED][i]));
        }
        for (uint32_t i = 0; i < diff.listed[POLICY_ADDED]; i++)
            assert_ptr_equal(find_same(new, rules[POLICY_ADDED][i]), rules[POLICY_ADDED][i]);
        for (uint32_t i = 0; i < diff.listed[POLICY_CHANGED]; i++)
            assert_ptr_equal(find_same(new, rules[POLICY_CHANGED][i]), rules[POLICY_CHANGED][i]);
        policy_free(&old);
        policy_free(&new);
    }
    assert_in_range(reordered, ROUNDS / 4, ROUNDS - 1);
}

/* Without memory nothing is compared, and nothing leaks. */
static void without_memory_nothing_is_compared(void **state)
{
    (void)state;
    struct alloc_failing failing;
    struct policy_diff diff = {.rules = {NULL, NULL, NULL}};
    for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
        alloc_failing_init(&failing, fail_at);
        assert_int_equal(
            policy_compare(policy_empty(), policy_empty(), &failing.allocator, 0, &diff),
            TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_those_that_a_search_finds),
        cmocka_unit_test(without_memory_nothing_is_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
