/* test_writeback.c - dirty slots on their way to disk, and back after a restart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/cluster/election/election.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

enum { WRITES = 64, BYTES = 1 << 20 };

struct desk {
    struct lab *lab;
    struct shard_writes writes;
};

static int set_up(void **state)
{
    struct desk *desk = calloc(1, sizeof *desk);
    desk->lab = lab_new(1, 1, 1);
    lab_start_all(desk->lab);
    desk->writes.capacity = WRITES;
    desk->writes.bytes_capacity = BYTES;
    desk->writes.writes = calloc(WRITES, sizeof *desk->writes.writes);
    desk->writes.headers = calloc(LAB_VNODES, sizeof *desk->writes.headers);
    desk->writes.bytes = malloc(BYTES);
    *state = desk;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *desk = *state;
    free(desk->writes.writes);
    free(desk->writes.headers);
    free(desk->writes.bytes);
    lab_free(desk->lab);
    free(desk);
    return 0;
}

static struct shard *use(struct desk *desk, const char *key, uint64_t cost)
{
    const struct limit limit = lab_limit(10);
    assert_true(lab_check(desk->lab, 0, key, &limit, cost).allowed);
    lab_run(desk->lab, 600 * LAB_MS); /* past the flush interval */
    return desk->lab->shards[0].shard;
}

/* What changed is due after the flush interval, and goes out with its vnode's header. */
static void a_changed_slot_is_gathered_with_its_header(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use(desk, "a", 4);
    assert_true(shard_write_due(shard, desk->lab->now_ns));
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_int_equal(desk->writes.count, 1);
    assert_int_equal(desk->writes.writes[0].vnode, lab_vnode_of(desk->lab, "a"));
    assert_int_equal(desk->writes.header_count, 1);
    assert_false(shard_write_due(shard, desk->lab->now_ns + 1000 * LAB_MS)); /* one batch is out */
    shard_written(shard, desk->lab->now_ns, true);
    assert_true(shard_flushed(shard));
}

/* A failed write leaves everything dirty: the next batch holds it again. */
static void a_failed_write_is_tried_again(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use(desk, "a", 4);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    shard_written(shard, desk->lab->now_ns, false);
    assert_false(shard_flushed(shard));
    lab_run(desk->lab, 600 * LAB_MS);
    assert_true(shard_write_due(shard, desk->lab->now_ns));
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_int_equal(desk->writes.count, 1);
    assert_true(desk->writes.header_count >= 1);
    shard_written(shard, desk->lab->now_ns, true);
}

/* Under load a round takes as long as the interval: were this counted from its beginning, the next
 * one would follow at once, and disk and processor would do nothing else. */
static void the_interval_begins_when_a_round_is_written(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use(desk, "a", 1);
    const int64_t interval_ns = 500 * LAB_MS;
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    (void)use(desk, "b", 1); /* takes longer than the interval */
    const int64_t written_ns = desk->lab->now_ns;
    shard_written(shard, written_ns, true);
    assert_false(shard_flushed(shard));
    shard->writeback.asked = false;
    assert_false(shard_write_due(shard, written_ns + interval_ns - 1));
    assert_true(shard_write_due(shard, written_ns + interval_ns));
}

/* Who has begun to wait for the disk during a round waits for the next one alone. */
static void a_round_that_is_waited_for_begins_at_once(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use(desk, "a", 1);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    (void)use(desk, "b", 1);
    shard->writeback.next_ns = desk->lab->now_ns; /* as reconcile.c does when a merge ended */
    shard_written(shard, desk->lab->now_ns, true);
    assert_true(shard_write_due(shard, desk->lab->now_ns));
}

/* A slot that changes while it is being written is written once more. */
static void a_change_during_a_write_is_not_lost(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use(desk, "a", 4);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    (void)use(desk, "a", 1);
    shard_written(shard, desk->lab->now_ns, true);
    assert_false(shard_flushed(shard));
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_int_equal(desk->writes.count, 1);
    shard_written(shard, desk->lab->now_ns, true);
    assert_true(shard_flushed(shard));
}

