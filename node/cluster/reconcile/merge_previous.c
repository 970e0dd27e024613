/* merge_previous.c - how much of a branch's state of a slot is in ours already.
 *
 * A branch comes with the chain of terms that it descends from: its own, and its cuts. The newest
 * of them that we know tells where the two histories of the slot part:
 *
 *   known as a contribution    (we merged that term before, up to c)
 *       the chain goes on in it to c or beyond      what we merged is what is in ours
 *       the chain leaves it before c                the branch's own base at that cut is
 *   known as a cut of our line (our line left that term at a)
 *       the chain leaves it after a                 our base at that cut
 *       the chain leaves it before a                the branch's base at that cut
 *   none is known                                   our base at our oldest cut
 *
 * After the merge ours has what the branch had merged itself, and the beginning of every term that
 * its line left: that is noted as contributions of those terms (absorb).
 *
 * Whoever left the common term first knows what both have in common. A base is what is kept for
 * that cut or the next newer one; a slot that has none did not change since.
 *
 * PREVIOUS-1  The answer is never more than what is in our state; where it is less, the sum counts
 *             twice.
 * PREVIOUS-2  A third branch that both lines have merged, each by itself, is in both states: it is
 *             left out when the branch had counted nothing more than the third line's base before
 *             it.
 */
#include <string.h>

#include "node/cluster/shard_state.h"

uint64_t merge_line(const struct term *term)
{
    return hash_mix64(term->epoch ^ hash_mix64(term->number ^ term->writer << 1));
}

uint32_t merge_event(const struct shard *shard, uint32_t number)
{
    return (uint32_t)(merge_line(&shard->vnodes[number].term) >> 32) | 1;
}

static struct bytes_view read_base(struct shard *shard, uint32_t blob)
{
    return (struct bytes_view){shard->merge.base,
                               merge_base_read(&shard->merge.bases, blob, shard->merge.base)};
}

/* The base of our slot for cut `cut`: the earliest that was kept at or after it. */
static enum merge_previous our_base(struct shard *shard, uint32_t number, uint32_t entry, int cut,
                                    struct bytes_view *found)
{
    const struct lineage *lineage = &shard->vnodes[number].merge.lineage;
    for (; entry != MERGE_BASE_NONE && cut >= 0; cut--) {
        const uint32_t blob =
            merge_base_blob(&shard->merge.bases, entry, MERGE_BASE_STATE, &lineage->cuts[cut].term);
        if (blob == MERGE_BASE_NONE)
            continue;
        *found = read_base(shard, blob);
        return MERGE_KNOWN;
    }
    return lineage->overflowed ? MERGE_LOST : MERGE_IS_PRESENT;
}

/* The same of the branch's slot, for cut `last` of its own. */
static enum merge_previous their_base(const struct merge_frame *frame, int last,
                                      struct bytes_view *found)
{
    struct bytes_reader blobs = frame->side.blobs;
    struct merge_base_blob blob;
    const uint8_t *bytes;
    int best = -1;
    while (frame->merge_base_set && peer_merge_base_next(&blobs, &blob, &bytes)) {
        const int cut =
            blob.kind == MERGE_BASE_STATE ? lineage_find(&frame->apart.lineage, &blob.term) : -1;
        if (cut <= best || cut > last)
            continue;
        best = cut;
        *found = (struct bytes_view){bytes, blob.len};
    }
    if (best >= 0)
        return MERGE_KNOWN;
    return frame->apart.lineage.overflowed ? MERGE_LOST : MERGE_IS_ALL;
}

/* Where the histories part, as the chain tells. */
static enum merge_previous find_fork(struct shard *shard, uint32_t number, uint32_t entry,
                                     struct bytes_view *found)
{
    const struct merge_frame *frame = &shard->merge.frame;
    const struct lineage *ours = &shard->vnodes[number].merge.lineage;
    const struct lineage *theirs = &frame->apart.lineage;
    for (int i = -1; i < theirs->count; i++) { /* -1: the branch's own term */
        const struct term *term = i < 0 ? &frame->apart.state : &theirs->cuts[i].term;
        const uint64_t seq = i < 0 ? frame->apart.seq : theirs->cuts[i].seq;
        const uint32_t merged =
            entry == MERGE_BASE_NONE
                ? MERGE_BASE_NONE
                : merge_base_blob(&shard->merge.bases, entry, MERGE_BASE_CONTRIBUTION, term);
        if (merged != MERGE_BASE_NONE) {
            if (i >= 0 && seq < merge_base_describe(&shard->merge.bases, merged).seq)
                return their_base(frame, i, found);
            *found = read_base(shard, merged);
            return MERGE_KNOWN;
        }
        const int cut = lineage_find(ours, term);
        if (cut >= 0 && seq > ours->cuts[cut].seq)
            return our_base(shard, number, entry, cut, found);
        if (cut >= 0)
            return i < 0 ? MERGE_IS_ALL : their_base(frame, i, found);
    }
    shard->stats.merge_fallbacks++;
    return our_base(shard, number, entry, ours->count - 1, found);
}

