/* test_json_reader.c - JSON read piece by piece, beside jansson, and what its mistakes say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/random.h"
#include "node/gateway/api/json_reader.h"

enum { TEXT_MAX = 512, ROUNDS = 200000 };

static char room[4096];

static void begin(struct json_reader *reader, const char *text, size_t len)
{
    json_reader_begin(reader, text, len, room, sizeof room);
}

/* ---- beside jansson -------------------------------------------------------------------------- */

static bool same_as(struct json_reader *reader, const json_t *value);

static bool same_object(struct json_reader *reader, const json_t *value)
{
    struct wire_text key;
    size_t count = 0;
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &key)) {
        const json_t *member = json_object_getn(value, key.data, key.len);
        if (member == NULL || !same_as(reader, member))
            return false;
        count++;
    }
    return !reader->failed && count == json_object_size(value);
}

static bool same_list(struct json_reader *reader, const json_t *value)
{
    size_t count = 0;
    if (!json_open_list(reader))
        return false;
    while (json_next_element(reader)) {
        const json_t *element = json_array_get(value, count++);
        if (element == NULL || !same_as(reader, element))
            return false;
    }
    return !reader->failed && count == json_array_size(value);
}

/* Whether what comes next is the value. */
static bool same_as(struct json_reader *reader, const json_t *value)
{
    struct wire_text text;
    uint64_t number;
    bool flag;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return same_object(reader, value);
    case JSON_ARRAY:
        return same_list(reader, value);
    case JSON_STRING:
        return json_take_text(reader, &text) && text.len == json_string_length(value) &&
               memcmp(text.data, json_string_value(value), text.len) == 0;
    case JSON_INTEGER:
        return json_take_unsigned(reader, INT64_MAX, &number) &&
               number == (uint64_t)json_integer_value(value);
    case JSON_TRUE:
    case JSON_FALSE:
        return json_take_flag(reader, &flag) && flag == json_is_true(value);
    case JSON_NULL:
        return json_take_null(reader);
    default:
        return false;
    }
}

/* Whether the reader takes kinds that JSON has and it does not: fractions, what is below 0. */
static bool has_other_numbers(const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_real(value) || (json_is_integer(value) && json_integer_value(value) < 0))
        return true;
    json_object_foreach((json_t *)value, key, member)
    {
        if (has_other_numbers(member))
            return true;
    }
    json_array_foreach(value, i, member)
    {
        if (has_other_numbers(member))
            return true;
    }
    return false;
}

