/* replay_judge.c - one request decided by the limit engine, and summed up; see replay.h.
 *
 *   enforced parts --one group--> allowed? --+--> each shadow part: yes: check   no: peek
 *                                            +--> outcome --> sums of rules, keys and minutes
 *
 * A shadow part that was charged beside a denied request would be given back by a node; a peek says
 * the same without that detour (one whose rule counts denied requests is charged all the same).
 *
 * REPLAY-5  REPLAY-1 to REPLAY-3.
 * REPLAY-6  Every key that the record holds is released (REPLAY-9).
 */
#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "client/replay/replay_state.h"
#include "node/limit/engine/engine.h"
#include "node/policy/index/policy_resolve.h"

enum { ROWS_MAX = POLICY_PARTS_MAX * POLICY_LIMITS_MAX };
static_assert((int)ROWS_MAX >= (int)LIMIT_GROUP_MAX, "a group fits the rows");
static_assert((int)POLICY_LIMITS_MAX <= (int)LIMIT_GROUP_MAX, "a rule's limits fit a group");

/* What the parts of one request meet. */
struct rows {
    size_t count;
    struct hash128 ids[ROWS_MAX];
    const struct limit *limits[ROWS_MAX];
    struct limit placed[ROWS_MAX]; /* those of the calendar, in the window of the moment */
    uint64_t costs[ROWS_MAX];
    uint8_t operations[ROWS_MAX];
    uint8_t flags[ROWS_MAX];
    uint8_t parts[ROWS_MAX];
    uint8_t places[ROWS_MAX]; /* which limit of the part's rule */
    uint8_t status[ROWS_MAX];
    uint8_t allowed[ROWS_MAX];
    uint8_t notes[ROWS_MAX];
    uint64_t used[ROWS_MAX];
};

struct verdicts {
    bool denied[POLICY_PARTS_MAX];
    bool soft[POLICY_PARTS_MAX]; /* allowed above a soft limit */
};

static struct replay_rule *rule_of(struct replay *replay, uint32_t key)
{
    return &replay->rules[callers_at(&replay->callers, key)->rule];
}

bool replay_can_judge(const struct limit *limit)
{
    return limit->algorithm != ALGORITHM_CONCURRENCY;
}

/* Adds the limits of one part. */
static void add_rows(struct replay *replay, const struct replay_record *record, uint8_t part,
                     enum operation operation, struct rows *rows)
{
    const struct caller *caller = callers_at(&replay->callers, record->parts[part]);
    const struct policy_rule *rule = replay->rules[caller->rule].rule;
    const struct limit *limits = rule->limits;
    if (rule->calendars != NULL) {
        memcpy(rows->placed + rows->count, limits, rule->limit_count * sizeof *limits);
        policy_place_calendars(rule, replay->clock_ns, rows->placed + rows->count);
        limits = rows->placed + rows->count;
    }
    for (uint8_t i = 0; i < rule->limit_count; i++) {
        if (!replay_can_judge(&limits[i]))
            continue;
        const size_t at = rows->count++;
        /* Each limit has a state of its own: the caller's hash and the limit's place name it. */
        rows->ids[at] = (struct hash128){caller->hash.lo ^ hash_mix64(i + 1u), caller->hash.hi};
        rows->limits[at] = &limits[i];
        rows->costs[at] = record->cost;
        rows->operations[at] = (uint8_t)operation;
        rows->flags[at] = (uint8_t)(LIMIT_LOADED | (rule->count_denied ? LIMIT_COUNT_DENIED : 0));
        rows->parts[at] = part;
        rows->places[at] = i;
    }
}

/* Has rows from .. from + count - 1 decided as one group. */
static void decide_group(struct replay *replay, struct rows *rows, size_t from, size_t count)
{
    static const uint32_t zeros[LIMIT_GROUP_MAX];
    uint64_t limit[LIMIT_GROUP_MAX];
    uint64_t remaining[LIMIT_GROUP_MAX];
    uint64_t granted[LIMIT_GROUP_MAX];
    int64_t times[3][LIMIT_GROUP_MAX];
    ASSERT(count <= LIMIT_GROUP_MAX);
    if (count == 1) {
        struct limit_decision decision;
        engine_one(replay->table, rows->ids[from], 0, rows->limits[from], rows->costs[from],
                   (enum operation)rows->operations[from], rows->flags[from], replay->clock_ns,
                   &decision);
        rows->status[from] = decision.status;
        rows->allowed[from] = decision.allowed;
        rows->notes[from] = decision.notes;
        rows->used[from] = decision.used;
        return;
    }
    const struct limit_batch batch = {.count = count,
                                      .ids = rows->ids + from,
                                      .vnodes = zeros,
                                      .limits = rows->limits + from,
                                      .costs = rows->costs + from,
                                      .operations = rows->operations + from,
                                      .flags = rows->flags + from,
                                      .groups = zeros};
    struct limit_decisions out = {.status = rows->status + from,
                                  .allowed = rows->allowed + from,
                                  .limit = limit,
                                  .used = rows->used + from,
                                  .remaining = remaining,
                                  .granted = granted,
                                  .reset_after_ns = times[0],
                                  .retry_after_ns = times[1],
                                  .delay_ns = times[2],
                                  .notes = rows->notes + from};
    engine_step(replay->table, &batch, replay->clock_ns, &out);
}

