/* table_dirty.c - who must still be told what: dirty bits, the ring of changes, sweeps.
 *
 *   ring   ... | ref | ref | ref | ref | ref |        one entry per newly set bit
 *                  ^ cursor[2]         ^ cursor[0]  ^ head
 *
 *   a target's reader drains the ring up to the head, then goes on with its sweep, if one is due:
 *
 *     ring full, its cursor the slowest  --\
 *     table_resume_vnode                  ---> sweep over all slots (bounded per call)
 *
 * A sweep on behalf of resumed vnodes concerns no other: each notes whether the running pass is for
 * it, or the next. So what is slow does not hold up what is not (table_vnode_idle).
 *
 * The disk reads in rounds: a round ends when all is handed out that was dirty when it began,
 * though slots go on to become dirty. Where they are many, a pass over the slots in the order they
 * lie in costs less than to follow their entries to and fro, so it takes the place of these.
 *
 * TABLE-1 holds because an entry is only passed over when its slot is clean, is handed to the
 * caller, is behind, or when the whole target falls back to a sweep. An entry names its slot by its
 * ref, for slots move; one whose key has gone and come back does no harm: only the bit in the slot
 * counts. Sweeps go upwards, as slots move, so that they miss none (BUCKETS-3).
 */
#include "base/assert.h"
#include "base/prefetch.h"
#include "node/limit/table/table_slot.h"

enum {
    /* Entries and slots of which memory is asked for before they are looked at. */
    RING_HEADS_AHEAD = 32, /* by RING_SLOTS_AHEAD the head, which tells where a slot is, has come */
    RING_VNODES_AHEAD = 8, /* by then the slot, which names its vnode */
    SWEEP_AHEAD = 8,
    AGAIN_AHEAD = 16, /* writes whose slots memory is asked for before they are exported again */
    DONE_AHEAD = 24,  /* and before they are done with, which takes less time */
    ROUND_SHARE = 8,  /* a round sweeps if its entries are more than one for so many slots */
};

/* -- targets ------------------------------------------------------------------------------ */

void table_set_targets(struct table *table, uint32_t vnode, uint8_t mask)
{
    ASSERT(vnode < table->vnodes_count && (mask & ~DIRTY_TARGETS) == 0);
    struct vnode_state *state = &table->vnodes[vnode];
    for (unsigned target = 0; target < TABLE_TARGETS; target++) {
        const uint8_t bit = TABLE_TARGET_BIT(target);
        uint32_t *vnodes = &table->target_vnodes[reader_of(table, vnode, target)];
        if ((mask & bit) != 0 && (state->targets & bit) == 0)
            (*vnodes)++;
        ASSERT((state->targets & bit) == 0 || *vnodes > 0 || (mask & bit) != 0); /* TABLE-8 */
        if ((mask & bit) == 0 && (state->targets & bit) != 0)
            (*vnodes)--;
    }
    /* Bits set when the target was last in the mask say nothing new, but they would be believed: a
     * sweep finds them again, so that none is without an entry (TABLE-1). */
    const uint8_t added = (uint8_t)(mask & ~state->targets);
    state->targets = mask;
    state->behind &= mask;
    state->resume &= mask;
    state->resume_next &= mask;
    state->missed &= mask;
    state->vanished &= mask;
    if (state->count == 0)
        return;
    for (unsigned target = 0; target < TABLE_TARGETS; target++)
        if ((added & TABLE_TARGET_BIT(target)) != 0)
            table_resume_vnode(table, vnode, target);
}

uint8_t table_targets(const struct table *table, uint32_t vnode)
{
    return table->vnodes[vnode].targets;
}

uint64_t table_vnode_seq(const struct table *table, uint32_t vnode)
{
    return table->vnodes[vnode].seq;
}

void table_set_vnode_seq(struct table *table, uint32_t vnode, uint64_t seq)
{
    ASSERT(vnode < table->vnodes_count);
    table->vnodes[vnode].seq = seq;
}

uint32_t table_count(const struct table *table, uint32_t vnode)
{
    return table->vnodes[vnode].count;
}

/* The bit of a slot that concerns the reader. */
static uint8_t reader_bit(unsigned reader)
{
    return TABLE_TARGET_BIT(reader == TABLE_JOURNAL ? TABLE_DISK : reader);
}

