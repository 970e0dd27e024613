/* vnodes.c - roles and terms: who decides for each vnode, and how that changes hands.
 *
 *                 view lists us                    all live replicas reported,
 *     ABSENT ------------------------> RECOVERING  the best state is held here,
 *        ^                             |   ^   |   nobody of higher rank lives
 *        | view no longer              |   |   +------------------------> LEADING
 *        | lists us      OPENED or     |   | the leader is silent         |    |
 *        |               REPORT of a   v   | and we are first              |    | a preferred
 *        +--------------- leader --> REPLICA <-- newer term seen ---------+    | replica is synced
 *                                      ^                                        v
 *                                      +---------- OPENED by the receiver -- TRANSFERRING
 *
 * RECOVERING asks every other replica what it holds - (state term, sequence) - and takes the
 * highest, pulling it if it is elsewhere; only then is a new term opened. It serves a start, a
 * take-over after a leader's silence, and a pass that got lost, by one mechanism.
 *
 * VNODES-1   A term is opened only by vnodes_open_term, above every term known (TERM-2).
 * VNODES-2   A replica takes over only if by its own evidence the leader and every replica of
 *            higher rank are gone.
 * VNODES-3   TRANSFER is sent after the receiver's WATERMARK in one stream, and taken only by a
 *            receiver that holds exactly the state it states. The sender decides nothing from
 *            before the WATERMARK on.
 * VNODES-4   The term number never repeats for one writer: its incarnation is part of it (TERM-3).
 * VNODES-5   Who asks what others hold, or tells a replica that follows it that it does not decide,
 *            decides no more. Its replica of the highest rank then recovers as well: the one that
 *            asks will wait for it.
 * VNODES-6   Who learns of a term of its own that it does not decide in (it restarted without its
 *            latest state) recovers, whatever its rank: the others follow it, and only it knows
 *            better.
 * VNODES-7   Only replicas keep terms apart; to others a term is a hint whom to ask. Who is told by
 *            the writer of a term that it knows of an older one alone (it lost the newer in a
 *            crash) believes it if it is no replica, and tells it the newer one if it is.
 * VNODES-8   A vnode for which a tick would have something to do (vnodes_quiescent says no) is in
 *            shard.active_vnodes; so a tick of an idle shard looks at none. Whatever may end calm
 *            marks active.
 * VNODES-9   Who recovers and finds the best state on another line than its own (merge.c) does not
 *            take it, for its own counts would go, but yields: the others do not wait for it, one
 *            of them takes over and merges what it has.
 * VNODES-10  Who has passed on all that it decided, because it stops, takes nothing over any more:
 *            nobody listens to the others in its name, so that they are silent says nothing. What
 *            it would open would be the highest term when it comes back. Nor does it take requests:
 *            while they came in it would always owe one an undo, and never stop.
 * VNODES-11  Who does not hear the leader of the newest term opens none while a living replica
 *            hears it that follows it: a link that loses what goes one way makes no second leader
 *            beside one that a common neighbour can reach.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/vnodes.h"

void vnodes_set_role(struct shard *shard, struct vnode *vnode, enum peer_role role)
{
    const uint32_t number = (uint32_t)(vnode - shard->vnodes);
    uint32_t *roles = vnodes_quorum(shard, number) ? shard->quorum.roles : shard->roles;
    ASSERT(role < ROLE_END && roles[vnode->role] > 0); /* PARTITION-2 */
    roles[vnode->role]--;
    roles[role]++;
    if (role != ROLE_LEADING && role != ROLE_TRANSFERRING)
        exposure_stepped_down(shard, number);
    vnode->role = (uint8_t)role;
    if (role != ROLE_RECOVERING)
        vnode->yielded = 0;
    /* STREAMIN-1: what a copy left over, or one that is broken off here would have cleared, stays
     * until another copy is whole, if the same leader is followed again. */
    vnode->copy_complete = vnode->copy_complete && !vnode->has_stale_slots && !vnode->in_copy;
    stream_in_broken(shard, (uint32_t)(vnode - shard->vnodes));
    vnode->has_stale_slots = false;
    vnode->since_ns = shard->now_ns;
    vnode->catching_up = false;
    vnode->short_snapshots = 0;
    shard->reroute_due = true;
    vnodes_mark_active(shard, number);
}

