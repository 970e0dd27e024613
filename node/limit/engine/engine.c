/* engine.c - the loop over a batch; see engine.h.
 *
 * The cost of a decision is two cache misses (head, slot) and a division or two, so a batch first
 * asks for all its heads, then for all its slots, and only then decides:
 *
 *   for 64 rows:  prefetch heads[home]  |  match, prefetch slot  |  decide in order
 *
 * A row on its own is applied directly. A group is peeked at first, row by row, with nothing taken,
 * and applied in a second pass only if all rows allow:
 *
 *   peek rows --all allow--> apply rows --no room--> undo what was taken, NO_ROOM for all
 *      |  \--absent--------> ABSENT for all
 *      \--some deny--------> report rows as they stand; COUNT_DENIED rows are charged
 *
 * A charge whose row asks for a mark can be undone exactly, later and whatever came between: the
 * algorithm finds it by the mark. A bucket cannot tell what its debt would be without the charge
 * unless it knows how much others gave back meanwhile; so the table keeps sums of that, which many
 * keys share: the more a sum has grown, the less an undo gives back. A reset leaves nothing of any
 * charge, so the resets of a vnode's keys are counted: behind one an undo gives back nothing, for
 * others may have been granted since what is charged now.
 *
 * A slot of which tokens are held (leased.c) is of another kind than its limit's algorithm, so that
 * the look at that, which each row takes, tells it from the others. Such rows, and those about
 * leases, go a way of their own.
 *
 * ENGINE-1  Nothing of a group stays charged unless all its rows are (COUNT_DENIED apart).
 * ENGINE-2  A slot is created only by a change: peeks and denials of unknown keys leave no trace.
 */
#include "node/limit/engine/engine.h"

#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/limit/table/table_slot.h"

enum {
    ENGINE_BLOCK = TABLE_PREFETCH_MAX,
    ENGINE_ROOM_ROUNDS = 8, /* how often a row may ask a full arena to drop others */
};

/* One row, gathered from the columns. */
struct row {
    struct hash128 id;
    uint32_t vnode;
    uint32_t class; /* NEW_KEYS_FREE, or whose budget of new keys it is of */
    const struct limit *limit;
    struct limit_mark *mark;
    struct limit_request request;
};

/* -- plans -------------------------------------------------------------------------------- */

_Static_assert(offsetof(struct limit, buckets) + sizeof(uint8_t) ==
                   offsetof(struct limit, before_s) + sizeof(uint64_t),
               "what shapes a window is one word");

/* before_s, exceed_percent, align and buckets at once. */
static inline uint64_t limit_shape(const struct limit *limit)
{
    uint64_t shape;
    memcpy(&shape, (const char *)limit + offsetof(struct limit, before_s), sizeof shape);
    return shape;
}

/* An empty entry has count 0, which no limit has. */
static inline bool plan_is_for(const struct limit_plan *plan, const struct limit *limit,
                               uint64_t shape)
{
    const struct limit *asked = &plan->asked;
    return ((asked->count ^ limit->count) | (asked->window_ns ^ limit->window_ns) |
            (asked->burst ^ limit->burst) | (uint64_t)(asked->start_ns ^ limit->start_ns) |
            (limit_shape(asked) ^ shape) | (uint64_t)(asked->algorithm ^ limit->algorithm)) == 0;
}

/* Makes the entry that of the limit. */
static __attribute__((noinline)) const struct limit_plan *
plan_make(struct table *table, struct limit_plan *plan, const struct limit *limit)
{
    ASSERT(limit->count > 0 && limit->window_ns > 0);
    if (plan->ops != NULL)
        rates_release(&table->memory.rates, plan->rate);
    *plan = (struct limit_plan){
        .asked = *limit,
        .limit = limit_effective(limit),
        .ops = algorithm_ops(limit->algorithm),
    };
    ASSERT(plan->ops != NULL);
    plan->capacity = limit_capacity(&plan->limit);
    plan->ops->prepare(&table->memory, plan);
    plan->owes_max = 2 * plan->capacity;
    return plan;
}

