/* test_trials.c - rules on trial (`shadow: true`) change nothing that callers are told or given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/limit/engine/engine.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_shard.h"

static const char *const ann[] = {"user=ann", NULL};

static struct wire_decision ask_as(struct lab *lab, uint8_t operation, uint64_t cost,
                                   const char *const *attributes)
{
    lab_ask_attributes_as(lab, operation, cost, attributes);
    return lab_answer(lab, lab_send(lab, 0, 5000), 0);
}

static struct wire_decision ask(struct lab *lab, uint64_t cost)
{
    return ask_as(lab, OPERATION_CHECK, cost, ann);
}

/* What is told where no rule matches, but for the outcome. */
static void assert_of_no_rule(const struct wire_decision *decision)
{
    assert_true(decision->allowed && !decision->degraded);
    assert_true(decision->limit == 0 && decision->used == 0 && decision->remaining == 0);
    assert_int_equal(decision->granted, 0);
    assert_true(decision->reset_after_ms == 0 && decision->retry_after_ms == 0);
    assert_true(decision->delay_ms == 0 && decision->lease == 0);
    assert_true(lab_text_is(decision->source->rule, ""));
    assert_true(lab_text_is(decision->source->window, ""));
    assert_true(lab_text_is(decision->source->message, ""));
    assert_int_equal(decision->source->status, 200);
}

/* Of a request that meets rules on trial alone nothing is told but what they would have denied, of
 * each algorithm: no queue, no numbers. */
static void alone_it_tells_nothing_but_what_it_would_have_denied(void **state)
{
    struct lab *lab = *state;
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        if (algorithm == ALGORITHM_CONCURRENCY)
            continue;
        char rules[256];
        (void)snprintf(rules, sizeof rules,
                       "rules: [{name: trial%u, key: [user], shadow: true,"
                       " limits: [{rate: 3/h, algorithm: %s}]}]",
                       algorithm, algorithm_name((enum algorithm)algorithm));
        lab_rules(lab, rules);
        for (unsigned n = 0; n < 6; n++) {
            const struct wire_decision decision = ask(lab, 1);
            assert_of_no_rule(&decision);
            assert_int_equal(decision.outcome, n < 3 ? OUTCOME_ALLOW : OUTCOME_SHADOW_DENIED);
            const struct wire_text named = decision.source->shadow_rule;
            assert_int_equal(named.len, n < 3 ? 0 : 6);
            assert_true(n < 3 || strncmp(named.data, "trial", 5) == 0);
        }
        const struct wire_decision some = ask_as(lab, OPERATION_CHECK | WIRE_AT_MOST, 9, ann);
        assert_of_no_rule(&some);
        const struct wire_decision peek = ask_as(lab, OPERATION_PEEK, 1, ann);
        assert_of_no_rule(&peek);
        assert_int_equal(peek.outcome, OUTCOME_SHADOW_DENIED);
    }
}

/* A rule on trial that would make callers wait makes none wait. */
static void a_queue_on_trial_makes_nobody_wait(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: queue, key: [user], shadow: true,"
                   " limits: [{rate: 1/s, burst: 5, algorithm: leaky_bucket}]}\n"
                   "- {name: real, key: [user], limits: [{rate: 9/h, algorithm: fixed_window}]}\n");
    for (unsigned n = 1; n <= 4; n++) {
        const struct wire_decision decision = ask(lab, 1);
        assert_int_equal(decision.outcome, OUTCOME_ALLOW);
        assert_int_equal(decision.delay_ms, 0);
        assert_true(lab_text_is(decision.source->rule, "real"));
        assert_true(decision.limit == 9 && decision.used == n && decision.remaining == 9 - n);
    }
}

/* Of several that would have denied, the one that acts first is named; a block as well, whatever
 * comes behind it: nothing, a limit, or a rule that lets by. */
static void what_would_have_denied_is_named(void **state)
{
    struct lab *lab = *state;
    static const char *const eve[] = {"user=eve", NULL};
    lab_rules(lab,
              "rules:\n"
              "- {name: second, priority: 5, key: [user], shadow: true, limits: [{rate: 1/h}]}\n"
              "- {name: first, priority: 6, key: [user], shadow: true, limits: [{rate: 1/h}]}\n"
              "- {name: real, key: [user], limits: [{rate: 9/h}]}\n");
    assert_int_equal(ask(lab, 1).source->shadow_rule.len, 0);
    assert_true(lab_text_is(ask(lab, 1).source->shadow_rule, "first"));
    static const char *const behind[] = {"", "- {name: real, key: [user], limits: [{rate: 9/h}]}\n",
                                         "- {name: by, match: {user: eve}, action: allow}\n"};
    for (unsigned i = 0; i < 3; i++) {
        char rules[256];
        (void)snprintf(rules, sizeof rules,
                       "rules:\n- {name: out, shadow: true, match: {user: eve}, action: block,"
                       " response: {status: 451}}\n%s",
                       behind[i]);
        lab_rules(lab, rules);
        const struct wire_decision decision = ask_as(lab, OPERATION_CHECK, 1, eve);
        assert_true(decision.allowed && decision.outcome == OUTCOME_SHADOW_DENIED);
        assert_true(lab_text_is(decision.source->shadow_rule, "out"));
        assert_true(lab_text_is(decision.source->rule, i == 0 ? "" : i == 1 ? "real" : "by"));
        assert_int_equal(decision.source->status, 200);
    }
    lab_rules(lab, "rules: [{name: lacks, shadow: true, missing: deny, key: [phone],"
                   " limits: [{rate: 9/h}]}]");
    assert_true(lab_text_is(ask(lab, 1).source->shadow_rule, "lacks"));
}

