/* test_cold_keys.c - a replica that lost a vnode is given the keys that its leader has on disk
 * alone.
 *
 * Two nodes hold one vnode. The leader's keys are in memory, or "spilled": taken out of its table
 * and kept by the test, which answers for the disk, piece by piece. Then the replica comes back
 * without any state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

enum {
    LEADER = 0,
    REPLICA = 1,
    KEYS = 12,
    SPILLED = 7, /* the first of them */
    STATE_LEN = 64,
    REST_MS = 100, /* COLD_KEYS_REST_NS of cold_keys.c */
    REST_MIN_MS = 5,
};

struct stored {
    char key[LAB_KEY_LEN];
    struct hash128 id;
    uint8_t state[STATE_LEN];
    size_t len;
};

struct scene {
    struct lab *lab;
    struct limit limit;
    uint32_t vnode;
    struct stored keys[KEYS]; /* key i has used i + 1 */
};

static struct scene scene;

static struct table *table_of(uint32_t at)
{
    return scene.lab->shards[at].shard->table;
}

/* ---- the scene ------------------------------------------------------------------------------- */

static size_t state_at(uint32_t at, const struct stored *key, uint8_t out[STATE_LEN])
{
    const int len = probe_slot(scene.lab->shards[at].shard, key->id, out, STATE_LEN);
    assert_true(len >= 0);
    return (size_t)len;
}

/* The key is on the leader's disk and not in its memory any more. */
static void spill(const struct stored *key)
{
    struct table *table = table_of(LEADER);
    table_drop(table, table_lookup(table, key->id));
    table_filter_add(table, scene.vnode, key->id);
}

/* Uses every key, and ends the replica's process. */
static void begin(bool ephemeral, uint64_t rate)
{
    struct lab *lab = lab_new(2, 1, 2);
    memset(&scene, 0, sizeof scene);
    scene.lab = lab;
    scene.limit = lab_limit(1000);
    lab->shards[LEADER].options.ephemeral = ephemeral;
    if (rate > 0)
        lab->shards[LEADER].options.handoff_rate = rate;
    lab_start_all(lab);
    scene.vnode = lab_vnode_owned(lab, LEADER);
    for (uint32_t i = 0; i < KEYS; i++) {
        struct stored *key = &scene.keys[i];
        lab_key(lab, scene.vnode, i, key->key);
        key->id = lab_slot_of(lab, key->key, scene.limit.algorithm);
        assert_true(lab_check(lab, LEADER, key->key, &scene.limit, i + 1).allowed);
        key->len = state_at(LEADER, key, key->state);
    }
    lab_run(lab, 50 * LAB_MS);
    lab_stop(lab, REPLICA);
}

static int set_up(void **state)
{
    begin(false, 0);
    for (uint32_t i = 0; i < SPILLED; i++)
        spill(&scene.keys[i]);
    *state = scene.lab;
    return 0;
}

/* ---- the disk -------------------------------------------------------------------------------- */

static bool disk_is_asked_for_ids(struct lab *lab, void *context)
{
    (void)context;
    return lab->list_count > 0;
}

/* Waits for the question, and forgets it. */
static void expect_listing(struct lab *lab)
{
    lab_until(lab, disk_is_asked_for_ids, NULL, 2000 * LAB_MS);
    assert_int_equal(lab->list_count, 1);
    assert_int_equal(lab->lists[0].at, LEADER);
    assert_int_equal(lab->lists[0].vnode, scene.vnode);
    lab->list_count = 0;
}

/* Answers with keys `from` to `to`. */
static void list(struct lab *lab, uint32_t from, uint32_t to, bool last)
{
    struct hash128 ids[KEYS];
    for (uint32_t i = from; i < to; i++)
        ids[i - from] = scene.keys[i].id;
    shard_listed(lab->shards[LEADER].shard, lab->now_ns, scene.vnode, ids, to - from, last, 0);
}

