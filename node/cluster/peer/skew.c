/* skew.c - clocks as seen by a shard; skew.h tells the idea. Pure. */
#include "node/cluster/peer/skew.h"
#include "base/assert.h"

#include "node/cluster/shard_state.h"

/* The least difference that the bounds allow, without its sign. */
static int64_t least(int64_t low_ns, int64_t high_ns)
{
    if (low_ns > 0)
        return low_ns;
    return high_ns < 0 ? -high_ns : 0;
}

bool skew_stands(const struct shard *shard)
{
    return shard->watch.doubt_ns == 0 && !shard->watch.refused;
}

static void end_doubt(struct shard *shard)
{
    shard->watch.doubt_ns = 0;
    shard->reroute_due = true;
}

/* Another shard of this node has the same clock. */
static bool is_sibling(const struct shard *shard, uint16_t at)
{
    return shard->peers[at]->node == shard->options.node_id;
}

void skew_ping(struct shard *shard, uint16_t at, const struct peer_ping *ping)
{
    struct peer_clock *clock = &shard->peers[at]->clock;
    const int64_t echo_ns = ping->echo_ns > clock->seen_ns ? ping->echo_ns : clock->seen_ns;
    if (echo_ns == 0 || echo_ns > shard->now_ns || is_sibling(shard, at))
        return;
    const int64_t low_ns = ping->sent_ns - shard->now_ns;
    const int64_t high_ns = ping->sent_ns - echo_ns;
    if (clock->told > 0 && (low_ns > clock->high_ns || high_ns < clock->low_ns))
        clock->told = 0; /* they contradict each other: one by itself says nothing */
    if (clock->told == 0 || high_ns - low_ns <= clock->high_ns - clock->low_ns) {
        clock->low_ns = low_ns;
        clock->high_ns = high_ns;
    }
    ASSERT(clock->low_ns <= clock->high_ns); /* SKEW-5 */
    clock->told++;
    if (shard->watch.doubt_ns != 0 && echo_ns >= shard->watch.doubt_ns &&
        least(low_ns, high_ns) < CLUSTER_TIME_REFUSED_NS) /* SKEW-3 */
        end_doubt(shard);
}

int64_t skew_seen_ns(const struct shard *shard, uint16_t at)
{
    return shard->peers[at]->clock.ping_ns;
}

bool skew_frame(struct shard *shard, uint16_t at, const struct peer_envelope *envelope)
{
    struct peer_clock *clock = &shard->peers[at]->clock;
    struct bytes_reader reader;
    struct peer_record record;
    if (envelope->boot > clock->process) { /* what is known is of an earlier one */
        clock->process = envelope->boot;
        clock->told = 0;
        clock->ping_ns = 0;
    }
    clock->wall_ns = envelope->wall_ns;
    clock->seen_ns = envelope->seen_ns;
    if (clock->off == 0 || envelope->boot > clock->off) {
        clock->ping_ns = 0;
        return false;
    }
    bytes_reader_init(&reader, envelope->records, envelope->len);
    while (peer_next(&reader, 2 * shard->options.vnodes, &record) > 0) {
        if (record.type == PEER_PING) {
            skew_ping(shard, at, &record.ping);
            clock->ping_ns = record.ping.sent_ns;
        }
        shard->stats.clock_refused++;
    }
    return true;
}

void skew_gap(struct shard *shard, int64_t gap_ns)
{
    if (gap_ns < CLUSTER_TIME_REFUSED_NS || shard->peer_count == 0)
        return;
    shard->watch.doubt_ns = shard->now_ns;
    for (uint16_t i = 0; i < shard->peer_count; i++)
        shard->peers[i]->clock.told = 0; /* measured by another time */
}

void skew_tick(struct shard *shard)
{
    bool heard = false;
    if (shard->watch.doubt_ns == 0)
        return;
    for (uint16_t i = 0; i < shard->peer_count && !heard; i++)
        heard = shard->peers[i]->in_view && !is_sibling(shard, i) &&
                shard->peers[i]->heard_ns >= shard->watch.doubt_ns;
    const int64_t patience_ns = heard ? shard->options.grace_ns : 3 * shard->options.silence_ns;
    if (shard->now_ns - shard->watch.doubt_ns >= patience_ns)
        end_doubt(shard);
}

void skew_view(struct shard *shard)
{
    const struct view *view = shard->view;
    ASSERT(view->self < view->member_count); /* VIEW-1 */
    shard->watch.refused = view->members[view->self].clock.verdict == CLOCK_REFUSED;
    for (uint16_t i = 0; i < shard->peer_count; i++) {
        struct peer *peer = shard->peers[i];
        const struct view_member *member = view_find(view, peer->node);
        const bool off = member != NULL && member->clock.verdict == CLOCK_REFUSED;
        peer->clock.off = !off                         ? 0
                          : member->clock.process != 0 ? member->clock.process
                                                       : UINT64_MAX;
    }
}

void shard_wall(struct shard *shard, int64_t wall_ns)
{
    shard->watch.wall_ns = wall_ns;
}

uint32_t shard_clocks(struct shard *shard, struct cluster_time_sample *out, uint32_t capacity)
{
    uint32_t count = 0;
    for (uint32_t tried = 0; tried < shard->peer_count && count < capacity; tried++) {
        struct peer *peer = shard->peers[shard->watch.next++ % shard->peer_count];
        if (peer->clock.told == 0 || !peer->in_view)
            continue;
        out[count++] = (struct cluster_time_sample){.id = peer->node,
                                                    .process = peer->clock.process,
                                                    .low_ns = peer->clock.low_ns,
                                                    .high_ns = peer->clock.high_ns,
                                                    .wall_ns = peer->clock.wall_ns,
                                                    .count = peer->clock.told};
        peer->clock.told = 0;
    }
    ASSERT(count <= capacity);
    return count;
}