/* A denial of a rule in force is told as if nothing were on trial. */
static void a_denial_in_force_names_no_rule_on_trial(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: trial, key: [user], shadow: true, limits: [{rate: 1/d}]}\n"
                   "- {name: real, key: [user], limits: [{rate: 1/h}]}\n");
    (void)ask(lab, 1);
    const struct wire_decision decision = ask(lab, 1);
    assert_int_equal(decision.outcome, OUTCOME_DENY);
    assert_true(lab_text_is(decision.source->rule, "real"));
    assert_int_equal(decision.source->shadow_rule.len, 0);
    assert_true(decision.retry_after_ms > 3590000 && decision.retry_after_ms <= 3600000);
}

/* Of what is taken at most, the rules in force say how much; a rule on trial is charged for that
 * and no more, and alone for what it has. */
static void what_is_granted_is_what_rules_in_force_grant(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: trial, key: [user], shadow: true,"
                   " limits: [{rate: 100/h, algorithm: fixed_window}]}\n"
                   "- {name: less, key: [user], shadow: true,"
                   " limits: [{rate: 2/h, algorithm: fixed_window}]}\n"
                   "- {name: real, key: [user], limits: [{rate: 7/h, algorithm: fixed_window}]}\n");
    const struct wire_decision decision = ask_as(lab, OPERATION_CHECK | WIRE_AT_MOST, 50, ann);
    assert_true(decision.allowed && decision.granted == 7 && decision.limit == 7);
    lab_run(lab, 200 * LAB_MS); /* undone by then */
    lab_rules(lab, "rules: [{name: trial, key: [user],"
                   " limits: [{rate: 100/h, algorithm: fixed_window}]}]");
    assert_int_equal(ask_as(lab, OPERATION_PEEK, 1, ann).used, 7);
}

/* Several rules on trial alone are each charged for what they have, and keep it. */
static void alone_each_keeps_what_it_took(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: a, key: [user], shadow: true, limits: [{rate: 9/h}]}\n"
                   "- {name: b, key: [user], shadow: true, limits: [{rate: 9/d}]}\n");
    (void)ask(lab, 4);
    lab_run(lab, 200 * LAB_MS);
    lab_rules(lab, "rules:\n"
                   "- {name: a, key: [user], limits: [{rate: 9/h}]}\n"
                   "- {name: b, key: [user], limits: [{rate: 9/d}]}\n");
    lab_ask_attributes_as(lab, OPERATION_PEEK, 1, ann);
    const uint64_t seq = lab_send_explained(lab, 0, 1000);
    (void)lab_answer(lab, seq, 0);
    assert_int_equal(lab->decisions.explain->rows[0].used, 4);
    assert_int_equal(lab->decisions.explain->rows[1].used, 4);
}

/* Tokens of a limit in force can be held although a rule is on trial beside it, and given back; who
 * takes what there is, as a library does, asks for each instead, which the trial sees. */
static void a_rule_on_trial_keeps_nobody_from_a_lease(void **state)
{
    struct lab *lab = *state;
    lab_run(lab, LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS + 10 * LAB_MS); /* it may know of none */
    lab_rules(lab, "rules: [{name: real, key: [user], limits: [{rate: 50/h,"
                   " algorithm: sliding_log}]}]");
    const struct wire_decision before = ask_as(lab, OPERATION_LEASE, 5, ann);
    assert_true(before.allowed && before.lease != 0);
    lab_rules(lab, "rules:\n"
                   "- {name: trial, key: [user], shadow: true, limits: [{rate: 1/h}]}\n"
                   "- {name: flight, key: [user], shadow: true,"
                   " limits: [{algorithm: concurrency, count: 1}]}\n"
                   "- {name: real, key: [user], limits: [{rate: 50/h, algorithm: sliding_log}]}\n");
    lab_ask_attributes_used(lab, OPERATION_RELEASE, before.lease, 2, ann);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 1000), 0).granted, 3);
    const struct wire_decision beside = ask_as(lab, OPERATION_LEASE, 5, ann);
    assert_true(beside.allowed && beside.granted == 5 && beside.lease != 0);
    assert_int_equal(beside.lease_ms, 1000);
    const struct wire_decision hot = ask_as(lab, OPERATION_LEASE | WIRE_AT_MOST, 5, ann);
    assert_true(!hot.allowed && hot.outcome == OUTCOME_ERROR && hot.source->status == 400);
    lab_rules(lab, "rules: [{name: trial, key: [user], shadow: true, limits: [{rate: 1/h}]}]");
    const struct wire_decision alone = ask_as(lab, OPERATION_LEASE, 5, ann);
    assert_of_no_rule(&alone);
}

