/* merge_base.h - what a guarding vnode remembers of a slot: what it was, and what was merged in.
 *
 * When a slot of a guarding vnode (lineage.h) changes for the first time since the newest cut, the
 * state it had is kept here as its base for that cut. When a branch is merged, what the branch said
 * is kept as its contribution, so that the same branch adds only what is new when it says it again.
 *
 *   id --> entry --> base of (T1) "used 5" --> contribution of (T1 beyond its cut) "used 8" --> ...
 *            |
 *            +--> next entry of the vnode
 *
 * All memory is taken at init, in cells of one size: an entry is one, a blob is one and a chain of
 * its bytes. A full table refuses; its owner has a coarser answer then (merge.c).
 *
 * MERGEBASE-1  An entry is reached by its id, and by the list of its vnode, or is not in use.
 * MERGEBASE-2  An entry has at most one blob of a kind and term.
 * MERGEBASE-3  A put that is refused has changed nothing.
 * MERGEBASE-4  Cells in use are those of entries, of their blobs, and of the bytes of these. What
 *              an entry counts of them is so.
 */
#ifndef NODE_CLUSTER_RECONCILE_MERGE_BASE_H
#define NODE_CLUSTER_RECONCILE_MERGE_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/pool.h"
#include "node/cluster/model/merge_base_blob.h"
#include "node/cluster/model/term.h"

#define MERGE_BASE_NONE POOL_NONE

struct merge_base {
    const struct allocator *allocator;
    struct pool cells;
    uint32_t *buckets; /* by id */
    uint32_t bucket_count;
    uint32_t *vnodes; /* the first entry of each */
    uint32_t vnode_count;
    uint32_t entries;
    uint32_t waiting; /* blobs of that kind */
};

/* A table of at most `bytes` bytes of cells for vnodes 0 .. vnodes - 1. 0 or TG_ENOMEM. */
MUST_USE int merge_base_init(struct merge_base *bases, const struct allocator *allocator,
                             size_t bytes, uint32_t vnodes);
void merge_base_fini(struct merge_base *bases);

/* The entry of `id`, or MERGE_BASE_NONE. */
uint32_t merge_base_find(const struct merge_base *bases, struct hash128 id);
/* The entry of `id`, made if there is none; MERGE_BASE_NONE without room. */
uint32_t merge_base_add(struct merge_base *bases, uint32_t vnode, struct hash128 id);
void merge_base_remove(struct merge_base *bases, uint32_t entry);
void merge_base_remove_vnode(struct merge_base *bases, uint32_t vnode);
/* The entries of a vnode, one after the other; MERGE_BASE_NONE at the end. */
uint32_t merge_base_first(const struct merge_base *bases, uint32_t vnode);
uint32_t merge_base_next(const struct merge_base *bases, uint32_t entry);
struct hash128 merge_base_id(const struct merge_base *bases, uint32_t entry);
/* How many blobs the entry has, and their bytes. */
uint32_t merge_base_count(const struct merge_base *bases, uint32_t entry, size_t *bytes);
/* A mark that the owner sets, 0 at first. */
uint32_t merge_base_stamp(const struct merge_base *bases, uint32_t entry);
void merge_base_set_stamp(struct merge_base *bases, uint32_t entry, uint32_t stamp);

/* Keeps blob->len bytes (0 is allowed) in place of what was kept of that kind and term. 0 or
 * TG_EFULL. */
MUST_USE int merge_base_put(struct merge_base *bases, uint32_t entry,
                            const struct merge_base_blob *blob, const void *bytes);
/* The blob of that kind and term, or MERGE_BASE_NONE. */
uint32_t merge_base_blob(const struct merge_base *bases, uint32_t entry, enum merge_base_kind kind,
                         const struct term *term);
void merge_base_drop(struct merge_base *bases, uint32_t entry, enum merge_base_kind kind,
                     const struct term *term);
/* All blobs of an entry, one after the other. */
uint32_t merge_base_blobs(const struct merge_base *bases, uint32_t entry);
uint32_t merge_base_next_blob(const struct merge_base *bases, uint32_t blob);
struct merge_base_blob merge_base_describe(const struct merge_base *bases, uint32_t blob);
/* Copies the blob's bytes to `out`, which has room for them; returns their number. */
size_t merge_base_read(const struct merge_base *bases, uint32_t blob, void *out);
/* Asserts the above of all entries. */
void merge_base_check_invariants(const struct merge_base *bases);

#endif
