/* test_connections_native.c - native clients of a loop, whose answers the shard gives later: the
 * test is that shard, and holds what it was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/gateway/zmtp.h"
#include "node/runtime/shard/connections_state.h"
#include "node/runtime/system/listener.h"

enum { CLIENTS_MAX = 8, WAIT_MS = 20000 };

#define QUIET_NS   INT64_C(50000000)
#define SLOW_NS    INT64_C(300000000)
#define REQUEST_NS INT64_C(500000000)
#define READY                                                                                      \
    "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"                                                   \
    "DEALER"
#define REQUEST                                                                                    \
    "\0\x03"                                                                                       \
    "ask"
#define ANSWER                                                                                     \
    "\0\x06"                                                                                       \
    "answer"

static struct bench {
    struct connections *loop;
    struct zmtp_gate gate;
    struct gateway_stats stats;
    struct clock clock;
    uint16_t port;
    uint64_t asked[CLIENTS_MAX]; /* by these, without an answer */
    uint32_t count;
} bench;

static bool take_message(void *context, uint64_t token, const void *data, size_t len)
{
    (void)context;
    (void)data;
    (void)len;
    assert_true(bench.count < CLIENTS_MAX);
    bench.asked[bench.count++] = token;
    return true;
}

static void owes(void *context, struct connections *connections)
{
    (void)context;
    for (uint32_t i = 0; i < bench.count; i++)
        connections_owe(connections, bench.asked[i]);
}

static void answer_all(void)
{
    while (bench.count > 0)
        (void)connections_put(bench.loop, bench.asked[--bench.count], "answer", 6);
}

static int setup(void **state)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener;
    (void)state;
    memset(&bench, 0, sizeof bench);
    assert_int_equal(clock_init(&bench.clock), 0);
    assert_int_equal(listener_open("127.0.0.1", 0, &listener), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    bench.port = ntohs(address.sin_port);
    bench.gate = (struct zmtp_gate){.message = take_message, .stats = &bench.stats};
    const struct connections_options options = {.codec = &zmtp_codec,
                                                .gate = &bench.gate,
                                                .stats = &bench.stats,
                                                .listeners = {listener},
                                                .listener_count = 1,
                                                .max = CLIENTS_MAX,
                                                .all = -1,
                                                .slow_ns = SLOW_NS,
                                                .begin_ns = CONNECTIONS_BEGIN_NS,
                                                .request_ns = REQUEST_NS,
                                                .quiet_ns = QUIET_NS,
                                                .owes = owes,
                                                .clock = &bench.clock};
    return connections_new(&options, &bench.loop);
}

static int teardown(void **state)
{
    (void)state;
    connections_free(&bench.loop);
    return 0;
}

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

static void turn_for(int64_t ns)
{
    const int64_t end_ns = clock_mono_ns(&bench.clock) + ns;
    TURN_UNTIL(clock_mono_ns(&bench.clock) > end_ns);
}

/* What has come is `len` bytes. */
static void hear(int fd, void *out, size_t len)
{
    size_t got = 0;
    TURN_UNTIL({
        const ssize_t some = recv(fd, (char *)out + got, len - got, MSG_DONTWAIT);
        got += some > 0 ? (size_t)some : 0;
        got == len;
    });
}

/* A client that has shaken hands. */
static int dial(void)
{
    static const char greeting[ZMTP_GREETING_LEN] = "\xff\0\0\0\0\0\0\0\0\x7f\x03\x01NULL";
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(bench.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char told[ZMTP_GREETING_LEN + 43];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(send(fd, READY, sizeof READY - 1, MSG_NOSIGNAL), sizeof READY - 1);
    hear(fd, told, sizeof told);
    assert_memory_equal(told + ZMTP_GREETING_LEN + 2, "\x05READY", 6);
    return fd;
}

static void ask(int fd)
{
    const uint64_t before = bench.stats.checks;
    assert_int_equal(send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL), sizeof REQUEST - 1);
    TURN_UNTIL(bench.stats.checks > before);
}

static void expect_answer(int fd)
{
    char found[sizeof ANSWER - 1];
    hear(fd, found, sizeof found);
    assert_memory_equal(found, ANSWER, sizeof found);
}

/* By an end, not a reset. */
static bool ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static bool is_open(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void close_all(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)close(fds[i]);
}

/* It was quiet for longest, for it waits: others who are only idle go first, however short. */
static void a_client_that_waits_for_its_answer_keeps_its_place(void **state)
{
    int fds[CLIENTS_MAX];
    (void)state;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        fds[i] = dial();
        if (i < 2)
            ask(fds[i]);
    }
    turn_for(2 * QUIET_NS);
    const int newcomer = dial();
    assert_int_equal(bench.stats.evicted, 1);
    assert_true(is_open(fds[0]) && is_open(fds[1]) && !is_open(fds[2]));
    answer_all();
    expect_answer(fds[0]);
    expect_answer(fds[1]);
    turn_for(2 * QUIET_NS);
    const int next = dial(); /* answered, it is idle as others are */
    assert_int_equal(bench.stats.evicted, 2);
    assert_false(is_open(fds[0]));
    close_all(fds, CLIENTS_MAX);
    (void)close(newcomer);
    (void)close(next);
}

