/* test_http_gate.c - HTTP clients at a gate, with a shard that answers when the test wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/gateway/api/api_routes.h"
#include "node/gateway/http/http_gate.h"
#include "tests/unit/support_effort.h"

enum { PEERS = 8, FRAMES = 4096, SESSION = 99, INPUT = 1 << 16, OUT = 1 << 16 };

#define MS     INT64_C(1000000)
#define JSON   "Content-Type: application/json\r\n"
#define HOST   "Host: localhost:7604\r\n"
#define LIVE   "GET /livez HTTP/1.1\r\n" HOST "\r\n"
#define DATE   "Date: Thu, 26 Nov 2026 10:00:00 GMT\r\n"
#define ALWAYS DATE "Cache-Control: no-store\r\n"

struct frame {
    uint8_t *bytes;
    size_t len;
};

/* Peers with what they have sent and have been sent, and frames that the shard has not answered. */
struct bench {
    struct http_gate *gate;
    struct http_peer peers[PEERS];
    bool gone[PEERS];
    char out[PEERS][OUT];
    char input[PEERS][INPUT];
    size_t input_len[PEERS];
    enum gateway_stop stop[PEERS];
    struct frame frames[FRAMES];
    uint32_t frame_count;
    int64_t now_ns;
    struct gateway_stats stats;
};

static struct bench bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    struct bench *b = context;
    return b->gone[token] ? NULL : &b->peers[token].base;
}

static const struct gateway_finder finder = {find, &bench};

