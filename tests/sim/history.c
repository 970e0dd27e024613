/* history.c - what clients did to keys that majorities keep, and whether one counter explains it.
 *
 * Each operation is noted when it is first sent, when it is sent again, and when its answer comes.
 * One that is answered with "busy" or not at all may have happened or not. What a repeated one
 * tells of the count is not used: it is read when the first answer is recalled, not when it was
 * given.
 *
 * Nodes ask again, too: what a leader that was deposed had decided but not committed is asked for
 * anew, and may then be charged twice; so may what was asked of a leader that died, whose answer
 * was on its way all the same. The client is not told, but nodes count what they repeat; so an
 * operation that was under way while nodes repeated something may have been charged more often than
 * it was sent. That can explain a denial, never an admission too many.
 *
 * Clocks differ, by seconds if they were stepped, and meanwhile a part of a token drains: who
 * decides by the earlier clock finds a token of two hours used that others find given back to its
 * last second. So a count may seem one more than it is, after a step, or until the clock of a new
 * leader has come to where that of the one before it was; it never seems less, and nobody is
 * admitted by it.
 *
 * SIMHISTORY-1  The history of each key of consistency quorum is linearizable, whatever went wrong;
 *               but for a node that got an old copy of its disk. It forgets what it promised and
 *               accepted, which no agreement survives: from then on histories are not judged.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

#define RESEND_NS (50 * SIM_MS) /* nothing is repeated more often */

uint32_t history_call(struct sim *sim, uint32_t key, enum linear_kind kind, uint32_t cost)
{
    struct history *history = &sim->history;
    if (history->count == history->capacity) {
        history->capacity = history->capacity == 0 ? 1024 : 2 * history->capacity;
        history->ops = realloc(history->ops, history->capacity * sizeof *history->ops);
        history->keys = realloc(history->keys, history->capacity * sizeof *history->keys);
        history->repeats = realloc(history->repeats, history->capacity * sizeof *history->repeats);
        ASSERT(history->ops != NULL && history->keys != NULL && history->repeats != NULL);
    }
    history->keys[history->count] = key;
    history->repeats[history->count] = nodes_repeated(sim);
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

/* Whether the answer may be that of a new leader whose clock is behind that of the one before. */
static bool seems_fuller(const struct sim *sim, uint32_t key, const struct linear_op *op)
{
    const int64_t opened_ns = sim->ballots_ns[sim->keys[key].vnode];
    return opened_ns > 0 && op->call_ns <= opened_ns + 2 * SIM_OFFSET_MAX_MS * SIM_MS;
}

void history_return(struct sim *sim, uint32_t at, bool allowed, uint64_t used)
{
    struct linear_op *op = &sim->history.ops[at];
    const int64_t took_ns = sim->now_ns - op->call_ns;
    const uint64_t repeated = nodes_repeated(sim) - sim->history.repeats[at];
    const uint64_t most = 1 + (uint64_t)(took_ns / RESEND_NS);
    op->return_ns = sim->now_ns;
    op->allowed = allowed;
    op->extra += (uint32_t)(repeated < most ? repeated : most);
    op->used = op->extra > 0 ? -1 : (int64_t)used;
    op->slack = sim->stepped || seems_fuller(sim, sim->history.keys[at], op);
    sim->coverage.quorum_answers++;
}

bool history_admitted(const struct sim *sim, uint32_t at)
{
    const struct linear_op *op = &sim->history.ops[at];
    return op->kind == LINEAR_CHECK && op->return_ns != LINEAR_NEVER && op->allowed;
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
             (double)ops[at].return_ns / (double)SIM_MS); /* SIMHISTORY-1 */
}

void history_judge(struct sim *sim, struct key_set set)
{
    if (sim->coverage.snapshots > 0)
        return; /* SIMHISTORY-1 */
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
    free(sim->history.repeats);
}
