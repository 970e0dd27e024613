/* table_merge.c - a slot takes in what another leader took of the same key.
 *
 * When two leaders went on apart, each from the state that both had (the base), the debt of the key
 * is the sum of theirs less the base, which is in both. The algorithms do the sum (ALGORITHM-5);
 * here is what is common: bytes are checked, room is made, the change is noted.
 *
 *     slot  <--  slot + (other - base)         base: what of `other` is in the slot already
 *
 * Nothing changes on an error: all three states are whole before the slot is touched.
 */
#include "base/assert.h"
#include "node/limit/table/table_slot.h"

/* Both states, checked, at the fields of their kinds. */
struct merge_input {
    struct leased_state base;
    struct leased_state other;
    bool has_base;
    unsigned algorithm;
};

/* Checks one state. 0, TG_ECORRUPT or TG_EVERSION. */
static int read_state(struct leased_state *state, const void *bytes, size_t len,
                      unsigned *algorithm, int64_t *expires_ns)
{
    const struct limit_ops *ops;
    uint8_t kind;
    const int rc = table_check_export(&state->bytes, bytes, len, &ops, &kind, expires_ns);
    if (rc != 0)
        return rc;
    state->kind = kind;
    *algorithm = table_export_algorithm(&state->bytes, kind);
    return 0;
}

/* 0, TG_ECORRUPT or TG_EVERSION. *nothing: `other` has expired and adds nothing. */
static int read_input(struct merge_input *in, const void *base, size_t base_len, const void *other,
                      size_t other_len, int64_t now_ns, bool *nothing)
{
    int64_t expires_ns;
    int rc = read_state(&in->other, other, other_len, &in->algorithm, &expires_ns);
    if (rc != 0)
        return rc;
    *nothing = expires_ns <= now_ns;
    in->has_base = base_len > 0;
    if (!in->has_base)
        return 0;
    unsigned algorithm;
    rc = read_state(&in->base, base, base_len, &algorithm, &expires_ns);
    return rc != 0 ? rc : algorithm != in->algorithm ? TG_ECORRUPT : 0;
}

/* Merges plain states by their algorithm, and those of which tokens are held with what is held. */
static int merge_states(struct limit_memory *memory, const struct merge_input *in,
                        struct limit_cell *cell, uint8_t *kind, int64_t now_ns)
{
    if (*kind == LIMIT_LEASED || in->other.kind == LIMIT_LEASED ||
        (in->has_base && in->base.kind == LIMIT_LEASED))
        return leased_merge(memory, cell, kind, in->has_base ? &in->base : NULL, &in->other,
                            now_ns);
    struct bytes_reader base = in->base.bytes;
    struct bytes_reader other = in->other.bytes;
    return algorithm_ops(in->algorithm)
        ->merge(memory, cell, in->has_base ? &base : NULL, &other, now_ns);
}

/* Applies the merge to the cell, making room in the arena once if it is full. */
static int merge_cell(struct table *table, const struct merge_input *in, struct limit_cell *cell,
                      uint8_t *kind, uint32_t keep, int64_t now_ns)
{
    for (unsigned attempt = 0;; attempt++) {
        const int change = merge_states(&table->memory, in, cell, kind, now_ns);
        if (change != TG_EFULL || attempt > 0 || !table_make_arena_room(table, keep, now_ns))
            return change;
    }
}

static int merge_into_slot(struct table *table, const struct merge_input *in, uint32_t number,
                           int64_t now_ns)
{
    struct slot *slot = &table->slots[number];
    if (slot_algorithm(table, slot) != in->algorithm)
        return TG_ECORRUPT;
    struct limit_cell cell = slot_cell(slot);
    uint8_t kind = slot->kind & KIND_ALGORITHM;
    const int change = merge_cell(table, in, &cell, &kind, number, now_ns);
    if (change <= 0)
        return change;
    slot_set_cell(slot, &cell);
    slot_set_kind(slot, kind);
    table_changed(table, number, false);
    return 0;
}

static int merge_into_new(struct table *table, const struct merge_input *in, uint32_t vnode,
                          struct hash128 id, int64_t now_ns)
{
    struct limit_cell cell = {0};
    uint8_t kind = (uint8_t)in->algorithm;
    const int change = merge_cell(table, in, &cell, &kind, TABLE_NONE, now_ns);
    if (change <= 0)
        return change;
    const uint32_t number = table_insert(table, id, vnode, kind, TABLE_NONE, now_ns);
    if (number == TABLE_NONE) {
        algorithm_ops(kind)->release(&table->memory, &cell);
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
