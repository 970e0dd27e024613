/* test_operate_api.c - operators' calls: what the shard is asked, and what its answers become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/api/api_routes.h"
#include "node/gateway/api/operate_call.h"
#include "node/policy/people/api_keys.h"
#include "tests/unit/support_operator.h"

enum { TEXT = OPERATOR_TEXT };

#define HEAD " HTTP/1.1\r\nHost: localhost\r\n" OPERATOR_BEARER
#define JSON "Content-Type: application/json\r\n"

static struct operator_bench bench;

static int setup(void **state)
{
    (void)state;
    operator_open(&bench);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    operator_close(&bench);
    return 0;
}

static void say(const char *request)
{
    operator_say(&bench, request);
}

static const char *heard(void)
{
    return operator_heard(&bench);
}

static void expect(const char *part)
{
    operator_expect(&bench, part);
}

static void call(const char *line, const char *headers, const char *body)
{
    char request[TEXT];
    (void)snprintf(request, sizeof request, "%s" HEAD "%sContent-Length: %zu\r\n\r\n%s", line,
                   headers, strlen(body), body);
    say(request);
}

/* ---- answers of the shard -------------------------------------------------------------------- */

static struct mp_writer answered;
static uint8_t answer_bytes[TEXT];

static void begin(int code)
{
    mp_writer_init(&answered, answer_bytes, sizeof answer_bytes);
    wire_begin_admin_reply(&answered, bench.admin.session, bench.admin.seq, code);
}

static void send(void)
{
    assert_false(answered.failed);
    operator_answer(&bench, answer_bytes, answered.len);
}

