/* test_distinct.c - about how many different things were seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "client/replay/distinct.h"

static const struct hash_key key = {{1, 2, 3}};

static void add_range(struct distinct *distinct, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        distinct_add(distinct, hash64(&key, &i, sizeof i));
}

/* Estimates are within four standard errors over six powers of ten, small ones nearly exact. */
static void estimates_are_near_the_truth(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        uint64_t off_max;
    } cases[] = {{0, 0},     {1, 0},       {10, 1},        {100, 4},
                 {1000, 40}, {10000, 650}, {100000, 6500}, {500000, 32500}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct distinct distinct;
        memset(&distinct, 0, sizeof distinct);
        add_range(&distinct, 0, cases[i].count);
        const uint64_t estimate = distinct_estimate(&distinct);
        const uint64_t off =
            estimate > cases[i].count ? estimate - cases[i].count : cases[i].count - estimate;
        assert_true(off <= cases[i].off_max);
    }
}

/* Seeing a thing again, in any order, changes nothing. */
static void repetition_and_order_change_nothing(void **state)
{
    (void)state;
    struct distinct once;
    struct distinct often;
    memset(&once, 0, sizeof once);
    memset(&often, 0, sizeof often);
    add_range(&once, 0, 5000);
    add_range(&often, 2500, 5000);
    add_range(&often, 0, 5000);
    add_range(&often, 100, 3000);
    assert_memory_equal(&once, &often, sizeof once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_near_the_truth),
        cmocka_unit_test(repetition_and_order_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
