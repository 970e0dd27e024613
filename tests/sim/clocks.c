/* clocks.c - the clocks of a simulated node: boot time and wall time, each with steps of its own,
 * and the shipped cluster time upon them; as node/runtime does it.
 *
 * SIMCLOCKS-4  A process whose cluster time is the receiver's is heard, also if the one before it
 *              was not.
 * SIMCLOCKS-5  Of a process that the receiver's view says has no say, nothing is taken.
 * SIMCLOCKS-6  A shard whose time is off that of most by 2 s decides nothing, takes over nothing,
 *              takes nothing of what others count, forgets nothing and writes nothing. But after a
 *              full stop: then nobody knows what the others' time will be.
 */
#include "tests/sim/clocks.h"

#include <stdlib.h>

#include "base/assert.h"
#include "node/cluster/clock/first_time.h"
#include "node/cluster/control/control_state.h"
#include "node/cluster/shard/test_probe.h"
#include "node/cluster/wire/peer_wire.h"

enum { SHARD_CLOCKS = 64 };
#define HEARD_NS      (CLUSTER_TIME_REFUSED_NS / 2)
#define FIRST_WAIT_NS (1000 * SIM_MS) /* CLOCK_FIRST_NS */
#define AGAIN_NS      (50 * SIM_MS)   /* until a node that starts again runs */

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
    return other != node && other->member == node->member &&
           node_region(sim, other) == node_region(sim, node) &&
           !sim->net.links[node->index][other->index].cut &&
           !sim->net.links[other->index][node->index].cut;
}

/* One that is to start within the second that a node waits answers by its wall clock. `starts_ns`:
 * when it was to start last, 0: never. */
static bool starts(const struct sim *sim, const struct node *other)
{
    return !other->up && other->starts_ns > 0 && other->starts_ns >= sim->now_ns &&
           other->starts_ns - sim->now_ns < FIRST_WAIT_NS;
}

static void know_ring(const struct node *node, struct first_time *first)
{
    const struct disk_meta bytes = disk_get_meta(&node->disk, "ring.config");
    struct ring_config *config = malloc(sizeof *config);
    struct mp_token *tokens = malloc(RING_CONFIG_TOKENS_MAX * sizeof *tokens);
    ASSERT(config != NULL && tokens != NULL);
    if (bytes.bytes != NULL &&
        ring_config_decode(config, bytes.bytes, bytes.len, tokens, RING_CONFIG_TOKENS_MAX) == 0)
        first_time_ring(first, config);
    free(config);
    free(tokens);
}

/* The first cluster time, as node/runtime/start/clock_first.c finds it: answers come one by one,
 * and it waits for no more than are enough. */
void clocks_start(struct sim *sim, struct node *node)
{
    struct first_time first;
    struct node *asked[SIM_ALL_MAX];
    uint32_t count = 0;
    first_time_init(&first, node->id);
    know_ring(node, &first);
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (reaches(sim, node, &sim->nodes[i]))
            asked[count++] = &sim->nodes[i];
    first.asked = count;
    struct first_time_choice choice = first_time_choose(&first, false);
    for (uint32_t i = 0; i < count && !choice.enough; i++) {
        const uint32_t place = ((uint32_t)node->boots + i) % count; /* another is first each time */
        struct node *other = asked[place];
        if (!other->up && !starts(sim, other))
            continue;
        const struct first_time_answer answer = {
            .id = other->id,
            .place = place,
            .running = other->up,
            .confirmed = other->up && cluster_time_confirmed(other->control->time),
            .time_ns = other->up ? shell_clock(sim, other) : wall_ns(sim, other),
            .wall_ns = other->up ? wall_ns(sim, other) - shell_clock(sim, other) : 0,
            .asked_ns = wall_ns(sim, node),
            .now_ns = wall_ns(sim, node)};
        first_time_heard(&first, &answer);
        choice = first_time_choose(&first, false);
    }
    if (!choice.enough)
        choice = first_time_choose(&first, true);
    node->course = clock_course_start(mono_ns(sim, node), wall_ns(sim, node) + choice.offset_ns);
    node->next_adjust_ns = sim->now_ns;
    node->latest_ns = 0;
    node->again = false;
}

int64_t shell_clock(const struct sim *sim, const struct node *node)
{
    return clock_course_at(&node->course, mono_ns(sim, node));
}

void clocks_tell(const struct sim *sim, const struct node *node)
{
    const int64_t wall = wall_ns(sim, node) - shell_clock(sim, node);
    control_wall(node->control, wall);
    for (uint8_t i = 0; i < node->shard_count; i++)
        if (node->shards[i] != NULL)
            shard_wall(node->shards[i], wall);
}