/* Who is still to get the slot, and not put off. */
static inline uint8_t slot_owed(const struct table *table, const struct slot *slot)
{
    const struct vnode_state *state = &table->vnodes[slot->vnode];
    return (uint8_t)(slot->dirty & state->targets & ~state->behind);
}

/* True if the reader should get the slot now. One that is being written is not handed to the disk a
 * second time: table_write_done queues it again. */
static inline bool slot_due(const struct table *table, const struct slot *slot, unsigned reader)
{
    const uint8_t bit = reader_bit(reader);
    if (!slot_live(slot) || (slot->dirty & bit) == 0)
        return false;
    if (bit == TABLE_TARGET_BIT(TABLE_DISK) &&
        ((slot->dirty & DIRTY_WRITING) != 0 || reader_of(table, slot->vnode, TABLE_DISK) != reader))
        return false;
    return (slot_owed(table, slot) & bit) != 0;
}

bool table_slot_due(const struct table *table, uint32_t number, unsigned target)
{
    ASSERT(number < table->slots_end && target != TABLE_DISK && target < TABLE_TARGETS);
    return slot_due(table, &table->slots[number], target);
}

/* -- sweeps ------------------------------------------------------------------------------- */

static bool sweep_running(const struct sweep *sweep)
{
    return sweep->at < sweep->end;
}

/* Asks for a visit of every slot from now on. True if the pass that runs now is one, else the next
 * is. */
static bool sweep_ask(struct table *table, unsigned target)
{
    struct sweep *sweep = &table->sweep[target];
    const bool fresh = !sweep_running(sweep) || sweep->at == 0;
    if (fresh) {
        sweep->at = 0;
        sweep->end = table->slots_end;
    } else {
        sweep->again = true;
    }
    /* Slots added since a pass began come through the ring. */
    return fresh;
}

/* The end of a pass: what it was resumed for is done, what was resumed meanwhile begins. */
static void sweep_finish(struct table *table, unsigned target)
{
    struct sweep *sweep = &table->sweep[target];
    const uint8_t bit = TABLE_TARGET_BIT(target);
    bool resumed = false;
    for (uint32_t vnode = 0; sweep->resumed && vnode < table->vnodes_count; vnode++) {
        struct vnode_state *state = &table->vnodes[vnode];
        state->resume = (uint8_t)((state->resume & ~bit) | (state->resume_next & bit));
        state->resume_next &= (uint8_t)~bit;
        resumed = resumed || (state->resume & bit) != 0;
    }
    const bool again = sweep->again;
    if (target == TABLE_DISK)
        table->round.sweeps = false;
    *sweep = (struct sweep){.resumed = resumed, .all = (uint8_t)(sweep->all - (sweep->all > 0))};
    if (again)
        sweep->end = table->slots_end;
}

/* Asks memory for what slot_due reads of the slot's vnode. */
static void prefetch_vnode(const struct table *table, uint32_t number)
{
    prefetch(&table->vnodes[table->slots[number].vnode]);
}

/* Goes on with the target's sweep for a bounded number of slots. A dirty slot, or TABLE_NONE. */
static uint32_t sweep_next(struct table *table, unsigned target)
{
    struct sweep *sweep = &table->sweep[target];
    const uint8_t bit = TABLE_TARGET_BIT(target);
    for (unsigned n = 0; n < TABLE_SWEEP_SLOTS && sweep_running(sweep); n++) {
        const uint32_t number = sweep->at++;
        const struct slot *slot = &table->slots[number];
        if (number + SWEEP_AHEAD < sweep->end &&
            (table->slots[number + SWEEP_AHEAD].dirty & bit) != 0)
            prefetch_vnode(table, number + SWEEP_AHEAD);
        if (slot_due(table, slot, target))
            return number; /* the pass is finished by a later call, if this was its last */
    }
    if (!sweep_running(sweep))
        sweep_finish(table, target);
    return TABLE_NONE;
}

void table_resume_vnode(struct table *table, uint32_t vnode, unsigned target)
{
    ASSERT(vnode < table->vnodes_count && target < TABLE_TARGETS);
    struct vnode_state *state = &table->vnodes[vnode];
    const uint8_t bit = TABLE_TARGET_BIT(target);
    const unsigned reader = reader_of(table, vnode, target);
    state->behind &= (uint8_t)~bit;
    const bool fresh = sweep_ask(table, reader);
    if (target == TABLE_DISK)
        return;
    table->sweep[reader].resumed = true;
    *(fresh ? &state->resume : &state->resume_next) |= bit;
}

