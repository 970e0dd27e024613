/* test_people.c - quota records: who is of which tier, blocked, or has limits of his own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/people/people.h"
#include "node/policy/people/policy_join.h"

enum { CROWD = 3000, LOOKS = 20000, NAME_LEN = 32 };

static struct policy_text text(const char *written)
{
    return (struct policy_text){written, strlen(written)};
}

static struct policy_attribute attribute(const char *name, const char *value)
{
    return (struct policy_attribute){name, strlen(name), value, strlen(value)};
}

/* Limits as "500/h 60/m"; a burst as "b7". */
static struct own_limits own(const char *written)
{
    char copy[128];
    char error[OWN_ERROR_LEN];
    char *rest = copy;
    struct own_limits limits = {.burst = 0};
    (void)snprintf(copy, sizeof copy, "%s", written);
    for (char *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (word[0] == 'b')
            assert_int_equal(own_limits_set_burst(&limits, strtoull(word + 1, NULL, 10), error), 0);
        else
            assert_int_equal(own_limits_add(&limits, word, strlen(word), error), 0);
    }
    return limits;
}

static struct quota quota(const char *user, const char *tier, const char *limits)
{
    return (struct quota){.user = text(user), .tier = text(tier), .own = own(limits)};
}

static struct people *make(const struct quota *quotas, size_t count)
{
    struct people *people;
    assert_int_equal(people_new(alloc_heap(), quotas, count, &people), 0);
    people_check_invariants(people);
    return people;
}

static struct policy *compile(const char *rules)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile(rules, strlen(rules), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u %s", error.line, error.column, error.message);
    policy_check_invariants(policy);
    return policy;
}

/* What limits a request with these attributes ("user=ada tier=free") meets, as "rule:window ..";
 * an action if it is another, or "blocked MESSAGE". */
static const char *met(const struct people *people, const struct policy *policy,
                       const char *written, uint64_t now_ms)
{
    static char out[1024];
    static char copy[256];
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX];
    struct policy_result result;
    struct person person;
    struct limit limits[OWN_MERGED_MAX];
    size_t count = 0;
    size_t len = 0;
    char *rest = copy;
    (void)snprintf(copy, sizeof copy, "%s", written);
    for (char *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        attributes[count++] = attribute(word, equals + 1);
    }
    people_begin(NULL, &person);
    people_find(people, attributes, &count, now_ms, &person);
    memset(out, 0, sizeof out);
    if (person.denied != NULL) {
        (void)snprintf(out, sizeof out, "blocked %u %s", (unsigned)person.denied->status,
                       person.denied->message.data);
        return out;
    }
    assert_int_equal(policy_resolve(policy, attributes, count, &result), 0);
    people_apply(&person, attributes, count, &result);
    if (result.action != POLICY_LIMITS)
        (void)snprintf(out, sizeof out, "action %d", (int)result.action);
    for (uint32_t i = 0; i < result.part_count; i++) {
        const uint32_t met_count = own_limits_of(&result.parts[i], limits);
        for (uint32_t k = 0; k < met_count; k++) {
            char window[QUANTITY_TEXT_LEN];
            own_limits_window(result.parts[i].rule, &limits[k], window);
            len += (size_t)snprintf(out + len, sizeof out - len, "%s%s:%s", len == 0 ? "" : " ",
                                    result.parts[i].rule->name.data, window);
        }
    }
    return out;
}

static const char plans[] =
    "tiers:\n"
    "  free: {limits: [{rate: 10/h}, {rate: 100/d, algorithm: sliding_log}]}\n"
    "  gold: {limits: [{rate: 99/h, burst: 5}]}\n"
    "rules:\n"
    "- {name: open, match: {api: /health}, action: allow}\n"
    "- {name: ip, priority: 5, key: [ip], limits: [{rate: 7/s}]}\n"
    "- {name: vip, match: {tier: vip}, key: [user, ip], limits: [{rate: 1000/h}]}\n"
    "- {name: all, group: tier, priority: -1, key: [user], limits: [{rate: 3/h}]}\n";

/* A record's tier is that of the request, whatever the request says; without one it is the
 * request's, and who has no record is left alone. */
