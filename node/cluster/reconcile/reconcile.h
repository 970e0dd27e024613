/* reconcile.h - a node that was deposed hands over what it counted apart (reconcile.c). */
#ifndef NODE_CLUSTER_RECONCILE_RECONCILE_H
#define NODE_CLUSTER_RECONCILE_RECONCILE_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/effects.h"
#include "node/cluster/model/lineage.h"
#include "node/cluster/wire/peer_wire.h"

struct shard;
struct vnode;

/* Whether a branch is being handed over. */
bool reconcile_busy(const struct vnode *vnode);
void reconcile_stop(struct shard *shard, uint32_t vnode);
/* Begins the sending anew. */
void reconcile_again(struct shard *shard, uint32_t vnode);
void reconcile_tick(struct shard *shard, uint32_t vnode);
void reconcile_put_apart(const struct shard *shard, uint32_t vnode, struct bytes_writer *outbox);
/* A newer term was seen, the vnode's role being as before. */
void reconcile_deposed(struct shard *shard, uint32_t vnode);
/* Whether a node that is no replica must keep the vnode. */
bool reconcile_keeps(struct shard *shard, uint32_t vnode, struct effects *effects);
/* A REPORT of the leader: this node has no branch, or else GUARD has told it already. */
void reconcile_told(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* The lineage that came with the record at hand; of no cuts if none did. */
const struct lineage *reconcile_lineage_of(const struct shard *shard, uint32_t vnode);
void reconcile_in_lineage(struct shard *shard, uint16_t peer, const struct peer_record *record);
void reconcile_in_apart(struct shard *shard, uint16_t at, const struct peer_record *record);
/* Something of the sending at hand could not be taken: when it ends it is asked for again. False
 * if that was known. */
bool reconcile_refuse(struct shard *shard, uint32_t vnode);
void reconcile_in_end(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                      struct effects *effects);
void reconcile_merged(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                      struct effects *effects);

#endif
