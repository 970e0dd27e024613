/* rates.h - the distinct refill rates that token buckets are kept at, each under a 12-bit number.
 *
 * A bucket's state is a time; to know how many tokens that is, one must know the rate it was kept
 * at, also after the rule has changed. Rates are few and keys are many, so a slot holds the number
 * of its rate. A rate is the exact interval p/q ns between two tokens (q <= RATE_DENOMINATOR_MAX).
 *
 * RATES-1  A number with references keeps its meaning; one without is free for another rate.
 * RATES-2  Number 0 means "unknown": used when all numbers are taken. Such a bucket keeps its time,
 *          and its tokens are read at whatever rate the request has.
 * RATES-3  Each number but 0 is either in the index, found by its rate, with references; or in the
 *          chain of free ones.
 */
#ifndef NODE_LIMIT_ALGORITHMS_RATES_H
#define NODE_LIMIT_ALGORITHMS_RATES_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    RATES_MAX = 4096, /* numbers 1 .. RATES_MAX - 1 */
    RATES_INDEX = 8192,
    RATE_FRACTION_BITS = 20,
    RATE_DENOMINATOR_MAX = 1 << RATE_FRACTION_BITS,
};
#define RATE_NUMERATOR_MAX (1ULL << 59)

struct rate {
    uint64_t p;
    uint32_t q;
    uint32_t refs; /* of a free entry: the next free number */
};

struct rates {
    const struct allocator *allocator;
    struct rate *rate;
    uint16_t *index;
    uint32_t first_free;
};

MUST_USE int rates_init(struct rates *rates, const struct allocator *allocator);
void rates_fini(struct rates *rates);
size_t rates_bytes(void);
/* The number of p/q with one reference more, or 0 if all are taken. */
uint32_t rates_take(struct rates *rates, uint64_t p, uint32_t q);
void rates_hold(struct rates *rates, uint32_t number);
void rates_release(struct rates *rates, uint32_t number);
/* Asserts RATES-3. O(RATES_INDEX). */
void rates_check(const struct rates *rates);

#endif