/* The limit's plan, from a cache by content: inline limits come as ever new pointers. */
static inline const struct limit_plan *plan_of(struct table *table, const struct limit *limit)
{
    const uint64_t shape = limit_shape(limit);
    const uint64_t mixed = (limit->count + (limit->burst << 20) + limit->algorithm + shape) *
                               UINT64_C(0x9e3779b97f4a7c15) ^
                           limit->window_ns * UINT64_C(0xff51afd7ed558ccd);
    struct limit_plan *plan = &table->plans[mixed >> (64 - TABLE_PLANS_LOG2)];
    if (__builtin_expect(plan_is_for(plan, limit, shape), 1))
        return plan;
    return plan_make(table, plan, limit);
}

/* -- one row ------------------------------------------------------------------------------ */

static void decision_blank(struct limit_decision *out, enum limit_status status)
{
    memset(out, 0, sizeof *out);
    out->status = (uint8_t)status;
}

/* The arena was full: drops other states in it and tries again, a bounded number of times. */
static __attribute__((noinline)) int
plan_apply_again(struct table *table, const struct limit_plan *plan, struct limit_cell *cell,
                 const struct limit_request *request, uint32_t number, struct limit_decision *out)
{
    int change = TG_EFULL;
    for (unsigned round = 0; change == TG_EFULL && round < ENGINE_ROOM_ROUNDS; round++) {
        if (!table_make_arena_room(table, number, request->now_ns))
            break;
        change = plan->ops->apply(&table->memory, cell, plan, request, out);
    }
    return change;
}

static inline int plan_apply(struct table *table, const struct limit_plan *plan,
                             struct limit_cell *cell, const struct limit_request *request,
                             uint32_t number, struct limit_decision *out)
{
    const int change = plan->ops->apply(&table->memory, cell, plan, request, out);
    if (__builtin_expect(change == TG_EFULL, 0))
        return plan_apply_again(table, plan, cell, request, number, out);
    return change;
}

/* A slot for a key that has none and is to be in that state, TABLE_NONE where that is too much. */
static uint32_t row_insert(struct table *table, const struct row *row, unsigned kind,
                           const struct limit_cell *cell)
{
    const int64_t now_ns = row->request.now_ns;
    if (!table_admit(table, kind, cell, row->class, now_ns))
        return TABLE_NONE;
    return table_insert(table, row->id, row->vnode, kind, TABLE_NONE, now_ns);
}

/* A change to a key without a slot: gives it one, or fails with nothing kept. */
static bool row_create(struct table *table, const struct row *row, const struct limit_plan *plan,
                       struct limit_cell *cell)
{
    const uint32_t number = row_insert(table, row, row->limit->algorithm, cell);
    if (number == TABLE_NONE) {
        plan->ops->release(&table->memory, cell);
        return false;
    }
    ASSERT((table->slots[number].kind & KIND_WIDE) == 0); /* it is new */
    slot_set_cell(&table->slots[number], cell);
    table_changed(table, number, false);
    return true;
}

static void row_refuse(struct table *table, struct limit_decision *out)
{
    table->refused++;
    decision_blank(out, LIMIT_NO_ROOM);
}

/* -- marks -------------------------------------------------------------------------------- */

static uint64_t *given_of(struct table *table, struct hash128 id)
{
    return &table->given_ns[id.lo % TABLE_GIVEN];
}

/* What undos have settled of the key; nothing, if another one had the place. */
static struct spans *settled_of(struct table *table, struct hash128 id)
{
    struct settled *settled = &table->settled[id.lo % TABLE_SETTLED];
    if (!hash128_equal(settled->id, id))
        *settled = (struct settled){.id = id};
    return &settled->spans;
}

/* The key's debt was lowered from what `before` says to `cell`. By how much, only a state that is
 * one time needs to know, and that is never wide. */
static void note_given_from(struct table *table, const struct row *row,
                            const struct limit_cell *before, const struct limit_cell *cell)
{
    if (row->request.operation == OPERATION_RESET)
        table->vnodes[row->vnode].resets++;
    if (before->wide || cell->wide)
        return;
    const struct limit_ops *ops = algorithm_ops(row->limit->algorithm);
    const int64_t from_ns = ops->expires(&table->memory, before);
    const int64_t now_ns = row->request.now_ns;
    int64_t to_ns = ops->expires(&table->memory, cell);
    to_ns = to_ns > now_ns ? to_ns : now_ns;
    if (from_ns > to_ns)
        *given_of(table, row->id) += (uint64_t)(from_ns - to_ns) + 1;
}

