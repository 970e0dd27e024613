/* grpc_health.c - the answers of the health service. */
#include "node/gateway/grpc/grpc_health.h"

#include <proto/health.pb-c.h>
#include <string.h>

#include <assert.h>

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving;

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

/* What a watch keeps. */
struct watch {
    bool unknown; /* there is no such service */
    serving told;
};

static_assert(sizeof(struct watch) <= GRPC_CONTEXT_LEN, "it is kept");

/* A service is one that has a method: "/NAME/Method". */
static bool is_known(const struct grpc_facts *facts, const char *name)
{
    const size_t len = strlen(name);
    if (len == 0 || strcmp(name, "ratelimit") == 0) /* as the reference service calls itself */
        return true;
    for (size_t i = 0; i < facts->method_count; i++) {
        const char *path = facts->methods[i].path;
        if (strncmp(path + 1, name, len) == 0 && path[1 + len] == '/')
            return true;
    }
    return false;
}

static const char *service_of(const struct grpc_call *call)
{
    return ((const Grpc__Health__V1__HealthCheckRequest *)call->request)->service;
}

static serving state_of(const struct grpc_call *call)
{
    return call->facts->waits == NULL ? SERVING : NOT_SERVING;
}

enum grpc_verdict grpc_health_check(struct grpc_call *call)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    if (!is_known(call->facts, service_of(call)))
        return grpc_fail(call, GRPC_NOT_FOUND, "unknown service");
    response.status = state_of(call);
    return grpc_reply(call, &response.base);
}

static void tell(struct grpc_call *call, serving status)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct watch *watch = call->context;
    watch->told = response.status = status;
    grpc_say(call, &response.base);
}

enum grpc_verdict grpc_health_watch(struct grpc_call *call)
{
    struct watch *watch = call->context;
    watch->unknown = !is_known(call->facts, service_of(call));
    (void)grpc_begin(call);
    tell(call, watch->unknown ? SERVICE_UNKNOWN : state_of(call));
    return GRPC_GOES_ON;
}

void grpc_health_look(struct grpc_call *call)
{
    const struct watch *watch = call->context;
    if (!watch->unknown && watch->told != state_of(call))
        tell(call, state_of(call));
}