static size_t random_text(struct random *random, char *out)
{
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"a\"",
                                         "\"\"",
                                         "\"\\n\\u00e9\"",
                                         "1",
                                         "-1",
                                         "0",
                                         "01",
                                         "18",
                                         "1.",
                                         "1e3",
                                         "true",
                                         "false",
                                         "null",
                                         "\"\xc3",
                                         "\"b\":",
                                         "\"\\ud83d\\ude00\"",
                                         " ",
                                         "\n",
                                         "\"\\ud83d\"",
                                         "\"\t\"",
                                         "x",
                                         "{\"a\":1}",
                                         "[1,2]",
                                         "\"c\":",
                                         "\"a\":",
                                         "[]",
                                         "{}",
                                         "\"\\u0000\"",
                                         "9223372036854775807"};
    size_t len = 0;
    const uint64_t count = 1 + random_below(random, 12);
    for (uint64_t i = 0; i < count; i++) {
        const char *piece = pieces[random_below(random, sizeof pieces / sizeof *pieces)];
        memcpy(out + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

/* One of the texts that are mostly right: a document with a byte changed, or none. */
static size_t spoiled_text(struct random *random, char *out)
{
    static const char document[] =
        "{\"checks\": [{\"attributes\": {\"user\": \"ada\", \"n\": 42, \"t\": true}, \"cost\": 3},"
        " {\"key\": \"\\u00e9\\ud83d\\ude00\\\"\", \"rate\": \"5/60s\", \"burst\": null}, [], {}]}";
    memcpy(out, document, sizeof document - 1);
    if (random_below(random, 4) != 0)
        out[random_below(random, sizeof document - 1)] = (char)(1 + random_below(random, 255));
    return sizeof document - 1;
}

/* Both take a text or both refuse it, and then they have read the same. */
static void reads_what_jansson_reads(void **state)
{
    (void)state;
    struct random random;
    unsigned taken = 0;
    random_init(&random, 5);
    for (unsigned n = 0; n < ROUNDS; n++) {
        char text[TEXT_MAX];
        struct json_reader reader;
        json_error_t error;
        const size_t len = n % 2 == 0 ? random_text(&random, text) : spoiled_text(&random, text);
        json_t *value = json_loadb(
            text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
        begin(&reader, text, len);
        if (value != NULL && !has_other_numbers(value)) {
            if (!same_as(&reader, value) || !json_reader_end(&reader))
                fail_msg("%.*s: %s", (int)len, text, reader.error);
            taken++;
        }
        json_decref(value);
    }
    assert_true(taken > ROUNDS / 10);
}

/* Reads whatever comes, to its end. False: it is no JSON of whole numbers. */
static bool read_any(struct json_reader *reader)
{
    struct wire_text text;
    unsigned depth = 0;
    bool list[JSON_DEPTH_MAX + 1];
    do {
        const enum json_kind kind = json_next_kind(reader);
        if (kind == JSON_KIND_OBJECT || kind == JSON_KIND_LIST) {
            list[depth] = kind == JSON_KIND_LIST;
            if (!(list[depth] ? json_open_list(reader) : json_open_object(reader)))
                return false;
            depth++;
        } else if (!json_take_null(reader) && !json_take_scalar(reader, &text)) {
            return false;
        }
        while (depth > 0 &&
               !(list[depth - 1] ? json_next_element(reader) : json_next_member(reader, &text))) {
            if (reader->failed)
                return false;
            depth--;
        }
    } while (depth > 0);
    return json_reader_end(reader);
}

/* What jansson refuses is refused, but for a member that is there twice, and numbers of any length.
 */
static void refuses_what_jansson_refuses(void **state)
{
    (void)state;
    struct random random;
    unsigned refused = 0;
    random_init(&random, 6);
    for (unsigned n = 0; n < ROUNDS; n++) {
        char text[TEXT_MAX];
        struct json_reader reader;
        json_error_t error;
        const size_t len = n % 2 == 0 ? random_text(&random, text) : spoiled_text(&random, text);
        json_t *value = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        begin(&reader, text, len);
        const bool taken = read_any(&reader);
        if (taken && value == NULL && strstr(error.text, "too big") == NULL)
            fail_msg("%.*s: %s", (int)len, text, error.text);
        assert_true(taken || reader.error[0] != '\0');
        assert_int_equal(taken, !reader.failed);
        refused += !taken;
        json_decref(value);
    }
    assert_true(refused > ROUNDS / 10);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void expect_error(const char *text, size_t len, const char *error)
{
    struct json_reader reader;
    begin(&reader, text, len);
    assert_false(read_any(&reader));
    assert_string_equal(reader.error, error);
}

#define EXPECT(text, error) expect_error(text, sizeof(text) - 1, error)

static void a_mistake_names_its_place(void **state)
{
    (void)state;
    EXPECT("", "found the end of the body at byte 1, expected a string, a whole number, true or "
               "false");
    EXPECT("{\"a\":[1,{\"b\":1.5}]}", "a[1].b: found a number that is not whole, or not written as "
                                      "JSON has it, at byte 14, expected a whole one");
    EXPECT("{\"a\":1 \"b\":2}", "a: found '\"' at byte 8, expected a comma or }");
    EXPECT("{\"a\":{\"b\":1,c:2}}", "a: found 'c' at byte 13, expected a key in quotes");
    EXPECT("{\"a\"=1}", "a: found '=' at byte 5, expected a colon behind the key");
    EXPECT("[1,2", "[1]: found the end of the body at byte 5, expected a comma or ]");
    EXPECT("[1]2", "found '2' at byte 4, expected the end of the body");
    EXPECT("[\"a\nb\"]",
           "[0]: found the byte 0x0a at byte 4, expected no control character within a string");
    EXPECT("[\"\xff\"]", "[0]: found the byte 0xff at byte 3, expected UTF-8");
    EXPECT("[\"\xed\xa0\x80\"]", "[0]: found the byte 0xed at byte 3, expected UTF-8");
    EXPECT("[\"\xc0\xaf\"]", "[0]: found the byte 0xc0 at byte 3, expected UTF-8");
    EXPECT("[\"\\x\"]", "[0]: found 'x' at byte 4, expected one of \" \\ / b f n r t u behind a "
                        "backslash");
    EXPECT("[\"\\u12g4\"]", "[0]: found '\\' at byte 3, expected \\u and four hexadecimal digits");
    EXPECT("[\"\\ud800\"]", "[0]: found half of a surrogate pair before byte 9, expected both");
    EXPECT("[\"\\ud800\\u0041\"]",
           "[0]: found half of a surrogate pair before byte 15, expected both");
    EXPECT("[[[[[[[[[", "[0][0][0][0][0][0][0][0]: found more than 8 objects and lists inside each "
                        "other");
    EXPECT("{\"a\x01\":1}",
           "found the byte 0x01 at byte 4, expected no control character within a string");
}

/* Whoever reads asks for what is to come, and is told what came instead. */
static void another_kind_is_named(void **state)
{
    (void)state;
    struct json_reader reader;
    struct wire_text text;
    uint64_t number;
    bool flag;
    begin(&reader, "[{}]", 4);
    assert_true(json_open_list(&reader) && json_next_element(&reader));
    assert_false(json_take_text(&reader, &text));
    assert_string_equal(reader.error, "[0]: found an object, expected a string");
    assert_false(json_next_element(&reader)); /* JSONREADER-2 */
    begin(&reader, "\"x\"", 3);
    assert_false(json_take_unsigned(&reader, 5, &number));
    assert_string_equal(reader.error, "found a string, expected a whole number");
    begin(&reader, "6", 1);
    assert_false(json_take_unsigned(&reader, 5, &number));
    assert_string_equal(reader.error, "found 6, expected a whole number from 0 to 5");
    begin(&reader, "-1", 2);
    assert_false(json_take_unsigned(&reader, 5, &number));
    assert_string_equal(reader.error, "found -1, expected a whole number from 0 to 5");
    begin(&reader, "18446744073709551616", 20);
    assert_false(json_take_unsigned(&reader, UINT64_MAX, &number));
    begin(&reader, "9999999999999999999", 19);
    assert_true(json_take_unsigned(&reader, UINT64_MAX, &number));
    assert_true(number == UINT64_C(9999999999999999999));
    begin(&reader, "tru", 3);
    assert_false(json_take_flag(&reader, &flag));
    begin(&reader, "null", 4);
    assert_false(json_open_object(&reader));
    assert_string_equal(reader.error, "found null, expected an object");
}

/* Strings with escapes are put into the caller's room, which bounds them. */
static void a_room_that_is_too_small_is_a_mistake(void **state)
{
    (void)state;
    struct json_reader reader;
    struct wire_text text;
    static const char long_text[] = "\"abcdef\\n\"";
    json_reader_begin(&reader, long_text, sizeof long_text - 1, room, 7);
    assert_true(json_take_text(&reader, &text));
    assert_int_equal(text.len, 7);
    json_reader_begin(&reader, long_text, sizeof long_text - 1, room, 6);
    assert_false(json_take_text(&reader, &text));
    assert_string_equal(reader.error, "found a string with escapes that is too long, expected at "
                                      "most 6 bytes of such");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_jansson_reads),
        cmocka_unit_test(refuses_what_jansson_refuses),
        cmocka_unit_test(a_mistake_names_its_place),
        cmocka_unit_test(another_kind_is_named),
        cmocka_unit_test(a_room_that_is_too_small_is_a_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
