/* phase_clocks.c - clocks that are wrong, of nodes that decide, under load.
 *
 *   clocks   one of these, twice                                          what no replica had
 *              the wall clock of a node is an hour or a day off, and it   acknowledged;
 *              starts again so                                            SIMCLOCKS-1, SIMCLOCKS-2
 *              boot time, with the wall clock or without, of one or two
 *              nodes jumps by seconds, an hour or a day
 *              that of one is set back
 *              that of one jumps by 0.6 to 1.9 s
 *              the wall clocks of all are stepped, and one starts again
 *              boot time of all jumps by 5 s
 *              a spare node joins, or one comes back without its disk, a day off
 *              a node stands still for seconds
 *
 * SIMCLOCKS-1  A node whose time left that of the others by 2 s starts again within JUDGED_MS.
 * SIMCLOCKS-2  Nobody else does so for its clock.
 * SIMCLOCKS-3  Whose wall clock is a day off is not taken into the ring, until it is right.
 * SIMCLOCKS-7  After a full stop all go by the wall clocks of a majority, though the one whose wall
 *              clock is off is the first that runs. (At the end of the phase, when nothing is
 *              asked.)
 *
 * SIMCLOCKS-4 to SIMCLOCKS-6 are of clocks.c.
 */
#include <inttypes.h>

#include "ring/config.h"

#include "tests/sim/clocks.h"
#include "tests/sim/phase.h"

enum { HOUR_MS = 3600000, DAY_MS = 86400000, JUDGED_MS = 3000, JUMP_MS = 5000 };
enum { NEWCOMERS_MORE = 3 }; /* not each cluster has a place for one */
enum { COLD_FIRST_MS = 1500, COLD_SPREAD_MS = 600, COLD_JUDGED_MS = 20000 };

enum kind {
    KIND_WALL,
    KIND_BOOT,
    KIND_BOOT_TWO,
    KIND_BACK,
    KIND_PASSES,
    KIND_FLEET,
    KIND_ALL,
    KIND_NEWCOMER,
    KIND_STILL,
};
enum { KINDS = KIND_STILL + 1, HELD_MS = 3000, STILL_MIN_MS = 2100, STILL_MAX_MS = 5000 };

static int64_t drawn_ms(struct sim *sim)
{
    static const int64_t by_ms[] = {JUMP_MS, HOUR_MS, DAY_MS};
    return by_ms[random_below(phase_stream(sim), 3)];
}

static void tell(struct sim *sim, const struct node *node, const char *what, int64_t ms)
{
    sim_tell(sim, 1, "%s of n%u is stepped by %lld ms", what, node->index, (long long)ms);
    sim->coverage.wrong_clocks++;
}

/* What the node has not been told to be acknowledged may be forgotten when it starts again. */
static void expect_restart(struct sim *sim, const struct node *node)
{
    sim->plan.bound += node_unconfirmed(node);
    sim->plan.side |= 1u << node->index;
}

static void jump(struct sim *sim, struct node *node, int64_t ms)
{
    node->boot_offset_ns += ms * SIM_MS;
    if (random_below(phase_stream(sim), 2) == 0)
        node->wall_offset_ns += ms * SIM_MS;
    tell(sim, node, "boot time", ms);
    expect_restart(sim, node);
}

static void wall_of_one(struct sim *sim, struct node *node)
{
    const int64_t ms = random_below(phase_stream(sim), 2) == 0 ? drawn_ms(sim) : -drawn_ms(sim);
    node->wall_offset_ns += ms * SIM_MS;
    tell(sim, node, "the wall clock", ms);
    sim->plan.bound += node_unconfirmed(node);
    faults_crash(sim, node);
    node_start_later(sim, node->index, (int64_t)random_below(phase_stream(sim), 500 * SIM_MS));
}

static void wall_of_all(struct sim *sim, struct node *node)
{
    const int64_t ms = random_below(phase_stream(sim), 2) == 0 ? drawn_ms(sim) : -drawn_ms(sim);
    for (uint32_t i = 0; i < sim->node_count; i++)
        sim->nodes[i].wall_offset_ns += ms * SIM_MS;
    tell(sim, node, "the wall clock of all and", ms);
    sim->plan.bound += node_unconfirmed(node);
    faults_crash(sim, node);
    node_start_later(sim, node->index, (int64_t)random_below(phase_stream(sim), 500 * SIM_MS));
}

