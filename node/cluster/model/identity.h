/* identity.h - what makes nodes one cluster. */
#ifndef NODE_CLUSTER_MODEL_IDENTITY_H
#define NODE_CLUSTER_MODEL_IDENTITY_H

#include <stdint.h>

#include "base/hash.h"

enum {
    CONTROL_CONFIG_LEN_MAX = 256 << 10, /* of a ring configuration, in bytes */
    CONTROL_CLUSTER_ID_LEN = 16,
};

/* What all nodes of a cluster share and keep. */
struct control_identity {
    uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN];
    struct hash_key secret;
    struct hash_key route_key;
    uint32_t vnodes;
    uint32_t replicas;
};

#endif
