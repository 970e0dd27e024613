/* test_auth_request.c - what a proxy's question says, and what a caller cannot make it say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/gateway/api/auth_request.h"

#define PROXY  "10.0.0.9:4711"
#define CALLER "203.0.113.7:50123"

static struct networks trusted;
static struct http1_request request;
static struct auth_request found;
static char parsed_room[HTTP1_BODY_MAX];

static int setup(void **state)
{
    char expected[NETWORKS_EXPECTED_LEN];
    (void)state;
    trusted = (struct networks){.count = 0};
    assert_int_equal(networks_add(&trusted, "10.0.0.0/8", expected), 0);
    assert_int_equal(networks_add(&trusted, "2001:db8::/32", expected), 0);
    return 0;
}

/* Asks as `address` does, with the lines behind the request line, and what is behind the name. */
static void ask(const struct auth_endpoint *endpoint, const char *address, const char *line,
                const char *rest, const char *fields)
{
    static char text[HTTP1_HEAD_MAX];
    struct http1_progress progress = {0};
    struct http1_refusal refusal;
    const int len = snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: Shop.Example:8080\r\n%s\r\n",
                             line, fields);
    assert_true(len > 0 && (size_t)len < sizeof text);
    assert_int_equal(http1_parse(&progress, text, (size_t)len, parsed_room, &request, &refusal),
                     len);
    auth_read(endpoint, &request, wire_text_of(rest), address, &trusted, &found);
}

/* The value of an attribute, or "(none)". */
static const char *value_of(const char *name)
{
    static char text[WIRE_VALUE_MAX + 1];
    for (uint32_t i = 0; i < found.count; i++) {
        if (found.names[i].len != strlen(name) ||
            memcmp(found.names[i].data, name, found.names[i].len) != 0)
            continue;
        memcpy(text, found.values[i].data, found.values[i].len);
        text[found.values[i].len] = '\0';
        return text;
    }
    return "(none)";
}

static struct auth_endpoint endpoint_of(const char *name)
{
    struct auth_endpoints endpoints;
    auth_defaults(&endpoints);
    const struct auth_endpoint *endpoint = auth_find(&endpoints, wire_text_of(name));
    assert_non_null(endpoint);
    return *endpoint;
}

static void a_trusted_proxy_tells_the_request(void **state)
{
    (void)state;
    const struct auth_endpoint endpoint = endpoint_of("nginx");
    ask(&endpoint, PROXY, "GET /v1/auth/nginx", "",
        "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /login?next=/\r\nX-Forwarded-For: "
        "203.0.113.7\r\nX-Forwarded-Host: WWW.shop.example.\r\n");
    assert_string_equal(value_of("ip"), "203.0.113.7");
    assert_string_equal(value_of("method"), "POST");
    assert_string_equal(value_of("api"), "/login");
    assert_string_equal(value_of("host"), "www.shop.example");
    assert_int_equal(found.count, 4);
}

/* Its header fields are the caller's own words. */
static void whoever_is_not_trusted_tells_nothing(void **state)
{
    (void)state;
    const struct auth_endpoint endpoint = endpoint_of("default");
    ask(&endpoint, CALLER, "GET /v1/auth/default/a?b=1", "/a",
        "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /login\r\nX-Forwarded-For: 1.2.3.4\r\n"
        "X-Forwarded-Host: other\r\nX-Original-URI: /login\r\n");
    assert_string_equal(value_of("ip"), "203.0.113.7");
    assert_string_equal(value_of("method"), "GET");
    assert_string_equal(value_of("api"), "/a");
    assert_string_equal(value_of("host"), "shop.example");
}

/* The endpoint of a proxy that asks by the request itself reads no header field of it but the
 * addresses. */
static void the_request_itself_is_not_told_by_its_fields(void **state)
{
    (void)state;
    const struct auth_endpoint endpoint = endpoint_of("envoy");
    ask(&endpoint, PROXY, "DELETE /v1/auth/envoy/orders/7?cost=0", "/orders/7",
        "X-Forwarded-Uri: /free\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Host: other\r\n"
        "X-Forwarded-For: 203.0.113.7\r\n");
    assert_string_equal(value_of("ip"), "203.0.113.7");
    assert_string_equal(value_of("method"), "DELETE");
    assert_string_equal(value_of("api"), "/orders/7");
    assert_string_equal(value_of("host"), "shop.example");
}

