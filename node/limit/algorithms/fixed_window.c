/* fixed_window.c - a count that starts afresh at each window's beginning.
 *
 *   |----- window -----|----- window -----|
 *          count c         0 again
 *
 * Windows lie on the grid from the epoch, or on a calendar, of which the limit brings along where
 * the window of its moment lies; or each begins with the first request after the last is over.
 *
 *   cell  | exponent 6 | key 42, count 48 | 0 |     windows up to 512 ms
 *         | exponent 6 | key 34, count 56 | 0 |     longer ones
 *         | exponent 6 | start 62 ns, count 27 | 1 |     begun by a first request
 *         | exponent 6 | -            | 1 | handle |     the same, wide: in the arena
 *
 * FIXEDWINDOW-1  The count belongs to the window of the key; in any other window it is 0 (or, after
 *                the rule's window changed, carried over once).
 * FIXEDWINDOW-2  A window that lies ahead (time went back, or who received the request has another
 *                clock) goes on counting: nothing is admitted twice. One that is further ahead than
 *                clocks differ is none (ALGORITHM-9).
 * FIXEDWINDOW-3  The leader's clock says in which window a request is: of a calendar window and its
 *                neighbours it knows the boundaries, whose clock ever resolved them.
 *
 * A limit counts at most 10^9 per second, so the count of the shorter windows fits 48 bits, and
 * twice LIMIT_COUNT_MAX fits 56, with the top bit to spare. Only windows that a first request
 * began, whose beginning is kept to the ns, need the arena when they count beyond 2^27.
 */
#include <string.h>

#include "node/limit/algorithms/window.h"

_Static_assert(LIMIT_USED_MAX < UINT64_C(1) << 55, "counts fit the cell");
_Static_assert(LIMIT_NOW_MAX < INT64_C(1) << 62, "a beginning fits the cell");

#define FIRST_BIT (UINT64_C(1) << 63)
enum { FIRST_COUNT_BITS = 27, FIRST_LOW_BITS = 5, EXPONENT_BITS = 6 };

struct fixed {
    unsigned exponent;
    bool first;   /* begun by a request */
    uint64_t key; /* of window.h, or, first, the beginning in ns */
    uint64_t count;
};

/* The block of a wide cell. */
struct fixed_block {
    uint64_t start_ns;
    uint64_t count;
};

static unsigned key_bits(unsigned exponent)
{
    return WINDOW_KEY_BITS - window_shift(exponent);
}

static __attribute__((noinline)) struct fixed first_load(const struct limit_memory *memory,
                                                         const struct limit_cell *cell)
{
    const uint64_t head = cell_u64(cell);
    struct fixed fixed = {.exponent = (unsigned)(head & 63), .first = true};
    if (cell->wide) {
        const struct fixed_block *block = arena_at(&memory->arena, cell->word[2]);
        fixed.key = block->start_ns;
        fixed.count = block->count;
        return fixed;
    }
    fixed.key = (head & ~FIRST_BIT) >> EXPONENT_BITS << FIRST_LOW_BITS;
    fixed.key |= cell->word[2] >> FIRST_COUNT_BITS;
    fixed.count = cell->word[2] & ((1U << FIRST_COUNT_BITS) - 1);
    return fixed;
}

static inline bool is_first(const struct limit_cell *cell)
{
    return (cell_u64(cell) & FIRST_BIT) != 0;
}

/* Word 1 and 0 hold exponent, key and the count's upper bits; word 2 its lower 32. */
static inline struct fixed grid_load(const struct limit_cell *cell)
{
    const uint64_t head = cell_u64(cell);
    struct fixed fixed = {.exponent = (unsigned)(head & 63)};
    const unsigned bits = key_bits(fixed.exponent);
    fixed.key = head >> EXPONENT_BITS & ((1ULL << bits) - 1);
    fixed.count = head >> (EXPONENT_BITS + bits) << 32 | cell->word[2];
    return fixed;
}

static struct fixed fixed_load(const struct limit_memory *memory, const struct limit_cell *cell)
{
    return is_first(cell) ? first_load(memory, cell) : grid_load(cell);
}

