/* control_regions_answer.c - regions: what this node knows of each region, and how fresh that is.
 *
 * Members are counted by the state that is known of them here. Of a region that is cut off that is
 * the last one it told: `heard_ms` says how long ago, whoever was told; `contact_ms`, when one of
 * its members last spoke to this node; `rtt_ms`, the round trip there. Of the own region, and where
 * nothing was measured, they are nil.
 */
#include <string.h>

#include "node/cluster/control_answer.h"

enum { REGIONS_MAX = 128 };

struct region_row {
    const char *name;
    uint32_t members[VIEW_LEFT + 1]; /* by state */
};

/* The row of the region, a new one if it has none; NULL without room. */
static struct region_row *find_row(struct region_row *rows, uint32_t *count, const char *name)
{
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    if (*count == REGIONS_MAX)
        return NULL;
    rows[*count] = (struct region_row){.name = name};
    return &rows[(*count)++];
}

/* Before `name` in the order of the rows: the own region first, then by name. */
static bool goes_before(const struct control *control, const char *a, const char *b)
{
    const bool own = strcmp(a, control->options.region) == 0;
    return own || (strcmp(b, control->options.region) != 0 && strcmp(a, b) < 0);
}

static void sort_rows(const struct control *control, struct region_row *rows, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const struct region_row row = rows[i];
        uint32_t at = i;
        for (; at > 0 && goes_before(control, row.name, rows[at - 1].name); at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

static void put_age(struct mp_writer *writer, const char *name, int64_t now_ns, int64_t at_ns)
{
    mp_put_str(writer, name);
    if (at_ns == 0)
        mp_put_nil(writer);
    else
        mp_put_uint(writer, now_ns > at_ns ? (uint64_t)(now_ns - at_ns) / 1000000 : 0);
}

static void put_row(const struct control *control, int64_t now_ns, const struct region_row *row,
                    struct mp_writer *writer)
{
    const bool own = strcmp(row->name, control->options.region) == 0;
    struct control_region_news news = {.heard_ns = 0};
    if (!own)
        news = control_region_news(control, row->name);
    mp_put_map(writer, 10);
    put_field_str(writer, "name", row->name);
    put_field_bool(writer, "own", own);
    put_field_bool(writer, "in_reach", own || control_region_in_reach(control, row->name));
    put_field_uint(writer, "alive", row->members[SWIM_ALIVE]);
    put_field_uint(writer, "suspect", row->members[SWIM_SUSPECT]);
    put_field_uint(writer, "dead", row->members[SWIM_DEAD]);
    put_field_uint(writer, "left", row->members[SWIM_LEFT]);
    put_age(writer, "heard_ms", now_ns, news.heard_ns);
    put_age(writer, "contact_ms", now_ns, news.contact_ns);
    mp_put_str(writer, "rtt_ms");
    if (news.rtt_ns == 0)
        mp_put_nil(writer);
    else
        mp_put_uint(writer, (uint64_t)(news.rtt_ns + 999999) / 1000000);
}

/* What this node's shards hold of keys that other regions count, and what became of it. */
static void put_leases(const struct control_report *report, struct mp_writer *writer)
{
    struct shard_stats sum = {.global_held = 0};
    for (uint32_t i = 0; i < report->shard_count; i++) {
        const struct shard_stats *shard = &report->shards[i];
        sum.global_held += shard->global_held;
        sum.global_tokens += shard->global_tokens;
        sum.global_back += shard->global_back;
        sum.global_allowed += shard->global_allowed;
        sum.global_denied += shard->global_denied;
        sum.global_local += shard->global_local;
        sum.abroad_asked += shard->abroad_asked;
        sum.abroad_served += shard->abroad_served;
    }
    mp_put_str(writer, "leases");
    mp_put_map(writer, 8);
    put_field_uint(writer, "held", sum.global_held);
    put_field_uint(writer, "taken", sum.global_tokens);
    put_field_uint(writer, "returned", sum.global_back);
    put_field_uint(writer, "allowed", sum.global_allowed);
    put_field_uint(writer, "denied", sum.global_denied);
    put_field_uint(writer, "local", sum.global_local);
    put_field_uint(writer, "asked", sum.abroad_asked);
    put_field_uint(writer, "served", sum.abroad_served);
}

void answer_regions(struct answer_context *context)
{
    const struct control *control = context->control;
    struct mp_writer *writer = context->writer;
    struct region_row rows[REGIONS_MAX];
    uint32_t count = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        struct region_row *row = find_row(rows, &count, member->record.region);
        if (row != NULL)
            row->members[member->state]++;
    }
    sort_rows(control, rows, count);
    answer_begin(context);
    mp_put_map(writer, 4);
    put_field_str(writer, "node", control->options.name);
    put_field_str(writer, "region", control->options.region);
    mp_put_str(writer, "regions");
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        put_row(control, context->now_ns, &rows[i], writer);
    put_leases(context->report, writer);
}
