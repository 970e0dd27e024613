/* test_assert.c - assertions stay on and say where they failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/assert.h"
#include "tests/unit/support_death.h"

static void assert_that_it_is_true(void *context)
{
    const int *value = context;
    ASSERT(*value == 1);
}

/* A failed assertion aborts and names the expression and the file. */
static void a_false_expression_aborts_and_is_named(void **state)
{
    char message[256];
    int value = 2;

    (void)state;
    assert_true(death_by_assert(assert_that_it_is_true, &value, message, sizeof(message)));
    assert_non_null(strstr(message, "*value == 1"));
    assert_non_null(strstr(message, "test_assert.c:"));
}

/* A true expression does nothing; this also shows that the check above can fail. */
static void a_true_expression_passes_silently(void **state)
{
    char message[256];
    int value = 1;

    (void)state;
    assert_false(death_by_assert(assert_that_it_is_true, &value, message, sizeof(message)));
    assert_string_equal(message, "");
}

/* The expression is evaluated exactly once, for it may have an effect. */
static void the_expression_is_evaluated_once(void **state)
{
    int calls = 0;

    (void)state;
    ASSERT(++calls > 0);
    assert_int_equal(calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_false_expression_aborts_and_is_named),
        cmocka_unit_test(a_true_expression_passes_silently),
        cmocka_unit_test(the_expression_is_evaluated_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
