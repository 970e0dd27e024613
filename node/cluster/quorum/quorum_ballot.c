/* quorum_ballot.c - who may decide a vnode of the plane of quorum: questions, promises, ballots.
 *
 *              nobody decides           a majority is free         majorities promised
 *   REPLICA ----------------> RECOVERING -----------------> campaign ----------------> DECIDING
 *      ^       (silence, or    asks: QUERY   QUERY ballot: promises   (the best state
 *      |        word of it)                                           was pulled first)
 *      +------- a leader reports, or a higher ballot is promised ----------+
 *
 * A ballot deposes whoever decides, so it is not begun lightly: first all replicas are asked
 * whether they are free, that is, know no living leader. Only if a majority is free, a ballot is
 * chosen, above every term known, and promises are asked for. So a node that alone lost sight of
 * the leader disturbs nobody; and neither does one that returns after a restart.
 *
 * The replica of the highest rank that lives goes first; those of lower rank follow when nobody
 * decides for a while all the same, each a little later (it may be heard and yet hear nobody).
 * Whose ballot comes to nothing pauses for a random time. A ballot under way is left time: who
 * promised it promises nothing to others while its candidate lives and has not given up, and
 * patience doubles with every ballot of which no leader came, as questions that nobody answers
 * become rarer. So on machines that are slower than any time named here duels end as well, and work
 * does not pile up.
 *
 *   N's ballot b lost against D's term t < b:  N, who promised b, can take nothing of t
 *
 *      N                     D decides (t)              X follows D
 *      | STALE b, or QUERY b   |                          |
 *      |---------------------->| seals; ballot c > b      |
 *      |<----------------------|------------------------->|
 *      | promise c             | opens c                  | promise c
 *
 * BALLOT-1  vnode.term is the highest ballot promised in memory, or opened; quorum.promised is the
 *           durable one. What counts for QUORUM-2 is spoken of only when durable.
 * BALLOT-2  A replica that is bound to a living leader, or to the candidate that it promised last,
 *           promises nothing to others, unless the leader itself invited them (QUORUM-8).
 * BALLOT-3  A node that is no replica by its own view has no vote, and so has one with an older
 *           view than the ballot's sets come from the right to campaign (QUORUM-9).
 * BALLOT-4  A ballot is promised only to its writer, who asks for it; of one that others speak of
 *           it is noted that the next one must be above it, unless they know that it was opened. So
 *           a ballot that came to nothing deposes nobody.
 * BALLOT-5  A candidate keeps its ballot while it gets on, and while it is not refused: another one
 *           would need the same promises once more. A state of which nothing comes is asked for
 *           again; who refuses it because of a higher ballot says so, and the ballot is let go at
 *           once.
 * BALLOT-7  Who campaigns recovers, with a ballot of its own; who is sealed leads. Answers are of
 *           links that there are.
 * BALLOT-6  Not more than MOVING_MAX vnodes of a shard are between two ballots at a time (of its
 *           own will), so that the ones that are have the journals and the network for themselves.
 */
#include "base/assert.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"

#define ASK_AGAIN_NS       (30 * MS)
#define ASK_CANNOT_HEAR_NS (250 * MS)
#define CAMPAIGN_MAX_NS    (300 * MS)  /* without getting on; then it is asked anew who is free */
#define CATCH_UP_MAX_NS    (1000 * MS) /* then a better source is looked for */
#define UNREACHABLE_NS     (100 * MS)  /* then a ballot is let go */
#define RANK_TIMEOUT_NS    (100 * MS)  /* how much longer a replica waits for each of its betters */
#define OTHER_TIMEOUT_NS   (150 * MS)  /* for a candidate that lives and does not open */
#define FORCED_TIMEOUT_NS  (200 * MS)  /* for a promise beyond the majority (QUORUM-11) */
#define CANDIDATE_NS                                                                               \
    (300 * MS)       /* for so long a promise binds beyond the last sign of its candidate */
#define PAUSE_MS 100 /* a failed candidate rests for one to two times that */

enum {
    ASKS_MAX = 6, /* questions become rarer so many times, by half each time */
    REPEATS_PER_TICK = 1024,
    TRIES_MAX = 4,     /* patience becomes longer so many times */
    MOVING_MAX = 1024, /* vnodes (BALLOT-6) */
};

