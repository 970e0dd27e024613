/* fixed_window.c - a count that starts afresh at each boundary of the epoch-aligned grid.
 *
 *   |----- window -----|----- window -----|
 *          count c         0 again
 *
 *   cell  | exponent 6 | key 42, count 48 |     windows up to 512 ms
 *         | exponent 6 | key 34, count 56 |     longer ones
 *
 * I1  The count belongs to the window of the key; in any other window it is 0 (or, after the rule's
 *     window changed, carried over once).
 * I2  A window that lies ahead (time went back) goes on counting: nothing is admitted twice.
 *
 * A limit counts at most 10^9 per second, so the count of the shorter windows fits 48 bits, and
 * twice LIMIT_COUNT_MAX fits 56: a fixed window never needs the arena.
 */
#include <string.h>

#include "node/limit/window.h"

_Static_assert(LIMIT_USED_MAX < UINT64_C(1) << 56, "counts fit the cell");

struct fixed {
    unsigned exponent;
    uint64_t key;
    uint64_t count;
};

static unsigned key_bits(unsigned exponent)
{
    return WINDOW_KEY_BITS - window_shift(exponent);
}

/* Word 1 and 0 hold exponent, key and the count's upper bits; word 2 its lower 32. */
static struct fixed fixed_load(const struct limit_cell *cell)
{
    const uint64_t head = cell_u64(cell);
    struct fixed fixed = {.exponent = (unsigned)(head & 63)};
    const unsigned bits = key_bits(fixed.exponent);
    fixed.key = head >> 6 & ((1ULL << bits) - 1);
    fixed.count = head >> (6 + bits) << 32 | cell->word[2];
    return fixed;
}

static void fixed_store(struct limit_cell *cell, const struct fixed *fixed)
{
    const unsigned bits = key_bits(fixed->exponent);
    cell_set_u64(cell, fixed->exponent | fixed->key << 6 | fixed->count >> 32 << (6 + bits));
    cell->word[2] = (uint32_t)fixed->count;
}

static void fixed_prepare(struct limit_memory *memory, struct limit_plan *plan)
{
    (void)memory;
    plan->exponent = window_exponent(plan->limit.window_ns);
}

static int fixed_apply(struct limit_memory *memory, struct limit_cell *cell,
                       const struct limit_plan *plan, const struct limit_request *request,
                       struct limit_decision *out)
{
    (void)memory;
    const struct fixed fixed = fixed_load(cell);
    const unsigned exponent = fixed.count == 0 ? plan->exponent : fixed.exponent;
    const struct window_place place =
        window_locate(plan, exponent, fixed.count == 0 ? 0 : fixed.key, 1, request->now_ns);
    const bool counts = place.relation == WINDOW_SAME || place.relation == WINDOW_CHANGED;
    const uint64_t used = counts ? fixed.count : 0;
    const struct limit_verdict verdict = limit_judge(used, plan->capacity, request);
    const uint64_t after = sat_subu(used + verdict.charge, verdict.refund);

    limit_report(out, &verdict, after, plan->capacity);
    const int64_t left_ns =
        sat_sub(sat_add(place.start_ns, (int64_t)plan->limit.window_ns), request->now_ns);
    out->reset_after_ns = after == 0 ? 0 : left_ns;
    if (!verdict.allowed)
        out->retry_after_ns = verdict.retry_cost > plan->capacity ? LIMIT_RETRY_NEVER : left_ns;
    if (after == used || request->operation == OPERATION_PEEK)
        return LIMIT_SAME;
    fixed_store(cell, &(struct fixed){plan->exponent, place.key, after});
    return after < used ? LIMIT_LOWERED : LIMIT_CHANGED;
}

static int64_t fixed_expires_of(const struct fixed *fixed)
{
    return fixed->count == 0 ? 0 : window_key_expires_ns(fixed->key, fixed->exponent, 1);
}

