/* openapi.c - the document that tells what HTTP is answered, made of the table of routes.
 *
 * What a body and an answer have is written here once; check_item.c and decision_json.c are what it
 * tells of, and a test from outside holds the two together.
 */
#include "node/gateway/api/openapi.h"

#include <string.h>

#include "base/quantity.h"
#include "node/gateway/api/openapi_operators.h"
#include "node/gateway/http/http_routes.h"

enum { ROOM = 128 << 10, STATUS_OK = 200 };

static const char schemas[] =
    "\"components\":{\"securitySchemes\":{\"operators\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
    "\"schemas\":{"
    "\"Check\":{\"type\":\"object\",\"additionalProperties\":false,"
    "\"anyOf\":[{\"required\":[\"attributes\"]},{\"required\":[\"key\",\"rate\"]}],"
    "\"properties\":{"
    "\"attributes\":{\"type\":[\"object\",\"null\"],\"minProperties\":1,\"maxProperties\":32,"
    "\"propertyNames\":{\"minLength\":1,\"maxLength\":64},"
    "\"additionalProperties\":{\"type\":[\"string\",\"integer\",\"boolean\"],\"maxLength\":1024},"
    "\"description\":\"what the rules are asked about\"},"
    "\"key\":{\"type\":[\"string\",\"integer\",\"boolean\",\"null\"],\"maxLength\":1024,"
    "\"description\":\"of an own limit\"},"
    "\"rate\":{\"type\":[\"string\",\"null\"],\"description\":\"of an own limit: COUNT/[N]UNIT\","
    "\"pattern\":\"^[1-9][0-9]{0,14}/([1-9][0-9]{0,5})?(";

static const char schemas_more[] =
    ")$\"},"
    "\"burst\":{\"type\":[\"integer\",\"null\"],\"minimum\":0,\"maximum\":1000000000000000},"
    "\"algorithm\":{\"enum\":[\"token_bucket\",\"leaky_bucket\",\"fixed_window\",\"sliding_"
    "window\","
    "\"sliding_buckets\",\"sliding_log\",\"concurrency\",null]},"
    "\"cost\":{\"type\":[\"integer\",\"null\"],\"minimum\":0,\"maximum\":1000000000000000},"
    "\"at_most\":{\"type\":[\"boolean\",\"null\"]},"
    "\"lease_id\":{\"type\":[\"string\",\"null\"],\"pattern\":\"^[0-9a-f]{1,16}$\"},"
    "\"used\":{\"type\":[\"integer\",\"null\"],\"minimum\":0,\"maximum\":1000000000000000},"
    "\"explain\":{\"type\":[\"boolean\",\"null\"],\"description\":\"of a check that is no "
    "list's: tell all limits that it meets\"},"
    "\"ttl\":{\"type\":[\"string\",\"null\"],\"description\":\"of a reservation: 1s to 1h\"},"
    "\"hold_id\":{\"type\":[\"string\",\"null\"],\"pattern\":\"^[0-9a-f]{1,16}$\"},"
    "\"actual\":{\"type\":[\"integer\",\"null\"],\"minimum\":0,\"maximum\":1000000000000000}}},"
    "\"Checks\":{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"checks\"],"
    "\"properties\":{\"checks\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":4096,"
    "\"items\":{\"$ref\":\"#/components/schemas/Check\"}}}},"
    "\"Decision\":{\"type\":\"object\",\"required\":[\"allowed\",\"outcome\",\"rule\",\"window\","
    "\"limit\",\"used\",\"remaining\",\"granted\",\"reset_after_ms\",\"retry_after_ms\",\"delay_"
    "ms\","
    "\"status\",\"message\",\"degraded\",\"node\"],\"additionalProperties\":false,\"properties\":{"
    "\"allowed\":{\"type\":\"boolean\"},"
    "\"outcome\":{\"enum\":[\"allow\",\"soft_exceeded\",\"elastic_borrowed\",\"shadow_denied\","
    "\"no_rule\",\"deny\",\"blocked\",\"busy\",\"error\"]},"
    "\"rule\":{\"type\":\"string\"},\"window\":{\"type\":\"string\"},"
    "\"limit\":{\"type\":\"integer\",\"minimum\":0},\"used\":{\"type\":\"integer\",\"minimum\":0},"
    "\"remaining\":{\"type\":\"integer\",\"minimum\":0},"
    "\"granted\":{\"type\":\"integer\",\"minimum\":0},"
    "\"reset_after_ms\":{\"type\":\"integer\",\"minimum\":-1},"
    "\"retry_after_ms\":{\"type\":\"integer\",\"minimum\":-1,\"description\":\"-1: never\"},"
    "\"delay_ms\":{\"type\":\"integer\",\"minimum\":-1},"
    "\"status\":{\"type\":\"integer\",\"minimum\":100,\"maximum\":599},"
    "\"message\":{\"type\":\"string\"},\"degraded\":{\"type\":\"boolean\"},"
    "\"node\":{\"type\":\"string\"},\"shadow_rule\":{\"type\":\"string\"},"
    "\"lease_id\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{16}$\"},"
    "\"lease_ms\":{\"type\":\"integer\",\"minimum\":1},"
    "\"hold_id\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{16}$\"},"
    "\"hold_ms\":{\"type\":\"integer\",\"minimum\":1},"
    "\"explain\":{\"type\":\"array\",\"maxItems\":64,\"items\":{\"$ref\":"
    "\"#/components/schemas/Limit\"}}}},"
    "\"Limit\":{\"type\":\"object\",\"required\":[\"rule\",\"window\",\"limit\",\"used\","
    "\"remaining\","
    "\"allowed\",\"reset_after_ms\",\"retry_after_ms\"],\"additionalProperties\":false,"
    "\"properties\":{\"rule\":{\"type\":\"string\"},\"window\":{\"type\":\"string\"},"
    "\"limit\":{\"type\":\"integer\",\"minimum\":0},\"used\":{\"type\":\"integer\",\"minimum\":0},"
    "\"remaining\":{\"type\":\"integer\",\"minimum\":0},\"allowed\":{\"type\":\"boolean\"},"
    "\"reset_after_ms\":{\"type\":\"integer\",\"minimum\":-1},"
    "\"retry_after_ms\":{\"type\":\"integer\",\"minimum\":-1},"
    "\"pool\":{\"type\":\"string\"},\"level\":{\"type\":\"number\",\"minimum\":0},"
    "\"guaranteed\":{\"type\":\"number\",\"minimum\":0},"
    "\"borrowed\":{\"type\":\"number\",\"minimum\":0},"
    "\"pool_scope\":{\"const\":\"global\"},\"pool_home\":{\"type\":\"string\"}}},"
    "\"Decisions\":{\"type\":\"object\",\"additionalProperties\":false,"
    "\"required\":[\"decisions\"],\"properties\":{\"decisions\":{\"type\":\"array\","
    "\"items\":{\"$ref\":\"#/components/schemas/Decision\"}}}},"
    "\"Problem\":{\"type\":\"object\",\"required\":[\"type\",\"title\",\"status\"],\"properties\":{"
    "\"type\":{\"type\":\"string\"},\"title\":{\"type\":\"string\"},"
    "\"status\":{\"type\":\"integer\"},\"detail\":{\"type\":\"string\"},"
    "\"violated-policies\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}}}}";

