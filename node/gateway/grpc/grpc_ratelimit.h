/* grpc_ratelimit.h - the services that proxies ask by gRPC: Envoy's, and Kuadrant's. */
#ifndef NODE_GATEWAY_GRPC_GRPC_RATELIMIT_H
#define NODE_GATEWAY_GRPC_GRPC_RATELIMIT_H

#include "node/gateway/grpc/grpc.h"

enum { GRPC_RATELIMIT_MAX = 64 << 10 }; /* bytes of a request */

enum grpc_verdict grpc_ratelimit_should(struct grpc_call *call);
enum grpc_verdict grpc_ratelimit_check(struct grpc_call *call);
enum grpc_verdict grpc_ratelimit_report(struct grpc_call *call);

#endif
