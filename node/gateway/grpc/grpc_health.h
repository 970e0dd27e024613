/* grpc_health.h - grpc.health.v1: whether a service serves. */
#ifndef NODE_GATEWAY_GRPC_GRPC_HEALTH_H
#define NODE_GATEWAY_GRPC_GRPC_HEALTH_H

#include "node/gateway/grpc/grpc.h"

enum { GRPC_HEALTH_MAX = 1 << 10 /* bytes of a request */ };

/* Check: SERVING while the node is ready, NOT_SERVING else. Known are the node, "", and each
 * service that has a method. */
enum grpc_verdict grpc_health_check(struct grpc_call *call);
/* Watch: the same now, and whenever it changes. */
enum grpc_verdict grpc_health_watch(struct grpc_call *call);
void grpc_health_look(struct grpc_call *call);

#endif
