/* exposure_granted.h - the one step of exposure.c that each check takes. */
#ifndef NODE_CLUSTER_REPLICATION_EXPOSURE_GRANTED_H
#define NODE_CLUSTER_REPLICATION_EXPOSURE_GRANTED_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/shard_state.h"

/* Tokens were granted. */
static inline void exposure_granted(struct shard *shard, uint32_t number, uint64_t tokens)
{
    struct vnode *vnode = &shard->vnodes[number];
    vnode->granted += tokens;
    if (vnode->oldest_ns == 0)
        vnode->oldest_ns = shard->now_ns;
}

#endif
