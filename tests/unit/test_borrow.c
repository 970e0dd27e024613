/* test_borrow.c - what a borrowed request takes of its limits and of its pool, and what it does
 * not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"

/* Sends one request of `user` to the rules that match `kind`. */
static uint64_t send(struct lab *lab, uint32_t at, const char *kind, const char *user,
                     uint8_t operation, uint64_t cost)
{
    const struct wire_text names[] = {wire_text_of("kind"), wire_text_of("user")};
    const struct wire_text values[] = {wire_text_of(kind), wire_text_of(user)};
    const int index = wire_checks_builder_attributes(&lab->builder, names, 2);
    assert_true(index >= 0);
    assert_true(wire_checks_builder_append(&lab->builder, (uint32_t)index, operation, cost, values,
                                           2) >= 0);
    return lab_send(lab, at, 5000);
}

static struct wire_decision ask(struct lab *lab, const char *kind, uint8_t operation, uint64_t cost)
{
    return lab_answer(lab, send(lab, 0, kind, "u", operation, cost), 0);
}

static struct wire_decision check(struct lab *lab, const char *kind)
{
    return ask(lab, kind, OPERATION_CHECK, 1);
}

/* Uses up the limit of 5; another key teaches the pool that it is asked for; and the first one
 * becomes known to it by a request of more than it was credited yet, which takes nothing. */
static void exhaust(struct lab *lab, const char *kind)
{
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(check(lab, kind).outcome, OUTCOME_ALLOW);
    for (uint32_t i = 0; i < 12; i++) {
        (void)lab_answer(lab, send(lab, 0, kind, "other", OPERATION_CHECK, 1), 0);
        lab_run(lab, 100 * LAB_MS);
    }
    assert_int_equal(ask(lab, kind, OPERATION_CHECK, 2).outcome, OUTCOME_DENY);
    lab_run(lab, 100 * LAB_MS);
}

#define POOLS "pools: {p: {rate: 100/s}, q: {rate: 50/s}}\nrules:\n"
#define LIMITS(name, limits)                                                                       \
    "- {name: " name ", match: {kind: " name                                                       \
    "}, key: [user], mode: {elastic: {pool: p}}, limits: [" limits "]}\n"

/* A borrowed request is allowed, says so, and takes nothing of its limit. */
static void a_borrowed_request_takes_nothing_of_its_limit(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, POOLS LIMITS("a", "{rate: 5/h, algorithm: fixed_window}"));
    exhaust(lab, "a");
    const struct wire_decision decision = check(lab, "a");
    assert_true(decision.allowed);
    assert_int_equal(decision.outcome, OUTCOME_ELASTIC_BORROWED);
    assert_int_equal(decision.source->status, 200);
    assert_int_equal(decision.granted, 1);
    assert_int_equal(decision.limit, 5);
    assert_int_equal(decision.used, 5);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(decision.retry_after_ms, 0);
    assert_true(lab_stats(lab, 0).borrowed > 0);
    const struct wire_decision dear = ask(lab, "a", OPERATION_CHECK, 1000);
    assert_int_equal(dear.outcome, OUTCOME_DENY);
    assert_true(dear.retry_after_ms != 0);
    assert_int_equal(ask(lab, "a", OPERATION_CHECK, 0).outcome, OUTCOME_ALLOW);
}

/* A peek tells what a check would get, and takes nothing. */
static void a_peek_takes_nothing(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, POOLS LIMITS("a", "{rate: 5/h}"));
    exhaust(lab, "a");
    lab_run(lab, 300 * LAB_MS);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(ask(lab, "a", OPERATION_PEEK, 3).outcome, OUTCOME_ELASTIC_BORROWED);
    const struct wire_decision peek = ask(lab, "a", OPERATION_PEEK, 3);
    assert_true(peek.granted == 0 && peek.used == 5 && peek.remaining == 0);
    assert_int_equal(ask(lab, "a", OPERATION_CHECK, 3).outcome, OUTCOME_ELASTIC_BORROWED);
}

/* Two windows of a rule: the short one borrows, the other one is charged; a request short of both
 * borrows once. */
static void limits_of_one_request_are_all_or_nothing(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, POOLS LIMITS("a", "{rate: 5/h, algorithm: fixed_window}, {rate: 8/d, "
                                           "algorithm: sliding_window}"));
    exhaust(lab, "a");
    struct wire_decision decision = ask(lab, "a", OPERATION_CHECK, 3);
    assert_int_equal(decision.outcome, OUTCOME_ELASTIC_BORROWED);
    lab_run(lab, 200 * LAB_MS);
    const uint64_t before = lab_stats(lab, 0).pools_lent;
    assert_int_equal(check(lab, "a").outcome, OUTCOME_ELASTIC_BORROWED); /* short of both by now */
    assert_int_equal(lab_stats(lab, 0).pools_lent, before + 1);
}

