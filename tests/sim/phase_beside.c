/* phase_beside.c - phases for which options.c draws a place beside the others.
 *
 *   night   all nodes are killed under load and come back at times of their own, twice histories;
 *                                                                                one limit a night
 *   lag     what a node sends to some is late, and it crashes under load          as crash
 *   alone   nothing passes between one or two nodes and the rest, and keys are asked for that
 *           nobody holds on the one side or on the other                       SIMKEYS-4
 */
#include "tests/sim/phase.h"

enum {
    NIGHTS = 2,
    NIGHT_MAX_MS = 700, /* until the last one is back */
    DAY_MIN_MS = 100,   /* until all are killed again */
    DAY_MAX_MS = 900,
    LAG_KEEPALIVES = 4, /* far below the ten that count as silence */
    LAG_MIN_MS = 30,
    LAG_MAX_MS = 200,
    ALONE_MIN_MS = 700,
    ALONE_MAX_MS = 2000,
};

/* ---- night ----------------------------------------------------------------------------------- */

/* The next night falls in the middle of what the first one left to do: ballots, promises, copies.
 */
static bool night(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (phase_first(sim))
        plan->left = NIGHTS;
    if (plan->left == 0)
        return true;
    plan->left--;
    plan->splits++;
    sim->coverage.nights++;
    for (uint8_t i = 0; i < sim->node_count; i++) {
        if (sim->nodes[i].up)
            faults_crash(sim, &sim->nodes[i]);
        if (sim->nodes[i].member)
            node_start_later(sim, i,
                             (int64_t)random_below(phase_stream(sim), NIGHT_MAX_MS * SIM_MS));
    }
    phase_wait(sim, random_between(phase_stream(sim), DAY_MIN_MS, DAY_MAX_MS));
    return false;
}

static bool morning(struct sim *sim)
{
    if (phase_first(sim))
        faults_end(sim);
    return step_owned(sim);
}

static bool judge_night(struct sim *sim)
{
    check_splits(sim, sim->plan.keys, sim->plan.splits);
    return true;
}

const struct phase_step phase_night[] = {
    {"half", step_some},     {"night", night},      {"morning", morning},
    {"enough", step_enough}, {"drain", step_drain}, {"judge", judge_night},
    {"rest", step_rest},     {"equal", step_equal}, {NULL, NULL},
};

/* ---- lag ------------------------------------------------------------------------------------- */

/* What the victim sends to about half of the others takes long, but not so long that it is missed.
 */
static bool fall_behind(struct sim *sim)
{
    if (!phase_first(sim))
        return true;
    const struct node *victim = node_some_up(sim);
    const int64_t late_ns = (int64_t)sim->options.keepalive_ms * LAG_KEEPALIVES * SIM_MS;
    sim->plan.victim = victim->index;
    for (uint8_t i = 0; i < sim->node_count; i++)
        if (i != victim->index && random_below(phase_stream(sim), 2) == 0 &&
            options_fault(&sim->options, FAULT_SLOW))
            sim->net.links[victim->index][i].slow_ns = late_ns;
    sim->coverage.slow_links++;
    phase_wait(sim, random_between(phase_stream(sim), LAG_MIN_MS, LAG_MAX_MS));
    return false;
}

static bool crash_behind(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    sim->plan.bound += node_unconfirmed(node);
    faults_crash(sim, node);
    return true;
}

static bool judge_lag(struct sim *sim)
{
    check_bound(sim, sim->plan.keys, sim->plan.bound);
    check_charged(sim, sim->plan.keys, sim->plan.bound);
    return true;
}

const struct phase_step phase_lag[] = {
    {"half", step_some},     {"lag", fall_behind},  {"crash", crash_behind},
    {"enough", step_enough}, {"drain", step_drain}, {"audit", step_audit},
    {"judge", judge_lag},    {"back", step_back},   {NULL, NULL},
};

/* ---- alone ----------------------------------------------------------------------------------- */

static bool lend(struct sim *sim)
{
    if (phase_first(sim))
        sim->plan.lent = keys_lent(sim, sim_phase(sim));
    client_load(sim, sim->plan.keys);
    client_lend(sim, sim->plan.lent);
    phase_wait(sim, random_between(phase_stream(sim), 0, 100));
    return true;
}

static bool cut_off(struct sim *sim)
{
    struct random *random = phase_stream(sim);
    const uint32_t one = 1u << random_below(random, sim->node_count);
    const uint32_t other = 1u << random_below(random, sim->node_count);
    const bool at_once = random_below(random, 2) == 0;
    if (!options_fault(&sim->options, FAULT_CUT))
        return true;
    sim->plan.side = one | other;
    sim_tell(sim, 1, "cut %02x off", sim->plan.side);
    net_cut(sim, sim->plan.side, false, at_once);
    sim->coverage.splits++;
    sim->plan.splits++;
    phase_wait(sim, random_between(random, ALONE_MIN_MS, ALONE_MAX_MS));
    return true;
}

static bool heal(struct sim *sim)
{
    net_heal(sim);
    sim_tell(sim, 1, "the split heals");
    phase_wait(sim, random_between(phase_stream(sim), 0, ALONE_MIN_MS));
    return true;
}

static bool judge_alone(struct sim *sim)
{
    check_lent(sim, sim->plan.lent, sim->plan.side);
    check_splits(sim, sim->plan.keys, sim->plan.splits);
    return true;
}

const struct phase_step phase_alone[] = {
    {"lend", lend},          {"cut", cut_off},       {"heal", heal},
    {"enough", step_enough}, {"drain", step_drain},  {"rest", step_rest},
    {"equal", step_equal},   {"judge", judge_alone}, {NULL, NULL},
};
