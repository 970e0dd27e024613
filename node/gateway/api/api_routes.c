/* api_routes.c - the table of what HTTP is answered: the router, OPTIONS and OpenAPI come of it. */
#include "node/gateway/api/api_routes.h"

#include <string.h>

#include "node/gateway/api/auth_api.h"
#include "node/gateway/api/check_api.h"
#include "node/gateway/api/events_api.h"
#include "node/gateway/api/gubernator_api.h"
#include "node/gateway/api/metrics_api.h"
#include "node/gateway/api/openapi.h"
#include "node/gateway/api/operate_api.h"
#include "node/gateway/api/operate_call.h"
#include "node/gateway/api/ratelimit_api.h"
#include "node/gateway/http/http_probe.h"
#include "node/gateway/page/page.h"
#include "node/gateway/page/page_look.h"
#include "node/policy/rights/commands.h"

#define CHECKS(word, says)                                                                         \
    {                                                                                              \
        .method = HTTP1_POST, .path = "/v1/" #word, .name = #word, .summary = (says),              \
        .body = HTTP_BODY_JSON, .flags = HTTP_ROUTE_CHECKS, .handle = api_##word                   \
    }

#define OPERATOR(verb, at, word, takes, number, says)                                              \
    {                                                                                              \
        .method = HTTP1_##verb, .path = (at), .name = (word), .summary = (says), .body = (takes),  \
        .flags = HTTP_ROUTE_OPERATOR, .right_of = right_of, .handle = api_operate,                 \
        .call = &operate_calls[number]                                                             \
    }

