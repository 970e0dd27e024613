/* gcra.c - token bucket and leaky bucket, kept as one number.
 *
 * A bucket of `burst` tokens refilled at count/window is fully described by its theoretical
 * arrival time (TAT): the moment at which it will be full again.
 *
 *      now                     TAT
 *   ----|-----------------------|------> time
 *       |<------ debt --------->|        debt = used * (time of a token) <= that of burst
 *
 *   cell  | TAT ns, 8 bytes | fraction 20 bits | rate 12 bits |
 *
 * A token takes p/q ns, reduced; the fraction counts q-ths of a ns, so 7/60s and 600,000,000/s are
 * exact and cannot drift. Only when q would not fit 20 bits is p/q rounded up, to the next fraction
 * whose q does: by < 2^-20 ns, and by less than 10^-8 of itself but for rates that lie just below
 * one of few digits (999,999,999/s lags by 10^-6).
 * Debts are reckoned in q-ths of a ns in 128 bits; p < 2^59 and tokens < 2^64 never overflow.
 *
 * GCRA-1  A check at the cell's own rate leaves TAT alone or raises it; only refund and reset lower
 *         it, and what a lowered limit does not owe any more (ALGORITHM-8).
 * GCRA-2  After an allowed check debt <= burst * p; after a hit debt <= 2 * burst * p.
 * GCRA-3  The rate in the cell is the one its debt was reckoned at. A request at another rate
 *         converts the debt to tokens and back: what was consumed stays consumed, whatever the rule
 *         now says. The first request that may (ALGORITHM-7) leaves the debt at its own rate, even
 *         if it is denied. So the debt drains at that rate from then on, and the wait that was told
 *         is kept.
 *
 * GCRA-4  An undo at time u of a charge of c tokens made at t gives back what the charge still adds
 *         to the debt, or less: c * p, less the time in which the bucket would have been full
 *         without it. That lies in [b, u], where b is t, or later by the debt that was there before
 *         the charge, but for what was given back since.
 * GCRA-5  What one undo has left in the debt for such a time, no other one leaves once more: [b, u]
 *         is noted (spans.h). So whatever set S of open charges is looked at, the debt is at least
 *         what it would be without them, plus S, less that part of the union of their [b, now] that
 *         is not noted: undoing all of them, in any order, takes nothing of what others were
 *         granted. And all undos together leave no more than the time since the first of their
 *         charges, in which the debt has drained by as much: as long as it lasts, no more tokens
 *         are used than were kept.
 * GCRA-7  What a debt that came with a wrong clock says beyond what the limit can owe is dropped
 *         with the rest of that (ALGORITHM-8): a lower burst at the same rate leaves the same
 *         state.
 * GCRA-6  A request by older rules converts for itself alone: what it is charged is added to the
 *         debt at the rate that this has.
 * GCRA-8  A peek of no tokens asks for nothing that its limit would have to allow: it tells when
 *         the bucket will be full at the rate at which its debt drains now, the cell's own.
 *
 * A leaky bucket is the same meter read as a queue that is served at an even rate: the debt that an
 * allowed request finds is what is still to be served before it, and therefore its delay.
 *
 *      check at now, cost 1      |<- delay: the debt before ->|<- its own turn ->|
 *
 * So that a debt always fits below the end of time, a bucket holds at most 73 years of refill
 * (limit_validate refuses more).
 * Pure: time comes in; algorithm.h has the contract of ops.
 */
#include <string.h>

#include "node/limit/algorithms/algorithm.h"

#define FRACTION_MASK (RATE_DENOMINATOR_MAX - 1u)
#define DEBT_NS_MAX   LIMIT_REFILL_MAX_NS
#define TOKENS_MAX    (UINT64_C(1) << 60)
#define NARROW_MAX    (UINT64_C(1) << 61)

static uint64_t divisor_common(uint64_t a, uint64_t b)
{
    const int shift = __builtin_ctzll(a | b);
    a >>= __builtin_ctzll(a);
    while (b != 0) {
        b >>= __builtin_ctzll(b);
        const uint64_t low = a < b ? a : b;
        b = a < b ? b - a : a - b;
        a = low;
    }
    return a << shift;
}

/* A fraction on the way to another one between two bounds (Stern and Brocot's tree). */
struct fraction {
    unsigned __int128 p;
    unsigned __int128 q;
};

