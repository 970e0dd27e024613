/* test_heat.c - which keys are hot: counted over 200 ms, in few cells, among many keys. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "client/lib/cache/heat.h"

enum { MS = 1000000, EVENTS = 3000 };
static const int64_t start_ns = 1000000000;
static const uint64_t place = 0x8123456789abcdefULL;

static struct client_heat heat;

static int set_up(void **state)
{
    (void)state;
    return client_heat_init(&heat, alloc_heap());
}

static int tear_down(void **state)
{
    (void)state;
    client_heat_fini(&heat);
    return 0;
}

/* The 64th check in 200 ms makes a key hot, and says how many tokens they took. */
static void sixty_four_checks_in_time_make_a_key_hot(void **state)
{
    (void)state;
    for (int i = 1; i < CLIENT_HEAT_CHECKS; i++)
        assert_int_equal(client_heat_count(&heat, place, 1, 3, start_ns + i * MS), 0);
    assert_int_equal(client_heat_count(&heat, place, 1, 3, start_ns + 64 * MS), 64 * 3);
    /* 63 again, spread over more time than that: never */
    for (int i = 0; i < 500; i++)
        assert_int_equal(client_heat_count(&heat, place, 1, 1, start_ns + 1000 * MS + i * 4 * MS),
                         0);
}

/* Against a list of all that was counted: the sum is that of the last eight spans of 25 ms. */
static void demand_is_that_of_the_last_spans(void **state)
{
    static int64_t times[EVENTS];
    static uint64_t tokens[EVENTS];
    int64_t now_ns = start_ns;
    struct random random;

    (void)state;
    random_init(&random, 8);
    for (int i = 0; i < EVENTS; i++) {
        const int64_t from_span = CLIENT_HEAT_SPANS - 1;
        uint64_t checks = 0;
        uint64_t expected = 0;

        now_ns += random_between(&random, 0, i % 500 == 0 ? 900 * MS : 4 * MS);
        times[i] = now_ns / ((int64_t)CLIENT_HEAT_SPAN_MS * MS);
        tokens[i] = random_below(&random, 17);
        for (int k = 0; k <= i; k++) {
            if (times[k] >= times[i] - from_span) {
                checks++;
                expected += tokens[k];
            }
        }
        assert_int_equal(client_heat_count(&heat, place, 1, tokens[i], now_ns),
                         checks >= CLIENT_HEAT_CHECKS ? expected : 0);
    }
}

/* A key is not called hot while it is quiet. */
static void a_quiet_key_is_not_called_hot(void **state)
{
    (void)state;
    assert_int_equal(client_heat_count(&heat, place, 64, 64, start_ns), 64);
    client_heat_quiet(&heat, place, start_ns + 10 * MS);
    assert_int_equal(client_heat_count(&heat, place, 1, 1, start_ns + 9 * MS), 0);
    assert_int_equal(client_heat_count(&heat, place, 1, 1, start_ns + 10 * MS), 66);
    client_heat_quiet(&heat, ~place, INT64_MAX); /* another key's cell: nothing */
}

/* One key in a hundred checks, among a million others that come once or twice, is found hot. */
static void a_hot_key_is_found_among_a_million(void **state)
{
    struct random random;
    uint64_t hot = 0;

    (void)state;
    random_init(&random, 5);
    for (int64_t i = 0; i < 200000; i++) { /* a million a second */
        const int64_t now_ns = start_ns + i * 1000;

        if (i % 100 == 0)
            hot += client_heat_count(&heat, place, 1, 1, now_ns) != 0;
        else
            assert_int_equal(client_heat_count(&heat,
                                               hash_mix64(random_below(&random, 1000000)) | 1, 1, 1,
                                               now_ns),
                             0);
    }
    assert_true(hot > 1500);
}

/* A key that has cooled down gives its cell to the next one. */
static void a_cold_key_loses_its_cell(void **state)
{
    const uint64_t rival = place ^ 1; /* of the same cell */

    (void)state;
    assert_int_equal(client_heat_count(&heat, place, 100, 100, start_ns), 100);
    assert_int_equal(client_heat_count(&heat, rival, 64, 64, start_ns + 100 * MS), 0);
    assert_int_equal(client_heat_count(&heat, rival, 64, 64, start_ns + 300 * MS), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sixty_four_checks_in_time_make_a_key_hot, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(demand_is_that_of_the_last_spans, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_quiet_key_is_not_called_hot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hot_key_is_found_among_a_million, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cold_key_loses_its_cell, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
