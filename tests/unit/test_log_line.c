/* test_log_line.c - lines of the combined format and its relatives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_log.h"

static struct log_scratch scratch;
static struct log_line line;
static struct log_problem problem;

static int read_line(const char *text, bool want_forwarded)
{
    scratch.used = 0;
    return log_line_read(text, strlen(text), want_forwarded, &scratch, &line, &problem);
}

static int read_combined(const char *text, struct log_problem *out)
{
    scratch.used = 0;
    return log_line_read(text, strlen(text), false, &scratch, &line, out);
}

static void expect(enum log_field field, const char *wanted)
{
    log_expect_text(line.fields[field], wanted);
}

/* The format that nginx and Apache share, every field of it. */
static void a_combined_line_gives_all_its_fields(void **state)
{
    (void)state;
    assert_int_equal(
        read_line(
            "203.0.113.7 - ada [21/Nov/2026:12:44:22 +0100] \"GET /a/b?q=1 HTTP/1.1\" 200 512 "
            "\"https://example.org/\" \"Mozilla/5.0 (X11)\"",
            false),
        0);
    expect(LOG_REMOTE, "203.0.113.7");
    expect(LOG_USER, "ada");
    expect(LOG_METHOD, "GET");
    expect(LOG_TARGET, "/a/b?q=1");
    expect(LOG_PROTOCOL, "HTTP/1.1");
    expect(LOG_STATUS, "200");
    expect(LOG_BYTES, "512");
    expect(LOG_REFERER, "https://example.org/");
    expect(LOG_AGENT, "Mozilla/5.0 (X11)");
    expect(LOG_FORWARDED, "");
    expect(LOG_HOST, "");
    assert_int_equal(line.time_ns, INT64_C(1795261462000000000));
}

/* "-" is how logs write nothing: a caller must not be counted under it. */
static void a_dash_is_an_absent_field(void **state)
{
    (void)state;
    assert_int_equal(
        read_line("::1 - - [21/Nov/2026:12:44:22 +0100] \"-\" 400 - \"-\" \"-\" \"-\"", false), 0);
    expect(LOG_USER, "");
    expect(LOG_METHOD, "");
    expect(LOG_TARGET, "");
    expect(LOG_BYTES, "");
    expect(LOG_REFERER, "");
    expect(LOG_AGENT, "");
    expect(LOG_FORWARDED, "");
}

/* The last quoted field behind the agent is X-Forwarded-For; words between are passed over. */
static void the_last_quoted_field_is_the_forwarded_one(void **state)
{
    (void)state;
    static const char text[] =
        "127.0.0.1 - - [21/Nov/2026:12:44:22 +0100] \"GET / HTTP/1.1\" 200 5 "
        "\"-\" \"curl\" 0.003 rt=7 \"198.51.100.1, 10.0.0.1\"";
    assert_int_equal(read_line(text, true), 0);
    expect(LOG_FORWARDED, "198.51.100.1, 10.0.0.1");
    assert_int_equal(
        read_line("127.0.0.1 - - [21/Nov/2026:12:44:22 +0100] \"GET / HTTP/1.1\" 200 5 "
                  "\"-\" \"curl\"",
                  true),
        TG_EINVALID);
    assert_non_null(strstr(problem.expected, "X-Forwarded-For"));
}

/* Apache's vhost_combined has the host in front; a user's name may hold spaces. */
static void a_virtual_host_in_front_is_told_from_a_name_with_spaces(void **state)
{
    (void)state;
    assert_int_equal(read_line("www.example.org:443 203.0.113.7 - ada [21/Nov/2026:12:44:22 +0100] "
                               "\"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"",
                               false),
                     0);
    expect(LOG_HOST, "www.example.org:443");
    expect(LOG_REMOTE, "203.0.113.7");
    expect(LOG_USER, "ada");
    assert_int_equal(read_line("203.0.113.7 - ada of lovelace [21/Nov/2026:12:44:22 +0100] "
                               "\"GET / HTTP/1.1\" 200 5",
                               false),
                     0);
    expect(LOG_HOST, "");
    expect(LOG_REMOTE, "203.0.113.7");
    expect(LOG_USER, "ada of lovelace");
    assert_int_equal(read_line("203.0.113.7 - ada[1] [21/Nov/2026:12:44:22 +0100] "
                               "\"GET / HTTP/1.1\" 200 5",
                               false),
                     0);
    expect(LOG_USER, "ada[1]");
    assert_int_equal(read_line("203.0.113.7 - a [b] [01/Jan/2020:00:00:00 +0000] "
                               "[21/Nov/2026:12:44:22 +0100] \"GET /[ HTTP/1.1\" 200 5",
                               false),
                     0);
    expect(LOG_USER, "a [b] [01/Jan/2020:00:00:00 +0000]");
    expect(LOG_TARGET, "/[");
    assert_int_equal(line.time_ns / 1000000000, 1795261462);
    assert_int_equal(
        read_line("203.0.113.7 - a\\\" [21/Nov/2026:12:44:22 +0100] \"GET / HTTP/1.1\" 200 5",
                  false),
        0);
    expect(LOG_USER, "a\"");
}

