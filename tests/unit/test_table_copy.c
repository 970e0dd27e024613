/* test_table_copy.c - complete copies of vnodes against plain arrays: memory and a disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/unit/support_limit.h"

enum { VNODES = 4, KEYS = 96, STEPS = 400000, EXPORT_LEN = 64, WRITES = 64 };

static const struct limit counting = {
    .count = 1000000000000, .window_ns = 86400000000000, .algorithm = ALGORITHM_FIXED_WINDOW};
static const struct limit wide = {
    .count = 1000000000000, .window_ns = 86400000000000, .algorithm = ALGORITHM_SLIDING_WINDOW};

static const int64_t now_ns = LIMIT_TEST_EPOCH_NS;

struct record {
    uint8_t bytes[EXPORT_LEN];
    int len; /* 0: none */
};

struct world {
    struct table *table;
    struct table *elsewhere; /* makes the states that are imported */
    struct random random;
    uint64_t used[KEYS]; /* the model */
    bool copied[KEYS];   /* in the copy that arrives */
    bool copying[VNODES];
    struct record disk[KEYS];
    struct {
        struct table_write begun;
        uint32_t key;
        bool as_new;
        struct record state;
    } write[WRITES];
    unsigned writes;
    unsigned clean_ends;
    unsigned doubtful_ends;
};

static struct world world;

static const struct limit *limit_of(uint32_t key)
{
    return key % 3 == 0 ? &wide : &counting;
}

static uint32_t vnode_of(uint32_t key)
{
    return key % VNODES;
}

static uint32_t key_of(struct hash128 id)
{
    for (uint32_t key = 0; key < KEYS; key++)
        if (hash128_equal(limit_key(key), id))
            return key;
    fail();
    return 0;
}

static void world_init(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    random_init(&world.random, seed);
    assert_int_equal(table_new(&world.table, alloc_heap(), TABLE_MEMORY_MIN, VNODES), 0);
    assert_int_equal(table_new(&world.elsewhere, alloc_heap(), TABLE_MEMORY_MIN, VNODES), 0);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(world.table, vnode, TABLE_TARGET_BIT(TABLE_DISK));
}

static void world_free(void)
{
    table_check_invariants(world.table);
    table_free(&world.table);
    table_free(&world.elsewhere);
}

static struct limit_decision act(struct table *table, uint32_t key, enum operation operation,
                                 uint64_t cost)
{
    struct limit_decision got;
    engine_one(table, limit_key(key), vnode_of(key), limit_of(key), cost, operation, LIMIT_LOADED,
               now_ns, &got);
    assert_int_equal(got.status, LIMIT_DECIDED);
    return got;
}

static void hit(uint32_t key, uint64_t cost)
{
    world.used[key] += cost;
    assert_int_equal(act(world.table, key, OPERATION_HIT, cost).used, world.used[key]);
}

/* A state of `used` tokens arrives from a stream. */
static void import(uint32_t key, uint64_t used)
{
    uint8_t bytes[EXPORT_LEN];
    (void)act(world.elsewhere, key, OPERATION_RESET, 0);
    (void)act(world.elsewhere, key, OPERATION_HIT, used);
    const uint32_t slot = table_lookup(world.elsewhere, limit_key(key));
    const int len = table_export(world.elsewhere, slot, bytes, sizeof bytes);
    assert_true(len > 0);
    table_drop(world.elsewhere, slot);
    assert_int_equal(
        table_import(world.table, vnode_of(key), limit_key(key), bytes, (size_t)len, now_ns, 0), 0);
    world.used[key] = used;
    world.copied[key] = true;
}

static uint64_t random_used(void)
{
    return 1 + random_below(&world.random, 2) * 300000000 + random_below(&world.random, 100);
}

static void begin(uint32_t vnode)
{
    table_copy_begin(world.table, vnode);
    world.copying[vnode] = true;
    for (uint32_t key = vnode; key < KEYS; key += VNODES)
        world.copied[key] = false;
}

static void abort_copy(uint32_t vnode)
{
    table_copy_abort(world.table, vnode);
    world.copying[vnode] = false;
}

