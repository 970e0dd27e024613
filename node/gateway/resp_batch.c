/* resp_batch.c - the batches of the gate of Redis clients, and the checks in them (resp_gate.c).
 *
 *   free --resp_batch_open--> open --resp_batch_add--> open --submit--> submitted --release--> free
 */
#include "base/assert.h"
#include "node/gateway/resp_gate_state.h"

struct batch *resp_batch_open(struct resp_gate *gate)
{
    if (gate->open != RESP_NO_BATCH)
        return &gate->batches[gate->open];
    const uint16_t place = gate->first_free;
    if (place == RESP_NO_BATCH)
        return NULL;
    struct batch *batch = &gate->batches[place];
    ASSERT(batch->seq == 0 && place < RESP_BATCHES_MAX); /* RESPGATE-5 */
    gate->first_free = batch->next_free;
    gate->open = place;
    gate->loads = false;
    gate->limit_template = -1;
    batch->seq = ++gate->serial << RESP_PLACE_BITS | place;
    batch->count = 0;
    wire_checks_builder_reset(&gate->builder);
    return batch;
}

/* What a reply may take of `out`. */
static uint32_t room_of(const struct item *item)
{
    if (item->ask == ASK_THROTTLE || item->ask >= ASK_KEY)
        return item->more ? 0 : RESP_THROTTLE_MAX;
    return item->says ? RESP_ANSWER_MAX : RESP_CHECK_MAX;
}

void resp_batch_add(struct resp_gate *gate, struct resp_peer *peer, const struct item *item)
{
    struct batch *batch = &gate->batches[gate->open];
    ASSERT(batch->count < RESP_BATCH_MAX && (peer->base.waiting == 0 || peer->batch == batch->seq));
    batch->items[batch->count++] = *item;
    peer->batch = batch->seq; /* RESPGATE-1 */
    peer->base.waiting++;
    peer->base.reserved += room_of(item);
    ASSERT(peer->base.out.len + peer->base.reserved <= peer->base.out.capacity); /* RESPGATE-2 */
    gate->stats->checks++;
}

int resp_batch_template(struct resp_gate *gate, const struct limit *limit)
{
    const struct limit *last = &gate->limit;
    if (gate->limit_template >= 0 && last->count == limit->count &&
        last->window_ns == limit->window_ns && last->burst == limit->burst)
        return gate->limit_template;
    gate->limit_template = wire_checks_builder_inline(&gate->builder, limit);
    gate->limit = *limit;
    return gate->limit_template;
}

void resp_batch_settle(struct resp_peer *peer, struct item *item)
{
    ASSERT(!item->answered); /* RESPGATE-3 */
    item->answered = true;
    if (peer == NULL)
        return;
    ASSERT(peer->base.waiting > 0 && peer->base.reserved >= room_of(item));
    peer->base.waiting--;
    peer->base.reserved -= room_of(item);
}

void resp_batch_release(struct resp_gate *gate, struct batch *batch)
{
    ASSERT(batch->seq != 0 && gate->waiting > 0); /* RESPGATE-5 */
    batch->seq = 0;
    batch->next_free = gate->first_free;
    gate->first_free = (uint16_t)(batch - gate->batches);
    gate->waiting--;
}

struct batch *resp_batch_find(struct resp_gate *gate, uint64_t seq)
{
    const uint16_t place = seq & (RESP_BATCHES_MAX - 1);
    struct batch *batch = &gate->batches[place];
    return seq != 0 && batch->seq == seq && place != gate->open ? batch : NULL;
}

/* ---- the invariants -------------------------------------------------------------------------- */

static uint32_t unanswered(const struct batch *batch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        count += !batch->items[i].answered;
    return count;
}

static uint32_t count_free(const struct resp_gate *gate)
{
    uint32_t count = 0;
    for (uint16_t at = gate->first_free; at != RESP_NO_BATCH; at = gate->batches[at].next_free) {
        INVARIANT("RESPGATE-5", at < RESP_BATCHES_MAX && count < RESP_BATCHES_MAX);
        INVARIANT("RESPGATE-5", gate->batches[at].seq == 0 && at != gate->open);
        count++;
    }
    return count;
}

void resp_gate_check_invariants(const struct resp_gate *gate)
{
    uint32_t used = 0;
    INVARIANT("RESPGATE-5", gate->open == RESP_NO_BATCH || gate->batches[gate->open].seq != 0);
    for (uint16_t i = 0; i < RESP_BATCHES_MAX; i++) {
        const struct batch *batch = &gate->batches[i];
        if (batch->seq == 0)
            continue;
        INVARIANT("RESPGATE-5", (batch->seq & (RESP_BATCHES_MAX - 1)) == i);
        INVARIANT("RESPGATE-5", batch->seq >> RESP_PLACE_BITS <= gate->serial);
        INVARIANT("RESPGATE-5", batch->count <= RESP_BATCH_MAX);
        INVARIANT("RESPGATE-3", i == gate->open || unanswered(batch) > 0);
        used++;
    }
    INVARIANT("RESPGATE-5", used == gate->waiting + (gate->open != RESP_NO_BATCH));
    INVARIANT("RESPGATE-5", used + count_free(gate) == RESP_BATCHES_MAX);
}

void resp_gate_check_peer(const struct resp_gate *gate, const struct resp_peer *peer,
                          uint64_t token)
{
    const struct batch *batch = &gate->batches[peer->batch & (RESP_BATCHES_MAX - 1)];
    uint32_t waiting = 0;
    uint32_t reserved = 0;
    INVARIANT("RESPGATE-1", peer->base.waiting == 0 || batch->seq == peer->batch);
    for (uint32_t i = 0; peer->base.waiting > 0 && i < batch->count; i++) {
        const struct item *item = &batch->items[i];
        if (item->answered || item->token != token)
            continue;
        waiting++;
        reserved += room_of(item);
    }
    INVARIANT("RESPGATE-1", waiting == peer->base.waiting);
    INVARIANT("RESPGATE-2", reserved == peer->base.reserved);
    INVARIANT("RESPGATE-2", !peer->base.out.failed);
    INVARIANT("RESPGATE-2", peer->base.out.len + reserved <= peer->base.out.capacity);
}