static void the_tier_of_a_record_is_the_tier_of_the_request(void **state)
{
    const struct quota list[] = {quota("ada", "gold", ""), quota("bob", "", "5/m"),
                                 quota("eve", "vip", "")};
    struct people *people = make(list, 3);
    struct policy *policy = compile(plans);
    (void)state;
    assert_string_equal(met(people, policy, "user=ada", 1), "tier gold:99/h");
    assert_string_equal(met(people, policy, "tier=free user=ada", 1), "tier gold:99/h");
    assert_string_equal(met(people, policy, "tier=free tier=free user=ada", 1), "tier gold:99/h");
    assert_string_equal(met(people, policy, "user=bob tier=free", 1),
                        "tier free:10/h tier free:100/d tier free:5/m");
    assert_string_equal(met(people, policy, "user=adah", 1), "all:3/h");
    assert_string_equal(met(people, policy, "user=ad", 1), "all:3/h");
    assert_string_equal(met(people, policy, "user=eve ip=10.0.0.1", 1),
                        "ip:7/s vip:1000/h all:3/h");
    assert_string_equal(met(people, policy, "ip=10.0.0.1", 1), "ip:7/s");
    assert_string_equal(met(NULL, policy, "user=ada tier=free", 1),
                        "tier free:10/h tier free:100/d");
    policy_free(&policy);
    people_free(&people);
}

/* Own limits replace those of the same window in the user's plan, be it a tier or the default; they
 * touch no other rule, act on their own where no plan does, and not where a rule ended the search.
 */
static void own_limits_change_the_users_plan_alone(void **state)
{
    const struct quota list[] = {quota("ada", "free", "500/h"), quota("bob", "", "500/h 9/day"),
                                 quota("cid", "gold", "b77"), quota("dan", "", "8/s")};
    struct people *people = make(list, 4);
    struct policy *policy = compile(plans);
    struct policy *bare = compile("{unmatched: deny, rules: [{name: b, match: {api: /b}, action: "
                                  "block}, {name: p, key: [page], limits: [{rate: 1/s}]}]}");
    (void)state;
    assert_string_equal(met(people, policy, "user=ada", 1), "tier free:500/h tier free:100/d");
    assert_string_equal(met(people, policy, "user=bob", 1), "all:500/h all:9/d");
    assert_string_equal(met(people, policy, "user=dan ip=10.0.0.1", 1), "ip:7/s all:3/h all:8/s");
    assert_string_equal(met(people, policy, "user=cid", 1), "tier gold:99/h");
    assert_int_equal(met(people, policy, "user=ada api=/health", 1)[7], '0' + POLICY_ALLOW);
    assert_string_equal(met(people, bare, "user=bob", 1), "user quota:500/h user quota:9/d");
    assert_string_equal(met(people, bare, "user=bob page=x", 1),
                        "p:1/s user quota:500/h user quota:9/d");
    assert_int_equal(met(people, bare, "user=bob api=/b", 1)[7], '0' + POLICY_BLOCK);
    assert_int_equal(met(people, bare, "user=eve", 1)[7], '0' + POLICY_UNMATCHED);
    assert_int_equal(met(people, bare, "user=cid", 1)[7], '0' + POLICY_UNMATCHED);
    policy_free(&policy);
    policy_free(&bare);
    people_free(&people);
}

/* A limit that is replaced keeps algorithm, ordinal, calendar and mode; an added one is counted
 * under the same ordinal whatever else there is; a burst is that of buckets alone. */
