/* chunks.c - memory taken piece by piece and given back whole. See chunks.h for the idea.
 *
 * Small pieces are cut from the newest block; a piece too large for the rest of it opens a new
 * one. The tail that is left behind is the price of never searching: at most one piece per block.
 */
#include "node/policy/model/chunks.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"

struct chunks_block {
    struct chunks_block *next;
    size_t len;  /* of the whole block, this header included */
    size_t used; /* from the block's start */
};

enum {
    HEADER_LEN = (sizeof(struct chunks_block) + CHUNKS_ALIGN - 1) / CHUNKS_ALIGN * CHUNKS_ALIGN
};
static_assert(CHUNKS_BLOCK_LEN > 4 * HEADER_LEN, "a block is mostly pieces");

void chunks_init(struct chunks *chunks, const struct allocator *allocator, size_t taken_max)
{
    ASSERT(allocator != NULL);
    *chunks = (struct chunks){.allocator = allocator, .taken_max = taken_max};
}

void chunks_fini(struct chunks *chunks)
{
    while (chunks->first != NULL) {
        struct chunks_block *block = chunks->first;
        ASSERT(block->used <= block->len && block->len <= chunks->taken);
        chunks->taken -= block->len;
        chunks->first = block->next;
        alloc_put(chunks->allocator, block, block->len);
    }
    ASSERT(chunks->taken == 0); /* CHUNKS-2 */
}

/* Puts a block with room for `bytes` in front. NULL when memory or the maximum is exhausted. */
static struct chunks_block *grow(struct chunks *chunks, size_t bytes)
{
    const size_t needed = HEADER_LEN + bytes;
    const size_t len = needed > CHUNKS_BLOCK_LEN ? needed : CHUNKS_BLOCK_LEN;
    ASSERT(chunks->taken <= chunks->taken_max); /* CHUNKS-2 */

    if (len > chunks->taken_max - chunks->taken)
        return NULL; /* CHUNKS-2 */
    struct chunks_block *block = alloc_get(chunks->allocator, len);
    if (block == NULL)
        return NULL;
    *block = (struct chunks_block){.next = chunks->first, .len = len, .used = HEADER_LEN};
    chunks->first = block;
    chunks->taken += len;
    return block;
}

void *chunks_get(struct chunks *chunks, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + CHUNKS_ALIGN) / CHUNKS_ALIGN * CHUNKS_ALIGN; /* never zero; CHUNKS-1 */
    struct chunks_block *block = chunks->first;
    if (block == NULL || bytes > block->len - block->used)
        block = grow(chunks, bytes);
    if (block == NULL)
        return NULL;
    void *piece = (char *)block + block->used;
    block->used += bytes;
    ASSERT(block->used <= block->len && block->used % CHUNKS_ALIGN == 0); /* CHUNKS-1 */
    return piece;
}

char *chunks_copy(struct chunks *chunks, const char *text, size_t len)
{
    char *copy = chunks_get(chunks, len + 1, 1);

    if (copy != NULL && len > 0)
        memcpy(copy, text, len); /* the piece is zeroed, so the NUL is there */
    return copy;
}
