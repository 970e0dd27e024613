/* test_connection_proxy.c - Redis clients behind proxies, over real sockets on loopback: which
 * address a connection has, and who is believed. 127.0.0.2 and ::1 are trusted. */
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
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/gateway/resp_gate.h"
#include "node/gateway/zmtp.h"
#include "node/runtime/shard/connections_state.h"
#include "node/runtime/system/listener.h"
#include "tests/unit/support_scratch.h"

enum { CLIENTS_MAX = 40, ADDRESS_MAX = 30, WAIT_MS = 20000, PROXY = 2, STRANGER = 3 };

#define BEGIN_NS INT64_C(50000000)
#define LINE     "PROXY TCP4 192.0.2.1 198.51.100.2 56324 6379\r\n"
#define BINARY                                                                                     \
    "\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\xdc\x04\x18\xeb"
#define UNIX  "\r\n\r\n\0\r\nQUIT\n\x21\x31\x00\xd8" /* and 216 bytes of paths */
#define LOCAL "\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"

static struct bench {
    struct connections *loop;
    struct resp_gate *gate;
    struct zmtp_gate zmtp;
    struct networks trusted;
    struct gateway_stats stats;
    struct clock clock;
    uint16_t port;
} bench;

static void submit(void *context, const void *bytes, size_t len)
{
    (void)context;
    (void)bytes;
    (void)len;
}

static bool take_message(void *context, uint64_t token, const void *data, size_t len)
{
    (void)context;
    (void)token;
    (void)data;
    (void)len;
    return true;
}

static void trust(const char *text)
{
    char expected[NETWORKS_EXPECTED_LEN];
    assert_int_equal(networks_add(&bench.trusted, text, expected), 0);
}

static int open_bench_at(bool required, bool native, int listener)
{
    memset(&bench, 0, sizeof bench);
    assert_int_equal(clock_init(&bench.clock), 0);
    trust("127.0.0.2");
    trust("::1");
    const struct resp_facts facts = {
        .anonymous = ACCESS_ANONYMOUS, .name = "n", .version = "1", .stats = &bench.stats};
    assert_int_equal(resp_gate_new(alloc_heap(), 5, &facts, &bench.stats, &bench.gate), 0);
    bench.zmtp = (struct zmtp_gate){.message = take_message, .stats = &bench.stats};
    const struct connections_options options = {
        .codec = native ? &zmtp_codec : &resp_codec,
        .batches = native ? NULL : resp_gate_batches(bench.gate),
        .gate = native ? (void *)&bench.zmtp : (void *)bench.gate,
        .stats = &bench.stats,
        .listeners = {listener},
        .listener_count = 1,
        .max = CLIENTS_MAX,
        .all = -1,
        .slow_ns = CONNECTIONS_SLOW_NS,
        .begin_ns = BEGIN_NS,
        .request_ns = CONNECTIONS_REQUEST_NS,
        .quiet_ns = INT64_C(300000000),
        .trusted = &bench.trusted,
        .proxies_tell = required,
        .clock = &bench.clock,
        .submit = submit,
    };
    return connections_new(&options, &bench.loop);
}

