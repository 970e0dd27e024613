/* control_nodes.c - status: a row a node, with what it tells of itself, and the last changes.
 *
 * Whoever is ill stands before the others where not all fit; both by region, the own one first,
 * and name. Figures are there while somebody looks (gather.h), of this node itself always.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/natural.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/operator/control_answer.h"
#include "node/policy/rights/credential.h"

enum { NODES_MAX = 512, CHANGES_MAX = 5, LOOKED_MAX = 64, CHANGE_LEN = 160, NODE_FIELDS = 17 };

struct nodes {
    const struct swim_member *list[NODES_MAX];
    uint32_t count;
    uint32_t more;
};

/* ---- which rows ------------------------------------------------------------------------------ */

static bool is_ill(const struct answer_context *context, const struct swim_member *member)
{
    return member->state != SWIM_ALIVE ||
           control_health_of(context->control, member, context->report) != 0 ||
           control_lost_since(context->control, member->record.id) != 0;
}

static int compare(const struct control *control, const struct swim_member *a,
                   const struct swim_member *b)
{
    const int remote = (int)control_remote(control, a) - (int)control_remote(control, b);
    if (remote != 0)
        return remote;
    const int regions = natural_compare(a->record.region, b->record.region);
    return regions != 0 ? regions : natural_compare(a->record.name, b->record.name);
}

enum which { ALL, ILL, WELL };

/* Inserts these members behind those that are there, in their order. */
static void collect(const struct answer_context *context, enum which which, struct nodes *nodes)
{
    const struct control *control = context->control;
    const uint32_t from = nodes->count;
    const struct swim_member *member;
    size_t cursor = 0;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        const struct swim_record *record = &member->record;
        static const enum view_state states[] = {VIEW_ALIVE, VIEW_SUSPECT, VIEW_DEAD, VIEW_LEFT};
        if ((which != ALL && is_ill(context, member) != (which == ILL)) ||
            control_gone(control, states[member->state], record->region, record->id))
            continue;
        if (nodes->count == NODES_MAX) {
            nodes->more++;
            continue;
        }
        uint32_t at = nodes->count++;
        for (; at > from && compare(control, member, nodes->list[at - 1]) < 0; at--)
            nodes->list[at] = nodes->list[at - 1];
        nodes->list[at] = member;
    }
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* How far its clock is off the cluster's, or its time is, whichever is more. */
static void put_skew(const struct control *control, const struct swim_member *member,
                     struct mp_writer *writer)
{
    const struct view_clock clock = control_clock_of(control, member->record.id);
    const bool wall = llabs(clock.wall_skew_ns) > llabs(clock.skew_ns);
    mp_put_str(writer, "skew_us");
    if (clock.verdict == CLOCK_UNKNOWN && !clock.held)
        mp_put_nil(writer);
    else
        mp_put_int(writer, (wall ? clock.wall_skew_ns : clock.skew_ns) / 1000);
}

static void put_age(const struct control *control, const struct swim_member *member,
                    struct mp_writer *writer)
{
    const int64_t age_ns = control->now_ns - member->since_ns;
    put_field_uint(writer, "state_for_ms", age_ns > 0 ? (uint64_t)(age_ns / CONTROL_MS) : 0);
}

static bool votes(const struct control *control, uint64_t id)
{
    for (uint32_t i = 0; i < control->config->voters_count; i++)
        if (control->config->voters[i] == id)
            return true;
    return false;
}

/* Whether it has a trouble with which the cluster is not healthy: not all conditions are told. */
static bool is_gravely_ill(const struct answer_context *context, const struct swim_member *member)
{
    return member->state <= SWIM_SUSPECT &&
           health_grave(control_health_of(context->control, member, context->report)) != 0;
}

static void put_node(const struct answer_context *context, const struct swim_member *member)
{
    const struct control *control = context->control;
    const struct swim_record *record = &member->record;
    struct mp_writer *writer = context->writer;
    const struct figures *figures = control_figures_of(control, record->id);
    const int64_t lost_ns = control_lost_since(control, record->id);
    mp_put_map(writer, NODE_FIELDS);
    put_field_str(writer, "name", record->name);
    put_field_hex(writer, "id", record->id);
    put_field_bool(writer, "own", record->id == control->options.node_id);
    put_field_str(writer, "region", swim_region_name(record));
    put_field_str(writer, "zone", record->zone);
    put_field_str(writer, "state", swim_state_name(member->state));
    put_age(control, member, writer);
    put_field_str(writer, "ring", control_place_in_ring(control, record->region, record->id));
    put_field_bool(writer, "voter", votes(control, record->id));
    put_field_str(writer, "client", record->client);
    put_field_str(writer, "version", record->software);
    put_field_uint(writer, "rtt_us", (uint64_t)member->rtt_ns / 1000);
    control_put_health(context, record->id);
    put_field_bool(writer, "grave", is_gravely_ill(context, member));
    put_skew(control, member, writer);
    control_put_time(writer, "unreachable_since", (uint64_t)(lost_ns / CONTROL_MS));
    mp_put_str(writer, "figures");
    if (figures != NULL && member->state <= SWIM_SUSPECT)
        figures_put(figures, writer);
    else
        mp_put_nil(writer);
}

