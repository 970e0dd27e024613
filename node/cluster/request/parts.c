/* parts.c - checks that cannot be decided at once: they wait for a peer, a term, or the disk.
 *
 *               no route                 the vnode is decided here
 *      new ---> PARKED <-------+---------------------------------> engine --> parts_answer
 *        \        ^  |         |                                     | slot on disk
 *         \       |  v         | peer gone, no answer, MOVED         v
 *          +--> WAITING -------+                                  LOADING
 *
 * In the plane of quorum the engine leads to COMMITTING: the answer is there, and leaves when a
 * majority holds what it says; who stops deciding before that parks the part (Q6 of quorum.c). So
 * does the answer to who asks for a lease of tokens, in the other plane: HOLDING (holds.c).
 *
 * A part keeps everything needed to send it again: forwards are repeated, with the retry flag,
 * until they are answered or the caller's deadline passes. The decider's retry memory sees to it
 * that a repeated one is charged once.
 *
 * P1  A ticket names a part, its generation and how often it changed between its decider and a
 *     stand-in, so an answer that comes too late meets nothing. Each process counts generations
 *     from another number: what it is not asked it is not told.
 *
 *         ticket   | generation 32 | stands 16 | place 16 |
 *
 * P2  The number of parts is bounded; without room a check is answered busy, at once.
 * P3  A part of a peer's forward never travels on: it is decided here, or its sender is told where
 *     the vnode has moved. So no forward can go round in circles.
 * P4  A peer's forward that must wait is kept only until its sender repeats it: so a check has one
 *     part here, or two for a moment, however often it is repeated. While it commits, each
 *     repetition is recalled and waits beside it: a handful, until quorum.c gives them up. While it
 *     waits for another region, each one joins it (A7 of abroad.c).
 * P5  That the disk has no record of a key is known only for the moment at which it said so: a part
 *     that waits for anything else asks the disk anew.
 * P6  What the disk gave is in memory, and if it leaves again before the part is decided, the disk
 *     is asked again: a key is new only if the disk did not have it.
 * P7  An undo is sent again until its decider acknowledges it, whatever it says before, for
 *     SHARD_UNDO_NS; then it is given up, and counted. It may come twice: reserve.h sees to that.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

static uint32_t part_of(const struct shard *shard, uint64_t ticket)
{
    return parts_in(shard, ticket, PART_WAITING);
}

/* The vnode by which it is routed: of what another region counts this one has no plane of quorum.
 */
static uint32_t vnode_of(const struct shard *shard, const struct forward *forward)
{
    return forward->home != 0 ? vnodes_ring(shard, forward->vnode) : forward->vnode;
}

/* ---- sending --------------------------------------------------------------------------------- */

void parts_send(struct shard *shard, uint32_t index, uint16_t at, struct forward *forward,
                struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    part->status = PART_WAITING;
    part->peer = at;
    part->sent_ns = shard->now_ns;
    forward->ticket = parts_ticket(shard, index);
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
    shard->stats.resent += (part->forward.flags & FORWARD_RETRY) != 0;
    part->loaded = 0;                     /* P5 */
    part->forward.flags |= FORWARD_RETRY; /* from the second time on */
    shard->stats.forwarded++;
}

/* From here on the part is its decider's, not a stand-in's: N3 of stand_in.c. */
static void leave_stand_in(struct part *part)
{
    if (part->stood_in)
        part->stands++;
    part->stood_in = false;
}

static void send(struct shard *shard, uint32_t index, uint16_t at, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    leave_stand_in(part);
    shard->stats.undo_resent += part->undo && part->sends > 0;
    parts_send(shard, index, at, &part->forward, effects);
    if (part->sends < 2)
        part->sends++;
}

static void tell_moved(struct shard *shard, uint16_t at, uint64_t ticket, uint32_t vnode,
                       struct effects *effects)
{
    shard->stats.moved++;
    peer_put_moved(peers_outbox(shard, at, PEER_RECORD_MAX, effects), ticket, vnode,
                   &shard->vnodes[vnode].term);
}

static void refuse(struct shard *shard, uint32_t index, struct effects *effects)
{
    const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
    shard->stats.quorum.unavailable++;
    parts_answer(shard, index, &unavailable, shard->options.node_id, effects);
}

