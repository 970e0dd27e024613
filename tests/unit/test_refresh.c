/* test_refresh.c - the filter of what may be on disk, made anew while keys come and go.
 *
 * A shard's table is filled far past its memory; what it writes back is a plain array of "the disk
 * holds it", from which records vanish as if they had expired and been purged. The listing is
 * answered by hand, piece by piece.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "node/limit/table/table_private.h"
#include "tests/unit/support_limit.h"

enum {
    VNODES = 4,
    KEYS = 260000,
    FIRST = 200000, /* keys made before the refresh; the others come during it */
    BURST = 4096,   /* keys between two write-backs */
    PIECE = 1000,   /* ids of one piece of the answer */
    MANY_VNODES = 4096,
    EXPORT_LEN = 64, /* of the states used here */
};

static const struct limit counting = {
    .count = 1000000, .window_ns = 86400000000000, .algorithm = ALGORITHM_FIXED_WINDOW};

struct world {
    struct shard *shard;
    struct effects effects;
    struct shard_writes writes;
    int64_t now_ns;
    uint8_t state[EXPORT_LEN]; /* of every key */
    size_t state_len;
    bool on_disk[KEYS];
    bool purged[KEYS];
    bool evicted_before[KEYS]; /* when the refresh began */
};

static struct world world;

static uint32_t vnode_of(uint32_t key)
{
    return key % VNODES;
}

/* The number travels in the id, so that a write can be traced back to its key. */
static struct hash128 id_of(uint32_t key)
{
    return (struct hash128){.lo = hash_mix64(key + 1) << 32 | key, .hi = hash_mix64(key + 7777)};
}

static bool in_memory(uint32_t key)
{
    return table_lookup(world.shard->table, id_of(key)) != TABLE_NONE;
}

static bool maybe(uint32_t key)
{
    return table_filter_maybe(world.shard->table, vnode_of(key), id_of(key)) != 0;
}

static void pass_ms(int64_t ms)
{
    world.now_ns += ms * MS;
    world.shard->now_ns = world.now_ns;
}

static void write_back(void)
{
    uint32_t rounds = 0;
    while (!table_target_idle(world.shard->table, TABLE_DISK)) {
        assert_true(++rounds < 100);
        shard_gather(world.shard, world.now_ns, &world.writes);
        for (uint32_t i = 0; i < world.writes.count; i++)
            world.on_disk[(uint32_t)world.writes.writes[i].id.lo] = true;
        if (world.writes.count > 0)
            shard_written(world.shard, world.now_ns, true);
    }
}

/* Keys as a stream from a leader brings them: dirty, to be written, then free to leave. */
static void add_keys(uint32_t first, uint32_t end)
{
    for (uint32_t key = first; key < end; key++) {
        assert_int_equal(table_import(world.shard->table, vnode_of(key), id_of(key), world.state,
                                      world.state_len, world.now_ns, 0),
                         0);
        if (key % BURST == BURST - 1)
            write_back();
    }
    write_back();
}

/* Any state that does not expire soon. */
static void make_state(void)
{
    struct table *table = limit_table();
    struct limit_decision decision;
    engine_one(table, id_of(0), 0, &counting, 1, OPERATION_CHECK, LIMIT_LOADED, world.now_ns,
               &decision);
    const int len =
        table_export(table, table_lookup(table, id_of(0)), world.state, sizeof world.state);
    assert_true(len > 0);
    world.state_len = (size_t)len;
    table_free(&table);
}

static void start_shard(uint32_t vnodes, bool ephemeral)
{
    struct shard_options options;
    shard_options_default(&options);
    options.node_id = 1;
    options.vnodes = vnodes;
    options.memory_bytes = TABLE_MEMORY_MIN;
    options.ephemeral = ephemeral;
    assert_int_equal(shard_new(alloc_heap(), &options, world.now_ns, &world.shard), 0);
}

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    world.now_ns = LIMIT_TEST_EPOCH_NS;
    world.writes.capacity = SHARD_WRITES_MAX;
    world.writes.writes = calloc(SHARD_WRITES_MAX, sizeof *world.writes.writes);
    world.writes.headers = calloc(MANY_VNODES, sizeof *world.writes.headers);
    world.writes.bytes_capacity = 4 << 20;
    world.writes.bytes = malloc(world.writes.bytes_capacity);
    if (world.writes.writes == NULL || world.writes.headers == NULL || world.writes.bytes == NULL)
        return -1;
    make_state();
    return effects_init(&world.effects, alloc_heap());
}

static int teardown(void **state)
{
    (void)state;
    shard_free(&world.shard);
    effects_fini(&world.effects);
    free(world.writes.writes);
    free(world.writes.headers);
    free(world.writes.bytes);
    return 0;
}