static void boot_of_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        sim->nodes[i].boot_offset_ns += JUMP_MS * SIM_MS;
    tell(sim, &sim->nodes[0], "boot time of all and", JUMP_MS);
}

/* Its time goes on meanwhile, as that of the others: for it nobody starts again. */
static void stand_still(struct sim *sim, struct node *node)
{
    const int64_t ms = random_between(phase_stream(sim), STILL_MIN_MS, STILL_MAX_MS);
    node->paused_until_ns = sim->now_ns + ms * SIM_MS;
    sim_tell(sim, 1, "n%u stands still for %lld ms", node->index, (long long)ms);
    sim->plan.bound += node_unconfirmed(node);
    phase_wait(sim, ms + 1000);
}

/* One that never was a member, or one that lost its disk, but where promises may be on no other. */
static struct node *newcomer_of(struct sim *sim, struct node *node)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (!sim->nodes[i].member)
            return &sim->nodes[i];
    if (node->former_count == SIM_FORMERS_MAX || sim->options.quorum)
        return NULL;
    sim->plan.bound += node_unconfirmed(node);
    faults_crash(sim, node);
    node_replace(sim, node);
    return node;
}

/* A spare node comes, or one comes back as another, and it is a day off. */
/* What the wall clocks were stepped by, as those of all may have been: the median. */
static int64_t walls_ns(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        uint32_t below = 0;
        uint32_t equal = 0;
        for (uint32_t j = 0; j < sim->node_count; j++) {
            below += sim->nodes[j].wall_offset_ns < sim->nodes[i].wall_offset_ns;
            equal += sim->nodes[j].wall_offset_ns == sim->nodes[i].wall_offset_ns;
        }
        if (below <= sim->node_count / 2 && below + equal > sim->node_count / 2)
            return sim->nodes[i].wall_offset_ns;
    }
    return 0;
}

static void newcomer(struct sim *sim, struct node *node)
{
    node = newcomer_of(sim, node);
    if (node == NULL)
        return;
    node->member = true;
    node->wall_offset_ns = walls_ns(sim) + DAY_MS * SIM_MS;
    tell(sim, node, "the wall clock", DAY_MS);
    sim->coverage.held_newcomers++;
    sim->plan.left = 1;
    sim->plan.victim = node->index;
    node_start_later(sim, node->index, 50 * SIM_MS);
}

/* False while a newcomer is to be kept outside (SIMCLOCKS-3). */
static bool newcomer_in(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    struct node *newcomer = &sim->nodes[plan->victim];
    if (plan->left == 0)
        return true;
    for (uint32_t i = 0; plan->left == 1 && i < sim->node_count; i++)
        if (sim->nodes[i].up && sim->nodes[i].member &&
            ring_config_find(control_config(sim->nodes[i].control), newcomer->id) != NULL)
            sim_fail(sim, "n%u is a day off and was taken into the ring", newcomer->index);
    if (sim->now_ns - plan->entered_ns < HELD_MS * SIM_MS)
        return false;
    newcomer->wall_offset_ns = walls_ns(sim);
    plan->left = 0;
    return true;
}

/* Nodes that are up and in the ring, the one that is given not among them. */
static struct node *another(struct sim *sim, const struct node *but)
{
    struct node *node = node_some_up(sim);
    while (node == but)
        node = node_some_up(sim);
    return node;
}

static void step(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    const uint64_t drawn = random_below(phase_stream(sim), KINDS + NEWCOMERS_MORE);
    const enum kind kind = drawn < KINDS ? (enum kind)drawn : KIND_NEWCOMER;
    sim->stepped = true;
    sim->plan.changed = true;
    switch (kind) {
    case KIND_WALL:
        wall_of_one(sim, node);
        break;
    case KIND_BOOT:
        jump(sim, node, drawn_ms(sim));
        break;
    case KIND_BOOT_TWO:
        sim->plan.splits++; /* both may hold what nobody else does */
        jump(sim, node, drawn_ms(sim));
        jump(sim, another(sim, node), 2 * drawn_ms(sim));
        break;
    case KIND_BACK:
        jump(sim, node, -drawn_ms(sim));
        break;
    case KIND_PASSES:
        jump(sim, node, random_between(phase_stream(sim), 600, 1900));
        break;
    case KIND_FLEET:
        wall_of_all(sim, node);
        break;
    case KIND_ALL:
        boot_of_all(sim);
        break;
    case KIND_NEWCOMER:
        newcomer(sim, node);
        break;
    case KIND_STILL:
        stand_still(sim, node);
        break;
    }
}

