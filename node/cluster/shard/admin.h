/* admin.h - HELLO, the ring, and what operators ask of a shard (admin.c). */
#ifndef NODE_CLUSTER_SHARD_ADMIN_H
#define NODE_CLUSTER_SHARD_ADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "client/protocol/wire.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/model/view.h"
#include "node/cluster/shard/shard.h"

struct shard;

enum { SHARD_ENDPOINTS_MAX = 2048 };

/* What an operator asks, and the ring as it is told (admin.c): scratch. */
struct admin_scratch {
    struct mp_token tokens[SHARD_ADMIN_TOKENS_MAX];
    struct wire_ring_member members[WIRE_MEMBERS_MAX];
    struct wire_text endpoints[SHARD_ENDPOINTS_MAX];
    char texts[SHARD_ENDPOINTS_MAX][VIEW_TEXT_LEN];
    uint16_t index_of[VIEW_MEMBERS_MAX * 2]; /* of the view's members, in `members` */
};

void admin_command(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                   struct effects *effects);
void admin_hello(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                 struct effects *effects);
void admin_ring(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                struct effects *effects);

#endif