/* A body, and the parameters, of requests that are checks. */
static const char checks_request[] =
    ",\"parameters\":[{\"name\":\"status\",\"in\":\"query\",\"schema\":{\"enum\":[\"200\"]},"
    "\"description\":\"status 200, whatever was decided\"},"
    "{\"name\":\"Idempotency-Key\",\"in\":\"header\",\"schema\":{\"type\":\"string\","
    "\"pattern\":\"^[!-~]{1,256}$\"},\"description\":\"charged once within two seconds\"},"
    "{\"name\":\"X-Request-Timeout\",\"in\":\"header\",\"schema\":{\"type\":\"string\","
    "\"pattern\":\"^([1-9]|[1-5][0-9]|60|[1-9][0-9]{0,3}ms)$\"},\"description\":\"seconds, or a "
    "time "
    "with its unit, in which it is to be decided\"}],"
    "\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{\"anyOf\":["
    "{\"$ref\":\"#/components/schemas/Check\"},{\"$ref\":\"#/components/schemas/Checks\"}]}}}}";

static const char checks_answers[] =
    "\"200\":{\"description\":\"decided\",\"content\":{\"application/"
    "json\":{\"schema\":{\"anyOf\":["
    "{\"$ref\":\"#/components/schemas/Decision\"},{\"$ref\":\"#/components/schemas/"
    "Decisions\"}]}}}},"
    "\"429\":{\"description\":\"denied; a rule may have another status\",\"headers\":{"
    "\"Retry-After\":{\"schema\":{\"type\":\"string\"}},\"RateLimit\":{\"schema\":{\"type\":"
    "\"string\"}}},\"content\":{\"application/json\":{\"schema\":{\"$ref\":"
    "\"#/components/schemas/Decision\"}}}},";

static const char auth_answers[] =
    "\"200\":{\"description\":\"it may pass, as the endpoint says it\"},"
    "\"204\":{\"description\":\"it may pass\"},";

static const char other_answers[] =
    "\"4XX\":{\"description\":\"refused\",\"content\":{\"application/problem+json\":{\"schema\":{"
    "\"$ref\":\"#/components/schemas/Problem\"}},\"application/json\":{\"schema\":{\"$ref\":"
    "\"#/components/schemas/Decision\"}}}},"
    "\"5XX\":{\"description\":\"not "
    "decided\",\"content\":{\"application/problem+json\":{\"schema\":{"
    "\"$ref\":\"#/components/schemas/Problem\"}},\"application/json\":{\"schema\":{\"$ref\":"
    "\"#/components/schemas/Decision\"}}}}";

