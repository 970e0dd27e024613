/* test_policy_errors.c - all that is wrong with a rules file is found at once, each at its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <string.h>

#include "base/mp.h"
#include "base/random.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_errors.h"

static struct policy_errors errors;

static void find(const char *text)
{
    policy_errors_find(text, strlen(text), alloc_heap(), NULL, &errors);
}

static void assert_error(uint32_t at, uint32_t line, uint32_t column, const char *part)
{
    assert_true(at < errors.count);
    if (errors.list[at].line != line || errors.list[at].column != column ||
        strstr(errors.list[at].message, part) == NULL)
        fail_msg("error %u is %u:%u: %s; expected %u:%u: %s", at, errors.list[at].line,
                 errors.list[at].column, errors.list[at].message, line, column, part);
}

/* Whoever mends a file of many rules is told of each part of each rule. */
static void every_part_that_is_wrong_is_listed_in_the_order_of_lines(void **state)
{
    (void)state;
    find("unmatched: perhaps\n"
         "attributes: {ip: nonsense}\n"
         "pools:\n"
         "  spare: {rate: none}\n"
         "tiers:\n"
         "  gold: {limits: [{rate: 5/parsec}]}\n"
         "rules:\n"
         "  - name: a\n"
         "    kee: [user]\n"
         "    priority: high\n"
         "    match: {api: [/a, {b: 1}]}\n"
         "    limits: [{rate: 5/h, brust: 3}, {rate: often}]\n"
         "  - key: [user]\n"
         "    limits: [{rate: 5/h, mode: {elastic: {pool: spare}}}]\n"
         "    response: {status: many}\n"
         "  - {name: good, key: [user], limits: [{rate: 5/h}]}\n"
         "  - {name: good, key: [user], limits: [{rate: 5/h}]}\n"
         "rlues: []\n");
    assert_int_equal(errors.count, 13);
    assert_int_equal(errors.more, 0);
    assert_error(0, 1, 12, "unmatched: found \"perhaps\"");
    assert_error(1, 2, 18, "found \"nonsense\"");
    assert_error(2, 4, 17, "rate");
    assert_error(3, 6, 26, "5/parsec");
    assert_error(4, 9, 5, "found unknown key \"kee\"");
    assert_error(5, 10, 15, "priority: found \"high\"");
    assert_error(6, 11, 23, "match");
    assert_error(7, 12, 26, "found unknown key \"brust\"");
    assert_error(8, 12, 44, "often");
    assert_error(9, 13, 5, "found no key \"name\"");
    assert_error(10, 15, 24, "status");
    assert_error(11, 17, 12, "found a second rule \"good\"");
    assert_error(12, 18, 1, "found unknown key \"rlues\"");
}

/* A sentence about parts that were refused would send people the wrong way. */
static void what_hangs_on_a_refused_part_is_not_told(void **state)
{
    (void)state;
    find("rules:\n"
         "  - {name: a, action: wlalow, response: {status: 429}}\n");
    assert_int_equal(errors.count, 1); /* not: no key, no limits */
    assert_error(0, 2, 23, "action: found \"wlalow\"");
}

/* The list is bounded, and what is left out is counted. */
static void more_than_can_be_listed_is_counted(void **state)
{
    char text[8192] = "rules:\n";
    (void)state;
    for (int i = 0; i < 50; i++) {
        const size_t len = strlen(text);
        (void)snprintf(text + len, sizeof text - len, "  - {name: r%d, kee: [user]}\n", i);
    }
    find(text);
    assert_int_equal(errors.count, POLICY_ERRORS_MAX);
    assert_int_equal(errors.more, 50 - POLICY_ERRORS_MAX);
}

/* Of what is no YAML, or good, or binds no zone, there is one error, none, one. */
static void one_error_and_none_are_told_as_ever(void **state)
{
    (void)state;
    find("rules: [");
    assert_int_equal(errors.count, 1);
    find("rules: []");
    assert_int_equal(errors.count, 0);
    find("rules: [{name: a, key: [user], limits: [{rate: 5/day, algorithm: fixed_window, align: "
         "calendar, timezone: Mars/Olympus}]}]");
    assert_int_equal(errors.count, 1);
}

/* The first error that compiling tells is among those listed, whatever the damage; and going on
 * behind it never reads what is not there. */
static void damaged_files_list_what_compiling_tells(void **state)
{
    static const char good[] =
        "unmatched: allow\nattributes: {org: verbatim}\npools: {spare: {rate: 5/s}}\n"
        "tiers: {gold: {limits: [{rate: 5/h}]}}\nrules:\n"
        "  - name: a\n    priority: 3\n    match: {api: /a/*, method: [GET, POST], ip: "
        "10.0.0.0/8}\n"
        "    key: [user, ip]\n    ipv6_prefix: 64\n    mode: {soft: 10%}\n    on_failure: {local: "
        "{share: 50%}}\n    limits: [{rate: 5/h, burst: 7}, {count: 3, timeout: 5s, algorithm: "
        "concurrency}]\n    response: {status: 429, message: no}\n"
        "  - {name: b, action: block, match: {user: [x, y]}, shadow: true}\n";
    static const char letters[] = "{}[]:,-x9 \n#&*%'\"";
    struct random random;
    char text[sizeof good];
    (void)state;
    random_init(&random, 42);
    for (int round = 0; round < 20000; round++) {
        struct policy_error first;
        struct policy *policy;
        bool found = false;
        memcpy(text, good, sizeof good);
        for (uint64_t i = 0; i <= random_below(&random, 4); i++)
            text[random_below(&random, sizeof good - 1)] =
                letters[random_below(&random, sizeof letters - 1)];
        const int result = policy_compile(text, sizeof good - 1, alloc_heap(), &policy, &first);
        policy_free(&policy);
        find(text);
        assert_int_equal(errors.count > 0, result != 0);
        for (uint32_t i = 0; i < errors.count; i++)
            found = found || (errors.list[i].line == first.line &&
                              strcmp(errors.list[i].message, first.message) == 0);
        assert_int_equal(found, result != 0 || errors.more > 0);
    }
}

/* A list that is written takes no more than was said. */
static void what_is_written_is_bounded(void **state)
{
    static uint8_t bytes[POLICY_ERRORS_PUT_MAX];
    struct mp_writer writer;
    (void)state;
    memset(&errors, 0, sizeof errors);
    errors.count = POLICY_ERRORS_MAX;
    errors.more = UINT32_MAX;
    for (uint32_t i = 0; i < POLICY_ERRORS_MAX; i++) {
        errors.list[i].line = errors.list[i].column = UINT32_MAX;
        memset(errors.list[i].message, 'x', sizeof errors.list[i].message - 1);
    }
    mp_writer_init(&writer, bytes, sizeof bytes);
    policy_errors_put(&writer, &errors);
    assert_false(writer.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_that_is_wrong_is_listed_in_the_order_of_lines),
        cmocka_unit_test(what_hangs_on_a_refused_part_is_not_told),
        cmocka_unit_test(more_than_can_be_listed_is_counted),
        cmocka_unit_test(one_error_and_none_are_told_as_ever),
        cmocka_unit_test(damaged_files_list_what_compiling_tells),
        cmocka_unit_test(what_is_written_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