static void count_moving(struct shard *shard, struct quorum *quorum)
{
    ASSERT(shard->quorum.moving > 0 || !quorum->moving); /* BALLOT-6 */
    const bool moving = quorum->sealed || quorum->campaigning;
    if (moving && !quorum->moving)
        shard->quorum.moving++;
    else if (!moving && quorum->moving)
        shard->quorum.moving--;
    quorum->moving = moving;
}

void quorum_set_sealed(struct shard *shard, uint32_t number, bool sealed)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum->sealed = sealed;
    count_moving(shard, quorum);
}

void quorum_set_campaigning(struct shard *shard, uint32_t number, bool campaigning)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum->campaigning = campaigning;
    count_moving(shard, quorum);
}

bool quorum_may_move(const struct shard *shard)
{
    return shard->quorum.moving < MOVING_MAX;
}

void quorum_lost(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    if (quorum->lost_ns == 0)
        quorum->lost_ns = shard->now_ns;
    vnodes_mark_active(shard, number);
}

void quorum_found(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum->lost_ns = 0;
    quorum->tries = 0;
    quorum->asks = 0;
}

void quorum_pause(struct shard *shard, uint32_t number)
{
    ASSERT(vnodes_quorum(shard, number));
    const uint64_t mixed =
        hash_mix64((uint64_t)shard->now_ns ^ shard->options.node_id << 20 ^ number);
    quorum_of(shard, number)->pause_ns =
        shard->now_ns + (int64_t)(PAUSE_MS + mixed % PAUSE_MS) * MS;
}

static void count_try(struct quorum *quorum)
{
    if (quorum->tries < TRIES_MAX)
        quorum->tries++;
}

/* For how long nobody decided, and nobody was about to, as far as known here. */
static int64_t leaderless_ns(const struct shard *shard, const struct quorum *quorum)
{
    const bool heard = quorum->heard_ns > quorum->lost_ns;
    return shard->now_ns - (heard ? quorum->heard_ns : quorum->lost_ns);
}

static int64_t rank_timeout_ns(const struct vnode *vnode, const struct quorum *quorum)
{
    return (vnode->rank * RANK_TIMEOUT_NS) << quorum->tries;
}

/* How long a candidate is left alone with its ballot. */
static int64_t other_timeout_ns(const struct quorum *quorum)
{
    return OTHER_TIMEOUT_NS << quorum->tries;
}

void quorum_adopted(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum->report_due = false;
    quorum->tell_held = false;
    quorum->asks = 0;
    if (shard->vnodes[number].role != ROLE_ABSENT)
        quorum_lost(shard, number); /* whether it was opened is not known yet */
}

void quorum_deposed(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    if (quorum->campaigning || vnodes_leads(shard->vnodes[number].role))
        quorum_doubt(shard, number);
    if (quorum->campaigning)
        quorum_pause(shard, number);
    quorum_set_campaigning(shard, number, false);
    quorum->outbid = false;
}

void quorum_dropped(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum_doubt(shard, number);
    quorum_set_campaigning(shard, number, false);
    quorum->lost_ns = 0;
    quorum->heard_ns = 0;
    quorum->outbid = false;
    journal_dropped(shard, number);
}

/* ---- questions and promises ------------------------------------------------------------------ */

void quorum_heard(struct shard *shard, uint16_t at, uint32_t number, const struct term *term,
                  bool open)
{
    const struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    if (term_compare(term, &vnode->term) <= 0)
        return;
    if (open || vnode->role == ROLE_ABSENT) { /* to one who is no replica any term is a hint */
        (void)vnodes_adopt(shard, number, term);
        return;
    }
    if (term_compare(term, &quorum->seen) > 0)
        quorum->seen = *term;
    if (vnodes_leads(vnode->role) && vnodes_link_to(vnode, shard->peers[at]->node) >= 0)
        quorum->outbid = true;
    vnodes_mark_active(shard, number);
}

bool quorum_up_to_date(const struct shard *shard, uint32_t number)
{
    return shard->vnodes[number].term.epoch <= shard->view->epoch &&
           quorum_of(shard, number)->seen.epoch <= shard->view->epoch;
}

