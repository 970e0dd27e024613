/* stream.c - replication: dirty slots to the other replicas, and what they acknowledge.
 *
 * What a replica lacks is a set of dirty bits on the slots of a vnode plus a cursor in the table's
 * ring of changes (node/limit/table.h), never a queue of records. A slot is sent whole, as it is
 * when it is sent, so a slow replica costs nothing and skips what was overwritten meanwhile.
 *
 *   decider                                       replica
 *     TERM v sync | SLOT | SLOT ...        ---->    import
 *     MARK v sync seq                      ---->    (state term, seq) = (term, seq)
 *     frame n of stream s                  <----    ACK s n: it came
 *                                          <----    HELD: the mark was taken, if it asked
 *                                          <----    LACK: some of this sync was refused
 *
 * Frames of one stream are taken in order, exactly once. A gap, a restart or a long silence begins
 * a new stream: every vnode with slots in frames that were not acknowledged is marked dirty as a
 * whole for that replica. So a lost frame costs work, never a count.
 *
 * That a frame came does not say that the replica took it: it may not have known yet that it is
 * one, or whom to follow. So each complete copy of a vnode has a name, its *sync*, that every
 * frame repeats. A replica that refused anything of a sync takes no mark of it, and says LACK; then
 * the copy begins anew under a new name. A link counts as confirmed only when the replica has said
 * HELD.
 *
 * R1  Between TERM and MARK a replica holds parts of a newer state than it claims, never less.
 * R2  A MARK is sent only when nothing of the vnode is dirty for that replica.
 * R3  A link is synced iff it is confirmed, and its newest MARK is acknowledged and states the
 *     vnode's present seq.
 * R4  A replica takes a MARK only if it took all slots of its sync.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

static unsigned target_of(uint32_t link)
{
    return link + 1;
}

static bool deciding(const struct vnode *vnode)
{
    return vnode->role == ROLE_DECIDING || vnode->role == ROLE_PASSING;
}

/* The peer to which slots of `vnode` go at position `link`, PEER_NONE if to nobody. */
static uint16_t receiver_of(const struct vnode *vnode, uint32_t link)
{
    if (deciding(vnode))
        return link < vnode->link_count ? vnode->links[link].peer : PEER_NONE;
    if (link != 0)
        return PEER_NONE;
    /* A branch goes to its heir, or a state to one who recovers. */
    return vnode->merge.begun ? vnode->merge.heir : vnode->puller;
}

static bool is_branch(const struct vnode *vnode)
{
    return !deciding(vnode) && vnode->merge.begun;
}

static uint32_t new_sync(struct shard *shard)
{
    if (++shard->sync == 0)
        shard->sync = 1;
    return shard->sync;
}

