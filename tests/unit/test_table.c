/* test_table.c - the slot table against plain arrays: memory, a disk and a replica. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "node/limit/table/table_slot.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_limit.h"

enum { VNODES = 64, KEYS = 130000, EXPORT_LEN = 32, WRITES = 512 };

static const struct limit counting = {
    .count = 1000000, .window_ns = 86400000000000, .algorithm = ALGORITHM_FIXED_WINDOW};

/* What a disk or a replica holds of one key. */
struct copy {
    uint8_t bytes[EXPORT_LEN];
    int len;
};

struct world {
    struct table *table;
    struct random random;
    int64_t now_ns;
    uint32_t count[KEYS]; /* the naive model: hits of each key */
    struct copy disk[KEYS];
    struct copy replica[4][KEYS]; /* by position; 0 unused */
    uint32_t key_of_hash[1 << 18];
    struct {
        struct table_write begun;
        uint32_t key;
        struct copy state;
    } write[WRITES];
    unsigned writes;
};

static struct world world;

static uint32_t vnode_of(uint32_t key)
{
    return key % VNODES;
}

/* Keys are found again by id through a small table: ids are mixes, so a scan would be too slow. */
static uint32_t key_of(struct hash128 id)
{
    for (uint64_t at = id.hi % (1 << 18);; at = (at + 1) % (1 << 18)) {
        assert_true(world.key_of_hash[at] != 0);
        const uint32_t key = world.key_of_hash[at] - 1;
        if (hash128_equal(limit_key(key), id))
            return key;
    }
}

/* Vnodes from VNODES - journaled on are journaled. */
static void world_init_journaled(uint64_t seed, uint8_t targets, uint32_t journaled)
{
    memset(&world, 0, sizeof world);
    random_init(&world.random, seed);
    world.now_ns = LIMIT_TEST_EPOCH_NS;
    assert_int_equal(
        table_new_journaled(&world.table, alloc_heap(), TABLE_MEMORY_MIN, VNODES, journaled), 0);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(world.table, vnode, targets);
    for (uint32_t key = 0; key < KEYS; key++) {
        uint64_t at = limit_key(key).hi % (1 << 18);
        while (world.key_of_hash[at] != 0)
            at = (at + 1) % (1 << 18);
        world.key_of_hash[at] = key + 1;
    }
}

static void world_init(uint64_t seed, uint8_t targets)
{
    world_init_journaled(seed, targets, 0);
}

static void export_to(uint32_t slot, struct copy *copy)
{
    copy->len = table_export(world.table, slot, copy->bytes, EXPORT_LEN);
    assert_true(copy->len > 0);
}

/* One hit on the key, loading it from the disk if it may be there. */
static void hit(uint32_t key)
{
    struct limit_decision got;
    engine_one(world.table, limit_key(key), vnode_of(key), &counting, 1, OPERATION_HIT, 0,
               world.now_ns, &got);
    if (got.status == LIMIT_ABSENT) {
        if (world.disk[key].len > 0)
            assert_int_equal(table_import(world.table, vnode_of(key), limit_key(key),
                                          world.disk[key].bytes, (size_t)world.disk[key].len,
                                          world.now_ns, TABLE_FROM_DISK),
                             0);
        got = limit_do(world.table, key, &counting, OPERATION_HIT, 1, 0, world.now_ns);
    }
    assert_int_equal(got.status, LIMIT_DECIDED);
    assert_int_equal(got.used, ++world.count[key]);
}

/* Takes up to `max` dirty slots for the disk, as `reader` finds them; they are written when
 * finish_writes says so. */
static void begin_writes_of(unsigned reader, unsigned max)
{
    while (world.writes < WRITES && max-- > 0) {
        const uint32_t slot = table_next_dirty(world.table, reader);
        if (slot == TABLE_NONE) {
            if (table_target_idle(world.table, reader))
                return;
            continue;
        }
        const uint32_t key = key_of(table_slot_id(world.table, slot));
        world.write[world.writes].key = key;
        export_to(slot, &world.write[world.writes].state);
        world.write[world.writes].begun = table_write_begin(world.table, slot);
        if (key % 2 == 0)
            world.write[world.writes].begun.hint = 0; /* any number will do */
        world.writes++;
    }
}

static void begin_writes(unsigned max)
{
    begin_writes_of(TABLE_DISK, max);
}

static void finish_writes(void)
{
    const bool ok = random_below(&world.random, 10) != 0;
    for (unsigned i = 0; i < world.writes; i++) {
        if (ok)
            world.disk[world.write[i].key] = world.write[i].state;
        table_write_done(world.table, &world.write[i].begun, 1, ok);
    }
    world.writes = 0;
}

