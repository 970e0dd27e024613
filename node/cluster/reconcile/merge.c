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
 *    its base -> store of merge bases   ------+----------------------> D: my (T1, s > a) is apart:
 *                                   |                          nothing of R's copy is taken
 *    state += other - previous <----+-- APART, DIVERGED* -----  its slots, whole
 *    replicas hold the sum     -----+-- MERGED -------------->  holds nothing of its own any more
 *                              -----+-- SLOT*, WATERMARK --------->  a replica like any other
 *
 * previous = what of this branch was merged before (its contribution), else the base of the slot at
 * the fork, else, if the slot did not change since, its present state (merge_previous.c).
 *
 * MERGE-1  Each new term cuts the line, for a replica that has not confirmed it may have opened
 *          another by itself. From then on, before the first change of a slot its state is kept as
 *          its base. Bases and contributions travel with slots (SIDE before SLOT), cuts with marks
 *          (GUARD before WATERMARK): who decides later, by evidence or by TRANSFER, goes on
 *          guarding with the same memory.
 * MERGE-2  Who has a branch learns so from the cuts of the leader that it follows, before it takes
 *          anything of its copy (reconcile.c).
 * MERGE-3  A branch is told whole, in one sending over the ordered stream; a break begins it anew.
 *          What finds no room here makes nothing of the rest of a sending void: it is all taken,
 *          and asked for once more when the disk has brought what was missed.
 * MERGE-4  A contribution is noted with each merge, so a branch adds what it says once, however
 *          often and in whatever order it and others say it.
 * MERGE-5  Without room for a base or a contribution, or without a common cut, the larger of both
 *          states is taken (merge_fallbacks): never below any side, but below the sum. So it is
 *          when the node that merges dies before anybody else holds its memory: bases are not
 *          written to disk.
 * MERGE-6  A branch counts as merged only when the sum outlives this process: when another replica
 *          holds it, or the disk. Or when another node waits with the same branch, or more of it:
 *          one of those who hold it can follow at once, and then holds the sum for the others.
 * MERGE-7  Guarding ends when every other replica holds a confirmed copy of the present term, and
 *          every writer of a cut is among them, or left, or was not seen for MERGE_LINEAGE_NS.
 * MERGE-9  Guarded are as many vnodes as have a lineage, of the first plane. Only they have entries
 *          in the store of merge bases. A branch that is being sent has a successor.
 * MERGE-8  Whoever is deposed while it guards has a branch like any other; what it merged goes
 *          along.
 *
 * Nothing of this touches vnodes that do not guard: one flag a batch of decisions.
 */
#include "node/cluster/reconcile/merge.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

#include <string.h>

#include "base/assert.h"

#define MERGE_LINEAGE_NS (600000 * MS) /* as long as a dead member keeps its place in the ring */
#define MERGE_LOAD_NS    (200 * MS)    /* a slot that did not come is asked for again */

enum {
    MERGE_CELLS_MIN = 8, /* an entry with two short blobs */
    MERGE_PARTS = 10,    /* of the store of merge bases, of which ... */
    MERGE_RESERVE = 4,   /* so many are left to contributions, and of those ... */
    MERGE_ROOM = 1,      /* to what waits for the disk: it goes soon, contributions stay */
};

int merge_init(struct shard *shard)
{
    const struct shard_options *options = &shard->options;
    size_t bytes = options->memory_bytes / MERGE_BASE_SHARE;
    if (bytes < MERGE_BASE_MIN)
        bytes = MERGE_BASE_MIN;
    return merge_base_init(&shard->merge.bases, shard->allocator, bytes, options->vnodes);
}

void merge_fini(struct shard *shard)
{
    merge_base_fini(&shard->merge.bases);
}

void merge_frame_begin(struct shard *shard)
{
    shard->merge.frame.lineage_set = false;
    shard->merge.frame.merge_base_set = false;
    shard->merge.frame.taking = false;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

void merge_set_lineage(struct shard *shard, uint32_t number, const struct lineage *lineage)
{
    struct merge_vnode *merge = &shard->vnodes[number].merge;
    ASSERT(lineage->count <= LINEAGE_FORKS_MAX &&
           (shard->merge.guarded > 0 || merge->lineage.count == 0)); /* MERGE-9 */
    if (merge->lineage.count == 0 && lineage->count != 0)
        shard->merge.guarded++;
    if (merge->lineage.count != 0 && lineage->count == 0)
        shard->merge.guarded--;
    merge->lineage = *lineage;
    merge->lineage_ns = shard->now_ns;
    if (lineage->count == 0)
        merge_base_remove_vnode(&shard->merge.bases, number);
    vnodes_mark_active(shard, number);
}

void merge_forget(struct shard *shard, uint32_t number)
{
    const struct lineage none = {.count = 0};
    merge_set_lineage(shard, number, &none);
}

/* Whether all other replicas told that they are on the line that goes on. */
static bool all_of_lineage(const struct vnode *vnode)
{
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].node != 0 && (vnode->same_lineage & 1u << i) == 0)
            return false;
    return true;
}

