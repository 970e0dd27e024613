/* rule_keys.c - every key of a rules file once; see rule_keys.h. */
#include "node/policy/readers/rule_keys.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/limit.h"
#include "base/quantity.h"
#include "base/vocabulary.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/model/policy.h"

enum { PRIORITY_MAX = 1000000, STATUS_MIN = 400, STATUS_MAX = 599, PREFIX_MAX = 128 };
enum { OLDER_ENTRIES_MAX = 256, PERCENT_ALL = 100 };
#define MINUTES_MAX ((int64_t)(LIMIT_WINDOW_MAX_NS / UINT64_C(60000000000)))

/* ---- words ----------------------------------------------------------------------------------- */

#define WORDS(table)                       .words = (table), .word_count = sizeof(table) / sizeof((table)[0])
#define ALGORITHM_WORD(name, number, text) {text, number},

static const struct yaml_reader_word unmatched_words[] = {{"allow", 0}, {"deny", 1}};
static const struct yaml_reader_word act_words[] = {
    {"throttle", POLICY_ACT_THROTTLE},
    {"allow", POLICY_ACT_ALLOW},
    {"block", POLICY_ACT_BLOCK},
};
static const struct yaml_reader_word class_words[] = {
    {"critical", POLICY_CLASS_CRITICAL},
    {"normal", POLICY_CLASS_NORMAL},
    {"batch", POLICY_CLASS_BATCH},
};
static const struct yaml_reader_word failure_words[] = {
    {"open", POLICY_FAILURE_OPEN},
    {"closed", POLICY_FAILURE_CLOSED},
    {"local", POLICY_FAILURE_LOCAL},
};
static const struct yaml_reader_word missing_words[] = {{"skip", 0}, {"deny", 1}};
static const struct yaml_reader_word consistency_words[] = {
    {"one", POLICY_CONSISTENCY_ONE},
    {"any", POLICY_CONSISTENCY_ANY},
    {"quorum", POLICY_CONSISTENCY_QUORUM},
};
static const struct yaml_reader_word scope_words[] = {
    {"region", POLICY_SCOPE_REGION},
    {"global", POLICY_SCOPE_GLOBAL},
};
static const struct yaml_reader_word algorithm_words[] = {ALGORITHM_MAP(ALGORITHM_WORD)};
static const struct yaml_reader_word mode_words[] = {
    {"hard", RULE_MODE_HARD}, {"soft", RULE_MODE_SOFT}, {"elastic", RULE_MODE_ELASTIC}};
static const struct yaml_reader_word align_words[] = {
    {"epoch", RULE_ALIGN_EPOCH}, {"first", RULE_ALIGN_FIRST}, {"calendar", RULE_ALIGN_CALENDAR}};

static const struct yaml_reader_word charge_words[] = {{"each", RULE_CHARGE_EACH},
                                                       {"all", RULE_CHARGE_ALL}};
static const struct yaml_reader_word unit_words[] = {
    {"second", 1},       {"minute", 60},        {"hour", 3600},        {"day", 86400},
    {"week", 7 * 86400}, {"month", 30 * 86400}, {"year", 365 * 86400},
};

static const struct rule_choice failure_choices[] = {
    {true, RULE_MAP_NONE}, {true, RULE_MAP_NONE}, {true, RULE_MAP_LOCAL}};
static const struct rule_choice mode_choices[] = {
    {true, RULE_MAP_NONE}, {false, RULE_MAP_SOFT}, {false, RULE_MAP_ELASTIC}};

#define MODE_KEY                                                                                   \
    .name = "mode", .type = RULE_TYPE_CHOICE, WORDS(mode_words), .choices = mode_choices

/* ---- keys ------------------------------------------------------------------------------------ */