/* 0, or TG_EFULL with the cell as it was. */
static __attribute__((noinline)) int first_store(struct limit_memory *memory,
                                                 struct limit_cell *cell, const struct fixed *fixed)
{
    const uint64_t head = fixed->exponent | FIRST_BIT;
    if (fixed->count >> FIRST_COUNT_BITS == 0) {
        if (cell->wide)
            algorithm_release_block(memory, cell);
        cell_set_u64(cell, head | fixed->key >> FIRST_LOW_BITS << EXPONENT_BITS);
        cell->word[2] = (uint32_t)fixed->key << FIRST_COUNT_BITS | (uint32_t)fixed->count;
        return 0;
    }
    if (!cell->wide) {
        const uint32_t handle = arena_take(&memory->arena, sizeof(struct fixed_block));
        if (handle == ARENA_NONE)
            return TG_EFULL;
        cell->wide = 1;
        cell->word[2] = handle;
    }
    struct fixed_block *block = arena_at(&memory->arena, cell->word[2]);
    *block = (struct fixed_block){fixed->key, fixed->count};
    cell_set_u64(cell, head);
    return 0;
}

static inline int fixed_store(struct limit_memory *memory, struct limit_cell *cell,
                              const struct fixed *fixed)
{
    if (__builtin_expect(fixed->first, 0))
        return first_store(memory, cell, fixed);
    const unsigned bits = key_bits(fixed->exponent);
    if (__builtin_expect(cell->wide, 0))
        algorithm_release_block(memory, cell);
    cell_set_u64(cell, fixed->exponent | fixed->key << EXPONENT_BITS |
                           fixed->count >> 32 << (EXPONENT_BITS + bits));
    cell->word[2] = (uint32_t)fixed->count;
    return 0;
}

static void fixed_prepare(struct limit_memory *memory, struct limit_plan *plan)
{
    (void)memory;
    plan->exponent = limit_is_calendar(plan->limit.align)
                         ? (uint8_t)limit_calendar_exponent(plan->limit.align)
                         : window_exponent(plan->limit.window_ns);
}

/* When the cell's window is surely over, by what the cell knows. */
static int64_t fixed_expires_of(const struct fixed *fixed)
{
    if (fixed->count == 0)
        return 0;
    if (!fixed->first)
        return window_key_expires_ns(fixed->key, fixed->exponent, 1);
    const uint64_t longest_ns = (UINT64_C(1) << fixed->exponent) * WINDOW_NS_PER_MS;
    return longest_ns > INT64_MAX ? INT64_MAX : sat_add((int64_t)fixed->key, (int64_t)longest_ns);
}

/* ---- which window ---------------------------------------------------------------------------- */

/* The window that a request counts in, and what was counted there. */
struct place {
    uint64_t key;
    uint64_t used;
    int64_t start_ns; /* of one that lies ahead; else of now, or before */
    int64_t end_ns;
    bool carried; /* used was counted in a window of another grid or length */
};

static inline struct place epoch_place(const struct limit_plan *plan, const struct fixed *fixed,
                                       int64_t now_ns)
{
    const bool none = fixed->count == 0;
    const struct window_place at = window_locate(plan, none ? plan->exponent : fixed->exponent,
                                                 none ? 0 : fixed->key, 1, now_ns);
    const bool counts = at.relation == WINDOW_SAME || at.relation == WINDOW_CHANGED;
    return (struct place){
        .key = at.key,
        .used = counts ? fixed->count : 0,
        .start_ns = at.start_ns,
        .end_ns = sat_add(at.start_ns, (int64_t)plan->limit.window_ns),
        .carried = at.relation == WINDOW_CHANGED && fixed->count > 0,
    };
}

/* Carries what was counted into a window of another grid: all that is not surely over. */
static void carry(struct place *place, const struct fixed *fixed, int64_t now_ns)
{
    place->used = fixed_expires_of(fixed) > now_ns ? fixed->count : 0;
    place->carried = place->used > 0;
}