void parts_dispatch(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    const uint32_t vnode = vnode_of(shard, &part->forward);
    uint16_t at = PEER_NONE;
    if (part->purse != 0 && part->forward.home != 0) {
        abroad_send(shard, index, effects);
        return;
    }
    switch (vnodes_route(shard, vnode, &at)) {
    case ROUTE_HERE:
        if (part->forward.home != 0) {
            leave_stand_in(part);
            abroad_decide(shard, index, effects);
        } else if (shard->batch.delivering) {
            parts_rest(shard, part);
            shard->reroute_due = true;
        } else {
            /* A copy that was sent elsewhere may have been decided there. */
            shard->stats.resent += part->sends > 0 && !part->from_peer;
            leave_stand_in(part);
            decide_part(shard, index, effects);
        }
        break;
    case ROUTE_PEER:
        if (part->from_peer && part->forward.home == 0 && decide_only_once(shard, &part->forward)) {
            refuse(shard, index, effects); /* MOVED would say that it was not done here */
        } else if (part->from_peer) {      /* P3 */
            tell_moved(shard, part->origin_peer, part->origin_ticket, vnode, effects);
            parts_free(shard, index);
        } else if ((part->forward.flags & FORWARD_HOLD) != 0 && !shard->peers[at]->leases) {
            const struct answer busy = {.status = ANSWER_BUSY}; /* T4 of holds.c */
            shard->stats.leases_refused++;
            parts_answer(shard, index, &busy, shard->options.node_id, effects);
        } else {
            send(shard, index, at, effects);
        }
        break;
    case ROUTE_WAIT:
        if (stand_in_allowed(part) && stand_in_needed(shard, vnode))
            stand_in_dispatch(shard, index, effects);
        else
            parts_rest(shard, part);
        break;
    case ROUTE_NONE:
        if (stand_in_allowed(part))
            stand_in_dispatch(shard, index, effects);
        else if (part->undo)
            parts_rest(shard, part);
        else
            refuse(shard, index, effects);
        break;
    }
}

void parts_forwarded(struct shard *shard, uint16_t from, const struct forward *forward,
                     struct effects *effects)
{
    if ((forward->flags & FORWARD_STAND_IN) != 0) {
        stand_in_forwarded(shard, from, forward, effects);
        return;
    }
    uint16_t at = PEER_NONE;
    const uint32_t vnode = vnode_of(shard, forward);
    const enum route route = vnodes_route(shard, vnode, &at);
    const bool quorum = vnodes_quorum(shard, vnode);
    const bool waits = quorum || forward->home != 0 || holds_asks(forward) ||
                       holds_sure(shard, forward); /* so it has a part */
    if (route == ROUTE_HERE && forward->home != 0 &&
        abroad_decide_forward(shard, from, forward, effects))
        return;
    if (route == ROUTE_HERE && !waits) {
        decide_forward(shard, from, forward, effects);
        return;
    }
    if (route == ROUTE_PEER) {
        tell_moved(shard, from, forward->ticket, vnode, effects);
        return;
    }
    const uint32_t index = parts_new(shard, forward, shard->now_ns + SHARD_RESEND_NS);
    if (index == POOL_NONE) { /* Q10 of quorum.c */
        const struct answer busy = {.status = ANSWER_BUSY};
        shard->stats.busy++;
        peer_put_answer(peers_outbox(shard, from, PEER_RECORD_MAX, effects), forward->ticket,
                        &busy);
        return;
    }
    struct part *part = parts_at(shard, index);
    part->from_peer = true;
    part->origin_peer = from;
    part->origin_ticket = forward->ticket;
    if (quorum || (route == ROUTE_HERE && waits))
        parts_dispatch(shard, index, effects);
    else
        parts_rest(shard, part);
}

/* ---- answers --------------------------------------------------------------------------------- */

void parts_answer(struct shard *shard, uint32_t index, const struct answer *answer, uint64_t node,
                  struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    const bool decided = answer->status == ANSWER_DECIDED;
    if (part->undo && !decided && shard->now_ns < part->deadline_ns) {
        part->forward.flags |= FORWARD_RETRY;
        parts_rest(shard, part); /* P7 */
    } else if (part->undo) {
        shard->stats.undone += decided;
        shard->stats.undo_lost += !decided;
        parts_free(shard, index);
    } else if (part->from_peer) {
        if (part->forward.home != 0 && answer->status == ANSWER_UNAVAILABLE)
            abroad_unavailable(shard, index);
        peer_put_answer(peers_outbox(shard, part->origin_peer, PEER_RECORD_MAX, effects),
                        part->origin_ticket, answer);
        parts_free(shard, index);
    } else if (part->abroad) {
        abroad_answer(shard, index, answer, effects);
        parts_free(shard, index);
    } else if (part->purse != 0) {
        part->answer = *answer;
        purses_answered(shard, index, effects);
        parts_free(shard, index);
    } else if (answer->status != ANSWER_UNAVAILABLE || !abroad_fall_back(shard, index, effects)) {
        part->status = PART_DONE;
        part->answer = *answer;
        part->answer.degraded = part->answer.degraded || part->fell_back;
        requests_part_done(shard, index, node, effects);
    }
}

