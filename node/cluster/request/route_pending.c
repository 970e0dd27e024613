/* route_pending.c - checks that cannot be decided at once: they wait for a peer, a term, or the
 * disk.
 *
 *               no route                 the vnode is decided here
 *      new ---> PARKED <-------+---------------------------------> engine --> route_pending_answer
 *        \        ^  |         |                                     | slot on disk
 *         \       |  v         | peer gone, no answer, MOVED         v
 *          +--> WAITING -------+                                  LOADING
 *
 * In the plane of quorum the engine leads to COMMITTING: the answer is there, and leaves when a
 * majority holds what it says; who stops deciding before that parks the check (QUORUM-6). So does
 * the answer to who asks for a lease of tokens, in the other plane: HOLDING (lessor.c).
 *
 * A check keeps everything needed to send it again: forwards are repeated, with the retry flag,
 * until they are answered or the caller's deadline passes. The leader's retry memory sees to it
 * that a repeated one is charged once.
 *
 * ROUTEPENDING-1  A ticket names a check, its generation and how often it changed between its
 *                 leader and a fallback leader, so an answer that comes too late meets nothing.
 *                 Each process counts generations from another number: what it is not asked it is
 *                 not told.
 *
 *         ticket   | generation 32 | stands 16 | place 16 |
 *
 * ROUTEPENDING-2  The number of checks is bounded; without room a check is answered busy, at once.
 * ROUTEPENDING-3  A check of a peer's forward never travels on: it is decided here, or its sender
 *                 is told where the vnode has moved. So no forward can go round in circles.
 * ROUTEPENDING-4  A peer's forward that must wait is kept only until its sender repeats it: so a
 *                 check has one check here, or two for a moment, however often it is repeated.
 *                 While it commits, each repetition is recalled and waits beside it: a handful,
 *                 until quorum.c gives them up. While it waits for another region, each one joins
 *                 it (REMOTE-7).
 * ROUTEPENDING-5  That the disk has no record of a key is known only for the moment at which it
 *                 said so: a check that waits for anything else asks the disk anew.
 * ROUTEPENDING-6  What the disk gave is in memory, and if it leaves again before the check is
 *                 decided, the disk is asked again: a key is new only if the disk did not have it.
 * ROUTEPENDING-7  An undo is sent again until its leader acknowledges it, whatever it says before,
 *                 for SHARD_UNDO_NS; then it is given up, and counted. It may come twice: reserve.h
 *                 sees to that. Of a reservation it is a cancel, which may come twice as well.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/dedup/lease_id.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

static uint32_t part_of(const struct shard *shard, uint64_t ticket)
{
    return pending_in(shard, ticket, PENDING_WAITING);
}

/* The vnode by which it is routed: of what another region counts this one has no plane of quorum.
 */
static uint32_t vnode_of(const struct shard *shard, const struct forward *forward)
{
    return forward->home != 0 ? vnodes_ring(shard, forward->vnode) : forward->vnode;
}

/* ---- sending --------------------------------------------------------------------------------- */

void route_pending_send(struct shard *shard, uint32_t index, uint16_t at, struct forward *forward,
                        struct effects *effects)
{
    ASSERT(at < shard->peer_count); /* PENDINGCHECK-6 */
    struct pending_check *check = pending_at(shard, index);
    check->status = PENDING_WAITING;
    check->peer = at;
    check->sent_ns = shard->now_ns;
    forward->ticket = pending_ticket(shard, index);
    const uint64_t rules = forward->rules;
    const uint16_t class = forward->class;
    const bool sure = forward->sure;
    const uint8_t reads = shard->peers[at]->reads;
    if (!shard->peers[at]->versions)
        forward->rules = 0;
    forward->class = (reads & READS_CLASSES) != 0 ? class : 0;
    forward->sure = sure && (reads & READS_SURE) != 0;
    peer_put_forward(peers_outbox(shard, at, PEER_RECORD_MAX, effects), forward);
    forward->rules = rules;
    forward->class = class;
    forward->sure = sure;
    shard->stats.resent += (check->forward.flags & FORWARD_RETRY) != 0;
    check->loaded = 0;                     /* ROUTEPENDING-5 */
    check->forward.flags |= FORWARD_RETRY; /* from the second time on */
    shard->stats.forwarded++;
    shard->peers[at]->forwarded++;
}

