/* resp_queue.c - bytes of commands that wait for EXEC.
 *
 * RESPQUEUE-1  at <= len <= capacity <= RESP_QUEUE_MAX, and `total` is the sum of the capacities.
 */
#include "node/gateway/resp_queue.h"

#include <string.h>

#include "base/assert.h"

enum { CAPACITY_MIN = 1 << 10 };

static int grow(struct resp_queues *queues, struct resp_queue *queue, uint32_t capacity)
{
    const size_t more = capacity - queue->capacity;
    const bool granted = capacity <= RESP_QUEUE_ALWAYS || queues->total + more <= RESP_QUEUES_MAX;
    char *bytes = granted ? alloc_get(queues->allocator, capacity) : NULL;
    if (bytes == NULL)
        return TG_EBUSY;
    if (queue->len > 0)
        memcpy(bytes, queue->bytes, queue->len);
    alloc_put(queues->allocator, queue->bytes, queue->capacity);
    queue->bytes = bytes;
    queue->capacity = capacity;
    queues->total += more; /* RESPQUEUE-1 */
    return 0;
}

int resp_queue_put(struct resp_queues *queues, struct resp_queue *queue, const char *data,
                   size_t len)
{
    ASSERT(queue->at <= queue->len && queue->len <= queue->capacity);
    if (len > RESP_QUEUE_MAX - queue->len || queue->count == RESP_QUEUED_MAX)
        return TG_EFULL;
    const uint32_t need = queue->len + (uint32_t)len;
    uint32_t capacity = queue->capacity > 0 ? queue->capacity : CAPACITY_MIN;
    while (capacity < need)
        capacity *= 2;
    const int error = capacity > queue->capacity ? grow(queues, queue, capacity) : 0;
    if (error != 0)
        return error;
    memcpy(queue->bytes + queue->len, data, len);
    queue->len = need;
    queue->count++;
    return 0;
}

void resp_queue_drop(struct resp_queues *queues, struct resp_queue *queue)
{
    ASSERT(queues->total >= queue->capacity); /* RESPQUEUE-1 */
    queues->total -= queue->capacity;
    alloc_put(queues->allocator, queue->bytes, queue->capacity);
    *queue = (struct resp_queue){.bytes = NULL};
}
