/* phase_abroad.c - a second region, or two: they are founded, cut off, and lose nodes, beside one
 * that serves.
 *
 *   found    nodes of other regions start at once; those of each become a ring of their own
 *   cut      nothing passes to and from the others, one way or both; nodes in another region die
 * and come back; operators go on changing settings in all of them (settings.c) heal     all are at
 * rest: one history of settings, a ring each, voters in all
 *
 * SIMABROAD-1  Whatever happens to other regions, limits here are kept to the token.
 * SIMABROAD-2  Of each vnode there is one leader in each region, at most (SIMCHECK-3), and one at
 *              rest.
 *
 * Clients ask here alone, so what is judged of keys is of this region.
 */
#include "tests/sim/phase.h"

enum {
    START_MAX_MS = 400,
    CUT_MIN_MS = 200,
    CUT_MAX_MS = 25000, /* longer than it takes to miss a region */
    DOWN_MAX_MS = 3000,
};

static uint8_t some_remote(struct sim *sim)
{
    return (uint8_t)(sim->node_count +
                     random_below(phase_stream(sim), sim->all_count - sim->node_count));
}

bool step_regions(struct sim *sim)
{
    char why[SIM_WHY_LEN];
    return (check_converged(sim, why) && check_remote(sim, why) && settings_spread(sim, why) &&
            settings_agree(sim, why)) ||
           phase_not_yet(sim, why);
}

bool step_found(struct sim *sim)
{
    for (uint32_t i = sim->node_count; phase_first(sim) && i < sim->all_count; i++) {
        struct node *node = &sim->nodes[i];
        node->member = true;
        if (!node->up)
            node_start_later(sim, (uint8_t)i,
                             (int64_t)random_below(phase_stream(sim), START_MAX_MS * SIM_MS));
    }
    return step_regions(sim);
}

static bool cut(struct sim *sim)
{
    struct random *random = phase_stream(sim);
    const bool one_way =
        random_below(random, 4) == 0 && options_fault(&sim->options, FAULT_ONE_WAY);
    if (!options_fault(&sim->options, FAULT_CUT))
        return true;
    sim_tell(sim, 1, "the region abroad is cut off%s", one_way ? ", one way" : "");
    net_cut(sim, nodes_remote(sim), one_way, random_below(random, 2) == 0);
    sim->coverage.regions_cut++;
    phase_wait(sim, random_between(random, CUT_MIN_MS, CUT_MAX_MS));
    return true;
}

static bool crash(struct sim *sim)
{
    const uint8_t at = some_remote(sim);
    if (options_fault(&sim->options, FAULT_CRASH) && random_below(phase_stream(sim), 2) == 0) {
        faults_crash(sim, &sim->nodes[at]);
        node_start_later(sim, at, (int64_t)random_below(phase_stream(sim), DOWN_MAX_MS * SIM_MS));
    }
    return true;
}

static bool heal(struct sim *sim)
{
    net_heal(sim);
    sim_tell(sim, 1, "the regions see each other again");
    return true;
}

const struct phase_step phase_remote[] = {
    {"found", step_found}, {"some", step_some},     {"cut", cut},          {"crash", crash},
    {"heal", heal},        {"enough", step_enough}, {"drain", step_drain}, {"audit", step_audit},
    {"exact", step_exact}, {"rest", step_regions},  {"equal", step_equal}, {NULL, NULL},
};

/* Who decides keys of consistency quorum in another region is not looked at. */
bool phase_remote_fits(const struct sim *sim)
{
    return !sim->options.quorum;
}
