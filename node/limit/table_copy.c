/* table_copy.c - what a complete copy of a vnode leaves over goes.
 *
 * A replica that takes a complete copy ends up with the slots of the copy and with those it had
 * before and the decider does not have: of a deposed term, or reset long ago. To tell them apart
 * each slot has a colour, and each vnode has the colour of the moment:
 *
 *      begin: the vnode's colour turns           o o o o o       slots of the old colour
 *      imports give the new colour               x x o x o
 *      end: the old colour has faded             x x   x         it reads as new at once;
 *      the pass, in portions of table_step       x x   x         and then it is
 *
 *      settled --begin--> copying --end--> fading --pass done--> settled
 *         ^                  |  ^------begin------|
 *         |                abort
 *         |                  v
 *         +--------------- mixed --begin--> copying, doubtful
 *
 * A faded slot that is on disk is not dropped but written as new, as a reset key is, which takes
 * the record away; so a crash at any moment leaves either record or removal, never a wrong state.
 *
 * C1  Unless a vnode is mixed, all its slots are of its colour.
 * C2  While slots of both colours are about, another beginning does not turn the colour: a slot of
 *     the copy before may then be taken for one of this. Its end says so (TG_EBUSY).
 * C3  A slot of the old colour at the end of a copy was not in it, whatever happened before.
 */
#include "base/assert.h"
#include "node/limit/table_private.h"

void table_copy_begin(struct table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes_count);
    struct vnode_state *state = &table->vnodes[vnode];
    if (state->count == 0 && state->fading == FADING_NOT)
        state->mixed = false;
    state->copying = true;
    state->doubtful = state->mixed; /* C2 */
    if (state->mixed || state->count == 0)
        return;
    state->colour ^= KIND_COLOUR;
    state->mixed = true;
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
    if (!state->mixed)
        return rc;
    table->fading += state->fading == FADING_NOT;
    if (table->fade.at == table->fade.end) {
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
    return !table->vnodes[vnode].mixed;
}

bool table_copy_fading(const struct table *table, uint32_t vnode)
{
    return table->vnodes[vnode].fading != FADING_NOT;
}

uint32_t table_fade_slot(struct table *table, uint32_t number)
{
    struct slot *slot = &table->slots[number];
    if (!slot_faded(table, slot))
        return number;
    struct limit_cell cell = slot_cell(slot);
    slot_ops(slot)->release(&table->memory, &cell);
    slot_set_cell(slot, &cell);
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
        if (state->fading == FADING_PASS) {
            state->fading = FADING_NOT;
            state->mixed = false;
            table->fading--;
        } else if (state->fading == FADING_NEXT) {
            state->fading = FADING_PASS;
        }
    }
    table->fade = (struct sweep){.at = 0, .end = table->fade.again ? table->slots_end : 0};
}

void table_fade_some(struct table *table)
{
    struct sweep *sweep = &table->fade;
    for (unsigned n = 0; n < TABLE_FADE_SLOTS && sweep->at < sweep->end; n++, sweep->at++)
        if (slot_live(&table->slots[sweep->at]))
            (void)table_fade_slot(table, sweep->at);
    if (sweep->at == sweep->end)
        fade_finish(table);
}
