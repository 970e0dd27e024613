/* own_limits.h - limits that one user or one API key has for itself.
 *
 * They are rates of a count per one unit of time, at most one a unit, and the burst of buckets:
 *
 *   500/h  20000/day  300000/month  burst 50
 *
 * On top of a rule each replaces the limit of the same window: its count changes, while algorithm,
 * calendar and mode stay those of the rule. What the rule has no limit for is added as a
 * token_bucket. The burst replaces that of every bucket.
 *
 *   rule  100/h token_bucket   1000/day fixed_window             counted as (name, user, algorithm,
 *   own   500/h                                  60/min          ordinal), which no rate is part of
 *   ----  500/h token_bucket   1000/day fixed_window   60/min token_bucket
 *
 * The name is that of own_limits_user_rule for every plan, and the ordinal that of the window's
 * unit: so a count outlives a change of plan, as long as the algorithm stays (ordinals.h).
 *
 * OWNLIMITS-1  What is counted does not depend on the own limits: a limit that is replaced keeps
 *              its algorithm and ordinal, an added one has the ordinal of its unit, whatever else
 *              is there.
 * OWNLIMITS-2  What comes out passes limit_validate if what goes in does, whatever the rule's
 *              limits are: rates are bounded, a sliding_log stays at what it can keep, a burst at
 *              what refills in time.
 * OWNLIMITS-3  A limit in flight (concurrency) has no rate, and is never replaced.
 *
 * Pure. Any thread.
 */
#ifndef NODE_POLICY_READERS_OWN_LIMITS_H
#define NODE_POLICY_READERS_OWN_LIMITS_H

#include "base/bytes.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_request.h"

/* Windows that a limit may have here; kept as bits and in ordinals, so no number ever changes. */
enum own_unit {
    OWN_SECOND = 0,
    OWN_MINUTE = 1,
    OWN_HOUR = 2,
    OWN_DAY = 3,
    OWN_WEEK = 4,
    OWN_MONTH = 5,
    OWN_YEAR = 6,
    OWN_UNITS
};

enum {
    OWN_ORDINAL = 128, /* of added limits: this and their unit */
    OWN_MERGED_MAX = POLICY_LIMITS_MAX,
    OWN_ENCODED_MAX = 1 + 8 * (OWN_UNITS + 1), /* bytes of own_limits_put */
    OWN_ERROR_LEN = 200
};
#define OWN_RATE_MAX UINT64_C(1000000) /* per second */

struct own_limits {
    uint64_t counts[OWN_UNITS]; /* 0: none of that window */
    uint64_t burst;             /* 0: none */
};

/* The ordinal of a limit of a plan by its window, of the one with `number` others of its window and
 * algorithm before it: the same as an own limit's of that unit. 0: its window is none of one unit,
 * or it has no rate. */
uint8_t own_limits_ordinal(const struct limit *limit, uint32_t number);

/* Whether there are none. */
bool own_limits_empty(const struct own_limits *own);
/* Whether there is any rate: a burst alone limits nothing by itself. */
bool own_limits_limit(const struct own_limits *own);
/* Adds a rate as people write it: "500/h", "20000/day". 0, or TG_EINVALID with a sentence: no rate,
 * of another window than one unit, too fast, or the second one of its window. */
MUST_USE int own_limits_add(struct own_limits *own, const char *text, size_t len,
                            char error[OWN_ERROR_LEN]);
/* Sets the burst: 1 .. as the rate of a year. 0, or TG_EINVALID with a sentence. */
MUST_USE int own_limits_set_burst(struct own_limits *own, uint64_t burst,
                                  char error[OWN_ERROR_LEN]);
/* The rate of a unit in short, "500/h"; "" if there is none. */
void own_limits_format(const struct own_limits *own, enum own_unit unit,
                       char out[QUANTITY_TEXT_LEN]);

/* At most OWN_ENCODED_MAX bytes; and back: 0 or TG_EPROTOCOL. */
void own_limits_put(const struct own_limits *own, struct bytes_writer *writer);
MUST_USE int own_limits_get(struct bytes_reader *reader, struct own_limits *own);

/* The rule's limits with these on top: at most OWN_MERGED_MAX, the rule's first, in its order.
 * Returns how many; what does not fit any more is left out (a rule with as many limits as there may
 * be has no room for an added one). Where a rule has two limits of one window, both are replaced.
 */
uint32_t own_limits_merge(const struct own_limits *own, const struct policy_rule *rule,
                          struct limit out[OWN_MERGED_MAX]);
/* The limits of a part, own ones on top where it has any; the same. */
uint32_t own_limits_of(const struct policy_part *part, struct limit out[OWN_MERGED_MAX]);
/* The text of the window of a merged limit: as the rule writes it, with the own count. */
void own_limits_window(const struct policy_rule *rule, const struct limit *merged,
                       char out[QUANTITY_TEXT_LEN]);

/* The rules whose limits are own ones alone: "user quota", key [user], where no plan acts; and "api
 * key", key [api_key]. They have no limits and no windows of their own. Static storage. */
const struct policy_rule *own_limits_user_rule(void);
const struct policy_rule *own_limits_key_rule(void);

#endif