static void answer_edit(const char *state, const char *message)
{
    begin(0);
    mp_put_map(&answered, 7);
    mp_put_str(&answered, "ok");
    mp_put_bool(&answered, true);
    mp_put_str(&answered, "id");
    mp_put_str(&answered, "000000000000000000000000000000aa");
    mp_put_str(&answered, "state");
    mp_put_str(&answered, state);
    mp_put_str(&answered, "version");
    mp_put_uint(&answered, 12);
    mp_put_str(&answered, "base");
    mp_put_uint(&answered, UINT64_C(1) << 40 | 12);
    mp_put_str(&answered, "changed");
    mp_put_bool(&answered, true);
    mp_put_str(&answered, "message");
    mp_put_str(&answered, message);
    send();
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The fields of path, query and body become the command's arguments, each as it takes them. */
static void fields_become_arguments(void **state)
{
    (void)state;
    call("GET /v1/members?all=true", "", "");
    assert_string_equal(bench.asked, "members {\"all\":true}");
    begin(0);
    mp_put_array(&answered, 1);
    mp_put_str(&answered, "x");
    send();
    expect("{\"members\":[\"x\"]}");
    call("GET /v1/rules/versions/7", "", "");
    assert_string_equal(bench.asked, "rules.show {\"version\":7}");
    answer_edit("done", "");
    expect("ETag: \"1099511627788\"\r\n");
    call("POST /v1/owner", JSON,
         "{\"attributes\":{\"a\":\"x\\u00e9\",\"n\":5,\"t\":true},\"key\":null}");
    assert_string_equal(bench.asked,
                        "owner {\"attributes\":{\"a\":\"x\xc3\xa9\",\"n\":\"5\",\"t\":\"true\"}}");
    begin(0);
    mp_put_array(&answered, 0);
    send();
    call("PUT /v1/pools/my%20pool/load", JSON, "{\"load\":0.25}");
    assert_string_equal(bench.asked, "pools.report {\"pool\":\"my pool\",\"load\":0.25}");
    begin(TG_ENOTFOUND);
    mp_put_str(&answered, "none of that name");
    send();
    expect("HTTP/1.1 404 Not Found\r\n");
    expect("\"detail\":\"none of that name\"");
}

/* Who lets a node go is in its log, whether the request says so or not. */
static void what_is_no_edit_says_who_asks_as_well(void **state)
{
    (void)state;
    call("POST /v1/drain", "", "");
    assert_string_equal(bench.asked, "drain {\"author\":\"http [2001:db8::1]\"}");
    begin(0);
    mp_put_map(&answered, 0);
    send();
    call("POST /v1/remove", JSON, "{\"node\":\"n2\",\"author\":\"ada\"}");
    assert_string_equal(bench.asked, "remove {\"node\":\"n2\",\"author\":\"ada\"}");
    begin(0);
    mp_put_map(&answered, 0);
    send();
    call("GET /v1/rules", JSON, "{}"); /* a body where none is taken is not passed over */
    assert_string_equal(bench.asked, "");
    expect("the body: expected none, but a query");
}

/* An edit has an id of its own, says who asks, waits, and is based on what If-Match says. */
static void an_edit_is_named_and_based(void **state)
{
    (void)state;
    char ids[4][33];
    const char *const headers[] = {JSON, JSON, JSON "Idempotency-Key: k\r\n",
                                   JSON "Idempotency-Key: k\r\n"};
    for (size_t i = 0; i < 4; i++) {
        call("POST /v1/block", headers[i],
             "{\"what\":\"user=eve\",\"for\":\"90s\",\"note\":\"why\"}");
        const char *id = strstr(bench.asked, "\"id\":\"");
        assert_non_null(id);
        (void)snprintf(ids[i], sizeof ids[i], "%.32s", id + 6);
        assert_int_equal(strspn(ids[i], "0123456789abcdef"), 32);
        assert_non_null(
            strstr(bench.asked, "block {\"what\":\"user=eve\",\"for_ms\":90000,\"id\":"));
        assert_non_null(strstr(
            bench.asked, "\"author\":\"http [2001:db8::1]\",\"note\":\"why\",\"wait\":true}"));
        answer_edit("done", "");
        expect("HTTP/1.1 200 OK\r\n");
        expect("ETag: \"1099511627788\"\r\n");
    }
    assert_string_not_equal(ids[0], ids[1]);
    assert_string_not_equal(ids[1], ids[2]);
    assert_string_equal(ids[2], ids[3]);
    call("POST /v1/block", headers[3], "{\"what\":\"user=bob\"}");
    assert_null(strstr(bench.asked, ids[3])); /* another request under the same key */
    answer_edit("done", "");
    call("POST /v1/unblock", headers[3], "{\"what\":\"user=bob\"}");
    assert_null(strstr(bench.asked, ids[3]));
    answer_edit("done", "");
    call("PUT /v1/rules", JSON "If-Match: \"18446744073709551614\"\r\n",
         "{\"text\":\"rules: []\"}");
    assert_non_null(strstr(bench.asked, "\"base\":18446744073709551614}"));
    answer_edit("conflict", "changed by bob");
    expect("HTTP/1.1 412 Precondition Failed\r\n");
    call("PUT /v1/rules", JSON "If-None-Match: *\r\n", "{\"text\":\"rules: []\"}");
    assert_non_null(strstr(bench.asked, "\"base\":0}"));
    answer_edit("conflict", "changed by bob");
    expect("HTTP/1.1 412 Precondition Failed\r\n");
}

static void each_end_of_an_edit_has_its_status(void **state)
{
    static const struct {
        const char *state;
        const char *status;
    } ends[] = {
        {"done", "200 OK"},
        {"conflict", "409 Conflict"},
        {"unavailable", "503 Service Unavailable\r\n"},
        {"doubt", "504 Gateway Timeout"},
        {"waiting", "202 Accepted"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        call("POST /v1/unblock", JSON, "{\"key\":\"a\"}");
        answer_edit(ends[i].state, "so it is");
        expect(ends[i].status);
        expect("so it is");
    }
    const char *id = strstr(bench.asked, "\"id\":\""); /* by which the last one was asked for */
    char place[96];
    assert_non_null(id);
    (void)snprintf(place, sizeof place, "Location: /v1/edits/%.32s\r\n", id + 6);
    expect(place);
    call("GET /v1/edits/000000000000000000000000000000aa", "", "");
    answer_edit("unavailable", "so it was"); /* what is shown is not what was asked for */
    expect("HTTP/1.1 200 OK\r\n");
    call("PUT /v1/rules", JSON, "{\"text\":\"rules: [5]\"}");
    begin(0);
    mp_put_map(&answered, 4);
    mp_put_str(&answered, "ok");
    mp_put_bool(&answered, false);
    mp_put_str(&answered, "line");
    mp_put_uint(&answered, 3);
    mp_put_str(&answered, "column");
    mp_put_uint(&answered, 4);
    mp_put_str(&answered, "message");
    mp_put_str(&answered, "not \"so\"");
    send();
    expect("HTTP/1.1 400 Bad Request\r\n");
    expect("\"detail\":\"rules:3:4: not \\\"so\\\"\",\"line\":3,\"column\":4}");
}

/* A document of rules goes as it is, or as its gzip, and comes so. */
static void documents_need_no_json(void **state)
{
    (void)state;
    call("PUT /v1/rules", "Content-Type: application/yaml; charset=utf-8\r\n", "rules: []\n");
    assert_non_null(strstr(bench.asked, "rules.apply {\"text\":\"rules: []\\n\",\"id\":"));
    answer_edit("done", "");
    call("PUT /v1/rules", "Content-Type: text/yaml\r\nContent-Encoding: gzip\r\n", "\x1f\x8b!");
    assert_non_null(strstr(bench.asked, "\"packed\":\"1f8b21\""));
    answer_edit("done", "");
    call("PUT /v1/rules", "Content-Type: text/yaml\r\nContent-Encoding: br\r\n", "x");
    expect("Content-Encoding: found \\\"br\\\", expected gzip, or none");
    call("PUT /v1/rules", "Content-Type: text/yaml\r\nContent-Encoding: gzip\r\n", "rules: []");
    expect("the body: found no gzip, expected what Content-Encoding says");
    call("GET /v1/rules", "Accept: application/yaml\r\nAccept-Encoding: br, gzip;q=0\r\n", "");
    assert_string_equal(bench.asked, "rules.show {}");
    begin(TG_ETOOBIG);
    mp_put_str(&answered, "too long");
    send();
    expect("HTTP/1.1 406 Not Acceptable\r\n");
    expect("expected Accept: application/yaml and Accept-Encoding: gzip");
    call("GET /v1/rules", "Accept: application/yaml\r\nAccept-Encoding: gzip;q=0.5\r\n", "");
    assert_string_equal(bench.asked, "rules.show {\"packed\":true}");
    begin(0);
    mp_put_map(&answered, 1);
    mp_put_str(&answered, "packed");
    mp_put_bin(&answered, "\x1f\x8b!", 3);
    send();
    expect("Content-Encoding: gzip\r\n");
    expect("Content-Type: application/yaml\r\n");
    expect("\r\n\r\n\x1f\x8b!");
    call("GET /v1/rules", "Accept: application/yaml\r\n", "");
    assert_string_equal(bench.asked, "rules.show {}");
    begin(0);
    mp_put_map(&answered, 1);
    mp_put_str(&answered, "text");
    mp_put_str(&answered, "rules: []\n");
    send();
    expect("\r\n\r\nrules: []\n");
    call("GET /v1/rules", "If-None-Match: W/\"7\"\r\n", "");
    begin(0);
    mp_put_map(&answered, 1);
    mp_put_str(&answered, "base");
    mp_put_uint(&answered, 7);
    send();
    expect("HTTP/1.1 304 Not Modified\r\n");
}

/* The cluster is told the digest of a new key alone; the key is in the answer, once it is made. */
static void an_api_key_is_in_the_answer_alone(void **state)
{
    char keys[2][API_KEY_LEN + 1];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        call("POST /v1/apikeys", JSON, "{\"name\":\"web\",\"limits\":[\"5/h\",\"9/day\"]}");
        assert_null(strstr(bench.asked, API_KEY_PREFIX));
        assert_non_null(strstr(bench.asked, "\"limits\":\"5/h 9/day\""));
        answer_edit("done", "");
        expect("HTTP/1.1 201 Created\r\n");
        const char *key = strstr(heard(), "{\"key\":\"" API_KEY_PREFIX);
        expect(",\"key_id\":\"");
        assert_non_null(key);
        (void)snprintf(keys[i], sizeof keys[i], "%.*s", (int)API_KEY_LEN, key + 8);
        struct digest digest;
        char text[DIGEST_TEXT_LEN + 1];
        digest_make(keys[i], API_KEY_LEN, &digest);
        digest_format(&digest, text);
        assert_non_null(strstr(bench.asked, text));
        assert_non_null(strstr(bench.asked, "\"key\":\""));
        const char *letters = keys[i] + strlen(API_KEY_PREFIX);
        assert_memory_not_equal(letters, letters + DIGEST_LEN + 1,
                                API_KEY_ID_LEN); /* no letter twice */
    }
    assert_string_not_equal(keys[0], keys[1]);
    call("POST /v1/apikeys", JSON, "{\"name\":\"web\"}");
    answer_edit("unavailable", "no majority");
    expect("HTTP/1.1 503 Service Unavailable\r\n");
    assert_null(strstr(heard(), API_KEY_PREFIX));
    static const char *const states[] = {"waiting", "doubt"}; /* it may be made yet */
    for (size_t i = 0; i < 2; i++) {
        call("POST /v1/apikeys", JSON, "{\"name\":\"web\"}");
        answer_edit(states[i], "");
        expect("\"key\":\"" API_KEY_PREFIX);
        expect(states[i]);
    }
    call("POST /v1/apikeys", JSON, "{\"name\":\"web\"}");
    operator_wait(&bench, INT64_C(31000000000));
    expect("HTTP/1.1 504 Gateway Timeout\r\n");
    expect("\"key\":\"" API_KEY_PREFIX);
    expect("\"id\":\"");
    call("POST /v1/apikeys", JSON "Idempotency-Key: k\r\n", "{\"name\":\"web\"}");
    assert_string_equal(bench.asked, "");
    expect("HTTP/1.1 400 Bad Request\r\n");
}

/* What is misspelt, told twice or of another kind is refused, and nothing is asked. */
static void mistakes_name_their_place_and_ask_nothing(void **state)
{
    static const struct {
        const char *line;
        const char *body;
        const char *detail;
    } mistakes[] = {
        {"POST /v1/block", "{\"wat\":\"x\"}",
         "wat: no field of this call; expected what, key, reason, for, until_ms, author, note"},
        {"POST /v1/block", "{\"what\":5}", "what: found a number"},
        {"POST /v1/block", "{\"what\":\"a\",\"what\":\"b\"}", "what: found this field twice"},
        {"POST /v1/apikeys/web/revoke", "{\"key\":\"other\"}", "key: found this field twice"},
        {"POST /v1/block", "{\"for\":\"0s\"}", "for: found \\\"0s\\\", expected a time"},
        {"POST /v1/rules/rollback", "{\"version\":9007199254740992}", "version: found 9007"},
        {"POST /v1/quota", "{\"limits\":[\"5/h 6/d\"]}", "limits[0]: found \\\"5/h 6/d\\\""},
        {"POST /v1/quota", "{\"limits\":[\"\"]}", "limits[0]: found \\\"\\\""},
        {"POST /v1/quota", "{\"clear\":1}", "clear: found a number"},
        {"POST /v1/quota", "{\"limits\":[]}", "limits: found no rate"},
        {"POST /v1/quota", "{}", "user: found none, expected whose quota it is"},
        {"GET /v1/quota", "", "user: found none, expected whose quota it is"},
        {"POST /v1/rules/rollback", "{}", "version: found none, expected of a document"},
        {"DELETE /v1/apikeys/web", "{\"force\":true}", "the body: expected none, but a query"},
        {"PUT /v1/pools/p/load", "{\"load\":01}", "load: found a number at byte 9"},
        {"PUT /v1/pools/p/load", "{\"load\":-0.1}", "load: found a number at byte 9"},
        {"PUT /v1/pools/p/load", "{\"load\":1.0000001}", "load: found a number at byte 9"},
        {"POST /v1/owner", "{\"attributes\":{\"a\":\"1\",\"a\":\"2\"}}", "attributes.a: found"},
        {"POST /v1/owner?key=a", "{}", "the query: expected none, but a body"},
        {"POST /v1/owner", "[]", "found a list"},
        {"DELETE /v1/quota?user=a&usr=b", "", "found \\\"usr\\\", expected each once: user"},
        {"DELETE /v1/quota?user=%zz", "", "an escape that is none"},
        {"GET /v1/status?figures=1", "", "figures: found \\\"1\\\", expected true or false"},
        {"GET /v1/rules/versions/99999999999999999999", "", "expected a whole number"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        call(mistakes[i].line, JSON, mistakes[i].body);
        assert_string_equal(bench.asked, "");
        expect("HTTP/1.1 400 Bad Request\r\n");
        expect(mistakes[i].detail);
    }
    call("PUT /v1/rules", JSON "If-Match: 7\r\n", "{\"text\":\"\"}");
    expect("If-Match: expected one ETag of an answer");
    call("PUT /v1/rules", JSON "If-Match: *\r\n", "{\"text\":\"\"}");
    expect("If-Match: expected one ETag of an answer");
    call("PUT /v1/rules", JSON "If-Match: \"7\"\r\nIf-Match: \"8\"\r\n", "{\"text\":\"\"}");
    expect("If-Match: found it twice, expected once");
    call("POST /v1/block", JSON "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", "{\"key\":\"\"}");
    expect("Idempotency-Key: found it twice, expected once");
    call("PUT /v1/rules", JSON "If-Match: *\r\nIf-None-Match: *\r\n", "{\"text\":\"\"}");
    expect("found If-Match and If-None-Match, expected one of them");
    assert_string_equal(bench.asked, "");
}

/* Every call of the table is led to, and to no handler without the token. */
static void no_call_is_asked_without_the_token(void **state)
{
    static const char *const methods[HTTP1_METHODS] = {
        [HTTP1_GET] = "GET", [HTTP1_POST] = "POST", [HTTP1_PUT] = "PUT", [HTTP1_DELETE] = "DELETE"};
    static const char *const tokens[] = {"",
                                         "Authorization: Bearer tga_other\r\n",
                                         "Authorization: Bearer \r\n",
                                         "Authorization: " OPERATOR_TOKEN "\r\n",
                                         "Authorization: Basic " OPERATOR_TOKEN "\r\n",
                                         "Authorization: Bearer " OPERATOR_TOKEN "x\r\n",
                                         "Authorization: Bearer " OPERATOR_TOKEN
                                         "\r\nAuthorization: Bearer " OPERATOR_TOKEN "\r\n"};
    size_t count;
    uint32_t seen = 0;
    const struct http_route *routes = api_routes(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        if ((routes[i].flags & HTTP_ROUTE_OPERATOR) == 0)
            continue;
        seen++;
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
            char request[TEXT];
            (void)snprintf(request, sizeof request,
                           "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 0\r\n\r\n",
                           methods[routes[i].method], routes[i].path, tokens[k]);
            for (char *c = request; *c != '\0'; c++)
                *c = strchr("{}", *c) != NULL ? 'x' : *c;
            say(request);
            assert_string_equal(bench.asked, "");
            expect("HTTP/1.1 401 Unauthorized\r\n");
            expect("WWW-Authenticate: Bearer realm=\"tidegate\"");
        }
    }
    assert_int_equal(seen, OPERATE_CALLS);
    struct http_stats stats;
    http_gate_stats(bench.gate, &stats);
    assert_int_equal(stats.unauthorized, seen * (sizeof tokens / sizeof *tokens));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(fields_become_arguments),
        TEST(what_is_no_edit_says_who_asks_as_well),
        TEST(an_edit_is_named_and_based),
        TEST(each_end_of_an_edit_has_its_status),
        TEST(documents_need_no_json),
        TEST(an_api_key_is_in_the_answer_alone),
        TEST(mistakes_name_their_place_and_ask_nothing),
        TEST(no_call_is_asked_without_the_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
