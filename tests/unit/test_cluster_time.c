/* test_cluster_time.c - whose clock is off, and which time is followed, against what is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/clock/cluster_time.h"

#define MS  INT64_C(1000000)
#define S   (1000 * MS)
#define DAY (86400 * S)

enum { NODES = 5 };

struct fixture {
    struct cluster_time *time;
    int64_t now_ns;
    uint64_t ids[NODES];
    uint32_t ring;
    int64_t time_ns[NODES + 1]; /* of member i + 1, to ours; [0] is us */
    int64_t wall_ns[NODES + 1]; /* minus its cluster time */
    int64_t late_ns;            /* what an answer takes */
    uint64_t process[NODES + 1];
};

static void begin(struct fixture *at, uint32_t ring)
{
    *at = (struct fixture){.now_ns = 1000 * S, .ring = ring, .late_ns = 2 * MS};
    for (uint32_t i = 0; i < NODES; i++)
        at->ids[i] = i + 1;
    assert_int_equal(cluster_time_new(alloc_heap(), 1, &at->time), 0);
}

static void heard(struct fixture *at, uint64_t id, int64_t low_ns, int64_t high_ns, int64_t wall_ns)
{
    const struct cluster_time_sample sample = {.id = id,
                                               .process = at->process[id - 1],
                                               .low_ns = low_ns,
                                               .high_ns = high_ns,
                                               .wall_ns = wall_ns,
                                               .count = 1};
    cluster_time_heard(at->time, at->now_ns, &sample);
}

/* All tell their clocks `times` times, 10 ms apart. */
static bool turn(struct fixture *at, uint32_t nodes, uint32_t times)
{
    bool changed = false;
    for (uint32_t k = 0; k < times; k++) {
        at->now_ns += 10 * MS;
        cluster_time_wall(at->time, at->wall_ns[0]);
        for (uint32_t i = 1; i < nodes; i++)
            heard(at, i + 1, at->time_ns[i] - at->late_ns / 2, at->time_ns[i] + at->late_ns / 2,
                  at->wall_ns[i]);
        changed = cluster_time_judge(at->time, at->now_ns, at->ids, at->ring) || changed;
    }
    return changed;
}

static enum clock_verdict verdict(const struct fixture *at, uint64_t id)
{
    return cluster_time_of(at->time, id)->verdict;
}

static void clocks_that_agree_are_fine(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.wall_ns[1] = 90 * MS;
    assert_true(turn(&at, 3, 3));
    assert_false(turn(&at, 3, 100));
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(verdict(&at, id), CLOCK_FINE);
    assert_true(cluster_time_agreed(at.time));
    assert_false(cluster_time_divided(at.time));
    cluster_time_free(&at.time);
}

static void a_verdict_takes_three_samples(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.time_ns[2] = 5 * S;
    (void)turn(&at, 3, 2);
    assert_int_equal(verdict(&at, 3), CLOCK_UNKNOWN);
    (void)turn(&at, 3, 1);
    assert_int_equal(verdict(&at, 3), CLOCK_REFUSED);
    at.time_ns[2] = 0;
    (void)turn(&at, 3, 2);
    assert_int_equal(verdict(&at, 3), CLOCK_REFUSED);
    (void)turn(&at, 3, 1);
    assert_int_equal(verdict(&at, 3), CLOCK_FINE);
    cluster_time_free(&at.time);
}

static void each_step_begins_at_its_limit_and_ends_at_four_fifths(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        enum clock_verdict verdict;
    } steps[] = {{99, CLOCK_FINE},      {101, CLOCK_ALARM},    {90, CLOCK_ALARM},
                 {79, CLOCK_FINE},      {499, CLOCK_ALARM},    {501, CLOCK_PASSES},
                 {410, CLOCK_PASSES},   {390, CLOCK_ALARM},    {1999, CLOCK_PASSES},
                 {2001, CLOCK_REFUSED}, {1700, CLOCK_REFUSED}, {1590, CLOCK_PASSES},
                 {0, CLOCK_FINE}};
    for (int sign = -1; sign <= 1; sign += 2) {
        struct fixture at;
        begin(&at, 3);
        at.late_ns = 0;
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            at.time_ns[2] = sign * steps[i].ms * MS;
            (void)turn(&at, 3, 3);
            assert_int_equal(verdict(&at, 3), steps[i].verdict);
            assert_int_equal(verdict(&at, 1), CLOCK_FINE);
        }
        cluster_time_free(&at.time);
    }
}

