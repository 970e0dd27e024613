/* fallback.h - who decides when neither the leader nor a replica can be reached (fallback.c). */
#ifndef NODE_CLUSTER_REQUEST_FALLBACK_H
#define NODE_CLUSTER_REQUEST_FALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/wire/peer_wire.h"

struct pending_check;
struct shard;

MUST_USE int fallback_init(struct shard *shard);
void fallback_fini(struct shard *shard);
void fallback_tick(struct shard *shard);
/* Whether the check's rule lets somebody stand in. */
bool fallback_allowed(const struct pending_check *check);
/* Whether everybody who could decide the vnode is silent. */
bool fallback_needed(const struct shard *shard, uint32_t vnode);
/* Lets the fallback leader of its vnode decide the check. */
void fallback_dispatch(struct shard *shard, uint32_t index, struct effects *effects);
/* The time of the check is over: it is decided here, if its rule lets that be. False: it is not. */
bool fallback_late(struct shard *shard, uint32_t index, struct effects *effects);
/* Decides in place of others, as a peer asks, or refuses: unavailable. */
void fallback_forwarded(struct shard *shard, uint16_t peer, const struct forward *forward,
                        struct effects *effects);
/* Cuts the limits of the forward to that share. */
void fallback_scale(struct forward *forward, unsigned percent);

#endif
