/* pages.c - the walk over an LMDB file that decides whether LMDB may map it.
 *
 * The file is pages of equal size. Two meta pages alternate, each names the roots of two B-trees:
 * the free list and the data.
 *
 *     page 0   page 1   page 2 ...
 *     | meta | meta   | branch / leaf / overflow runs / free pages |
 *
 *     page      0: u64 number   10: u16 flags   12: u16 lower   14: u16 upper   16: u16 offsets of
 * nodes overflow  0: u64 number   10: u16 flags   12: u32 pages                   16: the value
 *     meta     16: u32 magic    20: u32 version 40: tree free   88: tree data   136: u64 last page
 * 144: u64 txn tree      0: u32 page size (of the free tree)  16, 24, 32: pages   32: u64 entries
 * 40: u64 root node      0: u16 low, u16 high, u16 flags, u16 key length, key, value (leaf: value
 * length = high:low; branch: child page = flags:high:low)
 *
 * PAGES-1  No page is used twice, counting the free list: a bitmap says so, and bounds the walk.
 * PAGES-2  Every page used lies inside the file, every node inside its page.
 * PAGES-3  Nothing is read but with pread into own memory, so damage is an error and never a
 *          signal.
 *
 * Must not write, must not call LMDB. The layout is that of LMDB 0.9 on 64-bit little-endian
 * machines, as are the machines that Tidegate runs on.
 */
#include "storage/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

enum {
    PAGE_LEN_MIN = 512,
    PAGE_LEN_MAX = 65536,
    PAGE_HEAD_LEN = 16,
    PAGE_BRANCH = 1,
    PAGE_LEAF = 2,
    PAGE_OVERFLOW = 4,
    PAGE_META = 8,
    META_MAGIC_AT = 16,
    META_VERSION_AT = 20,
    META_TREE_AT = 40,
    META_LAST_PAGE_AT = 136,
    META_TXN_AT = 144,
    META_LEN = 152,
    META_COUNT = 2,
    TREE_LEN = 48,
    TREE_ENTRIES_AT = 32,
    TREE_ROOT_AT = 40,
    NODE_HEAD_LEN = 8,
    NODE_BIG_VALUE = 1,
    DEPTH_MAX = 32,
    FORMAT_VERSION = 1,
};
#define FORMAT_MAGIC UINT32_C(0xBEEFC0DE)
#define NO_PAGE      UINT64_MAX

struct walk {
    int file;
    const char *path;
    char *error;
    const struct allocator *allocator;
    uint64_t pages; /* that may be used: last page + 1 */
    uint64_t file_bytes;
    uint32_t page_len;
    uint8_t *page;     /* of page_len bytes */
    uint8_t *seen;     /* a bit a page */
    uint64_t *pending; /* branch and leaf pages still to visit */
    size_t pending_count;
    size_t pending_max;
    uint64_t entries; /* met in the tree */
    bool free_list;   /* values are lists of free pages */
};

static int complain(const struct walk *walk, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int complain(const struct walk *walk, int code, const char *format, ...)
{
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    (void)snprintf(walk->error, STORE_ERROR_LEN, "%.300s: %s", walk->path, what);
    return code;
}

/* Reads exactly `len` bytes at `offset`. */
static int read_at(const struct walk *walk, void *out, size_t len, uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t got =
            pread(walk->file, (uint8_t *)out + done, len - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return complain(walk, TG_EIO, "read at byte %llu: %s",
                            (unsigned long long)(offset + done), strerror(errno));
        }
        if (got == 0) {
            return complain(
                walk, TG_ECORRUPT, "truncated: byte %llu is in use but the file has %llu bytes",
                (unsigned long long)(offset + done), (unsigned long long)walk->file_bytes);
        }
        done += (size_t)got;
    }
    return 0;
}

/* Claims `count` pages from `first`: in range and not claimed before (PAGES-1). */
static int claim(struct walk *walk, uint64_t first, uint64_t count)
{
    if (first < META_COUNT || first >= walk->pages || count > walk->pages - first) {
        return complain(walk, TG_ECORRUPT, "pages %llu+%llu are named but %llu is the last",
                        (unsigned long long)first, (unsigned long long)count,
                        (unsigned long long)(walk->pages - 1));
    }
    for (uint64_t page = first; page < first + count; page++) {
        uint8_t *const byte = &walk->seen[page / 8];
        const uint8_t bit = (uint8_t)(1U << (page % 8));
        if ((*byte & bit) != 0) {
            return complain(walk, TG_ECORRUPT, "page %llu is used twice", (unsigned long long)page);
        }
        *byte |= bit;
    }
    return 0;
}

static int push(struct walk *walk, uint64_t page)
{
    const int result = claim(walk, page, 1);
    if (result == 0 && walk->pending_count == walk->pending_max) {
        return complain(walk, TG_ECORRUPT, "tree of more than %d levels", DEPTH_MAX);
    }
    if (result == 0) {
        walk->pending[walk->pending_count++] = page;
    }
    return result;
}

