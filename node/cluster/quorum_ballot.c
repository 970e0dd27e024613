/* quorum_ballot.c - who may decide a vnode of the plane of quorum: questions, promises, ballots.
 *
 *              nobody decides           a majority is free         majorities promised
 *   REPLICA ----------------> RECOVERING -----------------> campaign ----------------> DECIDING
 *      ^       (silence, or    asks: QUERY   QUERY ballot: promises   (the best state
 *      |        word of it)                                           was pulled first)
 *      +------- a decider reports, or a higher ballot is promised ----------+
 *
 * A ballot deposes whoever decides, so it is not begun lightly: first all replicas are asked
 * whether they are free, that is, know no living decider. Only if a majority is free, a ballot is
 * chosen, above every term known, and promises are asked for. So a node that alone lost sight of
 * the decider disturbs nobody; and neither does one that returns after a restart.
 *
 * The replica of the highest rank that lives goes first; those of lower rank follow when nobody
 * decides for a while all the same, each a little later (it may be heard and yet hear nobody). Who
 * is deposed pauses for a random time: so duels end.
 *
 * B1  vnode.term is the highest ballot promised in memory; quorum.promised is the durable one. What
 *     counts for Q2 is spoken of only when durable.
 * B2  A replica that is bound to a living decider promises nothing to others, unless the decider
 *     itself invited them (Q8).
 * B3  A node that is no replica by its own view has no vote, and so has one with an older view than
 *     the ballot's sets come from the right to campaign (Q9 of quorum.c).
 */
#include "base/assert.h"
#include "node/cluster/vnodes_state.h"

#define ASK_AGAIN_NS    (30 * MS)
#define ASK_DEAF_NS     (250 * MS)
#define CAMPAIGN_MAX_NS (300 * MS)  /* then it is asked anew who is free */
#define PULL_MAX_NS     (1000 * MS) /* then a better source is looked for */
#define RANK_PATIENCE_NS                                                                           \
    (100 * MS)                       /* per rank: how much longer a replica waits for its betters  \
                                      */
#define OTHER_PATIENCE_NS (150 * MS) /* for a candidate that lives and does not open */
#define PAUSE_MS          100        /* a deposed one rests for one to two times that */

static bool decides(uint8_t role)
{
    return role == ROLE_DECIDING || role == ROLE_PASSING;
}

void quorum_lost(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    if (quorum->lost_ns == 0)
        quorum->lost_ns = shard->now_ns;
    vnodes_stir(shard, number);
}

void quorum_found(struct shard *shard, uint32_t number)
{
    quorum_of(shard, number)->lost_ns = 0;
}

void quorum_pause(struct shard *shard, uint32_t number)
{
    const uint64_t mixed =
        hash_mix64((uint64_t)shard->now_ns ^ shard->options.node_id << 20 ^ number);
    quorum_of(shard, number)->pause_ns =
        shard->now_ns + (int64_t)(PAUSE_MS + mixed % PAUSE_MS) * MS;
}

void quorum_adopted(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum->report_due = false;
    quorum->tell_held = false;
    if (shard->vnodes[number].role != ROLE_ABSENT)
        quorum_lost(shard, number); /* whether it was opened is not known yet */
}

void quorum_deposed(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    if (quorum->campaigning || decides(shard->vnodes[number].role)) {
        quorum_doubt(shard, number);
        quorum_pause(shard, number);
    }
    quorum->campaigning = false;
}

void quorum_dropped(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum_doubt(shard, number);
    quorum->campaigning = false;
    quorum->lost_ns = 0;
    journal_dropped(shard, number);
}

/* ---- questions and promises ------------------------------------------------------------------ */

/* B2: whether a decider other than `at` lives, as far as is known here. */
static bool bound(const struct shard *shard, uint32_t number, uint16_t at)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    if (vnode->role == ROLE_DECIDING)
        return quorum_reachable(shard, number);
    if (vnode->role == ROLE_PASSING)
        return vnode->passing_to != at && quorum_reachable(shard, number);
    return vnode->role == ROLE_REPLICA && vnode->hint != PEER_NONE && vnode->hint != at &&
           quorum->lost_ns == 0 && !peers_silent(shard, vnode->hint);
}

void quorum_put_report(struct shard *shard, uint16_t at, uint32_t number, struct effects *effects)
{
    struct peer_vnode report = vnodes_entry(shard, number);
    report.flags = bound(shard, number, at) ? ENTRY_BOUND : 0;
    /* A term is reported as soon as it is known, a promise only when it is kept for good (Q1). */
    if (term_compare(&quorum_of(shard, number)->promised, &report.term) == 0)
        report.flags |= ENTRY_PROMISED;
    peers_put_vnode(shard, at, PEER_REPORT, &report, effects);
}

/* A question only: no term is taken over from who asks, for it may be a ballot that came to
 * nothing. A decider that asks does not decide. */
