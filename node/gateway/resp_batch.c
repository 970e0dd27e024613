/* resp_batch.c - the checks of Redis clients on their way into the open batch (batches.h).
 */
#include "base/assert.h"
#include "node/gateway/resp_gate_state.h"

/* What a reply may take of `out`. */
static uint32_t room_of(const struct item *item)
{
    if (item->ask == ASK_THROTTLE || item->ask >= ASK_KEY)
        return item->more ? 0 : RESP_THROTTLE_MAX;
    return item->says ? RESP_ANSWER_MAX : RESP_CHECK_MAX;
}

void resp_batch_add(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                    const struct item *item)
{
    struct item *next = (struct item *)batches_next(gate->batches); /* begins with its call */
    *next = *item;
    next->call.token = token;
    next->call.user = &gate->user;
    next->call.first = batches_at_hand(gate->batches)->count;
    next->call.count = 1;
    next->call.room = room_of(item);
    batches_add(gate->batches, &peer->base, &next->call);
}

int resp_batch_template(struct resp_gate *gate, const struct limit *limit)
{
    const struct limit *last = &gate->limit;
    const uint64_t batch = batches_at_hand(gate->batches)->seq;
    if (gate->limit_batch == batch && last->count == limit->count &&
        last->window_ns == limit->window_ns && last->burst == limit->burst)
        return gate->limit_template;
    const int template = wire_checks_builder_inline(&gate->batches->builder, limit);
    gate->limit_batch = template >= 0 ? batch : 0;
    gate->limit_template = template;
    gate->limit = *limit;
    return template;
}
