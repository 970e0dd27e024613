/* control_settings_answer.c - what operators ask about the configuration store, and change in it.
 *
 *   rules.show      the document in force, one version of it, or one rule; a document that is kept
 *                   packed (packed.h) as it is, for who can take that
 *   rules.history   its versions that are kept, the newest first
 *   rules.diff      which rules another document adds, removes, changes
 *   rules.apply     begins an edit; asked again with its id, or
 *   edit.state      what became of it
 *
 * An edit is answered by its state, {"id", "state", "version", "changed", "message"}, where state
 * is waiting, done, conflict, unavailable or doubt (control_edit.c). Whoever waits asks again.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "base/mp_walk.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/model/edit_wait.h"
#include "node/cluster/operator/control_answer.h"
#include "node/policy/compile/packed.h"
#include "node/policy/compile/policy_diff.h"
#include "node/policy/model/attribute_kind.h"

enum { RULE_TEXT_LEN = 8192, ID_DIGITS = 32, NAMES_MAX = 256, SHOW_SENTENCE_LEN = 160 };

#define SPREAD_NS (1000 * CONTROL_MS)

static_assert((int)SETTINGS_VALUE_LEN_MAX == (int)POLICY_DOCUMENT_LEN_MAX,
              "what is kept is what may be packed to");

/* ---- status ---------------------------------------------------------------------------------- */

void control_put_settings(const struct control *control, struct mp_writer *writer)
{
    const struct settings *settings = control->settings;
    mp_put_str(writer, "settings");
    mp_put_map(writer, 8);
    put_field_uint(writer, "version", settings_version_shown(settings->version));
    put_field_uint(writer, "lineage", settings->version >> 40);
    put_field_hex(writer, "digest", settings->digest.lo);
    put_field_bool(writer, "catching_up",
                   settings->copying.active || control_settings_behind(control));
    put_field_bool(writer, "frozen", settings->version == 0 || control_settings_frozen(control));
    put_field_uint(writer, "records", settings->table.count);
    put_field_uint(writer, "bytes", settings->table.bytes);
    mp_put_str(writer, "voters");
    mp_put_array(writer, settings->voters.count);
    for (uint32_t i = 0; i < settings->voters.count; i++) {
        const struct swim_member *member = swim_find(control->swim, settings->voters.ids[i]);
        mp_put_str(writer, member != NULL ? member->record.name : "?");
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

struct settings_text control_read_text(const struct answer_context *context, const char *name)
{
    struct mp_cursor cursor;
    struct settings_text text = {.data = NULL, .len = 0};
    if (answer_argument(context, name, &cursor))
        text.data = mp_get_str(&cursor, &text.len);
    return text;
}

static const struct settings_entry *find_version(const struct settings *settings, uint64_t shown)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &settings->table;
    const size_t end = settings_table_at(table, SETTINGS_RULES + 1, &none);
    for (size_t i = settings_table_at(table, SETTINGS_RULES, &none); i < end; i++)
        if (settings_version_shown(table->records[i]->entry.version) == shown)
            return &table->records[i]->entry;
    return NULL;
}

struct settings_text control_read_document(const struct answer_context *context)
{
    struct mp_cursor cursor;
    struct settings_text text = control_read_text(context, "text");
    if (text.data == NULL && answer_argument(context, "packed", &cursor))
        text.data = (const char *)mp_get_bin(&cursor, &text.len);
    uint64_t shown;
    if (text.data == NULL && control_read_uint(context, "version", &shown)) {
        const struct settings_entry *entry = find_version(context->control->settings, shown);
        text = entry != NULL ? entry->value : text;
    }
    return text;
}

bool control_read_uint(const struct answer_context *context, const char *name, uint64_t *out)
{
    struct mp_cursor cursor;
    if (!answer_argument(context, name, &cursor))
        return false;
    *out = mp_get_uint(&cursor);
    return !cursor.failed;
}

bool control_read_flag(struct answer_context *context, const char *name, bool *out)
{
    char sentence[SHOW_SENTENCE_LEN];
    struct mp_cursor cursor;
    *out = false;
    if (!answer_argument(context, name, &cursor))
        return true;
    *out = mp_peek_type(&cursor) == MP_BOOL ? mp_get_bool(&cursor) : mp_get_uint(&cursor) != 0;
    if (!cursor.failed)
        return true;
    (void)snprintf(sentence, sizeof sentence, "%s: expected true or false", name);
    answer_error(context, TG_EINVALID, sentence);
    return false;
}

/* 32 hexadecimal digits, not all of them 0, the higher half first. */
static bool read_id(const struct answer_context *context, struct hash128 *id)
{
    const struct settings_text text = control_read_text(context, "id");
    *id = (struct hash128){0};
    if (text.data == NULL || text.len != ID_DIGITS)
        return false;
    for (size_t i = 0; i < ID_DIGITS; i++) {
        const int value = hex_digit(text.data[i]);
        if (value < 0)
            return false;
        uint64_t *half = i < ID_DIGITS / 2 ? &id->hi : &id->lo;
        *half = *half << 4 | (uint64_t)value;
    }
    return id->hi != 0 || id->lo != 0;
}

/* ---- rules.show, rules.history --------------------------------------------------------------- */

static void put_text(struct mp_writer *writer, const char *name, const struct settings_text *text)
{
    mp_put_str(writer, name);
    mp_put_strn(writer, text->data, text->len);
}

/* "2026-11-21T13:33:07Z"; "" for 0. Days into dates by the rule of the Gregorian calendar, whose
 * years begin in March here, so that the leap day is their last. */
void control_put_time(struct mp_writer *writer, const char *name, uint64_t ms)
{
    enum { ERA_DAYS = 146097, ERA_YEARS = 400, DAY_S = 86400, TEXT_LEN = 32 };
    char text[TEXT_LEN] = "";
    const uint64_t seconds = ms / 1000;
    const uint64_t days = seconds / DAY_S + 719468; /* since 0000-03-01 */
    const uint64_t of_era = days % ERA_DAYS;
    const uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / (ERA_DAYS - 1)) / 365;
    const uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const uint64_t shifted = (5 * of_year + 2) / 153; /* months since March */
    const unsigned month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
    const unsigned day = (unsigned)(of_year - (153 * shifted + 2) / 5 + 1);
    const unsigned of_day = (unsigned)(seconds % DAY_S);
    if (ms != 0)
        (void)snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02uZ",
                       (unsigned)(year + days / ERA_DAYS * ERA_YEARS + (month <= 2)) % 10000, month,
                       day, of_day / 3600, of_day / 60 % 60, of_day % 60);
    put_field_str(writer, name, text);
}

