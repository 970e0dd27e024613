/* test_stream.c - replication: what a replica holds, claims and is sent again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/election/election.h"
#include "node/limit/engine/engine.h"
#include "node/limit/table/table.h"
#include "tests/unit/support_limit.h"
#include "tests/unit/support_shard.h"

static const char KEY[] = "counted";

/* A change reaches both other replicas, as a slot and the mark that stands for it. */
static void a_change_is_sent_to_both_replicas_and_marked(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    lab_forget(lab);
    assert_true(lab_check(lab, leader, KEY, &limit, 3).allowed);
    lab_run(lab, 20 * LAB_MS);
    for (uint32_t rank = 1; rank < 3; rank++) {
        const uint32_t replica = lab_replica(lab, vnode, rank);
        assert_int_equal(lab_said(lab, leader, replica, PEER_SLOT, NULL), 1);
        assert_true(lab_said(lab, leader, replica, PEER_WATERMARK, NULL) >= 1);
        assert_true(lab_said(lab, replica, leader, PEER_ACK, NULL) >= 1);
    }
    assert_int_equal(lab_stats(lab, leader).unconfirmed, 0);
}

/* How far the replica says it is, after a while. */
static uint64_t claims(struct lab *lab, uint32_t replica, uint32_t vnode)
{
    struct probe_vnode held;
    lab_run(lab, 100 * LAB_MS);
    probe_vnode(lab->shards[replica].shard, vnode, &held);
    return held.seq;
}

/* One slot of a vnode is one record, to who knows of that; to others it is three, and says as much.
 */
static void a_replica_is_told_of_changes_in_records_that_it_knows(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t older = lab_replica(lab, vnode, 1);
    const uint32_t newer = lab_replica(lab, vnode, 2);
    struct shard *shard = lab->shards[leader].shard;
    struct peer_record change;
    lab_run(lab, 100 * LAB_MS);
    lab_forget(lab);
    lab->drop_type = PEER_PING; /* which would tell that it does know */
    shard->peers[peers_find(shard, lab->shards[older].node, 0)]->changes = false;
    assert_true(lab_check(lab, leader, KEY, &limit, 3).allowed);
    lab_run(lab, 10 * LAB_MS);
    lab->drop_type = 0;
    assert_int_equal(lab_said(lab, leader, newer, PEER_CHANGE, &change), 1);
    assert_true(change.change.marks);
    assert_int_equal(change.change.seq, table_vnode_seq(shard->table, vnode));
    assert_int_equal(lab_said(lab, leader, older, PEER_CHANGE, NULL), 0);
    assert_int_equal(lab_said(lab, leader, older, PEER_TERM, NULL), 1);
    assert_int_equal(lab_said(lab, leader, older, PEER_SLOT, NULL), 1);
    assert_int_equal(lab_said(lab, leader, older, PEER_WATERMARK, NULL), 1);
    for (uint32_t rank = 1; rank < 3; rank++)
        assert_int_equal(claims(lab, lab_replica(lab, vnode, rank), vnode),
                         table_vnode_seq(shard->table, vnode));
    lab_stop(lab, leader);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lab_used(lab, newer, KEY, &limit), 3);
}

/* STREAM-2: of two slots of a vnode in one frame neither is told with a mark, but behind both there
 * is one. */
static void a_mark_stands_behind_all_slots_of_its_vnode(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const struct table *table = lab->shards[leader].shard->table;
    char keys[2][LAB_KEY_LEN];
    lab_run(lab, 100 * LAB_MS);
    lab_forget(lab);
    for (uint32_t i = 0; i < 2; i++) {
        lab_key(lab, vnode, i, keys[i]);
        lab_ask(lab, &limit, keys[i], OPERATION_CHECK, 3);
    }
    (void)lab_send(lab, leader, 1000);
    lab_run(lab, 20 * LAB_MS);
    for (uint32_t rank = 1; rank < 3; rank++) {
        const uint32_t replica = lab_replica(lab, vnode, rank);
        struct peer_record said;
        assert_int_equal(lab_said(lab, leader, replica, PEER_CHANGE, &said), 1);
        assert_false(said.change.marks);
        assert_int_equal(lab_said(lab, leader, replica, PEER_SLOT, NULL), 2);
        assert_int_equal(lab_said(lab, leader, replica, PEER_WATERMARK, &said), 1);
        assert_int_equal(said.vnode.seq, table_vnode_seq(table, vnode));
        assert_int_equal(claims(lab, replica, vnode), said.vnode.seq);
    }
}

