/* test_exposure.c - what a shard says it could over-admit, against what is lost when it dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_shard.h"

enum { KEYS = 12, ROUNDS = EFFORT(100) };

static const char KEY[] = "counted";

static void cut_off(struct lab *lab, uint32_t at, bool cut)
{
    for (uint32_t other = 0; other < lab->count; other++)
        lab->cut[at][other] = lab->cut[other][at] = cut && other != at;
}

/* What was granted counts until the first replica has acknowledged it, and refusals never do. */
static void granted_tokens_count_until_a_replica_knows(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 0);
    assert_true(lab_check(lab, leader, KEY, &limit, 4).allowed);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 4);
    assert_false(lab_check(lab, leader, KEY, &limit, 7).allowed);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 4);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 0);
    const uint32_t deaf = lab_replica(lab, vnode, 2);
    lab->cut[leader][deaf] = true; /* the other one is enough */
    assert_true(lab_check(lab, leader, KEY, &limit, 5).allowed);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 5);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 0);
}

/* A leader that hears no replica says so: its answers are degraded, its vnodes are cut off, and
 * all that it grants counts; when the others are back and hold everything, that is over. */
static void a_lone_decider_is_degraded_and_counts_all_it_grants(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    assert_false(lab_check(lab, leader, KEY, &limit, 1).degraded);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).vnodes_cut_off, 0);
    lab_stop(lab, lab_replica(lab, vnode, 1));
    lab_run(lab, 500 * LAB_MS);
    assert_false(lab_check(lab, leader, KEY, &limit, 1).degraded); /* two of three stand */
    assert_int_equal(lab_stats(lab, leader).vnodes_unconfirmed, 0);
    assert_int_equal(lab_stats(lab, leader).vnodes_cut_off, 0);
    lab_run(lab, 20 * LAB_MS);
    lab_stop(lab, lab_replica(lab, vnode, 2));
    lab_run(lab, 500 * LAB_MS);
    assert_true(lab_check(lab, leader, KEY, &limit, 6).degraded);
    assert_true(lab_check(lab, leader, KEY, &limit, 7).degraded);
    const struct shard_stats alone = lab_stats(lab, leader);
    assert_int_equal(alone.over_tokens, 13);
    assert_int_equal(alone.vnodes_cut_off, alone.vnodes_leading);
    assert_int_equal(alone.vnodes_unconfirmed, alone.vnodes_leading);
    lab_start(lab, lab_replica(lab, vnode, 1));
    lab_start(lab, lab_replica(lab, vnode, 2));
    lab_settle(lab);
    lab_run(lab, 100 * LAB_MS);
    assert_false(lab_check(lab, leader, KEY, &limit, 1).degraded);
    lab_run(lab, 20 * LAB_MS);
    const struct shard_stats healed = lab_stats(lab, leader);
    assert_int_equal(healed.over_tokens + healed.vnodes_cut_off + healed.vnodes_unconfirmed +
                         healed.vnodes_incomplete,
                     0);
}

/* The one replica of two stands for nobody when it falls silent, though it had confirmed. */
static void a_silent_replica_stands_behind_nobody(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    cut_off(lab, leader, true);
    lab_run(lab, 500 * LAB_MS);
    assert_true(lab_check(lab, leader, KEY, &limit, 1).degraded);
    assert_true(lab_stats(lab, leader).vnodes_unconfirmed > 0);
}

/* Only replicas in reach count, for one of them would be the successor; and one that came back
 * without its state holds nothing before it has confirmed its copy. */
static void what_counts_as_held_is_held_by_a_successor(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t near = lab_replica(lab, vnode, 1);
    const uint32_t far = lab_replica(lab, vnode, 2);
    lab_stop(lab, far);
    lab_run(lab, 300 * LAB_MS);
    assert_true(lab_check(lab, leader, KEY, &limit, 5).allowed);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 0);
    lab->drop_type = PEER_HELD; /* no copy is confirmed */
    lab_start(lab, far);
    lab_stop(lab, near);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 5);
    lab_start(lab, near);
    lab_stop(lab, far);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 5);
    lab->drop_type = 0;
    lab_run(lab, 1500 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).over_tokens, 0);
}

/* Time from a grant to the first acknowledgement is measured, and only while somebody may give it.
 */
static void the_lag_of_acknowledgements_is_measured(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(1000);
    const uint32_t leader = lab_replica(lab, lab_vnode_of(lab, KEY), 0);
    for (unsigned i = 0; i < 50; i++) {
        assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
        lab_run(lab, 10 * LAB_MS);
    }
    const struct lag lag = lab_stats(lab, leader).lag;
    assert_int_equal(lag_count(&lag), 50);
    assert_true(lag_quantile_ns(&lag, 500) > 0);
    assert_true(lag_quantile_ns(&lag, 990) <= 5 * LAB_MS); /* of virtual time: R3 */
    cut_off(lab, leader, true);
    lab_run(lab, 500 * LAB_MS);
    assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
    lab_run(lab, 3000 * LAB_MS);
    cut_off(lab, leader, false);
    lab_run(lab, 3000 * LAB_MS);
    const struct lag after = lab_stats(lab, leader).lag;
    assert_true(lag_max_ns(&after) <= 5 * LAB_MS); /* what nobody could hear was not waited for */
}

struct crash {
    struct random random;
    uint64_t bound; /* what the dead had said */
    char keys[KEYS][LAB_KEY_LEN];
};

/* The node dies, whatever it decided; one fault at a time. */
static void stop(struct lab *lab, struct crash *crash, uint32_t at)
{
    crash->bound += lab_stats(lab, at).over_tokens;
    lab_stop(lab, at);
    lab_run(lab, 200 * LAB_MS);
}

