/* pages.h - looks at an LMDB file before LMDB maps it.
 *
 * LMDB trusts its file: a page number beyond the end of a truncated file is a SIGBUS, and garbage
 * in a page header a wild pointer. This check reads the file with pread and follows every branch,
 * leaf and overflow page from the newest meta page, so that an unusable file is an error with a
 * name.
 */
#ifndef STORAGE_PAGES_H
#define STORAGE_PAGES_H

#include "storage/store_values.h"

/* 0 if the file at `path` is absent, empty, or a database all of whose pages are in place;
 * TG_ECORRUPT, TG_EVERSION (another LMDB format), TG_EIO, TG_ENOMEM with a text that names path and
 * page. */
int pages_check(const char *path, const struct allocator *allocator,
                char error[STORE_ERROR_LEN]) MUST_USE;

#endif