/* The same for a slot that still says what was before. */
static __attribute__((noinline)) void note_given(struct table *table, const struct row *row,
                                                 const struct slot *slot,
                                                 const struct limit_cell *cell)
{
    const struct limit_cell before = slot_cell(slot);
    note_given_from(table, row, &before, cell);
}

static __attribute__((noinline)) void row_mark(struct table *table, const struct row *row,
                                               const struct limit_plan *plan,
                                               const struct limit_cell *cell)
{
    *row->mark = (struct limit_mark){.given = *given_of(table, row->id),
                                     .at_ns = row->request.now_ns,
                                     .resets = table->vnodes[row->vnode].resets};
    if (plan->ops->mark != NULL)
        plan->ops->mark(&table->memory, cell, plan, row->mark);
}

uint32_t engine_resets(const struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    return table->vnodes[vnode].resets;
}

/* As plan_apply_again, for a slot that holds leases, or is to. */
static int leased_apply_again(struct table *table, const struct limit_plan *plan,
                              struct limit_cell *cell, const struct limit_request *request,
                              uint32_t number, struct limit_decision *out)
{
    int change = leased_apply(&table->memory, cell, plan, request, out);
    for (unsigned round = 0; change == TG_EFULL && round < ENGINE_ROOM_ROUNDS; round++) {
        if (!table_make_arena_room(table, number, request->now_ns))
            break;
        change = leased_apply(&table->memory, cell, plan, request, out);
    }
    return change;
}

/* Gives back what the row's mark names, and tells how the limit stands then. */
static __attribute__((noinline)) int plan_undo(struct table *table, const struct limit_plan *plan,
                                               struct limit_cell *cell, const struct row *row,
                                               struct limit_decision *out)
{
    const bool here = row->mark->given != LIMIT_GIVEN_UNKNOWN;
    if (row->mark->given == LIMIT_GIVEN_NOTHING ||
        row->mark->resets != table->vnodes[row->vnode].resets) {
        const struct limit_request peek = {.now_ns = row->request.now_ns,
                                           .operation = OPERATION_PEEK};
        return plan->ops->apply(&table->memory, cell, plan, &peek, out);
    }
    if (plan->ops->undo == NULL)
        return plan->ops->apply(&table->memory, cell, plan, &row->request, out);
    const struct limit_undo undo = {
        .cost = row->request.cost,
        .now_ns = row->request.now_ns,
        .mark = row->mark,
        .given_ns = here ? *given_of(table, row->id) - row->mark->given : UINT64_MAX,
        .settled = settled_of(table, row->id),
    };
    const struct limit_request look = {.now_ns = undo.now_ns, .operation = OPERATION_PEEK};
    const int change = plan->ops->undo(&table->memory, cell, plan, &undo);
    const int looked = plan->ops->apply(&table->memory, cell, plan, &look, out);
    ASSERT(change >= 0 && looked == LIMIT_SAME);
    return change;
}

/* -- rows of keys of which tokens are held ------------------------------------------------ */

/* Decides the row on the envelope in `cell`. Less than 0: nothing was decided. */
static int row_decide_leased(struct table *table, const struct row *row,
                             const struct limit_plan *plan, struct limit_cell *cell,
                             uint32_t number, struct limit_decision *out)
{
    const int64_t now_ns = row->request.now_ns;
    struct limit_cell *inner = &leased_of(&table->memory, cell)->inner;
    struct limit_cell before = *inner;
    int settled = leased_settle(&table->memory, cell, plan, &row->request);
    if (settled == TG_EFULL && table_make_arena_room(table, number, now_ns))
        settled = leased_settle(&table->memory, cell, plan, &row->request);
    if (settled < 0)
        return settled;
    if (row->request.operation == OPERATION_PEEK)
        settled = LIMIT_SAME; /* there was no room for a copy: it says the same in other words */
    inner = &leased_of(&table->memory, cell)->inner;
    if (settled == LIMIT_LOWERED)
        note_given_from(table, row, &before, inner);
    before = *inner;
    int change;
    if ((row->request.flags & (LIMIT_UNDO | LIMIT_HOLD)) == LIMIT_UNDO) {
        change = plan_undo(table, plan, inner, row, out);
        if (change >= 0)
            leased_report(leased_of(&table->memory, cell), plan, now_ns, out);
    } else {
        change = leased_apply_again(table, plan, cell, &row->request, number, out);
    }
    if (change < 0)
        return change;
    inner = &leased_of(&table->memory, cell)->inner; /* the envelope may have grown */
    if (change == LIMIT_LOWERED)
        note_given_from(table, row, &before, inner);
    if (change > 0 && (row->request.flags & LIMIT_MARK) != 0)
        row_mark(table, row, plan, inner);
    return change > settled ? change : settled;
}

