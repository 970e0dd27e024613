/* check_merge.c - the laws of merging, on every merge that the shipped code does.
 *
 * The simulator is linked so that calls of table_merge come here first (--wrap of the linker): what
 * the slot was, what is added to it, and what it is then, are looked at from outside; the shipped
 * code knows nothing of it. The same bytes are merged in other orders in a table of its own, and
 * what must come out is computed in the plainest way, from the bytes.
 *
 * SIMMERGE-1  No slot falls: a merge leaves it as it was, or raises it; nor below the other state,
 *             if both go on from the base.
 * SIMMERGE-2  Merging what was merged adds nothing.
 * SIMMERGE-3  The order of merges, and how they are grouped, does not matter.
 * SIMMERGE-4  Where a vnode has parted once in a phase, the first merge of a key gives the base
 *             that both sides had, plus what each added. The base is what this file saw in the
 *             table of the node that opened the newer term, not what the shipped code remembers.
 *
 * Algorithms round in favour of denial, by less than a token: ROUNDING_NS of a token's time.
 */
#include <string.h>

#include "node/cluster/shard/test_probe.h"
#include "node/limit/table/table.h"
#include "tests/sim/global.h"

enum { VNODE = 0, STATE_MAX = TABLE_EXPORT_MAX, ROUNDING_NS = 64, WINDOW_MIN_H = 1 };

/* The simulator runs one seed at a time in a process. */
static struct sim *judged;
static struct table *scratch;

struct bytes {
    const uint8_t *at;
    size_t len;
};

/* A state as a number that merging adds up; `kind` and `when` must be equal for that. */
struct tally {
    bool known;
    uint8_t algorithm;
    uint64_t when; /* the window that is counted, or the rate */
    uint64_t past; /* of a sliding window: the one before */
    uint64_t amount;
};

int __real_table_merge(struct table *table, uint32_t vnode, struct hash128 id, const void *base,
                       size_t base_len, const void *other, size_t other_len, int64_t now_ns);
int __wrap_table_merge(struct table *table, uint32_t vnode, struct hash128 id, const void *base,
                       size_t base_len, const void *other, size_t other_len, int64_t now_ns);

void check_merge_begin(struct sim *sim)
{
    judged = sim;
}

void check_merge_end(void)
{
    judged = NULL;
    table_free(&scratch);
}

/* ---- from bytes to numbers ------------------------------------------------------------------- */

/* Within a run nothing leaves a window of a day or more: the sum is the amount. */
static void tally_buckets(struct tally *tally, struct bytes_reader *reader)
{
    tally->when = bytes_get_u64(reader);
    tally->known = tally->when >= (uint64_t)WINDOW_MIN_H * 3600 * (uint64_t)SIM_SEC;
    (void)bytes_get_u64(reader); /* the newest sub-window */
    const unsigned counts = bytes_get_u8(reader) + 1u;
    const unsigned width = bytes_get_u8(reader);
    for (unsigned i = 0; i < counts && !reader->failed; i++)
        tally->amount += width == 2 ? bytes_get_u16(reader) : bytes_get_u32(reader);
    tally->known = tally->known && (width == 2 || width == 4);
}

static struct tally tally_of(struct bytes state, int64_t now_ns)
{
    struct bytes_reader reader;
    struct tally tally = {.known = true};
    bytes_reader_init(&reader, state.at, state.len);
    (void)bytes_get_u8(&reader); /* the version */
    tally.algorithm = bytes_get_u8(&reader);
    switch (tally.algorithm) {
    case ALGORITHM_TOKEN_BUCKET:
    case ALGORITHM_LEAKY_BUCKET: {
        const uint64_t full_ns = bytes_get_u64(&reader);
        (void)bytes_get_u32(&reader); /* less than a nanosecond */
        tally.when = bytes_get_u64(&reader);
        tally.when = tally.when << 32 | bytes_get_u32(&reader);
        tally.amount = full_ns > (uint64_t)now_ns ? full_ns - (uint64_t)now_ns : 0;
        break;
    }
    case ALGORITHM_FIXED_WINDOW:
        tally.when = (uint64_t)bytes_get_u8(&reader) << 56;
        tally.when |= bytes_get_u64(&reader);
        tally.amount = bytes_get_u64(&reader);
        break;
    case ALGORITHM_SLIDING_WINDOW:
        tally.when = (uint64_t)bytes_get_u8(&reader) << 56;
        tally.when |= bytes_get_u64(&reader);
        tally.past = bytes_get_u64(&reader);
        tally.amount = bytes_get_u64(&reader);
        break;
    case ALGORITHM_SLIDING_LOG:
        tally.when = bytes_get_u64(&reader);
        tally.known = tally.when >= (uint64_t)WINDOW_MIN_H * 3600 * (uint64_t)SIM_SEC;
        (void)bytes_get_u64(&reader); /* the newest entry */
        tally.amount = bytes_get_u32(&reader);
        break;
    case ALGORITHM_SLIDING_BUCKETS:
        tally_buckets(&tally, &reader);
        break;
    default:
        tally.known = false;
    }
    tally.known = tally.known && !reader.failed;
    return tally;
}

