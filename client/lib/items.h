/* items.h - queues of items that are not part of a message yet. Pure.
 *
 *   queue --> | . . i i i i | --> | i i | --> | i i i i . . |      blocks of one pool
 *               begin                                end
 *
 * What is asked waits first where no link was chosen, then at its link. Items come and go by the
 * thousand and to several links, so a list of single ones would soon lie in no order, and each step
 * along it would wait for memory: blocks keep what is next side by side.
 *
 * ITEMS-1  A queue gives items back in the order in which they were added or joined.
 * ITEMS-2  All queues of a pool together hold so many items as it was made for, and no more.
 * ITEMS-3  An empty queue holds no block; a queue that is all zero is empty.
 *
 * Not thread-safe.
 */
#ifndef CLIENT_LIB_ITEMS_H
#define CLIENT_LIB_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

struct client_call;

enum {
    CLIENT_BLOCK_ITEMS = 63,
    CLIENT_ITEMS_AHEAD = 8, /* so far ahead memory is asked for what an item is about */
};

/* One request of a call. */
struct client_item {
    struct client_call *call;
    uint32_t index; /* of the request */
    uint32_t hint;  /* hash of its attributes; 0 = inline, or nothing to choose by it */
};

struct client_block {
    struct client_item items[CLIENT_BLOCK_ITEMS];
    uint32_t next;
    uint16_t begin;
    uint16_t end;
};

struct client_items {
    const struct allocator *allocator;
    struct client_block *blocks;
    uint32_t block_count;
    uint32_t fresh; /* blocks from here on were never used */
    uint32_t free;  /* list of others that are */
    size_t room;    /* items that may still be added */
};

struct client_queue {
    uint32_t first; /* block; of no meaning while there are no items */
    uint32_t last;
    uint32_t count; /* of items */
};

/* For `items_max` items in `queues_max` queues. 0 or TG_ENOMEM; client_items_fini in either case.
 */
MUST_USE int client_items_init(struct client_items *items, const struct allocator *allocator,
                               size_t items_max, size_t queues_max);
void client_items_fini(struct client_items *items);
/* False, and nothing is done, if there is no room. */
MUST_USE bool client_items_push(struct client_items *items, struct client_queue *queue,
                                struct client_item item);
/* False if the queue is empty. */
MUST_USE bool client_items_pop(struct client_items *items, struct client_queue *queue,
                               struct client_item *item);
/* All of `from` comes behind `to`; `from` is empty then. */
void client_items_join(struct client_items *items, struct client_queue *to,
                       struct client_queue *from);

/* Asserts that the queue's blocks hold what it counts; for tests. */
void client_items_check_invariants(const struct client_items *items,
                                   const struct client_queue *queue);

/* The item that will be popped after `ahead` others, to ask memory for what it is about; NULL if it
 * is not in the first two blocks. */
static inline const struct client_item *client_items_soon(const struct client_items *items,
                                                          const struct client_queue *queue,
                                                          uint32_t ahead)
{
    if (queue->count == 0)
        return NULL;
    const struct client_block *block = &items->blocks[queue->first];
    uint32_t at = block->begin + ahead;
    if (at >= block->end && queue->first != queue->last) {
        at -= block->end;
        block = &items->blocks[block->next];
        at += block->begin;
    }
    return at < block->end ? &block->items[at] : NULL;
}

#endif
