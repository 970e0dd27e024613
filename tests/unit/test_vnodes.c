/* test_vnodes.c - who decides for a vnode, as leaders die, return, pause and stop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/election/election.h"
#include "node/cluster/shard_state.h"
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

/* A leader that dies is followed by the replica next in rank, which knows what was used. */
static void the_next_in_rank_takes_over_with_the_count(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t dead = use_six(lab);
    const uint32_t next = lab_replica(lab, vnode, 1);
    lab_stop(lab, dead);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), next);
    assert_true(lab_stats(lab, next).takeovers >= 1);
    assert_int_equal(lab_used(lab, other_than(dead, next), KEY, &limit), 6);
    assert_false(lab_check(lab, next, KEY, &limit, 5).allowed);
}

/* A leader that returns empty takes the count over before it decides again. */
static void a_returned_owner_decides_again_only_with_the_count(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = use_six(lab);
    lab_stop(lab, owner);
    lab_run(lab, 400 * LAB_MS);
    lab_start(lab, owner);
    assert_int_not_equal(lab_role(lab, owner, vnode), SHARD_LEADING);
    lab_settle(lab);
    assert_int_equal(lab_leader(lab, vnode), owner);
    assert_int_equal(lab_used(lab, owner, KEY, &limit), 6);
}

/* A leader that nobody heard for long has lost its leases: it asks before it decides again. */
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
    assert_int_equal(lab_role(lab, next, vnode), SHARD_LEADING);
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

/* A leader that stood still is heard again before anybody took over, and echoes renew its lease:
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
    assert_int_equal(lab_role(lab, next, vnode), SHARD_LEADING);
    struct shard *still = lab->shards[next].shard;
    lab->shards[next].shard = NULL;
    lab->drop_type = PEER_REPORT;
    for (int i = 0; i < 300 && lab_role(lab, owner, vnode) != SHARD_RECOVERING; i++)
        lab_run(lab, LAB_MS);
    lab->shards[next].shard = still;
    assert_int_equal(lab_role(lab, owner, vnode), SHARD_RECOVERING);
    for (int i = 0; i < 600; i++) {
        lab_run(lab, LAB_MS);
        assert_int_not_equal(lab_role(lab, owner, vnode), SHARD_LEADING);
    }
    lab->drop_type = 0;
    lab_settle(lab);
    assert_int_equal(lab_leader(lab, vnode), owner);
    assert_int_equal(lab_used(lab, next, KEY, &limit), 6);
}

/* What a disk holds of one key and its vnode. */
struct kept {
    uint32_t vnode;
    struct hash128 id;
    struct term term;
    uint64_t seq;
    uint8_t slot[256];
    size_t len;
};

static struct kept keep(struct lab *lab, uint32_t at, const struct limit *limit)
{
    struct kept kept = {.vnode = lab_vnode_of(lab, KEY)};
    struct shard *shard = lab->shards[at].shard;
    kept.id = lab_slot_of(lab, KEY, limit->algorithm);
    kept.term = shard->vnodes[kept.vnode].state;
    kept.seq = table_vnode_seq(shard->table, kept.vnode);
    const int len = table_export(shard->table, table_lookup(shard->table, kept.id), kept.slot,
                                 sizeof kept.slot);
    assert_true(len > 0);
    kept.len = (size_t)len;
    return kept;
}

/* Starts shard `at` with that on its disk, but without a view. */
static void restart_with(struct lab *lab, uint32_t at, const struct kept *kept)
{
    lab_create(lab, at);
    struct shard *shard = lab->shards[at].shard;
    assert_int_equal(
        shard_restore_slot(shard, kept->vnode, kept->id, kept->slot, kept->len, lab->now_ns), 0);
    shard_restore_vnode(shard, kept->vnode, &kept->term, kept->seq);
}

/* A leader whose disk was behind meets a term that its process before had opened: it does not go
 * on in that term, but asks for its state. */
static void a_decider_takes_no_term_of_its_former_process_for_its_own(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = lab_replica(lab, vnode, 0);
    const uint32_t holder = lab_replica(lab, vnode, 1);
    (void)lab_check(lab, owner, KEY, &limit, 40);
    lab_run(lab, 50 * LAB_MS);
    struct kept kept = keep(lab, holder, &limit);
    kept.term.number += 3u << 20; /* terms that the owner's disk knows nothing of */
    for (uint32_t at = 0; at < 3; at++)
        lab_stop(lab, at);
    lab_start(lab, owner);
    lab_run(lab, 1500 * LAB_MS);
    assert_int_equal(lab_role(lab, owner, vnode), SHARD_LEADING);
    (void)lab_check(lab, owner, KEY, &limit, 5);
    restart_with(lab, holder, &kept);
    lab_view(lab, holder);
    lab_run(lab, 3000 * LAB_MS);
    assert_int_equal(lab_role(lab, owner, vnode), SHARD_LEADING);
    /* What a disk gives back does not tell what the 5 have in common with it: never below either.
     */
    assert_true(lab_used(lab, owner, KEY, &limit) >= 40);
}

/* Slots reach the disk before their header does: two nodes that come back with the same header may
 * hold different slots, so who decides gives the other a copy. */
