/* tracer.c - see tracer.h. */
#include "node/gateway/trace/tracer.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/random.h"

const char *const trace_sampler_words[] = {[TRACE_ALWAYS_ON] = "always_on",
                                           [TRACE_ALWAYS_OFF] = "always_off",
                                           [TRACE_RATIO] = "traceidratio",
                                           [TRACE_PARENT_OR_ON] = "parentbased_always_on",
                                           [TRACE_PARENT_OR_OFF] = "parentbased_always_off",
                                           [TRACE_PARENT_OR_RATIO] = "parentbased_traceidratio",
                                           [TRACE_SAMPLERS] = NULL};

struct slot {
    uint32_t next; /* number of the next free one, or 0 */
    bool used;
    struct trace_span span;
};

struct tracer {
    const struct allocator *allocator;
    struct tracer_options options;
    struct random random;
    uint64_t below; /* a trace is taken by ratio if half of what its id ends with is less */
    uint32_t free;  /* number of the first free slot, or 0 */
    uint32_t open;
    struct slot slots[TRACER_SPANS_MAX];
};

int tracer_new(const struct allocator *allocator, const struct tracer_options *options,
               struct tracer **out)
{
    struct tracer *tracer = alloc_get(allocator, sizeof *tracer);
    *out = tracer;
    if (tracer == NULL)
        return TG_ENOMEM;
    ASSERT(options->ratio <= TRACE_RATIO_ALL && options->sampler < TRACE_SAMPLERS);
    tracer->allocator = allocator;
    tracer->options = *options;
    tracer->below = (uint64_t)((unsigned __int128)options->ratio * (UINT64_C(1) << 63) /
                               (unsigned __int128)TRACE_RATIO_ALL);
    random_init(&tracer->random, options->seed);
    for (uint32_t i = 0; i < TRACER_SPANS_MAX; i++)
        tracer->slots[i].next = i + 1 < TRACER_SPANS_MAX ? i + 2 : 0;
    tracer->free = 1;
    return 0;
}

void tracer_free(struct tracer **tracer)
{
    if (*tracer != NULL)
        alloc_put((*tracer)->allocator, *tracer, sizeof **tracer);
    *tracer = NULL;
}

uint32_t tracer_open(const struct tracer *tracer)
{
    return tracer->open;
}

static bool follows(enum trace_sampler sampler)
{
    return sampler >= TRACE_PARENT_OR_ON;
}

bool tracer_begins(const struct tracer *tracer)
{
    const enum trace_sampler sampler = tracer->options.sampler;
    if (sampler == TRACE_RATIO || sampler == TRACE_PARENT_OR_RATIO)
        return tracer->below > 0;
    return sampler == TRACE_ALWAYS_ON || sampler == TRACE_PARENT_OR_ON;
}

/* By the end of the trace's id, so that all who are asked about one trace agree. */
static bool by_ratio(const struct tracer *tracer, const uint8_t trace[TRACE_ID_BYTES])
{
    uint64_t end = 0;
    for (size_t i = TRACE_ID_BYTES / 2; i < TRACE_ID_BYTES; i++)
        end = end << 8 | trace[i];
    return end >> 1 < tracer->below;
}

static bool is_taken(const struct tracer *tracer, const struct traceparent *parent,
                     const uint8_t trace[TRACE_ID_BYTES])
{
    if (parent != NULL && follows(tracer->options.sampler))
        return parent->sampled;
    switch (tracer->options.sampler) {
    case TRACE_ALWAYS_ON:
    case TRACE_PARENT_OR_ON:
        return true;
    case TRACE_RATIO:
    case TRACE_PARENT_OR_RATIO:
        return by_ratio(tracer, trace);
    default:
        return false;
    }
}

/* An id that is not all zero. */
static void draw(struct tracer *tracer, uint8_t *out, size_t len)
{
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t word;
        do
            word = random_next(&tracer->random);
        while (word == 0);
        memcpy(out + at, &word, sizeof word);
    }
}

static_assert(TRACE_ID_BYTES % sizeof(uint64_t) == 0 && TRACE_SPAN_BYTES == sizeof(uint64_t),
              "ids are of whole words");

uint32_t tracer_begin(struct tracer *tracer, const struct traceparent *parent, int64_t start_ns)
{
    struct traceparent id = {.sampled = true};
    if (parent != NULL)
        memcpy(id.trace, parent->trace, sizeof id.trace);
    else if (tracer_begins(tracer))
        draw(tracer, id.trace, sizeof id.trace);
    else
        return 0;
    if (!is_taken(tracer, parent, id.trace))
        return 0;
    const uint32_t number = tracer->free;
    if (number == 0) {
        tracer->options.sink.lost(tracer->options.sink.context); /* TRACER-2 */
        return 0;
    }
    struct slot *slot = &tracer->slots[number - 1];
    ASSERT(!slot->used);
    tracer->free = slot->next;
    tracer->open++;
    slot->used = true;
    draw(tracer, id.span, sizeof id.span);
    slot->span = (struct trace_span){.id = id, .start_ns = start_ns, .method = ""};
    if (parent != NULL)
        memcpy(slot->span.parent, parent->span, sizeof slot->span.parent);
    return number;
}

struct trace_span *tracer_span(struct tracer *tracer, uint32_t number)
{
    ASSERT(number > 0 && number <= TRACER_SPANS_MAX && tracer->slots[number - 1].used);
    return &tracer->slots[number - 1].span; /* TRACER-1 */
}

static void copy(char *out, size_t capacity, struct wire_text text)
{
    const size_t len = text.len < capacity - 1 ? text.len : capacity - 1;
    if (len > 0)
        memcpy(out, text.data, len);
    out[len] = '\0';
}

static void note(struct trace_checks *checks, const struct wire_decision *decision)
{
    const struct wire_source none = {.status = 0};
    const struct wire_source *source = decision->source != NULL ? decision->source : &none;
    checks->outcome = (uint8_t)decision->outcome;
    checks->limit = decision->limit;
    checks->used = decision->used;
    copy(checks->rule, sizeof checks->rule, source->rule);
    copy(checks->window, sizeof checks->window, source->window);
    copy(checks->node, sizeof checks->node, source->node);
}

void tracer_decided(struct tracer *tracer, uint32_t number, const struct wire_decisions *decisions,
                    uint32_t first, uint32_t count)
{
    if (number == 0 || decisions == NULL || count == 0)
        return;
    struct trace_checks *checks = &tracer_span(tracer, number)->checks;
    const size_t own = strlen(tracer->options.node);
    checks->decided = true;
    checks->refused = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct wire_decision decision;
        wire_decision_at(decisions, first + i, &decision);
        if (i == 0 || (!decision.allowed && checks->refused == 0))
            note(checks, &decision);
        const struct wire_source *source = decision.source;
        checks->refused += !decision.allowed;
        checks->degraded = checks->degraded || decision.degraded;
        checks->forwarded =
            checks->forwarded || (source != NULL && source->node.len > 0 &&
                                  (source->node.len != own ||
                                   memcmp(source->node.data, tracer->options.node, own) != 0));
    }
}

void tracer_end(struct tracer *tracer, uint32_t number, uint16_t status)
{
    if (number == 0)
        return;
    struct trace_span *span = tracer_span(tracer, number);
    struct slot *slot = &tracer->slots[number - 1];
    span->status = status;
    tracer->options.sink.ended(tracer->options.sink.context, span);
    slot->used = false;
    slot->next = tracer->free;
    tracer->free = number;
    ASSERT(tracer->open > 0); /* TRACER-1 */
    tracer->open--;
}
