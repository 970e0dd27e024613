/* test_suggest.c - the smallest limit that denies at most a share of the callers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/replay/suggest.h"
#include "node/limit/engine/engine.h"
#include "tests/unit/support_effort.h"

enum { EVENTS = 400, KEYS = 12 };
#define START_NS INT64_C(1795261462000000000)

static struct suggest_event events[EVENTS];

/* Random events in order of time; low keys are busy, and some keys come in bursts. */
static void make_events(struct random *random)
{
    int64_t now_ns = START_NS;
    for (int i = 0; i < EVENTS; i++) {
        const uint64_t most = random_below(random, KEYS) + 1;
        now_ns += (int64_t)random_below(random, 4) * 700000000;
        events[i] = (struct suggest_event){.now_ns = now_ns,
                                           .key = random_below(random, most) * 77,
                                           .cost = random_below(random, 6) == 0 ? 3 : 1};
    }
}

/* How many keys the limit denies, each tried in a table of its own. */
static uint64_t denied_keys(const struct limit *limit)
{
    uint64_t denied = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        struct table *table;
        bool any = false;
        assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 1), 0);
        for (int i = 0; i < EVENTS; i++) {
            struct limit_decision decision;
            if (events[i].key != key * 77)
                continue;
            engine_one(table, (struct hash128){7, 7}, 0, limit, events[i].cost, OPERATION_CHECK,
                       LIMIT_LOADED, events[i].now_ns, &decision);
            any = any || !decision.allowed;
        }
        denied += any;
        table_free(&table);
    }
    return denied;
}

static uint64_t different_keys(void)
{
    bool seen[KEYS] = {false};
    uint64_t count = 0;
    for (int i = 0; i < EVENTS; i++) {
        count += !seen[events[i].key / 77];
        seen[events[i].key / 77] = true;
    }
    return count;
}

/* For each algorithm and share, what is suggested is what trying 1, 2, 3.. one after the other
 * finds first. */
static void a_suggestion_is_the_first_count_that_denies_few(void **state)
{
    (void)state;
    static const uint64_t shares[] = {0, 100000, 300000, 1000000};
    struct random random;
    random_init(&random, 51);
    for (int round = 0; round < EFFORT(6); round++) {
        struct suggest suggest;
        make_events(&random);
        assert_int_equal(suggest_init(&suggest, alloc_heap(), EVENTS * 2), 0);
        for (int i = 0; i < EVENTS; i++) {
            suggest_add(&suggest, 3, events[i].key, events[i].now_ns, events[i].cost);
            suggest_add(&suggest, i % 2 == 0 ? 2 : 4, 1, events[i].now_ns, 1); /* other rules */
        }
        for (unsigned algorithm = 0; algorithm < 4; algorithm++) {
            const struct limit limit = {.count = 100,
                                        .window_ns = UINT64_C(20000000000),
                                        .burst = algorithm == 0 && round % 2 == 0 ? 40 : 0,
                                        .algorithm = (uint8_t)algorithm};
            const uint64_t ppm = shares[random_below(&random, 4)];
            struct suggestion found;
            assert_int_equal(suggest_find(&suggest, 3, &limit, NULL, ppm, &found), 0);
            const uint64_t most = different_keys() * ppm / 1000000;
            struct limit naive = limit;
            for (naive.count = 1;; naive.count++) {
                naive.burst = limit.burst == 0 ? 0 : naive.count * 40 / 100;
                naive.burst += limit.burst != 0 && naive.burst == 0;
                if (denied_keys(&naive) <= most)
                    break;
            }
            assert_int_equal(found.count, naive.count);
            assert_int_equal(found.burst, naive.burst);
            assert_int_equal(found.denied, denied_keys(&naive));
            assert_int_equal(found.keys, different_keys());
        }
        suggest_fini(&suggest);
    }
}

/* A log may ask for more than an algorithm can count: then nothing is suggested. */
static void what_no_limit_can_do_is_not_suggested(void **state)
{
    (void)state;
    struct suggest suggest;
    struct suggestion found;
    const struct limit limit = {
        .count = 5, .window_ns = UINT64_C(1000000000), .algorithm = ALGORITHM_SLIDING_LOG};
    assert_int_equal(suggest_init(&suggest, alloc_heap(), 16), 0);
    suggest_add(&suggest, 0, 1, START_NS, LIMIT_LOG_COUNT_MAX + 1);
    assert_int_equal(suggest_find(&suggest, 0, &limit, NULL, 0, &found), 0);
    assert_int_equal(found.count, 0);
    assert_int_equal(found.keys, 1);
    assert_int_equal(suggest_find(&suggest, 7, &limit, NULL, 0, &found), 0);
    assert_int_equal(found.keys, 0);
    suggest_fini(&suggest);
}

/* A limit of the calendar is tried with the days of its zone: two requests on both sides of that
 * zone's midnight need no more than one a day, in UTC they were one day's. */
static void a_calendar_limit_is_tried_by_its_zone(void **state)
{
    (void)state;
    static const struct calendar_span tokyo = {0, 9 * 3600};
    static const struct calendar_span utc = {0, 0};
    const struct calendar_zone zones[] = {{&tokyo, 1}, {&utc, 1}};
    const int64_t day_ns = INT64_C(86400) * 1000000000;
    const int64_t midnight_ns = START_NS - START_NS % day_ns + 15 * (day_ns / 24);
    const struct limit limit = {.count = 5,
                                .window_ns = (uint64_t)day_ns,
                                .algorithm = ALGORITHM_FIXED_WINDOW,
                                .align = LIMIT_ALIGN_DAY};
    struct suggest suggest;
    struct suggestion found;
    assert_int_equal(suggest_init(&suggest, alloc_heap(), 2), 0);
    suggest_add(&suggest, 0, 1, midnight_ns - 1, 1);
    suggest_add(&suggest, 0, 1, midnight_ns, 1);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(suggest_find(&suggest, 0, &limit, &zones[i], 0, &found), 0);
        assert_int_equal(found.count, 1 + i);
    }
    suggest_fini(&suggest);
}

/* More events than there is room for are left out, and that is known. */
static void events_beyond_the_room_are_left_out_and_that_is_said(void **state)
{
    (void)state;
    struct suggest suggest;
    assert_int_equal(suggest_init(&suggest, alloc_heap(), 4), 0);
    for (int i = 0; i < 4; i++)
        suggest_add(&suggest, 0, 1, START_NS, 1);
    assert_false(suggest.cut);
    suggest_add(&suggest, 0, 1, START_NS, 1);
    assert_true(suggest.cut);
    assert_int_equal(suggest.count, 4);
    suggest_fini(&suggest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suggestion_is_the_first_count_that_denies_few),
        cmocka_unit_test(what_no_limit_can_do_is_not_suggested),
        cmocka_unit_test(a_calendar_limit_is_tried_by_its_zone),
        cmocka_unit_test(events_beyond_the_room_are_left_out_and_that_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