/* Ships up to `max` slots to a replica; now and then it cannot take one. */
static void ship(unsigned position, unsigned max, unsigned defer_in)
{
    while (max-- > 0) {
        const uint32_t slot = table_next_dirty(world.table, position);
        if (slot == TABLE_NONE) {
            if (table_target_idle(world.table, position))
                return;
            continue;
        }
        if (defer_in != 0 && random_below(&world.random, defer_in) == 0) {
            table_defer(world.table, slot, position);
            continue;
        }
        export_to(slot, &world.replica[position][key_of(table_slot_id(world.table, slot))]);
        table_clear_dirty(world.table, slot, position);
    }
}

static void drain(unsigned position)
{
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        if (table_vnode_behind(world.table, vnode, position))
            table_resume_vnode(world.table, vnode, position);
    while (!table_target_idle(world.table, position))
        ship(position, 10000, 0);
}

static uint64_t used_in(const struct copy *copy)
{
    uint64_t used;
    if (copy->len == 0)
        return 0;
    memcpy(&used, copy->bytes + copy->len - 8, 8);
    return used;
}

/* TABLE-6: the replica is given what it has missed: all keys that the disk alone has, of the vnodes
 * in question. */
static void make_up_for_missed(unsigned position)
{
    for (uint32_t key = 0; key < KEYS; key++)
        if (table_vnode_missed(world.table, vnode_of(key), position) &&
            table_lookup(world.table, limit_key(key)) == TABLE_NONE)
            world.replica[position][key] = world.disk[key];
}

