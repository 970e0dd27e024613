/* test_ring_score.c - the whole-number logarithm against libm, and the weights that follow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "ring/ring.h"
#include "ring/score.h"

static double model(uint64_t hash)
{
    return 64.0 - (double)(log2l((long double)hash));
}

/* Random hashes of every magnitude: the error stays below 2^-34. */
static void logarithm_agrees_with_libm(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 1);
    for (int i = 0; i < 200000; i++) {
        const uint64_t hash = (random_next(&random) >> random_below(&random, 63)) | 1U;
        const double got = (double)ring_score_neglog2(hash) / 0x1p42;
        assert_true(fabs(got - model(hash)) < 0x1p-34);
    }
}

/* Around each power of two, where mantissa and exponent change hands, the cost never rises. */
static void logarithm_is_monotonic_around_powers_of_two(void **state)
{
    (void)state;
    for (int bit = 1; bit < 64; bit++) {
        const uint64_t power = 1ULL << bit;
        for (uint64_t step = 1; step < power && step < 1000; step++) {
            assert_true(ring_score_neglog2(power - step) >= ring_score_neglog2(power - step + 1));
            assert_true(ring_score_neglog2(power + step - 1) >= ring_score_neglog2(power + step));
        }
    }
    assert_int_equal(ring_score_neglog2(0), ring_score_neglog2(1));
    assert_int_equal(ring_score_neglog2(1), 64ULL << 42);
}

/* The keys are part of what all nodes must agree on: a change of one bit is a change of ring. */
static void keys_are_the_same_on_every_machine(void **state)
{
    (void)state;
    assert_int_equal(ring_score_neglog2(0x8000000000000000ULL), 1ULL << 42);
    assert_int_equal(ring_score_key(0, 1, 100, 0), 0x000e7dc628f80000ULL);
    assert_int_equal(ring_score_key(4095, 0xfedcba9876543210ULL, 1000, 7), 0x00005b8167d30007ULL);
    assert_int_equal(ring_score_key(65535, UINT64_MAX, 1, 1023), 0x02abf13a972003ffULL);
}

/* A member of three times the weight has the smallest key three times as often. */
static void smallest_keys_are_shared_by_weight(void **state)
{
    enum { ROUNDS = 100000 };
    uint32_t wins = 0;

    (void)state;
    for (uint32_t vnode = 0; vnode < ROUNDS; vnode++) {
        wins += ring_score_key(vnode, 11, 300, 0) < ring_score_key(vnode, 12, 100, 1) ? 1 : 0;
    }
    assert_in_range(wins, ROUNDS * 74 / 100, ROUNDS * 76 / 100);
}

/* The largest cost must not spill into, or out of, its bits. */
static void rank_survives_in_the_lower_bits(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 2);
    for (uint32_t i = 0; i < 10000; i++) {
        const uint32_t rank = (uint32_t)random_below(&random, RING_MEMBERS_MAX);
        const uint64_t key = ring_score_key(i, random_next(&random), RING_WEIGHT_MIN, rank);
        assert_int_equal(ring_score_rank(key), rank);
    }
    const uint64_t largest = (ring_score_neglog2(0) >> 10) * RING_WEIGHT_MAX;
    assert_true(largest < 1ULL << RING_COST_BITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithm_agrees_with_libm),
        cmocka_unit_test(logarithm_is_monotonic_around_powers_of_two),
        cmocka_unit_test(keys_are_the_same_on_every_machine),
        cmocka_unit_test(smallest_keys_are_shared_by_weight),
        cmocka_unit_test(rank_survives_in_the_lower_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
