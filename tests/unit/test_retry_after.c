/* test_retry_after.c - when a denied caller may ask again: never means never, and no denial says 0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"
#include "node/policy/people/policy_join.h"
#include "tests/unit/support_shard.h"

static const char *const ann[] = {"user=ann", NULL};

/* Two nodes of which the second is a ghost. */
static int set_up_ghost(void **state)
{
    struct lab *lab = lab_new(2, 1, 1);
    lab_start(lab, 0);
    lab_run(lab, 50 * LAB_MS);
    *state = lab;
    return 0;
}

static struct wire_decision ask(struct lab *lab, uint8_t operation, uint64_t cost,
                                const char *const *attributes)
{
    lab_ask_attributes_as(lab, operation, cost, attributes);
    return lab_answer(lab, lab_send(lab, 0, 5000), 0);
}

/* What costs more than the limit never succeeds, whatever time the rule has for other denials, and
 * whatever its algorithm is: that time is told of those. */
static void never_wins_over_a_configured_time(void **state)
{
    struct lab *lab = *state;
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        char rules[256];
        char user[16];
        (void)snprintf(user, sizeof user, "user=u%u", algorithm);
        const char *const attributes[] = {user, NULL};
        (void)snprintf(rules, sizeof rules,
                       "rules: [{name: r, key: [user], response: {retry_after: 60s},"
                       " limits: [{%s, algorithm: %s}]}]",
                       algorithm == ALGORITHM_CONCURRENCY ? "count: 2" : "rate: 2/h",
                       algorithm_name((enum algorithm)algorithm));
        lab_rules(lab, rules);
        for (unsigned operation = OPERATION_CHECK; operation <= OPERATION_PEEK; operation++) {
            const struct wire_decision never = ask(lab, (uint8_t)operation, 5, attributes);
            assert_int_equal(never.outcome, OUTCOME_DENY);
            assert_int_equal(never.retry_after_ms, -1);
        }
        assert_true(ask(lab, OPERATION_CHECK, 2, attributes).allowed);
        assert_int_equal(ask(lab, OPERATION_CHECK, 2, attributes).retry_after_ms, 60000);
        assert_int_equal(ask(lab, OPERATION_PEEK, 1, attributes).retry_after_ms, 60000);
        assert_int_equal(ask(lab, OPERATION_CHECK, 5, attributes).retry_after_ms, -1);
    }
}

/* Nor does what lacks an attribute that it must have, or what a rule blocks. */
static void what_no_waiting_mends_says_never(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: lacks, key: [phone], missing: deny, limits: [{rate: 9/h}],"
                   " response: {retry_after: 60s}}\n");
    assert_int_equal(ask(lab, OPERATION_CHECK, 1, ann).retry_after_ms, -1);
    lab_rules(lab, "rules:\n"
                   "- {name: out, match: {user: ann}, action: block,"
                   " response: {retry_after: 60s}}\n");
    assert_int_equal(ask(lab, OPERATION_CHECK, 1, ann).retry_after_ms, -1);
    lab_rules(lab, "unmatched: deny\nrules: []\n");
    assert_int_equal(ask(lab, OPERATION_CHECK, 1, ann).retry_after_ms, -1);
}

/* Of several limits that deny, and of several rules, the longest is told: never, before a time that
 * a rule is to tell, before what another one reckons. */
static void of_several_the_longest_is_told(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab,
              "rules:\n"
              "- {name: short, key: [user], response: {retry_after: 2h}, limits: [{rate: 4/s}]}\n"
              "- {name: long, key: [user], limits: [{rate: 6/h, algorithm: sliding_log},"
              " {rate: 6/m, algorithm: fixed_window}]}\n");
    assert_true(ask(lab, OPERATION_CHECK, 4, ann).allowed);
    struct wire_decision decision = ask(lab, OPERATION_CHECK, 3, ann);
    assert_true(lab_text_is(decision.source->rule, "short"));
    assert_int_equal(decision.retry_after_ms, 7200000);
    decision = ask(lab, OPERATION_CHECK, 5, ann);
    assert_true(lab_text_is(decision.source->rule, "short"));
    assert_int_equal(decision.retry_after_ms, -1);
    lab_run(lab, 2000 * LAB_MS); /* the short one is full again */
    decision = ask(lab, OPERATION_CHECK, 3, ann);
    assert_true(lab_text_is(decision.source->rule, "long"));
    assert_true(lab_text_is(decision.source->window, "6/h"));
    assert_true(decision.retry_after_ms > 3590000 && decision.retry_after_ms < 3600000);
}

/* Less than a millisecond is told as one. */
static void less_than_a_millisecond_is_one(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules: [{name: r, key: [user], limits: [{rate: 1000000/s, burst: 2}]}]");
    for (unsigned i = 0; i < 3; i++)
        lab_ask_attributes(lab, 1, ann);
    const uint64_t seq = lab_send_explained(lab, 0, 1000);
    assert_true(lab_answer(lab, seq, 1).allowed);
    const struct wire_decision decision = lab_answer(lab, seq, 2);
    assert_false(decision.allowed);
    assert_int_equal(decision.retry_after_ms, 1);
    const struct wire_explain *explain = lab->decisions.explain;
    assert_int_equal(explain->rows[explain->end[2] - 1].retry_after_ms, 1);
}

