/* pending_check.c - what always holds of the checks that wait, and of the loads that some wait for.
 *
 * PENDINGCHECK-1  Every check in use has one place in `active`, and says which.
 * PENDINGCHECK-2  A check waits for something. Its rule's limits are within bounds, and its vnode
 *                 is one that there is.
 * PENDINGCHECK-3  A check that waits for its slot is in the list of exactly one load: that of this
 *                 slot.
 * PENDINGCHECK-4  A load is of one slot, and no slot has two.
 * PENDINGCHECK-5  A check of a client's message names a request in use. One that a peer, another
 *                 region, a lease cache or an undo has made names none.
 * PENDINGCHECK-6  A check that waits for a peer names one. So does one that came from a peer.
 *
 * Changes nothing: for tests and the simulator.
 */
#include "base/assert.h"
#include "node/cluster/shard_state.h"

static void check_origin(const struct shard *shard, const struct pending_check *check)
{
    const bool of_client = check->request != POOL_NONE;
    INVARIANT("PENDINGCHECK-5", !of_client || pool_in_use(&shard->requests, check->request));
    INVARIANT("PENDINGCHECK-5",
              of_client != (check->from_peer || check->remote || check->undo || check->cache != 0));
    INVARIANT("PENDINGCHECK-6", !check->from_peer || check->origin_peer < shard->peer_count);
    INVARIANT("PENDINGCHECK-6",
              check->status != PENDING_WAITING || check->peer < shard->peer_count);
}

static void check_one(const struct shard *shard, uint32_t at)
{
    INVARIANT("PENDINGCHECK-1", pool_in_use(&shard->pending, shard->active[at]));
    const struct pending_check *check = pending_at(shard, shard->active[at]);
    INVARIANT("PENDINGCHECK-1", check->active_at == at);
    INVARIANT("PENDINGCHECK-2", check->status <= PENDING_DONE && check->status != PENDING_DECIDING);
    INVARIANT("PENDINGCHECK-2", check->forward.vnode < 2 * shard->options.vnodes);
    INVARIANT("PENDINGCHECK-2", check->forward.limit_count <= PEER_LIMITS_MAX);
    INVARIANT("PENDINGCHECK-2", check->loaded >> PEER_LIMITS_MAX == 0);
    check_origin(shard, check);
}

/* How many checks wait for the load. */
static uint32_t check_load(const struct shard *shard, uint32_t number)
{
    const struct load *load = &shard->loads.list[number];
    uint32_t count = 0;
    for (uint32_t i = 0; i < number; i++)
        INVARIANT("PENDINGCHECK-4", !hash128_equal(shard->loads.list[i].id, load->id));
    for (uint32_t at = load->first_pending; at != POOL_NONE; count++) {
        INVARIANT("PENDINGCHECK-3",
                  count < shard->active_count && pool_in_use(&shard->pending, at));
        const struct pending_check *check = pending_at(shard, at);
        INVARIANT("PENDINGCHECK-3", check->status == PENDING_LOADING);
        INVARIANT("PENDINGCHECK-3", check->loading < check->forward.limit_count);
        INVARIANT("PENDINGCHECK-3", hash128_equal(check->forward.ids[check->loading], load->id));
        at = check->next_load;
    }
    return count;
}

void pending_check_invariants(const struct shard *shard)
{
    uint32_t loading = 0;
    uint32_t listed = 0;
    INVARIANT("SHARD-3", shard->active_count == shard->pending.used);
    for (uint32_t at = 0; at < shard->active_count; at++) {
        check_one(shard, at);
        loading += pending_at(shard, shard->active[at])->status == PENDING_LOADING;
    }
    INVARIANT("PENDINGCHECK-4", shard->loads.count <= SHARD_LOADS_MAX);
    for (uint32_t number = 0; number < shard->loads.count; number++)
        listed += check_load(shard, number);
    INVARIANT("PENDINGCHECK-3", loading == listed);
}
