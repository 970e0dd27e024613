/* test_swim_cluster.c - membership as whole clusters live it, by virtual time (support_swim.h).
 *
 * The soak of 24 virtual hours runs when SWIM_SOAK_HOURS is set (SWIM_NODES changes the number of
 * nodes); the promised figures for all sizes are measured by tests/bench/bench_gossip.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_effort.h"
#include "tests/unit/support_swim.h"

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- tests ---- */

/* R1 for three nodes: the last node to notice does so within 4 s typically and 5 s nearly always.
 */
static void three_nodes_notice_a_death_in_time(void **state)
{
    enum { TRIALS = 300 };
    int64_t times_ns[TRIALS + 2];
    size_t count = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct swarm *swarm = swarm_new(3, seed);
        assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
        swarm_run(swarm, random_between(&swarm->random, 0, 2 * SWARM_SECOND));
        count += swarm_death(swarm, (uint32_t)(seed % 3), times_ns + count, true);
        swarm_free(swarm);
    }
    qsort(times_ns, count, sizeof *times_ns, compare_times);
    const int64_t p50_ns = times_ns[count / 2];
    const int64_t p99_ns = times_ns[count * 99 / 100];
    print_message("3 nodes, %zu deaths, last to notice: p50 %lld ms, p99 %lld ms\n", count,
                  (long long)(p50_ns / SWARM_MS), (long long)(p99_ns / SWARM_MS));
    assert_true(p50_ns <= 4 * SWARM_SECOND);
    assert_true(p99_ns <= 5 * SWARM_SECOND);
}

/* R1 for a hundred nodes: nearly every node has noticed within 10 s. */
static void hundred_nodes_notice_a_death_in_time(void **state)
{
    enum { NODES = 100, TRIALS = 12 };
    static int64_t times_ns[NODES * TRIALS];
    size_t count = 0;
    (void)state;
    struct swarm *swarm = swarm_new(NODES, 7);
    assert_true(swarm_settle(swarm, 30 * SWARM_SECOND) >= 0);
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        const uint32_t victim = 1 + trial * 8;
        count += swarm_death(swarm, victim, times_ns + count, false);
        swarm_start(swarm, victim, 0);
        assert_true(swarm_settle(swarm, 5 * SWARM_SECOND) >= 0);
    }
    qsort(times_ns, count, sizeof *times_ns, compare_times);
    const int64_t p99_ns = times_ns[count * 99 / 100];
    print_message("100 nodes, %u deaths: p50 %lld ms, p99 %lld ms\n", TRIALS,
                  (long long)(times_ns[count / 2] / SWARM_MS), (long long)(p99_ns / SWARM_MS));
    assert_true(p99_ns <= 10 * SWARM_SECOND);
    swarm_free(swarm);
}

static int64_t environment(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? strtoll(value, NULL, 10) : otherwise;
}

/* R6: at 1% loss nobody who lives is ever declared dead (ten minutes; the soak runs longer). */
static void loss_of_one_percent_kills_nobody(void **state)
{
    const int64_t hours = environment("SWIM_SOAK_HOURS", 0);
    const uint32_t nodes = (uint32_t)environment("SWIM_NODES", 100);
    const int64_t run_ns = hours > 0 ? hours * 3600 * SWARM_SECOND : EFFORT(600) * SWARM_SECOND;
    uint64_t suspicions = 0;
    uint64_t indirect = 0;
    (void)state;
    struct swarm *swarm = swarm_new(nodes, 11);
    swarm->loss_ppm = SWARM_PPM / 100;
    assert_true(swarm_settle(swarm, 60 * SWARM_SECOND) >= 0);
    swarm_run(swarm, run_ns);
    for (uint32_t i = 0; i < nodes; i++) {
        struct swim_stats stats;
        swim_stats(swarm->nodes[i].swim, &stats);
        suspicions += stats.suspicions;
        indirect += stats.probes_indirect;
    }
    print_message("%u nodes, 1%% loss, %lld s: %llu suspicions, %llu deaths\n", nodes,
                  (long long)(run_ns / SWARM_SECOND), (unsigned long long)suspicions,
                  (unsigned long long)swarm->deaths);
    assert_int_equal(swarm->deaths, 0);
    assert_true(indirect > nodes); /* the loss was felt */
    swarm_free(swarm);
}

/* S10: a quiet cluster costs each node the same, whatever its size. */
static void bytes_per_node_stay_flat_as_the_cluster_grows(void **state)
{
    static const uint32_t sizes[] = {10, 30, 100};
    const uint32_t extra = (uint32_t)environment("SWIM_NODES", 0);
    double least = 0;
    double most = 0;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const uint32_t nodes = i < 3 ? sizes[i] : extra;
        if (nodes == 0)
            continue;
        struct swarm *swarm = swarm_new(nodes, 21 + i);
        assert_true(swarm_settle(swarm, 60 * SWARM_SECOND) >= 0);
        swarm_run(swarm, 15 * SWARM_SECOND); /* the news of the joins die down */
        const uint64_t before = swarm_sent_bytes(swarm);
        swarm_run(swarm, 60 * SWARM_SECOND);
        const double rate = (double)(swarm_sent_bytes(swarm) - before) / 60 / nodes;
        print_message("%u nodes: %.0f bytes of gossip per node and second\n", nodes, rate);
        least = i == 0 || rate < least ? rate : least;
        most = rate > most ? rate : most;
        swarm_free(swarm);
    }
    assert_true(most <= 1.2 * least);
}

