/* control_blocks.c - block, unblock, and what is blocked: one record of the settings a block.
 *
 *   name    what is blocked, as blocks_name writes it (node/policy/people/blocks.h)
 *   value   until: Unix ms, 8 bytes little-endian, 0 for no end | reason
 *
 * A block that ended does nothing; it is removed by upkeep later (control_edit.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "node/cluster/configstore/block_record.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/operator/control_answer.h"
#include "node/policy/people/blocks.h"

enum { VALUE_LEN_MAX = BLOCK_UNTIL_LEN + BLOCKS_REASON_LEN_MAX, SENTENCE_LEN = 160 };
#define UNTIL_MAX_MS UINT64_C(253402300799999) /* the last of the year 9999 */
#define FOR_MAX_MS   (INT64_MAX / UINT64_C(1000000))

/* What the command is about, and whether that is an inline key. False after the answer was that it
 * is nothing. */
static bool read_target(struct answer_context *context, struct settings_text *text, bool *is_key)
{
    struct mp_cursor cursor;
    const bool has_what = answer_argument(context, "what", &cursor);
    *is_key = answer_argument(context, "key", &cursor);
    *text = control_read_text(context, *is_key ? "key" : "what");
    if (text->data != NULL && has_what != *is_key)
        return true;
    answer_error(context, TG_EINVALID,
                 has_what && *is_key
                     ? "found what and key; expected one of them"
                     : "expected {\"what\": attr=value or an address, or \"key\": a key}");
    return false;
}

/* Its name, by the kinds of the rules in force. False after the answer was that it has none. */
static bool name_target(struct answer_context *context, const struct settings_text *text,
                        bool is_key, char out[BLOCKS_NAME_LEN_MAX], size_t *len)
{
    char error[BLOCKS_ERROR_LEN];
    const int result = blocks_name(policy_kinds(context->report->policy), text->data, text->len,
                                   is_key, out, error);
    if (result < 0)
        answer_error(context, result, error);
    *len = result < 0 ? 0 : (size_t)result;
    return result >= 0;
}

/* A number of milliseconds from `least` to `most`, 0 if it is not given. False after the answer was
 * that something else is. */
static bool read_ms(struct answer_context *context, const char *name, uint64_t least, uint64_t most,
                    uint64_t *out)
{
    char sentence[SENTENCE_LEN];
    struct mp_cursor cursor;
    *out = 0;
    if (!answer_argument(context, name, &cursor) ||
        (control_read_uint(context, name, out) && *out >= least && *out <= most))
        return true;
    (void)snprintf(sentence, sizeof sentence,
                   "%s: expected a whole number of milliseconds from %" PRIu64 " to %" PRIu64
                   "; without an end it is left out",
                   name, least, most);
    answer_error(context, TG_EINVALID, sentence);
    return false;
}

bool control_read_end(struct answer_context *context, const char *over, uint64_t *until_ms)
{
    const uint64_t now_ms = (uint64_t)(context->now_ns / CONTROL_MS);
    uint64_t for_ms;
    struct mp_cursor cursor;
    if (answer_argument(context, "until_ms", &cursor) &&
        answer_argument(context, "for_ms", &cursor)) {
        answer_error(context, TG_EINVALID, "found until_ms and for_ms; expected one of them");
        return false;
    }
    if (!read_ms(context, "until_ms", 0, UNTIL_MAX_MS, until_ms) ||
        !read_ms(context, "for_ms", 1, FOR_MAX_MS, &for_ms))
        return false;
    if (for_ms > 0)
        *until_ms = now_ms + for_ms;
    if (*until_ms == 0 || *until_ms > now_ms)
        return true;
    answer_error(context, TG_EINVALID, over);
    return false;
}

void answer_block(struct answer_context *context)
{
    char name[BLOCKS_NAME_LEN_MAX];
    uint8_t value[VALUE_LEN_MAX];
    size_t name_len;
    uint64_t until_ms;
    struct bytes_writer writer;
    struct settings_text reason = control_read_text(context, "reason");
    struct settings_text text;
    bool is_key;
    if (!read_target(context, &text, &is_key) ||
        !name_target(context, &text, is_key, name, &name_len))
        return;
    if (reason.data == NULL || reason.len == 0)
        reason = (struct settings_text){.data = "blocked", .len = strlen("blocked")};
    if (!settings_text_ok(&reason, BLOCKS_REASON_LEN_MAX)) {
        answer_error(context, TG_EINVALID,
                     "the reason is longer than 256 bytes, or has control characters");
        return;
    }
    if (!control_read_end(context, "the block would have ended already", &until_ms))
        return;
    bytes_writer_init(&writer, value, sizeof value);
    bytes_put_u64(&writer, until_ms);
    bytes_put(&writer, reason.data, reason.len);
    struct control_edit_request request = {
        .kind = SETTINGS_BLOCK,
        .name = {name, name_len},
        .value = {(const char *)value, writer.len},
    };
    control_answer_edit(context, &request);
}

/* How near the name of a block is to what is to be unblocked: 3 that as it is written, 2 its one
 * spelling, 1 another spelling, from before the rules said otherwise; 0 it is something else. */