/* What is said of a lease where there is none, or of a limit that gives none. */
static void row_decide_unleased(struct table *table, const struct row *row,
                                const struct limit_plan *plan, struct limit_cell *cell,
                                struct limit_decision *out)
{
    const struct limit_request look = {.now_ns = row->request.now_ns, .operation = OPERATION_PEEK};
    const int change = plan->ops->apply(&table->memory, cell, plan, &look, out);
    ASSERT(change == LIMIT_SAME);
    out->allowed = row->request.operation == OPERATION_RELEASE;
    out->retry_after_ns = out->allowed ? 0 : LIMIT_RETRY_NEVER;
}

/* Keeps what a decision has made of the row's cell, which is an envelope. */
static void row_keep_leased(struct table *table, const struct row *row, struct limit_cell *cell,
                            uint32_t number, int change, struct limit_decision *out)
{
    unsigned kind = LIMIT_LEASED;
    if (leased_of(&table->memory, cell)->count == 0)
        kind = leased_unwrap(&table->memory, cell);
    if (number == TABLE_NONE && change != LIMIT_SAME)
        number = row_insert(table, row, kind, cell);
    if (number == TABLE_NONE) {
        algorithm_ops(kind)->release(&table->memory, cell);
        if (change != LIMIT_SAME)
            row_refuse(table, out);
        return;
    }
    struct slot *slot = &table->slots[number];
    slot_set_cell(slot, cell);
    slot_set_kind(slot, kind);
    if (change != LIMIT_SAME)
        table_changed(table, number, change == LIMIT_LOWERED);
}

/* A peek, where leases have ended meanwhile, looks at a copy: it leaves the slot as it is. */
static bool row_peek_lapsed(struct table *table, const struct row *row,
                            const struct limit_plan *plan, const struct limit_cell *cell,
                            uint32_t number, struct limit_decision *out)
{
    struct limit_cell copy;
    if (row->request.operation != OPERATION_PEEK ||
        !leased_lapsed(&table->memory, cell, row->request.now_ns) ||
        leased_clone(&table->memory, cell, &copy) != 0)
        return false;
    if (row_decide_leased(table, row, plan, &copy, number, out) < 0)
        row_refuse(table, out);
    leased_ops.release(&table->memory, &copy);
    return true;
}

/* Decides a row of a slot that holds leases, or one that is about some: with the slot's number, or
 * TABLE_NONE. What is not one of the two is a caller's mistake, for ids contain the algorithm. */
static __attribute__((noinline)) void row_apply_leased(struct table *table, const struct row *row,
                                                       const struct limit_plan *plan,
                                                       uint32_t number, struct limit_decision *out)
{
    const struct limit_request *request = &row->request;
    const bool takes = request->operation == OPERATION_LEASE ||
                       request->operation == OPERATION_PEEK ||
                       request->operation >= OPERATION_RESERVE;
    struct slot *slot = number == TABLE_NONE ? NULL : &table->slots[number];
    struct limit_cell cell = slot == NULL ? (struct limit_cell){0} : slot_cell(slot);
    const unsigned kind = slot == NULL ? row->limit->algorithm : slot->kind & KIND_ALGORITHM;
    const bool holds = (request->flags & LIMIT_HOLD) != 0;
    if ((slot != NULL && slot_algorithm(table, slot) != row->limit->algorithm) ||
        (holds && takes && limit_lease_refusal(row->limit) != NULL)) {
        row_refuse(table, out);
        return;
    }
    if (slot != NULL)
        slot->kind |= KIND_REFERENCED;
    if (kind != LIMIT_LEASED && !takes) {
        row_decide_unleased(table, row, plan, &cell, out);
        return;
    }
    if (kind == LIMIT_LEASED && row_peek_lapsed(table, row, plan, &cell, number, out))
        return;
    if (kind != LIMIT_LEASED && leased_wrap(&table->memory, kind, &cell) != 0 &&
        (!table_make_arena_room(table, number, request->now_ns) ||
         leased_wrap(&table->memory, kind, &cell) != 0)) {
        row_refuse(table, out);
        return;
    }
    const int change = row_decide_leased(table, row, plan, &cell, number, out);
    row_keep_leased(table, row, &cell, number, change < 0 ? LIMIT_SAME : change, out);
    if (change < 0)
        row_refuse(table, out);
}

