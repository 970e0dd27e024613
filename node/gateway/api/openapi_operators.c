/* openapi_operators.c - see openapi_operators.h.
 *
 * Bodies are told exactly, for what is not told there is refused. Answers are those of the client
 * protocol, whose fields are only ever added: they are told as objects.
 */
#include "node/gateway/api/openapi_operators.h"

#include <string.h>

#include "base/assert.h"
#include "node/gateway/api/operate_call.h"

/* The schema of a field, as query and path have it and as a body has it, without what it says. */
static const struct {
    const char *in_target; /* NULL: bodies alone */
    const char *in_body;
} schemas[OPERATE_KINDS] = {
    [OPERATE_TEXT] = {"\"type\":\"string\"", "\"type\":[\"string\",\"null\"]"},
    [OPERATE_NUMBER] = {"\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740991",
                        "\"type\":[\"integer\",\"null\"],\"minimum\":0,\"maximum\":"
                        "9007199254740991"},
    [OPERATE_FLAG] = {"\"type\":\"boolean\"", "\"type\":[\"boolean\",\"null\"]"},
    [OPERATE_SPAN] = {NULL, "\"type\":[\"string\",\"null\"],\"pattern\":"
                            "\"^[1-9][0-9]{0,5}(ms|s|m|h|d)$\""},
    [OPERATE_RATES] = {NULL, "\"type\":[\"array\",\"null\"],\"maxItems\":7,\"items\":{\"type\":"
                             "\"string\",\"pattern\":\"^[1-9][0-9]{0,8}/(s|m|h|day)$\"}"},
    [OPERATE_SHARE] = {NULL, "\"type\":[\"number\",\"null\"],\"minimum\":0,\"maximum\":1"},
    [OPERATE_ATTRIBUTES] = {NULL, "\"type\":[\"object\",\"null\"],\"maxProperties\":32,"
                                  "\"additionalProperties\":{\"type\":[\"string\",\"integer\","
                                  "\"boolean\"]}"},
};

static bool in_path(const struct http_route *route, const struct operate_field *field)
{
    const size_t len = strlen(field->name);
    for (const char *at = strchr(route->path, '{'); at != NULL; at = strchr(at + 1, '{'))
        if (strncmp(at + 1, field->name, len) == 0 && at[len + 1] == '}')
            return true;
    return false;
}

