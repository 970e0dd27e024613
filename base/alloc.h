/* alloc.h - the one way to heap memory, so that a test can make the Nth request fail.
 *
 * Nothing on the check, gossip or forwarding paths allocates: the stateful cores take
 * an allocator at init and keep what they got. Blocks come zeroed.
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

struct allocator {
    /* Returns `bytes` zeroed bytes or NULL. */
    void *(*get)(void *context, size_t bytes);
    /* Takes back a block of `bytes` bytes; NULL is allowed. */
    void (*put)(void *context, void *block, size_t bytes);
    void *context;
};

/* The process heap. Static storage, any thread. */
const struct allocator *alloc_heap(void);

static inline void *alloc_get(const struct allocator *allocator, size_t bytes)
{
    return allocator->get(allocator->context, bytes);
}

static inline void alloc_put(const struct allocator *allocator, void *block, size_t bytes)
{
    allocator->put(allocator->context, block, bytes);
}

/* `count` zeroed elements of `size` bytes, NULL on overflow or exhaustion. */
void *alloc_array(const struct allocator *allocator, size_t count, size_t size);

/* An allocator over the heap that fails its `fail_at`-th request (1 = the first; 0 = never)
 * and counts what is outstanding, so that tests can prove both clean failure and no leak. */
struct alloc_failing {
    struct allocator allocator;
    size_t fail_at;
    size_t requests;
    size_t bytes_live;
};
void alloc_failing_init(struct alloc_failing *failing, size_t fail_at);

#endif
