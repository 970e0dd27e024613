/* test_telemetry.c - what is pushed and logged: messages as OTLP has them, lines, bounds, pauses.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/random.h"
#include "node/cluster/metrics/metric_text.h"
#include "node/runtime/telemetry/collector.h"
#include "node/runtime/telemetry/exporter.h"
#include "node/runtime/telemetry/metric_json.h"
#include "node/runtime/telemetry/trace_log.h"
#include "tests/unit/support_effort.h"

enum { ROOM = 1 << 20, MS = 1000000, RING_SPANS = 200000 };

#define START INT64_C(1795687200000000001)

static char room[ROOM];
static struct resource_json resource;

static int setup(void **state)
{
    (void)state;
    memset(&resource, 0, sizeof resource);
    resource.text = (struct json_text){.data = resource.room, .capacity = sizeof resource.room};
    (void)snprintf(resource.version, sizeof resource.version, "9.9");
    json_put(&resource.text, "\"resource\":{\"attributes\":[");
    json_put_attribute(&resource.text, true, "service.name", "t");
    json_put(&resource.text, "]}");
    return 0;
}

static struct trace_span span_of(uint16_t status)
{
    struct trace_span span = {.start_ns = START,
                              .end_ns = START + 812345,
                              .method = "POST",
                              .route = "/v1/check",
                              .status = status,
                              .minor = 1};
    memset(span.id.trace, 0xa1, sizeof span.id.trace);
    memset(span.id.span, 0x0b, sizeof span.id.span);
    memset(span.parent, 0xc3, sizeof span.parent);
    return span;
}

static json_t *load(const struct json_text *json)
{
    json_error_t error;
    assert_false(json->failed);
    json_t *root = json_loadb(json->data, json->len, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        fail_msg("%s: %.*s", error.text, (int)json->len, json->data);
    return root;
}

/* The value of an attribute as text, or NULL. */
static const char *attribute(const json_t *of, const char *key)
{
    static char text[64];
    size_t i;
    json_t *item;
    const json_t *found = NULL;
    json_array_foreach(json_object_get(of, "attributes"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "key")), key) != 0)
            continue;
        assert_null(found); /* once */
        found = json_object_get(item, "value");
    }
    if (found == NULL)
        return NULL;
    const json_t *flag = json_object_get(found, "boolValue");
    const char *string = json_string_value(json_object_get(found, "stringValue"));
    const char *integer = json_string_value(json_object_get(found, "intValue"));
    (void)snprintf(text, sizeof text, "%s",
                   string != NULL       ? string
                   : integer != NULL    ? integer
                   : json_is_true(flag) ? "true"
                                        : "false");
    return text;
}

static const json_t *the_span(const json_t *root, size_t i)
{
    const json_t *spans = json_array_get(json_object_get(root, "resourceSpans"), 0);
    assert_string_equal(attribute(json_object_get(spans, "resource"), "service.name"), "t");
    const json_t *scope = json_array_get(json_object_get(spans, "scopeSpans"), 0);
    return json_array_get(json_object_get(scope, "spans"), i);
}

static const char *field(const json_t *of, const char *key)
{
    return json_string_value(json_object_get(of, key));
}

/* ---- spans ----------------------------------------------------------------------------------- */