bool table_vnode_behind(const struct table *table, uint32_t vnode, unsigned target)
{
    ASSERT(vnode < table->vnodes_count && target < TABLE_TARGETS);
    return (table->vnodes[vnode].behind & TABLE_TARGET_BIT(target)) != 0;
}

bool table_vnode_missed(const struct table *table, uint32_t vnode, unsigned target)
{
    return (table->vnodes[vnode].missed & TABLE_TARGET_BIT(target)) != 0;
}

void table_forgive_missed(struct table *table, uint32_t vnode, unsigned target)
{
    ASSERT(vnode < table->vnodes_count && target != TABLE_DISK && target < TABLE_TARGETS);
    table->vnodes[vnode].missed &= (uint8_t)~TABLE_TARGET_BIT(target);
}

bool table_missed_news(struct table *table)
{
    const bool news = table->missed_news;
    table->missed_news = false;
    return news;
}

bool table_vanished_news(struct table *table)
{
    const bool news = table->vanished_news;
    table->vanished_news = false;
    return news;
}

uint8_t table_take_vanished(struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    const uint8_t vanished = table->vnodes[vnode].vanished;
    table->vnodes[vnode].vanished = 0;
    return vanished;
}

uint32_t table_vnode_dirty(const struct table *table, uint32_t vnode, unsigned target)
{
    ASSERT(vnode_journaled(table, vnode) && target < TABLE_TARGETS);
    return *dirty_count(table, vnode, target);
}

bool table_vnode_idle(const struct table *table, uint32_t vnode, unsigned target)
{
    ASSERT(target != TABLE_DISK && target < TABLE_TARGETS);
    const struct vnode_state *state = &table->vnodes[vnode];
    const uint8_t pending = state->behind | state->resume | state->resume_next;
    return table->target_vnodes[target] == 0 ||
           (table->cursor[target] == table->ring_head && table->sweep[target].all == 0 &&
            (pending & TABLE_TARGET_BIT(target)) == 0);
}

bool table_target_idle(const struct table *table, unsigned target)
{
    ASSERT(target < TABLE_READERS);
    const struct sweep *sweep = &table->sweep[target];
    if (table->target_vnodes[target] == 0)
        return true;
    /* A pass whose last slot was handed out has run, and is still to be finished. */
    return table->cursor[target] == table->ring_head && !sweep_running(sweep) && !sweep->again &&
           !sweep->resumed && sweep->all == 0;
}

/* -- the ring ----------------------------------------------------------------------------- */

/* The disk's pass over all slots begins anew: it finds whatever is dirty now. */
static void round_sweep(struct table *table)
{
    table->cursor[TABLE_DISK] = table->ring_head;
    table->sweep[TABLE_DISK] = (struct sweep){.end = table->slots_end, .all = 1};
    table->round.sweeps = true;
}

/* A reader has lost entries: a sweep finds what they were of. */
static void fall_back(struct table *table, unsigned target)
{
    if (target == TABLE_DISK && !table->round.sweeps &&
        table->cursor[target] < table->round.until) {
        round_sweep(table);
        return;
    }
    table->cursor[target] = table->ring_head;
    table->sweep[target].all = sweep_ask(table, target) ? 1 : 2;
}

/* Makes room for one entry: whoever is a whole ring behind falls back to a sweep. */
static void ring_make_room(struct table *table)
{
    ASSERT(table->ring_head >= table->ring_len && table->cursor_oldest <= table->ring_head);
    const uint64_t limit = table->ring_head - table->ring_len + 1;
    uint64_t oldest = table->ring_head;
    for (unsigned target = 0; target < TABLE_READERS; target++) {
        if (table->target_vnodes[target] == 0) {
            table->cursor[target] = table->ring_head;
        } else if (table->cursor[target] < limit) {
            fall_back(table, target);
        }
        if (table->cursor[target] < oldest)
            oldest = table->cursor[target];
    }
    table->cursor_oldest = oldest;
}

