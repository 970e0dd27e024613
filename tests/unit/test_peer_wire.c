/* test_peer_wire.c - records between shards read back as written, and hostile frames are refused.
 * One function, put_record, writes a record of each type with distinct values in all fields; the
 * tests of truncation and mutation start from those bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp.h"
#include "base/random.h"
#include "tests/unit/support_peer_wire.h"

enum { VNODES = 64, VNODE = 63, BUFFER_LEN = 16384, LIMIT_LEN = 44, FORWARD_COUNT_AT = 42 };

/* Initialisers, since one constant cannot start with the value of another in C11. */
#define TERM_LAST (((uint64_t)1 << 62) - 1) /* the last epoch or number that can be honest */
#define NEWEST                                                                                     \
    {                                                                                              \
        .epoch = 3, .number = TERM_LAST, .writer = UINT64_MAX                                      \
    }
#define OLDER                                                                                      \
    {                                                                                              \
        .epoch = TERM_LAST, .number = 8, .writer = 0x123456                                        \
    }

static const struct term newest = NEWEST;
static const struct term older = OLDER;

static const struct peer_ping ping = {
    .sent_ns = INT64_MAX,
    .echo_ns = 5,
    .opened = 0x1122334455667788,
    .announced = 0x99aabbcc,
    .patience_ms = 0xddeeff01,
    .process = 0xa1a2a3a4a5a6a7a8,
    .announces = true,
};

static const struct answer answer = {
    .status = ANSWER_BUSY,
    .allowed = true,
    .soft = true,
    .borrowed = true,
    .held = true,
    .limit_index = 7,
    .limit = 100,
    .used = 60,
    .remaining = 40,
    .granted = UINT64_MAX,
    .reset_after_ns = 123456789,
    .retry_after_ns = -1,
    .delay_ns = INT64_MIN,
};

static const struct peer_vnode entry = {
    .vnode = VNODE,
    .role = ROLE_PASSING,
    .term = NEWEST,
    .state = OLDER,
    .seq = 0x0102030405060708,
    .sync = 0xfffefdfc,
    .asks = true,
};

static struct forward make_forward(uint8_t limit_count)
{
    struct forward forward = {
        .ticket = 0xfedcba9876543210,
        .retry = {.session = 11, .seq = 12, .item = 0xabcd, .part = 14 | RETRY_UNDO},
        .flags = FORWARD_AT_MOST | FORWARD_RETRY,
        .operation = OPERATION_REFUND,
        .limit_count = limit_count,
        .attempt = 0x1234,
        .vnode = VNODE,
        .cost = UINT64_MAX,
    };
    for (uint8_t i = 0; i < limit_count; i++) {
        const bool elastic = i % 2 == 0 && i % ALGORITHM_COUNT != ALGORITHM_CONCURRENCY;
        forward.ids[i] = (struct hash128){.lo = i, .hi = ~(uint64_t)i};
        forward.limits[i] = (struct limit){
            .count = 10U + i,
            .window_ns = 1000000000ULL * (i + 1),
            .burst = limit_has_burst(i % ALGORITHM_COUNT) ? 20U + i : 0,
            .buckets = i % ALGORITHM_COUNT == ALGORITHM_SLIDING_BUCKETS ? 30 : 0,
            .algorithm = i % ALGORITHM_COUNT,
            .ordinal = i / ALGORITHM_COUNT,
            .exceed_percent = i % 2 * 100,
            .pool = elastic ? 0xfffffff0 + i : 0,
            .weight = elastic ? 1000 - i : 0,
            .ceiling_percent = elastic ? 100000 - i : 0,
            .class = elastic ? i / 2 % LIMIT_CLASSES : 0,
        };
    }
    return forward;
}

static const struct guard guard = {
    .count = 2,
    .overflowed = true,
    .cuts = {{{7, 8, 9}, 10}, {{1, 2, 3}, UINT64_MAX}},
};
static const struct peer_apart apart = {
    .vnode = VNODE,
    .to = {11, 12, 13},
    .state = {14, 15, 16},
    .seq = 17,
    .sync = 18,
    .guard = {.count = 1, .cuts = {{{19, 20, 21}, 22}}},
};
static const struct side_blob base_blob = {
    .kind = SIDE_BASE, .term = {1, 2, 3}, .seq = 4, .len = sizeof peer_wire_state};
static const struct side_blob empty_blob = {
    .kind = SIDE_CONTRIBUTION, .term = {5, 6, 7}, .seq = UINT64_MAX};

static const struct peer_state states[PEER_LIMITS_MAX] = {
    {true, 100, 60, 40, 123456789, 0},
    {false, UINT64_MAX, 1, 2, INT64_MAX, -1},
};

