/* test_named_rules.c - checks that name their rules, as services do that proxies ask: one count in
 * the cluster, found wherever the rule stands now, and decided before their time is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "tests/unit/support_shard.h"

enum { NODES = 5, REPLICAS = 3, ASKED_MS = 20, SHARE = 5 };

static const char rules[] =
    "rules:\n"
    "- {name: lent, match: {kind: lent}, key: [user], on_failure: {local: {share: 50%}},\n"
    "   limits: [{rate: 10/d, algorithm: fixed_window}]}\n"
    "domains:\n"
    "- domain: shop\n"
    "  on_failure: {local: {share: 50%}}\n"
    "  descriptors:\n"
    "  - {key: user, rate_limit: {unit: day, requests_per_unit: 10}}\n"
    "  - {key: ip, rate_limit: {unit: day, requests_per_unit: 4}}\n"
    "  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}\n"
    "- domain: firm\n"
    "  on_failure: closed\n"
    "  descriptors:\n"
    "  - {key: user, rate_limit: {unit: day, requests_per_unit: 10}}\n";

static int set_up(void **state)
{
    struct lab *lab = lab_new(NODES, 1, REPLICAS);
    lab->large = true;
    lab_start_all(lab);
    (void)lab_rules(lab, rules);
    *state = lab;
    return 0;
}

static int tear_down(void **state)
{
    lab_free(*state);
    return 0;
}

static void append(struct lab *lab, const struct wire_rule *named, uint32_t count,
                   const char *const *paths, uint64_t cost)
{
    struct wire_text values[WIRE_RULES_MAX];
    for (uint32_t i = 0; i < count; i++)
        values[i] = wire_text_of(paths[i]);
    const int shape = wire_checks_builder_rules(&lab->builder, named, count);
    assert_true(shape >= 0);
    assert_true(wire_checks_builder_append(&lab->builder, (uint32_t)shape, OPERATION_CHECK, cost,
                                           values, count) >= 0);
}

static struct wire_decision ask(struct lab *lab, uint32_t at, const char *rule, const char *path)
{
    const struct wire_rule named = {.name = wire_text_of(rule)};
    append(lab, &named, 1, &path, 1);
    return lab_answer(lab, lab_send(lab, at, 1000), 0);
}

static void whoever_asks_it_is_one_count(void **state)
{
    struct lab *lab = *state;
    for (uint32_t i = 0; i < 12; i++) {
        const struct wire_decision told = ask(lab, i % NODES, "shop:user", "user=ada");
        assert_int_equal(told.allowed, i < 10);
        assert_int_equal(told.limit, 10);
        assert_int_equal(told.remaining, i < 10 ? 9 - i : 0);
        assert_false(told.degraded);
    }
    assert_true(ask(lab, 0, "shop:user", "user=bob").allowed);
}

/* The sender's hint is where the rule stood in the rules that it knew. */
static void a_rule_is_found_by_its_name_wherever_it_stands(void **state)
{
    struct lab *lab = *state;
    static const uint32_t hints[] = {0, 1, 2, 3, UINT32_MAX};
    const char *path = "user=eve";
    for (uint32_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        const struct wire_rule named = {.name = wire_text_of("shop:user"), .node = hints[i]};
        append(lab, &named, 1, &path, 1);
        assert_int_equal(lab_answer(lab, lab_send(lab, 0, 1000), 0).remaining, 9 - i);
    }
    const struct wire_decision gone = ask(lab, 0, "shop:nobody", path);
    assert_true(gone.allowed);
    assert_int_equal(gone.outcome, OUTCOME_NO_RULE);
    assert_int_equal(ask(lab, 0, "lent", path).outcome, OUTCOME_NO_RULE); /* of attributes */
}

static void a_limit_that_comes_along_needs_its_domain_alone(void **state)
{
    struct lab *lab = *state;
    const char *path = "nothing=1";
    struct wire_rule named = {.name = wire_text_of("shop"), .count = 2, .window_s = 180};
    for (uint32_t i = 0; i < 3; i++) {
        append(lab, &named, 1, &path, 1);
        const struct wire_decision told = lab_answer(lab, lab_send(lab, i, 1000), 0);
        assert_int_equal(told.allowed, i < 2);
        assert_int_equal(told.limit, 2);
    }
    named.name = wire_text_of("unknown");
    append(lab, &named, 1, &path, 1);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 1000), 0).outcome, OUTCOME_NO_RULE);
}

