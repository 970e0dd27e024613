/* test_policy_index.c - what a request costs when there are many rules, counted and not timed: the
 * places of the index that it asks for, and the rules that are compared with it. And that whatever
 * a rule is filed under, it is found: against looking at every rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_rules.h"

enum { FEW = 10, MANY = EFFORT(POLICY_RULES_MAX), REQUESTS = 1000 };

struct work {
    uint32_t asked; /* the most of a request */
    uint32_t compared;
};

static struct work work_of(enum rules_shape shape, size_t count)
{
    struct policy *policy = rules_policy(shape, count);
    struct work most = {0, 0};

    policy_check_invariants(policy);
    for (size_t i = 0; i < REQUESTS; i++) {
        struct rules_request request;
        struct policy_result result;
        rules_request_init(&request, shape, count, i * 7919);
        assert_int_equal(policy_resolve(policy, request.attributes, request.count, &result), 0);
        if (result.part_count != rules_parts(shape))
            fail_msg("%s: request %zu of %zu rules meets %u", rules_shape_name(shape), i, count,
                     result.part_count);
        most.asked = result.asked > most.asked ? result.asked : most.asked;
        most.compared = result.compared > most.compared ? result.compared : most.compared;
    }
    policy_free(&policy);
    return most;
}

/* 10,000 rules make a request compare no more rules than it meets and one beside, and ask for a
 * handful of places, as few as 10 rules do but for the lengths of numbers. */
static void ten_thousand_rules_cost_no_more_comparisons_than_ten(void **state)
{
    (void)state;
    for (enum rules_shape shape = 0; shape < RULES_BOUNDED; shape++) {
        const struct work few = work_of(shape, FEW - (shape == RULES_MIXED));
        const struct work many = work_of(shape, MANY - (shape == RULES_MIXED));
        print_message("%-32s 10: %2u asked, %2u compared   10000: %2u asked, %2u compared\n",
                      rules_shape_name(shape), few.asked, few.compared, many.asked, many.compared);
        assert_in_range(many.compared, 1, rules_parts(shape) + 1);
        assert_in_range(many.asked, 1, few.asked + 5);
    }
}

/* What the index cannot tell apart costs a comparison a rule; said here so that nobody believes
 * otherwise, and so that it is noticed when it changes. */
static void rules_that_differ_in_pieces_of_segments_are_all_compared(void **state)
{
    (void)state;
    assert_int_equal(work_of(RULES_PIECES, MANY).compared, MANY);
    assert_int_equal(work_of(RULES_EVERYONE, MANY).compared, MANY);
}

/* Patterns of every kind, sharing all but a small piece, so that they are filed under that. */
static size_t put_pattern(struct random *random, char *out, size_t room)
{
    static const char *const forms[] = {"/a/*/x%u",   "/a/*/x%u/*",  "*x%u.c", "/a/b*/x%u/*/y",
                                        "/a/*/*/x%u", "/a/*/y/x%u*", "/a/x%u", "*/x%u/*",
                                        "a*b%uc",     "/*/*/x%u/z/*"};
    char pattern[32];
    const unsigned number = (unsigned)random_below(random, 40);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(pattern, sizeof pattern, forms[random_below(random, 10)], number);
#pragma GCC diagnostic pop
    return (size_t)snprintf(out, room, "%s", pattern);
}

/* A value that many of those patterns meet, or nearly do. */
static void put_value(struct random *random, char *out, size_t room)
{
    size_t at = 0;
    out[0] = '\0';
    const uint64_t pieces = 1 + random_below(random, 6);
    for (uint64_t i = 0; i < pieces && at + 16 < room; i++) {
        static const char *const words[] = {"a", "b", "bb", "y", "z", "x.c", ""};
        if (i > 0 || random_below(random, 4) != 0)
            at += (size_t)snprintf(out + at, room - at, "/");
        if (random_below(random, 2) == 0)
            at += (size_t)snprintf(out + at, room - at, "x%u%s", (unsigned)random_below(random, 40),
                                   random_below(random, 3) == 0 ? ".c" : "");
        else
            at += (size_t)snprintf(out + at, room - at, "%s", words[random_below(random, 7)]);
    }
    if (random_below(random, 8) == 0)
        (void)snprintf(out, room, "aqb%uc", (unsigned)random_below(random, 40));
}

static struct policy *random_policy(struct random *random, size_t rules)
{
    static char text[64 * 1024];
    struct policy_error error;
    struct policy *policy;
    size_t at = (size_t)snprintf(text, sizeof text, "rules:\n");

    for (size_t i = 0; i < rules; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "- {name: r%zu, shadow: true, action: block, match: {api: [\"", i);
        at += put_pattern(random, text + at, sizeof text - at);
        at += (size_t)snprintf(text + at, sizeof text - at, "\", \"%zu", i);
        at += put_pattern(random, text + at, sizeof text - at);
        at += (size_t)snprintf(text + at, sizeof text - at, "\"]}}\n");
    }
    if (policy_compile(text, at, alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s", error.line, error.column, error.message);
    policy_check_invariants(policy);
    return policy;
}

/* Whatever piece a pattern is filed under, the first rule that matches is the one that looking at
 * every rule finds. Shadow rules end no search, so that every rule counts. */
static void a_pattern_is_found_by_any_piece_of_it(void **state)
{
    enum { RULES = 120 };
    struct policy_reason reasons[RULES];
    struct random random;
    unsigned found = 0;
    unsigned compared = 0;

    (void)state;
    random_init(&random, 11);
    for (int file = 0; file < 40; file++) {
        struct policy *policy = random_policy(&random, RULES);
        for (int i = 0; i < 500; i++) {
            char value[96];
            struct policy_result all;
            struct policy_result result;
            put_value(&random, value, sizeof value);
            const struct policy_attribute request = {"api", 3, value, strlen(value)};
            assert_int_equal(policy_explain(policy, &request, 1, &all, reasons), 0);
            assert_int_equal(policy_resolve(policy, &request, 1, &result), 0);
            if (result.shadow != all.shadow)
                fail_msg("value %s: %s", value, all.shadow != NULL ? all.shadow->name.data : "-");
            found += all.shadow != NULL;
            compared += result.compared;
        }
        policy_free(&policy);
    }
    assert_in_range(found, 500, 19500);
    assert_in_range(compared, 1, 20000 * RULES / 8); /* the index did filter */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_rules_cost_no_more_comparisons_than_ten),
        cmocka_unit_test(rules_that_differ_in_pieces_of_segments_are_all_compared),
        cmocka_unit_test(a_pattern_is_found_by_any_piece_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
