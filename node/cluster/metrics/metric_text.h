/* metric_text.h - metrics as Prometheus reads them: the text format, version 0.0.4.
 *
 *   metric_begin --> # HELP and # TYPE, then a line a call:  name{label="value"} 12
 *
 * METRICTEXT-1  Whatever a value of a label is, it stays one: backslash, quote and line feed are
 *               escaped, and what is no UTF-8 becomes U+FFFD.
 * METRICTEXT-2  What does not fit sets `failed`, and nothing more is written.
 *
 * Pure; the caller's memory.
 */
#ifndef NODE_CLUSTER_METRICS_METRIC_TEXT_H
#define NODE_CLUSTER_METRICS_METRIC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/cluster/metrics/metric_table.h"

struct metric_text {
    char *data;
    size_t len;
    size_t capacity;
    bool failed;
    const struct metric *metric; /* that was begun last */
};

struct metric_label {
    const char *name; /* NULL: there is no further one */
    const char *value;
};

enum { METRIC_LABELS_MAX = 3 };

/* What a line is about; unused ones are all zero. */
struct metric_labels {
    struct metric_label at[METRIC_LABELS_MAX];
};

void metric_text_init(struct metric_text *text, void *data, size_t capacity);
void metric_begin(struct metric_text *text, enum metric_id id);
/* A line of the metric that was begun: a number, or a time in seconds. */
void metric_put(struct metric_text *text, const struct metric_labels *labels, uint64_t value);
void metric_put_ns(struct metric_text *text, const struct metric_labels *labels, int64_t ns);
/* The lines of a histogram: counts[i] is of times up to bounds_ns[i], the last one of all longer
 * ones, so that there is one more of them. */
void metric_put_times(struct metric_text *text, const struct metric_label *label,
                      const int64_t *bounds_ns, const uint64_t *counts, uint32_t bounds,
                      uint64_t sum_ns);

#endif
