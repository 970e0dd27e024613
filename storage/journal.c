/* journal.c - what an acceptor of consistency `quorum` must not forget, durable when a call
 * returns.
 *
 * Promises, the state a vnode has reached, and the slots themselves lie as records of their own in
 * the meta environment: a commit of the journal holds few slots, wherever they are, and waits for
 * the disk, so rewriting chunks around them would cost more than it saves. They share meta's tree
 * rather than having one of their own, because a second tree is one more page in every commit.
 *
 *     key:    0    1           5      6               14              22
 *             | 2  | vnode be32| kind | id.hi be64    | id.lo be64    |
 *             byte order = vnode, kind, id
 *     value:  0        8         9
 *             | check  | version | body ...
 *             all integers little-endian
 *
 *     body of  PROMISE: u64 epoch, number, writer          (id 0)
 *              HEADER:  u64 epoch, number, writer, seq     (id 0)
 *              SLOT:    u64 expires_ms, state
 *
 * STOREJOURNAL-1  A batch is one transaction: all of it or nothing is on disk.
 * STOREJOURNAL-2  A promise only rises, and outlives its vnode: an acceptor that leaves and comes
 *                 back has ruled out the same terms. What it accepted of a term is a promise of
 *                 that term as well.
 * STOREJOURNAL-3  `check` covers key and value, so neither a flipped bit nor the record of another
 *                 vnode is taken for data.
 * STOREJOURNAL-4  No transaction is open between calls.
 *
 * Must not interpret a state. An older release leaves keys that begin with 2 alone.
 */
#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "storage/internal.h"

enum {
    JOURNAL_SPACE = 2, /* meta.c has 0 and 1 */
    JOURNAL_KEY_LEN = 1 + STATE_KEY_LEN,
    JOURNAL_VERSION = 1,
    JOURNAL_CHECK_LEN = 8,
    JOURNAL_HEAD_LEN = JOURNAL_CHECK_LEN + 1,
    JOURNAL_PROMISE_LEN = 3 * 8,
    JOURNAL_HEADER_LEN = 4 * 8,
    JOURNAL_EXPIRES_LEN = 8,
};
static_assert((int)STORE_JOURNAL_PROMISE == 0 && (int)STORE_JOURNAL_HEADER == 1 &&
                  (int)STORE_JOURNAL_SLOT == 2,
              "kinds are in keys on disk, whose order is theirs");
#define JOURNAL_SEED UINT64_C(0x6a6f7572)

static const struct hash128 no_id;
static const char *const kind_names[] = {"promise", "header", "slot"};

static struct journal_key key_make(uint32_t vnode, enum store_journal_kind kind, struct hash128 id)
{
    ASSERT(kind <= STORE_JOURNAL_SLOT);
    const struct state_key inner = state_key_make(vnode, (uint8_t)kind, id);
    struct journal_key key = {.bytes = {JOURNAL_SPACE}};
    memcpy(key.bytes + 1, inner.bytes, STATE_KEY_LEN);
    return key;
}

static MDB_val key_value(struct journal_key *key)
{
    return (MDB_val){.mv_size = JOURNAL_KEY_LEN, .mv_data = key->bytes};
}

/* Takes a key apart. MDB_NOTFOUND behind the journal. */
static int key_open(struct store *store, const MDB_val *at, struct store_journal_record *out)
{
    struct state_key inner;
    const uint8_t *const bytes = at->mv_data;
    if (at->mv_size == 0 || bytes[0] != JOURNAL_SPACE) {
        return MDB_NOTFOUND;
    }
    if (at->mv_size != JOURNAL_KEY_LEN || bytes[5] > STORE_JOURNAL_SLOT) {
        return store_fail(store, TG_ECORRUPT, "journal: a key of %zu bytes is damaged",
                          at->mv_size);
    }
    memcpy(inner.bytes, bytes + 1, STATE_KEY_LEN);
    *out = (struct store_journal_record){.vnode = state_key_vnode(&inner),
                                         .kind = (enum store_journal_kind)bytes[5],
                                         .slot.id = state_key_id(&inner)};
    return 0;
}

