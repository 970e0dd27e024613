/* sort_buffer.h - slots put together by their vnodes, before they are written.
 *
 * What is on disk of a vnode is a few packed chunks, and a batch that holds some slots of a vnode
 * rewrites all of its chunks (storage/chunk.h). Slots become dirty in any order, and batches in
 * that order would rewrite nearly everything each time. So the dirty slots are dealt out to groups
 * of vnodes first, and taken group by group:
 *
 *   put: 7 2 9 4 1 ...  --order-->  group 0: 2 1    --take-->  | 2 1 7 | 9 4 ...
 *                                   group 1: 7 9 4               batch   batch
 *
 * Fixed blocks of the writes that the table has begun, no more than `max`; to put them in order is
 * one pass over them, in as many portions as the caller likes. A batch is a stretch of what is in
 * order, and stays where it lies until slots are put again.
 *
 * SORTBUFFER-1  dealt <= filled <= max, and no more is left than was put. Only when all is in order
 *               something is taken.
 * SORTBUFFER-2  When all is in order, each group ends where the next one begins.
 *
 * Pure; on the caller's memory, by one thread.
 */
#ifndef NODE_CLUSTER_WRITEBACK_SORT_BUFFER_H
#define NODE_CLUSTER_WRITEBACK_SORT_BUFFER_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/limit/table/table.h"

enum { SORT_BUFFER_GROUPS = 4096 };

struct sort_buffer {
    const struct allocator *allocator;
    struct table_write *put;     /* in the order in which they came */
    uint16_t *vnodes;            /* of each of these */
    struct table_write *ordered; /* by groups */
    uint64_t scale;              /* a vnode's group: by so much, over 2^32 */
    uint32_t max;
    uint32_t filled;
    uint32_t dealt; /* of these, in `ordered` */
    uint32_t left;  /* not taken yet */
    uint32_t
        at[SORT_BUFFER_GROUPS]; /* slots of the group; once they are put in order, its next place */
};

/* For slots of vnodes 0 .. vnodes - 1. 0 or TG_ENOMEM. `max` > 0. */
MUST_USE int sort_buffer_init(struct sort_buffer *buffer, const struct allocator *allocator,
                              uint32_t max, uint32_t vnodes);
void sort_buffer_fini(struct sort_buffer *buffer);
/* Forgets all. */
void sort_buffer_clear(struct sort_buffer *buffer);
static inline uint32_t sort_buffer_room(const struct sort_buffer *buffer)
{
    return buffer->max - buffer->filled;
}
/* Adds slots and their vnodes, no more than there is room for; not after sort_buffer_order. */
void sort_buffer_put(struct sort_buffer *buffer, const struct table_write *writes,
                     const uint16_t *vnodes, uint32_t count);
/* Puts up to `most` more slots in order. True when all are: then they may be taken, and no more is
 * put until the stage is cleared. */
MUST_USE bool sort_buffer_order(struct sort_buffer *buffer, uint32_t most);
/* The slots that are left, `left` of them. Those of a group follow one another. */
struct table_write *sort_buffer_rest(const struct sort_buffer *buffer);
/* The next `count` of these are taken. */
void sort_buffer_take(struct sort_buffer *buffer, uint32_t count);
/* Asserts the above. */
void sort_buffer_check_invariants(const struct sort_buffer *buffer);

#endif
