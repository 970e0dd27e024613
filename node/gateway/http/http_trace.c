/* http_trace.c - see http_trace.h. */
#include "node/gateway/http/http_trace.h"

#include <string.h>

#include "base/bytes.h"
#include "base/sat.h"
#include "node/gateway/http/http_routes.h"
#include "node/gateway/trace/tracer.h"

/* The one value of the field, if it is there once. */
static const struct wire_text *only(const struct http1_request *request, const char *name)
{
    const struct wire_text *found = NULL;
    const struct wire_text wanted = wire_text_of(name);
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (!http1_same(request->headers[i].name, wanted))
            continue;
        if (found != NULL)
            return NULL;
        found = &request->headers[i].value;
    }
    return found;
}

/* All `tracestate`, joined; what is too long, or no printable ASCII, is left out as a whole. */
static void read_state(const struct http1_request *request, char out[TRACE_STATE_LEN + 1])
{
    const struct wire_text wanted = wire_text_of("tracestate");
    size_t len = 0;
    for (uint32_t i = 0; i < request->header_count; i++) {
        const struct http1_header *header = &request->headers[i];
        if (!http1_same(header->name, wanted) || header->value.len == 0)
            continue;
        const size_t more = header->value.len + (len > 0);
        bool bad = more > TRACE_STATE_LEN - len;
        for (size_t k = 0; k < header->value.len && !bad; k++)
            bad = (header->value.data[k] < ' ' && header->value.data[k] != '\t') ||
                  header->value.data[k] > '~';
        if (bad) {
            out[0] = '\0';
            return;
        }
        if (len > 0)
            out[len++] = ',';
        memcpy(out + len, header->value.data, header->value.len);
        len += header->value.len;
    }
    out[len] = '\0';
}

static void describe(const struct http_exchange *exchange, bool parent, struct trace_span *span)
{
    const struct http1_request *request = exchange->request;
    const char *method = http1_method_name(request->method);
    span->method = method[0] != '\0' ? method : "_OTHER";
    span->route = exchange->route != NULL ? exchange->route->path : NULL;
    span->minor = request->minor;
    span->retry = http1_header(request, "Idempotency-Key") != NULL;
    if (parent)
        read_state(request, span->state);
}

uint32_t http_trace_begin(const struct http_exchange *exchange)
{
    struct tracer *tracer = exchange->facts->tracer;
    struct traceparent parent;
    if (tracer == NULL)
        return 0;
    const struct wire_text *text = only(exchange->request, "traceparent");
    const bool told = text != NULL && traceparent_read(text->data, text->len, &parent);
    const bool checks =
        exchange->route != NULL && (exchange->route->flags & HTTP_ROUTE_CHECKS) != 0;
    if (!told && !(checks && tracer_begins(tracer)))
        return 0;
    const uint32_t number = tracer_begin(tracer, told ? &parent : NULL, exchange->asked_ns);
    if (number != 0)
        describe(exchange, told, tracer_span(tracer, number));
    return number;
}

uint32_t http_trace_asked(const struct http_exchange *exchange, uint32_t first, uint32_t count)
{
    const uint32_t number = http_trace_begin(exchange);
    const struct wire_checks_builder *builder = exchange->builder;
    if (number == 0 || count == 0 || builder == NULL)
        return number;
    struct trace_checks *checks = &tracer_span(exchange->facts->tracer, number)->checks;
    checks->count = count;
    checks->operation = builder->operations[first];
    for (uint32_t i = first; i < first + count; i++)
        checks->cost = sat_addu(checks->cost, bytes_u64_at(builder->costs, i));
    return number;
}
