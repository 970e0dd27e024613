/* side_table.c - entries, blobs and their bytes in cells of one size; side_table.h is the contract.
 *
 *   cell of an entry   | id | vnode | bucket next | list next, previous | blobs | stamp |
 *   cell of a blob     | next blob | first piece | len | kind | term | seq | event |
 *   cell of a piece    | next piece | 60 bytes |
 *
 * Ids are keyed hashes already, so their low bits choose the bucket. Pure.
 */
#include "node/cluster/reconcile/side_table.h"

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

static struct entry *entry_at(const struct side_table *side, uint32_t index)
{
    return pool_at(&side->cells, index);
}

static struct blob *blob_at(const struct side_table *side, uint32_t index)
{
    return pool_at(&side->cells, index);
}

static struct piece *piece_at(const struct side_table *side, uint32_t index)
{
    return pool_at(&side->cells, index);
}

static void fill(uint32_t *indexes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        indexes[i] = SIDE_NONE;
}

int side_init(struct side_table *side, const struct allocator *allocator, size_t bytes,
              uint32_t vnodes)
{
    const size_t cells = bytes / CELL_LEN;
    ASSERT(cells > 0 && cells < UINT32_MAX / 2);
    memset(side, 0, sizeof *side);
    side->allocator = allocator;
    side->bucket_count = 1;
    while (side->bucket_count < cells / CELLS_PER_BUCKET)
        side->bucket_count *= 2;
    side->vnode_count = vnodes;
    side->buckets = alloc_array(allocator, side->bucket_count, sizeof *side->buckets);
    side->vnodes = alloc_array(allocator, vnodes, sizeof *side->vnodes);
    const int result = pool_init(&side->cells, allocator, CELL_LEN, (uint32_t)cells);
    if (result != 0 || side->buckets == NULL || side->vnodes == NULL) {
        side_fini(side);
        return TG_ENOMEM;
    }
    fill(side->buckets, side->bucket_count);
    fill(side->vnodes, vnodes);
    return 0;
}

void side_fini(struct side_table *side)
{
    if (side->allocator == NULL)
        return;
    pool_fini(&side->cells);
    if (side->buckets != NULL)
        alloc_put(side->allocator, side->buckets, side->bucket_count * sizeof *side->buckets);
    if (side->vnodes != NULL)
        alloc_put(side->allocator, side->vnodes, side->vnode_count * sizeof *side->vnodes);
    memset(side, 0, sizeof *side);
}

/* ---- entries --------------------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct side_table *side, struct hash128 id)
{
    return &side->buckets[id.lo & (side->bucket_count - 1)];
}

uint32_t side_find(const struct side_table *side, struct hash128 id)
{
    uint32_t index = *bucket_of(side, id);
    while (index != SIDE_NONE && !hash128_equal(entry_at(side, index)->id, id))
        index = entry_at(side, index)->bucket_next;
    return index;
}

uint32_t side_add(struct side_table *side, uint32_t vnode, struct hash128 id)
{
    uint32_t index = side_find(side, id);
    ASSERT(vnode < side->vnode_count);
    if (index != SIDE_NONE)
        return index;
    index = pool_get(&side->cells);
    if (index == SIDE_NONE)
        return SIDE_NONE;
    uint32_t *bucket = bucket_of(side, id);
    *entry_at(side, index) = (struct entry){
        .id = id,
        .vnode = vnode,
        .bucket_next = *bucket,
        .list_next = side->vnodes[vnode],
        .list_previous = SIDE_NONE,
        .blobs = SIDE_NONE,
    };
    if (side->vnodes[vnode] != SIDE_NONE)
        entry_at(side, side->vnodes[vnode])->list_previous = index;
    *bucket = index;
    side->vnodes[vnode] = index;
    side->entries++;
    return index;
}

static void pieces_free(struct side_table *side, uint32_t piece)
{
    while (piece != SIDE_NONE) {
        const uint32_t next = piece_at(side, piece)->next;
        pool_put(&side->cells, piece);
        piece = next;
    }
}

static void blob_free(struct side_table *side, struct entry *entry, uint32_t index)
{
    const struct blob *blob = blob_at(side, index);
    entry->bytes -= blob->len;
    entry->blob_count--;
    side->waiting -= blob->kind == SIDE_WAITING;
    pieces_free(side, blob->piece);
    pool_put(&side->cells, index);
}

static void unlink_entry(struct side_table *side, uint32_t index)
{
    const struct entry *entry = entry_at(side, index);
    uint32_t *link = bucket_of(side, entry->id);
    while (*link != index)
        link = &entry_at(side, *link)->bucket_next;
    *link = entry->bucket_next;
    if (entry->list_previous == SIDE_NONE)
        side->vnodes[entry->vnode] = entry->list_next;
    else
        entry_at(side, entry->list_previous)->list_next = entry->list_next;
    if (entry->list_next != SIDE_NONE)
        entry_at(side, entry->list_next)->list_previous = entry->list_previous;
}

void side_remove(struct side_table *side, uint32_t index)
{
    struct entry *entry = entry_at(side, index);
    while (entry->blobs != SIDE_NONE) {
        const uint32_t blob = entry->blobs;
        entry->blobs = blob_at(side, blob)->next;
        blob_free(side, entry, blob);
    }
    unlink_entry(side, index);
    pool_put(&side->cells, index);
    side->entries--;
}

void side_remove_vnode(struct side_table *side, uint32_t vnode)
{
    while (side->vnodes[vnode] != SIDE_NONE)
        side_remove(side, side->vnodes[vnode]);
}

uint32_t side_first(const struct side_table *side, uint32_t vnode)
{
    return side->vnodes[vnode];
}

uint32_t side_next(const struct side_table *side, uint32_t entry)
{
    return entry_at(side, entry)->list_next;
}

struct hash128 side_id(const struct side_table *side, uint32_t entry)
{
    return entry_at(side, entry)->id;
}

uint32_t side_count(const struct side_table *side, uint32_t entry, size_t *bytes)
{
    *bytes = entry_at(side, entry)->bytes;
    return entry_at(side, entry)->blob_count;
}

uint32_t side_stamp(const struct side_table *side, uint32_t entry)
{
    return entry_at(side, entry)->stamp;
}

void side_set_stamp(struct side_table *side, uint32_t entry, uint32_t stamp)
{
    entry_at(side, entry)->stamp = stamp;
}

/* ---- blobs ----------------------------------------------------------------------------------- */

