/* side_table.h - what a guarding vnode remembers of a slot: what it was, and what was merged in.
 *
 * When a slot of a guarding vnode (guard.h) changes for the first time since the newest cut, the
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
 * E1  An entry is reached by its id, and by the list of its vnode, or is not in use.
 * E2  An entry has at most one blob of a kind and term.
 * E3  A put that is refused has changed nothing.
 */
#ifndef NODE_CLUSTER_RECONCILE_SIDE_TABLE_H
#define NODE_CLUSTER_RECONCILE_SIDE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/pool.h"
#include "node/cluster/model/side_blob.h"
#include "node/cluster/model/term.h"

#define SIDE_NONE POOL_NONE

struct side_table {
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
MUST_USE int side_init(struct side_table *side, const struct allocator *allocator, size_t bytes,
                       uint32_t vnodes);
void side_fini(struct side_table *side);

/* The entry of `id`, or SIDE_NONE. */
uint32_t side_find(const struct side_table *side, struct hash128 id);
/* The entry of `id`, made if there is none; SIDE_NONE without room. */
uint32_t side_add(struct side_table *side, uint32_t vnode, struct hash128 id);
void side_remove(struct side_table *side, uint32_t entry);
void side_remove_vnode(struct side_table *side, uint32_t vnode);
/* The entries of a vnode, one after the other; SIDE_NONE at the end. */
uint32_t side_first(const struct side_table *side, uint32_t vnode);
uint32_t side_next(const struct side_table *side, uint32_t entry);
struct hash128 side_id(const struct side_table *side, uint32_t entry);
/* How many blobs the entry has, and their bytes. */
uint32_t side_count(const struct side_table *side, uint32_t entry, size_t *bytes);
/* A mark that the owner sets, 0 at first. */
uint32_t side_stamp(const struct side_table *side, uint32_t entry);
void side_set_stamp(struct side_table *side, uint32_t entry, uint32_t stamp);

/* Keeps blob->len bytes (0 is allowed) in place of what was kept of that kind and term. 0 or
 * TG_EFULL. */
MUST_USE int side_put(struct side_table *side, uint32_t entry, const struct side_blob *blob,
                      const void *bytes);
/* The blob of that kind and term, or SIDE_NONE. */
uint32_t side_blob(const struct side_table *side, uint32_t entry, enum side_kind kind,
                   const struct term *term);
void side_drop(struct side_table *side, uint32_t entry, enum side_kind kind,
               const struct term *term);
/* All blobs of an entry, one after the other. */
uint32_t side_blobs(const struct side_table *side, uint32_t entry);
uint32_t side_next_blob(const struct side_table *side, uint32_t blob);
struct side_blob side_describe(const struct side_table *side, uint32_t blob);
/* Copies the blob's bytes to `out`, which has room for them; returns their number. */
size_t side_read(const struct side_table *side, uint32_t blob, void *out);

#endif
