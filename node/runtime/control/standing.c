/* standing.c - a node that stood still, or lost its majorities, says so; standing.h is the
 * contract.
 *
 * Others say of a node that stood still that it did not answer, and the node itself knows better:
 * its loop wanted to wake at a time, and did half a second or more later.
 *
 * STANDING-1  Of stalls one line is written in ten seconds; the next one tells how many came in
 *             between.
 * STANDING-2  A majority is lost, or won, when it has been so for a second at two looks: not by a
 *             restart.
 */
#include "node/runtime/control/standing.h"

#include <inttypes.h>

#include "base/assert.h"

#define LOOK_NS        INT64_C(1000000000)
#define LASTS_NS       INT64_C(1000000000)
#define STALL_NS       INT64_C(500000000)
#define STALL_PAUSE_NS INT64_C(10000000000)
#define MS_NS          INT64_C(1000000)

void standing_woke(struct standing *standing, int64_t now_ns, int64_t late_ns,
                   const struct log *log)
{
    if (late_ns < STALL_NS)
        return;
    standing->stalls++;
    if (late_ns > standing->longest_ns)
        standing->longest_ns = late_ns;
    ASSERT(standing->stalls > 0 && standing->longest_ns >= late_ns);
    if (standing->stall_told_ns != 0 && now_ns - standing->stall_told_ns < STALL_PAUSE_NS)
        return; /* STANDING-1 */
    if (standing->stalls == 1)
        log_printf(log, LOG_LEVEL_WARN,
                   "this node stood still for %" PRId64
                   " ms: it got no processor, was stopped, or its machine was; others may have "
                   "decided in its place meanwhile",
                   late_ns / MS_NS);
    else
        log_printf(log, LOG_LEVEL_WARN,
                   "this node stood still %" PRIu64 " times, for %" PRId64
                   " ms at most: it gets too little of the processors",
                   standing->stalls, standing->longest_ns / MS_NS);
    standing->stall_told_ns = now_ns;
    standing->stalls = 0;
    standing->longest_ns = 0;
}

bool standing_due(const struct standing *standing, int64_t now_ns)
{
    return now_ns - standing->looked_ns >= LOOK_NS;
}

/* Whether it is another state than was told, and lasts (STANDING-2). */
static bool changes(struct standing_state *state, int64_t now_ns, uint32_t vnodes)
{
    if ((vnodes > 0) == (state->told > 0)) {
        state->since_ns = 0;
        return false;
    }
    if (state->since_ns == 0)
        state->since_ns = now_ns;
    if (now_ns - state->since_ns < LASTS_NS)
        return false;
    state->since_ns = 0;
    state->told = vnodes;
    return true;
}

void standing_look(struct standing *standing, int64_t now_ns, const struct shard_stats *stats,
                   uint32_t count, const struct log *log)
{
    uint32_t degraded = 0;
    uint32_t undecided = 0;
    standing->looked_ns = now_ns;
    for (uint32_t i = 0; i < count; i++) {
        degraded += stats[i].vnodes_unconfirmed;
        undecided += stats[i].quorum.vnodes_undecided;
    }
    if (changes(&standing->degraded, now_ns, degraded)) {
        if (degraded > 0)
            log_printf(
                log, LOG_LEVEL_WARN,
                "majority lost: %" PRIu32 " vnodes are decided here without a majority of "
                "their replicas; answers are degraded (`tidegate status` tells who is missing)",
                degraded);
        else
            log_printf(log, LOG_LEVEL_INFO,
                       "majority won back: one stands behind every vnode that is decided here");
    }
    if (changes(&standing->undecided, now_ns, undecided)) {
        if (undecided > 0)
            log_printf(log, LOG_LEVEL_WARN,
                       "majority lost: %" PRIu32 " vnodes of rules with consistency quorum are "
                       "decided by nobody whom this node knows; on_failure answers",
                       undecided);
        else
            log_printf(
                log, LOG_LEVEL_INFO,
                "majority won back: all vnodes of rules with consistency quorum are decided");
    }
}