/* A denial that is given again, because the request is repeated, says later than now though it
 * would be admitted by now. */
static void a_repeated_denial_does_not_say_0(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules: [{name: r, key: [user], limits: [{rate: 10/s, burst: 1}]}]");
    assert_true(ask(lab, OPERATION_CHECK, 1, ann).allowed);
    lab_ask_attributes(lab, 1, ann);
    const uint64_t seq = lab_send(lab, 0, 1000);
    assert_int_equal(lab_answer(lab, seq, 0).retry_after_ms, 100);
    lab_run(lab, 500 * LAB_MS);
    lab_ask_attributes(lab, 1, ann);
    lab_send_again(lab, 0, seq, 1000);
    lab_deliver(lab);
    assert_int_equal(lab_answers(lab, seq), 2);
    struct wire_decision decision;
    wire_decision_at(&lab->decisions, 0, &decision);
    assert_false(decision.allowed);
    assert_int_equal(decision.retry_after_ms, 1);
}

/* What cannot be decided, and is denied for that, may be asked again soon; or as the rule says. */
static void what_cannot_be_decided_is_asked_again_soon(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    static const char *const times[] = {"", ", response: {retry_after: 7s}"};
    for (unsigned i = 0; i < 2; i++) {
        char rules[256];
        (void)snprintf(
            rules, sizeof rules,
            "rules: [{name: r, key: [user], on_failure: closed, limits: [{rate: 9/h}]%s}]",
            times[i]);
        lab_rules(lab, rules);
        lab_attribute(lab, "r", "user", 1, user);
        const char *const attributes[] = {user, NULL};
        lab_ask_attributes(lab, 1, attributes);
        const struct wire_decision decision = lab_answer(lab, lab_send(lab, 0, 50), 0);
        assert_false(decision.allowed);
        assert_int_equal(decision.outcome, OUTCOME_ERROR);
        assert_int_equal(decision.retry_after_ms, i == 0 ? 1000 : 7000);
    }
}

/* Puts blocks and quota records in force. */
static void join(struct lab *lab, const struct block *blocks, size_t block_count,
                 const struct quota *quotas, size_t quota_count)
{
    struct policy_joined with = {.people = NULL};
    struct policy *joined;
    assert_int_equal(
        blocks_new(alloc_heap(), attribute_kinds_default(), blocks, block_count, &with.blocks), 0);
    assert_int_equal(people_new(alloc_heap(), quotas, quota_count, &with.people), 0);
    const struct policy *rules = lab_rules(lab, "rules: []\n");
    assert_int_equal(policy_join(alloc_heap(), rules, &with, &joined), 0);
    lab_policy(lab, joined);
}

/* A block that ends by itself says when; one that does not says never; of several the one is told
 * that lasts longest, be it an operator's or one of the user's record. */
static void a_block_says_when_it_ends(void **state)
{
    struct lab *lab = *state;
    const uint64_t now_ms = (uint64_t)(lab->now_ns / LAB_MS);
    const struct block blocks[] = {
        {{"attr user=ann", 13}, {"five", 4}, now_ms + 5000},
        {{"attr user=bob", 13}, {"ever", 4}, 0},
        {{"attr user=cid", 13}, {"five", 4}, now_ms + 5000},
        {{"attr team=red", 13}, {"nine", 4}, now_ms + 9000},
        {{"attr user=dan", 13}, {"five", 4}, now_ms + 5000},
    };
    const struct quota quotas[] = {
        {.user = {"dan", 3}, .blocked = true, .until_ms = now_ms + 8000, .reason = {"record", 6}},
        {.user = {"eve", 3}, .blocked = true, .until_ms = now_ms + 8000, .reason = {"record", 6}},
    };
    static const struct {
        const char *attributes[3];
        int64_t ms;
        const char *message;
    } asked[] = {
        {{"user=ann"}, 5000, "five"},           {{"user=bob"}, -1, "ever"},
        {{"user=cid"}, 5000, "five"},           {{"user=cid", "team=red"}, 9000, "nine"},
        {{"user=bob", "team=red"}, -1, "ever"}, {{"user=dan"}, 8000, "record"},
        {{"user=eve"}, 8000, "record"},
    };
    join(lab, blocks, sizeof blocks / sizeof *blocks, quotas, 2);
    const int64_t passed_ms = lab->now_ns / LAB_MS - (int64_t)now_ms;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const struct wire_decision decision = ask(lab, OPERATION_CHECK, 1, asked[i].attributes);
        assert_int_equal(decision.outcome, OUTCOME_BLOCKED);
        assert_int_equal(decision.retry_after_ms, asked[i].ms < 0 ? -1 : asked[i].ms - passed_ms);
        assert_true(lab_text_is(decision.source->message, asked[i].message));
    }
    lab_run(lab, 5000 * LAB_MS);
    assert_true(ask(lab, OPERATION_CHECK, 1, ann).allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(never_wins_over_a_configured_time),
        LAB_TEST_ONE(what_no_waiting_mends_says_never),
        LAB_TEST_ONE(of_several_the_longest_is_told),
        LAB_TEST_ONE(less_than_a_millisecond_is_one),
        LAB_TEST_ONE(a_repeated_denial_does_not_say_0),
        LAB_TEST(what_cannot_be_decided_is_asked_again_soon, set_up_ghost),
        LAB_TEST_ONE(a_block_says_when_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
