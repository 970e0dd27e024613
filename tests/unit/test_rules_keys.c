/* test_rules_keys.c - every key of a rules file does something, and is refused when it is wrong.
 *
 * One row a key, in a table a subject: a file whose rules differ by it from what would be without
 * it, the requests that show the difference and what they are told; and a file in which it is
 * wrong, with the place and the sentence. The rows must name every key that the reader knows, which
 * is asked of the reader itself: a key that is added without a row fails the last test.
 *
 * Words that a key may have (modes, algorithms ...) are rows of the same kind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/policy/compile/policy_compile.h"
#include "tests/unit/support_shard.h"

enum { TRACE_LEN = 1024, REQUEST_LEN = 256, ATTRIBUTES = 6, TIMEOUT_MS = 2500, WAIT_MS = 900 };

/* Where a request is decided. */
enum place {
    HERE,    /* one node */
    GHOST,   /* by a node that never answers */
    HALF_OFF /* on two replicas, of which one never answers */
};

struct row {
    const char *level; /* the mapping that the key stands in, or the key whose word it is */
    const char *key;
    enum place place;
    const char *rules;
    const char *requests; /* separated by '|'; attributes by ' '; WAIT: time passes */
    const char *show; /* what is told of each request, joined by ':': o outcome r rule w window l
                         limit u used s status m message t retry and y delay in seconds d
                         degraded; of what only a contest shows, which is for test_pools.c: c
                         class x weight z load_max in millionths */
    const char *told; /* separated by '|' */
    const char *bad;
    uint32_t line;
    uint32_t column;
    const char *sentence;
};

#define FW            "algorithm: fixed_window"
#define R(fields)     "rules: [{name: r, key: [user], limits: [{rate: 1/h, " FW "}], " fields "}]"
#define LIMIT(fields) "rules: [{name: r, key: [user], limits: [{" fields "}]}]"
#define OLDER(fields) "{\"api\": {\"/a\": [{" fields "}]}}"
#define BAD(fields)   "rules: [{name: r, key: [u], limits: [{rate: 1/h}], " fields "}]"
#define BAD_L(fields) "rules: [{name: r, key: [u], limits: [{" fields "}]}]"
/* A zone of that kind, and a rule for one spelling of it. */
#define SPELT(kind, zone)                                                                          \
    "{attributes: {zone: " kind "}, rules: [{name: r, match: {zone: \"" zone                       \
    "\"}, key: [team], limits: [{rate: 1/h, " FW "}]}]}"
/* A pool, and a rule that borrows of it; of the requests the last is told whether anything is lent,
 * as soon as the pool can be known. */
#define POOLS(pool)                                                                                \
    "{pools: {p: {" pool "}}, rules: [{name: r, key: [user], limits: [{rate: 1/h, " FW             \
    "}], mode: {elastic: "
#define ELASTIC_END "}}]}"
/* All of a pool is kept for critical rules. */
#define RESERVED(class) POOLS("rate: 100/s, reserve: 100%") "{pool: p}}, class: " class "}]}"
/* One limit of a domain, without rules beside it. */
#define DOMAINS(fields)                                                                            \
    "rules: [], domains: [{domain: d, " fields                                                     \
    ", descriptors: [{key: k, rate_limit: {unit: day}}]}]"
#define BUSY      "user=a|user=a|WAIT|user=a"
#define BUSY_TOLD "allow|deny|elastic_borrowed"
#define IDLE_TOLD "allow|deny|deny"
#define A3        "user=a|user=a|user=a"

