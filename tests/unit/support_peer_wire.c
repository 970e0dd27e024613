/* support_peer_wire.c - see support_peer_wire.h. */
#include "tests/unit/support_peer_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const uint8_t peer_wire_state[5] = {9, 8, 7, 6, 5};
const struct hash128 peer_wire_id = {.lo = 0x11, .hi = 0x2200000000000000};

const struct elastic_report peer_wire_report = {
    .pool = 0xf0000001,
    .guaranteed = UINT64_MAX,
    .borrowed = 31,
    .count = {2, 0, 1},
    .shares = {{{32, 33}, {34, UINT64_MAX}}, {{0, 0}}, {{UINT32_MAX, 35}}},
};

const struct peer_pool_origin peer_wire_origin = {
    .home = 0x1122334455667788, .node = UINT64_MAX, .shard = 0xfffe, .sent_ns = INT64_MAX};

const struct peer_pool_level peer_wire_level = {
    .pool = 0xf0000002,
    .level = {.level = {41, 42, FAIR_SHARE_RATE_MAX}, .budget = 43, .budget_open = 44, .spare = 45},
    .guaranteed = 46,
    .borrowed = 47,
    .load_ppm = 48,
};

const struct peer_reservation peer_wire_reservation = {
    .tag = 51,
    .age_ms = 52,
    .limit_index = 53,
    .claims = 54,
    .attempts = 2,
    .names = {55, 0xfffe},
    .granted = 56,
    .seq = UINT64_MAX,
    .fold = 59,
    .count = PEER_LIMITS_MAX,
    .marks = {{57, INT64_MAX, 58, false}, {UINT64_MAX, 0, UINT32_MAX, true}},
};

size_t peer_wire_put_change(struct bytes_writer *writer)
{
    const struct peer_written written = {
        .vnode = PEER_WIRE_VNODE,
        .term = {.epoch = 3, .number = ((uint64_t)1 << 62) - 1, .writer = UINT64_MAX},
        .sync = 39,
        .copy = true,
        .begins = true,
    };
    return peer_put_change(writer, &written, peer_wire_id, peer_wire_state, sizeof peer_wire_state);
}

int peer_wire_next(const void *data, size_t len, uint32_t vnodes, struct peer_record *record)
{
    uint8_t *copy = malloc(len + 1);
    struct bytes_reader reader;

    assert_non_null(copy);
    memcpy(copy + 1, data, len);
    bytes_reader_init(&reader, copy + 1, len);
    const int result = peer_next(&reader, vnodes, record);
    free(copy);
    return result;
}

static void put_firsts(struct bytes_writer *writer)
{
    static const struct peer_first plain_first = {.tag = 40,
                                                  .granted = UINT32_MAX,
                                                  .age_ms = 41,
                                                  .attempt = 42,
                                                  .limit_index = 0x80 | (PEER_LIMITS_MAX - 1),
                                                  .flags = FIRST_ALLOWED | FIRST_SEVERAL};
    static const struct peer_first quorum_first = {
        .tag = UINT64_MAX, .seq = 43, .flags = FIRST_ALLOWED | FIRST_SEQ};
    const size_t at = peer_put_firsts(writer, PEER_WIRE_VNODE);
    peer_put_first(writer, &plain_first);
    peer_put_first(writer, &quorum_first);
    peer_end_firsts(writer, at);
}

struct forward peer_wire_global(void)
{
    struct forward forward = {
        .ticket = 0xfedcba9876543210,
        .retry = {.session = 11, .seq = 12, .item = 13, .part = 14},
        .operation = OPERATION_CHECK,
        .limit_count = PEER_LIMITS_MAX,
        .vnode = 63,
        .cost = UINT64_MAX,
        .home = 0x8877665544332211,
        .wait_ms = PEER_WAIT_MAX_MS,
    };
    for (uint32_t i = 0; i < PEER_LIMITS_MAX; i++) {
        forward.ids[i] = (struct hash128){.lo = i, .hi = ~(uint64_t)i};
        forward.limits[i] = (struct limit){
            .count = 10U + i, .window_ns = 1000000000, .algorithm = ALGORITHM_FIXED_WINDOW};
    }
    return forward;
}

void peer_wire_put_remote(struct bytes_writer *writer, uint8_t type, const struct answer *answer)
{
    const struct forward forward = peer_wire_global();
    struct peer_pool_level level = peer_wire_level;
    level.echo_ns = 49;
    if (type == PEER_REMOTE_POOL_REPORT)
        peer_put_pool_report(writer, &peer_wire_origin, &peer_wire_report, 36, 37);
    else if (type == PEER_REMOTE_POOL_LEVEL)
        peer_put_pool_level(writer, &level);
    else if (type == PEER_FIRSTS)
        put_firsts(writer);
    else if (type == PEER_FORWARD_GLOBAL)
        peer_put_forward(writer, &forward);
    else if (type == PEER_REMOTE_PING)
        peer_put_remote_ping(writer, 38, 0);
    else if (type == PEER_REMOTE_ASK)
        peer_put_remote_ask(writer, &forward);
    else
        peer_put_remote_answer(writer, 39, answer);
}

void peer_wire_assert_guards_equal(const struct guard *a, const struct guard *b)
{
    assert_int_equal(a->overflowed, b->overflowed);
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(term_compare(&a->cuts[i].term, &b->cuts[i].term), 0);
        assert_true(a->cuts[i].seq == b->cuts[i].seq);
    }
}