static void answer_question(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                            struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && !decides(entry->role)) {
        vnode->whole = false;
        quorum_lost(shard, entry->vnode);
    }
    /* A replica that asks may have missed the mark with which the vnode arrived (Q9). */
    const int link = vnodes_link_to(vnode, shard->peers[at]->node);
    if (vnode->role == ROLE_DECIDING && link >= 0 && entry->role == ROLE_REPLICA &&
        quorum_of(shard, entry->vnode)->settled_epoch == shard->view->epoch)
        stream_mark_again(shard, entry->vnode, (uint32_t)link);
    quorum_put_report(shard, at, entry->vnode, effects);
}

void quorum_query(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                  struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    struct quorum *quorum = quorum_of(shard, entry->vnode);
    if (vnode->role == ROLE_ABSENT || !vnodes_mine(shard, entry->vnode)) /* B3 */
        return;
    if ((entry->flags & ENTRY_BALLOT) == 0) {
        answer_question(shard, at, entry, effects);
        return;
    }
    const int order = term_compare(&entry->term, &vnode->term);
    const bool allowed =
        (entry->flags & ENTRY_INVITED) != 0 || !bound(shard, entry->vnode, at); /* B2 */
    if (order < 0 || (order > 0 && !allowed) || entry->term.epoch < shard->view->epoch ||
        entry->term.writer != shard->peers[at]->node) {
        quorum_put_report(shard, at, entry->vnode, effects);
        return;
    }
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    if (term_compare(&quorum->promised, &vnode->term) == 0) {
        quorum_put_report(shard, at, entry->vnode, effects);
    } else {
        quorum->report_due = true; /* Q1 */
        journal_promise(shard, entry->vnode);
    }
}

/* ---- recovering ------------------------------------------------------------------------------ */

void quorum_ask(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    struct peer_vnode entry = vnodes_entry(shard, number);
    if (quorum->campaigning)
        entry.flags = (uint8_t)(ENTRY_BALLOT | (quorum->invited ? ENTRY_INVITED : 0));
    /* Who hears nobody may be heard all the same: then the others must learn that it is lost. */
    const bool deaf = !quorum_reachable(shard, number);
    vnode->asked_ns = shard->now_ns;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint16_t at = vnode->links[i].peer;
        const bool promised = quorum->campaigning && (quorum->promises & 1u << i) != 0;
        if (at != PEER_NONE && !promised && (deaf || !peers_silent(shard, at)))
            peers_put_vnode(shard, at, PEER_QUERY, &entry, effects);
    }
}

void quorum_recovering(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    quorum_doubt(shard, number);
    if (term_compare(&quorum->promised, &vnode->term) > 0)
        vnode->term = quorum->promised; /* to one who was no replica a term was a hint only */
    quorum->campaigning = false;
    quorum->free = 0;
    quorum_lost(shard, number);
}

void quorum_campaign(struct shard *shard, uint32_t number, bool invited, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    ASSERT(vnode->term.epoch <= shard->view->epoch);
    quorum_doubt(shard, number);
    vnodes_set_role(shard, vnode, ROLE_RECOVERING);
    vnode->term = vnodes_term_above(shard, &vnode->term);
    vnode->hint = PEER_NONE;
    vnode->puller = PEER_NONE;
    vnode->fresh = invited;
    vnode->best = PEER_NONE;
    vnode->best_state = vnode->state;
    vnode->best_seq = table_vnode_seq(shard->table, number);
    vnode->equal = 0;
    table_set_targets(shard->table, number, vnodes_disk_mask(shard));
    quorum->campaigning = true;
    quorum->invited = invited;
    quorum->promises = 0;
    quorum->campaign_ns = shard->now_ns;
    quorum_view_sets(shard, number, &quorum->from, &quorum->to);
    quorum_lost(shard, number);
    journal_promise(shard, number);
    quorum_ask(shard, number, effects);
}

bool quorum_passed(struct shard *shard, uint32_t number, struct effects *effects)
{
    if (shard->vnodes[number].term.epoch > shard->view->epoch) /* B3 */
        return false;
    quorum_campaign(shard, number, true, effects);
    return true;
}

/* Whether it is this node's turn. */
static bool may_campaign(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    struct quorum_set from;
    struct quorum_set to;
    if (vnode->rank == UINT8_MAX || shard->now_ns < quorum->pause_ns ||
        vnode->term.epoch > shard->view->epoch) /* B3 */
        return false;
    const int64_t patience_ns = vnode->rank * RANK_PATIENCE_NS;
    if (!vnodes_first_alive(shard, number) && shard->now_ns - quorum->lost_ns <= patience_ns)
        return false;
    quorum_view_sets(shard, number, &from, &to);
    return quorum_majority(shard, number, &from, &to, quorum->free, true);
}

void quorum_recover(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    if (!quorum->campaigning) {
        if (may_campaign(shard, number))
            quorum_campaign(shard, number, false, effects);
        return;
    }
    const bool self = term_compare(&quorum->promised, &vnode->term) == 0;
    if (!quorum_majority(shard, number, &quorum->from, &quorum->to, quorum->promises, self))
        return; /* Q2 */
    if (vnode->best == PEER_NONE) {
        vnodes_open_term(shard, number, effects);
    } else if (peers_silent(shard, vnode->best)) {
        vnodes_recover(shard, number, vnode->fresh, effects);
    } else if (!vnode->pulling) {
        vnode->pulling = true;
        const struct peer_vnode entry = vnodes_entry(shard, number);
        peers_put_vnode(shard, vnode->best, PEER_PULL, &entry, effects);
    }
}