/* How many steps `from` may take towards `to` without its denominator becoming too large. */
static unsigned __int128 steps_max(struct fraction from, struct fraction to)
{
    return (RATE_DENOMINATOR_MAX - from.q) / to.q;
}

/* The least fraction above p/q, in lowest terms, whose denominator is RATE_DENOMINATOR_MAX at most,
 * as q is not: two bounds close in on it by as many steps at once as leave it between them. */
static struct fraction fraction_above(uint64_t p, uint64_t q)
{
    struct fraction below = {p / q, 1};
    struct fraction above = {1, 0};
    while (below.q + above.q <= RATE_DENOMINATOR_MAX) {
        const unsigned __int128 far = above.p * q - above.q * p; /* > 0, as is the next */
        const unsigned __int128 near = below.q * p - below.p * q;
        unsigned __int128 steps = steps_max(above, below);
        steps = far / near < steps ? far / near : steps;
        above.p += steps * below.p;
        above.q += steps * below.q;
        if (below.q + above.q > RATE_DENOMINATOR_MAX)
            break;
        const unsigned __int128 left = above.p * q - above.q * p;
        steps = steps_max(below, above);
        steps = (near - 1) / left < steps ? (near - 1) / left : steps;
        below.p += steps * above.p;
        below.q += steps * above.q;
    }
    return above;
}

static void gcra_prepare(struct limit_memory *memory, struct limit_plan *plan)
{
    const uint64_t common = divisor_common(plan->limit.window_ns, plan->limit.count);
    plan->p = plan->limit.window_ns / common;
    const uint64_t q = plan->limit.count / common;
    if (q <= RATE_DENOMINATOR_MAX) {
        plan->q = (uint32_t)q;
    } else {
        const struct fraction above = fraction_above(plan->p, q);
        plan->p = (uint64_t)above.p;
        plan->q = (uint32_t)above.q;
    }
    const uint64_t most = sat_muldiv(DEBT_NS_MAX, plan->q, plan->p);
    if (plan->capacity > most)
        plan->capacity = most;
    plan->rate = rates_take(&memory->rates, plan->p, plan->q);
    plan->narrow_ns = plan->rate == 0 ? 0 : NARROW_MAX / plan->q - 1;
    plan->narrow_cost = plan->rate == 0 ? 0 : NARROW_MAX / plan->p;
}

static unsigned __int128 divide_up(unsigned __int128 a, uint64_t b)
{
    if (a + b - 1 <= UINT64_MAX)
        return ((uint64_t)a + b - 1) / b;
    return (a + b - 1) / b;
}

/* Without a number for the rate, q-ths become 2^-20ths: rounded down here and up when read, they
 * come back as they were, for q <= 2^20. */
static uint32_t fraction_without_rate(uint32_t fraction, uint32_t q)
{
    return (uint32_t)(((uint64_t)fraction << RATE_FRACTION_BITS) / q);
}

/* A debt in q-ths of a ns, reckoned at p/q ns a token; p = 0 (and q = 2^20): only its time is
 * known.
 */
struct debt {
    unsigned __int128 units;
    uint64_t p;
    uint32_t q;
};

static struct debt debt_from(uint64_t tat_ns, uint32_t fraction, uint64_t p, uint32_t q,
                             int64_t now_ns)
{
    struct debt debt = {.p = p, .q = p == 0 ? RATE_DENOMINATOR_MAX : q};
    if (tat_ns >= (uint64_t)now_ns)
        debt.units = (unsigned __int128)(tat_ns - (uint64_t)now_ns) * debt.q + fraction;
    return debt;
}

/* The debt in units of the rate p/q: the tokens stay (GCRA-3), or, where a rate is unknown, the
 * time. Rounded up or down to a whole unit. */
static unsigned __int128 debt_at_rate(const struct debt *debt, uint64_t p, uint32_t q, bool up)
{
    if (debt->p == p && debt->q == q)
        return debt->units;
    if (debt->p == 0 || p == 0)
        return (debt->units * q + (up ? debt->q - 1 : 0)) / debt->q;
    const unsigned __int128 tokens = debt->units / debt->p;
    const uint64_t whole = tokens > TOKENS_MAX ? TOKENS_MAX : (uint64_t)tokens;
    const unsigned __int128 rest = debt->units % debt->p * p;
    return (unsigned __int128)whole * p + (rest + (up ? debt->p - 1 : 0)) / debt->p;
}

