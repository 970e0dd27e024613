/* quorum.c - decisions that a majority of the replicas holds before they are answered.
 *
 * Keys of rules with consistency `quorum` live in a second plane of vnodes: number V + v for vnode
 * v of the ring, with the same replica set and a term of its own. That term is the ballot of a
 * Paxos whose value is the state of the whole vnode, agreed on again with every change:
 *
 *   candidate            replicas                          leader              replicas
 *      | QUERY ballot b     |                                 | decides in memory   |
 *      |------------------->| promise b, journaled            | SLOTs, WATERMARK (b, s)  |
 *      |<-------------------| REPORT b, what it holds         |-------------------->| journaled
 *      | majority: the best state is pulled, b is opened      |<--------------------| HELD (b, s)
 *                                                             | majority holds s: answers up to s
 *
 * In the steady state a decision costs one round trip, during which the journals of leader and
 * replicas sync once. All decisions of a turn share it, and what comes meanwhile shares the next.
 *
 * QUORUM-1   Promise. A replica says REPORT for a ballot only when the promise is durable; then it
 *            takes nothing of a lower term. A lower ballot is answered with the higher one.
 * QUORUM-2   Open. A ballot is opened only when majorities promised exactly it: of the replica set;
 *            while a ring transition is under way, of the old set and of the new one. The highest
 *            (state term, seq) among them is pulled first. No patience and no grace stands for a
 *            majority.
 * QUORUM-3   Commit. The answer of a decision, whatever it is, leaves when the same majorities hold
 *            a seq at or above it in this term durably, as each said after it was made. A turn that
 *            changed nothing raises the seq as well: so reads are linearizable without any clock.
 * QUORUM-4   A replica says HELD (term, s) only when slots and header are in its journal, or when
 *            nothing but the seq differs from what that header tells (JOURNAL-5). A replica in the
 *            middle of a complete copy claims nothing of it (SHARD-4, STREAM-4), so it is not
 *            counted.
 * QUORUM-5   The leader's own journal counts like that of any other replica, no more and no less.
 *            So a leader whose disk is slow or full still decides while both others are well; when
 *            it crashes it is asked nothing that it did not journal, and the others know the rest.
 * QUORUM-6   In doubt. Who stops deciding does not know what becomes of decisions that were not
 *            committed. They are asked for again, as repeated: a check may be charged twice, which
 *            is counted. What gives back (refund, reset) is never repeated: done twice it would
 *            admit above the limit. First answers are remembered for the term in which they were
 *            given (decide.c), for the state of a later one may not contain them; who decides on a
 *            state that does has them of its replicas (FIRSTS-2).
 * QUORUM-7   A vnode that has no leader for SHARD_QUORUM_TIMEOUT_NS, whose replicas are silent in
 *            their majority, or that could not commit for that long, refuses checks at once: the
 *            rule's on_failure acts.
 * QUORUM-8   A TRANSFER makes its receiver a candidate. The passer seals the vnode, waits until all
 *            it decided is committed, and only then passes: a planned change leaves nothing in
 *            doubt.
 * QUORUM-9   The sets of a ballot are those of the configuration whose epoch it carries. Who knows
 *            a term of a later epoch than its view's does not campaign, and no ballot of an epoch
 *            below one's own view is promised. A transition that changes the sets of a vnode is
 *            over only when a ballot of its epoch was opened and a majority of the new set holds
 *            the vnode: before the first decision without the old set, a majority of that has
 *            promised a term that no stale view can outbid.
 *
 *     epoch    e: F            e + 1: F and T             e + 2: T
 *     ballots  majority of F   majorities of F and of T   majority of T
 *
 * QUORUM-11  Who forces a removal says that members of the old set are lost, and their majority may
 *            be. In the transition that this begins the new set alone decides, and a candidate
 *            waits a moment for the promises of all that live: what was committed is forgotten only
 *            if nobody who lives and is asked has it. A vnode whose new set is lost in its majority
 *            as well holds up nothing: a leader that the old set has hands what it holds to those
 *            that are left, and the transition ends, for the next to be removed are those that it
 *            waits for.
 * QUORUM-12  Decisions that wait are in one list a vnode, in the order in which they were made, and
 *            are counted. No history of this plane is ever apart, so nothing of it is merged.
 * QUORUM-10  A decision takes a check before it is made; without room it is busy and charges
 *            nothing.
 *
 * The ballots are quorum_ballot.c, the journal is journal.c. Must not decide anything by the clock:
 * time only paces repetition, and ends waiting.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"
#include "ring/config.h"

#define SEAL_MAX_NS (200 * MS) /* how long a sealed vnode waits for its last commits */
/* How long a peer's forward may wait for its commit: QUORUM-7 ends it before. */
#define COMMIT_MAX_NS (SHARD_QUORUM_TIMEOUT_NS + 100 * MS)

