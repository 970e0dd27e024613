/* ratelimit_grpc.h - the services that proxies ask by gRPC: Envoy's, and Kuadrant's. */
#ifndef NODE_GATEWAY_RATELIMIT_RATELIMIT_GRPC_H
#define NODE_GATEWAY_RATELIMIT_RATELIMIT_GRPC_H

#include "node/gateway/grpc/grpc.h"

enum { RATELIMIT_GRPC_MAX = 64 << 10 }; /* bytes of a request */

enum grpc_verdict ratelimit_grpc_should(struct grpc_call *call);
enum grpc_verdict ratelimit_grpc_check(struct grpc_call *call);
enum grpc_verdict ratelimit_grpc_report(struct grpc_call *call);

#endif
