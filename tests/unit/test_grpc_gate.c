/* test_grpc_gate.c - requests of gRPC by another one's client session of HTTP/2: answers, refusals,
 * checks that are decided in any order, and times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <proto/health.pb-c.h>
#include <proto/reflection.pb-c.h>

#include "node/gateway/access.h"
#include "node/gateway/grpc/grpc_gate.h"
#include "node/gateway/grpc/grpc_health.h"
#include "node/gateway/grpc/grpc_reflection.h"
#include "tests/unit/support_h2.h"

enum { SESSION = 5, TOKEN = 3, FRAMES = 16, CALL_LEN = 128 };

#define MS     INT64_C(1000000)
#define CHECK  "/grpc.health.v1.Health/Check"
#define WATCH  "/grpc.health.v1.Health/Watch"
#define ASK    "/test.Test/Ask"
#define TELL   "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define ANYONE "\0\0\0\0\0" /* a request for the node's own health */

struct bench {
    struct batches *batches;
    struct h2_gate *h2;
    struct grpc_gate *grpc;
    struct gateway_stats stats;
    struct h2_stats h2_stats;
    struct grpc_stats grpc_stats;
    struct h2_client client;
    bool gone;
    int64_t now_ns;
    struct {
        uint8_t bytes[8192];
        size_t len;
    } frames[FRAMES];
    uint32_t frame_count;
    uint32_t looked;
};

static struct bench bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    assert_int_equal(token, TOKEN);
    bench.looked++;
    return bench.gone ? NULL : &bench.client.base;
}

static const struct gateway_finder finder = {find, NULL};

/* Answers with the sum of what remains, as a status of health. */
static void complete(struct grpc_completion *completion)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    const uint8_t *kept = completion->call.context;
    uint64_t sum = *kept;
    for (uint32_t i = 0; i < completion->count; i++) {
        struct wire_decision decision;
        grpc_decision(completion, i, &decision);
        sum += decision.remaining;
    }
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)sum;
    (void)grpc_reply(&completion->call, &response.base);
}

/* A check for each letter of the service's name, which is also the cost; '!' is more than fits. */
static enum grpc_verdict ask(struct grpc_call *call)
{
    const struct wire_text key = wire_text_of("key");
    const char *name = ((const Grpc__Health__V1__HealthCheckRequest *)call->request)->service;
    const enum grpc_verdict verdict = grpc_ask(call, (uint32_t)strlen(name), complete);
    if (verdict != GRPC_ASKED)
        return verdict;
    *(uint8_t *)call->context = 100;
    for (const char *at = name; *at != '\0'; at++) {
        const struct limit limit = {
            .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 5, .window_ns = 1000000000};
        const int template = wire_checks_builder_inline(call->builder, &limit);
        if (template <0 || *at == '!')
            return grpc_ask_full(call);
        assert_true(wire_checks_builder_append(call->builder, (uint32_t) template, OPERATION_CHECK,
                                               (uint64_t)(*at - 'a' + 1), &key, 1) >= 0);
    }
    return GRPC_ASKED;
}

static const struct grpc_method methods[] = {
    {.path = CHECK,
     .request = &grpc__health__v1__health_check_request__descriptor,
     .request_max = GRPC_HEALTH_MAX,
     .always = true,
     .handle = grpc_health_check},
    {.path = WATCH,
     .request = &grpc__health__v1__health_check_request__descriptor,
     .request_max = GRPC_HEALTH_MAX,
     .always = true,
     .handle = grpc_health_watch,
     .look = grpc_health_look},
    {.path = ASK,
     .request = &grpc__health__v1__health_check_request__descriptor,
     .request_max = 256,
     .handle = ask},
    {.path = TELL,
     .request = &grpc__reflection__v1__server_reflection_request__descriptor,
     .request_max = 100,
     .always = true,
     .many = true,
     .handle = grpc_reflection},
};

static void submit(void)
{
    const uint8_t *frame;
    const size_t len = batches_submit(bench.batches, &frame);
    if (len == 0)
        return;
    assert_true(bench.frame_count < FRAMES && len <= sizeof bench.frames[0].bytes);
    memcpy(bench.frames[bench.frame_count].bytes, frame, len);
    bench.frames[bench.frame_count++].len = len;
}

