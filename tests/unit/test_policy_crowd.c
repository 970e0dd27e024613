/* test_policy_crowd.c - whether too many rules can meet: what is kept apart by what, and, against
 * the resolver on random rules and requests, that no crowd is ever missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/compile/policy_crowd.h"
#include "node/policy/index/policy_resolve.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_rules.h"

enum { TEXT_LEN = 64 * 1024 };

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    policy_check_invariants(policy);
    return policy;
}

/* How many rules are told of `count` rules whose fields are `format`, with their number in it. */
__attribute__((format(printf, 2, 0))) static struct policy_crowd crowd_of(unsigned count,
                                                                          const char *format)
{
    static char text[TEXT_LEN];
    static struct policy *policy;
    struct policy_crowd crowd;
    size_t len = (size_t)snprintf(text, sizeof text, "rules:\n");
    for (unsigned i = 0; i < count; i++) {
        char fields[256];
        (void)snprintf(fields, sizeof fields, format, i, i);
        len +=
            (size_t)snprintf(text + len, sizeof text - len,
                             "- {name: r%u, key: [user], limits: [{rate: 5/h}], %s}\n", i, fields);
    }
    policy_free(&policy);
    policy = compile(text);
    assert_int_equal(policy_crowd_find(policy, alloc_heap(), &crowd), 0);
    return crowd;
}

/* Eight rules may meet, nine may not: whatever a request can satisfy at once. */
static void nine_rules_that_can_meet_are_a_crowd(void **state)
{
    static const char *const crowds[] = {
        "priority: %u",
        "match: {api: /pay}, priority: %u",
        "match: {api: [/pay, /item-%u]}",
        "match: {a%u: x}",
        "match: {api: \"/v1/*\", method: [GET, M%u]}",
        "match: {api: \"/v%u*\", x: [\"*\", y]}, enabled: true",
        "match: {ip: [10.0.0.0/8, 192.0.2.%u]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++) {
        const bool apart = strstr(crowds[i], "/v%u*") != NULL;
        struct policy_crowd crowd = crowd_of(8, crowds[i]);
        assert_int_equal(crowd.count, 0);
        crowd = crowd_of(9, crowds[i]);
        if (crowd.count != (apart ? 0 : POLICY_CROWD_MAX) || crowd.guessed)
            fail_msg("%s: %u", crowds[i], (unsigned)crowd.count);
        for (uint32_t a = 0; a < crowd.count; a++)
            for (uint32_t b = 0; b < a; b++)
                assert_ptr_not_equal(crowd.rules[a], crowd.rules[b]);
    }
}

/* Rules of which no request meets two are none, however many there are; nor are those of a group,
 * on trial, disabled or without limits. */
static void rules_that_are_kept_apart_are_none(void **state)
{
    static const char *const apart[] = {
        "match: {api: /item-%u}",
        "match: {api: \"/item-%u/*\"}",
        "match: {api: \"/v1/*/item-%u\"}",
        "match: {api: \"/v1/*/item-%u/*\"}",
        "match: {api: \"*@shop-%u.example\"}",
        "match: {api: [/x-%u, \"/y-%u/*\"]}",
        "match: {ip: 10.%u.0.0/16}",
        "match: {ip: \"2001:db8:%x::/48\"}",
        "match: {api: \"*\", tier: t%u}",
        "group: one, priority: %u",
        "shadow: true, priority: %u",
        "enabled: false, priority: %u",
    };
    (void)state;
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        const struct policy_crowd crowd = crowd_of(100, apart[i]);
        if (crowd.count != 0)
            fail_msg("%s: %s meets %s", apart[i], crowd.rules[0]->name.data,
                     crowd.rules[8]->name.data);
    }
}

/* Rules of everybody meet those of one thing, so that with eight of them a ninth is too many. */
static void rules_of_everybody_meet_every_other(void **state)
{
    char text[2048] = "rules:\n";
    size_t len = strlen(text);
    struct policy_crowd crowd;
    (void)state;
    for (unsigned everybody = 1; everybody <= 8; everybody++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "- {name: e%u, key: [user], limits: [{rate: 5/h}]}\n", everybody);
        const size_t more =
            (size_t)snprintf(text + len, sizeof text - len,
                             "- {name: a, match: {api: /a}, key: [user], limits: [{rate: 5/h}]}\n"
                             "- {name: b, match: {api: /b}, key: [user], limits: [{rate: 5/h}]}\n");
        struct policy *policy = compile(text);
        assert_int_equal(policy_crowd_find(policy, alloc_heap(), &crowd), 0);
        assert_int_equal(crowd.count, everybody == 8 ? POLICY_CROWD_MAX : 0);
        policy_free(&policy);
        assert_true(more > 0);
        text[len] = '\0';
    }
}

