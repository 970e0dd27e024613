/* merge.c - the leader's part in merging after a split: bases, sums, and the end of guarding.
 *
 * A split leaves two leaders of a vnode, each with its own line of terms. When they see each other
 * again the one with the lower term gives way, and what it counted since the lines forked is added
 * to the other: merged debt = sum of both debts - the base they share. A crash is a split of which
 * one side is silent, until it returns from disk.
 *
 *    R takes over from (T1, a)      D goes on in T1              heals
 *    cut (T1, a)                    |                            |
 *    before a slot changes:         |  GUARD: cuts (T1, a)       |
 *    its base -> side table   ------+----------------------> D: my (T1, s > a) is apart:
 *                                   |                          nothing of R's copy is taken
 *    state += other - previous <----+-- APART, DIVERGED* -----  its slots, whole
 *    replicas hold the sum     -----+-- MERGED -------------->  holds nothing of its own any more
 *                              -----+-- SLOT*, MARK --------->  a replica like any other
 *
 * previous = what of this branch was merged before (its contribution), else the base of the slot at
 * the fork, else, if the slot did not change since, its present state (merge_previous.c).
 *
 * M1  Each new term cuts the line, for a replica that has not confirmed it may have opened another
 *     by itself. From then on, before the first change of a slot its state is kept as its base.
 *     Bases and contributions travel with slots (SIDE before SLOT), cuts with marks (GUARD before
 *     MARK): who decides later, by evidence or by PASS, goes on guarding with the same memory.
 * M2  Who has a branch learns so from the cuts of the leader that it follows, before it takes
 *     anything of its copy (diverge.c).
 * M3  A branch is told whole, in one sending over the ordered stream; a break begins it anew. What
 *     finds no room here makes nothing of the rest of a sending void: it is all taken, and asked
 *     for once more when the disk has brought what was missed.
 * M4  A contribution is noted with each merge, so a branch adds what it says once, however often
 *     and in whatever order it and others say it.
 * M5  Without room for a base or a contribution, or without a common cut, the larger of both states
 *     is taken (merge_fallbacks): never below any side, but below the sum. So it is when the node
 *     that merges dies before anybody else holds its memory: bases are not written to disk.
 * M6  A branch counts as merged only when the sum outlives this process: when another replica holds
 *     it, or the disk. Or when another node waits with the same branch, or more of it: one of those
 *     who hold it can follow at once, and then holds the sum for the others.
 * M7  Guarding ends when every other replica holds a confirmed copy of the present term, and every
 *     writer of a cut is among them, or left, or was not seen for MERGE_GUARD_NS.
 * M8  Whoever is deposed while it guards has a branch like any other; what it merged goes along.
 *
 * Nothing of this touches vnodes that do not guard: one flag a batch of decisions.
 */
#include "node/cluster/reconcile/merge.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

#include <string.h>

#include "base/assert.h"

#define MERGE_GUARD_NS (600000 * MS) /* as long as a dead member keeps its place in the ring */
#define MERGE_LOAD_NS  (200 * MS)    /* a slot that did not come is asked for again */

enum {
    MERGE_CELLS_MIN = 8, /* an entry with two short blobs */
    MERGE_PARTS = 10,    /* of the side table, of which ... */
    MERGE_RESERVE = 4,   /* so many are left to contributions, and of those ... */
    MERGE_ROOM = 1,      /* to what waits for the disk: it goes soon, contributions stay */
};

int merge_init(struct shard *shard)
{
    const struct shard_options *options = &shard->options;
    size_t bytes = options->memory_bytes / MERGE_SIDE_SHARE;
    if (bytes < MERGE_SIDE_MIN)
        bytes = MERGE_SIDE_MIN;
    return side_init(&shard->merge.side, shard->allocator, bytes, options->vnodes);
}

void merge_fini(struct shard *shard)
{
    side_fini(&shard->merge.side);
}

void merge_frame_begin(struct shard *shard)
{
    shard->merge.frame.guard_set = false;
    shard->merge.frame.side_set = false;
    shard->merge.frame.taking = false;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

void merge_set_guard(struct shard *shard, uint32_t number, const struct guard *guard)
{
    struct merge_vnode *merge = &shard->vnodes[number].merge;
    if (merge->guard.count == 0 && guard->count != 0)
        shard->merge.guarded++;
    if (merge->guard.count != 0 && guard->count == 0)
        shard->merge.guarded--;
    merge->guard = *guard;
    merge->guard_ns = shard->now_ns;
    if (guard->count == 0)
        side_remove_vnode(&shard->merge.side, number);
    vnodes_stir(shard, number);
}

void merge_forget(struct shard *shard, uint32_t number)
{
    const struct guard none = {.count = 0};
    merge_set_guard(shard, number, &none);
}

/* Whether all other replicas told that they are on the line that goes on. */
static bool all_on_line(const struct vnode *vnode)
{
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].node != 0 && (vnode->on_line & 1u << i) == 0)
            return false;
    return true;
}

