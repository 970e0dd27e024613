/* reasons.c - what the source of a decision says: its limit's window, and why it is not allowed. */
#include "base/assert.h"
#include "node/cluster/shard_state.h"

/* The text of a window that an own limit replaced. */
static struct wire_text own_window_of(struct shard *shard, const struct row *row)
{
    ASSERT(shard->reply.window_count <= WIRE_SOURCES_MAX); /* by source_of */
    char *text = shard->reply.windows[shard->reply.window_count++];
    shard->reply.window_last = (struct quantity_rate){0, 0};
    const struct limit limit = {
        .count = row->limit_shown.count,
        .window_ns = row->limit_shown.window_ns,
        .algorithm = row->limit_shown.algorithm,
        .ordinal = row->limit_shown.ordinal,
    };
    own_limits_window(row->rule, &limit, text);
    return wire_text_of(text);
}

struct wire_text reasons_window(struct shard *shard, const struct row *row)
{
    if (!row->shown)
        return wire_text_of("");
    if (row->rule != NULL)
        for (uint32_t i = 0; i < row->rule->limit_count; i++)
            if (row->rule->limits[i].algorithm == row->limit_shown.algorithm &&
                row->rule->limits[i].ordinal == row->limit_shown.ordinal)
                return row->rule->limits[i].count == row->limit_shown.count || !row->rule->plan
                           ? wire_text_of(row->rule->windows[i])
                           : own_window_of(shard, row);
    const struct quantity_rate rate = {row->limit_shown.count, row->limit_shown.window_ns};
    if (shard->reply.window_count > 0 && shard->reply.window_last.count == rate.count &&
        shard->reply.window_last.window_ns == rate.window_ns)
        return wire_text_of(shard->reply.windows[shard->reply.window_count - 1]);
    ASSERT(shard->reply.window_count <= WIRE_SOURCES_MAX); /* by source_of */
    char *text = shard->reply.windows[shard->reply.window_count++];
    shard->reply.window_last = rate;
    quantity_format_rate(&rate, text);
    return wire_text_of(text);
}

struct wire_text reasons_message(const struct row *row, uint8_t outcome)
{
    const struct policy_rule *rule = row->rule;
    if (row->refusal != NULL)
        return wire_text_of(row->refusal);
    if (rule != NULL && rule->message.len > 0)
        return (struct wire_text){rule->message.data, rule->message.len};
    if (row->why >= WHY_ABSENT && rule != NULL && rule->absent != NULL) {
        const struct policy_text *absent = &rule->absent[row->why - WHY_ABSENT];
        return (struct wire_text){absent->data, absent->len};
    }
    switch (row->why) {
    case WHY_CROWD:
        return wire_text_of(POLICY_CROWD_SENTENCE);
    case WHY_BOUNDS:
        return wire_text_of(POLICY_SPELLING_SENTENCE); /* wire_checks.c bounds each of them */
    case WHY_WORK:
        return wire_text_of("looking for the rules of this message's items takes too long; "
                            "expected fewer items, or rules of which few match so much alike");
    case WHY_FULL:
        if (outcome == OUTCOME_BUSY)
            return wire_text_of(WHY_FULL_SENTENCE);
        break;
    case WHY_HELD:
        if (outcome == OUTCOME_BUSY)
            return wire_text_of("of this key nothing can be reserved or settled now: too few "
                                "replicas could know of it, one is of an older release, or too "
                                "much is reserved; ask again");
        break;
    case WHY_LEASE:
        if (outcome == OUTCOME_DENY)
            return wire_text_of("the lease is over, or there was none");
        break;
    default:
        break;
    }
    if (outcome == OUTCOME_DENY && row->shown && row->retry_after_ns < 0)
        return wire_text_of("the cost is more than the limit ever allows at once");
    return wire_text_of(outcome_sentence(outcome));
}
