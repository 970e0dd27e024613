/* buckets.c - taking a place, freeing it, growing in place; see buckets.h.
 *
 * Growing takes one bucket after the other, the last first: the slots whose old home it is come out
 * of it and of those behind, and go to where the new rule says, which has room for them: whatever
 * was there has gone further up before. One that already lies there or above stays (BUCKETS-3).
 */
#include "node/limit/table/buckets.h"

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/limit/table/table_slot.h"

enum {
    MOVERS_MAX = (BUCKETS_NEAR + 2) * BUCKET_SLOTS, /* as many as lie near; 13 are usual */
    MOVE_AHEAD = 2,
    TARGETS = 4, /* buckets that those of one go to: they grow by less than a half */
};

void buckets_init(struct buckets *buckets, struct slot *slots, struct bucket_head *heads)
{
    ASSERT((uintptr_t)heads % _Alignof(struct bucket_head) == 0);
    *buckets = (struct buckets){.slots = slots,
                                .heads = heads,
                                .size = BUCKETS_MIN,
                                .size_next = BUCKETS_MIN,
                                .seed = UINT64_C(0x9e3779b97f4a7c15)};
}

uint32_t bucket_match_portably(const struct bucket_head *head, uint8_t tag)
{
    uint32_t match = 0;
    for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
        match |= (uint32_t)(head->tag[i] == tag) << i;
    return match;
}

static uint32_t scaled(uint64_t hash, uint32_t size)
{
    return (uint32_t)((unsigned __int128)hash * size >> 64);
}

static uint64_t hash_at(const struct buckets *buckets, uint32_t number)
{
    return bucket_hash(buckets, buckets->slots[number].id);
}

bool buckets_full(const struct buckets *buckets)
{
    const uint64_t places = (uint64_t)buckets->size_next * BUCKET_SLOTS;
    return (uint64_t)(buckets->used + 1) * 100 > places * BUCKETS_LOAD_PERCENT;
}

/* -- places ------------------------------------------------------------------------------- */

/* One more lies behind each of home .. at - 1, or one less. */
static void count_over(struct buckets *buckets, uint32_t home, uint32_t at, bool more)
{
    for (uint32_t bucket = home; bucket < at; bucket++) {
        uint8_t *over = &buckets->heads[bucket].over;
        ASSERT(more || *over > 0); /* BUCKETS-1 */
        if (*over < BUCKETS_OVER_MAX)
            *over = (uint8_t)(more ? *over + 1 : *over - 1);
    }
}

/* The first bucket from `from` on, before `end`, with a free place; `end` if there is none. */
static uint32_t find_vacant(const struct buckets *buckets, uint32_t from, uint32_t end)
{
    while (from < end && bucket_match(&buckets->heads[from], 0) == 0)
        from++;
    return from;
}

/* The place of a bucket that a slot of that hash gets, of those that are free in it. Which one is
 * nothing that a processor could foresee, so nothing branches. */
static inline uint32_t choose(uint64_t hash, uint32_t bucket, uint32_t vacant)
{
    const uint32_t choice = bucket_first_choice(hash, bucket);
    const uint32_t first = vacant & 1u << (choice - bucket * BUCKET_SLOTS);
    const uint32_t mate = vacant & 1u << (((choice ^ 1) - bucket * BUCKET_SLOTS) & 31);
    const uint32_t rest = mate != 0 ? mate : vacant;
    return (uint32_t)__builtin_ctz(first != 0 ? first : rest);
}

uint32_t bucket_guess_behind(const struct buckets *buckets, uint64_t hash, uint32_t home)
{
    uint32_t place = UINT32_MAX; /* of a new one */
    bool behind = true;          /* it may lie in this bucket or behind */
    uint32_t bucket = home;
    for (; bucket < home + BUCKETS_GUESSED && (behind || place == UINT32_MAX); bucket++) {
        const struct bucket_head *head = &buckets->heads[bucket];
        const uint32_t match = behind ? bucket_match(head, bucket_tag(hash)) : 0;
        if (match != 0)
            return bucket * BUCKET_SLOTS + (uint32_t)__builtin_ctz(match);
        const uint32_t vacant = bucket_match(head, 0);
        if (place == UINT32_MAX && vacant != 0)
            place = bucket * BUCKET_SLOTS + choose(hash, bucket, vacant);
        behind = behind && head->over != 0;
    }
    return place != UINT32_MAX ? place : bucket * BUCKET_SLOTS;
}

/* In a bucket that has a free one. */
static uint32_t take_place(struct buckets *buckets, uint64_t hash, uint32_t home, uint32_t bucket)
{
    const uint32_t vacant = bucket_match(&buckets->heads[bucket], 0);
    ASSERT(vacant != 0 && home <= bucket); /* BUCKETS-2 */
    const uint32_t i = choose(hash, bucket, vacant);
    buckets->heads[bucket].tag[i] = bucket_tag(hash);
    count_over(buckets, home, bucket, true);
    return bucket * BUCKET_SLOTS + i;
}

uint32_t buckets_way(const struct buckets *buckets, uint64_t hash, uint32_t most)
{
    const uint32_t home = bucket_home(buckets, hash);
    return find_vacant(buckets, home, home + most) - home;
}

