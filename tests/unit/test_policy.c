/* test_policy.c - compiling rules files: what is accepted, what is refused where, what is kept.
 *
 * The table of refused files holds the exact sentence and place of each, because people and
 * scripts read them. Every allocation of a compilation is failed in turn, and bytes of a good
 * file are overwritten at random: neither may leak, crash or be accepted half.
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
#include "node/policy/policy.h"
#include "node/policy/yaml_reader.h"

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
    "on_failure, action, count_denied, shadow, missing, response, ipv6_prefix"
#define ALGORITHMS                                                                                 \
    "token_bucket, fixed_window, sliding_window, sliding_log, "                                    \
    "leaky_bucket, sliding_buckets, concurrency"
#define UNITS "expected ns us ms s m min h d w month year"

static const struct refusal refusals[] = {
    {"", 1, 1, "file: found nothing; expected a mapping with \"rules\""},
    {"# only a comment\n", 1, 1, "file: found nothing; expected a mapping with \"rules\""},
    {"[]", 1, 1, "file: found a list; expected a mapping"},
    {"unmatched: deny\n", 1, 1, "file: found no key \"rules\"; expected one"},
    {"rules:\n", 1, 7, "rules: found nothing; expected a list of 0 to 10000 elements"},
    {"rules: {a: b}", 1, 8, "rules: found a mapping; expected a list of 0 to 10000 elements"},
    {"rule: []\n", 1, 1,
     "file: found unknown key \"rule\"; expected unmatched, rules, pools, tiers"},
    {"rules: []\nrules: []\n", 2, 1, "file: found key \"rules\" twice; expected it once"},
    {"rules: []\npools: [a]\n", 2, 8, "pools: found a list; expected a mapping"},
    {POOL("5"), 1, 12, "pools: found \"5\"; expected a mapping"},
    {POOL("{}"), 1, 12, "pools: found no key \"rate\"; expected one"},
    {POOL("{rate: fast}"), 1, 19,
     "pools.rate \"fast\": no count; expected COUNT/[N]UNIT, such as 5/60s"},
    {POOL("{rate: 2000000000/s}"), 1, 19,
     "pools.rate: found \"2000000000/s\"; expected at most 1000000000 per second"},
    {POOL("{rate: 1/s, load: 0.5}"), 1, 24,
     "pools: found unknown key \"load\"; expected rate, load_max, reserve"},
    {POOL("{rate: 1/s, load_max: 1.5}"), 1, 34,
     "pools.load_max: found \"1.5\"; expected a number above 0 and at most 1, such as 0.8"},
    {POOL("{rate: 1/s, load_max: 80%}"), 1, 34,
     "pools.load_max: found \"80%\"; expected a number above 0 and at most 1, such as 0.8"},
    {POOL("{rate: 1/s, load_max: 0}"), 1, 34,
     "pools.load_max: found \"0\"; expected a number above 0 and at most 1, such as 0.8"},
    {POOL("{rate: 1/s, reserve: 5}"), 1, 33, "pools.reserve: found \"5\"; expected 1% to 100%"},
    {POOL("{rate: 1/s, reserve: 101%}"), 1, 33,
     "pools.reserve: found \"101%\"; expected 1% to 100%"},
    {"pools: {p: {rate: 1/s}, p: {rate: 1/s}}\nrules: []\n", 1, 25,
     "pools: found key \"p\" twice; expected it once"},
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
    {"unmatched: maybe\nrules: []\n", 1, 12, "unmatched: found \"maybe\"; expected allow, deny"},
    {"rules: [5]", 1, 9, "rule: found \"5\"; expected a mapping"},
    {"rules: [{key: [u]}]", 1, 9, "rule: found no key \"name\"; expected one"},
    {"rules: [{name: \"\"}]", 1, 16, "name: found \"\"; expected a text of 1 to 128 bytes"},
    {"rules: [{name: [a]}]", 1, 16, "name: found a list; expected a text of 1 to 128 bytes"},
    {"rules: [{name: \"a\\nb\"}]", 1, 16,
     "name: found \"a?b\" with control characters; expected printable text"},
    {"rules:\n- {name: a, action: block}\n- {name: a, action: block}\n", 3, 10,
     "name: found a second rule \"a\"; expected unique names"},
    {"rules:\n- name: a\n  colour: red\n", 3, 3,
     "rule: found unknown key \"colour\"; expected " RULE_KEYS},
    {RULE("enabled: yes"), 2, 55, "enabled: found \"yes\"; expected true or false"},
    {RULE("shadow: \"true\""), 2, 54, "shadow: found \"true\"; expected true or false"},
    {RULE("priority: high"), 2, 56,
     "priority: found \"high\"; expected a whole number from -1000000 to 1000000"},
    {RULE("priority: 1000001"), 2, 56,
     "priority: found \"1000001\"; expected a whole number from -1000000 to 1000000"},
    {RULE("priority: 1.5"), 2, 56,
     "priority: found \"1.5\"; expected a whole number from -1000000 to 1000000"},
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
    {RULE("class: vip"), 2, 53, "class: found \"vip\"; expected critical, normal, batch"},
    {RULE("consistency: any"), 2, 59,
     "consistency: \"any\" is not supported by this version; expected one, quorum"},
    {"rules: [{name: a, action: block, consistency: quorum}]", 1, 47,
     "consistency: found quorum with action block, which counts nothing; expected it with action "
     "throttle only"},
    {"rules: [{name: a, action: allow, consistency: quorum}]", 1, 47,
     "consistency: found quorum with action allow, which counts nothing; expected it with action "
     "throttle only"},
    {RULE("consistency: all"), 2, 59, "consistency: found \"all\"; expected one, quorum"},
    {RULE("scope: global"), 2, 53,
     "scope: \"global\" is not supported by this version; expected region"},
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
    {RULE("missing: ignore"), 2, 55, "missing: found \"ignore\"; expected skip, deny"},
    {RULE("action: drop"), 2, 54, "action: found \"drop\"; expected throttle, allow, block"},
    {RULE("ipv6_prefix: 48"), 2, 59,
     "ipv6_prefix: found without ip in key, where it has no effect; expected it with ip in key "
     "only"},
    {RULE("response: {status: 200}"), 2, 65,
     "response.status: found \"200\"; expected a whole number from 400 to 599"},
    {RULE("response: {retry_after: 60}"), 2, 70,
     "response.retry_after: duration \"60\": no unit; " UNITS},
    {RULE("response: {retry_after: 0s}"), 2, 70,
     "response.retry_after: found \"0s\"; expected more than 0 and at most 10 years"},
    {RULE("response: {code: 429}"), 2, 57,
     "response: found unknown key \"code\"; expected status, message, retry_after"},
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
    {LIMIT(""), 2, 31, "limits: found a list of 0; expected a list of 1 to 8 elements"},
    {LIMIT("{burst: 5}"), 2, 32, "limits: found no key \"rate\"; expected one"},
    {LIMIT("{rate: 5}"), 2, 39, NULL},
    {LIMIT("{rate: 5/fortnight}"), 2, 39,
     "limits.rate \"5/fortnight\": unknown unit \"fortnight\"; " UNITS},
    {LIMIT("{rate: 0/s}"), 2, 39, NULL},
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
    {LIMIT("{algorithm: concurrency, count: 5, timeout: 1us}"), 2, 76, NULL},
    {LIMIT("{algorithm: concurrency, count: 5, timeout: soon}"), 2, 76, NULL},
    {LIMIT("{algorithm: concurrency, rate: 5000/s}"), 2, 63,
     "limits.rate: count 5000: concurrency keeps every lease, at most 4096"},
    {LIMIT("{rate: 5/h, timeout: 30s}"), 2, 53,
     "limits.timeout: found with token_bucket; expected it with concurrency only"},
    {LIMIT("{rate: 5/h, count: 5}"), 2, 51,
     "limits.count: found with token_bucket; expected it with concurrency only"},
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
    {LIMIT("{rate: 5/2d, algorithm: fixed_window, align: calendar, timezone: UTC}"), 2, 39, NULL},
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
     NULL},
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
    {RULE("match: {ip: 10.0.0}"), 2, 58,
     "match.ip: found \"10.0.0\"; expected an IPv4 or IPv6 address, a block such as 10.0.0.0/8, or "
     "a pattern"},
    {"rules: [{name: a, action: block, key: [u]}]", 1, 39,
     "key: found with action block, where it has no effect; expected it with action throttle "
     "only"},
    {"rules: [{name: a, action: allow, response: {}}]", 1, 44,
     "response: found with action allow, which never denies; expected it with action throttle "
     "or block"},
    {"rules: [{name: a, action: allow, shadow: true}]", 1, 42,
     "shadow: found true with action allow, which never denies; expected it with action "
     "throttle or block"},
    {"rules: [\n", 2, 1,
     "YAML syntax: did not find expected node content while parsing a flow node; expected "
     "well-formed YAML"},
    {"rules: []\n\ta: b\n", 2, 1, NULL},
    {"rules: \xff\xfe\n", 1, 8, NULL},
    {"# \xc3\xa4\xe2\x82\xac \xff\n", 1, 6, NULL}, /* characters, not bytes */
    {"#\r#\r\n# \xff\n", 3, 3, NULL},
    {"\xef\xbb\xbfrulez: 1\n", 1, 1, NULL}, /* the mark of UTF-8 is no column */
    {"rules: \"a\\0\"\n", 1, 8, "a NUL character; expected text without it"},
    {"rules: !!seq []\n", 1, 8, "a tag; expected values without tags"},
    {"rules: []\n---\nrules: []\n", 3, 1, "a second document; expected one document in a file"},
    {"rules: *x\n", 1, 8, "an unknown alias; expected a name set by &"},
    {"rules: &x [*x]\n", 1, 12, "an alias inside of what it names"},
    {"{[a]: b}\n", 1, 2, "a list or mapping as a key; expected a text as a key"},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 1, 13,
     "nested too deep; expected at most 12 lists and mappings inside each other"},
};
enum { REFUSALS = sizeof(refusals) / sizeof(refusals[0]) };
_Static_assert(REFUSALS >= 40, "the table covers every kind of refusal");

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;

    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, text);
    return policy;
}

