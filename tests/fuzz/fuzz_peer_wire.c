/* fuzz_peer_wire.c - frames between shards, and those of joining and the register between control
 * cores.
 *
 * The first byte chooses: a whole frame; bare records, as a frame of a known member would hold
 * them; a frame of join.h; one of register_wire.h. Property: what was decoded can be written, reads
 * as the same, and is then written as the same bytes.
 */
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/figures.h"
#include "node/cluster/wire/join.h"
#include "node/cluster/wire/peer_wire.h"
#include "tests/fuzz/fuzz.h"

enum { VNODES = 64, KINDS = 4 };

static uint8_t first[PEER_FRAME_MAX];
static uint8_t second[PEER_FRAME_MAX];

static void put_side(struct bytes_writer *writer, const struct peer_side *side)
{
    struct bytes_reader blobs = side->blobs;
    struct side_blob blob;
    const uint8_t *bytes = NULL;
    uint8_t count = 0;
    peer_put_side(writer, side->vnode, side->id, side->count);
    for (; peer_side_next(&blobs, &blob, &bytes); count++) {
        peer_put_blob(writer, &blob, bytes);
    }
    ASSERT(count == side->count);
}

static void put_pool_report(struct bytes_writer *writer, const struct peer_pool_report *told)
{
    struct bytes_reader shares = told->shares;
    static struct elastic_report report;
    report.pool = told->pool;
    report.guaranteed = told->guaranteed;
    report.borrowed = told->borrowed;
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++) {
        report.count[class] = told->count[class];
        for (uint32_t i = 0; i < told->count[class]; i++)
            ASSERT(peer_share_next(&shares, &report.shares[class][i]));
    }
    ASSERT(bytes_left(&shares) == 0);
    peer_put_pool_report(writer, &told->origin, &report, told->load_ppm, told->load_ms);
}

static void put_slot(struct bytes_writer *writer, const struct peer_record *record)
{
    if (record->type == PEER_SLOT)
        peer_put_slot(writer, record->slot.vnode, record->slot.id, record->slot.state,
                      record->slot.len);
    else
        peer_put_diverged(writer, record->slot.vnode, record->slot.id, record->slot.state,
                          record->slot.len);
}

static void put_change(struct bytes_writer *writer, const struct peer_change *change)
{
    const size_t at = peer_put_change(writer, &change->term, change->slot.id, change->slot.state,
                                      change->slot.len);
    if (change->marks && !writer->failed)
        peer_mark_change(writer, at, change->seq);
}

static void put_reserved(struct bytes_writer *writer, const struct peer_record *record)
{
    peer_put_reserved(writer, record->reserved.vnode, &record->reserved.term,
                      &record->reserved.line, &record->reserved.what);
}

static void put_firsts(struct bytes_writer *writer, const struct peer_firsts *firsts)
{
    struct bytes_reader bytes = firsts->bytes;
    struct peer_first one;
    const size_t at = peer_put_firsts(writer, firsts->vnode);
    while (peer_first_next(&bytes, &one))
        peer_put_first(writer, &one);
    ASSERT(bytes_left(&bytes) == 0);
    peer_end_firsts(writer, at);
}

/* What goes to another region. */
static void put_remote(struct bytes_writer *writer, const struct peer_record *record)
{
    if (record->type == PEER_REMOTE_PING)
        peer_put_remote_ping(writer, record->remote_ping.sent_ns, record->remote_ping.echo_ns);
    else if (record->type == PEER_REMOTE_ASK)
        peer_put_remote_ask(writer, &record->forward);
    else
        peer_put_remote_answer(writer, record->answer.ticket, &record->answer.answer);
}

/* What is told of a vnode alone: every type that put_record does not list. */
static void put_vnode(struct bytes_writer *writer, const struct peer_record *record)
{
    switch (record->type) {
    case PEER_MARK:
    case PEER_STALE:
    case PEER_QUERY:
    case PEER_REPORT:
    case PEER_PULL:
    case PEER_PASS:
    case PEER_OPENED:
    case PEER_HELD:
    case PEER_LACK:
    case PEER_DIVERGED_END:
    case PEER_MERGED:
        peer_put_vnode(writer, record->type, &record->vnode);
        break;
    default:
        ASSERT(record->type == PEER_TYPE_END); /* a type that no list here has */
    }
}

