/* test_policy.c - compiling rules files: what is accepted, what is kept, what there is room for.
 *
 * Which files are refused, and with which sentence, is test_policy_refusals.c. Every allocation of
 * a compilation is failed in turn, and bytes of a good file are overwritten at random: neither may
 * leak, crash or be accepted half.
 */
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
#include "node/policy/model/policy.h"
#include "node/policy/readers/yaml_reader.h"

/* Everything that a rules file may hold. */
static const char good_file[] =
    "# rules of the shop\n"
    "unmatched: deny\n"
    "rules:\n"
    "  - name: signup-per-phone\n"
    "    enabled: true\n"
    "    priority: 700\n"
    "    group: signup\n"
    "    match:\n"
    "      api: /user/v1/*\n"
    "      method: [PUT, POST]\n"
    "      ip: [\"2001:DB8:0::1\", 10.0.0.1, 192.168.*, \"2001:DB8:1::/48\", 127.0.0.0/8]\n"
    "    key: [phone, ip]\n"
    "    limits: &two\n"
    "      - {rate: 5/h, algorithm: sliding_log}\n"
    "      - {rate: 30/24h, algorithm: token_bucket, burst: 60}\n"
    "      - {rate: 10/60s, algorithm: sliding_log}\n"
    "    mode: hard\n"
    "    class: critical\n"
    "    consistency: one\n"
    "    scope: region\n"
    "    on_failure: open\n"
    "    action: throttle\n"
    "    count_denied: true\n"
    "    shadow: true\n"
    "    missing: deny\n"
    "    ipv6_prefix: 56\n"
    "    response: {status: 503, message: \"say \\\"please\\\" \\\\o/ \\u00e9\", retry_after: "
    "60s}\n"
    "  - {name: office, priority: 900, match: {ip: 10.1.2.3}, action: allow}\n"
    "  - {name: banned, priority: 900, match: {user: mallory}, action: block}\n"
    "  - {name: plain, key: [user], limits: *two, on_failure: closed, enabled: false}\n"
    "  - {name: lent, key: [user], limits: *two, on_failure: {local: {share: 7%}}}\n"
    "  - {name: soft, key: [user], mode: {soft: {exceed: 10%}}, limits: [{rate: 7/h}, {rate: 8/d, "
    "mode: hard}, {rate: 9/w, mode: {soft: {exceed: 200%}}}]}\n"
    "  - {name: whole, key: [user], limits: *two, on_failure: local}\n";

#define RULE(fields) "rules:\n- {name: a, key: [u], limits: [{rate: 5/h}], " fields "}\n"

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;

    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    policy_check_invariants(policy);
    return policy;
}

/* A file's pools, and the modes that name them, are kept; a limit's own mode replaces the rule's.
 */
