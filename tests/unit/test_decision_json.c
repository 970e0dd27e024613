/* test_decision_json.c - decisions as JSON and as header fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "node/gateway/api/decision_json.h"

#define NOW_NS (INT64_C(1795788000) * 1000000000 + 300000000)

enum { OUT_LEN = 8192 };

static char out_bytes[OUT_LEN + 1];
static struct gateway_out out;
static struct http_reply reply;
static struct wire_source source;

static struct wire_decision decided(enum outcome outcome)
{
    source = (struct wire_source){.rule = wire_text_of("login"),
                                  .window = wire_text_of("5/min"),
                                  .status = outcome == OUTCOME_ALLOW ? 200 : 429,
                                  .message = wire_text_of("TRY \"LATER\""),
                                  .node = wire_text_of("n1")};
    return (struct wire_decision){.outcome = outcome,
                                  .allowed = outcome == OUTCOME_ALLOW,
                                  .limit = 5,
                                  .used = 5,
                                  .retry_after_ms = outcome == OUTCOME_ALLOW ? 0 : 1201,
                                  .reset_after_ms = 12000,
                                  .source = &source};
}

static void begin(void)
{
    memset(out_bytes, 0, sizeof out_bytes);
    out = (struct gateway_out){.data = out_bytes, .capacity = OUT_LEN};
    http_reply_init(&reply, &out, OUT_LEN, (struct http_form){.head = false},
                    "Thu, 26 Nov 2026 00:00:00 GMT");
    http_reply_begin(&reply, 200);
}

/* The header fields of a response, as they are sent. */
static const char *headers_of(const struct wire_decision *decision, enum decision_headers kind)
{
    begin();
    decision_put_headers(&reply, decision, kind, NOW_NS);
    http_reply_end(&reply);
    assert_false(reply.failed);
    out_bytes[out.len] = '\0';
    return out_bytes;
}

static json_t *body_of(const struct wire_decision *decision, unsigned manner)
{
    json_error_t error;
    begin();
    http_reply_body(&reply, "application/json");
    decision_put(&reply, decision, manner);
    http_reply_end(&reply);
    assert_false(reply.failed);
    out_bytes[out.len] = '\0';
    const char *body = strstr(out_bytes, "\r\n\r\n");
    assert_non_null(body);
    json_t *value = json_loads(body + 4, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (value == NULL)
        fail_msg("%s: %s", body, error.text);
    return value;
}

static void expect_header(const char *headers, const char *line)
{
    if (strstr(headers, line) == NULL)
        fail_msg("found %s, expected %s", headers, line);
}

static void statuses_are_the_rules_unless_nothing_was_decided(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_ALLOW);
    assert_int_equal(decision_status(&decision), 200);
    decision = decided(OUTCOME_DENY);
    source.status = 402;
    assert_int_equal(decision_status(&decision), 402);
    decision.source = NULL;
    assert_int_equal(decision_status(&decision), 429);
    decision = decided(OUTCOME_BUSY);
    assert_int_equal(decision_status(&decision), 503);
    decision = decided(OUTCOME_ERROR);
    assert_int_equal(decision_status(&decision), 503);
    source.status = 400; /* what was asked for there is not */
    assert_int_equal(decision_status(&decision), 400);
    decision.allowed = true; /* by on_failure: open */
    source.status = 200;
    assert_int_equal(decision_status(&decision), 200);
}

