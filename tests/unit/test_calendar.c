/* test_calendar.c - windows of the calendar against the C library's own reckoning of local time.
 *
 * The zones come from the system, through the daemon's shell; what is local time at a moment is
 * asked of localtime_r with TZ set, which shares no code with either.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/model/calendar.h"
#include "node/zones/zones.h"
#include "tests/unit/support_effort.h"

#define NS_PER_S INT64_C(1000000000)

enum { SPANS = POLICY_ZONE_SPANS_MAX, TRIES = EFFORT(3000) };

static struct calendar_span spans[SPANS];

static struct calendar_zone zone_of(const char *name)
{
    const struct policy_zones *zones = zones_system();
    const struct calendar_zone zone = {spans, zones->spans(zones->context, name, spans, SPANS)};
    assert_true(zone.span_count > 0);
    assert_int_equal(setenv("TZ", name, 1), 0);
    tzset();
    return zone;
}

static struct limit placed(const struct calendar_zone *zone, unsigned align, int64_t utc_s)
{
    struct limit limit = {.align = (uint8_t)align};
    calendar_place(zone, utc_s * NS_PER_S + 999, &limit);
    return limit;
}

static int64_t start_of(const struct limit *limit)
{
    assert_int_equal(limit->start_ns % NS_PER_S, 0);
    return limit->start_ns / NS_PER_S;
}

static int64_t end_of(const struct limit *limit)
{
    return start_of(limit) + (int64_t)(limit->window_ns / (uint64_t)NS_PER_S);
}

/* What is equal at two moments iff they are in the same unit of local time; it rises with time. */
static int64_t label(unsigned align, int64_t utc_s)
{
    const time_t at = (time_t)utc_s;
    struct tm tm;
    assert_non_null(localtime_r(&at, &tm));
    const int64_t year = tm.tm_year + 1900;
    if (align == LIMIT_ALIGN_YEAR)
        return year;
    if (align == LIMIT_ALIGN_MONTH)
        return year * 12 + tm.tm_mon;
    tm.tm_hour = 12;
    tm.tm_min = tm.tm_sec = 0;
    const int64_t day = timegm(&tm) / 86400;
    return align == LIMIT_ALIGN_DAY ? day : (day + 3) / 7;
}

static void assert_window(const struct calendar_zone *zone, unsigned align, int64_t utc_s)
{
    const struct limit limit = placed(zone, align, utc_s);
    const int64_t start_s = start_of(&limit);
    const int64_t end_s = end_of(&limit);
    assert_true(start_s <= utc_s && utc_s < end_s);
    assert_int_equal(label(align, start_s), label(align, utc_s));
    assert_int_equal(label(align, end_s - 1), label(align, utc_s));
    assert_true(label(align, start_s - 1) < label(align, utc_s));
    assert_true(label(align, end_s) > label(align, utc_s));
    const struct limit next = placed(zone, align, end_s);
    assert_int_equal(start_of(&next), end_s);
    assert_int_equal(next.before_s, end_s - start_s);
}

/* In zones of all kinds a window is what has one local date, from the first second to the last. */
static void a_window_is_what_has_one_local_date(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Europe/Berlin",     "America/New_York", "Asia/Kolkata",    "America/Sao_Paulo",
        "Africa/Casablanca", "Asia/Tehran",      "Pacific/Chatham", "UTC"};
    struct random random;
    random_init(&random, 31);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct calendar_zone zone = zone_of(names[i]);
        for (unsigned n = 0; n < TRIES; n++) {
            int64_t at_s = random_between(&random, INT64_C(86400) * 800, INT64_C(3900000000));
            if (n % 4 == 0 && zone.span_count > 1) { /* near a change of the clock */
                at_s = spans[1 + random_below(&random, zone.span_count - 1)].from_s;
                at_s += random_between(&random, -90000, 90000);
                at_s = at_s < 86400 * 800 ? 86400 * 800 : at_s;
            }
            const unsigned align =
                LIMIT_ALIGN_DAY +
                (unsigned)random_below(&random, LIMIT_ALIGN_COUNT - LIMIT_ALIGN_DAY);
            assert_window(&zone, align, at_s);
        }
    }
}

