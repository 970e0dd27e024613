/* wire_ring.c - GET_RING's answer: who decides each vnode, and where its shard listens.
 *
 *   deciders  | u16 | u16 | u16 | ...      one per vnode: index into members, 0xffff unknown
 *                |
 *   members      +-> [node_id, name, [endpoint of shard 0, shard 1, ...]]
 *
 * The node evaluates the ring function, its terms and its stand-ins; a client only looks up. So
 * the function can change without a change of clients.
 *
 * RINGFRAME-1  The shard of vnode v on a member is v modulo the member's number of shards.
 * RINGFRAME-2  After a decode every decider is < member_count or WIRE_MEMBER_NONE, and every
 *              member's endpoints lie inside `endpoints`.
 */
#include "client/protocol/wire_ring.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "client/protocol/wire_field.h"

enum { RING_FIELDS = 8, MEMBER_FIELDS = 3 };

static_assert(64 + WIRE_VNODES_MAX * 2 + WIRE_MEMBERS_MAX * (1 + 9 + 2 + WIRE_NAME_MAX + 3) +
                      WIRE_ENDPOINTS_MAX * (2 + WIRE_ENDPOINT_LEN_MAX) <=
                  WIRE_MESSAGE_MAX,
              "a ring within its bounds fits in one message");

static bool ring_valid(const struct wire_ring *ring)
{
    if (ring->session == 0 || ring->member_count > WIRE_MEMBERS_MAX ||
        ring->endpoint_count > WIRE_ENDPOINTS_MAX || ring->vnode_count == 0 ||
        ring->vnode_count > WIRE_VNODES_MAX || (ring->vnode_count & (ring->vnode_count - 1)) != 0)
        return false;
    for (uint32_t i = 0; i < ring->member_count; i++) {
        const struct wire_ring_member *member = &ring->members[i];

        if (member->node_id == 0 || member->shard_count == 0 ||
            member->shard_count > WIRE_SHARDS_MAX ||
            member->endpoint_first > ring->endpoint_count ||
            member->shard_count > ring->endpoint_count - member->endpoint_first ||
            !wire_text_valid(member->name, 1, WIRE_NAME_MAX))
            return false;
    }
    for (uint32_t i = 0; i < ring->endpoint_count; i++) {
        if (!wire_text_valid(ring->endpoints[i], 1, WIRE_ENDPOINT_LEN_MAX))
            return false;
    }
    for (uint32_t v = 0; v < ring->vnode_count; v++) {
        const uint32_t decider = bytes_u16_at(ring->deciders, v);

        if (decider >= ring->member_count && decider != WIRE_MEMBER_NONE)
            return false;
    }
    return true;
}

int wire_encode_ring(const struct wire_ring *ring, void *out, size_t capacity)
{
    struct mp_writer writer;

    if (!ring_valid(ring))
        return TG_EINVALID;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_RING, RING_FIELDS);
    mp_put_uint(&writer, ring->session);
    mp_put_uint(&writer, ring->seq);
    mp_put_uint(&writer, ring->view_version);
    mp_put_uint(&writer, ring->epoch);
    mp_put_array(&writer, ring->member_count);
    for (uint32_t i = 0; i < ring->member_count; i++) {
        const struct wire_ring_member *member = &ring->members[i];

        mp_put_array(&writer, MEMBER_FIELDS);
        mp_put_uint(&writer, member->node_id);
        wire_put_text(&writer, member->name);
        mp_put_array(&writer, member->shard_count);
        for (uint32_t s = 0; s < member->shard_count; s++)
            wire_put_text(&writer, ring->endpoints[member->endpoint_first + s]);
    }
    mp_put_bin(&writer, ring->deciders, (size_t)ring->vnode_count * 2);
    return wire_put_end(&writer);
}

static void read_member(struct wire_reader *reader, struct wire_ring_space *space,
                        struct wire_ring_member *member, uint32_t *endpoint_count)
{
    const uint32_t fields = wire_read_array(reader, "member", MEMBER_FIELDS, UINT32_MAX);

    member->node_id = wire_read_uint(reader, "member.node_id", 1, UINT64_MAX);
    member->name = wire_read_text(reader, "member.name", 1, WIRE_NAME_MAX);
    member->endpoint_first = *endpoint_count;
    member->shard_count = wire_read_array(reader, "member.endpoints", 1, WIRE_SHARDS_MAX);
    if (member->shard_count > WIRE_ENDPOINTS_MAX - *endpoint_count)
        wire_reader_fail(reader, TG_ETOOBIG, "members: found more than %d endpoints",
                         WIRE_ENDPOINTS_MAX);
    for (uint32_t s = 0; s < member->shard_count && reader->status == 0; s++)
        space->endpoints[(*endpoint_count)++] =
            wire_read_text(reader, "member.endpoint", 1, WIRE_ENDPOINT_LEN_MAX);
    if (reader->status == 0)
        wire_read_extra(reader, fields - MEMBER_FIELDS);
}

static void read_deciders(struct wire_reader *reader, struct wire_ring *ring)
{
    size_t len;

    ring->deciders = wire_read_blob(reader, "deciders", &len);
    if (reader->status != 0)
        return;
    if (len % 2 != 0 || len == 0 || len / 2 > WIRE_VNODES_MAX || ((len / 2) & (len / 2 - 1)) != 0) {
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "deciders: found %zu bytes, expected two for each of 1 to %d vnodes, a "
                         "power of two",
                         len, WIRE_VNODES_MAX);
        return;
    }
    ring->vnode_count = (uint32_t)(len / 2);
    for (uint32_t v = 0; v < ring->vnode_count; v++) {
        const uint32_t decider = bytes_u16_at(ring->deciders, v);

        if (decider >= ring->member_count && decider != WIRE_MEMBER_NONE) {
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "deciders[%" PRIu32 "]: found %" PRIu32
                             ", expected a member's index below %" PRIu32 " or 65535",
                             v, decider, ring->member_count);
            return;
        }
    }
}

int wire_decode_ring(const void *frame, size_t len, struct wire_ring_space *space,
                     struct wire_ring *ring, char *error)
{
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_RING, RING_FIELDS, space->tokens,
                         WIRE_RING_TOKENS_MAX, error) != 0)
        return reader.status;
    ring->session = wire_read_uint(&reader, "session", 1, UINT64_MAX);
    ring->seq = wire_read_uint(&reader, "seq", 0, UINT64_MAX);
    ring->view_version = wire_read_uint(&reader, "view_version", 0, UINT64_MAX);
    ring->epoch = wire_read_uint(&reader, "epoch", 0, UINT64_MAX);
    ring->members = space->members;
    ring->endpoints = space->endpoints;
    ring->endpoint_count = 0;
    ring->vnode_count = 0;
    ring->member_count = wire_read_array(&reader, "members", 0, WIRE_MEMBERS_MAX);
    for (uint32_t i = 0; i < ring->member_count && reader.status == 0; i++)
        read_member(&reader, space, &space->members[i], &ring->endpoint_count);
    read_deciders(&reader, ring);
    return reader.status;
}

uint32_t wire_ring_decider(const struct wire_ring *ring, uint32_t vnode)
{
    ASSERT(vnode < ring->vnode_count);
    return bytes_u16_at(ring->deciders, vnode);
}

struct wire_text wire_ring_endpoint(const struct wire_ring *ring, uint32_t member, uint32_t vnode)
{
    ASSERT(member < ring->member_count && vnode < ring->vnode_count);
    const struct wire_ring_member *at = &ring->members[member];

    return ring->endpoints[at->endpoint_first + vnode % at->shard_count]; /* RINGFRAME-1 */
}
