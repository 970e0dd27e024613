/* requests.c - client messages: from checks to limits to decisions.
 *
 * Each item is resolved to parts: the inline limit, or one part a matching rule. An item whose
 * parts are all decided here is one all-or-nothing group of the engine. Otherwise each part goes
 * its own way, and all are charged at once, in one round trip. When all have answered, what is to
 * stay is known: all of it, what the least of them granted (at_most), or nothing; the rest is
 * undone, one by one, until each decider has acknowledged it (parts_undo, reserve.h).
 *
 *   user at n2  <--charge--+         +-- granted --+                +--undo--> acknowledged
 *   ip at n5    <--charge--+-- item -+-- denied ---+--> denied -----+
 *   team at n1  <--charge--+         +-- granted --+   (answered)   +--undo--> acknowledged
 *
 *   frame --> items --> policy --> parts --+--> batch ------------------> row of the item
 *                                          +--> wait (parts.c) --------->   |
 *   reply <-- columns <-- rows <---- when no part of the message is missing +
 *
 * Most messages are answered within the event that brought them, from the scratch rows of the
 * shard. Only one that has to wait gets a `request` that keeps its rows.
 *
 * Q1  Every item gets exactly one decision; what cannot be decided is `busy` or `error`, with the
 *     verdict that the rule's on_failure gives.
 * Q2  A malformed message is refused as a whole, with a sentence; nothing of it is charged.
 * Q3  An item is allowed iff all its rules allow it. If one denies it, or cannot be asked in time,
 *     none stays charged, but for what it denied itself and counts (count_denied); that holds when
 *     replies and undos are lost, and not when this node dies before they are acknowledged: then
 *     the charges stay until they drain. A charge meanwhile may make another request be denied.
 *     A rule on trial that cannot be asked neither denies nor allows.
 * Q4  A peek takes nothing anywhere; a hit, a refund and a reset go to all, and are not undone.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"
#include "node/policy/api_keys.h"
#include "node/policy/blocks.h"
#include "node/policy/people.h"

static_assert((int)POLICY_LIMITS_MAX <= (int)PEER_LIMITS_MAX, "a rule's limits fit a forward");
static_assert((int)WIRE_ATTRIBUTES_MAX <= (int)POLICY_ATTRIBUTES_GIVEN_MAX,
              "what is added to a request's attributes has room");
static_assert(RESERVE_KEEP_NS >= SHARD_DEADLINE_NS + SHARD_UNDO_NS, "an undo finds its charge");

#define QUORUM_ID UINT64_C(0x51756f72756d4944) /* makes slot ids of that plane different */

enum {
    STATUS_OK = 200,
    STATUS_BAD = 400,
    STATUS_FORBIDDEN = 403,
    STATUS_LIMITED = 429,
    STATUS_UNAVAILABLE = 503
};

void requests_error(struct shard *shard, uint64_t connection, uint64_t session, uint64_t seq,
                    int code, const char *text, struct effects *effects)
{
    (void)shard;
    const struct wire_error message = {
        .session = session,
        .seq = seq,
        .code = code,
        .text = {text, strlen(text)},
    };
    const size_t room = WIRE_ERROR_LEN + 64;
    const int len = wire_encode_error(&message, effects_reserve(effects, room), room);
    ASSERT(len > 0);
    struct effect *effect = effects_add(effects, EFFECT_SEND_CLIENT);
    effect->target = connection;
    effects_commit(effects, effect, (size_t)len);
}