/* From here on the check is its leader's, not a fallback leader's: FALLBACK-3. */
static void leave_fallback(struct pending_check *check)
{
    if (check->at_fallback)
        check->stands++;
    check->at_fallback = false;
}

static void send(struct shard *shard, uint32_t index, uint16_t at, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    ASSERT(!check->from_peer || check->forward.home != 0); /* ROUTEPENDING-3 */
    leave_fallback(check);
    shard->stats.undo_resent += check->undo && check->sends > 0;
    route_pending_send(shard, index, at, &check->forward, effects);
    if (check->sends < 2)
        check->sends++;
}

static void tell_moved(struct shard *shard, uint16_t at, uint64_t ticket, uint32_t vnode,
                       struct effects *effects)
{
    ASSERT(at < shard->peer_count && vnode < shard->vnode_end);
    shard->stats.moved++;
    peer_put_moved(peers_outbox(shard, at, PEER_RECORD_MAX, effects), ticket, vnode,
                   &shard->vnodes[vnode].term);
}

static void refuse(struct shard *shard, uint32_t index, struct effects *effects)
{
    const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
    shard->stats.quorum.unavailable++;
    route_pending_answer(shard, index, &unavailable, shard->options.node_id, effects);
}

void route_pending_dispatch(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    const uint32_t vnode = vnode_of(shard, &check->forward);
    uint16_t at = PEER_NONE;
    if (check->cache != 0 && check->forward.home != 0) {
        cross_region_send(shard, index, effects);
        return;
    }
    switch (vnodes_route(shard, vnode, &at)) {
    case ROUTE_HERE:
        if (check->forward.home != 0) {
            leave_fallback(check);
            cross_region_decide(shard, index, effects);
        } else if (shard->batch.delivering) {
            pending_rest(shard, check);
            shard->reroute_due = true;
        } else {
            /* A copy that was sent elsewhere may have been decided there. */
            shard->stats.resent += check->sends > 0 && !check->from_peer;
            leave_fallback(check);
            decide_part(shard, index, effects);
        }
        break;
    case ROUTE_PEER:
        if (check->from_peer && check->forward.home == 0 &&
            decide_only_once(shard, &check->forward)) {
            refuse(shard, index, effects); /* MOVED would say that it was not done here */
        } else if (check->from_peer) {     /* ROUTEPENDING-3 */
            tell_moved(shard, check->origin_peer, check->origin_ticket, vnode, effects);
            pending_free(shard, index);
        } else if ((check->forward.flags & FORWARD_HOLD) != 0 &&
                   !lessor_reads(shard->peers[at], &check->forward)) {
            const struct answer busy = {.status = ANSWER_BUSY}; /* LESSOR-4 */
            shard->stats.leases_refused++;
            route_pending_answer(shard, index, &busy, shard->options.node_id, effects);
        } else {
            send(shard, index, at, effects);
        }
        break;
    case ROUTE_WAIT:
        if (fallback_allowed(check) && fallback_needed(shard, vnode))
            fallback_dispatch(shard, index, effects);
        else
            pending_rest(shard, check);
        break;
    case ROUTE_NONE:
        if (fallback_allowed(check))
            fallback_dispatch(shard, index, effects);
        else if (check->undo)
            pending_rest(shard, check);
        else
            refuse(shard, index, effects);
        break;
    }
}