static void put_version(const struct control *control, const struct settings_entry *entry,
                        struct mp_writer *writer)
{
    put_field_uint(writer, "version", settings_version_shown(entry->version));
    put_field_uint(writer, "base", entry->version);
    put_field_uint(writer, "time_ms", (uint64_t)entry->time_ms);
    control_put_time(writer, "time", (uint64_t)entry->time_ms);
    put_text(writer, "author", &entry->author);
    put_text(writer, "note", &entry->note);
    put_field_bool(writer, "in_force", control->rules_version == entry->version);
}

static void put_shown(struct answer_context *context, const struct settings_entry *entry,
                      const char *field, const void *bytes, size_t len)
{
    answer_begin(context);
    mp_put_map(context->writer, 8);
    put_version(context->control, entry, context->writer);
    mp_put_str(context->writer, field);
    if (strcmp(field, "packed") == 0)
        mp_put_bin(context->writer, bytes, len);
    else
        mp_put_strn(context->writer, bytes, len);
}

/* A document that is kept packed is given so to who can take it; to others as text, if that fits.
 */
static void put_document(struct answer_context *context, const struct settings_entry *entry)
{
    struct mp_cursor cursor;
    struct packed text;
    char sentence[SHOW_SENTENCE_LEN];
    const struct settings_text *kept = &entry->value;
    const size_t len = packed_text_len(kept->data, kept->len);
    if (packed_is(kept->data, kept->len) && answer_argument(context, "packed", &cursor) &&
        mp_get_bool(&cursor)) {
        put_shown(context, entry, "packed", kept->data, kept->len);
        return;
    }
    (void)snprintf(sentence, sizeof sentence,
                   "the document has %zu bytes, more than fit into a message; ask with "
                   "{\"packed\": true} for its gzip",
                   len);
    const int error = len > POLICY_DOCUMENT_LEN_MAX
                          ? TG_ETOOBIG
                          : packed_open(kept->data, kept->len, context->control->allocator, &text);
    if (error != 0) {
        answer_error(context, error, error == TG_ETOOBIG ? sentence : error_message(error));
        return;
    }
    put_shown(context, entry, "text", text.data, text.len);
    packed_fini(&text, context->control->allocator);
}