/* A free list's value: a count and as many page numbers. */
static int claim_free(struct walk *walk, const uint8_t *value, size_t len)
{
    const uint64_t count = len >= 8 ? bytes_u64_at(value, 0) : 0;
    if (len < 8 || len % 8 != 0 || count > len / 8 - 1) {
        return complain(walk, TG_ECORRUPT, "free list entry of %zu bytes is damaged", len);
    }
    for (uint64_t i = 1; i <= count; i++) {
        const int result = claim(walk, bytes_u64_at(value, i), 1);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* A value too long for its leaf: a run of pages with one header. */
static int check_overflow(struct walk *walk, uint64_t first, uint32_t value_len)
{
    uint8_t head[PAGE_HEAD_LEN];
    const uint64_t count = (PAGE_HEAD_LEN - 1 + (uint64_t)value_len) / walk->page_len + 1;
    int result = claim(walk, first, count);
    if (result == 0) {
        result = read_at(walk, head, sizeof(head), first * walk->page_len);
    }
    if (result != 0) {
        return result;
    }
    if (bytes_u64_at(head, 0) != first || bytes_u16_at(head + 10, 0) != PAGE_OVERFLOW ||
        bytes_u32_at(head + 12, 0) != count) {
        return complain(walk, TG_ECORRUPT, "page %llu is no overflow run of %llu pages",
                        (unsigned long long)first, (unsigned long long)count);
    }
    const uint64_t end = first * walk->page_len + PAGE_HEAD_LEN + value_len;
    if (end > walk->file_bytes) {
        return complain(walk, TG_ECORRUPT,
                        "truncated: byte %llu is in use but the file has %llu bytes",
                        (unsigned long long)end, (unsigned long long)walk->file_bytes);
    }
    if (!walk->free_list) {
        return 0;
    }
    uint8_t *const value = alloc_get(walk->allocator, value_len);
    if (value == NULL) {
        return complain(walk, TG_ENOMEM, "no memory for %u bytes", value_len);
    }
    result = read_at(walk, value, value_len, first * walk->page_len + PAGE_HEAD_LEN);
    if (result == 0) {
        result = claim_free(walk, value, value_len);
    }
    alloc_put(walk->allocator, value, value_len);
    return result;
}

/* `node` lies in the page with `room` bytes to the page's end. */
static int check_node(struct walk *walk, const uint8_t *node, size_t room, bool leaf)
{
    const uint32_t size = bytes_u32_at(node, 0);
    const uint16_t flags = bytes_u16_at(node + 4, 0);
    const size_t key_end = NODE_HEAD_LEN + (size_t)bytes_u16_at(node + 6, 0);
    if (key_end > room) {
        return complain(walk, TG_ECORRUPT, "a key of %zu bytes leaves its page", key_end);
    }
    if (!leaf) {
        return push(walk, size | (uint64_t)flags << 32);
    }
    walk->entries++;
    if (flags == NODE_BIG_VALUE && room - key_end >= 8) {
        return check_overflow(walk, bytes_u64_at(node + key_end, 0), size);
    }
    if (flags != 0 || size > room - key_end) {
        return complain(walk, TG_ECORRUPT, "a value of %u bytes leaves its page", size);
    }
    return walk->free_list ? claim_free(walk, node + key_end, size) : 0;
}

static int check_page(struct walk *walk, uint64_t number)
{
    const int result = read_at(walk, walk->page, walk->page_len, number * walk->page_len);
    if (result != 0) {
        return result;
    }
    const uint16_t flags = bytes_u16_at(walk->page + 10, 0);
    const size_t lower = bytes_u16_at(walk->page + 12, 0);
    const size_t upper = bytes_u16_at(walk->page + 14, 0);
    if (bytes_u64_at(walk->page, 0) != number || (flags != PAGE_BRANCH && flags != PAGE_LEAF) ||
        lower < PAGE_HEAD_LEN || lower > upper || upper > walk->page_len) {
        return complain(walk, TG_ECORRUPT, "page %llu has a damaged header",
                        (unsigned long long)number);
    }
    for (size_t at = PAGE_HEAD_LEN; at + 2 <= lower; at += 2) {
        const size_t offset = bytes_u16_at(walk->page + at, 0);
        if (offset < upper || offset + NODE_HEAD_LEN > walk->page_len) {
            return complain(walk, TG_ECORRUPT, "page %llu has a node at %zu",
                            (unsigned long long)number, offset);
        }
        const int checked =
            check_node(walk, walk->page + offset, walk->page_len - offset, flags == PAGE_LEAF);
        if (checked != 0) {
            return checked;
        }
    }
    return 0;
}

static int check_tree(struct walk *walk, const uint8_t *tree)
{
    const uint64_t root = bytes_u64_at(tree + TREE_ROOT_AT, 0);
    int result = root == NO_PAGE ? 0 : push(walk, root);
    walk->entries = 0;
    while (result == 0 && walk->pending_count > 0) {
        result = check_page(walk, walk->pending[--walk->pending_count]);
    }
    if (result == 0 && walk->entries != bytes_u64_at(tree + TREE_ENTRIES_AT, 0)) {
        return complain(walk, TG_ECORRUPT, "%llu entries found, %llu expected",
                        (unsigned long long)walk->entries,
                        (unsigned long long)bytes_u64_at(tree + TREE_ENTRIES_AT, 0));
    }
    return result;
}

/* Reads and checks meta page `index`; the page length is in page 0's and needed for page 1's. */
static int read_meta(struct walk *walk, unsigned index, uint8_t meta[META_LEN])
{
    const int result = read_at(walk, meta, META_LEN, (uint64_t)index * walk->page_len);
    if (result != 0) {
        return result;
    }
    if (bytes_u16_at(meta + 10, 0) != PAGE_META ||
        bytes_u32_at(meta + META_MAGIC_AT, 0) != FORMAT_MAGIC) {
        return complain(walk, TG_ECORRUPT, "not a database: meta page %u expected", index);
    }
    if (bytes_u32_at(meta + META_VERSION_AT, 0) != FORMAT_VERSION) {
        return complain(walk, TG_EVERSION, "database format %u, expected %d",
                        bytes_u32_at(meta + META_VERSION_AT, 0), FORMAT_VERSION);
    }
    const uint32_t page_len = bytes_u32_at(meta + META_TREE_AT, 0);
    if (page_len < PAGE_LEN_MIN || page_len > PAGE_LEN_MAX || (page_len & (page_len - 1)) != 0 ||
        (index > 0 && page_len != walk->page_len)) {
        return complain(walk, TG_ECORRUPT, "meta page %u names a page length of %u", index,
                        page_len);
    }
    walk->page_len = page_len;
    return 0;
}

/* Walks both trees of the newest meta page. */
static int check_trees(struct walk *walk, const uint8_t *meta)
{
    const size_t seen_len = (size_t)(walk->pages / 8 + 1);
    int result = TG_ENOMEM;
    walk->pending_max = (size_t)walk->page_len / NODE_HEAD_LEN * DEPTH_MAX;
    walk->page = alloc_get(walk->allocator, walk->page_len);
    walk->seen = alloc_get(walk->allocator, seen_len);
    walk->pending = alloc_array(walk->allocator, walk->pending_max, sizeof(walk->pending[0]));
    if (walk->page == NULL || walk->seen == NULL || walk->pending == NULL) {
        (void)complain(walk, TG_ENOMEM, "no memory to check %llu pages",
                       (unsigned long long)walk->pages);
    } else {
        walk->free_list = true;
        result = check_tree(walk, meta + META_TREE_AT);
        walk->free_list = false;
        if (result == 0) {
            result = check_tree(walk, meta + META_TREE_AT + TREE_LEN);
        }
    }
    alloc_put(walk->allocator, walk->page, walk->page_len);
    alloc_put(walk->allocator, walk->seen, seen_len);
    alloc_put(walk->allocator, walk->pending, walk->pending_max * sizeof(walk->pending[0]));
    return result;
}

static int check_file(struct walk *walk)
{
    uint8_t metas[META_COUNT][META_LEN];
    for (unsigned i = 0; i < META_COUNT; i++) {
        const int result = read_meta(walk, i, metas[i]);
        if (result != 0) {
            return result;
        }
    }
    const bool second =
        bytes_u64_at(metas[1] + META_TXN_AT, 0) > bytes_u64_at(metas[0] + META_TXN_AT, 0);
    const uint8_t *const meta = metas[second ? 1 : 0];
    const uint64_t last = bytes_u64_at(meta + META_LAST_PAGE_AT, 0);
    /* Pages at the end may have been taken and given back within one transaction, and so never
     * written; but a number a map could not hold is damage. */
    if (last < META_COUNT - 1 || last > walk->file_bytes) {
        return complain(walk, TG_ECORRUPT, "last page is %llu in a file of %llu bytes",
                        (unsigned long long)last, (unsigned long long)walk->file_bytes);
    }
    walk->pages = last + 1;
    return check_trees(walk, meta);
}

int pages_check(const char *path, const struct allocator *allocator, char error[STORE_ERROR_LEN])
{
    struct stat status;
    struct walk walk = {.path = path, .error = error, .allocator = allocator};
    walk.file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (walk.file < 0) {
        return errno == ENOENT ? 0
                               : complain(&walk, TG_EIO, "cannot be opened: %s", strerror(errno));
    }
    int result = 0;
    if (fstat(walk.file, &status) != 0) {
        result = complain(&walk, TG_EIO, "stat: %s", strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        result = complain(&walk, TG_ECORRUPT, "not a regular file");
    } else if (status.st_size > 0) {
        walk.file_bytes = (uint64_t)status.st_size;
        result = check_file(&walk);
    }
    (void)close(walk.file);
    return result;
}
