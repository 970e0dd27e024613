/* resp_batch.c - what the checks of Redis clients share of the open batch (batches.h). */
#include "node/gateway/resp_gate_state.h"

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

void resp_batch_cancel(struct resp_gate *gate)
{
    const struct batches *batches = gate->batches;
    batches_cancel(gate->batches);
    if (gate->limit_template >= 0 &&
        (uint32_t)gate->limit_template >= batches->builder.template_count)
        gate->limit_batch = 0; /* another one will be there */
}

const char *resp_batch_fault(const struct wire_decision *decision)
{
    if (decision->outcome == OUTCOME_BUSY)
        return RESP_BUSY;
    return decision->outcome == OUTCOME_ERROR
               ? "UNAVAILABLE no node that holds this key can be reached"
               : NULL;
}
