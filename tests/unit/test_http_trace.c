/* test_http_trace.c - spans of HTTP requests: which there are, what they tell, that each one ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "node/gateway/api/api_routes.h"
#include "node/gateway/http/http_gate.h"
#include "node/gateway/trace/tracer.h"

enum { OUT = 1 << 16, ENDED = 2048, TEXT = 4096 };

#define NOW     INT64_C(1795687200000000000)
#define HOST    "Host: localhost:7604\r\n"
#define TRACE   "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT  "traceparent: 00-" TRACE "-00f067aa0ba902b7-01\r\n"
#define DECLINE "traceparent: 00-" TRACE "-00f067aa0ba902b7-00\r\n"
#define CHECK   "{\"key\":\"secret\",\"rate\":\"5/s\",\"cost\":3}"

static struct bench {
    struct http_gate *gate;
    struct tracer *tracer;
    struct http_peer peer;
    bool gone;
    struct gateway_stats stats;
    uint32_t ended;
    uint32_t lost;
    struct trace_span spans[ENDED];
    uint8_t frame[WIRE_MESSAGE_MAX];
    size_t frame_len;
    char out[OUT];
} bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    (void)token;
    return bench.gone ? NULL : &bench.peer.base;
}

static const struct gateway_finder finder = {find, NULL};

static void ended(void *context, struct trace_span *span)
{
    (void)context;
    bench.spans[bench.ended++ % ENDED] = *span;
}

static void lost(void *context)
{
    (void)context;
    bench.lost++;
}

static void open_gate(enum trace_sampler sampler, uint32_t ratio)
{
    const struct tracer_options options = {
        .sampler = sampler, .ratio = ratio, .node = "n1", .seed = 11, .sink = {ended, lost, NULL}};
    struct http_facts facts = {.anonymous = ACCESS_ANONYMOUS,
                               .anonymous_grpc = ACCESS_ANONYMOUS,
                               .node_id = 7,
                               .name = "n1",
                               .version = "9.9"};
    static struct digest operators;
    memset(&bench, 0, sizeof bench);
    digest_make("token", 5, &operators);
    facts.operators = &operators;
    facts.routes = api_routes(&facts.route_count);
    assert_int_equal(tracer_new(alloc_heap(), &options, &bench.tracer), 0);
    facts.tracer = bench.tracer;
    assert_int_equal(http_gate_new(alloc_heap(), 99, &facts, &bench.stats, &bench.gate), 0);
    http_gate_now(bench.gate, NOW);
    bench.peer.base.id = 1;
    bench.peer.base.out.data = bench.out;
    bench.peer.base.out.capacity = OUT;
    http_gate_open(bench.gate, &bench.peer);
}

static int setup(void **state)
{
    (void)state;
    open_gate(TRACE_PARENT_OR_OFF, TRACE_RATIO_ALL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(tracer_open(bench.tracer), 0); /* TRACER-1 */
    http_gate_free(&bench.gate);
    tracer_free(&bench.tracer);
    return 0;
}

static void reopen(enum trace_sampler sampler, uint32_t ratio)
{
    (void)teardown(NULL);
    open_gate(sampler, ratio);
}

static void say(const char *text)
{
    size_t used;
    bench.peer.base.out.len = 0;
    (void)http_gate_take(bench.gate, &bench.peer, 0, text, strlen(text), &used);
    assert_int_equal(used, strlen(text));
}

static void post(const char *path, const char *headers, const char *body)
{
    char text[TEXT];
    const int len = snprintf(text, sizeof text,
                             "POST %s HTTP/1.1\r\n" HOST
                             "Content-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s",
                             path, headers, strlen(body), body);
    assert_true(len > 0 && len < TEXT);
    say(text);
}

static void submit(void)
{
    const uint8_t *frame;
    bench.frame_len = batches_submit(http_gate_batches(bench.gate), &frame);
    memcpy(bench.frame, frame, bench.frame_len);
}

