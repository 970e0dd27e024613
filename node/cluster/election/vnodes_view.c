/* vnodes_view.c - replica sets follow the ring configuration.
 *
 * A vnode's replica set lists the replicas of the newest configuration in the order of preference,
 * then those of the one before while a transition is under way (VIEW-2). A node that is
 * listed and holds nothing recovers; one that is not listed any more drops what it holds. Dropping
 * takes a while; one that is listed again meanwhile recovers when it is done, for what it received
 * before would be dropped with the rest.
 *
 * A link keeps its place while its replica stays one, whatever the order of preference becomes: the
 * table's dirty bits name places, so a link that moved would have to be sent everything again.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/vnodes.h"

static bool same_ids(const struct vnode *vnode, const uint64_t *ids, uint32_t count)
{
    return vnode->id_count == count && memcmp(vnode->ids, ids, count * sizeof *ids) == 0;
}

/* Empties the places of nodes that are no replicas any more. */
static void vacate(struct vnode *vnode)
{
    for (uint32_t link = 0; link < vnode->link_count; link++) {
        uint32_t place = 0;
        while (place < vnode->id_count && vnode->ids[place] != vnode->links[link].node)
            place++;
        if (place == vnode->id_count)
            vnode->links[link] = (struct replica_link){.peer = PEER_NONE};
    }
}

/* Gives `node` a place if it has none, and its peer. A bit for the link if that changed anything,
 * or nothing if there is no place: a vnode that this node holds no longer has one replica more. */
static uint8_t give_place(struct shard *shard, uint32_t number, uint64_t node)
{
    ASSERT(node != shard->options.node_id); /* PARTITION-4 */
    struct vnode *vnode = &shard->vnodes[number];
    const uint16_t at = peers_for(shard, node, number);
    int link = vnodes_link_to(vnode, node);
    if (link < 0)
        link = vnodes_link_to(vnode, 0);
    if (link < 0 && vnode->link_count == SHARD_REPLICAS_OTHER)
        return 0;
    if (link < 0)
        link = vnode->link_count++;
    else if (vnode->links[link].node == node && vnode->links[link].peer == at)
        return 0;
    ASSERT(link < vnode->link_count && vnode->link_count <= SHARD_REPLICAS_OTHER);
    vnode->links[link] = (struct replica_link){.node = node, .peer = at};
    return (uint8_t)(1u << link);
}

/* Makes the links those to the other replicas; bits for links that changed their peer. */
static uint8_t set_replicas(struct shard *shard, uint32_t number, const uint64_t *ids,
                            uint32_t count)
{
    ASSERT(count <= VIEW_REPLICAS_MAX); /* VIEW-3 */
    struct vnode *vnode = &shard->vnodes[number];
    uint8_t changed = 0;
    vnode->id_count = (uint8_t)count;
    vnode->rank = UINT8_MAX;
    memcpy(vnode->ids, ids, count * sizeof *ids);
    vacate(vnode);
    for (uint32_t i = 0; i < count; i++) {
        if (vnodes_self_at(shard, vnode, i))
            vnode->rank = (uint8_t)i;
        else
            changed |= give_place(shard, number, ids[i]);
    }
    while (vnode->link_count > 0 && vnode->links[vnode->link_count - 1].node == 0)
        vnode->link_count--;
    return changed;
}

void vnodes_drop(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->role != ROLE_ABSENT && vnodes_mine(shard, number));
    if (vnodes_quorum(shard, number))
        quorum_dropped(shard, number);
    else
        merge_forget(shard, number);
    vnodes_set_role(shard, vnode, ROLE_ABSENT);
    memset(&vnode->state, 0, sizeof vnode->state);
    reconcile_stop(shard, number);
    vnode->merge.deposed = false;
    vnode->marked = false;
    vnode->snapshot_to = PEER_NONE;
    vnode->copy_complete = false;
    vnode->in_from = PEER_NONE;
    vnode->header_due = false;
    table_set_targets(shard->table, number, 0);
    table_set_vnode_seq(shard->table, number, 0);
    table_remove_vnode(shard->table, number);
    vnode->drop_due = !shard->options.ephemeral;
}

bool vnodes_kept(const struct shard *shard, uint32_t number)
{
    return vnodes_quorum(shard, number) && !quorum_up_to_date(shard, number);
}

bool vnodes_may_return(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    return vnode->role == ROLE_ABSENT && vnode->rank != UINT8_MAX && !vnode->drop_due &&
           !table_vnode_removing(shard->table, number);
}

static void follow_one(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    uint64_t ids[VIEW_REPLICAS_MAX];
    const uint32_t count = view_replica_set(shard->view, vnodes_ring(shard, number), ids);
    if (!term_is_none(&vnode->term) && vnode->term.writer != shard->options.node_id)
        vnode->hint = peers_for(shard, vnode->term.writer, number);
    const bool same = same_ids(vnode, ids, count);
    const uint8_t changed = set_replicas(shard, number, ids, count);
    if (vnode->merge.begun && vnode->links[0].sync == 0)
        reconcile_again(shard, number); /* the place that it is sent from belongs to a newcomer */
    if (vnode->snapshot_to != PEER_NONE && vnode->links[0].sync == 0)
        stream_restart_link(shard, number, 0); /* so does that of a state that is pulled */
    if (!vnodes_mine(shard, number) || (same && changed == 0))
        return; /* a replica that is no member is dropped by its tick */
    const bool member = vnode->rank != UINT8_MAX;
    if (vnode->role == ROLE_LEADING || vnode->role == ROLE_TRANSFERRING) {
        table_set_targets(shard->table, number, vnodes_link_mask(shard, vnode));
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if ((changed & 1u << i) != 0)
                stream_restart_link(shard, number, i);
    } else if (member && (vnode->role == ROLE_RECOVERING || vnodes_may_return(shard, number))) {
        vnodes_recover(shard, number, true, effects);
    } else if (!member && vnode->role != ROLE_ABSENT && !vnode->merge.deposed) {
        if (vnodes_kept(shard, number))
            vnodes_become_replica(shard, number);
        else
            vnodes_drop(shard, number);
    }
}

void vnodes_follow_view(struct shard *shard, struct effects *effects)
{
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        if (vnodes_mine(shard, number) && shard->vnodes[number].arrived)
            shard->unarrived++;
        shard->vnodes[number].arrived = false;
        follow_one(shard, number, effects);
    }
    vnodes_mark_all_active(shard);
}

void vnodes_use_quorum(struct shard *shard, struct effects *effects)
{
    shard->quorum.wanted = false;
    if (shard->vnode_end > shard->options.vnodes)
        return;
    ASSERT(shard->vnode_end == shard->options.vnodes);
    const uint32_t first = shard->options.vnodes;
    shard->vnode_end = 2 * first;
    for (uint32_t number = first; number < shard->vnode_end; number++) {
        if (vnodes_mine(shard, number)) {
            shard->quorum.roles[ROLE_ABSENT]++;
            shard->unarrived++;
            vnodes_mark_active(shard, number);
            table_set_targets(shard->table, number, vnodes_disk_mask(shard));
        }
        follow_one(shard, number, effects);
    }
}