void merge_cut(struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    struct guard guard = vnode->merge.guard;
    if (vnode->role == ROLE_RECOVERING && guard.count == 0 && all_on_line(vnode))
        guard.blind = false;
    guard_add(&guard, &vnode->state, table_vnode_seq(shard->table, number));
    merge_set_guard(shard, number, &guard);
}

/* ---- bases ----------------------------------------------------------------------------------- */

/* Whether the side table has room for one more entry, and `reserve` parts of MERGE_PARTS left. */
static bool has_cells(const struct shard *shard, uint32_t reserve)
{
    const struct pool *cells = &shard->merge.side.cells;
    return cells->capacity - cells->used >=
           cells->capacity / MERGE_PARTS * reserve + MERGE_CELLS_MIN;
}

static uint32_t overflow(struct shard *shard, uint32_t number)
{
    shard->vnodes[number].merge.guard.overflowed = true;
    return SIDE_NONE;
}

/* Keeps the slot's state as its base at the newest cut, if it is not kept yet (M1). Returns the
 * slot's entry, SIDE_NONE if it has no base there. */
static uint32_t keep_base(struct shard *shard, uint32_t number, struct hash128 id, bool loaded,
                          uint32_t reserve)
{
    struct side_table *side = &shard->merge.side;
    const struct guard_cut *cut = &shard->vnodes[number].merge.guard.cuts[0];
    uint32_t entry = side_find(side, id);
    if (entry != SIDE_NONE && side_blob(side, entry, SIDE_BASE, &cut->term) != SIDE_NONE)
        return entry;
    if (!has_cells(shard, reserve))
        return overflow(shard, number);
    const uint32_t slot = table_lookup(shard->table, id);
    if (slot == TABLE_NONE && !loaded && table_filter_maybe(shard->table, number, id) != 0)
        return SIDE_NONE; /* nothing is changed before it is back from disk */
    int len = 0;
    if (slot != TABLE_NONE)
        len = table_export(shard->table, slot, shard->state, sizeof shard->state);
    ASSERT(len >= 0);
    const bool added = entry == SIDE_NONE;
    if (added)
        entry = side_add(side, number, id);
    const struct side_blob blob = {
        .kind = SIDE_BASE, .term = cut->term, .seq = cut->seq, .len = (uint32_t)len};
    if (side_put(side, entry, &blob, shard->state) == 0)
        return entry;
    if (added)
        side_remove(side, entry);
    return overflow(shard, number);
}

