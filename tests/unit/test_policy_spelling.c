/* test_policy_spelling.c - rules meet a value whatever its spelling: addresses, patterns of paths,
 * and the kinds that a file says. Spellings one by one are test_attribute_kind.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;

    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    return policy;
}

enum { REQUEST_MAX = POLICY_ATTRIBUTES_MAX };

struct request {
    struct policy_attribute attributes[REQUEST_MAX];
    size_t count;
};

static void add(struct request *request, const char *name, const char *value)
{
    assert_true(request->count < REQUEST_MAX);
    request->attributes[request->count++] =
        (struct policy_attribute){name, strlen(name), value, strlen(value)};
}

/* Resolves "name value name value" pairs that end with NULL. */
static void resolve(const struct policy *policy, struct policy_result *result, ...)
{
    struct request request = {.count = 0};
    va_list pairs;

    va_start(pairs, result);
    for (const char *name = va_arg(pairs, const char *); name != NULL;
         name = va_arg(pairs, const char *))
        add(&request, name, va_arg(pairs, const char *));
    va_end(pairs);
    assert_int_equal(policy_resolve(policy, request.attributes, request.count, result), 0);
}

static void assert_text(const struct policy_text *text, const char *expected)
{
    assert_int_equal(text->len, strlen(expected));
    assert_memory_equal(text->data, expected, text->len);
}

static void assert_parts(const struct policy_result *result, size_t count, const char *const *names)
{
    assert_int_equal(result->action, POLICY_LIMITS);
    assert_int_equal(result->part_count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(result->parts[i].rule->name.data, names[i]);
}

#define L "limits: [{rate: 5/h}]"

/* However an address is spelt, it is matched and counted as one; IPv6 is cut, IPv4 is not. */
static void every_spelling_of_an_address_counts_as_one(void **state)
{
    static const struct {
        const char *given;
        const char *key;
    } cases[] = {
        {"2001:db8:0:1::5", "2001:db8:0:1::/64"},
        {"2001:0DB8:0000:0001:0:0:0:6", "2001:db8:0:1::/64"},
        {"2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::/64"},
        {"2001:db8:0:2::5", "2001:db8:0:2::/64"},
        {"::1", "::/64"},
        {"10.1.2.3", "10.1.2.3"},
        {"::ffff:10.1.2.3", "10.1.2.3"},
        {"::FFFF:0a01:0203", "10.1.2.3"},
        {" 10.1.2.3:5000", "10.1.2.3"},
        {"[::1]:80", "::/64"},
        {"64:ff9b::a01:203", "10.1.2.3"},
        {"fe80::1%eth0", "fe80::/64"},
        {"::10.1.2.3", "::/64"},
    };
    static const char *const absent[] = {"010.1.2.3",     "unknown",     "-",
                                         "host.example",  "10.1.2.3/32", "1.2.3.4, 5.6.7.8",
                                         "10.1.2.3:70000"};
    struct policy *policy =
        compile("rules: [{name: a, key: [ip], " L "},"
                "{name: b, key: [u, ip], ipv6_prefix: 43, " L "},"
                "{name: c, key: [ip], ipv6_prefix: 128, " L ", match: {ip: '2001:DB8::0:1:0'}}]");
    struct policy_result result;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        resolve(policy, &result, "ip", cases[i].given, NULL);
        assert_int_equal(result.part_count, 1);
        assert_text(&result.parts[0].values[0], cases[i].key);
    }
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        resolve(policy, &result, "ip", absent[i], NULL);
        assert_int_equal(result.action, POLICY_UNMATCHED);
        assert_int_equal(result.spelling.absent, 1);
        resolve(policy, &result, "ip", absent[i], "ip", "10.9.9.9", NULL);
        assert_text(&result.parts[0].values[0], "10.9.9.9");
    }
    resolve(policy, &result, "ip", "2001:db8:ffff:1::1", "u", "2001:0db8::1", NULL);
    assert_text(&result.parts[1].values[0], "2001:0db8::1");
    assert_text(&result.parts[1].values[1], "2001:db8:ffe0::/43");
    resolve(policy, &result, "ip", "2001:0db8:0:0:0:0:1:0", "ip", "10.0.0.1", NULL);
    assert_parts(&result, 2, (const char *const[]){"a", "c"});
    assert_text(&result.parts[0].values[0], "2001:db8::/64");
    assert_text(&result.parts[1].values[0], "2001:db8::1:0");
    policy_free(&policy);
}