/* REQUESTS-5 */
static void on_trial_the_numbers_are_told(void **state)
{
    struct lab *lab = *state;
    for (uint32_t i = 0; i < 3; i++) {
        const struct wire_decision told = ask(lab, i, "shop:trial", "trial=1");
        assert_true(told.allowed);
        assert_int_equal(told.outcome, i < 2 ? OUTCOME_ALLOW : OUTCOME_SHADOW_DENIED);
        assert_int_equal(told.limit, 2);
        assert_int_equal(told.remaining, i < 2 ? 1 - i : 0);
    }
}

static void those_of_one_item_are_charged_together(void **state)
{
    struct lab *lab = *state;
    const struct wire_rule both[] = {{.name = wire_text_of("shop:user")},
                                     {.name = wire_text_of("shop:ip")}};
    static const char *const paths[] = {"user=zoe", "ip=1"};
    for (uint32_t i = 0; i < 6; i++) {
        append(lab, both, 2, paths, 1);
        assert_int_equal(lab_answer(lab, lab_send(lab, i % NODES, 1000), 0).allowed, i < 4);
    }
    lab_run(lab, 100 * LAB_MS);
    assert_int_equal(ask(lab, 0, "shop:user", "user=zoe").remaining,
                     5); /* what was denied is back */
}

/* A path whose leader is another node than the first, which is asked. */
static uint32_t find_leader(struct lab *lab, const char *rule, char path[LAB_KEY_LEN])
{
    for (uint32_t i = 0;; i++) {
        (void)snprintf(path, LAB_KEY_LEN, "user=u%u", i);
        const uint32_t leader = lab_replica(lab, ask(lab, 0, rule, path).vnode, 0);
        if (leader != 0)
            return leader;
    }
}

/* FALLBACK-7 */
static void what_its_decider_does_not_say_in_time_is_decided_here(void **state)
{
    struct lab *lab = *state;
    char path[LAB_KEY_LEN];
    const char *const asked = path;
    const struct wire_rule named = {.name = wire_text_of("shop:user")};
    const uint32_t leader = find_leader(lab, "shop:user", path);
    lab_stop(lab, leader);
    append(lab, &named, 1, &asked, 1);
    const uint64_t seq = lab_send(lab, 0, ASKED_MS);
    lab_run(lab, (ASKED_MS + 1) * LAB_MS);
    assert_true(lab_answered(lab, seq));
    const struct wire_decision told = lab_answer(lab, seq, 0);
    assert_true(told.allowed && told.degraded);
    assert_int_equal(told.limit, SHARE);
}

static void a_rule_that_is_closed_has_an_error_in_time(void **state)
{
    struct lab *lab = *state;
    char path[LAB_KEY_LEN];
    const char *const asked = path;
    const struct wire_rule named = {.name = wire_text_of("firm:user")};
    const uint32_t leader = find_leader(lab, "firm:user", path);
    lab_stop(lab, leader);
    append(lab, &named, 1, &asked, 1);
    const uint64_t seq = lab_send(lab, 0, ASKED_MS);
    lab_run(lab, (ASKED_MS + 1) * LAB_MS);
    assert_true(lab_answered(lab, seq));
    const struct wire_decision told = lab_answer(lab, seq, 0);
    assert_false(told.allowed);
    assert_int_equal(told.outcome, OUTCOME_ERROR);
}

/* Other callers wait for a replica: there is one stand-in for a key, not one per node. */
static void a_rule_of_attributes_has_no_stand_in_while_somebody_may_decide(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    uint32_t leader = 0;
    for (uint32_t i = 0; leader == 0; i++) {
        lab_attribute(lab, "lent", "user", i, user);
        const char *const attributes[] = {"kind=lent", user, NULL};
        lab_ask_attributes(lab, 1, attributes);
        leader = lab_replica(lab, lab_answer(lab, lab_send(lab, 0, 1000), 0).vnode, 0);
    }
    const char *const attributes[] = {"kind=lent", user, NULL};
    lab_stop(lab, leader);
    lab_ask_attributes(lab, 1, attributes);
    const struct wire_decision told = lab_answer(lab, lab_send(lab, 0, ASKED_MS), 0);
    assert_int_equal(told.outcome, OUTCOME_ERROR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whoever_asks_it_is_one_count),
        TEST(a_rule_is_found_by_its_name_wherever_it_stands),
        TEST(a_limit_that_comes_along_needs_its_domain_alone),
        TEST(on_trial_the_numbers_are_told),
        TEST(those_of_one_item_are_charged_together),
        TEST(what_its_decider_does_not_say_in_time_is_decided_here),
        TEST(a_rule_that_is_closed_has_an_error_in_time),
        TEST(a_rule_of_attributes_has_no_stand_in_while_somebody_may_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
