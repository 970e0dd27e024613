/* random.h - seedable random numbers (xoshiro256**), for pure cores, tests and the simulator.
 *
 * Not for secrets: those come from libsodium at the edge (node/runtime).
 * The same seed gives the same sequence on every machine.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state[4];
};

void random_init(struct random *random, uint64_t seed);
/* The next 64 uniformly distributed bits. */
uint64_t random_next(struct random *random);
/* Uniform in [0, bound) without modulo bias; bound > 0. */
uint64_t random_below(struct random *random, uint64_t bound);
/* Uniform in [low, high]; low <= high. */
int64_t random_between(struct random *random, int64_t low, int64_t high);

#endif
