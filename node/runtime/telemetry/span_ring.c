/* span_ring.c - see span_ring.h. */
#include "node/runtime/telemetry/span_ring.h"

#include <assert.h>

#include "base/assert.h"

static_assert((SPAN_RING_MAX & (SPAN_RING_MAX - 1)) == 0, "counts may wrap");

bool span_ring_put(struct span_ring *ring, const struct trace_span *span)
{
    const uint32_t put = atomic_load_explicit(&ring->put, memory_order_relaxed);
    const uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
    if (put - taken == SPAN_RING_MAX)
        return false; /* SPANRING-1 */
    ring->spans[put % SPAN_RING_MAX] = *span;
    atomic_store_explicit(&ring->put, put + 1, memory_order_release);
    return true;
}

const struct trace_span *span_ring_first(struct span_ring *ring)
{
    const uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    if (atomic_load_explicit(&ring->put, memory_order_acquire) == taken)
        return NULL;
    return &ring->spans[taken % SPAN_RING_MAX];
}

void span_ring_drop(struct span_ring *ring)
{
    const uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    ASSERT(atomic_load_explicit(&ring->put, memory_order_acquire) != taken);
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
}
