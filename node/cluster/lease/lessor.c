/* lessor.c - leases of tokens at their leader: which are granted, and when that is told; and what
 * else is told only when replicas know it.
 *
 * A holder of tokens (node/limit/algorithms/leased.c) admits requests by itself until its lease
 * ends. Who decides meanwhile has to know the lease, whoever that is: else it would grant the same
 * tokens again. The lease is in the slot, and goes where the slot goes; so all that is left to do
 * is not to tell of a lease that a successor might not know, and to grant none while one might be
 * out that is not known here.
 *
 *     LEASE --decided--> HOLDING --a majority holds the vnode at that seq--> answered
 *                           |  \--the vnode is decided elsewhere-----------> asked for there
 *                           +-----the caller's time is over---------------> unavailable: spent
 *
 * LESSOR-1  A grant is told when a majority of the vnode's replicas, this leader among them, holds
 *           it. Who takes over asks the others before it opens a term (VNODES-2), so a crash
 *           forgets no lease that anybody holds. (In the plane of quorum every answer waits so:
 *           quorum.c.) What is not told in time stays out until its end, and is spent.
 * LESSOR-2  No lease is granted while no majority stands behind the leader (vnodes_degraded): it
 *           could not be told.
 * LESSOR-3  Learning. A term may be opened on a state that lacks a lease: when fewer than a
 *           majority said what they hold; who lost his memory since, this node or another, counts
 *           for none of them. It grants none until the longest lease is over. One that was passed
 *           on in order has the whole table; by a leader that is learning itself, it has no more
 *           than that one, and learns as well.
 * LESSOR-4  No lease is granted while some replica is of a release that does not read the bytes of
 *           a slot with leases. Nor is one asked for at a leader of such a release.
 * LESSOR-5  LESSOR_MAX answers wait at a time, and a lease only among fewer than LESSOR_LEASES_MAX;
 *           who comes then is busy. A release waits for nobody: forgotten, it costs tokens, and
 *           admits none. A renewal is told as a lease is: who did not know it would charge the
 *           tokens as of the old end, and let them drain while they are used.
 * LESSOR-6  Of a rule with consistency `any` a check that finds no tokens where it is asked is
 *           decided here, and is to be sure: what it is granted is told as a lease is, when a
 *           majority knows it (LESSOR-1). So a leader that dies takes no admission along that its
 *           successor does not count. Without a majority behind it (LESSOR-2) it is told at once,
 *           as `degraded`; so are those that wait. What is not granted charges nothing, and waits
 *           for nobody.
 * LESSOR-7  The answers that wait are those of the checks that say so, each once, and of the term
 *           of their vnode or of one before it.
 * LESSOR-8  A reservation is told as a lease is (LESSOR-1, LESSOR-2, LESSOR-5), while each replica
 *           is of a release that reads reservations. So is its commit, as a check that is to be
 *           sure (LESSOR-6): it charges less than was held, and a successor that did not know it
 *           would give back all of that in the end. A cancel waits for nobody: what is forgotten of
 *           it ends by itself. Who learns (LESSOR-3) reserves, as it checks: a reservation that a
 *           majority knew is forgotten only with the counts of its vnode, and its commit is a hit
 *           then.
 */
#include "node/cluster/lease/lessor.h"
#include "node/cluster/partition/vnodes.h"

#include "base/assert.h"

/* How many replicas the vnode has, this node included. */
static uint32_t replicas_of(const struct vnode *vnode)
{
    uint32_t replicas = 1;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        replicas += vnode->links[i].node != 0;
    return replicas;
}

static bool is_majority(const struct vnode *vnode, uint32_t count)
{
    ASSERT(count <= replicas_of(vnode)); /* LESSOR-1 */
    return count >= replicas_of(vnode) / 2 + 1;
}

bool lessor_reads(const struct peer *peer, const struct forward *forward)
{
    return peer->leases && (!forward_reserves(forward) || (peer->reads & READS_RESERVATIONS) != 0);
}

/* LESSOR-4, LESSOR-8 */
static bool all_read(const struct shard *shard, const struct vnode *vnode,
                     const struct forward *forward)
{
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].node != 0 && vnode->links[i].peer != PEER_NONE &&
            !lessor_reads(shard->peers[vnode->links[i].peer], forward))
            return false;
    return true;
}

bool lessor_sure(const struct shard *shard, const struct forward *forward)
{
    return forward->sure && forward->home == 0 && !vnodes_quorum(shard, forward->vnode) &&
           replicas_of(&shard->vnodes[forward->vnode]) > 1 &&
           !vnodes_degraded(shard, forward->vnode);
}

bool lessor_refuses(const struct shard *shard, const struct forward *forward)
{
    const uint32_t number = forward->vnode;
    const struct vnode *vnode = &shard->vnodes[number];
    if (!all_read(shard, vnode, forward))
        return true;
    if (!lessor_asks(forward))
        return false;
    if (shard->lessor.count >= LESSOR_LEASES_MAX)
        return true;
    if (vnodes_quorum(shard, number))
        return false;
    return vnodes_degraded(shard, number) ||
           (!forward_reserves(forward) && lessor_learns(shard, number));
}

bool lessor_learns(const struct shard *shard, uint32_t number)
{
    return !vnodes_quorum(shard, number) && shard->now_ns < shard->vnodes[number].learned_ns;
}

void lessor_learn(struct shard *shard, uint32_t number)
{
    shard->vnodes[number].learned_ns = shard->now_ns + LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS;
}

/* Of the replicas that told what they hold, those whose processes are older than any lease: one
 * that restarted lost what it had acknowledged. */