static const struct rule_key file_keys[FILE_KEYS] = {
    [FILE_UNMATCHED] = {.name = "unmatched",
                        .type = RULE_TYPE_WORD,
                        WORDS(unmatched_words),
                        .initial = "allow",
                        .help = "What becomes of a request that no rule matches.",
                        .example = "deny"},
    [FILE_RULES] = {.name = "rules",
                    .required = true,
                    .type = RULE_TYPE_LIST,
                    .max = POLICY_RULES_MAX,
                    .of = RULE_MAP_RULE,
                    .help = "The rules, looked at by priority and then in the order of the file.",
                    .example = "[{name: signup, key: [phone], limits: [{rate: 5/h}]}]"},
    [FILE_POOLS] = {.name = "pools",
                    .type = RULE_TYPE_NAMED,
                    .max = POLICY_POOLS_MAX,
                    .of = RULE_MAP_POOL,
                    .help = "Rates that elastic limits borrow of, by name.",
                    .example = "{api: {rate: 10000/s, reserve: 5%}}"},
    [FILE_TIERS] = {.name = "tiers",
                    .type = RULE_TYPE_NAMED,
                    .max = POLICY_TIERS_MAX,
                    .of = RULE_MAP_TIER,
                    .help = "What each user of a tier may do: a rule that matches the attribute "
                            "`tier`, counts by `user`, and is of group `tier`.",
                    .example = "{free: {limits: [{rate: 100/h}]}}"},
    [FILE_ATTRIBUTES] = {.name = "attributes",
                         .type = RULE_TYPE_KINDS,
                         .max = ATTRIBUTE_NAMED_MAX,
                         .help = "Attributes whose spellings are folded otherwise than usual. "
                                 "Without it `ip` is an address, `api` and `path` are paths, "
                                 "`method` is in upper case, and all others are verbatim.",
                         .example = "{url: path, client: address}"},
    [FILE_DOMAINS] = {.name = "domains",
                      .type = RULE_TYPE_LIST,
                      .max = DESCRIPTOR_DOMAINS_MAX,
                      .of = RULE_MAP_DOMAIN,
                      .help = "What proxies ask by domain and descriptor, as files of "
                              "envoyproxy/ratelimit say it. Each file of that kind is one element; "
                              "such files are taken as they are as well.",
                      .example = "[{domain: shop, descriptors: [{key: path, rate_limit: {unit: "
                                 "minute, requests_per_unit: 10}}]}]"},
    [FILE_CHARGE] = {.name = "charge",
                     .type = RULE_TYPE_WORD,
                     WORDS(charge_words),
                     .initial = "each",
                     .help = "Of a request with several descriptors: `each` is charged whatever "
                             "the others say, and denied requests count; or `all`: none is "
                             "charged unless all allow.",
                     .example = "all"},
    [FILE_MERGE] = {.name = "merge_domains",
                    .type = RULE_TYPE_SWITCH,
                    .initial = "false",
                    .help = "Whether a domain that stands twice is one with the descriptors of "
                            "both, and not an error.",
                    .example = "true"},
};

