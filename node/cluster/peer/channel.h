/* channel.h - one of the two paths of frames to a peer: ordered, numbered, acknowledged, bounded.
 *
 * A peer is reached by two channels, which the runtime carries over connections of their own:
 *
 *   live   checks, answers, keep-alives, terms, and the changes of vnodes that a replica holds
 *   bulk   complete copies of vnodes, until the replica has said that it holds them
 *
 * So a copy of a gigabyte delays no keep-alive. Nothing is said about the order of two frames on
 * different channels; who relies on an order keeps to one (STREAM-9 to STREAM-11).
 *
 * Records gather in a channel's outbox and leave as one frame, at the end of a turn or when the
 * outbox has grown to its bound; so batches form without waiting. A frame that carries replication
 * takes the next place in the channel's stream:
 *
 *   out_acked            out_seq                  frames of one stream are taken in order, exactly
 *   ----|--- in flight ---|--- outbox             once; a gap, a restart or a long silence begins a
 *        <= FRAMES, BYTES                         new stream
 *
 * CHANNEL-1  At most options.frames_max frames are in flight (CHANNEL_FRAMES_MAX, unless a
 *            simulation narrows it). A new one is begun only while fewer than CHANNEL_BYTES_MAX
 *            bytes are, and while the step's arena is not nearly used up.
 */
#ifndef NODE_CLUSTER_PEER_CHANNEL_H
#define NODE_CLUSTER_PEER_CHANNEL_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/wire/peer_wire.h"

struct shard;

enum channel_kind { CHANNEL_LIVE, CHANNEL_BULK, CHANNELS };

enum {
    CHANNEL_LIVE_FLUSH = 64 << 10, /* a frame leaves when it has grown to this */
    CHANNEL_BULK_FLUSH = 16 << 10, /* smaller: its receiver decides checks between two of them */
    CHANNEL_OUTBOX_LEN = CHANNEL_LIVE_FLUSH + (640 << 10),
    CHANNEL_FRAMES_MAX = 128,
    CHANNEL_STREAMS_MAX = 1 << 20, /* more a process does not begin unheard */
    CHANNEL_BYTES_MAX = 4 << 20,
    CHANNEL_ARENA_MAX = EFFECTS_ARENA_LEN / 4, /* of one step: the rest is for what must be said */
};

static_assert(CHANNEL_OUTBOX_LEN + PEER_ENVELOPE_MAX <= PEER_FRAME_MAX, "an outbox fits a frame");
static_assert((CHANNEL_ARENA_MAX + 2 * CHANNEL_OUTBOX_LEN) * 2 <= EFFECTS_ARENA_LEN,
              "what begins below the bound leaves half of the arena");

struct channel {
    /* replication to the peer */
    uint64_t out_stream;
    uint64_t out_seq;                      /* of the newest frame of the stream */
    uint64_t out_acked;                    /* everything up to it has arrived */
    uint64_t out_bytes;                    /* of the frames in flight */
    uint32_t out_lens[CHANNEL_FRAMES_MAX]; /* of frame n at n % CHANNEL_FRAMES_MAX */
    int64_t out_wait_ns;                   /* since when something is unacknowledged */
    bool out_deferred;                     /* slots for it were put off until it has room */
    /* replication from it */
    uint64_t in_stream;
    uint64_t in_seq;
    bool ack_due;
    bool resync_due;
    /* the frame being filled */
    struct bytes_writer outbox;
    bool outbox_streams; /* holds a STREAM record */
    uint32_t frame;      /* its number, which no other frame of any channel has */
    uint32_t branch;     /* the vnode whose APART was last put, and the frame */
    uint32_t branch_frame;
};

/* Takes the channel's memory; false if there is none, and then nothing is taken. */
bool channel_init(struct shard *shard, struct channel *channel);
void channel_fini(const struct shard *shard, struct channel *channel);

/* The outbox of a channel, with room for `len` more bytes (what was in it may have been sent). */
struct bytes_writer *channel_outbox(struct shard *shard, uint16_t peer, enum channel_kind kind,
                                    size_t len, struct effects *effects);
/* The same for replication: the frame being filled has its place in the stream. */
struct bytes_writer *channel_stream(struct shard *shard, uint16_t peer, enum channel_kind kind,
                                    size_t len, struct effects *effects);
/* Sends the outbox if it holds anything. */
void channel_flush(struct shard *shard, uint16_t peer, enum channel_kind kind,
                   struct effects *effects);
/* Drops what was gathered: the peer is not there. */
void channel_drop(struct shard *shard, struct channel *channel);
/* Whether replication may go on: the peer is there, and CHANNEL-1. */
bool channel_has_room(const struct shard *shard, uint16_t peer, enum channel_kind kind,
                      const struct effects *effects);
/* The peer has taken the stream up to `seq`; false if that is nothing new. */
bool channel_acked(struct channel *channel, uint64_t stream, uint64_t seq, int64_t now_ns);
/* Begins a new stream: what was in flight counts as lost. */
void channel_begin(struct shard *shard, struct channel *channel);
/* Forgets what a former process of the peer had sent. */
void channel_forget(struct channel *channel);
/* Whether a frame of that place is the next one, to be taken. An acknowledgement is due. */
bool channel_take(struct channel *channel, uint64_t stream, uint64_t seq);
/* Puts the acknowledgements that are due on either channel. */
void channel_put_acks(struct shard *shard, uint16_t peer, struct effects *effects);
/* What was sent in bulk is to be paid for, at the rate allowed (handoff.c). */
void channel_charge(struct shard *shard, size_t len);

#endif
