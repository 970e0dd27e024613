/* test_ratelimit.c - descriptors become checks, and decisions become statuses: which are one check,
 * which none, and what is told when the rules have changed or nobody has decided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "node/gateway/ratelimit/ratelimit.h"
#include "node/gateway/ratelimit/ratelimit_struct.h"
#include "node/policy/compile/policy_compile.h"

#define NOW_S 1000000

static const struct hash_key secret = {{7}};
static const char each[] =
    "domain: d\ndescriptors:\n"
    "- {key: a, rate_limit: {unit: minute, requests_per_unit: 10, name: base}}\n"
    "- {key: b, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: base}]}}\n"
    "- {key: s, shadow_mode: true, rate_limit: {unit: week, requests_per_unit: 10}}\n"
    "- {key: q, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 10}}\n"
    "- {key: u, rate_limit: {unlimited: true}}\n"
    "- {key: z, rate_limit: {unit: month}}\n";
static const char all[] = "charge: all\nrules: []\ndomains:\n- domain: d\n  descriptors:\n"
                          "  - {key: a, rate_limit: {unit: minute, requests_per_unit: 10}}\n"
                          "  - {key: b, rate_limit: {unit: hour, requests_per_unit: 5}}\n";

struct bench {
    struct policy *policy;
    struct ratelimit_request request;
    struct ratelimit_descriptor descriptors[RATELIMIT_DESCRIPTORS_MAX + 1];
    struct descriptor_entry entries[RATELIMIT_DESCRIPTORS_MAX + 1];
    struct ratelimit_found found;
    char error[RATELIMIT_ERROR_LEN];
    _Alignas(8) char state[RATELIMIT_STATE_MAX];
    struct wire_checks_builder builder;
    struct wire_checks_space space;
    struct wire_checks checks;
    struct wire_decision_columns columns;
    struct wire_sources sources;
    struct wire_explain explain;
    struct wire_decisions_space answer_space;
    struct wire_decisions decisions;
    struct ratelimit_answer answer;
    uint8_t values[WIRE_MESSAGE_MAX];
    uint8_t frame[WIRE_MESSAGE_MAX];
    uint8_t reply[WIRE_MESSAGE_MAX];
};

static struct bench bench;

static void use_rules(const char *text)
{
    struct policy_error error;
    if (bench.policy != NULL)
        policy_free(&bench.policy);
    assert_int_equal(policy_compile(text, strlen(text), alloc_heap(), &bench.policy, &error), 0);
}

/* Descriptors of one entry each, "a1": key and value. */
static void ask(const char *const *names, uint64_t cost, enum ratelimit_manner manner)
{
    uint32_t count = 0;
    for (; names[count] != NULL; count++) {
        bench.entries[count] = (struct descriptor_entry){{names[count], 1}, {names[count] + 1, 1}};
        bench.descriptors[count] = (struct ratelimit_descriptor){
            .entries = &bench.entries[count],
            .entry_count = 1,
            .hits = descriptor_hits_of(0, true, cost, false),
        };
    }
    bench.request = (struct ratelimit_request){
        .domain = {"d", 1}, .descriptors = bench.descriptors, .count = count, .manner = manner};
}

static int find(void)
{
    const int result =
        ratelimit_find(bench.policy, &bench.request, &secret, &bench.found, bench.error);
    if (result != 0)
        return result;
    assert_true(ratelimit_state_len(&bench.found) <= sizeof bench.state);
    ratelimit_state_put(&bench.found, bench.state);
    wire_checks_builder_init(&bench.builder, bench.values, sizeof bench.values);
    assert_int_equal(ratelimit_append(&bench.found, &bench.request, &bench.builder), 0);
    assert_int_equal(bench.builder.count, bench.found.state.items);
    if (bench.builder.count == 0)
        return 0;
    char error[WIRE_ERROR_LEN];
    const int len =
        wire_checks_builder_encode(&bench.builder, 1, 1, 0, 15, bench.frame, sizeof bench.frame);
    assert_true(len > 0);
    assert_int_equal(
        wire_decode_checks(bench.frame, (size_t)len, &bench.space, &bench.checks, error), 0);
    return 0;
}

