/* route_pending.h - checks that wait: for a peer, a disk, a majority, another region, or for a
 * route. */
#ifndef NODE_CLUSTER_REQUEST_ROUTE_PENDING_H
#define NODE_CLUSTER_REQUEST_ROUTE_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/effects.h"
#include "node/cluster/pending/pending.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/policy/model/policy.h"

struct shard;

/* Sends a check where it can be decided, or lets it wait. */
void route_pending_dispatch(struct shard *shard, uint32_t index, struct effects *effects);
/* A forward that came from a peer. */
void route_pending_forwarded(struct shard *shard, uint16_t peer, const struct forward *forward,
                             struct effects *effects);
/* A check was decided, here or elsewhere, or given up. */
void route_pending_answer(struct shard *shard, uint32_t index, const struct answer *answer,
                          uint64_t node, struct effects *effects);
void route_pending_answered(struct shard *shard, uint16_t peer, uint64_t ticket,
                            const struct answer *answer, struct effects *effects);
/* What a check met elsewhere was told. */
void route_pending_explained(struct shard *shard, uint64_t ticket, const struct peer_state *states,
                             uint32_t count, struct effects *effects);
void route_pending_moved(struct shard *shard, uint64_t ticket);
/* Gives back what a check was granted, but for `keep` tokens, retrying until it is acknowledged. */
void route_pending_undo(struct shard *shard, uint32_t index, uint64_t keep,
                        struct effects *effects);
/* Lets a check wait for its slots to be read from disk. */
void route_pending_load(struct shard *shard, uint32_t index, struct effects *effects);
/* Whether some part waits for that slot. */
bool route_pending_await(const struct shard *shard, struct hash128 id);
void route_pending_loaded(struct shard *shard, uint32_t vnode, struct hash128 id, int result,
                          struct effects *effects);
/* What waits is looked at then, at the latest. */
void route_pending_due(struct shard *shard, int64_t deadline_ns);
/* Routes, resends and times out what waits. */
void route_pending_tick(struct shard *shard, struct effects *effects);

/* Sends a check, as it is written in `forward`, and waits for the answer. */
void route_pending_send(struct shard *shard, uint32_t index, uint16_t peer, struct forward *forward,
                        struct effects *effects);

#endif
