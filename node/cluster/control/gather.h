/* gather.h - the figures of all members, gathered at the node that people ask.
 *
 *   somebody looks --control_gather_look--> for 3 s each living member is asked once a second
 *   TELL ------------------------> kept for 3 s, shown in `status`
 *
 * GATHER-1  Nobody is asked but while somebody looks; GATHER_AT_ONCE in one step, so that the
 *           frames of a large cluster do not come at once; at most GATHER_MAX members, in the order
 *           of gossip.
 * GATHER-2  Who asks is answered at a bounded rate where nobody is known at its address (PROOF-6).
 */
#ifndef NODE_CLUSTER_CONTROL_GATHER_H
#define NODE_CLUSTER_CONTROL_GATHER_H

#include "node/cluster/control/figures.h"

enum { GATHER_MAX = 256, GATHER_AT_ONCE = 64 };

struct gather_row {
    uint64_t id;
    int64_t asked_ns; /* 0: not since somebody looked */
    int64_t told_ns;  /* 0: nothing yet */
    struct figures figures;
};

struct gather {
    int64_t since_ns; /* somebody looks, since then, */
    int64_t until_ns; /* until then */
    int64_t round_ns; /* when the round began in which members are asked */
    uint64_t number;  /* of that round */
    uint64_t before;  /* and of the one before */
    size_t cursor;    /* of members that are still to be asked in it */
    bool round;       /* it is under way */
    uint32_t count;
    struct gather_row rows[GATHER_MAX];
};

#endif