/* A CHANGE is of the plane of `one`: none of the other one is believed. */
static void a_change_in_the_plane_of_quorum_is_malformed(void **state)
{
    struct lab *lab = *state;
    const struct peer_written written = {.vnode = LAB_VNODES, .term = {1, 1, 0}, .sync = 1};
    const uint8_t bytes[1] = {0};
    const uint64_t before = lab_stats(lab, 0).bad_frames;
    peer_put_stream(&lab->records, 1, 1, lab->shards[0].options.boot);
    (void)peer_put_change(&lab->records, &written, (struct hash128){1, 2}, bytes, sizeof bytes);
    lab_speak(lab, 1, 0);
    assert_int_equal(lab_stats(lab, 0).bad_frames, before + 1);
    assert_int_equal(lab->shards[0].shard->vnode_end, LAB_VNODES);
}

/* What was lost on the way is sent again: after the leader's death its successor knows it. */
static void a_lost_frame_costs_work_and_no_count(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    lab->drop_type = PEER_SLOT;
    assert_true(lab_check(lab, leader, KEY, &limit, 3).allowed);
    lab_run(lab, 20 * LAB_MS);
    lab->drop_type = 0;
    lab_run(lab, 1000 * LAB_MS);
    assert_true(lab_stats(lab, leader).resyncs >= 1);
    lab_stop(lab, leader);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lab_used(lab, lab_replica(lab, vnode, 1), KEY, &limit), 3);
}

/* While nobody confirms, answers say so; they stop saying so when a majority holds the state. */
static void answers_are_degraded_until_a_majority_confirms(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    assert_false(lab_check(lab, leader, KEY, &limit, 1).degraded);
    lab_stop(lab, lab_replica(lab, vnode, 1));
    lab_stop(lab, lab_replica(lab, vnode, 2));
    lab_run(lab, 300 * LAB_MS);
    const struct wire_decision alone = lab_check(lab, leader, KEY, &limit, 1);
    assert_true(alone.allowed && alone.degraded);
    lab_start(lab, lab_replica(lab, vnode, 1));
    lab_run(lab, 1500 * LAB_MS);
    assert_false(lab_check(lab, leader, KEY, &limit, 1).degraded);
}

/* ---- a ghost decides ------------------------------------------------------------------------- */

enum { GHOST = 1, REPLICA = 0, VNODE = 3, STATE_MAX = 256 };

/* The bytes of a key of which `used` are used. */
static size_t state_of(const struct lab *lab, uint64_t used, uint8_t state[STATE_MAX])
{
    const struct hash128 id = {1, 1};
    const struct limit limit = lab_limit(100);
    struct limit_decision decision;
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 1), 0);
    engine_one(table, id, 0, &limit, used, OPERATION_CHECK, 0, lab->now_ns, &decision);
    const int len = table_export(table, table_lookup(table, id), state, STATE_MAX);
    table_free(&table);
    assert_true(len > 0);
    return (size_t)len;
}

static struct peer_vnode ghost_entry(const struct lab *lab, uint64_t seq, uint32_t sync)
{
    const struct term term = {.epoch = 1, .number = 5, .writer = lab->shards[GHOST].node};
    return (struct peer_vnode){.vnode = VNODE,
                               .role = ROLE_LEADING,
                               .term = term,
                               .state = term,
                               .seq = seq,
                               .sync = sync};
}

/* The ghost sends a frame of its stream: some of two keys, and a mark. */
static void ghost_sends(struct lab *lab, uint64_t frame, uint32_t sync, bool copy, uint32_t keys)
{
    uint8_t state[STATE_MAX];
    const size_t len = state_of(lab, frame, state);
    const struct peer_vnode mark = ghost_entry(lab, frame, sync);
    peer_put_stream(&lab->records, 1, frame, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &mark.term, sync, copy, true);
    for (uint64_t key = 0; key < 2; key++)
        if ((keys & 1u << key) != 0)
            peer_put_slot(&lab->records, VNODE, (struct hash128){key, key}, state, (uint32_t)len);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, REPLICA);
}

static bool holds(const struct lab *lab, uint64_t key)
{
    uint8_t state[STATE_MAX];
    return probe_slot(lab->shards[REPLICA].shard, (struct hash128){key, key}, state, sizeof state) >
           0;
}

static struct lab *lab_of_a_ghost(void)
{
    struct lab *lab = lab_new(2, 1, 2);
    lab_start(lab, REPLICA);
    const struct peer_vnode opened = ghost_entry(lab, 1, 0);
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, GHOST, REPLICA);
    assert_int_equal(lab_role(lab, REPLICA, VNODE), SHARD_REPLICA);
    return lab;
}