/* BALLOT-2: whether there is a leader or candidate other than `at` that lives, as far as is
 * known. */
static bool bound(const struct shard *shard, uint32_t number, uint16_t at)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    if (vnode->role == ROLE_LEADING)
        return quorum_reachable(shard, number);
    if (vnode->role == ROLE_TRANSFERRING)
        return vnode->transfer_to != at && quorum_reachable(shard, number);
    const bool candidate =
        quorum->heard_ns != 0 && shard->now_ns - quorum->heard_ns <= CANDIDATE_NS;
    return vnode->role == ROLE_REPLICA && vnode->hint != PEER_NONE && vnode->hint != at &&
           (quorum->lost_ns == 0 || candidate) && !peers_silent(shard, vnode->hint);
}

void quorum_put_report(struct shard *shard, uint16_t at, uint32_t number, struct effects *effects)
{
    struct peer_vnode report = vnodes_entry(shard, number);
    if (bound(shard, number, at))
        report.flags |= ENTRY_BOUND;
    /* A term is reported as soon as it is known, a promise only when it is kept for good
     * (QUORUM-1). */
    if (term_compare(&quorum_of(shard, number)->promised, &report.term) == 0)
        report.flags |=
            quorum_of(shard, number)->campaigning ? ENTRY_PROMISED | ENTRY_BALLOT : ENTRY_PROMISED;
    peers_put_vnode(shard, at, PEER_REPORT, &report, effects);
}

/* A question only (BALLOT-4). A leader that asks does not decide. */
static void answer_question(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                            struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    vnodes_hear(shard, at, entry);
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && !vnodes_leads(entry->role)) {
        vnode->copy_complete = false;
        quorum_lost(shard, entry->vnode);
    }
    /* A replica that asks may have missed the mark with which the vnode arrived (QUORUM-9). */
    const int link = vnodes_link_to(vnode, shard->peers[at]->node);
    if (vnode->role == ROLE_LEADING && link >= 0 && entry->role == ROLE_REPLICA &&
        quorum_of(shard, entry->vnode)->settled_epoch == shard->view->epoch)
        stream_watermark_again(shard, entry->vnode, (uint32_t)link);
    quorum_put_report(shard, at, entry->vnode, effects);
}

void quorum_query(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                  struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    struct quorum *quorum = quorum_of(shard, entry->vnode);
    if (vnode->role == ROLE_ABSENT || !vnodes_mine(shard, entry->vnode)) /* BALLOT-3 */
        return;
    if ((entry->flags & ENTRY_BALLOT) == 0) {
        answer_question(shard, at, entry, effects);
        return;
    }
    const int order = term_compare(&entry->term, &vnode->term);
    const bool allowed =
        (entry->flags & ENTRY_INVITED) != 0 || !bound(shard, entry->vnode, at); /* BALLOT-2 */
    if (order < 0 || (order > 0 && !allowed) || entry->term.epoch < shard->view->epoch ||
        entry->term.writer != shard->peers[at]->node) {
        quorum_heard(shard, at, entry->vnode, &entry->term, false);
        quorum_put_report(shard, at, entry->vnode, effects);
        return;
    }
    if (vnodes_adopt(shard, entry->vnode, &entry->term))
        count_try(quorum);
    ASSERT(term_compare(&entry->term, &vnode->term) == 0); /* BALLOT-4 */
    quorum->heard_ns = shard->now_ns;
    firsts_report(shard, at, entry, effects);
    if (term_compare(&quorum->promised, &vnode->term) == 0) {
        quorum_put_report(shard, at, entry->vnode, effects);
        return;
    }
    quorum->report_due = true; /* QUORUM-1 */
    if (!quorum->batch_promises || term_compare(&quorum->batch_promise, &vnode->term) != 0)
        journal_promise(shard, entry->vnode); /* else it is being written */
}

/* ---- recovering ------------------------------------------------------------------------------ */

/* What is on its way to a peer that lags is answered when its turn comes: asked once more, it would
 * have twice as much to do. */
static void count_ask(struct quorum *quorum)
{
    if (quorum->asks < ASKS_MAX)
        quorum->asks++;
}

