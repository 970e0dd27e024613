/* steps.c - the steps that several phases have: asking, waiting for rest, judging. */
#include "tests/sim/phase.h"

#include <string.h>

enum { QUIET_MS = 80 };

static const struct key_set no_keys = {0, 0};

static bool asked(struct sim *sim, uint64_t enough)
{
    if (phase_first(sim))
        client_load(sim, sim->plan.keys);
    if (keys_attempts(sim, sim->plan.keys) >= enough)
        return true;
    return phase_not_yet(sim, "clients got too few answers");
}

bool step_few(struct sim *sim)
{
    return asked(sim, PHASE_FEW);
}

bool step_some(struct sim *sim)
{
    return asked(sim, PHASE_HALF);
}

bool step_enough(struct sim *sim)
{
    return asked(sim, PHASE_ENOUGH);
}

bool step_drain(struct sim *sim)
{
    if (phase_first(sim))
        client_load(sim, no_keys);
    return client_idle(sim) || phase_not_yet(sim, "clients still wait");
}

/* Whether all members run, and one of them has told nobody of a change: a phase that lost messages
 * leaves copies under way behind it, which take their time. While one is down its vnodes may have
 * nobody to tell. */
static bool is_spreading(const struct sim *sim)
{
    uint64_t unconfirmed = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (sim->nodes[i].member && !sim->nodes[i].up)
            return false;
        unconfirmed += node_unconfirmed(&sim->nodes[i]);
    }
    return unconfirmed > 0;
}

bool step_quiet(struct sim *sim)
{
    if (!step_drain(sim))
        return false;
    if (is_spreading(sim))
        return phase_not_yet(sim, "changes are not confirmed yet");
    phase_wait(sim, QUIET_MS);
    return true;
}

bool step_audit(struct sim *sim)
{
    const struct key_set set = sim->plan.keys;
    if (phase_first(sim))
        client_audit(sim, set);
    if (!client_idle(sim))
        return phase_not_yet(sim, "the audit waits for an answer");
    for (uint32_t i = set.first; i < set.first + keys_exact(set); i++) {
        if (sim->keys[i].audited)
            continue;
        client_audit(sim, set); /* some were not decided: once more */
        return phase_not_yet(sim, "a key could not be looked at");
    }
    client_load(sim, no_keys);
    return true;
}

bool step_flushed(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].up && !node_flushed(&sim->nodes[i]))
            return phase_not_yet(sim, "something is not on disk");
    return true;
}

bool step_owned(struct sim *sim)
{
    char why[SIM_WHY_LEN];
    return check_owned(sim, why) || phase_not_yet(sim, why);
}

bool step_rest(struct sim *sim)
{
    char why[SIM_WHY_LEN];
    const uint64_t took_ms = (uint64_t)((sim->now_ns - sim->plan.entered_ns) / SIM_MS);
    if (!check_converged(sim, why) || !settings_agree(sim, why))
        return phase_not_yet(sim, why);
    if (took_ms > sim->coverage.settle_ms_max)
        sim->coverage.settle_ms_max = took_ms;
    return true;
}

/* What a denied check had been granted elsewhere is given back when it has its answer already: so
 * what is held is compared in a moment in which all claim to hold the same. */
bool step_equal(struct sim *sim)
{
    char why[SIM_WHY_LEN];
    if (!check_converged(sim, why))
        return phase_not_yet(sim, why);
    if (!check_equal(sim, why))
        sim_fail(sim, "%s: %s", sim_phase(sim), why); /* SIMREST-1 */
    return true;
}

/* A node that was told to stop, and came to it after faults had ended, starts again as well. */
static void start_stopped(struct sim *sim)
{
    if (sim->now_ns - sim->plan.entered_ns < SIM_SEC)
        return; /* those that faults_end has started may be under way */
    for (uint8_t i = 0; i < sim->node_count; i++)
        if (!sim->nodes[i].up && sim->nodes[i].member)
            node_start_later(sim, i, 0);
}

bool step_back(struct sim *sim)
{
    if (phase_first(sim))
        faults_end(sim);
    else
        start_stopped(sim);
    return step_rest(sim);
}

bool step_exact(struct sim *sim)
{
    check_exact(sim, sim->plan.keys);
    check_charged(sim, sim->plan.keys, 0);
    return true;
}

bool step_kept(struct sim *sim)
{
    sim->plan.changed = true;
    return step_exact(sim);
}