static bool has_body(const struct http_route *route)
{
    return route->body != HTTP_BODY_NONE;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void put_parameter(struct http_reply *reply, const struct http_route *route,
                          const struct operate_field *field, bool *first)
{
    const bool path = in_path(route, field);
    if ((!path && has_body(route)) || schemas[field->kind].in_target == NULL)
        return;
    http_put_text(reply, *first ? "{\"in\":" : ",{\"in\":");
    *first = false;
    http_put_text(reply, path ? "\"path\"" : "\"query\"");
    http_put_text(reply, path || field->needed ? ",\"required\":true" : "");
    http_put_text(reply, ",\"name\":\"");
    http_put_text(reply, field->name);
    http_put_text(reply, "\",\"description\":");
    http_put_string(reply, wire_text_of(field->says));
    http_put_text(reply, ",\"schema\":{");
    http_put_text(reply, schemas[field->kind].in_target);
    if (path && field->kind == OPERATE_TEXT) /* not all bytes can stand in a path */
        http_put_text(reply, ",\"pattern\":\"^[A-Za-z0-9_-]+$\"");
    http_put_text(reply, "}}");
}

/* `pattern`: of the values that are taken; NULL: others are passed over. */
static void put_header(struct http_reply *reply, const char *name, const char *pattern, bool *first)
{
    http_put_text(reply, *first ? "{" : ",{");
    *first = false;
    http_put_text(reply, "\"in\":\"header\",\"name\":\"");
    http_put_text(reply, name);
    http_put_text(reply, "\",\"schema\":{\"type\":\"string\"");
    if (pattern != NULL) {
        http_put_text(reply, ",\"pattern\":\"");
        http_put_text(reply, pattern);
        http_put_text(reply, "\"");
    }
    http_put_text(reply, "}}");
}

static void put_parameters(struct http_reply *reply, const struct http_route *route)
{
    const struct operate_call *call = route->call;
    const bool edits = (call->flags & OPERATE_EDITS) != 0;
    bool first = true;
    http_put_text(reply, ",\"parameters\":[");
    for (uint32_t i = 0; i < call->field_count; i++)
        put_parameter(reply, route, &call->fields[i], &first);
    for (uint32_t i = 0; edits && i < OPERATE_OF_EDITS; i++)
        put_parameter(reply, route, &operate_of_edits[i], &first);
    if (edits)
        put_header(reply, "If-Match", "^(\\\\*|\\\"[0-9]{1,18}\\\")$", &first);
    if (edits && (call->flags & OPERATE_MAKES) == 0)
        put_header(reply, "Idempotency-Key", "^[!-~]{1,256}$", &first);
    if ((call->flags & OPERATE_TAGGED) != 0)
        put_header(reply, "If-None-Match", NULL, &first);
    http_put_text(reply, "]");
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void put_property(struct http_reply *reply, const struct operate_field *field, bool first)
{
    http_put_text(reply, first ? "\"" : ",\"");
    http_put_text(reply, field->name);
    http_put_text(reply, "\":{");
    http_put_text(reply, schemas[field->kind].in_body);
    http_put_text(reply, ",\"description\":");
    http_put_string(reply, wire_text_of(field->says));
    http_put_text(reply, "}");
}

/* The names of the fields that the body must have. */
static void put_needed(struct http_reply *reply, const struct http_route *route)
{
    bool first = true;
    for (uint32_t i = 0; i < route->call->field_count; i++) {
        const struct operate_field *field = &route->call->fields[i];
        if (!field->needed || in_path(route, field))
            continue;
        http_put_text(reply, first ? ",\"required\":[\"" : ",\"");
        http_put_text(reply, field->name);
        http_put_text(reply, "\"");
        first = false;
    }
    http_put_text(reply, first ? "" : "]");
}

static void put_body(struct http_reply *reply, const struct http_route *route)
{
    const struct operate_call *call = route->call;
    bool first = true;
    http_put_text(reply, ",\"requestBody\":{\"content\":{\"application/json\":{\"schema\":{"
                         "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
    for (uint32_t i = 0; i < call->field_count; i++) {
        if (in_path(route, &call->fields[i]))
            continue;
        put_property(reply, &call->fields[i], first);
        first = false;
    }
    for (uint32_t i = 0; (call->flags & OPERATE_EDITS) != 0 && i < OPERATE_OF_EDITS; i++) {
        put_property(reply, &operate_of_edits[i], first);
        first = false;
    }
    http_put_text(reply, "}");
    put_needed(reply, route);
    http_put_text(reply, "}}");
    if (route->body == HTTP_BODY_RULES)
        http_put_text(reply, ",\"application/yaml\":{\"schema\":{}}");
    http_put_text(reply, "}}");
}

void openapi_put_call(struct http_reply *reply, const struct http_route *route)
{
    ASSERT(route->call != NULL);
    http_put_text(reply, ",\"security\":[{\"operators\":[]}]");
    put_parameters(reply, route);
    if (has_body(route))
        put_body(reply, route);
}

void openapi_put_answers(struct http_reply *reply, const struct operate_call *call)
{
    static const char object[] = ",\"content\":{\"application/json\":{\"schema\":{\"type\":"
                                 "\"object\"}}";
    const bool makes = (call->flags & OPERATE_MAKES) != 0;
    const bool tagged = (call->flags & OPERATE_TAGGED) != 0;
    http_put_text(reply, makes ? "\"201\":{\"description\":\"made\""
                               : "\"200\":{\"description\":\"done, or shown\"");
    http_put_text(reply, object);
    if (tagged && (call->flags & OPERATE_DOCUMENT) != 0)
        http_put_text(reply, ",\"application/yaml\":{\"schema\":{\"type\":\"string\"}}");
    http_put_text(reply, "}},");
    if (tagged)
        http_put_text(reply, "\"304\":{\"description\":\"as If-None-Match says\"},");
    if ((call->flags & OPERATE_EDITS) == 0)
        return;
    http_put_text(reply, "\"202\":{\"description\":\"not decided yet; Location tells of it\"");
    http_put_text(reply, object);
    http_put_text(reply, "}},");
}
