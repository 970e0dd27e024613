/* purge.c - removes what has expired, a bounded number of chunks at a time.
 *
 * The cursor is a key: chunks before it have been passed in this round. A chunk that shrank takes
 * its small neighbours in, so that a vnode whose slots mostly expired does not stay a row of
 * crumbs.
 *
 *     round:  at = first key --step--> ... --step--> end: at = first key, round complete
 *                               `-- leaving a vnode puts it on the finished list
 *
 * PURGE-1  A step looks at one run of chunks of one vnode; it writes only if something changed.
 * PURGE-2  The cursor moves only when the transaction has committed.
 * PURGE-3  Finished vnodes are reported after the commit, from a transaction of their own; no write
 *          can come between, because both belong to the writer thread.
 */
#include <string.h>

#include "base/assert.h"
#include "storage/internal.h"

enum {
    PURGE_JOIN_MAX = 16,      /* chunks joined by one step */
    PURGE_FINISHED_MAX = 512, /* vnodes reported by one call; the call ends early when it is full */
};

struct purge {
    struct store *store;
    uint64_t now_ms;
    uint32_t chunks_max;
    struct state_key begin;
    struct state_key at;
    struct state_tally tally;
    uint32_t chunks;
    bool complete;
    bool inside; /* `current` has been met and not left */
    uint32_t current;
    uint32_t finished[PURGE_FINISHED_MAX];
    size_t finished_count;
};

static const struct state_key purge_first; /* all zero: vnode 0, header */

static void purge_leave(struct purge *purge)
{
    ASSERT(purge->finished_count < PURGE_FINISHED_MAX);
    if (purge->inside) {
        purge->finished[purge->finished_count++] = purge->current;
        purge->inside = false;
    }
}

/* A run of neighbouring chunks of one vnode, merged into scratch memory. */
struct run {
    struct state_key keys[PURGE_JOIN_MAX];
    size_t count;
    size_t len; /* of the new body */
};

static void run_add(struct purge *purge, struct run *run, const struct state_key *key,
                    const uint8_t *body, size_t body_len)
{
    ASSERT(run->count < PURGE_JOIN_MAX);
    struct store *const store = purge->store;
    run->keys[run->count++] = *key;
    run->len += chunk_merge(body, body_len, NULL, NULL, 0, purge->now_ms,
                            store->merged.data + run->len, &purge->tally.records);
    ASSERT(run->len <= store->merged.capacity);
    purge->chunks++;
}

/* Takes the chunk at the cursor, and those behind it for as long as they fit in. Leaves in
 * purge->at where the next step begins. */
static int run_gather(struct purge *purge, MDB_cursor *cursor, struct state_key key, MDB_val value,
                      struct run *run)
{
    const uint8_t *body = NULL;
    size_t body_len = 0;
    int result = state_open_chunk(purge->store, &key, &value, &body, &body_len);
    if (result == 0) {
        result = scratch_reserve(purge->store, &purge->store->merged, body_len + CHUNK_BODY_MAX);
    }
    while (result == 0) {
        run_add(purge, run, &key, body, body_len);
        result = state_next(cursor, &key, &value);
        if (result != 0) {
            break;
        }
        purge->at = key;
        if (state_key_vnode(&key) != purge->current || run->len >= CHUNK_BODY_JOIN ||
            run->len + value.mv_size > CHUNK_BODY_MAX || run->count == PURGE_JOIN_MAX) {
            return 0;
        }
        result = state_open_chunk(purge->store, &key, &value, &body, &body_len);
    }
    if (result == MDB_NOTFOUND) {
        purge->complete = true;
        return 0;
    }
    return result;
}

/* Writes the run back if it changed (PURGE-1). */
static int run_put(struct purge *purge, MDB_txn *txn, const struct run *run, uint64_t expired)
{
    const MDB_dbi dbi = purge->store->state.dbi;
    if (expired == 0 && run->count == 1) {
        return 0;
    }
    ASSERT(run->count >= 1 && run->count <= PURGE_JOIN_MAX);
    int result = 0;
    for (size_t i = 1; i < run->count && result == 0; i++) {
        struct state_key key = run->keys[i];
        MDB_val at = {.mv_size = STATE_KEY_LEN, .mv_data = key.bytes};
        result = mdb_del(txn, dbi, &at, NULL);
    }
    if (result == 0) {
        result = state_put_body(txn, dbi, run->keys[0], purge->store->merged.data, run->len,
                                &purge->tally);
    }
    return result;
}

/* One step from purge->at: a header is passed, a chunk is purged. */
static int purge_step(struct purge *purge, MDB_cursor *cursor)
{
    struct run run = {.count = 0};
    struct state_key key;
    MDB_val value;
    const int result = state_seek(cursor, &purge->at, &key, &value);
    if (result == MDB_NOTFOUND) {
        purge->complete = true;
        return 0;
    }
    if (result != 0) {
        return result;
    }
    if (purge->inside && state_key_vnode(&key) != purge->current) {
        purge_leave(purge);
    }
    purge->inside = true;
    purge->current = state_key_vnode(&key);
    if (key.bytes[4] == STATE_HEADER) {
        purge->at = state_key_make(purge->current, STATE_CHUNK, (struct hash128){0, 0});
        return 0;
    }
    const uint64_t expired_before = purge->tally.records.expired;
    const int gathered = run_gather(purge, cursor, key, value, &run);
    if (gathered != 0) {
        return gathered;
    }
    return run_put(purge, mdb_cursor_txn(cursor), &run,
                   purge->tally.records.expired - expired_before);
}