static void a_span_is_told_as_otlp_has_it(void **state)
{
    struct json_text json = {.data = room, .capacity = sizeof room};
    struct trace_span span = span_of(429);
    (void)state;
    span.checks = (struct trace_checks){.count = 1,
                                        .refused = 1,
                                        .decided = true,
                                        .forwarded = true,
                                        .operation = OPERATION_CHECK,
                                        .outcome = OUTCOME_DENY,
                                        .cost = UINT64_MAX,
                                        .limit = 5,
                                        .used = 5,
                                        .rule = "a \"rule\"\n\xff",
                                        .window = "5/s",
                                        .node = "n2"};
    (void)snprintf(span.state, sizeof span.state, "a=\"1\"");
    span_json_begin(&json, &resource);
    span_json_put(&json, true, &span);
    span.checks.count = 0;
    span.route = NULL;
    span.method = "_OTHER";
    memset(span.parent, 0, sizeof span.parent);
    span.state[0] = '\0';
    span.end_ns = START - 1; /* the clock was set back */
    span_json_put(&json, false, &span);
    span_json_end(&json);
    json_t *root = load(&json);
    const json_t *first = the_span(root, 0);
    const json_t *second = the_span(root, 1);
    assert_string_equal(field(first, "traceId"), "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1");
    assert_string_equal(field(first, "spanId"), "0b0b0b0b0b0b0b0b");
    assert_string_equal(field(first, "parentSpanId"), "c3c3c3c3c3c3c3c3");
    assert_string_equal(field(first, "traceState"), "a=\"1\"");
    assert_string_equal(field(first, "name"), "POST /v1/check");
    assert_string_equal(field(first, "startTimeUnixNano"), "1795687200000000001");
    assert_string_equal(field(first, "endTimeUnixNano"), "1795687200000812346");
    assert_int_equal(json_integer_value(json_object_get(first, "kind")), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "flags")), 0x301);
    assert_string_equal(attribute(first, "http.request.method"), "POST");
    assert_string_equal(attribute(first, "http.route"), "/v1/check");
    assert_string_equal(attribute(first, "http.response.status_code"), "429");
    assert_string_equal(attribute(first, "network.protocol.version"), "1.1");
    assert_string_equal(attribute(first, "tidegate.rule"), "a \"rule\"\n\xef\xbf\xbd");
    assert_string_equal(attribute(first, "tidegate.outcome"), "deny");
    assert_string_equal(attribute(first, "tidegate.allowed"), "false");
    assert_string_equal(attribute(first, "tidegate.cost"), "9223372036854775807");
    assert_string_equal(attribute(first, "tidegate.decider"), "n2");
    assert_string_equal(attribute(first, "tidegate.forwarded"), "true");
    assert_null(json_object_get(json_object_get(first, "status"), "code")); /* a denial is none */
    assert_null(attribute(first, "error.type"));
    assert_null(json_object_get(second, "parentSpanId"));
    assert_null(json_object_get(second, "traceState"));
    assert_string_equal(field(second, "name"), "HTTP");
    assert_string_equal(attribute(second, "http.request.method"), "_OTHER");
    assert_string_equal(attribute(second, "url.path"), "REDACTED");
    assert_string_equal(field(second, "endTimeUnixNano"), "1795687200000000001");
    assert_null(attribute(second, "tidegate.outcome"));
    json_decref(root);
}

