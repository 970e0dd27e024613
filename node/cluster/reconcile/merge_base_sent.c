/* merge_base_sent.c - what is remembered for merging travels with the state (MERGE-1).
 *
 *   TERM GUARD | SIDE SLOT | SLOT | SIDE SLOT | ... | GUARD WATERMARK
 *
 * SIDE comes before the slot that it is about, in the same frame; a slot without one has nothing to
 * remember. GUARD comes with the first slot of each frame, so that a branch is noticed before
 * anything is overwritten, and before each mark, so that it goes with the claim.
 *
 * MERGESENT-1  With a mark a replica holds the cuts of its leader, and with a complete copy the
 *              entries of exactly its slots; what was remembered on another line is gone then.
 */
#include <string.h>

#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

enum { MERGE_BASE_HEADER_LEN = 32, BLOB_HEADER_LEN = 52 }; /* at most */

/* ---- out ------------------------------------------------------------------------------------- */

static uint32_t entry_of(const struct shard *shard, uint32_t number, struct hash128 id)
{
    if (shard->vnodes[number].merge.lineage.count == 0)
        return MERGE_BASE_NONE;
    return merge_base_find(&shard->merge.bases, id);
}

size_t merge_base_room(const struct shard *shard, uint32_t number, struct hash128 id)
{
    const uint32_t entry = entry_of(shard, number, id);
    size_t bytes;
    if (entry == MERGE_BASE_NONE)
        return 0;
    const uint32_t count = merge_base_count(&shard->merge.bases, entry, &bytes);
    return MERGE_BASE_HEADER_LEN + count * BLOB_HEADER_LEN + bytes;
}

static bool travels(enum merge_base_kind kind)
{
    return kind == MERGE_BASE_STATE || kind == MERGE_BASE_CONTRIBUTION;
}

void merge_put_base(struct shard *shard, uint32_t number, struct hash128 id,
                    struct bytes_writer *outbox)
{
    const struct merge_base *bases = &shard->merge.bases;
    const uint32_t entry = entry_of(shard, number, id);
    uint8_t count = 0;
    if (entry == MERGE_BASE_NONE)
        return;
    for (uint32_t at = merge_base_blobs(bases, entry); at != MERGE_BASE_NONE;
         at = merge_base_next_blob(bases, at))
        count = (uint8_t)(count + travels(merge_base_describe(bases, at).kind));
    peer_put_merge_base(outbox, number, id, count);
    for (uint32_t at = merge_base_blobs(bases, entry); at != MERGE_BASE_NONE;
         at = merge_base_next_blob(bases, at)) {
        const struct merge_base_blob blob = merge_base_describe(bases, at);
        if (!travels(blob.kind))
            continue;
        (void)merge_base_read(bases, at, shard->merge.base);
        peer_put_blob(outbox, &blob, shard->merge.base);
    }
}

bool merge_tells(const struct vnode *vnode)
{
    return vnode->merge.lineage.count > 0 || vnode->merge.lineage.blind;
}

void merge_put_lineage(const struct shard *shard, uint32_t number, struct bytes_writer *outbox)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (merge_tells(vnode))
        peer_put_lineage(outbox, number, &vnode->merge.lineage);
}

void merge_put_report(struct shard *shard, uint16_t at, uint32_t number, enum peer_record_type type,
                      struct effects *effects)
{
    struct peer_vnode entry = vnodes_entry(shard, number);
    entry.flags = vnodes_bound(shard, number, at) ? ENTRY_BOUND : 0;
    struct bytes_writer *outbox = peers_outbox(shard, at, (size_t)2 * PEER_RECORD_MAX, effects);
    merge_put_lineage(shard, number, outbox);
    peer_put_vnode(outbox, type, &entry);
}

/* ---- in -------------------------------------------------------------------------------------- */

void merge_in_base(struct shard *shard, const struct peer_record *record)
{
    shard->merge.frame.merge_base_set = true;
    shard->merge.frame.side = record->side;
}

/* Replaces what is remembered of the slot by what its leader remembers. */
static void take_merge_base(struct shard *shard, uint32_t number, uint32_t entry)
{
    struct merge_base *bases = &shard->merge.bases;
    struct vnode *vnode = &shard->vnodes[number];
    struct bytes_reader blobs = shard->merge.frame.side.blobs;
    struct merge_base_blob blob;
    const uint8_t *bytes;
    merge_base_set_stamp(bases, entry, vnode->in_sync);
    while (peer_merge_base_next(&blobs, &blob, &bytes))
        if (travels(blob.kind) && merge_base_put(bases, entry, &blob, bytes) != 0)
            vnode->merge.merge_base_lost = true;
}

void merge_in_slot(struct shard *shard, uint32_t number, struct hash128 id)
{
    struct merge_base *bases = &shard->merge.bases;
    struct merge_frame *frame = &shard->merge.frame;
    const bool told = frame->merge_base_set && hash128_equal(frame->side.id, id);
    frame->merge_base_set = false;
    if (!told && bases->entries == 0)
        return;
    uint32_t entry = merge_base_find(bases, id);
    if (entry != MERGE_BASE_NONE)
        merge_base_remove(bases, entry);
    if (!told)
        return;
    entry = merge_base_add(bases, number, id);
    if (entry == MERGE_BASE_NONE)
        shard->vnodes[number].merge.merge_base_lost = true;
    else
        take_merge_base(shard, number, entry);
}

/* MERGESENT-1: entries of other copies go. */
static void purge(struct shard *shard, uint32_t number)
{
    struct merge_base *bases = &shard->merge.bases;
    uint32_t entry = merge_base_first(bases, number);
    while (entry != MERGE_BASE_NONE) {
        const uint32_t next = merge_base_next(bases, entry);
        if (merge_base_stamp(bases, entry) != shard->vnodes[number].in_sync)
            merge_base_remove(bases, entry);
        entry = next;
    }
}

static bool lineage_nothing(const struct lineage *lineage)
{
    return lineage->count == 0 && !lineage->overflowed && !lineage->blind;
}

void merge_in_watermark(struct shard *shard, uint32_t number, bool copied)
{
    struct merge_vnode *merge = &shard->vnodes[number].merge;
    const struct lineage *told = reconcile_lineage_of(shard, number);
    if (copied)
        purge(shard, number);
    merge->deposed = false;
    if (lineage_nothing(told) && lineage_nothing(&merge->lineage) && !merge->merge_base_lost)
        return;
    struct lineage lineage = *told;
    lineage.overflowed = lineage.overflowed || merge->merge_base_lost;
    merge->merge_base_lost = merge->merge_base_lost && lineage.count > 0;
    if (memcmp(&lineage, &merge->lineage, sizeof lineage) != 0)
        merge_set_lineage(shard, number, &lineage);
}
