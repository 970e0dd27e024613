/* test_first_time.c - which time a process begins by, case by case as first_time.h lists them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/cluster/clock/first_time.h"

#define MS   INT64_C(1000000)
#define S    (1000 * MS)
#define HOUR (3600 * S)
#define NOW  (1700000000 * S)

enum { SELF = 1 };
enum kind { STARTS, RUNS, CONFIRMED };

/* A ring of the ids 1 .. members (0: not known), and a node that asks so many addresses. */
static struct first_time *begin(uint64_t self, uint32_t members, uint32_t asked)
{
    struct first_time *first = malloc(sizeof *first);
    struct ring_config *config = calloc(1, sizeof *config);
    assert_non_null(first);
    assert_non_null(config);
    first_time_init(first, self);
    config->to_count = members;
    for (uint32_t i = 0; i < members; i++)
        config->to[i].id = i + 1;
    first_time_ring(first, config);
    first->asked = asked;
    free(config);
    return first;
}

/* Its time is `off_ns` ahead of our wall clock, and its wall clock another `wall_ns`. */
static void answer_of(struct first_time *first, uint64_t id, uint32_t place, enum kind kind,
                      int64_t off_ns, int64_t wall_ns)
{
    const struct first_time_answer answer = {.id = id,
                                             .place = place,
                                             .running = kind != STARTS,
                                             .confirmed = kind == CONFIRMED,
                                             .time_ns = NOW + MS + off_ns,
                                             .wall_ns = wall_ns,
                                             .asked_ns = NOW,
                                             .now_ns = NOW + 2 * MS};
    first_time_heard(first, &answer);
}

/* Of the member `id` of a ring, asked at the address id - 2. */
static void says(struct first_time *first, uint64_t id, enum kind kind, int64_t off_ns)
{
    answer_of(first, id, (uint32_t)id - 2, kind, off_ns, 0);
}

static void expect(const struct first_time *first, bool late, bool enough, bool majority,
                   int64_t offset_ns)
{
    const struct first_time_choice choice = first_time_choose(first, late);
    assert_int_equal(choice.enough, enough);
    assert_int_equal(choice.majority, majority);
    assert_int_equal(choice.offset_ns, offset_ns);
}

/* Waiting goes on; when time is up, that is taken. */
static void expect_late(const struct first_time *first, bool majority, int64_t offset_ns)
{
    assert_false(first_time_choose(first, false).enough);
    expect(first, true, false, majority, offset_ns);
}

/* ---- who is alone, or new -------------------------------------------------------------------- */

static void a_ring_of_this_node_alone_asks_nobody(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 1, 2);
    expect(first, false, true, true, 0);
    answer_of(first, 9, 0, CONFIRMED, HOUR, 0);
    expect(first, true, true, true, 0);
    free(first);
    first = begin(SELF, 0, 0);
    expect(first, false, true, true, 0);
    free(first);
}

static void a_newcomer_goes_by_the_one_that_it_knows(void **state)
{
    (void)state;
    for (enum kind kind = RUNS; kind <= CONFIRMED; kind++) {
        struct first_time *first = begin(SELF, 0, 1);
        expect_late(first, false, 0);
        says(first, 2, kind, HOUR);
        expect(first, false, true, false, HOUR); /* with it the node has to agree */
        free(first);
    }
}

/* Whoever of the three is first, and though it is off. */
static void a_newcomer_that_meets_the_wrong_one_first_waits_for_the_others(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 0, 3);
    says(first, 2, RUNS, HOUR);
    expect_late(first, false, HOUR);
    says(first, 3, RUNS, 0);
    assert_int_equal(first_time_choose(first, true).offset_ns, 0);
    says(first, 4, RUNS, MS);
    expect(first, false, true, true, 0);
    free(first);
    first = begin(SELF, 0, 3); /* and its own clock is off, too */
    says(first, 2, RUNS, HOUR);
    says(first, 3, RUNS, -HOUR);
    says(first, 4, RUNS, -HOUR + MS);
    expect(first, false, true, false, -HOUR);
    free(first);
}