static void a_decision_is_json_whatever_its_texts(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_DENY);
    source.rule = (struct wire_text){"a\0\"\\\xff\n", 6};
    source.shadow_rule = wire_text_of("trial");
    decision.lease = UINT64_C(0x9f86d081884c7d65);
    decision.lease_ms = 1000;
    json_t *value = body_of(&decision, 0);
    assert_string_equal(json_string_value(json_object_get(value, "message")), "TRY \"LATER\"");
    assert_string_equal(json_string_value(json_object_get(value, "lease_id")), "9f86d081884c7d65");
    assert_int_equal(json_integer_value(json_object_get(value, "lease_ms")), 1000);
    assert_string_equal(json_string_value(json_object_get(value, "shadow_rule")), "trial");
    assert_int_equal(json_object_size(value), 18);
    json_decref(value);
    value = body_of(&decision, DECISION_RESERVED);
    assert_string_equal(json_string_value(json_object_get(value, "hold_id")), "9f86d081884c7d65");
    assert_int_equal(json_integer_value(json_object_get(value, "hold_ms")), 1000);
    assert_int_equal(json_object_size(value), 18);
    json_decref(value);
    value = body_of(&decision, DECISION_BRIEF); /* what people wrote is left out */
    assert_string_equal(json_string_value(json_object_get(value, "message")), "");
    assert_int_equal(json_object_size(value), 17);
    json_decref(value);
}

static void limits_that_were_met_are_told_one_by_one(void **state)
{
    (void)state;
    const struct wire_decision decision = decided(OUTCOME_DENY);
    const struct wire_explain_row rows[] = {
        {.rule = wire_text_of("lo\"gin"),
         .window = wire_text_of("5/min"),
         .limit = 5,
         .used = 5,
         .reset_after_ms = 12000,
         .retry_after_ms = WIRE_NEVER_MS},
        {.allowed = true,
         .pool = wire_text_of("shared"),
         .level = 20050,
         .guaranteed = 1000,
         .borrowed = 7,
         .pool_global = true,
         .pool_home = wire_text_of("eu")},
    };
    json_error_t error;
    begin();
    http_reply_body(&reply, "application/json");
    decision_put_explained(&reply, &decision, rows, 2);
    http_reply_end(&reply);
    out_bytes[out.len] = '\0';
    json_t *value = json_loads(strstr(out_bytes, "\r\n\r\n") + 4, JSON_REJECT_DUPLICATES, &error);
    assert_non_null(value);
    assert_string_equal(json_string_value(json_object_get(value, "rule")), "login");
    const json_t *first = json_array_get(json_object_get(value, "explain"), 0);
    const json_t *second = json_array_get(json_object_get(value, "explain"), 1);
    assert_int_equal(json_array_size(json_object_get(value, "explain")), 2);
    assert_string_equal(json_string_value(json_object_get(first, "rule")), "lo\"gin");
    assert_int_equal(json_integer_value(json_object_get(first, "retry_after_ms")), -1);
    assert_true(json_is_false(json_object_get(first, "allowed")));
    assert_int_equal(json_object_size(first), 8);
    assert_int_equal(json_object_size(second), 14);
    assert_true(json_number_value(json_object_get(second, "level")) == 20.05);
    assert_true(json_number_value(json_object_get(second, "guaranteed")) == 1);
    assert_true(json_number_value(json_object_get(second, "borrowed")) == 0.007);
    assert_string_equal(json_string_value(json_object_get(second, "pool_scope")), "global");
    assert_string_equal(json_string_value(json_object_get(second, "pool_home")), "eu");
    json_decref(value);
}

/* What was denied without a sentence of its rule says what it is. */
static void a_denial_always_has_a_message(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_DENY);
    source.message = (struct wire_text){NULL, 0};
    json_t *value = body_of(&decision, 0);
    assert_true(json_string_length(json_object_get(value, "message")) > 0);
    json_decref(value);
    decision = decided(OUTCOME_ALLOW);
    decision.source = NULL;
    value = body_of(&decision, 0);
    assert_int_equal(json_string_length(json_object_get(value, "message")), 0);
    json_decref(value);
}

