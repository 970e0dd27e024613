/* fallback.c - `on_failure: local`: who decides when neither the leader nor a replica answers.
 *
 * A rule may prefer a guess to an error. When all who could decide a vnode are silent, by this
 * node's own evidence, the first member that lives in the vnode's whole rendezvous order decides
 * with a share of the limit. The order is the same everywhere, so that on each side of a split
 * there is one fallback leader for a key, not one per node.
 *
 *     order of vnode v:   n4     n1     n7     n2     n5    ...
 *                       (replica, silent)  (silent)  ^ lives: the fallback leader
 *
 *     part --limits scaled, FORWARD_FALLBACK--> fallback leader's own table --answer, degraded-->
 * part
 *
 * What a fallback leader counts is in a table of its own: never replicated, never on disk, not
 * merged when the leader is back, forgotten when it expires. As soon as some leader or replica is
 * heard, checks go there again.
 *
 * FALLBACK-1  A check goes to a fallback leader only if its rule says so and nobody who may decide
 *             is heard.
 * FALLBACK-2  A fallback leader decides what it is sent and sends nothing on: a forward cannot go
 *             in circles.
 * FALLBACK-3  A check that changes between fallback leader and leader gets a new ticket, and stays
 *             the same attempt (retry.h): it is answered by whom it was sent to last, and what its
 *             leader has charged for it by then is undone if it is denied, or may have been.
 * FALLBACK-4  Who is asked to stand in and hears somebody who may decide refuses, and the check is
 *             tried again: it waits until that one is heard where it waits, too. Else, when a split
 *             begins or heals link by link, a key would get a share from one node after another.
 * FALLBACK-5  What a fallback leader granted is not given back when another part of the item is
 *             denied; it drains.
 * FALLBACK-6  Of a rule with consistency `any` each node stands in for itself: it never asks
 *             another one for what it may decide, so there is one share per node.
 * FALLBACK-7  A proxy takes an answer that is late for none, and lets its request pass. So a
 *             check of a domain's descriptors whose time is over is decided at once by the node
 *             that has it, with the share, if nobody has been heard to be silent yet. Until then
 *             there is one share more per node; what its leader decides late stays charged.
 */
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/dedup/lease_id.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "node/limit/engine/engine.h"

enum { FALLBACK_VNODE = 0, PERCENT = 100 };

int fallback_init(struct shard *shard)
{
    return table_new(&shard->fallbacks, shard->allocator, TABLE_MEMORY_MIN, 1);
}

void fallback_fini(struct shard *shard)
{
    table_free(&shard->fallbacks);
}

void fallback_tick(struct shard *shard)
{
    (void)table_step(shard->fallbacks, shard->now_ns);
}

/* ---- when, and to whom ----------------------------------------------------------------------- */

bool fallback_allowed(const struct pending_check *check)
{
    return check->request != POOL_NONE && !check->undo && check->rule != NULL &&
           (check->forward.flags & FORWARD_HOLD) == 0 && /* it has no replicas to know a lease */
           check->rule->on_failure == POLICY_FAILURE_LOCAL;
}

bool fallback_needed(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->id_count; i++)
        if (!peers_silent_node(shard, vnode->ids[i], number))
            return false;
    return vnode->id_count > 0 && (vnode->hint == PEER_NONE || peers_silent(shard, vnode->hint));
}

/* The peer that stands in for the check, PEER_NONE if it is this shard. */
static uint16_t choose(struct shard *shard, const struct pending_check *check)
{
    const uint32_t number = check->forward.vnode;
    if (check->rule->consistency == POLICY_CONSISTENCY_ANY)
        return PEER_NONE; /* FALLBACK-6 */
    const struct ring_table *ring = &shard->view->to;
    const uint32_t count =
        ring_order(ring, vnodes_ring(shard, number), shard->ring_order, RING_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t node = ring_member_id(ring, shard->ring_order[i]);
        const uint16_t at = peers_for(shard, node, number);
        if (at == PEER_NONE && node == shard->options.node_id)
            return PEER_NONE;
        if (at != PEER_NONE && !peers_silent(shard, at))
            return at;
    }
    return PEER_NONE;
}