/* Ticks until a listing is asked for; its vnode, or VNODES when none is within `ticks`. */
static uint32_t asked(uint32_t ticks)
{
    for (uint32_t i = 0; i < ticks; i++) {
        effects_clear(&world.effects);
        pass_ms(5);
        refresh_tick(world.shard, &world.effects);
        if (world.effects.count == 0)
            continue;
        assert_int_equal(world.effects.count, 1);
        assert_int_equal(world.effects.items[0].kind, EFFECT_LIST);
        return world.effects.items[0].vnode;
    }
    return VNODES;
}

/* Every second key that has left memory expires, and is purged from the disk. */
static void expire_half(void)
{
    for (uint32_t key = 0; key < KEYS; key++)
        if (key / VNODES % 2 != 0 && !in_memory(key) && world.on_disk[key]) {
            world.on_disk[key] = false;
            world.purged[key] = true;
        }
}

/* Answers a listing with what the disk held when it was asked for; `between` new keys come before
 * each piece. Returns the number of keys that exist then. */
static uint32_t answer(uint32_t vnode, uint32_t keys, uint32_t between)
{
    static struct hash128 ids[KEYS];
    size_t count = 0;
    for (uint32_t key = vnode; key < KEYS; key += VNODES)
        if (world.on_disk[key])
            ids[count++] = id_of(key);
    size_t given = 0;
    while (given < count) {
        const uint32_t more = keys + between > KEYS ? KEYS - keys : between;
        const size_t piece = count - given < PIECE ? count - given : PIECE;
        add_keys(keys, keys + more);
        keys += more;
        shard_listed(world.shard, world.now_ns, vnode, ids + given, piece, given + piece == count,
                     0);
        given += piece;
    }
    return keys;
}