/* What stands beside the rules. */
static const struct row file_rows[] = {
    {"file", "unmatched", HERE, "{unmatched: deny, rules: []}", "user=a", "os", "no_rule:403",
     "{unmatched: no, rules: []}", 1, 13, "unmatched: found \"no\"; expected allow, deny"},
    {"unmatched", "allow", HERE, "{unmatched: allow, rules: []}", "user=a", "os", "no_rule:200",
     "{unmatched: allowed, rules: []}", 1, 13, "unmatched: found \"allowed\""},
    {"unmatched", "deny", HERE, "{unmatched: deny, rules: []}", "user=a", "os", "no_rule:403",
     "{unmatched: [deny], rules: []}", 1, 13, "unmatched: found a list"},
    {"file", "attributes", HERE, SPELT("path", "/a/"),
     "team=t zone=/a|team=t zone=//a/?x|team=t zone=/b", "o", "allow|deny|no_rule",
     "{attributes: 5, rules: []}", 1, 14, "attributes: found \"5\"; expected a mapping"},
    {"attributes", "path", HERE, SPELT("path", "/a/"),
     "team=t zone=/a|team=t zone=//a/?x|team=t zone=/b", "o", "allow|deny|no_rule",
     "{attributes: {api: paths}, rules: []}", 1, 20,
     "attributes: found \"paths\"; expected verbatim, address, path, upper"},
    {"attributes", "address", HERE, SPELT("address", "10.0.0.0/8"),
     "team=t zone=10.1.2.3:80|team=t zone=::ffff:10.1.2.3|team=t zone=none", "o",
     "allow|deny|no_rule", "{attributes: {user: address}, rules: []}", 1, 15,
     "attributes: found kind address for user"},
    {"attributes", "upper", HERE, SPELT("upper", "eu"),
     "team=t zone=Eu|team=t zone=eU|team=t zone=us", "o", "allow|deny|no_rule",
     "{attributes: {a: UPPER}, rules: []}", 1, 18, "attributes: found \"UPPER\""},
    {"attributes", "verbatim", HERE, SPELT("verbatim", "/a/"),
     "team=t zone=/a/|team=t zone=/a|team=t zone=/a/", "o", "allow|no_rule|deny",
     "{attributes: {a: [verbatim]}, rules: []}", 1, 18, "attributes: found a list"},
    {"file", "pools", HERE, POOLS("rate: 100/s") "{pool: p}" ELASTIC_END, BUSY, "o", BUSY_TOLD,
     "{pools: 5, rules: []}", 1, 9, "pools: found \"5\"; expected a mapping"},
    {"pools", "rate", HERE, POOLS("rate: 1/h") "{pool: p}" ELASTIC_END, BUSY, "o", IDLE_TOLD,
     "{pools: {p: {rate: soon}}, rules: []}", 1, 20, "pools.rate \"soon\""},
    {"pools", "load_max", HERE, POOLS("rate: 100/s, load_max: 0.5") "{pool: p}" ELASTIC_END, BUSY,
     "oz", "allow:500000|deny:500000|elastic_borrowed:500000",
     "{pools: {p: {rate: 1/s, load_max: 2}}, rules: []}", 1, 35, "pools.load_max: found \"2\""},
    {"pools", "reserve", HERE, POOLS("rate: 100/s, reserve: 100%") "{pool: p}" ELASTIC_END, BUSY,
     "o", IDLE_TOLD, "{pools: {p: {rate: 1/s, reserve: 5}}, rules: []}", 1, 34,
     "pools.reserve: found \"5\""},
    {"pools", "scope", HERE, POOLS("rate: 100/s, scope: global") "{pool: p}" ELASTIC_END, BUSY, "o",
     BUSY_TOLD, "{pools: {p: {rate: 1/s, scope: planet}}, rules: []}", 1, 32,
     "pools.scope: found \"planet\"; expected region"},
    {"pools.scope", "region", HERE, POOLS("rate: 100/s, scope: region") "{pool: p}" ELASTIC_END,
     BUSY, "o", BUSY_TOLD, "{pools: {p: {rate: 1/s, scope: {}}}, rules: []}", 1, 32,
     "pools.scope: found a mapping"},
    {"pools.scope", "global", HERE,
     POOLS("rate: 100/s, scope: global, home: far") "{pool: p}" ELASTIC_END, BUSY, "o", IDLE_TOLD,
     "{pools: {p: {rate: 1/s, scope: [global]}}, rules: []}", 1, 32, "pools.scope: found a list"},
    {"pools", "home", HERE, POOLS("rate: 100/s, scope: global, home: far") "{pool: p}" ELASTIC_END,
     BUSY, "o", IDLE_TOLD, "{pools: {p: {rate: 1/s, home: far}}, rules: []}", 1, 31,
     "pools.home: found without scope global"},
    {"file", "tiers", HERE,
     "{tiers: {free: {limits: [{rate: 1/h}]}, gold: {limits: [{rate: 2/h}]}}, rules: [{name: all, "
     "group: tier, priority: -1, key: [user], limits: [{rate: 1/h}]}]}",
     "user=a tier=free|user=a tier=free|user=b tier=free|user=a tier=gold|user=a|tier=free", "orl",
     "allow:tier free:1|deny:tier free:1|allow:tier free:1|allow:tier gold:2|deny:all:1|"
     "no_rule::0",
     "{tiers: [free], rules: []}", 1, 9, "tiers: found a list; expected a mapping"},
    {"tiers", "limits", HERE,
     "{tiers: {t: {limits: [{rate: 1/h, " FW "}, {rate: 3/d, " FW "}]}}, rules: []}",
     "user=a tier=t|user=a tier=t", "ow", "allow:1/h|deny:1/h",
     "{tiers: {t: {limits: {}}}, rules: []}", 1, 22, "limits: found a mapping; expected a list"},
    /* What descriptors do is for test_descriptor_find.c: attributes never meet them. */
    {"file", "domains", HERE, "{" DOMAINS("on_failure: local") "}", "descriptor=k=1|k=1", "o",
     "no_rule|no_rule", "{domains: 5, rules: []}", 1, 11, "domains: found \"5\"; expected a list"},
    {"file", "charge", HERE, "{charge: all, " DOMAINS("on_failure: local") "}", "k=1", "o",
     "no_rule", "{charge: none, rules: [], domains: []}", 1, 10,
     "charge: found \"none\"; expected each, all"},
    {"file", "merge_domains", HERE, "{merge_domains: true, " DOMAINS("on_failure: local") "}",
     "k=1", "o", "no_rule", "{merge_domains: 1, rules: [], domains: []}", 1, 17,
     "merge_domains: found \"1\"; expected true or false"},
    {"file", "rules", HERE, LIMIT("rate: 1/h"), "user=a|user=a", "o", "allow|deny", "rules: 1", 1,
     8, "rules: found \"1\"; expected a list"},
};

