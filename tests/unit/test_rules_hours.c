/* test_rules_hours.c - what people write rules for, with their numbers, hour after hour of virtual
 * time on three nodes: sign-ups, searches by partition, log-ins that fail, a limit that may be
 * exceeded a little.
 *
 * Each key is decided by its owner alone, and every request is sent to the next node, so that most
 * are decided elsewhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"

#define SECOND (1000 * LAB_MS)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY_MS INT64_C(86400000)

enum { ATTRIBUTES = 3, PARTITIONS = 5 };

static int set_up_three(void **state)
{
    struct lab *lab = lab_new(3, 1, 1);
    lab_start_all(lab);
    *state = lab;
    return 0;
}

/* Time passes while nobody asks; then all have heard of each other again. */
static void wait_ns(struct lab *lab, int64_t ns)
{
    lab_pause(lab, ns - 200 * LAB_MS);
    lab_run(lab, 200 * LAB_MS);
    lab_forget(lab);
}

static void append(struct lab *lab, uint8_t operation, uint64_t cost, const char *const *attributes)
{
    struct wire_text names[ATTRIBUTES];
    struct wire_text values[ATTRIBUTES];
    uint32_t count = 0;
    for (; attributes[count] != NULL; count++) {
        const char *equals = strchr(attributes[count], '=');
        assert_true(count < ATTRIBUTES && equals != NULL);
        names[count] = (struct wire_text){attributes[count], (size_t)(equals - attributes[count])};
        values[count] = wire_text_of(equals + 1);
    }
    const int index = wire_checks_builder_attributes(&lab->builder, names, count);
    assert_true(index >= 0);
    assert_true(wire_checks_builder_append(&lab->builder, (uint32_t)index, operation, cost, values,
                                           count) >= 0);
}

/* One request at the next node; every limit that it met is told in lab->decisions. */
static struct wire_decision ask(struct lab *lab, uint8_t operation, uint64_t cost,
                                const char *const *attributes)
{
    append(lab, operation, cost, attributes);
    const uint64_t seq = lab_send_explained(lab, (uint32_t)(lab->seq % 3), 2000);
    const struct wire_decision decision = lab_answer(lab, seq, 0);
    lab_run(lab, 5 * LAB_MS); /* what is undone is undone after the answer */
    return decision;
}

static struct wire_decision check(struct lab *lab, const char *const *attributes)
{
    return ask(lab, OPERATION_CHECK, 1, attributes);
}

/* What is used of limit number `row` of those that the request meets. */
static uint64_t used(struct lab *lab, uint32_t row, const char *const *attributes)
{
    (void)ask(lab, OPERATION_PEEK, 0, attributes);
    assert_true(row < lab->decisions.explain->end[0]);
    return lab->decisions.explain->rows[row].used;
}

static void assert_denied_by(const struct wire_decision *decision, const char *rule,
                             const char *window)
{
    assert_int_equal(decision->outcome, OUTCOME_DENY);
    assert_true(lab_text_is(decision->source->rule, rule));
    if (!lab_text_is(decision->source->window, window))
        fail_msg("denied by %.*s, expected %s", (int)decision->source->window.len,
                 decision->source->window.data, window);
}

/* 5 an hour and 30 in 24 hours on one phone: five are allowed, the sixth and all that follow in the
 * hour are denied by the first limit and not charged to the second, which holds what was allowed;
 * so that the 31st of the day is denied by the second, until a day after the first. (Where both
 * deny, the one with the longer wait is named.) */
