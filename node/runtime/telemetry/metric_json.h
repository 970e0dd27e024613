/* metric_json.h - the page of /metrics as OTLP has it in JSON.
 *
 *   # TYPE tidegate_busy_checks_total counter  -->
 * {"name":"tidegate_busy_checks_total","sum":{...}} tidegate_busy_checks_total 12 one data point a
 * line
 *
 * What is pushed is made of the page that Prometheus reads, so that it is the same: names, labels,
 * values. Counters and histograms count from the start of the process (cumulative). Pure.
 */
#ifndef NODE_RUNTIME_TELEMETRY_METRIC_JSON_H
#define NODE_RUNTIME_TELEMETRY_METRIC_JSON_H

#include "base/error.h"
#include "node/runtime/telemetry/span_json.h"

/* Writes the whole message. 0; TG_EINVALID: the page is none that metric_text.c writes; TG_EFULL:
 * it has no room. */
MUST_USE int metric_json_put(struct json_text *json, const struct resource_json *resource,
                             const char *page, size_t len, int64_t start_ns, int64_t now_ns);

#endif