static void put_record(struct bytes_writer *writer, uint8_t type)
{
    const struct forward forward = make_forward(PEER_LIMITS_MAX);

    switch ((enum peer_record_type)type) {
    case PEER_PING:
        peer_put_ping(writer, &ping);
        break;
    case PEER_FORWARD:
        peer_put_forward(writer, &forward);
        break;
    case PEER_ANSWER:
        peer_put_answer(writer, 21, &answer);
        break;
    case PEER_MOVED:
        peer_put_moved(writer, 22, VNODE, &newest);
        break;
    case PEER_STREAM:
        peer_put_stream(writer, 23, 24, 25);
        break;
    case PEER_ACK:
        peer_put_ack(writer, 26, 27, true, true);
        break;
    case PEER_TERM:
        peer_put_term(writer, VNODE, &newest, 28, true, true);
        break;
    case PEER_SLOT:
        peer_put_slot(writer, VNODE, peer_wire_id, peer_wire_state, sizeof peer_wire_state);
        break;
    case PEER_CHANGE:
        peer_mark_change(writer, peer_wire_put_change(writer), 38);
        break;
    case PEER_DIVERGED:
        peer_put_diverged(writer, VNODE, peer_wire_id, peer_wire_state, sizeof peer_wire_state);
        break;
    case PEER_GUARD:
        peer_put_guard(writer, VNODE, &guard);
        break;
    case PEER_APART:
        peer_put_apart(writer, &apart);
        break;
    case PEER_SIDE:
        peer_put_side(writer, VNODE, peer_wire_id, 2);
        peer_put_blob(writer, &base_blob, peer_wire_state);
        peer_put_blob(writer, &empty_blob, NULL);
        break;
    case PEER_EXPLAIN:
        peer_put_explain(writer, 29, states, PEER_LIMITS_MAX);
        break;
    case PEER_POOL_REPORT:
        peer_put_pool_report(writer, NULL, &peer_wire_report, 36, 37);
        break;
    case PEER_POOL_LEVEL:
        peer_put_pool_level(writer, &peer_wire_level);
        break;
    case PEER_RESERVED:
        peer_put_reserved(writer, VNODE, &newest, &older, &peer_wire_reservation);
        break;
    case PEER_FORWARD_GLOBAL:
    case PEER_REMOTE_PING:
    case PEER_REMOTE_ASK:
    case PEER_REMOTE_ANSWER:
    case PEER_REMOTE_POOL_REPORT:
    case PEER_REMOTE_POOL_LEVEL:
    case PEER_FIRSTS:
        peer_wire_put_remote(writer, type, &answer);
        break;
    default:
        peer_put_vnode(writer, (enum peer_record_type)type, &entry);
    }
}

/* The bytes of one record of `type`, in `data`; returns their number. */
static size_t record_bytes(uint8_t type, uint8_t data[BUFFER_LEN])
{
    struct bytes_writer writer;

    bytes_writer_init(&writer, data, BUFFER_LEN);
    put_record(&writer, type);
    assert_false(writer.failed);
    return writer.len;
}

static int next_of(const uint8_t *data, size_t len, struct peer_record *record)
{
    return peer_wire_next(data, len, VNODES, record);
}

static int next_of_forward(const struct forward *forward)
{
    uint8_t data[BUFFER_LEN];
    struct bytes_writer writer;
    struct peer_record record;

    bytes_writer_init(&writer, data, sizeof data);
    peer_put_forward(&writer, forward);
    assert_false(writer.failed);
    return next_of(data, writer.len, &record);
}

static void assert_term_equal(struct term a, struct term b)
{
    assert_int_equal(term_compare(&a, &b), 0);
}

/* A ping tells the time, and whether an announcement of terms is missing. */
static void a_ping_reads_back_as_written(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    const size_t len = record_bytes(PEER_PING, data);
    assert_int_equal(next_of(data, len, &record), 1);
    assert_int_equal(record.type, PEER_PING);
    assert_true(record.ping.sent_ns == INT64_MAX);
    assert_true(record.ping.echo_ns == 5);
    assert_true(record.ping.opened == ping.opened);
    assert_int_equal(record.ping.announced, ping.announced);
    assert_int_equal(record.ping.patience_ms, ping.patience_ms);
    assert_true(record.ping.process == ping.process);
    for (uint32_t flags = 0; flags < 256; flags++) {
        const struct peer_ping each = {.resigning = flags & 1,
                                       .announces = flags & 2,
                                       .asks = flags & 4,
                                       .deaf = flags & 8,
                                       .reserves = flags & 16,
                                       .leases = flags & 32,
                                       .changes = flags & 64,
                                       .versions = flags & 128};
        struct bytes_writer writer;
        bytes_writer_init(&writer, data, sizeof data);
        peer_put_ping(&writer, &each);
        assert_int_equal(next_of(data, writer.len, &record), 1);
        assert_int_equal(record.ping.resigning, each.resigning);
        assert_int_equal(record.ping.announces, each.announces);
        assert_int_equal(record.ping.asks, each.asks);
        assert_int_equal(record.ping.deaf, each.deaf);
        assert_int_equal(record.ping.reserves, each.reserves);
        assert_int_equal(record.ping.leases, each.leases);
        assert_int_equal(record.ping.changes, each.changes);
        assert_int_equal(record.ping.versions, each.versions);
    }
}

/* Times before 1970 are refused: their difference from another one might not be a number. */
static void a_ping_of_an_impossible_time_is_refused(void **state)
{
    const struct peer_ping bad[] = {{.sent_ns = -1}, {.echo_ns = -1}, {.sent_ns = INT64_MIN}};
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct bytes_writer writer;
        bytes_writer_init(&writer, data, sizeof data);
        peer_put_ping(&writer, &bad[i]);
        assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    }
}

