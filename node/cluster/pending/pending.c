/* pending.c - checks that wait, by their place and by their ticket. */
#include "node/cluster/pending/pending.h"
#include "base/assert.h"
#include "node/cluster/shard_state.h"

struct pending_check *pending_at(const struct shard *shard, uint32_t index)
{
    return pool_at(&shard->pending, index);
}

uint32_t pending_new(struct shard *shard, const struct forward *forward, int64_t deadline_ns)
{
    const uint32_t index = pool_get(&shard->pending);
    if (index == POOL_NONE)
        return POOL_NONE;
    struct pending_check *check = pending_at(shard, index);
    check->forward = *forward;
    check->generation = ++shard->generation;
    check->stands = 0;
    check->deadline_ns = deadline_ns;
    check->request = POOL_NONE;
    check->sibling = POOL_NONE;
    check->next_load = POOL_NONE;
    check->status = PENDING_PARKED;
    /* What its caller repeats has other copies than the ones that leave here. */
    check->sends = (forward->flags & FORWARD_RETRY) != 0 ? 2 : 0;
    ASSERT(shard->active_count < shard->pending.used); /* PENDINGCHECK-1 */
    check->active_at = shard->active_count;
    shard->active[shard->active_count++] = index;
    return index;
}

void pending_free(struct shard *shard, uint32_t index)
{
    const uint32_t at = pending_at(shard, index)->active_at;
    ASSERT(shard->active_count == shard->pending.used && shard->active[at] == index); /* SHARD-3 */
    const uint32_t last = shard->active[--shard->active_count];
    shard->active[at] = last;
    pending_at(shard, last)->active_at = at;
    pool_put(&shard->pending, index);
}

static_assert(SHARD_PENDING_MAX <= 1 << 16, "a ticket has room for the place");

uint64_t pending_ticket(const struct shard *shard, uint32_t index)
{
    const struct pending_check *check = pending_at(shard, index);
    return (uint64_t)check->generation << 32 | (uint64_t)check->stands << 16 | index;
}

uint16_t pending_attempt(const struct shard *shard, uint32_t index)
{
    const struct pending_check *check = pending_at(shard, index);
    if (check->remote)
        return retry_attempt(check->origin_node, check->origin_ticket);
    if (check->from_peer)
        return retry_attempt(shard->peers[check->origin_peer]->node, check->origin_ticket);
    return retry_attempt(shard->options.node_id, pending_ticket(shard, index));
}

uint32_t pending_find(const struct shard *shard, uint64_t ticket)
{
    const uint32_t index = (uint16_t)ticket;
    if (index >= SHARD_PENDING_MAX || !pool_in_use(&shard->pending, index))
        return POOL_NONE;
    return pending_ticket(shard, index) == ticket ? index : POOL_NONE;
}

uint32_t pending_in(const struct shard *shard, uint64_t ticket, enum pending_status status)
{
    const uint32_t index = pending_find(shard, ticket);
    return index != POOL_NONE && pending_at(shard, index)->status == status ? index : POOL_NONE;
}

uint32_t pending_remote(const struct shard *shard, uint64_t ticket, uint64_t region)
{
    const uint32_t index = pending_in(shard, ticket, PENDING_REMOTE);
    return index != POOL_NONE && pending_at(shard, index)->forward.home == region ? index
                                                                                  : POOL_NONE;
}

void pending_rest(struct shard *shard, struct pending_check *check)
{
    check->status = PENDING_PARKED;
    check->loaded = 0; /* ROUTEPENDING-5 */
    check->retry_ns = shard->now_ns + SHARD_REROUTE_NS;
}

void pending_park(struct shard *shard, uint32_t index)
{
    pending_rest(shard, pending_at(shard, index));
}
