/* phase_health.c - steps in which members tell what is wrong with them
 * (node/cluster/model/health.h).
 *
 *   ill    a member has troubles, and every other one knows them within two seconds
 *   told   however others lied about it, all know what each tells of itself
 *
 * SIMHEALTH-1  What is wrong with a member is known to every other one within two seconds.
 * SIMHEALTH-2  However others lied about a member, all know what it tells of itself.
 *
 * Which troubles is drawn from the seed alone, so that no other draw of a phase depends on it.
 */
#include "base/hash.h"
#include "node/cluster/control/control_state.h"
#include "tests/sim/phase.h"

enum { SPREAD_MS = 2000, FAR_MS = 6000, LIED_MS = 20000 };

uint32_t health_draw(const struct sim *sim, uint64_t turn)
{
    const uint32_t all = HEALTH_BIT(HEALTH_TROUBLES) - 1;
    return (uint32_t)hash_mix64(sim->options.seed ^ turn << 32 ^ (uint64_t)sim->plan.step) & all;
}

void health_trouble(struct sim *sim, struct node *node, uint32_t troubles)
{
    control_trouble(node->control, shell_clock(sim, node), troubles);
    shell_control_tick_at(sim, node, sim->now_ns + 1);
    sim->coverage.troubles++;
}

/* Whether `one` knows what `other` tells of itself. */
static bool knows(const struct node *one, const struct node *other)
{
    const struct swim_member *member = swim_find(one->control->swim, other->id);
    return member != NULL && health_of_flags(member->record.flags) == other->control->health.told;
}

static bool all_know(struct sim *sim, int64_t within_ms, const char *rule)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *one = &sim->nodes[i];
        for (uint32_t k = 0; one->up && one->member && k < sim->node_count; k++) {
            const struct node *other = &sim->nodes[k];
            if (k == i || !other->up || !other->member || knows(one, other))
                continue;
            if (sim->now_ns - sim->plan.entered_ns > within_ms * SIM_MS)
                sim_fail(sim, "%s: n%u does not know what is wrong with n%u", rule, i, k);
            return phase_not_yet(sim, "somebody does not know what is wrong with somebody");
        }
    }
    return true;
}

bool step_ill(struct sim *sim)
{
    if (phase_first(sim)) {
        uint32_t at = (uint32_t)(sim->options.seed % sim->node_count);
        while (!sim->nodes[at].up || !sim->nodes[at].member)
            at = (at + 1) % sim->node_count;
        health_trouble(sim, &sim->nodes[at], health_draw(sim, 0));
    }
    return all_know(sim, sim->options.far ? FAR_MS : SPREAD_MS, "SIMHEALTH-1");
}

bool step_told(struct sim *sim)
{
    for (uint32_t i = 0; phase_first(sim) && i < sim->node_count; i++)
        if (sim->nodes[i].up && sim->nodes[i].member)
            health_trouble(sim, &sim->nodes[i], 0);
    return all_know(sim, LIED_MS, "SIMHEALTH-2");
}
