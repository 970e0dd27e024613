/* settings.c - the state of settings.h: applied, kept, restored, copied.
 *
 * Stored values, whose keys sort in this order:
 *
 *   settings.head              [1, version, [voter ..], digest: lo, hi, floor, its digest: lo, hi,
 *                              mixed]
 *   settings.log.VERSION       a change, as it was decided
 *   settings.rec.HASH          a record; the hash is of its kind and name
 *   settings.register          promises (register.h)
 */
#include "node/cluster/configstore/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mp.h"

enum { HEAD_VERSION = 1, HEAD_FIELDS = 9, HEAD_LEN_MAX = 256, KEY_LEN = 64 };

#define KEY_HEAD   SETTINGS_PREFIX "head"
#define KEY_LOG    SETTINGS_PREFIX "log."
#define KEY_RECORD SETTINGS_PREFIX "rec."

/* ---- keeping --------------------------------------------------------------------------------- */

void settings_keep(const char *key, const void *bytes, size_t len, bool more,
                   struct effects *effects)
{
    struct effect *effect;
    if (bytes != NULL)
        memcpy(effects_reserve(effects, len), bytes, len);
    effect = effects_add(effects, EFFECT_META);
    (void)snprintf(effect->address, sizeof effect->address, "%s", key);
    effect->more = more;
    if (bytes != NULL)
        effects_commit(effects, effect, len);
}

static void record_key(uint32_t kind, const struct settings_text *name, char out[KEY_LEN])
{
    uint8_t bytes[1 + SETTINGS_NAME_LEN_MAX];
    ASSERT(name->len <= SETTINGS_NAME_LEN_MAX && kind <= SETTINGS_KIND_MAX);
    bytes[0] = (uint8_t)kind;
    memcpy(bytes + 1, name->data, name->len);
    const struct hash128 hash = settings_change_digest(bytes, 1 + name->len);
    (void)snprintf(out, KEY_LEN, KEY_RECORD "%016" PRIx64 "%016" PRIx64, hash.hi, hash.lo);
}

static void log_key(uint64_t version, char out[KEY_LEN])
{
    (void)snprintf(out, KEY_LEN, KEY_LOG "%016" PRIx64, version);
}

/* Keeps the record as it is now, or its absence. */
static void keep_record(struct settings *settings, uint32_t kind, const struct settings_text *name,
                        struct effects *effects)
{
    char key[KEY_LEN];
    const struct settings_entry *entry = settings_table_find(&settings->table, kind, name);
    record_key(kind, name, key);
    if (entry == NULL) {
        settings_keep(key, NULL, 0, true, effects);
        return;
    }
    const int len = settings_entry_encode(entry, settings->bytes, SETTINGS_RECORD_LEN_MAX);
    ASSERT(len > 0); /* it was decoded from no more */
    settings_keep(key, settings->bytes, (size_t)len, true, effects);
}

/* The end of a transaction, but for `more`. */
static void keep_head(const struct settings *settings, bool more, struct effects *effects)
{
    uint8_t bytes[HEAD_LEN_MAX];
    struct mp_writer writer;
    mp_writer_init(&writer, bytes, sizeof bytes);
    mp_put_array(&writer, HEAD_FIELDS);
    mp_put_uint(&writer, HEAD_VERSION);
    mp_put_uint(&writer, settings->version);
    mp_put_array(&writer, settings->voters.count);
    for (uint32_t i = 0; i < settings->voters.count; i++)
        mp_put_uint(&writer, settings->voters.ids[i]);
    mp_put_uint(&writer, settings->digest.lo);
    mp_put_uint(&writer, settings->digest.hi);
    mp_put_uint(&writer, settings->log.floor_version);
    mp_put_uint(&writer, settings->log.floor_digest.lo);
    mp_put_uint(&writer, settings->log.floor_digest.hi);
    mp_put_bool(&writer, settings->mixed);
    ASSERT(!writer.failed);
    settings_keep(KEY_HEAD, bytes, writer.len, more, effects);
}