/* What a rule is, and whom it meets. */
static const struct row rule_rows[] = {
    {"rule", "name", HERE, "rules: [{name: first, key: [user], limits: [{rate: 1/h}]}]", "user=a",
     "r", "first", "rules: [{name: '', key: [u]}]", 1, 16, "name: found \"\"; expected a text"},
    {"rule", "enabled", HERE, R("enabled: false"), A3, "o", "no_rule|no_rule|no_rule",
     BAD("enabled: maybe"), 1, 61, "enabled: found \"maybe\"; expected true or false"},
    {"rule", "priority", HERE,
     "rules: [{name: low, match: {user: a}, action: block},"
     " {name: high, priority: 1, match: {user: a}, action: allow}]",
     "user=a", "or", "allow:high", BAD("priority: top"), 1, 62, "priority: found \"top\""},
    {"rule", "group", HERE,
     "rules: [{name: gold, group: g, priority: 1, match: {tier: gold}, key: [user],"
     " limits: [{rate: 9/h}]}, {name: all, group: g, key: [user], limits: [{rate: 1/h}]}]",
     "user=a tier=gold|user=a tier=gold|user=a|user=a", "or",
     "allow:gold|allow:gold|allow:all|deny:all", BAD("group: {}"), 1, 59, "group: found a mapping"},
    {"rule", "match", HERE, R("match: {api: /a/*, method: [GET, PUT]}"),
     "user=a api=/a/b method=PUT|user=a api=/a/b method=POST|user=a api=/b method=GET|user=a "
     "api=/a/",
     "o", "allow|no_rule|no_rule|no_rule", BAD("match: [api]"), 1, 59, "match: found a list"},
    {"rule", "key", HERE, "rules: [{name: r, key: [user, api], limits: [{rate: 1/h, " FW "}]}]",
     "user=a api=x|user=a api=x|user=a api=y|user=b api=x|user=a", "o",
     "allow|deny|allow|allow|no_rule", "rules: [{name: r, key: [], limits: []}]", 1, 24,
     "key: found a list of 0"},
    {"rule", "limits", HERE, LIMIT("rate: 2/h, " FW "}, {rate: 3/d, " FW), "user=a|user=a|user=a",
     "ow", "allow:2/h|allow:2/h|deny:2/h", "rules: [{name: r, key: [u], limits: {}}]", 1, 37,
     "limits: found a mapping"},
};

/* What may pass above a limit, and which traffic is served first. */
static const struct row mode_rows[] = {
    {"rule", "mode", HERE, R("mode: {soft: {exceed: 100%}}"), A3, "ol",
     "allow:1|soft_exceeded:1|deny:1", BAD("mode: strict"), 1, 58,
     "mode: found \"strict\"; expected hard, soft, elastic"},
    {"mode", "hard", HERE, R("mode: hard"), "user=a|user=a", "o", "allow|deny",
     BAD("mode: {hard: 1}"), 1, 58, "mode: found a mapping; expected only soft"},
    {"mode", "soft", HERE, R("mode: {soft: {exceed: 100%}}"), A3, "o", "allow|soft_exceeded|deny",
     BAD("mode: soft"), 1, 58, "mode: found soft without its bound"},
    {"mode", "elastic", HERE, POOLS("rate: 100/s") "{pool: p}" ELASTIC_END, BUSY, "o", BUSY_TOLD,
     BAD("mode: elastic"), 1, 58, "mode: found elastic without its pool"},
    {"mode.elastic", "pool", HERE, POOLS("rate: 100/s") "{pool: p}" ELASTIC_END, BUSY, "o",
     BUSY_TOLD, BAD("mode: {elastic: {pool: q}}"), 1, 75,
     "mode.elastic.pool: found \"q\"; expected a name"},
    {"mode.elastic", "ceiling", HERE, POOLS("rate: 100/s") "{pool: p, ceiling: 2x}" ELASTIC_END,
     BUSY, "o", IDLE_TOLD,
     "{pools: {q: {rate: 1/s}}, rules: [{name: r, mode: {elastic: {pool: q, "
     "ceiling: 1}}}]}",
     1, 80, "mode.elastic.ceiling: found \"1\""},
    {"mode.elastic", "weight", HERE, POOLS("rate: 100/s") "{pool: p, weight: 3}" ELASTIC_END, BUSY,
     "ox", "allow:3|deny:3|elastic_borrowed:3",
     "{pools: {q: {rate: 1/s}}, rules: [{name: r, mode: {elastic: {pool: q, "
     "weight: 0}}}]}",
     1, 79, "mode.elastic.weight: found \"0\""},
    {"mode.soft", "exceed", HERE, R("mode: {soft: {exceed: 200%}}"), A3 "|user=a", "ou",
     "allow:1|soft_exceeded:2|soft_exceeded:3|deny:3", BAD("mode: {soft: {exceed: lots}}"), 1, 74,
     "mode.soft.exceed: found \"lots\"; expected 1% to 1000%"},
    {"rule", "class", HERE, RESERVED("critical"), BUSY, "o", BUSY_TOLD, BAD("class: vip"), 1, 59,
     "class: found \"vip\"; expected critical, normal, batch"},
    {"class", "critical", HERE, RESERVED("critical"), BUSY, "o", BUSY_TOLD, BAD("class: CRITICAL"),
     1, 59, "class: found \"CRITICAL\""},
    {"class", "normal", HERE, RESERVED("normal"), BUSY, "o", IDLE_TOLD, BAD("class: [normal]"), 1,
     59, "class: found a list"},
    {"class", "batch", HERE, RESERVED("batch"), BUSY, "oc", "allow:batch|deny:batch|deny:batch",
     BAD("class: {batch: 1}"), 1, 59, "class: found a mapping"},
};

