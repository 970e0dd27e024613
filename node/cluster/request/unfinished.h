/* unfinished.h - messages whose rules take longer to find than a turn may last.
 *
 * A turn of the shard ends inside such a message: what is left of it waits here, and is gone on
 * with in later turns, a slice in each. All functions are the shard thread's.
 */
#ifndef NODE_CLUSTER_REQUEST_UNFINISHED_H
#define NODE_CLUSTER_REQUEST_UNFINISHED_H

#include "node/cluster/model/effects.h"

struct shard;

enum {
    UNFINISHED_MAX = 256,           /* messages */
    UNFINISHED_BYTES_MAX = 4 << 20, /* of all of them */
};

struct unfinished_message {
    uint8_t *frame; /* its own copy */
    uint32_t len;
    uint32_t request; /* which has its rows */
    uint32_t item;    /* the first that is left */
    uint64_t work;    /* that it has cost so far (RESOLVE-3) */
};

/* A queue: each gets a slice in turn. */
struct unfinished {
    struct unfinished_message *list; /* [UNFINISHED_MAX], a ring */
    uint32_t first;
    uint32_t count;
    size_t bytes;
    uint8_t *frame; /* of the one that is gone on with now, or NULL */
};

/* 0 or TG_ENOMEM. */
int unfinished_init(struct shard *shard);
void unfinished_fini(struct shard *shard);

/* Keeps the message at hand, of which the items from `item` on are left. False if there is no room:
 * then no work is left for it (UNFINISHED-3). */
bool unfinished_keep(struct shard *shard, uint32_t item);

/* Begins a turn: goes on with what is left, for as long as half a turn. */
void unfinished_tick(struct shard *shard, struct effects *effects);

#endif
