/* merge_side.c - what is remembered for merging travels with the state (M1 of merge.c).
 *
 *   TERM GUARD | SIDE SLOT | SLOT | SIDE SLOT | ... | GUARD MARK
 *
 * SIDE comes before the slot that it is about, in the same frame; a slot without one has nothing to
 * remember. GUARD comes with the first slot of each frame, so that a branch is noticed before
 * anything is overwritten, and before each mark, so that it goes with the claim.
 *
 * T1  With a mark a replica holds the cuts of its leader, and with a complete copy the entries of
 *     exactly its slots; what was remembered on another line is gone then.
 */
#include <string.h>

#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

enum { SIDE_HEADER_LEN = 32, BLOB_HEADER_LEN = 52 }; /* at most */

/* ---- out ------------------------------------------------------------------------------------- */

static uint32_t entry_of(const struct shard *shard, uint32_t number, struct hash128 id)
{
    if (shard->vnodes[number].merge.guard.count == 0)
        return SIDE_NONE;
    return side_find(&shard->merge.side, id);
}

size_t merge_side_room(const struct shard *shard, uint32_t number, struct hash128 id)
{
    const uint32_t entry = entry_of(shard, number, id);
    size_t bytes;
    if (entry == SIDE_NONE)
        return 0;
    const uint32_t count = side_count(&shard->merge.side, entry, &bytes);
    return SIDE_HEADER_LEN + count * BLOB_HEADER_LEN + bytes;
}

static bool travels(enum side_kind kind)
{
    return kind == SIDE_BASE || kind == SIDE_CONTRIBUTION;
}

void merge_put_side(struct shard *shard, uint32_t number, struct hash128 id,
                    struct bytes_writer *outbox)
{
    const struct side_table *side = &shard->merge.side;
    const uint32_t entry = entry_of(shard, number, id);
    uint8_t count = 0;
    if (entry == SIDE_NONE)
        return;
    for (uint32_t at = side_blobs(side, entry); at != SIDE_NONE; at = side_next_blob(side, at))
        count = (uint8_t)(count + travels(side_describe(side, at).kind));
    peer_put_side(outbox, number, id, count);
    for (uint32_t at = side_blobs(side, entry); at != SIDE_NONE; at = side_next_blob(side, at)) {
        const struct side_blob blob = side_describe(side, at);
        if (!travels(blob.kind))
            continue;
        (void)side_read(side, at, shard->merge.base);
        peer_put_blob(outbox, &blob, shard->merge.base);
    }
}

bool merge_tells(const struct vnode *vnode)
{
    return vnode->merge.guard.count > 0 || vnode->merge.guard.blind;
}

void merge_put_guard(const struct shard *shard, uint32_t number, struct bytes_writer *outbox)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (merge_tells(vnode))
        peer_put_guard(outbox, number, &vnode->merge.guard);
}

void merge_put_report(struct shard *shard, uint16_t at, uint32_t number, enum peer_record_type type,
                      struct effects *effects)
{
    struct peer_vnode entry = vnodes_entry(shard, number);
    entry.flags = vnodes_bound(shard, number, at) ? ENTRY_BOUND : 0;
    struct bytes_writer *outbox = peers_outbox(shard, at, (size_t)2 * PEER_RECORD_MAX, effects);
    merge_put_guard(shard, number, outbox);
    peer_put_vnode(outbox, type, &entry);
}

/* ---- in -------------------------------------------------------------------------------------- */

void merge_in_side(struct shard *shard, const struct peer_record *record)
{
    shard->merge.frame.side_set = true;
    shard->merge.frame.side = record->side;
}

/* Replaces what is remembered of the slot by what its leader remembers. */
static void take_side(struct shard *shard, uint32_t number, uint32_t entry)
{
    struct side_table *side = &shard->merge.side;
    struct vnode *vnode = &shard->vnodes[number];
    struct bytes_reader blobs = shard->merge.frame.side.blobs;
    struct side_blob blob;
    const uint8_t *bytes;
    side_set_stamp(side, entry, vnode->in_sync);
    while (peer_side_next(&blobs, &blob, &bytes))
        if (travels(blob.kind) && side_put(side, entry, &blob, bytes) != 0)
            vnode->merge.side_lost = true;
}

void merge_in_slot(struct shard *shard, uint32_t number, struct hash128 id)
{
    struct side_table *side = &shard->merge.side;
    struct merge_frame *frame = &shard->merge.frame;
    const bool told = frame->side_set && hash128_equal(frame->side.id, id);
    frame->side_set = false;
    if (!told && side->entries == 0)
        return;
    uint32_t entry = side_find(side, id);
    if (entry != SIDE_NONE)
        side_remove(side, entry);
    if (!told)
        return;
    entry = side_add(side, number, id);
    if (entry == SIDE_NONE)
        shard->vnodes[number].merge.side_lost = true;
    else
        take_side(shard, number, entry);
}

/* T1: entries of other copies go. */
static void purge(struct shard *shard, uint32_t number)
{
    struct side_table *side = &shard->merge.side;
    uint32_t entry = side_first(side, number);
    while (entry != SIDE_NONE) {
        const uint32_t next = side_next(side, entry);
        if (side_stamp(side, entry) != shard->vnodes[number].in_sync)
            side_remove(side, entry);
        entry = next;
    }
}

static bool guards_nothing(const struct guard *guard)
{
    return guard->count == 0 && !guard->overflowed && !guard->blind;
}

void merge_in_mark(struct shard *shard, uint32_t number, bool copied)
{
    struct merge_vnode *merge = &shard->vnodes[number].merge;
    const struct guard *told = diverge_guard_of(shard, number);
    if (copied)
        purge(shard, number);
    merge->deposed = false;
    if (guards_nothing(told) && guards_nothing(&merge->guard) && !merge->side_lost)
        return;
    struct guard guard = *told;
    guard.overflowed = guard.overflowed || merge->side_lost;
    merge->side_lost = merge->side_lost && guard.count > 0;
    if (memcmp(&guard, &merge->guard, sizeof guard) != 0)
        merge_set_guard(shard, number, &guard);
}