/* Whether all rows allow. One that found no room denies nothing; that is counted. */
static bool all_allow(const struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->status[i] == LIMIT_DECIDED && !rows->allowed[i])
            return false;
    return true;
}

/* Has each run of rows of one part decided by itself. */
static void decide_parts(struct replay *replay, struct rows *rows, enum operation operation,
                         bool only_counting)
{
    for (size_t i = 0, end; i < rows->count; i = end) {
        for (end = i; end < rows->count && rows->parts[end] == rows->parts[i]; end++)
            rows->operations[end] = (uint8_t)operation;
        if (!only_counting || (rows->flags[i] & LIMIT_COUNT_DENIED) != 0)
            decide_group(replay, rows, i, end - i);
    }
}

/* All enforced rows together. More than a group may have are asked first and charged then. */
static void decide_rows(struct replay *replay, struct rows *rows)
{
    if (rows->count <= LIMIT_GROUP_MAX) {
        decide_group(replay, rows, 0, rows->count);
        return;
    }
    ASSERT(rows->count > LIMIT_GROUP_MAX);
    decide_parts(replay, rows, OPERATION_PEEK, false);
    decide_parts(replay, rows, OPERATION_CHECK, !all_allow(rows));
}

/* Writes down what the rows said: per limit, and which parts deny. */
static void note_rows(struct replay *replay, const struct replay_record *record,
                      const struct rows *rows, struct verdicts *verdicts)
{
    for (size_t i = 0; i < rows->count; i++) {
        const uint8_t part = rows->parts[i];
        struct replay_limit *limit = &rule_of(replay, record->parts[part])->limits[rows->places[i]];
        ASSERT(part < record->part_count);
        if (rows->status[i] != LIMIT_DECIDED) {
            replay->totals.no_room++;
            continue;
        }
        if (!rows->allowed[i]) {
            limit->denied++;
            verdicts->denied[part] = true;
        }
        if ((rows->notes[i] & LIMIT_SOFT) != 0) {
            limit->soft++;
            verdicts->soft[part] = true;
        }
        if (rows->used[i] > limit->peak)
            limit->peak = rows->used[i];
    }
}