/* Rules on trial, at random, for the property below. */
static const char *const trials[] = {
    "- {name: t0, key: [user], shadow: true, limits: [{rate: 2/m, algorithm: leaky_bucket}]}\n",
    "- {name: t1, priority: 9, key: [host], shadow: true, limits: [{rate: 3/h}, {rate: 9/d,"
    " algorithm: sliding_log}]}\n",
    "- {name: t2, priority: 9, match: {host: h1}, shadow: true, action: block}\n",
    "- {name: t3, priority: -9, key: [user], shadow: true, mode: {soft: {exceed: 50%}},"
    " limits: [{rate: 4/h, algorithm: fixed_window}], count_denied: true}\n",
    "- {name: t4, key: [phone], shadow: true, missing: deny, limits: [{rate: 4/h}]}\n",
    "- {name: t5, key: [user, host], shadow: true, consistency: any, response: {retry_after: 9s},"
    " limits: [{rate: 5/h, algorithm: sliding_window}]}\n",
    "- {name: t6, priority: 3, key: [user], shadow: true, limits: [{rate: 3/h, algorithm:"
    " sliding_buckets}]}\n",
};
static const char *const forced[] = {
    "- {name: f0, priority: 1, key: [user], limits: [{rate: 20/h, algorithm: sliding_log},"
    " {rate: 2/s, burst: 9, algorithm: leaky_bucket}]}\n",
    "- {name: f1, key: [host], mode: {soft: {exceed: 20%}}, limits: [{rate: 30/h, algorithm:"
    " fixed_window}]}\n",
    "- {name: f2, priority: 2, match: {user: u3}, action: allow}\n",
    "- {name: f3, priority: 4, match: {user: u4}, action: block}\n",
    "- {name: f4, key: [user, host], count_denied: true, limits: [{rate: 9/m}]}\n",
};

enum {
    TRIALS = sizeof trials / sizeof *trials,
    FORCED = sizeof forced / sizeof *forced,
    LIMITED = 1 << 0 | 1 << 1 | 1 << 4 /* those in force that have limits */
};

/* A file with the rules in force that `which` names and, if asked for, those on trial. */
static void write_rules(char *out, size_t room, unsigned which, unsigned on_trial)
{
    size_t len = (size_t)snprintf(out, room, "unmatched: %s\nrules:\n%s",
                                  which & 1 << FORCED ? "deny" : "allow",
                                  "- {name: never, match: {user: nobody}, action: block}\n");
    for (unsigned i = 0; i < TRIALS; i++)
        if ((on_trial >> i & 1) != 0)
            len += (size_t)snprintf(out + len, room - len, "%s", trials[i]);
    for (unsigned i = 0; i < FORCED; i++)
        if ((which >> i & 1) != 0)
            len += (size_t)snprintf(out + len, room - len, "%s", forced[i]);
    assert_true(len < room);
}

static void assert_same_text(struct wire_text a, struct wire_text b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
}

/* The two say the same, but for what a rule on trial would have denied. */
static void assert_same(const struct wire_decision *with, const struct wire_decision *without)
{
    assert_int_equal(with->allowed, without->allowed);
    assert_int_equal(with->degraded, without->degraded);
    assert_true(with->limit == without->limit && with->used == without->used);
    assert_int_equal(with->remaining, without->remaining);
    assert_int_equal(with->granted, without->granted);
    assert_int_equal(with->reset_after_ms, without->reset_after_ms);
    assert_int_equal(with->retry_after_ms, without->retry_after_ms);
    assert_int_equal(with->delay_ms, without->delay_ms);
    assert_int_equal(with->lease, without->lease);
    assert_int_equal(with->source->status, without->source->status);
    assert_same_text(with->source->rule, without->source->rule);
    assert_same_text(with->source->window, without->source->window);
    assert_same_text(with->source->message, without->source->message);
    if (with->outcome == OUTCOME_SHADOW_DENIED)
        assert_true(with->source->shadow_rule.len == 2 && with->allowed);
    else if (with->outcome != OUTCOME_ALLOW || without->outcome != OUTCOME_NO_RULE)
        assert_int_equal(with->outcome, without->outcome);
}