static bool has_room(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    return !peer->silent && peer->in_view && peer->heard_ns != 0 &&
           peer->out_seq - peer->out_acked < SHARD_FRAMES_IN_FLIGHT;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Makes the frame being filled part of the stream. */
static struct bytes_writer *stream_frame(struct shard *shard, uint16_t at, size_t len,
                                         struct effects *effects)
{
    struct peer *peer = shard->peers[at];
    struct bytes_writer *outbox =
        peers_outbox(shard, at, len + (size_t)2 * PEER_RECORD_MAX, effects);
    if (!peer->outbox_streams) {
        if (peer->out_seq == peer->out_acked)
            peer->out_wait_ns = shard->now_ns;
        peer->out_seq++;
        peer->outbox_streams = true;
        peer_put_stream(outbox, peer->out_stream, peer->out_seq, peer->boot);
    }
    return outbox;
}

static void put_term(struct shard *shard, uint16_t at, uint32_t number, uint32_t link,
                     struct bytes_writer *outbox)
{
    struct peer *peer = shard->peers[at];
    const struct vnode *vnode = &shard->vnodes[number];
    if (peer->frame_stamp[number] == peer->frame)
        return;
    peer->frame_stamp[number] = peer->frame;
    if (is_branch(vnode)) {
        diverge_put_apart(shard, number, outbox);
        return;
    }
    peer_put_term(outbox, number, deciding(vnode) ? &vnode->term : &vnode->state,
                  vnode->links[link].sync, vnode->links[link].copy);
    merge_put_guard(shard, number, outbox);
}

/* Notes that `link` of the vnode owes a MARK. */
static void owe_mark(struct shard *shard, uint32_t number, uint32_t link)
{
    struct vnode *vnode = &shard->vnodes[number];
    vnode->links[link].mark_due = true;
    if (vnode->mark_listed)
        return;
    vnode->mark_listed = true;
    shard->marks[shard->mark_count++] = number;
}

bool stream_has_receiver(const struct shard *shard, uint32_t number, uint32_t link)
{
    return receiver_of(&shard->vnodes[number], link) != PEER_NONE;
}

bool stream_hears(const struct shard *shard, uint32_t number, uint32_t link)
{
    const uint16_t at = receiver_of(&shard->vnodes[number], link);
    return at != PEER_NONE && !shard->peers[at]->silent && shard->peers[at]->in_view;
}

bool stream_has_room(const struct shard *shard, uint32_t number, uint32_t link)
{
    return has_room(shard, receiver_of(&shard->vnodes[number], link));
}

bool stream_marking(const struct shard *shard, uint32_t number, uint32_t link)
{
    return table_vnode_marked(shard->table, number, target_of(link));
}

void stream_put_state(struct shard *shard, uint32_t number, uint32_t link, struct hash128 id,
                      const uint8_t *state, size_t len, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const uint16_t at = receiver_of(vnode, link);
    const size_t room = len + merge_side_room(shard, number, id);
    struct bytes_writer *outbox = stream_frame(shard, at, room, effects);
    put_term(shard, at, number, link, outbox);
    merge_put_side(shard, number, id, outbox);
    if (is_branch(vnode))
        peer_put_diverged(outbox, number, id, state, (uint32_t)len);
    else
        peer_put_slot(outbox, number, id, state, (uint32_t)len);
    vnode->links[link].sent_frame = shard->peers[at]->out_seq;
    owe_mark(shard, number, link);
    shard->stats.slots_replicated++;
}

static void send_slot(struct shard *shard, uint32_t slot, uint32_t link, struct effects *effects)
{
    const uint32_t number = table_slot_vnode(shard->table, slot);
    struct vnode *vnode = &shard->vnodes[number];
    const uint16_t at = receiver_of(vnode, link);
    if (at == PEER_NONE) {
        table_clear_dirty(shard->table, slot, target_of(link));
        return;
    }
    if (!has_room(shard, at)) {
        shard->peers[at]->out_deferred = true;
        table_defer(shard->table, slot, target_of(link));
        return;
    }
    const int len = table_export(shard->table, slot, shard->state, sizeof shard->state);
    ASSERT(len >= 0);
    stream_put_state(shard, number, link, table_slot_id(shard->table, slot), shard->state,
                     (size_t)len, effects);
    table_clear_dirty(shard->table, slot, target_of(link));
}

/* R2: whether the table has nothing more of the vnode for that position. */
static bool drained(const struct shard *shard, uint32_t number, uint32_t link)
{
    const unsigned target = target_of(link);
    return !shard->vnodes[number].links[link].copy_due && table_target_idle(shard->table, target) &&
           !table_vnode_marked(shard->table, number, target) &&
           !table_vnode_behind(shard->table, number, target);
}

/* Before the newest mark is overwritten: is it, or the sample, acknowledged? */
static void take_sample(const struct shard *shard, struct replica_link *link, uint16_t at)
{
    const uint64_t acked = shard->peers[at]->out_acked;
    if (link->mark_frame != 0 && link->mark_frame <= acked)
        link->held_seq = link->mark_seq;
    else if (link->sample_frame != 0 && link->sample_frame <= acked)
        link->held_seq = link->sample_seq;
    else if (link->sample_frame != 0)
        return;
    link->sample_frame = link->mark_frame <= acked ? 0 : link->mark_frame;
    link->sample_seq = link->mark_seq;
}

static void put_mark(struct shard *shard, uint32_t number, uint32_t link, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct replica_link *state = &vnode->links[link];
    const uint16_t at = receiver_of(vnode, link);
    struct bytes_writer *outbox = stream_frame(shard, at, 0, effects);
    put_term(shard, at, number, link, outbox);
    const struct peer_vnode entry = {
        .vnode = number,
        .role = vnode->role,
        .term = vnode->term,
        .state = deciding(vnode) ? vnode->term : vnode->state,
        .seq = table_vnode_seq(shard->table, number),
        .sync = state->sync,
        .asks = !state->confirmed,
    };
    if (!is_branch(vnode))
        merge_put_guard(shard, number, outbox);
    peer_put_vnode(outbox, is_branch(vnode) ? PEER_DIVERGED_END : PEER_MARK, &entry);
    take_sample(shard, state, at);
    state->mark_due = false;
    state->mark_ns = shard->now_ns;
    state->mark_seq = entry.seq;
    state->mark_frame = shard->peers[at]->out_seq;
    state->sent_frame = state->mark_frame;
}

/* Lets links whose peer has room again go on from where they were deferred. */
static void resume_links(struct shard *shard)
{
    if (!shard->resume_due)
        return;
    shard->resume_due = false;
    for (uint16_t at = 0; at < shard->peer_count; at++)
        if (has_room(shard, at))
            shard->peers[at]->out_deferred = false;
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        const struct vnode *vnode = &shard->vnodes[number];
        for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++) {
            const uint16_t at = receiver_of(vnode, link);
            if (at != PEER_NONE && table_vnode_behind(shard->table, number, target_of(link)) &&
                has_room(shard, at))
                table_resume_vnode(shard->table, number, target_of(link));
        }
    }
}