static int setup(void **state)
{
    const struct grpc_facts facts = {
        .anonymous = ACCESS_ANONYMOUS, .methods = methods, .method_count = 4};
    (void)state;
    memset(&bench, 0, sizeof bench);
    bench.now_ns = INT64_C(1795687200000) * MS;
    assert_int_equal(batches_new(alloc_heap(), SESSION, CALL_LEN, &bench.stats, &bench.batches), 0);
    bench.batches->now_ns = bench.now_ns;
    assert_int_equal(
        grpc_gate_new(alloc_heap(), &facts, bench.batches, &bench.grpc_stats, &bench.grpc), 0);
    const struct h2_user user = grpc_gate_user(bench.grpc);
    assert_int_equal(h2_gate_new(alloc_heap(), &user, 7, &bench.stats, &bench.h2_stats, &bench.h2),
                     0);
    h2_gate_now(bench.h2, bench.now_ns);
    h2_client_open(&bench.client, bench.h2, TOKEN);
    bench.client.submit = submit;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (bench.client.session != NULL)
        h2_client_close(&bench.client);
    h2_gate_free(&bench.h2);
    grpc_gate_free(&bench.grpc);
    batches_free(&bench.batches);
    return 0;
}

static void later(int64_t ns)
{
    bench.now_ns += ns;
    bench.batches->now_ns = bench.now_ns;
    h2_gate_now(bench.h2, bench.now_ns);
    batches_expire(bench.batches, &finder);
    h2_gate_look(bench.h2, &finder);
    h2_client_turn(&bench.client);
}

static void turn(void)
{
    h2_client_turn(&bench.client);
    batches_check_invariants(bench.batches);
    batches_check_peer(bench.batches, &bench.client.base, TOKEN);
}

static struct h2_call *say(const char *path, const void *body, size_t len,
                           const char *const *fields)
{
    struct h2_call *call = h2_client_ask(&bench.client, path, body, len, fields);
    turn();
    return call;
}

/* A request whose field of a service is `name`. */
static struct h2_call *call(const char *path, const char *name, const char *const *fields)
{
    static char bodies[H2_CALLS][96];
    char *body = bodies[bench.client.call_count];
    const size_t len = strlen(name);
    assert_true(len < 80);
    memcpy(body, "\0\0\0\0\0\x0a", 6);
    body[4] = (char)(2 + len);
    body[6] = (char)len;
    memcpy(body + 7, name, len);
    return say(path, body, 7 + len, fields);
}

/* The shard answers that frame: what remains of each check is its cost. The checks whose bits are
 * in `pending` are left. */
