/* control_admin.c - what an operator asks of the node as a whole; dispatch, members and the ring.
 *
 * Each answer is one msgpack value that the CLI prints as it is; its fields are documented in
 * client/protocol/PROTOCOL.md and may grow. Nothing here is on the check path.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp_walk.h"
#include "base/natural.h"
#include "node/cluster/exposition/metrics_page.h"
#include "node/cluster/operator/control_answer.h"

enum { ROWS_MAX = 1000 }; /* of a list */

/* ---- small puts ------------------------------------------------------------------------------ */

void put_field_str(struct mp_writer *writer, const char *name, const char *value)
{
    mp_put_str(writer, name);
    mp_put_str(writer, value);
}

void put_field_uint(struct mp_writer *writer, const char *name, uint64_t value)
{
    mp_put_str(writer, name);
    mp_put_uint(writer, value);
}

void put_field_bool(struct mp_writer *writer, const char *name, bool value)
{
    mp_put_str(writer, name);
    mp_put_bool(writer, value);
}

void put_field_hex(struct mp_writer *writer, const char *name, uint64_t value)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    put_field_str(writer, name, text);
}

bool answer_argument(const struct answer_context *context, const char *name,
                     struct mp_cursor *cursor)
{
    const struct wire_value *all = &context->admin->arguments;
    const struct mp_token *found = mp_find(all->tokens, all->token_count, name);
    const size_t left = found != NULL ? all->token_count - (size_t)(found - all->tokens) : 0;
    mp_cursor_init(cursor, found, left);
    return found != NULL;
}

void answer_error(struct answer_context *context, int code, const char *text)
{
    wire_begin_admin_reply(context->writer, context->admin->session, context->admin->seq, code);
    mp_put_str(context->writer, text);
}

void answer_waiting(struct answer_context *context)
{
    char sentence[CONTROL_SENTENCE_LEN];
    if (!control_waiting(context->control, sentence, sizeof sentence))
        (void)snprintf(sentence, sizeof sentence, "out of memory for the answer");
    answer_error(context, TG_EUNAVAILABLE, sentence);
}

void answer_begin(struct answer_context *context)
{
    wire_begin_admin_reply(context->writer, context->admin->session, context->admin->seq, 0);
}

bool answer_too_large(const struct answer_context *context)
{
    return context->writer->failed || context->writer->tokens > WIRE_ADMIN_TOKENS_MAX;
}

uint32_t answer_rows(struct answer_context *context, size_t count)
{
    const uint32_t rows = count < context->rows_max ? (uint32_t)count : context->rows_max;
    ASSERT(rows <= count && rows <= context->rows_max); /* OPERATOR-3 */
    context->lists = true;
    answer_begin(context);
    mp_put_array(context->writer, rows);
    return rows;
}

size_t answer_rows_from(const struct answer_context *context, uint32_t kind, size_t *end)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &context->control->settings->table;
    const struct settings_text after = control_read_text(context, "after");
    *end = settings_table_at(table, kind + 1, &none);
    if (after.data == NULL)
        return settings_table_at(table, kind, &none);
    const size_t at = settings_table_at(table, kind, &after);
    ASSERT(at <= *end); /* SETTINGSTABLE-1 */
    const bool found =
        at < *end && settings_compare(kind, &table->records[at]->entry.name, kind, &after) == 0;
    return found ? at + 1 : at;
}

/* ---- members and ring ------------------------------------------------------------------------ */

/* How many vnodes each member owns, by a table made for the occasion; NULL without memory. */
static struct view *owners(struct answer_context *context)
{
    return control_view(context->control);
}

const char *control_place_in_ring(const struct control *control, const char *region, uint64_t id)
{
    if (strcmp(region, control->options.region) != 0)
        return "abroad";
    const bool inside = ring_config_find(control->config, id) != NULL;
    const bool goes =
        control_alive(control, id) && (control_flags(control, id) & CONTROL_FLAG_DRAINING) != 0;
    if (inside)
        return goes ? "draining" : "member";
    return goes ? "drained" : "outside";
}

/* The version of the configuration store that the member says it has, as people are shown it. */
static uint32_t settings_version_of(const struct control *control, uint64_t id)
{
    const struct swim_member *member = swim_find(control->swim, id);
    return member != NULL ? settings_version_shown(member->record.settings_version) : 0;
}

int64_t control_lost_since(const struct control *control, uint64_t id)
{
    const struct swim_member *member = swim_find(control->swim, id);
    if (member == NULL || member->state > SWIM_SUSPECT ||
        control->now_ns < control_region_lost_ns(control, member))
        return 0;
    return control_region_find(control, member->record.region)->heard_ns;
}

