/* test_timeline.c - requests by the minute, whatever the length of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/replay/timeline.h"

#define START_NS INT64_C(1795261462000000000)

static struct timeline timeline;

static void add(struct timeline_axis *axis, int64_t now_ns, bool denied)
{
    const unsigned folds = timeline_folds(axis, now_ns);
    timeline_fold(&timeline, folds);
    timeline_axis_fold(axis, folds);
    const uint32_t column = timeline_column(axis, now_ns);
    timeline.requests[column]++;
    timeline.denied[column] += denied;
}

/* The axis begins with the first request's minute, and a column is one. */
static void columns_are_the_minutes_of_the_clock(void **state)
{
    (void)state;
    struct timeline_axis axis = {0};
    memset(&timeline, 0, sizeof timeline);
    add(&axis, START_NS, false); /* 11:44:22 */
    add(&axis, START_NS + 37 * INT64_C(1000000000), false);
    add(&axis, START_NS + 38 * INT64_C(1000000000), true);
    assert_int_equal(axis.origin_ns % TIMELINE_MINUTE_NS, 0);
    assert_int_equal(axis.width_ns, TIMELINE_MINUTE_NS);
    assert_int_equal(axis.used, 2);
    assert_int_equal(timeline.requests[0], 2);
    assert_int_equal(timeline.requests[1], 1);
    assert_int_equal(timeline.denied[1], 1);
}

/* A log of any length fits: columns are joined, sums stay, and each request stays in the column of
 * its time. */
static void longer_logs_have_wider_columns_and_equal_sums(void **state)
{
    (void)state;
    enum { REQUESTS = 20000 };
    static int64_t times[REQUESTS];
    struct random random;
    random_init(&random, 31);
    for (int round = 0; round < 20; round++) {
        struct timeline_axis axis = {0};
        memset(&timeline, 0, sizeof timeline);
        int64_t now_ns = START_NS;
        for (int i = 0; i < REQUESTS; i++) {
            times[i] = now_ns;
            add(&axis, now_ns, i % 3 == 0);
            now_ns += (int64_t)random_below(&random, UINT64_C(1000000000) << round % 12);
        }
        static uint32_t model[TIMELINE_COLUMNS];
        uint64_t sum = 0;
        memset(model, 0, sizeof model);
        for (int i = 0; i < REQUESTS; i++)
            model[(times[i] - axis.origin_ns) / axis.width_ns]++;
        for (uint32_t i = 0; i < TIMELINE_COLUMNS; i++) {
            assert_int_equal(timeline.requests[i], model[i]);
            assert_true(model[i] == 0 || i < axis.used);
            sum += timeline.denied[i];
        }
        assert_int_equal(sum, (REQUESTS + 2) / 3);
        assert_true(axis.used > TIMELINE_COLUMNS / 2 || axis.width_ns == TIMELINE_MINUTE_NS);
    }
}

/* A time that is decades away is a fold or twenty, no more. */
static void a_time_far_away_fits(void **state)
{
    (void)state;
    struct timeline_axis axis = {0};
    memset(&timeline, 0, sizeof timeline);
    add(&axis, 0, false);
    add(&axis, INT64_C(4000000000000000000), true);
    add(&axis, 0, false);
    assert_int_equal(timeline.requests[0], 2);
    assert_true(axis.used <= TIMELINE_COLUMNS);
}

/* Time that goes back behind the first request counts in the first column. */
static void what_comes_before_the_axis_is_in_its_first_column(void **state)
{
    (void)state;
    struct timeline_axis axis = {0};
    memset(&timeline, 0, sizeof timeline);
    add(&axis, START_NS, false);
    add(&axis, START_NS - 10 * TIMELINE_MINUTE_NS, true);
    assert_int_equal(timeline.requests[0], 2);
    assert_int_equal(axis.used, 1);
}

/* Joined columns end at the largest count there is, and an odd one at the end stays in use. */
static void joined_columns_neither_overflow_nor_vanish(void **state)
{
    (void)state;
    struct timeline_axis axis = {0};
    memset(&timeline, 0, sizeof timeline);
    for (int64_t minute = 0; minute < 3; minute++)
        add(&axis, START_NS + minute * TIMELINE_MINUTE_NS, true);
    timeline.requests[0] = UINT32_MAX;
    timeline_fold(&timeline, 1);
    timeline_axis_fold(&axis, 1);
    assert_int_equal(axis.used, 2);
    assert_int_equal(axis.width_ns, 2 * TIMELINE_MINUTE_NS);
    assert_int_equal(timeline.requests[0], UINT32_MAX);
    assert_int_equal(timeline.denied[0], 2);
    assert_int_equal(timeline.requests[1], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_the_minutes_of_the_clock),
        cmocka_unit_test(longer_logs_have_wider_columns_and_equal_sums),
        cmocka_unit_test(a_time_far_away_fits),
        cmocka_unit_test(what_comes_before_the_axis_is_in_its_first_column),
        cmocka_unit_test(joined_columns_neither_overflow_nor_vanish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
