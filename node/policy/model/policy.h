/* policy.h - a compiled policy: rules, pools, and what else a rules file says.
 *
 * A rules file is compiled whole or refused whole (policy_compile.h); policy_resolve.h answers, for
 * one request, which rules act.
 *
 * A policy is immutable after compilation: any number of threads may resolve with it.
 */
#ifndef NODE_POLICY_MODEL_POLICY_H
#define NODE_POLICY_MODEL_POLICY_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/limit.h"
#include "base/quantity.h"
#include "node/policy/model/calendar.h"

enum {
    POLICY_FILE_LEN_MAX = 16 * 1024 * 1024,      /* that can be compiled */
    POLICY_DOCUMENT_LEN_MAX = (1 << 20) - 12288, /* that is kept as it is, or packed (packed.h) */
    POLICY_RULES_MAX = 10000,
    POLICY_NAME_LEN_MAX = 128,          /* of a rule or a group */
    POLICY_ATTRIBUTE_NAME_LEN_MAX = 64, /* [a-z0-9_.-]+ */
    POLICY_VALUE_LEN_MAX = 1024,        /* of an attribute value or a match pattern */
    POLICY_MESSAGE_LEN_MAX = 256,       /* of response.message */
    POLICY_REGION_LEN_MAX = 31,         /* of a region's name */
    POLICY_POOLS_MAX = 64,
    POLICY_TIERS_MAX = 64,
    POLICY_TIER_LEN_MAX = 64, /* [a-zA-Z0-9_.-]+ */
    POLICY_KEY_ATTRIBUTES_MAX = 8,
    POLICY_LIMITS_MAX = 8,            /* of one rule */
    POLICY_MATCH_MAX = 16,            /* attributes matched by one rule */
    POLICY_MATCH_VALUES_MAX = 256,    /* alternatives of one matched attribute */
    POLICY_PARTS_MAX = 8,             /* throttle rules that act on one request */
    POLICY_ATTRIBUTES_GIVEN_MAX = 32, /* of one request, as it comes */
    POLICY_ATTRIBUTES_ADDED_MAX = 2,  /* by who asks: user and tier (people.h) */
    POLICY_ATTRIBUTES_MAX = POLICY_ATTRIBUTES_GIVEN_MAX + POLICY_ATTRIBUTES_ADDED_MAX,
    POLICY_IP_TEXT_LEN = 52,    /* the longest IPv6 text, "/128" and NUL */
    POLICY_SPELLING_LEN = 4096, /* of a request's values that came in another spelling */
    POLICY_IPV6_PREFIX_DEFAULT = 64,
    POLICY_ZONES_MAX = 64,         /* time zones of one file */
    POLICY_ZONE_NAME_LEN_MAX = 64, /* [A-Za-z0-9_+/-]+ */
    POLICY_ZONE_SPANS_MAX = 1024
};

/* What is said of POLICY_OVERFLOW. */
#define POLICY_CROWD_SENTENCE                                                                      \
    "more than 8 rules with limits meet on this request; expected at most 8 (`tidegate rules "     \
    "explain` tells which)"
static_assert(POLICY_PARTS_MAX == 8, "the sentence says so");
/* What is said of values that have no room in the one spelling of their kinds. */
#define POLICY_SPELLING_SENTENCE                                                                   \
    "found values of more than 4096 bytes together in the one spelling of their kinds; expected "  \
    "fewer or shorter ones"
static_assert(POLICY_SPELLING_LEN == 4096, "the sentence says so");

/* A tier is a rule with this name and its own behind it, of this group: that of all rules that are
 * a user's plan, of which one at most acts. */
#define POLICY_TIER_PREFIX "tier "
#define POLICY_PLAN_GROUP  "tier"

/* Bytes that are not NUL-terminated unless the function that gives them says so. */
struct policy_text {
    const char *data;
    size_t len;
};

/* Where and why a rules file was refused. line and column count from 1; 0 = no place (out of
 * memory). `message` says what was found and what was expected, without the file's name. */
struct policy_error {
    uint32_t line;
    uint32_t column;
    char message[256];
};

#define POLICY_WAN_WAIT_NS     UINT64_C(150000000) /* of rules that say nothing */
#define POLICY_WAN_WAIT_MAX_NS UINT64_C(10000000000)

enum policy_act { POLICY_ACT_THROTTLE = 0, POLICY_ACT_ALLOW = 1, POLICY_ACT_BLOCK = 2 };
enum policy_class { POLICY_CLASS_CRITICAL = 0, POLICY_CLASS_NORMAL = 1, POLICY_CLASS_BATCH = 2 };
/* Who must know of a decision before it is answered: the key's decider; a majority of its replicas,
 * durably; or whoever was asked, who holds tokens of the decider's. */