/* ---- becoming a replica ---------------------------------------------------------------------- */

void vnodes_become_replica(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnodes_mine(shard, number));
    if (vnodes_quorum(shard, number))
        quorum_deposed(shard, number);
    if (vnode->role == ROLE_LEADING || vnode->role == ROLE_TRANSFERRING)
        shard->stats.stepped_down++;
    vnodes_set_role(shard, vnode, ROLE_REPLICA);
    reconcile_stop(shard, number);
    vnode->snapshot_to = PEER_NONE;
    table_set_targets(shard->table, number, vnodes_disk_mask(shard));
}

bool vnodes_adopt(struct shard *shard, uint32_t number, const struct term *term)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (term_compare(term, &vnode->term) <= 0)
        return false;
    vnode->term = *term;
    vnode->copy_complete = false; /* of the new leader's copy nothing was taken yet */
    if (!vnodes_quorum(shard, number)) {
        reconcile_deposed(shard, number);
        reconcile_stop(shard, number);
    }
    const bool own = term->writer == shard->options.node_id && vnodes_mine(shard, number);
    vnode->hint = own ? PEER_NONE : peers_for(shard, term->writer, number);
    const bool quorum = vnodes_quorum(shard, number);
    /* Of an own term, of the process before, somebody else has the state: a leader asks for it
     * (VNODES-6), and who recovers is about to. */
    const bool asks = own && !quorum && vnode->role == ROLE_RECOVERING;
    if (!asks && vnode->role != ROLE_ABSENT && vnode->role != ROLE_REPLICA)
        vnodes_become_replica(shard, number);
    if (quorum)
        quorum_adopted(shard, number);
    shard->reroute_due = true;
    vnodes_mark_active(shard, number);
    return true;
}

void vnodes_moved(struct shard *shard, uint16_t at, uint32_t number, const struct term *term,
                  struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_quorum(shard, number) && vnode->role != ROLE_ABSENT &&
        term_compare(term, &vnode->term) > 0) {
        quorum_heard(shard, at, number, term, false);
        if (vnode->hint == at)
            quorum_lost(shard, number);
        return;
    }
    if (vnodes_adopt(shard, number, term) || vnode->hint != at ||
        term_compare(term, &vnode->term) == 0)
        return;
    if (vnode->role == ROLE_ABSENT) { /* VNODES-7, but for what a disk holds here: VNODES-1 */
        if (term_compare(term, &vnode->state) >= 0)
            vnode->term = *term;
        vnode->hint = peers_for(shard, term->writer, number);
        shard->reroute_due = true;
    } else {
        const struct peer_vnode entry = vnodes_entry(shard, number);
        peers_put_vnode(shard, at, PEER_STALE, &entry, effects);
    }
}

/* ---- recovering ------------------------------------------------------------------------------ */

void vnodes_ask(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct peer_vnode entry = vnodes_entry(shard, number);
    if (vnodes_quorum(shard, number)) {
        quorum_ask(shard, number, effects);
        return;
    }
    entry.asks = vnode->yields;
    vnode->asked_ns = shard->now_ns;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint16_t at = vnode->links[i].peer;
        if (at != PEER_NONE && !peers_silent(shard, at))
            peers_put_vnode(shard, at, PEER_QUERY, &entry, effects);
    }
    if (vnode->catching_up && shard->now_ns - vnode->in_ns > VNODES_CATCH_UP_AGAIN_MS * MS)
        peers_put_vnode(shard, vnode->best, PEER_PULL, &entry, effects); /* it may be lost */
}