static void answer(uint32_t number, uint64_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[1 << 16];
    static uint8_t copy[sizeof bench.frames[0].bytes];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    memcpy(copy, bench.frames[number].bytes, bench.frames[number].len);
    assert_int_equal(wire_decode_checks(copy, bench.frames[number].len, &space, &checks, error), 0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.flags[i] = (pending >> i & 1) != 0 ? WIRE_PENDING : WIRE_ALLOWED;
        columns.remaining[i] = wire_checks_cost(&checks, i);
        columns.source_index[i] = WIRE_SOURCE_NONE;
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(len > 0);
    batches_answer(bench.batches, reply, (size_t)len, &finder);
    turn();
}

static uint32_t timeout_of(uint32_t number)
{
    static struct wire_checks_space space;
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    assert_int_equal(wire_decode_checks(bench.frames[number].bytes, bench.frames[number].len,
                                        &space, &checks, error),
                     0);
    return checks.timeout_ms;
}

static void refuse(uint32_t number, int code, const char *text)
{
    struct wire_envelope envelope;
    uint8_t reply[512];
    char error[WIRE_ERROR_LEN];
    assert_int_equal(
        wire_peek(bench.frames[number].bytes, bench.frames[number].len, &envelope, error), 0);
    const struct wire_error message = {
        .session = envelope.session, .seq = envelope.seq, .code = code, .text = wire_text_of(text)};
    const int len = wire_encode_error(&message, reply, sizeof reply);
    assert_true(len > 0);
    batches_answer(bench.batches, reply, (size_t)len, &finder);
    if (!bench.gone)
        turn();
}

/* A whole answer of one message, whose field is that. */
static void expect_reply(const struct h2_call *got, uint8_t value)
{
    const uint8_t message[] = {0, 0, 0, 0, 2, 8, value};
    assert_int_equal(got->http, 200);
    assert_int_equal(got->status, GRPC_OK);
    assert_int_equal(got->data_len, sizeof message);
    assert_memory_equal(got->data, message, sizeof message);
    assert_true(got->closed);
    assert_int_equal(got->code, NGHTTP2_NO_ERROR);
}

static void expect_status(const struct h2_call *got, int status, const char *text)
{
    assert_int_equal(got->http, 200);
    assert_int_equal(got->status, status);
    if (strstr(got->text, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, got->text);
    assert_int_equal(got->data_len, 0);
    assert_true(got->closed);
    assert_int_equal(got->code, NGHTTP2_NO_ERROR);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void health_is_told_however_the_bytes_are_cut(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 40; cut++) {
        bench.client.cut = cut;
        expect_reply(say(CHECK, ANYONE, 5, NULL), 1);
        expect_reply(call(CHECK, "grpc.health.v1.Health", NULL), 1);
        expect_status(call(CHECK, "grpc.health.v1.Heal", NULL), GRPC_NOT_FOUND, "unknown service");
    }
    assert_int_equal(bench.grpc_stats.calls, 3 * 39);
    assert_int_equal(bench.grpc_stats.faults, 39);
    assert_int_equal(bench.grpc_stats.answered[0][GRPC_OK], 2 * 39);
    assert_int_equal(bench.grpc_stats.answered[0][GRPC_NOT_FOUND], 39);
    assert_int_equal(bench.client.base.waiting, 0);
}

static void what_is_no_request_is_refused_by_its_status(void **state)
{
    static const struct {
        const char *body;
        size_t len;
        int status;
        const char *text;
    } bodies[] = {
        {"", 0, GRPC_INTERNAL, "before its message"},
        {"\0\0\0", 3, GRPC_INTERNAL, "before its message"},
        {"\0\0\0\0\5\x0a", 6, GRPC_INTERNAL, "before its message"},
        {"\0\0\0\0\0\0\0\0\0\0", 10, GRPC_INTERNAL, "found two messages"},
        {"\0\0\0\0\0\0", 6, GRPC_INTERNAL, "before its message"},
        {"\0\0\0\0\2\x0a\x09", 7, GRPC_INTERNAL, "none of this method"},
        {"\2\0\0\0\0", 5, GRPC_INTERNAL, "prefix"},
        {"\0\0\0\4\1", 5, GRPC_RESOURCE_EXHAUSTED, "1025 bytes; expected at most 1024"},
        {"\0\xff\xff\xff\xff", 5, GRPC_RESOURCE_EXHAUSTED, "4294967295"},
        {"\1\0\0\0\0", 5, GRPC_UNIMPLEMENTED, "compressed"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        const struct h2_call *got = say(CHECK, bodies[i].body, bodies[i].len, NULL);
        expect_status(got, bodies[i].status, bodies[i].text);
        assert_string_equal(got->accepts, bodies[i].status == GRPC_UNIMPLEMENTED ? "identity" : "");
    }
    expect_status(say("/a.B/C%", ANYONE, 5, NULL), GRPC_UNIMPLEMENTED, "/a.B/C%25");
    expect_status(say(CHECK, ANYONE, 5, (const char *const[]){"grpc-timeout", "5", NULL}),
                  GRPC_INTERNAL, "grpc-timeout");
    expect_reply(say(CHECK, ANYONE, 5, (const char *const[]){"grpc-encoding", "gzip", NULL}), 1);
    assert_int_equal(
        say(CHECK, ANYONE, 5, (const char *const[]){"content-type", "text/html", NULL})->http, 415);
    assert_int_equal(
        say(CHECK, ANYONE, 5, (const char *const[]){"content-type", "application/grpc-web", NULL})
            ->http,
        415);
    assert_int_equal(say(CHECK, ANYONE, 5, (const char *const[]){":method", "PUT", NULL})->http,
                     405);
    expect_reply(say(CHECK, ANYONE, 5,
                     (const char *const[]){"content-type", "application/grpc+proto", NULL}),
                 1);
}

/* A refusal does not wait for the rest of the request, and ends the stream. */
static void what_is_refused_is_told_when_it_is_whole_or_late(void **state)
{
    (void)state;
    struct h2_call *got = h2_client_ask(&bench.client, "/a.B/C", "", 0, NULL);
    got->open = true;
    turn();
    assert_int_equal(got->status, -1); /* what it still says has a second to come, */
    later(1000 * MS);
    assert_int_equal(got->status, GRPC_UNIMPLEMENTED);
    later(1000 * MS); /* and one to end behind the answer */
    expect_status(got, GRPC_UNIMPLEMENTED, "unknown method");
    assert_int_equal(bench.grpc_stats.answered[GRPC_METHODS_MAX][GRPC_UNIMPLEMENTED], 1);
}

static void a_node_that_is_not_ready_says_so(void **state)
{
    (void)state;
    grpc_gate_stage(bench.grpc, false, "the node waits for a quorum", NULL);
    expect_reply(say(CHECK, ANYONE, 5, NULL), 2);
    expect_status(call(ASK, "a", NULL), GRPC_UNAVAILABLE, "the node waits for a quorum");
    assert_int_equal(bench.batches->open, BATCHES_NONE);
}

static void who_watches_is_told_of_each_change(void **state)
{
    static const uint8_t told[] = {0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 2, 8, 2};
    (void)state;
    const struct h2_call *watch = say(WATCH, ANYONE, 5, NULL);
    const struct h2_call *stranger = call(WATCH, "x", NULL);
    assert_memory_equal(stranger->data, "\0\0\0\0\2\10\3", 7);
    later(200 * MS);
    assert_int_equal(watch->data_len, 7);
    grpc_gate_stage(bench.grpc, true, "the node leaves the cluster", NULL);
    later(200 * MS);
    later(200 * MS);
    assert_int_equal(watch->data_len, sizeof told);
    assert_memory_equal(watch->data, told, sizeof told);
    assert_int_equal(stranger->data_len, 7);
    for (int i = 0; i < 40; i++)
        later(1000 * MS); /* longer than any request may take */
    assert_false(watch->closed);
}

static void checks_are_answered_in_any_order(void **state)
{
    (void)state;
    const struct h2_call *first = call(ASK, "ab", NULL);
    const struct h2_call *second = call(ASK, "c", NULL);
    submit();
    const struct h2_call *third = call(ASK, "e", NULL);
    submit();
    assert_int_equal(bench.frame_count, 2);
    assert_int_equal(bench.client.base.waiting, 3);
    assert_int_equal(timeout_of(0), BATCH_TIMEOUT_MS);
    answer(1, 0);
    expect_reply(third, 105);
    answer(0, 1); /* one of the first one's is another node's */
    expect_reply(second, 103);
    assert_int_equal(first->status, -1);
    answer(0, 0);
    expect_reply(first, 103);
    assert_int_equal(bench.client.base.waiting, 0);
    assert_int_equal(bench.stats.checks, 4);
}

static void a_full_batch_is_submitted_and_the_next_one_filled(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < BATCH_MAX + 5; i++)
        (void)h2_client_ask(&bench.client, ASK, "\0\0\0\0\3\x0a\1a", 8, NULL);
    turn();
    submit();
    assert_int_equal(bench.frame_count, 2);
    answer(1, 0);
    answer(0, 0);
    for (uint32_t i = 0; i < BATCH_MAX + 5; i++)
        expect_reply(&bench.client.calls[i], 101);
}

static void what_the_shard_refuses_has_a_status(void **state)
{
    static const struct {
        int code;
        int status;
        const char *text;
    } codes[] = {{TG_EBUSY, GRPC_UNAVAILABLE, "more requests than it can decide"},
                 {TG_EUNAVAILABLE, GRPC_UNAVAILABLE, "why"},
                 {TG_EINVALID, GRPC_INTERNAL, "why"}};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        const struct h2_call *got = call(ASK, "a", NULL);
        submit();
        refuse(i, codes[i].code, "why");
        expect_status(got, codes[i].status, codes[i].text);
    }
    assert_int_equal(bench.stats.busy, 1);
    expect_status(call(ASK, "!", NULL), GRPC_RESOURCE_EXHAUSTED, "more than one message");
    const struct h2_call *late = call(ASK, "a", NULL);
    submit();
    later((BATCH_TIMEOUT_MS + BATCH_GRACE_MS) * MS);
    expect_status(late, GRPC_DEADLINE_EXCEEDED, "did not decide in time");
    answer(3, 0); /* nobody waits for it */
}

/* One that does not fit beside others is asked again, in a message of its own. */
static void what_does_not_fit_a_batch_any_more_goes_into_the_next(void **state)
{
    (void)state;
    const struct h2_call *first = call(ASK, "a", NULL);
    expect_status(call(ASK, "!", NULL), GRPC_RESOURCE_EXHAUSTED, "more than one message");
    assert_int_equal(bench.frame_count, 1);
    answer(0, 0);
    expect_reply(first, 101);
}

static void time_is_kept(void **state)
{
    (void)state;
    (void)call(ASK, "a", (const char *const[]){"grpc-timeout", "300m", NULL});
    submit();
    assert_int_equal(timeout_of(0), 200);
    expect_status(call(ASK, "a", (const char *const[]){"grpc-timeout", "0S", NULL}),
                  GRPC_DEADLINE_EXCEEDED, "no time left");
    expect_status(call(ASK, "a", (const char *const[]){"grpc-timeout", "999u", NULL}),
                  GRPC_DEADLINE_EXCEEDED, "no time left");
    assert_int_equal(
        bench.batches->open == BATCHES_NONE || batches_at_hand(bench.batches)->count == 0, true);
    later(299 * MS);
    assert_int_equal(bench.client.calls[0].status, -1);
    later(1 * MS);
    expect_status(&bench.client.calls[0], GRPC_DEADLINE_EXCEEDED, "time is over");
    answer(0, 0); /* it stays charged */
    (void)call(ASK, "a", (const char *const[]){"grpc-timeout", "300m", NULL});
    submit();
    bench.client.deaf = true; /* so that its stream is still there */
    later(300 * MS);
    answer(1, 0);
    bench.client.deaf = false;
    turn();
    expect_status(&bench.client.calls[3], GRPC_DEADLINE_EXCEEDED, "time is over");
    assert_int_equal(bench.client.base.waiting, 0);
    assert_int_equal(bench.grpc_stats.late, 4);
}

/* One request of reflection: a field of that number and text, behind those that `body` has. */
static void put_question(char *body, size_t *len, uint8_t field, const char *text)
{
    const size_t count = strlen(text);
    memcpy(body + *len, "\0\0\0\0", 4);
    body[*len + 4] = (char)(count + 2);
    body[*len + 5] = (char)(field << 3 | 2);
    body[*len + 6] = (char)count;
    memcpy(body + *len + 7, text, count);
    *len += 7 + count;
}

/* Whether the next answer, which begins at *at, is of that kind and has the text. */
static void expect_told(const struct h2_call *got, size_t *at, uint8_t kind, const char *text)
{
    Grpc__Reflection__V1__ServerReflectionResponse *response;
    assert_true(got->data_len >= *at + GRPC_PREFIX_LEN);
    const size_t len = grpc_prefix_read(got->data + *at).len;
    const uint8_t *bytes = got->data + *at + GRPC_PREFIX_LEN;
    assert_true(got->data_len >= *at + GRPC_PREFIX_LEN + len);
    response = grpc__reflection__v1__server_reflection_response__unpack(NULL, len, bytes);
    assert_non_null(response);
    assert_int_equal(response->message_response_case, kind);
    assert_non_null(memmem(bytes, len, text, strlen(text)));
    grpc__reflection__v1__server_reflection_response__free_unpacked(response, NULL);
    *at += GRPC_PREFIX_LEN + len;
}

/* Several requests in one stream, each answered as it comes, and the end by the client's. */
static void files_and_services_are_told_one_after_the_other(void **state)
{
    enum { FILES = 4, SERVICES = 6, ERROR = 7 };
    static char body[512];
    size_t len = 0;
    size_t at = 0;
    (void)state;
    bench.client.cut = 7;
    put_question(body, &len, 7, "");
    put_question(body, &len, 4, "grpc.health.v1.Health");
    put_question(body, &len, 4, "grpc.health.v1.HealthCheckResponse.ServingStatus");
    put_question(body, &len, 4, "grpc.health.v1.Health.Watch");
    put_question(body, &len, 3, "health.proto");
    put_question(body, &len, 4, "grpc.health.v1.Heal");
    put_question(body, &len, 4, "grpc.health.v1");
    put_question(body, &len, 4, "grpc.health.v1.HealthX");
    put_question(body, &len, 4, "grpc.health.v1.HealthCheckRequest.service");
    put_question(body, &len, 3, "health");
    put_question(body, &len, 6, "grpc.health.v1.Health");
    struct h2_call *got = h2_client_ask(&bench.client, TELL, body, len, NULL);
    got->open = true;
    turn();
    expect_told(got, &at, SERVICES, "\x0a\x15grpc.health.v1.Health");
    expect_told(got, &at, FILES, "HealthCheckRequest");
    expect_told(got, &at, FILES, "HealthCheckRequest");
    expect_told(got, &at, FILES, "HealthCheckRequest");
    expect_told(got, &at, FILES, "HealthCheckRequest");
    expect_told(got, &at, ERROR, "no such file or symbol");
    expect_told(got, &at, ERROR, "no such file or symbol");
    expect_told(got, &at, ERROR, "no such file or symbol");
    expect_told(got, &at, ERROR, "no such file or symbol");
    expect_told(got, &at, ERROR, "no such file or symbol");
    expect_told(got, &at, ERROR, "no extensions");
    assert_int_equal(at, got->data_len);
    assert_false(got->closed);
    got->open = false;
    (void)nghttp2_session_resume_data(bench.client.session, got->stream);
    turn();
    assert_int_equal(got->status, GRPC_OK);
    assert_true(got->closed);
    const struct h2_call *half = say(TELL, "\0\0", 2, NULL);
    expect_status(half, GRPC_INTERNAL, "before its message");
    expect_status(say(TELL, "", 0, NULL), GRPC_OK, "");
    assert_int_equal(bench.grpc_stats.calls, 3);
}

/* Nobody is told of a stream that its client has ended, or of a connection that is gone. */
static void who_is_gone_is_told_nothing(void **state)
{
    (void)state;
    const struct h2_call *got = call(ASK, "a", NULL);
    submit();
    assert_int_equal(nghttp2_submit_rst_stream(bench.client.session, NGHTTP2_FLAG_NONE, got->stream,
                                               NGHTTP2_INTERNAL_ERROR),
                     0);
    turn();
    assert_int_equal(bench.h2_stats.cut, 1);
    assert_int_equal(bench.client.base.waiting, 1);
    answer(0, 0);
    assert_int_equal(bench.client.base.waiting, 0);
    assert_int_equal(got->status, -1);
    (void)call(ASK, "a", NULL);
    submit();
    bench.gone = true;
    h2_client_close(&bench.client);
    batches_check_invariants(bench.batches);
    bench.client.base.waiting = 0;
    refuse(1, TG_EINVALID, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(health_is_told_however_the_bytes_are_cut),
        TEST(what_is_no_request_is_refused_by_its_status),
        TEST(what_is_refused_is_told_when_it_is_whole_or_late),
        TEST(a_node_that_is_not_ready_says_so),
        TEST(who_watches_is_told_of_each_change),
        TEST(checks_are_answered_in_any_order),
        TEST(a_full_batch_is_submitted_and_the_next_one_filled),
        TEST(what_the_shard_refuses_has_a_status),
        TEST(what_does_not_fit_a_batch_any_more_goes_into_the_next),
        TEST(time_is_kept),
        TEST(files_and_services_are_told_one_after_the_other),
        TEST(who_is_gone_is_told_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
