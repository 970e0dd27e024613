/* test_lessee.c - consistency any: a node decides on tokens that it holds, and all nodes together
 * admit what the limit allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

enum { LIMIT = 100, LEADER = 0, NEAR = 1, OTHER = 2 };

#define LEASE_NS (LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS)

static char user[LAB_KEY_LEN];
static const char *const attributes[] = {user, NULL};

/* A rule whose key DECIDER decides, long enough after a start that leases are given. */
static void begin(struct lab *lab, const char *more)
{
    char text[256];
    const int len = snprintf(text, sizeof text,
                             "rules: [{name: calls, key: [user], consistency: any, "
                             "limits: [{rate: 100/h, algorithm: sliding_log}]%s}]\n",
                             more);
    assert_true(len > 0 && (size_t)len < sizeof text);
    lab_rules(lab, text);
    lab_attribute(lab, "calls", "user", LEADER, user);
    lab_run(lab, LEASE_NS + 10 * LAB_MS);
}

static struct wire_decision ask_as(struct lab *lab, uint32_t at, uint8_t operation, uint64_t cost)
{
    lab_ask_attributes_as(lab, operation, cost, attributes);
    return lab_answer(lab, lab_send(lab, at, 400), 0);
}

static struct wire_decision ask(struct lab *lab, uint32_t at)
{
    return ask_as(lab, at, OPERATION_CHECK, 1);
}

/* What the leader has counted. */
static uint64_t used(struct lab *lab)
{
    const struct wire_decision peek = ask_as(lab, LEADER, OPERATION_PEEK, 0);
    return peek.used;
}

/* Asks until NEAR holds tokens; returns how many checks were admitted. */
static uint32_t warm(struct lab *lab, uint32_t at)
{
    uint32_t admitted = 0;
    for (uint32_t i = 0; i < 3; i++) {
        admitted += ask(lab, at).allowed;
        lab_run(lab, 5 * LAB_MS);
    }
    assert_int_equal(lab_stats(lab, at).any_leases, 1);
    return admitted;
}

static void cut_off(struct lab *lab, uint32_t at, bool cut)
{
    for (uint32_t other = 0; other < lab->count; other++)
        lab->cut[at][other] = lab->cut[other][at] = cut && other != at;
}

/* Once a key is asked for again, checks are decided where they come in: nothing is forwarded for
 * them, and time does not pass. What is told is what is left there. */
static void a_key_that_is_asked_for_is_decided_without_asking(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    const uint32_t admitted = warm(lab, NEAR);
    assert_int_equal(admitted, 3);
    lab_forget(lab);
    const int64_t before_ns = lab->now_ns;
    const struct wire_decision first = ask(lab, NEAR);
    const struct wire_decision second = ask(lab, NEAR);
    assert_true(first.allowed && second.allowed && first.limit == LIMIT && !second.degraded);
    assert_int_equal(second.remaining + 1, first.remaining);
    assert_true(lab->now_ns == before_ns);
    assert_int_equal(lab_said(lab, NEAR, LAB_NONE, PEER_FORWARD, NULL), 0);
    assert_true(lab_stats(lab, NEAR).any_allowed >= 2);
}

/* Three nodes that are asked all the time admit the limit together, no more and no less. */
static void all_nodes_together_admit_the_limit(void **state)
{
    struct lab *lab = *state;
    uint32_t admitted = 0;
    begin(lab, "");
    for (uint32_t round = 0; round < 400; round++) {
        for (uint32_t at = 0; at < 3; at++)
            admitted += ask(lab, at).allowed;
        lab_run(lab, 7 * LAB_MS);
    }
    assert_int_equal(admitted, LIMIT);
    assert_int_equal(used(lab), LIMIT);
    assert_true(lab_stats(lab, NEAR).any_allowed > 0 && lab_stats(lab, OTHER).any_allowed > 0);
}

/* Of what a node has admitted with its tokens its leader hears before a refund or a reset: it
 * gives back what was admitted, and not what nobody has counted yet. */
