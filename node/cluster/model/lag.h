/* lag.h - how long something took: a histogram of times, small enough to be copied with counters.
 *
 * Buckets grow with the times, four to a doubling, so a quantile is right to a fifth of itself:
 *
 *     us     0 1 2 3 4 5 6 7 | 8 10 12 14 | 16 20 24 28 | 32 ...        up to half an hour
 *
 * Old times fade: lag_age halves the counts, and drops the maximum that is older than one aging,
 * but never below a time that is still counted. Pure; the caller's memory, zeroed to begin with.
 */
#ifndef NODE_CLUSTER_MODEL_LAG_H
#define NODE_CLUSTER_MODEL_LAG_H

#include <stdint.h>

enum { LAG_BUCKETS = 120 };

struct lag {
    uint32_t counts[LAG_BUCKETS];
    int64_t max_ns;        /* since the last aging */
    int64_t max_before_ns; /* between the last two, or of the older times that are left */
};

void lag_add(struct lag *lag, int64_t ns);
void lag_age(struct lag *lag);
/* Adds the times of `other`. */
void lag_join(struct lag *lag, const struct lag *other);
uint64_t lag_count(const struct lag *lag);
/* A time that `permille` of the times do not exceed, never too short; 0 if there are none. */
int64_t lag_quantile_ns(const struct lag *lag, unsigned permille);
int64_t lag_max_ns(const struct lag *lag);

#endif
