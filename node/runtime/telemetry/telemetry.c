/* telemetry.c - see telemetry.h. */
#include "node/runtime/telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/runtime/telemetry/exporter.h"
#include "node/runtime/telemetry/trace_log.h"

const char *const telemetry_figure_names[TELEMETRY_FIGURES] = {
    [TELEMETRY_SPANS_SENT] = "spans_sent",         [TELEMETRY_SPANS_REJECTED] = "spans_rejected",
    [TELEMETRY_SPANS_FAILED] = "spans_failed",     [TELEMETRY_SPANS_DROPPED] = "spans_dropped",
    [TELEMETRY_PUSHES_SENT] = "pushes_sent",       [TELEMETRY_PUSHES_FAILED] = "pushes_failed",
    [TELEMETRY_PUSHES_DROPPED] = "pushes_dropped", [TELEMETRY_LINES_WRITTEN] = "lines_written",
    [TELEMETRY_LINES_DROPPED] = "lines_dropped",
};

/* What the tracer of one shard calls. */
struct shard_sink {
    struct telemetry *telemetry;
    struct span_ring *ring; /* NULL: spans are not pushed */
    struct tracer *tracer;
};

struct telemetry {
    struct telemetry_options options;
    struct exporter *exporter; /* NULL: nothing is pushed */
    int64_t due_ns;            /* of the next page, of the monotonic clock; of control's thread */
    struct trace_log_budget budget;
    struct shard_sink sinks[CONFIG_SHARDS_MAX];
    struct span_ring *rings[CONFIG_SHARDS_MAX];
    _Atomic uint64_t figures[TELEMETRY_FIGURES];
};

static void count(struct telemetry *telemetry, enum telemetry_figure figure)
{
    (void)atomic_fetch_add_explicit(&telemetry->figures[figure], 1, memory_order_relaxed);
}

uint64_t telemetry_figure(struct telemetry *telemetry, enum telemetry_figure figure)
{
    ASSERT(figure < TELEMETRY_FIGURES);
    return telemetry != NULL
               ? atomic_load_explicit(&telemetry->figures[figure], memory_order_relaxed)
               : 0;
}

/* ---- spans, by the threads of shards --------------------------------------------------------- */

static void log_span(struct telemetry *telemetry, const struct trace_span *span)
{
    const struct config_telemetry *config = &telemetry->options.config->telemetry;
    struct log_output_trace trace;
    char line[TRACE_LOG_LEN];
    const char *reason = trace_log_reason(span, config->slow_ns);
    if (reason == NULL || !log_enabled(&telemetry->options.output->log, LOG_LEVEL_INFO))
        return;
    if (!trace_log_take(&telemetry->budget, span->end_ns, config->log_lines)) {
        count(telemetry, TELEMETRY_LINES_DROPPED);
        return;
    }
    count(telemetry, TELEMETRY_LINES_WRITTEN);
    (void)trace_digits(span->id.trace, TRACE_ID_BYTES, trace.trace_id);
    (void)trace_digits(span->id.span, TRACE_SPAN_BYTES, trace.span_id);
    log_output_traced(telemetry->options.output, LOG_LEVEL_INFO, &trace,
                      trace_log_line(span, reason, line));
}

static void ended(void *context, struct trace_span *span)
{
    struct shard_sink *sink = context;
    struct telemetry *telemetry = sink->telemetry;
    span->end_ns = clock_now_ns(telemetry->options.clock);
    if (telemetry->options.config->telemetry.log_lines > 0)
        log_span(telemetry, span);
    if (sink->ring != NULL && !span_ring_put(sink->ring, span))
        count(telemetry, TELEMETRY_SPANS_DROPPED);
}

static void lost(void *context)
{
    const struct shard_sink *sink = context;
    count(sink->telemetry, TELEMETRY_SPANS_DROPPED);
}

struct tracer *telemetry_tracer(struct telemetry *telemetry, uint32_t shard)
{
    ASSERT(shard < CONFIG_SHARDS_MAX);
    return telemetry->sinks[shard].tracer;
}

