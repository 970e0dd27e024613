/* first_time.h - which time a process begins by: what the others answered, and its own wall clock.
 *
 *   questions --> answers: a cluster time that runs, or of one that starts as well a wall clock
 *                   |
 *                   +--> camps: whoever lies within CLUSTER_TIME_REFUSED_NS of one time
 *                   +--> the best camp's median is the first cluster time
 *
 * A vote is of a member of the ring that is stored: of one that runs its cluster time, of one that
 * starts its wall clock, of this node its own wall clock. A node that knows no ring counts whoever
 * answers at the addresses that it was given. An answer is *confirmed* if a majority of its ring
 * agreed with its time while it ran. The best camp:
 *
 *   1. a majority of the ring, one of which runs;
 *   2. the one of most confirmed answers: they outlast a full stop of the others, and wall clocks
 *      that were stepped meanwhile;
 *   3. the one of most votes. If as many are in several: while a member is missing that could tell
 *      who is right, that of most wall clocks, then that of the own one, so that this node adds no
 *      weight to a clock that it has no reason to believe; if nobody is missing, that of one who
 *      runs, and else the one by the median, which all find alike.
 *
 * The wait ends at 1, or when everybody who was asked has answered, or when time is up.
 *
 *   n  who answers, and this node's wall clock            the first time
 *   0  a newcomer, of one address: runs, and it is off    that one's: with it the node has to agree
 *   0  a newcomer, of three addresses: one is off         that of the two
 *   1  (alone)                                            the own wall clock, at once
 *   2  one runs, and the own clock is off                 the other's
 *   2  both start and differ                              the earlier one, for both
 *   3  one runs and is off, one starts, the own is right  the own: two of three wall clocks
 *   3  one runs, confirmed, the own is off, one is away   the one that runs
 *   3  one runs, not confirmed, the own is off, one away  the own; the third decides later
 *   3  two run and agree, the own is off                  theirs, at once
 *   3  one of an older release runs, off; the other right that of the other and the own, at once
 *   3  all start, and all differ                          the median, for all
 *   5  two run and agree, the own is off, two are away    theirs
 *   5  two run and differ, the own is near one, two away  that one and the own
 *
 * FIRSTTIME-1  One vote a member, and one an address: no answer counts twice, and none that lies
 *              outside of what a clock can say.
 * FIRSTTIME-2  What is set is the middle of what an answer allows, or the own wall clock; never
 *              what is only possible.
 * FIRSTTIME-3  What is kept is of others, one a member, and its bounds are in order.
 *
 * Pure. Must not: read a clock, or allocate.
 */
#ifndef NODE_CLUSTER_CLOCK_FIRST_TIME_H
#define NODE_CLUSTER_CLOCK_FIRST_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/config.h"

enum { FIRST_TIME_ANSWERS_MAX = 128 }; /* addresses that are asked */

/* How well an answer must tell the time; others count when time is up. */
#define FIRST_TIME_PROMPT_NS INT64_C(50000000)

/* What somebody answered. */
struct first_time_answer {
    uint64_t id;
    uint32_t place; /* number of the address that was asked, from 0 on */
    bool running;   /* `time_ns` is its cluster time; else its wall clock, it has none either */
    bool confirmed;
    int64_t time_ns;  /* what it told, */
    int64_t wall_ns;  /* its wall clock minus that, */
    int64_t asked_ns; /* when the question left, by the own wall clock, */
    int64_t now_ns;   /* and when the answer came */
};

struct first_time_member {
    uint64_t id;
    uint32_t place;
    bool running;
    bool confirmed;
    int64_t low_ns; /* bounds of its time minus the own wall clock */
    int64_t high_ns;
    int64_t wall_ns; /* its wall clock minus its time */
};

struct first_time {
    uint64_t self;
    uint64_t ring[RING_MEMBERS_MAX]; /* as it was stored, ascending */
    uint32_t ring_count;             /* 0: it is not known */
    uint32_t asked;                  /* addresses */
    bool heard[FIRST_TIME_ANSWERS_MAX];
    uint32_t count;
    struct first_time_member members[FIRST_TIME_ANSWERS_MAX];
};

struct first_time_choice {
    int64_t offset_ns; /* the first cluster time minus the own wall clock */
    bool enough;       /* nothing that may still come would change it */
    bool majority;     /* of the ring */
};

/* `self`: the own id, not 0. */
void first_time_init(struct first_time *first, uint64_t self);
/* The ring that is stored. */
void first_time_ring(struct first_time *first, const struct ring_config *config);
/* Takes an answer; `place` is below `asked`. */
void first_time_heard(struct first_time *first, const struct first_time_answer *answer);
/* What follows; `late`: nobody is waited for any longer, so answers that tell less count as well.
 */
struct first_time_choice first_time_choose(const struct first_time *first, bool late);

/* Asserts the above of what is kept. */
void first_time_check_invariants(const struct first_time *first);

#endif
