/* merge_base.c - entries, blobs and their bytes in cells of one size; merge_base.h is the contract.
 *
 *   cell of an entry   | id | vnode | bucket next | list next, previous | blobs | stamp |
 *   cell of a blob     | next blob | first piece | len | kind | term | seq | event |
 *   cell of a piece    | next piece | 60 bytes |
 *
 * Ids are keyed hashes already, so their low bits choose the bucket. Pure.
 */
#include "node/cluster/reconcile/merge_base.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"

enum { CELL_LEN = 64, PIECE_LEN = 60, CELLS_PER_BUCKET = 4 };

struct entry {
    struct hash128 id;
    uint32_t vnode;
    uint32_t bucket_next;
    uint32_t list_next;
    uint32_t list_previous;
    uint32_t blobs;
    uint32_t stamp;
    uint32_t bytes;
    uint32_t blob_count;
};

struct blob {
    struct term term;
    uint64_t seq;
    uint32_t next;
    uint32_t piece;
    uint32_t len;
    uint32_t event;
    uint8_t kind;
};

struct piece {
    uint32_t next;
    uint8_t bytes[PIECE_LEN];
};

static_assert(sizeof(struct entry) <= CELL_LEN, "an entry is a cell");
static_assert(sizeof(struct blob) <= CELL_LEN, "a blob is a cell");
static_assert(sizeof(struct piece) == CELL_LEN, "a piece fills a cell");

static struct entry *entry_at(const struct merge_base *bases, uint32_t index)
{
    return pool_at(&bases->cells, index);
}

static struct blob *blob_at(const struct merge_base *bases, uint32_t index)
{
    return pool_at(&bases->cells, index);
}

static struct piece *piece_at(const struct merge_base *bases, uint32_t index)
{
    return pool_at(&bases->cells, index);
}

static void fill(uint32_t *indexes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        indexes[i] = MERGE_BASE_NONE;
}

int merge_base_init(struct merge_base *bases, const struct allocator *allocator, size_t bytes,
                    uint32_t vnodes)
{
    const size_t cells = bytes / CELL_LEN;
    ASSERT(cells > 0 && cells < UINT32_MAX / 2);
    memset(bases, 0, sizeof *bases);
    bases->allocator = allocator;
    bases->bucket_count = 1;
    while (bases->bucket_count < cells / CELLS_PER_BUCKET)
        bases->bucket_count *= 2;
    bases->vnode_count = vnodes;
    bases->buckets = alloc_array(allocator, bases->bucket_count, sizeof *bases->buckets);
    bases->vnodes = alloc_array(allocator, vnodes, sizeof *bases->vnodes);
    const int result = pool_init(&bases->cells, allocator, CELL_LEN, (uint32_t)cells);
    if (result != 0 || bases->buckets == NULL || bases->vnodes == NULL) {
        merge_base_fini(bases);
        return TG_ENOMEM;
    }
    fill(bases->buckets, bases->bucket_count);
    fill(bases->vnodes, vnodes);
    return 0;
}

void merge_base_fini(struct merge_base *bases)
{
    if (bases->allocator == NULL)
        return;
    pool_fini(&bases->cells);
    if (bases->buckets != NULL)
        alloc_put(bases->allocator, bases->buckets, bases->bucket_count * sizeof *bases->buckets);
    if (bases->vnodes != NULL)
        alloc_put(bases->allocator, bases->vnodes, bases->vnode_count * sizeof *bases->vnodes);
    memset(bases, 0, sizeof *bases);
}

