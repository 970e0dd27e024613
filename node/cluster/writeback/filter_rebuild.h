/* filter_rebuild.h - the filter of what is on disk, made anew now and then (filter_rebuild.c). */
#ifndef NODE_CLUSTER_WRITEBACK_FILTER_REBUILD_H
#define NODE_CLUSTER_WRITEBACK_FILTER_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/effects.h"

struct shard;

/* The filter that is made anew, and which one is looked at next. */
struct filter_rebuild {
    bool listing; /* the disk lists `vnode` */
    uint32_t vnode;
    uint32_t cursor;
    int64_t next_ns;  /* no listing before */
    int64_t round_ns; /* the cursor does not begin anew before */
};

/* Looks for a filter that is worth a refresh, and asks the disk for its vnode's ids. */
void filter_rebuild_tick(struct shard *shard, struct effects *effects);

#endif
