/* test_descriptor_status.c - what is answered of a descriptor, and of a request of several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/descriptors/descriptor_status.h"

static const struct hash_key secret = {{7}};

static const char rules[] =
    "domain: d\ndescriptors:\n"
    "- {key: a, rate_limit: {unit: minute, requests_per_unit: 10, name: base}}\n"
    "- {key: s, shadow_mode: true, rate_limit: {unit: week, requests_per_unit: 10}}\n"
    "- {key: q, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 10}}\n"
    "- {key: u, rate_limit: {unlimited: true}}\n"
    "- {key: z, rate_limit: {unit: month}}\n";

static struct policy *compiled(void)
{
    struct policy_error error;
    struct policy *policy;
    assert_int_equal(policy_compile(rules, sizeof rules - 1, alloc_heap(), &policy, &error), 0);
    return policy;
}

static void find(const struct policy *policy, const char *key, const struct descriptor_given *given,
                 struct descriptor_found *found)
{
    const struct descriptor_entry entry = {{key, 1}, {"1", 1}};
    const struct descriptor_request request = {{"d", 1}, &entry, 1, given};
    char error[DESCRIPTOR_ERROR_LEN];
    assert_int_equal(policy_descriptor_find(policy, &request, &secret, found, error), 0);
}

static void hits_of_a_descriptor_come_before_those_of_the_request(void **state)
{
    static const struct {
        uint32_t request;
        bool set;
        uint64_t own;
        bool negative;
        enum descriptor_use use;
        uint64_t cost;
    } rows[] = {
        {0, false, 0, false, DESCRIPTOR_CHARGE, 1}, {5, false, 0, false, DESCRIPTOR_CHARGE, 5},
        {5, true, 7, false, DESCRIPTOR_CHARGE, 7},  {5, true, 0, false, DESCRIPTOR_LOOK, 0},
        {5, true, 0, true, DESCRIPTOR_LOOK, 0},     {5, true, 3, true, DESCRIPTOR_REFUND, 3},
        {5, false, 3, true, DESCRIPTOR_REFUND, 5},  {0, false, 9, false, DESCRIPTOR_CHARGE, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct descriptor_hits hits =
            descriptor_hits_of(rows[i].request, rows[i].set, rows[i].own, rows[i].negative);
        assert_int_equal(hits.use, rows[i].use);
        assert_int_equal(hits.cost, rows[i].cost);
    }
}

static void a_status_tells_limit_rest_and_end_of_the_window(void **state)
{
    static const struct {
        const char *key;
        enum descriptor_use use;
        bool allowed;
        uint64_t used;
        uint64_t remaining;
        bool over;
        bool shadow;
        enum descriptor_unit unit;
        uint32_t reset;
        uint32_t rest;
    } rows[] = {
        {"a", DESCRIPTOR_CHARGE, true, 3, 7, false, false, DESCRIPTOR_UNIT_MINUTE, 60, 7},
        {"a", DESCRIPTOR_CHARGE, true, 10, 0, false, false, DESCRIPTOR_UNIT_MINUTE, 60, 0},
        {"a", DESCRIPTOR_CHARGE, false, 10, 3, true, false, DESCRIPTOR_UNIT_MINUTE, 60, 0},
        {"a", DESCRIPTOR_LOOK, true, 10, 0, false, false, DESCRIPTOR_UNIT_MINUTE, 60, 0},
        {"a", DESCRIPTOR_LOOK, true, 11, 0, true, false, DESCRIPTOR_UNIT_MINUTE, 60, 0},
        {"a", DESCRIPTOR_REFUND, true, 11, 0, false, false, DESCRIPTOR_UNIT_MINUTE, 60, 0},
        {"s", DESCRIPTOR_CHARGE, false, 10, 2, false, true, DESCRIPTOR_UNIT_WEEK, 86400, 0},
        {"z", DESCRIPTOR_CHARGE, false, 0, 0, true, false, DESCRIPTOR_UNIT_MONTH, 16 * 86400, 0},
        {"z", DESCRIPTOR_LOOK, true, 0, 0, false, false, DESCRIPTOR_UNIT_MONTH, 16 * 86400, 0},
    };
    /* Wednesday, 7 January 1970; the week from a Thursday ends with it; day 14 of a month. */
    enum { WEDNESDAY = 6 * 86400, DAY_14 = 14 * 86400 };
    struct policy *policy = compiled();
    struct descriptor_found found;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct descriptor_hits hits = {rows[i].use, rows[i].use != DESCRIPTOR_LOOK};
        const struct descriptor_decision decision = {rows[i].allowed, rows[i].used,
                                                     rows[i].remaining};
        find(policy, rows[i].key, NULL, &found);
        const struct descriptor_status status = descriptor_status_of(
            &found, &hits, &decision, rows[i].key[0] == 'z' ? DAY_14 : WEDNESDAY);
        assert_true(status.limited && status.unit_multiplier == 1 && !status.quota);
        assert_int_equal(status.over, rows[i].over);
        assert_int_equal(status.shadow_denied, rows[i].shadow);
        assert_int_equal(status.unit, rows[i].unit);
        assert_int_equal(status.reset_s, rows[i].reset);
        assert_int_equal(status.limit_remaining, rows[i].rest);
        assert_int_equal(status.requests_per_unit, rows[i].key[0] == 'z' ? 0 : 10);
        assert_string_equal(status.name.data, rows[i].key[0] == 'a' ? "base" : "");
    }
    policy_free(&policy);
}