void requests_refuse(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                     int code, const char *text, struct effects *effects)
{
    struct wire_envelope envelope = {0};
    char ignored[WIRE_ERROR_LEN];
    if (wire_peek(frame, len, &envelope, ignored) != 0)
        shard->stats.bad_frames++;
    requests_error(shard, connection, envelope.session, envelope.seq, code, text, effects);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void row_init(struct row *row)
{
    memset(row, 0, sizeof *row);
    row->allowed = true;
    row->outcome = OUTCOME_COUNT;
    row->first_part = POOL_NONE;
    row->vnode = WIRE_VNODE_NONE;
}

static struct row *row_of(struct shard *shard, uint32_t request, uint32_t item)
{
    if (request == shard->current)
        return &shard->rows[item];
    const struct request *waiting = pool_at(&shard->requests, request);
    struct row *block = pool_at(&shard->blocks, waiting->blocks[item / SHARD_ROW_BLOCK]);
    return &block[item % SHARD_ROW_BLOCK];
}

/* Whether `answer` says more about the item than what the row shows: a denial the longest wait;
 * else what it granted (at most), then what is left. */
static bool says_more(const struct row *row, const struct answer *answer)
{
    if (!row->shown)
        return true;
    if (answer->allowed != row->allowed)
        return !answer->allowed;
    if (answer->allowed && row->granted_set && answer->granted != row->granted)
        return answer->granted < row->granted;
    if (answer->allowed && answer->remaining != row->remaining)
        return answer->remaining < row->remaining;
    if (answer->allowed && answer->borrowed != row->borrowed)
        return answer->borrowed;
    if (answer->allowed)
        return answer->soft && !row->soft;
    return (uint64_t)answer->retry_after_ns > (uint64_t)row->retry_after_ns;
}

static void show(struct row *row, const struct policy_rule *rule, const struct limit *limit,
                 uint32_t vnode, const struct answer *answer, uint64_t node)
{
    row->shown = true;
    row->rule = rule;
    row->limit_shown = *limit;
    row->vnode = vnode;
    row->node = node;
    row->limit = answer->limit;
    row->used = answer->used;
    row->remaining = answer->remaining;
    row->reset_after_ns = answer->reset_after_ns;
    row->retry_after_ns = answer->retry_after_ns;
}

static void merge(struct row *row, const struct policy_rule *rule, const struct limit *limit,
                  uint32_t vnode, const struct answer *answer, uint64_t node)
{
    ASSERT(row->parts_left > 0);
    row->parts_left--;
    if (rule != NULL && rule->shadow &&
        (answer->status != ANSWER_DECIDED || row->outcome != OUTCOME_COUNT))
        return; /* it would have recorded something, or has: what denies is known without it */
    if (answer->status != ANSWER_DECIDED) {
        row->failure = answer->status;
        row->rule = rule;
        row->vnode = vnode;
        row->degraded = true;
        if (rule == NULL || rule->on_failure != POLICY_FAILURE_OPEN)
            row->allowed = false;
        return;
    }
    if (rule != NULL && rule->shadow && !answer->allowed) {
        row->shadow_denied = true;
        return;
    }
    const bool binds = rule == NULL || !rule->shadow;
    if (says_more(row, answer))
        show(row, rule, limit, vnode, answer, node);
    if (!row->granted_set || (binds && answer->granted < row->granted))
        row->granted = answer->granted;
    row->granted_set = row->granted_set || binds;
    if (answer->delay_ns > row->delay_ns)
        row->delay_ns = answer->delay_ns; /* the longest of all queues that it joined */
    row->allowed = row->allowed && answer->allowed;
    row->soft = row->soft || (answer->soft && (rule == NULL || !rule->shadow));
    row->borrowed = row->borrowed || (answer->borrowed && (rule == NULL || !rule->shadow));
    row->degraded = row->degraded || answer->degraded;
}

/* ---- the reply ------------------------------------------------------------------------------- */

static int64_t ms_up(int64_t ns)
{
    return ns < 0 ? -1 : ns / MS + (ns % MS != 0);
}

static uint8_t outcome_of(const struct row *row)
{
    if (row->outcome != OUTCOME_COUNT)
        return row->outcome;
    if (row->failure == ANSWER_BUSY && !row->allowed)
        return OUTCOME_BUSY;
    if (row->failure != ANSWER_DECIDED && !row->allowed)
        return OUTCOME_ERROR;
    if (!row->allowed)
        return OUTCOME_DENY;
    if (row->borrowed)
        return OUTCOME_ELASTIC_BORROWED;
    if (row->soft)
        return OUTCOME_SOFT_EXCEEDED; /* of limits in force, so it goes before those on trial */
    return row->shadow_denied ? OUTCOME_SHADOW_DENIED : OUTCOME_ALLOW;
}

static uint16_t status_of(const struct row *row, uint8_t outcome)
{
    if (row->allowed)
        return STATUS_OK;
    if (row->refusal != NULL)
        return STATUS_BAD;
    if (outcome == OUTCOME_BUSY || outcome == OUTCOME_ERROR)
        return STATUS_UNAVAILABLE;
    if (outcome == OUTCOME_NO_RULE)
        return STATUS_FORBIDDEN;
    return row->rule != NULL ? row->rule->status : STATUS_LIMITED;
}

/* The text of a window that an own limit replaced. */
static struct wire_text own_window_of(struct shard *shard, const struct row *row)
{
    if (shard->reply.window_count == WIRE_SOURCES_MAX)
        return wire_text_of("");
    char *text = shard->reply.windows[shard->reply.window_count++];
    shard->reply.window_last = (struct quantity_rate){0, 0};
    own_limits_window(row->rule, &row->limit_shown, text);
    return wire_text_of(text);
}

/* The text of the deciding limit's window; an inline one is written into the scratch of windows,
 * one entry a source, which is enough because equal texts are one source. */
static struct wire_text window_of(struct shard *shard, const struct row *row)
{
    if (!row->shown)
        return wire_text_of("");
    if (row->rule != NULL)
        for (uint32_t i = 0; i < row->rule->limit_count; i++)
            if (row->rule->limits[i].algorithm == row->limit_shown.algorithm &&
                row->rule->limits[i].ordinal == row->limit_shown.ordinal)
                return row->rule->limits[i].count == row->limit_shown.count || !row->rule->plan
                           ? wire_text_of(row->rule->windows[i])
                           : own_window_of(shard, row);
    const struct quantity_rate rate = {row->limit_shown.count, row->limit_shown.window_ns};
    if (shard->reply.window_count > 0 && shard->reply.window_last.count == rate.count &&
        shard->reply.window_last.window_ns == rate.window_ns)
        return wire_text_of(shard->reply.windows[shard->reply.window_count - 1]);
    if (shard->reply.window_count == WIRE_SOURCES_MAX)
        return wire_text_of("");
    char *text = shard->reply.windows[shard->reply.window_count++];
    shard->reply.window_last = rate;
    quantity_format_rate(&rate, text);
    return wire_text_of(text);
}

static uint16_t source_of(struct shard *shard, const struct row *row, uint8_t outcome)
{
    const struct view_member *node =
        shard->view != NULL && row->node != 0 ? view_find(shard->view, row->node) : NULL;
    struct wire_source source = {
        .window = window_of(shard, row),
        .status = status_of(row, outcome),
        .node = wire_text_of(node != NULL ? node->name : shard->options.name),
    };
    if (row->rule != NULL)
        source.rule = (struct wire_text){row->rule->name.data, row->rule->name.len};
    if (!row->allowed && row->refusal != NULL)
        source.message = wire_text_of(row->refusal);
    else if (!row->allowed && row->rule != NULL)
        source.message = (struct wire_text){row->rule->message.data, row->rule->message.len};
    return wire_sources_add(&shard->reply.sources, &source);
}

/* What is told of a request is counted for its user and its API key. */
static void count_usage(struct shard *shard, const struct row *row, bool exceeded)
{
    const uint64_t now_ms = (uint64_t)(shard->now_ns / MS);
    if (shard->usage == NULL)
        return;
    if (row->user_hash != 0)
        usage_tally_add(shard->usage, row->user_hash, exceeded, now_ms);
    if (row->key_hash != 0)
        usage_tally_add(shard->usage, row->key_hash, exceeded, now_ms);
}

static void fill_column(struct shard *shard, uint32_t at, const struct row *row)
{
    struct wire_decision_columns *columns = &shard->reply.columns;
    const uint8_t outcome = outcome_of(row);
    int64_t retry_ns = row->retry_after_ns;
    if (!row->allowed && row->rule != NULL && row->rule->retry_after_ns != 0 &&
        outcome == OUTCOME_DENY)
        retry_ns = (int64_t)row->rule->retry_after_ns;
    if ((row->user_hash | row->key_hash) != 0)
        count_usage(shard, row, outcome == OUTCOME_DENY);
    columns->outcomes[at] = outcome;
    columns->flags[at] =
        (uint8_t)((row->allowed ? WIRE_ALLOWED : 0) | (row->degraded ? WIRE_DEGRADED : 0));
    columns->source_index[at] = source_of(shard, row, outcome);
    columns->vnode[at] =
        row->vnode == WIRE_VNODE_NONE ? WIRE_VNODE_NONE : vnodes_ring(shard, row->vnode);
    columns->limit[at] = row->limit;
    columns->used[at] = row->used;
    columns->remaining[at] = row->remaining;
    columns->granted[at] = row->allowed ? row->granted : 0;
    columns->reset_after_ms[at] = ms_up(row->reset_after_ns);
    columns->retry_after_ms[at] = row->allowed ? 0 : ms_up(retry_ns);
    columns->leases[at] = 0;
    columns->delay_ms[at] = row->allowed ? ms_up(row->delay_ns) : 0;
}

/* Sends the decisions of `count` items whose rows are those of `request` (or the scratch rows). */
static void reply(struct shard *shard, uint64_t connection, uint64_t session, uint64_t seq,
                  uint32_t request, uint32_t count, struct effects *effects)
{
    const struct request *waited =
        request == shard->current ? NULL : pool_at(&shard->requests, request);
    const uint32_t explained = waited != NULL ? waited->explained : shard->explained;
    struct wire_decisions_head head = {
        .session = session,
        .seq = seq,
        .view_version = shard->view != NULL ? shard->view->version : 0,
        .count = count,
    };
    if (!effects_fit(effects, WIRE_MESSAGE_MAX)) {
        shard->stats.frames_dropped++; /* the client asks again and gets its first answer */
        return;
    }
    wire_sources_init(&shard->reply.sources);
    shard->reply.window_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct row *row = row_of(shard, request, i);
        fill_column(shard, i, row);
        if (row->leased && row->allowed && row->granted > 0) {
            const struct retry_key key = {session, seq, (uint16_t)i, 0};
            shard->reply.columns.leases[i] = decide_lease_of(shard, &key); /* D11 of decide.c */
            head.leased = true;
        }
    }
    const int len = wire_encode_decisions(
        &head, &shard->reply.columns, &shard->reply.sources, explain_wire(shard, explained, count),
        effects_reserve(effects, WIRE_MESSAGE_MAX), WIRE_MESSAGE_MAX);
    ASSERT(len > 0);
    struct effect *effect = effects_add(effects, EFFECT_SEND_CLIENT);
    effect->target = connection;
    effects_commit(effects, effect, (size_t)len);
}

