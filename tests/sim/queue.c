/* queue.c - the pending events, a binary heap ordered by (time, order of making). */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

static bool before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void queue_push(struct queue *queue, const struct event *event)
{
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity == 0 ? 1024 : queue->capacity * 2;
        queue->items = realloc(queue->items, queue->capacity * sizeof *queue->items);
        ASSERT(queue->items != NULL);
    }
    size_t at = queue->count++;
    struct event added = *event;
    added.order = queue->order++;
    while (at > 0 && before(&added, &queue->items[(at - 1) / 2])) {
        queue->items[at] = queue->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->items[at] = added;
}

bool queue_pop(struct queue *queue, struct event *event)
{
    if (queue->count == 0)
        return false;
    *event = queue->items[0];
    const struct event last = queue->items[--queue->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= queue->count)
            break;
        if (child + 1 < queue->count && before(&queue->items[child + 1], &queue->items[child]))
            child++;
        if (!before(&queue->items[child], &last))
            break;
        queue->items[at] = queue->items[child];
        at = child;
    }
    if (queue->count > 0)
        queue->items[at] = last;
    return true;
}

void queue_fini(struct queue *queue)
{
    for (size_t i = 0; i < queue->count; i++)
        free(queue->items[i].bytes);
    free(queue->items);
    memset(queue, 0, sizeof *queue);
}