static uint64_t journal_checksum(const void *key, const void *data, size_t len)
{
    return chunk_checksum(chunk_checksum(JOURNAL_SEED, key, JOURNAL_KEY_LEN), data, len);
}

static bool body_fits(enum store_journal_kind kind, size_t len)
{
    switch (kind) {
    case STORE_JOURNAL_PROMISE:
        return len == JOURNAL_PROMISE_LEN;
    case STORE_JOURNAL_HEADER:
        return len == JOURNAL_HEADER_LEN;
    case STORE_JOURNAL_SLOT:
        return len > JOURNAL_EXPIRES_LEN && len <= JOURNAL_EXPIRES_LEN + STORE_STATE_MAX;
    }
    return false;
}

static void body_read(const uint8_t *body, size_t len, struct store_journal_record *out)
{
    ASSERT(body_fits(out->kind, len));
    if (out->kind == STORE_JOURNAL_SLOT) {
        out->slot.expires_ms = bytes_u64_at(body, 0);
        out->slot.state = body + JOURNAL_EXPIRES_LEN;
        out->slot.len = (uint32_t)(len - JOURNAL_EXPIRES_LEN);
        return;
    }
    out->header.epoch = bytes_u64_at(body, 0);
    out->header.number = bytes_u64_at(body, 1);
    out->header.writer = bytes_u64_at(body, 2);
    out->header.seq = out->kind == STORE_JOURNAL_HEADER ? bytes_u64_at(body, 3) : 0;
}

/* The record under `at`; its state lies in the database. MDB_NOTFOUND behind the journal,
 * TG_ECORRUPT or TG_EVERSION with a text that names the vnode (STOREJOURNAL-3). */
