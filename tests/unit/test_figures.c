/* test_figures.c - a node's figures: rates by difference, told over the wire, gathered by another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/control/control_state.h"
#include "node/cluster/control/figures.h"
#include "node/policy/compile/policy_compile.h"
#include "tests/unit/support_control.h"

#define SECOND INT64_C(1000000000)

static struct shard_stats stats[2];

static struct control_report report_at(int64_t started_ns)
{
    return (struct control_report){.shards = stats,
                                   .shard_count = 2,
                                   .storage = "lmdb",
                                   .storage_ok = true,
                                   .memory_max = 256 << 20,
                                   .started_ns = started_ns};
}

static void rates_are_of_the_last_second_or_more_over_all_shards(void **state)
{
    struct figures_meter meter = {.taken_ns = 0};
    const struct control_report report = report_at(SECOND);
    const uint64_t *values = meter.now.values;
    (void)state;
    memset(stats, 0, sizeof stats);
    stats[0].checks = 100;
    figures_take(&meter, &report, 10 * SECOND);
    assert_int_equal(values[FIGURE_CHECKS], 100);
    assert_int_equal(values[FIGURE_CHECKS_RATE], 0);
    assert_int_equal(values[FIGURE_UPTIME_MS], 9000);
    stats[0].checks = 1100;
    stats[1].checks = 500;
    stats[1].denied = 250;
    stats[0].busy = 3;
    figures_take(&meter, &report, 11 * SECOND - 1); /* too early: what was, stays */
    assert_int_equal(values[FIGURE_CHECKS], 1600);
    assert_int_equal(values[FIGURE_CHECKS_RATE], 0);
    figures_take(&meter, &report, 12 * SECOND);
    assert_int_equal(values[FIGURE_CHECKS_RATE], 750 * 1000);
    assert_int_equal(values[FIGURE_DENIED_RATE], 125 * 1000);
    assert_int_equal(values[FIGURE_BUSY_RATE], 1500);
    figures_take(&meter, &report, 13 * SECOND);
    assert_int_equal(values[FIGURE_CHECKS_RATE], 0);
    stats[0].checks = 5; /* another process's */
    figures_take(&meter, &report, 14 * SECOND);
    assert_int_equal(values[FIGURE_CHECKS_RATE], 0);
    figures_take(&meter, &report, 2 * SECOND); /* a time that went back begins anew */
    figures_take(&meter, &report, 3 * SECOND);
    assert_int_equal(values[FIGURE_CHECKS_RATE], 0);
}

static struct figures_frame frame_of(enum figures_type type)
{
    struct figures_frame frame = {.type = type, .sender = 7, .number = 99};
    memset(frame.cluster_id, 0xa0, sizeof frame.cluster_id);
    (void)snprintf(frame.address, sizeof frame.address, "10.0.0.7:7602");
    for (int i = 0; type == FIGURES_TELL && i < FIGURES; i++)
        frame.figures.values[i] = UINT64_MAX - (uint64_t)i;
    for (uint32_t i = 0; type == FIGURES_TELL && i < FIGURES_RULES; i++) {
        memset(frame.figures.rules[i].name, 'a' + (int)i, POLICY_NAME_LEN_MAX);
        frame.figures.rules[i].checks_rate = UINT64_MAX;
        frame.figures.rules[i].denied_rate = UINT64_MAX - 1;
        frame.figures.rule_count++;
    }
    if (type == FIGURES_TELL) {
        memcpy(frame.figures.pressed, frame.figures.rules, sizeof frame.figures.pressed);
        frame.figures.pressed_count = FIGURES_RULES;
        frame.figures.history.period = UINT64_MAX;
        frame.figures.history.count = FIGURES_PERIODS;
        memset(frame.figures.history.allowed, 0xff, sizeof frame.figures.history.allowed);
        memset(frame.figures.history.denied, 0xfe, sizeof frame.figures.history.denied);
    }
    return frame;
}

