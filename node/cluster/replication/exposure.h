/* exposure.h - what a shard keeps to tell how far it could over-admit now (exposure.c).
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_REPLICATION_EXPOSURE_H
#define NODE_CLUSTER_REPLICATION_EXPOSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/lag.h"
#include "node/cluster/model/view.h"

struct replica_link;
struct shard;
struct shard_stats;

enum { EXPOSURE_SAMPLES_MAX = 64 };

/* A grant whose way to the replicas is timed; exposure.c. */
struct exposure_sample {
    uint32_t vnode;
    int64_t from_ns;
    uint64_t frame[VIEW_REPLICAS_MAX - 1]; /* that tells of it, 0 = none yet */
    uint64_t stream[VIEW_REPLICAS_MAX - 1];
};

struct exposure {
    struct lag lag; /* from a grant to the first acknowledgement by a replica */
    int64_t aged_ns;
    uint32_t stride; /* one of so many marks is sampled */
    uint32_t passed; /* marks since the last sample */
    uint32_t count;
    struct exposure_sample samples[EXPOSURE_SAMPLES_MAX];
};

/* A term was opened: nothing has been granted in it. */
void exposure_opened(struct shard *shard, uint32_t vnode);
/* What the replica is known to hold stays known when its marks are forgotten or overwritten. */
void exposure_keep(const struct shard *shard, struct replica_link *link);
/* A new mark was put into the present frame of the link's stream. */
void exposure_marked(struct shard *shard, uint32_t vnode, uint32_t link);
/* The replica confirmed its copy up to the mark of that sequence. */
void exposure_confirmed(struct replica_link *link, uint64_t seq);
/* This shard decides the vnode no more. */
void exposure_stepped_down(struct shard *shard, uint32_t vnode);
/* What the replica held is not sure any more. */
void exposure_forget(struct replica_link *link);
/* Some stream was acknowledged further. */
void exposure_acked(struct shard *shard);
void exposure_tick(struct shard *shard);
void exposure_stats(const struct shard *shard, struct shard_stats *out);

#endif
