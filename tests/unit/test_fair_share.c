/* test_fair_share.c - the level against max-min fairness worked out key by key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/limit/engine/fair_share.h"

enum { KEYS_MAX = 40, ROUNDS = 30000 };
#define TOKEN UINT64_C(1000000000)

struct key {
    uint64_t weight;
    uint64_t ask;
};

static struct fair_share fair_share;

static void pour(const struct key *keys, size_t count)
{
    fair_share_clear(&fair_share);
    for (size_t i = 0; i < count; i++)
        fair_share_add(&fair_share, keys[i].weight, keys[i].ask);
}

static uint64_t taken_by(const struct key *key, uint64_t level)
{
    const struct fair_share_bin share = {key->weight, key->ask};
    return fair_share_taken(&share, level);
}

/* The naive model: again and again, whoever asks for less than an equal share of what is left gets
 * it and is done with; when nobody does, what is left is the others' by weight. */
static long double model_level(const struct key *keys, size_t count, long double spare)
{
    char done[KEYS_MAX] = {0};
    for (;;) {
        long double weight = 0;
        for (size_t i = 0; i < count; i++)
            weight += done[i] ? 0 : (long double)keys[i].weight;
        if (weight == 0)
            return -1; /* all fit */
        const long double level = spare / weight;
        size_t served = 0;
        for (size_t i = 0; i < count; i++) {
            if (done[i] || (long double)keys[i].ask > (long double)keys[i].weight * level)
                continue;
            done[i] = 1;
            served++;
            spare -= (long double)keys[i].ask;
        }
        if (served == 0)
            return level;
    }
}

static void random_keys(struct random *random, struct key *keys, size_t count)
{
    const unsigned spread = 1 + (unsigned)random_below(random, 40);
    for (size_t i = 0; i < count; i++) {
        keys[i].weight = 1 + random_below(random, random_below(random, 2) == 0 ? 1 : 1000);
        keys[i].ask = random_below(random, TOKEN << random_below(random, spread) % 29) + 1;
    }
}

/* The examples of the design: 1000/60/10 of 120 are 55/55/10, and 1000/50/10 are 60/50/10. */
static void the_examples_of_the_design_come_out(void **state)
{
    (void)state;
    struct key keys[] = {{1, 1000 * TOKEN}, {1, 60 * TOKEN}, {1, 10 * TOKEN}};
    uint64_t left = 1;
    pour(keys, 3);
    assert_int_equal(fair_share_level(&fair_share, 120 * TOKEN, &left), 55 * TOKEN);
    assert_int_equal(left, 0);
    keys[1].ask = 50 * TOKEN;
    pour(keys, 3);
    assert_int_equal(fair_share_level(&fair_share, 120 * TOKEN, &left), 60 * TOKEN);
}

/* A key of twice the weight gets twice as much. */
static void weights_share_in_proportion(void **state)
{
    (void)state;
    const struct key keys[] = {{2, 1000 * TOKEN}, {1, 1000 * TOKEN}};
    uint64_t left;
    pour(keys, 2);
    const uint64_t level = fair_share_level(&fair_share, 120 * TOKEN, &left);
    assert_int_equal(taken_by(&keys[0], level), 80 * TOKEN);
    assert_int_equal(taken_by(&keys[1], level), 40 * TOKEN);
}

/* Where all fit nobody is held back, and what is over is told; where nothing is spare nobody gets
 * anything. */
static void the_ends_of_the_range_hold(void **state)
{
    (void)state;
    const struct key keys[] = {{1, 10 * TOKEN}, {3, 20 * TOKEN}};
    uint64_t left;
    pour(keys, 2);
    assert_int_equal(fair_share_level(&fair_share, 100 * TOKEN, &left), 100 * TOKEN);
    assert_int_equal(left, 70 * TOKEN);
    assert_int_equal(fair_share_level(&fair_share, 0, &left), 0);
    assert_int_equal(left, 0);
    pour(keys, 0);
    assert_int_equal(fair_share_level(&fair_share, 5, &left), 5);
    assert_int_equal(left, 5);
    const struct key most = {1, UINT64_MAX};
    pour(&most, 1);
    fair_share_add(&fair_share, 1, UINT64_MAX); /* sums saturate */
    assert_int_equal(fair_share_level(&fair_share, FAIR_SHARE_RATE_MAX, &left),
                     FAIR_SHARE_RATE_MAX / 2);
}

