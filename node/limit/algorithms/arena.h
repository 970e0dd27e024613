/* arena.h - blocks of any size in the upper end of the table's region.
 *
 * Two-level segregated fit: free blocks hang in lists by size class (8 classes a power of two), a
 * bitmap finds the first list that is sure to fit, neighbours merge at once. O(1), no copying, and
 * 8 bytes of overhead a block. The arena grows downwards, page by page, towards the slots.
 *
 *   | slots -->      floor |      low | block | block | ... | block | end
 *   block: | size << 1 | free bit, 4 B | block below, 4 B | payload ... |   sizes in granules of 16
 * B
 *
 * ARENA-1  Blocks tile [low, end) without a gap; no two free blocks touch.
 * ARENA-2  A free block is in exactly the list of its size.
 * ARENA-3  `used_bytes` is what the blocks in use take, their headers included.
 */
#ifndef NODE_LIMIT_ALGORITHMS_ARENA_H
#define NODE_LIMIT_ALGORITHMS_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum {
    ARENA_GRANULE = 16,
    ARENA_HEADER_LEN = 8,
    ARENA_GROW_GRANULES = 4096, /* 64 KiB a step */
    ARENA_FIRST = 30,           /* powers of two of granules */
    ARENA_SECOND = 8,
    ARENA_LISTS = ARENA_FIRST * ARENA_SECOND,
};

#define ARENA_NONE 0u

struct arena {
    unsigned char *base; /* of the region; handles are granules from here, never 0 */
    uint32_t end;        /* granules */
    uint32_t low;
    uint32_t floor; /* granules below which the arena must not grow now */
    uint64_t used_bytes;
    uint64_t lists_used[(ARENA_LISTS + 63) / 64];
    uint32_t list[ARENA_LISTS];
};

void arena_init(struct arena *arena, unsigned char *base, uint32_t end_granules);
/* A block for `len` bytes (not zeroed), or ARENA_NONE. Stays put until freed. */
uint32_t arena_take(struct arena *arena, size_t len);
void arena_give(struct arena *arena, uint32_t handle);
void arena_check(const struct arena *arena);

/* The payload, 8-aligned. */
static inline void *arena_at(const struct arena *arena, uint32_t handle)
{
    return arena->base + (size_t)handle * ARENA_GRANULE + ARENA_HEADER_LEN;
}

#endif
