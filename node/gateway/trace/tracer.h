/* tracer.h - which requests are traced, and the spans of those that have not ended.
 *
 *   tracer_begin --> number --> tracer_span: what is known --> tracer_decided --> tracer_end
 *                      | 0: it is not traced, and all else costs nothing           |
 *                      v                                                           v sink
 *
 * TRACER-1  Each number that tracer_begin gave ends once, and is not used after that.
 * TRACER-2  At most TRACER_SPANS_MAX have begun and not ended: one more is lost, and the sink told.
 *
 * Pure: memory at the start alone; time and randomness are told. One thread uses a tracer.
 */
#ifndef NODE_GATEWAY_TRACE_TRACER_H
#define NODE_GATEWAY_TRACE_TRACER_H

#include "base/alloc.h"
#include "base/error.h"
#include "client/protocol/wire_decisions.h"
#include "node/gateway/trace/span.h"

struct tracer;

enum { TRACER_SPANS_MAX = 1024 };

/* Which requests are traced, by the names that OpenTelemetry has for that. */
enum trace_sampler {
    TRACE_ALWAYS_ON,
    TRACE_ALWAYS_OFF,
    TRACE_RATIO,
    TRACE_PARENT_OR_ON, /* as whoever asked says; one that says nothing: as behind the OR */
    TRACE_PARENT_OR_OFF,
    TRACE_PARENT_OR_RATIO,
    TRACE_SAMPLERS
};

/* The names, in their order, and NULL: "always_on", ..., "parentbased_traceidratio". */
extern const char *const trace_sampler_words[];

enum { TRACE_RATIO_ALL = 1000000 }; /* a ratio is of a million */

struct trace_sink {
    /* The span has ended; but for its end_ns. It lives as long as the call. */
    void (*ended)(void *context, struct trace_span *span);
    /* One was lost for want of room. */
    void (*lost)(void *context);
    void *context;
};

struct tracer_options {
    enum trace_sampler sampler;
    uint32_t ratio;   /* of TRACE_RATIO_ALL */
    const char *node; /* this one's name, borrowed: who decides is told apart by that */
    uint64_t seed;    /* random */
    struct trace_sink sink;
};

MUST_USE int tracer_new(const struct allocator *allocator, const struct tracer_options *options,
                        struct tracer **out);
void tracer_free(struct tracer **tracer);

/* Whether requests are traced that bring no trace along. */
bool tracer_begins(const struct tracer *tracer);
/* Begins the span of a request that came at that time; `parent`: what it said, or NULL. 0: it is
 * not traced. */
uint32_t tracer_begin(struct tracer *tracer, const struct traceparent *parent, int64_t start_ns);
/* The span of a number, to be filled in, until it ends. */
struct trace_span *tracer_span(struct tracer *tracer, uint32_t number);
/* Notes what became of the request's checks, from `first` on. `number` may be 0, here and below. */
void tracer_decided(struct tracer *tracer, uint32_t number, const struct wire_decisions *decisions,
                    uint32_t first, uint32_t count);
/* The response has been written, with that status; 0: there was nobody to write it to. */
void tracer_end(struct tracer *tracer, uint32_t number, uint16_t status);
/* Spans that have begun and not ended. */
uint32_t tracer_open(const struct tracer *tracer);

#endif