static void ring_push(struct table *table, const struct slot *slot)
{
    if (table->ring_head - table->cursor_oldest == table->ring_len)
        ring_make_room(table);
    ASSERT(table->ring_head - table->cursor_oldest < table->ring_len); /* TABLE-9 */
    table->ring[table->ring_head++ & (table->ring_len - 1)] = slot_ref(table, slot);
}

void table_mark_dirty(struct table *table, uint32_t number, uint8_t targets)
{
    struct slot *slot = &table->slots[number];
    if ((targets & ~slot->dirty) == 0)
        return; /* whoever has the bit has the entry */
    if ((targets & TABLE_TARGET_BIT(TABLE_DISK)) != 0)
        table->clean -= slot_clean(slot);
    slot_set_dirty(table, slot, targets);
    ring_push(table, slot);
}

void table_changed(struct table *table, uint32_t number, bool lowered)
{
    struct slot *slot = &table->slots[number];
    struct vnode_state *state = &table->vnodes[slot->vnode];
    state->seq++;
    if (lowered)
        slot->kind |= KIND_LOWERED;
    table_mark_dirty(table, number, state->targets);
}

/* Asks memory for what tells where the slot with that ref is; then, when that has come, for it. */
static void prefetch_head(const struct table *table, uint64_t ref)
{
    prefetch(&table->buckets.heads[bucket_home(&table->buckets, ref)]);
}

/* Returns where that most likely is: a hint. */
static uint32_t prefetch_ref(const struct table *table, uint64_t ref)
{
    const struct buckets *buckets = &table->buckets;
    const uint32_t hint = bucket_guess(buckets, ref, bucket_home(buckets, ref));
    prefetch_to_write(&table->slots[hint]);
    return hint;
}

/* The slot with that ref which is live, or is not: first of all at the hint. */
static inline uint32_t find_at(const struct table *table, uint64_t ref, uint32_t hint, bool live)
{
    const struct slot *slot = &table->slots[hint];
    ASSERT(hint < table->slots_end);
    if (__builtin_expect(slot_ref(table, slot) == ref && slot_live(slot) == live, 1))
        return hint;
    return table_find_ref(table, ref, live);
}

/* Asks memory for what the entries behind `cursor` name, and notes where that is; returns where the
 * next one's is. Where a reader begins anew, it asks for all of them at once. */
static uint32_t look_ahead(struct table *table, unsigned target, uint64_t cursor)
{
    const uint32_t mask = table->ring_len - 1;
    uint32_t *hints = table->hints[target];
    const uint64_t all = table->ring_head - cursor;
    const uint64_t end = cursor + (all < RING_SLOTS_AHEAD ? all : RING_SLOTS_AHEAD);
    uint64_t noted = table->hinted[target] < cursor ? cursor : table->hinted[target];
    if (cursor + RING_HEADS_AHEAD < table->ring_head)
        prefetch_head(table, table->ring[(cursor + RING_HEADS_AHEAD) & mask]);
    for (; noted < end; noted++)
        hints[noted % RING_SLOTS_AHEAD] = prefetch_ref(table, table->ring[noted & mask]);
    table->hinted[target] = noted;
    prefetch_vnode(table, hints[(cursor + RING_VNODES_AHEAD) % RING_SLOTS_AHEAD]);
    return hints[cursor % RING_SLOTS_AHEAD];
}

uint32_t table_next_dirty(struct table *table, unsigned target)
{
    ASSERT(target < TABLE_READERS);
    uint64_t *cursor = &table->cursor[target];
    if (table->target_vnodes[target] == 0) {
        *cursor = table->ring_head; /* nobody's: what the entries are of is not looked at */
        return TABLE_NONE;
    }
    for (unsigned n = 0; *cursor < table->ring_head; n++) {
        if (n == TABLE_DRAIN_ENTRIES)
            return TABLE_NONE;
        const uint64_t ref = table->ring[*cursor & (table->ring_len - 1)];
        const uint32_t hint = look_ahead(table, target, (*cursor)++);
        const uint32_t number = find_at(table, ref, hint, true);
        if (number != TABLE_NONE && slot_due(table, &table->slots[number], target))
            return number;
    }
    return table_target_idle(table, target) ? TABLE_NONE : sweep_next(table, target);
}