void control_put_health(const struct answer_context *context, uint64_t id)
{
    const struct swim_member *member = swim_find(context->control->swim, id);
    const bool alive = member != NULL && member->state <= SWIM_SUSPECT;
    const uint32_t troubles =
        alive ? control_health_of(context->control, member, context->report) : 0;
    mp_put_str(context->writer, "health");
    mp_put_array(context->writer, (size_t)__builtin_popcount(troubles));
    for (int i = 0; i < HEALTH_TROUBLES; i++)
        if ((troubles & HEALTH_BIT(i)) != 0)
            mp_put_str(context->writer, health_kind((enum health_trouble)i)->code);
}

static void put_member(const struct answer_context *context, const struct view *view,
                       const struct view_member *member)
{
    const struct control *control = context->control;
    struct mp_writer *writer = context->writer;
    const int64_t lost_ns = control_lost_since(control, member->id);
    mp_put_map(writer, lost_ns != 0 ? 17 : 16);
    put_field_str(writer, "name", member->name);
    put_field_hex(writer, "id", member->id);
    put_field_str(writer, "region", member->region);
    put_field_str(writer, "zone", member->zone);
    put_field_str(writer, "state", view_state_name(member->state));
    put_field_str(writer, "ring", control_place_in_ring(control, member->region, member->id));
    put_field_str(writer, "client", member->client);
    put_field_str(writer, "peer", member->peer);
    put_field_str(writer, "gossip", member->gossip);
    put_field_uint(writer, "incarnation", member->incarnation);
    put_field_uint(writer, "vnodes", view_owned(view, member->id));
    put_field_uint(writer, "ring_epoch", member->ring_epoch);
    put_field_hex(writer, "rules_digest", member->rules_digest);
    put_field_uint(writer, "settings_version", settings_version_of(control, member->id));
    put_field_str(writer, "version", member->version);
    control_put_health(context, member->id);
    if (lost_ns != 0)
        control_put_time(writer, "unreachable_since", (uint64_t)(lost_ns / CONTROL_MS));
}

/* Names first, so that people find them; whoever has the same name elsewhere is beside. */
static int compare_members(const struct view_member *a, const struct view_member *b)
{
    const int names = natural_compare(a->name, b->name);
    const int regions = names != 0 ? names : natural_compare(a->region, b->region);
    return regions != 0 ? regions : (a->id > b->id) - (a->id < b->id);
}

/* Puts the places of the members that are to be listed into `order`, sorted; returns how many. */
static uint32_t sort_members(const struct control *control, const struct view *view, bool all,
                             uint16_t order[VIEW_MEMBERS_MAX * 2])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = &view->members[i];
        uint32_t at = count;
        if (!all && control_gone(control, member->state, member->region, member->id))
            continue;
        for (count++; at > 0 && compare_members(member, &view->members[order[at - 1]]) < 0; at--)
            order[at] = order[at - 1];
        order[at] = (uint16_t)i;
    }
    return count;
}

/* The place in `order` behind the member whose id is the argument "after": the first without one,
 * the end where there is no such member any more. */
static uint32_t place_behind(const struct answer_context *context, const struct view *view,
                             const uint16_t *order, uint32_t count)
{
    char id[17];
    uint32_t at = 0;
    struct mp_cursor cursor;
    if (!answer_argument(context, "after", &cursor))
        return 0;
    const struct settings_text after = control_read_text(context, "after");
    for (; at < count; at++) {
        (void)snprintf(id, sizeof id, "%016llx", (unsigned long long)view->members[order[at]].id);
        if (after.len == strlen(id) && memcmp(after.data, id, after.len) == 0)
            return at + 1;
    }
    return at;
}

static void answer_members(struct answer_context *context)
{
    uint16_t order[VIEW_MEMBERS_MAX * 2];
    bool all;
    if (!control_read_flag(context, "all", &all))
        return;
    struct view *view = owners(context);
    if (view == NULL) {
        answer_waiting(context);
        return;
    }
    const uint32_t count = sort_members(context->control, view, all, order);
    const uint32_t first = place_behind(context, view, order, count);
    const uint32_t rows = answer_rows(context, count - first);
    for (uint32_t i = 0; i < rows; i++)
        put_member(context, view, &view->members[order[first + i]]);
    view_free(&view);
}

