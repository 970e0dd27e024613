/* alloc.c - the heap behind the allocator interface, and a heap that fails on request.
 *
 * ALLOC-1  A block comes zeroed, so that a forgotten field is 0 and not a secret of the last owner.
 * ALLOC-2  A request for 0 bytes gives a block of its own, never NULL: NULL always means
 *          exhaustion.
 * ALLOC-3  The failing allocator's bytes_live is the sum of what was got and not yet put.
 *
 * A large block asks the system for huge pages: slots are met in no order, and with pages of 4 KiB
 * nearly each meeting costs a walk of the page table, in a virtual machine two of them nested.
 * Nothing depends on being granted them.
 *
 * Nothing else in the product calls malloc, calloc, realloc or free for its own state.
 */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/assert.h"

enum {
    HUGE_PAGE = 2 << 20,
    HUGE_FROM = 4 * HUGE_PAGE, /* blocks of so many bytes ask for huge pages */
};

/* Of whole huge pages inside the block alone: what lies around them is others'. */
static void ask_for_huge_pages(void *block, size_t bytes)
{
    ASSERT(bytes >= HUGE_FROM); /* or no whole huge page is in it */
    const size_t ahead = (HUGE_PAGE - (uintptr_t)block % HUGE_PAGE) % HUGE_PAGE;
    const size_t len = (bytes - ahead) / HUGE_PAGE * HUGE_PAGE;
    ASSERT(ahead + len <= bytes);
    (void)madvise((char *)block + ahead, len, MADV_HUGEPAGE);
}

static void *heap_get(void *context, size_t bytes)
{
    (void)context;
    void *block = calloc(1, bytes == 0 ? 1 : bytes);
    if (block != NULL && bytes >= HUGE_FROM)
        ask_for_huge_pages(block, bytes);
    return block;
}

static void heap_put(void *context, void *block, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(block);
}

static const struct allocator heap = {.get = heap_get, .put = heap_put, .context = NULL};

const struct allocator *alloc_heap(void)
{
    return &heap;
}

void *alloc_array(const struct allocator *allocator, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return alloc_get(allocator, bytes);
}

static void *failing_get(void *context, size_t bytes)
{
    struct alloc_failing *failing = context;

    failing->requests++;
    if (failing->requests == failing->fail_at)
        return NULL;
    void *block = heap_get(NULL, bytes);
    if (block != NULL)
        failing->bytes_live += bytes;
    return block;
}

static void failing_put(void *context, void *block, size_t bytes)
{
    struct alloc_failing *failing = context;

    if (block == NULL)
        return;
    /* More bytes back than went out means that an owner misremembers its size. */
    ASSERT(failing->bytes_live >= bytes);
    failing->bytes_live -= bytes;
    free(block);
}

void alloc_failing_init(struct alloc_failing *failing, size_t fail_at)
{
    *failing = (struct alloc_failing){
        .allocator = {.get = failing_get, .put = failing_put, .context = failing},
        .fail_at = fail_at,
    };
}
