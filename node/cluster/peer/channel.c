/* channel.c - frames to and from a peer on two channels; channel.h tells the idea. Pure. */
#include "node/cluster/peer/channel.h"

#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

static struct channel *channel_of(const struct shard *shard, uint16_t at, enum channel_kind kind)
{
    return &shard->peers[at]->channels[kind];
}

bool channel_init(struct shard *shard, struct channel *channel)
{
    ASSERT(channel->outbox.data == NULL);
    uint8_t *outbox = alloc_get(shard->allocator, CHANNEL_OUTBOX_LEN);
    if (outbox == NULL)
        return false;
    channel->out_stream = (uint64_t)shard->now_ns;
    channel->frame = ++shard->frames;
    bytes_writer_init(&channel->outbox, outbox, CHANNEL_OUTBOX_LEN);
    return true;
}

void channel_fini(const struct shard *shard, struct channel *channel)
{
    alloc_put(shard->allocator, channel->outbox.data, CHANNEL_OUTBOX_LEN);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* The frame being filled is done with: sent, or dropped. */
static void next_frame(struct shard *shard, struct channel *channel)
{
    ASSERT(channel->outbox.data != NULL);
    bytes_writer_init(&channel->outbox, channel->outbox.data, CHANNEL_OUTBOX_LEN);
    channel->outbox_streams = false;
    channel->frame = ++shard->frames;
}

void channel_drop(struct shard *shard, struct channel *channel)
{
    if (channel->outbox.len > 0)
        next_frame(shard, channel);
}

void channel_charge(struct shard *shard, size_t len)
{
    ASSERT(shard->options.handoff_rate > 0);
    struct handoff *handoff = &shard->handoff;
    handoff->sent += len;
    if (handoff->tat_ns < shard->now_ns)
        handoff->tat_ns = shard->now_ns;
    handoff->tat_ns += (int64_t)(len * UINT64_C(1000000000) / shard->options.handoff_rate);
}

void channel_flush(struct shard *shard, uint16_t at, enum channel_kind kind,
                   struct effects *effects)
{
    const struct peer *peer = shard->peers[at];
    struct channel *channel = channel_of(shard, at, kind);
    if (channel->outbox.len == 0)
        return;
    ASSERT(!channel->outbox.failed);
    const struct peer_envelope envelope = {
        .node = shard->options.node_id,
        .shard = shard->options.shard,
        .boot = shard->options.boot,
        .bulk = kind == CHANNEL_BULK,
        .reads = READS_ALL,
        .wall_ns = shard->watch.wall_ns,
        .seen_ns = skew_seen_ns(shard, at),
        .records = channel->outbox.data,
        .len = channel->outbox.len,
    };
    const size_t room = channel->outbox.len + PEER_ENVELOPE_MAX;
    if (effects_fit(effects, room)) {
        const int len = peer_encode(&envelope, effects_reserve(effects, room), room);
        ASSERT(len > 0);
        struct effect *effect = effects_add(effects, EFFECT_SEND_PEER);
        effect->target = peer->node;
        effect->shard = peer->shard;
        effect->bulk = envelope.bulk;
        effects_commit(effects, effect, (size_t)len);
    } else {
        shard->stats.frames_dropped++; /* as if lost on the way */
    }
    if (channel->outbox_streams) {
        ASSERT(channel->out_seq > channel->out_acked); /* CHANNEL-2 */
        channel->out_lens[channel->out_seq % CHANNEL_FRAMES_MAX] = (uint32_t)room;
        channel->out_bytes += room;
    }
    if (kind == CHANNEL_BULK)
        channel_charge(shard, room);
    next_frame(shard, channel);
}

struct bytes_writer *channel_outbox(struct shard *shard, uint16_t at, enum channel_kind kind,
                                    size_t len, struct effects *effects)
{
    ASSERT(at < shard->peer_count && kind < CHANNELS);
    struct channel *channel = channel_of(shard, at, kind);
    const size_t bound = kind == CHANNEL_BULK ? CHANNEL_BULK_FLUSH : CHANNEL_LIVE_FLUSH;
    if (channel->outbox.len + len > bound)
        channel_flush(shard, at, kind, effects);
    ASSERT(channel->outbox.len + len <= CHANNEL_OUTBOX_LEN);
    return &channel->outbox;
}

struct bytes_writer *channel_stream(struct shard *shard, uint16_t at, enum channel_kind kind,
                                    size_t len, struct effects *effects)
{
    struct channel *channel = channel_of(shard, at, kind);
    struct bytes_writer *outbox =
        channel_outbox(shard, at, kind, len + 2 * PEER_RECORD_MAX, effects);
    if (!channel->outbox_streams) {
        ASSERT(channel->out_seq - channel->out_acked < CHANNEL_FRAMES_MAX); /* CHANNEL-1 */
        if (channel->out_seq == channel->out_acked)
            channel->out_wait_ns = shard->now_ns;
        channel->out_seq++;
        channel->outbox_streams = true;
        peer_put_stream(outbox, channel->out_stream, channel->out_seq, shard->peers[at]->boot);
    }
    return outbox;
}

bool channel_has_room(const struct shard *shard, uint16_t at, enum channel_kind kind,
                      const struct effects *effects)
{
    const struct peer *peer = shard->peers[at];
    const struct channel *channel = &peer->channels[kind];
    return !peer->silent && peer->in_view && peer->heard_ns != 0 &&
           channel->out_seq - channel->out_acked < shard->options.frames_max &&
           channel->out_bytes < CHANNEL_BYTES_MAX && effects->used < CHANNEL_ARENA_MAX;
}

bool channel_acked(struct channel *channel, uint64_t stream, uint64_t seq, int64_t now_ns)
{
    const uint64_t sent = channel->out_seq - channel->outbox_streams;
    if (stream != channel->out_stream || seq > sent || seq <= channel->out_acked)
        return false; /* CHANNEL-2: of a frame that was not sent, whatever a peer says */
    for (uint64_t n = channel->out_acked + 1; n <= seq; n++) {
        ASSERT(channel->out_bytes >= channel->out_lens[n % CHANNEL_FRAMES_MAX]); /* CHANNEL-3 */
        channel->out_bytes -= channel->out_lens[n % CHANNEL_FRAMES_MAX];
        channel->out_lens[n % CHANNEL_FRAMES_MAX] = 0;
    }
    channel->out_acked = seq;
    ASSERT(channel->out_acked <= channel->out_seq);
    channel->out_wait_ns = now_ns;
    return true;
}

void channel_begin(struct shard *shard, struct channel *channel)
{
    ASSERT(channel->out_acked <= channel->out_seq); /* CHANNEL-2 */
    if (channel->outbox_streams) { /* what follows in that frame is of the new stream */
        channel->outbox_streams = false;
        channel->frame = ++shard->frames;
    }
    channel->out_stream++;
    channel->out_seq = 0;
    channel->out_acked = 0;
    channel->out_bytes = 0;
    memset(channel->out_lens, 0, sizeof channel->out_lens);
}

/* ---- in -------------------------------------------------------------------------------------- */

void channel_forget(struct channel *channel)
{
    channel->in_stream = 0;
    channel->in_seq = 0;
}

bool channel_take(struct channel *channel, uint64_t stream, uint64_t seq)
{
    channel->ack_due = true;
    const uint64_t apart =
        stream > channel->in_stream ? stream - channel->in_stream : channel->in_stream - stream;
    if (channel->in_stream != 0 && apart > CHANNEL_STREAMS_MAX) {
        channel->in_stream = stream; /* one of them is not of this sender: it begins anew */
        channel->in_seq = 0;
    }
    if (stream > channel->in_stream && seq == 1) {
        channel->in_stream = stream;
        channel->in_seq = 0;
    }
    if (stream == channel->in_stream && seq == channel->in_seq + 1) {
        channel->in_seq = seq;
        return true;
    }
    if (stream > channel->in_stream || (stream == channel->in_stream && seq > channel->in_seq))
        channel->resync_due =
            stream == channel->in_stream; /* a gap; a later stream's start may follow */
    return false;
}

void channel_put_acks(struct shard *shard, uint16_t at, struct effects *effects)
{
    for (uint32_t kind = 0; kind < CHANNELS; kind++) {
        struct channel *channel = channel_of(shard, at, (enum channel_kind)kind);
        if (!channel->ack_due)
            continue;
        peer_put_ack(peers_outbox(shard, at, PEER_RECORD_MAX, effects), channel->in_stream,
                     channel->in_seq, channel->resync_due, kind == CHANNEL_BULK);
        channel->ack_due = false;
        channel->resync_due = false;
    }
}
