/* table_check.c - the table's invariants, as a function that tests and the simulator call.
 *
 * TABLE-1 is checked in full for a bounded number of dirty slots, for the ring would have to be
 * walked once for each; the books (counts, references, blocks) are checked for all. TABLE-2,
 * TABLE-4 to TABLE-7 are about what has left memory, which its state alone does not show.
 */
#include "base/assert.h"
#include "node/limit/table/table_slot.h"

enum { CHECK_RING_SLOTS = 64 };

static bool ring_holds(const struct table *table, uint64_t ref, unsigned reader)
{
    for (uint64_t at = table->cursor[reader]; at < table->ring_head; at++)
        if (table->ring[at & (table->ring_len - 1)] == ref)
            return true;
    return false;
}

/* ---- one slot ---------------------------------------------------------------------------------
 */

static void check_tracked(const struct table *table, uint32_t number)
{
    const struct slot *slot = &table->slots[number];
    const struct vnode_state *state = &table->vnodes[slot->vnode];
    for (unsigned target = 0; target < TABLE_TARGETS; target++) {
        const uint8_t bit = TABLE_TARGET_BIT(target);
        if ((slot_dirty(table, slot) & bit) == 0 || (state->behind & bit) != 0)
            continue;
        if (target == TABLE_DISK && (slot->dirty & DIRTY_WRITING) != 0)
            continue; /* table_write_done queues it */
        const unsigned reader = reader_of(table, slot->vnode, target);
        const struct sweep *sweep = &table->sweep[reader];
        const bool ahead = sweep->at <= number && number < sweep->end;
        INVARIANT("TABLE-1",
                  ahead || sweep->again || ring_holds(table, slot_ref(table, slot), reader));
        if (target != TABLE_DISK)
            INVARIANT("TABLE-1", !table_vnode_idle(table, slot->vnode, target));
    }
}

static void check_slot(const struct table *table, uint32_t number)
{
    const struct slot *slot = &table->slots[number];
    const struct arena *arena = &table->memory.arena;
    INVARIANT("TABLE-3", slot->vnode < table->vnodes_count);
    INVARIANT("TABLE-3", slot_ops(slot) != NULL);
    INVARIANT("TABLE-3", table_find(table, slot->id) == number);
    if ((slot->kind & KIND_WIDE) != 0)
        INVARIANT("ARENA-1", slot->word[2] >= arena->low && slot->word[2] < arena->end);
    const struct limit_cell cell = slot_cell(slot);
    if ((slot->kind & KIND_ALGORITHM) == LIMIT_LEASED)
        leased_check(&table->memory, &cell);
    INVARIANT("ALGORITHM-4", slot_expires_ns(table, slot) >= 0);
}

/* ---- vnodes -----------------------------------------------------------------------------------
 */

static void check_vnode(const struct table *table, uint32_t vnode)
{
    const struct vnode_state *state = &table->vnodes[vnode];
    /* Not `resume`: whoever asks to look again at what a target lacks need not know whose it is. */
    const unsigned owed = state->behind | state->missed | state->vanished;
    INVARIANT("TABLE-10", (owed & ~(unsigned)state->targets) == 0);
    INVARIANT("TABLE-10", (state->targets & ~DIRTY_TARGETS) == 0);
    INVARIANT("TABLECOPY-1", state->old <= state->count);
    INVARIANT("TABLECOPY-1", state->old > 0 || state->fading == FADING_NOT);
    INVARIANT("TABLE-9", !state->removing || table->removal.at < table->removal.end);
    INVARIANT("TABLE-8", !state->removing || state->count > 0);
    /* Nobody who waits for the vnode's changes waits for a reader that has no more to do. */
    for (unsigned target = 0; target < TABLE_TARGETS; target++)
        if (target != TABLE_DISK && table_target_idle(table, target))
            INVARIANT("TABLE-1", table_vnode_idle(table, vnode, target) ||
                                     table_vnode_behind(table, vnode, target));
}

static void check_vnodes(const struct table *table, uint64_t slots_old)
{
    uint64_t counted = 0;
    uint64_t old = 0;
    uint32_t fading = 0;
    uint32_t vnodes[TABLE_READERS] = {0};
    for (uint32_t vnode = 0; vnode < table->vnodes_count; vnode++) {
        const struct vnode_state *state = &table->vnodes[vnode];
        check_vnode(table, vnode);
        counted += state->count;
        fading += state->fading != FADING_NOT;
        old += state->old;
        for (unsigned target = 0; target < TABLE_TARGETS; target++)
            vnodes[reader_of(table, vnode, target)] += state->targets >> target & 1;
    }
    INVARIANT("TABLECOPY-1", old == slots_old);
    INVARIANT("TABLE-8", fading == table->fading);
    INVARIANT("TABLE-8", counted == table->slots_used);
    for (unsigned reader = 0; reader < TABLE_READERS; reader++)
        INVARIANT("TABLE-8", vnodes[reader] == table->target_vnodes[reader]);
}