/* STREAMIN-1: what a complete copy does not have is gone; what a mark does not mention stays. */
static void a_complete_copy_leaves_nothing_over(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    assert_true(holds(lab, 0) && holds(lab, 1));
    ghost_sends(lab, 2, 2, false, 1);
    assert_true(holds(lab, 0) && holds(lab, 1));
    ghost_sends(lab, 3, 3, true, 1);
    lab_run(lab, 20 * LAB_MS);
    assert_true(holds(lab, 0));
    assert_false(holds(lab, 1));
    lab_free(lab);
}

/* STREAM-4: a copy that is not seen from its beginning is not whole: it is refused, and nothing
 * goes. */
static void a_copy_without_its_beginning_is_refused(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct peer_vnode second = ghost_entry(lab, 2, 2);
    struct peer_record lack;
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    lab_forget(lab);
    peer_put_stream(&lab->records, 1, 2, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &second.term, second.sync, true, false);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &second);
    lab_speak(lab, GHOST, REPLICA);
    lab_run(lab, 20 * LAB_MS);
    assert_true(lab_said(lab, REPLICA, GHOST, PEER_LACK, &lack) >= 1);
    assert_int_equal(lack.vnode.sync, 2);
    assert_true(holds(lab, 0) && holds(lab, 1));
    lab_free(lab);
}

/* After the ghost has opened a higher term, what it sends of the earlier one under `sync` does not
 * touch what is held. */
static void assert_earlier_term_is_ignored(uint32_t sync)
{
    struct lab *lab = lab_of_a_ghost();
    struct peer_vnode opened = ghost_entry(lab, 1, 0);
    uint8_t before[STATE_MAX];
    uint8_t after[STATE_MAX];
    const struct hash128 id = {1, 1};
    ghost_sends(lab, 1, 1, true, 3);
    const int len = probe_slot(lab->shards[REPLICA].shard, id, before, sizeof before);
    assert_true(len > 0);
    opened.term.number = 6;
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, GHOST, REPLICA);
    ghost_sends(lab, 2, sync, true, 3);
    assert_int_equal(probe_slot(lab->shards[REPLICA].shard, id, after, sizeof after), len);
    assert_memory_equal(after, before, (size_t)len);
    lab_free(lab);
}

/* RECONCILE-1: what comes late of a leader's earlier term does not touch what is held. */
static void a_slot_of_an_earlier_term_is_not_taken(void **state)
{
    (void)state;
    assert_earlier_term_is_ignored(1);
}

/* RECONCILE-1, of a copy that began late: its sync is newer than that of the copy held. */
static void a_copy_of_an_earlier_term_is_not_begun(void **state)
{
    (void)state;
    assert_earlier_term_is_ignored(2);
}

/* The ghost sends a mark alone, of the term with that number. */
static void ghost_marks(struct lab *lab, uint64_t frame, uint64_t number, uint64_t seq)
{
    const struct peer_vnode follows = ghost_entry(lab, seq, 1);
    struct peer_vnode mark = follows;
    mark.state.number = number;
    peer_put_stream(&lab->records, 1, frame, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &follows.term, 1, false, false);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, REPLICA);
}

/* The ghost sends a whole copy, of no keys, and its mark, of the term with that number. */
static void ghost_copies(struct lab *lab, uint64_t frame, uint64_t number, uint64_t seq)
{
    struct peer_vnode mark = ghost_entry(lab, seq, (uint32_t)frame);
    peer_put_stream(&lab->records, 1, frame, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &mark.term, mark.sync, true, true);
    mark.state.number = number;
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, REPLICA);
}

static void assert_claims(const struct lab *lab, uint64_t number, uint64_t seq)
{
    struct probe_vnode held;
    probe_vnode(lab->shards[REPLICA].shard, VNODE, &held);
    assert_int_equal(held.state.number, number);
    assert_int_equal(held.seq, seq);
}

/* SHARD-4: what is held was written in the term that is followed, so no mark of another is true of
 * it.
 */
static void a_mark_of_another_term_is_not_taken(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    assert_claims(lab, 5, 1);
    ghost_marks(lab, 2, 4, 9);
    assert_claims(lab, 5, 1);
    ghost_marks(lab, 3, 6, 9);
    assert_claims(lab, 5, 1);
    ghost_marks(lab, 4, 5, 9);
    assert_claims(lab, 5, 9);
    lab_free(lab);
}

