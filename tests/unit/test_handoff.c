/* test_handoff.c - complete copies: their channel, their rate, and what a break makes void. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "node/cluster/shard/test_probe.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_disk.h"
#include "tests/unit/support_limit.h"
#include "tests/unit/support_shard.h"

enum { KEYS = 3000, BATCH = 500, SLOW_RATE = 64 << 10, RATE_BURST = 40 << 10 };

static const char KEY[] = "counted";

/* Records of one type from `from` to `to`, and bytes of the frames that hold them, of one channel.
 */
struct said {
    uint32_t records;
    uint64_t bytes;
};

static struct said said_on(const struct lab *lab, uint32_t from, uint32_t to, unsigned type,
                           bool bulk)
{
    struct said said = {.records = 0};
    for (size_t i = 0; i < lab->frame_count; i++) {
        const struct lab_frame *frame = &lab->frames[i];
        struct peer_envelope envelope;
        struct bytes_reader reader;
        struct peer_record record;
        if (frame->from != from || frame->to != to)
            continue;
        assert_int_equal(peer_decode(frame->bytes, frame->len, &envelope), 0);
        if (envelope.bulk != bulk)
            continue;
        bytes_reader_init(&reader, envelope.records, envelope.len);
        const uint32_t before = said.records;
        while (peer_next(&reader, 2 * LAB_VNODES, &record) > 0)
            said.records += peer_says(&record, (enum peer_record_type)type);
        said.bytes += said.records > before ? frame->len : 0;
    }
    return said;
}

/* Uses one of each of KEYS keys. */
static void use_keys(struct lab *lab)
{
    const struct limit limit = lab_limit(10);
    for (uint32_t first = 0; first < KEYS; first += BATCH) {
        for (uint32_t i = first; i < first + BATCH; i++) {
            char key[LAB_KEY_LEN];
            (void)snprintf(key, sizeof key, "key-%u", i);
            lab_ask(lab, &limit, key, OPERATION_CHECK, 1);
        }
        (void)lab_answer(lab, lab_send(lab, 0, 5000), 0);
    }
    lab_run(lab, 50 * LAB_MS);
    lab_forget(lab);
}

static struct lab *pair(uint64_t rate)
{
    struct lab *lab = lab_new(2, 1, 2);
    lab->large = true;
    for (uint32_t at = 0; at < 2; at++)
        lab->shards[at].options.handoff_rate = rate;
    lab_start_all(lab);
    use_keys(lab);
    return lab;
}

static uint64_t copied(const struct lab *lab)
{
    return lab_stats(lab, 0).slots_copied;
}

/* A replica that lost everything is sent it on the channel of copies; a change after that is live.
 */
static void a_copy_is_bulk_and_a_change_is_live(void **state)
{
    struct lab *lab = lab_new(2, 1, 2);
    const struct limit limit = lab_limit(10);
    (void)state;
    lab_start_all(lab);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t replica = lab_replica(lab, vnode, 1);
    assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
    lab_stop(lab, replica);
    lab_run(lab, 300 * LAB_MS);
    lab_forget(lab);
    lab_start(lab, replica);
    lab_settle(lab);
    assert_int_equal(said_on(lab, leader, replica, PEER_SLOT, true).records, 1);
    assert_int_equal(said_on(lab, leader, replica, PEER_SLOT, false).records, 0);
    lab_forget(lab);
    assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(said_on(lab, leader, replica, PEER_SLOT, true).records, 0);
    assert_int_equal(said_on(lab, leader, replica, PEER_SLOT, false).records, 1);
    assert_true(said_on(lab, leader, replica, PEER_PING, false).records > 0);
    assert_int_equal(said_on(lab, leader, replica, PEER_PING, true).records, 0);
    lab_free(lab);
}

/* STREAM-9: between the mark of a copy and HELD nothing of the vnode is sent; then what waited goes
 * live.
 */
