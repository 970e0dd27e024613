/* stream_in.c - replication as a replica takes it: frames in order, states, marks.
 *
 * stream.c tells the protocol, and STREAM-1 and STREAM-4, which are kept here. A frame that is not
 * the next one of its stream is not looked at; what a peer sends of a vnode is taken only while
 * this shard follows that peer for it, and a mark only if all of its copy was taken.
 *
 * STREAMIN-1  After a complete copy a replica holds nothing that its leader lacks: slots that the
 *             copy did not have go. Where a copy that was broken off left slots that cannot be told
 *             apart, another one is asked for as soon as they can be.
 * STREAMIN-2  Who pulls a state takes the one that was reported, or a newer one, and nothing less:
 *             a copy of an earlier time may arrive from the same node meanwhile. If only such ones
 *             come, its state is not what it was (a claim may fall), and all are asked again.
 * STREAMIN-3  Where a state found no room, no copy is asked for again for a while: it would find
 *             none either. Till then nothing of the vnode is acknowledged, and its leader says so.
 */
#include "base/assert.h"
#include "base/prefetch.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/vnodes.h"

#define FULL_REST_NS (1000 * MS)

void stream_in_prefetch(const struct shard *shard, const struct bytes_reader *records,
                        struct stream_in *in)
{
    enum { RECORDS = 128 };
    uint32_t vnodes[TABLE_PREFETCH_MAX];
    struct hash128 ids[TABLE_PREFETCH_MAX];
    struct bytes_reader reader = *records;
    struct peer_glance glance;
    uint32_t before = UINT32_MAX;
    size_t count = 0;
    if (!in->accept || records->at < in->ahead)
        return;
    for (uint32_t n = 0; n < RECORDS && count < TABLE_PREFETCH_MAX &&
                         peer_glance(&reader, shard->vnode_end, &glance);
         n++) {
        if (glance.vnode != before)
            vnodes_prefetch_copy(shard, glance.vnode);
        before = glance.vnode;
        if (!glance.slot)
            continue;
        vnodes[count] = glance.vnode;
        ids[count++] = glance.id;
    }
    in->ahead = reader.at;
    table_prefetch_ids(shard->table, vnodes, ids, count);
}

void stream_in_begin(struct shard *shard, uint16_t at, const struct peer_record *record,
                     struct stream_in *in)
{
    struct channel *channel = &shard->peers[at]->channels[in->bulk ? CHANNEL_BULK : CHANNEL_LIVE];
    in->accept = false;
    ASSERT(at < shard->peer_count && !in->accept);
    if (record->stream.boot != shard->options.boot)
        return; /* it continues what an earlier process of this node had received */
    in->accept = channel_take(channel, record->stream.stream, record->stream.seq);
}

void stream_in_broken(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->in_copy)
        table_copy_abort(shard->table, number);
    vnode->in_copy = false;
}

/* STREAMIN-1: the copy is here, and what it did not have goes. */
static void end_copy(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->copy_complete); /* STREAM-4 */
    if (vnode->in_copy)
        vnode->has_stale_slots = table_copy_end(shard->table, number) != 0;
    if (vnode->has_stale_slots)
        vnodes_mark_active(shard, number); /* another one is to be asked for */
    vnode->in_copy = false;
}

static void put_stale(struct shard *shard, uint16_t at, uint32_t number, struct effects *effects)
{
    const struct peer_vnode entry = vnodes_entry(shard, number);
    peers_put_vnode(shard, at, PEER_STALE, &entry, effects);
    shard->stats.stale_writes++;
}

/* Whom the vnode is followed for is there: nobody else needs what is held here to decide it. Else
 * the one who pulled it would be streamed every change, for ever. */
static void end_catch_up(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role != ROLE_REPLICA || vnode->snapshot_to == PEER_NONE)
        return;
    vnode->snapshot_to = PEER_NONE;
    if (!vnode->merge.begun)
        table_set_targets(shard->table, number, vnodes_disk_mask(shard));
}

/* Whether this node takes the vnode's state from `peer` now. */
static bool follows(const struct shard *shard, uint16_t at, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role == ROLE_REPLICA)
        return vnode->hint == at && !reconcile_busy(vnode);
    return vnode->role == ROLE_RECOVERING && vnode->catching_up && vnode->best == at;
}

/* What the copy of a TERM record is to the one that is taken now. */
enum cold_keys_order { COLD_KEYS_LATE, COLD_KEYS_SAME, COLD_KEYS_NEXT };

static enum cold_keys_order order_of(const struct vnode *vnode, uint16_t at,
                                     const struct term *term, uint32_t sync)
{
    if (vnode->in_from != at)
        return COLD_KEYS_NEXT;
    const int order = term_compare(term, &vnode->in_term);
    if (order != 0)
        return order < 0 ? COLD_KEYS_LATE : COLD_KEYS_NEXT;
    if (sync == vnode->in_sync)
        return COLD_KEYS_SAME;
    return (int32_t)(sync - vnode->in_sync) > 0 ? COLD_KEYS_NEXT : COLD_KEYS_LATE;
}

