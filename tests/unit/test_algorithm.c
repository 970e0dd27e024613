/* test_algorithm.c - what holds for every algorithm alike: the table of them, and time's long run.
 *
 * A greedy caller asks again at the very moment at which it was told that it may, for a year. What
 * it gets is the rate, whatever the algorithm: nothing is rounded twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/limit/algorithms/algorithm.h"
#include "tests/unit/support_limit.h"

#define S_NS    UINT64_C(1000000000)
#define DAY_NS  (86400 * S_NS)
#define YEAR_NS (365 * DAY_NS)

/* A midnight that is also the beginning of a minute, an hour and a 365-day window. */
#define START_NS ((int64_t)(50 * YEAR_NS))

enum { YEAR_DAYS = 365, TURNS_MAX = 12000000 };

/* Every algorithm has ops, so has the envelope of what is held, and no number beyond them does. */
static void every_algorithm_has_its_ops(void **state)
{
    (void)state;
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++)
        assert_non_null(algorithm_ops(algorithm));
    assert_non_null(algorithm_ops(LIMIT_LEASED));
    assert_null(algorithm_ops(LIMIT_LEASED + 1));
}

/* What a greedy caller gets from `from_ns` to before `to_ns`, asking for `cost` at a time. */
static uint64_t greedy(struct table *table, const struct limit *limit, uint64_t cost,
                       int64_t from_ns, int64_t to_ns)
{
    uint64_t admitted = 0;
    unsigned turns = 0;
    for (int64_t now_ns = from_ns; now_ns < to_ns && turns < TURNS_MAX; turns++) {
        const struct limit_decision got =
            limit_do(table, 1, limit, OPERATION_CHECK, cost, 0, now_ns);
        assert_int_equal(got.status, LIMIT_DECIDED);
        if (got.allowed) {
            admitted += cost;
            continue;
        }
        assert_true(got.retry_after_ns > 0);
        now_ns += got.retry_after_ns;
    }
    assert_true(turns < TURNS_MAX);
    return admitted;
}

/* A limit, how it is asked, and how much more than its rate may come once: what a burst holds.
 *
 * `lost` is how many of a window's count a greedy caller never gets. The two counts of a sliding
 * window weigh the previous one evenly: who takes each token at the first moment gets the k-th at
 * k/count of the window, and the last one only in the next. Sub-windows count whole, so that an
 * event is counted for one of them longer than the window. */
struct pace {
    struct limit limit;
    uint64_t cost;
    uint64_t once;
    uint64_t lost;
    uint64_t period_ns; /* in which it gets the rest */
};

static void assert_paced(const struct pace *pace, uint64_t days)
{
    struct table *table = limit_table();
    const uint64_t span_ns = days * DAY_NS;
    const uint64_t got =
        greedy(table, &pace->limit, pace->cost, START_NS, START_NS + (int64_t)span_ns);
    const uint64_t exact =
        (uint64_t)((unsigned __int128)(pace->limit.count - pace->lost) * span_ns / pace->period_ns);
    if (got + pace->once < exact || got > exact + pace->once)
        fail_msg("%s %llu/%lluns: %llu in %llu days, exactly %llu",
                 algorithm_name(pace->limit.algorithm), (unsigned long long)pace->limit.count,
                 (unsigned long long)pace->limit.window_ns, (unsigned long long)got,
                 (unsigned long long)days, (unsigned long long)exact);
    table_free(&table);
}

static struct pace pace_of(enum algorithm algorithm, uint64_t count, uint64_t window_ns,
                           uint64_t cost, uint64_t once)
{
    return (struct pace){
        .limit = {.count = count, .window_ns = window_ns, .algorithm = (uint8_t)algorithm},
        .cost = cost,
        .once = once,
        .lost = algorithm == ALGORITHM_SLIDING_WINDOW,
        .period_ns = algorithm == ALGORITHM_SLIDING_BUCKETS
                         ? window_ns + window_ns / LIMIT_BUCKETS_DEFAULT
                         : window_ns,
    };
}

/* 7 per 60 s is 7 * 1440 * 365 in a year; a bucket has its burst once more. */
static void seven_a_minute_do_not_drift_in_a_year(void **state)
{
    (void)state;
    const struct pace paces[] = {
        pace_of(ALGORITHM_TOKEN_BUCKET, 7, 60 * S_NS, 7, 7),
        pace_of(ALGORITHM_FIXED_WINDOW, 7, 60 * S_NS, 7, 0),
        pace_of(ALGORITHM_SLIDING_WINDOW, 7, 60 * S_NS, 1, 1),
        pace_of(ALGORITHM_SLIDING_LOG, 7, 60 * S_NS, 7, 0),
        pace_of(ALGORITHM_LEAKY_BUCKET, 7, 60 * S_NS, 7, 7),
        pace_of(ALGORITHM_SLIDING_BUCKETS, 7, 60 * S_NS, 7, 7),
        pace_of(ALGORITHM_CONCURRENCY, 7, 60 * S_NS, 7, 0), /* of leases that nobody releases */
    };
    for (size_t i = 0; i < sizeof paces / sizeof *paces; i++)
        assert_paced(&paces[i], EFFORT(YEAR_DAYS));
}

/* 7 per 60 s is 10,080 a day, one more or less, when asked for one by one. */
static void seven_a_minute_are_10080_a_day(void **state)
{
    (void)state;
    for (enum algorithm algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct pace pace = pace_of(algorithm, 7, 60 * S_NS, 1, 1);
        if (algorithm == ALGORITHM_SLIDING_BUCKETS)
            pace.once = pace.limit.count; /* a day is not a whole number of its periods */
        pace.limit.burst = limit_has_burst(algorithm);
        assert_paced(&pace, 1);
    }
}

/* From once a year to 10^9 a second: 600,000,000 a second are not rounded to another rate. */
static void the_slowest_and_the_fastest_rates_are_exact(void **state)
{
    (void)state;
    const uint64_t counts[] = {600000000, 1000000000, 599999999};
    const struct pace years[] = {
        pace_of(ALGORITHM_TOKEN_BUCKET, 1, YEAR_NS, 1, 1),
        pace_of(ALGORITHM_FIXED_WINDOW, 1, YEAR_NS, 1, 0),
        pace_of(ALGORITHM_SLIDING_WINDOW, 2, YEAR_NS, 1, 1),
        pace_of(ALGORITHM_SLIDING_LOG, 1, YEAR_NS, 1, 0),
        pace_of(ALGORITHM_LEAKY_BUCKET, 1, YEAR_NS, 1, 1),
        pace_of(ALGORITHM_SLIDING_BUCKETS, 1, YEAR_NS, 1, 1),
    };
    for (size_t i = 0; i < sizeof years / sizeof *years; i++)
        assert_paced(&years[i], 20 * YEAR_DAYS);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const struct pace seconds[] = {
            pace_of(ALGORITHM_TOKEN_BUCKET, counts[i], S_NS, counts[i], counts[i]),
            pace_of(ALGORITHM_FIXED_WINDOW, counts[i], S_NS, counts[i], 0),
        };
        for (size_t k = 0; k < sizeof seconds / sizeof *seconds; k++)
            assert_paced(&seconds[k], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_has_its_ops),
        cmocka_unit_test(seven_a_minute_do_not_drift_in_a_year),
        cmocka_unit_test(seven_a_minute_are_10080_a_day),
        cmocka_unit_test(the_slowest_and_the_fastest_rates_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
