/* test_log_merge.c - logs joined event by event, against plain sorted arrays of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_limit.h"

enum { MINE = 1, OTHER = 2, VNODE = 5, CASES = EFFORT(100000), TIMES_MAX = 32 };

static uint8_t mine_bytes[TABLE_EXPORT_MAX];
static uint8_t other_bytes[TABLE_EXPORT_MAX];

/* The longest log that there may be. */
static const struct limit longest = {
    .count = LIMIT_LOG_COUNT_MAX, .window_ns = 3600000000000, .algorithm = ALGORITHM_SLIDING_LOG};

static struct table *big_table(void)
{
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), (size_t)32 << 20, 64), 0);
    return table;
}

static size_t export(struct table *table, uint64_t key, uint8_t *bytes)
{
    const uint32_t slot = table_lookup(table, limit_key(key));
    if (slot == TABLE_NONE)
        return 0;
    const int len = table_export(table, slot, bytes, TABLE_EXPORT_MAX);
    assert_true(len > 0);
    return (size_t)len;
}

static uint64_t used(struct table *table, uint64_t key, const struct limit *limit, int64_t now_ns)
{
    return limit_do(table, key, limit, OPERATION_PEEK, 0, 0, now_ns).used;
}

static void drop(struct table *table, uint64_t key)
{
    const uint32_t slot = table_lookup(table, limit_key(key));
    if (slot != TABLE_NONE)
        table_drop(table, slot);
}

/* Fills the key's log to the last word, an event every `step_ns`. */
static void fill(struct table *table, uint64_t key, const struct limit *limit, int64_t from_ns,
                 int64_t step_ns)
{
    for (uint64_t i = 0; i < limit->count; i++)
        assert_true(
            limit_do(table, key, limit, OPERATION_CHECK, 1, 0, from_ns + (int64_t)i * step_ns)
                .allowed);
}

static int by_time(const void *left, const void *right)
{
    const int64_t *one = left;
    const int64_t *two = right;
    return (*one > *two) - (*one < *two);
}

/* Two full logs of the largest size make one of that size: the newest events, and none sooner. */
static void two_full_logs_keep_the_newest_events(void **state)
{
    (void)state;
    struct table *table = big_table();
    const int64_t start_ns = LIMIT_TEST_EPOCH_NS;
    fill(table, MINE, &longest, start_ns, 1000000);            /* over 65 s */
    fill(table, OTHER, &longest, start_ns + 20000000, 500000); /* over 33 s */
    const size_t len = export(table, OTHER, other_bytes);
    const int64_t now_ns = start_ns + 70000000000;
    assert_int_equal(table_merge(table, VNODE, limit_key(MINE), NULL, 0, other_bytes, len, now_ns),
                     0);
    assert_int_equal(used(table, MINE, &longest, now_ns), LIMIT_LOG_COUNT_MAX);
    /* The 65,536th newest of the 131,072 is kept and the one before is not. */
    const struct limit_decision denied =
        limit_do(table, MINE, &longest, OPERATION_PEEK, 1, 0, now_ns);
    assert_false(denied.allowed);
    int64_t times[2 * LIMIT_LOG_COUNT_MAX];
    for (int64_t i = 0; i < (int64_t)LIMIT_LOG_COUNT_MAX; i++) {
        times[i] = start_ns + i * 1000000;
        times[(int64_t)LIMIT_LOG_COUNT_MAX + i] = start_ns + 20000000 + i * 500000;
    }
    qsort(times, sizeof times / sizeof *times, sizeof *times, by_time);
    assert_int_equal(now_ns + denied.retry_after_ns, times[LIMIT_LOG_COUNT_MAX] + 3600000000000);
    assert_true(export(table, MINE, mine_bytes) <= TABLE_EXPORT_MAX);
    table_check_invariants(table);
    table_free(&table);
}

/* Runs take two words for many events: a log of them is trimmed in words and in events, and blocks
 * no shorter than each of its sides. */
