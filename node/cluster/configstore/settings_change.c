/* settings_change.c - the codecs of settings_change.h. Pure.
 *
 * EDITS-1  What is read is within the bounds of settings_change.h, and its texts hold no control
 *          character but in values: authors and notes reach terminals.
 */
#include "node/cluster/configstore/settings_change.h"
#include "base/assert.h"

#include <string.h>

#include "base/mp.h"

enum {
    CODEC_VERSION = 1,
    CHANGE_FIELDS = 11,
    OP_FIELDS = 3,
    ENTRY_FIELDS = 8,
    CHANGE_TOKENS_MAX =
        CHANGE_FIELDS + 2 + RING_VOTERS_MAX + SETTINGS_OPS_MAX * (OP_FIELDS + 1) + 16,
    ENTRY_TOKENS_MAX = ENTRY_FIELDS + 16,
};

/* ---- parts ----------------------------------------------------------------------------------- */

static void put_text(struct mp_writer *writer, const struct settings_text *text)
{
    mp_put_strn(writer, text->data != NULL ? text->data : "", text->len);
}

static void put_hash(struct mp_writer *writer, struct hash128 hash)
{
    mp_put_uint(writer, hash.lo);
    mp_put_uint(writer, hash.hi);
}

static struct hash128 get_hash(struct mp_cursor *cursor)
{
    struct hash128 hash;
    hash.lo = mp_get_uint(cursor);
    hash.hi = mp_get_uint(cursor);
    return hash;
}

/* EDITS-1. */
bool settings_text_ok(const struct settings_text *text, size_t len_max)
{
    ASSERT(text->len == 0 || text->data != NULL);
    for (size_t i = 0; i < text->len && text->len <= len_max; i++)
        if ((unsigned char)text->data[i] < 0x20 || text->data[i] == 0x7f)
            return false;
    return text->len <= len_max;
}

