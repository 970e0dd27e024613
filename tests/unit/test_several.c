/* test_several.c - requests that meet several rules, whose keys different nodes decide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

/* Three nodes; a key is decided by its owner alone. */
static int set_up_three(void **state)
{
    struct lab *lab = lab_new(3, 1, 1);
    lab_start_all(lab);
    *state = lab;
    return 0;
}

struct question {
    char user[LAB_KEY_LEN]; /* decided by node 1 */
    char host[LAB_KEY_LEN]; /* by node 2 */
    const char *attributes[3];
};

/* Rules by-user and by-host; node 0 is asked, and decides neither. */
static struct question request_of(struct lab *lab, const char *rules)
{
    struct question request;
    lab_rules(lab, rules);
    lab_attribute(lab, "by-user", "user", 1, request.user);
    lab_attribute(lab, "by-host", "host", 2, request.host);
    return request;
}

static uint64_t send(struct lab *lab, uint8_t operation, uint64_t cost, const char *a,
                     const char *b, uint32_t timeout_ms)
{
    const char *const texts[] = {a, b};
    struct wire_text names[2];
    struct wire_text values[2];
    uint32_t count = 0;
    for (; count < 2 && texts[count] != NULL; count++) {
        const char *equals = strchr(texts[count], '=');
        names[count] = (struct wire_text){texts[count], (size_t)(equals - texts[count])};
        values[count] = wire_text_of(equals + 1);
    }
    const int index = wire_checks_builder_attributes(&lab->builder, names, count);
    assert_true(wire_checks_builder_append(&lab->builder, (uint32_t)index, operation, cost, values,
                                           count) >= 0);
    return lab_send(lab, 0, timeout_ms);
}

static struct wire_decision ask(struct lab *lab, const struct question *request, uint8_t operation,
                                uint64_t cost)
{
    const uint64_t seq = send(lab, operation, cost, request->user, request->host, 2000);
    const struct wire_decision decision = lab_answer(lab, seq, 0);
    lab_run(lab, 20 * LAB_MS); /* what is undone is undone after the answer */
    return decision;
}

static uint64_t used(struct lab *lab, const char *attribute)
{
    return lab_answer(lab, send(lab, OPERATION_PEEK, 0, attribute, NULL, 2000), 0).used;
}

static void assert_used(struct lab *lab, const struct question *request, uint64_t user,
                        uint64_t host)
{
    assert_int_equal(used(lab, request->user), user);
    assert_int_equal(used(lab, request->host), host);
}

#define RULES(user, host)                                                                          \
    "rules:\n"                                                                                     \
    "- {name: by-user, key: [user], " user "}\n"                                                   \
    "- {name: by-host, key: [host], " host "}\n"

#define LIMITS(rate, algorithm) "limits: [{rate: " rate ", algorithm: " algorithm "}]"

/* ---- all or nothing -------------------------------------------------------------------------- */

/* Allowed by all or charged by none, whichever denies, with each algorithm. */
static void a_denial_by_one_leaves_the_others_as_they_were(void **state)
{
    struct lab *lab = *state;
    static const char *const rules[] = {
        RULES(LIMITS("2/h", "token_bucket"), LIMITS("5/h", "sliding_log")),
        RULES(LIMITS("5/h", "sliding_window"), LIMITS("2/h", "fixed_window")),
        RULES("consistency: quorum, " LIMITS("5/h", "token_bucket"), LIMITS("2/h", "sliding_log")),
        RULES(LIMITS("2/h", "fixed_window"), "consistency: quorum, " LIMITS("5/h", "sliding_log")),
    };
    for (uint32_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct question request = request_of(lab, rules[i]);
        lab_run(lab, 500 * LAB_MS); /* the plane of quorum is taken up */
        assert_true(ask(lab, &request, OPERATION_RESET, 0).allowed); /* a log is met twice */
        for (uint64_t n = 1; n <= 2; n++)
            assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
        for (uint32_t n = 0; n < 5; n++)
            assert_false(ask(lab, &request, OPERATION_CHECK, 1).allowed);
        assert_used(lab, &request, 2, 2);
        assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
    }
    assert_true(lab_stats(lab, 0).several >= 28 && lab_stats(lab, 0).undone >= 20);
    assert_int_equal(lab_stats(lab, 0).undo_lost, 0);
}