static const struct stored *find(struct hash128 id)
{
    for (uint32_t i = 0; i < KEYS; i++)
        if (hash128_equal(scene.keys[i].id, id))
            return &scene.keys[i];
    fail_msg("a key that was never stored is asked for");
    return NULL;
}

static void answer_load(struct lab *lab, struct hash128 id, int result)
{
    const struct stored *key = find(id);
    shard_loaded(lab->shards[LEADER].shard, lab->now_ns, scene.vnode, id, result,
                 result == 0 ? key->state : NULL, result == 0 ? key->len : 0, &lab->effects);
    lab_perform(lab, LEADER);
}

/* Answers every question for a slot that is out; how many there were. */
static size_t answer_loads(struct lab *lab, int result)
{
    const size_t count = lab->load_count;
    lab->load_count = 0;
    for (size_t i = 0; i < count; i++)
        answer_load(lab, lab->loads[i].id, result);
    return count;
}

static bool disk_is_asked_for_slots(struct lab *lab, void *context)
{
    (void)context;
    return lab->load_count > 0;
}

/* ---- what the replica has -------------------------------------------------------------------- */

/* The replica holds the keys from `from` on, byte by byte as they were stored. */
static void assert_held(uint32_t from)
{
    for (uint32_t i = from; i < KEYS; i++) {
        uint8_t state[STATE_LEN];
        assert_int_equal(state_at(REPLICA, &scene.keys[i], state), scene.keys[i].len);
        assert_memory_equal(state, scene.keys[i].state, scene.keys[i].len);
    }
}

static bool replica_is_confirmed(struct lab *lab, void *context)
{
    struct probe_vnode held;
    (void)context;
    probe_vnode(lab->shards[LEADER].shard, scene.vnode, &held);
    return held.synced;
}

/* Answers for the disk, which has the first `stored` keys, until the replica is known to hold
 * everything. */
