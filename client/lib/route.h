/* route.h - to which endpoint a request goes: the ring as a table, and hints for attributes. Pure.
 *
 *   inline key --identity, route key--> vnode --\
 *                                                +--> table[vnode] = link number
 *   attributes --hash--> hints[...] = vnode  --/
 *
 * Not thread-safe.
 */
#ifndef CLIENT_LIB_ROUTE_H
#define CLIENT_LIB_ROUTE_H

#include "base/alloc.h"
#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/protocol/identity.h"
#include "client/protocol/wire.h"

enum {
    CLIENT_HINTS = 65536,      /* power of two */
    CLIENT_LINK_NONE = 0xffff, /* no link known: any will do */
};

struct client_hint {
    uint32_t hash; /* 0 = empty */
    uint32_t vnode;
};

struct client_route {
    const struct allocator *allocator;
    struct hash_key route_key;
    bool key_known;
    bool ring_known;
    uint32_t vnodes; /* of the ring, power of two */
    uint64_t view_version;
    uint16_t only; /* the link that all vnodes have, else CLIENT_LINK_NONE */
    struct client_hint *hints;
    struct identity *scratch;
    uint16_t table[WIRE_VNODES_MAX]; /* link number of each vnode's decider */
};

MUST_USE int client_route_init(struct client_route *route, const struct allocator *allocator);
void client_route_fini(struct client_route *route);
void client_route_key(struct client_route *route, const struct hash_key *key);
/* Takes over a ring; `endpoint_links[i]` is the number of the link to ring->endpoints[i], or
 * CLIENT_LINK_NONE. */
void client_route_ring(struct client_route *route, const struct wire_ring *ring,
                       const uint16_t *endpoint_links);
/* A hash of the names and values, never 0, to remember a vnode by. */
uint32_t client_route_hash(const tg_attribute_t *attributes, size_t count);
/* The link for an inline key, or CLIENT_LINK_NONE. */
uint16_t client_route_inline(struct client_route *route, const void *key, size_t key_len);
/* The link for whatever is asked, if the ring has one alone: then nothing need be hashed. Else
 * CLIENT_LINK_NONE. */
static inline uint16_t client_route_only(const struct client_route *route)
{
    return route->only;
}
/* The link for attributes of this hash, or CLIENT_LINK_NONE. */
uint16_t client_route_attributes(const struct client_route *route, uint32_t hash);
/* Remembers that attributes of this hash were decided at `vnode`. */
void client_route_learn(struct client_route *route, uint32_t hash, uint32_t vnode);

#endif
