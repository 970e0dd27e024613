/* test_replay.c - what rules would have done to a log: replayed decisions against the engine driven
 * directly, and what is summed up of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/replay/replay.h"
#include "node/limit/engine/engine.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/zones/zones.h"
#include "tests/unit/support_effort.h"

enum { SMALL_WAITING = 512, RULES_MAX = 8, KEYS_MAX = 4096, TEXT_LEN = 32 };
#define START_S   INT64_C(1795261462)
#define SECOND_NS INT64_C(1000000000)

static struct replay_record record;
static struct log_problem problem;

static struct policy *compile(const char *rules)
{
    struct policy *policy;
    struct policy_error error;
    if (policy_compile_zoned(rules, strlen(rules), alloc_heap(), zones_system(), &policy, &error) !=
        0)
        fail_msg("%u:%u: %s", error.line, error.column, error.message);
    return policy;
}

static struct replay_options small_options(const struct policy *policy)
{
    struct replay_options options = replay_options();
    options.policy = policy;
    options.allocator = alloc_heap();
    options.waiting_max = SMALL_WAITING;
    options.keys_max = KEYS_MAX;
    options.text_max = 1 << 20;
    options.engine_bytes = (size_t)8 << 20;
    return options;
}

static struct replay *start(const struct policy *policy)
{
    const struct replay_options options = small_options(policy);
    struct replay *replay;
    assert_int_equal(replay_new(&replay, &options), 0);
    return replay;
}

static void feed(struct replay *replay, const char *line)
{
    if (replay_read(replay, line, strlen(line), &record, &problem) != 0)
        fail_msg("%s: expected %s at %zu", line, problem.expected, problem.column);
    assert_int_equal(replay_take(replay, &record), 0);
}

/* A line of JSON at START_S + `at_ms`. */
static void feed_at(struct replay *replay, int64_t at_ms, const char *fields)
{
    char line[512];
    (void)snprintf(line, sizeof line, "{\"time\": %lld, %s}", (long long)(START_S * 1000 + at_ms),
                   fields);
    feed(replay, line);
}

static const struct replay_rule *found(const struct replay *replay, const char *name)
{
    for (size_t i = 0;; i++) {
        const struct replay_rule *rule = replay_rule(replay, i);
        if (strcmp(rule->rule->name.data, name) == 0)
            return rule;
    }
}

/* ---- the differential test ------------------------------------------------------------------- */

static const char model_rules[] =
    "rules:\n"
    "  - {name: bend, key: [ip, user], mode: {soft: {exceed: 100%}}, limits: [{rate: 1/20s}]}\n"
    "  - {name: vip, priority: 9, match: {user: u3}, action: allow}\n"
    "  - {name: bad, priority: 8, match: {ip: 10.0.0.9}, action: block}\n"
    "  - {name: two, key: [user], limits: [{rate: 3/5s, algorithm: sliding_log}, "
    "{rate: 20/min, algorithm: fixed_window}]}\n"
    "  - {name: each, key: [ip, method], limits: [{rate: 30/min, burst: 4}]}\n"
    "  - {name: watch, shadow: true, key: [ip], limits: [{rate: 10/10s, algorithm: "
    "sliding_window}]}\n"
    "  - {name: strict, match: {method: POST}, key: [user], missing: deny, count_denied: true, "
    "limits: [{rate: 4/10s, algorithm: fixed_window}]}\n"
    "  - {name: watch2, shadow: true, count_denied: true, key: [user], limits: [{rate: 2/s}]}\n";

struct request {
    int64_t time_ns;
    uint32_t number;
    uint64_t cost;
    char user[TEXT_LEN]; /* "" for none */
    char ip[TEXT_LEN];
    const char *method;
};

/* What the model counts of a rule. */
struct sums {
    uint64_t requests;
    uint64_t denied;
    uint64_t limit_denied[POLICY_LIMITS_MAX];
};

