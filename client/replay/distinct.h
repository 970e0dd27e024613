/* distinct.h - about how many different things were seen, in 4 KiB (HyperLogLog).
 *
 * Of each hash the first bits choose a register, and the register keeps the longest run of zeros
 * that followed: long runs are rare, so their lengths tell how many different hashes there were.
 * Seeing one again changes nothing. The standard error is 1.04 / sqrt(4096) = 1.6%; small numbers
 * are counted by the registers still empty, which is nearly exact.
 *
 * Pure. Hashes must be well mixed, as SipHash's are.
 */
#ifndef CLIENT_REPLAY_DISTINCT_H
#define CLIENT_REPLAY_DISTINCT_H

#include <stdint.h>

enum { DISTINCT_LOG2 = 12, DISTINCT_REGISTERS = 1 << DISTINCT_LOG2 };

/* All zero: nothing seen. */
struct distinct {
    uint8_t registers[DISTINCT_REGISTERS];
};

void distinct_add(struct distinct *distinct, uint64_t hash);
uint64_t distinct_estimate(const struct distinct *distinct);

#endif
