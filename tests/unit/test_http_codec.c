/* test_http_codec.c - HTTP clients over real sockets on loopback, at a shard that the test is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/gateway/api/api_routes.h"
#include "node/gateway/http/http_gate.h"
#include "node/runtime/shard/connections.h"
#include "node/runtime/system/listener.h"

enum { CLIENTS_MAX = 64, WAIT_MS = 20000, PIPELINED = 64, TEXT = 1 << 17, RESET_MS = 500 };

#define MS       INT64_C(1000000)
#define BEGIN_NS (100 * MS)
#define WHOLE_NS (400 * MS)
#define IDLE_NS  (600 * MS)
#define LIVE     "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define HEAD                                                                                       \
    "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"             \
    "Content-Length: 24\r\n\r\n"
#define BODY "{\"key\":\"a\",\"rate\":\"9/s\"}"

struct bench {
    struct connections *loop;
    struct http_gate *gate;
    struct gateway_stats stats;
    struct clock clock;
    uint16_t port;
    uint32_t messages;
    uint32_t checks;
    uint64_t told;      /* what remained last */
    int64_t takes_ns;   /* in which the shard decides, */
    int64_t decided_ns; /* and when it had */
};

static struct bench bench;

static void submit(void *context, const void *bytes, size_t len)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    (void)context;
    assert_int_equal(wire_decode_checks(bytes, len, &space, &checks, error), 0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.flags[i] = WIRE_ALLOWED;
        columns.remaining[i] = bench.told++;
        columns.source_index[i] = WIRE_SOURCE_NONE;
        columns.reset_after_ms[i] = RESET_MS;
    }
    const int64_t until_ns = clock_now_ns(&bench.clock) + bench.takes_ns;
    do
        bench.decided_ns = clock_now_ns(&bench.clock);
    while (bench.decided_ns < until_ns);
    bench.messages++;
    bench.checks += checks.count;
    const int encoded = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(encoded > 0);
    connections_answer(bench.loop, reply, (size_t)encoded);
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
    struct http_facts facts = {
        .anonymous = ACCESS_ANONYMOUS, .anonymous_grpc = ACCESS_ANONYMOUS, .name = "n"};
    facts.routes = api_routes(&facts.route_count);
    assert_int_equal(http_gate_new(alloc_heap(), 5, &facts, &bench.stats, &bench.gate), 0);
    const struct connections_options options = {
        .codec = &http_codec,
        .gate = bench.gate,
        .batches = http_gate_batches(bench.gate),
        .stats = &bench.stats,
        .listeners = {listener},
        .listener_count = 1,
        .max = CLIENTS_MAX,
        .all = -1,
        .slow_ns = WHOLE_NS,
        .begin_ns = BEGIN_NS,
        .request_ns = WHOLE_NS,
        .idle_ns = IDLE_NS,
        .quiet_ns = IDLE_NS,
        .clock = &bench.clock,
        .submit = submit,
    };
    return connections_new(&options, &bench.loop);
}

static int teardown(void **state)
{
    (void)state;
    connections_free(&bench.loop);
    http_gate_free(&bench.gate);
    return 0;
}

