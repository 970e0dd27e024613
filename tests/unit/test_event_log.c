/* test_event_log.c - what came about is told once each, in order, and who misses some is told so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/model/event_log.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

static struct event_log events;

static int begin_anew(void **state)
{
    (void)state;
    memset(&events, 0, sizeof events);
    return 0;
}

static struct event_lasting lasting(uint64_t name, const char *says)
{
    struct event_lasting one = {.name = name, .grave = true};
    (void)snprintf(one.code, sizeof one.code, "code%u", (unsigned)name);
    (void)snprintf(one.says, sizeof one.says, "%s", says);
    return one;
}

static void ids_are_times_and_rise_also_where_time_goes_back(void **state)
{
    (void)state;
    event_log_add(&events, 5 * SECOND, "one");
    event_log_add(&events, 5 * SECOND, "two");
    event_log_add(&events, 3 * SECOND, "three");
    event_log_add(&events, 6 * SECOND, "four");
    event_log_check_invariants(&events);
    const uint64_t expected[] = {5000000, 5000001, 5000002, 6000000};
    uint64_t id = 0;
    for (int i = 0; i < 4; i++) {
        const struct event *event = event_log_after(&events, id);
        assert_non_null(event);
        assert_int_equal(event->id, expected[i]);
        id = event->id;
    }
    assert_null(event_log_after(&events, id));
    assert_int_equal(event_log_newest(&events, 2), 5000001);
    assert_int_equal(event_log_newest(&events, 4), 0);
}

static void what_lasts_is_begun_once_and_over_once_whatever_it_says_meanwhile(void **state)
{
    struct event_lasting now[2] = {lasting(7, "n2 is not alive"), lasting(9, "disk full")};
    (void)state;
    event_log_follow(&events, 1 * SECOND, now, 2, true);
    assert_int_equal(events.count, 0);
    now[0] = lasting(7, "n2 was stopped");
    event_log_follow(&events, 2 * SECOND, now, 2, true);
    assert_int_equal(events.count, 2);
    event_log_follow(&events, 4 * SECOND, now + 1, 1, true);
    event_log_check_invariants(&events);
    assert_int_equal(events.count, 3);
    const struct event *over = event_log_after(&events, events.events[1].id);
    assert_int_equal(over->kind, EVENT_LOG_OVER);
    assert_int_equal(over->lasted_ms, 3000);
    assert_true(over->grave);
    assert_string_equal(over->code, "code7");
    assert_string_equal(over->says, "n2 is not alive");
    event_log_follow(&events, 5 * SECOND, now + 1, 1, true);
    assert_int_equal(events.count, 3);
}

static void what_is_not_listed_for_want_of_room_is_not_taken_for_over(void **state)
{
    struct event_lasting now[2] = {lasting(1, "a"), lasting(2, "b")};
    (void)state;
    event_log_follow(&events, 1 * SECOND, now, 2, true);
    event_log_follow(&events, 2 * SECOND, now, 1, false);
    assert_int_equal(events.count, 2);
    event_log_follow(&events, 3 * SECOND, now, 1, true);
    assert_int_equal(events.count, 3);
}

/* EVENTS-2 */
static void what_lasts_no_second_is_no_event(void **state)
{
    const struct event_lasting now = lasting(7, "n2 is not alive");
    (void)state;
    for (int i = 0; i < 100; i++) {
        event_log_follow(&events, i * SECOND, &now, 1, true);
        event_log_follow(&events, i * SECOND + SECOND - 1, &now, 1, true);
        event_log_follow(&events, i * SECOND + SECOND - 1, NULL, 0, true);
    }
    assert_int_equal(events.count, 0);
}