static bool wrong(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (phase_first(sim)) {
        client_load(sim, plan->keys);
        plan->side = 0;
        plan->left = 0;
        plan->takeovers = sim->coverage.clock_restarts;
        phase_wait(sim, 20);
        step(sim);
        return false;
    }
    for (uint32_t i = 0; i < sim->node_count; i++)
        if ((!sim->nodes[i].up || sim->nodes[i].stopping) && sim->nodes[i].member)
            return phase_not_yet(sim, "a node does not start again");
    if (!newcomer_in(sim))
        return phase_not_yet(sim, "a newcomer is kept outside");
    const uint64_t restarts = sim->coverage.clock_restarts - plan->takeovers;
    const uint64_t due = (uint64_t)__builtin_popcount(plan->side);
    if (restarts > due) /* SIMCLOCKS-2 */
        sim_fail(sim,
                 "%" PRIu64 " nodes started again for their clocks, of which %" PRIu64 " were off",
                 restarts, due);
    if (restarts < due && sim->now_ns - plan->entered_ns > JUDGED_MS * SIM_MS) /* SIMCLOCKS-1 */
        sim_fail(sim, "of %" PRIu64 " nodes whose time is off %" PRIu64 " started again", due,
                 restarts);
    return restarts == due || phase_not_yet(sim, "a node whose time is off goes on");
}

/* The wall clocks are right again; of boot time nobody knows what is right. */
static bool mend(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        sim->nodes[i].wall_offset_ns = 0;
    phase_wait(sim, 500);
    return true;
}

/* Where two nodes end at once, what they alone had is lost, to the change as the fronts tell. */
static bool judge(struct sim *sim)
{
    for (uint32_t vnode = 0; sim->plan.splits > 0 && vnode < sim->vnodes; vnode++)
        sim->plan.bound += sim->fronts[vnode].lost;
    check_bound(sim, sim->plan.keys, sim->plan.bound);
    check_charged(sim, sim->plan.keys, sim->plan.bound);
    return true;
}

static void stop_all(struct sim *sim)
{
    struct node *wrong = node_some_up(sim);
    sim->cold = true;
    sim->plan.victim = wrong->index;
    wrong->wall_offset_ns = (random_below(phase_stream(sim), 2) == 0 ? 1 : -1) * HOUR_MS * SIM_MS;
    tell(sim, wrong, "the wall clock, of the first to start,", wrong->wall_offset_ns / SIM_MS);
    for (uint8_t i = 0; i < sim->node_count; i++) {
        struct node *node = &sim->nodes[i];
        const int64_t after_ms =
            COLD_FIRST_MS + (int64_t)random_below(phase_stream(sim), COLD_SPREAD_MS);
        if (node->up)
            node_crash(sim, node, true);
        if (node->member)
            node_start_later(sim, i, node == wrong ? 0 : after_ms * SIM_MS);
    }
}

/* SIMCLOCKS-7 */
static bool cold(struct sim *sim)
{
    if (phase_first(sim)) {
        stop_all(sim);
        phase_wait(sim, COLD_FIRST_MS + COLD_SPREAD_MS);
        return false;
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *node = &sim->nodes[i];
        const int64_t off_ns = node->up ? shell_clock(sim, node) - SIM_EPOCH - sim->now_ns : 0;
        if (!node->member ||
            (node->up && off_ns < CLUSTER_TIME_REFUSED_NS && off_ns > -CLUSTER_TIME_REFUSED_NS))
            continue;
        if (sim->now_ns - sim->plan.entered_ns > COLD_JUDGED_MS * SIM_MS)
            sim_fail(sim, "after a full stop n%u goes by a time that is off by %lld ms", i,
                     (long long)(off_ns / SIM_MS));
        return phase_not_yet(sim, "a node goes by a clock that is off");
    }
    sim->nodes[sim->plan.victim].wall_offset_ns = 0;
    sim->cold = false;
    return true;
}

const struct phase_step phase_clocks[] = {
    {"some", step_some},
    {"wrong", wrong},
    {"owned", step_owned},
    {"again", wrong},
    {"enough", step_enough},
    {"drain", step_drain},
    {"mend", mend},
    {"rest", step_rest},
    {"audit", step_audit},
    {"judge", judge},
    {"flushed", step_flushed},
    {"cold", cold},
    {"back", step_rest},
    {NULL, NULL},
};
