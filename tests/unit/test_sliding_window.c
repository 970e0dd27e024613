/* test_sliding_window.c - the sliding window against two plain counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_limit.h"

/* Counts of the newest window seen and the one before. */
struct counters {
    uint64_t window_ns;
    uint64_t window;
    uint64_t previous;
    uint64_t current;
};

static void counters_clear(void *state, const struct limit *limit)
{
    *(struct counters *)state = (struct counters){.window_ns = limit->window_ns};
}

/* The counters as they are at `now_ns`. */
static struct counters counters_at(const struct counters *counters, int64_t now_ns)
{
    struct counters at = *counters;
    const uint64_t window = (uint64_t)now_ns / at.window_ns;
    if (at.previous + at.current == 0)
        at.window = window;
    if (window <= at.window)
        return at;
    at.previous = window == at.window + 1 ? at.current : 0;
    at.current = 0;
    at.window = window;
    return at;
}

static uint64_t counters_used(void *state, int64_t now_ns)
{
    const struct counters at = counters_at(state, now_ns);
    const uint64_t start = at.window * at.window_ns;
    const uint64_t elapsed = (uint64_t)now_ns > start ? (uint64_t)now_ns - start : 0;
    const unsigned __int128 weight = (unsigned __int128)at.previous * (at.window_ns - elapsed);
    return at.current + (uint64_t)((weight + at.window_ns - 1) / at.window_ns);
}

static void counters_add(void *state, int64_t now_ns, uint64_t count)
{
    struct counters *counters = state;
    *counters = counters_at(counters, now_ns);
    counters->current += count;
}

static void counters_sub(void *state, int64_t now_ns, uint64_t count)
{
    struct counters *counters = state;
    struct counters at = counters_at(counters, now_ns);
    if (count == 0 || at.previous + at.current == 0)
        return;
    const uint64_t from_current = count < at.current ? count : at.current;
    const uint64_t rest = count - from_current;
    at.current -= from_current;
    at.previous -= rest < at.previous ? rest : at.previous;
    *counters = at;
}

static int64_t counters_begins(void *state)
{
    const struct counters *at = state;
    return at->previous + at->current == 0 ? 0 : (int64_t)(at->window * at->window_ns);
}

static struct limit window_limit(uint64_t count, uint64_t window_ns)
{
    return (struct limit){
        .count = count, .window_ns = window_ns, .algorithm = ALGORITHM_SLIDING_WINDOW};
}

/* Every decision of long random histories is that of the two counters; counts beyond 2^28 too. */
static void agrees_with_two_counters(void **state)
{
    (void)state;
    const struct limit limits[] = {
        window_limit(5, 60000000000),        window_limit(3, 1000000),
        window_limit(100, 1500000),          window_limit(10, 512000000),
        window_limit(400000000, 1000000000), window_limit(1000000000000, 86400000000000),
        window_limit(7, 86400000000000),
    };
    struct counters counters;
    const struct limit_model model = {.clear = counters_clear,
                                      .used = counters_used,
                                      .add = counters_add,
                                      .sub = counters_sub,
                                      .begins = counters_begins,
                                      .state = &counters,
                                      .state_len = sizeof counters};
    limit_histories(4, limits, sizeof limits / sizeof *limits, &model);
}

/* A count outgrowing its slot moves to the arena and back, and the block is freed. */
static void huge_counts_live_in_the_arena(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct table_stats stats;
    const struct limit limit = window_limit(LIMIT_COUNT_MAX, 1000000000000000);
    (void)limit_do(table, 1, &limit, OPERATION_HIT, 1u << 29, 0, LIMIT_TEST_EPOCH_NS);
    table_stats(table, &stats);
    assert_true(stats.arena_bytes > 0);
    (void)limit_do(table, 1, &limit, OPERATION_REFUND, 1u << 28, 0, LIMIT_TEST_EPOCH_NS);
    const struct limit_decision got =
        limit_do(table, 1, &limit, OPERATION_REFUND, 1, 0, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(got.used, (1u << 28) - 1);
    table_stats(table, &stats);
    assert_int_equal(stats.arena_bytes, 0);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_two_counters),
        cmocka_unit_test(huge_counts_live_in_the_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