static void vacate(struct buckets *buckets, uint32_t number, uint32_t home)
{
    ASSERT(buckets->heads[number / BUCKET_SLOTS].tag[number % BUCKET_SLOTS] != 0);
    ASSERT(home <= number / BUCKET_SLOTS); /* BUCKETS-2 */
    count_over(buckets, home, number / BUCKET_SLOTS, false);
    buckets->heads[number / BUCKET_SLOTS].tag[number % BUCKET_SLOTS] = 0;
}

void buckets_remove(struct buckets *buckets, uint32_t number)
{
    ASSERT(number < buckets_end(buckets) && buckets->used > 0); /* BUCKETS-6 */
    vacate(buckets, number, bucket_home(buckets, hash_at(buckets, number)));
    memset(&buckets->slots[number], 0, sizeof(struct slot));
    buckets->used--;
}

/* -- growing ------------------------------------------------------------------------------ */

bool buckets_grow(struct buckets *buckets, uint32_t size_max)
{
    const uint32_t size = buckets->size;
    const uint64_t wish = (uint64_t)size + size / BUCKETS_GROWTH;
    const uint32_t next = wish < size_max ? (uint32_t)wish : size_max;
    if (buckets->frontier != 0 || next < size + size / BUCKETS_GROWTH_MIN)
        return false;
    ASSERT(buckets->size_next == size); /* BUCKETS-6 */
    buckets->size_next = next;
    buckets->frontier = size; /* all old homes are below it: nothing has moved yet */
    /* As many come before it is to grow again. */
    const uint64_t more = (uint64_t)(next - size) * BUCKET_SLOTS * BUCKETS_LOAD_PERCENT / 100;
    buckets->step = (uint32_t)(BUCKETS_HASTE * size / more) + 1;
    return true;
}

/* A slot that is to be moved. */
struct mover {
    uint64_t hash;
    uint32_t from;
};

/* Adds the slots of a bucket whose old home is `home`. Returns how many of its slots have theirs
 * there or before. */
static uint32_t find_in(const struct buckets *buckets, uint32_t bucket, uint32_t home,
                        struct mover *movers, uint32_t *count)
{
    uint32_t before = 0;
    uint32_t taken = ~bucket_match(&buckets->heads[bucket], 0) & ((1u << BUCKET_SLOTS) - 1);
    ASSERT(*count + BUCKET_SLOTS <= MOVERS_MAX);
    for (; taken != 0; taken &= taken - 1) {
        const uint32_t from = bucket * BUCKET_SLOTS + (uint32_t)__builtin_ctz(taken);
        const uint64_t hash = hash_at(buckets, from);
        const uint32_t its = scaled(hash, buckets->size);
        movers[*count] = (struct mover){hash, from};
        *count += its == home;
        before += its <= home;
    }
    return before;
}

/* All slots whose old home is the last below the frontier: those in it, and of those behind it,
 * which `over` counts with others of before. */
static uint32_t find_movers(const struct buckets *buckets, uint32_t home, struct mover *movers)
{
    uint32_t count = 0;
    uint32_t behind = buckets->heads[home].over;
    (void)find_in(buckets, home, home, movers, &count);
    if (behind == BUCKETS_OVER_MAX)
        behind = UINT32_MAX;
    for (uint32_t at = home; behind > 0 && buckets->heads[at].over > 0;)
        behind -= find_in(buckets, ++at, home, movers, &count);
    return count;
}

/* Where the slots of a bucket go: some that follow one another, and what is free in them. Kept
 * apart from their heads, which a processor cannot read as a whole so soon after parts were
 * written. */
struct targets {
    uint32_t first;
    uint32_t vacant[TARGETS];
};

/* Takes a place in bucket `next`, of the targets, or the first one behind it. */
static uint32_t take_target(struct buckets *buckets, struct targets *targets, uint64_t hash,
                            uint32_t next)
{
    uint32_t k = next - targets->first;
    while (k < TARGETS && targets->vacant[k] == 0)
        k++;
    if (__builtin_expect(k == TARGETS, 0)) {
        const uint32_t end = buckets->size_next + BUCKETS_PAD;
        const uint32_t bucket = find_vacant(buckets, targets->first + TARGETS, end);
        ASSERT(bucket < end); /* BUCKETS-5 */
        return take_place(buckets, hash, next, bucket);
    }
    const uint32_t bucket = targets->first + k;
    const uint32_t i = choose(hash, bucket, targets->vacant[k]);
    targets->vacant[k] &= ~(1u << i);
    buckets->heads[bucket].tag[i] = bucket_tag(hash);
    count_over(buckets, next, bucket, true);
    return bucket * BUCKET_SLOTS + i;
}

/* Asks memory for a bucket that is to be moved, or moved to, soon. */
static void prefetch_bucket(const struct buckets *buckets, uint32_t bucket)
{
    const char *slots = (const char *)&buckets->slots[(size_t)bucket * BUCKET_SLOTS];
    for (size_t at = 0; at < BUCKET_SLOTS * sizeof(struct slot); at += PREFETCH_LINE)
        prefetch_to_write(slots + at);
}

