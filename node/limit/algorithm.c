/* algorithm.c - the table of algorithms: a new one is its file and one line here. */
#include "node/limit/algorithm.h"

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

void algorithm_release_block(struct limit_memory *memory, struct limit_cell *cell)
{
    if (cell->wide)
        arena_give(&memory->arena, cell->word[2]);
    memset(cell, 0, sizeof *cell);
}