static void changes_wait_from_the_mark_until_it_is_held(void **state)
{
    struct lab *lab = lab_new(2, 1, 2);
    const struct limit limit = lab_limit(10);
    (void)state;
    lab_start_all(lab);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t replica = lab_replica(lab, vnode, 1);
    lab_stop(lab, replica);
    lab_run(lab, 300 * LAB_MS);
    lab->drop_type = PEER_HELD;
    lab_start(lab, replica);
    lab_run(lab, 700 * LAB_MS);
    lab_forget(lab);
    while (said_on(lab, leader, replica, PEER_WATERMARK, true).records < LAB_VNODES / 4)
        lab_run(lab, LAB_MS);
    lab_forget(lab);
    assert_true(lab_check(lab, leader, KEY, &limit, 4).allowed);
    lab_run(lab, 100 * LAB_MS); /* the copy begins anew after 250 ms */
    assert_int_equal(lab_said(lab, leader, replica, PEER_SLOT, NULL), 0);
    lab->drop_type = 0;
    lab_settle(lab);
    assert_true(lab_said(lab, leader, replica, PEER_SLOT, NULL) > 0);
    lab_stop(lab, leader);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lab_used(lab, replica, KEY, &limit), 4);
    lab_free(lab);
}

/* Says the slot to `replica` as of copy `sync`, in a new stream of the leader's. */
static void say_slot(struct lab *lab, uint32_t leader, uint32_t replica, uint32_t sync,
                     const uint8_t *slot, uint32_t len)
{
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    struct term term;
    (void)shard_vnode(lab->shards[leader].shard, vnode, &term);
    peer_put_stream(&lab->records, UINT64_MAX / 2 + lab->view_version++, 1,
                    lab->shards[replica].options.boot);
    peer_put_term(&lab->records, vnode, &term, sync, false, true);
    peer_put_slot(&lab->records, vnode, lab_slot_of(lab, KEY, ALGORITHM_FIXED_WINDOW), slot, len);
    lab_speak(lab, leader, replica);
}

/* STREAM-11: what comes late of an older copy is older than what the replica holds, and is
 * ignored. */
static void a_late_slot_of_an_older_copy_changes_nothing(void **state)
{
    struct lab *lab = lab_new(2, 1, 2);
    const struct limit limit = lab_limit(10);
    uint8_t old[256];
    uint8_t newer[256];
    uint8_t held[256];
    struct peer_record mark;
    (void)state;
    lab_start_all(lab);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t replica = lab_replica(lab, vnode, 1);
    const struct hash128 id = lab_slot_of(lab, KEY, ALGORITHM_FIXED_WINDOW);
    assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
    lab_run(lab, 20 * LAB_MS);
    const int len = probe_slot(lab->shards[replica].shard, id, old, sizeof old);
    assert_true(len > 0);
    assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
    lab_forget(lab);
    lab_run(lab, 20 * LAB_MS);
    assert_true(lab_said(lab, leader, replica, PEER_WATERMARK, &mark) > 0);
    assert_int_equal(probe_slot(lab->shards[replica].shard, id, newer, sizeof newer), len);
    assert_memory_not_equal(old, newer, (size_t)len);
    say_slot(lab, leader, replica, mark.vnode.sync - 1, old, (uint32_t)len);
    assert_int_equal(probe_slot(lab->shards[replica].shard, id, held, sizeof held), len);
    assert_memory_equal(held, newer, (size_t)len);
    say_slot(lab, leader, replica, mark.vnode.sync, old, (uint32_t)len); /* but not of this one */
    assert_int_equal(probe_slot(lab->shards[replica].shard, id, held, sizeof held), len);
    assert_memory_equal(held, old, (size_t)len);
    lab_free(lab);
}

