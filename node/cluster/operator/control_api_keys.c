/* control_api_keys.c - keys that were issued: one record of the settings a key, under its id.
 *
 *   apikey.create   a record of a digest: whoever asks has made the key, and shows it; nodes never
 *                   see it before it is used
 *   apikey.list     those that there are, in the order of their ids
 *   apikey.show     one of them
 *   apikey.revoke   puts the record again, with who and when: it stays, and says so to callers
 *   apikey.delete   removes it: callers are told that there is no such key
 *
 * A key is named by its id, or by its name if no other has the same. While there is a record, even
 * of a revoked key, requests with an `api_key` that was not issued are refused; so the last record
 * is removed only by force (node/policy/people/api_keys.h).
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/operator/control_answer.h"
#include "node/cluster/usage/usage_ledger.h"
#include "node/policy/people/api_keys.h"

enum { ROW_FIELDS = 22 };

struct api_key_entry control_api_key_of(const struct settings_entry *entry)
{
    return (struct api_key_entry){.id = {entry->name.data, entry->name.len},
                                  .value = {entry->value.data, entry->value.len}};
}

static uint64_t now_ms(const struct answer_context *context)
{
    return (uint64_t)(context->now_ns / CONTROL_MS);
}

/* ---- creating -------------------------------------------------------------------------------- */

/* A text argument of at most `len_max` bytes, len 0 if it is not given. False after the answer was
 * that it is none. */
static bool read_text(struct answer_context *context, const char *name, size_t len_max,
                      struct policy_text *out)
{
    char sentence[128];
    struct settings_text text = control_read_text(context, name);
    if (text.data == NULL)
        text = (struct settings_text){.data = "", .len = 0};
    *out = (struct policy_text){text.data, text.len};
    if (settings_text_ok(&text, len_max))
        return true;
    (void)snprintf(sentence, sizeof sentence,
                   "apikey.create: %s: expected at most %zu bytes without control characters", name,
                   len_max);
    answer_error(context, TG_EINVALID, sentence);
    return false;
}

static bool read_record(struct answer_context *context, struct api_key_record *record)
{
    const struct settings_text digest = control_read_text(context, "digest");
    memset(record, 0, sizeof *record);
    if (digest.data == NULL || !digest_parse(digest.data, digest.len, &record->digest)) {
        answer_error(context, TG_EINVALID,
                     "apikey.create: expected {\"digest\": 64 hex digits, of the key}");
        return false;
    }
    return read_text(context, "name", API_KEY_NAME_LEN_MAX, &record->name) &&
           read_text(context, "owner", API_KEY_OWNER_LEN_MAX, &record->owner) &&
           control_read_tier(context, &record->tier) &&
           read_text(context, "author", API_KEY_AUTHOR_LEN_MAX, &record->created_by) &&
           control_read_limits(context, &record->own) &&
           control_read_end(context, "the key would have expired already", &record->expires_ms);
}

void answer_apikey_create(struct answer_context *context)
{
    uint8_t value[API_KEY_RECORD_LEN_MAX];
    struct api_key_record record;
    const struct settings_text id = control_read_text(context, "key");
    if (id.data == NULL || !api_key_id_ok(id.data, id.len)) {
        answer_error(context, TG_EINVALID,
                     "apikey.create: expected {\"key\": an id, 12 of a-z 2-7}");
        return;
    }
    if (!read_record(context, &record))
        return;
    if (record.own.burst != 0 && !own_limits_limit(&record.own)) {
        answer_error(context, TG_EINVALID,
                     "burst: expected a limit of the key itself beside it, such as 500/h");
        return;
    }
    record.created_ms = now_ms(context);
    const int len = api_key_encode(&record, value, sizeof value);
    ASSERT(len > 0); /* by the bounds of api_keys.h */
    struct control_edit_request request = {
        .kind = SETTINGS_API_KEY,
        .based = true, /* on there being none: a record is never put over another one */
        .name = id,
        .value = {(const char *)value, (size_t)len},
    };
    control_answer_edit(context, &request);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The key of that name; *count tells how many have it, 2 for more. */
static const struct settings_entry *find_by_name(const struct control *control,
                                                 const struct settings_text *name, uint32_t *count)
{
    const struct settings_entry *entry;
    const struct settings_entry *found = NULL;
    struct api_key_record record;
    size_t cursor = 0;
    *count = 0;
    while (*count < 2 &&
           (entry = control_setting_next(control, SETTINGS_API_KEY, &cursor)) != NULL) {
        if (!api_key_decode(entry->value.data, entry->value.len, &record) ||
            record.name.len != name->len || memcmp(record.name.data, name->data, name->len) != 0)
            continue;
        found = entry;
        ++*count;
    }
    return found;
}

/* The key that the command is about, by id or by name; NULL after the answer was why not. */
static const struct settings_entry *find(struct answer_context *context,
                                         struct api_key_record *record)
{
    const struct control *control = context->control;
    const struct settings_text wanted = control_read_text(context, "key");
    uint32_t count = 1;
    if (wanted.data == NULL || wanted.len == 0) {
        answer_error(context, TG_EINVALID, "expected {\"key\": the id or the name of a key}");
        return NULL;
    }
    const struct settings_entry *found =
        settings_table_find(&control->settings->table, SETTINGS_API_KEY, &wanted);
    if (found == NULL)
        found = find_by_name(control, &wanted, &count);
    if (count == 1 && api_key_decode(found->value.data, found->value.len, record))
        return found;
    if (count > 1)
        answer_error(context, TG_EINVALID,
                     "several keys have this name; expected the id of one, of `tidegate apikey "
                     "list`");
    else
        answer_error(context, TG_ENOTFOUND,
                     "there is no such key; expected an id or a name of `tidegate apikey list`");
    return NULL;
}

/* ---- showing --------------------------------------------------------------------------------- */

static void put_text(struct mp_writer *writer, const char *name, const struct policy_text *text)
{
    mp_put_str(writer, name);
    mp_put_strn(writer, text->data, text->len);
}

static void put_key(struct answer_context *context, const struct settings_entry *entry,
                    const struct api_key_record *record)
{
    struct mp_writer *writer = context->writer;
    const enum api_key_state state =
        api_key_state(record->expires_ms, record->revoked_ms, now_ms(context));
    const struct policy_text id = {entry->name.data, entry->name.len};
    const struct usage_totals totals =
        usage_ledger_find(context->report->usage, api_key_hash(id.data, id.len), now_ms(context));
    put_text(writer, "id", &id);
    put_text(writer, "name", &record->name);
    put_text(writer, "owner", &record->owner);
    put_text(writer, "tier", &record->tier);
    control_put_limits(&record->own, writer);
    put_field_str(writer, "state", api_key_state_name(state));
    put_field_uint(writer, "created_ms", record->created_ms);
    control_put_time(writer, "created", record->created_ms);
    put_text(writer, "created_by", &record->created_by);
    put_field_uint(writer, "expires_ms", record->expires_ms);
    control_put_time(writer, "expires", record->expires_ms);
    put_field_uint(writer, "revoked_ms", record->revoked_ms);
    control_put_time(writer, "revoked", record->revoked_ms);
    put_text(writer, "revoked_by", &record->revoked_by);
    put_field_uint(writer, "time_ms", (uint64_t)entry->time_ms);
    put_text(writer, "note", &(struct policy_text){entry->note.data, entry->note.len});
    put_field_uint(writer, "version", settings_version_shown(entry->version));
    put_field_uint(writer, "base", entry->version);
    put_field_uint(writer, "last_used_ms", totals.last_ms);
    control_put_time(writer, "last_used", totals.last_ms);
    put_field_uint(writer, "total", totals.ever.requests);
}

static size_t count_keys(const struct control *control)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &control->settings->table;
    return settings_table_at(table, SETTINGS_API_KEY + 1, &none) -
           settings_table_at(table, SETTINGS_API_KEY, &none);
}

