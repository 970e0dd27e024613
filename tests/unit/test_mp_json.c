/* test_mp_json.c - msgpack values as JSON: whatever the value, what is written is JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp_json.h"
#include "base/mp_walk.h"

enum { TEXT = 1024, TOKENS = 64 };

static void put(void *text, const char *data, size_t len)
{
    char *end = (char *)text + strlen(text);
    assert_true(strlen(text) + len < TEXT);
    memcpy(end, data, len);
    end[len] = '\0';
}

static void assert_json(const void *data, size_t len, const char *expected)
{
    struct mp_token tokens[TOKENS];
    char text[TEXT] = "";
    const struct mp_sink sink = {put, text};
    const int count = mp_parse(data, len, tokens, TOKENS);
    assert_true(count > 0);
    mp_json(&sink, tokens, (size_t)count);
    assert_string_equal(text, expected);
}

/* Containers in containers, empty ones, and keys that are no strings. */
static void values_of_each_kind_are_written(void **state)
{
    (void)state;
    assert_json("\x84\xa1"
                "a\x93\x01\xff\xc0\xa1"
                "b\x80\x05\x90\xc3\xc2",
                14, "{\"a\":[1,-1,null],\"b\":{},\"5\":[],\"true\":false}");
    assert_json("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, "18446744073709551615");
    assert_json("\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a", 9, "0.1");
    assert_json("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", 9, "null");
    assert_json("\xc4\x02\x1f\x8b", 4, "\"1f8b\"");
    assert_json("\xd4\x01\x00", 3, "null");
}

/* Nothing in a string ends it, moves a cursor or is refused by a reader of JSON or YAML. */
static void strings_stay_strings(void **state)
{
    (void)state;
    assert_json("\xaa\"\\\n\t\x1b\x7f\xc3\xa9z/", 11, "\"\\\"\\\\\\n\\t\\u001b\\u007f\xc3\xa9z/\"");
    assert_json("\xa4\xff\xc2\x85\x80", 5, "\"\xef\xbf\xbd\\u0085\xef\xbf\xbd\"");
    assert_json("\xa3\xef\xbf\xbf", 4, "\"\\uffff\"");
}

/* The front of a value, as of an answer that was cut, leaves its containers open. */
static void a_part_is_written_as_far_as_it_goes(void **state)
{
    struct mp_token tokens[TOKENS];
    char text[TEXT] = "";
    const struct mp_sink sink = {put, text};
    (void)state;
    assert_int_equal(mp_parse("\x92\x01\x92\x02\x03", 5, tokens, TOKENS), 5);
    assert_int_equal(mp_value_len(tokens + 1, 4), 1);
    assert_int_equal(mp_value_len(tokens + 2, 3), 3);
    assert_int_equal(mp_value_len(tokens + 2, 2), 2);
    mp_json(&sink, tokens, 4);
    assert_string_equal(text, "[1,[2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_each_kind_are_written),
        cmocka_unit_test(strings_stay_strings),
        cmocka_unit_test(a_part_is_written_as_far_as_it_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
