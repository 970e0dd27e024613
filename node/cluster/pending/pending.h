/* pending.h - the pool of checks that wait: what each waits for, its ticket and its deadline.
 *
 * request/route_pending.c moves them on; ROUTEPENDING-1, ROUTEPENDING-2 and ROUTEPENDING-5 are
 * there.
 */
#ifndef NODE_CLUSTER_PENDING_PENDING_H
#define NODE_CLUSTER_PENDING_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/policy/model/policy.h"

struct shard;

enum { SHARD_LOADS_MAX = 1024 };

enum pending_status {
    PENDING_PARKED,
    PENDING_DECIDING,
    PENDING_WAITING,
    PENDING_LOADING,
    PENDING_COMMITTING,
    PENDING_LEASE_REPLICATION, /* for replicas, to know a lease: lessor.c */
    PENDING_REMOTE,            /* for another region: remote_regions.c */
    PENDING_DONE
};

/* One rule's limits on one key, of one item; lives while it cannot be decided at once. */
struct pending_check {
    uint8_t status;
    bool from_peer;
    bool undo;        /* gives back what a denied request was granted here */
    bool at_fallback; /* was sent to a fallback leader last; fallback.c */
    bool remote;      /* another region asks */
    bool fell_back;   /* is decided here by a share, for its home is out of reach (REMOTE-4) */
    uint8_t loading;  /* LOADING: the limit whose slot is fetched */
    uint16_t peer;    /* WAITING: whom it was sent to */
    uint16_t item;
    uint16_t cache;      /* whose it is, + 1, or LEASE_CACHE_RETURN; 0: none's */
    uint16_t stands;     /* how often it has changed between its leader and a fallback leader */
    uint32_t generation; /* tells a late answer from the one waited for */
    uint32_t active_at;
    uint32_t request;     /* of a client's message */
    uint32_t next_load;   /* the next check that waits for the same slot */
    uint32_t sibling;     /* the next check of the same item, POOL_NONE at the end */
    uint8_t loaded;       /* limits for which the disk was asked, a bit each */
    uint8_t sends;        /* how many copies of it there may be elsewhere: 0, 1, 2 or more */
    uint64_t commit_seq;  /* COMMITTING: its answer leaves when this is committed */
    uint32_t commit_next; /* the next and the last one of the vnode that wait so */
    uint32_t commit_last;
    uint16_t origin_peer; /* of a peer's forward; or the shard in another region of the node that
                             asked */
    uint64_t origin_node; /* in another region */
    uint64_t origin_ticket;
    int64_t wan_ns; /* waits for tokens of another region until then; 0: not */
    int64_t sent_ns;
    int64_t retry_ns;
    int64_t deadline_ns;
    const struct policy_rule *rule; /* NULL: inline */
    struct forward forward;
    struct answer answer;
};

struct load {
    uint32_t vnode;
    struct hash128 id;
    uint32_t first_pending;
};

/* What is fetched from disk (route_pending.c). */
struct loads {
    struct load list[SHARD_LOADS_MAX];
    uint32_t count;
};

struct pending_check *pending_at(const struct shard *shard, uint32_t index);
/* The name of the attempt that the check belongs to, for the retry memory. */
uint16_t pending_attempt(const struct shard *shard, uint32_t index);
/* Its ticket; the check of one, and of one that still waits for that region, or POOL_NONE. */
uint64_t pending_ticket(const struct shard *shard, uint32_t index);
uint32_t pending_find(const struct shard *shard, uint64_t ticket);
uint32_t pending_remote(const struct shard *shard, uint64_t ticket, uint64_t region);
/* Lets it wait for a moment, and be dispatched again. */
void pending_park(struct shard *shard, uint32_t index);
/* A new check in `active`, POOL_NONE when there is no room. */
uint32_t pending_new(struct shard *shard, const struct forward *forward, int64_t deadline_ns);
void pending_free(struct shard *shard, uint32_t index);
/* The check of a ticket that is in that status, POOL_NONE for any other (ROUTEPENDING-1). */
uint32_t pending_in(const struct shard *shard, uint64_t ticket, enum pending_status status);
/* Parks a check: it is dispatched again after a moment. */
void pending_rest(struct shard *shard, struct pending_check *check);
/* Asserts what pending_check.c says of all checks that wait. */
void pending_check_invariants(const struct shard *shard);

#endif
