/* figures.c - a node's figures: taking, telling, showing; figures.h is the contract. Pure. */
#include "node/cluster/control/figures.h"

#include <stdio.h>
#include <string.h>

#include "base/mp.h"
#include "base/sat.h"

enum {
    FIELDS = 7, /* without the rules */
    RULE_FIELDS = 3,
    FIGURES_READ_MAX = 64,
    RULES_READ_MAX = 32,
    PERIODS_READ_MAX = 2 * FIGURES_PERIODS,
    TOKENS_MAX = FIELDS + FIGURES_READ_MAX + 2 * RULES_READ_MAX * (RULE_FIELDS + 2) +
                 2 * PERIODS_READ_MAX + 16,
    MILLI = 1000,
    RULES_TAKEN_MAX = 4 * BUSIEST_TRACKED
};

#define SECOND_NS INT64_C(1000000000)
#define RECENT_NS (3 * SECOND_NS)

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
    values[FIGURE_DECIDES] += stats->vnodes_leading;
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

/* ---- rules ----------------------------------------------------------------------------------- */

uint32_t figures_add_rule(struct figures_rule *list, uint32_t count, uint32_t max,
                          const struct figures_rule *rule)
{
    struct figures_rule sum = *rule;
    uint32_t at = 0;
    while (at < count && strcmp(list[at].name, rule->name) != 0)
        at++;
    if (at < count) {
        sum.checks_rate += list[at].checks_rate;
        sum.denied_rate += list[at].denied_rate;
    } else if (count < max) {
        count++;
    } else if (list[max - 1].checks_rate >= rule->checks_rate) {
        return count;
    } else {
        at = max - 1;
    }
    for (; at > 0 && list[at - 1].checks_rate < sum.checks_rate; at--)
        list[at] = list[at - 1];
    list[at] = sum;
    return count;
}

/* The counts of a shard that are of the last second or two, and how long they took; NULL: none. */
static const struct busiest_counts *recent(const struct busiest *busiest, int64_t taken_ns,
                                           int64_t *span_ns)
{
    const int64_t age_ns = taken_ns - busiest->begun_ns;
    *span_ns = age_ns;
    if (busiest->begun_ns == 0 || age_ns < 0 || age_ns >= RECENT_NS)
        return NULL;
    if (age_ns >= SECOND_NS || busiest->span_ns == 0)
        return age_ns > 0 ? &busiest->now : NULL;
    *span_ns = busiest->span_ns;
    return &busiest->last;
}

/* Adds what a shard counted in a sketch to a list of RULES_TAKEN_MAX. */
static uint32_t take_sketch(struct figures_rule *list, uint32_t count, const struct busiest *sketch,
                            const struct policy *policy, int64_t taken_ns)
{
    int64_t span_ns;
    const struct busiest_counts *counts = recent(sketch, taken_ns, &span_ns);
    if (counts == NULL || sketch->digest != policy_digest(policy))
        return count;
    for (uint32_t k = 0; k < counts->count; k++) {
        struct figures_rule rule;
        if (counts->ranks[k] >= policy_rule_count(policy))
            continue;
        (void)snprintf(rule.name, sizeof rule.name, "%s",
                       policy_rule_at(policy, counts->ranks[k])->name.data);
        rule.checks_rate = rate(counts->checks[k], 0, span_ns);
        rule.denied_rate = rate(counts->denied[k], 0, span_ns);
        count = figures_add_rule(list, count, RULES_TAKEN_MAX, &rule);
    }
    return count;
}

/* The rules of that kind that all shards counted most. */
static uint32_t take_rules(const struct control_report *report, enum busiest_kind kind,
                           struct figures_rule out[FIGURES_RULES])
{
    struct figures_rule all[RULES_TAKEN_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < report->shard_count && report->policy != NULL; i++)
        count = take_sketch(all, count, &report->shards[i].busiest[kind], report->policy,
                            report->shards[i].taken_ns);
    count = count < FIGURES_RULES ? count : FIGURES_RULES;
    memcpy(out, all, count * sizeof *all);
    return count;
}

