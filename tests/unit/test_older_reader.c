/* test_older_reader.c - rules in the form of an older limiter: what they become, what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"

static const char older[] =
    "{\"api\":{\"/user/v1/create\":["
    "{\"caller\":\"phone\",\"request-count\":20,\"time\":60},"
    "{\"caller\":\"ip\",\"request-count\":7,\"time\":1},"
    "{\"caller\":\"phone\",\"request-count\":100,\"time\":1440}],"
    "\"/user/v1/login\":[{\"time\":5,\"request-count\":3,\"caller\":\"user\"}]}}";

/* The same rules, as they would be written today. */
static const char newer[] = "rules:\n"
                            "- name: /user/v1/create:phone\n"
                            "  match: {api: /user/v1/create}\n"
                            "  key: [phone]\n"
                            "  limits:\n"
                            "  - {rate: 20/h, algorithm: sliding_log}\n"
                            "  - {rate: 100/24h, algorithm: sliding_log}\n"
                            "  response: {message: REQUEST_LIMIT_REACHED}\n"
                            "- name: /user/v1/create:ip\n"
                            "  match: {api: /user/v1/create}\n"
                            "  key: [ip]\n"
                            "  limits: [{rate: 7/m, algorithm: sliding_log}]\n"
                            "  response: {message: REQUEST_LIMIT_REACHED}\n"
                            "- name: /user/v1/login:user\n"
                            "  match: {api: /user/v1/login}\n"
                            "  key: [user]\n"
                            "  limits: [{rate: 3/5m, algorithm: sliding_log}]\n"
                            "  response: {message: REQUEST_LIMIT_REACHED}\n";

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;

    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    return policy;
}

/* Entries of one caller become one rule whose limits hold together, named by api and caller; the
 * same as if it had been written in today's form. */
static void entries_become_rules_named_by_api_and_caller(void **state)
{
    struct policy *policy = compile(older);
    struct policy *same = compile(newer);

    (void)state;
    assert_int_equal(policy_rule_count(policy), 3);
    assert_int_equal(policy_digest(policy), policy_digest(same));
    const struct policy_rule *rule = policy_rule_at(policy, 0);
    assert_string_equal(rule->name.data, "/user/v1/create:phone");
    assert_int_equal(rule->limit_count, 2);
    assert_string_equal(rule->windows[0], "20/h");
    assert_string_equal(rule->windows[1], "100/d");
    assert_int_equal(rule->limits[1].ordinal, 1);
    assert_int_equal(rule->limits[1].algorithm, ALGORITHM_SLIDING_LOG);
    assert_string_equal(rule->message.data, "REQUEST_LIMIT_REACHED");
    assert_int_equal(rule->status, 429);
    policy_free(&policy);
    policy_free(&same);
}

/* Each rule is shown as one in today's form is, to the letter. */
static void rules_are_shown_as_those_of_todays_form(void **state)
{
    struct policy *policy = compile(older);
    struct policy *same = compile(newer);
    char shown[1024];
    char expected[1024];

    (void)state;
    for (size_t i = 0; i < policy_rule_count(policy); i++) {
        assert_true(policy_format_rule(policy_rule_at(policy, i), shown, sizeof shown) > 0);
        assert_true(policy_format_rule(policy_rule_at(same, i), expected, sizeof expected) > 0);
        assert_string_equal(shown, expected);
    }
    policy_free(&policy);
    policy_free(&same);
}

/* Both rules of an api act on a request; another api, a longer one too, meets none. */
static void an_api_is_matched_exactly(void **state)
{
    struct policy *policy = compile(older);
    struct policy_result result;
    struct policy_attribute request[] = {
        {"api", 3, "/user/v1/create", 15}, {"phone", 5, "1", 1}, {"ip", 2, "2001:db8:0:1::7", 15}};

    (void)state;
    assert_int_equal(policy_resolve(policy, request, 3, &result), 0);
    assert_int_equal(result.part_count, 2);
    assert_memory_equal(result.parts[1].values[0].data, "2001:db8:0:1::/64", 17);
    request[0].value = "/user/v1//create/?x";
    request[0].value_len = 19;
    assert_int_equal(policy_resolve(policy, request, 3, &result), 0);
    assert_int_equal(result.part_count, 2); /* a path in another spelling */
    request[0].value = "/user/v1/create/x";
    request[0].value_len = 17;
    assert_int_equal(policy_resolve(policy, request, 3, &result), 0);
    assert_int_equal(result.action, POLICY_UNMATCHED);
    assert_true(result.allowed);
    policy_free(&policy);
}

#define ENTRY(fields) "{\"api\":{\"/a\":[\n{" fields "}]}}"
#define GOOD          "\"caller\":\"u\",\"request-count\":1,\"time\":1"