/* What a starved processor measures is wide, and says nothing against a verdict: it would flap. */
static void a_late_frame_ends_no_verdict(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.time_ns[2] = 125 * MS;
    (void)turn(&at, 3, 3);
    assert_int_equal(verdict(&at, 3), CLOCK_ALARM);
    at.late_ns = 400 * MS;
    for (uint32_t k = 0; k < 30; k++) {
        at.now_ns += 200 * MS; /* narrower bounds are old by then */
        (void)turn(&at, 3, 1);
        assert_int_equal(verdict(&at, 3), CLOCK_ALARM);
    }
    at.time_ns[2] = 0;
    at.late_ns = 2 * MS;
    (void)turn(&at, 3, 3);
    assert_int_equal(verdict(&at, 3), CLOCK_FINE);
    cluster_time_free(&at.time);
}

static void a_node_that_is_off_itself_knows_it(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    (void)turn(&at, 3, 3);
    at.time_ns[1] = at.time_ns[2] = -5 * S; /* this node was stepped */
    (void)turn(&at, 3, 3);
    assert_int_equal(verdict(&at, 1), CLOCK_REFUSED);
    assert_int_equal(verdict(&at, 2), CLOCK_FINE);
    assert_int_equal(cluster_time_of(at.time, 1)->skew_ns, 5 * S);
    cluster_time_free(&at.time);
}

static void a_wrong_wall_clock_is_told_of_and_moves_nobody(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.wall_ns[0] = 3600 * S;
    (void)turn(&at, 3, 3);
    assert_int_equal(verdict(&at, 1), CLOCK_ALARM);
    assert_int_equal(cluster_time_of(at.time, 1)->wall_skew_ns, 3600 * S);
    assert_int_equal(cluster_time_target_ns(at.time), 0);
    at.wall_ns[1] = at.wall_ns[2] = 7 * MS;
    (void)turn(&at, 3, 1);
    assert_int_equal(cluster_time_target_ns(at.time), 7 * MS);
    cluster_time_free(&at.time);
}

static void a_newcomer_a_day_off_is_held_until_its_clock_is_right(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.wall_ns[3] = -DAY;
    (void)turn(&at, 4, 3);
    assert_true(cluster_time_of(at.time, 4)->held);
    at.wall_ns[3] = 1700 * MS;
    (void)turn(&at, 4, 3);
    assert_true(cluster_time_of(at.time, 4)->held);
    at.wall_ns[3] = 1500 * MS;
    (void)turn(&at, 4, 3);
    assert_false(cluster_time_of(at.time, 4)->held);
    at.wall_ns[2] = DAY; /* a member is not held outside */
    (void)turn(&at, 4, 3);
    assert_false(cluster_time_of(at.time, 3)->held);
    cluster_time_free(&at.time);
}

static void without_a_majority_that_agrees_nobody_stops(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 2); /* two that disagree */
    at.time_ns[1] = 5 * S;
    at.wall_ns[1] = DAY;
    (void)turn(&at, 2, 10);
    assert_true(cluster_time_divided(at.time));
    assert_false(cluster_time_agreed(at.time));
    assert_int_equal(verdict(&at, 2), CLOCK_ALARM);
    assert_int_equal(verdict(&at, 1), CLOCK_FINE); /* each measures the other by its own */
    assert_true(cluster_time_of(at.time, 2)->ours && cluster_time_of(at.time, 2)->wall_ours);
    assert_int_equal(cluster_time_target_ns(at.time), 0);
    cluster_time_free(&at.time);

    begin(&at, 3); /* three that do */
    at.time_ns[1] = 5 * S;
    at.time_ns[2] = -5 * S;
    (void)turn(&at, 3, 10);
    for (uint64_t id = 2; id <= 3; id++)
        assert_int_equal(verdict(&at, id), CLOCK_ALARM);
    cluster_time_free(&at.time);

    begin(&at, 5); /* too few are heard */
    at.time_ns[1] = 5 * S;
    (void)turn(&at, 2, 10);
    assert_false(cluster_time_divided(at.time));
    assert_int_equal(verdict(&at, 2), CLOCK_ALARM);
    assert_int_equal(verdict(&at, 1), CLOCK_FINE);
    cluster_time_free(&at.time);
}