void merge_cut(struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    struct lineage lineage = vnode->merge.lineage;
    if (vnode->role == ROLE_RECOVERING && lineage.count == 0 && all_of_lineage(vnode))
        lineage.blind = false;
    lineage_add(&lineage, &vnode->state, table_vnode_seq(shard->table, number));
    merge_set_lineage(shard, number, &lineage);
}

/* ---- bases ----------------------------------------------------------------------------------- */

/* Whether the store of merge bases has room for one more entry, and `reserve` parts of MERGE_PARTS
 * left. */
static bool has_cells(const struct shard *shard, uint32_t reserve)
{
    const struct pool *cells = &shard->merge.bases.cells;
    return cells->capacity - cells->used >=
           cells->capacity / MERGE_PARTS * reserve + MERGE_CELLS_MIN;
}

static uint32_t overflow(struct shard *shard, uint32_t number)
{
    shard->vnodes[number].merge.lineage.overflowed = true;
    return MERGE_BASE_NONE;
}

/* Keeps the slot's state as its base at the newest cut, if it is not kept yet (MERGE-1). Returns
 * the slot's entry, MERGE_BASE_NONE if it has no base there. */
static uint32_t keep_base(struct shard *shard, uint32_t number, struct hash128 id, bool loaded,
                          uint32_t reserve)
{
    struct merge_base *bases = &shard->merge.bases;
    const struct lineage_fork *cut = &shard->vnodes[number].merge.lineage.cuts[0];
    uint32_t entry = merge_base_find(bases, id);
    if (entry != MERGE_BASE_NONE &&
        merge_base_blob(bases, entry, MERGE_BASE_STATE, &cut->term) != MERGE_BASE_NONE)
        return entry;
    if (!has_cells(shard, reserve))
        return overflow(shard, number);
    const uint32_t slot = table_lookup(shard->table, id);
    if (slot == TABLE_NONE && !loaded && table_filter_maybe(shard->table, number, id) != 0)
        return MERGE_BASE_NONE; /* nothing is changed before it is back from disk */
    int len = 0;
    if (slot != TABLE_NONE)
        len = table_export(shard->table, slot, shard->state, sizeof shard->state);
    ASSERT(len >= 0);
    const bool added = entry == MERGE_BASE_NONE;
    if (added)
        entry = merge_base_add(bases, number, id);
    const struct merge_base_blob blob = {
        .kind = MERGE_BASE_STATE, .term = cut->term, .seq = cut->seq, .len = (uint32_t)len};
    if (merge_base_put(bases, entry, &blob, shard->state) == 0)
        return entry;
    if (added)
        merge_base_remove(bases, entry);
    return overflow(shard, number);
}