uint32_t side_blob(const struct side_table *side, uint32_t index, enum side_kind kind,
                   const struct term *term)
{
    uint32_t blob = entry_at(side, index)->blobs;
    while (blob != SIDE_NONE && (blob_at(side, blob)->kind != kind ||
                                 term_compare(&blob_at(side, blob)->term, term) != 0))
        blob = blob_at(side, blob)->next;
    return blob;
}

void side_drop(struct side_table *side, uint32_t index, enum side_kind kind,
               const struct term *term)
{
    const uint32_t dropped = side_blob(side, index, kind, term);
    struct entry *entry = entry_at(side, index);
    if (dropped == SIDE_NONE)
        return;
    uint32_t *link = &entry->blobs;
    while (*link != dropped)
        link = &blob_at(side, *link)->next;
    *link = blob_at(side, dropped)->next;
    blob_free(side, entry, dropped);
}

static uint32_t pieces_of(size_t len)
{
    return (uint32_t)((len + PIECE_LEN - 1) / PIECE_LEN);
}

/* Copies the bytes into a chain of pieces, of which there are enough. */
static uint32_t pieces_put(struct side_table *side, const uint8_t *bytes, size_t len)
{
    uint32_t first = SIDE_NONE;
    /* From the end, so that each piece knows the next one when it is made. */
    for (uint32_t i = pieces_of(len); i-- > 0;) {
        const size_t at = (size_t)i * PIECE_LEN;
        const uint32_t index = pool_get(&side->cells);
        struct piece *piece = piece_at(side, index);
        memcpy(piece->bytes, bytes + at, len - at < PIECE_LEN ? len - at : PIECE_LEN);
        piece->next = first;
        first = index;
    }
    return first;
}

int side_put(struct side_table *side, uint32_t index, const struct side_blob *blob,
             const void *bytes)
{
    struct entry *entry = entry_at(side, index);
    const uint32_t old = side_blob(side, index, blob->kind, &blob->term);
    const uint32_t old_len = old == SIDE_NONE ? 0 : blob_at(side, old)->len;
    const uint32_t need = pieces_of(blob->len) + 1;
    if (entry->bytes - old_len + blob->len > SIDE_ENTRY_BYTES_MAX ||
        (old == SIDE_NONE && entry->blob_count == SIDE_BLOBS_MAX) ||
        side->cells.capacity - side->cells.used < need)
        return TG_EFULL; /* E3; the old pieces are not counted on */
    side_drop(side, index, blob->kind, &blob->term);
    const uint32_t at = pool_get(&side->cells);
    *blob_at(side, at) = (struct blob){
        .term = blob->term,
        .seq = blob->seq,
        .next = entry->blobs,
        .piece = pieces_put(side, bytes, blob->len),
        .len = blob->len,
        .event = blob->event,
        .kind = (uint8_t)blob->kind,
    };
    entry->blobs = at;
    entry->blob_count++;
    entry->bytes += blob->len;
    side->waiting += blob->kind == SIDE_WAITING;
    return 0;
}

uint32_t side_blobs(const struct side_table *side, uint32_t entry)
{
    return entry_at(side, entry)->blobs;
}

uint32_t side_next_blob(const struct side_table *side, uint32_t blob)
{
    return blob_at(side, blob)->next;
}

struct side_blob side_describe(const struct side_table *side, uint32_t index)
{
    const struct blob *blob = blob_at(side, index);
    return (struct side_blob){
        .kind = (enum side_kind)blob->kind,
        .term = blob->term,
        .seq = blob->seq,
        .event = blob->event,
        .len = blob->len,
    };
}

size_t side_read(const struct side_table *side, uint32_t index, void *out)
{
    const struct blob *blob = blob_at(side, index);
    uint32_t at = blob->piece;
    for (size_t done = 0; done < blob->len; done += PIECE_LEN) {
        const size_t left = blob->len - done;
        memcpy((uint8_t *)out + done, piece_at(side, at)->bytes,
               left < PIECE_LEN ? left : PIECE_LEN);
        at = piece_at(side, at)->next;
    }
    return blob->len;
}