/* Keys come and go between memory and disk, targets lag, fall behind and catch up. */
static void live_a_long_time(void)
{
    for (unsigned turn = 0; turn < 6000; turn++) {
        const uint32_t hot = (uint32_t)random_below(&world.random, KEYS);
        for (unsigned i = 0; i < 60; i++)
            hit(random_below(&world.random, 4) == 0
                    ? (uint32_t)random_below(&world.random, KEYS)
                    : (hot + (uint32_t)random_below(&world.random, 300)) % KEYS);
        begin_writes(300);
        begin_writes_of(TABLE_JOURNAL, 300);
        if (random_below(&world.random, 3) == 0 || world.writes == WRITES)
            finish_writes();
        if (turn % 1500 > 150) /* else the replica lags until the ring is full */
            ship(1, 200, 4000);
        if (turn % 10 == 0)
            table_resume_vnode(world.table, (uint32_t)random_below(&world.random, VNODES), 1);
        if (turn % 2000 == 0)
            table_check_invariants(world.table);
        table_step(world.table, world.now_ns);
    }
    struct table_stats stats;
    table_stats(world.table, &stats);
    assert_true(stats.evicted > 1000);
    finish_writes();
    drain(1);
    make_up_for_missed(1);
    for (uint32_t key = 0; key < KEYS; key++) {
        assert_int_equal(used_in(&world.replica[1][key]), world.count[key]);
        if (world.count[key] > 0 && table_lookup(world.table, limit_key(key)) == TABLE_NONE) {
            assert_int_equal(used_in(&world.disk[key]), world.count[key]);
            assert_true(table_filter_maybe(world.table, vnode_of(key), limit_key(key)));
        }
    }
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* Nothing is ever lost, and the replica ends up with the newest state of every key. */
static void nothing_is_lost_between_memory_disk_and_replicas(void **state)
{
    (void)state;
    world_init(7, 3);
    live_a_long_time();
}

/* The same with vnodes whose disk is a journal with a reader of its own. */
static void nothing_is_lost_between_memory_journal_and_replicas(void **state)
{
    (void)state;
    world_init_journaled(7, 3, VNODES / 2);
    live_a_long_time();
}

/* A slot that is not journaled, or not shipped, stays: a new key finds no room instead. */
static void a_journaled_vnode_forgets_nothing_for_want_of_room(void **state)
{
    (void)state;
    uint32_t refused = 0;
    world_init_journaled(7, 3, VNODES - 1);
    for (uint32_t key = 0; key < KEYS; key++)
        refused +=
            vnode_of(key) != 0 &&
            limit_do(world.table, key, &counting, OPERATION_HIT, 1, 0, world.now_ns).status ==
                LIMIT_NO_ROOM;
    assert_true(refused > 0);
    assert_int_equal(table_next_dirty(world.table, TABLE_DISK), TABLE_NONE);
    const uint32_t dirty = table_vnode_dirty(world.table, 1, TABLE_DISK);
    assert_int_equal(dirty, table_count(world.table, 1));
    while (!table_target_idle(world.table, TABLE_JOURNAL)) {
        begin_writes_of(TABLE_JOURNAL, WRITES);
        finish_writes();
    }
    assert_int_equal(table_vnode_dirty(world.table, 1, TABLE_DISK), 0);
    assert_int_equal(
        limit_do(world.table, KEYS - 1, &counting, OPERATION_HIT, 1, 0, world.now_ns).status,
        LIMIT_NO_ROOM);
    drain(1);
    assert_int_equal(
        limit_do(world.table, KEYS - 1, &counting, OPERATION_HIT, 1, 0, world.now_ns).status,
        LIMIT_DECIDED);
    struct table_stats stats;
    table_stats(world.table, &stats);
    assert_int_equal(stats.evicted, 1);
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* Ships to those who are abreast what either lacks; how many slots were looked at. */
static unsigned ship_abreast(uint8_t abreast)
{
    unsigned seen = 0;
    for (;; seen++) {
        const uint32_t slot = table_next_abreast(world.table, abreast);
        if (slot == TABLE_NONE)
            return seen;
        const uint32_t key = key_of(table_slot_id(world.table, slot));
        for (unsigned position = 1; position < TABLE_TARGETS; position++) {
            if ((abreast & TABLE_TARGET_BIT(position)) == 0 ||
                !table_slot_due(world.table, slot, position))
                continue;
            export_to(slot, &world.replica[position][key]);
            table_clear_dirty(world.table, slot, position);
        }
    }
}

/* Readers that stand at one place are given each slot once that any of them lacks; the others go on
 * where they were. */
static void readers_that_are_abreast_share_a_walk(void **state)
{
    (void)state;
    world_init(21, 14);
    for (uint32_t key = 0; key < 300; key++)
        hit(key);
    assert_int_equal(table_abreast(world.table, 14), 14);
    assert_int_equal(table_abreast(world.table, 12), 12);
    ship(3, 100, 0);
    assert_int_equal(table_abreast(world.table, 14), 6);
    assert_int_equal(table_abreast(world.table, 8), 8);
    table_clear_dirty(world.table, table_lookup(world.table, limit_key(5)), 1);
    table_clear_dirty(world.table, table_lookup(world.table, limit_key(6)), 2);
    table_clear_dirty(world.table, table_lookup(world.table, limit_key(7)), 1);
    table_clear_dirty(world.table, table_lookup(world.table, limit_key(7)), 2);
    assert_int_equal(ship_abreast(6), 299);
    assert_true(table_target_idle(world.table, 1) && table_target_idle(world.table, 2));
    for (uint32_t key = 0; key < 300; key++) {
        assert_int_equal(used_in(&world.replica[1][key]), key != 5 && key != 7);
        assert_int_equal(used_in(&world.replica[2][key]), key != 6 && key != 7);
        assert_int_equal(used_in(&world.replica[3][key]), key < 100);
    }
    ship(3, 200, 0);
    for (uint32_t key = 0; key < 300; key++)
        assert_int_equal(used_in(&world.replica[3][key]), 1);
    assert_int_equal(table_abreast(world.table, 14), 14);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(world.table, vnode, 12);
    hit(300);
    assert_int_equal(table_abreast(world.table, 14), 12);
    assert_int_equal(ship_abreast(12), 1);
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* A full ring makes a reader look at every slot, and it is done when it was handed the last one. */
static void a_reader_that_lost_its_place_is_idle_after_the_last_slot(void **state)
{
    (void)state;
    world_init(8, 2);
    for (uint32_t key = 0; key < 50000; key++)
        hit(key);
    drain(1);
    for (uint32_t key = 50000; key-- > 0;) /* the last slot is long out of the ring */
        hit(key);
    unsigned shipped = 0;
    while (shipped < 50000) {
        const uint32_t slot = table_next_dirty(world.table, 1);
        if (slot == TABLE_NONE)
            continue;
        table_clear_dirty(world.table, slot, 1);
        shipped++;
    }
    while (!table_target_idle(world.table, 1))
        assert_int_equal(table_next_dirty(world.table, 1), TABLE_NONE);
    assert_true(table_vnode_idle(world.table, 0, 1));
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* Exports a slot that is being written once more, with all that it says by now. */
static void write_again(struct table_write *writes, uint32_t count, uint16_t vnode)
{
    static uint8_t bytes[TABLE_EXPORT_MAX];
    struct table_state got;
    assert_true(table_write_again(world.table, writes, count, bytes, &got));
    const uint32_t key = key_of(got.id);
    const uint32_t slot = table_lookup(world.table, got.id);
    assert_int_equal(writes->hint, slot);
    assert_int_equal(got.vnode, vnode_of(key));
    assert_int_equal(got.vnode, vnode);
    assert_int_equal(got.expires_ns, table_expires_ns(world.table, slot));
    assert_in_range(got.len, 1, EXPORT_LEN);
    world.disk[key].len = (int)got.len;
    memcpy(world.disk[key].bytes, bytes, got.len);
    assert_int_equal(used_in(&world.disk[key]), world.count[key]);
}

/* Takes up to `most` slots for the disk, as a round of it hands them out; `meanwhile` keys change
 * for each of them before it is exported. */
static void write_next_of_round(uint32_t most, uint32_t meanwhile)
{
    struct table_write writes[WRITES];
    uint16_t vnodes[WRITES];
    const uint32_t count = table_round_take(world.table, writes, vnodes, most);
    assert_in_range(count, 0, most);
    for (uint32_t i = 0; i < count * meanwhile; i++)
        hit((uint32_t)random_below(&world.random, 20000));
    for (uint32_t i = 0; i < count; i++)
        write_again(writes + i, count - i, vnodes[i]);
    table_write_done(world.table, writes, count, true);
}

/* All that was dirty when a round of the disk began is handed out in it: where it was little and
 * where it was much, while more changes than it takes, and when the ring is too short for that. */
static void a_round_of_the_disk_takes_what_was_dirty_at_its_begin(void **state)
{
    static uint32_t began[KEYS];
    (void)state;
    world_init(10, 3);
    for (uint32_t key = 0; key < 20000; key++)
        hit(key);
    drain(1);
    for (uint32_t round = 0; round < 12; round++) {
        const uint32_t meanwhile = round % 3; /* changes for each slot taken */
        for (uint32_t n = 0; n < (round % 2 == 0 ? 50 : 20000); n++)
            hit((uint32_t)random_below(&world.random, 20000));
        memcpy(began, world.count, sizeof began);
        table_round_begin(world.table);
        for (uint32_t n = 0; !table_round_over(world.table); n++) {
            assert_true(n < 100000);
            write_next_of_round(n % 7 == 0 ? WRITES : 1 + n % 7, meanwhile);
            if (round == 7 && n == 5)
                for (uint32_t key = 0; key < 20000; key++) { /* more than the ring holds */
                    hit(key);
                    drain(1);
                }
            if (n % 1000 == 0)
                table_check_invariants(world.table);
        }
        for (uint32_t key = 0; key < 20000; key++)
            assert_true(used_in(&world.disk[key]) >= began[key]);
    }
    table_free(&world.table);
}

/* Slots that are being written move as the table grows, and keys go and come back: each write is of
 * the slot that it began with, and of no other. */
static void a_write_finds_its_slot_wherever_it_has_moved(void **state)
{
    enum { OLD = WRITES, ALL = 40000 };
    struct table_write writes[OLD];
    struct table_write was[OLD];
    uint16_t vnodes[OLD];
    uint32_t count = 0;
    uint32_t moved = 0;
    uint32_t left = 0;
    (void)state;
    world_init(5, 1);
    for (uint32_t key = 0; key < OLD; key++)
        hit(key);
    for (table_round_begin(world.table); !table_round_over(world.table);)
        count += table_round_take(world.table, writes + count, vnodes + count, OLD - count);
    assert_int_equal(count, OLD);
    for (uint32_t key = OLD; key < ALL; key++)
        hit(key);
    for (uint32_t key = 0; key < OLD; key += 8) {
        table_drop(world.table, table_lookup(world.table, limit_key(key)));
        world.count[key] = 0;
        if (key % 16 == 0)
            hit(key);
    }
    memcpy(was, writes, sizeof was);
    for (uint32_t i = 0; i < count; i++) {
        struct table_state got;
        static uint8_t bytes[TABLE_EXPORT_MAX];
        if (!table_write_again(world.table, writes + i, count - i, bytes, &got))
            continue;
        assert_int_not_equal(key_of(got.id) % 8, 0);
        write_again(writes + i, count - i, vnodes[i]);
        moved += writes[i].hint != was[i].hint;
        left++;
    }
    assert_int_equal(left, OLD - OLD / 8);
    assert_true(moved > OLD / 2);
    table_check_invariants(world.table);
    table_write_done(world.table, was, count, true); /* where they were will do as well */
    table_check_invariants(world.table);
    count = 0;
    while (!table_target_idle(world.table, TABLE_DISK)) {
        begin_writes(WRITES);
        for (unsigned i = 0; i < world.writes; i++)
            table_write_done(world.table, &world.write[i].begun, 1, true);
        count += world.writes;
        world.writes = 0;
    }
    assert_int_equal(count, ALL - OLD + OLD / 16); /* those that came back are not on disk */
    table_free(&world.table);
}

/* What was deferred comes again after a resume, and not before. */
static void a_deferred_vnode_waits_for_its_resume(void **state)
{
    (void)state;
    world_init(9, 2);
    hit(1);
    hit(2);
    const uint32_t slot = table_next_dirty(world.table, 1);
    table_defer(world.table, slot, 1);
    const uint32_t vnode = table_slot_vnode(world.table, slot);
    assert_true(table_vnode_behind(world.table, vnode, 1));
    hit(key_of(table_slot_id(world.table, slot)));
    ship(1, 100, 0);
    assert_true(table_target_idle(world.table, 1));
    assert_int_equal(used_in(&world.replica[1][1]) + used_in(&world.replica[1][2]), 1);
    table_resume_vnode(world.table, vnode, 1);
    ship(1, 100, 0);
    assert_int_equal(used_in(&world.replica[1][1]) + used_in(&world.replica[1][2]), 3);
    assert_int_equal(table_vnode_seq(world.table, vnode), 2);
    table_free(&world.table);
}

/* Without a disk, or with one that is not written, no key makes way for another one. */
static void a_full_table_refuses_new_keys_and_keeps_the_old(void **state)
{
    static const uint8_t targets[] = {TABLE_TARGET_BIT(TABLE_REPLICA_1), 3};
    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        uint32_t decided = 0;
        world_init(10, targets[n]);
        for (uint32_t key = 0; key < KEYS; key++)
            if (limit_do(world.table, key, &counting, OPERATION_HIT, 1, 0, world.now_ns).status ==
                LIMIT_DECIDED)
                world.count[key] = ++decided > 0;
        struct table_stats stats;
        table_stats(world.table, &stats);
        assert_int_equal(stats.used, decided);
        assert_int_equal(stats.refused, KEYS - decided);
        assert_int_equal(stats.evicted, 0);
        assert_true(decided >= stats.capacity / 100 * 99 && decided < KEYS);
        for (uint32_t key = 0; key < KEYS; key++)
            assert_int_equal(table_lookup(world.table, limit_key(key)) != TABLE_NONE,
                             world.count[key]);
        table_check_invariants(world.table);
        table_free(&world.table);
    }
}

/* What has expired makes room for new keys wherever it lies, and nothing that counts goes; and
 * nowhere are there more slots than elsewhere afterwards. */
static void nothing_is_forgotten_while_much_has_expired(void **state)
{
    (void)state;
    const struct limit brief = {
        .count = 10, .window_ns = 1000000, .algorithm = ALGORITHM_TOKEN_BUCKET};
    world_init(10, 2);
    struct table_stats stats;
    table_stats(world.table, &stats);
    const uint32_t full = (uint32_t)stats.capacity / 100 * 97;
    uint32_t key = 0;
    for (; key < full; key++)
        assert_int_equal(limit_do(world.table, key, key % 4 == 0 ? &counting : &brief,
                                  OPERATION_HIT, 1, 0, world.now_ns)
                             .status,
                         LIMIT_DECIDED);
    drain(1);
    world.now_ns += (int64_t)brief.window_ns;
    for (const uint32_t end = key + full / 2; key < end; key++) {
        assert_int_equal(
            limit_do(world.table, key, &counting, OPERATION_HIT, 1, 0, world.now_ns).status,
            LIMIT_DECIDED);
        if (key % 300 == 0) /* the look for what has expired has not got far */
            (void)table_step(world.table, world.now_ns);
    }
    table_stats(world.table, &stats);
    assert_true(stats.expired > full / 4);
    for (uint32_t old = 0; old < full; old += 4)
        assert_int_not_equal(table_lookup(world.table, limit_key(old)), TABLE_NONE);
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* Hits new keys from `first` on, `count` of them; the key after the last. */
static uint32_t hit_new(uint32_t first, uint32_t count)
{
    for (uint32_t key = first; key < first + count; key++)
        hit(key);
    return first + count;
}

/* TABLE-2 and TABLE-6: a replica that gets nothing for long, while the disk is written, costs no
 * key: what is on disk goes there, and the table knows that the replica has missed something. */
static void a_replica_that_is_away_costs_no_key(void **state)
{
    (void)state;
    world_init(10, 7);
    struct table_stats stats;
    table_stats(world.table, &stats);
    const uint32_t half = (uint32_t)stats.capacity / 2;
    assert_true(half + half + half / 4 <= KEYS);
    uint32_t key = hit_new(0, half);
    while (!table_target_idle(world.table, TABLE_DISK)) {
        begin_writes(WRITES);
        for (unsigned i = 0; i < world.writes; i++)
            table_write_done(world.table, &world.write[i].begun, 1, true);
        world.writes = 0;
    }
    drain(2);
    assert_false(table_missed_news(world.table));
    key = hit_new(key, half + half / 4);
    table_stats(world.table, &stats);
    assert_true(stats.evicted >= key - stats.capacity);
    for (uint32_t at = 0; at < key; at++)
        assert_true(table_lookup(world.table, limit_key(at)) != TABLE_NONE ||
                    table_filter_maybe(world.table, vnode_of(at), limit_key(at)));
    assert_true(table_missed_news(world.table));
    assert_false(table_missed_news(world.table));
    assert_true(table_vnode_missed(world.table, 3, 1));
    assert_false(table_vnode_missed(world.table, 3, 2));
    table_forgive_missed(world.table, 3, 1);
    assert_false(table_vnode_missed(world.table, 3, 1));
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* Expired slots vanish without a trace, but a refund that was not shipped waits. */
static void expired_slots_vanish_unless_a_refund_is_unshipped(void **state)
{
    (void)state;
    world_init(11, 2);
    const struct limit bucket = {.count = 10, .window_ns = 1000000000};
    for (uint32_t key = 0; key < 1000; key++)
        (void)limit_do(world.table, key, &bucket, OPERATION_CHECK, 5, 0, world.now_ns);
    ship(1, 1000, 0);
    (void)limit_do(world.table, 7, &bucket, OPERATION_RESET, 0, 0, world.now_ns);
    world.now_ns += 2000000000;
    for (unsigned i = 0; i < 100; i++)
        table_step(world.table, world.now_ns);
    struct table_stats stats;
    table_stats(world.table, &stats);
    assert_int_equal(stats.used, 1);
    assert_int_equal(stats.expired, 999);
    assert_int_equal(stats.evicted, 0);
    ship(1, 10, 0);
    for (unsigned i = 0; i < 100; i++)
        table_step(world.table, world.now_ns);
    table_stats(world.table, &stats);
    assert_int_equal(stats.used, 0);
    table_free(&world.table);
}

/* Removing a vnode takes all of its slots and no other; one being written goes when it is done. */
static void removing_a_vnode_takes_exactly_its_slots(void **state)
{
    (void)state;
    world_init(12, 1);
    for (uint32_t key = 0; key < 20000; key++)
        hit(key);
    begin_writes(100);
    const uint32_t before = table_count(world.table, 5);
    assert_true(before > 100);
    table_remove_vnode(world.table, 5);
    while (table_step(world.table, world.now_ns)) {
    }
    assert_int_equal(table_count(world.table, 5), 0);
    table_check_invariants(world.table);
    finish_writes();
    struct table_stats stats;
    table_stats(world.table, &stats);
    assert_int_equal(stats.used, 20000 - before);
    for (uint32_t key = 0; key < 20000; key++)
        assert_int_equal(table_lookup(world.table, limit_key(key)) == TABLE_NONE,
                         vnode_of(key) == 5);
    /* The vnode can come back at once. */
    table_set_targets(world.table, 5, 1);
    world.count[5] = 0;
    hit(5);
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* A slot that comes late for a vnode that is being removed goes with it: the removal ends. */
static void a_removal_ends_though_a_slot_comes_late(void **state)
{
    (void)state;
    world_init(12, 1);
    for (uint32_t key = 0; key < 20000; key++)
        hit(key);
    uint32_t late = 0;
    while (vnode_of(late) != 5)
        late++;
    struct copy copy;
    export_to(table_lookup(world.table, limit_key(late)), &copy);
    table_drop(world.table, table_lookup(world.table, limit_key(late)));
    table_remove_vnode(world.table, 5);
    assert_true(table_step(world.table, world.now_ns)); /* the place freed above lies behind now */
    assert_int_equal(table_import(world.table, 5, limit_key(late), copy.bytes, (size_t)copy.len,
                                  world.now_ns, TABLE_FROM_DISK),
                     0);
    while (table_step(world.table, world.now_ns)) {
    }
    assert_false(table_vnode_removing(world.table, 5));
    assert_int_equal(table_count(world.table, 5), 0);
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* A state that came from the disk is clean and loses against memory; one from a stream wins. */
static void imports_know_where_they_come_from(void **state)
{
    (void)state;
    world_init(13, 3);
    struct copy copy;
    hit(1);
    hit(1);
    export_to(table_lookup(world.table, limit_key(1)), &copy);
    hit(1);
    assert_int_equal(table_import(world.table, 1, limit_key(1), copy.bytes, (size_t)copy.len,
                                  world.now_ns, TABLE_FROM_DISK),
                     0);
    assert_int_equal(limit_do(world.table, 1, &counting, OPERATION_PEEK, 0, 0, world.now_ns).used,
                     3);
    assert_int_equal(
        table_import(world.table, 1, limit_key(1), copy.bytes, (size_t)copy.len, world.now_ns, 0),
        0);
    assert_int_equal(limit_do(world.table, 1, &counting, OPERATION_PEEK, 0, 0, world.now_ns).used,
                     2);
    ship(1, 10, 0);
    begin_writes(10);
    finish_writes();
    assert_int_equal(table_import(world.table, 2, limit_key(2), copy.bytes, (size_t)copy.len,
                                  world.now_ns, TABLE_FROM_DISK),
                     0);
    ship(1, 10, 0);
    assert_int_equal(world.replica[1][2].len, 0);
    assert_int_equal(
        table_import(world.table, 3, limit_key(3), copy.bytes, (size_t)copy.len, INT64_MAX, 0), 0);
    assert_int_equal(table_lookup(world.table, limit_key(3)), TABLE_NONE);
    table_free(&world.table);
}

/* Bytes from nowhere are refused or stored, never trusted: no crash, and the books stay right. */
static void hostile_bytes_are_refused(void **state)
{
    (void)state;
    world_init(14, 3);
    static uint8_t good[ALGORITHM_COUNT][256];
    int len[ALGORITHM_COUNT];
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        const struct limit limit = {
            .count = 20, .window_ns = 60000000000, .algorithm = (uint8_t)algorithm};
        for (unsigned i = 0; i < 9; i++)
            (void)limit_do(world.table, algorithm, &limit, OPERATION_CHECK, 1 + i % 3, 0,
                           world.now_ns + i * 1000);
        len[algorithm] = table_export(world.table, table_lookup(world.table, limit_key(algorithm)),
                                      good[algorithm], sizeof good[algorithm]);
        assert_true(len[algorithm] > 0);
        assert_int_equal(table_export(world.table, table_lookup(world.table, limit_key(algorithm)),
                                      good[algorithm], (size_t)len[algorithm] - 1),
                         TG_ETOOBIG);
    }
    unsigned refused = 0;
    for (unsigned n = 0; n < 200000; n++) {
        uint8_t bytes[256];
        const unsigned algorithm = n % ALGORITHM_COUNT;
        size_t size = (size_t)len[algorithm];
        memcpy(bytes, good[algorithm], sizeof bytes);
        for (uint64_t i = random_below(&world.random, 4); i > 0; i--)
            bytes[random_below(&world.random, size)] = (uint8_t)random_next(&world.random);
        if (random_below(&world.random, 4) == 0)
            size = random_below(&world.random, size + 4);
        const uint32_t key = 100 + (uint32_t)random_below(&world.random, 500);
        const int rc = table_import(world.table, vnode_of(key), limit_key(key), bytes, size,
                                    world.now_ns, (unsigned)random_below(&world.random, 2));
        refused += rc != 0;
        assert_true(rc <= 0);
        const uint32_t slot = table_lookup(world.table, limit_key(key));
        if (slot != TABLE_NONE) {
            const struct limit limit = {
                .count = 1 + random_below(&world.random, 30),
                .window_ns = 1000000 + random_below(&world.random, 1u << 30),
                .algorithm = (uint8_t)slot_algorithm(world.table, &world.table->slots[slot])};
            (void)limit_do(world.table, key, &limit, (enum operation)random_below(&world.random, 5),
                           1, 0, world.now_ns + (int64_t)random_below(&world.random, 1u << 30));
        }
    }
    assert_true(refused > 1000);
    table_check_invariants(world.table);
    table_free(&world.table);
}

/* Each allocation that fails makes table_new fail cleanly. */
static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        struct alloc_failing failing;
        alloc_failing_init(&failing, fail_at);
        struct table *table;
        const int rc = table_new(&table, &failing.allocator, TABLE_MEMORY_MIN, VNODES);
        if (rc == 0)
            table_free(&table);
        assert_null(table);
        assert_int_equal(failing.bytes_live, 0);
        if (rc == 0)
            return;
        assert_int_equal(rc, TG_ENOMEM);
    }
}

/* A budget too small for what was asked is refused, not stretched. */
static void budgets_are_checked_and_kept(void **state)
{
    (void)state;
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN - 1, 4096), TG_EINVALID);
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 65536), TG_EINVALID);
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 0), TG_EINVALID);
    for (size_t bytes = TABLE_MEMORY_MIN; bytes < (size_t)64 << 20; bytes = bytes * 3 / 2) {
        struct alloc_failing counting_heap;
        alloc_failing_init(&counting_heap, 0);
        assert_int_equal(table_new(&table, &counting_heap.allocator, bytes, 4096), 0);
        assert_true(counting_heap.bytes_live <= bytes);
        table_free(&table);
    }
}

