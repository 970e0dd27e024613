/* test_h2.c - connections of HTTP/2: how many streams, how much memory, how long, and what floods
 * do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_h2.h"

enum { TOKEN = 3, ANSWER = 100, CHUNK = 60 << 10 };

#define S INT64_C(1000000000)

struct bench {
    struct h2_gate *gate;
    struct gateway_stats stats;
    struct h2_stats h2_stats;
    struct alloc_failing heap;
    struct h2_client client;
    int64_t now_ns;
    uint32_t taken;
    uint32_t closed;
    uint32_t full; /* requests of which something had no room */
    bool holds;    /* requests are not answered */
    bool early;    /* or as soon as their head has come */
    size_t answer_len;
};

static struct bench bench;

/* Keeps what comes, behind the stream. */
struct kept {
    uint8_t *data;
};

static const nghttp2_nv status_ok = {
    .name = (uint8_t *)":status", .value = (uint8_t *)"200", .namelen = 7, .valuelen = 3};

static void headed(void *gate, struct h2_stream *stream)
{
    (void)gate;
    if (bench.early)
        h2_respond(stream, &status_ok, 1, false);
}

static void keep_data(void *gate, struct h2_stream *stream, const uint8_t *data, size_t len)
{
    struct kept *kept = h2_stream_own(stream);
    (void)gate;
    (void)data;
    (void)len;
    if (kept->data == NULL)
        kept->data = h2_memory_get(h2_memory_of(stream->peer), CHUNK, H2_MEMORY_KEPT);
    bench.full += kept->data == NULL;
}

static bool take(void *gate, struct h2_stream *stream, enum gateway_stop *stop)
{
    (void)gate;
    (void)stop;
    bench.taken++;
    if (bench.holds)
        return true;
    h2_respond(stream, &status_ok, 1, true);
    uint8_t *out = h2_put(stream, bench.answer_len);
    if (out != NULL)
        memset(out, 'x', bench.answer_len);
    h2_end(stream);
    return true;
}

static void trailers(void *gate, struct h2_stream *stream)
{
    static const nghttp2_nv status = {
        .name = (uint8_t *)"grpc-status", .value = (uint8_t *)"0", .namelen = 11, .valuelen = 1};
    (void)gate;
    h2_trailers(stream, &status, 1);
}

static void closed(void *gate, struct h2_stream *stream)
{
    struct kept *kept = h2_stream_own(stream);
    (void)gate;
    bench.closed++;
    h2_memory_put(h2_memory_of(stream->peer), kept->data);
}

static void look(void *gate, struct h2_stream *stream)
{
    (void)gate;
    (void)stream;
}

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    assert_int_equal(token, TOKEN);
    return &bench.client.base;
}

static const struct gateway_finder finder = {find, NULL};

static int setup(void **state)
{
    const struct h2_user user = {
        NULL, sizeof(struct kept), headed, keep_data, take, trailers, closed, look};
    (void)state;
    memset(&bench, 0, sizeof bench);
    bench.answer_len = ANSWER;
    bench.now_ns = 1000 * S;
    alloc_failing_init(&bench.heap, 0);
    assert_int_equal(
        h2_gate_new(&bench.heap.allocator, &user, 11, &bench.stats, &bench.h2_stats, &bench.gate),
        0);
    h2_gate_now(bench.gate, bench.now_ns);
    h2_client_open(&bench.client, bench.gate, TOKEN);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (bench.client.session != NULL)
        h2_client_close(&bench.client);
    h2_gate_free(&bench.gate);
    assert_int_equal(bench.heap.bytes_live, 0);
    return 0;
}

static void turn(void)
{
    h2_client_turn(&bench.client);
}

static void later(int64_t ns)
{
    bench.now_ns += ns;
    h2_gate_now(bench.gate, bench.now_ns);
    h2_gate_look(bench.gate, &finder);
    turn();
}

static struct h2_call *ask(const void *body, size_t len)
{
    return h2_client_ask(&bench.client, "/a", body, len, NULL);
}

