/* control_credentials.c - who may do what: one record of the settings a credential, under its id.
 *
 *   credential.create   a record of a digest: whoever asks has made the token, and shows it; nodes
 *                       never see it before it is used
 *   credential.list     those that there are, in the order of their ids
 *   credential.show     one of them
 *   credential.rotate   a further token of it; the one before is good for a while yet
 *   credential.revoke   puts the record again, with who and when. There is no way back, and no
 *                       command removes a record: edits of rules, and going back to older ones,
 *                       do not touch it
 *
 * A credential is named by its id, or by its name if no other in force has the same.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/operator/control_answer.h"
#include "node/policy/rights/credentials.h"
#include "node/policy/rights/token.h"

enum { ROW_FIELDS = 19, OVERLAP_MS_MAX = 90 * 24 * 3600 * 1000LL, TEXT_LEN = 1024 };

struct credential_entry control_credential_of(const struct settings_entry *entry)
{
    return (struct credential_entry){.id = {entry->name.data, entry->name.len},
                                     .value = {entry->value.data, entry->value.len}};
}

static uint64_t now_ms(const struct answer_context *context)
{
    return (uint64_t)(context->now_ns / CONTROL_MS);
}

/* Only over the record that was read, `based_on`, or 0: there is none. Else a token that is
 * replaced while somebody revokes its credential would bring that back. */