/* The header of the vnode in the batch, NULL if it has none. */
static const struct shard_write_header *header_of(const struct desk *desk, uint32_t vnode)
{
    for (size_t i = 0; i < desk->writes.header_count; i++)
        if (desk->writes.headers[i].vnode == vnode)
            return &desk->writes.headers[i];
    return NULL;
}

static bool header_gathered(const struct desk *desk, uint32_t vnode)
{
    return header_of(desk, vnode) != NULL;
}

/* A vnode's header waits until slots that a copy left over are written as new: a process that
 * restarted from the header of the copy and the slots of before would hold what nobody has. */
static void a_header_waits_for_slots_that_a_copy_left_over(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use(desk, "a", 4);
    const uint32_t vnode = lab_vnode_of(desk->lab, "a");
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    shard_written(shard, desk->lab->now_ns, true);
    (void)use(desk, "a", 1);
    table_copy_begin(shard->table, vnode);
    assert_int_equal(table_copy_end(shard->table, vnode), 0);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_false(header_gathered(desk, vnode));
    shard_written(shard, desk->lab->now_ns, true);
    lab_run(desk->lab, 600 * LAB_MS);
    (void)use(desk, "a", 1);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_true(header_gathered(desk, vnode));
    shard_written(shard, desk->lab->now_ns, true);
}

/* WRITEBACK-3: where a claim fell, each batch up to the whole one says so, and the whole one claims
 * anew; a batch that was not written leaves it to the next. */
static void where_a_claim_fell_every_batch_says_so_until_one_is_whole(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use(desk, "a", 4);
    const uint32_t vnode = lab_vnode_of(desk->lab, "a");
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_true(header_gathered(desk, vnode) && !header_of(desk, vnode)->fell);
    shard_written(shard, desk->lab->now_ns, true);
    char key[LAB_KEY_LEN];
    lab_key(desk->lab, vnode, 0, key);
    (void)use(desk, key, 1);
    (void)use(desk, "a", 1);
    shard->vnodes[vnode].claim_fell = true;
    for (uint32_t i = 0; i < 3; i++) {
        desk->writes.capacity = i == 0 ? 1 : WRITES;
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        const struct shard_write_header *header = header_of(desk, vnode);
        assert_non_null(header);
        assert_true(header->fell);
        assert_int_equal(header->seq > 0, i > 0);
        assert_int_equal(header->state.number > 0, i > 0);
        shard_written(shard, desk->lab->now_ns, i != 1);
        lab_run(desk->lab, 600 * LAB_MS);
    }
    (void)use(desk, "a", 1);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_true(header_gathered(desk, vnode) && !header_of(desk, vnode)->fell);
    shard_written(shard, desk->lab->now_ns, true);
}

enum { MANY = 48, BATCH = 8 };

static void charge_many(struct desk *desk)
{
    const struct limit limit = lab_limit(MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        char key[LAB_KEY_LEN];
        (void)snprintf(key, sizeof key, "many-%u", i);
        assert_true(lab_check(desk->lab, 0, key, &limit, 1).allowed);
    }
}

/* Charges MANY keys, more than a batch holds. */
static struct shard *use_many(struct desk *desk)
{
    charge_many(desk);
    lab_run(desk->lab, 600 * LAB_MS);
    desk->writes.capacity = BATCH;
    return desk->lab->shards[0].shard;
}

/* More than a batch holds is written by vnodes: none is in two batches, but for the last of one and
 * the first of the next; each slot once, and the headers with the last batch. */
static void more_than_a_batch_holds_is_written_vnode_by_vnode(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use_many(desk);
    uint32_t slots = 0;
    uint32_t vnode = 0;
    for (uint32_t batches = 0; batches < MANY / BATCH; batches++) {
        assert_true(shard_write_due(shard, desk->lab->now_ns));
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        assert_int_equal(desk->writes.count, BATCH);
        for (uint32_t i = 0; i < BATCH; i++) {
            assert_true(desk->writes.writes[i].vnode >= vnode);
            vnode = desk->writes.writes[i].vnode;
        }
        slots += desk->writes.count;
        assert_int_equal(desk->writes.header_count > 0, slots == MANY);
        shard_check_invariants(shard);
        shard_written(shard, desk->lab->now_ns, true);
    }
    assert_true(shard_flushed(shard));
}

