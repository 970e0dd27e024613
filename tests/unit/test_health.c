/* test_health.c - a trouble is told at once and taken back late; others hear of it by gossip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/control/control_state.h"
#include "node/cluster/model/health.h"
#include "tests/unit/support_control.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { FULL = 1u << HEALTH_DISK_FULL, CLOCK = 1u << HEALTH_CLOCK, FROZEN = 1u << HEALTH_FROZEN };

static void a_trouble_is_told_at_once_and_taken_back_after_five_seconds(void **state)
{
    struct health health = {.told = 0};
    (void)state;
    assert_true(health_step(&health, FULL, 10 * SECOND));
    assert_int_equal(health.told, FULL);
    assert_false(health_step(&health, FULL, 20 * SECOND));
    assert_false(health_step(&health, 0, 20 * SECOND + MS));
    assert_false(health_step(&health, 0, 25 * SECOND - MS));
    assert_int_equal(health.told, FULL);
    assert_true(health_step(&health, 0, 25 * SECOND));
    assert_int_equal(health.told, 0);
}

static void a_trouble_that_comes_and_goes_stays_told(void **state)
{
    struct health health = {.told = 0};
    uint32_t changes = 0;
    (void)state;
    for (int64_t ms = 1; ms <= 60000; ms++)
        changes += health_step(&health, ms % 2000 < 1000 ? CLOCK : 0, ms * MS);
    assert_int_equal(changes, 1);
    assert_int_equal(health.told, CLOCK);
}

/* Every start has some of these for a moment, and whoever waits for healthy need not wait for it.
 */
static void a_passing_trouble_is_told_when_it_has_lasted_and_taken_back_at_once(void **state)
{
    struct health health = {.told = 0};
    (void)state;
    assert_false(health_step(&health, FROZEN, 10 * SECOND));
    assert_false(health_step(&health, 0, 10 * SECOND + 500 * MS));
    assert_false(health_step(&health, FROZEN, 10 * SECOND + 600 * MS));
    assert_false(health_step(&health, FROZEN, 11 * SECOND + 599 * MS));
    assert_true(health_step(&health, FROZEN, 11 * SECOND + 600 * MS));
    assert_int_equal(health.told, FROZEN);
    assert_true(health_step(&health, 0, 12 * SECOND));
}

/* What comes with every start and restart, or with a death that others make good in a moment. */
static void what_passes_by_itself_waits_and_what_does_not_is_told_at_once(void **state)
{
    const uint32_t transferring = FROZEN | HEALTH_BIT(HEALTH_MAJORITY) |
                                  HEALTH_BIT(HEALTH_RECOVERING) | HEALTH_BIT(HEALTH_INCOMPLETE) |
                                  HEALTH_BIT(HEALTH_STOPPING);
    const uint32_t all = HEALTH_BIT(HEALTH_TROUBLES) - 1;
    struct health health = {.told = 0};
    (void)state;
    assert_true(health_step(&health, all, 10 * SECOND));
    assert_int_equal(health.told, all & ~transferring);
    assert_false(health_step(&health, all, 11 * SECOND - 1));
    assert_true(health_step(&health, all, 11 * SECOND));
    assert_int_equal(health.told, all);
    assert_true(health_step(&health, 0, 11 * SECOND + 1));
    assert_int_equal(health.told, all & ~transferring);
}

static void each_trouble_has_its_own_time(void **state)
{
    struct health health = {.told = 0};
    (void)state;
    (void)health_step(&health, FULL, 10 * SECOND);
    (void)health_step(&health, CLOCK, 14 * SECOND);
    assert_int_equal(health.told, FULL | CLOCK);
    assert_true(health_step(&health, 0, 15 * SECOND));
    assert_int_equal(health.told, CLOCK);
    assert_true(health_step(&health, 0, 19 * SECOND));
    assert_int_equal(health.told, 0);
}

static void a_clock_that_went_back_keeps_no_trouble_for_ever(void **state)
{
    struct health health = {.told = 0};
    (void)state;
    (void)health_step(&health, FULL, 3600 * SECOND);
    (void)health_step(&health, 0, 10 * SECOND);
    assert_int_equal(health.told, FULL);
    (void)health_step(&health, 0, 15 * SECOND);
    assert_int_equal(health.told, 0);
}

