/* test_log_output.c - log lines: their form, what is escaped, and what happens if nobody reads. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/runtime/system/log_output.h"

enum { THREADS = 4, LINES_EACH = 50 };

#define UNIX_MS INT64_C(1767323045678) /* 2026-01-02T03:04:05.678Z */

static const char *line(enum log_output_format format, int64_t unix_ms, const char *message)
{
    static char text[LOG_OUTPUT_LINE_LEN + 1];
    const size_t len = log_output_line(format, unix_ms, LOG_LEVEL_INFO, message, text);

    assert_true(len <= LOG_OUTPUT_LINE_LEN);
    text[len] = '\0';
    assert_int_equal(strlen(text), len);
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
    return text;
}

/* The two forms are what people's tools were told to expect. */
static void a_line_has_time_level_and_message(void **state)
{
    char out[LOG_OUTPUT_LINE_LEN];

    (void)state;
    assert_string_equal(line(LOG_OUTPUT_TEXT, UNIX_MS, "hello"),
                        "2026-01-02T03:04:05.678Z info  hello\n");
    assert_string_equal(
        line(LOG_OUTPUT_JSON, UNIX_MS, "hello"),
        "{\"time\":\"2026-01-02T03:04:05.678Z\",\"level\":\"info\",\"message\":\"hello\"}\n");
    const size_t len = log_output_line(LOG_OUTPUT_TEXT, 0, LOG_LEVEL_ERROR, "", out);
    assert_memory_equal(out, "1970-01-01T00:00:00.000Z error \n", len);
}

/* A trace is found by a field of its own, where tools look for it. */
static void a_line_of_a_trace_has_its_ids(void **state)
{
    static const struct log_output_trace trace = {"4bf92f3577b34da6a3ce929d0e0e4736",
                                                  "00f067aa0ba902b7"};
    char out[LOG_OUTPUT_LINE_LEN + 1];
    (void)state;
    size_t len = log_output_traced_line(LOG_OUTPUT_TEXT, UNIX_MS, LOG_LEVEL_INFO, &trace, "x", out);
    out[len] = '\0';
    assert_string_equal(out, "2026-01-02T03:04:05.678Z info  "
                             "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 "
                             "span_id=00f067aa0ba902b7 x\n");
    len = log_output_traced_line(LOG_OUTPUT_JSON, UNIX_MS, LOG_LEVEL_INFO, &trace, "x", out);
    out[len] = '\0';
    assert_string_equal(out, "{\"time\":\"2026-01-02T03:04:05.678Z\",\"level\":\"info\","
                             "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\","
                             "\"span_id\":\"00f067aa0ba902b7\",\"message\":\"x\"}\n");
}

/* A clock that is far off does not break the form. */
static void any_time_is_shown(void **state)
{
    (void)state;
    assert_string_equal(line(LOG_OUTPUT_TEXT, -1, ""), "1969-12-31T23:59:59.999Z info  \n");
    assert_string_equal(line(LOG_OUTPUT_TEXT, INT64_MAX, ""), "9999-12-31T23:59:59.999Z info  \n");
    assert_string_equal(line(LOG_OUTPUT_TEXT, INT64_MIN, ""), "0000-01-01T00:00:00.000Z info  \n");
}

/* Bytes from outside can neither forge a line nor break the JSON or the terminal. */
static void what_is_not_printable_is_escaped(void **state)
{
    (void)state;
    assert_string_equal(line(LOG_OUTPUT_TEXT, UNIX_MS, "a\nb\x1b[2J\x7f \"q\" \\"),
                        "2026-01-02T03:04:05.678Z info  a\\x0ab\\x1b[2J\\x7f \"q\" \\\n");
    const char *json = line(LOG_OUTPUT_JSON, UNIX_MS, "a\nb\x01 \"q\" \\ \xc3\xa9");
    assert_non_null(strstr(json, "\"message\":\"a\\u000ab\\u0001 \\\"q\\\" \\\\ \xc3\xa9\"}\n"));
}

/* Valid UTF-8 passes; each byte of anything else becomes the replacement character. */
static void broken_utf8_is_replaced(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"\xe2\x82\xac \xf0\x9f\x9a\xa6", "\xe2\x82\xac \xf0\x9f\x9a\xa6"},
        {"\x80", "\xef\xbf\xbd"},
        {"\xc3", "\xef\xbf\xbd"},
        {"\xc3x", "\xef\xbf\xbdx"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* too high */
        {"\xf0\x9f\x9a", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xff", "\xef\xbf\xbd"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[128];
        (void)snprintf(expected, sizeof(expected), "2026-01-02T03:04:05.678Z info  %s\n",
                       cases[i].out);
        assert_string_equal(line(LOG_OUTPUT_TEXT, UNIX_MS, cases[i].in), expected);
    }
}