static void what_was_restored_under_one_header_is_not_taken_for_equal(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t owner = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    (void)lab_check(lab, owner, KEY, &limit, 10);
    lab_run(lab, 100 * LAB_MS);
    const struct kept old = keep(lab, owner, &limit);
    (void)lab_check(lab, owner, KEY, &limit, 60);
    lab_run(lab, 100 * LAB_MS);
    struct kept newer = keep(lab, owner, &limit);
    newer.term = old.term; /* of a batch that was not the last */
    newer.seq = old.seq;
    for (uint32_t at = 0; at < 3; at++)
        lab_stop(lab, at);
    restart_with(lab, owner, &newer);
    restart_with(lab, next, &old);
    lab_view_all(lab);
    lab_run(lab, 3000 * LAB_MS);
    assert_int_equal(lab_used(lab, owner, KEY, &limit), 70);
    lab_stop(lab, owner);
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(lab_used(lab, next, KEY, &limit), 70);
}

/* A node that comes back with another number of shards, also one it had before, is replicated to
 * where its vnodes are now, without any change of the ring. */
static void links_follow_the_number_of_shards_of_a_node(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = lab->shards[0].shard;
    const uint16_t counts[] = {1, 2, 1, 3, 2};
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        lab->shards_each = counts[i];
        lab_view(lab, 0);
        for (uint32_t number = 0; number < LAB_VNODES; number++) {
            const struct replica_link *link = &shard->vnodes[number].links[0];
            assert_int_equal(shard->peers[link->peer]->shard, number % counts[i]);
        }
    }
    lab->shards_each = 1;
    lab_view(lab, 0);
}

/* VNODES-11: the way from the leader to one replica loses everything, while both are well connected
 * with the third: there is one leader at every moment, of one term. */
static void a_link_lost_in_one_direction_makes_no_second_decider(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t cut_off = lab_replica(lab, vnode, 1);
    const uint32_t common = lab_replica(lab, vnode, 2);
    const uint64_t opened = lab_stats(lab, cut_off).terms_opened;
    lab->cut[leader][cut_off] = true;
    for (int i = 0; i < 2000; i++) {
        lab_run(lab, LAB_MS);
        assert_int_equal(lab_role(lab, leader, vnode), SHARD_LEADING);
        assert_int_not_equal(lab_role(lab, cut_off, vnode), SHARD_LEADING);
    }
    assert_true(lab_check(lab, common, KEY, &limit, 60).allowed);
    lab->cut[leader][cut_off] = false;
    lab_settle(lab);
    assert_int_equal(lab_stats(lab, cut_off).terms_opened, opened);
    assert_int_equal(lab_used(lab, cut_off, KEY, &limit), 60);
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
    assert_int_equal(lab_stats(lab, owner).vnodes_leading, 0);
    assert_int_equal(lab_leader(lab, vnode), lab_replica(lab, vnode, 1));
    assert_int_equal(lab_stats(lab, lab_replica(lab, vnode, 1)).takeovers, 0);
    assert_int_equal(lab_used(lab, lab_replica(lab, vnode, 1), KEY, &limit), 6);
}

/* When all lose their processes at once, each vnode has one leader again, above the old terms. */
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
        assert_int_equal(lab_leader(lab, number), lab_replica(lab, number, 0));
    assert_true(lab_check(lab, 1, KEY, &(struct limit){.count = 1, .window_ns = 3600000000000u}, 1)
                    .allowed);
    assert_int_equal(lab_role(lab, lab_replica(lab, vnode, 2), vnode), SHARD_REPLICA);
}

/* VNODES-1: a node whose disk holds something of a vnode that is not its own any more is told, by
 * whom it took for the leader, that a lower term is in force. It asks there, and takes that for the
 * way, not for a term below what it holds. */
static void no_word_of_a_lower_term_is_believed_beside_what_a_disk_holds(void **state)
{
    const struct limit limit = lab_limit(10);
    struct lab *lab = lab_new(3, 1, 2);
    (void)state;
    lab_start_all(lab);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    const uint32_t absent = other_than(leader, next);
    (void)lab_check(lab, leader, KEY, &limit, 6);
    lab_run(lab, 50 * LAB_MS);
    struct kept kept = keep(lab, leader, &limit);
    const struct term lower = kept.term;
    kept.term.number += 2u << 20;
    lab_stop(lab, absent);
    restart_with(lab, absent, &kept);
    lab_view(lab, absent);
    struct shard *shard = lab->shards[absent].shard;
    struct vnode *held = &shard->vnodes[vnode];
    assert_int_equal(held->role, ROLE_ABSENT);
    assert_int_equal(term_compare(&held->state, &kept.term), 0);
    held->hint = peers_for(shard, lab->shards[next].node, vnode);
    vnodes_moved(shard, held->hint, vnode, &lower, &lab->effects);
    lab_perform(lab, absent);
    assert_int_equal(term_compare(&held->term, &kept.term), 0);
    assert_int_equal(held->hint, peers_for(shard, lower.writer, vnode));
    shard_check_invariants(shard);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(the_next_in_rank_takes_over_with_the_count),
        LAB_TEST_THREE(a_returned_owner_decides_again_only_with_the_count),
        LAB_TEST_THREE(a_cut_off_decider_gives_way_to_the_newer_term),
        LAB_TEST_THREE(whoever_is_heard_is_waited_for),
        LAB_TEST_THREE(a_link_lost_in_one_direction_makes_no_second_decider),
        LAB_TEST_THREE(links_follow_the_number_of_shards_of_a_node),
        LAB_TEST_THREE(a_decider_takes_no_term_of_its_former_process_for_its_own),
        LAB_TEST_THREE(what_was_restored_under_one_header_is_not_taken_for_equal),
        cmocka_unit_test(no_word_of_a_lower_term_is_believed_beside_what_a_disk_holds),
        LAB_TEST_THREE(a_resigning_node_passes_deciding_on),
        LAB_TEST_THREE(a_whole_restart_ends_with_one_decider_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
