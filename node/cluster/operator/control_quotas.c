/* control_quotas.c - what operators set for one user: one record of the settings a user.
 *
 *   quota.set      the tier, own limits, block and notes of a user: what is not named stays
 *   quota.show     one record; quota.list: all, in the order of names, a page at a time
 *   quota.delete   the record goes: the user is as all others
 *
 *   name    the user
 *   value   as quota_encode writes it (node/policy/people/people.h)
 *
 * An edit is based on the record that it was worked out from, so of two that change one user at
 * once one is told. A block that ended does nothing; it stays in the record, as its history.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/configstore/settings.h"
#include "node/cluster/operator/control_answer.h"
#include "node/cluster/usage/usage_ledger.h"
#include "node/policy/people/people.h"

enum { SENTENCE_LEN = 320, ROW_FIELDS = 23 };

static_assert((int)POLICY_VALUE_LEN_MAX <= (int)SETTINGS_NAME_LEN_MAX, "a user is a name");
static_assert((int)PEOPLE_ENCODED_MAX <= (int)SETTINGS_VALUE_LEN_MAX, "a record is a value");

bool control_quota_of(const struct settings_entry *entry, struct quota *out)
{
    if (quota_decode(entry->value.data, entry->value.len, out) != 0)
        return false;
    out->user = (struct policy_text){entry->name.data, entry->name.len};
    return true;
}

static int refuse(struct answer_context *context, const char *sentence)
{
    answer_error(context, TG_EINVALID, sentence);
    return TG_EINVALID;
}

/* The user whom the command is about; data NULL after the answer was that there is none. */
static struct settings_text read_user(struct answer_context *context)
{
    static const struct settings_text none = {.data = NULL, .len = 0};
    const struct settings_text user = control_read_text(context, "user");
    if (user.data != NULL && user.len > 0 && settings_text_ok(&user, POLICY_VALUE_LEN_MAX))
        return user;
    (void)refuse(context, "expected {\"user\": the value of the attribute user}, of 1 to 1024 "
                          "bytes without control characters");
    return none;
}

/* ---- set ------------------------------------------------------------------------------------- */

bool control_read_tier(struct answer_context *context, struct policy_text *out)
{
    char sentence[SENTENCE_LEN];
    const struct settings_text tier = control_read_text(context, "tier");
    if (tier.data == NULL)
        return true;
    if (!people_tier_ok(tier.data, tier.len))
        return refuse(context, "tier: expected 1 to 64 letters, digits and _ . -") == 0;
    *out = (struct policy_text){tier.data, tier.len};
    if (people_tier_known(context->report->policy, tier.data, tier.len))
        return true;
    (void)snprintf(sentence, sizeof sentence,
                   "tier %.*s: the rules in force have no tier of that name, and none of them "
                   "matches it; expected a name of `tiers:` in `tidegate rules show`",
                   (int)tier.len, tier.data);
    return refuse(context, sentence) == 0;
}

bool control_read_limits(struct answer_context *context, struct own_limits *own)
{
    char error[OWN_ERROR_LEN];
    const struct settings_text limits = control_read_text(context, "limits");
    struct own_limits given = {.burst = 0};
    size_t at = 0;
    while (limits.data != NULL && at < limits.len) {
        const char *space = memchr(limits.data + at, ' ', limits.len - at);
        const size_t end = space != NULL ? (size_t)(space - limits.data) : limits.len;
        if (own_limits_add(&given, limits.data + at, end - at, error) != 0) {
            answer_error(context, TG_EINVALID, error);
            return false;
        }
        at = end + 1;
    }
    for (size_t i = 0; i < OWN_UNITS; i++)
        if (given.counts[i] != 0)
            own->counts[i] = given.counts[i];
    uint64_t burst;
    if (control_read_uint(context, "burst", &burst) &&
        own_limits_set_burst(own, burst, error) != 0) {
        answer_error(context, TG_EINVALID, error);
        return false;
    }
    return true;
}

