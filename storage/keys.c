/* keys.c - from (vnode, id) to a place in the B-tree and back: the primitives of the state
 * environment.
 *
 * See internal.h for the keys. A chunk is found by going to the first key at or after (vnode, id)
 * and, unless that is the id itself, one step back.
 *
 * KEYS-1  Every function here works within the caller's transaction and keeps nothing.
 * KEYS-2  A chunk's or header's bytes are looked at only after their checksum held.
 */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "storage/internal.h"

enum { HEADER_LEN = 40 }; /* checksum, epoch, number, writer, seq */
#define HEADER_SEED UINT64_C(0x68656164)

static void put_be64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

static uint64_t get_be64(const uint8_t *in)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value = value << 8 | in[i];
    }
    return value;
}

struct state_key state_key_make(uint32_t vnode, uint8_t kind, struct hash128 id)
{
    struct state_key key;
    for (int i = 0; i < 4; i++) {
        key.bytes[i] = (uint8_t)(vnode >> (24 - 8 * i));
    }
    key.bytes[4] = kind;
    put_be64(key.bytes + 5, id.hi);
    put_be64(key.bytes + 13, id.lo);
    return key;
}

uint32_t state_key_vnode(const struct state_key *key)
{
    return (uint32_t)(get_be64(key->bytes) >> 32);
}

struct hash128 state_key_id(const struct state_key *key)
{
    return (struct hash128){.hi = get_be64(key->bytes + 5), .lo = get_be64(key->bytes + 13)};
}

static int key_load(const MDB_val *from, struct state_key *key)
{
    if (from->mv_size != STATE_KEY_LEN) {
        return MDB_CORRUPTED;
    }
    memcpy(key->bytes, from->mv_data, STATE_KEY_LEN);
    return key->bytes[4] <= STATE_CHUNK ? 0 : MDB_CORRUPTED;
}

int state_seek(MDB_cursor *cursor, const struct state_key *from, struct state_key *key,
               MDB_val *value)
{
    struct state_key wanted = *from;
    MDB_val at = {.mv_size = STATE_KEY_LEN, .mv_data = wanted.bytes};
    const int result = mdb_cursor_get(cursor, &at, value, MDB_SET_RANGE);
    return result != 0 ? result : key_load(&at, key);
}

static int state_step(MDB_cursor *cursor, MDB_cursor_op op, struct state_key *key, MDB_val *value)
{
    MDB_val at;
    const int result = mdb_cursor_get(cursor, &at, value, op);
    return result != 0 ? result : key_load(&at, key);
}

int state_next(MDB_cursor *cursor, struct state_key *key, MDB_val *value)
{
    return state_step(cursor, MDB_NEXT, key, value);
}

static bool key_is_chunk_of(const struct state_key *key, uint32_t vnode)
{
    return key->bytes[4] == STATE_CHUNK && state_key_vnode(key) == vnode;
}

/* What the cursor step `result` with `key` says about the upper bound of the place. */
static int place_bound(struct state_place *out, int result, const struct state_key *key,
                       uint32_t vnode)
{
    out->bounded = result == 0 && key_is_chunk_of(key, vnode);
    ASSERT(result != 0 || key->bytes[4] <= STATE_CHUNK);
    if (out->bounded) {
        out->upper = state_key_id(key);
    }
    return result == MDB_NOTFOUND ? 0 : result;
}

int state_locate(MDB_cursor *cursor, uint32_t vnode, struct hash128 id, bool want_bound,
                 struct state_place *out)
{
    const struct state_key wanted = state_key_make(vnode, STATE_CHUNK, id);
    struct state_key key;
    MDB_val value;
    memset(out, 0, sizeof(*out));
    int result = state_seek(cursor, &wanted, &key, &value);
    if (result == 0 && memcmp(&key, &wanted, sizeof(key)) == 0) {
        out->found = true;
        out->key = key;
        out->value = value;
        return want_bound ? place_bound(out, state_next(cursor, &key, &value), &key, vnode) : 0;
    }
    const bool behind_all = result == MDB_NOTFOUND;
    result = place_bound(out, result, &key, vnode);
    if (result != 0) {
        return result;
    }
    result = state_step(cursor, behind_all ? MDB_LAST : MDB_PREV, &key, &value);
    out->found = result == 0 && key_is_chunk_of(&key, vnode);
    if (out->found) {
        out->key = key;
        out->value = value;
    }
    return result == MDB_NOTFOUND ? 0 : result;
}