/* ---- waiting requests ------------------------------------------------------------------------ */

static void release(struct shard *shard, uint32_t index)
{
    struct request *request = pool_at(&shard->requests, index);
    for (uint32_t i = 0; i * SHARD_ROW_BLOCK < request->count; i++)
        if (request->blocks[i] != POOL_NONE)
            pool_put(&shard->blocks, request->blocks[i]);
    shard->policies[request->policy].references--;
    explain_end(shard, request->explained);
    pool_put(&shard->requests, index);
}

/* The request of the message at hand, made when its first part has to wait. */
static uint32_t current_request(struct shard *shard)
{
    if (shard->current != POOL_NONE)
        return shard->current;
    const uint32_t blocks = (shard->checks.count + SHARD_ROW_BLOCK - 1) / SHARD_ROW_BLOCK;
    if (shard->blocks.capacity - shard->blocks.used < blocks)
        return POOL_NONE;
    const uint32_t index = pool_get(&shard->requests);
    if (index == POOL_NONE)
        return POOL_NONE;
    struct request *request = pool_at(&shard->requests, index);
    request->connection = shard->current_connection;
    request->session = shard->checks.session;
    request->seq = shard->checks.seq;
    request->count = shard->checks.count;
    request->policy = shard->policy;
    request->explained = shard->explained;
    request->deadline_ns = shard->now_ns + (int64_t)shard->checks.timeout_ms * MS;
    if (request->deadline_ns > shard->now_ns + SHARD_DEADLINE_NS)
        request->deadline_ns = shard->now_ns + SHARD_DEADLINE_NS;
    shard->policies[shard->policy].references++;
    for (uint32_t i = 0; i < blocks; i++)
        request->blocks[i] = pool_get(&shard->blocks);
    shard->current = index;
    return index;
}