/* -- rows --------------------------------------------------------------------------------- */

/* Decides and applies one row by the plan of its limit; `marked`: it may be to name a charge, or to
 * undo one, or be about leases. */
static inline __attribute__((always_inline)) void
row_apply_plan(struct table *table, const struct row *row, const struct limit_plan *plan,
               struct limit_decision *out, const bool marked)
{
    const uint32_t number = table_find_to_change(table, row->id);
    const bool holds = marked && (row->request.flags & LIMIT_HOLD) != 0;
    if (__builtin_expect(number != TABLE_NONE, 1)) {
        struct slot *slot = &table->slots[number];
        if ((slot->kind & KIND_ALGORITHM) != row->limit->algorithm || holds) {
            row_apply_leased(table, row, plan, number, out);
            return;
        }
        slot->kind |= KIND_REFERENCED;
        struct limit_cell cell = slot_cell(slot);
        const int change = marked && (row->request.flags & LIMIT_UNDO) != 0
                               ? plan_undo(table, plan, &cell, row, out)
                               : plan_apply(table, plan, &cell, &row->request, number, out);
        if (change < 0) {
            row_refuse(table, out);
        } else if (change != LIMIT_SAME) {
            if (__builtin_expect(change == LIMIT_LOWERED, 0))
                note_given(table, row, slot, &cell);
            slot_set_cell(slot, &cell);
            table_changed(table, number, change == LIMIT_LOWERED);
            if (marked && (row->request.flags & LIMIT_MARK) != 0)
                row_mark(table, row, plan, &cell);
        }
        return;
    }
    if ((row->request.flags & LIMIT_LOADED) == 0 && vnode_maybe(table, row->vnode, row->id)) {
        decision_blank(out, LIMIT_ABSENT);
        return;
    }
    if (holds) {
        row_apply_leased(table, row, plan, TABLE_NONE, out);
        return;
    }
    struct limit_cell cell = {0}; /* of which an undo, like a refund, takes nothing */
    const int change = plan_apply(table, plan, &cell, &row->request, TABLE_NONE, out);
    if (change < 0 || (change != LIMIT_SAME && !row_create(table, row, plan, &cell)))
        row_refuse(table, out);
    else if (change != LIMIT_SAME && marked && (row->request.flags & LIMIT_MARK) != 0)
        row_mark(table, row, plan, &cell);
}

/* Rows with marks, and those about leases, are rare: apart from the others, they cost these nothing
 * but a look. */
static __attribute__((noinline)) void row_apply_marked(struct table *table, const struct row *row,
                                                       const struct limit_plan *plan,
                                                       struct limit_decision *out)
{
    row_apply_plan(table, row, plan, out, true);
}

/* Says of a soft limit what is left of it as written, and whether it is exceeded. */
static __attribute__((noinline)) void
row_soften(const struct row *row, const struct limit_plan *plan, struct limit_decision *out)
{
    const uint64_t written = limit_capacity(&plan->asked);
    const uint64_t base = written < plan->capacity ? written : plan->capacity;
    if (out->status != LIMIT_DECIDED)
        return;
    const uint64_t asked = row->request.operation == OPERATION_PEEK ? out->granted : 0;
    const bool bent = out->allowed && sat_addu(out->used, asked) > base &&
                      row->request.operation <= OPERATION_HIT;
    out->notes = bent ? LIMIT_SOFT : 0; /* of a soft limit no tokens are held */
    out->limit = base;
    out->remaining = sat_subu(base, out->used);
}

/* Decides and applies one row, in place: a call would cost a row of the fast paths a tenth. */
static inline __attribute__((always_inline)) void
row_decide(struct table *table, const struct row *row, struct limit_decision *out)
{
    const struct limit_plan *plan = plan_of(table, row->limit);
    if (__builtin_expect(row->request.flags & (LIMIT_MARK | LIMIT_UNDO | LIMIT_HOLD), 0) != 0)
        row_apply_marked(table, row, plan, out);
    else
        row_apply_plan(table, row, plan, out, false);
    if (__builtin_expect(plan->asked.exceed_percent != 0, 0))
        row_soften(row, plan, out);
}

