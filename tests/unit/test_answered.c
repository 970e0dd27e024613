/* test_answered.c - what clients were answered: outcomes, times, rules by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/model/answered.h"
#include "node/policy/compile/policy_compile.h"

#define US INT64_C(1000)

enum { TEXT_LEN = 1 << 16 };

static struct policy *rules_from(int first, int count)
{
    static char text[TEXT_LEN];
    size_t len = (size_t)snprintf(text, sizeof text, "rules:\n");
    for (int i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "  - {name: r%d, key: [user], match: {api: /%d}, "
                                "limits: [{rate: 1/s}]}\n",
                                first + i, first + i);
    struct policy *policy;
    struct policy_error error;
    assert_int_equal(policy_compile(text, len, alloc_heap(), &policy, &error), 0);
    return policy;
}

static uint64_t fate(const struct answered *answered, const char *name, enum answered_fate fate)
{
    for (uint32_t i = 0; i < answered->rule_count; i++)
        if (strcmp(answered->rules[i].name, name) == 0)
            return answered->rules[i].fates[fate];
    fail_msg("no rule %s", name);
    return 0;
}

static void a_time_is_in_the_first_bucket_that_it_does_not_exceed(void **state)
{
    static struct answered answered;
    (void)state;
    memset(&answered, 0, sizeof answered);
    answered_count(&answered, 7, OUTCOME_ALLOW, false, 50 * US);
    answered_count(&answered, 7, OUTCOME_ALLOW, false, 50 * US + 1);
    answered_count(&answered, 7, OUTCOME_DENY, true, 3600000000 * US);
    const struct answered_by *by = &answered.by[ANSWERED_NATIVE];
    assert_int_equal(by->times[0], 1);
    assert_int_equal(by->times[1], 1);
    assert_int_equal(by->times[ANSWERED_BOUNDS], 1);
    assert_int_equal(by->sum_ns, 100 * US + 1 + 3600000000 * US);
    assert_int_equal(by->outcomes[OUTCOME_ALLOW], 2);
    assert_int_equal(by->outcomes[OUTCOME_DENY], 1);
    assert_int_equal(by->degraded, 1);
    for (int i = 1; i < ANSWERED_BOUNDS; i++)
        assert_true(answered_bounds_ns[i] > answered_bounds_ns[i - 1]);
}

/* The shard does not know how long the event at hand takes; its loop tells. */
static void checks_of_the_event_at_hand_get_its_time_when_it_is_known(void **state)
{
    static struct answered answered;
    (void)state;
    memset(&answered, 0, sizeof answered);
    answered_count(&answered, ANSWERED_REDIS_CONNECTION, OUTCOME_ALLOW, false, 0);
    answered_count(&answered, ANSWERED_REDIS_CONNECTION, OUTCOME_ALLOW, false, 0);
    answered_count(&answered, ANSWERED_HTTP_CONNECTION, OUTCOME_ALLOW, false, 0);
    answered_took(&answered, 70 * US);
    answered_took(&answered, 70 * US);
    assert_int_equal(answered.by[ANSWERED_REDIS].times[1], 2);
    assert_int_equal(answered.by[ANSWERED_REDIS].sum_ns, 140 * US);
    assert_int_equal(answered.by[ANSWERED_HTTP].times[1], 1);
    assert_int_equal(answered.by[ANSWERED_NATIVE].times[1], 0);
}

static void a_rule_keeps_its_count_when_the_rules_change(void **state)
{
    static struct answered answered;
    struct policy *before = rules_from(0, 3);
    struct policy *after = rules_from(1, 3);
    (void)state;
    memset(&answered, 0, sizeof answered);
    answered_follow(&answered, before);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k <= i; k++)
            answered_count_rule(&answered, policy_rule_at(before, i), true, ANSWERED_DENIED);
    answered_follow(&answered, after);
    assert_int_equal(answered.rule_count, 3);
    assert_int_equal(fate(&answered, "r1", ANSWERED_DENIED), 2);
    assert_int_equal(fate(&answered, "r2", ANSWERED_DENIED), 3);
    assert_int_equal(fate(&answered, "r3", ANSWERED_DENIED), 0);
    /* What waited is of the rules before, and counted by name. */
    answered_count_rule(&answered, policy_rule_at(before, 2), false, ANSWERED_ALLOWED);
    answered_count_rule(&answered, policy_rule_at(before, 0), false, ANSWERED_ALLOWED);
    assert_int_equal(fate(&answered, "r2", ANSWERED_ALLOWED), 1);
    assert_int_equal(answered.rules[3].fates[ANSWERED_ALLOWED], 1);
    policy_free(&before);
    policy_free(&after);
}

static void rules_beyond_the_cap_are_counted_together_and_stay_so(void **state)
{
    static struct answered answered;
    struct policy *many = rules_from(0, ANSWERED_RULES_MAX + 5);
    struct policy *few = rules_from(0, 1);
    (void)state;
    memset(&answered, 0, sizeof answered);
    answered_follow(&answered, many);
    assert_int_equal(answered.rule_count, ANSWERED_RULES_MAX);
    for (size_t i = 0; i < policy_rule_count(many); i++)
        answered_count_rule(&answered, policy_rule_at(many, i), true, ANSWERED_ALLOWED);
    assert_int_equal(answered.rules[ANSWERED_RULES_MAX].fates[ANSWERED_ALLOWED], 5);
    assert_int_equal(fate(&answered, "r199", ANSWERED_ALLOWED), 1);
    answered_follow(&answered, few);
    assert_int_equal(answered.rules[1].fates[ANSWERED_ALLOWED], 5);
    assert_int_equal(fate(&answered, "r0", ANSWERED_ALLOWED), 1);
    policy_free(&many);
    policy_free(&few);
}

static void shards_are_added_up_by_name_whatever_rules_each_has(void **state)
{
    static struct answered sum;
    static struct answered one;
    struct policy *now = rules_from(0, 3);
    struct policy *before = rules_from(1, 3);
    (void)state;
    memset(&sum, 0, sizeof sum);
    memset(&one, 0, sizeof one);
    answered_follow(&sum, now);
    answered_follow(&one, before);
    answered_count_rule(&one, policy_rule_at(before, 0), true, ANSWERED_ALLOWED);
    answered_count_rule(&one, policy_rule_at(before, 2), true, ANSWERED_ALLOWED);
    answered_count(&one, 7, OUTCOME_ALLOW, true, 60 * US);
    answered_join(&sum, &one);
    answered_join(&sum, &one);
    assert_int_equal(fate(&sum, "r1", ANSWERED_ALLOWED), 2);
    assert_int_equal(sum.rules[3].fates[ANSWERED_ALLOWED], 2); /* r3 */
    assert_int_equal(sum.by[ANSWERED_NATIVE].times[1], 2);
    assert_int_equal(sum.by[ANSWERED_NATIVE].degraded, 2);
    assert_int_equal(sum.by[ANSWERED_NATIVE].outcomes[OUTCOME_ALLOW], 2);
    policy_free(&now);
    policy_free(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_in_the_first_bucket_that_it_does_not_exceed),
        cmocka_unit_test(checks_of_the_event_at_hand_get_its_time_when_it_is_known),
        cmocka_unit_test(a_rule_keeps_its_count_when_the_rules_change),
        cmocka_unit_test(rules_beyond_the_cap_are_counted_together_and_stay_so),
        cmocka_unit_test(shards_are_added_up_by_name_whatever_rules_each_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