/* The earliest base that the branch kept of the slot. */
static bool is_their_base(const struct merge_frame *frame, const struct term *term,
                          const struct bytes_view *bytes)
{
    const int cut = lineage_find(&frame->apart.lineage, term);
    struct bytes_view base = {NULL, 0};
    return their_base(frame, cut < 0 ? frame->apart.lineage.count - 1 : cut, &base) ==
               MERGE_KNOWN &&
           base.len == bytes->len && memcmp(base.data, bytes->data, base.len) == 0;
}

/* PREVIOUS-2. */
static void leave_out_third(struct shard *shard, uint32_t number, uint32_t entry,
                            struct bytes_view *found)
{
    const struct merge_frame *frame = &shard->merge.frame;
    const struct merge_base *bases = &shard->merge.bases;
    struct bytes_reader blobs = frame->side.blobs;
    struct merge_base_blob theirs;
    const uint8_t *bytes;
    while (frame->merge_base_set && peer_merge_base_next(&blobs, &theirs, &bytes)) {
        if (theirs.kind != MERGE_BASE_CONTRIBUTION || !is_their_base(frame, &theirs.term, found))
            continue;
        const uint32_t at =
            entry == MERGE_BASE_NONE
                ? MERGE_BASE_NONE
                : merge_base_blob(bases, entry, MERGE_BASE_CONTRIBUTION, &theirs.term);
        if (at != MERGE_BASE_NONE && merge_base_describe(bases, at).event == theirs.event)
            continue; /* merged once, before the lines parted */
        if (at != MERGE_BASE_NONE && merge_base_describe(bases, at).seq < theirs.seq)
            *found = read_base(shard, at);
        else if (at != MERGE_BASE_NONE ||
                 lineage_includes(&shard->vnodes[number].merge.lineage, &theirs.term, theirs.seq))
            *found = (struct bytes_view){bytes, theirs.len};
        else
            continue;
        return;
    }
}

enum merge_previous merge_find_previous(struct shard *shard, uint32_t number, uint32_t entry,
                                        struct bytes_view *found)
{
    const enum merge_previous previous = find_fork(shard, number, entry, found);
    if (previous == MERGE_KNOWN)
        leave_out_third(shard, number, entry, found);
    return previous;
}

/* ---- after the merge ------------------------------------------------------------------------- */

/* Notes that all of `blob->term` up to `blob->seq` is in our state, if that is news. */
static void note(struct shard *shard, uint32_t number, uint32_t entry,
                 const struct merge_base_blob *blob, const uint8_t *bytes)
{
    struct merge_base *bases = &shard->merge.bases;
    const uint32_t ours = merge_base_blob(bases, entry, MERGE_BASE_CONTRIBUTION, &blob->term);
    if (lineage_includes(&shard->vnodes[number].merge.lineage, &blob->term, blob->seq) ||
        (ours != MERGE_BASE_NONE && merge_base_describe(bases, ours).seq >= blob->seq))
        return;
    if (merge_base_put(bases, entry, blob, bytes) != 0)
        shard->stats.merge_fallbacks++; /* it may count twice */
}

void merge_absorb(struct shard *shard, uint32_t number, uint32_t entry, struct bytes_view state)
{
    const struct merge_frame *frame = &shard->merge.frame;
    struct bytes_reader blobs = frame->side.blobs;
    struct merge_base_blob theirs;
    const uint8_t *bytes;
    while (frame->merge_base_set && peer_merge_base_next(&blobs, &theirs, &bytes))
        if (theirs.kind == MERGE_BASE_CONTRIBUTION)
            note(shard, number, entry, &theirs, bytes);
    for (int i = 0; i < frame->apart.lineage.count; i++) {
        const struct lineage_fork *cut = &frame->apart.lineage.cuts[i];
        struct bytes_view base = state; /* it did not change since, if no base is kept */
        if (their_base(frame, i, &base) == MERGE_LOST)
            continue;
        const struct merge_base_blob blob = {.kind = MERGE_BASE_CONTRIBUTION,
                                             .term = cut->term,
                                             .seq = cut->seq,
                                             .event = merge_event(shard, number),
                                             .len = (uint32_t)base.len};
        note(shard, number, entry, &blob, base.data);
    }
}