/* A hard limit of the same request that is short denies, and nothing is borrowed for it. */
static void a_hard_limit_denies_what_could_be_borrowed(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(
        lab, POOLS LIMITS("a", "{rate: 5/h}, {rate: 7/h, mode: hard, algorithm: fixed_window}"));
    exhaust(lab, "a");
    assert_int_equal(check(lab, "a").outcome, OUTCOME_ELASTIC_BORROWED);
    assert_int_equal(check(lab, "a").outcome, OUTCOME_ELASTIC_BORROWED); /* the seventh */
    const uint64_t before = lab_stats(lab, 0).pools_lent;
    const struct wire_decision decision = check(lab, "a");
    assert_int_equal(decision.outcome, OUTCOME_DENY);
    assert_int_equal(decision.limit, 7);
    assert_int_equal(lab_stats(lab, 0).pools_lent, before);
}

/* At most: what can be borrowed, when the limit has nothing left, and no more than the other limits
 * of the request have. */
static void at_most_takes_what_there_is(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(
        lab, POOLS LIMITS("a", "{rate: 5/h}, {rate: 9/h, mode: hard, algorithm: fixed_window}"));
    exhaust(lab, "a");
    lab_run(lab, 300 * LAB_MS); /* about 19 tokens are saved up */
    const struct wire_decision decision = ask(lab, "a", OPERATION_CHECK | WIRE_AT_MOST, 100);
    assert_int_equal(decision.outcome, OUTCOME_ELASTIC_BORROWED);
    assert_int_equal(decision.granted, 4); /* of the hard limit */
    assert_int_equal(ask(lab, "a", OPERATION_CHECK | WIRE_AT_MOST, 100).outcome, OUTCOME_DENY);
    lab_run(lab, 400 * LAB_MS);
    assert_in_range(lab_stats(lab, 0).pools[0].borrowed / 1000000000, 8, 20); /* 4 in 500 ms */
}

/* Whoever lost the answer gets it again, and borrows once. */
static void a_repeated_request_borrows_once(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, POOLS LIMITS("a", "{rate: 5/h}"));
    exhaust(lab, "a");
    const uint64_t seq = send(lab, 0, "a", "u", OPERATION_CHECK, 2);
    assert_int_equal(lab_answer(lab, seq, 0).outcome, OUTCOME_ELASTIC_BORROWED);
    const uint64_t before = lab_stats(lab, 0).pools_lent;
    const struct wire_text names[] = {wire_text_of("kind"), wire_text_of("user")};
    const struct wire_text values[] = {wire_text_of("a"), wire_text_of("u")};
    const int index = wire_checks_builder_attributes(&lab->builder, names, 2);
    assert_true(wire_checks_builder_append(&lab->builder, (uint32_t)index, OPERATION_CHECK, 2,
                                           values, 2) >= 0);
    lab_send_again(lab, 0, seq, 5000);
    assert_int_equal(lab_answers(lab, seq), 2);
    const struct wire_decision decision = lab_answer(lab, seq, 0);
    assert_int_equal(decision.outcome, OUTCOME_ELASTIC_BORROWED);
    assert_int_equal(decision.granted, 2);
    assert_int_equal(lab_stats(lab, 0).pools_lent, before);
    assert_int_equal(lab_stats(lab, 0).retries_recalled, 1);
}

/* A rule on trial takes nothing of what others share, and is judged as if it were hard. */
static void a_rule_on_trial_borrows_nothing(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, POOLS "- {name: a, shadow: true, key: [user], mode: {elastic: {pool: p}}, "
                               "limits: [{rate: 5/h}]}\n");
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(check(lab, "a").outcome, OUTCOME_ALLOW);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(check(lab, "a").outcome, OUTCOME_SHADOW_DENIED);
        lab_run(lab, 100 * LAB_MS);
    }
    assert_int_equal(lab_stats(lab, 0).pools_keys, 0);
    assert_int_equal(lab_stats(lab, 0).pools[0].guaranteed, 0);
}

/* Hits are charged to the pool, as what is inside the limit is; each request once a pool, whatever
 * the number of its limits. */