static void put(struct answer_context *context, const struct settings_text *id, uint64_t based_on,
                const struct credential_record *record)
{
    uint8_t value[CREDENTIAL_RECORD_LEN_MAX];
    const int len = credential_encode(record, value, sizeof value);
    ASSERT(len > 0); /* by the bounds of credential.h */
    struct control_edit_request request = {
        .kind = SETTINGS_CREDENTIAL,
        .based = true,
        .based_on = based_on,
        .name = *id,
        .value = {(const char *)value, (size_t)len},
    };
    control_answer_edit(context, &request);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_author(struct answer_context *context, struct policy_text *out)
{
    struct settings_text text = control_read_text(context, "author");
    if (text.data == NULL)
        text = (struct settings_text){.data = "", .len = 0};
    *out = (struct policy_text){text.data, text.len};
    if (settings_text_ok(&text, CREDENTIAL_AUTHOR_LEN_MAX))
        return true;
    answer_error(context, TG_EINVALID,
                 "author: expected at most 128 bytes without control characters");
    return false;
}

static bool read_digest(struct answer_context *context, struct digest *out)
{
    const struct settings_text digest = control_read_text(context, "digest");
    if (digest.data != NULL && digest_parse(digest.data, digest.len, out))
        return true;
    answer_error(context, TG_EINVALID, "expected {\"digest\": 64 hex digits, of the token}");
    return false;
}

static bool read_roles(struct answer_context *context, uint8_t *roles)
{
    char error[RIGHTS_EXPECTED_LEN] = "found none; expected roles, such as check,adjust";
    const struct settings_text text = control_read_text(context, "roles");
    if (text.data != NULL && rights_parse(text.data, text.len, roles, error) == TG_OK) {
        if (*roles != 0 && (*roles & RIGHT_NODE) == 0)
            return true;
        (void)snprintf(error, sizeof error, "a token has roles, and node is none of a token's");
    }
    answer_error(context, TG_EINVALID, error);
    return false;
}

static bool read_network(const char *text, size_t len, struct policy_block *out)
{
    if (memchr(text, '/', len) != NULL)
        return policy_block_parse(text, len, out) == POLICY_BLOCK_GOOD;
    if (!policy_ip_parse(text, len, &out->ip))
        return false;
    out->prefix = (uint8_t)(out->ip.len * 8);
    return true;
}

/* "10.0.0.0/8,192.0.2.7" */
static bool read_networks(struct answer_context *context, struct credential_record *record)
{
    const struct settings_text text = control_read_text(context, "networks");
    size_t at = 0;
    record->network_count = 0;
    while (text.data != NULL && at <= text.len) { /* an empty text is no network, not all of them */
        const char *comma = memchr(text.data + at, ',', text.len - at);
        const size_t len = comma != NULL ? (size_t)(comma - text.data) - at : text.len - at;
        if (record->network_count == CREDENTIAL_NETWORKS_MAX ||
            !read_network(text.data + at, len, &record->networks[record->network_count])) {
            answer_error(context, TG_EINVALID,
                         "networks: expected at most 16 such as 10.0.0.0/8 or 192.0.2.7, with "
                         "commas between and no bits behind the prefix");
            return false;
        }
        record->network_count++;
        at += len + 1;
    }
    return true;
}

/* A credential of that name, one in force if there is one; *count tells how many are in force. */
static const struct settings_entry *find_by_name(const struct answer_context *context,
                                                 const struct settings_text *name, uint32_t *count)
{
    const struct settings_entry *entry;
    const struct settings_entry *found = NULL;
    struct credential_record record;
    size_t cursor = 0;
    *count = 0;
    while ((entry = control_setting_next(context->control, SETTINGS_CREDENTIAL, &cursor)) != NULL) {
        if (!credential_decode(entry->value.data, entry->value.len, &record) ||
            record.name.len != name->len || memcmp(record.name.data, name->data, name->len) != 0)
            continue;
        const bool ended = record.revoked_ms != 0 ||
                           (record.expires_ms != 0 && now_ms(context) >= record.expires_ms);
        if (found == NULL || !ended)
            found = entry;
        *count += !ended;
    }
    return found;
}

void answer_credential_create(struct answer_context *context)
{
    struct credential_record record = {.digest_count = 1, .revoked_by = {"", 0}};
    const struct settings_text id = control_read_text(context, "credential");
    const struct settings_text name = control_read_text(context, "name");
    uint32_t count;
    if (id.data == NULL || !token_id_ok(id.data, id.len)) {
        answer_error(context, TG_EINVALID, "expected {\"credential\": an id, 12 of a-z 2-7}");
        return;
    }
    if (name.data == NULL || !credential_name_ok(name.data, name.len)) {
        answer_error(context, TG_EINVALID,
                     "name: expected 1 to 64 letters, digits, and . _ - only");
        return;
    }
    record.name = (struct policy_text){name.data, name.len};
    if (!read_digest(context, &record.digests[0].digest) || !read_roles(context, &record.roles) ||
        !read_networks(context, &record) || !read_author(context, &record.created_by) ||
        !control_read_end(context, "the credential would have expired already", &record.expires_ms))
        return;
    const struct settings_entry *other = find_by_name(context, &name, &count);
    const bool own = other != NULL && other->name.len == id.len &&
                     memcmp(other->name.data, id.data, id.len) == 0; /* it is asked again */
    if (count > 0 && !own) {
        answer_error(
            context, TG_EINVALID,
            "a credential of this name is there: choose another name, or rotate its token");
        return;
    }
    record.created_ms = now_ms(context);
    put(context, &id, 0, &record);
}

/* The credential that the command is about, by id or by name; NULL after the answer was why not. */
static const struct settings_entry *find(struct answer_context *context,
                                         struct credential_record *record)
{
    const struct settings_text wanted = control_read_text(context, "credential");
    uint32_t count = 0;
    if (wanted.data == NULL || wanted.len == 0) {
        answer_error(context, TG_EINVALID,
                     "expected {\"credential\": the id or the name of a credential}");
        return NULL;
    }
    const struct settings_entry *found =
        settings_table_find(&context->control->settings->table, SETTINGS_CREDENTIAL, &wanted);
    if (found == NULL)
        found = find_by_name(context, &wanted, &count);
    if (count <= 1 && found != NULL &&
        credential_decode(found->value.data, found->value.len, record))
        return found;
    if (count > 1)
        answer_error(context, TG_EINVALID,
                     "several credentials have this name; expected the id of one, of `tidegate "
                     "credential list`");
    else
        answer_error(context, TG_ENOTFOUND,
                     "there is no such credential; expected an id or a name of `tidegate "
                     "credential list`");
    return NULL;
}

/* ---- showing --------------------------------------------------------------------------------- */

static void put_text(struct mp_writer *writer, const char *name, const struct policy_text *text)
{
    mp_put_str(writer, name);
    mp_put_strn(writer, text->data, text->len);
}

static const char *state_of(const struct credential_record *record, uint64_t at_ms)
{
    if (record->revoked_ms != 0)
        return "revoked";
    return record->expires_ms != 0 && at_ms >= record->expires_ms ? "expired" : "active";
}

static void put_networks(struct mp_writer *writer, const struct credential_record *record)
{
    char text[TEXT_LEN];
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < record->network_count; i++) {
        char network[POLICY_IP_TEXT_LEN];
        const size_t more = policy_block_put(&record->networks[i], network);
        ASSERT(len + more + 2 < sizeof text);
        if (i > 0)
            text[len++] = ',';
        memcpy(text + len, network, more);
        len += more;
    }
    mp_put_str(writer, "networks");
    mp_put_strn(writer, text, len);
}

