/* test_swim_regions.c - membership over several regions, as whole clusters live it by virtual time
 * (support_swim.h), and the rules for members in another region one by one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/swim.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_piggyback.h"
#include "gossip/swim_record.h"
#include "gossip/swim_region.h"
#include "gossip/swim_table.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_swim.h"

#define WAN_NS (40 * SWARM_MS) /* one way */

/* ---- looking at a swarm ---- */

static const struct swim_region *region_of(const struct swim *swim, const char *name)
{
    const struct swim_region *region;
    size_t cursor = 0;
    while ((region = swim_region_next(swim, &cursor)) != NULL) {
        if (strcmp(region->name, name) == 0)
            return region;
    }
    return NULL;
}

/* What `node` knows of the region with that number, counted from 0. */
static const struct swim_region *seen(const struct swarm *swarm, uint32_t node, uint32_t number)
{
    char name[SWIM_PLACE_LEN];
    (void)snprintf(name, sizeof name, "eu-west-%u", number + 1);
    const struct swim_region *region = region_of(swarm->nodes[node].swim, name);
    assert_non_null(region);
    return region;
}

static int64_t age_ns(const struct swarm *swarm, uint32_t node, uint32_t number)
{
    return swarm->now_ns - seen(swarm, node, number)->heard_ns;
}

/* The oldest knowledge that a node of region `here` has of region `there`. */
static int64_t oldest_ns(const struct swarm *swarm, uint32_t here, uint32_t there)
{
    int64_t oldest = 0;
    for (uint32_t i = 0; i < swarm->nodes_count; i++) {
        if (swarm->nodes[i].up && swarm_region(swarm, i) == here &&
            age_ns(swarm, i, there) > oldest)
            oldest = age_ns(swarm, i, there);
    }
    return oldest;
}

static void region_isolate(struct swarm *swarm, uint32_t number, bool cut)
{
    for (uint32_t other = 0; other < SWARM_REGIONS_MAX; other++) {
        if (other != number)
            swarm_cut(swarm, number, other, cut);
    }
}

static struct swim_stats stats_of(const struct swarm *swarm, uint32_t node)
{
    struct swim_stats stats;
    swim_stats(swarm->nodes[node].swim, &stats);
    return stats;
}

static void update_epoch(struct swarm *swarm, uint32_t node, uint64_t epoch)
{
    struct swim_record record = swim_self(swarm->nodes[node].swim)->record;
    record.ring_epoch = epoch;
    assert_int_equal(swim_update_self(swarm->nodes[node].swim, &record), 0);
    swarm_schedule(swarm, node);
}

/* Whether every running node knows that epoch of `node`. */
static bool epoch_known(const struct swarm *swarm, uint32_t node, uint64_t epoch)
{
    for (uint32_t i = 0; i < swarm->nodes_count; i++) {
        if (swarm->nodes[i].up &&
            swim_find(swarm->nodes[i].swim, swarm_id(node))->record.ring_epoch != epoch)
            return false;
    }
    return true;
}

/* How many messages of that kind went from one region to another. */
static uint64_t crossed(const struct swarm *swarm, enum swim_kind kind)
{
    uint64_t count = 0;
    for (uint32_t number = 0; number < SWARM_REGIONS_MAX; number++)
        count += swarm->wan_sent[number][kind];
    return count;
}

static struct swarm *settled(uint32_t regions, uint32_t nodes, int64_t wan_ns, uint64_t seed)
{
    struct swarm *swarm = swarm_new_regions(regions, nodes, wan_ns, seed);
    assert_true(swarm_settle(swarm, 30 * SWARM_SECOND) >= 0);
    swarm_run(swarm, 15 * SWARM_SECOND); /* the news of the joins die down */
    return swarm;
}

/* ---- whole clusters ---- */

/* Everybody's only seed is of the first region, and still all find their neighbours and the rest.
 */
