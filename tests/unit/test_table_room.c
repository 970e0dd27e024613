/* test_table_room.c - which new keys a table takes in when memory fills faster than the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/limit/table/new_keys.h"
#include "node/limit/table/table.h"
#include "tests/unit/support_limit.h"

enum { VNODES = 64 };

static const struct limit counting = {
    .count = 1000000, .window_ns = 86400000000000, .algorithm = ALGORITHM_FIXED_WINDOW};

/* All that has changed is on disk. */
static void write_all(struct table *table)
{
    while (!table_target_idle(table, TABLE_DISK)) {
        const uint32_t slot = table_next_dirty(table, TABLE_DISK);
        if (slot == TABLE_NONE)
            continue;
        const struct table_write write = table_write_begin(table, slot);
        table_write_done(table, &write, 1, true);
    }
}

/* When the arena is full, logs that are on disk make room, and no others; the books stay right. */
static void in_a_full_arena_logs_on_disk_make_room_and_no_others(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct table_stats stats;
    unsigned refused = 0;
    unsigned decided = 0;
    struct random random;
    random_init(&random, 15);
    const struct limit limit = {
        .count = 2000, .window_ns = 3600000000000, .algorithm = ALGORITHM_SLIDING_LOG};
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(table, vnode, TABLE_TARGET_BIT(TABLE_DISK));
    for (unsigned n = 0; n < 1000000; n++) {
        const struct limit_decision got =
            limit_do(table, random_below(&random, 5000), &limit, OPERATION_HIT, 1, 0,
                     LIMIT_TEST_EPOCH_NS + n * 1000);
        refused += got.status != LIMIT_DECIDED;
        if (n % 500 == 0)
            write_all(table);
    }
    table_stats(table, &stats);
    assert_int_equal(stats.refused, refused);
    assert_true(stats.evicted > 8);
    assert_true(refused <= 1000); /* of 1,000,000: holes between blocks may be too small */
    write_all(table);
    const uint64_t evicted = stats.evicted;
    for (uint64_t key = 0; key < 5000; key++)
        for (unsigned n = 0; n < 200; n++)
            decided += limit_do(table, key, &limit, OPERATION_HIT, 1, 0,
                                LIMIT_TEST_EPOCH_NS + 1000000000 + n * 1000)
                           .status == LIMIT_DECIDED;
    table_stats(table, &stats);
    assert_true(decided < 5000 * 200);
    assert_true(stats.evicted > evicted); /* until all that were on disk had gone */
    const uint64_t used = stats.used;
    for (uint64_t key = 5000; key < 10000; key++)
        (void)limit_do(table, key, &limit, OPERATION_HIT, 100, 0, LIMIT_TEST_EPOCH_NS + 1100000000);
    table_stats(table, &stats);
    assert_true(stats.used >= used);
    table_check_invariants(table);
    table_free(&table);
}

/* A charge of one on new keys of a class, from `first` on. How many were let in. */
static uint32_t add_new(struct table *table, uint32_t first, uint32_t count, uint32_t class,
                        const struct limit *limit, int64_t now_ns)
{
    uint32_t added = 0;
    for (uint32_t key = first; key < first + count; key++) {
        const struct hash128 id = limit_key(key);
        const uint32_t vnode = key % VNODES;
        const uint64_t cost = 1;
        uint8_t status;
        uint8_t allowed;
        uint64_t numbers[4];
        int64_t times[3];
        const uint8_t flags = LIMIT_LOADED;
        const struct limit_batch batch = {.count = 1,
                                          .ids = &id,
                                          .vnodes = &vnode,
                                          .limits = &limit,
                                          .costs = &cost,
                                          .flags = &flags,
                                          .classes = &class};
        struct limit_decisions out = {.status = &status,
                                      .allowed = &allowed,
                                      .limit = &numbers[0],
                                      .used = &numbers[1],
                                      .remaining = &numbers[2],
                                      .granted = &numbers[3],
                                      .reset_after_ns = &times[0],
                                      .retry_after_ns = &times[1],
                                      .delay_ns = &times[2]};
        engine_step(table, &batch, now_ns, &out);
        added += status == LIMIT_DECIDED && allowed;
    }
    return added;
}

static struct table *table_with_disk(void)
{
    struct table *table = limit_table();
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(table, vnode, TABLE_TARGET_BIT(TABLE_DISK));
    return table;
}

/* One class cannot take all of the room while nothing is written: another one still finds a part of
 * it, and keys that come back from disk, or of other leaders, the reserve. */
