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
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_moment_is_the_same_time),
        cmocka_unit_test(a_fraction_counts_to_the_nanosecond),
        cmocka_unit_test(what_is_no_moment_is_refused),
        cmocka_unit_test(leap_days_and_leap_seconds_are_read),
        cmocka_unit_test(random_moments_read_as_the_c_library_wrote_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
