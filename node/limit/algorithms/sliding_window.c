/* sliding_window.c - two counts that approximate a rolling window.
 *
 *        previous          current
 *   |----------------|--------*-------|        used = ceil(previous * (W - elapsed) / W) + current
 *                    |<- e -->| now
 *
 *   cell  | exponent 6 | key 42 | previous 24 | current 24 |    windows up to 512 ms
 *         | exponent 6 | key 34 | previous 28 | current 28 |    longer ones
 *         | exponent 6 | key      | 0         | handle 32  |    wide: the counts are in the arena
 *
 * SLIDINGWINDOW-1  used is exact: products in 128 bits, one division, rounded up.
 * SLIDINGWINDOW-2  As time goes on and nothing is taken, used never rises; so the first moment at
 *                  which a cost fits can be computed, and is what retry_after says.
 * SLIDINGWINDOW-3  After a window without an event previous is 0.
 * SLIDINGWINDOW-4  A window that lies ahead goes on counting, unless it is further ahead than
 *                  clocks differ (ALGORITHM-9).
 */
#include <string.h>

#include "node/limit/algorithms/window.h"

struct sliding {
    unsigned exponent;
    uint64_t key;
    uint64_t previous;
    uint64_t current;
};

/* The block of a wide cell. */
struct sliding_block {
    uint64_t previous;
    uint64_t current;
};

static unsigned key_bits(unsigned exponent)
{
    return WINDOW_KEY_BITS - window_shift(exponent);
}

static unsigned count_bits(unsigned exponent)
{
    return exponent >= WINDOW_COARSE_EXPONENT ? 28 : 24;
}

/* The counts of a wide cell. */
static __attribute__((noinline)) struct sliding_block wide_load(const struct limit_memory *memory,
                                                                const struct limit_cell *cell)
{
    return *(const struct sliding_block *)arena_at(&memory->arena, cell->word[2]);
}

static inline struct sliding sliding_load(const struct limit_memory *memory,
                                          const struct limit_cell *cell)
{
    const uint64_t head = cell_u64(cell);
    const unsigned exponent = (unsigned)(head & 63);
    const unsigned bits = key_bits(exponent);
    const unsigned width = count_bits(exponent);
    const uint64_t counts = head >> (6 + bits) << 32 | cell->word[2];
    struct sliding sliding = {
        .exponent = exponent,
        .key = head >> 6 & ((1ULL << bits) - 1),
        .previous = counts >> width,
        .current = counts & ((1ULL << width) - 1),
    };
    if (__builtin_expect(cell->wide, 0)) {
        const struct sliding_block block = wide_load(memory, cell);
        sliding.previous = block.previous;
        sliding.current = block.current;
    }
    return sliding;
}

/* 0, or TG_EFULL with the cell as it was. */
static __attribute__((noinline)) int wide_store(struct limit_memory *memory,
                                                struct limit_cell *cell, uint64_t head,
                                                uint64_t previous, uint64_t current)
{
    if (!cell->wide) {
        const uint32_t handle = arena_take(&memory->arena, sizeof(struct sliding_block));
        if (handle == ARENA_NONE)
            return TG_EFULL;
        cell->wide = 1;
        cell->word[2] = handle;
    }
    struct sliding_block *block = arena_at(&memory->arena, cell->word[2]);
    *block = (struct sliding_block){previous, current};
    cell_set_u64(cell, head);
    return 0;
}

/* The same of any cell. */
static inline int sliding_store(struct limit_memory *memory, struct limit_cell *cell,
                                const struct sliding *sliding)
{
    const unsigned bits = key_bits(sliding->exponent);
    const unsigned width = count_bits(sliding->exponent);
    const uint64_t head = sliding->exponent | sliding->key << 6;
    if (__builtin_expect((sliding->previous | sliding->current) >> width != 0, 0))
        return wide_store(memory, cell, head, sliding->previous, sliding->current);
    if (__builtin_expect(cell->wide, 0))
        algorithm_release_block(memory, cell);
    const uint64_t counts = sliding->previous << width | sliding->current;
    cell_set_u64(cell, head | counts >> 32 << (6 + bits));
    cell->word[2] = (uint32_t)counts;
    return 0;
}