/* Writes the record. */
static void put_record(struct bytes_writer *writer, const struct peer_record *record)
{
    switch (record->type) {
    case PEER_PING:
        peer_put_ping(writer, &record->ping);
        break;
    case PEER_FORWARD:
    case PEER_FORWARD_GLOBAL:
        peer_put_forward(writer, &record->forward);
        break;
    case PEER_REMOTE_PING:
    case PEER_REMOTE_ASK:
    case PEER_REMOTE_ANSWER:
        put_remote(writer, record);
        break;
    case PEER_ANSWER:
        peer_put_answer(writer, record->answer.ticket, &record->answer.answer);
        break;
    case PEER_EXPLAIN:
        peer_put_explain(writer, record->explain.ticket, record->explain.states,
                         record->explain.count);
        break;
    case PEER_MOVED:
        peer_put_moved(writer, record->moved.ticket, record->moved.vnode, &record->moved.term);
        break;
    case PEER_STREAM:
        peer_put_stream(writer, record->stream.stream, record->stream.seq, record->stream.boot);
        break;
    case PEER_ACK:
        peer_put_ack(writer, record->stream.stream, record->stream.seq, record->stream.resync,
                     record->stream.bulk);
        break;
    case PEER_TERM:
        peer_put_term(writer, record->term.vnode, &record->term.term, record->term.sync,
                      record->term.copy, record->term.begins);
        break;
    case PEER_SLOT:
    case PEER_DIVERGED:
        put_slot(writer, record);
        break;
    case PEER_CHANGE:
        put_change(writer, &record->change);
        break;
    case PEER_GUARD:
        peer_put_guard(writer, record->guard.vnode, &record->guard.guard);
        break;
    case PEER_APART:
        peer_put_apart(writer, &record->apart);
        break;
    case PEER_SIDE:
        put_side(writer, &record->side);
        break;
    case PEER_POOL_REPORT:
    case PEER_REMOTE_POOL_REPORT:
        put_pool_report(writer, &record->pool_report);
        break;
    case PEER_POOL_LEVEL:
    case PEER_REMOTE_POOL_LEVEL:
        peer_put_pool_level(writer, &record->pool_level);
        break;
    case PEER_RESERVED:
        put_reserved(writer, record);
        break;
    case PEER_FIRSTS:
        put_firsts(writer, &record->firsts);
        break;
    default:
        put_vnode(writer, record);
        break;
    }
}

/* Reads all records and writes them again; bytes written, 0 if they do not fit. */
static size_t rewrite(const uint8_t *records, size_t len, uint8_t *out, int *end)
{
    struct bytes_reader reader;
    struct bytes_writer writer;
    struct peer_record record;
    bytes_reader_init(&reader, records, len);
    bytes_writer_init(&writer, out, PEER_FRAME_MAX);
    while ((*end = peer_next(&reader, VNODES, &record)) > 0) {
        put_record(&writer, &record);
    }
    return !writer.failed ? writer.len : 0;
}

static void try_records(const uint8_t *records, size_t len)
{
    int end = 0;
    const size_t a = rewrite(records, len, first, &end);
    if (a == 0) {
        return;
    }
    const size_t b = rewrite(first, a, second, &end);
    ASSERT(end == 0 && a == b && memcmp(first, second, a) == 0);
}

static void try_frame(const uint8_t *frame, size_t len)
{
    struct peer_envelope envelope;
    if (peer_decode(frame, len, &envelope) != 0) {
        return;
    }
    struct peer_envelope again = {.node = 0};
    const int a = peer_encode(&envelope, first, sizeof(first));
    ASSERT(a > 0 && peer_decode(first, (size_t)a, &again) == 0);
    ASSERT(again.node == envelope.node && again.shard == envelope.shard);
    ASSERT(again.boot == envelope.boot && again.len == envelope.len && again.bulk == envelope.bulk);
    ASSERT(envelope.len == 0 || memcmp(again.records, envelope.records, envelope.len) == 0);
    try_records(envelope.records, envelope.len);
}

static void try_join(const uint8_t *frame, size_t len)
{
    static struct join_message message;
    if (!join_is(frame, len) || join_decode(frame, len, &message) != 0) {
        return;
    }
    const int a = join_encode(&message, first, sizeof(first));
    ASSERT(a > 0 && join_decode(first, (size_t)a, &message) == 0);
    const int b = join_encode(&message, second, sizeof(second));
    ASSERT(a == b && memcmp(first, second, (size_t)a) == 0);
}

static void try_register(const uint8_t *bytes, size_t len)
{
    static struct register_frame frame;
    if (register_wire_decode(bytes, len, &frame) != 0) {
        return;
    }
    const int a = register_wire_encode(&frame, first, sizeof(first));
    ASSERT(a > 0 && register_wire_decode(first, (size_t)a, &frame) == 0);
    const int b = register_wire_encode(&frame, second, sizeof(second));
    ASSERT(a == b && memcmp(first, second, (size_t)a) == 0);
}

static void try_figures(const uint8_t *bytes, size_t len)
{
    struct figures_frame frame;
    if (figures_decode(bytes, len, &frame) != 0) {
        return;
    }
    const int a = figures_encode(&frame, first, sizeof(first));
    ASSERT(a > 0 && a <= FIGURES_FRAME_MAX && figures_decode(first, (size_t)a, &frame) == 0);
    const int b = figures_encode(&frame, second, sizeof(second));
    ASSERT(a == b && memcmp(first, second, (size_t)a) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t kind = fuzz_u8(&input) % KINDS;
    size_t rest_len = 0;
    const uint8_t *const rest = fuzz_rest(&input, &rest_len);
    uint8_t *const bytes = fuzz_copy(rest, rest_len);
    if (kind == 0) {
        try_frame(bytes, rest_len);
    } else if (kind == 1) {
        try_records(bytes, rest_len);
    } else if (kind == 2) {
        try_join(bytes, rest_len);
        try_figures(bytes, rest_len);
    } else {
        try_register(bytes, rest_len);
    }
    free(bytes);
    return 0;
}