/* The leader must decide by the very limits that the entry node resolved. */
static void a_forward_reads_back_as_written_with_any_number_of_limits(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    for (uint8_t count = 1; count <= PEER_LIMITS_MAX; count++) {
        struct forward sent = make_forward(count);
        const struct forward *got = &record.forward;
        struct bytes_writer writer;
        sent.rules = count % 2 == 0 ? UINT64_MAX - count : 0;
        sent.class = count % 4 == 0 ? UINT16_MAX - count : 0;
        bytes_writer_init(&writer, data, sizeof data);
        peer_put_forward(&writer, &sent);
        assert_int_equal(next_of(data, writer.len, &record), 1);
        assert_int_equal(record.type, PEER_FORWARD);
        assert_true(got->ticket == sent.ticket);
        assert_true(got->retry.session == 11 && got->retry.seq == 12);
        assert_true(got->retry.item == 0xabcd && got->retry.part == sent.retry.part);
        assert_int_equal(got->flags, sent.flags);
        assert_int_equal(got->operation, OPERATION_REFUND);
        assert_int_equal(got->attempt, 0x1234);
        assert_true(got->rules == sent.rules);
        assert_int_equal(got->class, sent.class);
        assert_int_equal(got->vnode, VNODE);
        assert_true(got->cost == UINT64_MAX);
        assert_int_equal(got->limit_count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(hash128_equal(got->ids[i], sent.ids[i]));
            assert_true(got->limits[i].count == sent.limits[i].count);
            assert_true(got->limits[i].window_ns == sent.limits[i].window_ns);
            assert_true(got->limits[i].burst == sent.limits[i].burst);
            assert_int_equal(got->limits[i].algorithm, sent.limits[i].algorithm);
            assert_int_equal(got->limits[i].ordinal, sent.limits[i].ordinal);
            assert_int_equal(got->limits[i].exceed_percent, sent.limits[i].exceed_percent);
            assert_int_equal(got->limits[i].pool, sent.limits[i].pool);
            assert_int_equal(got->limits[i].weight, sent.limits[i].weight);
            assert_int_equal(got->limits[i].ceiling_percent, sent.limits[i].ceiling_percent);
            assert_int_equal(got->limits[i].class, sent.limits[i].class);
        }
    }
}

/* The entry node shows these numbers to its client as if it had decided itself. */
static void an_answer_reads_back_as_written(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    const struct answer *got = &record.answer.answer;

    (void)state;
    assert_int_equal(next_of(data, record_bytes(PEER_ANSWER, data), &record), 1);
    assert_int_equal(record.type, PEER_ANSWER);
    assert_int_equal(record.answer.ticket, 21);
    assert_int_equal(got->status, ANSWER_BUSY);
    assert_true(got->allowed);
    assert_false(got->degraded);
    assert_true(got->soft && got->borrowed && got->held);
    assert_int_equal(got->limit_index, 7);
    assert_int_equal(got->limit, 100);
    assert_int_equal(got->used, 60);
    assert_int_equal(got->remaining, 40);
    assert_true(got->granted == UINT64_MAX);
    assert_true(got->reset_after_ns == 123456789);
    assert_true(got->retry_after_ns == -1);
    assert_true(got->delay_ns == INT64_MIN);
    const struct answer degraded = {.degraded = true};
    struct bytes_writer writer;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_answer(&writer, 1, &degraded);
    assert_int_equal(next_of(data, writer.len, &record), 1);
    assert_true(got->degraded);
    assert_false(got->allowed);
    assert_false(got->soft || got->borrowed || got->held);
}

/* What every limit of a part met is shown as if it had been met here. */
static void an_explanation_reads_back_as_written(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    assert_int_equal(next_of(data, record_bytes(PEER_EXPLAIN, data), &record), 1);
    assert_int_equal(record.type, PEER_EXPLAIN);
    assert_int_equal(record.explain.ticket, 29);
    assert_int_equal(record.explain.count, PEER_LIMITS_MAX);
    for (uint32_t i = 0; i < PEER_LIMITS_MAX; i++) {
        const struct peer_state *got = &record.explain.states[i];
        assert_int_equal(got->allowed, states[i].allowed);
        assert_true(got->limit == states[i].limit && got->used == states[i].used);
        assert_true(got->remaining == states[i].remaining);
        assert_true(got->reset_after_ns == states[i].reset_after_ns);
        assert_true(got->retry_after_ns == states[i].retry_after_ns);
    }
    for (uint8_t count = 0; count <= PEER_LIMITS_MAX + 1; count++) {
        data[1 + 8] = count; /* behind type and ticket */
        const size_t len = 1 + 8 + 1 + (size_t)count * 41;
        assert_int_equal(next_of(data, len < BUFFER_LEN ? len : BUFFER_LEN, &record),
                         count >= 1 && count <= PEER_LIMITS_MAX ? 1 : TG_EPROTOCOL);
    }
}