static void show_document(struct answer_context *context)
{
    const struct settings *settings = context->control->settings;
    uint64_t shown = 0;
    const bool given = control_read_uint(context, "version", &shown);
    const struct settings_entry *entry =
        given ? find_version(settings, shown)
              : settings_table_last(&settings->table, SETTINGS_RULES);
    if (entry == NULL) {
        answer_error(context, TG_ENOTFOUND,
                     given ? "no such version of the rules is kept; expected one of "
                             "`tidegate rules history`"
                           : "no rules have been applied to this cluster yet");
        return;
    }
    put_document(context, entry);
}

void answer_rules_show(struct answer_context *context)
{
    char text[RULE_TEXT_LEN];
    const struct settings_text name = control_read_text(context, "name");
    if (name.data == NULL) {
        show_document(context);
        return;
    }
    const struct policy_rule *rule = policy_rule_find(context->report->policy, name.data, name.len);
    if (rule == NULL) {
        answer_error(context, TG_ENOTFOUND,
                     "no rule in force is called so; expected a name of `tidegate rules list`");
        return;
    }
    const int len = policy_format_rule(rule, text, sizeof text);
    answer_begin(context);
    mp_put_map(context->writer, 4);
    put_field_str(context->writer, "name", rule->name.data);
    put_field_uint(context->writer, "version",
                   settings_version_shown(context->control->rules_version));
    put_field_uint(context->writer, "line", rule->line);
    put_field_str(context->writer, "rule", len > 0 ? text : "");
}

void answer_rules_history(struct answer_context *context)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &context->control->settings->table;
    const size_t first = settings_table_at(table, SETTINGS_RULES, &none);
    const size_t end = settings_table_at(table, SETTINGS_RULES + 1, &none);
    answer_begin(context);
    mp_put_array(context->writer, end - first);
    for (size_t i = end; i > first; i--) {
        const struct settings_entry *entry = &table->records[i - 1]->entry;
        mp_put_map(context->writer, 8);
        put_version(context->control, entry, context->writer);
        put_field_uint(context->writer, "bytes",
                       packed_text_len(entry->value.data, entry->value.len));
    }
}

/* ---- rules.diff ------------------------------------------------------------------------------ */

static void put_names(struct mp_writer *writer, const char *name,
                      const struct policy_rule *const *rules, uint32_t count)
{
    mp_put_str(writer, name);
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < count; i++)
        mp_put_strn(writer, rules[i]->name.data, rules[i]->name.len);
}

static void put_differences(struct answer_context *context, const struct policy *other, size_t len)
{
    static const char *const lists[] = {"added", "removed", "changed"};
    static const char *const counts[] = {"added_count", "removed_count", "changed_count"};
    const struct policy_rule *rules[POLICY_DIFFERENCES][NAMES_MAX];
    struct policy_diff diff;
    for (uint32_t i = 0; i < POLICY_DIFFERENCES; i++)
        diff.rules[i] = rules[i];
    const int error = policy_compare(context->report->policy, other, context->control->allocator,
                                     NAMES_MAX, &diff);
    for (uint32_t i = 0; i < POLICY_DIFFERENCES; i++) {
        put_field_uint(context->writer, counts[i], error == 0 ? diff.counts[i] : 0);
        put_names(context->writer, lists[i], rules[i], error == 0 ? diff.listed[i] : 0);
    }
    put_field_bool(context->writer, "order_changed", error == 0 && diff.reordered);
    if (error != 0)
        diff.listed[POLICY_ADDED] = diff.listed[POLICY_CHANGED] = 0;
    control_put_counts(context, other, len, &diff);
}

