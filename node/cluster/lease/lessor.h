/* lessor.h - leases of tokens at their leader: which are granted, and when that is told
 * (lessor.c).
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_LEASE_LESSOR_H
#define NODE_CLUSTER_LEASE_LESSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/term.h"
#include "node/cluster/wire/peer_wire.h"

struct answer;
struct effects;
struct peer;
struct shard;

enum {
    LESSOR_MAX = 4096,       /* answers that wait at a time until replicas know them, */
    LESSOR_LEASES_MAX = 256, /* and no lease is granted when there are so many */
};

/* One that waits. */
struct lessor_lease {
    uint32_t part;
    uint64_t seq; /* of the vnode: who holds this knows the lease */
    struct term term;
};

struct lessor {
    uint32_t count;
    bool due;          /* replicas have told something since they were looked at, */
    int64_t looked_ns; /* then */
    struct lessor_lease waiting[LESSOR_MAX];
};

/* Whether the forward asks for a lease of tokens, or for more time of one, or reserves some. */
static inline bool lessor_asks(const struct forward *forward)
{
    return (forward->flags & FORWARD_HOLD) != 0 &&
           (forward->operation == OPERATION_LEASE || forward->operation == OPERATION_RENEW ||
            forward->operation == OPERATION_RESERVE);
}
/* Whether what the check is granted here now is told when a majority knows it, and not before
 * (LESSOR-6).
 */
bool lessor_sure(const struct shard *shard, const struct forward *forward);
/* Whether the peer is of a release that knows what the forward asks for (LESSOR-4, LESSOR-8). */
bool lessor_reads(const struct peer *peer, const struct forward *forward);
/* Whether what the forward asks for is not granted of its vnode now (LESSOR-2 to LESSOR-4,
 * LESSOR-8).
 */
bool lessor_refuses(const struct shard *shard, const struct forward *forward);
/* A lease was granted, or renewed, to the part, or a check that is to be sure: its answer waits for
 * the replicas (LESSOR-1, LESSOR-6). */
void lessor_wait(struct shard *shard, uint32_t part, const struct answer *answer,
                 struct effects *effects);
/* The part waits no more: it is given up. */
void lessor_forget(struct shard *shard, uint32_t part);
/* Answers what a majority knows, and sends on what is not decided here any more. */
void lessor_step(struct shard *shard, struct effects *effects);
/* A term is about to be opened on what is held here (LESSOR-3). */
void lessor_opening(struct shard *shard, uint32_t vnode);
/* Whether none is granted because one may be out that is not known here (LESSOR-3). */
bool lessor_learns(const struct shard *shard, uint32_t vnode);
/* From now on. */
void lessor_learn(struct shard *shard, uint32_t vnode);
/* Asserts what lessor.c says of the answers that wait. */
void lessor_check_invariants(const struct shard *shard);

#endif
