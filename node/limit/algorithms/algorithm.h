/* algorithm.h - the contract between the engine, the table and the algorithms.
 *
 * An algorithm is one file that fills a `struct limit_ops`, and one line in algorithm.c. It sees a
 * cell (the 13 bytes of state that a slot holds) and a plan (the limit's parameters, worked out
 * once and cached), and never a slot, a vnode or another key.
 *
 *   cell   | word 0 | word 1 | word 2 | wide |     all zero = as new
 *                              if wide: handle of a block in the arena
 *
 * Contract of ops:
 * ALGORITHM-1  An all-zero cell is a key never seen. `apply` must cope with any `now_ns` in 0 ..
 *              LIMIT_NOW_MAX.
 * ALGORITHM-2  A denied check and a peek leave the cell's meaning as it was (COUNT_DENIED,
 *              ALGORITHM-7 and ALGORITHM-8 apart).
 * ALGORITHM-3  On an error `apply` has changed nothing.
 * ALGORITHM-4  `expires` says, without the limit's parameters, from when on the cell means "new".
 * ALGORITHM-5  `merge` adds what another writer took since both had `base`: cell + (other - base),
 *              as of now. It never lowers the cell, adds nothing if other is base, and leaves no
 *              less than `other` unless this side gave tokens back meanwhile. Where it must round
 *              or guess, it takes too much.
 * ALGORITHM-6  `undo` takes out of the cell what is left of the charge that the mark names, and
 *              nothing of what others were granted: what time has given back already, and what
 *              cannot be found any more (its window is over, the rule has changed), stays as it is.
 *              When in doubt it leaves too much.
 * ALGORITHM-7  A state that was kept for another rate or window is rewritten for the plan's by the
 *              first request that meets it, also by one that is denied: from then on it drains as
 *              the plan says. A peek rewrites nothing, nor does a request by older rules
 *              (LIMIT_OLDER): that is decided by its own limit on what is there, and charged at the
 *              rate and on the grid of the state. (Of windows on the grid of the epoch a cell knows
 *              the power of two above their length alone: two lengths under one power are told
 *              apart only where their grids differ.)
 * ALGORITHM-8  A limit owes at most one further limit (owes_max): what a state says beyond, because
 *              the limit was higher, does not count. Of a bucket, whose debt would take as much
 *              longer to drain, the same requests drop it; in windows it goes with its window, and
 *              counts again if the limit is raised again before, or what counts is given back.
 *              Older rules drop nothing.
 * ALGORITHM-9  What lies further ahead of now than the limit can owe came with a wrong clock. The
 *              first request that may rewrite (ALGORITHM-7) makes of it a limit that is exhausted
 *              as of now: whoever wrote it, nothing is fresh, and nothing is denied for longer than
 *              a window. So it is reported to a peek, too. LIMIT_AHEAD_NS are allowed for clocks
 *              that differ: what a leader whose clock was that much ahead has counted goes on
 *              counting where it is, and nothing is admitted twice. Of a bucket, whose state is a
 *              debt, that is what ALGORITHM-8 drops: it owes one further limit at most. Of leases,
 *              and of places in flight, only the end is brought in.
 */
#ifndef NODE_LIMIT_ALGORITHMS_ALGORITHM_H
#define NODE_LIMIT_ALGORITHMS_ALGORITHM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/limit.h"
#include "base/sat.h"
#include "node/limit/algorithms/arena.h"
#include "node/limit/algorithms/decision.h"
#include "node/limit/algorithms/rates.h"
#include "node/limit/algorithms/spans.h"

#define LIMIT_NOW_MAX INT64_C(4000000000000000000) /* the year 2096; later times count as this */

/* By how much clocks of leaders may differ: whose is further off is not listened to. */
#define LIMIT_AHEAD_NS INT64_C(2000000000)

/* Largest count a decoder believes: twice the largest limit, for a hit may go into debt. */
#define LIMIT_USED_MAX (2 * LIMIT_COUNT_MAX)

enum {
    LIMIT_EXPORT_VERSION = 1,
    /* In the place of an algorithm: an envelope around a state of one, for tokens are held
     * elsewhere (leased.h). It has all ops but those that decide. */
    LIMIT_LEASED = 7,
};
static_assert((int)ALGORITHM_COUNT <= (int)LIMIT_LEASED,
              "the envelope's number is kept on disk: it never follows the algorithms");

struct limit_cell {
    uint32_t word[3];
    uint8_t wide;
};

/* What the states of one table share. */
struct limit_memory {
    struct arena arena;
    struct rates rates;
    uint64_t merge_steps; /* leases that were looked at to merge some: what that costs */
};