static void pools_and_elastic_modes_keep_what_the_file_says(void **state)
{
    struct policy *policy = compile("pools:\n"
                                    "  web: {rate: 600/m, load_max: 0.25, reserve: 5%}\n"
                                    "  api: {rate: 10000/s}\n"
                                    "rules:\n"
                                    "- {name: a, key: [u], class: batch, mode: {elastic: {pool: "
                                    "web, ceiling: 1.5x, weight: 7}},\n"
                                    "   limits: [{rate: 5/h}, {rate: 9/d, mode: hard}, {rate: 7/d, "
                                    "mode: {elastic: {pool: api}}}]}\n"
                                    "- {name: b, key: [u], limits: [{rate: 5/h}]}\n");
    (void)state;
    assert_int_equal(policy_pool_count(policy), 2);
    const struct policy_pool *api = policy_pool_at(policy, 0);
    const struct policy_pool *web = policy_pool_find(policy, "web", 3);
    assert_string_equal(api->name.data, "api");
    assert_int_equal(api->load_max_ppm, 1000000);
    assert_int_equal(api->reserve_percent, 0);
    assert_ptr_equal(web, policy_pool_at(policy, 1));
    assert_ptr_equal(web, policy_pool_by_id(policy, web->id));
    assert_null(policy_pool_find(policy, "we", 2));
    assert_int_equal(web->rate.count, 600);
    assert_int_equal(web->load_max_ppm, 250000);
    assert_int_equal(web->reserve_percent, 5);
    const struct limit *limits = policy_rule_find(policy, "a", 1)->limits;
    assert_int_equal(limits[0].pool, web->id);
    assert_int_equal(limits[0].weight, 7);
    assert_int_equal(limits[0].ceiling_percent, 150);
    assert_int_equal(limits[0].class, POLICY_CLASS_BATCH);
    assert_int_equal(limits[1].pool, 0);
    assert_int_equal(limits[2].pool, api->id);
    assert_int_equal(limits[2].weight, 1);
    assert_int_equal(limits[2].ceiling_percent, 0);
    assert_int_equal(policy_rule_find(policy, "b", 1)->limits[0].pool, 0);
    char text[2048] = "pools: {api: {rate: 10000/s}, web: {reserve: 5%, load_max: 0.25, rate: "
                      "600/m}}\nrules:\n- ";
    for (size_t i = 0; i < 2; i++) {
        const size_t at = strlen(text);
        const int len = policy_format_rule(policy_rule_at(policy, i), text + at, 900);
        assert_true(len > 0);
        (void)snprintf(text + at + (size_t)len, 8, i == 0 ? "\n- " : "\n");
    }
    struct policy *again = compile(text);
    assert_int_equal(policy_digest(again), policy_digest(policy));
    memcpy(strstr(text, "0.25"), "0.24", 4);
    struct policy *other = compile(text);
    assert_int_not_equal(policy_digest(other), policy_digest(policy));
    memcpy(strstr(text, "0.24"), "0.25", 4);
    memcpy(strstr(text, "\"weight\":7"), "\"weight\":8", 10);
    policy_free(&other);
    other = compile(text);
    assert_int_not_equal(policy_digest(other), policy_digest(policy));
    policy_free(&other);
    policy_free(&again);
    policy_free(&policy);
}

/* A pool is each region's, or lent by one of them for all: one that is named, or any. */
static void a_pool_may_be_of_all_regions(void **state)
{
    struct policy *policy = compile("pools: {a: {rate: 1/s, scope: region}, b: {rate: 1/s, scope: "
                                    "global}, c: {rate: 1/s, scope: global, home: eu}}\nrules: []");
    const struct policy_pool *pools[3];
    (void)state;
    for (size_t i = 0; i < 3; i++)
        pools[i] = policy_pool_at(policy, i);
    assert_true(pools[0]->scope == POLICY_SCOPE_REGION && pools[1]->scope == POLICY_SCOPE_GLOBAL);
    assert_true(pools[0]->home.len == 0 && pools[1]->home.len == 0 && pools[1]->home_region == 0);
    assert_string_equal(pools[2]->home.data, "eu");
    assert_true(pools[2]->home_region == policy_region_id("eu", 2));
    assert_true(policy_has_global(policy));
    policy_free(&policy);
    policy = compile("pools: {a: {rate: 1/s, scope: region}}\nrules: []");
    assert_false(policy_has_global(policy));
    policy_free(&policy);
}

/* A tier is a rule behind those of the file: it matches its name, counts by user, and is of the
 * group that makes it override a default. Its written form compiles to the same. */