/* Decides all parts; whether the enforced ones allow. */
static bool decide_limits(struct replay *replay, const struct replay_record *record,
                          struct verdicts *verdicts)
{
    struct rows rows;
    bool allowed = true;
    rows.count = 0;
    for (uint8_t i = 0; i < record->part_count; i++)
        if (!rule_of(replay, record->parts[i])->rule->shadow)
            add_rows(replay, record, i, OPERATION_CHECK, &rows);
    if (rows.count > 0) {
        decide_rows(replay, &rows);
        note_rows(replay, record, &rows, verdicts);
        allowed = all_allow(&rows);
    }
    for (uint8_t i = 0; i < record->part_count; i++) {
        const struct policy_rule *rule = rule_of(replay, record->parts[i])->rule;
        if (!rule->shadow)
            continue;
        rows.count = 0;
        add_rows(replay, record, i,
                 allowed || rule->count_denied ? OPERATION_CHECK : OPERATION_PEEK, &rows);
        if (rows.count == 0)
            continue;
        decide_group(replay, &rows, 0, rows.count);
        note_rows(replay, record, &rows, verdicts);
    }
    return allowed;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Makes sure that the clock's minute has a column. */
static void fit_axis(struct replay *replay)
{
    const unsigned folds = timeline_folds(&replay->axis, replay->clock_ns);
    if (folds == 0)
        return;
    for (size_t i = 0; i <= replay->rule_count; i++)
        if (replay->rules[i].timeline != NULL)
            timeline_fold(replay->rules[i].timeline, folds);
    timeline_axis_fold(&replay->axis, folds);
}

/* Adds the request to the sums of a rule, and to those of a key of it, if there is one. */
static int add_to_rule(struct replay *replay, struct replay_rule *rule, uint32_t key, bool denied)
{
    if (rule->timeline == NULL)
        rule->timeline = alloc_get(replay->options.allocator, sizeof *rule->timeline);
    if (rule->timeline == NULL)
        return TG_ENOMEM;
    const uint32_t column = timeline_column(&replay->axis, replay->clock_ns);
    rule->requests++;
    rule->denied += denied;
    rule->timeline->requests[column]++;
    rule->timeline->denied[column] += denied;
    if (key == CALLERS_NONE)
        return TG_OK;
    struct caller *caller = callers_at(&replay->callers, key);
    ASSERT(caller->held > 0);
    caller->held--; /* REPLAY-6 */
    caller->requests++;
    if (denied && replay->estimates)
        distinct_add(&rule->sketch->denied, caller->hash.hi);
    else if (denied && caller->denied == 0)
        rule->callers_denied++;
    ASSERT(caller->denied < caller->requests);
    caller->denied += denied;
    return TG_OK;
}

/* What of the verdicts makes the request's outcome; an enforced rule's goes before one on trial. */
static enum outcome outcome_allowed(struct replay *replay, const struct replay_record *record,
                                    const struct verdicts *verdicts)
{
    bool shadow_denied = record->shadow_rule != CALLERS_NONE;
    for (uint8_t i = 0; i < record->part_count; i++) {
        if (verdicts->soft[i] && !rule_of(replay, record->parts[i])->rule->shadow)
            return OUTCOME_SOFT_EXCEEDED;
        shadow_denied = shadow_denied || verdicts->denied[i];
    }
    return shadow_denied ? OUTCOME_SHADOW_DENIED : OUTCOME_ALLOW;
}

static enum outcome outcome_of(struct replay *replay, const struct replay_record *record,
                               bool allowed, const struct verdicts *verdicts)
{
    ASSERT(record->part_count <= POLICY_PARTS_MAX);
    const bool blocks = allowed && record->shadow_rule != CALLERS_NONE; /* one on trial */
    if (record->invalid || record->action == POLICY_OVERFLOW)
        return OUTCOME_ERROR;
    switch ((enum policy_action)record->action) {
    case POLICY_UNMATCHED:
        return blocks ? OUTCOME_SHADOW_DENIED : OUTCOME_NO_RULE;
    case POLICY_ALLOW:
        return blocks ? OUTCOME_SHADOW_DENIED : OUTCOME_ALLOW;
    case POLICY_BLOCK:
        return OUTCOME_BLOCKED;
    case POLICY_LIMITS:
        return allowed ? outcome_allowed(replay, record, verdicts) : OUTCOME_DENY;
    default:
        return OUTCOME_DENY; /* a key attribute that must be there is missing */
    }
}

/* The rules that acted, each with its own verdict (REPLAY-2). */
static int add_to_rules(struct replay *replay, const struct replay_record *record,
                        const struct verdicts *verdicts)
{
    int result = TG_OK;
    for (uint8_t i = 0; i < record->part_count && result == TG_OK; i++) {
        struct replay_rule *rule = rule_of(replay, record->parts[i]);
        rule->soft += verdicts->soft[i];
        result = add_to_rule(replay, rule, record->parts[i], verdicts->denied[i]);
    }
    if (result == TG_OK && record->end_rule != CALLERS_NONE)
        result = add_to_rule(replay, &replay->rules[record->end_rule], record->end_key,
                             record->action == POLICY_BLOCK || record->action == POLICY_MISSING);
    if (result == TG_OK && record->shadow_rule != CALLERS_NONE)
        result = add_to_rule(replay, &replay->rules[record->shadow_rule], record->shadow_key, true);
    return result;
}

int replay_judge(struct replay *replay, const struct replay_record *record, int64_t time_ns)
{
    enum { STEP_EVERY = 256 }; /* requests between two portions of the table's housekeeping */
    struct replay_totals *totals = &replay->totals;
    struct verdicts verdicts = {{false}, {false}};
    if (time_ns > replay->clock_ns)
        replay->clock_ns = time_ns;      /* REPLAY-3 */
    ASSERT(replay->clock_ns >= time_ns); /* REPLAY-3 */
    fit_axis(replay);
    bool allowed = record->allowed;
    if (record->part_count > 0)
        allowed = decide_limits(replay, record, &verdicts) && record->allowed;
    for (uint8_t i = 0; replay->options.suggest && i < record->part_count; i++) {
        const struct caller *caller = callers_at(&replay->callers, record->parts[i]);
        suggest_add(&replay->suggest, caller->rule, caller->hash.lo, replay->clock_ns,
                    record->cost);
    }
    if (totals->requests++ == 0)
        totals->first_ns = replay->clock_ns;
    totals->last_ns = replay->clock_ns;
    totals->allowed += allowed;
    totals->outcomes[outcome_of(replay, record, allowed, &verdicts)]++;
    if (totals->requests % STEP_EVERY == 0)
        (void)table_step(replay->table, replay->clock_ns);
    const int result = add_to_rules(replay, record, &verdicts);
    if (result != TG_OK)
        return result;
    return add_to_rule(replay, &replay->rules[replay->rule_count], record->caller, !allowed);
}