static const struct rule_key rule_keys[RULE_KEYS] = {
    [RULE_NAME] = {.name = "name",
                   .required = true,
                   .type = RULE_TYPE_TEXT,
                   .min = 1,
                   .max = POLICY_NAME_LEN_MAX,
                   .help =
                       "Its name, which no other rule has. What is counted is counted under it.",
                   .example = "signup-per-phone"},
    [RULE_ENABLED] = {.name = "enabled",
                      .type = RULE_TYPE_SWITCH,
                      .initial = "true",
                      .help = "Whether the rule acts.",
                      .example = "false"},
    [RULE_PRIORITY] = {.name = "priority",
                       .type = RULE_TYPE_NUMBER,
                       .min = -PRIORITY_MAX,
                       .max = PRIORITY_MAX,
                       .initial = "0",
                       .help = "Rules with a higher priority are looked at first.",
                       .example = "700"},
    [RULE_GROUP] = {.name = "group",
                    .type = RULE_TYPE_TEXT,
                    .min = 1,
                    .max = POLICY_NAME_LEN_MAX,
                    .help = "Of the rules of one group only the first that applies acts.",
                    .example = "signup"},
    [RULE_MATCH] = {.name = "match",
                    .type = RULE_TYPE_MATCH,
                    .max = POLICY_MATCH_MAX,
                    .help = "The requests that the rule is for: each attribute must have the "
                            "value, or one of the values. A `*` at the end of a value is any rest, "
                            "any other `*` is one segment; of an address a block such as "
                            "10.0.0.0/8 may be named. Without it all requests are meant.",
                    .example = "{api: /signup, method: [post, put]}"},
    [RULE_KEY] = {.name = "key",
                  .type = RULE_TYPE_NAMES,
                  .min = 1,
                  .max = POLICY_KEY_ATTRIBUTES_MAX,
                  .help = "The attributes that are counted together: each combination of their "
                          "values has a count of its own. A rule that throttles needs it.",
                  .example = "[phone, api]"},
    [RULE_LIMITS] = {.name = "limits",
                     .type = RULE_TYPE_LIST,
                     .min = 1,
                     .max = POLICY_LIMITS_MAX,
                     .of = RULE_MAP_LIMIT,
                     .help = "The limits, all of which must allow. A rule that throttles needs it.",
                     .example = "[{rate: 20/h}, {rate: 100/day}]"},
    [RULE_MODE] = {MODE_KEY, .initial = "hard",
                   .help = "Whether the limits may be exceeded; a limit may say otherwise.",
                   .example = "{soft: {exceed: 10%}}"},
    [RULE_CLASS] = {.name = "class",
                    .type = RULE_TYPE_WORD,
                    WORDS(class_words),
                    .initial = "normal",
                    .help = "Who borrows first where elastic limits share a pool.",
                    .example = "critical"},
    [RULE_CONSISTENCY] = {.name = "consistency",
                          .type = RULE_TYPE_WORD,
                          WORDS(consistency_words),
                          .initial = "one",
                          .help = "`one`: the leader of the key decides. `quorum`: a majority of "
                                  "its replicas confirms each decision. `any`: whoever is asked "
                                  "decides, on tokens that it holds.",
                          .example = "quorum"},
    [RULE_SCOPE] = {.name = "scope",
                    .type = RULE_TYPE_WORD,
                    WORDS(scope_words),
                    .initial = "region",
                    .help = "Whether each region counts for itself, or one counts for all.",
                    .example = "global"},
    [RULE_HOME] = {.name = "home",
                   .type = RULE_TYPE_TEXT,
                   .min = 1,
                   .max = POLICY_REGION_LEN_MAX,
                   .initial = "by a hash of the key",
                   .help = "With scope global: the region that counts.",
                   .example = "eu"},
    [RULE_WAN_WAIT] = {.name = "wan_wait",
                       .type = RULE_TYPE_DURATION,
                       .max = (int64_t)POLICY_WAN_WAIT_MAX_NS,
                       .most = "10 s",
                       .initial = "150ms",
                       .help = "With scope global: how long a check may wait for that region.",
                       .example = "80ms"},
    [RULE_ON_FAILURE] = {.name = "on_failure",
                         .type = RULE_TYPE_CHOICE,
                         WORDS(failure_words),
                         .choices = failure_choices,
                         .initial = "closed",
                         .help =
                             "What is answered where nobody can decide: `open` allows, `closed` "
                             "denies, `local` lets the node that is asked decide alone.",
                         .example = "{local: {share: 50%}}"},
    [RULE_ACTION] = {.name = "action",
                     .type = RULE_TYPE_WORD,
                     WORDS(act_words),
                     .initial = "throttle",
                     .help = "`throttle` adds the limits, `allow` ends the search, `block` denies.",
                     .example = "block"},
    [RULE_COUNT_DENIED] = {.name = "count_denied",
                           .type = RULE_TYPE_SWITCH,
                           .initial = "false",
                           .help = "Whether requests that are denied are counted as well.",
                           .example = "true"},
    [RULE_SHADOW] = {.name = "shadow",
                     .type = RULE_TYPE_SWITCH,
                     .initial = "false",
                     .help = "On trial: the rule counts, and says what it would have denied, but "
                             "changes nothing.",
                     .example = "true"},
    [RULE_MISSING] = {.name = "missing",
                      .type = RULE_TYPE_WORD,
                      WORDS(missing_words),
                      .initial = "skip",
                      .help = "What becomes of a request without an attribute of the key: the rule "
                              "does not apply, or denies.",
                      .example = "deny"},
    [RULE_RESPONSE] = {.name = "response",
                       .type = RULE_TYPE_MAP,
                       .of = RULE_MAP_RESPONSE,
                       .help = "What is answered to a request that is denied.",
                       .example = "{message: too many sign-ups}"},
    [RULE_IPV6_PREFIX] = {.name = "ipv6_prefix",
                          .type = RULE_TYPE_NUMBER,
                          .min = 1,
                          .max = PREFIX_MAX,
                          .initial = "64",
                          .help =
                              "With an address in the key: so many bits of IPv6 are one caller.",
                          .example = "56"},
};

