/* meta.c - identity, incarnation and small values, each durable when its call returns.
 *
 * A value is stored behind a checksum that also covers its key. The store's own keys begin with
 * byte 0, the caller's with byte 1, so neither can reach the other's.
 *
 *     key:   \0format  \0identity  \0incarnation  \1<caller's key>
 *     value: u64 checksum | bytes
 *
 * META-1  The format is the first thing written into a new store; without it nothing else is
 *         trusted.
 * META-2  The identity is written whole in one transaction and never changes.
 * META-3  The incarnation only rises, and is on disk before anyone sees it.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "storage/internal.h"

enum {
    META_CHECK_LEN = 8,
    META_CALLER = 1, /* begins keys of callers; those of the store itself begin with 0 */
    IDENTITY_LEN = STORE_CLUSTER_ID_LEN + 8 + 2 * HASH_KEY_LEN + 2 * 4,
};

static const char key_format[] = "\0format";
static const char key_identity[] = "\0identity";
static const char key_incarnation[] = "\0incarnation";

struct meta_key {
    uint8_t bytes[1 + STORE_META_KEY_MAX];
    size_t len;
};

/* The end of every call: unlike the state's, the workers here leave saying what is wrong to it. */
static int meta_result(struct store *store, int result, const char *what)
{
    const int code = env_code(result);
    if (code == result && (code == TG_ECORRUPT || code == TG_ECONFLICT)) {
        return store_fail(store, code, "meta: %s: %s", what, error_message(code));
    }
    return store_result(store, result, what);
}

static struct meta_key own_key(const char *text, size_t size)
{
    struct meta_key key = {.len = size - 1};
    memcpy(key.bytes, text, size - 1);
    return key;
}
#define OWN_KEY(name) own_key(name, sizeof(name))

static int caller_key(struct store *store, const char *text, bool may_be_empty,
                      struct meta_key *key)
{
    const size_t len = strnlen(text, STORE_META_KEY_MAX + 1);
    if ((len == 0 && !may_be_empty) || len > STORE_META_KEY_MAX) {
        return store_fail(store, TG_EINVALID, "a key of %zu bytes; expected 1 to %d", len,
                          STORE_META_KEY_MAX);
    }
    key->bytes[0] = META_CALLER;
    memcpy(key->bytes + 1, text, len);
    key->len = 1 + len;
    return 0;
}

static uint64_t meta_checksum(const void *key, size_t key_len, const void *data, size_t len)
{
    return chunk_checksum(chunk_checksum(0, key, key_len), data, len);
}

/* Takes the checksum off, in place. */
static int meta_unwrap(const MDB_val *key, MDB_val *value)
{
    if (value->mv_size < META_CHECK_LEN) {
        return TG_ECORRUPT;
    }
    const uint8_t *const bytes = value->mv_data;
    const size_t len = value->mv_size - META_CHECK_LEN;
    if (bytes_u64_at(bytes, 0) !=
        meta_checksum(key->mv_data, key->mv_size, bytes + META_CHECK_LEN, len)) {
        return TG_ECORRUPT;
    }
    value->mv_data = (uint8_t *)value->mv_data + META_CHECK_LEN;
    value->mv_size = len;
    return 0;
}

/* The value of `key`, alive as long as the transaction. Raw result. */
static int meta_fetch(MDB_txn *txn, MDB_dbi dbi, struct meta_key key, MDB_val *value)
{
    MDB_val at = {.mv_size = key.len, .mv_data = key.bytes};
    const int result = mdb_get(txn, dbi, &at, value);
    return result != 0 ? result : meta_unwrap(&at, value);
}

/* Sets (data NULL: removes) `key`. Raw result. */
static int meta_set(MDB_txn *txn, MDB_dbi dbi, struct meta_key key, const void *data, size_t len)
{
    MDB_val at = {.mv_size = key.len, .mv_data = key.bytes};
    MDB_val value = {.mv_size = META_CHECK_LEN + len};
    struct bytes_writer writer;
    if (data == NULL) {
        const int removed = mdb_del(txn, dbi, &at, NULL);
        return removed == MDB_NOTFOUND ? 0 : removed;
    }
    const int result = mdb_put(txn, dbi, &at, &value, MDB_RESERVE);
    if (result == 0) {
        bytes_writer_init(&writer, value.mv_data, value.mv_size);
        bytes_put_u64(&writer, meta_checksum(key.bytes, key.len, data, len));
        bytes_put(&writer, data, len);
    }
    return result;
}