/* The days on which clocks change are of 23, 25 and 24.5 hours, and one window each. */
static void days_of_23_and_25_hours_are_one_window(void **state)
{
    (void)state;
    const struct {
        const char *zone;
        int64_t utc_s; /* a moment in the day */
        int64_t start_s;
        int64_t hours_10; /* tenths of an hour */
    } days[] = {
        {"Europe/Berlin", 1711848600, 1711839600, 230},       /* 2024-03-31 */
        {"Europe/Berlin", 1730000000, 1729980000, 250},       /* 2024-10-27 */
        {"Europe/Berlin", 1730066399, 1729980000, 250},       /* its last second */
        {"America/New_York", 1710050000, 1710046800, 230},    /* 2024-03-10 */
        {"Australia/Lord_Howe", 1712410000, 1712408400, 245}, /* 2024-04-07 */
        /* 2006-10-29, which had begun for a minute when the clock went back to 23:01 of the 28th:
         * the day is not left again. */
        {"America/St_Johns", 1162089059, 1162089000, 250},
        {"America/St_Johns", 1162089900, 1162089000, 250},
        {"America/St_Johns", 1162178999, 1162089000, 250},
        {"America/St_Johns", 1162088999, 1162002600, 240},
    };
    for (size_t i = 0; i < sizeof days / sizeof *days; i++) {
        const struct calendar_zone zone = zone_of(days[i].zone);
        const struct limit limit = placed(&zone, LIMIT_ALIGN_DAY, days[i].utc_s);
        assert_int_equal(start_of(&limit), days[i].start_s);
        assert_int_equal(limit.window_ns, (uint64_t)days[i].hours_10 * 360 * NS_PER_S);
    }
}

/* A zone may leave out a whole day: the days around it meet. Weeks begin on Monday. */
static void a_day_may_be_left_out_and_weeks_begin_on_monday(void **state)
{
    (void)state;
    const struct calendar_zone apia = zone_of("Pacific/Apia"); /* there was no 2011-12-30 */
    const struct limit before = placed(&apia, LIMIT_ALIGN_DAY, 1325239199);
    const struct limit after = placed(&apia, LIMIT_ALIGN_DAY, 1325239200);
    assert_int_equal(end_of(&before), 1325239200);
    assert_int_equal(start_of(&after), 1325239200);
    assert_int_equal(after.window_ns, 86400 * (uint64_t)NS_PER_S);
    const struct calendar_zone utc = zone_of("UTC");
    const struct limit week = placed(&utc, LIMIT_ALIGN_WEEK, 1700000000); /* a Tuesday */
    assert_int_equal(start_of(&week), 1699833600);
    const struct limit first = placed(&utc, LIMIT_ALIGN_YEAR, 5); /* nothing is before 1970 */
    assert_int_equal(start_of(&first), 0);
    assert_int_equal(first.before_s, 0);
}

/* Hours and minutes tile too, and end where the clock is moved in them. */
static void hours_and_minutes_tile_around_changes_of_the_clock(void **state)
{
    (void)state;
    static const char *const names[] = {"Australia/Lord_Howe", "Europe/Berlin", "Asia/Kathmandu"};
    struct random random;
    random_init(&random, 32);
    for (size_t i = 0; i < 3; i++) {
        const struct calendar_zone zone = zone_of(names[i]);
        for (unsigned n = 0; n < TRIES; n++) {
            int64_t at_s = random_between(&random, INT64_C(86400) * 800, INT64_C(3900000000));
            if (n % 2 == 0)
                at_s = spans[1 + random_below(&random, zone.span_count - 1)].from_s +
                       random_between(&random, -9000, 9000);
            at_s = at_s < 86400 * 800 ? 86400 * 800 : at_s;
            const unsigned align = n % 3 == 0 ? LIMIT_ALIGN_MINUTE : LIMIT_ALIGN_HOUR;
            const struct limit limit = placed(&zone, align, at_s);
            assert_true(start_of(&limit) <= at_s && at_s < end_of(&limit));
            assert_true(limit.window_ns <=
                        (align == LIMIT_ALIGN_HOUR ? 3600u : 60u) * (uint64_t)NS_PER_S);
            const struct limit next = placed(&zone, align, end_of(&limit));
            assert_int_equal(start_of(&next), end_of(&limit));
            assert_int_equal(next.before_s, end_of(&limit) - start_of(&limit));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_what_has_one_local_date),
        cmocka_unit_test(days_of_23_and_25_hours_are_one_window),
        cmocka_unit_test(a_day_may_be_left_out_and_weeks_begin_on_monday),
        cmocka_unit_test(hours_and_minutes_tile_around_changes_of_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
