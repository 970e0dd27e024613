/* table.c - memory of the slot table, life and death of slots; see table.h for the whole.
 *
 * The budget is cut once: fixed parts first (vnodes, rates, plans, filter, ring), and what is left
 * between the index and the region, in the proportion of 4 bytes / load to 32. Slots grow up and
 * the arena grows down in one region, so keys and logs take what they need; a small reserve keeps
 * either from shutting out the other.
 *
 * Eviction is CLOCK with a bounded scan. Of the slots it sees:
 *     expired                          -> gone at once
 *     on disk as it is, not referenced -> evicted into the filter
 *     on disk as it is, referenced     -> second best
 *     of a journaled vnode             -> stays (I5)
 *     anything else not being written  -> the nearest to full is forgotten, and counted
 *
 * A slot on disk goes though a replica is still to get it, which has then missed it (I6): the hand
 * meets a slot long after its last change, so that replica is away or far behind. To keep what is
 * owed would be to forget, for one replica that died, what no disk has.
 *
 * Must not: allocate after table_new, look at a clock, walk all slots in one call.
 */
#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/limit/table_private.h"

enum {
    FILTER_SHARE = 64, /* the filter gets 1/64 of the budget (at least a block a vnode) */
    RING_SHARE = 256,
    RESERVE_SHARE = 64,   /* of the region: what slots leave to the arena */
    ARENA_SHARE_4THS = 3, /* of the region: what the arena may take */
    REGION_ALIGN = 64,
};

static uint32_t ring_len_for(size_t memory_bytes)
{
    uint32_t len = TABLE_RING_MIN;
    while ((size_t)len * 2 * sizeof(uint32_t) <= memory_bytes / RING_SHARE && len < 1u << 26)
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

/* Bytes of everything but the index's words and the region. */
static size_t fixed_bytes(const struct table *table)
{
    return sizeof *table + vnodes_bytes(table) + counts_len(table) * sizeof *table->dirty_counts +
           rates_bytes() + TABLE_PLANS * sizeof(struct limit_plan) +
           filter_bytes(table->journaled_first, table->bytes_max / FILTER_SHARE) +
           (size_t)table->ring_len * sizeof(uint32_t) +
           (INDEX_PAD + INDEX_SCRATCH) * sizeof(uint32_t) + REGION_ALIGN;
}

static uint32_t index_size_for(uint32_t slots)
{
    return (uint32_t)((uint64_t)slots * 100 / INDEX_LOAD_PERCENT) + 2;
}

/* How many slots the rest of the budget is good for; 0 if it is too small. */
static uint32_t slots_for(const struct table *table)
{
    const size_t fixed = fixed_bytes(table);
    if (fixed + TABLE_MEMORY_MIN / 4 > table->bytes_max)
        return 0;
    const uint64_t slots = (uint64_t)(table->bytes_max - fixed) * INDEX_LOAD_PERCENT /
                           (INDEX_LOAD_PERCENT * sizeof(struct slot) + 100 * sizeof(uint32_t));
    return slots - 2 > TABLE_SLOTS_MAX ? TABLE_SLOTS_MAX : (uint32_t)slots - 2;
}

static int table_take_memory(struct table *table)
{
    const struct allocator *allocator = table->allocator;
    const uint32_t index_size = index_size_for(table->slots_max);
    table->index_block_bytes = ((size_t)index_size + INDEX_PAD + INDEX_SCRATCH) * sizeof(uint32_t);
    table->region_bytes = (size_t)table->slots_max * sizeof(struct slot) + REGION_ALIGN;
    table->vnodes_block = alloc_get(allocator, vnodes_bytes(table));
    table->dirty_counts = alloc_array(allocator, counts_len(table), sizeof *table->dirty_counts);
    table->plans = alloc_array(allocator, TABLE_PLANS, sizeof *table->plans);
    table->ring = alloc_array(allocator, table->ring_len, sizeof *table->ring);
    table->index_block = alloc_get(allocator, table->index_block_bytes);
    table->region = alloc_get(allocator, table->region_bytes);
    if (table->vnodes_block == NULL || table->dirty_counts == NULL || table->plans == NULL ||
        table->ring == NULL || table->index_block == NULL || table->region == NULL)
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
    table->slots_free = TABLE_NONE;
    const size_t granules = (size_t)table->slots_max * sizeof(struct slot) / ARENA_GRANULE;
    arena_init(&table->memory.arena, region, (uint32_t)granules);
    table_update_floor(table);
    uint32_t *words = table->index_block;
    const uint32_t index_size = index_size_for(table->slots_max);
    index_init(&table->index, table->slots, words, words + index_size + INDEX_PAD, index_size,
               table->slots_max);
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
    table->vnodes_count = vnodes;
    table->journaled_first = vnodes - journaled;
    table->ring_len = ring_len_for(memory_bytes);
    table->slots_max = slots_for(table);
    const int rc = table->slots_max == 0 ? TG_EINVALID : table_take_memory(table);
    if (rc != 0) {
        table_free(&table);
        return rc;
    }
    table_lay_out(table);
    *out = table;
    return 0;
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
    give_back(allocator, table->index_block, table->index_block_bytes);
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
        .capacity = table->slots_max - table->slots_max / RESERVE_SHARE,
        .evicted = table->evicted,
        .forgotten = table->forgotten,
        .expired = table->expired,
        .refused = table->refused,
        .bytes_max = table->bytes_max,
        .arena_bytes = arena->used_bytes,
    };
    const uint64_t ring = table->ring_head < table->ring_len ? table->ring_head : table->ring_len;
    stats->bytes = fixed_bytes(table) - (size_t)(table->ring_len - ring) * sizeof(uint32_t) -
                   filter_bytes(table->journaled_first, table->bytes_max / FILTER_SHARE) +
                   filter_bytes_used(&table->filter) + index_bytes(&table->index) +
                   (size_t)table->slots_end * sizeof(struct slot) +
                   (size_t)(arena->end - arena->low) * ARENA_GRANULE;
}

