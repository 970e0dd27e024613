/* h2_memory.c - blocks that know their length.
 *
 * H2MEMORY-1  `used` of a connection is the sum of its blocks, and that of all the sum of theirs.
 */
#include "node/gateway/http2/h2_memory.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"

/* In front of a block, which is then aligned for anything. */
struct head {
    size_t len; /* with the head */
    size_t unused;
};

static_assert(sizeof(struct head) % _Alignof(max_align_t) == 0, "a block is aligned");

static struct head *head_of(void *block)
{
    return (struct head *)block - 1;
}

void *h2_memory_get(struct h2_memory *memory, size_t len, size_t kept)
{
    const size_t whole = len + sizeof(struct head);
    if (whole < len || memory->used + kept > H2_MEMORY_EACH ||
        whole > H2_MEMORY_EACH - kept - memory->used || whole > H2_MEMORY_MAX - memory->all->used)
        return NULL;
    struct head *head = alloc_get(memory->all->allocator, whole);
    if (head == NULL)
        return NULL;
    head->len = whole;
    memory->used += whole; /* H2MEMORY-1 */
    memory->all->used += whole;
    return head + 1;
}

void h2_memory_put(struct h2_memory *memory, void *block)
{
    if (block == NULL)
        return;
    struct head *head = head_of(block);
    ASSERT(memory->used >= head->len && memory->all->used >= memory->used); /* H2MEMORY-1 */
    memory->used -= head->len;
    memory->all->used -= head->len;
    alloc_put(memory->all->allocator, head, head->len);
}

void *h2_memory_grow(struct h2_memory *memory, void *block, size_t len, size_t kept)
{
    void *bigger = h2_memory_get(memory, len, kept);
    if (bigger == NULL || block == NULL)
        return bigger;
    const size_t had = head_of(block)->len - sizeof(struct head);
    memcpy(bigger, block, had < len ? had : len);
    h2_memory_put(memory, block);
    return bigger;
}
