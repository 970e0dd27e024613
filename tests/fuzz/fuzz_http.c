/* fuzz_http.c - HTTP clients that send anything, at a gate whose shard answers now or later.
 *
 *   input   | op 1 | operand ...        op & 7:  0-3 peer op & 3 sends a piece   | len 1 | bytes |
 *                                                4   the batch is submitted
 *                                                5   a submitted batch is answered | which 1 |
 *                                                6   a peer is gone, and another comes
 *                                                7   time passes, what is late is given up
 *
 * Properties: the shard can read whatever the gate sends it (BATCHES-4); no response is lost for
 * want of room (BATCHES-2); a peer that is waited for by nobody has been answered all that it
 * asked (BATCHES-3); and what a peer is sent is whole responses, each with a status line, a head
 * and the bytes that its length tells, one a request. The gate is whole meanwhile. Whatever the
 * fields on traces say, each span that has begun ends once, and tells of a response (TRACER-1).
 */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "node/gateway/api/api_routes.h"
#include "node/gateway/http/http_gate.h"
#include "node/gateway/trace/tracer.h"
#include "tests/fuzz/fuzz.h"

enum {
    PEERS = 4,
    FRAMES = 16,
    INPUT = 1 << 16,
    OUT = 1 << 18,      /* that peers have, */
    OUT_MOST = 5 << 20, /* but for the first one: room for whatever an operator's answer may take */
    SESSION = 7,
    CHECK_EVERY = 16
};

struct peer {
    struct http_peer peer;
    uint32_t generation;
    size_t len;
    char input[INPUT];
    char out[OUT_MOST];
};

static struct peer peers[PEERS];
static uint8_t frames[FRAMES][WIRE_MESSAGE_MAX / 8];
static size_t frame_lens[FRAMES];
static struct http_gate *gate;
static struct gateway_stats stats;
static int64_t now_ns;
static uint64_t heard; /* final responses */
static struct tracer *tracer;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    struct peer *peer = &peers[token & 0xff];
    return peer->generation == token >> 8 ? &peer->peer.base : NULL;
}

static const struct gateway_finder finder = {find, NULL};

static void ended(void *context, struct trace_span *span)
{
    static const uint8_t none[TRACE_ID_BYTES];
    (void)context;
    ASSERT(span->status == 0 || (span->status >= 200 && span->status <= 599));
    ASSERT(memcmp(span->id.trace, none, TRACE_ID_BYTES) != 0);
    ASSERT(memcmp(span->id.span, none, TRACE_SPAN_BYTES) != 0);
    ASSERT(memcmp(span->id.span, span->parent, TRACE_SPAN_BYTES) != 0);
    ASSERT(strlen(span->state) <= TRACE_STATE_LEN);
    ASSERT(span->checks.refused <= span->checks.count);
}

static void lost(void *context)
{
    (void)context;
}

static void come(struct peer *peer)
{
    peer->generation++;
    peer->len = 0;
    memset(&peer->peer, 0, sizeof peer->peer);
    peer->peer.base.id = peer->generation;
    http_gate_open(gate, &peer->peer);
    peer->peer.base.out.data = peer->out;
    peer->peer.base.out.capacity = peer == peers ? OUT_MOST : OUT;
}

/* Takes one response from the front of what was sent. Its length: a response to HEAD has none of
 * its body, which then looks like the beginning of another one, or the end. */
static size_t read_response(const char *data, size_t len)
{
    static const char length[] = "\r\nContent-Length: ";
    const char *end = memmem(data, len, "\r\n\r\n", 4);
    ASSERT(end != NULL && len >= 12 && memcmp(data, "HTTP/1.1 ", 9) == 0);
    const size_t head = (size_t)(end - data) + 4;
    if (memcmp(data + 9, "100 ", 4) == 0)
        return head;
    heard++;
    const char *told = memmem(data, head, length, sizeof length - 1);
    const bool bare = memcmp(data + 9, "204 ", 4) == 0 || memcmp(data + 9, "304 ", 4) == 0;
    ASSERT((told == NULL) == bare);
    const size_t body = told != NULL ? strtoul(told + sizeof length - 1, NULL, 10) : 0;
    const bool none = len == head || memcmp(data + head, "HTTP/1.1 ", 9) == 0;
    ASSERT(none || len - head >= body);
    return none ? head : head + body;
}