/* The longest message is cut within the bound, never inside an escape or a character. */
static void long_messages_are_cut_whole(void **state)
{
    static const char *const units[] = {"x", "\"", "\x01", "\xe2\x82\xac", "\xff"};
    static char message[3 * LOG_OUTPUT_LINE_LEN];

    (void)state;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        const size_t unit = strlen(units[i]);
        size_t len = 0;
        for (; len + unit < sizeof(message); len += unit)
            memcpy(message + len, units[i], unit);
        message[len] = '\0';
        const char *json = line(LOG_OUTPUT_JSON, UNIX_MS, message);
        const size_t json_len = strlen(json);
        assert_true(json_len > LOG_OUTPUT_LINE_LEN - 20);
        assert_string_equal(json + json_len - 6, "...\"}\n");
        const char last = json[json_len - 7];
        assert_true(i == 0 ? last == 'x' : i == 1 ? last == '"' : i == 2 ? last == '1' : true);
        if (i == 1)
            assert_int_equal(json[json_len - 8], '\\');
        if (i == 3)
            assert_memory_equal(json + json_len - 9, "\xe2\x82\xac", 3);
        const char *text = line(LOG_OUTPUT_TEXT, UNIX_MS, message);
        assert_string_equal(text + strlen(text) - 4, "...\n");
    }
}

/* A reader that stopped costs lines, which are counted and said, and never stops the writer. */
static void a_full_pipe_drops_lines_and_says_so(void **state)
{
    static char sink[1 << 20];
    struct log_output output;
    int ends[2];
    uint64_t sent = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(log_output_init(&output, ends[1], LOG_LEVEL_INFO, LOG_OUTPUT_TEXT), 0);
    while (log_output_dropped(&output) < 3 && sent < 1000000) {
        log_printf(&output.log, LOG_LEVEL_INFO, "line %d", 7);
        sent++;
    }
    assert_int_equal(log_output_dropped(&output), 3);
    assert_int_equal(output.lines, sent - 3);
    assert_true(read(ends[0], sink, sizeof(sink)) > 0);
    log_printf(&output.log, LOG_LEVEL_WARN, "after");
    const ssize_t len = read(ends[0], sink, sizeof(sink) - 1);
    assert_true(len > 0);
    sink[len] = '\0';
    assert_non_null(strstr(sink, "Z warn  3 log lines were dropped: nobody read"));
    assert_non_null(strstr(sink, "Z warn  after\n"));
    log_printf(&output.log, LOG_LEVEL_WARN, "once");
    const ssize_t again = read(ends[0], sink, sizeof(sink) - 1);
    assert_true(again > 0);
    sink[again] = '\0';
    assert_null(strstr(sink, "dropped"));
    log_output_fini(&output);
    assert_int_equal(close(ends[0]) + close(ends[1]), 0);
}

/* A descriptor that is no longer there loses lines and nothing else. */
static void a_broken_descriptor_only_loses_lines(void **state)
{
    struct log_output output;

    (void)state;
    assert_int_equal(log_output_init(&output, -1, LOG_LEVEL_DEBUG, LOG_OUTPUT_JSON), 0);
    log_printf(&output.log, LOG_LEVEL_ERROR, "nobody hears this");
    assert_int_equal(log_output_dropped(&output), 1);
    log_output_fini(&output);
}

/* Lines below the level never reach the descriptor. */
static void lines_below_the_level_are_left_out(void **state)
{
    struct log_output output;
    char text[256];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(log_output_init(&output, ends[1], LOG_LEVEL_WARN, LOG_OUTPUT_TEXT), 0);
    log_printf(&output.log, LOG_LEVEL_INFO, "quiet");
    log_printf(&output.log, LOG_LEVEL_WARN, "loud");
    const ssize_t len = read(ends[0], text, sizeof(text) - 1);
    assert_true(len > 0);
    text[len] = '\0';
    assert_null(strstr(text, "quiet"));
    assert_non_null(strstr(text, "loud"));
    log_output_fini(&output);
    assert_int_equal(close(ends[0]) + close(ends[1]), 0);
}

static void *write_lines(void *context)
{
    for (int i = 0; i < LINES_EACH; i++)
        log_printf(context, LOG_LEVEL_INFO, "0123456789 0123456789 0123456789 end");
    return NULL;
}

/* Several threads write whole lines, none of them lost while there is room. */
static void threads_write_whole_lines(void **state)
{
    static char text[1 << 16];
    struct log_output output;
    pthread_t threads[THREADS];
    int ends[2];
    size_t lines = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(log_output_init(&output, ends[1], LOG_LEVEL_INFO, LOG_OUTPUT_TEXT), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &output.log), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    const ssize_t len = read(ends[0], text, sizeof(text) - 1);
    assert_true(len > 0);
    text[len] = '\0';
    for (char *at = text; *at != '\0'; lines++) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        assert_memory_equal(end - 4, " end", 4);
        assert_int_equal(end - at, strlen("2026-01-02T03:04:05.678Z info  ") + 36);
        at = end + 1;
    }
    assert_int_equal(lines, THREADS * LINES_EACH);
    assert_int_equal(log_output_dropped(&output), 0);
    log_output_fini(&output);
    assert_int_equal(close(ends[0]) + close(ends[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_and_message),
        cmocka_unit_test(a_line_of_a_trace_has_its_ids),
        cmocka_unit_test(any_time_is_shown),
        cmocka_unit_test(what_is_not_printable_is_escaped),
        cmocka_unit_test(broken_utf8_is_replaced),
        cmocka_unit_test(long_messages_are_cut_whole),
        cmocka_unit_test(a_full_pipe_drops_lines_and_says_so),
        cmocka_unit_test(a_broken_descriptor_only_loses_lines),
        cmocka_unit_test(lines_below_the_level_are_left_out),
        cmocka_unit_test(threads_write_whole_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
