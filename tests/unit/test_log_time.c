/* test_log_time.c - the ways in which logs write a moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/replay/log_time.h"
#include "tests/unit/support_effort.h"

#define SECOND_NS INT64_C(1000000000)

static int64_t read_any(const char *text)
{
    int64_t ns = -1;
    return log_time_any(text, strlen(text), &ns) == 0 ? ns : -1;
}

/* The same moment, whichever way a log writes it. */
static void every_form_of_a_moment_is_the_same_time(void **state)
{
    (void)state;
    static const char *const forms[] = {"21/Nov/2026:12:44:22 +0100",
                                        "21/Nov/2026:11:44:22 +0000",
                                        "21/Nov/2026:04:14:22 -0730",
                                        "2026-11-21T11:44:22Z",
                                        "2026-11-21t11:44:22z",
                                        "2026-11-21 11:44:22",
                                        "2026-11-21T12:44:22+01:00",
                                        "2026-11-21T12:44:22+0100",
                                        "2026-11-21T11:44:22.000000000Z",
                                        "1795261462",
                                        "1795261462000",
                                        "1795261462000000",
                                        "1795261462000000000",
                                        "1795261462.000"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        assert_int_equal(read_any(forms[i]), 1795261462 * SECOND_NS);
}

/* Fractions count to the nanosecond, in every form that can have one. */
static void a_fraction_counts_to_the_nanosecond(void **state)
{
    (void)state;
    assert_int_equal(read_any("2026-11-21T11:44:22.125Z"), 1795261462 * SECOND_NS + 125000000);
    assert_int_equal(read_any("2026-11-21T11:44:22,125"), 1795261462 * SECOND_NS + 125000000);
    assert_int_equal(read_any("1795261462.123456789"), 1795261462 * SECOND_NS + 123456789);
    assert_int_equal(read_any("1795261462.1234567899"), 1795261462 * SECOND_NS + 123456789);
    assert_int_equal(read_any("1795261462123.5"), 1795261462 * SECOND_NS + 123500000);
    assert_int_equal(read_any("21/Nov/2026:11:44:22.125 +0000"),
                     1795261462 * SECOND_NS + 125000000);
}

/* What is no moment is refused, and leaves the result alone. */
static void what_is_no_moment_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "-",
        "yesterday",
        "21/Nov/2026:12:44:22",
        "21/Nov/2026:12:44:22 +01000",
        "21/Nov/2026:12:44:22 0100",
        "31/Nov/2026:12:44:22 +0100",
        "29/Feb/2026:12:44:22 +0100",
        "21/Now/2026:12:44:22 +0100",
        "21/Nov/2026:24:44:22 +0100",
        "21/Nov/2026:12:60:22 +0100",
        "21/Nov/2026:12:44:61 +0100",
        "21/Nov/1969:12:44:22 +0100",
        "01/Jan/1970:00:00:00 +0100",
        "2026-11-21",
        "2026-11-21T11:44:22.Z",
        "2026-11-21T11:44:22+1",
        "2026-13-21T11:44:22Z",
        "2097-01-01T00:00:00Z",
        "1795261462.",
        "1795261462x",
        "-1",
        "99999999999999999999",
        "4000000000000000001",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t ns = 7;
        assert_int_equal(log_time_any(wrong[i], strlen(wrong[i]), &ns), TG_EINVALID);
        assert_int_equal(ns, 7);
    }
}

/* A leap day exists in leap years alone, and a leap second is the next minute's first. */
static void leap_days_and_leap_seconds_are_read(void **state)
{
    (void)state;
    assert_int_equal(read_any("2028-02-29T00:00:00Z"), 1835395200 * SECOND_NS);
    assert_int_equal(read_any("2000-02-29T00:00:00Z"), 951782400 * SECOND_NS);
    assert_int_equal(read_any("2016-12-31T23:59:60Z"), read_any("2017-01-01T00:00:00Z"));
}

/* A leap second is at the end of a day in UTC, wherever the clock hangs, and nowhere else. */
static void a_second_of_60_exists_at_the_end_of_a_day_alone(void **state)
{
    (void)state;
    assert_int_equal(read_any("2017-01-01T08:59:60+09:00"), read_any("2017-01-01T00:00:00Z"));
    assert_int_equal(read_any("31/Dec/2016:18:59:60 -0500"), read_any("2017-01-01T00:00:00Z"));
    assert_int_equal(read_any("2016-12-31T12:59:60Z"), -1);
    assert_int_equal(read_any("2016-12-31T23:59:60+01:00"), -1);
    assert_int_equal(read_any("31/Dec/2016:23:58:60 +0000"), -1);
}