static void a_frame_comes_back_as_it_was(void **state)
{
    (void)state;
    for (int type = FIGURES_ASK; type < FIGURES_TYPE_END; type++) {
        uint8_t bytes[FIGURES_FRAME_MAX];
        struct figures_frame back;
        const struct figures_frame frame = frame_of((enum figures_type)type);
        const int len = figures_encode(&frame, bytes, sizeof bytes);
        assert_true(len > 0);
        assert_int_equal(figures_decode(bytes, (size_t)len, &back), 0);
        assert_memory_equal(&back, &frame, sizeof frame);
        assert_int_equal(figures_encode(&frame, bytes, 20), TG_ETOOBIG);
    }
}

/* FIGURES-1: a newer release tells more, an older one less. */
static void more_and_fewer_figures_are_read(void **state)
{
    static const uint32_t counts[] = {1, FIGURES - 1, FIGURES + 7, 64};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint8_t bytes[1024];
        const struct figures_frame frame = frame_of(FIGURES_TELL);
        const struct join_head head = {FIGURES_TELL, frame.cluster_id, 7, frame.address};
        struct figures_frame back;
        struct mp_writer writer;
        assert_int_equal(join_begin(&writer, 8, &head, bytes, sizeof bytes), 0);
        mp_put_uint(&writer, 99);
        mp_put_array(&writer, counts[i]);
        for (uint32_t k = 0; k < counts[i]; k++)
            mp_put_uint(&writer, k + 1);
        mp_put_str(&writer, "of tomorrow");
        const int len = join_end(&writer);
        assert_int_equal(figures_decode(bytes, (size_t)len, &back), 0);
        for (uint32_t k = 0; k < FIGURES; k++)
            assert_int_equal(back.figures.values[k], k < counts[i] ? k + 1 : 0);
    }
}

static void damaged_frames_are_refused(void **state)
{
    struct random random;
    uint8_t bytes[FIGURES_FRAME_MAX];
    struct figures_frame back;
    const struct figures_frame frame = frame_of(FIGURES_TELL);
    const int len = figures_encode(&frame, bytes, sizeof bytes);
    (void)state;
    random_init(&random, 5);
    for (int cut = 0; cut < len; cut++)
        assert_int_not_equal(figures_decode(bytes, (size_t)cut, &back), 0);
    for (int i = 0; i < 20000; i++) {
        uint8_t spoilt[FIGURES_FRAME_MAX];
        memcpy(spoilt, bytes, (size_t)len);
        for (int k = 0; k < 3; k++)
            spoilt[random_below(&random, (uint64_t)len)] = (uint8_t)random_next(&random);
        if (figures_decode(spoilt, (size_t)len, &back) == 0)
            assert_true(back.type == FIGURES_ASK || back.type == FIGURES_TELL);
    }
}

/* Rules of several shards are one list, and what is of a policy that is not in force any more is
 * nobody's. */
