/* metric_json.c - see metric_json.h.
 *
 * The page has, of each metric, its help, its type, and then its lines:
 *
 *   # HELP name text         # TYPE name counter|gauge|histogram
 *   name{label="value",...} number
 *
 * Of a histogram, lines of the same labels but `le` are one data point: buckets, which count all
 * that are less, then _sum, then _count.
 */
#include "node/runtime/telemetry/metric_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MAX = 64, NUMBER_MAX = 40, VALUE_MAX = 1024, INTEGER_DIGITS = 18 };

struct text {
    const char *data;
    size_t len;
};

struct line {
    struct text name;
    struct text labels; /* between the braces; empty if there are none */
    struct text number;
};

struct histogram {
    struct text labels; /* of its first line, up to `,le=` */
    uint32_t count;
    struct text bounds[BUCKETS_MAX];
    uint64_t counts[BUCKETS_MAX];
    struct text sum;
    bool open;
};

struct converting {
    struct json_text *json;
    int64_t start_ns;
    int64_t now_ns;
    struct text name;
    struct text help;
    bool counter;
    bool histogram;
    bool seconds;
    bool any_metric;
    bool any_point;
    bool begun; /* a metric has */
    struct histogram times;
};

static bool is(struct text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static bool begins(struct text text, const char *word)
{
    return text.len >= strlen(word) && memcmp(text.data, word, strlen(word)) == 0;
}

static bool has(struct text text, const char *word)
{
    return memmem(text.data, text.len, word, strlen(word)) != NULL;
}

static struct text until(struct text text, size_t len)
{
    return (struct text){text.data, len < text.len ? len : text.len};
}

static struct text behind(struct text text, size_t len)
{
    return len < text.len ? (struct text){text.data + len, text.len - len}
                          : (struct text){text.data + text.len, 0};
}

static size_t find(struct text text, char c)
{
    const char *at = memchr(text.data, c, text.len);
    return at != NULL ? (size_t)(at - text.data) : text.len;
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Takes `name="value"` from the front of the labels, and the comma behind it; the value without its
 * escapes is in `room`. */
static bool take_label(struct text *labels, struct text *name, char room[VALUE_MAX], size_t *len)
{
    const size_t equals = find(*labels, '=');
    *name = until(*labels, equals);
    struct text rest = behind(*labels, equals + 1);
    *len = 0;
    if (rest.len == 0 || rest.data[0] != '"')
        return false;
    size_t at = 1;
    for (; at < rest.len && rest.data[at] != '"'; at++) {
        char c = rest.data[at];
        if (c == '\\' && at + 1 < rest.len) {
            c = rest.data[++at];
            c = c == 'n' ? '\n' : c;
        }
        if (*len == VALUE_MAX)
            return false;
        room[(*len)++] = c;
    }
    if (at == rest.len)
        return false;
    *labels = behind(rest, at + 1);
    if (labels->len > 0 && labels->data[0] != ',')
        return false;
    *labels = behind(*labels, 1);
    return true;
}

/* "attributes":[...] of the labels; false: they are none. */
static bool put_labels(struct json_text *json, struct text labels)
{
    char value[VALUE_MAX];
    size_t len;
    struct text name;
    json_put(json, "\"attributes\":[");
    for (bool first = true; labels.len > 0; first = false) {
        if (!take_label(&labels, &name, value, &len))
            return false;
        json_put(json, first ? "{\"key\":" : ",{\"key\":");
        json_put_string(json, name.data, name.len);
        json_put(json, ",\"value\":{\"stringValue\":");
        json_put_string(json, value, len);
        json_put(json, "}}");
    }
    json_put(json, "]");
    return true;
}

/* ---- data points ----------------------------------------------------------------------------- */

static void begin_point(struct converting *to)
{
    json_put(to->json, to->any_point ? ",{" : "{");
    to->any_point = true;
}

static void put_times(struct converting *to, bool cumulative)
{
    if (cumulative) {
        json_put(to->json, ",\"startTimeUnixNano\":");
        json_put_integer(to->json, to->start_ns);
    }
    json_put(to->json, ",\"timeUnixNano\":");
    json_put_integer(to->json, to->now_ns);
}

static bool is_number(struct text number)
{
    size_t digits = 0;
    for (size_t i = 0; i < number.len; i++) {
        const char c = number.data[i];
        digits += c >= '0' && c <= '9';
        if (!((c >= '0' && c <= '9') || c == '.' || (c == '-' && i == 0)))
            return false;
    }
    return digits > 0 && number.len < NUMBER_MAX;
}

/* A metric has one kind of number; what no 64 bits with a sign can tell is a broken one. */
static bool put_number(struct converting *to, const struct line *line)
{
    const bool broken = to->seconds || line->number.len > INTEGER_DIGITS || has(line->number, ".");
    begin_point(to);
    if (!is_number(line->number) || !put_labels(to->json, line->labels))
        return false;
    put_times(to, to->counter);
    json_put(to->json, broken ? ",\"asDouble\":" : ",\"asInt\":\"");
    json_put_bytes(to->json, line->number.data, line->number.len);
    json_put(to->json, broken ? "}" : "\"}");
    return true;
}

static bool read_count(struct text number, uint64_t *out)
{
    char copy[NUMBER_MAX];
    char *end;
    if (!is_number(number))
        return false;
    memcpy(copy, number.data, number.len);
    copy[number.len] = '\0';
    *out = strtoull(copy, &end, 10);
    return *end == '\0';
}

/* The point of a histogram is complete. */
static bool put_histogram(struct converting *to, struct text count)
{
    const struct histogram *times = &to->times;
    uint64_t before = 0;
    begin_point(to);
    if (!put_labels(to->json, times->labels) || !is_number(times->sum) || !is_number(count))
        return false;
    put_times(to, true);
    json_put(to->json, ",\"count\":\"");
    json_put_bytes(to->json, count.data, count.len);
    json_put(to->json, "\",\"sum\":");
    json_put_bytes(to->json, times->sum.data, times->sum.len);
    json_put(to->json, ",\"bucketCounts\":[");
    for (uint32_t i = 0; i < times->count; i++) {
        json_put(to->json, i > 0 ? "," : "");
        json_put_unsigned(to->json, times->counts[i] - before);
        before = times->counts[i];
    }
    json_put(to->json, "],\"explicitBounds\":[");
    for (uint32_t i = 0; i + 1 < times->count; i++) {
        json_put(to->json, i > 0 ? "," : "");
        json_put_bytes(to->json, times->bounds[i].data, times->bounds[i].len);
    }
    json_put(to->json, "]}");
    return true;
}

/* A line name_bucket{labels,le="bound"} count, or what follows these. */
static bool take_histogram(struct converting *to, const struct line *line)
{
    static const char le[] = "le=\"";
    struct histogram *times = &to->times;
    const struct text part = behind(line->name, to->name.len);
    if (is(part, "_sum")) {
        times->sum = line->number;
        return times->open;
    }
    if (is(part, "_count")) {
        const bool ok = times->open && put_histogram(to, line->number);
        *times = (struct histogram){.count = 0};
        return ok;
    }
    const char *at = memmem(line->labels.data, line->labels.len, le, sizeof le - 1);
    if (!is(part, "_bucket") || at == NULL || times->count == BUCKETS_MAX)
        return false;
    const size_t before = (size_t)(at - line->labels.data);
    struct text bound = behind(line->labels, before + sizeof le - 1);
    bound = until(bound, find(bound, '"'));
    if (!times->open)
        times->labels = until(line->labels, before > 0 ? before - 1 : 0);
    times->open = true;
    times->bounds[times->count] = bound;
    if (!is(bound, "+Inf") && !is_number(bound))
        return false;
    return read_count(line->number, &times->counts[times->count++]);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void end_metric(struct converting *to)
{
    if (to->begun)
        json_put(to->json, to->counter || to->histogram ? "],\"aggregationTemporality\":2" : "]");
    if (to->begun && to->counter)
        json_put(to->json, ",\"isMonotonic\":true");
    if (to->begun)
        json_put(to->json, "}}");
    to->begun = false;
}

/* "# TYPE name type": the metric begins. */
static bool begin_metric(struct converting *to, struct text type)
{
    to->counter = is(type, "counter");
    to->histogram = is(type, "histogram");
    to->seconds = has(to->name, "_seconds");
    to->times = (struct histogram){.count = 0};
    if (!to->counter && !to->histogram && !is(type, "gauge"))
        return false;
    json_put(to->json, to->any_metric ? ",{\"name\":" : "{\"name\":");
    json_put_string(to->json, to->name.data, to->name.len);
    json_put(to->json, ",\"description\":");
    json_put_string(to->json, to->help.data, to->help.len);
    /* A unit of 1 would have Prometheus call a gauge a ratio. */
    if (to->seconds || has(to->name, "_bytes"))
        json_put(to->json, to->seconds ? ",\"unit\":\"s\"" : ",\"unit\":\"By\"");
    json_put(to->json, to->counter     ? ",\"sum\":{\"dataPoints\":["
                       : to->histogram ? ",\"histogram\":{\"dataPoints\":["
                                       : ",\"gauge\":{\"dataPoints\":[");
    to->any_metric = to->begun = true;
    to->any_point = false;
    return true;
}

/* "# HELP name text" or "# TYPE name type". */
static bool take_comment(struct converting *to, struct text line)
{
    static const char help[] = "# HELP ";
    const struct text rest = behind(line, sizeof help - 1);
    const size_t blank = find(rest, ' ');
    if (begins(line, help)) {
        end_metric(to);
        to->name = until(rest, blank);
        to->help = behind(rest, blank + 1);
        return to->name.len > 0;
    }
    return begins(line, "# TYPE ") && !to->begun && until(rest, blank).len == to->name.len &&
           memcmp(rest.data, to->name.data, to->name.len) == 0 &&
           begin_metric(to, behind(rest, blank + 1));
}

/* Where the labels end: a value may have a brace in it, which is no end. */
static size_t labels_len(struct text text)
{
    bool quoted = false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\\' && quoted)
            i++;
        else if (text.data[i] == '"')
            quoted = !quoted;
        else if (text.data[i] == '}' && !quoted)
            return i;
    }
    return text.len;
}

static bool take_line(struct converting *to, struct text text)
{
    struct line line = {.number = {.len = 0}};
    if (text.len > 0 && text.data[0] == '#')
        return take_comment(to, text);
    const size_t brace = find(text, '{');
    const size_t blank = find(text, ' ');
    line.name = until(text, brace < blank ? brace : blank);
    struct text rest = behind(text, line.name.len);
    if (brace < blank) {
        rest = behind(rest, 1);
        line.labels = until(rest, labels_len(rest));
        rest = behind(rest, line.labels.len + 1);
    } else {
        line.labels = until(rest, 0);
    }
    line.number = behind(rest, 1);
    if (!to->begun || line.name.len < to->name.len || rest.len == 0 || rest.data[0] != ' ' ||
        memcmp(line.name.data, to->name.data, to->name.len) != 0)
        return false;
    return to->histogram ? take_histogram(to, &line)
                         : line.name.len == to->name.len && put_number(to, &line);
}

int metric_json_put(struct json_text *json, const struct resource_json *resource, const char *page,
                    size_t len, int64_t start_ns, int64_t now_ns)
{
    struct converting to = {.json = json, .start_ns = start_ns, .now_ns = now_ns};
    struct text rest = {page, len};
    json_put(json, "{\"resourceMetrics\":[{");
    json_put_bytes(json, resource->text.data, resource->text.len);
    json_put(json, ",\"scopeMetrics\":[{");
    scope_json_put(json, resource);
    json_put(json, ",\"metrics\":[");
    while (rest.len > 0) {
        const size_t end = find(rest, '\n');
        if (end == rest.len || !take_line(&to, until(rest, end)))
            return TG_EINVALID;
        rest = behind(rest, end + 1);
    }
    if (to.times.open)
        return TG_EINVALID;
    end_metric(&to);
    json_put(json, "]}]}]}");
    return json->failed ? TG_EFULL : 0;
}
