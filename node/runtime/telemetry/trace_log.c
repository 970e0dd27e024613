/* trace_log.c - see trace_log.h. */
#include "node/runtime/telemetry/trace_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define NS_PER_S INT64_C(1000000000)

enum { STATUS_FAILED = 500, NS_PER_US = 1000, US_PER_MS = 1000, SPENT_BITS = 16 };

static bool undecided(const struct trace_span *span)
{
    const struct trace_checks *checks = &span->checks;
    return span->status >= STATUS_FAILED || (checks->decided && (checks->outcome == OUTCOME_BUSY ||
                                                                 checks->outcome == OUTCOME_ERROR));
}

const char *trace_log_reason(const struct trace_span *span, int64_t slow_ns)
{
    const struct trace_checks *checks = &span->checks;
    if (undecided(span))
        return "undecided";
    if (checks->refused > 0)
        return "refused";
    if (checks->degraded)
        return "degraded";
    return span->end_ns - span->start_ns >= slow_ns ? "slow" : NULL;
}

struct line {
    char *out;
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(line->out + line->len, TRACE_LOG_LEN - line->len, format, arguments);
    va_end(arguments);
    line->len += len > 0 ? (size_t)len : 0;
    line->len = line->len < TRACE_LOG_LEN - 1 ? line->len : TRACE_LOG_LEN - 1;
}

static const char *yes_no(bool value)
{
    return value ? "yes" : "no";
}

static void add_checks(struct line *line, const struct trace_checks *checks)
{
    add(line, " operation=%s", operation_name(checks->operation));
    if (checks->decided)
        add(line, " outcome=%s", outcome_name(checks->outcome));
    if (checks->rule[0] != '\0')
        add(line, " rule=%s", checks->rule);
    if (checks->window[0] != '\0')
        add(line, " window=%s limit=%" PRIu64 " used=%" PRIu64, checks->window, checks->limit,
            checks->used);
    add(line, " cost=%" PRIu64 " checks=%" PRIu32 " refused=%" PRIu32, checks->cost, checks->count,
        checks->refused);
    if (checks->node[0] != '\0')
        add(line, " decider=%s", checks->node);
    add(line, " forwarded=%s degraded=%s", yes_no(checks->forwarded), yes_no(checks->degraded));
}

const char *trace_log_line(const struct trace_span *span, const char *reason,
                           char out[TRACE_LOG_LEN])
{
    struct line line = {.out = out};
    const int64_t ns = span->end_ns > span->start_ns ? span->end_ns - span->start_ns : 0;
    const int64_t us = ns / NS_PER_US;
    add(&line, "request %s: %s %s status=%u", reason, span->method,
        span->route != NULL ? span->route : "(no route)", (unsigned)span->status);
    if (span->checks.count > 0)
        add_checks(&line, &span->checks);
    add(&line, " duration_ms=%" PRId64 ".%03" PRId64, us / US_PER_MS, us % US_PER_MS);
    return out;
}

bool trace_log_take(struct trace_log_budget *budget, int64_t now_ns, uint32_t most)
{
    const uint64_t second = (uint64_t)(now_ns / NS_PER_S);
    uint64_t spent = atomic_load_explicit(&budget->spent, memory_order_relaxed);
    uint64_t next;
    do {
        const uint64_t lines =
            spent >> SPENT_BITS == second ? spent & ((UINT64_C(1) << SPENT_BITS) - 1) : 0;
        if (lines >= most)
            return false;
        next = second << SPENT_BITS | (lines + 1);
    } while (!atomic_compare_exchange_weak_explicit(&budget->spent, &spent, next,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}