static void the_busiest_rules_are_those_of_all_shards_by_name(void **state)
{
    static const char text[] = "rules:\n"
                               "  - {name: a, key: [user], limits: [{rate: 1/s}]}\n"
                               "  - {name: b, key: [user], limits: [{rate: 2/s}]}\n";
    struct figures_meter meter = {.taken_ns = 0};
    struct control_report report = report_at(SECOND);
    struct policy_error error;
    struct policy *policy;
    (void)state;
    memset(stats, 0, sizeof stats);
    assert_int_equal(policy_compile(text, strlen(text), alloc_heap(), &policy, &error), 0);
    report.policy = policy;
    for (int i = 0; i < 2; i++) {
        const uint16_t one = (uint16_t)i;
        for (int64_t at = 0; at <= 200; at++)
            busiest_count(&stats[i].busiest[BUSIEST_ALL], policy_digest(policy),
                          at % 4 == 0 ? 1 - one : one, at % 2 == 0,
                          100 * SECOND + at * SECOND / 100);
        stats[i].taken_ns = 102 * SECOND + SECOND / 10;
    }
    stats[1].busiest[BUSIEST_ALL].last.checks[0] += 8;
    figures_take(&meter, &report, 103 * SECOND);
    assert_int_equal(meter.now.rule_count, 2);
    assert_true(meter.now.rules[0].checks_rate >= meter.now.rules[1].checks_rate);
    assert_true(meter.now.rules[0].checks_rate >= 98 * 1000 &&
                meter.now.rules[0].checks_rate <= 110 * 1000);
    stats[0].taken_ns = stats[1].taken_ns = 110 * SECOND; /* of long ago */
    figures_take(&meter, &report, 111 * SECOND);
    assert_int_equal(meter.now.rule_count, 0);
    stats[0].taken_ns = 102 * SECOND + SECOND / 10;
    stats[0].busiest[BUSIEST_ALL].digest++;
    figures_take(&meter, &report, 112 * SECOND);
    assert_int_equal(meter.now.rule_count, 0);
    policy_free(&policy);
}

/* ---- the history ----------------------------------------------------------------------------- */

#define PERIOD (FIGURES_PERIOD_S * SECOND)

static void the_history_has_what_was_decided_in_each_period_of_ten_minutes(void **state)
{
    struct figures_meter meter = {.taken_ns = 0};
    const struct control_report report = report_at(SECOND);
    const struct figures_history *history = &meter.now.history;
    (void)state;
    memset(stats, 0, sizeof stats);
    stats[0].allowed = 1000;             /* before anybody looked: of no period */
    for (uint64_t i = 0; i < 200; i++) { /* 100 periods, looked at twice each */
        const uint64_t period = i / 2;
        figures_take(&meter, &report, 50 * PERIOD + (int64_t)i * PERIOD / 2);
        assert_int_equal(history->period, 50 + period);
        assert_int_equal(history->count, period < FIGURES_PERIODS ? period : FIGURES_PERIODS);
        stats[0].allowed += period;
        stats[1].denied += 1;
    }
    for (uint32_t k = 0; k < FIGURES_PERIODS; k++) {
        assert_int_equal(history->allowed[k], 2 * (99 - FIGURES_PERIODS + k));
        assert_int_equal(history->denied[k], 2);
    }
}

static void periods_that_nobody_looked_in_are_empty_and_a_leap_begins_anew(void **state)
{
    struct figures_meter meter = {.taken_ns = 0};
    const struct control_report report = report_at(SECOND);
    const struct figures_history *history = &meter.now.history;
    (void)state;
    memset(stats, 0, sizeof stats);
    figures_take(&meter, &report, 50 * PERIOD);
    stats[0].allowed = 7;
    figures_take(&meter, &report, 53 * PERIOD);
    assert_int_equal(history->count, 3);
    assert_int_equal(history->allowed[0] + history->allowed[1], 0);
    assert_int_equal(history->allowed[2], 7);
    stats[0].allowed = 3; /* another process's */
    figures_take(&meter, &report, 54 * PERIOD);
    assert_int_equal(history->allowed[3], 0);
    figures_take(&meter, &report, 20 * PERIOD); /* time went back, */
    assert_int_equal(history->count, 0);
    figures_take(&meter, &report, 20000 * PERIOD); /* or on by days */
    assert_int_equal(history->count, 0);
    assert_int_equal(history->period, 20000);
}

static struct figures_history history_of(uint64_t period, uint32_t count, uint32_t each)
{
    struct figures_history history = {.period = period, .count = count};
    for (uint32_t i = 0; i < count; i++)
        history.allowed[i] = each;
    return history;
}