void vnodes_recover(struct shard *shard, uint32_t number, bool fresh, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnodes_mine(shard, number)); /* PARTITION-2 */
    if (vnodes_quorum(shard, number))
        quorum_recovering(shard, number);
    vnodes_set_role(shard, vnode, ROLE_RECOVERING);
    ASSERT(vnode->role == ROLE_RECOVERING && !vnode->catching_up);
    vnode->fresh = fresh;
    vnode->reported = 0;
    vnode->equal = 0;
    vnode->same_lineage = 0;
    vnode->follows_live_leader = 0;
    vnode->yields = false;
    reconcile_stop(shard, number);
    vnode->best = PEER_NONE;
    vnode->best_state = vnode->state;
    vnode->best_seq = table_vnode_seq(shard->table, number);
    vnode->best_holds_newer = vnode->holds_newer;
    vnode->snapshot_to = PEER_NONE;
    table_set_targets(shard->table, number, vnodes_disk_mask(shard));
    vnodes_ask(shard, number, effects);
}

void vnodes_open_term(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const bool replaces = !term_is_none(&vnode->term) && !vnode->fresh;
    lessor_opening(shard, number);
    vnode->base_state = vnode->state;
    vnode->base_seq = table_vnode_seq(shard->table, number);
    if (!vnodes_quorum(shard, number)) { /* else it is the ballot that was promised */
        merge_cut(shard, number);
        vnode->term = vnodes_term_above(shard, &vnode->term);
    }
    ASSERT(vnode->term.writer == shard->options.node_id);
    ASSERT(term_compare(&vnode->base_state, &vnode->term) < 0); /* VNODES-1 */
    if (term_is_none(&vnode->line_of) || term_compare(&vnode->line_of, &vnode->base_state) != 0)
        vnode->line = vnode->term;
    vnode->line_of = vnode->term;
    firsts_opened(shard, number, &vnode->base_state, vnode->base_seq, &vnode->term);
    reserve_opened(&shard->reserves, number, &vnode->base_state, vnode->base_seq, &vnode->term);
    vnode->state = vnode->term;
    vnode->hint = PEER_NONE;
    vnode->snapshot_to = PEER_NONE;
    exposure_opened(shard, number);
    vnodes_set_role(shard, vnode, ROLE_LEADING);
    table_set_targets(shard->table, number, vnodes_link_mask(shard, vnode));
    table_set_vnode_seq(shard->table, number, table_vnode_seq(shard->table, number) + 1);
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        if (vnode->links[i].node == 0)
            continue;
        if ((vnode->equal & 1u << i) != 0 && !vnode->holds_newer)
            stream_owe_watermark(shard, number, i);
        else
            stream_restart_link(shard, number, i);
    }
    vnode->holds_newer = false;
    if (vnodes_quorum(shard, number))
        quorum_opened(shard, number);
    struct peer_vnode entry = vnodes_entry(shard, number);
    entry.sync = (uint32_t)++shard->opened;
    ASSERT(shard->opened > 0 && vnode->base_seq < table_vnode_seq(shard->table, number));
    for (uint16_t i = 0; i < shard->peer_count; i++)
        if (shard->peers[i]->in_view)
            peers_put_vnode(shard, i, PEER_OPENED, &entry, effects);
    shard->late_until_ns = shard->now_ns + RETRY_KEEP_NS; /* DECIDE-9 */
    shard->stats.terms_opened++;
    shard->stats.takeovers += replaces;
}

uint32_t vnodes_announce(struct shard *shard, uint16_t at, struct effects *effects)
{
    ASSERT(at < shard->peer_count);
    uint32_t count = 0;
    for (uint32_t number = vnodes_first(shard); number < shard->vnode_end;
         number = vnodes_next(shard, number)) {
        if (shard->vnodes[number].role != ROLE_LEADING)
            continue;
        struct peer_vnode entry = vnodes_entry(shard, number);
        entry.sync = 0;
        peers_put_vnode(shard, at, PEER_OPENED, &entry, effects);
        count++;
    }
    return count;
}

/* Whether `link` need not be waited for any more. A replica that is heard is waited for as long as
 * it takes: it may hold a lease that this node's echoes renew, and decide (PEERS-3). Only one that
 * was never heard, because nothing tells yet that it exists, has but the time it takes to start. */
static bool accounted(const struct shard *shard, const struct vnode *vnode, uint32_t link)
{
    const uint16_t at = vnode->links[link].peer;
    if ((vnode->reported & 1u << link) != 0 || vnode->links[link].node == 0)
        return true;
    if (at != PEER_NONE)
        return peers_silent(shard, at);
    const int64_t patience_ns = vnode->fresh ? shard->options.grace_ns : SHARD_RECOVER_NS;
    return shard->now_ns - vnode->since_ns > patience_ns;
}

