/* diverge.h - a node that was deposed hands over what it counted apart (diverge.c). */
#ifndef NODE_CLUSTER_RECONCILE_DIVERGE_H
#define NODE_CLUSTER_RECONCILE_DIVERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/effects.h"
#include "node/cluster/model/guard.h"
#include "node/cluster/wire/peer_wire.h"

struct shard;
struct vnode;

/* Whether a branch is being handed over. */
bool diverge_busy(const struct vnode *vnode);
void diverge_stop(struct shard *shard, uint32_t vnode);
/* Begins the sending anew. */
void diverge_again(struct shard *shard, uint32_t vnode);
void diverge_tick(struct shard *shard, uint32_t vnode);
void diverge_put_apart(const struct shard *shard, uint32_t vnode, struct bytes_writer *outbox);
/* A newer term was seen, the vnode's role being as before. */
void diverge_deposed(struct shard *shard, uint32_t vnode);
/* Whether a node that is no replica must keep the vnode. */
bool diverge_keeps(struct shard *shard, uint32_t vnode, struct effects *effects);
/* A REPORT of the leader: this node has no branch, or else GUARD has told it already. */
void diverge_told(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* The guard that came with the record at hand; of no cuts if none did. */
const struct guard *diverge_guard_of(const struct shard *shard, uint32_t vnode);
void diverge_in_guard(struct shard *shard, uint16_t peer, const struct peer_record *record);
void diverge_in_apart(struct shard *shard, uint16_t at, const struct peer_record *record);
/* Something of the sending at hand could not be taken: when it ends it is asked for again. False
 * if that was known. */
bool diverge_refuse(struct shard *shard, uint32_t vnode);
void diverge_in_end(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                    struct effects *effects);
void diverge_merged(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                    struct effects *effects);

#endif
