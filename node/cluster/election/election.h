/* election.h - who decides a vnode: terms, roles, recovery, take-over, passing on.
 *
 *   vnodes.c        roles and terms: replica, recovering, deciding   (start here)
 *   leadership_transfer.c   deciding goes to another replica, in order
 *   vnodes_view.c   replica sets follow the ring configuration
 *   vnodes_tick.c   what time and the evidence of silence do to a vnode
 *
 * Where a check of a vnode goes: partition/vnodes.h.
 */
#ifndef NODE_CLUSTER_ELECTION_ELECTION_H
#define NODE_CLUSTER_ELECTION_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

/* ---- events ------------------------------------------------------------------------------------
 */

void vnodes_follow_view(struct shard *shard, struct effects *effects);
/* Takes up the plane of quorum, for good. */
void vnodes_use_quorum(struct shard *shard, struct effects *effects);
void vnodes_tick(struct shard *shard, struct effects *effects);
void vnodes_peer_silent(struct shard *shard, uint16_t peer, struct effects *effects);
void vnodes_peer_restarted(struct shard *shard, uint16_t peer, struct effects *effects);
/* Whether a tick would find nothing to do for the vnode. */
bool vnodes_quiescent(const struct shard *shard, uint32_t vnode);
/* Adopts `term` if it is newer than what is known. True if it was. */
bool vnodes_adopt(struct shard *shard, uint32_t vnode, const struct term *term);
/* Takes notice of the term of a record about a vnode. */
void vnodes_hear(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* `peer` does not decide `vnode`, and `term` is the newest that it knows. */
void vnodes_moved(struct shard *shard, uint16_t peer, uint32_t vnode, const struct term *term,
                  struct effects *effects);
void vnodes_query(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                  struct effects *effects);
void vnodes_report(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                   struct effects *effects);
/* A replica that follows this node got no copy, or not all of it. */
void vnodes_lack(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                 struct effects *effects);
void vnodes_catch_up(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                     struct effects *effects);
void vnodes_transfer(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                     struct effects *effects);
/* A RESERVED came: what the leader that passes the vnode on knows of a charge. */
void vnodes_reserved(struct shard *shard, const struct peer_record *record);
void vnodes_opened(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* Tells the peer of every vnode decided here; returns how many records that took. */
uint32_t vnodes_announce(struct shard *shard, uint16_t peer, struct effects *effects);
/* A WATERMARK completed the pulled state. */
void vnodes_caught_up(struct shard *shard, uint32_t vnode, struct effects *effects);
enum {
    VNODES_TRANSFER_GIVE_UP_MS = 1000,
    VNODES_CATCH_UP_AGAIN_MS = 100, /* a state of which nothing comes is asked for again */
    VNODES_SHORT_SNAPSHOTS_MAX = 3, /* STREAMIN-2 */
    VNODES_TRANSFERS_MAX =
        512, /* of the plane of quorum, at a time: meanwhile nobody decides them */
};

/* ---- vnodes.c -------------------------------------------------------------------------------- */

void vnodes_become_replica(struct shard *shard, uint32_t number);
void vnodes_set_role(struct shard *shard, struct vnode *vnode, enum peer_role role);
/* Begins to recover: asks the other replicas what they hold. `fresh`: not because of a silence. */
void vnodes_recover(struct shard *shard, uint32_t number, bool fresh, struct effects *effects);
void vnodes_ask(struct shard *shard, uint32_t number, struct effects *effects);
/* Opens a term, or pulls a better state, if everybody who lives was heard. */
void vnodes_finish_recovery(struct shard *shard, uint32_t number, struct effects *effects);
/* Decides from now on (VNODES-1); links in `equal` hold the same state. */
void vnodes_open_term(struct shard *shard, uint32_t number, struct effects *effects);
/* VNODES-11: whether a replica that reported is bound by a leader that is not heard here. */
bool vnodes_held_back(const struct shard *shard, uint32_t number);

/* ---- leadership_transfer.c
 * --------------------------------------------------------------------------- */

/* Passes the vnode to a preferred replica that holds everything. True if a TRANSFER was sent. */
bool vnodes_try_transfer(struct shard *shard, uint32_t number, struct effects *effects);
/* Repeats a TRANSFER that was not answered, or recovers. */
void vnodes_transfer_again(struct shard *shard, uint32_t number, struct effects *effects);

/* ---- vnodes_tick.c --------------------------------------------------------------------------- */

/* ---- vnodes_view.c --------------------------------------------------------------------------- */

/* Whether what this node, no replica by its view, holds of a vnode of quorum counts in a
 * configuration that it does not know yet: it promised or accepted in a term of a later epoch. */
bool vnodes_kept(const struct shard *shard, uint32_t number);
/* Whether this node is listed for a vnode that it has dropped, and all of it is gone. */
bool vnodes_may_return(const struct shard *shard, uint32_t number);
/* Forgets a vnode of which this node is no replica. */
void vnodes_drop(struct shard *shard, uint32_t number);

#endif
