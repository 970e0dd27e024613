/* majority.h - whether majorities are within reach, of a vnode of the second plane (quorum.c). */
#ifndef NODE_CLUSTER_PARTITION_MAJORITY_H
#define NODE_CLUSTER_PARTITION_MAJORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"

static inline struct quorum *quorum_of(const struct shard *shard, uint32_t number)
{
    ASSERT(vnodes_quorum(shard, number));
    return &shard->quorum.states[number - shard->options.vnodes];
}
/* The sets of the view, whatever an operator says. */
void quorum_ring_sets(const struct shard *shard, uint32_t vnode, struct quorum_set *from,
                      struct quorum_set *to);
/* Whether the leader has lost its majority: connections that broke and come back are no loss, and
 * to give way would leave what waits in doubt. */
bool quorum_cut_off(const struct shard *shard, const struct quorum *quorum);
/* Whether majorities of both sets are among this node and the links in `links`. */
bool quorum_majority(const struct shard *shard, uint32_t vnode, const struct quorum_set *from,
                     const struct quorum_set *to, uint8_t links, bool self);
/* The sets that the view wants. */
void quorum_view_sets(const struct shard *shard, uint32_t vnode, struct quorum_set *from,
                      struct quorum_set *to);
/* Whether a majority of what decides, or could decide, is within reach. */
bool quorum_reachable(const struct shard *shard, uint32_t vnode);
/* Whether checks are to be refused at once (QUORUM-7). */
bool quorum_failing(const struct shard *shard, uint32_t vnode);
/* Whether the ring changes because an operator forced it (QUORUM-11). */
bool quorum_forced(const struct shard *shard);
/* Living links whose peers take soon what they are sent. */
uint8_t quorum_prompt_links(const struct shard *shard, uint32_t vnode);

#endif
