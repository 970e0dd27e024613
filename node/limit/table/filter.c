/* filter.c - blocked Bloom slices; see filter.h.
 *
 * A key sets FILTER_BITS_PER_KEY bits of one 64-byte block, so a question costs one cache line.
 * The block and the bits come from one mix of the id; ids are keyed hashes already, the mix only
 * keeps the filter independent of the table's index.
 */
#include "node/limit/table/filter.h"

#include <string.h>

#include "base/assert.h"

enum { BLOCK_WORDS = FILTER_BLOCK_LEN / 8, BLOCK_BITS = FILTER_BLOCK_LEN * 8 };

static uint32_t slice_blocks(uint32_t vnodes, size_t bytes)
{
    const size_t blocks = bytes / FILTER_BLOCK_LEN / ((size_t)vnodes + 1);
    return blocks == 0 ? 1 : blocks > 1u << 20 ? 1u << 20 : (uint32_t)blocks;
}

static size_t words_bytes(uint32_t vnodes, size_t bytes)
{
    return ((size_t)vnodes + 1) * slice_blocks(vnodes, bytes) * FILTER_BLOCK_LEN;
}

size_t filter_bytes(uint32_t vnodes, size_t bytes)
{
    return words_bytes(vnodes, bytes) + vnodes * sizeof(uint32_t);
}

size_t filter_bytes_used(const struct filter *filter)
{
    return ((size_t)filter->slices_used + 1) * filter->slice_blocks * FILTER_BLOCK_LEN +
           filter->vnodes * sizeof *filter->adds;
}

/* Keeps slices_used in step with adds. */
static void set_adds(struct filter *filter, uint32_t vnode, uint32_t adds)
{
    ASSERT(filter->adds[vnode] == 0 || filter->slices_used > 0); /* FILTER-3 */
    filter->slices_used += (adds != 0);
    filter->slices_used -= (filter->adds[vnode] != 0);
    filter->adds[vnode] = adds;
}

int filter_init(struct filter *filter, const struct allocator *allocator, uint32_t vnodes,
                size_t bytes)
{
    memset(filter, 0, sizeof *filter);
    filter->allocator = allocator;
    filter->vnodes = vnodes;
    filter->slice_blocks = slice_blocks(vnodes, bytes);
    filter->bytes = words_bytes(vnodes, bytes);
    filter->rebuilding = FILTER_VNODE_NONE;
    filter->words = alloc_get(allocator, filter->bytes);
    filter->adds = alloc_array(allocator, vnodes, sizeof *filter->adds);
    if (filter->words == NULL || filter->adds == NULL) {
        filter_fini(filter);
        return TG_ENOMEM;
    }
    return 0;
}

void filter_fini(struct filter *filter)
{
    if (filter->words != NULL)
        alloc_put(filter->allocator, filter->words, filter->bytes);
    if (filter->adds != NULL)
        alloc_put(filter->allocator, filter->adds, filter->vnodes * sizeof *filter->adds);
    filter->words = NULL;
    filter->adds = NULL;
}

static size_t slice_words(const struct filter *filter)
{
    return (size_t)filter->slice_blocks * BLOCK_WORDS;
}

static uint64_t *slice_of(const struct filter *filter, uint32_t vnode)
{
    return filter->words + vnode * slice_words(filter);
}

/* The slice under construction lies after those of the vnodes. */
static uint64_t *slice_shadow(const struct filter *filter)
{
    return slice_of(filter, filter->vnodes);
}

static uint64_t filter_hash(struct hash128 id)
{
    return hash_mix64(id.hi ^ (id.lo << 32 | id.lo >> 32));
}

static uint64_t *block_of(const struct filter *filter, uint64_t *slice, uint64_t hash)
{
    return slice + ((hash >> 40) * filter->slice_blocks >> 24) * BLOCK_WORDS;
}

static void slice_add(const struct filter *filter, uint64_t *slice, uint64_t hash)
{
    uint64_t *block = block_of(filter, slice, hash);
    for (unsigned i = 0; i < FILTER_BITS_PER_KEY; i++, hash >>= 9)
        block[(hash & (BLOCK_BITS - 1)) / 64] |= 1ULL << (hash % 64);
}