/* The answer names the limit that decided: of denials the longest wait, else the least left. */
static void the_answer_names_the_limit_that_decided(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("3/10s", "sliding_log"), LIMITS("2/h", "sliding_log")));
    assert_true(lab_text_is(ask(lab, &request, OPERATION_CHECK, 1).source->rule, "by-host"));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    const struct wire_decision one = ask(lab, &request, OPERATION_CHECK, 1);
    assert_true(!one.allowed && lab_text_is(one.source->rule, "by-host"));
    assert_int_equal(one.remaining, 0);
    lab_answer(lab, send(lab, OPERATION_HIT, 1, request.user, NULL, 2000), 0);
    const struct wire_decision both = ask(lab, &request, OPERATION_CHECK, 1);
    assert_true(!both.allowed && lab_text_is(both.source->rule, "by-host"));
    assert_true(both.retry_after_ms > 3500000);
    assert_true(lab_text_is(both.source->window, "2/h"));
}

/* A peek takes nothing anywhere; a hit, a refund and a reset go to all. */
static void other_operations_go_to_all(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("3/h", "fixed_window"), LIMITS("9/h", "sliding_log")));
    const struct wire_decision peek = ask(lab, &request, OPERATION_PEEK, 2);
    assert_true(peek.allowed && peek.granted == 0 && peek.used == 0 && peek.remaining == 3);
    assert_false(ask(lab, &request, OPERATION_PEEK, 4).allowed);
    assert_used(lab, &request, 0, 0);
    assert_true(ask(lab, &request, OPERATION_HIT, 4).allowed);
    assert_used(lab, &request, 4, 4);
    assert_true(ask(lab, &request, OPERATION_REFUND, 1).allowed);
    assert_used(lab, &request, 3, 3);
    assert_true(ask(lab, &request, OPERATION_RESET, 0).allowed);
    assert_used(lab, &request, 0, 0);
    assert_int_equal(lab_stats(lab, 0).undone, 0);
}

/* At most so many: all take what the least of them has, and give back what was more. */
static void at_most_takes_what_the_least_of_them_has(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("10/h", "sliding_log"), LIMITS("3/h", "fixed_window")));
    const struct wire_decision peek = ask(lab, &request, OPERATION_PEEK | WIRE_AT_MOST, 20);
    assert_true(peek.allowed && peek.granted == 0 && peek.used == 0);
    const struct wire_decision some = ask(lab, &request, OPERATION_CHECK | WIRE_AT_MOST, 20);
    assert_true(some.allowed && some.granted == 3);
    assert_true(lab_text_is(some.source->rule, "by-host") && some.remaining == 0);
    assert_used(lab, &request, 3, 3);
    assert_false(ask(lab, &request, OPERATION_CHECK | WIRE_AT_MOST, 20).allowed);
    assert_used(lab, &request, 3, 3);
    assert_int_equal(lab_stats(lab, 0).undone, 2);
}

