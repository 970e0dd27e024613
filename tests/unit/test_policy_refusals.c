/* test_policy_refusals.c - what a rules file must not say, and what is said of it.
 *
 * One row a mistake, with the exact place and sentence, because people and scripts read them; one
 * table a subject. What the place is when nothing better is known, and how many of anything a file
 * may hold, is tested in test_policy.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "node/policy/compile/policy_compile.h"
#include "node/policy/model/policy.h"

struct refusal {
    const char *text;
    uint32_t line;
    uint32_t column;
    const char *message;
};

#define RULE(fields) "rules:\n- {name: a, key: [u], limits: [{rate: 5/h}], " fields "}\n"
#define LIMIT(limit) "rules:\n- {name: a, key: [u], limits: [" limit "]}\n"
#define POOL(pool)   "pools: {p: " pool "}\nrules: []\n"
#define ELASTIC(fields)                                                                            \
    "pools: {p: {rate: 1/s}}\nrules:\n- {name: a, mode: {elastic: {" fields                        \
    "}}, key: [u], limits: [{rate: 5/h}]}\n"
#define ELASTIC_LIMIT(limit)                                                                       \
    "pools: {p: {rate: 1/s}}\nrules:\n- {name: a, mode: {elastic: {pool: p}}, key: [u], limits: "  \
    "[" limit "]}\n"
#define RULE_KEYS                                                                                  \
    "name, enabled, priority, group, match, key, limits, mode, class, consistency, scope, "        \
    "home, wan_wait, on_failure, action, count_denied, shadow, missing, response, ipv6_prefix"
#define ALGORITHMS                                                                                 \
    "token_bucket, fixed_window, sliding_window, sliding_log, "                                    \
    "leaky_bucket, sliding_buckets, concurrency"
#define UNITS "expected ns us ms s m min h d w month year"

/* Each is refused whole, with its place and the exact sentence. */
static void expect_refusals(const struct refusal *refusals, size_t count)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const struct refusal *expected = &refusals[i];
        struct policy_error error;
        struct policy *policy = (struct policy *)&error;
        const int result =
            policy_compile(expected->text, strlen(expected->text), alloc_heap(), &policy, &error);
        assert_int_equal(result, TG_EINVALID);
        assert_null(policy);
        const bool same = error.line == expected->line && error.column == expected->column &&
                          strcmp(error.message, expected->message) == 0;
        if (!same) {
            wrong++;
            print_message("%s\n  got      %u:%u %s\n  expected %u:%u %s\n", expected->text,
                          error.line, error.column, error.message, expected->line, expected->column,
                          expected->message);
        }
    }
    assert_int_equal(wrong, 0);
}
#define EXPECT_REFUSALS(table) expect_refusals(table, sizeof(table) / sizeof((table)[0]))

static const struct refusal documents[] = {
    {"rules: [\n", 2, 1,
     "YAML syntax: did not find expected node content while parsing a flow node; expected "
     "well-formed YAML"},
    {"rules: []\n\ta: b\n", 2, 1,
     "YAML syntax: found character that cannot start any token while scanning for the next token; "
     "expected well-formed YAML"},
    {"rules: \xff\xfe\n", 1, 8,
     "YAML syntax: invalid leading UTF-8 octet; expected well-formed YAML"},
    /* A column counts characters, not bytes. */
    {"# \xc3\xa4\xe2\x82\xac \xff\n", 1, 6,
     "YAML syntax: invalid leading UTF-8 octet; expected well-formed YAML"},
    {"#\r#\r\n# \xff\n", 3, 3,
     "YAML syntax: invalid leading UTF-8 octet; expected well-formed YAML"},
    /* The mark of UTF-8 is no column. */
    {"\xef\xbb\xbfrulez: 1\n", 1, 1,
     "file: found unknown key \"rulez\"; expected unmatched, rules, pools, tiers, attributes, "
     "domains, charge, merge_domains"},
    {"rules: \"a\\0\"\n", 1, 8, "a NUL character; expected text without it"},
    {"rules: !!seq []\n", 1, 8, "a tag; expected values without tags"},
    {"rules: []\n---\nrules: []\n", 3, 1, "a second document; expected one document in a file"},
    {"rules: *x\n", 1, 8, "an unknown alias; expected a name set by &"},
    {"rules: &x [*x]\n", 1, 12, "an alias inside of what it names"},
    {"{[a]: b}\n", 1, 2, "a list or mapping as a key; expected a text as a key"},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 1, 49,
     "nested too deep; expected at most 48 lists and mappings inside each other"},
};