static uint8_t right_of(const struct http_route *route)
{
    return (uint8_t)command_right(route->call->command, strlen(route->call->command));
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
    CHECKS(reserve, "Holds an estimate of tokens until it is settled, or its time is over"),
    CHECKS(commit, "Settles a reservation by what was really used"),
    CHECKS(cancel, "Gives a reservation back"),
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
    {.method = HTTP1_POST,
     .path = "/v1/GetRateLimits",
     .name = "GetRateLimits",
     .summary = "Decides for clients of Gubernator",
     .body = HTTP_BODY_JSON,
     .flags = HTTP_ROUTE_CHECKS,
     .handle = gubernator_api_limits,
     .document = &gubernator_api_document},
    {.method = HTTP1_GET,
     .path = "/v1/HealthCheck",
     .name = "HealthCheck",
     .summary = "Tells them whether the node decides, and how many members it knows",
     .handle = gubernator_api_health},
    {.method = HTTP1_GET,
     .path = "/v1/LiveCheck",
     .name = "LiveCheck",
     .summary = "Tells them that the process lives",
     .flags = HTTP_ROUTE_PROBE,
     .handle = gubernator_api_live},
    {.method = HTTP1_POST,
     .path = "/json",
     .name = "json",
     .summary = "Decides by descriptors, as Envoy's rate limit service does; 429 if over",
     .body = HTTP_BODY_JSON,
     .flags = HTTP_ROUTE_CHECKS,
     .handle = ratelimit_api_json,
     .document = &ratelimit_api_document},
    {.method = HTTP1_GET,
     .path = "/healthcheck",
     .name = "healthcheck",
     .summary = "Tells that the process lives and has rules, as that service does",
     .flags = HTTP_ROUTE_PROBE,
     .handle = ratelimit_api_health},
    OPERATOR(GET, "/v1/status", "status", HTTP_BODY_NONE, OPERATE_STATUS,
             "Tells how the cluster is"),
    OPERATOR(GET, "/v1/members", "members", HTTP_BODY_NONE, OPERATE_MEMBERS,
             "Lists the members of the cluster"),
    OPERATOR(GET, "/v1/ring", "ring", HTTP_BODY_NONE, OPERATE_RING,
             "Tells who is in the ring, and with how much of it"),
    OPERATOR(GET, "/v1/regions", "regions", HTTP_BODY_NONE, OPERATE_REGIONS, "Lists the regions"),
    {.method = HTTP1_GET,
     .path = "/v1/events",
     .name = "events",
     .summary = "Lists what came about lately; with Accept: text/event-stream, and goes on",
     .flags = HTTP_ROUTE_OPERATOR | HTTP_ROUTE_PAGE,
     .right = RIGHT_OBSERVE,
     .handle = api_events,
     .call = &operate_calls[OPERATE_EVENTS]},
    OPERATOR(POST, "/v1/owner", "owner", HTTP_BODY_JSON, OPERATE_OWNER,
             "Tells which nodes count and decide for these attributes, or this key"),
    OPERATOR(POST, "/v1/explain", "explain", HTTP_BODY_JSON, OPERATE_EXPLAIN,
             "Tells which rules act on these attributes, and why; nothing is counted"),
    OPERATOR(GET, "/v1/rules", "rules_show", HTTP_BODY_NONE, OPERATE_RULES_SHOW,
             "Shows the newest document of rules"),
    OPERATOR(PUT, "/v1/rules", "rules_apply", HTTP_BODY_RULES, OPERATE_RULES_APPLY,
             "Applies a document of rules"),
    OPERATOR(GET, "/v1/rules/list", "rules_list", HTTP_BODY_NONE, OPERATE_RULES_LIST,
             "Lists the rules in force, in acting order"),
    OPERATOR(GET, "/v1/rules/history", "rules_history", HTTP_BODY_NONE, OPERATE_RULES_HISTORY,
             "Lists the documents that are kept, newest first"),
    OPERATOR(GET, "/v1/rules/versions/{version}", "rules_version", HTTP_BODY_NONE,
             OPERATE_RULES_VERSION, "Shows a document that is kept"),
    OPERATOR(GET, "/v1/rules/named/{name}", "rules_named", HTTP_BODY_NONE, OPERATE_RULES_NAMED,
             "Shows one rule in force"),
    OPERATOR(POST, "/v1/rules/validate", "rules_validate", HTTP_BODY_RULES, OPERATE_RULES_VALIDATE,
             "Tells whether a document compiles, and what it probably does not mean"),
    OPERATOR(POST, "/v1/rules/diff", "rules_diff", HTTP_BODY_RULES, OPERATE_RULES_DIFF,
             "Tells how a document differs from the newest one, and which counts stay"),
    OPERATOR(POST, "/v1/rules/rollback", "rules_rollback", HTTP_BODY_JSON, OPERATE_RULES_ROLLBACK,
             "Applies a document that is kept"),
    OPERATOR(GET, "/v1/blocks", "blocks", HTTP_BODY_NONE, OPERATE_BLOCKS, "Lists what is blocked"),
    OPERATOR(POST, "/v1/block", "block", HTTP_BODY_JSON, OPERATE_BLOCK,
             "Blocks an attribute, an address, a network or a key"),
    OPERATOR(POST, "/v1/unblock", "unblock", HTTP_BODY_JSON, OPERATE_UNBLOCK, "Lifts such a block"),
    OPERATOR(GET, "/v1/quotas", "quotas", HTTP_BODY_NONE, OPERATE_QUOTAS,
             "Lists what is set for users"),
    OPERATOR(GET, "/v1/quota", "quota", HTTP_BODY_NONE, OPERATE_QUOTA,
             "Shows what is set for a user"),
    OPERATOR(POST, "/v1/quota", "quota_set", HTTP_BODY_JSON, OPERATE_QUOTA_SET,
             "Sets tier, own limits, block or notes of a user: what is not named stays"),
    OPERATOR(DELETE, "/v1/quota", "quota_delete", HTTP_BODY_NONE, OPERATE_QUOTA_DELETE,
             "Forgets what is set for a user"),
    OPERATOR(GET, "/v1/apikeys", "apikeys", HTTP_BODY_NONE, OPERATE_KEYS, "Lists API keys"),
    OPERATOR(POST, "/v1/apikeys", "apikey_create", HTTP_BODY_JSON, OPERATE_KEY_CREATE,
             "Makes an API key, which this answer alone shows"),
    OPERATOR(GET, "/v1/apikeys/{key}", "apikey", HTTP_BODY_NONE, OPERATE_KEY,
             "Shows what is kept of an API key"),
    OPERATOR(POST, "/v1/apikeys/{key}/revoke", "apikey_revoke", HTTP_BODY_JSON, OPERATE_KEY_REVOKE,
             "Ends an API key"),
    OPERATOR(DELETE, "/v1/apikeys/{key}", "apikey_delete", HTTP_BODY_NONE, OPERATE_KEY_DELETE,
             "Forgets an API key"),
    OPERATOR(GET, "/v1/pools", "pools", HTTP_BODY_NONE, OPERATE_POOLS,
             "Lists the pools of elastic limits"),
    OPERATOR(PUT, "/v1/pools/{pool}/load", "pool_load", HTTP_BODY_JSON, OPERATE_POOL_LOAD,
             "Tells how loaded is what the pool protects"),
    OPERATOR(GET, "/v1/edits/{id}", "edit", HTTP_BODY_NONE, OPERATE_EDIT,
             "Tells what became of an edit"),
    OPERATOR(POST, "/v1/drain", "drain", HTTP_BODY_JSON, OPERATE_DRAIN,
             "Moves all that the node holds away; ask again until done"),
    OPERATOR(POST, "/v1/leave", "leave", HTTP_BODY_JSON, OPERATE_LEAVE,
             "Drains the node, and ends its process"),
    OPERATOR(POST, "/v1/remove", "remove", HTTP_BODY_JSON, OPERATE_REMOVE,
             "Removes a dead member, or a region; ask again until done"),
    {.method = HTTP1_GET,
     .path = "/",
     .name = "page",
     .summary = "Shows the cluster at a glance, as a page",
     .flags = HTTP_ROUTE_PAGE,
     .right = RIGHT_OBSERVE,
     .handle = page_show},
    {.method = HTTP1_GET,
     .path = "/live",
     .name = "page_live",
     .summary = "Shows what the page shows again and again, as server-sent events",
     .flags = HTTP_ROUTE_PAGE,
     .right = RIGHT_OBSERVE,
     .handle = page_live},
    {.method = HTTP1_GET,
     .path = "/look",
     .name = "page_look",
     .summary = "Shows what becomes of a request, as a page",
     .flags = HTTP_ROUTE_PAGE,
     .right = RIGHT_OBSERVE,
     .handle = page_look},
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
     .right = RIGHT_OBSERVE,
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
