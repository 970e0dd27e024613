/* span_json.c - see span_json.h. */
#include "node/runtime/telemetry/span_json.h"

#include <stdio.h>
#include <string.h>

enum { STATUS_FAILED = 500, DIGITS_LEN = 2 * TRACE_ID_BYTES + 1 };

void scope_json_put(struct json_text *json, const struct resource_json *resource)
{
    json_put(json, "\"scope\":{\"name\":\"tidegated\",\"version\":");
    json_put_string(json, resource->version, strlen(resource->version));
    json_put(json, "}");
}

void span_json_begin(struct json_text *json, const struct resource_json *resource)
{
    json_put(json, "{\"resourceSpans\":[{");
    json_put_bytes(json, resource->text.data, resource->text.len);
    json_put(json, ",\"scopeSpans\":[{");
    scope_json_put(json, resource);
    json_put(json, ",\"spans\":[");
}

void span_json_end(struct json_text *json)
{
    json_put(json, "]}]}]}");
}

static void put_id(struct json_text *json, const char *key, const uint8_t *bytes, size_t count)
{
    char digits[DIGITS_LEN];
    json_put(json, key);
    json_put(json, trace_digits(bytes, count, digits));
    json_put(json, "\"");
}

static void put_name(struct json_text *json, const struct trace_span *span)
{
    char name[512];
    (void)snprintf(name, sizeof name, "%s%s%s", span->method[0] == '_' ? "HTTP" : span->method,
                   span->route != NULL ? " " : "", span->route != NULL ? span->route : "");
    json_put(json, ",\"name\":");
    json_put_string(json, name, strlen(name));
}

/* A path may hold a name that a person goes by: the pattern of its route is told instead. */
static void put_http(struct json_text *json, const struct trace_span *span)
{
    static const char hidden[] = "REDACTED";
    json_put_attribute(json, true, "http.request.method", span->method);
    json_put_attribute(json, false, "url.scheme", "http");
    json_put_attribute(json, false, "url.path", span->route != NULL ? span->route : hidden);
    if (span->route != NULL)
        json_put_attribute(json, false, "http.route", span->route);
    json_put_attribute(json, false, "network.protocol.name", "http");
    json_put_attribute(json, false, "network.protocol.version", span->minor == 0 ? "1.0" : "1.1");
    if (span->status != 0)
        json_put_attribute_integer(json, false, "http.response.status_code", span->status);
    if (span->retry)
        json_put_attribute_bool(json, false, "tidegate.idempotency_key", true);
}

static int64_t integer_of(uint64_t value)
{
    return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

static void put_checks(struct json_text *json, const struct trace_checks *checks)
{
    if (checks->count == 0)
        return;
    json_put_attribute(json, false, "tidegate.operation", operation_name(checks->operation));
    json_put_attribute_integer(json, false, "tidegate.checks", checks->count);
    json_put_attribute_integer(json, false, "tidegate.cost", integer_of(checks->cost));
    if (!checks->decided)
        return;
    json_put_attribute(json, false, "tidegate.outcome", outcome_name(checks->outcome));
    json_put_attribute_bool(json, false, "tidegate.allowed", checks->refused == 0);
    json_put_attribute_integer(json, false, "tidegate.refused", checks->refused);
    json_put_attribute_bool(json, false, "tidegate.degraded", checks->degraded);
    json_put_attribute_bool(json, false, "tidegate.forwarded", checks->forwarded);
    if (checks->rule[0] != '\0')
        json_put_attribute(json, false, "tidegate.rule", checks->rule);
    if (checks->window[0] != '\0') {
        json_put_attribute(json, false, "tidegate.window", checks->window);
        json_put_attribute_integer(json, false, "tidegate.limit", integer_of(checks->limit));
        json_put_attribute_integer(json, false, "tidegate.used", integer_of(checks->used));
    }
    if (checks->node[0] != '\0')
        json_put_attribute(json, false, "tidegate.decider", checks->node);
}

static void put_status(struct json_text *json, const struct trace_span *span)
{
    char status[8];
    if (span->status != 0 && span->status < STATUS_FAILED) {
        json_put(json, "],\"status\":{}}");
        return;
    }
    (void)snprintf(status, sizeof status, "%u", (unsigned)span->status);
    json_put_attribute(json, false, "error.type", span->status != 0 ? status : "client_gone");
    json_put(json, "],\"status\":{\"code\":2}}");
}

void span_json_put(struct json_text *json, bool first, const struct trace_span *span)
{
    static const uint8_t none[TRACE_SPAN_BYTES];
    const int64_t end_ns = span->end_ns > span->start_ns ? span->end_ns : span->start_ns;
    put_id(json, first ? "{\"traceId\":\"" : ",{\"traceId\":\"", span->id.trace, TRACE_ID_BYTES);
    put_id(json, ",\"spanId\":\"", span->id.span, TRACE_SPAN_BYTES);
    const bool child = memcmp(span->parent, none, sizeof none) != 0;
    if (child)
        put_id(json, ",\"parentSpanId\":\"", span->parent, TRACE_SPAN_BYTES);
    if (span->state[0] != '\0') {
        json_put(json, ",\"traceState\":");
        json_put_string(json, span->state, strlen(span->state));
    }
    put_name(json, span);
    /* A server's; sampled, and whether its parent is another's. */
    json_put(json, child ? ",\"kind\":2,\"flags\":769" : ",\"kind\":2,\"flags\":257");
    json_put(json, ",\"startTimeUnixNano\":");
    json_put_integer(json, span->start_ns);
    json_put(json, ",\"endTimeUnixNano\":");
    json_put_integer(json, end_ns);
    json_put(json, ",\"attributes\":[");
    put_http(json, span);
    put_checks(json, &span->checks);
    put_status(json, span);
}
