/* grpc_arena.h - memory of decoded messages: a block that is filled from its beginning, and
 * forgotten as a whole when the next request is decoded.
 *
 * Pure. The thread of the connections.
 */
#ifndef NODE_GATEWAY_GRPC_GRPC_ARENA_H
#define NODE_GATEWAY_GRPC_GRPC_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRPC_ARENA_LEN = 1 << 21 };

struct grpc_arena {
    ProtobufCAllocator allocator; /* what is freed stays until the reset */
    size_t used;
    bool full; /* something had no room */
    _Alignas(16) uint8_t bytes[GRPC_ARENA_LEN];
};

void grpc_arena_reset(struct grpc_arena *arena);

#endif
