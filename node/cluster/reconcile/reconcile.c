/* reconcile.c - the branch's part in merging after a split: the deposed side hands over its counts.
 *
 * merge.c tells the whole. A replica that follows a leader whose line its own state is not on has
 * a branch. It takes nothing of the leader's copy before the branch is merged:
 *
 *      REPLICA ---- GUARD of the leader: I am apart ----> successor set, copies refused
 *         ^                                                     | a moment later: a higher term
 *         |                                                     | may come from elsewhere
 *         |  MERGED: my state is none;                          v
 *         +--------- a copy is asked for <---- APART, DIVERGED*, DIVERGED_END (repeated)
 *
 * RECONCILE-1  What was counted here leaves the table, and its claim (state term, seq) falls, only
 *              after MERGED. A crash before that finds the branch on disk, and it is handed over
 *              again.
 * RECONCILE-2  After MERGED nothing is claimed: the slots soon are a mixture of the branch and the
 *              copy, which must not be taken for a branch again. That is written before any slot of
 *              the copy.
 * RECONCILE-3  A branch goes to one successor at a time, in sendings with names; a new leader or a
 *              break in the stream begins a new one. Half a sending harms nothing (MERGE-4).
 * RECONCILE-4  A node that is no replica any more keeps a vnode it was deposed from until it was
 *              heard.
 *
 * The states go the way on which a state is handed to one who recovers (stream.c, position 0).
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

#define RECONCILE_SETTLE_NS                                                                        \
    (20 * MS) /* so that of several new leaders the last one is the successor */
#define RECONCILE_AGAIN_NS (20 * MS)  /* DIVERGED_END is repeated until MERGED comes */
#define RECONCILE_ASK_NS   (100 * MS) /* a non-member asks whether it has a branch */
#define RECONCILE_TWIN_NS  (100 * MS) /* who did not repeat it for so long may be gone */
#define RECONCILE_KEEP_NS  (600000 * MS)

/* ---- to whom --------------------------------------------------------------------------------- */

bool reconcile_busy(const struct vnode *vnode)
{
    return vnode->merge.successor != PEER_NONE;
}

void reconcile_stop(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->merge.begun && vnode->role == ROLE_REPLICA)
        table_set_targets(
            shard->table, number,
            (uint8_t)(table_targets(shard->table, number) & TABLE_TARGET_BIT(TABLE_DISK)));
    vnode->merge.successor = PEER_NONE;
    vnode->merge.begun = false;
}

void reconcile_again(struct shard *shard, uint32_t number)
{
    struct merge_vnode *merge = &shard->vnodes[number].merge;
    merge->begun = false;
    merge->successor_ns = shard->now_ns;
}

void reconcile_in_lineage(struct shard *shard, uint16_t at, const struct peer_record *record)
{
    const uint32_t number = record->lineage.vnode;
    struct vnode *vnode = &shard->vnodes[number];
    struct merge_frame *frame = &shard->merge.frame;
    frame->lineage_set = true;
    frame->lineage_vnode = number;
    frame->lineage = record->lineage.lineage;
    if (!vnodes_mine(shard, number) || vnode->role != ROLE_REPLICA || vnode->hint != at ||
        vnode->in_late || vnode->term.writer != shard->peers[at]->node || reconcile_busy(vnode) ||
        term_compare(&vnode->state, &vnode->term) == 0 ||
        !lineage_apart(&frame->lineage, &vnode->state, table_vnode_seq(shard->table, number)))
        return;
    vnode->merge.successor = at;
    vnode->merge.begun = false;
    vnode->merge.successor_ns = shard->now_ns;
    vnode->copy_complete = false;
    vnodes_mark_active(shard, number);
}

const struct lineage *reconcile_lineage_of(const struct shard *shard, uint32_t number)
{
    static const struct lineage none;
    const struct merge_frame *frame = &shard->merge.frame;
    return frame->lineage_set && frame->lineage_vnode == number ? &frame->lineage : &none;
}

/* ---- the sending ----------------------------------------------------------------------------- */

static void begin(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(reconcile_busy(vnode) && vnode->role == ROLE_REPLICA); /* RECONCILE-3 */
    vnode->merge.begun = true;
    vnode->snapshot_to = PEER_NONE;
    table_set_targets(
        shard->table, number,
        (uint8_t)((table_targets(shard->table, number) & TABLE_TARGET_BIT(TABLE_DISK)) |
                  TABLE_TARGET_BIT(TABLE_REPLICA_1)));
    stream_restart_link(shard, number, 0);
}

