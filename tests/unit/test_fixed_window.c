/* test_fixed_window.c - the fixed window against one counter per window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_limit.h"

/* The counter of one window: the newest seen, for a time that goes back goes on counting there. */
struct counter {
    uint64_t window_ns;
    uint64_t window;
    uint64_t count;
};

static void counter_clear(void *state, const struct limit *limit)
{
    *(struct counter *)state = (struct counter){.window_ns = limit->window_ns};
}

static void counter_turn(struct counter *counter, int64_t now_ns)
{
    const uint64_t window = (uint64_t)now_ns / counter->window_ns;
    /* An unused counter remembers no window. */
    if (window > counter->window || counter->count == 0) {
        counter->window = window;
        counter->count = 0;
    }
}

static uint64_t counter_used(void *state, int64_t now_ns)
{
    const struct counter *counter = state;
    return (uint64_t)now_ns / counter->window_ns > counter->window ? 0 : counter->count;
}

static void counter_add(void *state, int64_t now_ns, uint64_t count)
{
    struct counter *counter = state;
    counter_turn(counter, now_ns);
    counter->count += count;
}

static void counter_sub(void *state, int64_t now_ns, uint64_t count)
{
    struct counter *counter = state;
    if (counter_used(state, now_ns) == 0)
        return; /* nothing to give back: the state is not touched */
    counter_turn(counter, now_ns);
    counter->count = count < counter->count ? counter->count - count : 0;
}

static struct limit window_limit(uint64_t count, uint64_t window_ns)
{
    return (struct limit){
        .count = count, .window_ns = window_ns, .algorithm = ALGORITHM_FIXED_WINDOW};
}

/* Every decision of long random histories is that of the counter. */
static void agrees_with_one_counter_per_window(void **state)
{
    (void)state;
    const struct limit limits[] = {
        window_limit(5, 60000000000),      window_limit(3, 1000000),
        window_limit(100, 1500000),        window_limit(10, 512000000),
        window_limit(10, 1024000000),      window_limit(1000000000000, 86400000000000),
        window_limit(2, 2592000000000000),
    };
    struct random random;
    random_init(&random, 2);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct counter counter;
        const struct limit_model model = {.clear = counter_clear,
                                          .used = counter_used,
                                          .add = counter_add,
                                          .sub = counter_sub,
                                          .state = &counter};
        limit_history(&random, &limits[i], &model, HISTORY / 7);
    }
}

/* The largest count of the largest window fits, debt and all. */
static void the_largest_count_fits(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = window_limit(LIMIT_COUNT_MAX, 1000000000000000);
    const struct limit_decision got =
        limit_do(table, 1, &limit, OPERATION_HIT, UINT64_MAX, 0, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(got.used, 2 * LIMIT_COUNT_MAX);
    assert_int_equal(limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, LIMIT_TEST_EPOCH_NS + 1).used,
                     2 * LIMIT_COUNT_MAX);
    table_free(&table);
}

/* A rule whose count or window changes keeps what was consumed. */
static void a_changed_window_keeps_the_count(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const uint64_t windows_ns[] = {60000000000, 50000000000, 3600000000000, 10000000000};
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS + 3000000000;
    const struct limit first = window_limit(10, 60000000000);
    (void)limit_do(table, 1, &first, OPERATION_CHECK, 4, 0, now_ns);
    for (size_t i = 0; i < 4; i++) {
        const struct limit next = window_limit(20, windows_ns[i]);
        const struct limit_decision got = limit_do(table, 1, &next, OPERATION_CHECK, 1, 0, now_ns);
        assert_int_equal(got.used, 5 + i);
        assert_int_equal(got.remaining, 15 - i);
    }
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_one_counter_per_window),
        cmocka_unit_test(the_largest_count_fits),
        cmocka_unit_test(a_changed_window_keeps_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