static int read_block(struct answer_context *context, struct quota *quota)
{
    const struct settings_text reason = control_read_text(context, "block");
    struct mp_cursor cursor;
    bool unblock;
    if (!control_read_flag(context, "unblock", &unblock))
        return TG_EINVALID;
    if (unblock && reason.data != NULL)
        return refuse(context, "found block and unblock; expected one of them");
    if (reason.data == NULL && (answer_argument(context, "until_ms", &cursor) ||
                                answer_argument(context, "for_ms", &cursor)))
        return refuse(context, "found the end of a block, until_ms or for_ms; expected block, its "
                               "reason, as well");
    if (unblock) {
        quota->blocked = false;
        quota->until_ms = 0;
        quota->reason = (struct policy_text){"", 0};
    }
    if (reason.data == NULL)
        return 0;
    if (reason.len == 0 || !settings_text_ok(&reason, POLICY_MESSAGE_LEN_MAX))
        return refuse(context, "block: expected a reason of 1 to 256 bytes without control "
                               "characters");
    quota->blocked = true;
    quota->reason = (struct policy_text){reason.data, reason.len};
    return control_read_end(context, "the block would have ended already", &quota->until_ms)
               ? 0
               : TG_EINVALID;
}

static int read_notes(struct answer_context *context, struct quota *quota)
{
    const struct settings_text notes = control_read_text(context, "notes");
    if (notes.data == NULL)
        return 0;
    if (!settings_text_ok(&notes, PEOPLE_NOTES_LEN_MAX))
        return refuse(context, "notes: expected at most 256 bytes without control characters");
    quota->notes = (struct policy_text){notes.data, notes.len};
    return 0;
}

static void put_quota(struct answer_context *context, const struct settings_entry *entry,
                      const struct quota *quota);

/* The record as it would be, in the place of an edit. */
static void answer_trial(struct answer_context *context, const struct settings_text *user,
                         const struct settings_entry *current, const struct quota *quota)
{
    const struct settings_entry none = {
        .name = *user, .author = {.data = "", .len = 0}, .note = {.data = "", .len = 0}};
    answer_begin(context);
    put_quota(context, current != NULL ? current : &none, quota);
}

void answer_quota_set(struct answer_context *context)
{
    uint8_t value[PEOPLE_ENCODED_MAX];
    struct quota quota = {.tier = {"", 0}, .reason = {"", 0}, .notes = {"", 0}};
    bool clear;
    bool trial;
    const struct settings_text user = read_user(context);
    if (user.data == NULL || !control_read_flag(context, "clear", &clear) ||
        !control_read_flag(context, "dry_run", &trial))
        return;
    const struct settings_entry *current =
        settings_current(context->control->settings, SETTINGS_QUOTA, &user);
    if (current != NULL && !clear && !control_quota_of(current, &quota)) {
        (void)refuse(context, "the user's record is of a newer release, which alone can change it");
        return;
    }
    if (!control_read_tier(context, &quota.tier) || !control_read_limits(context, &quota.own) ||
        read_block(context, &quota) != 0 || read_notes(context, &quota) != 0)
        return;
    if (trial) {
        answer_trial(context, &user, current, &quota);
        return;
    }
    struct control_edit_request request = {
        .kind = SETTINGS_QUOTA,
        .based = true,
        .based_on = current != NULL ? current->version : 0,
        .name = user,
        .value = {(const char *)value, quota_encode(&quota, value)},
    };
    control_answer_edit(context, &request);
}

void answer_quota_delete(struct answer_context *context)
{
    const struct settings_text user = read_user(context);
    struct control_edit_request request = {.kind = SETTINGS_QUOTA, .removes = true, .name = user};
    if (user.data != NULL)
        control_answer_edit(context, &request);
}

/* ---- show ------------------------------------------------------------------------------------ */

static void put_text(struct mp_writer *writer, const char *name, const char *data, size_t len)
{
    mp_put_str(writer, name);
    mp_put_strn(writer, data, len);
}

