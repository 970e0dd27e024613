/* stream.c - replication: dirty slots to the other replicas, and what they acknowledge.
 *
 * What a replica lacks is a set of dirty bits on the slots of a vnode plus a cursor in the table's
 * ring of changes (node/limit/table/table.h), never a queue of records. A slot is sent whole, as it
 * is when it is sent, so a slow replica costs nothing and skips what was overwritten meanwhile.
 *
 *   leader                                       replica
 *     TERM v sync | SLOT | SLOT ...        ---->    import
 *     WATERMARK v sync seq                      ---->    (state term, seq) = (term, seq)
 *     CHANGE v sync seq                             the three in one, where a frame has one slot
 *     frame n of stream s                  <----    ACK s n: it came
 *                                          <----    HELD: the mark was taken, if it asked
 *                                          <----    LACK: some of this sync was refused
 *
 * A frame that was lost, or a channel's new stream (channel.h), costs the vnodes with slots in
 * frames that were not acknowledged a complete copy. So a lost frame costs work, never a count.
 *
 * That a frame came does not say that the replica took it: it may not have known yet that it is
 * one, or whom to follow. So each complete copy of a vnode has a name, its *sync*, that every
 * frame repeats. A replica that refused anything of a sync takes no mark of it, and says LACK; then
 * the copy begins anew under a new name. A link counts as confirmed only when the replica has said
 * HELD.
 *
 * Complete copies take the bulk channel, so that they delay nothing else:
 *
 *                       a pass has room     the pass ended     clean: WATERMARK
 *   restart ---> WAITING ----------> COPYING ------> CATCHING ----------> ASKED ---> LIVE
 *                changes             changes         changes go  ^        changes    HELD: what was
 *                put off             put off         behind it   |        put off    put off goes
 *                                                                |           |       live from now
 *                                            the replica was silent meanwhile, or is LIVE and was
 *
 * STREAM-1   Between TERM and WATERMARK a replica holds parts of a newer state than it claims,
 *            never less.
 * STREAM-2   A WATERMARK is sent only when nothing of the vnode is dirty for that replica. One that
 *            is repeated states the sequence that was clean when it was first sent.
 * STREAM-3   A link is synced iff it is confirmed, and its newest WATERMARK is acknowledged and
 *            states the vnode's present seq.
 * STREAM-4   A replica takes a WATERMARK only if it took all slots of its sync.
 * STREAM-6   What is to go may vanish before it does (a slot that is as good as new): so a link
 *            owes a WATERMARK when changes that were put off go again, whether one is left or not,
 *            and soon after the table has told that one vanished.
 * STREAM-7   What left memory for the disk before it went is not dirty any more (TABLE-6): so a
 *            link that has missed something begins anew before its next WATERMARK, and cold_keys.c
 *            sends what is on disk.
 * STREAM-8   The first answers to what a slot counts are in its frame, behind it (firsts.h).
 *
 * The order of frames between the two channels never matters:
 *
 * STREAM-9   A link goes over to the live channel only when HELD tells that all it sent on the bulk
 *            channel was taken; from the last WATERMARK there until then it sends nothing.
 * STREAM-10  A link goes over to the bulk channel under a new sync, or with nothing unacknowledged
 *            on the live one.
 * STREAM-11  A replica ignores what arrives late of an older sync (stream_in.c).
 */
#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

static unsigned target_of(uint32_t link)
{
    return link + 1;
}

static bool deciding(const struct vnode *vnode)
{
    return vnode->role == ROLE_LEADING || vnode->role == ROLE_TRANSFERRING;
}

static uint16_t receiver_of(const struct vnode *vnode, uint32_t link)
{
    if (deciding(vnode))
        return link < vnode->link_count ? vnode->links[link].peer : PEER_NONE;
    if (link != 0)
        return PEER_NONE;
    /* A branch goes to its successor, or a state to one who recovers. */
    return vnode->merge.begun ? vnode->merge.successor : vnode->snapshot_to;
}

static bool is_branch(const struct vnode *vnode)
{
    return !deciding(vnode) && vnode->merge.begun;
}

static bool owes_watermark(const struct vnode *vnode, uint32_t link)
{
    return (vnode->watermarks_due & 1u << link) != 0;
}

static enum channel_kind kind_of(const struct replica_link *link)
{
    return link->phase == LINK_LIVE ? CHANNEL_LIVE : CHANNEL_BULK;
}