enum policy_consistency {
    POLICY_CONSISTENCY_ONE = 0,
    POLICY_CONSISTENCY_QUORUM = 1,
    POLICY_CONSISTENCY_ANY = 2
};
/* Where a rule is counted: in each region by itself, or in one for all. */
enum policy_scope { POLICY_SCOPE_REGION = 0, POLICY_SCOPE_GLOBAL = 1 };
/* What a request gets when no node can decide for its key: allowed, an error, or the decision of a
 * stand-in with a share of the limit. */
enum policy_failure {
    POLICY_FAILURE_OPEN = 0,
    POLICY_FAILURE_CLOSED = 1,
    POLICY_FAILURE_LOCAL = 2
};

/* Who knows the time zones: node/zones/zones.c, or a test. */
struct policy_zones {
    void *context;
    /* Writes the spans of the zone of that name into `out`, at most `max`, in the order of time.
     * Their number, or 0 if there is no such zone. */
    uint32_t (*spans)(void *context, const char *name, struct calendar_span *out, uint32_t max);
};

/* The time zone of a limit with `align: calendar`; `zone` is shared by all limits that name it. */
struct policy_calendar {
    struct policy_text name; /* "Europe/Berlin"; len 0: the limit is none of the calendar */
    const struct calendar_zone *zone; /* not NULL if it is */
    uint32_t line;                    /* of the name, or of the limit, in the file */
    uint32_t column;
};

/* One attribute to match: any of the alternatives. */
struct policy_match {
    struct policy_text attribute;
    const struct policy_text *values; /* sorted; in the one spelling of the attribute's kind */
    uint32_t value_count;
    uint8_t kind; /* enum attribute_kind */
};

/* A rate of each region, or of all of them, of which elastic limits borrow what is spare. */
struct policy_pool {
    struct policy_text name;
    uint32_t id; /* made of the name alone; never 0 */
    struct quantity_rate rate;
    uint32_t load_max_ppm;    /* borrowing stops at this load of what the pool protects; <= 10^6 */
    uint16_t reserve_percent; /* of the rate: what class critical alone may borrow */
    uint8_t scope;            /* enum policy_scope */
    struct policy_text home;  /* GLOBAL: the region that lends; len 0: by hash */
    uint64_t home_region;     /* its policy_region_id; 0: by hash */
};

/* How far above a limit requests are allowed: hard, if all of it is 0. */
struct policy_mode {
    uint16_t exceed_percent;        /* soft */
    const struct policy_pool *pool; /* elastic; else NULL */
    uint16_t weight;
    uint32_t ceiling_percent; /* 0 = none */
};

struct descriptor;

/* One rule, as compiled. All texts are NUL-terminated and live as long as the policy. */
struct policy_rule {
    struct policy_text name;
    struct policy_text counted; /* the name that its counts have: its own, or that of all plans */
    struct policy_text group;   /* len 0 = none */
    const struct policy_match *matches;
    const struct policy_text *key;            /* attribute names, in the order of the file */
    const struct limit *limits;               /* with their ordinals: ordinals.h */
    const char (*windows)[QUANTITY_TEXT_LEN]; /* limits[i] written shortest: "5/h" */
    const struct policy_calendar *calendars;  /* of limits[i]; NULL: no limit has one */
    const struct policy_mode *modes;          /* of each limit */
    struct policy_mode mode;                  /* of those that have none of their own */
    struct policy_text message;               /* response.message, "" by default */
    struct policy_text home;                  /* GLOBAL: the region that decides; len 0: by hash */
    uint64_t home_region;                     /* its policy_region_id; 0: by hash */
    uint64_t wan_wait_ns;    /* GLOBAL: how long a check may wait for another region */
    uint64_t retry_after_ns; /* response.retry_after, 0 = as computed */
    uint64_t until_ms; /* of a block by an operator: when it ends, Unix time; 0: not by itself */
    int32_t priority;  /* higher acts first */
    uint32_t line;     /* of the rule in the file, from 1 */
    uint16_t status;   /* response.status; 429, 403 for block */
    uint16_t rank;     /* it is policy_rule_at(rank) of its policy */
    uint8_t match_count;
    uint8_t key_count;     /* 1.. for throttle, else 0 */
    uint8_t limit_count;   /* 1.. for throttle, else 0 */
    uint8_t act;           /* enum policy_act */
    uint8_t class;         /* enum policy_class */
    uint8_t on_failure;    /* enum policy_failure */
    uint8_t local_share;   /* LOCAL: per cent of each limit that a stand-in has, 1..100; else 0 */
    uint8_t consistency;   /* enum policy_consistency; ONE unless it throttles */
    uint8_t scope;         /* enum policy_scope; REGION unless it throttles */
    uint8_t ipv6_prefix;   /* 1..128: how much of an IPv6 address in the key counts */
    uint8_t key_addresses; /* bits: key[i] is an address */
    bool enabled;
    bool shadow;       /* decide and record, never deny */
    bool count_denied; /* a denied request consumes as well */
    bool missing_deny; /* an absent key attribute denies (else the rule is skipped) */
    bool plan;         /* own limits may be on top: of that group, enforced, counted by [user] */

