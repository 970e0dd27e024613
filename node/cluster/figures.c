/* figures.c - a node's figures: taking, telling, showing; figures.h is the contract. Pure. */
#include "node/cluster/figures.h"

#include <string.h>

#include "base/mp.h"
#include "base/sat.h"

enum {
    FIELDS = 7,
    FIGURES_READ_MAX = 64,
    TOKENS_MAX = FIELDS + FIGURES_READ_MAX + 8,
    MILLI = 1000
};

#define SECOND_NS INT64_C(1000000000)

static_assert((int)FIGURES <= (int)FIGURES_READ_MAX, "a reader takes what a writer puts");

static const char *const names[FIGURES] = {
    [FIGURE_UPTIME_MS] = "uptime_ms",
    [FIGURE_CHECKS] = "checks",
    [FIGURE_ALLOWED] = "allowed",
    [FIGURE_DENIED] = "denied",
    [FIGURE_CHECKS_RATE] = "checks_per_s",
    [FIGURE_ALLOWED_RATE] = "allowed_per_s",
    [FIGURE_DENIED_RATE] = "denied_per_s",
    [FIGURE_BUSY_RATE] = "busy_per_s",
    [FIGURE_ACK_P99_US] = "ack_p99_us",
    [FIGURE_SLOTS] = "slots",
    [FIGURE_SLOTS_MAX] = "slots_max",
    [FIGURE_MEMORY_MAX] = "memory_max_bytes",
    [FIGURE_FLUSH_LAG_MS] = "flush_lag_ms",
    [FIGURE_STORE_USED] = "store_used_bytes",
    [FIGURE_STORE_MOST] = "store_most_bytes",
    [FIGURE_EPHEMERAL] = "ephemeral",
    [FIGURE_OVER_TOKENS] = "over_tokens",
    [FIGURE_DECIDES] = "vnodes_deciding",
    [FIGURE_CUT_OFF] = "vnodes_cut_off",
    [FIGURE_INCOMPLETE] = "vnodes_incomplete",
};

/* ---- taking ---------------------------------------------------------------------------------- */

static void add_shard(uint64_t *values, const struct shard_stats *stats)
{
    values[FIGURE_CHECKS] += stats->checks;
    values[FIGURE_ALLOWED] += stats->allowed;
    values[FIGURE_DENIED] += stats->denied;
    values[FIGURE_SLOTS] += stats->slots;
    values[FIGURE_SLOTS_MAX] += stats->slots_max;
    values[FIGURE_OVER_TOKENS] += stats->over_tokens;
    values[FIGURE_DECIDES] += stats->vnodes_deciding;
    values[FIGURE_CUT_OFF] += stats->vnodes_cut_off;
    values[FIGURE_INCOMPLETE] += stats->vnodes_incomplete;
}

/* Thousandths a second. A count that fell is of another process's life. */
static uint64_t rate(uint64_t now, uint64_t before, int64_t span_ns)
{
    if (now < before)
        return 0;
    return sat_muldiv(now - before, (uint64_t)SECOND_NS * MILLI, (uint64_t)span_ns);
}

static void take_rates(struct figures_meter *meter, uint64_t busy, int64_t now_ns)
{
    uint64_t *values = meter->now.values;
    const int64_t span_ns = now_ns - meter->taken_ns;
    if (meter->taken_ns != 0 && span_ns >= 0 && span_ns < SECOND_NS)
        return;
    if (meter->taken_ns != 0 && span_ns > 0) {
        values[FIGURE_CHECKS_RATE] = rate(values[FIGURE_CHECKS], meter->checks, span_ns);
        values[FIGURE_ALLOWED_RATE] = rate(values[FIGURE_ALLOWED], meter->allowed, span_ns);
        values[FIGURE_DENIED_RATE] = rate(values[FIGURE_DENIED], meter->denied, span_ns);
        values[FIGURE_BUSY_RATE] = rate(busy, meter->busy, span_ns);
    }
    meter->taken_ns = now_ns;
    meter->checks = values[FIGURE_CHECKS];
    meter->allowed = values[FIGURE_ALLOWED];
    meter->denied = values[FIGURE_DENIED];
    meter->busy = busy;
}

