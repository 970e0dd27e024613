/* test_descriptor_reader.c - files of envoyproxy/ratelimit: what they become, what is refused, and
 * where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/policy/compile/ordinals.h"
#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_diff.h"
#include "node/policy/compile/policy_warnings.h"
#include "node/policy/compile/pool_edit.h"
#include "node/policy/compile/rule_removal.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/model/policy.h"
#include "node/policy/readers/descriptor_format.h"

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    policy_check_invariants(policy);
    return policy;
}

static const struct policy_rule *rule_of(const struct policy *policy, const char *name)
{
    const struct policy_rule *rule = policy_rule_find(policy, name, strlen(name));
    if (rule == NULL)
        fail_msg("no rule %s", name);
    return rule;
}

#define LIMIT "    rate_limit: {unit: minute, requests_per_unit: 3}\n"

/* ---- refusals -------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    uint32_t line;
    uint32_t column;
    const char *sentence;
} refusals[] = {
    {"descriptors: []\n", 1, 1, "domain: found no key \"domain\"; expected one"},
    {"domain: \"\"\n", 1, 9, "domain: found \"\"; expected a text of 1 to 120 bytes"},
    {"domain: 1.5\n", 1, 9,
     "domain: found \"1.5\", a number with a fraction; expected it in quotes"},
    {"domain: a\ndescriptors:\n- value: x\n", 3, 3,
     "descriptor: found no key \"key\"; expected one"},
    {"domain: a\ndescriptors:\n- key: \"\"\n", 3, 8,
     "descriptor.key: found \"\"; expected a text of 1 to 256 bytes"},
    {"domain: a\ndescriptors:\n- key: a\n  value: 1e3\n", 4, 10,
     "descriptor.value: found \"1e3\", a number with a fraction; expected it in quotes"},
    {"domain: a\ndescriptors:\n- {key: a, value: b}\n- {key: a, value: b}\n", 4, 3,
     "descriptor: found \"b\" a second time at this level, first at line 3; expected each key and "
     "value once"},
    {"domain: a\ndescriptors:\n- {key: a, value: b_c}\n- {key: a_b, value: c}\n", 4, 3,
     "descriptor: found \"c\" a second time at this level, first at line 3; expected each key and "
     "value once"},
    {"domain: a\ndescriptors:\n- {key: a}\n- {key: a}\n", 4, 3,
     "descriptor: found \"a\" a second time at this level, first at line 3; expected each key and "
     "value once"},
    {"domain: a\n---\ndomain: a\n", 3, 9,
     "domain: found \"a\" a second time; expected each domain once, or "
     "merge_domains: true"},
    {"domain: a\nrulez: 1\n", 2, 1,
     "domain: found unknown key \"rulez\"; expected keys of envoyproxy/ratelimit, such as "
     "\"domain\""},
    {"domain: a\non_failure: open\n", 2, 1,
     "domain: found unknown key \"on_failure\"; expected keys of envoyproxy/ratelimit, such as "
     "\"domain\""},
    {"domain: a\ndescriptors:\n- key: a\n  message: no\n", 4, 3,
     "descriptor: found unknown key \"message\"; expected keys of envoyproxy/ratelimit, such as "
     "\"key\""},
    {"rules: []\ndomains:\n- domain: a\n  descriptors:\n  - {key: a, message: no}\n", 5, 23,
     "descriptor.message: found without a rate_limit; expected it with one only"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: fortnight}\n", 4, 22,
     "rate_limit.unit: found \"fortnight\"; expected second, minute, hour, day, week, month, year"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: unknown}\n", 4, 22,
     "rate_limit.unit: found \"unknown\"; expected second, minute, hour, day, week, month, year"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {requests_per_unit: 3}\n", 4, 15,
     "rate_limit: found no key \"unit\"; expected one, or unlimited"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unlimited: true, unit: HOUR}\n", 4, 39,
     "rate_limit.unit: found with unlimited; expected one of the two"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: -1}\n", 4, 46,
     "rate_limit.requests_per_unit: found \"-1\"; expected a whole number from 0 to 4294967295"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: "
     "4294967296}\n",
     4, 46,
     "rate_limit.requests_per_unit: found \"4294967296\"; expected a whole number from 0 to "
     "4294967295"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: \"1\"}\n", 4,
     46, "rate_limit.requests_per_unit: found \"1\"; expected a whole number from 0 to 4294967295"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, name: x, replaces: [{name: "
     "x}]}\n",
     4, 47, "rate_limit.replaces: found the limit's own name; expected those of others"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, replaces: [{name: \"\"}]}\n", 4,
     45, "replaces.name: found \"\"; expected a text of 1 to 128 bytes"},
    {"domain: a\ndescriptors:\n- key: a\n  rate_limit: {unit: day, replaces: [x]}\n", 4, 38,
     "replaces: found \"x\"; expected a mapping"},
    {"domain: a\ndescriptors:\n- key: a\n  value: b\n  share_threshold: true\n", 5, 20,
     "descriptor.share_threshold: found without a `*` in key or value; expected it with a wildcard "
     "only"},
    {"domain: a\ndescriptors:\n- key: a\n  shadow_mode: maybe\n", 4, 16,
     "descriptor.shadow_mode: found \"maybe\"; expected true or false"},
    {"domain: a\ndescriptors:\n- key: a\n  shadow_mode: yES\n", 4, 16,
     "descriptor.shadow_mode: found \"yES\"; expected true or false"},
    {"domain: a\ndescriptors:\n- key: a\n  shadow_mode: \"true\"\n", 4, 16,
     "descriptor.shadow_mode: found \"true\"; expected true or false"},
    {"domain: a\ndescriptors:\n- [a]\n", 3, 3, "descriptor: found a list; expected a mapping"},
    {"domain: a\ndescriptors: {key: a}\n", 2, 14,
     "descriptors: found a mapping; expected a list of 0 to 65536 elements"},
    {"domain: a\ndescriptors: [{key: a, metadata: [[[[[[[[[[[[[]]]]]]]]]]]]]}]\n", 2, 34,
     "descriptor.metadata: found nested too deep; expected at most 12 lists and mappings inside "
     "each other"},
    {"domain: a\ndescriptors:\ndescriptors: [{key: a}]\n", 3, 1,
     "domain: found key \"descriptors\" twice; expected it once"},
    {"domain: a\ndomain: a\n", 2, 1, "domain: found key \"domain\" twice; expected it once"},
    {"- a\n---\ndomain: a\n", 1, 1, "domain: found a list; expected a mapping"},
    /* Of ours. */
    {"rules: []\ncharge: all\n", 2, 9, "charge: found without domains; expected it with them only"},
    {"rules: []\ndomains:\n- domain: a\n  unit: day\n", 4, 3,
     "domain: found unknown key \"unit\"; expected domain, descriptors, on_failure, message"},
    {"rules: []\ndomains:\n- domain: a\n  descriptors: [{key: a, shadow_mode: yes}]\n", 4, 39,
     "descriptor.shadow_mode: found \"yes\"; expected true or false"},
    {"rules: []\ndomains:\n- domain: a\n  descriptors: [{key: a, rate_limit: {unit: Day}}]\n", 4,
     45, "rate_limit.unit: found \"Day\"; expected second, minute, hour, day, week, month, year"},
    {"rules: [{name: \"a:k\", key: [x], limits: [{rate: 1/s}]}]\ndomains:\n- domain: a\n"
     "  descriptors: [{key: k, rate_limit: {unit: day}}]\n",
     3, 1,
     "domains: found a rule named \"a:k\", which a domain has; expected another name for the "
     "rule"},
    {"rules: [{name: domain a, key: [x], limits: [{rate: 1/s}]}]\ndomains:\n- domain: a\n", 3, 1,
     "domains: found a rule named \"domain a\", which a domain has; expected another name for the "
     "rule"},
};

