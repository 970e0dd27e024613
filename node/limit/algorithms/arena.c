/* arena.c - see arena.h for the idea and the layout.
 *
 * A request is rounded up to its class before the search, so any block in the list that is found
 * fits: no list is ever walked. What is left of a block after a split goes back to its own list.
 */
#include "node/limit/algorithms/arena.h"

#include <stdbool.h>

#include "base/assert.h"

struct block {
    uint32_t size_free; /* granules << 1 | 1 if free */
    uint32_t below;     /* handle of the neighbour below, ARENA_NONE for the lowest */
    uint32_t next;      /* list links, of free blocks only */
    uint32_t prev;
};

static struct block *block_at(const struct arena *arena, uint32_t handle)
{
    return (struct block *)(void *)(arena->base + (size_t)handle * ARENA_GRANULE);
}

static uint32_t block_size(const struct block *block)
{
    return block->size_free >> 1;
}

static int block_free(const struct block *block)
{
    return (int)(block->size_free & 1);
}

/* The list of blocks of `size` granules: below 8 one list a size, above 8 a power of two. */
static unsigned list_of(uint32_t size)
{
    if (size < ARENA_SECOND)
        return size;
    const unsigned log2 = 31u - (unsigned)__builtin_clz(size);
    return (log2 - 2) * ARENA_SECOND + ((size >> (log2 - 3)) & (ARENA_SECOND - 1));
}

/* The smallest size that starts a list and is at least `size`: any block found there fits. */
static uint32_t size_rounded(uint32_t size)
{
    if (size < 2 * ARENA_SECOND)
        return size;
    const unsigned shift = 31u - (unsigned)__builtin_clz(size) - 3;
    const uint32_t mask = (1u << shift) - 1;
    return (size + mask) & ~mask;
}

static void list_push(struct arena *arena, uint32_t handle)
{
    struct block *block = block_at(arena, handle);
    const unsigned list = list_of(block_size(block));
    ASSERT(block_free(block) && block_size(block) > 0); /* ARENA-2 */
    block->prev = ARENA_NONE;
    block->next = arena->list[list];
    if (block->next != ARENA_NONE)
        block_at(arena, block->next)->prev = handle;
    arena->list[list] = handle;
    arena->lists_used[list / 64] |= 1ULL << (list % 64);
}

static void list_remove(struct arena *arena, uint32_t handle)
{
    const struct block *block = block_at(arena, handle);
    const unsigned list = list_of(block_size(block));
    ASSERT(block_free(block)); /* ARENA-2 */
    if (block->next != ARENA_NONE)
        block_at(arena, block->next)->prev = block->prev;
    if (block->prev != ARENA_NONE)
        block_at(arena, block->prev)->next = block->next;
    else
        arena->list[list] = block->next;
    if (arena->list[list] == ARENA_NONE)
        arena->lists_used[list / 64] &= ~(1ULL << (list % 64));
}

/* The first free block in a list at or above `list`, or ARENA_NONE. */
static uint32_t list_first(const struct arena *arena, unsigned list)
{
    for (unsigned word = list / 64; word < (ARENA_LISTS + 63) / 64; word++) {
        uint64_t bits = arena->lists_used[word];
        if (word == list / 64)
            bits &= ~0ULL << (list % 64);
        if (bits != 0)
            return arena->list[word * 64 + (unsigned)__builtin_ctzll(bits)];
    }
    return ARENA_NONE;
}

void arena_init(struct arena *arena, unsigned char *base, uint32_t end_granules)
{
    ASSERT(end_granules > 0 && (uintptr_t)base % ARENA_GRANULE == 0);
    *arena = (struct arena){.base = base, .end = end_granules, .low = end_granules};
}

/* Tells the block above (if any) who its neighbour below is. */
static void link_above(struct arena *arena, uint32_t handle)
{
    const uint32_t above = handle + block_size(block_at(arena, handle));
    if (above < arena->end)
        block_at(arena, above)->below = handle;
}

/* Frees a block that is in no list, merging it with free neighbours (ARENA-1). */
static void merge_and_push(struct arena *arena, uint32_t handle)
{
    struct block *block = block_at(arena, handle);
    uint32_t size = block_size(block);
    const uint32_t above = handle + size;
    if (above < arena->end && block_free(block_at(arena, above))) {
        size += block_size(block_at(arena, above));
        list_remove(arena, above);
    }
    if (block->below != ARENA_NONE && block_free(block_at(arena, block->below))) {
        handle = block->below;
        list_remove(arena, handle);
        block = block_at(arena, handle);
        size += block_size(block);
    }
    ASSERT(handle >= arena->low && handle + size <= arena->end); /* ARENA-1 */
    block->size_free = size << 1 | 1;
    link_above(arena, handle);
    list_push(arena, handle);
}

