/* shard.c - the shard's life and its events; shard.h is the contract, shard_state.h the plan.
 *
 * Every event goes the same way: the time is taken in (enter), the event is handled, what it set
 * free is dispatched (settle). Sending happens at ticks, so that what belongs together leaves
 * together; the runtime ticks after each burst of input.
 *
 * A pause of the whole process (a stopped machine, a swapped-out thread) shows as a gap between two
 * events. It is noticed before the event that ended the gap is looked at: the silence of others is
 * counted anew, and leases have run out by themselves (PEERS-2, PEERS-3). What a shorter gap is
 * longer than this shard meant to sleep is taken off their silence (PEERS-12).
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/peer/credible.h"
#include "node/cluster/shard_state.h"
#include "node/policy/people/policy_join.h"

void shard_options_default(struct shard_options *options)
{
    memset(options, 0, sizeof *options);
    options->shards = 1;
    options->vnodes = RING_VNODES_DEFAULT;
    options->memory_bytes = 256ull << 20;
    options->silence_ns = 100 * MS;
    options->lease_ns = 70 * MS;
    options->keepalive_ns = 10 * MS;
    options->idle_ns = 25 * MS;
    options->idle_after_ns = 200 * MS;
    options->replicate_ns = 2 * MS;
    options->flush_ns = 500 * MS;
    options->grace_ns = 1000 * MS;
    options->handoff_rate = 64 << 20;
    options->turn_work = 5000000; /* some 10 ms */
    options->retry_sets = RETRY_SETS;
    options->frames_max = CHANNEL_FRAMES_MAX;
}

/* Of all vnodes, and what it may take to begin where a line of memory does. */
static size_t vnodes_bytes(const struct shard *shard)
{
    return (size_t)2 * shard->options.vnodes * sizeof *shard->vnodes + PREFETCH_LINE - 1;
}

static int take_memory(struct shard *shard)
{
    const struct shard_options *options = &shard->options;
    const struct allocator *allocator = shard->allocator;
    const size_t vnodes = 2 * (size_t)options->vnodes; /* of both planes */
    shard->vnodes_block = alloc_get(allocator, vnodes_bytes(shard));
    shard->vnodes = prefetch_line_of(shard->vnodes_block);
    shard->watermarks.list = alloc_array(allocator, vnodes, sizeof *shard->watermarks.list);
    shard->active_vnodes.list = alloc_array(allocator, vnodes, sizeof *shard->active_vnodes.list);
    shard->quorum.states = alloc_array(allocator, options->vnodes, sizeof *shard->quorum.states);
    shard->journaling.list =
        alloc_array(allocator, options->vnodes, sizeof *shard->journaling.list);
    shard->journaling.batch =
        alloc_array(allocator, options->vnodes, sizeof *shard->journaling.batch);
    shard->journaling.slots =
        alloc_array(allocator, SHARD_JOURNAL_SLOTS, sizeof *shard->journaling.slots);
    shard->cold_keys.ids = alloc_array(allocator, COLD_KEYS_IDS_MAX, sizeof *shard->cold_keys.ids);
    if (shard->vnodes_block == NULL || shard->watermarks.list == NULL ||
        shard->active_vnodes.list == NULL || shard->quorum.states == NULL ||
        shard->journaling.list == NULL || shard->journaling.batch == NULL ||
        shard->journaling.slots == NULL || shard->cold_keys.ids == NULL)
        return TG_ENOMEM;
    int error = table_new_journaled(&shard->table, allocator, options->memory_bytes,
                                    2 * options->vnodes, options->vnodes);
    if (error == 0)
        error = writeback_init(shard);
    if (error == 0)
        error =
            pool_init(&shard->pending, allocator, sizeof(struct pending_check), SHARD_PENDING_MAX);
    if (error == 0)
        error = pool_init(&shard->requests, allocator, sizeof(struct request), SHARD_REQUESTS_MAX);
    if (error == 0)
        error = pool_init(&shard->blocks, allocator, SHARD_ROW_BLOCK * sizeof(struct row),
                          SHARD_ROW_BLOCKS_MAX);
    if (error == 0)
        error =
            pool_init(&shard->explains, allocator, sizeof(struct explained), SHARD_EXPLAINS_MAX);
    if (error == 0)
        error = retry_init(&shard->retries, allocator, &options->secret, options->retry_sets);
    if (error == 0)
        error = reserve_init(&shard->reserves, allocator, &options->secret,
                             options->retry_sets >= 2 ? options->retry_sets / 2 : 1,
                             2 * options->vnodes);
    if (error == 0)
        error = unfinished_init(shard);
    if (error == 0)
        error = firsts_init(shard);
    if (error == 0)
        error = merge_init(shard);
    if (error == 0)
        error = fallback_init(shard);
    if (error == 0)
        error = pools_init(shard);
    if (error == 0)
        error = lessee_init(shard);
    if (error == 0)
        error = allocation_init(shard);
    if (error == 0)
        error = remote_init(shard);
    return error;
}