/* Moves the last bucket below the frontier. */
static void move_bucket(struct buckets *buckets)
{
    struct mover movers[MOVERS_MAX];
    struct targets targets;
    ASSERT(buckets->frontier > 0 && buckets->frontier <= buckets->size); /* BUCKETS-6 */
    const uint32_t home = buckets->frontier - 1;
    const uint32_t count = find_movers(buckets, home, movers);
    targets.first = (uint32_t)((uint64_t)home * buckets->size_next / buckets->size);
    if (home > MOVE_AHEAD) {
        prefetch_bucket(buckets, home - MOVE_AHEAD);
        prefetch_bucket(buckets, targets.first - MOVE_AHEAD);
    }
    for (uint32_t k = 0; k < TARGETS; k++)
        targets.vacant[k] = bucket_match(&buckets->heads[targets.first + k], 0);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t from = movers[i].from;
        const uint32_t next = scaled(movers[i].hash, buckets->size_next);
        if (from / BUCKET_SLOTS >= next) { /* it stays, for none moves down (BUCKETS-3) */
            count_over(buckets, home, next, false);
            continue;
        }
        const uint32_t to = take_target(buckets, &targets, movers[i].hash, next);
        buckets->slots[to] = buckets->slots[from];
        memset(&buckets->slots[from], 0, sizeof(struct slot));
        vacate(buckets, from, home);
    }
    buckets->frontier = home;
    if (home == 0)
        buckets->size = buckets->size_next;
}

uint32_t buckets_add(struct buckets *buckets, struct hash128 id)
{
    const uint64_t hash = bucket_hash(buckets, id);
    for (uint32_t n = 0; n < buckets->step && buckets->frontier != 0; n++)
        move_bucket(buckets);
    const uint32_t home = bucket_home(buckets, hash);
    const uint32_t vacant = find_vacant(buckets, home, home + BUCKETS_NEAR);
    if (vacant == home + BUCKETS_NEAR)
        return UINT32_MAX;
    buckets->used++;
    return take_place(buckets, hash, home, vacant);
}

/* -- the invariants ----------------------------------------------------------------------- */

/* BUCKETS-1 for one bucket: as many lie behind it as it says, or it says so many for ever. */
static void check_over(const struct buckets *buckets, uint32_t bucket)
{
    const uint32_t end = buckets->size_next + BUCKETS_PAD;
    uint32_t left = buckets->heads[bucket].over;
    for (uint32_t at = bucket + 1; left > 0 && at < end; at++)
        for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
            left -= left > 0 && buckets->heads[at].tag[i] != 0 &&
                    bucket_home(buckets, hash_at(buckets, at * BUCKET_SLOTS + i)) <= bucket;
    INVARIANT("BUCKETS-1", left == 0 || buckets->heads[bucket].over == BUCKETS_OVER_MAX);
}

/* BUCKETS-4 for a bucket without a tag. */
static void check_vacant(const struct buckets *buckets, uint32_t bucket)
{
    static const struct slot nothing[BUCKET_SLOTS];
    ASSERT(memcmp(&buckets->slots[bucket * BUCKET_SLOTS], nothing, sizeof nothing) == 0);
}

void buckets_check(const struct buckets *buckets)
{
    static const struct slot nothing;
    const uint32_t end = buckets->size_next + BUCKETS_PAD;
    uint32_t used = 0;
    uint64_t far = 0;  /* how many buckets all slots lie behind their homes */
    uint64_t over = 0; /* and how many are said to */
    bool exact = true;
    for (uint32_t bucket = 0; bucket < end; bucket++) {
        const struct bucket_head *head = &buckets->heads[bucket];
        const bool vacant = buckets_vacant(buckets, bucket);
        if (vacant)
            check_vacant(buckets, bucket);
        for (uint32_t i = 0; i < BUCKET_SLOTS && !vacant; i++) {
            const struct slot *slot = &buckets->slots[bucket * BUCKET_SLOTS + i];
            if (head->tag[i] == 0) {
                INVARIANT("BUCKETS-4", memcmp(slot, &nothing, sizeof *slot) == 0);
                continue;
            }
            const uint64_t hash = bucket_hash(buckets, slot->id);
            INVARIANT("BUCKETS-2", head->tag[i] == bucket_tag(hash));
            INVARIANT("BUCKETS-2", bucket_home(buckets, hash) <= bucket);
            far += bucket - bucket_home(buckets, hash);
            used++;
        }
        check_over(buckets, bucket);
        over += head->over;
        exact = exact && head->over < BUCKETS_OVER_MAX;
    }
    INVARIANT("BUCKETS-1", buckets->heads[end].over == 0); /* where every look ends */
    INVARIANT("BUCKETS-1", far == over || !exact);
    INVARIANT("BUCKETS-6", used == buckets->used);
    INVARIANT("BUCKETS-6", buckets->size <= buckets->size_next);
    INVARIANT("BUCKETS-6", buckets->frontier <= buckets->size);
    INVARIANT("BUCKETS-6", (buckets->frontier == 0) == (buckets->size == buckets->size_next));
}
