/* load_histogram.c - durations in buckets whose width grows with them.
 *
 * A power of two is cut into 32 buckets, so what is told is at most a 32nd too long.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tests/bench/load.h"

static unsigned bucket_of(uint64_t value)
{
    unsigned shift = 0;
    while (value >> shift >= 2u << LOAD_BUCKET_BITS)
        shift++;
    return (shift << LOAD_BUCKET_BITS) + (unsigned)(value >> shift);
}

/* The largest value of a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    const unsigned shift = bucket < 2u << LOAD_BUCKET_BITS ? 0 : (bucket >> LOAD_BUCKET_BITS) - 1;
    return (((uint64_t)bucket - ((uint64_t)shift << LOAD_BUCKET_BITS) + 1) << shift) - 1;
}

void load_histogram_add(struct load_histogram *histogram, int64_t ns, uint64_t count)
{
    histogram->counts[bucket_of(ns > 0 ? (uint64_t)ns : 0)] += count;
    histogram->total += count;
}

double load_histogram_at(const struct load_histogram *histogram, double share)
{
    const double wanted = share * (double)histogram->total;
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < LOAD_BUCKETS; bucket++) {
        seen += histogram->counts[bucket];
        if (seen > 0 && (double)seen >= wanted)
            return (double)bucket_end(bucket) * 1e-3;
    }
    return 0;
}

void load_histogram_print(const struct load_histogram *histogram)
{
    const char *separator = "";
    (void)putchar('[');
    for (unsigned bucket = 0; bucket < LOAD_BUCKETS; bucket++) {
        if (histogram->counts[bucket] == 0)
            continue;
        printf("%s[%.3f,%" PRIu64 "]", separator, (double)bucket_end(bucket) * 1e-3,
               histogram->counts[bucket]);
        separator = ",";
    }
    (void)putchar(']');
}