uint8_t table_abreast(const struct table *table, uint8_t targets)
{
    uint8_t abreast = 0;
    uint64_t at = 0;
    for (unsigned target = TABLE_DISK + 1; target < TABLE_TARGETS; target++) {
        if ((targets & TABLE_TARGET_BIT(target)) == 0 || table->target_vnodes[target] == 0)
            continue;
        if (abreast == 0)
            at = table->cursor[target];
        if (table->cursor[target] == at)
            abreast |= TABLE_TARGET_BIT(target);
    }
    return abreast;
}

uint32_t table_next_abreast(struct table *table, uint8_t abreast)
{
    ASSERT(abreast != 0 && table_abreast(table, abreast) == abreast);
    const unsigned first = (unsigned)__builtin_ctz(abreast);
    uint32_t found = TABLE_NONE;
    uint64_t at = table->cursor[first];
    for (unsigned n = 0; at < table->ring_head && n < TABLE_DRAIN_ENTRIES && found == TABLE_NONE;
         n++, at++) {
        const uint64_t ref = table->ring[at & (table->ring_len - 1)];
        const uint32_t number = find_at(table, ref, look_ahead(table, first, at), true);
        if (number != TABLE_NONE && (slot_owed(table, &table->slots[number]) & abreast) != 0)
            found = number;
    }
    for (unsigned left = abreast; left != 0; left &= left - 1)
        table->cursor[__builtin_ctz(left)] = at;
    return found;
}

void table_round_begin(struct table *table)
{
    const uint64_t entries = table->ring_head - table->cursor[TABLE_DISK];
    table->round = (struct round){.until = table->ring_head};
    table_mark_new(table);
    if (sweep_running(&table->sweep[TABLE_DISK]) || table->sweep[TABLE_DISK].again ||
        entries > table->slots_end / ROUND_SHARE)
        round_sweep(table);
}

bool table_round_over(const struct table *table)
{
    return table->target_vnodes[TABLE_DISK] == 0 ||
           (!table->round.sweeps && table->cursor[TABLE_DISK] >= table->round.until);
}

static inline struct table_write begin_write(struct table *table, uint32_t number)
{
    struct slot *slot = &table->slots[number];
    table->clean -= slot_clean(slot);
    slot_clear_dirty(table, slot, TABLE_TARGET_BIT(TABLE_DISK));
    slot->dirty |= DIRTY_WRITING;
    return (struct table_write){slot_ref(table, slot), number};
}

/* Of `most` places of the disk's pass those that are due. First which are dirty at all: of each
 * that is no better than a coin's fall, so nothing branches; then these. */
static uint32_t take_of_sweep(struct table *table, struct table_write *writes, uint16_t *vnodes,
                              uint32_t most)
{
    const uint8_t bit = TABLE_TARGET_BIT(TABLE_DISK);
    const struct slot *slots = table->slots;
    struct sweep *sweep = &table->sweep[TABLE_DISK];
    ASSERT(sweep->at <= sweep->end && sweep->end <= table->slots_end); /* TABLE-9 */
    const uint32_t left = sweep->end - sweep->at;
    const uint32_t end = sweep->at + (most < left ? most : left);
    uint32_t dirty = 0;
    for (uint32_t number = sweep->at; number < end; number++) {
        writes[dirty].hint = number;
        dirty += (slots[number].dirty & (bit | DIRTY_WRITING)) == bit;
    }
    sweep->at = end;
    uint32_t count = 0;
    for (uint32_t i = 0; i < dirty; i++) {
        const uint32_t number = writes[i].hint;
        if (!slot_due(table, &slots[number], TABLE_DISK))
            continue;
        vnodes[count] = slots[number].vnode;
        writes[count++] = begin_write(table, number);
    }
    if (!sweep_running(sweep))
        sweep_finish(table, TABLE_DISK);
    return count;
}

static uint32_t take_of_ring(struct table *table, struct table_write *writes, uint16_t *vnodes,
                             uint32_t most)
{
    uint32_t count = 0;
    while (count < most && !table_round_over(table)) {
        const uint32_t number = table_next_dirty(table, TABLE_DISK);
        if (number == TABLE_NONE)
            break;
        vnodes[count] = table->slots[number].vnode;
        writes[count++] = begin_write(table, number);
    }
    return count;
}

