/* test_vnodes.c - who decides for a vnode, as deciders die, return, pause and stop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"

static const char KEY[] = "counted";

/* Uses 6 of 10 and lets that reach the replicas. */
static uint32_t use_six(struct lab *lab)
{
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    assert_true(lab_check(lab, 0, KEY, &limit, 6).allowed);
    lab_run(lab, 50 * LAB_MS);
    return lab_replica(lab, vnode, 0);
}

static uint32_t other_than(uint32_t a, uint32_t b)
{
    for (uint32_t at = 0; at < 3; at++)
        if (at != a && at != b)
            return at;
    return LAB_NONE;
}

/* A decider that dies is followed by the replica next in rank, which knows what was used. */
static void the_next_in_rank_takes_over_with_the_count(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t dead = use_six(lab);
    const uint32_t next = lab_replica(lab, vnode, 1);
    lab_stop(lab, dead);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lab_decider(lab, vnode), next);
    assert_true(lab_stats(lab, next).takeovers >= 1);
    assert_int_equal(lab_used(lab, other_than(dead, next), KEY, &limit), 6);
    assert_false(lab_check(lab, next, KEY, &limit, 5).allowed);
}

/* A decider that returns empty takes the count over before it decides again. */
static void a_returned_owner_decides_again_only_with_the_count(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = use_six(lab);
    lab_stop(lab, owner);
    lab_run(lab, 400 * LAB_MS);
    lab_start(lab, owner);
    assert_int_not_equal(lab_role(lab, owner, vnode), SHARD_DECIDING);
    lab_settle(lab);
    assert_int_equal(lab_decider(lab, vnode), owner);
    assert_int_equal(lab_used(lab, owner, KEY, &limit), 6);
}

/* A decider that nobody heard for long has lost its leases: it asks before it decides again. */
static void a_cut_off_decider_gives_way_to_the_newer_term(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = use_six(lab);
    const uint32_t next = lab_replica(lab, vnode, 1);
    struct term before;
    struct term after;
    (void)shard_vnode(lab->shards[owner].shard, vnode, &before);
    for (uint32_t at = 0; at < 3; at++) {
        lab->cut[owner][at] = true;
        lab->cut[at][owner] = true;
    }
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lab_role(lab, next, vnode), SHARD_DECIDING);
    for (uint32_t at = 0; at < 3; at++) {
        lab->cut[owner][at] = false;
        lab->cut[at][owner] = false;
    }
    lab_settle(lab);
    (void)shard_vnode(lab->shards[owner].shard, vnode, &after);
    assert_true(term_compare(&before, &after) < 0);
    assert_true(lab_stats(lab, owner).stepped_down >= 1);
    assert_int_equal(lab_used(lab, next, KEY, &limit), 6);
}

/* A decider that stood still is heard again before anybody took over, and echoes renew its lease:
 * it is waited for, though it is lower in rank and what all report is lost for long. */
static void whoever_is_heard_is_waited_for(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = use_six(lab);
    const uint32_t next = lab_replica(lab, vnode, 1);
    lab_stop(lab, owner);
    lab_run(lab, 400 * LAB_MS);
    lab->drop_type = PEER_HELD; /* so that nothing is passed back */
    lab_start(lab, owner);
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(lab_role(lab, next, vnode), SHARD_DECIDING);
    struct shard *still = lab->shards[next].shard;
    lab->shards[next].shard = NULL;
    lab->drop_type = PEER_REPORT;
    for (int i = 0; i < 300 && lab_role(lab, owner, vnode) != SHARD_RECOVERING; i++)
        lab_run(lab, LAB_MS);
    lab->shards[next].shard = still;
    assert_int_equal(lab_role(lab, owner, vnode), SHARD_RECOVERING);
    for (int i = 0; i < 600; i++) {
        lab_run(lab, LAB_MS);
        assert_int_not_equal(lab_role(lab, owner, vnode), SHARD_DECIDING);
    }
    lab->drop_type = 0;
    lab_settle(lab);
    assert_int_equal(lab_decider(lab, vnode), owner);
    assert_int_equal(lab_used(lab, next, KEY, &limit), 6);
}

/* A node that stops in order passes every vnode on, with the count, and takes none back. */
static void a_resigning_node_passes_deciding_on(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = use_six(lab);
    bool done = false;
    for (uint32_t step = 0; step < 500 && !done; step++) {
        done = shard_resign(lab->shards[owner].shard, lab->now_ns, &lab->effects);
        lab_perform(lab, owner);
        lab_run(lab, LAB_MS);
    }
    assert_true(done);
    assert_int_equal(lab_stats(lab, owner).vnodes_deciding, 0);
    assert_int_equal(lab_decider(lab, vnode), lab_replica(lab, vnode, 1));
    assert_int_equal(lab_stats(lab, lab_replica(lab, vnode, 1)).takeovers, 0);
    assert_int_equal(lab_used(lab, owner, KEY, &limit), 6);
}

/* When all lose their processes at once, each vnode has one decider again, above the old terms. */
static void a_whole_restart_ends_with_one_decider_each(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    for (uint32_t at = 0; at < 3; at++)
        lab_stop(lab, at);
    for (uint32_t at = 0; at < 3; at++)
        lab_start(lab, at);
    lab_settle(lab);
    for (uint32_t number = 0; number < LAB_VNODES; number++)
        assert_int_equal(lab_decider(lab, number), lab_replica(lab, number, 0));
    assert_true(lab_check(lab, 1, KEY, &(struct limit){.count = 1, .window_ns = 3600000000000u}, 1)
                    .allowed);
    assert_int_equal(lab_role(lab, lab_replica(lab, vnode, 2), vnode), SHARD_REPLICA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(the_next_in_rank_takes_over_with_the_count),
        LAB_TEST_THREE(a_returned_owner_decides_again_only_with_the_count),
        LAB_TEST_THREE(a_cut_off_decider_gives_way_to_the_newer_term),
        LAB_TEST_THREE(whoever_is_heard_is_waited_for),
        LAB_TEST_THREE(a_resigning_node_passes_deciding_on),
        LAB_TEST_THREE(a_whole_restart_ends_with_one_decider_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
