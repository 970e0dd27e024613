/* test_http_reply.c - responses as bytes: lengths, texts of callers, dates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/http/http_reply.h"

static char bytes[1 << 16];
static struct gateway_out out;
static struct http_reply reply;

static void begin(size_t room, struct http_form form)
{
    memset(bytes, 0, sizeof bytes);
    out = (struct gateway_out){.data = bytes, .capacity = sizeof bytes - 1};
    http_reply_init(&reply, &out, room, form, "Sun, 06 Nov 1994 08:49:37 GMT");
    http_reply_begin(&reply, 200);
}

static void end(void)
{
    http_reply_end(&reply);
    bytes[out.len] = '\0';
}

static const struct http_form plain = {.head = false};

#define HEAD "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nCache-Control: no-store\r\n"

static void a_length_is_that_of_the_body(void **state)
{
    (void)state;
    for (size_t len = 0; len < 12000; len += len < 20 ? 1 : 997) {
        begin(sizeof bytes - 1, plain);
        http_reply_body(&reply, "text/plain");
        for (size_t i = 0; i < len; i++)
            http_put(&reply, "x", 1);
        end();
        const char *body = strstr(bytes, "\r\n\r\n") + 4;
        const char *told = strstr(bytes, "Content-Length: ") + 16;
        assert_int_equal(strtoul(told, NULL, 10), len);
        assert_int_equal(out.len - (size_t)(body - bytes), len);
        assert_int_equal(strspn(body, "x"), len);
        assert_true(told[0] != '0' || len == 0);
    }
}

static void a_response_without_a_body_says_so(void **state)
{
    (void)state;
    begin(1024, plain);
    end();
    assert_string_equal(bytes, HEAD "Content-Length: 0\r\n\r\n");
    begin(1024, plain);
    http_reply_begin(&reply, 204);
    end();
    assert_null(strstr(bytes, "Content-Length"));
    begin(1024, (struct http_form){.head = true});
    http_reply_body(&reply, "a/b");
    http_put_text(&reply, "hello");
    end();
    assert_string_equal(bytes, HEAD "Content-Type: a/b\r\nContent-Length: 5\r\n\r\n");
}

/* Whatever the value of a header, it is one line. */
static void no_text_ends_a_line_of_the_head(void **state)
{
    (void)state;
    begin(1024, plain);
    http_reply_header_text(&reply, "X", (struct wire_text){"a\r\nSet: b\0\x7f", 11});
    http_reply_header_integer(&reply, "Y", UINT64_MAX);
    end();
    assert_non_null(strstr(bytes, "\r\nX: a  Set: b  \r\nY: 18446744073709551615\r\n"));
}

static void expect_json(const char *text, size_t len, const char *expected)
{
    begin(1024, plain);
    http_reply_body(&reply, "a/b");
    http_put_string(&reply, (struct wire_text){text, len});
    end();
    assert_string_equal(strstr(bytes, "\r\n\r\n") + 4, expected);
}

static void strings_of_json_are_escaped_and_utf8(void **state)
{
    (void)state;
    expect_json("", 0, "\"\"");
    expect_json("a\"\\b\n\0", 6, "\"a\\\"\\\\b\\u000a\\u0000\"");
    expect_json("\x7f", 1, "\"\\u007f\"");
    expect_json("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9,
                "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
    expect_json("\xc3", 1, "\"\xef\xbf\xbd\"");
    expect_json("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""); /* longer than need be */
    expect_json("\xed\xa0\x80x", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\""); /* a surrogate */
    expect_json("\xf4\x90\x80\x80", 4,
                "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* beyond the last one */
    expect_json("\xff", 1, "\"\xef\xbf\xbd\"");
}

static void nothing_is_written_beyond_its_room(void **state)
{
    (void)state;
    for (size_t room = 0; room < 300; room++) {
        begin(room, plain);
        http_reply_header(&reply, "X", "y");
        http_problem_body(&reply, "urn:type", wire_text_of("a detail"));
        http_problem_end(&reply);
        assert_true(out.len <= room);
        assert_true(reply.done != reply.failed);
    }
    assert_true(reply.done);
}

static void a_problem_tells_what_and_where(void **state)
{
    (void)state;
    begin(1024, plain);
    http_reply_begin(&reply, 429);
    http_problem_body(&reply, "urn:type", wire_text_of("checks[3]: no"));
    http_put_text(&reply, ",\"x\":1");
    http_problem_end(&reply);
    bytes[out.len] = '\0';
    assert_string_equal(strstr(bytes, "\r\n\r\n") + 4,
                        "{\"type\":\"urn:type\",\"title\":\"Too Many Requests\",\"status\":429,"
                        "\"detail\":\"checks[3]: no\",\"x\":1}\n");
    http_problem(&reply, 430, "no");
    assert_memory_equal(bytes, "HTTP/1.1 430 \r\n", 15);
    http_problem(&reply, 404, "no"); /* it takes the place of what was written */
    bytes[out.len] = '\0';
    assert_memory_equal(bytes, "HTTP/1.1 404 Not Found\r\n", 24);
    assert_null(strstr(bytes, "checks[3]"));
}

static void dates_are_those_of_the_calendar(void **state)
{
    static const struct {
        int64_t unix_s;
        const char *text;
    } cases[] = {
        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
        {951868799, "Tue, 29 Feb 2000 23:59:59 GMT"},
        {951868800, "Wed, 01 Mar 2000 00:00:00 GMT"},
        {1709164800, "Thu, 29 Feb 2024 00:00:00 GMT"},
        {1798761599, "Thu, 31 Dec 2026 23:59:59 GMT"},
        {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"}, /* no leap year */
        {INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"},
        {-1, "Thu, 01 Jan 1970 00:00:00 GMT"},
    };
    char text[HTTP_DATE_LEN];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        http_date(cases[i].unix_s, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_length_is_that_of_the_body),
        cmocka_unit_test(a_response_without_a_body_says_so),
        cmocka_unit_test(no_text_ends_a_line_of_the_head),
        cmocka_unit_test(strings_of_json_are_escaped_and_utf8),
        cmocka_unit_test(nothing_is_written_beyond_its_room),
        cmocka_unit_test(a_problem_tells_what_and_where),
        cmocka_unit_test(dates_are_those_of_the_calendar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