void route_pending_forwarded(struct shard *shard, uint16_t from, const struct forward *forward,
                             struct effects *effects)
{
    if ((forward->flags & FORWARD_FALLBACK) != 0) {
        fallback_forwarded(shard, from, forward, effects);
        return;
    }
    uint16_t at = PEER_NONE;
    const uint32_t vnode = vnode_of(shard, forward);
    const enum route route = vnodes_route(shard, vnode, &at);
    const bool quorum = vnodes_quorum(shard, vnode);
    const bool waits = quorum || forward->home != 0 || lessor_asks(forward) ||
                       forward_reserves(forward) ||
                       lessor_sure(shard, forward); /* so it has a check */
    if (route == ROUTE_HERE && forward->home != 0 &&
        cross_region_decide_forward(shard, from, forward, effects))
        return;
    if (route == ROUTE_HERE && !waits) {
        decide_forward(shard, from, forward, effects);
        return;
    }
    if (route == ROUTE_PEER) {
        tell_moved(shard, from, forward->ticket, vnode, effects);
        return;
    }
    const uint32_t index = pending_new(shard, forward, shard->now_ns + SHARD_RESEND_NS);
    if (index == POOL_NONE) { /* QUORUM-10 */
        const struct answer busy = {.status = ANSWER_BUSY};
        shard->stats.busy++;
        peer_put_answer(peers_outbox(shard, from, PEER_RECORD_MAX, effects), forward->ticket,
                        &busy);
        return;
    }
    struct pending_check *check = pending_at(shard, index);
    check->from_peer = true;
    check->origin_peer = from;
    check->origin_ticket = forward->ticket;
    if (quorum || (route == ROUTE_HERE && waits))
        route_pending_dispatch(shard, index, effects);
    else
        pending_rest(shard, check);
}

/* ---- answers --------------------------------------------------------------------------------- */

void route_pending_answer(struct shard *shard, uint32_t index, const struct answer *answer,
                          uint64_t node, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    const bool decided = answer->status == ANSWER_DECIDED;
    if (check->undo && !decided && shard->now_ns < check->deadline_ns) {
        check->forward.flags |= FORWARD_RETRY;
        pending_rest(shard, check); /* ROUTEPENDING-7 */
    } else if (check->undo) {
        shard->stats.undone += decided;
        shard->stats.undo_lost += !decided;
        pending_free(shard, index);
    } else if (check->from_peer) {
        if (check->forward.home != 0 && answer->status == ANSWER_UNAVAILABLE)
            cross_region_unavailable(shard, index);
        peer_put_answer(peers_outbox(shard, check->origin_peer, PEER_RECORD_MAX, effects),
                        check->origin_ticket, answer);
        pending_free(shard, index);
    } else if (check->remote) {
        remote_answer(shard, index, answer, effects);
        pending_free(shard, index);
    } else if (check->cache != 0) {
        check->answer = *answer;
        lessee_answered(shard, index, effects);
        pending_free(shard, index);
    } else if (answer->status != ANSWER_UNAVAILABLE ||
               !cross_region_fall_back(shard, index, effects)) {
        check->status = PENDING_DONE;
        check->answer = *answer;
        check->answer.degraded = check->answer.degraded || check->fell_back;
        requests_pending_done(shard, index, node, effects);
    }
}

void route_pending_explained(struct shard *shard, uint64_t ticket, const struct peer_state *states,
                             uint32_t count, struct effects *effects)
{
    const uint32_t index = part_of(shard, ticket);
    if (index != POOL_NONE)
        explain_part(shard, index, states, count, effects);
}

void route_pending_answered(struct shard *shard, uint16_t at, uint64_t ticket,
                            const struct answer *answer, struct effects *effects)
{
    const uint32_t index = part_of(shard, ticket);
    if (index == POOL_NONE)
        return;
    struct pending_check *check = pending_at(shard, index);
    const bool refused = answer->status == ANSWER_UNAVAILABLE && check->at_fallback;
    if (refused)
        pending_rest(shard, check); /* FALLBACK-4 */
    else if (answer->status == ANSWER_UNAVAILABLE && check->forward.home == 0 &&
             fallback_allowed(check))
        fallback_dispatch(shard, index, effects);
    else
        route_pending_answer(shard, index, answer, shard->peers[at]->node, effects);
}

void route_pending_moved(struct shard *shard, uint64_t ticket)
{
    const uint32_t index = part_of(shard, ticket);
    if (index == POOL_NONE)
        return;
    struct pending_check *check = pending_at(shard, index);
    pending_rest(shard, check);
    const uint32_t vnode = vnode_of(shard, &check->forward);
    if (check->sends == 1 && vnodes_quorum(shard, vnode)) {
        /* The only copy was not decided: what gives back may still be done (DECIDE-7). */
        check->forward.flags &= (uint8_t)~FORWARD_RETRY;
        check->sends = 0;
    }
    if (vnodes_leader(shard, vnode) != shard->peers[check->peer]->node) {
        check->retry_ns = shard->now_ns; /* it told something new */
        shard->reroute_due = true;
    }
}