static void a_fleet_that_is_stepped_as_a_whole_goes_on(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.wall_ns[0] = at.wall_ns[1] = at.wall_ns[2] = 3600 * S;
    (void)turn(&at, 3, 10);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(verdict(&at, id), CLOCK_FINE);
    assert_int_equal(cluster_time_target_ns(at.time), 3600 * S); /* slewed to, together */
    cluster_time_free(&at.time);
}

static void only_who_is_alone_follows_its_own_wall_clock(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 1);
    at.wall_ns[0] = 3 * S;
    (void)turn(&at, 1, 1);
    assert_int_equal(cluster_time_target_ns(at.time), 3 * S);
    at.ring = 3;
    (void)turn(&at, 1, 1); /* the others are not heard */
    assert_int_equal(cluster_time_target_ns(at.time), 0);
    cluster_time_free(&at.time);
}

/* Frames that come up to seconds late bound the truth widely: no verdict comes of them. */
static void a_late_frame_is_no_skew(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 7);
    struct fixture at;
    begin(&at, 3);
    for (int i = 0; i < 2000; i++) {
        at.now_ns += 10 * MS;
        for (uint64_t id = 2; id <= 3; id++) {
            const int64_t there_ns = (int64_t)random_below(&random, (uint64_t)(3 * S));
            const int64_t back_ns = (int64_t)random_below(&random, (uint64_t)(3 * S));
            heard(&at, id, -back_ns, there_ns, 0);
        }
        (void)cluster_time_judge(at.time, at.now_ns, at.ids, at.ring);
        for (uint64_t id = 1; id <= 3; id++)
            assert_true(verdict(&at, id) <= CLOCK_FINE);
    }
    cluster_time_free(&at.time);
}

/* One member that says what it likes moves the time of four others by no more than they differ. */
static void one_member_moves_nothing(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 11);
    struct fixture at;
    begin(&at, 5);
    for (int round = 0; round < 2000; round++) {
        for (uint32_t i = 0; i < 4; i++)
            at.wall_ns[i] = (int64_t)random_below(&random, 20 * MS) - 10 * MS;
        const int wild = (int)random_below(&random, 62);
        at.wall_ns[4] = (random_below(&random, 2) == 0 ? -1 : 1) * (INT64_C(1) << wild);
        at.time_ns[4] = (random_below(&random, 2) == 0 ? -1 : 1) * (INT64_C(1) << wild);
        (void)turn(&at, 5, 1);
        assert_in_range(cluster_time_target_ns(at.time) + 10 * MS, 0, 20 * MS);
        assert_true(verdict(&at, 1) <= CLOCK_FINE);
    }
    cluster_time_free(&at.time);
}

static void a_silent_member_has_no_value(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.time_ns[2] = 5 * S;
    (void)turn(&at, 3, 3);
    at.now_ns += 31 * S;
    (void)turn(&at, 2, 3);
    assert_int_equal(verdict(&at, 3), CLOCK_UNKNOWN);
    cluster_time_free(&at.time);
}

/* After a jump of our own nobody is judged by what was measured before. */
static void what_was_measured_before_a_jump_is_forgotten(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    (void)turn(&at, 3, 10);
    cluster_time_forget(at.time);
    at.now_ns += 5 * S;
    at.time_ns[1] = at.time_ns[2] = -5 * S;
    for (int i = 0; i < 3; i++) { /* one is heard before the other */
        heard(&at, 2, -5 * S, -5 * S, 0);
        (void)cluster_time_judge(at.time, at.now_ns, at.ids, 3);
    }
    assert_true(verdict(&at, 2) < CLOCK_REFUSED);
    (void)turn(&at, 3, 3);
    assert_int_equal(verdict(&at, 1), CLOCK_REFUSED);
    assert_int_equal(verdict(&at, 2), CLOCK_FINE);
    cluster_time_free(&at.time);
}