/* ---- entries --------------------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct merge_base *bases, struct hash128 id)
{
    return &bases->buckets[id.lo & (bases->bucket_count - 1)];
}

uint32_t merge_base_find(const struct merge_base *bases, struct hash128 id)
{
    uint32_t index = *bucket_of(bases, id);
    while (index != MERGE_BASE_NONE && !hash128_equal(entry_at(bases, index)->id, id))
        index = entry_at(bases, index)->bucket_next;
    return index;
}

uint32_t merge_base_add(struct merge_base *bases, uint32_t vnode, struct hash128 id)
{
    uint32_t index = merge_base_find(bases, id);
    ASSERT(vnode < bases->vnode_count);
    if (index != MERGE_BASE_NONE)
        return index;
    index = pool_get(&bases->cells);
    if (index == MERGE_BASE_NONE)
        return MERGE_BASE_NONE;
    uint32_t *bucket = bucket_of(bases, id);
    *entry_at(bases, index) = (struct entry){
        .id = id,
        .vnode = vnode,
        .bucket_next = *bucket,
        .list_next = bases->vnodes[vnode],
        .list_previous = MERGE_BASE_NONE,
        .blobs = MERGE_BASE_NONE,
    };
    if (bases->vnodes[vnode] != MERGE_BASE_NONE)
        entry_at(bases, bases->vnodes[vnode])->list_previous = index;
    *bucket = index;
    bases->vnodes[vnode] = index;
    bases->entries++;
    return index;
}

static void pieces_free(struct merge_base *bases, uint32_t piece)
{
    while (piece != MERGE_BASE_NONE) {
        const uint32_t next = piece_at(bases, piece)->next;
        pool_put(&bases->cells, piece);
        piece = next;
    }
}

static void blob_free(struct merge_base *bases, struct entry *entry, uint32_t index)
{
    const struct blob *blob = blob_at(bases, index);
    ASSERT(entry->blob_count > 0 && entry->bytes >= blob->len); /* MERGEBASE-4 */
    entry->bytes -= blob->len;
    entry->blob_count--;
    bases->waiting -= blob->kind == MERGE_BASE_WAITING;
    pieces_free(bases, blob->piece);
    pool_put(&bases->cells, index);
}

static void unlink_entry(struct merge_base *bases, uint32_t index)
{
    const struct entry *entry = entry_at(bases, index);
    uint32_t *link = bucket_of(bases, entry->id);
    while (*link != index)
        link = &entry_at(bases, *link)->bucket_next;
    *link = entry->bucket_next;
    if (entry->list_previous == MERGE_BASE_NONE)
        bases->vnodes[entry->vnode] = entry->list_next;
    else
        entry_at(bases, entry->list_previous)->list_next = entry->list_next;
    if (entry->list_next != MERGE_BASE_NONE)
        entry_at(bases, entry->list_next)->list_previous = entry->list_previous;
}

void merge_base_remove(struct merge_base *bases, uint32_t index)
{
    struct entry *entry = entry_at(bases, index);
    while (entry->blobs != MERGE_BASE_NONE) {
        const uint32_t blob = entry->blobs;
        entry->blobs = blob_at(bases, blob)->next;
        blob_free(bases, entry, blob);
    }
    ASSERT(bases->entries > 0 && entry->blob_count == 0); /* MERGEBASE-4 */
    unlink_entry(bases, index);
    pool_put(&bases->cells, index);
    bases->entries--;
}

void merge_base_remove_vnode(struct merge_base *bases, uint32_t vnode)
{
    ASSERT(vnode < bases->vnode_count);
    while (bases->vnodes[vnode] != MERGE_BASE_NONE)
        merge_base_remove(bases, bases->vnodes[vnode]);
}

uint32_t merge_base_first(const struct merge_base *bases, uint32_t vnode)
{
    ASSERT(vnode < bases->vnode_count);
    return bases->vnodes[vnode];
}

uint32_t merge_base_next(const struct merge_base *bases, uint32_t entry)
{
    return entry_at(bases, entry)->list_next;
}

struct hash128 merge_base_id(const struct merge_base *bases, uint32_t entry)
{
    return entry_at(bases, entry)->id;
}

uint32_t merge_base_count(const struct merge_base *bases, uint32_t entry, size_t *bytes)
{
    *bytes = entry_at(bases, entry)->bytes;
    return entry_at(bases, entry)->blob_count;
}

