/* test_quotas.c - what a shard decides for users with quota records, whoever owns their keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/model/usage_tally.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/people/people.h"
#include "node/policy/people/policy_join.h"
#include "tests/unit/support_shard.h"

#define FW "algorithm: fixed_window"

static const char plans[] =
    "tiers:\n"
    "  free: {limits: [{rate: 2/h, " FW "}]}\n"
    "  gold: {limits: [{rate: 9/h, " FW "}, {rate: 50/month, " FW ", align: calendar}]}\n"
    "rules:\n"
    "- {name: page, key: [page], limits: [{rate: 5/h, " FW "}]}\n";

static int set_up(void **state)
{
    struct lab *lab = lab_new(2, 1, 1);
    for (uint32_t at = 0; at < 2; at++)
        lab_start(lab, at);
    lab_run(lab, 100 * LAB_MS);
    *state = lab;
    return 0;
}

static struct quota quota(const char *user, const char *tier, const char *limit)
{
    char error[OWN_ERROR_LEN];
    struct quota quota = {.user = {user, strlen(user)}, .tier = {tier, strlen(tier)}};
    if (limit[0] != '\0')
        assert_int_equal(own_limits_add(&quota.own, limit, strlen(limit), error), 0);
    return quota;
}

/* Puts the plans in force together with these records. */
static void put(struct lab *lab, const struct quota *quotas, size_t count)
{
    struct policy_error error;
    struct policy *base;
    struct policy *joined;
    struct policy_joined with = {.people = NULL};
    assert_int_equal(policy_compile(plans, strlen(plans), alloc_heap(), &base, &error), 0);
    assert_int_equal(people_new(alloc_heap(), quotas, count, &with.people), 0);
    assert_int_equal(policy_join(alloc_heap(), base, &with, &joined), 0);
    policy_free(&base);
    lab_policy(lab, joined);
}

static struct wire_decision ask(struct lab *lab, const char *one, const char *two)
{
    const char *const attributes[] = {one, two, NULL};
    lab_ask_attributes(lab, 1, attributes);
    return lab_answer(lab, lab_send(lab, 0, 2000), 0);
}

static void assert_told(const struct wire_decision *decision, bool allowed, const char *rule,
                        const char *window, uint64_t limit, uint64_t used)
{
    assert_int_equal(decision->allowed, allowed);
    assert_true(lab_text_is(decision->source->rule, rule));
    assert_true(lab_text_is(decision->source->window, window));
    assert_int_equal(decision->limit, limit);
    assert_int_equal(decision->used, used);
}

/* A limit that a record gives a user is his at once, and keeps what he has consumed: what he has
 * left moves by the difference of the limits, up and down again, whoever decides for him. */
static void own_limits_keep_what_was_consumed(void **state)
{
    struct lab *lab = *state;
    for (uint32_t at = 0; at < 2; at++) {
        char user[LAB_KEY_LEN];
        lab_attribute(lab, "tier free", "user", at, user);
        struct quota record = quota(user + 5, "free", "");
        put(lab, &record, 1);
        struct wire_decision decision = ask(lab, user, "tier=gold");
        assert_told(&decision, true, "tier free", "2/h", 2, 1);
        assert_true(ask(lab, user, "tier=gold").allowed);
        decision = ask(lab, user, NULL);
        assert_told(&decision, false, "tier free", "2/h", 2, 2);
        record = quota(user + 5, "free", "4/h");
        put(lab, &record, 1);
        decision = ask(lab, user, NULL);
        assert_told(&decision, true, "tier free", "4/h", 4, 3);
        put(lab, NULL, 0);
        decision = ask(lab, user, "tier=free");
        assert_told(&decision, false, "tier free", "2/h", 2, 3);
    }
}

/* Every limit is told under its own window: one that was replaced, also of the calendar, one that
 * was added, and those of a user without a plan; others' limits are as the rules say. */
static void every_own_limit_is_told_with_its_window(void **state)
{
    static const char *const told[] = {"page",      "5/h",     "tier gold", "9/h",
                                       "tier gold", "7/month", "tier gold", "3/m"};
    struct lab *lab = *state;
    char error[OWN_ERROR_LEN];
    struct quota list[] = {quota("ada", "gold", "7/month"), quota("bob", "", "6/h")};
    assert_int_equal(own_limits_add(&list[0].own, "3/m", 3, error), 0);
    put(lab, list, 2);
    const char *const ada[] = {"user=ada", "page=x", NULL};
    lab_ask_attributes(lab, 1, ada);
    struct wire_decision decision = lab_answer(lab, lab_send_explained(lab, 0, 2000), 0);
    assert_true(decision.allowed && decision.remaining == 2);
    const struct wire_explain *explain = lab->decisions.explain;
    assert_int_equal(explain->end[0], 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(lab_text_is(explain->rows[i].rule, told[2 * i]));
        assert_true(lab_text_is(explain->rows[i].window, told[2 * i + 1]));
        assert_int_equal(explain->rows[i].limit, strtoull(told[2 * i + 1], NULL, 10));
        assert_int_equal(explain->rows[i].used, 1);
    }
    const char *const bob[] = {"user=bob", NULL};
    lab_ask_attributes(lab, 1, bob);
    decision = lab_answer(lab, lab_send_explained(lab, 0, 2000), 0);
    assert_told(&decision, true, "user quota", "6/h", 6, 1);
    assert_int_equal(lab->decisions.explain->end[0], 1);
    assert_true(lab_text_is(lab->decisions.explain->rows[0].window, "6/h"));
    decision = ask(lab, "user=eve", NULL);
    assert_int_equal(decision.outcome, OUTCOME_NO_RULE);
}