/* Whatever is not well-formed YAML of the kind that a rules file may be. */
static void what_is_no_document_is_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(documents);
}

static const struct refusal files[] = {
    {"", 1, 1, "file: found nothing; expected a mapping with \"rules\""},
    {"# only a comment\n", 1, 1, "file: found nothing; expected a mapping with \"rules\""},
    {"[]", 1, 1, "file: found a list; expected a mapping"},
    {"unmatched: deny\n", 1, 1, "file: found no key \"rules\"; expected one"},
    {"rules:\n", 1, 7, "rules: found nothing; expected a list of 0 to 10000 elements"},
    {"rules: {a: b}", 1, 8, "rules: found a mapping; expected a list of 0 to 10000 elements"},
    {"rule: []\n", 1, 1,
     "file: found unknown key \"rule\"; expected unmatched, rules, pools, tiers, attributes, "
     "domains, charge, merge_domains"},
    {"rules: []\nrules: []\n", 2, 1, "file: found key \"rules\" twice; expected it once"},
    {"unmatched: maybe\nrules: []\n", 1, 12, "unmatched: found \"maybe\"; expected allow, deny"},
};

/* The keys of the file itself. */
static void bad_files_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(files);
}

static const struct refusal pools[] = {
    {"rules: []\npools: [a]\n", 2, 8, "pools: found a list; expected a mapping"},
    {POOL("5"), 1, 12, "pools: found \"5\"; expected a mapping"},
    {POOL("{}"), 1, 12, "pools: found no key \"rate\"; expected one"},
    {POOL("{rate: fast}"), 1, 19,
     "pools.rate \"fast\": no count; expected COUNT/[N]UNIT, such as 5/60s"},
    {POOL("{rate: 2000000000/s}"), 1, 19,
     "pools.rate: found \"2000000000/s\"; expected at most 1000000000 per second"},
    {POOL("{rate: 1/s, load: 0.5}"), 1, 24,
     "pools: found unknown key \"load\"; expected rate, load_max, reserve, scope, "
     "home"},
    {POOL("{rate: 1/s, load_max: 1.5}"), 1, 34,
     "pools.load_max: found \"1.5\"; expected a number above 0 and at most 1, such as 0.8"},
    {POOL("{rate: 1/s, load_max: 80%}"), 1, 34,
     "pools.load_max: found \"80%\"; expected a number above 0 and at most 1, such as 0.8"},
    {POOL("{rate: 1/s, load_max: 0}"), 1, 34,
     "pools.load_max: found \"0\"; expected a number above 0 and at most 1, such as 0.8"},
    {POOL("{rate: 1/s, reserve: 5}"), 1, 33, "pools.reserve: found \"5\"; expected 1% to 100%"},
    {POOL("{rate: 1/s, reserve: 101%}"), 1, 33,
     "pools.reserve: found \"101%\"; expected 1% to 100%"},
    {POOL("{rate: 1/s, scope: planet}"), 1, 31,
     "pools.scope: found \"planet\"; expected region, global"},
    {POOL("{rate: 1/s, home: eu}"), 1, 30,
     "pools.home: found without scope global, where it has no effect; expected it with scope "
     "global only"},
    {POOL("{rate: 1/s, home: eu, scope: region}"), 1, 30,
     "pools.home: found without scope global, where it has no effect; expected it with scope "
     "global only"},
    {POOL("{rate: 1/s, scope: global, home: ''}"), 1, 45,
     "pools.home: found \"\"; expected a text of 1 to 31 bytes"},
    {"pools: {p: {rate: 1/s}, p: {rate: 1/s}}\nrules: []\n", 1, 25,
     "pools: found key \"p\" twice; expected it once"},
};

/* Pools of capacity, and what a pool is made of. */
static void bad_pools_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(pools);
}

