/* shard_told.h - what a shard tells beside its counters: how its clients were answered, and how it
 * gets on with each other node. A copy is some 40 kB, for metrics.
 */
#ifndef NODE_CLUSTER_SHARD_SHARD_TOLD_H
#define NODE_CLUSTER_SHARD_SHARD_TOLD_H

#include <stdint.h>

#include "node/cluster/model/answered.h"

struct shard;

enum { SHARD_TOLD_PEERS_MAX = 256 };

/* Another node of the region; or this one, whose other shards are peers, too. */
struct shard_told_peer {
    uint64_t node;
    uint64_t forwarded; /* parts that were sent to it to be decided */
    int64_t lag_ns;     /* how long it has acknowledged nothing of what is on its way to it */
};

struct shard_told {
    struct answered answered;
    uint64_t forwarded_more; /* to nodes that have no row */
    uint32_t peer_count;
    struct shard_told_peer peers[SHARD_TOLD_PEERS_MAX];
};

/* The shard's thread. */
void shard_told(const struct shard *shard, struct shard_told *out);
/* A row for the node, made if there is none; NULL: there is no room. */
struct shard_told_peer *shard_told_peer_of(struct shard_told *told, uint64_t node);
/* Adds what another shard told; the longest lag counts. */
void shard_told_join(struct shard_told *sum, const struct shard_told *of);

/* The event that was last given to the shard took so long, with all that it was answered: the time
 * of those checks. The shard's thread. */
void shard_took(struct shard *shard, int64_t ns);

#endif
