/* peer_forward.h - a check as it is sent to whoever decides it, and the answer.
 */
#ifndef NODE_CLUSTER_WIRE_PEER_FORWARD_H
#define NODE_CLUSTER_WIRE_PEER_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limit.h"
#include "node/cluster/model/lineage.h"
#include "node/cluster/model/merge_base_blob.h"
#include "node/cluster/model/term.h"
#include "node/cluster/wire/peer_kinds.h"
#include "node/limit/engine/elastic.h"

/* A retry is recognised by the caller's session and sequence, the item and the part of it. */
struct retry_key {
    uint64_t session;
    uint64_t seq;
    uint16_t item;
    uint8_t part; /* with RETRY_UNDO: gives back what that part was granted */
};

enum {
    RETRY_UNDO = 0x80,
    RETRY_LOCAL = 0x40,     /* its home is out of reach: REMOTE-4 */
    RETRY_ATTEMPTS_MAX = 4, /* that a memory of answers knows by name */
};

/* The first three are the engine's own (enum limit_flag of node/limit/engine/engine.h). */
enum forward_flags {
    FORWARD_AT_MOST = 1, /* take what there is, up to cost */
    FORWARD_LOADED = 2,  /* the leader asked its disk; in a record: a version of rules follows */
    FORWARD_COUNT_DENIED = 4, /* a denied request consumes as well */
    FORWARD_RETRY = 8,        /* may have been decided before: look into the retry memory */
    FORWARD_FALLBACK = 16,    /* decide in place of those who cannot be reached; fallback.c */
    FORWARD_SEVERAL = 32,     /* one of several parts of a request: it may have to be undone */
    FORWARD_HOLD = 64,        /* about tokens that are held: leases, reservations; lessor.h */
    FORWARD_EXPLAIN = 128,    /* tell the state of every limit as well; explain.h */
};

/* One part of a request: all limits of one rule (or the inline limit) on one key. */
struct forward {
    uint64_t ticket; /* the sender's own reference, given back in the answer */
    struct retry_key retry;
    uint8_t flags;
    uint8_t operation;
    uint8_t limit_count; /* 1 .. PEER_LIMITS_MAX */
    uint16_t class;      /* whose budget of new keys it is of: 0, or 1 + the rule's rank */
    bool sure;           /* what it is granted is told when a majority of the replicas knows it */
    uint16_t attempt; /* of an undo (RETRY_UNDO): the attempt that it is for, as retry.h names it */
    uint32_t vnode;
    uint64_t cost;  /* of an undo: tokens that stay; of what ends or renews a lease or a
                     * reservation: which */
    uint64_t used;  /* HOLD: how many tokens of it were used, as its holder states; of a lease that
                     * another region asks for: how many a second its callers want; of a reserve:
                     * for how many ms; of a cancel: 1 if it undoes what was denied elsewhere */
    uint64_t rules; /* the version of the rules that it is asked by; 0: none, or not known */
    uint64_t home;  /* the region that counts it, by policy_region_id; 0: the one it is in */
    uint32_t wait_ms; /* with a home: how long it may wait for that region, and its client does */
    struct hash128 ids[PEER_LIMITS_MAX];
    struct limit limits[PEER_LIMITS_MAX];
};

#define PEER_LOAD_UNKNOWN UINT32_MAX

enum answer_status {
    ANSWER_DECIDED = 0,
    ANSWER_BUSY = 1,
    ANSWER_UNAVAILABLE = 2,
    ANSWER_STATUS_END
};

/* The decision of one part: the limit that decided it (index into the part's limits). */
struct answer {
    uint8_t status; /* enum answer_status */
    bool allowed;
    bool degraded; /* not confirmed by a majority of the vnode's replicas */
    bool soft;     /* allowed above a limit, which may be exceeded so far */
    bool borrowed; /* allowed above a limit, of what a pool can spare */
    bool held;     /* tokens of the limit are held elsewhere */
    bool full;     /* BUSY: there is no room for the key; `granted` is what was asked for */
    uint8_t limit_index;
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    uint64_t granted;
    int64_t reset_after_ns;
    int64_t retry_after_ns; /* -1: never */
    int64_t delay_ns;       /* HOLD: how long the lease lasts */
};

/* Whether it is about a reservation: its id alone tells what was done before (LEASED-8), so that it
 * is neither remembered nor recalled. */
static inline bool forward_reserves(const struct forward *forward)
{
    return (forward->flags & FORWARD_HOLD) != 0 && forward->operation >= OPERATION_RESERVE;
}

/* One limit as a part met it. */
struct peer_state {
    bool allowed;
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    int64_t reset_after_ns;
    int64_t retry_after_ns; /* -1: never */
};

#endif