/* The records that steer replication carry places and terms; each field has its own. */
static void moved_stream_ack_and_term_read_back_as_written(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    assert_int_equal(next_of(data, record_bytes(PEER_MOVED, data), &record), 1);
    assert_int_equal(record.type, PEER_MOVED);
    assert_int_equal(record.moved.ticket, 22);
    assert_int_equal(record.moved.vnode, VNODE);
    assert_term_equal(record.moved.term, newest);
    assert_int_equal(next_of(data, record_bytes(PEER_STREAM, data), &record), 1);
    assert_int_equal(record.type, PEER_STREAM);
    assert_int_equal(record.stream.stream, 23);
    assert_int_equal(record.stream.seq, 24);
    assert_int_equal(record.stream.boot, 25);
    assert_false(record.stream.resync);
    assert_int_equal(next_of(data, record_bytes(PEER_ACK, data), &record), 1);
    assert_int_equal(record.type, PEER_ACK);
    assert_int_equal(record.stream.stream, 26);
    assert_int_equal(record.stream.seq, 27);
    assert_true(record.stream.resync && record.stream.bulk);
    assert_int_equal(next_of(data, record_bytes(PEER_TERM, data), &record), 1);
    assert_int_equal(record.type, PEER_TERM);
    assert_int_equal(record.term.vnode, VNODE);
    assert_int_equal(record.term.sync, 28);
    assert_term_equal(record.term.term, newest);
    assert_true(record.term.copy && record.term.begins);
}

/* What a line descends from decides what is merged, so every field of it counts. */
static void guard_apart_and_diverged_read_back_as_written(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    assert_int_equal(next_of(data, record_bytes(PEER_GUARD, data), &record), 1);
    assert_int_equal(record.type, PEER_GUARD);
    assert_int_equal(record.guard.vnode, VNODE);
    peer_wire_assert_guards_equal(&record.guard.guard, &guard);
    assert_int_equal(next_of(data, record_bytes(PEER_APART, data), &record), 1);
    assert_int_equal(record.type, PEER_APART);
    assert_int_equal(record.apart.vnode, VNODE);
    assert_term_equal(record.apart.to, apart.to);
    assert_term_equal(record.apart.state, apart.state);
    assert_int_equal(record.apart.seq, 17);
    assert_int_equal(record.apart.sync, 18);
    peer_wire_assert_guards_equal(&record.apart.guard, &apart.guard);
    assert_int_equal(next_of(data, record_bytes(PEER_DIVERGED, data), &record), 1);
    assert_int_equal(record.type, PEER_DIVERGED);
    assert_true(hash128_equal(record.slot.id, peer_wire_id));
    assert_int_equal(record.slot.len, sizeof peer_wire_state);
}

/* What is remembered of a slot is read blob by blob, in place. */
static void a_side_record_gives_its_blobs_one_by_one(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct bytes_reader reader;
    struct peer_record record;
    struct side_blob blob;
    const uint8_t *bytes;

    (void)state;
    bytes_reader_init(&reader, data, record_bytes(PEER_SIDE, data));
    assert_int_equal(peer_next(&reader, VNODES, &record), 1);
    assert_int_equal(record.type, PEER_SIDE);
    assert_int_equal(record.side.vnode, VNODE);
    assert_true(hash128_equal(record.side.id, peer_wire_id));
    assert_int_equal(record.side.count, 2);
    assert_true(peer_side_next(&record.side.blobs, &blob, &bytes));
    assert_int_equal(blob.kind, SIDE_BASE);
    assert_term_equal(blob.term, base_blob.term);
    assert_int_equal(blob.seq, 4);
    assert_int_equal(blob.len, sizeof peer_wire_state);
    assert_memory_equal(bytes, peer_wire_state, sizeof peer_wire_state);
    assert_true(peer_side_next(&record.side.blobs, &blob, &bytes));
    assert_int_equal(blob.kind, SIDE_CONTRIBUTION);
    assert_true(blob.seq == UINT64_MAX);
    assert_int_equal(blob.len, 0);
    assert_false(peer_side_next(&record.side.blobs, &blob, &bytes));
    assert_int_equal(peer_next(&reader, VNODES, &record), 0);
}

/* Counts from outside are compared with what there is room for. */
static void more_cuts_blobs_or_kinds_than_there_are_is_refused(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    size_t len = record_bytes(PEER_GUARD, data);
    data[6] = GUARD_CUTS_MAX + 1; /* after the type, the vnode and the flag */
    assert_int_equal(next_of(data, sizeof data, &record), TG_EPROTOCOL);
    len = record_bytes(PEER_SIDE, data);
    data[21] = SIDE_BLOBS_MAX + 1; /* after the type, the vnode and the id */
    assert_int_equal(next_of(data, len, &record), TG_EPROTOCOL);
    len = record_bytes(PEER_SIDE, data);
    data[22] = SIDE_KIND_END;
    assert_int_equal(next_of(data, len, &record), TG_EPROTOCOL);
}

/* Eleven types share one body; the type alone tells what is meant. */
static void every_record_about_a_vnode_reads_back_as_written(void **state)
{
    static const uint8_t types[] = {PEER_MARK,   PEER_HELD,         PEER_LACK,  PEER_STALE,
                                    PEER_QUERY,  PEER_REPORT,       PEER_PULL,  PEER_PASS,
                                    PEER_OPENED, PEER_DIVERGED_END, PEER_MERGED};
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    for (size_t i = 0; i < sizeof types; i++) {
        assert_int_equal(next_of(data, record_bytes(types[i], data), &record), 1);
        assert_int_equal(record.type, types[i]);
        assert_int_equal(record.vnode.vnode, VNODE);
        assert_int_equal(record.vnode.role, ROLE_PASSING);
        assert_term_equal(record.vnode.term, newest);
        assert_term_equal(record.vnode.state, older);
        assert_true(record.vnode.seq == entry.seq);
        assert_int_equal(record.vnode.sync, entry.sync);
        assert_true(record.vnode.asks);
    }
}