/* HEALTH-1, by a model that keeps every moment at which a trouble was there. */
static void changes_are_bounded_whatever_comes(void **state)
{
    struct random random;
    struct health health = {.told = 0};
    int64_t now_ns = SECOND;
    int64_t last_ns = -HEALTH_CLEAR_NS;
    uint32_t changes = 0;
    (void)state;
    random_init(&random, 17);
    for (int i = 0; i < 200000; i++) {
        const bool there = random_below(&random, 400) == 0;
        now_ns += (int64_t)random_below(&random, 20) * MS;
        last_ns = there ? now_ns : last_ns;
        changes += health_step(&health, there ? FULL : 0, now_ns);
        assert_int_equal((health.told & FULL) != 0, now_ns - last_ns < HEALTH_CLEAR_NS);
    }
    assert_true(changes > 10 && changes <= 2 * (uint32_t)(now_ns / HEALTH_CLEAR_NS) + 2);
}

/* HEALTH-1: nor do troubles that are told late and taken back at once. */
static void a_passing_trouble_that_comes_and_goes_is_told_once_in_five_seconds(void **state)
{
    struct health health = {.told = 0};
    int64_t now_ns = SECOND;
    uint32_t changes = 0;
    (void)state;
    for (int i = 0; i < 6000; i++) {
        now_ns += 10 * MS;
        changes += health_step(&health, i % 130 < 120 ? 1u << HEALTH_MAJORITY : 0, now_ns);
    }
    assert_in_range(changes, 12, 2 * 60 / 5 + 2);
}

static void flags_of_a_record_hold_all_troubles_and_nothing_else(void **state)
{
    const uint32_t all = (1u << HEALTH_TROUBLES) - 1;
    (void)state;
    assert_int_equal(health_of_flags(health_flags(all)), all);
    assert_int_equal(health_flags(all) & ((1u << HEALTH_SHIFT) - 1), 0);
    assert_int_equal(health_of_flags(UINT32_MAX), all);
    assert_int_equal(health_of_flags(CONTROL_FLAG_STOPS | CONTROL_FLAG_FIGURES | CONTROL_FLAG_FULL),
                     0);
    assert_int_equal(health_grave(all) & (1u << HEALTH_DISK_NEAR | 1u << HEALTH_MEMORY), 0);
    for (int i = 0; i < HEALTH_TROUBLES; i++) {
        const struct health_kind *kind = health_kind((enum health_trouble)i);
        assert_true(kind->code[0] != '\0' && kind->short_form[0] != '\0' && kind->says[0] != '\0');
        assert_true(kind->means[0] != '\0' && kind->advice[0] != '\0');
        for (int k = 0; k < i; k++)
            assert_string_not_equal(kind->code, health_kind((enum health_trouble)k)->code);
    }
}

static uint32_t known_of(struct net *net, uint32_t at, uint64_t id)
{
    return health_of_flags(control_flags(net->nodes[at].control, id));
}

static void every_member_knows_a_trouble_within_two_seconds_and_its_end(void **state)
{
    struct net *net = net_cluster(5);
    const uint64_t incarnation = swim_self(net->nodes[4].control->swim)->incarnation;
    (void)state;
    control_trouble(net->nodes[4].control, net->now_ns, FULL | CLOCK);
    net_run(net, 2 * NET_SECOND);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(known_of(net, i, 5), FULL | CLOCK);
    control_trouble(net->nodes[4].control, net->now_ns, CLOCK);
    net_run(net, 2 * NET_SECOND);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(known_of(net, i, 5), FULL | CLOCK);
    net_run(net, 5 * NET_SECOND);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(known_of(net, i, 5), CLOCK);
    assert_int_equal(swim_self(net->nodes[4].control->swim)->incarnation, incarnation);
    net_free(net);
}

/* A node finds some of its troubles in what the core knows: nobody has to tell it. */
static void a_ring_without_its_majority_is_told_by_those_who_are_left(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 1);
    net_stop(net, 2);
    net_run(net, 20 * NET_SECOND);
    assert_int_equal(known_of(net, 0, 1), FROZEN);
    net_restart(net, 1);
    net_run(net, 10 * NET_SECOND);
    assert_int_equal(known_of(net, 0, 1), 0);
    assert_int_equal(known_of(net, 1, 1), 0);
    net_free(net);
}

/* Runs until the first node finds its ring frozen, or no longer; when that was. */
static int64_t run_until_frozen(struct net *net, bool frozen)
{
    for (int i = 0; i < 3000 && voters_frozen(net->nodes[0].control) != frozen; i++)
        net_run(net, 10 * NET_MS);
    assert_int_equal(voters_frozen(net->nodes[0].control), frozen);
    return net->now_ns;
}