void quorum_init(struct quorum *quorum)
{
    memset(quorum, 0, sizeof *quorum);
    quorum->first_pending = POOL_NONE;
    quorum->last_part = POOL_NONE;
}

/* ---- sets ------------------------------------------------------------------------------------ */

static bool set_holds(const struct quorum_set *set, uint64_t node)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->ids[i] == node)
            return true;
    return false;
}

/* The same nodes, in whatever order. */
static bool set_equal(const struct quorum_set *a, const struct quorum_set *b)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (!set_holds(b, a->ids[i]))
            return false;
    return a->count == b->count;
}

/* ---- committing ------------------------------------------------------------------------------ */

/* Up to which seq of this term `node` holds the vnode durably. */
static uint64_t held_by(const struct shard *shard, uint32_t number, uint64_t node)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    if (node == shard->options.node_id)
        return term_compare(&quorum->held, &vnode->term) == 0 ? quorum->held_seq : 0;
    const int link = vnodes_link_to(vnode, node);
    return link < 0 ? 0 : vnode->links[link].durable_seq;
}

/* The highest seq that a majority of the set holds. */
static uint64_t set_committed(const struct shard *shard, uint32_t number,
                              const struct quorum_set *set)
{
    ASSERT(set->count <= VIEW_REPLICATION_MAX);
    uint64_t seqs[VIEW_REPLICATION_MAX];
    for (uint32_t i = 0; i < set->count; i++) { /* descending */
        const uint64_t seq = held_by(shard, number, set->ids[i]);
        uint32_t at = i;
        for (; at > 0 && seqs[at - 1] < seq; at--)
            seqs[at] = seqs[at - 1];
        seqs[at] = seq;
    }
    return set->count == 0 ? 0 : seqs[set->count / 2];
}

void quorum_opened(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    ASSERT(quorum->first_pending == POOL_NONE);
    for (uint32_t i = 0; i < SHARD_REPLICAS_OTHER; i++)
        vnode->links[i].durable_seq = 0;
    quorum_set_campaigning(shard, number, false);
    quorum_set_sealed(shard, number, false);
    quorum->outbid = false;
    quorum->stalled = false;
    quorum->cut_ns = 0;
    quorum->marked_seq = 0;
    quorum->committed_seq = 0;
    shard->quorum.due = true;
    shard->stats.quorum.terms++;
    quorum_found(shard, number);
    journal_header(shard, number);
}