static void what_is_counted_does_not_depend_on_own_limits(void **state)
{
    struct policy *policy = compile(
        "rules: [{name: r, key: [user], mode: {soft: {exceed: 10%}}, limits: [{rate: 9/h, burst: "
        "3},"
        " {rate: 8/h, algorithm: sliding_log}, {rate: 7/month, algorithm: fixed_window, align: "
        "calendar}, {count: 4, algorithm: concurrency, timeout: 1h}, {rate: 6/2h}]}]");
    const struct policy_rule *rule = policy_rule_at(policy, 0);
    const struct own_limits few = own("5/m");
    const struct own_limits many = own("200000/h 30/month 5/m 6/s b50");
    struct limit out[OWN_MERGED_MAX];
    char window[QUANTITY_TEXT_LEN];
    char error[QUANTITY_ERROR_LEN];
    (void)state;
    assert_int_equal(own_limits_merge(&few, rule, out), 6);
    assert_memory_equal(out, rule->limits, 5 * sizeof *out);
    const struct limit added = out[5];
    assert_int_equal(added.count, 5);
    assert_int_equal(added.exceed_percent, 10);
    assert_int_equal(own_limits_merge(&many, rule, out), 7);
    const uint64_t counts[] = {200000, 59578, 30, 4, 6, 6, 5};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(out[i].count, counts[i]);
        assert_int_equal(limit_validate(&out[i], error), 0);
        if (i < 5) {
            assert_int_equal(out[i].algorithm, rule->limits[i].algorithm);
            assert_int_equal(out[i].ordinal, rule->limits[i].ordinal);
            assert_int_equal(out[i].window_ns, rule->limits[i].window_ns);
            assert_int_equal(out[i].align, rule->limits[i].align);
        }
        assert_int_equal(out[i].burst, limit_has_burst(out[i].algorithm) ? 50 : 0);
    }
    assert_int_equal(out[6].algorithm, added.algorithm);
    assert_int_equal(out[6].ordinal, added.ordinal);
    const struct own_limits slow = own("1/h 1/year b9999999999");
    assert_int_equal(own_limits_merge(&slow, rule, out), 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(limit_validate(&out[i], error), 0);
    assert_int_equal(own_limits_merge(&many, rule, out), 7);
    out[2].window_ns -= 86400000000000ULL; /* as the calendar has it in November */
    own_limits_window(rule, &out[2], window);
    assert_string_equal(window, "30/month");
    own_limits_window(rule, &out[6], window);
    assert_string_equal(window, "5/m");
    policy_free(&policy);
}

/* A rule with as many limits as there may be has no room for more, but its own are replaced. */
static void a_full_rule_has_no_room_for_added_limits(void **state)
{
    struct policy *policy = compile("rules: [{name: r, key: [user], limits: [{rate: 1/s}, {rate: "
                                    "1/2s}, {rate: 1/3s}, {rate: 1/4s}, {rate: 1/5s}, {rate: "
                                    "1/6s}, {rate: 1/7s}, {rate: 1/h}]}]");
    const struct own_limits limits = own("9/h 8/m");
    struct limit out[OWN_MERGED_MAX];
    (void)state;
    assert_int_equal(own_limits_merge(&limits, policy_rule_at(policy, 0), out), 8);
    assert_int_equal(out[7].count, 9);
    policy_free(&policy);
}

/* A blocked user is denied with the reason, until the end of the block. */
static void a_blocked_user_is_denied_until_the_end(void **state)
{
    struct quota list[] = {quota("ada", "gold", ""), quota("bob", "", "")};
    struct policy *policy = compile(plans);
    list[0].blocked = list[1].blocked = true;
    list[0].reason = text("unpaid");
    list[1].reason = text("abuse");
    list[0].until_ms = 1000;
    struct people *people = make(list, 2);
    (void)state;
    assert_string_equal(met(people, policy, "user=ada", 999), "blocked 403 unpaid");
    assert_string_equal(met(people, policy, "user=ada", 1000), "tier gold:99/h");
    assert_string_equal(met(people, policy, "user=bob", UINT64_MAX), "blocked 403 abuse");
    policy_free(&policy);
    people_free(&people);
}