static void a_refund_is_about_what_was_admitted_here_as_well(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    const uint64_t before = warm(lab, NEAR);
    assert_int_equal(before, 3);
    for (uint32_t i = 0; i < 10; i++)
        assert_true(ask(lab, NEAR).allowed);
    assert_true(lab_stats(lab, NEAR).any_allowed >= 10);
    assert_true(ask_as(lab, NEAR, OPERATION_REFUND, 8).allowed);
    lab_run(lab, 2 * LEASE_NS);
    assert_int_equal(used(lab), 5);
    (void)ask(lab, NEAR);
    lab_run(lab, 5 * LAB_MS);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(ask(lab, NEAR).allowed);
    assert_int_equal(lab_stats(lab, NEAR).any_leases, 2);
    (void)ask_as(lab, NEAR, OPERATION_RESET, 0);
    lab_run(lab, 2 * LEASE_NS);
    assert_int_equal(used(lab), 0);
}

/* Who asks for more than the limit can ever give makes a node take no tokens for it, then or later;
 * at most so much is what there is. */
static void no_tokens_are_taken_for_what_never_fits(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    for (uint32_t i = 0; i < 5; i++) {
        const struct wire_decision never = ask_as(lab, NEAR, OPERATION_CHECK, LIMIT + 1);
        assert_true(!never.allowed && never.retry_after_ms == -1);
        lab_run(lab, 5 * LAB_MS);
    }
    assert_int_equal(lab_stats(lab, NEAR).any_leases, 0);
    assert_int_equal(used(lab), 0);
    assert_int_equal(warm(lab, NEAR), 3);
    const uint64_t held = lab_stats(lab, NEAR).any_tokens; /* for so many checks, not for a half */
    assert_in_range(held, 1, 30);
    const struct wire_decision all =
        ask_as(lab, NEAR, OPERATION_CHECK | WIRE_AT_MOST, WIRE_COST_MAX);
    assert_true(all.allowed && all.granted <= LIMIT - 3);
    lab_run(lab, 2 * LEASE_NS);
    assert_in_range(used(lab), 3 + all.granted, LIMIT);
}

/* What nobody asks for any more goes back before its time is over: all that was not used. */
static void tokens_that_nobody_asks_for_go_back(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    const uint32_t admitted = warm(lab, NEAR);
    assert_true(used(lab) > admitted);
    lab_run(lab, LIMIT_LEASE_NS);
    assert_int_equal(used(lab), admitted);
    const struct shard_stats stats = lab_stats(lab, NEAR);
    assert_int_equal(stats.any_tokens - stats.any_back, stats.any_allowed);
}

/* A node that dies with tokens has spent them. */
static void the_tokens_of_a_dead_node_are_spent(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    (void)warm(lab, NEAR);
    const uint64_t out = used(lab);
    lab_stop(lab, NEAR);
    lab_run(lab, 2 * LEASE_NS);
    assert_int_equal(used(lab), out);
}

/* One that stops in order gives them back first. */
static void a_node_that_stops_gives_its_tokens_back(void **state)
{
    struct lab *lab = *state;
    bool done = false;
    begin(lab, "");
    const uint32_t admitted = warm(lab, NEAR);
    for (uint32_t i = 0; i < 200 && !done; i++) {
        done = shard_resign(lab->shards[NEAR].shard, lab->now_ns, &lab->effects);
        lab_perform(lab, NEAR);
        lab_run(lab, LAB_MS);
    }
    assert_true(done);
    lab_stop(lab, NEAR);
    assert_int_equal(used(lab), admitted);
}

/* A node whose leader is out of reach serves what it holds until its lease ends; then on_failure
 * decides: an error here. What it held is spent. */
static void a_node_that_is_cut_off_serves_what_it_holds(void **state)
{
    struct lab *lab = lab_new(3, 1, 1);
    (void)state;
    lab_start_all(lab);
    begin(lab, ", on_failure: closed");
    (void)warm(lab, NEAR);
    const uint64_t out = used(lab);
    cut_off(lab, NEAR, true);
    assert_true(ask(lab, NEAR).allowed);
    lab_run(lab, LIMIT_LEASE_NS / 2);
    assert_true(ask(lab, NEAR).allowed);
    lab_run(lab, LIMIT_LEASE_NS / 2);
    const struct wire_decision late = ask(lab, NEAR);
    assert_true(!late.allowed && late.outcome == OUTCOME_ERROR);
    assert_int_equal(used(lab), out);
    lab_free(lab);
}