/* The operator's question is with another thread: but not for ever. */
static void a_client_whose_question_was_passed_on_keeps_its_place_for_some_time(void **state)
{
    int fds[CLIENTS_MAX];
    (void)state;
    fds[0] = dial();
    ask(fds[0]);
    const uint64_t token = bench.asked[0];
    bench.count = 0;
    connections_asked(bench.loop, token);
    for (int i = 1; i < CLIENTS_MAX; i++)
        fds[i] = dial();
    turn_for(2 * QUIET_NS);
    const int newcomer = dial();
    assert_true(is_open(fds[0]) && !is_open(fds[1]));
    assert_true(connections_put(bench.loop, token, "answer", 6));
    expect_answer(fds[0]);
    turn_for(2 * QUIET_NS);
    const int next = dial();
    assert_false(is_open(fds[0]));
    close_all(fds, CLIENTS_MAX);
    (void)close(newcomer);
    (void)close(next);
}

/* What was read is answered, also by another node, and then comes the end. */
static void a_node_that_leaves_answers_its_native_clients_first(void **state)
{
    (void)state;
    const int asking = dial();
    const int idle = dial();
    ask(asking);
    connections_leave(bench.loop);
    TURN_UNTIL(ended(idle));
    assert_true(connections_waits(bench.loop) && !connections_left(bench.loop));
    assert_true(is_open(asking));
    assert_int_equal(send(asking, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL), sizeof REQUEST - 1);
    turn_for(2 * QUIET_NS);
    assert_int_equal(bench.stats.checks, 1);
    const int64_t answered_ns = clock_mono_ns(&bench.clock);
    answer_all();
    expect_answer(asking);
    TURN_UNTIL(ended(asking)); /* but libzmq drops what its application has not taken by then */
    assert_true(clock_mono_ns(&bench.clock) - answered_ns >= INT64_C(20000000));
    TURN_UNTIL(!connections_waits(bench.loop));
    (void)close(asking);
    (void)close(idle);
    TURN_UNTIL(connections_left(bench.loop));
}

static void an_answer_that_does_not_come_keeps_no_node_from_leaving(void **state)
{
    (void)state;
    const int asking = dial();
    ask(asking);
    connections_leave(bench.loop);
    const int64_t began_ns = clock_mono_ns(&bench.clock);
    TURN_UNTIL(connections_left(bench.loop));
    TURN_UNTIL(!connections_waits(bench.loop));
    assert_in_range(clock_mono_ns(&bench.clock) - began_ns, INT64_C(3000000000),
                    INT64_C(15000000000));
    (void)close(asking);
}

/* Unread answers of a few MiB, more than sockets hold. */
static void put_much(uint64_t token)
{
    enum { LEN = 60000, TIMES = 60 };
    static char much[LEN];
    for (int i = 0; i < TIMES; i++)
        assert_true(connections_put(bench.loop, token, much, LEN));
}

/* Who takes what was answered, however slowly, is not cut off with those who take nothing: not
 * though he was the first to be behind. */
static void a_client_that_reads_on_slowly_is_not_cut_off(void **state)
{
    enum { PIECE = 24 << 10 };
    static char piece[PIECE];
    const int small = 1 << 14;
    (void)state;
    const int slow = dial();
    const int stuck = dial();
    (void)setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    (void)setsockopt(stuck, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    ask(slow);
    ask(stuck);
    put_much(bench.asked[0]);
    put_much(bench.asked[1]);
    TURN_UNTIL({
        (void)!recv(slow, piece, sizeof piece, MSG_DONTWAIT);
        bench.stats.slow_readers > 0;
    });
    TURN_UNTIL(bench.stats.connections == 1);
    assert_int_equal(recv(slow, piece, 1, 0), 1);
    assert_int_equal(bench.stats.slow_readers, 1);
    assert_true(bench.loop->stuck.oldest !=
                CONNECTIONS_NONE); /* it had more to read all the time */
    close_all((const int[]){slow, stuck}, 2);
}

/* Each request has its own time, though there is the beginning of one all the time. */
static void a_client_that_is_always_in_a_request_is_not_cut_off(void **state)
{
    (void)state;
    const int fd = dial();
    const int64_t end_ns = clock_mono_ns(&bench.clock) + 2 * REQUEST_NS;
    assert_int_equal(send(fd, REQUEST, 4, MSG_NOSIGNAL), 4);
    while (clock_mono_ns(&bench.clock) < end_ns) {
        const uint64_t before = bench.stats.checks;
        assert_int_equal(send(fd, "k" REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL), 5);
        TURN_UNTIL(bench.stats.checks > before || !is_open(fd));
        bench.count = 0;
    }
    assert_true(is_open(fd));
    assert_int_equal(bench.stats.unfinished, 0);
    TURN_UNTIL(bench.stats.unfinished == 1); /* but the last one does not end */
    (void)close(fd);
}

#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(a_client_that_waits_for_its_answer_keeps_its_place),
        WITH_LOOP(a_client_whose_question_was_passed_on_keeps_its_place_for_some_time),
        WITH_LOOP(a_node_that_leaves_answers_its_native_clients_first),
        WITH_LOOP(an_answer_that_does_not_come_keeps_no_node_from_leaving),
        WITH_LOOP(a_client_that_reads_on_slowly_is_not_cut_off),
        WITH_LOOP(a_client_that_is_always_in_a_request_is_not_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