static void what_is_admitted_is_charged_to_its_pools_once(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(
        lab,
        POOLS LIMITS(
            "a",
            "{rate: 100000/h}, {rate: 100000/d}, {rate: 90000/h, mode: {elastic: {pool: q}}}"));
    for (uint32_t i = 0; i < 12; i++) {
        (void)ask(lab, "a", OPERATION_CHECK, 2);
        (void)ask(lab, "a", OPERATION_HIT, 1);
        lab_run(lab, 100 * LAB_MS);
    }
    const struct shard_stats stats = lab_stats(lab, 0);
    assert_int_equal(stats.pool_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_in_range(stats.pools[i].guaranteed / 100000000, 270, 330); /* tenths */
}

/* Limits of two owners: what one lent is not given back to its limit when the other denies. */
static void a_denial_elsewhere_gives_nothing_back_that_was_not_taken(void **state)
{
    struct lab *lab = *state;
    char first[LAB_KEY_LEN];
    char second[LAB_KEY_LEN];
    (void)lab_rules(lab,
                    POOLS "- {name: e, key: [user], mode: {elastic: {pool: p}}, limits: [{rate: "
                          "5/h, algorithm: fixed_window}]}\n"
                          "- {name: h, match: {both: y}, key: [host], limits: [{rate: 2/h, "
                          "algorithm: fixed_window}]}\n");
    lab_attribute(lab, "e", "user", 0, first);
    lab_attribute(lab, "h", "host", 1, second);
    const char *alone[] = {first, NULL};
    const char *both[] = {first, second, "both=y", NULL};
    for (uint32_t i = 0; i < 5 + 15; i++) {
        lab_ask_attributes(lab, 1, alone);
        (void)lab_answer(lab, lab_send(lab, 2, 5000), 0);
        lab_run(lab, 100 * LAB_MS);
    }
    uint32_t denied = 0;
    for (uint32_t i = 0; i < 10; i++) {
        lab_ask_attributes(lab, 1, both);
        const struct wire_decision decision = lab_answer(lab, lab_send(lab, 2, 5000), 0);
        assert_int_equal(decision.outcome, i < 2 ? OUTCOME_ELASTIC_BORROWED : OUTCOME_DENY);
        denied += decision.outcome == OUTCOME_DENY;
        lab_run(lab, 50 * LAB_MS);
    }
    assert_int_equal(denied, 8);
    lab_ask_attributes(lab, 1, alone);
    const struct wire_decision last = lab_answer(lab, lab_send(lab, 2, 5000), 0);
    assert_int_not_equal(last.outcome, OUTCOME_ALLOW);
    assert_int_equal(last.used, 5);
}

/* What another owner denies is no load of what the pool protects: after its undo the pool is as if
 * it had not been, whether it was inside its limit or borrowed. */
static void a_denial_elsewhere_is_taken_off_the_pool(void **state)
{
    struct lab *lab = *state;
    char first[LAB_KEY_LEN];
    char second[LAB_KEY_LEN];
    const char *limits[] = {"100000/h", "5/h"};
    for (uint32_t over = 0; over < 2; over++) {
        char rules[512];
        (void)snprintf(rules, sizeof rules,
                       "pools: {p%u: {rate: 200/s}}\nrules:\n"
                       "- {name: e%u, key: [user], mode: {elastic: {pool: p%u}}, limits: [{rate: "
                       "%s, algorithm: fixed_window}]}\n"
                       "- {name: h%u, match: {both: y}, key: [host], limits: [{rate: 1/h}]}\n",
                       over, over, over, limits[over], over);
        (void)lab_rules(lab, rules);
        char name[2][LAB_KEY_LEN];
        (void)snprintf(name[0], sizeof name[0], "e%u", over);
        (void)snprintf(name[1], sizeof name[1], "h%u", over);
        lab_attribute(lab, name[0], "user", 0, first);
        lab_attribute(lab, name[1], "host", 1, second);
        const char *alone[] = {first, NULL};
        const char *both[] = {first, second, "both=y", NULL};
        for (uint32_t i = 0; i < 20; i++) {
            lab_ask_attributes(lab, 1, over ? alone : both);
            (void)lab_answer(lab, lab_send(lab, 2, 5000), 0);
            lab_run(lab, 100 * LAB_MS);
        }
        if (over)
            assert_true(lab_stats(lab, 0).pools[0].borrowed > 0);
        lab_ask_attributes(lab, 1, both);
        (void)lab_answer(lab, lab_send(lab, 2, 5000), 0);
        for (uint32_t i = 0; i < 400; i++) {
            lab_ask_attributes(lab, 1, both);
            assert_false(lab_answer(lab, lab_send(lab, 2, 5000), 0).allowed);
            lab_run(lab, LAB_MS);
        }
        lab_run(lab, 250 * LAB_MS);
        const struct shard_pool pool = lab_stats(lab, 0).pools[0];
        assert_in_range(pool.guaranteed / 1000000000, 0, 2);
        assert_in_range(pool.borrowed / 1000000000, 0, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(a_borrowed_request_takes_nothing_of_its_limit),
        LAB_TEST_ONE(a_peek_takes_nothing),
        LAB_TEST_ONE(limits_of_one_request_are_all_or_nothing),
        LAB_TEST_ONE(a_hard_limit_denies_what_could_be_borrowed),
        LAB_TEST_ONE(at_most_takes_what_there_is),
        LAB_TEST_ONE(a_repeated_request_borrows_once),
        LAB_TEST_ONE(a_rule_on_trial_borrows_nothing),
        LAB_TEST_ONE(what_is_admitted_is_charged_to_its_pools_once),
        LAB_TEST_THREE(a_denial_elsewhere_gives_nothing_back_that_was_not_taken),
        LAB_TEST_THREE(a_denial_elsewhere_is_taken_off_the_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
