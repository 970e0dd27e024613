/* test_connections_stream.c - a connection that is told something now and then sleeps in between.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/runtime/shard/connections.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/system/listener.h"

enum { CLIENTS_MAX = 2, WAIT_MS = 10000 };

/* ---- a protocol that greets, and says more when it is due ------------------------------------ */

static struct {
    unsigned takes;
    bool due;
    bool ends;
    uint64_t token; /* of the last one that was greeted */
} words;

static void put(struct gateway_peer *peer, const char *text)
{
    memcpy(peer->out.data + peer->out.len, text, strlen(text));
    peer->out.len += strlen(text);
}

static void word_open(void *gate, struct gateway_peer *peer)
{
    (void)gate;
    peer->begun = true;
}

static enum gateway_stop word_take(void *gate, struct gateway_peer *peer, uint64_t token,
                                   const char *data, size_t len, size_t *used)
{
    (void)gate;
    (void)data;
    words.takes++;
    *used = 0;
    if (!peer->told) {
        put(peer, "hello\n");
        peer->told = true;
        words.token = token;
        *used = len;
    } else if (words.ends) {
        put(peer, "bye\n");
        peer->closing = true;
        return GATEWAY_AT_END;
    } else if (words.due) {
        put(peer, "more\n");
        words.due = false;
    }
    return GATEWAY_NEED_TIME;
}

static void word_now(void *gate, int64_t now_ns)
{
    (void)gate;
    (void)now_ns;
}

static void word_wake(void *gate, const struct gateway_finder *finder)
{
    (void)gate;
    if (words.due)
        (void)finder->find(finder->context, words.token);
}

static const struct gateway_codec word_codec = {
    .name = "words",
    .refusal = "full\n",
    .peer_len = sizeof(struct gateway_peer),
    .pending_max = 1024,
    .read_len = 1024,
    .socket_len = 64 << 10,
    .open = word_open,
    .take = word_take,
    .now = word_now,
    .wake = word_wake,
};

/* ---- the bench ------------------------------------------------------------------------------- */

static struct {
    struct clock clock;
    struct gateway_stats stats;
    struct connections *loop;
    uint16_t port;
} bench;

static void submit(void *context, const void *bytes, size_t len)
{
    (void)context;
    (void)bytes;
    (void)len;
}

static int setup(void **state)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener;
    (void)state;
    memset(&bench, 0, sizeof bench);
    memset(&words, 0, sizeof words);
    assert_int_equal(clock_init(&bench.clock), 0);
    assert_int_equal(listener_open("127.0.0.1", 0, &listener), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    bench.port = ntohs(address.sin_port);
    const struct connections_options options = {.codec = &word_codec,
                                                .gate = &words,
                                                .stats = &bench.stats,
                                                .listeners = {listener},
                                                .listener_count = 1,
                                                .max = CLIENTS_MAX,
                                                .all = -1,
                                                .slow_ns = INT64_C(50000000),
                                                .begin_ns = INT64_C(50000000),
                                                .request_ns = INT64_C(50000000),
                                                .idle_ns = INT64_C(50000000),
                                                .quiet_ns = INT64_C(50000000),
                                                .clock = &bench.clock,
                                                .submit = submit};
    return connections_new(&options, &bench.loop);
}

static int teardown(void **state)
{
    (void)state;
    connections_free(&bench.loop);
    return 0;
}

static int dial(void)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(bench.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, "hi", 2, MSG_NOSIGNAL), 2);
    return fd;
}

static void turn(void)
{
    struct pollfd ready = {.fd = connections_fd(bench.loop), .events = POLLIN};
    (void)poll(&ready, 1, connections_pending(bench.loop) ? 0 : 5);
    connections_turn(bench.loop);
    connections_check_invariants(bench.loop);
}

/* Turns until the client has been sent `wanted`, and that is all; `wanted` "": until its end. */
static void expect(int fd, const char *wanted)
{
    char found[64];
    const size_t len = strlen(wanted);
    size_t got = 0;
    const int64_t until_ns = clock_mono_ns(&bench.clock) + WAIT_MS * INT64_C(1000000);
    while (got < len || len == 0) {
        assert_true(clock_mono_ns(&bench.clock) < until_ns);
        turn();
        const ssize_t some = recv(fd, found + got, sizeof found - got, MSG_DONTWAIT);
        if (some == 0 && len == 0)
            return;
        got += some > 0 ? (size_t)some : 0;
    }
    assert_int_equal(got, len);
    assert_memory_equal(found, wanted, len);
}

/* Turns for so long as the loop looks at what is late three times: more than any bound here. */
static void turn_for_a_while(void)
{
    const int64_t until_ns = clock_mono_ns(&bench.clock) + INT64_C(650000000);
    while (clock_mono_ns(&bench.clock) < until_ns)
        turn();
}

/* ---- what holds ------------------------------------------------------------------------------ */

/* CONNECTIONS-7 */
static void who_sleeps_costs_no_turns_until_it_is_woken(void **state)
{
    (void)state;
    const int fd = dial();
    expect(fd, "hello\n");
    turn();
    assert_false(connections_pending(bench.loop));
    const unsigned takes = words.takes;
    turn_for_a_while();
    assert_int_equal(words.takes, takes);
    assert_false(connections_pending(bench.loop));
    words.due = true;
    expect(fd, "more\n");
    turn();
    assert_true(words.takes <= takes + 2);
    assert_false(connections_pending(bench.loop));
    close(fd);
}

static void who_is_told_things_is_not_idle_and_gives_its_place_to_nobody(void **state)
{
    (void)state;
    const int first = dial();
    expect(first, "hello\n");
    const int second = dial();
    expect(second, "hello\n");
    turn_for_a_while();
    assert_int_equal(bench.stats.idle, 0);
    const int third = dial();
    expect(third, "full\n");
    assert_int_equal(bench.stats.evicted, 0);
    words.due = true;
    expect(second, "more\n");
    close(first);
    close(second);
    close(third);
}

static void a_node_that_stops_wakes_who_sleeps(void **state)
{
    (void)state;
    const int fd = dial();
    expect(fd, "hello\n");
    words.ends = true;
    connections_leave(bench.loop);
    expect(fd, "bye\n");
    expect(fd, "");
    close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(who_sleeps_costs_no_turns_until_it_is_woken),
        TEST(who_is_told_things_is_not_idle_and_gives_its_place_to_nobody),
        TEST(a_node_that_stops_wakes_who_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