/* -- room --------------------------------------------------------------------------------- */

/* First granule above the slots in use, but never more than the arena's share away from the end. */
void table_update_floor(struct table *table)
{
    const uint32_t per_slot = sizeof(struct slot) / ARENA_GRANULE;
    const uint32_t slots = table->slots_end * per_slot;
    const uint32_t share = table->memory.arena.end / 4 * (4 - ARENA_SHARE_4THS);
    table->memory.arena.floor = slots > share ? slots : share;
}

static bool slots_may_grow(const struct table *table)
{
    if (table->slots_end >= table->slots_max - table->slots_max / RESERVE_SHARE)
        return false;
    const uint32_t per_slot = sizeof(struct slot) / ARENA_GRANULE;
    return (table->slots_end + 1) * per_slot <= table->memory.arena.low;
}

static uint32_t slot_take(struct table *table)
{
    const uint32_t slot = table->slots_free;
    if (slot != TABLE_NONE) {
        table->slots_free = table->slots[slot].word[0];
        return slot;
    }
    if (!slots_may_grow(table))
        return TABLE_NONE;
    table->slots_end++;
    table_update_floor(table);
    return table->slots_end - 1;
}

static void slot_give(struct table *table, uint32_t number)
{
    struct slot *slot = &table->slots[number];
    memset(slot, 0, sizeof *slot);
    slot->kind = KIND_FREE;
    slot->word[0] = table->slots_free;
    table->slots_free = number;
}

