/* test_nearest.c - mistyped words are recognised, others are not guessed at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/nearest.h"

static const char *const words[] = {"status", "members", "hit", "rules apply", "rules show"};

static const char *near(const char *word)
{
    struct nearest nearest;
    nearest_init(&nearest, word);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        nearest_try(&nearest, words[i]);
    return nearest.found;
}

/* One or two letters left out, put in, replaced or swapped are seen through. */
static void a_mistyped_word_is_recognised(void **state)
{
    (void)state;
    assert_string_equal(near("stats"), "status");
    assert_string_equal(near("statuss"), "status");
    assert_string_equal(near("ststus"), "status");
    assert_string_equal(near("stauts"), "status");
    assert_string_equal(near("member"), "members");
    assert_string_equal(near("mebmers"), "members");
    assert_string_equal(near("hti"), "hit");
    assert_string_equal(near("rules aply"), "rules apply");
    assert_string_equal(near("status"), "status");
}

/* What is as far from the word as the word is long is no suggestion. */
static void a_word_that_is_near_nothing_has_no_suggestion(void **state)
{
    char long_word[NEAREST_LEN_MAX + 2];
    (void)state;
    assert_null(near(""));
    assert_null(near("x"));
    assert_null(near("ht"));
    assert_null(near("backup"));
    memset(long_word, 's', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_null(near(long_word));
}

/* Nearer beats earlier, and of equally near ones the first counts. */
static void the_nearest_word_counts(void **state)
{
    struct nearest nearest;
    (void)state;
    nearest_init(&nearest, "blocs");
    nearest_try(&nearest, "block");
    nearest_try(&nearest, "blocks");
    assert_string_equal(nearest.found, "block");
    nearest_init(&nearest, "blockss");
    nearest_try(&nearest, "block");
    nearest_try(&nearest, "blocks");
    assert_string_equal(nearest.found, "blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mistyped_word_is_recognised),
        cmocka_unit_test(a_word_that_is_near_nothing_has_no_suggestion),
        cmocka_unit_test(the_nearest_word_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