struct limit_ops;

/* A limit's parameters, prepared. */
struct limit_plan {
    struct limit asked;          /* as it was written: what is reported */
    struct limit limit;          /* up to which is allowed: more than asked in mode soft */
    const struct limit_ops *ops; /* NULL: an empty entry of the cache */
    uint64_t capacity;           /* of limit */
    uint64_t owes_max;           /* tokens that may be used in all, debt included (ALGORITHM-8) */
    /* the buckets */
    uint64_t p; /* one token takes p/q ns */
    uint32_t q;
    uint32_t rate;        /* the number of p/q; the plan holds a reference */
    uint64_t narrow_ns;   /* debts up to this long, ... */
    uint64_t narrow_cost; /* ... and costs up to this, can be reckoned in 64 bits */
    /* windows and logs */
    uint64_t quantum_ns; /* of a log's times; the length of a sub-window */
    uint8_t cut;         /* sub-windows of a window */
    uint8_t exponent;    /* 2^exponent ms >= the window */
};

struct limit_request {
    uint64_t cost;
    uint64_t lease; /* which lease or reservation the request takes, ends or renews; 0 none */
    int64_t now_ns;
    uint32_t ttl_ms; /* of a RESERVE of tokens, and a peek at one: how long; else 0 */
    uint8_t operation;
    uint8_t flags;
};

/* What is to be undone of a charge. */
struct limit_undo {
    uint64_t cost; /* tokens of it */
    int64_t now_ns;
    const struct limit_mark *mark;
    uint64_t given_ns; /* that were given back since on keys like this one, and perhaps on this one;
                        * UINT64_MAX: not known */
    struct spans *settled; /* of the key; the algorithm's own business */
};

/* What apply did to the cell. LOWERED: it now says less than copies elsewhere may. */
enum limit_change { LIMIT_SAME = 0, LIMIT_CHANGED = 1, LIMIT_LOWERED = 2 };

struct limit_ops {
    /* Works out the plan's own fields; plan->limit and ->capacity are set. */
    void (*prepare)(struct limit_memory *memory, struct limit_plan *plan);
    /* Decides, and takes what is to be taken. An enum limit_change, or TG_EFULL (ALGORITHM-3). */
    int (*apply)(struct limit_memory *memory, struct limit_cell *cell,
                 const struct limit_plan *plan, const struct limit_request *request,
                 struct limit_decision *out);
    int64_t (*expires)(const struct limit_memory *memory, const struct limit_cell *cell);
    /* Gives back what the cell refers to, and zeroes it. */
    void (*release)(struct limit_memory *memory, struct limit_cell *cell);
    size_t (*export_len)(const struct limit_memory *memory, const struct limit_cell *cell);
    void (*put)(const struct limit_memory *memory, const struct limit_cell *cell,
                struct bytes_writer *writer);
    /* Reads what `put` wrote. With memory NULL it only checks. On success sets *expires_ns, and
     * (with memory) the cell. 0, TG_ECORRUPT or TG_EFULL. */
    int (*get)(struct limit_memory *memory, struct bytes_reader *reader, struct limit_cell *cell,
               int64_t *expires_ns);
    /* Merges what `put` wrote elsewhere and `get` has found valid (ALGORITHM-5); `base` NULL: a new
     * key. LIMIT_SAME, LIMIT_CHANGED or TG_EFULL (ALGORITHM-3). */
    int (*merge)(struct limit_memory *memory, struct limit_cell *cell, struct bytes_reader *base,
                 struct bytes_reader *other, int64_t now_ns);
    /* Names what `apply` has just charged: `place` and `part`; the engine fills in the rest. */
    void (*mark)(const struct limit_memory *memory, const struct limit_cell *cell,
                 const struct limit_plan *plan, struct limit_mark *mark);
    /* Gives that back (ALGORITHM-6). LIMIT_SAME or LIMIT_LOWERED. */
    int (*undo)(struct limit_memory *memory, struct limit_cell *cell, const struct limit_plan *plan,
                const struct limit_undo *undo);
};

/* The ops of an algorithm number, or of LIMIT_LEASED; NULL for any other. */
const struct limit_ops *algorithm_ops(unsigned algorithm);

extern const struct limit_ops gcra_ops;
extern const struct limit_ops fixed_window_ops;
extern const struct limit_ops sliding_window_ops;
extern const struct limit_ops sliding_log_ops;
extern const struct limit_ops leaky_bucket_ops;
extern const struct limit_ops concurrency_ops;
extern const struct limit_ops sliding_buckets_ops;
extern const struct limit_ops leased_ops;

