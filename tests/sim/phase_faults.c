/* phase_faults.c - phases in which much goes wrong at once.
 *
 *   split   nothing passes between two sides, or from one to the other,   one limit a side; for
 *           under load                                                    sure, what was known
 *   merge   the same far below the limits, then all is asked for          at rest every count holds
 *                                                                         what both sides admitted;
 *                                                                         exactly the limits
 *   chaos   faults of all kinds, one after another, under load            the same
 */
#include "tests/sim/phase.h"

enum { SPLIT_MIN_MS = 50, SPLIT_MAX_MS = 900, HEALED_MS = 1500, CHAOS_MIN = 4, CHAOS_MORE = 8 };

/* ---- split ----------------------------------------------------------------------------------- */

static bool split(struct sim *sim)
{
    struct random *random = phase_stream(sim);
    const uint32_t side = 1 + (uint32_t)random_below(random, (1u << sim->node_count) - 2);
    const bool one_way = random_below(random, 4) == 0;
    const bool at_once = random_below(random, 4) == 0;
    const int64_t ms = random_between(random, SPLIT_MIN_MS, SPLIT_MAX_MS);
    if (!options_fault(&sim->options, one_way ? FAULT_ONE_WAY : FAULT_CUT))
        return true;
    sim_tell(sim, 1, "cut %02x off%s for %lld ms", side, one_way ? ", one way" : "", (long long)ms);
    net_cut(sim, side, one_way, at_once);
    sim->coverage.splits++;
    sim->coverage.one_ways += one_way;
    sim->plan.splits++;
    phase_wait(sim, ms);
    return true;
}

static bool heal(struct sim *sim)
{
    net_heal(sim);
    sim_tell(sim, 1, "the split heals");
    return true;
}

static bool judge(struct sim *sim)
{
    check_splits(sim, sim->plan.keys, sim->plan.splits);
    return true;
}

const struct phase_step phase_split[] = {
    {"half", step_some},     {"split", split},      {"heal", heal},
    {"enough", step_enough}, {"drain", step_drain}, {"judge", judge},
    {"rest", step_rest},     {"equal", step_equal}, {NULL, NULL},
};

/* ---- merge ----------------------------------------------------------------------------------- */

/* Load on both sides, far from the limits: what they admit together is still below them. */
static bool both_sides(struct sim *sim)
{
    const struct key_set set = sim->plan.keys;
    if (phase_first(sim))
        client_load(sim, set);
    for (uint32_t i = set.first; i < set.first + set.count; i++)
        if (sim->keys[i].attempts >= PHASE_HALF)
            return true;
    return phase_not_yet(sim, "clients got too few answers");
}

/* Nothing that one side admitted may be missing from the count, nor be in it twice. */
static bool judge_merge(struct sim *sim)
{
    sim->plan.changed = true;
    check_charged(sim, sim->plan.keys, 0);
    return true;
}

/* The split heals, and what was held up passes again everywhere: a connection may take as long to
 * notice. */
static bool heal_for_good(struct sim *sim)
{
    phase_wait(sim, HEALED_MS);
    return heal(sim);
}

const struct phase_step phase_merge[] = {
    {"few", step_few},      {"drain", step_drain},   {"split", split},
    {"both", both_sides},   {"drain", step_drain},   {"heal", heal_for_good},
    {"rest", step_rest},    {"equal", step_equal},   {"audit", step_audit},
    {"judge", judge_merge}, {"enough", step_enough}, {"drain", step_drain},
    {"audit", step_audit},  {"judge", step_kept},    {NULL, NULL},
};

/* ---- chaos ----------------------------------------------------------------------------------- */

static bool chaos(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (phase_first(sim)) {
        client_load(sim, plan->keys);
        plan->left = CHAOS_MIN + (uint32_t)random_below(phase_stream(sim), CHAOS_MORE);
    }
    if (plan->left == 0)
        return true;
    plan->left--;
    faults_act(sim);
    phase_wait(sim, random_between(phase_stream(sim), 20, 400));
    return false;
}

static bool heal_all(struct sim *sim)
{
    if (phase_first(sim))
        faults_end(sim);
    return step_drain(sim);
}

const struct phase_step phase_chaos[] = {
    {"chaos", chaos},    {"heal", heal_all},    {"judge", judge},
    {"rest", step_rest}, {"equal", step_equal}, {NULL, NULL},
};
