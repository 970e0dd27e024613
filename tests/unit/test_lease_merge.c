/* test_lease_merge.c - leases of two writers joined: what that costs, and what becomes of too many.
 * (That each lease is there once, whatever both sides did, is tested in test_concurrency.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "node/limit/table/table_slot.h"
#include "tests/unit/support_limit.h"

enum { VNODE = 5, MINE = 1, OTHER = 2, BASE = 3, STEPS_A_LEASE = 8 };

static uint8_t base_bytes[TABLE_EXPORT_MAX];
static uint8_t other_bytes[TABLE_EXPORT_MAX];

static const struct limit flight = {.count = LIMIT_LEASES_MAX,
                                    .window_ns = UINT64_C(3600000000000),
                                    .algorithm = ALGORITHM_CONCURRENCY};

static int setup(void **state)
{
    struct table *table;
    const int result = table_new(&table, alloc_heap(), (size_t)32 << 20, 64);
    *state = table;
    return result;
}

static int teardown(void **state)
{
    struct table *table = *state;
    table_check_invariants(table);
    table_free(&table);
    return 0;
}

/* One more lease of key `key`, whatever its limit says; id 0 is nobody's. */
static void take(struct table *table, uint64_t key, uint64_t id, enum operation operation,
                 int64_t now_ns)
{
    struct limit_decision got;
    engine_one_leased(table, limit_key(key), VNODE, &flight, 1, id, operation, LIMIT_LOADED, now_ns,
                      &got);
    assert_int_equal(got.status, LIMIT_DECIDED);
}

static uint64_t used(struct table *table, uint64_t key, int64_t now_ns)
{
    struct limit_decision got;
    engine_one(table, limit_key(key), VNODE, &flight, 0, OPERATION_PEEK, LIMIT_LOADED, now_ns,
               &got);
    return got.used;
}

static size_t bytes_of(struct table *table, uint64_t key, uint8_t *out)
{
    const int len = table_export(table, table_lookup(table, limit_key(key)), out, TABLE_EXPORT_MAX);
    assert_true(len > 0);
    return (size_t)len;
}

/* Merges OTHER into MINE since BASE; returns how many leases were looked at. */
static uint64_t merge(struct table *table, int64_t now_ns)
{
    const size_t base_len = bytes_of(table, BASE, base_bytes);
    const size_t other_len = bytes_of(table, OTHER, other_bytes);
    const uint64_t before = table->memory.merge_steps;
    assert_int_equal(table_merge(table, VNODE, limit_key(MINE), base_bytes, base_len, other_bytes,
                                 other_len, now_ns),
                     0);
    return table->memory.merge_steps - before;
}

/* Two states of 4,096 leases each, that grew from one of as many, are joined by looking at each a
 * few times, not at each for each: be they all new, all renewed, or all nobody's and alike. */
static void the_cost_is_as_the_number_of_leases(void **state)
{
    enum { COUNT = LIMIT_LEASES_MAX, NEW = 0, RENEWED, NOBODYS, CASES };
    struct table *table = *state;
    for (unsigned n = 0; n < CASES; n++) {
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        for (uint64_t key = MINE; key <= BASE; key++)
            if (table_lookup(table, limit_key(key)) != TABLE_NONE)
                table_drop(table, table_lookup(table, limit_key(key)));
        for (uint64_t i = 1; i <= COUNT; i++) {
            take(table, BASE, i, OPERATION_CHECK, now_ns);
            take(table, MINE, n == NOBODYS ? 0 : i, OPERATION_CHECK, now_ns);
            take(table, OTHER,
                 n == NEW       ? COUNT + i
                 : n == NOBODYS ? 0
                                : i,
                 OPERATION_CHECK, now_ns);
        }
        for (uint64_t i = 1; n == RENEWED && i <= COUNT; i++)
            take(table, OTHER, i, OPERATION_RENEW, now_ns + 1);
        const uint64_t steps = merge(table, now_ns + 2);
        assert_true(steps > 0 && steps <= 3 * STEPS_A_LEASE * (uint64_t)COUNT);
        assert_int_equal(used(table, MINE, now_ns + 2), n == RENEWED ? COUNT : 2 * COUNT);
    }
}