void filter_add(struct filter *filter, uint32_t vnode, struct hash128 id)
{
    ASSERT(vnode < filter->vnodes);
    const uint64_t hash = filter_hash(id);
    slice_add(filter, slice_of(filter, vnode), hash);
    if (filter->adds[vnode] < UINT32_MAX)
        set_adds(filter, vnode, filter->adds[vnode] + 1);
    if (filter->rebuilding == vnode) {
        slice_add(filter, slice_shadow(filter), hash); /* FILTER-2 */
        filter->rebuilt_adds++;
    }
}

int filter_maybe(const struct filter *filter, uint32_t vnode, struct hash128 id)
{
    ASSERT(vnode < filter->vnodes);
    if (filter->adds[vnode] == 0)
        return 0;
    uint64_t hash = filter_hash(id);
    const uint64_t *block = block_of(filter, slice_of(filter, vnode), hash);
    for (unsigned i = 0; i < FILTER_BITS_PER_KEY; i++, hash >>= 9)
        if ((block[(hash & (BLOCK_BITS - 1)) / 64] & 1ULL << (hash % 64)) == 0)
            return 0;
    return 1;
}

void filter_reset(struct filter *filter, uint32_t vnode)
{
    ASSERT(vnode < filter->vnodes);
    if (filter->rebuilding == vnode)
        filter->rebuilding = FILTER_VNODE_NONE;
    if (filter->adds[vnode] == 0)
        return; /* already empty: pages never used stay untouched */
    memset(slice_of(filter, vnode), 0, slice_words(filter) * 8);
    set_adds(filter, vnode, 0);
}

void filter_saturate(struct filter *filter, uint32_t vnode)
{
    ASSERT(vnode < filter->vnodes);
    memset(slice_of(filter, vnode), 0xff, slice_words(filter) * 8);
    set_adds(filter, vnode, UINT32_MAX);
}

uint32_t filter_fill_permille(const struct filter *filter, uint32_t vnode)
{
    ASSERT(vnode < filter->vnodes);
    if (filter->adds[vnode] == 0)
        return 0; /* the pages of an empty slice stay untouched */
    const uint64_t *slice = slice_of(filter, vnode);
    uint64_t set = 0;
    for (size_t i = 0; i < slice_words(filter); i++)
        set += (unsigned)__builtin_popcountll(slice[i]);
    const uint64_t bits = slice_words(filter) * 64;
    return (uint32_t)((set * 1000 + bits - 1) / bits); /* up: only an empty slice is 0 */
}

int filter_rebuild_begin(struct filter *filter, uint32_t vnode)
{
    ASSERT(vnode < filter->vnodes);
    if (filter->rebuilding != FILTER_VNODE_NONE)
        return TG_EBUSY;
    filter->rebuilding = vnode;
    filter->rebuilt_adds = 0;
    memset(slice_shadow(filter), 0, slice_words(filter) * 8);
    return 0;
}

void filter_rebuild_add(struct filter *filter, struct hash128 id)
{
    if (filter->rebuilding == FILTER_VNODE_NONE)
        return; /* the vnode was reset meanwhile */
    slice_add(filter, slice_shadow(filter), filter_hash(id));
    filter->rebuilt_adds++;
}

void filter_rebuild_end(struct filter *filter)
{
    if (filter->rebuilding == FILTER_VNODE_NONE)
        return;
    ASSERT(filter->rebuilding < filter->vnodes); /* FILTER-3 */
    memcpy(slice_of(filter, filter->rebuilding), slice_shadow(filter), slice_words(filter) * 8);
    set_adds(filter, filter->rebuilding, filter->rebuilt_adds);
    filter->rebuilding = FILTER_VNODE_NONE;
}

void filter_rebuild_abort(struct filter *filter)
{
    filter->rebuilding = FILTER_VNODE_NONE;
}

void filter_check(const struct filter *filter)
{
    uint32_t used = 0;
    for (uint32_t vnode = 0; vnode < filter->vnodes; vnode++)
        used += filter->adds[vnode] != 0;
    INVARIANT("FILTER-3", used == filter->slices_used);
    INVARIANT("FILTER-3",
              filter->rebuilding == FILTER_VNODE_NONE || filter->rebuilding < filter->vnodes);
}
