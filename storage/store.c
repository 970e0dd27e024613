/* store.c - opens, locks, closes and describes a store.
 *
 * Opening looks before it trusts: the lock first (two processes on one LMDB file would destroy it),
 * then the files page by page (pages.h), then LMDB, then format and identity.
 *
 *     lock -> check meta, state files -> open both -> dead readers -> format, identity -> open
 *       any step fails: undo the earlier ones, say what was wrong and what was expected
 *
 * I1  The flock on DIR/LOCK is held from before the first look to after the last close.
 * I2  A directory that is created is synced into its parent before anything in it is relied on.
 *
 * Must not interpret limiter state.
 */
#include "storage/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "storage/dir.h"
#include "storage/internal.h"
#include "storage/pages.h"

#define STATE_MAP_BYTES (UINT64_C(16) << 30)
#define META_MAP_BYTES  (UINT64_C(1) << 30)

int store_fail(struct store *store, int code, const char *format, ...)
{
    char what[STORE_ERROR_LEN / 2];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    ASSERT(pthread_mutex_lock(&store->error_lock) == 0);
    (void)snprintf(store->error, sizeof(store->error), "%.200s: %s", store->dir, what);
    ASSERT(pthread_mutex_unlock(&store->error_lock) == 0);
    return code;
}

int store_result(struct store *store, int result, const char *operation)
{
    const int code = env_code(result);
    /* A worker that returns a TG_E* has said what is wrong, and NOTFOUND is an answer. */
    if (code == result || code == TG_ENOTFOUND) {
        return code;
    }
    return store_fail(store, code, "%s: %s", operation, env_text(result));
}

void store_last_error(struct store *store, char error[STORE_ERROR_LEN])
{
    ASSERT(pthread_mutex_lock(&store->error_lock) == 0);
    memcpy(error, store->error, STORE_ERROR_LEN);
    ASSERT(pthread_mutex_unlock(&store->error_lock) == 0);
}

int scratch_reserve(struct store *store, struct scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->capacity) {
        return 0;
    }
    const size_t capacity = bytes + bytes / 2;
    alloc_put(store->allocator, scratch->data, scratch->capacity);
    scratch->capacity = 0;
    scratch->data = alloc_get(store->allocator, capacity);
    if (scratch->data == NULL) {
        return store_fail(store, TG_ENOMEM, "no memory for %zu bytes", capacity);
    }
    scratch->capacity = capacity;
    return 0;
}

/* Checks and opens one of the two environments. */
static int open_env(struct store *store, const char *name, struct env *env, uint64_t map_bytes,
                    uint64_t map_bytes_max, char error[STORE_ERROR_LEN])
{
    char path[PATH_MAX];
    char file[PATH_MAX];
    int result = dir_join(path, store->dir, name, error);
    if (result == 0) {
        result = dir_join(file, path, "data.mdb", error);
    }
    if (result == 0) {
        result = dir_make(path, error);
    }
    if (result == 0) {
        result = pages_check(file, store->allocator, error);
    }
    if (result == 0) {
        result = env_open(env, path, map_bytes, map_bytes_max, error);
    }
    if (result == 0) {
        result = dir_sync(path, error);
    }
    if (result == 0 && env_clear_dead_readers(env) != 0) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.400s: dead readers cannot be cleared", path);
        result = TG_EIO;
    }
    return result;
}

static int empty_work(void *context, MDB_txn *txn)
{
    struct store *const store = context;
    MDB_stat stat;
    const int result = mdb_stat(txn, store->state.dbi, &stat);
    return result != 0 ? result : stat.ms_entries == 0 ? 0 : MDB_KEYEXIST;
}

