/* test_log_fields.c - from a line to the attributes that rules ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/replay/log_fields.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"

#define LINE(target, xff)                                                                          \
    "10.0.0.9 - ada [21/Nov/2026:12:44:22 +0100] \"POST " target " HTTP/1.1\" 201 77 \"-\" "       \
    "\"curl\" \"" xff "\""

static struct log_scratch scratch;
static struct log_plan plan;
static struct log_request request;
static struct log_problem problem;
static struct policy *policy; /* whose names the plan uses */

static struct policy_text text_of(const char *word)
{
    return (struct policy_text){word, strlen(word)};
}

/* Makes a plan for one rule that counts by `key`. */
static void make_plan(const char *key, const struct log_options *options)
{
    char rules[512];
    struct policy_error error;
    policy_free(&policy);
    (void)snprintf(rules, sizeof rules, "rules: [{name: r, key: [%s], limits: [{rate: 5/s}]}]",
                   key);
    assert_int_equal(policy_compile(rules, strlen(rules), alloc_heap(), &policy, &error), 0);
    assert_int_equal(log_plan_init(&plan, policy, options), 0);
}

/* The value of attribute `name` on the line, "" for none, "?" when the line is refused. */
static const char *value(const char *line, const char *name)
{
    static char shown[2048];
    if (log_plan_read(&plan, line, strlen(line), &scratch, &request, &problem) != 0)
        return "?";
    for (size_t i = 0; i < request.count; i++) {
        const struct policy_attribute *attribute = &request.attributes[i];
        if (attribute->name_len == strlen(name) &&
            memcmp(attribute->name, name, strlen(name)) == 0) {
            (void)snprintf(shown, sizeof shown, "%.*s", (int)attribute->value_len,
                           attribute->value);
            return shown;
        }
    }
    return "";
}

/* The attributes that need no flag, from a line and from JSON. */
static void the_usual_attributes_come_from_lines_and_from_json(void **state)
{
    (void)state;
    const struct log_options options = {.format = LOG_AUTO};
    make_plan("ip, method, api, status, user, query.q, target", &options);
    static const char *const lines[] = {
        LINE("/a/b?x=1&q=z%2Fy+w", "198.51.100.1, 10.1.1.1"),
        "{\"ts\": 1795261462.5, \"remote_addr\": \"198.51.100.1\", \"request_method\": \"POST\", "
        "\"uri\": \"/a/b?x=1&q=z%2Fy+w\", \"status\": 201, \"remote_user\": \"ada\"}",
        "{\"time\": \"2026-11-21T12:44:22+01:00\", \"client_ip\": \"198.51.100.1\", \"request\": "
        "\"POST /a/b?x=1&q=z%2Fy+w HTTP/2.0\", \"status\": \"201\", \"user\": \"ada\"}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_string_equal(value(lines[i], "ip"), "198.51.100.1");
        assert_string_equal(value(lines[i], "method"), "POST");
        assert_string_equal(value(lines[i], "api"), "/a/b");
        assert_string_equal(value(lines[i], "target"), "/a/b?x=1&q=z%2Fy+w");
        assert_string_equal(value(lines[i], "status"), "201");
        assert_string_equal(value(lines[i], "user"), "ada");
        assert_string_equal(value(lines[i], "query.q"), "z/y w");
        assert_int_equal(request.time_ns / 1000000000, 1795261462);
    }
}

/* Which address of X-Forwarded-For counts: the first, or the one that trusted proxies vouch for. */
static void the_forwarded_address_is_the_first_or_that_of_the_trusted_proxies(void **state)
{
    (void)state;
    static const char line[] = LINE("/", "6.6.6.6, 198.51.100.1:4711 , 10.1.1.1");
    static const char *const wanted[] = {"6.6.6.6", "10.1.1.1", "198.51.100.1", "6.6.6.6",
                                         "6.6.6.6"};
    for (unsigned proxies = 0; proxies <= 4; proxies++) {
        const struct log_options options = {.format = LOG_AUTO, .proxies = proxies};
        make_plan("ip", &options);
        assert_string_equal(value(line, "ip"), wanted[proxies]);
        assert_true(request.forwarded);
        assert_string_equal(value(LINE("/", "[2001:db8::7]:443"), "ip"), "2001:db8::7");
    }
}