static void sliding_prepare(struct limit_memory *memory, struct limit_plan *plan)
{
    (void)memory;
    plan->exponent = window_exponent(plan->limit.window_ns);
}

/* The counts as they are at `place`: a cell of the previous window has moved on by one. */
static void sliding_advance(struct sliding *sliding, const struct window_place *place)
{
    switch (place->relation) {
    case WINDOW_SAME:
    case WINDOW_CHANGED:
        break;
    case WINDOW_PREVIOUS:
        sliding->previous = sliding->current;
        sliding->current = 0;
        break;
    case WINDOW_OLD:
        sliding->previous = 0;
        sliding->current = 0;
        break;
    }
    sliding->key = place->key;
}

static uint64_t weighted(uint64_t count, uint64_t elapsed_ns, uint64_t window_ns)
{
    return sat_muldiv_up(count, window_ns - elapsed_ns, window_ns);
}

/* The first elapsed time at which `count` weighs no more than `room`. */
static uint64_t elapsed_for(uint64_t count, uint64_t room, uint64_t window_ns)
{
    return count <= room ? 0 : window_ns - sat_muldiv(room, window_ns, count);
}

/* From place on, how long until `cost` fits (SLIDINGWINDOW-2). */
static int64_t sliding_retry(const struct sliding *sliding, const struct limit_plan *plan,
                             const struct window_place *place, uint64_t cost)
{
    const uint64_t window_ns = plan->limit.window_ns;
    if (cost > plan->capacity)
        return LIMIT_RETRY_NEVER;
    const uint64_t room = plan->capacity - cost;
    if (sliding->current <= room) {
        const uint64_t at = elapsed_for(sliding->previous, room - sliding->current, window_ns);
        return (int64_t)sat_subu(at, place->elapsed_ns);
    }
    return (int64_t)(window_ns - place->elapsed_ns +
                     elapsed_for(sliding->current, room, window_ns));
}

static int64_t sliding_reset(const struct sliding *sliding, uint64_t window_ns,
                             const struct window_place *place)
{
    if (sliding->current > 0)
        return (int64_t)(2 * window_ns - place->elapsed_ns);
    return sliding->previous > 0 ? (int64_t)(window_ns - place->elapsed_ns) : 0;
}

/* Gives back up to `count` tokens, the youngest first. */
static void sliding_refund(struct sliding *sliding, uint64_t count)
{
    const uint64_t rest = sat_subu(count, sliding->current);
    sliding->current = sat_subu(sliding->current, count);
    sliding->previous = sat_subu(sliding->previous, rest);
}

static int sliding_apply(struct limit_memory *memory, struct limit_cell *cell,
                         const struct limit_plan *plan, const struct limit_request *request,
                         struct limit_decision *out)
{
    const uint64_t window_ns = plan->limit.window_ns;
    struct sliding sliding = sliding_load(memory, cell);
    const bool empty = (sliding.previous | sliding.current) == 0;
    const struct window_place place = window_locate(plan, empty ? plan->exponent : sliding.exponent,
                                                    empty ? 0 : sliding.key, 2, request->now_ns);
    if (limit_ahead(plan, request, place.start_ns))
        return limit_apply_exhausted(memory, cell, plan, request, out);
    const bool carried = !empty && place.relation == WINDOW_CHANGED;
    const unsigned exponent = sliding.exponent;
    const uint64_t key = sliding.key;
    sliding_advance(&sliding, &place);
    sliding.exponent = plan->exponent;
    uint64_t weight = weighted(sliding.previous, place.elapsed_ns, window_ns);
    const uint64_t used = limit_owed(sliding.current + weight, plan, request);
    const struct limit_verdict verdict = limit_judge(used, plan->capacity, request);
    const struct sliding before = sliding;
    sliding.current += verdict.charge;
    sliding_refund(&sliding, verdict.refund);

