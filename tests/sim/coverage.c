/* coverage.c - adding up, printing and judging what runs have met; coverage.h is the list. */
#include "tests/sim/coverage.h"

#include <stdio.h>

struct counter {
    const char *name;
    bool required;
};

static const struct counter counters[] = {
#define COVERAGE_ROW(field, name, required) {name, required},
    COVERAGE_COUNTERS(COVERAGE_ROW)
#undef COVERAGE_ROW
};

enum { COUNTERS = sizeof counters / sizeof *counters };

_Static_assert(sizeof(struct coverage) == COUNTERS * sizeof(uint64_t), "one field a counter");

static uint64_t value_of(const struct coverage *coverage, uint32_t at)
{
    return ((const uint64_t *)(const void *)coverage)[at];
}

void coverage_add(struct coverage *sum, const struct coverage *other)
{
    const uint64_t longest =
        sum->settle_ms_max > other->settle_ms_max ? sum->settle_ms_max : other->settle_ms_max;
    for (uint32_t i = 0; i < COUNTERS; i++)
        ((uint64_t *)(void *)sum)[i] += value_of(other, i);
    sum->settle_ms_max = longest;
}

void coverage_print(const struct coverage *coverage, double seconds)
{
    const double rate = (double)coverage->events / (seconds > 0 ? seconds : 1);
    for (uint32_t i = 0; i < COUNTERS; i++)
        printf("  %-30s %12llu\n", counters[i].name, (unsigned long long)value_of(coverage, i));
    printf("  %-30s %12.0f\n", "events a second", rate);
}

bool coverage_complete(const struct coverage *coverage)
{
    bool complete = true;
    if (coverage->seeds < COVERAGE_SEEDS_MIN)
        return true;
    for (uint32_t i = 0; i < COUNTERS; i++) {
        if (!counters[i].required || value_of(coverage, i) > 0)
            continue;
        printf("coverage: %llu seeds without any: %s\n", (unsigned long long)coverage->seeds,
               counters[i].name);
        complete = false;
    }
    return complete;
}
