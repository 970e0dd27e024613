/* table.c - memory of the slot table, life and death of slots; see table.h for the whole.
 *
 * The budget is cut once: fixed parts first (vnodes, rates, plans, filter, ring), and what is left
 * between the heads of buckets and the region, in the proportion of 16 bytes to 480. Slots grow up
 * and the arena grows down in one region, so keys and logs take what they need; a small reserve
 * keeps either from shutting out the other.
 *
 * Eviction is CLOCK with a bounded scan. Of the slots it sees:
 *     expired                          -> gone at once
 *     on disk as it is, not referenced -> evicted into the filter
 *     on disk as it is, referenced     -> second best
 *     of a journaled vnode             -> stays (TABLE-5)
 *     anything else                    -> stays (TABLE-2): without a victim there is no room
 *
 * A slot on disk goes though a replica is still to get it, which has then missed it (TABLE-6): it
 * has not been changed for a while, so that replica is away or far behind. To keep what is owed
 * would be to turn new keys away for one replica that died.
 *
 * Must not: allocate after table_new, look at a clock, walk all slots in one call.
 */
#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/limit/table/table_slot.h"

enum {
    FILTER_SHARE = 64, /* the filter gets 1/64 of the budget (at least a block a vnode) */
    RING_SHARE = 256,
    RESERVE_SHARE = 64,   /* of the region: what slots leave to the arena */
    ARENA_SHARE_4THS = 3, /* of the region: what the arena may take */
    REGION_ALIGN = 64,
    BUCKET_BYTES = BUCKET_SLOTS * sizeof(struct slot),
    BUCKET_GRANULES = BUCKET_BYTES / ARENA_GRANULE,
    TABLE_BUCKETS_MAX = TABLE_SLOTS_MAX / BUCKET_SLOTS,
};

/* A prime above all numbers of buckets: leaps of it, round and round, come to each. */
#define HAND_LEAP UINT64_C(2654435761)
/* Until what has expired meanwhile is looked for again. */
#define ARENA_AGAIN_NS INT64_C(1000000)

static uint32_t ring_len_for(size_t memory_bytes)
{
    uint32_t len = TABLE_RING_MIN;
    while ((size_t)len * 2 * sizeof(uint64_t) <= memory_bytes / RING_SHARE && len < 1u << 26)
        len *= 2;
    return len;
}

/* At least one, so that no empty block is asked for. */
static size_t counts_len(const struct table *table)
{
    return (size_t)(table->vnodes_count - table->journaled_first + 1) * TABLE_TARGETS;
}

static size_t vnodes_bytes(const struct table *table)
{
    return table->vnodes_count * sizeof(struct vnode_state) + REGION_ALIGN;
}

/* Bytes of everything but the heads and the region. */
static size_t fixed_bytes(const struct table *table)
{
    return sizeof *table + vnodes_bytes(table) + counts_len(table) * sizeof *table->dirty_counts +
           rates_bytes() + TABLE_PLANS * sizeof(struct limit_plan) +
           filter_bytes(table->journaled_first, table->bytes_max / FILTER_SHARE) +
           (size_t)table->ring_len * sizeof *table->ring + 3 * REGION_ALIGN;
}

/* How many buckets the rest of the budget is good for; 0 if it is too small. */
static uint32_t buckets_for(const struct table *table)
{
    const size_t fixed = fixed_bytes(table);
    if (fixed + TABLE_MEMORY_MIN / 4 > table->bytes_max)
        return 0;
    const uint64_t buckets =
        (table->bytes_max - fixed) / (BUCKET_BYTES + sizeof(struct bucket_head));
    return buckets > TABLE_BUCKETS_MAX ? TABLE_BUCKETS_MAX : (uint32_t)buckets;
}

/* How many the slots may take, the pad apart: the rest of the region is the arena's. */
static uint32_t buckets_most(const struct table *table)
{
    return table->buckets_max - table->buckets_max / RESERVE_SHARE - BUCKETS_PAD;
}

/* How many there is memory for, beside the arena as it is. */
static uint32_t buckets_now(const struct table *table)
{
    const uint32_t below_arena = table->memory.arena.low / BUCKET_GRANULES;
    const uint32_t most = buckets_most(table);
    const uint32_t all = below_arena < BUCKETS_PAD ? 0 : below_arena - BUCKETS_PAD;
    return all < most ? all : most;
}