static int nearness(const struct attribute_kinds *kinds, const struct settings_text *name,
                    const struct settings_text *written, const struct settings_text *spelt)
{
    enum { KIND_LEN = sizeof "attr " - 1 };
    char error[BLOCKS_ERROR_LEN];
    char again[BLOCKS_NAME_LEN_MAX];
    if (name->len == written->len && memcmp(name->data, written->data, name->len) == 0)
        return 3;
    if (name->len == spelt->len && memcmp(name->data, spelt->data, name->len) == 0)
        return 2;
    if (name->len <= KIND_LEN || memcmp(name->data, "attr ", KIND_LEN) != 0)
        return 0;
    const int len =
        blocks_name(kinds, name->data + KIND_LEN, name->len - KIND_LEN, false, again, error);
    return len > 0 && (size_t)len == spelt->len && memcmp(again, spelt->data, spelt->len) == 0;
}

/* Finds the name under which a block is kept, which may be from before the rules in force. False if
 * there is none. */
static bool find_kept(const struct answer_context *context, const struct settings_text *text,
                      bool is_key, char out[BLOCKS_NAME_LEN_MAX], size_t *len)
{
    static const struct attribute_kinds verbatim = {.count = 0};
    const struct attribute_kinds *kinds = policy_kinds(context->report->policy);
    const struct settings_entry *entry;
    char error[BLOCKS_ERROR_LEN];
    char written[BLOCKS_NAME_LEN_MAX];
    char spelt[BLOCKS_NAME_LEN_MAX];
    const int written_len = blocks_name(&verbatim, text->data, text->len, is_key, written, error);
    const int spelt_len = blocks_name(kinds, text->data, text->len, is_key, spelt, error);
    const struct settings_text as_written = {written, written_len < 0 ? 0 : (size_t)written_len};
    const struct settings_text as_spelt = {spelt, spelt_len < 0 ? 0 : (size_t)spelt_len};
    size_t cursor = 0;
    int best = 0;
    while ((entry = control_setting_next(context->control, SETTINGS_BLOCK, &cursor)) != NULL) {
        const int near = nearness(kinds, &entry->name, &as_written, &as_spelt);
        if (near <= best || entry->name.len > BLOCKS_NAME_LEN_MAX)
            continue;
        best = near;
        *len = entry->name.len;
        memcpy(out, entry->name.data, entry->name.len);
    }
    return best > 0;
}

void answer_unblock(struct answer_context *context)
{
    char name[BLOCKS_NAME_LEN_MAX];
    size_t name_len;
    struct settings_text text;
    bool is_key;
    if (!read_target(context, &text, &is_key))
        return;
    if (!find_kept(context, &text, is_key, name, &name_len) &&
        !name_target(context, &text, is_key, name, &name_len))
        return;
    struct control_edit_request request = {
        .kind = SETTINGS_BLOCK,
        .removes = true,
        .name = {name, name_len},
    };
    control_answer_edit(context, &request);
}

/* "cidr 10.0.0.0/8": the kind, and what. */
static void put_name(struct mp_writer *writer, const struct policy_text *name)
{
    const char *space = memchr(name->data, ' ', name->len);
    const size_t kind_len = space != NULL ? (size_t)(space - name->data) : 0;
    mp_put_str(writer, "kind");
    mp_put_strn(writer, name->data, kind_len);
    mp_put_str(writer, "what");
    mp_put_strn(writer, name->data + kind_len + 1, name->len - kind_len - 1);
}

static bool in_force(const struct block *block, uint64_t now_ms)
{
    return block->until_ms == 0 || block->until_ms > now_ms;
}

/* Whether the record is a block that is in force; then *block is it. */
static bool is_listed(const struct settings_entry *entry, uint64_t now_ms, struct block *block)
{
    return control_block_of(entry, block) && in_force(block, now_ms);
}

/* In the order of names, behind the one of "after": kind and what of a row, as "kind what". */
void answer_blocks(struct answer_context *context)
{
    const struct settings_table *table = &context->control->settings->table;
    const uint64_t now_ms = (uint64_t)(context->now_ns / CONTROL_MS);
    struct mp_writer *writer = context->writer;
    struct block block;
    size_t end;
    size_t listed = 0;
    const size_t first = answer_rows_from(context, SETTINGS_BLOCK, &end);
    for (size_t at = first; at < end && listed < context->rows_max; at++)
        listed += is_listed(&table->records[at]->entry, now_ms, &block);
    uint32_t count = answer_rows(context, listed);
    for (size_t at = first; count > 0; at++) {
        const struct settings_entry *entry = &table->records[at]->entry;
        if (!is_listed(entry, now_ms, &block))
            continue;
        count--;
        mp_put_map(writer, 9);
        put_name(writer, &block.name);
        put_field_uint(writer, "until_ms", block.until_ms);
        control_put_time(writer, "until", block.until_ms);
        put_field_uint(writer, "left_ms", block.until_ms == 0 ? 0 : block.until_ms - now_ms);
        mp_put_str(writer, "reason");
        mp_put_strn(writer, block.reason.data, block.reason.len);
        mp_put_str(writer, "author");
        mp_put_strn(writer, entry->author.data, entry->author.len);
        put_field_uint(writer, "time_ms", (uint64_t)entry->time_ms);
        put_field_uint(writer, "version", settings_version_shown(entry->version));
    }
}