/* The debt of a cell at the rate it was kept at. */
static struct debt cell_debt(const struct limit_memory *memory, const struct limit_cell *cell,
                             int64_t now_ns)
{
    const struct rate *rate = &memory->rates.rate[cell->word[2] >> RATE_FRACTION_BITS];
    const bool known = cell->word[2] >> RATE_FRACTION_BITS != 0;
    return debt_from(cell_u64(cell), cell->word[2] & FRACTION_MASK, known ? rate->p : 0, rate->q,
                     now_ns);
}

static inline unsigned __int128 gcra_debt(const struct limit_memory *memory,
                                          const struct limit_cell *cell,
                                          const struct limit_plan *plan, int64_t now_ns)
{
    const uint64_t tat_ns = cell_u64(cell);
    if (tat_ns < (uint64_t)now_ns)
        return 0;
    const uint64_t span_ns = tat_ns - (uint64_t)now_ns;
    const uint32_t number = cell->word[2] >> RATE_FRACTION_BITS;
    const uint32_t fraction = cell->word[2] & FRACTION_MASK;
    if (number == plan->rate && number != 0)
        return (unsigned __int128)span_ns * plan->q + fraction;
    const struct debt debt = cell_debt(memory, cell, now_ns);
    return debt_at_rate(&debt, plan->p, plan->q, true);
}

/* Writes a debt as of now; moves the cell's reference if the rate is another one. */
static inline void gcra_store(struct limit_memory *memory, struct limit_cell *cell,
                              const struct limit_plan *plan, int64_t now_ns, unsigned __int128 debt)
{
    uint64_t span_ns;
    uint32_t fraction;
    if (debt <= INT64_MAX - LIMIT_NOW_MAX - 2) {
        span_ns = plan->q == 1 ? (uint64_t)debt : (uint64_t)debt / plan->q;
        fraction = (uint32_t)((uint64_t)debt - span_ns * plan->q);
    } else {
        /* Only a debt converted from another rate (GCRA-3) can reach beyond the end of time. */
        const unsigned __int128 most = (unsigned __int128)(INT64_MAX - 2 - now_ns) * plan->q;
        debt = debt < most ? debt : most;
        span_ns = (uint64_t)(debt / plan->q);
        fraction = (uint32_t)(debt % plan->q);
    }
    if (__builtin_expect(plan->rate == 0, 0))
        fraction = fraction_without_rate(fraction, plan->q);
    const uint32_t number = cell->word[2] >> RATE_FRACTION_BITS;
    if (__builtin_expect(number != plan->rate, 0)) {
        rates_hold(&memory->rates, plan->rate);
        rates_release(&memory->rates, number);
    }
    cell_set_u64(cell, debt == 0 ? 0 : (uint64_t)now_ns + span_ns);
    cell->word[2] = plan->rate << RATE_FRACTION_BITS | fraction;
}