/* A rule that counts denials counts its own, not those of others: as in one place. */
static void counted_denials_are_those_of_the_rule_that_counts(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES("count_denied: true, " LIMITS("1/h", "fixed_window"),
                              "count_denied: true, " LIMITS("9/h", "fixed_window")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    assert_false(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    assert_false(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    assert_used(lab, &request, 2, 1); /* one limit of debt at most */
}

/* A place in flight that another rule's denial leaves empty is free at once, and nobody else's is.
 */
static void a_lease_is_undone_like_a_charge(void **state)
{
    struct lab *lab = *state;
    const struct question request = request_of(
        lab, RULES("limits: [{algorithm: concurrency, count: 3}]", LIMITS("2/h", "sliding_log")));
    for (uint32_t i = 0; i < 2; i++)
        assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    for (uint32_t i = 0; i < 5; i++)
        assert_false(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    assert_used(lab, &request, 2, 2);
    assert_int_equal(lab_stats(lab, 0).undone, 5);
}

/* What allows or blocks acts before any limit is charged, whatever the limits would say. */
static void allow_and_block_act_before_limits(void **state)
{
    struct lab *lab = *state;
    const struct question request = request_of(
        lab, "rules:\n"
             "- {name: by-user, key: [user], limits: [{rate: 1/h, algorithm: sliding_log}]}\n"
             "- {name: no, match: {host: bad}, action: block}\n"
             "- {name: by-host, key: [host], limits: [{rate: 5/h, algorithm: sliding_log}]}\n"
             "- {name: yes, match: {host: good}, priority: 5, action: allow}\n");
    const struct wire_decision no =
        lab_answer(lab, send(lab, OPERATION_CHECK, 1, request.user, "host=bad", 2000), 0);
    assert_true(!no.allowed && no.outcome == OUTCOME_BLOCKED);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(
            lab_answer(lab, send(lab, OPERATION_CHECK, 1, request.user, "host=good", 2000), 0)
                .allowed);
    assert_used(lab, &request, 0, 0);
    assert_int_equal(lab_stats(lab, 0).several, 0);
}

/* ---- lost words ------------------------------------------------------------------------------ */

/* A caller that asks again through another node gets the first answer, and each rule is charged
 * once, though the parts went out from two nodes. */
static void a_repetition_through_another_node_is_charged_once(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("1/h", "sliding_log"), LIMITS("9/h", "token_bucket")));
    const char *const attributes[] = {request.user, request.host, NULL};
    const uint64_t first = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_true(lab_answer(lab, first, 0).allowed);
    for (uint32_t at = 0; at < 3; at++) {
        lab_ask_attributes(lab, 1, attributes);
        lab_send_again(lab, at, first, 2000);
        lab_run(lab, 50 * LAB_MS);
        assert_int_equal(lab_answers(lab, first), 2 + at);
        assert_true(lab_answer(lab, first, 0).allowed);
    }
    assert_used(lab, &request, 1, 1);
    const uint64_t second = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_false(lab_answer(lab, second, 0).allowed);
    lab_answer(lab, send(lab, OPERATION_RESET, 0, request.user, NULL, 2000), 0);
    lab_ask_attributes(lab, 1, attributes);
    lab_send_again(lab, 2, second, 2000);
    lab_run(lab, 50 * LAB_MS);
    assert_false(lab_answer(lab, second, 0).allowed); /* as the first time, though it would fit */
    assert_used(lab, &request, 0, 1);
}

/* Rules may be put in another order, or others before them, between two attempts. */
static void a_repetition_under_changed_rules_is_charged_once(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("5/h", "sliding_log"), LIMITS("9/h", "fixed_window")));
    const char *const attributes[] = {request.user, request.host, NULL};
    const uint64_t first = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_true(lab_answer(lab, first, 0).allowed);
    lab_rules(lab, "rules:\n"
                   "- {name: by-host, key: [host], " LIMITS(
                       "9/h", "fixed_window") "}\n"
                                              "- {name: by-user, key: [user], " LIMITS(
                                                  "5/h", "sliding_log") "}\n");
    lab_ask_attributes(lab, 1, attributes);
    lab_send_again(lab, 0, first, 2000);
    lab_run(lab, 50 * LAB_MS);
    assert_used(lab, &request, 1, 1);
}

/* What was charged, though the answer came too late, is undone: nobody was told of it. */
static void what_is_in_doubt_is_undone(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("5/h", "sliding_log"), LIMITS("9/h", "fixed_window")));
    lab->drop_type = PEER_ANSWER;
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 250);
    lab_run(lab, 100 * LAB_MS);
    assert_true(lab_stats(lab, 1).allowed == 1 && lab_stats(lab, 2).allowed == 1);
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(lab_answer(lab, seq, 0).outcome, OUTCOME_ERROR);
    assert_int_equal(lab_stats(lab, 0).undone, 0);
    lab->drop_type = 0;
    lab_run(lab, 250 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undone, 2);
    assert_true(lab_stats(lab, 0).undo_resent >= 4);
    assert_used(lab, &request, 0, 0);
    assert_int_equal(lab_stats(lab, 1).undo_unknown + lab_stats(lab, 2).undo_unknown, 0);
}