bool settings_text_equal(const struct settings_text *a, const struct settings_text *b)
{
    ASSERT((a->len == 0 || a->data != NULL) && (b->len == 0 || b->data != NULL));
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static struct settings_text get_text(struct mp_cursor *cursor, size_t len_max)
{
    struct settings_text text;
    text.data = mp_get_str(cursor, &text.len);
    if (text.data == NULL || !settings_text_ok(&text, len_max)) {
        cursor->failed = true;
        return (struct settings_text){.data = "", .len = 0};
    }
    return text;
}

static struct settings_text get_value(struct mp_cursor *cursor)
{
    struct settings_text value = {.data = "", .len = 0};
    size_t len = 0;
    const uint8_t *data = mp_get_bin(cursor, &len);
    if (data == NULL || len > SETTINGS_VALUE_LEN_MAX)
        cursor->failed = true;
    else
        value = (struct settings_text){.data = (const char *)data, .len = len};
    return value;
}

static uint32_t get_kind(struct mp_cursor *cursor)
{
    const uint64_t kind = mp_get_uint(cursor);
    if (kind == 0 || kind > SETTINGS_KIND_MAX)
        cursor->failed = true;
    return (uint32_t)kind;
}

static struct settings_text get_name(struct mp_cursor *cursor)
{
    const struct settings_text name = get_text(cursor, SETTINGS_NAME_LEN_MAX);
    if (name.len == 0)
        cursor->failed = true;
    return name;
}

static void skip_extra(struct mp_cursor *cursor, uint32_t count, uint32_t known)
{
    for (uint32_t i = known; i < count && !cursor->failed; i++)
        mp_skip(cursor);
}

/* Parses and reads up to behind the codec's version; the number of fields. */
static int open_array(const void *bytes, size_t len, uint32_t fields, struct mp_token *tokens,
                      size_t tokens_max, struct mp_cursor *cursor)
{
    const int count = mp_parse(bytes, len, tokens, tokens_max);
    if (count < 0)
        return TG_EPROTOCOL;
    mp_cursor_init(cursor, tokens, (size_t)count);
    const uint32_t found = mp_get_array(cursor);
    if (found < fields)
        return TG_EPROTOCOL;
    return mp_get_uint(cursor) == CODEC_VERSION ? (int)found : TG_EVERSION;
}

/* ---- changes --------------------------------------------------------------------------------- */

int settings_change_encode(const struct settings_change *change, void *out, size_t capacity)
{
    struct mp_writer writer;
    mp_writer_init(&writer, out, capacity);
    mp_put_array(&writer, CHANGE_FIELDS);
    mp_put_uint(&writer, CODEC_VERSION);
    mp_put_uint(&writer, change->version);
    mp_put_array(&writer, change->voters.count);
    for (uint32_t i = 0; i < change->voters.count; i++)
        mp_put_uint(&writer, change->voters.ids[i]);
    put_hash(&writer, change->before);
    put_hash(&writer, change->id);
    mp_put_uint(&writer, (uint64_t)change->time_ms);
    put_text(&writer, &change->author);
    put_text(&writer, &change->note);
    mp_put_array(&writer, change->op_count);
    for (uint32_t i = 0; i < change->op_count; i++) {
        const struct settings_op *op = &change->ops[i];
        mp_put_array(&writer, OP_FIELDS);
        mp_put_uint(&writer, op->kind);
        put_text(&writer, &op->name);
        if (op->removes)
            mp_put_nil(&writer);
        else
            mp_put_bin(&writer, op->value.data, op->value.len);
    }
    return writer.failed ? TG_ETOOBIG : (int)writer.len;
}

static void get_voters(struct mp_cursor *cursor, struct register_voters *voters)
{
    voters->count = mp_get_array(cursor);
    if (voters->count == 0 || voters->count > RING_VOTERS_MAX)
        cursor->failed = true;
    for (uint32_t i = 0; i < voters->count && !cursor->failed; i++) {
        voters->ids[i] = mp_get_uint(cursor);
        for (uint32_t j = 0; j < i; j++)
            cursor->failed = cursor->failed || voters->ids[j] == voters->ids[i];
    }
}

static void get_op(struct mp_cursor *cursor, struct settings_op *op)
{
    const uint32_t fields = mp_get_array(cursor);
    if (fields < OP_FIELDS)
        cursor->failed = true;
    op->kind = get_kind(cursor);
    op->name = get_name(cursor);
    op->removes = mp_peek_type(cursor) == MP_NIL;
    op->value = (struct settings_text){.data = "", .len = 0};
    if (op->removes)
        mp_skip(cursor);
    else
        op->value = get_value(cursor);
    skip_extra(cursor, fields, OP_FIELDS);
}

int settings_change_decode(const void *bytes, size_t len, struct settings_change *change)
{
    struct mp_token tokens[CHANGE_TOKENS_MAX];
    struct mp_cursor cursor;
    if (len > SETTINGS_CHANGE_LEN_MAX)
        return TG_EPROTOCOL;
    const int fields = open_array(bytes, len, CHANGE_FIELDS, tokens, CHANGE_TOKENS_MAX, &cursor);
    if (fields < 0)
        return fields;
    memset(change, 0, sizeof *change);
    change->version = mp_get_uint(&cursor);
    get_voters(&cursor, &change->voters);
    change->before = get_hash(&cursor);
    change->id = get_hash(&cursor);
    const uint64_t time_ms = mp_get_uint(&cursor);
    change->author = get_text(&cursor, SETTINGS_AUTHOR_LEN_MAX);
    change->note = get_text(&cursor, SETTINGS_NOTE_LEN_MAX);
    change->op_count = mp_get_array(&cursor);
    if (change->op_count > SETTINGS_OPS_MAX)
        return TG_EPROTOCOL;
    for (uint32_t i = 0; i < change->op_count && !cursor.failed; i++)
        get_op(&cursor, &change->ops[i]);
    skip_extra(&cursor, (uint32_t)fields, CHANGE_FIELDS);
    if (cursor.failed || time_ms > INT64_MAX / 1000000 || change->version == 0 ||
        change->version == UINT64_MAX)
        return TG_EPROTOCOL;
    change->time_ms = (int64_t)time_ms;
    return 0;
}

bool settings_change_read(const uint8_t *bytes, size_t len, uint64_t *version,
                          struct register_voters *voters)
{
    struct settings_change change;
    if (settings_change_decode(bytes, len, &change) != 0)
        return false;
    *version = change.version;
    *voters = change.voters;
    return true;
}

/* Nobody but members makes changes: the key need not be a secret, but the same everywhere. */
struct hash128 settings_change_digest(const void *bytes, size_t len)
{
    static const struct hash_key key = {{'s', 'e', 't', 't', 'i', 'n', 'g', 's'}};
    return hash128(&key, bytes, len);
}

/* ---- records --------------------------------------------------------------------------------- */

int settings_entry_encode(const struct settings_entry *entry, void *out, size_t capacity)
{
    struct mp_writer writer;
    mp_writer_init(&writer, out, capacity);
    mp_put_array(&writer, ENTRY_FIELDS);
    mp_put_uint(&writer, CODEC_VERSION);
    mp_put_uint(&writer, entry->kind);
    put_text(&writer, &entry->name);
    mp_put_uint(&writer, entry->version);
    mp_put_uint(&writer, (uint64_t)entry->time_ms);
    put_text(&writer, &entry->author);
    put_text(&writer, &entry->note);
    mp_put_bin(&writer, entry->value.data, entry->value.len);
    return writer.failed ? TG_ETOOBIG : (int)writer.len;
}

int settings_entry_decode(const void *bytes, size_t len, struct settings_entry *entry)
{
    struct mp_token tokens[ENTRY_TOKENS_MAX];
    struct mp_cursor cursor;
    if (len > SETTINGS_RECORD_LEN_MAX)
        return TG_EPROTOCOL;
    const int fields = open_array(bytes, len, ENTRY_FIELDS, tokens, ENTRY_TOKENS_MAX, &cursor);
    if (fields < 0)
        return fields;
    memset(entry, 0, sizeof *entry);
    entry->kind = get_kind(&cursor);
    entry->name = get_name(&cursor);
    entry->version = mp_get_uint(&cursor);
    const uint64_t time_ms = mp_get_uint(&cursor);
    entry->author = get_text(&cursor, SETTINGS_AUTHOR_LEN_MAX);
    entry->note = get_text(&cursor, SETTINGS_NOTE_LEN_MAX);
    entry->value = get_value(&cursor);
    skip_extra(&cursor, (uint32_t)fields, ENTRY_FIELDS);
    if (cursor.failed || time_ms > INT64_MAX / 1000000 || entry->version == 0)
        return TG_EPROTOCOL;
    entry->time_ms = (int64_t)time_ms;
    return 0;
}