void route_pending_undo(struct shard *shard, uint32_t index, uint64_t keep, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    ASSERT(check->status == PENDING_DONE && !check->undo); /* RESERVE-1 */
    ASSERT((check->forward.flags & FORWARD_SEVERAL) != 0);
    check->forward.attempt = pending_attempt(shard, index);
    check->undo = true;
    check->at_fallback = false;
    check->request = POOL_NONE;
    check->sibling = POOL_NONE;
    check->deadline_ns = shard->now_ns + SHARD_UNDO_NS;
    check->forward.sure = false;
    check->sends = 0;
    if (forward_reserves(&check->forward)) {
        check->forward.operation = OPERATION_CANCEL;
        check->forward.cost = decide_lease_of(shard, &check->forward.retry);
        check->forward.used = 1; /* LEASED-9 */
        check->forward.flags = FORWARD_HOLD | FORWARD_SEVERAL;
    } else {
        check->forward.operation = OPERATION_REFUND;
        check->forward.cost = keep;
        check->forward.flags = FORWARD_SEVERAL;
        check->forward.retry.part |= RETRY_UNDO;
    }
    check->generation = ++shard->generation;
    route_pending_dispatch(shard, index, effects);
}

/* ---- loads ----------------------------------------------------------------------------------- */

static uint32_t find_load(const struct shard *shard, struct hash128 id)
{
    for (uint32_t i = 0; i < shard->loads.count; i++)
        if (hash128_equal(shard->loads.list[i].id, id))
            return i;
    return POOL_NONE;
}

/* The first limit of the check whose slot may be on disk and was not asked for, or -1. */
static int missing_limit(const struct shard *shard, const struct pending_check *check)
{
    for (uint32_t i = 0; i < check->forward.limit_count; i++)
        if ((check->loaded & 1u << i) == 0 &&
            table_lookup(shard->table, check->forward.ids[i]) == TABLE_NONE &&
            table_filter_maybe(shard->table, check->forward.vnode, check->forward.ids[i]))
            return (int)i;
    return -1;
}

void route_pending_load(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    const int limit = missing_limit(shard, check);
    if (limit < 0) {
        check->status = PENDING_PARKED;
        check->retry_ns = shard->now_ns;
        shard->reroute_due = true;
        return;
    }
    const struct hash128 id = check->forward.ids[limit];
    uint32_t at = find_load(shard, id);
    if (at == POOL_NONE && shard->loads.count == SHARD_LOADS_MAX) {
        const struct answer busy = {.status = ANSWER_BUSY};
        shard->stats.busy++;
        route_pending_answer(shard, index, &busy, shard->options.node_id, effects);
        return;
    }
    if (at == POOL_NONE) {
        at = shard->loads.count++;
        shard->loads.list[at] = (struct load){check->forward.vnode, id, POOL_NONE};
        struct effect *effect = effects_add(effects, EFFECT_LOAD);
        effect->vnode = check->forward.vnode;
        effect->id = id;
        shard->stats.loads++;
    }
    ASSERT(check->next_load == POOL_NONE); /* PENDINGCHECK-3 */
    check->status = PENDING_LOADING;
    check->loading = (uint8_t)limit;
    check->next_load = shard->loads.list[at].first_pending;
    shard->loads.list[at].first_pending = index;
}

bool route_pending_await(const struct shard *shard, struct hash128 id)
{
    return find_load(shard, id) != POOL_NONE;
}

