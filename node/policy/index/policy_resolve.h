/* policy_resolve.h - from the attributes of a request to the limits that apply to it.
 *
 *   attributes --> [index: few candidates] --> rules by priority, then file order
 *        allow  ends the search: rules below it do not apply, limits found above it stay
 *        block  ends the search: nothing is charged, the request is blocked
 *        throttle  adds one part: its limits, counted under its key attributes' values
 *
 * Rules of one group: only the first that applies (the highest priority) counts. A rule whose key
 * attribute is absent does not apply under `missing: skip` (it leaves its group open), and ends the
 * search under `missing: deny`. Shadow rules never change what the others do: they neither
 * close a group for an enforced rule, nor end the search, nor count as a match of `unmatched`.
 *
 * A tier (`tiers:`) is compiled to a rule like the others; tier_reader.c tells to which.
 *
 * Any number of threads may resolve with one policy.
 */
#ifndef NODE_POLICY_INDEX_POLICY_RESOLVE_H
#define NODE_POLICY_INDEX_POLICY_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_request.h"

enum policy_action {
    POLICY_UNMATCHED, /* no rule matches: outcome no_rule; `allowed` says which way. Not allowed, it
                         may have parts, all of shadow rules: charged each by itself, on trial */
    POLICY_LIMITS,    /* charge all parts: the request is allowed iff all enforced parts allow */
    POLICY_ALLOW,     /* an allow rule bypasses all limits: outcome allow */
    POLICY_BLOCK,     /* a block rule denies at once: outcome blocked */
    POLICY_MISSING,   /* a key attribute of a `missing: deny` rule is absent: outcome deny */
    POLICY_OVERFLOW /* more than POLICY_PARTS_MAX rules match: outcome error, never a lost limit */
};

/* Everything in it points into the policy, the request's attributes or the result itself: it must
 * not be copied or outlive them. */
struct policy_result {
    enum policy_action action;
    bool allowed;                     /* UNMATCHED, ALLOW: true unless `unmatched: deny` */
    const struct policy_rule *rule;   /* the rule that ended the search, or NULL */
    const struct policy_rule *shadow; /* the first shadow rule that would have blocked, or NULL */
    struct policy_text missing;       /* MISSING: the absent attribute's name */
    uint32_t part_count;              /* by priority; LIMITS: 1.., UNMATCHED: 0.., else 0 */
    uint32_t asked;                   /* work done: places of the index looked at, .. */
    uint32_t compared;                /* .. rules compared with the request, .. */
    uint64_t steps;                   /* .. and steps of comparing values (policy_pattern.h) */
    struct policy_part parts[POLICY_PARTS_MAX];
    struct policy_spelling spelling;
    /* scratch: addresses cut for each part's key */
    char ip_key[POLICY_PARTS_MAX][POLICY_KEY_ATTRIBUTES_MAX][POLICY_IP_TEXT_LEN];
};

/* Finds what applies to a request. Allocates nothing; its cost depends on the rules that may match,
 * not on how many there are. Values are taken in the one spelling of each (attribute_kind.h). Empty
 * values count as absent; of several attributes of one name the first that is not empty counts.
 * Returns 0, or TG_EINVALID when there are more than POLICY_ATTRIBUTES_MAX attributes, a name or
 * value is longer than its maximum, or values in another spelling are longer than
 * POLICY_SPELLING_LEN together (`out` is then POLICY_UNMATCHED and not allowed). */
MUST_USE int policy_resolve(const struct policy *policy, const struct policy_attribute *attributes,
                            size_t count, struct policy_result *out);

/* Why a rule acts on a request, or does not. */
enum policy_why {
    POLICY_WHY_ACTS,        /* it throttles, allows, blocks, or denies for a missing attribute */
    POLICY_WHY_DISABLED,    /* enabled: false */
    POLICY_WHY_ABSENT,      /* `attribute` is matched, and the request has none */
    POLICY_WHY_VALUE,       /* `attribute` is matched, and none of its values matches `found` */
    POLICY_WHY_GROUP,       /* `by` applies first of its group */
    POLICY_WHY_NOT_COUNTED, /* `attribute` is in the key, and the request has none: missing: skip */
    POLICY_WHY_ENDED,       /* `by` ended the search */
    POLICY_WHY_DOMAIN,      /* it is of a domain's descriptors, which attributes never meet */
    POLICY_WHY_COUNT
};

struct policy_reason {
    enum policy_why why;
    struct policy_text attribute;        /* its name, or len 0 */
    struct policy_text found;            /* the request's value of it, or len 0 */
    const struct policy_match *expected; /* VALUE, ABSENT: what is matched, or NULL */
    const struct policy_rule *by;        /* GROUP, ENDED; else NULL */
};

/* Resolves a request as policy_resolve does, by looking at every rule, and tells for each one of
 * policy_rule_at(0 ..) why it acts or does not: `reasons` has room for policy_rule_count of them,
 * and points where `out` points. For people: its cost is that of all rules. Returns as
 * policy_resolve does; on an error no reason is given. */
MUST_USE int policy_explain(const struct policy *policy, const struct policy_attribute *attributes,
                            size_t count, struct policy_result *out, struct policy_reason *reasons);
/* "acts", "disabled", "absent", "value", "group", "not_counted", "ended", "domain". Static storage.
 */
const char *policy_why_name(enum policy_why why);
/* What policy_resolve and policy_explain refuse these attributes for, likewise: which one it is,
 * what was found and what was expected. */
void policy_bounds_format(const struct policy_attribute *attributes, size_t count, char *out,
                          size_t capacity);
/* The reason as a sentence without a final stop and its NUL, cut to `capacity` bytes. */
void policy_reason_format(const struct policy_rule *rule, const struct policy_reason *reason,
                          char *out, size_t capacity);

#endif