/* A durable promise of this node's ballot, and what its giver holds. */
static void note_promise(struct shard *shard, uint32_t link, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    struct quorum *quorum = quorum_of(shard, entry->vnode);
    if ((quorum->promises & 1u << link) != 0)
        return; /* since its promise it took nothing */
    quorum->promises |= (uint8_t)(1u << link);
    if (vnode->pulling)
        return; /* a majority was found before: it stands */
    int order = term_compare(&entry->state, &vnode->best_state);
    if (order == 0)
        order = entry->seq < vnode->best_seq ? -1 : entry->seq > vnode->best_seq;
    if (order > 0) {
        vnode->best = vnode->links[link].peer;
        vnode->best_state = entry->state;
        vnode->best_seq = entry->seq;
        vnode->equal = 0;
    }
    /* Who holds parts of a newer state beside the best one must be sent all; and so must everybody,
     * if it is this node that does. */
    if (order >= 0 && !entry->beyond && (vnode->best != PEER_NONE || !vnode->beyond))
        vnode->equal |= (uint8_t)(1u << link);
}

static void take_report(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    struct quorum *quorum = quorum_of(shard, entry->vnode);
    const bool promise = quorum->campaigning && (entry->flags & ENTRY_PROMISED) != 0 &&
                         term_compare(&entry->term, &vnode->term) == 0;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        if (vnode->links[i].peer != at)
            continue;
        vnode->reported |= (uint8_t)(1u << i);
        quorum->free &= (uint8_t) ~(1u << i);
        if ((entry->flags & ENTRY_BOUND) == 0)
            quorum->free |= (uint8_t)(1u << i);
        if (promise)
            note_promise(shard, i, entry);
    }
}

void quorum_report(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                   struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (vnode->role == ROLE_ABSENT)
        return;
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && !decides(entry->role))
        quorum_lost(shard, entry->vnode);
    if (vnode->role != ROLE_RECOVERING && vnode->role != ROLE_REPLICA)
        return;
    if (decides(entry->role) && term_compare(&entry->term, &vnode->term) == 0 &&
        entry->term.writer == shard->peers[at]->node) {
        vnode->hint = at;
        quorum_found(shard, entry->vnode);
        if (vnode->role == ROLE_RECOVERING)
            vnodes_become_replica(shard, entry->vnode);
        return;
    }
    if (vnode->role != ROLE_RECOVERING)
        return;
    take_report(shard, at, entry);
    quorum_recover(shard, entry->vnode, effects);
}

/* ---- time ------------------------------------------------------------------------------------ */

void quorum_recover_tick(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    const int64_t age_ns = shard->now_ns - quorum->campaign_ns;
    if (quorum->campaigning && age_ns > (vnode->pulling ? PULL_MAX_NS : CAMPAIGN_MAX_NS)) {
        quorum_pause(shard, number);
        vnodes_recover(shard, number, vnode->fresh, effects);
        return;
    }
    const bool deaf = !quorum_reachable(shard, number);
    if (shard->now_ns - vnode->asked_ns > (deaf ? ASK_DEAF_NS : ASK_AGAIN_NS))
        quorum_ask(shard, number, effects);
    quorum_recover(shard, number, effects);
}

void quorum_replica_tick(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    const bool own = vnode->term.writer == shard->options.node_id;
    const bool lacks = vnodes_lacks(shard, number);
    const bool gone = own || vnode->hint == PEER_NONE || peers_silent(shard, vnode->hint);
    if (gone)
        quorum_lost(shard, number);
    const int64_t lost_ns = quorum->lost_ns == 0 ? -1 : shard->now_ns - quorum->lost_ns;
    const int64_t rank_ns = vnode->rank * RANK_PATIENCE_NS;
    const bool turn = gone ? vnodes_first_alive(shard, number) || lost_ns > rank_ns
                           : lost_ns > OTHER_PATIENCE_NS + rank_ns;
    if (own || turn) {
        vnodes_recover(shard, number, false, effects);
    } else if (!gone && (lacks || lost_ns >= 0 || !quorum_arrived(shard, number)) &&
               shard->now_ns - vnode->asked_ns >
                   (!lacks && lost_ns < 0 ? ASK_DEAF_NS : ASK_AGAIN_NS)) {
        const struct peer_vnode question = vnodes_entry(shard, number);
        vnode->asked_ns = shard->now_ns;
        if (lost_ns >= 0 || !lacks) /* does it decide? did the vnode arrive? */
            peers_put_vnode(shard, vnode->hint, PEER_QUERY, &question, effects);
        if (lacks)
            stream_tell_lack(shard, vnode->hint, number, effects);
    }
}
