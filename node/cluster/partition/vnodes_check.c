/* vnodes_check.c - what always holds of the table of vnodes, looked at as a whole.
 *
 *   roles[] ----counts----> vnode: role, term, ids[] of the replica set, rank
 *   active_vnodes, watermarks ---list--->   \--links[]: the other replicas, each in its place
 *
 * PARTITION-1  A list of vnodes has each once, and exactly those that are marked as being in it.
 * PARTITION-2  The counts of roles, and of vnodes that have not arrived, are those of this shard's
 *              vnodes. A vnode of another shard has no role here.
 * PARTITION-3  A replica set names no node twice, and `rank` is this node's place in it: UINT8_MAX
 *              if it has none.
 * PARTITION-4  The links are the other nodes of the replica set, each in one place, and this node
 *              is none of them. The last place is never vacant.
 * PARTITION-5  What names a peer names one that there is. The peer of a link is of its node.
 * PARTITION-6  A bit for a link is set only where there is such a link.
 * PARTITION-7  Who leads a vnode follows nobody: it has no `hint`, and pulls no state.
 * PARTITION-8  A vnode that is passed on goes to a link's peer; one that recovers pulls the best
 *              state of somebody, or none.
 *
 * Changes nothing, and takes time in proportion to the vnodes: for tests and the simulator.
 */
#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"

static bool names_peer(const struct shard *shard, uint16_t at)
{
    return at == PEER_NONE || at < shard->peer_count;
}

static void check_list(const struct shard *shard, const struct vnode_list *list, bool active)
{
    uint32_t marked = 0;
    INVARIANT("PARTITION-1", list->count <= shard->vnode_end);
    for (uint32_t number = 0; number < 2 * shard->options.vnodes; number++)
        marked += active ? shard->vnodes[number].is_active : shard->vnodes[number].watermark_listed;
    INVARIANT("PARTITION-1", marked == list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        INVARIANT("PARTITION-1", list->list[i] < shard->vnode_end);
        const struct vnode *vnode = &shard->vnodes[list->list[i]];
        INVARIANT("PARTITION-1", active ? vnode->is_active : vnode->watermark_listed);
        for (uint32_t k = 0; k < i && shard->vnode_end <= 64; k++)
            INVARIANT("PARTITION-1", list->list[k] != list->list[i]);
    }
}

static void check_counts(const struct shard *shard)
{
    uint32_t roles[2][ROLE_END] = {{0}};
    uint32_t unarrived = 0;
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        const struct vnode *vnode = &shard->vnodes[number];
        INVARIANT("PARTITION-2", vnode->role < ROLE_END);
        if (!vnodes_mine(shard, number)) {
            INVARIANT("PARTITION-2", vnode->role == ROLE_ABSENT);
            continue;
        }
        roles[vnodes_quorum(shard, number)][vnode->role]++;
        unarrived += !vnode->arrived;
    }
    INVARIANT("PARTITION-2", unarrived == shard->unarrived);
    for (uint32_t role = 0; role < ROLE_END; role++) {
        INVARIANT("PARTITION-2", roles[0][role] == shard->roles[role]);
        INVARIANT("PARTITION-2", roles[1][role] == shard->quorum.roles[role]);
    }
}

static void check_set(const struct shard *shard, const struct vnode *vnode)
{
    uint8_t rank = UINT8_MAX;
    INVARIANT("PARTITION-3", vnode->id_count <= VIEW_REPLICAS_MAX);
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        for (uint32_t k = 0; k < i; k++)
            INVARIANT("PARTITION-3", vnode->ids[k] != vnode->ids[i]);
        if (vnodes_self_at(shard, vnode, i))
            rank = (uint8_t)i;
        else if (rank != UINT8_MAX || vnode->link_count < SHARD_REPLICAS_OTHER)
            INVARIANT("PARTITION-4", vnodes_link_to(vnode, vnode->ids[i]) >= 0);
    }
    INVARIANT("PARTITION-3", vnode->rank == rank);
}

static bool is_listed(const struct vnode *vnode, uint64_t node)
{
    for (uint32_t i = 0; i < vnode->id_count; i++)
        if (vnode->ids[i] == node)
            return true;
    return false;
}

static void check_links(const struct shard *shard, const struct vnode *vnode)
{
    INVARIANT("PARTITION-4", vnode->link_count <= SHARD_REPLICAS_OTHER);
    INVARIANT("PARTITION-4",
              vnode->link_count == 0 || vnode->links[vnode->link_count - 1].node != 0);
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const struct replica_link *link = &vnode->links[i];
        INVARIANT("PARTITION-4", link->node != shard->options.node_id);
        INVARIANT("PARTITION-4", link->node == 0 || is_listed(vnode, link->node));
        for (uint32_t k = 0; k < i && link->node != 0; k++)
            INVARIANT("PARTITION-4", vnode->links[k].node != link->node);
        INVARIANT("PARTITION-5", names_peer(shard, link->peer));
        INVARIANT("PARTITION-5",
                  link->peer == PEER_NONE ||
                      (link->node != 0 && shard->peers[link->peer]->node == link->node));
        INVARIANT("PARTITION-5", link->node != 0 || !link->confirmed);
    }
}

static void check_masks(const struct shard *shard, const struct vnode *vnode)
{
    const uint32_t beyond = UINT32_MAX << SHARD_REPLICAS_OTHER;
    const uint32_t all = (uint32_t)vnode->watermarks_due | vnode->reported | vnode->equal |
                         vnode->same_lineage | vnode->follows_live_leader | vnode->yielded;
    INVARIANT("PARTITION-6", (all & beyond) == 0);
    INVARIANT("PARTITION-5", names_peer(shard, vnode->hint));
    INVARIANT("PARTITION-5", names_peer(shard, vnode->best));
    INVARIANT("PARTITION-5", names_peer(shard, vnode->in_from));
    INVARIANT("PARTITION-5", names_peer(shard, vnode->snapshot_to));
    INVARIANT("PARTITION-5", names_peer(shard, vnode->merge.successor));
}

static void check_role(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_leads(vnode->role)) {
        INVARIANT("SHARD-2", vnode->term.writer == shard->options.node_id);
        INVARIANT("SHARD-2", vnodes_mine(shard, number));
        INVARIANT("SHARD-2", term_compare(&vnode->state, &vnode->term) == 0);
        INVARIANT("PARTITION-7", vnode->hint == PEER_NONE);
        INVARIANT("PARTITION-7", vnode->snapshot_to == PEER_NONE && !vnode->catching_up);
    }
    if (vnode->role == ROLE_TRANSFERRING)
        INVARIANT("PARTITION-8", vnode->transfer_to < shard->peer_count);
    if (vnode->catching_up)
        INVARIANT("PARTITION-8", vnode->role == ROLE_RECOVERING && vnode->best != PEER_NONE);
    for (uint32_t i = 0; vnodes_leads(vnode->role) && i < vnode->link_count; i++)
        INVARIANT("STREAM-9", !vnode->links[i].confirmed || vnode->links[i].phase == LINK_LIVE);
    INVARIANT("SHARD-4",
              vnode->role == ROLE_ABSENT || term_compare(&vnode->state, &vnode->term) <= 0);
}

void vnodes_check_invariants(const struct shard *shard)
{
    check_list(shard, &shard->active_vnodes, true);
    check_list(shard, &shard->watermarks, false);
    check_counts(shard);
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        check_set(shard, &shard->vnodes[number]);
        check_links(shard, &shard->vnodes[number]);
        check_masks(shard, &shard->vnodes[number]);
        check_role(shard, number);
    }
}
