/* settings_table.c - records and changes of settings_table.h.
 *
 * Records are a sorted array of pointers: settings are read and written rarely, copied in order,
 * and put at the end while they are loaded, which costs nothing.
 */
#include "node/cluster/configstore/settings_table.h"

#include <string.h>

#include "base/assert.h"

enum { CAPACITY_MIN = 64 };

int settings_compare(uint32_t kind_a, const struct settings_text *a, uint32_t kind_b,
                     const struct settings_text *b)
{
    if (kind_a != kind_b)
        return kind_a < kind_b ? -1 : 1;
    const size_t len = a->len < b->len ? a->len : b->len;
    const int order = len > 0 ? memcmp(a->data, b->data, len) : 0;
    if (order != 0)
        return order;
    return (a->len > b->len) - (a->len < b->len);
}

/* ---- records --------------------------------------------------------------------------------- */

void settings_table_init(struct settings_table *table, const struct allocator *allocator)
{
    memset(table, 0, sizeof *table);
    table->allocator = allocator;
}

void settings_table_fini(struct settings_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        alloc_put(table->allocator, table->records[i], table->records[i]->bytes);
    alloc_put(table->allocator, table->records, table->capacity * sizeof *table->records);
    table->records = NULL;
    table->count = 0;
    table->capacity = 0;
    table->bytes = 0;
}

size_t settings_table_at(const struct settings_table *table, uint32_t kind,
                         const struct settings_text *name)
{
    ASSERT(table->count == 0 || table->records != NULL);
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct settings_entry *entry = &table->records[middle]->entry;
        if (settings_compare(entry->kind, &entry->name, kind, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct settings_table *table, size_t at, uint32_t kind,
                  const struct settings_text *name)
{
    ASSERT(table->count <= table->capacity); /* SETTINGSTABLE-4 */
    return at < table->count && settings_compare(table->records[at]->entry.kind,
                                                 &table->records[at]->entry.name, kind, name) == 0;
}

const struct settings_entry *settings_table_find(const struct settings_table *table, uint32_t kind,
                                                 const struct settings_text *name)
{
    const size_t at = settings_table_at(table, kind, name);
    return is_at(table, at, kind, name) ? &table->records[at]->entry : NULL;
}

const struct settings_entry *settings_table_last(const struct settings_table *table, uint32_t kind)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const size_t end = settings_table_at(table, kind + 1, &none);
    return end > 0 && table->records[end - 1]->entry.kind == kind ? &table->records[end - 1]->entry
                                                                  : NULL;
}

static struct settings_text keep_text(char **at, const struct settings_text *text)
{
    const struct settings_text kept = {.data = *at, .len = text->len};
    if (text->len > 0)
        memcpy(*at, text->data, text->len);
    *at += text->len;
    return kept;
}

static struct settings_record *make_record(const struct settings_table *table,
                                           const struct settings_entry *entry)
{
    const size_t bytes = sizeof(struct settings_record) + entry->name.len + entry->author.len +
                         entry->note.len + entry->value.len + 1;
    struct settings_record *record = alloc_get(table->allocator, bytes);
    if (record == NULL)
        return NULL;
    char *at = (char *)(record + 1);
    record->bytes = bytes;
    record->entry = *entry;
    record->entry.name = keep_text(&at, &entry->name);
    record->entry.author = keep_text(&at, &entry->author);
    record->entry.note = keep_text(&at, &entry->note);
    record->entry.value = keep_text(&at, &entry->value); /* a NUL follows it: memory is zeroed */
    ASSERT((size_t)(at - (char *)record) < bytes);       /* SETTINGSTABLE-4 */
    return record;
}

static bool grow(struct settings_table *table)
{
    if (table->count < table->capacity)
        return true;
    const size_t capacity = table->capacity == 0 ? CAPACITY_MIN : 2 * table->capacity;
    struct settings_record **records =
        alloc_array(table->allocator, capacity, sizeof(struct settings_record *));
    if (records == NULL)
        return false;
    if (table->count > 0)
        memcpy(records, table->records, table->count * sizeof *records);
    alloc_put(table->allocator, table->records, table->capacity * sizeof *table->records);
    table->records = records;
    table->capacity = capacity;
    return true;
}

int settings_table_put(struct settings_table *table, const struct settings_entry *entry)
{
    const size_t at = settings_table_at(table, entry->kind, &entry->name);
    const bool there = is_at(table, at, entry->kind, &entry->name);
    if (there && table->records[at]->entry.version >= entry->version)
        return 0; /* SETTINGSTABLE-2 */
    struct settings_record *record = grow(table) ? make_record(table, entry) : NULL;
    if (record == NULL)
        return TG_ENOMEM;
    table->bytes += record->bytes;
    if (there) {
        table->bytes -= table->records[at]->bytes;
        alloc_put(table->allocator, table->records[at], table->records[at]->bytes);
    } else {
        memmove(table->records + at + 1, table->records + at,
                (table->count - at) * sizeof *table->records);
        table->count++;
    }
    table->records[at] = record;
    return 0;
}

bool settings_table_remove(struct settings_table *table, uint32_t kind,
                           const struct settings_text *name, uint64_t version)
{
    const size_t at = settings_table_at(table, kind, name);
    if (!is_at(table, at, kind, name) || table->records[at]->entry.version >= version)
        return false; /* SETTINGSTABLE-2 */
    struct settings_record *record = table->records[at];
    table->bytes -= record->bytes;
    table->count--;
    memmove(table->records + at, table->records + at + 1,
            (table->count - at) * sizeof *table->records);
    alloc_put(table->allocator, record, record->bytes);
    return true;
}

void settings_table_check_invariants(const struct settings_table *table)
{
    size_t bytes = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct settings_entry *entry = &table->records[i]->entry;
        bytes += table->records[i]->bytes;
        if (i == 0)
            continue;
        const struct settings_entry *before = &table->records[i - 1]->entry;
        INVARIANT("SETTINGSTABLE-1",
                  settings_compare(before->kind, &before->name, entry->kind, &entry->name) < 0);
    }
    INVARIANT("SETTINGSTABLE-4", bytes == table->bytes);
    INVARIANT("SETTINGSTABLE-4", table->count <= table->capacity);
}

