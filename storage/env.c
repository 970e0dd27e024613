/* env.c - one LMDB environment: transactions, growth, recovery from failed writes.
 *
 * The map is address space, not memory or disk: it starts big and sparse, and doubles when a write
 * does not fit. Writes go through the file (never WRITEMAP), so a full disk is an error code
 * and not a signal; every commit is synced (never NOSYNC), so what env_write acknowledged is there
 * after a crash.
 *
 * ENV-1  Every transaction lives inside env_read, env_write, env_usage or env_copy, under the map
 *        lock held shared.
 * ENV-2  The map changes, and the environment is reopened, only under the map lock held alone.
 * ENV-3  After any failure env->mdb is a usable environment (or NULL if even reopening failed; then
 *        each later call tries again).
 *
 * Must not know what the bytes mean.
 */
#include "storage/env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

enum {
    ENV_MODE = 0600,
    ENV_READERS_MAX = 126,
    ENV_LOCKS_BYTES = 16 << 10, /* more than LMDB needs for so many: 64 each, and a head */
    ENV_ATTEMPTS_MAX = 48,      /* doublings of a map until the address space ends, with room */
    ENV_TG_FLOOR = -99,         /* TG_E* lie above, LMDB's codes below */
};

int env_code(int result)
{
    if (result <= 0 && result > ENV_TG_FLOOR) {
        return result;
    }
    switch (result) {
    case MDB_NOTFOUND:
        return TG_ENOTFOUND;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TG_EFULL;
    case ENOMEM:
        return TG_ENOMEM;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_CURSOR_FULL:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_VALSIZE:
        return TG_ECORRUPT;
    case MDB_VERSION_MISMATCH:
        return TG_EVERSION;
    case MDB_READERS_FULL:
        return TG_EBUSY;
    case MDB_TXN_FULL:
        return TG_ETOOBIG;
    default:
        return TG_EIO;
    }
}

const char *env_text(int result)
{
    return result <= 0 && result > ENV_TG_FLOOR ? error_message(result) : mdb_strerror(result);
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Gives the file of locks its blocks: LMDB maps it with holes, and where the disk has no room the
 * first touch of one would end the process by SIGBUS, without a word. Raw result. */
static int reserve_locks(const char *folder)
{
    char path[PATH_MAX];
    const int len = snprintf(path, sizeof path, "%s/lock.mdb", folder);
    if (len < 0 || (size_t)len >= sizeof path)
        return ENAMETOOLONG;
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, ENV_MODE);
    if (file < 0)
        return errno;
    const int result = posix_fallocate(file, 0, ENV_LOCKS_BYTES);
    (void)close(file);
    return result == EINVAL || result == EOPNOTSUPP ? 0 : result; /* not of this file system */
}

/* Opens LMDB at env->path with a map of env->map_bytes. Raw result. */
static int env_attach(struct env *env)
{
    ASSERT(env->mdb == NULL && env->map_bytes > 0);
    MDB_txn *txn = NULL;
    MDB_envinfo info;
    int result = mdb_env_create(&env->mdb);
    if (result != 0) {
        env->mdb = NULL;
        return result;
    }
    result = mdb_env_set_mapsize(env->mdb, env->map_bytes);
    if (result == 0) {
        result = mdb_env_set_maxreaders(env->mdb, ENV_READERS_MAX);
    }
    if (result == 0) {
        result = reserve_locks(env->path);
    }
    if (result == 0) {
        result = mdb_env_open(env->mdb, env->path, MDB_NOTLS, ENV_MODE);
    }
    if (result == 0) {
        result = mdb_txn_begin(env->mdb, NULL, MDB_RDONLY, &txn);
    }
    if (result == 0) {
        result = mdb_dbi_open(txn, NULL, 0, &env->dbi);
        mdb_txn_abort(txn);
    }
    if (result == 0) {
        result = mdb_env_info(env->mdb, &info);
        env->map_bytes = info.me_mapsize; /* LMDB raises it to what the file already uses */
    }
    if (result != 0) {
        mdb_env_close(env->mdb);
        env->mdb = NULL;
    }
    return result;
}