static void what_the_reference_refuses_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct policy_error error;
        struct policy *policy;
        const char *text = refusals[i].text;
        if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) == 0)
            fail_msg("%zu: taken: %s", i, text);
        if (strcmp(error.message, refusals[i].sentence) != 0 || error.line != refusals[i].line ||
            error.column != refusals[i].column)
            fail_msg("%zu: %u:%u: %s", i, error.line, error.column, error.message);
    }
}

static void levels_beyond_sixteen_are_refused(void **state)
{
    char text[2048];
    struct policy_error error;
    struct policy *policy;
    (void)state;
    for (int depth = 16; depth <= 17; depth++) {
        size_t len = (size_t)snprintf(text, sizeof text, "domain: a\n");
        for (int i = 0; i < depth; i++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%sdescriptors: [{key: k",
                                    i == 0 ? "" : ", ");
        len += (size_t)snprintf(text + len, sizeof text - len, ", rate_limit: {unit: day}");
        for (int i = 0; i < depth; i++)
            len += (size_t)snprintf(text + len, sizeof text - len, "}]");
        const int result = policy_compile(text, len, alloc_heap(), &policy, &error);
        assert_int_equal(result, depth == 16 ? 0 : TG_EINVALID);
        if (result != 0)
            assert_string_equal(error.message, "descriptor.descriptors: found nested too deep; "
                                               "expected at most 16 levels");
        policy_free(&policy);
    }
}

/* ---- what is taken --------------------------------------------------------------------------- */

static void values_are_those_of_yaml_1_1(void **state)
{
    static const struct {
        const char *value;
        const char *name;
    } rows[] = {{"10", "a:k=10"},
                {"yes", "a:k=yes"},
                {"true", "a:k=true"},
                {"\"1.5\"", "a:k=1.5"},
                {"1.2.3.4", "a:k=1.2.3.4"},
                {"0x1F", "a:k=0x1F"},
                {"2001-01-01", "a:k=2001-01-01"},
                {"~", "a:k"},
                {"", "a:k"},
                {"\"\"", "a:k"},
                {"null", "a:k"},
                {"\"null\"", "a:k=null"},
                {"e1", "a:k=e1"},
                {"\"a,b=c\"", "a:k=a\\,b\\=c"}};
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(text, sizeof text,
                       "domain: a\ndescriptors:\n  - key: k\n    value: %s\n" LIMIT, rows[i].value);
        struct policy *policy = compile(text);
        assert_int_equal(policy_rule_count(policy), 1);
        assert_string_equal(policy_rule_at(policy, 0)->name.data, rows[i].name);
        policy_free(&policy);
    }
}

static void switches_and_numbers_are_those_of_yaml_1_1(void **state)
{
    static const char *const on[] = {"y",  "Y",  "yes", "Yes",  "YES",
                                     "on", "On", "ON",  "true", "TRUE"};
    static const char *const off[] = {"n", "No", "OFF", "false", "", "~"};
    static const struct {
        const char *text;
        uint32_t number;
    } numbers[] = {
        {"1_000", 1000},           {"0x10", 16}, {"010", 8}, {"0b11", 3}, {"0o17", 15}, {"+5", 5},
        {"4294967295", UINT32_MAX}};
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof on / sizeof on[0] + sizeof off / sizeof off[0]; i++) {
        const bool is_on = i < sizeof on / sizeof on[0];
        const char *word = is_on ? on[i] : off[i - sizeof on / sizeof on[0]];
        (void)snprintf(text, sizeof text,
                       "domain: a\ndescriptors:\n  - key: k\n    shadow_mode: %s\n" LIMIT, word);
        struct policy *policy = compile(text);
        assert_int_equal(policy_rule_at(policy, 0)->shadow, is_on);
        policy_free(&policy);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)snprintf(text, sizeof text,
                       "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: minute, "
                       "requests_per_unit: %s}\n",
                       numbers[i].text);
        struct policy *policy = compile(text);
        assert_int_equal(policy_rule_at(policy, 0)->descriptor->requests_per_unit,
                         numbers[i].number);
        policy_free(&policy);
    }
}

