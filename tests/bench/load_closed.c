/* load_closed.c - as fast as it is answered: `window` messages are out on each connection, always.
 *
 * With one message of one check this is what a program sees that asks and waits. The echo is the
 * same with a server that does nothing: what ZeroMQ alone costs.
 */
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "tests/bench/load.h"

enum { SILENCE_MS = 10000 };

struct connection {
    void *socket;
    uint32_t target;
    uint32_t next; /* frame */
};

struct closed {
    const struct load_options *options;
    struct load_frames frames;
    struct connection connections[LOAD_CONNECTIONS_MAX];
    uint32_t connection_count;
    uint64_t seq;
    int64_t sent_ns[LOAD_WINDOW_MAX];
    struct load_outcome *outcome;
};

static void send_next(struct closed *closed, struct connection *connection)
{
    const struct load_frames *frames = &closed->frames;
    struct load_frame *frame = &frames->frames[connection->next];
    if (++connection->next == frames->first[connection->target + 1])
        connection->next = frames->first[connection->target];
    closed->seq++;
    load_frame_number(frame, closed->seq);
    closed->sent_ns[closed->seq % LOAD_WINDOW_MAX] = load_now_ns();
    if (zmq_send(connection->socket, frame->data, frame->len, 0) < 0)
        load_fail("a message cannot be sent: %s", zmq_strerror(zmq_errno()));
}

/* Takes what there is on the connection, waiting for the first if asked to; asks as much again. */
static void take_answers(struct closed *closed, struct connection *connection, bool waits)
{
    int flags = waits ? 0 : ZMQ_DONTWAIT;
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    for (uint32_t i = 0; i < closed->options->window; i++) {
        uint64_t seq;
        if (zmq_msg_recv(&message, connection->socket, flags) < 0) {
            if (waits && i == 0)
                load_fail("no answer within %d ms", SILENCE_MS);
            break;
        }
        flags = ZMQ_DONTWAIT;
        const void *data = zmq_msg_data(&message);
        const size_t len = zmq_msg_size(&message);
        const uint64_t at = load_answer_seq(data, len) % LOAD_WINDOW_MAX;
        if (!load_count_answer(data, len, closed->options->items,
                               load_now_ns() - closed->sent_ns[at], closed->outcome, &seq))
            load_fail("an answer to nothing that was asked");
        send_next(closed, connection);
    }
    (void)zmq_msg_close(&message);
}

static void turn(struct closed *closed, zmq_pollitem_t *polls)
{
    if (closed->connection_count == 1) {
        take_answers(closed, &closed->connections[0], true);
        return;
    }
    for (uint32_t i = 0; i < closed->connection_count; i++)
        polls[i] = (zmq_pollitem_t){.socket = closed->connections[i].socket, .events = ZMQ_POLLIN};
    if (zmq_poll(polls, (int)closed->connection_count, SILENCE_MS) <= 0)
        load_fail("no answer within %d ms", SILENCE_MS);
    for (uint32_t i = 0; i < closed->connection_count; i++)
        if ((polls[i].revents & ZMQ_POLLIN) != 0)
            take_answers(closed, &closed->connections[i], false);
}

static void run_until(struct closed *closed, int64_t end_ns)
{
    zmq_pollitem_t polls[LOAD_CONNECTIONS_MAX];
    while (load_now_ns() < end_ns)
        turn(closed, polls);
}

static void open_connections(struct closed *closed, void *context)
{
    const struct load_options *options = closed->options;
    const int silence_ms = SILENCE_MS;
    const uint32_t targets = options->targets != 0 ? options->targets : options->endpoint_count;
    for (uint32_t e = 0; e < options->endpoint_count && e < targets; e++) {
        const uint32_t first = closed->frames.first[e];
        const uint32_t count = closed->frames.first[e + 1] - first;
        for (uint32_t c = 0; c < options->connections && count > 0; c++) {
            struct connection *connection = &closed->connections[closed->connection_count++];
            connection->socket = load_connect(context, options->endpoints[e], 0);
            connection->target = e;
            connection->next = first + (uint32_t)((uint64_t)count * c / options->connections);
            (void)zmq_setsockopt(connection->socket, ZMQ_RCVTIMEO, &silence_ms, sizeof silence_ms);
        }
    }
}