/* A window begun by a request lasts for the limit's window, whatever it was when it began. */
static struct place first_place(const struct limit_plan *plan, const struct fixed *fixed,
                                int64_t now_ns)
{
    struct place place = {.key = (uint64_t)now_ns};
    if (fixed->first && fixed->count > 0 &&
        sat_add((int64_t)fixed->key, (int64_t)plan->limit.window_ns) > now_ns) {
        place.key = fixed->key;
        place.used = fixed->count;
        place.carried = fixed->exponent != plan->exponent;
    } else if (fixed->first) { /* over for this limit; for another one it may not be */
        place.carried = fixed->exponent != plan->exponent && fixed_expires_of(fixed) > now_ns;
    } else {
        carry(&place, fixed, now_ns);
    }
    place.start_ns = (int64_t)place.key;
    place.end_ns = sat_add(place.start_ns, (int64_t)plan->limit.window_ns);
    return place;
}

/* The window of now on the calendar: the one that came along, or one of its neighbours
 * (FIXEDWINDOW-3). Whoever found it may have a clock that is ahead by more: then as many windows
 * before as it takes, for a window that has not begun would be denied to all whose clocks are
 * right. */
static int64_t calendar_start(const struct limit *limit, int64_t now_ns)
{
    const int64_t end_ns = sat_add(limit->start_ns, (int64_t)limit->window_ns);
    if (now_ns >= end_ns)
        return end_ns + (now_ns - end_ns) / (int64_t)limit->window_ns * (int64_t)limit->window_ns;
    if (now_ns >= limit->start_ns)
        return limit->start_ns;
    const int64_t before_ns = (int64_t)limit->before_s * 1000 * WINDOW_NS_PER_MS;
    const int64_t start_ns = limit->start_ns > before_ns ? limit->start_ns - before_ns : 0;
    if (start_ns <= now_ns)
        return start_ns;
    const int64_t windows = (start_ns - now_ns - 1) / (int64_t)limit->window_ns + 1;
    const int64_t back_ns =
        windows * (int64_t)limit->window_ns; /* what it goes back, and one more */
    return start_ns > back_ns ? start_ns - back_ns : 0;
}

/* Whether the cell's window came before the one that starts at `start_ns`, and is over. */
static bool calendar_over(const struct limit *limit, const struct fixed *fixed, unsigned exponent,
                          int64_t start_ns)
{
    if (fixed->exponent != exponent)
        return false;
    const int64_t before_ns = calendar_start(limit, limit->start_ns - 1);
    if (start_ns == limit->start_ns && fixed->key == window_key(before_ns, exponent))
        return true;
    if (start_ns > limit->start_ns && fixed->key == window_key(limit->start_ns, exponent))
        return true;
    const enum window_gap gap =
        window_gap(fixed->exponent, fixed->key, exponent, window_key(start_ns, exponent));
    return gap == WINDOW_GAP_NEXT || gap == WINDOW_GAP_NEAR || gap == WINDOW_GAP_FAR;
}

/* The beginning of a key's window, which is later than that of now. */
static int64_t later_start(const struct limit *limit, uint64_t key, unsigned exponent)
{
    const int64_t end_ns = sat_add(limit->start_ns, (int64_t)limit->window_ns);
    if (key == window_key(limit->start_ns, exponent))
        return limit->start_ns;
    return key == window_key(end_ns, exponent) ? end_ns
                                               : window_key_ms(key, exponent) * WINDOW_NS_PER_MS;
}