/* Large files of the usual shapes are judged without a guess. */
static void large_files_are_judged(void **state)
{
    (void)state;
    for (enum rules_shape shape = 0; shape < RULES_BOUNDED; shape++) {
        struct policy *policy = rules_policy(shape, 10000);
        struct policy_crowd crowd;
        assert_int_equal(policy_crowd_find(policy, alloc_heap(), &crowd), 0);
        if (crowd.count != 0 || crowd.guessed)
            fail_msg("%s: %u%s", rules_shape_name(shape), (unsigned)crowd.count,
                     crowd.guessed ? ", guessed" : "");
        policy_free(&policy);
    }
}

/* ---- beside the resolver --------------------------------------------------------------------- */

static const char *const paths[] = {"/a", "/a/b", "/a/c", "/b", "/b/c", "/a/b/c", "", "/a/bb/d"};
static const char *const patterns[] = {"/a",     "/a/*", "/*/c", "/b*",     "*",   "/a/b",
                                       "/*/b/*", "/b",   "*c",   "/a/b*/d", "/a/c"};
static const char *const networks[] = {"10.0.0.0/8",   "10.1.0.0/16", "10.1.2.3",
                                       "192.0.2.0/24", "10.*",        "2001:db8::/32"};
static const char *const addresses[] = {"10.1.2.3", "10.1.9.9", "10.9.9.9", "192.0.2.1",
                                        "2001:db8::1"};
#define COUNT_OF(array)     (sizeof(array) / sizeof((array)[0]))
#define PICK(random, array) ((array)[random_below(random, COUNT_OF(array))])

static void put_rules(struct random *random, char *text, unsigned count)
{
    size_t len = (size_t)snprintf(text, TEXT_LEN, "rules:\n");
    for (unsigned i = 0; i < count; i++) {
        const char *comma = "";
        len += (size_t)snprintf(text + len, TEXT_LEN - len,
                                "- {name: r%u, key: [user], limits: [{rate: 5/h}], shadow: %s, ", i,
                                random_below(random, 9) == 0 ? "true" : "false");
        if (random_below(random, 6) == 0)
            len += (size_t)snprintf(text + len, TEXT_LEN - len, "group: g%u, ",
                                    (unsigned)random_below(random, 3));
        len += (size_t)snprintf(text + len, TEXT_LEN - len, "match: {");
        if (random_below(random, 8) != 0) {
            const size_t first = random_below(random, COUNT_OF(patterns));
            const size_t more = 1 + random_below(random, COUNT_OF(patterns) - 1);
            len += (size_t)snprintf(text + len, TEXT_LEN - len, "api: [\"%s\", \"%s\"]",
                                    patterns[first], patterns[(first + more) % COUNT_OF(patterns)]);
            comma = ", ";
        }
        if (random_below(random, 3) == 0) {
            len += (size_t)snprintf(text + len, TEXT_LEN - len, "%smethod: M%u", comma,
                                    (unsigned)random_below(random, 3));
            comma = ", ";
        }
        if (random_below(random, 3) == 0)
            len += (size_t)snprintf(text + len, TEXT_LEN - len, "%sip: \"%s\"", comma,
                                    PICK(random, networks));
        len += (size_t)snprintf(text + len, TEXT_LEN - len, "}}\n");
    }
}

static bool overflows(struct random *random, const struct policy *policy)
{
    struct policy_result result;
    char method[8];
    (void)snprintf(method, sizeof method, "M%u", (unsigned)random_below(random, 3));
    const char *path = PICK(random, paths);
    const char *address = PICK(random, addresses);
    const struct policy_attribute attributes[] = {{"user", 4, "u", 1},
                                                  {"api", 3, path, strlen(path)},
                                                  {"method", 6, method, strlen(method)},
                                                  {"ip", 2, address, strlen(address)}};
    assert_int_equal(policy_resolve(policy, attributes, COUNT_OF(attributes), &result), 0);
    return result.action == POLICY_OVERFLOW;
}

/* No request is an error for too many rules where no crowd was found; and not every file has one.
 */
static void no_crowd_is_missed(void **state)
{
    static char text[TEXT_LEN];
    struct random random;
    unsigned crowds = 0;
    unsigned met = 0;
    unsigned apart = 0;
    (void)state;
    random_init(&random, 20261125);
    for (int round = 0; round < EFFORT(1500); round++) {
        struct policy_crowd crowd;
        bool overflow = false;
        put_rules(&random, text, 9 + (unsigned)random_below(&random, 24));
        struct policy *policy = compile(text);
        assert_int_equal(policy_crowd_find(policy, alloc_heap(), &crowd), 0);
        for (int i = 0; i < 100 && !overflow; i++)
            overflow = overflows(&random, policy);
        if (overflow && crowd.count == 0)
            fail_msg("round %d: a crowd was missed\n%s", round, text);
        assert_false(crowd.guessed);
        crowds += crowd.count != 0;
        met += overflow;
        apart += crowd.count == 0;
        policy_free(&policy);
    }
    assert_true(met > 10 && apart > 10 && crowds >= met);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nine_rules_that_can_meet_are_a_crowd),
        cmocka_unit_test(rules_that_are_kept_apart_are_none),
        cmocka_unit_test(rules_of_everybody_meet_every_other),
        cmocka_unit_test(large_files_are_judged),
        cmocka_unit_test(no_crowd_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
