/* stream.h - replication as the files of a shard see it: streams out and in, complete copies
 * (stream.c, handoff.c, stream_in.c). `link` is a place in the vnode's list of other replicas.
 */
#ifndef NODE_CLUSTER_REPLICATION_STREAM_H
#define NODE_CLUSTER_REPLICATION_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/peer/channel.h"
#include "node/cluster/wire/peer_wire.h"

struct shard;
struct shard_stats;

/* ---- stream.c -------------------------------------------------------------------------------- */

/* Sends dirty slots to the peers that have room for them, copies and marks. */
void stream_send(struct shard *shard, struct effects *effects);
/* Lets a link start over: everything of the vnode goes to it again, as a bulk copy. */
void stream_restart_link(struct shard *shard, uint32_t vnode, uint32_t link);
/* All links of a vnode of the plane of quorum are to be told its present seq. */
void stream_owe_watermarks(struct shard *shard, uint32_t vnode);
/* Lets a link confirm a new term without sending slots: it holds the same state already. */
void stream_owe_watermark(struct shard *shard, uint32_t vnode, uint32_t link);
/* The link's replica fell silent: what it held is not believed until it says so again. */
void stream_unconfirm(struct shard *shard, uint32_t vnode, uint32_t link);
/* Begins one of the streams to `peer` anew and marks what may have been lost. */
void stream_restart(struct shard *shard, uint16_t peer, enum channel_kind kind);
/* Sends what is left of one vnode to one link, with its mark, at once. False if it cannot. */
bool stream_drain(struct shard *shard, uint32_t vnode, uint32_t link, struct effects *effects);
bool stream_synced(const struct shard *shard, uint32_t vnode, uint32_t link);
void stream_acked(struct shard *shard, uint16_t peer, const struct peer_record *record);
/* The replica took a mark / lacks some of a copy. */
void stream_held(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                 struct effects *effects);
void stream_lacks(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* Puts the mark again, with the same name. */
void stream_watermark_again(struct shard *shard, uint32_t vnode, uint32_t link);
/* Asks again for what was not confirmed in time. */
void stream_ask_again(struct shard *shard, uint32_t vnode, const struct effects *effects);
/* Up to which sequence the replica is known to hold everything. */
uint64_t stream_held_seq(const struct shard *shard, uint32_t vnode, uint32_t link);
void stream_tick(struct shard *shard);

/* For cold_keys.c and handoff.c: to whom slots of `vnode` go at that position (PEER_NONE: to
 * nobody), whether it is there, has room, and whether slots of memory are still to be sent. */
uint16_t stream_receiver(const struct shard *shard, uint32_t vnode, uint32_t link);
bool stream_hears(const struct shard *shard, uint32_t vnode, uint32_t link);
bool stream_has_room(const struct shard *shard, uint32_t vnode, uint32_t link,
                     const struct effects *effects);
bool stream_copying(const struct shard *shard, uint32_t vnode, uint32_t link);
/* Whether something is to be sent on the link, or was sent and is not acknowledged. */
bool stream_under_way(const struct shard *shard, uint32_t vnode, uint32_t link);
/* Sends a state as it is, or a slot; there must be room. */
void stream_put_state(struct shard *shard, uint32_t vnode, uint32_t link, struct hash128 id,
                      const uint8_t *state, size_t len, struct effects *effects);
void stream_put_slot(struct shard *shard, uint32_t slot, uint32_t link, struct effects *effects);

/* ---- handoff.c ------------------------------------------------------------------------------- */

/* A link waits for its complete copy: lets it take part in the next pass, if there is room. */
void handoff_offer(struct shard *shard, uint32_t vnode, uint32_t link);
/* Goes on with the passes, within the rate; true if some copy came to its end. */
bool handoff_send(struct shard *shard, struct effects *effects);
/* Whether bulk may be sent now. */
bool handoff_allowed(const struct shard *shard);
/* Counts what is left, and measures the rate. */
void handoff_tick(struct shard *shard);
void handoff_stats(const struct shard *shard, struct shard_stats *out);

/* ---- stream_in.c ----------------------------------------------------------------------------- */

/* What a received frame may do to replicas, record by record. */
struct stream_in {
    bool bulk;    /* the frame came on the bulk channel */
    bool accept;  /* it has a place in the stream and is the next one */
    size_t ahead; /* memory was asked for what the records before this place are about */
};
/* Asks memory for what the next records are about, if it was not yet. */
void stream_in_prefetch(const struct shard *shard, const struct bytes_reader *records,
                        struct stream_in *in);
void stream_in_begin(struct shard *shard, uint16_t peer, const struct peer_record *record,
                     struct stream_in *in);
void stream_in_term(struct shard *shard, uint16_t peer, const struct peer_written *written,
                    struct effects *effects);
void stream_in_slot(struct shard *shard, uint16_t peer, const struct peer_slot *slot);
void stream_in_change(struct shard *shard, uint16_t peer, const struct peer_change *change,
                      struct effects *effects);
/* Answers to what its slots count, or what is held already (firsts.h). */
void stream_in_firsts(struct shard *shard, uint16_t peer, bool accept,
                      const struct peer_firsts *told);
void stream_in_watermark(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                         struct effects *effects);
/* The copy that is arriving, if there is one, does not go on. */
void stream_in_broken(struct shard *shard, uint32_t vnode);
/* Tells the leader that the mark of `sync` was taken, and how far this replica is. */
void stream_tell_held(struct shard *shard, uint16_t peer, uint32_t vnode, uint32_t sync,
                      uint64_t seq, struct effects *effects);
/* Tells the leader that this replica missed some of its copy. */
void stream_tell_lack(struct shard *shard, uint16_t peer, uint32_t vnode, struct effects *effects);

/* Asserts what replication_check.c says of links, samples, cold keys and first answers. */
void replication_check_invariants(const struct shard *shard);

#endif