static void members_of_all_regions_are_visible_everywhere(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 10, 30};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint32_t nodes = sizes[i];
        struct swarm *swarm = swarm_new_regions(3, nodes, WAN_NS, 100 + i);
        const int64_t took_ns = swarm_settle(swarm, 30 * SWARM_SECOND);
        print_message("3 regions of %u found together in %lld ms\n", nodes,
                      (long long)(took_ns / SWARM_MS));
        assert_true(took_ns >= 0 && took_ns <= 5 * SWARM_SECOND);
        for (uint32_t node = 0; node < 3 * nodes; node++) {
            for (uint32_t number = 0; number < 3; number++)
                assert_int_equal(seen(swarm, node, number)->members[SWIM_ALIVE], nodes);
        }
        swarm_free(swarm);
    }
}

/* R1, and 2 s more for the other regions. */
static void a_death_in_one_region_is_soon_known_in_all(void **state)
{
    enum { TRIALS = 20 };
    static const uint32_t sizes[] = {3, 10, 30};
    (void)state;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        int64_t home_ns = 0;
        int64_t lag_ns = 0;
        for (uint64_t seed = 1; seed <= TRIALS; seed++) {
            struct swarm *swarm = settled(3, sizes[size], WAN_NS, seed);
            const uint32_t victim = (uint32_t)random_below(&swarm->random, swarm->nodes_count);
            const int64_t killed_ns = swarm->now_ns;
            int64_t last_ns[2] = {0};
            swarm->watched = swarm_id(victim);
            swarm_kill(swarm, victim);
            assert_true(swarm_settle(swarm, 15 * SWARM_SECOND) >= 0);
            for (uint32_t i = 0; i < swarm->nodes_count; i++) {
                const bool away = swarm_region(swarm, i) != swarm_region(swarm, victim);
                const int64_t took_ns = swarm->dead_at_ns[i] - killed_ns;
                assert_true(i == victim || took_ns > 0);
                last_ns[away] = took_ns > last_ns[away] ? took_ns : last_ns[away];
            }
            home_ns = last_ns[0] > home_ns ? last_ns[0] : home_ns;
            lag_ns = last_ns[1] - last_ns[0] > lag_ns ? last_ns[1] - last_ns[0] : lag_ns;
            swarm_free(swarm);
        }
        print_message("3 regions of %u, %u deaths: all at home within %lld ms, all abroad at most "
                      "%lld ms later\n",
                      sizes[size], TRIALS, (long long)(home_ns / SWARM_MS),
                      (long long)(lag_ns / SWARM_MS));
        assert_true(home_ns <= (sizes[size] == 3 ? 5 : 10) * SWARM_SECOND);
        assert_true(lag_ns <= 2 * SWARM_SECOND);
    }
}

/* What a node says of itself reaches all nodes of all regions. */
static void news_cross_regions_within_a_second(void **state)
{
    enum { TRIALS = 40 };
    static const uint32_t sizes[] = {2, 10, 30};
    (void)state;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        struct swarm *swarm = settled(3, sizes[size], WAN_NS, 7);
        int64_t worst_ns = 0;
        for (uint64_t epoch = 1; epoch <= TRIALS; epoch++) {
            const uint32_t node = (uint32_t)random_below(&swarm->random, swarm->nodes_count);
            const int64_t start_ns = swarm->now_ns;
            update_epoch(swarm, node, epoch);
            while (!epoch_known(swarm, node, epoch) &&
                   swarm->now_ns - start_ns <= 10 * SWARM_SECOND)
                swarm_run(swarm, 10 * SWARM_MS);
            if (swarm->now_ns - start_ns > worst_ns)
                worst_ns = swarm->now_ns - start_ns;
            swarm_run(swarm, random_between(&swarm->random, 0, SWARM_SECOND));
        }
        print_message("3 regions of %u: news everywhere within %lld ms\n", sizes[size],
                      (long long)(worst_ns / SWARM_MS));
        assert_true(worst_ns <= SWARM_SECOND);
        swarm_free(swarm);
    }
}