static const struct rule_key limit_keys[LIMIT_KEYS] = {
    [LIMIT_KEY_RATE] = {.name = "rate",
                        .type = RULE_TYPE_RATE,
                        .help = "How many in which time. Every limit needs it, but one of "
                                "concurrency that has `count`.",
                        .example = "20/h"},
    [LIMIT_KEY_ALGORITHM] = {.name = "algorithm",
                             .type = RULE_TYPE_WORD,
                             WORDS(algorithm_words),
                             .initial = "token_bucket",
                             .help = "How it counts.",
                             .example = "sliding_log"},
    [LIMIT_KEY_BURST] = {.name = "burst",
                         .type = RULE_TYPE_NUMBER,
                         .min = 1,
                         .max = (int64_t)LIMIT_COUNT_MAX,
                         .initial = "the rate's count",
                         .help = "Of token_bucket and leaky_bucket: how many at once.",
                         .example = "50"},
    [LIMIT_KEY_BUCKETS] = {.name = "buckets",
                           .type = RULE_TYPE_NUMBER,
                           .min = LIMIT_BUCKETS_MIN,
                           .max = LIMIT_BUCKETS_MAX,
                           .initial = "60",
                           .help = "Of sliding_buckets: the parts of the window that are counted.",
                           .example = "24"},
    [LIMIT_KEY_ALIGN] = {.name = "align",
                         .type = RULE_TYPE_WORD,
                         WORDS(align_words),
                         .initial = "epoch",
                         .help =
                             "Of fixed_window: windows begin at multiples of their length, with "
                             "the first request, or with the unit of the calendar.",
                         .example = "calendar"},
    [LIMIT_KEY_TIMEZONE] = {.name = "timezone",
                            .type = RULE_TYPE_TEXT,
                            .min = 1,
                            .max = POLICY_ZONE_NAME_LEN_MAX,
                            .initial = "UTC",
                            .help = "With align calendar: whose calendar it is.",
                            .example = "Europe/Berlin"},
    [LIMIT_KEY_COUNT] = {.name = "count",
                         .type = RULE_TYPE_NUMBER,
                         .min = 1,
                         .max = (int64_t)LIMIT_LEASES_MAX,
                         .help = "Of concurrency, instead of a rate: how many may be in flight.",
                         .example = "10"},
    [LIMIT_KEY_TIMEOUT] = {.name = "timeout",
                           .type = RULE_TYPE_DURATION,
                           .min = 1,
                           .max = INT64_MAX,
                           .initial = "30s",
                           .help = "With `count`: when a lease that nobody gives back ends.",
                           .example = "30s"},
    [LIMIT_KEY_MODE] = {MODE_KEY, .initial = "that of the rule",
                        .help = "Whether this limit may be exceeded.", .example = "hard"},
};

static const struct rule_key response_keys[RESPONSE_KEYS] = {
    [RESPONSE_STATUS] = {.name = "status",
                         .type = RULE_TYPE_NUMBER,
                         .min = STATUS_MIN,
                         .max = STATUS_MAX,
                         .initial = "429, or 403 of action block",
                         .help = "The status, as of HTTP.",
                         .example = "503"},
    [RESPONSE_MESSAGE] = {.name = "message",
                          .type = RULE_TYPE_TEXT,
                          .max = POLICY_MESSAGE_LEN_MAX,
                          .initial = "a sentence on the limit",
                          .help = "What the caller is told.",
                          .example = "too many sign-ups"},
    [RESPONSE_RETRY_AFTER] = {.name = "retry_after",
                              .type = RULE_TYPE_DURATION,
                              .min = 1,
                              .max = (int64_t)LIMIT_WINDOW_MAX_NS,
                              .most = "10 years",
                              .initial = "as the limits say",
                              .help = "When the caller is told to come again.",
                              .example = "10m"},
};

static const struct rule_key soft_keys[SOFT_KEYS] = {
    [SOFT_EXCEED] = {.name = "exceed",
                     .required = true,
                     .type = RULE_TYPE_PERCENT,
                     .min = 1,
                     .max = LIMIT_EXCEED_MAX,
                     .help = "By how much the limit may be exceeded; the answer says so.",
                     .example = "10%"},
};

static const struct rule_key elastic_keys[ELASTIC_KEYS] = {
    [ELASTIC_POOL] = {.name = "pool",
                      .required = true,
                      .type = RULE_TYPE_TEXT,
                      .min = 1,
                      .max = POLICY_NAME_LEN_MAX,
                      .help = "The pool of the file that lends.",
                      .example = "api"},
    [ELASTIC_CEILING] = {.name = "ceiling",
                         .type = RULE_TYPE_FACTOR,
                         .max = LIMIT_CEILING_MAX / 100,
                         .help =
                             "How many times the limit is allowed at most, all borrowed included.",
                         .example = "3x"},
    [ELASTIC_WEIGHT] = {.name = "weight",
                        .type = RULE_TYPE_NUMBER,
                        .min = 1,
                        .max = LIMIT_WEIGHT_MAX,
                        .initial = "1",
                        .help = "The part of the spare that each key has against the others.",
                        .example = "4"},
};

static const struct rule_key local_keys[LOCAL_KEYS] = {
    [LOCAL_SHARE] = {.name = "share",
                     .required = true,
                     .type = RULE_TYPE_PERCENT,
                     .min = 1,
                     .max = PERCENT_ALL,
                     .help = "The part of the limit that each node then allows by itself.",
                     .example = "50%"},
};

