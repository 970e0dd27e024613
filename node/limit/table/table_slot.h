/* table_slot.h - what a slot says, and where one is found: inline, for every check reads it.
 *
 * Each function reads or writes one slot (or its vnode's state) and nothing else; what a change of
 * a slot entails is the business of table_private.h's functions.
 */
#ifndef NODE_LIMIT_TABLE_TABLE_SLOT_H
#define NODE_LIMIT_TABLE_TABLE_SLOT_H

#include "node/limit/table/table_private.h"

static inline bool slot_live(const struct slot *slot)
{
    return (slot->kind & KIND_LIVE) != 0;
}

/* May leave at once, if nothing but the disk has a claim on it. */
static inline bool slot_clean(const struct slot *slot)
{
    return slot_live(slot) && (slot->dirty & (DIRTY_ON_DISK | DIRTY_WRITING |
                                              TABLE_TARGET_BIT(TABLE_DISK))) == DIRTY_ON_DISK;
}

static inline struct limit_cell slot_cell(const struct slot *slot)
{
    return (struct limit_cell){
        .word = {slot->word[0], slot->word[1], slot->word[2]},
        .wide = (slot->kind & KIND_WIDE) != 0,
    };
}

static inline void slot_set_cell(struct slot *slot, const struct limit_cell *cell)
{
    slot->word[0] = cell->word[0];
    slot->word[1] = cell->word[1];
    slot->word[2] = cell->word[2];
    slot->kind = (uint8_t)((slot->kind & ~KIND_WIDE) | (cell->wide ? KIND_WIDE : 0));
}

static inline const struct limit_ops *slot_ops(const struct slot *slot)
{
    return algorithm_ops(slot->kind & KIND_ALGORITHM);
}

/* The algorithm of the slot, whatever is held of it. */
static inline unsigned slot_algorithm(const struct table *table, const struct slot *slot)
{
    const unsigned kind = slot->kind & KIND_ALGORITHM;
    const struct limit_cell cell = slot_cell(slot);
    return kind == LIMIT_LEASED ? leased_of(&table->memory, &cell)->algorithm : kind;
}

/* Gives a live slot another kind of state. */
static inline void slot_set_kind(struct slot *slot, unsigned kind)
{
    slot->kind = (uint8_t)((slot->kind & ~(unsigned)KIND_ALGORITHM) | kind);
}

static inline bool vnode_journaled(const struct table *table, uint32_t vnode)
{
    return vnode >= table->journaled_first;
}

/* Who reads the changes of a vnode for `target`. */
static inline unsigned reader_of(const struct table *table, uint32_t vnode, unsigned target)
{
    return target == TABLE_DISK && vnode_journaled(table, vnode) ? TABLE_JOURNAL : target;
}

static inline uint32_t *dirty_count(const struct table *table, uint32_t vnode, unsigned target)
{
    return &table->dirty_counts[(vnode - table->journaled_first) * TABLE_TARGETS + target];
}

/* Sets and clears dirty bits; the only ways to do so, because journaled vnodes count them. */
static inline void slot_set_dirty(const struct table *table, struct slot *slot, uint8_t bits)
{
    if (vnode_journaled(table, slot->vnode))
        for (unsigned target = 0; target < TABLE_TARGETS; target++)
            *dirty_count(table, slot->vnode, target) +=
                (uint32_t)(bits & ~slot->dirty) >> target & 1u;
    slot->dirty |= bits;
}

static inline void slot_clear_dirty(const struct table *table, struct slot *slot, uint8_t bits)
{
    if (vnode_journaled(table, slot->vnode))
        for (unsigned target = 0; target < TABLE_TARGETS; target++)
            *dirty_count(table, slot->vnode, target) -=
                (uint32_t)(bits & slot->dirty) >> target & 1u;
    slot->dirty &= (uint8_t)~bits;
}

/* Whether `id`, which is not in memory, may be on disk (TABLE-4). */
static inline bool vnode_maybe(const struct table *table, uint32_t vnode, struct hash128 id)
{
    return vnode_journaled(table, vnode) ? table->vnodes[vnode].spilled
                                         : filter_maybe(&table->filter, vnode, id) != 0;
}

/* Dirty bits that still concern somebody. */
static inline uint8_t slot_dirty(const struct table *table, const struct slot *slot)
{
    return slot->dirty & DIRTY_TARGETS & table->vnodes[slot->vnode].targets;
}

/* Whether the slot was left over by a copy: it means "new", whatever its cell says. */
static inline bool slot_faded(const struct table *table, const struct slot *slot)
{
    if (__builtin_expect(table->fading == 0, 1))
        return false;
    const struct vnode_state *state = &table->vnodes[slot->vnode];
    return state->fading != FADING_NOT && (slot->kind & KIND_COLOUR) != state->colour;
}

static inline bool slot_old(const struct table *table, const struct slot *slot)
{
    return (slot->kind & KIND_COLOUR) != table->vnodes[slot->vnode].colour;
}

/* What the slot means; slot_cell is what it is made of. */
static inline struct limit_cell slot_state(const struct table *table, const struct slot *slot)
{
    return slot_faded(table, slot) ? (struct limit_cell){0} : slot_cell(slot);
}

static inline uint64_t slot_ref(const struct table *table, const struct slot *slot)
{
    return bucket_hash(&table->buckets, slot->id);
}

static inline int64_t slot_expires_ns(const struct table *table, const struct slot *slot)
{
    const struct limit_cell cell = slot_state(table, slot);
    return slot_ops(slot)->expires(&table->memory, &cell);
}

static inline uint32_t table_find(const struct table *table, struct hash128 id)
{
    const struct buckets *buckets = &table->buckets;
    const uint64_t hash = bucket_hash(buckets, id);
    for (uint32_t bucket = bucket_home(buckets, hash);; bucket++) {
        const struct bucket_head *head = &buckets->heads[bucket];
        uint32_t match = bucket_match(head, bucket_tag(hash));
        for (; match != 0; match &= match - 1) {
            const uint32_t number = bucket * BUCKET_SLOTS + (uint32_t)__builtin_ctz(match);
            const struct slot *slot = &table->slots[number];
            if (__builtin_expect(hash128_equal(slot->id, id) && slot_live(slot), 1))
                return number;
        }
        if (__builtin_expect(head->over == 0, 1))
            return TABLE_NONE;
    }
}

/* As table_find, for who will change the slot: one that a copy left over is made as new first. */
static inline uint32_t table_find_to_change(struct table *table, struct hash128 id)
{
    const uint32_t number = table_find(table, id);
    if (__builtin_expect(table->fading != 0, 0) && number != TABLE_NONE)
        return table_fade_slot(table, number);
    return number;
}

#endif