/* Before each tick of control, as often as node/runtime looks at clocks. */
void clocks_look(struct sim *sim, struct node *node)
{
    struct cluster_time_sample clocks[SHARD_CLOCKS];
    const int64_t now_ns = shell_clock(sim, node);
    if (sim->now_ns < node->next_adjust_ns)
        return;
    node->next_adjust_ns = sim->now_ns + CLOCK_WALL_EVERY_NS;
    clocks_tell(sim, node);
    for (uint8_t i = 0; i < node->shard_count; i++)
        if (node->shards[i] != NULL)
            control_clock_heard(node->control, now_ns, clocks,
                                shard_clocks(node->shards[i], clocks, SHARD_CLOCKS));
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

/* ---- what shards do -------------------------------------------------------------------------- */

/* By how much the node's time differs from that of most. */
static int64_t off_ns(const struct sim *sim, const struct node *node)
{
    int64_t skews[SIM_ALL_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->all_count; i++) {
        const struct node *other = &sim->nodes[i];
        if (!other->up || node_region(sim, other) != node_region(sim, node))
            continue;
        const int64_t skew_ns = shell_clock(sim, other) - shell_clock(sim, node);
        uint32_t at = count++;
        for (; at > 0 && skews[at - 1] > skew_ns; at--)
            skews[at] = skews[at - 1];
        skews[at] = skew_ns;
    }
    return skews[(count - 1) / 2];
}

static bool is_off(int64_t skew_ns, int64_t by_ns)
{
    return skew_ns >= by_ns || skew_ns <= -by_ns;
}

static uint64_t seqs_of(const struct sim *sim, const struct node *node, uint8_t shard)
{
    uint64_t sum = 0;
    for (uint32_t vnode = shard; vnode < sim->vnodes; vnode += node->shard_count)
        sum += probe_seq(node->shards[shard], vnode);
    return sum;
}

void clocks_see(const struct sim *sim, const struct node *node, uint8_t shard,
                struct clocks_seen *out)
{
    struct shard_stats stats;
    *out = (struct clocks_seen){.off = false};
    if (!sim->stepped)
        return;
    out->refused = probe_clock_refused(node->shards[shard]);
    out->off = !sim->cold && is_off(off_ns(sim, node), CLUSTER_TIME_REFUSED_NS);
    if (!out->off)
        return;
    shard_stats(node->shards[shard], &stats);
    out->writes = node->disk.batches[shard].out;
    out->checks = stats.checks;
    out->terms = stats.terms_opened;
    out->slots = stats.slots;
    out->seqs = seqs_of(sim, node, shard);
}

/* Whether the view of the node says that the clock of that very process is 2 s off. */
static bool has_no_say(const struct node *node, const struct peer_envelope *envelope)
{
    const struct view_member *member =
        node->view == NULL ? NULL : view_find(node->view, envelope->node);
    return member != NULL && member->clock.verdict == CLOCK_REFUSED &&
           member->clock.process == envelope->boot;
}

/* SIMCLOCKS-4 and SIMCLOCKS-5. */
static void check_frame(struct sim *sim, const struct node *node, const struct event *event,
                        bool refused)
{
    const struct node *from = &sim->nodes[event->from];
    struct peer_envelope envelope;
    if (!from->up || from->boots != event->tag ||
        peer_decode(event->bytes, event->len, &envelope) != 0 || envelope.node != from->id)
        return; /* what a process left behind may be former */
    const int64_t skew_ns = shell_clock(sim, from) - shell_clock(sim, node);
    sim->coverage.clock_refused += refused;
    if (refused && !is_off(skew_ns, HEARD_NS))
        sim_fail(sim, "n%u refuses n%u, whose time differs by %lld ms", node->index, from->index,
                 (long long)(skew_ns / SIM_MS));
    if (!refused && envelope.len > 0 && has_no_say(node, &envelope))
        sim_fail(sim, "n%u listens to n%u, whose clock has no say", node->index, from->index);
}

void clocks_check(struct sim *sim, const struct node *node, const struct event *event,
                  const struct clocks_seen *before)
{
    struct clocks_seen now;
    if (!sim->stepped || !node->up || node->shards[event->shard] == NULL)
        return;
    clocks_see(sim, node, event->shard, &now);
    if (event->kind == EVENT_PEER)
        check_frame(sim, node, event, now.refused > before->refused);
    if (!before->off || !now.off)
        return;
    const char *does = now.checks > before->checks   ? "decides"
                       : now.terms > before->terms   ? "opens a term"
                       : now.slots < before->slots   ? "forgets"
                       : now.seqs > before->seqs     ? "takes what others count"
                       : now.writes > before->writes ? "writes"
                                                     : NULL;
    if (does != NULL) /* SIMCLOCKS-6 */
        sim_fail(sim, "n%u %s while its time is off", node->index, does);
}

/* The process has ended. */
void clocks_ended(struct sim *sim, struct node *node)
{
    if (node->again)
        node_start_later(sim, node->index, AGAIN_NS);
    node->again = false;
}
