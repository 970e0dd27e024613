/* test_policy_explain.c - why each rule acts or does not: the reasons, and their sentences. That
 * the result is the one of policy_resolve is held at random by test_policy_resolve.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"

static const char rules[] =
    "rules:\n"
    "- {name: off, enabled: false, priority: 9, key: [user], limits: [{rate: 1/s}]}\n"
    "- {name: other-api, priority: 8, match: {api: [/a, /b, /c, /d, /e, /f]}, action: block}\n"
    "- {name: no-tier, priority: 8, match: {tier: free}, action: block}\n"
    "- {name: inside, priority: 8, match: {ip: [10.0.0.0/8]}, action: allow}\n"
    "- {name: trial, priority: 7, shadow: true, key: [user], limits: [{rate: 1/s}]}\n"
    "- {name: first, priority: 6, group: g, key: [user], limits: [{rate: 1/s}]}\n"
    "- {name: second, priority: 5, group: g, key: [user], limits: [{rate: 1/s}]}\n"
    "- {name: by-phone, priority: 4, key: [user, phone], limits: [{rate: 1/s}]}\n"
    "- {name: end, priority: 3, match: {user: a*}, action: allow}\n"
    "- {name: below, key: [user], limits: [{rate: 1/s}]}\n";

/* Each obstacle is named, with what was found and what was expected. */
static void each_rule_has_its_reason(void **state)
{
    static const struct {
        enum policy_why why;
        const char *sentence;
    } expected[] = {
        {POLICY_WHY_DISABLED, "it is disabled"},
        {POLICY_WHY_VALUE,
         "api is \"/z?\"; expected \"/a\" or \"/b\" or \"/c\" or \"/d\" or 2 more"},
        {POLICY_WHY_ABSENT, "the request has no tier; expected \"free\""},
        {POLICY_WHY_VALUE, "ip is \"11.0.0.1\"; expected \"10.0.0.0/8\""},
        {POLICY_WHY_ACTS, "every condition holds; on trial, it never denies"},
        {POLICY_WHY_ACTS, "every condition holds"},
        {POLICY_WHY_GROUP, "rule first applies first in group g"},
        {POLICY_WHY_NOT_COUNTED, "its key counts by phone, which the request lacks"},
        {POLICY_WHY_ACTS, "every condition holds"},
        {POLICY_WHY_ENDED, "rule end ended the search"},
    };
    enum { RULES = sizeof(expected) / sizeof(expected[0]) };
    const struct policy_attribute request[] = {
        {"user", 4, "ann", 3}, {"api", 3, "/z\n", 3}, {"ip", 2, "::ffff:11.0.0.1", 15}};
    struct policy_reason reasons[RULES];
    struct policy_result result;
    struct policy_error error;
    struct policy *policy;

    (void)state;
    assert_int_equal(policy_compile(rules, sizeof(rules) - 1, alloc_heap(), &policy, &error), 0);
    assert_int_equal(policy_rule_count(policy), RULES);
    assert_int_equal(policy_explain(policy, request, 3, &result, reasons), 0);
    assert_int_equal(result.action, POLICY_LIMITS);
    assert_int_equal(result.part_count, 2);
    for (size_t i = 0; i < RULES; i++) {
        char sentence[256];
        policy_reason_format(policy_rule_at(policy, i), &reasons[i], sentence, sizeof(sentence));
        assert_string_equal(sentence, expected[i].sentence);
        assert_string_equal(policy_why_name(reasons[i].why), policy_why_name(expected[i].why));
    }
    policy_free(&policy);
}

/* A sentence that does not fit is cut, never written beyond its room. */
static void a_sentence_is_cut_to_its_room(void **state)
{
    const struct policy_rule rule = {.name = {"r", 1}, .group = {"g", 1}};
    const struct policy_reason reason = {.why = POLICY_WHY_GROUP, .by = &rule};
    char sentence[16];

    (void)state;
    for (size_t capacity = 1; capacity < 12; capacity++) {
        memset(sentence, '#', sizeof(sentence));
        policy_reason_format(&rule, &reason, sentence, capacity);
        assert_int_equal(strlen(sentence), capacity - 1);
        assert_memory_equal(sentence, "rule r appli", capacity - 1);
        assert_int_equal(sentence[capacity], '#');
    }
}