/* Windows of each unit, from 1970 on; so a week is one from Thursday to Thursday. */
static void units_are_windows_of_fixed_length(void **state)
{
    static const struct {
        const char *unit;
        uint64_t seconds;
        const char *window;
        uint8_t ordinal;
    } rows[] = {{"second", 1, "7/s", 0},        {"MINUTE", 60, "7/m", 1},
                {"Hour", 3600, "7/h", 2},       {"day", 86400, "7/d", 3},
                {"week", 604800, "7/w", 4},     {"month", 2592000, "7/30d", 5},
                {"yEaR", 31536000, "7/365d", 6}};
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(text, sizeof text,
                       "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: %s, "
                       "requests_per_unit: 7}\n",
                       rows[i].unit);
        struct policy *policy = compile(text);
        const struct policy_rule *rule = policy_rule_at(policy, 0);
        assert_int_equal(rule->limit_count, 1);
        assert_int_equal(rule->limits[0].window_ns, rows[i].seconds * 1000000000);
        assert_int_equal(rule->limits[0].count, 7);
        assert_int_equal(rule->limits[0].algorithm, ALGORITHM_FIXED_WINDOW);
        assert_int_equal(rule->limits[0].align, LIMIT_ALIGN_EPOCH);
        assert_int_equal(rule->limits[0].ordinal, rows[i].ordinal);
        assert_string_equal(rule->windows[0], rows[i].window);
        policy_free(&policy);
    }
}