void answer_rules_diff(struct answer_context *context)
{
    struct settings_text text;
    struct settings_entry newest = {.version = 0};
    struct mp_writer *writer = context->writer;
    const struct policy *mine = context->report->policy;
    struct policy *other = control_compile_argument(context, "rules.diff", &text);
    if (other == NULL)
        return;
    const bool known = control_rules_known(context->control, &newest);
    answer_begin(context);
    mp_put_map(writer, 15);
    put_field_bool(writer, "ok", true);
    put_field_bool(writer, "attributes_changed",
                   !attribute_kinds_equal(policy_kinds(mine), policy_kinds(other)));
    put_field_uint(writer, "version", settings_version_shown(newest.version));
    put_field_uint(writer, "base", newest.version);
    put_field_bool(writer, "same_text",
                   known && newest.value.len == text.len &&
                       memcmp(newest.value.data, text.data, text.len) == 0);
    put_field_bool(writer, "same_meaning", policy_digest(mine) == policy_digest(other));
    put_field_uint(writer, "rules", policy_rule_count(other));
    put_differences(context, other, text.len);
    policy_free(&other);
}

/* ---- edits ----------------------------------------------------------------------------------- */

static const char *state_name(enum settings_edit_state state)
{
    switch (state) {
    case SETTINGS_EDIT_DONE:
        return "done";
    case SETTINGS_EDIT_CONFLICT:
        return "conflict";
    case SETTINGS_EDIT_UNAVAILABLE:
        return "unavailable";
    case SETTINGS_EDIT_DOUBT:
        return "doubt";
    case SETTINGS_EDIT_FREE:
    case SETTINGS_EDIT_WAITS:
        break;
    }
    return edit_wait_state;
}

static void put_edit(struct answer_context *context, struct hash128 id, const char *state,
                     uint64_t version, bool changed, const char *message)
{
    char text[ID_DIGITS + 1];
    (void)snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, id.hi, id.lo);
    answer_begin(context);
    mp_put_map(context->writer, 7);
    put_field_bool(context->writer, "ok", true);
    put_field_str(context->writer, "id", text);
    put_field_str(context->writer, "state", state);
    put_field_uint(context->writer, "version", settings_version_shown(version));
    put_field_uint(context->writer, "base", version);
    put_field_bool(context->writer, "changed", changed);
    put_field_str(context->writer, "message", message);
}

/* Whether shards do not decide by the edit's version yet: to whoever has asked this node for it, it
 * is not done before; others, and whoever has waited for a second, are told of the decision. */
static bool is_spreading(const struct answer_context *context, const struct settings_edit *edit,
                         uint64_t version)
{
    const struct control *control = context->control;
    return control->spreads && edit != NULL && edit->state == SETTINGS_EDIT_DONE &&
           version > control->spread_version && context->now_ns - edit->ended_ns < SPREAD_NS;
}

/* What became of the edit; false if this node does not know it. A doubt may have been resolved. */
static bool put_state(struct answer_context *context, struct hash128 id)
{
    const struct control *control = context->control;
    const struct settings_edit *edit = control_edit_find(control, id);
    const uint64_t made = settings_log_find(&control->settings->log, id);
    if (is_spreading(context, edit, made))
        put_edit(context, id, state_name(SETTINGS_EDIT_WAITS), made, true, "");
    else if (made != 0)
        put_edit(context, id, "done", made, true, "");
    else if (edit != NULL)
        put_edit(context, id, state_name(edit->state), edit->version, edit->changed,
                 edit->sentence);
    return made != 0 || edit != NULL;
}

void answer_edit_state(struct answer_context *context)
{
    struct hash128 id;
    if (!read_id(context, &id))
        answer_error(context, TG_EINVALID, "edit.state: expected {\"id\": 32 hex digits}");
    else if (!put_state(context, id))
        answer_error(context, TG_ENOTFOUND, "this node does not know of such an edit");
}

/* A text that goes with an edit, of at most `len_max` bytes; "" if it is not given. False after it
 * was answered what is wrong with it. */
static bool read_remark(struct answer_context *context, const char *name, size_t len_max,
                        struct settings_text *out)
{
    char sentence[SHOW_SENTENCE_LEN];
    struct mp_cursor cursor;
    *out = (struct settings_text){.data = "", .len = 0};
    if (!answer_argument(context, name, &cursor))
        return true;
    out->data = mp_get_str(&cursor, &out->len);
    if (!cursor.failed && settings_text_ok(out, len_max))
        return true;
    if (cursor.failed)
        (void)snprintf(sentence, sizeof sentence, "%s: found no text; expected one", name);
    else if (out->len > len_max)
        (void)snprintf(sentence, sizeof sentence, "%s: found %zu bytes; expected at most %zu", name,
                       out->len, len_max);
    else
        (void)snprintf(sentence, sizeof sentence,
                       "%s: found a control character; expected a text of one line", name);
    answer_error(context, TG_EINVALID, sentence);
    return false;
}