/* Promise S9: a million keys of each of the small algorithms within 40 MB, nothing left out. */
static void a_million_keys_take_40_bytes_each(void **state)
{
    (void)state;
    for (unsigned algorithm = 0; algorithm < EFFORT(ALGORITHM_SLIDING_WINDOW + 1); algorithm++) {
        const struct limit limit = {
            .count = 60, .window_ns = 60000000000, .algorithm = (uint8_t)algorithm};
        struct table *table;
        assert_int_equal(table_new(&table, alloc_heap(), 40000000, 4096), 0);
        for (uint64_t key = 0; key < 1000000; key++)
            (void)limit_do(table, key, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS);
        struct table_stats stats;
        table_stats(table, &stats);
        assert_int_equal(stats.used, 1000000);
        assert_true(stats.bytes <= 40 * stats.used);
        print_message("%s: %.2f bytes a key of 1M\n", algorithm_name(algorithm),
                      (double)stats.bytes / (double)stats.used);
        table_free(&table);
        /* In a large table too memory follows the keys. */
        assert_int_equal(table_new(&table, alloc_heap(), (size_t)256 << 20, 4096), 0);
        for (uint64_t key = 0; algorithm == 0 && key < 1000000; key++)
            (void)limit_do(table, key, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS);
        table_stats(table, &stats);
        if (algorithm == 0)
            print_message("  in a table of 256 MiB: %.2f\n",
                          (double)stats.bytes / (double)stats.used);
        table_free(&table);
    }
}