/* What a caller writes into the list does not hide the address that a trusted proxy added. */
static void a_trusted_proxys_address_counts_whatever_stands_before_it(void **state)
{
    (void)state;
    const struct log_options options = {.format = LOG_XFF, .proxies = 1};
    make_plan("ip", &options);
    assert_string_equal(value(LINE("/", "unknown, 198.51.100.1"), "ip"), "198.51.100.1");
    assert_true(request.forwarded);
    assert_string_equal(value(LINE("/", "198.51.100.1, unknown"), "ip"), "10.0.0.9");
    assert_false(request.forwarded);
}

/* A last field that is no list of addresses, or a format without one, leaves the connection's. */
static void what_is_no_address_list_is_not_taken_for_one(void **state)
{
    (void)state;
    struct log_options options = {.format = LOG_AUTO};
    make_plan("ip", &options);
    assert_string_equal(value(LINE("/", "example.org"), "ip"), "10.0.0.9");
    assert_string_equal(value(LINE("/", "3.12"), "ip"), "10.0.0.9"); /* nginx's $gzip_ratio */
    assert_string_equal(value(LINE("/", "0.004, 0.001"), "ip"), "10.0.0.9");
    assert_string_equal(value(LINE("/", "unknown, 198.51.100.1"), "ip"), "10.0.0.9");
    assert_string_equal(value(LINE("/", "-"), "ip"), "10.0.0.9");
    assert_string_equal(value(LINE("/", ""), "ip"), "10.0.0.9");
    assert_false(request.forwarded);
    options.format = LOG_COMBINED;
    make_plan("ip", &options);
    assert_string_equal(value(LINE("/", "198.51.100.1"), "ip"), "10.0.0.9");
}

/* --map and --set say where an attribute is from, before anything else does. */
static void maps_and_constants_come_first(void **state)
{
    (void)state;
    struct log_options options = {.format = LOG_AUTO};
    options.maps[options.map_count++] = (struct log_pair){text_of("user"), text_of("query.u")};
    options.maps[options.map_count++] = (struct log_pair){text_of("token"), text_of("claims.sub")};
    options.maps[options.map_count++] = (struct log_pair){text_of("ip"), text_of("remote_addr")};
    options.sets[options.set_count++] = (struct log_pair){text_of("tier"), text_of("free")};
    make_plan("user, token, ip, tier", &options);
    static const char line[] = LINE("/?u=bob&u=eve", "198.51.100.1");
    assert_string_equal(value(line, "user"), "bob");
    assert_string_equal(value(line, "token"), "");
    assert_string_equal(value(line, "ip"), "10.0.0.9");
    assert_string_equal(value(line, "tier"), "free");
    static const char json[] =
        "{\"time\": 1795261462, \"claims\": {\"sub\": \"s\"}, \"user\": \"x\", "
        "\"remote_addr\": \"192.0.2.1\", \"ip\": \"192.0.2.2\"}";
    assert_string_equal(value(json, "token"), "s");
    assert_string_equal(value(json, "ip"), "192.0.2.1");
    assert_string_equal(value(json, "tier"), "free");
    assert_string_equal(value(json, "user"), "");
}

/* A field of JSON is an attribute by its own name, and nested ones by their path. */
static void any_field_of_json_is_an_attribute_by_its_name(void **state)
{
    (void)state;
    const struct log_options options = {.format = LOG_JSON};
    make_plan("phone, device.id", &options);
    static const char json[] = "{\"msec\": \"1795261462.001\", \"phone\": \"+15550100\", "
                               "\"device\": {\"id\": 77}}";
    assert_string_equal(value(json, "phone"), "+15550100");
    assert_string_equal(value(json, "device.id"), "77");
    assert_int_equal(request.time_ns, INT64_C(1795261462001000000));
    assert_false(request.whole_second);
}

