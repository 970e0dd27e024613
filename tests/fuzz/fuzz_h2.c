/* fuzz_h2.c - a client of HTTP/2 and gRPC that sends anything behind the preface, in pieces, to a
 * node whose shard answers now, later or never.
 *
 *   input   | settings first? 1 | { operation 1, bytes or number } ...
 *
 * Properties: the streams' lists are whole (H2-1); a request is answered once (GRPC-1, which the
 * gate asserts); a connection has no more memory than it may, and gives all back (H2MEMORY-1); what
 * it is sent is frames from the first byte on; nothing is taken behind the end; the batches are
 * whole.
 */
#include <proto/health.pb-c.h>
#include <proto/reflection.pb-c.h>

#include "base/alloc.h"
#include "node/gateway/access.h"
#include "node/gateway/grpc/grpc_gate.h"
#include "node/gateway/grpc/grpc_health.h"
#include "node/gateway/grpc/grpc_reflection.h"
#include "tests/fuzz/fuzz.h"

enum { TOKEN = 9, SESSION = 3, CALL_LEN = 128, FRAMES = 8, FRAME_LEN = 64 << 10, HEAD_LEN = 9 };

#define MS INT64_C(1000000)

static struct batches *batches;
static struct h2_gate *h2;
static struct grpc_gate *grpc;
static struct gateway_stats stats;
static struct h2_stats h2_stats;
static struct grpc_stats grpc_stats;
static struct gateway_peer base;
static bool gone;
static char out[GATEWAY_OUT_LEN];
static struct {
    uint8_t bytes[FRAME_LEN];
    size_t len;
} frames[FRAMES];
static uint32_t frame_count;
static int64_t now_ns;
static uint8_t head[HEAD_LEN]; /* of the frame that is being sent, */
static size_t head_len;
static size_t body_left;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    ASSERT(token == TOKEN);
    return gone ? NULL : &base;
}

static const struct gateway_finder finder = {find, NULL};

static void complete(struct grpc_completion *completion)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct wire_decision decision;
    grpc_decision(completion, completion->count - 1, &decision);
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)decision.remaining;
    (void)grpc_reply(&completion->call, &response.base);
}

/* As many checks as the name has letters, and one. */
static enum grpc_verdict ask(struct grpc_call *call)
{
    const char *name = ((const Grpc__Health__V1__HealthCheckRequest *)call->request)->service;
    const struct limit limit = {
        .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 5, .window_ns = 1000000000};
    const uint32_t count = 1 + (uint32_t)strlen(name) % 70;
    const struct wire_text key = wire_text_of("key");
    const enum grpc_verdict verdict = grpc_ask(call, count, complete);
    if (verdict != GRPC_ASKED)
        return verdict;
    for (uint32_t i = 0; i < count; i++) {
        const int template = wire_checks_builder_inline(call->builder, &limit);
        if (template <0 || wire_checks_builder_append(call->builder, (uint32_t) template,
                                                      OPERATION_CHECK, 1, &key, 1) < 0)
            return grpc_ask_full(call);
    }
    return GRPC_ASKED;
}

static const struct grpc_method methods[] = {
    {.path = "/a",
     .request = &grpc__health__v1__health_check_request__descriptor,
     .request_max = 1 << 16,
     .handle = ask},
    {.path = "/grpc.health.v1.Health/Check",
     .request = &grpc__health__v1__health_check_request__descriptor,
     .request_max = GRPC_HEALTH_MAX,
     .always = true,
     .handle = grpc_health_check},
    {.path = "/grpc.health.v1.Health/Watch",
     .request = &grpc__health__v1__health_check_request__descriptor,
     .request_max = GRPC_HEALTH_MAX,
     .always = true,
     .handle = grpc_health_watch,
     .look = grpc_health_look},
    {.path = "/r",
     .request = &grpc__reflection__v1__server_reflection_request__descriptor,
     .request_max = GRPC_REFLECTION_MAX,
     .always = true,
     .many = true,
     .handle = grpc_reflection},
};

static void open_gates(void)
{
    const struct grpc_facts facts = {
        .anonymous = ACCESS_ANONYMOUS, .methods = methods, .method_count = 4};
    if (h2 != NULL)
        return;
    ASSERT(batches_new(alloc_heap(), SESSION, CALL_LEN, &stats, &batches) == 0);
    ASSERT(grpc_gate_new(alloc_heap(), &facts, batches, &grpc_stats, &grpc) == 0);
    const struct h2_user user = grpc_gate_user(grpc);
    ASSERT(h2_gate_new(alloc_heap(), &user, 1, &stats, &h2_stats, &h2) == 0);
}

static void submit(void)
{
    const uint8_t *frame;
    const size_t len = batches_submit(batches, &frame);
    if (len == 0)
        return;
    ASSERT(len <= FRAME_LEN);
    if (frame_count == FRAMES)
        return; /* it never answers */
    memcpy(frames[frame_count].bytes, frame, len);
    frames[frame_count++].len = len;
}