/* News cross once, from where they are of: what regions hear of each other does not echo. */
static void a_region_tells_others_only_of_itself(void **state)
{
    (void)state;
    struct swarm *swarm = settled(4, 10, WAN_NS, 17);
    uint64_t before[4];
    for (int number = 0; number < 4; number++)
        before[number] = swarm->wan_sent[number][SWIM_GOSSIP];
    update_epoch(swarm, 15, 1);
    swarm_run(swarm, 2 * SWARM_SECOND);
    assert_true(epoch_known(swarm, 15, 1));
    for (int number = 0; number < 4; number++)
        assert_int_equal(swarm->wan_sent[number][SWIM_GOSSIP] > before[number], number == 1);
    swarm_free(swarm);
}

/* Two regions that cannot reach each other hear of each other through the third. */
static void news_go_round_a_cut(void **state)
{
    (void)state;
    struct swarm *swarm = settled(3, 10, WAN_NS, 8);
    swarm_cut(swarm, 0, 1, true);
    swarm_run(swarm, 30 * SWARM_SECOND);
    update_epoch(swarm, 3, 77);
    swarm_run(swarm, 5 * SWARM_SECOND);
    assert_true(epoch_known(swarm, 3, 77));
    assert_true(oldest_ns(swarm, 1, 0) <= 10 * SWARM_SECOND);
    assert_true(swarm->now_ns - seen(swarm, 12, 0)->last_contact_ns >= 30 * SWARM_SECOND);
    assert_int_equal(swarm->deaths, 0);
    swarm_free(swarm);
}

/* Out of reach is not dead: members stay as they were, and what is known of them grows old. */
static void a_region_cut_off_grows_old_and_is_not_declared_dead(void **state)
{
    (void)state;
    struct swarm *swarm = settled(3, 10, WAN_NS, 9);
    assert_true(oldest_ns(swarm, 0, 2) <= 5 * SWARM_SECOND);
    region_isolate(swarm, 2, true);
    swarm_run(swarm, 120 * SWARM_SECOND);
    assert_int_equal(swarm->deaths, 0);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(stats_of(swarm, i).alive, 30);
        for (uint32_t number = 0; number < 3; number++) {
            const bool cut = (number == 2) != (swarm_region(swarm, i) == 2);
            if (cut)
                assert_in_range(age_ns(swarm, i, number), 119 * SWARM_SECOND, 126 * SWARM_SECOND);
            else
                assert_true(number == swarm_region(swarm, i) ||
                            age_ns(swarm, i, number) <= 5 * SWARM_SECOND);
        }
    }
    swarm_free(swarm);
}

/* Nobody fails a probe, is suspected or doubts itself because other regions are out of reach. */
static void a_cut_between_regions_disturbs_neither_side(void **state)
{
    (void)state;
    struct swarm *swarm = settled(3, 5, WAN_NS, 10);
    region_isolate(swarm, 1, true);
    for (int i = 0; i < 60; i++) {
        swarm_run(swarm, SWARM_SECOND);
        for (uint32_t node = 0; node < 15; node++) {
            const struct swim_stats stats = stats_of(swarm, node);
            assert_int_equal(stats.suspicions, 0);
            assert_int_equal(stats.probes_failed, 0);
            assert_int_equal(stats.local_health, 0);
        }
    }
    swarm_free(swarm);
}

/* After a cut during which nodes died, came and changed on both sides, all agree soon. */
static void regions_agree_again_soon_after_a_cut(void **state)
{
    static const uint32_t sizes[] = {2, 10};
    (void)state;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        const uint32_t nodes = sizes[size];
        struct swarm *swarm = settled(3, nodes, WAN_NS, 11);
        swarm_kill(swarm, 1);
        swarm_run(swarm, 30 * SWARM_SECOND);
        region_isolate(swarm, 2, true);
        swarm_run(swarm, 60 * SWARM_SECOND);
        swarm_kill(swarm, 3 * nodes - 1);
        swarm_start(swarm, 1, 0);
        update_epoch(swarm, 2 * nodes, 5);
        update_epoch(swarm, nodes, 6);
        swarm_run(swarm, 60 * SWARM_SECOND);
        assert_false(swarm_agrees(swarm));
        region_isolate(swarm, 2, false);
        const int64_t took_ns = swarm_settle(swarm, 60 * SWARM_SECOND);
        print_message("3 regions of %u agree %lld ms after a cut of 2 min\n", nodes,
                      (long long)(took_ns / SWARM_MS));
        assert_true(took_ns >= 0 && took_ns <= 5 * SWARM_SECOND);
        swarm_run(swarm, SWARM_SECOND);
        assert_true(epoch_known(swarm, 2 * nodes, 5) && epoch_known(swarm, nodes, 6));
        swarm_free(swarm);
    }
}

