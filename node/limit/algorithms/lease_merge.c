/* lease_merge.c - what two writers of one key have in flight, each lease once.
 *
 *   mine   a---------|                       base   a---------|   b----|
 *             c----------|                   other  a---------------|          (renewed there)
 *                                                      b----|                  (released here)
 *                                                          d--------|          (new there)
 *   merged    c----------|   a---------------|   d--------|
 *
 * Both sides are in the order of `until`, so their leases are merged as two sorted lists are; which
 * lease of one is which of the other is looked up by hashes of their ids. So the cost is as the
 * number of leases, whatever they are (limit_memory.merge_steps counts it).
 *
 * LEASEMERGE-1  A lease of the other side is taken over if it is new since the base, or says more
 *               than the own one (a later end, more places): the most of both then. What ends by
 *               now is nothing.
 * LEASEMERGE-2  What this side has released since the base stays released. What only the other has
 *               released stays until it ends by itself.
 * LEASEMERGE-3  When they are too many, those that end first become one that ends with the last of
 *               them and is nobody's.
 */
#include <string.h>

#include "base/hash.h"
#include "node/limit/algorithms/concurrency.h"

enum { NOT_FOUND = -1 };

/* Leases in memory, or as bytes that were found valid. */
struct side {
    const struct lease *leases; /* NULL: they are bytes */
    const uint8_t *bytes;
    uint32_t count;
};

/* Where a lease of a side lies: open addressing, at most half full. 0 is free, else index + 1. */
struct finder {
    struct side side;
    uint32_t *slots;
    uint32_t mask;
};

struct merging {
    struct limit_memory *memory;
    struct finder mine;
    struct finder base;
    struct side other;
    uint32_t *places; /* of mine as they are to be; 0: the other's lease takes the place */
    uint32_t total;   /* leases in the end, before LEASEMERGE-3 */
    int64_t now_ns;
};

static struct lease at(const struct side *side, uint32_t index)
{
    if (side->leases != NULL)
        return side->leases[index];
    struct bytes_reader reader;
    bytes_reader_init(&reader, side->bytes + (size_t)index * LEASE_LEN, LEASE_LEN);
    return lease_read(&reader);
}

static struct side side_of(const struct bytes_reader *state)
{
    if (state == NULL)
        return (struct side){.count = 0};
    struct bytes_reader reader = *state;
    const uint32_t count = bytes_get_u32(&reader);
    return (struct side){.bytes = reader.data + reader.at, .count = count};
}

/* ---- finding --------------------------------------------------------------------------------- */

/* One that is nobody's is known by what it holds. */
static bool is_like(const struct lease *a, const struct lease *b)
{
    return a->id == b->id && (a->id != 0 || (a->until_ns == b->until_ns && a->places == b->places));
}

static uint32_t slots_of(const struct side *side)
{
    uint32_t len = 2;
    while (len < 2 * side->count)
        len *= 2;
    return len;
}

/* The slot of that lease, or the free one where it belongs. */
static uint32_t *slot_of(struct merging *merging, const struct finder *finder,
                         const struct lease *lease)
{
    const uint64_t what =
        lease->id != 0 ? lease->id : (uint64_t)lease->until_ns + ((uint64_t)lease->places << 40);
    uint32_t slot = (uint32_t)hash_mix64(what) & finder->mask;
    for (; finder->slots[slot] != 0; slot = (slot + 1) & finder->mask) {
        const struct lease found = at(&finder->side, finder->slots[slot] - 1);
        merging->memory->merge_steps++;
        if (is_like(&found, lease))
            break;
    }
    return &finder->slots[slot];
}

/* Files all leases of the side; equal ones once. */
static void finder_init(struct merging *merging, struct finder *finder, struct side side,
                        uint32_t *slots)
{
    *finder = (struct finder){.side = side, .slots = slots, .mask = slots_of(&side) - 1};
    memset(slots, 0, ((size_t)finder->mask + 1) * sizeof *slots);
    for (uint32_t i = 0; i < side.count; i++) {
        const struct lease lease = at(&side, i);
        uint32_t *slot = slot_of(merging, finder, &lease);
        merging->memory->merge_steps++;
        if (*slot == 0)
            *slot = i + 1;
    }
}

