/* linear.c - following all states that a counter may be in; linear.h tells what for.
 *
 * A state is the counter, which of the open answered operations have had their moment, and how many
 * operations without an answer have had theirs, by kind and cost: those of one kind and cost are
 * alike, so only their number counts.
 *
 *   call     the operation gets a place among the open ones, or adds to those without an answer
 *   return   all states that can be reached by moments of open operations are made; those in which
 *            this one has had its moment stay, and its place is free again
 *
 * SIMLINEAR-1  The set of states holds each once. It is empty iff no order explains what was
 *              answered.
 */
#include "tests/sim/linear.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

enum { CLASSES = 2 * LINEAR_COST_MAX, TABLE_LEN = 2 * LINEAR_STATES_MAX, COUNT_MAX = UINT8_MAX };

struct state {
    uint64_t done; /* a bit for each open place: it has had its moment */
    uint64_t used;
    uint8_t silent[CLASSES]; /* operations without an answer that have had theirs */
};

struct set {
    struct state *states; /* [LINEAR_STATES_MAX] */
    uint32_t *index;      /* [TABLE_LEN]: 1 + place in states, 0 = free */
    uint32_t count;
    bool full;
};

struct moment {
    int64_t at_ns;
    bool is_return;
    size_t op;
};

struct search {
    const struct linear_op *ops;
    uint64_t limit;
    size_t open[LINEAR_OPEN_MAX]; /* the operation at each place */
    uint64_t places;              /* a bit for each place in use */
    uint32_t silent[CLASSES];     /* operations without an answer that were called */
    struct set now;
    struct set next;
};

/* ---- sets ------------------------------------------------------------------------------------ */

static void set_init(struct set *set)
{
    set->states = calloc(LINEAR_STATES_MAX, sizeof *set->states);
    set->index = calloc(TABLE_LEN, sizeof *set->index);
    ASSERT(set->states != NULL && set->index != NULL);
    set->count = 0;
    set->full = false;
}

static void set_fini(struct set *set)
{
    free(set->states);
    free(set->index);
}

static uint32_t home_of(const struct state *state)
{
    uint64_t silent;
    static_assert(sizeof silent == sizeof state->silent, "one word");
    memcpy(&silent, state->silent, sizeof silent);
    return (uint32_t)(hash_mix64(hash_mix64(state->done ^ hash_mix64(silent)) ^ state->used) %
                      TABLE_LEN);
}

static bool same(const struct state *a, const struct state *b)
{
    return a->done == b->done && a->used == b->used &&
           memcmp(a->silent, b->silent, sizeof a->silent) == 0;
}

static void set_add(struct set *set, const struct state *state)
{
    uint32_t at = home_of(state);
    for (; set->index[at] != 0; at = (at + 1) % TABLE_LEN)
        if (same(&set->states[set->index[at] - 1], state))
            return;
    if (set->count == LINEAR_STATES_MAX) {
        set->full = true;
        return;
    }
    set->states[set->count++] = *state;
    set->index[at] = set->count;
}

static void set_clear(struct set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t at = home_of(&set->states[i]);
        while (set->index[at] != i + 1)
            at = (at + 1) % TABLE_LEN;
        set->index[at] = UINT32_MAX; /* free at the end, so that the others are still found */
    }
    for (uint32_t i = 0; i < set->count; i++)
        for (uint32_t at = home_of(&set->states[i]); set->index[at] == UINT32_MAX;
             at = (at + 1) % TABLE_LEN)
            set->index[at] = 0;
    set->count = 0;
    set->full = false;
}

/* ---- the model ------------------------------------------------------------------------------- */

static uint64_t lowered(uint64_t used, uint64_t cost)
{
    return used > cost ? used - cost : 0;
}

/* The counter after an answered operation that was allowed or not. */
static uint64_t after_answer(const struct linear_op *op, uint64_t used)
{
    if (op->kind == LINEAR_REFUND)
        return lowered(used, op->cost);
    return op->allowed ? used + op->cost : used;
}

/* Whether a counter at `used` answers so. */
static bool answers(const struct linear_op *op, uint64_t limit, uint64_t used)
{
    const bool fits = op->cost == 0 || used + op->cost <= limit;
    if (op->kind != LINEAR_REFUND && fits != op->allowed)
        return false;
    return op->used < 0 || (uint64_t)op->used == after_answer(op, used);
}

/* The counter after an answered operation; false if the model would have answered otherwise. */
static bool answer(const struct linear_op *op, uint64_t limit, uint64_t *used)
{
    bool possible = false;
    for (uint64_t more = 0; more <= op->slack && !possible; more++)
        possible = answers(op, limit, *used + more);
    if (possible && op->kind != LINEAR_PEEK)
        *used = after_answer(op, *used);
    return possible;
}

/* The class of an operation whose answer nobody got, or -1 if it changes nothing. */
static int class_of(const struct linear_op *op)
{
    if (op->kind == LINEAR_PEEK || op->cost == 0)
        return -1;
    return (int)(op->cost - 1) + (op->kind == LINEAR_REFUND ? LINEAR_COST_MAX : 0);
}

