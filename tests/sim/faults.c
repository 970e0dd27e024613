/* faults.c - what goes wrong, chosen by the stream of faults.
 *
 * Each act may leave two deciders for a vnode for a while, so each counts as a possible split.
 */
#include "tests/sim/sim.h"

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_FAULTS);
}

struct node *faults_up_node(struct sim *sim)
{
    for (;;) {
        struct node *node = &sim->nodes[random_below(stream(sim), sim->node_count)];
        if (node->up)
            return node;
    }
}

void faults_crash(struct sim *sim, struct node *node)
{
    node_crash(sim, node, random_below(stream(sim), 4) != 0);
}

static uint32_t up_count(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->node_count; i++)
        count += sim->nodes[i].up;
    return count;
}

static void worsen_net(struct sim *sim)
{
    sim->net.faults = (struct net_faults){
        .lose_ppm = (uint32_t)random_below(stream(sim), 50000),
        .repeat_ppm = (uint32_t)random_below(stream(sim), 20000),
        .late_ppm = (uint32_t)random_below(stream(sim), 20000),
        .reorder_ppm = (uint32_t)random_below(stream(sim), 100000),
    };
    sim_tell(sim, 1, "network: lose %u repeat %u late %u reorder %u ppm", sim->net.faults.lose_ppm,
             sim->net.faults.repeat_ppm, sim->net.faults.late_ppm, sim->net.faults.reorder_ppm);
}

static void cut(struct sim *sim)
{
    const uint32_t side = 1 + (uint32_t)random_below(stream(sim), (1u << sim->node_count) - 2);
    const bool one_way = random_below(stream(sim), 4) == 0;
    sim_tell(sim, 1, "cut %02x off%s", side, one_way ? ", one way" : "");
    net_cut(sim, side, one_way);
    sim->coverage->cuts++;
}

static void pause(struct sim *sim)
{
    struct node *node = faults_up_node(sim);
    node->paused_until_ns = sim->now_ns + random_between(stream(sim), 50 * SIM_MS, 900 * SIM_MS);
    sim_tell(sim, 1, "n%u pauses for %lld ms", node->index,
             (long long)((node->paused_until_ns - sim->now_ns) / SIM_MS));
    sim->coverage->pauses++;
}

void faults_act(struct sim *sim)
{
    sim->plan.splits++;
    switch (random_below(stream(sim), 6)) {
    case 0:
        worsen_net(sim);
        break;
    case 1:
        cut(sim);
        break;
    case 2:
        net_heal(sim);
        sim_tell(sim, 1, "network heals");
        break;
    case 3:
        pause(sim);
        break;
    case 4:
        if (up_count(sim) > 2)
            faults_crash(sim, faults_up_node(sim));
        break;
    default:
        for (uint8_t i = 0; i < sim->node_count; i++)
            if (!sim->nodes[i].up)
                node_start(sim, &sim->nodes[i]);
        sim->coverage->restarts++;
        break;
    }
}
