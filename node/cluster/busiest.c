/* busiest.c - see busiest.h. */
#include "node/cluster/busiest.h"

#include <string.h>

#define SECOND_NS INT64_C(1000000000)

static void turn(struct busiest *busiest, uint64_t digest, int64_t now_ns)
{
    const int64_t span_ns = now_ns - busiest->begun_ns;
    const bool same = busiest->digest == digest && busiest->begun_ns != 0 && span_ns > 0;
    busiest->last = busiest->now;
    busiest->span_ns = same ? span_ns : 0;
    busiest->ended_ns = now_ns;
    busiest->begun_ns = now_ns;
    busiest->digest = digest;
    memset(&busiest->now, 0, sizeof busiest->now);
}

/* The place of the rule: its own, a free one, or that of the one with the fewest. */
static uint32_t place_of(struct busiest_counts *counts, uint16_t rank)
{
    uint32_t fewest = 0;
    for (uint32_t i = 0; i < counts->count; i++)
        if (counts->ranks[i] == rank)
            return i;
    if (counts->count < BUSIEST_TRACKED) {
        counts->ranks[counts->count] = rank;
        return counts->count++;
    }
    for (uint32_t i = 1; i < BUSIEST_TRACKED; i++)
        if (counts->checks[i] < counts->checks[fewest])
            fewest = i;
    counts->ranks[fewest] = rank;
    counts->denied[fewest] = 0; /* those were another rule's */
    return fewest;
}

void busiest_count(struct busiest *busiest, uint64_t digest, uint16_t rank, bool denied,
                   int64_t now_ns)
{
    const int64_t span_ns = now_ns - busiest->begun_ns;
    if (busiest->digest != digest || span_ns >= SECOND_NS || span_ns < 0)
        turn(busiest, digest, now_ns);
    struct busiest_counts *counts = &busiest->now;
    const uint32_t at = place_of(counts, rank);
    counts->checks[at]++;
    counts->denied[at] += denied;
}
