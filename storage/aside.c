/* aside.c - sets an unusable store aside, and copies a usable one: nothing here deletes.
 *
 *     DIR/state  --rename-->  DIR.set-aside-N/state             N: first number free; an empty
 *                                                               state takes its place
 *     DIR/meta   --copy---->  DIR.set-aside-N/meta    if every value and journal record is whole
 *                --rename-->                          if not
 *
 * Where DIR is a volume of its own the folder is DIR/set-aside-N.
 *
 * A node that forgot what it promised may not go on under its old id. So meta values stay where
 * they are if all of them can be read, and go together if one cannot: the next start is then that
 * of a new node.
 *
 * ASIDE-1  No bytes are lost: whatever is wrong with the files, they stay for whoever wants to
 *          look.
 * ASIDE-2  The state is copied before the meta values, so that in a backup promises are never older
 *          than the state that rests on them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/dir.h"
#include "storage/internal.h"
#include "storage/pages.h"

enum {
    ASIDE_MODE = 0700,
    ASIDE_NUMBER_MAX = 10000,
};

static const char *const aside_parts[] = {"state", "meta"};
enum { ASIDE_PARTS = sizeof(aside_parts) / sizeof(aside_parts[0]) };

static int look_at_value(void *context, const char *key, const void *data, size_t len)
{
    (void)context, (void)key, (void)data, (void)len;
    return 0;
}

static int look_at_record(void *context, const struct store_journal_record *record)
{
    (void)context, (void)record;
    return 0;
}

/* Opens DIR/meta if all that is in it is whole. Called under the lock, on files that may be damaged
 * in any way. */
static bool aside_open_meta(struct store *store)
{
    char path[PATH_MAX];
    char file[PATH_MAX];
    char error[STORE_ERROR_LEN];
    struct store_identity identity;
    struct stat status;
    if (dir_join(path, store->dir, "meta", error) != 0 ||
        dir_join(file, path, "data.mdb", error) != 0 || stat(file, &status) != 0 ||
        pages_check(file, store->allocator, error) != 0 ||
        env_open(&store->meta, path, UINT64_C(1) << 30, 0, error) != 0) {
        return false;
    }
    const bool whole = meta_check(store, false, error) == 0 &&
                       store_identity_get(store, &identity) == 0 &&
                       store_raise_incarnation(store, 1) == 0 && /* changes nothing: it is read */
                       store_meta_scan(store, "", look_at_value, NULL) == 0 &&
                       store_journal_scan(store, look_at_record, NULL) == 0;
    if (!whole) {
        env_close(&store->meta);
    }
    return whole;
}

/* The paths of folder `number`, inside DIR and beside it. */
static bool aside_paths(const char *dir, int number, char inside[PATH_MAX], char beside[PATH_MAX])
{
    const int in_len = snprintf(inside, PATH_MAX, "%s/set-aside-%d", dir, number);
    const int by_len = snprintf(beside, PATH_MAX, "%s.set-aside-%d", dir, number);
    return in_len > 0 && in_len < PATH_MAX && by_len > 0 && by_len < PATH_MAX;
}

/* Makes DIR.set-aside-N, or DIR/set-aside-N where nothing can be moved out of DIR: it may be a
 * volume of its own, or in a directory that this process may not write. */
static int aside_make(const char *dir, char out[PATH_MAX], char error[STORE_ERROR_LEN])
{
    char beside[PATH_MAX];
    struct stat status;
    errno = ENAMETOOLONG;
    for (int number = 1; number <= ASIDE_NUMBER_MAX; number++) {
        if (!aside_paths(dir, number, out, beside)) {
            break;
        }
        if (lstat(beside, &status) == 0) {
            continue;
        }
        if (mkdir(out, ASIDE_MODE) == 0) {
            if (rename(out, beside) == 0) {
                memcpy(out, beside, PATH_MAX);
            }
            return 0;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    (void)snprintf(error, STORE_ERROR_LEN, "%.300s/set-aside-N: cannot be created: %s", dir,
                   strerror(errno));
    return TG_EIO;
}

static int aside_move(const char *dir, const char *target, const char *part,
                      char error[STORE_ERROR_LEN])
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    int result = dir_join(from, dir, part, error);
    if (result == 0) {
        result = dir_join(to, target, part, error);
    }
    if (result == 0 && rename(from, to) != 0 && errno != ENOENT) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.300s: cannot be moved: %s", from,
                       strerror(errno));
        return TG_EIO;
    }
    return result;
}

/* True if there is something of a store in `dir`. */
static bool aside_any(const char *dir)
{
    char path[PATH_MAX];
    char error[STORE_ERROR_LEN];
    struct stat status;
    for (int i = 0; i < ASIDE_PARTS; i++) {
        if (dir_join(path, dir, aside_parts[i], error) == 0 && lstat(path, &status) == 0) {
            return true;
        }
    }
    return false;
}