static void a_limit_is_a_rule_that_is_counted_by_its_domain(void **state)
{
    struct policy *policy =
        compile("domain: shop\ndescriptors:\n  - key: path\n    value: /cart\n" LIMIT
                "    descriptors:\n    - key: user\n      shadow_mode: true\n"
                "      rate_limit: {unit: day, requests_per_unit: 9}\n"
                "  - {key: free, rate_limit: {unlimited: true, unit: whatever}}\n"
                "  - {key: shut, rate_limit: {unit: day}}\n"
                "  - {key: nothing}\n");
    (void)state;
    assert_int_equal(policy_rule_count(policy), 4);
    const struct policy_rule *rule = rule_of(policy, "shop:path=/cart");
    assert_string_equal(rule->counted.data, "domain shop");
    assert_int_equal(rule->on_failure, POLICY_FAILURE_LOCAL);
    assert_int_equal(rule->local_share, 100);
    assert_true(rule->count_denied && !rule->shadow);
    assert_string_equal(rule->key[0].data, DESCRIPTOR_ATTRIBUTE);
    assert_true(rule_of(policy, "shop:path=/cart,user")->shadow);
    assert_int_equal(rule_of(policy, "shop:free")->act, POLICY_ACT_ALLOW);
    assert_int_equal(rule_of(policy, "shop:shut")->act, POLICY_ACT_BLOCK);
    policy_free(&policy);
}

/* A faster limit than any decider has is that of the decider. */
static void more_than_a_thousand_million_a_second_is_so_many(void **state)
{
    struct policy *policy =
        compile("domain: a\ndescriptors:\n- key: k\n"
                "  rate_limit: {unit: second, requests_per_unit: 4294967295}\n");
    (void)state;
    assert_int_equal(policy_rule_at(policy, 0)->limits[0].count, LIMIT_RATE_MAX);
    assert_int_equal(policy_rule_at(policy, 0)->descriptor->requests_per_unit, UINT32_MAX);
    policy_free(&policy);
}

/* Rules without a condition would meet every request. */
static void requests_by_attributes_never_meet_a_descriptor(void **state)
{
    struct policy *policy = compile("domain: a\ndescriptors:\n  - key: k\n" LIMIT
                                    "  - {key: shut, rate_limit: {unit: day}}\n");
    const struct policy_attribute attributes[] = {{"descriptor", 10, "k=1", 3}, {"k", 1, "1", 1}};
    struct policy_result result;
    struct policy_reason reasons[2];
    (void)state;
    assert_int_equal(policy_resolve(policy, attributes, 2, &result), 0);
    assert_int_equal(result.action, POLICY_UNMATCHED);
    assert_int_equal(policy_explain(policy, attributes, 2, &result, reasons), 0);
    assert_int_equal(result.action, POLICY_UNMATCHED);
    assert_int_equal(reasons[0].why, POLICY_WHY_DOMAIN);
    assert_int_equal(reasons[1].why, POLICY_WHY_DOMAIN);
    policy_free(&policy);
}

static void a_key_in_a_wrong_place_is_a_warning(void **state)
{
    struct policy *policy = compile("domain: a\ndescriptors:\n- key: k\n  unlimited: true\n"
                                    "  rate_limit: {unit: day, shadow_mode: true}\n");
    struct policy_warning warnings[4];
    (void)state;
    assert_int_equal(policy_warnings(policy, alloc_heap(), warnings, 4), 2);
    assert_int_equal(warnings[0].line, 4);
    assert_string_equal(warnings[0].message, "found \"unlimited\" in a descriptor, where it has no "
                                             "effect; expected it elsewhere");
    assert_int_equal(warnings[1].line, 5);
    assert_false(policy_rule_at(policy, 0)->shadow);
    policy_free(&policy);
}