void figures_take(struct figures_meter *meter, const struct control_report *report, int64_t now_ns)
{
    const struct figures before = meter->now;
    uint64_t *values = meter->now.values;
    struct lag lag = {.max_ns = 0};
    uint64_t busy = 0;
    memset(values, 0, sizeof meter->now.values);
    for (uint32_t i = 0; i < report->shard_count; i++) {
        add_shard(values, &report->shards[i]);
        lag_join(&lag, &report->shards[i].lag);
        busy += report->shards[i].busy;
    }
    for (int i = FIGURE_CHECKS_RATE; i <= FIGURE_BUSY_RATE; i++)
        values[i] = before.values[i];
    const int64_t uptime_ns = now_ns - report->started_ns;
    values[FIGURE_UPTIME_MS] = uptime_ns > 0 ? (uint64_t)uptime_ns / 1000000 : 0;
    values[FIGURE_ACK_P99_US] = (uint64_t)lag_quantile_ns(&lag, 990) / 1000;
    values[FIGURE_MEMORY_MAX] = report->memory_max;
    values[FIGURE_FLUSH_LAG_MS] = (uint64_t)report->flush_lag_ns / 1000000;
    values[FIGURE_STORE_USED] = report->storage_used;
    values[FIGURE_STORE_MOST] = report->storage_most;
    values[FIGURE_EPHEMERAL] = report->storage != NULL && strcmp(report->storage, "ephemeral") == 0;
    take_rates(meter, busy, now_ns);
}

/* ---- showing --------------------------------------------------------------------------------- */

void figures_put(const struct figures *figures, struct mp_writer *writer)
{
    mp_put_map(writer, FIGURES_FIELDS);
    for (int i = 0; i < FIGURES; i++) {
        mp_put_str(writer, names[i]);
        if (i >= FIGURE_CHECKS_RATE && i <= FIGURE_BUSY_RATE)
            mp_put_real(writer, (double)figures->values[i] / MILLI);
        else
            mp_put_uint(writer, figures->values[i]);
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

int figures_encode(const struct figures_frame *frame, void *out, size_t capacity)
{
    const struct join_head head = {frame->type, frame->cluster_id, frame->sender, frame->address};
    const int count = frame->type == FIGURES_TELL ? FIGURES : 0;
    struct mp_writer writer;
    const int error = join_begin(&writer, FIELDS, &head, out, capacity);
    if (error != 0)
        return error;
    mp_put_uint(&writer, frame->number);
    mp_put_array(&writer, (size_t)count);
    for (int i = 0; i < count; i++)
        mp_put_uint(&writer, frame->figures.values[i]);
    return join_end(&writer);
}

int figures_decode(const void *bytes, size_t len, struct figures_frame *frame)
{
    struct mp_token tokens[TOKENS_MAX];
    struct mp_cursor cursor;
    memset(frame, 0, sizeof *frame);
    const int error = join_open(bytes, len, FIELDS, tokens, TOKENS_MAX, &cursor);
    if (error != 0)
        return error;
    const uint64_t type = join_get_head(&cursor, frame->cluster_id, &frame->sender, frame->address);
    frame->number = mp_get_uint(&cursor);
    const uint32_t count = mp_get_array(&cursor);
    for (uint32_t i = 0; i < count && i < FIGURES && !cursor.failed; i++)
        frame->figures.values[i] = mp_get_uint(&cursor);
    if (cursor.failed || type < FIGURES_ASK || type >= FIGURES_TYPE_END ||
        (type == FIGURES_TELL && count == 0))
        return TG_EPROTOCOL;
    frame->type = (enum figures_type)type;
    return 0;
}
