/* items.c - queues of items in blocks; items.h draws them.
 *
 * A block is partly full at either end of a queue, and where queues were joined. What waits for any
 * link is joined of the queues of links, each of which was filled when that queue was empty, and is
 * taken from as soon as there is a link: so a pool has blocks for all its items and for three
 * partly full ones of each queue. Whoever joins more often may find no block, as if there were no
 * room.
 */
#include "client/lib/items.h"

#include <string.h>

#include "base/assert.h"

enum { PARTLY_FULL = 3 };
#define BLOCK_NONE UINT32_MAX

int client_items_init(struct client_items *items, const struct allocator *allocator,
                      size_t items_max, size_t queues_max)
{
    const size_t blocks =
        (items_max + CLIENT_BLOCK_ITEMS - 1) / CLIENT_BLOCK_ITEMS + PARTLY_FULL * queues_max;

    ASSERT(blocks < BLOCK_NONE);
    *items = (struct client_items){.allocator = allocator, .free = BLOCK_NONE, .room = items_max};
    items->blocks = alloc_array(allocator, blocks, sizeof *items->blocks);
    if (items->blocks == NULL)
        return TG_ENOMEM;
    items->block_count = (uint32_t)blocks;
    return 0;
}

void client_items_fini(struct client_items *items)
{
    if (items->blocks != NULL)
        alloc_put(items->allocator, items->blocks, items->block_count * sizeof *items->blocks);
    memset(items, 0, sizeof *items);
}

static uint32_t take_block(struct client_items *items)
{
    uint32_t number = items->free;

    if (number != BLOCK_NONE)
        items->free = items->blocks[number].next;
    else if (items->fresh < items->block_count)
        number = items->fresh++;
    else
        return BLOCK_NONE;
    ASSERT(number < items->fresh);
    items->blocks[number].begin = 0;
    items->blocks[number].end = 0;
    return number;
}

bool client_items_push(struct client_items *items, struct client_queue *queue,
                       struct client_item item)
{
    struct client_block *last;

    if (items->room == 0)
        return false;
    if (queue->count == 0 || items->blocks[queue->last].end == CLIENT_BLOCK_ITEMS) {
        const uint32_t number = take_block(items);

        if (number == BLOCK_NONE)
            return false;
        if (queue->count == 0)
            queue->first = number;
        else
            items->blocks[queue->last].next = number;
        queue->last = number;
    }
    last = &items->blocks[queue->last];
    last->items[last->end++] = item;
    ASSERT(last->end <= CLIENT_BLOCK_ITEMS && last->begin < last->end); /* ITEMS-3 */
    queue->count++;
    items->room--;
    return true;
}

bool client_items_pop(struct client_items *items, struct client_queue *queue,
                      struct client_item *item)
{
    struct client_block *first;

    if (queue->count == 0)
        return false;
    first = &items->blocks[queue->first];
    ASSERT(first->begin < first->end); /* ITEMS-3 */
    *item = first->items[first->begin++];
    queue->count--;
    items->room++;
    if (first->begin == first->end) {
        const uint32_t next = first->next; /* of no meaning behind the last */

        first->next = items->free;
        items->free = queue->first;
        queue->first = next;
    }
    return true;
}

void client_items_join(struct client_items *items, struct client_queue *to,
                       struct client_queue *from)
{
    ASSERT(to != from);
    if (from->count == 0)
        return;
    if (to->count == 0)
        to->first = from->first;
    else
        items->blocks[to->last].next = from->first;
    to->last = from->last;
    to->count += from->count;
    *from = (struct client_queue){.count = 0};
}

void client_items_check_invariants(const struct client_items *items,
                                   const struct client_queue *queue)
{
    uint32_t number = queue->first;
    uint32_t left = queue->count;

    while (left > 0) {
        INVARIANT("ITEMS-3", number < items->fresh);
        const struct client_block *block = &items->blocks[number];

        INVARIANT("ITEMS-3", block->begin < block->end && block->end <= CLIENT_BLOCK_ITEMS);
        INVARIANT("ITEMS-1", (uint32_t)(block->end - block->begin) <= left);
        left -= (uint32_t)(block->end - block->begin);
        INVARIANT("ITEMS-1", left > 0 || number == queue->last);
        number = block->next;
    }
    INVARIANT("ITEMS-2", items->fresh <= items->block_count);
}
