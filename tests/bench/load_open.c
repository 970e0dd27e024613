/* load_open.c - at a given rate, whether it is answered or not.
 *
 * Message n is due at start + n / rate; what is late is sent at once, and its time counts from when
 * it was due, so that a node that stalls is not asked less, nor looks quicker. A connection that
 * takes no more (its queue and the kernel's are full) makes the message `unsent`: what a program
 * would see as a send that fails at once. What has no answer within its time-out is lost. Beside
 * the sums, the course of the run is told in steps of 100 ms, by the time of the answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#include "tests/bench/load.h"

enum { TURN_SENDS_MAX = 64, SEND_QUEUE = 64, STEPS_MAX = 3600 * 10, PENDING_MAX = 1 << 21 };

struct step {
    uint64_t decided;
    uint64_t busy;
};

struct open {
    const struct load_options *options;
    struct load_frames frames;
    void *sockets[LOAD_CONNECTIONS_MAX];
    uint32_t socket_count;
    uint32_t next_frame;
    uint64_t seq;
    uint64_t oldest; /* seq below which nothing is pending */
    int64_t *due_ns; /* by seq; 0: answered, or never sent */
    int64_t start_ns;
    struct step *steps;
    struct load_outcome *outcome;
};

static void send_one(struct open *open, int64_t due_ns)
{
    const uint32_t items = open->options->items;
    struct load_frame *frame = &open->frames.frames[open->next_frame];
    void *socket = open->sockets[open->seq % open->socket_count];
    open->next_frame = open->next_frame + 1 == open->frames.count ? 0 : open->next_frame + 1;
    open->seq++;
    open->outcome->asked += items;
    load_frame_number(frame, open->seq);
    if (zmq_send(socket, frame->data, frame->len, ZMQ_DONTWAIT) < 0) {
        open->outcome->unsent += items;
        open->due_ns[open->seq % PENDING_MAX] = 0;
        return;
    }
    open->due_ns[open->seq % PENDING_MAX] = due_ns;
}

/* Gives up what waited for longer than its time-out. */
static void give_up(struct open *open, int64_t now_ns)
{
    const int64_t limit_ns = (int64_t)open->options->timeout_ms * 1000000;
    while (open->oldest < open->seq) {
        int64_t *due_ns = &open->due_ns[(open->oldest + 1) % PENDING_MAX];
        if (*due_ns != 0 && now_ns - *due_ns < limit_ns)
            return;
        if (*due_ns != 0)
            open->outcome->lost += open->options->items;
        *due_ns = 0;
        open->oldest++;
    }
}

static void count_one(struct open *open, const void *data, size_t len, int64_t now_ns)
{
    struct load_outcome *outcome = open->outcome;
    const uint64_t before = outcome->allowed + outcome->denied;
    const uint64_t busy = outcome->busy;
    uint64_t seq = load_answer_seq(data, len);
    int64_t *due_ns = &open->due_ns[seq % PENDING_MAX];
    if (seq <= open->oldest || seq > open->seq || *due_ns == 0)
        return; /* given up already */
    if (!load_count_answer(data, len, open->options->items, now_ns - *due_ns, outcome, &seq))
        return;
    *due_ns = 0;
    const int64_t at = (now_ns - open->start_ns) / (LOAD_STEP_MS * INT64_C(1000000));
    if (at >= 0 && at < STEPS_MAX) {
        open->steps[at].decided += outcome->allowed + outcome->denied - before;
        open->steps[at].busy += outcome->busy - busy;
    }
}

static void take_answers(struct open *open, int64_t now_ns)
{
    zmq_msg_t message;
    (void)zmq_msg_init(&message);
    for (uint32_t i = 0; i < open->socket_count; i++)
        for (int n = 0; n < TURN_SENDS_MAX; n++) {
            if (zmq_msg_recv(&message, open->sockets[i], ZMQ_DONTWAIT) < 0)
                break;
            count_one(open, zmq_msg_data(&message), zmq_msg_size(&message), now_ns);
        }
    (void)zmq_msg_close(&message);
}

/* Sleeps until something is due or answered, for a millisecond at most. */
static void rest(struct open *open, int64_t due_ns)
{
    zmq_pollitem_t polls[LOAD_CONNECTIONS_MAX];
    if (due_ns - load_now_ns() < 200000)
        return;
    for (uint32_t i = 0; i < open->socket_count; i++)
        polls[i] = (zmq_pollitem_t){.socket = open->sockets[i], .events = ZMQ_POLLIN};
    (void)zmq_poll(polls, (int)open->socket_count, 1);
}

static void run_until(struct open *open, double seconds, double rate)
{
    const int64_t start_ns = load_now_ns();
    const int64_t end_ns = start_ns + (int64_t)(seconds * 1e9);
    uint64_t sent = 0;
    for (int64_t now_ns = start_ns; now_ns < end_ns; now_ns = load_now_ns()) {
        int64_t due_ns = start_ns + (int64_t)((double)sent * 1e9 / rate);
        for (int n = 0; n < TURN_SENDS_MAX && due_ns <= now_ns; n++) {
            send_one(open, due_ns);
            sent++;
            due_ns = start_ns + (int64_t)((double)sent * 1e9 / rate);
        }
        take_answers(open, now_ns);
        give_up(open, now_ns);
        rest(open, due_ns);
    }
}

static void print_course(const struct open *open, double seconds)
{
    const size_t count = (size_t)(seconds * 1000 / LOAD_STEP_MS);
    printf("{\"course_step_ms\":%d,\"course\":[", LOAD_STEP_MS);
    for (size_t i = 0; i < count && i < STEPS_MAX; i++)
        printf("%s[%" PRIu64 ",%" PRIu64 "]", i == 0 ? "" : ",", open->steps[i].decided,
               open->steps[i].busy);
    printf("]}\n");
}

static void open_sockets(struct open *open, void *context)
{
    const struct load_options *options = open->options;
    for (uint32_t c = 0; c < options->connections; c++)
        open->sockets[open->socket_count++] =
            load_connect(context, options->endpoints[c % options->endpoint_count], SEND_QUEUE);
}

void load_run_open(void *context, const struct load_options *options, struct load_outcome *outcome)
{
    struct open *open = load_memory(1, sizeof *open);
    const uint64_t session = load_session();
    open->options = options;
    open->outcome = outcome;
    open->due_ns = load_memory(PENDING_MAX, sizeof *open->due_ns);
    open->steps = load_memory(STEPS_MAX, sizeof *open->steps);
    load_frames_build(options, NULL, session, &open->frames);
    open_sockets(open, context);
    open->start_ns = load_now_ns();
    load_measure_begin(options, outcome);
    run_until(open, options->seconds, options->rate);
    load_measure_end(options, outcome);
    give_up(open, INT64_MAX / 2);
    print_course(open, options->seconds);
    for (uint32_t i = 0; i < open->socket_count; i++)
        (void)zmq_close(open->sockets[i]);
    for (uint32_t i = 0; i < open->frames.count; i++)
        free(open->frames.frames[i].data);
    free(open->frames.frames);
    free(open->due_ns);
    free(open->steps);
    free(open);
}
