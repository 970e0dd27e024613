/* grpc_reflection.h - grpc.reflection.v1, and v1alpha, whose messages are the same: which services
 * there are, and the descriptors of the files that tell of them. */
#ifndef NODE_GATEWAY_GRPC_GRPC_REFLECTION_H
#define NODE_GATEWAY_GRPC_GRPC_REFLECTION_H

#include "node/gateway/grpc/grpc.h"

enum {
    GRPC_REFLECTION_MAX = 4 << 10, /* bytes of a request */
    GRPC_SERVICES_MAX = 32
};

enum grpc_verdict grpc_reflection(struct grpc_call *call);

#endif