uint32_t merge_base_stamp(const struct merge_base *bases, uint32_t entry)
{
    return entry_at(bases, entry)->stamp;
}

void merge_base_set_stamp(struct merge_base *bases, uint32_t entry, uint32_t stamp)
{
    entry_at(bases, entry)->stamp = stamp;
}

/* ---- blobs ----------------------------------------------------------------------------------- */

uint32_t merge_base_blob(const struct merge_base *bases, uint32_t index, enum merge_base_kind kind,
                         const struct term *term)
{
    uint32_t blob = entry_at(bases, index)->blobs;
    while (blob != MERGE_BASE_NONE && (blob_at(bases, blob)->kind != kind ||
                                       term_compare(&blob_at(bases, blob)->term, term) != 0))
        blob = blob_at(bases, blob)->next;
    return blob;
}

void merge_base_drop(struct merge_base *bases, uint32_t index, enum merge_base_kind kind,
                     const struct term *term)
{
    const uint32_t dropped = merge_base_blob(bases, index, kind, term);
    struct entry *entry = entry_at(bases, index);
    if (dropped == MERGE_BASE_NONE)
        return;
    uint32_t *link = &entry->blobs;
    while (*link != dropped)
        link = &blob_at(bases, *link)->next;
    *link = blob_at(bases, dropped)->next;
    blob_free(bases, entry, dropped);
}

static uint32_t pieces_of(size_t len)
{
    return (uint32_t)((len + PIECE_LEN - 1) / PIECE_LEN);
}

/* Copies the bytes into a chain of pieces, of which there are enough. */
static uint32_t pieces_put(struct merge_base *bases, const uint8_t *bytes, size_t len)
{
    uint32_t first = MERGE_BASE_NONE;
    /* From the end, so that each piece knows the next one when it is made. */
    for (uint32_t i = pieces_of(len); i-- > 0;) {
        const size_t at = (size_t)i * PIECE_LEN;
        const uint32_t index = pool_get(&bases->cells);
        ASSERT(index != MERGE_BASE_NONE); /* MERGEBASE-3: they were counted */
        struct piece *piece = piece_at(bases, index);
        memcpy(piece->bytes, bytes + at, len - at < PIECE_LEN ? len - at : PIECE_LEN);
        piece->next = first;
        first = index;
    }
    return first;
}

int merge_base_put(struct merge_base *bases, uint32_t index, const struct merge_base_blob *blob,
                   const void *bytes)
{
    struct entry *entry = entry_at(bases, index);
    ASSERT(blob->kind < MERGE_BASE_KIND_END);
    const uint32_t old = merge_base_blob(bases, index, blob->kind, &blob->term);
    const uint32_t old_len = old == MERGE_BASE_NONE ? 0 : blob_at(bases, old)->len;
    const uint32_t need = pieces_of(blob->len) + 1;
    if (entry->bytes - old_len + blob->len > MERGE_BASE_ENTRY_BYTES_MAX ||
        (old == MERGE_BASE_NONE && entry->blob_count == MERGE_BASE_BLOBS_MAX) ||
        bases->cells.capacity - bases->cells.used < need)
        return TG_EFULL; /* MERGEBASE-3; the old pieces are not counted on */
    merge_base_drop(bases, index, blob->kind, &blob->term);
    const uint32_t at = pool_get(&bases->cells);
    *blob_at(bases, at) = (struct blob){
        .term = blob->term,
        .seq = blob->seq,
        .next = entry->blobs,
        .piece = pieces_put(bases, bytes, blob->len),
        .len = blob->len,
        .event = blob->event,
        .kind = (uint8_t)blob->kind,
    };
    entry->blobs = at;
    entry->blob_count++;
    entry->bytes += blob->len;
    bases->waiting += blob->kind == MERGE_BASE_WAITING;
    return 0;
}

uint32_t merge_base_blobs(const struct merge_base *bases, uint32_t entry)
{
    return entry_at(bases, entry)->blobs;
}

