/* phase_calm.c - phases in which nothing goes wrong but at most one thing at a time.
 *
 *   form    nodes start, or join one by one, under load       nothing lost but repeated checks
 *                                                             charged twice
 *   idle    half the limits used, quiet, a node crashes       exactly the limits
 *   return  as idle, and the node comes back under load       nothing lost but repeated checks
 *                                                             charged twice
 *   crash   a node crashes under load                         what nobody had acknowledged
 *   bounce  a node crashes under load and is back at once     the same
 *   echo    as idle, and what was answered is asked again      exactly the limits
 *   deaf    clients and nodes lose each other's messages      exactly the limits
 *   rules   rules are changed under load                      the higher limits, and the old counts
 *   end     everything is as it should be, load again         exactly the limits
 */
#include "tests/sim/phase.h"

enum { DEAF_PPM = 200000, DEAF_TIMEOUT_MS = 100, TIMEOUT_MS = 300 };

/* ---- form ------------------------------------------------------------------------------------ */

static bool start_all(struct sim *sim)
{
    if (sim->options.formed)
        node_form(sim);
    for (uint8_t i = 0; i < sim->options.nodes; i++)
        node_start_later(sim, i,
                         i == 0 ? 0 : (int64_t)random_below(phase_stream(sim), 300 * SIM_MS));
    if (!sim->options.formed)
        client_load(sim, sim->plan.keys);
    return true;
}

const struct phase_step phase_form[] = {
    {"start", start_all}, {"owned", step_owned}, {"enough", step_enough}, {"drain", step_drain},
    {"rest", step_rest},  {"audit", step_audit}, {"judge", step_kept},    {NULL, NULL},
};

/* ---- idle, crash ----------------------------------------------------------------------------- */

static bool crash(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    sim->plan.victim = node->index;
    sim->plan.bound += node_unconfirmed(node);
    faults_crash(sim, node);
    return true;
}

const struct phase_step phase_idle[] = {
    {"half", step_some},     {"quiet", step_quiet}, {"ill", step_ill},     {"crash", crash},
    {"enough", step_enough}, {"drain", step_drain}, {"audit", step_audit}, {"judge", step_exact},
    {"back", step_back},     {"told", step_told},   {NULL, NULL},
};

/* The one that crashed comes back under load, and takes its share back. */
static bool come_back(struct sim *sim)
{
    if (phase_first(sim)) {
        client_load(sim, sim->plan.keys);
        node_start_later(sim, sim->plan.victim,
                         (int64_t)random_below(phase_stream(sim), 100 * SIM_MS));
        phase_wait(sim, 100);
        return false;
    }
    return step_owned(sim);
}

const struct phase_step phase_return[] = {
    {"some", step_few},    {"quiet", step_quiet},   {"crash", crash},      {"half", step_some},
    {"back", come_back},   {"enough", step_enough}, {"drain", step_drain}, {"rest", step_rest},
    {"audit", step_audit}, {"judge", step_kept},    {NULL, NULL},
};

static bool judge_crash(struct sim *sim)
{
    check_bound(sim, sim->plan.keys, sim->plan.bound);
    check_charged(sim, sim->plan.keys, sim->plan.bound);
    return true;
}

const struct phase_step phase_crash[] = {
    {"half", step_some},   {"crash", crash},       {"enough", step_enough}, {"drain", step_drain},
    {"audit", step_audit}, {"judge", judge_crash}, {"back", step_back},     {NULL, NULL},
};

/* Most times the node is back before all have noticed. */
static bool bounce(struct sim *sim)
{
    (void)crash(sim);
    sim->plan.changed = true;
    phase_wait(sim, random_between(phase_stream(sim), 10, 600));
    return true;
}

const struct phase_step phase_bounce[] = {
    {"half", step_some},   {"bounce", bounce},      {"back", come_back},   {"bounce", bounce},
    {"back", come_back},   {"enough", step_enough}, {"drain", step_drain}, {"rest", step_rest},
    {"audit", step_audit}, {"judge", judge_crash},  {NULL, NULL},
};

/* Who was answered by the one that crashed, or did not hear it, asks once more: the replicas know
 * the first answers as they know the counts (firsts.h), so nothing is charged twice. */
static bool echo(struct sim *sim)
{
    client_echo(sim);
    return true;
}

const struct phase_step phase_echo[] = {
    {"half", step_some},   {"quiet", step_quiet},   {"crash", crash},      {"echo", echo},
    {"heard", step_drain}, {"enough", step_enough}, {"drain", step_drain}, {"audit", step_audit},
    {"judge", step_exact}, {"back", step_back},     {NULL, NULL},
};

/* ---- deaf ------------------------------------------------------------------------------------ */

static bool deafen(struct sim *sim)
{
    sim->net.deaf_ppm = DEAF_PPM;
    sim->load.timeout_ms = DEAF_TIMEOUT_MS;
    return true;
}

static bool hear(struct sim *sim)
{
    sim->net.deaf_ppm = 0;
    sim->load.timeout_ms = TIMEOUT_MS;
    return true;
}

const struct phase_step phase_deaf[] = {
    {"deafen", deafen},    {"enough", step_enough}, {"hear", hear}, {"drain", step_drain},
    {"audit", step_audit}, {"judge", step_exact},   {NULL, NULL},
};

/* ---- rules ----------------------------------------------------------------------------------- */

static bool change_rules(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (phase_first(sim) && sim->policy_count == SIM_POLICIES_MAX)
        return true;
    if (phase_first(sim)) {
        keys_rules(sim, sim->generation + 1);
        sim->coverage.rule_changes++;
        plan->left = 0;
    }
    if (plan->left == sim->node_count)
        return true;
    struct node *node = &sim->nodes[plan->left++];
    if (node->up)
        node_rules(sim, node);
    node->policy = sim->policy_count - 1;
    phase_wait(sim, random_between(phase_stream(sim), 0, 30));
    return plan->left == sim->node_count;
}

const struct phase_step phase_rules[] = {
    {"half", step_some},   {"change", change_rules}, {"enough", step_enough},
    {"drain", step_drain}, {"audit", step_audit},    {"judge", step_exact},
    {NULL, NULL},
};

/* ---- end ------------------------------------------------------------------------------------- */

static bool long_enough(struct sim *sim)
{
    return sim->events >= SIM_EVENTS_MIN;
}

const struct phase_step phase_end[] = {
    {"rest", step_rest},   {"equal", step_equal}, {"enough", step_enough}, {"drain", step_drain},
    {"audit", step_audit}, {"judge", step_exact}, {"long", long_enough},   {NULL, NULL},
};