/* The same for rows of groups. */
static void row_apply(struct table *table, const struct row *row, struct limit_decision *out)
{
    row_decide(table, row, out);
}

/* -- groups ------------------------------------------------------------------------------- */

static bool row_asks(const struct row *row)
{
    const uint8_t operation = row->request.operation;
    return operation == OPERATION_CHECK || operation == OPERATION_PEEK ||
           ((operation == OPERATION_LEASE || operation == OPERATION_RESERVE) &&
            (row->request.flags & LIMIT_HOLD) != 0);
}

/* The same row as a peek of another cost. */
static struct row row_as_peek(const struct row *row, uint64_t cost)
{
    struct row peek = *row;
    peek.request.operation = OPERATION_PEEK;
    peek.request.cost = cost;
    peek.request.flags &= (uint8_t)~LIMIT_UNDO;
    return peek;
}

/* What the rows before `at` of the same key will have taken when it is this row's turn. */
static uint64_t taken_before(const struct row *rows, size_t at)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < at; i++)
        if (hash128_equal(rows[i].id, rows[at].id) && rows[i].request.operation <= OPERATION_HIT)
            taken = sat_addu(taken, rows[i].request.cost);
    return taken;
}

static void group_fail(struct limit_decision *out, size_t count, enum limit_status status)
{
    for (size_t i = 0; i < count; i++)
        decision_blank(&out[i], status);
}

/* Peeks at each row. LIMIT_DECIDED and whether all allow, and the most that all would grant; or
 * the status that the whole group gets. */
static enum limit_status group_peek(struct table *table, const struct row *rows, size_t count,
                                    struct limit_decision *out, bool *allowed, uint64_t *granted)
{
    *allowed = true;
    *granted = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const bool asks = row_asks(&rows[i]);
        const uint64_t before = taken_before(rows, i);
        struct row peek = row_as_peek(&rows[i], asks ? sat_addu(rows[i].request.cost, before) : 0);
        row_apply(table, &peek, &out[i]);
        if (out[i].status != LIMIT_DECIDED)
            return (enum limit_status)out[i].status;
        if (!asks)
            continue;
        const bool at_most = (rows[i].request.flags & LIMIT_AT_MOST) != 0;
        if (at_most && rows[i].request.cost > 0 && out[i].granted <= before)
            out[i].allowed = 0;
        *allowed = *allowed && out[i].allowed;
        if (at_most && out[i].granted - before < *granted)
            *granted = sat_subu(out[i].granted, before);
    }
    return LIMIT_DECIDED;
}

/* How long the row's cost will not fit, once its denial is counted. */
static int64_t row_retry_ns(struct table *table, const struct row *rows, size_t at)
{
    const struct row peek =
        row_as_peek(&rows[at], sat_addu(rows[at].request.cost, taken_before(rows, at)));
    struct limit_decision looked;
    row_apply(table, &peek, &looked);
    return looked.retry_after_ns;
}

/* Some row denies: each reports the limit as it stands, and keeps its own verdict. What a check
 * found kept for another limit is rewritten (ALGORITHM-7), as when it stands alone: so it takes
 * nothing, rather than only to look. */
static void group_deny(struct table *table, const struct row *rows, size_t count,
                       struct limit_decision *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct limit_decision verdict = out[i];
        const bool asks = row_asks(&rows[i]);
        const bool counts = asks && (rows[i].request.flags & LIMIT_COUNT_DENIED) != 0 &&
                            !verdict.allowed && rows[i].request.operation == OPERATION_CHECK;
        struct row final = row_as_peek(&rows[i], 0);
        if (counts) {
            final = rows[i];
            final.request.operation = OPERATION_HIT;
        } else if (rows[i].request.operation == OPERATION_CHECK &&
                   rows[i].limit->algorithm != ALGORITHM_CONCURRENCY) {
            final.request.operation = OPERATION_CHECK;
            final.request.flags &= LIMIT_LOADED | LIMIT_OLDER;
        }
        struct limit_decision stands;
        row_apply(table, &final, &stands);
        if (stands.status == LIMIT_DECIDED) /* else there is no room, and it stays as it was */
            out[i] = stands;
        out[i].allowed = verdict.allowed;
        out[i].notes &= (uint8_t)~LIMIT_SOFT;
        out[i].granted = 0;
        out[i].retry_after_ns = counts ? row_retry_ns(table, rows, i) : verdict.retry_after_ns;
    }
}