void settings_end(const struct settings *settings, struct effects *effects)
{
    keep_head(settings, false, effects);
}

/* ---- applying -------------------------------------------------------------------------------- */

static int apply_op(struct settings *settings, const struct settings_change *change,
                    const struct settings_op *op)
{
    const struct settings_entry entry = {
        .kind = op->kind,
        .name = op->name,
        .version = change->version,
        .time_ms = change->time_ms,
        .author = change->author,
        .note = change->note,
        .value = op->value,
    };
    if (!op->removes)
        return settings_table_put(&settings->table, &entry);
    (void)settings_table_remove(&settings->table, op->kind, &op->name, change->version);
    return 0;
}

/* Keeps the newest change of the log, and forgets those that are too many. */
static void keep_log(struct settings *settings, uint64_t version, const void *bytes, size_t len,
                     struct effects *effects)
{
    char key[KEY_LEN];
    uint64_t surplus;
    log_key(version, key);
    settings_keep(key, bytes, len, true, effects);
    while ((surplus = settings_log_surplus(&settings->log)) != 0) {
        settings_log_drop(&settings->log);
        log_key(surplus, key);
        settings_keep(key, NULL, 0, true, effects);
    }
}

static void note_kind(struct settings *settings, uint32_t kind)
{
    if (kind < SETTINGS_KINDS)
        settings->kind_since[kind]++;
}

int settings_apply(struct settings *settings, const void *bytes, size_t len, bool more,
                   struct effects *effects)
{
    struct settings_change change;
    int error = settings_change_decode(bytes, len, &change);
    if (error != 0)
        return TG_EPROTOCOL;
    if (change.version <= settings->version || !hash128_equal(change.before, settings->digest))
        return TG_ECONFLICT; /* SETTINGS-3 */
    for (uint32_t i = 0; i < change.op_count && error == 0; i++)
        error = apply_op(settings, &change, &change.ops[i]);
    if (error == 0)
        error = settings_log_add(&settings->log, &change, bytes, len);
    if (error != 0)
        return error; /* done again, what was put stays put (SETTINGSTABLE-2) */
    settings->version = change.version;
    settings->digest = settings_change_digest(bytes, len);
    settings->voters = change.voters;
    settings->copying.active = false;
    settings->mixed =
        false; /* what it has is what this change makes of it: others will copy that */
    settings->applied++;
    for (uint32_t i = 0; i < change.op_count; i++) {
        note_kind(settings, change.ops[i].kind);
        keep_record(settings, change.ops[i].kind, &change.ops[i].name, effects);
    }
    keep_log(settings, change.version, bytes, len, effects);
    keep_head(settings, more, effects);
    register_follow_value(settings->ballots, settings->version, &settings->voters);
    return 0;
}

const struct settings_entry *settings_current(const struct settings *settings, uint32_t kind,
                                              const struct settings_text *name)
{
    return kind == SETTINGS_RULES ? settings_table_last(&settings->table, kind)
                                  : settings_table_find(&settings->table, kind, name);
}

/* ---- answering one who is behind ------------------------------------------------------------- */

static bool add_item(struct settings_frame *out, const uint8_t *bytes, size_t len, size_t *used)
{
    if (out->item_count == SETTINGS_ITEMS_MAX ||
        (out->item_count > 0 && *used + len > SETTINGS_FRAME_BYTES))
        return false;
    out->items[out->item_count++] = (struct settings_item){bytes, len};
    *used += len;
    return true;
}

static void put_changes(const struct settings *settings, const struct settings_logged *first,
                        struct settings_frame *out)
{
    size_t used = 0;
    bool known;
    out->type = SETTINGS_CHANGES;
    for (const struct settings_logged *logged = first;
         logged != NULL && out->item_count < SETTINGS_APPLY_MAX &&
         add_item(out, logged->bytes, logged->len, &used);)
        logged = settings_log_after(&settings->log, logged->version, logged->digest, &known);
}