uint64_t table_places(const struct table *table)
{
    return (uint64_t)buckets_now(table) * BUCKET_SLOTS * BUCKETS_LOAD_PERCENT / 100;
}

static int table_take_memory(struct table *table)
{
    const struct allocator *allocator = table->allocator;
    table->region_bytes = (size_t)table->buckets_max * BUCKET_BYTES + REGION_ALIGN;
    table->heads_bytes =
        (size_t)(table->buckets_max + 1) * sizeof(struct bucket_head) + REGION_ALIGN;
    table->vnodes_block = alloc_get(allocator, vnodes_bytes(table));
    table->dirty_counts = alloc_array(allocator, counts_len(table), sizeof *table->dirty_counts);
    table->plans = alloc_array(allocator, TABLE_PLANS, sizeof *table->plans);
    table->ring = alloc_array(allocator, table->ring_len, sizeof *table->ring);
    table->heads = alloc_get(allocator, table->heads_bytes);
    table->region = alloc_get(allocator, table->region_bytes);
    if (table->vnodes_block == NULL || table->dirty_counts == NULL || table->plans == NULL ||
        table->ring == NULL || table->heads == NULL || table->region == NULL)
        return TG_ENOMEM;
    int rc = rates_init(&table->memory.rates, allocator);
    if (rc == 0)
        rc = filter_init(&table->filter, allocator, table->journaled_first,
                         table->bytes_max / FILTER_SHARE);
    return rc;
}

/* The first place in a block that begins a line of memory. */
static void *aligned(void *block)
{
    const uintptr_t misaligned = (uintptr_t)block % REGION_ALIGN;
    return (unsigned char *)block + (misaligned == 0 ? 0 : REGION_ALIGN - misaligned);
}

static void table_lay_out(struct table *table)
{
    void *region = aligned(table->region);
    table->vnodes = aligned(table->vnodes_block);
    table->slots = region;
    buckets_init(&table->buckets, table->slots, aligned(table->heads));
    table->slots_end = buckets_end(&table->buckets);
    arena_init(&table->memory.arena, region, table->buckets_max * BUCKET_GRANULES);
    table_update_floor(table);
}

int table_new(struct table **out, const struct allocator *allocator, size_t memory_bytes,
              uint32_t vnodes)
{
    return table_new_journaled(out, allocator, memory_bytes, vnodes, 0);
}

int table_new_journaled(struct table **out, const struct allocator *allocator, size_t memory_bytes,
                        uint32_t vnodes, uint32_t journaled)
{
    *out = NULL;
    if (memory_bytes < TABLE_MEMORY_MIN || vnodes > TABLE_VNODES_MAX || journaled >= vnodes)
        return TG_EINVALID;
    struct table *table = alloc_get(allocator, sizeof *table);
    if (table == NULL)
        return TG_ENOMEM;
    table->allocator = allocator;
    table->bytes_max = memory_bytes;
    table->settled_writes = 1; /* no look has been since */
    table->vnodes_count = vnodes;
    table->journaled_first = vnodes - journaled;
    table->ring_len = ring_len_for(memory_bytes);
    table->buckets_max = buckets_for(table);
    const int rc = table->buckets_max == 0 ? TG_EINVALID : table_take_memory(table);
    if (rc != 0) {
        table_free(&table);
        return rc;
    }
    table_lay_out(table);
    *out = table;
    return 0;
}

void table_seed(struct table *table, uint64_t seed)
{
    ASSERT(table->buckets.used == 0);
    table->buckets.seed = seed;
}

static void give_back(const struct allocator *allocator, void *block, size_t bytes)
{
    if (block != NULL)
        alloc_put(allocator, block, bytes);
}

void table_free(struct table **pointer)
{
    struct table *table = *pointer;
    if (table == NULL)
        return;
    const struct allocator *allocator = table->allocator;
    filter_fini(&table->filter);
    rates_fini(&table->memory.rates);
    give_back(allocator, table->region, table->region_bytes);
    give_back(allocator, table->heads, table->heads_bytes);
    give_back(allocator, table->ring, table->ring_len * sizeof *table->ring);
    give_back(allocator, table->plans, TABLE_PLANS * sizeof *table->plans);
    give_back(allocator, table->dirty_counts, counts_len(table) * sizeof *table->dirty_counts);
    give_back(allocator, table->vnodes_block, vnodes_bytes(table));
    alloc_put(allocator, table, sizeof *table);
    *pointer = NULL;
}

