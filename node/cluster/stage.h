/* stage.h - slots put together by their vnodes, before they are written.
 *
 * What is on disk of a vnode is a few packed chunks, and a batch that holds some slots of a vnode
 * rewrites all of its chunks (storage/chunk.h). Slots become dirty in any order, and batches in
 * that order would rewrite nearly everything each time. So the dirty slots are dealt out to groups
 * of vnodes first, and taken group by group:
 *
 *   put: 7 2 9 4 1 ...  --order-->  group 0: 2 1    --take-->  | 2 1 7 | 9 4 ...
 *                                   group 1: 7 9 4               batch   batch
 *
 * Fixed blocks of refs (node/limit/table.h), no more than `max`; to put them in order is one pass
 * over them, in as many portions as the caller likes.
 *
 * Pure; on the caller's memory, by one thread.
 */
#ifndef NODE_CLUSTER_STAGE_H
#define NODE_CLUSTER_STAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum { STAGE_GROUPS = 4096 };

struct stage {
    const struct allocator *allocator;
    uint64_t *put;     /* in the order in which they came */
    uint16_t *groups;  /* of each of these */
    uint64_t *ordered; /* by groups */
    uint32_t max;
    uint32_t filled;
    uint32_t dealt;            /* of these, in `ordered` */
    uint32_t left;             /* not taken yet */
    uint32_t at[STAGE_GROUPS]; /* slots of the group; once they are put in order, its next place */
};

static_assert(STAGE_GROUPS - 1 <= UINT16_MAX, "a group fits its field");

/* 0 or TG_ENOMEM. `max` > 0. */
MUST_USE int stage_init(struct stage *stage, const struct allocator *allocator, uint32_t max);
void stage_fini(struct stage *stage);
/* Forgets all. */
void stage_clear(struct stage *stage);
static inline bool stage_full(const struct stage *stage)
{
    return stage->filled == stage->max;
}
/* Adds a slot of `vnode`, of `vnodes`; not when it is full, nor after stage_order. */
void stage_put(struct stage *stage, uint64_t slot, uint32_t vnode, uint32_t vnodes);
/* Puts up to `most` more slots in order. True when all are: then they may be taken, and no more is
 * put until the stage is cleared. */
MUST_USE bool stage_order(struct stage *stage, uint32_t most);
/* The next slot, of which there is one left at least. Those of a group follow one another. */
uint64_t stage_take(struct stage *stage);
/* Whether more than `skip` are left: then the slot that is taken after these. */
bool stage_peek(const struct stage *stage, uint32_t skip, uint64_t *slot);

#endif