static int backup_part(struct store *store, struct env *env, const char *dir, const char *name)
{
    char path[PATH_MAX];
    char error[STORE_ERROR_LEN];
    int result = dir_join(path, dir, name, error);
    if (result != 0) {
        return store_fail(store, result, "backup: %.200s", error);
    }
    if (mkdir(path, ASIDE_MODE) != 0) {
        return store_fail(store, errno == EEXIST ? TG_EEXISTS : TG_EIO,
                          "backup: %.150s: %s; expected an empty directory above it", path,
                          strerror(errno));
    }
    result = env_copy(env, path);
    if (result != 0) {
        return store_fail(store, result, "backup: %.150s: %s", path, error_message(result));
    }
    result = dir_sync(path, error);
    return result == 0 ? 0 : store_fail(store, result, "backup: %.200s", error);
}

/* Moves the state, and moves or copies the meta values. Meta comes first: if the copy fails,
 * the store is as it was. */
static int aside_take(struct store *store, const char *target, bool meta_whole,
                      char error[STORE_ERROR_LEN])
{
    int result = 0;
    if (meta_whole) {
        result = backup_part(store, &store->meta, target, "meta");
        if (result != 0) {
            store_last_error(store, error);
        }
    } else {
        result = aside_move(store->dir, target, "meta", error);
    }
    if (result == 0) {
        result = aside_move(store->dir, target, "state", error);
    }
    if (result == 0 && meta_whole) {
        result = store_begin_state(store->dir, error);
    }
    if (result == 0) {
        result = dir_sync(target, error);
    }
    return result == 0 ? dir_sync(store->dir, error) : result;
}

static int aside_run(struct store *store, bool must_keep, bool *meta_kept, char *moved_to,
                     size_t capacity, char error[STORE_ERROR_LEN])
{
    char target[PATH_MAX];
    *meta_kept = aside_open_meta(store);
    if (!*meta_kept && must_keep) {
        (void)snprintf(error, STORE_ERROR_LEN,
                       "%.300s/meta: identity and promises cannot be read; expected that they can, "
                       "for what they were would be forgotten",
                       store->dir);
        return TG_ECORRUPT;
    }
    int result = aside_make(store->dir, target, error);
    if (result != 0) {
        env_close(&store->meta);
        return result;
    }
    if (strlen(target) >= capacity) {
        (void)rmdir(target);
        env_close(&store->meta);
        (void)snprintf(error, STORE_ERROR_LEN, "no room for a path of %zu bytes", strlen(target));
        return TG_EINVALID;
    }
    memcpy(moved_to, target, strlen(target) + 1);
    result = aside_take(store, target, *meta_kept, error);
    env_close(&store->meta);
    return result;
}

int store_set_aside(const char *dir, bool must_keep, bool *meta_kept, char *moved_to,
                    size_t capacity, char error[STORE_ERROR_LEN])
{
    struct store *const store = alloc_get(alloc_heap(), sizeof(*store));
    *meta_kept = false;
    error[0] = '\0';
    if (store == NULL) {
        (void)snprintf(error, STORE_ERROR_LEN, "no memory");
        return TG_ENOMEM;
    }
    store->allocator = alloc_heap();
    store->lock_file = -1;
    int result = pthread_mutex_init(&store->error_lock, NULL) == 0 ? 0 : TG_ENOMEM;
    if (result == 0) {
        result = dir_copy(store->dir, dir, error);
    }
    if (result == 0 && !aside_any(store->dir)) {
        (void)snprintf(error, STORE_ERROR_LEN, "%.300s: has no store to set aside", dir);
        result = TG_ENOTFOUND;
    }
    if (result == 0) {
        result = dir_writable(store->dir, error);
    }
    if (result == 0) {
        result = dir_lock(store->dir, &store->lock_file, error);
    }
    if (result == 0) {
        result = aside_run(store, must_keep, meta_kept, moved_to, capacity, error);
    }
    if (store->lock_file >= 0) {
        (void)close(store->lock_file);
    }
    (void)pthread_mutex_destroy(&store->error_lock);
    alloc_put(alloc_heap(), store, sizeof(*store));
    return result;
}

int store_backup(struct store *store, const char *dir)
{
    char error[STORE_ERROR_LEN];
    int result = backup_part(store, &store->state, dir, "state"); /* ASIDE-2 */
    if (result == 0) {
        result = backup_part(store, &store->meta, dir, "meta");
    }
    if (result == 0) {
        result = dir_sync(dir, error);
        result = result == 0 ? 0 : store_fail(store, result, "backup: %.200s", error);
    }
    return result;
}
