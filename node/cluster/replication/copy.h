/* copy.h - what a shard learns of keys that are on disk only (copy.c, refresh.c). */
#ifndef NODE_CLUSTER_REPLICATION_COPY_H
#define NODE_CLUSTER_REPLICATION_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "node/cluster/model/effects.h"

struct shard;

/* Whether the answer of a disk says that what was asked for can never be read. */
bool copy_unreadable(int result);
/* A complete copy for the link begins. */
void copy_restarted(struct shard *shard, uint32_t vnode, uint32_t link);
/* An answer of the disk; false if it is not for a copy. */
bool copy_listed(struct shard *shard, uint32_t vnode, const struct hash128 *ids, size_t count,
                 bool last, int result);
bool copy_loaded(struct shard *shard, struct hash128 id, int result, const uint8_t *state,
                 size_t len, struct effects *effects);
void copy_tick(struct shard *shard, struct effects *effects);

/* refresh.c. Looks for a filter that is worth a refresh, and asks the disk for its vnode's ids. */
void refresh_tick(struct shard *shard, struct effects *effects);

#endif