/* What changes after it was put in order is written as it is when its batch is gathered, and not a
 * second time. */
static void a_change_before_its_batch_is_written_with_it(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use_many(desk);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    shard_written(shard, desk->lab->now_ns, true);
    charge_many(desk);
    uint32_t slots = 0;
    desk->writes.capacity = WRITES;
    for (uint32_t batches = 0; !shard_flushed(shard); batches++) {
        assert_true(batches < 4);
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        slots += desk->writes.count;
        shard_check_invariants(shard);
        shard_written(shard, desk->lab->now_ns, true);
    }
    assert_int_equal(slots, MANY); /* of which BATCH had been written, and changed again */
}

enum { EFFORT_SLOTS = 3 };

/* Gathers in steps of EFFORT_SLOTS until some of a batch are copied, but not all. */
static struct shard *copy_some(struct desk *desk)
{
    struct shard *shard = use_many(desk);
    desk->writes.capacity = WRITES;
    desk->writes.effort = EFFORT_SLOTS;
    while (shard->writeback.copied < MANY / 2) {
        assert_true(shard_write_due(shard, desk->lab->now_ns));
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        assert_int_equal(desk->writes.count + desk->writes.header_count, 0);
        assert_false(shard_flushed(shard));
    }
    return shard;
}

static void gather_the_rest(struct desk *desk, struct shard *shard)
{
    do {
        assert_true(shard_write_due(shard, desk->lab->now_ns));
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        shard_check_invariants(shard);
    } while (desk->writes.count == 0);
}

/* Who asks waits for some slots to be copied, not for a batch of them; and a slot is written as it
 * is when it is copied: what changes after that is written once more. */
static void a_batch_is_copied_in_steps(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = copy_some(desk);
    const uint32_t copied = shard->writeback.copied;
    assert_in_range(copied, MANY / 2, MANY / 2 + EFFORT_SLOTS - 1);
    charge_many(desk);
    gather_the_rest(desk, shard);
    assert_int_equal(desk->writes.count, MANY);
    assert_true(desk->writes.header_count > 0);
    uint32_t offset = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        const struct shard_write *write = &desk->writes.writes[i];
        assert_int_equal(write->offset, offset);
        offset += write->len;
        for (uint32_t j = 0; j < i; j++)
            assert_false(hash128_equal(write->id, desk->writes.writes[j].id));
    }
    shard_written(shard, desk->lab->now_ns, true);
    assert_false(shard_flushed(shard));
    gather_the_rest(desk, shard);
    assert_int_equal(desk->writes.count, copied);
    shard_written(shard, desk->lab->now_ns, true);
    assert_true(shard_flushed(shard));
}

/* How many of the first `count` writes are of the vnode. */
static uint32_t writes_of(const struct desk *desk, uint32_t vnode, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += desk->writes.writes[i].vnode == vnode;
    return found;
}

/* A vnode that goes while its slots are being copied is forgotten after they are written
 * (WRITEBACK-4). */
static void nothing_is_dropped_while_a_batch_is_being_copied(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = copy_some(desk);
    const uint32_t gathered = shard->writeback.gathered;
    const uint32_t vnode = desk->writes.writes[gathered - 1].vnode;
    const uint32_t copied = writes_of(desk, vnode, gathered);
    shard->vnodes[vnode].claim_fell = true;
    vnodes_drop(shard, vnode);
    vnodes_mark_active(shard, vnode);
    lab_run(desk->lab, 20 * LAB_MS);
    assert_int_equal(desk->lab->dropped_vnodes, 0);
    gather_the_rest(desk, shard);
    assert_int_equal(writes_of(desk, vnode, desk->writes.count), copied); /* no more of it */
    assert_true(header_of(desk, vnode)->fell); /* these are not of what was claimed */
    lab_run(desk->lab, 20 * LAB_MS);
    assert_int_equal(desk->lab->dropped_vnodes, 1);
    shard_written(shard, desk->lab->now_ns, true);
}

/* What is still in the table of a vnode that goes would be written behind its drop
 * (WRITEBACK-4). */
