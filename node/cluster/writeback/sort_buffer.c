/* sort_buffer.c - slots by groups of vnodes, by counting; sort_buffer.h tells what for. Pure. */
#include "node/cluster/writeback/sort_buffer.h"

#include <string.h>

#include "base/assert.h"

int sort_buffer_init(struct sort_buffer *buffer, const struct allocator *allocator, uint32_t max,
                     uint32_t vnodes)
{
    ASSERT(max > 0 && vnodes > 0 && vnodes - 1 <= UINT16_MAX);
    memset(buffer, 0, sizeof *buffer);
    buffer->allocator = allocator;
    buffer->max = max;
    buffer->scale = ((uint64_t)SORT_BUFFER_GROUPS << 32) / vnodes;
    buffer->put = alloc_array(allocator, max, sizeof *buffer->put);
    buffer->vnodes = alloc_array(allocator, max, sizeof *buffer->vnodes);
    buffer->ordered = alloc_array(allocator, max, sizeof *buffer->ordered);
    if (buffer->put != NULL && buffer->vnodes != NULL && buffer->ordered != NULL)
        return 0;
    sort_buffer_fini(buffer);
    return TG_ENOMEM;
}

void sort_buffer_fini(struct sort_buffer *buffer)
{
    if (buffer->allocator == NULL)
        return;
    alloc_put(buffer->allocator, buffer->put, buffer->max * sizeof *buffer->put);
    alloc_put(buffer->allocator, buffer->vnodes, buffer->max * sizeof *buffer->vnodes);
    alloc_put(buffer->allocator, buffer->ordered, buffer->max * sizeof *buffer->ordered);
    memset(buffer, 0, sizeof *buffer);
}

void sort_buffer_clear(struct sort_buffer *buffer)
{
    buffer->filled = 0;
    buffer->dealt = 0;
    buffer->left = 0;
    memset(buffer->at, 0, sizeof buffer->at);
}

/* Ascending with the vnodes; one of its own for each while there are no more of them than groups.
 */
static uint32_t group_of(const struct sort_buffer *buffer, uint32_t vnode)
{
    return (uint32_t)(vnode * buffer->scale >> 32);
}

void sort_buffer_put(struct sort_buffer *buffer, const struct table_write *writes,
                     const uint16_t *vnodes, uint32_t count)
{
    ASSERT(count <= sort_buffer_room(buffer) && buffer->dealt == 0 &&
           buffer->left == buffer->filled);
    memcpy(buffer->put + buffer->filled, writes, count * sizeof *writes);
    memcpy(buffer->vnodes + buffer->filled, vnodes, count * sizeof *vnodes);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t group = group_of(buffer, vnodes[i]);
        ASSERT(group < SORT_BUFFER_GROUPS);
        buffer->at[group]++;
    }
    buffer->filled += count;
    buffer->left += count;
}

/* Counts become places. */
static void begin_order(struct sort_buffer *buffer)
{
    uint32_t sum = 0;
    for (uint32_t group = 0; group < SORT_BUFFER_GROUPS; group++) {
        const uint32_t count = buffer->at[group];
        buffer->at[group] = sum;
        sum += count;
    }
    ASSERT(sum == buffer->filled);
}

bool sort_buffer_order(struct sort_buffer *buffer, uint32_t most)
{
    ASSERT(buffer->dealt <= buffer->filled); /* SORTBUFFER-1 */
    ASSERT(buffer->left == buffer->filled);
    if (buffer->dealt == 0)
        begin_order(buffer);
    const uint32_t rest = buffer->filled - buffer->dealt;
    const uint32_t end = buffer->dealt + (most < rest ? most : rest);
    for (uint32_t i = buffer->dealt; i < end; i++)
        buffer->ordered[buffer->at[group_of(buffer, buffer->vnodes[i])]++] = buffer->put[i];
    buffer->dealt = end;
    return end == buffer->filled;
}

struct table_write *sort_buffer_rest(const struct sort_buffer *buffer)
{
    return buffer->ordered + (buffer->filled - buffer->left);
}

void sort_buffer_take(struct sort_buffer *buffer, uint32_t count)
{
    ASSERT(buffer->dealt == buffer->filled); /* SORTBUFFER-1 */
    ASSERT(count <= buffer->left);
    buffer->left -= count;
}

void sort_buffer_check_invariants(const struct sort_buffer *buffer)
{
    INVARIANT("SORTBUFFER-1", buffer->dealt <= buffer->filled && buffer->filled <= buffer->max);
    INVARIANT("SORTBUFFER-1", buffer->left <= buffer->filled);
    INVARIANT("SORTBUFFER-1", buffer->left == buffer->filled || buffer->dealt == buffer->filled);
    for (uint32_t group = 1; group < SORT_BUFFER_GROUPS && buffer->dealt == buffer->filled; group++)
        INVARIANT("SORTBUFFER-2",
                  buffer->filled == 0 || buffer->at[group - 1] <= buffer->at[group]);
}
