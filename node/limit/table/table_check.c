/* table_check.c - the table's invariants, as a function that tests and the simulator call.
 *
 * TABLE-1 is checked in full for a bounded number of dirty slots, for the ring would have to be
 * walked once for each; the books (counts, references, blocks) are checked for all.
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

/* TABLE-1 for one slot. */
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
        ASSERT(ahead || sweep->again || ring_holds(table, slot_ref(table, slot), reader));
        if (target != TABLE_DISK)
            ASSERT(!table_vnode_idle(table, slot->vnode, target));
    }
}

static void check_slot(const struct table *table, uint32_t number)
{
    const struct slot *slot = &table->slots[number];
    ASSERT(slot->vnode < table->vnodes_count);
    ASSERT(slot_ops(slot) != NULL);
    ASSERT(table_find(table, slot->id) == number); /* TABLE-3 */
    ASSERT(slot_expires_ns(table, slot) >= 0);
    const struct limit_cell cell = slot_cell(slot);
    if ((slot->kind & KIND_ALGORITHM) == LIMIT_LEASED)
        leased_check(&table->memory, &cell);
    if ((slot->kind & KIND_WIDE) != 0)
        ASSERT(slot->word[2] >= table->memory.arena.low && slot->word[2] < table->memory.arena.end);
}

/* Whoever waits for a vnode's changes is not left waiting by a reader that has no more to do. */
static void check_idle(const struct table *table, uint32_t vnode)
{
    for (unsigned target = 0; target < TABLE_TARGETS; target++)
        if (target != TABLE_DISK && table_target_idle(table, target))
            ASSERT(table_vnode_idle(table, vnode, target) ||
                   table_vnode_behind(table, vnode, target));
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
        ASSERT(counted[target] == found[target]);
}

void table_check_invariants(const struct table *table)
{
    uint32_t live = 0;
    uint32_t zombies = 0;
    uint32_t tracked = 0;
    uint32_t clean = 0;
    uint64_t of_other_colour = 0;
    buckets_check(&table->buckets);
    for (uint32_t number = next_taken(table, 0); number < table->slots_end;
         number = next_taken(table, number + 1)) {
        const struct slot *slot = &table->slots[number];
        if (!slot_live(slot)) {
            zombies += slot->dirty == DIRTY_WRITING;
            ASSERT(slot->dirty == 0 || slot->dirty == DIRTY_WRITING);
            continue;
        }
        live++;
        clean += slot_clean(slot);
        of_other_colour += slot_old(table, &table->slots[number]);
        check_slot(table, number);
        if (slot_dirty(table, slot) != 0 && tracked < CHECK_RING_SLOTS) {
            tracked++;
            check_tracked(table, number);
        }
    }
    uint64_t counted = 0;
    uint64_t old = 0;
    uint32_t fading = 0;
    for (uint32_t vnode = 0; vnode < table->vnodes_count; vnode++) {
        check_idle(table, vnode);
        counted += table->vnodes[vnode].count;
        fading += table->vnodes[vnode].fading != FADING_NOT;
        old += table->vnodes[vnode].old;
        ASSERT((table->vnodes[vnode].missed & ~table->vnodes[vnode].targets) == 0);
        ASSERT((table->vnodes[vnode].vanished & ~table->vnodes[vnode].targets) == 0);
        ASSERT(table->vnodes[vnode].old > 0 || table->vnodes[vnode].fading == FADING_NOT);
    }
    ASSERT(old == of_other_colour); /* TABLECOPY-1 */
    ASSERT(fading == table->fading);
    ASSERT(clean == table->clean);
    ASSERT(live == table->slots_used && counted == live);
    ASSERT(live + zombies == table->buckets.used);
    ASSERT(table->slots_end == buckets_end(&table->buckets));
    ASSERT(table->slots_end * (sizeof(struct slot) / ARENA_GRANULE) <= table->memory.arena.low);
    check_dirty_counts(table);
    arena_check(&table->memory.arena);
}
