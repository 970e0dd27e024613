/* peers_check.c - what always holds of the peers of a shard and their channels.
 *
 * PEERS-13  The index finds each peer, by its node and shard, in its place; none is this shard.
 * PEERS-14  A peer that refuses connections is one whose connection was closed. Of a peer that was
 *           never heard nothing is known: no process, no echo.
 * PEERS-15  Nothing was heard of a peer, and nothing was echoed, at a time to come.
 * PEERS-16  A pass that runs is over some vnodes, whose links it names.
 *
 * CHANNEL-2  What is acknowledged was begun: out_acked <= out_seq, and the frame that is being
 *            filled is not acknowledged.
 * CHANNEL-3  The bytes in flight are those of the frames in flight.
 * CHANNEL-4  A frame that is being filled fits its outbox. It takes a place in the stream only if
 *            something is in it.
 *
 * SKEW-5  Bounds of a clock that were told are in order.
 *
 * Changes nothing: for tests and the simulator.
 */
#include "base/assert.h"
#include "node/cluster/shard_state.h"

static void check_channel(const struct shard *shard, const struct channel *channel)
{
    uint64_t bytes = 0;
    const uint64_t in_flight = channel->out_seq - channel->out_acked;
    INVARIANT("CHANNEL-2", channel->out_acked <= channel->out_seq);
    INVARIANT("CHANNEL-2", !channel->outbox_streams || in_flight > 0);
    INVARIANT("CHANNEL-1", in_flight <= shard->options.frames_max);
    for (uint32_t i = 0; i < CHANNEL_FRAMES_MAX && channel->out_bytes > 0; i++)
        bytes += channel->out_lens[i];
    INVARIANT("CHANNEL-3", bytes == channel->out_bytes);
    INVARIANT("CHANNEL-3", channel->out_bytes == 0 || in_flight > 0);
    INVARIANT("CHANNEL-4", !channel->outbox.failed && channel->outbox.len <= CHANNEL_OUTBOX_LEN);
    INVARIANT("CHANNEL-4", !channel->outbox_streams || channel->outbox.len > 0);
}

static void check_peer(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    INVARIANT("PEERS-13", peers_find(shard, peer->node, peer->shard) == at);
    INVARIANT("PEERS-13",
              peer->node != shard->options.node_id || peer->shard != shard->options.shard);
    INVARIANT("PEERS-14", !peer->refused || peer->closed);
    INVARIANT("PEERS-14", peer->heard_ns != 0 || (peer->echo_ns == 0 && peer->boot == 0));
    INVARIANT("PEERS-15", peer->echo_ns <= shard->now_ns && peer->echo_seen_ns <= shard->now_ns);
    INVARIANT("PEERS-15", peer->heard_ns <= shard->now_ns);
    INVARIANT("PEERS-16", !peer->pass.running || peer->pass.vnodes > 0);
    INVARIANT("SKEW-5", peer->clock.told == 0 || peer->clock.low_ns <= peer->clock.high_ns);
    for (uint32_t kind = 0; kind < CHANNELS; kind++)
        check_channel(shard, &peer->channels[kind]);
}

void peers_check_invariants(const struct shard *shard)
{
    uint32_t indexed = 0;
    INVARIANT("PEERS-13", shard->peer_count <= SHARD_PEERS_MAX);
    for (uint32_t i = 0; i < SHARD_PEERS_MAX * 2; i++)
        indexed += shard->peer_index[i] != 0;
    INVARIANT("PEERS-13", indexed == shard->peer_count);
    for (uint16_t at = 0; at < shard->peer_count; at++)
        check_peer(shard, at);
}
