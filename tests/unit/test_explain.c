/* test_explain.c - every limit that a request met is told, wherever it was decided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/admission/explain.h"
#include "tests/unit/support_shard.h"

static const char rules[] =
    "rules:\n"
    "- {name: by-user, key: [user], limits: [{rate: 3/h, algorithm: fixed_window},"
    " {rate: 9/d, algorithm: sliding_log}]}\n"
    "- {name: trial, shadow: true, key: [user], limits: [{rate: 1/h, algorithm: fixed_window}]}\n"
    "- {name: by-ip, key: [host], limits: [{rate: 5/h, algorithm: fixed_window}]}\n";

static int set_up(void **state, uint32_t started)
{
    struct lab *lab = lab_new(2, 1, 1);
    for (uint32_t at = 0; at < started; at++)
        lab_start(lab, at);
    lab_run(lab, 100 * LAB_MS);
    *state = lab;
    return 0;
}

static int set_up_two(void **state)
{
    return set_up(state, 2);
}

static int set_up_ghost(void **state)
{
    return set_up(state, 1);
}

/* The row number `row` of item `item` says all of this. */
static void assert_row(const struct lab *lab, uint32_t item, uint32_t row, const char *rule,
                       const char *window, uint64_t limit, uint64_t used, bool allowed)
{
    const struct wire_explain *explain = lab->decisions.explain;
    assert_non_null(explain);
    const uint32_t first = item == 0 ? 0 : explain->end[item - 1];
    assert_true(first + row < explain->end[item]);
    const struct wire_explain_row *got = &explain->rows[first + row];
    assert_true(lab_text_is(got->rule, rule) && lab_text_is(got->window, window));
    assert_true(got->limit == limit && got->used == used);
    assert_true(got->remaining == (used < limit ? limit - used : 0));
    assert_int_equal(got->allowed, allowed);
    assert_int_equal(got->retry_after_ms > 0, !allowed);
    assert_int_equal(got->reset_after_ms > 0, used > 0);
}

static uint32_t row_count(const struct lab *lab, uint32_t item)
{
    const struct wire_explain *explain = lab->decisions.explain;
    return explain->end[item] - (item == 0 ? 0 : explain->end[item - 1]);
}

/* All limits of all rules are told in the order of the rules, whether they are decided by this node
 * or another, those on trial and those that would have allowed a denied request as well. */
static void every_limit_is_told_in_the_order_of_the_rules(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, rules);
    for (uint32_t user_at = 0; user_at < 2; user_at++) {
        for (uint32_t ip_at = 0; ip_at < 2; ip_at++) {
            char user_there[LAB_KEY_LEN];
            char ip_there[LAB_KEY_LEN];
            char user[LAB_KEY_LEN + 1];
            char ip[LAB_KEY_LEN + 1];
            lab_attribute(lab, "by-user", "user", user_at, user_there);
            lab_attribute(lab, "by-ip", "host", ip_at, ip_there);
            /* Not the same twice; where the second one is decided is left to chance. */
            (void)snprintf(user, sizeof user, "%s%s", user_there, ip_at == 0 ? "" : "x");
            (void)snprintf(ip, sizeof ip, "%s%s", ip_there, user_at == 0 ? "" : "x");
            const char *const attributes[] = {user, ip, NULL};
            for (uint64_t n = 1; n <= 4; n++) {
                lab_ask_attributes(lab, 1, attributes);
                const uint64_t seq = lab_send_explained(lab, 0, 1000);
                const bool allowed = lab_answer(lab, seq, 0).allowed;
                const uint64_t used = n < 3 ? n : 3;
                assert_int_equal(allowed, n <= 3);
                assert_int_equal(row_count(lab, 0), 4);
                assert_row(lab, 0, 0, "by-user", "3/h", 3, used, allowed);
                assert_row(lab, 0, 1, "by-user", "9/d", 9, used, true);
                assert_row(lab, 0, 2, "trial", "1/h", 1, 1, n == 1);
                assert_int_equal(lab->decisions.explain->rows[3].limit, 5);
                assert_true(lab->decisions.explain->rows[3].allowed);
            }
        }
    }
    assert_true(lab_said(lab, 1, 0, PEER_EXPLAIN, NULL) > 0);
    assert_int_equal(lab_stats(lab, 0).explains_dropped, 0);
}

