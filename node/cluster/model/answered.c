/* answered.c - see answered.h. */
#include "node/cluster/model/answered.h"

#include <string.h>

#include "base/assert.h"

#define US INT64_C(1000)
#define MS (1000 * US)

const int64_t answered_bounds_ns[ANSWERED_BOUNDS] = {
    50 * US, 100 * US, 250 * US, 500 * US, 1 * MS,   5 * MS / 2, 5 * MS,
    10 * MS, 25 * MS,  50 * MS,  100 * MS, 250 * MS, 1000 * MS,
};

/* ---- rules ----------------------------------------------------------------------------------- */

static struct answered_rule *others(struct answered *answered)
{
    ASSERT(answered->rule_count <= ANSWERED_RULES_MAX); /* ANSWERED-2 */
    return &answered->rules[answered->rule_count];
}

/* The place of that name, looked for from `hint` on; the others' if it has none. */
static struct answered_rule *place_of(struct answered *answered, const char *name, uint32_t hint)
{
    for (uint32_t i = 0; i < answered->rule_count; i++) {
        struct answered_rule *rule = &answered->rules[(hint + i) % answered->rule_count];
        if (strcmp(rule->name, name) == 0)
            return rule;
    }
    return others(answered);
}

static void add_fates(struct answered_rule *rule, const struct answered_rule *more)
{
    for (int i = 0; i < ANSWERED_FATES; i++)
        rule->fates[i] += more->fates[i];
}

void answered_follow(struct answered *answered, const struct policy *policy)
{
    struct answered before = *answered;
    const size_t rules = policy_rule_count(policy);
    const uint32_t count = rules < ANSWERED_RULES_MAX ? (uint32_t)rules : ANSWERED_RULES_MAX;
    memset(answered->rules, 0, sizeof answered->rules);
    for (uint32_t at = 0; at < count; at++) {
        const struct policy_text *name = &policy_rule_at(policy, at)->name;
        struct answered_rule *rule = &answered->rules[at];
        ASSERT(name->len <= POLICY_NAME_LEN_MAX);
        memcpy(rule->name, name->data, name->len);
        const struct answered_rule *known = place_of(&before, rule->name, at);
        if (known != others(&before))
            add_fates(rule, known);
    }
    add_fates(&answered->rules[count], others(&before));
    answered->rule_count = count; /* ANSWERED-2 */
}

void answered_count_rule(struct answered *answered, const struct policy_rule *rule, bool in_force,
                         enum answered_fate fate)
{
    struct answered_rule *place;
    if (!in_force)
        place = place_of(answered, rule->name.data, 0);
    else
        place = rule->rank < answered->rule_count ? &answered->rules[rule->rank] : others(answered);
    place->fates[fate]++;
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum answered_protocol protocol_of(uint64_t connection)
{
    if (connection == ANSWERED_REDIS_CONNECTION)
        return ANSWERED_REDIS;
    return connection == ANSWERED_HTTP_CONNECTION ? ANSWERED_HTTP : ANSWERED_NATIVE;
}

static void add_times(struct answered_by *by, int64_t ns, uint64_t count)
{
    unsigned at = 0;
    if (ns < 0)
        ns = 0;
    while (at < ANSWERED_BOUNDS && ns > answered_bounds_ns[at])
        at++;
    by->times[at] += count;
    by->sum_ns += (uint64_t)ns * count;
}

void answered_count(struct answered *answered, uint64_t connection, enum outcome outcome,
                    bool degraded, int64_t waited_ns)
{
    struct answered_by *by = &answered->by[protocol_of(connection)];
    ASSERT((unsigned)outcome < OUTCOME_COUNT);
    by->outcomes[outcome]++;
    by->degraded += degraded;
    if (waited_ns > 0)
        add_times(by, waited_ns, 1);
    else
        by->fresh++;
}

void answered_refused(struct answered *answered, uint64_t connection, uint32_t count,
                      enum outcome outcome)
{
    ASSERT((unsigned)outcome < OUTCOME_COUNT);
    answered->by[protocol_of(connection)].outcomes[outcome] += count;
}

void answered_took(struct answered *answered, int64_t ns)
{
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++) {
        struct answered_by *by = &answered->by[i];
        if (by->fresh > 0)
            add_times(by, ns, by->fresh);
        by->fresh = 0;
    }
}

static void join_by(struct answered_by *sum, const struct answered_by *of)
{
    for (int i = 0; i < OUTCOME_COUNT; i++)
        sum->outcomes[i] += of->outcomes[i];
    for (int i = 0; i <= ANSWERED_BOUNDS; i++)
        sum->times[i] += of->times[i];
    sum->degraded += of->degraded;
    sum->sum_ns += of->sum_ns;
}

void answered_join(struct answered *sum, const struct answered *of)
{
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++)
        join_by(&sum->by[i], &of->by[i]);
    for (uint32_t i = 0; i < of->rule_count; i++)
        add_fates(place_of(sum, of->rules[i].name, i), &of->rules[i]);
    add_fates(others(sum), &of->rules[of->rule_count]);
}