/* A region that lost all its nodes at once is believed to live, and is found when it is back. */
static void a_region_that_was_off_is_found_again(void **state)
{
    (void)state;
    struct swarm *swarm = settled(3, 4, WAN_NS, 12);
    for (uint32_t i = 8; i < 12; i++)
        swarm_kill(swarm, i);
    swarm_run(swarm, 60 * SWARM_SECOND);
    assert_int_equal(seen(swarm, 0, 2)->members[SWIM_ALIVE], 4);
    assert_true(age_ns(swarm, 0, 2) >= 59 * SWARM_SECOND);
    for (uint32_t i = 8; i < 12; i++)
        swarm_start(swarm, i, i); /* no seed but itself: the others must find it */
    swarm_run(swarm, 15 * SWARM_SECOND);
    assert_true(swarm_agrees(swarm));
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(swim_find(swarm->nodes[i].swim, swarm_id(9))->incarnation, 2);
    assert_int_equal(swarm->deaths, 0);
    swarm_free(swarm);
}

/* Where the dead are all that is left, they are asked whether they live again. */
static void a_region_of_the_dead_is_asked_for_ever(void **state)
{
    (void)state;
    struct swarm *swarm = settled(3, 2, WAN_NS, 18);
    swarm_kill(swarm, 5);
    swarm_run(swarm, 15 * SWARM_SECOND);
    swim_leave(swarm->nodes[4].swim, swarm->now_ns, &swarm->effects);
    swarm_do(swarm, 4);
    swarm_run(swarm, 2 * SWARM_SECOND);
    swarm_kill(swarm, 4);
    swarm_run(swarm, 60 * SWARM_SECOND);
    assert_int_equal(seen(swarm, 0, 2)->members[SWIM_DEAD], 1);
    assert_int_equal(seen(swarm, 0, 2)->members[SWIM_LEFT], 1);
    swarm_start(swarm, 5, 5); /* no seed but itself */
    assert_true(swarm_settle(swarm, 10 * SWARM_SECOND) >= 0);
    swarm_free(swarm);
}

/* R6 over a wide area: 200 ms each way and 1% loss, and nobody is declared dead. */
static void loss_and_a_slow_wide_area_kill_nobody(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new_regions(3, 10, 200 * SWARM_MS, 13);
    swarm->loss_ppm = SWARM_PPM / 100;
    assert_true(swarm_settle(swarm, 30 * SWARM_SECOND) >= 0);
    swarm_run(swarm, EFFORT(1200) * SWARM_SECOND);
    assert_int_equal(swarm->deaths, 0);
    assert_true(swarm_agrees(swarm));
    for (uint32_t i = 0; i < 30; i++) {
        for (uint32_t number = 0; number < 3; number++) {
            if (number != swarm_region(swarm, i))
                assert_in_range(seen(swarm, i, number)->rtt_ns, 400 * SWARM_MS, 402 * SWARM_MS);
        }
    }
    swarm_free(swarm);
}

/* Probes, helpers and their answers stay at home, whoever dies, joins or loses messages. */
static void no_probe_crosses_regions(void **state)
{
    static const enum swim_kind probes[] = {SWIM_PING, SWIM_ACK, SWIM_PING_REQ, SWIM_NACK};
    (void)state;
    struct swarm *swarm = swarm_new_regions(3, 6, WAN_NS, 14);
    swarm->loss_ppm = SWARM_PPM / 50;
    swarm_run(swarm, 20 * SWARM_SECOND);
    swarm_kill(swarm, 8);
    swarm_run(swarm, 20 * SWARM_SECOND);
    swim_probe_now(swarm->nodes[0].swim, swarm_id(7));
    swarm_schedule(swarm, 0);
    swarm_start(swarm, 8, 0);
    swarm_run(swarm, 60 * SWARM_SECOND);
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        assert_int_equal(crossed(swarm, probes[i]), 0);
    assert_true(crossed(swarm, SWIM_SYNC) > 0 && crossed(swarm, SWIM_GOSSIP) > 0);
    swarm_free(swarm);
}