static void put_records(struct settings *settings, struct settings_frame *out)
{
    const struct settings_table *table = &settings->table;
    size_t at = out->from.kind == 0 ? 0 : settings_table_at(table, out->from.kind, &out->from.name);
    size_t used = 0;
    out->type = SETTINGS_RECORDS;
    for (; at < table->count; at++) {
        const int len = settings_entry_encode(&table->records[at]->entry, settings->bytes + used,
                                              JOIN_LARGE_FRAME_MAX - used);
        if (len < 0 || out->item_count == settings->items_max ||
            !add_item(out, settings->bytes + used, (size_t)len, &used))
            break;
    }
    if (at < table->count)
        out->to =
            (struct settings_place){table->records[at]->entry.kind, table->records[at]->entry.name};
}

bool settings_follows(const struct settings *settings, const void *bytes, size_t len)
{
    struct settings_change change;
    return settings->mixed || settings_change_decode(bytes, len, &change) != 0 ||
           change.version != settings->version + 1 ||
           hash128_equal(change.before, settings->digest);
}

bool settings_answer(struct settings *settings, const struct settings_frame *asked,
                     struct settings_frame *out)
{
    bool known;
    if (asked->version >= settings->version || settings->mixed) /* SETTINGS-6 */
        return false;
    memset(out, 0, offsetof(struct settings_frame, items));
    out->version = settings->version;
    out->digest = settings->digest;
    out->voters = settings->voters;
    const struct settings_logged *first =
        settings_log_after(&settings->log, asked->version, asked->digest, &known);
    if (asked->from.kind == 0 && first != NULL) {
        put_changes(settings, first, out);
    } else {
        out->from = asked->from;
        put_records(settings, out);
    }
    return true;
}

/* ---- copying --------------------------------------------------------------------------------- */

static bool same_place(const struct settings_copying *copying, const struct settings_place *place)
{
    return copying->next_kind == place->kind && copying->next_len == place->name.len &&
           (place->name.len == 0 ||
            memcmp(copying->next_name, place->name.data, place->name.len) == 0);
}

static void set_next(struct settings_copying *copying, const struct settings_place *place)
{
    copying->next_kind = place->kind;
    copying->next_len = place->name.len;
    if (place->name.len > 0) /* the beginning and the end have no name at all */
        memcpy(copying->next_name, place->name.data, place->name.len);
}

/* Whether the frame goes on with the copy, or begins one. */
static bool fits_copy(struct settings *settings, const struct settings_frame *frame)
{
    struct settings_copying *copying = &settings->copying;
    if (frame->from.kind != 0)
        return copying->active && copying->source == frame->sender &&
               same_place(copying, &frame->from);
    if (frame->version <= settings->version)
        return false;
    copying->active = true;
    copying->source = frame->sender;
    copying->version = frame->version;
    copying->digest = frame->digest;
    copying->voters = frame->voters;
    set_next(copying, &frame->from);
    return true;
}

/* The changes of a history that is left behind. */
static void forget_log(struct settings *settings, struct effects *effects)
{
    char key[KEY_LEN];
    while (settings->log.count > 0) {
        log_key(settings->log.changes[settings->log.first].version, key);
        settings_log_drop(&settings->log);
        settings_keep(key, NULL, 0, true, effects);
    }
    settings_log_reset(&settings->log, settings->version, settings->digest);
}

static bool decode_items(const struct settings_frame *frame, uint32_t at,
                         struct settings_entry *entry)
{
    return settings_entry_decode(frame->items[at].bytes, frame->items[at].len, entry) == 0;
}

static bool items_readable(const struct settings_frame *frame)
{
    struct settings_entry entry;
    for (uint32_t i = 0; i < frame->item_count; i++)
        if (!decode_items(frame, i, &entry))
            return false;
    return true;
}

