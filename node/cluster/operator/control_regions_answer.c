/* control_regions_answer.c - regions: what this node knows of each region, and how fresh that is;
 * and removing one that is gone.
 *
 * Members are counted by the state that is known of them here. Of a region that is cut off that is
 * the last one it told: `heard_ms` says how long ago, whoever was told; `contact_ms`, when one of
 * its members last spoke to this node; `rtt_ms`, the round trip there. Of the own region, and where
 * nothing was measured, they are nil. A region is listed while it has a record or a member that has
 * not left.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/operator/control_answer.h"

enum { ROWS_MAX = 2 * SWIM_REGIONS_MAX };

static void put_age(struct mp_writer *writer, const char *name, int64_t now_ns, int64_t at_ns)
{
    mp_put_str(writer, name);
    if (at_ns == 0)
        mp_put_nil(writer);
    else
        mp_put_uint(writer, now_ns > at_ns ? (uint64_t)(now_ns - at_ns) / 1000000 : 0);
}

/* Whether it has one, as the configuration store says. */
static const char *ring_of(const struct control *control, const char *name)
{
    const struct view_regions *regions = &control->regions;
    for (uint32_t i = 0; i < regions->count; i++)
        if (strcmp(regions->names[i], name) == 0)
            return "yes";
    return control_region_record(control, name) != NULL ? "awaited" : "none";
}

/* What the shards hold of keys that the region counts. */
static void put_held(const struct control_report *report, const char *name,
                     struct mp_writer *writer)
{
    const uint64_t region = policy_region_id(name, strlen(name));
    uint64_t tokens = 0;
    uint64_t keys = 0;
    for (uint32_t i = 0; i < report->shard_count; i++) {
        const struct shard_stats *shard = &report->shards[i];
        for (uint32_t at = 0; at < shard->holding_count; at++) {
            tokens += shard->holding[at].region == region ? shard->holding[at].tokens : 0;
            keys += shard->holding[at].region == region ? shard->holding[at].keys : 0;
        }
    }
    put_field_uint(writer, "held", tokens);
    put_field_uint(writer, "held_keys", keys);
}

static void put_row(const struct control *control, const struct control_report *report,
                    int64_t now_ns, const struct swim_region *region, struct mp_writer *writer)
{
    const bool own = strcmp(region->name, control->options.region) == 0;
    const bool told = !own && region->heard_ns != 0;
    const uint32_t removed = own ? control_count_removed(control) : 0;
    const bool reached = own || control_region_reached(now_ns, region);
    mp_put_map(writer, 14);
    put_field_str(writer, "name", region->name);
    put_field_bool(writer, "own", own);
    put_field_str(writer, "ring", ring_of(control, region->name));
    put_field_bool(writer, "in_reach", reached);
    control_put_time(writer, "unreachable_since",
                     reached || !told ? 0 : (uint64_t)(region->heard_ns / CONTROL_MS));
    put_field_uint(writer, "alive", region->members[SWIM_ALIVE]);
    put_field_uint(writer, "suspect", region->members[SWIM_SUSPECT]);
    put_field_uint(writer, "dead", region->members[SWIM_DEAD] - removed);
    put_field_uint(writer, "left", region->members[SWIM_LEFT] + removed);
    put_age(writer, "heard_ms", now_ns, told ? region->heard_ns : 0);
    put_age(writer, "contact_ms", now_ns, own ? 0 : region->last_contact_ns);
    mp_put_str(writer, "rtt_ms");
    if (own || region->rtt_ns == 0)
        mp_put_nil(writer);
    else
        mp_put_uint(writer, (uint64_t)(region->rtt_ns + 999999) / 1000000);
    put_held(report, region->name, writer);
}

static uint32_t add_row(struct swim_region rows[ROWS_MAX], uint32_t count,
                        const struct swim_region *region)
{
    uint32_t at = count;
    if (count == ROWS_MAX)
        return count;
    for (; at > 1 && strcmp(rows[at - 1].name, region->name) > 0; at--)
        rows[at] = rows[at - 1];
    rows[at] = *region;
    return count + 1;
}