static int64_t find(struct merging *merging, const struct finder *finder, const struct lease *lease)
{
    const uint32_t *slot = slot_of(merging, finder, lease);
    return *slot == 0 ? NOT_FOUND : (int64_t)*slot - 1;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* What becomes of a lease of the other side. */
enum gain { GAIN_NOTHING, GAIN_LEASE, GAIN_PLACES };

/* LEASEMERGE-1, LEASEMERGE-2. `own` is the index of this side's, or NOT_FOUND. GAIN_LEASE: the
 * lease, with the most places of both, in the other's order; GAIN_PLACES: the own one gets its
 * places. */
static enum gain judge(struct merging *merging, struct lease *lease, int64_t *own)
{
    merging->memory->merge_steps++;
    *own = lease->id == 0 ? NOT_FOUND : find(merging, &merging->mine, lease);
    if (lease->until_ns <= merging->now_ns)
        return GAIN_NOTHING;
    if (*own == NOT_FOUND) {
        const int64_t shared = find(merging, &merging->base, lease);
        if (shared == NOT_FOUND ||
            at(&merging->base.side, (uint32_t)shared).until_ns <= merging->now_ns)
            return GAIN_LEASE;
        return GAIN_NOTHING;
    }
    const struct lease mine = at(&merging->mine.side, (uint32_t)*own);
    if (mine.until_ns >= lease->until_ns)
        return mine.places < lease->places ? GAIN_PLACES : GAIN_NOTHING;
    lease->places = mine.places > lease->places ? mine.places : lease->places;
    return GAIN_LEASE;
}

/* Works out places and total; whether there is anything to gain. */
static bool count_gains(struct merging *merging)
{
    bool some = false;
    merging->total = merging->mine.side.count;
    for (uint32_t i = 0; i < merging->mine.side.count; i++)
        merging->places[i] = merging->mine.side.leases[i].places;
    for (uint32_t i = 0; i < merging->other.count; i++) {
        int64_t own;
        struct lease lease = at(&merging->other, i);
        const enum gain gain = judge(merging, &lease, &own);
        some = some || gain != GAIN_NOTHING;
        if (gain == GAIN_PLACES)
            merging->places[own] = lease.places;
        if (gain != GAIN_LEASE)
            continue;
        merging->total++;
        if (own == NOT_FOUND || merging->places[own] == 0)
            continue;
        merging->places[own] = 0;
        merging->total--;
    }
    return some;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Puts the next lease, in order; the first `fold` become one (LEASEMERGE-3). */
static void put(struct leases *to, uint32_t *fold, const struct lease *lease)
{
    if (*fold == 0 || to->count == 0) {
        to->lease[to->count++] = *lease;
        to->places += lease->places;
    } else {
        struct lease *first = &to->lease[0];
        const uint32_t room = UINT32_MAX - first->places;
        const uint32_t more = lease->places < room ? lease->places : room;
        *first = (struct lease){.until_ns = lease->until_ns, .places = first->places + more};
        to->places += more;
    }
    *fold -= *fold > 0;
}

/* Writes both sides' leases in the order of their ends. */
static void write_leases(struct merging *merging, struct leases *to, uint32_t fold)
{
    const struct side *mine = &merging->mine.side;
    uint32_t i = 0;
    for (uint32_t j = 0; j < merging->other.count; j++) {
        int64_t own;
        struct lease theirs = at(&merging->other, j);
        if (judge(merging, &theirs, &own) != GAIN_LEASE)
            continue;
        for (; i < mine->count && mine->leases[i].until_ns <= theirs.until_ns; i++) {
            struct lease lease = mine->leases[i];
            lease.places = merging->places[i];
            if (lease.places > 0)
                put(to, &fold, &lease);
        }
        put(to, &fold, &theirs);
    }
    for (; i < mine->count; i++) {
        struct lease lease = mine->leases[i];
        lease.places = merging->places[i];
        if (lease.places > 0)
            put(to, &fold, &lease);
    }
}

/* The merged leases in a block of their own, or ARENA_NONE. */
static uint32_t join(struct merging *merging)
{
    const uint32_t count = merging->total < LEASES_MAX ? merging->total : (uint32_t)LEASES_MAX;
    const uint32_t capacity = count < LEASES_MIN ? (uint32_t)LEASES_MIN : count;
    const uint32_t handle = arena_take(&merging->memory->arena, leases_len(capacity));
    if (handle == ARENA_NONE)
        return ARENA_NONE;
    struct leases *to = arena_at(&merging->memory->arena, handle);
    *to = (struct leases){.capacity = capacity};
    write_leases(merging, to, merging->total > count ? merging->total - count + 1 : 0);
    return handle;
}

int leases_merge(struct limit_memory *memory, struct limit_cell *cell, struct bytes_reader *base,
                 struct bytes_reader *other, int64_t now_ns)
{
    const struct leases *have = leases_of(memory, cell);
    struct merging merging = {.memory = memory, .other = side_of(other), .now_ns = now_ns};
    const struct side before = side_of(base);
    const struct side mine = {.leases = have == NULL ? NULL : have->lease,
                              .count = have == NULL ? 0 : have->count};
    const size_t slots = (size_t)slots_of(&mine) + slots_of(&before);
    const uint32_t scratch =
        arena_take(&memory->arena, (slots + mine.count) * sizeof *merging.places);
    if (scratch == ARENA_NONE)
        return TG_EFULL;
    uint32_t *words = arena_at(&memory->arena, scratch);
    finder_init(&merging, &merging.mine, mine, words);
    finder_init(&merging, &merging.base, before, words + slots_of(&mine));
    merging.places = words + slots;
    const bool gains = count_gains(&merging);
    const uint32_t handle = gains ? join(&merging) : ARENA_NONE;
    arena_give(&memory->arena, scratch);
    if (handle == ARENA_NONE)
        return gains ? TG_EFULL : LIMIT_SAME;
    if (cell->wide)
        algorithm_release_block(memory, cell);
    *cell = (struct limit_cell){.word = {[2] = handle}, .wide = 1};
    return LIMIT_CHANGED;
}