/* A mark that is repeated may come behind newer ones of the other channel: a replica that went back
 * to it would claim less than it holds, and lose against one that holds less. */
static void a_mark_that_goes_back_is_not_taken(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    ghost_marks(lab, 2, 5, 9);
    ghost_marks(lab, 3, 5, 7);
    assert_claims(lab, 5, 9);
    lab_free(lab);
}

/* A stream that goes on from what an earlier process of this node had taken is not looked at. */
static void a_frame_for_an_earlier_process_is_not_taken(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    lab->shards[REPLICA].options.boot--;
    ghost_sends(lab, 1, 1, true, 3);
    lab->shards[REPLICA].options.boot++;
    assert_false(holds(lab, 0));
    assert_claims(lab, 0, 0);
    ghost_sends(lab, 1, 1, true, 3);
    assert_true(holds(lab, 0));
    assert_claims(lab, 5, 1);
    lab_free(lab);
}

/* RECONCILE-1: of a copy whose beginning was not seen no slot is taken either: no mark of it will
 * say whose they are. */
static void no_slot_of_a_copy_without_its_beginning_is_taken(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct peer_vnode second = ghost_entry(lab, 2, 2);
    uint8_t bytes[STATE_MAX];
    const size_t len = state_of(lab, 1, bytes);
    (void)state;
    ghost_sends(lab, 1, 1, true, 1);
    peer_put_stream(&lab->records, 1, 2, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &second.term, second.sync, true, false);
    peer_put_slot(&lab->records, VNODE, (struct hash128){1, 1}, bytes, (uint32_t)len);
    lab_speak(lab, GHOST, REPLICA);
    assert_true(holds(lab, 0));
    assert_false(holds(lab, 1));
    lab_free(lab);
}

/* Who took slots and not yet their mark holds more than it claims, and says so when it is asked. */
static void slots_before_their_mark_are_beyond_the_claim(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct vnode *vnode = &lab->shards[REPLICA].shard->vnodes[VNODE];
    const struct peer_vnode entry = ghost_entry(lab, 2, 1);
    uint8_t bytes[STATE_MAX];
    const size_t len = state_of(lab, 1, bytes);
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    assert_false(vnode->holds_newer);
    peer_put_stream(&lab->records, 1, 2, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &entry.term, 1, false, false);
    peer_put_slot(&lab->records, VNODE, (struct hash128){1, 1}, bytes, (uint32_t)len);
    lab_speak(lab, GHOST, REPLICA);
    assert_true(vnode->holds_newer);
    ghost_marks(lab, 3, 5, 2);
    assert_false(vnode->holds_newer);
    lab_free(lab);
}

/* What a peer that is not followed sends of the same term does not break the copy off that arrives.
 */
static void a_stranger_does_not_break_a_copy_off(void **state)
{
    struct lab *lab = lab_new(3, 1, 3);
    const struct peer_vnode opened = ghost_entry(lab, 1, 1);
    (void)state;
    lab_start(lab, REPLICA);
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, GHOST, REPLICA);
    ghost_sends(lab, 1, 1, true, 3);
    peer_put_stream(&lab->records, 1, 1, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &opened.term, 7, true, true);
    lab_speak(lab, 2, REPLICA);
    ghost_marks(lab, 2, 5, 9);
    assert_claims(lab, 5, 9);
    lab_free(lab);
}

/* STREAMIN-1: after a copy that was broken off among old slots, the replica asks for another
 * one. */
static void a_copy_that_may_have_left_something_over_is_asked_for_again(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct peer_vnode second = ghost_entry(lab, 2, 2);
    struct peer_record lack;
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    peer_put_stream(&lab->records, 1, 2, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &second.term, second.sync, true, true);
    lab_speak(lab, GHOST, REPLICA);
    lab_run(lab, 20 * LAB_MS);
    lab_forget(lab);
    ghost_sends(lab, 3, 3, true, 1);
    for (uint32_t i = 0; i < 7; i++) {
        const struct peer_ping ping = {.sent_ns = lab->now_ns};
        lab_run(lab, 20 * LAB_MS);
        peer_put_ping(&lab->records, &ping);
        lab_speak(lab, GHOST, REPLICA);
    }
    assert_int_equal(lab_said(lab, REPLICA, GHOST, PEER_LACK, &lack), 1);
    assert_int_equal(lack.vnode.sync, 3);
    lab_free(lab);
}