uint32_t requests_new_part(struct shard *shard, uint16_t item, const struct policy_rule *rule,
                           const struct forward *forward)
{
    const uint32_t request = current_request(shard);
    if (request == POOL_NONE)
        return POOL_NONE;
    struct request *waiting = pool_at(&shard->requests, request);
    const uint32_t index = parts_new(shard, forward, waiting->deadline_ns);
    if (index == POOL_NONE)
        return POOL_NONE;
    struct part *part = parts_at(shard, index);
    struct row *row = row_of(shard, request, item);
    part->request = request;
    part->item = item;
    part->rule = rule;
    part->sibling = row->first_part;
    row->first_part = index;
    waiting->pending++;
    return index;
}

/* What of the part's charge is to be undone: all if the item was denied, what others did not grant
 * as well if it took at most so much. A denial that counts stays: that is what its rule says. */
static bool owes_undo(struct shard *shard, const struct row *row, const struct part *part)
{
    const bool several = (part->forward.flags & FORWARD_SEVERAL) != 0;
    if (!several || part->forward.operation != OPERATION_CHECK || part->stood_in)
        return false;
    if (part->answer.status == ANSWER_DECIDED)
        return part->answer.allowed && part->answer.granted > (row->allowed ? row->granted : 0);
    /* In doubt: it may have been charged, though the answer did not come in time. */
    const bool sent = part->sends > 0 || vnodes_quorum(shard, part->forward.vnode);
    if (!sent || row->allowed)
        return false;
    if (shard->parts.used < SHARD_UNDO_PARTS_MAX)
        return true;
    shard->stats.undo_lost++;
    return false;
}

