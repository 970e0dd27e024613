/* control_pools.c - how the pools of elastic limits are doing, as their owners have told the shards
 * of this node.
 *
 * Rates are whole numbers and fractions of tokens a second. What is not known, for nothing of a
 * pool was heard lately, is zero: it is idle.
 */
#include "node/cluster/operator/control_answer.h"
#include "node/cluster/wire/peer_wire.h"

#define NANO_PER_MILLI 1000000

/* A rate in nanotokens a second, to the thousandth of a token. */
static void put_rate(struct mp_writer *writer, const char *name, uint64_t rate)
{
    mp_put_str(writer, name);
    mp_put_real(writer, (double)((rate + NANO_PER_MILLI / 2) / NANO_PER_MILLI) / 1000);
}

/* What the shard of this node that heard of the pool last knows. */
static struct shard_pool newest(const struct control_report *report, uint32_t pool)
{
    struct shard_pool found = {.id = pool, .load_ppm = PEER_LOAD_UNKNOWN, .at_ns = -1};
    for (uint32_t i = 0; i < report->shard_count; i++)
        for (uint32_t k = 0; k < report->shards[i].pool_count; k++)
            if (report->shards[i].pools[k].id == pool &&
                report->shards[i].pools[k].at_ns > found.at_ns)
                found = report->shards[i].pools[k];
    return found;
}

static void put_pool(const struct control_report *report, const struct policy_pool *pool,
                     struct mp_writer *writer)
{
    const struct shard_pool now = newest(report, pool->id);
    char rate[QUANTITY_TEXT_LEN];
    quantity_format_rate(&pool->rate, rate);
    mp_put_map(writer, 13);
    put_field_str(writer, "name", pool->name.data);
    put_field_str(writer, "scope", policy_scope_name(pool->scope));
    put_field_str(writer, "home", pool->home_region != 0 ? pool->home.data : now.home);
    put_field_bool(writer, "heard", now.at_ns > 0);
    put_field_str(writer, "rate", rate);
    mp_put_str(writer, "load_max");
    mp_put_real(writer, (double)pool->load_max_ppm / PEER_LOAD_MAX);
    put_field_uint(writer, "reserve_percent", pool->reserve_percent);
    put_rate(writer, "guaranteed", now.guaranteed);
    put_rate(writer, "borrowed", now.borrowed);
    put_rate(writer, "level_critical", now.level[POLICY_CLASS_CRITICAL]);
    put_rate(writer, "level_normal", now.level[POLICY_CLASS_NORMAL]);
    put_rate(writer, "level_batch", now.level[POLICY_CLASS_BATCH]);
    mp_put_str(writer, "load");
    if (now.load_ppm == PEER_LOAD_UNKNOWN)
        mp_put_nil(writer);
    else
        mp_put_real(writer, (double)now.load_ppm / PEER_LOAD_MAX);
}

void control_put_pools(const struct control_report *report, struct mp_writer *writer)
{
    mp_put_array(writer, policy_pool_count(report->policy));
    for (size_t i = 0; i < policy_pool_count(report->policy); i++)
        put_pool(report, policy_pool_at(report->policy, i), writer);
}

void answer_pools(struct answer_context *context)
{
    answer_begin(context);
    control_put_pools(context->report, context->writer);
}