static void random_event(struct lab *lab, struct crash *crash, uint32_t victim)
{
    const struct limit limit = lab_limit(100000);
    const uint64_t dice = random_below(&crash->random, 100);
    const uint32_t key = (uint32_t)random_below(&crash->random, KEYS);
    if (dice < 60) {
        const uint64_t cost = 1 + random_below(&crash->random, 9);
        lab_ask(lab, &limit, crash->keys[key], OPERATION_CHECK, cost);
        (void)lab_send(lab, victim, 1000);
        lab_run(lab, LAB_MS);
    } else if (dice < 70) {
        const uint32_t other = (uint32_t)random_below(&crash->random, lab->count);
        lab->cut[victim][other] = lab->cut[other][victim] =
            other != victim && random_below(&crash->random, 2) == 0;
    } else if (dice < 72) {
        const uint32_t other = (victim + 1) % lab->count;
        if (lab->shards[other].shard != NULL)
            stop(lab, crash, other);
        else
            lab_start(lab, other);
    } else {
        lab_run(lab, (int64_t)random_below(&crash->random, dice < 75 ? 300 : 6) * LAB_MS);
    }
}

/* What a shard holds of the key, whether it decides it or not. */
static uint64_t held_of(struct lab *lab, uint32_t at, const char *key)
{
    const struct limit limit = lab_limit(100000);
    struct limit_decision got;
    engine_one(lab->shards[at].shard->table, lab_slot_of(lab, key, limit.algorithm),
               lab_vnode_of(lab, key), &limit, 0, OPERATION_PEEK, LIMIT_LOADED, lab->now_ns, &got);
    return got.used;
}

static uint64_t used_of(struct lab *lab, uint32_t at, const char *key)
{
    const struct limit limit = lab_limit(100000);
    return lab_used(lab, at, key, &limit);
}

/* Whatever went before - lost frames, short cuts, a replica's restarts - what is forgotten when the
 * leader dies is at most what it said at that moment. */
static void what_a_crash_loses_is_within_the_bound(void **state)
{
    (void)state;
    struct crash crash;
    random_init(&crash.random, 501);
    uint64_t lost_in_all = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct lab *lab = lab_new(3, 1, 3);
        lab->large = true; /* the invariants are looked at once a round */
        lab_start_all(lab);
        const uint32_t victim = (uint32_t)random_below(&crash.random, 3);
        const uint32_t witness = (victim + 2) % 3; /* never stopped */
        for (uint32_t key = 0; key < KEYS; key++) {
            do
                (void)snprintf(crash.keys[key], LAB_KEY_LEN, "k%u",
                               (unsigned)random_below(&crash.random, 1000000));
            while (lab_replica(lab, lab_vnode_of(lab, crash.keys[key]), 0) != victim);
        }
        crash.bound = 0;
        for (uint64_t n = 10 + random_below(&crash.random, 60); n > 0; n--)
            random_event(lab, &crash, victim);
        uint64_t held[KEYS];
        for (uint32_t key = 0; key < KEYS; key++)
            held[key] = held_of(lab, victim, crash.keys[key]);
        const bool sole = lab_stats(lab, victim).vnodes_cut_off > 0;
        shard_check_invariants(lab->shards[victim].shard);
        stop(lab, &crash, victim);
        cut_off(lab, victim, false);
        if (lab->shards[(victim + 1) % 3].shard == NULL)
            lab_start(lab, (victim + 1) % 3);
        lab_run(lab, 3000 * LAB_MS);
        uint64_t lost = 0;
        for (uint32_t key = 0; key < KEYS; key++) {
            const uint64_t used = used_of(lab, witness, crash.keys[key]);
            lost += used < held[key] ? held[key] - used : 0;
        }
        if (!sole)
            assert_true(lost <= crash.bound);
        lost_in_all += sole ? 0 : lost;
        lab_free(lab);
    }
    assert_true(lost_in_all > ROUNDS); /* the test could have failed */
}

/* EXPOSURE-4: who took over and has its only replica in reach still lacking what was counted before
 * cannot say that nothing would be lost with it. */
static void a_replica_that_lacks_the_past_is_not_in_reach(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    const uint32_t behind = lab_replica(lab, vnode, 2);
    lab->cut[leader][behind] = true;
    assert_true(lab_check(lab, leader, KEY, &limit, 50).allowed);
    lab_run(lab, 20 * LAB_MS);
    lab_stop(lab, leader);
    lab->drop_type = PEER_HELD;
    lab_run(lab, 150 * LAB_MS);
    assert_int_equal(lab_role(lab, next, vnode), SHARD_LEADING);
    assert_true(lab_stats(lab, next).vnodes_cut_off >= 1);
    lab->drop_type = 0;
    lab_run(lab, 1500 * LAB_MS);
    assert_int_equal(lab_stats(lab, next).vnodes_cut_off, 0);
    assert_int_equal(lab_stats(lab, behind).vnodes_cut_off, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(granted_tokens_count_until_a_replica_knows),
        LAB_TEST_THREE(a_lone_decider_is_degraded_and_counts_all_it_grants),
        LAB_TEST_THREE(a_silent_replica_stands_behind_nobody),
        LAB_TEST_THREE(what_counts_as_held_is_held_by_a_successor),
        LAB_TEST_THREE(the_lag_of_acknowledgements_is_measured),
        cmocka_unit_test(what_a_crash_loses_is_within_the_bound),
        LAB_TEST_THREE(a_replica_that_lacks_the_past_is_not_in_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