void quorum_wait(struct shard *shard, uint32_t index, const struct answer *answer)
{
    struct pending_check *check = pending_at(shard, index);
    const uint32_t number = check->forward.vnode;
    const struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    uint64_t seq = table_vnode_seq(shard->table, number);
    if (seq <= quorum->marked_seq || seq <= quorum->committed_seq)
        /* QUORUM-3: nothing changed since others were asked; what they said before this is no
         * answer */
        table_set_vnode_seq(shard->table, number, ++seq);
    if (journal_clean(shard, number) && term_compare(&quorum->held, &vnode->term) == 0)
        quorum->held_seq = seq;
    else
        journal_header(shard, number);
    check->status = PENDING_COMMITTING;
    check->answer = *answer;
    check->sent_ns = shard->now_ns;
    /* A peer's forward is given up as others are; its repetitions wait beside it meanwhile. */
    if (check->from_peer && check->deadline_ns < shard->now_ns + COMMIT_MAX_NS)
        check->deadline_ns = shard->now_ns + COMMIT_MAX_NS;
    check->commit_seq = seq;
    check->commit_next = POOL_NONE;
    check->commit_last = quorum->last_part;
    if (quorum->last_part == POOL_NONE)
        quorum->first_pending = index;
    else
        pending_at(shard, quorum->last_part)->commit_next = index;
    quorum->last_part = index;
    shard->quorum.uncommitted++;
    shard->stats.quorum.checks++;
    shard->quorum.due = true;
    stream_owe_watermarks(shard, number);
    vnodes_mark_active(shard, number);
}

void quorum_forget(struct shard *shard, uint32_t index)
{
    const struct pending_check *check = pending_at(shard, index);
    struct quorum *quorum = quorum_of(shard, check->forward.vnode);
    ASSERT(check->status == PENDING_COMMITTING);
    if (check->commit_last == POOL_NONE)
        quorum->first_pending = check->commit_next;
    else
        pending_at(shard, check->commit_last)->commit_next = check->commit_next;
    if (check->commit_next == POOL_NONE)
        quorum->last_part = check->commit_last;
    else
        pending_at(shard, check->commit_next)->commit_last = check->commit_last;
    ASSERT(shard->quorum.uncommitted > 0); /* QUORUM-12 */
    shard->quorum.uncommitted--;
}

void quorum_advance(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct quorum *quorum = quorum_of(shard, number);
    if (!vnodes_leads(shard->vnodes[number].role))
        return;
    const uint64_t from = set_committed(shard, number, &quorum->from);
    const uint64_t to = set_committed(shard, number, &quorum->to);
    const uint64_t committed = from < to ? from : to;
    if (committed <= quorum->committed_seq)
        return;
    ASSERT(committed <= table_vnode_seq(shard->table, number)); /* QUORUM-3 */
    quorum->committed_seq = committed;
    if (committed >= table_vnode_seq(shard->table, number))
        quorum->stalled = false;
    while (quorum->first_pending != POOL_NONE &&
           pending_at(shard, quorum->first_pending)->commit_seq <= quorum->committed_seq) {
        const uint32_t index = quorum->first_pending;
        const struct answer answer = pending_at(shard, index)->answer;
        quorum_forget(shard, index);
        route_pending_answer(shard, index, &answer, shard->options.node_id, effects);
    }
}

void quorum_link_held(struct shard *shard, uint32_t number, uint32_t link,
                      const struct peer_vnode *entry, struct effects *effects)
{
    ASSERT(link < SHARD_REPLICAS_OTHER);
    struct vnode *vnode = &shard->vnodes[number];
    struct replica_link *state = &vnode->links[link];
    if (!vnodes_leads(vnode->role) || term_compare(&entry->term, &vnode->term) != 0 ||
        term_compare(&entry->state, &vnode->term) != 0 ||
        entry->seq > table_vnode_seq(shard->table, number) || entry->seq <= state->durable_seq)
        return;
    state->durable_seq = entry->seq;
    quorum_advance(shard, number, effects);
}

void quorum_doubt(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum_set_sealed(shard, number, false);
    quorum->stalled = false;
    while (quorum->first_pending != POOL_NONE) { /* QUORUM-6 */
        const uint32_t index = quorum->first_pending;
        quorum_forget(shard, index);
        struct pending_check *check = pending_at(shard, index);
        check->status = PENDING_PARKED;
        check->loaded = 0; /* ROUTEPENDING-5 */
        check->forward.flags |= FORWARD_RETRY;
        check->sends = 2;
        check->retry_ns = shard->now_ns;
        shard->stats.quorum.in_doubt++;
        shard->reroute_due = true;
    }
}