/* What gives back what the row took: 0, nothing has to. */
static enum operation undo_of(const struct row *row)
{
    switch (row->request.operation) {
    case OPERATION_CHECK:
    case OPERATION_HIT:
        return OPERATION_REFUND;
    case OPERATION_LEASE:
        return row_asks(row) ? OPERATION_RELEASE : 0;
    case OPERATION_RESERVE:
        return row_asks(row) ? OPERATION_CANCEL : 0;
    default:
        return 0;
    }
}

/* Takes back what the first `count` rows of a group took. */
static void group_undo(struct table *table, const struct row *rows, size_t count,
                       const struct limit_decision *out)
{
    for (size_t i = count; i-- > 0;) {
        struct row undo = rows[i];
        const enum operation operation = undo_of(&undo);
        if (operation == 0)
            continue;
        undo.request.operation = (uint8_t)operation;
        undo.request.cost = operation == OPERATION_REFUND ? out[i].granted : 0;
        undo.request.flags &= LIMIT_OLDER;
        undo.request.flags |= operation == OPERATION_REFUND ? LIMIT_LOADED
                              : operation == OPERATION_RELEASE
                                  ? LIMIT_LOADED | LIMIT_HOLD
                                  : LIMIT_LOADED | LIMIT_HOLD | LIMIT_UNDO;
        struct limit_decision ignored;
        row_apply(table, &undo, &ignored);
    }
}