static void full_logs_of_runs_stay_within_both_bounds(void **state)
{
    (void)state;
    struct table *table = big_table();
    struct random random;
    random_init(&random, 201);
    const int64_t start_ns = LIMIT_TEST_EPOCH_NS;
    const int64_t now_ns = start_ns + 70000000000;
    for (unsigned n = 0; n < 40; n++) {
        drop(table, MINE);
        drop(table, OTHER);
        for (uint64_t key = MINE; key <= OTHER; key++) {
            const uint64_t most = 1 + random_below(&random, 40);
            for (int64_t i = 0; i < 65536; i++)
                (void)limit_do(table, key, &longest, OPERATION_HIT, 1 + random_below(&random, most),
                               0, start_ns + i * 1000000 + (int64_t)key * 1000);
        }
        const uint64_t sides[2] = {used(table, MINE, &longest, now_ns),
                                   used(table, OTHER, &longest, now_ns)};
        int64_t retry_ns = 0;
        for (uint64_t key = MINE; key <= OTHER; key++) {
            const int64_t side_ns =
                limit_do(table, key, &longest, OPERATION_PEEK, 1, 0, now_ns).retry_after_ns;
            retry_ns = side_ns > retry_ns ? side_ns : retry_ns;
        }
        const size_t len = export(table, OTHER, other_bytes);
        assert_int_equal(
            table_merge(table, VNODE, limit_key(MINE), NULL, 0, other_bytes, len, now_ns), 0);
        const uint64_t merged = used(table, MINE, &longest, now_ns);
        assert_true(merged >= LIMIT_LOG_COUNT_MAX || merged == sides[0] + sides[1]);
        assert_true(merged <= 2 * LIMIT_LOG_COUNT_MAX);
        assert_true(limit_do(table, MINE, &longest, OPERATION_PEEK, 1, 0, now_ns).retry_after_ns >=
                    retry_ns);
        const size_t merged_len = export(table, MINE, mine_bytes);
        drop(table, MINE); /* it is believed elsewhere */
        assert_int_equal(
            table_import(table, VNODE, limit_key(MINE), mine_bytes, merged_len, now_ns, 0), 0);
    }
    table_check_invariants(table);
    table_free(&table);
}

/* When one word too many must go and the oldest entry is a run, one of its events stays. */
static void a_run_at_the_edge_leaves_one_event(void **state)
{
    (void)state;
    struct table *table = big_table();
    const int64_t start_ns = LIMIT_TEST_EPOCH_NS;
    (void)limit_do(table, MINE, &longest, OPERATION_HIT, 9, 0, start_ns);
    for (int64_t i = 2; i < (int64_t)LIMIT_LOG_COUNT_MAX; i++)
        (void)limit_do(table, MINE, &longest, OPERATION_HIT, 1, 0, start_ns + i * 1000000);
    const int64_t now_ns = start_ns + 70000000000;
    (void)limit_do(table, OTHER, &longest, OPERATION_HIT, 1, 0, now_ns);
    const size_t len = export(table, OTHER, other_bytes);
    assert_int_equal(table_merge(table, VNODE, limit_key(MINE), NULL, 0, other_bytes, len, now_ns),
                     0);
    assert_int_equal(used(table, MINE, &longest, now_ns), LIMIT_LOG_COUNT_MAX);
    assert_int_equal(limit_do(table, MINE, &longest, OPERATION_PEEK, 1, 0, now_ns).retry_after_ns,
                     start_ns + 3600000000000 - now_ns);
    table_free(&table);
}

/* Times of a log as a sorted list. */
struct times {
    int64_t at_ns[TIMES_MAX];
    unsigned count;
};

static void add(struct table *table, uint64_t key, const struct limit *limit, struct times *times,
                int64_t at_ns)
{
    (void)limit_do(table, key, limit, OPERATION_HIT, 1, 0, at_ns);
    times->at_ns[times->count++] = at_ns;
}

/* How many events are in the window; quanta make each last up to one quantum longer. */
static uint64_t counted(const struct times *times, const struct limit *limit, int64_t now_ns)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < times->count; i++)
        count += times->at_ns[i] + (int64_t)limit->window_ns > now_ns;
    return count;
}

