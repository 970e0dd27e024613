/* limit.h - the parameters of one limit, as rules and inline requests state them.
 *
 * A limit is a rate (count per window) kept by an algorithm. It is what a request carries to
 * the key's decider; the state it is applied to lives in a slot (node/limit) and never
 * contains these parameters, so a changed rate keeps what has been consumed.
 */
#ifndef BASE_LIMIT_H
#define BASE_LIMIT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limit_bounds.h"
#include "base/vocabulary.h"

struct limit {
    uint64_t count;     /* events per window, 1 .. LIMIT_COUNT_MAX; concurrency: in flight */
    uint64_t window_ns; /* LIMIT_WINDOW_MIN_NS .. LIMIT_WINDOW_MAX_NS; of leases, the time-out */
    uint64_t burst;     /* the buckets: capacity (0 = count); else 0 */
    /* Of calendar windows, as who received the request knows the calendar: when the window of its
     * moment began (Unix time; window_ns is its length), and the length of the one before. */
    int64_t start_ns;
    uint32_t before_s;
    /* Mode soft: so much per cent above the limit is allowed, and said to be; 0 = mode hard. */
    uint16_t exceed_percent;
    uint8_t align;     /* fixed_window: enum limit_align; else 0 */
    uint8_t buckets;   /* sliding_buckets: sub-windows of a window (0 = 60); else 0 */
    uint8_t algorithm; /* enum algorithm */
    uint8_t ordinal;   /* tells limits of one rule and algorithm apart (ordinals.h) */
    /* Mode elastic: above the limit there is what a pool can spare. All 0 in another mode. */
    uint16_t weight;          /* 1 .. LIMIT_WEIGHT_MAX: its part of the spare */
    uint32_t pool;            /* names the pool; 0 = mode hard or soft */
    uint32_t ceiling_percent; /* of the limit, borrowed included; 0 = no ceiling */
    uint8_t class;            /* below LIMIT_CLASSES: 0 borrows first, the last one last */
};

/* Where the windows of a fixed_window begin: on the wire and on disk, so append. */
enum limit_align {
    LIMIT_ALIGN_EPOCH = 0,  /* at multiples of their length, UTC */
    LIMIT_ALIGN_FIRST = 1,  /* with the first request after the last one is over */
    LIMIT_ALIGN_MINUTE = 2, /* with the calendar of a time zone, from here on */
    LIMIT_ALIGN_HOUR = 3,
    LIMIT_ALIGN_DAY = 4,
    LIMIT_ALIGN_WEEK = 5, /* from Monday */
    LIMIT_ALIGN_MONTH = 6,
    LIMIT_ALIGN_YEAR = 7,
    LIMIT_ALIGN_COUNT
};

static inline bool limit_is_calendar(unsigned align)
{
    return align >= LIMIT_ALIGN_MINUTE;
}

/* Calendar windows of one unit differ in length, but all are longer than 2^(e-1) ms and at most
 * 2^e ms long, unless the clock is moved in an hour or minute: e of a unit. */
static inline unsigned limit_calendar_exponent(unsigned align)
{
    static const uint8_t exponents[] = {0, 0, 16, 22, 27, 30, 32, 35}; /* they are kept as well */
    static_assert(sizeof exponents == LIMIT_ALIGN_COUNT, "each unit has one");
    return exponents[align];
}

/* For how long tokens may be reserved. */
enum {
    LIMIT_TTL_MIN_MS = 1000,
    LIMIT_TTL_MAX_MS = 3600000,
    LIMIT_TTL_DEFAULT_MS = 60000,
};

static inline bool limit_ttl_fits(uint64_t ttl_ms)
{
    return ttl_ms >= LIMIT_TTL_MIN_MS && ttl_ms <= LIMIT_TTL_MAX_MS;
}

/* Sub-windows of one window of sliding_buckets. */
enum { LIMIT_BUCKETS_MIN = 2, LIMIT_BUCKETS_MAX = 240, LIMIT_BUCKETS_DEFAULT = 60 };

/* 0, or TG_EINVALID with a sentence in `error` (QUANTITY_ERROR_LEN bytes of quantity.h) that names
 * the offending field and what was expected: ranges above, known algorithm, burst only with
 * the two buckets and refilled within LIMIT_REFILL_MAX_NS, sub-windows only with sliding_buckets,
 * an align only with fixed_window, count <= LIMIT_LOG_COUNT_MAX for sliding_log, count/window <=
 * LIMIT_RATE_MAX, all of that with what a soft limit may be exceeded by as well; weight, ceiling
 * and class of an elastic one in their ranges. */
MUST_USE int limit_validate(const struct limit *limit, char *error);

/* The limit up to which a soft one allows: count and burst are floor(x * (100 + exceed) / 100), and
 * exceed_percent 0. A hard limit gives itself. */
struct limit limit_effective(const struct limit *limit);

/* Whether the algorithm has a capacity apart from its count. */
static inline bool limit_has_burst(unsigned algorithm)
{
    return algorithm == ALGORITHM_TOKEN_BUCKET || algorithm == ALGORITHM_LEAKY_BUCKET;
}

/* The capacity a user sees as "limit": burst (or count) for the buckets, else count. */
static inline uint64_t limit_capacity(const struct limit *limit)
{
    return limit->burst != 0 && limit_has_burst(limit->algorithm) ? limit->burst : limit->count;
}

#endif