/* Whether changes may be sent now, as far as the link goes. */
static bool flows(const struct replica_link *link)
{
    return link->phase == LINK_LIVE || link->phase == LINK_CATCHING;
}

static uint32_t new_sync(struct shard *shard)
{
    if (++shard->sync == 0)
        shard->sync = 1;
    return shard->sync;
}

uint16_t stream_receiver(const struct shard *shard, uint32_t number, uint32_t link)
{
    return receiver_of(&shard->vnodes[number], link);
}

bool stream_hears(const struct shard *shard, uint32_t number, uint32_t link)
{
    const uint16_t at = receiver_of(&shard->vnodes[number], link);
    return at != PEER_NONE && !shard->peers[at]->silent && shard->peers[at]->in_view;
}

bool stream_has_room(const struct shard *shard, uint32_t number, uint32_t link,
                     const struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    return channel_has_room(shard, receiver_of(vnode, link), kind_of(&vnode->links[link]), effects);
}

bool stream_copying(const struct shard *shard, uint32_t number, uint32_t link)
{
    const uint8_t phase = shard->vnodes[number].links[link].phase;
    return phase == LINK_WAITING || phase == LINK_COPYING;
}

bool stream_under_way(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *state = &vnode->links[link];
    const uint16_t at = receiver_of(vnode, link);
    return stream_copying(shard, number, link) || owes_watermark(vnode, link) ||
           (at != PEER_NONE &&
            state->sent_frame > shard->peers[at]->channels[kind_of(state)].out_acked);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* What a TERM says of the link. */
static struct peer_written written_of(const struct vnode *vnode, uint32_t number, uint32_t link)
{
    const struct replica_link *state = &vnode->links[link];
    return (struct peer_written){
        .vnode = number,
        .term = deciding(vnode) ? vnode->term : vnode->state,
        .sync = state->sync,
        .copy = state->copy,
        .begins = !state->begun,
    };
}

static void put_term(struct shard *shard, uint32_t number, uint32_t link,
                     struct bytes_writer *outbox)
{
    struct vnode *vnode = &shard->vnodes[number];
    const struct peer_written written = written_of(vnode, number, link);
    peer_put_term(outbox, number, &written.term, written.sync, written.copy, written.begins);
    vnode->links[link].begun = true;
    merge_put_lineage(shard, number, outbox);
}

/* Says whose the records that follow are, unless the frame has it: TERM holds for all records of
 * the vnode in the frame, APART for those up to the next APART. */
static void put_whose(struct shard *shard, struct channel *channel, uint32_t number, uint32_t link)
{
    const bool branch = is_branch(&shard->vnodes[number]);
    if (branch && (channel->branch != number || channel->branch_frame != channel->frame)) {
        channel->branch = number;
        channel->branch_frame = channel->frame;
        reconcile_put_apart(shard, number, &channel->outbox);
    } else if (!branch && shard->vnodes[number].links[link].term_frame != channel->frame) {
        shard->vnodes[number].links[link].term_frame = channel->frame;
        put_term(shard, number, link, &channel->outbox);
    }
}

/* The outbox of the link's channel, in which the vnode's TERM was put. */
static struct bytes_writer *begin_record(struct shard *shard, uint32_t number, uint32_t link,
                                         size_t len, struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *state = &vnode->links[link];
    const uint16_t at = receiver_of(vnode, link);
    ASSERT(at < shard->peer_count); /* who pulls, follows or is told a branch */
    struct bytes_writer *outbox = channel_stream(shard, at, kind_of(state), len, effects);
    struct channel *channel = &shard->peers[at]->channels[kind_of(state)];
    put_whose(shard, channel, number, link);
    return outbox;
}

/* Whether a CHANGE tells all that the link's replica needs to know: no GUARD or SIDE belongs to it,
 * and it knows of CHANGE. */
static bool joins(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    return deciding(vnode) && !vnodes_quorum(shard, number) && !merge_tells(vnode) &&
           shard->peers[receiver_of(vnode, link)]->changes;
}

static struct channel *channel_of(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    return &shard->peers[receiver_of(vnode, link)]->channels[kind_of(&vnode->links[link])];
}

/* Puts the first record of the link into the frame, a slot, as a CHANGE; false if it is not the
 * first one, or has to be told in other words. */
static bool put_change(struct shard *shard, uint32_t number, uint32_t link, struct hash128 id,
                       const uint8_t *bytes, size_t len, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct replica_link *state = &vnode->links[link];
    if (!joins(shard, number, link))
        return false;
    struct bytes_writer *outbox = channel_stream(shard, receiver_of(vnode, link), kind_of(state),
                                                 len + firsts_room(shard, number, link), effects);
    const struct channel *channel = channel_of(shard, number, link);
    if (state->term_frame == channel->frame)
        return false;
    const struct peer_written written = written_of(vnode, number, link);
    state->term_frame = channel->frame;
    state->change_at = 1 + (uint32_t)peer_put_change(outbox, &written, id, bytes, (uint32_t)len);
    state->begun = true;
    return true;
}

/* Has the newest record of the link say what a WATERMARK behind it would, if that is a CHANGE which
 * is still to be sent, and is no complete copy's. */
static bool mark_change(struct shard *shard, uint32_t number, uint32_t link, uint64_t seq)
{
    const struct replica_link *state = &shard->vnodes[number].links[link];
    struct channel *channel = channel_of(shard, number, link);
    if (state->change_at == 0 || state->term_frame != channel->frame || !state->confirmed ||
        !joins(shard, number, link))
        return false;
    ASSERT(state->change_at <= channel->outbox.len);
    peer_watermark_change(&channel->outbox, state->change_at - 1, seq);
    return true;
}

/* Notes the frame with the newest record of the link. */
static void end_record(const struct shard *shard, uint32_t number, uint32_t link)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct replica_link *state = &vnode->links[link];
    ASSERT(receiver_of(vnode, link) < shard->peer_count);
    state->sent_frame = shard->peers[receiver_of(vnode, link)]->channels[kind_of(state)].out_seq;
}

