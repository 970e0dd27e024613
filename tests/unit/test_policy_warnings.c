/* test_policy_warnings.c - what good rules probably do not mean, and what is said of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_warnings.h"

static struct policy_warning found[POLICY_WARNINGS_MAX];

static int warnings_of(const char *text)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s", error.line, error.column, error.message);
    const int count = policy_warnings(policy, alloc_heap(), found, POLICY_WARNINGS_MAX);
    policy_free(&policy);
    return count;
}

/* A tenth of 5 is less than one: nothing is above such a limit, and whoever wrote it is told. */
static void a_soft_limit_that_is_hard_is_told(void **state)
{
    (void)state;
    assert_int_equal(warnings_of("rules:\n"
                                 "- name: few\n"
                                 "  key: [user]\n"
                                 "  mode: {soft: {exceed: 10%}}\n"
                                 "  limits: [{rate: 5/h}, {rate: 10/d}]\n"
                                 "- name: own\n"
                                 "  key: [user]\n"
                                 "  limits: [{rate: 3/h, algorithm: sliding_log,"
                                 " mode: {soft: {exceed: 33%}}},"
                                 " {rate: 5/m, burst: 10, mode: {soft: {exceed: 10%}}}]\n"),
                     2);
    assert_int_equal(found[0].line, 2);
    assert_string_equal(found[0].message,
                        "rule few: soft by 10% of 5/h is less than one: the limit is as hard as "
                        "one without it; expected a larger share, or a larger limit");
    assert_int_equal(found[1].line, 6);
    assert_non_null(strstr(found[1].message, "soft by 33% of 3/h"));
}

/* Nine rules that meet are named, by the line of the last; a disabled one is none. */
static void rules_that_can_meet_are_named(void **state)
{
    char text[2048] = "rules:\n";
    size_t len = strlen(text);
    (void)state;
    for (int i = 0; i < 9; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "- {name: r%d, key: [user], limits: [{rate: 5/h}]}\n", i);
    assert_int_equal(warnings_of(text), 1);
    assert_int_equal(found[0].line, 10);
    assert_string_equal(found[0].message,
                        "more than 8 rules with limits can meet on one request as far as their "
                        "conditions tell, which is an error then: r0, r1, r2, r3, r4, r5, r6, r7, "
                        "r8; expected at most 8, or a group, "
                        "of which one acts");
    char *last = strstr(text, "name: r8");
    assert_non_null(last);
    memcpy(last, "enabled: false, name: r8, key: [user], limits: [{rate: 5/h}]}\n", 63);
    assert_int_equal(warnings_of(text), 0);
}

/* The answer has the field whether or not there is something to tell. */
static void the_answer_has_them_as_a_list(void **state)
{
    const struct policy_warning warning = {.line = 7, .message = "hm"};
    uint8_t bytes[64];
    struct mp_writer writer;
    (void)state;
    mp_writer_init(&writer, bytes, sizeof bytes);
    policy_warnings_put(&writer, NULL, 0);
    policy_warnings_put(&writer, &warning, 1);
    assert_false(writer.failed);
    static const char expected[] = "\xa8warnings\x90"
                                   "\xa8warnings\x91\x82\xa4line\x07\xa7message\xa2hm";
    assert_int_equal(writer.len, sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_soft_limit_that_is_hard_is_told),
        cmocka_unit_test(rules_that_can_meet_are_named),
        cmocka_unit_test(the_answer_has_them_as_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