/* Whether it is the vnode's turn to repeat its questions: when there are many, each tick repeats
 * those of some. Whoever is slow to send them has slow ticks, and sends no more than it can. */
static bool may_repeat(const struct shard *shard, uint32_t number)
{
    const uint32_t parts = shard->active_vnodes.count / REPEATS_PER_TICK + 1;
    return (number + shard->ticks) % parts == 0;
}

/* How long an answer is waited for before the question is repeated. */
static int64_t ask_rest_ns(const struct quorum *quorum)
{
    return quorum->asks == 0 ? 0 : ASK_AGAIN_NS << (quorum->asks - 1);
}

void quorum_ask(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    struct peer_vnode entry = vnodes_entry(shard, number);
    if (quorum->campaigning)
        entry.flags = (uint8_t)(ENTRY_BALLOT | (quorum->invited ? ENTRY_INVITED : 0));
    /* Who hears nobody may be heard all the same: then the others must learn that it is lost. */
    const bool deaf = !quorum_reachable(shard, number);
    vnode->asked_ns = shard->now_ns;
    count_ask(quorum);
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint16_t at = vnode->links[i].peer;
        const bool promised = quorum->campaigning && (quorum->promises & 1u << i) != 0;
        const bool again = quorum->asks > 1 && at != PEER_NONE && peers_lag(shard, at);
        if (at != PEER_NONE && !promised && (deaf || (!peers_silent(shard, at) && !again)))
            peers_put_vnode(shard, at, PEER_QUERY, &entry, effects);
    }
}

void quorum_recovering(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    quorum_doubt(shard, number);
    ASSERT(quorum->first_pending == POOL_NONE); /* QUORUM-6 */
    if (term_compare(&quorum->promised, &vnode->term) > 0)
        vnode->term = quorum->promised; /* to one who was no replica a term was a hint only */
    quorum_set_campaigning(shard, number, false);
    quorum->outbid = false;
    quorum->free = 0;
    quorum->asks = 0;
    quorum_lost(shard, number);
}

void quorum_campaign(struct shard *shard, uint32_t number, bool planned, bool invited,
                     struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    const bool higher = term_compare(&quorum->seen, &vnode->term) > 0;
    ASSERT(quorum_up_to_date(shard, number));
    quorum_doubt(shard, number);
    vnodes_set_role(shard, vnode, ROLE_RECOVERING);
    vnode->term = vnodes_term_above(shard, higher ? &quorum->seen : &vnode->term);
    ASSERT(term_compare(&vnode->term, &quorum->promised) > 0); /* BALLOT-1 */
    vnode->hint = PEER_NONE;
    vnode->snapshot_to = PEER_NONE;
    vnode->fresh = planned;
    vnode->best = PEER_NONE;
    vnode->best_state = vnode->state;
    vnode->best_seq = table_vnode_seq(shard->table, number);
    vnode->best_holds_newer = vnode->holds_newer;
    vnode->equal = 0;
    table_set_targets(shard->table, number, vnodes_disk_mask(shard));
    quorum_set_campaigning(shard, number, true);
    quorum->invited = invited;
    quorum->outbid = false;
    quorum->promises = 0;
    quorum->refused = 0;
    quorum->asks = 0;
    quorum->campaign_ns = shard->now_ns;
    quorum_view_sets(shard, number, &quorum->from, &quorum->to);
    count_try(quorum);
    quorum_lost(shard, number);
    journal_promise(shard, number);
    quorum_ask(shard, number, effects);
}

bool quorum_transferred(struct shard *shard, uint32_t number, struct effects *effects)
{
    if (!quorum_up_to_date(shard, number)) /* BALLOT-3 */
        return false;
    quorum_campaign(shard, number, true, true, effects);
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
        !quorum_up_to_date(shard, number)) /* BALLOT-3 */
        return false;
    if (!vnodes_first_alive(shard, number) &&
        leaderless_ns(shard, quorum) <= rank_timeout_ns(vnode, quorum))
        return false;
    quorum_view_sets(shard, number, &from, &to);
    return quorum_majority(shard, number, &from, &to,
                           (uint8_t)(quorum->free & quorum_prompt_links(shard, number)), true);
}

