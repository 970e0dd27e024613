/* cold_keys.h - what a shard learns of keys that are on disk only (cold_keys.c). */
#ifndef NODE_CLUSTER_REPLICATION_COLD_KEYS_H
#define NODE_CLUSTER_REPLICATION_COLD_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "node/cluster/model/effects.h"

struct shard;

enum { COLD_KEYS_IDS_MAX = 1 << 16, COLD_KEYS_WINDOW = 64 };

/* The vnode whose keys on disk go to replicas; cold_keys.c. */
struct cold_keys {
    bool asked;    /* some link may wait */
    bool later;    /* some link could not be served in this round */
    bool active;   /* `vnode` is being copied */
    bool listing;  /* the disk lists it */
    uint8_t links; /* for these links, a bit each */
    uint32_t vnode;
    uint32_t cursor;
    uint32_t count;  /* of ids */
    uint32_t next;   /* the first that was not asked for */
    uint64_t listed; /* ids that the listing has told */
    uint64_t skip;   /* ids that earlier listings of this copy have dealt with */
    uint32_t out_count;
    int64_t next_ns;     /* no read before */
    int64_t rest_ns;     /* after the newest read that was refused; 0: one succeeded */
    struct hash128 *ids; /* [COLD_KEYS_IDS_MAX] */
    struct hash128 out[COLD_KEYS_WINDOW]; /* being read */
};

/* Whether the answer of a disk says that what was asked for can never be read. */
bool cold_keys_unreadable(int result);
/* A complete copy for the link begins. */
void cold_keys_restarted(struct shard *shard, uint32_t vnode, uint32_t link);
/* An answer of the disk; false if it is not for a copy. */
bool cold_keys_listed(struct shard *shard, uint32_t vnode, const struct hash128 *ids, size_t count,
                      bool last, int result);
bool cold_keys_loaded(struct shard *shard, struct hash128 id, int result, const uint8_t *state,
                      size_t len, struct effects *effects);
void cold_keys_tick(struct shard *shard, struct effects *effects);

#endif
