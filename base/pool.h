/* pool.h - a bounded pool of equal elements, addressed by small indexes.
 *
 * All memory is taken at init; get and put are O(1) and never allocate. An index
 * (32 bits) instead of a pointer keeps the tables that refer to elements compact.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define POOL_NONE UINT32_MAX

struct pool {
    const struct allocator *allocator;
    unsigned char *elements;
    uint32_t *next_free;
    size_t element_len;
    uint32_t capacity;
    uint32_t used;
    uint32_t first_free;
};

/* Takes memory for `capacity` elements of `element_len` bytes. 0 or TG_ENOMEM. */
MUST_USE int pool_init(struct pool *pool, const struct allocator *allocator, size_t element_len,
                       uint32_t capacity);
void pool_fini(struct pool *pool);
/* A free element's index with its bytes zeroed, or POOL_NONE when all are in use. */
uint32_t pool_get(struct pool *pool);
void pool_put(struct pool *pool, uint32_t index);
/* Whether `index` names an element that is in use; any number is allowed. */
bool pool_in_use(const struct pool *pool, uint32_t index);
/* The element; valid until it is put back. `index` must be in use. */
void *pool_at(const struct pool *pool, uint32_t index);
/* Asserts that the chain and the marks agree; for tests, O(capacity). */
void pool_check_invariants(const struct pool *pool);

#endif