/* What was not in the copy is new, at once; after a doubtful copy some of it may have stayed. */
static void end(uint32_t vnode)
{
    const int rc = table_copy_end(world.table, vnode);
    assert_true(rc == 0 || rc == TG_EBUSY);
    world.copying[vnode] = false;
    world.clean_ends += rc == 0;
    world.doubtful_ends += rc != 0;
    for (uint32_t key = vnode; key < KEYS; key += VNODES) {
        const uint64_t used = act(world.table, key, OPERATION_PEEK, 0).used;
        if (world.copied[key]) {
            assert_int_equal(used, world.used[key]);
            continue;
        }
        if (rc == 0)
            assert_int_equal(used, 0);
        assert_true(used == 0 || used == world.used[key]);
        world.used[key] = used;
    }
}

static void begin_writes(unsigned max)
{
    while (world.writes < WRITES && max-- > 0) {
        const uint32_t slot = table_next_dirty(world.table, TABLE_DISK);
        if (slot == TABLE_NONE)
            return;
        const uint32_t key = key_of(table_slot_id(world.table, slot));
        struct record *state = &world.write[world.writes].state;
        world.write[world.writes].key = key;
        world.write[world.writes].as_new = table_expires_ns(world.table, slot) <= now_ns;
        state->len = table_export(world.table, slot, state->bytes, EXPORT_LEN);
        assert_true(state->len > 0);
        world.write[world.writes++].begun = table_write_begin(world.table, slot);
    }
}

static void finish_writes(bool ok)
{
    for (unsigned i = 0; i < world.writes; i++) {
        if (ok) {
            world.disk[world.write[i].key] = world.write[i].state;
            if (world.write[i].as_new) /* as the store does */
                world.disk[world.write[i].key].len = 0;
        }
        table_write_done(world.table, &world.write[i].begun, 1, ok);
    }
    world.writes = 0;
}

/* Writes all that is dirty, with the passes done. */
static void settle(void)
{
    finish_writes(true);
    for (unsigned round = 0; round < 4; round++) {
        while (table_step(world.table, now_ns)) {
        }
        do {
            begin_writes(WRITES);
            finish_writes(true);
        } while (!table_target_idle(world.table, TABLE_DISK));
    }
}

/* The tokens that a record of the disk stands for. */
static uint64_t used_on_disk(uint32_t key)
{
    const struct record *record = &world.disk[key];
    const uint32_t slot = table_lookup(world.elsewhere, limit_key(key));
    if (slot != TABLE_NONE)
        table_drop(world.elsewhere, slot);
    if (record->len == 0)
        return 0;
    assert_int_equal(table_import(world.elsewhere, vnode_of(key), limit_key(key), record->bytes,
                                  (size_t)record->len, now_ns, 0),
                     0);
    return act(world.elsewhere, key, OPERATION_PEEK, 0).used;
}

static void check_all(void)
{
    for (uint32_t key = 0; key < KEYS; key++)
        assert_int_equal(act(world.table, key, OPERATION_PEEK, 0).used, world.used[key]);
}

static void random_step(void)
{
    const uint32_t key = (uint32_t)random_below(&world.random, KEYS);
    const uint32_t vnode = vnode_of(key);
    const uint64_t dice = random_below(&world.random, 100);
    if (dice < 40 && world.copying[vnode]) {
        import(key, random_used());
    } else if (dice < 40) {
        hit(key, random_used());
    } else if (dice < 50) {
        assert_int_equal(act(world.table, key, OPERATION_PEEK, 0).used, world.used[key]);
    } else if (dice < 56) {
        begin(vnode); /* perhaps once more */
    } else if (dice < 64 && world.copying[vnode]) {
        end(vnode);
    } else if (dice < 66) {
        abort_copy(vnode);
    } else if (dice < 75) {
        (void)table_step(world.table, now_ns);
    } else if (dice < 90) {
        begin_writes((unsigned)random_below(&world.random, 16));
    } else if (dice < 97) {
        finish_writes(random_below(&world.random, 8) != 0);
    } else {
        world.used[key] = 0;
        (void)act(world.table, key, OPERATION_RESET, 0);
    }
}

/* Copies begun, begun again, broken off and ended, among decisions and writes of all kinds: a key
 * says what the model says at any moment, and in the end the disk says the same. */