/* In a message of many requests each is told its window, whatever stands between those of one user:
 * texts that were written for requests before are not written again for those of the same limit. */
static void the_last_of_many_is_told_its_window(void **state)
{
    enum { MANY = WIRE_SOURCES_MAX + 100 };
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    lab_attribute(lab, "tier free", "user", 0, user);
    const struct quota list[] = {quota(user + 5, "free", "9000/h"), quota("bob", "", "6/h")};
    const char *const one[] = {user, NULL};
    const char *const two[] = {"user=bob", NULL};
    put(lab, list, 2);
    for (uint32_t i = 0; i < MANY; i++)
        lab_ask_attributes(lab, 1, i == MANY - 2 ? two : one);
    const uint64_t seq = lab_send(lab, 0, 2000);
    struct wire_decision decision = lab_answer(lab, seq, MANY - 1);
    assert_told(&decision, true, "tier free", "9000/h", 9000, MANY - 1);
    decision = lab_answer(lab, seq, MANY - 2);
    assert_told(&decision, true, "user quota", "6/h", 6, 1);
}

/* A blocked user is denied at once, with the reason, and nothing is charged; a block that has ended
 * does nothing. */
static void a_blocked_user_is_denied_and_charged_nothing(void **state)
{
    struct lab *lab = *state;
    struct quota record = quota("ada", "free", "");
    record.blocked = true;
    record.reason = (struct policy_text){"unpaid", 6};
    put(lab, &record, 1);
    struct wire_decision decision = ask(lab, "user=ada", "page=x");
    assert_int_equal(decision.outcome, OUTCOME_BLOCKED);
    assert_int_equal(decision.source->status, 403);
    assert_true(lab_text_is(decision.source->message, "unpaid"));
    record.until_ms = (uint64_t)(lab->now_ns / LAB_MS);
    put(lab, &record, 1);
    decision = ask(lab, "user=ada", NULL);
    assert_told(&decision, true, "tier free", "2/h", 2, 1);
}

/* What people with a record ask is counted where it came in, whoever decides, also if a block
 * denies it; looking is not counted, nor is anybody else. */
static void what_users_ask_is_counted_where_it_came(void **state)
{
    struct lab *lab = *state;
    for (uint32_t at = 0; at < 2; at++) {
        char user[LAB_KEY_LEN];
        lab_attribute(lab, "tier free", "user", at, user);
        struct quota record = quota(user + 5, "free", "");
        put(lab, &record, 1);
        assert_null(shard_usage(lab->shards[0].shard, usage_tally_new(alloc_heap())));
        for (int i = 0; i < 3; i++)
            (void)ask(lab, user, NULL);
        (void)ask(lab, "user=eve", "tier=free");
        const char *const attributes[] = {user, NULL};
        lab_ask_attributes(lab, 0, attributes);
        (void)lab_answer(lab, lab_send(lab, 0, 2000), 0);
        record.blocked = true;
        put(lab, &record, 1);
        (void)ask(lab, user, NULL);
        struct usage_tally *seen = shard_usage(lab->shards[0].shard, NULL);
        assert_int_equal(seen->count, 1);
        assert_true(seen->entries[0].hash == people_hash(user + 5, strlen(user + 5)));
        assert_int_equal(seen->entries[0].requests, 4);
        assert_int_equal(seen->entries[0].exceeded, 1);
        assert_int_equal(seen->entries[0].last_ms, lab->now_ns / LAB_MS);
        assert_null(shard_usage(lab->shards[1].shard, NULL));
        usage_tally_free(&seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(own_limits_keep_what_was_consumed, set_up),
        LAB_TEST(every_own_limit_is_told_with_its_window, set_up),
        LAB_TEST(the_last_of_many_is_told_its_window, set_up),
        LAB_TEST(a_blocked_user_is_denied_and_charged_nothing, set_up),
        LAB_TEST(what_users_ask_is_counted_where_it_came, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