/* Notes that `link` of the vnode owes a WATERMARK. */
static void owe_watermark(struct shard *shard, uint32_t number, uint32_t link)
{
    ASSERT(link < SHARD_REPLICAS_OTHER); /* PARTITION-6 */
    struct vnode *vnode = &shard->vnodes[number];
    vnode->watermarks_due |= (uint8_t)(1u << link);
    if (vnode->watermark_listed)
        return;
    ASSERT(shard->watermarks.count < shard->vnode_end); /* PARTITION-1 */
    vnode->watermark_listed = true;
    shard->watermarks.list[shard->watermarks.count++] = number;
}

void stream_owe_watermarks(struct shard *shard, uint32_t number)
{
    for (uint32_t link = 0; link < shard->vnodes[number].link_count; link++)
        if (receiver_of(&shard->vnodes[number], link) != PEER_NONE)
            owe_watermark(shard, number, link);
}

void stream_put_state(struct shard *shard, uint32_t number, uint32_t link, struct hash128 id,
                      const uint8_t *state, size_t len, struct effects *effects)
{
    if (!put_change(shard, number, link, id, state, len, effects)) {
        const size_t room =
            len + merge_base_room(shard, number, id) + firsts_room(shard, number, link);
        struct bytes_writer *outbox = begin_record(shard, number, link, room, effects);
        merge_put_base(shard, number, id, outbox);
        if (is_branch(&shard->vnodes[number]))
            peer_put_diverged(outbox, number, id, state, (uint32_t)len);
        else
            peer_put_slot(outbox, number, id, state, (uint32_t)len);
        shard->vnodes[number].links[link].change_at = 0;
    }
    firsts_put(shard, number, link, &channel_of(shard, number, link)->outbox); /* STREAM-8 */
    end_record(shard, number, link);
    owe_watermark(shard, number, link);
    shard->stats.slots_replicated++;
}

/* Sends the slot, whose state was exported. */
static void put_exported(struct shard *shard, uint32_t slot, uint32_t number, uint32_t link,
                         size_t len, struct effects *effects)
{
    stream_put_state(shard, number, link, table_slot_id(shard->table, slot), shard->state, len,
                     effects);
    table_clear_dirty(shard->table, slot, target_of(link));
}

static size_t export_slot(struct shard *shard, uint32_t slot)
{
    const int len = table_export(shard->table, slot, shard->state, sizeof shard->state);
    ASSERT(len >= 0);
    return (size_t)len;
}