/* Grows downwards by at least `size` granules if the floor allows. */
static int arena_grow(struct arena *arena, uint32_t size)
{
    const uint32_t room = arena->low > arena->floor ? arena->low - arena->floor : 0;
    uint32_t step = size > ARENA_GROW_GRANULES ? size : ARENA_GROW_GRANULES;
    if (step > room)
        step = size;
    if (step > room || step >= arena->low)
        return 0;
    arena->low -= step;
    ASSERT(arena->low >= arena->floor && arena->low != ARENA_NONE);
    struct block *block = block_at(arena, arena->low);
    *block = (struct block){.size_free = step << 1, .below = ARENA_NONE};
    link_above(arena, arena->low);
    merge_and_push(arena, arena->low);
    return 1;
}

uint32_t arena_take(struct arena *arena, size_t len)
{
    const size_t granules = (len + ARENA_HEADER_LEN + ARENA_GRANULE - 1) / ARENA_GRANULE;
    if (granules >= 1u << 26)
        return ARENA_NONE;
    const uint32_t size = (uint32_t)granules;
    const uint32_t rounded = size_rounded(size);
    uint32_t handle = list_first(arena, list_of(rounded));
    if (handle == ARENA_NONE && arena_grow(arena, rounded))
        handle = list_first(arena, list_of(rounded));
    if (handle == ARENA_NONE)
        return ARENA_NONE;
    list_remove(arena, handle);
    struct block *block = block_at(arena, handle);
    ASSERT(block_free(block) && block_size(block) >= size); /* ARENA-2 */
    const uint32_t rest = block_size(block) - size;
    block->size_free = size << 1;
    if (rest > 0) {
        struct block *split = block_at(arena, handle + size);
        *split = (struct block){.size_free = rest << 1 | 1, .below = handle};
        link_above(arena, handle + size);
        list_push(arena, handle + size);
    }
    arena->used_bytes += (uint64_t)size * ARENA_GRANULE;
    return handle;
}

void arena_give(struct arena *arena, uint32_t handle)
{
    const struct block *block = block_at(arena, handle);
    ASSERT(handle >= arena->low && handle < arena->end && !block_free(block));
    ASSERT(arena->used_bytes >= (uint64_t)block_size(block) * ARENA_GRANULE); /* ARENA-3 */
    arena->used_bytes -= (uint64_t)block_size(block) * ARENA_GRANULE;
    merge_and_push(arena, handle);
}

/* ARENA-2: free blocks of a list, all of its size, chained both ways. How many. */
static uint32_t check_list(const struct arena *arena, unsigned list, uint32_t most)
{
    uint32_t count = 0;
    uint32_t before = ARENA_NONE;
    const bool used = (arena->lists_used[list / 64] >> list % 64 & 1) != 0;
    INVARIANT("ARENA-2", used == (arena->list[list] != ARENA_NONE));
    for (uint32_t at = arena->list[list]; at != ARENA_NONE; at = block_at(arena, at)->next) {
        INVARIANT("ARENA-2", at >= arena->low && at < arena->end && count < most);
        INVARIANT("ARENA-2", block_free(block_at(arena, at)));
        INVARIANT("ARENA-2", list_of(block_size(block_at(arena, at))) == list);
        INVARIANT("ARENA-2", block_at(arena, at)->prev == before);
        before = at;
        count++;
    }
    return count;
}

void arena_check(const struct arena *arena)
{
    uint64_t used = 0;
    uint32_t free = 0;
    uint32_t listed = 0;
    uint32_t below = ARENA_NONE;
    for (uint32_t handle = arena->low; handle < arena->end;) {
        const struct block *block = block_at(arena, handle);
        INVARIANT("ARENA-1", block_size(block) > 0 && block->below == below);
        if (block_free(block)) {
            INVARIANT("ARENA-1", below == ARENA_NONE || !block_free(block_at(arena, below)));
            free++;
        } else {
            used += (uint64_t)block_size(block) * ARENA_GRANULE;
        }
        below = handle;
        handle += block_size(block);
        INVARIANT("ARENA-1", handle <= arena->end);
    }
    for (unsigned list = 0; list < ARENA_LISTS; list++)
        listed += check_list(arena, list, free);
    INVARIANT("ARENA-2", listed == free);
    INVARIANT("ARENA-3", used == arena->used_bytes);
}