/* Buffers are sized by PEER_RECORD_MAX, so no record may be longer. */
static void no_record_is_longer_than_its_bound(void **state)
{
    uint8_t data[BUFFER_LEN];

    (void)state;
    for (uint8_t type = 1; type < PEER_TYPE_END; type++) {
        const size_t own_len =
            type == PEER_SLOT || type == PEER_CHANGE ? sizeof peer_wire_state : 0;
        assert_in_range(record_bytes(type, data) - own_len, 1, PEER_RECORD_MAX);
    }
}

/* A cut record must not be taken for one with zeroes at its end. */
static void every_prefix_of_every_record_is_refused(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    for (uint8_t type = 1; type < PEER_TYPE_END; type++) {
        const size_t len = record_bytes(type, data);
        assert_int_equal(next_of(data, 0, &record), 0); /* the end, not an error */
        for (size_t cut = 1; cut < len; cut++)
            assert_int_equal(next_of(data, cut, &record), TG_EPROTOCOL);
    }
}

/* Vnode numbers index arrays, so a number beyond them must stop at the codec. */
static bool glances(const uint8_t *data, size_t len, uint32_t vnodes, struct peer_glance *glance)
{
    struct bytes_reader reader;
    bytes_reader_init(&reader, data, len);
    const bool passed = peer_glance(&reader, vnodes, glance);
    assert_int_equal(reader.at, passed ? len : 0);
    return passed;
}

static void a_glance_passes_over_a_whole_record_of_replication_or_over_nothing(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_glance glance;
    (void)state;
    for (uint8_t type = 1; type < PEER_TYPE_END; type++) {
        const size_t len = record_bytes(type, data);
        const bool slot = type == PEER_SLOT || type == PEER_CHANGE;
        const bool replicates =
            slot || type == PEER_TERM || type == PEER_MARK || type == PEER_FIRSTS;
        for (size_t shorter = 0; shorter < len; shorter++)
            assert_false(glances(data, shorter, VNODES, &glance));
        assert_false(glances(data, len, VNODE, &glance)); /* out of range */
        assert_int_equal(glances(data, len, VNODES, &glance), replicates);
        assert_true(!replicates || glance.vnode == VNODE);
        assert_true(!slot || (glance.slot && hash128_equal(glance.id, peer_wire_id)));
    }
}

static void a_vnode_out_of_range_is_refused(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;

    (void)state;
    for (uint8_t type = 1; type < PEER_TYPE_END; type++) {
        struct bytes_reader reader;
        const size_t len = record_bytes(type, data);
        const bool has_vnode = type != PEER_PING && type != PEER_ANSWER && type != PEER_STREAM &&
                               type != PEER_ACK && type != PEER_REMOTE_PING &&
                               type != PEER_REMOTE_ANSWER &&
                               (type < PEER_REMOTE_POOL_REPORT || type == PEER_FIRSTS) &&
                               (type < PEER_EXPLAIN || type >= PEER_RESERVED);
        bytes_reader_init(&reader, data, len);
        assert_int_equal(peer_next(&reader, VNODE + 1, &record), 1);
        bytes_reader_init(&reader, data, len);
        assert_int_equal(peer_next(&reader, VNODE, &record), has_vnode ? TG_EPROTOCOL : 1);
    }
}

/* What peer_next says to records with this term, which must be the same for all of them. */
static int next_of_term(const struct term *term)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    struct bytes_writer writer;
    int results[5];

    for (uint32_t i = 0; i < 5; i++) {
        struct peer_vnode vnode = entry;
        bytes_writer_init(&writer, data, sizeof data);
        if (i == 0) {
            peer_put_moved(&writer, 1, VNODE, term);
        } else if (i == 1) {
            peer_put_term(&writer, VNODE, term, 1, false, false);
        } else if (i == 2) {
            const struct peer_written written = {.vnode = VNODE, .term = *term};
            (void)peer_put_change(&writer, &written, peer_wire_id, peer_wire_state,
                                  sizeof peer_wire_state);
        } else {
            *(i == 3 ? &vnode.term : &vnode.state) = *term;
            peer_put_vnode(&writer, PEER_OPENED, &vnode);
        }
        results[i] = next_of(data, writer.len, &record);
        assert_int_equal(results[i], results[0]);
    }
    return results[0];
}

/* A forged term at the end of the range would leave no higher one for an honest leader. */
static void a_term_near_the_end_of_its_range_is_refused(void **state)
{
    const struct term last = {.epoch = TERM_LAST, .number = TERM_LAST, .writer = UINT64_MAX};
    struct term forged = last;

    (void)state;
    assert_int_equal(next_of_term(&last), 1);
    forged.epoch = TERM_LAST + 1;
    assert_int_equal(next_of_term(&forged), TG_EPROTOCOL);
    forged.epoch = UINT64_MAX;
    assert_int_equal(next_of_term(&forged), TG_EPROTOCOL);
    forged = last;
    forged.number = TERM_LAST + 1;
    assert_int_equal(next_of_term(&forged), TG_EPROTOCOL);
    forged.number = UINT64_MAX;
    assert_int_equal(next_of_term(&forged), TG_EPROTOCOL);
}

