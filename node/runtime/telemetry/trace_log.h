/* trace_log.h - what the log tells of a traced request that somebody may look for.
 *
 *   request refused: POST /v1/check status=429 operation=check outcome=deny rule=signup window=2/h
 *   limit=2 used=2 cost=1 checks=1 refused=1 decider=n2 forwarded=yes degraded=no duration_ms=0.812
 *
 * No key, value of an attribute, or address: a span has none. Pure. */
#ifndef NODE_RUNTIME_TELEMETRY_TRACE_LOG_H
#define NODE_RUNTIME_TELEMETRY_TRACE_LOG_H

#include <stdatomic.h>

#include "node/gateway/trace/span.h"

enum { TRACE_LOG_LEN = 768 };

/* What is remarkable about the request, in a word; NULL: nothing. */
const char *trace_log_reason(const struct trace_span *span, int64_t slow_ns);
/* The line, and a NUL. Returns `out`. */
const char *trace_log_line(const struct trace_span *span, const char *reason,
                           char out[TRACE_LOG_LEN]);

/* Lines that the log may have in a second, of all threads. */
struct trace_log_budget {
    _Atomic uint64_t spent; /* second << 16 | lines in it */
};
/* Takes one of `most` < 65536 lines of that second. False: they are used up. Any thread. */
bool trace_log_take(struct trace_log_budget *budget, int64_t now_ns, uint32_t most);

#endif