/* The shard decides: each check by its outcome, and that node. */
static void answer(const enum outcome *outcomes, const char *node, uint8_t more)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        const bool allowed = outcomes[i] == OUTCOME_ALLOW;
        const struct wire_source source = {.rule = wire_text_of(allowed ? "wide" : "narrow"),
                                           .window = wire_text_of("5/s"),
                                           .status = allowed ? 200 : 429,
                                           .node = wire_text_of(node)};
        columns.outcomes[i] = (uint8_t)outcomes[i];
        columns.flags[i] = (uint8_t)((allowed ? WIRE_ALLOWED : 0) | more);
        columns.limit[i] = 5;
        columns.used[i] = 4 + i;
        columns.remaining[i] = 0;
        columns.retry_after_ms[i] = columns.reset_after_ms[i] = 1;
        columns.source_index[i] = wire_sources_add(&sources, &source);
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(len > 0);
    batches_answer(http_gate_batches(bench.gate), reply, (size_t)len, &finder);
}

static const struct trace_span *last(void)
{
    assert_true(bench.ended > 0);
    return &bench.spans[(bench.ended - 1) % ENDED];
}

static void a_denial_tells_rule_outcome_and_who_decided(void **state)
{
    char digits[2 * TRACE_ID_BYTES + 1];
    (void)state;
    post("/v1/check", PARENT "tracestate: a=1\r\nTraceState: b=2\r\n", CHECK);
    assert_int_equal(bench.ended, 0);
    assert_int_equal(tracer_open(bench.tracer), 1);
    answer((const enum outcome[]){OUTCOME_DENY}, "n2", 0);
    assert_int_equal(bench.ended, 1);
    const struct trace_span *span = last();
    assert_string_equal(trace_digits(span->id.trace, TRACE_ID_BYTES, digits), TRACE);
    assert_string_equal(trace_digits(span->parent, TRACE_SPAN_BYTES, digits), "00f067aa0ba902b7");
    assert_memory_not_equal(span->id.span, span->parent, TRACE_SPAN_BYTES);
    assert_string_equal(span->state, "a=1,b=2");
    assert_string_equal(span->method, "POST");
    assert_string_equal(span->route, "/v1/check");
    assert_int_equal(span->status, 429);
    assert_int_equal(span->start_ns, NOW);
    assert_int_equal(span->checks.count, 1);
    assert_int_equal(span->checks.cost, 3);
    assert_int_equal(span->checks.operation, OPERATION_CHECK);
    assert_int_equal(span->checks.refused, 1);
    assert_int_equal(span->checks.outcome, OUTCOME_DENY);
    assert_int_equal(span->checks.limit, 5);
    assert_int_equal(span->checks.used, 4);
    assert_string_equal(span->checks.rule, "narrow");
    assert_string_equal(span->checks.window, "5/s");
    assert_string_equal(span->checks.node, "n2");
    assert_true(span->checks.decided && span->checks.forwarded);
    assert_false(span->checks.degraded);
    assert_false(span->retry);
    assert_null(memmem(span, sizeof *span, "secret", 6)); /* no key */
}

static void what_is_decided_here_was_not_forwarded(void **state)
{
    (void)state;
    post("/v1/hit", PARENT "Idempotency-Key: k\r\n", CHECK);
    answer((const enum outcome[]){OUTCOME_ALLOW}, "n1", WIRE_DEGRADED);
    assert_int_equal(last()->status, 200);
    assert_int_equal(last()->checks.operation, OPERATION_HIT);
    assert_int_equal(last()->checks.refused, 0);
    assert_false(last()->checks.forwarded);
    assert_true(last()->checks.degraded);
    assert_true(last()->retry);
}

static void a_list_tells_of_the_first_that_was_refused(void **state)
{
    (void)state;
    post("/v1/check", PARENT, "{\"checks\":[" CHECK "," CHECK "," CHECK "]}");
    answer((const enum outcome[]){OUTCOME_ALLOW, OUTCOME_BLOCKED, OUTCOME_DENY}, "n1", 0);
    assert_int_equal(last()->status, 200);
    assert_int_equal(last()->checks.count, 3);
    assert_int_equal(last()->checks.cost, 9);
    assert_int_equal(last()->checks.refused, 2);
    assert_int_equal(last()->checks.outcome, OUTCOME_BLOCKED);
    assert_int_equal(last()->checks.used, 5);
}