/* After a split both sides find each other again although each held the other for dead. */
static void a_healed_split_rejoins(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(10, 31);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    for (uint32_t i = 5; i < 10; i++)
        swarm->nodes[i].side = 1;
    swarm_run(swarm, 120 * SWARM_SECOND);
    struct swim_stats stats;
    swim_stats(swarm->nodes[0].swim, &stats);
    assert_int_equal(stats.alive, 5);
    assert_int_equal(stats.dead, 5);
    for (uint32_t i = 5; i < 10; i++)
        swarm->nodes[i].side = 0;
    const int64_t took_ns = swarm_settle(swarm, 60 * SWARM_SECOND);
    print_message("10 nodes, split of 2 min healed after %lld ms\n",
                  (long long)(took_ns / SWARM_MS));
    assert_true(took_ns >= 0 && took_ns <= 10 * SWARM_SECOND);
    swarm_free(swarm);
}

/* Two nodes of three whose only seed is dead still find each other again. */
static void a_split_heals_without_living_seeds(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(3, 32);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swarm_kill(swarm, 0);
    swarm->nodes[2].side = 1;
    swarm_run(swarm, 60 * SWARM_SECOND);
    swarm->nodes[2].side = 0;
    assert_true(swarm_settle(swarm, 20 * SWARM_SECOND) >= 0);
    swarm_free(swarm);
}

/* A node back with a higher incarnation replaces its dead record at once. */
static void a_restart_replaces_the_dead_record_at_once(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(10, 41);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swarm_kill(swarm, 4);
    assert_true(swarm_settle(swarm, 20 * SWARM_SECOND) >= 0);
    assert_int_equal(swim_find(swarm->nodes[0].swim, swarm_id(4))->state, SWIM_DEAD);
    swarm_start(swarm, 4, 0);
    assert_true(swarm_settle(swarm, SWARM_SECOND) >= 0);
    assert_int_equal(swim_find(swarm->nodes[9].swim, swarm_id(4))->incarnation, 2);
    swarm_free(swarm);
}

/* A restart faster than the detection is never a death. */
static void a_quick_restart_is_no_death(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(10, 42);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swarm_kill(swarm, 4);
    swarm_run(swarm, 2 * SWARM_SECOND);
    swarm_start(swarm, 4, 0);
    swarm_run(swarm, 60 * SWARM_SECOND);
    assert_true(swarm_agrees(swarm));
    assert_int_equal(swarm->deaths, 0);
    swarm_free(swarm);
}

/* A restart that lost its incarnation refutes what is remembered of its earlier life. */
static void a_restart_with_an_old_incarnation_outgrows_it(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(5, 43);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swarm_kill(swarm, 4);
    assert_true(swarm_settle(swarm, 20 * SWARM_SECOND) >= 0);
    swarm->nodes[4].record.incarnation = 0;
    swarm_start(swarm, 4, 0);
    assert_true(swarm_settle(swarm, 5 * SWARM_SECOND) >= 0);
    assert_true(swim_self(swarm->nodes[4].swim)->incarnation >= 2);
    swarm_free(swarm);
}

/* What a node says about itself reaches everybody within a second, and the last word holds. */
static void updates_of_records_converge(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(30, 51);
    swarm->loss_ppm = SWARM_PPM / 20;
    swarm->duplicate_ppm = SWARM_PPM / 10;
    swarm->delay_max_ns = 50 * SWARM_MS;
    assert_true(swarm_settle(swarm, 20 * SWARM_SECOND) >= 0);
    for (uint64_t epoch = 1; epoch <= 5; epoch++) {
        for (uint32_t i = 0; i < 30; i++) {
            struct swim_record record = swim_self(swarm->nodes[i].swim)->record;
            record.ring_epoch = epoch * 100 + i;
            assert_int_equal(swim_update_self(swarm->nodes[i].swim, &record), 0);
            swarm_schedule(swarm, i);
        }
        swarm_run(swarm, 50 * SWARM_MS);
    }
    swarm_run(swarm, 2 * SWARM_SECOND);
    for (uint32_t i = 0; i < 30; i++) {
        for (uint32_t j = 0; j < 30; j++) {
            const struct swim_member *member = swim_find(swarm->nodes[i].swim, swarm_id(j));
            assert_int_equal(member->record.ring_epoch, 500 + j);
        }
    }
    swarm_free(swarm);
}