void merge_before(struct shard *shard)
{
    const struct batch *batch = &shard->batch;
    for (uint32_t row = 0; row < batch->count; row++) {
        const uint32_t number = batch->vnodes[row];
        if (shard->vnodes[number].merge.lineage.count != 0 &&
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
                              const struct merge_base_blob *blob, const uint8_t *bytes)
{
    struct merge_base *bases = &shard->merge.bases;
    const struct lineage *lineage = &shard->vnodes[number].merge.lineage;
    if (entry == MERGE_BASE_NONE)
        return false;
    if (has_cells(shard, MERGE_ROOM) && merge_base_put(bases, entry, blob, bytes) == 0)
        return true;
    for (uint32_t i = 0; i < lineage->count; i++)
        merge_base_drop(bases, entry, MERGE_BASE_STATE, &lineage->cuts[i].term);
    (void)overflow(shard, number);
    return has_cells(shard, MERGE_ROOM) && merge_base_put(bases, entry, blob, bytes) == 0;
}

/* Merges into a slot that is in memory, or nowhere. `base` NULL: into its present state. */
static void merge_slot(struct shard *shard, uint32_t number, struct hash128 id,
                       const struct merge_base_blob *what, const struct bytes_view *base,
                       const uint8_t *bytes)
{
    const struct bytes_view other = {bytes, what->len};
    const uint32_t entry = keep_base(shard, number, id, true, MERGE_ROOM);
    struct merge_base_blob blob = *what;
    blob.kind = MERGE_BASE_CONTRIBUTION;
    blob.event = merge_event(shard, number);
    if (!keep_contribution(shard, number, entry, &blob, bytes)) {
        shard->stats.merge_fallbacks++; /* MERGE-5 */
        (void)add(shard, number, id, NULL, other);
        return;
    }
    merge_absorb(shard, number, entry, other);
    if (add(shard, number, id, base, other) != 0)
        merge_base_drop(&shard->merge.bases, entry, MERGE_BASE_CONTRIBUTION, &blob.term);
}

static void await(struct shard *shard, uint32_t number, struct hash128 id, bool bare)
{
    struct merge *merge = &shard->merge;
    ASSERT(merge->wait_count < MERGE_WAITS_MAX); /* MERGE-9 */
    merge->waits[merge->wait_count++] =
        (struct merge_wait){.vnode = number, .id = id, .bare = bare};
}

/* The slot is on disk alone: what is to be merged waits in the store of merge bases until it was
 * read. */
static void merge_later(struct shard *shard, uint32_t number, struct hash128 id,
                        const struct merge_base_blob *what, const struct bytes_view *base,
                        const uint8_t *bytes)
{
    struct merge *merge = &shard->merge;
    struct merge_base *bases = &merge->bases;
    struct merge_base_blob blob = *what;
    if (merge->wait_count == MERGE_WAITS_MAX) {
        (void)reconcile_refuse(shard, number); /* what is taken of it will add nothing next time */
        return;
    }
    const uint32_t entry =
        has_cells(shard, 0) ? merge_base_add(bases, number, id) : MERGE_BASE_NONE;
    blob.kind = MERGE_BASE_WAITING;
    if (entry == MERGE_BASE_NONE || merge_base_put(bases, entry, &blob, bytes) != 0) {
        uint32_t *refusals = &shard->vnodes[number].merge.refusals;
        if (*refusals >= MERGE_REFUSALS_MAX) {
            shard->stats.merge_fallbacks++; /* the slot stays as it is */
            return;
        }
        await(shard, number, id, true);
        *refusals += reconcile_refuse(shard, number);
        return;
    }
    merge_base_drop(bases, entry, MERGE_BASE_WAITING_BASE, &blob.term);
    blob.kind = MERGE_BASE_WAITING_BASE;
    blob.len = base == NULL ? 0 : (uint32_t)base->len;
    if (base != NULL && merge_base_put(bases, entry, &blob, base->data) != 0)
        shard->stats.merge_fallbacks++;
    await(shard, number, id, false);
}

void merge_in_diverged(struct shard *shard, const struct peer_record *record)
{
    struct merge_frame *frame = &shard->merge.frame;
    const uint32_t number = record->slot.vnode;
    const struct hash128 id = record->slot.id;
    const struct bytes_view other = {record->slot.state, record->slot.len};
    const struct merge_base_blob what = {
        .term = frame->apart.state, .seq = frame->apart.seq, .len = record->slot.len};
    if (frame->merge_base_set && !hash128_equal(frame->side.id, id))
        frame->merge_base_set = false;
    if (!frame->taking || frame->apart.vnode != number || frame->nothing)
        return;
    struct bytes_view base = {NULL, 0};
    const uint32_t entry = merge_base_find(&shard->merge.bases, id);
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
    struct merge_base *bases = &merge->bases;
    const struct hash128 id = merge_base_id(bases, entry);
    const bool decides = shard->vnodes[number].role == ROLE_LEADING;
    merge->frame.merge_base_set = false; /* what came with the branch is not at hand any more */
    merge->frame.apart.lineage.count = 0;
    uint32_t at = merge_base_blobs(bases, entry);
    while (at != MERGE_BASE_NONE) {
        const struct merge_base_blob blob = merge_base_describe(bases, at);
        if (blob.kind != MERGE_BASE_WAITING) {
            at = merge_base_next_blob(bases, at);
            continue;
        }
        const uint32_t base_at = merge_base_blob(bases, entry, MERGE_BASE_WAITING_BASE, &blob.term);
        struct bytes_view base = {merge->base, 0};
        if (base_at != MERGE_BASE_NONE && !lost)
            base.len = merge_base_read(bases, base_at, merge->base);
        (void)merge_base_read(bases, at, merge->other);
        merge_base_drop(bases, entry, MERGE_BASE_WAITING, &blob.term);
        merge_base_drop(bases, entry, MERGE_BASE_WAITING_BASE, &blob.term);
        if (decides)
            merge_slot(shard, number, id, &blob, base_at == MERGE_BASE_NONE ? NULL : &base,
                       merge->other);
        at = merge_base_blobs(bases, entry); /* the list has changed */
    }
}

static bool is_waiting(const struct merge_base *bases, uint32_t entry)
{
    for (uint32_t at = merge_base_blobs(bases, entry); at != MERGE_BASE_NONE;
         at = merge_base_next_blob(bases, at))
        if (merge_base_describe(bases, at).kind == MERGE_BASE_WAITING)
            return true;
    return false;
}

bool merge_awaits(const struct shard *shard, struct hash128 id)
{
    const struct merge_base *bases = &shard->merge.bases;
    const uint32_t entry = bases->waiting == 0 ? MERGE_BASE_NONE : merge_base_find(bases, id);
    return entry != MERGE_BASE_NONE && is_waiting(bases, entry);
}

void merge_loaded(struct shard *shard, uint32_t number, struct hash128 id, int result)
{
    const bool lost = cold_keys_unreadable(result);
    if (!merge_awaits(shard, id) || (result != 0 && result != TG_ENOTFOUND && !lost))
        return; /* it is asked for again */
    shard->stats.merge_fallbacks += lost;
    merge_waiting(shard, number, merge_base_find(&shard->merge.bases, id), lost);
}

static void ask_disk(struct shard *shard, struct effects *effects)
{
    struct merge *merge = &shard->merge;
    uint32_t kept = 0;
    uint32_t asked = 0;
    for (uint32_t i = 0; i < merge->wait_count; i++) {
        struct merge_wait wait = merge->waits[i];
        const uint32_t entry = merge_base_find(&merge->bases, wait.id);
        const bool waits = entry != MERGE_BASE_NONE && is_waiting(&merge->bases, entry);
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
    ASSERT(kept <= merge->wait_count);
    merge->wait_count = kept;
}

void merge_tick(struct shard *shard, struct effects *effects)
{
    if (shard->merge.wait_count > 0)
        ask_disk(shard, effects);
}

/* ---- the end (MERGE-7)
 * ---------------------------------------------------------------------------- */

static bool is_settled(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct lineage *lineage = &vnode->merge.lineage;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (!vnode->links[i].confirmed && vnode->links[i].node != 0)
            return false;
    if (shard->now_ns - vnode->merge.lineage_ns > MERGE_LINEAGE_NS)
        return true;
    for (uint32_t i = 0; i < lineage->count; i++) {
        const uint64_t writer = lineage->cuts[i].term.writer;
        if (writer != 0 && writer != shard->options.node_id && vnodes_link_to(vnode, writer) < 0 &&
            view_find(shard->view, writer) != NULL)
            return false;
    }
    return true;
}

void merge_watch(struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->merge.lineage.count == 0 || shard->merge.bases.waiting > 0 ||
        !is_settled(shard, number))
        return;
    merge_forget(shard, number);
    for (uint32_t link = 0; link < vnode->link_count; link++)
        if (vnode->links[link].node != 0)
            stream_watermark_again(shard, number, link);
}

/* ---- what always holds ----------------------------------------------------------------------- */

static void check_vnode(const struct shard *shard, uint32_t number)
{
    const struct merge_vnode *merge = &shard->vnodes[number].merge;
    INVARIANT("MERGE-9", merge->lineage.count <= LINEAGE_FORKS_MAX);
    INVARIANT("MERGE-9", !merge->begun || merge->successor != PEER_NONE);
    INVARIANT("MERGE-9", merge->refused_next < MERGE_REFUSED_MAX);
    for (uint32_t i = 0; i < MERGE_ENDS_MAX; i++)
        INVARIANT("MERGE-9", merge->ends[i].sync == 0 || merge->ends[i].from < shard->peer_count);
}

void merge_check_invariants(const struct shard *shard)
{
    uint32_t guarded = 0;
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        check_vnode(shard, number);
        guarded += shard->vnodes[number].merge.lineage.count != 0;
    }
    INVARIANT("MERGE-9", guarded == shard->merge.guarded);
    INVARIANT("MERGE-9", shard->merge.wait_count <= MERGE_WAITS_MAX);
    for (uint32_t i = 0; i < shard->merge.wait_count; i++)
        INVARIANT("MERGE-9", shard->merge.waits[i].vnode < 2 * shard->options.vnodes);
    merge_base_check_invariants(&shard->merge.bases);
}