/* Two requests of one batch have a span each, with what is its own. */
static void requests_of_one_batch_are_told_apart(void **state)
{
    (void)state;
    char both[TEXT];
    const char *one = "POST /v1/check HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n";
    (void)snprintf(both, sizeof both,
                   "%s" PARENT "Content-Length: %zu\r\n\r\n%s%sContent-Length: "
                   "%zu\r\n\r\n%s%s" PARENT "Content-Length: %zu\r\n\r\n%s",
                   one, strlen(CHECK), CHECK, one, strlen(CHECK), CHECK, one, strlen(CHECK), CHECK);
    say(both);
    answer((const enum outcome[]){OUTCOME_ALLOW, OUTCOME_DENY, OUTCOME_DENY}, "n1", 0);
    assert_int_equal(bench.ended, 2);
    assert_int_equal(bench.spans[0].checks.outcome, OUTCOME_ALLOW);
    assert_int_equal(bench.spans[1].checks.outcome, OUTCOME_DENY);
    assert_int_equal(bench.spans[1].checks.used, 6);
    assert_memory_not_equal(bench.spans[0].id.span, bench.spans[1].id.span, TRACE_SPAN_BYTES);
}

static void what_is_answered_at_once_is_traced_as_well(void **state)
{
    (void)state;
    post("/v1/check", PARENT, "{");
    assert_int_equal(last()->status, 400);
    assert_int_equal(last()->checks.count, 0);
    say("GET /nowhere/ada HTTP/1.1\r\n" HOST PARENT "\r\n");
    assert_int_equal(last()->status, 404);
    assert_null(last()->route); /* a path that leads nowhere is not told */
    say("BREW /v1/check HTTP/1.1\r\n" HOST PARENT "\r\n");
    assert_string_equal(last()->method, "_OTHER");
    say("GET /v1/rules/named/ada HTTP/1.1\r\n" HOST PARENT "\r\n");
    assert_int_equal(last()->status, 401);
    assert_string_equal(last()->route, "/v1/rules/named/{name}");
    assert_int_equal(bench.ended, 4);
}

static void who_says_nothing_valid_or_sampled_is_not_traced(void **state)
{
    static const char *const headers[] = {
        "",
        DECLINE,
        PARENT PARENT,
        PARENT "TraceParent: 00-" TRACE "-00f067aa0ba902b7-01\r\n",
        "traceparent: \r\n",
        "traceparent: 00-" TRACE "-00f067aa0ba902b7-01,00-" TRACE "-00f067aa0ba902b7-01\r\n",
        "traceparent: ff-" TRACE "-00f067aa0ba902b7-01\r\n",
        "traceparent: 00-00000000000000000000000000000000-00f067aa0ba902b7-01\r\n",
        "x-traceparent: 00-" TRACE "-00f067aa0ba902b7-01\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        post("/v1/check", headers[i], CHECK);
        answer((const enum outcome[]){OUTCOME_DENY}, "n1", 0);
        assert_memory_equal(bench.out, "HTTP/1.1 429", 12);
    }
    assert_int_equal(bench.ended, 0);
}

static void a_trace_state_that_is_too_long_or_no_text_is_left_out(void **state)
{
    char headers[TEXT] = PARENT "tracestate: a=1\r\ntracestate: ";
    char full[TRACE_STATE_LEN];
    (void)state;
    memset(headers + strlen(headers), 'x', TRACE_STATE_LEN - 3);
    memcpy(headers + strlen(headers), "\r\n", 3);
    post("/v1/check", headers, "{");
    assert_string_equal(last()->state, ""); /* one byte too many */
    memset(full, 'x', sizeof full - 1);
    full[sizeof full - 1] = '\0';
    (void)snprintf(headers, sizeof headers, PARENT "tracestate: %s\r\n", full);
    post("/v1/check", headers, "{");
    assert_string_equal(last()->state, full);
    post("/v1/check", PARENT "tracestate: a=\xc3\xa4\r\n", "{");
    assert_string_equal(last()->state, "");
}

