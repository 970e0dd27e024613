/* suggest.h - the smallest limit that would have denied at most a given share of the callers.
 *
 * While a log is replayed, each decision's key, time and cost are written down. Afterwards each
 * limit is tried alone, with other counts, on the events of each key, by the shipped engine: the
 * count is found by halving, for who is denied under a limit is denied under any smaller one.
 *
 *   events, in order of time --sorted--> rule | key | time   --try a count--> keys denied
 *
 * What a burst is to its count it stays: a limit of 100/min with a burst of 20 is tried as 50/min
 * with a burst of 10. Other limits on the same requests are left out of account.
 *
 * Pure; one block of memory at init, two more while suggestions are worked out.
 */
#ifndef CLIENT_REPLAY_SUGGEST_H
#define CLIENT_REPLAY_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/limit.h"
#include "node/policy/model/calendar.h"

enum { SUGGEST_EVENTS_MAX = 8 * 1024 * 1024 };
#define SUGGEST_PPM UINT64_C(1000000)

struct suggest_event {
    int64_t now_ns;
    uint64_t key; /* a hash of it, among those of the rule */
    uint32_t rule;
    uint32_t cost;
};

struct suggest {
    const struct allocator *allocator;
    struct suggest_event *events;
    uint32_t max;
    uint32_t count;
    bool cut;    /* there were more events than fit; those behind are not known of */
    bool sorted; /* by rule, key and time */
};

struct suggestion {
    uint64_t count;  /* 0: none of the counts that are possible would do */
    uint64_t burst;  /* 0 where the limit has none */
    uint64_t denied; /* keys that it would have denied */
    uint64_t keys;
};

/* Room for `max` events. 0 or TG_ENOMEM. */
MUST_USE int suggest_init(struct suggest *suggest, const struct allocator *allocator, uint32_t max);
void suggest_fini(struct suggest *suggest);

/* Writes an event down; times do not fall. Costs above UINT32_MAX count as that. */
void suggest_add(struct suggest *suggest, uint32_t rule, uint64_t key, int64_t now_ns,
                 uint64_t cost);

/* The smallest count of `limit` that denies at most `ppm` millionths of the rule's keys; `zone` is
 * that of a calendar limit, else NULL. 0 or TG_ENOMEM. No events may be added any more. */
MUST_USE int suggest_find(struct suggest *suggest, uint32_t rule, const struct limit *limit,
                          const struct calendar_zone *zone, uint64_t ppm, struct suggestion *out);

#endif