/* A long value is cut between two characters, for the sentence goes out as UTF-8. */
static void a_value_is_cut_between_two_characters(void **state)
{
    static const char value[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xe2\x82\xac\xc3\xa4";
    const struct policy_text expected = {"x", 1};
    const struct policy_match match = {{"api", 3}, &expected, 1, 0};
    const struct policy_reason reason = {.why = POLICY_WHY_VALUE,
                                         .attribute = {"api", 3},
                                         .found = {value, sizeof(value) - 1},
                                         .expected = &match};
    const struct policy_rule rule = {.name = {"r", 1}};
    char sentence[128];

    (void)state;
    policy_reason_format(&rule, &reason, sentence, sizeof(sentence));
    assert_string_equal(sentence, "api is \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xe2\x82\xac"
                                  "...\"; expected \"x\"");
    struct policy_reason inside = reason;
    inside.found = (struct policy_text){value + 3, sizeof(value) - 4}; /* 37 + 3 + 2 - 3 */
    policy_reason_format(&rule, &inside, sentence, sizeof(sentence));
    assert_non_null(strstr(sentence, "\xe2\x82\xac\xc3\xa4\"; expected"));
    static const char odd[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa4";
    inside.found = (struct policy_text){odd, sizeof(odd) - 1};
    policy_reason_format(&rule, &inside, sentence, sizeof(sentence));
    assert_string_equal(sentence, "api is \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\"; "
                                  "expected \"x\"");
}

/* What is out of bounds is told by its place, what was found and what was expected. */
static void bounds_are_told_with_place_found_and_expected(void **state)
{
    enum { COUNT = POLICY_ATTRIBUTES_MAX + 1 };
    static char value[POLICY_VALUE_LEN_MAX + 1];
    static char name[POLICY_ATTRIBUTE_NAME_LEN_MAX + 1];
    struct policy_attribute many[COUNT];
    char told[256];

    (void)state;
    memset(value, 'v', sizeof(value));
    memset(name, 'n', sizeof(name));
    for (size_t i = 0; i < COUNT; i++)
        many[i] = (struct policy_attribute){"user", 4, value, POLICY_VALUE_LEN_MAX};
    policy_bounds_format(many, COUNT, told, sizeof(told));
    assert_string_equal(told, "found 35 attributes; expected at most 32");
    policy_bounds_format(many, 2, told, sizeof(told));
    assert_string_equal(told, POLICY_SPELLING_SENTENCE);
    many[1].value_len++;
    policy_bounds_format(many, 2, told, sizeof(told));
    assert_string_equal(told, "attribute \"user\": found a value of 1025 bytes; expected at most "
                              "1024");
    many[1].name = name;
    many[1].name_len = sizeof(name);
    policy_bounds_format(many, 2, told, sizeof(told));
    assert_string_equal(told, "attribute \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...\": found a "
                              "name of 65 bytes; expected at most 64");
}

/* A request out of bounds is refused as policy_resolve refuses it. */
static void a_request_out_of_bounds_is_refused(void **state)
{
    static const char value[POLICY_VALUE_LEN_MAX + 1];
    const struct policy_attribute request = {"user", 4, value, sizeof(value)};
    struct policy_result result;

    (void)state;
    assert_int_equal(policy_explain(policy_empty(), &request, 1, &result, NULL), TG_EINVALID);
    assert_false(result.allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_has_its_reason),
        cmocka_unit_test(a_sentence_is_cut_to_its_room),
        cmocka_unit_test(a_value_is_cut_between_two_characters),
        cmocka_unit_test(bounds_are_told_with_place_found_and_expected),
        cmocka_unit_test(a_request_out_of_bounds_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