/* ---- metrics, by the thread of control ------------------------------------------------------- */

bool telemetry_due(struct telemetry *telemetry)
{
    const struct config_telemetry *config = &telemetry->options.config->telemetry;
    if (telemetry->exporter == NULL || config->metrics[0] == '\0')
        return false;
    const int64_t now_ns = clock_mono_ns(telemetry->options.clock);
    if (now_ns < telemetry->due_ns)
        return false;
    telemetry->due_ns = now_ns + config->interval_ns;
    return true;
}

void telemetry_give(struct telemetry *telemetry, const char *page, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy == NULL) {
        count(telemetry, TELEMETRY_PUSHES_DROPPED);
        return;
    }
    memcpy(copy, page, len);
    exporter_page(telemetry->exporter, copy, len);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What a shard needs for traces; false: there is no memory. */
static bool open_sink(struct telemetry *telemetry, uint32_t shard)
{
    const struct config *config = telemetry->options.config;
    struct shard_sink *sink = &telemetry->sinks[shard];
    const struct tracer_options options = {.sampler = config->telemetry.sampler,
                                           .ratio = config->telemetry.ratio,
                                           .node = config->name,
                                           .seed = telemetry->options.seed + shard,
                                           .sink = {ended, lost, sink}};
    sink->telemetry = telemetry;
    if (config->telemetry.traces[0] != '\0') {
        sink->ring = telemetry->rings[shard] = calloc(1, sizeof *sink->ring);
        if (sink->ring == NULL)
            return false;
    }
    return tracer_new(alloc_heap(), &options, &sink->tracer) == 0;
}

static int open_exporter(struct telemetry *telemetry, bool traces)
{
    const struct config *config = telemetry->options.config;
    const struct exporter_options options = {.config = config,
                                             .clock = telemetry->options.clock,
                                             .log = &telemetry->options.output->log,
                                             .version = telemetry->options.version,
                                             .started_ns = telemetry->options.started_ns,
                                             .rings = telemetry->rings,
                                             .ring_count = traces ? config->shards : 0,
                                             .figures = telemetry->figures,
                                             .seed = ~telemetry->options.seed};
    return exporter_new(&options, &telemetry->exporter);
}

int telemetry_new(const struct telemetry_options *options, struct telemetry **out)
{
    const struct config *config = options->config;
    const struct config_telemetry *asked = &config->telemetry;
    const bool http = !config->http.first.off || config->http.more.count > 0;
    const bool sampled = http && asked->sampler != TRACE_ALWAYS_OFF;
    const bool pushed = sampled && asked->traces[0] != '\0';
    struct telemetry *telemetry = calloc(1, sizeof *telemetry);
    int error = telemetry != NULL ? 0 : TG_ENOMEM;
    *out = telemetry;
    if (error != 0)
        return error;
    telemetry->options = *options;
    for (uint32_t i = 0; i < config->shards && sampled && (pushed || asked->log_lines > 0); i++)
        if (error == 0 && !open_sink(telemetry, i))
            error = TG_ENOMEM;
    if (error == 0 && (pushed || asked->metrics[0] != '\0'))
        error = open_exporter(telemetry, pushed);
    if (error != 0)
        telemetry_free(out);
    return error;
}

void telemetry_end(struct telemetry *telemetry, int64_t flush_ns)
{
    if (telemetry != NULL && telemetry->exporter != NULL)
        exporter_end(telemetry->exporter, flush_ns);
}

void telemetry_free(struct telemetry **pointer)
{
    struct telemetry *telemetry = *pointer;
    *pointer = NULL;
    if (telemetry == NULL)
        return;
    exporter_free(&telemetry->exporter);
    for (uint32_t i = 0; i < CONFIG_SHARDS_MAX; i++) {
        tracer_free(&telemetry->sinks[i].tracer);
        free(telemetry->rings[i]);
    }
    free(telemetry);
}