/* A rule whose window grew or shrank on one side: every event of both counts as long as it would
 * have, up to a quantum longer, and those of the base count once. */
static void logs_of_different_windows_lose_no_event(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct random random;
    random_init(&random, 202);
    for (unsigned n = 0; n < CASES; n++) {
        const struct limit before = {.count = 100,
                                     .window_ns = 1000000 + random_below(&random, 3600000000000),
                                     .algorithm = ALGORITHM_SLIDING_LOG};
        struct limit after = before; /* the other side's rule, and perhaps this one's */
        if (random_below(&random, 2) == 0)
            after.window_ns = before.window_ns + random_below(&random, 9 * before.window_ns);
        const struct limit *rule = random_below(&random, 2) == 0 ? &before : &after;
        struct times all = {.count = 0};
        drop(table, MINE);
        drop(table, OTHER);
        int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        for (uint64_t i = random_below(&random, 5); i > 0; i--)
            add(table, MINE, &before, &all,
                now_ns += (int64_t)random_below(&random, before.window_ns / 8));
        const size_t base_len = export(table, MINE, mine_bytes);
        if (base_len > 0)
            assert_int_equal(
                table_import(table, VNODE, limit_key(OTHER), mine_bytes, base_len, 0, 0), 0);
        for (uint64_t i = 1 + random_below(&random, 5); i > 0; i--)
            add(table, OTHER, &after, &all,
                now_ns += (int64_t)random_below(&random, before.window_ns / 8));
        for (uint64_t i = random_below(&random, 5); i > 0; i--)
            add(table, MINE, rule, &all,
                now_ns += (int64_t)random_below(&random, before.window_ns / 8));
        const size_t other_len = export(table, OTHER, other_bytes);
        assert_int_equal(table_merge(table, VNODE, limit_key(MINE), mine_bytes, base_len,
                                     other_bytes, other_len, now_ns),
                         0);
        const uint64_t got = used(table, MINE, &after, now_ns);
        assert_true(got >= counted(&all, &before, now_ns));
        assert_true(got <= counted(&all, &after, now_ns - 2 * (int64_t)(after.window_ns >> 29)));
    }
    table_check_invariants(table);
    table_free(&table);
}

/* Without room for a block of its own the merged log is not made, and the old one stands. */
static void a_full_arena_leaves_the_log_as_it_was(void **state)
{
    (void)state;
    struct table *table = limit_table(); /* 4 MiB: logs of 256 KiB fill it soon */
    uint64_t key = OTHER;
    for (bool full = false; !full; key++) {
        for (int64_t i = 0; i < 60000 && !full; i++)
            full = limit_do(table, key, &longest, OPERATION_HIT, 1, 0,
                            LIMIT_TEST_EPOCH_NS + i * 1000000)
                       .status != LIMIT_DECIDED;
        uint32_t slot; /* being written, nothing can be dropped */
        while ((slot = table_next_dirty(table, TABLE_DISK)) != TABLE_NONE)
            table_write_begin(table, slot);
    }
    assert_true(key > OTHER + 3);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS + 60000000000;
    const size_t other_len = export(table, OTHER + 1, other_bytes);
    const size_t len = export(table, OTHER, mine_bytes);
    assert_int_equal(table_merge(table, (uint32_t)OTHER % 64, limit_key(OTHER), NULL, 0,
                                 other_bytes, other_len, now_ns),
                     TG_EFULL);
    assert_int_equal(export(table, OTHER, other_bytes), len);
    assert_memory_equal(mine_bytes, other_bytes, len);
    table_check_invariants(table);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_full_logs_keep_the_newest_events),
        cmocka_unit_test(full_logs_of_runs_stay_within_both_bounds),
        cmocka_unit_test(a_run_at_the_edge_leaves_one_event),
        cmocka_unit_test(logs_of_different_windows_lose_no_event),
        cmocka_unit_test(a_full_arena_leaves_the_log_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
