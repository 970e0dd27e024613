/* answered.h - what clients of a shard were answered: by protocol, by outcome, by rule, how soon.
 *
 *   a row is answered --answered_count--> outcomes, its rule, its time
 *                                              |
 *                  of the event at hand: `fresh`, until answered_took tells how long that took
 *
 * A check is counted once, where its client asked, whoever decides it. Its time begins when its
 * message is taken up, and ends when its answer is written.
 *
 * Rules have counts by name, so that these outlive a change of the rules: the first
 * ANSWERED_RULES_MAX of the policy, in acting order. All others are counted together.
 *
 * ANSWERED-1  One thread adds. A reader has a copy, or asks that thread.
 * ANSWERED-2  `rules` has a place for each of the first rules of the policy that was followed last,
 *             in its order, and behind them one for the others.
 *
 * Pure; zeroed to begin with. Small enough to be copied with counters.
 */
#ifndef NODE_CLUSTER_MODEL_ANSWERED_H
#define NODE_CLUSTER_MODEL_ANSWERED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vocabulary.h"
#include "node/policy/model/policy.h"

/* Who asked. Redis clients are one connection to the shard, and so are HTTP clients; every other
 * number is that of a native client. */
enum answered_protocol { ANSWERED_NATIVE, ANSWERED_REDIS, ANSWERED_HTTP, ANSWERED_PROTOCOLS };
#define ANSWERED_REDIS_CONNECTION UINT64_MAX
#define ANSWERED_HTTP_CONNECTION  (UINT64_MAX - 1)

/* What became of a check, as far as its rule goes. */
enum answered_fate {
    ANSWERED_ALLOWED,
    ANSWERED_DENIED,
    ANSWERED_WOULD_DENY, /* the rule is on trial: it would have */
    ANSWERED_FAILED,     /* it was not decided */
    ANSWERED_FATES
};

enum { ANSWERED_BOUNDS = 13, ANSWERED_RULES_MAX = 200 };

/* Upper bounds of the times that are counted together, in ns, rising; behind them: all longer ones.
 */
extern const int64_t answered_bounds_ns[ANSWERED_BOUNDS];

/* Of one protocol. */
struct answered_by {
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t degraded; /* of these */
    uint64_t times[ANSWERED_BOUNDS + 1];
    uint64_t sum_ns; /* of all times */
    uint64_t fresh;  /* answered in the event at hand */
};

struct answered_rule {
    char name[POLICY_NAME_LEN_MAX + 1];
    uint64_t fates[ANSWERED_FATES];
};

struct answered {
    struct answered_by by[ANSWERED_PROTOCOLS];
    uint32_t rule_count;
    struct answered_rule rules[ANSWERED_RULES_MAX + 1];
};

/* The rules are those of `policy` from now on: what was counted of a name stays. */
void answered_follow(struct answered *answered, const struct policy *policy);
/* A check was answered, which had waited for so long; 0: it is of the event at hand. */
void answered_count(struct answered *answered, uint64_t connection, enum outcome outcome,
                    bool degraded, int64_t waited_ns);
/* So many were refused unread, which took no time. */
void answered_refused(struct answered *answered, uint64_t connection, uint32_t count,
                      enum outcome outcome);
/* It was decided by `rule`: of the policy that is followed, or (not `in_force`) of one before. */
void answered_count_rule(struct answered *answered, const struct policy_rule *rule, bool in_force,
                         enum answered_fate fate);
/* How long the event at hand took, in which checks were answered. */
void answered_took(struct answered *answered, int64_t ns);
/* Adds what another shard counted: its times and outcomes, and those of its rules that `sum` has by
 * name; of all others together. */
void answered_join(struct answered *sum, const struct answered *of);

#endif