static void nothing_is_copied_of_a_vnode_that_is_being_removed(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = copy_some(desk);
    const uint32_t gathered = shard->writeback.gathered;
    for (uint32_t number = 0; number < LAB_VNODES; number++)
        vnodes_drop(shard, number);
    while (shard_write_due(shard, desk->lab->now_ns) && desk->writes.count == 0)
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_int_equal(desk->writes.count, gathered);
    assert_int_equal(desk->writes.header_count, 0);
    shard_written(shard, desk->lab->now_ns, true);
}

/* Keys that are gone before their batch leave nothing behind in the table, and end no round with
 * headers that nobody writes: these go with the next. */
static void a_batch_of_keys_that_are_gone_leaves_its_headers_to_the_next(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use_many(desk);
    struct table_stats stats;
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    const uint32_t vnode = desk->writes.writes[0].vnode;
    shard_written(shard, desk->lab->now_ns, true);
    for (uint32_t slot = 0; slot < table_slots_end(shard->table); slot++)
        if (table_slot_used(shard->table, slot))
            table_drop(shard->table, slot);
    while (shard_write_due(shard, desk->lab->now_ns)) {
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        assert_int_equal(desk->writes.count + desk->writes.header_count, 0);
    }
    assert_true(shard_flushed(shard));
    assert_int_equal(shard->writeback.dirty_ns, shard->writeback.began_ns); /* nothing is older */
    table_check_invariants(shard->table);
    table_stats(shard->table, &stats);
    assert_int_equal(stats.used, 0);
    (void)use(desk, "a", 1);
    assert_int_not_equal(lab_vnode_of(desk->lab, "a"), vnode);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    assert_int_equal(desk->writes.count, 1);
    assert_true(header_gathered(desk, vnode));
    shard_written(shard, desk->lab->now_ns, true);
}

/* A batch that fails leaves its slots dirty, and what was put in order behind it is still written.
 */
static void a_failed_batch_of_many_is_written_again(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use_many(desk);
    uint32_t slots = 0;
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    shard_written(shard, desk->lab->now_ns, false);
    assert_false(shard_write_due(shard, desk->lab->now_ns)); /* not in a tight loop */
    lab_run(desk->lab, 600 * LAB_MS);
    while (shard_write_due(shard, desk->lab->now_ns)) {
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        slots += desk->writes.count;
        shard_written(shard, desk->lab->now_ns, true);
    }
    assert_int_equal(slots, MANY);
    assert_true(shard_flushed(shard));
}

/* What becomes dirty while others are written waits for the next interval: else a busy node would
 * write without end. */
static void what_came_meanwhile_waits_for_the_next_interval(void **state)
{
    struct desk *desk = *state;
    const struct limit limit = lab_limit(10);
    struct shard *shard = use_many(desk);
    for (uint32_t batches = 0; batches < MANY / BATCH; batches++) {
        assert_true(shard_write_due(shard, desk->lab->now_ns));
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        for (uint32_t i = 0; i < BATCH; i++) {
            char key[LAB_KEY_LEN];
            (void)snprintf(key, sizeof key, "new-%u-%u", batches, i);
            assert_true(lab_check(desk->lab, 0, key, &limit, 1).allowed);
        }
        shard_written(shard, desk->lab->now_ns, true);
    }
    assert_false(shard_write_due(shard, desk->lab->now_ns));
    assert_false(shard_flushed(shard)); /* asks for the rest at once */
    assert_true(shard_write_due(shard, desk->lab->now_ns));
}

/* WRITEBACK-2: a node that is never idle tells all the same what it has on disk: the headers of a
 * round are of its beginning, when nothing was dirty that is not written now. */