static void histories_add_up_by_period_and_wait_for_who_tells_a_moment_later(void **state)
{
    struct figures_history sum = {.period = 0};
    struct figures_history of = history_of(100, 60, 1);
    (void)state;
    figures_add_history(&sum, &of);
    of = history_of(99, 3, 10); /* it has not told its last one yet, and is young */
    figures_add_history(&sum, &of);
    assert_int_equal(sum.period, 99);
    assert_int_equal(sum.count, 59);
    assert_int_equal(sum.allowed[58], 11);
    assert_int_equal(sum.allowed[56], 11);
    assert_int_equal(sum.allowed[55], 1);
    of = history_of(100, 60, 100);
    figures_add_history(&sum, &of);
    assert_int_equal(sum.period, 99);
    assert_int_equal(sum.allowed[58], 111);
    assert_int_equal(sum.allowed[0], 101);
    of = history_of(90, 60, 1000); /* long silent: its own periods alone, and before all others' */
    figures_add_history(&sum, &of);
    assert_int_equal(sum.period, 99);
    assert_int_equal(sum.count, 60);
    assert_int_equal(sum.allowed[59], 111);
    assert_int_equal(sum.allowed[50], 1101);
    assert_int_equal(sum.allowed[0], 1000);
    of = history_of(0, 0, 0);
    figures_add_history(&sum, &of);
    assert_int_equal(sum.count, 60);
}

/* Whoever is asked, and however young it is. */
static void histories_add_up_in_any_order(void **state)
{
    const struct figures_history all[] = {history_of(100, 1, 1), history_of(100, 60, 10),
                                          history_of(99, 7, 100), history_of(100, 0, 0)};
    (void)state;
    for (uint32_t first = 0; first < 4; first++) {
        struct figures_history sum = {.period = 0};
        for (uint32_t i = 0; i < 4; i++)
            figures_add_history(&sum, &all[(first + i) % 4]);
        assert_int_equal(sum.period, 99);
        assert_true(sum.count >= 59);
        assert_int_equal(sum.allowed[sum.count - 1], 110);
        assert_int_equal(sum.allowed[sum.count - 7], 110);
        assert_int_equal(sum.allowed[sum.count - 8], 10);
    }
}

/* What members tell is theirs to choose. */
static void a_history_of_no_time_harms_nobody(void **state)
{
    static const uint64_t periods[] = {0, 1, 59, 60, 61, 1000, UINT64_MAX - 60, UINT64_MAX};
    struct random random;
    (void)state;
    random_init(&random, 3);
    for (int i = 0; i < 100000; i++) {
        struct figures_history sum = {.period = 0};
        for (int k = 0; k < 4; k++) {
            const struct figures_history of =
                history_of(periods[random_below(&random, 8)],
                           (uint32_t)random_below(&random, FIGURES_PERIODS + 1), UINT32_MAX);
            figures_add_history(&sum, &of);
            assert_true(sum.count <= FIGURES_PERIODS);
        }
    }
}

static void look(struct net *net, uint32_t at)
{
    struct control *control = net->nodes[at].control;
    const struct control_report report = report_at(net->now_ns - SECOND);
    (void)control_look(control, net->now_ns, &report);
}

static void who_is_asked_gathers_the_figures_of_all_while_somebody_looks(void **state)
{
    struct net *net = net_cluster(4);
    struct control *asked = net->nodes[0].control;
    (void)state;
    memset(stats, 0, sizeof stats);
    stats[0].checks = 42;
    for (uint32_t i = 0; i < 4; i++)
        look(net, i);
    net_run(net, 5 * SECOND);
    assert_int_equal(control_figures_awaited(asked), 3);
    assert_non_null(control_figures_of(asked, 1)); /* its own it knows */
    control_gather_look(asked);
    net_run(net, SECOND / 2);
    assert_int_equal(control_figures_awaited(asked), 0);
    for (uint64_t id = 1; id <= 4; id++)
        assert_int_equal(control_figures_of(asked, id)->values[FIGURE_CHECKS], 42);
    assert_null(control_figures_of(net->nodes[1].control, 1)); /* nobody looks there */
    net_run(net, 10 * SECOND);
    assert_null(control_figures_of(asked, 2)); /* they are of long ago, and nobody looks */
    const uint32_t before = net->figures;
    net_run(net, SECOND);
    assert_int_equal(net->figures, before);
    control_gather_look(asked);
    net_run(net, 10 * SECOND);
    assert_true(net->figures - before >= 3 * 3 * 2 && net->figures - before <= 4 * 3 * 2);
    net_free(net);
}