void table_discard(struct table *table, uint32_t number)
{
    struct slot *slot = &table->slots[number];
    ASSERT(slot_live(slot));
    index_remove(&table->index, slot->id, number);
    struct limit_cell cell = slot_cell(slot);
    slot_ops(slot)->release(&table->memory, &cell);
    slot_set_cell(slot, &cell);
    struct vnode_state *state = &table->vnodes[slot->vnode];
    const uint8_t owed = slot_dirty(table, slot) & (uint8_t)~TABLE_TARGET_BIT(TABLE_DISK);
    state->vanished |= owed; /* I7 */
    table->vanished_news = table->vanished_news || owed != 0;
    if (slot_old(table, slot))
        table_old_gone(table, slot->vnode);
    if (--state->count == 0)
        state->removing = 0;
    table->slots_used--;
    slot_clear_dirty(table, slot, DIRTY_TARGETS);
    if ((slot->dirty & DIRTY_WRITING) != 0) {
        slot->kind |= KIND_ZOMBIE; /* the writer still knows it by number */
        slot->dirty = DIRTY_WRITING;
        return;
    }
    slot_give(table, number);
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

/* I5: whether only its expiry may take the slot out of memory now. */
static bool slot_pinned(const struct table *table, const struct slot *slot)
{
    return vnode_journaled(table, slot->vnode) &&
           ((slot->dirty & DIRTY_ON_DISK) == 0 || slot_dirty(table, slot) != 0);
}

static void slot_evict(struct table *table, uint32_t number)
{
    const struct slot *slot = &table->slots[number];
    struct vnode_state *state = &table->vnodes[slot->vnode];
    const uint8_t owed = slot_dirty(table, slot) & (uint8_t)~TABLE_TARGET_BIT(TABLE_DISK);
    if (!state->removing) {
        table_filter_add(table, slot->vnode, slot->id);
        table->missed_news = table->missed_news || (owed & ~state->missed) != 0;
        state->missed |= owed;
    }
    table_discard(table, number);
}

/* Forgets a slot; an older state on disk is better than none. */
static void slot_forget(struct table *table, uint32_t number)
{
    table->forgotten++;
    if ((table->slots[number].dirty & DIRTY_ON_DISK) != 0)
        slot_evict(table, number);
    else
        table_discard(table, number);
}

/* What one scan has found: the best victim of each kind. */
struct victims {
    uint32_t second;  /* on disk as it is, but referenced */
    uint32_t nearest; /* neither, nearest to full */
    int64_t nearest_ns;
};

/* True if the slot went; else it is noted among the victims. */
static bool evict_consider(struct table *table, uint32_t number, int64_t now_ns,
                           struct victims *victims)
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
        victims->second = number;
        return false;
    }
    /* As good as new, but the disk says otherwise: it goes last, or the disk would be believed. */
    const int64_t loss_ns = expires_ns <= now_ns ? INT64_MAX : expires_ns;
    if (victims->nearest == TABLE_NONE || loss_ns < victims->nearest_ns) {
        victims->nearest = number;
        victims->nearest_ns = loss_ns;
    }
    return false;
}

/* Makes one slot free. False if everything in reach is being written. Slots came in the order in
 * which they are written back, so those of a batch lie side by side: they are stepped over in one
 * go, or the hand would meet nothing else for many keys. */
static bool table_evict(struct table *table, uint32_t keep, int64_t now_ns)
{
    struct victims victims = {.second = TABLE_NONE, .nearest = TABLE_NONE};
    uint32_t scan = table->slots_end < TABLE_EVICT_SCAN ? table->slots_end : TABLE_EVICT_SCAN;
    uint32_t steps = table->slots_end < TABLE_EVICT_STEPS ? table->slots_end : TABLE_EVICT_STEPS;
    for (; scan > 0 && steps > 0; steps--) {
        if (table->hand >= table->slots_end)
            table->hand = 0;
        const uint32_t number = table->hand++;
        if ((table->slots[number].dirty & DIRTY_WRITING) == 0)
            scan--;
        if (number != keep && evict_consider(table, number, now_ns, &victims))
            return true;
    }
    if (victims.second != TABLE_NONE) {
        table->evicted++;
        slot_evict(table, victims.second);
        return true;
    }
    if (victims.nearest == TABLE_NONE)
        return false;
    slot_forget(table, victims.nearest);
    return true;
}

bool table_make_arena_room(struct table *table, uint32_t keep, int64_t now_ns)
{
    unsigned dropped = 0;
    for (uint32_t scan = 0; scan < TABLE_ARENA_SCAN && scan < table->slots_end; scan++) {
        if (table->hand >= table->slots_end)
            table->hand = 0;
        const uint32_t number = table->hand++;
        const struct slot *slot = &table->slots[number];
        if (number == keep || !slot_live(slot) || (slot->kind & KIND_WIDE) == 0 ||
            (slot->dirty & DIRTY_WRITING) != 0)
            continue;
        struct victims victims = {.second = TABLE_NONE, .nearest = TABLE_NONE};
        const bool gone = evict_consider(table, number, now_ns, &victims);
        if (!gone && (slot->kind & KIND_WIDE) != 0) { /* else it was left over by a copy */
            if (slot_pinned(table, slot)) {
                continue;
            } else if (victims.second == number) {
                table->evicted++;
                slot_evict(table, number);
            } else {
                slot_forget(table, number);
            }
        }
        if (++dropped == TABLE_ARENA_VICTIMS)
            break;
    }
    return dropped > 0;
}