static void a_thousand_streams_go_at_once_and_one_too_many_is_refused(void **state)
{
    (void)state;
    bench.holds = true;
    for (int i = 0; i < H2_STREAMS_MAX + 1; i++)
        (void)ask("", 0);
    nghttp2_session_set_local_window_size(bench.client.session, NGHTTP2_FLAG_NONE, 0, 1 << 20);
    turn();
    /* The client keeps to what the node has told it: the last one waits with it. */
    assert_int_equal(bench.taken, H2_STREAMS_MAX);
    assert_int_equal(bench.client.calls[H2_STREAMS_MAX].closed, false);
    h2_client_close(&bench.client);
    assert_int_equal(bench.closed, H2_STREAMS_MAX);
}

/* Streams that their client ends are counted as long as the shard has something of them. */
static void streams_that_are_ended_at_once_are_bounded_by_what_waits(void **state)
{
    (void)state;
    bench.client.base.waiting = 2 * H2_STREAMS_MAX;
    struct h2_call *call = ask("", 0);
    turn();
    assert_true(call->closed);
    assert_int_equal(call->code, NGHTTP2_REFUSED_STREAM);
    assert_int_equal(bench.h2_stats.refused, 1);
    assert_int_equal(bench.taken, 0);
    bench.client.base.waiting = 0;
}

static void rapid_resets_end_the_connection(void **state)
{
    (void)state;
    bench.holds = true;
    for (int i = 0; i < 40000 && !bench.client.base.closing; i++) {
        bench.client.call_count = 0;
        const struct h2_call *call = ask("", 0);
        turn();
        (void)nghttp2_submit_rst_stream(bench.client.session, NGHTTP2_FLAG_NONE, call->stream,
                                        NGHTTP2_CANCEL);
        turn();
    }
    assert_true(bench.client.base.closing);
    assert_true(bench.client.goaways > 0 && bench.h2_stats.cut >= 9000);
}

