/* test_ask.c - a decision as scripts and people get to see it, and the exit status of an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "client/cli/commands/commands.h"

static const tg_decision_t allowed = {
    .allowed = 1,
    .outcome = TG_ALLOW,
    .status = 200,
    .rule = "signup-per-phone",
    .window = "5/h",
    .message = "",
    .node = "n1",
    .limit = 5,
    .used = 1,
    .remaining = 4,
    .granted = 1,
    .reset_after_ms = 3600000,
};

/* The JSON of a decision is an interface: names, order and form stay. */
static void the_json_of_a_decision_is_as_documented(void **state)
{
    struct cli_text text;
    (void)state;
    cli_text_init(&text);
    cli_decision_json(&text, &allowed, NULL);
    assert_string_equal(
        text.data, "{\"allowed\":true,\"outcome\":\"allow\",\"rule\":\"signup-per-phone\","
                   "\"window\":\"5/h\",\"limit\":5,\"used\":1,\"remaining\":4,\"granted\":1,"
                   "\"reset_after_ms\":3600000,\"retry_after_ms\":0,\"delay_ms\":0,\"status\":200,"
                   "\"message\":\"\",\"degraded\":false,\"node\":\"n1\"}");
    cli_text_fini(&text);
}

/* A lease of tokens is named, and said how long it lasts. */
static void a_lease_of_tokens_tells_how_long_it_lasts(void **state)
{
    struct cli_text text;
    tg_decision_t lease = allowed;
    (void)state;
    lease.lease_id = 0x9f86d081884c7d65;
    lease.lease_ms = 1000;
    cli_text_init(&text);
    cli_decision_json(&text, &lease, NULL);
    assert_non_null(
        strstr(text.data, "\"node\":\"n1\",\"lease_id\":\"9f86d081884c7d65\",\"lease_ms\":1000}"));
    cli_text_fini(&text);
}

/* What a rule on trial would have denied names it; nothing else has the field. */
static void a_rule_on_trial_is_named(void **state)
{
    static const char named[] = "\0trial"; /* as the library leaves it: tg_shadow_rule */
    tg_decision_t decision = allowed;
    struct cli_text text;
    (void)state;
    decision.outcome = TG_SHADOW_DENIED;
    decision.message = named;
    cli_text_init(&text);
    cli_decision_json(&text, &decision, NULL);
    assert_non_null(strstr(text.data, "\"outcome\":\"shadow_denied\""));
    assert_non_null(strstr(text.data, "\"message\":\"\",\"degraded\":false,\"node\":\"n1\","
                                      "\"shadow_rule\":\"trial\"}"));
    cli_text_fini(&text);
    decision.outcome = TG_ALLOW;
    cli_text_init(&text);
    cli_decision_json(&text, &decision, NULL);
    assert_null(strstr(text.data, "shadow_rule"));
    cli_text_fini(&text);
}

/* Of an elastic limit the pool is told, in tokens a second, and where it lends if it is one for all
 * regions; of another one it is left out. */
static void an_explained_limit_tells_of_its_pool(void **state)
{
    static const tg_explain_t rows[] = {{.rule = "surge",
                                         .window = "1/s",
                                         .limit = 1,
                                         .used = 2,
                                         .allowed = 1,
                                         .pool = "api",
                                         .level = 37500,
                                         .guaranteed = 812000,
                                         .borrowed = 1},
                                        {.rule = "wide",
                                         .window = "1/s",
                                         .limit = 1,
                                         .pool = "all",
                                         .pool_global = 1,
                                         .pool_home = "eu"},
                                        {.rule = "hard",
                                         .window = "9/h",
                                         .limit = 9,
                                         .used = 1,
                                         .remaining = 8,
                                         .allowed = 1,
                                         .pool = ""}};
    tg_decision_t decision = allowed;
    struct cli_text text;
    (void)state;
    decision.explain_count = 3;
    cli_text_init(&text);
    cli_decision_json(&text, &decision, rows);
    assert_non_null(strstr(
        text.data, "\"explain\":[{\"rule\":\"surge\",\"window\":\"1/s\",\"limit\":1,\"used\":2,"
                   "\"remaining\":0,\"allowed\":true,\"reset_after_ms\":0,\"retry_after_ms\":0,"
                   "\"pool\":\"api\",\"level\":37.5,\"guaranteed\":812,\"borrowed\":0.001},"
                   "{\"rule\":\"wide\",\"window\":\"1/s\",\"limit\":1,\"used\":0,\"remaining\":0,"
                   "\"allowed\":false,\"reset_after_ms\":0,\"retry_after_ms\":0,\"pool\":\"all\","
                   "\"level\":0,\"guaranteed\":0,\"borrowed\":0,\"pool_scope\":\"global\","
                   "\"pool_home\":\"eu\"},"
                   "{\"rule\":\"hard\",\"window\":\"9/h\",\"limit\":9,\"used\":1,\"remaining\":8,"
                   "\"allowed\":true,\"reset_after_ms\":0,\"retry_after_ms\":0}]}"));
    cli_text_fini(&text);
}

/* A request that can never succeed is denied with -1, not with a huge number. */
static void never_is_minus_one(void **state)
{
    struct cli_text text;
    tg_decision_t decision = allowed;
    (void)state;
    decision.allowed = 0;
    decision.outcome = TG_DENY;
    decision.retry_after_ms = -1;
    decision.degraded = 1;
    decision.limit = UINT64_MAX;
    cli_text_init(&text);
    cli_decision_json(&text, &decision, NULL);
    assert_non_null(strstr(text.data, "\"allowed\":false,\"outcome\":\"deny\","));
    assert_non_null(strstr(text.data, "\"retry_after_ms\":-1,"));
    assert_non_null(strstr(text.data, "\"degraded\":true,"));
    assert_non_null(strstr(text.data, "\"limit\":18446744073709551615,"));
    cli_text_fini(&text);
}

