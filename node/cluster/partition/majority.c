/* majority.c - majorities of the replicas of a vnode of the second plane: of which sets, and
 * whether they are within reach. Nothing is changed here.
 */
#include "node/cluster/partition/majority.h"
#include "base/assert.h"
#include <string.h>

static void set_of(const struct ring_table *table, uint32_t ring_vnode, struct quorum_set *set)
{
    uint32_t count;
    const uint16_t *list = ring_replicas(table, ring_vnode, &count);
    ASSERT(count <= VIEW_REPLICATION_MAX);
    memset(set, 0, sizeof *set);
    set->count = (uint8_t)count;
    for (uint32_t i = 0; i < count; i++)
        set->ids[i] = ring_member_id(table, list[i]);
}

void quorum_ring_sets(const struct shard *shard, uint32_t number, struct quorum_set *from,
                      struct quorum_set *to)
{
    const uint32_t ring_vnode = vnodes_ring(shard, number);
    set_of(&shard->view->to, ring_vnode, to);
    *from = *to;
    if (!shard->view->stable)
        set_of(&shard->view->from, ring_vnode, from);
}

bool quorum_forced(const struct shard *shard)
{
    return !shard->view->stable && ring_config_epoch_forced(shard->view->epoch);
}

void quorum_view_sets(const struct shard *shard, uint32_t number, struct quorum_set *from,
                      struct quorum_set *to)
{
    quorum_ring_sets(shard, number, from, to);
    if (quorum_forced(shard))
        *from = *to; /* QUORUM-11 */
}

static bool set_majority(const struct shard *shard, uint32_t number, const struct quorum_set *set,
                         uint8_t links, bool self)
{
    const struct vnode *vnode = &shard->vnodes[number];
    uint32_t have = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const int link = vnodes_link_to(vnode, set->ids[i]);
        if (set->ids[i] == shard->options.node_id)
            have += self;
        else
            have += link >= 0 && (links & 1u << link) != 0;
    }
    return have >= set->count / 2 + 1u;
}

bool quorum_majority(const struct shard *shard, uint32_t number, const struct quorum_set *from,
                     const struct quorum_set *to, uint8_t links, bool self)
{
    return set_majority(shard, number, from, links, self) &&
           set_majority(shard, number, to, links, self);
}

static uint8_t living_links(const struct shard *shard, const struct vnode *vnode)
{
    uint8_t links = 0;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer != PEER_NONE && !peers_silent(shard, vnode->links[i].peer))
            links |= (uint8_t)(1u << i);
    return links;
}

uint8_t quorum_prompt_links(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    uint8_t links = living_links(shard, vnode);
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if ((links & 1u << i) != 0 && peers_lag(shard, vnode->links[i].peer))
            links &= (uint8_t) ~(1u << i);
    return links;
}

bool quorum_reachable(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const uint8_t links = living_links(shard, vnode);
    struct quorum_set from;
    struct quorum_set to;
    if (vnodes_leads(vnode->role)) {
        const struct quorum *quorum = quorum_of(shard, number);
        return quorum_majority(shard, number, &quorum->from, &quorum->to, links, true);
    }
    quorum_view_sets(shard, number, &from, &to);
    return quorum_majority(shard, number, &from, &to, links, true);
}

bool quorum_cut_off(const struct shard *shard, const struct quorum *quorum)
{
    return quorum->cut_ns != 0 && shard->now_ns - quorum->cut_ns > shard->options.silence_ns;
}

bool quorum_failing(const struct shard *shard, uint32_t number)
{
    const struct quorum *quorum = quorum_of(shard, number);
    if (shard->vnodes[number].role == ROLE_LEADING)
        return quorum->stalled || quorum_cut_off(shard, quorum);
    if (!quorum_reachable(shard, number))
        return true;
    return shard->vnodes[number].role != ROLE_ABSENT && quorum->lost_ns != 0 &&
           shard->now_ns - quorum->lost_ns > SHARD_QUORUM_TIMEOUT_NS;
}