static struct place calendar_place_of(const struct limit_plan *plan, const struct fixed *fixed,
                                      int64_t now_ns)
{
    const struct limit *limit = &plan->limit;
    const int64_t start_ns = calendar_start(limit, now_ns);
    struct place place = {.key = window_key(start_ns, plan->exponent)};
    int64_t begins_ns = start_ns;
    if (fixed->first) {
        carry(&place, fixed, now_ns);
    } else if (fixed->count > 0 && fixed->exponent == plan->exponent && fixed->key > place.key) {
        place.key = fixed->key; /* FIXEDWINDOW-2 */
        place.used = fixed->count;
        begins_ns = later_start(limit, fixed->key, fixed->exponent);
    } else if (fixed->count > 0 && fixed->exponent == plan->exponent && fixed->key == place.key) {
        place.used = fixed->count;
    } else if (!calendar_over(limit, fixed, plan->exponent, start_ns)) {
        carry(&place, fixed, now_ns);
    }
    place.start_ns = begins_ns;
    place.end_ns = sat_add(begins_ns, (int64_t)limit->window_ns);
    if (begins_ns < limit->start_ns &&
        begins_ns + (int64_t)limit->before_s * 1000 * WINDOW_NS_PER_MS >= limit->start_ns)
        place.end_ns = limit->start_ns;
    if (place.end_ns <= now_ns)
        place.end_ns = now_ns + 1; /* clocks differ by more than a window: it ends any moment */
    return place;
}

static struct place fixed_place(const struct limit_plan *plan, const struct fixed *fixed,
                                int64_t now_ns)
{
    if (limit_is_calendar(plan->limit.align))
        return calendar_place_of(plan, fixed, now_ns);
    if (plan->limit.align == LIMIT_ALIGN_FIRST)
        return first_place(plan, fixed, now_ns);
    if (!fixed->first)
        return epoch_place(plan, fixed, now_ns);
    const struct fixed none = {.count = 0};
    struct place place = epoch_place(plan, &none, now_ns);
    carry(&place, fixed, now_ns);
    return place;
}

