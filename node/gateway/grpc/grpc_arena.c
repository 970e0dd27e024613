/* grpc_arena.c - an allocator for protobuf-c that only goes forward. */
#include "node/gateway/grpc/grpc_arena.h"

enum { ALIGN = 16 };

static void *take(void *context, size_t len)
{
    struct grpc_arena *arena = context;
    const size_t whole = (len + ALIGN - 1) / ALIGN * ALIGN;
    if (whole < len || whole > GRPC_ARENA_LEN - arena->used) {
        arena->full = true;
        return NULL;
    }
    void *block = arena->bytes + arena->used;
    arena->used += whole;
    return block;
}

static void put(void *context, void *block)
{
    (void)context;
    (void)block;
}

void grpc_arena_reset(struct grpc_arena *arena)
{
    arena->allocator = (ProtobufCAllocator){.alloc = take, .free = put, .allocator_data = arena};
    arena->used = 0;
    arena->full = false;
}