/* ---- values --------------------------------------------------------------------------------- */

struct value_read {
    struct env *env;
    struct meta_key key;
    void *buffer;
    size_t capacity;
    size_t len;
};

static int value_work(void *context, MDB_txn *txn)
{
    struct value_read *const read = context;
    MDB_val value;
    const int result = meta_fetch(txn, read->env->dbi, read->key, &value);
    if (result != 0) {
        return result;
    }
    read->len = value.mv_size;
    if (value.mv_size > read->capacity) {
        return TG_ETOOBIG;
    }
    if (value.mv_size > 0) {
        memcpy(read->buffer, value.mv_data, value.mv_size);
    }
    return 0;
}

int store_meta_get(struct store *store, const char *key, void *buffer, size_t capacity, size_t *len)
{
    struct value_read read = {.env = &store->meta, .buffer = buffer, .capacity = capacity};
    int result = caller_key(store, key, false, &read.key);
    if (result == 0) {
        result = meta_result(store, env_read(&store->meta, value_work, &read), key);
    }
    *len = read.len;
    return result;
}

struct values_write {
    struct store *store;
    const struct store_meta_item *items;
    size_t count;
};

static int values_work(void *context, MDB_txn *txn)
{
    const struct values_write *const write = context;
    int result = 0;
    for (size_t i = 0; i < write->count && result == 0; i++) {
        const struct store_meta_item *const item = &write->items[i];
        struct meta_key key;
        result = caller_key(write->store, item->key, false, &key);
        if (result == 0) {
            result = meta_set(txn, write->store->meta.dbi, key, item->data, item->len);
        }
    }
    return result;
}

int store_meta_put_many(struct store *store, const struct store_meta_item *items, size_t count)
{
    struct values_write write = {.store = store, .items = items, .count = count};
    for (size_t i = 0; i < count; i++) {
        if (items[i].len > STORE_META_VALUE_MAX) {
            return store_fail(store, TG_ETOOBIG, "%s: %zu bytes; expected at most %d", items[i].key,
                              items[i].len, STORE_META_VALUE_MAX);
        }
    }
    if (count == 0) {
        return 0;
    }
    return meta_result(store, env_write(&store->meta, values_work, &write, NULL),
                       "write of values");
}

int store_meta_put(struct store *store, const char *key, const void *data, size_t len)
{
    const struct store_meta_item item = {.key = key, .data = data, .len = len};
    return store_meta_put_many(store, &item, 1);
}

struct values_scan {
    struct env *env;
    struct meta_key prefix;
    int (*item)(void *context, const char *key, const void *data, size_t len);
    void *context;
    int stopped;
};

/* Gives one entry to the callback; false when the prefix is left behind. */
static int values_scan_one(struct values_scan *scan, const MDB_val *at, MDB_val *value,
                           bool *inside)
{
    char key[STORE_META_KEY_MAX + 1];
    *inside = at->mv_size >= scan->prefix.len &&
              memcmp(at->mv_data, scan->prefix.bytes, scan->prefix.len) == 0;
    if (!*inside) {
        return 0;
    }
    const int result = at->mv_size > sizeof(key) ? TG_ECORRUPT : meta_unwrap(at, value);
    if (result == 0) {
        memcpy(key, (const char *)at->mv_data + 1, at->mv_size - 1);
        key[at->mv_size - 1] = '\0';
        scan->stopped = scan->item(scan->context, key, value->mv_data, value->mv_size);
    }
    return result;
}

