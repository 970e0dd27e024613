/* test_clock.c - the clock's course with injected readings, and the real clock over threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/runtime/system/clock.h"

#define SECOND INT64_C(1000000000)
#define MS     INT64_C(1000000)
#define BOOT   (1000 * SECOND)
#define UNIX   (INT64_C(1767323045) * SECOND)

enum { READERS = 3 };

/* Adjusts once a second for `seconds` with a wall clock that is `step_ns` ahead of an even one;
 * returns how far the wall clock is away at the end. Time must never go back on the way. */
static int64_t run(struct clock_course *course, int64_t *mono_ns, int64_t step_ns, int seconds)
{
    int64_t last_ns = clock_course_at(course, *mono_ns);

    for (int i = 0; i < seconds; i++) {
        const int64_t wall_ns = UNIX + (*mono_ns - BOOT) + step_ns;
        *course =
            clock_course_adjust(course, *mono_ns, wall_ns - clock_course_at(course, *mono_ns));
        for (int part = 0; part < 10; part++) {
            const int64_t before_ns = *mono_ns;
            *mono_ns += SECOND / 10;
            const int64_t now_ns = clock_course_at(course, *mono_ns);
            const int64_t gained_ns = now_ns - last_ns - (*mono_ns - before_ns);
            assert_true(now_ns >= last_ns);
            assert_true(gained_ns <= SECOND / 10 * CLOCK_SLEW_MAX_PPM / 1000000 + 1);
            assert_true(gained_ns >= -(SECOND / 10 * CLOCK_SLEW_MAX_PPM / 1000000) - 1);
            last_ns = now_ns;
        }
    }
    return UNIX + (*mono_ns - BOOT) + step_ns - last_ns;
}

/* With a wall clock that agrees, time is boot time plus what passed. */
static void an_agreeing_wall_clock_changes_nothing(void **state)
{
    struct clock_course course = clock_course_start(BOOT, UNIX);
    int64_t mono_ns = BOOT;

    (void)state;
    assert_true(clock_course_at(&course, BOOT) == UNIX);
    assert_true(clock_course_at(&course, BOOT + 7) == UNIX + 7);
    assert_true(run(&course, &mono_ns, 0, 100) == 0);
    assert_true(course.next.rate_ppb == 0);
}

/* A step of the wall clock is followed without a jump, at most 500 ppm, and reached. */
static void a_step_is_followed_slowly_and_reached(void **state)
{
    const int64_t steps[] = {SECOND, -SECOND, 3 * MS, -3 * MS};

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct clock_course course = clock_course_start(BOOT, UNIX);
        int64_t mono_ns = BOOT;
        int64_t left_ns = run(&course, &mono_ns, steps[i], 1);
        const int64_t closed_ns = steps[i] > 0 ? steps[i] - left_ns : left_ns - steps[i];
        assert_true(closed_ns > 490000 && closed_ns <= 500000);
        left_ns = run(&course, &mono_ns, steps[i], 2100);
        assert_true(left_ns <= CLOCK_DEADBAND_NS && left_ns >= -CLOCK_DEADBAND_NS);
        assert_true(course.next.rate_ppb == 0);
    }
}

/* However far the wall clocks are, time is slewed to them as fast as ever, and no faster. */
static void any_difference_is_slewed_at_the_same_rate(void **state)
{
    const int64_t steps[] = {30 * SECOND, 86400 * SECOND, INT64_MAX / 4};

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct clock_course course = clock_course_start(BOOT, UNIX);
        int64_t mono_ns = BOOT;
        const int64_t closed_ns = steps[i] - run(&course, &mono_ns, steps[i], 50);
        assert_true(closed_ns > 24 * MS && closed_ns <= 25 * MS);
        assert_true(course.next.rate_ppb == CLOCK_SLEW_MAX_PPM * 1000);
    }
}

