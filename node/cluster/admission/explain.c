/* explain.c - gathering and telling what explain.h is about.
 *
 * Blocks are few, because people ask for explanations, not programs under load. The message at hand
 * holds one from its beginning; if it has to wait, its request takes it along.
 */
#include "node/cluster/admission/explain.h"

#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/pools.h"
#include "node/cluster/shard_state.h"
#include "node/policy/readers/own_limits.h"

void explain_begin(struct shard *shard)
{
    shard->message.explained = POOL_NONE;
    if ((shard->message.checks.flags & WIRE_FLAG_EXPLAIN) == 0)
        return;
    ASSERT(shard->message.checks.count <= WIRE_EXPLAIN_ITEMS_MAX);
    shard->message.explained = pool_get(&shard->explains);
    if (shard->message.explained == POOL_NONE) {
        shard->stats.explains_dropped++;
        return;
    }
    struct explained *block = pool_at(&shard->explains, shard->message.explained);
    memset(block->met, 0, sizeof block->met);
}

void explain_end(struct shard *shard, uint32_t explained)
{
    if (explained != POOL_NONE)
        pool_put(&shard->explains, explained);
}

/* ---- gathering ------------------------------------------------------------------------------- */

/* Whether the texts of the part's windows are not all those of a rule. */
static bool has_own_text(const struct policy_rule *rule)
{
    return rule == NULL || rule->plan || rule->limit_count == 0;
}

/* Which of the item's parts with own limits this is. */
static uint32_t own_place(const struct policy_rule *rule)
{
    return rule == own_limits_key_rule();
}

static void put_window(const struct policy_rule *rule, const struct limit *limit,
                       char out[QUANTITY_TEXT_LEN])
{
    const struct quantity_rate rate = {limit->count, limit->window_ns};
    if (rule == NULL || rule->limit_count == 0)
        quantity_format_rate(&rate, out);
    else
        own_limits_window(rule, limit, out);
}

static void keep(struct shard *shard, uint32_t explained, uint32_t item, uint32_t part,
                 const struct policy_rule *rule, const struct limit *limits,
                 const struct peer_state *states, uint32_t count)
{
    struct explained *block = pool_at(&shard->explains, explained);
    ASSERT(item < WIRE_EXPLAIN_ITEMS_MAX && part < POLICY_PARTS_MAX && count <= PEER_LIMITS_MAX);
    block->rules[item][part] = rule;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t place = part * PEER_LIMITS_MAX + i;
        if (has_own_text(rule))
            put_window(rule, &limits[i], block->windows[item][own_place(rule)][i]);
        block->states[item][place] = states[i];
        block->met[item] |= UINT64_C(1) << place;
    }
}

void explain_part(struct shard *shard, uint32_t index, const struct peer_state *states,
                  uint32_t count, struct effects *effects)
{
    const struct pending_check *check = pending_at(shard, index);
    if (check->undo || count != check->forward.limit_count ||
        (check->forward.flags & FORWARD_EXPLAIN) == 0)
        return;
    if (check->from_peer) {
        peer_put_explain(peers_outbox(shard, check->origin_peer, PEER_RECORD_MAX, effects),
                         check->origin_ticket, states, count);
        return;
    }
    if (check->remote) {
        remote_explain(shard, index, states, count, effects);
        return;
    }
    const struct request *request = pool_at(&shard->requests, check->request);
    if (request->explained != POOL_NONE)
        keep(shard, request->explained, check->item,
             (uint8_t)(check->forward.retry.part & ~RETRY_LOCAL), check->rule,
             &check->forward.limits[0], states, count);
}