/* Undos, their acknowledgements and answers get lost, and still all comes out right. */
static void lose_undos(struct lab *lab, const char *rules)
{
    const struct question request = request_of(lab, rules);
    lab_run(lab, 500 * LAB_MS); /* the plane of quorum is taken up */
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    const uint64_t before = lab_stats(lab, 0).undone;
    const unsigned types[] = {PEER_FORWARD, PEER_ANSWER};
    for (uint32_t i = 0; i < 6; i++) {
        const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
        assert_false(lab_answer(lab, seq, 0).allowed);
        lab->drop_type = types[i % 2];
        lab_run(lab, 350 * LAB_MS);
        lab->drop_type = 0;
        lab_run(lab, 150 * LAB_MS);
        assert_int_equal(lab_stats(lab, 0).undone, before + i + 1);
        assert_used(lab, &request, 1, 1);
    }
}

static void lost_undos_are_sent_again_and_done_once(void **state)
{
    lose_undos(*state, RULES(LIMITS("1/h", "token_bucket"), LIMITS("9/h", "token_bucket")));
}

/* The same where what gives back is otherwise not repeated (QUORUM-6). */
static void lost_undos_of_a_majority_are_done_once(void **state)
{
    lose_undos(*state, RULES(LIMITS("1/h", "token_bucket"),
                             "consistency: quorum, " LIMITS("9/h", "fixed_window")));
}

/* When the node that was asked dies before it has undone, the charge stays: never the reverse. */
static void what_a_dead_node_owes_stays_charged(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("1/h", "sliding_log"), LIMITS("9/h", "sliding_log")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab_stop(lab, 0);
    lab_run(lab, 50 * LAB_MS);
    const char *const host[] = {request.host, NULL};
    lab_ask_attributes(lab, 0, host);
    assert_int_equal(lab_answer(lab, lab_send(lab, 2, 2000), 0).used, 2);
}

static bool resign(struct lab *lab)
{
    const bool done = shard_resign(lab->shards[0].shard, lab->now_ns, &lab->effects);
    lab_perform(lab, 0);
    return done;
}

/* A node that stops in order undoes first what it owes. */
static void who_stops_in_order_undoes_first(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("1/h", "sliding_log"), LIMITS("9/h", "sliding_log")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    lab->drop_type = PEER_FORWARD;
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    lab_run(lab, 20 * LAB_MS);
    lab->drop_type = PEER_ANSWER;
    lab_run(lab, 100 * LAB_MS);
    lab->drop_type = 0;
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab->drop_type = PEER_ANSWER;
    for (uint32_t i = 0; i < 300; i++) {
        assert_false(resign(lab));
        lab_run(lab, LAB_MS);
    }
    lab->drop_type = 0;
    for (uint32_t i = 0; !resign(lab); i++) {
        assert_true(i < 500);
        lab_run(lab, LAB_MS);
    }
    assert_int_equal(lab_stats(lab, 0).undone, 1);
}

/* Requests that come while a node stops do not keep it: once all is passed on they are sent to
 * another node, and what was under way comes to its end. */
static void who_has_passed_everything_on_sends_clients_to_another_node(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("1/h", "sliding_log"), LIMITS("9/h", "sliding_log")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    uint32_t turns = 0;
    for (bool done = false; !done; turns++) {
        assert_true(turns < 1000);
        (void)send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
        done = resign(lab);
        lab_run(lab, LAB_MS);
    }
    (void)send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_int_equal(lab_last_error(lab).code, TG_EUNAVAILABLE);
    assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
    assert_int_equal(lab_stats(lab, 0).undo_lost, 0);
    lab_run(lab, 50 * LAB_MS);
    const char *const host[] = {request.host, NULL};
    lab_ask_attributes(lab, 1, host);
    assert_int_equal(lab_answer(lab, lab_send(lab, 1, 2000), 0).used,
                     2); /* itself, and the first */
}

