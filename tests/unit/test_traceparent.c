/* test_traceparent.c - the field that names a trace: a table of cases, and a naive reading of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/gateway/trace/traceparent.h"
#include "tests/unit/support_effort.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"
#define GOOD  "00-" TRACE "-" SPAN "-01"

enum { ROUNDS = 400000, LONGEST = 80 };

static bool read_text(const char *text, struct traceparent *out)
{
    return traceparent_read(text, strlen(text), out);
}

static void a_valid_field_tells_trace_span_and_sampling(void **state)
{
    struct traceparent parent;
    char digits[2 * TRACE_ID_BYTES + 1];
    (void)state;
    assert_true(read_text(GOOD, &parent));
    assert_string_equal(trace_digits(parent.trace, TRACE_ID_BYTES, digits), TRACE);
    assert_string_equal(trace_digits(parent.span, TRACE_SPAN_BYTES, digits), SPAN);
    assert_true(parent.sampled);
}

static const struct {
    const char *text;
    bool valid;
    bool sampled;
} cases[] = {
    {GOOD, true, true},
    {"00-" TRACE "-" SPAN "-00", true, false},
    {"00-" TRACE "-" SPAN "-02", true, false}, /* another flag alone */
    {"00-" TRACE "-" SPAN "-03", true, true},
    {"00-" TRACE "-" SPAN "-ff", true, true},
    {"00-" TRACE "-" SPAN "-fe", true, false},
    {"01-" TRACE "-" SPAN "-01", true, true},              /* a later version, */
    {"cc-" TRACE "-" SPAN "-01-what-follows", true, true}, /* with more behind it, */
    {"cc-" TRACE "-" SPAN "-01-", true, true},
    {"fe-" TRACE "-" SPAN "-00", true, false},
    {"cc-" TRACE "-" SPAN "-01.what-follows", false, false}, /* which begins with a dash */
    {"cc-" TRACE "-" SPAN "-011", false, false},
    {"ff-" TRACE "-" SPAN "-01", false, false},
    {"00-" TRACE "-" SPAN "-01-", false, false}, /* of version 0 there is no more */
    {"00-" TRACE "-" SPAN "-01-x", false, false},
    {"00-" TRACE "-" SPAN "-01 ", false, false},
    {" " GOOD, false, false},
    {"00-00000000000000000000000000000000-" SPAN "-01", false, false},
    {"00-" TRACE "-0000000000000000-01", false, false},
    {"00-00000000000000000000000000000001-0000000000000001-01", true, true},
    {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", false, false}, /* capitals */
    {"00-" TRACE "-00F067AA0BA902B7-01", false, false},
    {"00-" TRACE "-" SPAN "-0A", false, false},
    {"0A-" TRACE "-" SPAN "-01", false, false},
    {"00-" TRACE "-" SPAN "-0g", false, false},
    {"00-" TRACE "-" SPAN "-1", false, false},
    {"00-" TRACE "-" SPAN, false, false},
    {"00_" TRACE "-" SPAN "-01", false, false},
    {"00-" TRACE "_" SPAN "-01", false, false},
    {"00-" TRACE "-" SPAN "_01", false, false},
    {"000" TRACE "-" SPAN "-01", false, false},
    {"00-" TRACE "0" SPAN "-01", false, false},
    {"00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01x", false, false},
    {"", false, false},
    {"-", false, false},
    {"0", false, false},
    {GOOD "," GOOD, false, false},
};

static void each_case_of_the_table_is_read_as_the_standard_has_it(void **state)
{
    struct traceparent parent;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool valid = read_text(cases[i].text, &parent);
        if (valid != cases[i].valid || (valid && parent.sampled != cases[i].sampled))
            fail_msg("%s", cases[i].text);
    }
}

/* The standard once more, as slowly as one can: part by part. */
static bool naive(const char *text, size_t len, bool *sampled)
{
    static const char digits[] = "0123456789abcdef";
    static const size_t lens[] = {2, 32, 16, 2};
    char parts[4][40] = {{0}};
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        for (size_t i = 0; i < lens[part]; i++, at++) {
            if (at >= len || text[at] == '\0' || strchr(digits, text[at]) == NULL)
                return false;
            parts[part][i] = text[at];
        }
        if (part < 3 && (at >= len || text[at++] != '-'))
            return false;
    }
    if (strcmp(parts[0], "ff") == 0 || strspn(parts[1], "0") == 32 || strspn(parts[2], "0") == 16)
        return false;
    if (at < len && (strcmp(parts[0], "00") == 0 || text[at] != '-'))
        return false;
    *sampled = strchr("13579bdf", parts[3][1]) != NULL;
    return true;
}

static void what_is_nearly_valid_is_read_as_a_naive_reader_does(void **state)
{
    static const char letters[] = "0123456789abcdefABCDEF-,g \xff";
    struct random random;
    uint32_t valid = 0;
    (void)state;
    random_init(&random, 7);
    for (int round = 0; round < EFFORT(ROUNDS); round++) {
        char text[LONGEST] = GOOD "-more-of-it";
        struct traceparent parent = {.sampled = false};
        bool sampled = false;
        size_t len = random_below(&random, 4) > 0 ? TRACEPARENT_LEN : random_below(&random, 64);
        for (uint64_t i = random_below(&random, 4); i > 0; i--)
            text[random_below(&random, 60)] = letters[random_below(&random, sizeof letters)];
        if (random_below(&random, 16) == 0)
            memset(text + 3, '0', 32);
        if (random_below(&random, 16) == 0)
            memset(text + 36, '0', 16);
        const bool expected = naive(text, len, &sampled);
        valid += expected;
        assert_int_equal(traceparent_read(text, len, &parent), expected);
        assert_true(!expected || parent.sampled == sampled);
    }
    assert_true(valid > EFFORT(ROUNDS) / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_field_tells_trace_span_and_sampling),
        cmocka_unit_test(each_case_of_the_table_is_read_as_the_standard_has_it),
        cmocka_unit_test(what_is_nearly_valid_is_read_as_a_naive_reader_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