static void decide(uint32_t i, enum outcome outcome, bool allowed, uint64_t used, uint64_t left)
{
    bench.columns.outcomes[i] = (uint8_t)outcome;
    bench.columns.flags[i] = allowed ? WIRE_ALLOWED : 0;
    bench.columns.used[i] = used;
    bench.columns.remaining[i] = left;
    bench.columns.source_index[i] = WIRE_SOURCE_NONE;
    bench.columns.vnode[i] = WIRE_VNODE_NONE;
}

static void settle(bool explained)
{
    char error[WIRE_ERROR_LEN];
    const struct wire_decisions_head head = {.session = 1, .seq = 1, .count = bench.builder.count};
    if (head.count > 0) {
        wire_sources_init(&bench.sources);
        const int len = wire_encode_decisions(&head, &bench.columns, &bench.sources,
                                              explained ? &bench.explain : NULL, bench.reply,
                                              sizeof bench.reply);
        assert_true(len > 0);
        assert_int_equal(wire_decode_decisions(bench.reply, (size_t)len, &bench.answer_space,
                                               &bench.decisions, error),
                         0);
    }
    ratelimit_settle((const void *)bench.state, head.count > 0 ? &bench.decisions : NULL, 0, NOW_S,
                     &bench.answer);
}

static void those_with_a_limit_are_a_check_each(void **state)
{
    static const char *const names[] = {"a1", "x1", "s1", "u1", "z1", "q1", NULL};
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    (void)state;
    use_rules(each);
    ask(names, 2, RATELIMIT_CHECK);
    assert_int_equal(find(), 0);
    assert_int_equal(bench.checks.count, 3);
    const struct wire_template *template = wire_checks_template(&bench.checks, 0);
    assert_int_equal(template->kind, WIRE_TEMPLATE_RULES);
    assert_memory_equal(template->rules[0].name.data, "d:a", 3);
    assert_int_equal(wire_checks_values(&bench.checks, 0, values), 1);
    assert_int_equal(values[0].len, 3);
    assert_memory_equal(values[0].data, "a=1", 3);
    assert_int_equal(wire_checks_cost(&bench.checks, 2), 2);
    decide(0, OUTCOME_ALLOW, true, 2, 8);
    decide(1, OUTCOME_SHADOW_DENIED, true, 12, 0);
    decide(2, OUTCOME_DENY, false, 10, 0);
    policy_free(&bench.policy); /* RATELIMIT-1 */
    settle(false);
    static const struct {
        bool over, limited, quota;
        uint32_t left;
    } rows[] = {{false, true, false, 8}, {false, false, false, 0},
                {false, true, false, 0}, {false, false, false, UINT32_MAX},
                {true, true, false, 0},  {true, true, true, 0}};
    assert_int_equal(bench.answer.count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        const struct descriptor_status *status = &bench.answer.statuses[i];
        assert_int_equal(status->over, rows[i].over);
        assert_int_equal(status->limited, rows[i].limited);
        assert_int_equal(status->quota, rows[i].quota);
        assert_int_equal(status->limit_remaining, rows[i].left);
    }
    assert_int_equal(bench.answer.statuses[0].name.len, 4);
    assert_memory_equal(bench.answer.statuses[0].name.data, "base", 4);
    assert_true(bench.answer.over);
    assert_true(bench.answer.statuses[2].shadow_denied);
}

static void what_is_replaced_is_not_asked(void **state)
{
    static const char *const names[] = {"a1", "b1", NULL};
    (void)state;
    use_rules(each);
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), 0);
    assert_int_equal(bench.checks.count, 1);
    decide(0, OUTCOME_ALLOW, true, 1, 4);
    settle(false);
    assert_false(bench.answer.statuses[0].limited);
    assert_int_equal(bench.answer.statuses[1].requests_per_unit, 5);
    assert_false(bench.answer.over);
}