void stream_put_slot(struct shard *shard, uint32_t slot, uint32_t link, struct effects *effects)
{
    put_exported(shard, slot, table_slot_vnode(shard->table, slot), link, export_slot(shard, slot),
                 effects);
}

/* Sends the slot to the link, and to those behind it that lack it as well and have room: now it and
 * its vnode are at hand. */
static void put_to_all(struct shard *shard, uint32_t slot, uint32_t number, uint32_t link,
                       struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const size_t len = export_slot(shard, slot);
    put_exported(shard, slot, number, link, len, effects);
    for (uint32_t other = link + 1; other < vnode->link_count; other++)
        if (receiver_of(vnode, other) != PEER_NONE && flows(&vnode->links[other]) &&
            table_slot_due(shard->table, slot, target_of(other)) &&
            stream_has_room(shard, number, other, effects))
            put_exported(shard, slot, number, other, len, effects);
}

static void send_slot(struct shard *shard, uint32_t slot, uint32_t link, struct effects *effects)
{
    const uint32_t number = table_slot_vnode(shard->table, slot);
    const struct vnode *vnode = &shard->vnodes[number];
    const uint16_t at = receiver_of(vnode, link);
    if (at == PEER_NONE) {
        table_clear_dirty(shard->table, slot, target_of(link));
    } else if (!flows(&vnode->links[link])) {
        table_defer(shard->table, slot, target_of(link));
    } else if (!stream_has_room(shard, number, link, effects)) {
        shard->peers[at]->channels[kind_of(&vnode->links[link])].out_deferred = true;
        shard->resume_due = shard->resume_due || effects->used >= CHANNEL_ARENA_MAX;
        table_defer(shard->table, slot, target_of(link));
    } else {
        put_to_all(shard, slot, number, link, effects);
    }
}

/* STREAM-2: whether the table has nothing more of the vnode for that position. */
static bool drained(const struct shard *shard, uint32_t number, uint32_t link)
{
    const unsigned target = target_of(link);
    const bool idle = vnodes_quorum(shard, number)
                          ? table_vnode_dirty(shard->table, number, target) == 0
                          : table_vnode_idle(shard->table, number, target);
    return idle && !shard->vnodes[number].links[link].copy_due &&
           !table_vnode_missed(shard->table, number, target) &&
           !table_vnode_behind(shard->table, number, target);
}

/* Before the newest mark is overwritten: is it, or the sample, acknowledged? */
static void take_sample(const struct shard *shard, struct replica_link *link, uint16_t at)
{
    const uint64_t acked = shard->peers[at]->channels[kind_of(link)].out_acked;
    exposure_keep(shard, link);
    if (link->watermark_frame != 0 && link->watermark_frame <= acked)
        link->held_seq = link->watermark_seq;
    else if (link->sample_frame != 0 && link->sample_frame <= acked)
        link->held_seq = link->sample_seq;
    else if (link->sample_frame != 0)
        return;
    link->sample_frame = link->watermark_frame <= acked ? 0 : link->watermark_frame;
    link->sample_seq = link->watermark_seq;
    link->granted.sample = link->granted.mark;
}

/* What a mark of the plane of quorum says beside, and that it was said. */
static void mark_quorum(const struct shard *shard, struct peer_vnode *entry)
{
    struct quorum *quorum = quorum_of(shard, entry->vnode);
    if (quorum->marked_seq < entry->seq)
        quorum->marked_seq = entry->seq;
    entry->term.epoch = shard->view->epoch;
    if (quorum->settled_epoch == shard->view->epoch)
        entry->flags |= ENTRY_SETTLED;
}

static void put_watermark_record(struct shard *shard, uint32_t number, uint32_t link, uint64_t seq,
                                 struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *state = &vnode->links[link];
    struct bytes_writer *outbox =
        begin_record(shard, number, link, firsts_room(shard, number, link), effects);
    struct peer_vnode entry = {
        .vnode = number,
        .role = vnode->role,
        .term = vnode->term,
        .state = deciding(vnode) ? vnode->term : vnode->state,
        .seq = seq,
        .sync = state->sync,
        .asks = !state->confirmed,
    };
    if (vnodes_quorum(shard, number))
        mark_quorum(shard, &entry);
    else if (!is_branch(vnode))
        merge_put_lineage(shard, number, outbox);
    firsts_put(shard, number, link, outbox); /* STREAM-8: of what left no slot */
    peer_put_vnode(outbox, is_branch(vnode) ? PEER_DIVERGED_END : PEER_WATERMARK, &entry);
}