/* Copies keep to their rate whatever there is to send; progress is told, and ends at zero. */
static void a_copy_keeps_to_its_rate(void **state)
{
    struct lab *lab = pair(SLOW_RATE);
    (void)state;
    lab_stop(lab, 1);
    lab_run(lab, 300 * LAB_MS);
    const uint64_t before = copied(lab);
    lab_start(lab, 1);
    lab_run(lab, 300 * LAB_MS);
    lab_forget(lab);
    lab_run(lab, 1000 * LAB_MS);
    const struct said said = said_on(lab, 0, 1, PEER_SLOT, true);
    assert_in_range(said.bytes, SLOW_RATE / 2, SLOW_RATE + RATE_BURST);
    assert_true(lab_stats(lab, 0).handoff.give > 0 && lab_stats(lab, 1).handoff.receive > 0);
    assert_in_range(lab_stats(lab, 0).handoff.rate, SLOW_RATE / 2, SLOW_RATE * 2);
    lab_settle(lab);
    lab_run(lab, 100 * LAB_MS);
    assert_int_equal(copied(lab) - before,
                     lab_stats(lab, 0).slots - (KEYS - lab_stats(lab, 1).slots));
    for (uint32_t at = 0; at < 2; at++) {
        const struct shard_stats stats = lab_stats(lab, at);
        assert_int_equal(stats.handoff.give + stats.handoff.receive, 0);
        assert_int_equal(stats.handoff.left_ns, 0);
    }
    lab_free(lab);
}

/* A break in the middle of many copies makes void those that were not confirmed, and not more than
 * a pass of them is under way at a time. */
static void a_break_repeats_only_what_was_not_confirmed(void **state)
{
    struct lab *lab = pair(8 * SLOW_RATE);
    (void)state;
    lab_stop(lab, 1);
    lab_run(lab, 300 * LAB_MS);
    const uint64_t before = copied(lab);
    lab_start(lab, 1);
    while (copied(lab) - before < KEYS / 2)
        lab_run(lab, 10 * LAB_MS);
    lab->cut[0][1] = lab->cut[1][0] = true;
    lab_run(lab, 50 * LAB_MS); /* frames are lost; nobody is silent for long enough */
    lab->cut[0][1] = lab->cut[1][0] = false;
    lab_settle(lab);
    const uint64_t sent = copied(lab) - before;
    print_message("slots sent in copies: %llu of %u keys\n", (unsigned long long)sent, KEYS);
    assert_true(sent < KEYS + KEYS / 3); /* a pass is 512 slots and one vnode at most */
    lab_free(lab);
}

/* HANDOFF-3: a node that is being filled slowly comes first in rank when the leader dies, and pulls
 * the state from the one that fills it: that copy does not wait for the slow one. */
static void a_pull_does_not_wait_behind_a_slow_copy(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t dead = lab_replica(lab, vnode, 0);
    const uint32_t snapshot_to = lab_replica(lab, vnode, 1);
    const uint32_t source = lab_replica(lab, vnode, 2);
    lab->large = true;
    lab_stop(lab, snapshot_to);
    lab_run(lab, 200 * LAB_MS);
    (void)lab_check(lab, dead, KEY, &limit, 70);
    lab_run(lab, 100 * LAB_MS);
    limit_fill(lab->shards[source].shard->table, lab_slot_of(lab, KEY, limit.algorithm),
               lab_vnode_owned(lab, source), 20000, lab->now_ns);
    lab->shards[source].shard->options.handoff_rate = SLOW_RATE;
    lab->cut[dead][snapshot_to] = lab->cut[snapshot_to][dead] =
        true; /* nothing of the vnode comes from it */
    lab_start(lab, snapshot_to);
    lab_run(lab, 60 * LAB_MS);
    lab_stop(lab, dead);
    int64_t waited_ns = 0;
    for (; waited_ns < 15000 * LAB_MS && lab_role(lab, snapshot_to, vnode) != SHARD_LEADING &&
           lab_role(lab, source, vnode) != SHARD_LEADING;
         waited_ns += LAB_MS)
        lab_run(lab, LAB_MS);
    assert_true(waited_ns < 2000 * LAB_MS);
    assert_int_equal(lab_used(lab, source, KEY, &limit), 70);
}

