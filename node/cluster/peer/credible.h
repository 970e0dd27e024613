/* credible.h - whether the numbers of a peer's record can be what they say; credible.c. */
#ifndef NODE_CLUSTER_PEER_CREDIBLE_H
#define NODE_CLUSTER_PEER_CREDIBLE_H

#include <stdbool.h>
#include <stdint.h>

struct shard;
struct peer_record;

enum {
    CREDIBLE_ROUND_BITS = 20,    /* openings of a vnode that a node may have missed */
    CREDIBLE_EPOCH_BITS = 20,    /* changes of a ring within a lineage */
    CREDIBLE_GENERATIONS = 1024, /* lineages that operators began */
    CREDIBLE_SEQ_BITS = 48,      /* changes of a vnode's slots */
};

/* Whether the terms and places in streams that the record of `vnode` names lead on from those that
 * are known here. */
bool credible_record(const struct shard *shard, uint32_t vnode, const struct peer_record *record);

#endif
