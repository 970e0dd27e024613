/* pool.c - equal elements in one block, free ones chained by index.
 *
 *   elements   | 0 | 1 | 2 | 3 | ...          first_free = 2
 *   next_free  | * | * | 3 | N | ...          * in use,  N = POOL_NONE, the end of the chain
 *
 * POOL-1  An index is either in the free chain or marked POOL_IN_USE, never both.
 * POOL-2  used = number of marks; capacity - used = length of the chain.
 * POOL-3  An element's bytes are zero when it is handed out.
 *
 * The chain lies beside the elements and not inside them, so that putting one back twice or
 * reading one after it was put back is caught by an assertion instead of corrupting the chain.
 * Not thread-safe: a pool belongs to the thread of its owner.
 */
#include "base/pool.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"

#define POOL_IN_USE (UINT32_MAX - 1)
static_assert(POOL_IN_USE != POOL_NONE, "a mark is not the end of the chain");

int pool_init(struct pool *pool, const struct allocator *allocator, size_t element_len,
              uint32_t capacity)
{
    ASSERT(element_len > 0 && capacity < POOL_IN_USE);
    *pool = (struct pool){
        .allocator = allocator,
        .element_len = element_len,
        .capacity = capacity,
        .first_free = capacity == 0 ? POOL_NONE : 0,
    };
    pool->elements = alloc_array(allocator, capacity, element_len);
    pool->next_free = alloc_array(allocator, capacity, sizeof(*pool->next_free));
    if (pool->elements == NULL || pool->next_free == NULL) {
        pool_fini(pool);
        return TG_ENOMEM;
    }
    for (uint32_t i = 0; i < capacity; i++)
        pool->next_free[i] = i + 1 == capacity ? POOL_NONE : i + 1;
    return TG_OK;
}

void pool_fini(struct pool *pool)
{
    ASSERT(pool->elements != NULL || pool->used == 0);
    if (pool->elements != NULL)
        alloc_put(pool->allocator, pool->elements, pool->capacity * pool->element_len);
    if (pool->next_free != NULL)
        alloc_put(pool->allocator, pool->next_free, pool->capacity * sizeof(*pool->next_free));
    *pool = (struct pool){.first_free = POOL_NONE};
}

static unsigned char *element_at(const struct pool *pool, uint32_t index)
{
    return pool->elements + (size_t)index * pool->element_len;
}

uint32_t pool_get(struct pool *pool)
{
    const uint32_t index = pool->first_free;

    if (index == POOL_NONE)
        return POOL_NONE;
    ASSERT(index < pool->capacity && pool->used < pool->capacity); /* POOL-2 */
    pool->first_free = pool->next_free[index];
    pool->next_free[index] = POOL_IN_USE;
    pool->used++;
    memset(element_at(pool, index), 0, pool->element_len);
    return index;
}

void pool_put(struct pool *pool, uint32_t index)
{
    ASSERT(pool->used > 0); /* POOL-2 */
    ASSERT(index < pool->capacity && pool->next_free[index] == POOL_IN_USE);
    pool->next_free[index] = pool->first_free;
    pool->first_free = index;
    pool->used--;
}

bool pool_in_use(const struct pool *pool, uint32_t index)
{
    return index < pool->capacity && pool->next_free[index] == POOL_IN_USE;
}

void *pool_at(const struct pool *pool, uint32_t index)
{
    ASSERT(index < pool->capacity && pool->next_free[index] == POOL_IN_USE);
    return element_at(pool, index);
}

void pool_check_invariants(const struct pool *pool)
{
    uint32_t marked = 0;
    uint32_t free = 0;

    for (uint32_t i = 0; i < pool->capacity; i++)
        marked += pool->next_free[i] == POOL_IN_USE;
    for (uint32_t at = pool->first_free; at != POOL_NONE; at = pool->next_free[at]) {
        INVARIANT("POOL-1", at < pool->capacity && pool->next_free[at] != POOL_IN_USE);
        free++;
        INVARIANT("POOL-2", free <= pool->capacity);
    }
    INVARIANT("POOL-2", pool->used == marked && pool->capacity - marked == free);
}