static void put_catch_up(struct shard *shard, uint32_t number, struct effects *effects)
{
    const struct peer_vnode entry = vnodes_entry(shard, number);
    quorum_of(shard, number)->caught_up_ns = shard->now_ns;
    peers_put_vnode(shard, shard->vnodes[number].best, PEER_PULL, &entry, effects);
}

/* Whether the state was asked for a while ago, and nothing of it has come since. */
static bool catch_up_lost(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const int64_t caught_up_ns = quorum_of(shard, number)->caught_up_ns;
    const int64_t since_ns = vnode->in_ns > caught_up_ns ? vnode->in_ns : caught_up_ns;
    return vnode->catching_up && !peers_lag(shard, vnode->best) &&
           shard->now_ns - since_ns > VNODES_CATCH_UP_AGAIN_MS * MS;
}

void quorum_recover(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    if (!quorum->campaigning) {
        if (quorum_may_move(shard) && may_campaign(shard, number) && /* BALLOT-6 */
            skew_stands(shard))                                      /* SKEW-3 */
            quorum_campaign(shard, number, false, false, effects);
        return;
    }
    const bool self = term_compare(&quorum->promised, &vnode->term) == 0;
    if (!quorum_majority(shard, number, &quorum->from, &quorum->to, quorum->promises, self))
        return; /* QUORUM-2 */
    if (quorum_forced(shard) && shard->now_ns - quorum->campaign_ns <= FORCED_TIMEOUT_NS &&
        (quorum_prompt_links(shard, number) & ~quorum->promises) != 0)
        return; /* QUORUM-11 */
    if (vnode->best == PEER_NONE) {
        vnodes_open_term(shard, number, effects);
    } else if (peers_silent(shard, vnode->best)) {
        vnodes_recover(shard, number, vnode->fresh, effects);
    } else if (!vnode->catching_up) {
        vnode->catching_up = true;
        quorum->campaign_ns = shard->now_ns;
        put_catch_up(shard, number, effects);
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
    quorum->campaign_ns = shard->now_ns;
    if (vnode->catching_up)
        return; /* a majority was found before: it stands */
    int order = term_compare(&entry->state, &vnode->best_state);
    if (order == 0)
        order = entry->seq < vnode->best_seq ? -1 : entry->seq > vnode->best_seq;
    if (order > 0) {
        vnode->best = vnode->links[link].peer;
        vnode->best_state = entry->state;
        vnode->best_seq = entry->seq;
        vnode->best_holds_newer = entry->holds_newer;
        vnode->equal = 0;
    }
    /* Who holds parts of a newer state beside the best one must be sent all; and so must everybody,
     * if it is this node that does, or the one that it takes the best from. */
    if (order >= 0 && !entry->holds_newer && !vnode->best_holds_newer)
        vnode->equal |= (uint8_t)(1u << link);
}

static void take_report(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    struct quorum *quorum = quorum_of(shard, entry->vnode);
    const int order = term_compare(&entry->term, &vnode->term);
    const bool is_bound = (entry->flags & ENTRY_BOUND) != 0;
    const bool promise = quorum->campaigning && (entry->flags & ENTRY_PROMISED) != 0 && order == 0;
    const bool refused = !promise && (is_bound || order > 0);
    if (is_bound)
        quorum->heard_ns = shard->now_ns;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint8_t bit = (uint8_t)(1u << i);
        if (vnode->links[i].peer != at)
            continue;
        vnode->reported |= bit;
        quorum->free = (uint8_t)(is_bound ? quorum->free & ~bit : quorum->free | bit);
        quorum->refused = (uint8_t)(refused ? quorum->refused | bit : quorum->refused & ~bit);
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
    vnodes_hear(shard, at, entry);
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && !vnodes_leads(entry->role)) {
        quorum_lost(shard, entry->vnode);
        if ((entry->flags & ENTRY_BALLOT) != 0 && term_compare(&entry->term, &vnode->term) == 0)
            quorum_of(shard, entry->vnode)->heard_ns = shard->now_ns; /* it is about to */
    }
    if (vnode->role != ROLE_RECOVERING && vnode->role != ROLE_REPLICA)
        return;
    if (vnodes_leads(entry->role) && term_compare(&entry->term, &vnode->term) == 0 &&
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

/* Whether the peer has refused the ballot: it has promised a higher one since, perhaps. */
static bool refuses(const struct shard *shard, uint32_t number, uint16_t at)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer == at)
            return (quorum_of(shard, number)->refused & 1u << i) != 0;
    return false;
}

