/* test_decide.c - batches through the engine: groups, first answers, and who confirmed them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"

static uint64_t send_one(struct lab *lab, const struct limit *limit, uint64_t cost)
{
    lab_ask(lab, limit, "k", OPERATION_CHECK, cost);
    return lab_send(lab, 0, 1000);
}

static struct wire_decision repeat(struct lab *lab, const struct limit *limit, uint64_t cost,
                                   uint64_t seq)
{
    lab_ask(lab, limit, "k", OPERATION_CHECK, cost);
    lab_send_again(lab, 0, seq, 1000);
    assert_int_equal(lab_answers(lab, seq), 2);
    return lab_answer(lab, seq, 0); /* the last of them */
}

/* A caller that lost the answer asks again: it gets the first one and is not charged twice. */
static void a_retry_gets_its_first_answer_and_is_charged_once(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint64_t seq = send_one(lab, &limit, 6);
    assert_true(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, 1900 * LAB_MS);
    const struct wire_decision decision = repeat(lab, &limit, 6, seq);
    assert_true(decision.allowed && decision.granted == 6); /* though 6 more would not fit */
    assert_true(decision.used == 6 && decision.remaining == 4);
    assert_int_equal(lab_used(lab, 0, "k", &limit), 6);
    assert_int_equal(lab_stats(lab, 0).retries_recalled, 1);
}

/* A first answer that was a denial stays one, even if there would be room by now. */
static void a_retry_of_a_denied_check_stays_denied(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    (void)send_one(lab, &limit, 8);
    const uint64_t seq = send_one(lab, &limit, 3);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab_ask(lab, &limit, "k", OPERATION_RESET, 0);
    (void)lab_send(lab, 0, 1000);
    const struct wire_decision decision = repeat(lab, &limit, 3, seq);
    assert_true(!decision.allowed && decision.granted == 0);
    assert_int_equal(lab_used(lab, 0, "k", &limit), 0);
}

/* The memory of first answers lasts two seconds; an old sequence is a new request again. */
static void a_retry_that_comes_too_late_is_a_new_check(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint64_t seq = send_one(lab, &limit, 3);
    lab_run(lab, 2100 * LAB_MS);
    assert_int_equal(repeat(lab, &limit, 3, seq).used, 6);
    assert_int_equal(lab_stats(lab, 0).retries_recalled, 0);
}

/* A retry of a message that never arrived is decided as if it were the first. */
static void a_retry_of_what_was_never_decided_is_charged(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 4);
    lab_send_again(lab, 0, 900, 1000);
    assert_int_equal(lab_answer(lab, 900, 0).used, 4);
    assert_int_equal(lab_stats(lab, 0).retries_recalled, 0);
}

/* Each item of a message has a memory of its own. */
static void items_of_a_repeated_message_are_recalled_one_by_one(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(5);
    for (uint32_t cost = 1; cost <= 3; cost++)
        lab_ask(lab, &limit, "k", OPERATION_CHECK, cost);
    const uint64_t seq = lab_send(lab, 0, 1000);
    for (uint32_t cost = 1; cost <= 3; cost++)
        lab_ask(lab, &limit, "k", OPERATION_CHECK, cost);
    lab_send_again(lab, 0, seq, 1000);
    assert_int_equal(lab_answers(lab, seq), 2);
    assert_true(lab_answer(lab, seq, 0).allowed && lab_answer(lab, seq, 0).granted == 1);
    assert_true(lab_answer(lab, seq, 1).allowed && lab_answer(lab, seq, 1).granted == 2);
    assert_false(lab_answer(lab, seq, 2).allowed);
    assert_int_equal(lab_used(lab, 0, "k", &limit), 3);
}

/* Hits and refunds are repeated safely too. */
static void a_repeated_hit_and_refund_act_once(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    lab_ask(lab, &limit, "k", OPERATION_HIT, 5);
    uint64_t seq = lab_send(lab, 0, 1000);
    lab_ask(lab, &limit, "k", OPERATION_HIT, 5);
    lab_send_again(lab, 0, seq, 1000);
    assert_int_equal(lab_used(lab, 0, "k", &limit), 5);
    lab_ask(lab, &limit, "k", OPERATION_REFUND, 2);
    seq = lab_send(lab, 0, 1000);
    lab_ask(lab, &limit, "k", OPERATION_REFUND, 2);
    lab_send_again(lab, 0, seq, 1000);
    assert_int_equal(lab_used(lab, 0, "k", &limit), 3);
}