static void init_vnodes(struct shard *shard)
{
    const uint32_t vnodes = shard->options.vnodes;
    shard->vnode_end = vnodes;
    ASSERT(shard->vnode_end <= 2 * vnodes && shard->options.shard < shard->options.shards);
    for (uint32_t number = 0; number < 2 * vnodes; number++) {
        shard->vnodes[number].hint = PEER_NONE;
        shard->vnodes[number].best = PEER_NONE;
        shard->vnodes[number].snapshot_to = PEER_NONE;
        shard->vnodes[number].merge.successor = PEER_NONE;
        shard->vnodes[number].in_from = PEER_NONE;
        shard->vnodes[number].rank = UINT8_MAX;
        if (number < vnodes && vnodes_mine(shard, number)) {
            shard->roles[ROLE_ABSENT]++;
            shard->unarrived++;
            vnodes_mark_active(shard, number);
        }
        if (number >= vnodes)
            quorum_init(&shard->quorum.states[number - vnodes]);
        if (number < vnodes && vnodes_mine(shard, number) && !shard->options.ephemeral)
            table_set_targets(shard->table, number, TABLE_TARGET_BIT(TABLE_DISK));
    }
}

static void peer_is_silent(struct shard *shard, uint16_t peer, struct effects *effects)
{
    ASSERT(peer < shard->peer_count && shard->peers[peer]->silent);
    stream_restart(shard, peer, CHANNEL_LIVE);
    stream_restart(shard, peer, CHANNEL_BULK);
    vnodes_peer_silent(shard, peer, effects);
}

static const struct peer_listener peer_listener = {
    .changed = vnodes_mark_all_active,
    .silent = peer_is_silent,
    .announce = vnodes_announce,
};

int shard_new(const struct allocator *allocator, const struct shard_options *options,
              int64_t now_ns, struct shard **out)
{
    *out = NULL;
    if (options->lease_ns >= options->silence_ns || options->shards == 0 ||
        options->shard >= options->shards || options->node_id == 0 || options->handoff_rate == 0 ||
        options->idle_ns < options->keepalive_ns || options->retry_sets == 0 ||
        (options->retry_sets & (options->retry_sets - 1)) != 0 || options->frames_max == 0 ||
        options->frames_max > CHANNEL_FRAMES_MAX)
        return TG_EINVALID;
    struct shard *shard = alloc_get(allocator, sizeof *shard);
    if (shard == NULL)
        return TG_ENOMEM;
    shard->allocator = allocator;
    shard->options = *options;
    shard->now_ns = now_ns;
    shard->started_ns = now_ns;
    shard->silence_epoch_ns = now_ns;
    shard->writeback.next_ns = now_ns + options->flush_ns;
    shard->keepalive.next_silence_ns = INT64_MAX;
    shard->keepalive.listener = &peer_listener;
    shard->message.request = POOL_NONE;
    shard->message.explained = POOL_NONE;
    shard->ready = POOL_NONE;
    shard->filter_rebuild.cursor = options->shard;
    shard->sync = (uint32_t)hash_mix64(options->node_id ^ options->boot << 8 ^ options->shard);
    /* ROUTEPENDING-1 */
    shard->generation = (uint32_t)(hash_mix64(options->boot ^ options->node_id) >> 32);
    shard->policies[0].policy = policy_empty();
    const int error = take_memory(shard);
    if (error != 0) {
        shard_free(&shard);
        return error;
    }
    table_seed(shard->table,
               hash_mix64(hash_mix64(options->boot + options->node_id) + options->shard));
    init_vnodes(shard);
    *out = shard;
    return 0;
}

void shard_free(struct shard **pointer)
{
    struct shard *shard = *pointer;
    *pointer = NULL;
    if (shard == NULL)
        return;
    const struct allocator *allocator = shard->allocator;
    usage_tally_free(&shard->tallies.usage);
    peers_fini(shard);
    retry_fini(&shard->retries);
    reserve_fini(&shard->reserves);
    unfinished_fini(shard);
    firsts_fini(shard);
    merge_fini(shard);
    fallback_fini(shard);
    pools_fini(shard);
    lessee_fini(shard);
    allocation_fini(shard);
    remote_fini(shard);
    pool_fini(&shard->pending);
    pool_fini(&shard->requests);
    pool_fini(&shard->blocks);
    pool_fini(&shard->explains);
    table_free(&shard->table);
    alloc_put(allocator, shard->cold_keys.ids, COLD_KEYS_IDS_MAX * sizeof *shard->cold_keys.ids);
    sort_buffer_fini(&shard->writeback.sort_buffer);
    const size_t plane = shard->options.vnodes;
    alloc_put(allocator, shard->journaling.slots,
              SHARD_JOURNAL_SLOTS * sizeof *shard->journaling.slots);
    alloc_put(allocator, shard->journaling.batch, plane * sizeof *shard->journaling.batch);
    alloc_put(allocator, shard->journaling.list, plane * sizeof *shard->journaling.list);
    alloc_put(allocator, shard->quorum.states, plane * sizeof *shard->quorum.states);
    alloc_put(allocator, shard->watermarks.list, 2 * plane * sizeof *shard->watermarks.list);
    alloc_put(allocator, shard->active_vnodes.list, 2 * plane * sizeof *shard->active_vnodes.list);
    alloc_put(allocator, shard->vnodes_block, vnodes_bytes(shard));
    alloc_put(allocator, shard, sizeof *shard);
}

