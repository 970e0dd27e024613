/* phase_order.c - phases in which nodes come and go as they should.
 *
 *   roll      nodes stop in order and come back, under load     nothing lost but repeated checks
 *                                                               charged twice
 *   join      a new node joins under load                       the same
 *   replace   a node comes back without its disk                exactly the limits
 */
#include "tests/sim/phase.h"

/* ---- roll ------------------------------------------------------------------------------------ */

static bool stop_one(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    if (phase_first(sim)) {
        node = node_some_up(sim);
        sim->plan.victim = node->index;
        node_stop(sim, node);
    }
    return !node->up || phase_not_yet(sim, "the node does not stop");
}

static bool start_again(struct sim *sim)
{
    if (phase_first(sim)) {
        node_start_later(sim, sim->plan.victim,
                         (int64_t)random_below(phase_stream(sim), 200 * SIM_MS));
        phase_wait(sim, 200);
        return false;
    }
    return step_owned(sim);
}

const struct phase_step phase_roll[] = {
    {"half", step_some},     {"stop", stop_one},     {"start", start_again},
    {"stop more", stop_one}, {"start", start_again}, {"enough", step_enough},
    {"drain", step_drain},   {"rest", step_rest},    {"audit", step_audit},
    {"judge", step_kept},    {NULL, NULL},
};

/* ---- join ------------------------------------------------------------------------------------ */

static int spare(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (!sim->nodes[i].member)
            return (int)i;
    return -1;
}

bool phase_join_fits(const struct sim *sim)
{
    return spare(sim) >= 0;
}

static bool join(struct sim *sim)
{
    if (phase_first(sim)) {
        const int joiner = spare(sim);
        sim->nodes[joiner].member = true;
        node_start_later(sim, (uint8_t)joiner, 0);
    }
    return step_owned(sim);
}

const struct phase_step phase_join[] = {
    {"half", step_some},   {"join", join},       {"enough", step_enough},
    {"drain", step_drain}, {"rest", step_rest},  {"equal", step_equal},
    {"audit", step_audit}, {"judge", step_kept}, {NULL, NULL},
};

/* ---- replace --------------------------------------------------------------------------------- */

static bool lose_disk(struct sim *sim)
{
    struct node *node = &sim->nodes[1 + random_below(phase_stream(sim), sim->options.nodes - 1)];
    sim->plan.victim = node->index;
    faults_crash(sim, node);
    node_replace(sim, node);
    node_start_later(sim, node->index, (int64_t)random_below(phase_stream(sim), 300 * SIM_MS));
    phase_wait(sim, 300);
    return true;
}

const struct phase_step phase_replace[] = {
    {"half", step_some},   {"quiet", step_quiet}, {"lose", lose_disk},   {"enough", step_enough},
    {"drain", step_drain}, {"rest", step_rest},   {"equal", step_equal}, {"audit", step_audit},
    {"judge", step_kept},  {NULL, NULL},
};