/* A sender of another version must not make this node call an operation that it has not. */
static void an_unknown_type_operation_role_or_status_is_refused(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    struct forward forward = make_forward(1);
    struct peer_vnode vnode = entry;
    struct answer unknown = answer;
    struct bytes_writer writer;

    (void)state;
    forward.operation = OPERATION_COUNT;
    assert_int_equal(next_of_forward(&forward), TG_EPROTOCOL);
    vnode.role = ROLE_END;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_vnode(&writer, PEER_REPORT, &vnode);
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    unknown.status = ANSWER_STATUS_END;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_answer(&writer, 1, &unknown);
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    unknown = answer;
    unknown.limit_index = PEER_LIMITS_MAX;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_answer(&writer, 1, &unknown);
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    memset(data, 0, sizeof data);
    for (uint32_t type = 0; type < 256; type++) {
        data[0] = (uint8_t)type;
        if (type == 0 || type >= PEER_TYPE_END)
            assert_int_equal(next_of(data, sizeof data, &record), TG_EPROTOCOL);
    }
}

/* The count of limits bounds a loop over fixed arrays: 0 decides nothing, 9 would overrun. */
static void a_forward_of_no_limit_or_of_nine_is_refused(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    const struct forward none = make_forward(0);
    const size_t len = record_bytes(PEER_FORWARD, data);

    (void)state;
    assert_int_equal(next_of_forward(&none), TG_EPROTOCOL);
    assert_int_equal(data[FORWARD_COUNT_AT], PEER_LIMITS_MAX);
    for (size_t i = 0; i < LIMIT_LEN; i++) /* a ninth limit that is as good as the others */
        data[len + i] = data[FORWARD_COUNT_AT + 1 + i];
    data[FORWARD_COUNT_AT] = PEER_LIMITS_MAX + 1;
    assert_int_equal(next_of(data, len + LIMIT_LEN, &record), TG_EPROTOCOL);
    data[FORWARD_COUNT_AT] = UINT8_MAX;
    assert_int_equal(next_of(data, sizeof data, &record), TG_EPROTOCOL);
}

/* The engine's arithmetic rests on the bounds of limits, whoever sent them; every one counts. */
static void a_limit_out_of_its_bounds_is_refused(void **state)
{
    static const struct limit bad[] = {
        {.count = 10, .window_ns = 1000000000, .algorithm = ALGORITHM_COUNT},
        {.count = 0, .window_ns = 1000000000},
        {.count = LIMIT_COUNT_MAX + 1, .window_ns = LIMIT_WINDOW_MAX_NS},
        {.count = 1, .window_ns = LIMIT_WINDOW_MIN_NS - 1},
        {.count = 1, .window_ns = LIMIT_WINDOW_MAX_NS + 1},
        {.count = 1, .window_ns = 1000000000, .burst = LIMIT_COUNT_MAX + 1},
        {.count = 1, .window_ns = 1000000000, .buckets = 60},
        {.count = 1, .window_ns = 1000000000, .align = LIMIT_ALIGN_FIRST},
        {.count = 1,
         .window_ns = 1000000000,
         .align = LIMIT_ALIGN_COUNT,
         .algorithm = ALGORITHM_FIXED_WINDOW},
        {.count = 1,
         .window_ns = 26 * UINT64_C(3600000000000),
         .start_ns = -1,
         .align = LIMIT_ALIGN_DAY,
         .algorithm = ALGORITHM_FIXED_WINDOW},
        {.count = 1,
         .window_ns = 38 * UINT64_C(3600000000000),
         .align = LIMIT_ALIGN_DAY,
         .algorithm = ALGORITHM_FIXED_WINDOW},
        {.count = LIMIT_RATE_MAX + 1, .window_ns = 1000000000},
        {.count = LIMIT_LOG_COUNT_MAX + 1,
         .window_ns = 1000000000,
         .algorithm = ALGORITHM_SLIDING_LOG},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (uint8_t at = 0; at < PEER_LIMITS_MAX; at++) {
            struct forward forward = make_forward(PEER_LIMITS_MAX);
            assert_int_equal(next_of_forward(&forward), 1);
            forward.limits[at] = bad[i];
            assert_int_equal(next_of_forward(&forward), TG_EPROTOCOL);
        }
    }
}

/* Costs have no bound of their own: the engine saturates, so that none needs to be refused. */
static void every_cost_passes(void **state)
{
    static const uint64_t costs[] = {0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    struct forward forward = make_forward(1);

    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        forward.cost = costs[i];
        assert_int_equal(next_of_forward(&forward), 1);
    }
}

/* The length of a slot's state comes from outside and must be compared with what is there. */
static void a_slot_longer_than_its_frame_is_refused(void **state)
{
    static const uint32_t lens[] = {sizeof peer_wire_state + 1, 0x7fffffff, 0x80000000, UINT32_MAX};
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    const size_t len = record_bytes(PEER_SLOT, data);

    (void)state;
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        struct bytes_writer writer;
        bytes_writer_init(&writer, data + 21, 4); /* after the type, the vnode and the id */
        bytes_put_u32(&writer, lens[i]);
        assert_int_equal(next_of(data, len, &record), TG_EPROTOCOL);
    }
}

/* A frame of one record of each type, in `frame`; returns its length. */
static size_t make_frame(uint8_t frame[BUFFER_LEN])
{
    uint8_t data[BUFFER_LEN];
    struct bytes_writer writer;

    bytes_writer_init(&writer, data, sizeof data);
    for (uint8_t type = 1; type < PEER_TYPE_END; type++)
        put_record(&writer, type);
    assert_false(writer.failed);
    const struct peer_envelope envelope = {.node = UINT64_MAX,
                                           .shard = UINT16_MAX,
                                           .boot = 0x8000000000000001,
                                           .records = data,
                                           .len = writer.len};
    const int len = peer_encode(&envelope, frame, BUFFER_LEN);
    assert_in_range(len, writer.len + 1, writer.len + PEER_ENVELOPE_MAX);
    return (size_t)len;
}

