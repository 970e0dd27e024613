/* test_connections.c - clients over real sockets, mostly of Redis; the test is their shard. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/gateway/batches.h"
#include "node/gateway/resp_gate.h"
#include "node/runtime/shard/connections_state.h"
#include "node/runtime/system/busy_poll.h"
#include "node/runtime/system/listener.h"

enum { CLIENTS_MAX = 200, ADDRESS_MAX = 150, FRAMES_MAX = 64, WAIT_MS = 20000 };
#define QUIET_NS INT64_C(200000000)
struct frame {
    uint8_t *bytes;
    size_t len;
};

struct bench {
    struct connections *loop;
    struct resp_gate *gate;
    struct gateway_stats stats;
    struct clock clock;
    uint16_t port;
    bool holds; /* answers wait until release_all */
    bool slow;  /* a message takes longer than a turn */
    int asker;  /* a client that asks once more while a message is decided, `asks` times; or 0 */
    uint32_t asks;
    struct frame frames[FRAMES_MAX];
    uint32_t frame_count;
};
static struct bench bench;

static void decide(const uint8_t *bytes, size_t len)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    assert_int_equal(wire_decode_checks(bytes, len, &space, &checks, error), 0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.flags[i] = WIRE_ALLOWED;
        columns.remaining[i] = wire_checks_cost(&checks, i);
        columns.source_index[i] = WIRE_SOURCE_NONE;
    }
    const int encoded = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(encoded > 0);
    connections_answer(bench.loop, reply, (size_t)encoded);
}

static void submit(void *context, const void *bytes, size_t len)
{
    const int64_t until_ns = clock_mono_ns(&bench.clock) + INT64_C(2500000);
    (void)context;
    while (bench.slow && clock_mono_ns(&bench.clock) < until_ns)
        continue;
    if (bench.asks > 0) {
        bench.asks--;
        assert_int_equal(send(bench.asker, "CL.THROTTLE k 1 1 1 2\r\n", 23, MSG_NOSIGNAL), 23);
    }
    if (!bench.holds) {
        decide(bytes, len);
        return;
    }
    assert_true(bench.frame_count < FRAMES_MAX);
    struct frame *frame = &bench.frames[bench.frame_count++];
    *frame = (struct frame){malloc(len), len};
    assert_non_null(frame->bytes);
    memcpy(frame->bytes, bytes, len);
}

static void release_all(void)
{
    for (uint32_t i = 0; i < bench.frame_count; i++) {
        decide(bench.frames[i].bytes, bench.frames[i].len);
        free(bench.frames[i].bytes);
    }
    bench.frame_count = 0;
}

static bool bench_sleeps; /* the next loop may not poll */
static int setup(void **state)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener;
    memset(&bench, 0, sizeof bench);
    assert_int_equal(clock_init(&bench.clock), 0);
    assert_int_equal(listener_open("127.0.0.1", 0, &listener), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    bench.port = ntohs(address.sin_port);
    const struct resp_facts facts = {
        .anonymous = ACCESS_ANONYMOUS, .name = "n", .version = "1", .connections_max = CLIENTS_MAX};
    assert_int_equal(resp_gate_new(alloc_heap(), 5, &facts, &bench.stats, &bench.gate), 0);
    const struct connections_options options = {
        .codec = &resp_codec,
        .gate = bench.gate,
        .batches = resp_gate_batches(bench.gate),
        .stats = &bench.stats,
        .listeners = {listener},
        .listener_count = 1,
        .max = CLIENTS_MAX,
        .all = *state == NULL ? -1 : *(const int *)*state,
        .slow_ns = INT64_C(50000000),
        .begin_ns = INT64_C(50000000),
        .request_ns = INT64_C(50000000),
        .quiet_ns = QUIET_NS,
        .clock = &bench.clock,
        .submit = submit,
        .polls = !bench_sleeps,
    };
    return connections_new(&options, &bench.loop);
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < bench.frame_count; i++)
        free(bench.frames[i].bytes);
    connections_free(&bench.loop);
    resp_gate_free(&bench.gate);
    return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