static void copies_leave_nothing_over_in_memory_or_on_disk(void **state)
{
    (void)state;
    world_init(301);
    for (unsigned n = 0; n < STEPS; n++) {
        random_step();
        if (n % 1000 == 0)
            table_check_invariants(world.table);
        if (n % 5000 != 0)
            continue;
        settle();
        check_all();
        for (uint32_t key = 0; key < KEYS; key++)
            assert_int_equal(used_on_disk(key), world.used[key]);
    }
    assert_true(world.clean_ends > 1000 && world.doubtful_ends > 1000);
    world_free();
}

/* Whatever came before, two copies on end, the second begun when the vnode is settled, leave
 * exactly what was in the second. */
static void a_copy_of_a_settled_vnode_is_exact(void **state)
{
    (void)state;
    world_init(302);
    for (unsigned n = 0; n < 3000; n++) {
        for (unsigned i = random_below(&world.random, 60) & 0xff; i > 0; i--)
            random_step();
        for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
            begin(vnode);
            end(vnode);
            while (table_step(world.table, now_ns)) {
            }
            assert_true(table_copy_settled(world.table, vnode));
            assert_false(table_copy_fading(world.table, vnode));
            const unsigned clean = world.clean_ends;
            begin(vnode);
            for (uint32_t key = vnode; key < KEYS; key += VNODES)
                if (random_below(&world.random, 2) == 0)
                    import(key, random_used());
            end(vnode);
            assert_int_equal(world.clean_ends, clean + 1);
        }
    }
    world_free();
}

/* Writes all that is dirty; returns how many slots. */
static unsigned write_all(struct table *table)
{
    unsigned written = 0;
    while (!table_target_idle(table, TABLE_DISK)) {
        const uint32_t slot = table_next_dirty(table, TABLE_DISK);
        if (slot == TABLE_NONE)
            continue;
        const struct table_write write = table_write_begin(table, slot);
        table_write_done(table, &write, 1, true);
        written++;
    }
    return written;
}

/* A pass goes through a large table in portions; meanwhile every slot left over reads as new, other
 * vnodes do not change, and the vnode counts as fading until the last one is gone. */
static void a_pass_over_many_slots_takes_its_time(void **state)
{
    (void)state;
    enum { MANY = 60000, STEP_SLOTS = 4096 };
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, VNODES), 0);
    table_set_targets(table, 1, TABLE_TARGET_BIT(TABLE_DISK));
    for (uint32_t key = 0; key < MANY; key++) {
        struct limit_decision got;
        engine_one(table, limit_key(key), vnode_of(key), &counting, 1 + key % 7, OPERATION_HIT,
                   LIMIT_LOADED, now_ns, &got);
    }
    assert_int_equal(write_all(table), MANY / VNODES);
    for (unsigned i = 0; i < 400; i++) /* so that the look for expired slots is far ahead */
        (void)table_step(table, now_ns);
    uint32_t last = 0;
    for (uint32_t slot = 0; slot < table_slots_end(table); slot++)
        if (table_slot_used(table, slot) && table_slot_vnode(table, slot) == 1)
            last = slot;
    table_copy_begin(table, 1);
    assert_int_equal(table_copy_end(table, 1), 0);
    table_copy_begin(table, 2); /* ends while the pass for 1 runs */
    unsigned steps = 0;
    for (bool more = true; more; steps++) {
        if (steps == 2)
            assert_int_equal(table_copy_end(table, 2), 0);
        for (uint32_t key = steps; key < MANY; key += 997) {
            const uint32_t vnode = vnode_of(key);
            const bool faded = vnode == 1 || (vnode == 2 && steps >= 2);
            const uint32_t slot = table_lookup(table, limit_key(key));
            if (slot != TABLE_NONE)
                assert_int_equal(table_expires_ns(table, slot) <= now_ns, faded);
            else
                assert_true(faded);
        }
        more = table_step(table, now_ns);
        assert_int_equal(table_copy_fading(table, 1), steps < last / STEP_SLOTS);
    }
    assert_true(steps > last / STEP_SLOTS + 1 && steps < 4 * (last / STEP_SLOTS));
    assert_int_equal(table_count(table, 0), MANY / VNODES);
    assert_int_equal(table_count(table, 2), 0);
    assert_int_equal(table_count(table, 3), MANY / VNODES);
    assert_int_equal(write_all(table), MANY / VNODES); /* each record is taken off the disk */
    for (unsigned i = 0; i < MANY / 64; i++)
        (void)table_step(table, now_ns);
    assert_int_equal(table_count(table, 1), 0);
    table_check_invariants(table);
    table_free(&table);
}

