/* cross_region.c - checks whose keys another region counts: asked for there, or decided from what
 * is held here; and what other regions ask of this one. region/remote_regions.c tells how (REMOTE-1
 * to REMOTE-7).
 */
#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include <string.h>

#define WAIT UINT8_MAX /* in the place of a check, of what waits (REMOTE-7) */

/* ---- asking ---------------------------------------------------------------------------------- */

/* Under which key it is remembered what waits here under a peer's ticket (REMOTE-7). */
static struct retry_key wait_key(const struct shard *shard, uint16_t peer, uint64_t ticket)
{
    const struct peer *asker = shard->peers[peer];
    return (struct retry_key){asker->node, ticket & ~RETRY_TICKET_STANDS, asker->shard, WAIT};
}

static void fail(struct shard *shard, uint32_t index, uint8_t status, struct effects *effects)
{
    const struct answer answer = {.status = status};
    route_pending_answer(shard, index, &answer, shard->options.node_id, effects);
}

/* Notes that the peer's part waits, or was told that the home is out of reach (REMOTE-7). */
static void note_wait(struct shard *shard, uint32_t index, bool waits)
{
    const struct pending_check *check = pending_at(shard, index);
    const struct retry_key key = wait_key(shard, check->origin_peer, check->origin_ticket);
    (void)retry_remember(&shard->retries, &key, 0, waits, 0, pending_ticket(shard, index),
                         shard->now_ns);
}

void cross_region_unavailable(struct shard *shard, uint32_t index)
{
    note_wait(shard, index, false);
}

/* Whether another copy of what the peer has sent under the ticket waits here, in a check that is
 * not `own`, or did: then it waits on as one with that, or is told the same (REMOTE-7). */
static bool joins(struct shard *shard, uint16_t peer, uint64_t ticket, uint32_t own,
                  struct effects *effects)
{
    const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
    const struct retry_key key = wait_key(shard, peer, ticket);
    struct retry_memory_entry memory;
    if (!retry_look(&shard->retries, &key, shard->now_ns, &memory))
        return false;
    if (!memory.allowed) {
        peer_put_answer(peers_outbox(shard, peer, PEER_RECORD_MAX, effects), ticket, &unavailable);
        return true;
    }
    const uint32_t index = pending_find(shard, memory.granted);
    if (index == POOL_NONE || index == own)
        return false; /* its key has moved meanwhile, or it is the one */
    struct pending_check *check = pending_at(shard, index);
    check->origin_peer = peer;
    check->origin_ticket = ticket;
    check->forward.flags |= FORWARD_RETRY;
    note_wait(shard, index, true); /* it is remembered for as long as copies come */
    return true;
}

void cross_region_send(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    struct remote_region *region = remote_find(shard, check->forward.home);
    if (remote_lost(shard, check->forward.home)) { /* REMOTE-2 */
        fail(shard, index, ANSWER_UNAVAILABLE, effects);
        return;
    }
    if (forward_reserves(&check->forward) && region->heard_ns != 0 &&
        (region->reads & READS_RESERVATIONS) == 0) { /* LESSOR-8 */
        shard->stats.leases_refused++;
        fail(shard, index, ANSWER_BUSY, effects);
        return;
    }
    if (check->status != PENDING_REMOTE && check->from_peer) {
        check->deadline_ns = shard->now_ns + SHARD_FORWARD_NS;
        note_wait(shard, index, true);
    }
    check->status = PENDING_REMOTE;
    check->sent_ns = shard->now_ns;
    check->retry_ns = shard->now_ns + remote_timeout_ns(region);
    check->forward.ticket = pending_ticket(shard, index);
    peer_put_remote_ask(remote_record(shard, region->contact, region->shard, effects),
                        &check->forward);
    check->forward.flags |= FORWARD_RETRY; /* from the second time on */
    remote_await(shard, region);
    shard->stats.remote_asked++;
}

/* Whether tokens of all that the check meets can be held here. */
static bool gives_tokens(const struct forward *forward)
{
    for (uint32_t i = 0; i < forward->limit_count; i++)
        if (limit_lease_refusal(&forward->limits[i]) != NULL)
            return false;
    return true;
}

/* Whether the forward is a check that a lease cache decides. One that is to tell every limit asks
 * who knows them, unless it may have to be undone. */
static bool is_for_lease_cache(const struct forward *forward)
{
    const bool tells =
        (forward->flags & FORWARD_EXPLAIN) != 0 && (forward->flags & FORWARD_SEVERAL) == 0;
    return forward->operation == OPERATION_CHECK && !tells && gives_tokens(forward);
}