/* Whether it is of the copy that this replica takes, in the newest term: most are, and there is
 * nothing more to find out about it. */
static bool goes_on(const struct vnode *vnode, uint16_t at, const struct peer_written *written)
{
    return vnode->role == ROLE_REPLICA && vnode->in_from == at && vnode->in_sync == written->sync &&
           term_equal(&written->term, &vnode->in_term) && term_equal(&written->term, &vnode->term);
}

void stream_in_term(struct shard *shard, uint16_t at, const struct peer_written *written,
                    struct effects *effects)
{
    const uint32_t number = written->vnode;
    const struct term *term = &written->term;
    struct vnode *vnode = &shard->vnodes[number];
    if (!vnodes_mine(shard, number))
        return;
    if (goes_on(vnode, at, written)) {
        vnode->in_late = false;
        return;
    }
    if (vnode->role != ROLE_ABSENT && term->writer == shard->peers[at]->node)
        (void)vnodes_adopt(shard, number, term);
    const bool followed = follows(shard, at, number);
    /* In the plane of quorum nothing is taken of a term below the promised one, whoever wrote it,
     * and of a state that is pulled only the one that was reported. */
    const bool outdated =
        vnodes_quorum(shard, number) && followed &&
        term_compare(term, vnode->role == ROLE_REPLICA ? &vnode->term : &vnode->best_state) != 0;
    const enum cold_keys_order order = order_of(vnode, at, term, written->sync);
    /* What a leader sent in an earlier term may come behind its opening of the newest. */
    const bool earlier = vnode->role == ROLE_REPLICA && term_compare(term, &vnode->term) < 0;
    vnode->in_late = order == COLD_KEYS_LATE || (followed && earlier);
    if (outdated) {
        vnode->in_late = true;
    } else if (vnode->role != ROLE_ABSENT && term_compare(term, &vnode->term) < 0 && !followed) {
        put_stale(shard, at, number, effects);
        vnode->in_late = true;
    } else if (order == COLD_KEYS_NEXT && !followed && vnode->in_from != PEER_NONE &&
               follows(shard, vnode->in_from, number)) {
        vnode->in_late = true; /* the copy of the one it follows goes on */
    } else if (order == COLD_KEYS_NEXT && !vnode->in_late) {
        vnode->in_from = at;
        vnode->in_term = *term;
        vnode->in_sync = written->sync;
        /* STREAM-4: of one that is not seen from its beginning, a part was passed over; and what is
         * pulled is a complete copy or nothing. */
        vnode->copy_complete =
            followed && written->begins && (vnode->role == ROLE_REPLICA || written->copy);
        stream_in_broken(shard, number);
        if (vnode->copy_complete && written->copy) {
            table_copy_begin(shard->table, number);
            vnode->in_copy = true;
        }
        ASSERT(vnode->copy_complete || !vnode->in_copy); /* STREAMIN-1 */
        vnodes_mark_active(shard, number);
    }
}

void stream_in_slot(struct shard *shard, uint16_t at, const struct peer_slot *slot)
{
    struct vnode *vnode = &shard->vnodes[slot->vnode];
    if (vnode->in_late)
        return; /* STREAM-11: what it would overwrite may be newer */
    if (!follows(shard, at, slot->vnode)) {
        vnode->copy_complete = false; /* STREAM-4 */
        vnodes_mark_active(shard, slot->vnode);
        return;
    }
    if (!vnode->copy_complete)
        return; /* no mark of it will be taken: what is held stays what it is (RECONCILE-1) */
    vnode->holds_newer = true;
    const int result =
        table_import(shard->table, slot->vnode, slot->id, slot->state, slot->len, shard->now_ns, 0);
    if (vnode->role == ROLE_RECOVERING)
        vnode->in_ns = shard->now_ns;
    if (result == TG_EFULL)
        shard->full_until_ns = shard->now_ns + FULL_REST_NS; /* STREAMIN-3 */
    if (result == TG_ECORRUPT || result == TG_EVERSION)
        shard->stats.bad_frames++;
    if (result != 0) {
        vnode->copy_complete = false; /* STREAM-4: what had no room is not held */
        vnodes_mark_active(shard, slot->vnode);
    } else if (!vnodes_quorum(shard, slot->vnode)) {
        merge_in_slot(shard, slot->vnode, slot->id);
    }
}

void stream_in_firsts(struct shard *shard, uint16_t at, bool accept, const struct peer_firsts *told)
{
    const struct vnode *vnode = &shard->vnodes[told->vnode];
    if (accept && !vnode->in_late && vnode->copy_complete && follows(shard, at, told->vnode))
        firsts_take(shard, told->vnode, told, &vnode->in_term, false);
    else if (vnode->role == ROLE_RECOVERING && !vnode->catching_up)
        firsts_take(shard, told->vnode, told, &vnode->state, true);
}