static void manners_and_hits_choose_the_operation(void **state)
{
    static const char *const names[] = {"a1", NULL};
    static const struct {
        enum ratelimit_manner manner;
        uint64_t hits;
        bool negative;
        enum operation operation;
        uint64_t cost;
    } rows[] = {
        {RATELIMIT_CHECK, 3, false, OPERATION_CHECK, 3},
        {RATELIMIT_CHECK, 0, false, OPERATION_PEEK, 0},
        {RATELIMIT_CHECK, 3, true, OPERATION_REFUND, 3},
        {RATELIMIT_CHECK, UINT64_MAX, false, OPERATION_CHECK, WIRE_COST_MAX},
        {RATELIMIT_LOOK, 3, false, OPERATION_PEEK, 3},
        {RATELIMIT_LOOK, 3, true, OPERATION_PEEK, 3},
        {RATELIMIT_REPORT, 3, false, OPERATION_HIT, 3},
        {RATELIMIT_REPORT, 3, true, OPERATION_REFUND, 3},
    };
    (void)state;
    use_rules(each);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ask(names, rows[i].hits, rows[i].manner);
        bench.descriptors[0].hits = descriptor_hits_of(0, true, rows[i].hits, rows[i].negative);
        assert_int_equal(find(), 0);
        assert_int_equal(wire_checks_operation(&bench.checks, 0), rows[i].operation);
        assert_int_equal(wire_checks_cost(&bench.checks, 0), rows[i].cost);
    }
    decide(0, OUTCOME_DENY, false, 12, 0);
    settle(false);
    assert_false(bench.answer.over); /* a report is never over */
}

static void a_reservation_is_of_all_limits_together(void **state)
{
    static const char *const names[] = {"a1", "q1", "u1", "x1", NULL};
    (void)state;
    use_rules(each);
    ask(names, 1, RATELIMIT_RESERVE);
    bench.descriptors[1].hits.cost = 7; /* hits do not count */
    bench.request.cost = 40;
    bench.request.used = 5000;
    assert_int_equal(find(), 0);
    assert_int_equal(bench.checks.count, 1);
    assert_int_equal(wire_checks_template(&bench.checks, 0)->value_count, 2);
    assert_int_equal(wire_checks_operation(&bench.checks, 0), OPERATION_RESERVE);
    assert_int_equal(wire_checks_cost(&bench.checks, 0), 40);
    assert_int_equal(wire_checks_used(&bench.checks, 0), 5000);
    ask(names, 1, RATELIMIT_COMMIT);
    bench.request.cost = 0x1234;
    bench.request.used = 30;
    assert_int_equal(find(), 0);
    assert_int_equal(wire_checks_operation(&bench.checks, 0), OPERATION_COMMIT);
    assert_int_equal(wire_checks_cost(&bench.checks, 0), 0x1234);
    assert_int_equal(wire_checks_used(&bench.checks, 0), 30);
}

static void together_those_of_one_cost_are_one_check(void **state)
{
    static const char *const names[] = {"a1", "b1", "a2", NULL};
    (void)state;
    use_rules(all);
    ask(names, 1, RATELIMIT_CHECK);
    bench.descriptors[2].hits.cost = 4;
    assert_int_equal(find(), 0);
    assert_int_equal(bench.checks.count, 2);
    assert_int_equal(wire_checks_template(&bench.checks, 0)->value_count, 2);
    assert_int_equal(wire_checks_template(&bench.checks, 1)->value_count, 1);
    decide(0, OUTCOME_DENY, false, 5, 0);
    decide(1, OUTCOME_ALLOW, true, 4, 6);
    bench.explain.end[0] = 2;
    bench.explain.end[1] = 3;
    bench.explain.rows[0] = (struct wire_explain_row){.used = 3, .remaining = 7, .allowed = true};
    bench.explain.rows[1] = (struct wire_explain_row){.used = 5, .allowed = false};
    bench.explain.rows[2] = (struct wire_explain_row){.used = 4, .remaining = 6, .allowed = true};
    settle(true);
    static const uint32_t left[] = {7, 0, 6};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(bench.answer.statuses[i].over, i == 1);
        assert_int_equal(bench.answer.statuses[i].limit_remaining, left[i]);
    }
    assert_true(bench.answer.over);
}

static void expect_message(const char *text)
{
    assert_int_equal(bench.answer.message.len, strlen(text));
    assert_memory_equal(bench.answer.message.data, text, strlen(text));
}

