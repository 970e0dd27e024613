/* inspect.c - reading a shard for tests and the simulator; inspect.h is the contract. Pure. */
#include "node/cluster/shard/inspect.h"
#include "node/cluster/partition/vnodes.h"

#include <string.h>

#include "node/cluster/shard_state.h"

uint64_t inspect_seq(const struct shard *shard, uint32_t number)
{
    return table_vnode_seq(shard->table, number);
}

uint32_t inspect_differs(const struct shard *shard, uint32_t from, uint32_t step, uint32_t end,
                         const struct inspect_brief *known)
{
    for (; from < end; from += step) {
        const struct vnode *vnode = &shard->vnodes[from];
        const struct inspect_brief *before = &known[from];
        const bool decides = vnode->role == ROLE_LEADING || vnode->role == ROLE_PASSING;
        if (vnode->role != before->role || vnode->role == ROLE_RECOVERING ||
            vnode->term.number != before->term.number || vnode->term.epoch != before->term.epoch ||
            vnode->term.writer != before->term.writer ||
            (decides && table_vnode_seq(shard->table, from) != before->seq))
            break;
    }
    return from;
}

void inspect_vnode(const struct shard *shard, uint32_t number, struct inspect_vnode *out)
{
    const struct vnode *vnode = &shard->vnodes[number];
    memset(out, 0, sizeof *out);
    out->role = (enum shard_role)vnode->role;
    out->term = vnode->term;
    out->state = vnode->state;
    out->seq = table_vnode_seq(shard->table, number);
    out->base_state = vnode->base_state;
    out->base_seq = vnode->base_seq;
    out->slots = table_count(shard->table, number);
    out->replicas = vnode->id_count;
    out->pulling = vnode->role == ROLE_RECOVERING && vnode->pulling;
    out->synced = vnode->role == ROLE_LEADING;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        out->confirmed += vnode->links[i].confirmed;
        if (vnode->links[i].node != 0)
            out->synced = out->synced && stream_synced(shard, number, i);
    }
}

bool inspect_spilled(const struct shard *shard, uint32_t vnode, struct hash128 id)
{
    return table_lookup(shard->table, id) == TABLE_NONE &&
           table_filter_maybe(shard->table, vnode, id) != 0;
}

int inspect_slot(const struct shard *shard, struct hash128 id, void *out, size_t capacity)
{
    const uint32_t slot = table_lookup(shard->table, id);
    return slot == TABLE_NONE ? 0 : table_export(shard->table, slot, out, capacity);
}

void inspect_lease_cache(const struct shard *shard, struct hash128 id,
                         struct inspect_lease_cache *out)
{
    const struct lease_cache *cache = lessee_look(shard, id);
    *out = (struct inspect_lease_cache){.lease = 0};
    if (cache == NULL || cache->lease == 0)
        return;
    out->lease = cache->lease;
    out->left = cache->granted - cache->used;
    out->until_ns = cache->until_ns;
    out->home = cache->forward.home;
}

struct hash128 inspect_local_id(struct hash128 id)
{
    return remote_local_id(id);
}

uint64_t inspect_home(const struct shard *shard, uint32_t vnode)
{
    return shard->remote.homes[vnode];
}

uint64_t inspect_clock_refused(const struct shard *shard)
{
    return shard->stats.clock_refused;
}

uint64_t inspect_lent(const struct shard *shard)
{
    struct elastic_stats stats;
    elastic_stats(shard->pools.elastic, &stats);
    return stats.lent;
}

uint32_t inspect_pool_vnode(uint32_t pool, uint32_t vnodes)
{
    return pools_vnode(pool, vnodes);
}