/* ---- replicas -------------------------------------------------------------------------------- */

void quorum_watermarked(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                        struct effects *effects)
{
    const uint32_t number = entry->vnode;
    const struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    if (vnode->role != ROLE_REPLICA)
        return; /* a state that was pulled: nobody counts on it yet */
    quorum_found(shard, number);
    /* It may come before the view that it is about, and an older one behind it (stream_in.c). */
    if ((entry->flags & ENTRY_SETTLED) != 0 && entry->term.epoch > quorum->settled_epoch) {
        quorum->settled_epoch = entry->term.epoch;
        vnodes_mark_active(shard, number);
    }
    if (journal_clean(shard, number) && term_compare(&quorum->held, &vnode->state) == 0) {
        /* QUORUM-4: only the seq differs */
        quorum->held_seq = table_vnode_seq(shard->table, number);
        stream_tell_held(shard, at, number, entry->sync, quorum->held_seq, effects);
    } else {
        quorum->tell_held = true;
        journal_header(shard, number);
    }
}

/* ---- the ring configuration ------------------------------------------------------------------ */

bool quorum_current(const struct shard *shard, uint32_t number)
{
    const struct quorum *quorum = quorum_of(shard, number);
    struct quorum_set from;
    struct quorum_set to;
    quorum_view_sets(shard, number, &from, &to);
    if (!set_equal(&from, &to) && shard->vnodes[number].term.epoch != shard->view->epoch)
        return false; /* QUORUM-9: the epoch may rise within a transition, when voters change */
    return set_equal(&quorum->from, &from) && set_equal(&quorum->to, &to);
}

/* Whether a majority of the set holds a state of this term durably. */
static bool set_confirmed(const struct shard *shard, uint32_t number, const struct quorum_set *set)
{
    return set_committed(shard, number, set) > 0;
}

/* Whether every member of the set is this node or has a link. */
static bool set_linked(const struct shard *shard, uint32_t number, const struct quorum_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->ids[i] != shard->options.node_id &&
            vnodes_link_to(&shard->vnodes[number], set->ids[i]) < 0)
            return false;
    return true;
}

/* The leader follows a change of the sets (QUORUM-9): its ballot stands for the old ones until a
 * majority of the new set holds the vnode, so that the new ballot costs one round trip. It goes
 * above a ballot that some replica has promised, so that this one can follow it again. */
static void follow_sets(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct quorum *quorum = quorum_of(shard, number);
    struct quorum_set from;
    struct quorum_set to;
    quorum_view_sets(shard, number, &from, &to);
    if (quorum_current(shard, number) && !quorum->outbid) {
        quorum_set_sealed(shard, number, false);
        return;
    }
    if (!quorum->outbid && shard->view->stable && set_equal(&quorum->to, &to)) {
        quorum->from = to; /* the transition is over */
        quorum_set_sealed(shard, number, false);
        quorum_advance(shard, number, effects);
    } else if (quorum->sealed) {
        const bool done = quorum->first_pending == POOL_NONE;
        if (!quorum_up_to_date(shard, number))
            quorum_set_sealed(shard, number, false); /* the view that is lacking will come */
        else if (done || shard->now_ns - quorum->campaign_ns > SEAL_MAX_NS)
            quorum_campaign(shard, number, true, !quorum->outbid, effects);
    } else if ((quorum->outbid || set_confirmed(shard, number, &to)) &&
               quorum_reachable(shard, number) && quorum_up_to_date(shard, number)) {
        if (!quorum_may_move(shard) ||
            !quorum_majority(shard, number, &from, &to, quorum_prompt_links(shard, number), true))
            return;
        quorum_set_sealed(shard, number, true);
        quorum->campaign_ns = shard->now_ns;
    } else if (!set_linked(shard, number, &quorum->from) ||
               !set_linked(shard, number, &quorum->to)) {
        vnodes_recover(shard, number, false, effects);
    }
}