static void the_first_limit_that_denies_has_its_message_told(void **state)
{
    static const char *const names[] = {"a1", "b1", "c1", "z1", NULL};
    static const char rules[] =
        "rules: []\ndomains:\n- domain: d\n  message: come later\n  descriptors:\n"
        "  - {key: a, message: no more of a, rate_limit: {unit: hour, requests_per_unit: 10}}\n"
        "  - {key: b, rate_limit: {unit: hour, requests_per_unit: 5}}\n"
        "  - {key: c, shadow_mode: true, message: c, rate_limit: {unit: hour, requests_per_unit: "
        "5}}\n"
        "  - {key: z, rate_limit: {unit: hour}}\n";
    (void)state;
    use_rules(rules);
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), 0);
    policy_free(&bench.policy); /* RATELIMIT-1 */
    decide(0, OUTCOME_ALLOW, true, 1, 9);
    decide(1, OUTCOME_ALLOW, true, 1, 4);
    decide(2, OUTCOME_SHADOW_DENIED, true, 6, 0);
    settle(false);
    expect_message("come later"); /* of `z`, which allows nothing */
    decide(1, OUTCOME_DENY, false, 5, 0);
    settle(false);
    expect_message("come later");
    decide(0, OUTCOME_DENY, false, 10, 0);
    settle(false);
    expect_message("no more of a");
    use_rules(rules);
    ask(names, 1, RATELIMIT_REPORT);
    assert_int_equal(find(), 0);
    settle(false);
    expect_message(""); /* it denies nothing */
}

static void expect_fields(const char *limit, const char *remaining, const char *reset)
{
    struct ratelimit_field fields[RATELIMIT_FIELDS_COUNT];
    assert_int_equal(ratelimit_fields_of(&bench.answer, RATELIMIT_FIELDS_OFF, fields), 0);
    assert_int_equal(ratelimit_fields_of(&bench.answer, RATELIMIT_FIELDS_LEGACY, fields), 3);
    assert_string_equal(fields[2].name, "X-RateLimit-Reset");
    assert_int_equal(ratelimit_fields_of(&bench.answer, RATELIMIT_FIELDS_DRAFT, fields), 3);
    assert_string_equal(fields[0].name, "RateLimit-Limit");
    assert_string_equal(fields[1].name, "RateLimit-Remaining");
    assert_string_equal(fields[0].value, limit);
    assert_string_equal(fields[1].value, remaining);
    assert_string_equal(fields[2].value, reset);
}

/* As the reference: of equal ones the first, of those that deny the last. */
static void fields_tell_of_the_limit_that_has_least_left(void **state)
{
    static const char *const names[] = {"a1", "x1", "s1", "u1", "q1", NULL};
    static const char *const free_ones[] = {"u1", "x1", NULL};
    struct ratelimit_field fields[RATELIMIT_FIELDS_COUNT];
    (void)state;
    use_rules(each);
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), 0);
    decide(0, OUTCOME_ALLOW, true, 2, 8);
    decide(1, OUTCOME_ALLOW, true, 2, 8);
    decide(2, OUTCOME_ALLOW, true, 1, 9);
    settle(false);
    expect_fields("10", "8", "20"); /* 1,000,000 is 40 s behind a minute's beginning */
    decide(1, OUTCOME_DENY, false, 10, 0);
    decide(0, OUTCOME_DENY, false, 10, 0);
    decide(2, OUTCOME_DENY, false, 10, 0);
    settle(false);
    expect_fields("10", "0", "36800"); /* and 49,600 s behind a day's */
    ask(free_ones, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), 0);
    settle(false);
    assert_int_equal(ratelimit_fields_of(&bench.answer, RATELIMIT_FIELDS_DRAFT, fields), 0);
}