/* A proxy of one family passes the fields of the other on as its caller sent them. */
static void fields_of_another_family_are_the_callers(void **state)
{
    static const char fields[] = "X-Forwarded-Uri: /free\r\nX-Forwarded-Method: PUT\r\n"
                                 "X-Forwarded-Host: free\r\nX-Original-Method: POST\r\n"
                                 "X-Original-URL: https://Shop.example/login?q=1\r\n";
    (void)state;
    struct auth_endpoint endpoint = endpoint_of("default");
    endpoint.original = AUTH_ORIGINAL;
    ask(&endpoint, PROXY, "GET /v1/auth/default", "", fields);
    assert_string_equal(value_of("api"), "/login");
    assert_string_equal(value_of("method"), "POST");
    assert_string_equal(value_of("host"), "shop.example");
    endpoint.original = AUTH_FORWARDED;
    ask(&endpoint, PROXY, "GET /v1/auth/default", "", fields);
    assert_string_equal(value_of("api"), "/free");
    assert_string_equal(value_of("method"), "PUT");
}

/* From the right, past proxies that are trusted; what a caller wrote is at the left of it. */
static void the_callers_address_is_counted_from_the_right(void **state)
{
    static const struct {
        const char *fields;
        const char *ip;
    } cases[] = {
        {"", "10.0.0.9"},
        {"X-Forwarded-For: 1.2.3.4, 203.0.113.7\r\n", "203.0.113.7"},
        {"X-Forwarded-For: 1.2.3.4, 203.0.113.7, 10.1.1.1\r\n", "203.0.113.7"},
        {"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7"},
        {"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 10.1.1.1, 10.1.1.2\r\n", "1.2.3.4"},
        {"X-Forwarded-For: 10.1.1.1,10.1.1.2\r\n", "10.1.1.1"},
        {"X-Forwarded-For: 1.2.3.4, junk, 10.1.1.1\r\n", "10.1.1.1"},
        {"X-Forwarded-For: 1.2.3.4,,10.1.1.1\r\n", "10.1.1.1"},
        {"X-Forwarded-For: 203.0.113.7:4433\r\n", "203.0.113.7"},
        {"X-Forwarded-For: [2001:DB9::1]:4433\r\n", "2001:db9::1"},
        {"X-Forwarded-For: 2001:db9:0::2, 2001:db8::5\r\n", "2001:db9::2"},
        {"X-Forwarded-For: ::ffff:203.0.113.7\r\n", "203.0.113.7"},
        {"X-Forwarded-For:\r\n", "10.0.0.9"},
    };
    (void)state;
    const struct auth_endpoint endpoint = endpoint_of("default");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(&endpoint, PROXY, "GET /v1/auth/default", "", cases[i].fields);
        if (strcmp(value_of("ip"), cases[i].ip) != 0)
            fail_msg("%s: found %s, expected %s", cases[i].fields, value_of("ip"), cases[i].ip);
    }
}

/* However a path is spelled that leads to the same place behind the proxy. */
static void paths_are_normalised(void **state)
{
    static const char *const cases[][2] = {
        {"/login", "/login"},
        {"/%6cogin", "/login"},
        {"/%6Cogin?x", "/login"},
        {"//login", "/login"},
        {"/./login", "/login"},
        {"/a/../login", "/login"},
        {"/a/%2e%2E/login", "/login"},
        {"/../../login", "/login"},
        {"/a/b/../../login", "/login"},
        {"/login/", "/login"},
        {"/login/.", "/login"},
        {"/login/x/..", "/login"},
        {"/login#x", "/login"},
        {"login", "/login"},
        {"", "/"},
        {"/", "/"},
        {"?a", "/"},
        {"http://other/login?x", "/login"},
        {"HTTPS://other", "/"},
        {"gopher://x/login", "/login"},
        {"a+1.-://x/login?y", "/login"},
        {"1://x/login", "/1:/x/login"},
        {"://x", "/:/x"},
        {"/a%2fb", "/a%2Fb"},
        {"/a%2f../b", "/a%2F../b"},
        {"/%zz%4", "/%zz%4"},
        {"/%%36cogin", "/login"},
        {"/a%20b", "/a%20b"},
        {"/...", "/..."},
        {"/a//../b", "/b"},
    };
    char out[AUTH_PATH_MAX + 1];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t len = auth_path(wire_text_of(cases[i][0]), out);
        out[len] = '\0';
        if (strcmp(out, cases[i][1]) != 0)
            fail_msg("%s: found %s, expected %s", cases[i][0], out, cases[i][1]);
    }
}