struct model {
    struct policy *policy;
    struct table *table;
    uint64_t outcomes[OUTCOME_COUNT];
    struct sums rules[RULES_MAX];
    bool bent; /* a check was allowed above a soft limit */
};

/* A name for the state of one limit, independent of how the replay makes them. */
static struct hash128 name_state(const struct policy_part *part, uint8_t limit)
{
    static const struct hash_key key = {{9}};
    char text[256];
    int len = snprintf(text, sizeof text, "%s/%d", part->rule->name.data, limit);
    for (uint8_t k = 0; k < part->rule->key_count; k++)
        len += snprintf(text + len, sizeof text - (size_t)len, "/%.*s", (int)part->values[k].len,
                        part->values[k].data);
    return hash128(&key, text, (size_t)len);
}

static bool ask(struct model *model, const struct policy_part *part, uint8_t limit,
                enum operation operation, const struct request *request)
{
    struct limit_decision decision;
    engine_one(model->table, name_state(part, limit), 0, &part->rule->limits[limit], request->cost,
               operation, LIMIT_LOADED, request->time_ns, &decision);
    assert_int_equal(decision.status, LIMIT_DECIDED);
    model->bent =
        model->bent || (operation == OPERATION_CHECK && (decision.notes & LIMIT_SOFT) != 0);
    return decision.allowed != 0;
}

/* Peeks at every limit of the parts of one kind, and writes down who denies. */
static bool peek_parts(struct model *model, const struct policy_result *result, bool shadow,
                       const struct request *request, bool denied[][POLICY_LIMITS_MAX])
{
    bool allowed = true;
    for (uint32_t i = 0; i < result->part_count; i++) {
        const struct policy_part *part = &result->parts[i];
        for (uint8_t k = 0; part->rule->shadow == shadow && k < part->rule->limit_count; k++) {
            denied[i][k] = !ask(model, part, k, OPERATION_PEEK, request);
            allowed = allowed && !denied[i][k];
        }
    }
    return allowed;
}

static bool part_denies(const struct policy_part *part, const bool *denied)
{
    bool any = false;
    for (uint8_t k = 0; k < part->rule->limit_count; k++)
        any = any || denied[k];
    return any;
}

/* Charges what is to be charged: everything of an allowed request, but a shadow rule that would
 * deny; and where a rule counts denied requests, the limits that deny. */
static void charge_parts(struct model *model, const struct policy_result *result, bool allowed,
                         const struct request *request, bool denied[][POLICY_LIMITS_MAX])
{
    for (uint32_t i = 0; i < result->part_count; i++) {
        const struct policy_part *part = &result->parts[i];
        const bool denies = part_denies(part, denied[i]);
        const bool alone = part->rule->shadow && part->rule->count_denied;
        for (uint8_t k = 0; k < part->rule->limit_count; k++) {
            if ((allowed || alone) && !denies)
                assert_true(ask(model, part, k, OPERATION_CHECK, request));
            else if (part->rule->count_denied && denied[i][k])
                (void)ask(model, part, k, OPERATION_HIT, request);
        }
    }
}

static struct sums *sums_of(struct model *model, const struct policy_rule *rule)
{
    return &model->rules[rule->rank];
}

static void note(struct model *model, const struct policy_rule *rule, bool denied)
{
    sums_of(model, rule)->requests++;
    sums_of(model, rule)->denied += denied;
}

static enum outcome judge_limits(struct model *model, const struct policy_result *result,
                                 const struct request *request)
{
    bool denied[POLICY_PARTS_MAX][POLICY_LIMITS_MAX] = {{false}};
    bool watched = false;
    const bool allowed = peek_parts(model, result, false, request, denied);
    (void)peek_parts(model, result, true, request, denied);
    model->bent = false;
    charge_parts(model, result, allowed, request, denied);
    for (uint32_t i = 0; i < result->part_count; i++) {
        const struct policy_part *part = &result->parts[i];
        const bool denies = part_denies(part, denied[i]);
        watched = watched || (part->rule->shadow && denies);
        note(model, part->rule, denies);
        for (uint8_t k = 0; k < part->rule->limit_count; k++)
            sums_of(model, part->rule)->limit_denied[k] += denied[i][k];
    }
    if (!allowed || model->bent)
        return allowed ? OUTCOME_SOFT_EXCEEDED : OUTCOME_DENY;
    return watched ? OUTCOME_SHADOW_DENIED : OUTCOME_ALLOW;
}

