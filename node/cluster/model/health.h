/* health.h - what is wrong with a node, as it tells all others in its member record.
 *
 *   what the node finds     disk full, clock off, ...     up to ten times a second
 *     |  health_step: a trouble is told at once, or when it has lasted; it is taken back
 *     v               when it has been away for 5 s
 *   bits of swim_record.flags, from HEALTH_SHIFT on      one new version of the record a change
 *     |  gossip
 *     v
 *   every node's `status`, `members`: a sentence, what it means, what to do
 *
 * HEALTH-1  A trouble that comes and goes costs two versions of the record in 5 s at most, and
 *           never an incarnation: a record's version is its owner's to count.
 * HEALTH-2  A bit that this release does not know is carried along and shown as nothing. Older
 *           releases carry these bits along and look at none.
 * HEALTH-3  What a stranger writes into another's record in its name is refuted by its owner, as
 *           all of the record is (swim_table.c). Nothing is decided by these bits but what people
 *           are shown.
 * HEALTH-4  What is told has a bit of no trouble but those of this release.
 *
 * Pure: time and troubles come in.
 */
#ifndef NODE_CLUSTER_MODEL_HEALTH_H
#define NODE_CLUSTER_MODEL_HEALTH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of bits: they go over the wire, so they are never used again for something else. */
enum health_trouble {
    HEALTH_DISK_FULL,    /* new keys, or changes of the configuration, find no room */
    HEALTH_DISK_FAILING, /* what is written is refused */
    HEALTH_DISK_NEAR,    /* 80% are used */
    HEALTH_DISK_TIGHT,   /* 95% */
    HEALTH_MEMORY,       /* new keys were turned away lately */
    HEALTH_CLOCK,        /* its clock is off */
    HEALTH_NAME,         /* another living node has its name */
    HEALTH_FROZEN,       /* its ring cannot change: no majority of the voters */
    HEALTH_MAJORITY,     /* keys of consistency quorum without one */
    HEALTH_RULES,        /* it cannot put the newest rules in force */
    HEALTH_RECOVERING,   /* it waits for what its vnodes held */
    HEALTH_INCOMPLETE,   /* it decides vnodes that not every replica holds */
    HEALTH_CROWDED,      /* it has no room for all nodes that it has known */
    HEALTH_STOPPING, /* it was told to stop: a restart is expected. CONTROL_FLAG_STOPS says so */
    HEALTH_TROUBLES
};

enum { HEALTH_SHIFT = 17 }; /* of bits in swim_record.flags */
static_assert((int)HEALTH_SHIFT + (int)HEALTH_TROUBLES <= 32, "all troubles fit into the flags");

#define HEALTH_BIT(trouble) (1u << (trouble))
#define HEALTH_CLEAR_NS     INT64_C(5000000000) /* a trouble is told so long after it ended */

/* How a trouble is told. */
struct health_kind {
    const char *code;       /* for programs */
    const char *short_form; /* for a line about the node */
    const char *says;       /* a sentence, behind the node's name and a blank */
    const char *means;      /* what it leads to */
    const char *advice;
    bool grave;        /* the cluster is not healthy while it lasts */
    bool transferring; /* starts and restarts have it: it is told when it has lasted for a second,
                        * and taken back at once; then for 5 s it is not told again */
};

/* What a node knows of its own troubles; zeroed to begin with. */
struct health {
    uint32_t told;                     /* HEALTH_BITs */
    int64_t since_ns[HEALTH_TROUBLES]; /* when it came, of what is there */
    int64_t last_ns[HEALTH_TROUBLES];  /* when it was last there */
    int64_t back_ns[HEALTH_TROUBLES];  /* when it was taken back last, 0: never */
    uint32_t there;                    /* at the last step */
};

/* Takes what is wrong now. True if `told` has changed. Where time goes back, waits begin anew. */
bool health_step(struct health *health, uint32_t troubles, int64_t now_ns);
/* How a trouble is told. Static storage. */
const struct health_kind *health_kind(enum health_trouble trouble);
/* The troubles that a record's flags tell, as HEALTH_BITs, and those as flags. */
uint32_t health_of_flags(uint32_t flags);
uint32_t health_flags(uint32_t troubles);
/* Those of them with which a cluster is not healthy. */
uint32_t health_grave(uint32_t troubles);

#endif