static const struct refusal tiers[] = {
    {"tiers: {}\n", 1, 1, "file: found no key \"rules\"; expected one"},
    {"{tiers: {free: 5}, rules: []}", 1, 16, "tiers: found \"5\"; expected a mapping"},
    {"{tiers: {free: {}}, rules: []}", 1, 16, "tiers: found no key \"limits\"; expected one"},
    {"{tiers: {free: {limits: [], key: [ip]}}, rules: []}", 1, 29,
     "tiers: found unknown key \"key\"; expected limits"},
    {"{tiers: {free: {limits: []}}, rules: []}", 1, 25,
     "limits: found a list of 0; expected a list of 1 to 8 elements"},
    {"{tiers: {f*: {limits: [{rate: 1/h}]}}, rules: []}", 1, 10,
     "tiers: found \"f*\"; expected the name of a tier, 1 to 64 letters, digits and _ . -"},
    {"{tiers: {\"\": {limits: [{rate: 1/h}]}}, rules: []}", 1, 10,
     "tiers: found \"\"; expected the name of a tier, 1 to 64 letters, digits and _ . -"},
    {"{tiers: {a: {limits: [{rate: 1/h}]}, a: {limits: [{rate: 1/h}]}}, rules: []}", 1, 38,
     "tiers: found key \"a\" twice; expected it once"},
    {"{tiers: {a: {limits: [{rate: 1/h}]}}, rules: [{name: tier a, action: block}]}", 1, 10,
     "tiers: found \"a\" beside a rule named \"tier a\"; expected that name for the tier alone"},
};

/* Tiers of customers, and the rules that they become. */
static void bad_tiers_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(tiers);
}

static const struct refusal rules[] = {
    {"rules: [5]", 1, 9, "rule: found \"5\"; expected a mapping"},
    {"rules: [{key: [u]}]", 1, 9, "rule: found no key \"name\"; expected one"},
    {"rules: [{name: \"\"}]", 1, 16, "name: found \"\"; expected a text of 1 to 128 bytes"},
    {"rules: [{name: [a]}]", 1, 16, "name: found a list; expected a text of 1 to 128 bytes"},
    {"rules: [{name: \"a\\nb\"}]", 1, 16,
     "name: found \"a?b\" with control characters; expected printable text"},
    {"rules:\n- {name: a, action: block}\n- {name: a, action: block}\n", 3, 10,
     "name: found a second rule \"a\"; expected unique names"},
    {"rules: [{name: user quota, action: block}]", 1, 16,
     "name: found \"user quota\", which limits of users and keys have; expected another one"},
    {"rules: [{name: api key, action: block}]", 1, 16,
     "name: found \"api key\", which limits of users and keys have; expected another one"},
    {"rules:\n- name: a\n  colour: red\n", 3, 3,
     "rule: found unknown key \"colour\"; expected " RULE_KEYS},
    {RULE("enabled: yes"), 2, 55, "enabled: found \"yes\"; expected true or false"},
    {RULE("shadow: \"true\""), 2, 54, "shadow: found \"true\"; expected true or false"},
    /* What is found is shown as it was written, but for what would end a line, and cut between two
     * characters. */
    {RULE("shadow: b\xc3\xa4\xe2\x82\xac"), 2, 54,
     "shadow: found \"b\xc3\xa4\xe2\x82\xac\"; expected true or false"},
    {RULE("shadow: \"a\\x85b\\u2028c\\x9b\\n\""), 2, 54,
     "shadow: found \"a?b?c??\"; expected true or false"},
    {RULE("shadow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa4"), 2, 54,
     "shadow: found \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\"; expected true or false"},
    {RULE("priority: high"), 2, 56,
     "priority: found \"high\"; expected a whole number from -1000000 to 1000000"},
    {RULE("priority: 1000001"), 2, 56,
     "priority: found \"1000001\"; expected a whole number from -1000000 to 1000000"},
    {RULE("priority: 1.5"), 2, 56,
     "priority: found \"1.5\"; expected a whole number from -1000000 to 1000000"},
    {RULE("missing: ignore"), 2, 55, "missing: found \"ignore\"; expected skip, deny"},
    {RULE("action: drop"), 2, 54, "action: found \"drop\"; expected throttle, allow, block"},
    {RULE("group: []"), 2, 53, "group: found a list; expected a text of 1 to 128 bytes"},
    {"rules: [{name: a, limits: [{rate: 5/h}]}]", 1, 9,
     "rule: found no key \"key\"; expected the list of attributes that are counted together"},
    {"rules: [{name: a, key: [u]}]", 1, 9,
     "rule: found no key \"limits\"; expected a list of 1 to 8 limits"},
    {"rules: [{name: a, key: [], limits: [{rate: 5/h}]}]", 1, 24,
     "key: found a list of 0; expected a list of 1 to 8 elements"},
    {"rules: [{name: a, key: u, limits: [{rate: 5/h}]}]", 1, 24,
     "key: found \"u\"; expected a list of 1 to 8 elements"},
    {"rules: [{name: a, key: [u, v, u], limits: [{rate: 5/h}]}]", 1, 31,
     "key: found attribute \"u\" twice; expected it once"},
    {"rules: [{name: a, key: [User], limits: [{rate: 5/h}]}]", 1, 25,
     "key: found \"User\"; expected an attribute name, 1 to 64 characters of a-z 0-9 _ . -"},
    {"rules: [{name: a, key: [a,b,c,d,e,f,g,h,i], limits: [{rate: 5/h}]}]", 1, 24,
     "key: found a list of 9; expected a list of 1 to 8 elements"},
    {RULE("ipv6_prefix: 48"), 2, 59,
     "ipv6_prefix: found without ip in key, where it has no effect; expected it with ip in key "
     "only"},
};

