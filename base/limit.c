/* limit.c - whether a limit's parameters can be decided upon.
 *
 * Rules and inline requests come from outside, so everything the algorithms rely on is
 * checked here, once, and they may then compute without looking back:
 *
 * LIMITS-1  count, window_ns and the capacity are >= 1 and bounded, so count * window_ns fits 128
 *           bits and a window added to a time of today fits int64_t nanoseconds.
 * LIMITS-2  One event takes at least 1 ns of its window (LIMIT_RATE_MAX), so no algorithm divides
 *           time into pieces of zero length.
 * LIMITS-3  A sliding log keeps one entry an event, so its count is what its memory is bounded by.
 */
#include "base/limit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "base/sat.h"

#define NS_PER_S 1000000000ULL

enum { PERCENT = 100 };

static_assert(LIMIT_RATE_MAX <= NS_PER_S, "one event takes at least 1 ns (LIMITS-2)");
static_assert(LIMIT_WINDOW_MAX_NS < INT64_MAX / 8, "a window fits in an int64_t time (LIMITS-1)");
static_assert(LIMIT_WINDOW_MIN_NS / LIMIT_BUCKETS_MAX > 0, "a sub-window has a length");
static_assert(LIMIT_WINDOW_MIN_NS == 1000000, "the unit of calendar exponents, a ms");
static_assert(LIMIT_WINDOW_MAX_NS < LIMIT_REFILL_MAX_NS, "a bucket as large as its count refills");
static_assert(LIMIT_COUNT_MAX < INT64_MAX, "a count fits in an int64_t");

__attribute__((format(printf, 2, 3))) static int refuse(char *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(error, QUANTITY_ERROR_LEN, format, arguments);
    va_end(arguments);
    return TG_EINVALID;
}

static int validate_window(const struct limit *limit, char *error)
{
    char text[QUANTITY_TEXT_LEN];

    if (limit->window_ns >= LIMIT_WINDOW_MIN_NS && limit->window_ns <= LIMIT_WINDOW_MAX_NS)
        return TG_OK;
    quantity_format_duration(limit->window_ns, text);
    return refuse(error, "window %s: expected 1 ms to 10 years", text);
}

static int validate_burst(const struct limit *limit, char *error)
{
    if (limit->burst != 0 && !limit_has_burst(limit->algorithm))
        return refuse(error,
                      "burst %" PRIu64 ": only token_bucket and leaky_bucket have a burst, not %s",
                      limit->burst, algorithm_name(limit->algorithm));
    if (limit->burst > LIMIT_COUNT_MAX)
        return refuse(error, "burst %" PRIu64 ": expected at most %llu", limit->burst,
                      LIMIT_COUNT_MAX);
    /* burst > refill * count / window, without dividing: inline limits come with every request. */
    if ((unsigned __int128)limit->burst * limit->window_ns >
        (unsigned __int128)LIMIT_REFILL_MAX_NS * limit->count)
        return refuse(error,
                      "burst %" PRIu64 ": takes more than 73 years to refill; expected at most "
                      "%" PRIu64,
                      limit->burst,
                      sat_muldiv(LIMIT_REFILL_MAX_NS, limit->count, limit->window_ns));
    ASSERT(limit->window_ns > 0 && limit->count > 0);
    return TG_OK;
}

static int validate_buckets(const struct limit *limit, char *error)
{
    if (limit->buckets == 0)
        return TG_OK;
    if (limit->algorithm != ALGORITHM_SLIDING_BUCKETS)
        return refuse(error, "buckets %u: only sliding_buckets has them, not %s", limit->buckets,
                      algorithm_name(limit->algorithm));
    if (limit->buckets < LIMIT_BUCKETS_MIN || limit->buckets > LIMIT_BUCKETS_MAX)
        return refuse(error, "buckets %u: expected %d to %d", limit->buckets, LIMIT_BUCKETS_MIN,
                      LIMIT_BUCKETS_MAX);
    return TG_OK;
}

/* A calendar's windows are as long as they are: the count was compared with the unit's length. */
static int validate_align(const struct limit *limit, char *error)
{
    if (limit->align >= LIMIT_ALIGN_COUNT)
        return refuse(error, "align %u: expected a number from 0 to %d", limit->align,
                      LIMIT_ALIGN_COUNT - 1);
    if (limit->align != LIMIT_ALIGN_EPOCH && limit->algorithm != ALGORITHM_FIXED_WINDOW)
        return refuse(error, "align %u: only fixed_window is aligned, not %s", limit->align,
                      algorithm_name(limit->algorithm));
    if (!limit_is_calendar(limit->align)) {
        if (limit->start_ns != 0 || limit->before_s != 0)
            return refuse(error, "start %" PRId64 ": expected it with the calendar only",
                          limit->start_ns);
        return TG_OK;
    }
    const uint64_t longest_ms = UINT64_C(1) << limit_calendar_exponent(limit->align);
    if (limit->start_ns < 0 || limit->start_ns > INT64_MAX / 2 ||
        limit->window_ns > longest_ms * LIMIT_WINDOW_MIN_NS || limit->before_s > longest_ms / 1000)
        return refuse(error, "start %" PRId64 ": expected a window of the calendar",
                      limit->start_ns);
    return TG_OK;
}