static int64_t debt_ns(const struct limit_plan *plan, unsigned __int128 debt)
{
    if (plan->q == 1 && debt <= INT64_MAX)
        return (int64_t)debt;
    const unsigned __int128 ns = divide_up(debt, plan->q);
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

static int64_t gcra_retry(const struct limit_plan *plan, unsigned __int128 debt, uint64_t cost)
{
    if (cost > plan->capacity)
        return LIMIT_RETRY_NEVER;
    return debt_ns(plan, debt + (unsigned __int128)cost * plan->p -
                             (unsigned __int128)plan->capacity * plan->p);
}

/* The common case in 64 bits: a plain check that fits, at the rate the cell was kept at (or on a
 * full bucket). False if it is not that case; then nothing has been done. */
static inline bool gcra_apply_narrow(struct limit_cell *cell, const struct limit_plan *plan,
                                     const struct limit_request *request,
                                     struct limit_decision *out)
{
    const uint64_t now_ns = (uint64_t)request->now_ns;
    const uint64_t cost = request->cost;
    const uint64_t tat_ns = cell_u64(cell);
    const uint32_t number = cell->word[2] >> RATE_FRACTION_BITS;
    const uint64_t span_ns = tat_ns - now_ns;
    const bool full = tat_ns < now_ns;
    if (request->operation != OPERATION_CHECK || number != plan->rate || cost > plan->narrow_cost ||
        (!full && span_ns > plan->narrow_ns))
        return false;
    const uint64_t before = full ? 0 : span_ns * plan->q + (cell->word[2] & FRACTION_MASK);
    const uint64_t used = (before + plan->p - 1) / plan->p;
    if (cost > sat_subu(plan->capacity, used) || cost == 0)
        return false;
    const uint64_t debt = before + cost * plan->p;
    const uint64_t debt_ns = plan->q == 1 ? debt : debt / plan->q;
    const uint32_t fraction = (uint32_t)(debt - debt_ns * plan->q);
    cell_set_u64(cell, now_ns + debt_ns);
    cell->word[2] = plan->rate << RATE_FRACTION_BITS | fraction;
    *out = (struct limit_decision){
        .allowed = 1,
        .limit = plan->capacity,
        .used = used + cost,
        .remaining = plan->capacity - used - cost,
        .granted = cost,
        .reset_after_ns = (int64_t)debt_ns + (fraction != 0),
    };
    return true;
}

/* Whether the debt in the cell is one of another rate. */
static bool gcra_other_rate(const struct limit_cell *cell, const struct limit_plan *plan)
{
    return cell->word[2] >> RATE_FRACTION_BITS != plan->rate;
}

/* Writes a debt, reckoned at the plan's rate, into a cell whose rate stays (GCRA-6): what was
 * charged or given back is added to it there. False if the rate is not known; then nothing is
 * done. */
static bool gcra_store_older(struct limit_memory *memory, struct limit_cell *cell,
                             const struct limit_request *request,
                             const struct limit_verdict *verdict)
{
    const uint32_t number = cell->word[2] >> RATE_FRACTION_BITS;
    const struct rate *rate = &memory->rates.rate[number];
    if (number == 0)
        return false;
    const struct debt kept = cell_debt(memory, cell, request->now_ns);
    const unsigned __int128 back = (unsigned __int128)verdict->refund * rate->p;
    const unsigned __int128 debt = kept.units + (unsigned __int128)verdict->charge * rate->p;
    const struct limit_plan own = {.p = rate->p, .q = rate->q, .rate = number};
    gcra_store(memory, cell, &own, request->now_ns, back < debt ? debt - back : 0);
    return true;
}

static int64_t gcra_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    (void)memory;
    const uint64_t tat_ns = cell_u64(cell);
    return (int64_t)tat_ns + ((cell->word[2] & FRACTION_MASK) != 0);
}

static int gcra_apply(struct limit_memory *memory, struct limit_cell *cell,
                      const struct limit_plan *plan, const struct limit_request *request,
                      struct limit_decision *out)
{
    if (__builtin_expect(gcra_apply_narrow(cell, plan, request, out), 1))
        return LIMIT_CHANGED;
    const bool older = (request->flags & LIMIT_OLDER) != 0;
    const unsigned __int128 kept = gcra_debt(memory, cell, plan, request->now_ns);
    const unsigned __int128 most = (unsigned __int128)plan->owes_max * plan->p;
    const unsigned __int128 before = kept > most && !older ? most : kept;
    const unsigned __int128 used_wide = divide_up(before, plan->p);
    const uint64_t used = used_wide > TOKENS_MAX ? TOKENS_MAX : (uint64_t)used_wide;
    const struct limit_verdict verdict = limit_judge(used, plan->capacity, request);

    unsigned __int128 debt = before + (unsigned __int128)verdict.charge * plan->p;
    uint64_t used_after = used + verdict.charge;
    if (verdict.refund != 0) {
        const unsigned __int128 back = (unsigned __int128)verdict.refund * plan->p;
        debt = back < debt ? debt - back : 0;
        used_after = sat_subu(used, verdict.refund);
    }
    limit_report(out, &verdict, used_after, plan->capacity);
    out->reset_after_ns = debt_ns(plan, debt);
    const bool peek = request->operation == OPERATION_PEEK;
    if (!verdict.allowed)
        out->retry_after_ns = gcra_retry(plan, debt, verdict.retry_cost);
    const bool other_rate = kept != 0 && gcra_other_rate(cell, plan);
    if (peek && request->cost == 0 && other_rate)
        out->reset_after_ns = gcra_expires(memory, cell) - request->now_ns; /* GCRA-8 */
    if (peek || (debt == kept && (older || !other_rate)))
        return LIMIT_SAME;
    if (!older || !other_rate || !gcra_store_older(memory, cell, request, &verdict))
        gcra_store(memory, cell, plan, request->now_ns, debt);
    return debt < kept ? LIMIT_LOWERED : LIMIT_CHANGED;
}