uint32_t table_round_take(struct table *table, struct table_write *writes, uint16_t *vnodes,
                          uint32_t most)
{
    ASSERT(table->round.until <= table->ring_head); /* TABLE-9 */
    if (table_round_over(table))
        return 0;
    return table->round.sweeps ? take_of_sweep(table, writes, vnodes, most)
                               : take_of_ring(table, writes, vnodes, most);
}

void table_settle(struct table *table, uint32_t number)
{
    struct slot *slot = &table->slots[number];
    if ((slot->kind & KIND_LOWERED) == 0)
        return; /* as most are: nothing is asked of the vnode */
    if (slot_dirty(table, slot) == 0 && (slot->dirty & DIRTY_WRITING) == 0)
        slot->kind &= (uint8_t)~KIND_LOWERED;
}

void table_clear_dirty(struct table *table, uint32_t number, unsigned target)
{
    ASSERT(number < table->slots_end && slot_live(&table->slots[number]));
    ASSERT(target < TABLE_TARGETS);
    table->clean -= slot_clean(&table->slots[number]);
    slot_clear_dirty(table, &table->slots[number], TABLE_TARGET_BIT(target));
    table->clean += slot_clean(&table->slots[number]);
    table_settle(table, number);
}

void table_defer(struct table *table, uint32_t number, unsigned target)
{
    ASSERT(number < table->slots_end && slot_live(&table->slots[number]));
    ASSERT(target < TABLE_TARGETS);
    table->vnodes[table->slots[number].vnode].behind |= TABLE_TARGET_BIT(target);
}

/* -- the disk ----------------------------------------------------------------------------- */

struct table_write table_write_begin(struct table *table, uint32_t number)
{
    ASSERT(number < table->slots_end && slot_live(&table->slots[number]));
    ASSERT((table->slots[number].dirty & DIRTY_WRITING) == 0);
    return begin_write(table, number);
}

/* A slot that is being written. Of one that is gone and one of the same key that has come since,
 * the first: its write was begun before. Both are with one writer: in the plane of quorum a key's
 * slots have other ids. */
static inline uint32_t find_written(const struct table *table, const struct table_write *write)
{
    uint32_t number = TABLE_NONE;
    if (__builtin_expect(table->buckets.used != table->slots_used, 0))
        number = find_at(table, write->ref, write->hint, false);
    if (number == TABLE_NONE)
        number = find_at(table, write->ref, write->hint, true);
    ASSERT(number != TABLE_NONE && (table->slots[number].dirty & DIRTY_WRITING) != 0);
    return number;
}

bool table_write_again(struct table *table, struct table_write *writes, uint32_t count,
                       void *buffer, struct table_state *out)
{
    ASSERT(count > 0 && buffer != NULL);
    if (count > AGAIN_AHEAD)
        prefetch_to_write(&table->slots[writes[AGAIN_AHEAD].hint]);
    writes->hint = find_written(table, writes);
    struct slot *slot = &table->slots[writes->hint];
    if (!slot_live(slot))
        return false;
    slot_clear_dirty(table, slot, TABLE_TARGET_BIT(TABLE_DISK));
    out->id = slot->id;
    out->vnode = slot->vnode;
    out->len = table_export_dated(table, slot, buffer, &out->expires_ns);
    return true;
}

static void end_write(struct table *table, const struct table_write *write, bool ok)
{
    const uint32_t number = find_written(table, write);
    struct slot *slot = &table->slots[number];
    slot->dirty &= (uint8_t)~DIRTY_WRITING;
    if (!slot_live(slot)) {
        buckets_remove(&table->buckets, number);
        return;
    }
    if (ok)
        slot->dirty |= DIRTY_ON_DISK;
    if (!ok || (slot->dirty & TABLE_TARGET_BIT(TABLE_DISK)) != 0) {
        slot_set_dirty(table, slot, TABLE_TARGET_BIT(TABLE_DISK));
        ring_push(table, slot); /* its entry may have been passed over meanwhile */
    }
    table->clean += slot_clean(slot);
    table->settled_writes++;
    table_settle(table, number);
}

void table_write_done(struct table *table, const struct table_write *writes, uint32_t count,
                      bool ok)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i + DONE_AHEAD < count)
            prefetch_to_write(&table->slots[writes[i + DONE_AHEAD].hint]);
        end_write(table, &writes[i], ok);
    }
}