/* Whatever is asked of whichever rules in force, rules on trial beside them change nothing of the
 * answer but that. */
static void rules_on_trial_change_nothing_of_any_answer(void **state)
{
    enum { FILES = EFFORT(16), REQUESTS = 60 };
    static const uint8_t operations[] = {OPERATION_CHECK, OPERATION_CHECK,
                                         OPERATION_CHECK, OPERATION_CHECK | WIRE_AT_MOST,
                                         OPERATION_PEEK,  OPERATION_PEEK | WIRE_AT_MOST,
                                         OPERATION_HIT,   OPERATION_REFUND};
    struct random random;
    unsigned shadowed = 0;
    (void)state;
    random_init(&random, 8);
    for (unsigned file = 0; file < FILES; file++) {
        const unsigned which = (unsigned)random_below(&random, 2 << FORCED);
        const bool several = __builtin_popcount(which & LIMITED) > 1;
        const unsigned on_trial = 1 + (unsigned)random_below(&random, (1 << TRIALS) - 1);
        struct lab *labs[2];
        for (unsigned i = 0; i < 2; i++) {
            char rules[4096];
            void *made;
            assert_int_equal(lab_set_up_one(&made), 0);
            labs[i] = made;
            write_rules(rules, sizeof rules, which, i == 0 ? on_trial : 0);
            lab_rules(labs[i], rules);
        }
        for (unsigned n = 0; n < REQUESTS; n++) {
            char user[16];
            char host[16];
            (void)snprintf(user, sizeof user, "user=u%u", (unsigned)random_below(&random, 5));
            (void)snprintf(host, sizeof host, "host=h%u", (unsigned)random_below(&random, 3));
            const char *const attributes[] = {user, random_below(&random, 4) == 0 ? NULL : host,
                                              NULL};
            uint8_t operation = operations[random_below(&random, sizeof operations)];
            if (several && operation == (OPERATION_CHECK | WIRE_AT_MOST))
                operation = OPERATION_CHECK; /* of two with nothing left either may be named */
            const uint64_t cost = random_below(&random, 6) == 0 ? 25 : random_below(&random, 4);
            struct wire_decision got[2];
            for (unsigned i = 0; i < 2; i++)
                got[i] = ask_as(labs[i], operation, cost, attributes);
            assert_same(&got[0], &got[1]);
            shadowed += got[0].outcome == OUTCOME_SHADOW_DENIED;
            const int64_t gap_ns = random_between(&random, 0, 120) * LAB_MS;
            for (unsigned i = 0; i < 2; i++)
                lab_run(labs[i], gap_ns);
        }
        for (unsigned i = 0; i < 2; i++) {
            void *done = labs[i];
            assert_int_equal(lab_tear_down(&done), 0);
        }
    }
    assert_true(shadowed > 10 * FILES / 3);
}

/* The same whoever decides: here rules are counted by other nodes. */
static void a_trial_elsewhere_changes_nothing_either(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: queue, key: [user], shadow: true, limits: [{rate: 1/m, burst: 3,"
                   " algorithm: leaky_bucket}]}\n"
                   "- {name: real, key: [user], limits: [{rate: 9/h, algorithm: fixed_window}]}\n");
    for (unsigned u = 0; u < 8; u++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user=u%u", u);
        const char *const attributes[] = {user, NULL};
        for (unsigned n = 1; n <= 10; n++) {
            const struct wire_decision decision = ask_as(lab, OPERATION_CHECK, 1, attributes);
            assert_int_equal(decision.outcome, n <= 3   ? OUTCOME_ALLOW
                                               : n <= 9 ? OUTCOME_SHADOW_DENIED
                                                        : OUTCOME_DENY);
            assert_true(decision.limit == 9 && decision.used == (n < 9 ? n : 9));
            assert_int_equal(decision.delay_ms, 0);
            assert_int_equal(decision.source->shadow_rule.len, n > 3 && n <= 9 ? 5 : 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(alone_it_tells_nothing_but_what_it_would_have_denied),
        LAB_TEST_ONE(a_queue_on_trial_makes_nobody_wait),
        LAB_TEST_ONE(what_would_have_denied_is_named),
        LAB_TEST_ONE(a_denial_in_force_names_no_rule_on_trial),
        LAB_TEST_ONE(what_is_granted_is_what_rules_in_force_grant),
        LAB_TEST_ONE(alone_each_keeps_what_it_took),
        LAB_TEST_ONE(a_rule_on_trial_keeps_nobody_from_a_lease),
        cmocka_unit_test(rules_on_trial_change_nothing_of_any_answer),
        LAB_TEST_THREE(a_trial_elsewhere_changes_nothing_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
