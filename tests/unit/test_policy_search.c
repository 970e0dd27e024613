/* test_policy_search.c - requests that are looked for some at a time, in steps, find what each
 * finds by itself. What that is, test_policy_resolve.c knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/index/policy_search.h"
#include "tests/unit/support_rules.h"

enum { TOGETHER = 7, RULES = 200, ATTRIBUTES = 12, LENGTHS = 20 };

static void assert_equal(const struct policy_result *a, const struct policy_result *b)
{
    assert_int_equal(a->action, b->action);
    assert_int_equal(a->allowed, b->allowed);
    assert_ptr_equal(a->rule, b->rule);
    assert_ptr_equal(a->shadow, b->shadow);
    assert_int_equal(a->asked, b->asked);
    assert_int_equal(a->compared, b->compared);
    assert_int_equal(a->part_count, b->part_count);
    for (size_t i = 0; i < a->part_count; i++) {
        assert_ptr_equal(a->parts[i].rule, b->parts[i].rule);
        for (size_t k = 0; k < a->parts[i].rule->key_count; k++) {
            const struct policy_text *one = &a->parts[i].values[k];
            const struct policy_text *other = &b->parts[i].values[k];
            assert_int_equal(one->len, other->len);
            assert_memory_equal(one->data, other->data, one->len);
        }
    }
}

/* Whatever the rules differ by, requests that take their steps together find what each finds alone,
 * in whatever order they take the last one. */
static void requests_in_steps_find_what_each_finds_alone(void **state)
{
    static struct rules_request requests[TOGETHER];
    static struct policy_search searches[TOGETHER];
    static struct policy_result results[TOGETHER];

    (void)state;
    for (enum rules_shape shape = 0; shape < RULES_SHAPES; shape++) {
        struct policy *policy = rules_policy(shape, RULES - (shape == RULES_MIXED) * 2);
        for (size_t first = 0; first < RULES; first += TOGETHER) {
            for (size_t i = 0; i < TOGETHER; i++) {
                rules_request_init(&requests[i], shape, RULES - (shape == RULES_MIXED) * 2,
                                   first + i);
                assert_int_equal(policy_search_ask(&searches[i], policy, requests[i].attributes,
                                                   requests[i].count, &results[i]),
                                 0);
            }
            for (size_t i = 0; i < TOGETHER; i++)
                policy_search_look(&searches[i]);
            for (size_t i = TOGETHER; i-- > 0;)
                policy_search_run(&searches[i]);
            for (size_t i = 0; i < TOGETHER; i++) {
                struct policy_result alone;
                assert_int_equal(
                    policy_resolve(policy, requests[i].attributes, requests[i].count, &alone), 0);
                assert_int_equal(alone.part_count, rules_parts(shape));
                assert_equal(&results[i], &alone);
            }
        }
        policy_free(&policy);
    }
}

/* A rule for each attribute a0, a1 .. and each length of a prefix of p's. */
static struct policy *many_lengths(void)
{
    static char text[ATTRIBUTES * LENGTHS * 128];
    struct policy_error error;
    struct policy *policy = NULL;
    size_t at = (size_t)snprintf(text, sizeof text, "rules:\n");

    for (int a = 0; a < ATTRIBUTES; a++)
        for (int len = 1; len <= LENGTHS; len++)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   "- {name: a%d-%d, match: {a%d: \"%.*s%d*\"}, action: block}\n",
                                   a, len, a, len, "pppppppppppppppppppppppp", a);
    if (policy_compile(text, at, alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s", error.line, error.column, error.message);
    policy_check_invariants(policy);
    return policy;
}

/* A request that asks for more places than are kept between steps finds its rule, by whichever of
 * its attributes that is. */
static void what_asks_for_more_than_is_kept_is_found_as_well(void **state)
{
    struct policy *policy = many_lengths();

    (void)state;
    for (size_t hit = 0; hit < ATTRIBUTES; hit++) {
        char names[ATTRIBUTES][8];
        char value[64];
        char name[16];
        struct policy_attribute attributes[ATTRIBUTES];
        struct policy_search search;
        struct policy_result result;
        (void)snprintf(value, sizeof value, "ppppppppp%zu-and-all-that-may-follow", hit);
        (void)snprintf(name, sizeof name, "a%zu-9", hit);
        for (size_t a = 0; a < ATTRIBUTES; a++) {
            const int len = snprintf(names[a], sizeof names[a], "a%zu", a);
            attributes[a] = (struct policy_attribute){
                names[a], (size_t)len, a == hit ? value : "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", 30};
        }
        assert_int_equal(policy_search_ask(&search, policy, attributes, ATTRIBUTES, &result), 0);
        policy_search_look(&search);
        policy_search_run(&search);
        assert_in_range(result.asked, POLICY_ASKED_MAX + 1, UINT32_MAX);
        assert_int_equal(result.action, POLICY_BLOCK);
        assert_string_equal(result.rule->name.data, name);
    }
    policy_free(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_in_steps_find_what_each_finds_alone),
        cmocka_unit_test(what_asks_for_more_than_is_kept_is_found_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