void table_stats(const struct table *table, struct table_stats *stats)
{
    const struct arena *arena = &table->memory.arena;
    *stats = (struct table_stats){
        .used = table->slots_used,
        .capacity = (uint64_t)buckets_most(table) * BUCKET_SLOTS * BUCKETS_LOAD_PERCENT / 100,
        .evicted = table->evicted,
        .turned_away = table->turned_away,
        .turned_away_ns = table->turned_away_ns,
        .room = table_room(table),
        .expired = table->expired,
        .refused = table->refused,
        .bytes_max = table->bytes_max,
        .arena_bytes = arena->used_bytes,
    };
    const uint64_t ring = table->ring_head < table->ring_len ? table->ring_head : table->ring_len;
    stats->bytes = fixed_bytes(table) - (size_t)(table->ring_len - ring) * sizeof *table->ring -
                   filter_bytes(table->journaled_first, table->bytes_max / FILTER_SHARE) +
                   filter_bytes_used(&table->filter) +
                   table->slots_end / BUCKET_SLOTS * (BUCKET_BYTES + sizeof(struct bucket_head)) +
                   (size_t)(arena->end - arena->low) * ARENA_GRANULE;
}

/* -- room --------------------------------------------------------------------------------- */

/* First granule above the slots, but never more than the arena's share away from the end. */
void table_update_floor(struct table *table)
{
    const uint32_t slots = table->slots_end / BUCKET_SLOTS * BUCKET_GRANULES;
    const uint32_t share = table->memory.arena.end / 4 * (4 - ARENA_SHARE_4THS);
    table->memory.arena.floor = slots > share ? slots : share;
    ASSERT(slots <= table->memory.arena.low); /* TABLE-9 */
}

/* A sweep that runs goes on to where slots may have moved. */
static void extend(struct sweep *sweep, uint32_t end)
{
    ASSERT(sweep->at <= sweep->end && sweep->end <= end); /* TABLE-9 */
    if (sweep->at < sweep->end)
        sweep->end = end;
}

/* Begins to grow if there are too many slots for the buckets. False if there is no memory for it.
 */
static bool table_grow(struct table *table)
{
    if (!buckets_full(&table->buckets))
        return true;
    if (!buckets_grow(&table->buckets, buckets_now(table)))
        return false;
    ASSERT(buckets_end(&table->buckets) > table->slots_end); /* TABLE-9 */
    table->slots_end = buckets_end(&table->buckets);
    for (unsigned reader = 0; reader < TABLE_READERS; reader++)
        extend(&table->sweep[reader], table->slots_end);
    extend(&table->removal, table->slots_end);
    extend(&table->fade, table->slots_end);
    table_update_floor(table);
    return true;
}

static inline uint32_t find_ref(const struct table *table, uint64_t ref, bool live)
{
    const struct buckets *buckets = &table->buckets;
    for (uint32_t bucket = bucket_home(buckets, ref);; bucket++) {
        const struct bucket_head *head = &buckets->heads[bucket];
        uint32_t match = bucket_match(head, bucket_tag(ref));
        for (; match != 0; match &= match - 1) {
            const uint32_t number = bucket * BUCKET_SLOTS + (uint32_t)__builtin_ctz(match);
            const struct slot *slot = &table->slots[number];
            if (bucket_hash(buckets, slot->id) == ref && slot_live(slot) == live)
                return number;
        }
        if (head->over == 0)
            return TABLE_NONE;
    }
}

uint32_t table_find_ref(const struct table *table, uint64_t ref, bool live)
{
    return find_ref(table, ref, live);
}

void table_discard(struct table *table, uint32_t number)
{
    struct slot *slot = &table->slots[number];
    ASSERT(slot_live(slot));
    table->clean -= slot_clean(slot);
    table->settled_writes++;
    struct limit_cell cell = slot_cell(slot);
    slot_ops(slot)->release(&table->memory, &cell);
    slot_set_cell(slot, &cell);
    struct vnode_state *state = &table->vnodes[slot->vnode];
    const uint8_t owed = slot_dirty(table, slot) & (uint8_t)~TABLE_TARGET_BIT(TABLE_DISK);
    state->vanished |= owed; /* TABLE-7 */
    table->vanished_news = table->vanished_news || owed != 0;
    if (slot_old(table, slot))
        table_old_gone(table, slot->vnode);
    ASSERT(state->count > 0 && table->slots_used > 0); /* TABLE-8 */
    if (--state->count == 0)
        state->removing = 0;
    table->slots_used--;
    slot_clear_dirty(table, slot, DIRTY_TARGETS);
    if ((slot->dirty & DIRTY_WRITING) != 0) {
        slot->kind &= (uint8_t)~KIND_LIVE; /* the writer will ask for it */
        slot->dirty = DIRTY_WRITING;
        return;
    }
    buckets_remove(&table->buckets, number);
}