/* The own region first and the others by name. */
static uint32_t list_regions(const struct control *control, struct swim_region rows[ROWS_MAX])
{
    uint32_t count = 0;
    size_t cursor = 0;
    const struct swim_region *region;
    const struct settings_entry *record;
    while ((region = swim_region_next(control->swim, &cursor)) != NULL)
        if (region->members[SWIM_ALIVE] + region->members[SWIM_SUSPECT] +
                    region->members[SWIM_DEAD] >
                0 ||
            control_region_record(control, region->name) != NULL)
            count = add_row(rows, count, region);
    for (cursor = 0; (record = control_setting_next(control, SETTINGS_REGION, &cursor)) != NULL;) {
        struct swim_region silent; /* nothing was heard of it since this process started */
        memset(&silent, 0, sizeof silent);
        if (record->name.len >= sizeof silent.name)
            continue;
        memcpy(silent.name, record->name.data, record->name.len);
        if (control_region_find(control, silent.name) == NULL)
            count = add_row(rows, count, &silent);
    }
    return count;
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
        sum.global_waited += shard->global_waited;
        sum.global_late += shard->global_late;
        sum.global_leases += shard->global_leases;
        sum.withheld += shard->withheld;
        sum.remote_asked += shard->remote_asked;
        sum.remote_served += shard->remote_served;
    }
    mp_put_str(writer, "leases");
    mp_put_map(writer, 12);
    put_field_uint(writer, "held", sum.global_held);
    put_field_uint(writer, "taken", sum.global_tokens);
    put_field_uint(writer, "returned", sum.global_back);
    put_field_uint(writer, "allowed", sum.global_allowed);
    put_field_uint(writer, "denied", sum.global_denied);
    put_field_uint(writer, "local", sum.global_local);
    put_field_uint(writer, "waited", sum.global_waited);
    put_field_uint(writer, "late", sum.global_late);
    put_field_uint(writer, "grants", sum.global_leases);
    put_field_uint(writer, "withheld", sum.withheld);
    put_field_uint(writer, "asked", sum.remote_asked);
    put_field_uint(writer, "served", sum.remote_served);
}

void answer_regions(struct answer_context *context)
{
    const struct control *control = context->control;
    struct swim_region rows[ROWS_MAX];
    struct mp_writer *writer = context->writer;
    const uint32_t count = list_regions(control, rows);
    answer_begin(context);
    mp_put_map(writer, 4);
    put_field_str(writer, "node", control->options.name);
    put_field_str(writer, "region", control->options.region);
    mp_put_str(writer, "regions");
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        put_row(control, context->report, context->now_ns, &rows[i], writer);
    put_leases(context->report, writer);
}

/* ---- remove ---------------------------------------------------------------------------------- */

void answer_remove_region(struct answer_context *context, const char *region, bool force)
{
    struct control *control = context->control;
    struct mp_writer *writer = context->writer;
    char sentence[CONTROL_SENTENCE_LEN];
    if (!control->joined || control->settings->version == 0) {
        answer_error(context, TG_EUNAVAILABLE, "this node does not know the cluster's regions yet");
        return;
    }
    if (control_region_record(control, region) == NULL &&
        control_region_find(control, region) == NULL && strcmp(control->removed, region) != 0) {
        (void)snprintf(sentence, sizeof sentence,
                       "no region is called '%s'; expected one of `tidegate status --regions`",
                       region);
        answer_error(context, TG_ENOTFOUND, sentence);
        return;
    }
    const int error = control_region_remove(control, context->now_ns, region,
                                            context->report->policy, force, sentence);
    if (error != 0) {
        answer_error(context, error, sentence);
        return;
    }
    const bool done = control_region_gone(control, region);
    answer_begin(context);
    mp_put_map(writer, 4);
    put_field_str(writer, "region", region);
    put_field_str(writer, "state", done ? "removed" : "removing");
    put_field_bool(writer, "done", done);
    put_field_str(writer, "waits_for", control_region_removal(control, region));
}
