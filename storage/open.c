/* open.c - opens, locks, closes and describes a store.
 *
 * Opening looks before it trusts: the lock first (two processes on one LMDB file would destroy it),
 * then the files page by page (pages.h), then LMDB, then format and identity.
 *
 *     lock -> check meta, state files -> open both -> dead readers -> format, identity -> open
 *       any step fails: undo the earlier ones, say what was wrong and what was expected
 *
 * OPEN-1  The flock on DIR/LOCK is held from before the first look to after the last close.
 * OPEN-2  A directory that is created is synced into its parent before anything in it is relied on.
 * OPEN-3  A store begins with its file of meta values; the file of the state is there, durably,
 *         before the first value is written. So one without the other is damage, as is one of
 *         length 0, and is never taken for a new store, which would admit again what was used up.
 *
 * Must not interpret limiter state.
 */
#include "storage/store.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "storage/dir.h"
#include "storage/internal.h"
#include "storage/pages.h"

#define STATE_MAP_BYTES (UINT64_C(16) << 30)
#define META_MAP_BYTES  (UINT64_C(1) << 30)

/* What there is of the file of an environment. */
enum part { PART_MISSING, PART_EMPTY, PART_FULL };

static const char *part_text(enum part part)
{
    return part == PART_MISSING ? "is missing" : part == PART_EMPTY ? "is empty" : "is there";
}

/* Looks at DIR/name and its file, which are to be writable if they are there at all. */
static int look_at_part(const struct store *store, const char *name, enum part *part,
                        char error[STORE_ERROR_LEN])
{
    char path[PATH_MAX];
    char file[PATH_MAX];
    struct stat status;
    *part = PART_MISSING;
    int result = dir_join(path, store->dir, name, error);
    if (result == 0) {
        result = dir_join(file, path, "data.mdb", error);
    }
    if (result != 0 || lstat(path, &status) != 0) {
        return result;
    }
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.300s: is no directory; expected one", path);
        return TG_ECORRUPT;
    }
    result = dir_writable(path, error);
    if (result == 0) {
        result = dir_writable(file, error);
    }
    if (result == 0 && stat(file, &status) == 0) {
        *part = S_ISREG(status.st_mode) && status.st_size == 0 ? PART_EMPTY : PART_FULL;
    }
    return result;
}

/* OPEN-3 */
static int complain_parts(const struct store *store, const char *name, enum part part,
                          const char *other, char error[STORE_ERROR_LEN])
{
    (void)snprintf(error, STORE_ERROR_LEN,
                   "%.300s/%s/data.mdb: %s, but %s/data.mdb belongs to a store that was in use; "
                   "expected both",
                   store->dir, name, part_text(part), other);
    return TG_ECORRUPT;
}

static int open_env(const char *dir, const char *name, struct env *env, uint64_t map_bytes,
                    uint64_t map_bytes_max, char error[STORE_ERROR_LEN])
{
    char path[PATH_MAX];
    int result = dir_join(path, dir, name, error);
    if (result == 0) {
        result = dir_make(path, error);
    }
    if (result == 0) {
        result = env_open(env, path, map_bytes, map_bytes_max, error);
    }
    if (result != 0) {
        return result;
    }
    const int synced = env_sync(env); /* OPEN-3 */
    if (synced != 0) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.400s: sync: %s", path, env_text(synced));
        return env_code(synced);
    }
    return dir_sync(path, error);
}

int store_begin_state(const char *dir, char error[STORE_ERROR_LEN])
{
    struct env env = {.mdb = NULL};
    const int result = open_env(dir, "state", &env, META_MAP_BYTES, 0, error);
    env_close(&env);
    return result;
}

/* Checks and opens one of the two environments. */
static int check_and_open(struct store *store, const char *name, struct env *env,
                          uint64_t map_bytes, uint64_t map_bytes_max, char error[STORE_ERROR_LEN])
{
    char path[PATH_MAX];
    char file[PATH_MAX];
    int result = dir_join(path, store->dir, name, error);
    if (result == 0) {
        result = dir_join(file, path, "data.mdb", error);
    }
    if (result == 0) {
        result = pages_check(file, store->allocator, error);
    }
    if (result == 0) {
        result = open_env(store->dir, name, env, map_bytes, map_bytes_max, error);
    }
    if (result == 0 && env_clear_dead_readers(env) != 0) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.400s: dead readers cannot be cleared", path);
        result = TG_EIO;
    }
    return result;
}

static int empty_work(void *context, MDB_txn *txn)
{
    const struct env *const env = context;
    MDB_stat stat;
    const int result = mdb_stat(txn, env->dbi, &stat);
    return result != 0 ? result : stat.ms_entries == 0 ? 0 : MDB_KEYEXIST;
}

static int look_if_empty(struct store *store, const char *name, struct env *env, bool *empty,
                         char error[STORE_ERROR_LEN])
{
    const int result = env_read(env, empty_work, env);
    *empty = result == 0;
    if (result == 0 || result == MDB_KEYEXIST) {
        return 0;
    }
    (void)snprintf(error, STORE_ERROR_LEN, "%.400s/%s: %s", store->dir, name, env_text(result));
    return env_code(result);
}

/* Opens both, the meta values first (OPEN-3). */
static int open_envs(struct store *store, const struct store_options *options, bool *state_empty,
                     char error[STORE_ERROR_LEN])
{
    const uint64_t state_map =
        options->state_map_bytes != 0 ? options->state_map_bytes : STATE_MAP_BYTES;
    const uint64_t meta_map =
        options->meta_map_bytes != 0 ? options->meta_map_bytes : META_MAP_BYTES;
    enum part meta;
    enum part state;
    bool meta_empty = true;
    int result = look_at_part(store, "meta", &meta, error);
    if (result == 0) {
        result = look_at_part(store, "state", &state, error);
    }
    if (result == 0 && meta != PART_FULL && state != PART_MISSING) {
        result = complain_parts(store, "meta", meta, "state", error);
    }
    if (result == 0) {
        result = check_and_open(store, "meta", &store->meta, meta_map, 0, error);
    }
    if (result == 0) {
        result = look_if_empty(store, "meta", &store->meta, &meta_empty, error);
    }
    if (result == 0 && !meta_empty && state != PART_FULL) {
        result = complain_parts(store, "state", state, "meta", error);
    }
    if (result == 0) {
        result = check_and_open(store, "state", &store->state, state_map,
                                options->state_map_bytes_max, error);
    }
    return result != 0 ? result : look_if_empty(store, "state", &store->state, state_empty, error);
}

static int open_all(struct store *store, const struct store_options *options,
                    char error[STORE_ERROR_LEN])
{
    bool state_empty = false;
    int result = dir_make(store->dir, error);
    if (result == 0) {
        result = dir_writable(store->dir, error);
    }
    if (result == 0) {
        result = dir_lock(store->dir, &store->lock_file, error); /* OPEN-1 */
    }
    if (result == 0) {
        result = open_envs(store, options, &state_empty, error);
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
    return meta_check(store, state_empty, error);
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
        (void)close(self->lock_file); /* OPEN-1: last */
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
