/* container.c - control groups of both versions, read from their files. See container.h. */
#include "node/runtime/system/container.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/assert.h"

enum {
    FILE_LEN = 1 << 16, /* of mountinfo, that is: the groups are mounted first */
    PATH_LEN = 1024,
    DEPTH_MAX = 64, /* groups within each other */
    MILLI = 1000,
    KIB = 1024,
    FIELD_ROOT = 4, /* fields of a line of mountinfo, the first is 1 */
    FIELD_POINT = 5,
};

enum kind { KIND_CPU, KIND_MEMORY, KINDS };

static const char *const controllers[] = {[KIND_CPU] = "cpu", [KIND_MEMORY] = "memory"};

/* Where a controller's groups are, in one version. */
struct place {
    char path[PATH_LEN];  /* of the process's group; "": it is in none */
    char root[PATH_LEN];  /* the group that is seen at `point` */
    char point[PATH_LEN]; /* "": nowhere */
};

/* ---- numbers --------------------------------------------------------------------------------- */

/* A number that stands alone, or before a space. False if there is none, or one that is too big. */
static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && (*end == '\0' || isspace((unsigned char)*end));
}

static uint32_t milli_of(uint64_t quota, uint64_t period)
{
    if (period == 0 || quota == 0 || quota > UINT64_MAX / MILLI)
        return 0;
    const uint64_t milli = quota * MILLI / period;
    return milli == 0 ? 1 : milli > UINT32_MAX ? 0 : (uint32_t)milli;
}

uint32_t container_cpu_quota(const char *quota, const char *period)
{
    uint64_t of = 0;
    uint64_t at = 0;
    return read_number(quota, &of) && read_number(period, &at) ? milli_of(of, at) : 0;
}

uint32_t container_cpu_max(const char *text)
{
    const char *space = strchr(text, ' ');
    return space == NULL ? 0 : container_cpu_quota(text, space + 1);
}

uint64_t container_memory_max(const char *text)
{
    uint64_t bytes = 0;
    return read_number(text, &bytes) ? bytes : 0;
}