void merge_before(struct shard *shard)
{
    const struct batch *batch = &shard->batch;
    for (uint32_t row = 0; row < batch->count; row++) {
        const uint32_t number = batch->vnodes[row];
        if (shard->vnodes[number].merge.guard.count != 0 &&
            batch->operations[row] != OPERATION_PEEK)
            (void)keep_base(shard, number, batch->ids[row], (batch->flags[row] & LIMIT_LOADED) != 0,
                            MERGE_RESERVE);
    }
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Adds other - base to the slot; the base is the slot's present state if `base` is NULL. */
static int add(struct shard *shard, uint32_t number, struct hash128 id,
               const struct bytes_view *base, struct bytes_view other)
{
    struct bytes_view present = {shard->state, 0};
    const uint32_t slot = table_lookup(shard->table, id);
    if (base == NULL && slot != TABLE_NONE) {
        const int len = table_export(shard->table, slot, shard->state, sizeof shard->state);
        ASSERT(len >= 0);
        present.len = (size_t)len;
    }
    if (base == NULL)
        base = &present;
    const int result = table_merge(shard->table, number, id, base->data, base->len, other.data,
                                   other.len, shard->now_ns);
    if (result == 0)
        shard->stats.merged_slots++;
    else if (result == TG_EFULL)
        shard->stats.merge_fallbacks++;
    else
        shard->stats.bad_frames++;
    return result;
}

/* Whether the slot is what the branch says it is. */
static bool is_same(struct shard *shard, struct hash128 id, struct bytes_view other)
{
    const uint32_t slot = table_lookup(shard->table, id);
    if (slot == TABLE_NONE)
        return false;
    const int len = table_export(shard->table, slot, shard->state, sizeof shard->state);
    return len == (int)other.len && memcmp(shard->state, other.data, other.len) == 0;
}

/* Notes what was merged, and leaves room for what waits for the disk. If there is none the bases of
 * the slot make way: without them a branch that is told again, or another one, is not added any
 * more, but the larger of both is taken. */
static bool keep_contribution(struct shard *shard, uint32_t number, uint32_t entry,
                              const struct side_blob *blob, const uint8_t *bytes)
{
    struct side_table *side = &shard->merge.side;
    const struct guard *guard = &shard->vnodes[number].merge.guard;
    if (entry == SIDE_NONE)
        return false;
    if (has_cells(shard, MERGE_ROOM) && side_put(side, entry, blob, bytes) == 0)
        return true;
    for (uint32_t i = 0; i < guard->count; i++)
        side_drop(side, entry, SIDE_BASE, &guard->cuts[i].term);
    (void)overflow(shard, number);
    return has_cells(shard, MERGE_ROOM) && side_put(side, entry, blob, bytes) == 0;
}

/* Merges into a slot that is in memory, or nowhere. `base` NULL: into its present state. */
static void merge_slot(struct shard *shard, uint32_t number, struct hash128 id,
                       const struct side_blob *what, const struct bytes_view *base,
                       const uint8_t *bytes)
{
    const struct bytes_view other = {bytes, what->len};
    const uint32_t entry = keep_base(shard, number, id, true, MERGE_ROOM);
    struct side_blob blob = *what;
    blob.kind = SIDE_CONTRIBUTION;
    blob.event = merge_event(shard, number);
    if (!keep_contribution(shard, number, entry, &blob, bytes)) {
        shard->stats.merge_fallbacks++; /* M5 */
        (void)add(shard, number, id, NULL, other);
        return;
    }
    merge_absorb(shard, number, entry, other);
    if (add(shard, number, id, base, other) != 0)
        side_drop(&shard->merge.side, entry, SIDE_CONTRIBUTION, &blob.term);
}

static void await(struct shard *shard, uint32_t number, struct hash128 id, bool bare)
{
    struct merge *merge = &shard->merge;
    merge->waits[merge->wait_count++] =
        (struct merge_wait){.vnode = number, .id = id, .bare = bare};
}

/* The slot is on disk alone: what is to be merged waits in the side table until it was read. */
static void merge_later(struct shard *shard, uint32_t number, struct hash128 id,
                        const struct side_blob *what, const struct bytes_view *base,
                        const uint8_t *bytes)
{
    struct merge *merge = &shard->merge;
    struct side_table *side = &merge->side;
    struct side_blob blob = *what;
    if (merge->wait_count == MERGE_WAITS_MAX) {
        (void)diverge_refuse(shard, number); /* what is taken of it will add nothing next time */
        return;
    }
    const uint32_t entry = has_cells(shard, 0) ? side_add(side, number, id) : SIDE_NONE;
    blob.kind = SIDE_WAITING;
    if (entry == SIDE_NONE || side_put(side, entry, &blob, bytes) != 0) {
        uint32_t *refusals = &shard->vnodes[number].merge.refusals;
        if (*refusals >= MERGE_REFUSALS_MAX) {
            shard->stats.merge_fallbacks++; /* the slot stays as it is */
            return;
        }
        await(shard, number, id, true);
        *refusals += diverge_refuse(shard, number);
        return;
    }
    side_drop(side, entry, SIDE_WAITING_BASE, &blob.term);
    blob.kind = SIDE_WAITING_BASE;
    blob.len = base == NULL ? 0 : (uint32_t)base->len;
    if (base != NULL && side_put(side, entry, &blob, base->data) != 0)
        shard->stats.merge_fallbacks++;
    await(shard, number, id, false);
}

void merge_in_diverged(struct shard *shard, const struct peer_record *record)
{
    struct merge_frame *frame = &shard->merge.frame;
    const uint32_t number = record->slot.vnode;
    const struct hash128 id = record->slot.id;
    const struct bytes_view other = {record->slot.state, record->slot.len};
    const struct side_blob what = {
        .term = frame->apart.state, .seq = frame->apart.seq, .len = record->slot.len};
    if (frame->side_set && !hash128_equal(frame->side.id, id))
        frame->side_set = false;
    if (!frame->taking || frame->apart.vnode != number || frame->nothing)
        return;
    struct bytes_view base = {NULL, 0};
    const uint32_t entry = side_find(&shard->merge.side, id);
    const enum merge_previous previous = merge_find_previous(shard, number, entry, &base);
    const struct bytes_view *known = previous == MERGE_KNOWN ? &base : NULL;
    const bool on_disk = table_lookup(shard->table, id) == TABLE_NONE &&
                         table_filter_maybe(shard->table, number, id) != 0;
    if (previous == MERGE_IS_ALL || (!on_disk && known == NULL && is_same(shard, id, other)))
        return;
    if (known != NULL && base.len == other.len && memcmp(base.data, other.data, base.len) == 0)
        return; /* the branch has not changed it */
    shard->stats.merge_fallbacks += previous == MERGE_LOST;
    if (on_disk)
        merge_later(shard, number, id, &what, known, other.data);
    else
        merge_slot(shard, number, id, &what, known, other.data);
}

/* ---- slots that had to be read --------------------------------------------------------------- */

/* Merges all that waits for the slot, which is in memory now, or not on disk; or `lost`: then
 * nothing of it is in what is left. */
static void merge_waiting(struct shard *shard, uint32_t number, uint32_t entry, bool lost)
{
    struct merge *merge = &shard->merge;
    struct side_table *side = &merge->side;
    const struct hash128 id = side_id(side, entry);
    const bool decides = shard->vnodes[number].role == ROLE_LEADING;
    merge->frame.side_set = false; /* what came with the branch is not at hand any more */
    merge->frame.apart.guard.count = 0;
    uint32_t at = side_blobs(side, entry);
    while (at != SIDE_NONE) {
        const struct side_blob blob = side_describe(side, at);
        if (blob.kind != SIDE_WAITING) {
            at = side_next_blob(side, at);
            continue;
        }
        const uint32_t base_at = side_blob(side, entry, SIDE_WAITING_BASE, &blob.term);
        struct bytes_view base = {merge->base, 0};
        if (base_at != SIDE_NONE && !lost)
            base.len = side_read(side, base_at, merge->base);
        (void)side_read(side, at, merge->other);
        side_drop(side, entry, SIDE_WAITING, &blob.term);
        side_drop(side, entry, SIDE_WAITING_BASE, &blob.term);
        if (decides)
            merge_slot(shard, number, id, &blob, base_at == SIDE_NONE ? NULL : &base, merge->other);
        at = side_blobs(side, entry); /* the list has changed */
    }
}

static bool is_waiting(const struct side_table *side, uint32_t entry)
{
    for (uint32_t at = side_blobs(side, entry); at != SIDE_NONE; at = side_next_blob(side, at))
        if (side_describe(side, at).kind == SIDE_WAITING)
            return true;
    return false;
}

bool merge_awaits(const struct shard *shard, struct hash128 id)
{
    const struct side_table *side = &shard->merge.side;
    const uint32_t entry = side->waiting == 0 ? SIDE_NONE : side_find(side, id);
    return entry != SIDE_NONE && is_waiting(side, entry);
}

void merge_loaded(struct shard *shard, uint32_t number, struct hash128 id, int result)
{
    const bool lost = copy_unreadable(result);
    if (!merge_awaits(shard, id) || (result != 0 && result != TG_ENOTFOUND && !lost))
        return; /* it is asked for again */
    shard->stats.merge_fallbacks += lost;
    merge_waiting(shard, number, side_find(&shard->merge.side, id), lost);
}

static void ask_disk(struct shard *shard, struct effects *effects)
{
    struct merge *merge = &shard->merge;
    uint32_t kept = 0;
    uint32_t asked = 0;
    for (uint32_t i = 0; i < merge->wait_count; i++) {
        struct merge_wait wait = merge->waits[i];
        const uint32_t entry = side_find(&merge->side, wait.id);
        const bool waits = entry != SIDE_NONE && is_waiting(&merge->side, entry);
        if (wait.bare ? wait.asked_ns != 0 : !waits)
            continue;
        if (wait.asked_ns != 0 && shard->now_ns - wait.asked_ns < MERGE_LOAD_NS) {
            asked++;
        } else if (asked < MERGE_LOADS_MAX) {
            struct effect *effect = effects_add(effects, EFFECT_LOAD);
            effect->vnode = wait.vnode;
            effect->id = wait.id;
            wait.asked_ns = shard->now_ns;
            asked++;
        }
        merge->waits[kept++] = wait;
    }
    merge->wait_count = kept;
}

void merge_tick(struct shard *shard, struct effects *effects)
{
    if (shard->merge.wait_count > 0)
        ask_disk(shard, effects);
}

/* ---- the end (M7) ---------------------------------------------------------------------------- */

static bool is_settled(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct guard *guard = &vnode->merge.guard;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (!vnode->links[i].confirmed && vnode->links[i].node != 0)
            return false;
    if (shard->now_ns - vnode->merge.guard_ns > MERGE_GUARD_NS)
        return true;
    for (uint32_t i = 0; i < guard->count; i++) {
        const uint64_t writer = guard->cuts[i].term.writer;
        if (writer != 0 && writer != shard->options.node_id && vnodes_link_to(vnode, writer) < 0 &&
            view_find(shard->view, writer) != NULL)
            return false;
    }
    return true;
}

void merge_watch(struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->merge.guard.count == 0 || shard->merge.side.waiting > 0 ||
        !is_settled(shard, number))
        return;
    merge_forget(shard, number);
    for (uint32_t link = 0; link < vnode->link_count; link++)
        if (vnode->links[link].node != 0)
            stream_mark_again(shard, number, link);
}