static int setup(void **state)
{
    struct http_facts facts = {.anonymous = ACCESS_ANONYMOUS,
                               .anonymous_grpc = ACCESS_ANONYMOUS,
                               .node_id = 7,
                               .name = "n1",
                               .version = "9.9",
                               .name_count = 1,
                               .names = {"limits.example"}};
    (void)state;
    memset(&bench, 0, sizeof bench);
    facts.routes = api_routes(&facts.route_count);
    assert_int_equal(http_gate_new(alloc_heap(), SESSION, &facts, &bench.stats, &bench.gate), 0);
    bench.now_ns = INT64_C(1795687200000) * MS;
    http_gate_now(bench.gate, bench.now_ns);
    for (uint32_t i = 0; i < PEERS; i++) {
        bench.peers[i].base.id = i + 1;
        bench.peers[i].base.out.data = bench.out[i];
        bench.peers[i].base.out.capacity = OUT;
        (void)snprintf(bench.peers[i].base.local, GATEWAY_ADDRESS_LEN, "10.0.0.5:7604");
        http_gate_open(bench.gate, &bench.peers[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < bench.frame_count; i++)
        free(bench.frames[i].bytes);
    http_gate_free(&bench.gate);
    return 0;
}

/* Looks at the gate and at all peers that are there. */
static void check_all(void)
{
    batches_check_invariants(http_gate_batches(bench.gate));
    for (uint32_t i = 0; i < PEERS; i++)
        if (!bench.gone[i])
            batches_check_peer(http_gate_batches(bench.gate), &bench.peers[i].base, i);
}

/* Gives the open batch to the shard, which keeps it. */
static void submit(void)
{
    const uint8_t *frame;
    const size_t len = batches_submit(http_gate_batches(bench.gate), &frame);
    if (len == 0)
        return;
    assert_true(bench.frame_count < FRAMES);
    struct frame *kept = &bench.frames[bench.frame_count++];
    *kept = (struct frame){malloc(len), len};
    assert_non_null(kept->bytes);
    memcpy(kept->bytes, frame, len);
}

/* Has the gate take what it can of what the peer has sent. */
static void feed(uint32_t peer)
{
    size_t used;
    do {
        bench.stop[peer] = http_gate_take(bench.gate, &bench.peers[peer], peer, bench.input[peer],
                                          bench.input_len[peer], &used);
        assert_true(used <= bench.input_len[peer]);
        bench.input_len[peer] -= used;
        memmove(bench.input[peer], bench.input[peer] + used, bench.input_len[peer]);
        if (bench.stop[peer] == GATEWAY_NEED_SUBMIT)
            submit();
    } while (bench.stop[peer] == GATEWAY_NEED_SUBMIT);
    check_all();
}

static void say(uint32_t peer, const char *text)
{
    const size_t len = strlen(text);
    assert_true(len <= INPUT - bench.input_len[peer]);
    memcpy(bench.input[peer] + bench.input_len[peer], text, len);
    bench.input_len[peer] += len;
    feed(peer);
}

static void ask(uint32_t peer, const char *headers, const char *body)
{
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "POST /v1/check HTTP/1.1\r\n" HOST JSON "%sContent-Length: %zu\r\n\r\n%s",
                   headers, strlen(body), body);
    say(peer, text);
}

/* A check of a key whose limit tells its decision: below 100 it is allowed, and what remains. */
static void check(uint32_t peer, unsigned number)
{
    char body[64];
    (void)snprintf(body, sizeof body, "{\"key\":\"k%u\",\"rate\":\"%u/s\"}", number, number + 1);
    ask(peer, "", body);
}

static void decide(const struct wire_checks *checks, uint32_t i,
                   struct wire_decision_columns *columns)
{
    const uint64_t count = wire_checks_template(checks, i)->limit.count;
    columns->outcomes[i] = count <= 100 ? OUTCOME_ALLOW : OUTCOME_DENY;
    columns->flags[i] = count <= 100 ? WIRE_ALLOWED : 0;
    columns->limit[i] = count;
    columns->remaining[i] = count - 1;
    columns->retry_after_ms[i] = 0;
    columns->reset_after_ms[i] = 1;
    columns->source_index[i] = WIRE_SOURCE_NONE;
}

/* The shard answers a frame, but for the checks that `pending` names. */
static void answer_partly(uint32_t at, uint64_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    assert_int_equal(
        wire_decode_checks(bench.frames[at].bytes, bench.frames[at].len, &space, &checks, error),
        0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        decide(&checks, i, &columns);
        if ((pending >> i & 1) != 0)
            columns.flags[i] = WIRE_PENDING;
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(len > 0);
    batches_answer(http_gate_batches(bench.gate), reply, (size_t)len, &finder);
    check_all();
}

static void answer_all(void)
{
    for (uint32_t i = 0; i < bench.frame_count; i++)
        answer_partly(i, 0);
}

/* What the peer was sent since it was asked last. */
static const char *heard(uint32_t peer)
{
    static char text[OUT + 1];
    struct gateway_out *out = &bench.peers[peer].base.out;
    memcpy(text, out->data, out->len);
    text[out->len] = '\0';
    out->len = 0;
    return text;
}

static void expect_status(uint32_t peer, const char *status)
{
    const char *text = heard(peer);
    if (strncmp(text, status, strlen(status)) != 0)
        print_error("%s\n", text);
    assert_memory_equal(text, status, strlen(status));
}

static struct http_stats counted(void)
{
    struct http_stats stats;
    http_gate_stats(bench.gate, &stats);
    return stats;
}

/* ---- one request ----------------------------------------------------------------------------- */

static void a_response_has_a_date_and_is_not_stored(void **state)
{
    static const char live[] =
        "HTTP/1.1 200 OK\r\n" ALWAYS "Content-Type: application/json\r\nContent-Length: 31\r\n\r\n";
    (void)state;
    say(0, LIVE);
    assert_string_equal(heard(0), "HTTP/1.1 200 OK\r\n" ALWAYS
                                  "Content-Type: application/json\r\nContent-Length: 31\r\n\r\n"
                                  "{\"status\":\"alive\",\"name\":\"n1\"}\n");
    say(0, "HEAD /livez HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(heard(0), live);
    assert_int_equal(counted().answered, 2);
}

static void a_check_is_answered_by_the_shard(void **state)
{
    (void)state;
    check(0, 4);
    assert_int_equal(bench.peers[0].base.out.len, 0);
    submit();
    answer_all();
    const char *text = heard(0);
    assert_memory_equal(text, "HTTP/1.1 200 OK\r\n", 17);
    assert_non_null(strstr(text, "\"remaining\":4"));
    check(0, 200);
    submit();
    answer_partly(1, 0);
    expect_status(0, "HTTP/1.1 429 Too Many Requests\r\n");
    assert_int_equal(bench.stats.checks, 2);
    assert_int_equal(counted().refused, 1);
}

static void what_is_wrong_with_a_check_is_a_problem(void **state)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "{\"key\":[],\"rate\":\"1/s\"}",
                                      "{\"key\":\"a\"}",
                                      "{\"key\":\"a\",\"rate\":\"x\"}"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ask(0, "", bad[i]);
        const char *text = heard(0);
        assert_memory_equal(text, "HTTP/1.1 400 Bad Request\r\n", 26);
        assert_non_null(strstr(text, "\r\nContent-Type: application/problem+json\r\n"));
        assert_non_null(strstr(text, "\"status\":400,\"detail\":\""));
    }
    assert_false(bench.peers[0].base.closing); /* the requests themselves were well formed */
}

static void versions_and_connection_headers_are_obeyed(void **state)
{
    (void)state;
    say(0, "GET /livez HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(heard(0), "\r\nConnection: close\r\n"));
    assert_true(bench.peers[0].base.closing);
    say(1, "GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_non_null(strstr(heard(1), "\r\nConnection: keep-alive\r\n"));
    assert_false(bench.peers[1].base.closing);
    say(2, "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n" LIVE);
    assert_non_null(strstr(heard(2), "\r\nConnection: close\r\n"));
    assert_int_equal(bench.stop[2], GATEWAY_AT_END);
    assert_int_equal(bench.peers[2].base.out.len, 0); /* what follows is not answered */
    say(3, LIVE);
    assert_null(strstr(heard(3), "Connection:"));
}

static void a_malformed_request_ends_the_connection(void **state)
{
    static const struct {
        const char *text;
        const char *status;
    } cases[] = {
        {"GET /livez HTTP/1.1\n\n", "HTTP/1.1 400 Bad Request\r\n"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 9999999\r\n\r\n",
         "HTTP/1.1 413 Content Too Large\r\n"},
        {"GET / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", "HTTP/1.1 417 Expectation Failed\r\n"},
        {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "HTTP/1.1 505 HTTP Version Not Supported\r\n"},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        say(i, cases[i].text);
        const char *text = heard(i);
        assert_memory_equal(text, cases[i].status, strlen(cases[i].status));
        assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
        assert_true(bench.peers[i].base.closing);
    }
    assert_int_equal(bench.stats.protocol_errors, 4);
    assert_int_equal(counted().bodies, 1);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void methods_and_paths_that_are_not_there_are_told_apart(void **state)
{
    static const struct {
        const char *line;
        const char *status;
        const char *allow;
    } cases[] = {
        {"GET /nothing", "HTTP/1.1 404 Not Found\r\n", NULL},
        {"GET /livez/", "HTTP/1.1 404 Not Found\r\n", NULL},
        {"GET /LIVEZ", "HTTP/1.1 404 Not Found\r\n", NULL},
        {"GET /%6Civez", "HTTP/1.1 404 Not Found\r\n", NULL},
        {"GET /v1/", "HTTP/1.1 404 Not Found\r\n", NULL},
        {"GET //livez", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /v1/../livez", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /v1/%2e%2E/livez", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /./livez", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /v1%2Flivez", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /v1%5clivez", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /v1%00", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /v1%4", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"GET /v1%zz", "HTTP/1.1 400 Bad Request\r\n", NULL},
        {"POST /livez", "HTTP/1.1 405 Method Not Allowed\r\n", "GET, HEAD, OPTIONS"},
        {"GET /v1/check", "HTTP/1.1 405 Method Not Allowed\r\n", "POST, OPTIONS"},
        {"TRACE /livez", "HTTP/1.1 405 Method Not Allowed\r\n", "GET, HEAD, OPTIONS"},
        {"CONNECT a:443", "HTTP/1.1 405 Method Not Allowed\r\n", "GET, HEAD, POST"},
        {"BREW /livez", "HTTP/1.1 405 Method Not Allowed\r\n", "GET, HEAD, OPTIONS"},
        {"OPTIONS /livez", "HTTP/1.1 204 No Content\r\n", "GET, HEAD, OPTIONS"},
        {"OPTIONS *", "HTTP/1.1 204 No Content\r\n", "GET, HEAD, POST"},
        {"OPTIONS /nothing", "HTTP/1.1 404 Not Found\r\n", NULL},
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, "%s HTTP/1.1\r\n" HOST "\r\n", cases[i].line);
        say(0, text);
        const char *got = heard(0);
        if (strncmp(got, cases[i].status, strlen(cases[i].status)) != 0)
            print_error("%s: %s\n", cases[i].line, got);
        assert_memory_equal(got, cases[i].status, strlen(cases[i].status));
        (void)snprintf(text, sizeof text, "\r\nAllow: %s",
                       cases[i].allow != NULL ? cases[i].allow : "");
        assert_int_equal(strstr(got, text) != NULL, cases[i].allow != NULL);
        assert_false(bench.peers[0].base.closing);
    }
    assert_int_equal(counted().unknown, 6);
    assert_int_equal(counted().methods, 5);
}

/* ---- who may ask ----------------------------------------------------------------------------- */

static void expect_check_with(const char *host, const char *headers, const char *status)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "POST /v1/check HTTP/1.1\r\nHost: %s\r\n%sContent-Length: 2\r\n\r\n{}", host,
                   headers);
    say(0, text);
    const char *got = heard(0);
    if (strncmp(got + 9, status, 3) != 0)
        print_error("%s, %s: %s\n", host, headers, got);
    assert_memory_equal(got + 9, status, 3);
}

/* 400 is of the handler: the request has passed. */
static void hosts_are_loopback_or_configured(void **state)
{
    static const char *const ours[] = {"localhost",      "LOCALHOST:1",    "127.0.0.1",
                                       "127.200.3.4:80", "[::1]:7604",     "10.0.0.5:7604",
                                       "10.0.0.5",       "limits.example", "Limits.Example:443"};
    static const char *const foreign[] = {"evil.example", "127.0.0.1.evil.example",
                                          "127.0.0.1.1",  "127.0.0",
                                          "1270.0.0.1",   "localhost.evil",
                                          "10.0.0.6",     "[::2]",
                                          "0.0.0.0",      "127.0.0.256",
                                          "127.0.0.1.",   "xlimits.example",
                                          "127.0.0.x"};
    (void)state;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        expect_check_with(ours[i], JSON, "400");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        expect_check_with(foreign[i], JSON, "421");
    assert_int_equal(counted().hosts, sizeof foreign / sizeof *foreign);
    say(0, "GET /readyz HTTP/1.1\r\nHost: evil.example\r\n\r\n"); /* a balancer calls it anything */
    expect_status(0, "HTTP/1.1 200 OK\r\n");
}

static void pages_of_other_origins_are_refused(void **state)
{
    static const char *const own[] = {
        "Origin: http://localhost:7604\r\n", "Origin: HTTP://LOCALHOST:7604\r\n",
        "Origin: https://localhost:7604\r\n", "Sec-Fetch-Site: same-origin\r\n",
        "Sec-Fetch-Site: none\r\n"};
    static const char *const foreign[] = {
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: \r\n",
        "Origin: http://localhost:7605\r\n",
        "Origin: http://localhost\r\n",
        "Origin: http://localhost:7604.evil\r\n",
        "Origin: ftp://localhost:7604\r\n",
        "Origin: http://localhost:7604 http://x\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: \r\n",
        "Origin: http://localhost:7604\r\nSec-Fetch-Site: cross-site\r\n"};
    char headers[256];
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        (void)snprintf(headers, sizeof headers, JSON "%s", own[i]);
        expect_check_with("localhost:7604", headers, "400");
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        (void)snprintf(headers, sizeof headers, JSON "%s", foreign[i]);
        expect_check_with("localhost:7604", headers, "403");
    }
    assert_int_equal(counted().origins, sizeof foreign / sizeof *foreign);
    say(0, "OPTIONS /v1/check HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n\r\n");
    expect_status(0, "HTTP/1.1 403 Forbidden\r\n"); /* what a browser asks before */
    say(0, "GET /livez HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n\r\n");
    expect_status(0, "HTTP/1.1 200 OK\r\n");
}

static void a_form_of_a_page_decides_nothing(void **state)
{
    static const char *const other[] = {"",
                                        "Content-Type: text/plain\r\n",
                                        "Content-Type: application/x-www-form-urlencoded\r\n",
                                        "Content-Type: application/jsonp\r\n",
                                        "Content-Type: text/plain; application/json\r\n",
                                        JSON "Content-Encoding: gzip\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        expect_check_with("localhost", other[i], "415");
    assert_int_equal(counted().types, sizeof other / sizeof *other);
    expect_check_with("localhost", "Content-Type: Application/JSON; charset=utf-8\r\n", "400");
    expect_check_with("localhost", JSON "Content-Encoding: identity\r\n", "400");
    assert_int_equal(bench.stats.checks, 0);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void a_probe_waits_for_the_check_before_it(void **state)
{
    (void)state;
    check(0, 1);
    say(0, LIVE);
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    ask(0, "", "{");
    submit();
    answer_all();
    feed(0);
    const char *text = heard(0);
    const char *decided = strstr(text, "\"remaining\":1");
    const char *alive = strstr(text, "alive");
    const char *wrong = strstr(text, "400 Bad Request");
    assert_true(decided != NULL && alive > decided && wrong > alive);
}

/* And is counted once, however often it is looked at. */
static void what_is_refused_at_once_waits_as_well(void **state)
{
    static const char nothing[] = "GET /nothing HTTP/1.1\r\n" HOST "\r\n";
    (void)state;
    check(0, 1);
    ask(0, "", "{");
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    check(1, 2);
    say(1, nothing);
    feed(1);
    assert_int_equal(bench.stop[1], GATEWAY_NEED_ANSWER);
    submit();
    answer_all();
    feed(0);
    feed(1);
    const char *text = heard(0);
    assert_true(strstr(text, "400 Bad Request") > strstr(text, "\"remaining\":1"));
    text = heard(1);
    assert_true(strstr(text, "404 Not Found") > strstr(text, "\"remaining\":2"));
    assert_int_equal(counted().unknown, 1);
    assert_int_equal(counted().answered, 4);
}

static void what_the_parser_refuses_waits_as_well(void **state)
{
    (void)state;
    check(0, 1);
    say(0, "GET / HTTP/1.1\nX");
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    assert_false(bench.peers[0].base.closing);
    submit();
    answer_all();
    feed(0);
    const char *text = heard(0);
    assert_true(strstr(text, "400 Bad Request") > strstr(text, "\"remaining\":1"));
    assert_true(bench.peers[0].base.closing);
}

static void a_check_that_waits_holds_up_its_client_alone(void **state)
{
    (void)state;
    check(0, 1);
    check(1, 2);
    check(0, 3);
    submit();
    answer_partly(0, 1);
    assert_int_equal(bench.peers[0].base.out.len, 0);
    expect_status(1, "HTTP/1.1 200 OK\r\n");
    answer_partly(0, 0);
    const char *text = heard(0);
    assert_true(strstr(text, "\"remaining\":3") > strstr(text, "\"remaining\":1"));
    assert_int_equal(http_gate_batches(bench.gate)->waiting, 0);
}

static void a_client_that_is_gone_is_not_answered(void **state)
{
    (void)state;
    check(0, 1);
    check(1, 2);
    submit();
    bench.gone[0] = true;
    answer_all();
    assert_int_equal(bench.peers[0].base.out.len, 0);
    expect_status(1, "HTTP/1.1 200 OK\r\n");
}

static void what_is_not_answered_is_given_up(void **state)
{
    (void)state;
    check(0, 1);
    submit();
    http_gate_now(bench.gate, bench.now_ns + 1999 * MS);
    batches_expire(http_gate_batches(bench.gate), &finder);
    assert_int_equal(bench.peers[0].base.out.len, 0);
    http_gate_now(bench.gate, bench.now_ns + 2000 * MS);
    batches_expire(http_gate_batches(bench.gate), &finder);
    expect_status(0, "HTTP/1.1 504 Gateway Timeout\r\n");
    answer_all(); /* too late */
    assert_int_equal(bench.peers[0].base.out.len, 0);
    assert_int_equal(bench.stats.late, 1);
}

static uint32_t timeout_of(uint32_t at)
{
    static struct wire_checks_space space;
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    assert_true(at < bench.frame_count);
    assert_int_equal(
        wire_decode_checks(bench.frames[at].bytes, bench.frames[at].len, &space, &checks, error),
        0);
    return checks.timeout_ms;
}

#define ONE "{\"key\":\"k1\",\"rate\":\"2/s\"}"

/* Who waits for as long is in one message. */
static void the_shard_is_told_how_long_a_client_waits(void **state)
{
    (void)state;
    ask(0, "X-Request-Timeout: 250ms\r\n", ONE);
    ask(1, "x-request-timeout: 250ms\r\n", ONE);
    ask(2, "X-Request-Timeout: 3\r\n", ONE);
    submit();
    check(3, 1);
    submit();
    assert_int_equal(bench.frame_count, 3);
    assert_int_equal(timeout_of(0), 250);
    assert_int_equal(timeout_of(1), 3000);
    assert_int_equal(timeout_of(2), BATCH_TIMEOUT_MS);
    http_gate_now(bench.gate, bench.now_ns + 1249 * MS); /* the shard has a second for its answer */
    batches_expire(http_gate_batches(bench.gate), &finder);
    assert_int_equal(bench.peers[0].base.out.len, 0);
    http_gate_now(bench.gate, bench.now_ns + 1250 * MS);
    batches_expire(http_gate_batches(bench.gate), &finder);
    expect_status(0, "HTTP/1.1 504 Gateway Timeout\r\n");
    expect_status(1, "HTTP/1.1 504 Gateway Timeout\r\n");
    assert_int_equal(bench.peers[2].base.out.len + bench.peers[3].base.out.len, 0);
}

static void what_ran_out_before_it_was_asked_charges_nothing(void **state)
{
    (void)state;
    check(0, 1);
    submit();
    ask(0, "X-Request-Timeout: 40ms\r\n", ONE); /* it waits for the answer before it */
    ask(0, "X-Request-Timeout: 90ms\r\n", ONE);
    ask(0, "X-Request-Timeout: 40ms\r\n", ONE);
    http_gate_now(bench.gate, bench.now_ns + 40 * MS);
    answer_all();
    feed(0);
    const char *text = heard(0);
    assert_non_null(strstr(text, "ran out before anything was charged"));
    assert_true(strstr(text, "504 Gateway") > strstr(text, "\"remaining\":1"));
    submit();
    assert_int_equal(bench.frame_count, 2); /* the second is asked: the gate came to it now */
    assert_int_equal(timeout_of(1), 90);
    http_gate_now(bench.gate, bench.now_ns + 70 * MS);
    answer_all();
    feed(0);
    submit();
    assert_int_equal(timeout_of(2), 10); /* of which 30 are gone */
}

static void refuse_all(int code)
{
    uint8_t reply[512];
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    for (uint32_t i = 0; i < bench.frame_count; i++) {
        assert_int_equal(wire_peek(bench.frames[i].bytes, bench.frames[i].len, &envelope, error),
                         0);
        const struct wire_error message = {envelope.session, envelope.seq, code,
                                           wire_text_of("no \"room\"")};
        const int len = wire_encode_error(&message, reply, sizeof reply);
        batches_answer(http_gate_batches(bench.gate), reply, (size_t)len, &finder);
    }
}

static void a_shard_that_refuses_is_a_503_with_retry_after(void **state)
{
    (void)state;
    check(0, 1);
    check(1, 1);
    submit();
    refuse_all(TG_EBUSY);
    for (uint32_t i = 0; i < 2; i++) {
        const char *text = heard(i);
        assert_memory_equal(text, "HTTP/1.1 503 Service Unavailable\r\n", 34);
        assert_non_null(strstr(text, "\r\nRetry-After: 1\r\n"));
        assert_non_null(strstr(text, "temporary-reduced-capacity"));
    }
    assert_int_equal(bench.stats.busy, 2);
    check(2, 1);
    submit();
    free(bench.frames[0].bytes);
    bench.frames[0] = bench.frames[--bench.frame_count];
    refuse_all(TG_EUNAVAILABLE);
    assert_non_null(strstr(heard(2), "\"detail\":\"no \\\"room\\\"\""));
}

static void a_full_batch_is_submitted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BATCH_MAX + 1; i++)
        check(i % PEERS, 1);
    assert_int_equal(bench.frame_count, 1);
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER); /* it is in the first batch */
    answer_all();
    feed(0);
    submit();
    answer_partly(1, 0);
    assert_int_equal(counted().answered, BATCH_MAX + 1);
}

