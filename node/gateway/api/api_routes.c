/* api_routes.c - the table of what HTTP is answered: the router, OPTIONS and OpenAPI come of it. */
#include "node/gateway/api/api_routes.h"

#include "node/gateway/api/auth_api.h"
#include "node/gateway/api/check_api.h"
#include "node/gateway/api/metrics_api.h"
#include "node/gateway/api/openapi.h"
#include "node/gateway/http/http_probe.h"

#define CHECKS(word, says)                                                                         \
    {                                                                                              \
        .method = HTTP1_POST, .path = "/v1/" #word, .name = #word, .summary = (says),              \
        .body = HTTP_BODY_JSON, .flags = HTTP_ROUTE_CHECKS, .handle = api_##word                   \
    }

static const struct http_route routes[] = {
    CHECKS(check, "Decides whether requests may pass, and charges those that may"),
    CHECKS(peek, "Decides likewise, and charges nothing"),
    CHECKS(hit, "Charges without asking"),
    CHECKS(refund, "Gives back what was charged"),
    CHECKS(reset, "Gives all back: the keys are new"),
    CHECKS(lease, "Takes places of a concurrency limit, or tokens of another, for some time"),
    CHECKS(release, "Gives the places or tokens of a lease back"),
    CHECKS(renew, "Lets the time of a lease begin anew"),
    {.method = HTTP1_GET,
     .path = "/v1/auth",
     .name = "auth",
     .summary = "Tells a proxy whether a request may pass, by the rules",
     .flags = HTTP_ROUTE_CHECKS | HTTP_ROUTE_ANY | HTTP_ROUTE_PROXY,
     .handle = api_auth},
    {.method = HTTP1_GET,
     .path = "/v1/auth/{name}/...",
     .name = "auth_named",
     .summary = "The same by the endpoint of that name; what follows is of the request",
     .flags = HTTP_ROUTE_CHECKS | HTTP_ROUTE_ANY | HTTP_ROUTE_PROXY,
     .handle = api_auth},
    {.method = HTTP1_GET,
     .path = "/v1/openapi.json",
     .name = "openapi",
     .summary = "Tells all of this, as OpenAPI 3.1",
     .handle = api_openapi},
    {.method = HTTP1_GET,
     .path = "/metrics",
     .name = "metrics",
     .summary = "Tells the node's metrics, as Prometheus reads them",
     .flags = HTTP_ROUTE_CHECKS | HTTP_ROUTE_ASIDE,
     .handle = api_metrics},
    {.method = HTTP1_GET,
     .path = "/livez",
     .name = "livez",
     .summary = "Tells that the process lives",
     .flags = HTTP_ROUTE_PROBE,
     .handle = http_live},
    {.method = HTTP1_GET,
     .path = "/readyz",
     .name = "readyz",
     .summary = "Tells whether the node decides, or can pass on to the node that does",
     .flags = HTTP_ROUTE_PROBE,
     .handle = http_ready},
};

const struct http_route *api_routes(size_t *count)
{
    *count = sizeof routes / sizeof *routes;
    return routes;
}
