/* span.h - what is told of one request that is traced: a span, as OpenTelemetry calls it.
 *
 * It holds no key, no value of an attribute and no address: what a check is about is personal, and
 * goes neither to the log nor to a collector. A path is told as the pattern of its route.
 *
 * Plain memory: it may be copied, and outlives the connection.
 */
#ifndef NODE_GATEWAY_TRACE_SPAN_H
#define NODE_GATEWAY_TRACE_SPAN_H

#include "base/vocabulary.h"
#include "client/protocol/wire_base.h"
#include "node/gateway/trace/traceparent.h"

enum { TRACE_STATE_LEN = 512 }; /* bytes of `tracestate` that are kept: a longer one is not */

/* What became of the checks of a request. */
struct trace_checks {
    uint32_t count;    /* 0: it asked for none */
    uint32_t refused;  /* of these: not allowed */
    bool decided;      /* the rest is known */
    bool degraded;     /* one of them: answered without the certainty that its rule asks for */
    bool forwarded;    /* one of them: another node decided */
    uint8_t operation; /* of the first one, enum operation */
    uint8_t outcome;   /* of the first one that was refused, or else of the first one: */
    uint64_t cost;     /* of all of them */
    uint64_t limit;
    uint64_t used;
    char rule[WIRE_RULE_MAX + 1]; /* "": none, or an inline limit */
    char window[WIRE_WINDOW_MAX + 1];
    char node[WIRE_NAME_MAX + 1]; /* that decided; "": not known */
};

struct trace_span {
    struct traceparent id;            /* `span` is this one's own */
    uint8_t parent[TRACE_SPAN_BYTES]; /* all zero: it is a root */
    int64_t start_ns;                 /* Unix */
    int64_t end_ns;
    const char *method; /* a constant, "_OTHER" if it is none that is known */
    const char *route;  /* the pattern of its path, a constant; NULL: it led nowhere */
    uint16_t status;    /* of the response; 0: whoever asked was gone */
    uint8_t minor;      /* HTTP/1.minor */
    bool retry;         /* it had an Idempotency-Key: it may have been sent before */
    struct trace_checks checks;
    char state[TRACE_STATE_LEN + 1]; /* tracestate */
};

#endif