static void without_a_batch_there_is_a_503(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BATCHES_MAX; i++) {
        bench.peers[0].base.waiting = bench.peers[0].base.reserved = 0; /* another client */
        size_t used;
        static const char one[] = "POST /v1/check HTTP/1.1\r\n" HOST JSON
                                  "Content-Length: 26\r\n\r\n{\"key\":\"a\",\"rate\":\"1/s\"}  ";
        (void)http_gate_take(bench.gate, &bench.peers[0], 7, one, sizeof one - 1, &used);
        assert_int_equal(used, sizeof one - 1);
        submit();
    }
    bench.peers[0].base.waiting = bench.peers[0].base.reserved = 0;
    size_t used;
    static const char more[] = "POST /v1/check HTTP/1.1\r\n" HOST JSON
                               "Content-Length: 24\r\n\r\n{\"key\":\"a\",\"rate\":\"1/s\"}";
    (void)http_gate_take(bench.gate, &bench.peers[0], 0, more, sizeof more - 1, &used);
    expect_status(0, "HTTP/1.1 503 Service Unavailable\r\n");
    assert_int_equal(bench.stats.busy, 1);
    bench.gone[7] = true; /* these have no peer here */
}

/* ---- bodies that come later ------------------------------------------------------------------ */

static void who_waits_to_be_told_is_told_to_go_on(void **state)
{
    static const char head[] = "POST /v1/check HTTP/1.1\r\n" HOST JSON
                               "Expect: 100-continue\r\nContent-Length: 24\r\n\r\n";
    (void)state;
    check(0, 1);
    say(0, head);
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    submit();
    answer_all();
    feed(0);
    assert_non_null(strstr(heard(0), "}\nHTTP/1.1 100 Continue\r\n\r\n"));
    feed(0);
    assert_string_equal(heard(0), ""); /* once */
    say(0, "{\"key\":\"a\",\"rate\":\"1/s\"}");
    submit();
    answer_partly(1, 0);
    expect_status(0, "HTTP/1.1 200 OK\r\n");
    assert_int_equal(counted().expectations, 1);
}