/* What is normalised stays as it is, and never has an empty or a dot segment. */
static void a_normalised_path_is_normalised(void **state)
{
    static const char *const pieces[] = {"/", "//",  ".",   "..", "%2e", "a",
                                         "b", "%2F", "%41", "%",  "?"};
    struct random random;
    (void)state;
    random_init(&random, 7);
    for (unsigned n = 0; n < 100000; n++) {
        char uri[128] = "";
        char once[512];
        char twice[512];
        for (uint64_t count = random_below(&random, 14); count > 0; count--) {
            const size_t used = strlen(uri);
            (void)snprintf(uri + used, sizeof uri - used, "%s",
                           pieces[random_below(&random, sizeof pieces / sizeof *pieces)]);
        }
        const size_t len = auth_path(wire_text_of(uri), once);
        const size_t again = auth_path((struct wire_text){once, len}, twice);
        assert_true(len <= strlen(uri) + 1 && len >= 1 && once[0] == '/');
        assert_int_equal(len, again);
        assert_memory_equal(once, twice, len);
    }
}

/* How long a path is counts when it is normalised; what is too long then is not asked about. */
static void a_long_way_round_is_no_way_around(void **state)
{
    static char uri[4096];
    (void)state;
    const struct auth_endpoint endpoint = endpoint_of("default");
    memset(uri, 'x', 2000);
    memcpy(uri, "/", 1);
    memcpy(uri + 2000, "/../login", sizeof "/../login");
    ask(&endpoint, PROXY, "GET /v1/auth/default", uri, "");
    assert_string_equal(value_of("api"), "/login");
    assert_null(found.untold);
    memset(uri + 2000, 'x', 100);
    ask(&endpoint, PROXY, "GET /v1/auth/default", uri, "");
    assert_string_equal(found.untold, "api");
}

/* What the endpoint's lists name, and nothing else. */
static void lists_name_what_is_read_of_fields_and_of_the_query(void **state)
{
    (void)state;
    struct auth_endpoint endpoint = endpoint_of("default");
    endpoint.header_count = 1;
    memcpy(endpoint.headers[0].attribute, "user", sizeof "user");
    memcpy(endpoint.headers[0].field, "X-User-Id", sizeof "X-User-Id");
    endpoint.query_count = 1;
    memcpy(endpoint.queries[0], "query.q", sizeof "query.q");
    ask(&endpoint, PROXY, "GET /v1/auth/default", "",
        "X-User-Id: mallory\r\nX-User-Id: ada\r\nX-Forwarded-Uri: /s?q=a&x=1&q=b%20+c\r\n");
    assert_string_equal(value_of("user"), "ada");
    assert_string_equal(value_of("query.q"), "b  c");
    assert_string_equal(value_of("query.x"), "(none)");
    ask(&endpoint, CALLER, "GET /v1/auth/default?q=own", "", "X-User-Id: ada\r\n");
    assert_string_equal(value_of("user"), "(none)");
    assert_string_equal(value_of("query.q"), "own");
    assert_null(found.untold);
    ask(&endpoint, PROXY, "GET /v1/auth/default?q=%z", "", "");
    assert_string_equal(found.untold, "query"); /* what one reader drops another one keeps */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trusted_proxy_tells_the_request),
        cmocka_unit_test(whoever_is_not_trusted_tells_nothing),
        cmocka_unit_test(the_request_itself_is_not_told_by_its_fields),
        cmocka_unit_test(fields_of_another_family_are_the_callers),
        cmocka_unit_test(the_callers_address_is_counted_from_the_right),
        cmocka_unit_test(paths_are_normalised),
        cmocka_unit_test(a_normalised_path_is_normalised),
        cmocka_unit_test(a_long_way_round_is_no_way_around),
        cmocka_unit_test(lists_name_what_is_read_of_fields_and_of_the_query),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
