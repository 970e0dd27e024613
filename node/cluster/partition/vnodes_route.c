/* vnodes_route.c - where a check of a vnode goes now, and how far its answer can be trusted.
 *
 * To this shard if it decides and its leases hold; to the leader of the newest term known; to the
 * first replica that lives if that one does not. A check that can go nowhere waits.
 */
#include "base/prefetch.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"

uint64_t vnodes_leader(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (!term_is_none(&vnode->term))
        return vnode->term.writer;
    return vnode->id_count > 0 ? vnode->ids[0] : 0;
}

/* The first replica that lives, when the leader does not. */
static enum route route_to_replica(struct shard *shard, uint32_t number, uint16_t *peer)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        if (vnodes_self_at(shard, vnode, i) && vnodes_mine(shard, number))
            return ROUTE_WAIT; /* it is for this shard to take over */
        *peer = peers_for(shard, vnode->ids[i], number);
        if (*peer != PEER_NONE && !peers_silent(shard, *peer))
            return ROUTE_PEER;
    }
    return ROUTE_WAIT;
}

/* In the plane of quorum what cannot go anywhere soon is not kept waiting, and what is decided here
 * needs no leases: it is confirmed by a majority afterwards. */
static enum route route_quorum(struct shard *shard, uint32_t number, uint16_t *peer)
{
    const struct vnode *vnode = &shard->vnodes[number];
    enum route route = ROUTE_WAIT;
    const bool here = vnodes_mine(shard, number) &&
                      (vnode->role == ROLE_LEADING || vnode->role == ROLE_RECOVERING ||
                       vnode->role == ROLE_PASSING);
    if (here) {
        if (vnode->role == ROLE_LEADING && !quorum_of(shard, number)->sealed && skew_stands(shard))
            route = ROUTE_HERE;
    } else {
        *peer = vnode->hint;
        if (!term_is_none(&vnode->term) && *peer != PEER_NONE && !peers_silent(shard, *peer))
            return ROUTE_PEER;
        route = route_to_replica(shard, number, peer);
        if (route == ROUTE_PEER)
            return route;
    }
    return quorum_failing(shard, number) ? ROUTE_NONE : route;
}

void vnodes_prefetch_copy(const struct shard *shard, uint32_t number)
{
    const char *vnode = (const char *)&shard->vnodes[number];
    for (size_t at = 0; at < VNODE_COPY_LEN; at += PREFETCH_LINE)
        prefetch_to_write(vnode + at);
}

enum route vnodes_route(struct shard *shard, uint32_t number, uint16_t *peer)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_quorum(shard, number))
        return route_quorum(shard, number, peer);
    if (vnodes_here(shard, number))
        return ROUTE_HERE;
    if (vnodes_mine(shard, number) &&
        (vnode->role == ROLE_LEADING || vnode->role == ROLE_RECOVERING ||
         vnode->role == ROLE_PASSING))
        return ROUTE_WAIT;
    if (!term_is_none(&vnode->term)) {
        *peer = vnode->hint;
        if (*peer != PEER_NONE && !peers_silent(shard, *peer))
            return ROUTE_PEER;
    }
    return route_to_replica(shard, number, peer);
}
