/* dir.c - directories of a store.
 *
 * The lock is a flock on an open file: the kernel releases it with the process, however that ends,
 * so that no stale lock file keeps a restarted node out. The file holds the process id, for people.
 *
 * DIR-1  A directory exists durably when dir_make returns: its parent has been synced.
 */
#include "storage/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIR_MODE = 0700, LOCK_MODE = 0600 };

static int dir_fail(const char *path, const char *what, char error[STORE_ERROR_LEN])
{
    const int cause = errno;
    (void)snprintf(error, STORE_ERROR_LEN, "%.300s: %s: %s", path, what, strerror(cause));
    return cause == ENOSPC || cause == EDQUOT ? TG_EFULL : TG_EIO;
}

static int dir_too_long(const char *path, char error[STORE_ERROR_LEN])
{
    (void)snprintf(error, STORE_ERROR_LEN, "\"%.300s\": expected a path of 1 to %d bytes", path,
                   PATH_MAX - 1);
    return TG_EINVALID;
}

int dir_copy(char out[PATH_MAX], const char *dir, char error[STORE_ERROR_LEN])
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    if (len == 0 || len >= PATH_MAX) {
        return dir_too_long(dir, error);
    }
    memcpy(out, dir, len);
    out[len] = '\0';
    return 0;
}

int dir_join(char out[PATH_MAX], const char *dir, const char *name, char error[STORE_ERROR_LEN])
{
    const int len = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return len < 0 || len >= PATH_MAX ? dir_too_long(dir, error) : 0;
}

int dir_sync(const char *path, char error[STORE_ERROR_LEN])
{
    const int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) {
        return dir_fail(path, "cannot be opened as a directory", error);
    }
    const int result = fsync(file) == 0 ? 0 : dir_fail(path, "sync", error);
    (void)close(file);
    return result;
}

/* The directory that `path` is in. */
static void dir_parent(char out[PATH_MAX], const char *path)
{
    const char *const slash = strrchr(path, '/');
    const size_t len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    memcpy(out, path, len);
    memcpy(out + len, len == 0 ? "." : "", len == 0 ? 2 : 1);
}

static int dir_make_one(const char *path, char error[STORE_ERROR_LEN])
{
    char parent[PATH_MAX];
    struct stat status;
    if (mkdir(path, DIR_MODE) != 0) {
        if (errno != EEXIST) {
            return dir_fail(path, "cannot be created", error);
        }
        errno = ENOTDIR;
        return stat(path, &status) == 0 && S_ISDIR(status.st_mode)
                   ? 0
                   : dir_fail(path, "expected a directory", error);
    }
    dir_parent(parent, path);
    return dir_sync(parent, error); /* DIR-1 */
}

int dir_make(const char *path, char error[STORE_ERROR_LEN])
{
    char prefix[PATH_MAX];
    int result = dir_copy(prefix, path, error);
    for (size_t i = 1; result == 0 && prefix[i - 1] != '\0'; i++) {
        const char at = prefix[i];
        if (at == '/' || at == '\0') {
            prefix[i] = '\0';
            result = dir_make_one(prefix, error);
            prefix[i] = at;
        }
    }
    return result;
}

int dir_writable(const char *path, char error[STORE_ERROR_LEN])
{
    struct stat status;
    if (lstat(path, &status) != 0 ||
        access(path, W_OK | (S_ISDIR(status.st_mode) ? X_OK : 0)) == 0) {
        return 0; /* what is not there is created, or else said to be missing */
    }
    (void)snprintf(error, STORE_ERROR_LEN,
                   "%.300s: is read-only for user %u: %s; expected that a node may write what it "
                   "keeps",
                   path, (unsigned)geteuid(), strerror(errno));
    return TG_EIO;
}

int dir_lock(const char *dir, int *file, char error[STORE_ERROR_LEN])
{
    char path[PATH_MAX];
    char text[32];
    int result = dir_join(path, dir, "LOCK", error);
    if (result != 0) {
        return result;
    }
    *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, LOCK_MODE);
    if (*file < 0) {
        return dir_fail(path, "cannot be opened", error);
    }
    if (flock(*file, LOCK_EX | LOCK_NB) == 0) {
        const int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
        /* For people only: a full disk must not keep the store closed. */
        const bool told = ftruncate(*file, 0) == 0 && pwrite(*file, text, (size_t)len, 0) == len;
        (void)told;
        return 0;
    }
    const int cause = errno;
    const ssize_t len = pread(*file, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (cause == EWOULDBLOCK) {
        (void)snprintf(error, STORE_ERROR_LEN,
                       "%.300s: in use by process %s; expected to be the only one", dir,
                       text[0] != '\0' ? text : "?");
        result = TG_EEXISTS;
    } else {
        errno = cause;
        result = dir_fail(path, "cannot be locked", error);
    }
    (void)close(*file);
    *file = -1;
    return result;
}
