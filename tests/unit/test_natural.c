/* test_natural.c - names come in the order of the numbers in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/natural.h"

/* Each of these comes before all that follow it. */
static void names_are_ordered_by_the_numbers_in_them(void **state)
{
    static const char *const names[] = {"",     "10",   "eu1",    "eu1-n2", "eu1-n10", "eu02",
                                        "eu2",  "eu10", "n",      "n1",     "n2",      "n2a",
                                        "n2a3", "n10",  "n10000", "node"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            const int order = natural_compare(names[i], names[j]);
            assert_int_equal(order < 0, i < j);
            assert_int_equal(order > 0, i > j);
        }
}

/* Numbers may be longer than any integer. */
static void long_numbers_are_compared_by_all_their_digits(void **state)
{
    (void)state;
    assert_true(natural_compare("n99999999999999999999999998", "n99999999999999999999999999") < 0);
    assert_true(natural_compare("n100000000000000000000000000", "n99999999999999999999999999") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_ordered_by_the_numbers_in_them),
        cmocka_unit_test(long_numbers_are_compared_by_all_their_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