/* Rates of one unit are taken, each once; all else is refused with a sentence. */
static void own_limits_are_rates_of_one_unit(void **state)
{
    static const char *const bad[] = {
        "",         "500",
        "5/2h",     "5/10m",
        "h",        "0/h",
        "-1/h",     "9/eon",
        "5/h 6/h",  "500\n/h",
        "1/1ms",    "1000001/s",
        "9/365.5d", "1111111111111111111111111111111111111111111111111/h"};
    struct own_limits limits = own("1000000/s 5/60s 7/24h 3/w 2/month 1/year b9");
    char error[OWN_ERROR_LEN];
    char window[QUANTITY_TEXT_LEN];
    (void)state;
    assert_int_equal(limits.counts[OWN_SECOND], 1000000);
    assert_int_equal(limits.counts[OWN_DAY], 7);
    own_limits_format(&limits, OWN_MINUTE, window);
    assert_string_equal(window, "5/m");
    own_limits_format(&limits, OWN_HOUR, window);
    assert_string_equal(window, "");
    assert_int_equal(own_limits_add(&limits, "9/7d", 4, error), TG_EINVALID); /* a second week */
    memset(&limits, 0, sizeof limits);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error[0] = '\0';
        if (own_limits_add(&limits, bad[i], strlen(bad[i]), error) != TG_EINVALID)
            fail_msg("taken: %s", bad[i]);
        assert_true(strlen(error) > 10);
    }
    assert_true(own_limits_empty(&limits));
    assert_int_equal(own_limits_set_burst(&limits, 0, error), TG_EINVALID);
    assert_int_equal(own_limits_set_burst(&limits, UINT64_MAX, error), TG_EINVALID);
}