/* STREAM-4: a slot that finds no room is not held, whatever plane: no mark of it is taken. */
static void a_slot_without_room_is_not_held(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    struct shard *shard = lab->shards[REPLICA].shard;
    uint8_t bytes[STATE_MAX];
    const size_t len = state_of(lab, 1, bytes);
    struct probe_vnode held;
    int rc = 0;
    (void)state;
    lab->large = true;
    for (uint64_t i = 0; rc == 0; i++) { /* all that is in memory is being written */
        const struct hash128 id = {(i + 1) * 0x9e3779b97f4a7c15u, i};
        rc = table_import(shard->table, VNODE + 1, id, bytes, len, lab->now_ns, 0);
        if (rc == 0)
            table_write_begin(shard->table, table_lookup(shard->table, id));
    }
    assert_int_equal(rc, TG_EFULL);
    const uint64_t refused = lab_stats(lab, REPLICA).refused;
    ghost_sends(lab, 1, 1, true, 3);
    assert_true(lab_stats(lab, REPLICA).refused > refused);
    assert_false(holds(lab, 0));
    probe_vnode(shard, VNODE, &held);
    assert_int_equal(held.seq, 0);
    lab_tick(lab, REPLICA);
    assert_int_equal(lab_said(lab, REPLICA, GHOST, PEER_LACK, NULL), 0); /* STREAMIN-3 */
    lab->now_ns += 1001 * LAB_MS;
    ghost_sends(lab, 2, 1, true, 3);
    lab_tick(lab, REPLICA);
    assert_false(holds(lab, 0));
    lab_free(lab);
}

/* Keys of vnodes that the shard does not decide: more than one turn sweeps over. */
static void fill_beside(struct lab *lab, uint32_t at, uint32_t other)
{
    struct table *table = lab->shards[at].shard->table;
    uint8_t bytes[STATE_MAX];
    const size_t len = state_of(lab, 1, bytes);
    for (uint64_t i = 0; i < 300000; i++) {
        const struct hash128 id = {(i + 1) * 0x9e3779b97f4a7c15u, i};
        assert_int_equal(table_import(table, other, id, bytes, len, lab->now_ns, 0), 0);
    }
}

/* A replica that is slow, of a vnode that has the same place, is given room all the time: the sweep
 * for what was put off never comes to its end. The marks of others do not wait for it. */
static void a_slow_replica_holds_up_no_mark_of_others(void **state)
{
    struct lab *lab = lab_new(3, 1, 3);
    const struct limit limit = lab_limit(10);
    (void)state;
    lab->large = true;
    for (uint32_t at = 0; at < 3; at++)
        lab->shards[at].options.memory_bytes = 16 << 20;
    lab_start_all(lab);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t other = lab_vnode_owned(lab, lab_replica(lab, vnode, 1));
    struct table *table = lab->shards[leader].shard->table;
    fill_beside(lab, leader, other);
    lab_run(lab, 50 * LAB_MS);
    lab_forget(lab);
    for (uint32_t ms = 0; ms < 20; ms++) {
        for (unsigned target = TABLE_REPLICA_1; target < TABLE_REPLICA_1 + 2; target++)
            table_resume_vnode(table, other, target);
        if (ms == 5) {
            lab_ask(lab, &limit, KEY, OPERATION_CHECK, 3);
            (void)lab_send(lab, leader, 1000);
        }
        lab_run(lab, LAB_MS);
        assert_false(table_target_idle(table, TABLE_REPLICA_1));
    }
    assert_true(lab_said(lab, leader, lab_replica(lab, vnode, 1), PEER_WATERMARK, NULL) > 0);
    assert_true(lab_said(lab, leader, lab_replica(lab, vnode, 2), PEER_WATERMARK, NULL) > 0);
    shard_check_invariants(lab->shards[leader].shard);
    lab_free(lab);
}

/* Lets the ghost be heard for a while. */
static void ghost_lives(struct lab *lab, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        const struct peer_ping ping = {.sent_ns = lab->now_ns};
        lab_run(lab, 20 * LAB_MS);
        peer_put_ping(&lab->records, &ping);
        lab_speak(lab, GHOST, REPLICA);
    }
}