static bool waits_for_nothing(struct lab *lab, void *context)
{
    (void)context;
    return lab_stats(lab, 0).checks_pending == 0;
}

/* When the leader dies between charge and undo, its successor holds the charge, but does not know
 * whose it is: it stays, is counted, and nothing is taken from others. */
static void an_undo_that_meets_a_new_decider_takes_nothing(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("1/h", "fixed_window"), LIMITS("9/h", "fixed_window")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab->drop_type = PEER_FORWARD; /* the undo too */
    lab_run(lab, 20 * LAB_MS);
    lab_stop(lab, 2);
    lab->drop_type = 0;
    lab_until(lab, waits_for_nothing, NULL, 3000 * LAB_MS);
    assert_int_equal(used(lab, request.host), 2);
    assert_int_equal(lab_stats(lab, 0).undone, 1);
    assert_int_equal(lab_stats(lab, 0).undo_lost, 0);
}

/* The part of the request that was asked last and that shard `at` was to decide. */
static struct forward forward_to(const struct lab *lab, uint32_t at)
{
    struct peer_record record;
    assert_true(lab_said(lab, 0, at, PEER_FORWARD, &record) > 0);
    return record.forward;
}

/* An undo may overtake its charge, which waits for the disk: then that is not made any more. */
static void an_undo_calls_off_a_charge_that_still_waits(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("1/h", "fixed_window"), LIMITS("9/h", "fixed_window")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    const struct forward host = forward_to(lab, 2);
    struct shard *shard = lab->shards[2].shard;
    table_drop(shard->table, table_lookup(shard->table, host.ids[0]));
    table_filter_add(shard->table, host.vnode, host.ids[0]);
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 150);
    lab_run(lab, 300 * LAB_MS);
    assert_false(lab_answer(lab, seq, 0).allowed);
    assert_true(lab_stats(lab, 0).undone >= 1 && lab_stats(lab, 0).checks_pending == 0);
    shard_loaded(shard, lab->now_ns, host.vnode, host.ids[0], TG_ENOTFOUND, NULL, 0, &lab->effects);
    lab_perform(lab, 2);
    assert_int_equal(lab_stats(lab, 2).checks_pending, 0);
    assert_used(lab, &request, 1, 0);
}

/* It may be in the very batch of its charge, too. */
static void an_undo_right_behind_its_charge_finds_it(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("9/h", "fixed_window"), LIMITS("9/h", "fixed_window")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    struct forward host = forward_to(lab, 2);
    host.ticket += 1;
    host.retry.seq += 1000;
    peer_put_forward(&lab->records, &host);
    host.attempt = retry_attempt(lab->shards[0].node, host.ticket);
    host.ticket += 1;
    host.operation = OPERATION_REFUND;
    host.cost = 0;
    host.retry.part |= RETRY_UNDO;
    peer_put_forward(&lab->records, &host);
    lab_speak(lab, 0, 2);
    assert_int_equal(lab_stats(lab, 2).undo_unknown, 0);
    assert_used(lab, &request, 1, 1);
}

/* Whatever a leader says of an undo, until it is done it is asked for again. */
static void an_undo_that_is_refused_is_sent_again(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("1/h", "fixed_window"), LIMITS("9/h", "fixed_window")));
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab->drop_type = PEER_FORWARD;
    lab_run(lab, 10 * LAB_MS);
    const struct answer busy = {.status = ANSWER_BUSY};
    peer_put_answer(&lab->records, forward_to(lab, 2).ticket, &busy);
    lab_speak(lab, 2, 0);
    lab->drop_type = 0;
    lab_run(lab, 200 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undone, 1);
    assert_used(lab, &request, 1, 1);
}

/* The caller is patient no longer, asks another node, and is allowed: what the first node gives up
 * then stays charged, for it was told to the second one as well. */