void answer_apikey_show(struct answer_context *context)
{
    struct api_key_record record;
    const struct settings_entry *entry = find(context, &record);
    if (entry == NULL)
        return;
    answer_begin(context);
    mp_put_map(context->writer, ROW_FIELDS + 1);
    put_key(context, entry, &record);
    put_field_uint(context->writer, "keys", count_keys(context->control));
}

/* Whether the key is one that was asked for: of that owner, if one is named. */
static bool is_listed(const struct settings_entry *entry, const struct settings_text *owner,
                      struct api_key_record *record)
{
    return api_key_decode(entry->value.data, entry->value.len, record) &&
           (owner->data == NULL || (record->owner.len == owner->len &&
                                    memcmp(record->owner.data, owner->data, owner->len) == 0));
}

void answer_apikey_list(struct answer_context *context)
{
    const struct settings_text owner = control_read_text(context, "owner");
    const struct settings_table *table = &context->control->settings->table;
    struct api_key_record record;
    size_t end;
    const size_t first = answer_rows_from(context, SETTINGS_API_KEY, &end);
    size_t listed = 0;
    for (size_t at = first; at < end && listed < context->rows_max; at++)
        listed += is_listed(&table->records[at]->entry, &owner, &record);
    uint32_t count = answer_rows(context, listed);
    for (size_t at = first; count > 0; at++) {
        const struct settings_entry *entry = &table->records[at]->entry;
        if (!is_listed(entry, &owner, &record))
            continue;
        count--;
        mp_put_map(context->writer, ROW_FIELDS);
        put_key(context, entry, &record);
    }
}

/* ---- ending ---------------------------------------------------------------------------------- */

void answer_apikey_revoke(struct answer_context *context)
{
    uint8_t value[API_KEY_RECORD_LEN_MAX];
    struct api_key_record record;
    const struct settings_entry *entry = find(context, &record);
    if (entry == NULL)
        return;
    if (record.revoked_ms == 0) { /* else it stays as it is: nothing to change */
        if (!read_text(context, "author", API_KEY_AUTHOR_LEN_MAX, &record.revoked_by))
            return;
        record.revoked_ms = now_ms(context);
    }
    const int len = api_key_encode(&record, value, sizeof value);
    ASSERT(len > 0);
    struct control_edit_request request = {
        .kind = SETTINGS_API_KEY,
        .name = entry->name,
        .value = {(const char *)value, (size_t)len},
    };
    control_answer_edit(context, &request);
}

void answer_apikey_delete(struct answer_context *context)
{
    struct api_key_record record;
    bool force;
    if (!control_read_flag(context, "force", &force))
        return;
    const struct settings_entry *entry = find(context, &record);
    if (entry == NULL)
        return;
    struct control_edit_request request = {
        .kind = SETTINGS_API_KEY,
        .removes = true,
        .keeps_last = !force,
        .name = entry->name,
    };
    control_answer_edit(context, &request);
}