/* LMDB gives pages that transaction N freed to N + 2 at the earliest, because N + 1 may have to
 * fall back to the state before N. On a full disk N + 1 would never come by itself: the writes that
 * need the pages fail, and a purge that finds nothing commits nothing. So this changes a page
 * without changing anything. */
static int purge_touch(MDB_txn *txn, MDB_dbi dbi)
{
    struct state_key key = state_key_make(UINT32_MAX, STATE_HEADER, (struct hash128){0, 0});
    MDB_val at = {.mv_size = STATE_KEY_LEN, .mv_data = key.bytes};
    MDB_val value = {.mv_size = 0, .mv_data = key.bytes};
    const int result = mdb_put(txn, dbi, &at, &value, 0);
    return result != 0 ? result : mdb_del(txn, dbi, &at, NULL);
}

static int purge_work(void *context, MDB_txn *txn)
{
    struct purge *const purge = context;
    MDB_cursor *cursor = NULL;
    int result = purge->store->touch_due ? purge_touch(txn, purge->store->state.dbi) : 0;
    if (result == 0) {
        result = mdb_cursor_open(txn, purge->store->state.dbi, &cursor);
    }
    if (result != 0) {
        return result;
    }
    purge->at = purge->begin; /* the map may have grown: start over */
    purge->inside = purge->begin.bytes[4] == STATE_CHUNK;
    purge->current = state_key_vnode(&purge->begin);
    purge->chunks = 0;
    purge->complete = false;
    purge->finished_count = 0;
    memset(&purge->tally, 0, sizeof(purge->tally));
    while (result == 0 && !purge->complete && purge->chunks < purge->chunks_max &&
           purge->finished_count < PURGE_FINISHED_MAX - 1) {
        result = purge_step(purge, cursor);
    }
    mdb_cursor_close(cursor);
    if (result != 0) {
        return result;
    }
    if (purge->complete) {
        purge_leave(purge);
        purge->at = purge_first;
    } else if (purge->inside && state_key_vnode(&purge->at) != purge->current) {
        purge_leave(purge);
    }
    return 0;
}

static int purge_run(struct purge *purge, struct state_key *place)
{
    purge->begin = *place;
    const int result = env_write(&purge->store->state, purge_work, purge, NULL);
    if (result == 0) {
        *place = purge->at; /* PURGE-2 */
        purge->store->touch_due = purge->tally.records.expired > 0;
        state_count(purge->store, &purge->tally);
    }
    return result;
}

int purge_relieve(void *context)
{
    const struct purge_relief *const relief = context;
    struct purge purge = {
        .store = relief->store, .now_ms = relief->now_ms, .chunks_max = STATE_RELIEF_CHUNKS};
    int result = purge_run(&purge, &relief->store->relief_at);
    if (result != 0 || !relief->store->touch_due) {
        return result != 0 ? result : TG_EFULL;
    }
    purge.chunks_max = 0; /* only the touch: what was freed is wanted at once */
    return purge_run(&purge, &relief->store->relief_at);
}

struct left {
    void (*report)(void *context, uint32_t vnode, const struct hash128 *ids, size_t count,
                   bool last);
    void *context;
    struct hash128 ids[STORE_IDS_MAX];
    size_t count;
    bool told; /* the vnode's last call was made */
};

static int left_records(void *context, uint32_t vnode, const struct store_vnode_header *header,
                        const struct store_record *records, size_t count, bool last)
{
    struct left *const left = context;
    (void)header;
    for (size_t i = 0; i < count; i++) {
        if (left->count == STORE_IDS_MAX) {
            left->report(left->context, vnode, left->ids, left->count, false);
            left->count = 0;
        }
        left->ids[left->count++] = records[i].id;
        ASSERT(left->count <= STORE_IDS_MAX);
    }
    if (last) {
        left->report(left->context, vnode, left->ids, left->count, true);
        left->count = 0;
        left->told = true;
    }
    return 0;
}

/* Tells what is left of each finished vnode; of one that is gone altogether, that nothing is. */
static int purge_report(struct purge *purge, struct left *left)
{
    ASSERT(purge->finished_count <= PURGE_FINISHED_MAX);
    int result = 0;
    for (size_t i = 0; i < purge->finished_count && result == 0; i++) {
        left->told = false;
        result = store_scan(purge->store, purge->finished[i], left_records, left);
        if (result == 0 && !left->told) {
            left->report(left->context, purge->finished[i], NULL, 0, true);
        }
    }
    return result;
}

int store_purge(struct store *store, uint64_t now_ms, uint32_t chunks_max,
                void (*left)(void *context, uint32_t vnode, const struct hash128 *ids, size_t count,
                             bool last),
                void *context, struct store_purge_result *out)
{
    struct purge purge = {.store = store, .now_ms = now_ms, .chunks_max = chunks_max};
    struct left remains = {.report = left, .context = context};
    memset(out, 0, sizeof(*out));
    const int result = purge_run(&purge, &store->purge_at);
    if (result != 0) {
        return store_result(store, result, "purge");
    }
    out->chunks = purge.chunks;
    out->removed = purge.tally.records.expired;
    out->round_complete = purge.complete;
    return left == NULL ? 0 : purge_report(&purge, &remains);
}