/* EVENTS-3: it is of a former life, of another node, or made up. */
static void who_names_an_event_that_is_none_is_told_all_that_are_kept(void **state)
{
    (void)state;
    event_log_begin(&events, 100 * SECOND);
    event_log_check_invariants(&events);
    event_log_add(&events, 101 * SECOND, "one");
    event_log_add(&events, 102 * SECOND, "two");
    static const uint64_t others[] = {1, 99999999, 102000001, UINT64_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(event_log_missed(&events, others[i]));
        assert_string_equal(event_log_after(&events, others[i])->says, "one");
    }
    assert_false(event_log_missed(&events, 101000000));
    assert_string_equal(event_log_after(&events, 101000000)->says, "two");
    assert_false(event_log_missed(&events, 102000000));
    assert_null(event_log_after(&events, 102000000));
}

static void a_sentence_is_cut_behind_a_whole_letter(void **state)
{
    char says[EVENT_SAYS_LEN + 8];
    (void)state;
    for (size_t at = 0; at < 4; at++) {
        memset(says, 'a', sizeof says);
        for (size_t i = EVENT_SAYS_LEN - 1 - at; i + 4 <= sizeof says; i += 4)
            memcpy(says + i, "\xf0\x9f\x98\x80", 4);
        says[sizeof says - 1] = '\0';
        event_log_add(&events, SECOND, says);
        const struct event *event = event_log_after(&events, events.last_id - 1);
        assert_int_equal(strlen(event->says), EVENT_SAYS_LEN - 1 - at);
    }
}

static void who_is_behind_by_more_than_is_kept_is_told_so(void **state)
{
    (void)state;
    event_log_add(&events, SECOND, "the first");
    const uint64_t first = events.last_id;
    for (int i = 0; i < EVENTS_MAX; i++) {
        assert_false(event_log_missed(&events, first));
        event_log_add(&events, SECOND, "more");
        event_log_check_invariants(&events);
    }
    assert_int_equal(events.count, EVENTS_MAX);
    assert_false(event_log_missed(&events, first)); /* it had the one that is lost */
    event_log_add(&events, SECOND, "one more");
    assert_true(event_log_missed(&events, first));
    assert_false(event_log_missed(&events, 0));
}

/* The naive model: a list of all that was ever told. */
static void a_reader_in_pieces_sees_each_event_once_in_order(void **state)
{
    struct random random;
    uint64_t seen = 0;
    unsigned told = 0;
    unsigned read = 0;
    (void)state;
    random_init(&random, 1);
    for (int round = 0; round < 2000; round++) {
        char text[16];
        const unsigned more = (unsigned)random_below(&random, 20);
        for (unsigned i = 0; i < more; i++) {
            (void)snprintf(text, sizeof text, "%u", told++);
            event_log_add(&events, (int64_t)random_below(&random, 1000) * SECOND, text);
        }
        if (random_below(&random, 8) != 0)
            continue;
        const bool missed = event_log_missed(&events, seen);
        const struct event *event = event_log_after(&events, seen);
        for (; event != NULL; event = event_log_after(&events, seen)) {
            (void)snprintf(text, sizeof text, "%u", read);
            if (!missed || read > 0)
                assert_true(missed || strcmp(event->says, text) == 0);
            read = (unsigned)strtoul(event->says, NULL, 10) + 1;
            seen = event->id;
        }
        assert_int_equal(read, told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ids_are_times_and_rise_also_where_time_goes_back, begin_anew),
        cmocka_unit_test_setup(what_lasts_is_begun_once_and_over_once_whatever_it_says_meanwhile,
                               begin_anew),
        cmocka_unit_test_setup(what_is_not_listed_for_want_of_room_is_not_taken_for_over,
                               begin_anew),
        cmocka_unit_test_setup(what_lasts_no_second_is_no_event, begin_anew),
        cmocka_unit_test_setup(who_names_an_event_that_is_none_is_told_all_that_are_kept,
                               begin_anew),
        cmocka_unit_test_setup(a_sentence_is_cut_behind_a_whole_letter, begin_anew),
        cmocka_unit_test_setup(who_is_behind_by_more_than_is_kept_is_told_so, begin_anew),
        cmocka_unit_test_setup(a_reader_in_pieces_sees_each_event_once_in_order, begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