static const struct rule_key pool_keys[POOL_KEYS] = {
    [POOL_RATE] = {.name = "rate",
                   .required = true,
                   .type = RULE_TYPE_RATE,
                   .help =
                       "What the pool has: in each region, or with scope global in all of them.",
                   .example = "10000/s"},
    [POOL_LOAD_MAX] = {.name = "load_max",
                       .type = RULE_TYPE_LOAD,
                       .initial = "1",
                       .help = "The reported load at which borrowing stops.",
                       .example = "0.8"},
    [POOL_RESERVE] = {.name = "reserve",
                      .type = RULE_TYPE_PERCENT,
                      .min = 1,
                      .max = PERCENT_ALL,
                      .initial = "nothing",
                      .help = "The part of the rate that class critical alone may borrow.",
                      .example = "5%"},
    [POOL_SCOPE] = {.name = "scope",
                    .type = RULE_TYPE_WORD,
                    WORDS(scope_words),
                    .initial = "region",
                    .help = "Whether each region has the rate, or all of them together.",
                    .example = "global"},
    [POOL_HOME] = {.name = "home",
                   .type = RULE_TYPE_TEXT,
                   .min = 1,
                   .max = POLICY_REGION_LEN_MAX,
                   .initial = "by a hash of the name",
                   .help = "With scope global: the region that lends.",
                   .example = "eu"},
};

static const struct rule_key tier_keys[TIER_KEYS] = {
    [TIER_LIMITS] = {.name = "limits",
                     .required = true,
                     .type = RULE_TYPE_LIST,
                     .min = 1,
                     .max = POLICY_LIMITS_MAX,
                     .of = RULE_MAP_LIMIT,
                     .help = "The limits of each user of the tier.",
                     .example = "[{rate: 5000/h}]"},
};

static const struct rule_key older_file_keys[OLDER_FILE_KEYS] = {
    [OLDER_API] = {.name = "api",
                   .required = true,
                   .type = RULE_TYPE_OLDER,
                   .min = 1,
                   .max = OLDER_ENTRIES_MAX,
                   .of = RULE_MAP_OLDER_LIMIT,
                   .help = "Paths, each with its limits.",
                   .example = "{/signup: [{caller: phone, request-count: 20, time: 60}]}"},
};

static const struct rule_key older_limit_keys[OLDER_LIMIT_KEYS] = {
    [OLDER_CALLER] = {.name = "caller",
                      .required = true,
                      .type = RULE_TYPE_NAME,
                      .min = 1,
                      .max = POLICY_ATTRIBUTE_NAME_LEN_MAX,
                      .help = "The attribute that is counted.",
                      .example = "phone"},
    [OLDER_COUNT] = {.name = "request-count",
                     .required = true,
                     .type = RULE_TYPE_NUMBER,
                     .min = 1,
                     .max = (int64_t)LIMIT_LOG_COUNT_MAX,
                     .help = "How many requests.",
                     .example = "20"},
    [OLDER_TIME] = {.name = "time",
                    .required = true,
                    .type = RULE_TYPE_NUMBER,
                    .min = 1,
                    .max = MINUTES_MAX,
                    .help = "In how many minutes.",
                    .example = "60"},
};

static const struct rule_key domain_keys[DOMAIN_KEYS] = {
    [DOMAIN_NAME] = {.name = "domain",
                     .required = true,
                     .type = RULE_TYPE_TEXT,
                     .min = 1,
                     .max = DESCRIPTOR_DOMAIN_LEN_MAX,
                     .help = "Its name, as proxies send it.",
                     .example = "shop"},
    [DOMAIN_DESCRIPTORS] = {.name = "descriptors",
                            .type = RULE_TYPE_LIST,
                            .max = DESCRIPTORS_MAX,
                            .of = RULE_MAP_DESCRIPTOR,
                            .help = "What the first entry of a descriptor may be.",
                            .example = "[{key: user}]"},
    [DOMAIN_ON_FAILURE] = {.name = "on_failure",
                           .type = RULE_TYPE_CHOICE,
                           WORDS(failure_words),
                           .choices = failure_choices,
                           .initial = "local",
                           .help = "What is answered where nobody can decide, as of a rule. A "
                                   "file of its own has no such key.",
                           .example = "open"},
    [DOMAIN_MESSAGE] = {.name = "message",
                        .type = RULE_TYPE_TEXT,
                        .min = 1,
                        .max = POLICY_MESSAGE_LEN_MAX,
                        .initial = "none",
                        .help = "What the proxy is to tell its caller as the body of a denial. "
                                "A file of its own has no such key.",
                        .example = "too many requests"},
};