/* Asks memory for all slots of a bucket, by its first. */
static void prefetch_bucket(const struct table *table, uint32_t first)
{
    const struct slot *slots = &table->slots[first];
    for (uint32_t i = 0; i < BUCKET_SLOTS; i += PREFETCH_LINE / sizeof(struct slot))
        prefetch_to_write(slots + i);
}

/* -- eviction ----------------------------------------------------------------------------- */

/* May vanish: as good as new here, and no copy elsewhere would say otherwise. */
static bool slot_expired(const struct table *table, const struct slot *slot, int64_t expires_ns,
                         int64_t now_ns)
{
    if (expires_ns > now_ns || (slot->dirty & DIRTY_WRITING) != 0)
        return false;
    return (slot->kind & KIND_LOWERED) == 0 || slot_dirty(table, slot) == 0;
}

/* True if the slot went, for it is as good as new, or was left over by a copy. */
static bool expire(struct table *table, uint32_t number, int64_t now_ns)
{
    const struct slot *slot = &table->slots[number];
    if (!slot_live(slot))
        return false;
    if (table_fade_slot(table, number) == TABLE_NONE)
        return true;
    if (!slot_expired(table, slot, slot_expires_ns(table, slot), now_ns))
        return false;
    table->expired++;
    table_discard(table, number);
    return true;
}

/* TABLE-5: whether only its expiry may take the slot out of memory now. */
static bool slot_pinned(const struct table *table, const struct slot *slot)
{
    return vnode_journaled(table, slot->vnode) &&
           ((slot->dirty & DIRTY_ON_DISK) == 0 || slot_dirty(table, slot) != 0);
}

static void slot_evict(struct table *table, uint32_t number)
{
    const struct slot *slot = &table->slots[number];
    ASSERT(slot_clean(slot)); /* TABLE-2 */
    struct vnode_state *state = &table->vnodes[slot->vnode];
    const uint8_t owed = slot_dirty(table, slot) & (uint8_t)~TABLE_TARGET_BIT(TABLE_DISK);
    if (!state->removing) {
        table_filter_add(table, slot->vnode, slot->id);
        table->missed_news = table->missed_news || (owed & ~state->missed) != 0;
        state->missed |= owed;
    }
    table_discard(table, number);
}

/* True if the slot went; else, if it is on disk as it is, but referenced, it is noted in `second`.
 */
static bool evict_consider(struct table *table, uint32_t number, int64_t now_ns, uint32_t *second)
{
    struct slot *slot = &table->slots[number];
    if (!slot_live(slot) || (slot->dirty & DIRTY_WRITING) != 0)
        return false;
    if (table_fade_slot(table, number) == TABLE_NONE)
        return true;
    const int64_t expires_ns = slot_expires_ns(table, slot);
    if (slot_expired(table, slot, expires_ns, now_ns)) {
        table->expired++;
        table_discard(table, number);
        return true;
    }
    if (slot_pinned(table, slot))
        return false;
    const bool referenced = (slot->kind & KIND_REFERENCED) != 0;
    slot->kind &= (uint8_t)~KIND_REFERENCED;
    if ((slot->dirty & DIRTY_ON_DISK) != 0 &&
        (slot_dirty(table, slot) & TABLE_TARGET_BIT(TABLE_DISK)) == 0) {
        if (!referenced) {
            table->evicted++;
            slot_evict(table, number);
            return true;
        }
        *second = number;
    }
    return false;
}

/* The first place of the next bucket that a hand comes to. Hands go round by leaps: a stretch that
 * they had cleared, beside one that they had not come to yet, would leave new keys no place there.
 */
static uint32_t next_bucket(const struct table *table, uint32_t *hand)
{
    const uint32_t buckets = table->slots_end / BUCKET_SLOTS;
    ASSERT(*hand < buckets); /* TABLE-9 */
    *hand = *hand + 1 < buckets ? *hand + 1 : 0;
    return (uint32_t)(*hand * HAND_LEAP % buckets) * BUCKET_SLOTS;
}