/* What holds when nodes fail. */
static const struct row failure_rows[] = {
    {"rule", "consistency", HALF_OFF, R("consistency: quorum"), "user=a", "od", "error:1",
     BAD("consistency: all"), 1, 65, "consistency: found \"all\"; expected one, any, quorum"},
    {"consistency", "one", HALF_OFF, R("consistency: one"), "user=a", "od", "allow:1",
     BAD("consistency: two"), 1, 65, "consistency: found \"two\""},
    {"consistency", "any", HALF_OFF, R("consistency: any"), "user=a|user=a", "o", "allow|deny",
     "rules: [{name: r, key: [u], limits: [{rate: 1/h, algorithm: leaky_bucket}], consistency: "
     "any}]",
     1, 90, "consistency: found any, where nodes hold tokens of a limit, with one that gives none"},
    {"consistency", "quorum", HALF_OFF, R("consistency: quorum, on_failure: open"), "user=a", "od",
     "allow:1", "rules: [{name: r, action: block, consistency: quorum}]", 1, 47,
     "consistency: found quorum with action block"},
    {"rule", "scope", HERE, R("scope: region"), "user=a", "o", "allow", BAD("scope: planet"), 1, 59,
     "scope: found \"planet\"; expected region"},
    {"scope", "region", HERE, R("scope: region"), "user=a", "o", "allow", BAD("scope: {}"), 1, 59,
     "scope: found a mapping"},
    {"scope", "global", HERE, R("scope: global, home: far"), "user=a", "osd", "error:503:1",
     BAD("scope: global, consistency: any"), 1, 80, "consistency: found any with scope global"},
    {"rule", "home", HERE, R("scope: global, home: far, on_failure: open"), "user=a", "od",
     "allow:1", BAD("home: far"), 1, 58, "home: found without scope global"},
    {"rule", "wan_wait", HERE, R("scope: global, wan_wait: 0s"), "user=a|user=a", "o", "allow|deny",
     BAD("wan_wait: 1s"), 1, 62, "wan_wait: found without scope global"},
    {"rule", "on_failure", GHOST, R("on_failure: open"), "user=GHOST", "osd", "allow:200:1",
     BAD("on_failure: shut"), 1, 64, "on_failure: found \"shut\"; expected open, closed, local"},
    {"on_failure", "open", GHOST, R("on_failure: open"), "user=GHOST|user=GHOST", "od",
     "allow:1|allow:1", BAD("on_failure: {open: {}}"), 1, 64, "on_failure: found a mapping"},
    {"on_failure", "closed", GHOST, R("on_failure: closed"), "user=GHOST", "osd", "error:503:1",
     BAD("on_failure: {closed: 1}"), 1, 64, "on_failure: found a mapping"},
    {"on_failure", "local", GHOST, R("on_failure: local"), "user=GHOST|user=GHOST", "od",
     "allow:1|deny:1", BAD("on_failure: {local: 50%}"), 1, 72,
     "on_failure.local: found \"50%\"; expected a mapping"},
    {"on_failure.local", "share", GHOST,
     "rules: [{name: r, key: [user], limits: [{rate: 4/h, " FW "}],"
     " on_failure: {local: {share: 50%}}}]",
     "user=GHOST|user=GHOST|user=GHOST", "ol", "allow:2|allow:2|deny:2",
     BAD("on_failure: {local: {share: half}}"), 1, 80,
     "on_failure.local.share: found \"half\"; expected 1% to 100%"},
};