/* It knows the ring, but has no part in it: only the ring's members vote. */
static void one_that_was_found_off_by_the_ring_asks_all_of_it(void **state)
{
    (void)state;
    struct first_time *first = begin(9, 3, 3);
    answer_of(first, 1, 0, RUNS, 0, 0); /* the wrong one, and the own wall clock with it */
    expect_late(first, false, 0);
    answer_of(first, 2, 1, RUNS, -HOUR, 0);
    answer_of(first, 3, 2, RUNS, -HOUR, 0);
    expect(first, false, true, true, -HOUR);
    free(first);
}

/* ---- two ------------------------------------------------------------------------------------- */

static void of_two_who_starts_goes_by_who_runs(void **state)
{
    (void)state;
    for (enum kind kind = RUNS; kind <= CONFIRMED; kind++) {
        struct first_time *first = begin(SELF, 2, 1);
        says(first, 2, kind, -HOUR);
        expect(first, false, true, false, -HOUR);
        answer_of(first, 2, 0, kind, -HOUR, HOUR); /* though both wall clocks say otherwise */
        expect(first, false, true, false, -HOUR);
        free(first);
    }
}

static void two_that_start_and_differ_agree_on_the_earlier_one(void **state)
{
    (void)state;
    for (uint32_t members = 0; members <= 2; members += 2) {
        struct first_time *first = begin(SELF, members, 1);
        says(first, 2, STARTS, HOUR);
        expect(first, false, true, false, 0);
        free(first);
        first = begin(SELF, members, 1); /* as the other sees it */
        says(first, 2, STARTS, -HOUR);
        expect(first, false, true, false, -HOUR);
        free(first);
    }
}

/* ---- three ----------------------------------------------------------------------------------- */

/* A cold start: the one whose clock is wrong was the first, and runs. */
static void two_right_wall_clocks_outvote_one_that_runs(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct first_time *first = begin(SELF, 3, 2);
        says(first, turn == 0 ? 2 : 3, turn == 0 ? RUNS : STARTS, turn == 0 ? HOUR : 10 * MS);
        assert_false(first_time_choose(first, false).enough);
        says(first, turn == 0 ? 3 : 2, turn == 0 ? STARTS : RUNS, turn == 0 ? 10 * MS : HOUR);
        expect(first, false, true, true, 0);
        free(first);
    }
}

/* The third is not there yet: this node adds no weight to a clock that nobody has confirmed. */
static void alone_with_one_that_runs_unconfirmed_the_own_wall_clock_counts(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 2);
    says(first, 2, RUNS, HOUR);
    expect_late(first, false, 0);
    free(first);
    first = begin(3, 3, 2); /* then the third starts, and decides between both */
    answer_of(first, 1, 0, RUNS, 5 * MS, 0);
    expect(first, false, true, true, 5 * MS);
    answer_of(first, 2, 1, RUNS, HOUR, 0);
    expect(first, false, true, true, 5 * MS);
    free(first);
}

static void one_that_a_majority_confirmed_is_followed_though_the_third_is_away(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 2);
    says(first, 2, CONFIRMED, -HOUR);
    expect_late(first, false, -HOUR);
    says(first, 3, STARTS, 0); /* the wall clocks of all were stepped, and two were stopped */
    expect(first, false, true, false, -HOUR);
    free(first);
}

/* As soon as two agree, whoever answers first. */
static void two_that_run_and_agree_are_followed_at_once(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 2);
    says(first, 2, RUNS, HOUR);
    assert_false(first_time_choose(first, false).enough);
    says(first, 3, RUNS, HOUR + MS);
    expect(first, false, true, true, HOUR);
    free(first);
    first = begin(SELF, 3, 2); /* it and the own wall clock */
    says(first, 3, RUNS, 7 * MS);
    expect(first, false, true, true, 7 * MS);
    free(first);
}

/* An older release tells its wall clock, and no more. */
static void a_wrong_one_of_an_older_release_that_answers_first_is_not_followed(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 2);
    says(first, 2, RUNS, HOUR);
    assert_false(first_time_choose(first, false).enough);
    says(first, 3, RUNS, 20 * MS);
    expect(first, false, true, true, 20 * MS);
    free(first);
}

