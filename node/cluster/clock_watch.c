/* clock_watch.c - clocks as seen by a shard; clock_watch.h tells the idea. Pure. */
#include "node/cluster/clock_watch.h"

#include "node/cluster/shard_state.h"

/* The least difference that the bounds allow, without its sign. */
static int64_t least(int64_t low_ns, int64_t high_ns)
{
    if (low_ns > 0)
        return low_ns;
    return high_ns < 0 ? -high_ns : 0;
}

static void end_doubt(struct shard *shard)
{
    shard->watch.doubt_ns = 0;
    shard->reroute_due = true;
}

void clock_watch_ping(struct shard *shard, uint16_t at, const struct peer_ping *ping)
{
    struct peer_clock *clock = &shard->peers[at]->clock;
    if (ping->echo_ns == 0 || ping->echo_ns > shard->now_ns)
        return;
    const int64_t low_ns = ping->sent_ns - shard->now_ns;
    const int64_t high_ns = ping->sent_ns - ping->echo_ns;
    if (!clock->told || high_ns - low_ns <= clock->high_ns - clock->low_ns) {
        clock->low_ns = low_ns;
        clock->high_ns = high_ns;
        clock->told = true;
    }
    if (shard->watch.doubt_ns != 0 && ping->echo_ns >= shard->watch.doubt_ns &&
        least(low_ns, high_ns) < CLUSTER_TIME_REFUSED_NS) /* W3 */
        end_doubt(shard);
}

void clock_watch_gap(struct shard *shard, int64_t gap_ns)
{
    if (gap_ns < CLUSTER_TIME_REFUSED_NS || shard->peer_count == 0)
        return;
    shard->watch.doubt_ns = shard->now_ns;
    for (uint16_t i = 0; i < shard->peer_count; i++)
        shard->peers[i]->clock.told = false; /* measured by another time */
}

void clock_watch_tick(struct shard *shard)
{
    bool heard = false;
    if (shard->watch.doubt_ns == 0)
        return;
    for (uint16_t i = 0; i < shard->peer_count && !heard; i++)
        heard = shard->peers[i]->in_view && !peers_silent(shard, i);
    if (!heard || shard->now_ns - shard->watch.doubt_ns >= shard->options.grace_ns)
        end_doubt(shard);
}

void clock_watch_view(struct shard *shard)
{
    const struct view *view = shard->view;
    shard->watch.refused = view->members[view->self].clock.verdict == CLOCK_REFUSED;
    for (uint16_t i = 0; i < shard->peer_count; i++) {
        struct peer *peer = shard->peers[i];
        const struct view_member *member = view_find(view, peer->node);
        const bool off = member != NULL && member->clock.verdict == CLOCK_REFUSED;
        if (peer->clock.off && !off)
            vnodes_stir_all(shard);
        peer->clock.off = off;
    }
}

void shard_wall(struct shard *shard, int64_t wall_ns)
{
    shard->watch.wall_ns = wall_ns;
}

uint32_t shard_clocks(struct shard *shard, struct shard_clock *out, uint32_t capacity)
{
    uint32_t count = 0;
    for (uint32_t tried = 0; tried < shard->peer_count && count < capacity; tried++) {
        struct peer *peer = shard->peers[shard->watch.next++ % shard->peer_count];
        if (!peer->clock.told || !peer->in_view)
            continue;
        peer->clock.told = false;
        out[count++] = (struct shard_clock){.node = peer->node,
                                            .low_ns = peer->clock.low_ns,
                                            .high_ns = peer->clock.high_ns,
                                            .wall_ns = peer->clock.wall_ns};
    }
    return count;
}
