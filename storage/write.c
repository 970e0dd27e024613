/* write.c - writes dirty slots back: batches of records into chunks, one transaction.
 *
 * Per vnode the records are ordered by id, then dealt out to the chunks whose ranges they fall
 * into; each touched chunk is merged once, and cut if it became too long.
 *
 *     records   a b     c d e          x
 *     chunks   [0 ......)[c' ...)[f ......)      merge a,b  merge c,d,e  merge x
 *
 * WRITE-1  All batches or none: one transaction.
 * WRITE-2  A run of the work may be repeated after the map grew, so it reads only its input.
 * WRITE-3  The old body is read from LMDB's page while the new one is built in scratch memory; only
 *          then is the database changed, because a change ends the life of the page.
 */
#include <string.h>

#include "base/assert.h"
#include "storage/internal.h"

struct write {
    struct store *store;
    const struct store_vnode_batch *batches;
    size_t count;
    uint64_t now_ms;
    struct state_tally tally;
};

static int write_check(struct store *store, const struct store_vnode_batch *batch)
{
    if (batch->vnode >= STATE_VNODES_MAX || batch->count > UINT32_MAX) {
        return store_fail(store, TG_EINVALID, "write: vnode %u of %zu records; expected below %d",
                          batch->vnode, batch->count, STATE_VNODES_MAX);
    }
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->records[i].len > STORE_STATE_MAX) {
            return store_fail(store, TG_ETOOBIG, "write: a state of %u bytes; expected at most %d",
                              batch->records[i].len, STORE_STATE_MAX);
        }
    }
    return 0;
}

/* Removes the vnode's header and chunks. */
static int write_drop(MDB_cursor *cursor, uint32_t vnode)
{
    const struct state_key first = state_key_make(vnode, STATE_HEADER, (struct hash128){0, 0});
    struct state_key key;
    MDB_val value;
    int result = state_seek(cursor, &first, &key, &value);
    while (result == 0 && state_key_vnode(&key) == vnode) {
        result = mdb_cursor_del(cursor, 0);
        if (result == 0) {
            result = state_seek(cursor, &first, &key, &value);
        }
    }
    return result == MDB_NOTFOUND ? 0 : result;
}

/* Merges refs[0..] that fall into one chunk; *taken says how many. */
static int write_chunk(struct write *write, MDB_cursor *cursor,
                       const struct store_vnode_batch *batch, const struct chunk_ref *refs,
                       size_t count, size_t *taken)
{
    ASSERT(count > 0);
    struct store *const store = write->store;
    const struct store_record *const records = batch->records;
    const uint8_t *body = NULL;
    size_t body_len = 0;
    struct state_place place;
    int result = state_locate(cursor, batch->vnode, records[refs[0].index].id, true, &place);
    if (result == 0 && place.found) {
        result = state_open_chunk(store, &place.key, &place.value, &body, &body_len);
    }
    if (result != 0) {
        return result;
    }
    size_t len_max = body_len;
    size_t n = 0;
    for (; n < count; n++) {
        const struct store_record *record = &records[refs[n].index];
        if (place.bounded && !chunk_id_less(record->id, place.upper)) {
            break;
        }
        len_max += chunk_record_len(record->len);
    }
    ASSERT(n > 0);
    *taken = n;
    result = scratch_reserve(store, &store->merged, len_max);
    if (result != 0) {
        return result;
    }
    if (!place.found) {
        place.key = state_key_make(batch->vnode, STATE_CHUNK, (struct hash128){0, 0});
    }
    const size_t merged_len = chunk_merge(body, body_len, records, refs, n, write->now_ms,
                                          store->merged.data, &write->tally.records);
    ASSERT(merged_len <= len_max && len_max <= store->merged.capacity);
    return state_put_body(mdb_cursor_txn(cursor), mdb_cursor_dbi(cursor), place.key,
                          store->merged.data, merged_len, &write->tally); /* WRITE-3 */
}

static int write_vnode(struct write *write, MDB_cursor *cursor,
                       const struct store_vnode_batch *batch)
{
    struct store *const store = write->store;
    int result = batch->drop_all ? write_drop(cursor, batch->vnode) : 0;
    if (result == 0 && batch->header != NULL) {
        result = state_put_header(mdb_cursor_txn(cursor), mdb_cursor_dbi(cursor), batch->vnode,
                                  batch->header);
    }
    if (result == 0) {
        result = scratch_reserve(store, &store->refs, batch->count * sizeof(struct chunk_ref));
    }
    if (result != 0) {
        return result;
    }
    struct chunk_ref *const refs = (struct chunk_ref *)(void *)store->refs.data;
    const size_t count = chunk_sort(batch->records, batch->count, refs);
    ASSERT(count <= batch->count);
    size_t taken = 0;
    for (size_t done = 0; done < count && result == 0; done += taken) {
        result = write_chunk(write, cursor, batch, refs + done, count - done, &taken);
    }
    return result;
}

static int write_work(void *context, MDB_txn *txn)
{
    struct write *const write = context;
    MDB_cursor *cursor = NULL;
    int result = mdb_cursor_open(txn, write->store->state.dbi, &cursor);
    if (result != 0) {
        return result;
    }
    memset(&write->tally, 0, sizeof(write->tally)); /* WRITE-2 */
    for (size_t i = 0; i < write->count && result == 0; i++) {
        result = write_vnode(write, cursor, &write->batches[i]);
    }
    mdb_cursor_close(cursor);
    return result;
}

int store_write(struct store *store, const struct store_vnode_batch *batches, size_t count,
                uint64_t now_ms)
{
    struct write write = {.store = store, .batches = batches, .count = count, .now_ms = now_ms};
    struct purge_relief purge = {.store = store, .now_ms = now_ms};
    const struct env_relief relief = {.relieve = purge_relieve, .context = &purge};
    for (size_t i = 0; i < count; i++) {
        const int result = write_check(store, &batches[i]);
        if (result != 0) {
            return result;
        }
    }
    if (count == 0) {
        return 0;
    }
    ASSERT(batches != NULL && count > 0);
    const int result = env_write(&store->state, write_work, &write, &relief);
    if (result == 0) {
        state_count(store, &write.tally);
    }
    return store_result(store, result, "write-back");
}