void load_run_closed(void *context, const struct load_options *options,
                     struct load_outcome *outcome)
{
    struct closed *closed = load_memory(1, sizeof *closed);
    struct load_outcome *warm = load_memory(1, sizeof *warm);
    struct load_ring *ring = load_memory(1, sizeof *ring);
    const uint64_t session = load_session();
    closed->options = options;
    closed->outcome = warm;
    if (options->route != LOAD_FIRST)
        load_ring_ask(context, options, session, ring);
    load_frames_build(options, options->route != LOAD_FIRST ? ring : NULL, session,
                      &closed->frames);
    free(ring);
    open_connections(closed, context);
    for (uint32_t i = 0; i < closed->connection_count; i++)
        for (uint32_t w = 0; w < options->window; w++)
            send_next(closed, &closed->connections[i]);
    run_until(closed, load_now_ns() + (int64_t)(options->warm_s * 1e9));
    closed->outcome = outcome;
    load_measure_begin(options, outcome);
    run_until(closed, load_now_ns() + (int64_t)(options->seconds * 1e9));
    load_measure_end(options, outcome);
    for (uint32_t i = 0; i < closed->connection_count; i++)
        (void)zmq_close(closed->connections[i].socket);
    for (uint32_t i = 0; i < closed->frames.count; i++)
        free(closed->frames.frames[i].data);
    free(closed->frames.frames);
    free(closed);
    free(warm);
}

/* ---- the echo -------------------------------------------------------------------------------- */

void load_serve_echo(void *context, const struct load_options *options)
{
    void *socket = zmq_socket(context, ZMQ_ROUTER);
    if (socket == NULL || zmq_bind(socket, options->endpoints[0]) != 0)
        load_fail("%s: %s", options->endpoints[0], zmq_strerror(zmq_errno()));
    for (;;) {
        zmq_msg_t part;
        (void)zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, 0) < 0)
            load_fail("echo: %s", zmq_strerror(zmq_errno()));
        const int more = zmq_msg_more(&part) ? ZMQ_SNDMORE : 0;
        if (zmq_msg_send(&part, socket, more) < 0)
            (void)zmq_msg_close(&part);
    }
}

static void echo_until(void *socket, uint8_t *bytes, uint32_t len, int64_t end_ns,
                       struct load_outcome *outcome)
{
    int64_t now_ns = load_now_ns();
    while (now_ns < end_ns) {
        const int64_t sent_ns = now_ns;
        if (zmq_send(socket, bytes, len, 0) < 0 || zmq_recv(socket, bytes, len, 0) < 0)
            load_fail("no echo within %d ms", SILENCE_MS);
        now_ns = load_now_ns();
        load_histogram_add(&outcome->latency, now_ns - sent_ns, 1);
        outcome->messages++;
        outcome->allowed++;
    }
}

void load_run_echo(void *context, const struct load_options *options, struct load_outcome *outcome)
{
    void *socket = load_connect(context, options->endpoints[0], 0);
    uint8_t *bytes = load_memory(options->bytes, 1);
    struct load_outcome *warm = load_memory(1, sizeof *warm);
    const int silence_ms = SILENCE_MS;
    (void)zmq_setsockopt(socket, ZMQ_RCVTIMEO, &silence_ms, sizeof silence_ms);
    echo_until(socket, bytes, options->bytes, load_now_ns() + (int64_t)(options->warm_s * 1e9),
               warm);
    load_measure_begin(options, outcome);
    echo_until(socket, bytes, options->bytes, load_now_ns() + (int64_t)(options->seconds * 1e9),
               outcome);
    load_measure_end(options, outcome);
    (void)zmq_close(socket);
    free(bytes);
    free(warm);
}