static int record_open(struct store *store, const MDB_val *at, const MDB_val *value,
                       struct store_journal_record *out)
{
    const uint8_t *const bytes = value->mv_data;
    const int result = key_open(store, at, out);
    if (result != 0) {
        return result;
    }
    if (value->mv_size < JOURNAL_HEAD_LEN ||
        bytes_u64_at(bytes, 0) != journal_checksum(at->mv_data, bytes + JOURNAL_CHECK_LEN,
                                                   value->mv_size - JOURNAL_CHECK_LEN)) {
        return store_fail(store, TG_ECORRUPT, "journal of vnode %u: a %s of %zu bytes is damaged",
                          out->vnode, kind_names[out->kind], value->mv_size);
    }
    if (bytes[JOURNAL_CHECK_LEN] != JOURNAL_VERSION) {
        return store_fail(
            store, TG_EVERSION, "journal of vnode %u: a %s of version %u; this release expects %d",
            out->vnode, kind_names[out->kind], bytes[JOURNAL_CHECK_LEN], JOURNAL_VERSION);
    }
    if (!body_fits(out->kind, value->mv_size - JOURNAL_HEAD_LEN)) {
        return store_fail(store, TG_ECORRUPT, "journal of vnode %u: a %s has %zu bytes", out->vnode,
                          kind_names[out->kind], value->mv_size);
    }
    body_read(bytes + JOURNAL_HEAD_LEN, value->mv_size - JOURNAL_HEAD_LEN, out);
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

static size_t body_len(const struct store_journal_record *record)
{
    switch (record->kind) {
    case STORE_JOURNAL_PROMISE:
        return JOURNAL_PROMISE_LEN;
    case STORE_JOURNAL_HEADER:
        return JOURNAL_HEADER_LEN;
    case STORE_JOURNAL_SLOT:
        break;
    }
    return JOURNAL_EXPIRES_LEN + (size_t)record->slot.len;
}

static void body_put(struct bytes_writer *writer, const struct store_journal_record *record)
{
    if (record->kind == STORE_JOURNAL_SLOT) {
        bytes_put_u64(writer, record->slot.expires_ms);
        bytes_put(writer, record->slot.state, record->slot.len);
        return;
    }
    bytes_put_u64(writer, record->header.epoch);
    bytes_put_u64(writer, record->header.number);
    bytes_put_u64(writer, record->header.writer);
    if (record->kind == STORE_JOURNAL_HEADER) {
        bytes_put_u64(writer, record->header.seq);
    }
}

static int record_put(MDB_txn *txn, MDB_dbi dbi, struct journal_key *key,
                      const struct store_journal_record *record)
{
    MDB_val at = key_value(key);
    MDB_val value = {.mv_size = JOURNAL_HEAD_LEN + body_len(record)};
    struct bytes_writer writer;
    const int result = mdb_put(txn, dbi, &at, &value, MDB_RESERVE);
    if (result != 0) {
        return result;
    }
    uint8_t *const bytes = value.mv_data;
    bytes_writer_init(&writer, bytes + JOURNAL_CHECK_LEN, value.mv_size - JOURNAL_CHECK_LEN);
    bytes_put_u8(&writer, JOURNAL_VERSION);
    body_put(&writer, record);
    ASSERT(!writer.failed && writer.len == value.mv_size - JOURNAL_CHECK_LEN);
    const uint64_t checksum = journal_checksum(key->bytes, bytes + JOURNAL_CHECK_LEN, writer.len);
    bytes_writer_init(&writer, bytes, JOURNAL_CHECK_LEN);
    bytes_put_u64(&writer, checksum);
    return 0;
}

static bool term_below(const struct store_vnode_header *a, const struct store_vnode_header *b)
{
    if (a->epoch != b->epoch) {
        return a->epoch < b->epoch;
    }
    return a->number != b->number ? a->number < b->number : a->writer < b->writer;
}

/* Whether the promise is above the stored one (STOREJOURNAL-2). */
static int promise_rises(struct store *store, MDB_txn *txn, struct journal_key *key,
                         const struct store_journal_record *record, bool *rises)
{
    MDB_val at = key_value(key);
    MDB_val value;
    struct store_journal_record stored;
    int result = mdb_get(txn, store->meta.dbi, &at, &value);
    *rises = result == MDB_NOTFOUND;
    if (result == 0) {
        result = record_open(store, &at, &value, &stored);
        *rises = result == 0 && term_below(&stored.header, &record->header);
    }
    return result == MDB_NOTFOUND ? 0 : result;
}

static int record_apply(struct store *store, MDB_txn *txn,
                        const struct store_journal_record *record)
{
    const bool slot = record->kind == STORE_JOURNAL_SLOT;
    struct journal_key key = key_make(record->vnode, record->kind, slot ? record->slot.id : no_id);
    bool changes = true;
    if (slot && record->slot.len == 0) {
        MDB_val at = key_value(&key);
        const int removed = mdb_del(txn, store->meta.dbi, &at, NULL);
        return removed == MDB_NOTFOUND ? 0 : removed;
    }
    if (record->kind == STORE_JOURNAL_PROMISE) {
        const int result = promise_rises(store, txn, &key, record, &changes);
        if (result != 0) {
            return result;
        }
    }
    return changes ? record_put(txn, store->meta.dbi, &key, record) : 0;
}

struct journal_write {
    struct store *store;
    const struct store_journal_record *records;
    size_t count;
};

static int write_work(void *context, MDB_txn *txn)
{
    const struct journal_write *const write = context;
    int result = 0;
    for (size_t i = 0; i < write->count && result == 0; i++) {
        result = record_apply(write->store, txn, &write->records[i]);
    }
    return result;
}

/* Refuses what could not be stored, before anything is. */
static int check_records(struct store *store, const struct store_journal_record *records,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct store_journal_record *const record = &records[i];
        if (record->vnode >= STATE_VNODES_MAX || record->kind > STORE_JOURNAL_SLOT) {
            return store_fail(store, TG_EINVALID,
                              "journal: a record of vnode %u and kind %d; expected below %d and at "
                              "most %d",
                              record->vnode, (int)record->kind, STATE_VNODES_MAX,
                              STORE_JOURNAL_SLOT);
        }
        if (record->kind == STORE_JOURNAL_SLOT && record->slot.len > STORE_STATE_MAX) {
            return store_fail(store, TG_ETOOBIG,
                              "journal of vnode %u: a state of %u bytes; expected at most %d",
                              record->vnode, record->slot.len, STORE_STATE_MAX);
        }
    }
    return 0;
}