static uint64_t share_of(uint64_t count, unsigned percent)
{
    const uint64_t share = sat_muldiv(count, percent, PERCENT);
    return share > 0 || count == 0 ? share : 1;
}

void fallback_scale(struct forward *forward, unsigned percent)
{
    for (uint32_t i = 0; i < forward->limit_count; i++) {
        forward->limits[i].count = share_of(forward->limits[i].count, percent);
        forward->limits[i].burst = share_of(forward->limits[i].burst, percent);
    }
}

static struct forward scaled(const struct pending_check *check)
{
    struct forward forward = check->forward;
    fallback_scale(&forward, check->rule->local_share);
    forward.home = 0;
    forward.flags |= FORWARD_FALLBACK;
    return forward;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Whether `a` has less left than `b`, or as little, being exceeded. */
static bool leaves_less(const struct limit_decision *a, const struct limit_decision *b)
{
    return a->remaining != b->remaining ? a->remaining < b->remaining : a->notes > b->notes;
}

/* The row that says most: one that denies longest (-1, never, is the longest), else the one with
 * the least left. */
static uint32_t row_told(const struct limit_decision *rows, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (rows[i].allowed != rows[best].allowed)
            best = rows[i].allowed ? best : i;
        else if (rows[i].allowed
                     ? leaves_less(&rows[i], &rows[best])
                     : (uint64_t)rows[i].retry_after_ns > (uint64_t)rows[best].retry_after_ns)
            best = i;
    }
    return best;
}

/* What is denied is rewritten for the limit that it has now, where that is another one than before
 * (ALGORITHM-7); what it says stays. */
static void settle_denied(struct shard *shard, const struct forward *forward)
{
    const unsigned flags = LIMIT_LOADED | (decide_is_older(shard, forward) ? LIMIT_OLDER : 0);
    struct limit_decision ignored;
    for (uint32_t i = 0; i < forward->limit_count; i++)
        if (forward->operation == OPERATION_CHECK &&
            forward->limits[i].algorithm != ALGORITHM_CONCURRENCY)
            engine_one(shard->fallbacks, forward->ids[i], FALLBACK_VNODE, &forward->limits[i], 0,
                       OPERATION_CHECK, flags, shard->now_ns, &ignored);
}

/* All or nothing: looked at first, taken only if every row allows. One thread, so nothing comes
 * between. False if there was no room. */
static bool decide_rows_of(struct shard *shard, const struct forward *forward,
                           struct limit_decision *rows)
{
    bool allowed = true;
    const unsigned flags = (forward->flags & (LIMIT_AT_MOST | LIMIT_COUNT_DENIED)) | LIMIT_LOADED |
                           (decide_is_older(shard, forward) ? LIMIT_OLDER : 0);
    for (uint32_t pass = 0; pass < 2; pass++) {
        const bool look = pass == 0 && forward->limit_count > 1;
        if (pass == 0 && !look)
            continue;
        const bool peek = look || !allowed || forward->operation == OPERATION_PEEK;
        if (!look && !allowed)
            settle_denied(shard, forward);
        for (uint32_t i = 0; i < forward->limit_count; i++) {
            engine_one_leased(shard->fallbacks, forward->ids[i], FALLBACK_VNODE,
                              &forward->limits[i], forward->cost, decide_lease(shard, forward),
                              peek ? OPERATION_PEEK : (enum operation)forward->operation, flags,
                              shard->now_ns, &rows[i]);
            if (rows[i].status != LIMIT_DECIDED)
                return false;
            allowed = allowed && rows[i].allowed;
        }
    }
    return true;
}