/* Escapes of nginx (\x22) and of Apache (\") stand for the bytes that came. */
static void escapes_are_resolved(void **state)
{
    (void)state;
    assert_int_equal(
        read_line("203.0.113.7 - - [21/Nov/2026:12:44:22 +0100] "
                  "\"GET /a\\x22b\\\\c HTTP/1.1\" 200 5 \"-\" \"a \\\"b\\\" \\t \\xZZ\"",
                  false),
        0);
    expect(LOG_TARGET, "/a\"b\\c");
    expect(LOG_AGENT, "a \"b\" \t xZZ");
}

/* A request that is no HTTP was a request all the same: it has no method and no target. */
static void a_request_of_garbage_has_neither_method_nor_target(void **state)
{
    (void)state;
    assert_int_equal(read_line("203.0.113.7 - - [21/Nov/2026:12:44:22 +0100] "
                               "\"\\x16\\x03\\x01\" 400 157 \"-\" \"-\"",
                               false),
                     0);
    expect(LOG_METHOD, "");
    expect(LOG_TARGET, "");
    expect(LOG_STATUS, "400");
    assert_int_equal(
        read_line("203.0.113.7 - - [21/Nov/2026:12:44:22 +0100] \"GET /old\" 200 1", false), 0);
    expect(LOG_TARGET, "/old");
    expect(LOG_PROTOCOL, "");
}

/* A refusal names the byte at which something else was expected. */
static void a_refusal_names_the_place_and_what_was_expected(void **state)
{
    (void)state;
    static const struct log_refusal refusals[] = {
        {"hello world", 1, "ADDRESS IDENT USER"},
        {"", 1, "a line"},
        {" [21/Nov/2026:12:44:22 +0100] \"GET / HTTP/1.1\" 200 5", 1, "ADDRESS IDENT USER"},
        {"1.2.3.4 - [21/Nov/2026:12:44:22 +0100] \"GET / HTTP/1.1\" 200 5", 10, "ADDRESS IDENT"},
        {"1.2.3.4 - - [yesterday] \"GET / HTTP/1.1\" 200 5", 14, "a time such as"},
        {"1.2.3.4 - - [21/Nov/2026:12:44:22 +0100", 14, "a time such as"},
        {"1.2.3.4 - - [21/Nov/2026:12:44:22 +0100] GET / 200", 42, "a quoted request"},
        {"1.2.3.4 - - [21/Nov/2026:12:44:22 +0100] \"GET / 200", 42, "a quoted request"},
        {"1.2.3.4 - - [21/Nov/2026:12:44:22 +0100] \"GET /\" ok 5", 50, "a status"},
        {"1.2.3.4 - - [21/Nov/2026:12:44:22 +0100] \"GET /\" 200 5 \"-\" \"curl", 60, "a quote"},
    };
    log_expect_refusals(refusals, sizeof refusals / sizeof *refusals, read_combined);
}

/* Cut anywhere, a line is read or refused, and nothing behind its end is looked at. */
static void a_line_may_end_anywhere(void **state)
{
    (void)state;
    static const char text[] =
        "h:80 203.0.113.7 - ada [21/Nov/2026:12:44:22 +0100] \"GET /a\\x22 HTTP/1.1\" 200 512 "
        "\"https://example.org/\" \"Mozilla\\\"\" \"1.2.3.4\"";
    char copy[sizeof text];
    for (size_t len = 0; len < sizeof text; len++) {
        memset(copy, '"', sizeof copy); /* what must not be seen would end a field */
        memcpy(copy, text, len);
        scratch.used = 0;
        if (log_line_read(copy, len, false, &scratch, &line, &problem) == 0)
            for (size_t i = 0; i < LOG_FIELDS; i++)
                assert_true(line.fields[i].len <= len);
        else
            assert_true(problem.column >= 1 && problem.column <= len + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_combined_line_gives_all_its_fields),
        cmocka_unit_test(a_dash_is_an_absent_field),
        cmocka_unit_test(the_last_quoted_field_is_the_forwarded_one),
        cmocka_unit_test(a_virtual_host_in_front_is_told_from_a_name_with_spaces),
        cmocka_unit_test(escapes_are_resolved),
        cmocka_unit_test(a_request_of_garbage_has_neither_method_nor_target),
        cmocka_unit_test(a_refusal_names_the_place_and_what_was_expected),
        cmocka_unit_test(a_line_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