/* STREAMIN-1: so it does if it had given its leader up for a moment before it could ask. */
static void what_a_copy_left_over_is_known_after_a_moment_without_a_decider(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct peer_vnode second = ghost_entry(lab, 2, 2);
    const struct peer_vnode report = ghost_entry(lab, 3, 0);
    struct peer_record lack;
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    peer_put_stream(&lab->records, 1, 2, lab->shards[REPLICA].options.boot);
    peer_put_term(&lab->records, VNODE, &second.term, second.sync, true, true);
    lab_speak(lab, GHOST, REPLICA);
    ghost_sends(lab, 3, 3, true, 1);
    assert_true(lab->shards[REPLICA].shard->vnodes[VNODE].has_stale_slots);
    vnodes_recover(lab->shards[REPLICA].shard, VNODE, false, &lab->effects);
    lab_perform(lab, REPLICA);
    peer_put_vnode(&lab->records, PEER_REPORT, &report);
    lab_speak(lab, GHOST, REPLICA);
    assert_int_equal(lab_role(lab, REPLICA, VNODE), SHARD_REPLICA);
    lab_forget(lab);
    ghost_lives(lab, 7);
    assert_true(lab_said(lab, REPLICA, GHOST, PEER_LACK, &lack) >= 1);
    assert_int_equal(lack.vnode.sync, 3);
    lab_free(lab);
}

/* Who asked for a state and did not open a term with it, because the leader was back, is not
 * streamed what it gets from that leader. */
static void a_state_is_pulled_from_nobody_who_follows_a_decider(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t source = lab_replica(lab, vnode, 1);
    const uint32_t snapshot_to = lab_replica(lab, vnode, 2);
    const struct peer_vnode asks = {.vnode = vnode, .role = ROLE_RECOVERING};
    (void)lab_check(lab, leader, KEY, &limit, 1);
    lab_run(lab, 50 * LAB_MS);
    peer_put_vnode(&lab->records, PEER_PULL, &asks);
    lab_speak(lab, snapshot_to, source);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab->shards[source].shard->vnodes[vnode].snapshot_to,
                     peers_find(lab->shards[source].shard, lab->shards[snapshot_to].node, 0));
    (void)lab_check(lab, leader, KEY, &limit, 1);
    lab_run(lab, 50 * LAB_MS);
    lab_forget(lab);
    for (uint32_t i = 0; i < 5; i++) {
        (void)lab_check(lab, leader, KEY, &limit, 1);
        lab_run(lab, 50 * LAB_MS);
    }
    assert_int_equal(lab_said(lab, source, snapshot_to, PEER_SLOT, NULL), 0);
    assert_int_equal(table_targets(lab->shards[source].shard->table, vnode),
                     TABLE_TARGET_BIT(TABLE_DISK));
}

/* One who asks again for a state that is on its way does not have it sent anew; when all of it was
 * acknowledged, and was of no use, it does. */
static void a_repeated_pull_begins_anew_what_came_to_its_end(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t source = lab_replica(lab, vnode, 1);
    const uint32_t snapshot_to = lab_replica(lab, vnode, 2);
    const struct peer_vnode asks = {.vnode = vnode, .role = ROLE_RECOVERING};
    (void)lab_check(lab, lab_replica(lab, vnode, 0), KEY, &limit, 1);
    lab_run(lab, 50 * LAB_MS);
    const struct replica_link *link = &lab->shards[source].shard->vnodes[vnode].links[0];
    uint32_t syncs[3];
    for (uint32_t i = 0; i < 3; i++) {
        lab_run(lab, i == 2 ? 20 * LAB_MS : 0);
        peer_put_vnode(&lab->records, PEER_PULL, &asks);
        lab_speak(lab, snapshot_to, source);
        syncs[i] = link->sync;
    }
    assert_int_equal(syncs[1], syncs[0]);
    assert_true(syncs[2] != syncs[0]);
}

/* STREAM-6: a replica was not heard for a while, and the WATERMARK that it is to confirm is out.
 * Meanwhile something changes, is put off, and is gone again before it may be sent: the replica is
 * told that it lacks nothing all the same. */
static void what_was_put_off_and_vanished_is_marked(void **state)
{
    struct lab *lab = *state;
    struct limit brief = lab_limit(10);
    brief.window_ns = 40 * LAB_MS;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t replica = lab_replica(lab, vnode, 2);
    struct peer_record newest;
    lab->cut[replica][leader] = true;
    lab_run(lab, 300 * LAB_MS);
    lab->drop_type = PEER_HELD;
    lab->cut[replica][leader] = false;
    lab_run(lab, 20 * LAB_MS);
    assert_true(lab_check(lab, leader, KEY, &brief, 1).allowed);
    lab_run(lab, 120 * LAB_MS);
    lab->drop_type = 0;
    assert_true(lab_said(lab, leader, replica, PEER_STREAM, &newest) >= 1);
    peer_put_ack(&lab->records, newest.stream.stream, newest.stream.seq, false, true);
    lab_speak(lab, replica, leader);
    lab_run(lab, 1000 * LAB_MS);
    struct probe_vnode decided;
    struct probe_vnode held;
    probe_vnode(lab->shards[leader].shard, vnode, &decided);
    probe_vnode(lab->shards[replica].shard, vnode, &held);
    assert_int_equal(held.seq, decided.seq);
}