void explain_rows(struct shard *shard, const struct batch_item *item, uint32_t part, uint32_t first,
                  uint32_t end, struct effects *effects)
{
    const struct batch *batch = &shard->batch;
    struct peer_state states[PEER_LIMITS_MAX];
    const uint32_t count = end - first;
    if (batch->status[first] != LIMIT_DECIDED)
        return;
    ASSERT(count <= PEER_LIMITS_MAX);
    for (uint32_t row = first; row < end; row++)
        states[row - first] = (struct peer_state){
            .allowed = batch->allowed[row] != 0,
            .limit = batch->limit[row],
            .used = batch->used[row],
            .remaining = batch->remaining[row],
            .reset_after_ns = batch->reset_after_ns[row],
            .retry_after_ns = batch->retry_after_ns[row],
        };
    if (item->part != POOL_NONE)
        explain_part(shard, item->part, states, count, effects);
    else if (item->from_peer)
        peer_put_explain(peers_outbox(shard, item->peer, PEER_RECORD_MAX, effects), item->ticket,
                         states, count);
    else if (shard->message.explained != POOL_NONE)
        keep(shard, shard->message.explained, item->item, part, item->rules[part],
             &batch->limits[first], states, count);
}

/* ---- telling --------------------------------------------------------------------------------- */

static int64_t ms_up(int64_t ns)
{
    return ns < 0 ? -1 : ns / MS + (ns % MS != 0);
}

/* Of a limit that denies; REQUESTS-6. */
static int64_t retry_ms_of(int64_t ns)
{
    return ns == 0 ? 1 : ms_up(ns);
}

/* A rate of a pool, in nanotokens a second, to the thousandth of a token. */
static uint64_t thousandths(uint64_t rate)
{
    return (rate + 500000) / 1000000;
}

/* Adds to the row of an elastic limit how its pool is doing, as this shard has heard
 * (EXPLAIN-3). */
static void tell_pool(const struct shard *shard, const struct policy_rule *rule, uint32_t limit,
                      struct wire_explain_row *row)
{
    struct shard_pool now;
    const struct policy_pool *pool =
        rule == NULL || rule->shadow || limit >= rule->limit_count || rule->limits[limit].pool == 0
            ? NULL
            : policy_pool_by_id(shard->policies[shard->policy].policy, rule->limits[limit].pool);
    if (pool == NULL)
        return;
    (void)pools_known(shard, pool->id, &now);
    row->pool = (struct wire_text){pool->name.data, pool->name.len};
    row->level = thousandths(now.level[rule->class]);
    row->guaranteed = thousandths(now.guaranteed);
    row->borrowed = thousandths(now.borrowed);
    row->pool_global = pool->scope == POLICY_SCOPE_GLOBAL;
    row->pool_home = wire_text_of(remote_pool_home_name(shard, pool));
}

const struct wire_explain *explain_wire(struct shard *shard, uint32_t explained, uint32_t count)
{
    struct wire_explain *out = &shard->reply.explain;
    uint32_t rows = 0;
    if (explained == POOL_NONE)
        return NULL;
    const struct explained *block = pool_at(&shard->explains, explained);
    for (uint32_t item = 0; item < count; item++) {
        for (uint32_t place = 0; place < EXPLAIN_PLACES; place++) {
            if ((block->met[item] >> place & 1) == 0)
                continue;
            const struct policy_rule *rule = block->rules[item][place / PEER_LIMITS_MAX];
            const struct peer_state *state = &block->states[item][place];
            const uint32_t limit = place % PEER_LIMITS_MAX;
            const char *window = has_own_text(rule) ? block->windows[item][own_place(rule)][limit]
                                                    : rule->windows[limit];
            struct wire_explain_row *row = &out->rows[rows++];
            *row = (struct wire_explain_row){
                .rule = rule != NULL ? (struct wire_text){rule->name.data, rule->name.len}
                                     : wire_text_of(""),
                .window = wire_text_of(window),
                .limit = state->limit,
                .used = state->used,
                .remaining = state->remaining,
                .allowed = state->allowed,
                .reset_after_ms = ms_up(state->reset_after_ns),
                .retry_after_ms = state->allowed ? 0 : retry_ms_of(state->retry_after_ns),
                .pool = wire_text_of(""),
                .pool_home = wire_text_of(""),
            };
            tell_pool(shard, rule, limit, row);
        }
        out->end[item] = rows;
    }
    return out;
}