/* ---- changes --------------------------------------------------------------------------------- */

static struct settings_logged *logged_at(struct settings_log *log, uint32_t place)
{
    return &log->changes[(log->first + place) % SETTINGS_LOG_MAX];
}

static const struct settings_logged *read_logged(const struct settings_log *log, uint32_t place)
{
    return &log->changes[(log->first + place) % SETTINGS_LOG_MAX];
}

void settings_log_init(struct settings_log *log, const struct allocator *allocator,
                       uint32_t count_max)
{
    memset(log, 0, sizeof *log);
    log->allocator = allocator;
    log->count_max = count_max;
}

void settings_log_fini(struct settings_log *log)
{
    for (uint32_t i = 0; i < log->count; i++) {
        struct settings_logged *logged = logged_at(log, i);
        alloc_put(log->allocator, logged->bytes, logged->len);
        logged->bytes = NULL;
    }
    log->first = 0;
    log->count = 0;
    log->bytes = 0;
}

void settings_log_reset(struct settings_log *log, uint64_t version, struct hash128 digest)
{
    settings_log_fini(log);
    log->floor_version = version;
    log->floor_digest = digest;
}

int settings_log_add(struct settings_log *log, const struct settings_change *change,
                     const void *bytes, size_t len)
{
    if (log->count == SETTINGS_LOG_MAX)
        settings_log_drop(log);
    uint8_t *copy = alloc_get(log->allocator, len);
    if (copy == NULL)
        return TG_ENOMEM;
    memcpy(copy, bytes, len);
    *logged_at(log, log->count++) = (struct settings_logged){
        .version = change->version,
        .digest = settings_change_digest(bytes, len),
        .id = change->id,
        .bytes = copy,
        .len = len,
    };
    log->bytes += len;
    return 0;
}

uint64_t settings_log_surplus(const struct settings_log *log)
{
    const bool full = log->count >= log->count_max;
    const bool heavy = log->count > 1 && log->bytes > SETTINGS_LOG_BYTES_MAX;
    return full || heavy ? read_logged(log, 0)->version : 0;
}

void settings_log_drop(struct settings_log *log)
{
    ASSERT(log->count > 0);
    struct settings_logged *oldest = logged_at(log, 0);
    log->floor_version = oldest->version;
    log->floor_digest = oldest->digest;
    log->bytes -= oldest->len;
    alloc_put(log->allocator, oldest->bytes, oldest->len);
    oldest->bytes = NULL;
    log->first = (log->first + 1) % SETTINGS_LOG_MAX;
    log->count--;
}

const struct settings_logged *settings_log_after(const struct settings_log *log, uint64_t version,
                                                 struct hash128 digest, bool *known)
{
    uint32_t next = log->count + 1;
    if (version == log->floor_version && hash128_equal(digest, log->floor_digest))
        next = 0;
    for (uint32_t i = 0; i < log->count && next > log->count; i++) {
        const struct settings_logged *logged = read_logged(log, i);
        if (logged->version == version && hash128_equal(digest, logged->digest))
            next = i + 1;
    }
    *known = next <= log->count;
    return next < log->count ? read_logged(log, next) : NULL;
}

uint64_t settings_log_find(const struct settings_log *log, struct hash128 id)
{
    for (uint32_t i = log->count; i > 0; i--)
        if (hash128_equal(read_logged(log, i - 1)->id, id))
            return read_logged(log, i - 1)->version;
    return 0;
}

void settings_log_check_invariants(const struct settings_log *log)
{
    struct hash128 before = log->floor_digest;
    uint64_t version = log->floor_version;
    size_t bytes = 0;
    for (uint32_t i = 0; i < log->count; i++) {
        const struct settings_logged *logged = read_logged(log, i);
        struct settings_change change;
        const int error = settings_change_decode(logged->bytes, logged->len, &change);
        INVARIANT("SETTINGSTABLE-3", error == 0 && change.version == logged->version);
        INVARIANT("SETTINGSTABLE-3", change.version > version);
        INVARIANT("SETTINGSTABLE-3", hash128_equal(change.before, before));
        before = logged->digest;
        version = logged->version;
        bytes += logged->len;
    }
    INVARIANT("SETTINGSTABLE-4", bytes == log->bytes);
}