/* STREAM-6: the same, while all is well: what changed is as good as new again before it is sent. */
static void what_vanished_before_it_was_sent_is_marked(void **state)
{
    struct lab *lab = *state;
    struct limit brief = lab_limit(1000);
    brief.window_ns = LAB_MS;
    brief.algorithm = ALGORITHM_TOKEN_BUCKET;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint64_t sent = lab_stats(lab, leader).slots_replicated;
    lab_run(lab, 100 * LAB_MS);
    struct shard *shard = lab->shards[leader].shard;
    assert_true(lab_check(lab, leader, KEY, &brief, 1).allowed);
    lab->now_ns += LAB_MS; /* the sweep of what has expired comes by first */
    while (table_lookup(shard->table, lab_slot_of(lab, KEY, brief.algorithm)) != TABLE_NONE)
        (void)table_step(shard->table, lab->now_ns);
    lab_run(lab, 100 * LAB_MS);
    assert_int_equal(lab_stats(lab, leader).slots_replicated, sent);
    struct probe_vnode decided;
    struct probe_vnode held;
    probe_vnode(shard, vnode, &decided);
    assert_true(decided.synced);
    for (uint32_t rank = 1; rank < 3; rank++) {
        probe_vnode(lab->shards[lab_replica(lab, vnode, rank)].shard, vnode, &held);
        assert_int_equal(held.seq, decided.seq);
    }
}

static bool pulls(const struct lab *lab, uint32_t at, uint32_t vnode)
{
    return lab->shards[at].shard->vnodes[vnode].catching_up;
}

/* The place from which a state is sent that somebody pulls belongs to another replica. When the
 * ring gives that place away meanwhile, the copy is begun anew: nothing opens on a part of it. */
static void a_state_that_is_pulled_is_whole_though_the_ring_changes(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t dead = lab_replica(lab, vnode, 0);
    const uint32_t snapshot_to = lab_replica(lab, vnode, 1);
    const uint32_t source = lab_replica(lab, vnode, 2);
    lab->shards[source].shard->sync = 0x90000000u; /* so that its next copy counts as a later one */
    lab_stop(lab, snapshot_to);
    lab_run(lab, 200 * LAB_MS);
    (void)lab_check(lab, dead, KEY, &limit, 70);
    lab_run(lab, 100 * LAB_MS);
    lab->large = true;
    limit_fill(lab->shards[source].shard->table, lab_slot_of(lab, KEY, limit.algorithm),
               lab_vnode_of(lab, KEY), 30000, lab->now_ns);
    lab_stop(lab, dead);
    lab_start(lab, snapshot_to);
    lab->drop_type = PEER_SLOT;
    for (uint32_t i = 0; i < 3000 && !pulls(lab, snapshot_to, vnode); i++)
        lab_run(lab, LAB_MS);
    assert_true(pulls(lab, snapshot_to, vnode));
    lab_run(lab, 20 * LAB_MS);
    const uint64_t voter = lab->shards[source].node;
    assert_int_equal(ring_config_set_voters(lab->config_next, lab->config, &voter, 1), 0);
    lab_adopt(lab);
    assert_int_equal(ring_config_remove(lab->config_next, lab->config, lab->shards[dead].node), 0);
    lab_adopt(lab);
    lab_view(lab, source);
    lab_run(lab, LAB_MS);
    assert_int_equal(ring_config_settle(lab->config_next, lab->config), 0);
    lab_adopt(lab);
    lab_view(lab, source);
    lab_run(lab, 20 * LAB_MS);
    lab->drop_type = 0;
    lab_view_all(lab);
    lab_run(lab, 2000 * LAB_MS);
    assert_int_equal(lab_used(lab, snapshot_to, KEY, &limit), 70);
}

/* Who has given its leader up, and waits for another's report, refuses what that one sends, in
 * words: a leader that stood still must not count as held what nobody took. */