static void serve_the_rest(struct lab *lab, uint32_t stored)
{
    for (uint32_t i = 0; i < 2000 && !replica_is_confirmed(lab, NULL); i++) {
        lab_run(lab, LAB_MS);
        if (lab->list_count > 0) {
            expect_listing(lab);
            list(lab, 0, stored, true);
        }
        (void)answer_loads(lab, 0);
    }
    assert_true(replica_is_confirmed(lab, NULL));
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Keys that no memory holds are part of the vnode too: without them a take-over would forget them.
 */
static void keys_on_disk_reach_a_replica_that_lost_them(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    assert_false(replica_is_confirmed(lab, NULL));
    list(lab, 0, SPILLED / 2, false);
    list(lab, SPILLED / 2, SPILLED, true);
    lab_until(lab, disk_is_asked_for_slots, NULL, 500 * LAB_MS);
    assert_int_equal(answer_loads(lab, 0), SPILLED);
    lab_until(lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
    assert_held(0);
    assert_int_equal(lab_stats(lab, LEADER).disk_copies, 1);
    lab_stop(lab, LEADER);
    lab_settle(lab);
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(lab_used(lab, REPLICA, scene.keys[i].key, &scene.limit), i + 1);
}

/* The disk is read for what is there alone: with all keys in memory nothing is listed. */
static void without_spilled_keys_the_disk_is_left_alone(void **state)
{
    (void)state;
    begin(false, 0);
    lab_start(scene.lab, REPLICA);
    lab_until(scene.lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
    lab_run(scene.lab, 300 * LAB_MS);
    assert_held(0);
    assert_int_equal(scene.lab->list_count, 0);
    assert_int_equal(lab_stats(scene.lab, LEADER).disk_copies, 0);
    lab_free(scene.lab);
}

/* A shard without a disk has nothing to list, whatever its filter says. */
static void an_ephemeral_shard_lists_nothing(void **state)
{
    (void)state;
    begin(true, 0);
    table_filter_add(table_of(LEADER), scene.vnode, scene.keys[0].id);
    lab_start(scene.lab, REPLICA);
    lab_until(scene.lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
    lab_run(scene.lab, 300 * LAB_MS);
    assert_int_equal(scene.lab->list_count, 0);
    lab_free(scene.lab);
}

/* COLDKEYS-1: what is evicted after it was sent needs no disk; what is evicted before is listed,
 * but only if the listing begins last. */
static void the_disk_is_listed_after_memory_was_sent(void **state)
{
    enum { MORE = 600, RATE = 100000 }; /* bytes a second: the copy of memory takes its time */
    (void)state;
    begin(false, RATE);
    struct lab *lab = scene.lab;
    char key[LAB_KEY_LEN];
    for (uint32_t i = 0; i < MORE; i++) {
        lab_key(lab, scene.vnode, KEYS + i, key);
        assert_true(lab_check(lab, LEADER, key, &scene.limit, 1).allowed);
    }
    spill(&scene.keys[0]);
    lab_start(lab, REPLICA);
    lab_forget(lab);
    lab_until(lab, disk_is_asked_for_ids, NULL, 5000 * LAB_MS);
    assert_int_equal(lab_said(lab, LEADER, REPLICA, PEER_SLOT, NULL), KEYS - 1 + MORE);
    lab_free(lab);
}

/* COLDKEYS-2: what memory holds is newer than the disk, when the id is listed and when its state
 * comes. */
static void memory_is_asked_before_the_disk_is_believed(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    list(lab, 0, SPILLED + 1, true); /* the last of these is in memory as well */
    lab_until(lab, disk_is_asked_for_slots, NULL, 500 * LAB_MS);
    assert_int_equal(lab->load_count, SPILLED);
    /* Meanwhile the first key comes to memory with more than its disk told. */
    struct stored *first = &scene.keys[0];
    const struct stored newer = scene.keys[KEYS - 1];
    assert_int_equal(table_import(table_of(LEADER), scene.vnode, first->id, newer.state, newer.len,
                                  lab->now_ns, TABLE_FROM_DISK),
                     0);
    assert_int_equal(answer_loads(lab, 0), SPILLED);
    lab_until(lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
    memcpy(first->state, newer.state, newer.len);
    first->len = newer.len;
    assert_held(0);
}

/* A disk that cannot list is asked again after a rest, and the replica is not told that it is done.
 */
static void a_failed_listing_is_repeated_after_a_rest(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    shard_listed(lab->shards[LEADER].shard, lab->now_ns, scene.vnode, NULL, 0, false, TG_EIO);
    lab_run(lab, (REST_MS - 10) * LAB_MS);
    assert_int_equal(lab->list_count, 0);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab->list_count, 1);
    assert_false(replica_is_confirmed(lab, NULL));
    serve_the_rest(lab, SPILLED);
    assert_held(0);
}

/* A slot that cannot be read is asked for again; one that expired meanwhile is nothing to send. */
static void a_failed_read_is_repeated_and_a_vanished_key_is_left_out(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    list(lab, 0, SPILLED, true);
    lab_until(lab, disk_is_asked_for_slots, NULL, 500 * LAB_MS);
    assert_int_equal(lab->load_count, SPILLED);
    lab->load_count = 0;
    answer_load(lab, scene.keys[0].id, TG_ENOTFOUND);
    for (uint32_t i = 1; i < SPILLED; i++)
        answer_load(lab, scene.keys[i].id, i == 3 ? TG_EIO : 0);
    lab_run(lab, (REST_MIN_MS - 1) * LAB_MS);
    assert_int_equal(lab->load_count, 0);
    assert_false(replica_is_confirmed(lab, NULL));
    lab_until(lab, disk_is_asked_for_slots, NULL, 50 * LAB_MS);
    assert_int_equal(lab->load_count, 1);
    assert_true(hash128_equal(lab->loads[0].id, scene.keys[3].id));
    (void)answer_loads(lab, 0);
    lab_until(lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
    assert_held(1);
    uint8_t bytes[STATE_LEN];
    assert_int_equal(state_at(REPLICA, &scene.keys[0], bytes), 0);
}

/* COLDKEYS-4: a slot that can never be read is passed over and counted, and the replica gets the
 * rest. */
static void a_damaged_slot_is_passed_over(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    list(lab, 0, SPILLED, true);
    lab_until(lab, disk_is_asked_for_slots, NULL, 500 * LAB_MS);
    lab->load_count = 0;
    for (uint32_t i = 0; i < SPILLED; i++)
        answer_load(lab, scene.keys[i].id, i > 0 ? 0 : TG_ECORRUPT);
    lab_until(lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
    assert_held(1);
    assert_int_equal(lab_stats(lab, LEADER).unreadable, 1);
}

/* COLDKEYS-4: where a listing meets damage it ends, and what it told before is copied. */
static void a_listing_that_is_damaged_ends_there(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    list(lab, 1, SPILLED, false);
    shard_listed(lab->shards[LEADER].shard, lab->now_ns, scene.vnode, NULL, 0, false, TG_ECORRUPT);
    lab_until(lab, disk_is_asked_for_slots, NULL, 500 * LAB_MS);
    assert_int_equal(answer_loads(lab, 0), SPILLED - 1);
    lab_until(lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
    assert_held(1);
    assert_int_equal(lab_stats(lab, LEADER).unreadable, 1);
}

/* A disk that refuses one read in a while is hardly left alone, one that refuses all is. */
static void the_longer_a_disk_refuses_the_longer_it_rests(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    list(lab, 0, 1, true);
    int64_t rests_ms[8];
    for (uint32_t i = 0; i < 8; i++) {
        const int64_t before_ns = lab->now_ns;
        lab_until(lab, disk_is_asked_for_slots, NULL, 2 * REST_MS * LAB_MS);
        rests_ms[i] = (lab->now_ns - before_ns) / LAB_MS;
        assert_int_equal(answer_loads(lab, TG_EIO), 1);
    }
    assert_in_range(rests_ms[1], REST_MIN_MS, 2 * REST_MIN_MS);
    assert_in_range(rests_ms[2], 2 * REST_MIN_MS, 3 * REST_MIN_MS);
    assert_in_range(rests_ms[7], REST_MS, REST_MS + 2 * REST_MIN_MS);
    serve_the_rest(lab, 0);
    lab_until(lab, replica_is_confirmed, NULL, 1000 * LAB_MS);
}

/* Each answer makes room for another read at once: a copy does not take a turn for every window. */
static void as_many_reads_as_may_be_are_out_at_any_time(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = lab->shards[LEADER].shard;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    struct hash128 ids[COLD_KEYS_WINDOW + KEYS];
    for (uint64_t i = 0; i < COLD_KEYS_WINDOW + KEYS; i++)
        ids[i] = (struct hash128){.hi = i, .lo = 1};
    shard_listed(shard, lab->now_ns, scene.vnode, ids, COLD_KEYS_WINDOW + KEYS, true, 0);
    lab_until(lab, disk_is_asked_for_slots, NULL, 500 * LAB_MS);
    assert_int_equal(lab->load_count, COLD_KEYS_WINDOW);
    for (uint32_t i = 0; i < KEYS; i++) {
        lab->load_count = 0;
        shard_loaded(shard, lab->now_ns, scene.vnode, ids[i], TG_ENOTFOUND, NULL, 0, &lab->effects);
        lab_perform(lab, LEADER);
        assert_int_equal(lab->load_count, 1);
    }
}

/* COLDKEYS-3: who restarts in the middle has lost what it was given, and gets all of it by another
 * round.
 */
static void a_replica_that_restarts_in_between_gets_another_round(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, REPLICA);
    expect_listing(lab);
    list(lab, 0, SPILLED, true);
    lab_until(lab, disk_is_asked_for_slots, NULL, 500 * LAB_MS);
    for (uint32_t i = 0; i < 3; i++)
        answer_load(lab, scene.keys[i].id, 0);
    lab_run(lab, 5 * LAB_MS);
    lab_stop(lab, REPLICA);
    lab_start(lab, REPLICA);
    lab_run(lab, 20 * LAB_MS);
    lab->load_count = 0;
    for (uint32_t i = 3; i < SPILLED; i++) /* the answers that were still to come */
        answer_load(lab, scene.keys[i].id, 0);
    serve_the_rest(lab, SPILLED);
    assert_held(0);
}

/* All that the leader has changed is written. */
static void write_all(void)
{
    struct table *table = table_of(LEADER);
    for (uint32_t slot; (slot = table_next_dirty(table, TABLE_DISK)) != TABLE_NONE;) {
        const struct table_write write = table_write_begin(table, slot);
        table_write_done(table, &write, 1, true);
    }
}

/* So many keys come, of vnodes that the replica decides, that the memory of this one is full of
 * them: what may go to the disk has gone there. */
static void overflow(struct lab *lab)
{
    struct table *table = table_of(LEADER);
    const uint32_t other = lab_vnode_owned(lab, REPLICA);
    struct table_stats stats;
    table_stats(table, &stats);
    table_set_targets(table, other, TABLE_TARGET_BIT(TABLE_DISK));
    for (uint64_t i = 0; i < 2 * (uint64_t)stats.capacity; i++) {
        const struct hash128 id = {(i + 1) * 0x9e3779b97f4a7c15u, i};
        const int rc =
            table_import(table, other, id, scene.keys[0].state, scene.keys[0].len, lab->now_ns, 0);
        assert_true(rc == 0 || rc == TG_EFULL);
        if (rc == TG_EFULL)
            write_all();
    }
    table_filter_reset(table, other); /* of those nothing is to be copied */
}

/* A replica was away for a moment. What it was owed had to leave memory meanwhile: it goes to the
 * disk and is not forgotten, and the replica counts as one that holds it only when it does. */
static void what_left_memory_while_a_replica_was_away_reaches_it(void **state)
{
    struct stored *key = &scene.keys[0];
    (void)state;
    begin(false, 0);
    struct lab *lab = scene.lab;
    lab_start(lab, REPLICA);
    lab_settle(lab);
    struct shard *away = lab->shards[REPLICA].shard;
    lab->shards[REPLICA].shard = NULL;
    lab_run(lab, 300 * LAB_MS);
    assert_true(lab_check(lab, LEADER, key->key, &scene.limit, 40).allowed);
    key->len = state_at(LEADER, key, key->state);
    write_all();
    lab->large = true;
    overflow(lab);
    assert_int_equal(table_lookup(table_of(LEADER), key->id), TABLE_NONE);
    assert_true(table_filter_maybe(table_of(LEADER), scene.vnode, key->id));
    lab->shards[REPLICA].shard = away;
    lab_run(lab, LAB_MS);
    assert_false(replica_is_confirmed(lab, NULL));
    serve_the_rest(lab, KEYS);
    assert_held(0);
    shard_check_invariants(lab->shards[LEADER].shard);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_left_memory_while_a_replica_was_away_reaches_it),
        LAB_TEST(keys_on_disk_reach_a_replica_that_lost_them, set_up),
        cmocka_unit_test(without_spilled_keys_the_disk_is_left_alone),
        cmocka_unit_test(an_ephemeral_shard_lists_nothing),
        cmocka_unit_test(the_disk_is_listed_after_memory_was_sent),
        LAB_TEST(memory_is_asked_before_the_disk_is_believed, set_up),
        LAB_TEST(a_failed_listing_is_repeated_after_a_rest, set_up),
        LAB_TEST(a_failed_read_is_repeated_and_a_vanished_key_is_left_out, set_up),
        LAB_TEST(a_damaged_slot_is_passed_over, set_up),
        LAB_TEST(a_listing_that_is_damaged_ends_there, set_up),
        LAB_TEST(the_longer_a_disk_refuses_the_longer_it_rests, set_up),
        LAB_TEST(as_many_reads_as_may_be_are_out_at_any_time, set_up),
        LAB_TEST(a_replica_that_restarts_in_between_gets_another_round, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