void parts_explained(struct shard *shard, uint64_t ticket, const struct peer_state *states,
                     uint32_t count, struct effects *effects)
{
    const uint32_t index = part_of(shard, ticket);
    if (index != POOL_NONE)
        explain_part(shard, index, states, count, effects);
}

void parts_answered(struct shard *shard, uint16_t at, uint64_t ticket, const struct answer *answer,
                    struct effects *effects)
{
    const uint32_t index = part_of(shard, ticket);
    if (index == POOL_NONE)
        return;
    struct part *part = parts_at(shard, index);
    const bool refused = answer->status == ANSWER_UNAVAILABLE && part->stood_in;
    if (refused)
        parts_rest(shard, part); /* N4 of stand_in.c */
    else if (answer->status == ANSWER_UNAVAILABLE && part->forward.home == 0 &&
             stand_in_allowed(part))
        stand_in_dispatch(shard, index, effects);
    else
        parts_answer(shard, index, answer, shard->peers[at]->node, effects);
}

void parts_moved(struct shard *shard, uint64_t ticket)
{
    const uint32_t index = part_of(shard, ticket);
    if (index == POOL_NONE)
        return;
    struct part *part = parts_at(shard, index);
    parts_rest(shard, part);
    const uint32_t vnode = vnode_of(shard, &part->forward);
    if (part->sends == 1 && vnodes_quorum(shard, vnode)) {
        /* The only copy was not decided: what gives back may still be done (D7 of decide.c). */
        part->forward.flags &= (uint8_t)~FORWARD_RETRY;
        part->sends = 0;
    }
    if (vnodes_decider(shard, vnode) != shard->peers[part->peer]->node) {
        part->retry_ns = shard->now_ns; /* it told something new */
        shard->reroute_due = true;
    }
}

void parts_undo(struct shard *shard, uint32_t index, uint64_t keep, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    ASSERT((part->forward.flags & FORWARD_SEVERAL) != 0);
    part->forward.attempt = parts_attempt(shard, index);
    part->undo = true;
    part->stood_in = false;
    part->request = POOL_NONE;
    part->sibling = POOL_NONE;
    part->deadline_ns = shard->now_ns + SHARD_UNDO_NS;
    part->forward.operation = OPERATION_REFUND;
    part->forward.cost = keep;
    part->forward.flags = FORWARD_SEVERAL;
    part->forward.sure = false;
    part->sends = 0;
    part->forward.retry.part |= RETRY_UNDO;
    part->generation = ++shard->generation;
    parts_dispatch(shard, index, effects);
}

/* ---- loads ----------------------------------------------------------------------------------- */

static uint32_t find_load(const struct shard *shard, struct hash128 id)
{
    for (uint32_t i = 0; i < shard->loads.count; i++)
        if (hash128_equal(shard->loads.list[i].id, id))
            return i;
    return POOL_NONE;
}

/* The first limit of the part whose slot may be on disk and was not asked for, or -1. */
static int missing_limit(const struct shard *shard, const struct part *part)
{
    for (uint32_t i = 0; i < part->forward.limit_count; i++)
        if ((part->loaded & 1u << i) == 0 &&
            table_lookup(shard->table, part->forward.ids[i]) == TABLE_NONE &&
            table_filter_maybe(shard->table, part->forward.vnode, part->forward.ids[i]))
            return (int)i;
    return -1;
}