/* ---- every event ----------------------------------------------------------------------------- */

void shard_enter(struct shard *shard, int64_t now_ns)
{
    if (now_ns <= shard->now_ns)
        return;
    const int64_t gap_ns = now_ns - shard->now_ns;
    shard->now_ns = now_ns;
    if (gap_ns < shard->options.silence_ns / 2) {
        const int64_t behind_ns = gap_ns - peers_interval_ns(shard);
        shard->behind_ns += behind_ns > 0 ? behind_ns : 0;
        return;
    }
    shard->silence_epoch_ns = now_ns;
    shard->keepalive.next_ping_ns = now_ns;
    shard->stats.stalls++;
    skew_gap(shard, gap_ns);
}

void shard_settle(struct shard *shard, struct effects *effects)
{
    ASSERT(shard->message.request == POOL_NONE); /* REQUESTS-11 */
    decide_run(shard, effects);
    if (shard->lessor.count > 0) {
        lessor_step(shard, effects);
        decide_run(shard, effects); /* who got tokens may give others back, here */
    }
    if (shard->reroute_due)
        route_pending_tick(shard, effects);
    requests_send_ready(shard, effects);
}

void shard_client(struct shard *shard, int64_t now_ns, uint64_t connection, const void *frame,
                  size_t len, struct effects *effects)
{
    char error[WIRE_ERROR_LEN];
    struct wire_envelope envelope;
    shard_enter(shard, now_ns);
    shard->keepalive.busy_ns = shard->now_ns;
    const int result = wire_peek(frame, len, &envelope, error);
    if (result != 0) {
        shard->stats.bad_frames++;
        requests_error(shard, connection, envelope.session, envelope.seq, result, error, effects);
        return;
    }
    switch (envelope.type) {
    case WIRE_CHECKS:
        requests_checks(shard, connection, frame, len, effects);
        break;
    case WIRE_HELLO:
        admin_hello(shard, connection, frame, len, effects);
        break;
    case WIRE_GET_RING:
        admin_ring(shard, connection, frame, len, effects);
        break;
    case WIRE_ADMIN:
        admin_command(shard, connection, frame, len, effects);
        break;
    case WIRE_GOODBYE: /* nothing is kept for a session: what is queued goes with the connection */
        break;
    default:
        shard->stats.bad_frames++;
        requests_error(shard, connection, envelope.session, envelope.seq, TG_EUNSUPPORTED,
                       "message type is not one that a node answers", effects);
        break;
    }
    shard_settle(shard, effects);
}

void shard_refuse(struct shard *shard, int64_t now_ns, uint64_t connection, const void *frame,
                  size_t len, struct effects *effects)
{
    char error[WIRE_ERROR_LEN];
    struct wire_envelope envelope;
    if (wire_peek(frame, len, &envelope, error) != 0 || envelope.type != WIRE_CHECKS) {
        shard_client(shard, now_ns, connection, frame, len, effects);
        return;
    }
    shard_enter(shard, now_ns);
    const uint32_t count = wire_checks_count(frame, len, &shard->checks_space);
    shard->stats.busy += count;
    shard->stats.shed += count;
    tallies_refused(shard, connection, count, OUTCOME_BUSY);
    requests_error(shard, connection, envelope.session, envelope.seq, TG_EBUSY,
                   "overloaded: more waits already than can be decided soon", effects);
    shard_settle(shard, effects);
}

/* ---- frames of peers ------------------------------------------------------------------------- */

static void take_vnode(struct shard *shard, uint16_t at, const struct peer_record *record,
                       const struct stream_in *in, struct effects *effects)
{
    const struct peer_vnode *entry = &record->vnode;
    switch (record->type) {
    case PEER_WATERMARK:
        if (in->accept)
            stream_in_watermark(shard, at, entry, effects);
        break;
    case PEER_STALE:
        vnodes_hear(shard, at, entry);
        break;
    case PEER_QUERY:
        vnodes_query(shard, at, entry, effects);
        break;
    case PEER_REPORT:
        vnodes_report(shard, at, entry, effects);
        break;
    case PEER_PULL:
        vnodes_catch_up(shard, at, entry, effects);
        break;
    case PEER_TRANSFER:
        vnodes_transfer(shard, at, entry, effects);
        break;
    case PEER_OPENED:
        vnodes_opened(shard, at, entry);
        peers_opened(shard, at, entry->sync);
        break;
    case PEER_HELD:
        stream_held(shard, at, entry, effects);
        break;
    case PEER_LACK:
        vnodes_lack(shard, at, entry, effects);
        break;
    case PEER_DIVERGED_END:
        if (in->accept)
            reconcile_in_end(shard, at, entry, effects);
        break;
    case PEER_MERGED:
        reconcile_merged(shard, at, entry, effects);
        break;
    default:
        break;
    }
}

