/* sliding_buckets.c - a rolling window cut into sub-windows, of which only the counts are kept.
 *
 *        part-covered        the k - 1 before                current
 *   |-------|-------|-------|-------|-------|-------|-------|---*---|      k = 6
 *           |<- whole ->|                                       | now
 *             (now - W ..........................................now]
 *
 * Sub-windows lie on a grid from the epoch and are W / k long, rounded up to a ns. The rolling
 * window touches k + 1 of them at most; the oldest one counts whole, so an event counts for W at
 * least and for W + W/k at most.
 *
 *   cell   wide, handle in word 2 (all zero: nothing counted)
 *   block  | newest 8 | window 8 | total 8 | cut 1 | width 1 | - 6 | (cut + 1) counts of width |
 *
 * The counts are a ring: sub-window i is at place i modulo cut + 1. They are 2 bytes wide, and move
 * to a block of 4 or 8 when one of them needs it.
 *
 * SLIDINGBUCKETS-1  Never more than the limit is admitted in any interval (t - W, t].
 * SLIDINGBUCKETS-2  total is the sum of the ring, which holds sub-windows newest - cut .. newest.
 * SLIDINGBUCKETS-3  A time that goes back counts in the newest sub-window: nothing leaves early. A
 *                   newest one that is further ahead than clocks differ is none (ALGORITHM-9).
 * SLIDINGBUCKETS-4  Where counts move to another grid, because the rule has changed, each goes to
 *                   the sub-window of its latest possible moment: none leaves early.
 */
#include <string.h>

#include "node/limit/algorithms/algorithm.h"

enum { BUCKETS_HEADER_LEN = 32, RING_MAX = LIMIT_BUCKETS_MAX + 1, WIDTH_MIN = 2, WIDTH_MAX = 8 };

struct buckets {
    uint64_t newest;
    uint64_t window_ns;
    uint64_t total;
    uint8_t cut; /* 0: nothing was ever counted */
    uint8_t width;
    uint8_t unused[6];
    uint8_t counts[];
};

_Static_assert(sizeof(struct buckets) == BUCKETS_HEADER_LEN, "the header is what the comment says");
_Static_assert(RING_MAX <= UINT8_MAX + 1, "the cut fits its byte");

/* A block of the largest size and width, to work in. */
union ledger {
    struct buckets buckets;
    uint64_t words[BUCKETS_HEADER_LEN / sizeof(uint64_t) + RING_MAX];
};

static uint64_t sub_ns(uint64_t window_ns, unsigned cut)
{
    return (window_ns + cut - 1) / cut;
}

static size_t buckets_len(unsigned cut, unsigned width)
{
    return BUCKETS_HEADER_LEN + ((size_t)cut + 1) * width;
}

static struct buckets *buckets_of(const struct limit_memory *memory, const struct limit_cell *cell)
{
    return cell->wide ? arena_at(&memory->arena, cell->word[2]) : NULL;
}

static uint64_t count_at(const struct buckets *buckets, uint64_t index)
{
    const size_t place = index % (buckets->cut + 1u);
    const void *at = buckets->counts + place * buckets->width;
    if (buckets->width == sizeof(uint16_t))
        return *(const uint16_t *)at;
    return buckets->width == sizeof(uint32_t) ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static void set_count(struct buckets *buckets, uint64_t index, uint64_t count)
{
    const size_t place = index % (buckets->cut + 1u);
    void *at = buckets->counts + place * buckets->width;
    if (buckets->width == sizeof(uint16_t))
        *(uint16_t *)at = (uint16_t)count;
    else if (buckets->width == sizeof(uint32_t))
        *(uint32_t *)at = (uint32_t)count;
    else
        *(uint64_t *)at = count;
}

static uint64_t count_max(unsigned width)
{
    return width == WIDTH_MAX ? UINT64_MAX : (UINT64_C(1) << (8 * width)) - 1;
}

static struct buckets *ledger_init(union ledger *ledger, uint64_t window_ns, unsigned cut)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->buckets.window_ns = window_ns;
    ledger->buckets.cut = (uint8_t)cut;
    ledger->buckets.width = WIDTH_MAX;
    return &ledger->buckets;
}

