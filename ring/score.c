/* score.c - the logarithm behind weighted rendezvous hashing, without floating point.
 *
 * hash = 2^e * m, 1 <= m < 2, so log2(hash) = e + log2(m). With z = (m - 1) / (m + 1) <= 1/3,
 *
 *     log2(m) = 2 / ln 2 * (z + z^3/3 + z^5/5 + ...)
 *
 * and ten terms leave an error below 2^-36, far finer than the 1/n by which the best of n members
 * wins. libm is not used: its last bits differ between machines, and two nodes that
 * disagree about one bit would disagree about an owner.
 *
 * SCORE-4  The result falls, or stays, as `hash` grows (tested on neighbours around powers of two).
 */
#include "ring/score.h"

#include <assert.h>

#include "base/assert.h"
#include "base/hash.h"
#include "ring/ring.h"

enum {
    FRACTION_BITS = 42, /* of the result */
    Z_BITS = 62,        /* of z and its powers */
    TERMS = 10,
    COST_SHIFT = 10
};

/* 64 whole bits of -log2, scaled by the largest weight, must fit above the rank. */
static_assert(6 + FRACTION_BITS + 10 - COST_SHIFT <= RING_COST_BITS, "a cost fits its bits");
static_assert(RING_WEIGHT_MAX <= 1 << 10, "a weight scales a cost by at most 2^10");
static_assert(RING_MEMBERS_MAX <= 1 << RING_RANK_BITS, "a rank fits its bits");

/* 2 / ln 2 with 61 fractional bits. */
static const uint64_t two_over_ln2 = 0x5c551d94ae0bf85dULL;

static uint64_t mul_z(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> Z_BITS);
}

uint64_t ring_score_neglog2(uint64_t hash)
{
    /* 1 / (2k + 1) with 62 fractional bits, k = 0..9. */
    static const uint64_t odd_reciprocal[TERMS] = {
        (1ULL << 62),      (1ULL << 62) / 3,  (1ULL << 62) / 5,  (1ULL << 62) / 7,
        (1ULL << 62) / 9,  (1ULL << 62) / 11, (1ULL << 62) / 13, (1ULL << 62) / 15,
        (1ULL << 62) / 17, (1ULL << 62) / 19};
    const uint64_t nonzero = hash == 0 ? 1 : hash;
    const int zeros = __builtin_clzll(nonzero);
    const uint64_t m = (nonzero << zeros) >> 1; /* 62 fractional bits, 2^62 <= m < 2^63 */
    const uint64_t one = 1ULL << Z_BITS;
    const uint64_t z = (uint64_t)(((unsigned __int128)(m - one) << Z_BITS) / (m + one));
    const uint64_t square = mul_z(z, z);
    uint64_t sum = odd_reciprocal[TERMS - 1];

    for (int k = TERMS - 2; k >= 0; k--) {
        sum = odd_reciprocal[k] + mul_z(sum, square);
    }
    const uint64_t log2_m =
        (uint64_t)((unsigned __int128)mul_z(sum, z) * two_over_ln2 >> (61 + 62 - 42));
    const uint64_t exponent = (uint64_t)(63 - zeros) << FRACTION_BITS;
    const uint64_t whole = 64ULL << FRACTION_BITS;
    ASSERT(exponent + log2_m <= whole);
    return whole - exponent - log2_m;
}

uint64_t ring_score_key(uint32_t vnode, uint64_t id, uint32_t weight, uint32_t rank)
{
    ASSERT(weight >= RING_WEIGHT_MIN && rank < 1U << RING_RANK_BITS);
    /* The id is mixed on its own first, so that ids that differ by a multiple of the vnode step
     * do not share their scores shifted by a few vnodes. */
    const uint64_t step = 0x9e3779b97f4a7c15ULL;
    const uint64_t hash = hash_mix64(hash_mix64(id ^ step) + step * (vnode + 1ULL));
    const uint64_t cost = (ring_score_neglog2(hash) >> COST_SHIFT) * RING_WEIGHT_MAX / weight;

    return cost << RING_RANK_BITS | rank;
}