/* The PULL with which a node asks for the best state is lost: it is asked again, long before
 * another source is looked for. */
static void a_pull_that_is_lost_is_repeated(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t dead = lab_replica(lab, vnode, 0);
    const uint32_t snapshot_to = lab_replica(lab, vnode, 1);
    const uint32_t source = lab_replica(lab, vnode, 2);
    lab_stop(lab, snapshot_to);
    lab_run(lab, 200 * LAB_MS);
    (void)lab_check(lab, dead, KEY, &limit, 70);
    lab_run(lab, 100 * LAB_MS);
    lab->cut[dead][snapshot_to] = lab->cut[snapshot_to][dead] =
        true; /* nothing of the vnode comes from it */
    lab_start(lab, snapshot_to);
    lab_stop(lab, dead);
    lab->drop_type = PEER_PULL;
    const struct vnode *asks = &lab->shards[snapshot_to].shard->vnodes[vnode];
    for (uint32_t i = 0; i < 5000 && !asks->catching_up; i++)
        lab_run(lab, LAB_MS);
    assert_true(asks->catching_up);
    lab_run(lab, 5 * LAB_MS);
    lab->drop_type = 0;
    for (uint32_t i = 0; i < 400 && asks->role != ROLE_LEADING; i++)
        lab_run(lab, LAB_MS);
    assert_int_equal(asks->role, ROLE_LEADING);
    assert_int_equal(lab_used(lab, source, KEY, &limit), 70);
}

/* ---- what becomes of a pass that something interrupts -----------------------------------------
 */

/* Two nodes, of which the second lost everything, a pass to it goes on slowly, and what the first
 * one counted is on its disk. */
static struct lab *pair_in_a_pass(struct pass **pass)
{
    struct lab *lab = lab_new(2, 1, 2);
    lab->large = true;
    disks_init(lab);
    disks_stop(lab, 1, true);
    lab_start_all(lab);
    use_keys(lab);
    disks_flush(lab, 0);
    lab_stop(lab, 1);
    lab_run(lab, 300 * LAB_MS);
    struct shard *shard = lab->shards[0].shard;
    shard->options.handoff_rate = SLOW_RATE;
    const uint64_t before = copied(lab);
    lab_start(lab, 1);
    *pass = &shard->peers[peers_find(shard, lab->shards[1].node, 0)]->pass;
    while (!(*pass)->running || copied(lab) - before < 50)
        lab_run(lab, LAB_MS);
    return lab;
}

/* The first slot from `from` on that the pass copies. */
static uint32_t slot_of_pass(const struct lab *lab, const struct pass *pass, uint32_t from)
{
    const struct table *table = lab->shards[0].shard->table;
    for (uint32_t slot = from; slot < table_slots_end(table); slot++)
        if (table_slot_used(table, slot) && pass->links[table_slot_vnode(table, slot)] != 0)
            return slot;
    fail();
    return TABLE_NONE;
}

/* HANDOFF-1: what leaves memory before its turn of a pass is fetched from disk, though there was
 * nothing to fetch when the copy began. */
static void a_slot_that_leaves_memory_in_a_pass_comes_from_disk(void **state)
{
    struct pass *pass;
    struct lab *lab = pair_in_a_pass(&pass);
    struct table *table = lab->shards[0].shard->table;
    uint8_t bytes[256];
    (void)state;
    const uint32_t slot = slot_of_pass(lab, pass, pass->at);
    const uint32_t vnode = table_slot_vnode(table, slot);
    const struct hash128 id = table_slot_id(table, slot);
    assert_true(disks_have(lab, 0, vnode, id));
    assert_int_equal(table_filter_fill_permille(table, vnode), 0);
    const struct replica_link *link =
        &lab->shards[0].shard->vnodes[vnode].links[pass->links[vnode] - 1];
    table_drop(table, slot);
    table_filter_add(table, vnode, id);
    assert_false(link->copy_due);
    while (link->phase == LINK_COPYING)
        lab_run(lab, LAB_MS);
    assert_true(link->copy_due);
    lab->shards[0].shard->options.handoff_rate = 1 << 30;
    lab_settle(lab);
    assert_true(probe_slot(lab->shards[1].shard, id, bytes, sizeof bytes) > 0);
    disks_fini(lab);
    lab_free(lab);
}