/* What both count can be compared; of an empty state there is nothing to compare. */
static bool alike(const struct tally *a, const struct tally *b)
{
    return a->known && b->known && a->algorithm == b->algorithm && a->when == b->when &&
           a->past == b->past;
}

static uint64_t slack_of(const struct tally *tally)
{
    return limit_has_burst(tally->algorithm) ? ROUNDING_NS : 0;
}

/* Whether a <= b, but for rounding. */
static bool at_most(const struct tally *a, const struct tally *b)
{
    return a->amount <= b->amount + slack_of(a);
}

/* ---- in a table of its own ------------------------------------------------------------------- */

static const struct hash128 scratch_id = {.lo = 1, .hi = 1};

static bool start_with(struct bytes state, int64_t now_ns)
{
    if (scratch == NULL && table_new(&scratch, alloc_heap(), TABLE_MEMORY_MIN, 1) != 0)
        return false;
    const uint32_t slot = table_lookup(scratch, scratch_id);
    if (slot != TABLE_NONE)
        table_drop(scratch, slot);
    return state.len == 0 ||
           table_import(scratch, VNODE, scratch_id, state.at, state.len, now_ns, 0) == 0;
}

static bool add(struct bytes base, struct bytes other, int64_t now_ns)
{
    return other.len == 0 || __real_table_merge(scratch, VNODE, scratch_id, base.at, base.len,
                                                other.at, other.len, now_ns) == 0;
}

static struct tally result(int64_t now_ns)
{
    static uint8_t bytes[STATE_MAX];
    struct tally none = {.known = false};
    const uint32_t slot = table_lookup(scratch, scratch_id);
    if (slot == TABLE_NONE)
        return none;
    const int len = table_export(scratch, slot, bytes, sizeof bytes);
    return len < 0 ? none : tally_of((struct bytes){bytes, (size_t)len}, now_ns);
}

/* base + (a - base) + (b - base) + (c - base), in this order. */
static struct tally sum_of(struct bytes base, struct bytes a, struct bytes b, struct bytes c,
                           int64_t now_ns)
{
    struct tally none = {.known = false};
    if (!start_with(base, now_ns) || !add(base, a, now_ns) || !add(base, b, now_ns) ||
        !add(base, c, now_ns))
        return none;
    return result(now_ns);
}

/* ---- the laws -------------------------------------------------------------------------------- */

static void broken(const char *law, const struct tally *is, const struct tally *expected)
{
    sim_fail(judged, "%s: a merge (%s): %s: %llu, expected %llu", sim_phase(judged),
             algorithm_name(is->algorithm), law, (unsigned long long)is->amount,
             (unsigned long long)expected->amount);
}

static void judge_equal(const char *law, struct tally a, struct tally b)
{
    if (alike(&a, &b) && (!at_most(&a, &b) || !at_most(&b, &a)))
        broken(law, &a, &b);
}

/* SIMMERGE-2, SIMMERGE-3. */
static void judge_orders(struct bytes before, struct bytes base, struct bytes other,
                         struct bytes after, int64_t now_ns)
{
    const struct tally is = tally_of(after, now_ns);
    if (start_with(after, now_ns) && add(other, other, now_ns))
        judge_equal("what was merged is merged again (SIMMERGE-2)", result(now_ns), is);
    const struct tally first = sum_of(base, before, other, after, now_ns);
    judge_equal("in another order (SIMMERGE-3)", sum_of(base, other, before, after, now_ns), first);
    judge_equal("grouped otherwise (SIMMERGE-3)", sum_of(base, after, other, before, now_ns),
                first);
}

/* Whether nothing counts any more of what the state says: its window is over. */
static bool is_over(struct bytes state, int64_t now_ns)
{
    int64_t expires_ns = INT64_MAX;
    return table_export_expires_ns(state.at, state.len, &expires_ns) == 0 && expires_ns <= now_ns;
}

