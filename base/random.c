/* random.c - xoshiro256**, seeded by splitmix64.
 *
 * One 64-bit seed reproduces a whole run, which is what makes a failed simulation a bug
 * report. Splitmix64 spreads the seed over the 256 bits of state, so that neighbouring seeds
 * give unrelated sequences and no seed gives the one forbidden state, all zero.
 *
 * RANDOM-1  The state is never all zero.
 * RANDOM-2  The sequence depends on the seed alone: not on the machine, the compiler or the time.
 */
#include "base/random.h"

#include "base/assert.h"
#include "base/hash.h"

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

void random_init(struct random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15ULL; /* splitmix64's step, 2^64 / golden ratio */
        random->state[i] = hash_mix64(seed);
    }
}

uint64_t random_next(struct random *random)
{
    uint64_t *s = random->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    ASSERT(bound > 0);
    /* The high word of x * bound is uniform once the low words that would fall
     * to some results more often, the first 2^64 mod bound, are drawn again. */
    const uint64_t refused = (0 - bound) % bound;
    unsigned __int128 product;
    do {
        product = (unsigned __int128)random_next(random) * bound;
    } while ((uint64_t)product < refused);
    ASSERT((uint64_t)(product >> 64) < bound);
    return (uint64_t)(product >> 64);
}

int64_t random_between(struct random *random, int64_t low, int64_t high)
{
    ASSERT(low <= high);
    const uint64_t span = (uint64_t)high - (uint64_t)low;
    const uint64_t offset =
        span == UINT64_MAX ? random_next(random) : random_below(random, span + 1);
    return (int64_t)((uint64_t)low + offset);
}