uint32_t merge_base_next_blob(const struct merge_base *bases, uint32_t blob)
{
    return blob_at(bases, blob)->next;
}

struct merge_base_blob merge_base_describe(const struct merge_base *bases, uint32_t index)
{
    const struct blob *blob = blob_at(bases, index);
    return (struct merge_base_blob){
        .kind = (enum merge_base_kind)blob->kind,
        .term = blob->term,
        .seq = blob->seq,
        .event = blob->event,
        .len = blob->len,
    };
}

size_t merge_base_read(const struct merge_base *bases, uint32_t index, void *out)
{
    const struct blob *blob = blob_at(bases, index);
    uint32_t at = blob->piece;
    for (size_t done = 0; done < blob->len; done += PIECE_LEN) {
        const size_t left = blob->len - done;
        memcpy((uint8_t *)out + done, piece_at(bases, at)->bytes,
               left < PIECE_LEN ? left : PIECE_LEN);
        at = piece_at(bases, at)->next;
    }
    return blob->len;
}

/* ---- what always holds ----------------------------------------------------------------------- */

/* Returns the cells that the blob takes. */
static uint32_t check_blob(const struct merge_base *bases, uint32_t index)
{
    const struct blob *blob = blob_at(bases, index);
    uint32_t pieces = 0;
    INVARIANT("MERGEBASE-2", blob->kind < MERGE_BASE_KIND_END);
    for (uint32_t at = blob->piece; at != MERGE_BASE_NONE; at = piece_at(bases, at)->next, pieces++)
        INVARIANT("MERGEBASE-4", pieces < bases->cells.used && pool_in_use(&bases->cells, at));
    INVARIANT("MERGEBASE-4", pieces == pieces_of(blob->len));
    return pieces + 1;
}

static uint32_t check_entry(const struct merge_base *bases, uint32_t index, uint32_t *waiting)
{
    const struct entry *entry = entry_at(bases, index);
    uint32_t cells = 1;
    uint32_t blobs = 0;
    uint32_t bytes = 0;
    INVARIANT("MERGEBASE-1", merge_base_find(bases, entry->id) == index);
    for (uint32_t at = entry->blobs; at != MERGE_BASE_NONE; at = blob_at(bases, at)->next) {
        INVARIANT("MERGEBASE-4", blobs < MERGE_BASE_BLOBS_MAX && pool_in_use(&bases->cells, at));
        const struct blob *blob = blob_at(bases, at);
        INVARIANT("MERGEBASE-2", merge_base_blob(bases, index, (enum merge_base_kind)blob->kind,
                                                 &blob->term) == at);
        cells += check_blob(bases, at);
        *waiting += blob->kind == MERGE_BASE_WAITING;
        bytes += blob->len;
        blobs++;
    }
    INVARIANT("MERGEBASE-4", blobs == entry->blob_count && bytes == entry->bytes);
    INVARIANT("MERGEBASE-4", bytes <= MERGE_BASE_ENTRY_BYTES_MAX);
    return cells;
}

void merge_base_check_invariants(const struct merge_base *bases)
{
    uint32_t cells = 0;
    uint32_t entries = 0;
    uint32_t waiting = 0;
    for (uint32_t vnode = 0; vnode < bases->vnode_count; vnode++) {
        uint32_t before = MERGE_BASE_NONE;
        for (uint32_t at = bases->vnodes[vnode]; at != MERGE_BASE_NONE;
             before = at, at = entry_at(bases, at)->list_next, entries++) {
            INVARIANT("MERGEBASE-1", entries < bases->cells.used && pool_in_use(&bases->cells, at));
            INVARIANT("MERGEBASE-1", entry_at(bases, at)->vnode == vnode);
            INVARIANT("MERGEBASE-1", entry_at(bases, at)->list_previous == before);
            cells += check_entry(bases, at, &waiting);
        }
    }
    INVARIANT("MERGEBASE-1", entries == bases->entries);
    INVARIANT("MERGEBASE-4", cells == bases->cells.used && waiting == bases->waiting);
}
