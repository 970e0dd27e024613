/* distinct.c - about how many different things were seen; see distinct.h.
 *
 * DISTINCT-1  A register never falls, so the order and the repetition of what is added do not
 *             matter.
 */
#include "client/replay/distinct.h"

#include <math.h>

#include "base/assert.h"

void distinct_add(struct distinct *distinct, uint64_t hash)
{
    const uint64_t rest = hash << DISTINCT_LOG2 | (uint64_t)1 << (DISTINCT_LOG2 - 1);
    const uint8_t run = (uint8_t)(__builtin_clzll(rest) + 1);
    ASSERT(run >= 1 && run <= 64 - DISTINCT_LOG2 + 1);
    uint8_t *kept = &distinct->registers[hash >> (64 - DISTINCT_LOG2)];
    if (run > *kept)
        *kept = run;
}

uint64_t distinct_estimate(const struct distinct *distinct)
{
    const double m = DISTINCT_REGISTERS;
    double sum = 0;
    unsigned empty = 0;
    for (unsigned i = 0; i < DISTINCT_REGISTERS; i++) {
        sum += ldexp(1.0, -(int)distinct->registers[i]);
        empty += distinct->registers[i] == 0;
    }
    ASSERT(sum > 0 && empty <= DISTINCT_REGISTERS);
    const double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    if (estimate <= 2.5 * m && empty > 0)
        return (uint64_t)(m * log(m / empty) + 0.5); /* the share of empty ones tells more */
    return (uint64_t)(estimate + 0.5);
}