/* The keys of a rule that say what it is called and what it counts. */
static void bad_rules_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(rules);
}

static const struct refusal modes[] = {
    {RULE("mode: soft"), 2, 52,
     "mode: found soft without its bound; expected {soft: {exceed: 10%}}"},
    {RULE("mode: {soft: {}}"), 2, 59, "mode.soft: found no key \"exceed\"; expected one"},
    {RULE("mode: {soft: {above: 10%}}"), 2, 60,
     "mode.soft: found unknown key \"above\"; expected exceed"},
    {RULE("mode: {soft: {exceed: 10}}"), 2, 68,
     "mode.soft.exceed: found \"10\"; expected 1% to 1000%"},
    {RULE("mode: {soft: {exceed: 0%}}"), 2, 68,
     "mode.soft.exceed: found \"0%\"; expected 1% to 1000%"},
    {RULE("mode: {soft: {exceed: 1001%}}"), 2, 68,
     "mode.soft.exceed: found \"1001%\"; expected 1% to 1000%"},
    {RULE("mode: {hard: {exceed: 5%}}"), 2, 52,
     "mode: found a mapping; expected only soft and elastic to have one"},
    {LIMIT("{rate: 1/year, burst: 74}"), 2, 54,
     "limits.burst 74: takes more than 73 years to refill; expected at most 73"},
    {LIMIT("{rate: 5/h, mode: {soft: {exceed: much}}}"), 2, 66,
     "limits.mode.soft.exceed: found \"much\"; expected 1% to 1000%"},
    {LIMIT("{rate: 60000/h, algorithm: sliding_log, mode: {soft: {exceed: 10%}}}"), 2, 39,
     "limits.rate: exceeded by 10%: count 66000: sliding_log keeps every event, at most 65536"},
    {RULE("mode: elastic"), 2, 52,
     "mode: found elastic without its pool; expected {elastic: {pool: NAME}}"},
    {RULE("mode: {elastic: {}}"), 2, 62, "mode.elastic: found no key \"pool\"; expected one"},
    {RULE("mode: {elastic: {pool: p}}"), 2, 69,
     "mode.elastic.pool: found \"p\"; expected a name of the file's pools"},
    {ELASTIC("pool: q"), 3, 36,
     "mode.elastic.pool: found \"q\"; expected a name of the file's pools"},
    {ELASTIC("pool: p, share: 2"), 3, 39,
     "mode.elastic: found unknown key \"share\"; expected pool, ceiling, weight"},
    {ELASTIC("pool: p, ceiling: 3"), 3, 48,
     "mode.elastic.ceiling: found \"3\"; expected a factor above 1x and at most 1000x, such as 3x "
     "or 1.5x"},
    {ELASTIC("pool: p, ceiling: 1x"), 3, 48,
     "mode.elastic.ceiling: found \"1x\"; expected a factor above 1x and at most 1000x, such as 3x "
     "or 1.5x"},
    {ELASTIC("pool: p, ceiling: 1001x"), 3, 48,
     "mode.elastic.ceiling: found \"1001x\"; expected a factor above 1x and at most 1000x, such as "
     "3x or 1.5x"},
    {ELASTIC("pool: p, ceiling: 1.255x"), 3, 48,
     "mode.elastic.ceiling: found \"1.255x\"; expected a factor above 1x and at most 1000x, such "
     "as "
     "3x or 1.5x"},
    {ELASTIC("pool: p, weight: 0"), 3, 47,
     "mode.elastic.weight: found \"0\"; expected a whole number from 1 to 1000"},
    {"pools: {p: {rate: 1/s}}\nrules:\n- {name: a, key: [u], limits: [{rate: 5/h, mode: {elastic: "
     "{pool: p}}}], count_denied: true}\n",
     3, 88,
     "count_denied: found true with mode elastic, which lends what would be denied; expected "
     "false"},
    {ELASTIC_LIMIT("{count: 5, algorithm: concurrency}"), 3, 60,
     "limits: found concurrency with mode elastic; expected an algorithm that lets requests "
     "through "
     "at a rate"},
    {RULE("mode: harder"), 2, 52, "mode: found \"harder\"; expected hard, soft, elastic"},
};

