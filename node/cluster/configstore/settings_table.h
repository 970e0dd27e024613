/* settings_table.h - the records of the settings in memory, and the last changes that made them.
 *
 *   table   records sorted by (kind, name), so that they can be listed and copied in ranges
 *   log     the changes after the floor, oldest first: what a node that was away for a while lacks
 *
 *        floor                                          head
 *   ------|--- change --- change --- ... --- change -----|        at most SETTINGS_LOG_MAX of them
 *
 * SETTINGSTABLE-1  No two records have one kind and name; each has the version that put it last.
 * SETTINGSTABLE-2  A change is applied to a record only if the record is not newer already. So a
 *                  copy that was taken while changes went on becomes right by applying the changes
 *                  since it was begun.
 * SETTINGSTABLE-3  Each change of the log names the digest of the one before it; the first one, the
 *                  floor's.
 * SETTINGSTABLE-4  The bytes that are counted are those of the records, and of the changes.
 *
 * Memory is taken as records come, by the allocator given: nothing here is on the check path.
 */
#ifndef NODE_CLUSTER_CONFIGSTORE_SETTINGS_TABLE_H
#define NODE_CLUSTER_CONFIGSTORE_SETTINGS_TABLE_H

#include "base/alloc.h"
#include "node/cluster/configstore/settings_change.h"

enum {
    SETTINGS_RECORDS_MAX = 1 << 20,
    SETTINGS_LOG_MAX = 1024,
    SETTINGS_LOG_BYTES_MAX = 4 << 20, /* the newest change is kept whatever its size */
};
#define SETTINGS_BYTES_MAX ((size_t)256 << 20) /* of all records */

struct settings_record {
    struct settings_entry entry; /* its texts lie behind it */
    size_t bytes;                /* of the block */
};

struct settings_table {
    const struct allocator *allocator;
    struct settings_record **records;
    size_t count;
    size_t capacity;
    size_t bytes;
};

struct settings_logged {
    uint64_t version;
    struct hash128 digest;
    struct hash128 id;
    uint8_t *bytes;
    size_t len;
};

struct settings_log {
    const struct allocator *allocator;
    uint64_t floor_version; /* of the change before the first one here */
    struct hash128 floor_digest;
    struct settings_logged changes[SETTINGS_LOG_MAX]; /* a ring */
    uint32_t first;
    uint32_t count;
    uint32_t count_max; /* SETTINGS_LOG_MAX, or less for tests */
    size_t bytes;
};

/* The order of records: below, equal, above. */
int settings_compare(uint32_t kind_a, const struct settings_text *a, uint32_t kind_b,
                     const struct settings_text *b);

void settings_table_init(struct settings_table *table, const struct allocator *allocator);
void settings_table_fini(struct settings_table *table);
/* The place of the first record that is not below (kind, name). */
size_t settings_table_at(const struct settings_table *table, uint32_t kind,
                         const struct settings_text *name);
/* The record, or NULL. It lives until it is put again or removed. */
const struct settings_entry *settings_table_find(const struct settings_table *table, uint32_t kind,
                                                 const struct settings_text *name);
/* The record of the kind with the highest name, or NULL. */
const struct settings_entry *settings_table_last(const struct settings_table *table, uint32_t kind);
/* Puts a copy of the entry, unless a newer one is there (SETTINGSTABLE-2). 0 or TG_ENOMEM. */
MUST_USE int settings_table_put(struct settings_table *table, const struct settings_entry *entry);
/* Removes the record, unless it is of `version` or newer; false if nothing was removed. */
bool settings_table_remove(struct settings_table *table, uint32_t kind,
                           const struct settings_text *name, uint64_t version);

void settings_log_init(struct settings_log *log, const struct allocator *allocator,
                       uint32_t count_max);
void settings_log_fini(struct settings_log *log);
/* Empties it; the next change follows `version`, whose digest this is. */
void settings_log_reset(struct settings_log *log, uint64_t version, struct hash128 digest);
/* Appends a copy of an encoded change. 0 or TG_ENOMEM. */
MUST_USE int settings_log_add(struct settings_log *log, const struct settings_change *change,
                              const void *bytes, size_t len);
/* The version of the oldest change if there are too many, which settings_log_drop then removes;
 * else 0. */
uint64_t settings_log_surplus(const struct settings_log *log);
void settings_log_drop(struct settings_log *log);
/* The change that follows `version`, if that is in the history with this digest; NULL if it is the
 * newest one, or not known. `known` says which. */
const struct settings_logged *settings_log_after(const struct settings_log *log, uint64_t version,
                                                 struct hash128 digest, bool *known);
/* The version of the change that carried out edit `id`; 0 if it is not in the log. */
uint64_t settings_log_find(const struct settings_log *log, struct hash128 id);

void settings_table_check_invariants(const struct settings_table *table);
void settings_log_check_invariants(const struct settings_log *log);

#endif