/* Over random keys and weights each gets what the model gives it, within 1.6% of the level, and all
 * together never more than there is. */
static void every_key_gets_what_the_model_gives(void **state)
{
    (void)state;
    struct random random;
    struct key keys[KEYS_MAX];
    random_init(&random, 41);
    for (int round = 0; round < ROUNDS; round++) {
        const size_t count = 1 + random_below(&random, KEYS_MAX);
        random_keys(&random, keys, count);
        const uint64_t spare = random_below(&random, TOKEN << random_below(&random, 29)) + 1000000;
        pour(keys, count);
        uint64_t left;
        const uint64_t level = fair_share_level(&fair_share, spare, &left);
        const long double expected = model_level(keys, count, (long double)spare);
        if (expected < 0)
            assert_int_equal(level, spare);
        else if (expected > 2000000) /* below that, asks are all alike */
            assert_true((long double)level >= expected * 0.984L - 1 &&
                        (long double)level <= expected * 1.016L + 1);
    }
}

/* The few shares that a report has room for stand for all bins: the level found from them is that
 * of the bins if the guess that they were made with is within a factor of two; and never far off.
 */
static void shares_give_the_level_of_the_bins(void **state)
{
    (void)state;
    static struct fair_share summed;
    struct random random;
    struct key keys[KEYS_MAX];
    random_init(&random, 43);
    for (int round = 0; round < ROUNDS / 4; round++) {
        struct fair_share_bin shares[FAIR_SHARE_SUMMARY_MAX];
        const size_t count = 1 + random_below(&random, KEYS_MAX);
        random_keys(&random, keys, count);
        pour(keys, count);
        const uint64_t spare = random_below(&random, TOKEN << random_below(&random, 29)) + 1;
        uint64_t left, left_of_shares;
        const uint64_t level = fair_share_level(&fair_share, spare, &left);
        const uint64_t near = level / 2 + random_below(&random, level + level / 2 + 1);
        const size_t share_count = fair_share_summary(&fair_share, near, shares);
        assert_in_range(share_count, 1, FAIR_SHARE_SUMMARY_MAX);
        uint64_t asks = 0, weights = 0;
        fair_share_clear(&summed);
        for (size_t i = 0; i < share_count; i++) {
            fair_share_add(&summed, shares[i].weight, shares[i].ask);
            asks += shares[i].ask;
            weights += shares[i].weight;
        }
        for (size_t i = 0; i < count; i++) {
            asks -= keys[i].ask;
            weights -= keys[i].weight;
        }
        assert_int_equal(asks, 0);
        assert_int_equal(weights, 0);
        const uint64_t again = fair_share_level(&summed, spare, &left_of_shares);
        assert_int_equal(left, left_of_shares);
        if (level > 4000000 && near > level / 2 + level / 16 && near < level * 2 - level / 8)
            assert_in_range(again, level - level / 60, level + level / 60);
    }
}

/* With every bin in use the shares still fit. */
static void a_full_house_fits_into_the_shares(void **state)
{
    (void)state;
    struct fair_share_bin shares[FAIR_SHARE_SUMMARY_MAX];
    fair_share_clear(&fair_share);
    for (unsigned bit = 10; bit < 63; bit++)
        for (uint64_t fine = 0; fine < 128; fine++)
            fair_share_add(&fair_share, 1, (UINT64_C(1) << bit) + (fine << bit) / 128);
    for (unsigned bit = 0; bit < 64; bit++)
        assert_in_range(fair_share_summary(&fair_share, UINT64_C(1) << bit, shares), 1,
                        FAIR_SHARE_SUMMARY_MAX);
    assert_in_range(fair_share_summary(&fair_share, (UINT64_C(1) << 40) + 12345678901, shares), 1,
                    FAIR_SHARE_SUMMARY_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_design_come_out),
        cmocka_unit_test(weights_share_in_proportion),
        cmocka_unit_test(the_ends_of_the_range_hold),
        cmocka_unit_test(every_key_gets_what_the_model_gives),
        cmocka_unit_test(shares_give_the_level_of_the_bins),
        cmocka_unit_test(a_full_house_fits_into_the_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