/* Whether the ballot comes to nothing (BALLOT-5). */
static bool in_vain(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    const int64_t came_ns = vnode->catching_up && vnode->in_ns > quorum->campaign_ns
                                ? vnode->in_ns
                                : quorum->campaign_ns;
    const int64_t age_ns = shard->now_ns - came_ns;
    if (vnode->term.epoch < shard->view->epoch)
        return true; /* nobody promises it any more */
    if (vnode->catching_up)
        return age_ns > CATCH_UP_MAX_NS || refuses(shard, number, vnode->best);
    if (!quorum_majority(shard, number, &quorum->from, &quorum->to, (uint8_t)~quorum->refused,
                         true))
        return true;
    if (age_ns > UNREACHABLE_NS && !quorum_reachable(shard, number))
        return true;
    return age_ns > CAMPAIGN_MAX_NS << quorum->tries;
}

void quorum_recover_tick(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    if (quorum->campaigning && in_vain(shard, number)) {
        if (vnode->term.epoch == shard->view->epoch)
            quorum_pause(shard, number);
        vnodes_recover(shard, number, vnode->fresh, effects);
        return;
    }
    if (catch_up_lost(shard, number))
        put_catch_up(shard, number, effects);
    const bool deaf = !quorum_reachable(shard, number);
    const int64_t rest_ns = ask_rest_ns(quorum);
    if (may_repeat(shard, number) &&
        shard->now_ns - vnode->asked_ns >
            (deaf && rest_ns < ASK_CANNOT_HEAR_NS ? ASK_CANNOT_HEAR_NS : rest_ns))
        quorum_ask(shard, number, effects);
    quorum_recover(shard, number, effects);
}

/* A replica that lacks something asks for it: does its leader decide, did the vnode arrive? */
static void ask_leader(struct shard *shard, uint32_t number, bool lost, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    const struct peer_vnode question = vnodes_entry(shard, number);
    const bool lacks = vnodes_lacks(shard, number);
    if (!may_repeat(shard, number) || peers_lag(shard, vnode->hint) ||
        shard->now_ns - vnode->asked_ns <=
            (lacks || lost ? ask_rest_ns(quorum) : ASK_CANNOT_HEAR_NS))
        return;
    vnode->asked_ns = shard->now_ns;
    count_ask(quorum);
    if (lost || !lacks)
        peers_put_vnode(shard, vnode->hint, PEER_QUERY, &question, effects);
    if (lacks)
        stream_tell_lack(shard, vnode->hint, number, effects);
    const uint16_t other = peers_for(shard, quorum->seen.writer, number);
    if (lost && term_compare(&quorum->seen, &vnode->term) > 0 && other != PEER_NONE &&
        other != vnode->hint && !peers_silent(shard, other))
        peers_put_vnode(shard, other, PEER_QUERY, &question, effects); /* did it open that one? */
}

void quorum_replica_tick(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    const bool own = vnode->term.writer == shard->options.node_id;
    const bool gone = own || vnode->hint == PEER_NONE || peers_silent(shard, vnode->hint);
    if (gone)
        quorum_lost(shard, number);
    const int64_t lost_ns = quorum->lost_ns == 0 ? -1 : leaderless_ns(shard, quorum);
    const int64_t rank_ns = rank_timeout_ns(vnode, quorum);
    const bool turn = gone ? vnodes_first_alive(shard, number) || lost_ns > rank_ns
                           : lost_ns > other_timeout_ns(quorum) + rank_ns;
    if (own || turn)
        vnodes_recover(shard, number, false, effects);
    else if (!gone &&
             (vnodes_lacks(shard, number) || lost_ns >= 0 || !quorum_arrived(shard, number)))
        ask_leader(shard, number, lost_ns >= 0, effects);
}
