/* test_requests.c - client messages: what an item is charged for, and what is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/model/usage_tally.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/people.h"
#include "node/policy/people/policy_join.h"
#include "tests/unit/support_shard.h"

/* A lab of two nodes of which the second is a ghost. */
static int set_up_ghost(void **state)
{
    struct lab *lab = lab_new(2, 1, 1);
    lab_start(lab, 0);
    lab_run(lab, 50 * LAB_MS);
    *state = lab;
    return 0;
}

/* Two nodes that both decide. */
static int set_up_two(void **state)
{
    struct lab *lab = lab_new(2, 1, 1);
    lab_start(lab, 0);
    lab_start(lab, 1);
    lab_run(lab, 100 * LAB_MS);
    *state = lab;
    return 0;
}

/* Three of which the third is a ghost. */
static int set_up_two_and_ghost(void **state)
{
    struct lab *lab = lab_new(3, 1, 1);
    lab_start(lab, 0);
    lab_start(lab, 1);
    lab_run(lab, 100 * LAB_MS);
    *state = lab;
    return 0;
}

/* The decision on one request with these attributes. */
static struct wire_decision ask(struct lab *lab, uint64_t cost, const char *const *attributes)
{
    lab_ask_attributes(lab, cost, attributes);
    return lab_answer(lab, lab_send(lab, 0, 5000), 0);
}

static const char *const ann[] = {"user=ann", NULL};
static const char *const bob[] = {"user=bob", NULL};

/* The numbers of an inline limit are those of its own key, and the answer names the window. */
static void an_inline_check_is_answered_with_its_numbers(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    struct wire_decision decision = lab_check(lab, 0, "k", &limit, 3);
    assert_true(decision.allowed && decision.outcome == OUTCOME_ALLOW && !decision.degraded);
    assert_true(decision.limit == 10 && decision.used == 3 && decision.remaining == 7);
    assert_int_equal(decision.granted, 3);
    assert_int_equal(decision.vnode, lab_vnode_of(lab, "k"));
    assert_int_equal(decision.retry_after_ms, 0);
    assert_true(lab_text_is(decision.source->window, "10/h"));
    assert_true(lab_text_is(decision.source->node, "n0"));
    assert_int_equal(decision.source->rule.len, 0);
    assert_int_equal(decision.source->status, 200);
    decision = lab_check(lab, 0, "k", &limit, 8);
    assert_true(!decision.allowed && decision.outcome == OUTCOME_DENY);
    assert_true(decision.used == 3 && decision.granted == 0 && decision.retry_after_ms > 0);
    assert_int_equal(decision.source->status, 429);
    assert_int_equal(lab_check(lab, 0, "other", &limit, 1).used, 1);
}

/* Items of one message see each other's effect, in their order, and each has its own answer. */
static void items_of_a_message_are_decided_in_their_order(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(2);
    const struct limit wide = lab_limit(7);
    for (int i = 0; i < 3; i++)
        lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    lab_ask(lab, &wide, "q", OPERATION_CHECK, 4);
    const uint64_t seq = lab_send(lab, 0, 1000);
    assert_true(lab_answer(lab, seq, 0).allowed && lab_answer(lab, seq, 1).allowed);
    assert_false(lab_answer(lab, seq, 2).allowed);
    assert_int_equal(lab_answer(lab, seq, 3).remaining, 3);
    assert_true(lab_text_is(lab_answer(lab, seq, 2).source->window, "2/h"));
    assert_true(lab_text_is(lab_answer(lab, seq, 3).source->window, "7/h"));
    assert_int_equal(lab->decisions.head.count, 4);
    assert_int_equal(lab_answers(lab, seq), 1);
}

/* Every operation reaches the engine as it was asked. */
static void the_operations_do_what_their_names_say(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    assert_int_equal(lab_check(lab, 0, "k", &limit, 6).used, 6);
    lab_ask(lab, &limit, "k", OPERATION_PEEK, 5);
    assert_false(lab_answer(lab, lab_send(lab, 0, 1000), 0).allowed);
    lab_ask(lab, &limit, "k", OPERATION_REFUND, 2);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 1000), 0).used, 4);
    lab_ask(lab, &limit, "k", OPERATION_HIT, 9);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 1000), 0).used, 13);
    lab_ask(lab, &limit, "k", OPERATION_RESET, 0);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 1000), 0).used, 0);
}

/* An admission in flight has a lease, which a repeated message finds again and a release gives
 * back. */
static void an_admission_in_flight_has_a_lease(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = {
        .count = 2, .window_ns = 30000000000, .algorithm = ALGORITHM_CONCURRENCY};
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    lab_ask(lab, &limit, "k", OPERATION_LEASE, 1);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    lab_ask(lab, &limit, "k", OPERATION_PEEK, 1);
    const uint64_t seq = lab_send(lab, 0, 1000);
    const uint64_t first = lab_answer(lab, seq, 0).lease;
    const uint64_t second = lab_answer(lab, seq, 1).lease;
    assert_true(first != 0 && second != 0 && first != second);
    assert_true(!lab_answer(lab, seq, 2).allowed && lab_answer(lab, seq, 2).lease == 0);
    assert_int_equal(lab_answer(lab, seq, 3).lease, 0);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    lab_send_again(lab, 0, seq, 1000);
    assert_true(lab_answer(lab, seq, 0).allowed && lab_answer(lab, seq, 0).lease == first);
    lab_ask(lab, &limit, "k", OPERATION_RELEASE, first);
    lab_ask(lab, &limit, "k", OPERATION_RELEASE, first);
    lab_ask(lab, &limit, "k", OPERATION_RENEW, first);
    lab_ask(lab, &limit, "k", OPERATION_RENEW, second);
    lab_ask(lab, &limit, "k", OPERATION_REFUND, 1);
    const uint64_t back = lab_send(lab, 0, 1000);
    assert_int_equal(lab_answer(lab, back, 0).used, 1);
    assert_int_equal(lab_answer(lab, back, 1).used, 1);
    assert_false(lab_answer(lab, back, 2).allowed);
    assert_true(lab_answer(lab, back, 3).allowed);
    assert_int_equal(lab_answer(lab, back, 4).used, 1); /* it took no place itself */
}

