/* table_merge.c - a slot takes in what another decider took of the same key.
 *
 * When two deciders went on apart, each from the state that both had (the base), the debt of the
 * key is the sum of theirs less the base, which is in both. The algorithms do the sum (O5 of
 * algorithm.h); here is what is common: bytes are checked, room is made, the change is noted.
 *
 *     slot  <--  slot + (other - base)         base: what of `other` is in the slot already
 *
 * Nothing changes on an error: all three states are whole before the slot is touched.
 */
#include "base/assert.h"
#include "node/limit/table_private.h"

/* Both states, checked, at their algorithm's fields. */
struct merge_input {
    const struct limit_ops *ops;
    struct bytes_reader base;
    struct bytes_reader other;
    bool has_base;
    uint8_t algorithm;
};

/* 0, TG_ECORRUPT or TG_EVERSION. *nothing: `other` has expired and adds nothing. */
static int read_input(struct merge_input *in, const void *base, size_t base_len, const void *other,
                      size_t other_len, int64_t now_ns, bool *nothing)
{
    int64_t expires_ns;
    int rc =
        table_check_export(&in->other, other, other_len, &in->ops, &in->algorithm, &expires_ns);
    if (rc != 0)
        return rc;
    *nothing = expires_ns <= now_ns;
    in->has_base = base_len > 0;
    if (!in->has_base)
        return 0;
    const struct limit_ops *ops;
    uint8_t algorithm;
    rc = table_check_export(&in->base, base, base_len, &ops, &algorithm, &expires_ns);
    return rc != 0 ? rc : algorithm != in->algorithm ? TG_ECORRUPT : 0;
}

/* Applies the merge to the cell, making room in the arena once if it is full. */
static int merge_cell(struct table *table, const struct merge_input *in, struct limit_cell *cell,
                      uint32_t keep, int64_t now_ns)
{
    for (unsigned attempt = 0;; attempt++) {
        struct bytes_reader base = in->base;
        struct bytes_reader other = in->other;
        const int change =
            in->ops->merge(&table->memory, cell, in->has_base ? &base : NULL, &other, now_ns);
        if (change != TG_EFULL || attempt > 0 || !table_make_arena_room(table, keep, now_ns))
            return change;
    }
}

static int merge_into_slot(struct table *table, const struct merge_input *in, uint32_t number,
                           int64_t now_ns)
{
    struct slot *slot = &table->slots[number];
    if ((slot->kind & KIND_ALGORITHM) != in->algorithm)
        return TG_ECORRUPT;
    struct limit_cell cell = slot_cell(slot);
    const int change = merge_cell(table, in, &cell, number, now_ns);
    if (change <= 0)
        return change;
    slot_set_cell(slot, &cell);
    table_changed(table, number, false);
    return 0;
}

static int merge_into_new(struct table *table, const struct merge_input *in, uint32_t vnode,
                          struct hash128 id, int64_t now_ns)
{
    struct limit_cell cell = {0};
    const int change = merge_cell(table, in, &cell, TABLE_NONE, now_ns);
    if (change <= 0)
        return change;
    const uint32_t number = table_insert(table, id, vnode, in->algorithm, TABLE_NONE, now_ns);
    if (number == TABLE_NONE) {
        in->ops->release(&table->memory, &cell);
        return TG_EFULL;
    }
    slot_set_cell(&table->slots[number], &cell);
    table_changed(table, number, false);
    return 0;
}

int table_merge(struct table *table, uint32_t vnode, struct hash128 id, const void *base,
                size_t base_len, const void *other, size_t other_len, int64_t now_ns)
{
    ASSERT(vnode < table->vnodes_count);
    now_ns = now_ns < 0 ? 0 : now_ns > LIMIT_NOW_MAX ? LIMIT_NOW_MAX : now_ns;
    struct merge_input in = {0};
    bool nothing;
    int rc = read_input(&in, base, base_len, other, other_len, now_ns, &nothing);
    if (rc != 0)
        return rc;
    const uint32_t number = table_find_to_change(table, id);
    if (number != TABLE_NONE)
        rc = merge_into_slot(table, &in, number, now_ns);
    else if (!nothing)
        rc = merge_into_new(table, &in, vnode, id, now_ns);
    table->refused += rc == TG_EFULL;
    return rc;
}