/* What may pass above a limit: soft modes, and elastic ones beside their pools. */
static void bad_modes_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(modes);
}

static const struct refusal failures[] = {
    {RULE("class: vip"), 2, 53, "class: found \"vip\"; expected critical, normal, batch"},
    {RULE("consistency: any, count_denied: true"), 2, 78,
     "count_denied: found true with consistency any, where who denies does not ask who counts; "
     "expected false"},
    {RULE("consistency: any, mode: {soft: {exceed: 10%}}"), 2, 59,
     "consistency: found any, where nodes hold tokens of a limit, with one that gives none (mode "
     "soft or elastic: a holder cannot tell what is above the limit); expected one or quorum"},
    {"rules: [{name: a, action: block, consistency: quorum}]", 1, 47,
     "consistency: found quorum with action block, which counts nothing; expected it with action "
     "throttle only"},
    {"rules: [{name: a, action: allow, consistency: quorum}]", 1, 47,
     "consistency: found quorum with action allow, which counts nothing; expected it with action "
     "throttle only"},
    {RULE("consistency: all"), 2, 59, "consistency: found \"all\"; expected one, any, quorum"},
    {RULE("scope: planet"), 2, 53, "scope: found \"planet\"; expected region, global"},
    {"rules: [{name: a, action: block, scope: global}]", 1, 41,
     "scope: found global with action block, which counts nothing; expected it with action "
     "throttle only"},
    {RULE("scope: global, count_denied: true"), 2, 75,
     "count_denied: found true with scope global, where who denies does not ask who counts; "
     "expected false"},
    {RULE("scope: global, consistency: any"), 2, 74,
     "consistency: found any with scope global, where one node of a region holds its tokens; "
     "expected one or quorum"},
    {"rules: [{name: calls, key: [u], limits: [{rate: 5/h}, {rate: 5/s, algorithm: "
     "leaky_bucket}], scope: global}]",
     1, 101,
     "scope: rule calls: found global, where regions hold tokens of a limit, with one that gives "
     "none (leaky_bucket: a token of a lease has no turn in the queue); expected region"},
    {RULE("scope: global, mode: {soft: {exceed: 10%}}"), 2, 53,
     "scope: rule a: found global, where regions hold tokens of a limit, with one that gives none "
     "(mode soft or elastic: a holder cannot tell what is above the limit); expected region"},
    {RULE("home: eu"), 2, 52,
     "home: found without scope global, where it has no effect; expected it with scope global "
     "only"},
    {RULE("scope: region, wan_wait: 1s"), 2, 71,
     "wan_wait: found without scope global, where it has no effect; expected it with scope global "
     "only"},
    {RULE("scope: global, wan_wait: 11s"), 2, 71, "wan_wait: found \"11s\"; expected at most 10 s"},
    {RULE("scope: global, wan_wait: soon"), 2, 71,
     "wan_wait: duration \"soon\": expected a whole number and a unit, such as 250ms or 5m"},
    {RULE("on_failure: shut"), 2, 58, "on_failure: found \"shut\"; expected open, closed, local"},
    {RULE("on_failure: {local: {share: 0%}}"), 2, 74,
     "on_failure.local.share: found \"0%\"; expected 1% to 100%"},
    {RULE("on_failure: {local: {share: 101%}}"), 2, 74,
     "on_failure.local.share: found \"101%\"; expected 1% to 100%"},
    {RULE("on_failure: {local: {share: 1000%}}"), 2, 74,
     "on_failure.local.share: found \"1000%\"; expected 1% to 100%"},
    {RULE("on_failure: {local: {share: 50}}"), 2, 74,
     "on_failure.local.share: found \"50\"; expected 1% to 100%"},
    {RULE("on_failure: {local: {part: 50%}}"), 2, 67,
     "on_failure.local: found unknown key \"part\"; expected share"},
    {RULE("on_failure: {local: half}"), 2, 66,
     "on_failure.local: found \"half\"; expected a mapping"},
    {RULE("on_failure: {open: {share: 50%}}"), 2, 58,
     "on_failure: found a mapping; expected only local to have one"},
};

/* What holds when nodes fail, and for whom. */
static void bad_answers_to_failures_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(failures);
}