/* Others are not alarmed by a majority that is gone for a moment, and not for longer than it is. */
static void a_frozen_ring_is_told_when_it_has_lasted_for_a_second_and_no_longer(void **state)
{
    struct net *net = net_cluster(3);
    uint64_t version;
    (void)state;
    net_stop(net, 1);
    net_stop(net, 2);
    const int64_t since_ns = run_until_frozen(net, true);
    version = swim_self(net->nodes[0].control->swim)->record.version;
    net_run(net, 950 * NET_MS);
    assert_true(voters_frozen(net->nodes[0].control));
    assert_int_equal(known_of(net, 0, 1), 0);
    assert_int_equal(swim_self(net->nodes[0].control->swim)->record.version, version);
    net_run(net, 250 * NET_MS);
    assert_int_equal(known_of(net, 0, 1), FROZEN);
    assert_true(net->now_ns - since_ns < 3 * NET_SECOND / 2);
    net_restart_seeded(net, 1, 0);
    (void)run_until_frozen(net, false);
    net_run(net, 150 * NET_MS);
    assert_int_equal(known_of(net, 0, 1), 0);
    net_free(net);
}

/* A majority that is back before a second is over was never away, for all others. */
static void a_ring_that_was_frozen_for_a_moment_is_told_to_nobody(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 2);
    net_run(net, 15 * NET_SECOND);
    net->nodes[1].cut = true;
    const int64_t since_ns = run_until_frozen(net, true);
    net->nodes[1].cut = false;
    while (voters_frozen(net->nodes[0].control)) {
        net_run(net, 10 * NET_MS);
        assert_int_equal(known_of(net, 0, 1), 0);
        assert_true(net->now_ns - since_ns < NET_SECOND);
    }
    for (int i = 0; i < 200; i++) {
        net_run(net, 10 * NET_MS);
        assert_int_equal(known_of(net, 0, 1), 0);
    }
    net_free(net);
}

static struct control_report report_with(const struct shard_stats *stats)
{
    return (struct control_report){.shards = stats, .shard_count = 1, .storage_ok = true};
}

static void what_the_node_reports_is_found_wrong_by_name(void **state)
{
    const int64_t now_ns = 100 * SECOND;
    struct shard_stats stats = {.checks = 1};
    struct control_report report = report_with(&stats);
    (void)state;
    assert_int_equal(control_troubles_of(&report, now_ns), 0);
    report.storage_ok = false;
    assert_int_equal(control_troubles_of(&report, now_ns), 1u << HEALTH_DISK_FAILING);
    report.storage_full = true;
    report.storage_percent = 95;
    assert_int_equal(control_troubles_of(&report, now_ns), FULL);
    report = report_with(&stats);
    report.storage_percent = 80;
    assert_int_equal(control_troubles_of(&report, now_ns), 1u << HEALTH_DISK_NEAR);
    report.storage_percent = 95;
    assert_int_equal(control_troubles_of(&report, now_ns), 1u << HEALTH_DISK_TIGHT);
    report.storage_percent = 100;
    report.storage_closed = true;
    assert_int_equal(control_troubles_of(&report, now_ns), FULL);
    report = report_with(&stats);
    stats.turned_away_ns = now_ns - SECOND + 1;
    assert_int_equal(control_troubles_of(&report, now_ns), 1u << HEALTH_MEMORY);
    stats.turned_away_ns = now_ns - SECOND;
    stats.quorum.vnodes_undecided = 1;
    stats.vnodes_recovering = 1;
    stats.vnodes_incomplete = 1;
    stats.peers_left_out = 1;
    assert_int_equal(control_troubles_of(&report, now_ns),
                     1u << HEALTH_MAJORITY | 1u << HEALTH_RECOVERING | 1u << HEALTH_INCOMPLETE |
                         1u << HEALTH_CROWDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trouble_is_told_at_once_and_taken_back_after_five_seconds),
        cmocka_unit_test(a_trouble_that_comes_and_goes_stays_told),
        cmocka_unit_test(a_passing_trouble_is_told_when_it_has_lasted_and_taken_back_at_once),
        cmocka_unit_test(what_passes_by_itself_waits_and_what_does_not_is_told_at_once),
        cmocka_unit_test(each_trouble_has_its_own_time),
        cmocka_unit_test(a_clock_that_went_back_keeps_no_trouble_for_ever),
        cmocka_unit_test(changes_are_bounded_whatever_comes),
        cmocka_unit_test(a_passing_trouble_that_comes_and_goes_is_told_once_in_five_seconds),
        cmocka_unit_test(flags_of_a_record_hold_all_troubles_and_nothing_else),
        cmocka_unit_test(every_member_knows_a_trouble_within_two_seconds_and_its_end),
        cmocka_unit_test(a_ring_without_its_majority_is_told_by_those_who_are_left),
        cmocka_unit_test(a_frozen_ring_is_told_when_it_has_lasted_for_a_second_and_no_longer),
        cmocka_unit_test(a_ring_that_was_frozen_for_a_moment_is_told_to_nobody),
        cmocka_unit_test(what_the_node_reports_is_found_wrong_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
