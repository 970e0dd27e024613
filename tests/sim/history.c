/* history.c - what clients did to keys that majorities keep, and whether one counter explains it.
 *
 * Each operation is noted when it is first sent, when it is sent again, and when its answer comes.
 * One that is answered with "busy" or not at all may have happened or not. What a repeated one
 * tells of the count is not used: it is read when the first answer is recalled, not when it was
 * given.
 *
 * Nodes ask again, too: what a decider that was deposed had decided but not committed is asked for
 * anew, and may then be charged twice. Nobody is told, but it takes time; so an operation that took
 * long may have been charged more often than it was sent. That can explain a denial, never an
 * admission too many.
 *
 * K9  The history of each key of consistency quorum is linearizable, whatever went wrong.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

#define DOUBT_NS  (25 * SIM_MS) /* no answer without a change of decider takes longer */
#define RESEND_NS (50 * SIM_MS) /* nodes do not ask more often */

uint32_t history_call(struct sim *sim, uint32_t key, enum linear_kind kind, uint32_t cost)
{
    struct history *history = &sim->history;
    if (history->count == history->capacity) {
        history->capacity = history->capacity == 0 ? 1024 : 2 * history->capacity;
        history->ops = realloc(history->ops, history->capacity * sizeof *history->ops);
        history->keys = realloc(history->keys, history->capacity * sizeof *history->keys);
        ASSERT(history->ops != NULL && history->keys != NULL);
    }
    history->keys[history->count] = key;
    history->ops[history->count] = (struct linear_op){
        .call_ns = sim->now_ns, .return_ns = LINEAR_NEVER, .kind = kind, .cost = cost, .used = -1};
    sim->coverage.quorum_calls++;
    return history->count++;
}

void history_again(struct sim *sim, uint32_t at)
{
    if (at != HISTORY_NONE)
        sim->history.ops[at].extra++;
}

void history_return(struct sim *sim, uint32_t at, bool allowed, uint64_t used)
{
    struct linear_op *op = &sim->history.ops[at];
    const int64_t took_ns = sim->now_ns - op->call_ns;
    op->return_ns = sim->now_ns;
    op->allowed = allowed;
    if (took_ns > DOUBT_NS)
        op->extra += 1 + (uint32_t)(took_ns / RESEND_NS);
    op->used = op->extra > 0 ? -1 : (int64_t)used;
    sim->coverage.quorum_answers++;
}

static void judge_key(struct sim *sim, uint32_t key, struct linear_op *ops)
{
    const struct history *history = &sim->history;
    size_t count = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < history->count; i++)
        if (history->keys[i] == key)
            ops[count++] = history->ops[i];
    const enum linear_verdict verdict = linear_check(ops, count, sim->keys[key].limit.count, &at);
    sim->coverage.histories++;
    sim->coverage.histories_unknown += verdict == LINEAR_UNKNOWN;
    if (verdict != LINEAR_BROKEN)
        return;
    for (size_t i = 0; i < count; i++)
        sim_tell(sim, 1, "%s %8.3f .. %8.3f ms %s %u: %s, used %lld, %u extra", sim->keys[key].text,
                 (double)ops[i].call_ns / (double)SIM_MS,
                 ops[i].return_ns == LINEAR_NEVER ? -1 : (double)ops[i].return_ns / (double)SIM_MS,
                 ops[i].kind == LINEAR_CHECK  ? "check"
                 : ops[i].kind == LINEAR_PEEK ? "peek"
                                              : "refund",
                 ops[i].cost, ops[i].allowed ? "allowed" : "denied", (long long)ops[i].used,
                 ops[i].extra);
    sim_fail(sim,
             "%s: no counter of limit %llu explains the %zu operations on %s (vnode %u), at the "
             "one that returned at %.3f ms",
             sim_phase(sim), (unsigned long long)sim->keys[key].limit.count, count,
             sim->keys[key].text, sim->keys[key].vnode,
             (double)ops[at].return_ns / (double)SIM_MS); /* K9 */
}

void history_judge(struct sim *sim, struct key_set set)
{
    struct linear_op *ops = calloc(sim->history.count + 1, sizeof *ops);
    ASSERT(ops != NULL);
    for (uint32_t i = 0; i < KEYS_VAULTS; i++)
        judge_key(sim, set.first + set.count + i, ops);
    free(ops);
}

void history_fini(struct sim *sim)
{
    free(sim->history.ops);
    free(sim->history.keys);
}