/* Promise S9: a log of 500 events takes 2.2 KB at most, one by one as they come. */
static void a_log_of_500_events_takes_2200_bytes(void **state)
{
    (void)state;
    enum { LOGS = 4000 };
    const struct limit limit = {
        .count = 500, .window_ns = 3600000000000, .algorithm = ALGORITHM_SLIDING_LOG};
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), (size_t)24 << 20, 64), 0);
    struct table_stats empty;
    table_stats(table, &empty);
    for (unsigned event = 0; event < 500; event++)
        for (uint64_t key = 0; key < LOGS; key++)
            assert_true(limit_do(table, key, &limit, OPERATION_CHECK, 1, 0,
                                 LIMIT_TEST_EPOCH_NS + event * 1000000)
                            .allowed);
    struct table_stats stats;
    table_stats(table, &stats);
    assert_int_equal(stats.used, LOGS);
    const double each = (double)(stats.bytes - empty.bytes) / LOGS;
    print_message("sliding_log of 500: %.0f bytes a key, holes of the arena included; "
                  "%.0f in blocks\n",
                  each, (double)stats.arena_bytes / LOGS + 37);
    assert_true((double)stats.arena_bytes / LOGS + 37 <= 2200);
    assert_true(each <= 2200);
    table_check_invariants(table);
    table_free(&table);
}

