/* span_json.h - spans as OTLP has them in JSON.
 *
 *   {"resourceSpans":[{RESOURCE,"scopeSpans":[{SCOPE,"spans":[ span, span ... ]}]}]}
 *
 * Names of attributes are those of OpenTelemetry's conventions for servers of HTTP; what is this
 * program's own begins with `tidegate.`. Pure.
 */
#ifndef NODE_RUNTIME_TELEMETRY_SPAN_JSON_H
#define NODE_RUNTIME_TELEMETRY_SPAN_JSON_H

#include "node/gateway/trace/span.h"
#include "node/runtime/telemetry/json_text.h"

/* Who tells: written once, put into each message. */
enum { RESOURCE_JSON_LEN = 16 << 10 };
struct resource_json {
    char version[64];
    struct json_text text; /* "resource":{...} */
    char room[RESOURCE_JSON_LEN];
};

/* Begins a message; spans are put then, and span_json_end. What does not fit sets json->failed. */
void span_json_begin(struct json_text *json, const struct resource_json *resource);
void span_json_put(struct json_text *json, bool first, const struct trace_span *span);
void span_json_end(struct json_text *json);
/* Bytes that span_json_end writes at most. */
enum { SPAN_JSON_TAIL = 16 };

/* "scope":{...}, of this program. */
void scope_json_put(struct json_text *json, const struct resource_json *resource);

#endif
