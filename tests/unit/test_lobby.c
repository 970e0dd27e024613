/* test_lobby.c - clients of a node that does not serve yet, over real connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/gateway/api/api_routes.h"
#include "node/runtime/control/lobby.h"

enum { MANY = LOBBY_CONNECTIONS_MAX, PATIENCE_MS = 5000 };

struct hall {
    struct lobby *lobby;
    struct clock clock;
    int listener;
    int none;
    struct sockaddr_in address;
};

enum { NATIVE, REDIS, HTTP };

static void open_hall(struct hall *hall, int protocol)
{
    socklen_t len = sizeof hall->address;
    hall->address = (struct sockaddr_in){.sin_family = AF_INET};
    hall->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    hall->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(hall->listener >= 0);
    assert_int_equal(bind(hall->listener, (struct sockaddr *)&hall->address, len), 0);
    assert_int_equal(listen(hall->listener, 4 * MANY), 0);
    assert_int_equal(getsockname(hall->listener, (struct sockaddr *)&hall->address, &len), 0);
    assert_int_equal(clock_init(&hall->clock), 0);
    hall->none = -1;
    struct http_facts facts = {.anonymous = ACCESS_ANONYMOUS,
                               .anonymous_grpc = ACCESS_ANONYMOUS,
                               .name = "n1",
                               .name_count = 1,
                               .names = {"limits.example"}};
    facts.routes = api_routes(&facts.route_count);
    const struct lobby_options options = {
        .native = protocol == NATIVE ? &hall->listener : &hall->none,
        .native_count = 1,
        .redis = protocol == REDIS ? &hall->listener : &hall->none,
        .redis_count = 1,
        .http = protocol == HTTP ? &hall->listener : &hall->none,
        .http_count = protocol == HTTP ? 1 : 0,
        .http_session = 1,
        .http_facts = &facts,
        .clock = &hall->clock};
    assert_int_equal(lobby_new(&options, &hall->lobby), 0);
}

static void close_hall(struct hall *hall)
{
    lobby_free(&hall->lobby);
    (void)close(hall->listener);
}

static int come(const struct hall *hall)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&hall->address, sizeof hall->address), 0);
    return fd;
}

static void turn(struct hall *hall)
{
    lobby_turn(hall->lobby, "it waits for a seed");
}

/* Turns until something can be read of it, or it was closed. */
static void assert_answered(struct hall *hall, int fd)
{
    char bytes[256] = "";
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    for (int waited_ms = 0; waited_ms < PATIENCE_MS && poll(&polled, 1, 1) == 0; waited_ms++)
        turn(hall);
    assert_true(recv(fd, bytes, sizeof bytes - 1, MSG_DONTWAIT) > 0);
    assert_string_equal(bytes, "-UNAVAILABLE it waits for a seed\r\n");
}

static void ask(int fd)
{
    static const char ping[] = "PING\r\n";
    assert_int_equal(send(fd, ping, sizeof ping - 1, MSG_NOSIGNAL), sizeof ping - 1);
}

static void who_asks_is_told_what_is_waited_for(void **state)
{
    (void)state;
    struct hall hall;
    open_hall(&hall, REDIS);
    const int fd = come(&hall);
    for (int i = 0; i < 3; i++) {
        ask(fd);
        assert_answered(&hall, fd);
    }
    (void)close(fd);
    close_hall(&hall);
}

/* LOBBY-2: a pool of idle connections keeps nobody out, and who asks now and then keeps its
 * place. */
static void idle_connections_keep_nobody_out(void **state)
{
    (void)state;
    struct hall hall;
    int idle[2 * MANY];
    open_hall(&hall, REDIS);
    const int asks = come(&hall);
    ask(asks);
    assert_answered(&hall, asks);
    for (int i = 0; i < 2 * MANY; i++) {
        idle[i] = come(&hall);
        turn(&hall);
        if (i % 16 == 0) {
            ask(asks);
            assert_answered(&hall, asks);
        }
    }
    const int late = come(&hall);
    ask(late);
    assert_answered(&hall, late);
    for (int i = 0; i < 2 * MANY; i++)
        (void)close(idle[i]);
    (void)close(late);
    (void)close(asks);
    close_hall(&hall);
}

/* The whole of a conversation in the client protocol: greeting, handshake, a question. */
static void a_native_client_is_told_what_is_waited_for(void **state)
{
    static const char hello[] = "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL";
    static const char asks[] = "\4\x1c\5READY\xbSocket-Type\0\0\0\6DEALER\0\4junk";
    char greeting[64] = "";
    char bytes[512];
    size_t len = 0;
    (void)state;
    struct hall hall;
    open_hall(&hall, NATIVE);
    const int fd = come(&hall);
    memcpy(greeting, hello, sizeof hello - 1);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(send(fd, asks, sizeof asks - 1, MSG_NOSIGNAL), sizeof asks - 1);
    for (int waited_ms = 0; waited_ms < PATIENCE_MS && len < 64 + 43 + 2; waited_ms++) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        turn(&hall);
        (void)poll(&polled, 1, 1);
        const ssize_t got = recv(fd, bytes + len, sizeof bytes - len, MSG_DONTWAIT);
        len += got > 0 ? (size_t)got : 0;
    }
    assert_true(len > 64 + 43 + 2); /* greeting, READY, and an ERROR of the client protocol */
    assert_memory_equal(bytes + 64, "\4\x29\5READY", 8);
    assert_int_equal(bytes[64 + 43], 0);
    (void)close(fd);
    close_hall(&hall);
}

/* Sends a request, and turns until its response begins as it should and has the text. */
static void expect_http(struct hall *hall, const char *request, const char *begin, const char *text)
{
    char bytes[1024] = "";
    const int fd = come(hall);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    for (int waited_ms = 0; waited_ms < PATIENCE_MS && poll(&polled, 1, 1) == 0; waited_ms++)
        turn(hall);
    assert_true(recv(fd, bytes, sizeof bytes - 1, MSG_DONTWAIT) > 0);
    assert_memory_equal(bytes, begin, strlen(begin));
    assert_non_null(strstr(bytes, text));
    (void)close(fd);
}

/* A supervisor must not kill a node that waits, a balancer must not send anybody to it. */
static void a_node_that_waits_lives_and_is_not_ready(void **state)
{
    struct hall hall;
    (void)state;
    open_hall(&hall, HTTP);
    expect_http(&hall, "GET /livez HTTP/1.1\r\nHost: n1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "alive");
    expect_http(&hall, "GET /readyz HTTP/1.1\r\nHost: n1\r\n\r\n",
                "HTTP/1.1 503 Service Unavailable\r\n", "\"detail\":\"it waits for a seed\"");
    expect_http(&hall,
                "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: 2\r\n\r\n{}",
                "HTTP/1.1 503 Service Unavailable\r\n", "Retry-After: 1\r\n");
    /* A name of the node's, as to a node that serves: 421 would be told for good. */
    expect_http(&hall,
                "POST /v1/check HTTP/1.1\r\nHost: limits.example\r\n"
                "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                "HTTP/1.1 503 Service Unavailable\r\n", "Retry-After: 1\r\n");
    close_hall(&hall);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_native_client_is_told_what_is_waited_for),
        cmocka_unit_test(a_node_that_waits_lives_and_is_not_ready),
        cmocka_unit_test(who_asks_is_told_what_is_waited_for),
        cmocka_unit_test(idle_connections_keep_nobody_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
