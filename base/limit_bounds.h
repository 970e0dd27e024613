/* limit_bounds.h - how large the numbers of a limit may be. */
#ifndef BASE_LIMIT_BOUNDS_H
#define BASE_LIMIT_BOUNDS_H

#define LIMIT_COUNT_MAX     1000000000000000ULL            /* 10^15: 10^9/s over ten days */
#define LIMIT_RATE_MAX      1000000000ULL                  /* per second */
#define LIMIT_WINDOW_MIN_NS 1000000ULL                     /* 1 ms */
#define LIMIT_WINDOW_MAX_NS (3660ULL * 86400 * 1000000000) /* ten years */
#define LIMIT_REFILL_MAX_NS (1ULL << 61) /* 73 years, in which a bucket is full again */
#define LIMIT_LOG_COUNT_MAX 65536ULL     /* entries of one sliding_log */
#define LIMIT_LEASES_MAX    4096ULL      /* in flight under one concurrency */
#define LIMIT_EXCEED_MAX    1000         /* per cent */
#define LIMIT_WEIGHT_MAX    1000
#define LIMIT_CEILING_MAX   100000 /* per cent: 1000 x */
#define LIMIT_CLASSES       3      /* critical, normal, batch */

#endif