static void a_tier_is_a_rule_of_its_own(void **state)
{
    struct policy *policy = compile("tiers:\n"
                                    "  free: {limits: [{rate: 5/h}, {rate: 9/d}]}\n"
                                    "  Pro.2: {limits: [{rate: 50/h, burst: 7, mode: {soft: "
                                    "{exceed: 10%}}}]}\n"
                                    "rules:\n"
                                    "- {name: open, action: allow, match: {api: /healthz}}\n"
                                    "- {name: all, group: tier, priority: -1, key: [user], limits: "
                                    "[{rate: 1/h}]}\n");
    char text[4096] = "rules:\n";
    (void)state;
    const char *const expected[] = {"open", "tier free", "tier Pro.2", "all"};
    assert_int_equal(policy_rule_count(policy), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(policy_rule_at(policy, i)->name.data, expected[i]);
        assert_int_equal(policy_rule_at(policy, i)->rank, i);
        const size_t at = strlen(text);
        memcpy(text + at, "- ", 2);
        const int len = policy_format_rule(policy_rule_at(policy, i), text + at + 2, 600);
        assert_true(len > 0);
        memcpy(text + at + 2 + (size_t)len, "\n", 2);
    }
    const struct policy_rule *rule = policy_rule_find(policy, "tier Pro.2", 10);
    assert_string_equal(rule->matches[0].attribute.data, "tier");
    assert_string_equal(rule->matches[0].values[0].data, "Pro.2");
    assert_string_equal(rule->group.data, "tier");
    assert_string_equal(rule->key[0].data, "user");
    assert_int_equal(rule->limits[0].exceed_percent, 10);
    assert_int_equal(rule->limits[0].burst, 7);
    assert_int_equal(rule->line, 3);
    struct policy *again = compile(text);
    assert_int_equal(policy_digest(again), policy_digest(policy));
    policy_free(&again);
    policy_free(&policy);
}

