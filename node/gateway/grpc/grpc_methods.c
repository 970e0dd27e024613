/* grpc_methods.c - the table of methods that gRPC's clients may call. */
#include <proto/gubernator.pb-c.h>
#include <proto/health.pb-c.h>
#include <proto/kuadrant.pb-c.h>
#include <proto/ratelimit.pb-c.h>
#include <proto/reflection.pb-c.h>

#include "node/gateway/grpc/grpc_gate.h"
#include "node/gateway/grpc/grpc_gubernator.h"
#include "node/gateway/grpc/grpc_health.h"
#include "node/gateway/grpc/grpc_kuadrant.h"
#include "node/gateway/grpc/grpc_ratelimit.h"
#include "node/gateway/grpc/grpc_reflection.h"
#include "node/gateway/gubernator/gubernator.h"

const struct grpc_method *grpc_methods(size_t *count)
{
    static const struct grpc_method methods[] = {
        {.path = "/grpc.health.v1.Health/Check",
         .request = &grpc__health__v1__health_check_request__descriptor,
         .request_max = GRPC_HEALTH_MAX,
         .always = true,
         .handle = grpc_health_check},
        {.path = "/grpc.health.v1.Health/Watch",
         .request = &grpc__health__v1__health_check_request__descriptor,
         .request_max = GRPC_HEALTH_MAX,
         .always = true,
         .handle = grpc_health_watch,
         .look = grpc_health_look},
        {.path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
         .request = &grpc__reflection__v1__server_reflection_request__descriptor,
         .request_max = GRPC_REFLECTION_MAX,
         .always = true,
         .many = true,
         .handle = grpc_reflection},
        {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
         .request = &grpc__reflection__v1__server_reflection_request__descriptor,
         .request_max = GRPC_REFLECTION_MAX,
         .always = true,
         .many = true,
         .handle = grpc_reflection},
        {.path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
         .request = &envoy__service__ratelimit__v3__rate_limit_request__descriptor,
         .request_max = GRPC_RATELIMIT_MAX,
         .handle = grpc_ratelimit_should},
        {.path = "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit",
         .request = &envoy__service__ratelimit__v3__rate_limit_request__descriptor,
         .request_max = GRPC_RATELIMIT_MAX,
         .handle = grpc_ratelimit_check},
        {.path = "/kuadrant.service.ratelimit.v1.RateLimitService/Report",
         .request = &envoy__service__ratelimit__v3__rate_limit_request__descriptor,
         .request_max = GRPC_RATELIMIT_MAX,
         .handle = grpc_ratelimit_report},
        {.path = "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve",
         .request = &kuadrant__service__ratelimit__v1__reserve_request__descriptor,
         .request_max = GRPC_RATELIMIT_MAX,
         .handle = grpc_kuadrant_reserve},
        {.path = "/kuadrant.service.ratelimit.v1.RateLimitService/Commit",
         .request = &kuadrant__service__ratelimit__v1__commit_request__descriptor,
         .request_max = GRPC_RATELIMIT_MAX,
         .handle = grpc_kuadrant_commit},
        {.path = "/pb.gubernator.V1/GetRateLimits",
         .request_max = GUBERNATOR_BODY_MAX,
         .handle = grpc_gubernator_limits},
        {.path = "/pb.gubernator.V1/HealthCheck",
         .request = &pb__gubernator__health_check_req__descriptor,
         .request_max = GUBERNATOR_HEALTH_MAX,
         .always = true,
         .handle = grpc_gubernator_health},
        {.path = "/pb.gubernator.V1/LiveCheck",
         .request = &pb__gubernator__live_check_req__descriptor,
         .request_max = GUBERNATOR_HEALTH_MAX,
         .always = true,
         .handle = grpc_gubernator_live},
    };
    *count = sizeof methods / sizeof *methods;
    return methods;
}