/* Whether the frame has this very record; `at` is how far it was read, both being in order. The
 * version alone does not say so: where histories parted, both may have made one of it. */
static bool in_frame(const struct settings_frame *frame, const struct settings_entry *wanted,
                     uint32_t *at)
{
    struct settings_entry entry;
    for (; *at < frame->item_count && decode_items(frame, *at, &entry); ++*at) {
        const int order = settings_compare(entry.kind, &entry.name, wanted->kind, &wanted->name);
        if (order >= 0)
            return order == 0 && entry.version == wanted->version &&
                   settings_text_equal(&entry.value, &wanted->value);
    }
    return false;
}

/* Removes what the source does not have, or has otherwise, in the range. False if that was too much
 * for one transaction: the range is asked for again. */
static bool drop_range(struct settings *settings, const struct settings_frame *frame,
                       struct effects *effects)
{
    struct settings_table *table = &settings->table;
    uint32_t dropped = 0;
    uint32_t read = 0;
    char key[KEY_LEN];
    size_t at =
        frame->from.kind == 0 ? 0 : settings_table_at(table, frame->from.kind, &frame->from.name);
    for (;;) {
        const size_t end = frame->to.kind == 0
                               ? table->count
                               : settings_table_at(table, frame->to.kind, &frame->to.name);
        if (at >= end)
            return true;
        const struct settings_entry *entry = &table->records[at]->entry;
        if (in_frame(frame, entry, &read)) {
            at++;
            continue;
        }
        if (dropped++ == SETTINGS_RANGE_DROPS_MAX)
            return false;
        note_kind(settings, entry->kind);
        record_key(entry->kind, &entry->name, key);
        settings_keep(key, NULL, 0, true, effects);
        (void)settings_table_remove(table, entry->kind, &entry->name, UINT64_MAX);
    }
}

static bool put_range(struct settings *settings, const struct settings_frame *frame,
                      struct effects *effects)
{
    struct settings_entry entry;
    for (uint32_t i = 0; i < frame->item_count; i++) {
        if (!decode_items(frame, i, &entry) || settings_table_put(&settings->table, &entry) != 0)
            return false;
        note_kind(settings, entry.kind);
        keep_record(settings, entry.kind, &entry.name, effects);
    }
    return true;
}

/* From now on the records are of no version (SETTINGS-6). Two nodes that copy from one source have
 * not got the same of it, so the digest is this node's alone. */
static void begin_mixing(struct settings *settings)
{
    ASSERT(settings->copying.active); /* SETTINGS-6 */
    uint8_t bytes[24];
    struct bytes_writer writer;
    if (settings->mixed)
        return;
    bytes_writer_init(&writer, bytes, sizeof bytes);
    bytes_put_u64(&writer, settings->digest.lo);
    bytes_put_u64(&writer, settings->digest.hi);
    bytes_put_u64(&writer, settings->node_id);
    settings->digest = settings_change_digest(bytes, sizeof bytes);
    settings->mixed = true;
}

/* All records are there: the node has what the source had when the copy began, or newer. */
static void end_copy(struct settings *settings)
{
    struct settings_copying *copying = &settings->copying;
    ASSERT(copying->version > settings->version); /* else a change that was applied has ended it */
    copying->active = false;
    settings->mixed = false;
    settings->version = copying->version;
    settings->digest = copying->digest;
    settings->voters = copying->voters;
    settings->copied++;
    settings_log_reset(&settings->log, settings->version, settings->digest);
    register_follow_value(settings->ballots, settings->version, &settings->voters);
}

