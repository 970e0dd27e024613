/* busiest.h - which rules answer most, of one shard: a sketch that a check costs some nanoseconds.
 *
 *   check --busiest_count--> a second's counts, BUSIEST_TRACKED rules --second over--> the last
 * ones
 *
 * Space-saving (Metwally and others): a rule that has no place takes that of the one with the
 * fewest, with its count, so that whoever answers more than one in BUSIEST_TRACKED checks is never
 * missed, and none is told too few. Rules are known by their rank, of the policy with that digest.
 *
 * Pure; zeroed to begin with. Small enough to be copied with counters.
 */
#ifndef NODE_CLUSTER_MODEL_BUSIEST_H
#define NODE_CLUSTER_MODEL_BUSIEST_H

#include <stdbool.h>
#include <stdint.h>

enum { BUSIEST_TRACKED = 16 };

/* What is counted: all answers; those that deny, or allow what leaves less than a fifth. */
enum busiest_kind { BUSIEST_ALL, BUSIEST_PRESSED, BUSIEST_KINDS };

struct busiest_counts {
    uint16_t ranks[BUSIEST_TRACKED];
    uint16_t count;
    uint16_t next;  /* where the search for the fewest goes on: none before it has so few */
    uint32_t floor; /* nobody has fewer checks, once all places are taken */
    uint32_t checks[BUSIEST_TRACKED];
    uint32_t denied[BUSIEST_TRACKED];
};

struct busiest {
    uint64_t digest;  /* of the policy */
    int64_t begun_ns; /* when the second of `now` began; 0: not yet */
    int64_t ended_ns; /* and when that of `last` ended, */
    int64_t span_ns;  /* which was so long; 0: there is none */
    struct busiest_counts now;
    struct busiest_counts last;
};

/* Counts an answer by the rule of that rank, at `now_ns`. */
void busiest_count(struct busiest *busiest, uint64_t digest, uint16_t rank, bool denied,
                   int64_t now_ns);

#endif
