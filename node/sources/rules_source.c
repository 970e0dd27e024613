/* rules_source.c - see rules_source.h. */
#include "node/sources/rules_source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/policy/compile/rules_join.h"

enum { PATH_LEN = 4096 };

void rules_source_fini(struct rules_source *source)
{
    free(source->text);
    *source = (struct rules_source){.text = NULL};
}

static int fail(int code, char *error, size_t capacity, const char *path, const char *why)
{
    (void)snprintf(error, capacity, "%s: %s", path, why);
    return code;
}

/* How much may be read, and where it is said why something was not. */
struct where {
    size_t len_max;
    char *error;
    size_t capacity;
};

static int fail_open(const struct where *where, const char *path)
{
    (void)snprintf(where->error, where->capacity, "cannot open %s: %s", path, strerror(errno));
    return TG_EINVALID;
}

/* Reads the whole of an open file into new memory. */
static int read_all(FILE *from, const char *path, const struct where *where,
                    struct rules_source *out)
{
    const size_t len_max = where->len_max;
    out->text = malloc(len_max + 1);
    if (out->text == NULL)
        return fail(TG_ENOMEM, where->error, where->capacity, path, "out of memory");
    out->len = fread(out->text, 1, len_max + 1, from);
    if (ferror(from) == 0 && out->len <= len_max)
        return TG_OK;
    const bool large = out->len > len_max;
    rules_source_fini(out);
    if (!large)
        return fail(TG_EINVALID, where->error, where->capacity, path, "cannot be read");
    (void)snprintf(where->error, where->capacity, "%s is larger than %zu bytes", path, len_max);
    return TG_EINVALID;
}

static int read_file(const char *path, const struct where *where, struct rules_source *out)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *from = is_stdin ? stdin : fopen(path, "rb");
    *out = (struct rules_source){.text = NULL};
    if (from == NULL)
        return fail_open(where, path);
    const int result = read_all(from, path, where, out);
    if (!is_stdin)
        (void)fclose(from);
    return result;
}

/* Reads a file, and puts it behind the others under `name`. */
static int add_file(struct rules_source *out, const char *name, const char *path,
                    const struct where *where)
{
    struct rules_source file;
    int result = read_file(path, where, &file);
    if (result != TG_OK)
        return result;
    const size_t len = rules_join_add(NULL, 0, out->len, name, file.text, file.len);
    char *text = len <= where->len_max ? realloc(out->text, len + 1) : NULL;
    if (len > where->len_max) {
        result = fail(TG_EINVALID, where->error, where->capacity, path,
                      "is too large with the files before it");
    } else if (text == NULL) {
        result = fail(TG_ENOMEM, where->error, where->capacity, path, "out of memory");
    } else {
        out->text = text;
        out->len = rules_join_add(text, len, out->len, name, file.text, file.len);
        out->joined = true;
        ASSERT(out->len == len);
    }
    rules_source_fini(&file);
    return result;
}