/* When nobody is left to ask each node stands in for itself: one share per node, without a hop. */
static void each_node_has_a_share_of_its_own(void **state)
{
    struct lab *lab = lab_new(3, 1, 1);
    uint32_t admitted[3] = {0, 0, 0};
    (void)state;
    lab_start_all(lab);
    begin(lab, ", on_failure: {local: {share: 10%}}");
    lab_stop(lab, LEADER);
    lab_run(lab, 500 * LAB_MS);
    lab_forget(lab);
    for (uint32_t i = 0; i < 30; i++)
        for (uint32_t at = NEAR; at <= OTHER; at++)
            admitted[at] += ask(lab, at).allowed;
    assert_int_equal(admitted[NEAR], 10);
    assert_int_equal(admitted[OTHER], 10);
    assert_int_equal(lab_said(lab, NEAR, OTHER, PEER_FORWARD, NULL), 0);
    lab_free(lab);
}

/* A denial is known for a moment where it was told, for checks that cost as much; a refund there
 * ends it. */
static void a_denial_is_believed_for_a_moment(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    assert_true(ask_as(lab, LEADER, OPERATION_CHECK, 99).allowed);
    assert_false(ask_as(lab, NEAR, OPERATION_CHECK, 2).allowed);
    lab_forget(lab);
    const struct wire_decision denied = ask_as(lab, NEAR, OPERATION_CHECK, 2);
    assert_true(!denied.allowed && denied.limit == LIMIT && denied.retry_after_ms > 0);
    assert_int_equal(lab_said(lab, NEAR, LEADER, PEER_FORWARD, NULL), 0);
    assert_int_equal(lab_stats(lab, NEAR).any_denied, 1);
    assert_true(ask_as(lab, NEAR, OPERATION_REFUND, 9).allowed);
    assert_true(ask_as(lab, NEAR, OPERATION_CHECK, 2).allowed);
}

/* A denial says nothing of a check that is content with less: it is asked, and gets of what is
 * left.
 */
static void who_is_content_with_less_is_not_denied_by_it(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    assert_true(ask_as(lab, LEADER, OPERATION_CHECK, 97).allowed);
    assert_false(ask_as(lab, NEAR, OPERATION_CHECK, 9).allowed);
    const struct wire_decision some = ask_as(lab, NEAR, OPERATION_CHECK | WIRE_AT_MOST, 9);
    assert_true(some.allowed && some.granted > 0); /* this shard may hold the rest */
}

/* A check that is asked again gets its first answer, and takes nothing again. */
static void a_repeated_check_gets_its_first_answer(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    (void)warm(lab, NEAR);
    lab_ask_attributes(lab, 3, attributes);
    const uint64_t seq = lab_send(lab, NEAR, 400);
    const struct wire_decision first = lab_answer(lab, seq, 0);
    lab_ask_attributes(lab, 3, attributes);
    lab_send_again(lab, NEAR, seq, 400);
    assert_int_equal(lab_answers(lab, seq), 2);
    const struct wire_decision again = lab_answer(lab, seq, 0);
    assert_true(first.allowed && again.allowed && again.granted == 3);
    assert_int_equal(again.remaining, first.remaining);
}

/* What the leader admits, by its own tokens or for others, is known to a majority before it is
 * told: whatever moment it dies at, its successor counts it. */
static void a_decider_takes_nothing_along_that_it_admitted(void **state)
{
    (void)state;
    for (uint32_t at = LEADER; at <= NEAR; at++)
        for (uint32_t checks = 1; checks <= 4; checks++) {
            struct lab *lab = lab_new(3, 1, 3);
            uint32_t admitted = 0;
            lab_start_all(lab);
            begin(lab, "");
            for (uint32_t i = 0; i < checks; i++)
                admitted += ask(lab, at).allowed;
            lab_stop(lab, LEADER);
            lab_run(lab, 2 * LEASE_NS);
            lab_ask_attributes_as(lab, OPERATION_PEEK, 0, attributes);
            const uint64_t after = lab_answer(lab, lab_send(lab, OTHER, 400), 0).used;
            assert_int_equal(admitted, checks);
            assert_in_range(after, admitted, LIMIT);
            lab_free(lab);
        }
}