/* All parts of the item are answered. */
static void settle_item(struct shard *shard, struct row *row, struct effects *effects)
{
    uint32_t index = row->first_part;
    row->first_part = POOL_NONE;
    while (index != POOL_NONE) {
        struct part *part = parts_at(shard, index);
        const uint32_t next = part->sibling;
        if (owes_undo(shard, row, part))
            parts_undo(shard, index, row->allowed ? row->granted : 0, effects);
        else
            parts_free(shard, index);
        index = next;
    }
}

void requests_part_done(struct shard *shard, uint32_t index, uint64_t node, struct effects *effects)
{
    const struct part *part = parts_at(shard, index);
    const uint32_t at = part->request;
    struct request *request = pool_at(&shard->requests, at);
    struct row *row = row_of(shard, at, part->item);
    merge(row, part->rule, &part->forward.limits[part->answer.limit_index % PEER_LIMITS_MAX],
          part->forward.vnode, &part->answer, node);
    request->pending--;
    if (row->parts_left == 0)
        settle_item(shard, row, effects);
    if (request->pending > 0 || at == shard->current)
        return;
    reply(shard, request->connection, request->session, request->seq, at, request->count, effects);
    release(shard, at);
}

void requests_item_done(struct shard *shard, uint16_t item, const struct policy_rule *rule,
                        const struct limit *limit, uint32_t vnode, const struct answer *answer,
                        struct effects *effects)
{
    struct row *row = &shard->rows[item];
    merge(row, rule, limit, vnode, answer, shard->options.node_id);
    if (row->parts_left == 0)
        settle_item(shard, row, effects);
}

/* ---- from items to parts --------------------------------------------------------------------- */

struct resolved {
    uint32_t count;
    const struct policy_rule *rules[POLICY_PARTS_MAX];
    struct forward parts[POLICY_PARTS_MAX];
};

static void start_forward(const struct shard *shard, uint32_t item, uint32_t part,
                          struct forward *forward)
{
    const struct wire_checks *checks = &shard->checks;
    forward->retry =
        (struct retry_key){checks->session, checks->seq, (uint16_t)item, (uint8_t)part};
    forward->flags = wire_checks_at_most(checks, item) ? FORWARD_AT_MOST : 0;
    if ((checks->flags & WIRE_FLAG_RETRY) != 0)
        forward->flags |= FORWARD_RETRY;
    if (shard->explained != POOL_NONE)
        forward->flags |= FORWARD_EXPLAIN;
    forward->operation = (uint8_t)wire_checks_operation(checks, item);
    if (forward->operation == OPERATION_LEASE)
        forward->operation = OPERATION_CHECK; /* take_item has seen that it gives one */
    forward->cost = wire_checks_cost(checks, item);
    forward->ticket = 0;
}

/* A rule with consistency quorum is counted in the other plane, in slots of their own: should the
 * rule have been one of the other kind before, its old count stays where it is. */
static void place_in_quorum(const struct shard *shard, struct forward *forward)
{
    forward->vnode += shard->options.vnodes;
    for (uint32_t i = 0; i < forward->limit_count; i++)
        forward->ids[i].hi ^= QUORUM_ID;
}

/* Names vnode and slots from the identity in shard->identity. */
static void place(struct shard *shard, const struct limit *limits, uint32_t count,
                  struct forward *forward)
{
    forward->vnode =
        identity_vnode(&shard->options.route_key, &shard->identity, shard->options.vnodes);
    forward->limit_count = (uint8_t)count;
    for (uint32_t i = 0; i < count; i++) {
        forward->limits[i] = limits[i];
        forward->ids[i] = identity_slot(&shard->options.secret, &shard->identity,
                                        limits[i].algorithm, limits[i].ordinal);
    }
}

/* The same for the limits of a rule, with own ones on top where the part has any. */
static void place_part(struct shard *shard, const struct policy_part *part, struct forward *forward)
{
    struct limit merged[OWN_MERGED_MAX];
    if (part->own == NULL)
        place(shard, part->rule->limits, part->rule->limit_count, forward);
    else
        place(shard, merged, own_limits_of(part, merged), forward);
}

/* Whether the rule has a limit of leases. */
static bool gives_leases(const struct policy_rule *rule)
{
    for (uint32_t i = 0; i < rule->limit_count; i++)
        if (rule->limits[i].algorithm == ALGORITHM_CONCURRENCY)
            return true;
    return false;
}

/* Parts of a request that is denied because rules on trial alone match it are each for themselves,
 * and take no leases: nobody would give them back. */