/* The last of a region has no neighbour to say good-bye to, and nobody who would miss it. */
static void a_good_bye_from_a_region_of_one_is_heard(void **state)
{
    (void)state;
    struct swarm *swarm = settled(3, 1, WAN_NS, 15);
    swim_leave(swarm->nodes[2].swim, swarm->now_ns, &swarm->effects);
    swarm_do(swarm, 2);
    swarm_run(swarm, 2 * SWARM_SECOND);
    assert_true(swim_leave_done(swarm->nodes[2].swim));
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(seen(swarm, i, 2)->members[SWIM_LEFT], 1);
    swarm_free(swarm);
}

/* Whoever comes back under another name or in another place is known as such in all regions. */
static void a_member_that_comes_back_elsewhere_is_known_everywhere(void **state)
{
    const uint64_t reborn = 12345;
    (void)state;
    struct swarm *swarm = settled(3, 4, WAN_NS, 16);
    swarm_kill(swarm, 5);
    swarm->nodes[5].record.id = reborn;
    swarm_start(swarm, 5, 0);
    swarm_kill(swarm, 10);
    memcpy(swarm->nodes[10].record.region, "eu-west-1", sizeof "eu-west-1");
    swarm_start(swarm, 10, 0);
    swarm_run(swarm, 15 * SWARM_SECOND);
    for (uint32_t i = 0; i < 12; i++) {
        const struct swim *swim = swarm->nodes[i].swim;
        assert_int_equal(swim_find(swim, swarm_id(5))->state, SWIM_DEAD);
        assert_int_equal(swim_find(swim, reborn)->state, SWIM_ALIVE);
        assert_string_equal(swim_find(swim, swarm_id(10))->record.region, "eu-west-1");
        assert_int_equal(seen(swarm, i, 0)->members[SWIM_ALIVE], 5);
        assert_int_equal(seen(swarm, i, 1)->members[SWIM_DEAD], 1);
        assert_int_equal(seen(swarm, i, 2)->members[SWIM_ALIVE], 3);
    }
    swarm_free(swarm);
}

struct rates {
    double home; /* bytes a second and node */
    double wan;
};

static struct rates quiet_rates(uint32_t regions, uint32_t nodes)
{
    const int64_t seconds = 45; /* ten regions are asked in turn */
    struct rates rates;
    uint64_t counted = 0;
    struct swarm *swarm = settled(regions, nodes, WAN_NS, 21);
    const uint32_t all = swarm->nodes_count;
    for (uint32_t i = 0; i < all; i++)
        counted -= stats_of(swarm, i).abroad_sent_bytes;
    const uint64_t wan = swarm_wan_bytes(swarm);
    const uint64_t sent = swarm_sent_bytes(swarm);
    swarm_run(swarm, seconds * SWARM_SECOND);
    for (uint32_t i = 0; i < all; i++)
        counted += stats_of(swarm, i).abroad_sent_bytes;
    assert_int_equal(counted, swarm_wan_bytes(swarm) - wan);
    rates.wan = (double)(swarm_wan_bytes(swarm) - wan) / (double)seconds / all;
    rates.home = (double)(swarm_sent_bytes(swarm) - sent) / (double)seconds / all - rates.wan;
    print_message("%u regions of %u: %.0f bytes per node and second at home, %.0f to other "
                  "regions; known of others: at most %lld ms old\n",
                  regions, nodes, rates.home, rates.wan,
                  (long long)(oldest_ns(swarm, 0, 1) / SWARM_MS));
    swarm_free(swarm);
    return rates;
}

/* S10: what a quiet cluster costs a node depends neither on its nodes nor on its regions.
 * SWIM_REGIONS_WHOLE=1 makes the large one as large as is promised, which takes half a minute. */