static void domains_that_stand_twice_are_merged_where_that_is_said(void **state)
{
    struct policy *policy = compile("{merge_domains: true, charge: all}\n---\n"
                                    "domain: a\ndescriptors:\n  - key: k\n" LIMIT "---\n\n---\n"
                                    "domain: a\ndescriptors:\n  - key: l\n" LIMIT);
    struct policy_error error;
    struct policy *other;
    static const char twice[] =
        "merge_domains: true\n---\ndomain: a\ndescriptors: [{key: k}]\n---\n"
        "domain: a\ndescriptors: [{key: k}]\n";
    (void)state;
    assert_int_equal(policy_rule_count(policy), 2);
    assert_int_equal(policy_descriptors(policy)->domain_count, 1);
    assert_true(policy_descriptors(policy)->all_or_nothing);
    assert_false(rule_of(policy, "a:l")->count_denied);
    policy_free(&policy);
    assert_int_equal(policy_compile(twice, sizeof twice - 1, alloc_heap(), &other, &error),
                     TG_EINVALID);
    assert_non_null(strstr(error.message, "a second time at this level; expected"));
}

/* ---- written, compared, kept ----------------------------------------------------------------- */

static const char many[] =
    "domain: shop\ndescriptors:\n  - key: path\n    value: \"/*\\u2028\\\"\"\n    share_threshold: "
    "on\n" LIMIT
    "    descriptors:\n    - key: user\n      quota_mode: true\n      value_to_metric: true\n"
    "      rate_limit: {unit: year, requests_per_unit: 9, name: n, replaces: [{name: a}, {name: "
    "b}]}\n    - key: \"a\\tb\"\n      detailed_metric: true\n      rate_limit: {unlimited: true}\n"
    "      metadata: {team: [1, 2.5, \"x\\n\", yes, ~, {}], \"\": []}\n"
    "---\ndomain: other\ndescriptors:\n- {key: shut, shadow_mode: true, rate_limit: {unit: day}}\n";

static const char spoken[] =
    "rules: []\ndomains:\n- domain: a\n  message: no more\n  on_failure: open\n  descriptors:\n"
    "  - key: b\n    message: none of b\n    rate_limit: {unit: day, requests_per_unit: 1}\n"
    "    descriptors:\n    - {key: c, rate_limit: {unit: day, requests_per_unit: 2}}\n";

static void what_is_written_of_a_rule_compiles_to_the_same_rule(void **state)
{
    for (size_t k = 0; k < 2; k++) {
        struct policy *policy = compile(k == 0 ? many : spoken);
        (void)state;
        assert_int_equal(policy_rule_count(policy), k == 0 ? 4 : 2);
        for (size_t i = 0; i < policy_rule_count(policy); i++) {
            char text[4096];
            const struct policy_rule *rule = policy_rule_at(policy, i);
            assert_true(policy_format_rule(rule, text, sizeof text) > 0);
            struct policy *alone = compile(text);
            assert_int_equal(policy_rule_count(alone), 1);
            assert_int_equal(policy_rule_digest(policy_rule_at(alone, 0)),
                             policy_rule_digest(rule));
            policy_free(&alone);
        }
        policy_free(&policy);
    }
}

static void what_is_written_of_all_domains_compiles_to_the_same_policy(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct policy *policy = compile(k == 0 ? many : spoken);
        char text[8192];
        const size_t len = policy_format_domains(policy, text, sizeof text - 1);
        assert_true(len < sizeof text);
        text[len] = '\0';
        struct policy *same = compile(text);
        assert_int_equal(policy_digest(same), policy_digest(policy));
        policy_free(&same);
        policy_free(&policy);
    }
}

