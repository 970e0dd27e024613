/* control_admin.c - what an operator asks of the node as a whole: status, members, ring, rules.
 *
 * Each answer is one msgpack value that the CLI prints as it is; its fields are documented in
 * client/protocol/PROTOCOL.md and may grow. Nothing here is on the check path.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/protocol/wire.h"
#include "node/cluster/control_state.h"

enum { REASON_LEN = 160, REASONS_MAX = 8, RULE_TEXT_LEN = 8192 };

struct answer_context {
    struct control *control;
    const struct control_report *report;
    const struct wire_admin *admin;
    struct mp_writer *writer;
    int64_t now_ns;
};

/* ---- small puts ------------------------------------------------------------------------------ */

static void put_field_str(struct mp_writer *writer, const char *name, const char *value)
{
    mp_put_str(writer, name);
    mp_put_str(writer, value);
}

static void put_field_uint(struct mp_writer *writer, const char *name, uint64_t value)
{
    mp_put_str(writer, name);
    mp_put_uint(writer, value);
}

static void put_field_bool(struct mp_writer *writer, const char *name, bool value)
{
    mp_put_str(writer, name);
    mp_put_bool(writer, value);
}

static void put_field_hex(struct mp_writer *writer, const char *name, uint64_t value)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    put_field_str(writer, name, text);
}

static void put_error(struct answer_context *context, int code, const char *text)
{
    wire_begin_admin_reply(context->writer, context->admin->session, context->admin->seq, code);
    mp_put_str(context->writer, text);
}

static void begin(struct answer_context *context)
{
    wire_begin_admin_reply(context->writer, context->admin->session, context->admin->seq, 0);
}

/* ---- status ---------------------------------------------------------------------------------- */

struct health {
    char reasons[REASONS_MAX][REASON_LEN];
    uint32_t count;
    bool rules_agree;
};

static void complain(struct health *health, const char *format, const char *name)
{
    if (health->count < REASONS_MAX)
        (void)snprintf(health->reasons[health->count++], REASON_LEN, format, name);
}

static void look_at_member(const struct control *control, const struct ring_member *listed,
                           struct health *health)
{
    const struct swim_member *member = swim_find(control->swim, listed->id);
    if (member == NULL || member->state != SWIM_ALIVE) {
        complain(health, "%s is not alive", listed->name);
        return;
    }
    if (listed->id == control->options.node_id) {
        if (control->settled_epoch < control->config->epoch)
            complain(health, "%s has not taken over its vnodes yet", listed->name);
        return;
    }
    if (member->record.ring_epoch != control->config->epoch)
        complain(health, "%s works by another ring configuration", listed->name);
    else if (member->record.settled_epoch < control->config->epoch)
        complain(health, "%s has not taken over its vnodes yet", listed->name);
    if (member->record.rules_digest != control->rules_digest)
        health->rules_agree = false;
}

static bool name_taken(const struct control *control, const struct swim_member *member)
{
    for (uint32_t i = 0; i < control->config->to_count; i++) {
        const struct ring_member *listed = &control->config->to[i];
        const struct swim_member *holder = swim_find(control->swim, listed->id);
        if (strcmp(listed->name, member->record.name) == 0 && holder != NULL &&
            holder->state == SWIM_ALIVE)
            return true;
    }
    return false;
}

/* Members that live but have no part in the ring: they are about to be taken in. */
static void look_for_newcomers(const struct control *control, struct health *health)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (member->state == SWIM_ALIVE &&
            ring_config_find(control->config, member->record.id) == NULL)
            complain(health,
                     name_taken(control, member) ? "another living node is called %s too"
                                                 : "%s is not in the ring yet",
                     member->record.name);
}