    const bool renews = carried && limit_rewrites(request); /* ALGORITHM-7 */
    const bool takes = sliding.current != before.current || sliding.previous != before.previous;
    bool changed = renews || takes;
    if (__builtin_expect(carried && !renews, 0)) {
        sliding.exponent = exponent; /* on its own grid */
        sliding.key = key;
    }
    if (changed && request->operation != OPERATION_PEEK &&
        sliding_store(memory, cell, &sliding) != 0) {
        if (takes)
            return TG_EFULL;
        changed = false; /* what is denied is denied all the same */
    }
    if (sliding.previous != before.previous)
        weight = weighted(sliding.previous, place.elapsed_ns, window_ns);
    limit_report(out, &verdict, limit_owed(sliding.current + weight, plan, request),
                 plan->capacity);
    /* When the cell's window lies ahead, place is its beginning: add the way there. */
    const int64_t ahead_ns = sat_sub(place.start_ns + (int64_t)place.elapsed_ns, request->now_ns);
    out->reset_after_ns = sliding_reset(&sliding, window_ns, &place);
    if (out->reset_after_ns > 0)
        out->reset_after_ns = sat_add(out->reset_after_ns, ahead_ns);
    if (!verdict.allowed) {
        out->retry_after_ns = sliding_retry(&sliding, plan, &place, verdict.retry_cost);
        if (out->retry_after_ns != LIMIT_RETRY_NEVER)
            out->retry_after_ns = sat_add(out->retry_after_ns, ahead_ns);
    }
    if (!changed || request->operation == OPERATION_PEEK)
        return LIMIT_SAME;
    return verdict.refund != 0 ? LIMIT_LOWERED : LIMIT_CHANGED;
}

static int64_t sliding_expires_of(const struct sliding *sliding)
{
    if ((sliding->previous | sliding->current) == 0)
        return 0;
    return window_key_expires_ns(sliding->key, sliding->exponent, 2);
}

static int64_t sliding_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct sliding sliding = sliding_load(memory, cell);
    return sliding_expires_of(&sliding);
}

/* | exponent 1 | key 8 | previous 8 | current 8 | */
enum { SLIDING_EXPORT_LEN = 25 };

static size_t sliding_export_len(const struct limit_memory *memory, const struct limit_cell *cell)
{
    (void)memory;
    (void)cell;
    return SLIDING_EXPORT_LEN;
}

static void sliding_put(const struct limit_memory *memory, const struct limit_cell *cell,
                        struct bytes_writer *writer)
{
    const struct sliding sliding = sliding_load(memory, cell);
    bytes_put_u8(writer, (uint8_t)sliding.exponent);
    bytes_put_u64(writer, sliding.key);
    bytes_put_u64(writer, sliding.previous);
    bytes_put_u64(writer, sliding.current);
}

static int sliding_get(struct limit_memory *memory, struct bytes_reader *reader,
                       struct limit_cell *cell, int64_t *expires_ns)
{
    struct sliding sliding = {.exponent = bytes_get_u8(reader)};
    sliding.key = bytes_get_u64(reader);
    sliding.previous = bytes_get_u64(reader);
    sliding.current = bytes_get_u64(reader);
    if (reader->failed || sliding.exponent > WINDOW_EXPONENT_MAX ||
        sliding.key >> key_bits(sliding.exponent) != 0 || sliding.previous > LIMIT_USED_MAX ||
        sliding.current > LIMIT_USED_MAX)
        return TG_ECORRUPT;
    *expires_ns = sliding_expires_of(&sliding);
    if (memory == NULL)
        return 0;
    memset(cell, 0, sizeof *cell);
    return sliding_store(memory, cell, &sliding);
}

static struct sliding sliding_read(struct bytes_reader *reader)
{
    struct sliding sliding = {.exponent = bytes_get_u8(reader)};
    sliding.key = bytes_get_u64(reader);
    sliding.previous = bytes_get_u64(reader);
    sliding.current = bytes_get_u64(reader);
    return sliding;
}

static uint64_t count_sum(uint64_t a, uint64_t b)
{
    return a + b < LIMIT_USED_MAX ? a + b : LIMIT_USED_MAX;
}

/* Takes from `gain` what `shared` holds of the same windows, as far as they are surely the same. */
static void sliding_subtract(struct sliding *gain, const struct sliding *shared)
{
    const enum window_gap gap =
        window_gap(shared->exponent, shared->key, gain->exponent, gain->key);
    if (gap == WINDOW_GAP_NONE) {
        gain->previous = sat_subu(gain->previous, shared->previous);
        gain->current = sat_subu(gain->current, shared->current);
    } else if (gap == WINDOW_GAP_NEXT && shared->key < gain->key) {
        gain->previous = sat_subu(gain->previous, shared->current);
    }
}

