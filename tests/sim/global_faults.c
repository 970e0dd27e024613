/* global_faults.c - what goes wrong in phase global: between regions, to a region, to a node, to
 * rules and clocks. What came later draws from a stream of its own.
 */
#include "tests/sim/global.h"

enum {
    FAR_MS = 200,      /* a region that is slow takes so much more, each way */
    STEP_MIN_MS = 100, /* by which a clock is off, */
    STEP_MAX_MS = 300, /* in one run always the same way */
    CLOCKS_ONE_IN = 4, /* regions of which all clocks are */
    DOWN_MAX_MS = 200, /* that a node takes to start again, with its clock set */
    WIDE_ONE_OF = 9,   /* of which some do nothing */
};

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_GLOBAL);
}

static struct random *wide(struct sim *sim)
{
    return sim_stream(sim, STREAM_WIDE);
}

static uint32_t some_region(struct sim *sim, struct random *random)
{
    return (uint32_t)random_below(random, sim->options.regions);
}

/* Another one than that. */
static uint32_t other_region(struct sim *sim, uint32_t region)
{
    const uint32_t others = sim->options.regions - 1;
    const uint32_t skipped = others > 1 ? (uint32_t)random_below(wide(sim), others) : 0;
    return (region + 1 + skipped) % sim->options.regions;
}

/* One of the region that runs, or NULL. */
static struct node *some_up(struct sim *sim, uint32_t region)
{
    struct node *found = NULL;
    uint64_t count = 0;
    for (uint32_t i = region_first(sim, region); i < region_first(sim, region + 1); i++)
        if (sim->nodes[i].up && sim->nodes[i].member && random_below(stream(sim), ++count) == 0)
            found = &sim->nodes[i];
    return found;
}

/* The leader of one of the keys, in its home or where it is held; else one of a region. */
static struct node *some_leader(struct sim *sim)
{
    const struct global_key *key = &sim->global.keys[random_below(stream(sim), GLOBAL_KEYS)];
    const bool held = random_below(stream(sim), 3) == 0;
    const uint32_t region = held ? other_region(sim, key->home) : key->home;
    for (uint32_t i = region_first(sim, region); i < region_first(sim, region + 1); i++) {
        struct node *node = &sim->nodes[i];
        struct term term;
        const struct shard *shard = node->shards[key->vnode % node->shard_count];
        if (node->up && shard != NULL && shard_vnode(shard, key->vnode, &term) == SHARD_LEADING)
            return node;
    }
    return some_up(sim, region);
}

/* ---- what lies between regions --------------------------------------------------------------- */

void global_move_apart(struct sim *sim, int64_t ms)
{
    for (uint32_t a = 0; a < sim->all_count; a++)
        for (uint32_t b = 0; b < sim->all_count; b++)
            if (node_region(sim, &sim->nodes[a]) != node_region(sim, &sim->nodes[b]))
                sim->net.links[a][b].slow_ns = ms * SIM_MS;
}

static void cut_off(struct sim *sim)
{
    const bool one_way = random_below(stream(sim), 3) == 0;
    const bool from_here = random_below(stream(sim), 2) == 0;
    const bool at_once = random_below(stream(sim), 2) == 0;
    if (!options_fault(&sim->options, one_way ? FAULT_ONE_WAY : FAULT_CUT))
        return;
    sim_tell(sim, 1, "regions do not reach each other%s", one_way ? ", one way" : "");
    net_cut(sim, from_here ? region_nodes(sim, 0) : nodes_remote(sim), one_way, at_once);
    sim->coverage.global_cuts++;
}

/* The third region, if there is one, reaches both. */
static void cut_pair(struct sim *sim)
{
    const uint32_t from = some_region(sim, wide(sim));
    const uint32_t to = other_region(sim, from);
    const bool one_way = random_below(wide(sim), 3) == 0;
    const bool at_once = random_below(wide(sim), 2) == 0;
    if (!options_fault(&sim->options, one_way ? FAULT_ONE_WAY : FAULT_CUT))
        return;
    sim_tell(sim, 1, "the regions %s and %s do not reach each other%s", region_name(from),
             region_name(to), one_way ? ", one way" : "");
    net_cut_between(sim, region_nodes(sim, from), region_nodes(sim, to), one_way, at_once);
    sim->coverage.global_pairs += sim->options.regions > 2;
}

static void rejoin(struct sim *sim)
{
    sim_tell(sim, 1, "the regions reach each other");
    net_heal(sim);
}

static void slow(struct sim *sim)
{
    const int64_t ms = random_between(stream(sim), 50, 400);
    if (!options_fault(&sim->options, FAULT_SLOW))
        return;
    sim_tell(sim, 1, "the regions are %lld ms farther apart", (long long)ms);
    global_move_apart(sim, ms);
    sim->coverage.slow_links++;
}

static void slow_region(struct sim *sim)
{
    const uint32_t region = some_region(sim, wide(sim));
    if (!options_fault(&sim->options, FAULT_SLOW))
        return;
    sim_tell(sim, 1, "the region %s is %d ms away", region_name(region), FAR_MS);
    for (uint32_t a = 0; a < sim->all_count; a++)
        for (uint32_t b = 0; b < sim->all_count; b++)
            if ((node_region(sim, &sim->nodes[a]) == region) !=
                (node_region(sim, &sim->nodes[b]) == region))
                sim->net.links[a][b].slow_ns = FAR_MS * SIM_MS;
    sim->coverage.global_slow++;
}

/* ---- nodes and regions ----------------------------------------------------------------------- */

static void crash(struct sim *sim)
{
    struct node *node = some_leader(sim);
    if (node == NULL || !options_fault(&sim->options, FAULT_CRASH))
        return;
    faults_crash(sim, node);
    if (random_below(stream(sim), 2) == 0)
        node_start_later(sim, node->index, random_between(stream(sim), 0, 900) * SIM_MS);
}

