/* h2_memory.h - the heap of connections of HTTP/2: counted and bounded, for each and for all.
 *
 * libnghttp2 asks for memory as streams and header tables come, so a block tells its own length.
 * Not for other threads than that of the connections.
 */
#ifndef NODE_GATEWAY_HTTP2_H2_MEMORY_H
#define NODE_GATEWAY_HTTP2_H2_MEMORY_H

#include <stddef.h>

#include "base/alloc.h"

enum {
    H2_MEMORY_EACH = 4 << 20, /* bytes of a connection, */
    H2_MEMORY_KEPT = 1 << 20, /* of which so many are for the protocol itself */
    H2_MEMORY_MAX = 128 << 20 /* of all of a loop */
};

/* Of all connections of a loop. */
struct h2_memories {
    const struct allocator *allocator;
    size_t used;
};

/* Of one. */
struct h2_memory {
    struct h2_memories *all;
    size_t used;
};

/* Zeroed bytes; NULL: a bound is reached, or there is no memory. `kept` bytes
 * are left for the protocol itself, which says with them what is refused for want of others: it is
 * H2_MEMORY_KEPT, or 0 for what is that. */
void *h2_memory_get(struct h2_memory *memory, size_t len, size_t kept);
/* Takes back what h2_memory_get or _grow gave, or NULL. */
void h2_memory_put(struct h2_memory *memory, void *block);
/* A block of that length with what the other one had, which is taken back; NULL: it is not. */
void *h2_memory_grow(struct h2_memory *memory, void *block, size_t len, size_t kept);

#endif
