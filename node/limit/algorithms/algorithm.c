/* algorithm.c - the table of algorithms: a new one is its file and one line here. */
#include "node/limit/algorithms/algorithm.h"

#include <string.h>

static const struct limit_ops *const ops_of[LIMIT_LEASED + 1] = {
    [ALGORITHM_TOKEN_BUCKET] = &gcra_ops,
    [ALGORITHM_FIXED_WINDOW] = &fixed_window_ops,
    [ALGORITHM_SLIDING_WINDOW] = &sliding_window_ops,
    [ALGORITHM_SLIDING_LOG] = &sliding_log_ops,
    [ALGORITHM_SLIDING_BUCKETS] = &sliding_buckets_ops,
    [ALGORITHM_CONCURRENCY] = &concurrency_ops,
    [ALGORITHM_LEAKY_BUCKET] = &leaky_bucket_ops,
    [LIMIT_LEASED] = &leased_ops,
};

const struct limit_ops *algorithm_ops(unsigned algorithm)
{
    return algorithm <= LIMIT_LEASED ? ops_of[algorithm] : NULL;
}

int limit_apply_exhausted(struct limit_memory *memory, struct limit_cell *cell,
                          const struct limit_plan *plan, const struct limit_request *request,
                          struct limit_decision *out)
{
    struct limit_cell exhausted = {.wide = 0};
    struct limit_decision ignored;
    const struct limit_request all = {
        .cost = plan->capacity, .now_ns = request->now_ns, .operation = OPERATION_HIT};
    int change = plan->ops->apply(memory, &exhausted, plan, &all, &ignored);
    if (change >= 0)
        change = plan->ops->apply(memory, &exhausted, plan, request, out);
    if (change < 0 || !limit_rewrites(request)) {
        plan->ops->release(memory, &exhausted);
        return change < 0 ? change : LIMIT_SAME;
    }
    plan->ops->release(memory, cell);
    *cell = exhausted;
    return LIMIT_LOWERED;
}

void algorithm_release_block(struct limit_memory *memory, struct limit_cell *cell)
{
    if (cell->wide)
        arena_give(&memory->arena, cell->word[2]);
    memset(cell, 0, sizeof *cell);
}