/* What is done and said. */
static const struct row action_rows[] = {
    {"rule", "action", HERE, "rules: [{name: r, match: {user: a}, action: block}]", "user=a|user=b",
     "osr", "blocked:403:r|no_rule:200:", BAD("action: drop"), 1, 60,
     "action: found \"drop\"; expected throttle, allow, block"},
    {"action", "throttle", HERE, R("action: throttle"), "user=a|user=a", "o", "allow|deny",
     "rules: [{name: r, action: throttle}]", 1, 9, "rule: found no key \"key\""},
    {"action", "allow", HERE,
     "rules: [{name: r, priority: 1, match: {user: a}, action: allow},"
     " {name: all, key: [user], limits: [{rate: 1/h}]}]",
     "user=a|user=a|user=b|user=b", "or", "allow:r|allow:r|allow:all|deny:all",
     "rules: [{name: r, action: allow, key: [u]}]", 1, 39, "key: found with action allow"},
    {"action", "block", HERE, "rules: [{name: r, match: {user: a}, action: block}]", "user=a", "o",
     "blocked", "rules: [{name: r, action: block, missing: skip}]", 1, 43,
     "missing: found with action block"},
    {"rule", "count_denied", HERE, R("count_denied: true"), "user=a|user=a", "ou", "allow:1|deny:2",
     BAD("count_denied: 1"), 1, 66, "count_denied: found \"1\"; expected true or false"},
    {"rule", "shadow", HERE, R("shadow: true"), "user=a|user=a", "os",
     "allow:200|shadow_denied:200", BAD("shadow: 'true'"), 1, 60,
     "shadow: found \"true\"; expected true or false"},
    {"rule", "missing", HERE, R("missing: deny"), "api=x", "ors", "deny:r:429",
     BAD("missing: ignore"), 1, 61, "missing: found \"ignore\"; expected skip, deny"},
    {"missing", "skip", HERE, R("missing: skip"), "api=x", "o", "no_rule", BAD("missing: skipped"),
     1, 61, "missing: found \"skipped\""},
    {"missing", "deny", HERE, R("missing: deny"), "api=x|user=a", "o", "deny|allow",
     BAD("missing: [deny]"), 1, 61, "missing: found a list"},
    {"rule", "response", HERE, R("response: {status: 420}"), "user=a|user=a", "s", "200|420",
     BAD("response: 420"), 1, 62, "response: found \"420\"; expected a mapping"},
    {"response", "status", HERE, R("response: {status: 503}"), "user=a|user=a", "s", "200|503",
     BAD("response: {status: 200}"), 1, 71,
     "response.status: found \"200\"; expected a whole number from 400 to 599"},
    {"response", "message", HERE, R("response: {message: SLOW_DOWN}"), "user=a|user=a", "m",
     "|SLOW_DOWN", BAD("response: {message: \"a\\nb\"}"), 1, 72,
     "response.message: found \"a?b\" with control characters"},
    {"response", "retry_after", HERE, R("response: {retry_after: 60s}"), "user=a|user=a", "t",
     "0|60", BAD("response: {retry_after: 60}"), 1, 76, "response.retry_after: duration \"60\""},
    {"rule", "ipv6_prefix", HERE,
     "rules: [{name: r, key: [ip], ipv6_prefix: 128, limits: [{rate: 1/h}]},"
     " {name: s, key: [ip, user], limits: [{rate: 1/h}]}]",
     "ip=2001:db8::1|ip=2001:db8::2|ip=2001:db8::3 user=u|ip=2001:db8::4 user=u|"
     "ip=2001:db8:0:1::4 user=u",
     "or", "allow:r|allow:r|allow:r|deny:s|allow:r",
     "rules: [{name: r, key: [ip], ipv6_prefix: 0, limits: [{rate: 1/h}]}]", 1, 43,
     "ipv6_prefix: found \"0\"; expected a whole number from 1 to 128"},
};

/* What a limit counts, and how. */
static const struct row limit_rows[] = {
    {"limits", "rate", HERE, LIMIT("rate: 2/30m, " FW), A3, "ow",
     "allow:2/30m|allow:2/30m|deny:2/30m", BAD_L("rate: 5"), 1, 45, "limits.rate \"5\""},
    {"limits", "algorithm", HERE, LIMIT("rate: 2/h, algorithm: sliding_log"), A3, "ot",
     "allow:0|allow:0|deny:3600", BAD_L("rate: 1/h, algorithm: gcra"), 1, 61,
     "limits.algorithm: found \"gcra\"; expected token_bucket"},
    {"limits.algorithm", "token_bucket", HERE, LIMIT("rate: 2/h, algorithm: token_bucket"), A3,
     "ot", "allow:0|allow:0|deny:1800", BAD_L("rate: 1/h, algorithm: TOKEN_BUCKET"), 1, 61,
     "limits.algorithm: found \"TOKEN_BUCKET\""},
    /* The clock of the test stands 13 min 20 s behind a full hour. */
    {"limits.algorithm", "fixed_window", HERE, LIMIT("rate: 2/h, algorithm: fixed_window"), A3,
     "ot", "allow:0|allow:0|deny:2800", BAD_L("rate: 1/h, algorithm: fixed"), 1, 61,
     "limits.algorithm: found \"fixed\""},
    {"limits.algorithm", "sliding_window", HERE, LIMIT("rate: 2/h, algorithm: sliding_window"), A3,
     "ot", "allow:0|allow:0|deny:4600", BAD_L("rate: 1/h, algorithm: sliding"), 1, 61,
     "limits.algorithm: found \"sliding\""},
    {"limits.algorithm", "sliding_log", HERE, LIMIT("rate: 2/h, algorithm: sliding_log"), A3, "ot",
     "allow:0|allow:0|deny:3600", BAD_L("rate: 70000/h, algorithm: sliding_log"), 1, 45,
     "limits.rate: count 70000: sliding_log keeps every event, at most 65536"},
    {"limits.algorithm", "leaky_bucket", HERE, LIMIT("rate: 2/h, algorithm: leaky_bucket"), A3,
     "oyt", "allow:0:0|allow:1800:0|deny:0:1800", BAD_L("rate: 1/h, algorithm: leaky"), 1, 61,
     "limits.algorithm: found \"leaky\""},
    {"limits.algorithm", "sliding_buckets", HERE, LIMIT("rate: 2/h, algorithm: sliding_buckets"),
     A3, "ot", "allow:0|allow:0|deny:3640", BAD_L("rate: 1/h, algorithm: buckets"), 1, 61,
     "limits.algorithm: found \"buckets\""},
    {"limits", "buckets", HERE, LIMIT("rate: 2/h, algorithm: sliding_buckets, buckets: 2"), A3,
     "ot", "allow:0|allow:0|deny:4600", BAD_L("rate: 1/h, algorithm: sliding_buckets, buckets: 1"),
     1, 87, "limits.buckets: found \"1\"; expected a whole number from 2 to 240"},
    {"limits.algorithm", "concurrency", HERE, LIMIT("count: 2, algorithm: concurrency"), A3, "ol",
     "allow:2|allow:2|deny:2", BAD_L("algorithm: concurrency"), 1, 38,
     "limits: found concurrency with neither rate nor count"},
    {"limits", "count", HERE, LIMIT("count: 1, algorithm: concurrency"), "user=a|user=a", "o",
     "allow|deny", BAD_L("count: 0, algorithm: concurrency"), 1, 46, "limits.count: found \"0\""},
    {"limits", "timeout", HERE, LIMIT("count: 1, algorithm: concurrency, timeout: 7s"),
     "user=a|user=a", "ot", "allow:0|deny:7", BAD_L("count: 1, algorithm: concurrency, timeout: 7"),
     1, 82, "limits.timeout: duration \"7\""},
    {"limits", "burst", HERE, LIMIT("rate: 1/h, burst: 2"), A3, "ol", "allow:2|allow:2|deny:2",
     BAD_L("rate: 1/h, burst: 0"), 1, 57, "limits.burst: found \"0\"; expected a whole number"},
    {"limits", "mode", HERE,
     "rules: [{name: r, key: [user], mode: {soft: {exceed: 100%}},"
     " limits: [{rate: 2/h, " FW ", mode: hard}, {rate: 1/d, " FW "}]}]",
     A3, "ow", "allow:1/d|soft_exceeded:1/d|deny:1/d", BAD_L("rate: 1/h, mode: weak"), 1, 56,
     "limits.mode: found \"weak\"; expected hard, soft, elastic"},
};