/* Puts the marks that can be put; true if the vnode still owes one. */
static bool put_marks_of(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    bool owes = false;
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++) {
        struct replica_link *state = &vnode->links[link];
        const uint16_t at = receiver_of(vnode, link);
        if (!state->mark_due)
            continue;
        if (at == PEER_NONE)
            state->mark_due = false;
        else if (has_room(shard, at) && drained(shard, number, link))
            put_mark(shard, number, link, effects);
        else
            owes = true;
    }
    return owes;
}

static void put_marks(struct shard *shard, struct effects *effects)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < shard->mark_count; i++) {
        const uint32_t number = shard->marks[i];
        if (put_marks_of(shard, number, effects))
            shard->marks[kept++] = number;
        else
            shard->vnodes[number].mark_listed = false;
    }
    shard->mark_count = kept;
}

/* Sends what is dirty at one position; a bounded amount, including a bounded piece of a sweep. */
static void send_link(struct shard *shard, uint32_t link, struct effects *effects)
{
    enum { SLOTS_PER_TURN = 65536, SWEEPS_PER_TURN = 64 };
    uint32_t sweeps = 0;
    for (uint32_t sent = 0; sent < SLOTS_PER_TURN;) {
        const uint32_t slot = table_next_dirty(shard->table, target_of(link));
        if (slot != TABLE_NONE) {
            send_slot(shard, slot, link, effects);
            sent++;
        } else if (table_target_idle(shard->table, target_of(link)) ||
                   ++sweeps == SWEEPS_PER_TURN) {
            return;
        }
    }
}

void stream_send(struct shard *shard, struct effects *effects)
{
    resume_links(shard);
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        send_link(shard, link, effects);
    put_marks(shard, effects);
}

bool stream_drain(struct shard *shard, uint32_t number, uint32_t link, struct effects *effects)
{
    const uint16_t at = receiver_of(&shard->vnodes[number], link);
    if (at == PEER_NONE || !has_room(shard, at))
        return false;
    send_link(shard, link, effects);
    if (!has_room(shard, at) || !drained(shard, number, link))
        return false;
    put_mark(shard, number, link, effects);
    return true;
}

void stream_owe_mark(struct shard *shard, uint32_t number, uint32_t link)
{
    struct replica_link *state = &shard->vnodes[number].links[link];
    state->confirmed = false;
    state->mark_frame = 0;
    state->sample_frame = 0;
    state->held_seq = 0;
    state->sync = new_sync(shard);
    state->copy = false;
    vnodes_stir(shard, number);
    owe_mark(shard, number, link);
}