int env_open(struct env *env, const char *path, uint64_t map_bytes, uint64_t map_bytes_max,
             char error[STORE_ERROR_LEN])
{
    ASSERT(map_bytes > 0);
    pthread_rwlockattr_t attributes;
    memset(env, 0, sizeof(*env));
    if (strlen(path) >= sizeof(env->path)) {
        (void)snprintf(error, STORE_ERROR_LEN, "path of %zu bytes is too long", strlen(path));
        return TG_EINVALID;
    }
    memcpy(env->path, path, strlen(path) + 1);
    env->map_bytes = map_bytes;
    env->map_bytes_max = map_bytes_max;
    const int result = env_attach(env);
    if (result != 0) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.400s: cannot be opened as a database: %s", path,
                       env_text(result));
        memset(env, 0, sizeof(*env));
        return env_code(result);
    }
    /* A waiting enlargement must not starve behind readers that come one after the other. */
    ASSERT(pthread_rwlockattr_init(&attributes) == 0);
    ASSERT(pthread_rwlockattr_setkind_np(&attributes,
                                         PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    ASSERT(pthread_rwlock_init(&env->map_lock, &attributes) == 0);
    (void)pthread_rwlockattr_destroy(&attributes);
    return 0;
}

void env_close(struct env *env)
{
    if (env->path[0] == '\0') {
        return; /* never opened */
    }
    if (env->mdb != NULL) {
        mdb_env_close(env->mdb);
    }
    (void)pthread_rwlock_destroy(&env->map_lock);
    memset(env, 0, sizeof(*env));
}

static void env_lock_shared(struct env *env)
{
    ASSERT(pthread_rwlock_rdlock(&env->map_lock) == 0);
}

static void env_lock_alone(struct env *env)
{
    ASSERT(pthread_rwlock_wrlock(&env->map_lock) == 0);
}

static void env_unlock(struct env *env)
{
    ASSERT(pthread_rwlock_unlock(&env->map_lock) == 0);
}

/* After a failed write of a meta page LMDB refuses everything; only a fresh open looks at the file
 * again. */
static void env_reopen(struct env *env)
{
    env_lock_alone(env);
    if (env->mdb != NULL) {
        mdb_env_close(env->mdb);
        env->mdb = NULL;
    }
    (void)env_attach(env);
    env_unlock(env);
}

/* Doubles the map, up to the bound. MDB_MAP_FULL when it is reached. */
static int env_grow(struct env *env)
{
    int result = MDB_MAP_FULL;
    env_lock_alone(env);
    uint64_t wanted = env->map_bytes * 2;
    if (env->map_bytes_max != 0 && wanted > env->map_bytes_max) {
        wanted = env->map_bytes_max;
    }
    if (env->mdb != NULL && wanted > env->map_bytes) {
        result = mdb_env_set_mapsize(env->mdb, wanted);
        if (result == 0) {
            env->map_bytes = wanted;
            env->growths++;
        }
    }
    env_unlock(env);
    return result;
}

int env_read(struct env *env, int (*work)(void *context, MDB_txn *txn), void *context)
{
    MDB_txn *txn = NULL;
    env_lock_shared(env);
    int result = env->mdb == NULL ? EIO : mdb_txn_begin(env->mdb, NULL, MDB_RDONLY, &txn);
    if (result == 0) {
        result = work(context, txn);
        mdb_txn_abort(txn);
    }
    const bool lost = env->mdb == NULL || result == MDB_PANIC;
    env_unlock(env);
    if (lost) {
        env_reopen(env);
    }
    return result;
}

/* LMDB calls a write that was cut short EIO, without asking the system why: the file system filled
 * up in the midst of it. It is a page of data, which nothing refers to yet. `errno` was 0 before.
 */
static int name_short_write(int result)
{
    return result == EIO && errno != EIO ? ENOSPC : result;
}

/* One attempt; *reopen says that the environment cannot be trusted to go on as it is: a failed
 * meta page makes LMDB refuse everything, and after a failed sync what it holds in memory and
 * what is on disk may differ. */
static int env_write_once(struct env *env, int (*work)(void *context, MDB_txn *txn), void *context,
                          bool *reopen)
{
    MDB_txn *txn = NULL;
    env_lock_shared(env);
    int result = env->mdb == NULL ? MDB_PANIC : mdb_txn_begin(env->mdb, NULL, 0, &txn);
    *reopen = result == MDB_PANIC;
    if (result == 0) {
        errno = 0;
        result = name_short_write(work(context, txn));
        if (result == 0) {
            const int64_t begin_ns = monotonic_ns();
            failpoint_reach(env->failpoints, env->before_commit);
            errno = 0;
            result = name_short_write(mdb_txn_commit(txn));
            failpoint_reach(env->failpoints, env->after_commit);
            env->last_commit_ns = monotonic_ns() - begin_ns;
            *reopen = result != 0 && result != MDB_MAP_FULL;
        } else {
            mdb_txn_abort(txn);
        }
    }
    env_unlock(env);
    return result;
}

int env_write(struct env *env, int (*work)(void *context, MDB_txn *txn), void *context,
              const struct env_relief *relief)
{
    bool relieved = relief == NULL;
    int result = MDB_MAP_FULL;
    for (int attempt = 0; attempt < ENV_ATTEMPTS_MAX && result == MDB_MAP_FULL; attempt++) {
        bool reopen = false;
        result = env_write_once(env, work, context, &reopen);
        if (reopen) {
            env_reopen(env);
        }
        if (result != MDB_MAP_FULL) {
            break;
        }
        if (!relieved) {
            relieved = true;
            if (relief->relieve(relief->context) == 0) {
                continue;
            }
        }
        if (env_grow(env) != 0) {
            break;
        }
    }
    if (result == 0) {
        env->commits++;
    } else {
        env->commit_fails++;
    }
    return result;
}

struct usage {
    struct env *env;
    uint64_t used_pages;
    uint64_t free_pages;
    uint64_t page_bytes;
};

/* Database 0 is LMDB's free list: transaction -> {count, page, page, ...}. */
static int usage_work(void *context, MDB_txn *txn)
{
    struct usage *usage = context;
    MDB_cursor *cursor = NULL;
    MDB_envinfo info;
    MDB_stat stat;
    MDB_val key;
    MDB_val value;
    int result = mdb_env_info(usage->env->mdb, &info);
    if (result == 0) {
        result = mdb_stat(txn, usage->env->dbi, &stat);
    }
    if (result == 0) {
        result = mdb_cursor_open(txn, 0, &cursor);
    }
    if (result != 0) {
        return result;
    }
    usage->used_pages = info.me_last_pgno + 1;
    usage->page_bytes = stat.ms_psize;
    while ((result = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        uint64_t count = 0;
        memcpy(&count, value.mv_data, sizeof(count));
        usage->free_pages += count;
    }
    mdb_cursor_close(cursor);
    return result == MDB_NOTFOUND ? 0 : result;
}

void env_usage(struct env *env, uint64_t *used_bytes, uint64_t *free_bytes)
{
    struct usage usage = {.env = env};
    const int result = env_read(env, usage_work, &usage);
    *used_bytes = result == 0 ? usage.used_pages * usage.page_bytes : 0;
    *free_bytes = result == 0 ? usage.free_pages * usage.page_bytes : 0;
}

int env_copy(struct env *env, const char *dir)
{
    env_lock_shared(env);
    const int result = env->mdb == NULL ? EIO : mdb_env_copy2(env->mdb, dir, MDB_CP_COMPACT);
    env_unlock(env);
    return env_code(result);
}

int env_sync(struct env *env)
{
    env_lock_shared(env);
    const int result = env->mdb == NULL ? EIO : mdb_env_sync(env->mdb, 1);
    env_unlock(env);
    return result;
}

int env_clear_dead_readers(struct env *env)
{
    int dead = 0;
    env_lock_shared(env);
    const int result = env->mdb == NULL ? EIO : mdb_reader_check(env->mdb, &dead);
    env_unlock(env);
    return env_code(result);
}