bool settings_take_records(struct settings *settings, int64_t now_ns,
                           const struct settings_frame *frame, struct effects *effects)
{
    struct settings_copying *copying = &settings->copying;
    if (!items_readable(frame) || !fits_copy(settings, frame))
        return false;
    ASSERT(copying->active && copying->source == frame->sender); /* SETTINGS-6 */
    copying->heard_ns = now_ns;
    begin_mixing(settings);
    forget_log(settings, effects);
    if (drop_range(settings, frame, effects) && put_range(settings, frame, effects)) {
        set_next(copying, &frame->to);
        if (frame->to.kind == 0)
            end_copy(settings);
    }
    keep_head(settings, false, effects);
    return true;
}

/* ---- restoring ------------------------------------------------------------------------------- */

static int restore_head(struct settings *settings, const void *bytes, size_t len)
{
    struct mp_token tokens[HEAD_FIELDS + RING_VOTERS_MAX + 4];
    struct mp_cursor cursor;
    struct hash128 floor;
    const int count = mp_parse(bytes, len, tokens, sizeof tokens / sizeof *tokens);
    if (count < 0)
        return TG_ECORRUPT;
    mp_cursor_init(&cursor, tokens, (size_t)count);
    const bool known = mp_get_array(&cursor) == HEAD_FIELDS && mp_get_uint(&cursor) == HEAD_VERSION;
    settings->version = mp_get_uint(&cursor);
    settings->voters.count = mp_get_array(&cursor);
    if (settings->voters.count > RING_VOTERS_MAX)
        return TG_ECORRUPT;
    for (uint32_t i = 0; i < settings->voters.count; i++)
        settings->voters.ids[i] = mp_get_uint(&cursor);
    settings->digest.lo = mp_get_uint(&cursor);
    settings->digest.hi = mp_get_uint(&cursor);
    const uint64_t floor_version = mp_get_uint(&cursor);
    floor.lo = mp_get_uint(&cursor);
    floor.hi = mp_get_uint(&cursor);
    settings->mixed = mp_get_bool(&cursor);
    if (cursor.failed || !known || floor_version > settings->version ||
        (settings->version > 0) != (settings->voters.count > 0))
        return TG_ECORRUPT;
    settings_log_reset(&settings->log, floor_version, floor);
    if (settings->version > 0)
        register_follow_value(settings->ballots, settings->version, &settings->voters);
    return 0;
}

static int restore_change(struct settings *settings, const void *bytes, size_t len)
{
    struct settings_change change;
    const struct settings_log *log = &settings->log;
    if (settings_change_decode(bytes, len, &change) != 0 || log->count == SETTINGS_LOG_MAX ||
        change.version <= log->floor_version)
        return TG_ECORRUPT;
    return settings_log_add(&settings->log, &change, bytes, len);
}

static int restore_record(struct settings *settings, const void *bytes, size_t len)
{
    struct settings_entry entry;
    if (settings_entry_decode(bytes, len, &entry) != 0)
        return TG_ECORRUPT;
    note_kind(settings, entry.kind);
    return settings_table_put(&settings->table, &entry);
}

int settings_restore(struct settings *settings, int64_t now_ns, const char *key, const void *bytes,
                     size_t len)
{
    if (strcmp(key, KEY_HEAD) == 0)
        return restore_head(settings, bytes, len);
    if (strncmp(key, KEY_LOG, strlen(KEY_LOG)) == 0)
        return restore_change(settings, bytes, len);
    if (strncmp(key, KEY_RECORD, strlen(KEY_RECORD)) == 0)
        return restore_record(settings, bytes, len);
    if (strcmp(key, SETTINGS_REGISTER_KEY) == 0)
        return register_restore(settings->ballots, now_ns, bytes, len);
    return 0; /* of a newer release */
}

