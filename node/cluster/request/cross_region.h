/* cross_region.h - checks that another region counts, and what other regions ask of this one. */
#ifndef NODE_CLUSTER_REQUEST_CROSS_REGION_H
#define NODE_CLUSTER_REQUEST_CROSS_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/wire/peer_wire.h"

struct effects;
struct policy_rule;
struct shard;

/* A check of a rule that another region counts, at who decides its key in this one. */
void cross_region_decide(struct shard *shard, uint32_t part, struct effects *effects);
/* The same for a peer's forward that may not need a check: true if it was answered, or has one. */
bool cross_region_decide_forward(struct shard *shard, uint16_t peer, const struct forward *forward,
                                 struct effects *effects);
/* A peer's part is told that the home is out of reach: so is each copy of it. */
void cross_region_unavailable(struct shard *shard, uint32_t part);
/* And for item `item` of the message at hand. */
bool cross_region_decide_item(struct shard *shard, uint32_t item, const struct policy_rule *rule,
                              const struct forward *forward, struct effects *effects);
/* Sends a check to the region that counts it, once more if it is late. */
void cross_region_send(struct shard *shard, uint32_t part, struct effects *effects);
/* That region is out of reach: the check is decided in this one, by its rule's share of the limits.
 * False: its rule does not say so. */
bool cross_region_fall_back(struct shard *shard, uint32_t part, struct effects *effects);
/* The other side: a frame of another region, and the answer to what it asked. */
void cross_region_frame(struct shard *shard, const struct peer_envelope *envelope,
                        struct effects *effects);

#endif