static int dial(void)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(bench.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void turn(void)
{
    struct pollfd ready = {.fd = connections_fd(bench.loop), .events = POLLIN};
    (void)poll(&ready, 1, connections_pending(bench.loop) ? 0 : 5);
    connections_turn(bench.loop);
    connections_check_invariants(bench.loop);
}

static int64_t now_ns(void)
{
    return clock_mono_ns(&bench.clock);
}

/* What the client is sent until its connection ends, or until `count` responses are there. */
static const char *hear(int fd, unsigned count)
{
    static char text[TEXT];
    size_t len = 0;
    const int64_t until_ns = now_ns() + WAIT_MS * MS;
    text[0] = '\0';
    while (now_ns() < until_ns) {
        turn();
        const ssize_t got = recv(fd, text + len, sizeof text - 1 - len, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return text;
        len += got > 0 ? (size_t)got : 0;
        text[len] = '\0';
        unsigned found = 0;
        for (const char *at = text; (at = strstr(at, "}\n")) != NULL; at++)
            found++;
        if (count > 0 && found >= count)
            return text;
    }
    fail_msg("waited in vain; found %s", text);
    return text;
}

static void expect(int fd, unsigned count, const char *begin)
{
    const char *text = hear(fd, count);
    if (strncmp(text, begin, strlen(begin)) != 0)
        print_error("%s\n", text);
    assert_memory_equal(text, begin, strlen(begin));
}

static void a_head_without_an_end_is_cut_off_and_told_so(void **state)
{
    (void)state;
    const int fd = dial();
    const int64_t began_ns = now_ns();
    say(fd, "GET /livez HTTP/1.1\r\nX: ");
    expect(fd, 0, "HTTP/1.1 408 Request Timeout\r\n");
    assert_true(now_ns() - began_ns < WHOLE_NS);
    assert_int_equal(bench.stats.unfinished, 1);
    (void)close(fd);
}

static void a_body_has_longer_than_a_head_but_not_for_ever(void **state)
{
    (void)state;
    const int fd = dial();
    const int64_t began_ns = now_ns();
    say(fd, HEAD);
    expect(fd, 0, "HTTP/1.1 408 Request Timeout\r\n");
    assert_true(now_ns() - began_ns >= WHOLE_NS);
    (void)close(fd);
}

/* A head that comes behind a response has its own time. */
static void each_request_has_its_own_time(void **state)
{
    (void)state;
    const int fd = dial();
    for (int i = 0; i < 3; i++) {
        const int64_t until_ns = now_ns() + BEGIN_NS / 2;
        say(fd, "GET /livez HT");
        while (now_ns() < until_ns)
            turn();
        say(fd, "TP/1.1\r\nHost: localhost\r\n\r\n");
        expect(fd, 1, "HTTP/1.1 200 OK\r\n");
    }
    assert_int_equal(bench.stats.unfinished, 0);
    (void)close(fd);
}

static void a_connection_may_be_quiet_for_a_while(void **state)
{
    (void)state;
    const int quiet = dial();
    const int speaks = dial();
    say(quiet, LIVE);
    expect(quiet, 1, "HTTP/1.1 200 OK\r\n");
    const int64_t began_ns = now_ns();
    while (bench.stats.idle == 0 && now_ns() - began_ns < WAIT_MS * MS) {
        say(speaks, LIVE);
        expect(speaks, 1, "HTTP/1.1 200 OK\r\n");
    }
    assert_string_equal(hear(quiet, 0), ""); /* it ends without a word */
    assert_true(now_ns() - began_ns >= IDLE_NS);
    assert_int_equal(bench.stats.idle, 1);
    assert_int_equal(bench.stats.unfinished, 0);
    (void)close(quiet);
    (void)close(speaks);
}

/* All that a client sends ahead is one message, though its responses have more room than a
 * connection has at first. */
static void what_is_pipelined_is_asked_and_answered_together(void **state)
{
    char request[256];
    (void)state;
    const int fd = dial();
    (void)snprintf(request, sizeof request, "%s%s", HEAD, BODY);
    const size_t len = strlen(request);
    char *all = calloc(PIPELINED + 1, sizeof request);
    assert_non_null(all);
    for (size_t i = 0; i < PIPELINED; i++)
        memcpy(all + i * len, request, len);
    say(fd, all);
    free(all);
    const char *at = hear(fd, PIPELINED);
    for (unsigned i = 0; i < PIPELINED; i++) {
        at = strstr(at, "\"remaining\":");
        assert_non_null(at);
        at += strlen("\"remaining\":");
        assert_int_equal(strtoul(at, NULL, 10), i);
    }
    assert_int_equal(bench.checks, PIPELINED);
    assert_int_equal(bench.messages, 1);
    (void)close(fd);
}

/* A moment is told from when it was decided, not from when it was asked for. */
static void a_moment_is_not_told_early_by_what_the_decision_took(void **state)
{
    static const char body[] =
        "{\"requests\":[{\"name\":\"n\",\"unique_key\":\"k\",\"hits\":1,\"limit\":5,"
        "\"duration\":60000}]}";
    char request[512];
    (void)state;
    bench.takes_ns = 50 * MS;
    const int fd = dial();
    (void)snprintf(request, sizeof request,
                   "POST /v1/GetRateLimits HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                   "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   sizeof body - 1, body);
    say(fd, request);
    const char *at = strstr(hear(fd, 1), "\"reset_time\":\"");
    assert_non_null(at);
    const int64_t reset_ms = strtoll(at + strlen("\"reset_time\":\""), NULL, 10);
    assert_true(reset_ms * MS >= bench.decided_ns + RESET_MS * MS);
    (void)close(fd);
}

static void who_is_closed_reads_what_it_was_told(void **state)
{
    (void)state;
    const int fd = dial();
    say(fd, "GET / HTTP/1.1\n\n" LIVE LIVE LIVE);
    expect(fd, 0, "HTTP/1.1 400 Bad Request\r\n");
    (void)close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_head_without_an_end_is_cut_off_and_told_so),
        TEST(a_body_has_longer_than_a_head_but_not_for_ever),
        TEST(each_request_has_its_own_time),
        TEST(a_connection_may_be_quiet_for_a_while),
        TEST(what_is_pipelined_is_asked_and_answered_together),
        TEST(a_moment_is_not_told_early_by_what_the_decision_took),
        TEST(who_is_closed_reads_what_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