static void figures_that_nobody_asked_for_count_for_nothing(void **state)
{
    struct net *net = net_cluster(3);
    struct control *asked = net->nodes[0].control;
    uint8_t bytes[FIGURES_FRAME_MAX];
    struct figures_frame frame = frame_of(FIGURES_TELL);
    (void)state;
    net->nodes[1].cut = true; /* it does not answer itself */
    frame.sender = 2;
    memcpy(frame.cluster_id, control_identity(asked)->cluster_id, sizeof frame.cluster_id);
    control_gather_look(asked);
    net_run(net, SECOND / 2);
    const int len = figures_encode(&frame, bytes, sizeof bytes);
    net_tell(net, 0, bytes, (size_t)len);
    assert_null(control_figures_of(asked, 2));
    const uint64_t round = asked->gather.number;
    frame.number = control_figures_number(asked, round, 3); /* n3 in the name of n2 */
    net_tell(net, 0, bytes, (size_t)figures_encode(&frame, bytes, sizeof bytes));
    assert_null(control_figures_of(asked, 2));
    frame.number = control_figures_number(asked, round, 2);
    net_tell(net, 0, bytes, (size_t)figures_encode(&frame, bytes, sizeof bytes));
    assert_non_null(control_figures_of(asked, 2));
    net_free(net);
}

/* GATHER-2: whoever asks in the name of strange addresses is answered a few times, not always. */
static void strangers_are_answered_at_a_bounded_rate(void **state)
{
    struct net *net = net_cluster(2);
    uint8_t bytes[FIGURES_FRAME_MAX];
    struct figures_frame frame = frame_of(FIGURES_ASK);
    (void)state;
    memcpy(frame.cluster_id, control_identity(net->nodes[0].control)->cluster_id,
           sizeof frame.cluster_id);
    uint32_t answers = 0;
    for (int i = 0; i < 1000; i++) {
        const int len = figures_encode(&frame, bytes, sizeof bytes);
        frame.sender = 1000 + (uint64_t)i;
        control_receive(net->nodes[0].control, net->now_ns, bytes, (size_t)len, &net->effects);
        for (size_t k = 0; k < net->effects.count; k++)
            answers += net->effects.items[k].kind == EFFECT_SEND_GOSSIP &&
                       strcmp(net->effects.items[k].address, frame.address) == 0;
        effects_clear(&net->effects);
    }
    assert_true(answers >= 1 && answers <= 20);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_of_the_last_second_or_more_over_all_shards),
        cmocka_unit_test(a_frame_comes_back_as_it_was),
        cmocka_unit_test(more_and_fewer_figures_are_read),
        cmocka_unit_test(damaged_frames_are_refused),
        cmocka_unit_test(the_busiest_rules_are_those_of_all_shards_by_name),
        cmocka_unit_test(the_history_has_what_was_decided_in_each_period_of_ten_minutes),
        cmocka_unit_test(periods_that_nobody_looked_in_are_empty_and_a_leap_begins_anew),
        cmocka_unit_test(histories_add_up_by_period_and_wait_for_who_tells_a_moment_later),
        cmocka_unit_test(histories_add_up_in_any_order),
        cmocka_unit_test(a_history_of_no_time_harms_nobody),
        cmocka_unit_test(who_is_asked_gathers_the_figures_of_all_while_somebody_looks),
        cmocka_unit_test(figures_that_nobody_asked_for_count_for_nothing),
        cmocka_unit_test(strangers_are_answered_at_a_bounded_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