/* Adds counts of an earlier (or the same) window to those of `to`. When `to` lies ahead of now,
 * time stands at its beginning (window_locate), where `previous` weighs in full: nothing is lost.
 */
static void sliding_add(struct sliding *to, const struct sliding *from, bool ahead)
{
    const enum window_gap gap = window_gap(from->exponent, from->key, to->exponent, to->key);
    if (gap == WINDOW_GAP_NONE || gap == WINDOW_GAP_UNRELATED) {
        to->previous = count_sum(to->previous, from->previous);
        to->current = count_sum(to->current, from->current);
        return;
    }
    if (gap != WINDOW_GAP_FAR || ahead)
        to->previous = count_sum(to->previous, from->current);
    if (ahead)
        to->previous = count_sum(to->previous, from->previous);
}

/* Each window's counts add up; what has left the two windows of the later cell vanishes. */
static int sliding_merge(struct limit_memory *memory, struct limit_cell *cell,
                         struct bytes_reader *base, struct bytes_reader *other, int64_t now_ns)
{
    const struct sliding mine = sliding_load(memory, cell);
    struct sliding gain = sliding_read(other);
    const struct sliding shared = base == NULL ? (struct sliding){0} : sliding_read(base);
    if (sliding_expires_of(&gain) <= now_ns)
        return LIMIT_SAME;
    sliding_subtract(&gain, &shared);
    if ((gain.previous | gain.current) == 0)
        return LIMIT_SAME;
    const bool later = window_later(gain.exponent, gain.key, mine.exponent, mine.key);
    struct sliding merged = later ? gain : mine;
    if (sliding_expires_of(&mine) <= now_ns)
        merged = gain;
    else
        sliding_add(&merged, later ? &mine : &gain,
                    window_ahead(merged.exponent, merged.key, now_ns));
    if (merged.exponent == mine.exponent && merged.key == mine.key &&
        merged.previous == mine.previous && merged.current == mine.current)
        return LIMIT_SAME;
    return sliding_store(memory, cell, &merged) != 0 ? TG_EFULL : LIMIT_CHANGED;
}

static void sliding_mark(const struct limit_memory *memory, const struct limit_cell *cell,
                         const struct limit_plan *plan, struct limit_mark *mark)
{
    const struct sliding sliding = sliding_load(memory, cell);
    (void)plan;
    mark->place = sliding.key;
    mark->part = sliding.exponent;
}

/* A charge is in its window, be that the current one or the one before. */
static int sliding_undo(struct limit_memory *memory, struct limit_cell *cell,
                        const struct limit_plan *plan, const struct limit_undo *undo)
{
    const uint64_t window_ns = plan->limit.window_ns;
    struct sliding sliding = sliding_load(memory, cell);
    if (sliding.exponent != undo->mark->part || sliding.exponent != plan->exponent)
        return LIMIT_SAME; /* the rule's window has changed */
    const int64_t start_ns = window_key_start_ns(sliding.key, sliding.exponent, window_ns);
    const int64_t mark_ns = window_key_start_ns(undo->mark->place, sliding.exponent, window_ns);
    uint64_t *count = NULL;
    if (sliding.key == undo->mark->place)
        count = &sliding.current;
    else if (mark_ns + (int64_t)window_ns == start_ns)
        count = &sliding.previous;
    if (count == NULL || *count == 0 || undo->cost == 0)
        return LIMIT_SAME;
    *count = sat_subu(*count, undo->cost);
    const int rc = sliding_store(memory, cell, &sliding); /* never wider than it was */
    return rc != 0 ? rc : LIMIT_LOWERED;
}

const struct limit_ops sliding_window_ops = {
    .prepare = sliding_prepare,
    .apply = sliding_apply,
    .expires = sliding_expires,
    .release = algorithm_release_block,
    .export_len = sliding_export_len,
    .put = sliding_put,
    .get = sliding_get,
    .merge = sliding_merge,
    .mark = sliding_mark,
    .undo = sliding_undo,
};