/* Texts of the greatest length that the protocol allows still fit. */
static void the_longest_texts_fit(void **state)
{
    char rule[128 + 1];
    char message[256 + 1];
    char window[48 + 1];
    char node[64 + 1];
    struct cli_text text;
    tg_decision_t decision = allowed;
    (void)state;
    memset(rule, 'r', sizeof rule);
    memset(message, 'm', sizeof message);
    memset(window, 'w', sizeof window);
    memset(node, 'n', sizeof node);
    rule[sizeof rule - 1] = message[sizeof message - 1] = '\0';
    window[sizeof window - 1] = node[sizeof node - 1] = '\0';
    decision.rule = rule;
    decision.message = message;
    decision.window = window;
    decision.node = node;
    decision.reset_after_ms = INT64_MIN;
    decision.retry_after_ms = INT64_MIN;
    decision.delay_ms = INT64_MIN;
    decision.limit = decision.used = decision.remaining = decision.granted = UINT64_MAX;
    cli_text_init(&text);
    cli_decision_yaml(&text, &decision, NULL);
    assert_false(text.failed);
    assert_non_null(strstr(text.data, "- allowed: true\n  outcome: allow\n  rule: rrr"));
    assert_non_null(strstr(text.data, node));
    cli_text_fini(&text);
}

/* Scripts tell what to do by the status: mend the input, or try again. */
static void errors_of_the_caller_and_of_the_cluster_differ(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_of(TG_EINVALID), CLI_EXIT_INVALID);
    assert_int_equal(cli_exit_of(TG_ENOTFOUND), CLI_EXIT_INVALID);
    assert_int_equal(cli_exit_of(TG_EUNREACHABLE), CLI_EXIT_UNREACHABLE);
    assert_int_equal(cli_exit_of(TG_ETIMEOUT), CLI_EXIT_UNREACHABLE);
    assert_int_equal(cli_exit_of(TG_EBUSY), CLI_EXIT_UNREACHABLE);
    assert_int_equal(cli_exit_of(TG_EUNAVAILABLE), CLI_EXIT_UNREACHABLE);
    assert_int_equal(cli_exit_of(0), CLI_EXIT_OK);
}

/* Whoever waits as long as it says has waited long enough, and not longer than need be: spans are
 * exact. */
static void spans_are_exact(void **state)
{
    static const struct {
        long long span_ms;
        const char *expected;
    } known[] = {
        {-1, "never"},
        {0, "0ms"},
        {999, "999ms"},
        {1000, "1s"},
        {1001, "1.001s"},
        {1250, "1.25s"},
        {59500, "59.5s"},
        {59999, "59.999s"},
        {60000, "1m"},
        {60001, "1m0.001s"},
        {750000, "12m30s"},
        {3599982, "59m59.982s"},
        {3600000, "1h"},
        {3600030, "1h0.03s"},
        {3604811, "1h4.811s"},
        {18720000, "5h12m"},
        {86399999, "23h59m59.999s"},
        {86400000, "1d"},
        {86460000, "1d1m"},
        {273600000, "3d4h"},
        {INT64_MAX, "106751991167d7h12m55.807s"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char out[CLI_SPAN_LEN];
        cli_span(known[i].span_ms, out);
        assert_string_equal(out, known[i].expected);
    }
}

/* Reads a span back by its parts: any is what was to be shown, to the millisecond. */
static void random_spans_add_up_to_what_they_show(void **state)
{
    struct random random;
    (void)state;
    random_init(&random, 13);
    for (int i = 0; i < 20000; i++) {
        char out[CLI_SPAN_LEN];
        const long long span_ms =
            1000 + (long long)(random_next(&random) >> (2 + random_below(&random, 50)));
        long long sum_ms = 0;
        cli_span(span_ms, out);
        for (const char *at = out; *at != '\0'; at++) {
            char *end;
            long long number = strtoll(at, &end, 10);
            long long fraction = 0;
            if (*end == '.') {
                long long unit = 100;
                for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
                    fraction += (*end - '0') * unit;
            }
            const long long unit_ms = *end == 'd'   ? 86400000
                                      : *end == 'h' ? 3600000
                                      : *end == 'm' ? 60000
                                                    : 1000;
            sum_ms += number * unit_ms + fraction;
            at = end;
        }
        assert_true(sum_ms == span_ms);
    }
}

/* What lasts less than a millisecond is shown, too. */
static void microseconds_are_exact_below_a_second(void **state)
{
    static const struct {
        unsigned long long span_us;
        const char *expected;
    } known[] = {{0, "0us"},         {999, "999us"},        {1000, "1ms"},
                 {1250, "1.25ms"},   {999999, "999.999ms"}, {1000000, "1s"},
                 {1000001, "1.001s"}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char out[CLI_SPAN_LEN];
        cli_span_us(known[i].span_us, out);
        assert_string_equal(out, known[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_of_a_decision_is_as_documented),
        cmocka_unit_test(a_lease_of_tokens_tells_how_long_it_lasts),
        cmocka_unit_test(a_rule_on_trial_is_named),
        cmocka_unit_test(an_explained_limit_tells_of_its_pool),
        cmocka_unit_test(never_is_minus_one),
        cmocka_unit_test(the_longest_texts_fit),
        cmocka_unit_test(errors_of_the_caller_and_of_the_cluster_differ),
        cmocka_unit_test(spans_are_exact),
        cmocka_unit_test(random_spans_add_up_to_what_they_show),
        cmocka_unit_test(microseconds_are_exact_below_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
