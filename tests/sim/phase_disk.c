/* phase_disk.c - phases about what is on disk.
 *
 *   dark    all is written, all nodes are killed at once, and back     exactly the limits
 *   full    a disk is full for a while, its node restarts in order     exactly the limits
 *   brim    all disks are full while keys are asked for the last       exactly the limits
 *           time, then have room; all nodes are killed, and back
 *   press   all disks are full while more new keys come than memory    exactly the limits; keys
 *           holds, and those that were charged are asked for again     that exist are decided
 *   flood   more keys than memory holds, then a node that loses its    what was spilled still
 *           slots                                                      counts, also there
 */
#include "tests/sim/phase.h"

enum { FLOOD_FRAMES = 130, FLOOD_MS = 1800, FULL_MS = 700, BRIM_MS = 1000, OTHERS_MS = 60 };
enum { PRESS_FRAMES = 260, PRESS_MS = 3000, PRESS_FULL_MS = 600000 };

/* ---- dark ------------------------------------------------------------------------------------ */

static bool kill_all(struct sim *sim)
{
    sim->coverage.blackouts++;
    for (uint8_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].up)
            node_crash(sim, &sim->nodes[i], true);
    return true;
}

const struct phase_step phase_dark[] = {
    {"half", step_some},   {"quiet", step_quiet}, {"flushed", step_flushed},
    {"kill", kill_all},    {"back", step_back},   {"enough", step_enough},
    {"drain", step_drain}, {"audit", step_audit}, {"judge", step_exact},
    {NULL, NULL},
};

/* ---- full ------------------------------------------------------------------------------------ */

static void fill(struct sim *sim, struct node *node, int64_t ms)
{
    node->disk.full_until_ns = sim->now_ns + ms * SIM_MS;
    sim->coverage.full_disks++;
    sim_tell(sim, 1, "the disk of n%u is full for %lld ms", node->index, (long long)ms);
}

static bool fill_up(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    sim->plan.victim = node->index;
    if (!options_fault(&sim->options, FAULT_DISK_FULL))
        return true;
    fill(sim, node, random_between(phase_stream(sim), 100, FULL_MS));
    return true;
}

/* The node is to have written all, whatever the disk refused meanwhile. */
static bool stop_full(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    if (phase_first(sim))
        node_stop(sim, node);
    return !node->up || phase_not_yet(sim, "the node does not stop");
}

const struct phase_step phase_full[] = {
    {"fill", fill_up},         {"half", step_some},   {"stop", stop_full},  {"quiet", step_quiet},
    {"flushed", step_flushed}, {"dark", kill_all},    {"back", step_back},  {"enough", step_enough},
    {"drain", step_drain},     {"audit", step_audit}, {"judge", step_kept}, {NULL, NULL},
};

/* ---- brim ------------------------------------------------------------------------------------ */

static bool fill_all(struct sim *sim)
{
    sim->coverage.brims++;
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].up && options_fault(&sim->options, FAULT_DISK_FULL))
            fill(sim, &sim->nodes[i], random_between(phase_stream(sim), BRIM_MS / 2, BRIM_MS));
    return true;
}

static bool has_room(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->now_ns < sim->nodes[i].disk.full_until_ns)
            return phase_not_yet(sim, "a disk is full");
    return true;
}

/* What the others write takes headers along, which claim all that came before: half of the keys of
 * the phase are left alone, and what the full disks refused of them is not to be missing. */
static bool ask_others(struct sim *sim)
{
    const uint32_t left = keys_exact(sim->plan.keys) / 2;
    const struct key_set others = {sim->plan.keys.first + left, sim->plan.keys.count - left};
    if (!phase_first(sim))
        return true;
    client_load(sim, others);
    phase_wait(sim, OTHERS_MS);
    return false;
}

const struct phase_step phase_brim[] = {
    {"fill", fill_all},        {"some", step_some},    {"drain", step_drain},
    {"room", has_room},        {"others", ask_others}, {"quiet", step_quiet},
    {"flushed", step_flushed}, {"dark", kill_all},     {"back", step_back},
    {"enough", step_enough},   {"drain", step_drain},  {"audit", step_audit},
    {"judge", step_exact},     {NULL, NULL},
};

/* ---- press ----------------------------------------------------------------------------------- */

/* Until it is emptied: what memory takes in meanwhile cannot leave it. */
static bool press(struct sim *sim)
{
    if (!options_fault(&sim->options, FAULT_DISK_FULL))
        return true;
    sim->coverage.presses++;
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].up)
            fill(sim, &sim->nodes[i], PRESS_FULL_MS);
    return true;
}

static bool flood_full(struct sim *sim)
{
    if (!phase_first(sim))
        return true;
    sim->flooded = true;
    client_flood(sim, PRESS_FRAMES);
    phase_wait(sim, PRESS_MS);
    return false;
}

/* Keys that majorities keep cannot be decided where nothing can be promised. */
static bool look(struct sim *sim)
{
    return sim->options.quorum || step_audit(sim);
}

static bool empty_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        sim->nodes[i].disk.full_until_ns = 0;
    return true;
}

/* Half of the keys are on disk by then, and leave memory for the flood; what was charged of the
 * others since is in memory alone. All are looked at while the disks are full. */
const struct phase_step phase_press[] = {
    {"half", step_some},       {"quiet", step_quiet},
    {"flushed", step_flushed}, {"fill", press},
    {"others", ask_others},    {"drain", step_drain},
    {"flood", flood_full},     {"look", look},
    {"room", empty_all},       {"quiet", step_quiet},
    {"flushed", step_flushed}, {"enough", step_enough},
    {"drain", step_drain},     {"audit", step_audit},
    {"judge", step_exact},     {NULL, NULL},
};

/* ---- flood ----------------------------------------------------------------------------------- */

static bool flood(struct sim *sim)
{
    if (!phase_first(sim))
        return true;
    sim->flooded = true;
    sim->coverage.floods++;
    client_flood(sim, FLOOD_FRAMES);
    phase_wait(sim, FLOOD_MS);
    return false;
}

static bool stop_and_wipe(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    if (phase_first(sim)) {
        node = node_some_up(sim);
        sim->plan.victim = node->index;
        node_stop(sim, node);
    }
    if (node->up)
        return phase_not_yet(sim, "the node does not stop");
    disk_wipe(sim, &node->disk);
    return true;
}

const struct phase_step phase_flood[] = {
    {"enough", step_enough}, {"drain", step_drain},  {"flood", flood},      {"again", step_enough},
    {"drain", step_drain},   {"audit", step_audit},  {"judge", step_exact}, {"stop", stop_and_wipe},
    {"back", step_back},     {"again", step_enough}, {"drain", step_drain}, {"audit", step_audit},
    {"judge", step_exact},   {NULL, NULL},
};