void control_put_nodes(const struct answer_context *context)
{
    struct mp_writer *writer = context->writer;
    struct nodes nodes = {.count = 0};
    if (context->control->joined)
        collect(context, ALL, &nodes);
    if (nodes.more > 0) {
        nodes.count = nodes.more = 0;
        collect(context, ILL, &nodes);
        collect(context, WELL, &nodes);
    }
    mp_put_str(writer, "nodes");
    mp_put_array(writer, nodes.count);
    for (uint32_t i = 0; i < nodes.count; i++)
        put_node(context, nodes.list[i]);
    put_field_uint(writer, "nodes_more", nodes.more);
    put_field_uint(writer, "figures_awaited", control_figures_awaited(context->control));
}

/* ---- the last changes ------------------------------------------------------------------------ */

/* What is blocked, but not whom, as in the log (NEWS-3): not all who see this may see `blocks`. */
static void say_block(const struct settings_op *op, char *out)
{
    const char *done = op->removes ? "unblocked" : "blocked";
    const bool attribute = op->name.len > 5 && memcmp(op->name.data, "attr ", 5) == 0;
    const bool addresses = op->name.len > 5 && memcmp(op->name.data, "cidr ", 5) == 0;
    const char *name = op->name.data + 5;
    const char *end = attribute ? memchr(name, '=', op->name.len - 5) : NULL;
    if (end != NULL)
        (void)snprintf(out, CHANGE_LEN, "%s by %.*s", done, (int)(end - name), name);
    else
        (void)snprintf(out, CHANGE_LEN, "%s %s", done, addresses ? "addresses" : "an inline key");
}

static void say_op(const struct settings_change *change, const struct settings_op *op, char *out)
{
    switch (op->kind) {
    case SETTINGS_RULES:
        (void)snprintf(out, CHANGE_LEN, "rules version %u",
                       settings_version_shown(change->version));
        break;
    case SETTINGS_BLOCK:
        say_block(op, out);
        break;
    case SETTINGS_QUOTA:
        (void)snprintf(out, CHANGE_LEN, "quota of a user %s", op->removes ? "deleted" : "set");
        break;
    case SETTINGS_CREDENTIAL:
        (void)snprintf(out, CHANGE_LEN, "credential %.*s %s", (int)op->name.len, op->name.data,
                       credential_revoked(op->value.data, op->value.len) ? "revoked" : "set");
        break;
    case SETTINGS_API_KEY:
        (void)snprintf(out, CHANGE_LEN, "API key %s", op->removes ? "deleted" : "set");
        break;
    default:
        (void)snprintf(out, CHANGE_LEN, "configuration");
        break;
    }
}

/* What people have done: upkeep has no author, and what stands beside rules is no change of its
 * own. */
static const struct settings_op *op_of(const struct settings_change *change)
{
    for (uint32_t i = 0; i < change->op_count && change->author.len > 0; i++)
        if (change->ops[i].kind != SETTINGS_ORDINALS && change->ops[i].kind != SETTINGS_REGION &&
            (change->ops[i].kind != SETTINGS_RULES || !change->ops[i].removes))
            return &change->ops[i];
    return NULL;
}

/* The change that is the `back`-th newest one; false if it is none of people. */
static bool read_change(const struct control *control, uint32_t back,
                        struct settings_change *change)
{
    const struct settings_log *log = &control->settings->log;
    const uint32_t at = (log->first + log->count - 1 - back) % SETTINGS_LOG_MAX;
    return settings_change_decode(log->changes[at].bytes, log->changes[at].len, change) == 0 &&
           op_of(change) != NULL;
}

void control_put_changes(const struct answer_context *context)
{
    const struct control *control = context->control;
    const struct settings_log *log = &control->settings->log;
    struct mp_writer *writer = context->writer;
    struct settings_change change;
    uint32_t count = 0;
    for (uint32_t back = 0; back < log->count && back < LOOKED_MAX && count < CHANGES_MAX; back++)
        count += read_change(control, back, &change);
    mp_put_str(writer, "changes");
    mp_put_array(writer, count);
    for (uint32_t back = 0; count > 0; back++) {
        char says[CHANGE_LEN];
        if (!read_change(control, back, &change))
            continue;
        count--;
        say_op(&change, op_of(&change), says);
        mp_put_map(writer, 6);
        put_field_uint(writer, "version", settings_version_shown(change.version));
        put_field_uint(writer, "time_ms", (uint64_t)change.time_ms);
        control_put_time(writer, "time", (uint64_t)change.time_ms);
        mp_put_str(writer, "author");
        mp_put_strn(writer, change.author.data, change.author.len);
        put_field_str(writer, "says", says);
        mp_put_str(writer, "note");
        mp_put_strn(writer, change.note.data, change.note.len);
    }
}
