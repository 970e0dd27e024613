/* vnodes.c - what the table of vnodes says: which are this shard's, who is listed for each, who is
 * preferred, and which a tick has to look at. Only the list of those changes here.
 */
#include "node/cluster/partition/vnodes.h"
#include "base/assert.h"
#include "node/cluster/partition/majority.h"

bool vnodes_mine(const struct shard *shard, uint32_t number)
{
    return vnodes_ring(shard, number) % shard->options.shards == shard->options.shard;
}

uint8_t vnodes_disk_mask(const struct shard *shard)
{
    return shard->options.ephemeral ? 0 : TABLE_TARGET_BIT(TABLE_DISK);
}

/* What records about a vnode of the second plane say of its term: enum peer_vnode_flag. */
static uint8_t quorum_flags(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const bool follows = vnode->role == ROLE_REPLICA && vnode->hint != PEER_NONE &&
                         quorum_of(shard, number)->lost_ns == 0;
    return vnodes_leads(vnode->role) || follows ? ENTRY_OPEN : 0;
}

struct peer_vnode vnodes_entry(const struct shard *shard, uint32_t number)
{
    ASSERT(number < shard->vnode_end);
    const struct vnode *vnode = &shard->vnodes[number];
    const struct peer_vnode entry = {
        .vnode = number,
        .role = vnode->role,
        .term = vnode->term,
        .state = vnode->state,
        .seq = table_vnode_seq(shard->table, number),
        .holds_newer = vnode->holds_newer,
        .flags = vnodes_quorum(shard, number) ? quorum_flags(shard, number) : 0,
    };
    return entry;
}

uint8_t vnodes_link_mask(const struct shard *shard, const struct vnode *vnode)
{
    uint8_t mask = vnodes_disk_mask(shard);
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].node != 0)
            mask |= TABLE_TARGET_BIT(i + 1);
    return mask;
}

bool vnodes_self_at(const struct shard *shard, const struct vnode *vnode, uint32_t place)
{
    ASSERT(place < vnode->id_count); /* PARTITION-3 */
    return vnode->ids[place] == shard->options.node_id;
}

/* VNODES-9: whether the replica at `place` of the set leaves deciding to others. */
static bool has_yielded(const struct vnode *vnode, uint32_t place)
{
    for (uint32_t i = 0; vnode->yielded != 0 && i < vnode->link_count; i++)
        if ((vnode->yielded & 1u << i) != 0 && vnode->links[i].node == vnode->ids[place])
            return true;
    return false;
}

bool vnodes_first_alive(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        if (vnodes_self_at(shard, vnode, i))
            return true;
        if (!has_yielded(vnode, i) && !peers_silent_node(shard, vnode->ids[i], number))
            return false;
    }
    return false;
}

bool vnodes_bound(const struct shard *shard, uint32_t number, uint16_t at)
{
    const struct vnode *vnode = &shard->vnodes[number];
    return vnode->role == ROLE_REPLICA && vnode->hint != PEER_NONE && vnode->hint != at &&
           !peers_silent(shard, vnode->hint);
}

struct term vnodes_term_above(const struct shard *shard, const struct term *term)
{
    ASSERT(shard->view != NULL); /* else no epoch is known: VNODES-4 */
    return term_above(term, shard->view->epoch, shard->options.node_id,
                      shard->options.incarnation); /* VNODES-4 */
}

int vnodes_link_to(const struct vnode *vnode, uint64_t node)
{
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].node == node)
            return (int)i;
    return -1;
}

int vnodes_successor(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->rank == 0 && !shard->resigning)
        return -1; /* nobody is preferred to this node */
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        if (vnodes_self_at(shard, vnode, i)) {
            if (!shard->resigning)
                return -1;
            continue;
        }
        const int link = vnodes_link_to(vnode, vnode->ids[i]);
        const uint16_t at = link < 0 ? PEER_NONE : vnode->links[link].peer;
        if (at != PEER_NONE && !peers_gone(shard, at) && !shard->peers[at]->resigning)
            return link;
    }
    return -1;
}

/* ---- the active set ------------------------------------------------------------------------- */

bool vnodes_lacks(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    return !vnode->copy_complete ||
           (vnode->has_stale_slots && !vnode->in_copy && table_copy_settled(shard->table, number));
}

bool vnodes_given_up(const struct shard *shard, uint64_t node)
{
    const struct view_member *member = view_find(shard->view, node);
    return member == NULL || member->state == VIEW_DEAD || member->state == VIEW_LEFT;
}

void vnodes_mark_active(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->is_active || !vnodes_mine(shard, number))
        return;
    ASSERT(shard->active_vnodes.count < shard->vnode_end); /* PARTITION-1 */
    vnode->is_active = true;
    shard->active_vnodes.list[shard->active_vnodes.count++] = number;
}

void vnodes_mark_all_active(struct shard *shard)
{
    for (uint32_t number = vnodes_first(shard); number < shard->vnode_end;
         number = vnodes_next(shard, number))
        vnodes_mark_active(shard, number);
}
