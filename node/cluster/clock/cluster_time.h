/* cluster_time.h - which time the members of a ring agree on, and whose clock is off it.
 *
 *   own boot time + offset = own cluster time ---- bounds of the others' to it ----> a median
 *                                                  and their wall clocks              of each
 *
 * A node's cluster time runs evenly (node/runtime/system/clock.h). What a frame says bounds how far
 * the sender's is from it: the sender told its time after our question had left, and before the
 * answer came. However late a frame is, the truth lies within its bounds; so a starved processor
 * makes them wide, and never a skew.
 *
 * CLUSTERTIME-1  A member has one value, and moves nothing alone: what counts is the median of a
 *                majority of the ring, this node included, that was measured SAMPLES times.
 * CLUSTERTIME-2  A node follows the median of the wall clocks of a majority that agrees within
 *                CLUSTER_TIME_REFUSED_NS, never its own wall clock, unless the ring is of it alone.
 * CLUSTERTIME-3  Who is off by 100 ms is told of; by 500 ms of cluster time passes its vnodes on;
 *                by 2 s has no say. A step is left at four fifths of what it is entered at.
 * CLUSTERTIME-4  Where no majority agrees within 2 s nobody is worse than told of, as measured by
 *                this node's own clocks: nobody can say which are right. Wall clocks are measured
 *                by the middle one, if of an odd number there is one.
 * CLUSTERTIME-5  A step is entered by the least difference that the bounds allow, and left by the
 *                most.
 * CLUSTERTIME-6  A verdict is on a process: the next one of the node begins anew.
 * CLUSTERTIME-7  Each member has one place, this node the first. Its bounds are in order and within
 *                what a clock can say.
 *
 * Pure. Must not: read a clock, or allocate after cluster_time_new.
 */
#ifndef NODE_CLUSTER_CLOCK_CLUSTER_TIME_H
#define NODE_CLUSTER_CLOCK_CLUSTER_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define CLUSTER_TIME_ALARM_NS   INT64_C(100000000)
#define CLUSTER_TIME_PASSES_NS  INT64_C(500000000)
#define CLUSTER_TIME_REFUSED_NS INT64_C(2000000000)
/* A member that was not measured for so long has no value. */
#define CLUSTER_TIME_FRESH_NS INT64_C(30000000000)

enum { CLUSTER_TIME_MEMBERS_MAX = 2048 };

enum clock_verdict {
    CLOCK_UNKNOWN, /* not measured often enough */
    CLOCK_FINE,
    CLOCK_ALARM,  /* its wall clock or its cluster time is off */
    CLOCK_PASSES, /* its cluster time: it passes its vnodes on */
    CLOCK_REFUSED /* its cluster time: it has no say in anything */
};

/* A member as measured, all against this node's cluster time. */
struct cluster_time_member {
    uint64_t id;
    uint64_t process; /* the newest that was measured; they rise. 0: it is not known */
    int64_t low_ns;   /* bounds of its cluster time minus ours */
    int64_t high_ns;
    int64_t wall_ns;  /* its wall clock minus its cluster time, as it says */
    int64_t at_ns;    /* when the bounds were measured, by our clock */
    int64_t heard_ns; /* when it was measured last */
    uint32_t samples; /* of these bounds */
    uint32_t odd;     /* samples one after the other that contradict them */
    bool listed;      /* in the ring */
    bool held;        /* its wall clock is too far off for who is not in the ring yet */
    enum clock_verdict verdict;
    int64_t skew_ns;      /* its cluster time minus the majority's, or ours where none agrees */
    int64_t wall_skew_ns; /* its wall clock minus the majority's median, or ours */
    bool ours;            /* skew_ns is against ours, for no majority agrees */
    bool wall_ours;       /* and wall_skew_ns is */
};

struct cluster_time;

MUST_USE int cluster_time_new(const struct allocator *allocator, uint64_t self,
                              struct cluster_time **out);
void cluster_time_free(struct cluster_time **time);

/* What a member told: its cluster time lies between `low_ns` and `high_ns` from ours. */
struct cluster_time_sample {
    uint64_t id;
    uint64_t process; /* of the node; 0: not known */
    int64_t low_ns;
    int64_t high_ns;
    int64_t wall_ns; /* its wall clock minus its cluster time */
    uint32_t count;  /* measures of which these are the narrowest bounds */
};
void cluster_time_heard(struct cluster_time *time, int64_t now_ns,
                        const struct cluster_time_sample *sample);
/* Our own time may have jumped: nothing that was measured by it says anything any more. */
void cluster_time_forget(struct cluster_time *time);
/* Our own wall clock minus our cluster time. */
void cluster_time_wall(struct cluster_time *time, int64_t wall_ns);
/* Judges all by the ring `ids` (ascending). True if a verdict, or what is agreed on, changed. */
bool cluster_time_judge(struct cluster_time *time, int64_t now_ns, const uint64_t *ids,
                        uint32_t count);

/* A member, this node included; NULL: never heard of. */
const struct cluster_time_member *cluster_time_of(const struct cluster_time *time, uint64_t id);
/* Walks all: start with *cursor = 0; NULL at the end. */
const struct cluster_time_member *cluster_time_next(const struct cluster_time *time,
                                                    uint32_t *cursor);
/* Whether a majority of the ring was measured, and agrees within 2 s on the cluster time. */
bool cluster_time_agreed(const struct cluster_time *time);
/* Whether a majority has agreed with the time of this process, and it was not found off since: who
 * starts may believe it (first_time.h). */
bool cluster_time_confirmed(const struct cluster_time *time);
/* Whether a majority was measured and does not agree, on cluster time or on wall clocks
 * (CLUSTERTIME-4). */
bool cluster_time_divided(const struct cluster_time *time);
/* What our cluster time is to be slewed by (CLUSTERTIME-2); 0: it runs on evenly. */
int64_t cluster_time_target_ns(const struct cluster_time *time);

const char *cluster_time_verdict_name(enum clock_verdict verdict);

/* Asserts the above. */
void cluster_time_check_invariants(const struct cluster_time *time);

#endif
