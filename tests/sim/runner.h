/* runner.h - runs seeds in processes of their own, so that a failed assertion is a failed seed.
 *
 *   program ---+--- worker: takes the next seed, runs it, takes the next ...
 *              +--- worker        (a worker that ends is counted and replaced)
 */
#ifndef TESTS_SIM_RUNNER_H
#define TESTS_SIM_RUNNER_H

#include "base/hash.h"
#include "tests/sim/coverage.h"
#include "tests/sim/options.h"
#include "tests/sim/sim.h"

enum { RUNNER_JOBS_MAX = 64, RUNNER_FAILURES_MAX = 64 };

struct runner_plan {
    uint64_t first;
    uint64_t count;
    uint32_t jobs;
    uint32_t twice;     /* so many first seeds are run twice and must give the same trace */
    bool stop_at_first; /* no further seed is begun after a failure */
    bool progress;      /* one line a minute */
    const struct overrides *given;
};

struct runner_failure {
    uint64_t seed;
    uint64_t events;
    uint32_t phases;
    char why[SIM_FAILURE_LEN];
};

struct runner_sum {
    uint64_t passed;
    uint64_t failed;
    uint64_t traces;        /* the sum of runner_trace over all seeds, in whatever order they ran */
    uint32_t failure_count; /* of those listed */
    struct runner_failure failures[RUNNER_FAILURES_MAX];
    struct coverage coverage;
};

/* What one seed adds to the digest of many: two builds with equal digests ran alike, event by
 * event, so that a change that is to move code and nothing else can show that it did. */
static inline uint64_t runner_trace(uint64_t seed, uint64_t hash)
{
    return hash_mix64(hash ^ hash_mix64(seed));
}

/* Runs all seeds of the plan. */
void runner_run(const struct runner_plan *plan, struct runner_sum *sum);
/* Runs one seed with these options in a process of its own. */
void runner_one(uint64_t seed, const struct overrides *given, struct sim_result *result);

#endif