/* True if a slot of the bucket went. Of `scan`, those that are being written do not count: at times
 * they are most of the table. */
static bool evict_from(struct table *table, uint32_t first, uint32_t keep, int64_t now_ns,
                       uint32_t *second, uint32_t *scan)
{
    for (uint32_t number = first; number < first + BUCKET_SLOTS; number++) {
        if (*scan > 0 && (table->slots[number].dirty & DIRTY_WRITING) == 0)
            (*scan)--;
        if (number != keep && evict_consider(table, number, now_ns, second))
            return true;
    }
    return false;
}

/* What goes if nothing went at once. False if there was nothing that may. */
static bool evict_second(struct table *table, uint32_t second)
{
    if (second == TABLE_NONE)
        return false;
    ASSERT(slot_live(&table->slots[second]));
    table->evicted++;
    slot_evict(table, second);
    return true;
}

/* Makes one slot free, wherever. False if nothing in reach may go (TABLE-2). */
static bool table_evict(struct table *table, uint32_t keep, int64_t now_ns)
{
    uint32_t second = TABLE_NONE;
    const uint32_t buckets = table->slots_end / BUCKET_SLOTS;
    uint32_t steps = buckets < TABLE_EVICT_BUCKETS ? buckets : TABLE_EVICT_BUCKETS;
    for (uint32_t scan = TABLE_EVICT_SCAN; scan > 0 && steps > 0; steps--)
        if (evict_from(table, next_bucket(table, &table->hand), keep, now_ns, &second, &scan))
            return true;
    return evict_second(table, second);
}

/* True if a slot that nobody misses made way at the home of that hash: then the new key lies there,
 * not behind. */
static bool evict_at_home(struct table *table, uint64_t hash, uint32_t keep, int64_t now_ns)
{
    uint32_t ignored = TABLE_NONE;
    uint32_t scan = 0;
    return evict_from(table, bucket_home(&table->buckets, hash) * BUCKET_SLOTS, keep, now_ns,
                      &ignored, &scan);
}

/* The same as table_evict where a key of that hash is at home: when it finds no place. */
static bool table_evict_near(struct table *table, uint64_t hash, uint32_t keep, int64_t now_ns)
{
    uint32_t second = TABLE_NONE;
    uint32_t first = bucket_home(&table->buckets, hash) * BUCKET_SLOTS;
    for (uint32_t scan = TABLE_EVICT_SCAN; scan > BUCKET_SLOTS; first += BUCKET_SLOTS) {
        uint32_t counted = 0; /* all count: what is further away is of no use */
        if (evict_from(table, first, keep, now_ns, &second, &counted))
            return true;
        scan -= BUCKET_SLOTS;
    }
    return evict_second(table, second);
}

/* Whether a look found nothing that may go a moment ago, and nothing has been written since: to
 * look again for each key that finds no room would cost more than all else. */
static bool arena_stuck(const struct table *table, int64_t now_ns)
{
    return table->arena_writes == table->settled_writes && now_ns >= table->arena_ns &&
           now_ns - table->arena_ns < ARENA_AGAIN_NS;
}

bool table_make_arena_room(struct table *table, uint32_t keep, int64_t now_ns)
{
    if (arena_stuck(table, now_ns))
        return false;
    unsigned dropped = 0;
    uint32_t number = 0;
    uint32_t scan = TABLE_ARENA_SCAN;
    for (uint32_t n = 0; scan > 0 && n < TABLE_ARENA_STEPS; n++) {
        number = n % BUCKET_SLOTS == 0 ? next_bucket(table, &table->hand) : number + 1;
        const struct slot *slot = &table->slots[number];
        scan -= slot_live(slot);
        if (number == keep || !slot_live(slot) || (slot->kind & KIND_WIDE) == 0 ||
            (slot->dirty & DIRTY_WRITING) != 0)
            continue;
        uint32_t second = TABLE_NONE;
        const bool gone = evict_consider(table, number, now_ns, &second);
        if (!gone && (slot->kind & KIND_WIDE) != 0 && !evict_second(table, second))
            continue; /* else it went, or was left over by a copy */
        if (++dropped == TABLE_ARENA_VICTIMS)
            break;
    }
    if (dropped == 0) {
        table->arena_writes = table->settled_writes;
        table->arena_ns = now_ns;
    }
    return dropped > 0;
}