/* No tokens, and no word of the home within the time that the rule gives it (REMOTE-4). */
static void end_wait(struct shard *shard, uint32_t index, struct effects *effects)
{
    const struct pending_check *check = pending_at(shard, index);
    const int64_t since_ns = check->wan_ns - check->forward.wait_ms * MS;
    if (!remote_heard_since(shard, check->forward.home, since_ns)) {
        fail(shard, index, ANSWER_UNAVAILABLE, effects);
        return;
    }
    const struct answer denied = {
        .status = ANSWER_DECIDED,
        .limit = check->forward.limits[0].count,
        .retry_after_ns = remote_rtt_ns(shard, check->forward.home),
    };
    shard->stats.global_denied++;
    shard->stats.global_late++;
    lessee_denied(shard, &check->forward, pending_attempt(shard, index), &denied);
    route_pending_answer(shard, index, &denied, shard->options.node_id, effects);
}

void cross_region_decide(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    struct answer answer;
    if ((check->forward.retry.part & RETRY_UNDO) != 0) {
        lessee_undo(shard, &check->forward, &answer);
        route_pending_answer(shard, index, &answer, shard->options.node_id, effects);
        return;
    }
    const bool waited = check->wan_ns != 0;
    if (check->from_peer && !waited &&
        joins(shard, check->origin_peer, check->origin_ticket, index, effects)) {
        pending_free(shard, index);
        return;
    }
    if (!is_for_lease_cache(&check->forward)) {
        cross_region_send(shard, index, effects);
        return;
    }
    if (decide_called_off(shard, index)) {
        pending_free(shard, index);
        return;
    }
    switch (lessee_decide_global(shard, &check->forward, pending_attempt(shard, index), waited,
                                 &answer, effects)) {
    case LESSEE_DECIDED:
        route_pending_answer(shard, index, &answer, shard->options.node_id, effects);
        return;
    case LESSEE_FULL:
        cross_region_send(shard, index, effects);
        return;
    case LESSEE_WAIT:
        break;
    }
    if (!waited) {
        shard->stats.global_waited++;
        check->wan_ns = shard->now_ns + check->forward.wait_ms * MS;
        if (check->from_peer) {
            check->deadline_ns = check->wan_ns + SHARD_FORWARD_NS;
            note_wait(shard, index, true);
        }
    }
    if (shard->now_ns >= check->wan_ns)
        end_wait(shard, index, effects);
    else
        pending_park(shard, index);
}

bool cross_region_decide_forward(struct shard *shard, uint16_t peer, const struct forward *forward,
                                 struct effects *effects)
{
    struct answer answer;
    if ((forward->retry.part & RETRY_UNDO) != 0)
        return false;
    if ((forward->flags & FORWARD_RETRY) != 0 &&
        joins(shard, peer, forward->ticket, POOL_NONE, effects))
        return true;
    if (!is_for_lease_cache(forward))
        return false;
    const uint16_t attempt = retry_attempt(shard->peers[peer]->node, forward->ticket);
    if (lessee_decide_global(shard, forward, attempt, false, &answer, effects) != LESSEE_DECIDED)
        return false;
    peer_put_answer(peers_outbox(shard, peer, PEER_RECORD_MAX, effects), forward->ticket, &answer);
    return true;
}

bool cross_region_decide_item(struct shard *shard, uint32_t item, const struct policy_rule *rule,
                              const struct forward *forward, struct effects *effects)
{
    struct answer answer;
    uint16_t at;
    if (!is_for_lease_cache(forward) ||
        vnodes_route(shard, vnodes_ring(shard, forward->vnode), &at) != ROUTE_HERE)
        return false;
    if (lessee_decide_global(shard, forward, 0, false, &answer, effects) != LESSEE_DECIDED ||
        answer.status != ANSWER_DECIDED)
        return false;
    requests_row_done(shard, &shard->rows[item], rule, &forward->limits[answer.limit_index],
                      forward->vnode, &answer, effects);
    return true;
}

bool cross_region_fall_back(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    struct forward *forward = &check->forward;
    if (check->request == POOL_NONE || check->undo || check->rule == NULL || forward->home == 0 ||
        check->rule->on_failure != POLICY_FAILURE_LOCAL || forward->operation != OPERATION_CHECK ||
        shard->now_ns >= check->deadline_ns)
        return false;
    fallback_scale(forward, check->rule->local_share);
    for (uint32_t i = 0; i < forward->limit_count; i++)
        forward->ids[i] = remote_local_id(forward->ids[i]);
    forward->home = 0;
    forward->flags &= (uint8_t)~FORWARD_RETRY;
    forward->retry.part |= RETRY_LOCAL;
    check->fell_back = true;
    check->sends = 0;
    check->at_fallback = false;
    check->generation = ++shard->generation;
    shard->stats.global_local++;
    route_pending_dispatch(shard, index, effects);
    return true;
}

