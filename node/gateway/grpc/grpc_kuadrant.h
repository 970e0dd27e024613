/* grpc_kuadrant.h - what Kuadrant's service has beyond Envoy's: reservations. */
#ifndef NODE_GATEWAY_GRPC_GRPC_KUADRANT_H
#define NODE_GATEWAY_GRPC_GRPC_KUADRANT_H

#include "node/gateway/grpc/grpc.h"

enum grpc_verdict grpc_kuadrant_reserve(struct grpc_call *call);
enum grpc_verdict grpc_kuadrant_commit(struct grpc_call *call);

#endif