static void look_at_health(const struct answer_context *context, struct health *health)
{
    const struct control *control = context->control;
    health->count = 0;
    health->rules_agree = true;
    if (!control->joined || control->config->epoch == 0) {
        complain(health, "%s has not joined a cluster yet", control->options.name);
        return;
    }
    if (!ring_config_is_stable(control->config))
        complain(health, "the ring configuration is changing%s", "");
    for (uint32_t i = 0; i < control->config->to_count; i++)
        look_at_member(control, &control->config->to[i], health);
    look_for_newcomers(control, health);
    for (uint32_t i = 0; i < context->report->shard_count; i++)
        if (context->report->shards[i].vnodes_recovering > 0)
            complain(health, "vnodes of %s are recovering", control->options.name);
    if (!context->report->storage_ok)
        complain(health, "%s cannot write to its disk", control->options.name);
}

static void put_members_count(const struct control *control, struct mp_writer *writer)
{
    struct swim_stats stats;
    swim_stats(control->swim, &stats);
    mp_put_str(writer, "members");
    mp_put_map(writer, 4);
    put_field_uint(writer, "alive", stats.alive);
    put_field_uint(writer, "suspect", stats.suspect);
    put_field_uint(writer, "dead", stats.dead);
    put_field_uint(writer, "left", stats.left);
}

static void put_shard(const struct shard_stats *stats, struct mp_writer *writer)
{
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
        {"checks", stats->checks},
        {"allowed", stats->allowed},
        {"denied", stats->denied},
        {"forwarded", stats->forwarded},
        {"moved", stats->moved},
        {"busy", stats->busy},
        {"expired", stats->expired},
        {"retries_recalled", stats->retries_recalled},
        {"takeovers", stats->takeovers},
        {"terms_opened", stats->terms_opened},
        {"stepped_down", stats->stepped_down},
        {"stale_writes", stats->stale_writes},
        {"slots_replicated", stats->slots_replicated},
        {"resyncs", stats->resyncs},
        {"loads", stats->loads},
        {"loads_missed", stats->loads_missed},
        {"filter_refreshes", stats->filter_refreshes},
        {"stalls", stats->stalls},
        {"bad_frames", stats->bad_frames},
        {"frames_dropped", stats->frames_dropped},
        {"undone", stats->undone},
        {"undo_lost", stats->undo_lost},
        {"unconfirmed", stats->unconfirmed},
        {"slots", stats->slots},
        {"slots_max", stats->slots_max},
        {"evicted", stats->evicted},
        {"forgotten", stats->forgotten},
        {"vnodes_deciding", stats->vnodes_deciding},
        {"vnodes_replica", stats->vnodes_replica},
        {"vnodes_recovering", stats->vnodes_recovering},
        {"parts_waiting", stats->parts_waiting},
    };
    mp_put_map(writer, sizeof fields / sizeof *fields);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        put_field_uint(writer, fields[i].name, fields[i].value);
}