static int open_all(struct store *store, const struct store_options *options,
                    char error[STORE_ERROR_LEN])
{
    const uint64_t state_map =
        options->state_map_bytes != 0 ? options->state_map_bytes : STATE_MAP_BYTES;
    const uint64_t meta_map =
        options->meta_map_bytes != 0 ? options->meta_map_bytes : META_MAP_BYTES;
    int result = dir_make(store->dir, error);
    if (result == 0) {
        result = dir_lock(store->dir, &store->lock_file, error); /* I1 */
    }
    if (result == 0) {
        result = open_env(store, "meta", &store->meta, meta_map, 0, error);
    }
    if (result == 0) {
        result =
            open_env(store, "state", &store->state, state_map, options->state_map_bytes_max, error);
    }
    if (result != 0) {
        return result;
    }
    store->meta.failpoints = options->failpoints;
    store->meta.before_commit = FAILPOINT_META_BEFORE_COMMIT;
    store->meta.after_commit = FAILPOINT_META_AFTER_COMMIT;
    store->state.failpoints = options->failpoints;
    store->state.before_commit = FAILPOINT_STATE_BEFORE_COMMIT;
    store->state.after_commit = FAILPOINT_STATE_AFTER_COMMIT;
    const int state = env_read(&store->state, empty_work, store);
    if (state != 0 && state != MDB_KEYEXIST) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.400s/state: %s", store->dir, env_text(state));
        return env_code(state);
    }
    return meta_check(store, state == 0, error);
}

int store_open(const char *dir, const struct store_options *options, struct store **out,
               char error[STORE_ERROR_LEN])
{
    const struct store_options defaults = {.allocator = NULL};
    const struct store_options *const chosen = options != NULL ? options : &defaults;
    const struct allocator *const allocator =
        chosen->allocator != NULL ? chosen->allocator : alloc_heap();
    struct store *store = alloc_get(allocator, sizeof(*store));
    *out = NULL;
    error[0] = '\0';
    if (store == NULL) {
        (void)snprintf(error, STORE_ERROR_LEN, "no memory for a store");
        return TG_ENOMEM;
    }
    store->allocator = allocator;
    store->lock_file = -1;
    ASSERT(pthread_mutex_init(&store->error_lock, NULL) == 0);
    int result = dir_copy(store->dir, dir, error);
    if (result == 0) {
        result = open_all(store, chosen, error);
    }
    if (result != 0) {
        store_close(&store);
        return result;
    }
    *out = store;
    return 0;
}

void store_close(struct store **store)
{
    struct store *const self = *store;
    if (self == NULL) {
        return;
    }
    *store = NULL;
    env_close(&self->state);
    env_close(&self->meta);
    if (self->lock_file >= 0) {
        (void)close(self->lock_file); /* I1: last */
    }
    alloc_put(self->allocator, self->merged.data, self->merged.capacity);
    alloc_put(self->allocator, self->refs.data, self->refs.capacity);
    (void)pthread_mutex_destroy(&self->error_lock);
    alloc_put(self->allocator, self, sizeof(*self));
}

int store_maintain(struct store *store)
{
    const int state = env_clear_dead_readers(&store->state);
    const int meta = env_clear_dead_readers(&store->meta);
    const int result = state != 0 ? state : meta;
    return result == 0 ? 0 : store_fail(store, result, "dead readers cannot be cleared");
}

void store_stats(struct store *store, struct store_stats *out)
{
    uint64_t meta_free_bytes = 0;
    memset(out, 0, sizeof(*out));
    env_usage(&store->state, &out->state_used_bytes, &out->state_free_bytes);
    env_usage(&store->meta, &out->meta_used_bytes, &meta_free_bytes);
    out->state_map_bytes = store->state.map_bytes;
    out->meta_map_bytes = store->meta.map_bytes;
    out->commits = store->state.commits;
    out->commit_fails = store->state.commit_fails;
    out->chunks_written = store->chunks_written;
    out->bytes_written = store->bytes_written;
    out->records_written = store->records_written;
    out->records_expired = store->records_expired;
    out->growths = store->state.growths;
    out->last_commit_ns = store->state.last_commit_ns;
    out->meta_commits = store->meta.commits;
}