static const struct rule_key descriptor_keys[DESCRIPTOR_KEYS] = {
    [DESCRIPTOR_KEY] = {.name = "key",
                        .required = true,
                        .type = RULE_TYPE_TEXT,
                        .min = 1,
                        .max = DESCRIPTOR_KEY_LEN_MAX,
                        .help = "The key of the entry. Alone, it is met by every value that no "
                                "other element of the list is for.",
                        .example = "user"},
    [DESCRIPTOR_VALUE] = {.name = "value",
                          .type = RULE_TYPE_TEXT,
                          .max = DESCRIPTOR_VALUE_LEN_MAX,
                          .help = "The value of the entry. A `*` anywhere is any number of bytes. "
                                  "Exact values come before wildcards, these in the order of the "
                                  "file before the key alone.",
                          .example = "ada"},
    [DESCRIPTOR_RATE_LIMIT] = {.name = "rate_limit",
                               .type = RULE_TYPE_MAP,
                               .of = RULE_MAP_RATE_LIMIT,
                               .help = "The limit of descriptors that end with this entry.",
                               .example = "{unit: minute, requests_per_unit: 10}"},
    [DESCRIPTOR_DESCRIPTORS] = {.name = "descriptors",
                                .type = RULE_TYPE_LIST,
                                .max = DESCRIPTORS_MAX,
                                .of = RULE_MAP_DESCRIPTOR,
                                .help = "What the next entry may be.",
                                .example = "[{key: user}]"},
    [DESCRIPTOR_SHADOW_MODE] = {.name = "shadow_mode",
                                .type = RULE_TYPE_SWITCH,
                                .initial = "false",
                                .help = "On trial: the limit counts, and never denies.",
                                .example = "true"},
    [DESCRIPTOR_QUOTA_MODE] = {.name = "quota_mode",
                               .type = RULE_TYPE_SWITCH,
                               .initial = "false",
                               .help = "The limit denies a request only where all of this mode "
                                       "that the request meets are used up.",
                               .example = "true"},
    [DESCRIPTOR_SHARE_THRESHOLD] = {.name = "share_threshold",
                                    .type = RULE_TYPE_SWITCH,
                                    .initial = "false",
                                    .help = "With a wildcard: all values that it matches have one "
                                            "count.",
                                    .example = "true"},
    [DESCRIPTOR_VALUE_TO_METRIC] = {.name = "value_to_metric",
                                    .type = RULE_TYPE_SWITCH,
                                    .initial = "false",
                                    .help = "The value of the request's entry is in the name of "
                                            "the counter.",
                                    .example = "true"},
    [DESCRIPTOR_DETAILED_METRIC] = {.name = "detailed_metric",
                                    .type = RULE_TYPE_SWITCH,
                                    .initial = "false",
                                    .help = "All entries of the request are in the name of the "
                                            "counter, with their values.",
                                    .example = "true"},
    [DESCRIPTOR_METADATA] = {.name = "metadata",
                             .type = RULE_TYPE_TREE,
                             .help = "What the proxy is told of requests that meet the "
                                     "descriptor; at most 4096 bytes as JSON.",
                             .example = "{team: {name: search}}"},
    [DESCRIPTOR_MESSAGE] = {.name = "message",
                            .type = RULE_TYPE_TEXT,
                            .min = 1,
                            .max = POLICY_MESSAGE_LEN_MAX,
                            .initial = "that of the domain",
                            .help = "With `rate_limit`: the body of a denial. Of several limits "
                                    "that deny, the first one's is told. A file of its own has "
                                    "no such key.",
                            .example = "too many log-ins"},
};

static const struct rule_key rate_limit_keys[RATE_LIMIT_KEYS] = {
    [RATE_LIMIT_UNIT] = {.name = "unit",
                         .type = RULE_TYPE_WORD,
                         WORDS(unit_words),
                         .help = "How long a window is, from 1970 on: a week begins on a "
                                 "Thursday, a month is 30 days, a year 365. In any case of "
                                 "letters. Without `unlimited` it is needed.",
                         .example = "hour"},
    [RATE_LIMIT_REQUESTS] = {.name = "requests_per_unit",
                             .type = RULE_TYPE_NUMBER,
                             .max = UINT32_MAX,
                             .initial = "0",
                             .help = "How many a window allows; with 0 nothing is allowed.",
                             .example = "100"},
    [RATE_LIMIT_UNLIMITED] = {.name = "unlimited",
                              .type = RULE_TYPE_SWITCH,
                              .initial = "false",
                              .help = "All is allowed, and nothing counted.",
                              .example = "true"},
    [RATE_LIMIT_NAME] = {.name = "name",
                         .type = RULE_TYPE_TEXT,
                         .max = POLICY_NAME_LEN_MAX,
                         .help = "What the limit is called where another one replaces it; not "
                                 "unique.",
                         .example = "per_user"},
    [RATE_LIMIT_REPLACES] = {.name = "replaces",
                             .type = RULE_TYPE_LIST,
                             .max = DESCRIPTOR_REPLACES_MAX,
                             .of = RULE_MAP_REPLACES,
                             .help = "Limits that are not asked where this one is met by the same "
                                     "request.",
                             .example = "[{name: per_user}]"},
};

static const struct rule_key replaces_keys[REPLACES_KEYS] = {
    [REPLACES_NAME] = {.name = "name",
                       .required = true,
                       .type = RULE_TYPE_TEXT,
                       .min = 1,
                       .max = POLICY_NAME_LEN_MAX,
                       .help = "The `name` of another limit.",
                       .example = "per_user"},
};