void parts_load(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    const int limit = missing_limit(shard, part);
    if (limit < 0) {
        part->status = PART_PARKED;
        part->retry_ns = shard->now_ns;
        shard->reroute_due = true;
        return;
    }
    const struct hash128 id = part->forward.ids[limit];
    uint32_t at = find_load(shard, id);
    if (at == POOL_NONE && shard->loads.count == SHARD_LOADS_MAX) {
        const struct answer busy = {.status = ANSWER_BUSY};
        shard->stats.busy++;
        parts_answer(shard, index, &busy, shard->options.node_id, effects);
        return;
    }
    if (at == POOL_NONE) {
        at = shard->loads.count++;
        shard->loads.list[at] = (struct load){part->forward.vnode, id, POOL_NONE};
        struct effect *effect = effects_add(effects, EFFECT_LOAD);
        effect->vnode = part->forward.vnode;
        effect->id = id;
        shard->stats.loads++;
    }
    part->status = PART_LOADING;
    part->loading = (uint8_t)limit;
    part->next_load = shard->loads.list[at].first_part;
    shard->loads.list[at].first_part = index;
}

bool parts_await(const struct shard *shard, struct hash128 id)
{
    return find_load(shard, id) != POOL_NONE;
}

void parts_loaded(struct shard *shard, uint32_t vnode, struct hash128 id, int result,
                  struct effects *effects)
{
    const uint32_t at = find_load(shard, id);
    (void)vnode;
    if (at == POOL_NONE)
        return;
    const bool absent = table_lookup(shard->table, id) == TABLE_NONE;
    shard->stats.loads_missed += result == TG_ENOTFOUND;
    uint32_t index = shard->loads.list[at].first_part;
    shard->loads.list[at] = shard->loads.list[--shard->loads.count];
    while (index != POOL_NONE) {
        struct part *part = parts_at(shard, index);
        const uint32_t next = part->next_load;
        part->next_load = POOL_NONE;
        if (result == 0 || result == TG_ENOTFOUND) {
            if (absent) /* P6 */
                part->loaded |= (uint8_t)(1u << part->loading);
            parts_dispatch(shard, index, effects);
        } else {
            const bool full = result == TG_EFULL;
            const struct answer failed = {.status = full ? ANSWER_BUSY : ANSWER_UNAVAILABLE,
                                          .full = full,
                                          .granted = full ? part->forward.cost : 0};
            shard->stats.busy += full;
            parts_answer(shard, index, &failed, shard->options.node_id, effects);
        }
        index = next;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void give_up(struct shard *shard, uint32_t index, struct effects *effects)
{
    const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
    shard->stats.expired++;
    parts_answer(shard, index, &unavailable, 0, effects);
}

/* Takes a part that waits for its slot out of the load's list. */
static void leave_load(struct shard *shard, uint32_t index)
{
    const struct part *part = parts_at(shard, index);
    const uint32_t at = find_load(shard, part->forward.ids[part->loading]);
    ASSERT(at != POOL_NONE);
    uint32_t *link = &shard->loads.list[at].first_part;
    while (*link != index)
        link = &parts_at(shard, *link)->next_load;
    *link = part->next_load;
}

static void tick_part(struct shard *shard, uint32_t index, bool reroute, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    const bool late = shard->now_ns >= part->deadline_ns;
    if (part->status == PART_PARKED) {
        if (late && part->from_peer)
            parts_free(shard, index); /* P4 */
        else if (late)
            give_up(shard, index, effects);
        else if (reroute || shard->now_ns >= part->retry_ns)
            parts_dispatch(shard, index, effects);
    } else if (part->status == PART_WAITING) {
        if (late)
            give_up(shard, index, effects);
        else if (peers_silent(shard, part->peer) ||
                 shard->now_ns - part->sent_ns >= SHARD_RESEND_NS)
            parts_dispatch(shard, index, effects);
    } else if (part->status == PART_ABROAD) {
        if (late)
            give_up(shard, index, effects);
        else if (shard->now_ns >= part->retry_ns)
            parts_dispatch(shard, index, effects);
    } else if (part->status == PART_COMMITTING && late) {
        quorum_forget(shard, index);
        shard->stats.quorum.in_doubt++;
        give_up(shard, index, effects);
    } else if (part->status == PART_HOLDING && late) {
        holds_forget(shard, index);
        give_up(shard, index, effects);
    } else if (part->status == PART_LOADING && late) {
        leave_load(shard, index);
        give_up(shard, index, effects);
    }
}

void parts_tick(struct shard *shard, struct effects *effects)
{
    const bool reroute = shard->reroute_due;
    shard->reroute_due = false;
    /* From the end: a part that is freed is replaced by one that was looked at already. */
    for (uint32_t at = shard->active_count; at > 0; at--)
        if (at <= shard->active_count)
            tick_part(shard, shard->active[at - 1], reroute, effects);
    decide_run(shard, effects);
}