static void what_another_attempt_was_told_of_stays_charged(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("5/h", "fixed_window"),
                              "on_failure: closed, " LIMITS("9/h", "sliding_log")));
    const char *const attributes[] = {request.user, request.host, NULL};
    lab->cut[2][0] = true;
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 250);
    lab_run(lab, 20 * LAB_MS);
    lab_ask_attributes(lab, 1, attributes);
    lab_send_again(lab, 1, seq, 2000);
    lab_run(lab, 20 * LAB_MS);
    assert_true(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab->cut[2][0] = false;
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undone, 2);
    assert_used(lab, &request, 1, 1);
}

/* DECIDE-5: of a group that was denied the parts that would have allowed took nothing; asked again,
 * when what denied is gone, they are charged. */
static void a_part_that_took_nothing_is_charged_when_repeated(void **state)
{
    struct lab *lab = *state;
    char keys[3][LAB_KEY_LEN];
    const char *const names[][2] = {{"a", "x"}, {"b", "y"}, {"c", "z"}};
    lab_rules(lab, "rules:\n"
                   "- {name: a, key: [x], limits: [{rate: 9/h}]}\n"
                   "- {name: b, key: [y], limits: [{rate: 1/h}]}\n"
                   "- {name: c, key: [z], limits: [{rate: 9/h}]}\n");
    for (uint32_t i = 0; i < 3; i++)
        lab_attribute(lab, names[i][0], names[i][1], 0, keys[i]);
    const char *const attributes[] = {keys[0], keys[1], keys[2], NULL};
    lab_ask_attributes(lab, 1, attributes);
    assert_true(lab_answer(lab, lab_send(lab, 0, 2000), 0).allowed);
    lab_ask_attributes(lab, 1, attributes);
    const uint64_t seq = lab_send(lab, 0, 2000);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab_rules(lab, "rules:\n"
                   "- {name: a, key: [x], limits: [{rate: 9/h}]}\n"
                   "- {name: c, key: [z], limits: [{rate: 9/h}]}\n");
    lab_ask_attributes(lab, 1, attributes);
    lab_send_again(lab, 0, seq, 2000);
    assert_true(lab_answer(lab, seq, 0).allowed);
    assert_int_equal(used(lab, keys[0]), 2);
    assert_int_equal(used(lab, keys[2]), 2);
}

/* A part that is not answered holds the others' charges for as long as the caller waits; that may
 * be longer than an ordinary answer is remembered. */
static void what_was_charged_long_ago_is_undone(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("5/h", "fixed_window"),
                              "on_failure: closed, " LIMITS("9/h", "sliding_log")));
    lab->large = true;
    lab_stop(lab, 2);
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 4000);
    lab_run(lab, 4100 * LAB_MS);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(used(lab, request.user), 0);
    assert_int_equal(lab_stats(lab, 1).undo_unknown, 0);
}

/* And so may its answer be asked for: it is sent again until it is heard, and charged once. */
static void an_answer_that_is_heard_late_was_charged_once(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("5/h", "fixed_window"), LIMITS("9/h", "sliding_log")));
    lab->large = true;
    lab->drop_type = PEER_ANSWER;
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 4000);
    lab_run(lab, 3000 * LAB_MS);
    lab->drop_type = 0;
    lab_run(lab, 200 * LAB_MS);
    assert_true(lab_answer(lab, seq, 0).allowed);
    assert_used(lab, &request, 1, 1);
}

/* A rule on trial that cannot be asked denies nothing either. */
static void a_rule_on_trial_that_cannot_be_asked_denies_nothing(void **state)
{
    struct lab *lab = *state;
    const struct question request =
        request_of(lab, RULES(LIMITS("5/h", "fixed_window"),
                              "shadow: true, on_failure: closed, " LIMITS("9/h", "sliding_log")));
    lab_stop(lab, 2);
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 200);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_answer(lab, seq, 0).outcome, OUTCOME_ALLOW);
    const uint64_t alone = send(lab, OPERATION_CHECK, 1, request.host, NULL, 200);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_answer(lab, alone, 0).outcome, OUTCOME_ALLOW);
    assert_int_equal(used(lab, request.user), 1);
}