static const struct refusal responses[] = {
    {RULE("response: {status: 200}"), 2, 65,
     "response.status: found \"200\"; expected a whole number from 400 to 599"},
    {RULE("response: {retry_after: 60}"), 2, 70,
     "response.retry_after: duration \"60\": no unit; " UNITS},
    {RULE("response: {retry_after: 0s}"), 2, 70,
     "response.retry_after: duration \"0s\": is 0; expected more than 0, such as 250ms or 5m"},
    {RULE("response: {code: 429}"), 2, 57,
     "response: found unknown key \"code\"; expected status, message, retry_after"},
};

/* What a denied request is told. */
static void bad_responses_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(responses);
}

static const struct refusal limits[] = {
    {LIMIT(""), 2, 31, "limits: found a list of 0; expected a list of 1 to 8 elements"},
    {LIMIT("{burst: 5}"), 2, 32, "limits: found no key \"rate\"; expected one"},
    {LIMIT("{rate: 5}"), 2, 39,
     "limits.rate \"5\": no slash after the count; expected COUNT/[N]UNIT, such as 5/60s"},
    {LIMIT("{rate: 5/fortnight}"), 2, 39,
     "limits.rate \"5/fortnight\": unknown unit \"fortnight\"; " UNITS},
    {LIMIT("{rate: 0/s}"), 2, 39, "limits.rate \"0/s\": count is 0; expected at least 1"},
    {LIMIT("{rate: 5/h, algorithm: gcra}"), 2, 55,
     "limits.algorithm: found \"gcra\"; expected " ALGORITHMS},
    {LIMIT("{algorithm: concurrency}"), 2, 32,
     "limits: found concurrency with neither rate nor count; expected either count, how many may "
     "be in flight, or rate"},
    {LIMIT("{algorithm: concurrency, count: 5, rate: 5/s}"), 2, 32,
     "limits: found concurrency with both rate and count; expected either count, how many may be "
     "in flight, or rate"},
    {LIMIT("{algorithm: concurrency, rate: 5/s, timeout: 1s}"), 2, 77,
     "limits.timeout: found beside rate, which has one; expected it with count"},
    {LIMIT("{algorithm: concurrency, count: 4097}"), 2, 64,
     "limits.count: found \"4097\"; expected a whole number from 1 to 4096"},
    {LIMIT("{algorithm: concurrency, count: 5, timeout: 1us}"), 2, 76,
     "limits.timeout: window 1us: expected 1 ms to 10 years"},
    {LIMIT("{algorithm: concurrency, count: 5, timeout: 0s}"), 2, 76,
     "limits.timeout: duration \"0s\": is 0; expected more than 0, such as 250ms or 5m"},
    {LIMIT("{algorithm: concurrency, count: 5, timeout: soon}"), 2, 76,
     "limits.timeout: duration \"soon\": expected a whole number and a unit, such as 250ms or 5m"},
    {LIMIT("{algorithm: concurrency, rate: 5000/s}"), 2, 63,
     "limits.rate: count 5000: concurrency keeps every lease, at most 4096"},
    {LIMIT("{rate: 5/h, timeout: 30s}"), 2, 53,
     "limits.timeout: found with token_bucket; expected it with concurrency only"},
    {LIMIT("{rate: 5/h, count: 5}"), 2, 51,
     "limits.count: found with token_bucket; expected it with concurrency only"},
    {LIMIT("{rate: 5/h, buckets: 60}"), 2, 53,
     "limits.buckets: found with token_bucket; expected it with sliding_buckets only"},
    {LIMIT("{rate: 5/h, algorithm: sliding_buckets, buckets: 241}"), 2, 81,
     "limits.buckets: found \"241\"; expected a whole number from 2 to 240"},
    {LIMIT("{rate: 5/h, algorithm: sliding_log, burst: 3}"), 2, 75,
     "limits.burst: found with sliding_log; expected it with token_bucket and leaky_bucket only"},
    {LIMIT("{rate: 5/h, burst: 0}"), 2, 51,
     "limits.burst: found \"0\"; expected a whole number from 1 to 1000000000000000"},
    {LIMIT("{rate: 70000/h, algorithm: sliding_log}"), 2, 39,
     "limits.rate: count 70000: sliding_log keeps every event, at most 65536"},
};

/* What a limit is made of, by its algorithm. */
static void bad_limits_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(limits);
}