/* What people write: a time, with or without its zone, a day, or a number. */
static void dates_of_people_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"2026-11-21T13:33:07Z", 1795267987000},
                {"2026-11-21 13:33:07", 1795267987000},
                {"2026-11-21T14:33:07+01:00", 1795267987000},
                {"2026-11-21T13:33:07.125Z", 1795267987125},
                {"2024-02-29", 1709164800000},
                {"2000-03-01T00:00:00Z", 951868800000},
                {"2400-02-29T00:00:00Z", 13574563200000},
                {"9999-12-31T23:59:59Z", 253402300799000},
                {"1795267987", 1795267987000},
                {"1795267987000", 1795267987000}};
    uint64_t ms;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_null(log_time_date(good[i].text, strlen(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
}

/* A date that does not exist is never moved to one that does, and it is said what of it is wrong;
 * nor is any taken for 0, which would be no date at all. */
static void dates_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *wrong;
    } bad[] = {{"2027-02-30T00:00:00Z", "no such day"},
               {"2027-02-29", "no such day"},
               {"2100-02-29T00:00:00Z", "no such day"},
               {"2026-11-31T00:00:00Z", "no such day"},
               {"2026-01-00", "no such day"},
               {"2026-13-01", "no such month"},
               {"2026-00-01", "no such month"},
               {"2026-11-21T24:00:00Z", "no such time"},
               {"2026-11-21T25:00:00Z", "no such time"},
               {"2026-11-21T12:60:00Z", "no such time"},
               {"2026-11-21T12:00:60Z", "no such time"},
               {"2026-11-21T23:59:61Z", "no such time"},
               {"2026-11-21T12:00:00+24:00", "none"},
               {"2026-11-21T12:00:00+01:60", "none"},
               {"2026-11-21T12:00:00 UTC", "none"},
               {"2026-11-21x", "none"},
               {"2026-11-2", "none"},
               {"", "none"},
               {"tomorrow", "none"},
               {"-1", "none"},
               {"1969-01-01", "before 1970"},
               {"1970-01-01T00:00:00+01:00", "before 1970"},
               {"1970-01-01", "long over"},
               {"0", "long over"},
               {"9999-12-31T23:59:60Z", "behind the year 9999"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t ms = 7;
        const char *wrong = log_time_date(bad[i].text, strlen(bad[i].text), &ms);
        if (wrong == NULL || strstr(wrong, bad[i].wrong) == NULL)
            fail_msg("%s: %s", bad[i].text, wrong != NULL ? wrong : "taken");
        assert_int_equal(ms, 7);
    }
}

/* The calendar is that of the C library: random moments, written by strftime, read back. */
static void random_moments_read_as_the_c_library_wrote_them(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 20261121);
    for (int i = 0; i < EFFORT(200000); i++) {
        char text[64];
        char back[LOG_TIME_LEN];
        struct tm parts;
        const time_t moment = (time_t)(random_next(&random) % 4000000000u);
        assert_non_null(gmtime_r(&moment, &parts));
        assert_int_not_equal(strftime(text, sizeof text, "%d/%b/%Y:%H:%M:%S +0000", &parts), 0);
        assert_int_equal(read_any(text), moment * SECOND_NS);
        assert_int_not_equal(strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts), 0);
        assert_int_equal(read_any(text), moment * SECOND_NS);
        log_time_format(moment * SECOND_NS + 999999999, back);
        assert_string_equal(back, text);
        if (moment != 0) {
            uint64_t ms;
            assert_null(log_time_date(text, strlen(text), &ms));
            assert_int_equal(ms, moment * 1000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_moment_is_the_same_time),
        cmocka_unit_test(a_fraction_counts_to_the_nanosecond),
        cmocka_unit_test(what_is_no_moment_is_refused),
        cmocka_unit_test(leap_days_and_leap_seconds_are_read),
        cmocka_unit_test(a_second_of_60_exists_at_the_end_of_a_day_alone),
        cmocka_unit_test(dates_of_people_are_read),
        cmocka_unit_test(dates_that_do_not_exist_are_refused),
        cmocka_unit_test(random_moments_read_as_the_c_library_wrote_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
