/* test_busy_poll.c - how long a turn goes on looking, with looks and times that the test makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/runtime/system/busy_poll.h"

#define US INT64_C(1000)
#define T0 (INT64_C(1767323045) * 1000000000)

enum { REQUESTS = 1000000 };

/* A turn that answers somebody at `*now_ns`, who asks again `again_ns` later: whether that is found
 * before the turn ends, by a look each microsecond. */
static bool asks_again(struct busy_poll *poll, int64_t *now_ns, int64_t again_ns)
{
    const int64_t at_ns = *now_ns + again_ns;
    busy_poll_begin(poll);
    assert_true(busy_poll_on(poll, true, *now_ns));
    while (busy_poll_on(poll, false, *now_ns)) {
        *now_ns += US;
        if (*now_ns < at_ns)
            continue;
        assert_true(busy_poll_on(poll, true, *now_ns));
        return true;
    }
    return false;
}

/* Turns in which nobody asks again until one polls for it: how many did not. */
static uint32_t let_pass(struct busy_poll *poll, int64_t *now_ns)
{
    for (uint32_t passed = 0;; passed++) {
        const int64_t began_ns = *now_ns;
        assert_false(asks_again(poll, now_ns, INT64_MAX / 2));
        if (*now_ns > began_ns)
            return passed;
    }
}

/* Else each of them would find the thread asleep. */
static void who_asks_again_within_the_window_is_found_each_time(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(asks_again(&poll, &now_ns, BUSY_POLL_NS));
    assert_true(now_ns == T0 + 1000 * BUSY_POLL_NS);
}

/* Longer than it takes to sleep and to be woken would be a loss. */
static void a_turn_polls_no_longer_than_the_window(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    assert_false(asks_again(&poll, &now_ns, BUSY_POLL_NS + US));
    assert_true(now_ns == T0 + BUSY_POLL_NS);
}

/* The window is of each one who asks, not of the turn: clients in a row are all waited for. */
static void each_one_found_has_the_next_waited_for_as_long(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    busy_poll_begin(&poll);
    for (int i = 0; i < 5; i++) {
        assert_true(busy_poll_on(&poll, true, now_ns));
        assert_true(busy_poll_on(&poll, false, now_ns));
        now_ns += BUSY_POLL_NS - 1;
        assert_true(busy_poll_on(&poll, false, now_ns));
    }
    assert_false(busy_poll_on(&poll, false, now_ns + 1));
}

/* A turn that only had a look round has answered nobody who could ask again. */
static void a_turn_that_found_nobody_does_not_poll(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    assert_true(asks_again(&poll, &now_ns, US));
    busy_poll_begin(&poll);
    assert_false(busy_poll_on(&poll, false, now_ns));
    assert_true(asks_again(&poll, &now_ns, US));
}

/* What was cut short, because the turn has taken long enough, says nothing of who asks. */
static void a_window_cut_short_is_neither_hit_nor_miss(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    assert_int_equal(let_pass(&poll, &now_ns), 0);
    for (uint32_t i = 0; i < BUSY_POLL_PASS_MIN; i++)
        assert_false(asks_again(&poll, &now_ns, US));
    for (int i = 0; i < 100; i++) {
        busy_poll_begin(&poll);
        assert_true(busy_poll_on(&poll, true, now_ns));
        assert_true(busy_poll_on(&poll, false, now_ns));
        now_ns += BUSY_POLL_NS; /* elsewhere */
    }
    assert_int_equal(let_pass(&poll, &now_ns), 0);
    assert_int_equal(let_pass(&poll, &now_ns), 2 * BUSY_POLL_PASS_MIN);
}

/* Who has stopped asking in a row is tried ever more seldom, but for ever. */
static void each_miss_in_a_row_lets_twice_as_many_pass(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    assert_int_equal(let_pass(&poll, &now_ns), 0);
    for (uint32_t pass = BUSY_POLL_PASS_MIN; pass <= BUSY_POLL_PASS_MAX; pass *= 2)
        assert_int_equal(let_pass(&poll, &now_ns), pass);
    for (int i = 0; i < 10; i++)
        assert_int_equal(let_pass(&poll, &now_ns), BUSY_POLL_PASS_MAX);
}