static const struct refusal calendars[] = {
    {LIMIT("{rate: 5/h, align: calendar}"), 2, 51,
     "limits.align: found with token_bucket; expected it with fixed_window only"},
    {LIMIT("{rate: 5/h, algorithm: fixed_window, align: second}"), 2, 76,
     "limits.align: found \"second\"; expected epoch, first, calendar"},
    {LIMIT("{rate: 5/h, algorithm: fixed_window, timezone: UTC}"), 2, 79,
     "limits.timezone: found without the calendar; expected it with align: calendar only"},
    {LIMIT("{rate: 5/24h, algorithm: fixed_window, align: calendar}"), 2, 39,
     "limits.rate: found a window that is no unit of the calendar; expected COUNT/minute, hour, "
     "day, week, month or year"},
    {LIMIT("{rate: 5/s, algorithm: fixed_window, align: calendar}"), 2, 39,
     "limits.rate: found a window that is no unit of the calendar; expected COUNT/minute, hour, "
     "day, week, month or year"},
    {LIMIT("{rate: 5/2d, algorithm: fixed_window, align: calendar, timezone: UTC}"), 2, 39,
     "limits.rate: found a window that is no unit of the calendar; expected COUNT/minute, hour, "
     "day, week, month or year"},
    {LIMIT("{rate: 5/month, algorithm: fixed_window}"), 2, 39,
     "limits.rate: found a fixed_window of a month, which has no length of its own; expected days, "
     "or align: calendar"},
    {LIMIT("{rate: 5/2w, algorithm: fixed_window, align: first}"), 2, 39,
     "limits.rate: found a fixed_window of a week, which has no length of its own; expected days, "
     "or align: calendar"},
    {LIMIT("{rate: 5/d, algorithm: fixed_window, align: calendar, timezone: Mars/Olympus}"), 2, 96,
     "limits.timezone: found \"Mars/Olympus\", which is no time zone known here; expected one such "
     "as Europe/Berlin"},
    {LIMIT("{rate: 5/d, algorithm: fixed_window, align: calendar, timezone: ../etc/passwd}"), 2, 96,
     "limits.timezone: found \"../etc/passwd\"; expected a name such as Europe/Berlin"},
    {LIMIT("{rate: 5/d, algorithm: fixed_window, align: calendar, timezone: \"+02\"}"), 2, 96,
     "limits.timezone: found \"+02\"; expected a name such as Europe/Berlin"},
};

/* Windows that follow the calendar, and time zones. */
static void bad_calendars_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(calendars);
}

static const struct refusal matches[] = {
    {RULE("match: [a]"), 2, 53, "match: found a list; expected a mapping"},
    {RULE("match: {API: x}"), 2, 54,
     "match: found \"API\"; expected an attribute name, 1 to 64 characters of a-z 0-9 _ . -"},
    {RULE("match: {api: x, api: y}"), 2, 62, "match: found key \"api\" twice; expected it once"},
    {RULE("match: {api: [x, y, x]}"), 2, 59, "match value: found \"x\" twice; expected it once"},
    {RULE("match: {api: []}"), 2, 59,
     "match value: found a list of 0; expected a list of 1 to 256 elements"},
    {RULE("match: {api: }"), 2, 59,
     "match value: found nothing; expected a text of 1 to 1024 bytes"},
    {RULE("match: {api: {a: b}}"), 2, 59,
     "match value: found a mapping; expected a text of 1 to 1024 bytes"},
    {RULE("match: {api: /a/**}"), 2, 59,
     "match value: found \"/a/**\" with two adjacent *; expected one (a trailing * is any rest, "
     "an inner * is one segment)"},
    {RULE("match: {ip: 10.0.0.0/33}"), 2, 58,
     "match.ip: found \"10.0.0.0/33\"; expected a block such as 10.0.0.0/8 or 2001:db8::/32"},
    {RULE("match: {ip: 10.0.0.0/}"), 2, 58,
     "match.ip: found \"10.0.0.0/\"; expected a block such as 10.0.0.0/8 or 2001:db8::/32"},
    {RULE("match: {ip: 10.0.0/08}"), 2, 58,
     "match.ip: found \"10.0.0/08\"; expected a block such as 10.0.0.0/8 or 2001:db8::/32"},
    {RULE("match: {ip: \"::ffff:10.0.0.0/95\"}"), 2, 58,
     "match.ip: found \"::ffff:10.0.0.0/95\"; expected a block such as 10.0.0.0/8 or "
     "2001:db8::/32"},
    {RULE("match: {ip: [10.1.2.3/8]}"), 2, 59,
     "match.ip: found \"10.1.2.3/8\", which sets bits behind its prefix; expected 10.0.0.0/8 or "
     "one address"},
    {RULE("match: {ip: \"2001:db8::1/64\"}"), 2, 58,
     "match.ip: found \"2001:db8::1/64\", which sets bits behind its prefix; expected "
     "2001:db8::/64 or one address"},
    {RULE("match: {ip: [10.0.0.0/8, \"::ffff:10.0.0.0/104\"]}"), 2, 58,
     "match value: found \"10.0.0.0/8\" twice; expected it once"},
    {RULE("match: {ip: [10.0.0.1, \" [::ffff:10.0.0.1]:80\"]}"), 2, 58,
     "match value: found \"10.0.0.1\" twice; expected it once"},
    {RULE("match: {ip: \"192.168.x.*\"}"), 2, 58,
     "match.ip: found \"192.168.x.*\", which matches no address; expected digits, a-f . : and *, "
     "or a block such as 10.0.0.0/8"},
    {RULE("match: {api: /a?b=*}"), 2, 59,
     "match.api: found \"/a?b=*\", but a path is compared without query and fragment; expected it "
     "without ? and #"},
    {RULE("match: {path: \"/a#b\"}"), 2, 60,
     "match.path: found \"/a#b\", but a path is compared without query and fragment; expected it "
     "without ? and #"},
    {RULE("match: {api: \"https://shop.example/a/*\"}"), 2, 59,
     "match.api: found \"https://shop.example/a/*\", but a path is compared without scheme and "
     "host; expected what stands behind them"},
    {RULE("match: {api: /a/*/}"), 2, 59,
     "match.api: found \"/a/*/\", which matches no path, for a path has no slash at its end; "
     "expected a pattern that ends otherwise"},
    {RULE("match: {ip: 10.0.0}"), 2, 58,
     "match.ip: found \"10.0.0\"; expected an IPv4 or IPv6 address, a block such as 10.0.0.0/8, or "
     "a pattern"},
};