void reconcile_tick(struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (!reconcile_busy(vnode))
        return;
    const struct replica_link *link = &vnode->links[0];
    if (!vnode->merge.begun && shard->now_ns - vnode->merge.successor_ns >= RECONCILE_SETTLE_NS)
        begin(shard, number);
    else if (vnode->merge.begun && (vnode->watermarks_due & 1u) == 0 &&
             shard->now_ns - link->mark_ns >= RECONCILE_AGAIN_NS)
        stream_watermark_again(shard, number, 0);
}

void reconcile_put_apart(const struct shard *shard, uint32_t number, struct bytes_writer *outbox)
{
    const struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->merge.begun); /* MERGE-9 */
    const struct peer_apart apart = {
        .vnode = number,
        .to = vnode->term,
        .state = vnode->state,
        .seq = table_vnode_seq(shard->table, number),
        .sync = vnode->links[0].sync,
        .lineage = vnode->merge.lineage,
    };
    peer_put_apart(outbox, &apart);
}

void reconcile_merged(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                      struct effects *effects)
{
    const uint32_t number = entry->vnode;
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role != ROLE_REPLICA || vnode->merge.successor != at || !vnode->merge.begun ||
        vnode->links[0].sync != entry->sync)
        return;
    if (entry->asks) {
        reconcile_again(shard, number);
        return;
    }
    reconcile_stop(shard, number);
    vnode->merge.deposed = false;
    memset(&vnode->state, 0, sizeof vnode->state); /* RECONCILE-2 */
    table_set_vnode_seq(shard->table, number, 0);
    vnode->claim_fell = true;
    vnode->claim_out = false;
    vnode->marked = false;
    merge_forget(shard, number);
    shard->stats.handed_over++;
    stream_tell_lack(shard, at, number, effects);
    vnodes_mark_active(shard, number);
}

/* ---- non-members ----------------------------------------------------------------------------- */

void reconcile_deposed(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    const bool passed = vnode->role == ROLE_TRANSFERRING &&
                        shard->peers[vnode->transfer_to]->node == vnode->term.writer;
    if ((vnode->role == ROLE_LEADING || vnode->role == ROLE_TRANSFERRING) && !passed)
        vnode->merge.deposed = true;
}

void reconcile_told(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    const bool decides = entry->role == ROLE_LEADING || entry->role == ROLE_TRANSFERRING;
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && decides && !reconcile_busy(vnode) &&
        term_compare(&entry->term, &vnode->term) == 0)
        vnode->merge.deposed = false;
}

bool reconcile_keeps(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (!vnode->merge.deposed || shard->now_ns - vnode->since_ns > RECONCILE_KEEP_NS)
        return false;
    if (reconcile_busy(vnode) || vnode->hint == PEER_NONE ||
        shard->now_ns - vnode->asked_ns < RECONCILE_ASK_NS)
        return true;
    const struct peer_vnode entry = vnodes_entry(shard, number);
    vnode->asked_ns = shard->now_ns;
    peers_put_vnode(shard, vnode->hint, PEER_QUERY, &entry, effects);
    return true;
}

/* ---- as the successor
 * ----------------------------------------------------------------------------- */

static bool was_refused(const struct merge_vnode *merge, uint16_t at, uint32_t sync)
{
    for (uint32_t i = 0; i < MERGE_REFUSED_MAX; i++)
        if (merge->refused[i].sync == sync && merge->refused[i].from == at)
            return sync != 0;
    return false;
}

bool reconcile_refuse(struct shard *shard, uint32_t number)
{
    const struct merge_frame *frame = &shard->merge.frame;
    struct merge_vnode *merge = &shard->vnodes[number].merge;
    ASSERT(frame->from < shard->peer_count &&
           merge->refused_next < MERGE_REFUSED_MAX); /* MERGE-9 */
    uint32_t at = 0;
    if (was_refused(merge, frame->from, frame->apart.sync))
        return false;
    while (at < MERGE_REFUSED_MAX &&
           (merge->refused[at].sync == 0 || merge->refused[at].from != frame->from))
        at++;
    if (at == MERGE_REFUSED_MAX) {
        at = merge->refused_next;
        merge->refused_next = (uint8_t)((at + 1) % MERGE_REFUSED_MAX);
    }
    merge->refused[at] = (struct merge_refused){.from = frame->from, .sync = frame->apart.sync};
    return true;
}