static void put_watermark(struct shard *shard, uint32_t number, uint32_t link,
                          struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct replica_link *state = &vnode->links[link];
    ASSERT(state->phase != LINK_WAITING && state->phase != LINK_COPYING); /* STREAM-2 */
    const bool again = state->phase == LINK_ASKED;
    const uint64_t seq = again ? state->watermark_seq : table_vnode_seq(shard->table, number);
    if (!mark_change(shard, number, link, seq)) {
        put_watermark_record(shard, number, link, seq, effects);
        state->change_at = 0;
    }
    take_sample(shard, state, receiver_of(vnode, link));
    end_record(shard, number, link);
    vnode->watermarks_due &= (uint8_t) ~(1u << link);
    state->mark_ns = shard->now_ns;
    state->watermark_seq = seq;
    state->watermark_frame = state->sent_frame;
    if (state->phase == LINK_CATCHING && deciding(vnode))
        state->phase = LINK_ASKED; /* STREAM-9 */
    if (deciding(vnode) && !again)
        exposure_watermarked(shard, number, link);
}

/* Lets what was put off for want of room go on, where there is room again. */
static void resume_links(struct shard *shard, const struct effects *effects)
{
    if (!shard->resume_due)
        return;
    shard->resume_due = false;
    for (uint16_t at = 0; at < shard->peer_count; at++)
        for (uint32_t kind = 0; kind < CHANNELS; kind++)
            if (channel_has_room(shard, at, (enum channel_kind)kind, effects))
                shard->peers[at]->channels[kind].out_deferred = false;
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        const struct vnode *vnode = &shard->vnodes[number];
        for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
            if (receiver_of(vnode, link) != PEER_NONE && flows(&vnode->links[link]) &&
                table_vnode_behind(shard->table, number, target_of(link)) &&
                stream_has_room(shard, number, link, effects)) {
                table_resume_vnode(shard->table, number, target_of(link));
                owe_watermark(shard, number, link); /* STREAM-6 */
            }
    }
}

/* STREAM-7: whoever has missed something owes a mark, which begins with a complete copy. */
static void find_missed(struct shard *shard)
{
    if (!table_missed_news(shard->table))
        return;
    for (uint32_t number = 0; number < shard->vnode_end; number++)
        for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
            if (table_vnode_missed(shard->table, number, target_of(link)) &&
                receiver_of(&shard->vnodes[number], link) != PEER_NONE)
                owe_watermark(shard, number, link);
}

/* Puts the mark of one link if it can be put; true if the link still owes it. */
static bool put_watermark_of(struct shard *shard, uint32_t number, uint32_t link,
                             struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *state = &vnode->links[link];
    if (receiver_of(vnode, link) == PEER_NONE) {
        vnode->watermarks_due &= (uint8_t) ~(1u << link);
        return false;
    }
    if (!stream_copying(shard, number, link) && stream_hears(shard, number, link) &&
        table_vnode_missed(shard->table, number, target_of(link)))
        stream_restart_link(shard, number, link); /* STREAM-7 */
    if (state->phase == LINK_WAITING)
        handoff_offer(shard, number, link);
    if (stream_copying(shard, number, link) || !stream_has_room(shard, number, link, effects) ||
        (state->phase != LINK_ASKED && !drained(shard, number, link)))
        return true;
    put_watermark(shard, number, link, effects);
    return false;
}

static void put_marks(struct shard *shard, struct effects *effects)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < shard->watermarks.count; i++) {
        const uint32_t number = shard->watermarks.list[i];
        struct vnode *vnode = &shard->vnodes[number];
        bool owes = false;
        for (uint32_t link = 0; vnode->watermarks_due >> link != 0; link++)
            if (owes_watermark(vnode, link) && put_watermark_of(shard, number, link, effects))
                owes = true;
        vnode->watermark_listed = owes;
        if (owes)
            shard->watermarks.list[kept++] = number;
    }
    ASSERT(kept <= shard->watermarks.count);
    shard->watermarks.count = kept;
}