/* Whether the decision refuses the operation with a sentence that begins with its name and tells
 * what was expected. */
static bool refuses(const struct wire_decision *decision, const char *operation)
{
    static const char expected[] = ": expected limits ";
    const struct wire_text message = decision->source->message;
    const size_t name_len = strlen(operation);
    return !decision->allowed && decision->outcome == OUTCOME_ERROR &&
           decision->source->status == 400 && message.len > name_len + strlen(expected) &&
           memcmp(message.data, operation, name_len) == 0 &&
           memcmp(message.data + name_len, expected, strlen(expected)) == 0;
}

/* Who takes, releases or renews a lease where no limit has any is told so, and nothing is charged;
 * a message of the rule's own does not hide it. */
static void a_lease_that_nobody_gives_is_refused_with_a_sentence(void **state)
{
    static const char *const names[] = {"lease", "release", "renew"};
    struct lab *lab = *state;
    const struct limit bucket = {
        .count = 5, .window_ns = UINT64_C(3600) * 1000000000, .algorithm = ALGORITHM_LEAKY_BUCKET};
    lab_rules(lab, "rules:\n"
                   "- {name: calls, key: [user], mode: {soft: {exceed: 10%}},"
                   " limits: [{rate: 5/h}], response: {message: SLOWER}}\n");
    for (int i = 0; i < 3; i++) {
        lab_ask(lab, &bucket, "b", (uint8_t)(OPERATION_LEASE + i), 1);
        lab_ask_attributes_as(lab, (uint8_t)(OPERATION_LEASE + i), 1, ann);
        const uint64_t seq = lab_send(lab, 0, 1000);
        const struct wire_decision inline_one = lab_answer(lab, seq, 0);
        assert_true(refuses(&inline_one, names[i]));
        const struct wire_decision ruled = lab_answer(lab, seq, 1);
        assert_true(refuses(&ruled, names[i]) && lab_text_is(ruled.source->rule, "calls"));
    }
    assert_int_equal(lab_used(lab, 0, "b", &bucket), 0);
    assert_int_equal(ask(lab, 1, ann).used, 1);
}

/* Whether the decision is a denial of that outcome and status which says this. */
static bool says(const struct wire_decision *decision, enum outcome outcome, unsigned status,
                 const char *message)
{
    return !decision->allowed && decision->outcome == outcome &&
           decision->source->status == status && lab_text_is(decision->source->message, message);
}

/* Nobody is denied without being told why, whoever wrote no message: the rule's own comes first. */
static void every_denial_says_why(void **state)
{
    static const char *const nobody[] = {"api=/pay", "method=GET", NULL};
    static const char *const silent[] = {"api=/pay", "method=PUT", NULL};
    static const char *const closed[] = {"api=/closed", NULL};
    static const char *const odd[] = {"api=/odd", NULL};
    struct lab *lab = *state;
    const struct limit limit = lab_limit(2);
    lab_rules(lab,
              "unmatched: deny\n"
              "rules:\n"
              "- {name: spoken, match: {user: ann}, key: [user], limits: [{rate: 1/h}],"
              " response: {message: SLOWER}}\n"
              "- {name: mute, match: {user: bob}, key: [user], limits: [{rate: 1/h}]}\n"
              "- {name: get, match: {api: /pay, method: GET}, key: [api, phone], missing: deny,"
              " limits: [{rate: 1/h}], response: {status: 422}}\n"
              "- {name: put, match: {api: /pay, method: PUT}, key: [api, phone], missing: deny,"
              " limits: [{rate: 1/h}], response: {message: WHO}}\n"
              "- {name: shut, match: {api: /closed}, action: block}\n");
    assert_true(ask(lab, 1, ann).allowed);
    assert_true(ask(lab, 1, bob).allowed);
    struct wire_decision decision = ask(lab, 1, ann);
    assert_true(says(&decision, OUTCOME_DENY, 429, "SLOWER"));
    decision = ask(lab, 1, bob);
    assert_true(says(&decision, OUTCOME_DENY, 429, "the limit is reached"));
    decision = ask(lab, 2, bob);
    assert_true(
        says(&decision, OUTCOME_DENY, 429, "the cost is more than the limit ever allows at once"));
    decision = lab_check(lab, 0, "k", &limit, 3);
    assert_true(
        says(&decision, OUTCOME_DENY, 429, "the cost is more than the limit ever allows at once"));
    decision = ask(lab, 1, nobody);
    assert_true(says(&decision, OUTCOME_DENY, 422,
                     "attribute phone is missing: the rule counts by it, and denies what is "
                     "without it"));
    decision = ask(lab, 1, silent);
    assert_true(says(&decision, OUTCOME_DENY, 429, "WHO"));
    decision = ask(lab, 1, closed);
    assert_true(says(&decision, OUTCOME_BLOCKED, 403, "blocked"));
    decision = ask(lab, 1, odd);
    assert_true(says(&decision, OUTCOME_NO_RULE, 403, "no rule allows this request"));
}

/* Decisions of one message that are denied for different reasons each have their own. */
static void denials_of_one_message_say_why_each(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(2);
    const struct limit flight = {
        .count = 1, .window_ns = UINT64_C(30) * 1000000000, .algorithm = ALGORITHM_CONCURRENCY};
    assert_true(lab_check(lab, 0, "k", &limit, 2).allowed);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 3);
    lab_ask(lab, &flight, "f", OPERATION_RENEW, 7);
    const uint64_t seq = lab_send(lab, 0, 1000);
    struct wire_decision decision = lab_answer(lab, seq, 0);
    assert_true(says(&decision, OUTCOME_DENY, 429, "the limit is reached"));
    decision = lab_answer(lab, seq, 1);
    assert_true(
        says(&decision, OUTCOME_DENY, 429, "the cost is more than the limit ever allows at once"));
    decision = lab_answer(lab, seq, 2);
    assert_true(says(&decision, OUTCOME_DENY, 429, "the lease is over, or there was none"));
}

/* More rules than may act on one request are an error that says so, and charge nothing. */
static void too_many_rules_are_an_error_with_a_sentence(void **state)
{
    char text[2048] = "rules:\n";
    size_t len = strlen(text);
    struct lab *lab = *state;
    for (int i = 0; i <= POLICY_PARTS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "- {name: r%d, key: [user], limits: [{rate: 5/h}]}\n", i);
    lab_rules(lab, text);
    const struct wire_decision decision = ask(lab, 1, ann);
    assert_true(says(&decision, OUTCOME_ERROR, 503, POLICY_CROWD_SENTENCE));
}

