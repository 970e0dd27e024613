/* env.h - one LMDB environment that survives a full disk, a full map and a failed write.
 *
 * The only unit besides the walker (pages.h) that knows how LMDB fails. Every transaction holds the
 * map lock shared, because LMDB may change its map only while none is live; growing and reopening
 * hold it alone.
 *
 *     open --env_read/env_write--> open
 *       env_write: MAP_FULL -> abort -> relieve() -> again -> grow -> again -> TG_EFULL at the
 * bound MDB_PANIC (a meta page could not be written) -> abort -> reopen -> TG_EIO
 *
 * Within storage/ only. LMDB's own results (positive errno, -30xxx) and TG_E* (-1..-99) share no
 * number, so a `work` function returns either; env_code turns both into TG_E*.
 */
#ifndef STORAGE_ENV_H
#define STORAGE_ENV_H

#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/failpoint.h"
#include "storage/store_values.h"

struct env {
    MDB_env *mdb;
    MDB_dbi dbi;
    pthread_rwlock_t map_lock;
    char path[PATH_MAX];
    uint64_t map_bytes_max;              /* 0: no bound */
    const struct failpoints *failpoints; /* NULL, or set once after env_open */
    enum failpoint before_commit;
    enum failpoint after_commit;
    _Atomic uint64_t map_bytes;
    _Atomic uint64_t growths;
    _Atomic uint64_t commits;
    _Atomic uint64_t commit_fails;
    _Atomic int64_t last_commit_ns;
};

/* Opens (creates) the environment in the directory `path`. TG_E*; `error` names path and cause. */
int env_open(struct env *env, const char *path, uint64_t map_bytes, uint64_t map_bytes_max,
             char error[STORE_ERROR_LEN]) MUST_USE;
void env_close(struct env *env);

/* Any LMDB result, errno or TG_E* as TG_E*. */
int env_code(int result);
/* The text of any of them. Static storage. */
const char *env_text(int result);

/* Runs `work` in a read transaction. Returns what it returned (raw), or why there was no
 * transaction. */
int env_read(struct env *env, int (*work)(void *context, MDB_txn *txn), void *context) MUST_USE;

/* What env_write may run between a full map and its enlargement: 0 if it made room. */
struct env_relief {
    int (*relieve)(void *context);
    void *context;
};

/* Runs `work` in a write transaction and commits if it returned 0. `work` may run again from the
 * start: it must keep no result of an earlier run. `relief` may be NULL. Raw result; 0 is on disk.
 */
int env_write(struct env *env, int (*work)(void *context, MDB_txn *txn), void *context,
              const struct env_relief *relief) MUST_USE;

/* Bytes of the file in use, and of those on the free list; 0 if they cannot be read. */
void env_usage(struct env *env, uint64_t *used_bytes, uint64_t *free_bytes);
/* A compact copy into the existing directory `dir`. */
int env_copy(struct env *env, const char *dir) MUST_USE;
/* Makes durable what opening a new environment has written. Raw result. */
int env_sync(struct env *env) MUST_USE;
int env_clear_dead_readers(struct env *env) MUST_USE;

#endif