/* The leader of a busy key decides it by tokens as well: time does not pass. */
static void the_decider_is_a_holder_as_well(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    assert_int_equal(warm(lab, LEADER), 3);
    const int64_t before_ns = lab->now_ns;
    assert_true(ask(lab, LEADER).allowed && ask(lab, LEADER).allowed);
    assert_true(lab->now_ns == before_ns);
    lab_run(lab, 2 * LEASE_NS);
    assert_int_equal(used(lab), 5);
}

/* Without a majority nothing is waited for: what is admitted says that it is degraded. */
static void a_decider_without_a_majority_says_so(void **state)
{
    struct lab *lab = *state;
    begin(lab, "");
    lab_ask_attributes_as(lab, OPERATION_CHECK, 1, attributes);
    cut_off(lab, LEADER, true);
    const struct wire_decision waited = lab_answer(lab, lab_send(lab, LEADER, 400), 0);
    assert_true(waited.allowed && waited.degraded);
    const struct wire_decision alone = ask(lab, LEADER);
    assert_true(alone.allowed && alone.degraded);
}

/* LESSEE-1: what a check took of a lease is known by a memory that peers write to as well. What is
 * undone is no more than was used, whatever stands there. */
static void an_undo_gives_back_no_more_than_was_used(void **state)
{
    enum { ATTEMPT = 7, CLAIMED = 1000 };
    struct lab *lab = *state;
    struct shard *shard = lab->shards[NEAR].shard;
    begin(lab, "");
    (void)warm(lab, NEAR);
    (void)ask(lab, NEAR);
    const struct lease_cache *cache = shard->lessee.list;
    while (cache->lease == 0)
        cache++;
    const uint64_t was_used = cache->used;
    assert_in_range(was_used, 1, CLAIMED - 1);
    struct forward forward = cache->forward;
    forward.attempt = ATTEMPT;
    forward.cost = 0; /* nothing stays */
    struct retry_key charge = reserve_key(&forward.retry, forward.ids[0]);
    charge.session ^= hash_mix64(cache->lease);
    (void)retry_remember(&shard->reserves.answers, &charge, ATTEMPT, true, 0, CLAIMED,
                         shard->now_ns);
    forward.retry.part |= RETRY_UNDO;
    struct answer answer;
    lessee_undo(shard, &forward, &answer);
    assert_int_equal(answer.granted, was_used);
    assert_int_equal(cache->used, 0);
    shard_check_invariants(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(a_key_that_is_asked_for_is_decided_without_asking),
        LAB_TEST_THREE(all_nodes_together_admit_the_limit),
        LAB_TEST_THREE(a_refund_is_about_what_was_admitted_here_as_well),
        LAB_TEST_THREE(no_tokens_are_taken_for_what_never_fits),
        LAB_TEST_THREE(tokens_that_nobody_asks_for_go_back),
        LAB_TEST_THREE(the_tokens_of_a_dead_node_are_spent),
        LAB_TEST_THREE(a_node_that_stops_gives_its_tokens_back),
        cmocka_unit_test(a_node_that_is_cut_off_serves_what_it_holds),
        cmocka_unit_test(each_node_has_a_share_of_its_own),
        LAB_TEST_THREE(a_denial_is_believed_for_a_moment),
        LAB_TEST_THREE(who_is_content_with_less_is_not_denied_by_it),
        LAB_TEST_THREE(a_repeated_check_gets_its_first_answer),
        cmocka_unit_test(a_decider_takes_nothing_along_that_it_admitted),
        LAB_TEST_THREE(the_decider_is_a_holder_as_well),
        LAB_TEST_THREE(a_decider_without_a_majority_says_so),
        LAB_TEST_THREE(an_undo_gives_back_no_more_than_was_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