/* Whether all but exceed_percent can be decided upon. */
static int validate_hard(const struct limit *limit, char *error)
{
    if (limit->algorithm >= ALGORITHM_COUNT)
        return refuse(error, "algorithm %u: expected a number from 0 to %d", limit->algorithm,
                      ALGORITHM_COUNT - 1);
    if (limit->count < 1 || limit->count > LIMIT_COUNT_MAX)
        return refuse(error, "count %" PRIu64 ": expected 1 to %llu", limit->count,
                      LIMIT_COUNT_MAX);
    int result = validate_window(limit, error);
    if (result != TG_OK)
        return result;
    result = validate_burst(limit, error);
    if (result == TG_OK)
        result = validate_buckets(limit, error);
    if (result == TG_OK)
        result = validate_align(limit, error);
    if (result != TG_OK)
        return result;
    if (limit->algorithm == ALGORITHM_SLIDING_LOG && limit->count > LIMIT_LOG_COUNT_MAX)
        return refuse(error, "count %" PRIu64 ": sliding_log keeps every event, at most %llu",
                      limit->count, LIMIT_LOG_COUNT_MAX);
    if (limit->algorithm == ALGORITHM_CONCURRENCY && limit->count > LIMIT_LEASES_MAX)
        return refuse(error, "count %" PRIu64 ": concurrency keeps every lease, at most %llu",
                      limit->count, LIMIT_LEASES_MAX);
    if (!limit_is_calendar(limit->align) &&
        sat_muldiv_up(limit->count, NS_PER_S, limit->window_ns) > LIMIT_RATE_MAX)
        return refuse(error, "count %" PRIu64 ": more than %llu per second of its window",
                      limit->count, LIMIT_RATE_MAX);
    return TG_OK;
}

static int validate_elastic(const struct limit *limit, char *error)
{
    if (limit->pool == 0)
        return TG_OK;
    if (limit->algorithm == ALGORITHM_CONCURRENCY)
        return refuse(error, "algorithm concurrency: found in mode elastic; expected one that lets "
                             "requests through at a rate");
    if (limit->exceed_percent != 0)
        return refuse(error, "exceed %u%%: found in mode elastic; expected it in mode soft only",
                      limit->exceed_percent);
    if (limit->weight < 1 || limit->weight > LIMIT_WEIGHT_MAX)
        return refuse(error, "weight %u: expected 1 to %d", limit->weight, LIMIT_WEIGHT_MAX);
    if (limit->ceiling_percent != 0 &&
        (limit->ceiling_percent <= PERCENT || limit->ceiling_percent > LIMIT_CEILING_MAX))
        return refuse(error, "ceiling %u%%: expected more than %d%% and at most %d%%",
                      limit->ceiling_percent, PERCENT, LIMIT_CEILING_MAX);
    if (limit->class >= LIMIT_CLASSES)
        return refuse(error, "class %u: expected 0 to %d", limit->class, LIMIT_CLASSES - 1);
    return TG_OK;
}

static uint64_t exceeded(uint64_t amount, unsigned percent)
{
    return sat_muldiv(amount, PERCENT + percent, PERCENT);
}

struct limit limit_effective(const struct limit *limit)
{
    struct limit effective = *limit;

    effective.count = exceeded(limit->count, limit->exceed_percent);
    effective.burst = exceeded(limit->burst, limit->exceed_percent);
    effective.exceed_percent = 0;
    return effective;
}

int limit_validate(const struct limit *limit, char *error)
{
    char sentence[QUANTITY_ERROR_LEN];

    int result = validate_hard(limit, error);
    if (result == TG_OK)
        result = validate_elastic(limit, error);
    if (result != TG_OK || limit->exceed_percent == 0)
        return result;
    if (limit->exceed_percent > LIMIT_EXCEED_MAX)
        return refuse(error, "exceed %u%%: expected at most %d%%", limit->exceed_percent,
                      LIMIT_EXCEED_MAX);
    const struct limit effective = limit_effective(limit);
    if (validate_hard(&effective, sentence) != TG_OK)
        return refuse(error, "exceeded by %u%%: %.100s", limit->exceed_percent, sentence);
    return TG_OK;
}