/* Whoever asked is gone, or is told that nobody decided: the span ends. */
static void each_span_ends_whatever_becomes_of_the_request(void **state)
{
    (void)state;
    post("/v1/check", PARENT, CHECK);
    bench.gone = true;
    answer((const enum outcome[]){OUTCOME_DENY}, "n1", 0);
    assert_int_equal(last()->status, 0);
    bench.gone = false;
    bench.peer.base.waiting = bench.peer.base.reserved = 0;
    post("/v1/check", PARENT, CHECK);
    submit();
    http_gate_now(bench.gate, NOW + INT64_C(5000000000));
    batches_expire(http_gate_batches(bench.gate), &finder);
    assert_int_equal(last()->status, 504);
    assert_false(last()->checks.decided);
    assert_int_equal(bench.ended, 2);
}

/* A decision that comes in parts is told once, when the response is. */
static void what_is_pending_has_not_ended(void **state)
{
    (void)state;
    post("/v1/check", PARENT, CHECK);
    answer((const enum outcome[]){OUTCOME_ALLOW}, "n1", WIRE_PENDING);
    assert_int_equal(bench.ended, 0);
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[4096];
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    assert_int_equal(wire_peek(bench.frame, bench.frame_len, &envelope, error), 0);
    const struct wire_decisions_head head = {
        .session = envelope.session, .seq = envelope.seq, .count = 1};
    wire_sources_init(&sources);
    columns.outcomes[0] = OUTCOME_ALLOW;
    columns.flags[0] = WIRE_ALLOWED;
    columns.source_index[0] = WIRE_SOURCE_NONE;
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    batches_answer(http_gate_batches(bench.gate), reply, (size_t)len, &finder);
    assert_int_equal(bench.ended, 1);
    assert_string_equal(last()->checks.node, "");
    assert_false(last()->checks.forwarded);
}

static void one_too_many_is_lost_and_counted(void **state)
{
    struct traceparent parent;
    uint32_t numbers[TRACER_SPANS_MAX];
    (void)state;
    memset(&parent, 1, sizeof parent);
    for (int i = 0; i < TRACER_SPANS_MAX; i++) {
        numbers[i] = tracer_begin(bench.tracer, &parent, NOW);
        assert_int_not_equal(numbers[i], 0);
    }
    assert_int_equal(tracer_begin(bench.tracer, &parent, NOW), 0);
    assert_int_equal(bench.lost, 1);
    post("/v1/check", PARENT, CHECK); /* and the request is answered as any other */
    answer((const enum outcome[]){OUTCOME_ALLOW}, "n1", 0);
    assert_memory_equal(bench.out, "HTTP/1.1 200", 12);
    assert_int_equal(bench.lost, 2);
    for (int i = 0; i < TRACER_SPANS_MAX; i++)
        tracer_end(bench.tracer, numbers[i], 200);
    assert_int_equal(bench.ended, TRACER_SPANS_MAX);
    const uint32_t again = tracer_begin(bench.tracer, &parent, NOW);
    assert_int_not_equal(again, 0);
    tracer_end(bench.tracer, again, 200);
}

/* Of 1,000 requests so many are traced, by what they say. */
static uint32_t traced(enum trace_sampler sampler, uint32_t ratio, const char *headers)
{
    reopen(sampler, ratio);
    for (int i = 0; i < 1000; i++) {
        post("/v1/check", headers, CHECK);
        answer((const enum outcome[]){OUTCOME_ALLOW}, "n1", 0);
    }
    return bench.ended;
}