/* What is written of a load is read exactly, and nothing else is taken. */
static void loads_are_read_exactly(void **state)
{
    static const struct {
        const char *text;
        int64_t ppm; /* -1: refused */
    } cases[] = {{"0", 0},        {"1", 1000000},    {"0.8", 800000}, {"1.000000", 1000000},
                 {"0.000001", 1}, {"0.0000001", -1}, {"1.1", -1},     {"2", -1},
                 {"", -1},        {".5", -1},        {"0.", -1},      {"-0", -1},
                 {"0,5", -1},     {"1.000001", -1},  {"0.5 ", -1},    {"00.5", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t ppm = 0;
        const int result = policy_parse_load(cases[i].text, strlen(cases[i].text), &ppm);
        assert_int_equal(result == 0 ? (int64_t)ppm : -1, cases[i].ppm);
    }
}

/* A good file keeps every field it states. */
static void a_rule_keeps_what_the_file_says(void **state)
{
    struct policy *policy = compile(good_file);

    (void)state;
    assert_true(policy_unmatched_deny(policy));
    assert_int_equal(policy_rule_count(policy), 7);
    const struct policy_rule *rule = policy_rule_find(policy, "lent", 4);
    assert_int_equal(rule->on_failure, POLICY_FAILURE_LOCAL);
    assert_int_equal(rule->local_share, 7);
    rule = policy_rule_find(policy, "soft", 4);
    assert_int_equal(rule->mode.exceed_percent, 10);
    assert_int_equal(rule->limits[0].exceed_percent, 10);
    assert_int_equal(rule->limits[1].exceed_percent, 0);
    assert_int_equal(rule->limits[2].exceed_percent, 200);
    rule = policy_rule_find(policy, "whole", 5);
    assert_int_equal(rule->on_failure, POLICY_FAILURE_LOCAL);
    assert_int_equal(rule->local_share, 100);
    rule = policy_rule_find(policy, "signup-per-phone", 16);
    assert_non_null(rule);
    assert_ptr_equal(rule, policy_rule_at(policy, 2));
    assert_string_equal(rule->group.data, "signup");
    assert_int_equal(rule->line, 4);
    assert_int_equal(rule->match_count, 3);
    assert_string_equal(rule->matches[0].attribute.data, "api");
    assert_string_equal(rule->matches[1].attribute.data, "ip");
    assert_string_equal(rule->matches[1].values[1].data, "127.0.0.0/8");
    assert_string_equal(rule->matches[1].values[3].data, "2001:db8:1::/48");
    assert_string_equal(rule->matches[1].values[4].data, "2001:db8::1");
    assert_string_equal(rule->matches[2].values[0].data, "POST");
    assert_int_equal(rule->key_count, 2);
    assert_string_equal(rule->key[0].data, "phone");
    assert_int_equal(rule->limit_count, 3);
    assert_string_equal(rule->windows[0], "5/h");
    assert_string_equal(rule->windows[1], "30/d");
    assert_int_equal(rule->limits[1].burst, 60);
    assert_int_equal(rule->limits[1].ordinal, 0);
    assert_int_equal(rule->limits[0].ordinal, 0);
    assert_int_equal(rule->limits[2].ordinal, 1);
    assert_int_equal(rule->class, POLICY_CLASS_CRITICAL);
    assert_int_equal(rule->on_failure, POLICY_FAILURE_OPEN);
    assert_true(rule->count_denied && rule->shadow && rule->missing_deny);
    assert_int_equal(rule->ipv6_prefix, 56);
    assert_int_equal(rule->status, 503);
    assert_string_equal(rule->message.data, "say \"please\" \\o/ \xc3\xa9");
    assert_int_equal(rule->retry_after_ns, 60000000000ULL);
    policy_free(&policy);
    assert_null(policy);
}

/* What a rule leaves out has the documented default. */
static void absent_fields_have_their_defaults(void **state)
{
    struct policy *policy = compile("rules: [{name: a, key: [u], limits: [{rate: 7/5m}]},"
                                    "{name: b, action: block}]");

    (void)state;
    const struct policy_rule *rule = policy_rule_at(policy, 0);
    assert_false(policy_unmatched_deny(policy));
    assert_true(rule->enabled);
    assert_int_equal(rule->priority, 0);
    assert_int_equal(rule->act, POLICY_ACT_THROTTLE);
    assert_int_equal(rule->class, POLICY_CLASS_NORMAL);
    assert_int_equal(rule->on_failure, POLICY_FAILURE_CLOSED);
    assert_int_equal(rule->ipv6_prefix, 64);
    assert_int_equal(rule->status, 429);
    assert_int_equal(rule->limits[0].algorithm, ALGORITHM_TOKEN_BUCKET);
    assert_int_equal(rule->limits[0].burst, 0);
    assert_false(rule->shadow || rule->count_denied || rule->missing_deny);
    assert_int_equal(policy_rule_at(policy, 1)->status, 403);
    policy_free(&policy);
}

/* Rules act by priority, then in the order of the file, even on one line. */
static void rules_are_listed_in_acting_order(void **state)
{
    struct policy *policy = compile("rules: [{name: d, action: block}, {name: e, action: block},"
                                    "{name: a, priority: 9, action: block},"
                                    "{name: f, priority: -1, action: block},"
                                    "{name: b, priority: 9, action: block}]");

    (void)state;
    const char *const expected[] = {"a", "b", "d", "e", "f"};
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(policy_rule_at(policy, i)->name.data, expected[i]);
    policy_free(&policy);
}

/* A written rule compiles to the same rule, so listing and applying are inverse. */
static void a_written_rule_compiles_to_the_same_rule(void **state)
{
    struct policy *policy = compile(good_file);
    char text[16384] = "unmatched: deny\nrules:\n";

    (void)state;
    for (size_t i = 0; i < policy_rule_count(policy); i++) {
        const size_t at = strlen(text);
        const int header = snprintf(text + at, sizeof(text) - at, "- ");
        const int len = policy_format_rule(policy_rule_at(policy, i), text + at + header,
                                           sizeof(text) - at - (size_t)header - 1);
        assert_true(len > 0);
        text[at + (size_t)header + (size_t)len] = '\n';
        text[at + (size_t)header + (size_t)len + 1] = '\0';
    }
    struct policy *again = compile(text);
    assert_int_equal(policy_digest(policy), policy_digest(again));
    char exact[4096];
    const int len = policy_format_rule(policy_rule_at(policy, 0), exact, sizeof(exact));
    assert_int_equal(policy_format_rule(policy_rule_at(policy, 0), exact, (size_t)len), TG_ETOOBIG);
    assert_int_equal(policy_format_rule(policy_rule_at(policy, 0), exact, (size_t)len + 1), len);
    policy_free(&policy);
    policy_free(&again);
}

/* Knows one zone, and counts how often it is asked. */
static uint32_t test_spans(void *context, const char *name, struct calendar_span *out, uint32_t max)
{
    (*(unsigned *)context)++;
    if (strcmp(name, "Test/Zone") != 0 || max < 2)
        return 0;
    out[0] = (struct calendar_span){INT64_MIN, 3600};
    out[1] = (struct calendar_span){1700000000, 7200};
    return 2;
}

static struct policy *compile_zoned(const char *text, unsigned *asked)
{
    const struct policy_zones zones = {asked, test_spans};
    struct policy_error error;
    struct policy *policy;
    if (policy_compile_zoned(text, strlen(text), alloc_heap(), &zones, &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    policy_check_invariants(policy);
    return policy;
}

/* Each zone of a file is asked for once, and its table shared by all limits that name it; a limit
 * of the calendar is called by its unit, is written back as it was, and is given its window. */
static void limits_of_the_calendar_share_their_zone(void **state)
{
    (void)state;
    static const char text[] =
        "rules:\n- name: a\n  key: [u]\n  limits:\n"
        "  - {rate: 9/month, algorithm: fixed_window, align: calendar, timezone: Test/Zone}\n"
        "  - {rate: 2/day, algorithm: fixed_window, align: calendar, timezone: Test/Zone}\n"
        "  - {rate: 5/h, algorithm: fixed_window, align: first}\n"
        "  - {rate: 3/w, algorithm: fixed_window, align: calendar}\n"
        "  - {count: 8, algorithm: concurrency}\n"
        "  - {count: 9, algorithm: concurrency, timeout: 5m}\n";
    unsigned asked = 0;
    char line[2048] = "rules:\n- ";
    struct limit limits[6];
    struct policy *policy = compile_zoned(text, &asked);
    const struct policy_rule *rule = policy_rule_at(policy, 0);
    assert_int_equal(asked, 1);
    assert_ptr_equal(rule->calendars[0].zone, rule->calendars[1].zone);
    assert_int_equal(rule->calendars[0].zone->span_count, 2);
    assert_null(rule->calendars[2].zone);
    assert_int_equal(rule->calendars[3].zone->span_count, 1);
    assert_string_equal(rule->windows[0], "9/month");
    assert_string_equal(rule->windows[1], "2/day");
    assert_string_equal(rule->windows[3], "3/week");
    assert_string_equal(rule->windows[4], "8/30s"); /* the time-out unless another is given */
    assert_string_equal(rule->windows[5], "9/5m");
    memcpy(limits, rule->limits, sizeof limits);
    policy_place_calendars(rule, INT64_C(1700006400) * 1000000000, limits);
    assert_int_equal(limits[0].align, LIMIT_ALIGN_MONTH);
    /* Its midnight was left out when the clock was put forward. */
    assert_int_equal(limits[1].start_ns, INT64_C(1700000000) * 1000000000);
    assert_int_equal(limits[2].start_ns, 0);
    assert_int_equal(limits[3].align, LIMIT_ALIGN_WEEK);
    assert_true(policy_format_rule(rule, line + 9, sizeof(line) - 9) > 0);
    struct policy *again = compile_zoned(line, &asked);
    assert_int_equal(policy_digest(again), policy_digest(policy));
    policy_free(&again);
    struct policy *utc = compile("rules:\n- name: a\n  key: [u]\n  limits:\n  - {rate: 2/day, "
                                 "algorithm: fixed_window, align: calendar}\n");
    struct policy *epoch = compile("rules:\n- name: a\n  key: [u]\n  limits:\n  - {rate: 2/day, "
                                   "algorithm: fixed_window}\n");
    assert_int_not_equal(policy_digest(utc), policy_digest(epoch));
    struct policy *zoned =
        compile_zoned("rules:\n- name: a\n  key: [u]\n  limits:\n  - {rate: 2/day, algorithm: "
                      "fixed_window, align: calendar, timezone: Test/Zone}\n",
                      &asked);
    assert_int_not_equal(policy_digest(zoned), policy_digest(utc));
    policy_free(&zoned);
    policy_free(&utc);
    policy_free(&epoch);
    policy_free(&policy);
}

/* Files of which no two mean the same. */
static const char *const different[] = {
    "rules: [{name: a, match: {x: '1', y: [p, q]}, key: [u], limits: [{rate: 5/h}]}]",
    "rules: [{name: b, match: {x: '1', y: [p, q]}, key: [u], limits: [{rate: 5/h}]}]",
    "rules: [{name: a, match: {x: '1', y: [pq]}, key: [u], limits: [{rate: 5/h}]}]",
    "rules: [{name: a, match: {x: '1', y: [p, q]}, key: [u], limits: [{rate: 6/h}]}]",
    "rules: [{name: a, match: {x: '1', y: [p, q]}, key: [u], limits: [{rate: 5/d}]}]",
    "rules: []",
    "{unmatched: deny, rules: []}",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], on_failure: local}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], on_failure: {local: {share: 99%}}}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], on_failure: open}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], mode: {soft: {exceed: 5%}}}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], mode: {soft: {exceed: 6%}}}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, burst: 6}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, algorithm: leaky_bucket}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, algorithm: sliding_log}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, algorithm: sliding_buckets}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, algorithm: sliding_buckets, buckets: "
    "61}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, algorithm: fixed_window}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, algorithm: fixed_window, align: "
    "first}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h, algorithm: fixed_window, align: "
    "calendar}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}, {rate: 6/d}]}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], enabled: false}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], priority: 1}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], priority: -1}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], group: g}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], group: h}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], match: {x: y}}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], match: {x: [y, z]}}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], class: batch}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], count_denied: true}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], shadow: true}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], missing: deny}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], consistency: quorum}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], scope: global}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], scope: global, home: eu}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], scope: global, wan_wait: 1s}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], response: {status: 430}}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], response: {message: M}}]",
    "rules: [{name: a, key: [u], limits: [{rate: 5/h}], response: {retry_after: 1s}}]",
    "rules: [{name: a, key: [u, v], limits: [{rate: 5/h}]}]",
    "rules: [{name: a, key: [v, u], limits: [{rate: 5/h}]}]",
    "rules: [{name: a, key: [ip], limits: [{rate: 5/h}]}]",
    "rules: [{name: a, key: [ip], ipv6_prefix: 56, limits: [{rate: 5/h}]}]",
    "rules: [{name: a, action: allow}]",
    "rules: [{name: a, action: block}]",
    "rules: [{name: a, key: [u], limits: [{count: 5, algorithm: concurrency}]}]",
    "rules: [{name: a, key: [u], limits: [{count: 5, algorithm: concurrency, timeout: 1s}]}]",
    "{pools: {p: {rate: 1/s}}, rules: []}",
    "{pools: {p: {rate: 2/s}}, rules: []}",
    "{pools: {p: {rate: 1/s, load_max: 0.5}}, rules: []}",
    "{pools: {p: {rate: 1/s, reserve: 1%}}, rules: []}",
    "{pools: {p: {rate: 1/s, scope: global}}, rules: []}",
    "{pools: {p: {rate: 1/s, scope: global, home: eu}}, rules: []}",
    "{pools: {p: {rate: 1/s}}, rules: [{name: a, key: [u], limits: [{rate: 5/h}], mode: "
    "{elastic: {pool: p}}}]}",
    "{pools: {p: {rate: 1/s}}, rules: [{name: a, key: [u], limits: [{rate: 5/h}], mode: "
    "{elastic: {pool: p, weight: 2}}}]}",
    "{pools: {p: {rate: 1/s}}, rules: [{name: a, key: [u], limits: [{rate: 5/h}], mode: "
    "{elastic: {pool: p, ceiling: 2x}}}]}",
};
enum { DIFFERENT = sizeof(different) / sizeof(different[0]) };

