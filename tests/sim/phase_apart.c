/* phase_apart.c - crowds of requests that meet several rules, whose keys different nodes decide.
 *
 *   apart   frames with forwards and answers are lost, and clients are hard of hearing   to the
 *                                                                                        token
 *   relay   nothing is lost, but a node stops in order in the midst of it              but what was
 *           and comes back                                                             repeated
 *   orphan  as apart, and a node dies in the middle of it   no more than was unconfirmed; what was
 *                                                           left charged was the dead node's
 *
 * All clients send at once what together is a crowd: all of it is under way at the same time. Three
 * rules limit each request, on vnodes of their own; one of them, in seeds with majorities, with
 * consistency quorum. Most requests are denied by some rule, and undone at the others.
 */
#include "tests/sim/phase.h"

enum {
    MUTE_MAX_PPM = 200000,
    DEAF_MAX_PPM = 100000,
    PATIENT_MIN_MS = 250,
    PATIENT_MAX_MS = 700,
    TIMEOUT_MS = 300
};

static bool begin(struct sim *sim)
{
    sim->plan.several = keys_several(sim, sim_phase(sim));
    sim->net.mute_ppm = 1 + (uint32_t)random_below(phase_stream(sim), MUTE_MAX_PPM);
    sim->net.deaf_ppm = (uint32_t)random_below(phase_stream(sim), DEAF_MAX_PPM);
    sim->load.timeout_ms =
        (uint32_t)random_between(phase_stream(sim), PATIENT_MIN_MS, PATIENT_MAX_MS);
    sim->plan.bound = 0;
    return true;
}

static uint64_t asked(const struct sim *sim)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < KEYS_MEMBERS; i++)
        sum += sim->keys[sim->plan.several.first + i].attempts;
    return sum;
}

static bool ask(struct sim *sim)
{
    if (phase_first(sim))
        client_crowd(sim, sim->plan.several);
    return asked(sim) >= sim->options.crowd || phase_not_yet(sim, "the crowd is too small");
}

/* Most of the crowd is under way. */
static bool crash(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    sim->plan.victim = node->index;
    sim->plan.bound += node_unconfirmed(node);
    sim->plan.changed = true;
    sim->plan.orphans += node_parts(node);
    sim->coverage.orphans += node_parts(node);
    faults_crash(sim, node);
    return true;
}

static bool hear(struct sim *sim)
{
    sim->net.mute_ppm = 0;
    sim->net.deaf_ppm = 0;
    sim->load.timeout_ms = TIMEOUT_MS;
    return true;
}

static bool undone(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (node_parts(&sim->nodes[i]) > 0)
            return phase_not_yet(sim, "something is still to be undone");
    return true;
}

static bool audit(struct sim *sim)
{
    const struct key_set set = sim->plan.several;
    if (phase_first(sim))
        client_audit(sim, set);
    if (!client_idle(sim))
        return phase_not_yet(sim, "the audit waits for an answer");
    for (uint32_t i = set.first; i < set.first + set.count; i++) {
        if (sim->keys[i].audited)
            continue;
        client_audit(sim, set); /* some were not decided: once more */
        return phase_not_yet(sim, "a key could not be looked at");
    }
    return step_drain(sim);
}

/* What became of the crowd, for whoever follows the run. */
static void tell(struct sim *sim)
{
    uint64_t admitted = 0;
    uint64_t unsure = 0;
    for (uint32_t i = 0; i < KEYS_MEMBERS; i++) {
        admitted += sim->keys[sim->plan.several.first + i].admitted;
        unsure += sim->keys[sim->plan.several.first + i].uncertain;
    }
    sim_tell(sim, 1,
             "%llu requests: %llu admitted, %llu of which nobody was told; %llu frames lost",
             (unsigned long long)asked(sim), (unsigned long long)admitted,
             (unsigned long long)unsure, (unsigned long long)sim->coverage.lost);
}

/* What may have stayed charged where a node died: who decides a vnode in its place does not know
 * what it charged to whom, and an undo that comes there takes nothing. That is counted, unless the
 * undo was sent again and may have been done before. */
static uint64_t kept_by_change(const struct sim *sim)
{
    return nodes_resent(sim) - sim->plan.resent + nodes_undo_lost(sim) - sim->plan.undo_lost;
}

/* A vnode may go to the node that is preferred for it at any time: that takes nothing from what is
 * known of charges (RESERVE-6). */
static bool judge(struct sim *sim)
{
    tell(sim);
    check_several(sim, sim->plan.several, 0, 0);
    return true;
}

const struct phase_step phase_apart[] = {
    {"begin", begin},   {"ask", ask},     {"drain", step_drain}, {"hear", hear},
    {"undone", undone}, {"audit", audit}, {"judge", judge},      {NULL, NULL},
};

static bool judge_orphan(struct sim *sim)
{
    tell(sim);
    check_several(sim, sim->plan.several, sim->plan.bound, sim->plan.orphans + kept_by_change(sim));
    return true;
}

/* ---- relay ----------------------------------------------------------------------------------- */

static bool begin_relay(struct sim *sim)
{
    begin(sim);
    sim->net.mute_ppm = 0;
    sim->net.deaf_ppm = 0;
    sim->plan.changed = true;
    return true;
}

/* What it decides goes to others while its charges wait to be undone, and comes back. */
static bool stop(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    if (phase_first(sim)) {
        node = node_some_up(sim);
        sim->plan.victim = node->index;
        node_stop(sim, node);
    }
    return !node->up || phase_not_yet(sim, "the node does not stop");
}

/* ---- orphan ---------------------------------------------------------------------------------- */

/* Time for some of it to be on its way. */
static bool pause(struct sim *sim)
{
    phase_wait(sim, random_between(phase_stream(sim), 1, 40));
    return true;
}

const struct phase_step phase_relay[] = {
    {"begin", begin_relay}, {"ask", ask},          {"pause", pause},   {"stop", stop},
    {"ask", ask},           {"drain", step_drain}, {"undone", undone}, {"back", step_back},
    {"audit", audit},       {"judge", judge},      {NULL, NULL},
};

const struct phase_step phase_orphan[] = {
    {"begin", begin},        {"ask", ask},        {"pause", pause},
    {"crash", crash},        {"ask", ask},        {"drain", step_drain},
    {"hear", hear},          {"undone", undone},  {"audit", audit},
    {"judge", judge_orphan}, {"back", step_back}, {NULL, NULL},
};
