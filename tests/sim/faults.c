/* faults.c - what goes wrong in chaos, chosen by the stream of faults.
 *
 * No single frame comes twice where majorities keep keys: TCP never does that, and what gives back
 * must not be done twice.
 *
 * Each act may leave two leaders for a vnode for a while, so each counts as a possible split. A
 * kind of fault that is switched off (--no-NAME) is still drawn, so that all else stays the same.
 */
#include "tests/sim/sim.h"

enum { DEAD_MAX = 2, STEP_MAX_MS = 10000 };

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_FAULTS);
}

static bool on(const struct sim *sim, enum fault fault)
{
    return options_fault(&sim->options, fault);
}

void faults_crash(struct sim *sim, struct node *node)
{
    node_crash(sim, node, random_below(stream(sim), 4) != 0);
}

static uint32_t ppm(struct sim *sim, enum fault fault, uint32_t most)
{
    const uint32_t drawn = (uint32_t)random_below(stream(sim), most);
    return on(sim, fault) ? drawn : 0;
}

static void worsen_net(struct sim *sim)
{
    sim->net.faults = (struct net_faults){
        .lose_ppm = ppm(sim, FAULT_LOSS, 50000),
        .repeat_ppm = ppm(sim, FAULT_REPEAT, sim->options.quorum ? 1 : 20000),
        .late_ppm = ppm(sim, FAULT_LATE, 20000),
        .reorder_ppm = ppm(sim, FAULT_REORDER, 100000),
    };
    sim_tell(sim, 1, "network: lose %u repeat %u late %u reorder %u ppm", sim->net.faults.lose_ppm,
             sim->net.faults.repeat_ppm, sim->net.faults.late_ppm, sim->net.faults.reorder_ppm);
}

static void cut(struct sim *sim)
{
    const uint32_t side = 1 + (uint32_t)random_below(stream(sim), (1u << sim->node_count) - 2);
    const bool one_way = random_below(stream(sim), 4) == 0;
    const bool at_once = random_below(stream(sim), 4) == 0;
    if (!on(sim, one_way ? FAULT_ONE_WAY : FAULT_CUT))
        return;
    sim_tell(sim, 1, "cut %02x off%s%s", side, one_way ? ", one way" : "",
             at_once ? ", connections break" : "");
    net_cut(sim, side, one_way, at_once);
    sim->coverage.splits++;
    sim->coverage.one_ways += one_way;
}

static void pause(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    const int64_t ms = random_between(stream(sim), 50, 900);
    if (!on(sim, FAULT_PAUSE))
        return;
    node->paused_until_ns = sim->now_ns + ms * SIM_MS;
    sim_tell(sim, 1, "n%u pauses for %lld ms", node->index, (long long)ms);
    sim->coverage.pauses++;
}

static void slow(struct sim *sim)
{
    const uint64_t a = random_below(stream(sim), sim->node_count);
    const uint64_t b = random_below(stream(sim), sim->node_count);
    const int64_t ms = random_between(stream(sim), 10, 300);
    if (a == b || !on(sim, FAULT_SLOW))
        return;
    sim->net.links[a][b].slow_ns = ms * SIM_MS;
    if (random_below(stream(sim), 2) == 0)
        sim->net.links[b][a].slow_ns = ms * SIM_MS;
    sim->coverage.slow_links++;
    sim_tell(sim, 1, "the link from n%llu to n%llu takes %lld ms more", (unsigned long long)a,
             (unsigned long long)b, (long long)ms);
}

static void step_clock(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    const int64_t ms = random_between(stream(sim), -STEP_MAX_MS, STEP_MAX_MS);
    if (!on(sim, FAULT_CLOCK))
        return;
    node->wall_offset_ns += ms * SIM_MS;
    sim->stepped = true;
    sim->coverage.clock_steps++;
    sim_tell(sim, 1, "the wall clock of n%u is stepped by %lld ms", node->index, (long long)ms);
}

