/* route.c - the ring as a table, and hints for attributes.
 *
 * A client cannot know which rules match its attributes, but the same attributes meet the same
 * rules, so it remembers where they were decided. The hints are a direct-mapped cache: a
 * collision or a changed rule only costs one hop, for every node answers everything.
 *
 * ROUTE-1  Every number in `table` came from endpoint_links or is CLIENT_LINK_NONE.
 * ROUTE-2  A hint is used only if its vnode is inside the present ring.
 * ROUTE-3  `only` is what all of `table` is, or CLIENT_LINK_NONE. While it is a link no hint is
 *          learned; so the first requests after a second one decides some may cost a hop.
 */
#include "client/lib/route.h"

#include <string.h>

int client_route_init(struct client_route *route, const struct allocator *allocator)
{
    memset(route, 0, sizeof *route);
    route->allocator = allocator;
    route->only = CLIENT_LINK_NONE;
    route->hints = alloc_array(allocator, CLIENT_HINTS, sizeof *route->hints);
    route->scratch = alloc_get(allocator, sizeof *route->scratch);
    if (route->hints != NULL && route->scratch != NULL)
        return 0;
    client_route_fini(route);
    return TG_ENOMEM;
}

void client_route_fini(struct client_route *route)
{
    if (route->allocator == NULL)
        return;
    alloc_put(route->allocator, route->hints, CLIENT_HINTS * sizeof *route->hints);
    alloc_put(route->allocator, route->scratch, sizeof *route->scratch);
    memset(route, 0, sizeof *route);
}

void client_route_key(struct client_route *route, const struct hash_key *key)
{
    route->route_key = *key;
    route->key_known = true;
}

void client_route_ring(struct client_route *route, const struct wire_ring *ring,
                       const uint16_t *endpoint_links)
{
    for (uint32_t vnode = 0; vnode < ring->vnode_count; vnode++) {
        const uint32_t index = wire_ring_decider(ring, vnode);
        const struct wire_ring_member *member;

        route->table[vnode] = CLIENT_LINK_NONE;
        if (index == WIRE_MEMBER_NONE)
            continue;
        member = &ring->members[index];
        route->table[vnode] = endpoint_links[member->endpoint_first + vnode % member->shard_count];
    }
    route->only = route->table[0];
    for (uint32_t vnode = 1; vnode < ring->vnode_count; vnode++)
        if (route->table[vnode] != route->only)
            route->only = CLIENT_LINK_NONE; /* ROUTE-3 */
    route->vnodes = ring->vnode_count;
    route->view_version = ring->view_version;
    route->ring_known = true;
}

/* Eight bytes at a time: this is a cache's hash, nobody gains by a collision. */
static uint64_t mix_bytes(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *at = data;
    uint64_t word;

    hash = (hash ^ len) * 0x9e3779b97f4a7c15ULL;
    for (; len >= 8; len -= 8, at += 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    word = 0;
    if (len != 0)
        memcpy(&word, at, len);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 32;
}

uint32_t client_route_hash(const tg_attribute_t *attributes, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++) {
        const tg_attribute_t *attribute = &attributes[i];
        const size_t len =
            attribute->value_len == TG_STRLEN ? strlen(attribute->value) : attribute->value_len;

        hash = mix_bytes(hash, attribute->name, strlen(attribute->name));
        hash = mix_bytes(hash, attribute->value, len);
    }
    hash = hash_mix64(hash);
    return (uint32_t)hash != 0 ? (uint32_t)hash : 1;
}

uint16_t client_route_inline(struct client_route *route, const void *key, size_t key_len)
{
    if (!route->ring_known || !route->key_known ||
        identity_inline(route->scratch, key, key_len) != 0)
        return CLIENT_LINK_NONE;
    return route->table[identity_vnode(&route->route_key, route->scratch, route->vnodes)];
}

uint16_t client_route_attributes(const struct client_route *route, uint32_t hash)
{
    const struct client_hint *hint = &route->hints[hash & (CLIENT_HINTS - 1)];

    if (!route->ring_known || hint->hash != hash || hint->vnode >= route->vnodes)
        return CLIENT_LINK_NONE; /* ROUTE-2 */
    return route->table[hint->vnode];
}

void client_route_learn(struct client_route *route, uint32_t hash, uint32_t vnode)
{
    if (hash != 0 && vnode != WIRE_VNODE_NONE)
        route->hints[hash & (CLIENT_HINTS - 1)] = (struct client_hint){hash, vnode};
}
