/* read.c - reads slots, headers and whole vnodes, in short transactions.
 *
 * READ-1  Nothing of a transaction leaves it: states are copied, callbacks run inside.
 * READ-2  Reading needs no memory of the store, so any number of threads may read.
 * READ-3  A scan holds a transaction for one vnode at a time, so that pages freed meanwhile are
 *         reused soon.
 */
#include <string.h>

#include "base/assert.h"
#include "storage/internal.h"

void slot_keep(struct slot_reads *reads, struct store_slot_read *read)
{
    struct store_record *const record = &read->record;
    if (record->len > reads->capacity - reads->used) {
        read->result = TG_ETOOBIG;
        record->state = NULL;
        return;
    }
    if (record->len > 0) {
        memcpy(reads->buffer + reads->used, record->state, record->len);
    }
    ASSERT(reads->used + record->len <= reads->capacity); /* READ-1 */
    record->state = reads->buffer + reads->used;          /* READ-1 */
    reads->used += record->len;
}

int slot_read_one(struct store *store, uint32_t vnode, struct hash128 id, void *buffer,
                  size_t capacity, struct store_record *out,
                  int (*read_slots)(struct store *store, struct store_slot_read *reads,
                                    size_t count, void *buffer, size_t capacity))
{
    struct store_slot_read read = {.vnode = vnode, .id = id};
    const int result = read_slots(store, &read, 1, buffer, capacity);
    *out = read.record;
    return result != 0 ? result : read.result;
}

/* Finds one slot and copies its state. The outcome is read->result; a return value ends the batch.
 */
static int slot_fetch(struct slot_reads *slots, MDB_cursor *cursor, struct store_slot_read *read)
{
    struct state_place place;
    const uint8_t *body = NULL;
    size_t body_len = 0;
    const int located = state_locate(cursor, read->vnode, read->id, false, &place);
    if (located != 0) {
        return located;
    }
    read->result = TG_ENOTFOUND;
    if (!place.found) {
        return 0;
    }
    read->result = state_open_chunk(slots->store, &place.key, &place.value, &body, &body_len);
    if (read->result != 0) {
        return 0;
    }
    if (chunk_find(body, body_len, read->id, &read->record)) {
        slot_keep(slots, read);
    } else {
        read->result = TG_ENOTFOUND;
    }
    return 0;
}

static int slots_work(void *context, MDB_txn *txn)
{
    struct slot_reads *const slots = context;
    MDB_cursor *cursor = NULL;
    int result = mdb_cursor_open(txn, slots->store->state.dbi, &cursor);
    if (result != 0) {
        return result;
    }
    for (size_t i = 0; i < slots->count && result == 0; i++) {
        result = slot_fetch(slots, cursor, &slots->reads[i]);
    }
    mdb_cursor_close(cursor);
    return result;
}

int store_read_slots(struct store *store, struct store_slot_read *reads, size_t count, void *buffer,
                     size_t capacity)
{
    struct slot_reads slots = {
        .store = store, .reads = reads, .count = count, .buffer = buffer, .capacity = capacity};
    return store_result(store, env_read(&store->state, slots_work, &slots), "read of slots");
}

int store_read_slot(struct store *store, uint32_t vnode, struct hash128 id, void *buffer,
                    size_t capacity, struct store_record *out)
{
    return slot_read_one(store, vnode, id, buffer, capacity, out, store_read_slots);
}

struct header_read {
    struct store *store;
    uint32_t vnode;
    struct store_vnode_header *out;
};

static int header_work(void *context, MDB_txn *txn)
{
    const struct header_read *const read = context;
    struct state_key key = state_key_make(read->vnode, STATE_HEADER, (struct hash128){0, 0});
    MDB_val at = {.mv_size = STATE_KEY_LEN, .mv_data = key.bytes};
    MDB_val value;
    const int result = mdb_get(txn, read->store->state.dbi, &at, &value);
    return result != 0 ? result : state_open_header(read->store, read->vnode, &value, read->out);
}

int store_vnode_header(struct store *store, uint32_t vnode, struct store_vnode_header *out)
{
    struct header_read read = {.store = store, .vnode = vnode, .out = out};
    return store_result(store, env_read(&store->state, header_work, &read), "read of a header");
}

struct scan {
    struct store *store;
    uint32_t vnode; /* in: the first to consider; out: the one scanned */
    bool exact;     /* only this one */
    int stopped;    /* what the callback returned */
    int (*records)(void *context, uint32_t vnode, const struct store_vnode_header *header,
                   const struct store_record *records, size_t count, bool last);
    void *context;
};

/* Gives one chunk to the callback. */
static int scan_chunk(struct scan *scan, const struct state_key *key, const MDB_val *value,
                      const struct store_vnode_header *header)
{
    struct store_record records[CHUNK_RECORDS_MAX];
    const uint8_t *body = NULL;
    size_t body_len = 0;
    const int result = state_open_chunk(scan->store, key, value, &body, &body_len);
    if (result != 0) {
        return result;
    }
    size_t count = 0;
    for (size_t at = 0; chunk_next(body, body_len, &at, &records[count]);) {
        count++;
        if (count == CHUNK_RECORDS_MAX) {
            break; /* chunk_open saw to it that there is no further one */
        }
    }
    ASSERT(count >= 1 && count <= CHUNK_RECORDS_MAX);
    scan->stopped = scan->records(scan->context, scan->vnode, header, records, count, false);
    return 0;
}