/* -- shared by the algorithms ------------------------------------------------------------- */

struct limit_verdict {
    uint64_t charge; /* tokens to add */
    uint64_t refund; /* tokens to give back, UINT64_MAX for all */
    uint64_t granted;
    uint64_t retry_cost; /* what must fit for a retry to succeed */
    bool allowed;
};

/* Tokens that a hit of `cost` may still add: down to one further limit of debt. */
static inline uint64_t limit_debt_room(uint64_t used, uint64_t capacity, uint64_t cost)
{
    const uint64_t room = sat_subu(2 * capacity, used);
    return cost < room ? cost : room;
}

/* The semantics of the operations, the same for every algorithm: what a request does to a limit
 * of `capacity` of which `used` are used. */
static inline struct limit_verdict limit_judge(uint64_t used, uint64_t capacity,
                                               const struct limit_request *request)
{
    struct limit_verdict verdict = {.allowed = true, .retry_cost = request->cost};
    const uint64_t cost = request->cost;
    if (__builtin_expect(request->operation <= OPERATION_PEEK, 1)) {
        const uint64_t left = sat_subu(capacity, used);
        if (cost <= left) {
            verdict.charge = verdict.granted = cost;
        } else if ((request->flags & LIMIT_AT_MOST) != 0) {
            verdict.charge = verdict.granted = left;
            verdict.allowed = left > 0;
            verdict.retry_cost = 1;
        } else {
            verdict.allowed = false;
        }
        if (!verdict.allowed && (request->flags & LIMIT_COUNT_DENIED) != 0)
            verdict.charge = limit_debt_room(used, capacity, cost);
        if (__builtin_expect(request->operation == OPERATION_PEEK, 0))
            verdict.charge = 0; /* it tells of the state as it is; `granted` what a check would */
    } else if (request->operation == OPERATION_HIT) {
        verdict.charge = verdict.granted = limit_debt_room(used, capacity, cost);
    } else {
        verdict.refund = request->operation == OPERATION_REFUND  ? cost
                         : request->operation == OPERATION_RESET ? UINT64_MAX
                                                                 : 0;
    }
    return verdict;
}

/* Whether the request rewrites a state that was kept for another limit (ALGORITHM-7,
 * ALGORITHM-8). */
static inline bool limit_rewrites(const struct limit_request *request)
{
    return request->operation != OPERATION_PEEK && (request->flags & LIMIT_OLDER) == 0;
}

/* What counts of `used` tokens (ALGORITHM-8). */
static inline uint64_t limit_owed(uint64_t used, const struct limit_plan *plan,
                                  const struct limit_request *request)
{
    return used > plan->owes_max && (request->flags & LIMIT_OLDER) == 0 ? plan->owes_max : used;
}

/* Fills all of a decision but the times. */
static inline void limit_report(struct limit_decision *out, const struct limit_verdict *verdict,
                                uint64_t used, uint64_t capacity)
{
    out->status = LIMIT_DECIDED;
    out->allowed = verdict->allowed;
    out->limit = capacity;
    out->used = used;
    out->remaining = sat_subu(capacity, used);
    out->granted = verdict->granted;
    out->retry_after_ns = 0;
    out->delay_ns = 0;
    out->notes = 0;
}

static inline uint64_t cell_u64(const struct limit_cell *cell)
{
    return (uint64_t)cell->word[1] << 32 | cell->word[0];
}

static inline void cell_set_u64(struct limit_cell *cell, uint64_t value)
{
    cell->word[0] = (uint32_t)value;
    cell->word[1] = (uint32_t)(value >> 32);
}

/* Whether a time that the plan's state is to reach no further than lies ahead of that
 * (ALGORITHM-9). */
static inline bool limit_ahead(const struct limit_plan *plan, const struct limit_request *request,
                               int64_t time_ns)
{
    return __builtin_expect(time_ns > request->now_ns + LIMIT_AHEAD_NS, 0) &&
           (request->flags & LIMIT_OLDER) == 0 && plan->owes_max != UINT64_MAX;
}

/* `apply` to a cell that lies ahead (ALGORITHM-9): to one that is exhausted as of now, in its
 * place. */
int limit_apply_exhausted(struct limit_memory *memory, struct limit_cell *cell,
                          const struct limit_plan *plan, const struct limit_request *request,
                          struct limit_decision *out);

/* release of algorithms whose wide cells own one block. */
void algorithm_release_block(struct limit_memory *memory, struct limit_cell *cell);

#endif
