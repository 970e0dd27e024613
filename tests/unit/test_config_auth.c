/* test_config_auth.c - endpoints of /v1/auth in the configuration file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "node/gateway/api/decision_json.h"
#include "node/runtime/config/config_auth.h"

static struct auth_endpoints endpoints;
static struct yaml_reader_error error;

static int read_text(const char *text)
{
    struct yaml_reader reader;
    auth_defaults(&endpoints);
    error = (struct yaml_reader_error){.line = 0};
    assert_int_equal(yaml_reader_init(&reader, text, strlen(text), alloc_heap(), &error), 0);
    const int result = config_auth_read(&reader, reader.root, &endpoints);
    yaml_reader_fini(&reader);
    return result;
}

static const struct auth_endpoint *find(const char *name)
{
    const struct auth_endpoint *endpoint = auth_find(&endpoints, wire_text_of(name));
    assert_non_null(endpoint);
    return endpoint;
}

static void an_endpoint_keeps_what_the_file_does_not_change(void **state)
{
    (void)state;
    assert_int_equal(read_text("nginx: {status: {deny: 401}}\nenvoy: {}\n"), 0);
    assert_int_equal(find("nginx")->allow, 204);
    assert_int_equal(find("nginx")->deny, 401);
    assert_int_equal(find("envoy")->original, AUTH_ITSELF);
    assert_int_equal(find("envoy")->allow, 200);
    assert_int_equal(endpoints.count, 3);
}

static void a_further_endpoint_has_lists_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(read_text("shop:\n"
                               "  status: {allow: 200, deny: 429}\n"
                               "  original_request: itself\n"
                               "  attributes_from_headers: {user: X-User-Id, tier: X-Tier}\n"
                               "  attributes_from_query: [q]\n"),
                     0);
    const struct auth_endpoint *shop = find("shop");
    assert_int_equal(shop->allow, 200);
    assert_int_equal(shop->deny, 429);
    assert_int_equal(shop->original, AUTH_ITSELF);
    assert_int_equal(shop->header_count, 2);
    assert_string_equal(shop->headers[1].attribute, "tier");
    assert_string_equal(shop->headers[1].field, "X-Tier");
    assert_int_equal(shop->query_count, 1);
    assert_string_equal(shop->queries[0], "query.q");
    assert_int_equal(find("default")->header_count, 0);
}

static void an_endpoint_may_have_header_fields_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(read_text("nginx: {headers: legacy}\nshop: {headers: off}\n"), 0);
    assert_true(find("nginx")->own_header_kind && find("shop")->own_header_kind);
    assert_int_equal(find("nginx")->header_kind, DECISION_LEGACY);
    assert_int_equal(find("shop")->header_kind, DECISION_NO_HEADERS);
    assert_false(find("envoy")->own_header_kind);
}

static void a_mistake_is_told_with_its_line(void **state)
{
    static const struct {
        const char *text;
        uint32_t line;
        const char *sentence;
    } cases[] = {
        {"nginx: {stat: 1}", 1, "stat"},
        {"nginx:\n  status: {deny: 200}", 2, "deny"},
        {"nginx:\n  status: {allow: 302}", 2, "allow"},
        {"nginx:\n  original_request: path", 2, "forwarded"},
        {"nginx:\n  headers: all", 2, "headers"},
        {"nginx:\n  attributes_from_headers: {ip: X-Real-IP}", 2,
         "attributes_from_headers: found ip, expected another name"},
        {"nginx:\n  attributes_from_headers: {query.x: X-Y}", 2, "does not begin with query."},
        {"nginx:\n  attributes_from_headers: {user: \"X User\"}", 2,
         "a header field: found \"X User\", expected letters, digits, - _ and ."},
        {"\"a/b\": {}", 1, "an endpoint: found \"a/b\""},
        {"nginx:\n  attributes_from_query: [a, b, a]", 2, "found a twice, expected it once"},
        {"nginx: 403", 1, "auth"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_text(cases[i].text), TG_EINVALID);
        if (error.line != cases[i].line || strstr(error.message, cases[i].sentence) == NULL)
            fail_msg("%s: %u: %s", cases[i].text, error.line, error.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_endpoint_keeps_what_the_file_does_not_change),
        cmocka_unit_test(a_further_endpoint_has_lists_of_its_own),
        cmocka_unit_test(an_endpoint_may_have_header_fields_of_its_own),
        cmocka_unit_test(a_mistake_is_told_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