/* A copy that had every key costs no pass: what is on disk is the copy as soon as it is written.
 * The same holds from the moment on at which the last key left over goes for whatever reason. */
static void a_copy_that_had_all_is_settled_when_it_ends(void **state)
{
    (void)state;
    world_init(305);
    for (uint32_t key = 0; key < KEYS; key++)
        hit(key, 1);
    begin(1);
    for (uint32_t key = 1; key < KEYS; key += VNODES)
        import(key, 3);
    assert_true(table_copy_settled(world.table, 1));
    end(1);
    assert_false(table_copy_fading(world.table, 1));
    begin(1);
    for (uint32_t key = 1 + VNODES; key < KEYS; key += VNODES)
        import(key, 4);
    assert_int_equal(table_copy_end(world.table, 1), 0); /* end() looks at each key */
    world.copying[1] = false;
    world.used[1] = 0;
    assert_true(table_copy_fading(world.table, 1));
    assert_false(table_copy_settled(world.table, 1));
    hit(1, 1); /* the one that is left over is made new to be counted on */
    assert_false(table_copy_fading(world.table, 1));
    assert_true(table_copy_settled(world.table, 1));
    table_check_invariants(world.table);
    check_all();
    world_free();
}

/* A vnode that is removed in the middle of a copy, or of the pass after it, begins afresh. */
static void a_removed_vnode_forgets_its_copy(void **state)
{
    (void)state;
    world_init(303);
    for (unsigned n = 0; n < 200; n++) {
        for (uint32_t key = 0; key < KEYS; key++)
            hit(key, 1);
        begin(1);
        if (n % 2 == 0)
            end(1);
        if (n % 3 == 0)
            (void)table_step(world.table, now_ns);
        table_remove_vnode(world.table, 1);
        while (table_step(world.table, now_ns)) {
        }
        assert_int_equal(table_count(world.table, 1), 0);
        assert_int_equal(table_copy_end(world.table, 1), TG_EBUSY);
        world.copying[1] = false;
        for (uint32_t key = 1; key < KEYS; key += VNODES)
            world.used[key] = 0;
        check_all();
        const unsigned clean = world.clean_ends;
        begin(1);
        import(1, 5);
        end(1);
        assert_int_equal(world.clean_ends, clean + 1);
        table_check_invariants(world.table);
    }
    world_free();
}

/* Where nothing but what is on disk tells of a key, a copy without it still takes the record away:
 * the key came back by the stream and went before it was written. */
static void a_record_from_before_goes_with_its_key(void **state)
{
    (void)state;
    world_init(304);
    hit(1, 5);
    settle();
    assert_int_equal(used_on_disk(1), 5);
    table_drop(world.table, table_lookup(world.table, limit_key(1))); /* as an eviction does */
    table_filter_add(world.table, 1, limit_key(1));
    begin(1);
    import(1, 6);
    end(1);
    while (table_step(world.table, now_ns)) {
    }
    begin(1);
    end(1);
    settle();
    assert_int_equal(used_on_disk(1), 0);
    for (uint32_t n = 0; n < table_slots_end(world.table); n += 64) /* the sweep comes by */
        (void)table_step(world.table, now_ns);
    assert_int_equal(table_lookup(world.table, limit_key(1)), TABLE_NONE);
    world_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_leave_nothing_over_in_memory_or_on_disk),
        cmocka_unit_test(a_copy_of_a_settled_vnode_is_exact),
        cmocka_unit_test(a_pass_over_many_slots_takes_its_time),
        cmocka_unit_test(a_copy_that_had_all_is_settled_when_it_ends),
        cmocka_unit_test(a_removed_vnode_forgets_its_copy),
        cmocka_unit_test(a_record_from_before_goes_with_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