static bool same_text(const struct policy_text *a, const struct policy_text *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* A record that is written is read back; one that was cut, or changed to what nobody writes, is
 * refused, and nothing behind it is read. */
static void a_record_is_read_as_it_was_written(void **state)
{
    uint8_t bytes[PEOPLE_ENCODED_MAX];
    struct quota wanted = quota("", "Pro.2", "500/h 1/year b9");
    struct quota found;
    (void)state;
    wanted.blocked = true;
    wanted.until_ms = 12345;
    wanted.reason = text("unpaid");
    wanted.notes = text("since May");
    for (int pass = 0; pass < 2; pass++) {
        const size_t len = quota_encode(&wanted, bytes);
        assert_int_equal(quota_decode(bytes, len, &found), 0);
        assert_true(same_text(&found.tier, &wanted.tier) && same_text(&found.notes, &wanted.notes));
        assert_memory_equal(&found.own, &wanted.own, sizeof found.own);
        assert_int_equal(found.blocked, wanted.blocked);
        assert_int_equal(found.until_ms, wanted.until_ms);
        assert_true(same_text(&found.reason, &wanted.reason));
        for (size_t cut = 0; cut < len; cut++) {
            uint8_t *exact = alloc_get(alloc_heap(), cut + 1); /* so that a sanitizer sees */
            memcpy(exact, bytes, cut);
            assert_int_not_equal(quota_decode(exact, cut, &found), 0);
            alloc_put(alloc_heap(), exact, cut + 1);
        }
        bytes[0]++;
        assert_int_equal(quota_decode(bytes, len, &found), TG_EVERSION);
        wanted = (struct quota){.notes = text("")};
    }
    static const uint8_t zero_rate[] = {1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t bad_tier[] = {1, 1, 1, 0, ' ', 0, 0, 0};
    assert_int_equal(quota_decode(zero_rate, sizeof zero_rate, &found), TG_EPROTOCOL);
    assert_int_equal(quota_decode(bad_tier, sizeof bad_tier, &found), TG_EPROTOCOL);
}

/* Of a crowd each is found by his whole name, and nobody else. */
static void everybody_is_found_by_his_name(void **state)
{
    static struct quota list[CROWD];
    static char names[CROWD][NAME_LEN];
    struct random random;
    struct policy *policy = compile("{tiers: {t: {limits: [{rate: 7/h}]}}, rules: []}");
    random_init(&random, 7);
    (void)state;
    for (size_t i = 0; i < CROWD; i++) {
        (void)snprintf(names[i], NAME_LEN, "user-%zu", i * 3);
        list[i] = quota(names[i], i % 2 == 0 ? "t" : "", "");
    }
    struct people *people = make(list, CROWD);
    assert_int_equal(people_count(people), CROWD);
    for (int i = 0; i < LOOKS; i++) {
        char asked[NAME_LEN];
        const uint64_t number = random_below(&random, 3 * CROWD + 10);
        (void)snprintf(asked, sizeof asked, "user=user-%u", (unsigned)number);
        const bool tiered = number % 6 == 0 && number < 3 * CROWD;
        assert_int_equal(met(people, policy, asked, 1)[0], tiered ? 't' : 'a');
    }
    people_free(&people);
    policy_free(&policy);
}

/* What an API key says goes before the user's record: its tier stays, and its own limits are
 * counted under it, beside the user's. */
static void what_an_api_key_says_goes_before_the_record(void **state)
{
    const struct quota record = quota("ada", "gold", "5/h");
    const struct own_limits limits = own("7/m");
    struct people *people = make(&record, 1);
    struct policy *policy = compile(plans);
    struct person person = {.tiered = true, .key_own = &limits};
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX] = {
        attribute("user", "ada"), attribute("tier", "free"), attribute("api_key", "K1")};
    struct policy_result result;
    struct limit out[OWN_MERGED_MAX];
    size_t count = 3;
    (void)state;
    people_find(people, attributes, &count, 1, &person);
    assert_int_equal(count, 3);
    assert_int_equal(policy_resolve(policy, attributes, count, &result), 0);
    people_apply(&person, attributes, count, &result);
    assert_int_equal(result.part_count, 2);
    assert_string_equal(result.parts[0].rule->name.data, "tier free");
    assert_int_equal(own_limits_of(&result.parts[0], out), 2);
    assert_int_equal(out[0].count, 5);
    assert_string_equal(result.parts[1].rule->name.data, "api key");
    assert_int_equal(result.parts[1].values[0].len, 2);
    assert_int_equal(own_limits_of(&result.parts[1], out), 1);
    assert_int_equal(out[0].count, 7);
    struct policy *bare = compile("{unmatched: deny, rules: [{name: p, key: [page], limits: "
                                  "[{rate: 1/s}]}]}");
    const struct person stranger = {.key_own = &limits};
    assert_int_equal(policy_resolve(bare, attributes, count, &result), 0);
    people_apply(&stranger, attributes, count, &result);
    assert_int_equal(result.action, POLICY_UNMATCHED);
    assert_int_equal(result.part_count, 0);
    policy_free(&bare);
    policy_free(&policy);
    people_free(&people);
}

/* More records than there may be are refused as a whole; a set that is shared outlives who made it,
 * and every allocation that fails gives all back. */
static void a_set_is_bounded_shared_and_whole(void **state)
{
    struct quota list[] = {quota("ada", "gold", "5/h"), quota("bob", "", "")};
    struct policy *base = compile(plans);
    struct policy *joined;
    struct people *people;
    (void)state;
    list[1].blocked = true;
    list[1].reason = text("why");
    assert_int_equal(people_new(alloc_heap(), list, PEOPLE_MAX + 1, &people), TG_ETOOBIG);
    for (size_t at = 0;; at++) {
        struct alloc_failing failing;
        alloc_failing_init(&failing, at);
        const int result = people_new(&failing.allocator, list, 2, &people);
        if (result == 0)
            people_free(&people);
        assert_int_equal(failing.bytes_live, 0);
        if (result == 0)
            break;
        assert_int_equal(result, TG_ENOMEM);
        assert_null(people);
    }
    people = make(list, 2);
    const struct policy_joined with = {.people = people_share(people)};
    assert_int_equal(policy_join(alloc_heap(), base, &with, &joined), 0);
    policy_check_invariants(joined);
    people_free(&people);
    assert_string_equal(met(policy_joined(joined)->people, joined, "user=ada", 1), "tier gold:5/h");
    policy_free(&joined);
    policy_free(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tier_of_a_record_is_the_tier_of_the_request),
        cmocka_unit_test(own_limits_change_the_users_plan_alone),
        cmocka_unit_test(what_is_counted_does_not_depend_on_own_limits),
        cmocka_unit_test(a_full_rule_has_no_room_for_added_limits),
        cmocka_unit_test(a_blocked_user_is_denied_until_the_end),
        cmocka_unit_test(own_limits_are_rates_of_one_unit),
        cmocka_unit_test(a_record_is_read_as_it_was_written),
        cmocka_unit_test(everybody_is_found_by_his_name),
        cmocka_unit_test(what_an_api_key_says_goes_before_the_record),
        cmocka_unit_test(a_set_is_bounded_shared_and_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