/* Of several queues that a request joins it is told the longest. */
static void the_longest_queue_is_told(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- name: fast\n"
                   "  key: [user]\n"
                   "  limits: [{rate: 10/s, algorithm: leaky_bucket, burst: 3}]\n"
                   "- name: slow\n"
                   "  key: [user]\n"
                   "  limits: [{rate: 1/s, algorithm: leaky_bucket, burst: 9},"
                   " {rate: 5/s, algorithm: leaky_bucket, burst: 7}]\n");
    assert_int_equal(ask(lab, 1, ann).delay_ms, 0);
    const struct wire_decision decision = ask(lab, 1, ann);
    assert_true(decision.allowed && decision.limit == 3); /* the answer is about another limit */
    assert_in_range(decision.delay_ms, 900, 1000);
}

/* A caller that takes what there is gets exactly that, and is told how much. */
static void at_most_grants_what_is_left(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    assert_int_equal(lab_check(lab, 0, "k", &limit, 7).used, 7);
    lab_ask(lab, &limit, "k", OPERATION_CHECK | WIRE_AT_MOST, 8);
    const struct wire_decision decision = lab_answer(lab, lab_send(lab, 0, 1000), 0);
    assert_true(decision.allowed && decision.granted == 3 && decision.remaining == 0);
    assert_int_equal(lab_used(lab, 0, "k", &limit), 10);
}

/* All limits of a rule are charged; a denial names the one with the longest wait. */
static void a_denial_names_the_limit_that_lasts_longest(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- name: per-user\n"
                   "  key: [user]\n"
                   "  limits: [{rate: 2/h, algorithm: fixed_window},"
                   " {rate: 3/24h, algorithm: fixed_window}]\n"
                   "  response: {status: 430, message: SLOW_DOWN}\n");
    assert_true(ask(lab, 1, ann).allowed);
    struct wire_decision decision = ask(lab, 1, ann);
    assert_true(decision.allowed && decision.remaining == 0);
    assert_true(lab_text_is(decision.source->window, "2/h"));
    decision = ask(lab, 1, ann);
    assert_true(!decision.allowed && lab_text_is(decision.source->window, "2/h"));
    assert_true(lab_text_is(decision.source->rule, "per-user"));
    assert_true(lab_text_is(decision.source->message, "SLOW_DOWN"));
    assert_int_equal(decision.source->status, 430);
    assert_true(decision.retry_after_ms > 0 && decision.retry_after_ms <= 3600 * 1000);
    decision = ask(lab, 2, ann); /* denied by both */
    assert_true(!decision.allowed && lab_text_is(decision.source->window, "3/d"));
    assert_true(ask(lab, 1, bob).allowed);
}

/* A client may remember a denial that time alone ends, when it was told the very time or one that
 * is a second off: not one that was to be counted, that a release may change, or of a rule that
 * tells another time than it knows. */
static void a_denial_says_whether_it_may_be_remembered(void **state)
{
    struct lab *lab = *state;
    static const char *const asked[] = {"plain=x",  "soon=x",   "later=x",
                                        "strict=x", "places=x", "trial=x"};
    static const bool steady[] = {true, false, true, false, false, false};
    lab_rules(lab, "rules:\n"
                   "- {name: a, key: [plain], limits: [{rate: 1/h}]}\n"
                   "- {name: b, key: [soon], limits: [{rate: 20/10s, burst: 1}],"
                   " response: {retry_after: 60s}}\n"
                   "- {name: c, key: [later], limits: [{rate: 1/h}],"
                   " response: {retry_after: 60s}}\n"
                   "- {name: d, key: [strict], count_denied: true, limits: [{rate: 1/h}]}\n"
                   "- {name: e, key: [places], limits: [{rate: 1/h, algorithm: concurrency}]}\n"
                   "- {name: f, key: [trial], limits: [{rate: 1/h}]}\n"
                   "- {name: g, key: [trial], shadow: true, limits: [{rate: 2/h}]}\n");
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const char *const attributes[] = {asked[i], NULL};
        assert_true(ask(lab, 1, attributes).allowed);
        const struct wire_decision decision = ask(lab, 1, attributes);
        assert_false(decision.allowed);
        assert_int_equal(decision.steady, steady[i]);
    }
}

/* The limits of all rules that apply are one group: a denial by one charges none. */
static void rules_that_apply_together_are_charged_all_or_nothing(void **state)
{
    struct lab *lab = *state;
    static const char *const both[] = {"user=ann", "ip=10.0.0.1", NULL};
    static const char *const other[] = {"user=bob", "ip=10.0.0.1", NULL};
    lab_rules(lab,
              "rules:\n"
              "- {name: by-user, key: [user], limits: [{rate: 1/h, algorithm: fixed_window}]}\n"
              "- {name: by-ip, key: [ip], limits: [{rate: 3/h, algorithm: fixed_window}]}\n");
    struct wire_decision decision = ask(lab, 1, both);
    assert_true(decision.allowed && decision.remaining == 0);
    assert_true(lab_text_is(decision.source->rule, "by-user")); /* the least remaining */
    for (int i = 0; i < 3; i++) {
        decision = ask(lab, 1, both);
        assert_true(!decision.allowed && lab_text_is(decision.source->rule, "by-user"));
    }
    assert_true(ask(lab, 1, other).allowed); /* the address was charged once so far */
    assert_int_equal(lab_stats(lab, 0).undone, 0);
}

/* Without rules everything is allowed, and said to be so for want of a rule. */
static void a_request_that_no_rule_matches_gets_what_unmatched_says(void **state)
{
    struct lab *lab = *state;
    struct wire_decision decision = ask(lab, 1, ann);
    assert_true(decision.allowed && decision.outcome == OUTCOME_NO_RULE);
    assert_int_equal(decision.vnode, WIRE_VNODE_NONE);
    lab_rules(lab, "unmatched: deny\nrules: []\n");
    decision = ask(lab, 1, ann);
    assert_true(!decision.allowed && decision.outcome == OUTCOME_NO_RULE);
    assert_int_equal(decision.source->status, 403);
    assert_int_equal(decision.retry_after_ms, -1);
}

