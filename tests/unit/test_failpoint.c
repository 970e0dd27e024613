/* test_failpoint.c - names of failpoints, and that a place without them costs nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/failpoint.h"

enum { TEXT_LEN = 80 };

/* Whoever reads a name in the documentation can type it. */
static void every_name_parses_to_its_own_point(void **state)
{
    (void)state;
    for (int i = 0; i < FAILPOINT_COUNT; i++) {
        char text[TEXT_LEN];
        enum failpoint point = FAILPOINT_COUNT;
        uint64_t times = 0;
        (void)snprintf(text, sizeof text, "%s:%d", failpoint_name((enum failpoint)i), i + 7);
        assert_int_equal(failpoint_parse(text, &point, &times), 0);
        assert_int_equal(point, i);
        assert_int_equal(times, i + 7);
    }
}

/* A test with a misspelt place would pass without having failed anything. */
static void what_names_no_place_is_refused_and_changes_nothing(void **state)
{
    static const char *const texts[] = {"",
                                        ":1",
                                        "pass-after-send",
                                        "pass-after-send:",
                                        "pass:1",
                                        "PASS:1",
                                        "pass-after-send:0",
                                        "pass-after-send:-1",
                                        "pass-after",
                                        "nonsense:1",
                                        "pass-after-send:1x",
                                        "pass-after-send:1234567890",
                                        "pass-after-send :1",
                                        "pass-after-sendx:1",
                                        "pass-after-send:1:1"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        enum failpoint point = FAILPOINT_COUNT;
        uint64_t times = 42;
        assert_int_equal(failpoint_parse(texts[i], &point, &times), TG_EINVALID);
        assert_int_equal(point, FAILPOINT_COUNT);
        assert_int_equal(times, 42);
    }
}

static void note(void *context, enum failpoint point)
{
    int *seen = context;
    seen[point]++;
}

/* The place is told, and nobody is asked where nobody is. */
static void a_place_is_told_to_whoever_listens(void **state)
{
    int seen[FAILPOINT_COUNT] = {0};
    const struct failpoints failpoints = {.reach = note, .context = seen};
    (void)state;
    failpoint_reach(NULL, FAILPOINT_PASS_AFTER_SEND);
    failpoint_reach(&failpoints, FAILPOINT_PASS_AFTER_SEND);
    for (int i = 0; i < FAILPOINT_COUNT; i++)
        assert_int_equal(seen[i], i == FAILPOINT_PASS_AFTER_SEND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_parses_to_its_own_point),
        cmocka_unit_test(what_names_no_place_is_refused_and_changes_nothing),
        cmocka_unit_test(a_place_is_told_to_whoever_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