static int64_t fixed_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    (void)memory;
    const struct fixed fixed = fixed_load(cell);
    return fixed_expires_of(&fixed);
}

/* | exponent 1 | key 8 | count 8 | */
enum { FIXED_EXPORT_LEN = 17 };

static size_t fixed_export_len(const struct limit_memory *memory, const struct limit_cell *cell)
{
    (void)memory;
    (void)cell;
    return FIXED_EXPORT_LEN;
}

static void fixed_put(const struct limit_memory *memory, const struct limit_cell *cell,
                      struct bytes_writer *writer)
{
    (void)memory;
    const struct fixed fixed = fixed_load(cell);
    bytes_put_u8(writer, (uint8_t)fixed.exponent);
    bytes_put_u64(writer, fixed.key);
    bytes_put_u64(writer, fixed.count);
}

static int fixed_get(struct limit_memory *memory, struct bytes_reader *reader,
                     struct limit_cell *cell, int64_t *expires_ns)
{
    struct fixed fixed = {.exponent = bytes_get_u8(reader)};
    fixed.key = bytes_get_u64(reader);
    fixed.count = bytes_get_u64(reader);
    if (reader->failed || fixed.exponent > WINDOW_EXPONENT_MAX ||
        fixed.key >> key_bits(fixed.exponent) != 0 || fixed.count > LIMIT_USED_MAX ||
        (fixed.exponent < WINDOW_COARSE_EXPONENT && fixed.count >> 48 != 0))
        return TG_ECORRUPT;
    *expires_ns = fixed_expires_of(&fixed);
    if (memory == NULL)
        return 0;
    memset(cell, 0, sizeof *cell);
    fixed_store(cell, &fixed);
    return 0;
}

static struct fixed fixed_read(struct bytes_reader *reader)
{
    struct fixed fixed = {.exponent = bytes_get_u8(reader)};
    fixed.key = bytes_get_u64(reader);
    fixed.count = bytes_get_u64(reader);
    return fixed;
}

/* The sum of two counts, in the window `to`. */
static void fixed_add(struct fixed *to, uint64_t count)
{
    const uint64_t most =
        to->exponent < WINDOW_COARSE_EXPONENT ? (UINT64_C(1) << 48) - 1 : LIMIT_USED_MAX;
    to->count = to->count + count < most ? to->count + count : most;
}

/* Counts of one window add up. A window that is over vanishes; one whose successor lies ahead of
 * `now`, or that belongs to another grid, is not over, and its count is carried along. */
static int fixed_merge(struct limit_memory *memory, struct limit_cell *cell,
                       struct bytes_reader *base, struct bytes_reader *other, int64_t now_ns)
{
    (void)memory;
    const struct fixed mine = fixed_load(cell);
    struct fixed gain = fixed_read(other);
    const struct fixed shared = base == NULL ? (struct fixed){0} : fixed_read(base);
    if (fixed_expires_of(&gain) <= now_ns)
        return LIMIT_SAME;
    if (shared.exponent == gain.exponent && shared.key == gain.key)
        gain.count = sat_subu(gain.count, shared.count);
    if (gain.count == 0)
        return LIMIT_SAME;
    const bool later = window_later(gain.exponent, gain.key, mine.exponent, mine.key);
    const enum window_gap gap = window_gap(mine.exponent, mine.key, gain.exponent, gain.key);
    struct fixed merged = later ? gain : mine;
    const bool over = (gap == WINDOW_GAP_NEXT || gap == WINDOW_GAP_NEAR || gap == WINDOW_GAP_FAR) &&
                      !window_ahead(merged.exponent, merged.key, now_ns);
    if (fixed_expires_of(&mine) <= now_ns)
        merged = gain;
    else if (!over)
        fixed_add(&merged, later ? mine.count : gain.count);
    if (merged.exponent == mine.exponent && merged.key == mine.key && merged.count == mine.count)
        return LIMIT_SAME;
    fixed_store(cell, &merged);
    return LIMIT_CHANGED;
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
};
