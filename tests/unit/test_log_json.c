/* test_log_json.c - one JSON object a line: values at wanted paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_log.h"

enum { SLOTS = 4 };

static const struct log_json_path paths[] = {
    {"a", 1, 0, 0}, {"b.c", 3, 1, 0}, {"first", 5, 2, 0}, {"second", 6, 2, 1}, {"b.d.e", 5, 3, 0}};
static struct log_scratch scratch;
static struct log_json_value values[SLOTS];
static struct log_problem problem;

static int read_into(const char *text, struct log_problem *out)
{
    scratch.used = 0;
    return log_json_read(text, strlen(text), paths, sizeof paths / sizeof *paths, &scratch, values,
                         SLOTS, out);
}

static int read_text(const char *text)
{
    return read_into(text, &problem);
}

static void expect(size_t slot, const char *wanted)
{
    log_expect_text(values[slot].text, wanted);
}

/* Values are found at their paths, and nowhere else. */
static void values_are_found_at_their_paths(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("{\"a\": 1.5, \"b\": {\"c\": true, \"d\": {\"e\": \"x\"}, \"a\": 9}, "
                  "\"l\": [{\"a\": 7}, [\"b\"], {\"b\": {\"c\": 8}}]}"),
        0);
    expect(0, "1.5");
    expect(1, "true");
    expect(2, "");
    expect(3, "x");
    assert_int_equal(read_text("{\"b\": [{\"c\": 8}, [{\"c\": 9}]], \"a\": [1, {\"a\": 2}]}"), 0);
    expect(0, "");
    expect(1, "");
}

/* Of several names of one field the first in the table wins, however the line is ordered; one whose
 * value says nothing gives way. */
static void the_preferred_name_of_a_field_wins(void **state)
{
    (void)state;
    assert_int_equal(read_text("{\"second\": \"2\", \"first\": \"1\"}"), 0);
    expect(2, "1");
    assert_int_equal(read_text("{\"first\": \"1\", \"second\": \"2\"}"), 0);
    expect(2, "1");
    assert_int_equal(read_text("{\"first\": null, \"second\": \"2\"}"), 0);
    expect(2, "2");
    assert_int_equal(read_text("{\"first\": \"-\", \"second\": \"2\"}"), 0);
    expect(2, "2");
}

/* Escapes of JSON stand for their characters, pairs of surrogates included. */
static void escapes_are_resolved(void **state)
{
    (void)state;
    assert_int_equal(read_text("{\"a\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac"
                               "\\ud83d\\ude00\\ud83dx\"}"),
                     0);
    expect(0, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbdx");
}

/* What is no object is refused at the byte where it ceases to be one. */
static void what_is_no_object_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct log_refusal refusals[] = {
        {"", 1, "a JSON object"},
        {"[1]", 1, "a JSON object"},
        {"{", 2, "a key"},
        {"{\"a\"}", 5, "a colon"},
        {"{\"a\": }", 7, "a JSON value"},
        {"{\"a\": tru}", 7, "a JSON value"},
        {"{\"a\": \"x}", 10, "the end of this string"},
        {"{\"a\": 1 \"b\": 2}", 9, "a comma or }"},
        {"{\"a\": 1,}", 9, "a key"},
        {"{\"a\": [1,]}", 10, "a JSON value"},
        {"{\"a\": [1 2]}", 10, "a comma or ]"},
        {"{\"a\": 1} x", 10, "the end of the line"},
    };
    log_expect_refusals(refusals, sizeof refusals / sizeof *refusals, read_into);
}

/* Nesting is bounded: a line of a thousand brackets ends no program. */
static void nesting_is_bounded(void **state)
{
    (void)state;
    char text[1024];
    memset(text, '[', sizeof text);
    memcpy(text, "{\"a\":", 5);
    text[sizeof text - 1] = '\0';
    assert_int_equal(read_text(text), TG_EINVALID);
    assert_non_null(strstr(problem.expected, "at most 32"));
}

/* Cut anywhere, an object is refused, and nothing behind its end is looked at. */
static void an_object_cut_anywhere_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": \"\\ud83d\\ude00\", \"b\": {\"c\": [1, {\"x\": null}]}}";
    char copy[sizeof text];
    for (size_t len = 0; len + 1 < sizeof text; len++) {
        memset(copy, '}', sizeof copy);
        memcpy(copy, text, len);
        scratch.used = 0;
        assert_int_equal(log_json_read(copy, len, paths, 5, &scratch, values, SLOTS, &problem),
                         TG_EINVALID);
        assert_true(problem.column >= 1 && problem.column <= len + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_at_their_paths),
        cmocka_unit_test(the_preferred_name_of_a_field_wins),
        cmocka_unit_test(escapes_are_resolved),
        cmocka_unit_test(what_is_no_object_is_refused_with_its_place),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(an_object_cut_anywhere_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