/* Block and allow rules act before anything is charged. */
static void block_and_allow_rules_charge_nothing(void **state)
{
    struct lab *lab = *state;
    static const char *const root[] = {"user=root", NULL};
    lab_rules(lab, "rules:\n"
                   "- {name: no-bob, priority: 9, match: {user: bob}, action: block}\n"
                   "- {name: yes-root, priority: 8, match: {user: root}, action: allow}\n"
                   "- {name: all, key: [user], limits: [{rate: 1/h}]}\n");
    struct wire_decision decision = ask(lab, 1, bob);
    assert_true(!decision.allowed && decision.outcome == OUTCOME_BLOCKED);
    assert_true(lab_text_is(decision.source->rule, "no-bob"));
    assert_int_equal(decision.source->status, 403);
    for (int i = 0; i < 3; i++) {
        decision = ask(lab, 1, root);
        assert_true(decision.allowed && decision.outcome == OUTCOME_ALLOW);
    }
    assert_int_equal(lab_stats(lab, 0).checks, 0);
    assert_true(ask(lab, 1, ann).allowed);
    assert_false(ask(lab, 1, ann).allowed);
}

/* A rule may insist on its key's attributes. */
static void a_missing_attribute_denies_when_the_rule_says_so(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: needs-phone, key: [phone], missing: deny, limits: [{rate: 9/h}]}\n");
    const struct wire_decision decision = ask(lab, 1, ann);
    assert_true(!decision.allowed && decision.outcome == OUTCOME_DENY);
    assert_true(lab_text_is(decision.source->rule, "needs-phone"));
}

/* A shadow rule never denies, but what it would have denied is told. */
static void a_shadow_rule_records_and_does_not_deny(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n- {name: trial, key: [user], shadow: true, limits: [{rate: 1/h}]}\n");
    assert_int_equal(ask(lab, 1, ann).outcome, OUTCOME_ALLOW);
    const struct wire_decision decision = ask(lab, 1, ann);
    assert_true(decision.allowed && decision.outcome == OUTCOME_SHADOW_DENIED);
}

/* Where what no rule matches is denied, rules on trial are charged as if they were in force, each
 * for itself, and the request is denied all the same; a lease, which nobody would give back, is not
 * taken. */
static void a_shadow_rule_is_charged_by_what_nothing_else_matches(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab,
              "unmatched: deny\nrules:\n"
              "- {name: a, key: [user], shadow: true, limits: [{rate: 3/h}]}\n"
              "- {name: b, key: [user], shadow: true, limits: [{rate: 1/h}]}\n"
              "- {name: c, key: [user], shadow: true, limits: [{algorithm: concurrency, count: 1}]}"
              "\n");
    for (int i = 0; i < 2; i++) {
        const struct wire_decision decision = ask(lab, 1, ann);
        assert_true(!decision.allowed && decision.outcome == OUTCOME_NO_RULE);
        assert_true(lab_text_is(decision.source->rule, "") && decision.source->status == 403);
        assert_true(decision.limit == 0 && decision.retry_after_ms == -1);
    }
    lab_rules(lab, "rules: [{name: a, key: [user], limits: [{rate: 3/h}]}]\n");
    assert_int_equal(ask(lab, 1, ann).remaining, 0); /* two, and this one */
    lab_rules(lab, "rules: [{name: b, key: [user], limits: [{rate: 1/h}]}]\n");
    assert_false(ask(lab, 1, ann).allowed);
    lab_rules(lab,
              "rules: [{name: c, key: [user], limits: [{algorithm: concurrency, count: 1}]}]\n");
    assert_true(ask(lab, 1, ann).allowed);
}