/* The first slot from a number on whose bucket holds any: the slots of others are zero, as
 * buckets_check asserts. */
static uint32_t next_taken(const struct table *table, uint32_t number)
{
    while (number < table->slots_end && number % BUCKET_SLOTS == 0 &&
           buckets_vacant(&table->buckets, number / BUCKET_SLOTS))
        number += BUCKET_SLOTS;
    return number;
}

/* The counts of journaled vnodes, of all together: they are kept by the same two functions. */
static void check_dirty_counts(const struct table *table)
{
    uint64_t counted[TABLE_TARGETS] = {0};
    uint64_t found[TABLE_TARGETS] = {0};
    for (uint32_t vnode = table->journaled_first; vnode < table->vnodes_count; vnode++)
        for (unsigned target = 0; target < TABLE_TARGETS; target++)
            counted[target] += *dirty_count(table, vnode, target);
    for (uint32_t number = next_taken(table, 0); number < table->slots_end;
         number = next_taken(table, number + 1)) {
        const struct slot *slot = &table->slots[number];
        for (unsigned target = 0; target < TABLE_TARGETS && slot_live(slot); target++)
            found[target] +=
                vnode_journaled(table, slot->vnode) ? (uint32_t)slot->dirty >> target & 1u : 0;
    }
    for (unsigned target = 0; target < TABLE_TARGETS; target++)
        INVARIANT("TABLE-8", counted[target] == found[target]);
}

/* ---- places -----------------------------------------------------------------------------------
 */

static void check_pass(const struct table *table, const struct sweep *sweep)
{
    INVARIANT("TABLE-9", sweep->at <= sweep->end && sweep->end <= table->slots_end);
}

static void check_places(const struct table *table)
{
    const struct arena *arena = &table->memory.arena;
    const uint64_t granules = table->slots_end * (sizeof(struct slot) / ARENA_GRANULE);
    INVARIANT("TABLE-9", table->slots_end == buckets_end(&table->buckets));
    INVARIANT("TABLE-9", granules <= arena->floor && arena->floor <= arena->end);
    INVARIANT("TABLE-9", granules <= arena->low && arena->low <= arena->end);
    INVARIANT("TABLE-9", table->hand < table->slots_end / BUCKET_SLOTS);
    INVARIANT("TABLE-9", table->expire_hand < table->slots_end / BUCKET_SLOTS);
    INVARIANT("TABLE-9", table->ring_head - table->cursor_oldest <= table->ring_len);
    INVARIANT("TABLE-9", table->round.until <= table->ring_head);
    for (unsigned reader = 0; reader < TABLE_READERS; reader++) {
        INVARIANT("TABLE-9", table->cursor[reader] <= table->ring_head);
        INVARIANT("TABLE-9", table->cursor[reader] >= table->cursor_oldest);
        check_pass(table, &table->sweep[reader]);
    }
    check_pass(table, &table->removal);
    check_pass(table, &table->fade);
}

void table_check_invariants(const struct table *table)
{
    uint32_t live = 0;
    uint32_t zombies = 0;
    uint32_t tracked = 0;
    uint32_t clean = 0;
    uint64_t old = 0;
    check_places(table);
    buckets_check(&table->buckets);
    for (uint32_t number = next_taken(table, 0); number < table->slots_end;
         number = next_taken(table, number + 1)) {
        const struct slot *slot = &table->slots[number];
        if (!slot_live(slot)) {
            zombies += slot->dirty == DIRTY_WRITING;
            INVARIANT("TABLE-3", slot->dirty == 0 || slot->dirty == DIRTY_WRITING);
            continue;
        }
        live++;
        clean += slot_clean(slot);
        check_slot(table, number);
        old += slot_old(table, slot);
        if (slot_dirty(table, slot) != 0 && tracked < CHECK_RING_SLOTS) {
            tracked++;
            check_tracked(table, number);
        }
    }
    INVARIANT("TABLE-8", clean == table->clean);
    INVARIANT("TABLE-8", live == table->slots_used);
    INVARIANT("TABLE-8", live + zombies == table->buckets.used);
    check_vnodes(table, old);
    check_dirty_counts(table);
    arena_check(&table->memory.arena);
    rates_check(&table->memory.rates);
    filter_check(&table->filter);
    new_keys_check(&table->new_keys);
}
