/* test_vocabulary.c - words and numbers belong to each other, and the numbers never move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/vocabulary.h"

/* Every word parses to the number whose name it is. */
static void every_word_parses_to_its_number(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++)
        assert_int_equal(
            algorithm_parse(algorithm_name((unsigned)i), strlen(algorithm_name((unsigned)i))), i);
}

/* Numbers travel and are stored, so these pairs must hold for ever. */
static void the_numbers_are_those_of_the_protocol(void **state)
{
    (void)state;
    assert_string_equal(algorithm_name(0), "token_bucket");
    assert_string_equal(algorithm_name(3), "sliding_log");
    assert_string_equal(algorithm_name(4), "leaky_bucket");
    assert_string_equal(algorithm_name(5), "sliding_buckets");
    assert_string_equal(algorithm_name(6), "concurrency");
    assert_string_equal(operation_name(0), "check");
    assert_string_equal(operation_name(4), "reset");
    assert_string_equal(operation_name(7), "renew");
    assert_string_equal(outcome_name(0), "allow");
    assert_string_equal(outcome_name(4), "no_rule");
    assert_string_equal(outcome_name(8), "error");
}

/* A number from a newer peer names nothing here. */
static void unknown_numbers_have_no_name(void **state)
{
    (void)state;
    assert_null(algorithm_name(ALGORITHM_COUNT));
    assert_null(operation_name(OPERATION_COUNT));
    assert_null(outcome_name(OUTCOME_COUNT));
    assert_null(algorithm_name(UINT32_MAX));
}

/* Only the whole word counts: neither its beginning, nor more, nor another case. */
static void texts_that_only_resemble_a_word_are_refused(void **state)
{
    (void)state;
    assert_int_equal(algorithm_parse("token_bucket", 5), -1);
    assert_int_equal(algorithm_parse("token_buckets", 13), -1);
    assert_int_equal(algorithm_parse("Token_bucket", 12), -1);
    assert_int_equal(algorithm_parse("", 0), -1);
    assert_int_equal(algorithm_parse("sliding_log\0", 12), -1);
    assert_int_equal(algorithm_parse("sliding_logs", 11), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_parses_to_its_number),
        cmocka_unit_test(the_numbers_are_those_of_the_protocol),
        cmocka_unit_test(unknown_numbers_have_no_name),
        cmocka_unit_test(texts_that_only_resemble_a_word_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
