/* test_config_telemetry.c - where traces and metrics go, by flags and by OTEL_... of the
 * environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/runtime/config/config_telemetry.h"

enum { ARGUMENTS_MAX = 16 };

static struct config config;
static char error[CONFIG_ERROR_LEN];

static const char *const variables[] = {"OTEL_EXPORTER_OTLP_ENDPOINT",
                                        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                                        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                                        "OTEL_EXPORTER_OTLP_HEADERS",
                                        "OTEL_EXPORTER_OTLP_CERTIFICATE",
                                        "OTEL_EXPORTER_OTLP_TIMEOUT",
                                        "OTEL_EXPORTER_OTLP_PROTOCOL",
                                        "OTEL_METRIC_EXPORT_INTERVAL",
                                        "OTEL_SERVICE_NAME",
                                        "OTEL_RESOURCE_ATTRIBUTES",
                                        "OTEL_TRACES_SAMPLER",
                                        "OTEL_TRACES_SAMPLER_ARG",
                                        "OTEL_TRACES_EXPORTER",
                                        "OTEL_METRICS_EXPORTER",
                                        "OTEL_SDK_DISABLED"};

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        assert_int_equal(unsetenv(variables[i]), 0);
    return 0;
}

static int parse_all(const char *const *flags)
{
    const char *argv[ARGUMENTS_MAX] = {"tidegated"};
    const struct container container = {.processors = 0};
    int argc = 1;
    while (*flags != NULL)
        argv[argc++] = *flags++;
    return config_parse(argc, argv, &container, &config, error, sizeof error);
}
#define PARSE(...) parse_all((const char *const[]){__VA_ARGS__, NULL})

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static void nothing_is_pushed_by_default(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--ephemeral"), 0);
    assert_string_equal(config.telemetry.traces, "");
    assert_string_equal(config.telemetry.metrics, "");
    assert_string_equal(config.telemetry.ignored, "");
    assert_int_equal(config.telemetry.sampler, TRACE_PARENT_OR_OFF);
    assert_int_equal(config.telemetry.ratio, TRACE_RATIO_ALL);
    assert_int_equal(config.telemetry.interval_ns, INT64_C(60000000000));
}

static void an_endpoint_is_for_both_signals_unless_one_has_its_own(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--otlp-endpoint", "http://c:4318"), 0);
    assert_string_equal(config.telemetry.traces, "http://c:4318/v1/traces");
    assert_string_equal(config.telemetry.metrics, "http://c:4318/v1/metrics");
    assert_int_equal(PARSE("--otlp-endpoint", "https://c/otlp//", "--otlp-metrics", "off"), 0);
    assert_string_equal(config.telemetry.traces, "https://c/otlp/v1/traces");
    assert_string_equal(config.telemetry.metrics, "");
    assert_int_equal(PARSE("--otlp-traces", "http://[::1]:9/x/"), 0);
    assert_string_equal(config.telemetry.traces, "http://[::1]:9/x/"); /* as it is */
    assert_string_equal(config.telemetry.metrics, "");
}

static void what_is_no_address_is_refused(void **state)
{
    static const char *const bad[] = {"c:4318",     "ftp://c",    "http://",           "http:///v1",
                                      "http://c d", "http://c?x", "http://u:secret@c", "grpc://c"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(PARSE("--otlp-endpoint", bad[i]), TG_EINVALID);
        assert_non_null(strstr(error, "--otlp-endpoint: found "));
        assert_null(strstr(error, "secret"));
        assert_int_equal(PARSE("--otlp-traces", bad[i]), TG_EINVALID);
        assert_non_null(strstr(error, "--otlp-traces: found "));
    }
    char url[CONFIG_URL_LEN + 1] = "http://";
    memset(url + 7, 'x', sizeof url - 8);
    url[CONFIG_URL_LEN - 1] = '\0';
    assert_int_equal(PARSE("--otlp-endpoint", url), TG_EINVALID); /* with the path it is too long */
    url[CONFIG_URL_LEN - 1] = 'x';
    url[CONFIG_URL_LEN] = '\0';
    assert_int_equal(PARSE("--otlp-endpoint", url), TG_EINVALID);
}

static void pairs_are_decoded_and_secrets_are_not_shown(void **state)
{
    struct config_pair pair;
    const char *at = " api-key = a%20b%2C , x=,y=1=2";
    (void)state;
    assert_true(config_pair_next(&at, &pair));
    assert_string_equal(pair.name, "api-key");
    assert_string_equal(pair.value, "a b,");
    assert_true(config_pair_next(&at, &pair));
    assert_string_equal(pair.name, "x");
    assert_string_equal(pair.value, "");
    assert_true(config_pair_next(&at, &pair));
    assert_string_equal(pair.value, "1=2");
    assert_false(config_pair_next(&at, &pair));
    static const char *const bad[] = {"secret",     "a=1,secret",         "=secret",
                                      "a b=secret", "a=secret%0d%0aX: y", ",a=secret"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(PARSE("--otlp-headers", bad[i]), TG_EINVALID);
        assert_non_null(strstr(error, "expected NAME=VALUE"));
        assert_null(strstr(error, "secret"));
    }
    at = "a=%2";
    assert_true(config_pair_next(&at, &pair));
    assert_string_equal(pair.value, "%2"); /* no escape */
    at = "a=%41";
    assert_true(config_pair_next(&at, &pair));
    assert_string_equal(pair.value, "A");
}