/* One who begins to ask in a row is served so from the first time that it is noticed. */
static void after_a_hit_misses_are_counted_anew(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    uint32_t passed = 0;
    (void)state;
    for (int i = 0; i < 20; i++)
        (void)let_pass(&poll, &now_ns);
    while (!asks_again(&poll, &now_ns, US))
        passed++;
    assert_int_equal(passed, BUSY_POLL_PASS_MAX);
    assert_true(asks_again(&poll, &now_ns, US));
    assert_int_equal(let_pass(&poll, &now_ns), 0);
    assert_int_equal(let_pass(&poll, &now_ns), BUSY_POLL_PASS_MIN);
}

/* Somebody found without polling is no hit: those who ask at once would have it poll in vain. */
static void who_has_asked_already_is_no_hit(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    (void)let_pass(&poll, &now_ns);
    for (uint32_t i = 0; i < BUSY_POLL_PASS_MIN; i++) {
        busy_poll_begin(&poll);
        assert_true(busy_poll_on(&poll, true, now_ns));
        assert_true(busy_poll_on(&poll, true, now_ns));
        assert_false(busy_poll_on(&poll, false, now_ns));
    }
    assert_int_equal(let_pass(&poll, &now_ns), 0);
    assert_int_equal(let_pass(&poll, &now_ns), 2 * BUSY_POLL_PASS_MIN);
}

/* Others would wait for the turn to end, and for a processor. */
static void a_thread_polls_only_after_a_while_without_other_work(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    assert_true(asks_again(&poll, &now_ns, US));
    busy_poll_other(&poll, now_ns);
    const int64_t alone_ns = now_ns + BUSY_POLL_ALONE_NS;
    now_ns = alone_ns - 1;
    assert_false(asks_again(&poll, &now_ns, US));
    now_ns = alone_ns;
    assert_true(asks_again(&poll, &now_ns, US)); /* nor was that a miss */
}

/* What came for others while the turn polled says nothing of who asks. */
static void a_window_that_other_work_ends_is_neither_hit_nor_miss(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t now_ns = T0;
    (void)state;
    assert_int_equal(let_pass(&poll, &now_ns), 0);
    for (uint32_t i = 0; i < BUSY_POLL_PASS_MIN; i++)
        assert_false(asks_again(&poll, &now_ns, US));
    busy_poll_begin(&poll);
    assert_true(busy_poll_on(&poll, true, now_ns));
    assert_true(busy_poll_on(&poll, false, now_ns));
    busy_poll_other(&poll, now_ns);
    assert_true(busy_poll_on(&poll, true, now_ns));
    now_ns += BUSY_POLL_ALONE_NS;
    assert_int_equal(let_pass(&poll, &now_ns), 0);
    assert_int_equal(let_pass(&poll, &now_ns), 2 * BUSY_POLL_PASS_MIN);
}

/* What many a client does all day must cost next to nothing. */
static void who_asks_seldom_costs_forty_nanoseconds_a_request(void **state)
{
    struct busy_poll poll = {.polls = false};
    int64_t polled_ns = 0;
    (void)state;
    for (int i = 0; i < REQUESTS; i++) {
        int64_t now_ns = T0 + i * 500 * US;
        assert_false(asks_again(&poll, &now_ns, 500 * US));
        polled_ns += now_ns - (T0 + i * 500 * US);
    }
    assert_in_range(polled_ns / REQUESTS, 1, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_again_within_the_window_is_found_each_time),
        cmocka_unit_test(a_turn_polls_no_longer_than_the_window),
        cmocka_unit_test(each_one_found_has_the_next_waited_for_as_long),
        cmocka_unit_test(a_turn_that_found_nobody_does_not_poll),
        cmocka_unit_test(a_window_cut_short_is_neither_hit_nor_miss),
        cmocka_unit_test(each_miss_in_a_row_lets_twice_as_many_pass),
        cmocka_unit_test(after_a_hit_misses_are_counted_anew),
        cmocka_unit_test(who_has_asked_already_is_no_hit),
        cmocka_unit_test(a_thread_polls_only_after_a_while_without_other_work),
        cmocka_unit_test(a_window_that_other_work_ends_is_neither_hit_nor_miss),
        cmocka_unit_test(who_asks_seldom_costs_forty_nanoseconds_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