static void group_decide(struct table *table, const struct row *rows, size_t count,
                         struct limit_decision *out)
{
    bool allowed;
    uint64_t granted;
    const enum limit_status status = group_peek(table, rows, count, out, &allowed, &granted);
    if (status != LIMIT_DECIDED) {
        group_fail(out, count, status);
        return;
    }
    if (!allowed) {
        group_deny(table, rows, count, out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct row final = rows[i];
        if (row_asks(&final)) {
            if (final.request.cost > granted)
                final.request.cost = granted;
            final.request.flags &= (uint8_t)~LIMIT_AT_MOST;
        }
        row_apply(table, &final, &out[i]);
        if (out[i].status != LIMIT_DECIDED) {
            group_undo(table, rows, i, out);
            group_fail(out, count, LIMIT_NO_ROOM);
            return;
        }
    }
}

/* -- batches ------------------------------------------------------------------------------ */

static inline int64_t clamp_now(int64_t now_ns)
{
    return now_ns < 0 ? 0 : now_ns > LIMIT_NOW_MAX ? LIMIT_NOW_MAX : now_ns;
}

/* Rows are filled field by field: an initialiser would clear them first, and a copied id would be
 * waited for. */
static inline void batch_row(const struct table *table, const struct limit_batch *batch, size_t i,
                             int64_t now_ns, struct row *row)
{
    ASSERT(batch->vnodes[i] < table->vnodes_count);
    row->id.lo = batch->ids[i].lo;
    row->id.hi = batch->ids[i].hi;
    row->vnode = batch->vnodes[i];
    row->limit = batch->limits[i];
    row->class = batch->classes == NULL ? NEW_KEYS_FREE : batch->classes[i];
    row->mark = batch->marks == NULL ? NULL : &batch->marks[i];
    row->request.cost = batch->costs[i];
    row->request.lease = batch->leases == NULL ? 0 : batch->leases[i];
    row->request.now_ns = now_ns;
    row->request.operation = batch->operations == NULL ? OPERATION_CHECK : batch->operations[i];
    row->request.flags = batch->flags == NULL ? 0 : batch->flags[i];
    row->request.ttl_ms = 0;
    if (__builtin_expect(row->request.flags & LIMIT_HOLD, 0) != 0 && batch->ttls_ms != NULL)
        row->request.ttl_ms = batch->ttls_ms[i];
}

static inline void batch_put(const struct limit_decisions *out, size_t i,
                             const struct limit_decision *decision)
{
    out->status[i] = decision->status;
    out->allowed[i] = decision->allowed;
    out->limit[i] = decision->limit;
    out->used[i] = decision->used;
    out->remaining[i] = decision->remaining;
    out->granted[i] = decision->granted;
    out->reset_after_ns[i] = decision->reset_after_ns;
    out->retry_after_ns[i] = decision->retry_after_ns;
    out->delay_ns[i] = decision->delay_ns;
    if (out->notes != NULL)
        out->notes[i] = decision->notes;
}

/* Decides the group that starts at row `i`; returns the row after it. */
static size_t batch_group(struct table *table, const struct limit_batch *batch, size_t i,
                          int64_t now_ns, struct limit_decisions *out)
{
    size_t end = i + 1;
    while (end < batch->count && batch->groups[end] == batch->groups[i])
        end++;
    struct row rows[LIMIT_GROUP_MAX];
    struct limit_decision decisions[LIMIT_GROUP_MAX];
    const size_t count = end - i;
    if (count > LIMIT_GROUP_MAX) {
        decision_blank(&decisions[0], LIMIT_NO_ROOM);
        for (; i < end; i++)
            batch_put(out, i, &decisions[0]);
        return end;
    }
    for (size_t k = 0; k < count; k++)
        batch_row(table, batch, i + k, now_ns, &rows[k]);
    group_decide(table, rows, count, decisions);
    for (size_t k = 0; k < count; k++)
        batch_put(out, i + k, &decisions[k]);
    return end;
}

void engine_step(struct table *table, const struct limit_batch *batch, int64_t now_ns,
                 struct limit_decisions *out)
{
    now_ns = clamp_now(now_ns);
    size_t prefetched = 0;
    for (size_t i = 0; i < batch->count;) {
        if (i >= prefetched) {
            prefetched = i + ENGINE_BLOCK < batch->count ? i + ENGINE_BLOCK : batch->count;
            table_prefetch_ids(table, batch->vnodes + i, batch->ids + i, prefetched - i);
        }
        if (batch->groups != NULL && i + 1 < batch->count &&
            batch->groups[i + 1] == batch->groups[i]) {
            i = batch_group(table, batch, i, now_ns, out);
            continue;
        }
        struct row row;
        struct limit_decision decision;
        batch_row(table, batch, i, now_ns, &row);
        row_decide(table, &row, &decision);
        batch_put(out, i, &decision);
        i++;
    }
}

/* The same number, which gcc must have in a register by then. Both halves of an id come in
 * registers; it would store them one by one and copy them as one, and a processor lets such a read
 * wait until all that was read before has come, the slot of the last row too. */
static inline uint64_t in_register(uint64_t number)
{
    __asm__("" : "+r"(number));
    return number;
}

/* One row that has no batch. What it needs of memory is asked for before the rest is begun with, so
 * that it comes meanwhile, or while the last row still waits for its own. */
static inline __attribute__((always_inline)) void
decide_alone(struct table *table, struct hash128 id, uint32_t vnode, const struct limit *limit,
             uint64_t cost, uint64_t lease, enum operation operation, unsigned flags,
             int64_t now_ns, struct limit_decision *out)
{
    ASSERT(vnode < table->vnodes_count);
    const uint64_t hash = bucket_hash(&table->buckets, id);
    const uint32_t home = bucket_home(&table->buckets, hash);
    prefetch(&table->buckets.heads[home]);
    prefetch_to_write(&table->slots[bucket_first_choice(hash, home)]);
    prefetch_to_write(&table->vnodes[vnode].seq);
    struct row row; /* filled as batch_row does */
    row.id.lo = in_register(id.lo);
    row.id.hi = in_register(id.hi);
    row.vnode = vnode;
    row.class = NEW_KEYS_FREE;
    row.limit = limit;
    row.mark = NULL;
    row.request.cost = cost;
    row.request.lease = lease;
    row.request.ttl_ms = 0;
    row.request.now_ns = clamp_now(now_ns);
    row.request.operation = (uint8_t)operation;
    row.request.flags = (uint8_t)flags;
    row_decide(table, &row, out);
}

void engine_one_leased(struct table *table, struct hash128 id, uint32_t vnode,
                       const struct limit *limit, uint64_t cost, uint64_t lease,
                       enum operation operation, unsigned flags, int64_t now_ns,
                       struct limit_decision *out)
{
    decide_alone(table, id, vnode, limit, cost, lease, operation, flags, now_ns, out);
}

void engine_one(struct table *table, struct hash128 id, uint32_t vnode, const struct limit *limit,
                uint64_t cost, enum operation operation, unsigned flags, int64_t now_ns,
                struct limit_decision *out)
{
    decide_alone(table, id, vnode, limit, cost, 0, operation, flags, now_ns, out);
}
