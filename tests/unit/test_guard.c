/* test_guard.c - which states are on a line of terms, and which are branches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/model/guard.h"

static struct term term_of(uint64_t number, uint64_t writer)
{
    return (struct term){.epoch = 1, .number = number, .writer = writer};
}

static void add(struct guard *guard, uint64_t number, uint64_t seq)
{
    const struct term term = term_of(number, 1);
    guard_add(guard, &term, seq);
}

static bool apart(const struct guard *guard, uint64_t number, uint64_t writer, uint64_t seq)
{
    const struct term term = term_of(number, writer);
    return guard_apart(guard, &term, seq);
}

/* G1: up to a cut all is common; what its writer did beyond is a branch. */
static void what_lies_beyond_a_cut_is_apart(void **state)
{
    struct guard guard = {0};
    (void)state;
    assert_false(apart(&guard, 1, 1, 100));
    add(&guard, 1, 10);
    assert_false(apart(&guard, 1, 1, 9));
    assert_false(apart(&guard, 1, 1, 10));
    assert_true(apart(&guard, 1, 1, 11));
    add(&guard, 3, 20);
    assert_true(apart(&guard, 1, 1, 11));
    assert_true(apart(&guard, 3, 1, 21));
    assert_false(apart(&guard, 3, 1, 20));
}

/* G1: a term that the line does not have is a branch, unless the line is newer than all of it. */
static void a_term_that_is_not_of_the_line_is_apart_unless_it_is_older(void **state)
{
    struct guard guard = {0};
    const struct term none = {0};
    (void)state;
    add(&guard, 5, 10);
    add(&guard, 8, 20);
    assert_true(apart(&guard, 6, 2, 1));
    assert_true(apart(&guard, 9, 2, 1));
    assert_false(apart(&guard, 4, 2, 1));
    assert_false(guard_apart(&guard, &none, 0));
    guard.blind = true;
    assert_true(apart(&guard, 4, 2, 1));
    assert_false(guard_apart(&guard, &none, 0));
}

/* A line that begins with nothing knows of every other one that it has nothing of it. */
static void a_line_that_began_empty_has_nothing_of_others(void **state)
{
    struct guard guard = {0};
    const struct term none = {0};
    (void)state;
    guard_add(&guard, &none, 0);
    assert_true(apart(&guard, 1, 2, 1));
    assert_false(guard_apart(&guard, &none, 0));
}

/* Of more cuts than there is room for, the newest and the oldest are kept. */
static void a_full_list_keeps_its_newest_and_its_oldest_cut(void **state)
{
    struct guard guard = {0};
    (void)state;
    for (uint64_t number = 1; number <= GUARD_CUTS_MAX + 3; number++)
        add(&guard, number, number * 10);
    assert_int_equal(guard.count, GUARD_CUTS_MAX);
    assert_int_equal(guard.cuts[0].term.number, GUARD_CUTS_MAX + 3);
    assert_int_equal(guard.cuts[GUARD_CUTS_MAX - 1].term.number, 1);
    for (uint32_t i = 1; i < GUARD_CUTS_MAX; i++)
        assert_true(term_compare(&guard.cuts[i - 1].term, &guard.cuts[i].term) > 0);
    assert_true(apart(&guard, 2, 1, 1)); /* forgotten: taken for a branch, never for common */
}

/* A cut tells that everything up to it is in the state. */
static void a_line_includes_what_was_done_before_its_cuts(void **state)
{
    struct guard guard = {0};
    const struct term first = term_of(1, 1);
    const struct term other = term_of(1, 2);
    (void)state;
    add(&guard, 1, 10);
    assert_true(guard_includes(&guard, &first, 10));
    assert_false(guard_includes(&guard, &first, 11));
    assert_false(guard_includes(&guard, &other, 1));
    assert_int_equal(guard_find(&guard, &first), 0);
    assert_int_equal(guard_find(&guard, &other), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_beyond_a_cut_is_apart),
        cmocka_unit_test(a_term_that_is_not_of_the_line_is_apart_unless_it_is_older),
        cmocka_unit_test(a_line_that_began_empty_has_nothing_of_others),
        cmocka_unit_test(a_full_list_keeps_its_newest_and_its_oldest_cut),
        cmocka_unit_test(a_line_includes_what_was_done_before_its_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