/* A path has no slash at its end; so a pattern that ends with a slash and a star holds what stands
 * before them, as it held that with a slash behind. */
static void a_pattern_of_paths_holds_what_stands_before_its_last_slash(void **state)
{
    static const struct {
        const char *pattern;
        const char *value;
        bool matches;
    } cases[] = {
        {"/search/*", "/search/x", true},
        {"/search/*", "/search/", true},
        {"/search/*", "/search", true},
        {"/search/*", "/search?q=1", true},
        {"/search/*", "/searching", false},
        {"/search/*", "/searc", false},
        {"/search*", "/search", true},
        {"/a/*/*", "/a/b/", true},
        {"/a/*/*", "/a/b", true},
        {"/a/*/*", "/a", false},
        {"/a/*/c/*", "/a/b/c", true},
        {"/a/*/c/*", "/a/b/cd", false},
        {"/*", "/", true},
        {"/*", "/x/", true},
        {"/x//y/%7E*", "/x/y/~z", true},
        {"/x/", "/x", true},
        {"/x", "//x/?y", true},
        {"/%2f*", "/%2Fx", true},
        {"/X", "/x", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        struct policy_result result;
        /* Found by the path, and found by the user and then compared with it. */
        for (int by_user = 0; by_user < 2; by_user++) {
            (void)snprintf(text, sizeof(text),
                           "rules: [{name: r, match: {%s path: [/other, '%s']}, action: block}]",
                           by_user ? "user: u," : "", cases[i].pattern);
            struct policy *policy = compile(text);
            resolve(policy, &result, "path", cases[i].value, "user", "u", NULL);
            if ((result.action == POLICY_BLOCK) != cases[i].matches)
                fail_msg("pattern %s and path %s", cases[i].pattern, cases[i].value);
            policy_free(&policy);
        }
    }
}

/* A file may take the kind of an attribute away, and give one to others: networks are matched and
 * IPv6 is cut wherever an attribute is an address. */
static void attributes_have_the_kinds_that_the_file_says(void **state)
{
    struct policy *policy =
        compile("attributes: {api: verbatim, ip: verbatim, client: address, verb: upper}\n"
                "rules: [{name: a, match: {client: ['2001:DB8::/32', 10.0.0.0/8], verb: post}, "
                "key: [client, ip], " L "},"
                "{name: b, match: {api: '/x?y'}, key: [client], ipv6_prefix: 48, " L "}]");
    struct policy_result result;

    (void)state;
    resolve(policy, &result, "client", "[::ffff:10.1.2.3]:80", "ip", "unknown", "verb", "Post",
            NULL);
    assert_parts(&result, 1, (const char *const[]){"a"});
    assert_text(&result.parts[0].values[0], "10.1.2.3");
    assert_text(&result.parts[0].values[1], "unknown");
    resolve(policy, &result, "client", "2001:db8:1:2::3", "ip", "10.1.2.3:80", "verb", "POST",
            "api", "/x?y", NULL);
    assert_parts(&result, 2, (const char *const[]){"a", "b"});
    assert_text(&result.parts[0].values[0], "2001:db8:1:2::/64");
    assert_text(&result.parts[0].values[1], "10.1.2.3:80");
    assert_text(&result.parts[1].values[0], "2001:db8:1::/48");
    resolve(policy, &result, "client", "10.1.2.3", "api", "/x", NULL);
    assert_int_equal(result.action, POLICY_UNMATCHED);
    policy_free(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_an_address_counts_as_one),
        cmocka_unit_test(a_pattern_of_paths_holds_what_stands_before_its_last_slash),
        cmocka_unit_test(attributes_have_the_kinds_that_the_file_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