/* Where windows begin. The test begins on a Tuesday at 22:13:20 in UTC, and at 07:13:20 the next
 * day in Tokyo. */
static const struct row window_rows[] = {
    {"limits", "align", HERE, LIMIT("rate: 2/h, " FW ", align: first"), A3, "ot",
     "allow:0|allow:0|deny:3600", BAD_L("rate: 1/h, " FW ", align: today"), 1, 82,
     "limits.align: found \"today\"; expected epoch, first, calendar"},
    {"limits.align", "epoch", HERE, LIMIT("rate: 2/h, " FW ", align: epoch"), A3, "ot",
     "allow:0|allow:0|deny:2800", BAD_L("rate: 1/month, " FW ", align: epoch"), 1, 45,
     "limits.rate: found a fixed_window of a month"},
    {"limits.align", "first", HERE, LIMIT("rate: 2/5h, " FW ", align: first"), A3, "ot",
     "allow:0|allow:0|deny:18000", BAD_L("rate: 1/w, " FW ", align: first"), 1, 45,
     "limits.rate: found a fixed_window of a week"},
    {"limits.align", "calendar", HERE, LIMIT("rate: 2/day, " FW ", align: calendar"), A3, "ot",
     "allow:0|allow:0|deny:6400", BAD_L("rate: 1/2d, " FW ", align: calendar"), 1, 45,
     "limits.rate: found a window that is no unit of the calendar"},
    {"limits", "timezone", HERE,
     LIMIT("rate: 2/day, " FW ", align: calendar, timezone: Asia/Tokyo"), A3, "ot",
     "allow:0|allow:0|deny:60400",
     BAD_L("rate: 1/d, " FW ", align: calendar, timezone: Mars/Olympus"), 1, 102,
     "limits.timezone: found \"Mars/Olympus\", which is no time zone known here"},
};

/* The older form. */
static const struct row older_rows[] = {
    {"older", "api", HERE, OLDER("\"caller\": \"user\", \"request-count\": 1, \"time\": 60"),
     "api=/a user=u|api=/a user=u|api=/ab user=u", "orm",
     "allow:/a:user:|deny:/a:user:REQUEST_LIMIT_REACHED|no_rule::", "{\"api\": 1}", 1, 9,
     "api: found \"1\"; expected a mapping"},
    {"older.limit", "caller", HERE, OLDER("\"caller\": \"ip\", \"request-count\": 1, \"time\": 60"),
     "api=/a ip=10.0.0.1 user=u|api=/a ip=10.0.0.2 user=u|api=/a ip=10.0.0.1 user=v", "o",
     "allow|allow|deny", OLDER("\"caller\": [], \"request-count\": 1, \"time\": 60"), 1, 28,
     "caller: found a list; expected an attribute name"},
    {"older.limit", "request-count", HERE,
     OLDER("\"caller\": \"user\", \"request-count\": 2, \"time\": 60"),
     "api=/a user=u|api=/a user=u|api=/a user=u", "ol", "allow:2|allow:2|deny:2",
     OLDER("\"caller\": \"user\", \"request-count\": -2, \"time\": 60"), 1, 53,
     "request-count: found \"-2\"; expected a whole number from 1 to 65536"},
    {"older.limit", "time", HERE, OLDER("\"caller\": \"user\", \"request-count\": 1, \"time\": 2"),
     "api=/a user=u|api=/a user=u", "owt", "allow:1/2m:0|deny:1/2m:120",
     OLDER("\"caller\": \"user\", \"request-count\": 1, \"time\": \"1h\""), 1, 64,
     "time: found \"1h\"; expected a whole number from 1 to 5270400"},
};