static int open_bench(bool required, bool native, const char *host)
{
    struct sockaddr_in6 address;
    socklen_t len = sizeof address;
    int listener;
    assert_int_equal(listener_open(host, 0, &listener), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    const int error = open_bench_at(required, native, listener);
    bench.port = ntohs(address.sin6_port); /* at the same place for IPv4 */
    return error;
}

static int setup(void **state)
{
    (void)state;
    return open_bench(false, false, "127.0.0.1");
}

static int setup_required(void **state)
{
    (void)state;
    return open_bench(true, false, "127.0.0.1");
}

static int setup_native(void **state)
{
    (void)state;
    return open_bench(true, true, "127.0.0.1");
}

static int setup_ipv6(void **state)
{
    (void)state;
    return open_bench(false, false, "::1");
}

static int teardown(void **state)
{
    (void)state;
    connections_free(&bench.loop);
    resp_gate_free(&bench.gate);
    return 0;
}

/* From 127.0.0.`last`. */
static int dial(uint8_t last)
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

static void send_all(int fd, const void *data, size_t len)
{
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void say(int fd, const char *text)
{
    send_all(fd, text, strlen(text));
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

static bool closed(int fd)
{
    char byte;
    const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

/* What comes until the text ends with `end`. */
static const char *hear(int fd, const char *end)
{
    static char text[1024];
    const size_t end_len = strlen(end);
    size_t len = 0;
    memset(text, 0, sizeof text);
    TURN_UNTIL({
        const ssize_t got = recv(fd, text + len, sizeof text - 1 - len, MSG_DONTWAIT);
        len += got > 0 ? (size_t)got : 0;
        len >= end_len &&strcmp(text + len - end_len, end) == 0;
    });
    return text;
}

static void expect_pong(int fd)
{
    say(fd, "PING\r\n");
    assert_string_equal(hear(fd, "+PONG\r\n"), "+PONG\r\n");
}

/* What CLIENT INFO shows. */
static void expect_address(int fd, const char *wanted)
{
    char field[80];
    say(fd, "CLIENT INFO\r\n");
    const char *text = hear(fd, "\n\r\n");
    (void)snprintf(field, sizeof field, " addr=%s ", wanted);
    if (strstr(text, field) == NULL)
        fail_msg("found \"%s\", expected%s", text, field);
}

static struct in6_addr mapped(const char *text)
{
    struct in6_addr address = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    assert_int_equal(inet_pton(AF_INET, text, &address.s6_addr[12]), 1);
    return address;
}

static uint32_t count_of(const char *text)
{
    const struct in6_addr address = mapped(text);
    return connection_count_of(bench.loop, &address);
}

static void a_trusted_proxy_tells_for_whom_it_connects(void **state)
{
    (void)state;
    const int line = dial(PROXY);
    say(line, LINE);
    expect_address(line, "192.0.2.1:56324");
    const int binary = dial(PROXY);
    send_all(binary, BINARY, sizeof BINARY - 1);
    expect_address(binary, "192.0.2.1:56324");
    assert_int_equal(bench.stats.proxied, 2);
    assert_int_equal(count_of("192.0.2.1"), 2);
    assert_int_equal(count_of("127.0.0.2"), 0);
    (void)close(line);
    (void)close(binary);
    TURN_UNTIL(bench.stats.connections == 0);
}

/* The header and a request may come in one piece, or each byte alone. */
static void a_header_is_read_however_it_is_cut(void **state)
{
    static const char whole[] = BINARY "CLIENT INFO\r\n";
    (void)state;
    const int at_once = dial(PROXY);
    send_all(at_once, whole, sizeof whole - 1);
    assert_non_null(strstr(hear(at_once, "\n\r\n"), " addr=192.0.2.1:56324 "));
    const int slowly = dial(PROXY);
    TURN_UNTIL(bench.stats.connections == 2);
    for (size_t i = 0; i < sizeof whole - 1; i++) {
        send_all(slowly, whole + i, 1);
        turn();
    }
    assert_non_null(strstr(hear(slowly, "\n\r\n"), " addr=192.0.2.1:56324 "));
    (void)close(at_once);
    (void)close(slowly);
}

/* Clients of clusters are sent there again. */
static void where_the_client_came_is_what_the_proxy_tells(void **state)
{
    (void)state;
    const int fd = dial(PROXY);
    say(fd, LINE "SENTINEL get-master-addr-by-name x\r\n");
    assert_string_equal(hear(fd, "6379\r\n"), "*2\r\n$12\r\n198.51.100.2\r\n$4\r\n6379\r\n");
    (void)close(fd);
}

static void a_proxy_may_speak_for_itself(void **state)
{
    (void)state;
    const int check = dial(PROXY);
    send_all(check, LOCAL, sizeof LOCAL - 1);
    say(check, "CLIENT INFO\r\n");
    assert_non_null(strstr(hear(check, "\n\r\n"), " addr=127.0.0.2:"));
    const int direct = dial(PROXY);
    expect_pong(direct);
    assert_int_equal(bench.stats.proxied, 0);
    assert_int_equal(count_of("127.0.0.2"), 2);
    (void)close(check);
    (void)close(direct);
}

/* A client of Redis may say nothing for long, through a trusted machine as well. */
static void who_says_nothing_is_let_alone(void **state)
{
    (void)state;
    const int fd = dial(PROXY);
    TURN_UNTIL(bench.stats.connections == 1);
    const int64_t silent_ns = clock_mono_ns(&bench.clock) + 8 * BEGIN_NS;
    TURN_UNTIL(clock_mono_ns(&bench.clock) > silent_ns);
    expect_pong(fd);
    (void)close(fd);
}

static void a_header_that_does_not_end_is_cut_off_as_a_beginning(void **state)
{
    (void)state;
    const int line = dial(PROXY);
    const int binary = dial(PROXY);
    say(line, "PROXY TCP4 ");
    send_all(binary, BINARY, 20);
    TURN_UNTIL(closed(line) && closed(binary));
    assert_int_equal(bench.stats.unfinished, 2);
    (void)close(line);
    (void)close(binary);
}

/* It could be anybody, and its client would be another from then on. */
static void a_stranger_s_header_ends_the_connection(void **state)
{
    static const char *const texts[] = {LINE "PING\r\n", "PROXY UNKNOWN\r\n", "PROXY TCP4 1"};
    enum { TEXTS = sizeof texts / sizeof *texts };
    (void)state;
    for (int i = 0; i <= TEXTS; i++) {
        const int fd = dial(STRANGER);
        if (i < TEXTS)
            say(fd, texts[i]);
        else
            send_all(fd, BINARY, 12);
        TURN_UNTIL(closed(fd));
        (void)close(fd);
    }
    assert_int_equal(bench.stats.protocol_errors, TEXTS + 1);
    assert_int_equal(bench.stats.commands, 0);
    assert_int_equal(bench.stats.proxied, 0);
}

static void a_stranger_s_own_protocol_is_not_hindered(void **state)
{
    (void)state;
    const int fd = dial(STRANGER);
    say(fd, "P");
    turn();
    say(fd, "ING\r\n");
    assert_string_equal(hear(fd, "+PONG\r\n"), "+PONG\r\n");
    say(fd, "\r\n\r\n");
    expect_pong(fd);
    const int blank = dial(STRANGER);
    say(blank, "\r\n");
    TURN_UNTIL(bench.stats.connections == 2);
    expect_pong(blank);
    (void)close(fd);
    (void)close(blank);
}

/* What comes first is a header, and what comes later is what it says it is. */
static void a_second_header_is_a_request(void **state)
{
    (void)state;
    const int fd = dial(PROXY);
    say(fd, LINE LINE);
    assert_memory_equal(hear(fd, "\r\n"), "-ERR unknown command", 20);
    expect_address(fd, "192.0.2.1:56324");
    (void)close(fd);
}

static void a_header_with_a_fault_ends_the_connection(void **state)
{
    (void)state;
    const int fd = dial(PROXY);
    say(fd, LINE);
    expect_address(fd, "192.0.2.1:56324");
    const int bad = dial(PROXY);
    say(bad, "PROXY TCP4 192.0.2.1 198.51.100.2 56324 637900\r\nPING\r\n");
    TURN_UNTIL(closed(bad));
    assert_int_equal(bench.stats.protocol_errors, 1);
    (void)close(fd);
    (void)close(bad);
}

static void a_proxy_that_has_to_tell_is_closed_if_it_does_not(void **state)
{
    (void)state;
    const int asks = dial(PROXY);
    say(asks, "PING\r\n");
    TURN_UNTIL(closed(asks));
    assert_int_equal(bench.stats.protocol_errors, 1);
    const int silent = dial(PROXY);
    TURN_UNTIL(bench.stats.unfinished == 1);
    TURN_UNTIL(closed(silent));
    const int told = dial(PROXY);
    say(told, LINE);
    expect_pong(told);
    const int other = dial(STRANGER);
    expect_pong(other);
    (void)close(asks);
    (void)close(silent);
    (void)close(told);
    (void)close(other);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static int dial_for(const char *client)
{
    char line[128];
    const int fd = dial(PROXY);
    (void)snprintf(line, sizeof line, "PROXY TCP4 %s 198.51.100.2 1 2\r\n", client);
    say(fd, line);
    return fd;
}

static void clients_of_a_proxy_are_bounded_each(void **state)
{
    static const char sentence[] = "-ERR max number of clients reached\r\n";
    int fds[CLIENTS_MAX];
    (void)state;
    for (int i = 0; i < ADDRESS_MAX; i++)
        fds[i] = dial_for("192.0.2.1");
    TURN_UNTIL(count_of("192.0.2.1") == ADDRESS_MAX);
    const int more = dial_for("192.0.2.1");
    assert_string_equal(hear(more, "reached\r\n"), sentence);
    TURN_UNTIL(closed(more));
    assert_int_equal(bench.stats.refused, 1);
    for (int i = ADDRESS_MAX; i < CLIENTS_MAX - 1; i++) {
        fds[i] = dial_for("192.0.2.2");
        expect_pong(fds[i]);
    }
    assert_int_equal(count_of("192.0.2.1"), ADDRESS_MAX);
    for (int i = 0; i < CLIENTS_MAX - 1; i++)
        (void)close(fds[i]);
    (void)close(more);
}

/* A newcomer has the place of its own address's quietest, behind a proxy, too. */
static void a_client_s_newcomer_has_the_place_of_its_quietest(void **state)
{
    int fds[ADDRESS_MAX];
    (void)state;
    for (int i = 0; i < ADDRESS_MAX; i++)
        fds[i] = dial_for("192.0.2.1");
    const int other = dial_for("192.0.2.2");
    TURN_UNTIL(count_of("192.0.2.1") == ADDRESS_MAX && count_of("192.0.2.2") == 1);
    const int64_t quiet_ns = clock_mono_ns(&bench.clock) + INT64_C(350000000);
    TURN_UNTIL(clock_mono_ns(&bench.clock) > quiet_ns);
    const int own = dial_for("192.0.2.1");
    expect_pong(own);
    assert_int_equal(bench.stats.evicted, 1);
    assert_int_equal(count_of("192.0.2.1"), ADDRESS_MAX);
    expect_pong(other);
    for (int i = 0; i < ADDRESS_MAX; i++)
        (void)close(fds[i]);
    (void)close(other);
    (void)close(own);
}

/* The proxy's own number is no client's. */
static void a_proxy_is_not_bounded(void **state)
{
    int fds[CLIENTS_MAX];
    (void)state;
    for (int i = 0; i < CLIENTS_MAX; i++)
        fds[i] = dial(PROXY);
    TURN_UNTIL(bench.stats.connections == CLIENTS_MAX);
    assert_int_equal(bench.stats.refused, 0);
    for (int i = 0; i < CLIENTS_MAX; i++)
        (void)close(fds[i]);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void a_native_client_behind_a_proxy_is_greeted_and_named(void **state)
{
    char greeting[ZMTP_GREETING_LEN];
    (void)state;
    const int fd = dial(PROXY);
    send_all(fd, BINARY, sizeof BINARY - 1);
    TURN_UNTIL(bench.stats.proxied == 1);
    assert_string_equal(connection_peer(bench.loop, &bench.loop->places[0])->address,
                        "192.0.2.1:56324");
    assert_int_equal(recv(fd, greeting, sizeof greeting, MSG_DONTWAIT), ZMTP_GREETING_LEN);
    send_all(fd, "\xff\0\0\0\0\0\0\0\1\x7f\3", 11);
    for (int i = 0; i < 10; i++)
        turn();
    assert_int_equal(bench.stats.protocol_errors, 0);
    TURN_UNTIL(bench.stats.unfinished == 1); /* its own beginning has to end, too */
    (void)close(fd);
}

static const struct gateway_peer *peer_of(uint32_t place)
{
    return connection_peer(bench.loop, &bench.loop->places[place]);
}

/* Else a client could have a proxy that balances connections carry its lies of others. */
static void the_word_of_a_proxy_s_client_is_not_taken_for_the_proxy_s(void **state)
{
    (void)state;
    const int direct = dial(PROXY);
    TURN_UNTIL(bench.stats.connections == 1);
    assert_true(peer_of(0)->trusted);
    const int told = dial(PROXY);
    say(told, LINE);
    TURN_UNTIL(bench.stats.proxied == 1);
    assert_false(peer_of(1)->trusted);
    const int chained = dial(PROXY);
    say(chained, "PROXY TCP4 127.0.0.2 198.51.100.2 1 2\r\n");
    TURN_UNTIL(bench.stats.proxied == 2);
    assert_true(peer_of(2)->trusted);
    const int stranger = dial(STRANGER);
    TURN_UNTIL(bench.stats.connections == 4);
    assert_false(peer_of(3)->trusted);
    (void)close(direct);
    (void)close(told);
    (void)close(chained);
    (void)close(stranger);
}

/* Though sockets of the file system are trusted: that one is not of this machine. */
static void a_socket_that_a_proxy_tells_of_is_not_trusted(void **state)
{
    static const char paths[216] = "/run/client.sock";
    struct policy_ip ip;
    (void)state;
    bench.trusted.local = true;
    const int fd = dial(PROXY);
    send_all(fd, UNIX, sizeof UNIX - 1);
    send_all(fd, paths, sizeof paths);
    expect_address(fd, "unix-there");
    assert_int_equal(bench.stats.proxied, 1);
    assert_false(peer_of(0)->trusted);
    assert_false(networks_trust(&bench.trusted, peer_of(0)->address, &ip));
    assert_true(networks_trust(&bench.trusted, "unix", &ip));
    (void)close(fd);
}

static void an_address_of_ipv6_is_counted_by_its_network(void **state)
{
    const struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                         .sin6_port = htons(bench.port),
                                         .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct in6_addr network;
    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "2001:db8:0:1::", &network), 1);
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    say(fd, "PROXY TCP6 2001:db8:0:1::7 2001:db8::2 443 6379\r\n");
    expect_address(fd, "[2001:db8:0:1::7]:443");
    assert_int_equal(connection_count_of(bench.loop, &network), 1);
    (void)close(fd);
}

/* Its rights say who may connect, and whether it is trusted is said by name. */
static void a_socket_of_the_file_system_is_trusted_by_name(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[SCRATCH_PATH_LEN];
    int listener;
    (void)state;
    assert_int_equal(scratch_file(path, "proxy"), 0);
    assert_int_equal(unlink(path), 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    for (int trusted = 0; trusted < 2; trusted++) {
        assert_int_equal(listener_open_path(path, &listener), 0);
        assert_int_equal(open_bench_at(false, false, listener), 0);
        bench.trusted.local = trusted != 0;
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
        say(fd, LINE);
        if (trusted)
            expect_address(fd, "192.0.2.1:56324");
        else
            TURN_UNTIL(closed(fd));
        assert_int_equal(bench.stats.protocol_errors, 1 - trusted);
        (void)close(fd);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(unlink(path), 0);
    }
}

#define WITH(fixture, test) cmocka_unit_test_setup_teardown(test, fixture, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(setup, a_trusted_proxy_tells_for_whom_it_connects),
        WITH(setup, a_header_is_read_however_it_is_cut),
        WITH(setup, where_the_client_came_is_what_the_proxy_tells),
        WITH(setup, a_proxy_may_speak_for_itself),
        WITH(setup, who_says_nothing_is_let_alone),
        WITH(setup, a_header_that_does_not_end_is_cut_off_as_a_beginning),
        WITH(setup, a_stranger_s_header_ends_the_connection),
        WITH(setup, a_stranger_s_own_protocol_is_not_hindered),
        WITH(setup, a_second_header_is_a_request),
        WITH(setup, a_header_with_a_fault_ends_the_connection),
        WITH(setup_required, a_proxy_that_has_to_tell_is_closed_if_it_does_not),
        WITH(setup, clients_of_a_proxy_are_bounded_each),
        WITH(setup, a_client_s_newcomer_has_the_place_of_its_quietest),
        WITH(setup, a_proxy_is_not_bounded),
        WITH(setup_native, a_native_client_behind_a_proxy_is_greeted_and_named),
        WITH(setup, the_word_of_a_proxy_s_client_is_not_taken_for_the_proxy_s),
        WITH(setup, a_socket_that_a_proxy_tells_of_is_not_trusted),
        WITH(setup_ipv6, an_address_of_ipv6_is_counted_by_its_network),
        cmocka_unit_test(a_socket_of_the_file_system_is_trusted_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
