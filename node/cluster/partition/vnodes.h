/* vnodes.h - the table of vnodes: which are this shard's, who decides each, where a check goes.
 *
 * Nothing here changes a vnode; election/ does.
 */
#ifndef NODE_CLUSTER_PARTITION_VNODES_H
#define NODE_CLUSTER_PARTITION_VNODES_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/shard_state.h"

bool vnodes_mine(const struct shard *shard, uint32_t vnode);
/* The vnodes of this shard in both planes that are in use: from vnodes_first on, below vnode_end.
 */
static inline uint32_t vnodes_first(const struct shard *shard)
{
    return shard->options.shard;
}
static inline uint32_t vnodes_next(const struct shard *shard, uint32_t vnode)
{
    const uint32_t plane = shard->options.vnodes;
    const uint32_t next = vnode + shard->options.shards;
    return vnode < plane && next >= plane ? plane + shard->options.shard : next;
}
/* The vnode of the ring that `vnode` is a plane of. */
static inline uint32_t vnodes_ring(const struct shard *shard, uint32_t vnode)
{
    return vnode & (shard->options.vnodes - 1);
}
/* Whether a node of that role leads the vnode, or did until the next leader opens its term. */
static inline bool vnodes_leads(uint8_t role)
{
    return role == ROLE_LEADING || role == ROLE_TRANSFERRING;
}
/* Whether `vnode` is of the plane of quorum. */
static inline bool vnodes_quorum(const struct shard *shard, uint32_t vnode)
{
    return vnode >= shard->options.vnodes;
}
/* A replica stands behind the leader if it has confirmed its copy and there is no evidence that it
 * is gone: what is acknowledged later than that is on nobody's word but this node's. */
static inline bool vnodes_degraded(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_quorum(shard, number))
        return false; /* SHARD-5 */
    uint32_t replicas = 1;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        replicas += vnode->links[i].node != 0;
    const uint32_t majority = replicas / 2 + 1;
    uint32_t holders = 1;
    for (uint32_t i = 0; i < vnode->link_count && holders < majority; i++)
        holders += vnode->links[i].confirmed && vnode->links[i].peer != PEER_NONE &&
                   !peers_silent(shard, vnode->links[i].peer);
    return holders < majority;
}
struct peer_vnode vnodes_entry(const struct shard *shard, uint32_t vnode);
/* VNODES-11: whether this node follows a leader other than `at`, and hears it. */
bool vnodes_bound(const struct shard *shard, uint32_t vnode, uint16_t at);

/* NONE: nobody can decide it, and waiting would not help soon. */
enum route { ROUTE_HERE, ROUTE_PEER, ROUTE_WAIT, ROUTE_NONE };
/* Whether a check of `vnode` is decided here now, in the first plane (SHARD-1; PEERS-3 for every
 * other replica). */
static inline bool vnodes_here(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role != ROLE_LEADING || shard->watch.doubt_ns != 0 || shard->watch.refused)
        return false; /* SHARD-1, SKEW-3 */
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer != PEER_NONE && !peers_lease_holds(shard, vnode->links[i].peer))
            return false;
    return true;
}
/* Where a check of `vnode` is to go now; `*peer` is set for ROUTE_PEER. */
enum route vnodes_route(struct shard *shard, uint32_t vnode, uint16_t *peer);
/* Asks memory for what routing and deciding a check of `vnode` will read and write of it. */
static inline void vnodes_prefetch(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    prefetch(&vnode->role);
    prefetch_to_write(&vnode->granted);
    if (shard->peer_count == 0)
        return; /* then it has no links */
    prefetch(&vnode->links[0].peer);
    prefetch(&vnode->links[1].peer);
}
/* The same for what a replica reads and writes of it, and who streams it to one. */
void vnodes_prefetch_copy(const struct shard *shard, uint32_t vnode);
/* The node that decides `vnode` as far as known, 0 if unknown. */
uint64_t vnodes_leader(const struct shard *shard, uint32_t vnode);

/* The table's mask of targets for a vnode that has no receiver but the disk. */
uint8_t vnodes_disk_mask(const struct shard *shard);
/* That of a vnode decided here: the disk and all links. */
uint8_t vnodes_link_mask(const struct shard *shard, const struct vnode *vnode);
/* Whether place `place` of the vnode's replica set is this node's. */
bool vnodes_self_at(const struct shard *shard, const struct vnode *vnode, uint32_t place);
/* The term that this node would open above `term`. */
struct term vnodes_term_above(const struct shard *shard, const struct term *term);
/* VNODES-2: whether no replica of higher rank lives, by this shard's own evidence. */
bool vnodes_first_alive(const struct shard *shard, uint32_t number);
/* The link that should decide instead of this node, or -1. */
int vnodes_successor(const struct shard *shard, uint32_t number);
/* Whether gossip has given the node up. A silence of its shard may be a pause of a moment, and what
 * the configuration wants of it must not be waived for that: the replicas of the old one would drop
 * what they hold. */
bool vnodes_given_up(const struct shard *shard, uint64_t node);
/* The link to `node`, or -1. */
int vnodes_link_to(const struct vnode *vnode, uint64_t node);
/* Whether a replica needs a complete copy: it has none, or one that may have left something over.
 */
bool vnodes_lacks(const struct shard *shard, uint32_t number);
/* The vnode may have something to do at the next tick (VNODES-8). */
void vnodes_mark_active(struct shard *shard, uint32_t vnode);
void vnodes_mark_all_active(struct shard *shard);
/* Asserts what vnodes_check.c says of all vnodes. */
void vnodes_check_invariants(const struct shard *shard);

/* The vnode, of so many, whose leader owns the pool: its id is a hash of its name. */
static inline uint32_t pools_vnode(uint32_t pool, uint32_t vnodes)
{
    return (uint32_t)hash_mix64(pool) & (vnodes - 1);
}

#endif