static void the_sixth_of_the_hour_and_the_31st_of_the_day_are_denied(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, "rules: [{name: signup, match: {api: /signup}, key: [phone], limits: ["
                         "{rate: 5/h, algorithm: sliding_log}, {rate: 30/24h, algorithm: "
                         "sliding_log}], response: {status: 420}}]");
    const char *phone[] = {"api=/signup", "phone=+15550100", NULL};
    const int64_t begun_ns = lab->now_ns;
    uint64_t allowed = 0;
    for (uint64_t hour = 0; hour < 6; hour++) {
        for (uint32_t i = 0; i < 9; i++) {
            const struct wire_decision decision = check(lab, phone);
            assert_int_equal(decision.allowed, i < 5);
            allowed += decision.allowed;
            if (i >= 5)
                assert_denied_by(&decision, "signup", allowed < 30 ? "5/h" : "30/d");
            assert_int_equal(used(lab, 0, phone), i < 5 ? i + 1 : 5);
            assert_int_equal(used(lab, 1, phone), allowed);
        }
        assert_int_equal(allowed, 5 * (hour + 1));
        wait_ns(lab, HOUR);
    }
    const struct wire_decision denied = check(lab, phone);
    assert_denied_by(&denied, "signup", "30/d");
    assert_int_equal(denied.used, 30);
    assert_int_equal(denied.source->status, 420);
    const int64_t day_over_ms = DAY_MS - (lab->now_ns - begun_ns) / LAB_MS;
    assert_in_range(denied.retry_after_ms, day_over_ms, day_over_ms + 1000);
    assert_int_equal(used(lab, 0, phone), 0); /* nor is the first charged for the second's denial */
    const char *other[] = {"api=/signup", "phone=+15550199", NULL};
    assert_true(check(lab, other).allowed);
    wait_ns(lab, denied.retry_after_ms * LAB_MS);
    assert_true(check(lab, phone).allowed);
    assert_int_equal(used(lab, 0, phone), 1);
}

/* The same with a day of the calendar: the 31st is denied until midnight where the limit says, and
 * then the next day's 30 begin. */
static void the_31st_of_a_calendar_day_waits_for_midnight(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, "rules: [{name: signup, key: [phone], limits: [{rate: 5/h, algorithm: "
                         "sliding_log}, {rate: 30/day, algorithm: fixed_window, align: calendar, "
                         "timezone: UTC}]}]");
    const char *phone[] = {"phone=+15550100", NULL};
    wait_ns(lab, 2 * HOUR); /* from 22:13:20 of the day before to 00:13:20 */
    for (uint32_t i = 0; i < 30; i++) {
        assert_true(check(lab, phone).allowed);
        if (i % 5 == 4)
            wait_ns(lab, HOUR);
    }
    const struct wire_decision denied = check(lab, phone);
    assert_denied_by(&denied, "signup", "30/day");
    const int64_t now_ms = lab->now_ns / LAB_MS;
    assert_in_range(denied.retry_after_ms, DAY_MS - now_ms % DAY_MS,
                    DAY_MS - now_ms % DAY_MS + 1000);
    wait_ns(lab, denied.retry_after_ms * LAB_MS);
    assert_true(check(lab, phone).allowed);
    assert_int_equal(used(lab, 1, phone), 1);
}

/* 100 an hour on a user and 3 a minute on each of its partitions, whose counters are on all three
 * nodes: no partition gets a fourth in a minute, the user no 101st in an hour, and who is denied by
 * the one is not charged by the other. */
static void a_user_and_its_partitions_hold_together(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, "rules:\n"
                         "- {name: user, key: [user], limits: [{rate: 100/h, algorithm: "
                         "sliding_log}]}\n"
                         "- {name: partition, key: [user, partition], limits: [{rate: 3/min, "
                         "algorithm: sliding_log}]}\n");
    uint64_t allowed = 0;
    uint64_t denied[2] = {0, 0};
    for (uint32_t minute = 0; minute < 8; minute++) {
        for (uint32_t i = 0; i < 4 * PARTITIONS; i++) {
            char partition[LAB_KEY_LEN];
            (void)snprintf(partition, sizeof partition, "partition=p%u", (unsigned)i % PARTITIONS);
            const char *attributes[] = {"user=ada", partition, NULL};
            const struct wire_decision decision = check(lab, attributes);
            const bool hourly = allowed == 100;
            const bool fourth = i >= 3 * PARTITIONS && minute < 6;
            assert_int_equal(decision.allowed, !hourly && !fourth);
            if (hourly)
                assert_denied_by(&decision, "user", "100/h");
            else if (fourth)
                assert_denied_by(&decision, "partition", "3/m");
            denied[hourly] += !decision.allowed;
            allowed += decision.allowed;
            assert_int_equal(used(lab, 0, attributes), allowed);
        }
        wait_ns(lab, MINUTE);
    }
    assert_int_equal(allowed, 100);
    assert_int_equal(denied[0], 6 * PARTITIONS);
    const char *rested[] = {"user=ada", "partition=p0", NULL};
    assert_int_equal(used(lab, 1, rested), 0);
    assert_false(check(lab, rested).allowed);
    assert_int_equal(used(lab, 1, rested), 0); /* what the user's limit denied */
    assert_true(lab_stats(lab, 0).several + lab_stats(lab, 1).several + lab_stats(lab, 2).several >
                100);
}

