/* table_copy.c - what a complete copy of a vnode leaves over goes.
 *
 * A replica that takes a complete copy ends up with the slots of the copy and with those it had
 * before and the leader does not have: of a deposed term, or reset long ago. To tell them apart
 * each slot has a colour, and each vnode has the colour of the moment:
 *
 *      begin: the vnode's colour turns           o o o o o       slots of the old colour
 *      imports give the new colour               x x o x o
 *      end: the old colour has faded             x x   x         it reads as new at once;
 *      the pass, in portions of table_step       x x   x         and then it is
 *
 *      settled --begin--> copying --end--> fading --last old slot gone--> settled
 *         ^                  |  ^------begin------|
 *         |                abort
 *         |                  v
 *         +--------------- mixed --begin--> copying, doubtful
 *
 * Slots of the old colour are counted. A copy that had them all - most do - is settled when it
 * ends, and costs no pass; else the pass ends for a vnode with the last of them.
 *
 * A faded slot that is on disk is not dropped but written as new, as a reset key is, which takes
 * the record away; so a crash at any moment leaves either record or removal, never a wrong state.
 *
 * TABLECOPY-1  `old` is how many slots of the vnode are of the other colour: none when it is
 *              settled.
 * TABLECOPY-2  While slots of both colours are about, another beginning does not turn the colour: a
 *              slot of the copy before may then be taken for one of this. Its end says so
 *              (TG_EBUSY).
 * TABLECOPY-3  A slot of the old colour at the end of a copy was not in it, whatever happened
 *              before.
 */
#include "base/assert.h"
#include "node/limit/table/table_slot.h"

void table_copy_begin(struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    struct vnode_state *state = &table->vnodes[vnode];
    state->copying = true;
    state->doubtful = state->old > 0; /* TABLECOPY-2 */
    if (state->old > 0)
        return;
    ASSERT(state->fading == FADING_NOT); /* TABLECOPY-1 */
    state->colour ^= KIND_COLOUR;
    state->old = state->count;
}

void table_copy_abort(struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    table->vnodes[vnode].copying = false;
}

int table_copy_end(struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    struct vnode_state *state = &table->vnodes[vnode];
    if (!state->copying)
        return TG_EBUSY;
    state->copying = false;
    const int rc = state->doubtful ? TG_EBUSY : 0;
    if (state->old == 0)
        return rc;
    const bool idle = table->fading == 0 || table->fade.at == table->fade.end;
    table->fading += state->fading == FADING_NOT;
    if (idle) {
        table->fade = (struct sweep){.at = 0, .end = table->slots_end};
        state->fading = FADING_PASS;
    } else if (state->fading == FADING_NOT) {
        table->fade.again = true;
        state->fading = FADING_NEXT;
    }
    return rc;
}

bool table_copy_settled(const struct table *table, uint32_t vnode)
{
    return table->vnodes[vnode].old == 0;
}

bool table_copy_fading(const struct table *table, uint32_t vnode)
{
    return table->vnodes[vnode].fading != FADING_NOT;
}

void table_old_gone(struct table *table, uint32_t vnode)
{
    struct vnode_state *state = &table->vnodes[vnode];
    ASSERT(state->old > 0);
    if (--state->old > 0 || state->fading == FADING_NOT)
        return;
    ASSERT(table->fading > 0); /* TABLE-8 */
    state->fading = FADING_NOT;
    table->fading--;
}

uint32_t table_fade_slot(struct table *table, uint32_t number)
{
    struct slot *slot = &table->slots[number];
    if (!slot_faded(table, slot))
        return number;
    struct limit_cell cell = slot_cell(slot);
    const unsigned algorithm = slot_algorithm(table, slot);
    slot_ops(slot)->release(&table->memory, &cell);
    slot_set_cell(slot, &cell);
    slot_set_kind(slot, algorithm); /* what was held of it is over, too */
    table_old_gone(table, slot->vnode);
    slot->kind ^= KIND_COLOUR;
    if ((slot->dirty & (DIRTY_ON_DISK | DIRTY_WRITING)) == 0 &&
        !vnode_maybe(table, slot->vnode, slot->id)) {
        table_discard(table, number);
        return TABLE_NONE;
    }
    slot->kind |= KIND_LOWERED; /* it must not vanish before the disk knows */
    table_mark_dirty(table, number, table->vnodes[slot->vnode].targets);
    table_settle(table, number);
    return number;
}

/* The end of a pass: vnodes that it served in full are settled, the others get the next one. */
static void fade_finish(struct table *table)
{
    for (uint32_t vnode = 0; vnode < table->vnodes_count; vnode++) {
        struct vnode_state *state = &table->vnodes[vnode];
        ASSERT(state->fading != FADING_PASS); /* it met all slots there were */
        if (state->fading == FADING_NEXT)
            state->fading = FADING_PASS;
    }
    table->fade = (struct sweep){.at = 0, .end = table->fade.again ? table->slots_end : 0};
}

void table_fade_some(struct table *table)
{
    struct sweep *sweep = &table->fade;
    ASSERT(table->fading > 0 && sweep->end <= table->slots_end); /* TABLE-9 */
    for (unsigned n = 0; n < TABLE_FADE_SLOTS && sweep->at < sweep->end; n++, sweep->at++)
        if (slot_live(&table->slots[sweep->at]))
            (void)table_fade_slot(table, sweep->at);
    if (sweep->at == sweep->end)
        fade_finish(table);
}