/* Each bad file is refused whole, with its place and the exact sentence. */
static void bad_files_are_refused_with_place_and_reason(void **state)
{
    struct policy_error error;
    unsigned wrong = 0;

    (void)state;
    for (size_t i = 0; i < REFUSALS; i++) {
        const struct refusal *expected = &refusals[i];
        struct policy *policy = (struct policy *)&error;
        const int result =
            policy_compile(expected->text, strlen(expected->text), alloc_heap(), &policy, &error);
        assert_int_equal(result, TG_EINVALID);
        assert_null(policy);
        const bool same =
            error.line == expected->line && error.column == expected->column &&
            (expected->message == NULL ? strlen(error.message) > 20
                                       : strcmp(error.message, expected->message) == 0);
        if (!same) {
            wrong++;
            print_message("%s\n  got      %u:%u %s\n  expected %u:%u %s\n", expected->text,
                          error.line, error.column, error.message, expected->line, expected->column,
                          expected->message);
        }
    }
    assert_int_equal(wrong, 0);
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
    policy_free(&utc);
    policy_free(&epoch);
    policy_free(&policy);
}

/* The digest is blind to layout and sees every change of meaning. */
static void the_digest_follows_meaning_not_layout(void **state)
{
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
    };
    enum { DIFFERENT = sizeof(different) / sizeof(different[0]) };
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
        cmocka_unit_test(bad_files_are_refused_with_place_and_reason),
        cmocka_unit_test(a_rule_keeps_what_the_file_says),
        cmocka_unit_test(pools_and_elastic_modes_keep_what_the_file_says),
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