static void samplers_do_what_their_names_say(void **state)
{
    (void)state;
    assert_int_equal(traced(TRACE_ALWAYS_ON, 0, ""), 1000);
    assert_int_equal(traced(TRACE_ALWAYS_ON, 0, DECLINE), 1000);
    assert_int_equal(traced(TRACE_ALWAYS_OFF, 0, PARENT), 0);
    assert_int_equal(traced(TRACE_PARENT_OR_ON, 0, ""), 1000);
    assert_int_equal(traced(TRACE_PARENT_OR_ON, 0, DECLINE), 0);
    assert_int_equal(traced(TRACE_PARENT_OR_OFF, 0, ""), 0);
    assert_int_equal(traced(TRACE_PARENT_OR_OFF, 0, PARENT), 1000);
    assert_int_equal(traced(TRACE_PARENT_OR_RATIO, 0, ""), 0);
    assert_int_equal(traced(TRACE_PARENT_OR_RATIO, 0, PARENT), 1000);
    assert_int_equal(traced(TRACE_PARENT_OR_RATIO, TRACE_RATIO_ALL, ""), 1000);
    assert_int_equal(traced(TRACE_RATIO, TRACE_RATIO_ALL, DECLINE), 1000);
    const uint32_t quarter = traced(TRACE_RATIO, TRACE_RATIO_ALL / 4, "");
    assert_in_range(quarter, 190, 310);
}

/* Whoever is asked about a trace takes it or not, as all others do who take that share of them. */
static void a_ratio_decides_by_the_trace_alone(void **state)
{
    static const char low[] =
        "traceparent: 00-ffffffffffffffff3fffffffffffffff-0000000000000001-00\r\n";
    static const char high[] =
        "traceparent: 00-00000000000000004000000000000000-0000000000000001-01\r\n";
    (void)state;
    assert_int_equal(traced(TRACE_RATIO, TRACE_RATIO_ALL / 4, low), 1000);
    assert_int_equal(traced(TRACE_RATIO, TRACE_RATIO_ALL / 4, high), 0);
}

/* What asks for no check is traced if whoever asks says so, and never by itself. */
static void probes_begin_no_trace(void **state)
{
    (void)state;
    reopen(TRACE_ALWAYS_ON, TRACE_RATIO_ALL);
    say("GET /livez HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(bench.ended, 0);
    say("GET /livez HTTP/1.1\r\n" HOST PARENT "\r\n");
    assert_int_equal(bench.ended, 1);
}

static void roots_have_ids_of_their_own_and_no_parent(void **state)
{
    static const uint8_t none[TRACE_ID_BYTES];
    (void)state;
    assert_int_equal(traced(TRACE_PARENT_OR_ON, 0, "tracestate: a=1\r\n"), 1000);
    for (int i = 0; i < 1000; i++) {
        const struct trace_span *span = &bench.spans[i];
        assert_memory_equal(span->parent, none, TRACE_SPAN_BYTES);
        assert_memory_not_equal(span->id.trace, none, TRACE_ID_BYTES);
        assert_memory_not_equal(span->id.span, none, TRACE_SPAN_BYTES);
        assert_string_equal(span->state, ""); /* without a traceparent it means nothing */
        if (i > 0)
            assert_memory_not_equal(span->id.trace, span[-1].id.trace, TRACE_ID_BYTES);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_denial_tells_rule_outcome_and_who_decided),
        TEST(what_is_decided_here_was_not_forwarded),
        TEST(a_list_tells_of_the_first_that_was_refused),
        TEST(requests_of_one_batch_are_told_apart),
        TEST(what_is_answered_at_once_is_traced_as_well),
        TEST(who_says_nothing_valid_or_sampled_is_not_traced),
        TEST(a_trace_state_that_is_too_long_or_no_text_is_left_out),
        TEST(each_span_ends_whatever_becomes_of_the_request),
        TEST(what_is_pending_has_not_ended),
        TEST(one_too_many_is_lost_and_counted),
        TEST(samplers_do_what_their_names_say),
        TEST(a_ratio_decides_by_the_trace_alone),
        TEST(probes_begin_no_trace),
        TEST(roots_have_ids_of_their_own_and_no_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