/* ---- being asked ----------------------------------------------------------------------------- */

static void take_ask(struct shard *shard, const struct peer_envelope *envelope,
                     const struct forward *asked, struct effects *effects)
{
    struct forward forward = *asked;
    struct answer answer = {.status = ANSWER_BUSY};
    uint32_t index = POOL_NONE;
    forward.home = 0;
    if (asked->home != shard->remote.own || (forward.retry.part & RETRY_UNDO) != 0)
        answer.status = ANSWER_UNAVAILABLE; /* REMOTE-3 */
    else if (shard->pending.used < SHARD_UNDO_PENDING_MAX)
        index = pending_new(shard, &forward, shard->now_ns + SHARD_FORWARD_NS);
    if (index == POOL_NONE) {
        shard->stats.busy += answer.status == ANSWER_BUSY;
        peer_put_remote_answer(remote_record(shard, envelope->node, envelope->shard, effects),
                               asked->ticket, &answer);
        return;
    }
    struct pending_check *check = pending_at(shard, index);
    check->remote = true;
    check->origin_node = envelope->node;
    check->origin_peer = envelope->shard;
    check->origin_ticket = asked->ticket;
    shard->stats.remote_served++;
    shard->keepalive.busy_ns = shard->now_ns;
    if (vnodes_quorum(shard, forward.vnode))
        vnodes_use_quorum(shard, effects);
    route_pending_dispatch(shard, index, effects);
}

static void take_ping(struct shard *shard, struct remote_region *region,
                      const struct peer_envelope *envelope, const struct peer_record *record,
                      struct effects *effects)
{
    const int64_t rtt_ns = shard->now_ns - record->remote_ping.echo_ns;
    if (record->remote_ping.sent_ns != 0) {
        peer_put_remote_ping(remote_record(shard, envelope->node, envelope->shard, effects), 0,
                             record->remote_ping.sent_ns);
        return;
    }
    if (rtt_ns < 0 || rtt_ns > 4 * REMOTE_LOST_NS)
        return; /* of a process that was here before, or long on its way */
    region->rtt_ns = region->rtt_ns == 0 ? rtt_ns : (7 * region->rtt_ns + rtt_ns) / 8;
    remote_hear(shard, region);
}

/* What one of another region may say; false for anything else. */
static bool take(struct shard *shard, const struct peer_envelope *envelope,
                 const struct peer_record *record, struct effects *effects)
{
    const struct view_member *member = view_find(shard->view, envelope->node);
    struct remote_region *region = remote_find(shard, remote_region_of_member(member));
    if (region == NULL)
        return true; /* too many regions */
    if (envelope->node == region->contact)
        region->reads = envelope->reads;
    switch (record->type) {
    case PEER_REMOTE_PING:
        take_ping(shard, region, envelope, record, effects);
        return true;
    case PEER_REMOTE_ASK:
        take_ask(shard, envelope, &record->forward, effects);
        return true;
    case PEER_EXPLAIN:
        if (pending_remote(shard, record->explain.ticket, region->id) != POOL_NONE)
            explain_part(shard, pending_remote(shard, record->explain.ticket, region->id),
                         record->explain.states, record->explain.count, effects);
        return true;
    case PEER_REMOTE_ANSWER: {
        const uint32_t index = pending_remote(shard, record->answer.ticket, region->id);
        remote_hear(shard, region);
        shard->keepalive.busy_ns = shard->now_ns;
        if (index != POOL_NONE)
            route_pending_answer(shard, index, &record->answer.answer, envelope->node, effects);
        return true;
    }
    case PEER_REMOTE_POOL_REPORT:
        pools_told_remote(shard, envelope, &record->pool_report, effects);
        return true;
    case PEER_REMOTE_POOL_LEVEL:
        pools_level_remote(shard, region->id, &record->pool_level, effects);
        return true;
    default:
        return false;
    }
}

void cross_region_frame(struct shard *shard, const struct peer_envelope *envelope,
                        struct effects *effects)
{
    struct bytes_reader reader;
    struct peer_record record;
    int result;
    bytes_reader_init(&reader, envelope->records, envelope->len);
    while ((result = peer_next(&reader, 2 * shard->options.vnodes, &record)) > 0)
        if (!take(shard, envelope, &record, effects)) {
            result = TG_EPROTOCOL;
            break;
        }
    shard->stats.bad_frames += result < 0;
}