static uint32_t witnesses_of(const struct shard *shard, const struct vnode *vnode)
{
    const int64_t longest_ns = LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS;
    uint32_t witnesses = 0;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint16_t at = vnode->links[i].peer;
        witnesses += (vnode->reported & 1u << i) != 0 && at != PEER_NONE &&
                     shard->now_ns >= shard->peers[at]->met_ns + longest_ns;
    }
    return witnesses;
}

void lessor_opening(struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role == ROLE_REPLICA || vnodes_quorum(shard, number))
        return; /* it was passed on, or is known to a majority by other means */
    const uint32_t own = vnode->fresh ? 0 : 1;
    if (!is_majority(vnode, own + witnesses_of(shard, vnode)))
        lessor_learn(shard, number);
}

/* ---- answers that wait ----------------------------------------------------------------------- */

/* LESSOR-1 */
static bool is_known(const struct shard *shard, uint32_t number, uint64_t seq)
{
    const struct vnode *vnode = &shard->vnodes[number];
    uint32_t holders = 1;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        holders += vnode->links[i].node != 0 && stream_held_seq(shard, number, i) >= seq;
    return is_majority(vnode, holders);
}

static void drop(struct shard *shard, uint32_t at)
{
    ASSERT(at < shard->lessor.count); /* LESSOR-7 */
    shard->lessor.waiting[at] = shard->lessor.waiting[--shard->lessor.count];
}

void lessor_wait(struct shard *shard, uint32_t index, const struct answer *answer,
                 struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    const uint32_t number = check->forward.vnode;
    const uint64_t seq = table_vnode_seq(shard->table, number);
    const bool sure = check->forward.sure;
    if (shard->lessor.count == LESSOR_MAX) { /* LESSOR-5 */
        const struct answer busy = {.status = ANSWER_BUSY};
        shard->stats.leases_refused += !sure;
        route_pending_answer(shard, index, &busy, shard->options.node_id, effects);
        return;
    }
    ASSERT(check->status != PENDING_LEASE_REPLICATION); /* LESSOR-7: once each */
    check->status = PENDING_LEASE_REPLICATION;
    check->answer = *answer;
    if (check->from_peer && check->deadline_ns < shard->now_ns + SHARD_FORWARD_NS)
        check->deadline_ns = shard->now_ns + SHARD_FORWARD_NS;
    shard->lessor.waiting[shard->lessor.count++] =
        (struct lessor_lease){.part = index, .seq = seq, .term = shard->vnodes[number].term};
    shard->quorum.due =
        shard->quorum.due || sure || forward_reserves(&check->forward); /* not for time */
}

void lessor_forget(struct shard *shard, uint32_t index)
{
    for (uint32_t at = 0; at < shard->lessor.count; at++) {
        if (shard->lessor.waiting[at].part != index)
            continue;
        drop(shard, at);
        shard->stats.leases_untold += !pending_at(shard, index)->forward.sure;
        return;
    }
    ASSERT(false); /* a check that holds is in the list */
}

void lessor_step(struct shard *shard, struct effects *effects)
{
    if (!shard->lessor.due && shard->now_ns - shard->lessor.looked_ns < MS)
        return; /* each event comes here, and there may be many that wait */
    shard->lessor.due = false;
    shard->lessor.looked_ns = shard->now_ns;
    for (uint32_t at = shard->lessor.count; at > 0; at--) {
        const struct lessor_lease hold = shard->lessor.waiting[at - 1];
        struct pending_check *check = pending_at(shard, hold.part);
        const uint32_t number = check->forward.vnode;
        const struct vnode *vnode = &shard->vnodes[number];
        ASSERT(check->status == PENDING_LEASE_REPLICATION);
        if ((vnode->role != ROLE_LEADING && vnode->role != ROLE_TRANSFERRING) ||
            term_compare(&vnode->term, &hold.term) != 0) {
            drop(shard, at - 1);
            check->status = PENDING_PARKED;
            check->forward.flags |= FORWARD_RETRY;
            check->retry_ns = shard->now_ns;
            shard->reroute_due = true;
        } else if (is_known(shard, number, hold.seq) ||
                   (check->forward.sure && vnodes_degraded(shard, number))) {
            struct answer answer = check->answer;
            answer.degraded = answer.degraded || vnodes_degraded(shard, number);
            drop(shard, at - 1);
            shard->stats.leases_granted += !check->forward.sure;
            route_pending_answer(shard, hold.part, &answer, shard->options.node_id, effects);
        }
    }
}

/* ---- what always holds ----------------------------------------------------------------------- */

void lessor_check_invariants(const struct shard *shard)
{
    const struct lessor *lessor = &shard->lessor;
    uint32_t waiting = 0;
    INVARIANT("LESSOR-5", lessor->count <= LESSOR_MAX);
    for (uint32_t at = 0; at < shard->active_count; at++)
        waiting += pending_at(shard, shard->active[at])->status == PENDING_LEASE_REPLICATION;
    INVARIANT("LESSOR-7", waiting == lessor->count);
    for (uint32_t at = 0; at < lessor->count; at++) {
        const struct lessor_lease *lease = &lessor->waiting[at];
        INVARIANT("LESSOR-7", pool_in_use(&shard->pending, lease->part));
        const struct pending_check *check = pending_at(shard, lease->part);
        INVARIANT("LESSOR-7", check->status == PENDING_LEASE_REPLICATION);
        INVARIANT("LESSOR-7",
                  term_compare(&lease->term, &shard->vnodes[check->forward.vnode].term) <= 0);
        for (uint32_t k = 0; k < at && at < LESSOR_LEASES_MAX; k++)
            INVARIANT("LESSOR-7", lessor->waiting[k].part != lease->part);
    }
}
