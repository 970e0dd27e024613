/* lineage.h - which histories a vnode's state descends from, while others may exist.
 *
 * The state of a vnode is a line of terms. Where a term begins the line is *cut*: what it goes on
 * from is (term, sequence), and anything that was done in the old term beyond that sequence, or in
 * another term that goes on from it on the far side of a split, is a branch.
 *
 *      T1 --------+---------------------> T1, seq s > a       a branch: merged when it is seen
 *                 | cut (T1, a)
 *                 +---- T2 ------+------> T2, seq s > b       another
 *                                | cut (T2, b)
 *                                +---- T3                     our line: cuts (T2, b), (T1, a)
 *
 * A guard is the list of the cuts of one's own line, the newest first, and it travels with the
 * state: whoever takes over goes on guarding.
 *
 * LINEAGE-1  A state (term, seq) is on our line if its term is none, or is cut at or after seq, or
 *            is older than our oldest cut. Everything else is apart. (Whoever opened a term that we
 *            do not know knew of a term of our line, or was cut off before the oldest cut: that was
 *            settled.) Who has only what its disk told is blind: of cuts before that it knows
 *            nothing, so any term which it cannot place is apart.
 *
 * Pure.
 */
#ifndef NODE_CLUSTER_MODEL_LINEAGE_H
#define NODE_CLUSTER_MODEL_LINEAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/term.h"

enum { LINEAGE_FORKS_MAX = 6 };

struct lineage_fork {
    struct term term;
    uint64_t seq;
};

struct lineage {
    uint8_t count;   /* 0: nothing is guarded */
    bool overflowed; /* what was changed since a cut is not known of every slot */
    bool blind;      /* there may have been older cuts */
    struct lineage_fork cuts[LINEAGE_FORKS_MAX];
};

/* Notes that a new term goes on from (term, seq). A full list loses its second oldest cut: who
 * comes back from there is taken for a branch of the oldest, which counts too much, never too
 * little. */
void lineage_add(struct lineage *lineage, const struct term *term, uint64_t seq);
/* The place of the cut of `term`, or -1. */
int lineage_find(const struct lineage *lineage, const struct term *term);
/* LINEAGE-1: whether a state is not on the line that `guard` describes, which goes on in another
 * term. */
bool lineage_apart(const struct lineage *lineage, const struct term *state, uint64_t seq);
/* Whether all that was done up to (term, seq) is on our line. */
bool lineage_includes(const struct lineage *lineage, const struct term *term, uint64_t seq);

#endif
