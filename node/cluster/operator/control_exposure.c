/* control_exposure.c - status: how far this node could over-admit at this moment, and why.
 *
 * One map per consistency level. Shards keep the figures (exposure.c); here they are summed up and
 * said in a sentence:
 *
 *     one      tokens            granted here, and acknowledged by no replica in reach
 *              vnodes_cut_off    decided here with no other whole replica in reach: if it is a
 *                                split, or this node dies, up to one limit more for each key
 *              vnodes_degraded   decided here without a majority: their answers are degraded
 *              uncounted         tokens that on_failure: open allowed for want of room, since start
 *              forgotten         slots that were given up while their limits lasted, since start
 *     quorum   tokens 0; vnodes_cut_off counts those that nobody decides now (on_failure applies)
 *
 * The node's figures are of its own vnodes: the cluster's bound is the sum over its nodes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/cluster/conditions/conditions.h"
#include "node/cluster/operator/control_answer.h"
#include "node/cluster/partition/vnodes.h"

enum { WHY_LEN = 480, WARNINGS_MAX = 4 };
#define LATELY_NS INT64_C(60000000000)

struct exposure_sum {
    uint64_t tokens;
    uint64_t cut_off;
    uint64_t degraded;
    uint64_t undecided;
    uint64_t uncounted;
    uint64_t forgotten;
    struct lag lag;
};

static struct exposure_sum sum_up(const struct control_report *report)
{
    struct exposure_sum sum = {.tokens = 0};
    for (uint32_t i = 0; i < report->shard_count; i++) {
        const struct shard_stats *stats = &report->shards[i];
        sum.tokens += stats->over_tokens;
        sum.cut_off += stats->vnodes_cut_off;
        sum.degraded += stats->vnodes_unconfirmed;
        sum.undecided += stats->quorum.vnodes_undecided;
        sum.uncounted += stats->uncounted;
        sum.forgotten += stats->forgotten;
        lag_join(&sum.lag, &stats->lag);
    }
    return sum;
}

__attribute__((format(printf, 2, 3))) static void add_why(char *why, const char *format, ...)
{
    const size_t len = strlen(why);
    if (len > 0)
        (void)snprintf(why + len, WHY_LEN - len, "; ");
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why + strlen(why), WHY_LEN - strlen(why), format, arguments);
    va_end(arguments);
}

static void put_level(struct mp_writer *writer, const char *name, uint64_t tokens, uint64_t cut_off,
                      uint64_t degraded, const char *why, uint32_t more)
{
    mp_put_str(writer, name);
    mp_put_map(writer, 4 + more);
    put_field_uint(writer, "tokens", tokens);
    put_field_uint(writer, "vnodes_cut_off", cut_off);
    put_field_uint(writer, "vnodes_degraded", degraded);
    put_field_str(writer, "why", why);
}

static void put_one(const struct exposure_sum *sum, struct mp_writer *writer)
{
    char why[WHY_LEN] = "";
    if (sum->cut_off > 0)
        add_why(why,
                "no other replica of %llu vnodes is in reach: if it is a split, each side may "
                "admit one limit more per key",
                (unsigned long long)sum->cut_off);
    if (sum->degraded > sum->cut_off)
        add_why(why, "no majority stands behind %llu vnodes",
                (unsigned long long)(sum->degraded - sum->cut_off));
    if (sum->tokens > 0)
        add_why(why, "%llu tokens are not yet acknowledged by a replica",
                (unsigned long long)sum->tokens);
    if (sum->uncounted > 0)
        add_why(why,
                "%llu tokens were allowed by on_failure: open where there was no room to count",
                (unsigned long long)sum->uncounted);
    if (sum->forgotten > 0)
        add_why(why, "%llu slots could not be read back from disk",
                (unsigned long long)sum->forgotten);
    put_level(writer, "one", sum->tokens, sum->cut_off, sum->degraded, why, 2);
    put_field_uint(writer, "uncounted", sum->uncounted);
    put_field_uint(writer, "forgotten", sum->forgotten);
}

static void put_quorum(const struct exposure_sum *sum, struct mp_writer *writer)
{
    char why[WHY_LEN] = "";
    if (sum->undecided > 0)
        add_why(why, "unavailable: no majority decides %llu vnodes, on_failure applies",
                (unsigned long long)sum->undecided);
    put_level(writer, "quorum", 0, sum->undecided, 0, why, 0);
}

void control_put_exposure(const struct control_report *report, struct mp_writer *writer)
{
    const struct exposure_sum sum = sum_up(report);
    mp_put_str(writer, "over_admission");
    mp_put_map(writer, 2);
    put_one(&sum, writer);
    put_quorum(&sum, writer);
    mp_put_str(writer, "acknowledgement");
    mp_put_map(writer, 4);
    put_field_uint(writer, "samples", lag_count(&sum.lag));
    put_field_uint(writer, "p50_us", (uint64_t)lag_quantile_ns(&sum.lag, 500) / 1000);
    put_field_uint(writer, "p99_us", (uint64_t)lag_quantile_ns(&sum.lag, 990) / 1000);
    put_field_uint(writer, "max_us", (uint64_t)lag_max_ns(&sum.lag) / 1000);
}

/* A warning of another member: of this node itself there are figures. */
static bool is_others(const struct answer_context *context, const struct condition *condition)
{
    const struct control_options *own = &context->control->options;
    return !condition->grave &&
           (strcmp(condition->node, own->name) != 0 || strcmp(condition->region, own->region) != 0);
}

void control_put_warnings(const struct answer_context *context, const struct conditions *conditions,
                          struct mp_writer *writer)
{
    uint32_t others = 0;
    const struct control_report *report = context->report;
    const struct exposure_sum sum = sum_up(report);
    char said[WARNINGS_MAX][WHY_LEN];
    uint32_t count = 0;
    uint64_t turned_away = 0;
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < report->shard_count; i++) {
        turned_away += report->shards[i].turned_away;
        if (report->shards[i].turned_away_ns > last_ns)
            last_ns = report->shards[i].turned_away_ns;
    }
    if (report->storage_percent > 0)
        (void)snprintf(said[count++], WHY_LEN, "the store is %llu MiB, %u%% of the %llu MiB %s",
                       (unsigned long long)report->storage_used >> 20, report->storage_percent,
                       (unsigned long long)report->storage_most >> 20, "that it may have");
    if (turned_away > 0 && context->now_ns - last_ns < LATELY_NS)
        (void)snprintf(said[count++], WHY_LEN,
                       "%llu new keys found no room since start, the last one less than a minute "
                       "ago: they come faster than they can be written, or the disk is full",
                       (unsigned long long)turned_away);
    if (sum.uncounted > 0)
        (void)snprintf(said[count++], WHY_LEN,
                       "%llu tokens were allowed uncounted since start (on_failure: open)",
                       (unsigned long long)sum.uncounted);
    if (sum.forgotten > 0)
        (void)snprintf(said[count++], WHY_LEN, "%llu slots could not be read back from disk",
                       (unsigned long long)sum.forgotten);
    for (uint32_t i = 0; i < conditions->count; i++)
        others += is_others(context, &conditions->list[i]);
    mp_put_str(writer, "warnings");
    mp_put_array(writer, count + others);
    for (uint32_t i = 0; i < count; i++)
        mp_put_str(writer, said[i]);
    for (uint32_t i = 0; i < conditions->count; i++)
        if (is_others(context, &conditions->list[i]))
            mp_put_str(writer, conditions->list[i].says);
}