/* Whether the log leads from its floor to the head (SETTINGSTABLE-3). */
int settings_restored(const struct settings *settings)
{
    const struct settings_log *log = &settings->log;
    struct hash128 before = log->floor_digest;
    uint64_t version = log->floor_version;
    for (uint32_t i = 0; i < log->count; i++) {
        const struct settings_logged *logged = &log->changes[(log->first + i) % SETTINGS_LOG_MAX];
        struct settings_change change;
        if (settings_change_decode(logged->bytes, logged->len, &change) != 0 ||
            !hash128_equal(change.before, before))
            return TG_ECORRUPT;
        before = logged->digest;
        version = logged->version;
    }
    return version == settings->version && hash128_equal(before, settings->digest) ? 0
                                                                                   : TG_ECORRUPT;
}

void settings_forget(struct settings *settings)
{
    static const struct hash128 none = {0};
    register_forget(settings->ballots);
    settings_table_fini(&settings->table);
    settings_log_reset(&settings->log, 0, none);
    settings->version = 0;
    settings->digest = none;
    settings->voters.count = 0;
    settings->mixed = false;
    settings->copying.active = false;
    settings->more_ns = 0;
    for (uint32_t kind = 0; kind < SETTINGS_KINDS; kind++)
        settings->kind_since[kind]++; /* the last of them may be one that was never kept */
}

/* ---- life ------------------------------------------------------------------------------------ */

int settings_new(const struct allocator *allocator, const struct settings_options *options,
                 struct settings **out)
{
    *out = NULL;
    struct settings *settings = alloc_get(allocator, sizeof *settings);
    if (settings == NULL)
        return TG_ENOMEM;
    const struct register_options votes = {
        .node_id = options->node_id,
        .boot = options->boot,
        .seed = options->seed,
        .read = settings_change_read,
        .value_len_max = SETTINGS_CHANGE_LEN_MAX,
    };
    settings->allocator = allocator;
    settings->node_id = options->node_id;
    settings->items_max =
        options->items_max != 0 ? options->items_max : (uint32_t)SETTINGS_ITEMS_MAX;
    settings_table_init(&settings->table, allocator);
    settings_log_init(&settings->log, allocator,
                      options->log_max != 0 ? options->log_max : (uint32_t)SETTINGS_LOG_MAX);
    settings->bytes = alloc_get(allocator, JOIN_LARGE_FRAME_MAX);
    settings->value = alloc_get(allocator, SETTINGS_CHANGE_LEN_MAX);
    settings->frame = alloc_get(allocator, sizeof *settings->frame);
    settings->answer = alloc_get(allocator, sizeof *settings->answer);
    const int error = register_new(allocator, &votes, &settings->ballots);
    *out = settings;
    if (error == 0 && settings->bytes != NULL && settings->value != NULL &&
        settings->frame != NULL && settings->answer != NULL)
        return 0;
    settings_free(out);
    return TG_ENOMEM;
}

void settings_free(struct settings **pointer)
{
    struct settings *settings = *pointer;
    *pointer = NULL;
    if (settings == NULL)
        return;
    const struct allocator *allocator = settings->allocator;
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++)
        alloc_put(allocator, settings->edits[i].bytes, settings->edits[i].bytes_len);
    register_free(&settings->ballots);
    settings_table_fini(&settings->table);
    settings_log_fini(&settings->log);
    alloc_put(allocator, settings->bytes, JOIN_LARGE_FRAME_MAX);
    alloc_put(allocator, settings->value, SETTINGS_CHANGE_LEN_MAX);
    alloc_put(allocator, settings->frame, sizeof *settings->frame);
    alloc_put(allocator, settings->answer, sizeof *settings->answer);
    alloc_put(allocator, settings, sizeof *settings);
}

void settings_check_invariants(const struct settings *settings)
{
    settings_table_check_invariants(&settings->table);
    settings_log_check_invariants(&settings->log);
    register_check_invariants(settings->ballots);
    INVARIANT("SETTINGS-3", settings_restored(settings) == 0);
    INVARIANT("SETTINGS-1", (settings->version > 0) == (settings->voters.count > 0));
    INVARIANT("SETTINGS-1", settings->voters.count <= RING_VOTERS_MAX);
}