static uint64_t refreshes(void)
{
    struct shard_stats stats;
    shard_stats(world.shard, &stats);
    return stats.filter_refreshes;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* What is on disk stays a maybe, also what was evicted during the rebuild; what expired goes. */
static void a_refresh_forgets_what_expired_and_nothing_else(void **state)
{
    uint32_t expired = 0;
    uint32_t wrong_before = 0;
    uint32_t wrong = 0;
    uint32_t left_meanwhile = 0;
    (void)state;
    start_shard(VNODES, false);
    add_keys(0, FIRST);
    expire_half();
    const uint32_t vnode = asked(100);
    assert_true(vnode < VNODES);
    const uint32_t fill = table_filter_fill_permille(world.shard->table, vnode);
    for (uint32_t key = vnode; key < FIRST; key += VNODES) {
        world.evicted_before[key] = !in_memory(key);
        expired += world.purged[key];
        wrong_before += world.purged[key] && maybe(key);
    }
    assert_true(expired > 1000);
    assert_int_equal(wrong_before, expired); /* that is what a refresh is for */
    const uint32_t keys = answer(vnode, FIRST, 512);
    assert_int_equal(refreshes(), 1);
    for (uint32_t key = vnode; key < keys; key += VNODES) {
        if (in_memory(key))
            continue;
        if (world.on_disk[key])
            assert_true(maybe(key));
        if (world.purged[key])
            wrong += maybe(key);
        left_meanwhile += !world.evicted_before[key];
    }
    assert_true(left_meanwhile > 1000);
    assert_true(table_filter_fill_permille(world.shard->table, vnode) < fill);
    assert_true(wrong < expired / 2);
    shard_check_invariants(world.shard);
}

/* A key that is in memory when it is listed becomes a maybe only when it leaves. */
static void keys_in_memory_take_no_room_in_the_new_slice(void **state)
{
    (void)state;
    start_shard(VNODES, false);
    add_keys(0, FIRST);
    for (uint32_t key = 0; key < FIRST; key++)
        if (!in_memory(key))
            world.on_disk[key] = false; /* everything that left memory has expired */
    const uint32_t vnode = asked(100);
    assert_true(vnode < VNODES);
    (void)answer(vnode, FIRST, 0);
    assert_int_equal(table_filter_fill_permille(world.shard->table, vnode), 0);
    add_keys(FIRST, KEYS);
    for (uint32_t key = vnode; key < KEYS; key += VNODES)
        if (!in_memory(key) && world.on_disk[key])
            assert_true(maybe(key));
}

/* A disk that cannot be read leaves the old slice in place, and the refresh is tried again. */
static void a_failed_listing_changes_nothing(void **state)
{
    (void)state;
    start_shard(VNODES, false);
    add_keys(0, FIRST);
    const uint32_t vnode = asked(100);
    const uint32_t fill = table_filter_fill_permille(world.shard->table, vnode);
    const struct hash128 one = id_of(vnode);
    shard_listed(world.shard, world.now_ns, vnode, &one, 1, false, 0);
    shard_listed(world.shard, world.now_ns, vnode, NULL, 0, false, TG_EIO);
    assert_int_equal(refreshes(), 0);
    assert_int_equal(table_filter_fill_permille(world.shard->table, vnode), fill);
    for (uint32_t key = vnode; key < FIRST; key += VNODES)
        if (!in_memory(key) && world.on_disk[key])
            assert_true(maybe(key));
    assert_true(asked(100) < VNODES);
}

/* A vnode that is given away while it is listed ends up empty, whatever the disk still answers. */
static void a_removed_vnode_ignores_its_listing(void **state)
{
    (void)state;
    start_shard(VNODES, false);
    add_keys(0, FIRST);
    const uint32_t vnode = asked(100);
    const struct hash128 one = id_of(vnode);
    shard_listed(world.shard, world.now_ns, vnode, &one, 1, false, 0);
    table_remove_vnode(world.shard->table, vnode);
    while (table_step(world.shard->table, world.now_ns))
        continue;
    shard_listed(world.shard, world.now_ns, vnode, &one, 1, true, 0);
    assert_int_equal(table_filter_fill_permille(world.shard->table, vnode), 0);
    assert_false(maybe(vnode));
    assert_true(asked(100) < VNODES); /* the others' turn comes */
}

/* One listing is out at a time, there is a rest between two, and every vnode gets its turn. */
static void refreshes_take_turns_at_a_slow_pace(void **state)
{
    bool seen[VNODES] = {false};
    (void)state;
    start_shard(VNODES, false);
    add_keys(0, FIRST);
    for (uint32_t i = 0; i < VNODES; i++) {
        const uint32_t vnode = asked(100);
        assert_true(vnode < VNODES);
        assert_false(seen[vnode]);
        seen[vnode] = true;
        assert_int_equal(asked(100), VNODES); /* while it is out */
        (void)answer(vnode, FIRST, 0);
        assert_int_equal(asked(5), VNODES); /* the rest */
    }
    assert_int_equal(refreshes(), VNODES);
}

/* A slice full of keys that live on disk is not listed over and over, but once in a while. */
static void a_slice_that_stays_full_is_left_alone_for_long(void **state)
{
    enum { SECONDS = 3000 };
    uint32_t listings = 0;
    (void)state;
    start_shard(VNODES, false);
    add_keys(0, FIRST);
    for (uint32_t tenths = 0; tenths < SECONDS * 10; tenths++) {
        pass_ms(95);
        const uint32_t vnode = asked(1);
        if (vnode == VNODES)
            continue;
        listings++;
        (void)answer(vnode, FIRST, 0);
    }
    assert_true(listings >= 3 * VNODES); /* again after all, without any eviction */
    assert_true(listings <= SECONDS / 60 * VNODES);
}

/* Without a disk there is nothing to list. */
static void an_ephemeral_shard_lists_nothing(void **state)
{
    (void)state;
    start_shard(VNODES, true);
    filter_saturate(&world.shard->table->filter, 0);
    assert_int_equal(asked(100), VNODES);
}

/* Gathering leaves nothing out and takes nothing twice; with TIDEGATE_BENCH its time is shown. */
static void gathering_takes_each_dirty_slot_once(void **state)
{
    enum { COUNT = 32000 }; /* just below what one batch takes */
    struct timespec before;
    struct timespec after;
    (void)state;
    start_shard(MANY_VNODES, false);
    for (uint32_t key = 0; key < COUNT; key++)
        assert_int_equal(table_import(world.shard->table, key * 7 % MANY_VNODES, id_of(key),
                                      world.state, world.state_len, world.now_ns, 0),
                         0);
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    do
        shard_gather(world.shard, world.now_ns, &world.writes);
    while (world.writes.count == 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    assert_int_equal(world.writes.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t key = (uint32_t)world.writes.writes[i].id.lo;
        assert_false(world.on_disk[key]);
        world.on_disk[key] = true;
    }
    assert_int_equal(world.writes.header_count, MANY_VNODES);
    for (uint32_t i = 0; i < MANY_VNODES; i++)
        assert_int_equal(world.writes.headers[i].vnode, i);
    shard_written(world.shard, world.now_ns, true);
    if (getenv("TIDEGATE_BENCH") != NULL)
        (void)printf("gathering %d slots: %.3f ms\n", COUNT,
                     (double)(after.tv_sec - before.tv_sec) * 1e3 +
                         (double)(after.tv_nsec - before.tv_nsec) / 1e6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refresh_forgets_what_expired_and_nothing_else),
        TEST(keys_in_memory_take_no_room_in_the_new_slice),
        TEST(a_failed_listing_changes_nothing),
        TEST(a_removed_vnode_ignores_its_listing),
        TEST(refreshes_take_turns_at_a_slow_pace),
        TEST(a_slice_that_stays_full_is_left_alone_for_long),
        TEST(an_ephemeral_shard_lists_nothing),
        TEST(gathering_takes_each_dirty_slot_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
