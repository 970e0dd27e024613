/* pending.c - checks that wait, by their place and by their ticket. */
#include "node/cluster/pending/pending.h"
#include "node/cluster/shard_state.h"

struct part *parts_at(const struct shard *shard, uint32_t index)
{
    return pool_at(&shard->parts, index);
}

uint32_t parts_new(struct shard *shard, const struct forward *forward, int64_t deadline_ns)
{
    const uint32_t index = pool_get(&shard->parts);
    if (index == POOL_NONE)
        return POOL_NONE;
    struct part *part = parts_at(shard, index);
    part->forward = *forward;
    part->generation = ++shard->generation;
    part->stands = 0;
    part->deadline_ns = deadline_ns;
    part->request = POOL_NONE;
    part->sibling = POOL_NONE;
    part->next_load = POOL_NONE;
    part->status = PART_PARKED;
    /* What its caller repeats has other copies than the ones that leave here. */
    part->sends = (forward->flags & FORWARD_RETRY) != 0 ? 2 : 0;
    part->active_at = shard->active_count;
    shard->active[shard->active_count++] = index;
    return index;
}

void parts_free(struct shard *shard, uint32_t index)
{
    const uint32_t at = parts_at(shard, index)->active_at;
    const uint32_t last = shard->active[--shard->active_count];
    shard->active[at] = last;
    parts_at(shard, last)->active_at = at;
    pool_put(&shard->parts, index);
}

static_assert(SHARD_PARTS_MAX <= 1 << 16, "a ticket has room for the place");

uint64_t parts_ticket(const struct shard *shard, uint32_t index)
{
    const struct part *part = parts_at(shard, index);
    return (uint64_t)part->generation << 32 | (uint64_t)part->stands << 16 | index;
}

uint16_t parts_attempt(const struct shard *shard, uint32_t index)
{
    const struct part *part = parts_at(shard, index);
    if (part->abroad)
        return retry_attempt(part->origin_node, part->origin_ticket);
    if (part->from_peer)
        return retry_attempt(shard->peers[part->origin_peer]->node, part->origin_ticket);
    return retry_attempt(shard->options.node_id, parts_ticket(shard, index));
}

uint32_t parts_find(const struct shard *shard, uint64_t ticket)
{
    const uint32_t index = (uint16_t)ticket;
    if (index >= SHARD_PARTS_MAX || !pool_in_use(&shard->parts, index))
        return POOL_NONE;
    return parts_ticket(shard, index) == ticket ? index : POOL_NONE;
}

uint32_t parts_in(const struct shard *shard, uint64_t ticket, enum part_status status)
{
    const uint32_t index = parts_find(shard, ticket);
    return index != POOL_NONE && parts_at(shard, index)->status == status ? index : POOL_NONE;
}

uint32_t parts_abroad(const struct shard *shard, uint64_t ticket, uint64_t region)
{
    const uint32_t index = parts_in(shard, ticket, PART_ABROAD);
    return index != POOL_NONE && parts_at(shard, index)->forward.home == region ? index : POOL_NONE;
}

void parts_rest(struct shard *shard, struct part *part)
{
    part->status = PART_PARKED;
    part->loaded = 0; /* P5 */
    part->retry_ns = shard->now_ns + SHARD_REROUTE_NS;
}

void parts_park(struct shard *shard, uint32_t index)
{
    parts_rest(shard, parts_at(shard, index));
}
