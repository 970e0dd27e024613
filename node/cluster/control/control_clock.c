/* control_clock.c - cluster time as control sees it: what gossip and the shards measured is judged
 * ten times a second (cluster_time.h), and told to shards with the view and to operators.
 *
 * A node whose own clock is off stops, passes its vnodes on first if it still may, and starts
 * again: every core reckons with a time that never jumps, and a start is the one moment at which
 * nothing does yet. The runtime does so (control_clock_verdict).
 *
 * Only members of this region count: others have rings of their own.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/control/control_state.h"

#define JUDGE_EVERY_NS (100 * CONTROL_MS)
#define SURE_NS        (5000 * CONTROL_MS) /* after a jump; a wrong clock is found within two seconds */

enum { SKEW_LEN = 48 };

void control_wall(struct control *control, int64_t wall_ns)
{
    control->wall_ns = wall_ns;
    swim_wall(control->swim, wall_ns, false);
    cluster_time_wall(control->time, wall_ns);
}

void control_clock_heard(struct control *control, int64_t now_ns,
                         const struct cluster_time_sample *clocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        cluster_time_heard(control->time, now_ns, &clocks[i]);
}

/* What gossip measured since the last time. */
static void take_gossip(struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        const struct cluster_time_sample sample = {.id = member->record.id,
                                                   .low_ns = member->clock.low_ns,
                                                   .high_ns = member->clock.high_ns,
                                                   .wall_ns = member->clock.wall_ns,
                                                   .count = 1};
        if (member->clock.at_ns > control->clocks_ns && member->state == SWIM_ALIVE &&
            !control_remote(control, member))
            cluster_time_heard(control->time, control->now_ns, &sample);
    }
}

void control_clock_judge(struct control *control)
{
    uint64_t ids[RING_MEMBERS_MAX];
    const int64_t gap_ns = control->now_ns - control->clocks_ns;
    if (gap_ns >= 0 && gap_ns < JUDGE_EVERY_NS)
        return;
    if (gap_ns < 0 || gap_ns >= CLUSTER_TIME_REFUSED_NS) {
        cluster_time_forget(control->time);
        control->jumped_ns = control->now_ns;
    }
    take_gossip(control);
    control->clocks_ns = control->now_ns;
    for (uint32_t i = 0; i < control->config->to_count; i++)
        ids[i] = control->config->to[i].id;
    if (cluster_time_judge(control->time, control->now_ns, ids, control->config->to_count))
        control->view_due = control->look_due = true;
    if (control->confirmed == cluster_time_confirmed(control->time))
        return;
    control->confirmed = !control->confirmed;
    control_tell_self(control);
}

bool control_clock_confirmed(const struct swim_record *record)
{
    return (record->flags & CONTROL_FLAG_TIMED) != 0;
}

bool control_clock_sure(const struct control *control)
{
    if (control->config->to_count <= 1)
        return true;
    return cluster_time_agreed(control->time) && control_clock_verdict(control) < CLOCK_PASSES &&
           control->now_ns - control->jumped_ns >= SURE_NS;
}

int64_t control_clock_target_ns(const struct control *control)
{
    return cluster_time_target_ns(control->time);
}

enum clock_verdict control_clock_verdict(const struct control *control)
{
    return cluster_time_of(control->time, control->options.node_id)->verdict;
}

struct view_clock control_clock_of(const struct control *control, uint64_t id)
{
    const struct cluster_time_member *member = cluster_time_of(control->time, id);
    if (member == NULL)
        return (struct view_clock){.verdict = CLOCK_UNKNOWN};
    return (struct view_clock){.verdict = member->verdict,
                               .process = member->process,
                               .held = member->held,
                               .skew_ns = member->skew_ns,
                               .wall_skew_ns = member->wall_skew_ns,
                               .ours = member->ours,
                               .wall_ours = member->wall_ours};
}

/* ---- for people ------------------------------------------------------------------------------ */

/* "3600.0 s ahead of" or "behind". */
static const char *skew_text(int64_t skew_ns, char out[SKEW_LEN])
{
    const int64_t ms = (skew_ns < 0 ? -skew_ns : skew_ns) / 1000000;
    (void)snprintf(out, SKEW_LEN, "%lld.%03lld s %s", (long long)(ms / 1000),
                   (long long)(ms % 1000), skew_ns < 0 ? "behind" : "ahead of");
    return out;
}

bool control_clock_sentence(const char *name, const struct view_clock *clock, char *out,
                            size_t capacity)
{
    static const char cluster[] = "the cluster";
    static const char by[] = "this node";
    char text[SKEW_LEN];
    const char *does = NULL;
    if (clock->held) {
        (void)snprintf(out, capacity,
                       "%s is kept out of the ring until its wall clock is right: it is %s that of "
                       "the cluster",
                       name, skew_text(clock->wall_skew_ns, text));
        return true;
    }
    if (clock->verdict == CLOCK_REFUSED)
        does = "it neither decides nor is listened to until it has started again";
    else if (clock->verdict == CLOCK_PASSES)
        does = "it passes its vnodes on and starts again";
    if (does != NULL)
        (void)snprintf(out, capacity, "the time of %s is %s that of the cluster: %s", name,
                       skew_text(clock->skew_ns, text), does);
    else if (clock->verdict == CLOCK_ALARM && clock->skew_ns < CLUSTER_TIME_ALARM_NS * 4 / 5 &&
             clock->skew_ns > -CLUSTER_TIME_ALARM_NS * 4 / 5)
        (void)snprintf(out, capacity, "the wall clock of %s is %s that of %s", name,
                       skew_text(clock->wall_skew_ns, text), clock->wall_ours ? by : cluster);
    else if (clock->verdict == CLOCK_ALARM)
        (void)snprintf(out, capacity, "the time of %s is %s that of %s", name,
                       skew_text(clock->skew_ns, text), clock->ours ? by : cluster);
    else
        return false;
    return true;
}

bool control_clock_off(const struct control *control, char *out, size_t capacity)
{
    char text[SKEW_LEN];
    const int64_t off_ns = -cluster_time_target_ns(control->time);
    const bool off = off_ns >= CLUSTER_TIME_REFUSED_NS || -off_ns >= CLUSTER_TIME_REFUSED_NS;
    if (off)
        (void)snprintf(out, capacity, "the time of the cluster is %s that of its wall clocks",
                       skew_text(off_ns, text));
    return off;
}