static void without_a_limit_nothing_but_the_rest_is_told(void **state)
{
    const struct descriptor_hits hits = {DESCRIPTOR_CHARGE, 1};
    struct policy *policy = compiled();
    struct descriptor_found found;
    (void)state;
    find(policy, "u", NULL, &found);
    struct descriptor_status status = descriptor_status_of(&found, &hits, NULL, 0);
    assert_true(!status.limited && !status.over && status.limit_remaining == UINT32_MAX);
    find(policy, "n", NULL, &found);
    status = descriptor_status_of(&found, &hits, NULL, 0);
    assert_true(!status.limited && !status.over && status.limit_remaining == 0);
    find(policy, "q", NULL, &found);
    found.match = DESCRIPTOR_REPLACED;
    status = descriptor_status_of(&found, &hits, NULL, 0);
    assert_true(!status.limited && !status.over && !status.quota);
    policy_free(&policy);
}

/* A window that came along is told as the largest unit that it is a multiple of. */
static void any_window_is_a_unit_times_a_number(void **state)
{
    static const struct {
        uint64_t window_s;
        enum descriptor_unit unit;
        uint32_t multiplier;
    } rows[] = {{1, DESCRIPTOR_UNIT_SECOND, 1},         {90, DESCRIPTOR_UNIT_SECOND, 90},
                {180, DESCRIPTOR_UNIT_MINUTE, 3},       {7200, DESCRIPTOR_UNIT_HOUR, 2},
                {14 * 86400, DESCRIPTOR_UNIT_WEEK, 2},  {60 * 86400, DESCRIPTOR_UNIT_MONTH, 2},
                {365 * 86400, DESCRIPTOR_UNIT_YEAR, 1}, {61, DESCRIPTOR_UNIT_SECOND, 61}};
    const struct descriptor_hits hits = {DESCRIPTOR_CHARGE, 1};
    const struct descriptor_decision decision = {true, 1, 4};
    struct policy *policy = compiled();
    struct descriptor_found found;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct descriptor_given given = {rows[i].window_s, 5};
        find(policy, "a", &given, &found);
        const struct descriptor_status status =
            descriptor_status_of(&found, &hits, &decision, 10 * rows[i].window_s + 1);
        assert_int_equal(status.unit, rows[i].unit);
        assert_int_equal(status.unit_multiplier, rows[i].multiplier);
        assert_int_equal(status.reset_s, rows[i].window_s == 1 ? 1 : rows[i].window_s - 1);
        assert_int_equal(status.limit_remaining, 4);
    }
    policy_free(&policy);
}

/* Each letter a status: o over, . not; in upper case or `:` a quota's. */
static void a_request_is_over_by_any_limit_or_by_all_quotas(void **state)
{
    static const struct {
        const char *statuses;
        bool over;
        bool all_quota;
    } rows[] = {{"", false, false},  {".", false, false},   {"o", true, false},
                {".o", true, false}, {"O", true, false},    {"O:", false, false},
                {"OO", true, false}, {"O.", true, false},   {":.", false, false},
                {":o", true, false}, {"O:.", false, false}, {"o.", false, true},
                {"oo", true, true},  {"", false, true},     {".", false, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct descriptor_status statuses[4] = {{.over = false}};
        const size_t count = strlen(rows[i].statuses);
        for (size_t k = 0; k < count; k++) {
            const char c = rows[i].statuses[k];
            statuses[k].over = c == 'o' || c == 'O';
            statuses[k].quota = c == 'O' || c == ':';
        }
        if (descriptor_statuses_over(statuses, count, rows[i].all_quota) != rows[i].over)
            fail_msg("%s", rows[i].statuses);
    }
}

static void hits_are_counted_as_over_near_or_within(void **state)
{
    static const struct {
        uint64_t limit;
        uint64_t before;
        uint64_t hits;
        struct descriptor_counts counts;
    } rows[] = {
        {10, 0, 1, {0, 0, 1}},   {10, 7, 1, {0, 0, 1}},  {10, 8, 1, {0, 1, 1}},
        {10, 9, 1, {0, 1, 1}},   {10, 10, 1, {1, 0, 0}}, {10, 11, 5, {5, 0, 0}},
        {10, 0, 10, {0, 2, 10}}, {10, 5, 4, {0, 1, 4}},  {10, 0, 15, {5, 2, 0}},
        {10, 9, 5, {4, 1, 0}},   {1, 0, 1, {0, 1, 1}},   {11, 8, 1, {0, 1, 1}},
        {11, 7, 1, {0, 0, 1}},   {10, 10, 0, {0, 0, 0}}, {10, UINT64_MAX - 1, 9, {9, 0, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct descriptor_counts counts =
            descriptor_counts_of(rows[i].limit, rows[i].before, rows[i].hits, DESCRIPTOR_NEAR_PPM);
        if (counts.over != rows[i].counts.over || counts.near != rows[i].counts.near ||
            counts.within != rows[i].counts.within)
            fail_msg("%zu: over %llu near %llu within %llu", i, (unsigned long long)counts.over,
                     (unsigned long long)counts.near, (unsigned long long)counts.within);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_of_a_descriptor_come_before_those_of_the_request),
        cmocka_unit_test(a_status_tells_limit_rest_and_end_of_the_window),
        cmocka_unit_test(without_a_limit_nothing_but_the_rest_is_told),
        cmocka_unit_test(any_window_is_a_unit_times_a_number),
        cmocka_unit_test(a_request_is_over_by_any_limit_or_by_all_quotas),
        cmocka_unit_test(hits_are_counted_as_over_near_or_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
