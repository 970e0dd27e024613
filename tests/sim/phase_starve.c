/* phase_starve.c - processors that are taken by others: nodes that come late, but come.
 *
 *   starve   every node is late once, by less than a silence; then one after the other stands still
 *            for up to 600 ms, again and again, under load             nobody takes over; exactly
 *                                                                      the limits
 */
#include <inttypes.h>

#include "tests/sim/phase.h"

enum {
    LATE_MIN_TENTHS = 45, /* of a keep-alive: later than an idle node's step (PEERS-11) */
    LATE_MAX_TENTHS = 65, /* and less than its silence, or what it is told of as deaf (PEERS-6) */
    STALLS = 12,
    STALL_MIN_MS = 20,
    STALL_MAX_MS = 600
};

static void stand_still(struct sim *sim, struct node *node, int64_t ms)
{
    node->paused_until_ns = sim->now_ns + ms * SIM_MS;
    sim->coverage.starved++;
    sim_tell(sim, 1, "n%u gets no processor for %lld ms", node->index, (long long)ms);
}

/* One node after the other, so that all others see it. */
static bool late(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (phase_first(sim)) {
        plan->left = 0;
        plan->takeovers = nodes_takeovers(sim);
    }
    if (plan->left == sim->node_count)
        return true;
    struct node *node = &sim->nodes[plan->left++];
    if (!node->up || !node->member)
        return false;
    const int64_t tenths = random_between(phase_stream(sim), LATE_MIN_TENTHS, LATE_MAX_TENTHS);
    stand_still(sim, node, sim->options.keepalive_ms * tenths / 10);
    phase_wait(sim, sim->options.keepalive_ms * 15);
    return false;
}

static bool starve(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (phase_first(sim))
        plan->left = STALLS;
    if (plan->left-- == 0)
        return true;
    struct node *node = node_some_up(sim);
    const int64_t ms = random_between(phase_stream(sim), STALL_MIN_MS, STALL_MAX_MS);
    if (sim->now_ns >= node->paused_until_ns + STALL_MIN_MS * SIM_MS)
        stand_still(sim, node, ms);
    phase_wait(sim, random_between(phase_stream(sim), STALL_MIN_MS, STALL_MAX_MS));
    return false;
}

/* Its last stall is over, and a silence after it. */
static bool breathe(struct sim *sim)
{
    phase_wait(sim, 2 * STALL_MAX_MS);
    return true;
}

static bool judge(struct sim *sim)
{
    const uint64_t takeovers = nodes_takeovers(sim) - sim->plan.takeovers;
    if (takeovers > 0)
        sim_fail(sim, "%" PRIu64 " vnodes were taken over from nodes that only came late",
                 takeovers);
    return step_kept(sim);
}

const struct phase_step phase_starve[] = {
    {"some", step_some},   {"late", late},          {"starve", starve},
    {"breathe", breathe},  {"enough", step_enough}, {"drain", step_drain},
    {"audit", step_audit}, {"judge", judge},        {NULL, NULL},
};
