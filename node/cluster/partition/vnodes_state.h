/* vnodes_state.h - what the files about roles and terms offer one another.
 *
 *   vnodes.c        roles and terms: replica, recovering, deciding   (start here)
 *   vnodes_pass.c   deciding goes to another replica, in order
 *   vnodes_view.c   replica sets follow the ring configuration
 *   vnodes_tick.c   what time and the evidence of silence do to a vnode
 *   vnodes_route.c  where a check of a vnode goes
 *
 * The rest of the shard uses shard_state.h alone.
 */
#ifndef NODE_CLUSTER_PARTITION_VNODES_STATE_H
#define NODE_CLUSTER_PARTITION_VNODES_STATE_H

#include "node/cluster/shard_state.h"

enum {
    VNODES_PASS_GIVE_UP_MS = 1000,
    VNODES_PULL_AGAIN_MS = 100, /* a state of which nothing comes is asked for again */
    VNODES_PULLS_SHORT_MAX = 3, /* R6 of stream_in.c */
    VNODES_PASSING_MAX = 512, /* of the plane of quorum, at a time: meanwhile nobody decides them */
};

/* ---- vnodes.c -------------------------------------------------------------------------------- */

/* The table's mask of targets for a vnode that has no receiver but the disk. */
uint8_t vnodes_disk_mask(const struct shard *shard);
/* That of a vnode decided here: the disk and all links. */
uint8_t vnodes_link_mask(const struct shard *shard, const struct vnode *vnode);
/* Whether place `place` of the vnode's replica set is this node's. */
bool vnodes_self_at(const struct shard *shard, const struct vnode *vnode, uint32_t place);
void vnodes_become_replica(struct shard *shard, uint32_t number);
void vnodes_set_role(struct shard *shard, struct vnode *vnode, enum peer_role role);
/* Begins to recover: asks the other replicas what they hold. `fresh`: not because of a silence. */
void vnodes_recover(struct shard *shard, uint32_t number, bool fresh, struct effects *effects);
void vnodes_ask(struct shard *shard, uint32_t number, struct effects *effects);
/* Opens a term, or pulls a better state, if everybody who lives was heard. */
void vnodes_finish_recovery(struct shard *shard, uint32_t number, struct effects *effects);
/* The term that this node would open above `term`. */
struct term vnodes_term_above(const struct shard *shard, const struct term *term);
/* Decides from now on (V1); links in `equal` hold the same state. */
void vnodes_open_term(struct shard *shard, uint32_t number, struct effects *effects);
/* V2: whether no replica of higher rank lives, by this shard's own evidence. */
bool vnodes_first_alive(const struct shard *shard, uint32_t number);
/* V11: whether a replica that reported is bound by a decider that is not heard here. */
bool vnodes_held_back(const struct shard *shard, uint32_t number);

/* ---- vnodes_pass.c --------------------------------------------------------------------------- */

/* Passes the vnode to a preferred replica that holds everything. True if a PASS was sent. */
bool vnodes_try_pass(struct shard *shard, uint32_t number, struct effects *effects);
/* The link that should decide instead of this node, or -1. */
int vnodes_successor(const struct shard *shard, uint32_t number);
/* Repeats a PASS that was not answered, or recovers. */
void vnodes_pass_again(struct shard *shard, uint32_t number, struct effects *effects);

/* ---- quorum_ballot.c, for quorum.c ----------------------------------------------------------- */

/* Wants to open a term now. Planned: it is no take-over; invited: the decider asks for it. */
void quorum_campaign(struct shard *shard, uint32_t vnode, bool planned, bool invited,
                     struct effects *effects);
/* Seals the vnode, or no longer; wants to open a term, or no longer. */
void quorum_set_sealed(struct shard *shard, uint32_t vnode, bool sealed);
void quorum_set_campaigning(struct shard *shard, uint32_t vnode, bool campaigning);
/* RECOVERING: asks again, campaigns, pulls, opens, as far as it can. */
void quorum_recover(struct shard *shard, uint32_t vnode, struct effects *effects);
void quorum_recover_tick(struct shard *shard, uint32_t vnode, struct effects *effects);
void quorum_ask(struct shard *shard, uint32_t vnode, struct effects *effects);
void quorum_replica_tick(struct shard *shard, uint32_t vnode, struct effects *effects);
/* Whether the ring changes because an operator forced it (Q11). */
bool quorum_forced(const struct shard *shard);
/* Living links whose peers take soon what they are sent. */
uint8_t quorum_prompt_links(const struct shard *shard, uint32_t vnode);
/* Whether another vnode may be sealed or campaign now. */
bool quorum_may_move(const struct shard *shard);
/* Whether the ring configuration of the newest term heard of is known here (Q9). */
bool quorum_up_to_date(const struct shard *shard, uint32_t vnode);

/* A higher term was adopted; this node follows another one. */
void quorum_adopted(struct shard *shard, uint32_t vnode);
void quorum_deposed(struct shard *shard, uint32_t vnode);
/* This node is no replica any more. */
void quorum_dropped(struct shard *shard, uint32_t vnode);
/* PASS: the decider wants this replica to decide. False if it cannot. */
bool quorum_passed(struct shard *shard, uint32_t vnode, struct effects *effects);
/* In vain: not again at once. */
void quorum_pause(struct shard *shard, uint32_t vnode);
/* It begins to recover: nothing is known of the others. */
void quorum_recovering(struct shard *shard, uint32_t vnode);

/* ---- vnodes_tick.c --------------------------------------------------------------------------- */

/* Whether gossip has given the node up. A silence of its shard may be a pause of a moment, and what
 * the configuration wants of it must not be waived for that: the replicas of the old one would drop
 * what they hold. */
bool vnodes_given_up(const struct shard *shard, uint64_t node);

/* ---- vnodes_view.c --------------------------------------------------------------------------- */

/* The link to `node`, or -1. */
int vnodes_link_to(const struct vnode *vnode, uint64_t node);
/* Whether what this node, no replica by its view, holds of a vnode of quorum counts in a
 * configuration that it does not know yet: it promised or accepted in a term of a later epoch. */
bool vnodes_kept(const struct shard *shard, uint32_t number);
/* Whether this node is listed for a vnode that it has dropped, and all of it is gone. */
bool vnodes_may_return(const struct shard *shard, uint32_t number);
/* Forgets a vnode of which this node is no replica. */
void vnodes_drop(struct shard *shard, uint32_t number);

#endif