/* The order of records means something, so a frame gives them as they were put. */
static void a_frame_gives_its_sender_and_its_records_in_order(void **state)
{
    uint8_t frame[BUFFER_LEN];
    struct peer_envelope envelope;
    struct bytes_reader reader;
    struct peer_record record;

    (void)state;
    assert_int_equal(peer_decode(frame, make_frame(frame), &envelope), 0);
    assert_true(envelope.node == UINT64_MAX);
    assert_int_equal(envelope.shard, UINT16_MAX);
    assert_true(envelope.boot == 0x8000000000000001);
    bytes_reader_init(&reader, envelope.records, envelope.len);
    for (uint8_t type = 1; type < PEER_TYPE_END; type++) {
        assert_int_equal(peer_next(&reader, VNODES, &record), 1);
        assert_int_equal(record.type, type);
    }
    assert_int_equal(peer_next(&reader, VNODES, &record), 0);
    assert_int_equal(peer_next(&reader, VNODES, &record), 0);
}

/* A frame names the channel of copies; any other name is refused. */
static void a_frame_tells_its_channel(void **state)
{
    uint8_t frame[BUFFER_LEN];
    struct peer_envelope envelope = {.node = 5, .wall_ns = -7, .seen_ns = 9};
    struct peer_envelope read;
    (void)state;
    envelope.records = peer_wire_state;
    envelope.len = sizeof peer_wire_state;
    int len = peer_encode(&envelope, frame, sizeof frame);
    assert_int_equal(peer_decode(frame, (size_t)len, &read), 0);
    assert_false(read.bulk);
    envelope.bulk = true;
    len = peer_encode(&envelope, frame, sizeof frame);
    assert_int_equal(peer_decode(frame, (size_t)len, &read), 0);
    assert_true(read.bulk && read.wall_ns == -7 && read.seen_ns == 9);
    assert_int_equal(read.len, sizeof peer_wire_state);
    frame[len - 4] = 2; /* before three further fields */
    assert_int_equal(peer_decode(frame, (size_t)len, &read), TG_EPROTOCOL);
}

/* An envelope that does not fit is an error, and no byte goes beyond the buffer. */
static void a_frame_that_does_not_fit_is_refused_by_the_writer(void **state)
{
    uint8_t frame[BUFFER_LEN];
    uint8_t out[128];
    const struct peer_envelope envelope = {.node = 5,
                                           .shard = 1,
                                           .boot = 2,
                                           .records = peer_wire_state,
                                           .len = sizeof peer_wire_state};
    const int len = peer_encode(&envelope, frame, sizeof frame);

    (void)state;
    assert_in_range(len, 1, sizeof out - 1);
    for (int capacity = 0; capacity < len; capacity++) {
        memset(out, 0xee, sizeof out);
        assert_int_equal(peer_encode(&envelope, out, (size_t)capacity), TG_ETOOBIG);
        assert_int_equal(out[capacity], 0xee);
    }
    assert_int_equal(peer_encode(&envelope, out, (size_t)len), len);
}

/* A cut frame, or one with bytes after it, is refused as a whole. */
static void every_prefix_of_a_frame_is_refused(void **state)
{
    uint8_t frame[BUFFER_LEN] = {0};
    struct peer_envelope envelope;
    const size_t len = make_frame(frame);

    (void)state;
    for (size_t cut = 0; cut < len; cut++)
        assert_true(peer_decode(frame, cut, &envelope) < 0);
    frame[len] = 0;
    assert_true(peer_decode(frame, len + 1, &envelope) < 0);
}

/* Writes an envelope of the given numbers; what peer_decode says to it. */
static int decode_of(size_t fields, uint64_t version, uint64_t node, uint64_t shard, bool as_bin)
{
    uint8_t frame[128];
    struct peer_envelope envelope;
    struct mp_writer writer;

    mp_writer_init(&writer, frame, sizeof frame);
    mp_put_array(&writer, fields);
    mp_put_uint(&writer, version);
    mp_put_uint(&writer, node);
    mp_put_uint(&writer, shard);
    if (fields > 3)
        mp_put_uint(&writer, 9);
    if (fields > 4 && as_bin)
        mp_put_bin(&writer, "", 0);
    else if (fields > 4)
        mp_put_str(&writer, "");
    if (fields > 5)
        mp_put_uint(&writer, 0); /* the channel */
    for (size_t i = 6; i < fields; i++)
        mp_put_uint(&writer, i);
    assert_false(writer.failed);
    return peer_decode(frame, writer.len, &envelope);
}