int64_t fixed_window_left_ns(const struct limit_memory *memory, const struct limit_cell *cell,
                             const struct limit_plan *plan, int64_t now_ns)
{
    const struct fixed fixed = fixed_load(memory, cell);
    return sat_sub(fixed_place(plan, &fixed, now_ns).end_ns, now_ns);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* What a request by older rules is charged or given back stays in the window that the cell has. */
static __attribute__((noinline)) int
fixed_store_older(struct limit_memory *memory, struct limit_cell *cell, const struct fixed *fixed,
                  const struct limit_verdict *verdict, const struct limit_request *request)
{
    struct fixed stored = *fixed;
    stored.count = sat_subu(fixed->count + verdict->charge, verdict->refund);
    if (stored.count == fixed->count || request->operation == OPERATION_PEEK)
        return LIMIT_SAME;
    if (fixed_store(memory, cell, &stored) != 0)
        return TG_EFULL;
    return stored.count < fixed->count ? LIMIT_LOWERED : LIMIT_CHANGED;
}

/* Decides in the window at `place`; inlined twice, so that the grid of the epoch costs no branch.
 */
static inline __attribute__((always_inline)) int
fixed_decide(struct limit_memory *memory, struct limit_cell *cell, const struct limit_plan *plan,
             const struct limit_request *request, const struct fixed *fixed,
             const struct place *place, bool first, struct limit_decision *out)
{
    if (limit_ahead(plan, request, place->start_ns) && fixed->count > 0)
        return limit_apply_exhausted(memory, cell, plan, request, out);
    const uint64_t used = limit_owed(place->used, plan, request);
    const struct limit_verdict verdict = limit_judge(used, plan->capacity, request);
    const uint64_t after = sat_subu(place->used + verdict.charge, verdict.refund);

    limit_report(out, &verdict, limit_owed(after, plan, request), plan->capacity);
    const int64_t left_ns = sat_sub(place->end_ns, request->now_ns);
    out->reset_after_ns = after == 0 ? 0 : left_ns;
    if (!verdict.allowed)
        out->retry_after_ns = verdict.retry_cost > plan->capacity ? LIMIT_RETRY_NEVER : left_ns;
    const bool renews = place->carried && limit_rewrites(request); /* ALGORITHM-7 */
    const bool changes = after != place->used;
    if (__builtin_expect(place->carried, 0) && !renews)
        return fixed_store_older(memory, cell, fixed, &verdict, request);
    if ((!changes && !renews) || request->operation == OPERATION_PEEK)
        return LIMIT_SAME;
    const struct fixed stored = {plan->exponent, first, place->key, after};
    if (fixed_store(memory, cell, &stored) != 0) /* what is denied is denied all the same */
        return changes ? TG_EFULL : LIMIT_SAME;
    return after < place->used ? LIMIT_LOWERED : LIMIT_CHANGED;
}

static __attribute__((noinline)) int
aligned_apply(struct limit_memory *memory, struct limit_cell *cell, const struct limit_plan *plan,
              const struct limit_request *request, struct limit_decision *out)
{
    const struct fixed fixed = fixed_load(memory, cell);
    const struct place place = fixed_place(plan, &fixed, request->now_ns);
    const bool first = plan->limit.align == LIMIT_ALIGN_FIRST;
    return fixed_decide(memory, cell, plan, request, &fixed, &place, first, out);
}

static int fixed_apply(struct limit_memory *memory, struct limit_cell *cell,
                       const struct limit_plan *plan, const struct limit_request *request,
                       struct limit_decision *out)
{
    if (__builtin_expect(plan->limit.align != LIMIT_ALIGN_EPOCH || is_first(cell), 0))
        return aligned_apply(memory, cell, plan, request, out);
    const struct fixed fixed = grid_load(cell);
    const struct place place = epoch_place(plan, &fixed, request->now_ns);
    return fixed_decide(memory, cell, plan, request, &fixed, &place, false, out);
}

static int64_t fixed_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct fixed fixed = fixed_load(memory, cell);
    return fixed_expires_of(&fixed);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* | exponent 1, with EXPORT_FIRST if begun by a request | key or start 8 | count 8 | */
enum { FIXED_EXPORT_LEN = 17, EXPORT_FIRST = 0x80 };

static size_t fixed_export_len(const struct limit_memory *memory, const struct limit_cell *cell)
{
    (void)memory;
    (void)cell;
    return FIXED_EXPORT_LEN;
}

static void fixed_put(const struct limit_memory *memory, const struct limit_cell *cell,
                      struct bytes_writer *writer)
{
    const struct fixed fixed = fixed_load(memory, cell);
    bytes_put_u8(writer, (uint8_t)(fixed.exponent | (fixed.first ? EXPORT_FIRST : 0)));
    bytes_put_u64(writer, fixed.key);
    bytes_put_u64(writer, fixed.count);
}

static struct fixed fixed_read(struct bytes_reader *reader)
{
    const uint8_t exponent = bytes_get_u8(reader);
    struct fixed fixed = {.exponent = exponent & (EXPORT_FIRST - 1U),
                          .first = (exponent & EXPORT_FIRST) != 0};
    fixed.key = bytes_get_u64(reader);
    fixed.count = bytes_get_u64(reader);
    return fixed;
}

static bool fixed_valid(const struct fixed *fixed)
{
    if (fixed->exponent > WINDOW_EXPONENT_MAX || fixed->count > LIMIT_USED_MAX)
        return false;
    if (fixed->first)
        return fixed->key <= (uint64_t)LIMIT_NOW_MAX;
    return fixed->key >> key_bits(fixed->exponent) == 0 &&
           (fixed->exponent >= WINDOW_COARSE_EXPONENT || fixed->count >> 47 == 0);
}

static int fixed_get(struct limit_memory *memory, struct bytes_reader *reader,
                     struct limit_cell *cell, int64_t *expires_ns)
{
    const struct fixed fixed = fixed_read(reader);
    if (reader->failed || !fixed_valid(&fixed))
        return TG_ECORRUPT;
    *expires_ns = fixed_expires_of(&fixed);
    if (memory == NULL)
        return 0;
    memset(cell, 0, sizeof *cell);
    return fixed_store(memory, cell, &fixed);
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* The sum of two counts, in the window `to`. */
static void fixed_add(struct fixed *to, uint64_t count)
{
    const uint64_t most = !to->first && to->exponent < WINDOW_COARSE_EXPONENT
                              ? (UINT64_C(1) << 47) - 1
                              : LIMIT_USED_MAX;
    to->count = to->count + count < most ? to->count + count : most;
}

static int64_t begins_ms(const struct fixed *fixed)
{
    return fixed->first ? (int64_t)(fixed->key / WINDOW_NS_PER_MS)
                        : window_key_ms(fixed->key, fixed->exponent);
}

/* Whether a begins after b, or, of other grids, ends after it. */
static bool fixed_later(const struct fixed *a, const struct fixed *b)
{
    if (a->first && b->first && a->exponent == b->exponent)
        return a->key > b->key;
    return begins_ms(a) != begins_ms(b) ? begins_ms(a) > begins_ms(b) : a->exponent > b->exponent;
}

/* Whether the earlier of two windows is over because the later one, `merged`, has begun. Of windows
 * that requests began that is not known: they may overlap. */
static bool fixed_over(const struct fixed *a, const struct fixed *b, const struct fixed *merged,
                       int64_t now_ns)
{
    if (a->first || b->first)
        return false;
    const enum window_gap gap = window_gap(a->exponent, a->key, b->exponent, b->key);
    return (gap == WINDOW_GAP_NEXT || gap == WINDOW_GAP_NEAR || gap == WINDOW_GAP_FAR) &&
           !window_ahead(merged->exponent, merged->key, now_ns);
}

static bool same_window(const struct fixed *a, const struct fixed *b)
{
    return a->exponent == b->exponent && a->first == b->first && a->key == b->key;
}

/* Counts of one window add up. A window that is over vanishes; one whose successor lies ahead of
 * `now`, or that belongs to another grid, is not over, and its count is carried along. */
static int fixed_merge(struct limit_memory *memory, struct limit_cell *cell,
                       struct bytes_reader *base, struct bytes_reader *other, int64_t now_ns)
{
    const struct fixed mine = fixed_load(memory, cell);
    struct fixed gain = fixed_read(other);
    const struct fixed shared = base == NULL ? (struct fixed){0} : fixed_read(base);
    if (fixed_expires_of(&gain) <= now_ns)
        return LIMIT_SAME;
    if (same_window(&shared, &gain))
        gain.count = sat_subu(gain.count, shared.count);
    if (gain.count == 0)
        return LIMIT_SAME;
    const bool later = fixed_later(&gain, &mine);
    struct fixed merged = later ? gain : mine;
    if (fixed_expires_of(&mine) <= now_ns)
        merged = gain;
    else if (!fixed_over(&mine, &gain, &merged, now_ns))
        fixed_add(&merged, later ? mine.count : gain.count);
    if (same_window(&merged, &mine) && merged.count == mine.count)
        return LIMIT_SAME;
    return fixed_store(memory, cell, &merged) != 0 ? TG_EFULL : LIMIT_CHANGED;
}

static void fixed_mark(const struct limit_memory *memory, const struct limit_cell *cell,
                       const struct limit_plan *plan, struct limit_mark *mark)
{
    (void)plan;
    const struct fixed fixed = fixed_load(memory, cell);
    mark->place = fixed.key;
    mark->part = fixed.exponent << 1 | fixed.first;
}

/* A charge is in its window; when that is over it is gone. */
static int fixed_undo(struct limit_memory *memory, struct limit_cell *cell,
                      const struct limit_plan *plan, const struct limit_undo *undo)
{
    (void)plan;
    struct fixed fixed = fixed_load(memory, cell);
    if (fixed.count == 0 || undo->cost == 0 || fixed.key != undo->mark->place ||
        (fixed.exponent << 1 | fixed.first) != undo->mark->part)
        return LIMIT_SAME;
    fixed.count = sat_subu(fixed.count, undo->cost);
    const int rc = fixed_store(memory, cell, &fixed); /* never wider than it was */
    return rc != 0 ? rc : LIMIT_LOWERED;
}

const struct limit_ops fixed_window_ops = {
    .prepare = fixed_prepare,
    .apply = fixed_apply,
    .expires = fixed_expires,
    .release = algorithm_release_block,
    .export_len = fixed_export_len,
    .put = fixed_put,
    .get = fixed_get,
    .merge = fixed_merge,
    .mark = fixed_mark,
    .undo = fixed_undo,
};
