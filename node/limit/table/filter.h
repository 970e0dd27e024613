/* filter.h - "may this key be on disk?", a blocked Bloom filter cut into one slice per vnode.
 *
 * A "no" is certain; a "maybe" that turns out wrong costs one load and nothing else. Keys cannot
 * be taken out, so a slice is rebuilt from the disk's own list now and then, beside the live one.
 *
 *   slice of vnode v:  [ 64-byte block | 64-byte block | ... ]   4 bits per key, all in one block
 *
 * FILTER-1  filter_maybe is 1 for every id added to the vnode since its last reset.
 * FILTER-2  A rebuild never makes FILTER-1 untrue: adds made meanwhile reach both the old slice and
 *           the new.
 * FILTER-3  `slices_used` counts the vnodes with an add; only a vnode of the filter is rebuilt.
 *
 * Pure and single-threaded: belongs to the thread of its table.
 */
#ifndef NODE_LIMIT_TABLE_FILTER_H
#define NODE_LIMIT_TABLE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

enum { FILTER_BLOCK_LEN = 64, FILTER_BITS_PER_KEY = 4 };

#define FILTER_VNODE_NONE UINT32_MAX

struct filter {
    const struct allocator *allocator;
    uint64_t *words; /* the slices of all vnodes, then the one being rebuilt */
    uint32_t *adds;  /* per vnode: ids added since its last reset */
    size_t bytes;    /* of words */
    uint32_t vnodes;
    uint32_t slice_blocks;
    uint32_t slices_used; /* with at least one add */
    uint32_t rebuilding;  /* vnode, or FILTER_VNODE_NONE */
    uint32_t rebuilt_adds;
};

/* Takes about `bytes` bytes (at least one block a vnode) for `vnodes` slices. 0 or TG_ENOMEM. */
MUST_USE int filter_init(struct filter *filter, const struct allocator *allocator, uint32_t vnodes,
                         size_t bytes);
void filter_fini(struct filter *filter);
/* Bytes that filter_init with these arguments takes. */
size_t filter_bytes(uint32_t vnodes, size_t bytes);
/* Bytes that are in use: slices without an add are never touched. */
size_t filter_bytes_used(const struct filter *filter);

void filter_add(struct filter *filter, uint32_t vnode, struct hash128 id);
/* 1 if `id` may have been added, 0 if it certainly was not. */
int filter_maybe(const struct filter *filter, uint32_t vnode, struct hash128 id);
/* Empties the slice: every id is then a certain no. Ends a rebuild of that vnode. */
void filter_reset(struct filter *filter, uint32_t vnode);
/* Fills the slice: every id is then a maybe (the disk was not listed yet). */
void filter_saturate(struct filter *filter, uint32_t vnode);
/* Bits set in the slice, in thousandths, rounded up: from ~500 on it is time for a rebuild, and 0
 * says that every id is a certain no. O(slice). */
uint32_t filter_fill_permille(const struct filter *filter, uint32_t vnode);

/* A rebuild: begin, then filter_rebuild_add for every id the disk holds, then end, which puts the
 * new slice in place. One at a time: begin is TG_EBUSY while another one runs. */
MUST_USE int filter_rebuild_begin(struct filter *filter, uint32_t vnode);
void filter_rebuild_add(struct filter *filter, struct hash128 id);
void filter_rebuild_end(struct filter *filter);
void filter_rebuild_abort(struct filter *filter);
/* Asserts FILTER-3. O(vnodes). */
void filter_check(const struct filter *filter);

#endif