/* Each bad file is refused whole, with line, column, what was found and what was expected. */
static void bad_files_are_refused_with_place_and_reason(void **state)
{
    static const struct {
        const char *text;
        uint32_t line;
        uint32_t column;
        const char *message;
    } cases[] = {
        {"{\"api\":[]}", 1, 8, "api: found a list; expected a mapping"},
        {"{\"api\":{},\"colour\":1}", 1, 11, "file: found unknown key \"colour\"; expected api"},
        {"{\"api\":{},\"rules\":[]}", 1, 2,
         "file: found unknown key \"api\"; expected unmatched, rules, pools, tiers, attributes, "
         "domains, charge, merge_domains"},
        {"{\"api\":{\"/a\":{}}}", 1, 14,
         "api: found a mapping; expected a list of 1 to 256 elements"},
        {"{\"api\":{\"/a\":[]}}", 1, 14,
         "api: found a list of 0; expected a list of 1 to 256 elements"},
        {"{\"api\":{\"/a*\":[{" GOOD "}]}}", 1, 9,
         "api: found \"/a*\" with *; expected an exact api (patterns belong to the form with "
         "\"rules\")"},
        {"{\"api\":{\"/a\":[{" GOOD "}],\"/a\":[{" GOOD "}]}}", 1, 58,
         "api: found key \"/a\" twice; expected it once"},
        {ENTRY("\"caller\":\"u\",\"time\":1"), 2, 1,
         "limit: found no key \"request-count\"; expected one"},
        {ENTRY("\"caller\":\"u\",\"request-count\":1"), 2, 1,
         "limit: found no key \"time\"; expected one"},
        {ENTRY("\"request-count\":1,\"time\":1"), 2, 1,
         "limit: found no key \"caller\"; expected one"},
        {ENTRY(GOOD ",\"burst\":1"), 2, 42,
         "limit: found unknown key \"burst\"; expected caller, request-count, time"},
        {ENTRY("\"caller\":\"U s\",\"request-count\":1,\"time\":1"), 2, 11,
         "caller: found \"U s\"; expected an attribute name, 1 to 64 characters of a-z 0-9 _ . -"},
        {ENTRY("\"caller\":\"u\",\"request-count\":0,\"time\":1"), 2, 31,
         "request-count: found \"0\"; expected a whole number from 1 to 65536"},
        {ENTRY("\"caller\":\"u\",\"request-count\":65537,\"time\":1"), 2, 31,
         "request-count: found \"65537\"; expected a whole number from 1 to 65536"},
        {ENTRY("\"caller\":\"u\",\"request-count\":1,\"time\":0.5"), 2, 40,
         "time: found \"0.5\"; expected a whole number from 1 to 5270400"},
        {ENTRY("\"caller\":\"u\",\"request-count\":1,\"time\":5270401"), 2, 40,
         "time: found \"5270401\"; expected a whole number from 1 to 5270400"},
        {ENTRY(GOOD "},{" GOOD "},{" GOOD "},{" GOOD "},{" GOOD "},{" GOOD "},{" GOOD "},{" GOOD
                    "},\n {" GOOD),
         3, 12, "caller: found more than 8 limits of one caller under one api; expected at most 8"},
    };
    unsigned wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct policy_error error;
        struct policy *policy;
        const int result =
            policy_compile(cases[i].text, strlen(cases[i].text), alloc_heap(), &policy, &error);
        assert_int_equal(result, TG_EINVALID);
        assert_null(policy);
        if (error.line == cases[i].line && error.column == cases[i].column &&
            strcmp(error.message, cases[i].message) == 0)
            continue;
        wrong++;
        print_message("%s\n  got      %u:%u %s\n  expected %u:%u %s\n", cases[i].text, error.line,
                      error.column, error.message, cases[i].line, cases[i].column,
                      cases[i].message);
    }
    assert_int_equal(wrong, 0);
}

/* An api whose name with its caller is longer than a rule's may be is refused; one byte less is
 * not. */
static void a_name_too_long_is_refused(void **state)
{
    char text[512];
    char api[POLICY_NAME_LEN_MAX];

    (void)state;
    memset(api, 'a', sizeof(api));
    for (size_t len = POLICY_NAME_LEN_MAX - 8; len <= POLICY_NAME_LEN_MAX - 2; len++) {
        struct policy_error error;
        struct policy *policy;
        (void)snprintf(text, sizeof(text),
                       "{\"api\":{\"%.*s\":[{\"caller\":\"phone\",\"request-count\":1,"
                       "\"time\":1}]}}",
                       (int)len, api);
        const int result = policy_compile(text, strlen(text), alloc_heap(), &policy, &error);
        assert_int_equal(result, len + 6 <= POLICY_NAME_LEN_MAX ? 0 : TG_EINVALID);
        if (result != 0)
            assert_non_null(strstr(error.message, "expected at most 127 of both"));
        policy_free(&policy);
    }
}

/* More pairs of api and caller than there may be rules are refused. */
static void more_rules_than_there_may_be_are_refused(void **state)
{
    const size_t room = 128 * (POLICY_RULES_MAX + 1);
    char *text = malloc(room);
    struct policy_error error;
    struct policy *policy;

    (void)state;
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, room, "{\"api\":{");
    for (int i = 0; i < POLICY_RULES_MAX; i++)
        at += (size_t)snprintf(text + at, room - at,
                               "%s\"/%d\":[{\"caller\":\"u\",\"request-count\":1,\"time\":1}%s]",
                               i == 0 ? "" : ",", i,
                               i == 77 ? ",{\"caller\":\"v\",\"request-count\":1,\"time\":1}" : "");
    at += (size_t)snprintf(text + at, room - at, "}}");
    assert_int_equal(policy_compile(text, at, alloc_heap(), &policy, &error), TG_EINVALID);
    assert_non_null(strstr(error.message, "found more than 10000 pairs of api and caller"));
    free(text);
}

/* A file of this form that is cut anywhere is refused: it never means fewer limits. */
static void a_file_cut_short_is_refused(void **state)
{
    (void)state;
    for (size_t len = 0; len + 1 < sizeof(older) - 1; len++) {
        struct policy_error error;
        struct policy *policy;
        assert_int_equal(policy_compile(older, len, alloc_heap(), &policy, &error), TG_EINVALID);
        assert_null(policy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_become_rules_named_by_api_and_caller),
        cmocka_unit_test(rules_are_shown_as_those_of_todays_form),
        cmocka_unit_test(an_api_is_matched_exactly),
        cmocka_unit_test(bad_files_are_refused_with_place_and_reason),
        cmocka_unit_test(a_name_too_long_is_refused),
        cmocka_unit_test(more_rules_than_there_may_be_are_refused),
        cmocka_unit_test(a_file_cut_short_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
