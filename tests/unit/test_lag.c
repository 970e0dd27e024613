/* test_lag.c - the histogram of times against the sorted times themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/model/lag.h"

enum { TIMES = 1000, ROUNDS = 200 };

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A quantile is never below the true one, and at most a fifth and a us above it. */
static void quantiles_are_close_and_never_too_short(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 401);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct lag lag = {.max_ns = 0};
        int64_t times[TIMES];
        const unsigned bits = 1 + (unsigned)random_below(&random, 38);
        for (unsigned i = 0; i < TIMES; i++) {
            times[i] = (int64_t)random_below(&random, UINT64_C(1) << bits);
            lag_add(&lag, times[i]);
        }
        qsort(times, TIMES, sizeof *times, compare);
        assert_int_equal(lag_count(&lag), TIMES);
        assert_int_equal(lag_max_ns(&lag), times[TIMES - 1]);
        for (unsigned permille = 1; permille <= 1000; permille += 37) {
            const int64_t truth = times[(permille * TIMES + 999) / 1000 - 1];
            const int64_t got = lag_quantile_ns(&lag, permille);
            assert_true(got >= truth);
            assert_true(got <= truth + truth / 4 + 1000);
        }
    }
}

/* Nothing measured is nothing said; what cannot be is kept within bounds. */
static void the_edges_are_kept(void **state)
{
    (void)state;
    struct lag lag = {.max_ns = 0};
    assert_int_equal(lag_quantile_ns(&lag, 990), 0);
    assert_int_equal(lag_max_ns(&lag), 0);
    lag_add(&lag, -5);
    assert_int_equal(lag_quantile_ns(&lag, 1000), 0);
    lag_add(&lag, INT64_MAX);
    assert_int_equal(lag_count(&lag), 2);
    assert_true(lag_quantile_ns(&lag, 1000) > INT64_C(3600) * 1000000);
    lag.counts[0] = UINT32_MAX;
    lag_add(&lag, 0);
    assert_int_equal(lag.counts[0], UINT32_MAX);
    struct lag twice = lag;
    lag_join(&twice, &lag);
    assert_int_equal(twice.counts[0], UINT32_MAX);
}

/* What is still counted is told as long as it was, however quiet or quick it has become since. */
static void times_that_are_left_are_not_told_shorter(void **state)
{
    enum { LONG_NS = 10000000, SHORT_NS = 1000000 };
    struct lag lag = {.max_ns = 0};
    unsigned agings = 0;
    (void)state;
    for (unsigned i = 0; i < 400; i++)
        lag_add(&lag, LONG_NS);
    for (; lag_count(&lag) > 0; agings++) {
        assert_true(lag_quantile_ns(&lag, 500) >= LONG_NS);
        assert_true(lag_max_ns(&lag) >= lag_quantile_ns(&lag, 990));
        if (agings == 1)
            lag_add(&lag, SHORT_NS);
        lag_age(&lag);
    }
    assert_int_equal(agings, 9); /* 400 halved until none is left */
    lag_age(&lag);
    lag_age(&lag);
    assert_int_equal(lag_max_ns(&lag), 0);
}

/* Two agings after the last of its times has faded nothing is left of a maximum. */
static void old_times_fade(void **state)
{
    (void)state;
    struct lag lag = {.max_ns = 0};
    for (unsigned i = 0; i < 8; i++)
        lag_add(&lag, 7000000);
    lag_age(&lag);
    assert_int_equal(lag_count(&lag), 4);
    assert_int_equal(lag_max_ns(&lag), 7000000);
    lag_add(&lag, 1000);
    lag_age(&lag);
    assert_int_equal(lag_max_ns(&lag), 7000000); /* two of them are left */
    for (unsigned i = 0; i < 2; i++)
        lag_age(&lag);
    assert_int_equal(lag_count(&lag), 0);
    lag_add(&lag, 1000);
    lag_age(&lag);
    assert_int_equal(lag_max_ns(&lag), 1000);
}

/* Joined, two histograms say what one of all times would. */
static void joined_histograms_are_that_of_all_times(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 402);
    struct lag parts[2] = {{.max_ns = 0}, {.max_ns = 0}};
    struct lag all = {.max_ns = 0};
    for (unsigned i = 0; i < TIMES; i++) {
        const int64_t ns = (int64_t)random_below(&random, 1u << 30);
        lag_add(&parts[i % 2], ns);
        lag_add(&all, ns);
    }
    lag_join(&parts[0], &parts[1]);
    assert_memory_equal(&parts[0], &all, sizeof all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_close_and_never_too_short),
        cmocka_unit_test(the_edges_are_kept),
        cmocka_unit_test(times_that_are_left_are_not_told_shorter),
        cmocka_unit_test(old_times_fade),
        cmocka_unit_test(joined_histograms_are_that_of_all_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
