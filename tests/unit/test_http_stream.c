/* test_http_stream.c - responses that go on: chunks, their turns, their end, and their bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp.h"
#include "node/gateway/http/http_gate.h"
#include "node/gateway/http/http_routes.h"
#include "node/gateway/http/http_stream.h"

enum { OUT = 64 << 10, TOKENS = 64, PEERS = HTTP_STREAMS_MAX + 2, FRAME = 2048 };

#define SECOND INT64_C(1000000000)
#define GET    "GET /s HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define HEAD   "Transfer-Encoding: chunked\r\n\r\n"

/* ---- a stream of numbers: from the shard, or at once ----------------------------------------- */

static struct {
    bool asks;  /* each turn asks the shard */
    bool quiet; /* a turn writes nothing */
    size_t len; /* of a chunk's filling */
    unsigned turns;
} source;

static void put_chunk(struct http_reply *reply, void *kept)
{
    uint64_t *count = kept;
    http_chunk_begin(reply);
    http_put_text(reply, "n");
    http_put_unsigned(reply, ++*count);
    for (size_t i = 0; i < source.len; i++)
        http_put_text(reply, ".");
    http_chunk_end(reply);
}

static void answered(struct http_completion *completion)
{
    assert_non_null(completion->stream);
    if (completion->admin->code == 0)
        put_chunk(&completion->reply, completion->stream);
}

static enum http_verdict more(struct http_exchange *exchange)
{
    struct mp_writer *writer;
    void *context;
    source.turns++;
    if (source.quiet)
        return HTTP_ANSWERED;
    if (!source.asks) {
        put_chunk(&exchange->reply, exchange->stream);
        return HTTP_ANSWERED;
    }
    const enum http_verdict verdict =
        http_ask_admin(exchange, "status", HTTP_ROOM, answered, &context, &writer);
    if (verdict == HTTP_ASKED)
        mp_put_map(writer, 0);
    return verdict;
}

static enum http_verdict begin(struct http_exchange *exchange)
{
    uint64_t *count = http_stream_begin(exchange, "text/event-stream", more);
    assert_int_equal(*count, 0);
    *count = 10;
    return HTTP_ANSWERED;
}

static const struct http_route routes[] = {
    {.method = HTTP1_GET, .path = "/s", .name = "s", .summary = "streams", .handle = begin}};

/* ---- the bench ------------------------------------------------------------------------------- */

static struct {
    struct http_gate *gate;
    struct gateway_stats stats;
    int64_t now_ns;
    struct http_peer peers[PEERS];
    char *outs[PEERS];
    unsigned found;
    uint64_t gone; /* a token whose connection is not there any more */
} bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    bench.found++;
    return token < PEERS && token != bench.gone ? &bench.peers[token].base : NULL;
}

static const struct gateway_finder finder = {find, NULL};