/* Node 0 is nobody, a shard has 16 bits, and the version says whether the rest can be read. */
static void a_bad_envelope_is_refused_and_another_version_named(void **state)
{
    static uint8_t huge[PEER_FRAME_MAX + 1];
    struct peer_envelope envelope;

    (void)state;
    assert_int_equal(decode_of(5, PEER_VERSION, 1, UINT16_MAX, true), 0);
    assert_int_equal(decode_of(7, PEER_VERSION, 1, 0, true), 0); /* fields added later */
    assert_int_equal(decode_of(5, PEER_VERSION + 1, 1, 0, true), TG_EVERSION);
    assert_int_equal(decode_of(5, 0, 1, 0, true), TG_EVERSION);
    assert_int_equal(decode_of(5, PEER_VERSION, 0, 0, true), TG_EPROTOCOL);
    assert_int_equal(decode_of(5, PEER_VERSION, 1, UINT16_MAX + 1, true), TG_EPROTOCOL);
    assert_int_equal(decode_of(5, PEER_VERSION, 1, 0, false), TG_EPROTOCOL);
    assert_int_equal(decode_of(4, PEER_VERSION, 1, 0, true), TG_EPROTOCOL);
    assert_int_equal(peer_decode("\x01", 1, &envelope), TG_EPROTOCOL);
    assert_int_equal(peer_decode("\xa5hello", 6, &envelope), TG_EPROTOCOL);
    assert_int_equal(peer_decode("\x95\xa1x\x01\x01\x01\xc4\x00", 8, &envelope), TG_EPROTOCOL);
    assert_int_equal(peer_decode(huge, sizeof huge, &envelope), TG_ETOOBIG);
}

/* Reads all records of a frame, and the last byte of each slot; returns how many there were. */
static uint32_t read_all(const uint8_t *frame, size_t len)
{
    struct peer_envelope envelope;
    struct bytes_reader reader;
    struct peer_record record;
    uint32_t count = 0;

    if (peer_decode(frame, len, &envelope) != 0)
        return 0;
    bytes_reader_init(&reader, envelope.records, envelope.len);
    while (peer_next(&reader, VNODES, &record) == 1) {
        count++;
        assert_in_range(record.type, 1, PEER_TYPE_END - 1);
        if (record.type == PEER_SLOT && record.slot.len > 0) {
            assert_true(record.slot.state >= frame);
            assert_true(record.slot.len <= (size_t)(frame + len - record.slot.state));
        }
        if (record.type == PEER_FORWARD)
            assert_in_range(record.forward.limit_count, 1, PEER_LIMITS_MAX);
    }
    return count;
}

/* Whoever reaches the peer port can send anything: nothing of it may lead outside the frame. */
static void twenty_thousand_mutated_frames_never_lead_outside(void **state)
{
    enum { FRAMES = 20000 };
    uint8_t original[BUFFER_LEN];
    struct random random;
    const size_t original_len = make_frame(original);
    uint32_t whole = 0;
    uint32_t cut = 0;

    (void)state;
    random_init(&random, 43);
    for (int i = 0; i < FRAMES; i++) {
        const size_t len =
            random_below(&random, 4) == 0 ? random_below(&random, original_len) : original_len;
        uint8_t *frame = malloc(len + 1);
        assert_non_null(frame);
        memcpy(frame + 1, original, len);
        for (uint64_t n = random_below(&random, 6); n > 0 && len > 0; n--)
            frame[1 + random_below(&random, len)] =
                (uint8_t)(random_below(&random, 2) == 0 ? random_next(&random) : 0xff);
        if (read_all(frame + 1, len) == PEER_TYPE_END - 1)
            whole++;
        else
            cut++;
        free(frame);
    }
    assert_true(whole > FRAMES / 100); /* both ways were taken */
    assert_true(cut > FRAMES / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ping_reads_back_as_written),
        cmocka_unit_test(a_ping_of_an_impossible_time_is_refused),
        cmocka_unit_test(a_forward_reads_back_as_written_with_any_number_of_limits),
        cmocka_unit_test(an_answer_reads_back_as_written),
        cmocka_unit_test(an_explanation_reads_back_as_written),
        cmocka_unit_test(moved_stream_ack_and_term_read_back_as_written),
        cmocka_unit_test(guard_apart_and_diverged_read_back_as_written),
        cmocka_unit_test(a_side_record_gives_its_blobs_one_by_one),
        cmocka_unit_test(more_cuts_blobs_or_kinds_than_there_are_is_refused),
        cmocka_unit_test(every_record_about_a_vnode_reads_back_as_written),
        cmocka_unit_test(no_record_is_longer_than_its_bound),
        cmocka_unit_test(every_prefix_of_every_record_is_refused),
        cmocka_unit_test(a_glance_passes_over_a_whole_record_of_replication_or_over_nothing),
        cmocka_unit_test(a_vnode_out_of_range_is_refused),
        cmocka_unit_test(a_term_near_the_end_of_its_range_is_refused),
        cmocka_unit_test(an_unknown_type_operation_role_or_status_is_refused),
        cmocka_unit_test(a_forward_of_no_limit_or_of_nine_is_refused),
        cmocka_unit_test(a_limit_out_of_its_bounds_is_refused),
        cmocka_unit_test(every_cost_passes),
        cmocka_unit_test(a_slot_longer_than_its_frame_is_refused),
        cmocka_unit_test(a_frame_gives_its_sender_and_its_records_in_order),
        cmocka_unit_test(a_frame_tells_its_channel),
        cmocka_unit_test(a_frame_that_does_not_fit_is_refused_by_the_writer),
        cmocka_unit_test(every_prefix_of_a_frame_is_refused),
        cmocka_unit_test(a_bad_envelope_is_refused_and_another_version_named),
        cmocka_unit_test(twenty_thousand_mutated_frames_never_lead_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
