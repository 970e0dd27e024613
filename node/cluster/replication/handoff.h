/* handoff.h - what bulk copies may use, and how far they are (handoff.c). */
#ifndef NODE_CLUSTER_REPLICATION_HANDOFF_H
#define NODE_CLUSTER_REPLICATION_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

/* What bulk copies may use, and how far they are; handoff.c. */
struct handoff {
    bool busy;      /* a pass could go on if it were allowed to */
    uint16_t first; /* the peer that is served first next time */
    int64_t tat_ns; /* when all that was sent is paid for, at the rate allowed */
    uint64_t sent;  /* bytes of the bulk channels, since the start */
    uint64_t received;
    uint32_t most;    /* vnodes that were left at most since it was last zero */
    int64_t since_ns; /* when that began */
    uint32_t give;    /* left as last counted */
    uint32_t receive;
    uint64_t counted; /* sent + received when the rate was last measured */
    int64_t counted_ns;
    uint64_t rate; /* bytes a second */
};

#endif