/* Decides, and says in `rows` how each limit stands. */
static void decide(struct shard *shard, const struct forward *forward, struct answer *answer,
                   struct limit_decision *rows)
{
    struct retry_memory_entry memory;
    struct forward looked = *forward;
    memset(answer, 0, sizeof *answer);
    const bool takes = forward->operation != OPERATION_PEEK;
    const bool recalled = takes && (forward->flags & FORWARD_RETRY) != 0 &&
                          retry_look(&shard->retries, &forward->retry, shard->now_ns, &memory);
    if (recalled)
        looked.operation = OPERATION_PEEK, looked.cost = memory.allowed ? 0 : forward->cost;
    if (!decide_rows_of(shard, &looked, rows)) {
        answer->status = ANSWER_BUSY;
        answer->full = true;
        shard->stats.busy++;
        return;
    }
    const uint32_t told = row_told(rows, forward->limit_count);
    answer->status = ANSWER_DECIDED;
    answer->degraded = true;
    answer->allowed = recalled ? memory.allowed : rows[told].allowed != 0;
    answer->soft = answer->allowed && (rows[told].notes & LIMIT_SOFT) != 0;
    answer->limit_index = (uint8_t)told;
    answer->limit = rows[told].limit;
    answer->used = rows[told].used;
    answer->remaining = rows[told].remaining;
    answer->granted = recalled ? memory.granted : answer->allowed ? rows[told].granted : 0;
    answer->reset_after_ns = rows[told].reset_after_ns;
    answer->retry_after_ns = answer->allowed ? 0 : rows[told].retry_after_ns;
    if (takes && !recalled)
        retry_remember(&shard->retries, &forward->retry, 0, answer->allowed, answer->limit_index,
                       answer->granted, shard->now_ns); /* FALLBACK-5: nobody gives it back */
    shard->stats.fallbacks++;
}

/* What is told of the rows to who wants them explained. Returns their number. */
static uint32_t states_of(const struct limit_decision *rows, uint32_t count,
                          struct peer_state *states)
{
    for (uint32_t i = 0; i < count; i++)
        states[i] = (struct peer_state){.allowed = rows[i].allowed != 0,
                                        .limit = rows[i].limit,
                                        .used = rows[i].used,
                                        .remaining = rows[i].remaining,
                                        .reset_after_ns = rows[i].reset_after_ns,
                                        .retry_after_ns = rows[i].retry_after_ns};
    return count;
}

void fallback_forwarded(struct shard *shard, uint16_t from, const struct forward *forward,
                        struct effects *effects)
{
    struct limit_decision rows[PEER_LIMITS_MAX];
    struct peer_state states[PEER_LIMITS_MAX];
    struct answer answer = {.status = ANSWER_UNAVAILABLE};
    if (vnodes_quorum(shard, forward->vnode) || fallback_needed(shard, forward->vnode))
        /* FALLBACK-4: a majority is not in sight of one node */
        decide(shard, forward, &answer, rows);
    if (answer.status == ANSWER_DECIDED && (forward->flags & FORWARD_EXPLAIN) != 0)
        peer_put_explain(peers_outbox(shard, from, PEER_RECORD_MAX, effects), forward->ticket,
                         states, states_of(rows, forward->limit_count, states));
    peer_put_answer(peers_outbox(shard, from, PEER_RECORD_MAX, effects), forward->ticket, &answer);
}

/* Decides the check here, in the place of who was not heard. */
static void decide_here(struct shard *shard, uint32_t index, const struct forward *forward,
                        struct effects *effects)
{
    struct limit_decision rows[PEER_LIMITS_MAX];
    struct peer_state states[PEER_LIMITS_MAX];
    struct answer answer;
    decide(shard, forward, &answer, rows);
    if (answer.status == ANSWER_DECIDED)
        explain_part(shard, index, states, states_of(rows, forward->limit_count, states), effects);
    route_pending_answer(shard, index, &answer, shard->options.node_id, effects);
}

bool fallback_late(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    const uint8_t operation = check->forward.operation;
    if (!fallback_allowed(check) || !policy_is_of_domain(check->rule) ||
        (operation != OPERATION_CHECK && operation != OPERATION_PEEK))
        return false;
    check->at_fallback = true;
    const struct forward forward = scaled(check);
    decide_here(shard, index, &forward, effects);
    return true;
}

void fallback_dispatch(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    ASSERT(fallback_allowed(check)); /* FALLBACK-1 */
    if (!check->at_fallback)
        check->stands++; /* FALLBACK-3 */
    check->at_fallback = true;
    struct forward forward = scaled(check);
    const uint16_t at = choose(shard, check);
    if (at != PEER_NONE) {
        route_pending_send(shard, index, at, &forward, effects);
        return;
    }
    decide_here(shard, index, &forward, effects);
}