#define TABLE(rows)                                                                                \
    {                                                                                              \
        rows, sizeof(rows) / sizeof((rows)[0])                                                     \
    }
static const struct {
    const struct row *rows;
    size_t count;
} tables[] = {
    TABLE(file_rows),   TABLE(rule_rows),  TABLE(mode_rows),   TABLE(failure_rows),
    TABLE(action_rows), TABLE(limit_rows), TABLE(window_rows), TABLE(older_rows),
};
enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

/* Row `i` of all tables, NULL behind the last. */
static const struct row *row_at(size_t i)
{
    for (size_t t = 0; t < TABLES; i -= tables[t].count, t++)
        if (i < tables[t].count)
            return &tables[t].rows[i];
    return NULL;
}

/* How the reader is asked what it knows: a file with something that it cannot know. Its answer ends
 * with the list. */
static const struct {
    const char *level;
    const char *file;
} levels[] = {
    {"file", "{rules: [], nonsense: 1}"},
    {"unmatched", "{unmatched: nonsense, rules: []}"},
    {"rule", BAD("nonsense: 1")},
    {"mode", BAD("mode: nonsense")},
    {"mode.soft", BAD("mode: {soft: {nonsense: 1}}")},
    {"mode.elastic", BAD("mode: {elastic: {nonsense: 1}}")},
    {"attributes", "{attributes: {api: nonsense}, rules: []}"},
    {"pools", "{pools: {p: {rate: 1/s, nonsense: 1}}, rules: []}"},
    {"pools.scope", "{pools: {p: {rate: 1/s, scope: nonsense}}, rules: []}"},
    {"tiers", "{tiers: {t: {nonsense: 1}}, rules: []}"},
    {"class", BAD("class: nonsense")},
    {"consistency", BAD("consistency: nonsense")},
    {"scope", BAD("scope: nonsense")},
    {"on_failure", BAD("on_failure: nonsense")},
    {"on_failure.local", BAD("on_failure: {local: {nonsense: 1}}")},
    {"action", BAD("action: nonsense")},
    {"missing", BAD("missing: nonsense")},
    {"response", BAD("response: {nonsense: 1}")},
    {"limits", BAD_L("nonsense: 1")},
    {"limits.algorithm", BAD_L("rate: 1/h, algorithm: nonsense")},
    {"limits.align", BAD_L("rate: 1/h, " FW ", align: nonsense")},
    {"older", "{\"api\": {}, \"nonsense\": 1}"},
    {"older.limit", OLDER("\"nonsense\": 1")},
};
enum { LEVELS = sizeof(levels) / sizeof(levels[0]) };

/* ---- the effect ------------------------------------------------------------------------------ */

static struct lab *lab_at(enum place place)
{
    struct lab *lab = place == HERE ? lab_new(1, 1, 1) : lab_new(2, 1, place == GHOST ? 1 : 2);
    lab_start(lab, 0);
    lab_run(lab, 50 * LAB_MS);
    return lab;
}

static void add_field(char *trace, const char *format, ...)
{
    va_list arguments;
    const size_t len = strlen(trace);
    va_start(arguments, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)vsnprintf(trace + len, TRACE_LEN - len, format, arguments);
#pragma GCC diagnostic pop
    va_end(arguments);
}

static void add_text(char *trace, struct wire_text text)
{
    add_field(trace, "%.*s", (int)text.len, text.data == NULL ? "" : text.data);
}

static void add_decision(char *trace, const struct policy *policy,
                         const struct wire_decision *decision, const char *show)
{
    for (size_t i = 0; show[i] != '\0'; i++) {
        add_field(trace, "%s", i == 0 ? "" : ":");
        switch (show[i]) {
        case 'o':
            add_field(trace, "%s", outcome_name(decision->outcome));
            break;
        case 'r':
            add_text(trace, decision->source->rule);
            break;
        case 'w':
            add_text(trace, decision->source->window);
            break;
        case 'm':
            add_text(trace, decision->source->message);
            break;
        case 'l':
            add_field(trace, "%llu", (unsigned long long)decision->limit);
            break;
        case 'u':
            add_field(trace, "%llu", (unsigned long long)decision->used);
            break;
        case 's':
            add_field(trace, "%u", decision->source->status);
            break;
        case 't':
            add_field(trace, "%lld", (long long)(decision->retry_after_ms + 999) / 1000);
            break;
        case 'y':
            add_field(trace, "%lld", (long long)(decision->delay_ms + 999) / 1000);
            break;
        case 'c':
            add_field(trace, "%s", policy_class_name(policy_rule_at(policy, 0)->class));
            break;
        case 'x':
            add_field(trace, "%u", (unsigned)policy_rule_at(policy, 0)->limits[0].weight);
            break;
        case 'z':
            add_field(trace, "%u", policy_pool_at(policy, 0)->load_max_ppm);
            break;
        case 'd':
            add_field(trace, "%d", decision->degraded);
            break;
        default:
            fail_msg("show '%c'?", show[i]);
        }
    }
}