static int values_scan_work(void *context, MDB_txn *txn)
{
    struct values_scan *const scan = context;
    MDB_cursor *cursor = NULL;
    MDB_val at = {.mv_size = scan->prefix.len, .mv_data = scan->prefix.bytes};
    MDB_val value;
    bool inside = true;
    int result = mdb_cursor_open(txn, scan->env->dbi, &cursor);
    if (result != 0) {
        return result;
    }
    result = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
    while (result == 0) {
        result = values_scan_one(scan, &at, &value, &inside);
        if (result != 0 || !inside || scan->stopped != 0) {
            break;
        }
        result = mdb_cursor_get(cursor, &at, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return result == MDB_NOTFOUND ? 0 : result;
}

int store_meta_scan(struct store *store, const char *prefix,
                    int (*item)(void *context, const char *key, const void *data, size_t len),
                    void *context)
{
    struct values_scan scan = {.env = &store->meta, .item = item, .context = context};
    int result = caller_key(store, prefix, true, &scan.prefix);
    if (result == 0) {
        result =
            meta_result(store, env_read(&store->meta, values_scan_work, &scan), "scan of values");
    }
    return result != 0 ? result : scan.stopped;
}

/* ---- identity ------------------------------------------------------------------------------- */

static void identity_encode(const struct store_identity *identity, uint8_t out[IDENTITY_LEN])
{
    struct bytes_writer writer;
    bytes_writer_init(&writer, out, IDENTITY_LEN);
    bytes_put(&writer, identity->cluster_id, STORE_CLUSTER_ID_LEN);
    bytes_put_u64(&writer, identity->node_id);
    bytes_put(&writer, identity->secret.bytes, HASH_KEY_LEN);
    bytes_put(&writer, identity->route_key.bytes, HASH_KEY_LEN);
    bytes_put_u32(&writer, identity->vnodes);
    bytes_put_u32(&writer, identity->replicas);
}

static bool identity_valid(const struct store_identity *identity)
{
    return identity->node_id != 0 && identity->vnodes > 0 && identity->vnodes <= STATE_VNODES_MAX &&
           (identity->vnodes & (identity->vnodes - 1)) == 0 && identity->replicas > 0;
}

static int identity_decode(const MDB_val *value, struct store_identity *out)
{
    struct bytes_reader reader;
    if (value->mv_size != IDENTITY_LEN) {
        return TG_ECORRUPT;
    }
    bytes_reader_init(&reader, value->mv_data, value->mv_size);
    memcpy(out->cluster_id, bytes_take(&reader, STORE_CLUSTER_ID_LEN), STORE_CLUSTER_ID_LEN);
    out->node_id = bytes_get_u64(&reader);
    memcpy(out->secret.bytes, bytes_take(&reader, HASH_KEY_LEN), HASH_KEY_LEN);
    memcpy(out->route_key.bytes, bytes_take(&reader, HASH_KEY_LEN), HASH_KEY_LEN);
    out->vnodes = bytes_get_u32(&reader);
    out->replicas = bytes_get_u32(&reader);
    return !reader.failed && identity_valid(out) ? 0 : TG_ECORRUPT;
}

struct identity_call {
    struct env *env;
    struct store_identity *read;        /* NULL when writing */
    const struct store_identity *write; /* NULL when reading */
};

static int identity_work(void *context, MDB_txn *txn)
{
    const struct identity_call *const call = context;
    uint8_t wanted[IDENTITY_LEN];
    MDB_val value;
    int result = meta_fetch(txn, call->env->dbi, OWN_KEY(key_identity), &value);
    if (call->write == NULL) {
        return result != 0 ? result : identity_decode(&value, call->read);
    }
    identity_encode(call->write, wanted);
    if (result == MDB_NOTFOUND) {
        return meta_set(txn, call->env->dbi, OWN_KEY(key_identity), wanted, IDENTITY_LEN);
    }
    if (result == 0 &&
        (value.mv_size != IDENTITY_LEN || memcmp(value.mv_data, wanted, IDENTITY_LEN) != 0)) {
        return TG_ECONFLICT; /* META-2 */
    }
    return result;
}

int store_identity_get(struct store *store, struct store_identity *out)
{
    struct identity_call call = {.env = &store->meta, .read = out};
    memset(out, 0, sizeof(*out));
    return meta_result(store, env_read(&store->meta, identity_work, &call), "identity");
}

int store_identity_put(struct store *store, const struct store_identity *identity)
{
    struct identity_call call = {.env = &store->meta, .write = identity};
    if (!identity_valid(identity)) {
        return store_fail(store, TG_EINVALID,
                          "identity: node %016llx, V %u, R %u; expected a node id, a power of two "
                          "up to %d, at least 1",
                          (unsigned long long)identity->node_id, identity->vnodes,
                          identity->replicas, STATE_VNODES_MAX);
    }
    return meta_result(store, env_write(&store->meta, identity_work, &call, NULL), "identity");
}

/* ---- incarnation ---------------------------------------------------------------------------- */

struct incarnation_call {
    struct env *env;
    uint64_t at_least; /* 0: one more than there is */
    uint64_t value;
};

static int incarnation_work(void *context, MDB_txn *txn)
{
    struct incarnation_call *const call = context;
    uint64_t stored = 0;
    uint8_t bytes[8];
    struct bytes_writer writer;
    MDB_val value;
    const int result = meta_fetch(txn, call->env->dbi, OWN_KEY(key_incarnation), &value);
    if (result != 0 && result != MDB_NOTFOUND) {
        return result;
    }
    if (result == 0) {
        if (value.mv_size != sizeof(bytes)) {
            return TG_ECORRUPT;
        }
        stored = bytes_u64_at(value.mv_data, 0);
    }
    call->value = call->at_least == 0 ? stored + 1 : call->at_least;
    if (call->value <= stored) {
        call->value = stored; /* META-3 */
        return 0;
    }
    bytes_writer_init(&writer, bytes, sizeof(bytes));
    bytes_put_u64(&writer, call->value);
    return meta_set(txn, call->env->dbi, OWN_KEY(key_incarnation), bytes, sizeof(bytes));
}

int store_next_incarnation(struct store *store, uint64_t *incarnation)
{
    struct incarnation_call call = {.env = &store->meta};
    const int result = env_write(&store->meta, incarnation_work, &call, NULL);
    *incarnation = result == 0 ? call.value : 0;
    return meta_result(store, result, "incarnation");
}

int store_raise_incarnation(struct store *store, uint64_t at_least)
{
    struct incarnation_call call = {.env = &store->meta, .at_least = at_least};
    if (at_least == 0) {
        return 0;
    }
    return meta_result(store, env_write(&store->meta, incarnation_work, &call, NULL),
                       "incarnation");
}

/* ---- opening -------------------------------------------------------------------------------- */

struct meta_look {
    struct env *env;
    uint32_t format; /* 0: none */
    bool empty;
    bool has_identity;
    const char *damaged; /* the key at which reading stopped */
};

static int look_work(void *context, MDB_txn *txn)
{
    struct meta_look *const look = context;
    struct store_identity identity;
    MDB_stat stat;
    MDB_val value;
    look->damaged = "database";
    int result = mdb_stat(txn, look->env->dbi, &stat);
    if (result != 0) {
        return result;
    }
    look->empty = stat.ms_entries == 0;
    look->damaged = "format";
    result = meta_fetch(txn, look->env->dbi, OWN_KEY(key_format), &value);
    if (result == 0) {
        look->format = value.mv_size == 4 ? bytes_u32_at(value.mv_data, 0) : 0;
    }
    if (result != 0 || look->format != STORE_FORMAT) {
        return result == MDB_NOTFOUND ? 0 : result;
    }
    look->damaged = "identity";
    result = meta_fetch(txn, look->env->dbi, OWN_KEY(key_identity), &value);
    if (result == 0) {
        look->has_identity = true;
        result = identity_decode(&value, &identity);
    }
    return result == MDB_NOTFOUND ? 0 : result;
}

static int format_work(void *context, MDB_txn *txn)
{
    const struct store *const store = context;
    uint8_t bytes[4];
    struct bytes_writer writer;
    bytes_writer_init(&writer, bytes, sizeof(bytes));
    bytes_put_u32(&writer, STORE_FORMAT);
    return meta_set(txn, store->meta.dbi, OWN_KEY(key_format), bytes, sizeof(bytes));
}

int meta_check(struct store *store, bool state_empty, char error[STORE_ERROR_LEN])
{
    struct meta_look look = {.env = &store->meta};
    int result = env_read(&store->meta, look_work, &look);
    if (result != 0) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.300s/meta: %s: %s; expected a whole record",
                       store->dir, look.damaged, env_text(result));
        return env_code(result);
    }
    if (look.empty && state_empty) { /* META-1 */
        result = env_write(&store->meta, format_work, store, NULL);
        if (result != 0) {
            (void)snprintf(error, STORE_ERROR_LEN, "%.300s/meta: the format cannot be written: %s",
                           store->dir, env_text(result));
        }
        return env_code(result);
    }
    if (look.format == 0) {
        (void)snprintf(error, STORE_ERROR_LEN,
                       "%.300s/meta: has no format version; expected format %d", store->dir,
                       STORE_FORMAT);
        return TG_ECORRUPT;
    }
    if (look.format != STORE_FORMAT) {
        (void)snprintf(error, STORE_ERROR_LEN,
                       "%.300s: is in on-disk format %u; this release expects format %d",
                       store->dir, look.format, STORE_FORMAT);
        return TG_EVERSION;
    }
    if (!look.has_identity && !state_empty) {
        (void)snprintf(error, STORE_ERROR_LEN,
                       "%.300s: holds limiter state but no identity; expected cluster and node id "
                       "in meta/",
                       store->dir);
        return TG_ECORRUPT;
    }
    return 0;
}