static void a_failure_is_an_error_with_its_type(void **state)
{
    static const struct {
        uint16_t status;
        const char *type;
    } cases[] = {{500, "500"}, {503, "503"}, {504, "504"}, {0, "client_gone"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json_text json = {.data = room, .capacity = sizeof room};
        const struct trace_span span = span_of(cases[i].status);
        span_json_begin(&json, &resource);
        span_json_put(&json, true, &span);
        span_json_end(&json);
        json_t *root = load(&json);
        const json_t *told = the_span(root, 0);
        const json_t *code = json_object_get(json_object_get(told, "status"), "code");
        assert_int_equal(json_integer_value(code), 2);
        assert_string_equal(attribute(told, "error.type"), cases[i].type);
        json_decref(root);
    }
}

static void what_has_no_room_is_not_written(void **state)
{
    const struct trace_span span = span_of(200);
    (void)state;
    struct json_text whole = {.data = room, .capacity = sizeof room};
    span_json_begin(&whole, &resource);
    span_json_put(&whole, true, &span);
    span_json_end(&whole);
    for (size_t capacity = 0; capacity < whole.len + 9; capacity++) {
        struct json_text json = {.data = room, .capacity = capacity};
        memset(room, '#', whole.len + 10);
        span_json_begin(&json, &resource);
        span_json_put(&json, true, &span);
        span_json_end(&json);
        assert_true(json.len <= capacity && room[capacity] == '#'); /* JSONTEXT-1 */
        assert_int_equal(json.failed, capacity < whole.len);
    }
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* A page as the node writes it, of all its metrics. */
static size_t write_page(struct metric_text *text, uint64_t value, const char *name)
{
    static const int64_t bounds[] = {500, 1000 * MS};
    const uint64_t counts[] = {value, 2, 3};
    for (int i = 0; i < METRICS_ALL; i++) {
        const struct metric *metric = metric_of((enum metric_id)i);
        const struct metric_labels labels = {{{"rule", name}, {"outcome", "deny"}}};
        metric_begin(text, (enum metric_id)i);
        if (metric->type == METRIC_HISTOGRAM)
            metric_put_times(text, &(struct metric_label){"protocol", name}, bounds, counts, 2,
                             1500 * (uint64_t)MS);
        else if (strstr(metric->name, "_seconds") != NULL)
            metric_put_ns(text, NULL, -(int64_t)value);
        else
            metric_put(text, metric->labels[0] != '\0' ? &labels : NULL, value);
    }
    assert_false(text->failed);
    return text->len;
}

static const json_t *the_points(const json_t *metric, const char *kind)
{
    const json_t *points = json_object_get(json_object_get(metric, kind), "dataPoints");
    assert_true(json_is_array(points));
    return points;
}

static void check_histogram(const json_t *metric, uint64_t value)
{
    char count[32];
    const json_t *point = json_array_get(the_points(metric, "histogram"), 0);
    const json_t *counts = json_object_get(point, "bucketCounts");
    const json_t *bounds = json_object_get(point, "explicitBounds");
    assert_int_equal(json_array_size(counts), 3);
    assert_int_equal(json_array_size(bounds), 2);
    (void)snprintf(count, sizeof count, "%" PRIu64, value);
    assert_string_equal(json_string_value(json_array_get(counts, 0)), count);
    assert_string_equal(json_string_value(json_array_get(counts, 1)), "2"); /* not 2 more */
    assert_string_equal(json_string_value(json_array_get(counts, 2)), "3");
    (void)snprintf(count, sizeof count, "%" PRIu64, value + 5);
    assert_string_equal(field(point, "count"), count);
    assert_true(fabs(json_number_value(json_object_get(point, "sum")) - 1.5) < 1e-9);
    assert_true(fabs(json_number_value(json_array_get(bounds, 0)) - 5e-7) < 1e-12);
    assert_string_equal(field(point, "startTimeUnixNano"), "5");
}

static void the_page_of_metrics_is_told_whole(void **state)
{
    static char page[ROOM];
    static const char name[] = "a \\ \"}{,=\n b";
    struct metric_text text;
    struct json_text json = {.data = room, .capacity = sizeof room};
    size_t i;
    json_t *metric;
    (void)state;
    metric_text_init(&text, page, sizeof page);
    const size_t len = write_page(&text, 12, name);
    assert_int_equal(metric_json_put(&json, &resource, page, len, 5, 7), 0);
    json_t *root = load(&json);
    const json_t *all = json_array_get(json_object_get(root, "resourceMetrics"), 0);
    const json_t *scope = json_array_get(json_object_get(all, "scopeMetrics"), 0);
    const json_t *metrics = json_object_get(scope, "metrics");
    assert_int_equal(json_array_size(metrics), METRICS_ALL);
    json_array_foreach(metrics, i, metric)
    {
        const struct metric *from = metric_of((enum metric_id)i);
        static const char *const kinds[] = {"sum", "gauge", "histogram"};
        const char *kind = kinds[from->type];
        const json_t *point = json_array_get(the_points(metric, kind), 0);
        const json_t *data = json_object_get(metric, kind);
        const bool seconds = strstr(from->name, "_seconds") != NULL;
        assert_string_equal(field(metric, "name"), from->name);
        assert_string_equal(field(metric, "description"), from->help);
        const bool bytes = strstr(from->name, "_bytes") != NULL;
        assert_int_equal(json_object_get(metric, "unit") != NULL, seconds || bytes);
        assert_true(!(seconds || bytes) ||
                    strcmp(field(metric, "unit"), seconds ? "s" : "By") == 0);
        assert_int_equal(json_array_size(the_points(metric, kind)), 1);
        assert_string_equal(field(point, "timeUnixNano"), "7");
        assert_int_equal(json_is_true(json_object_get(data, "isMonotonic")),
                         from->type == METRIC_COUNTER);
        assert_int_equal(json_integer_value(json_object_get(data, "aggregationTemporality")),
                         from->type == METRIC_GAUGE ? 0 : 2);
        assert_int_equal(json_object_get(point, "startTimeUnixNano") != NULL,
                         from->type != METRIC_GAUGE);
        if (from->type == METRIC_HISTOGRAM) {
            check_histogram(metric, 12);
            assert_string_equal(attribute(point, "protocol"), name);
        } else if (seconds) {
            assert_true(fabs(json_number_value(json_object_get(point, "asDouble")) + 12e-9) <
                        1e-12);
        } else {
            assert_string_equal(field(point, "asInt"), "12");
            if (from->labels[0] != '\0')
                assert_string_equal(attribute(point, "rule"), name);
        }
    }
    json_decref(root);
}

/* No page of metric_text.c is refused, and none that is broken is told. */
static void a_broken_page_is_refused_and_a_small_room_is_full(void **state)
{
    static char page[ROOM];
    static char cut[ROOM];
    struct metric_text text;
    struct random random;
    (void)state;
    metric_text_init(&text, page, sizeof page);
    const size_t len = write_page(&text, UINT64_MAX - 5, "r");
    struct json_text json = {.data = room, .capacity = sizeof room};
    assert_int_equal(metric_json_put(&json, &resource, page, len, 5, 7), 0);
    const size_t whole = json.len;
    json = (struct json_text){.data = room, .capacity = whole - 1};
    assert_int_equal(metric_json_put(&json, &resource, page, len, 5, 7), TG_EFULL);
    json = (struct json_text){.data = room, .capacity = sizeof room};
    assert_int_equal(metric_json_put(&json, &resource, page, len - 1, 5, 7), TG_EINVALID);
    random_init(&random, 3);
    for (int round = 0; round < EFFORT(3000); round++) { /* nothing is read beyond it */
        const size_t at = random_below(&random, len);
        memcpy(cut, page, len);
        cut[at] = (char)random_below(&random, 256);
        char *copy = malloc(len);
        memcpy(copy, cut, len);
        json = (struct json_text){.data = room, .capacity = sizeof room};
        const int result = metric_json_put(&json, &resource, copy, len, 5, 7);
        assert_true(result == 0 || result == TG_EINVALID);
        free(copy);
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

static void what_is_remarkable_is_logged_with_its_reason(void **state)
{
    struct trace_span span = span_of(200);
    char line[TRACE_LOG_LEN];
    (void)state;
    assert_null(trace_log_reason(&span, MS));
    assert_string_equal(trace_log_reason(&span, 812345), "slow");
    span.checks = (struct trace_checks){.count = 2,
                                        .decided = true,
                                        .degraded = true,
                                        .operation = OPERATION_CHECK,
                                        .outcome = OUTCOME_DENY,
                                        .cost = 7,
                                        .limit = 5,
                                        .used = 6,
                                        .rule = "signup",
                                        .window = "5/s",
                                        .node = "n2"};
    assert_string_equal(trace_log_reason(&span, MS), "degraded");
    span.checks.refused = 1;
    span.status = 429;
    assert_string_equal(trace_log_reason(&span, 1), "refused");
    assert_string_equal(
        trace_log_line(&span, "refused", line),
        "request refused: POST /v1/check status=429 operation=check outcome=deny rule=signup "
        "window=5/s limit=5 used=6 cost=7 checks=2 refused=1 decider=n2 forwarded=no "
        "degraded=yes duration_ms=0.812");
    span.checks.outcome = OUTCOME_BUSY;
    assert_string_equal(trace_log_reason(&span, 1), "undecided");
    span = span_of(503);
    assert_string_equal(trace_log_reason(&span, MS), "undecided");
    span.route = NULL;
    assert_string_equal(trace_log_line(&span, "undecided", line),
                        "request undecided: POST (no route) status=503 duration_ms=0.812");
}

static void the_longest_line_is_whole(void **state)
{
    struct trace_span span = span_of(429);
    char line[TRACE_LOG_LEN];
    (void)state;
    span.method = "OPTIONS";
    span.route = "/v1/some/pattern/of/a/path/that/is/rather/long/{name}/{version}/...";
    span.checks = (struct trace_checks){.count = WIRE_CHECKS_MAX,
                                        .refused = WIRE_CHECKS_MAX,
                                        .decided = true,
                                        .cost = UINT64_MAX,
                                        .limit = UINT64_MAX,
                                        .used = UINT64_MAX};
    memset(span.checks.rule, 'r', WIRE_RULE_MAX);
    memset(span.checks.window, 'w', WIRE_WINDOW_MAX);
    memset(span.checks.node, 'n', WIRE_NAME_MAX);
    span.end_ns = INT64_MAX;
    (void)trace_log_line(&span, "undecided", line);
    assert_non_null(strstr(line, " duration_ms="));
    assert_true(strlen(line) < TRACE_LOG_LEN - 1);
}

static void a_second_has_so_many_lines(void **state)
{
    struct trace_log_budget budget = {.spent = 0};
    (void)state;
    for (int second = 0; second < 3; second++) {
        for (int i = 0; i < 10; i++)
            assert_true(trace_log_take(&budget, START + second * INT64_C(1000000000), 10));
        for (int i = 0; i < 5; i++)
            assert_false(trace_log_take(&budget, START + second * INT64_C(1000000000) + i, 10));
    }
    assert_false(trace_log_take(&budget, START + INT64_C(9000000000), 0));
}

/* ---- the exporter ---------------------------------------------------------------------------- */

static void what_may_be_sent_again_is_and_nothing_else(void **state)
{
    (void)state;
    for (uint16_t status = 0; status < 600; status++)
        assert_int_equal(exporter_again(status), status == 0 || status == 429 || status == 502 ||
                                                     status == 503 || status == 504);
}

static void pauses_double_up_to_a_bound_and_are_not_all_the_same(void **state)
{
    const int64_t s = 1000 * (int64_t)MS;
    struct random random;
    (void)state;
    random_init(&random, 1);
    for (uint32_t failures = 1; failures < 40; failures++) {
        const int64_t most = failures < 6 ? s << (failures - 1) : 30 * s;
        int64_t least_seen = INT64_MAX;
        int64_t most_seen = 0;
        for (int i = 0; i < 200; i++) {
            const int64_t ns = exporter_pause_ns(failures, 0, random_next(&random));
            assert_in_range(ns, most / 2, most);
            least_seen = ns < least_seen ? ns : least_seen;
            most_seen = ns > most_seen ? ns : most_seen;
        }
        assert_true(most_seen - least_seen > most / 4);
    }
    assert_int_equal(exporter_pause_ns(9, 7 * s, 1), 7 * s);       /* as the collector wants it, */
    assert_int_equal(exporter_pause_ns(1, 86400 * s, 1), 600 * s); /* within reason */
}

static void a_partial_success_tells_what_was_not_taken(void **state)
{
    static const struct {
        const char *body;
        uint64_t count;
    } cases[] = {
        {"", 0},
        {"{}", 0},
        {"[]", 0},
        {"{\"partialSuccess\":{}}", 0},
        {"{\"partialSuccess\":null}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"x\"}}", 3},
        {"{\"partialSuccess\":{\"errorMessage\":\"x\",\"rejectedDataPoints\":4}}", 4},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"-3\"}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"99999999999999999999999\"}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":{\"a\":1}}}", 0},
        {"{\"other\":{\"rejectedSpans\":3}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"3\"", 3},
        {"\xff\xfe", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (collector_rejected(cases[i].body, strlen(cases[i].body)) != cases[i].count)
            fail_msg("%s", cases[i].body);
}

static struct span_ring ring;

static void *put_all(void *context)
{
    _Atomic uint64_t *refused = context;
    struct trace_span span = span_of(200);
    for (int64_t i = 1; i <= EFFORT(RING_SPANS); i++) {
        span.start_ns = i;
        span.end_ns = -i;
        if (!span_ring_put(&ring, &span))
            atomic_fetch_add(refused, 1);
    }
    return NULL;
}

/* What is taken is whole, in order, and with what was refused it is all that was put. */
static void a_ring_loses_nothing_but_what_it_refuses(void **state)
{
    static _Atomic uint64_t refused;
    pthread_t thread;
    uint64_t taken = 0;
    int64_t last = 0;
    (void)state;
    assert_null(span_ring_first(&ring));
    assert_int_equal(pthread_create(&thread, NULL, put_all, &refused), 0);
    while (taken + atomic_load(&refused) < (uint64_t)EFFORT(RING_SPANS)) {
        const struct trace_span *span = span_ring_first(&ring);
        if (span == NULL)
            continue;
        assert_true(span->start_ns > last && span->end_ns == -span->start_ns);
        last = span->start_ns;
        span_ring_drop(&ring);
        taken++;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(span_ring_first(&ring));
    for (int i = 0; i < SPAN_RING_MAX; i++)
        assert_true(span_ring_put(&ring, &(struct trace_span){.start_ns = i}));
    assert_false(span_ring_put(&ring, &(struct trace_span){.start_ns = 1}));
    assert_int_equal(span_ring_first(&ring)->start_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_is_told_as_otlp_has_it),
        cmocka_unit_test(a_failure_is_an_error_with_its_type),
        cmocka_unit_test(what_has_no_room_is_not_written),
        cmocka_unit_test(the_page_of_metrics_is_told_whole),
        cmocka_unit_test(a_broken_page_is_refused_and_a_small_room_is_full),
        cmocka_unit_test(what_is_remarkable_is_logged_with_its_reason),
        cmocka_unit_test(the_longest_line_is_whole),
        cmocka_unit_test(a_second_has_so_many_lines),
        cmocka_unit_test(what_may_be_sent_again_is_and_nothing_else),
        cmocka_unit_test(pauses_double_up_to_a_bound_and_are_not_all_the_same),
        cmocka_unit_test(a_partial_success_tells_what_was_not_taken),
        cmocka_unit_test(a_ring_loses_nothing_but_what_it_refuses),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