/* Until when a token that is replaced is good yet; 0: there is none. */
static uint64_t overlap_of(const struct credential_record *record, uint64_t at_ms)
{
    uint64_t until_ms = 0;
    for (uint32_t i = 0; i < record->digest_count; i++)
        if (record->digests[i].until_ms > at_ms)
            until_ms = record->digests[i].until_ms;
    return until_ms;
}

static void put_row(struct answer_context *context, const struct settings_entry *entry,
                    const struct credential_record *record)
{
    struct mp_writer *writer = context->writer;
    char roles[RIGHTS_TEXT_LEN];
    const uint64_t replaced_ms = overlap_of(record, now_ms(context));
    (void)rights_put(record->roles, roles);
    put_text(writer, "id", &(struct policy_text){entry->name.data, entry->name.len});
    put_text(writer, "name", &record->name);
    put_field_str(writer, "roles", roles);
    put_networks(writer, record);
    put_field_str(writer, "state", state_of(record, now_ms(context)));
    put_field_uint(writer, "created_ms", record->created_ms);
    control_put_time(writer, "created", record->created_ms);
    put_text(writer, "created_by", &record->created_by);
    put_field_uint(writer, "expires_ms", record->expires_ms);
    control_put_time(writer, "expires", record->expires_ms);
    put_field_uint(writer, "replaced_ms", replaced_ms);
    control_put_time(writer, "replaced", replaced_ms);
    put_field_uint(writer, "revoked_ms", record->revoked_ms);
    control_put_time(writer, "revoked", record->revoked_ms);
    put_text(writer, "revoked_by", &record->revoked_by);
    put_field_uint(writer, "time_ms", (uint64_t)entry->time_ms);
    put_text(writer, "note", &(struct policy_text){entry->note.data, entry->note.len});
    put_field_uint(writer, "version", settings_version_shown(entry->version));
    put_field_uint(writer, "base", entry->version);
}

void answer_credential_show(struct answer_context *context)
{
    struct credential_record record;
    const struct settings_entry *entry = find(context, &record);
    if (entry == NULL)
        return;
    answer_begin(context);
    mp_put_map(context->writer, ROW_FIELDS);
    put_row(context, entry, &record);
}

void answer_credential_list(struct answer_context *context)
{
    const struct settings_table *table = &context->control->settings->table;
    struct credential_record record;
    size_t end;
    const size_t first = answer_rows_from(context, SETTINGS_CREDENTIAL, &end);
    size_t listed = 0;
    for (size_t at = first; at < end && listed < context->rows_max; at++)
        listed += credential_decode(table->records[at]->entry.value.data,
                                    table->records[at]->entry.value.len, &record);
    uint32_t count = answer_rows(context, listed);
    for (size_t at = first; count > 0; at++) {
        const struct settings_entry *entry = &table->records[at]->entry;
        if (!credential_decode(entry->value.data, entry->value.len, &record))
            continue;
        count--;
        mp_put_map(context->writer, ROW_FIELDS);
        put_row(context, entry, &record);
    }
}

/* ---- replacing and ending -------------------------------------------------------------------- */

void answer_credential_rotate(struct answer_context *context)
{
    struct credential_record record;
    struct digest digest;
    uint64_t overlap_ms = 0;
    const struct settings_entry *entry = find(context, &record);
    if (entry == NULL || !read_digest(context, &digest))
        return;
    if (record.revoked_ms != 0) {
        answer_error(context, TG_EINVALID,
                     "the credential was revoked: there is no way back; create another one");
        return;
    }
    struct mp_cursor cursor;
    if (answer_argument(context, "for_ms", &cursor) &&
        (!control_read_uint(context, "for_ms", &overlap_ms) || overlap_ms > OVERLAP_MS_MAX)) {
        answer_error(context, TG_EINVALID, "for_ms: expected at most 90 days of milliseconds");
        return;
    }
    record.digests[1] = record.digests[0];
    record.digests[1].until_ms = now_ms(context) + overlap_ms;
    record.digests[0] = (struct credential_digest){.digest = digest};
    record.digest_count = overlap_ms > 0 ? 2 : 1;
    put(context, &entry->name, entry->version, &record);
}

void answer_credential_revoke(struct answer_context *context)
{
    struct credential_record record;
    const struct settings_entry *entry = find(context, &record);
    if (entry == NULL)
        return;
    if (record.revoked_ms == 0) { /* else it stays as it is: nothing to change */
        if (!read_author(context, &record.revoked_by))
            return;
        record.revoked_ms = now_ms(context);
    }
    put(context, &entry->name, entry->version, &record);
}