/* What this side has released since the base stays released, though the other still has it; what
 * only the other has released stays until its end; what it renewed lives as long as there. */
static void what_was_released_here_stays_released(void **state)
{
    struct table *table = *state;
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    for (uint64_t key = MINE; key <= BASE; key++)
        for (uint64_t id = 0; id <= 3; id++) /* and one that is nobody's */
            take(table, key, id, OPERATION_CHECK, now_ns);
    take(table, MINE, 1, OPERATION_RELEASE, now_ns + 1);
    take(table, OTHER, 2, OPERATION_RELEASE, now_ns + 1);
    take(table, OTHER, 3, OPERATION_RENEW, now_ns + 1);
    (void)merge(table, now_ns + 2);
    assert_int_equal(used(table, MINE, now_ns + 2), 3);
    assert_int_equal(used(table, MINE, now_ns + (int64_t)flight.window_ns), 1);
    take(table, MINE, 3, OPERATION_RELEASE, now_ns + 3);
    assert_int_equal(used(table, MINE, now_ns + 3), 2);
}

/* When there are more than a key may have, none is lost: those that end first become one that ends
 * with the last of them. */
static void of_too_many_those_that_end_first_become_one(void **state)
{
    enum { COUNT = 2 * LIMIT_LEASES_MAX, MORE = 100 };
    struct table *table = *state;
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    take(table, BASE, 9, OPERATION_CHECK, now_ns);
    for (int64_t i = 0; i < COUNT; i++)
        take(table, MINE, (uint64_t)(1000 + i), OPERATION_HIT, now_ns + 2 * i);
    for (int64_t i = 0; i < MORE; i++)
        take(table, OTHER, (uint64_t)(100000 + i), OPERATION_HIT, now_ns + 2 * i + 1);
    (void)merge(table, now_ns + 2 * COUNT);
    const int64_t end_ns = now_ns + (int64_t)flight.window_ns;
    assert_int_equal(used(table, MINE, now_ns + 2 * COUNT), COUNT + MORE);
    assert_int_equal(used(table, MINE, end_ns + MORE - 1), COUNT + MORE); /* as one */
    assert_int_equal(used(table, MINE, end_ns + MORE), COUNT - 1);        /* at once */
    assert_int_equal(used(table, MINE, end_ns + MORE + 1), COUNT - 2);
}

/* Without room for the joined leases nothing is changed, and what was taken meanwhile is back. */
static void without_memory_nothing_is_changed(void **state)
{
    struct table *table = *state;
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    for (uint64_t i = 1; i <= 2000; i++) {
        take(table, MINE, i, OPERATION_CHECK, now_ns);
        take(table, OTHER, 5000 + i, OPERATION_CHECK, now_ns);
    }
    const size_t len = bytes_of(table, OTHER, other_bytes);
    struct limit_memory *memory = &table->memory;
    const uint32_t floor = memory->arena.floor;
    struct limit_cell cell = slot_cell(&table->slots[table_lookup(table, limit_key(MINE))]);
    const struct limit_cell before = cell;
    struct bytes_reader reader;
    bytes_reader_init(&reader, other_bytes, len);
    (void)bytes_take(&reader, len - 4 - (size_t)2000 * 20); /* to the leases themselves */
    memory->arena.floor = memory->arena.low;                /* it must not grow */
    const uint64_t bytes = memory->arena.used_bytes;
    assert_int_equal(concurrency_ops.merge(memory, &cell, NULL, &reader, now_ns + 1), TG_EFULL);
    assert_memory_equal(&cell, &before, sizeof cell);
    assert_int_equal(memory->arena.used_bytes, bytes);
    memory->arena.floor = floor;
    assert_int_equal(used(table, MINE, now_ns), 2000);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(the_cost_is_as_the_number_of_leases),
        ROW(what_was_released_here_stays_released),
        ROW(of_too_many_those_that_end_first_become_one),
        ROW(without_memory_nothing_is_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