static void a_flood_of_one_class_leaves_room_for_others(void **state)
{
    enum { FLOOD = 400000, OTHER = 5000 };
    (void)state;
    struct table *table = table_with_disk();
    struct table_stats stats;
    table_stats(table, &stats);
    const uint32_t flooded = add_new(table, 0, FLOOD, 7, &counting, LIMIT_TEST_EPOCH_NS);
    assert_true(flooded > stats.capacity / 2 && flooded < stats.capacity / 8 * 5);
    assert_int_equal(add_new(table, FLOOD, OTHER, 8, &counting, LIMIT_TEST_EPOCH_NS), OTHER);
    assert_int_equal(add_new(table, FLOOD + OTHER, OTHER, 7, &counting, LIMIT_TEST_EPOCH_NS), 0);
    const uint32_t eighth = add_new(table, 500000, FLOOD, 9, &counting, LIMIT_TEST_EPOCH_NS);
    assert_true(eighth > stats.capacity / 10);
    for (uint32_t key = 0; key < FLOOD; key += 1000) /* those that exist are decided as ever */
        if (table_lookup(table, limit_key(key)) != TABLE_NONE)
            assert_int_equal(add_new(table, key, 1, 7, &counting, LIMIT_TEST_EPOCH_NS), 1);
    const uint32_t free_of_class = add_new(table, 1000000, (uint32_t)stats.capacity / 8,
                                           NEW_KEYS_FREE, &counting, LIMIT_TEST_EPOCH_NS);
    assert_true(free_of_class >= stats.capacity / 8 / 100 * 98);
    table_stats(table, &stats);
    assert_true(stats.turned_away >= FLOOD - flooded);
    assert_int_equal(stats.evicted, 0);
    table_check_invariants(table);
    table_free(&table);
}

/* Where all is written in time nobody is refused, whatever memory holds. */
static void what_is_written_in_time_is_never_refused(void **state)
{
    enum { PORTION = 20000, PORTIONS = 30 };
    (void)state;
    struct table *table = table_with_disk();
    for (uint32_t n = 0; n < PORTIONS; n++) {
        assert_int_equal(
            add_new(table, n * PORTION, PORTION, n % 2, &counting, LIMIT_TEST_EPOCH_NS), PORTION);
        table_round_begin(table);
        write_all(table);
        table_round_written(table);
        (void)table_step(table, LIMIT_TEST_EPOCH_NS);
    }
    table_check_invariants(table);
    table_free(&table);
}

/* A key that is as good as new before write-back comes round is let in beyond the budget; and a
 * closed table lets in no others. */
static void short_limits_are_not_budgeted(void **state)
{
    enum { FLOOD = 400000, BRIEF = 20000 };
    const struct limit brief = {
        .count = 10, .window_ns = 1000000000, .algorithm = ALGORITHM_TOKEN_BUCKET};
    (void)state;
    struct table *table = table_with_disk();
    table_set_write_period(table, 500000000);
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    table_close(table, true);
    assert_int_equal(add_new(table, 0, 10, 7, &counting, now_ns), 0);
    assert_int_equal(add_new(table, 0, 10, 7, &brief, now_ns), 10);
    table_close(table, false);
    (void)add_new(table, 0, FLOOD, 7, &counting, now_ns);
    for (uint32_t n = 0; n < 20; n++, now_ns += 200000000)
        assert_int_equal(add_new(table, FLOOD + n * BRIEF / 20, BRIEF / 20, 7, &brief, now_ns),
                         BRIEF / 20);
    assert_int_equal(add_new(table, 2 * FLOOD, 10, 7, &counting, now_ns), 0);
    table_free(&table);
}

/* What has expired without ever being written does not count against those who added it. */
static void the_budget_follows_what_expires(void **state)
{
    enum { FLOOD = 400000 };
    const struct limit minute = {
        .count = 10, .window_ns = 60000000000, .algorithm = ALGORITHM_TOKEN_BUCKET};
    (void)state;
    struct table *table = table_with_disk();
    const uint32_t first = add_new(table, 0, FLOOD, 7, &minute, LIMIT_TEST_EPOCH_NS);
    const int64_t later_ns = LIMIT_TEST_EPOCH_NS + 60000000000;
    assert_true(first < FLOOD);
    for (uint32_t n = 0; n < 20000; n++)
        (void)table_step(table, later_ns);
    assert_true(add_new(table, FLOOD, FLOOD, 7, &minute, later_ns) >= first / 100 * 99);
    table_check_invariants(table);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_full_arena_logs_on_disk_make_room_and_no_others),
        cmocka_unit_test(a_flood_of_one_class_leaves_room_for_others),
        cmocka_unit_test(what_is_written_in_time_is_never_refused),
        cmocka_unit_test(short_limits_are_not_budgeted),
        cmocka_unit_test(the_budget_follows_what_expires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
