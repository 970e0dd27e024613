/* dir.h - directories of a store: paths, creation that survives a crash, the lock.
 *
 * All return 0 or TG_E* with a text in `error` that names the path.
 */
#ifndef STORAGE_DIR_H
#define STORAGE_DIR_H

#include <limits.h>

#include "storage/store_values.h"

/* Copies `dir` without slashes at its end. TG_EINVALID if it is empty or too long. */
int dir_copy(char out[PATH_MAX], const char *dir, char error[STORE_ERROR_LEN]) MUST_USE;
/* dir/name. TG_EINVALID if it is too long. */
int dir_join(char out[PATH_MAX], const char *dir, const char *name,
             char error[STORE_ERROR_LEN]) MUST_USE;
/* Creates `path` and the directories above it that are missing, each synced into its parent. */
int dir_make(const char *path, char error[STORE_ERROR_LEN]) MUST_USE;
/* Makes the entries of `path` durable. */
int dir_sync(const char *path, char error[STORE_ERROR_LEN]) MUST_USE;
/* 0 if this process may write `path`, or if there is no such thing; TG_EIO if not. */
int dir_writable(const char *path, char error[STORE_ERROR_LEN]) MUST_USE;
/* Takes the lock of the store in `dir`; *file is to be closed. TG_EEXISTS if someone has it. */
int dir_lock(const char *dir, int *file, char error[STORE_ERROR_LEN]) MUST_USE;

#endif