uint32_t table_insert(struct table *table, struct hash128 id, uint32_t vnode, unsigned algorithm,
                      uint32_t keep, int64_t now_ns)
{
    uint32_t number = slot_take(table);
    if (number == TABLE_NONE && table_evict(table, keep, now_ns))
        number = slot_take(table);
    if (number == TABLE_NONE)
        return TABLE_NONE;
    struct slot *slot = &table->slots[number];
    *slot = (struct slot){.id = id, .vnode = (uint16_t)vnode};
    /* Not referenced before its second use: else the hand's first turn would pass over all old
     * slots and meet the newest, which are not on disk yet. */
    slot->kind = (uint8_t)(algorithm | table->vnodes[vnode].colour);
    if (!index_insert(&table->index, id, number)) {
        slot_give(table, number);
        return TABLE_NONE;
    }
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
    state->behind = state->mark = state->mark_next = state->missed = 0;
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

/* Takes expired slots out. Each leaves a hole in the index, and to close it is to read every slot
 * that is found behind it: memory is asked for those of all before the first goes. */
static void expire_block(struct table *table, const uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        index_prefetch(&table->index, table->slots[numbers[i]].id);
    for (uint32_t i = 0; i < count; i++)
        index_prefetch_run(&table->index, table->slots[numbers[i]].id);
    for (uint32_t i = 0; i < count; i++)
        table_discard(table, numbers[i]);
    table->expired += count;
}

static void expire_some(struct table *table, int64_t now_ns)
{
    uint32_t numbers[TABLE_EXPIRE_BLOCK];
    uint32_t count = 0;
    uint32_t scan = table->slots_end < TABLE_EXPIRE_SLOTS ? table->slots_end : TABLE_EXPIRE_SLOTS;
    for (; scan > 0; scan--) {
        if (table->expire_at >= table->slots_end)
            table->expire_at = 0;
        const uint32_t number = table->expire_at++;
        const struct slot *slot = &table->slots[number];
        if (!slot_live(slot) || table_fade_slot(table, number) == TABLE_NONE ||
            !slot_expired(table, slot, slot_expires_ns(table, slot), now_ns))
            continue;
        numbers[count++] = number;
        if (count < TABLE_EXPIRE_BLOCK)
            continue;
        expire_block(table, numbers, count);
        count = 0;
    }
    expire_block(table, numbers, count);
}

bool table_step(struct table *table, int64_t now_ns)
{
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

/* First all words of the index; then, when the first of them are here, the slots they name. */
void table_prefetch_ids(const struct table *table, const uint32_t *vnodes,
                        const struct hash128 *ids, size_t count)
{
    const struct index *index = &table->index;
    const uint32_t mask = (1u << index->slot_bits) - 1;
    uint32_t homes[TABLE_PREFETCH_MAX];
    uint32_t tags[TABLE_PREFETCH_MAX];
    ASSERT(count <= TABLE_PREFETCH_MAX);
    for (size_t i = 0; i < count; i++) {
        const uint64_t hash = index_hash(ids[i]);
        homes[i] = index_home(index, hash);
        tags[i] = index_tag(index, hash);
        prefetch(&index->words[homes[i]]);
        prefetch_to_write(&table->vnodes[vnodes[i]].seq);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t at = homes[i];
        while (index->words[at] != 0 && (index->words[at] & ~mask) != tags[i])
            at++;
        if (index->words[at] != 0)
            prefetch_to_write(&table->slots[(index->words[at] & mask) - 1]);
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

enum algorithm table_slot_algorithm(const struct table *table, uint32_t slot)
{
    return (enum algorithm)slot_algorithm(table, slot_checked(table, slot));
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

void table_filter_saturate(struct table *table, uint32_t vnode)
{
    if (vnode_journaled(table, vnode))
        table->vnodes[vnode].spilled = true;
    else
        filter_saturate(&table->filter, vnode);
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