/* Asks memory for what sending the slot reads and writes of its vnode. */
static void prefetch_links(const struct shard *shard, uint32_t number, uint32_t link)
{
    enum { LINKS = 2 }; /* of three replicas */
    const struct replica_link *first = &shard->vnodes[number].links[link];
    const char *end = (const char *)(first + (link + LINKS <= SHARD_REPLICAS_OTHER ? LINKS : 1));
    vnodes_prefetch_copy(shard, number);
    for (const char *line = (const char *)first; line < end; line += PREFETCH_LINE)
        prefetch_to_write(line);
}

enum { SLOTS_PER_TURN = 65536, SWEEPS_PER_TURN = 64, BLOCK = 32 };

/* Sends what is dirty at one position; a bounded amount, including a bounded piece of a sweep. The
 * slots of a block are all taken before the first is sent, so that the waiting for their vnodes
 * overlaps; one that is in it twice, for its entry was put twice, is sent twice. */
static void send_link(struct shard *shard, uint32_t link, struct effects *effects)
{
    uint32_t slots[BLOCK];
    uint32_t sweeps = 0;
    bool more = true;
    for (uint32_t sent = 0; more && sent < SLOTS_PER_TURN;) {
        uint32_t count = 0;
        while (more && count < BLOCK) {
            const uint32_t slot = table_next_dirty(shard->table, target_of(link));
            if (slot != TABLE_NONE) {
                prefetch_links(shard, table_slot_vnode(shard->table, slot), link);
                slots[count++] = slot;
            } else {
                more =
                    !table_target_idle(shard->table, target_of(link)) && ++sweeps < SWEEPS_PER_TURN;
            }
        }
        for (uint32_t i = 0; i < count; i++)
            send_slot(shard, slots[i], link, effects);
        sent += count;
    }
}

static void send_to(struct shard *shard, uint32_t slot, uint8_t targets, struct effects *effects)
{
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        if ((targets & TABLE_TARGET_BIT(target_of(link))) != 0 &&
            table_slot_due(shard->table, slot, target_of(link)))
            send_slot(shard, slot, link, effects);
}

/* The same for all positions that have come as far as the first: a slot is looked at once. */
static void send_abreast(struct shard *shard, struct effects *effects)
{
    const uint8_t targets =
        table_abreast(shard->table, (uint8_t)(UINT8_MAX & ~TABLE_TARGET_BIT(TABLE_DISK)));
    uint32_t slots[BLOCK];
    bool more = (targets & (targets - 1)) != 0; /* for one alone there is send_link */
    for (uint32_t sent = 0; more && sent < SLOTS_PER_TURN;) {
        uint32_t count = 0;
        for (; count < BLOCK; count++) {
            slots[count] = table_next_abreast(shard->table, targets);
            if (slots[count] == TABLE_NONE)
                break;
            prefetch_links(shard, table_slot_vnode(shard->table, slots[count]), 0);
        }
        more = count == BLOCK;
        for (uint32_t i = 0; i < count; i++)
            send_to(shard, slots[i], targets, effects);
        sent += count;
    }
}

static void send_changes(struct shard *shard, struct effects *effects)
{
    send_abreast(shard, effects);
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        send_link(shard, link, effects);
    put_marks(shard, effects);
}

void stream_send(struct shard *shard, struct effects *effects)
{
    resume_links(shard, effects);
    find_missed(shard);
    send_changes(shard, effects);
    if (handoff_send(shard, effects))
        send_changes(shard, effects); /* what changed while it was copied */
}

bool stream_drain(struct shard *shard, uint32_t number, uint32_t link, struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (receiver_of(vnode, link) == PEER_NONE || vnode->links[link].phase != LINK_LIVE ||
        !stream_has_room(shard, number, link, effects))
        return false;
    send_link(shard, link, effects);
    if (!stream_has_room(shard, number, link, effects) || !drained(shard, number, link))
        return false;
    put_watermark(shard, number, link, effects);
    return true;
}

/* ---- from one channel to the other ----------------------------------------------------------- */

/* Under a new sync nothing counts that was sent, acknowledged or held. */
static void rename_link(struct shard *shard, uint32_t number, uint32_t link, enum link_phase phase)
{
    ASSERT(link < SHARD_REPLICAS_OTHER && phase <= LINK_WAITING); /* STREAM-10 */
    struct replica_link *state = &shard->vnodes[number].links[link];
    exposure_keep(shard, state);
    state->phase = (uint8_t)phase;
    state->confirmed = false;
    state->term_frame = 0;
    state->sent_frame = 0;
    state->watermark_frame = 0;
    state->sample_frame = 0;
    state->held_seq = 0;
    state->sync = new_sync(shard);
    state->copy = false;
    state->begun = false;
    vnodes_mark_active(shard, number);
    owe_watermark(shard, number, link);
}