#define KINDS(list) "attributes: " list "\nrules: []\n"

static const struct refusal kinds[] = {
    {KINDS("[api]"), 1, 13, "attributes: found a list; expected a mapping"},
    {KINDS("{API: path}"), 1, 14,
     "attributes: found \"API\"; expected an attribute name, 1 to 64 characters of a-z 0-9 _ . -"},
    {KINDS("{api: route}"), 1, 19,
     "attributes: found \"route\"; expected verbatim, address, path, upper"},
    {KINDS("{api: path, api: path}"), 1, 25,
     "attributes: found key \"api\" twice; expected it once"},
    {KINDS("{api: verbatim, user: upper}"), 1, 29,
     "attributes: found kind upper for user, whose records are found byte by byte; expected "
     "verbatim"},
    {KINDS("{tier: path}"), 1, 14,
     "attributes: found kind path for tier, whose records are found byte by byte; expected "
     "verbatim"},
    {"attributes: {client: address}\nrules: [{name: a, match: {client: here}, action: block}]\n", 2,
     35,
     "match.client: found \"here\"; expected an IPv4 or IPv6 address, a block such as 10.0.0.0/8, "
     "or a pattern"},
};

/* What `attributes` may say. */
static void bad_kinds_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(kinds);
}

/* What a rule may ask of a request. */
static void bad_matches_are_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(matches);
}

static const struct refusal misplaced[] = {
    {"rules: [{name: a, action: block, key: [u]}]", 1, 39,
     "key: found with action block, where it has no effect; expected it with action throttle "
     "only"},
    {"rules: [{name: a, action: allow, response: {}}]", 1, 44,
     "response: found with action allow, which never denies; expected it with action throttle "
     "or block"},
    {"rules: [{name: a, action: allow, shadow: true}]", 1, 42,
     "shadow: found true with action allow, which never denies; expected it with action "
     "throttle or block"},
};

/* Keys that would have no effect beside the action of their rule. */
static void what_has_no_effect_is_refused(void **state)
{
    (void)state;
    EXPECT_REFUSALS(misplaced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_document_is_refused),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(bad_pools_are_refused),
        cmocka_unit_test(bad_tiers_are_refused),
        cmocka_unit_test(bad_rules_are_refused),
        cmocka_unit_test(bad_modes_are_refused),
        cmocka_unit_test(bad_answers_to_failures_are_refused),
        cmocka_unit_test(bad_responses_are_refused),
        cmocka_unit_test(bad_limits_are_refused),
        cmocka_unit_test(bad_calendars_are_refused),
        cmocka_unit_test(bad_matches_are_refused),
        cmocka_unit_test(bad_kinds_are_refused),
        cmocka_unit_test(what_has_no_effect_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