/* A new rate begins in the future, so that readers of the old course and of the new agree. */
static void a_new_rate_begins_later_than_it_is_decided(void **state)
{
    const struct clock_course old = clock_course_start(BOOT, UNIX);

    (void)state;
    const struct clock_course new = clock_course_adjust(&old, BOOT + SECOND, 40 * MS);
    for (int64_t at = 0; at <= CLOCK_LEAD_NS; at += MS)
        assert_true(clock_course_at(&old, BOOT + SECOND + at) ==
                    clock_course_at(&new, BOOT + SECOND + at));
    assert_true(clock_course_at(&new, BOOT + 3 * SECOND) >
                clock_course_at(&old, BOOT + 3 * SECOND));
    const struct clock_course soon =
        clock_course_adjust(&new, BOOT + SECOND + CLOCK_LEAD_NS / 2, -UNIX);
    assert_true(soon.next.mono_ns == new.next.mono_ns &&soon.next.rate_ppb == new.next.rate_ppb);
}

/* Whatever the wall clock does, time goes forward (checked within run). */
static void a_wild_wall_clock_never_turns_time_back(void **state)
{
    struct clock_course course = clock_course_start(BOOT, UNIX);
    struct random random;
    int64_t mono_ns = BOOT;

    (void)state;
    random_init(&random, 20260102);
    for (int i = 0; i < 2000; i++)
        (void)run(&course, &mono_ns, random_between(&random, -30 * SECOND, 30 * SECOND), 1);
}

/* Makes the clock one that started `by_ns` early, in both copies of its course. */
static void set_back(struct clock *clock, int64_t by_ns)
{
    for (int copy = 0; copy < 2; copy++) {
        clock->courses[copy][1] -= by_ns;
        clock->courses[copy][4] -= by_ns;
    }
}

struct readers {
    struct clock clock;
    _Atomic bool done;
    _Atomic uint32_t failures;
};

static void *read_often(void *context)
{
    struct readers *readers = context;
    int64_t last_ns = clock_now_ns(&readers->clock);

    while (!readers->done) {
        const int64_t now_ns = clock_now_ns(&readers->clock);
        readers->failures += now_ns < last_ns || now_ns > last_ns + 60 * SECOND;
        last_ns = now_ns;
    }
    return NULL;
}

/* Threads that read while the clock slews and its course changes never see time go back. */
static void readers_never_see_time_go_back(void **state)
{
    struct readers readers = {.done = false};
    pthread_t threads[READERS];

    (void)state;
    assert_int_equal(clock_init(&readers.clock), 0);
    set_back(&readers.clock, 5 * SECOND);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_often, &readers), 0);
    const uint64_t start = readers.clock.version;
    const int64_t start_ns = clock_mono_ns(&readers.clock);
    while (clock_mono_ns(&readers.clock) < start_ns + 20 * CLOCK_LEAD_NS ||
           readers.clock.version < start + 2) /* whoever is late goes on until something happened */
        clock_adjust(&readers.clock, 5 * SECOND);
    readers.done = true;
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(readers.clock.version > start);
    assert_int_equal(readers.failures, 0);
    clock_look(&readers.clock);
    assert_true(clock_wall_ns(&readers.clock) < 5 * SECOND); /* it did slew */
}

/* The process's clock starts at the wall clock, is moved once, and tells how far it is from it. */
static void the_clock_starts_at_the_wall_clock(void **state)
{
    struct clock clock;
    struct timespec before;
    struct timespec after;

    (void)state;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &before), 0);
    assert_int_equal(clock_init(&clock), 0);
    const int64_t now_ns = clock_now_ns(&clock);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &after), 0);
    assert_true(now_ns > before.tv_sec * SECOND + before.tv_nsec - SECOND);
    assert_true(now_ns < after.tv_sec * SECOND + after.tv_nsec + SECOND);
    clock_look(&clock);
    assert_true(clock_wall_ns(&clock) < SECOND);
    clock_set(&clock, -3600 * SECOND);
    clock_look(&clock);
    assert_true(clock_wall_ns(&clock) > 3599 * SECOND && clock_wall_ns(&clock) < 3601 * SECOND);
    clock_adjust(&clock, 0);
    assert_true(clock_now_ns(&clock) < now_ns - 3500 * SECOND);
    assert_true(clock_mono_ns(&clock) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agreeing_wall_clock_changes_nothing),
        cmocka_unit_test(a_step_is_followed_slowly_and_reached),
        cmocka_unit_test(any_difference_is_slewed_at_the_same_rate),
        cmocka_unit_test(a_new_rate_begins_later_than_it_is_decided),
        cmocka_unit_test(a_wild_wall_clock_never_turns_time_back),
        cmocka_unit_test(readers_never_see_time_go_back),
        cmocka_unit_test(the_clock_starts_at_the_wall_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