static void a_mark_of_a_decider_that_was_given_up_is_refused_in_words(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t replica = lab_replica(lab, vnode, 1);
    const uint32_t slow = lab_replica(lab, vnode, 2);
    (void)lab_check(lab, leader, KEY, &limit, 1);
    lab_run(lab, 50 * LAB_MS);
    struct shard *still = lab->shards[leader].shard;
    lab->shards[leader].shard = NULL;
    lab->drop_type = PEER_REPORT;
    for (uint32_t i = 0; i < 300 && lab_role(lab, replica, vnode) != SHARD_RECOVERING; i++)
        lab_run(lab, LAB_MS);
    lab->shards[leader].shard = still;
    lab->cut[leader][slow] = lab->cut[slow][leader] = true;
    assert_int_equal(lab_role(lab, replica, vnode), SHARD_RECOVERING);
    lab_run(lab, 30 * LAB_MS);
    lab_ask(lab, &limit, KEY, OPERATION_CHECK, 50);
    (void)lab_send(lab, leader, 1000);
    lab_run(lab, 200 * LAB_MS);
    if (lab_role(lab, replica, vnode) == SHARD_RECOVERING)
        assert_true(lab_stats(lab, leader).over_tokens >= 50 ||
                    lab_stats(lab, leader).vnodes_cut_off > 0);
    assert_true(lab_said(lab, replica, leader, PEER_LACK, NULL) > 0);
    lab->drop_type = 0;
}

/* VNODES-1: a state of a term that nobody here has heard of is not pulled: the term that is opened
 * on it would lie below. One of the term that is known is. */
static void a_state_of_an_unknown_term_is_not_pulled(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    struct shard *shard = lab->shards[REPLICA].shard;
    struct vnode *vnode = &shard->vnodes[VNODE];
    const struct peer_vnode best = ghost_entry(lab, 9, 0);
    (void)state;
    ghost_sends(lab, 1, 1, true, 3);
    vnodes_recover(shard, VNODE, false, &lab->effects);
    lab_perform(lab, REPLICA);
    vnode->catching_up = true;
    vnode->best = peers_find(shard, lab->shards[GHOST].node, 0);
    vnode->best_state = best.state;
    vnode->best_seq = best.seq;
    ghost_copies(lab, 2, 6, 9);
    assert_true(lab_role(lab, REPLICA, VNODE) == SHARD_RECOVERING && vnode->catching_up);
    assert_claims(lab, 5, 1);
    ghost_copies(lab, 3, 5, 9);
    assert_false(vnode->catching_up);
    assert_claims(lab, 5, 9);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(a_change_is_sent_to_both_replicas_and_marked),
        LAB_TEST_THREE(a_replica_is_told_of_changes_in_records_that_it_knows),
        LAB_TEST_THREE(a_mark_stands_behind_all_slots_of_its_vnode),
        LAB_TEST_THREE(a_change_in_the_plane_of_quorum_is_malformed),
        LAB_TEST_THREE(a_lost_frame_costs_work_and_no_count),
        LAB_TEST_THREE(answers_are_degraded_until_a_majority_confirms),
        LAB_TEST_THREE(what_was_put_off_and_vanished_is_marked),
        LAB_TEST_THREE(what_vanished_before_it_was_sent_is_marked),
        LAB_TEST_THREE(a_state_is_pulled_from_nobody_who_follows_a_decider),
        LAB_TEST_THREE(a_repeated_pull_begins_anew_what_came_to_its_end),
        cmocka_unit_test(a_slow_replica_holds_up_no_mark_of_others),
        cmocka_unit_test(a_slot_without_room_is_not_held),
        cmocka_unit_test(what_a_copy_left_over_is_known_after_a_moment_without_a_decider),
        LAB_TEST_THREE(a_state_that_is_pulled_is_whole_though_the_ring_changes),
        LAB_TEST_THREE(a_mark_of_a_decider_that_was_given_up_is_refused_in_words),
        cmocka_unit_test(a_complete_copy_leaves_nothing_over),
        cmocka_unit_test(a_copy_without_its_beginning_is_refused),
        cmocka_unit_test(a_slot_of_an_earlier_term_is_not_taken),
        cmocka_unit_test(a_copy_of_an_earlier_term_is_not_begun),
        cmocka_unit_test(a_mark_of_another_term_is_not_taken),
        cmocka_unit_test(a_state_of_an_unknown_term_is_not_pulled),
        cmocka_unit_test(a_mark_that_goes_back_is_not_taken),
        cmocka_unit_test(a_frame_for_an_earlier_process_is_not_taken),
        cmocka_unit_test(no_slot_of_a_copy_without_its_beginning_is_taken),
        cmocka_unit_test(slots_before_their_mark_are_beyond_the_claim),
        cmocka_unit_test(a_stranger_does_not_break_a_copy_off),
        cmocka_unit_test(a_copy_that_may_have_left_something_over_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