static void put_cluster_id(const struct control *control, struct mp_writer *writer)
{
    char text[2 * CONTROL_CLUSTER_ID_LEN + 1] = "";
    for (size_t i = 0; control->joined && i < CONTROL_CLUSTER_ID_LEN; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", control->identity.cluster_id[i]);
    put_field_str(writer, "cluster_id", text);
}

static void answer_status(struct answer_context *context)
{
    const struct control *control = context->control;
    const struct control_report *report = context->report;
    struct mp_writer *writer = context->writer;
    struct health health;
    look_at_health(context, &health);
    begin(context);
    mp_put_map(writer, 15);
    put_field_str(writer, "node", control->options.name);
    put_field_hex(writer, "node_id", control->options.node_id);
    put_cluster_id(control, writer);
    put_field_str(writer, "version", control->options.version);
    put_field_bool(writer, "healthy", health.count == 0);
    mp_put_str(writer, "reasons");
    mp_put_array(writer, health.count);
    for (uint32_t i = 0; i < health.count; i++)
        mp_put_str(writer, health.reasons[i]);
    put_field_uint(writer, "epoch", control->config->epoch);
    put_field_bool(writer, "stable", ring_config_is_stable(control->config));
    put_field_uint(writer, "vnodes_total", control->identity.vnodes);
    put_field_uint(writer, "replicas", control->identity.replicas);
    put_field_uint(writer, "uptime_ms", (uint64_t)(context->now_ns - report->started_ns) / 1000000);
    put_members_count(control, writer);
    mp_put_str(writer, "storage");
    mp_put_map(writer, 3);
    put_field_str(writer, "kind", report->storage);
    put_field_bool(writer, "ok", report->storage_ok);
    put_field_uint(writer, "flush_lag_ms", (uint64_t)report->flush_lag_ns / 1000000);
    mp_put_str(writer, "rules");
    mp_put_map(writer, 3);
    put_field_uint(writer, "count", policy_rule_count(report->policy));
    put_field_hex(writer, "digest", policy_digest(report->policy));
    put_field_bool(writer, "agree", health.rules_agree);
    mp_put_str(writer, "shards");
    mp_put_array(writer, report->shard_count);
    for (uint32_t i = 0; i < report->shard_count; i++)
        put_shard(&report->shards[i], writer);
}

/* ---- members and ring ------------------------------------------------------------------------ */

/* How many vnodes each member owns, by a table made for the occasion; NULL without memory. */
static struct view *owners(struct answer_context *context)
{
    return control_view(context->control);
}

static void put_member(const struct view *view, const struct view_member *member,
                       struct mp_writer *writer)
{
    mp_put_map(writer, 13);
    put_field_str(writer, "name", member->name);
    put_field_hex(writer, "id", member->id);
    put_field_str(writer, "region", member->region);
    put_field_str(writer, "zone", member->zone);
    put_field_str(writer, "state", view_state_name(member->state));
    put_field_str(writer, "client", member->client);
    put_field_str(writer, "peer", member->peer);
    put_field_str(writer, "gossip", member->gossip);
    put_field_uint(writer, "incarnation", member->incarnation);
    put_field_uint(writer, "vnodes", view_owned(view, member->id));
    put_field_uint(writer, "ring_epoch", member->ring_epoch);
    put_field_hex(writer, "rules_digest", member->rules_digest);
    put_field_str(writer, "version", member->version);
}

static void answer_members(struct answer_context *context)
{
    struct view *view = owners(context);
    if (view == NULL) {
        put_error(context, TG_EUNAVAILABLE, "this node has not joined a cluster yet");
        return;
    }
    begin(context);
    mp_put_array(context->writer, view->member_count);
    for (uint32_t i = 0; i < view->member_count; i++)
        put_member(view, &view->members[i], context->writer);
    view_free(&view);
}

static void answer_ring(struct answer_context *context)
{
    const struct ring_config *config = context->control->config;
    struct mp_writer *writer = context->writer;
    struct view *view = owners(context);
    if (view == NULL) {
        put_error(context, TG_EUNAVAILABLE, "this node has not joined a cluster yet");
        return;
    }
    begin(context);
    mp_put_map(writer, 5);
    put_field_uint(writer, "epoch", config->epoch);
    put_field_bool(writer, "stable", ring_config_is_stable(config));
    put_field_uint(writer, "vnodes", config->vnodes);
    put_field_uint(writer, "replicas", config->replicas);
    mp_put_str(writer, "members");
    mp_put_array(writer, config->to_count);
    for (uint32_t i = 0; i < config->to_count; i++) {
        const struct ring_member *member = &config->to[i];
        mp_put_map(writer, 5);
        put_field_str(writer, "name", member->name);
        put_field_hex(writer, "id", member->id);
        put_field_str(writer, "zone", member->zone_name);
        put_field_uint(writer, "weight", member->weight);
        put_field_uint(writer, "vnodes", view_owned(view, member->id));
    }
    view_free(&view);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void put_rule(const struct policy_rule *rule, struct mp_writer *writer)
{
    char text[RULE_TEXT_LEN];
    mp_put_map(writer, 7);
    put_field_str(writer, "name", rule->name.data);
    mp_put_str(writer, "priority");
    mp_put_int(writer, rule->priority);
    put_field_str(writer, "action", policy_act_name(rule->act));
    mp_put_str(writer, "key");
    mp_put_array(writer, rule->key_count);
    for (uint32_t i = 0; i < rule->key_count; i++)
        mp_put_str(writer, rule->key[i].data);
    mp_put_str(writer, "limits");
    mp_put_array(writer, rule->limit_count);
    for (uint32_t i = 0; i < rule->limit_count; i++) {
        (void)snprintf(text, sizeof text, "%s %s", rule->windows[i],
                       algorithm_name(rule->limits[i].algorithm));
        mp_put_str(writer, text);
    }
    put_field_bool(writer, "enabled", rule->enabled);
    const int len = policy_format_rule(rule, text, sizeof text);
    put_field_str(writer, "rule", len > 0 ? text : "");
}

static void answer_rules(struct answer_context *context)
{
    const struct policy *policy = context->report->policy;
    begin(context);
    mp_put_array(context->writer, policy_rule_count(policy));
    for (size_t i = 0; i < policy_rule_count(policy); i++)
        put_rule(policy_rule_at(policy, i), context->writer);
}

static const char *read_text(const struct wire_admin *admin, size_t *len)
{
    struct mp_cursor cursor;
    const char *text = NULL;
    mp_cursor_init(&cursor, admin->arguments.tokens, admin->arguments.token_count);
    const uint32_t pairs = mp_get_map(&cursor);
    for (uint32_t i = 0; i < pairs && !cursor.failed; i++) {
        size_t name_len;
        const char *name = mp_get_str(&cursor, &name_len);
        if (name_len == 4 && memcmp(name, "text", 4) == 0)
            text = mp_get_str(&cursor, len);
        else
            mp_skip(&cursor);
    }
    return cursor.failed ? NULL : text;
}

static void answer_validate(struct answer_context *context)
{
    struct policy_error error;
    struct policy *policy;
    size_t len = 0;
    const char *text = read_text(context->admin, &len);
    if (text == NULL) {
        put_error(context, TG_EINVALID, "rules.validate: expected {\"text\": rules as YAML}");
        return;
    }
    const int result = policy_compile(text, len, context->control->allocator, &policy, &error);
    struct mp_writer *writer = context->writer;
    begin(context);
    if (result == 0) {
        mp_put_map(writer, 3);
        put_field_bool(writer, "ok", true);
        put_field_uint(writer, "rules", policy_rule_count(policy));
        put_field_hex(writer, "digest", policy_digest(policy));
        policy_free(&policy);
        return;
    }
    mp_put_map(writer, 4);
    put_field_bool(writer, "ok", false);
    put_field_uint(writer, "line", error.line);
    put_field_uint(writer, "column", error.column);
    put_field_str(writer, "message", error.message);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static const struct {
    const char *command;
    void (*answer)(struct answer_context *context);
} commands[] = {
    {"status", answer_status},    {"members", answer_members},         {"ring", answer_ring},
    {"rules.list", answer_rules}, {"rules.validate", answer_validate},
};

static void dispatch(struct answer_context *context)
{
    const struct wire_text *asked = &context->admin->command;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (asked->len == strlen(commands[i].command) &&
            memcmp(asked->data, commands[i].command, asked->len) == 0) {
            commands[i].answer(context);
            return;
        }
    }
    put_error(context, TG_EUNSUPPORTED,
              "unknown command; expected status, members, ring, owner, rules.list or "
              "rules.validate");
}

size_t control_admin(struct control *control, int64_t now_ns, const void *frame, size_t len,
                     const struct control_report *report, void *out, size_t capacity)
{
    char error[WIRE_ERROR_LEN];
    struct mp_token tokens[SHARD_ADMIN_TOKENS_MAX];
    struct wire_admin admin;
    struct mp_writer writer;
    struct answer_context context = {control, report, &admin, &writer, now_ns};
    memset(&admin, 0, sizeof admin);
    mp_writer_init(&writer, out, capacity);
    const int result = wire_decode_admin(frame, len, tokens, SHARD_ADMIN_TOKENS_MAX, &admin, error);
    if (result != 0)
        put_error(&context, result, error);
    else
        dispatch(&context);
    if (writer.failed) {
        mp_writer_init(&writer, out, capacity);
        put_error(&context, TG_ETOOBIG, "the answer is larger than a message may be");
    }
    ASSERT(!writer.failed);
    return writer.len;
}