/* Visits `point`, and `promise` as well if a promise is in the batch. */
static void reach(const struct store *store, const struct store_journal_record *records,
                  size_t count, enum failpoint point, enum failpoint promise)
{
    if (store->meta.failpoints == NULL) {
        return;
    }
    failpoint_reach(store->meta.failpoints, point);
    for (size_t i = 0; i < count; i++) {
        if (records[i].kind == STORE_JOURNAL_PROMISE) {
            failpoint_reach(store->meta.failpoints, promise);
            return;
        }
    }
}

int store_journal_write(struct store *store, const struct store_journal_record *records,
                        size_t count)
{
    struct journal_write write = {.store = store, .records = records, .count = count};
    int result = check_records(store, records, count);
    if (result != 0 || count == 0) {
        return result;
    }
    reach(store, records, count, FAILPOINT_JOURNAL_BEFORE_COMMIT, FAILPOINT_PROMISE_BEFORE_COMMIT);
    result = env_write(&store->meta, write_work, &write, NULL); /* STOREJOURNAL-1 */
    reach(store, records, count, FAILPOINT_JOURNAL_AFTER_COMMIT, FAILPOINT_PROMISE_AFTER_COMMIT);
    return store_result(store, result, "write of the journal");
}

/* ---- removing ------------------------------------------------------------------------------- */

struct journal_drop {
    struct store *store;
    uint32_t vnode;
};

/* The term of the header becomes a promise, for the header goes (STOREJOURNAL-2). */
static int keep_promise(struct store *store, MDB_txn *txn, uint32_t vnode)
{
    struct journal_key key = key_make(vnode, STORE_JOURNAL_HEADER, no_id);
    struct store_journal_record record;
    MDB_val at = key_value(&key);
    MDB_val value;
    int result = mdb_get(txn, store->meta.dbi, &at, &value);
    if (result != 0) {
        return result == MDB_NOTFOUND ? 0 : result;
    }
    result = record_open(store, &at, &value, &record);
    record.kind = STORE_JOURNAL_PROMISE;
    return result == 0 ? record_apply(store, txn, &record) : result;
}

static int drop_work(void *context, MDB_txn *txn)
{
    const struct journal_drop *const drop = context;
    struct store *const store = drop->store;
    struct journal_key from =
        key_make(drop->vnode, STORE_JOURNAL_HEADER, no_id); /* STOREJOURNAL-2 */
    struct store_journal_record record;
    MDB_cursor *cursor = NULL;
    MDB_val at = key_value(&from);
    MDB_val value;
    int result = keep_promise(store, txn, drop->vnode);
    if (result == 0) {
        result = mdb_cursor_open(txn, store->meta.dbi, &cursor);
    }
    if (result != 0) {
        return result;
    }
    result = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
    while (result == 0) {
        result = key_open(store, &at, &record);
        if (result != 0 || record.vnode != drop->vnode) {
            break;
        }
        result = mdb_cursor_del(cursor, 0);
        if (result == 0) {
            result = mdb_cursor_get(cursor, &at, &value, MDB_NEXT);
        }
    }
    mdb_cursor_close(cursor);
    return result == MDB_NOTFOUND ? 0 : result;
}

int store_journal_drop(struct store *store, uint32_t vnode)
{
    struct journal_drop drop = {.store = store, .vnode = vnode};
    return store_result(store, env_write(&store->meta, drop_work, &drop, NULL),
                        "removal of a vnode from the journal");
}

struct journal_expire {
    struct store *store;
    uint64_t now_ms;
    uint32_t records_max;
    struct journal_key at; /* where this run begins, then where the next one does */
    struct store_journal_expiry result;
};