/* The path as OpenAPI has it: without what stands for any rest. */
static struct wire_text path_of(const struct http_route *route)
{
    const char *rest = strstr(route->path, "/...");
    return (struct wire_text){route->path,
                              rest != NULL ? (size_t)(rest - route->path) : strlen(route->path)};
}

static const char *method_of(const struct http_route *route)
{
    return route->method == HTTP1_POST     ? "post"
           : route->method == HTTP1_PUT    ? "put"
           : route->method == HTTP1_DELETE ? "delete"
                                           : "get";
}

static void put_parameter(struct http_reply *reply, const struct http_route *route)
{
    const char *open = strchr(route->path, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;
    if (close == NULL)
        return;
    http_put_text(reply, ",\"parameters\":[{\"in\":\"path\",\"required\":true,\"name\":");
    http_put_string(reply, (struct wire_text){open + 1, (size_t)(close - open) - 1});
    http_put_text(reply, ",\"schema\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9_-]+$\"}}]");
}

static void put_operation(struct http_reply *reply, const struct http_route *route,
                          const char *method)
{
    const bool operators = (route->flags & HTTP_ROUTE_OPERATOR) != 0;
    const bool checks = !operators && route->body == HTTP_BODY_JSON;
    const bool proxys = (route->flags & HTTP_ROUTE_PROXY) != 0;
    http_put_text(reply, "\"");
    http_put_text(reply, method);
    http_put_text(reply, "\":{\"operationId\":\"");
    http_put_text(reply, route->name);
    if ((route->flags & HTTP_ROUTE_ANY) != 0) {
        http_put_text(reply, "_");
        http_put_text(reply, method);
    }
    http_put_text(reply, "\",\"summary\":");
    http_put_string(reply, wire_text_of(route->summary));
    if (operators)
        openapi_put_call(reply, route);
    else if (route->document != NULL)
        http_put_text(reply, route->document->request);
    else if (checks)
        http_put_text(reply, checks_request);
    else
        put_parameter(reply, route);
    http_put_text(reply, ",\"responses\":{");
    if (operators)
        openapi_put_answers(reply, route->call);
    else
        http_put_text(reply, route->document != NULL ? route->document->answer
                             : checks                ? checks_answers
                             : proxys                ? auth_answers
                                                     : "\"200\":{\"description\":\"yes\"},");
    http_put_text(reply, other_answers);
    http_put_text(reply, "}}");
}

/* One method of a path. */
static void put_method(struct http_reply *reply, const struct http_route *route)
{
    static const char *const methods[] = {"get", "put", "post", "patch", "delete", "trace"};
    if ((route->flags & HTTP_ROUTE_ANY) == 0) {
        put_operation(reply, route, method_of(route));
    } else {
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
            http_put_text(reply, i > 0 ? ",\n" : "");
            put_operation(reply, route, methods[i]);
        }
    }
}

/* Whether the row is of a page, or an earlier one has its path. */
static bool is_told(const struct http_route *routes, size_t at)
{
    if ((routes[at].flags & HTTP_ROUTE_PAGE) != 0)
        return true;
    for (size_t i = 0; i < at; i++)
        if (strcmp(routes[i].path, routes[at].path) == 0)
            return true;
    return false;
}

/* A path, with all methods that it takes. */
static void put_path(struct http_reply *reply, const struct http_route *routes, size_t count,
                     size_t at)
{
    http_put_string(reply, path_of(&routes[at]));
    http_put_text(reply, ":{");
    for (size_t i = at; i < count; i++) {
        if (strcmp(routes[i].path, routes[at].path) != 0)
            continue;
        http_put_text(reply, i > at ? ",\n" : "");
        put_method(reply, &routes[i]);
    }
    http_put_text(reply, "}");
}

enum http_verdict api_openapi(struct http_exchange *exchange)
{
    enum http_verdict verdict;
    struct http_reply *reply = &exchange->reply;
    if (!http_room(exchange, ROOM, &verdict))
        return verdict;
    http_reply_begin(reply, STATUS_OK);
    http_reply_body(reply, "application/json");
    http_put_text(reply, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Tidegate\",\"version\":");
    http_put_string(reply, wire_text_of(exchange->facts->version));
    http_put_text(reply, ",\"summary\":\"may this caller do this now?\",\"license\":{\"name\":"
                         "\"Apache 2.0\",\"identifier\":\"Apache-2.0\"}},\"paths\":{");
    for (size_t i = 0; i < exchange->facts->route_count; i++) {
        if (is_told(exchange->facts->routes, i))
            continue;
        http_put_text(reply, i > 0 ? ",\n" : "");
        put_path(reply, exchange->facts->routes, exchange->facts->route_count, i);
    }
    http_put_text(reply, "},\n");
    http_put_text(reply, schemas);
    for (size_t i = 0; quantity_unit(i) != NULL; i++) {
        http_put_text(reply, i > 0 ? "|" : "");
        http_put_text(reply, quantity_unit(i));
    }
    http_put_text(reply, schemas_more);
    http_put_text(reply, "}\n");
    http_reply_end(reply);
    return HTTP_ANSWERED;
}