static void a_busy_node_claims_what_was_dirty_when_its_round_began(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use_many(desk);
    for (uint32_t round = 0; round < 3; round++) {
        uint64_t began[LAB_VNODES];
        uint32_t claimed = 0;
        for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
            began[vnode] = table_vnode_seq(shard->table, vnode);
        lab_run(desk->lab, 600 * LAB_MS);
        for (uint32_t batches = 0; shard_write_due(shard, desk->lab->now_ns); batches++) {
            assert_true(batches < MANY / BATCH);
            shard_gather(shard, desk->lab->now_ns, &desk->writes);
            for (uint32_t i = 0; i < desk->writes.header_count; i++, claimed++)
                assert_int_equal(desk->writes.headers[i].seq, began[desk->writes.headers[i].vnode]);
            charge_many(desk);
            shard_written(shard, desk->lab->now_ns, true);
            shard_check_invariants(shard);
        }
        assert_true(claimed > 0);
    }
}

/* WRITEBACK-3: what a round had marked of a vnode is not claimed once its claim has fallen. */
static void a_claim_that_falls_in_a_round_is_not_told_by_it(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use_many(desk);
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    const uint32_t vnode = desk->writes.writes[0].vnode;
    shard->vnodes[vnode].claim_fell = true;
    shard->vnodes[vnode].marked = false;
    shard_written(shard, desk->lab->now_ns, true);
    while (shard_write_due(shard, desk->lab->now_ns)) {
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        const struct shard_write_header *header = header_of(desk, vnode);
        assert_non_null(header);
        assert_true(header->fell && header->seq == 0 && header->state.number == 0);
        shard_written(shard, desk->lab->now_ns, true);
    }
}

/* A round of which a batch failed claims nothing; the next one does. */
static void a_round_that_failed_claims_nothing(void **state)
{
    struct desk *desk = *state;
    struct shard *shard = use_many(desk);
    uint32_t headers = 0;
    shard_gather(shard, desk->lab->now_ns, &desk->writes);
    shard_written(shard, desk->lab->now_ns, false);
    lab_run(desk->lab, 600 * LAB_MS);
    for (uint32_t batches = 1; batches < MANY / BATCH; batches++) {
        assert_true(shard_write_due(shard, desk->lab->now_ns));
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        assert_int_equal(desk->writes.header_count, 0);
        shard_written(shard, desk->lab->now_ns, true);
    }
    while (shard_write_due(shard, desk->lab->now_ns)) {
        shard_gather(shard, desk->lab->now_ns, &desk->writes);
        headers += desk->writes.header_count;
        shard_written(shard, desk->lab->now_ns, true);
    }
    assert_true(headers > 0);
    assert_true(shard_flushed(shard));
}

/* What was written, given to a new process, is what its answers go on from. */
static void a_restored_shard_goes_on_from_what_was_written(void **state)
{
    struct desk *desk = *state;
    const struct limit limit = lab_limit(10);
    struct lab *lab = desk->lab;
    shard_gather(use(desk, "a", 4), lab->now_ns, &desk->writes);
    const struct shard_write *write = &desk->writes.writes[0];
    const struct shard_write_header *header = &desk->writes.headers[0];
    lab_stop(lab, 0);
    lab_create(lab, 0);
    assert_int_equal(shard_restore_slot(lab->shards[0].shard, write->vnode, write->id,
                                        desk->writes.bytes + write->offset, write->len,
                                        lab->now_ns),
                     0);
    shard_restore_vnode(lab->shards[0].shard, header->vnode, &header->state, header->seq);
    lab_view_all(lab);
    lab_settle(lab);
    assert_int_equal(lab_used(lab, 0, "a", &limit), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_changed_slot_is_gathered_with_its_header, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_write_is_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_interval_begins_when_a_round_is_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_round_that_is_waited_for_begins_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_change_during_a_write_is_not_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_header_waits_for_slots_that_a_copy_left_over, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(where_a_claim_fell_every_batch_says_so_until_one_is_whole,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_a_batch_holds_is_written_vnode_by_vnode, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_change_before_its_batch_is_written_with_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_batch_is_copied_in_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_dropped_while_a_batch_is_being_copied, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_copied_of_a_vnode_that_is_being_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_batch_of_keys_that_are_gone_leaves_its_headers_to_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_batch_of_many_is_written_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_came_meanwhile_waits_for_the_next_interval, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_busy_node_claims_what_was_dirty_when_its_round_began,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_claim_that_falls_in_a_round_is_not_told_by_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_round_that_failed_claims_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restored_shard_goes_on_from_what_was_written, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