static void bytes_per_node_stay_flat_as_regions_grow(void **state)
{
    const bool whole = getenv("SWIM_REGIONS_WHOLE") != NULL;
    const struct rates small = quiet_rates(3, 10);
    const uint32_t usual = EFFORT(100) < 30 ? EFFORT(100) : 30;
    const struct rates large = quiet_rates(10, whole ? 100 : usual);
    (void)state;
    assert_true(large.wan >= 0.8 * small.wan && large.wan <= 1.2 * small.wan);
    assert_true(large.home >= 0.8 * small.home && large.home <= 1.2 * small.home);
}

/* ---- the rules ---- */

static const uint8_t cluster[SWIM_CLUSTER_ID_LEN] = "cluster-of-test";
static struct swim_effects out;

static struct swim_record record_of(uint64_t id, const char *region)
{
    struct swim_record record = {.id = id, .incarnation = 1, .version = 1};
    (void)snprintf(record.name, sizeof record.name, "n%u", (unsigned)id);
    (void)snprintf(record.region, sizeof record.region, "%s", region);
    (void)snprintf(record.gossip, sizeof record.gossip, "127.0.0.1:%u", (unsigned)id);
    return record;
}

/* Node 1 of that region, which knows nobody yet. */
static struct swim *node_new(const char *region)
{
    struct swim *swim;
    struct swim_options options;
    const struct swim_record record = record_of(1, region);
    swim_options_default(&options);
    options.members_max = 64;
    assert_int_equal(swim_new(&swim, alloc_heap(), &options, &record, cluster, 1), 0);
    swim_effects_clear(&out);
    swim_tick(swim, SWARM_START_NS, &out);
    swim_effects_clear(&out);
    return swim;
}

/* One claim, as if a message had brought it. */
static void claim(struct swim *swim, const struct swim_record *record, enum swim_state state,
                  bool from_sync)
{
    struct swim_item item = {.id = record->id,
                             .state = state,
                             .incarnation = record->incarnation,
                             .has_record = true,
                             .record = *record};
    if (state == SWIM_SUSPECT) {
        item.accusers[0] = 99;
        item.accusers_count = 1;
    }
    swim->out = &out;
    swim_apply(swim, &item, from_sync, 99);
    swim_events_flush(swim);
    swim->out = NULL;
    swim_effects_clear(&out);
    swim_check_invariants(swim);
}

static enum swim_state state_of(const struct swim *swim, uint64_t id)
{
    return swim_find(swim, id)->state;
}

/* Time passes without this node being late for anything. */
static void pass(struct swim *swim, int64_t by_ns)
{
    const int64_t now_ns = swim->now_ns + by_ns;
    swim->deadline_ns = now_ns;
    swim_tick(swim, now_ns, &out);
    swim_effects_clear(&out);
    swim_check_invariants(swim);
}

/* One in another region, 2, and one near, 3: both live, and then both are said to be `state`. */
static struct swim *node_told_of_both(enum swim_state state, bool from_sync)
{
    struct swim *swim = node_new("here");
    const struct swim_record remote = record_of(2, "there");
    const struct swim_record near = record_of(3, "here");
    claim(swim, &remote, SWIM_ALIVE, false);
    claim(swim, &near, SWIM_ALIVE, false);
    claim(swim, &remote, state, from_sync);
    claim(swim, &near, state, from_sync);
    return swim;
}

/* Its region says when it is dead, however long that takes; no suspicion runs out here. */
static void a_suspect_abroad_waits_for_its_region(void **state)
{
    (void)state;
    struct swim *swim = node_told_of_both(SWIM_SUSPECT, false);
    const struct swim_record remote = record_of(2, "there");
    pass(swim, 3600 * SWARM_SECOND);
    assert_int_equal(state_of(swim, 2), SWIM_SUSPECT);
    assert_int_equal(state_of(swim, 3), SWIM_DEAD);
    claim(swim, &remote, SWIM_DEAD, false);
    assert_int_equal(state_of(swim, 2), SWIM_DEAD);
    swim_free(&swim);
}

/* At home a death heard by push/pull makes suspect; in another region nobody here could find out
 * more. */
