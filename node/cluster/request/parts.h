/* parts.h - checks that wait: for a peer, a disk, a majority, another region, or for a route. */
#ifndef NODE_CLUSTER_REQUEST_PARTS_H
#define NODE_CLUSTER_REQUEST_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/effects.h"
#include "node/cluster/pending/pending.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/policy/model/policy.h"

struct shard;

/* Sends a part where it can be decided, or lets it wait. */
void parts_dispatch(struct shard *shard, uint32_t index, struct effects *effects);
/* A forward that came from a peer. */
void parts_forwarded(struct shard *shard, uint16_t peer, const struct forward *forward,
                     struct effects *effects);
/* A part was decided, here or elsewhere, or given up. */
void parts_answer(struct shard *shard, uint32_t index, const struct answer *answer, uint64_t node,
                  struct effects *effects);
void parts_answered(struct shard *shard, uint16_t peer, uint64_t ticket,
                    const struct answer *answer, struct effects *effects);
/* What a part met elsewhere was told. */
void parts_explained(struct shard *shard, uint64_t ticket, const struct peer_state *states,
                     uint32_t count, struct effects *effects);
void parts_moved(struct shard *shard, uint64_t ticket);
/* Gives back what a part was granted, but for `keep` tokens, retrying until it is acknowledged. */
void parts_undo(struct shard *shard, uint32_t index, uint64_t keep, struct effects *effects);
/* Lets a part wait for its slots to be read from disk. */
void parts_load(struct shard *shard, uint32_t index, struct effects *effects);
/* Whether some part waits for that slot. */
bool parts_await(const struct shard *shard, struct hash128 id);
void parts_loaded(struct shard *shard, uint32_t vnode, struct hash128 id, int result,
                  struct effects *effects);
/* Routes, resends and times out what waits. */
void parts_tick(struct shard *shard, struct effects *effects);

/* Sends a part, as it is written in `forward`, and waits for the answer. */
void parts_send(struct shard *shard, uint32_t index, uint16_t peer, struct forward *forward,
                struct effects *effects);

#endif