static void messages_are_of_the_descriptor_before_the_domain(void **state)
{
    struct policy *policy = compile(spoken);
    (void)state;
    assert_string_equal(rule_of(policy, "a:b")->message.data, "none of b");
    assert_string_equal(rule_of(policy, "a:b,c")->message.data, "no more");
    policy_free(&policy);
    struct policy *first = compile("rules: []\ndomains:\n- {domain: a, message: x}\n");
    struct policy *second = compile("rules: []\ndomains:\n- {domain: a, message: y}\n");
    assert_int_not_equal(policy_digest(first), policy_digest(second));
    policy_free(&first);
    policy_free(&second);
}

/* Each of these means something else than `many`. */
static void whatever_changes_the_meaning_changes_the_digest(void **state)
{
    static const char *const changes[][2] = {{"share_threshold: on", "share_threshold: no"},
                                             {"quota_mode: true", "quota_mode: no"},
                                             {"value_to_metric: true", "value_to_metric: no"},
                                             {"unit: year", "unit: week"},
                                             {"requests_per_unit: 9", "requests_per_unit: 8"},
                                             {"name: n,", "name: o,"},
                                             {"name: a}", "name: c}"},
                                             {"shadow_mode: true", "shadow_mode: no"},
                                             {"detailed_metric: true", "detailed_metric: no"},
                                             {"team:", "crew:"},
                                             {"domain: other", "domain: others"},
                                             {"key: user", "key: users"}};
    struct policy *policy = compile(many);
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char text[sizeof many + 64];
        const char *at = strstr(many, changes[i][0]);
        assert_non_null(at);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - many), many, changes[i][1],
                       at + strlen(changes[i][0]));
        struct policy *other = compile(text);
        if (policy_digest(other) == policy_digest(policy))
            fail_msg("%s", changes[i][1]);
        policy_free(&other);
    }
    policy_free(&policy);
}

/* A rule's name is of its path alone; one that is too long or not printable is shortened. */
static void names_are_unique_and_no_neighbours_business(void **state)
{
    char text[2048];
    char longest[200];
    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    (void)snprintf(
        text, sizeof text,
        "domain: a\ndescriptors:\n  - key: a.b\n" LIMIT "  - key: a\n    descriptors:\n"
        "    - {key: b, rate_limit: {unit: day}}\n"
        "    - {key: \"b,c\", rate_limit: {unit: day}}\n"
        "    - key: b\n      value: c\n      descriptors:\n"
        "      - {key: c, rate_limit: {unit: day}}\n"
        "  - {key: %s1, rate_limit: {unit: day}}\n  - {key: %s2, rate_limit: {unit: day}}\n"
        "  - {key: \"\\t\", rate_limit: {unit: day}}\n",
        longest, longest);
    struct policy *policy = compile(text);
    assert_int_equal(policy_rule_count(policy), 7);
    for (size_t i = 0; i < 7; i++) {
        const struct policy_text *name = &policy_rule_at(policy, i)->name;
        assert_true(name->len <= POLICY_NAME_LEN_MAX);
        assert_null(strchr(name->data, '\t'));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(name->data, policy_rule_at(policy, k)->name.data);
    }
    policy_free(&policy);
}

/* What is counted has the path, not the place: a changed number keeps it, a changed unit does not.
 */
static void an_edit_keeps_the_counts_of_limits_whose_unit_stays(void **state)
{
    struct policy *old = compile("domain: a\ndescriptors:\n  - key: k\n" LIMIT
                                 "  - {key: l, rate_limit: {unit: day, requests_per_unit: 5}}\n");
    struct policy *new =
        compile("domain: a\ndescriptors:\n"
                "  - {key: l, rate_limit: {unit: hour, requests_per_unit: 5}}\n"
                "  - {key: k, rate_limit: {unit: minute, requests_per_unit: 8}}\n");
    const struct ordinals_edit edit = {.old = old, .new = new, .version = 2, .len_max = 4096};
    struct ordinals ordinals;
    (void)state;
    assert_int_equal(ordinals_edit(&edit, alloc_heap(), &ordinals), 0);
    assert_int_equal(ordinals.len, 0); /* nothing is to be kept beside the rules */
    const struct policy_rule *k = rule_of(new, "a:k");
    const struct policy_rule *l = rule_of(new, "a:l");
    assert_int_equal(ordinals_fate(&ordinals, old, rule_of(old, "a:k"), k, 0), ORDINALS_STAYS);
    assert_int_equal(ordinals_fate(&ordinals, old, rule_of(old, "a:l"), l, 0), ORDINALS_ANEW);
    assert_true(ordinals_ends(&ordinals, rule_of(old, "a:l"), 0, new, l));
    ordinals_fini(&ordinals);
    policy_free(&old);
    policy_free(&new);
}