static void read_all(struct peer *peer)
{
    struct gateway_out *out = &peer->peer.base.out;
    for (size_t at = 0; at < out->len;)
        at += read_response(out->data + at, out->len - at);
    out->len = 0;
}

/* What an operator's question is answered: by `kind` an edit, a list, a refusal, a text, or rules
 * that do not compile. */
static void answer_operator(const uint8_t *frame, size_t len, uint8_t kind)
{
    static const char *const states[] = {"done", "conflict", "waiting", "doubt"};
    static struct mp_token tokens[WIRE_ADMIN_TOKENS_MAX];
    static uint8_t reply[1024];
    char error[WIRE_ERROR_LEN];
    struct wire_admin admin;
    struct mp_writer writer;
    const int result = wire_decode_admin(frame, len, tokens, WIRE_ADMIN_TOKENS_MAX, &admin, error);
    ASSERT(result == 0);
    mp_writer_init(&writer, reply, sizeof reply);
    wire_begin_admin_reply(&writer, admin.session, admin.seq, kind == 1 ? TG_ENOTFOUND : 0);
    if (kind == 1) {
        mp_put_str(&writer, "none of that name");
    } else if (kind == 2) {
        mp_put_array(&writer, 1);
        mp_put_strn(&writer, admin.command.data, admin.command.len);
    } else if (kind == 4) {
        mp_put_str(&writer, "some text");
    } else {
        mp_put_map(&writer, 4);
        mp_put_str(&writer, "ok");
        mp_put_bool(&writer, kind != 3);
        mp_put_str(&writer, "state");
        mp_put_str(&writer, states[kind % 4]);
        mp_put_str(&writer, "base");
        mp_put_uint(&writer, UINT64_MAX);
        mp_put_str(&writer, "text");
        mp_put_str(&writer, "rules: []");
    }
    ASSERT(!writer.failed);
    batches_answer(http_gate_batches(gate), reply, writer.len, &finder);
}