    const struct descriptor *descriptor; /* what it says as one (descriptors.h); else NULL */
    /* Of a rule with `missing: deny` what is said where key[i] is absent; else NULL. */
    const struct policy_text *absent;
};

/* The one of two blocks that lasts longer, the first if both last as long; either may be NULL. */
static inline const struct policy_rule *policy_longer(const struct policy_rule *a,
                                                      const struct policy_rule *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    return b->until_ms - 1 > a->until_ms - 1 ? b : a; /* 0 is the longest */
}

/* Whether it is of a domain's descriptors: its own, or that of limits which come with requests. */
static inline bool policy_is_of_domain(const struct policy_rule *rule)
{
    return rule->descriptor != NULL || rule->rank == UINT16_MAX;
}

/* Whether requests by attributes may meet it. */
static inline bool policy_acts(const struct policy_rule *rule)
{
    return rule->enabled && rule->descriptor == NULL;
}

struct own_limits;

struct policy;

/* Gives the rule's calendar limits, copied to `limits`, the windows that `now_ns` is in. */
void policy_place_calendars(const struct policy_rule *rule, int64_t now_ns, struct limit *limits);
/* Another pointer to the same policy, to be given to policy_free as well. Any thread that has one.
 */
struct policy *policy_share(struct policy *policy);
/* Releases the policy, unless it is shared still, and sets the pointer to NULL; a NULL policy is
 * allowed, and so is the one of policy_empty, which is not released. */
void policy_free(struct policy **policy);
/* The policy without rules that allows everything as unmatched. Static storage, any thread. */
const struct policy *policy_empty(void);

/* A hash of what the policy means: equal for two files that differ only in comments, layout or the
 * order of independent entries; the same on every machine. */
uint64_t policy_digest(const struct policy *policy);
/* The same of one rule. */
uint64_t policy_rule_digest(const struct policy_rule *rule);
/* Whether a request that no rule matches is denied (`unmatched: deny`). */
bool policy_unmatched_deny(const struct policy *policy);
/* Whether a rule in force (enabled) asks for consistency `quorum`. */
bool policy_has_quorum(const struct policy *policy);
/* Whether one in force, or a pool, has scope `global`. */
bool policy_has_global(const struct policy *policy);
/* Reads a load, a decimal number from 0 to 1 with at most six places, as millionths. 0 or
 * TG_EINVALID. */
MUST_USE int policy_parse_load(const char *text, size_t len, uint32_t *ppm);
/* A number for the name of a region, the same on every machine; never 0. */
uint64_t policy_region_id(const char *name, size_t len);
/* The pools, by name. */
size_t policy_pool_count(const struct policy *policy);
const struct policy_pool *policy_pool_at(const struct policy *policy, size_t index);
/* The pool of that name / id, or NULL. */
const struct policy_pool *policy_pool_find(const struct policy *policy, const char *name,
                                           size_t len);
const struct policy_pool *policy_pool_by_id(const struct policy *policy, uint32_t id);
/* Rules in acting order (priority, then file order), the disabled ones included. */
size_t policy_rule_count(const struct policy *policy);
const struct policy_rule *policy_rule_at(const struct policy *policy, size_t index);
/* The rule of that name, or NULL. A linear search: for the admin path. */
const struct policy_rule *policy_rule_find(const struct policy *policy, const char *name,
                                           size_t len);
/* Writes the rule as one flow-style YAML (and JSON) mapping that compiles to the same rule, and a
 * NUL. Returns its length, or TG_ETOOBIG if it does not fit into `capacity`. */
MUST_USE int policy_format_rule(const struct policy_rule *rule, char *out, size_t capacity);

const char *policy_act_name(unsigned act);
const char *policy_class_name(unsigned class);
const char *policy_failure_name(unsigned failure);
const char *policy_consistency_name(unsigned consistency);
const char *policy_scope_name(unsigned scope);

/* Writes the canonical text of an IP address cut to `ipv6_prefix` bits ("2001:db8::/64"; 128 gives
 * the plain address), IPv4 and what is IPv4 in IPv6 whole ("10.1.2.3"). Blanks, a port, brackets
 * and a zone around it are taken off. Returns the length, or 0 if `text` is not an address. `out`
 * has POLICY_IP_TEXT_LEN bytes. */
size_t policy_ip_format(const char *text, size_t len, unsigned ipv6_prefix, char *out);

#endif
