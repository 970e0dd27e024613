/* test_random.c - the generator's published sequence, and what its ranges promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/random.h"
#include "tests/unit/support_death.h"

/* The published first outputs of xoshiro256** from the state 1, 2, 3, 4. */
static void the_sequence_is_xoshiro256_starstar(void **state)
{
    const uint64_t expected[] = {11520,
                                 0,
                                 1509978240,
                                 1215971899390074240ULL,
                                 1216172134540287360ULL,
                                 607988272756665600ULL,
                                 16172922978634559625ULL,
                                 8476171486693032832ULL,
                                 10595114339597558777ULL,
                                 2904607092377533576ULL};
    struct random random = {.state = {1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_true(random_next(&random) == expected[i]);
}

/* The state comes from splitmix64, whose published first outputs for seed 0 these are. */
static void the_seed_is_spread_by_splitmix64(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 0);
    assert_true(random.state[0] == 0xe220a8397b1dcdafULL);
    assert_true(random.state[1] == 0x6e789e6aa1b965f4ULL);
    assert_true(random.state[2] == 0x06c45d188009454fULL);
    assert_true(random.state[3] == 0xf88bb8a8724c81ecULL);
}

/* A printed seed reproduces a run; another seed is another run. */
static void the_same_seed_gives_the_same_sequence(void **state)
{
    struct random first, second, other;
    int equal = 0;

    (void)state;
    random_init(&first, 42);
    random_init(&second, 42);
    random_init(&other, 43);
    for (int i = 0; i < 1000; i++) {
        const uint64_t value = random_next(&first);
        assert_true(value == random_next(&second));
        equal += value == random_next(&other);
    }
    assert_int_equal(equal, 0);
}

/* Every result of a small bound comes up, and about equally often. */
static void below_is_uniform(void **state)
{
    enum { BOUND = 7, DRAWS = 70000 };
    int seen[BOUND] = {0};
    struct random random;

    (void)state;
    random_init(&random, 1);
    for (int i = 0; i < DRAWS; i++)
        seen[random_below(&random, BOUND)]++;
    for (int i = 0; i < BOUND; i++)
        assert_in_range(seen[i], DRAWS / BOUND - 500, DRAWS / BOUND + 500);
}

/* With a bound of 3/4 of the range, a bare modulo would give the lower third twice as often, and
 * a bare multiplication every third value. */
static void below_is_unbiased_for_large_bounds(void **state)
{
    const uint64_t bound = 3ULL << 62;
    struct random random;
    int lower = 0, every_third = 0;

    (void)state;
    random_init(&random, 2);
    for (int i = 0; i < 30000; i++) {
        const uint64_t value = random_below(&random, bound);
        assert_true(value < bound);
        lower += value < bound / 3;
        every_third += value % 3 == 0;
    }
    assert_in_range(lower, 9500, 10500);
    assert_in_range(every_third, 9500, 10500);
    assert_true(random_below(&random, 1) == 0);
    (void)random_below(&random, UINT64_MAX);
}

/* Both ends of a closed range are reached, also across zero and over the whole type. */
static void between_includes_both_ends(void **state)
{
    int low = 0, high = 0, negative = 0;
    struct random random;

    (void)state;
    random_init(&random, 3);
    for (int i = 0; i < 1000; i++) {
        const int64_t value = random_between(&random, -2, 2);
        assert_true(value >= -2 && value <= 2);
        low += value == -2;
        high += value == 2;
        negative += random_between(&random, INT64_MIN, INT64_MAX) < 0;
    }
    assert_true(low > 100 && high > 100);
    assert_in_range(negative, 400, 600);
    assert_int_equal(random_between(&random, INT64_MAX, INT64_MAX), INT64_MAX);
    assert_int_equal(random_between(&random, INT64_MIN, INT64_MIN), INT64_MIN);
}

static void draw_below_zero(void *context)
{
    (void)random_below(context, 0);
}

static void draw_from_an_empty_range(void *context)
{
    (void)random_between(context, 1, 0);
}

/* A draw from nothing has no answer: it is the caller's mistake. */
static void an_empty_range_asserts(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 5);
    assert_true(death_by_assert(draw_below_zero, &random, NULL, 0));
    assert_true(death_by_assert(draw_from_an_empty_range, &random, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sequence_is_xoshiro256_starstar),
        cmocka_unit_test(the_seed_is_spread_by_splitmix64),
        cmocka_unit_test(the_same_seed_gives_the_same_sequence),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(below_is_unbiased_for_large_bounds),
        cmocka_unit_test(between_includes_both_ends),
        cmocka_unit_test(an_empty_range_asserts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
