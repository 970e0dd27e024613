/* merge.h - what a shard keeps in order to merge after a split; merge.c tells how.
 *
 * Part of the private state of a shard (shard_state.h).
 */
#ifndef NODE_CLUSTER_RECONCILE_MERGE_H
#define NODE_CLUSTER_RECONCILE_MERGE_H

#include "node/cluster/model/guard.h"
#include "node/cluster/reconcile/side_table.h"
#include "node/cluster/wire/peer_wire.h"

enum {
    MERGE_SIDE_SHARE = 16, /* the side table may take 1/16 of the slot table's memory */
    MERGE_SIDE_MIN = 64 << 10,
    MERGE_WAITS_MAX = 4096, /* slots that are fetched from disk to be merged */
    MERGE_LOADS_MAX = 64,   /* of those, asked for at a time */
    MERGE_REFUSALS_MAX = 16,
    MERGE_ENDS_MAX = 4,    /* branches of one vnode that are known to have ended */
    MERGE_REFUSED_MAX = 8, /* and of which something was not taken */
};

/* What the frame at hand has said so far; valid within one event. */
struct merge_frame {
    bool guard_set;
    uint32_t guard_vnode;
    struct guard guard;
    bool side_set;
    struct peer_side side; /* of the SLOT or DIVERGED that comes next */
    bool taking;           /* the DIVERGED records of `apart` are taken */
    bool nothing;          /* but there is nothing to merge: the state is on our line */
    uint16_t from;         /* who says `apart` */
    struct peer_apart apart;
};

/* Bytes somewhere, or none. */
struct bytes_view {
    const uint8_t *data;
    size_t len;
};

struct merge_wait {
    uint32_t vnode;
    struct hash128 id;
    int64_t asked_ns; /* 0: not yet */
    bool bare;        /* the side table had no room: it is only read, to be merged next time */
};

struct merge {
    struct side_table side;
    uint32_t guarded; /* vnodes with a guard */
    struct merge_frame frame;
    struct merge_wait waits[MERGE_WAITS_MAX];
    uint32_t wait_count;
    uint8_t base[SIDE_ENTRY_BYTES_MAX];
    uint8_t other[SIDE_ENTRY_BYTES_MAX];
};

/* A sending that was ended. */
struct merge_end {
    uint16_t from;
    bool told;           /* MERGED was said */
    uint32_t sync;       /* 0: none */
    uint64_t line;       /* names the term of the branch */
    uint64_t branch_seq; /* and how far it goes */
    uint64_t seq;        /* up to which replicas must hold it before it counts as merged */
    int64_t ended_ns;    /* when it was ended first, and last */
    int64_t again_ns;
};

/* The newest sending of a peer of which something was not taken. */
struct merge_refused {
    uint16_t from;
    uint32_t sync; /* 0: none */
};

/* Of one vnode. */
struct merge_vnode {
    uint16_t heir;  /* to whom a branch goes that is handed over, PEER_NONE: there is none */
    bool begun;     /* that is being sent */
    bool deposed;   /* decided until another term was seen: may have a branch though no replica */
    bool side_lost; /* of the copy that arrives, some of what is remembered found no room */
    struct guard guard;
    int64_t guard_ns; /* of the newest cut */
    int64_t heir_ns;
    /* taking one over */
    struct merge_end ends[MERGE_ENDS_MAX];
    struct merge_refused refused[MERGE_REFUSED_MAX];
    uint8_t refused_next; /* the one that is written over */
    uint32_t refusals;    /* sendings in a row that met a full side table */
};

struct shard;

/* What of a branch's state of a slot is in ours already. */
enum merge_previous {
    MERGE_KNOWN,      /* the bytes found */
    MERGE_IS_PRESENT, /* our present state of the slot: it did not change since */
    MERGE_IS_ALL,     /* all of it: nothing is new */
    MERGE_LOST        /* not known any more */
};

/* merge_previous.c: finds it for the branch of the frame at hand. `entry` of our side table may be
 * SIDE_NONE. The bytes live in the frame or in merge.base. */
enum merge_previous merge_find_previous(struct shard *shard, uint32_t vnode, uint32_t entry,
                                        struct bytes_view *found);
/* Notes what else came with the branch that was merged, `state` being its state. */
void merge_absorb(struct shard *shard, uint32_t vnode, uint32_t entry, struct bytes_view state);
/* A short name of a term. */
uint64_t merge_line(const struct term *term);
/* The name of merges in the vnode's present term (struct side_blob). */
uint32_t merge_event(const struct shard *shard, uint32_t vnode);

#endif