/* A message larger than one step of the engine is decided as if it were one. */
static void a_message_larger_than_a_batch_is_decided_in_order(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(3000);
    for (uint32_t i = 0; i < WIRE_CHECKS_MAX; i++)
        lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, 0, 1000);
    assert_true(lab_answered(lab, seq));
    for (uint32_t i = 0; i < WIRE_CHECKS_MAX; i++) {
        struct wire_decision decision;
        wire_decision_at(&lab->decisions, i, &decision);
        assert_int_equal(decision.allowed, i < 3000);
    }
    assert_int_equal(lab_stats(lab, 0).checks, WIRE_CHECKS_MAX);
    assert_int_equal(lab_stats(lab, 0).allowed, 3000);
    assert_int_equal(lab_stats(lab, 0).denied, WIRE_CHECKS_MAX - 3000);
}

/* A group of several limits that meets the end of a batch is neither torn nor lost. */
static void groups_at_the_end_of_a_batch_stay_whole(void **state)
{
    struct lab *lab = *state;
    static const char *const ann[] = {"user=ann", NULL};
    enum { ITEMS = 1000, ROOM = 700 };
    lab_rules(lab, "rules:\n- {name: r, key: [user], limits: ["
                   "{rate: 900/h, algorithm: fixed_window},"
                   "{rate: 700/2h, algorithm: fixed_window},"
                   "{rate: 900/3h, algorithm: fixed_window}]}\n");
    for (uint32_t i = 0; i < ITEMS; i++)
        lab_ask_attributes(lab, 1, ann);
    const uint64_t seq = lab_send(lab, 0, 1000);
    assert_true(lab_answered(lab, seq));
    for (uint32_t i = 0; i < ITEMS; i++) {
        struct wire_decision decision;
        wire_decision_at(&lab->decisions, i, &decision);
        assert_int_equal(decision.allowed, i < ROOM);
        assert_true(lab_text_is(decision.source->window, "700/2h"));
    }
}

/* A leader says when too few replicas hold what it decides. */
static void answers_are_degraded_without_a_majority_of_replicas(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char key[LAB_KEY_LEN];
    lab_key(lab, lab_vnode_owned(lab, 0), 0, key);
    assert_false(lab_check(lab, 0, key, &limit, 1).degraded);
    lab_stop(lab, 1);
    lab_run(lab, 300 * LAB_MS);
    assert_false(lab_check(lab, 0, key, &limit, 1).degraded);
    lab_stop(lab, 2);
    lab_run(lab, 300 * LAB_MS);
    const struct wire_decision decision = lab_check(lab, 0, key, &limit, 1);
    assert_true(decision.allowed && decision.degraded && decision.used == 3);
}

/* DECIDE-9: both copies of a check wait until the leader's leases hold again; whichever of them is
 * decided first, it is charged once. */
static void copies_that_waited_together_are_charged_once(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, "k");
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t unheard = lab_replica(lab, vnode, 2);
    for (uint32_t other = 0; other < 3; other++) {
        lab->cut[unheard][other] = true;
        lab->cut[other][unheard] = true;
    }
    lab_run(lab, 88 * LAB_MS);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, lab_replica(lab, vnode, 1), 1000);
    lab_run(lab, 2 * LAB_MS);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    lab_send_again(lab, leader, seq, 1000);
    assert_int_equal(lab_answers(lab, seq), 0);
    lab_run(lab, 40 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    assert_int_equal(lab_used(lab, leader, "k", &limit), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(a_retry_gets_its_first_answer_and_is_charged_once),
        LAB_TEST_ONE(a_retry_of_a_denied_check_stays_denied),
        LAB_TEST_ONE(a_retry_that_comes_too_late_is_a_new_check),
        LAB_TEST_ONE(a_retry_of_what_was_never_decided_is_charged),
        LAB_TEST_ONE(items_of_a_repeated_message_are_recalled_one_by_one),
        LAB_TEST_ONE(a_repeated_hit_and_refund_act_once),
        LAB_TEST_ONE(a_message_larger_than_a_batch_is_decided_in_order),
        LAB_TEST_ONE(groups_at_the_end_of_a_batch_stay_whole),
        LAB_TEST_THREE(answers_are_degraded_without_a_majority_of_replicas),
        LAB_TEST_THREE(copies_that_waited_together_are_charged_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