static void json_becomes_a_struct_as_far_as_there_is_room(void **state)
{
    static const char json[] = "{\"a\":[1,true,{\"b\":null}],\"c\":\"\\u00e9\"}";
    static const char *const wrong[] = {
        "",         "{",          "{}x",         "[1]",         "{\"a\"}",     "{1}",
        "{\"a\":}", "{\"a\":[1}", "{\"a\":\"b}", "{\"a\":tru}", "{\"a\":\"\\", "{\"a\":\"\\u00e"};
    uint8_t out[256];
    (void)state;
    const size_t len = ratelimit_struct_put(json, sizeof json - 1, out, sizeof out);
    assert_true(len > 0);
    assert_int_equal(out[0], 1 << 3 | 2);
    for (size_t room = 0; room < len; room++)
        assert_int_equal(ratelimit_struct_put(json, sizeof json - 1, out, room), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ratelimit_struct_put(wrong[i], strlen(wrong[i]), out, sizeof out), 0);
    char deep[64] = "{\"a\":";
    memset(deep + 5, '[', 40);
    assert_int_equal(ratelimit_struct_put(deep, 45, out, sizeof out), 0);
}

static void bounds_are_told_and_nothing_is_asked(void **state)
{
    const char *names[RATELIMIT_DESCRIPTORS_MAX + 2] = {NULL};
    (void)state;
    use_rules(all);
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), TG_EINVALID);
    assert_string_equal(bench.error, "descriptors: found 0; expected 1 to 64");
    for (uint32_t i = 0; i <= RATELIMIT_DESCRIPTORS_MAX; i++)
        names[i] = "a1";
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), TG_EINVALID);
    assert_string_equal(bench.error, "descriptors: found 65; expected 1 to 64");
    names[9] = NULL;
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), TG_EINVALID);
    assert_non_null(strstr(bench.error, "found more than 8 with limits"));
    names[9] = "a1";
    names[17] = NULL;
    ask(names, 1, RATELIMIT_CHECK);
    for (uint32_t i = 0; i < 17; i++)
        bench.descriptors[i].hits.cost = 1 + i;
    assert_int_equal(find(), TG_EINVALID);
    assert_non_null(strstr(bench.error, "found more than 16 different hits_addend"));
    use_rules(each);
    names[17] = "a1";
    names[RATELIMIT_DESCRIPTORS_MAX] = NULL;
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), 0);
    assert_int_equal(bench.checks.count, RATELIMIT_DESCRIPTORS_MAX);
}

static void what_nobody_decided_is_no_status(void **state)
{
    static const char *const names[] = {"a1", "q1", NULL};
    static const enum outcome outcomes[] = {OUTCOME_ERROR, OUTCOME_BUSY};
    (void)state;
    use_rules(each);
    for (size_t i = 0; i < 2; i++) {
        ask(names, 1, RATELIMIT_CHECK);
        assert_int_equal(find(), 0);
        decide(0, OUTCOME_ALLOW, true, 1, 9);
        decide(1, outcomes[i], false, 0, 0);
        settle(false);
        assert_non_null(bench.answer.failed);
        decide(1, outcomes[i], true, 0, 0); /* on_failure: open */
        settle(false);
        assert_null(bench.answer.failed);
        assert_false(bench.answer.over);
    }
}

/* Between the question and the decision the limit was taken out of the rules. */
static void a_limit_that_has_gone_is_none(void **state)
{
    static const char *const names[] = {"a1", NULL};
    (void)state;
    use_rules(each);
    ask(names, 1, RATELIMIT_CHECK);
    assert_int_equal(find(), 0);
    decide(0, OUTCOME_NO_RULE, true, 0, 0);
    settle(false);
    assert_false(bench.answer.statuses[0].limited);
    assert_false(bench.answer.over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_with_a_limit_are_a_check_each),
        cmocka_unit_test(what_is_replaced_is_not_asked),
        cmocka_unit_test(manners_and_hits_choose_the_operation),
        cmocka_unit_test(a_reservation_is_of_all_limits_together),
        cmocka_unit_test(together_those_of_one_cost_are_one_check),
        cmocka_unit_test(the_first_limit_that_denies_has_its_message_told),
        cmocka_unit_test(fields_tell_of_the_limit_that_has_least_left),
        cmocka_unit_test(json_becomes_a_struct_as_far_as_there_is_room),
        cmocka_unit_test(bounds_are_told_and_nothing_is_asked),
        cmocka_unit_test(what_nobody_decided_is_no_status),
        cmocka_unit_test(a_limit_that_has_gone_is_none),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    policy_free(&bench.policy);
    return failed;
}