/* An enforced limit is neither hidden nor softened by a shadow rule beside it. */
static void a_shadow_rule_beside_an_enforced_one_changes_nothing(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: trial, key: [user], shadow: true, limits: [{rate: 1/h,"
                   " algorithm: fixed_window}]}\n"
                   "- {name: real, key: [user], limits: [{rate: 3/h, algorithm: fixed_window}]}\n");
    assert_int_equal(ask(lab, 1, ann).outcome, OUTCOME_ALLOW);
    struct wire_decision decision = ask(lab, 1, ann);
    assert_true(decision.allowed && decision.outcome == OUTCOME_SHADOW_DENIED);
    assert_true(lab_text_is(decision.source->rule, "real") && decision.remaining == 1);
    assert_true(ask(lab, 1, ann).allowed);
    decision = ask(lab, 1, ann);
    assert_true(!decision.allowed && lab_text_is(decision.source->rule, "real"));
}

/* Above a soft limit a request is allowed and told so, under the limit as it was written, whoever
 * decides; a limit on trial beside it does not hide that. */
static void above_a_soft_limit_a_request_is_allowed_and_told(void **state)
{
    struct lab *lab = *state;
    unsigned forwarded = 0;
    lab_rules(lab,
              "rules:\n"
              "- {name: real, key: [user], mode: {soft: {exceed: 25%}}, limits: [{rate: 8/h,"
              " algorithm: fixed_window}, {rate: 10/d, algorithm: fixed_window, mode: hard}]}\n"
              "- {name: trial, key: [user], shadow: true, mode: {soft: {exceed: 25%}},"
              " limits: [{rate: 4/h, algorithm: fixed_window}]}\n");
    for (unsigned u = 0; u < 8; u++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user=u%u", u);
        const char *const attributes[] = {user, NULL};
        for (unsigned n = 1; n <= 11; n++) {
            const struct wire_decision decision = ask(lab, 1, attributes);
            const uint8_t expected = n <= 5    ? OUTCOME_ALLOW
                                     : n <= 8  ? OUTCOME_SHADOW_DENIED
                                     : n <= 10 ? OUTCOME_SOFT_EXCEEDED
                                               : OUTCOME_DENY;
            assert_int_equal(decision.outcome, expected);
            assert_int_equal(decision.allowed, n <= 10);
            if (expected == OUTCOME_SOFT_EXCEEDED) {
                assert_true(lab_text_is(decision.source->window, "8/h"));
                assert_true(decision.limit == 8 && decision.used == n && decision.remaining == 0);
                assert_int_equal(decision.source->status, 200);
            }
        }
    }
    for (uint32_t at = 1; at < lab->count; at++)
        forwarded += lab_stats(lab, at).checks > 0;
    assert_int_equal(forwarded, lab->count - 1);
}

/* A rule with count_denied charges what it denies, so that insisting does not pay. */
static void count_denied_charges_denied_requests(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n- {name: strict, key: [user], count_denied: true,"
                   " limits: [{rate: 2/h, algorithm: fixed_window}]}\n");
    assert_int_equal(ask(lab, 2, ann).used, 2);
    assert_false(ask(lab, 1, ann).allowed);
    assert_true(ask(lab, 0, ann).used > 2);
}

/* The rule's own retry_after replaces the computed one on a denial. */
static void a_rules_retry_after_replaces_the_computed_one(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n- {name: r, key: [user], limits: [{rate: 1/h}],"
                   " response: {retry_after: 60s}}\n");
    assert_int_equal(ask(lab, 1, ann).retry_after_ms, 0);
    assert_int_equal(ask(lab, 1, ann).retry_after_ms, 60000);
}

/* A message is refused whole: nothing of it is charged, and its sender learns which one. */
static void a_malformed_message_is_refused_and_charges_nothing(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    int len = wire_checks_builder_encode(&lab->builder, LAB_SESSION, 41, 0, 1000, lab->frame,
                                         sizeof lab->frame);
    wire_checks_builder_reset(&lab->builder);
    assert_true(len > 10);
    for (int cut = 0; cut < len; cut++) {
        shard_client(lab->shards[0].shard, lab->now_ns, LAB_CONNECTION, lab->frame, (size_t)cut,
                     &lab->effects);
        lab_perform(lab, 0);
        assert_true(lab_last_error(lab).code < 0);
    }
    assert_int_equal(lab_stats(lab, 0).checks, 0);
    assert_true(lab_stats(lab, 0).bad_frames >= (uint64_t)len);
    uint8_t *last = memchr(lab->frame, 'k', (size_t)len);
    assert_non_null(last);
    last[-2] = 0xff; /* the key is said to be longer than what is there */
    lab_client(lab, 0, len);
    assert_true(lab_last_error(lab).seq == 41 && lab_last_error(lab).session == LAB_SESSION);
    assert_int_equal(lab_last_error(lab).code, TG_EPROTOCOL);
    assert_int_equal(lab_used(lab, 0, "k", &limit), 0);
}

/* A type that only nodes send is answered as unsupported, under its own sequence. */
static void a_message_that_no_node_takes_is_answered_as_unsupported(void **state)
{
    struct lab *lab = *state;
    const struct wire_error message = {LAB_SESSION, 5, TG_EBUSY, wire_text_of("x")};
    const int len = wire_encode_error(&message, lab->frame, sizeof lab->frame);
    lab_client(lab, 0, len);
    assert_int_equal(lab_last_error(lab).code, TG_EUNSUPPORTED);
    assert_int_equal(lab_last_error(lab).seq, 5);
}

/* A node without a cluster cannot know who decides: it says so and decides nothing. */
static void a_node_without_a_cluster_decides_nothing(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    lab_create(lab, 0);
    lab_ask(lab, &limit, "k", OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, 0, 1000);
    assert_int_equal(lab_last_error(lab).code, TG_EUNAVAILABLE);
    assert_int_equal(lab_last_error(lab).seq, seq);
    assert_int_equal(lab_stats(lab, 0).checks, 0);
}

static int set_up_unstarted(void **state)
{
    *state = lab_new(1, 1, 1);
    return 0;
}

/* What nobody answers in time is an error, and never before the time is over. */
static void a_check_that_nobody_decides_ends_at_its_deadline(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char key[LAB_KEY_LEN];
    lab_key(lab, lab_vnode_owned(lab, 1), 0, key);
    lab_ask(lab, &limit, key, OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, 0, 300);
    lab_run(lab, 290 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    lab_run(lab, 30 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    const struct wire_decision decision = lab_answer(lab, seq, 0);
    assert_true(!decision.allowed && decision.outcome == OUTCOME_ERROR && decision.degraded);
    assert_int_equal(decision.source->status, 503);
    assert_int_equal(lab_stats(lab, 0).expired, 1);
    assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
}

/* on_failure decides what a request gets whose limit nobody could look at. */
static void on_failure_open_admits_what_nobody_could_decide(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: lax, match: {kind: lax}, key: [user], on_failure: open,"
                   " limits: [{rate: 1/h}]}\n"
                   "- {name: firm, match: {kind: firm}, key: [user], on_failure: closed,"
                   " limits: [{rate: 1/h}]}\n");
    bool open = false;
    bool closed = false;
    for (uint32_t i = 0; i < 64 && !(open && closed); i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user=u%u", i);
        const char *const lax[] = {user, "kind=lax", NULL};
        const char *const firm[] = {user, "kind=firm", NULL};
        lab_ask_attributes(lab, 1, lax);
        lab_ask_attributes(lab, 1, firm);
        const uint64_t seq = lab_send(lab, 0, 20);
        const struct wire_decision first = lab_answer(lab, seq, 0);
        const struct wire_decision second = lab_answer(lab, seq, 1);
        assert_true(first.allowed);
        if (first.degraded && first.limit == 0)
            open = true;
        if (!second.allowed && second.outcome == OUTCOME_ERROR)
            closed = true;
    }
    assert_true(open && closed);
}

/* The bound on what may wait is reached with an answer at once, and what waits is not lost. */
static void more_than_may_wait_is_answered_busy_at_once(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char key[LAB_KEY_LEN];
    uint64_t waiting[SHARD_PENDING_MAX / WIRE_CHECKS_MAX];
    const uint32_t messages = sizeof waiting / sizeof *waiting;
    lab_key(lab, lab_vnode_owned(lab, 1), 0, key);
    for (uint32_t m = 0; m <= messages; m++) {
        for (uint32_t i = 0; i < WIRE_CHECKS_MAX; i++)
            lab_ask(lab, &limit, key, OPERATION_CHECK, 1);
        const uint64_t seq = lab_send(lab, 0, 100);
        if (m < messages) {
            waiting[m] = seq;
            continue;
        }
        assert_true(lab_answered(lab, seq));
        const struct wire_decision decision = lab_answer(lab, seq, WIRE_CHECKS_MAX - 1);
        assert_true(!decision.allowed && decision.outcome == OUTCOME_BUSY);
    }
    assert_int_equal(lab_stats(lab, 0).busy, WIRE_CHECKS_MAX);
    assert_int_equal(lab_stats(lab, 0).checks_pending, SHARD_PENDING_MAX);
    for (uint32_t m = 0; m < messages; m++) {
        assert_int_equal(lab_answer(lab, waiting[m], 7).outcome, OUTCOME_ERROR);
        assert_int_equal(lab_answers(lab, waiting[m]), 1);
    }
    assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
}

/* Asks for `here`, which node 0 decides, and `there`, which nobody does, by turns. */
static uint64_t ask_by_turns(struct lab *lab, uint32_t flags)
{
    const struct limit limit = lab_limit(10);
    char here[LAB_KEY_LEN];
    char there[LAB_KEY_LEN];
    lab_key(lab, lab_vnode_owned(lab, 0), 0, here);
    lab_key(lab, lab_vnode_owned(lab, 1), 0, there);
    for (uint32_t i = 0; i < 4; i++)
        lab_ask(lab, &limit, i % 2 == 0 ? here : there, OPERATION_CHECK, 1);
    return lab_send_flagged(lab, 0, flags, 100);
}

/* Who wants it so is told at once what is decided at once, and the rest with it when that is. */
static void a_message_is_answered_in_parts_for_who_asks_for_it(void **state)
{
    struct lab *lab = *state;
    const uint64_t seq = ask_by_turns(lab, WIRE_FLAG_PARTLY);
    assert_int_equal(lab_answers(lab, seq), 1);
    for (uint32_t i = 0; i < 4; i++) {
        const struct wire_decision decision = lab_answer(lab, seq, i);
        assert_int_equal(decision.pending, i % 2);
        assert_int_equal(decision.allowed, 1 - i % 2);
        assert_int_equal(decision.remaining, i % 2 == 0 ? 9 - i / 2 : 0);
    }
    lab_run(lab, 90 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 1);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    for (uint32_t i = 0; i < 4; i++) {
        const struct wire_decision decision = lab_answer(lab, seq, i);
        assert_false(decision.pending);
        assert_int_equal(decision.outcome, i % 2 == 0 ? OUTCOME_ALLOW : OUTCOME_ERROR);
        assert_int_equal(decision.remaining, i % 2 == 0 ? 9 - i / 2 : 0);
    }
    assert_int_equal(lab_stats(lab, 0).checks, 2); /* none was decided again */
    const uint64_t other = ask_by_turns(lab, WIRE_FLAG_PARTLY | WIRE_FLAG_EXPLAIN);
    assert_false(lab_answered(lab, other)); /* what is explained is answered whole */
}

/* What another node decides is told when it has, though a third one says nothing. */
static void what_comes_later_is_told_when_it_comes(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char key[3][LAB_KEY_LEN];
    for (uint32_t i = 0; i < 3; i++) {
        lab_key(lab, lab_vnode_owned(lab, i), 0, key[i]);
        lab_ask(lab, &limit, key[i], OPERATION_CHECK, 1);
    }
    const uint64_t seq = lab_send_flagged(lab, 0, WIRE_FLAG_PARTLY, 500);
    for (uint32_t told = 0; told < 3; told++) {
        lab_run(lab, told * 250 * LAB_MS);
        assert_int_equal(lab_answers(lab, seq), told + 1);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(lab_answer(lab, seq, i).pending, i > told);
    }
    assert_int_equal(lab_answer(lab, seq, 1).outcome, OUTCOME_ALLOW);
    assert_int_equal(lab_answer(lab, seq, 2).outcome, OUTCOME_ERROR);
}

/* Who will not repeat a message is not remembered for it; whoever else does is charged once. */
static void what_is_asked_once_is_not_remembered(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    uint64_t left[2];
    char here[LAB_KEY_LEN];
    lab_key(lab, lab_vnode_owned(lab, 0), 0, here);
    for (uint32_t once = 0; once < 2; once++) {
        lab_ask(lab, &limit, here, OPERATION_CHECK, 1);
        const uint64_t seq = lab_send_flagged(lab, 0, once != 0 ? WIRE_FLAG_ONCE : 0, 100);
        lab_ask(lab, &limit, here, OPERATION_CHECK, 1);
        lab_send_again(lab, 0, seq, 100);
        left[once] = lab_answer(lab, seq, 0).remaining;
    }
    assert_int_equal(left[0], 9);
    assert_int_equal(left[1], 7); /* charged for the repetition, too */
}

/* Some items of a message may wait while others were decided: the reply tells of all. */
static void a_message_that_waits_in_part_is_answered_once_and_whole(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char here[LAB_KEY_LEN];
    char there[LAB_KEY_LEN];
    lab_key(lab, lab_vnode_owned(lab, 0), 0, here);
    lab_key(lab, lab_vnode_owned(lab, 1), 0, there);
    for (uint32_t i = 0; i < 100; i++)
        lab_ask(lab, &limit, i % 2 == 0 ? here : there, OPERATION_CHECK, 0);
    const uint64_t seq = lab_send(lab, 0, 100);
    assert_false(lab_answered(lab, seq));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(lab_answer(lab, seq, i).outcome,
                         i % 2 == 0 ? OUTCOME_ALLOW : OUTCOME_ERROR);
    assert_int_equal(lab_answers(lab, seq), 1);
}

/* Rules in use by a message that waits are not given back before it is answered. */
static void old_rules_are_kept_until_no_message_waits_for_them(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = lab->shards[0].shard;
    const struct policy *old = lab_rules(
        lab, "rules:\n- {name: r, key: [user], limits: [{rate: 1/h}], on_failure: open}\n");
    assert_ptr_equal(shard_policy_unused(shard), policy_empty());
    for (uint32_t i = 0; i < 8; i++) { /* at least one of them is the ghost's */
        char user[16];
        (void)snprintf(user, sizeof user, "user=u%u", i);
        const char *const attributes[] = {user, NULL};
        lab_ask_attributes(lab, 1, attributes);
    }
    const uint64_t seq = lab_send(lab, 0, 50);
    assert_false(lab_answered(lab, seq));
    (void)lab_rules(lab, "rules: []\n");
    assert_null(shard_policy_unused(shard));
    for (uint32_t i = 0; i < 8; i++)
        assert_true(lab_text_is(lab_answer(lab, seq, i).source->rule, "r"));
    assert_ptr_equal(shard_policy_unused(shard), old);
    assert_null(shard_policy_unused(shard));
}

/* ---- API keys -------------------------------------------------------------------------------- */

#define RAW    "tgk_abcdefgh2345_abcdefghijklmnopqrstuvwxyz234567"
#define KEY_ID "abcdefgh2345"

static const char key_rules[] =
    "rules:\n"
    "- {name: inside, priority: 9, match: {ip: 10.0.0.0/8}, action: allow}\n"
    "- {name: by-key, key: [api_key], limits: [{rate: 9/h, algorithm: fixed_window}]}\n"
    "- {name: by-user, key: [user], limits: [{rate: 5/h, algorithm: fixed_window}]}\n";

/* Puts the rules in force beside one key of ann's that ends at `expires_ms`, and may ask so many
 * times an hour itself, 0: without a limit. */
static void join_key_to(struct lab *lab, const char *text, uint64_t expires_ms, uint64_t hourly)
{
    uint8_t value[API_KEY_RECORD_LEN_MAX];
    struct policy_joined with = {.blocks = NULL};
    struct policy *joined;
    struct api_key_record record = {.owner = {"ann", 3}, .expires_ms = expires_ms};
    record.own.counts[OWN_HOUR] = hourly;
    digest_make(RAW, strlen(RAW), &record.digest);
    const int len = api_key_encode(&record, value, sizeof value);
    assert_true(len > 0);
    const struct api_key_entry entry = {{KEY_ID, strlen(KEY_ID)},
                                        {(const char *)value, (size_t)len}};
    assert_int_equal(api_keys_new(alloc_heap(), &entry, 1, &with.api_keys), 0);
    const struct policy *rules = lab_rules(lab, text);
    assert_int_equal(policy_join(alloc_heap(), rules, &with, &joined), 0);
    lab_policy(lab, joined);
}

static void join_limited_key(struct lab *lab, uint64_t expires_ms, uint64_t hourly)
{
    join_key_to(lab, key_rules, expires_ms, hourly);
}

static void join_key(struct lab *lab, uint64_t expires_ms)
{
    join_limited_key(lab, expires_ms, 0);
}

/* A key's own limits count under the key beside all rules, whoever has it; they are told as the
 * rule `api key`, also where no rule matches, and not where a rule allows all. */
static void a_key_has_limits_of_its_own(void **state)
{
    struct lab *lab = *state;
    static const char *const by_key[] = {"api_key=" RAW, NULL};
    static const char *const inside[] = {"api_key=" RAW, "ip=10.1.1.1", NULL};
    join_limited_key(lab, 0, 2);
    assert_true(ask(lab, 2, by_key).allowed);
    struct wire_decision decision = ask(lab, 1, by_key);
    assert_true(!decision.allowed && lab_text_is(decision.source->rule, "api key"));
    assert_true(lab_text_is(decision.source->window, "2/h"));
    assert_int_equal(ask(lab, 1, ann).used, 3); /* nothing of the denied one is charged */
    assert_true(ask(lab, 1, inside).allowed);
    join_limited_key(lab, 0, 3);
    assert_true(ask(lab, 1, by_key).allowed);
    assert_false(ask(lab, 1, by_key).allowed);
}

/* Requests with a key are counted for it, those that it is refused for are not. */
static void what_a_key_is_used_for_is_counted(void **state)
{
    struct lab *lab = *state;
    static const char *const by_key[] = {"api_key=" RAW, NULL};
    struct shard *shard = lab->shards[0].shard;
    join_limited_key(lab, 0, 2);
    assert_null(shard_usage(shard, usage_tally_new(alloc_heap())));
    for (int i = 0; i < 3; i++)
        (void)ask(lab, 1, by_key);
    join_key(lab, 1);
    (void)ask(lab, 1, by_key);
    struct usage_tally *seen = shard_usage(shard, NULL);
    assert_int_equal(seen->count, 1);
    assert_true(seen->entries[0].hash == api_key_hash(KEY_ID, strlen(KEY_ID)));
    assert_true(seen->entries[0].hash != people_hash(KEY_ID, strlen(KEY_ID)));
    assert_int_equal(seen->entries[0].requests, 3);
    assert_int_equal(seen->entries[0].exceeded, 1);
    usage_tally_free(&seen);
}

/* What was admitted with a lease is counted for the key when it is told; the lease itself is not.
 */
static void what_a_lease_was_used_for_is_counted(void **state)
{
    struct lab *lab = *state;
    static const char *const by_key[] = {"api_key=" RAW, NULL};
    const struct wire_text name = wire_text_of("api_key");
    const struct wire_text value = wire_text_of(RAW);
    struct shard *shard = lab->shards[0].shard;
    join_key_to(lab, "rules: [{name: k, key: [api_key], limits: [{rate: 9/h}]}]\n", 0, 0);
    lab_run(lab, 2000 * LAB_MS); /* it has to learn, before it grants */
    assert_null(shard_usage(shard, usage_tally_new(alloc_heap())));
    lab_ask_attributes_as(lab, OPERATION_LEASE, 4, by_key);
    const struct wire_decision lease = lab_answer(lab, lab_send(lab, 0, 5000), 0);
    assert_true(lease.allowed && lease.granted == 4 && lease.lease_ms > 0);
    const int index = wire_checks_builder_attributes(&lab->builder, &name, 1);
    assert_true(wire_checks_builder_append_used(&lab->builder, (uint32_t)index, OPERATION_RELEASE,
                                                lease.lease, 3, &value, 1) >= 0);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 5000), 0).granted, 1);
    struct usage_tally *seen = shard_usage(shard, NULL);
    assert_int_equal(seen->count, 1);
    assert_int_equal(seen->entries[0].requests, 3);
    assert_int_equal(seen->entries[0].exceeded, 0);
    usage_tally_free(&seen);
}