/* How long a request that comes now waits for its turn, of a leaky bucket. */
static int64_t queue_ns(const struct limit_memory *memory, const struct limit_cell *cell,
                        const struct limit_plan *plan, int64_t now_ns)
{
    return debt_ns(plan, gcra_debt(memory, cell, plan, now_ns));
}

static int leaky_apply(struct limit_memory *memory, struct limit_cell *cell,
                       const struct limit_plan *plan, const struct limit_request *request,
                       struct limit_decision *out)
{
    const int64_t delay_ns = queue_ns(memory, cell, plan, request->now_ns);
    const int change = gcra_apply(memory, cell, plan, request, out);
    if (change >= 0 && out->allowed && request->operation <= OPERATION_PEEK)
        out->delay_ns = delay_ns;
    return change;
}

static void gcra_release(struct limit_memory *memory, struct limit_cell *cell)
{
    rates_release(&memory->rates, cell->word[2] >> RATE_FRACTION_BITS);
    memset(cell, 0, sizeof *cell);
}

/* | TAT ns 8 | fraction 4 | p 8 | q 4 |   p = 0: the rate is unknown */
enum { GCRA_EXPORT_LEN = 24 };

static size_t gcra_export_len(const struct limit_memory *memory, const struct limit_cell *cell)
{
    (void)memory;
    (void)cell;
    return GCRA_EXPORT_LEN;
}

static void gcra_put(const struct limit_memory *memory, const struct limit_cell *cell,
                     struct bytes_writer *writer)
{
    const uint32_t number = cell->word[2] >> RATE_FRACTION_BITS;
    uint8_t *place = bytes_claim(writer, GCRA_EXPORT_LEN);
    if (place == NULL)
        return;
    bytes_set_u64(place, cell_u64(cell));
    bytes_set_u32(place + 8, cell->word[2] & FRACTION_MASK);
    bytes_set_u64(place + 12, number == 0 ? 0 : memory->rates.rate[number].p);
    bytes_set_u32(place + 20, number == 0 ? 0 : memory->rates.rate[number].q);
}

static int gcra_get(struct limit_memory *memory, struct bytes_reader *reader,
                    struct limit_cell *cell, int64_t *expires_ns)
{
    const uint64_t tat_ns = bytes_get_u64(reader);
    uint32_t fraction = bytes_get_u32(reader);
    const uint64_t p = bytes_get_u64(reader);
    const uint32_t q = bytes_get_u32(reader);
    if (reader->failed || tat_ns > INT64_MAX - 1 || p > RATE_NUMERATOR_MAX ||
        q > RATE_DENOMINATOR_MAX || (p == 0) != (q == 0) ||
        fraction >= (q == 0 ? RATE_DENOMINATOR_MAX : q))
        return TG_ECORRUPT;
    *expires_ns = (int64_t)tat_ns + (fraction != 0);
    if (memory == NULL)
        return 0;
    const uint32_t number = p == 0 ? 0 : rates_take(&memory->rates, p, q);
    if (number == 0 && p != 0)
        fraction = fraction_without_rate(fraction, q);
    *cell = (struct limit_cell){.word = {[2] = number << RATE_FRACTION_BITS | fraction}};
    cell_set_u64(cell, tat_ns);
    return 0;
}

static struct debt read_debt(struct bytes_reader *reader, int64_t now_ns)
{
    const uint64_t tat_ns = bytes_get_u64(reader);
    const uint32_t fraction = bytes_get_u32(reader);
    const uint64_t p = bytes_get_u64(reader);
    return debt_from(tat_ns, fraction, p, bytes_get_u32(reader), now_ns);
}

/* Debts are reckoned as of now, in tokens: each side has drained on its own meanwhile. A bucket
 * that is full takes the other's rate, one in debt keeps its own; so orders of merging may differ
 * by the rounding of conversions, which is up, by less than a unit (1/p of a token) each. A base at
 * another rate has drained in another way than what grew out of it: then nothing of it is taken
 * off, and what both sides share counts twice (ALGORITHM-5). */