static void a_ratio_is_a_number_from_zero_to_one(void **state)
{
    static const struct {
        const char *text;
        uint32_t ratio;
    } good[] = {{"0", 0},         {"1", 1000000},  {"0.5", 500000},      {".25", 250000},
                {"1.0", 1000000}, {"0.000001", 1}, {"1.000000", 1000000}};
    static const char *const bad[] = {"",    ".",        "1.1", "2",    "-1",  "0.0000001",
                                      "0,5", "1.000001", "0.",  "5e-1", "0x1", "00"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(PARSE("--trace-ratio", good[i].text), 0);
        assert_int_equal(config.telemetry.ratio, good[i].ratio);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (PARSE("--trace-ratio", bad[i]) != TG_EINVALID)
            fail_msg("\"%s\"", bad[i]);
}

static void the_environment_says_the_same_and_flags_override_it(void **state)
{
    (void)state;
    set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:4318/");
    set("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m/push");
    set("OTEL_EXPORTER_OTLP_HEADERS", "k=v");
    set("OTEL_EXPORTER_OTLP_TIMEOUT", "2500");
    set("OTEL_METRIC_EXPORT_INTERVAL", "15000");
    set("OTEL_SERVICE_NAME", "limits");
    set("OTEL_RESOURCE_ATTRIBUTES", "a=b");
    set("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
    set("OTEL_TRACES_SAMPLER_ARG", "0.25");
    set("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    assert_int_equal(PARSE("--ephemeral"), 0);
    assert_string_equal(config.telemetry.ignored, "");
    assert_string_equal(config.telemetry.traces, "http://e:4318/v1/traces");
    assert_string_equal(config.telemetry.metrics, "http://m/push");
    assert_string_equal(config.telemetry.headers, "k=v");
    assert_string_equal(config.telemetry.service, "limits");
    assert_string_equal(config.telemetry.resource, "a=b");
    assert_int_equal(config.telemetry.timeout_ns, INT64_C(2500000000));
    assert_int_equal(config.telemetry.interval_ns, INT64_C(15000000000));
    assert_int_equal(config.telemetry.sampler, TRACE_PARENT_OR_RATIO);
    assert_int_equal(config.telemetry.ratio, 250000);
    assert_int_equal(PARSE("--otlp-endpoint", "http://f", "--trace-sampler", "always_off"), 0);
    assert_string_equal(config.telemetry.traces, "http://f/v1/traces");
    assert_string_equal(config.telemetry.metrics, "http://m/push");
    assert_int_equal(config.telemetry.sampler, TRACE_ALWAYS_OFF);
    set("OTEL_TRACES_EXPORTER", "none");
    assert_int_equal(PARSE("--ephemeral"), 0);
    assert_string_equal(config.telemetry.traces, "");
    assert_string_equal(config.telemetry.metrics, "http://m/push");
    set("OTEL_SDK_DISABLED", "TRUE");
    assert_int_equal(PARSE("--ephemeral"), 0);
    assert_string_equal(config.telemetry.metrics, "");
}

/* Such variables are often meant for other programs: a wrong one does not keep the node down. */
static void what_is_wrong_in_the_environment_is_ignored_and_told(void **state)
{
    static const struct {
        const char *name;
        const char *value;
    } bad[] = {
        {"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "x"},
        {"OTEL_EXPORTER_OTLP_HEADERS", "nothing"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
        {"OTEL_METRIC_EXPORT_INTERVAL", "1"},
        {"OTEL_RESOURCE_ATTRIBUTES", ","},
        {"OTEL_TRACES_SAMPLER", "jaeger_remote"},
        {"OTEL_TRACES_SAMPLER_ARG", "endpoint=http://x"},
        {"OTEL_TRACES_EXPORTER", "zipkin"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)setup(NULL);
        set(bad[i].name, bad[i].value);
        assert_int_equal(PARSE("--ephemeral"), 0);
        assert_memory_equal(config.telemetry.ignored, bad[i].name, strlen(bad[i].name));
        assert_string_equal(config.telemetry.traces, "");
    }
    set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"); /* which speaks gRPC there */
    assert_int_equal(PARSE("--ephemeral"), 0);
    assert_string_equal(config.telemetry.traces, "");
    assert_int_equal(PARSE("--otlp-endpoint", "http://c:4318"), 0);
    assert_string_equal(config.telemetry.traces, "http://c:4318/v1/traces");
    (void)setup(NULL);
    set("OTEL_EXPORTER_OTLP_ENDPOINT", ""); /* is as if it were not there */
    assert_int_equal(PARSE("--ephemeral"), 0);
    assert_string_equal(config.telemetry.ignored, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_pushed_by_default, setup),
        cmocka_unit_test_setup(an_endpoint_is_for_both_signals_unless_one_has_its_own, setup),
        cmocka_unit_test_setup(what_is_no_address_is_refused, setup),
        cmocka_unit_test_setup(pairs_are_decoded_and_secrets_are_not_shown, setup),
        cmocka_unit_test_setup(a_ratio_is_a_number_from_zero_to_one, setup),
        cmocka_unit_test_setup(the_environment_says_the_same_and_flags_override_it, setup),
        cmocka_unit_test_setup(what_is_wrong_in_the_environment_is_ignored_and_told, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