/* What is counted is the key's id and its owner, so both go on counting when the keys are gone and
 * a request names them itself; the key itself is counted under nothing. */
static void a_key_is_counted_by_its_id_and_its_owner(void **state)
{
    struct lab *lab = *state;
    static const char *const by_key[] = {"api_key=" RAW, "user=mallory", NULL};
    static const char *const by_id[] = {"api_key=" KEY_ID, NULL};
    join_key(lab, 0);
    assert_true(ask(lab, 2, by_key).allowed);
    struct wire_decision decision = ask(lab, 4, by_key); /* ann has 3 left, mallory has 5 */
    assert_true(!decision.allowed && lab_text_is(decision.source->rule, "by-user"));
    lab_rules(lab, key_rules);
    decision = ask(lab, 1, by_id);
    assert_true(decision.allowed && lab_text_is(decision.source->rule, "by-key"));
    assert_int_equal(decision.used, 3);
    assert_int_equal(ask(lab, 1, ann).used, 3);
    static const char *const raw[] = {"api_key=" RAW, NULL}; /* an attribute like any other now */
    assert_int_equal(ask(lab, 1, raw).used, 1);
}

/* A key that is not in force is blocked with 401 and why, whatever a rule allows. */
static void a_key_that_is_not_in_force_is_blocked(void **state)
{
    struct lab *lab = *state;
    static const char *const expired[] = {"api_key=" RAW, "ip=10.1.1.1", NULL};
    static const char *const unknown[] = {"ip=10.1.1.1", "api_key=x", NULL};
    static const char *const none[] = {"ip=10.1.1.1", NULL};
    join_key(lab, 1);
    struct wire_decision decision = ask(lab, 1, expired);
    assert_true(!decision.allowed && decision.outcome == OUTCOME_BLOCKED);
    assert_int_equal(decision.source->status, 401);
    assert_true(lab_text_is(decision.source->message, "API key expired"));
    assert_int_equal(decision.retry_after_ms, -1);
    decision = ask(lab, 1, unknown);
    assert_true(!decision.allowed && decision.outcome == OUTCOME_BLOCKED);
    assert_true(lab_text_is(decision.source->message, "API key unknown"));
    assert_true(ask(lab, 1, none).allowed);
}