/* The digest is blind to layout and sees every change of meaning. */
static void the_digest_follows_meaning_not_layout(void **state)
{
    uint64_t digests[DIFFERENT];

    (void)state;
    for (size_t i = 0; i < DIFFERENT; i++) {
        struct policy *policy = compile(different[i]);
        digests[i] = policy_digest(policy);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(digests[i], digests[j]);
        policy_free(&policy);
    }
    struct policy *same = compile("# again\nrules:\n- limits:\n  - rate: 5/60m\n  key: ['u']\n"
                                  "  match: {y: [q, p], x: 1}\n  name: a\n  priority: 0\n");
    assert_int_equal(policy_digest(same), digests[0]);
    policy_free(&same);
}

/* A rule keeps its consistency, also written out and compiled again; only rules in force count. */
static void a_rule_has_its_consistency(void **state)
{
    char text[1024] = "rules:\n- ";
    (void)state;
    struct policy *one = compile(RULE("consistency: one"));
    struct policy *plain = compile(RULE("enabled: true"));
    struct policy *quorum = compile(RULE("consistency: quorum"));
    struct policy *off = compile(RULE("consistency: quorum, enabled: false"));
    assert_int_equal(policy_rule_at(plain, 0)->consistency, POLICY_CONSISTENCY_ONE);
    assert_int_equal(policy_rule_at(quorum, 0)->consistency, POLICY_CONSISTENCY_QUORUM);
    assert_int_equal(policy_digest(one), policy_digest(plain));
    assert_int_not_equal(policy_digest(one), policy_digest(quorum));
    assert_true(policy_has_quorum(quorum));
    assert_false(policy_has_quorum(one) || policy_has_quorum(off));
    assert_false(policy_has_quorum(policy_empty()));
    assert_true(policy_format_rule(policy_rule_at(quorum, 0), text + strlen(text), 1000) > 0);
    assert_non_null(strstr(text, "\"consistency\":\"quorum\""));
    struct policy *again = compile(text);
    assert_int_equal(policy_digest(again), policy_digest(quorum));
    policy_free(&one);
    policy_free(&plain);
    policy_free(&quorum);
    policy_free(&off);
    policy_free(&again);
}

