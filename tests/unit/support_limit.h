/* support_limit.h - random histories of one limit, run against a naive model of its algorithm.
 *
 * The model only knows how many tokens are used at a time and how to add or take some back. What
 * an operation does with that, and which properties every decision has (retry_after is exact, a
 * peek changes nothing, a refund never overfills), is stated once here for all algorithms.
 */
#ifndef TESTS_UNIT_SUPPORT_LIMIT_H
#define TESTS_UNIT_SUPPORT_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limit.h"
#include "base/random.h"
#include "node/limit/engine/engine.h"
#include "tests/unit/support_effort.h"

/* Random operations of one algorithm, over all the limits that its test lists. */
enum { HISTORY = EFFORT(1050000) };

#define LIMIT_TEST_EPOCH_NS INT64_C(1700000000000000000)

struct limit_model {
    void (*clear)(void *state, const struct limit *limit);
    uint64_t (*used)(void *state, int64_t now_ns);
    void (*add)(void *state, int64_t now_ns, uint64_t count);
    void (*sub)(void *state, int64_t now_ns, uint64_t count);
    /* What every operation but a peek leaves for good: more than `most` that is used, because time
     * went back, or what has left the window. NULL: nothing. */
    void (*tidy)(void *state, int64_t now_ns, uint64_t most);
    /* From when on the state tells something, if it came with a right clock. What lies further
     * ahead of now than clocks differ is exhausted as of now, from the next operation but a peek
     * on. */
    int64_t (*begins)(void *state);
    void *state;
    size_t state_len;
};

/* Runs `operations` random operations with random gaps (sometimes backwards) and asserts that the
 * engine and the model agree on each of them. */
void limit_history(struct random *random, const struct limit *limit,
                   const struct limit_model *model, unsigned operations);

/* The same for HISTORY operations from `seed`, spread evenly over `count` limits. */
void limit_histories(uint64_t seed, const struct limit *limits, size_t count,
                     const struct limit_model *model);
/* Runs random checks, and hits beside them if `hits`: no interval (t - W, t] may hold more than the
 * limit's count of tokens that checks were admitted with. Without hits no token may count for
 * `longest_ns` or more, either. */
void limit_intervals(struct random *random, const struct limit *limit, bool hits,
                     int64_t longest_ns);

/* Tokens that came together: an entry of a model that is a list, oldest first. */
struct limit_entry {
    int64_t at;
    uint64_t tokens;
};
/* Takes back so many of the newest; returns how many entries are left. */
size_t limit_take_back(struct limit_entry *entries, size_t count, uint64_t tokens);

/* A table of 4 MiB and 64 vnodes with all changes going to the disk and replica 1. */
struct table *limit_table(void);
struct hash128 limit_key(uint64_t number);
/* One operation on key `number`, as if the disk had been asked. */
struct limit_decision limit_do(struct table *table, uint64_t number, const struct limit *limit,
                               enum operation operation, uint64_t cost, unsigned flags,
                               int64_t now_ns);
/* Makes key `number` of `to` what it is in `from`, by its bytes. */
void limit_carry(struct table *from, struct table *to, uint64_t number, int64_t now_ns);
/* Gives `vnode` so many slots more, each a copy of slot `id`. */
void limit_fill(struct table *table, struct hash128 id, uint32_t vnode, uint32_t slots,
                int64_t now_ns);
bool limit_decisions_equal(const struct limit_decision *a, const struct limit_decision *b);
/* Fails unless a peek told what the check after it was told, and the state as it was before that.
 */
void limit_assert_peek(const struct limit_decision *peek, const struct limit_decision *before,
                       const struct limit_decision *check);

#endif