static void resolve_rules(struct shard *shard, uint32_t item, const struct policy_result *result,
                          struct resolved *out)
{
    for (uint32_t k = 0; k < result->part_count; k++) {
        const struct policy_part *found = &result->parts[k];
        const struct policy_rule *rule = found->rule;
        const uint32_t i = out->count;
        if (!result->allowed && gives_leases(rule))
            continue;
        out->count++;
        struct identity_value values[POLICY_KEY_ATTRIBUTES_MAX];
        for (uint32_t j = 0; j < rule->key_count; j++)
            values[j] = (struct identity_value){found->values[j].data, found->values[j].len};
        const int error = identity_rule(&shard->identity, rule->name.data, rule->name.len, values,
                                        rule->key_count);
        ASSERT(error == 0); /* policy bounds names and values at least as tightly */
        out->rules[i] = rule;
        start_forward(shard, item, i, &out->parts[i]);
        if (rule->count_denied)
            out->parts[i].flags |= FORWARD_COUNT_DENIED;
        if (result->part_count > 1 && result->allowed)
            out->parts[i].flags |= FORWARD_SEVERAL;
        place_part(shard, found, &out->parts[i]);
        policy_place_calendars(rule, shard->now_ns, out->parts[i].limits);
        for (uint32_t j = 0; rule->shadow && j < rule->limit_count; j++)
            out->parts[i].limits[j].pool = 0; /* on trial: it takes nothing of what others share */
        if (rule->consistency == POLICY_CONSISTENCY_QUORUM)
            place_in_quorum(shard, &out->parts[i]);
    }
}

static void fix_row(struct row *row, uint8_t outcome, bool allowed, const struct policy_rule *rule)
{
    row->outcome = outcome;
    row->allowed = allowed;
    row->rule = rule;
    row->retry_after_ns = allowed ? 0 : -1;
}

/* What denies the request before rules are looked at: its API key, a block, or the user's quota
 * record; NULL: nothing. The key is replaced by what it stands for, first of all: nothing else sees
 * it. Then the tier of the user's record becomes that of the request. */
static const struct policy_rule *refuse_at_once(struct shard *shard,
                                                struct policy_attribute *attributes, size_t *count,
                                                struct person *person)
{
    const struct policy_slot *slot = &shard->policies[shard->policy];
    const uint64_t now_ms = (uint64_t)(shard->now_ns / MS);
    const struct api_key *key = NULL;
    const struct policy_rule *refusal =
        slot->api_keys != NULL ? api_keys_resolve(slot->api_keys, &shard->api_keys_cache,
                                                  attributes, count, now_ms, &key)
                               : NULL;
    people_begin(refusal == NULL ? key : NULL, person);
    if (refusal != NULL)
        return refusal;
    if (slot->people != NULL)
        people_find(slot->people, attributes, count, now_ms, person);
    refusal = blocks_find(slot->denied, attributes, *count, now_ms);
    return refusal != NULL ? refusal : person->denied;
}

/* Notes in whose totals the item will be: one that asks for something, not one that looks. */
static void note_usage(struct shard *shard, uint32_t item, const struct person *person)
{
    const enum operation operation = wire_checks_operation(&shard->checks, item);
    struct row *row = &shard->rows[item];
    if ((operation != OPERATION_CHECK && operation != OPERATION_HIT &&
         operation != OPERATION_LEASE) ||
        wire_checks_cost(&shard->checks, item) == 0)
        return;
    row->user_hash = person->user_hash;
    row->key_hash = person->key_hash;
}

/* Applies the rules to the attributes of the item. What needs no limit fixes the row at once. */
static void resolve_attributes(struct shard *shard, uint32_t item,
                               const struct wire_template *template, struct resolved *out)
{
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX];
    struct policy_result result;
    struct person person;
    size_t count = wire_checks_values(&shard->checks, item, values);
    struct row *row = &shard->rows[item];
    for (size_t i = 0; i < count; i++)
        attributes[i] = (struct policy_attribute){template->names[i].data, template->names[i].len,
                                                  values[i].data, values[i].len};
    const struct policy_slot *slot = &shard->policies[shard->policy];
    const struct policy_rule *refusal = refuse_at_once(shard, attributes, &count, &person);
    if ((person.user_hash | person.key_hash) != 0)
        note_usage(shard, item, &person);
    if (refusal != NULL) {
        fix_row(row, OUTCOME_BLOCKED, false, refusal);
        return;
    }
    if (policy_resolve(slot->policy, attributes, count, &result) != 0) {
        fix_row(row, OUTCOME_ERROR, false, NULL);
        return;
    }
    if (person.own != NULL || person.key_own != NULL)
        people_apply(&person, attributes, count, &result);
    row->shadow_denied = result.shadow != NULL;
    switch (result.action) {
    case POLICY_LIMITS:
        resolve_rules(shard, item, &result, out);
        break;
    case POLICY_UNMATCHED:
        fix_row(row, OUTCOME_NO_RULE, result.allowed, NULL);
        resolve_rules(shard, item, &result, out); /* those on trial */
        break;
    case POLICY_ALLOW:
        fix_row(row, OUTCOME_ALLOW, true, result.rule);
        break;
    case POLICY_BLOCK:
        fix_row(row, OUTCOME_BLOCKED, false, result.rule);
        break;
    case POLICY_MISSING:
        fix_row(row, OUTCOME_DENY, false, result.rule);
        break;
    case POLICY_OVERFLOW:
        fix_row(row, OUTCOME_ERROR, false, NULL);
        break;
    }
}