static void three_that_start_go_by_two_or_by_the_median(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 2);
    says(first, 2, STARTS, -HOUR);
    says(first, 3, STARTS, -HOUR + MS);
    expect(first, false, true, true, -HOUR);
    free(first);
    const int64_t own[] = {-HOUR, 0, HOUR}; /* all differ, as each of them sees it */
    for (int i = 0; i < 3; i++) {
        first = begin(SELF, 3, 2);
        says(first, 2, STARTS, own[(i + 1) % 3] - own[i]);
        says(first, 3, STARTS, own[(i + 2) % 3] - own[i]);
        expect(first, false, true, false, -own[i]);
        free(first);
    }
}

static void three_of_which_one_runs_and_all_differ_go_by_that_one(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 2);
    says(first, 2, RUNS, HOUR);
    says(first, 3, STARTS, -HOUR);
    expect(first, false, true, false, HOUR);
    free(first);
}

/* ---- five ------------------------------------------------------------------------------------ */

static void of_five_two_that_run_outvote_the_own_wall_clock(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 5, 4);
    says(first, 2, RUNS, HOUR);
    says(first, 3, RUNS, HOUR);
    expect_late(first, false, HOUR);
    says(first, 4, RUNS, HOUR);
    expect(first, false, true, true, HOUR);
    free(first);
}

static void of_five_the_own_wall_clock_decides_between_two_that_differ(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 5, 4);
    says(first, 2, RUNS, HOUR);
    says(first, 3, RUNS, 30 * MS);
    expect_late(first, false, 30 * MS);
    says(first, 4, STARTS, 40 * MS);
    expect(first, false, true, true, 30 * MS);
    free(first);
}

/* As many votes for each: what more wall clocks tell. */
static void of_five_wall_clocks_decide_between_as_many_votes(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 5, 4);
    says(first, 2, RUNS, HOUR);
    answer_of(first, 3, 1, RUNS, -HOUR, 2 * HOUR); /* its wall clock is with the other */
    expect_late(first, false, HOUR);
    free(first);
}

static void a_full_stop_of_five_ends_with_the_wall_clocks_of_three(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 5, 4);
    says(first, 2, STARTS, HOUR);
    says(first, 3, STARTS, 0);
    says(first, 4, STARTS, MS);
    expect(first, false, false, true, 0); /* one that runs may still answer */
    expect(first, true, false, true, 0);
    free(first);
}

/* ---- what counts ----------------------------------------------------------------------------- */

/* Nobody has more than one vote, whatever ids are told at an address, and at however many one. */
static void an_address_has_one_vote_and_so_has_a_member(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 0, 3);
    for (uint64_t id = 10; id < 20; id++)
        answer_of(first, id, 0, CONFIRMED, HOUR, 0);
    assert_int_equal(first->count, 1);
    answer_of(first, 19, 1, RUNS, HOUR, 0);
    assert_int_equal(first->count, 1);
    says(first, 4, RUNS, 0);
    assert_int_equal(first->count, 2);
    free(first);
}

static void ids_that_are_not_of_the_ring_do_not_count(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 4);
    for (uint32_t i = 0; i < 4; i++)
        answer_of(first, 100 + i, i, CONFIRMED, HOUR, 0);
    expect(first, false, true, false, 0);
    answer_of(first, 2, 3, RUNS, 0, 0);
    expect(first, true, true, true, 0);
    free(first);
    first = begin(SELF, 3, 2); /* but where nobody of it is left, whoever is there does */
    answer_of(first, 100, 0, RUNS, HOUR, 0);
    answer_of(first, 101, 1, RUNS, HOUR, 0);
    expect(first, true, true, true, HOUR);
    free(first);
}

static void a_time_that_no_clock_tells_is_none(void **state)
{
    (void)state;
    const int64_t off[] = {-NOW - S, -NOW - 2 * HOUR, INT64_MAX - NOW - S};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        struct first_time *first = begin(SELF, 0, 1);
        says(first, 2, CONFIRMED, off[i]);
        assert_int_equal(first->count, 0);
        expect(first, false, true, false, 0);
        free(first);
    }
    const int64_t walls[] = {INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        struct first_time *first = begin(SELF, 0, 1);
        answer_of(first, 2, 0, CONFIRMED, HOUR, walls[i]);
        assert_int_equal(first->count, 0);
        free(first);
    }
}