uint64_t container_memory_total(const char *text)
{
    uint64_t kib = 0;
    const char *at = strstr(text, "MemTotal:");
    if (at == NULL)
        return 0;
    at += sizeof "MemTotal:" - 1;
    at += strspn(at, " ");
    return read_number(at, &kib) && kib <= UINT64_MAX / KIB ? kib * KIB : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads as much of ROOT/PATH/NAME as fits, and ends it with a NUL: "" if it cannot be read. */
static void read_file(const char *root, const char *path, const char *name, char *out,
                      size_t capacity)
{
    char full[2 * PATH_LEN];
    size_t len = 0;
    const int fits =
        snprintf(full, sizeof full, "%s%s%s%s", root, path, name[0] == '/' ? "" : "/", name);
    const int fd = fits > 0 && (size_t)fits < sizeof full ? open(full, O_RDONLY | O_CLOEXEC) : -1;
    while (fd >= 0 && len < capacity - 1) {
        const ssize_t got = read(fd, out + len, capacity - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    if (fd >= 0)
        (void)close(fd);
    out[len] = '\0';
}

/* Whether `word` is among those that commas part. */
static bool has_word(const char *list, size_t len, const char *word)
{
    const size_t word_len = strlen(word);
    for (size_t at = 0; at <= len;) {
        const size_t here = strcspn(list + at, ",") < len - at ? strcspn(list + at, ",") : len - at;
        if (here == word_len && memcmp(list + at, word, word_len) == 0)
            return true;
        at += here + 1;
    }
    return false;
}

/* Copies what fits whole; else "" (CONTAINER-1). */
static void keep(char out[PATH_LEN], const char *from, size_t len)
{
    len = len < PATH_LEN ? len : 0;
    memcpy(out, from, len);
    out[len] = '\0';
}

/* "4:memory:/pod/box" or "0::/pod/box": the group of `controller`, NULL for version 2. */
static void find_group(const char *groups, const char *controller, struct place *place)
{
    for (const char *line = groups; *line != '\0'; line += *line == '\n') {
        const size_t len = strcspn(line, "\n");
        const char *names = memchr(line, ':', len);
        const char *path =
            names == NULL ? NULL : memchr(names + 1, ':', len - (size_t)(names + 1 - line));
        if (path != NULL) {
            const size_t names_len = (size_t)(path - names) - 1;
            if (controller == NULL ? names_len == 0 && line[0] == '0'
                                   : has_word(names + 1, names_len, controller))
                keep(place->path, path + 1, len - (size_t)(path + 1 - line));
        }
        line += len;
    }
}

/* The start of a line's n-th field, and its length: 0 if there are fewer. */
static const char *field(const char *line, size_t len, unsigned n, size_t *field_len)
{
    const char *end = line + len;
    const char *at = line;
    for (; n > 1 && at < end; n--) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        at = space == NULL ? end : space + 1;
    }
    *field_len = strcspn(at, " \n");
    return at;
}

/* A line of mountinfo: ID PARENT DEVICE ROOT POINT OPTIONS.. - TYPE SOURCE SUPER,OPTIONS. The first
 * mount that has the controller counts. */
static void find_mount(const char *mounts, const char *controller, struct place *place)
{
    for (const char *line = mounts; *line != '\0'; line += *line == '\n') {
        const size_t len = strcspn(line, "\n");
        const char *more = memmem(line, len, " - ", 3);
        size_t type_len;
        size_t options_len;
        size_t root_len;
        size_t point_len;
        if (more != NULL && place->point[0] == '\0') {
            const size_t more_len = len - (size_t)(more + 3 - line);
            const char *type = field(more + 3, more_len, 1, &type_len);
            const char *options = field(more + 3, more_len, 3, &options_len);
            const char *root = field(line, len, FIELD_ROOT, &root_len);
            const char *point = field(line, len, FIELD_POINT, &point_len);
            const char *wanted = controller == NULL ? "cgroup2" : "cgroup";
            if (point[0] == '/' && type_len == strlen(wanted) &&
                memcmp(type, wanted, type_len) == 0 &&
                (controller == NULL || has_word(options, options_len, controller))) {
                keep(place->root, root, root_len);
                keep(place->point, point, point_len);
            }
        }
        line += len;
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void lower(uint64_t *limit, uint64_t found)
{
    if (found != 0 && (*limit == 0 || found < *limit))
        *limit = found;
}

/* What the group at `path`, in its version, allows of `kind`. */
static void read_limit(const char *root, const char *path, enum kind kind, bool second,
                       uint64_t *limit)
{
    char text[128];
    char more[128];
    ASSERT(kind < KINDS);
    if (kind == KIND_MEMORY) {
        read_file(root, path, second ? "memory.max" : "memory.limit_in_bytes", text, sizeof text);
        lower(limit, container_memory_max(text));
    } else if (second) {
        read_file(root, path, "cpu.max", text, sizeof text);
        lower(limit, container_cpu_max(text));
    } else {
        read_file(root, path, "cpu.cfs_quota_us", text, sizeof text);
        read_file(root, path, "cpu.cfs_period_us", more, sizeof more);
        lower(limit, container_cpu_quota(text, more));
    }
}

/* The part of the group's path below the group that is seen at the mount. A process may be in a
 * group that is not below it ("/../other", or a path of the machine where the mount is the
 * container's): then the mount's own group is all that is known. */
static const char *below(const struct place *place)
{
    const size_t len = strcmp(place->root, "/") == 0 ? 0 : strlen(place->root);
    const char *rest = place->path + len;
    if (strncmp(place->path, place->root, len) != 0 || (rest[0] != '/' && rest[0] != '\0') ||
        strstr(rest, "/..") != NULL)
        return "";
    return rest;
}

/* Of the process's group and all that it is within, up to the mount. */
static void walk(const char *root, const struct place *place, enum kind kind, bool second,
                 uint64_t *limit)
{
    char path[2 * PATH_LEN];
    if (place->point[0] == '\0' || place->path[0] == '\0')
        return;
    const size_t least = strlen(place->point);
    (void)snprintf(path, sizeof path, "%s%s", place->point, below(place));
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        read_limit(root, path, kind, second, limit);
        char *slash = strlen(path) > least ? strrchr(path + least, '/') : NULL;
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

static uint32_t affinity(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return count > 0 ? (uint32_t)count : 0;
}

void container_look(const char *root, struct container *out)
{
    char groups[FILE_LEN / 8];
    char mounts[FILE_LEN];
    char memory[1024];
    uint64_t limits[KINDS] = {0};

    read_file(root, "/proc/self", "cgroup", groups, sizeof groups);
    read_file(root, "/proc/self", "mountinfo", mounts, sizeof mounts);
    read_file(root, "/proc", "meminfo", memory, sizeof memory);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int second = 0; second <= 1; second++) {
            struct place place = {.path = ""};
            const char *controller = second ? NULL : controllers[kind];
            find_group(groups, controller, &place);
            find_mount(mounts, controller, &place);
            walk(root, &place, (enum kind)kind, second, &limits[kind]);
        }
    }
    *out = (struct container){
        .processors = affinity(),
        .cpu_milli = (uint32_t)limits[KIND_CPU],
        .memory_max = limits[KIND_MEMORY],
        .memory_here = container_memory_total(memory),
    };
    if (out->memory_here != 0 && out->memory_max >= out->memory_here)
        out->memory_max = 0; /* CONTAINER-2 */
}

/* ---- what follows ---------------------------------------------------------------------------- */

uint32_t container_usable_milli(const struct container *container)
{
    const uint64_t all = (uint64_t)container->processors * MILLI;
    if (container->cpu_milli == 0)
        return all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
    return all != 0 && all < container->cpu_milli ? (uint32_t)all : container->cpu_milli;
}

bool container_may_poll(const struct container *container)
{
    const uint32_t usable = container_usable_milli(container);
    return usable == 0 || usable >= 2 * MILLI;
}

uint64_t container_share(const struct container *container, uint32_t parts)
{
    ASSERT(parts > 0);
    return container->memory_max / parts;
}

void container_settle(const struct container *container)
{
    if (container->memory_max != 0 && container->memory_max < CONTAINER_SMALL)
        (void)prctl(PR_SET_THP_DISABLE, 1L, 0L, 0L, 0L);
}

const char *container_text(const struct container *container, char out[CONTAINER_TEXT_LEN])
{
    char cpu[CONTAINER_TEXT_LEN / 4];
    char memory[CONTAINER_TEXT_LEN / 4];
    if (container->cpu_milli == 0)
        (void)snprintf(cpu, sizeof cpu, "no limit of their time");
    else
        (void)snprintf(cpu, sizeof cpu, "%" PRIu32 ".%03" PRIu32 " of their time",
                       container->cpu_milli / MILLI, container->cpu_milli % MILLI);
    if (container->memory_max == 0)
        (void)snprintf(memory, sizeof memory, "no limit of memory");
    else
        (void)snprintf(memory, sizeof memory, "%" PRIu64 " MiB of memory",
                       container->memory_max >> 20);
    (void)snprintf(out, CONTAINER_TEXT_LEN, "%" PRIu32 " processors, %s, %s", container->processors,
                   cpu, memory);
    return out;
}