/* SIMMERGE-1. */
static void judge_sides(struct bytes before, struct bytes base, struct bytes other,
                        const struct tally *after, int64_t now_ns)
{
    const struct tally mine = tally_of(before, now_ns);
    const struct tally theirs = tally_of(other, now_ns);
    const struct tally shared = tally_of(base, now_ns);
    if (before.len > 0 && alike(&mine, after) && !at_most(&mine, after))
        broken("it fell below what it was (SIMMERGE-1)", after, &mine);
    const bool goes_on =
        base.len == 0 || (before.len > 0 && alike(&mine, &shared) && mine.amount >= shared.amount);
    if (goes_on && !is_over(other, now_ns) && alike(&theirs, after) && !at_most(&theirs, after))
        broken("it is below the other side (SIMMERGE-1)", after, &theirs);
}

/* ---- the base that was seen ------------------------------------------------------------------ */

static struct merge_base *base_of(struct sim *sim, uint32_t node, struct hash128 id)
{
    const struct key_set set = sim->plan.keys;
    const uint32_t count = keys_exact(set) < SIM_BASES_MAX ? keys_exact(set) : SIM_BASES_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (hash128_equal(sim->keys[set.first + i].id, id))
            return &sim->bases[node][i];
    return NULL;
}

void check_merge_phase(struct sim *sim)
{
    memset(sim->bases, 0, sizeof sim->bases);
    memset(sim->openings, 0, sizeof sim->openings);
}

void check_merge_opened(struct sim *sim, const struct node *node, const struct shard *shard,
                        uint32_t vnode)
{
    const struct key_set set = sim->plan.keys;
    struct probe_vnode at;
    probe_vnode(shard, vnode, &at);
    sim->openings[vnode]++;
    for (uint32_t i = set.first; i < set.first + keys_exact(set); i++) {
        const struct key *key = &sim->keys[i];
        struct merge_base *base = base_of(sim, node->index, key->id);
        if (key->vnode != vnode || base == NULL)
            continue;
        const int len = probe_slot(shard, key->id, base->bytes, sizeof base->bytes);
        /* Only as it was when the term began: nothing was decided in it yet. */
        base->seen = len >= 0 && at.seq == at.base_seq + 1 && !probe_spilled(shard, vnode, key->id);
        base->len = base->seen ? (uint32_t)len : 0;
    }
}

/* SIMMERGE-4. */
static void judge_sum(uint32_t vnode, struct hash128 id, struct bytes before, struct bytes other,
                      const struct tally *after, int64_t now_ns)
{
    struct sim *sim = judged;
    struct merge_base *seen = base_of(sim, sim->acting, id);
    if (seen == NULL || !seen->seen || sim->openings[vnode] != 1 ||
        strcmp(sim_phase(sim), "merge") != 0)
        return;
    seen->seen = false; /* what comes next may be the same branch again */
    const struct tally mine = tally_of(before, now_ns);
    const struct tally theirs = tally_of(other, now_ns);
    const struct tally shared = tally_of((struct bytes){seen->bytes, seen->len}, now_ns);
    if (!alike(&theirs, after) || (before.len > 0 && !alike(&mine, after)) ||
        (seen->len > 0 && !alike(&shared, after)))
        return;
    struct tally expected = *after;
    const uint64_t had = seen->len > 0 ? shared.amount : 0;
    expected.amount =
        (before.len > 0 ? mine.amount : 0) + (theirs.amount > had ? theirs.amount - had : 0);
    sim->coverage.sums++;
    judge_equal("base + both sides (SIMMERGE-4)", *after, expected);
}

/* ---- each merge ------------------------------------------------------------------------------ */

static struct bytes look(const struct table *table, struct hash128 id, uint8_t *out)
{
    const uint32_t slot = table_lookup(table, id);
    const int len = slot == TABLE_NONE ? 0 : table_export(table, slot, out, STATE_MAX);
    return (struct bytes){out, len < 0 ? 0 : (size_t)len};
}

int __wrap_table_merge(struct table *table, uint32_t vnode, struct hash128 id, const void *base,
                       size_t base_len, const void *other, size_t other_len, int64_t now_ns)
{
    static uint8_t was[STATE_MAX];
    static uint8_t is[STATE_MAX];
    const struct bytes before = look(table, id, was);
    const int rc = __real_table_merge(table, vnode, id, base, base_len, other, other_len, now_ns);
    if (judged == NULL || rc != 0)
        return rc;
    check_global_merged(judged, id);
    const struct bytes after = look(table, id, is);
    if (after.len == 0)
        return rc; /* all of it has expired */
    const struct bytes shared = {base, base_len};
    const struct bytes theirs = {other, other_len};
    const struct tally tally = tally_of(after, now_ns);
    judged->coverage.laws++;
    judge_sides(before, shared, theirs, &tally, now_ns);
    judge_orders(before, shared, theirs, after, now_ns);
    judge_sum(vnode, id, before, theirs, &tally, now_ns);
    return rc;
}