/* Where there are more slots than elsewhere a new key would lie far behind its home, and stay
 * there: what has expired at its home goes first. */
static void make_way(struct table *table, uint64_t hash, uint32_t keep, int64_t now_ns)
{
    const uint32_t first = bucket_home(&table->buckets, hash) * BUCKET_SLOTS;
    prefetch_bucket(table, first);
    for (uint32_t number = first; number < first + BUCKET_SLOTS; number++)
        prefetch_to_write(&table->vnodes[table->slots[number].vnode]);
    for (uint32_t number = first; number < first + BUCKET_SLOTS; number++)
        if (number != keep)
            (void)expire(table, number, now_ns);
}

/* A place for the id, none of which is there. */
static uint32_t take_place(struct table *table, struct hash128 id, uint64_t hash, uint32_t keep,
                           int64_t now_ns)
{
    if (!table_grow(table) && !evict_at_home(table, hash, keep, now_ns) &&
        !table_evict(table, keep, now_ns))
        return TABLE_NONE;
    if (buckets_way(&table->buckets, hash, TABLE_WAY) == TABLE_WAY)
        make_way(table, hash, keep, now_ns);
    const uint32_t number = buckets_add(&table->buckets, id);
    if (number != TABLE_NONE || !table_evict_near(table, hash, keep, now_ns))
        return number;
    return buckets_add(&table->buckets, id);
}

uint32_t table_insert(struct table *table, struct hash128 id, uint32_t vnode, unsigned algorithm,
                      uint32_t keep, int64_t now_ns)
{
    ASSERT(vnode < table->vnodes_count && algorithm <= LIMIT_LEASED);
    const uint64_t hash = bucket_hash(&table->buckets, id);
    if (find_ref(table, hash, true) != TABLE_NONE)
        return TABLE_NONE; /* TABLE-3: of another id, one in 2^64 */
    const uint32_t number = take_place(table, id, hash, keep, now_ns);
    if (number == TABLE_NONE)
        return TABLE_NONE;
    struct slot *slot = &table->slots[number];
    ASSERT(slot->kind == 0 && slot->dirty == 0); /* BUCKETS-4 */
    *slot = (struct slot){.id = id, .vnode = (uint16_t)vnode};
    /* Not referenced before its second use: else the hand's first turn would pass over all old
     * slots and meet the newest, which are not on disk yet. */
    slot->kind = (uint8_t)(algorithm | KIND_LIVE | table->vnodes[vnode].colour);
    table->vnodes[vnode].count++;
    table->slots_used++;
    if (table->vnodes[vnode].removing)
        table->removal.again = true; /* the sweep may have passed this place already */
    return number;
}

/* -- background --------------------------------------------------------------------------- */

void table_remove_vnode(struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    struct vnode_state *state = &table->vnodes[vnode];
    table_set_targets(table, vnode, 0);
    state->behind = state->missed = 0;
    state->resume = state->resume_next = 0;
    table_filter_reset(table, vnode);
    table_copy_abort(table, vnode);
    if (state->count == 0)
        return;
    state->removing = 1;
    if (table->removal.at == table->removal.end)
        table->removal = (struct sweep){.at = 0, .end = table->slots_end};
    else
        table->removal.again = true;
}

bool table_vnode_removing(const struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    return table->vnodes[vnode].removing;
}

static void remove_some(struct table *table)
{
    struct sweep *sweep = &table->removal;
    for (unsigned n = 0; n < TABLE_REMOVE_SLOTS && sweep->at < sweep->end; n++, sweep->at++) {
        const struct slot *slot = &table->slots[sweep->at];
        if (!slot_live(slot) || !table->vnodes[slot->vnode].removing)
            continue;
        table_discard(table, sweep->at);
    }
    if (sweep->at == sweep->end && sweep->again)
        *sweep = (struct sweep){.at = 0, .end = table->slots_end};
}

static void expire_some(struct table *table, int64_t now_ns)
{
    uint32_t ahead = table->expire_hand;
    const struct slot *soon = &table->slots[next_bucket(table, &ahead)];
    for (unsigned n = 0; n < TABLE_EXPIRE_BUCKETS; n++) {
        const uint32_t first = next_bucket(table, &table->expire_hand);
        soon = &table->slots[next_bucket(table, &ahead)];
        for (uint32_t i = 0; i < BUCKET_SLOTS; i++) {
            if (i % 2 == 0)
                prefetch_to_write(soon + i);
            (void)expire(table, first + i, now_ns);
        }
    }
}