/* On which version of its record the edit is based; a version that can be none is as one that is
 * not there (SETTINGS_ANY is no operator's to ask for). False after it was answered that it is no
 * number. */
static bool read_base(struct answer_context *context, struct control_edit_request *request)
{
    struct mp_cursor cursor;
    if (!request->based)
        request->based_on = SETTINGS_ANY;
    if (!answer_argument(context, "base", &cursor))
        return true;
    if (!control_read_uint(context, "base", &request->based_on)) {
        answer_error(context, TG_EINVALID,
                     "base: expected a number, as `base` of an answer tells it, or 0");
        return false;
    }
    if (request->based_on == SETTINGS_ANY)
        request->based_on = SETTINGS_ANY - 1;
    return true;
}

void control_answer_edit(struct answer_context *context, struct control_edit_request *request)
{
    if (!read_id(context, &request->id)) {
        answer_error(context, TG_EINVALID,
                     "an edit needs {\"id\": 32 hex digits, not all of them 0}");
        return;
    }
    if (!read_remark(context, "author", SETTINGS_AUTHOR_LEN_MAX, &request->author) ||
        !read_remark(context, "note", SETTINGS_NOTE_LEN_MAX, &request->note) ||
        !read_base(context, request))
        return;
    if (request->author.len == 0) {
        answer_error(context, TG_EINVALID, "an edit needs {\"author\": who makes it}");
        return;
    }
    const int error = request->rules != NULL
                          ? control_edit_rules(context->control, context->now_ns,
                                               context->report->policy, request)
                          : control_edit(context->control, context->now_ns, request);
    if (error != 0)
        answer_error(context, error, error_message(error));
    else
        (void)put_state(context, request->id);
}

/* ---- questions that wait --------------------------------------------------------------------- */

static bool is_command(const struct wire_admin *admin, const char *command)
{
    return admin->command.len == strlen(command) &&
           memcmp(admin->command.data, command, admin->command.len) == 0;
}

static bool waits(const struct wire_admin *admin)
{
    const struct mp_token *wait =
        mp_find(admin->arguments.tokens, admin->arguments.token_count, "wait");
    return wait != NULL && wait->type == MP_BOOL && wait->uint != 0;
}

bool control_admin_waits(const struct control *control, const void *frame, size_t len)
{
    enum { TOKENS = 64 };
    char error[WIRE_ERROR_LEN];
    struct mp_token tokens[TOKENS];
    struct wire_admin admin;
    struct hash128 id;
    const struct answer_context context = {.admin = &admin};
    if (wire_decode_admin(frame, len, tokens, TOKENS, &admin, error) != 0 || !waits(&admin))
        return false;
    if (is_command(&admin, "status"))
        return control_figures_due(control);
    if (!is_command(&admin, "edit.state") || !read_id(&context, &id))
        return false;
    const struct settings_edit *edit = control_edit_find(control, id);
    return edit != NULL && edit->state == SETTINGS_EDIT_WAITS;
}

/* ---- rules.apply ----------------------------------------------------------------------------- */

void answer_rules_apply(struct answer_context *context)
{
    struct settings_text text;
    char sentence[512];
    struct policy *policy = control_compile_argument(context, "rules.apply", &text);
    if (policy == NULL)
        return;
    (void)snprintf(sentence, sizeof sentence,
                   "the document has %zu bytes, which is more than the %d that are kept; expected "
                   "it packed, as {\"packed\": its gzip}",
                   text.len, (int)SETTINGS_VALUE_LEN_MAX);
    struct control_edit_request request = {
        .kind = SETTINGS_RULES,
        .name = {"rules", 5},
        .value = text,
        .rules = policy,
    };
    if (text.len > SETTINGS_VALUE_LEN_MAX)
        answer_error(context, TG_ETOOBIG, sentence);
    else
        control_answer_edit(context, &request);
    policy_free(&policy);
}