static void resolve_inline(struct shard *shard, uint32_t item, const struct wire_template *template,
                           struct resolved *out)
{
    const struct wire_text key = wire_checks_key(&shard->checks, item);
    const struct policy_rule *block = blocks_find_key(
        shard->policies[shard->policy].denied, key.data, key.len, (uint64_t)(shard->now_ns / MS));
    if (block != NULL) {
        fix_row(&shard->rows[item], OUTCOME_BLOCKED, false, block);
        return;
    }
    if (identity_inline(&shard->identity, key.data, key.len) != 0) {
        fix_row(&shard->rows[item], OUTCOME_ERROR, false, NULL);
        return;
    }
    out->count = 1;
    out->rules[0] = NULL;
    start_forward(shard, item, 0, &out->parts[0]);
    place(shard, &template->limit, 1, &out->parts[0]);
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Whether all parts can be decided here, as one group of the engine. A shadow rule among several
 * may not: its denial would keep the engine from charging the enforced ones. In the plane of quorum
 * every part has to wait, each for its vnode. */
static bool all_here(struct shard *shard, const struct resolved *resolved)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < resolved->count; i++) {
        uint16_t at;
        rows += resolved->parts[i].limit_count;
        if (vnodes_quorum(shard, resolved->parts[i].vnode) ||
            vnodes_route(shard, resolved->parts[i].vnode, &at) != ROUTE_HERE ||
            (resolved->count > 1 && resolved->rules[i]->shadow))
            return false;
    }
    return rows <= LIMIT_GROUP_MAX;
}

static void decide_together(struct shard *shard, uint32_t item, const struct resolved *resolved,
                            struct effects *effects)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < resolved->count; i++)
        rows += resolved->parts[i].limit_count;
    const struct forward *first = &resolved->parts[0];
    struct batch_item *group = decide_group(shard, rows, effects);
    group->item = (uint16_t)item;
    group->retry = first->retry;
    group->key = first->retry;
    group->again = first->flags & FORWARD_RETRY;
    const bool repeated = (first->flags & FORWARD_RETRY) != 0 || decide_gives_back(first); /* D9 */
    struct retry_memory *memory = &shard->retries;
    if (resolved->count > 1) {
        group->several = true;
        group->key = reserve_key(&first->retry, first->ids[0]);
        memory = &shard->reserves.answers;
    }
    retry_prefetch(memory, &group->key);
    if (repeated && first->operation != OPERATION_PEEK)
        group->recalled =
            retry_recall(memory, &group->key, group->attempt, shard->now_ns, &group->memory);
    shard->stats.retries_recalled += group->recalled;
    for (uint32_t i = 0; i < resolved->count; i++)
        decide_rows(shard, resolved->rules[i], &resolved->parts[i], 0);
}

static void decide_apart(struct shard *shard, uint32_t item, const struct resolved *resolved,
                         struct effects *effects)
{
    const struct answer busy = {.status = ANSWER_BUSY};
    uint32_t parts[POLICY_PARTS_MAX];
    shard->stats.several += resolved->count > 1;
    for (uint32_t i = 0; i < resolved->count; i++)
        parts[i] =
            requests_new_part(shard, (uint16_t)item, resolved->rules[i], &resolved->parts[i]);
    for (uint32_t i = 0; i < resolved->count; i++) {
        if (parts[i] != POOL_NONE) {
            parts_dispatch(shard, parts[i], effects);
            continue;
        }
        shard->stats.busy++;
        requests_item_done(shard, (uint16_t)item, resolved->rules[i], &resolved->parts[i].limits[0],
                           resolved->parts[i].vnode, &busy, effects);
    }
}