/* One more operation of the class has its moment; false if that would change nothing. */
static bool silent_step(struct state *state, uint32_t class, uint64_t limit)
{
    const uint64_t cost = class % LINEAR_COST_MAX + 1;
    const uint64_t before = state->used;
    if (class >= LINEAR_COST_MAX)
        state->used = lowered(state->used, cost);
    else if (state->used + cost <= limit)
        state->used += cost;
    state->silent[class]++;
    return state->used != before;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Adds all states that one more moment leads to from states[at]. */
static void branch(struct search *it, uint32_t at)
{
    for (uint32_t place = 0; place < LINEAR_OPEN_MAX; place++) {
        struct state next = it->now.states[at];
        if ((it->places >> place & 1) == 0 || (next.done >> place & 1) != 0)
            continue;
        if (!answer(&it->ops[it->open[place]], it->limit, &next.used))
            continue;
        next.done |= (uint64_t)1 << place;
        set_add(&it->now, &next);
    }
    for (uint32_t class = 0; class < CLASSES; class ++) {
        struct state next = it->now.states[at];
        if (next.silent[class] < it->silent[class] && next.silent[class] < COUNT_MAX &&
            silent_step(&next, class, it->limit))
            set_add(&it->now, &next);
    }
}

/* Keeps the states in which the operation at `place` has had its moment. */
static void keep_done(struct search *it, uint32_t place)
{
    const uint64_t bit = (uint64_t)1 << place;
    for (uint32_t i = 0; i < it->now.count && !it->now.full; i++)
        branch(it, i);
    for (uint32_t i = 0; i < it->now.count; i++) {
        struct state state = it->now.states[i];
        if ((state.done & bit) == 0)
            continue;
        state.done &= ~bit;
        set_add(&it->next, &state);
    }
    it->next.full = it->next.full || it->now.full;
    set_clear(&it->now);
    const struct set spare = it->now;
    it->now = it->next;
    it->next = spare;
    it->places &= ~bit;
}

/* An operation is called. False if too many are open. */
static bool called(struct search *it, size_t at)
{
    const struct linear_op *op = &it->ops[at];
    const int class = class_of(op);
    const bool answered = op->return_ns != LINEAR_NEVER;
    if (class >= 0)
        it->silent[class] += op->extra + !answered;
    if (!answered)
        return true;
    for (uint32_t place = 0; place < LINEAR_OPEN_MAX; place++) {
        if ((it->places >> place & 1) != 0)
            continue;
        it->places |= (uint64_t)1 << place;
        it->open[place] = at;
        return true;
    }
    return false;
}

static void returned(struct search *it, size_t at)
{
    for (uint32_t place = 0; place < LINEAR_OPEN_MAX; place++) {
        if ((it->places >> place & 1) == 0 || it->open[place] != at)
            continue;
        keep_done(it, place);
        return;
    }
}

/* Calls before returns of the same moment: then they overlap. */
static int compare(const void *one, const void *other)
{
    const struct moment *a = one;
    const struct moment *b = other;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    if (a->is_return != b->is_return)
        return a->is_return ? 1 : -1;
    return a->op < b->op ? -1 : a->op > b->op;
}

static size_t moments_of(const struct linear_op *ops, size_t count, struct moment *moments)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        moments[used++] = (struct moment){ops[i].call_ns, false, i};
        if (ops[i].return_ns != LINEAR_NEVER)
            moments[used++] = (struct moment){ops[i].return_ns, true, i};
    }
    qsort(moments, used, sizeof *moments, compare);
    return used;
}

static enum linear_verdict follow(struct search *it, const struct moment *moments, size_t count,
                                  size_t *at)
{
    for (size_t i = 0; i < count; i++) {
        if (!moments[i].is_return) {
            if (!called(it, moments[i].op))
                return LINEAR_UNKNOWN;
            continue;
        }
        returned(it, moments[i].op);
        if (it->now.full)
            return LINEAR_UNKNOWN;
        if (it->now.count > 0)
            continue;
        if (at != NULL)
            *at = moments[i].op;
        return LINEAR_BROKEN;
    }
    return LINEAR_OK;
}

enum linear_verdict linear_check(const struct linear_op *ops, size_t count, uint64_t limit,
                                 size_t *at)
{
    struct search it = {.ops = ops, .limit = limit};
    const struct state begin = {.used = 0};
    struct moment *moments = calloc(2 * count + 1, sizeof *moments);
    ASSERT(moments != NULL);
    set_init(&it.now);
    set_init(&it.next);
    set_add(&it.now, &begin);
    const size_t used = moments_of(ops, count, moments);
    const enum linear_verdict verdict = follow(&it, moments, used, at);
    set_fini(&it.now);
    set_fini(&it.next);
    free(moments);
    return verdict;
}