void stream_owe_watermark(struct shard *shard, uint32_t number, uint32_t link)
{
    ASSERT(shard->vnodes[number].links[link].peer < shard->peer_count);
    rename_link(shard, number, link, LINK_LIVE);
    /* One that has started since may hold the state, which is on its disk, and no answers. */
    const struct peer *peer = shard->peers[shard->vnodes[number].links[link].peer];
    if (shard->now_ns - peer->met_ns <= RETRY_KEEP_NS)
        firsts_restart(shard, number, link);
    else
        firsts_skip(shard, number, link);
}

void stream_restart_link(struct shard *shard, uint32_t number, uint32_t link)
{
    shard->stats.copies++;
    rename_link(shard, number, link, LINK_WAITING);
    firsts_restart(shard, number, link);
    table_forgive_missed(shard->table, number, target_of(link));
    cold_keys_restarted(shard, number, link);
    shard->vnodes[number].links[link].copy = true;
}

void stream_watermark_again(struct shard *shard, uint32_t number, uint32_t link)
{
    owe_watermark(shard, number, link);
}

void stream_unconfirm(struct shard *shard, uint32_t number, uint32_t link)
{
    ASSERT(link < shard->vnodes[number].link_count);
    struct replica_link *state = &shard->vnodes[number].links[link];
    exposure_keep(shard, state);
    state->confirmed = false;
    if (state->phase == LINK_LIVE || state->phase == LINK_ASKED)
        state->phase = LINK_CATCHING; /* STREAM-10: what was unacknowledged was restarted already */
    vnodes_mark_active(shard, number);
}

/* Frame numbers of a stream that ends mean nothing in the next; what they proved stays. */
static void forget_frames(struct replica_link *link, uint64_t acked)
{
    if (link->watermark_frame != 0 && link->watermark_frame <= acked)
        link->held_seq = link->watermark_seq;
    link->sent_frame = 0;
    link->watermark_frame = 0;
    link->sample_frame = 0;
}

void stream_restart(struct shard *shard, uint16_t at, enum channel_kind kind)
{
    ASSERT(at < shard->peer_count && kind < CHANNELS);
    struct channel *channel = &shard->peers[at]->channels[kind];
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        struct vnode *vnode = &shard->vnodes[number];
        for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++) {
            struct replica_link *state = &vnode->links[link];
            if (receiver_of(vnode, link) != at || kind_of(state) != kind)
                continue;
            exposure_keep(shard, state);
            if (state->sent_frame > channel->out_acked)
                stream_restart_link(shard, number, link);
            else
                forget_frames(state, channel->out_acked);
        }
    }
    channel_begin(shard, channel);
    shard->resume_due = true;
    shard->stats.resyncs++;
}

bool stream_synced(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *state = &vnode->links[link];
    return state->confirmed && !owes_watermark(vnode, link) && state->peer != PEER_NONE &&
           state->watermark_frame <= shard->peers[state->peer]->channels[CHANNEL_LIVE].out_acked &&
           state->watermark_seq == table_vnode_seq(shard->table, number);
}

static int link_to(const struct vnode *vnode, uint16_t at)
{
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        if (receiver_of(vnode, link) == at)
            return (int)link;
    return -1;
}

void stream_held(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                 struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    const int link = link_to(vnode, at);
    if (link >= 0 && vnodes_quorum(shard, entry->vnode))
        quorum_link_held(shard, entry->vnode, (uint32_t)link, entry, effects);
    if (link < 0 || !deciding(vnode) || vnode->links[link].sync != entry->sync)
        return;
    exposure_confirmed(&vnode->links[link], entry->seq);
    shard->lessor.due = true;
    struct replica_link *state = &vnode->links[link];
    if (state->phase == LINK_ASKED && entry->seq >= state->watermark_seq) { /* STREAM-9 */
        state->phase = LINK_LIVE;
        forget_frames(state, 0);
        if (table_vnode_behind(shard->table, entry->vnode, target_of((uint32_t)link)))
            table_resume_vnode(shard->table, entry->vnode, target_of((uint32_t)link));
        if (state->watermark_seq != table_vnode_seq(shard->table, entry->vnode))
            owe_watermark(shard, entry->vnode, (uint32_t)link); /* STREAM-6 */
    }
    if (state->phase != LINK_LIVE)
        return; /* of an earlier mark: more was sent since */
    state->confirmed = true;
    ASSERT(!state->confirmed || state->phase == LINK_LIVE); /* STREAM-9 */
    if (state->held_seq < entry->seq)
        state->held_seq = entry->seq;
}

