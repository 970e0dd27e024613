/* test_log.c - levels, the bound of a line, and lines that cannot be forged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

struct capture {
    int lines;
    enum log_level level;
    char last[4096];
};

static void capture_line(void *context, enum log_level level, const char *line)
{
    struct capture *capture = context;
    capture->lines++;
    capture->level = level;
    assert_true(strlen(line) < sizeof(capture->last));
    (void)snprintf(capture->last, sizeof(capture->last), "%s", line);
}

/* A line at or above the level arrives formatted, once, with its level. */
static void a_line_arrives_formatted(void **state)
{
    struct capture capture = {0};
    const struct log log = {LOG_LEVEL_INFO, capture_line, &capture};

    (void)state;
    log_printf(&log, LOG_LEVEL_WARN, "peer %016x left after %d s", 0xabu, 5);
    assert_int_equal(capture.lines, 1);
    assert_int_equal(capture.level, LOG_LEVEL_WARN);
    assert_string_equal(capture.last, "peer 00000000000000ab left after 5 s");
    log_printf(&log, LOG_LEVEL_INFO, "x");
    assert_int_equal(capture.lines, 2);
}

/* Lines below the level, and logs that lead nowhere, cost nothing and write nothing. */
static void lines_below_the_level_are_dropped(void **state)
{
    struct capture capture = {0};
    const struct log log = {LOG_LEVEL_WARN, capture_line, &capture};
    const struct log nowhere = {LOG_LEVEL_DEBUG, NULL, NULL};

    (void)state;
    log_printf(&log, LOG_LEVEL_INFO, "unseen");
    log_printf(NULL, LOG_LEVEL_ERROR, "unseen");
    log_printf(&nowhere, LOG_LEVEL_ERROR, "unseen");
    assert_int_equal(capture.lines, 0);
    assert_false(log_enabled(&log, LOG_LEVEL_INFO));
    assert_true(log_enabled(&log, LOG_LEVEL_WARN));
}

/* 1,023 characters still go out whole; one more is cut and says so. */
static void a_long_line_is_cut_with_dots(void **state)
{
    struct capture capture = {0};
    const struct log log = {LOG_LEVEL_DEBUG, capture_line, &capture};
    char text[2001];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[2000] = '\0';
    log_printf(&log, LOG_LEVEL_INFO, "%.1023s", text);
    assert_int_equal(strlen(capture.last), 1023);
    assert_null(strchr(capture.last, '.'));
    log_printf(&log, LOG_LEVEL_INFO, "%.1024s", text);
    assert_int_equal(strlen(capture.last), 1023);
    assert_string_equal(capture.last + 1019, "x...");
    log_printf(&log, LOG_LEVEL_INFO, "%s", text);
    assert_string_equal(capture.last + 1019, "x...");
}

/* The cut never leaves half of a character, wherever in it the bound falls. */
static void a_cut_does_not_split_a_character(void **state)
{
    struct capture capture = {0};
    const struct log log = {LOG_LEVEL_DEBUG, capture_line, &capture};
    char text[1205];

    (void)state;
    for (int i = 0; i < 400; i++)
        memcpy(text + 3 * i, "\xe2\x82\xac", 3); /* the euro sign */
    text[1200] = '\0';
    for (int shift = 0; shift < 3; shift++) {
        log_printf(&log, LOG_LEVEL_INFO, "%.*s%s", shift, "abc", text);
        const size_t len = strlen(capture.last);
        assert_in_range(len, 1021, 1023);
        assert_int_equal((len - 3 - (size_t)shift) % 3, 0);
        assert_string_equal(capture.last + len - 6, "\xe2\x82\xac...");
    }
}

/* A newline in an argument cannot start a second line of the attacker's choice. */
static void control_characters_become_spaces(void **state)
{
    struct capture capture = {0};
    const struct log log = {LOG_LEVEL_DEBUG, capture_line, &capture};

    (void)state;
    log_printf(&log, LOG_LEVEL_INFO, "rule %s", "a\nerror: all is lost\r\x1b[2J\x7f caf\xc3\xa9");
    assert_string_equal(capture.last, "rule a error: all is lost  [2J  caf\xc3\xa9");
}

/* Each level's name is parsed to it; nothing else is a level. */
static void level_names_and_levels_match(void **state)
{
    enum log_level level = LOG_LEVEL_INFO;

    (void)state;
    for (int i = LOG_LEVEL_DEBUG; i <= LOG_LEVEL_ERROR; i++) {
        assert_int_equal(log_level_parse(log_level_name((enum log_level)i), &level), 0);
        assert_int_equal(level, i);
    }
    assert_int_equal(log_level_parse("warn", &level), 0);
    assert_int_equal(level, LOG_LEVEL_WARN);
    assert_int_equal(log_level_parse("warning", &level), TG_EINVALID);
    assert_int_equal(log_level_parse("WARN", &level), TG_EINVALID);
    assert_int_equal(log_level_parse("", &level), TG_EINVALID);
    assert_int_equal(level, LOG_LEVEL_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_arrives_formatted),
        cmocka_unit_test(lines_below_the_level_are_dropped),
        cmocka_unit_test(a_long_line_is_cut_with_dots),
        cmocka_unit_test(a_cut_does_not_split_a_character),
        cmocka_unit_test(control_characters_become_spaces),
        cmocka_unit_test(level_names_and_levels_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
