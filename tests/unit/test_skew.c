/* test_skew.c - what keep-alives say of clocks, and a shard whose own time jumps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

#define S (1000 * LAB_MS)

enum { SAMPLES_MAX = 8 };

/* Peer 0 of the shard says that its clock is `ahead_ns` ahead; its keep-alive took `way_ns`. */
static void tell(struct shard *shard, int64_t ahead_ns, int64_t way_ns)
{
    const struct peer_ping ping = {.sent_ns = shard->now_ns - way_ns / 2 + ahead_ns,
                                   .echo_ns = shard->now_ns - way_ns};
    skew_ping(shard, 0, &ping);
}

static struct shard *first(void **state)
{
    struct lab *lab = *state;
    struct cluster_time_sample samples[SAMPLES_MAX];
    (void)shard_clocks(lab->shards[0].shard, samples, SAMPLES_MAX);
    return lab->shards[0].shard;
}

static struct cluster_time_sample sample_of(struct shard *shard)
{
    struct cluster_time_sample samples[SAMPLES_MAX];
    assert_int_equal(shard_clocks(shard, samples, SAMPLES_MAX), 1);
    assert_int_equal(shard_clocks(shard, samples, SAMPLES_MAX), 0);
    return samples[0];
}

/* SKEW-1: the narrowest bounds since the last look, and how many keep-alives they stand for. */
static void the_narrowest_bounds_are_told(void **state)
{
    struct shard *shard = first(state);
    tell(shard, 700 * LAB_MS, 40 * LAB_MS);
    tell(shard, 700 * LAB_MS, 2 * LAB_MS);
    tell(shard, 700 * LAB_MS, 300 * LAB_MS);
    const struct cluster_time_sample sample = sample_of(shard);
    assert_true(sample.id == shard->peers[0]->node && sample.process == shard->peers[0]->boot);
    assert_true(sample.low_ns == 699 * LAB_MS && sample.high_ns == 701 * LAB_MS);
    assert_int_equal(sample.count, 3);
}

/* One that contradicts the others, as a forged one may, stands for itself alone. */
static void a_keep_alive_that_contradicts_others_begins_anew(void **state)
{
    struct shard *shard = first(state);
    for (int i = 0; i < 5; i++)
        tell(shard, 0, 2 * LAB_MS);
    tell(shard, 9 * S, 1 * LAB_MS);
    assert_int_equal(sample_of(shard).count, 1);
    tell(shard, 9 * S, 1 * LAB_MS);
    tell(shard, 0, 2 * LAB_MS);
    const struct cluster_time_sample sample = sample_of(shard);
    assert_int_equal(sample.count, 1);
    assert_true(sample.high_ns < S);
}

/* SKEW-3: a jump of two seconds ends deciding, taking over and writing; one of less does not. */
static void a_shard_whose_time_jumps_decides_nothing(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = first(state);
    const uint32_t vnode = lab_vnode_of(lab, "k");
    struct shard *leader = lab->shards[lab_replica(lab, vnode, 0)].shard;
    for (uint16_t i = 0; i < leader->peer_count; i++)
        leader->peers[i]->in_view = false; /* no lease is in its way */
    assert_true(vnodes_here(leader, vnode));
    shard_enter(shard, shard->now_ns + 1900 * LAB_MS);
    assert_true(skew_stands(shard));
    shard_enter(leader, leader->now_ns + 2000 * LAB_MS);
    assert_false(skew_stands(leader));
    assert_false(vnodes_here(leader, vnode));
    leader->writeback.asked = true;
    assert_false(shard_write_due(leader, leader->now_ns));
}

/* SKEW-3: only a keep-alive of after that which agrees within two seconds ends it, or time. */
static void a_peer_that_agrees_ends_the_doubt(void **state)
{
    struct shard *shard = first(state);
    shard_enter(shard, shard->now_ns + 5 * S);
    tell(shard, 0, 4 * LAB_MS); /* echoes what was before */
    assert_false(skew_stands(shard));
    shard_enter(shard, shard->now_ns + 10 * LAB_MS);
    tell(shard, -5 * S, 4 * LAB_MS);
    assert_false(skew_stands(shard));
    tell(shard, -1900 * LAB_MS, 4 * LAB_MS);
    assert_true(skew_stands(shard));
    shard_enter(shard, shard->now_ns + 5 * S);
    shard->peers[0]->heard_ns =
        shard->now_ns; /* but nobody agrees: no majority says who is right */
    shard->now_ns += shard->options.grace_ns - 1;
    skew_tick(shard);
    assert_false(skew_stands(shard));
    shard->now_ns++;
    skew_tick(shard);
    assert_true(skew_stands(shard));
}

/* SKEW-3: of whom nobody is heard, nobody is in its way. */
static void who_hears_nobody_goes_on_soon(void **state)
{
    struct shard *shard = first(state);
    shard_enter(shard, shard->now_ns + 5 * S);
    shard->now_ns += 3 * shard->options.silence_ns;
    skew_tick(shard);
    assert_true(skew_stands(shard));
}

static struct shard *of_node(struct lab *lab, uint64_t node)
{
    uint32_t at = 0;
    while (lab->shards[at].shard->options.node_id != node)
        at++;
    return lab->shards[at].shard;
}

/* SKEW-2: of a peer whose clock has no say nothing is taken, until its next process comes. */
static void a_peer_without_a_say_is_not_heard(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = first(state);
    struct peer *peer = shard->peers[0];
    peer->clock.off = peer->boot;
    const int64_t heard_ns = peer->heard_ns;
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(peer->heard_ns, heard_ns);
    assert_true(shard->stats.clock_refused > 0);
    struct cluster_time_sample samples[SAMPLES_MAX];
    assert_int_equal(shard_clocks(shard, samples, SAMPLES_MAX), 2); /* but its clock is measured */
    lab_run(lab, 100 * LAB_MS);
    assert_true(peers_silent(shard, 0));
    struct shard *other = of_node(lab, peer->node);
    const uint16_t us = peers_find(other, shard->options.node_id, shard->options.shard);
    (void)shard_clocks(other, samples, SAMPLES_MAX);
    lab_run(lab, 300 * LAB_MS);
    assert_true(other->peers[us]->clock.told > 0); /* and it goes on to measure us, */
    assert_true(other->now_ns - other->peers[us]->echo_ns > 300 * LAB_MS); /* no lease of us */
    const struct peer_envelope next = {.boot = peer->boot + 1, .records = NULL, .len = 0};
    assert_false(skew_frame(shard, 0, &next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(the_narrowest_bounds_are_told),
        LAB_TEST_THREE(a_keep_alive_that_contradicts_others_begins_anew),
        LAB_TEST_THREE(a_shard_whose_time_jumps_decides_nothing),
        LAB_TEST_THREE(a_peer_that_agrees_ends_the_doubt),
        LAB_TEST_THREE(who_hears_nobody_goes_on_soon),
        LAB_TEST_THREE(a_peer_without_a_say_is_not_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