int state_open_chunk(struct store *store, const struct state_key *key, const MDB_val *value,
                     const uint8_t **body, size_t *body_len)
{
    const uint32_t vnode = state_key_vnode(key);
    if (chunk_open(value->mv_data, value->mv_size, vnode, body, body_len) != 0) {
        return store_fail(store, TG_ECORRUPT, "state of vnode %u: a chunk of %zu bytes is damaged",
                          vnode, value->mv_size);
    }
    return 0;
}

int state_open_header(struct store *store, uint32_t vnode, const MDB_val *value,
                      struct store_vnode_header *out)
{
    const uint8_t *at = value->mv_data;
    if (value->mv_size != HEADER_LEN ||
        bytes_u64_at(at, 0) != chunk_checksum(HEADER_SEED ^ vnode, at + 8, HEADER_LEN - 8)) {
        return store_fail(store, TG_ECORRUPT, "state of vnode %u: the header is damaged", vnode);
    }
    out->epoch = bytes_u64_at(at, 1);
    out->number = bytes_u64_at(at, 2);
    out->writer = bytes_u64_at(at, 3);
    out->seq = bytes_u64_at(at, 4);
    return 0;
}

int state_put_header(MDB_txn *txn, MDB_dbi dbi, uint32_t vnode,
                     const struct store_vnode_header *header)
{
    uint8_t bytes[HEADER_LEN];
    struct bytes_writer writer;
    struct state_key key = state_key_make(vnode, STATE_HEADER, (struct hash128){0, 0});
    MDB_val at = {.mv_size = STATE_KEY_LEN, .mv_data = key.bytes};
    MDB_val value = {.mv_size = HEADER_LEN, .mv_data = bytes};

    bytes_writer_init(&writer, bytes + 8, HEADER_LEN - 8);
    bytes_put_u64(&writer, header->epoch);
    bytes_put_u64(&writer, header->number);
    bytes_put_u64(&writer, header->writer);
    bytes_put_u64(&writer, header->seq);
    const uint64_t checksum = chunk_checksum(HEADER_SEED ^ vnode, bytes + 8, HEADER_LEN - 8);
    bytes_writer_init(&writer, bytes, 8);
    bytes_put_u64(&writer, checksum);
    ASSERT(!writer.failed && writer.len == 8);
    return mdb_put(txn, dbi, &at, &value, 0);
}

int state_put_body(MDB_txn *txn, MDB_dbi dbi, struct state_key key, const uint8_t *body,
                   size_t body_len, struct state_tally *tally)
{
    const uint32_t vnode = state_key_vnode(&key);
    MDB_val at = {.mv_size = STATE_KEY_LEN, .mv_data = key.bytes};
    if (body_len == 0) {
        const int result = mdb_del(txn, dbi, &at, NULL);
        return result == MDB_NOTFOUND ? 0 : result;
    }
    for (size_t done = 0; done < body_len;) {
        struct store_record first;
        uint32_t count = 0;
        size_t begin = 0;
        const size_t len = chunk_cut(body + done, body_len - done, &count);
        ASSERT(len > 0 && done + len <= body_len);
        if (done > 0 && chunk_next(body + done, len, &begin, &first)) {
            key = state_key_make(vnode, STATE_CHUNK, first.id);
        }
        MDB_val value = {.mv_size = CHUNK_HEAD_LEN + len};
        const int result = mdb_put(txn, dbi, &at, &value, MDB_RESERVE);
        if (result != 0) {
            return result;
        }
        chunk_seal(value.mv_data, body + done, len, count, vnode);
        tally->chunks++;
        tally->bytes += CHUNK_HEAD_LEN + len;
        done += len;
    }
    return 0;
}

void state_count(struct store *store, const struct state_tally *tally)
{
    store->chunks_written += tally->chunks;
    store->bytes_written += tally->bytes;
    store->records_written += tally->records.stored;
    store->records_expired += tally->records.expired;
}