/* The vnode that a record is about; any of the first plane if it is about none. */
static uint32_t vnode_of(const struct peer_record *record)
{
    switch (record->type) {
    case PEER_FORWARD:
    case PEER_FORWARD_GLOBAL:
        return record->forward.vnode;
    case PEER_MOVED:
        return record->moved.vnode;
    case PEER_TERM:
        return record->term.vnode;
    case PEER_CHANGE:
        return record->change.term.vnode;
    case PEER_SLOT:
    case PEER_DIVERGED:
        return record->slot.vnode;
    case PEER_LINEAGE:
        return record->lineage.vnode;
    case PEER_MERGE_BASE:
        return record->side.vnode;
    case PEER_APART:
        return record->apart.vnode;
    case PEER_RESERVED:
        return record->reserved.vnode;
    case PEER_FIRSTS:
        return record->firsts.vnode;
    case PEER_PING:
    case PEER_ANSWER:
    case PEER_EXPLAIN:
    case PEER_STREAM:
    case PEER_ACK:
    case PEER_POOL_REPORT:
    case PEER_POOL_LEVEL:
    case PEER_REMOTE_PING:
    case PEER_REMOTE_ASK:
    case PEER_REMOTE_ANSWER:
    case PEER_REMOTE_POOL_REPORT:
    case PEER_REMOTE_POOL_LEVEL:
    case PEER_TYPE_END:
        return 0;
    default:
        return record->vnode.vnode;
    }
}

/* Whether the record is of what only the plane of `one` knows: splits that are merged, CHANGE. */
static bool of_one(const struct peer_record *record)
{
    return (record->type >= PEER_LINEAGE && record->type <= PEER_MERGED) ||
           record->type == PEER_CHANGE;
}

/* What a replica takes, of a frame that is the next one. */
static void take_stream(struct shard *shard, uint16_t at, const struct peer_record *record,
                        struct effects *effects)
{
    ASSERT(record->type == PEER_TERM || record->type == PEER_SLOT || record->type == PEER_CHANGE);
    if (record->type == PEER_TERM)
        stream_in_term(shard, at, &record->term, effects);
    else if (record->type == PEER_SLOT)
        stream_in_slot(shard, at, &record->slot);
    else
        stream_in_change(shard, at, &record->change, effects);
}

static void take_record(struct shard *shard, uint16_t at, const struct peer_record *record,
                        struct stream_in *in, struct effects *effects)
{
    switch (record->type) {
    case PEER_PING:
        peers_ping(shard, at, &record->ping);
        break;
    case PEER_FORWARD:
    case PEER_FORWARD_GLOBAL:
        route_pending_forwarded(shard, at, &record->forward, effects);
        break;
    case PEER_ANSWER:
        route_pending_answered(shard, at, record->answer.ticket, &record->answer.answer, effects);
        break;
    case PEER_EXPLAIN:
        route_pending_explained(shard, record->explain.ticket, record->explain.states,
                                record->explain.count, effects);
        break;
    case PEER_MOVED:
        vnodes_moved(shard, at, record->moved.vnode, &record->moved.term, effects);
        route_pending_moved(shard, record->moved.ticket);
        break;
    case PEER_STREAM:
        stream_in_begin(shard, at, record, in);
        break;
    case PEER_ACK:
        stream_acked(shard, at, record);
        break;
    case PEER_TERM:
    case PEER_SLOT:
    case PEER_CHANGE:
        if (in->accept)
            take_stream(shard, at, record, effects);
        break;
    case PEER_FIRSTS:
        stream_in_firsts(shard, at, in->accept, &record->firsts);
        break;
    case PEER_LINEAGE:
        reconcile_in_lineage(shard, at, record);
        break;
    case PEER_MERGE_BASE:
        merge_in_base(shard, record);
        break;
    case PEER_APART:
        if (in->accept)
            reconcile_in_apart(shard, at, record);
        break;
    case PEER_DIVERGED:
        if (in->accept)
            merge_in_diverged(shard, record);
        break;
    case PEER_RESERVED:
        vnodes_reserved(shard, record);
        break;
    case PEER_POOL_REPORT:
        pools_reported(shard, at, &record->pool_report);
        break;
    case PEER_POOL_LEVEL:
        pools_level(shard, at, &record->pool_level);
        break;
    case PEER_REMOTE_POOL_REPORT:
        pools_reported_remote(shard, &record->pool_report);
        break;
    default:
        take_vnode(shard, at, record, in, effects);
        break;
    }
}

