/* test_sat.c - saturating arithmetic and exact multiply-divide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/sat.h"

/* Times near the ends of the range stick to them instead of wrapping into the other end. */
static void signed_sums_stick_to_the_ends(void **state)
{
    (void)state;
    assert_int_equal(sat_add(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(sat_add(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(sat_add(INT64_MAX, INT64_MIN), -1);
    assert_int_equal(sat_sub(INT64_MIN, 1), INT64_MIN);
    assert_int_equal(sat_sub(INT64_MAX, -1), INT64_MAX);
    assert_int_equal(sat_sub(0, INT64_MIN), INT64_MAX);
    assert_int_equal(sat_sub(5, 7), -2);
}

/* Counts neither wrap past the top nor below zero. */
static void unsigned_sums_stick_to_the_ends(void **state)
{
    (void)state;
    assert_true(sat_addu(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(sat_addu(UINT64_MAX - 1, 1) == UINT64_MAX);
    assert_true(sat_addu(2, 3) == 5);
    assert_true(sat_subu(3, 5) == 0);
    assert_true(sat_subu(5, 3) == 2);
}

/* 600 million a second is 1.67 ns an event: a product in 64 bits or a division first loses it. */
static void muldiv_multiplies_in_128_bits_and_divides_last(void **state)
{
    (void)state;
    assert_true(sat_muldiv(3, 1000000000, 600000000) == 5);
    assert_true(sat_muldiv_up(1, 1000000000, 600000000) == 2);
    assert_true(sat_muldiv(1000000000000000ULL, 316224000000000000ULL, 1000000000000000ULL) ==
                316224000000000000ULL);
    assert_true(sat_muldiv(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    assert_true(sat_muldiv(UINT64_MAX, 2, 1) == UINT64_MAX);
    assert_true(sat_muldiv_up(UINT64_MAX, UINT64_MAX, 1) == UINT64_MAX);
    assert_true(sat_muldiv_up(0, 7, 3) == 0);
    assert_true(sat_muldiv_up(6, 1, 3) == 2);
}

/* Floor and ceiling differ by one exactly when the division leaves a remainder. */
static void the_two_roundings_agree_with_remainders(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 7);
    for (int i = 0; i < 10000; i++) {
        const uint64_t a = random_below(&random, 1 << 30);
        const uint64_t b = random_below(&random, 1 << 30);
        const uint64_t divisor = 1 + random_below(&random, 1 << 20);
        assert_true(sat_muldiv(a, b, divisor) == a * b / divisor);
        assert_true(sat_muldiv_up(a, b, divisor) - sat_muldiv(a, b, divisor) ==
                    (a * b % divisor != 0));
    }
}

/* Products on both sides of 64 bits are divided in different ways, with one result. */
static void products_just_below_and_above_64_bits_divide_alike(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 11);
    for (int i = 0; i < 10000; i++) {
        const unsigned __int128 one = 1;
        const uint64_t a = 1 + random_below(&random, UINT64_C(1) << 40);
        const uint64_t b = (uint64_t)((one << 64) / a) + random_below(&random, 3) - 1;
        const uint64_t divisor = 1 + random_below(&random, UINT64_C(1) << (i % 60));
        const unsigned __int128 floor = (unsigned __int128)a * b / divisor;
        const unsigned __int128 ceiling = ((unsigned __int128)a * b + divisor - 1) / divisor;
        assert_true(sat_muldiv(a, b, divisor) == (floor >> 64 != 0 ? UINT64_MAX : (uint64_t)floor));
        assert_true(sat_muldiv_up(a, b, divisor) ==
                    (ceiling >> 64 != 0 ? UINT64_MAX : (uint64_t)ceiling));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signed_sums_stick_to_the_ends),
        cmocka_unit_test(unsigned_sums_stick_to_the_ends),
        cmocka_unit_test(muldiv_multiplies_in_128_bits_and_divides_last),
        cmocka_unit_test(the_two_roundings_agree_with_remainders),
        cmocka_unit_test(products_just_below_and_above_64_bits_divide_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