/* The oldest sub-window that the ring holds. */
static uint64_t oldest_of(const struct buckets *buckets)
{
    return sat_subu(buckets->newest, buckets->cut);
}

/* The first sub-window that still counts at `now`, and the time at which `index` stops counting. */
static uint64_t first_live(const struct buckets *buckets, int64_t now_ns)
{
    const uint64_t now = (uint64_t)now_ns / sub_ns(buckets->window_ns, buckets->cut);
    return sat_subu(now, buckets->cut);
}

static int64_t leaves_ns(const struct buckets *buckets, uint64_t index)
{
    const unsigned __int128 ns =
        (unsigned __int128)(index + buckets->cut + 1) * sub_ns(buckets->window_ns, buckets->cut);
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

static uint64_t live_total(const struct buckets *buckets, uint64_t first)
{
    if (first > buckets->newest)
        return 0;
    uint64_t total = buckets->total;
    for (uint64_t index = oldest_of(buckets); index < first; index++)
        total -= count_at(buckets, index);
    return total;
}

/* Makes `index` the newest sub-window; those that the ring has no place for are forgotten
 * (SLIDINGBUCKETS-2). */
static void turn(struct buckets *buckets, uint64_t index)
{
    const uint64_t ring = buckets->cut + 1u;
    if (index <= buckets->newest)
        return; /* SLIDINGBUCKETS-3 */
    const uint64_t steps = index - buckets->newest < ring ? index - buckets->newest : ring;
    for (uint64_t i = 0; i < steps; i++) {
        buckets->total -= count_at(buckets, index - i);
        set_count(buckets, index - i, 0);
    }
    buckets->newest = index;
}

/* Adds to a ledger, of which everything counts. What is older than its ring, or becomes so, is kept
 * in the oldest place: longer, not shorter. */
static void ledger_add(struct buckets *to, uint64_t index, uint64_t count)
{
    const uint64_t before = to->total;
    if (before == 0)
        to->newest = index;
    turn(to, index);
    const uint64_t dropped = before - to->total;
    const uint64_t oldest = oldest_of(to);
    set_count(to, oldest, count_at(to, oldest) + dropped);
    to->total += dropped;
    const uint64_t at = index < oldest ? oldest : index;
    const uint64_t room = sat_subu(LIMIT_USED_MAX, to->total);
    const uint64_t added = count < room ? count : room;
    set_count(to, at, count_at(to, at) + added);
    to->total += added;
}

/* Adds what of `from` counts at `now` to a ledger of any grid (SLIDINGBUCKETS-4). */
static void ledger_take(struct buckets *to, const struct buckets *from, int64_t now_ns)
{
    const uint64_t now = (uint64_t)now_ns;
    const uint64_t from_ns = sub_ns(from->window_ns, from->cut);
    const uint64_t to_ns = sub_ns(to->window_ns, to->cut);
    const uint64_t first = first_live(from, now_ns);
    for (uint64_t back = 0; back <= from->cut && back <= from->newest; back++) {
        const uint64_t index = from->newest - back;
        const uint64_t count = count_at(from, index);
        if (index < first)
            return;
        if (count == 0)
            continue;
        uint64_t latest_ns = (index + 1) * from_ns - 1;
        if (latest_ns > now && index * from_ns <= now)
            latest_ns = now;
        if (latest_ns > LIMIT_NOW_MAX)
            latest_ns = LIMIT_NOW_MAX;
        const uint64_t moved = from_ns == to_ns ? index : latest_ns / to_ns;
        if (moved >= first_live(to, now_ns))
            ledger_add(to, moved, count);
    }
}

/* Writes a ledger into the cell, in the narrowest block. 0, or TG_EFULL with nothing changed. */
static int ledger_store(struct limit_memory *memory, struct limit_cell *cell,
                        const struct buckets *ledger)
{
    struct buckets *to = buckets_of(memory, cell);
    uint64_t most = 0;
    unsigned width = WIDTH_MIN;
    for (unsigned place = 0; place <= ledger->cut; place++)
        most |= count_at(ledger, place);
    while (most > count_max(width))
        width *= 2;
    if (ledger->total == 0) {
        if (to != NULL)
            algorithm_release_block(memory, cell);
        return 0;
    }
    if (to == NULL || to->cut != ledger->cut || to->width != width) {
        const uint32_t handle = arena_take(&memory->arena, buckets_len(ledger->cut, width));
        if (handle == ARENA_NONE)
            return TG_EFULL;
        if (to != NULL)
            arena_give(&memory->arena, cell->word[2]);
        to = arena_at(&memory->arena, handle);
        cell->wide = 1;
        cell->word[2] = handle;
    }
    *to = *ledger;
    to->width = (uint8_t)width;
    for (unsigned place = 0; place <= ledger->cut; place++)
        set_count(to, place, count_at(ledger, place));
    return 0;
}

static void buckets_prepare(struct limit_memory *memory, struct limit_plan *plan)
{
    (void)memory;
    plan->cut = plan->limit.buckets != 0 ? plan->limit.buckets : LIMIT_BUCKETS_DEFAULT;
    plan->quantum_ns = sub_ns(plan->limit.window_ns, plan->cut);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Gives back up to `count` tokens, the youngest first. */
static void give_back(struct buckets *buckets, uint64_t count)
{
    for (uint64_t index = buckets->newest; count > 0; index--) {
        const uint64_t have = count_at(buckets, index);
        const uint64_t part = have < count ? have : count;
        set_count(buckets, index, have - part);
        buckets->total -= part;
        count -= part;
        if (index == oldest_of(buckets))
            return;
    }
}

/* Changes the state as the verdict says; what does not count any more goes by the way. */
static void change(struct buckets *buckets, const struct limit_verdict *verdict, uint64_t now)
{
    turn(buckets, now);
    set_count(buckets, buckets->newest, count_at(buckets, buckets->newest) + verdict->charge);
    buckets->total += verdict->charge;
    give_back(buckets, verdict->refund);
}

/* Whether the block can take the verdict as it is: it has the plan's grid, and room in its width.
 */
static bool fits(const struct buckets *buckets, const struct limit_plan *plan,
                 const struct limit_verdict *verdict)
{
    return buckets != NULL && buckets->cut == plan->cut &&
           buckets->window_ns == plan->limit.window_ns &&
           verdict->charge <= count_max(buckets->width) &&
           count_at(buckets, buckets->newest) <= count_max(buckets->width) - verdict->charge;
}

/* Until when something counts, if `charge` is added now. */
static int64_t reset_ns(const struct buckets *buckets, uint64_t charge, uint64_t now,
                        int64_t now_ns)
{
    const uint64_t newest = buckets->newest > now ? buckets->newest : now;
    if (charge > 0)
        return leaves_ns(buckets, newest) - now_ns;
    const uint64_t first = sat_subu(now, buckets->cut);
    for (uint64_t index = buckets->newest; index >= first; index--) {
        if (count_at(buckets, index) > 0)
            return leaves_ns(buckets, index) - now_ns;
        if (index == oldest_of(buckets))
            break;
    }
    return 0;
}

/* How long until enough of the oldest have left for `cost` to fit. `used` tokens are counted, of
 * which those that are not in the ring came now. */
static int64_t retry_ns(const struct buckets *buckets, const struct limit_plan *plan, uint64_t used,
                        uint64_t cost, uint64_t now, int64_t now_ns)
{
    if (cost > plan->capacity)
        return LIMIT_RETRY_NEVER;
    const uint64_t oldest = oldest_of(buckets);
    uint64_t index = sat_subu(now, buckets->cut);
    if (index < oldest)
        index = oldest;
    const uint64_t newest = buckets->newest > now ? buckets->newest : now;
    for (; index <= buckets->newest && index < newest; index++) {
        used -= count_at(buckets, index);
        if (used + cost <= plan->capacity)
            return leaves_ns(buckets, index) - now_ns;
    }
    return leaves_ns(buckets, newest) - now_ns;
}

/* The state under the plan's grid: the block itself, or a ledger made of it. */
static struct buckets *state_of(struct buckets *buckets, const struct limit_plan *plan,
                                union ledger *ledger, int64_t now_ns)
{
    if (buckets != NULL && buckets->cut == plan->cut && buckets->window_ns == plan->limit.window_ns)
        return buckets;
    struct buckets *state = ledger_init(ledger, plan->limit.window_ns, plan->cut);
    if (buckets != NULL)
        ledger_take(state, buckets, now_ns);
    return state;
}

/* Writes the change into the block, or into a new one through the ledger. */
static int store_change(struct limit_memory *memory, struct limit_cell *cell,
                        const struct limit_plan *plan, const struct limit_verdict *verdict,
                        struct buckets *state, uint64_t now)
{
    struct buckets *block = buckets_of(memory, cell);
    if (state == block && fits(block, plan, verdict)) {
        change(block, verdict, now);
        if (block->total == 0)
            algorithm_release_block(memory, cell);
        return 0;
    }
    union ledger wider;
    if (state == block) {
        state = ledger_init(&wider, plan->limit.window_ns, plan->cut);
        state->newest = block->newest;
        state->total = block->total;
        for (unsigned place = 0; place <= block->cut; place++)
            set_count(state, place, count_at(block, place));
    }
    change(state, verdict, now);
    return ledger_store(memory, cell, state);
}

/* The same of a request by older rules: into the block as it lies, on a grid of its own
 * (ALGORITHM-7). */
static int store_older(struct limit_memory *memory, struct limit_cell *cell,
                       const struct limit_plan *plan, const struct limit_verdict *verdict,
                       int64_t now_ns)
{
    struct buckets *block = buckets_of(memory, cell);
    struct limit_plan own = *plan;
    own.cut = block->cut;
    own.limit.window_ns = block->window_ns;
    own.quantum_ns = sub_ns(block->window_ns, block->cut);
    return store_change(memory, cell, &own, verdict, block, (uint64_t)now_ns / own.quantum_ns);
}

/* When the newest sub-window begins. */
static int64_t begins_ns(const struct buckets *block)
{
    const unsigned __int128 ns =
        (unsigned __int128)block->newest * sub_ns(block->window_ns, block->cut);
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* Whether the block counts anything now, on its own grid. */
static bool is_live(const struct buckets *block, int64_t now_ns)
{
    return live_total(block, first_live(block, now_ns)) > 0;
}

static int buckets_apply(struct limit_memory *memory, struct limit_cell *cell,
                         const struct limit_plan *plan, const struct limit_request *request,
                         struct limit_decision *out)
{
    union ledger ledger;
    const int64_t now_ns = request->now_ns;
    const uint64_t now = (uint64_t)now_ns / plan->quantum_ns;
    const uint64_t first = sat_subu(now, plan->cut);
    const struct buckets *block = buckets_of(memory, cell);
    if (block != NULL && limit_ahead(plan, request, begins_ns(block)))
        return limit_apply_exhausted(memory, cell, plan, request, out);
    struct buckets *state = state_of(buckets_of(memory, cell), plan, &ledger, now_ns);
    const uint64_t kept = live_total(state, first);
    const uint64_t used = limit_owed(kept, plan, request);
    const struct limit_verdict verdict = limit_judge(used, plan->capacity, request);
    const uint64_t after = sat_subu(kept + verdict.charge, verdict.refund);
    const bool peek = request->operation == OPERATION_PEEK;
    bool renewed = false;
    const bool other = block != NULL && state != block;
    const bool renews = other && kept > 0 && limit_rewrites(request);
    const bool older = other && (request->flags & LIMIT_OLDER) != 0 && is_live(block, now_ns);
    const int64_t retry_after_ns = verdict.allowed ? 0
                                                   : retry_ns(state, plan, kept + verdict.charge,
                                                              verdict.retry_cost, now, now_ns);
    const bool changes = (verdict.charge | verdict.refund) != 0 && (after != kept || older);
    if (!peek && (changes || renews)) {
        const int rc = older ? store_older(memory, cell, plan, &verdict, now_ns)
                             : store_change(memory, cell, plan, &verdict, state, now);
        if (rc != 0 && changes)
            return rc;
        renewed = rc == 0; /* else there was no room to rewrite what is denied all the same */
        state = state_of(buckets_of(memory, cell), plan, &ledger, now_ns);
    }
    limit_report(out, &verdict, limit_owed(after, plan, request), plan->capacity);
    out->retry_after_ns = retry_after_ns;
    out->reset_after_ns = after == 0 ? 0 : reset_ns(state, verdict.charge, now, now_ns);
    if (!renewed)
        return LIMIT_SAME;
    return verdict.refund > 0 || after < kept ? LIMIT_LOWERED : LIMIT_CHANGED;
}

/* Names the grid of a block, so that a sub-window of another one is not taken for it. */
static uint32_t grid_of(uint64_t window_ns, unsigned cut)
{
    return (uint32_t)hash_mix64(window_ns << 8 ^ cut);
}

static void buckets_mark(const struct limit_memory *memory, const struct limit_cell *cell,
                         const struct limit_plan *plan, struct limit_mark *mark)
{
    const struct buckets *buckets = buckets_of(memory, cell);
    (void)plan;
    mark->place = buckets->newest; /* it was counted there just now */
    mark->part = grid_of(buckets->window_ns, buckets->cut);
}

/* A charge is in its sub-window, as long as the ring holds that. */
static int buckets_undo(struct limit_memory *memory, struct limit_cell *cell,
                        const struct limit_plan *plan, const struct limit_undo *undo)
{
    struct buckets *buckets = buckets_of(memory, cell);
    const uint64_t index = undo->mark->place;
    (void)plan;
    if (buckets == NULL || grid_of(buckets->window_ns, buckets->cut) != undo->mark->part ||
        index < oldest_of(buckets) || index > buckets->newest)
        return LIMIT_SAME;
    const uint64_t have = count_at(buckets, index);
    const uint64_t less = have < undo->cost ? have : undo->cost;
    if (less == 0)
        return LIMIT_SAME;
    set_count(buckets, index, have - less);
    buckets->total -= less;
    if (buckets->total == 0)
        algorithm_release_block(memory, cell);
    return LIMIT_LOWERED;
}

static int64_t buckets_expires(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct buckets *buckets = buckets_of(memory, cell);
    return buckets == NULL ? 0 : leaves_ns(buckets, buckets->newest);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* | window 8 | newest 8 | cut 1 | width 1 | counts, oldest first |   cut 0: nothing counted */
enum { BUCKETS_EXPORT_HEADER_LEN = 18 };

static size_t buckets_export_len(const struct limit_memory *memory, const struct limit_cell *cell)
{
    const struct buckets *buckets = buckets_of(memory, cell);
    return BUCKETS_EXPORT_HEADER_LEN +
           (buckets == NULL ? 0 : (buckets->cut + (size_t)1) * buckets->width);
}

static void put_count(struct bytes_writer *writer, unsigned width, uint64_t count)
{
    if (width == sizeof(uint16_t))
        bytes_put_u16(writer, (uint16_t)count);
    else if (width == sizeof(uint32_t))
        bytes_put_u32(writer, (uint32_t)count);
    else
        bytes_put_u64(writer, count);
}

static uint64_t get_count(struct bytes_reader *reader, unsigned width)
{
    if (width == sizeof(uint16_t))
        return bytes_get_u16(reader);
    return width == sizeof(uint32_t) ? bytes_get_u32(reader) : bytes_get_u64(reader);
}

static void buckets_put(const struct limit_memory *memory, const struct limit_cell *cell,
                        struct bytes_writer *writer)
{
    const struct buckets *buckets = buckets_of(memory, cell);
    bytes_put_u64(writer, buckets == NULL ? 0 : buckets->window_ns);
    bytes_put_u64(writer, buckets == NULL ? 0 : buckets->newest);
    bytes_put_u8(writer, buckets == NULL ? 0 : buckets->cut);
    bytes_put_u8(writer, buckets == NULL ? 0 : buckets->width);
    for (uint64_t i = 0; buckets != NULL && i <= buckets->cut; i++) {
        const uint64_t back = buckets->cut - i;
        put_count(writer, buckets->width,
                  back > buckets->newest ? 0 : count_at(buckets, buckets->newest - back));
    }
}

/* Reads what buckets_put wrote into a ledger. 0 or TG_ECORRUPT. */
static int ledger_read(union ledger *ledger, struct bytes_reader *reader)
{
    const uint64_t window_ns = bytes_get_u64(reader);
    const uint64_t newest = bytes_get_u64(reader);
    const uint8_t cut = bytes_get_u8(reader);
    const uint8_t width = bytes_get_u8(reader);
    struct buckets *to = ledger_init(ledger, window_ns, cut);
    if (reader->failed)
        return TG_ECORRUPT;
    if (cut == 0)
        return window_ns == 0 && newest == 0 && width == 0 ? 0 : TG_ECORRUPT;
    if (cut < LIMIT_BUCKETS_MIN || cut > LIMIT_BUCKETS_MAX || window_ns < LIMIT_WINDOW_MIN_NS ||
        window_ns > LIMIT_WINDOW_MAX_NS || (width != 2 && width != 4 && width != 8) ||
        newest > (uint64_t)LIMIT_NOW_MAX / sub_ns(window_ns, cut))
        return TG_ECORRUPT;
    to->newest = newest;
    for (uint64_t i = 0; i <= cut; i++) {
        const uint64_t count = get_count(reader, width);
        const uint64_t back = cut - i;
        if (reader->failed || count > LIMIT_USED_MAX - to->total || (back > newest && count > 0))
            return TG_ECORRUPT;
        if (back <= newest)
            set_count(to, newest - back, count);
        to->total += count;
    }
    return 0;
}

static int buckets_get(struct limit_memory *memory, struct bytes_reader *reader,
                       struct limit_cell *cell, int64_t *expires_ns)
{
    union ledger ledger;
    if (ledger_read(&ledger, reader) != 0)
        return TG_ECORRUPT;
    *expires_ns = ledger.buckets.total == 0 ? 0 : leaves_ns(&ledger.buckets, ledger.buckets.newest);
    if (memory == NULL)
        return 0;
    memset(cell, 0, sizeof *cell);
    return ledger_store(memory, cell, &ledger.buckets);
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* Takes from `gain` what `base` had; a base of another grid is put on the gain's first. */
static void subtract(struct buckets *gain, const struct buckets *base, int64_t now_ns)
{
    union ledger moved;
    if (base->cut != gain->cut || base->window_ns != gain->window_ns) {
        struct buckets *same = ledger_init(&moved, gain->window_ns, gain->cut);
        ledger_take(same, base, now_ns);
        base = same;
    }
    for (uint64_t back = 0; back <= gain->cut && back <= gain->newest; back++) {
        const uint64_t index = gain->newest - back;
        if (index > base->newest || index < oldest_of(base))
            continue;
        const uint64_t have = count_at(gain, index);
        const uint64_t less = count_at(base, index);
        const uint64_t part = have < less ? have : less;
        set_count(gain, index, have - part);
        gain->total -= part;
    }
}

/* Counts of one sub-window add up. Of two grids that of the longer window stays; what the later
 * ring of the two has no place for, and still counts, goes to its oldest place. */
static int buckets_merge(struct limit_memory *memory, struct limit_cell *cell,
                         struct bytes_reader *base, struct bytes_reader *other, int64_t now_ns)
{
    union ledger gain;
    union ledger shared;
    union ledger sum;
    const struct buckets *mine = buckets_of(memory, cell);
    if (ledger_read(&gain, other) != 0 || gain.buckets.total == 0)
        return LIMIT_SAME;
    if (base != NULL && ledger_read(&shared, base) == 0 && shared.buckets.total > 0)
        subtract(&gain.buckets, &shared.buckets, now_ns);
    if (live_total(&gain.buckets, first_live(&gain.buckets, now_ns)) == 0)
        return LIMIT_SAME;
    const struct buckets *grid =
        mine != NULL && mine->window_ns >= gain.buckets.window_ns ? mine : &gain.buckets;
    struct buckets *merged = ledger_init(&sum, grid->window_ns, grid->cut);
    ledger_take(merged, &gain.buckets, now_ns);
    if (mine != NULL)
        ledger_take(merged, mine, now_ns);
    return ledger_store(memory, cell, merged) != 0 ? TG_EFULL : LIMIT_CHANGED;
}

const struct limit_ops sliding_buckets_ops = {
    .prepare = buckets_prepare,
    .apply = buckets_apply,
    .expires = buckets_expires,
    .release = algorithm_release_block,
    .export_len = buckets_export_len,
    .put = buckets_put,
    .get = buckets_get,
    .merge = buckets_merge,
    .mark = buckets_mark,
    .undo = buckets_undo,
};