/* The empty policy needs no memory and survives being freed. */
static void the_empty_policy_allows_everything_as_unmatched(void **state)
{
    struct policy *policy = (struct policy *)(uintptr_t)policy_empty();
    const struct policy_attribute attribute = {"ip", 2, "10.0.0.1", 8};
    struct policy_result result;

    (void)state;
    assert_int_equal(policy_rule_count(policy), 0);
    assert_int_equal(policy_resolve(policy, &attribute, 1, &result), 0);
    assert_int_equal(result.action, POLICY_UNMATCHED);
    assert_true(result.allowed);
    policy_free(&policy);
    assert_int_equal(policy_resolve(policy_empty(), NULL, 0, &result), 0);
}

/* Aliases are counted as copies, so nine lists of nine aliases each are refused, at once. */
static void aliases_that_explode_are_refused(void **state)
{
    char text[4096] = "a0: &a0 [xxxxxxxxxx, xxxxxxxxxx, xxxxxxxxxx, xxxxxxxxxx]\n";
    struct policy_error error;
    struct policy *policy;

    (void)state;
    for (int i = 1; i < 12; i++) {
        const size_t at = strlen(text);
        (void)snprintf(text + at, sizeof(text) - at, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n",
                       i, i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    }
    assert_int_equal(policy_compile(text, strlen(text), alloc_heap(), &policy, &error),
                     TG_EINVALID);
    assert_string_equal(error.message,
                        "aliases expand to more than 64 MiB; expected fewer aliases");
}

/* A file above a maximum is refused with that maximum named. */
static void files_above_a_maximum_are_refused(void **state)
{
    struct policy_error error;
    struct policy *policy;
    const size_t capacity = POLICY_FILE_LEN_MAX + 1;
    char *text = malloc(capacity);

    (void)state;
    assert_non_null(text);
    memset(text, ' ', capacity);
    assert_int_equal(policy_compile(text, capacity, alloc_heap(), &policy, &error), TG_EINVALID);
    assert_string_equal(error.message, "the file is too large; expected at most 16 MiB");
    size_t len = (size_t)snprintf(text, capacity, "rules:\n");
    for (int i = 0; i <= POLICY_RULES_MAX; i++)
        len += (size_t)snprintf(text + len, capacity - len, "- {name: r%d, action: block}\n", i);
    assert_int_equal(policy_compile(text, len, alloc_heap(), &policy, &error), TG_EINVALID);
    assert_string_equal(error.message,
                        "rules: found a list of 10001; expected a list of 0 to 10000 elements");
    len = 0;
    for (int i = 0; i < 300; i++)
        len += (size_t)snprintf(text + len, capacity - len, "k%d: &a%d x\n", i, i);
    assert_int_equal(policy_compile(text, len, alloc_heap(), &policy, &error), TG_EINVALID);
    assert_string_equal(error.message, "too many anchors; expected at most 256 in a file");
    assert_int_equal(error.line, 257);
    len = (size_t)snprintf(text, capacity, "[");
    for (int i = 0; i < YAML_READER_NODES_MAX; i++)
        len += (size_t)snprintf(text + len, capacity - len, "a,");
    assert_int_equal(policy_compile(text, len, alloc_heap(), &policy, &error), TG_EINVALID);
    assert_string_equal(error.message, "too many values; expected at most 1048576 in a file");
    free(text);
}

/* Whichever allocation fails, compilation says so and gives everything back. */
static void every_failing_allocation_is_clean(void **state)
{
    struct alloc_failing failing;
    struct policy_error error;
    struct policy *policy;
    size_t failures = 0;

    (void)state;
    for (size_t i = 1;; i++) {
        alloc_failing_init(&failing, i);
        const int result =
            policy_compile(good_file, strlen(good_file), &failing.allocator, &policy, &error);
        if (result == 0)
            break;
        failures++;
        assert_int_equal(result, TG_ENOMEM);
        assert_null(policy);
        assert_int_equal(error.line, 0);
        assert_string_equal(error.message, "out of memory while compiling the rules");
        assert_int_equal(failing.bytes_live, 0);
    }
    assert_true(failures >= 3);
    policy_free(&policy);
    assert_int_equal(failing.bytes_live, 0);
}

/* Damaged files never crash, leak or report a place outside the file. */
static void hostile_bytes_are_survived(void **state)
{
    static const char alphabet[] = "{}[]:,-&*#!|>'\"%@` \n\t\\x0\xc3\xa9~?a5/";
    char text[sizeof(good_file)];
    struct alloc_failing counting;
    struct policy_error error;
    struct random random;
    unsigned accepted = 0;

    (void)state;
    random_init(&random, 20);
    for (int round = 0; round < 4000; round++) {
        memcpy(text, good_file, sizeof(text));
        const uint64_t changes = 1 + random_below(&random, 4);
        for (uint64_t i = 0; i < changes; i++)
            text[random_below(&random, sizeof(text) - 1)] =
                round % 4 == 0 ? (char)random_below(&random, 256)
                               : alphabet[random_below(&random, sizeof(alphabet) - 1)];
        const size_t len = round % 3 == 0 ? random_below(&random, sizeof(text)) : sizeof(text) - 1;
        struct policy *policy;
        alloc_failing_init(&counting, 0);
        if (policy_compile(text, len, &counting.allocator, &policy, &error) == 0) {
            accepted++;
            policy_free(&policy);
        } else {
            assert_null(policy);
            assert_true(error.line >= 1 && error.column >= 1 && error.message[0] != '\0');
        }
        assert_int_equal(counting.bytes_live, 0);
    }
    assert_in_range(accepted, 10, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_keeps_what_the_file_says),
        cmocka_unit_test(pools_and_elastic_modes_keep_what_the_file_says),
        cmocka_unit_test(a_pool_may_be_of_all_regions),
        cmocka_unit_test(a_tier_is_a_rule_of_its_own),
        cmocka_unit_test(loads_are_read_exactly),
        cmocka_unit_test(absent_fields_have_their_defaults),
        cmocka_unit_test(rules_are_listed_in_acting_order),
        cmocka_unit_test(a_written_rule_compiles_to_the_same_rule),
        cmocka_unit_test(limits_of_the_calendar_share_their_zone),
        cmocka_unit_test(a_rule_has_its_consistency),
        cmocka_unit_test(the_digest_follows_meaning_not_layout),
        cmocka_unit_test(the_empty_policy_allows_everything_as_unmatched),
        cmocka_unit_test(aliases_that_explode_are_refused),
        cmocka_unit_test(files_above_a_maximum_are_refused),
        cmocka_unit_test(every_failing_allocation_is_clean),
        cmocka_unit_test(hostile_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