/* Scans the first vnode at or after scan->vnode. MDB_NOTFOUND if there is none. */
static int scan_vnode(struct scan *scan, MDB_cursor *cursor)
{
    const struct state_key from = state_key_make(scan->vnode, STATE_HEADER, (struct hash128){0, 0});
    struct store_vnode_header stored;
    const struct store_vnode_header *header = NULL;
    struct state_key key;
    MDB_val value;
    int result = state_seek(cursor, &from, &key, &value);
    if (result != 0 || (scan->exact && state_key_vnode(&key) != scan->vnode)) {
        return result != 0 ? result : MDB_NOTFOUND;
    }
    ASSERT(state_key_vnode(&key) >= scan->vnode);
    scan->vnode = state_key_vnode(&key);
    if (key.bytes[4] == STATE_HEADER) {
        result = state_open_header(scan->store, scan->vnode, &value, &stored);
        header = &stored;
        if (result == 0) {
            result = state_next(cursor, &key, &value);
        }
    }
    while (result == 0 && scan->stopped == 0 && state_key_vnode(&key) == scan->vnode) {
        result = scan_chunk(scan, &key, &value, header);
        if (result == 0) {
            result = state_next(cursor, &key, &value);
        }
    }
    if (result != 0 && result != MDB_NOTFOUND) {
        return result;
    }
    if (scan->stopped == 0) {
        scan->stopped = scan->records(scan->context, scan->vnode, header, NULL, 0, true);
    }
    return 0;
}

static int scan_work(void *context, MDB_txn *txn)
{
    struct scan *const scan = context;
    MDB_cursor *cursor = NULL;
    int result = mdb_cursor_open(txn, scan->store->state.dbi, &cursor);
    if (result == 0) {
        result = scan_vnode(scan, cursor);
        mdb_cursor_close(cursor);
    }
    return result;
}

int store_scan(struct store *store, uint32_t vnode,
               int (*records)(void *context, uint32_t vnode,
                              const struct store_vnode_header *header,
                              const struct store_record *records, size_t count, bool last),
               void *context)
{
    struct scan scan = {.store = store,
                        .vnode = vnode == STORE_VNODE_ALL ? 0 : vnode,
                        .exact = vnode != STORE_VNODE_ALL,
                        .records = records,
                        .context = context};
    int result = 0;
    do {
        result = env_read(&store->state, scan_work, &scan); /* READ-3 */
        scan.vnode++;
    } while (result == 0 && scan.stopped == 0 && !scan.exact);
    if (result == 0 || result == MDB_NOTFOUND) {
        return scan.stopped;
    }
    return store_result(store, result, "scan");
}

/* ---- ids alone ------------------------------------------------------------------------------- */

void listing_advance(struct store_listing *listing, const struct hash128 *ids, size_t count,
                     size_t capacity)
{
    ASSERT(capacity >= 1 && count <= capacity);
    listing->complete = count < capacity;
    if (!listing->complete) {
        const struct hash128 last = ids[count - 1];
        listing->next =
            (struct hash128){.hi = last.hi + (last.lo == UINT64_MAX), .lo = last.lo + 1};
        /* Behind the highest id of all there is nothing. */
        listing->complete = listing->next.hi == 0 && listing->next.lo == 0;
    }
}

struct list {
    struct store *store;
    struct store_listing *listing;
    uint64_t now_ms;
    struct hash128 *ids;
    size_t capacity;
    size_t count;
};

/* Takes the ids of one chunk from listing->next on, while there is room. */
static int list_chunk(struct list *list, const struct state_key *key, const MDB_val *value)
{
    struct store_record record;
    const uint8_t *body = NULL;
    size_t body_len = 0;
    const int result = state_open_chunk(list->store, key, value, &body, &body_len);
    if (result != 0) {
        return result;
    }
    for (size_t at = 0; list->count < list->capacity && chunk_next(body, body_len, &at, &record);) {
        if (chunk_id_less(record.id, list->listing->next) || record.expires_ms <= list->now_ms) {
            continue;
        }
        ASSERT(list->count < list->capacity);
        list->ids[list->count++] = record.id;
    }
    return 0;
}

static int list_chunks(struct list *list, MDB_cursor *cursor)
{
    const uint32_t vnode = list->listing->vnode;
    struct state_place place;
    int result = state_locate(cursor, vnode, list->listing->next, false, &place);
    if (result == 0 && !place.found) {
        const struct state_key from = state_key_make(vnode, STATE_CHUNK, list->listing->next);
        result = state_seek(cursor, &from, &place.key, &place.value);
    }
    while (result == 0 && list->count < list->capacity && state_key_vnode(&place.key) == vnode) {
        result = list_chunk(list, &place.key, &place.value);
        if (result == 0) {
            result = state_next(cursor, &place.key, &place.value);
        }
    }
    return result == MDB_NOTFOUND ? 0 : result;
}

static int list_work(void *context, MDB_txn *txn)
{
    struct list *const list = context;
    MDB_cursor *cursor = NULL;
    int result = mdb_cursor_open(txn, list->store->state.dbi, &cursor);
    if (result == 0) {
        result = list_chunks(list, cursor);
        mdb_cursor_close(cursor);
    }
    return result;
}

int store_list(struct store *store, struct store_listing *listing, uint64_t now_ms,
               struct hash128 *ids, size_t capacity, size_t *count)
{
    struct list list = {
        .store = store, .listing = listing, .now_ms = now_ms, .ids = ids, .capacity = capacity};
    const int result = env_read(&store->state, list_work, &list);
    *count = 0;
    if (result != 0) {
        return store_result(store, result, "listing of a vnode");
    }
    *count = list.count;
    listing_advance(listing, ids, list.count, capacity);
    return 0;
}
