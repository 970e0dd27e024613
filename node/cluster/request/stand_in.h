/* stand_in.h - who decides when neither the leader nor a replica can be reached (stand_in.c). */
#ifndef NODE_CLUSTER_REQUEST_STAND_IN_H
#define NODE_CLUSTER_REQUEST_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/wire/peer_wire.h"

struct pending_check;
struct shard;

MUST_USE int stand_in_init(struct shard *shard);
void stand_in_fini(struct shard *shard);
void stand_in_tick(struct shard *shard);
/* Whether the check's rule lets somebody stand in. */
bool stand_in_allowed(const struct pending_check *check);
/* Whether everybody who could decide the vnode is silent. */
bool stand_in_needed(const struct shard *shard, uint32_t vnode);
/* Lets the stand-in of its vnode decide the check. */
void stand_in_dispatch(struct shard *shard, uint32_t index, struct effects *effects);
/* Decides in place of others, as a peer asks, or refuses: unavailable. */
void stand_in_forwarded(struct shard *shard, uint16_t peer, const struct forward *forward,
                        struct effects *effects);
/* Cuts the limits of the forward to that share. */
void stand_in_scale(struct forward *forward, unsigned percent);

#endif
