/* metric_text.c - see metric_text.h. */
#include "node/cluster/metrics/metric_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define SECOND_NS INT64_C(1000000000)

enum { NUMBER_LEN = 40, PLACES = 9 };

static void add(struct metric_text *text, const char *data, size_t len)
{
    if (text->failed || len > text->capacity - text->len) {
        text->failed = true; /* METRICTEXT-2 */
        return;
    }
    memcpy(text->data + text->len, data, len);
    text->len += len;
}

static void add_text(struct metric_text *text, const char *more)
{
    add(text, more, strlen(more));
}

/* METRICTEXT-1 */
static void add_escaped(struct metric_text *text, const char *value)
{
    const size_t len = strlen(value);
    for (size_t at = 0; at < len;) {
        const size_t step = utf8_len(value + at, len - at);
        if (step == 0)
            add_text(text, "\xef\xbf\xbd");
        else if (value[at] == '\n')
            add_text(text, "\\n");
        else if (value[at] == '\\' || value[at] == '"')
            add(text, (const char[]){'\\', value[at]}, 2);
        else
            add(text, value + at, step);
        at += step == 0 ? 1 : step;
    }
}

static void add_unsigned(struct metric_text *text, uint64_t value)
{
    char number[NUMBER_LEN];
    (void)snprintf(number, sizeof number, "%" PRIu64, value);
    add_text(text, number);
}

/* Seconds, exactly, without zeros at the end. */
static void format_ns(int64_t ns, char out[NUMBER_LEN])
{
    const uint64_t whole = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    int len = snprintf(out, NUMBER_LEN, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "",
                       whole / (uint64_t)SECOND_NS, whole % (uint64_t)SECOND_NS);
    while (out[len - 1] == '0')
        len--;
    len -= out[len - 1] == '.';
    out[len] = '\0';
}

void metric_text_init(struct metric_text *text, void *data, size_t capacity)
{
    *text = (struct metric_text){.data = data, .capacity = capacity};
}

void metric_begin(struct metric_text *text, enum metric_id id)
{
    text->metric = metric_of(id);
    const char *const parts[] = {
        "# HELP ",   text->metric->name, " ", text->metric->help,
        "\n# TYPE ", text->metric->name, " ", metric_type_name(text->metric->type),
        "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_text(text, parts[i]);
}

/* A line up to its value. */
static void add_name(struct metric_text *text, const char *suffix,
                     const struct metric_labels *labels)
{
    add_text(text, text->metric->name);
    add_text(text, suffix);
    for (int i = 0; labels != NULL && i < METRIC_LABELS_MAX && labels->at[i].name != NULL; i++) {
        add_text(text, i == 0 ? "{" : ",");
        add_text(text, labels->at[i].name);
        add_text(text, "=\"");
        add_escaped(text, labels->at[i].value);
        add_text(text, "\"");
    }
    add_text(text, labels != NULL && labels->at[0].name != NULL ? "} " : " ");
}

void metric_put(struct metric_text *text, const struct metric_labels *labels, uint64_t value)
{
    add_name(text, "", labels);
    add_unsigned(text, value);
    add_text(text, "\n");
}

void metric_put_ns(struct metric_text *text, const struct metric_labels *labels, int64_t ns)
{
    char number[NUMBER_LEN];
    format_ns(ns, number);
    add_name(text, "", labels);
    add_text(text, number);
    add_text(text, "\n");
}

void metric_put_times(struct metric_text *text, const struct metric_label *label,
                      const int64_t *bounds_ns, const uint64_t *counts, uint32_t bounds,
                      uint64_t sum_ns)
{
    const struct metric_labels labels = {{*label}};
    char number[NUMBER_LEN];
    uint64_t count = 0;
    for (uint32_t i = 0; i <= bounds; i++) {
        count += counts[i];
        if (i < bounds)
            format_ns(bounds_ns[i], number);
        const struct metric_labels bucket = {{*label, {"le", i < bounds ? number : "+Inf"}}};
        add_name(text, "_bucket", &bucket);
        add_unsigned(text, count);
        add_text(text, "\n");
    }
    format_ns(sum_ns < INT64_MAX ? (int64_t)sum_ns : INT64_MAX, number);
    add_name(text, "_sum", &labels);
    add_text(text, number);
    add_text(text, "\n");
    add_name(text, "_count", &labels);
    add_unsigned(text, count);
    add_text(text, "\n");
}