/* Looks at the record on which the cursor stands, and goes on to the next one. */
static int expire_one(struct journal_expire *expire, MDB_cursor *cursor, MDB_val *at,
                      MDB_val *value)
{
    struct store_journal_record record;
    int result = record_open(expire->store, at, value, &record);
    if (result != 0) {
        return result;
    }
    expire->result.looked++;
    if (record.kind == STORE_JOURNAL_SLOT && record.slot.expires_ms <= expire->now_ms) {
        expire->result.removed++;
        result = mdb_cursor_del(cursor, 0);
    }
    return result != 0 ? result : mdb_cursor_get(cursor, at, value, MDB_NEXT);
}

static int expire_walk(struct journal_expire *expire, MDB_cursor *cursor)
{
    MDB_val at = key_value(&expire->at);
    MDB_val value;
    int result = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
    while (result == 0 && expire->result.looked < expire->records_max) {
        result = expire_one(expire, cursor, &at, &value);
    }
    if (result == 0) {
        struct store_journal_record next;
        result = key_open(expire->store, &at, &next);
    }
    if (result == 0) {
        memcpy(expire->at.bytes, at.mv_data, JOURNAL_KEY_LEN);
    }
    if (result == MDB_NOTFOUND) {
        expire->at = key_make(0, STORE_JOURNAL_PROMISE, no_id);
        expire->result.round_complete = true;
        return 0;
    }
    return result;
}

/* Why a page is changed without changing anything: see purge_touch. */
static int journal_touch(MDB_txn *txn, MDB_dbi dbi)
{
    struct journal_key key = key_make(UINT32_MAX, STORE_JOURNAL_PROMISE, no_id);
    MDB_val at = key_value(&key);
    MDB_val value = {.mv_size = 0, .mv_data = key.bytes};
    const int result = mdb_put(txn, dbi, &at, &value, 0);
    return result != 0 ? result : mdb_del(txn, dbi, &at, NULL);
}

static int expire_work(void *context, MDB_txn *txn)
{
    struct journal_expire *const expire = context;
    struct store *const store = expire->store;
    MDB_cursor *cursor = NULL;
    int result = store->journal_touch_due ? journal_touch(txn, store->meta.dbi) : 0;
    expire->result = (struct store_journal_expiry){.looked = 0};
    expire->at = key_make(0, STORE_JOURNAL_PROMISE, no_id);
    if (store->journal_at.bytes[0] != 0) {
        expire->at = store->journal_at;
    }
    if (result == 0) {
        result = mdb_cursor_open(txn, store->meta.dbi, &cursor);
    }
    if (result == 0) {
        result = expire_walk(expire, cursor);
        mdb_cursor_close(cursor);
    }
    return result;
}