static void answer_ring(struct answer_context *context)
{
    const struct ring_config *config = context->control->config;
    struct mp_writer *writer = context->writer;
    struct view *view = owners(context);
    if (view == NULL) {
        answer_waiting(context);
        return;
    }
    answer_begin(context);
    mp_put_map(writer, 7);
    put_field_uint(writer, "epoch", config->epoch);
    put_field_bool(writer, "stable", ring_config_is_stable(config));
    put_field_uint(writer, "vnodes", config->vnodes);
    put_field_uint(writer, "replicas", config->replicas);
    put_field_uint(writer, "lineage", ring_config_lineage(config->epoch));
    control_put_voters(context->control, writer);
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

/* A page takes a millisecond: of many who ask together, one has it made. */
static void answer_metrics(struct answer_context *context)
{
    const struct control_report *report = context->report;
    struct control_page *page = report->page;
    if (page == NULL ||
        (page->len == 0 && !metrics_page_make(context->control, report, context->now_ns, page))) {
        answer_error(context, TG_EUNAVAILABLE, "the page of metrics has no room");
        return;
    }
    answer_begin(context);
    mp_put_strn(context->writer, page->text, page->len);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static const struct {
    const char *command;
    void (*answer)(struct answer_context *context);
} commands[] = {
    {"status", answer_status},
    {"metrics", answer_metrics},
    {"members", answer_members},
    {"regions", answer_regions},
    {"ring", answer_ring},
    {"events", answer_events},
    {"rules.list", answer_rules},
    {"rules.validate", answer_validate},
    {"pools.list", answer_pools},
    {"rules.explain", answer_explain},
    {"drain", answer_drain},
    {"leave", answer_leave},
    {"remove", answer_remove},
    {"rules.show", answer_rules_show},
    {"rules.diff", answer_rules_diff},
    {"rules.history", answer_rules_history},
    {"rules.apply", answer_rules_apply},
    {"edit.state", answer_edit_state},
    {"block", answer_block},
    {"unblock", answer_unblock},
    {"blocks", answer_blocks},
    {"apikey.create", answer_apikey_create},
    {"apikey.list", answer_apikey_list},
    {"apikey.show", answer_apikey_show},
    {"apikey.revoke", answer_apikey_revoke},
    {"apikey.delete", answer_apikey_delete},
    {"credential.create", answer_credential_create},
    {"credential.list", answer_credential_list},
    {"credential.show", answer_credential_show},
    {"credential.rotate", answer_credential_rotate},
    {"credential.revoke", answer_credential_revoke},
    {"quota.set", answer_quota_set},
    {"quota.show", answer_quota_show},
    {"quota.list", answer_quota_list},
    {"quota.delete", answer_quota_delete},
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
    answer_error(context, TG_EUNSUPPORTED,
                 "unknown command; expected status, events, metrics, members, regions, ring, "
                 "owner, rules.list, "
                 "rules.show, rules.validate, rules.explain, rules.diff, rules.history, "
                 "rules.apply, edit.state, block, unblock, blocks, apikey.create, apikey.list, "
                 "apikey.show, apikey.revoke, apikey.delete, credential.create, "
                 "credential.list, credential.show, credential.rotate, credential.revoke, "
                 "quota.set, quota.show, "
                 "quota.list, quota.delete, pools.list, "
                 "pools.report, drain, leave or remove");
}

bool control_admin_compiles(struct control *control, const void *frame, size_t len,
                            const char **text, size_t *text_len)
{
    static const char *const compiling[] = {"rules.validate", "rules.diff", "rules.apply"};
    char error[WIRE_ERROR_LEN];
    struct mp_token tokens[SHARD_ADMIN_TOKENS_MAX];
    struct wire_admin admin;
    const struct answer_context context = {.control = control, .admin = &admin};
    if (wire_decode_admin(frame, len, tokens, SHARD_ADMIN_TOKENS_MAX, &admin, error) != 0)
        return false;
    for (size_t i = 0; i < sizeof compiling / sizeof *compiling; i++) {
        if (admin.command.len != strlen(compiling[i]) ||
            memcmp(admin.command.data, compiling[i], admin.command.len) != 0)
            continue;
        const struct settings_text found = control_read_document(&context);
        *text = found.data;
        *text_len = found.len;
        return found.data != NULL;
    }
    return false;
}

size_t control_admin(struct control *control, int64_t now_ns, const void *frame, size_t len,
                     const struct control_report *report, void *out, size_t capacity)
{
    char error[WIRE_ERROR_LEN];
    struct mp_token tokens[SHARD_ADMIN_TOKENS_MAX];
    struct wire_admin admin;
    struct mp_writer writer;
    struct answer_context context = {.control = control,
                                     .report = report,
                                     .admin = &admin,
                                     .writer = &writer,
                                     .now_ns = now_ns,
                                     .rows_max = ROWS_MAX};
    memset(&admin, 0, sizeof admin);
    mp_writer_init(&writer, out, capacity);
    const int result = wire_decode_admin(frame, len, tokens, SHARD_ADMIN_TOKENS_MAX, &admin, error);
    if (result != 0)
        answer_error(&context, result, error);
    else
        dispatch(&context);
    while (answer_too_large(&context) && context.lists && context.rows_max > 1) { /* OPERATOR-3 */
        context.rows_max /= 2;
        mp_writer_init(&writer, out, capacity);
        dispatch(&context);
    }
    if (answer_too_large(&context)) {
        mp_writer_init(&writer, out, capacity);
        answer_error(&context, TG_ETOOBIG, "the answer is larger than a message may be");
    }
    ASSERT(!writer.failed);
    return writer.len;
}