/* Commands that cut or add a piece of a document cannot do so here, and say so. */
static void what_edits_rules_of_ours_leaves_domains_alone(void **state)
{
    static const char *const texts[] = {
        "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day}}]\n",
        "domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day}\n---\ndomain: b\n",
        "rules: []\ndomains: [{domain: a, descriptors: [{key: k, rate_limit: {unit: day}}]}]\n"};
    static const struct policy_text rule = {"a:k", 3};
    const struct pool_edit pool = {.name = "p",
                                   .rate = {5, 1000000000},
                                   .load_max_ppm = POOL_EDIT_KEPT,
                                   .reserve_percent = POOL_EDIT_KEPT,
                                   .scope = POOL_EDIT_KEPT};
    char out[1024];
    size_t len;
    uint32_t line;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const size_t text_len = strlen(texts[i]);
        assert_int_equal(policy_remove_rule(texts[i], text_len, &rule, NULL, alloc_heap(), out,
                                            sizeof out, &len, &line),
                         TG_EUNSUPPORTED);
        const int set =
            policy_set_pool(texts[i], text_len, &pool, NULL, alloc_heap(), out, sizeof out, &len);
        assert_int_equal(set, i < 2 ? TG_EUNSUPPORTED : 0);
    }
}

static void domains_stand_beside_rules_of_ours(void **state)
{
    struct policy *policy =
        compile("rules: [{name: mine, key: [user], limits: [{rate: 1/s}]}]\n"
                "tiers: {free: {limits: [{rate: 5/h}]}}\n"
                "domains:\n- domain: a\n  on_failure: {local: {share: 50%}}\n"
                "  descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n"
                "- {domain: b, on_failure: open, descriptors: [{key: k, rate_limit: {unit: day, "
                "requests_per_unit: 1}}]}\n");
    const struct policy_attribute attributes[] = {{"user", 4, "ada", 3}};
    struct policy_result result;
    (void)state;
    assert_int_equal(policy_rule_count(policy), 4);
    assert_int_equal(rule_of(policy, "a:k")->local_share, 50);
    assert_int_equal(rule_of(policy, "b:k")->on_failure, POLICY_FAILURE_OPEN);
    assert_int_equal(policy_resolve(policy, attributes, 1, &result), 0);
    assert_int_equal(result.part_count, 1);
    assert_string_equal(result.parts[0].rule->name.data, "mine");
    policy_free(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_reference_refuses_is_refused_with_its_place),
        cmocka_unit_test(levels_beyond_sixteen_are_refused),
        cmocka_unit_test(values_are_those_of_yaml_1_1),
        cmocka_unit_test(switches_and_numbers_are_those_of_yaml_1_1),
        cmocka_unit_test(units_are_windows_of_fixed_length),
        cmocka_unit_test(a_limit_is_a_rule_that_is_counted_by_its_domain),
        cmocka_unit_test(more_than_a_thousand_million_a_second_is_so_many),
        cmocka_unit_test(requests_by_attributes_never_meet_a_descriptor),
        cmocka_unit_test(a_key_in_a_wrong_place_is_a_warning),
        cmocka_unit_test(domains_that_stand_twice_are_merged_where_that_is_said),
        cmocka_unit_test(what_is_written_of_a_rule_compiles_to_the_same_rule),
        cmocka_unit_test(what_is_written_of_all_domains_compiles_to_the_same_policy),
        cmocka_unit_test(messages_are_of_the_descriptor_before_the_domain),
        cmocka_unit_test(whatever_changes_the_meaning_changes_the_digest),
        cmocka_unit_test(names_are_unique_and_no_neighbours_business),
        cmocka_unit_test(an_edit_keeps_the_counts_of_limits_whose_unit_stays),
        cmocka_unit_test(what_edits_rules_of_ours_leaves_domains_alone),
        cmocka_unit_test(domains_stand_beside_rules_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
