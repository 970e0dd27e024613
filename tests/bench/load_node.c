/* load_node.c - talking to a node: a connection, who decides what, and reading what it answers. */
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "tests/bench/load.h"

enum { ASK_MS = 5000, SEND_BYTES = 128 << 10, FRAME_MAX = WIRE_MESSAGE_MAX, SEQ_MASK_BITS = 40 };

uint64_t load_session(void)
{
    return UINT64_C(1) << 62 | (uint64_t)load_now_ns();
}

static bool set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

void *load_connect(void *context, const char *endpoint, uint32_t queue)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    bool ok = socket != NULL && set_int(socket, ZMQ_LINGER, 0);
    if (queue > 0)
        ok = ok && set_int(socket, ZMQ_SNDHWM, (int)queue) &&
             set_int(socket, ZMQ_SNDBUF, SEND_BYTES);
    if (!ok || zmq_connect(socket, endpoint) != 0)
        load_fail("%s: %s", endpoint, zmq_strerror(zmq_errno()));
    return socket;
}

/* Sends `out` and receives the answer into `in` (FRAME_MAX bytes). Returns its length. */
static size_t ask(void *socket, const uint8_t *out, int len, uint8_t *in)
{
    if (len <= 0 || zmq_send(socket, out, (size_t)len, 0) < 0)
        load_fail("the first question cannot be sent");
    const int found = zmq_recv(socket, in, FRAME_MAX, 0);
    if (found < 0 || found > FRAME_MAX)
        load_fail("the node does not answer within %d ms", ASK_MS);
    return (size_t)found;
}

static uint32_t endpoint_index(const struct load_options *options, struct wire_text text)
{
    const size_t scheme = strlen("tcp://");
    for (uint32_t e = 0; e < options->endpoint_count; e++)
        if (strlen(options->endpoints[e]) == scheme + text.len &&
            memcmp(options->endpoints[e] + scheme, text.data, text.len) == 0)
            return e;
    load_fail("endpoints: expected %.*s among them", (int)text.len, text.data);
}

/* The member that a check of the vnode is sent to. */
static uint32_t member_for(const struct load_options *options, const struct wire_ring *ring,
                           uint32_t vnode)
{
    const uint32_t decider = wire_ring_decider(ring, vnode);
    if (decider == WIRE_MEMBER_NONE)
        load_fail("nobody decides vnode %u", vnode);
    if (options->route == LOAD_DECIDER)
        return decider;
    if (ring->member_count < 2)
        load_fail("route=other: expected a cluster of two nodes at least");
    return (decider + 1) % ring->member_count;
}

void load_ring_ask(void *context, const struct load_options *options, uint64_t session,
                   struct load_ring *ring)
{
    const struct wire_hello hello = {
        .session = session, .version_min = 1, .version_max = 1, .agent = wire_text_of("load")};
    const struct wire_get_ring get = {.session = session, .seq = 1};
    const int ask_ms = ASK_MS;
    uint8_t *in = load_memory(1, FRAME_MAX);
    struct wire_ring_space *space = load_memory(1, sizeof *space);
    struct wire_welcome welcome;
    struct wire_ring found;
    uint8_t out[256];
    char error[WIRE_ERROR_LEN];
    void *socket = load_connect(context, options->endpoints[0], 0);
    if (zmq_setsockopt(socket, ZMQ_RCVTIMEO, &ask_ms, sizeof ask_ms) != 0)
        load_fail("no time-out can be set");
    size_t len = ask(socket, out, wire_encode_hello(&hello, out, sizeof out), in);
    if (wire_decode_welcome(in, len, &welcome, error) != 0)
        load_fail("welcome: %s", error);
    ring->route_key = welcome.route_key;
    len = ask(socket, out, wire_encode_get_ring(&get, out, sizeof out), in);
    if (wire_decode_ring(in, len, space, &found, error) != 0)
        load_fail("ring: %s", error);
    ring->vnodes = found.vnode_count;
    for (uint32_t v = 0; v < found.vnode_count; v++)
        ring->targets[v] = (uint16_t)endpoint_index(
            options, wire_ring_endpoint(&found, member_for(options, &found, v), v));
    (void)zmq_close(socket);
    free(space);
    free(in);
}

uint64_t load_answer_seq(const void *frame, size_t len)
{
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(frame, len, &envelope, error) != 0)
        return 0;
    return envelope.seq & ((UINT64_C(1) << SEQ_MASK_BITS) - 1);
}

static void count_refusal(const void *frame, size_t len, uint32_t items, int64_t took_ns,
                          struct load_outcome *outcome)
{
    struct wire_error refusal;
    char error[WIRE_ERROR_LEN];
    if (wire_decode_error(frame, len, &refusal, error) == 0 && refusal.code == TG_EBUSY) {
        outcome->busy += items;
        load_histogram_add(&outcome->busy_latency, took_ns, items);
    } else {
        outcome->errors += items;
    }
}

bool load_count_answer(const void *frame, size_t len, uint32_t items, int64_t took_ns,
                       struct load_outcome *outcome, uint64_t *seq)
{
    static struct wire_decisions_space space;
    struct wire_decisions decisions;
    char error[WIRE_ERROR_LEN];
    uint64_t allowed = 0;
    uint64_t busy = 0;
    uint64_t errors = 0;
    outcome->messages++;
    if (wire_decode_decisions(frame, len, &space, &decisions, error) != 0) {
        *seq = load_answer_seq(frame, len);
        count_refusal(frame, len, items, took_ns, outcome);
        return *seq != 0;
    }
    *seq = decisions.head.seq & ((UINT64_C(1) << SEQ_MASK_BITS) - 1);
    for (uint32_t i = 0; i < decisions.head.count; i++) {
        allowed += decisions.flags[i] & WIRE_ALLOWED;
        outcome->degraded += (decisions.flags[i] & WIRE_DEGRADED) != 0;
        busy += decisions.outcomes[i] == OUTCOME_BUSY;
        errors += decisions.outcomes[i] == OUTCOME_ERROR;
    }
    outcome->allowed += allowed;
    outcome->busy += busy;
    outcome->errors += errors;
    outcome->denied += decisions.head.count - allowed - busy - errors;
    load_histogram_add(&outcome->latency, took_ns, decisions.head.count - busy - errors);
    load_histogram_add(&outcome->busy_latency, took_ns, busy);
    return true;
}
