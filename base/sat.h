/* sat.h - saturating 64-bit arithmetic and exact 128-bit multiply-divide for times and counts. */
#ifndef BASE_SAT_H
#define BASE_SAT_H

#include <stdint.h>

static inline int64_t sat_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static inline int64_t sat_sub(int64_t a, int64_t b)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return b < 0 ? INT64_MAX : INT64_MIN;
    return difference;
}

static inline uint64_t sat_addu(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t sat_subu(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* floor(a * b / divisor) in 128 bits, saturated to UINT64_MAX; divisor > 0. Most products fit 64
 * bits, and a division of those takes a third of the time. */
static inline uint64_t sat_muldiv(uint64_t a, uint64_t b, uint64_t divisor)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    if (__builtin_expect(product >> 64 == 0, 1))
        return (uint64_t)product / divisor;
    const unsigned __int128 quotient = product / divisor;
    return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}

/* ceil(a * b / divisor), the same way. */
static inline uint64_t sat_muldiv_up(uint64_t a, uint64_t b, uint64_t divisor)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    if (__builtin_expect(product >> 64 == 0, 1))
        return (uint64_t)product / divisor + ((uint64_t)product % divisor != 0);
    const unsigned __int128 quotient = product / divisor + (product % divisor != 0);
    return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}

#endif
