/* spans.c - a few stretches of time; spans.h tells what for. Pure. */
#include "node/limit/algorithms/spans.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

uint64_t spans_missing(const struct spans *spans, int64_t from_ns, int64_t to_ns)
{
    if (from_ns >= to_ns)
        return 0;
    uint64_t missing = (uint64_t)(to_ns - from_ns);
    for (uint32_t i = 0; i < SPANS_MAX; i++) {
        const int64_t first_ns = later(spans->of[i].from_ns, from_ns);
        const int64_t last_ns = earlier(spans->of[i].to_ns, to_ns);
        if (first_ns < last_ns) /* they do not overlap, so nothing is taken off twice */
            missing -= (uint64_t)(last_ns - first_ns);
    }
    return missing;
}

void spans_add(struct spans *spans, int64_t from_ns, int64_t to_ns)
{
    struct span joined = {from_ns, to_ns};
    uint32_t place = 0;
    if (from_ns >= to_ns)
        return;
    for (uint32_t i = 0; i < SPANS_MAX; i++) {
        struct span *span = &spans->of[i];
        if (span->from_ns <= to_ns && span->to_ns >= from_ns) {
            joined.from_ns = earlier(joined.from_ns, span->from_ns);
            joined.to_ns = later(joined.to_ns, span->to_ns);
            *span = (struct span){0, 0};
        }
    }
    for (uint32_t i = 1; i < SPANS_MAX; i++)
        if (spans->of[i].to_ns < spans->of[place].to_ns)
            place = i;
    spans->of[place] = joined;
}