static void header_fields_round_up_to_whole_seconds(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_DENY);
    const char *headers = headers_of(&decision, DECISION_IETF);
    expect_header(headers, "\r\nRateLimit-Policy: \"login\";q=5;w=60\r\n");
    expect_header(headers, "\r\nRateLimit: \"login\";r=0;t=2\r\n");
    expect_header(headers, "\r\nRetry-After: 2\r\n");
    headers = headers_of(&decision, DECISION_LEGACY);
    expect_header(headers, "\r\nX-RateLimit-Limit: 5\r\n");
    expect_header(headers, "\r\nX-RateLimit-Remaining: 0\r\n");
    expect_header(headers, "\r\nX-RateLimit-Reset: 1795788002\r\n"); /* 1.201 s after .3 */
    expect_header(headers, "\r\nRetry-After: 2\r\n");
    assert_null(strstr(headers, "\r\nRateLimit"));
    headers = headers_of(&decision, DECISION_NO_HEADERS);
    assert_null(strstr(headers, "RateLimit"));
    expect_header(headers, "\r\nRetry-After: 2\r\n");
}

/* Where there is no such time, none is told. */
static void a_reset_of_old_is_a_time_of_unix(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_ALLOW);
    expect_header(headers_of(&decision, DECISION_LEGACY), "\r\nX-RateLimit-Reset: 1795788013\r\n");
    decision.reset_after_ms = 0;
    expect_header(headers_of(&decision, DECISION_LEGACY), "\r\nX-RateLimit-Reset: 1795788001\r\n");
    decision = decided(OUTCOME_DENY);
    decision.retry_after_ms = WIRE_NEVER_MS;
    const char *headers = headers_of(&decision, DECISION_LEGACY);
    expect_header(headers, "\r\nX-RateLimit-Remaining: 0\r\n");
    assert_null(strstr(headers, "X-RateLimit-Reset"));
    decision.retry_after_ms = INT64_MAX;
    assert_null(strstr(headers_of(&decision, DECISION_LEGACY), "X-RateLimit-Reset"));
}

static void a_name_is_a_string_of_structured_fields(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_ALLOW);
    source.rule = wire_text_of("a\"b\\c\xc3\xa9\n");
    source.window = wire_text_of("5/1500ms");
    decision.limit = UINT64_MAX;
    const char *headers = headers_of(&decision, DECISION_IETF);
    expect_header(headers, "\r\nRateLimit-Policy: \"a\\\"b\\\\c???\";q=999999999999999\r\n");
    expect_header(headers, "\r\nRateLimit: \"a\\\"b\\\\c???\";r=0;t=12\r\n");
}

static void places_in_flight_have_no_window(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_ALLOW);
    decision.in_flight = true;
    const char *headers = headers_of(&decision, DECISION_IETF);
    expect_header(headers, "\r\nRateLimit-Policy: \"login\";q=5;qu=\"concurrent-requests\"\r\n");
    expect_header(headers, "\r\nRateLimit: \"login\";r=0\r\n");
}

/* A cost that never fits is not worth coming again for; a node that has too much to do is. */
static void who_is_never_let_in_is_told_no_time(void **state)
{
    (void)state;
    struct wire_decision decision = decided(OUTCOME_DENY);
    decision.retry_after_ms = WIRE_NEVER_MS;
    assert_null(strstr(headers_of(&decision, DECISION_IETF), "Retry-After"));
    decision = decided(OUTCOME_BUSY);
    decision.retry_after_ms = 0;
    decision.limit = 0;
    const char *headers = headers_of(&decision, DECISION_IETF);
    expect_header(headers, "\r\nRetry-After: 1\r\n");
    assert_null(strstr(headers, "RateLimit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_are_the_rules_unless_nothing_was_decided),
        cmocka_unit_test(a_decision_is_json_whatever_its_texts),
        cmocka_unit_test(limits_that_were_met_are_told_one_by_one),
        cmocka_unit_test(a_denial_always_has_a_message),
        cmocka_unit_test(header_fields_round_up_to_whole_seconds),
        cmocka_unit_test(a_reset_of_old_is_a_time_of_unix),
        cmocka_unit_test(a_name_is_a_string_of_structured_fields),
        cmocka_unit_test(places_in_flight_have_no_window),
        cmocka_unit_test(who_is_never_let_in_is_told_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