bool vnodes_held_back(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->follows_live_leader == 0)
        return false;
    const uint16_t writer = peers_for(shard, vnode->term.writer, number);
    if (writer != PEER_NONE && !peers_silent(shard, writer))
        return false; /* it is heard here, and said that it does not decide */
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if ((vnode->follows_live_leader & 1u << i) != 0 && vnode->links[i].peer != PEER_NONE &&
            !peers_silent(shard, vnode->links[i].peer))
            return true;
    return false;
}

void vnodes_finish_recovery(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_quorum(shard, number)) {
        quorum_recover(shard, number, effects);
        return;
    }
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (!accounted(shard, vnode, i))
            return;
    if (!vnodes_first_alive(shard, number) || vnodes_held_back(shard, number) ||
        !skew_stands(shard)) /* SKEW-3 */
        return;
    if (vnode->best == PEER_NONE) {
        vnodes_open_term(shard, number, effects);
        return;
    }
    if (peers_silent(shard, vnode->best)) {
        vnodes_recover(shard, number, vnode->fresh, effects);
        return;
    }
    if (vnode->catching_up || vnode->yields)
        return;
    if (vnode->best_diverged) { /* VNODES-9 */
        vnode->yields = true;
        vnodes_ask(shard, number, effects);
        return;
    }
    vnode->catching_up = true;
    vnode->in_ns = shard->now_ns;
    const struct peer_vnode entry = vnodes_entry(shard, number);
    peers_put_vnode(shard, vnode->best, PEER_PULL, &entry, effects);
}

/* VNODES-9: notes whether the peer wants to be waited for. */
static void note_yield(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint8_t bit = (uint8_t)(1u << i);
        if (vnode->links[i].peer == at)
            vnode->yielded = (uint8_t)(entry->asks ? vnode->yielded | bit : vnode->yielded & ~bit);
    }
}

void vnodes_query(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                  struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (vnodes_quorum(shard, entry->vnode)) {
        quorum_query(shard, at, entry, effects);
        return;
    }
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    note_yield(shard, at, entry);
    const bool leaderless = vnode->hint == at || vnode->hint == PEER_NONE ||
                            (entry->asks && peers_silent(shard, vnode->hint));
    if (vnode->role == ROLE_REPLICA && leaderless && entry->role == ROLE_RECOVERING &&
        vnodes_first_alive(shard, entry->vnode))
        vnodes_recover(shard, entry->vnode, false, effects); /* VNODES-5 */
    firsts_report(shard, at, entry, effects);
    merge_put_report(shard, at, entry->vnode, PEER_REPORT, effects);
}

static void note_report(struct shard *shard, uint32_t link, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    ASSERT(link < vnode->link_count && vnode->role == ROLE_RECOVERING);
    int order = term_compare(&entry->state, &vnode->best_state);
    if (order == 0)
        order = entry->seq < vnode->best_seq ? -1 : entry->seq > vnode->best_seq;
    vnode->reported |= (uint8_t)(1u << link);
    const bool bound = entry->role == ROLE_REPLICA && (entry->flags & ENTRY_BOUND) != 0 &&
                       term_compare(&entry->term, &vnode->term) == 0;
    vnode->follows_live_leader = (uint8_t)(bound ? vnode->follows_live_leader | 1u << link
                                                 : vnode->follows_live_leader & ~(1u << link));
    if (order > 0) {
        if (term_compare(&entry->state, &vnode->best_state) != 0)
            vnode->same_lineage = 0;
        vnode->best = vnode->links[link].peer;
        vnode->best_state = entry->state;
        vnode->best_seq = entry->seq;
        vnode->best_holds_newer = entry->holds_newer;
        vnode->best_diverged =
            term_compare(&entry->state, &vnode->state) != 0 &&
            lineage_apart(reconcile_lineage_of(shard, entry->vnode), &vnode->state,
                          table_vnode_seq(shard->table, entry->vnode));
        vnode->equal = 0;
    }
    ASSERT(term_compare(&vnode->best_state, &entry->state) >= 0);
    /* Who holds parts of a newer state beside the best one must be sent all; and so must everybody
     * if those that are pulled are such parts. */
    if (order >= 0 && !entry->holds_newer && !vnode->best_holds_newer)
        vnode->equal |= (uint8_t)(1u << link);
    if (term_is_none(&entry->state) || term_compare(&entry->state, &vnode->best_state) == 0)
        vnode->same_lineage |= (uint8_t)(1u << link);
}