/* Whether gossip has given up so many of the set that no majority is left. */
static bool set_lost(const struct shard *shard, const struct quorum_set *set)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < set->count; i++)
        left += !vnodes_given_up(shard, set->ids[i]);
    return left < set->count / 2 + 1u;
}

/* Whether all of the set that are left hold what this leader holds. */
static bool set_spread(const struct shard *shard, uint32_t number, const struct quorum_set *set)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < set->count; i++) {
        const int link = vnodes_link_to(vnode, set->ids[i]);
        if (set->ids[i] != shard->options.node_id && !vnodes_given_up(shard, set->ids[i]) &&
            (link < 0 || !vnode->links[link].confirmed))
            return false;
    }
    return true;
}

bool quorum_arrived(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    struct quorum_set from;
    struct quorum_set to;
    quorum_ring_sets(shard, number, &from, &to);
    if (quorum_forced(shard) && set_lost(shard, &to))
        return !vnodes_leads(vnode->role) || set_spread(shard, number, &to); /* QUORUM-11 */
    if (set_equal(&from, &to) || vnode->rank == UINT8_MAX)
        return true;
    return quorum->settled_epoch == shard->view->epoch;
}

/* Whether the leader may say that the vnode has arrived. */
static bool settles(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    return quorum_current(shard, number) && set_holds(&quorum->to, shard->options.node_id) &&
           set_confirmed(shard, number, &quorum->to) &&
           (vnode->rank == 0 || peers_silent_node(shard, vnode->ids[0], number));
}

/* ---- time ------------------------------------------------------------------------------------ */

bool quorum_committed(const struct shard *shard, uint32_t number)
{
    const struct quorum *quorum = quorum_of(shard, number);
    return quorum->first_pending == POOL_NONE && !quorum->stalled;
}

/* What could not be committed for too long is answered, though its outcome is unknown
 * (QUORUM-7). */
static void give_up_old(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct quorum *quorum = quorum_of(shard, number);
    const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
    while (quorum->first_pending != POOL_NONE) {
        const uint32_t index = quorum->first_pending;
        if (shard->now_ns - pending_at(shard, index)->sent_ns <= SHARD_QUORUM_TIMEOUT_NS)
            return;
        quorum->stalled = true;
        quorum_forget(shard, index);
        shard->stats.quorum.in_doubt++;
        shard->stats.quorum.unavailable++;
        route_pending_answer(shard, index, &unavailable, shard->options.node_id, effects);
    }
}

static void remind(struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    if (quorum_committed(shard, number) ||
        shard->now_ns - quorum->reminded_ns <= SHARD_QUORUM_REMIND_NS)
        return;
    quorum->reminded_ns = shard->now_ns;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].durable_seq < table_vnode_seq(shard->table, number))
            stream_watermark_again(shard, number, i);
}

void quorum_tick(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    give_up_old(shard, number, effects);
    remind(shard, number);
    if (quorum_reachable(shard, number))
        quorum->cut_ns = 0;
    else if (quorum->cut_ns == 0)
        quorum->cut_ns = shard->now_ns;
    if (quorum_cut_off(shard, quorum)) {
        vnodes_recover(shard, number, false, effects);
        return;
    }
    if (vnode->role == ROLE_LEADING)
        follow_sets(shard, number, effects);
    if (vnode->role == ROLE_LEADING && quorum->settled_epoch != shard->view->epoch &&
        settles(shard, number)) {
        quorum->settled_epoch = shard->view->epoch;
        stream_owe_watermarks(shard, number);
    }
}