static int takes(const struct dirent *entry)
{
    return rules_join_takes(entry->d_name);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Reads the files of a directory, each called by its name, or (`whole`) by its path. */
static int read_directory(const char *path, struct dirent *const *names, int count, bool whole,
                          const struct where *where, struct rules_source *out)
{
    int result = TG_OK;
    if (count == 0)
        return fail(TG_EINVALID, where->error, where->capacity, path,
                    "is a directory without a file *.yaml or *.yml; expected one at least");
    if (count > RULES_JOIN_FILES_MAX)
        return fail(TG_EINVALID, where->error, where->capacity, path,
                    "is a directory of more than 1024 files of rules; expected fewer");
    for (int i = 0; i < count && result == TG_OK; i++) {
        char file[PATH_LEN];
        const int len = snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        if (len < 0 || (size_t)len >= sizeof file)
            return fail(TG_EINVALID, where->error, where->capacity, path, "is too long a path");
        result = add_file(out, whole ? file : names[i]->d_name, file, where);
    }
    return result;
}

bool rules_source_is_directory(const char *path)
{
    struct stat status;
    return strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int add_directory(const char *path, bool whole, const struct where *where,
                         struct rules_source *out)
{
    struct dirent **names = NULL;
    const int count = scandir(path, &names, takes, compare_names);
    if (count < 0)
        return fail_open(where, path);
    const int result = read_directory(path, names, count, whole, where, out);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return result;
}

int rules_source_read(const char *path, size_t len_max, struct rules_source *out, char *error,
                      size_t capacity)
{
    struct where where = {len_max, error, capacity};
    *out = (struct rules_source){.text = NULL};
    if (!rules_source_is_directory(path))
        return read_file(path, &where, out);
    const int result = add_directory(path, false, &where, out);
    if (result != TG_OK)
        rules_source_fini(out);
    return result;
}

/* ---- stamps --------------------------------------------------------------------------------- */

/* What the system says of a file; in fields without gaps between them. */
struct stamped {
    struct hash128 before; /* the stamp of all files before it */
    uint64_t error;        /* why there is nothing to tell; or 0 */
    uint64_t device;
    uint64_t inode;
    uint64_t len;
    int64_t written[2]; /* seconds, and nanoseconds */
    int64_t changed[2];
};

static const struct hash_key stamp_key = {{0}};

static struct hash128 stamp_path(const struct hash128 *before, const char *path, mode_t *mode)
{
    struct stat status;
    struct stamped told = {.before = *before};
    if (stat(path, &status) != 0) {
        told.error = (uint64_t)errno;
        *mode = 0;
        return hash128(&stamp_key, &told, sizeof told);
    }
    told.device = status.st_dev;
    told.inode = status.st_ino;
    told.len = (uint64_t)status.st_size;
    told.written[0] = status.st_mtim.tv_sec;
    told.written[1] = status.st_mtim.tv_nsec;
    told.changed[0] = status.st_ctim.tv_sec;
    told.changed[1] = status.st_ctim.tv_nsec;
    *mode = status.st_mode;
    return hash128(&stamp_key, &told, sizeof told);
}

static struct hash128 stamp_entry(struct hash128 stamp, const char *path, const char *name)
{
    char file[PATH_LEN];
    mode_t mode;
    const struct hash128 named = hash128(&stamp_key, name, strlen(name));
    stamp.lo = hash_mix64(stamp.lo + named.lo);
    stamp.hi ^= named.hi;
    const int len = snprintf(file, sizeof file, "%s/%s", path, name);
    return len < 0 || (size_t)len >= sizeof file ? stamp : stamp_path(&stamp, file, &mode);
}

/* Of a directory only its files count: the one itself changes with what is no file of rules. */
struct hash128 rules_source_stamp(const char *path)
{
    const struct hash128 none = {0, 0};
    struct dirent **names = NULL;
    mode_t mode;
    struct hash128 stamp = stamp_path(&none, path, &mode);
    if (!S_ISDIR(mode))
        return stamp;
    const int count = scandir(path, &names, takes, compare_names);
    const uint64_t told[2] = {(uint64_t)count, count < 0 ? (uint64_t)errno : 0};
    stamp = hash128(&stamp_key, told, sizeof told);
    for (int i = 0; i < count; i++) {
        if (i < RULES_JOIN_FILES_MAX)
            stamp = stamp_entry(stamp, path, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return stamp;
}

/* ---- several ----------------------------------------------------------------------------------
 */

bool rules_source_begin(struct rules_source *out, const char *text, size_t len)
{
    *out = (struct rules_source){.text = malloc(len + 1), .len = len, .joined = true};
    if (out->text != NULL)
        memcpy(out->text, text, len);
    return out->text != NULL;
}

int rules_source_add(struct rules_source *out, const char *path, size_t len_max, char *error,
                     size_t capacity)
{
    struct where where = {len_max, error, capacity};
    if (strpbrk(path, "\r\n") != NULL)
        return fail(TG_EINVALID, error, capacity, path, "has the end of a line in its name");
    return rules_source_is_directory(path) ? add_directory(path, true, &where, out)
                                           : add_file(out, path, path, &where);
}

const char *rules_source_place(const char *path, const struct rules_source *source, uint32_t line,
                               char *out, size_t capacity)
{
    struct rules_join_place place = {NULL, 0, line};
    if (source->joined && source->text != NULL)
        place = rules_join_find(source->text, source->len, line);
    if (place.name == NULL)
        (void)snprintf(out, capacity, "%s:%u", path, line);
    else
        (void)snprintf(out, capacity, "%s%s%.*s:%u", path, path[0] != '\0' ? "/" : "",
                       (int)place.name_len, place.name, place.line);
    return out;
}