/* What was remembered of a key is forgotten with the set that it was of. */
static void a_key_in_use_is_looked_up_anew_when_keys_change(void **state)
{
    struct lab *lab = *state;
    static const char *const by_key[] = {"api_key=" RAW, NULL};
    join_key(lab, 0);
    for (int i = 0; i < 3; i++)
        assert_true(ask(lab, 1, by_key).allowed);
    join_key(lab, 1);
    const struct wire_decision decision = ask(lab, 1, by_key);
    assert_true(!decision.allowed && lab_text_is(decision.source->message, "API key expired"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(an_inline_check_is_answered_with_its_numbers),
        LAB_TEST_ONE(items_of_a_message_are_decided_in_their_order),
        LAB_TEST_ONE(the_operations_do_what_their_names_say),
        LAB_TEST_ONE(an_admission_in_flight_has_a_lease),
        LAB_TEST_ONE(a_lease_that_nobody_gives_is_refused_with_a_sentence),
        LAB_TEST_ONE(every_denial_says_why),
        LAB_TEST_ONE(denials_of_one_message_say_why_each),
        LAB_TEST_ONE(too_many_rules_are_an_error_with_a_sentence),
        LAB_TEST_ONE(the_longest_queue_is_told),
        LAB_TEST_ONE(at_most_grants_what_is_left),
        LAB_TEST_ONE(a_denial_names_the_limit_that_lasts_longest),
        LAB_TEST_ONE(a_denial_says_whether_it_may_be_remembered),
        LAB_TEST_ONE(rules_that_apply_together_are_charged_all_or_nothing),
        LAB_TEST_ONE(a_request_that_no_rule_matches_gets_what_unmatched_says),
        LAB_TEST_ONE(block_and_allow_rules_charge_nothing),
        LAB_TEST_ONE(a_missing_attribute_denies_when_the_rule_says_so),
        LAB_TEST_ONE(a_shadow_rule_records_and_does_not_deny),
        LAB_TEST_ONE(a_shadow_rule_is_charged_by_what_nothing_else_matches),
        LAB_TEST_ONE(a_shadow_rule_beside_an_enforced_one_changes_nothing),
        LAB_TEST(above_a_soft_limit_a_request_is_allowed_and_told, set_up_two),
        LAB_TEST_ONE(count_denied_charges_denied_requests),
        LAB_TEST_ONE(a_rules_retry_after_replaces_the_computed_one),
        LAB_TEST_ONE(a_malformed_message_is_refused_and_charges_nothing),
        LAB_TEST_ONE(a_message_that_no_node_takes_is_answered_as_unsupported),
        LAB_TEST(a_node_without_a_cluster_decides_nothing, set_up_unstarted),
        LAB_TEST(a_check_that_nobody_decides_ends_at_its_deadline, set_up_ghost),
        LAB_TEST(on_failure_open_admits_what_nobody_could_decide, set_up_ghost),
        LAB_TEST(more_than_may_wait_is_answered_busy_at_once, set_up_ghost),
        LAB_TEST(a_message_that_waits_in_part_is_answered_once_and_whole, set_up_ghost),
        LAB_TEST(a_message_is_answered_in_parts_for_who_asks_for_it, set_up_ghost),
        LAB_TEST(what_comes_later_is_told_when_it_comes, set_up_two_and_ghost),
        LAB_TEST(what_is_asked_once_is_not_remembered, set_up_ghost),
        LAB_TEST(old_rules_are_kept_until_no_message_waits_for_them, set_up_ghost),
        LAB_TEST_ONE(a_key_has_limits_of_its_own),
        LAB_TEST_ONE(what_a_key_is_used_for_is_counted),
        LAB_TEST_ONE(what_a_lease_was_used_for_is_counted),
        LAB_TEST_ONE(a_key_is_counted_by_its_id_and_its_owner),
        LAB_TEST_ONE(a_key_that_is_not_in_force_is_blocked),
        LAB_TEST_ONE(a_key_in_use_is_looked_up_anew_when_keys_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
