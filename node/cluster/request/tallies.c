/* tallies.c - see tallies.h. What is a peek has an outcome and takes time, but no rule counts it.
 */
#include "node/cluster/request/tallies.h"

#include "node/cluster/shard_state.h"

static void count_one(struct shard *shard, uint64_t hash, const struct row *row, bool exceeded)
{
    const uint64_t now_ms = (uint64_t)(shard->now_ns / MS);
    if (hash == 0)
        return;
    if (row->lease_used == 0 && (!row->held || row->reserves))
        usage_tally_add(shard->tallies.usage, hash, exceeded, now_ms);
    else if (row->lease_used != 0 && row->held)
        usage_tally_add_used(shard->tallies.usage, hash, row->lease_used, now_ms);
}

/* What is told of a request is counted for its user and its API key. A lease of tokens is none:
 * what was admitted with it is, as soon as that is told. */
static void count_usage(struct shard *shard, const struct row *row, bool exceeded)
{
    if (shard->tallies.usage == NULL)
        return;
    count_one(shard, row->user_hash, row, exceeded);
    count_one(shard, row->key_hash, row, exceeded);
}

void tallies_refused(struct shard *shard, uint64_t connection, uint32_t count, uint8_t outcome)
{
    answered_refused(&shard->tallies.answered, connection, count, outcome);
}

static enum answered_fate fate_of(uint8_t outcome)
{
    if (outcome == OUTCOME_BUSY || outcome == OUTCOME_ERROR)
        return ANSWERED_FAILED;
    return outcome == OUTCOME_DENY || outcome == OUTCOME_BLOCKED ? ANSWERED_DENIED
                                                                 : ANSWERED_ALLOWED;
}

/* Whether what was allowed leaves less than a fifth of the limit that decided. */
static bool is_near(const struct row *row)
{
    return row->shown && row->limit > 0 && row->remaining < row->limit / 5 + (row->limit % 5 != 0);
}

/* A block by an operator has a rule of its own, which is none of the policy's. */
static void count_rule(struct shard *shard, const struct policy_rule *rule, const struct row *row,
                       uint8_t outcome, enum answered_fate fate)
{
    const struct policy *policy = shard->policies[shard->policy].policy;
    const bool in_force =
        rule->rank < policy_rule_count(policy) && policy_rule_at(policy, rule->rank) == rule;
    const bool denied = outcome == OUTCOME_DENY;
    if (in_force && fate != ANSWERED_WOULD_DENY) {
        busiest_count(&shard->stats.busiest[BUSIEST_ALL], policy_digest(policy), rule->rank, denied,
                      shard->now_ns);
        if (denied || (fate == ANSWERED_ALLOWED && is_near(row)))
            busiest_count(&shard->stats.busiest[BUSIEST_PRESSED], policy_digest(policy), rule->rank,
                          denied, shard->now_ns);
    }
    if (in_force || outcome != OUTCOME_BLOCKED)
        answered_count_rule(&shard->tallies.answered, rule, in_force, fate);
}

void tallies_count(struct shard *shard, uint64_t connection, int64_t begun_ns,
                   const struct row *row, uint8_t outcome)
{
    answered_count(&shard->tallies.answered, connection, outcome, row->degraded,
                   shard->now_ns - begun_ns);
    if ((row->user_hash | row->key_hash) != 0)
        count_usage(shard, row, outcome == OUTCOME_DENY && row->shown); /* by a limit */
    if (row->looks)
        return;
    if (row->rule != NULL && row->rule != row->shadow)
        count_rule(shard, row->rule, row, outcome, fate_of(outcome));
    if (row->shadow != NULL)
        count_rule(shard, row->shadow, row, outcome, ANSWERED_WOULD_DENY);
}