/* A log-in: peeked at before, and counted after the fact when the password was wrong. */
static bool log_in(struct lab *lab, const char *address, bool right)
{
    const char *attributes[] = {"api=/login", "user=ada", address};
    const char *const known[] = {attributes[0], attributes[1], attributes[2], NULL};
    if (!ask(lab, OPERATION_PEEK, 1, known).allowed)
        return false;
    if (!right)
        (void)ask(lab, OPERATION_HIT, 1, known);
    return true;
}

/* Failed log-ins are counted by user and address: who guesses is locked out where that is done,
 * even with the right password; the user still logs in from elsewhere, as often as it likes; and
 * when the window is over, so may the other. */
static void who_guesses_is_locked_out_and_the_user_is_not(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, "rules: [{name: failures, match: {api: /login}, key: [user, ip], limits: "
                         "[{rate: 5/15min, algorithm: sliding_log}]}]");
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(log_in(lab, "ip=198.51.100.9", false), i < 5);
    assert_false(log_in(lab, "ip=198.51.100.9", true));
    for (uint32_t i = 0; i < 20; i++)
        assert_true(log_in(lab, "ip=203.0.113.4", true));
    assert_true(log_in(lab, "ip=203.0.113.4", false));
    assert_true(log_in(lab, "ip=203.0.113.4", true));
    wait_ns(lab, 14 * MINUTE);
    assert_false(log_in(lab, "ip=198.51.100.9", true));
    wait_ns(lab, MINUTE);
    assert_true(log_in(lab, "ip=198.51.100.9", true));
}

/* 100 a minute and 10% more: of 115 at once 110 are allowed, the last ten of them told that they
 * exceed the limit, which stays 100; whatever the algorithm. */
static void a_hundred_and_ten_per_cent_are_110_of_which_ten_exceed(void **state)
{
    struct lab *lab = *state;
    static const char *const algorithms[] = {"token_bucket",   "leaky_bucket",    "fixed_window",
                                             "sliding_window", "sliding_buckets", "sliding_log"};
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
        char rules[256];
        const char *user[] = {"user=ada", NULL};
        (void)snprintf(
            rules, sizeof rules,
            "rules: [{name: soft-%zu, key: [user], mode: {soft: {exceed: 10%%}}, limits: "
            "[{rate: 100/min, algorithm: %s}]}]",
            a, algorithms[a]);
        (void)lab_rules(lab, rules);
        for (uint32_t i = 0; i < 115; i++)
            append(lab, OPERATION_CHECK, 1, user);
        const uint64_t seq = lab_send(lab, (uint32_t)a % 3, 2000);
        for (uint32_t i = 0; i < 115; i++) {
            const struct wire_decision decision = lab_answer(lab, seq, i);
            assert_int_equal(decision.outcome, i < 100   ? OUTCOME_ALLOW
                                               : i < 110 ? OUTCOME_SOFT_EXCEEDED
                                                         : OUTCOME_DENY);
            assert_int_equal(decision.limit, 100);
            assert_int_equal(decision.remaining, i < 100 ? 99 - i : 0);
        }
    }
}

#define HOURS_TEST(name) LAB_TEST(name, set_up_three)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOURS_TEST(the_sixth_of_the_hour_and_the_31st_of_the_day_are_denied),
        HOURS_TEST(the_31st_of_a_calendar_day_waits_for_midnight),
        HOURS_TEST(a_user_and_its_partitions_hold_together),
        HOURS_TEST(who_guesses_is_locked_out_and_the_user_is_not),
        HOURS_TEST(a_hundred_and_ten_per_cent_are_110_of_which_ten_exceed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