/* ---- how well ------------------------------------------------------------------------------- */

static void tells(struct first_time *first, bool running, int64_t time_ns, int64_t asked_ns,
                  int64_t now_ns)
{
    const struct first_time_answer answer = {.id = 2,
                                             .running = running,
                                             .time_ns = NOW + time_ns,
                                             .asked_ns = NOW + asked_ns,
                                             .now_ns = NOW + now_ns};
    first_time_heard(first, &answer);
}

/* The own wall clock is 0.7 s ahead, and the first answer comes after 0.75 s: to its own question.
 */
static void a_skew_is_taken_as_it_is_however_late_the_first_answer_is(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 2, 1);
    tells(first, true, 745 * MS - 700 * MS, 740 * MS, 750 * MS);
    expect(first, false, true, true, -700 * MS);
    free(first);
}

/* One that took long counts when time is up, and one that is prompt takes its place. */
static void an_answer_that_took_long_counts_late_and_in_the_middle(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 3, 2);
    tells(first, true, 100 * MS, 0, 190 * MS);
    assert_false(first_time_choose(first, false).enough);
    expect(first, true, true, true, 5 * MS);
    tells(first, true, 201 * MS, 200 * MS, 202 * MS);
    assert_int_equal(first->members[0].low_ns, -MS);
    assert_int_equal(first->members[0].high_ns, MS);
    expect(first, false, true, true, 0);
    free(first);
}

/* Of a clock that was stepped, or of another one, what was told before bounds nothing. */
static void an_answer_of_another_clock_begins_anew(void **state)
{
    (void)state;
    struct first_time *first = begin(SELF, 2, 1);
    tells(first, false, 0, 0, 2 * MS);
    tells(first, false, 60 * S, 0, 4 * MS);
    assert_int_equal(first->members[0].low_ns, 60 * S - 4 * MS);
    assert_int_equal(first->members[0].high_ns, 60 * S);
    tells(first, true, 60 * S, 0, 9 * MS);
    assert_true(first->members[0].running);
    assert_int_equal(first->members[0].low_ns, 60 * S - 9 * MS);
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_of_this_node_alone_asks_nobody),
        cmocka_unit_test(a_newcomer_goes_by_the_one_that_it_knows),
        cmocka_unit_test(a_newcomer_that_meets_the_wrong_one_first_waits_for_the_others),
        cmocka_unit_test(one_that_was_found_off_by_the_ring_asks_all_of_it),
        cmocka_unit_test(of_two_who_starts_goes_by_who_runs),
        cmocka_unit_test(two_that_start_and_differ_agree_on_the_earlier_one),
        cmocka_unit_test(two_right_wall_clocks_outvote_one_that_runs),
        cmocka_unit_test(alone_with_one_that_runs_unconfirmed_the_own_wall_clock_counts),
        cmocka_unit_test(one_that_a_majority_confirmed_is_followed_though_the_third_is_away),
        cmocka_unit_test(two_that_run_and_agree_are_followed_at_once),
        cmocka_unit_test(a_wrong_one_of_an_older_release_that_answers_first_is_not_followed),
        cmocka_unit_test(three_that_start_go_by_two_or_by_the_median),
        cmocka_unit_test(three_of_which_one_runs_and_all_differ_go_by_that_one),
        cmocka_unit_test(of_five_two_that_run_outvote_the_own_wall_clock),
        cmocka_unit_test(of_five_the_own_wall_clock_decides_between_two_that_differ),
        cmocka_unit_test(of_five_wall_clocks_decide_between_as_many_votes),
        cmocka_unit_test(a_full_stop_of_five_ends_with_the_wall_clocks_of_three),
        cmocka_unit_test(an_address_has_one_vote_and_so_has_a_member),
        cmocka_unit_test(ids_that_are_not_of_the_ring_do_not_count),
        cmocka_unit_test(a_time_that_no_clock_tells_is_none),
        cmocka_unit_test(a_skew_is_taken_as_it_is_however_late_the_first_answer_is),
        cmocka_unit_test(an_answer_that_took_long_counts_late_and_in_the_middle),
        cmocka_unit_test(an_answer_of_another_clock_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
