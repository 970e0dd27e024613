/* busiest.c - see busiest.h. */
#include "node/cluster/model/busiest.h"

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

/* The place of the one with the fewest. Who takes it has one more, so the others that are as few
 * come next, and all are looked at once a round. */
static uint32_t fewest(struct busiest_counts *counts)
{
    for (; counts->next < BUSIEST_TRACKED; counts->next++)
        if (counts->checks[counts->next] <= counts->floor)
            return counts->next++;
    uint32_t at = 0;
    for (uint32_t i = 1; i < BUSIEST_TRACKED; i++)
        if (counts->checks[i] < counts->checks[at])
            at = i;
    counts->floor = counts->checks[at];
    counts->next = (uint16_t)(at + 1);
    return at;
}

/* The place of the rule: its own, a free one, or that of the one with the fewest. */
static uint32_t place_of(struct busiest_counts *counts, uint16_t rank)
{
    uint32_t at;
    for (at = 0; at < counts->count; at++)
        if (counts->ranks[at] == rank)
            return at;
    at = counts->count < BUSIEST_TRACKED ? counts->count++ : fewest(counts);
    counts->ranks[at] = rank;
    counts->denied[at] = 0; /* those were another rule's */
    return at;
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
