/* test_resolve.c - what finding the rules of a message may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

/* Asks `items` times for what 5,000 patterns are compared with, none of which holds. */
static void ask_much(struct lab *lab, uint32_t items)
{
    char value[5 + 1000 + 1] = "user=";
    const char *const attributes[] = {value, NULL};
    memset(value + 5, 'a', 1000);
    for (uint32_t i = 0; i < items; i++)
        lab_ask_attributes(lab, 1, attributes);
}

enum { PATTERNS = 5000, ROOM = PATTERNS * 192 };

/* Rules that all of those items are compared with, and one that they meet. */
static void costly_rules(struct lab *lab)
{
    static char text[ROOM];
    char as[101] = "";
    size_t len = (size_t)snprintf(text, ROOM,
                                  "rules:\n- {name: all, key: [user], limits: "
                                  "[{rate: 1000/h}]}\n");
    memset(as, 'a', 100);
    for (int i = 0; i < PATTERNS; i++)
        len +=
            (size_t)snprintf(text + len, ROOM - len,
                             "- {name: r%d, match: {user: '*%sb%d*'}, action: block}\n", i, as, i);
    lab_rules(lab, text);
}

/* How much of the user's limit is used. */
static uint64_t used_of_all(struct lab *lab)
{
    ask_much(lab, 1);
    return lab_answer(lab, lab_send(lab, 0, 5000), 0).used - 1;
}

/* Whether the node decides it: how many checks its engine has decided. */
static uint64_t used_by(struct lab *lab, uint32_t at)
{
    const uint64_t before = lab_stats(lab, at).checks;
    (void)used_of_all(lab);
    return lab_stats(lab, at).checks - before;
}

/* RESOLVE-4: the turn ends inside the message. Who asks meanwhile is answered; the rest follows in
 * later turns, in one answer, and each item is charged once. */
static void a_costly_message_takes_many_turns_and_others_are_answered_between(void **state)
{
    enum { ITEMS = 40 };
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    costly_rules(lab);
    ask_much(lab, ITEMS);
    const uint64_t seq = lab_send(lab, 0, 5000);
    uint32_t turns = 0;
    for (; !lab_answered(lab, seq) && turns < 100; turns++) {
        lab_ask(lab, &limit, "other", OPERATION_PEEK, 1);
        const uint64_t other = lab_send(lab, 0, 5000);
        assert_true(lab_answered(lab, other));
        assert_in_range(lab->shards[0].shard->turn_work, 1, 7000000);
        lab_tick(lab, 0);
    }
    assert_in_range(turns, 8, 30);
    for (uint32_t i = 0; i < ITEMS; i++)
        assert_true(lab_answer(lab, seq, i).allowed);
    assert_in_range(lab_stats(lab, 0).unfinished, 8, 30);
    lab_tick(lab, 0);
    assert_int_equal(used_of_all(lab), ITEMS);
}