static void crash(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    if (!on(sim, FAULT_CRASH) || node_up_count(sim) + DEAD_MAX <= node_members(sim))
        return;
    faults_crash(sim, node);
}

static void snapshot(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    if (!on(sim, FAULT_SNAPSHOT))
        return;
    if (node->disk.snapshot == NULL) { /* all of them: this fault is to come back to one of them */
        for (uint32_t i = 0; i < sim->node_count; i++)
            disk_take_snapshot(&sim->nodes[i].disk);
        return;
    }
    if (node_up_count(sim) < node_members(sim))
        return;
    faults_crash(sim, node);
    (void)disk_restore_snapshot(&node->disk);
    node->rewound = true;
    node->epoch = 0; /* it may know an older ring than it did */
    sim->coverage.snapshots++;
    sim_tell(sim, 1, "n%u gets an old copy of its disk", node->index);
}

static void fill_disk(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    const int64_t ms = random_between(stream(sim), 50, 2000);
    if (!on(sim, FAULT_DISK_FULL))
        return;
    node->disk.full_until_ns = sim->now_ns + ms * SIM_MS;
    sim->coverage.full_disks++;
    sim_tell(sim, 1, "the disk of n%u is full for %lld ms", node->index, (long long)ms);
}

/* The ring changes in the midst of it all. A node that is out is taken in again when it is started
 * the next time. */
static void drain(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    char sentence[CONTROL_SENTENCE_LEN];
    if (!on(sim, FAULT_RING) || node->view == NULL)
        return;
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].drains)
            return;
    node->drains = control_depart(node->control, CONTROL_DRAINS, sentence) == 0;
    sim->coverage.departures += node->drains;
    if (node->drains)
        sim_tell(sim, 1, "n%u drains", node->index);
}

static void start_all(struct sim *sim)
{
    for (uint8_t i = 0; i < sim->node_count; i++)
        if (!sim->nodes[i].up && sim->nodes[i].member)
            node_start(sim, &sim->nodes[i]);
}

static bool member_up(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].up && sim->nodes[i].member)
            return true;
    return false;
}

/* Each of them may have crashed in the midst of a step since the last act. */
static bool somebody_is_up(struct sim *sim)
{
    if (!member_up(sim))
        start_all(sim);
    return member_up(sim);
}

void faults_act(struct sim *sim)
{
    static void (*const acts[])(struct sim * sim) = {
        worsen_net, cut,       net_heal, pause,    crash,      crash, start_all, start_all,
        slow,       fill_disk, snapshot, snapshot, step_clock, drain, drain,
    };
    if (!somebody_is_up(sim))
        return;
    sim->plan.splits++;
    sim->mid_step = on(sim, FAULT_MID_STEP);
    const uint64_t dice = random_below(stream(sim), 2 + sizeof acts / sizeof *acts);
    if (dice < sizeof acts / sizeof *acts)
        acts[dice](sim);
    else if (on(sim, FAULT_RESET))
        (void)net_reset(sim);
    (void)somebody_is_up(sim);
}

/* An operator sets a clock that would keep its node out of the ring, should it have to join. */
static void set_clock(struct node *node)
{
    const int64_t most_ns = CLUSTER_TIME_REFUSED_NS / 2;
    if (node->wall_offset_ns > most_ns || node->wall_offset_ns < -most_ns)
        node->wall_offset_ns = 0;
}

void faults_end(struct sim *sim)
{
    net_heal(sim);
    sim->mid_step = false;
    for (uint8_t i = 0; i < sim->node_count; i++) {
        sim->nodes[i].disk.full_until_ns = 0;
        set_clock(&sim->nodes[i]);
        if (sim->nodes[i].up && sim->nodes[i].drains)
            faults_crash(sim, &sim->nodes[i]);
        if (!sim->nodes[i].up && sim->nodes[i].member)
            node_start_later(sim, i, (int64_t)random_below(stream(sim), 300 * SIM_MS));
    }
}