void stream_lacks(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    const int link = link_to(vnode, at);
    if (link >= 0 && (entry->sync == vnode->links[link].sync ||
                      (entry->sync == 0 && vnode->links[link].confirmed))) {
        stream_restart_link(shard, entry->vnode, (uint32_t)link);
        exposure_forget(&vnode->links[link]);
    }
}

void stream_ask_again(struct shard *shard, uint32_t number, const struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t link = 0; link < vnode->link_count; link++) {
        const struct replica_link *state = &vnode->links[link];
        if (!state->confirmed && !owes_watermark(vnode, link) && state->peer != PEER_NONE &&
            shard->now_ns - state->mark_ns > SHARD_RESYNC_NS &&
            stream_has_room(shard, number, link, effects))
            owe_watermark(shard, number, link);
    }
}

uint64_t stream_held_seq(const struct shard *shard, uint32_t number, uint32_t link)
{
    ASSERT(link < SHARD_REPLICAS_OTHER);
    const struct replica_link *state = &shard->vnodes[number].links[link];
    if (!state->confirmed || state->peer == PEER_NONE)
        return 0;
    const uint64_t acked = shard->peers[state->peer]->channels[CHANNEL_LIVE].out_acked;
    if (state->watermark_frame != 0 && state->watermark_frame <= acked)
        return state->watermark_seq;
    if (state->sample_frame != 0 && state->sample_frame <= acked)
        return state->sample_seq;
    return state->held_seq;
}

/* There is room again: for what was put off, and for marks, which must not wait for time. */
static void send_soon(struct shard *shard, const struct channel *channel)
{
    const bool quorum = shard->vnode_end > shard->options.vnodes;
    shard->resume_due = shard->resume_due || channel->out_deferred;
    shard->quorum.due = shard->quorum.due || (quorum && shard->watermarks.count > 0);
}

void stream_acked(struct shard *shard, uint16_t at, const struct peer_record *record)
{
    const enum channel_kind kind = record->stream.bulk ? CHANNEL_BULK : CHANNEL_LIVE;
    struct channel *channel = &shard->peers[at]->channels[kind];
    if (record->stream.stream != channel->out_stream || record->stream.seq > channel->out_seq)
        return;
    if (channel_acked(channel, record->stream.stream, record->stream.seq, shard->now_ns)) {
        send_soon(shard, channel);
        shard->lessor.due = true;
        exposure_acked(shard);
    }
    ASSERT(channel->out_acked <= channel->out_seq); /* CHANNEL-2 */
    if (record->stream.resync)
        stream_restart(shard, at, kind);
}

/* STREAM-6: the replicas hold all that there is, but do not know how far they are. */
static void mark_vanished(struct shard *shard)
{
    if (!table_vanished_news(shard->table))
        return;
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        const uint8_t vanished = table_take_vanished(shard->table, number);
        for (uint32_t link = 0; vanished != 0 && link < SHARD_REPLICAS_OTHER; link++)
            if ((vanished & TABLE_TARGET_BIT(target_of(link))) != 0 &&
                receiver_of(&shard->vnodes[number], link) != PEER_NONE)
                owe_watermark(shard, number, link);
    }
}

void stream_tick(struct shard *shard)
{
    mark_vanished(shard);
    for (uint16_t at = 0; at < shard->peer_count; at++) {
        const struct peer *peer = shard->peers[at];
        for (uint32_t kind = 0; kind < CHANNELS; kind++) {
            const struct channel *channel = &peer->channels[kind];
            if (channel->out_seq > channel->out_acked && !peer->silent && !peers_lag(shard, at) &&
                shard->now_ns - channel->out_wait_ns > SHARD_RESYNC_NS + peers_detour_ns(shard, at))
                stream_restart(shard, at, (enum channel_kind)kind);
        }
    }
}