void shard_peer(struct shard *shard, int64_t now_ns, const void *frame, size_t len,
                struct effects *effects)
{
    struct peer_envelope envelope;
    struct bytes_reader reader;
    struct peer_record record;
    struct stream_in in = {.accept = false};
    shard_enter(shard, now_ns);
    if (peer_decode(frame, len, &envelope) != 0) {
        shard->stats.bad_frames++;
        return;
    }
    const struct view_member *member =
        shard->view != NULL ? view_find(shard->view, envelope.node) : NULL;
    if (member != NULL && view_is_remote(shard->view, member)) {
        cross_region_frame(shard, &envelope, effects);
        shard_settle(shard, effects);
        return;
    }
    const uint16_t at = peers_find(shard, envelope.node, envelope.shard);
    if (at == PEER_NONE || shard->view == NULL) /* not a member as far as this shard knows yet */
        return;
    if (peers_former(shard, at, envelope.boot))
        return;
    if (!peers_credible(shard, at, envelope.boot)) {
        shard->stats.forged_frames++;
        return;
    }
    if (skew_frame(shard, at, &envelope))
        return;
    in.bulk = envelope.bulk;
    if (!in.bulk && peers_heard(shard, at, envelope.boot))
        vnodes_peer_restarted(shard, at, effects);
    if (shard->peers[at]->boot != envelope.boot)
        /* a copy, sent by a process that is gone or not known yet: no sign of life (PEERS-5) */
        return;
    shard->peers[at]->reads = envelope.reads;
    shard->handoff.received += in.bulk ? len : 0;
    bytes_reader_init(&reader, envelope.records, envelope.len);
    merge_frame_begin(shard);
    int result;
    for (;;) {
        stream_in_prefetch(shard, &reader, &in);
        result = peer_next(&reader, 2 * shard->options.vnodes, &record);
        if (result <= 0)
            break;
        if (record.type != PEER_PING && (peers_cannot_hear_us(shard, at) || !skew_stands(shard)))
            continue;
        if (record.type != PEER_PING)
            shard->keepalive.busy_ns = shard->now_ns;
        const bool quorum = vnodes_quorum(shard, vnode_of(&record));
        if (quorum && of_one(&record)) {
            result = TG_EPROTOCOL;
            break;
        }
        if (!credible_record(shard, vnode_of(&record), &record)) {
            shard->stats.forged_frames++;
            continue;
        }
        if (quorum)
            vnodes_use_quorum(shard, effects);
        take_record(shard, at, &record, &in, effects);
    }
    if (result < 0)
        shard->stats.bad_frames++;
    shard_settle(shard, effects);
}