/* The shard answers the oldest frame; those checks whose bits are set are left. */
static void answer(uint8_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[1 << 20];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    if (frame_count == 0)
        return;
    uint8_t *copy = fuzz_copy(frames[0].bytes, frames[0].len);
    ASSERT(wire_decode_checks(copy, frames[0].len, &space, &checks, error) == 0); /* BATCHES-4 */
    const struct wire_decisions_head answered = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.flags[i] = (pending >> i % 8 & 1) != 0 ? WIRE_PENDING : WIRE_ALLOWED;
        columns.remaining[i] = i % 4;
        columns.source_index[i] = WIRE_SOURCE_NONE;
    }
    const int len = wire_encode_decisions(&answered, &columns, &sources, NULL, reply, sizeof reply);
    ASSERT(len > 0);
    batches_answer(batches, reply, (size_t)len, &finder);
    free(copy);
    if (pending != 0)
        return;
    frame_count--;
    memmove(&frames[0], &frames[1], frame_count * sizeof frames[0]);
}

/* What is sent is frames, of types that a server sends and of a length that it may have. */
static void look_at_frames(void)
{
    for (size_t at = 0; at < base.out.len;) {
        if (body_left > 0) {
            const size_t count = body_left < base.out.len - at ? body_left : base.out.len - at;
            body_left -= count;
            at += count;
            continue;
        }
        head[head_len++] = (uint8_t)base.out.data[at++];
        if (head_len < HEAD_LEN)
            continue;
        head_len = 0;
        body_left = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        ASSERT(body_left <= 1 << 14 && head[3] <= NGHTTP2_CONTINUATION);
    }
    base.out.len = 0;
}

static void pump(struct h2_peer *peer)
{
    while (h2_pump(peer, false)) {
        ASSERT(base.out.len == base.out.capacity);
        look_at_frames();
    }
    look_at_frames();
}

static void feed(struct h2_peer *peer, const uint8_t *data, size_t len)
{
    size_t at = 0;
    while (!base.closing) {
        size_t used;
        char *copy = (char *)fuzz_copy(data + at, len - at);
        const enum gateway_stop stop = h2_take(peer, copy, len - at, &used);
        free(copy);
        ASSERT(used <= len - at);
        at += used;
        h2_check_peer(peer);
        if (stop == GATEWAY_NEED_SUBMIT) {
            submit();
            continue;
        }
        ASSERT(stop == GATEWAY_NEED_BYTES || stop == GATEWAY_AT_END);
        ASSERT(at == len);
        break;
    }
    pump(peer);
}

static void later(int64_t ns)
{
    now_ns += ns;
    batches->now_ns = now_ns;
    h2_gate_now(h2, now_ns);
    batches_expire(batches, &finder);
    h2_gate_look(h2, &finder);
}

static void step(struct fuzz_input *input, struct h2_peer *peer)
{
    const uint8_t what = fuzz_u8(input);
    static const uint8_t prefix[] = {0, 0, 0, 1, 4, 0, 0, 0, 1}; /* of an END_HEADERS */
    if (what < 128) {                                            /* so many bytes */
        const size_t left = input->len - input->at;
        const size_t len = what < left ? what : left;
        feed(peer, input->data + input->at, len);
        input->at += len;
    } else if (what < 192) {
        submit();
    } else if (what < 224) {
        answer(fuzz_u8(input));
    } else if (what < 240) {
        later((what - 223) * 100 * MS);
    } else if (what < 250) {
        grpc_gate_stage(grpc, (what & 1) != 0, (what & 2) != 0 ? "waits" : NULL, NULL);
    } else if (what < 253) {
        later(H2_QUIET_NS);
    } else {
        feed(peer, prefix, sizeof prefix);
    }
    if (!base.closing)
        pump(peer);
    h2_check_peer(peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char settings[] = NGHTTP2_CLIENT_MAGIC "\0\0\0\4\0\0\0\0\0";
    struct fuzz_input input = fuzz_open(data, len);
    open_gates();
    grpc_gate_stage(grpc, true, NULL, NULL);
    base = (struct gateway_peer){.out = {.data = out, .capacity = sizeof out}};
    gone = false;
    frame_count = 0;
    head_len = body_left = 0;
    struct h2_peer *peer = h2_open(h2, &base, TOKEN);
    ASSERT(peer != NULL);
    feed(peer, (const uint8_t *)settings,
         NGHTTP2_CLIENT_MAGIC_LEN + (fuzz_u8(&input) % 2 == 0 ? HEAD_LEN : 0U));
    while (fuzz_more(&input) && !base.closing)
        step(&input, peer);
    batches_check_invariants(batches);
    batches_check_peer(batches, &base, TOKEN);
    gone = true;
    h2_close(&peer);
    submit();
    later(10000 * MS);
    ASSERT(batches->waiting == 0);
    return 0;
}