/* What a node says of itself that does not decide, though others follow it (VNODES-5). */
static bool decides(uint8_t role)
{
    return role == ROLE_LEADING || role == ROLE_TRANSFERRING;
}

void vnodes_hear(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    if (vnodes_quorum(shard, entry->vnode))
        quorum_heard(shard, at, entry->vnode, &entry->term, (entry->flags & ENTRY_OPEN) != 0);
    else
        (void)vnodes_adopt(shard, entry->vnode, &entry->term);
}

void vnodes_lack(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                 struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[entry->vnode];
    vnodes_hear(shard, at, entry);
    if (decides(vnode->role) || vnode->snapshot_to == at) {
        stream_lacks(shard, at, entry);
        return;
    }
    if (vnodes_quorum(shard, entry->vnode)) {
        quorum_put_report(shard, at, entry->vnode, effects);
        return;
    }
    merge_put_report(shard, at, entry->vnode, PEER_REPORT, effects);
}

void vnodes_report(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                   struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (vnodes_quorum(shard, entry->vnode)) {
        quorum_report(shard, at, entry, effects);
        return;
    }
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && !decides(entry->role) &&
        vnodes_first_alive(shard, entry->vnode))
        vnodes_recover(shard, entry->vnode, false, effects);
    reconcile_told(shard, at, entry);
    if (vnode->role != ROLE_RECOVERING)
        return;
    if (decides(entry->role) && term_compare(&entry->term, &vnode->term) == 0) {
        vnode->hint = at;
        vnodes_become_replica(shard, entry->vnode);
        return;
    }
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer == at && !vnode->catching_up)
            note_report(shard, i, entry);
    vnodes_finish_recovery(shard, entry->vnode, effects);
}

void vnodes_catch_up(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                     struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (!vnodes_mine(shard, entry->vnode) ||
        (vnode->role != ROLE_REPLICA && vnode->role != ROLE_RECOVERING))
        return;
    if (vnodes_quorum(shard, entry->vnode) && term_compare(&entry->term, &vnode->term) != 0) {
        quorum_put_report(shard, at, entry->vnode, effects); /* a ballot that was outbid */
        return;
    }
    reconcile_stop(shard, entry->vnode);
    ASSERT(!reconcile_busy(vnode) && !vnode->merge.begun); /* RECONCILE-3 */
    if (vnode->snapshot_to == at && stream_under_way(shard, entry->vnode, 0))
        return; /* it is asked for again, and comes */
    vnode->snapshot_to = at;
    table_set_targets(shard->table, entry->vnode,
                      (uint8_t)(vnodes_disk_mask(shard) | TABLE_TARGET_BIT(TABLE_REPLICA_1)));
    stream_restart_link(shard, entry->vnode, 0);
}

void vnodes_caught_up(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->role == ROLE_RECOVERING);
    vnode->catching_up = false;
    vnode->best = PEER_NONE;
    vnode->best_state = vnode->state;
    vnode->best_seq = table_vnode_seq(shard->table, number);
    vnodes_finish_recovery(shard, number, effects);
}

void vnodes_opened(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    vnodes_hear(shard, at, entry);
    if (term_compare(&entry->term, &vnode->term) != 0 ||
        entry->term.writer != shard->peers[at]->node)
        return;
    vnode->hint = at;
    if (vnode->role == ROLE_RECOVERING)
        vnodes_become_replica(shard, entry->vnode);
    if (vnodes_quorum(shard, entry->vnode))
        quorum_found(shard, entry->vnode);
    vnode->snapshot_to = PEER_NONE;
}