static void put_sync(struct shard *shard, uint16_t at, enum peer_record_type type, uint32_t number,
                     uint32_t sync, struct effects *effects)
{
    struct peer_vnode entry = vnodes_entry(shard, number);
    entry.sync = sync;
    peers_put_vnode(shard, at, type, &entry, effects);
}

void stream_tell_held(struct shard *shard, uint16_t at, uint32_t number, uint32_t sync,
                      uint64_t seq, struct effects *effects)
{
    struct peer_vnode entry = vnodes_entry(shard, number);
    entry.sync = sync;
    entry.seq = seq;
    peers_put_vnode(shard, at, PEER_HELD, &entry, effects);
}

void stream_tell_lack(struct shard *shard, uint16_t at, uint32_t number, struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const uint32_t sync = vnode->in_from == at ? vnode->in_sync : 0; /* 0: whatever it sends */
    put_sync(shard, at, PEER_LACK, number, sync, effects);
}

/* STREAMIN-2: whether the mark claims less than the state that is pulled: it is of a copy that its
 * sender began when it still decided, and that was long under way. Nor is a state taken of a term
 * that is not known here, whoever claims it: what is opened on it would lie below (VNODES-1). */
static bool below_caught_up(const struct vnode *vnode, const struct peer_vnode *entry)
{
    const int order = term_compare(&entry->state, &vnode->best_state);
    return order < 0 || (order == 0 && entry->seq < vnode->best_seq) ||
           term_compare(&entry->state, &vnode->term) > 0;
}

void stream_in_watermark(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                         struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (!vnodes_mine(shard, entry->vnode) || vnode->in_late)
        return;
    const bool followed = follows(shard, at, entry->vnode);
    const bool present = term_compare(&entry->state, &vnode->term) == 0;
    /* EXPOSURE-3: a leader whom this node had given up, and who lives, must not take the
     * acknowledgement of the frame for one of the mark. */
    const bool given_up = vnode->role == ROLE_RECOVERING && !followed && present;
    if (!given_up && (!followed || (vnode->role == ROLE_REPLICA && !present)))
        return;
    if (vnode->role == ROLE_RECOVERING && !given_up && below_caught_up(vnode, entry)) {
        if (++vnode->short_snapshots == VNODES_SHORT_SNAPSHOTS_MAX)
            vnodes_recover(shard, entry->vnode, vnode->fresh, effects);
        return; /* the one that was asked for comes behind it, or is asked for again */
    }
    if (!given_up && shard->now_ns < shard->full_until_ns && !vnode->copy_complete)
        return;                                                               /* STREAMIN-3 */
    if (given_up || !vnode->copy_complete || vnode->in_sync != entry->sync) { /* STREAM-4 */
        put_sync(shard, at, PEER_LACK, entry->vnode, entry->sync, effects);
        return;
    }
    end_catch_up(shard, entry->vnode);
    /* One that was repeated may come behind newer ones of the other channel. */
    const bool behind = term_compare(&entry->state, &vnode->state) == 0 &&
                        entry->seq < table_vnode_seq(shard->table, entry->vnode);
    if (!behind) {
        ASSERT(term_compare(&entry->state, &vnode->term) <= 0); /* SHARD-4 */
        const struct term was = vnode->state;
        const uint64_t was_seq = table_vnode_seq(shard->table, entry->vnode);
        vnode->state = entry->state; /* SHARD-4 */
        table_set_vnode_seq(shard->table, entry->vnode, entry->seq);
        if (vnodes_quorum(shard, entry->vnode) && term_compare(&was, &entry->state) != 0)
            firsts_marked(shard, entry->vnode, &was, was_seq, &entry->state, vnode->in_copy);
        vnode->holds_newer = false;
        if (!vnodes_quorum(shard, entry->vnode))
            merge_in_watermark(shard, entry->vnode, vnode->in_copy);
        end_copy(shard, entry->vnode);
    }
    if (vnodes_quorum(shard, entry->vnode))
        quorum_watermarked(shard, at, entry, effects);
    else if (entry->asks)
        put_sync(shard, at, PEER_HELD, entry->vnode, entry->sync, effects);
    if (vnode->role == ROLE_RECOVERING)
        vnodes_caught_up(shard, entry->vnode, effects);
}

void stream_in_change(struct shard *shard, uint16_t at, const struct peer_change *change,
                      struct effects *effects)
{
    struct peer_written written = change->term;
    written.term.writer = shard->peers[at]->node;
    stream_in_term(shard, at, &written, effects);
    stream_in_slot(shard, at, &change->slot);
    if (!change->marks)
        return;
    const struct peer_vnode entry = {
        .vnode = written.vnode,
        .role = ROLE_LEADING,
        .term = written.term,
        .state = written.term,
        .seq = change->seq,
        .sync = written.sync,
    };
    stream_in_watermark(shard, at, &entry, effects);
}
