/* requests_check.c - what always holds of clients' messages between two events.
 *
 * REQUESTS-7   A request that waits does so for checks, each of which names it, and for what is
 *              left of its message (unfinished.c): `pending` is their number.
 * REQUESTS-8   The requests with something to tell are in the list of those, once each.
 * REQUESTS-9   A request has as many blocks of rows as its items need, and no block is another's.
 * REQUESTS-10  A policy is referred to by as many requests as it counts.
 * REQUESTS-11  Between two events no message is at hand, and none is half delivered.
 *
 * UNFINISHED-5  The queue's bytes are those of its frames, within both bounds. What is left of each
 *               message are items of its request, which waits.
 *
 * Changes nothing: for tests and the simulator.
 */
#include "base/assert.h"
#include "node/cluster/shard_state.h"

/* How much of the request is still to come: from checks, and from its own message. */
static uint32_t outstanding(const struct shard *shard, uint32_t request)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < shard->active_count; at++) {
        const struct pending_check *check = pending_at(shard, shard->active[at]);
        count += check->request == request && check->status != PENDING_DONE;
    }
    for (uint32_t i = 0; i < shard->unfinished.count; i++)
        count += shard->unfinished.list[(shard->unfinished.first + i) % UNFINISHED_MAX].request ==
                 request;
    return count;
}

static void check_ready(const struct shard *shard)
{
    uint32_t count = 0;
    for (uint32_t at = shard->ready; at != POOL_NONE; count++) {
        INVARIANT("REQUESTS-8", count < shard->requests.used && pool_in_use(&shard->requests, at));
        const struct request *request = pool_at(&shard->requests, at);
        INVARIANT("REQUESTS-8", request->partly && request->news);
        at = request->next_ready;
    }
}

static void check_request(const struct shard *shard, uint32_t index, uint32_t *blocks)
{
    const struct request *request = pool_at(&shard->requests, index);
    INVARIANT("SHARD-3", request->pending > 0 || request->news);
    INVARIANT("REQUESTS-7", request->pending == outstanding(shard, index));
    INVARIANT("REQUESTS-8", !request->news || request->partly);
    INVARIANT("REQUESTS-8", !request->news || shard->ready != POOL_NONE);
    INVARIANT("REQUESTS-9", request->count > 0 && request->count <= WIRE_CHECKS_MAX);
    INVARIANT("REQUESTS-10", request->policy < SHARD_POLICIES_MAX &&
                                 shard->policies[request->policy].policy != NULL);
    for (uint32_t i = 0; i * SHARD_ROW_BLOCK < request->count; i++, (*blocks)++)
        INVARIANT("REQUESTS-9", pool_in_use(&shard->blocks, request->blocks[i]));
}

static void check_unfinished(const struct shard *shard)
{
    const struct unfinished *unfinished = &shard->unfinished;
    size_t bytes = 0;
    INVARIANT("UNFINISHED-5", unfinished->count <= UNFINISHED_MAX && unfinished->frame == NULL);
    for (uint32_t i = 0; i < unfinished->count; i++) {
        const struct unfinished_message *left =
            &unfinished->list[(unfinished->first + i) % UNFINISHED_MAX];
        INVARIANT("UNFINISHED-5", pool_in_use(&shard->requests, left->request));
        const struct request *request = pool_at(&shard->requests, left->request);
        INVARIANT("UNFINISHED-5", left->item < request->count && request->pending > 0);
        bytes += left->len;
    }
    INVARIANT("UNFINISHED-5", bytes == unfinished->bytes && bytes <= UNFINISHED_BYTES_MAX);
}

void requests_check_invariants(const struct shard *shard)
{
    uint32_t references[SHARD_POLICIES_MAX] = {0};
    uint32_t blocks = 0;
    INVARIANT("REQUESTS-11", shard->message.request == POOL_NONE);
    INVARIANT("REQUESTS-11", shard->batch.item_count == 0 && !shard->batch.delivering);
    check_ready(shard);
    check_unfinished(shard);
    for (uint32_t at = 0; at < SHARD_REQUESTS_MAX && shard->requests.used > 0; at++) {
        if (!pool_in_use(&shard->requests, at))
            continue;
        check_request(shard, at, &blocks);
        const struct request *request = pool_at(&shard->requests, at);
        references[request->policy]++;
    }
    INVARIANT("REQUESTS-9", blocks == shard->blocks.used);
    for (uint32_t i = 0; i < SHARD_POLICIES_MAX; i++)
        INVARIANT("REQUESTS-10", references[i] == shard->policies[i].references);
    INVARIANT("REQUESTS-10", shard->policies[shard->policy].policy != NULL);
}