/* What the table of shard `at` says of the part's first limit. */
static uint64_t used_there(struct lab *lab, uint32_t at, const struct forward *forward)
{
    struct limit_decision decision;
    engine_one(lab->shards[at].shard->table, forward->ids[0], forward->vnode, &forward->limits[0],
               0, OPERATION_PEEK, LIMIT_LOADED, lab->now_ns, &decision);
    return decision.used;
}

/* In the plane of quorum an undo that meets the end of its leader's term touches nothing there:
 * the state is the next term's. */
static void an_undo_changes_nothing_behind_the_end_of_a_term(void **state)
{
    struct lab *lab = *state;
    const struct question request = request_of(
        lab, RULES(LIMITS("1/h", "fixed_window"),
                   "consistency: quorum, on_failure: closed, " LIMITS("9/h", "fixed_window")));
    lab_run(lab, 500 * LAB_MS);
    assert_true(ask(lab, &request, OPERATION_CHECK, 1).allowed);
    const uint64_t seq = send(lab, OPERATION_CHECK, 1, request.user, request.host, 2000);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab->drop_type = PEER_FORWARD; /* the undo is late */
    lab_run(lab, 20 * LAB_MS);
    const struct forward host = forward_to(lab, 2);
    assert_true((host.retry.part & RETRY_UNDO) != 0);
    assert_int_equal(used_there(lab, 2, &host), 2);
    const struct vnode *vnode = &lab->shards[2].shard->vnodes[host.vnode];
    struct peer_vnode newer = {.vnode = host.vnode, .role = ROLE_LEADING, .term = vnode->term};
    newer.term.number++;
    newer.term.writer = lab->shards[0].node;
    newer.state = newer.term;
    newer.flags = ENTRY_OPEN;
    peer_put_forward(&lab->records, &host);
    peer_put_vnode(&lab->records, PEER_OPENED, &newer);
    lab_speak(lab, 0, 2);
    assert_int_not_equal(lab_role(lab, 2, host.vnode), ROLE_LEADING);
    assert_int_equal(used_there(lab, 2, &host), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(a_denial_by_one_leaves_the_others_as_they_were),
        LAB_TEST(the_answer_names_the_limit_that_decided, set_up_three),
        LAB_TEST(other_operations_go_to_all, set_up_three),
        LAB_TEST(at_most_takes_what_the_least_of_them_has, set_up_three),
        LAB_TEST(counted_denials_are_those_of_the_rule_that_counts, set_up_three),
        LAB_TEST(a_lease_is_undone_like_a_charge, set_up_three),
        LAB_TEST(allow_and_block_act_before_limits, set_up_three),
        LAB_TEST(a_repetition_through_another_node_is_charged_once, set_up_three),
        LAB_TEST(a_repetition_under_changed_rules_is_charged_once, set_up_three),
        LAB_TEST(what_is_in_doubt_is_undone, set_up_three),
        LAB_TEST(lost_undos_are_sent_again_and_done_once, set_up_three),
        LAB_TEST_THREE(lost_undos_of_a_majority_are_done_once),
        LAB_TEST(what_a_dead_node_owes_stays_charged, set_up_three),
        LAB_TEST(who_stops_in_order_undoes_first, set_up_three),
        LAB_TEST(who_has_passed_everything_on_sends_clients_to_another_node, set_up_three),
        LAB_TEST_THREE(an_undo_that_meets_a_new_decider_takes_nothing),
        LAB_TEST(an_undo_calls_off_a_charge_that_still_waits, set_up_three),
        LAB_TEST(an_undo_right_behind_its_charge_finds_it, set_up_three),
        LAB_TEST(an_undo_that_is_refused_is_sent_again, set_up_three),
        LAB_TEST(what_another_attempt_was_told_of_stays_charged, set_up_three),
        LAB_TEST(a_part_that_took_nothing_is_charged_when_repeated, set_up_three),
        LAB_TEST(what_was_charged_long_ago_is_undone, set_up_three),
        LAB_TEST(an_answer_that_is_heard_late_was_charged_once, set_up_three),
        LAB_TEST(a_rule_on_trial_that_cannot_be_asked_denies_nothing, set_up_three),
        LAB_TEST_THREE(an_undo_changes_nothing_behind_the_end_of_a_term),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