/* The cost is the field's whole number; a line without one is refused rather than guessed. */
static void the_cost_is_a_whole_number_or_the_line_is_refused(void **state)
{
    (void)state;
    struct log_options options = {.format = LOG_AUTO, .cost_field = text_of("bytes")};
    make_plan("ip", &options);
    assert_string_equal(value(LINE("/", "-"), "ip"), "10.0.0.9");
    assert_int_equal(request.cost, 77);
    assert_string_equal(value("1.1.1.1 - - [21/Nov/2026:12:44:22 +0100] \"GET /\" 304 -", "ip"),
                        "1.1.1.1");
    assert_int_equal(request.cost, 0);
    assert_string_equal(value("{\"time\": 1795261462, \"bytes\": 12.9, \"ip\": \"1.1.1.1\"}", "ip"),
                        "1.1.1.1");
    assert_int_equal(request.cost, 12);
    assert_string_equal(value("{\"time\": 1795261462, \"ip\": \"1.1.1.1\"}", "ip"), "?");
    assert_string_equal(value("{\"time\": 1795261462, \"bytes\": -1}", "ip"), "?");
    assert_string_equal(value("{\"time\": 1795261462, \"bytes\": 99999999999999999999}", "ip"),
                        "?");
    assert_non_null(strstr(problem.expected, "--cost-field"));
}

/* The time's field may be named; without one, or with another thing in it, the line is refused. */
static void the_time_of_json_is_where_it_is_said_to_be(void **state)
{
    (void)state;
    struct log_options options = {.format = LOG_AUTO, .time_field = text_of("at.ms")};
    make_plan("ip", &options);
    assert_string_equal(
        value("{\"time\": 1, \"at\": {\"ms\": 1795261462000}, \"ip\": \"1.1.1.1\"}", "ip"),
        "1.1.1.1");
    assert_int_equal(request.time_ns, INT64_C(1795261462000000000));
    assert_string_equal(value("{\"time\": 1795261462}", "ip"), "?");
    assert_non_null(strstr(problem.expected, "--time-field"));
    assert_string_equal(value("{\"at\": {\"ms\": \"noon\"}}", "ip"), "?");
    assert_int_equal(problem.column, 16);
}

/* Absolute targets, as proxies get them, have the same path. */
static void the_path_of_an_absolute_target_is_its_path(void **state)
{
    (void)state;
    const struct log_options options = {.format = LOG_AUTO};
    make_plan("api, query.q", &options);
    assert_string_equal(value(LINE("http://example.org/a?q=1", "-"), "api"), "/a");
    assert_string_equal(value(LINE("https://example.org/a?q=1", "-"), "query.q"), "1");
    assert_string_equal(value(LINE("http://example.org", "-"), "api"), "/");
    assert_string_equal(value(LINE("/a?", "-"), "api"), "/a");
    assert_string_equal(value(LINE("/a?q", "-"), "query.q"), "");
}

/* A value longer than a request may have is passed on too long, so that it is refused there. */
static void a_value_is_cut_behind_what_a_request_may_have(void **state)
{
    (void)state;
    char line[4096];
    char path[3000];
    const struct log_options options = {.format = LOG_AUTO};
    make_plan("api", &options);
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    (void)snprintf(line, sizeof line,
                   "1.1.1.1 - - [21/Nov/2026:12:44:22 +0100] \"GET %s HTTP/1.1\" 200 1", path);
    assert_int_equal(strlen(value(line, "api")), POLICY_VALUE_LEN_MAX + 1);
}

static int free_policy(void **state)
{
    (void)state;
    policy_free(&policy);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_attributes_come_from_lines_and_from_json),
        cmocka_unit_test(the_forwarded_address_is_the_first_or_that_of_the_trusted_proxies),
        cmocka_unit_test(a_trusted_proxys_address_counts_whatever_stands_before_it),
        cmocka_unit_test(what_is_no_address_list_is_not_taken_for_one),
        cmocka_unit_test(maps_and_constants_come_first),
        cmocka_unit_test(any_field_of_json_is_an_attribute_by_its_name),
        cmocka_unit_test(the_cost_is_a_whole_number_or_the_line_is_refused),
        cmocka_unit_test(the_time_of_json_is_where_it_is_said_to_be),
        cmocka_unit_test(the_path_of_an_absolute_target_is_its_path),
        cmocka_unit_test(a_value_is_cut_behind_what_a_request_may_have),
    };
    return cmocka_run_group_tests(tests, NULL, free_policy);
}