/* HANDOFF-2: a link that begins anew in the middle of a pass gets all of its copy from the next
 * one: the replica takes what it was sent before for no part of it. */
static void a_link_that_begins_anew_waits_for_the_next_pass(void **state)
{
    struct pass *pass;
    struct lab *lab = pair_in_a_pass(&pass);
    struct shard *shard = lab->shards[0].shard;
    (void)state;
    const uint32_t vnode = table_slot_vnode(shard->table, slot_of_pass(lab, pass, 0));
    const uint32_t count = table_count(shard->table, vnode);
    const uint32_t link = pass->links[vnode] - 1u;
    const uint8_t *phase = &shard->vnodes[vnode].links[link].phase;
    stream_restart_link(shard, vnode, link);
    const uint32_t at = pass->at;
    while (*phase == LINK_WAITING)
        lab_run(lab, LAB_MS);
    assert_int_equal(*phase, LINK_COPYING);
    assert_true(pass->at < at);
    shard->options.handoff_rate = 1 << 30;
    lab_settle(lab);
    lab_run(lab, 300 * LAB_MS); /* what a copy did not have is swept out */
    assert_int_equal(table_count(lab->shards[1].shard->table, vnode), count);
    disks_fini(lab);
    lab_free(lab);
}

/* HANDOFF-2: a place that the ring has given to another replica is no part of an old pass any more:
 * the end of that pass is not the end of the newcomer's copy. */
static void the_end_of_a_pass_ends_no_copy_of_another_peer(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = lab->shards[0].shard;
    const uint32_t vnode = lab_vnode_owned(lab, 0);
    const uint32_t link = 0;
    struct vnode *copied_vnode = &shard->vnodes[vnode];
    const uint16_t at = copied_vnode->links[link].peer;
    const uint16_t other = copied_vnode->links[1].peer;
    use_keys(lab);
    shard->options.handoff_rate = 1; /* the copy stands still */
    channel_charge(shard, 1000);
    stream_restart_link(shard, vnode, link);
    lab_run(lab, 2 * LAB_MS);
    assert_int_equal(copied_vnode->links[link].phase, LINK_COPYING);
    assert_true(shard->peers[at]->pass.running);
    struct pass *old = &shard->peers[other]->pass; /* it began when the place was its own */
    old->running = true;
    old->vnodes = 1;
    old->links[vnode] = (uint8_t)(link + 1);
    lab_run(lab, 2 * LAB_MS);
    assert_false(old->running);
    assert_int_equal(copied_vnode->links[link].phase, LINK_COPYING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_bulk_and_a_change_is_live),
        cmocka_unit_test(changes_wait_from_the_mark_until_it_is_held),
        cmocka_unit_test(a_late_slot_of_an_older_copy_changes_nothing),
        cmocka_unit_test(a_copy_keeps_to_its_rate),
        cmocka_unit_test(a_break_repeats_only_what_was_not_confirmed),
        LAB_TEST_THREE(a_pull_does_not_wait_behind_a_slow_copy),
        LAB_TEST_THREE(a_pull_that_is_lost_is_repeated),
        cmocka_unit_test(a_slot_that_leaves_memory_in_a_pass_comes_from_disk),
        cmocka_unit_test(a_link_that_begins_anew_waits_for_the_next_pass),
        LAB_TEST_THREE(the_end_of_a_pass_ends_no_copy_of_another_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