/* What is said of a process holds for no later one, and no earlier one speaks for it. */
static void the_next_process_is_judged_anew(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    at.process[2] = 7;
    at.time_ns[2] = 5 * S;
    (void)turn(&at, 3, 3);
    assert_int_equal(verdict(&at, 3), CLOCK_REFUSED);
    at.process[2] = 8;
    at.time_ns[2] = 0;
    (void)turn(&at, 3, 1);
    assert_int_equal(verdict(&at, 3), CLOCK_UNKNOWN);
    (void)turn(&at, 3, 2);
    assert_int_equal(verdict(&at, 3), CLOCK_FINE);
    at.process[2] = 7;
    at.time_ns[2] = 5 * S;
    (void)turn(&at, 3, 10);
    assert_int_equal(verdict(&at, 3), CLOCK_FINE);
    cluster_time_free(&at.time);
}

/* What one answer says that contradicts the others counts for nothing: not for the wall clock, nor
 * as a sign of life. Those after it count as before. */
static void an_answer_that_contradicts_the_others_says_nothing_of_the_wall_clock(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    (void)turn(&at, 3, 10);
    const int64_t heard_ns = cluster_time_of(at.time, 2)->heard_ns;
    at.now_ns += 10 * MS;
    heard(&at, 2, 3600 * S, 3600 * S + MS, -DAY);
    assert_int_equal(cluster_time_of(at.time, 2)->wall_ns, 0);
    assert_int_equal(cluster_time_of(at.time, 2)->heard_ns, heard_ns);
    assert_false(cluster_time_judge(at.time, at.now_ns, at.ids, 3));
    assert_int_equal(verdict(&at, 2), CLOCK_FINE);
    at.wall_ns[1] = 200 * MS;
    (void)turn(&at, 3, 1);
    assert_int_equal(cluster_time_of(at.time, 2)->wall_ns, 200 * MS);
    cluster_time_free(&at.time);
}

static void a_time_is_confirmed_while_a_majority_agreed_and_it_is_not_found_off(void **state)
{
    (void)state;
    struct fixture at;
    begin(&at, 3);
    assert_false(cluster_time_confirmed(at.time));
    (void)turn(&at, 1, 3); /* alone of three */
    assert_false(cluster_time_confirmed(at.time));
    (void)turn(&at, 2, 3);
    assert_true(cluster_time_confirmed(at.time));
    at.now_ns += 31 * S; /* alone again: what was confirmed runs on */
    (void)turn(&at, 1, 3);
    assert_false(cluster_time_agreed(at.time));
    assert_true(cluster_time_confirmed(at.time));
    at.time_ns[1] = at.time_ns[2] = 700 * MS;
    (void)turn(&at, 3, 3);
    assert_int_equal(verdict(&at, 1), CLOCK_PASSES);
    assert_false(cluster_time_confirmed(at.time));
    cluster_time_free(&at.time);
    begin(&at, 3);
    (void)turn(&at, 3, 3);
    assert_true(cluster_time_confirmed(at.time));
    cluster_time_forget(at.time); /* it may have jumped */
    assert_false(cluster_time_confirmed(at.time));
    cluster_time_free(&at.time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_that_agree_are_fine),
        cmocka_unit_test(a_verdict_takes_three_samples),
        cmocka_unit_test(each_step_begins_at_its_limit_and_ends_at_four_fifths),
        cmocka_unit_test(a_late_frame_ends_no_verdict),
        cmocka_unit_test(a_node_that_is_off_itself_knows_it),
        cmocka_unit_test(a_wrong_wall_clock_is_told_of_and_moves_nobody),
        cmocka_unit_test(a_newcomer_a_day_off_is_held_until_its_clock_is_right),
        cmocka_unit_test(without_a_majority_that_agrees_nobody_stops),
        cmocka_unit_test(a_fleet_that_is_stepped_as_a_whole_goes_on),
        cmocka_unit_test(only_who_is_alone_follows_its_own_wall_clock),
        cmocka_unit_test(a_late_frame_is_no_skew),
        cmocka_unit_test(one_member_moves_nothing),
        cmocka_unit_test(a_silent_member_has_no_value),
        cmocka_unit_test(what_was_measured_before_a_jump_is_forgotten),
        cmocka_unit_test(the_next_process_is_judged_anew),
        cmocka_unit_test(an_answer_that_contradicts_the_others_says_nothing_of_the_wall_clock),
        cmocka_unit_test(a_time_is_confirmed_while_a_majority_agreed_and_it_is_not_found_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