/* All of a region die, and what was not on a disk is gone. */
static void lose_region(struct sim *sim, uint32_t region)
{
    const int64_t most_ms = random_between(stream(sim), 1, 900);
    sim_tell(sim, 1, "the region %s is lost", region_name(region));
    sim->coverage.global_lost++;
    for (uint32_t i = region_first(sim, region); i < region_first(sim, region + 1); i++) {
        struct node *node = &sim->nodes[i];
        node->disk.full_until_ns = 0;
        if (node->up)
            faults_crash(sim, node);
        if (node->member)
            node_start_later(sim, node->index, random_between(stream(sim), 0, most_ms) * SIM_MS);
    }
}

/* Soon; its disks are full until then, most times: so what it grants now is known to nobody who
 * comes back. */
static void doom_region(struct sim *sim)
{
    struct global *global = &sim->global;
    const uint32_t region = some_region(sim, stream(sim));
    const bool full = random_below(stream(sim), 4) != 0;
    const int64_t ms = random_between(stream(sim), 0, 600);
    if (!options_fault(&sim->options, FAULT_CRASH) || global->doom_ns != 0)
        return;
    global->doom_ns = sim->now_ns + ms * SIM_MS;
    global->doom_region = region;
    for (uint32_t i = region_first(sim, region); full && i < region_first(sim, region + 1); i++)
        if (options_fault(&sim->options, FAULT_DISK_FULL))
            sim->nodes[i].disk.full_until_ns = global->doom_ns;
}

void global_faults_meet(struct sim *sim)
{
    struct global *global = &sim->global;
    if (global->doom_ns == 0 || sim->now_ns < global->doom_ns)
        return;
    global->doom_ns = 0;
    lose_region(sim, global->doom_region);
}

/* With what it decides and what it holds. */
static void stop(struct sim *sim)
{
    struct node *node = some_leader(sim);
    if (node == NULL || node->stopping)
        return;
    node_stop(sim, node);
}

/* What it holds may be over when it goes on. */
static void stand_still(struct sim *sim)
{
    struct node *node = some_leader(sim);
    const int64_t ms = random_between(stream(sim), 50, 1500);
    if (node == NULL || !options_fault(&sim->options, FAULT_PAUSE))
        return;
    sim_tell(sim, 1, "n%u pauses for %lld ms", node->index, (long long)ms);
    node->paused_until_ns = sim->now_ns + ms * SIM_MS;
    sim->coverage.pauses++;
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* By how much clocks are off in this run. */
static int64_t clock_step_ns(struct sim *sim)
{
    if (sim->clocks_ns == 0) {
        const int64_t ms = random_between(wide(sim), STEP_MIN_MS, STEP_MAX_MS);
        sim->clocks_ns = (random_below(wide(sim), 2) == 0 ? ms : -ms) * SIM_MS;
        sim->stepped = true;
    }
    return sim->clocks_ns;
}

void global_clocks(struct sim *sim)
{
    const uint32_t region = 1 + (uint32_t)random_below(wide(sim), sim->options.regions - 1);
    const bool off = random_below(wide(sim), CLOCKS_ONE_IN) == 0;
    if (!off || sim->nodes[sim->node_count].member || !options_fault(&sim->options, FAULT_CLOCK))
        return;
    sim_tell(sim, 1, "the clocks of region %s are %lld ms off", region_name(region),
             (long long)(clock_step_ns(sim) / SIM_MS));
    for (uint32_t i = region_first(sim, region); i < region_first(sim, region + 1); i++)
        sim->nodes[i].wall_offset_ns += clock_step_ns(sim);
    sim->coverage.global_clocks++;
}

/* A node starts again with its wall clock off, or right again: within a process no clock jumps. */
static void step_clock(struct sim *sim)
{
    struct node *node = some_leader(sim);
    const int64_t down_ms = random_between(wide(sim), 0, DOWN_MAX_MS);
    if (node == NULL || !options_fault(&sim->options, FAULT_CLOCK) ||
        !options_fault(&sim->options, FAULT_CRASH))
        return;
    const int64_t step_ns = clock_step_ns(sim);
    const int64_t most_ns = SIM_OFFSET_MAX_MS * SIM_MS;
    const bool off = node->wall_offset_ns > most_ns || node->wall_offset_ns < -most_ns;
    node->wall_offset_ns += off ? -step_ns : step_ns;
    sim_tell(sim, 1, "the wall clock of n%u is stepped by %lld ms, and it starts again",
             node->index, (long long)((off ? -step_ns : step_ns) / SIM_MS));
    faults_crash(sim, node);
    node_start_later(sim, node->index, down_ms * SIM_MS);
    sim->coverage.clock_steps++;
    sim->coverage.global_steps++;
}

/* ---- acts ------------------------------------------------------------------------------------ */

void global_faults_act(struct sim *sim)
{
    static void (*const acts[])(struct sim * sim) = {
        cut_off, cut_off,     cut_off,     rejoin,      slow, crash, crash,
        crash,   doom_region, doom_region, doom_region, stop, stop,  stand_still,
    };
    static void (*const wide_acts[])(struct sim * sim) = {
        cut_pair, cut_pair, slow_region, step_clock, global_rules_change, global_rules_change,
    };
    const uint64_t count = 1 + random_below(stream(sim), 2);
    for (uint64_t i = 0; i < count; i++)
        acts[random_below(stream(sim), sizeof acts / sizeof *acts)](sim);
    const uint64_t dice = random_below(wide(sim), WIDE_ONE_OF);
    if (dice < sizeof wide_acts / sizeof *wide_acts)
        wide_acts[dice](sim);
}