int store_journal_expire(struct store *store, uint64_t now_ms, uint32_t records_max,
                         struct store_journal_expiry *out)
{
    struct journal_expire expire = {.store = store, .now_ms = now_ms, .records_max = records_max};
    const int result = env_write(&store->meta, expire_work, &expire, NULL);
    memset(out, 0, sizeof(*out));
    if (result != 0) {
        return store_result(store, result, "expiry in the journal");
    }
    store->journal_at = expire.at;
    store->journal_touch_due = expire.result.removed > 0;
    *out = expire.result;
    return 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Finds one slot and copies its state. The outcome is read->result; a return value ends the batch.
 */
static int slot_read(struct slot_reads *reads, MDB_txn *txn, struct store_slot_read *read)
{
    struct journal_key key = key_make(read->vnode, STORE_JOURNAL_SLOT, read->id);
    struct store_journal_record record;
    MDB_val at = key_value(&key);
    MDB_val value;
    const int result = mdb_get(txn, reads->store->meta.dbi, &at, &value);
    if (result != 0 && result != MDB_NOTFOUND) {
        return result;
    }
    read->result = result == 0 ? record_open(reads->store, &at, &value, &record) : TG_ENOTFOUND;
    if (read->result == 0) {
        read->record = record.slot;
        slot_keep(reads, read); /* STOREJOURNAL-4 */
    }
    return 0;
}

static int reads_work(void *context, MDB_txn *txn)
{
    struct slot_reads *const reads = context;
    int result = 0;
    for (size_t i = 0; i < reads->count && result == 0; i++) {
        result = slot_read(reads, txn, &reads->reads[i]);
    }
    return result;
}

int store_journal_read(struct store *store, struct store_slot_read *reads, size_t count,
                       void *buffer, size_t capacity)
{
    struct slot_reads context = {
        .store = store, .reads = reads, .count = count, .buffer = buffer, .capacity = capacity};
    return store_result(store, env_read(&store->meta, reads_work, &context), "read of the journal");
}

int store_journal_get(struct store *store, uint32_t vnode, struct hash128 id, void *buffer,
                      size_t capacity, struct store_record *out)
{
    return slot_read_one(store, vnode, id, buffer, capacity, out, store_journal_read);
}

/* A walk from a key on, until `one` returns something else than 0 or the journal ends. */
struct journal_walk {
    struct store *store;
    struct journal_key from;
    int (*one)(void *context, const struct store_journal_record *record);
    void *context;
};

static int walk_work(void *context, MDB_txn *txn)
{
    struct journal_walk *const walk = context;
    struct store_journal_record record;
    MDB_cursor *cursor = NULL;
    MDB_val at = key_value(&walk->from);
    MDB_val value;
    int result = mdb_cursor_open(txn, walk->store->meta.dbi, &cursor);
    if (result != 0) {
        return result;
    }
    result = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
    while (result == 0) {
        result = record_open(walk->store, &at, &value, &record);
        if (result == 0) {
            result = walk->one(walk->context, &record);
        }
        if (result == 0) {
            result = mdb_cursor_get(cursor, &at, &value, MDB_NEXT);
        }
    }
    mdb_cursor_close(cursor);
    return result == MDB_NOTFOUND ? 0 : result;
}

struct journal_scan {
    int (*record)(void *context, const struct store_journal_record *record);
    void *context;
    int stopped; /* what the callback returned */
};

static int scan_one(void *context, const struct store_journal_record *record)
{
    struct journal_scan *const scan = context;
    scan->stopped = scan->record(scan->context, record);
    return scan->stopped == 0 ? 0 : MDB_NOTFOUND;
}

int store_journal_scan(struct store *store,
                       int (*record)(void *context, const struct store_journal_record *record),
                       void *context)
{
    struct journal_scan scan = {.record = record, .context = context};
    struct journal_walk walk = {.store = store,
                                .from = key_make(0, STORE_JOURNAL_PROMISE, no_id),
                                .one = scan_one,
                                .context = &scan};
    const int result = env_read(&store->meta, walk_work, &walk);
    return result != 0 ? store_result(store, result, "scan of the journal") : scan.stopped;
}

struct journal_list {
    uint32_t vnode;
    uint64_t now_ms;
    struct hash128 *ids;
    size_t capacity;
    size_t count;
};

static int list_one(void *context, const struct store_journal_record *record)
{
    struct journal_list *const list = context;
    if (record->vnode != list->vnode || list->count == list->capacity) {
        return MDB_NOTFOUND;
    }
    if (record->slot.expires_ms > list->now_ms) {
        list->ids[list->count++] = record->slot.id;
    }
    return 0;
}

int store_journal_list(struct store *store, struct store_listing *listing, uint64_t now_ms,
                       struct hash128 *ids, size_t capacity, size_t *count)
{
    struct journal_list list = {
        .vnode = listing->vnode, .now_ms = now_ms, .ids = ids, .capacity = capacity};
    struct journal_walk walk = {.store = store,
                                .from = key_make(listing->vnode, STORE_JOURNAL_SLOT, listing->next),
                                .one = list_one,
                                .context = &list};
    const int result = env_read(&store->meta, walk_work, &walk);
    *count = 0;
    if (result != 0) {
        return store_result(store, result, "listing of a vnode in the journal");
    }
    *count = list.count;
    listing_advance(listing, ids, list.count, capacity);
    return 0;
}