/* From 127.0.0.`last`, another address of this machine for each number. */
static int dial_from(uint8_t last)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(bench.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr = {htonl(INADDR_LOOPBACK - 1 + last)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int dial(void)
{
    return dial_from(1);
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static struct gateway_stats stats(void)
{
    struct gateway_stats out;
    connections_stats(bench.loop, &out);
    return out;
}

/* One turn, when there is something to do or some time has passed. */
static void turn(void)
{
    struct pollfd ready = {.fd = connections_fd(bench.loop), .events = POLLIN};
    (void)poll(&ready, 1, connections_pending(bench.loop) ? 0 : 5);
    connections_turn(bench.loop);
    connections_check_invariants(bench.loop);
}

#define TURN_UNTIL(condition)                                                                      \
    do {                                                                                           \
        const int64_t until_ns = clock_mono_ns(&bench.clock) + WAIT_MS * INT64_C(1000000);         \
        while (!(condition)) {                                                                     \
            if (clock_mono_ns(&bench.clock) > until_ns)                                            \
                fail_msg("waited in vain for " #condition);                                        \
            turn();                                                                                \
        }                                                                                          \
    } while (0)

/* Turns until the client has been sent `wanted`, and that is all. */
static void expect(int fd, const char *wanted)
{
    static char found[1 << 16];
    const size_t len = strlen(wanted);
    size_t got = 0;
    for (int i = 0; i < 1000 && got < len; i++) {
        turn();
        const ssize_t some = recv(fd, found + got, len - got, MSG_DONTWAIT);
        got += some > 0 ? (size_t)some : 0;
    }
    if (got != len || memcmp(found, wanted, len) != 0)
        fail_msg("found \"%.*s\", expected \"%s\"", (int)got, found, wanted);
    assert_int_equal(recv(fd, found, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

/* Turns until the node has closed the connection. */
static bool closed(int fd)
{
    char byte;
    const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

#define THROTTLED(cost) "*5\r\n:0\r\n:2\r\n:" cost "\r\n:-1\r\n:0\r\n"

/* Pipelined requests are answered in order, whoever is to answer them. */
static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    const int fd = dial();
    say(fd, "CL.THROTTLE k 1 1 1 1\r\nPING\r\nCL.THROTTLE k 1 1 1 2\r\nCL.THROTTLE k 1 1 1 3\r\n"
            "PING\r\nECHO a");
    expect(fd, THROTTLED("1") "+PONG\r\n" THROTTLED("2") THROTTLED("3") "+PONG\r\n");
    say(fd, "b\r\n");
    expect(fd, "$2\r\nab\r\n");
    bench.holds = true;
    say(fd, "CL.THROTTLE k 1 1 1 4\r\nPING\r\n");
    TURN_UNTIL(bench.frame_count == 1);
    say(fd, "CL.THROTTLE k 1 1 1 5\r\n");
    for (int i = 0; i < 10; i++)
        turn();
    bench.holds = false;
    release_all();
    expect(fd, THROTTLED("4") "+PONG\r\n" THROTTLED("5"));
    (void)close(fd);
    TURN_UNTIL(stats().connections == 0);
}

/* Requests of many connections that come together are few messages to the shard. */
static void many_connections_share_messages(void **state)
{
    enum { MANY = 128 };
    int fds[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++)
        fds[i] = dial();
    TURN_UNTIL(stats().connections == MANY);
    for (int i = 0; i < MANY; i++)
        say(fds[i], "CL.THROTTLE k 1 1 1 1\r\n");
    TURN_UNTIL(stats().checks == MANY);
    assert_true(stats().batches <= 8);
    for (int i = 0; i < MANY; i++) {
        expect(fds[i], THROTTLED("1"));
        (void)close(fds[i]);
    }
}

/* Whether a client that asks again while its first question is decided has two answers after a
 * turn. */
static bool two_in_a_turn(void)
{
    const char wanted[] = THROTTLED("1") THROTTLED("2");
    char found[sizeof wanted];
    size_t got = 0;
    bench.asks = 1;
    say(bench.asker, "CL.THROTTLE k 1 1 1 1\r\n");
    turn();
    const ssize_t at_once = recv(bench.asker, found, sizeof found, MSG_DONTWAIT);
    got = at_once > 0 ? (size_t)at_once : 0;
    while (got < sizeof wanted - 1) {
        turn();
        const ssize_t some = recv(bench.asker, found + got, sizeof found - got, MSG_DONTWAIT);
        got += some > 0 ? (size_t)some : 0;
    }
    assert_memory_equal(found, wanted, sizeof wanted - 1);
    return at_once == sizeof wanted - 1;
}

/* Whoever has asked again when the others are answered need not wait for another turn: but if this
 * thread was kept waiting meanwhile. */
static void who_asks_meanwhile_is_answered_in_the_same_turn(void **state)
{
    bool found = false;
    (void)state;
    bench.asker = dial();
    TURN_UNTIL(stats().connections == 1);
    for (int i = 0; i < 1000 && !found; i++)
        found = two_in_a_turn();
    assert_true(found);
    (void)close(bench.asker);
}

/* What another node is to answer comes in the rest of the shard's turn. */
static void a_turn_does_not_go_on_while_an_answer_is_waited_for(void **state)
{
    (void)state;
    const int first = dial();
    bench.asker = dial();
    TURN_UNTIL(stats().connections == 2);
    bench.holds = true;
    bench.asks = 1;
    say(first, "CL.THROTTLE k 1 1 1 1\r\n");
    turn();
    assert_int_equal(bench.frame_count, 1);
    bench.holds = false;
    release_all();
    expect(first, THROTTLED("1"));
    expect(bench.asker, THROTTLED("2"));
    (void)close(first);
    (void)close(bench.asker);
}

/* A turn ends though there is always one who has asked again: others of the shard wait for it. */
static void a_turn_ends_though_each_answer_brings_a_question(void **state)
{
    enum { MANY = 100000 };
    (void)state;
    bench.asker = dial();
    TURN_UNTIL(stats().connections == 1);
    bench.asks = MANY;
    say(bench.asker, "CL.THROTTLE k 1 1 1 1\r\n");
    turn();
    assert_in_range(bench.asks, 1, MANY - 1);
    (void)close(bench.asker);
}

enum beside { NOTHING, LEAVES, HAD_OTHER_WORK, HAS_OTHER_WORK, HAD_IT_WHILE_POLLING };

/* Until the loop has something to read. */
static void wait_readable(void)
{
    struct pollfd turn = {.fd = connections_fd(bench.loop), .events = POLLIN};
    assert_int_equal(poll(&turn, 1, WAIT_MS), 1);
}

/* How often a turn looked for who was about to ask. */
static uint64_t polls_of_turn(void)
{
    const uint64_t before = stats().polls;
    connections_turn(bench.loop);
    return stats().polls - before;
}

/* A client that was accepted by a turn that did not poll, in a loop that may. */
static int dial_quietly(void)
{
    const int fd = dial();
    wait_readable();
    connections_other(bench.loop);
    connections_turn(bench.loop);
    const int64_t alone_ns = clock_mono_ns(&bench.clock) + BUSY_POLL_ALONE_NS;
    while (clock_mono_ns(&bench.clock) < alone_ns)
        continue;
    return fd;
}

/* How often a turn that answers a client looks for more, with what is beside. */
static uint64_t polls_after_an_answer(enum beside beside)
{
    const int other = eventfd(1, EFD_CLOEXEC); /* readable */
    void *state = beside >= HAS_OTHER_WORK ? (void *)(uintptr_t)&other : NULL;
    eventfd_t done;
    assert_int_equal(setup(&state), 0);
    const int fd = dial_quietly();
    if (beside == LEAVES)
        connections_leave(bench.loop);
    say(fd, "PING\r\n");
    wait_readable();
    if (beside == HAD_IT_WHILE_POLLING) {
        connections_turn(bench.loop);
        assert_int_equal(eventfd_read(other, &done), 0);
        say(fd, "PING\r\n");
        wait_readable();
    }
    if (beside == HAD_OTHER_WORK)
        connections_other(bench.loop);
    const uint64_t polls = polls_of_turn();
    (void)close(fd);
    (void)close(other);
    assert_int_equal(teardown(&state), 0);
    return polls;
}

/* How often a turn polls. A thread that is kept waiting meanwhile may find its turn too long to
 * begin with it: it tries again. */
static uint64_t polls_if_at_all(enum beside beside)
{
    uint64_t polls = 0;
    for (int i = 0; i < 1000 && polls == 0; i++)
        polls = polls_after_an_answer(beside);
    return polls;
}

/* Who is about to ask again need not wake the thread. */
static void a_turn_that_answered_somebody_polls(void **state)
{
    (void)state;
    assert_true(polls_if_at_all(NOTHING) >= 1);
}

static void *ask_later(void *argument)
{
    const int64_t at_ns = clock_mono_ns(&bench.clock) + BUSY_POLL_NS / 2;
    const int fd = *(const int *)argument;
    while (clock_mono_ns(&bench.clock) < at_ns)
        continue;
    say(fd, "PING\r\n");
    return NULL;
}

/* Whether the question of another thread, asked some time after the turn began, is answered in it;
 * where the threads do not run at the same time it is not. */
static bool answered_while_polling(void)
{
    void *state = NULL;
    char replies[14];
    pthread_t asker;
    assert_int_equal(setup(&state), 0);
    int fd = dial_quietly();
    say(fd, "PING\r\n");
    wait_readable();
    assert_int_equal(pthread_create(&asker, NULL, ask_later, &fd), 0);
    connections_turn(bench.loop);
    const ssize_t len = recv(fd, replies, sizeof replies, MSG_DONTWAIT);
    assert_int_equal(pthread_join(asker, NULL), 0);
    (void)close(fd);
    assert_int_equal(teardown(&state), 0);
    return len == sizeof replies;
}

static void who_asks_while_a_turn_polls_is_answered_in_it(void **state)
{
    bool found = false;
    (void)state;
    for (int i = 0; i < 1000 && !found; i++)
        found = answered_while_polling();
    assert_true(found);
}

/* Nobody is to be waited for where nothing was answered. */
static void a_turn_in_which_nobody_asked_does_not_poll(void **state)
{
    const int fd = dial_quietly();
    (void)state;
    say(fd, "PING\r\n");
    wait_readable();
    connections_turn(bench.loop);
    for (int i = 0; i <= BUSY_POLL_PASS_MIN; i++)
        assert_int_equal(polls_of_turn(), 0);
    (void)close(fd);
}

/* Nothing more is answered in a node that leaves; and less than two processors are not for it. */
static void a_turn_that_leaves_or_may_not_does_not_poll(void **state)
{
    (void)state;
    assert_int_equal(polls_after_an_answer(LEAVES), 0);
    bench_sleeps = true;
    assert_int_equal(polls_after_an_answer(NOTHING), 0);
    bench_sleeps = false;
}

/* Others who are waiting end it. */
static void a_turn_polls_no_longer_than_until_there_is_other_work(void **state)
{
    (void)state;
    assert_int_equal(polls_if_at_all(HAS_OTHER_WORK), 1);
}

/* Whether the turn after other work does not poll, unless this thread is kept waiting meanwhile. */
static bool rests_after(enum beside beside)
{
    bool found = false;
    for (int i = 0; i < 1000 && !found; i++)
        found = polls_after_an_answer(beside) == 0;
    return found;
}

/* Nor are others made to wait who are expected to come. */
static void a_turn_soon_after_other_work_does_not_poll(void **state)
{
    (void)state;
    assert_true(rests_after(HAD_OTHER_WORK));
    assert_true(rests_after(HAD_IT_WHILE_POLLING));
}

/* However much one client asks, and however long that takes, others are read as well. */
static void who_always_asks_more_starves_nobody(void **state)
{
    enum { LINE = 23, LINES = BATCH_MAX + 1, TURNS = 10 };
    static char text[LINES * LINE + 1];
    static char answers[1 << 16];
    (void)state;
    for (int i = 0; i < LINES; i++)
        memcpy(text + (size_t)i * LINE, "CL.THROTTLE k 1 1 1 1\r\n", LINE);
    const int greedy = dial();
    const int other = dial();
    TURN_UNTIL(stats().connections == 2);
    say(greedy, text);
    TURN_UNTIL(stats().checks == LINES);
    say(greedy, text);
    say(other, "PING\r\n");
    bench.slow = true;
    for (int i = 0; i < TURNS; i++) {
        turn();
        (void)!recv(greedy, answers, sizeof answers, MSG_DONTWAIT);
        say(greedy, text);
    }
    assert_int_equal(recv(other, answers, sizeof answers, MSG_DONTWAIT), 7);
    assert_memory_equal(answers, "+PONG\r\n", 7);
    (void)close(greedy);
    (void)close(other);
}

/* Who asks and never reads is cut off, in time, and little is kept for it; others go on. */
static void a_slow_reader_is_cut_off(void **state)
{
    enum { TEXT = 8000 };
    static char text[TEXT + 64];
    (void)state;
    const int slow = dial();
    const int other = dial();
    const int small = 1 << 14;
    (void)setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const int head = snprintf(text, sizeof text, "*2\r\n$4\r\nECHO\r\n$%d\r\n", TEXT);
    memset(text + head, 'x', TEXT);
    memcpy(text + head + TEXT, "\r\n", 2);
    uint64_t sent = 0;
    const int64_t end_ns = clock_mono_ns(&bench.clock) + WAIT_MS * INT64_C(1000000);
    while (stats().slow_readers == 0 && clock_mono_ns(&bench.clock) < end_ns) {
        const ssize_t some = send(slow, text, (size_t)head + TEXT + 2, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += some > 0 ? (uint64_t)some : 0; /* a part is not gone on with: it is over then */
        turn();
    }
    assert_int_equal(stats().slow_readers, 1);
    TURN_UNTIL(closed(slow) || stats().connections == 1);
    assert_true(sent > 0);
    say(other, "PING\r\n");
    expect(other, "+PONG\r\n");
    (void)close(slow);
    (void)close(other);
}

/* Nothing more is taken from a client whose checks are not answered: its sends come to a halt. */
static void what_is_not_answered_holds_its_client_up(void **state)
{
    enum { LINE = 23, LINES = 4000 };
    static char text[LINES * LINE];
    uint64_t sent = 0;
    (void)state;
    for (int i = 0; i < LINES; i++)
        memcpy(text + (size_t)i * LINE, "CL.THROTTLE k 1 1 1 1\r\n", LINE);
    const int fd = dial();
    bench.holds = true;
    for (uint32_t refused = 0; refused < 5;) {
        const size_t from = sent % sizeof text;
        const ssize_t some = send(fd, text + from, sizeof text - from, MSG_DONTWAIT | MSG_NOSIGNAL);
        refused = some < 0 ? refused + 1 : 0;
        sent += some > 0 ? (uint64_t)some : 0;
        turn();
    }
    assert_int_equal(bench.frame_count, 1);
    assert_int_equal(stats().checks, BATCH_MAX);
    struct pollfd ready = {.fd = connections_fd(bench.loop), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 0); /* and what has come does not wake the loop */
    bench.holds = false;
    release_all();
    TURN_UNTIL(stats().checks > BATCH_MAX);
    (void)close(fd);
}

/* One that says that it has sent all is answered all, and then closed. */
static void a_client_that_ends_is_answered_first(void **state)
{
    (void)state;
    const int fd = dial();
    bench.holds = true;
    say(fd, "CL.THROTTLE k 1 1 1 1\r\nPING\r\nPI");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    TURN_UNTIL(bench.frame_count == 1);
    for (int i = 0; i < 10; i++)
        turn();
    release_all();
    char found[128];
    size_t got = 0;
    for (int i = 0; i < 1000; i++) {
        turn();
        const ssize_t some = recv(fd, found + got, sizeof found - got, MSG_DONTWAIT);
        if (some == 0)
            break;
        got += some > 0 ? (size_t)some : 0;
    }
    const char *wanted = THROTTLED("1") "+PONG\r\n";
    assert_int_equal(got, strlen(wanted));
    assert_memory_equal(found, wanted, got);
    TURN_UNTIL(stats().connections == 0);
    (void)close(fd);
}

/* An answer for a connection that is gone does not reach the next one in its place. */
static void an_answer_does_not_reach_the_next_client(void **state)
{
    (void)state;
    const int first = dial();
    bench.holds = true;
    say(first, "CL.THROTTLE k 1 1 1 1\r\n");
    TURN_UNTIL(bench.frame_count == 1);
    const struct linger hard = {1, 0};
    (void)setsockopt(first, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    (void)close(first);
    TURN_UNTIL(stats().connections == 0);
    const int second = dial();
    TURN_UNTIL(stats().connections == 1);
    release_all();
    say(second, "PING\r\n");
    expect(second, "+PONG\r\n");
    (void)close(second);
}

/* What is no protocol is told so, and closed. */
static void what_is_no_protocol_is_closed(void **state)
{
    (void)state;
    const int fd = dial();
    say(fd, "PING\r\n*1\r\nx");
    char found[128];
    size_t got = 0;
    for (int i = 0; i < 1000; i++) {
        turn();
        const ssize_t some = recv(fd, found + got, sizeof found - got, MSG_DONTWAIT);
        if (some == 0)
            break;
        got += some > 0 ? (size_t)some : 0;
    }
    const char *wanted = "+PONG\r\n-ERR Protocol error: expected '$' before each argument\r\n";
    assert_int_equal(got, strlen(wanted));
    assert_memory_equal(found, wanted, got);
    assert_int_equal(stats().protocol_errors, 1);
    (void)close(fd);
}

static void expect_refused(int fd)
{
    static const char sentence[] = "-ERR max number of clients reached\r\n";
    char found[sizeof sentence];
    const uint64_t before = stats().refused;
    TURN_UNTIL(stats().refused > before);
    assert_int_equal(recv(fd, found, sizeof found, 0), sizeof sentence - 1);
    assert_memory_equal(found, sentence, sizeof sentence - 1);
    (void)close(fd);
}

static void wait_quiet(void)
{
    const int64_t quiet_ns = clock_mono_ns(&bench.clock) + QUIET_NS;
    TURN_UNTIL(clock_mono_ns(&bench.clock) > quiet_ns);
}

/* While nobody is quiet, a client beyond the bound is told so, as is one of an address that has
 * three quarters of all places; when one goes, there is room again. */
static void more_clients_than_the_bound_are_refused(void **state)
{
    int fds[CLIENTS_MAX];
    (void)state;
    for (int i = 0; i < ADDRESS_MAX; i++)
        fds[i] = dial_from(2);
    TURN_UNTIL(stats().connections == ADDRESS_MAX);
    expect_refused(dial_from(2));
    for (int i = ADDRESS_MAX; i < CLIENTS_MAX; i++)
        fds[i] = dial_from(1);
    TURN_UNTIL(stats().connections == CLIENTS_MAX);
    expect_refused(dial_from(3));
    (void)close(fds[7]);
    TURN_UNTIL(stats().connections == CLIENTS_MAX - 1);
    fds[7] = dial_from(2);
    say(fds[7], "PING\r\n");
    expect(fds[7], "+PONG\r\n");
    assert_int_equal(stats().evicted, 0);
    for (int i = 0; i < CLIENTS_MAX; i++)
        (void)close(fds[i]);
}

/* Connections that are left idle keep nobody out: a newcomer has the place of the one that was
 * quiet for longest, first of its own address. */
static void a_newcomer_has_the_place_of_who_was_quiet_for_longest(void **state)
{
    int fds[CLIENTS_MAX];
    (void)state;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        fds[i] = dial_from(i < ADDRESS_MAX ? 2 : 1);
        TURN_UNTIL(stats().accepted == (uint64_t)i + 1);
    }
    say(fds[0], "PING\r\n");
    expect(fds[0], "+PONG\r\n");
    wait_quiet();
    const int same = dial_from(1);
    say(same, "PING\r\n");
    expect(same, "+PONG\r\n");
    assert_int_equal(stats().evicted, 1);
    assert_true(closed(fds[1])); /* number 0 was heard later */
    const int own = dial_from(2);
    say(own, "PING\r\n");
    expect(own, "+PONG\r\n");
    assert_false(closed(fds[0]));
    assert_int_equal(stats().connections, CLIENTS_MAX);
    assert_int_equal(stats().refused, 0);
    for (int i = 0; i < CLIENTS_MAX; i++)
        (void)close(fds[i]);
    (void)close(same);
    (void)close(own);
}

/* One that waits for an answer, or is in the middle of a request, gives its place to nobody. */
static void who_is_owed_something_keeps_its_place(void **state)
{
    int fds[CLIENTS_MAX];
    (void)state;
    bench.holds = true;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        fds[i] = dial_from(i < ADDRESS_MAX ? 2 : 1);
        if (i < BATCH_MAX)
            say(fds[i], "CL.THROTTLE k 1 1 1 1\r\n");
        TURN_UNTIL(stats().accepted == (uint64_t)i + 1);
    }
    wait_quiet();
    const int late = dial_from(3);
    say(late, "PING\r\n");
    expect(late, "+PONG\r\n");
    release_all();
    for (int i = 0; i < BATCH_MAX; i++)
        expect(fds[i], THROTTLED("1"));
    assert_true(closed(fds[BATCH_MAX]));
    for (int i = 0; i < CLIENTS_MAX; i++)
        (void)close(fds[i]);
    (void)close(late);
}

/* A request that does not come to its end is cut off in time, however slowly it goes on; one that
 * is idle between requests is not. */
static void a_request_without_an_end_is_cut_off(void **state)
{
    (void)state;
    const int slow = dial();
    const int idle = dial();
    say(idle, "PING\r\n");
    expect(idle, "+PONG\r\n");
    say(slow, "PING\r\n*1\r\n$60000\r\n");
    expect(slow, "+PONG\r\n");
    const int64_t end_ns = clock_mono_ns(&bench.clock) + WAIT_MS * INT64_C(1000000);
    while (!closed(slow) && clock_mono_ns(&bench.clock) < end_ns) {
        (void)send(slow, "x", stats().unfinished == 0, MSG_NOSIGNAL);
        turn();
    }
    assert_int_equal(stats().unfinished, 1);
    say(idle, "PING\r\n");
    expect(idle, "+PONG\r\n");
    (void)close(slow);
    (void)close(idle);
}

/* A transaction is something that was begun, too: nobody keeps its memory by being silent. */
static void a_transaction_without_an_end_is_cut_off(void **state)
{
    (void)state;
    const int fd = dial();
    say(fd, "MULTI\r\nPING\r\n");
    expect(fd, "+OK\r\n+QUEUED\r\n");
    TURN_UNTIL(stats().unfinished == 1);
    TURN_UNTIL(closed(fd));
    (void)close(fd);
}

/* What a long request has needed does not stay with the first bytes of the next one. */
static void memory_of_a_long_request_is_given_back(void **state)
{
    enum { LEN = 60000 };
    static char text[LEN + 64];
    (void)state;
    const int fd = dial();
    const int head = snprintf(text, sizeof text, "*2\r\n$4\r\nPING\r\n$%d\r\n", LEN);
    memset(text + head, 'x', LEN);
    say(fd, text);
    TURN_UNTIL(bench.loop->kept_total >= LEN);
    say(fd, "\r\n*1\r\n");
    TURN_UNTIL(stats().commands == 1);
    assert_in_range(bench.loop->kept_total, 1, 4096);
    say(fd, "$4\r\nPING\r\n");
    TURN_UNTIL(stats().commands == 2);
    assert_int_equal(bench.loop->kept_total, 0);
    (void)close(fd);
}

/* Many that can go on at once do not make one turn as long as all of them take: peers wait for this
 * thread. Each of them fills a message of its own, and each takes longer than a turn. */
static void a_turn_is_short_however_many_can_go_on(void **state)
{
    enum { MANY = 20, LINE = 23 };
    static char text[BATCH_MAX * LINE + 1];
    int fds[MANY];
    (void)state;
    for (int i = 0; i < BATCH_MAX; i++)
        memcpy(text + (size_t)i * LINE, "CL.THROTTLE k 1 1 1 1\r\n", LINE);
    bench.holds = true;
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial();
        say(fds[i], "CL.THROTTLE k 1 1 1 1\r\nPING\r\n");
        say(fds[i], text);
    }
    TURN_UNTIL(stats().checks == MANY);
    bench.holds = false;
    release_all();
    bench.slow = true;
    const uint64_t before = stats().batches;
    turn();
    assert_in_range(stats().batches - before, 1, 4);
    TURN_UNTIL(stats().checks == MANY + MANY * BATCH_MAX);
    for (int i = 0; i < MANY; i++)
        (void)close(fds[i]);
}

/* Without descriptors the listener rests instead of waking the loop for ever, and comes back. */
static void without_descriptors_the_listener_rests(void **state)
{
    struct rlimit limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int fd = dial();
    const struct rlimit none = {.rlim_cur = (rlim_t)fd + 1, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    TURN_UNTIL(stats().accept_failures > 0);
    struct pollfd ready = {.fd = connections_fd(bench.loop), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 0); /* nothing wakes the loop */
    assert_int_equal(stats().accepted, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    say(fd, "PING\r\n");
    TURN_UNTIL(stats().accepted == 1);
    expect(fd, "+PONG\r\n");
    (void)close(fd);
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* Turns until the client was sent `wanted`, and told that no more comes: by an end, not a reset. */
static void expect_last(int fd, const char *wanted)
{
    char found[256];
    size_t len = 0;
    ssize_t got;
    do {
        TURN_UNTIL((got = recv(fd, found + len, sizeof found - len, MSG_DONTWAIT)) >= 0 ||
                   errno != EAGAIN);
        len += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    assert_int_equal(got, 0);
    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(found, wanted, len);
}

/* Who is closed reads what it was told, though it has sent more: by an end, not a reset. But what
 * it goes on sending is not thrown away for ever. */
static void who_is_closed_reads_what_it_was_told(void **state)
{
    enum { MORE = 60000 };
    static char more[MORE];
    (void)state;
    const int fd = dial();
    say(fd, "QUIT\r\n");
    assert_int_equal(send(fd, more, MORE, MSG_NOSIGNAL | MSG_DONTWAIT), MORE);
    expect_last(fd, "+OK\r\n");
    assert_int_equal(send(fd, more, MORE, MSG_NOSIGNAL | MSG_DONTWAIT), MORE);
    TURN_UNTIL(stats().connections == 0);
    (void)close(fd);
    const int flood = dial();
    say(flood, "QUIT\r\n");
    const int64_t end_ns = clock_mono_ns(&bench.clock) + WAIT_MS * INT64_C(1000000);
    uint64_t sent = 0;
    ssize_t some = 0;
    while ((some >= 0 || errno == EAGAIN) && clock_mono_ns(&bench.clock) < end_ns) {
        some = send(flood, more, MORE, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += some > 0 ? (uint64_t)some : 0;
        turn();
    }
    assert_in_range(sent, 1, 16 << 20);
    (void)close(flood);
}

/* Who stops answers what it has read, whoever is to answer it, and reads no more. What is unread,
 * or comes later, resets no client: all that has no answer was not taken. */
static void who_stops_answers_what_it_has_read_and_resets_nobody(void **state)
{
    (void)state;
    const int asking = dial();
    const int idle = dial();
    TURN_UNTIL(stats().connections == 2);
    bench.holds = true;
    say(asking, "CL.THROTTLE k 1 1 1 1\r\nPING\r\nPI");
    TURN_UNTIL(bench.frame_count == 1);
    say(asking, "NG\r\nCL.THROTTLE k 1 1 1 2\r\n");
    const int unread = dial();
    say(unread, "CL.THROTTLE k 1 1 1 3\r\n");
    connections_leave(bench.loop);
    expect_last(idle, "");
    expect_last(unread, "");
    assert_true(connections_waits(bench.loop) && !connections_left(bench.loop));
    assert_false(closed(asking));
    release_all();
    expect_last(asking, THROTTLED("1") "+PONG\r\n");
    assert_int_equal(stats().checks, 1);
    say(asking, "CL.THROTTLE k 1 1 1 4\r\n");
    for (int i = 0; i < 10; i++)
        turn();
    expect_last(asking, "");
    assert_int_equal(stats().checks, 1);
    (void)close(asking);
    (void)close(idle);
    (void)close(unread);
    TURN_UNTIL(connections_left(bench.loop));
}

/* Neither a client that stays, nor one that asks and does not read, nor an answer that does not
 * come, keeps a node from stopping. */
static void nobody_keeps_a_node_from_stopping(void **state)
{
    enum { TEXT = 8000 };
    static char text[TEXT + 64];
    (void)state;
    const int staying = dial();
    const int waiting = dial();
    const int slow = dial();
    const int small = 1 << 14;
    (void)setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    TURN_UNTIL(stats().connections == 3);
    bench.holds = true;
    say(waiting, "CL.THROTTLE k 1 1 1 1\r\n");
    TURN_UNTIL(bench.frame_count == 1);
    const int head = snprintf(text, sizeof text, "*2\r\n$4\r\nECHO\r\n$%d\r\n", TEXT);
    memset(text + head, 'x', TEXT);
    memcpy(text + head + TEXT, "\r\n", 2);
    for (uint32_t refused = 0; refused < 5;) {
        const ssize_t some = send(slow, text, (size_t)head + TEXT + 2, MSG_DONTWAIT | MSG_NOSIGNAL);
        refused = some < 0 ? refused + 1 : 0;
        turn();
    }
    connections_leave(bench.loop);
    expect_last(staying, "");
    TURN_UNTIL(connections_left(bench.loop));
    assert_false(connections_waits(bench.loop)); /* it was given up, and the client told so */
    assert_int_equal(recv(waiting, text, 9, 0), 9);
    assert_memory_equal(text, "-TIMEOUT ", 9);
    (void)close(staying);
    (void)close(waiting);
    (void)close(slow);
}

#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(pipelined_requests_are_answered_in_order),
        WITH_LOOP(many_connections_share_messages),
        WITH_LOOP(who_asks_meanwhile_is_answered_in_the_same_turn),
        WITH_LOOP(a_turn_does_not_go_on_while_an_answer_is_waited_for),
        WITH_LOOP(a_turn_ends_though_each_answer_brings_a_question),
        cmocka_unit_test(a_turn_that_answered_somebody_polls),
        cmocka_unit_test(who_asks_while_a_turn_polls_is_answered_in_it),
        WITH_LOOP(a_turn_in_which_nobody_asked_does_not_poll),
        cmocka_unit_test(a_turn_that_leaves_or_may_not_does_not_poll),
        cmocka_unit_test(a_turn_polls_no_longer_than_until_there_is_other_work),
        cmocka_unit_test(a_turn_soon_after_other_work_does_not_poll),
        WITH_LOOP(who_always_asks_more_starves_nobody),
        WITH_LOOP(a_slow_reader_is_cut_off),
        WITH_LOOP(what_is_not_answered_holds_its_client_up),
        WITH_LOOP(a_client_that_ends_is_answered_first),
        WITH_LOOP(an_answer_does_not_reach_the_next_client),
        WITH_LOOP(what_is_no_protocol_is_closed),
        WITH_LOOP(more_clients_than_the_bound_are_refused),
        WITH_LOOP(a_newcomer_has_the_place_of_who_was_quiet_for_longest),
        WITH_LOOP(who_is_owed_something_keeps_its_place),
        WITH_LOOP(a_request_without_an_end_is_cut_off),
        WITH_LOOP(a_transaction_without_an_end_is_cut_off),
        WITH_LOOP(memory_of_a_long_request_is_given_back),
        WITH_LOOP(a_turn_is_short_however_many_can_go_on),
        WITH_LOOP(without_descriptors_the_listener_rests),
        WITH_LOOP(who_is_closed_reads_what_it_was_told),
        WITH_LOOP(who_stops_answers_what_it_has_read_and_resets_nobody),
        WITH_LOOP(nobody_keeps_a_node_from_stopping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