/* ---- mappings -------------------------------------------------------------------------------- */

#define KEYS(table) .keys = (table), .count = sizeof(table) / sizeof((table)[0])

static const struct rule_map_row maps[RULE_MAPS] = {
    [RULE_MAP_FILE] = {.what = "file",
                       .prefix = "",
                       .title = "The file",
                       .help = "A rules file is one mapping.",
                       KEYS(file_keys)},
    [RULE_MAP_RULE] = {.what = "rule",
                       .prefix = "",
                       .title = "A rule",
                       .help = "An element of `rules`.",
                       KEYS(rule_keys)},
    [RULE_MAP_LIMIT] = {.what = "limits",
                        .prefix = "limits",
                        .title = "A limit",
                        .help = "An element of the `limits` of a rule or of a tier.",
                        KEYS(limit_keys)},
    [RULE_MAP_RESPONSE] = {.what = "response",
                           .prefix = "response",
                           .title = "A response",
                           .help = "The `response` of a rule.",
                           KEYS(response_keys)},
    [RULE_MAP_SOFT] = {.what = "mode.soft",
                       .prefix = "mode.soft",
                       .title = "The mode soft",
                       .help = "`mode: {soft: ...}` of a rule or of a limit.",
                       KEYS(soft_keys)},
    [RULE_MAP_ELASTIC] = {.what = "mode.elastic",
                          .prefix = "mode.elastic",
                          .title = "The mode elastic",
                          .help = "`mode: {elastic: ...}` of a rule or of a limit: it allows more "
                                  "than the limit while the pool has something to spare.",
                          KEYS(elastic_keys)},
    [RULE_MAP_LOCAL] = {.what = "on_failure.local",
                        .prefix = "on_failure.local",
                        .title = "Deciding alone",
                        .help = "`on_failure: {local: ...}` of a rule.",
                        KEYS(local_keys)},
    [RULE_MAP_POOL] = {.what = "pools",
                       .prefix = "pools",
                       .title = "A pool",
                       .help = "What stands behind a name in `pools`.",
                       KEYS(pool_keys)},
    [RULE_MAP_TIER] = {.what = "tiers",
                       .prefix = "tiers",
                       .title = "A tier",
                       .help = "What stands behind a name in `tiers`.",
                       KEYS(tier_keys)},
    [RULE_MAP_OLDER_FILE] = {.what = "file",
                             .prefix = "",
                             .title = "A file of the older form",
                             .help = "A file with `api` and without `rules` is read as an older "
                                     "limiter read it. Each caller of a path becomes a rule.",
                             KEYS(older_file_keys)},
    [RULE_MAP_OLDER_LIMIT] = {.what = "limit",
                              .prefix = "",
                              .title = "A limit of the older form",
                              .help = "An element of the list behind a path.",
                              KEYS(older_limit_keys)},
    [RULE_MAP_DOMAIN] = {.what = "domain",
                         .prefix = "",
                         .title = "A domain",
                         .help = "An element of `domains`, or a whole file of "
                                 "envoyproxy/ratelimit, which has no `rules`; several such files, "
                                 "each behind a line of `---`, are one.",
                         KEYS(domain_keys)},
    [RULE_MAP_DESCRIPTOR] = {.what = "descriptor",
                             .prefix = "descriptor",
                             .title = "A descriptor",
                             .help = "An element of the `descriptors` of a domain, or of another "
                                     "descriptor.",
                             KEYS(descriptor_keys)},
    [RULE_MAP_RATE_LIMIT] = {.what = "rate_limit",
                             .prefix = "rate_limit",
                             .title = "The limit of a descriptor",
                             .help = "The `rate_limit` of a descriptor.",
                             KEYS(rate_limit_keys)},
    [RULE_MAP_REPLACES] = {.what = "replaces",
                           .prefix = "replaces",
                           .title = "A replaced limit",
                           .help = "An element of `replaces`.",
                           KEYS(replaces_keys)},
};

const struct rule_map_row *rule_map(enum rule_map map)
{
    return &maps[map];
}

const struct rule_key *rule_key(enum rule_map map, unsigned key)
{
    ASSERT(key < maps[map].count); /* RULEKEYS-1 */
    return &maps[map].keys[key];
}

/* ---- reading --------------------------------------------------------------------------------- */

int rule_fields(const struct yaml_reader *reader, uint32_t node, enum rule_map map,
                const char *what, struct yaml_reader_field *fields)
{
    const struct rule_map_row *row = &maps[map];
    for (uint32_t i = 0; i < row->count; i++)
        fields[i] = (struct yaml_reader_field){
            row->keys[i].name, row->keys[i].required ? YAML_READER_REQUIRED : YAML_READER_OPTIONAL,
            0};
    return yaml_reader_fields(reader, node, what != NULL ? what : row->what, fields, row->count);
}

