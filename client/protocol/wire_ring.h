/* wire_ring.h - who decides what: RING. (GET_RING, which asks for it, is in wire_session.h.) */
#ifndef CLIENT_PROTOCOL_WIRE_RING_H
#define CLIENT_PROTOCOL_WIRE_RING_H

#include "base/mp.h"
#include "client/protocol/wire_base.h"

struct wire_ring_member {
    uint64_t node_id; /* non-zero */
    struct wire_text name;
    uint32_t endpoint_first; /* index into endpoints; shard s is endpoint_first + s */
    uint32_t shard_count;    /* 1 .. WIRE_SHARDS_MAX */
};

struct wire_ring {
    uint64_t session;
    uint64_t seq;
    uint64_t view_version;
    uint64_t epoch;
    uint32_t member_count; /* 0 .. WIRE_MEMBERS_MAX */
    uint32_t endpoint_count;
    const struct wire_ring_member *members;
    const struct wire_text *endpoints; /* "HOST:PORT" */
    uint32_t vnode_count;              /* power of two */
    const uint8_t *deciders;           /* vnode_count x u16 LE member index or WIRE_MEMBER_NONE */
};

enum { WIRE_RING_TOKENS_MAX = 16 + WIRE_MEMBERS_MAX * 4 + WIRE_ENDPOINTS_MAX + WIRE_EXTRA_TOKENS };

struct wire_ring_space { /* ~ 250 KiB */
    struct mp_token tokens[WIRE_RING_TOKENS_MAX];
    struct wire_ring_member members[WIRE_MEMBERS_MAX];
    struct wire_text endpoints[WIRE_ENDPOINTS_MAX];
};

MUST_USE int wire_encode_ring(const struct wire_ring *ring, void *out, size_t capacity);
MUST_USE int wire_decode_ring(const void *frame, size_t len, struct wire_ring_space *space,
                              struct wire_ring *ring, char *error);

/* Member index of the decider of `vnode` (< vnode_count), or WIRE_MEMBER_NONE. */
uint32_t wire_ring_decider(const struct wire_ring *ring, uint32_t vnode);
/* The endpoint of the shard that decides `vnode` on member `member` (< member_count). */
struct wire_text wire_ring_endpoint(const struct wire_ring *ring, uint32_t member, uint32_t vnode);

#endif