/* Asks with the attributes of `words`, which is cut into pieces. */
static struct wire_decision ask(struct lab *lab, char *words)
{
    const char *attributes[ATTRIBUTES + 1] = {NULL};
    static char ghost[LAB_KEY_LEN];
    size_t count = 0;
    for (char *word = strtok_r(words, " ", &words); word != NULL;
         word = strtok_r(NULL, " ", &words)) {
        assert_true(count < ATTRIBUTES);
        attributes[count++] = word;
        if (strcmp(word, "user=GHOST") != 0)
            continue;
        lab_attribute(lab, "r", "user", 1, ghost);
        attributes[count - 1] = ghost;
    }
    lab_ask_attributes(lab, 1, attributes);
    return lab_answer(lab, lab_send(lab, 0, TIMEOUT_MS), 0);
}

/* Each key makes the difference that its row shows. */
static void every_key_has_its_effect(void **state)
{
    unsigned wrong = 0;
    (void)state;
    const struct row *row;
    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        struct lab *lab = lab_at(row->place);
        char trace[TRACE_LEN] = "";
        char requests[TRACE_LEN];
        char *rest = requests;
        const struct policy *policy = lab_rules(lab, row->rules);
        (void)snprintf(requests, sizeof requests, "%s", row->requests);
        for (char *one = strtok_r(rest, "|", &rest); one != NULL;
             one = strtok_r(NULL, "|", &rest)) {
            if (strcmp(one, "WAIT") == 0) {
                lab_run(lab, WAIT_MS * LAB_MS);
                continue;
            }
            const struct wire_decision decision = ask(lab, one);
            add_field(trace, "%s", one == requests ? "" : "|");
            add_decision(trace, policy, &decision, row->show);
        }
        if (strcmp(trace, row->told) != 0) {
            wrong++;
            print_message("%s: %s\n  got      %s\n  expected %s\n", row->level, row->key, trace,
                          row->told);
        }
        lab_free(lab);
    }
    assert_int_equal(wrong, 0);
}

/* ---- the error ------------------------------------------------------------------------------- */

static void refused(const char *text, struct policy_error *error)
{
    struct policy *policy = NULL;
    if (policy_compile(text, strlen(text), alloc_heap(), &policy, error) != TG_EINVALID)
        fail_msg("was not refused: %s", text);
}

/* Each key is refused when it is wrong, at its place, by its name, with what was found. */
static void every_key_has_its_error(void **state)
{
    unsigned wrong = 0;
    (void)state;
    const struct row *row;
    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        struct policy_error error;
        refused(row->bad, &error);
        if (error.line == row->line && error.column == row->column &&
            strncmp(error.message, row->sentence, strlen(row->sentence)) == 0)
            continue;
        wrong++;
        print_message("%s: %s: %s\n  got      %u:%u %s\n  expected %u:%u %s\n", row->level,
                      row->key, row->bad, error.line, error.column, error.message, row->line,
                      row->column, row->sentence);
    }
    assert_int_equal(wrong, 0);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct row *row_of(const char *level, const char *key)
{
    const struct row *row;
    for (size_t i = 0; (row = row_at(i)) != NULL; i++)
        if (strcmp(row->level, level) == 0 && strcmp(row->key, key) == 0)
            return row;
    return NULL;
}

/* Whether the comma-separated list has the word. */
static bool lists(const char *list, const char *word)
{
    const size_t len = strlen(word);
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* What the reader says that it expected, where it was given something that it cannot know. */
static const char *known_at(size_t level, struct policy_error *error)
{
    static const char marker[] = "; expected ";
    refused(levels[level].file, error);
    assert_non_null(strstr(error->message, "nonsense"));
    const char *known = strstr(error->message, marker);
    assert_non_null(known);
    return known + strlen(marker);
}

/* A key or word that the reader knows has a row, and a row is of something that it knows. */
static void every_key_that_the_reader_knows_has_a_row(void **state)
{
    unsigned named = 0;
    (void)state;
    for (size_t i = 0; i < LEVELS; i++) {
        struct policy_error error;
        char list[sizeof error.message];
        char *rest = list;
        const char *known = known_at(i, &error);
        (void)snprintf(list, sizeof list, "%s", known);
        for (char *key = strtok_r(rest, ", ", &rest); key != NULL;
             key = strtok_r(NULL, ", ", &rest)) {
            if (row_of(levels[i].level, key) == NULL)
                fail_msg("%s: key \"%s\" has no row: add its effect and its error to the table",
                         levels[i].level, key);
        }
        const struct row *row;
        for (size_t r = 0; (row = row_at(r)) != NULL; r++) {
            if (strcmp(row->level, levels[i].level) != 0)
                continue;
            named++;
            if (!lists(known, row->key))
                fail_msg("%s: the reader does not know \"%s\"", row->level, row->key);
        }
    }
    assert_null(row_at(named));
    assert_non_null(row_at(named - 1)); /* no row is of a level that is not asked for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_has_its_effect),
        cmocka_unit_test(every_key_has_its_error),
        cmocka_unit_test(every_key_that_the_reader_knows_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
