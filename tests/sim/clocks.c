/* clocks.c - the clocks of a simulated node: boot time and wall time, each with steps of its own,
 * and the shipped cluster time upon them; as node/runtime does it.
 */
#include "tests/sim/clocks.h"
#include "node/cluster/control_state.h"

enum { SHARD_CLOCKS = 64 };
#define AGAIN_NS (50 * SIM_MS) /* until a node that starts again runs */

/* What a monotonic clock that drifts has counted. */
static int64_t mono_ns(const struct sim *sim, const struct node *node)
{
    return sim->now_ns + sim->now_ns / 1000 * node->drift_ppb / 1000000 + node->boot_offset_ns;
}

static int64_t wall_ns(const struct sim *sim, const struct node *node)
{
    return SIM_EPOCH + sim->now_ns + node->wall_offset_ns;
}

static bool reaches(const struct sim *sim, const struct node *node, const struct node *other)
{
    return other != node && other->up && other->member == node->member &&
           node_region(sim, other) == node_region(sim, node) &&
           !sim->net.links[node->index][other->index].cut &&
           !sim->net.links[other->index][node->index].cut;
}

/* The first cluster time: what the others go by. */
void clocks_start(struct sim *sim, struct node *node)
{
    struct cluster_time_answer answers[SIM_ALL_MAX];
    uint32_t count = 0;
    int64_t offset_ns;
    for (uint32_t i = 0; i < sim->all_count; i++) {
        struct node *other = &sim->nodes[i];
        if (reaches(sim, node, other))
            answers[count++] = (struct cluster_time_answer){.id = other->id,
                                                            .skew_ns = shell_clock(sim, other) -
                                                                       wall_ns(sim, node),
                                                            .running = true};
    }
    (void)cluster_time_first(answers, count, 1, &offset_ns);
    node->course = clock_course_start(mono_ns(sim, node), wall_ns(sim, node) + offset_ns);
    node->next_adjust_ns = sim->now_ns;
    node->latest_ns = 0;
    node->again = false;
}

int64_t shell_clock(const struct sim *sim, const struct node *node)
{
    return clock_course_at(&node->course, mono_ns(sim, node));
}

/* Before each tick of control, as often as node/runtime looks at clocks. */
void clocks_look(struct sim *sim, struct node *node)
{
    struct cluster_time_sample clocks[SHARD_CLOCKS];
    const int64_t now_ns = shell_clock(sim, node);
    const int64_t wall = wall_ns(sim, node) - now_ns;
    if (sim->now_ns < node->next_adjust_ns)
        return;
    node->next_adjust_ns = sim->now_ns + CLOCK_WALL_EVERY_NS;
    control_wall(node->control, wall);
    for (uint8_t i = 0; i < node->shard_count; i++) {
        if (node->shards[i] == NULL)
            continue;
        shard_wall(node->shards[i], wall);
        control_clock_heard(node->control, now_ns, clocks,
                            shard_clocks(node->shards[i], clocks, SHARD_CLOCKS));
    }
    node->course = clock_course_adjust(&node->course, mono_ns(sim, node),
                                       control_clock_target_ns(node->control));
}

/* Before each event: whether boot time was set back, so that time would stand still. */
bool clocks_set_back(struct sim *sim, struct node *node)
{
    const int64_t now_ns = shell_clock(sim, node);
    if (now_ns > node->latest_ns)
        node->latest_ns = now_ns;
    if (node->latest_ns - now_ns < CLUSTER_TIME_REFUSED_NS || node->stopping)
        return false;
    sim_tell(sim, 1, "the boot time of n%u was set back", node->index);
    sim->coverage.clock_restarts++;
    node->again = true;
    return true;
}

/* After each event of control: a node whose time is off starts again. True: it is to end at once.
 */
bool clocks_judge(struct sim *sim, struct node *node)
{
    const enum clock_verdict verdict = control_clock_verdict(node->control);
    if (verdict < CLOCK_PASSES || node->stopping)
        return false;
    sim_tell(sim, 1, "the time of n%u is off: %s", node->index, cluster_time_verdict_name(verdict));
    sim->coverage.clock_restarts++;
    node->again = true;
    if (verdict == CLOCK_REFUSED)
        return true;
    node_stop(sim, node);
    return false;
}

/* The process has ended. */
void clocks_ended(struct sim *sim, struct node *node)
{
    if (node->again)
        node_start_later(sim, node->index, AGAIN_NS);
    node->again = false;
}