void control_put_limits(const struct own_limits *own, struct mp_writer *writer)
{
    char window[QUANTITY_TEXT_LEN];
    uint32_t count = 0;
    for (unsigned i = 0; i < OWN_UNITS; i++)
        count += own->counts[i] != 0;
    mp_put_str(writer, "limits");
    mp_put_array(writer, count);
    for (unsigned i = 0; i < OWN_UNITS; i++) {
        own_limits_format(own, (enum own_unit)i, window);
        if (window[0] != '\0')
            mp_put_str(writer, window);
    }
    put_field_uint(writer, "burst", own->burst);
}

/* How often the user has asked this node. */
static void put_usage(struct answer_context *context, const struct settings_text *user)
{
    struct mp_writer *writer = context->writer;
    const uint64_t now_ms = (uint64_t)(context->now_ns / CONTROL_MS);
    const struct usage_totals totals =
        usage_ledger_find(context->report->usage, people_hash(user->data, user->len), now_ms);
    put_field_uint(writer, "requests_today", totals.today.requests);
    put_field_uint(writer, "exceeded_today", totals.today.exceeded);
    put_field_uint(writer, "requests_month", totals.month.requests);
    put_field_uint(writer, "exceeded_month", totals.month.exceeded);
    put_field_uint(writer, "requests_total", totals.ever.requests);
    put_field_uint(writer, "exceeded_total", totals.ever.exceeded);
    put_field_uint(writer, "last_seen_ms", totals.last_ms);
    control_put_time(writer, "last_seen", totals.last_ms);
}

static void put_quota(struct answer_context *context, const struct settings_entry *entry,
                      const struct quota *quota)
{
    struct mp_writer *writer = context->writer;
    const uint64_t now_ms = (uint64_t)(context->now_ns / CONTROL_MS);
    const bool blocked = quota->blocked && (quota->until_ms == 0 || quota->until_ms > now_ms);
    mp_put_map(writer, ROW_FIELDS);
    put_text(writer, "user", entry->name.data, entry->name.len);
    put_text(writer, "tier", quota->tier.data, quota->tier.len);
    control_put_limits(&quota->own, writer);
    put_field_bool(writer, "blocked", blocked);
    put_text(writer, "reason", quota->reason.data, quota->reason.len);
    put_field_uint(writer, "until_ms", quota->until_ms);
    control_put_time(writer, "until", quota->until_ms);
    put_text(writer, "notes", quota->notes.data, quota->notes.len);
    put_text(writer, "author", entry->author.data, entry->author.len);
    put_text(writer, "note", entry->note.data, entry->note.len);
    put_field_uint(writer, "time_ms", (uint64_t)entry->time_ms);
    control_put_time(writer, "time", (uint64_t)entry->time_ms);
    put_field_uint(writer, "version", settings_version_shown(entry->version));
    put_field_uint(writer, "base", entry->version);
    put_usage(context, &entry->name);
}

void answer_quota_show(struct answer_context *context)
{
    struct quota quota;
    const struct settings_text user = read_user(context);
    if (user.data == NULL)
        return;
    const struct settings_entry *entry =
        settings_current(context->control->settings, SETTINGS_QUOTA, &user);
    if (entry == NULL) {
        answer_error(context, TG_ENOTFOUND,
                     "the user has no quota record; expected a name of "
                     "`tidegate quota list`");
        return;
    }
    if (!control_quota_of(entry, &quota)) {
        (void)refuse(context, "the user's record is of a newer release, which alone can read it");
        return;
    }
    answer_begin(context);
    put_quota(context, entry, &quota);
}

void answer_quota_list(struct answer_context *context)
{
    const struct settings_table *table = &context->control->settings->table;
    size_t end;
    const size_t at = answer_rows_from(context, SETTINGS_QUOTA, &end);
    const uint32_t count = answer_rows(context, end - at);
    for (uint32_t i = 0; i < count; i++) {
        const struct settings_entry *entry = &table->records[at + i]->entry;
        struct quota quota;
        if (!control_quota_of(entry, &quota))
            quota = (struct quota){.notes = {"", 0}, .tier = {"?", 1}, .reason = {"", 0}};
        put_quota(context, entry, &quota);
    }
}