/* ---- the history ----------------------------------------------------------------------------- */

static uint32_t clamp(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void push_period(struct figures_history *history, uint32_t allowed, uint32_t denied)
{
    const size_t kept = (FIGURES_PERIODS - 1) * sizeof *history->allowed;
    if (history->count == FIGURES_PERIODS) {
        memmove(history->allowed, history->allowed + 1, kept);
        memmove(history->denied, history->denied + 1, kept);
        history->count--;
    }
    history->allowed[history->count] = allowed;
    history->denied[history->count++] = denied;
    history->period++;
}

/* Periods that nobody looked in had nothing: what was decided in them counts in the last one. */
static void take_history(struct figures_meter *meter, int64_t now_ns)
{
    struct figures_history *history = &meter->now.history;
    const uint64_t *values = meter->now.values;
    const uint64_t period = now_ns > 0 ? (uint64_t)(now_ns / SECOND_NS) / FIGURES_PERIOD_S : 0;
    if (history->period == period)
        return;
    if (history->period == 0 || period < history->period ||
        period - history->period > FIGURES_PERIODS) {
        memset(history, 0, sizeof *history);
        history->period = period;
    }
    const bool fell = values[FIGURE_ALLOWED] < meter->period_allowed ||
                      values[FIGURE_DENIED] < meter->period_denied;
    while (history->period < period) {
        const bool last = history->period + 1 == period && !fell;
        push_period(history, last ? clamp(values[FIGURE_ALLOWED] - meter->period_allowed) : 0,
                    last ? clamp(values[FIGURE_DENIED] - meter->period_denied) : 0);
    }
    meter->period_allowed = values[FIGURE_ALLOWED];
    meter->period_denied = values[FIGURE_DENIED];
}

static void drop_last(struct figures_history *history)
{
    history->count--;
    history->period--;
}

/* Makes it reach so many periods back; nothing is known of those that are added. */
static void reach_back(struct figures_history *history, uint32_t count)
{
    const uint32_t more = count - history->count;
    memmove(history->allowed + more, history->allowed, history->count * sizeof *history->allowed);
    memmove(history->denied + more, history->denied, history->count * sizeof *history->denied);
    memset(history->allowed, 0, more * sizeof *history->allowed);
    memset(history->denied, 0, more * sizeof *history->denied);
    history->count = count;
}

void figures_add_history(struct figures_history *sum, const struct figures_history *of)
{
    struct figures_history other = *of;
    if (sum->count == 0 || other.count == 0) {
        *sum = sum->count == 0 ? other : *sum;
        return;
    }
    while (other.count > 0 && other.period > sum->period)
        drop_last(&other);
    if (sum->period > other.period && sum->period - other.period == 1)
        drop_last(sum); /* a node that tells it a moment later */
    if (other.period > sum->period || sum->period - other.period >= FIGURES_PERIODS)
        return;
    const uint32_t ahead = (uint32_t)(sum->period - other.period);
    const uint32_t reach = other.count + ahead;
    if (reach > sum->count)
        reach_back(sum, reach < FIGURES_PERIODS ? reach : (uint32_t)FIGURES_PERIODS);
    for (uint32_t back = 1; back <= other.count && back + ahead <= sum->count; back++) {
        uint32_t *allowed = &sum->allowed[sum->count - ahead - back];
        uint32_t *denied = &sum->denied[sum->count - ahead - back];
        *allowed = clamp((uint64_t)*allowed + other.allowed[other.count - back]);
        *denied = clamp((uint64_t)*denied + other.denied[other.count - back]);
    }
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
    take_history(meter, now_ns);
    meter->now.rule_count = take_rules(report, BUSIEST_ALL, meter->now.rules);
    meter->now.pressed_count = take_rules(report, BUSIEST_PRESSED, meter->now.pressed);
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

static void put_rules(const struct figures_rule *rules, uint32_t count, struct mp_writer *writer)
{
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        mp_put_array(writer, RULE_FIELDS);
        mp_put_str(writer, rules[i].name);
        mp_put_uint(writer, rules[i].checks_rate);
        mp_put_uint(writer, rules[i].denied_rate);
    }
}

static void put_history(const struct figures_history *history, struct mp_writer *writer)
{
    mp_put_array(writer, 3);
    mp_put_uint(writer, history->period);
    mp_put_array(writer, history->count);
    for (uint32_t i = 0; i < history->count; i++)
        mp_put_uint(writer, history->allowed[i]);
    mp_put_array(writer, history->count);
    for (uint32_t i = 0; i < history->count; i++)
        mp_put_uint(writer, history->denied[i]);
}

int figures_encode(const struct figures_frame *frame, void *out, size_t capacity)
{
    const struct join_head head = {frame->type, frame->cluster_id, frame->sender, frame->address};
    const int count = frame->type == FIGURES_TELL ? FIGURES : 0;
    struct mp_writer writer;
    const int error = join_begin(&writer, FIELDS + 3, &head, out, capacity);
    if (error != 0)
        return error;
    mp_put_uint(&writer, frame->number);
    mp_put_array(&writer, (size_t)count);
    for (int i = 0; i < count; i++)
        mp_put_uint(&writer, frame->figures.values[i]);
    put_rules(frame->figures.rules, frame->figures.rule_count, &writer);
    put_rules(frame->figures.pressed, frame->figures.pressed_count, &writer);
    put_history(&frame->figures.history, &writer);
    return join_end(&writer);
}

static void get_rules(struct mp_cursor *cursor, struct figures_rule *rules, uint32_t *known)
{
    const uint32_t count = mp_get_array(cursor);
    for (uint32_t i = 0; i < count && !cursor->failed; i++) {
        struct figures_rule rule;
        const uint32_t fields = mp_get_array(cursor);
        if (fields < RULE_FIELDS)
            cursor->failed = true;
        mp_copy_str(cursor, rule.name, sizeof rule.name);
        rule.checks_rate = mp_get_uint(cursor);
        rule.denied_rate = mp_get_uint(cursor);
        for (uint32_t k = RULE_FIELDS; k < fields && !cursor->failed; k++)
            mp_skip(cursor);
        if (!cursor->failed && *known < FIGURES_RULES)
            rules[(*known)++] = rule;
    }
}

/* The newest ones; how many there were. */
static uint32_t get_periods(struct mp_cursor *cursor, uint32_t out[FIGURES_PERIODS])
{
    const uint32_t count = mp_get_array(cursor);
    const uint32_t older = count > FIGURES_PERIODS ? count - FIGURES_PERIODS : 0;
    for (uint32_t i = 0; i < count && !cursor->failed; i++) {
        const uint64_t value = mp_get_uint(cursor);
        if (i >= older)
            out[i - older] = clamp(value);
    }
    return count - older;
}

static void get_history(struct mp_cursor *cursor, struct figures_history *history)
{
    const uint32_t fields = mp_get_array(cursor);
    if (fields < 3)
        cursor->failed = true;
    history->period = mp_get_uint(cursor);
    history->count = get_periods(cursor, history->allowed);
    if (get_periods(cursor, history->denied) != history->count || history->period < history->count)
        cursor->failed = true;
    for (uint32_t i = 3; i < fields && !cursor->failed; i++)
        mp_skip(cursor);
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
    for (uint32_t i = FIGURES; i < count && !cursor.failed; i++)
        mp_skip(&cursor);
    struct figures *figures = &frame->figures;
    if (mp_peek_type(&cursor) == MP_ARRAY)
        get_rules(&cursor, figures->rules, &figures->rule_count);
    if (mp_peek_type(&cursor) == MP_ARRAY)
        get_rules(&cursor, figures->pressed, &figures->pressed_count);
    if (mp_peek_type(&cursor) == MP_ARRAY)
        get_history(&cursor, &figures->history);
    if (cursor.failed || type < FIGURES_ASK || type >= FIGURES_TYPE_END ||
        (type == FIGURES_TELL && count == 0))
        return TG_EPROTOCOL;
    frame->type = (enum figures_type)type;
    return 0;
}