void table_expire_buckets(struct table *table, uint32_t count, int64_t now_ns)
{
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t first = next_bucket(table, &table->expire_hand);
        for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
            (void)expire(table, first + i, now_ns);
    }
}

bool table_step(struct table *table, int64_t now_ns)
{
    table_settle_new(table);
    if (table->removal.at < table->removal.end)
        remove_some(table);
    if (table->fading != 0)
        table_fade_some(table);
    expire_some(table, now_ns);
    return table->removal.at < table->removal.end || table->fading != 0;
}

/* -- slots -------------------------------------------------------------------------------- */

uint32_t table_slots_end(const struct table *table)
{
    return table->slots_end;
}

bool table_slot_used(const struct table *table, uint32_t slot)
{
    ASSERT(slot < table->slots_end);
    return slot_live(&table->slots[slot]);
}

/* First all heads; then, when the first of them are here, the slots they name. */
void table_prefetch_ids(const struct table *table, const uint32_t *vnodes,
                        const struct hash128 *ids, size_t count)
{
    const struct buckets *buckets = &table->buckets;
    uint32_t homes[TABLE_PREFETCH_MAX];
    uint64_t hashes[TABLE_PREFETCH_MAX];
    ASSERT(count <= TABLE_PREFETCH_MAX);
    for (size_t i = 0; i < count; i++) {
        hashes[i] = bucket_hash(buckets, ids[i]);
        homes[i] = bucket_home(buckets, hashes[i]);
        prefetch(&buckets->heads[homes[i]]);
        prefetch_to_write(&table->vnodes[vnodes[i]].seq);
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t guess = bucket_guess(buckets, hashes[i], homes[i]);
        prefetch_to_write(&table->slots[guess]);
        if (__builtin_expect(guess / BUCKET_SLOTS >= homes[i] + TABLE_WAY, 0))
            prefetch_bucket(table, homes[i] * BUCKET_SLOTS); /* make_way will look at it */
    }
}

uint32_t table_lookup(const struct table *table, struct hash128 id)
{
    return table_find(table, id);
}

static const struct slot *slot_checked(const struct table *table, uint32_t number)
{
    ASSERT(number < table->slots_end && slot_live(&table->slots[number]));
    return &table->slots[number];
}

struct hash128 table_slot_id(const struct table *table, uint32_t slot)
{
    return slot_checked(table, slot)->id;
}

uint32_t table_slot_vnode(const struct table *table, uint32_t slot)
{
    return slot_checked(table, slot)->vnode;
}

int64_t table_expires_ns(const struct table *table, uint32_t slot)
{
    return slot_expires_ns(table, slot_checked(table, slot));
}

void table_drop(struct table *table, uint32_t slot)
{
    (void)slot_checked(table, slot);
    table_discard(table, slot);
}

/* -- filter ------------------------------------------------------------------------------- */

void table_filter_add(struct table *table, uint32_t vnode, struct hash128 id)
{
    ASSERT(vnode < table->vnodes_count);
    if (vnode_journaled(table, vnode))
        table->vnodes[vnode].spilled = true;
    else
        filter_add(&table->filter, vnode, id);
}

int table_filter_maybe(const struct table *table, uint32_t vnode, struct hash128 id)
{
    return vnode_maybe(table, vnode, id);
}

void table_filter_reset(struct table *table, uint32_t vnode)
{
    if (vnode_journaled(table, vnode))
        table->vnodes[vnode].spilled = false;
    else
        filter_reset(&table->filter, vnode);
}

uint32_t table_filter_fill_permille(const struct table *table, uint32_t vnode)
{
    if (vnode_journaled(table, vnode))
        return table->vnodes[vnode].spilled ? 1000 : 0;
    return filter_fill_permille(&table->filter, vnode);
}

int table_filter_rebuild_begin(struct table *table, uint32_t vnode)
{
    ASSERT(!vnode_journaled(table, vnode));
    return filter_rebuild_begin(&table->filter, vnode);
}

void table_filter_rebuild_add(struct table *table, struct hash128 id)
{
    filter_rebuild_add(&table->filter, id);
}

void table_filter_rebuild_end(struct table *table)
{
    filter_rebuild_end(&table->filter);
}

void table_filter_rebuild_abort(struct table *table)
{
    filter_rebuild_abort(&table->filter);
}