/* UNFINISHED-4: repeated through another node, which is sooner finished, it is charged once. */
static void a_message_that_is_repeated_before_it_is_finished_is_charged_once(void **state)
{
    enum { ITEMS = 20 };
    struct lab *lab = *state;
    costly_rules(lab);
    uint32_t leader = 0;
    while (leader < 2 && used_by(lab, leader) == 0)
        leader++;
    const uint32_t slow = (leader + 1) % 3;
    const uint32_t quick = (leader + 2) % 3;
    const uint64_t before = used_of_all(lab);
    ask_much(lab, ITEMS);
    const uint64_t seq = lab_send(lab, slow, 5000);
    lab_tick(lab, slow); /* what it has found so far leaves */
    lab_deliver(lab);
    ask_much(lab, ITEMS);
    lab_send_again(lab, quick, seq, 5000);
    for (uint32_t ms = 0; lab_answers(lab, seq) == 0 && ms < 50; ms++) {
        lab->now_ns += LAB_MS;
        lab_tick(lab, quick);
        lab_tick(lab, leader);
        lab_deliver(lab);
    }
    assert_int_equal(lab_answers(lab, seq), 1);
    assert_true(lab->shards[slow].shard->unfinished.count == 1);
    lab_run(lab, 100 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    for (uint32_t i = 0; i < ITEMS; i++)
        assert_true(lab_answer(lab, seq, i).allowed);
    assert_int_equal(used_of_all(lab), before + 1 + ITEMS);
}

/* The costly message is cut off after the first turns: its first items are charged, the rest is
 * busy. */
static void assert_cut_off(struct lab *lab, uint64_t seq)
{
    uint32_t decided = 0;
    lab_run(lab, 100 * LAB_MS);
    while (lab_answer(lab, seq, decided).allowed)
        decided++;
    assert_in_range(decided, 1, 8);
    for (uint32_t i = decided; i < 40; i++)
        assert_int_equal(lab_answer(lab, seq, i).outcome, OUTCOME_BUSY);
    assert_int_equal(used_of_all(lab), decided);
}

/* UNFINISHED-3: rules that are no longer in force decide nothing, and those that are did not
 * begin. */
static void what_is_left_when_the_rules_change_is_busy(void **state)
{
    struct lab *lab = *state;
    costly_rules(lab);
    ask_much(lab, 40);
    const uint64_t seq = lab_send(lab, 0, 5000);
    lab_rules(lab, "rules: [{name: all, key: [user], limits: [{rate: 1000/h}]}]");
    assert_cut_off(lab, seq);
}

/* UNFINISHED-3: a client that waits no longer is worked for no longer. */
static void what_is_left_when_the_client_waits_no_longer_is_busy(void **state)
{
    struct lab *lab = *state;
    costly_rules(lab);
    ask_much(lab, 40);
    const uint64_t seq = lab_send(lab, 0, 20);
    lab_pause(lab, 30 * LAB_MS);
    assert_cut_off(lab, seq);
}

/* UNFINISHED-3: so many wait and no more; and all are answered. */
static void more_unfinished_messages_than_have_room_are_busy(void **state)
{
    enum { MESSAGES = UNFINISHED_MAX + 50 };
    struct lab *lab = *state;
    uint64_t seqs[MESSAGES];
    uint32_t answered = 0;
    costly_rules(lab);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        ask_much(lab, 1);
        seqs[i] = lab_send(lab, 0, 5000);
    }
    for (uint32_t i = 0; i < MESSAGES; i++)
        answered += lab_answered(lab, seqs[i]);
    assert_in_range(answered, 50, 60);
    assert_int_equal(lab->shards[0].shard->unfinished.count, UNFINISHED_MAX);
    assert_int_equal(lab_stats(lab, 0).busy, MESSAGES - UNFINISHED_MAX - (answered - 46));
    lab_run(lab, 500 * LAB_MS);
    for (uint32_t i = 0; i < MESSAGES; i++)
        assert_true(lab_answered(lab, seqs[i]));
    assert_int_equal(lab->shards[0].shard->unfinished.count, 0);
    assert_int_equal(lab->shards[0].shard->unfinished.bytes, 0);
    assert_int_equal(used_of_all(lab), MESSAGES - lab_stats(lab, 0).busy);
}

/* A message that would hold up the node is decided so far; the items left are busy, with the
 * reason, and counted. Nothing of them is charged; and repeated, it is told what it was told. */
static void items_beyond_the_work_of_a_message_are_busy_and_charge_nothing(void **state)
{
    enum { ITEMS = 300 };
    struct lab *lab = *state;
    uint32_t decided = 0;
    costly_rules(lab);
    ask_much(lab, ITEMS);
    const uint64_t seq = lab_send(lab, 0, 5000);
    while (decided < ITEMS && lab_answer(lab, seq, decided).allowed)
        decided++;
    assert_in_range(decided, 150, 250);
    for (uint32_t i = decided; i < ITEMS; i++) {
        const struct wire_decision decision = lab_answer(lab, seq, i);
        assert_int_equal(decision.outcome, OUTCOME_BUSY);
        assert_int_equal(decision.source->status, 503);
        assert_true(
            lab_text_is(decision.source->message,
                        "looking for the rules of this message's items takes too long; expected "
                        "fewer items, or rules of which few match so much alike"));
        assert_int_equal(decision.retry_after_ms, 1000);
    }
    assert_int_equal(lab_stats(lab, 0).busy, ITEMS - decided);
    lab_forget(lab);
    ask_much(lab, ITEMS);
    lab_send_again(lab, 0, seq, 5000);
    for (uint32_t i = 0; i < ITEMS; i++)
        assert_int_equal(lab_answer(lab, seq, i).outcome,
                         i < decided ? OUTCOME_ALLOW : OUTCOME_BUSY);
    ask_much(lab, 1);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 5000), 0).used, decided + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(a_costly_message_takes_many_turns_and_others_are_answered_between),
        LAB_TEST_THREE(a_message_that_is_repeated_before_it_is_finished_is_charged_once),
        LAB_TEST_ONE(what_is_left_when_the_rules_change_is_busy),
        LAB_TEST_ONE(what_is_left_when_the_client_waits_no_longer_is_busy),
        LAB_TEST_ONE(more_unfinished_messages_than_have_room_are_busy),
        LAB_TEST_ONE(items_beyond_the_work_of_a_message_are_busy_and_charge_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
