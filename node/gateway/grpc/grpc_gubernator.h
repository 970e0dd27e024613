/* grpc_gubernator.h - pb.gubernator.V1 by gRPC: GetRateLimits, HealthCheck, LiveCheck. */
#ifndef NODE_GATEWAY_GRPC_GRPC_GUBERNATOR_H
#define NODE_GATEWAY_GRPC_GRPC_GUBERNATOR_H

#include "node/gateway/grpc/grpc.h"

enum { GUBERNATOR_HEALTH_MAX = 1 << 10 };

enum grpc_verdict grpc_gubernator_limits(struct grpc_call *call);
/* 14 UNAVAILABLE where the node is not ready. */
enum grpc_verdict grpc_gubernator_health(struct grpc_call *call);
enum grpc_verdict grpc_gubernator_live(struct grpc_call *call);

#endif