static void a_head_that_is_refused_is_asked_for_no_body(void **state)
{
    (void)state;
    say(0, "POST /v1/check HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    const char *text = heard(0);
    assert_memory_equal(text, "HTTP/1.1 415 ", 13);
    assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
    assert_true(bench.peers[0].base.closing);
}

static void the_loop_is_told_what_a_request_still_needs(void **state)
{
    (void)state;
    say(0, "POST /v1/check HTTP/1.1\r\n");
    assert_true(bench.peers[0].base.early);
    say(0, HOST JSON "Content-Length: 100\r\n\r\n{");
    assert_false(bench.peers[0].base.early);
    assert_int_equal(bench.peers[0].base.need, bench.input_len[0] + 99);
    http_gate_late(bench.gate, &bench.peers[0]);
    expect_status(0, "HTTP/1.1 408 Request Timeout\r\n");
    assert_int_equal(counted().expired, 1);
    say(1, LIVE);
    assert_false(bench.peers[1].base.early);
    assert_int_equal(bench.peers[1].base.need, 0);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void a_node_that_waits_or_ends_is_not_ready(void **state)
{
    (void)state;
    say(0, "GET /readyz HTTP/1.1\r\n" HOST "\r\n");
    expect_status(0, "HTTP/1.1 200 OK\r\n");
    http_gate_stage(bench.gate, HTTP_SERVES, "the node leaves the cluster", NULL);
    say(0, "GET /readyz HTTP/1.1\r\n" HOST "\r\n");
    const char *text = heard(0);
    assert_memory_equal(text, "HTTP/1.1 503 ", 13);
    assert_non_null(strstr(text, "the node leaves the cluster"));
    say(0, LIVE);
    expect_status(0, "HTTP/1.1 200 OK\r\n");
    check(0, 1); /* it decides all the same */
    submit();
    answer_all();
    expect_status(0, "HTTP/1.1 200 OK\r\n");
    http_gate_stage(bench.gate, HTTP_ENDS, "the node stops", NULL);
    say(0, LIVE LIVE);
    text = heard(0);
    assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
    assert_null(strstr(text + 1, "HTTP/1.1 ")); /* the last one */
    http_gate_stage(bench.gate, HTTP_WAITS, "it waits", NULL);
    check(1, 1);
    expect_status(1, "HTTP/1.1 503 ");
}

/* ---- any order ------------------------------------------------------------------------------- */

/* The numbers that the responses of a peer tell, in order; returns the next one that is due. */
static unsigned count_in_order(uint32_t peer, unsigned next)
{
    const char *at = heard(peer);
    while ((at = strstr(at, "\"remaining\":")) != NULL) {
        at += strlen("\"remaining\":");
        assert_int_equal(strtoul(at, NULL, 10), next % 90);
        next++;
    }
    return next;
}

static void responses_keep_their_order(void **state)
{
    unsigned asked[PEERS] = {0};
    unsigned told[PEERS] = {0};
    uint32_t first = 0;
    struct random random;
    (void)state;
    random_init(&random, 5);
    for (unsigned round = 0; round < EFFORT(20000); round++) {
        const uint32_t peer = (uint32_t)random_below(&random, PEERS);
        if (random_below(&random, 4) > 0 && bench.input_len[peer] < INPUT / 2)
            check(peer, asked[peer]++ % 90);
        if (random_below(&random, 6) == 0)
            submit();
        if (first < bench.frame_count && random_below(&random, 6) == 0) {
            const uint32_t at = first + (uint32_t)random_below(&random, bench.frame_count - first);
            answer_partly(at, random_below(&random, 3) == 0 ? 0 : random_next(&random));
        }
        if (bench.frame_count > FRAMES - 16 || random_below(&random, 64) == 0) {
            answer_all();
            for (uint32_t i = 0; i < bench.frame_count; i++)
                free(bench.frames[i].bytes);
            bench.frame_count = first = 0;
        }
        told[peer] = count_in_order(peer, told[peer]);
        feed(peer);
    }
    for (int i = 0; i < 4096 && memcmp(asked, told, sizeof asked) != 0; i++) {
        submit();
        answer_all();
        for (uint32_t peer = 0; peer < PEERS; peer++) {
            told[peer] = count_in_order(peer, told[peer]);
            feed(peer);
        }
    }
    assert_memory_equal(asked, told, sizeof asked);
}

/* Asks Gubernator's way for so many items that have nothing, not even a key. */
static void ask_items(uint32_t peer, uint32_t count)
{
    static char body[8192];
    static char text[9000];
    size_t len = (size_t)snprintf(body, sizeof body, "{\"requests\":[{}");
    for (uint32_t i = 1; i < count; i++)
        len += (size_t)snprintf(body + len, sizeof body - len, ",{}");
    (void)snprintf(body + len, sizeof body - len, "]}");
    (void)snprintf(text, sizeof text,
                   "POST /v1/GetRateLimits HTTP/1.1\r\n" HOST JSON "Content-Length: %zu\r\n\r\n%s",
                   strlen(body), body);
    say(peer, text);
}

/* A handler that answers at once is called again when an earlier request has its answer. */
static void what_waited_to_be_answered_at_once_is_counted_once(void **state)
{
    struct http_stats stats;
    (void)state;
    check(0, 1);
    ask_items(0, 1001);
    check(1, 2);
    ask_items(1, 3);
    http_gate_stats(bench.gate, &stats);
    assert_int_equal(stats.gubernator.too_large + stats.gubernator.invalid, 0);
    submit();
    answer_all();
    feed(0);
    feed(1);
    assert_non_null(strstr(heard(0), "max size is '1000'"));
    assert_non_null(strstr(heard(1), "cannot be empty"));
    http_gate_stats(bench.gate, &stats);
    assert_int_equal(stats.gubernator.too_large, 1);
    assert_int_equal(stats.gubernator.invalid, 3);
}

/* ---- metrics, and listeners aside ------------------------------------------------------------ */

#define METRICS "GET /metrics HTTP/1.1\r\n" HOST "\r\n"

/* The control core answers the operator's command of the last frame, with that text or a code. */
static void answer_metrics(int code, const char *text)
{
    uint8_t reply[1024];
    char error[WIRE_ERROR_LEN];
    struct mp_token tokens[32];
    struct wire_admin admin;
    struct mp_writer writer;
    const struct frame *asked = &bench.frames[bench.frame_count - 1];
    assert_int_equal(wire_decode_admin(asked->bytes, asked->len, tokens, 32, &admin, error), 0);
    assert_memory_equal(admin.command.data, "metrics", admin.command.len);
    mp_writer_init(&writer, reply, sizeof reply);
    wire_begin_admin_reply(&writer, admin.session, admin.seq, code);
    mp_put_str(&writer, text);
    batches_answer(http_gate_batches(bench.gate), reply, writer.len, &finder);
    check_all();
}

/* A page of metrics has a room of its own, which the connection's memory is made to have. */
static char metrics_room[1 << 20];

static void give_room(uint32_t peer)
{
    bench.peers[peer].base.out.data = metrics_room;
    bench.peers[peer].base.out.capacity = sizeof metrics_room;
}

static void metrics_are_what_the_control_core_says(void **state)
{
    (void)state;
    say(0, METRICS);
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ROOM);
    give_room(0);
    feed(0);
    submit();
    answer_metrics(0, "tidegate_keys 1\n");
    assert_non_null(strstr(metrics_room, "200 OK"));
    assert_non_null(strstr(metrics_room, "Content-Type: text/plain; version=0.0.4; charset=utf-8"));
    assert_non_null(strstr(metrics_room, "\r\n\r\ntidegate_keys 1\n"));
    bench.peers[0].base.out.len = 0;
    say(0, METRICS);
    submit();
    answer_metrics(-1, "no");
    assert_non_null(strstr(metrics_room, "503 Service Unavailable"));
}

/* Who comes by a listener for metrics gets these and the probes, whatever else there is. */
static void a_listener_aside_offers_metrics_and_probes_alone(void **state)
{
    static const char *const refused[] = {
        "POST /v1/check HTTP/1.1\r\n" HOST JSON "Content-Length: 2\r\n\r\n{}",
        "GET /v1/check HTTP/1.1\r\n" HOST "\r\n", "GET /v1/auth HTTP/1.1\r\n" HOST "\r\n",
        "OPTIONS /v1/check HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/openapi.json HTTP/1.1\r\n" HOST "\r\n"};
    (void)state;
    bench.peers[0].base.aside = true;
    give_room(0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        bench.peers[0].base.out.len = 0;
        say(0, refused[i]);
        assert_memory_equal(metrics_room, "HTTP/1.1 404", 12);
    }
    bench.peers[0].base.out.len = 0;
    say(0, LIVE);
    assert_memory_equal(metrics_room, "HTTP/1.1 200", 12);
    bench.peers[0].base.out.len = 0;
    say(0, METRICS);
    submit();
    answer_metrics(0, "");
    assert_memory_equal(metrics_room, "HTTP/1.1 200", 12);
    bench.peers[0].base.out.len = 0;
    say(0, "GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert_memory_equal(metrics_room, "HTTP/1.1 421", 12);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_response_has_a_date_and_is_not_stored),
        TEST(a_check_is_answered_by_the_shard),
        TEST(what_is_wrong_with_a_check_is_a_problem),
        TEST(versions_and_connection_headers_are_obeyed),
        TEST(a_malformed_request_ends_the_connection),
        TEST(methods_and_paths_that_are_not_there_are_told_apart),
        TEST(hosts_are_loopback_or_configured),
        TEST(pages_of_other_origins_are_refused),
        TEST(a_form_of_a_page_decides_nothing),
        TEST(a_probe_waits_for_the_check_before_it),
        TEST(what_is_refused_at_once_waits_as_well),
        TEST(what_the_parser_refuses_waits_as_well),
        TEST(a_check_that_waits_holds_up_its_client_alone),
        TEST(a_client_that_is_gone_is_not_answered),
        TEST(what_is_not_answered_is_given_up),
        TEST(the_shard_is_told_how_long_a_client_waits),
        TEST(what_ran_out_before_it_was_asked_charges_nothing),
        TEST(a_shard_that_refuses_is_a_503_with_retry_after),
        TEST(a_full_batch_is_submitted),
        TEST(without_a_batch_there_is_a_503),
        TEST(who_waits_to_be_told_is_told_to_go_on),
        TEST(a_head_that_is_refused_is_asked_for_no_body),
        TEST(the_loop_is_told_what_a_request_still_needs),
        TEST(a_node_that_waits_or_ends_is_not_ready),
        TEST(responses_keep_their_order),
        TEST(what_waited_to_be_answered_at_once_is_counted_once),
        TEST(metrics_are_what_the_control_core_says),
        TEST(a_listener_aside_offers_metrics_and_probes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
