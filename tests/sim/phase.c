/* phase.c - the list of phases, and how a run goes from one to the next; phase.h tells of them.
 *
 * A phase begins with new keys and a clean slate: nothing was lost, no leader has changed.
 */
#include "tests/sim/phase.h"

#include <stdio.h>
#include <string.h>

/* Narrow channels hold four frames in flight: a copy of keys that are on disk, each of them a
 * frame, takes minutes then. */
enum { STEP_MS = 3, PATIENCE_MS = 60000, PATIENCE_NARROW_MS = 240000 };

static const struct phase phases[] = {
    {"form", 0, true, NULL, phase_form},
    {"end", 0, true, NULL, phase_end},
    {"idle", 3, true, NULL, phase_idle},
    {"return", 4, true, NULL, phase_return},
    {"bounce", 5, true, NULL, phase_bounce},
    {"crash", 6, true, NULL, phase_crash},
    {"deaf", 3, true, NULL, phase_deaf},
    {"rules", 2, true, NULL, phase_rules},
    {"roll", 5, true, NULL, phase_roll},
    {"join", 4, true, phase_join_fits, phase_join},
    {"replace", 1, true, NULL, phase_replace},
    {"dark", 4, true, NULL, phase_dark},
    {"drain", 4, true, NULL, phase_drain},
    {"remove", 2, true, NULL, phase_remove},
    {"force", 1, false, NULL, phase_force},
    {"flood", 2, true, NULL, phase_flood},
    {"full", 2, true, NULL, phase_full},
    {"split", 6, false, NULL, phase_split},
    {"merge", 5, false, NULL, phase_merge},
    {"chaos", 8, false, NULL, phase_chaos},
    {"night", 0, false, NULL, phase_night}, /* it, lag, alone, shift are drawn beside: options.c */
    {"lag", 0, true, NULL, phase_lag},
    {"alone", 0, false, NULL, phase_alone},
    {"starve", 0, true, NULL, phase_starve},
    {"shift", 0, false, NULL, phase_shift},
    {"apart", 0, true, NULL, phase_apart},
    {"orphan", 0, true, NULL, phase_orphan},
    {"borrow", 0, false, NULL, phase_borrow},
    {"relay", 0, true, NULL, phase_relay},
    {"lease", 0, false, NULL, phase_lease},
    {"hold", 0, false, NULL, phase_hold},
    {"abroad", 0, true, phase_remote_fits, phase_remote},
    {"brim", 0, true, NULL, phase_brim},
    {"press", 0, true, NULL, phase_press},
    {"global", 0, false, phase_remote_fits, phase_global},
    {"wild", 0, true, NULL, phase_wild},
    {"echo", 0, true, NULL, phase_echo},
    {"clocks", 0, false, NULL, phase_clocks}, /* whose clock has no say is deposed while it lives */
    {"reserve", 0, false, NULL, phase_reserve},
};

const struct phase *phase_at(uint32_t index)
{
    return &phases[index];
}

uint32_t phase_count(void)
{
    return sizeof phases / sizeof *phases;
}

int phase_find(const char *name, size_t len)
{
    for (uint32_t i = 0; i < phase_count(); i++)
        if (strlen(phases[i].name) == len && memcmp(phases[i].name, name, len) == 0)
            return (int)i;
    return -1;
}

const char *sim_phase(const struct sim *sim)
{
    return sim->plan.phase->name;
}

/* ---- from phase to phase --------------------------------------------------------------------- */

static void enter_step(struct sim *sim, uint32_t step)
{
    struct plan *plan = &sim->plan;
    plan->step = step;
    plan->entered = false;
    plan->entered_ns = sim->now_ns;
    if (plan->phase->steps[step].run != NULL)
        sim_tell(sim, 1, "---- %s: %s", plan->phase->name, plan->phase->steps[step].name);
}

static void enter_phase(struct sim *sim, const struct phase *phase)
{
    struct plan *plan = &sim->plan;
    plan->phase = phase;
    plan->strict = phase->strict;
    plan->changed = false;
    plan->bound = 0;
    plan->splits = 0;
    plan->orphans = 0;
    plan->resent = nodes_resent(sim);
    plan->undo_lost = nodes_undo_lost(sim);
    plan->next_ns = sim->now_ns;
    plan->keys = keys_new(sim, phase->name, PHASE_KEYS);
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        sim->fronts[vnode].lost = 0;
    check_merge_phase(sim);
    sim->coverage.phases++;
    enter_step(sim, 0);
}

/* Whether there is time for another phase. */
static bool more(const struct sim *sim)
{
    const struct options *options = &sim->options;
    if (sim->plan.phase_next >= options->phase_count)
        return false;
    return options->phases_given || sim->events < options->events;
}

static void next_phase(struct sim *sim)
{
    history_judge(sim, sim->plan.keys);
    while (more(sim)) {
        const struct phase *phase = phase_at(sim->options.phases[sim->plan.phase_next++]);
        if (phase->fits != NULL && !phase->fits(sim))
            continue;
        enter_phase(sim, phase);
        return;
    }
    enter_phase(sim, phase_at(1));
}

void phase_init(struct sim *sim)
{
    const struct event event = {.at_ns = sim->now_ns, .kind = EVENT_PLAN};
    memset(&sim->plan, 0, sizeof sim->plan);
    queue_push(&sim->queue, &event);
    enter_phase(sim, phase_at(0));
}

static void step(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    const bool over = plan->phase->steps[plan->step].run(sim);
    plan->entered = true;
    if (!over)
        return;
    enter_step(sim, plan->step + 1);
    if (plan->phase->steps[plan->step].run != NULL)
        return;
    if (plan->phase == phase_at(1)) {
        history_judge(sim, plan->keys);
        plan->done = true;
    } else {
        next_phase(sim);
    }
}

void phase_event(struct sim *sim)
{
    settings_operate(sim);
    if (sim->now_ns >= sim->plan.next_ns)
        step(sim);
    const struct event event = {.at_ns = sim->now_ns + STEP_MS * SIM_MS, .kind = EVENT_PLAN};
    queue_push(&sim->queue, &event);
}

/* ---- for steps ------------------------------------------------------------------------------- */

bool phase_first(struct sim *sim)
{
    return !sim->plan.entered;
}

void phase_wait(struct sim *sim, int64_t ms)
{
    sim->plan.next_ns = sim->now_ns + ms * SIM_MS;
}

bool phase_not_yet(struct sim *sim, const char *why)
{
    const struct plan *plan = &sim->plan;
    const int64_t patience_ms = sim->options.narrow ? PATIENCE_NARROW_MS : PATIENCE_MS;
    sim_tell(sim, 3, "not yet: %s", why);
    if (sim->now_ns - plan->entered_ns > patience_ms * SIM_MS)
        sim_fail(sim, "%s, %s: takes too long: %s", plan->phase->name,
                 plan->phase->steps[plan->step].name, why);
    return false;
}

struct random *phase_stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_FAULTS);
}