static void a_death_abroad_is_believed_however_it_is_heard(void **state)
{
    (void)state;
    struct swim *swim = node_told_of_both(SWIM_DEAD, true);
    assert_int_equal(state_of(swim, 2), SWIM_DEAD);
    assert_int_equal(state_of(swim, 3), SWIM_SUSPECT);
    swim_free(&swim);
}

/* A suspect that moves is judged anew where it has come to, and no longer where it went from. */
static void a_member_is_judged_where_it_is(void **state)
{
    (void)state;
    struct swim *swim = node_new("here");
    struct swim_record record = record_of(2, "there");
    claim(swim, &record, SWIM_ALIVE, false);
    claim(swim, &record, SWIM_SUSPECT, false);
    pass(swim, 3600 * SWARM_SECOND);
    record.version++;
    memcpy(record.region, "here", sizeof "here");
    claim(swim, &record, SWIM_SUSPECT, false);
    assert_int_equal(state_of(swim, 2), SWIM_SUSPECT);
    assert_null(region_of(swim, "there"));
    pass(swim, SWARM_SECOND);
    assert_int_equal(state_of(swim, 2), SWIM_SUSPECT);
    record.version++;
    memcpy(record.region, "there", sizeof "there");
    claim(swim, &record, SWIM_SUSPECT, false);
    pass(swim, 3600 * SWARM_SECOND);
    assert_int_equal(state_of(swim, 2), SWIM_SUSPECT);
    record.version++;
    memcpy(record.region, "here", sizeof "here");
    claim(swim, &record, SWIM_SUSPECT, false);
    pass(swim, 60 * SWARM_SECOND);
    assert_int_equal(state_of(swim, 2), SWIM_DEAD);
    swim_free(&swim);
}

/* Names of regions are data from the wire: one too many is refused, and room is made again when
 * the last member of a region moves away. */
static void regions_beyond_the_bound_are_refused_and_counted(void **state)
{
    struct swim_stats stats;
    char name[SWIM_PLACE_LEN];
    (void)state;
    struct swim *swim = node_new("r0");
    for (uint32_t i = 1; i <= SWIM_REGIONS_MAX; i++) {
        (void)snprintf(name, sizeof name, "r%u", i);
        const struct swim_record record = record_of(i + 1, name);
        claim(swim, &record, SWIM_ALIVE, false);
    }
    swim_stats(swim, &stats);
    assert_int_equal(stats.regions_refused, 1);
    assert_int_equal(stats.alive, SWIM_REGIONS_MAX);
    assert_null(swim_find(swim, SWIM_REGIONS_MAX + 1));
    assert_null(region_of(swim, name));
    struct swim_record moved = record_of(2, "r99");
    moved.incarnation = 2;
    claim(swim, &moved, SWIM_ALIVE, false); /* nor may a known member bring one */
    assert_int_equal(swim_find(swim, 2)->incarnation, 1);
    memcpy(moved.region, "r0", sizeof "r0");
    claim(swim, &moved, SWIM_ALIVE, false);
    const struct swim_record last = record_of(SWIM_REGIONS_MAX + 1, name);
    claim(swim, &last, SWIM_ALIVE, false);
    assert_int_equal(region_of(swim, name)->members[SWIM_ALIVE], 1);
    swim_free(&swim);
}

/* An operator may say that a region is gone; a member of it that lives is believed more. */
static void a_member_abroad_can_be_dismissed(void **state)
{
    (void)state;
    struct swim *swim = node_new("here");
    struct swim_record remote = record_of(2, "there");
    const struct swim_record near = record_of(3, "here");
    claim(swim, &remote, SWIM_ALIVE, false);
    claim(swim, &near, SWIM_ALIVE, false);
    swim_dismiss(swim, 2);
    swim_dismiss(swim, 3); /* of the own region: it is probed */
    swim_dismiss(swim, 4); /* nobody */
    assert_int_equal(swim_find(swim, 2)->state, SWIM_LEFT);
    assert_int_equal(swim_find(swim, 3)->state, SWIM_ALIVE);
    claim(swim, &remote, SWIM_ALIVE, true); /* who has not heard of it yet */
    assert_int_equal(swim_find(swim, 2)->state, SWIM_LEFT);
    remote.incarnation++;
    claim(swim, &remote, SWIM_ALIVE, false);
    assert_int_equal(swim_find(swim, 2)->state, SWIM_ALIVE);
    swim_free(&swim);
}

