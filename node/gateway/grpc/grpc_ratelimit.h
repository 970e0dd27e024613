/* grpc_ratelimit.h - the services that proxies ask by gRPC: Envoy's, and Kuadrant's. */
#ifndef NODE_GATEWAY_GRPC_GRPC_RATELIMIT_H
#define NODE_GATEWAY_GRPC_GRPC_RATELIMIT_H

#include "node/gateway/grpc/grpc.h"

struct ratelimit_asking;
struct Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor; /* as protobuf-c has it */

enum { GRPC_RATELIMIT_MAX = 64 << 10 }; /* bytes of a request */

enum grpc_verdict grpc_ratelimit_should(struct grpc_call *call);
enum grpc_verdict grpc_ratelimit_check(struct grpc_call *call);
enum grpc_verdict grpc_ratelimit_report(struct grpc_call *call);

/* Reads descriptors behind ratelimit_begin, and finds their limits. False: asking->error. */
bool grpc_ratelimit_read(
    const struct grpc_call *call, const char *domain,
    struct Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor **descriptors,
    size_t count, uint32_t hits, struct ratelimit_asking *asking);

#endif