static void frames_that_ask_for_nothing_end_the_connection(void **state)
{
    (void)state;
    for (int i = 0; i < H2_CONTROL_MAX - 2; i++) { /* its settings came first, and their answer */
        assert_int_equal(nghttp2_submit_ping(bench.client.session, NGHTTP2_FLAG_NONE, NULL), 0);
        turn();
    }
    assert_false(bench.client.base.closing);
    later(S);
    for (int i = 0; i < H2_CONTROL_MAX; i++) {
        assert_int_equal(nghttp2_submit_ping(bench.client.session, NGHTTP2_FLAG_NONE, NULL), 0);
        turn();
    }
    assert_false(bench.client.base.closing);
    assert_int_equal(nghttp2_submit_settings(bench.client.session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
    turn();
    assert_true(bench.client.base.closing);
    assert_int_equal(bench.client.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(bench.h2_stats.floods, 1);
    assert_int_equal(bench.stats.protocol_errors, 1);
}

/* gRPC's clients measure how long the way is by a PING with what they ask. */
static void a_ping_with_each_request_is_no_flood(void **state)
{
    (void)state;
    bench.answer_len = 1;
    for (int i = 0; i < 2 * H2_CONTROL_MAX; i++) {
        assert_int_equal(nghttp2_submit_ping(bench.client.session, NGHTTP2_FLAG_NONE, NULL), 0);
        (void)ask("", 0);
        turn();
        bench.client.call_count = 0; /* it is answered: its place is free */
    }
    assert_false(bench.client.base.closing);
    assert_int_equal(bench.h2_stats.floods, 0);
}

static void fields_without_end_end_the_connection(void **state)
{
    static char value[4000];
    const char *fields[2 * H2_FIELDS + 1] = {NULL};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    (void)state;
    memset(value, 'v', sizeof value - 1);
    for (int i = 0; i < H2_FIELDS; i++) {
        fields[2 * i] = names[i];
        fields[2 * i + 1] = value;
    }
    for (int i = 0; i < 3; i++) { /* the table makes them short from the second time on */
        (void)h2_client_ask(&bench.client, "/a", "", 0, fields);
        turn();
    }
    assert_false(bench.client.base.closing);
    /* One byte of a table's entry stands for thousands: sixty of them in one head. */
    static uint8_t frame[9 + 20000];
    size_t at = 9;
    frame[at++] = 0x83; /* :method POST */
    frame[at++] = 0x86;
    frame[at++] = 0x84;
    frame[at++] = 0x40; /* a new entry: z, of 3,900 bytes */
    frame[at++] = 1;
    frame[at++] = 'z';
    frame[at++] = 0x7f;
    frame[at++] = (3900 - 127) % 128 + 128;
    frame[at++] = (3900 - 127) / 128;
    memset(frame + at, 'y', 3900);
    at += 3900;
    memset(frame + at, 0xbe, 60); /* and again: the newest one */
    at += 60;
    frame[0] = 0;
    frame[1] = (uint8_t)((at - 9) >> 8);
    frame[2] = (uint8_t)(at - 9);
    frame[3] = NGHTTP2_HEADERS;
    frame[4] = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
    frame[8] = 99;
    size_t used;
    const enum gateway_stop stop = h2_take(bench.client.peer, (const char *)frame, at, &used);
    assert_int_equal(stop, GATEWAY_AT_END);
    turn();
    assert_true(bench.client.base.closing);
    assert_int_equal(bench.h2_stats.floods, 1);
}

static void memory_of_a_connection_is_bounded(void **state)
{
    static uint8_t body[H2_WINDOW];
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct h2_call *call = ask(body, 1);
        call->open = true; /* it never ends */
        turn();
    }
    assert_true(bench.full > 0);
    assert_true(bench.heap.bytes_live < H2_MEMORY_EACH + (64 << 10));
    assert_true(bench.h2_stats.refused > 0); /* a client knows that these were not begun, */
    assert_false(bench.client.base.closing); /* and the others go on */
    for (uint32_t i = 0; i < 50; i++)
        assert_false(bench.client.calls[i].closed);
}

/* The protocol's own part is its own, also when it has taken some of the others'. */
static void what_is_kept_for_the_protocol_is_its_own(void **state)
{
    struct h2_memories all = {.allocator = &bench.heap.allocator};
    struct h2_memory memory = {.all = &all};
    const size_t shared = H2_MEMORY_EACH - H2_MEMORY_KEPT;
    (void)state;
    assert_null(h2_memory_get(&memory, shared, H2_MEMORY_KEPT)); /* and its head */
    void *first = h2_memory_get(&memory, shared - 64, H2_MEMORY_KEPT);
    assert_non_null(first);
    void *own = h2_memory_get(&memory, 1000, 0);
    assert_non_null(own);
    assert_null(h2_memory_get(&memory, 1, H2_MEMORY_KEPT));
    assert_null(h2_memory_grow(&memory, own, 2000, H2_MEMORY_KEPT));
    own = h2_memory_grow(&memory, own, 2000, 0);
    assert_non_null(own);
    assert_null(h2_memory_get(&memory, H2_MEMORY_KEPT, 0));
    assert_null(h2_memory_get(&memory, SIZE_MAX, 0));
    h2_memory_put(&memory, first);
    h2_memory_put(&memory, own);
    h2_memory_put(&memory, NULL);
    assert_int_equal(memory.used + all.used, 0);
    all.used = H2_MEMORY_MAX - 100;
    assert_null(h2_memory_get(&memory, 100, 0));
}

static void any_request_for_memory_may_fail(void **state)
{
    (void)state;
    h2_client_close(&bench.client);
    bench.answer_len = 1;
    const size_t before = bench.heap.requests;
    for (size_t n = 1; n == 1 || bench.heap.requests >= bench.heap.fail_at; n++) {
        struct gateway_peer base = {.id = 1};
        char out[GATEWAY_OUT_LEN];
        size_t used;
        base.out.data = out;
        base.out.capacity = sizeof out;
        bench.heap.requests = before;
        bench.heap.fail_at = before + n;
        struct h2_peer *peer = h2_open(bench.gate, &base, TOKEN);
        if (peer != NULL) {
            (void)h2_take(peer, NGHTTP2_CLIENT_MAGIC "\0\0\0\4\0\0\0\0\0", 24 + 9, &used);
            (void)h2_take(peer,
                          "\0\0\6\1\5\0\0\0\1\x83\x86\x84"
                          "A\1a",
                          15, &used);
            (void)h2_pump(peer, false);
            h2_close(&peer);
        }
        assert_true(n < 1000);
    }
    assert_true(bench.taken > 0);
    bench.heap.fail_at = 0;
}

static void answers_wait_for_whoever_does_not_read(void **state)
{
    (void)state;
    bench.answer_len = 60 << 10; /* more than `out` has room for, less than the client's window */
    const struct h2_call *call = ask("", 0);
    bench.client.deaf = true;
    turn();
    assert_true(h2_pump(bench.client.peer, false));
    assert_int_equal(bench.client.base.out.len, bench.client.base.out.capacity);
    assert_true(h2_pump(bench.client.peer, false));
    (void)call;
    later(H2_STREAM_NS - S);
    assert_int_equal(bench.h2_stats.late, 0);
    later(S);
    assert_int_equal(bench.h2_stats.late, 1);
}

static void a_request_that_does_not_come_ends(void **state)
{
    (void)state;
    struct h2_call *call = ask("x", 1);
    call->open = true;
    turn();
    for (int i = 0; i < 29; i++)
        later(S);
    assert_false(call->closed);
    later(S);
    assert_true(call->closed);
    assert_int_equal(call->code, NGHTTP2_CANCEL);
    assert_int_equal(bench.h2_stats.late, 1);
    assert_false(bench.client.base.closing);
}

/* An answer before the end of its request, whose body goes on while it comes. */
static struct h2_call *ask_and_hear_early(size_t len)
{
    static const uint8_t body[H2_REST_MAX + 1];
    bench.early = true;
    struct h2_call *call = ask(body, len);
    call->open = true;
    turn();
    assert_int_equal(call->http, 200);
    return call;
}

static void what_still_comes_behind_an_early_answer_is_dropped_without_a_reset(void **state)
{
    (void)state;
    struct h2_call *call = ask_and_hear_early(H2_REST_MAX);
    later(H2_REST_NS - 1);
    assert_false(call->closed);
    call->open = false;
    assert_int_equal(nghttp2_session_resume_data(bench.client.session, call->stream), 0);
    turn();
    assert_true(call->closed);
    assert_int_equal(bench.client.resets, 0);
    assert_int_equal(bench.closed, 1);
    assert_int_equal(bench.taken, 0);
}

static void what_comes_behind_an_early_answer_is_bounded_by_bytes_and_by_time(void **state)
{
    (void)state;
    const struct h2_call *call = ask_and_hear_early(H2_REST_MAX + 1);
    assert_true(call->closed);
    assert_int_equal(call->code, NGHTTP2_NO_ERROR);
    assert_int_equal(bench.client.resets, 1);
    call = ask_and_hear_early(1);
    later(H2_REST_NS - 1);
    assert_false(call->closed);
    later(1);
    assert_true(call->closed);
    assert_int_equal(call->code, NGHTTP2_NO_ERROR);
    assert_int_equal(bench.client.resets, 2);
    assert_int_equal(bench.h2_stats.late, 0);
    assert_int_equal(bench.h2_stats.cut, 0);
}

static void who_is_quiet_is_asked_whether_he_lives(void **state)
{
    (void)state;
    later(H2_QUIET_NS);
    assert_int_equal(bench.client.pings, 1); /* and has answered */
    later(H2_PONG_NS);
    assert_false(bench.client.base.closing);
    bench.client.deaf = true;
    later(H2_QUIET_NS);
    later(H2_PONG_NS);
    (void)h2_pump(bench.client.peer, false);
    assert_true(bench.client.base.closing);
    assert_int_equal(bench.h2_stats.unanswered, 1);
}

static void a_connection_ends_by_its_age_in_two_steps(void **state)
{
    (void)state;
    bench.holds = true;
    const struct h2_call *open = ask("", 0);
    turn();
    for (int64_t ns = 0; ns < H2_AGE_NS - H2_AGE_NS / 10; ns += 10 * S) {
        assert_int_equal(bench.client.goaways, 0);
        later(10 * S);
    }
    while (bench.client.goaways == 0)
        later(S);
    assert_true(bench.now_ns - 1000 * S <= H2_AGE_NS + H2_AGE_NS / 10 + S);
    assert_int_equal(bench.client.last_stream, INT32_MAX);
    assert_int_equal(bench.h2_stats.aged, 1);
    bench.client.base.waiting = 0;
    later(H2_NOTICE_NS);
    assert_int_equal(bench.client.goaways, 2);
    assert_int_equal(bench.client.last_stream, open->stream);
    assert_false(bench.client.base.closing);
    later(H2_GRACE_NS);
    assert_true(bench.client.base.closing);
}

static void ages_are_chosen_and_may_have_no_end(void **state)
{
    (void)state;
    h2_client_close(&bench.client);
    h2_gate_age(bench.gate, 10 * S);
    h2_client_open(&bench.client, bench.gate, TOKEN);
    later(9 * S - 1);
    assert_int_equal(bench.client.goaways, 0);
    later(2 * S + 1);
    assert_int_equal(bench.client.goaways, 1);
    h2_client_close(&bench.client);
    h2_gate_age(bench.gate, 0);
    h2_client_open(&bench.client, bench.gate, TOKEN);
    for (int i = 0; i < 100; i++)
        later(H2_QUIET_NS / 2);
    assert_int_equal(bench.client.goaways, 0);
}

static void a_node_that_stops_lets_what_it_took_end(void **state)
{
    (void)state;
    h2_gate_end(bench.gate);
    const struct h2_call *call = ask("", 0);
    turn(); /* the first word; what was on its way is answered */
    assert_int_equal(bench.client.goaways, 1);
    assert_int_equal(call->status, 0);
    assert_true(call->closed);
    assert_false(bench.client.base.closing);
    (void)h2_pump(bench.client.peer, true); /* nothing more will be read */
    assert_true(bench.client.base.closing);
    turn();
}

static void a_preface_is_known_by_all_its_bytes(void **state)
{
    (void)state;
    assert_int_equal(h2_preface("", 0), -1);
    assert_int_equal(h2_preface("P", 1), -1);
    assert_int_equal(h2_preface("POST", 4), 0);
    assert_int_equal(h2_preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r", 23), -1);
    assert_int_equal(h2_preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nX", 25), 1);
    assert_int_equal(h2_preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r.", 24), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_thousand_streams_go_at_once_and_one_too_many_is_refused),
        TEST(streams_that_are_ended_at_once_are_bounded_by_what_waits),
        TEST(rapid_resets_end_the_connection),
        TEST(frames_that_ask_for_nothing_end_the_connection),
        TEST(a_ping_with_each_request_is_no_flood),
        TEST(fields_without_end_end_the_connection),
        TEST(memory_of_a_connection_is_bounded),
        TEST(what_is_kept_for_the_protocol_is_its_own),
        TEST(any_request_for_memory_may_fail),
        TEST(answers_wait_for_whoever_does_not_read),
        TEST(a_request_that_does_not_come_ends),
        TEST(what_still_comes_behind_an_early_answer_is_dropped_without_a_reset),
        TEST(what_comes_behind_an_early_answer_is_bounded_by_bytes_and_by_time),
        TEST(who_is_quiet_is_asked_whether_he_lives),
        TEST(a_connection_ends_by_its_age_in_two_steps),
        TEST(ages_are_chosen_and_may_have_no_end),
        TEST(a_node_that_stops_lets_what_it_took_end),
        TEST(a_preface_is_known_by_all_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
