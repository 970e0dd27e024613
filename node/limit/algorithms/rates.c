/* rates.c - interned rates with reference counts; see rates.h.
 *
 * Open addressing over 16-bit numbers at a load of at most one half; removal shifts back, so there
 * are no tombstones. Nothing is allocated after init.
 */
#include "node/limit/algorithms/rates.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

_Static_assert(RATES_INDEX >= 2 * RATES_MAX, "the index stays at most half full");

int rates_init(struct rates *rates, const struct allocator *allocator)
{
    memset(rates, 0, sizeof *rates);
    rates->allocator = allocator;
    rates->rate = alloc_array(allocator, RATES_MAX, sizeof *rates->rate);
    rates->index = alloc_array(allocator, RATES_INDEX, sizeof *rates->index);
    if (rates->rate == NULL || rates->index == NULL) {
        rates_fini(rates);
        return TG_ENOMEM;
    }
    for (uint32_t i = 1; i < RATES_MAX; i++)
        rates->rate[i].refs = i + 1 < RATES_MAX ? i + 1 : 0;
    rates->first_free = 1;
    return 0;
}

void rates_fini(struct rates *rates)
{
    if (rates->rate != NULL)
        alloc_put(rates->allocator, rates->rate, RATES_MAX * sizeof *rates->rate);
    if (rates->index != NULL)
        alloc_put(rates->allocator, rates->index, RATES_INDEX * sizeof *rates->index);
    rates->rate = NULL;
    rates->index = NULL;
}

size_t rates_bytes(void)
{
    return RATES_MAX * sizeof(struct rate) + RATES_INDEX * sizeof(uint16_t);
}

static uint32_t rates_home(uint64_t p, uint32_t q)
{
    return (uint32_t)hash_mix64(p * 0x9e3779b97f4a7c15ULL + q) & (RATES_INDEX - 1);
}

uint32_t rates_take(struct rates *rates, uint64_t p, uint32_t q)
{
    ASSERT(p != 0 && q != 0 && q <= RATE_DENOMINATOR_MAX);
    uint32_t at = rates_home(p, q);
    for (; rates->index[at] != 0; at = (at + 1) & (RATES_INDEX - 1)) {
        struct rate *rate = &rates->rate[rates->index[at]];
        if (rate->p == p && rate->q == q) {
            rate->refs++;
            return rates->index[at];
        }
    }
    const uint32_t number = rates->first_free;
    if (number == 0)
        return 0;
    ASSERT(rates->rate[number].p == 0); /* RATES-3 */
    rates->first_free = rates->rate[number].refs;
    rates->rate[number] = (struct rate){.p = p, .q = q, .refs = 1};
    rates->index[at] = (uint16_t)number;
    return number;
}

void rates_hold(struct rates *rates, uint32_t number)
{
    ASSERT(number == 0 ||
           (rates->rate[number].p != 0 && rates->rate[number].refs > 0)); /* RATES-1 */
    if (number != 0)
        rates->rate[number].refs++;
}

static void rates_forget(struct rates *rates, uint32_t number)
{
    const uint32_t mask = RATES_INDEX - 1;
    ASSERT(number != 0 && rates->rate[number].refs == 0);
    uint32_t hole = rates_home(rates->rate[number].p, rates->rate[number].q);
    while (rates->index[hole] != number)
        hole = (hole + 1) & mask;
    for (uint32_t at = (hole + 1) & mask; rates->index[at] != 0; at = (at + 1) & mask) {
        const struct rate *rate = &rates->rate[rates->index[at]];
        const uint32_t home = rates_home(rate->p, rate->q);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            rates->index[hole] = rates->index[at];
            hole = at;
        }
    }
    rates->index[hole] = 0;
    rates->rate[number] = (struct rate){.refs = rates->first_free};
    rates->first_free = number;
}

void rates_release(struct rates *rates, uint32_t number)
{
    if (number == 0)
        return;
    ASSERT(rates->rate[number].p != 0 && rates->rate[number].refs > 0);
    if (--rates->rate[number].refs == 0)
        rates_forget(rates, number);
}

/* How many numbers are in the chain of free ones. */
static uint32_t check_free(const struct rates *rates)
{
    uint32_t count = 0;
    for (uint32_t at = rates->first_free; at != 0; at = rates->rate[at].refs) {
        INVARIANT("RATES-3", at < RATES_MAX && count < RATES_MAX - 1);
        INVARIANT("RATES-3", rates->rate[at].p == 0);
        count++;
    }
    return count;
}

void rates_check(const struct rates *rates)
{
    uint32_t found = 0;
    for (uint32_t at = 0; at < RATES_INDEX; at++) {
        const uint32_t number = rates->index[at];
        if (number == 0)
            continue;
        INVARIANT("RATES-3", number < RATES_MAX);
        const struct rate *rate = &rates->rate[number];
        INVARIANT("RATES-3", rate->p != 0 && rate->q != 0 && rate->refs > 0);
        uint32_t home = rates_home(rate->p, rate->q);
        while (rates->index[home] != 0 && rates->index[home] != number)
            home = (home + 1) & (RATES_INDEX - 1);
        INVARIANT("RATES-3", home == at);
        found++;
    }
    INVARIANT("RATES-3", found + check_free(rates) == RATES_MAX - 1);
}