static void judge(struct model *model, const struct request *request)
{
    const struct policy_attribute attributes[] = {
        {"ip", 2, request->ip, strlen(request->ip)},
        {"method", 6, request->method, strlen(request->method)},
        {"user", 4, request->user, strlen(request->user)}};
    struct policy_result result;
    assert_int_equal(policy_resolve(model->policy, attributes, 3, &result), 0);
    enum outcome outcome = OUTCOME_DENY;
    if (result.action == POLICY_LIMITS)
        outcome = judge_limits(model, &result, request);
    else if (result.action == POLICY_ALLOW)
        outcome = OUTCOME_ALLOW;
    else if (result.action == POLICY_BLOCK)
        outcome = OUTCOME_BLOCKED;
    else if (result.action == POLICY_UNMATCHED)
        outcome = OUTCOME_NO_RULE;
    if (result.rule != NULL)
        note(model, result.rule, result.action == POLICY_BLOCK || result.action == POLICY_MISSING);
    model->outcomes[outcome]++;
}

static int by_time(const void *a, const void *b)
{
    const struct request *x = a;
    const struct request *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static void make_requests(struct random *random, struct request *requests, uint32_t count)
{
    static const char *const methods[] = {"GET", "POST"};
    int64_t now_ms = START_S * 1000;
    for (uint32_t i = 0; i < count; i++) {
        struct request *request = &requests[i];
        now_ms += (int64_t)random_below(random, 200);
        *request =
            (struct request){.time_ns = (now_ms - (int64_t)random_below(random, 3000)) * 1000000,
                             .number = i,
                             .cost = random_below(random, 8) == 0 ? 2 : 1,
                             .method = methods[random_below(random, 2)]};
        if (random_below(random, 5) > 0)
            (void)snprintf(request->user, sizeof request->user, "u%d",
                           (int)random_below(random, 5));
        (void)snprintf(request->ip, sizeof request->ip, "10.0.0.%d", (int)random_below(random, 10));
    }
}

static void feed_request(struct replay *replay, const struct request *request)
{
    char fields[256];
    (void)snprintf(fields, sizeof fields,
                   "\"ip\": \"%s\", \"method\": \"%s\", \"user\": \"%s\", \"cost\": %llu",
                   request->ip, request->method, request->user, (unsigned long long)request->cost);
    feed_at(replay, request->time_ns / 1000000 - START_S * 1000, fields);
}

static void compare(const struct model *model, const struct replay *replay)
{
    const struct replay_totals *totals = replay_totals(replay);
    assert_int_equal(totals->late, 0);
    assert_int_equal(totals->no_room, 0);
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        assert_int_equal(totals->outcomes[i], model->outcomes[i]);
    for (size_t i = 0; i < policy_rule_count(model->policy); i++) {
        const struct replay_rule *rule = replay_rule(replay, i);
        const struct sums *sums = &model->rules[i];
        assert_int_equal(rule->requests, sums->requests);
        assert_int_equal(rule->denied, sums->denied);
        for (uint8_t k = 0; k < rule->rule->limit_count; k++)
            assert_int_equal(rule->limits[k].denied, sums->limit_denied[k]);
    }
}

/* Requests of a log that is somewhat out of order get, each, the decision that the policy and the
 * engine give when they are asked directly in the order of time. */
static void decisions_equal_those_of_the_engine_driven_directly(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static struct request requests[COUNT];
    for (uint64_t seed = 1; seed <= (uint64_t)EFFORT(20); seed++) {
        struct random random;
        struct model model = {.policy = compile(model_rules)};
        struct replay_options options = small_options(model.policy);
        struct replay *replay;
        random_init(&random, seed);
        options.log.cost_field = (struct policy_text){"cost", 4};
        options.reorder_ns = 3 * SECOND_NS;
        assert_int_equal(replay_new(&replay, &options), 0);
        assert_int_equal(table_new(&model.table, alloc_heap(), (size_t)8 << 20, 1), 0);
        make_requests(&random, requests, COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            feed_request(replay, &requests[i]);
        assert_int_equal(replay_finish(replay), 0);
        qsort(requests, COUNT, sizeof *requests, by_time);
        for (uint32_t i = 0; i < COUNT; i++)
            judge(&model, &requests[i]);
        compare(&model, replay);
        assert_true(model.outcomes[OUTCOME_DENY] > 100 && model.outcomes[OUTCOME_ALLOW] > 100);
        assert_true(model.outcomes[OUTCOME_SOFT_EXCEEDED] > 10);
        table_free(&model.table);
        replay_free(&replay);
        policy_free(&model.policy);
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Five an hour and thirty a day on one phone number: the sixth is denied by the first limit, and
 * denied ones do not count for the second. */
static void several_limits_are_all_or_nothing(void **state)
{
    (void)state;
    struct policy *policy = compile("rules: [{name: r, key: [phone], limits: [{rate: 5/h, "
                                    "algorithm: sliding_log}, {rate: 30/24h, algorithm: "
                                    "sliding_log}]}]");
    struct replay *replay = start(policy);
    for (int64_t hour = 0; hour < 8; hour++)
        for (int64_t i = 0; i < 6; i++)
            feed_at(replay, hour * 3700000 + i * 1000, "\"phone\": \"+1555\"");
    assert_int_equal(replay_finish(replay), 0);
    const struct replay_rule *rule = found(replay, "r");
    assert_int_equal(rule->requests, 48);
    assert_int_equal(rule->denied, 6 + 12); /* one of six in six hours, then the day is full */
    assert_int_equal(rule->limits[0].denied, 6);
    assert_int_equal(rule->limits[1].denied, 1 + 12); /* both refuse the sixth of the sixth hour */
    assert_int_equal(rule->limits[0].peak, 5);
    assert_int_equal(rule->limits[1].peak, 30);
    assert_int_equal(rule->callers, 1);
    assert_int_equal(rule->callers_denied, 1);
    assert_int_equal(rule->top_count, 1);
    const struct caller *caller = replay_caller(replay, rule->top[0]);
    const struct policy_text value = replay_value(replay, caller, 0);
    assert_int_equal(value.len, 5);
    assert_memory_equal(value.data, "+1555", 5);
    assert_int_equal(caller->requests, 48);
    assert_int_equal(caller->denied, 18);
    replay_free(&replay);
    policy_free(&policy);
}

/* A soft limit of 4 that may be exceeded by half allows 6, two of them above itself. */
static void what_soft_limits_allow_above_themselves_is_counted(void **state)
{
    (void)state;
    struct policy *policy = compile("rules: [{name: r, key: [ip], mode: {soft: {exceed: 50%}}, "
                                    "limits: [{rate: 4/h, algorithm: fixed_window}]}]");
    struct replay *replay = start(policy);
    for (int64_t i = 0; i < 9; i++)
        feed_at(replay, i, "\"ip\": \"192.0.2.1\"");
    assert_int_equal(replay_finish(replay), 0);
    const struct replay_rule *rule = found(replay, "r");
    assert_int_equal(rule->denied, 3);
    assert_int_equal(rule->soft, 2);
    assert_int_equal(rule->limits[0].soft, 2);
    assert_int_equal(rule->limits[0].peak, 6);
    assert_int_equal(replay_totals(replay)->outcomes[OUTCOME_SOFT_EXCEEDED], 2);
    assert_int_equal(replay_totals(replay)->allowed, 6);
    replay_free(&replay);
    policy_free(&policy);
}

/* A rule that blocks, allows or misses its key is counted under the caller's address. */
static void rules_without_a_key_are_counted_by_address(void **state)
{
    (void)state;
    struct policy *policy =
        compile("rules:\n"
                "  - {name: block, match: {api: /b}, action: block}\n"
                "  - {name: allow, match: {api: /a}, action: allow}\n"
                "  - {name: miss, match: {api: /m}, key: [user], missing: deny, limits: [{rate: "
                "9/s}]}\n"
                "  - {name: watch, shadow: true, match: {api: /w}, action: block}\n");
    struct replay *replay = start(policy);
    feed_at(replay, 0, "\"ip\": \"2001:db8::1\", \"api\": \"/b\"");
    feed_at(replay, 1, "\"ip\": \"2001:db8::2\", \"api\": \"/b\""); /* the same /64 */
    feed_at(replay, 2, "\"ip\": \"192.0.2.1\", \"api\": \"/a\"");
    feed_at(replay, 3, "\"ip\": \"192.0.2.1\", \"api\": \"/m\"");
    feed_at(replay, 4, "\"ip\": \"192.0.2.1\", \"api\": \"/m\", \"user\": \"u\"");
    feed_at(replay, 5, "\"ip\": \"192.0.2.1\", \"api\": \"/w\"");
    feed_at(replay, 6, "\"api\": \"/b\"");
    assert_int_equal(replay_finish(replay), 0);
    assert_int_equal(found(replay, "block")->denied, 3);
    assert_int_equal(found(replay, "block")->callers, 1);
    assert_int_equal(found(replay, "allow")->requests, 1);
    assert_int_equal(found(replay, "allow")->denied, 0);
    assert_int_equal(found(replay, "miss")->requests, 2);
    assert_int_equal(found(replay, "miss")->denied, 1);
    assert_int_equal(found(replay, "miss")->callers, 2);
    assert_int_equal(found(replay, "watch")->denied, 1);
    const struct caller *top = replay_caller(replay, found(replay, "block")->top[0]);
    assert_true(replay_by_address(replay, top));
    const struct policy_text value = replay_value(replay, top, 0);
    assert_int_equal(value.len, strlen("2001:db8::/64"));
    assert_memory_equal(value.data, "2001:db8::/64", value.len);
    assert_false(replay_by_address(replay, replay_caller(replay, found(replay, "miss")->top[1])));
    const struct replay_totals *totals = replay_totals(replay);
    assert_int_equal(totals->outcomes[OUTCOME_BLOCKED], 3);
    assert_int_equal(totals->outcomes[OUTCOME_DENY], 1);
    assert_int_equal(totals->outcomes[OUTCOME_NO_RULE], 0);
    assert_int_equal(totals->outcomes[OUTCOME_SHADOW_DENIED], 1);
    assert_int_equal(totals->allowed, 3);
    assert_int_equal(replay_all(replay)->denied, 4);
    assert_int_equal(replay_all(replay)->callers, 2);
    assert_int_equal(replay_all(replay)->callers_denied, 2);
    replay_free(&replay);
    policy_free(&policy);
}

/* The busiest keys are those denied most, then those seen most, then in the order of their text. */
static void keys_are_ranked_by_denials_then_requests(void **state)
{
    (void)state;
    struct policy *policy = compile("rules: [{name: r, key: [user], limits: [{rate: 3/h}]}]");
    struct replay_options options = small_options(policy);
    struct replay *replay;
    static const char *const users = "aabbbbcdddddeeff";
    options.top = 3;
    assert_int_equal(replay_new(&replay, &options), 0);
    for (int64_t i = 0; users[i] != '\0'; i++) {
        char fields[32];
        (void)snprintf(fields, sizeof fields, "\"user\": \"%c\"", users[i]);
        feed_at(replay, i, fields);
    }
    assert_int_equal(replay_finish(replay), 0);
    const struct replay_rule *rule = found(replay, "r");
    assert_int_equal(rule->top_count, 3);
    static const char order[] = "dba";
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(replay_value(replay, replay_caller(replay, rule->top[i]), 0).data[0],
                         order[i]);
    assert_int_equal(rule->callers, 6);
    assert_int_equal(rule->callers_denied, 2);
    replay_free(&replay);
    policy_free(&policy);
}

/* More keys than are kept: the numbers say that they are estimates, are near the truth, and the
 * busiest keys are found all the same. */
static void too_many_keys_become_estimates(void **state)
{
    (void)state;
    enum { REQUESTS = 60000, DIFFERENT = 10000 };
    struct policy *policy = compile("rules: [{name: r, key: [user], limits: [{rate: 2/h}]}]");
    struct replay *replay = start(policy);
    struct random random;
    random_init(&random, 5);
    uint64_t busy = 0;
    for (int64_t i = 0; i < REQUESTS; i++) {
        char fields[64];
        const bool is_busy = i % 50 == 0;
        busy += is_busy;
        (void)snprintf(fields, sizeof fields, "\"user\": \"u%d\"",
                       is_busy ? -1 : (int)random_below(&random, DIFFERENT));
        feed_at(replay, i, fields);
    }
    assert_int_equal(replay_finish(replay), 0);
    const struct replay_rule *rule = found(replay, "r");
    assert_false(replay_exact(replay));
    assert_int_equal(rule->requests, REQUESTS);
    assert_true(rule->callers > DIFFERENT * 94 / 100 && rule->callers < DIFFERENT * 106 / 100);
    assert_true(rule->callers_denied <= rule->callers);
    const struct caller *top = replay_caller(replay, rule->top[0]);
    assert_memory_equal(replay_value(replay, top, 0).data, "u-1", 3);
    assert_int_equal(top->requests, busy);
    assert_int_equal(top->error, 0);
    replay_free(&replay);
    policy_free(&policy);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Times of whole seconds count as they are, or evenly over the second where that is asked for. */
static void requests_of_a_whole_second_can_be_spread(void **state)
{
    (void)state;
    for (int spread = 0; spread <= 1; spread++) {
        struct policy *policy = compile("rules: [{name: r, key: [ip], limits: [{rate: 1/100ms}]}]");
        struct replay_options options = small_options(policy);
        struct replay *replay;
        options.spread = spread != 0;
        assert_int_equal(replay_new(&replay, &options), 0);
        for (int64_t second = 0; second < 3; second++)
            for (int i = 0; i < 10; i++)
                feed_at(replay, second * 1000, "\"ip\": \"192.0.2.1\"");
        feed_at(replay, 3001, "\"ip\": \"192.0.2.1\"");
        assert_int_equal(replay_finish(replay), 0);
        assert_int_equal(replay_totals(replay)->whole_second, 30);
        assert_int_equal(found(replay, "r")->denied, spread ? 0 : 27);
        replay_free(&replay);
        policy_free(&policy);
    }
}

/* A day of the calendar is one of the rule's time zone, in what is denied and what is suggested:
 * the log begins at half past eleven in the evening of Berlin. */
static void calendar_windows_are_those_of_their_zone(void **state)
{
    (void)state;
    struct policy *policy = compile(
        "rules: [{name: r, key: [ip], limits: [{rate: 3/day, algorithm: fixed_window, align: "
        "calendar, timezone: Europe/Berlin}]}]");
    struct replay_options options = small_options(policy);
    struct replay *replay;
    const int64_t start_ms = (INT64_C(1795300200) - START_S) * 1000; /* 21 November, 22:30 UTC */
    options.suggest = true;
    assert_int_equal(replay_new(&replay, &options), 0);
    for (int64_t i = 0; i < 5; i++) /* two before midnight in Berlin, three behind it */
        feed_at(replay, start_ms + i * 900000, "\"ip\": \"192.0.2.1\"");
    feed_at(replay, start_ms + 7200000, "\"ip\": \"192.0.2.1\""); /* the fourth behind it */
    assert_int_equal(replay_finish(replay), 0);
    const struct replay_rule *rule = found(replay, "r");
    assert_int_equal(rule->denied, 1);
    assert_int_equal(rule->limits[0].none.count, 4);
    replay_free(&replay);
    policy_free(&policy);
}

/* Where what no rule matches is denied, a rule on trial says what it would refuse, were it in
 * force.
 */
static void a_rule_on_trial_is_charged_by_what_nothing_else_matches(void **state)
{
    (void)state;
    struct policy *policy = compile("{unmatched: deny, rules: [{name: watch, shadow: true, key: "
                                    "[ip], limits: [{rate: 2/h}]}]}");
    struct replay *replay = start(policy);
    for (int64_t i = 0; i < 5; i++)
        feed_at(replay, i, "\"ip\": \"192.0.2.1\"");
    assert_int_equal(replay_finish(replay), 0);
    assert_int_equal(found(replay, "watch")->requests, 5);
    assert_int_equal(found(replay, "watch")->denied, 3);
    assert_int_equal(replay_totals(replay)->outcomes[OUTCOME_NO_RULE], 5);
    assert_int_equal(replay_totals(replay)->allowed, 0);
    replay_free(&replay);
    policy_free(&policy);
}

/* What a log cannot tell is left out: the other limits of the rule decide, and a rule of nothing
 * else denies nothing. */
static void limits_on_requests_in_flight_are_left_out(void **state)
{
    (void)state;
    struct policy *policy = compile(
        "rules: [{name: r, key: [ip], limits: [{algorithm: concurrency, count: 1}, {rate: 3/h}]}, "
        "{name: only, key: [ip], limits: [{algorithm: concurrency, count: 1}]}, "
        "{name: watch, shadow: true, key: [ip], limits: [{algorithm: concurrency, count: 1}]}]");
    struct replay_options options = small_options(policy);
    struct replay *replay;
    options.suggest = true;
    assert_int_equal(replay_new(&replay, &options), 0);
    for (int64_t i = 0; i < 5; i++)
        feed_at(replay, i, "\"ip\": \"192.0.2.1\"");
    assert_int_equal(replay_finish(replay), 0);
    assert_int_equal(found(replay, "r")->denied, 2);
    assert_int_equal(found(replay, "r")->limits[0].denied, 0);
    assert_int_equal(found(replay, "r")->limits[1].denied, 2);
    assert_int_equal(found(replay, "only")->requests, 5);
    assert_int_equal(found(replay, "only")->denied, 0);
    assert_int_equal(found(replay, "watch")->denied, 0);
    assert_false(replay_can_judge(&found(replay, "only")->rule->limits[0]));
    assert_int_equal(found(replay, "only")->limits[0].few.count, 0);
    replay_free(&replay);
    policy_free(&policy);
}

/* A line that comes after others more than the horizon newer is counted as late, and decided at the
 * time reached: the clock does not go back. */
static void late_lines_are_counted_and_decided_at_the_clock(void **state)
{
    (void)state;
    struct policy *policy = compile("rules: [{name: r, key: [ip], limits: [{rate: 1/h}]}]");
    struct replay *replay = start(policy);
    feed_at(replay, 0, "\"ip\": \"192.0.2.1\"");
    feed_at(replay, 3000000, "\"ip\": \"192.0.2.2\"");
    feed_at(replay, 3000001, "\"ip\": \"192.0.2.2\"");
    feed_at(replay, 3020000, "\"ip\": \"192.0.2.3\"");
    feed_at(replay, 1000, "\"ip\": \"192.0.2.1\"");
    feed_at(replay, 1000, "\"ip\": \"192.0.2.4\"");    /* takes its token at 3000 s, .. */
    feed_at(replay, 3700000, "\"ip\": \"192.0.2.4\""); /* .. and is denied here */
    assert_int_equal(replay_finish(replay), 0);
    assert_int_equal(replay_totals(replay)->late, 2);
    assert_int_equal(replay_totals(replay)->requests, 7);
    assert_int_equal(replay_totals(replay)->first_ns, START_S * SECOND_NS);
    assert_int_equal(replay_totals(replay)->last_ns, (START_S + 3700) * SECOND_NS);
    assert_int_equal(found(replay, "r")->denied, 3);
    replay_free(&replay);
    policy_free(&policy);
}

/* A line that cannot be read, and a request that the node would refuse, are counted apart. */
static void unreadable_lines_and_refused_requests_are_counted(void **state)
{
    (void)state;
    struct policy *policy = compile("rules: [{name: r, key: [user], limits: [{rate: 1/h}]}]");
    struct replay *replay = start(policy);
    static char line[2048];
    assert_int_equal(replay_read(replay, "nonsense", 8, &record, &problem), TG_EINVALID);
    char value[POLICY_VALUE_LEN_MAX + 2];
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    (void)snprintf(line, sizeof line, "{\"time\": 1795261462, \"user\": \"%s\"}", value);
    feed(replay, line);
    assert_int_equal(replay_finish(replay), 0);
    assert_int_equal(replay_totals(replay)->lines, 2);
    assert_int_equal(replay_totals(replay)->refused, 1);
    assert_int_equal(replay_totals(replay)->outcomes[OUTCOME_ERROR], 1);
    assert_int_equal(replay_totals(replay)->allowed, 0);
    replay_free(&replay);
    policy_free(&policy);
}

/* Each allocation fails in turn: an error comes out, and nothing is left behind. */
static void running_out_of_memory_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    enum { FEW_KEYS = 600 }; /* more than can wait, so that some may be dropped */
    struct policy *policy = compile("rules: [{name: r, key: [user], limits: [{rate: 1/h}]}]");
    size_t succeeded = 0;
    for (size_t at = 1; succeeded == 0; at++) {
        struct alloc_failing failing;
        struct replay *replay;
        struct replay_options options = small_options(policy);
        alloc_failing_init(&failing, at);
        options.allocator = &failing.allocator;
        options.keys_max = FEW_KEYS;
        int result = replay_new(&replay, &options);
        for (int64_t i = 0; result == 0 && i < 3 * FEW_KEYS; i++) {
            char line[64];
            (void)snprintf(line, sizeof line, "{\"time\": 1795261462, \"user\": \"%d\"}", (int)i);
            result = replay_read(replay, line, strlen(line), &record, &problem);
            if (result == 0)
                result = replay_take(replay, &record);
        }
        if (result == 0)
            result = replay_finish(replay);
        assert_true(result == 0 || result == TG_ENOMEM);
        assert_true(at < 100);
        succeeded += result == 0;
        replay_free(&replay);
        assert_int_equal(failing.bytes_live, 0);
    }
    policy_free(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_equal_those_of_the_engine_driven_directly),
        cmocka_unit_test(several_limits_are_all_or_nothing),
        cmocka_unit_test(what_soft_limits_allow_above_themselves_is_counted),
        cmocka_unit_test(rules_without_a_key_are_counted_by_address),
        cmocka_unit_test(keys_are_ranked_by_denials_then_requests),
        cmocka_unit_test(too_many_keys_become_estimates),
        cmocka_unit_test(requests_of_a_whole_second_can_be_spread),
        cmocka_unit_test(calendar_windows_are_those_of_their_zone),
        cmocka_unit_test(a_rule_on_trial_is_charged_by_what_nothing_else_matches),
        cmocka_unit_test(limits_on_requests_in_flight_are_left_out),
        cmocka_unit_test(late_lines_are_counted_and_decided_at_the_clock),
        cmocka_unit_test(unreadable_lines_and_refused_requests_are_counted),
        cmocka_unit_test(running_out_of_memory_is_an_error_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