void shard_peer_closed(struct shard *shard, int64_t now_ns, uint64_t node, uint16_t peer_shard,
                       bool refused, struct effects *effects)
{
    shard_enter(shard, now_ns);
    const uint16_t at = peers_find(shard, node, peer_shard);
    if (at == PEER_NONE || shard->view == NULL)
        return;
    peers_closed(shard, at, refused, effects);
    shard_settle(shard, effects);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Changes with the peers that there are, and with the shard of a node that serves a vnode. */
static uint64_t digest_peers(const struct shard *shard)
{
    uint64_t digest = shard->peer_count;
    for (uint32_t i = 0; i < shard->view->member_count; i++) {
        const struct view_member *member = &shard->view->members[i];
        if (!view_is_remote(shard->view, member))
            digest += hash_mix64(member->id ^ hash_mix64(member->shards));
    }
    return digest;
}

void shard_view(struct shard *shard, int64_t now_ns, const struct view *view,
                struct effects *effects)
{
    ASSERT(view->self < view->member_count && view->vnodes == shard->options.vnodes); /* VIEW-1 */
    shard_enter(shard, now_ns);
    const bool reconfigured = shard->view == NULL || shard->view->epoch != view->epoch;
    shard->view = view;
    peers_follow_view(shard);
    skew_view(shard);
    remote_follow_view(shard);
    const uint64_t peers = digest_peers(shard);
    if (reconfigured || peers != shard->peers_followed)
        vnodes_follow_view(shard, effects);
    shard->peers_followed = peers;
    if (shard->quorum.wanted)
        vnodes_use_quorum(shard, effects);
    vnodes_mark_all_active(shard); /* members came or went */
    shard->reroute_due = true;
    shard_settle(shard, effects);
}

void shard_policy(struct shard *shard, const struct policy *policy)
{
    ASSERT(policy != NULL && shard->policy < SHARD_POLICIES_MAX);
    for (uint32_t i = 0; i < SHARD_POLICIES_MAX; i++) {
        struct policy_slot *slot = &shard->policies[i];
        if (slot->policy == NULL) {
            slot->policy = policy;
            slot->denied = policy_joined(policy)->blocks;
            slot->api_keys = policy_joined(policy)->api_keys;
            slot->people = policy_joined(policy)->people;
            slot->global = policy_has_global(policy);
            slot->version = policy_joined(policy)->version;
            answered_follow(&shard->tallies.answered, policy);
            if (slot->version > shard->rules_seen)
                shard->rules_seen = slot->version;
            api_keys_cache_init(&shard->api_keys_cache, &shard->options.secret);
            shard->policy = i;
            shard->quorum.wanted = shard->quorum.wanted || policy_has_quorum(policy);
            return;
        }
    }
    ASSERT(false); /* the runtime offers new rules only when old ones were given back */
}

struct hash_key shard_secret(const struct shard *shard)
{
    return shard->options.secret;
}

const struct policy *shard_policy_now(const struct shard *shard)
{
    return shard->policies[shard->policy].policy;
}

const struct policy *shard_policy_unused(struct shard *shard)
{
    for (uint32_t i = 0; i < SHARD_POLICIES_MAX; i++) {
        struct policy_slot *slot = &shard->policies[i];
        if (slot->policy != NULL && i != shard->policy && slot->references == 0) {
            const struct policy *unused = slot->policy;
            slot->policy = NULL;
            return unused;
        }
    }
    return NULL;
}

struct usage_tally *shard_usage(struct shard *shard, struct usage_tally *empty)
{
    struct usage_tally *seen = shard->tallies.usage;
    ASSERT(empty == NULL || empty->count == 0);
    shard->tallies.usage = empty;
    return seen;
}

const struct policy *shard_policy_take(struct shard *shard)
{
    for (uint32_t i = 0; i < SHARD_POLICIES_MAX; i++) {
        const struct policy *policy = shard->policies[i].policy;
        shard->policies[i].policy = NULL;
        if (policy != NULL)
            return policy;
    }
    return NULL;
}

void shard_loaded(struct shard *shard, int64_t now_ns, uint32_t vnode, struct hash128 id,
                  int result, const uint8_t *state, size_t len, struct effects *effects)
{
    shard_enter(shard, now_ns);
    const bool copied = cold_keys_loaded(shard, id, result, state, len, effects);
    if (copied && !route_pending_await(shard, id) && !merge_awaits(shard, id)) {
        shard_settle(shard, effects);
        return;
    }
    if (result == 0 && shard->vnodes[vnode].role == ROLE_ABSENT)
        result = TG_ENOTFOUND; /* dropped meanwhile; what it held is being removed */
    if (result == 0) {
        result = table_import(shard->table, vnode, id, state, len, shard->now_ns, TABLE_FROM_DISK);
    }
    merge_loaded(shard, vnode, id, result == TG_EFULL ? TG_EBUSY : result);
    route_pending_loaded(shard, vnode, id, result, effects);
    shard_settle(shard, effects);
}

static void watch_disk(struct shard *shard)
{
    if (writeback_clean(shard))
        shard->writeback.dirty_ns = 0;
    else if (shard->writeback.dirty_ns == 0)
        shard->writeback.dirty_ns = shard->now_ns;
}

void shard_unread(struct shard *shard, int64_t now_ns)
{
    shard_enter(shard, now_ns);
    shard->silence_epoch_ns = shard->now_ns;
}

/* Each keep-alive wakes two threads here and as many at the peer, so one that has nothing to do
 * sends fewer, and looks at its vnodes only then. */
static void pace(struct shard *shard)
{
    const int64_t interval_ns = peers_interval_ns(shard);
    const int64_t latest_ns = shard->now_ns + interval_ns;
    const bool idle = interval_ns != shard->options.keepalive_ns;
    if (shard->keepalive.idle && !idle) /* leases may be about to end */
        shard->keepalive.next_ping_ns = shard->now_ns;
    shard->keepalive.idle = idle;
    if (shard->keepalive.next_ping_ns > latest_ns)
        shard->keepalive.next_ping_ns = latest_ns;
    if (idle)
        shard->next.watch_ns = shard->keepalive.next_ping_ns;
    else if (shard->next.watch_ns > latest_ns)
        shard->next.watch_ns = latest_ns;
}

void shard_tick(struct shard *shard, int64_t now_ns, struct effects *effects)
{
    shard_enter(shard, now_ns);
    if (shard->view == NULL)
        return;
    skew_tick(shard);
    unfinished_tick(shard, effects);
    if (shard->quorum.wanted)
        vnodes_use_quorum(shard, effects);
    if (shard->now_ns >= shard->next.watch_ns) {
        shard->next.watch_ns = shard->now_ns + shard->options.keepalive_ns;
        vnodes_tick(shard, effects);
        stream_tick(shard);
        handoff_tick(shard);
        exposure_tick(shard);
        fallback_tick(shard);
        if (skew_stands(shard))
            (void)table_step(shard->table, shard->now_ns);
        journal_tick(shard);
        filter_rebuild_tick(shard, effects);
        merge_tick(shard, effects);
        watch_disk(shard);
    }
    if (shard->active_count > 0 && shard->now_ns >= shard->next.pending_ns) {
        shard->next.pending_ns = shard->now_ns + SHARD_REROUTE_NS;
        route_pending_tick(shard, effects);
    }
    if (shard->now_ns >= shard->next.stream_ns) {
        shard->next.stream_ns = shard->now_ns + shard->options.replicate_ns;
        stream_send(shard, effects);
        cold_keys_tick(shard, effects);
    }
    lessee_tick(shard, effects);
    allocation_tick(shard);
    remote_tick(shard, effects);
    shard_settle(shard, effects);
    pools_tick(shard, effects);
    journal_pretend(shard, effects);
    if (shard->quorum.due) { /* QUORUM-3: what waits for a majority does not wait for time */
        shard->quorum.due = false;
        stream_send(shard, effects);
    }
    pace(shard);
    peers_tick(shard, effects);
    for (uint16_t i = 0; i < shard->peer_count; i++)
        peers_flush(shard, i, effects);
    remote_flush(shard, effects);
}

int64_t shard_next_deadline(const struct shard *shard)
{
    const bool due = shard->quorum.due || shard->ready != POOL_NONE || shard->unfinished.count > 0;
    int64_t next = due ? shard->now_ns : shard->next.watch_ns;
    if (shard->keepalive.next_ping_ns < next)
        next = shard->keepalive.next_ping_ns;
    if (shard->keepalive.idle &&
        shard->keepalive.next_silence_ns < next) /* a busy one looks often enough */
        next = shard->keepalive.next_silence_ns;
    if (shard->active_count > 0 && shard->next.pending_ns < next)
        next = shard->next.pending_ns;
    if (shard->lessee.busy > 0 && shard->lessee.next_ns < next)
        next = shard->lessee.next_ns;
    if (shard->handoff.busy && shard->next.stream_ns < next)
        next = shard->next.stream_ns;
    for (uint32_t link = 1; link < TABLE_TARGETS; link++)
        if (!table_target_idle(shard->table, link) && shard->next.stream_ns < next)
            next = shard->next.stream_ns;
    return next;
}

/* Whether something is to be undone, or may be once the others have answered, or tokens are on
 * their way back: nobody else would. */
static bool owes_undos(const struct shard *shard)
{
    for (uint32_t i = 0; i < shard->active_count; i++) {
        const struct pending_check *check = pending_at(shard, shard->active[i]);
        if (!check->from_peer &&
            ((check->forward.flags & FORWARD_SEVERAL) != 0 || check->cache != 0))
            return true;
    }
    return false;
}

/* Whether something is decided here that a living replica could decide. */
static bool has_to_transfer(const struct shard *shard)
{
    for (uint32_t number = vnodes_first(shard); number < shard->vnode_end;
         number = vnodes_next(shard, number)) {
        const struct vnode *vnode = &shard->vnodes[number];
        if (vnode->role != ROLE_LEADING && vnode->role != ROLE_TRANSFERRING)
            continue;
        for (uint32_t i = 0; i < vnode->link_count; i++) {
            const uint16_t at = vnode->links[i].peer;
            if (at != PEER_NONE && !peers_silent(shard, at) && !shard->peers[at]->resigning)
                return true;
        }
    }
    return false;
}

/* What waits for others is answered before the clients are left, however long they would wait. */
static void hurry_pending(struct shard *shard)
{
    const int64_t latest_ns = shard->now_ns + SHARD_LEAVE_NS;
    for (uint32_t i = 0; i < shard->active_count; i++) {
        struct pending_check *check = pending_at(shard, shard->active[i]);
        if (!check->from_peer && !check->undo && check->deadline_ns > latest_ns)
            check->deadline_ns = latest_ns;
    }
}

bool shard_resign(struct shard *shard, int64_t now_ns, struct effects *effects)
{
    const bool before = shard->resigned;
    if (!shard->resigning) {
        shard->keepalive.next_ping_ns = now_ns; /* tell the others before anything is passed */
        vnodes_mark_all_active(shard);
        shard->resigning = true;
        lessee_close(shard, effects);
    }
    shard_tick(shard, now_ns, effects);
    shard->resigned = shard->resigned || (!has_to_transfer(shard) && shard->unfinished.count == 0);
    if (shard->resigned && !before)
        hurry_pending(shard);
    return shard->resigned && !owes_undos(shard);
}

void shard_each_waiting(const struct shard *shard, void (*fn)(void *context, uint64_t connection),
                        void *context)
{
    uint32_t left = shard->requests.used;
    for (uint32_t at = 0; left > 0; at++) {
        if (!pool_in_use(&shard->requests, at))
            continue;
        const struct request *request = pool_at(&shard->requests, at);
        fn(context, request->connection);
        left--;
    }
}

uint64_t shard_settled_epoch(const struct shard *shard)
{
    return shard->settled_epoch;
}

static uint64_t unconfirmed_changes(const struct shard *shard)
{
    uint64_t changes = 0;
    for (uint32_t number = vnodes_first(shard); number < shard->options.vnodes;
         number = vnodes_next(shard, number)) {
        const struct vnode *vnode = &shard->vnodes[number];
        if (vnode->role != ROLE_LEADING || vnode->link_count == 0)
            continue;
        const uint64_t seq = table_vnode_seq(shard->table, number);
        uint64_t lag = UINT64_MAX;
        for (uint32_t i = 0; i < vnode->link_count && lag > 0; i++) {
            const uint64_t behind = seq - stream_held_seq(shard, number, i);
            lag = behind < lag ? behind : lag;
        }
        changes += lag;
    }
    return changes;
}

static void stats_of_quorum(const struct shard *shard, struct shard_stats *out)
{
    const uint32_t *roles = shard->quorum.roles;
    int64_t oldest_ns = shard->now_ns;
    for (uint32_t number = shard->options.vnodes; number < shard->vnode_end; number++) {
        const struct quorum *quorum = quorum_of(shard, number);
        if (quorum->first_pending != POOL_NONE &&
            pending_at(shard, quorum->first_pending)->sent_ns < oldest_ns)
            oldest_ns = pending_at(shard, quorum->first_pending)->sent_ns;
        if (shard->vnodes[number].role != ROLE_ABSENT &&
            (quorum->lost_ns != 0 || quorum_failing(shard, number)))
            out->quorum.vnodes_undecided++;
    }
    out->quorum.lag_ns = (uint64_t)(shard->now_ns - oldest_ns);
    out->quorum.uncommitted = shard->quorum.uncommitted;
    out->quorum.vnodes_leading = roles[ROLE_LEADING] + roles[ROLE_TRANSFERRING];
    out->quorum.vnodes = out->quorum.vnodes_leading + roles[ROLE_REPLICA] + roles[ROLE_RECOVERING];
}

void shard_stats(const struct shard *shard, struct shard_stats *out)
{
    struct table_stats table;
    table_stats(shard->table, &table);
    *out = shard->stats;
    out->taken_ns = shard->now_ns;
    lessee_stats(shard, out);
    out->flush_lag_ns =
        shard->writeback.dirty_ns == 0 ? 0 : shard->now_ns - shard->writeback.dirty_ns;
    out->slots = table.used;
    out->slots_max = table.capacity;
    out->evicted = table.evicted;
    out->refused = table.refused;
    out->turned_away = table.turned_away;
    out->turned_away_ns = table.turned_away_ns;
    out->forgotten += out->unreadable;
    out->room = table.room;
    out->reserves_dropped = shard->reserves.answers.dropped;
    out->retries_dropped = shard->retries.dropped;
    out->retry_lost = shard->firsts.lost;
    out->checks_pending = shard->active_count;
    out->unconfirmed = unconfirmed_changes(shard);
    exposure_stats(shard, out);
    out->guarded = shard->merge.bases.entries;
    stats_of_quorum(shard, out);
    pools_stats(shard, out);
    out->vnodes_leading = shard->roles[ROLE_LEADING] + shard->roles[ROLE_TRANSFERRING];
    out->vnodes_replica = shard->roles[ROLE_REPLICA];
    out->vnodes_recovering = shard->roles[ROLE_RECOVERING];
    handoff_stats(shard, out);
}

enum shard_role shard_vnode(const struct shard *shard, uint32_t number, struct term *term)
{
    *term = shard->vnodes[number].term;
    return (enum shard_role)shard->vnodes[number].role;
}

/* There are some 100,000 entries: each look is at the next ones. */
enum { RETRY_LOOKS = 256 };

void shard_check_invariants(const struct shard *shard)
{
    peers_check_invariants(shard);
    vnodes_check_invariants(shard);
    for (uint32_t number = vnodes_first(shard); number < shard->vnode_end;
         number = vnodes_next(shard, number))
        INVARIANT("VNODES-8", shard->vnodes[number].is_active || vnodes_quiescent(shard, number));
    pending_check_invariants(shard);
    requests_check_invariants(shard);
    quorum_check_invariants(shard);
    journal_check_invariants(shard);
    table_check_invariants(shard->table);
    pools_check_invariants(shard);
    lessor_check_invariants(shard);
    lessee_check_invariants(shard);
    allocation_check_invariants(shard);
    replication_check_invariants(shard);
    merge_check_invariants(shard);
    writeback_check_invariants(shard);
    remote_check_invariants(shard);
    reserve_check_invariants(&shard->reserves);
    retry_check_invariants(&shard->reserves.answers, shard->ticks * RETRY_LOOKS, RETRY_LOOKS);
    retry_check_invariants(&shard->retries, shard->ticks * RETRY_LOOKS, RETRY_LOOKS);
}

void shard_journaled(struct shard *shard, int64_t now_ns, bool ok, struct effects *effects)
{
    shard_enter(shard, now_ns);
    journal_done(shard, ok, effects);
    shard_settle(shard, effects);
    for (uint16_t i = 0; i < shard->peer_count; i++)
        channel_flush(shard, i, CHANNEL_LIVE, effects);
}