/* A good-bye is recorded as such by all, without suspicion or death. */
static void a_good_bye_is_not_a_death(void **state)
{
    struct swim_stats stats;
    (void)state;
    struct swarm *swarm = swarm_new(10, 61);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swim_leave(swarm->nodes[3].swim, swarm->now_ns, &swarm->effects);
    swarm_do(swarm, 3);
    swarm_run(swarm, 2 * SWARM_SECOND);
    assert_true(swim_leave_done(swarm->nodes[3].swim));
    swarm_kill(swarm, 3);
    swarm_run(swarm, 60 * SWARM_SECOND);
    for (uint32_t i = 0; i < 10; i++) {
        if (i == 3)
            continue;
        assert_int_equal(swim_find(swarm->nodes[i].swim, swarm_id(3))->state, SWIM_LEFT);
        swim_stats(swarm->nodes[i].swim, &stats);
        assert_int_equal(stats.suspicions, 0);
    }
    assert_int_equal(swarm->deaths, 0);
    swarm_free(swarm);
}

/* A machine paused for 20 s blames itself: it declares nobody dead and is alive again soon. */
static void a_paused_node_blames_itself(void **state)
{
    struct swim_stats stats;
    (void)state;
    struct swarm *swarm = swarm_new(10, 71);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swarm_pause(swarm, 6);
    swarm->nodes[6].side = 1; /* its buffers overflow meanwhile */
    swarm_run(swarm, 20 * SWARM_SECOND);
    assert_int_equal(swim_find(swarm->nodes[0].swim, swarm_id(6))->state, SWIM_DEAD);
    swarm->nodes[6].side = 0;
    swarm->nodes[6].paused = false;
    swarm->nodes[6].tick_ns = 0;
    swarm_schedule(swarm, 6);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swim_stats(swarm->nodes[6].swim, &stats);
    assert_int_equal(stats.deaths, 0);
    assert_true(stats.stalls >= 1);
    swarm_free(swarm);
}

/* Nodes whose clocks differ measure by how much, and are not disturbed by it. */
static void skew_of_clocks_is_measured(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(3, 81);
    swarm_run(swarm, 2 * SWARM_SECOND);
    swarm_kill(swarm, 2);
    swarm->nodes[2].skew_ns = 300 * SWARM_MS;
    swarm_start(swarm, 2, 0);
    swarm_run(swarm, 10 * SWARM_SECOND);
    const struct swim_member *member = swim_find(swarm->nodes[0].swim, swarm_id(2));
    assert_in_range(member->skew_ns, 299 * SWARM_MS, 301 * SWARM_MS);
    assert_in_range(member->rtt_ns, SWARM_MS / 10, 2 * SWARM_MS);
    swarm_free(swarm);
}

/* Mutated copies of real messages neither break invariants nor keep the cluster from settling. */
static void hostile_bytes_break_nothing(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(5, 91);
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[SWIM_MESSAGE_MAX + 16];
        uint32_t len = (uint32_t)random_below(&swarm->random, 200);
        const size_t source = (size_t)random_below(&swarm->random, swarm->heap_len);
        if (swarm->heap[source].len > 0) {
            len = swarm->heap[source].len;
            memcpy(bytes, swarm->heap[source].bytes, len);
            for (uint64_t flips = random_below(&swarm->random, 4) + 1; flips > 0; flips--)
                bytes[random_below(&swarm->random, len)] = (uint8_t)random_next(&swarm->random);
            len -=
                (uint32_t)(random_below(&swarm->random, 4) == 0 ? random_below(&swarm->random, len)
                                                                : 0);
        } else {
            for (uint32_t j = 0; j < len; j++)
                bytes[j] = (uint8_t)random_next(&swarm->random);
        }
        (void)swim_receive(swarm->nodes[i % 5].swim, swarm->now_ns, bytes, len, &swarm->effects);
        swarm_do(swarm, (uint32_t)i % 5);
        swim_check_invariants(swarm->nodes[i % 5].swim);
        if (i % 10 == 0)
            swarm_run(swarm, 10 * SWARM_MS);
    }
    swarm_free(swarm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_nodes_notice_a_death_in_time),
        cmocka_unit_test(hundred_nodes_notice_a_death_in_time),
        cmocka_unit_test(loss_of_one_percent_kills_nobody),
        cmocka_unit_test(bytes_per_node_stay_flat_as_the_cluster_grows),
        cmocka_unit_test(a_healed_split_rejoins),
        cmocka_unit_test(a_split_heals_without_living_seeds),
        cmocka_unit_test(a_restart_replaces_the_dead_record_at_once),
        cmocka_unit_test(a_quick_restart_is_no_death),
        cmocka_unit_test(a_restart_with_an_old_incarnation_outgrows_it),
        cmocka_unit_test(updates_of_records_converge),
        cmocka_unit_test(a_good_bye_is_not_a_death),
        cmocka_unit_test(a_paused_node_blames_itself),
        cmocka_unit_test(skew_of_clocks_is_measured),
        cmocka_unit_test(hostile_bytes_break_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