/* Whether some limit that the item meets has leases. */
static bool has_leases(const struct resolved *resolved)
{
    for (uint32_t i = 0; i < resolved->count; i++)
        for (uint32_t k = 0; k < resolved->parts[i].limit_count; k++)
            if (resolved->parts[i].limits[k].algorithm == ALGORITHM_CONCURRENCY)
                return true;
    return false;
}

/* What is said of an operation on leases where no limit has any; NULL: it is about none. */
static const char *lease_refusal(enum operation operation)
{
    switch (operation) {
    case OPERATION_LEASE:
        return "lease: expected a limit with algorithm concurrency; the limits that this request "
               "meets have other algorithms, so nothing was charged (check asks for those)";
    case OPERATION_RELEASE:
        return "release: expected a limit with algorithm concurrency; the limits that this request "
               "meets have other algorithms, and no leases (refund gives back what they charged)";
    case OPERATION_RENEW:
        return "renew: expected a limit with algorithm concurrency; the limits that this request "
               "meets have other algorithms, and no leases";
    default:
        return NULL;
    }
}

/* Notes whether the item takes a lease. False if it is about one that nobody gives: then nothing of
 * it is charged, and it is told. */
static bool note_lease(struct shard *shard, uint32_t item, const struct resolved *resolved)
{
    const enum operation operation = wire_checks_operation(&shard->checks, item);
    const bool leases = has_leases(resolved);
    struct row *row = &shard->rows[item];
    row->leased = leases && (operation == OPERATION_CHECK || operation == OPERATION_LEASE ||
                             operation == OPERATION_HIT);
    if (leases || lease_refusal(operation) == NULL)
        return true;
    if (row->outcome != OUTCOME_COUNT)
        return false; /* denied already, and on trial it is not about these rules */
    fix_row(row, OUTCOME_ERROR, false, resolved->rules[0]);
    row->refusal = lease_refusal(operation);
    return false;
}

static void take_item(struct shard *shard, uint32_t item, struct effects *effects)
{
    const struct wire_template *template = wire_checks_template(&shard->checks, item);
    struct resolved resolved;
    resolved.count = 0;
    row_init(&shard->rows[item]);
    if (template->kind == WIRE_TEMPLATE_INLINE)
        resolve_inline(shard, item, template, &resolved);
    else
        resolve_attributes(shard, item, template, &resolved);
    if (resolved.count == 0 || !note_lease(shard, item, &resolved))
        return;
    shard->rows[item].parts_left = (uint16_t)resolved.count;
    /* The parts of a repeated item may have been decided apart: each has an answer of its own. */
    const bool repeated = resolved.count > 1 && (shard->checks.flags & WIRE_FLAG_RETRY) != 0;
    if (!repeated && all_here(shard, &resolved))
        decide_together(shard, item, &resolved, effects);
    else
        decide_apart(shard, item, &resolved, effects);
}

/* The message at hand has been worked through: answers it, or keeps its rows. */
static void finish_message(struct shard *shard, struct effects *effects)
{
    const uint32_t at = shard->current;
    const struct wire_checks *checks = &shard->checks;
    struct request *request = at == POOL_NONE ? NULL : pool_at(&shard->requests, at);
    if (request == NULL || request->pending == 0)
        reply(shard, shard->current_connection, checks->session, checks->seq, at, checks->count,
              effects);
    shard->current = POOL_NONE;
    if (request == NULL) {
        explain_end(shard, shard->explained);
        return;
    }
    if (request->pending == 0) {
        release(shard, at);
        return;
    }
    for (uint32_t i = 0; i < request->count; i++)
        *row_of(shard, at, i) = shard->rows[i];
}

void requests_checks(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                     struct effects *effects)
{
    char error[WIRE_ERROR_LEN];
    const int result = wire_decode_checks(frame, len, &shard->checks_space, &shard->checks, error);
    if (result != 0) {
        shard->stats.bad_frames++;
        requests_refuse(shard, connection, frame, len, result, error, effects);
        return;
    }
    if (shard->view == NULL) {
        requests_error(shard, connection, shard->checks.session, shard->checks.seq, TG_EUNAVAILABLE,
                       "this node has not joined a cluster yet", effects);
        return;
    }
    if (shard->resigned) { /* V10 of vnodes.c */
        requests_error(shard, connection, shard->checks.session, shard->checks.seq, TG_EUNAVAILABLE,
                       "this node is about to stop; ask another", effects);
        return;
    }
    shard->current_connection = connection;
    shard->current = POOL_NONE;
    explain_begin(shard);
    for (uint32_t item = 0; item < shard->checks.count; item++)
        take_item(shard, item, effects);
    decide_run(shard, effects);
    finish_message(shard, effects);
}
