/* test_connections_turns.c - who has a turn of a loop of connections, where a turn takes a few
 * messages and no more.
 *
 * The protocol is the plainest one: each byte is a message that needs no answer. Real sockets on
 * loopback.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/runtime/shard/connections_state.h"
#include "node/runtime/system/listener.h"

enum { MESSAGES = 16, A_TURN = 4, NEWCOMERS = 60, WAIT_MS = 20000 };

static struct clock now;
static struct gateway_stats stats;
static struct connections *loop;
static uint32_t room; /* messages that are still taken in this turn */
static uint64_t first_id;
static uint32_t of_first;
static uint32_t of_others;

/* ---- the protocol ---------------------------------------------------------------------------- */

static void open_peer(void *gate, struct gateway_peer *peer)
{
    (void)gate;
    peer->begun = true;
}

static enum gateway_stop take(void *gate, struct gateway_peer *peer, uint64_t token,
                              const char *data, size_t len, size_t *used)
{
    (void)gate;
    (void)token;
    (void)data;
    *used = len < room ? len : room;
    room -= (uint32_t)*used;
    *(peer->id == first_id ? &of_first : &of_others) += (uint32_t)*used;
    return *used < len ? GATEWAY_NEED_TURN : GATEWAY_NEED_BYTES;
}

static void set_time(void *gate, int64_t now_ns)
{
    (void)gate;
    (void)now_ns;
}

static const struct gateway_codec bytes_codec = {.name = "bytes",
                                                 .refusal = "",
                                                 .peer_len = sizeof(struct gateway_peer),
                                                 .pending_max = 4096,
                                                 .read_len = 4096,
                                                 .socket_len = 1 << 16,
                                                 .open = open_peer,
                                                 .take = take,
                                                 .now = set_time};

/* ---- the loop and its clients ---------------------------------------------------------------- */

static uint16_t loop_new(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(clock_init(&now), 0);
    assert_int_equal(listener_open("127.0.0.1", 0, &listener), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    const struct connections_options options = {.codec = &bytes_codec,
                                                .stats = &stats,
                                                .listeners = {listener},
                                                .listener_count = 1,
                                                .max = NEWCOMERS + 1,
                                                .all = -1,
                                                .slow_ns = CONNECTIONS_SLOW_NS,
                                                .begin_ns = CONNECTIONS_BEGIN_NS,
                                                .request_ns = CONNECTIONS_REQUEST_NS,
                                                .quiet_ns = CONNECTIONS_QUIET_NS,
                                                .clock = &now};
    assert_int_equal(connections_new(&options, &loop), 0);
    return address.sin_port;
}

static int dial(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* One turn, when there is something to read. */
static void turn(void)
{
    struct pollfd ready = {.fd = connections_fd(loop), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    room = A_TURN;
    connections_turn(loop);
    connections_check_invariants(loop);
}

static void say(int fd, size_t messages)
{
    static const char text[MESSAGES];
    assert_int_equal(send(fd, text, messages, MSG_NOSIGNAL), messages);
}

/* CONNECTIONS-6: who has more to say than one turn takes is done in some turns, though there is
 * always a newcomer who would fill a turn alone; and newcomers have the turns between. */
static void who_was_left_for_another_turn_goes_first_in_every_second(void **state)
{
    int newcomers[NEWCOMERS];
    uint32_t said = 0;
    uint32_t meanwhile = 0;
    (void)state;
    const uint16_t port = loop_new();
    const int first = dial(port);
    while (stats.connections < 1)
        turn();
    first_id = connection_peer(loop, &loop->places[0])->id;
    for (uint32_t i = 0; i < NEWCOMERS; i++)
        newcomers[i] = dial(port);
    while (stats.connections < NEWCOMERS + 1)
        turn();
    of_first = of_others = 0;
    say(first, MESSAGES);
    turn();
    assert_in_range(of_first, 1, A_TURN);
    while (of_first < MESSAGES && said < NEWCOMERS) {
        say(newcomers[said++], A_TURN);
        turn();
        meanwhile = of_first < MESSAGES ? of_others : meanwhile;
    }
    assert_int_equal(of_first, MESSAGES);
    assert_true(meanwhile > 0);
    (void)close(first);
    for (uint32_t i = 0; i < NEWCOMERS; i++)
        (void)close(newcomers[i]);
    connections_free(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_left_for_another_turn_goes_first_in_every_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