const char *rule_what(const struct rule_place *place, unsigned key, char out[RULE_WHAT_LEN])
{
    const char *prefix = place->what != NULL ? place->what : maps[place->map].prefix;
    (void)snprintf(out, RULE_WHAT_LEN, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                   rule_key(place->map, key)->name);
    return out;
}

static bool is_absent(const struct rule_place *place, unsigned key)
{
    return place->fields[key].node == YAML_READER_NONE;
}

int rule_number(const struct rule_place *place, unsigned key, int64_t *value)
{
    const struct rule_key *row = rule_key(place->map, key);
    char what[RULE_WHAT_LEN];
    return is_absent(place, key)
               ? TG_OK
               : yaml_reader_int(place->reader, place->fields[key].node,
                                 rule_what(place, key, what), row->min, row->max, value);
}

int rule_switch(const struct rule_place *place, unsigned key, bool *value)
{
    char what[RULE_WHAT_LEN];
    return is_absent(place, key) ? TG_OK
                                 : yaml_reader_bool(place->reader, place->fields[key].node,
                                                    rule_what(place, key, what), value);
}

int rule_word(const struct rule_place *place, unsigned key, int *number)
{
    const struct rule_key *row = rule_key(place->map, key);
    char what[RULE_WHAT_LEN];
    return is_absent(place, key)
               ? TG_OK
               : yaml_reader_word(place->reader, place->fields[key].node,
                                  rule_what(place, key, what), row->words, row->word_count, number);
}

int rule_choice(const struct rule_place *place, unsigned key, int *number, uint32_t *map)
{
    const struct rule_key *row = rule_key(place->map, key);
    char what[RULE_WHAT_LEN];
    *map = YAML_READER_NONE;
    if (is_absent(place, key))
        return TG_OK;
    const struct yaml_reader_node *node = yaml_reader_at(place->reader, place->fields[key].node);
    const bool named = node->kind == YAML_READER_MAPPING && node->len == 1;
    if (named)
        *map = yaml_reader_at(place->reader, node->first)->next;
    return yaml_reader_word(place->reader, named ? node->first : place->fields[key].node,
                            rule_what(place, key, what), row->words, row->word_count, number);
}

int rule_scalar(const struct rule_place *place, unsigned key, const char **text, size_t *len)
{
    const struct rule_key *row = rule_key(place->map, key);
    const bool bounded = row->type == RULE_TYPE_TEXT;
    char what[RULE_WHAT_LEN];
    *text = NULL;
    return is_absent(place, key)
               ? TG_OK
               : yaml_reader_text(place->reader, place->fields[key].node,
                                  rule_what(place, key, what), bounded ? (size_t)row->min : 1,
                                  bounded ? (size_t)row->max : QUANTITY_TEXT_LEN, text, len);
}

int rule_duration(const struct rule_place *place, unsigned key, uint64_t *ns)
{
    const struct rule_key *row = rule_key(place->map, key);
    char sentence[QUANTITY_ERROR_LEN];
    char what[RULE_WHAT_LEN];
    const char *text;
    size_t len;

    const int result = rule_scalar(place, key, &text, &len);
    if (result != TG_OK || text == NULL)
        return result;
    const int parsed = row->min == 0 ? quantity_parse_wait(text, ns, sentence)
                                     : quantity_parse_duration(text, ns, sentence);
    if (parsed != TG_OK)
        return yaml_reader_fail(place->reader, place->fields[key].node, "%s: %s",
                                rule_what(place, key, what), sentence);
    if (*ns > (uint64_t)row->max)
        return yaml_reader_fail(place->reader, place->fields[key].node,
                                "%s: found \"%s\"; expected at most %s",
                                rule_what(place, key, what), text, row->most);
    return TG_OK;
}

int rule_percent(const struct rule_place *place, unsigned key, uint16_t *percent)
{
    const uint32_t max = (uint32_t)rule_key(place->map, key)->max;
    char what[RULE_WHAT_LEN];
    const char *text;
    uint32_t number = 0;
    size_t at = 0;
    size_t len;

    const int result = rule_scalar(place, key, &text, &len);
    if (result != TG_OK || text == NULL)
        return result;
    for (; at < len && number <= max && text[at] >= '0' && text[at] <= '9'; at++)
        number = number * 10 + (uint32_t)(text[at] - '0');
    if (at == 0 || text[0] == '0' || number > max || strcmp(text + at, "%") != 0)
        return yaml_reader_fail(place->reader, place->fields[key].node,
                                "%s: found \"%s\"; expected 1%% to %u%%",
                                rule_what(place, key, what), text, max);
    *percent = (uint16_t)number;
    return TG_OK;
}