/* The gate must have made a message that the shard takes (BATCHES-4). */
static void answer(uint32_t at, uint8_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    const size_t frame_len = frame_lens[at];
    if (frame_len == 0)
        return;
    struct wire_envelope envelope;
    const int peeked = wire_peek(frames[at], frame_len, &envelope, error);
    ASSERT(peeked == 0);
    if (pending == 0 || envelope.type == WIRE_ADMIN)
        frame_lens[at] = 0;
    if (envelope.type == WIRE_ADMIN) {
        answer_operator(frames[at], frame_len, pending & 7);
        return;
    }
    const int result = wire_decode_checks(frames[at], frame_len, &space, &checks, error);
    ASSERT(result == 0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.outcomes[i] = (uint8_t)(wire_checks_cost(&checks, i) % OUTCOME_COUNT);
        columns.flags[i] = columns.outcomes[i] < OUTCOME_DENY ? WIRE_ALLOWED : 0;
        if ((pending >> i % 4 & 1) != 0)
            columns.flags[i] = WIRE_PENDING;
        columns.remaining[i] = columns.used[i] = wire_checks_cost(&checks, i);
        columns.reset_after_ms[i] = INT64_MAX;
        columns.source_index[i] = WIRE_SOURCE_NONE;
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    ASSERT(len > 0);
    batches_answer(http_gate_batches(gate), reply, (size_t)len, &finder);
}

static void submit(void)
{
    const uint8_t *frame;
    const size_t len = batches_submit(http_gate_batches(gate), &frame);
    uint32_t at = 0;
    if (len == 0)
        return;
    while (at < FRAMES - 1 && frame_lens[at] != 0)
        at++;
    answer(at, 0);               /* one that was there is answered first */
    if (len > sizeof frames[at]) /* longer than any of these inputs can ask for */
        return;
    memcpy(frames[at], frame, len);
    frame_lens[at] = len;
}

static uint64_t token_of(const struct peer *peer)
{
    return (uint64_t)peer->generation << 8 | (uint64_t)(peer - peers);
}

/* Goes on with a peer as long as it can. */
static void feed(struct peer *peer)
{
    enum gateway_stop stop;
    struct gateway_peer *base = &peer->peer.base;
    do {
        size_t used;
        char *const copy = (char *)fuzz_copy((const uint8_t *)peer->input, peer->len);
        stop = http_gate_take(gate, &peer->peer, token_of(peer), copy, peer->len, &used);
        free(copy);
        ASSERT(!base->out.failed && used <= peer->len); /* BATCHES-2 */
        peer->len -= used;
        memmove(peer->input, peer->input + used, peer->len);
        if (stop == GATEWAY_NEED_SUBMIT)
            submit();
        if (stop == GATEWAY_NEED_ROOM)
            read_all(peer);
        base->cramped = base->room > base->out.capacity; /* no more is to be had */
        if (stop == GATEWAY_NEED_ROOM && base->waiting > 0)
            return;
    } while (stop == GATEWAY_NEED_SUBMIT || stop == GATEWAY_NEED_ROOM);
    ASSERT(stop != GATEWAY_NEED_ANSWER || base->waiting > 0);
    ASSERT(stop != GATEWAY_NEED_BYTES || peer->len < HTTP1_PENDING_MAX); /* HTTP1-3 */
}

static void take_piece(struct fuzz_input *input, struct peer *peer)
{
    size_t len;
    const uint8_t *piece = fuzz_take(input, fuzz_u8(input), &len);
    if (len > INPUT - peer->len)
        len = INPUT - peer->len;
    memcpy(peer->input + peer->len, piece, len);
    peer->len += len;
    feed(peer);
}

static void take_operation(struct fuzz_input *input)
{
    const uint8_t byte = fuzz_u8(input);
    const uint8_t op = byte & 7;
    switch (op) {
    case 4:
        submit();
        break;
    case 5:
        answer(fuzz_u8(input) % FRAMES, byte >> 4);
        break;
    case 6:
        come(&peers[fuzz_u8(input) % PEERS]);
        break;
    case 7:
        now_ns += INT64_C(700000000);
        http_gate_now(gate, now_ns);
        batches_expire(http_gate_batches(gate), &finder);
        break;
    default:
        take_piece(input, &peers[op]);
        break;
    }
}

/* Looks at all peers, and now and then at the gate, which has room for many more batches. */
static void check_all(uint32_t step)
{
    for (uint32_t i = 0; i < PEERS; i++) {
        batches_check_peer(http_gate_batches(gate), &peers[i].peer.base, token_of(&peers[i]));
        read_all(&peers[i]);
    }
    if (step % CHECK_EVERY == 0)
        batches_check_invariants(http_gate_batches(gate));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct digest operators;
    struct http_facts facts = {.anonymous = ACCESS_ANONYMOUS,
                               .anonymous_grpc = ACCESS_ANONYMOUS,
                               .name = "n",
                               .version = "v",
                               .operators = &operators};
    digest_make("t", 1, &operators);
    facts.routes = api_routes(&facts.route_count);
    struct fuzz_input input = fuzz_open(data, len);
    struct http_stats after;
    const struct tracer_options traces = {.sampler = TRACE_PARENT_OR_RATIO,
                                          .ratio = 100000,
                                          .node = "n",
                                          .sink = {ended, lost, NULL}};
    if (tracer == NULL && tracer_new(alloc_heap(), &traces, &tracer) != 0)
        return 0;
    facts.tracer = tracer;
    if (gate == NULL && http_gate_new(alloc_heap(), SESSION, &facts, &stats, &gate) != 0)
        return 0;
    memset(frame_lens, 0, sizeof frame_lens);
    for (uint32_t i = 0; i < PEERS; i++)
        come(&peers[i]);
    for (uint32_t step = 0; fuzz_more(&input); step++) {
        take_operation(&input);
        check_all(step);
    }
    submit();
    for (uint32_t i = 0; i < FRAMES; i++)
        answer(i, 0);
    now_ns += INT64_C(65000000000); /* longer than anybody may wait */
    http_gate_now(gate, now_ns);
    batches_expire(http_gate_batches(gate), &finder);
    for (uint32_t i = 0; i < PEERS; i++) {
        read_all(&peers[i]);
        ASSERT(peers[i].peer.base.waiting == 0 && peers[i].peer.base.reserved == 0); /* BATCHES-3 */
    }
    ASSERT(http_gate_batches(gate)->waiting == 0); /* so the next input begins with a gate as new */
    ASSERT(tracer_open(tracer) == 0);              /* TRACER-1 */
    http_gate_stats(gate, &after);
    ASSERT(heard <= after.answered); /* some were of peers that were gone before they read */
    return 0;
}