/* Items have rows of their own: inline limits, several of them, and items that met no limit. */
static void each_item_has_its_own_rows(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const struct limit other = lab_limit(7);
    static const char *const nobody[] = {"api=/x", NULL};
    char near[LAB_KEY_LEN];
    char far[LAB_KEY_LEN];
    lab_rules(lab, rules);
    lab_key(lab, lab_vnode_owned(lab, 0), 0, near);
    lab_key(lab, lab_vnode_owned(lab, 1), 0, far);
    lab_ask(lab, &limit, far, OPERATION_CHECK, 3);
    lab_ask_attributes(lab, 1, nobody);
    lab_ask(lab, &other, near, OPERATION_CHECK, 8);
    const uint64_t seq = lab_send_explained(lab, 0, 1000);
    assert_true(lab_answer(lab, seq, 0).allowed);
    assert_int_equal(lab_answer(lab, seq, 1).outcome, OUTCOME_NO_RULE);
    assert_false(lab_answer(lab, seq, 2).allowed);
    assert_row(lab, 0, 0, "", "10/h", 10, 3, true);
    assert_int_equal(row_count(lab, 1), 0);
    assert_int_equal(lab->decisions.explain->end[2], 2);
    assert_int_equal(lab->decisions.explain->rows[1].retry_after_ms, -1); /* 8 of 7: never */
    assert_int_equal(row_count(lab, 0), 1);
}

/* Who does not ask gets no rows, and nothing of them travels. */
static void nothing_is_told_unasked(void **state)
{
    struct lab *lab = *state;
    static const char *const ann[] = {"user=ann", "host=10.0.0.1", NULL};
    lab_rules(lab, rules);
    lab_forget(lab);
    lab_ask_attributes(lab, 1, ann);
    assert_true(lab_answer(lab, lab_send(lab, 0, 1000), 0).allowed);
    assert_null(lab->decisions.explain);
    assert_int_equal(lab_said(lab, LAB_NONE, LAB_NONE, PEER_EXPLAIN, NULL), 0);
}

/* More messages at once than there is room for are decided all the same, without rows, and what
 * was taken is given back when they are answered. */
static void what_there_is_no_room_for_is_decided_unexplained(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char far[LAB_KEY_LEN];
    char near[LAB_KEY_LEN];
    uint64_t waiting[SHARD_EXPLAINS_MAX];
    lab_key(lab, lab_vnode_owned(lab, 1), 0, far);
    lab_key(lab, lab_vnode_owned(lab, 0), 0, near);
    for (uint32_t round = 1; round <= 2; round++) {
        for (uint32_t i = 0; i < SHARD_EXPLAINS_MAX; i++) {
            lab_ask(lab, &limit, far, OPERATION_CHECK, 1); /* its leader is a ghost */
            waiting[i] = lab_send_explained(lab, 0, 50);
        }
        lab_ask(lab, &limit, near, OPERATION_CHECK, 1);
        uint64_t seq = lab_send_explained(lab, 0, 50);
        assert_true(lab_answer(lab, seq, 0).allowed);
        assert_null(lab->decisions.explain);
        assert_int_equal(lab_stats(lab, 0).explains_dropped, round);
        for (uint32_t i = 0; i < SHARD_EXPLAINS_MAX; i++) {
            assert_int_equal(lab_answer(lab, waiting[i], 0).outcome, OUTCOME_ERROR);
            assert_int_equal(row_count(lab, 0), 0); /* nobody told */
        }
        lab_ask(lab, &limit, near, OPERATION_CHECK, 1);
        seq = lab_send_explained(lab, 0, 50);
        assert_true(lab_answer(lab, seq, 0).allowed);
        assert_row(lab, 0, 0, "", "10/h", 10, 2 * round, true);
    }
}

/* A stand-in tells what it decided by: its share of the limit. */
static void a_stand_in_tells_its_share(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    lab_rules(lab, "rules:\n- {name: r, key: [user], on_failure: {local: {share: 50%}},"
                   " limits: [{rate: 8/h, algorithm: fixed_window}]}\n");
    lab_attribute(lab, "r", "user", 1, user);
    const char *const attributes[] = {user, NULL};
    lab_ask_attributes(lab, 3, attributes);
    const uint64_t seq = lab_send_explained(lab, 0, 5000);
    const struct wire_decision decision = lab_answer(lab, seq, 0);
    assert_true(decision.allowed && decision.degraded && decision.limit == 4);
    assert_row(lab, 0, 0, "r", "8/h", 4, 3, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(every_limit_is_told_in_the_order_of_the_rules, set_up_two),
        LAB_TEST(each_item_has_its_own_rows, set_up_two),
        LAB_TEST(nothing_is_told_unasked, set_up_two),
        LAB_TEST(what_there_is_no_room_for_is_decided_unexplained, set_up_ghost),
        LAB_TEST(a_stand_in_tells_its_share, set_up_ghost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