/* A message to another region tells of this one only, though there are other news, too. */
static void news_told_abroad_are_of_home_alone(void **state)
{
    struct swim_message message;
    struct swim_item item;
    uint32_t told = 0;
    (void)state;
    struct swim *swim = node_new("here");
    const struct swim_record listener = record_of(2, "there");
    const struct swim_record other = record_of(3, "elsewhere");
    claim(swim, &listener, SWIM_ALIVE, false);
    claim(swim, &other, SWIM_ALIVE, false);
    swim->now_ns = swim->gossip_ns;
    swim->out = &out;
    swim_gossip_tick(swim);
    swim->out = NULL;
    for (size_t i = 0; i < out.sends_count; i++) {
        assert_int_equal(
            swim_message_parse(swim, out.bytes + out.sends[i].offset, out.sends[i].len, &message),
            0);
        for (uint32_t n = 0; n < message.items_count; n++, told++) {
            swim_item_get(&message.items, &item);
            assert_int_equal(item.id, 1);
        }
    }
    assert_int_equal(told, 2); /* one to each */
    swim_free(&swim);
}

/* A record that names no region, as of an older release, is of the default one. */
static void a_missing_region_is_the_default(void **state)
{
    (void)state;
    struct swim *swim = node_new("");
    const struct swim_record record = record_of(2, SWIM_REGION_DEFAULT);
    claim(swim, &record, SWIM_ALIVE, false);
    assert_int_equal(region_of(swim, SWIM_REGION_DEFAULT)->members[SWIM_ALIVE], 2);
    assert_int_equal(swim_others(swim), 1);
    swim_free(&swim);
}

/* What a node says of itself may change, but not where it is. */
static void a_node_keeps_its_region(void **state)
{
    (void)state;
    struct swim *swim = node_new("here");
    struct swim_record record = record_of(1, "there");
    assert_int_equal(swim_update_self(swim, &record), TG_EINVALID);
    record = record_of(1, "here");
    record.ring_epoch = 4;
    assert_int_equal(swim_update_self(swim, &record), 0);
    swim_free(&swim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_of_all_regions_are_visible_everywhere),
        cmocka_unit_test(a_death_in_one_region_is_soon_known_in_all),
        cmocka_unit_test(news_cross_regions_within_a_second),
        cmocka_unit_test(a_region_tells_others_only_of_itself),
        cmocka_unit_test(news_go_round_a_cut),
        cmocka_unit_test(a_region_cut_off_grows_old_and_is_not_declared_dead),
        cmocka_unit_test(a_cut_between_regions_disturbs_neither_side),
        cmocka_unit_test(regions_agree_again_soon_after_a_cut),
        cmocka_unit_test(a_region_that_was_off_is_found_again),
        cmocka_unit_test(a_region_of_the_dead_is_asked_for_ever),
        cmocka_unit_test(loss_and_a_slow_wide_area_kill_nobody),
        cmocka_unit_test(no_probe_crosses_regions),
        cmocka_unit_test(a_good_bye_from_a_region_of_one_is_heard),
        cmocka_unit_test(a_member_that_comes_back_elsewhere_is_known_everywhere),
        cmocka_unit_test(bytes_per_node_stay_flat_as_regions_grow),
        cmocka_unit_test(a_suspect_abroad_waits_for_its_region),
        cmocka_unit_test(a_death_abroad_is_believed_however_it_is_heard),
        cmocka_unit_test(a_member_is_judged_where_it_is),
        cmocka_unit_test(regions_beyond_the_bound_are_refused_and_counted),
        cmocka_unit_test(a_member_abroad_can_be_dismissed),
        cmocka_unit_test(news_told_abroad_are_of_home_alone),
        cmocka_unit_test(a_missing_region_is_the_default),
        cmocka_unit_test(a_node_keeps_its_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