static int gcra_merge(struct limit_memory *memory, struct limit_cell *cell,
                      struct bytes_reader *base, struct bytes_reader *other, int64_t now_ns)
{
    const struct debt mine = cell_debt(memory, cell, now_ns);
    struct debt gain = read_debt(other, now_ns);
    if (base != NULL) {
        const struct debt shared = read_debt(base, now_ns);
        if (shared.p == gain.p && shared.q == gain.q)
            gain.units = gain.units > shared.units ? gain.units - shared.units : 0;
    }
    if (gain.units == 0)
        return LIMIT_SAME;
    struct limit_plan plan = {.p = gain.p, .q = gain.q};
    unsigned __int128 debt = gain.units;
    if (mine.units != 0) {
        plan = (struct limit_plan){.p = mine.p, .q = mine.q};
        debt = mine.units + debt_at_rate(&gain, mine.p, mine.q, true);
        const unsigned __int128 most = (unsigned __int128)(INT64_MAX - 2 - now_ns) * mine.q;
        if (debt > most && mine.units >= most)
            return LIMIT_SAME; /* it reaches to the end of time already */
    }
    plan.rate = plan.p == 0 ? 0 : rates_take(&memory->rates, plan.p, plan.q);
    gcra_store(memory, cell, &plan, now_ns, debt);
    rates_release(&memory->rates, plan.rate); /* the cell holds one of its own */
    return LIMIT_CHANGED;
}

static void gcra_mark(const struct limit_memory *memory, const struct limit_cell *cell,
                      const struct limit_plan *plan, struct limit_mark *mark)
{
    (void)memory;
    (void)plan;
    mark->place = cell_u64(cell);
    mark->part = cell->word[2];
}

/* From when on the bucket may have been full but for the charge that the mark names: b of
 * GCRA-4. */
static int64_t gcra_begin_ns(const struct limit_cell *cell, const struct limit_plan *plan,
                             const struct limit_undo *undo, unsigned __int128 charge)
{
    const uint32_t number = undo->mark->part >> RATE_FRACTION_BITS;
    if (number == 0 || number != plan->rate || number != cell->word[2] >> RATE_FRACTION_BITS)
        return undo->mark->at_ns; /* the rate is another one: what the debt was then says little */
    const uint64_t after_ns = sat_addu((uint64_t)debt_ns(plan, charge), undo->given_ns);
    const uint64_t begin_ns = sat_subu(undo->mark->place, after_ns);
    return begin_ns > (uint64_t)undo->mark->at_ns ? (int64_t)begin_ns : undo->mark->at_ns;
}

/* At the rate that the cell has, if that is known: an undo converts nothing. */
static int gcra_undo(struct limit_memory *memory, struct limit_cell *cell,
                     const struct limit_plan *asked, const struct limit_undo *undo)
{
    const uint32_t number = cell->word[2] >> RATE_FRACTION_BITS;
    const struct rate *rate = &memory->rates.rate[number];
    const struct limit_plan own = {.p = rate->p, .q = rate->q, .rate = number};
    const struct limit_plan *plan = number == 0 ? asked : &own;
    const unsigned __int128 debt = gcra_debt(memory, cell, plan, undo->now_ns);
    const unsigned __int128 charge = (unsigned __int128)undo->cost * plan->p;
    const int64_t begin_ns = gcra_begin_ns(cell, plan, undo, charge);
    const unsigned __int128 left =
        (unsigned __int128)spans_missing(undo->settled, begin_ns, undo->now_ns) * plan->q;
    if (left >= charge || debt == 0)
        return LIMIT_SAME;
    spans_add(undo->settled, begin_ns, undo->now_ns);
    const unsigned __int128 back = charge - left;
    gcra_store(memory, cell, plan, undo->now_ns, back < debt ? debt - back : 0);
    return LIMIT_LOWERED;
}

const struct limit_ops gcra_ops = {
    .prepare = gcra_prepare,
    .apply = gcra_apply,
    .expires = gcra_expires,
    .release = gcra_release,
    .export_len = gcra_export_len,
    .put = gcra_put,
    .get = gcra_get,
    .merge = gcra_merge,
    .mark = gcra_mark,
    .undo = gcra_undo,
};

const struct limit_ops leaky_bucket_ops = {
    .prepare = gcra_prepare,
    .apply = leaky_apply,
    .expires = gcra_expires,
    .release = gcra_release,
    .export_len = gcra_export_len,
    .put = gcra_put,
    .get = gcra_get,
    .merge = gcra_merge,
    .mark = gcra_mark,
    .undo = gcra_undo,
};