/* Promise S9: 60 sub-windows take 220 bytes a key at most, nothing left out. */
static void sixty_sub_windows_take_220_bytes(void **state)
{
    (void)state;
    enum { CUT = 100000 };
    const struct limit limit = {
        .count = 100000, .window_ns = 3600000000000, .algorithm = ALGORITHM_SLIDING_BUCKETS};
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), (size_t)32 << 20, 4096), 0);
    for (unsigned minute = 0; minute < 60; minute += 7)
        for (uint64_t key = 0; key < CUT; key++)
            assert_true(limit_do(table, key, &limit, OPERATION_CHECK, 1000, 0,
                                 LIMIT_TEST_EPOCH_NS + minute * INT64_C(60000000000))
                            .allowed);
    struct table_stats stats;
    table_stats(table, &stats);
    assert_int_equal(stats.used, CUT);
    print_message("sliding_buckets of 60: %.1f bytes a key of 100,000\n",
                  (double)stats.bytes / CUT);
    assert_true(stats.bytes <= (uint64_t)220 * CUT);
    table_check_invariants(table);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_between_memory_disk_and_replicas),
        cmocka_unit_test(nothing_is_lost_between_memory_journal_and_replicas),
        cmocka_unit_test(a_journaled_vnode_forgets_nothing_for_want_of_room),
        cmocka_unit_test(readers_that_are_abreast_share_a_walk),
        cmocka_unit_test(a_reader_that_lost_its_place_is_idle_after_the_last_slot),
        cmocka_unit_test(a_round_of_the_disk_takes_what_was_dirty_at_its_begin),
        cmocka_unit_test(a_write_finds_its_slot_wherever_it_has_moved),
        cmocka_unit_test(a_deferred_vnode_waits_for_its_resume),
        cmocka_unit_test(a_replica_that_is_away_costs_no_key),
        cmocka_unit_test(a_full_table_refuses_new_keys_and_keeps_the_old),
        cmocka_unit_test(nothing_is_forgotten_while_much_has_expired),
        cmocka_unit_test(expired_slots_vanish_unless_a_refund_is_unshipped),
        cmocka_unit_test(removing_a_vnode_takes_exactly_its_slots),
        cmocka_unit_test(a_removal_ends_though_a_slot_comes_late),
        cmocka_unit_test(imports_know_where_they_come_from),
        cmocka_unit_test(hostile_bytes_are_refused),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(budgets_are_checked_and_kept),
        cmocka_unit_test(a_million_keys_take_40_bytes_each),
        cmocka_unit_test(sixty_sub_windows_take_220_bytes),
        cmocka_unit_test(a_log_of_500_events_takes_2200_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