static int setup(void **state)
{
    struct http_facts facts = {.anonymous = ACCESS_ANONYMOUS,
                               .anonymous_grpc = ACCESS_ANONYMOUS,
                               .name = "n1",
                               .version = "9",
                               .routes = routes,
                               .route_count = 1};
    (void)state;
    memset(&bench, 0, sizeof bench);
    memset(&source, 0, sizeof source);
    bench.now_ns = 100 * SECOND;
    bench.gone = UINT64_MAX;
    assert_int_equal(http_gate_new(alloc_heap(), 3, &facts, &bench.stats, &bench.gate), 0);
    http_gate_now(bench.gate, bench.now_ns);
    for (int i = 0; i < PEERS; i++) {
        bench.outs[i] = malloc(OUT + 1);
        assert_non_null(bench.outs[i]);
        bench.peers[i].base.out.data = bench.outs[i];
        bench.peers[i].base.out.capacity = OUT;
        http_gate_open(bench.gate, &bench.peers[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_gate_free(&bench.gate);
    for (int i = 0; i < PEERS; i++)
        free(bench.outs[i]);
    return 0;
}

/* The bytes reach the gate; what was there to be sent has been sent. */
static enum gateway_stop say(int peer, const char *bytes)
{
    size_t used;
    bench.peers[peer].base.out.len = 0;
    const enum gateway_stop stop =
        http_gate_take(bench.gate, &bench.peers[peer], (uint64_t)peer, bytes, strlen(bytes), &used);
    batches_check_invariants(http_gate_batches(bench.gate));
    return stop;
}

static const char *heard(int peer)
{
    bench.outs[peer][bench.peers[peer].base.out.len] = '\0';
    return bench.outs[peer];
}

/* The loop has looked, and goes on with whom the gate has found. */
static enum gateway_stop look(int peer, int64_t span_ns)
{
    bench.now_ns += span_ns;
    http_gate_now(bench.gate, bench.now_ns);
    bench.found = 0;
    batches_expire(http_gate_batches(bench.gate), &finder);
    http_gate_look(bench.gate, &finder);
    return say(peer, "");
}

/* The shard answers what is asked of it; false: nothing is. */
static bool shard_answers(int code)
{
    static uint8_t copy[FRAME];
    struct mp_token tokens[TOKENS];
    uint8_t reply[FRAME];
    char error[WIRE_ERROR_LEN];
    struct wire_admin admin;
    struct mp_writer writer;
    const uint8_t *frame;
    const size_t len = batches_submit(http_gate_batches(bench.gate), &frame);
    if (len == 0)
        return false;
    assert_true(len <= sizeof copy);
    memcpy(copy, frame, len);
    assert_int_equal(wire_decode_admin(copy, len, tokens, TOKENS, &admin, error), 0);
    mp_writer_init(&writer, reply, sizeof reply);
    wire_begin_admin_reply(&writer, admin.session, admin.seq, code);
    mp_put_map(&writer, 0);
    for (int i = 0; i < PEERS; i++)
        bench.peers[i].base.out.len = 0;
    batches_answer(http_gate_batches(bench.gate), reply, writer.len, &finder);
    return true;
}

static struct http_stats counted(void)
{
    struct http_stats stats;
    http_gate_stats(bench.gate, &stats);
    return stats;
}

/* ---- what holds ------------------------------------------------------------------------------ */

static void the_head_comes_at_once_and_a_chunk_a_second(void **state)
{
    (void)state;
    assert_int_equal(say(0, GET), GATEWAY_NEED_TIME);
    assert_non_null(strstr(heard(0), "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(heard(0), "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(heard(0), HEAD "00000003\r\nn11\r\n"));
    assert_null(strstr(heard(0), "Content-Length"));
    assert_true(bench.peers[0].base.told);
    assert_false(bench.peers[0].base.closing);
    assert_int_equal(look(0, SECOND / 2), GATEWAY_NEED_TIME);
    assert_string_equal(heard(0), "");
    assert_int_equal(bench.found, 0);
    assert_int_equal(look(0, SECOND / 2), GATEWAY_NEED_TIME);
    assert_int_equal(bench.found, 1);
    assert_string_equal(heard(0), "00000003\r\nn12\r\n");
    assert_int_equal(counted().streams, 1);
    assert_int_equal(counted().answered, 1);
}

static void what_the_shard_answers_is_a_chunk_and_what_it_does_not_is_asked_again(void **state)
{
    (void)state;
    source.asks = true;
    assert_int_equal(say(0, GET), GATEWAY_NEED_ANSWER);
    assert_int_equal(bench.peers[0].base.waiting, 1);
    assert_int_equal(look(0, 2 * SECOND), GATEWAY_NEED_ANSWER); /* one question at a time */
    assert_int_equal(source.turns, 1);
    assert_true(shard_answers(0));
    assert_string_equal(heard(0), "00000003\r\nn11\r\n");
    assert_int_equal(bench.peers[0].base.waiting, 0);
    assert_int_equal(look(0, SECOND), GATEWAY_NEED_ANSWER);
    const uint8_t *frame;
    assert_true(batches_submit(http_gate_batches(bench.gate), &frame) > 0);
    assert_int_equal(look(0, 40 * SECOND), GATEWAY_NEED_ANSWER); /* it was given up */
    assert_int_equal(bench.peers[0].base.waiting, 1);
    assert_string_equal(heard(0), "");
    assert_true(shard_answers(0));
    assert_string_equal(heard(0), "00000003\r\nn12\r\n");
    assert_int_equal(counted().failed, 0);
}

/* HTTPSTREAM-2 */
static void a_chunk_that_does_not_fit_is_taken_back_and_comes_later(void **state)
{
    (void)state;
    source.len = 3000;
    source.asks = true; /* with room for HTTP_ROOM */
    (void)say(0, GET);
    assert_true(shard_answers(0));
    assert_string_equal(heard(0), "");
    source.len = 0;
    (void)look(0, SECOND);
    assert_true(shard_answers(0));
    assert_string_equal(heard(0), "00000003\r\nn12\r\n");
    source.quiet = true;
    (void)look(0, SECOND);
    assert_string_equal(heard(0), "");
}

static void who_has_no_room_waits_for_it_and_is_not_answered_an_error(void **state)
{
    (void)state;
    (void)say(0, GET);
    source.asks = true;
    struct gateway_peer *peer = &bench.peers[0].base;
    peer->out.capacity = HTTP_ROOM / 2;
    assert_int_equal(look(0, SECOND), GATEWAY_NEED_ROOM);
    assert_int_equal(peer->room, HTTP_ROOM);
    peer->cramped = true; /* there is none to be had */
    assert_int_equal(say(0, ""), GATEWAY_NEED_TIME);
    assert_string_equal(heard(0), "");
    assert_false(peer->cramped);
    peer->out.capacity = OUT;
    assert_int_equal(look(0, SECOND), GATEWAY_NEED_ANSWER);
    assert_true(shard_answers(0));
    assert_string_equal(heard(0), "00000003\r\nn12\r\n");
}

static void one_of_http_1_0_has_no_chunks_and_ends_with_its_connection(void **state)
{
    (void)state;
    (void)say(0, "GET /s HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_null(strstr(heard(0), "Transfer-Encoding"));
    assert_non_null(strstr(heard(0), "\r\n\r\nn11"));
    (void)look(0, SECOND);
    assert_string_equal(heard(0), "n12");
    http_gate_stage(bench.gate, HTTP_ENDS, "it stops", NULL);
    assert_int_equal(look(0, 0), GATEWAY_AT_END);
    assert_string_equal(heard(0), "");
}

static void a_node_that_stops_ends_its_streams(void **state)
{
    (void)state;
    (void)say(0, GET);
    http_gate_stage(bench.gate, HTTP_ENDS, "it stops", NULL);
    assert_int_equal(look(0, 0), GATEWAY_AT_END);
    assert_string_equal(heard(0), "0\r\n\r\n");
    assert_true(bench.peers[0].base.closing);
    assert_false(bench.peers[0].base.told);
}

static void what_a_client_sends_behind_it_is_not_looked_at(void **state)
{
    (void)state;
    (void)say(0, GET GET);
    assert_int_equal(counted().answered, 1);
    assert_int_equal(say(0, GET), GATEWAY_NEED_TIME);
    assert_string_equal(heard(0), "");
}

static void head_has_the_head_alone_and_is_no_stream(void **state)
{
    (void)state;
    (void)say(0, "HEAD /s HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_non_null(strstr(heard(0), HEAD));
    assert_string_equal(strstr(heard(0), HEAD) + strlen(HEAD), "");
    assert_int_equal(counted().streams, 0);
}

/* HTTPSTREAM-1 */
static void one_too_many_is_told_so_and_a_place_that_is_left_is_taken_again(void **state)
{
    (void)state;
    for (int i = 0; i < HTTP_STREAMS_MAX; i++) {
        (void)say(i, GET);
        assert_non_null(bench.peers[i].stream);
    }
    (void)say(HTTP_STREAMS_MAX, GET);
    assert_non_null(strstr(heard(HTTP_STREAMS_MAX), "HTTP/1.1 503 "));
    assert_non_null(strstr(heard(HTTP_STREAMS_MAX), "as many streams as it takes"));
    assert_true(bench.peers[HTTP_STREAMS_MAX].base.closing);
    assert_int_equal(counted().streamless, 1);
    http_gate_close(&bench.peers[5]);
    (void)say(HTTP_STREAMS_MAX + 1, GET);
    assert_non_null(strstr(heard(HTTP_STREAMS_MAX + 1), HEAD));
    (void)look(7, SECOND);
    assert_int_equal(bench.found, HTTP_STREAMS_MAX);
}

static void a_stream_that_ended_while_its_question_was_open_harms_nobody(void **state)
{
    (void)state;
    source.asks = true;
    (void)say(0, GET);
    http_gate_close(&bench.peers[0]);
    bench.gone = 0;
    assert_true(shard_answers(0));
    (void)say(1, GET);
    assert_non_null(strstr(heard(1), HEAD));
    assert_true(shard_answers(0));
    assert_string_equal(heard(1), "00000003\r\nn11\r\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_head_comes_at_once_and_a_chunk_a_second),
        TEST(what_the_shard_answers_is_a_chunk_and_what_it_does_not_is_asked_again),
        TEST(a_chunk_that_does_not_fit_is_taken_back_and_comes_later),
        TEST(who_has_no_room_waits_for_it_and_is_not_answered_an_error),
        TEST(one_of_http_1_0_has_no_chunks_and_ends_with_its_connection),
        TEST(a_node_that_stops_ends_its_streams),
        TEST(what_a_client_sends_behind_it_is_not_looked_at),
        TEST(head_has_the_head_alone_and_is_no_stream),
        TEST(one_too_many_is_told_so_and_a_place_that_is_left_is_taken_again),
        TEST(a_stream_that_ended_while_its_question_was_open_harms_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
