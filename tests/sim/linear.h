/* linear.h - whether a history of operations on one key is linearizable.
 *
 * The model is a counter: a check of cost c is allowed iff used + c <= limit, and then used grows
 * by c; a peek tells what a check would get; a refund lowers used by c, to zero at least. A history
 * is linearizable if every answered operation can be given one moment between its call and its
 * return, so that the model, run in the order of these moments, gives the same answers.
 *
 *     client 1   |--- check: allowed, used 1 ---|
 *     client 2        |-- check: denied --|          no: nothing was used before or meanwhile
 *     client 3   |--- check: no answer ...           may happen once, at any moment, or never
 *
 * An operation that was sent again may have been charged more often than it was answered: `extra`
 * more times, at any moments after its call.
 *
 * Clocks that differ let one leader count a little less as drained than another: then it finds up
 * to `slack` more used than the model. So an answer may be that of a fuller counter, by as much.
 *
 * It follows all possible states of the counter through the calls and returns in the order of time
 * (Wing and Gong's search with memory), so its cost is bounded by how many operations overlap.
 */
#ifndef TESTS_SIM_LINEAR_H
#define TESTS_SIM_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINEAR_NEVER INT64_MAX

enum {
    LINEAR_COST_MAX = 4,
    LINEAR_OPEN_MAX = 64, /* answered operations under way at one moment */
    LINEAR_STATES_MAX = 1 << 16,
};

enum linear_kind { LINEAR_CHECK, LINEAR_PEEK, LINEAR_REFUND };

struct linear_op {
    int64_t call_ns;
    int64_t return_ns; /* LINEAR_NEVER: no answer came */
    enum linear_kind kind;
    uint32_t cost; /* 0 .. LINEAR_COST_MAX */
    bool allowed;
    int64_t used;   /* as the answer told, -1 if it did not */
    uint32_t extra; /* times that it may have been charged beside its answer */
    uint32_t slack; /* by how much the counter may have seemed fuller than it was */
};

enum linear_verdict {
    LINEAR_OK,
    LINEAR_BROKEN,
    LINEAR_UNKNOWN /* more states or overlapping operations than are followed */
};

/* Judges `count` operations on a key of `limit`, in any order. `*at` (may be NULL) gets the index
 * of the operation whose return no order explains. Takes memory from the heap while it runs. */
enum linear_verdict linear_check(const struct linear_op *ops, size_t count, uint64_t limit,
                                 size_t *at);

#endif
