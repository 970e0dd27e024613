/* test_wire_ring.c - the ring as a client sees it: members, shards and leaders up to their bounds.
 */
#include "client/protocol/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct bench {
    struct wire_ring_member members[WIRE_MEMBERS_MAX];
    struct wire_text endpoints[WIRE_ENDPOINTS_MAX];
    char names[WIRE_ENDPOINTS_MAX][WIRE_ENDPOINT_LEN_MAX + 1];
    uint8_t deciders[WIRE_VNODES_MAX * 2];
    struct wire_ring_space space;
    uint8_t frame[WIRE_MESSAGE_MAX];
    char error[WIRE_ERROR_LEN];
};

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct bench));
    return *state != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* `members` members with `shards` endpoints each; vnode v is decided by v % members, but for
 * every seventh, which nobody decides. Every text is as long as `len` allows. */
static struct wire_ring make_ring(struct bench *b, uint32_t members, uint32_t shards,
                                  uint32_t vnodes, int len)
{
    for (uint32_t i = 0; i < members * shards; i++) {
        (void)snprintf(b->names[i], sizeof b->names[i], "%0*u:7600", len - 5, i);
        b->endpoints[i] = wire_text_of(b->names[i]);
    }
    for (uint32_t i = 0; i < members; i++) {
        b->members[i] = (struct wire_ring_member){
            UINT64_MAX - i,
            {b->names[i], len < WIRE_NAME_MAX ? (size_t)len : WIRE_NAME_MAX},
            i * shards,
            shards};
    }
    for (uint32_t v = 0; v < vnodes; v++) {
        const uint32_t leader = v % 7 == 6 ? WIRE_MEMBER_NONE : v % members;

        b->deciders[2 * v] = (uint8_t)leader;
        b->deciders[2 * v + 1] = (uint8_t)(leader >> 8);
    }
    return (struct wire_ring){.session = 1,
                              .seq = 2,
                              .view_version = 3,
                              .epoch = 4,
                              .member_count = members,
                              .endpoint_count = members * shards,
                              .members = b->members,
                              .endpoints = b->endpoints,
                              .vnode_count = vnodes,
                              .deciders = b->deciders};
}

static void round_trip(struct bench *b, uint32_t members, uint32_t shards, uint32_t vnodes, int len)
{
    const struct wire_ring ring = make_ring(b, members, shards, vnodes, len);
    struct wire_ring back;
    const int frame_len = wire_encode_ring(&ring, b->frame, sizeof b->frame);

    assert_true(frame_len > 0);
    assert_int_equal(wire_decode_ring(b->frame, (size_t)frame_len, &b->space, &back, b->error), 0);
    assert_int_equal(back.member_count, members);
    assert_int_equal(back.vnode_count, vnodes);
    assert_int_equal(back.epoch, 4);
    for (uint32_t v = 0; v < vnodes; v++) {
        const uint32_t leader = wire_ring_decider(&back, v);
        struct wire_text endpoint;

        if (v % 7 == 6) {
            assert_int_equal(leader, WIRE_MEMBER_NONE);
            continue;
        }
        assert_int_equal(leader, v % members);
        assert_true(back.members[leader].node_id == UINT64_MAX - leader);
        endpoint = wire_ring_endpoint(&back, leader, v);
        assert_int_equal(endpoint.len, len);
        assert_memory_equal(endpoint.data, b->names[leader * shards + v % shards], endpoint.len);
    }
}

/* The shard of vnode v on a member is v modulo its shards. */
static void rings_of_many_shapes_round_trip(void **state)
{
    round_trip(*state, 1, 1, 1, 10);
    round_trip(*state, 3, 1, 4096, 20);
    round_trip(*state, 10, 4, 4096, 20);
    round_trip(*state, 64, WIRE_SHARDS_MAX, 256, 20);
}

/* Everything at its bound at once still fits in one message, as the static_assert says. */
static void the_largest_ring_fits_in_one_message(void **state)
{
    round_trip(*state, WIRE_MEMBERS_MAX, WIRE_ENDPOINTS_MAX / WIRE_MEMBERS_MAX, WIRE_VNODES_MAX,
               WIRE_ENDPOINT_LEN_MAX);
}

/* What a decoder would refuse, the encoder refuses first. */
static void rings_out_of_bounds_are_refused(void **state)
{
    struct bench *b = *state;
    struct wire_ring ring = make_ring(b, 3, 2, 16, 20);

    ring.vnode_count = 15;
    assert_int_equal(wire_encode_ring(&ring, b->frame, sizeof b->frame), TG_EINVALID);
    ring.vnode_count = 16;
    b->deciders[0] = 3;
    assert_int_equal(wire_encode_ring(&ring, b->frame, sizeof b->frame), TG_EINVALID);
    b->deciders[0] = 2;
    assert_true(wire_encode_ring(&ring, b->frame, sizeof b->frame) > 0);
    b->members[2].shard_count = 3; /* one beyond the endpoints */
    assert_int_equal(wire_encode_ring(&ring, b->frame, sizeof b->frame), TG_EINVALID);
    b->members[2].shard_count = 0;
    assert_int_equal(wire_encode_ring(&ring, b->frame, sizeof b->frame), TG_EINVALID);
    b->members[2].shard_count = 2;
    b->members[0].node_id = 0;
    assert_int_equal(wire_encode_ring(&ring, b->frame, sizeof b->frame), TG_EINVALID);
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_bench(rings_of_many_shapes_round_trip),
        with_bench(the_largest_ring_fits_in_one_message),
        with_bench(rings_out_of_bounds_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