void stream_restart_link(struct shard *shard, uint32_t number, uint32_t link)
{
    table_mark_vnode(shard->table, number, target_of(link));
    copy_restarted(shard, number, link);
    stream_owe_mark(shard, number, link);
    shard->vnodes[number].links[link].copy = true;
}

void stream_mark_again(struct shard *shard, uint32_t number, uint32_t link)
{
    owe_mark(shard, number, link);
}

/* Frame numbers of a stream that ends mean nothing in the next; what they proved stays. */
static void forget_frames(struct replica_link *link, uint64_t acked)
{
    if (link->mark_frame != 0 && link->mark_frame <= acked)
        link->held_seq = link->mark_seq;
    link->mark_frame = 0;
    link->sample_frame = 0;
}

void stream_restart(struct shard *shard, uint16_t at)
{
    struct peer *peer = shard->peers[at];
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        const struct vnode *vnode = &shard->vnodes[number];
        for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++) {
            if (receiver_of(vnode, link) == at && vnode->links[link].sent_frame > peer->out_acked)
                stream_restart_link(shard, number, link);
        }
    }
    for (uint32_t number = 0; number < shard->options.vnodes; number++)
        for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
            if (receiver_of(&shard->vnodes[number], link) == at) {
                shard->vnodes[number].links[link].sent_frame = 0;
                forget_frames(&shard->vnodes[number].links[link], peer->out_acked);
            }
    peer->out_stream++;
    peer->out_seq = 0;
    peer->out_acked = 0;
    shard->resume_due = true;
    shard->stats.resyncs++;
}

bool stream_synced(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *state = &vnode->links[link];
    return state->confirmed && !state->mark_due && state->peer != PEER_NONE &&
           state->mark_frame <= shard->peers[state->peer]->out_acked &&
           state->mark_seq == table_vnode_seq(shard->table, number);
}

static int link_to(const struct vnode *vnode, uint16_t at)
{
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        if (receiver_of(vnode, link) == at)
            return (int)link;
    return -1;
}

void stream_held(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    const int link = link_to(vnode, at);
    if (link < 0 || !deciding(vnode) || vnode->links[link].sync != entry->sync)
        return;
    vnode->links[link].confirmed = true;
    if (vnode->links[link].held_seq < entry->seq)
        vnode->links[link].held_seq = entry->seq;
}

void stream_lacks(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    const int link = link_to(vnode, at);
    if (link >= 0 && (entry->sync == vnode->links[link].sync ||
                      (entry->sync == 0 && vnode->links[link].confirmed)))
        stream_restart_link(shard, entry->vnode, (uint32_t)link);
}

void stream_ask_again(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t link = 0; link < vnode->link_count; link++) {
        const struct replica_link *state = &vnode->links[link];
        if (!state->confirmed && !state->mark_due && state->peer != PEER_NONE &&
            shard->now_ns - state->mark_ns > SHARD_RESYNC_NS && has_room(shard, state->peer))
            owe_mark(shard, number, link);
    }
}

uint64_t stream_held_seq(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct replica_link *state = &shard->vnodes[number].links[link];
    if (!state->confirmed || state->peer == PEER_NONE)
        return 0;
    const uint64_t acked = shard->peers[state->peer]->out_acked;
    if (state->mark_frame != 0 && state->mark_frame <= acked)
        return state->mark_seq;
    if (state->sample_frame != 0 && state->sample_frame <= acked)
        return state->sample_seq;
    return state->held_seq;
}

void stream_acked(struct shard *shard, uint16_t at, uint64_t stream, uint64_t seq, bool resync)
{
    struct peer *peer = shard->peers[at];
    if (stream != peer->out_stream || seq > peer->out_seq)
        return;
    if (seq > peer->out_acked) {
        peer->out_acked = seq;
        peer->out_wait_ns = shard->now_ns;
        shard->resume_due = shard->resume_due || peer->out_deferred;
    }
    if (resync)
        stream_restart(shard, at);
}

void stream_tick(struct shard *shard)
{
    for (uint16_t i = 0; i < shard->peer_count; i++) {
        const struct peer *peer = shard->peers[i];
        if (peer->out_seq > peer->out_acked && !peer->silent &&
            shard->now_ns - peer->out_wait_ns > SHARD_RESYNC_NS)
            stream_restart(shard, i);
    }
}
