/* span_ring.h - spans on their way from the thread of one shard to that of the exporter.
 *
 * SPANRING-1  Neither end waits: a full ring refuses, an empty one has nothing.
 *
 * One thread puts, one takes. */
#ifndef NODE_RUNTIME_TELEMETRY_SPAN_RING_H
#define NODE_RUNTIME_TELEMETRY_SPAN_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "node/gateway/trace/span.h"

enum { SPAN_RING_MAX = 2048 }; /* a power of two */

struct span_ring {
    _Atomic uint32_t put;   /* counted by whoever puts, */
    _Atomic uint32_t taken; /* and by whoever takes */
    struct trace_span spans[SPAN_RING_MAX];
};

/* False: it is full. */
bool span_ring_put(struct span_ring *ring, const struct trace_span *span);
/* The oldest one, which stays until span_ring_drop; NULL: there is none. */
const struct trace_span *span_ring_first(struct span_ring *ring);
void span_ring_drop(struct span_ring *ring);

#endif