void route_pending_loaded(struct shard *shard, uint32_t vnode, struct hash128 id, int result,
                          struct effects *effects)
{
    const uint32_t at = find_load(shard, id);
    (void)vnode;
    if (at == POOL_NONE)
        return;
    const bool absent = table_lookup(shard->table, id) == TABLE_NONE;
    shard->stats.loads_missed += result == TG_ENOTFOUND;
    uint32_t index = shard->loads.list[at].first_pending;
    shard->loads.list[at] = shard->loads.list[--shard->loads.count];
    while (index != POOL_NONE) {
        struct pending_check *check = pending_at(shard, index);
        ASSERT(check->status == PENDING_LOADING); /* PENDINGCHECK-3 */
        const uint32_t next = check->next_load;
        check->next_load = POOL_NONE;
        if (result == 0 || result == TG_ENOTFOUND) {
            if (absent) /* ROUTEPENDING-6 */
                check->loaded |= (uint8_t)(1u << check->loading);
            route_pending_dispatch(shard, index, effects);
        } else {
            const bool full = result == TG_EFULL;
            const struct answer failed = {.status = full ? ANSWER_BUSY : ANSWER_UNAVAILABLE,
                                          .full = full,
                                          .granted = full ? check->forward.cost : 0};
            shard->stats.busy += full;
            route_pending_answer(shard, index, &failed, shard->options.node_id, effects);
        }
        index = next;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void give_up(struct shard *shard, uint32_t index, struct effects *effects)
{
    const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
    shard->stats.expired++;
    if (fallback_late(shard, index, effects)) /* FALLBACK-7 */
        return;
    route_pending_answer(shard, index, &unavailable, 0, effects);
}

/* Takes a check that waits for its slot out of the load's list. */
static void leave_load(struct shard *shard, uint32_t index)
{
    const struct pending_check *check = pending_at(shard, index);
    ASSERT(check->status == PENDING_LOADING && check->loading < check->forward.limit_count);
    const uint32_t at = find_load(shard, check->forward.ids[check->loading]);
    ASSERT(at != POOL_NONE);
    uint32_t *link = &shard->loads.list[at].first_pending;
    while (*link != index)
        link = &pending_at(shard, *link)->next_load;
    *link = check->next_load;
}

static void tick_pending(struct shard *shard, uint32_t index, bool reroute, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    const bool late = shard->now_ns >= check->deadline_ns;
    if (check->status == PENDING_PARKED) {
        if (late && check->from_peer)
            pending_free(shard, index); /* ROUTEPENDING-4 */
        else if (late)
            give_up(shard, index, effects);
        else if (reroute || shard->now_ns >= check->retry_ns)
            route_pending_dispatch(shard, index, effects);
    } else if (check->status == PENDING_WAITING) {
        if (late)
            give_up(shard, index, effects);
        else if (peers_silent(shard, check->peer) ||
                 shard->now_ns - check->sent_ns >= SHARD_RESEND_NS)
            route_pending_dispatch(shard, index, effects);
    } else if (check->status == PENDING_REMOTE) {
        if (late)
            give_up(shard, index, effects);
        else if (shard->now_ns >= check->retry_ns)
            route_pending_dispatch(shard, index, effects);
    } else if (check->status == PENDING_COMMITTING && late) {
        quorum_forget(shard, index);
        shard->stats.quorum.in_doubt++;
        give_up(shard, index, effects);
    } else if (check->status == PENDING_LEASE_REPLICATION && late) {
        lessor_forget(shard, index);
        give_up(shard, index, effects);
    } else if (check->status == PENDING_LOADING && late) {
        leave_load(shard, index);
        give_up(shard, index, effects);
    }
}

void route_pending_due(struct shard *shard, int64_t deadline_ns)
{
    if (deadline_ns > shard->now_ns && deadline_ns < shard->next.pending_ns)
        shard->next.pending_ns = deadline_ns;
}

void route_pending_tick(struct shard *shard, struct effects *effects)
{
    const bool reroute = shard->reroute_due;
    shard->reroute_due = false;
    /* From the end: a check that is freed is replaced by one that was looked at already. */
    for (uint32_t at = shard->active_count; at > 0; at--)
        if (at <= shard->active_count)
            tick_pending(shard, shard->active[at - 1], reroute, effects);
    for (uint32_t at = 0; at < shard->active_count; at++)
        route_pending_due(shard, pending_at(shard, shard->active[at])->deadline_ns);
    decide_run(shard, effects);
}
