/* test_log_source.c - the lines of a log file, plain or compressed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/cli/replay/log_source.h"
#include "client/replay/log_line.h"
#include "tests/unit/support_scratch.h"

enum { CONTENT_MAX = 3000000 };

static char path[SCRATCH_PATH_LEN];
static char content[CONTENT_MAX];

static int make_file(void **state)
{
    (void)state;
    return scratch_file(path, "tidegate-log-source");
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_content(size_t len, bool compressed)
{
    gzFile file = gzopen(path, compressed ? "wb" : "wbT");
    assert_non_null(file);
    if (len > 0)
        assert_int_equal(gzwrite(file, content, (unsigned)len), len);
    assert_int_equal(gzclose(file), Z_OK);
}

/* Lines of every length, also at the ends of the buffer, come as they are, with or without
 * compression, and whether or not the last one is ended. */
static void lines_come_as_they_were_written(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        struct log_source source;
        struct random random;
        size_t len = 0;
        size_t line_len;
        const char *text;
        random_init(&random, 41);
        for (uint64_t i = 0; len + LOG_LINE_MAX + 1 < CONTENT_MAX; i++) {
            line_len = random_below(&random, 4) == 0 ? random_below(&random, LOG_LINE_MAX)
                                                     : random_below(&random, 200);
            memset(content + len, (int)('a' + i % 26), line_len);
            content[len + line_len] = '\n';
            len += line_len + 1;
        }
        len -= round % 2 == 0;
        write_content(len, round >= 2);
        assert_int_equal(log_source_open(&source, path), 0);
        random_init(&random, 41);
        size_t seen = 0;
        uint64_t lines = 0;
        while (log_source_line(&source, &text, &line_len)) {
            assert_true(seen + line_len <= len);
            assert_memory_equal(text, content + seen, line_len);
            assert_true(seen + line_len == len || content[seen + line_len] == '\n');
            assert_int_equal(source.line, ++lines);
            seen += line_len + 1;
        }
        assert_true(seen == len || seen == len + 1);
        assert_int_equal(source.bytes, len);
        assert_false(source.failed);
        log_source_close(&source);
    }
}

/* A line that is too long is given cut, once, and the next one is whole. */
static void a_line_that_is_too_long_is_given_cut(void **state)
{
    (void)state;
    struct log_source source;
    const char *text;
    size_t len;
    memset(content, 'x', 1000000);
    memcpy(content, "first\r\n", 7);
    memcpy(content + 999990, "\nlast\n", 6);
    write_content(999996, false);
    assert_int_equal(log_source_open(&source, path), 0);
    assert_true(log_source_line(&source, &text, &len));
    assert_int_equal(len, 5); /* without the carriage return */
    assert_true(log_source_line(&source, &text, &len));
    assert_int_equal(len, LOG_LINE_MAX + 1);
    assert_true(log_source_line(&source, &text, &len));
    assert_int_equal(len, 4);
    assert_memory_equal(text, "last", 4);
    assert_int_equal(source.line, 3);
    assert_false(log_source_line(&source, &text, &len));
    assert_false(source.failed);
    log_source_close(&source);
}

/* Compressed data that break off give what was in them, and the reason of the end. */
static void compressed_data_that_break_off_say_so(void **state)
{
    (void)state;
    struct log_source source;
    struct random random;
    const char *text;
    size_t len;
    random_init(&random, 42);
    for (size_t i = 0; i < 500000; i++)
        content[i] = i % 50 == 49 ? '\n' : (char)('a' + random_below(&random, 26));
    write_content(500000, true);
    assert_int_equal(truncate(path, 100000), 0);
    assert_int_equal(log_source_open(&source, path), 0);
    uint64_t lines = 0;
    while (log_source_line(&source, &text, &len))
        lines++;
    assert_true(lines > 1000 && lines < 10000);
    assert_true(source.failed);
    assert_string_equal(source.sentence, "the compressed data are cut off");
    log_source_close(&source);
}

/* An empty file has no lines; a folder and a file that is not there are refused with the reason. */
static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct log_source source;
    const char *text;
    size_t len;
    write_content(0, false);
    assert_int_equal(log_source_open(&source, path), 0);
    assert_false(log_source_line(&source, &text, &len));
    assert_false(source.failed);
    log_source_close(&source);
    assert_int_equal(log_source_open(&source, scratch_root()), TG_EINVALID);
    assert_string_equal(source.sentence, "it is a directory");
    assert_int_equal(log_source_open(&source, "/nowhere/at/all"), TG_EINVALID);
    assert_string_equal(source.sentence, "No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_as_they_were_written),
        cmocka_unit_test(a_line_that_is_too_long_is_given_cut),
        cmocka_unit_test(compressed_data_that_break_off_say_so),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
