/* test_zones.c - the system's time zones as tables: complete, in order, and refused if unknown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/zones/zones.h"

static struct calendar_span spans[POLICY_ZONE_SPANS_MAX];

static uint32_t spans_of(const char *name, uint32_t max)
{
    const struct policy_zones *zones = zones_system();
    return zones->spans(zones->context, name, spans, max);
}

/* At any moment the table has the offset that the C library has. */
static void a_table_has_the_offsets_of_the_c_library(void **state)
{
    (void)state;
    static const char *const names[] = {"Europe/Berlin",       "America/New_York",
                                        "Africa/Casablanca",   "Asia/Kathmandu",
                                        "Australia/Lord_Howe", "EST5EDT"};
    struct random random;
    random_init(&random, 41);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint32_t count = spans_of(names[i], POLICY_ZONE_SPANS_MAX);
        assert_true(count > 0 && count < POLICY_ZONE_SPANS_MAX);
        for (uint32_t k = 1; k < count; k++) {
            assert_true(spans[k].from_s > spans[k - 1].from_s);
            assert_true(spans[k].offset_s != spans[k - 1].offset_s);
        }
        assert_int_equal(setenv("TZ", names[i], 1), 0);
        tzset();
        for (unsigned n = 0; n < 5000; n++) {
            const time_t at = (time_t)random_between(&random, 0, INT64_C(3990000000));
            uint32_t k = count - 1;
            struct tm tm;
            while (k > 0 && spans[k].from_s > at)
                k--;
            assert_non_null(localtime_r(&at, &tm));
            assert_int_equal(spans[k].offset_s, tm.tm_gmtoff);
        }
    }
}

/* What is no name of the database is no zone, though it may look like a rule of POSIX, or be a file
 * that lies beside the zones: another node's localtime is another one. */
static void what_is_no_name_of_the_database_is_unknown(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Mars/Olympus",   "",          "../etc/passwd",       "Berlin1",    "UTC+2",
        "Europe/berlin ", "localtime", "right/Europe/Berlin", "posixrules", "leapseconds",
        "europe/berlin",  "Europe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(spans_of(names[i], POLICY_ZONE_SPANS_MAX), 0);
    assert_int_equal(spans_of("Europe/Berlin", 0), 0);
    assert_int_equal(spans_of("Europe/Berlin", 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_the_offsets_of_the_c_library),
        cmocka_unit_test(what_is_no_name_of_the_database_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
