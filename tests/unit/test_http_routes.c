/* test_http_routes.c - how a path finds its route, in a table with every form of pattern. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/api/api_routes.h"
#include "node/gateway/http/http_routes.h"

static enum http_verdict nothing(struct http_exchange *exchange)
{
    (void)exchange;
    return HTTP_ANSWERED;
}

static const struct http_route table[] = {
    {.method = HTTP1_GET, .path = "/", .name = "root", .handle = nothing},
    {.method = HTTP1_GET, .path = "/v1/rules", .name = "rules", .handle = nothing},
    {.method = HTTP1_PUT, .path = "/v1/rules", .name = "apply", .handle = nothing},
    {.method = HTTP1_GET, .path = "/v1/rules/{name}", .name = "rule", .handle = nothing},
    {.method = HTTP1_DELETE, .path = "/v1/a/{x}/b/{y}", .name = "two", .handle = nothing},
    {.method = HTTP1_GET,
     .path = "/v1/auth",
     .name = "auth",
     .flags = HTTP_ROUTE_ANY,
     .handle = nothing},
    {.method = HTTP1_GET,
     .path = "/v1/auth/{name}/...",
     .name = "auth_named",
     .flags = HTTP_ROUTE_ANY,
     .handle = nothing},
};

static struct http_exchange exchange;
static struct http_match found;
static char room[HTTP_PARAMETERS_MAX * HTTP_PARAMETER_LEN];

static void find_method(enum http1_method method, const char *path)
{
    const struct http1_request request = {.method = method, .path = wire_text_of(path)};
    memset(&exchange, 0, sizeof exchange);
    http_route_find_in(table, sizeof table / sizeof *table, &request, &exchange, room, &found);
}

static void expect_route(const char *path, const char *name)
{
    find_method(HTTP1_GET, path);
    if (found.route == NULL)
        print_error("%s: %u\n", path, found.status);
    assert_non_null(found.route);
    assert_string_equal(found.route->name, name);
}

static void expect_status(const char *path, unsigned status)
{
    find_method(HTTP1_GET, path);
    if (found.route != NULL)
        print_error("%s: %s\n", path, found.route->name);
    assert_null(found.route);
    assert_int_equal(found.status, status);
}

static void expect_text(struct wire_text text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.data, expected, text.len);
}

static void a_path_is_matched_segment_by_segment(void **state)
{
    (void)state;
    expect_route("/", "root");
    expect_route("/v1/rules", "rules");
    expect_route("/v1/rules/a", "rule");
    expect_status("/v1", 404);
    expect_status("/v1/rule", 404);
    expect_status("/v1/rules/a/b", 404);
    expect_status("/v1/rules/", 404);
    expect_status("/V1/rules", 404);
    expect_status("/v1/rul%65s", 404);
    expect_status("/v1;x/rules", 404);
}

static void parameters_are_decoded(void **state)
{
    (void)state;
    expect_route("/v1/rules/a%20b%41%3a%3F%c3%a4", "rule");
    expect_text(exchange.parameters[0], "a bA:?\xc3\xa4");
    expect_route("/v1/rules/...", "rule"); /* three dots are a name */
    find_method(HTTP1_DELETE, "/v1/a/1/b/%32");
    assert_string_equal(found.route->name, "two");
    expect_text(exchange.parameters[0], "1");
    expect_text(exchange.parameters[1], "2");
}

static void what_could_be_resolved_is_refused(void **state)
{
    static const char *const bad[] = {
        "/v1/rules/..",        "/v1/rules/.",
        "/v1/rules/%2e",       "/v1/rules/%2E.",
        "/v1/rules/a%2fb",     "/v1/rules/a%5Cb",
        "/v1/rules/%00",       "/v1/rules/%7f",
        "/v1/rules/%1f",       "/v1/rules/a%",
        "/v1/rules/a%4",       "/v1/rules/%u0041",
        "/v1//rules",          "//",
        "/v1/auth/..",         "/v1/auth/../x",
        "/v1/auth/%2e%2e/x",   "/v1/auth//x",
        "/v1/rules/../auth/x", "/./v1/rules",
        "/v1/rules/a/../b",    "/v1/auth/a%2fb/x",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_status(bad[i], 400);
}

/* Proxies put the path that they were asked for behind the name: whatever it is, it is only told.
 */
static void what_follows_a_named_hook_is_not_looked_at(void **state)
{
    static const struct {
        const char *path;
        const char *rest;
    } cases[] = {
        {"/v1/auth/nginx", ""},
        {"/v1/auth/nginx/", "/"},
        {"/v1/auth/nginx/a/b", "/a/b"},
        {"/v1/auth/nginx//a/../../v1/rules", "//a/../../v1/rules"},
        {"/v1/auth/nginx/%2e%2e/%zz%", "/%2e%2e/%zz%"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_route(cases[i].path, "auth_named");
        expect_text(exchange.parameters[0], "nginx");
        expect_text(exchange.rest, cases[i].rest);
    }
    expect_route("/v1/auth", "auth");
    expect_status("/v1/auth/", 404);
    find_method(HTTP1_EXTENSION, "/v1/auth/envoy/x"); /* any method, as that of the caller */
    assert_string_equal(found.route->name, "auth_named");
    find_method(HTTP1_OPTIONS, "/v1/auth/envoy/x");
    assert_string_equal(found.route->name, "auth_named");
}

static void methods_of_a_path_are_told(void **state)
{
    (void)state;
    find_method(HTTP1_POST, "/v1/rules");
    assert_int_equal(found.status, 405);
    assert_string_equal(found.allow, "GET, HEAD, PUT, OPTIONS");
    find_method(HTTP1_OPTIONS, "/v1/rules/x");
    assert_int_equal(found.status, 204);
    assert_string_equal(found.allow, "GET, HEAD, OPTIONS");
    find_method(HTTP1_HEAD, "/v1/rules");
    assert_string_equal(found.route->name, "rules");
    find_method(HTTP1_OPTIONS, "*");
    assert_string_equal(found.allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    find_method(HTTP1_EXTENSION, "/v1/rules");
    assert_int_equal(found.status, 405);
}

/* The table of the product: OpenAPI is made of it. */
static void each_route_has_a_name_of_its_own_and_a_path_that_can_be_matched(void **state)
{
    size_t count;
    const struct http_route *routes = api_routes(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_true(routes[i].path[0] == '/' && routes[i].summary[0] != '\0');
        assert_non_null(routes[i].handle);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(routes[i].name, routes[k].name);
            assert_true(strcmp(routes[i].path, routes[k].path) != 0 ||
                        routes[i].method != routes[k].method);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_matched_segment_by_segment),
        cmocka_unit_test(parameters_are_decoded),
        cmocka_unit_test(what_could_be_resolved_is_refused),
        cmocka_unit_test(what_follows_a_named_hook_is_not_looked_at),
        cmocka_unit_test(methods_of_a_path_are_told),
        cmocka_unit_test(each_route_has_a_name_of_its_own_and_a_path_that_can_be_matched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