bool quorum_quiescent(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    switch ((enum peer_role)vnode->role) {
    case ROLE_LEADING:
        return quorum_committed(shard, number) && quorum_current(shard, number) &&
               !quorum->sealed && !quorum->outbid && quorum->cut_ns == 0;
    case ROLE_REPLICA:
        return quorum->lost_ns == 0;
    case ROLE_ABSENT:
        return vnode->rank == UINT8_MAX;
    case ROLE_RECOVERING:
    case ROLE_TRANSFERRING:
    case ROLE_END:
        break;
    }
    return false;
}

/* Returns how many decisions wait for a majority. */
static uint32_t check_commits(const struct shard *shard, uint32_t number)
{
    const struct quorum *quorum = quorum_of(shard, number);
    uint32_t count = 0;
    uint32_t before = POOL_NONE;
    uint64_t seq = 0;
    for (uint32_t at = quorum->first_pending; at != POOL_NONE; count++) {
        const struct pending_check *check = pending_at(shard, at);
        INVARIANT("QUORUM-12", count < shard->active_count);
        INVARIANT("QUORUM-12",
                  check->status == PENDING_COMMITTING && check->forward.vnode == number);
        INVARIANT("QUORUM-12", check->commit_last == before);
        INVARIANT("QUORUM-3", check->commit_seq > quorum->committed_seq);
        INVARIANT("QUORUM-12", check->commit_seq >= seq);
        seq = check->commit_seq;
        before = at;
        at = check->commit_next;
    }
    INVARIANT("QUORUM-12", quorum->last_part == before);
    return count;
}

static void check_leads(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    INVARIANT("BALLOT-6", !quorum->campaigning);
    INVARIANT("QUORUM-3", quorum->committed_seq <= table_vnode_seq(shard->table, number));
    for (uint32_t i = 0; i < vnode->link_count; i++)
        INVARIANT("QUORUM-4", vnode->links[i].durable_seq <= table_vnode_seq(shard->table, number));
    INVARIANT("QUORUM-9", quorum->from.count > 0 && quorum->to.count > 0);
    INVARIANT("QUORUM-9", quorum->from.count <= VIEW_REPLICATION_MAX);
    INVARIANT("QUORUM-9", quorum->to.count <= VIEW_REPLICATION_MAX);
}

static void check_ballot(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct quorum *quorum = quorum_of(shard, number);
    const uint32_t beyond = UINT32_MAX << SHARD_REPLICAS_OTHER;
    INVARIANT("BALLOT-6", quorum->moving == (quorum->sealed || quorum->campaigning));
    INVARIANT("BALLOT-7", !quorum->sealed || vnodes_leads(vnode->role));
    INVARIANT("BALLOT-7",
              (((uint32_t)quorum->promises | quorum->refused | quorum->free) & beyond) == 0);
    if (vnodes_mine(shard, number) && vnode->role != ROLE_ABSENT)
        INVARIANT("BALLOT-1", term_compare(&quorum->promised, &vnode->term) <= 0);
    if (quorum->campaigning)
        INVARIANT("BALLOT-7",
                  vnode->role == ROLE_RECOVERING && vnode->term.writer == shard->options.node_id);
    INVARIANT("QUORUM-6", quorum->first_pending == POOL_NONE || vnodes_leads(vnode->role));
}

void quorum_check_invariants(const struct shard *shard)
{
    uint32_t moving = 0;
    uint32_t uncommitted = 0;
    for (uint32_t number = shard->options.vnodes; number < shard->vnode_end; number++) {
        const struct merge_vnode *merge = &shard->vnodes[number].merge;
        INVARIANT("QUORUM-12", merge->lineage.count == 0 && !merge->lineage.blind);
        INVARIANT("QUORUM-12", !merge->deposed && !merge->begun);
        check_ballot(shard, number);
        if (vnodes_leads(shard->vnodes[number].role))
            check_leads(shard, number);
        moving += quorum_of(shard, number)->moving;
        uncommitted += check_commits(shard, number);
    }
    INVARIANT("BALLOT-6", moving == shard->quorum.moving);
    INVARIANT("QUORUM-12", uncommitted == shard->quorum.uncommitted);
}