void reconcile_in_apart(struct shard *shard, uint16_t at, const struct peer_record *record)
{
    ASSERT(at < shard->peer_count);
    const struct peer_apart *apart = &record->apart;
    const struct vnode *vnode = &shard->vnodes[apart->vnode];
    struct merge_frame *frame = &shard->merge.frame;
    frame->apart = *apart;
    frame->from = at;
    frame->taking = vnodes_mine(shard, apart->vnode) && vnode->role == ROLE_LEADING &&
                    term_compare(&apart->to, &vnode->term) == 0;
    if (!frame->taking)
        (void)reconcile_refuse(shard, apart->vnode);
    else
        frame->nothing = !lineage_apart(&vnode->merge.lineage, &apart->state, apart->seq);
}

/* Whether the branch still waits for MERGED, as far as is known. */
static bool waits(const struct shard *shard, const struct merge_end *end)
{
    return end->sync != 0 && !end->told && shard->now_ns - end->again_ns < RECONCILE_TWIN_NS &&
           !peers_silent(shard, end->from);
}

/* The note of the newest sending of `at`, or one to be written over; NULL if all are needed. */
static struct merge_end *end_of(const struct shard *shard, struct merge_vnode *merge, uint16_t at)
{
    struct merge_end *unused = NULL;
    for (uint32_t i = 0; i < MERGE_ENDS_MAX; i++) {
        if (merge->ends[i].sync != 0 && merge->ends[i].from == at)
            return &merge->ends[i];
        if (!waits(shard, &merge->ends[i]))
            unused = &merge->ends[i];
    }
    return unused;
}

/* Whether another replica holds what was merged. */
static bool held_elsewhere(const struct shard *shard, uint32_t number, const struct merge_end *end)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer != end->from && vnode->links[i].confirmed &&
            stream_held_seq(shard, number, i) >= end->seq)
            return true;
    return false;
}

/* Whether what was merged is on disk, or there is none. */
static bool is_written(const struct shard *shard, const struct merge_end *end)
{
    return writeback_clean(shard) || shard->writeback.dirty_ns > end->ended_ns;
}

/* Whether somebody else waits with the same branch, of which `end` holds no more than it. */
static bool has_twin(const struct shard *shard, uint32_t number, const struct merge_end *end)
{
    const struct merge_vnode *merge = &shard->vnodes[number].merge;
    for (uint32_t i = 0; i < MERGE_ENDS_MAX; i++) {
        const struct merge_end *twin = &merge->ends[i];
        if (waits(shard, twin) && twin->from != end->from && twin->line == end->line &&
            twin->branch_seq >= end->branch_seq)
            return true;
    }
    return false;
}

static void put_merged(struct shard *shard, uint16_t at, const struct peer_vnode *entry, bool again,
                       struct effects *effects)
{
    struct peer_vnode reply = vnodes_entry(shard, entry->vnode);
    reply.sync = entry->sync;
    reply.asks = again;
    peers_put_vnode(shard, at, PEER_MERGED, &reply, effects);
}

void reconcile_in_end(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                      struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    ASSERT(!vnodes_quorum(shard, entry->vnode)); /* QUORUM-12 */
    struct merge_vnode *merge = &vnode->merge;
    if (!vnodes_mine(shard, entry->vnode) || vnode->role != ROLE_LEADING ||
        term_compare(&entry->term, &vnode->term) != 0)
        return;
    if (shard->merge.wait_count > 0 || shard->merge.bases.waiting > 0)
        return; /* it is asked again, and another sending finds in memory what this one did not */
    if (was_refused(merge, at, entry->sync)) {
        put_merged(shard, at, entry, true, effects);
        return;
    }
    struct merge_end *end = end_of(shard, merge, at);
    if (end == NULL)
        return; /* it is asked again */
    if (end->sync != entry->sync || end->from != at) {
        *end = (struct merge_end){
            .from = at,
            .sync = entry->sync,
            .line = merge_line(&entry->state),
            .branch_seq = entry->seq,
            .seq = table_vnode_seq(shard->table, entry->vnode),
            .ended_ns = shard->now_ns,
        };
        merge->refusals = 0;
        shard->stats.merges++;
        shard->writeback.next_ns = shard->now_ns; /* somebody waits for it */
    }
    end->again_ns = shard->now_ns;
    end->told = end->told || held_elsewhere(shard, entry->vnode, end) || is_written(shard, end) ||
                has_twin(shard, entry->vnode, end); /* MERGE-6 */
    if (end->told)
        put_merged(shard, at, entry, false, effects);
}
