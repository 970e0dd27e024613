/* test_lineage.c - which states are on a line of terms, and which are branches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/model/lineage.h"

static struct term term_of(uint64_t number, uint64_t writer)
{
    return (struct term){.epoch = 1, .number = number, .writer = writer};
}

static void add(struct lineage *lineage, uint64_t number, uint64_t seq)
{
    const struct term term = term_of(number, 1);
    lineage_add(lineage, &term, seq);
}

static bool apart(const struct lineage *lineage, uint64_t number, uint64_t writer, uint64_t seq)
{
    const struct term term = term_of(number, writer);
    return lineage_apart(lineage, &term, seq);
}

/* LINEAGE-1: up to a cut all is common; what its writer did beyond is a branch. */
static void what_lies_beyond_a_cut_is_apart(void **state)
{
    struct lineage lineage = {0};
    (void)state;
    assert_false(apart(&lineage, 1, 1, 100));
    add(&lineage, 1, 10);
    assert_false(apart(&lineage, 1, 1, 9));
    assert_false(apart(&lineage, 1, 1, 10));
    assert_true(apart(&lineage, 1, 1, 11));
    add(&lineage, 3, 20);
    assert_true(apart(&lineage, 1, 1, 11));
    assert_true(apart(&lineage, 3, 1, 21));
    assert_false(apart(&lineage, 3, 1, 20));
}

/* LINEAGE-1: a term that the line does not have is a branch, unless the line is newer than all of
 * it. */
static void a_term_that_is_not_of_the_line_is_apart_unless_it_is_older(void **state)
{
    struct lineage lineage = {0};
    const struct term none = {0};
    (void)state;
    add(&lineage, 5, 10);
    add(&lineage, 8, 20);
    assert_true(apart(&lineage, 6, 2, 1));
    assert_true(apart(&lineage, 9, 2, 1));
    assert_false(apart(&lineage, 4, 2, 1));
    assert_false(lineage_apart(&lineage, &none, 0));
    lineage.blind = true;
    assert_true(apart(&lineage, 4, 2, 1));
    assert_false(lineage_apart(&lineage, &none, 0));
}

/* A line that begins with nothing knows of every other one that it has nothing of it. */
static void a_line_that_began_empty_has_nothing_of_others(void **state)
{
    struct lineage lineage = {0};
    const struct term none = {0};
    (void)state;
    lineage_add(&lineage, &none, 0);
    assert_true(apart(&lineage, 1, 2, 1));
    assert_false(lineage_apart(&lineage, &none, 0));
}

/* Of more cuts than there is room for, the newest and the oldest are kept. */
static void a_full_list_keeps_its_newest_and_its_oldest_cut(void **state)
{
    struct lineage lineage = {0};
    (void)state;
    for (uint64_t number = 1; number <= LINEAGE_FORKS_MAX + 3; number++)
        add(&lineage, number, number * 10);
    assert_int_equal(lineage.count, LINEAGE_FORKS_MAX);
    assert_int_equal(lineage.cuts[0].term.number, LINEAGE_FORKS_MAX + 3);
    assert_int_equal(lineage.cuts[LINEAGE_FORKS_MAX - 1].term.number, 1);
    for (uint32_t i = 1; i < LINEAGE_FORKS_MAX; i++)
        assert_true(term_compare(&lineage.cuts[i - 1].term, &lineage.cuts[i].term) > 0);
    assert_true(apart(&lineage, 2, 1, 1)); /* forgotten: taken for a branch, never for common */
}

/* A cut tells that everything up to it is in the state. */
static void a_line_includes_what_was_done_before_its_cuts(void **state)
{
    struct lineage lineage = {0};
    const struct term first = term_of(1, 1);
    const struct term other = term_of(1, 2);
    (void)state;
    add(&lineage, 1, 10);
    assert_true(lineage_includes(&lineage, &first, 10));
    assert_false(lineage_includes(&lineage, &first, 11));
    assert_false(lineage_includes(&lineage, &other, 1));
    assert_int_equal(lineage_find(&lineage, &first), 0);
    assert_int_equal(lineage_find(&lineage, &other), -1);
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
