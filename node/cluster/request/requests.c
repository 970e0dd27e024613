/* requests.c - client messages: from checks to limits to decisions.
 *
 * Each item is resolved to parts (resolve.c): the inline limit, or one part a matching rule. An
 * item whose parts are all decided here is one all-or-nothing group of the engine. Otherwise each
 * part goes its own way, and all are charged at once, in one round trip. When all have answered,
 * what is to stay is known: all of it, what the least of them granted (at_most), or nothing; the
 * rest is undone, one by one, until each leader has acknowledged it (route_pending_undo,
 * reserve.h).
 *
 *   user at n2  <--charge--+         +-- granted --+                +--undo--> acknowledged
 *   ip at n5    <--charge--+-- item -+-- denied ---+--> denied -----+
 *   team at n1  <--charge--+         +-- granted --+   (answered)   +--undo--> acknowledged
 *
 *   frame --> items --> policy --> parts --+--> batch ------------------> row of the item
 *                                          +--> wait (route_pending.c) --------->   |
 *   reply <-- columns <-- rows <---- when no part of the message is missing +
 *
 * Most messages are answered within the event that brought them, from the scratch rows of the
 * shard. Only one that has to wait gets a `request` that keeps its rows. It is answered when all of
 * it is decided; or, if its client wants it so (PARTLY), at the end of each event in which some of
 * it was, so that no item waits for another's leader.
 *
 * REQUESTS-1  Every item gets exactly one decision; what cannot be decided is `busy` or `error`,
 *             with the verdict that the rule's on_failure gives.
 * REQUESTS-2  A malformed message is refused as a whole, with a sentence; nothing of it is charged.
 * REQUESTS-3  An item is allowed iff all its rules allow it. If one denies it, or cannot be asked
 *             in time, none stays charged, but for what it denied itself and counts (count_denied);
 *             that holds when replies and undos are lost, and not when this node dies before they
 *             are acknowledged: then the charges stay until they drain. A charge meanwhile may make
 *             another request be denied. A rule on trial that cannot be asked neither denies nor
 *             allows.
 * REQUESTS-4  A peek takes nothing anywhere; a hit, a refund, a reset, a commit and a cancel go to
 *             all, and are not undone.
 * REQUESTS-5  A rule on trial changes nothing of an answer but the outcome of what it would have
 *             denied, with which it is named: limit, numbers, times, delay and what is granted are
 *             those of the rules in force, and where there are none those of a request that meets
 *             no rule. Only of a domain's descriptor on trial the numbers are told.
 * REQUESTS-6  No denial says that it may be asked again at once. What can never succeed says so,
 *             whatever a rule's response.retry_after is; that goes before any other time, and of
 *             several rules that deny the one is named that says the longest.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/dedup/lease_id.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

/* Clients remember a denial for so long at most. */
#define STEADY_NS INT64_C(1000000000)
/* When to ask again what could not be decided: nobody knows, but not at once. */
#define SOON_NS INT64_C(1000000000)

static_assert(RESERVE_KEEP_NS >= SHARD_DEADLINE_NS + SHARD_UNDO_NS, "an undo finds its charge");

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

/* Field by field: to clear it as a block takes twice as long. */
static void row_init(struct row *row)
{
    row->allowed = true;
    row->degraded = false;
    row->granted_set = false;
    row->shown = false;
    row->looks = false;
    row->trial_granted = false;
    row->leased = false;
    row->held = false;
    row->reserves = false;
    row->settles = false;
    row->soft = false;
    row->borrowed = false;
    row->counted = false;
    row->unsteady = false;
    row->failure = ANSWER_DECIDED;
    row->outcome = OUTCOME_COUNT;
    row->why = WHY_NOTHING;
    row->pending_left = 0;
    row->first_pending = POOL_NONE;
    row->vnode = WIRE_VNODE_NONE;
    row->rule = NULL;
    row->shadow = NULL;
    row->refusal = NULL;
    row->node = 0;
    row->limit = 0;
    row->used = 0;
    row->remaining = 0;
    row->granted = 0;
    row->reset_after_ns = 0;
    row->retry_after_ns = 0;
    row->told_ns = 0;
    row->soft_over = INT64_MIN;
    row->delay_ns = 0;
    row->lease = 0;
    row->lease_used = 0;
    row->user_hash = 0;
    row->key_hash = 0;
    row->limit_shown = (struct limit_shown){0};
}

static struct row *row_of(struct shard *shard, uint32_t request, uint32_t item)
{
    if (request == shard->message.request)
        return &shard->rows[item];
    const struct request *waiting = pool_at(&shard->requests, request);
    struct row *block = pool_at(&shard->blocks, waiting->blocks[item / SHARD_ROW_BLOCK]);
    return &block[item % SHARD_ROW_BLOCK];
}

/* REQUESTS-6. What is said of when to ask again. */
static int64_t told_of(const struct policy_rule *rule, int64_t retry_after_ns)
{
    if (retry_after_ns < 0 || rule == NULL || rule->retry_after_ns == 0)
        return retry_after_ns;
    return (int64_t)rule->retry_after_ns;
}

/* Whether `answer` says more about the item than what the row shows: a denial the longest wait;
 * else what it granted (at most), then what is left. */
static __attribute__((noinline)) bool
says_more(const struct row *row, const struct policy_rule *rule, const struct answer *answer)
{
    if (answer->allowed != row->allowed)
        return !answer->allowed;
    if (answer->allowed && row->granted_set && !row->looks && answer->granted != row->granted)
        return answer->granted < row->granted;
    if (answer->allowed && answer->remaining != row->remaining)
        return answer->remaining < row->remaining;
    if (answer->allowed && answer->borrowed != row->borrowed)
        return answer->borrowed;
    if (answer->allowed)
        return answer->soft && !row->soft;
    const int64_t told_ns = told_of(rule, answer->retry_after_ns);
    if (told_ns != row->told_ns)
        return (uint64_t)told_ns > (uint64_t)row->told_ns; /* -1, never, is the longest */
    return (uint64_t)answer->retry_after_ns > (uint64_t)row->retry_after_ns;
}

static void show(struct row *row, const struct policy_rule *rule, const struct limit *limit,
                 uint32_t vnode, const struct answer *answer, uint64_t node)
{
    row->shown = true;
    row->rule = rule;
    row->limit_shown = (struct limit_shown){
        .count = limit->count,
        .window_ns = limit->window_ns,
        .algorithm = limit->algorithm,
        .ordinal = limit->ordinal,
    };
    row->vnode = vnode;
    row->node = node;
    row->limit = answer->limit;
    row->used = answer->used;
    row->remaining = answer->remaining;
    row->reset_after_ns = answer->reset_after_ns;
    row->retry_after_ns = answer->retry_after_ns;
    row->told_ns = answer->allowed ? 0 : told_of(rule, answer->retry_after_ns);
}

/* Whether a denial is no denial any more when somebody releases a place, a pool has spare or
 * another node is asked, or has to be told of here each time: then no client may remember it. Nor
 * while tokens are held (answer->held), for these come back by the second. */
static bool is_unsteady(const struct policy_rule *rule, const struct limit *limit)
{
    if (limit->algorithm == ALGORITHM_CONCURRENCY || limit->pool != 0)
        return true;
    return rule != NULL &&
           (rule->count_denied || rule->mode.pool != NULL ||
            rule->consistency == POLICY_CONSISTENCY_ANY || rule->scope == POLICY_SCOPE_GLOBAL);
}

/* A soft limit is exceeded by what the answer grants. If others grant less, and the rest of it is
 * undone, that may be within the limit. */
static void note_soft(struct row *row, const struct answer *answer)
{
    const uint64_t used = answer->used + (row->looks ? answer->granted : 0);
    const int64_t over = (int64_t)(used - answer->limit) - (int64_t)answer->granted;
    row->soft = true;
    if (over > row->soft_over)
        row->soft_over = over;
}

void requests_shadow(struct row *row, const struct policy_rule *rule)
{
    if (row->shadow == NULL || rule->rank < row->shadow->rank)
        row->shadow = rule;
}

/* REQUESTS-5. One that cannot be asked would have recorded something; and of what is denied all the
 * same it is known without it what denies. */
static __attribute__((noinline)) void merge_trial(struct row *row, const struct policy_rule *rule,
                                                  uint32_t vnode, const struct answer *answer)
{
    row->unsteady = true;
    if (row->vnode == WIRE_VNODE_NONE)
        row->vnode = vnode; /* so that a client finds the way there */
    if (answer->status != ANSWER_DECIDED || row->outcome != OUTCOME_COUNT)
        return;
    if (answer->allowed)
        row->trial_granted |= answer->granted > 0;
    else
        requests_shadow(row, rule);
}

/* REQUESTS-1. Where a key finds no room, what is allowed all the same is charged to nothing. */
static __attribute__((noinline)) void merge_failure(struct shard *shard, struct row *row,
                                                    const struct policy_rule *rule, uint32_t vnode,
                                                    const struct answer *answer)
{
    row->failure = answer->status;
    row->rule = rule;
    row->vnode = vnode;
    row->degraded = true;
    row->why = row->reserves || row->settles ? WHY_HELD : answer->full ? WHY_FULL : row->why;
    if (rule == NULL || rule->on_failure != POLICY_FAILURE_OPEN || row->settles)
        row->allowed = false;
    else if (answer->full && row->allowed)
        shard->stats.uncounted += answer->granted;
}

static inline void merge(struct shard *shard, struct row *row, const struct policy_rule *rule,
                         const struct limit *limit, uint32_t vnode, const struct answer *answer,
                         uint64_t node)
{
    ASSERT(row->pending_left > 0);
    row->pending_left--;
    if (rule != NULL && rule->shadow) {
        merge_trial(row, rule, vnode, answer);
        if (policy_is_of_domain(rule) && answer->status == ANSWER_DECIDED && !row->shown)
            show(row, rule, limit, vnode, answer, node);
        return;
    }
    row->unsteady |= is_unsteady(rule, limit) ||
                     (!answer->allowed && answer->held && answer->retry_after_ns >= 0);
    if (answer->status != ANSWER_DECIDED) {
        merge_failure(shard, row, rule, vnode, answer);
        return;
    }
    if (!row->shown || says_more(row, rule, answer))
        show(row, rule, limit, vnode, answer, node);
    if (row->reserves && row->granted_set ? answer->delay_ns < row->delay_ns
                                          : answer->delay_ns > row->delay_ns)
        row->delay_ns = answer->delay_ns; /* the longest of all queues that it joined; what is
                                           * reserved ends with the first */
    if (!row->granted_set || answer->granted < row->granted)
        row->granted = answer->granted;
    row->allowed &= answer->allowed;
    row->degraded |= answer->degraded;
    row->granted_set = true;
    if (answer->soft)
        note_soft(row, answer);
    row->borrowed |= answer->borrowed;
}

/* ---- the reply ------------------------------------------------------------------------------- */

static inline int64_t ms_up(int64_t ns)
{
    return ns < 0 ? -1 : (int64_t)(((uint64_t)ns + MS - 1) / (uint64_t)MS);
}

static uint8_t outcome_of(const struct row *row)
{
    if (row->outcome != OUTCOME_COUNT)
        return row->allowed && row->shadow != NULL ? OUTCOME_SHADOW_DENIED : row->outcome;
    if (!row->allowed)
        return row->failure == ANSWER_DECIDED ? OUTCOME_DENY
               : row->failure == ANSWER_BUSY  ? OUTCOME_BUSY
                                              : OUTCOME_ERROR;
    if (row->borrowed)
        return OUTCOME_ELASTIC_BORROWED;
    if (row->soft && row->soft_over + (int64_t)row->granted > 0)
        return OUTCOME_SOFT_EXCEEDED; /* of limits in force, so it goes before those on trial */
    return row->shadow != NULL ? OUTCOME_SHADOW_DENIED : OUTCOME_ALLOW;
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

/* The row's source, made if no row before has the same. A window that was written for it is kept
 * only with a source that is new: so there are never more of them than sources, whatever the order
 * in which rows of several limits come. */
static uint16_t make_source(struct shard *shard, const struct row *row, uint8_t outcome)
{
    const uint32_t windows = shard->reply.window_count;
    const uint32_t sources = shard->reply.sources.count;
    const struct view_member *node =
        shard->view != NULL && row->node != 0 ? view_find(shard->view, row->node) : NULL;
    struct wire_source source = {
        .window = reasons_window(shard, row),
        .status = status_of(row, outcome),
        .node = wire_text_of(node != NULL ? node->name : shard->options.name),
    };
    if (row->rule != NULL)
        source.rule = (struct wire_text){row->rule->name.data, row->rule->name.len};
    if (!row->allowed)
        source.message = reasons_message(row, outcome);
    if (outcome == OUTCOME_SHADOW_DENIED)
        source.shadow_rule = (struct wire_text){row->shadow->name.data, row->shadow->name.len};
    const uint16_t index = wire_sources_add(&shard->reply.sources, &source);
    if (shard->reply.sources.count == sources && shard->reply.window_count > windows) {
        shard->reply.window_count = windows;
        shard->reply.window_last = (struct quantity_rate){0, 0};
    }
    return index;
}

/* The same, looked for only if the row before that was decided so is of another source: the rows of
 * a message mostly have one or two. */
static uint16_t source_of(struct shard *shard, const struct row *row, uint8_t outcome)
{
    struct source_seen *seen = &shard->reply.seen[row->allowed];
    const struct limit_shown *limit = &row->limit_shown;
    if (row->rule != NULL && row->rule->plan)
        return make_source(shard, row, outcome); /* own limits: two may differ in more than that */
    const bool never = row->retry_after_ns < 0;
    if (seen->outcome == outcome && seen->rule == row->rule && seen->shadow == row->shadow &&
        seen->refusal == row->refusal && seen->why == row->why && seen->never == never &&
        seen->node == row->node && seen->limit.count == limit->count &&
        seen->limit.window_ns == limit->window_ns && seen->limit.algorithm == limit->algorithm &&
        seen->limit.ordinal == limit->ordinal)
        return seen->index;
    *seen = (struct source_seen){
        .outcome = outcome,
        .why = row->why,
        .never = never,
        .index = make_source(shard, row, outcome),
        .rule = row->rule,
        .shadow = row->shadow,
        .refusal = row->refusal,
        .node = row->node,
        .limit = *limit,
    };
    return seen->index;
}

/* Whether a client may remember the denial until the time that it is told. Of whom totals are kept,
 * each one that exceeds is counted. */
static bool is_steady(const struct row *row, uint8_t outcome)
{
    const bool as_told = row->retry_after_ns < 0 || row->retry_after_ns >= row->told_ns ||
                         row->retry_after_ns >= STEADY_NS;
    return outcome == OUTCOME_DENY && row->failure == ANSWER_DECIDED && row->shown && as_told &&
           !row->unsteady && !row->degraded && (row->user_hash | row->key_hash) == 0;
}

/* REQUESTS-6. When to ask again what was denied, in ms. */
static int64_t retry_ms_of(const struct row *row, uint8_t outcome)
{
    int64_t ns = row->told_ns;
    if (row->refusal == NULL && (outcome == OUTCOME_BUSY || outcome == OUTCOME_ERROR) &&
        row->failure != ANSWER_DECIDED)
        ns = told_of(row->rule, SOON_NS);
    return ns == 0 ? 1 : ms_up(ns); /* 0: it could succeed by now, but was denied before */
}

static void fill_column(struct shard *shard, uint32_t at, const struct row *row, uint8_t outcome)
{
    struct wire_decision_columns *columns = &shard->reply.columns;
    columns->outcomes[at] = outcome;
    columns->flags[at] =
        (uint8_t)((row->allowed ? WIRE_ALLOWED : 0) | (row->degraded ? WIRE_DEGRADED : 0));
    if (is_steady(row, outcome))
        columns->flags[at] |= WIRE_STEADY;
    if (row->shown && row->limit_shown.algorithm == ALGORITHM_CONCURRENCY)
        columns->flags[at] |= WIRE_IN_FLIGHT;
    columns->source_index[at] = source_of(shard, row, outcome);
    columns->vnode[at] =
        row->vnode == WIRE_VNODE_NONE ? WIRE_VNODE_NONE : vnodes_ring(shard, row->vnode);
    columns->limit[at] = row->limit;
    columns->used[at] = row->used;
    columns->remaining[at] = row->remaining;
    columns->granted[at] = row->allowed && !row->looks ? row->granted : 0;
    columns->reset_after_ms[at] = ms_up(row->reset_after_ns);
    columns->retry_after_ms[at] = row->allowed ? 0 : retry_ms_of(row, outcome);
    columns->leases[at] = 0;
    columns->lease_ms[at] = 0;
    columns->delay_ms[at] = row->allowed && !row->held ? ms_up(row->delay_ns) : 0;
}

/* The item is not decided yet: another answer will tell. */
static void fill_pending(struct shard *shard, uint32_t at)
{
    struct wire_decision_columns *columns = &shard->reply.columns;
    columns->outcomes[at] = OUTCOME_BUSY; /* to who does not look at the flag */
    columns->flags[at] = WIRE_PENDING;
    columns->source_index[at] = WIRE_SOURCE_NONE;
    columns->vnode[at] = WIRE_VNODE_NONE;
    columns->limit[at] = columns->used[at] = columns->remaining[at] = columns->granted[at] = 0;
    columns->reset_after_ms[at] = columns->retry_after_ms[at] = columns->delay_ms[at] = 0;
    columns->leases[at] = 0;
    columns->lease_ms[at] = 0;
}

/* Sends the decisions of `count` items whose rows are those of `request` (or the scratch rows). */
static void reply(struct shard *shard, uint64_t connection, uint64_t session, uint64_t seq,
                  uint32_t request, uint32_t count, struct effects *effects)
{
    const struct request *waited =
        request == shard->message.request ? NULL : pool_at(&shard->requests, request);
    const uint32_t explained = waited != NULL ? waited->explained : shard->message.explained;
    const struct request *kept = request != POOL_NONE ? pool_at(&shard->requests, request) : NULL;
    const int64_t begun_ns = kept != NULL ? kept->begun_ns : shard->now_ns;
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
    shard->reply.seen[false].outcome = shard->reply.seen[true].outcome = OUTCOME_COUNT; /* none */
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = row_of(shard, request, i);
        if (row->pending_left > 0) {
            fill_pending(shard, i);
            continue;
        }
        const uint8_t outcome = outcome_of(row);
        if (!row->counted)
            tallies_count(shard, connection, begun_ns, row, outcome);
        row->counted = true;
        fill_column(shard, i, row, outcome);
        if (row->held && row->allowed && row->shown && row->lease != 0 &&
            (row->granted > 0 || row->reserves)) {
            shard->reply.columns.leases[i] = row->lease;
            shard->reply.columns.lease_ms[i] = (uint32_t)(row->delay_ns / MS); /* not later */
            head.leased = head.held = true;
        } else if (row->leased && row->allowed && (row->granted > 0 || row->trial_granted)) {
            const struct retry_key key = {session, seq, (uint16_t)i, 0};
            shard->reply.columns.leases[i] = decide_lease_of(shard, &key); /* DECIDE-11 */
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
    ASSERT(request->pending == 0 && !request->news); /* REQUESTS-7 */
    for (uint32_t i = 0; i * SHARD_ROW_BLOCK < request->count; i++)
        if (request->blocks[i] != POOL_NONE)
            pool_put(&shard->blocks, request->blocks[i]);
    ASSERT(shard->policies[request->policy].references > 0); /* REQUESTS-10 */
    shard->policies[request->policy].references--;
    explain_end(shard, request->explained);
    pool_put(&shard->requests, index);
}

uint32_t requests_current(struct shard *shard)
{
    if (shard->message.request != POOL_NONE)
        return shard->message.request;
    ASSERT(shard->message.checks.count <= WIRE_CHECKS_MAX); /* REQUESTS-9 */
    const uint32_t blocks = (shard->message.checks.count + SHARD_ROW_BLOCK - 1) / SHARD_ROW_BLOCK;
    if (shard->blocks.capacity - shard->blocks.used < blocks)
        return POOL_NONE;
    const uint32_t index = pool_get(&shard->requests);
    if (index == POOL_NONE)
        return POOL_NONE;
    struct request *request = pool_at(&shard->requests, index);
    request->connection = shard->message.connection;
    request->session = shard->message.checks.session;
    request->seq = shard->message.checks.seq;
    request->count = shard->message.checks.count;
    request->policy = shard->policy;
    request->begun_ns = shard->now_ns;
    request->explained = shard->message.explained;
    request->partly = (shard->message.checks.flags & WIRE_FLAG_PARTLY) != 0 &&
                      shard->message.explained == POOL_NONE;
    request->news = false;
    request->deadline_ns = shard->now_ns + (int64_t)shard->message.checks.timeout_ms * MS;
    if (request->deadline_ns > shard->now_ns + SHARD_DEADLINE_NS)
        request->deadline_ns = shard->now_ns + SHARD_DEADLINE_NS;
    shard->policies[shard->policy].references++;
    for (uint32_t i = 0; i < blocks; i++)
        request->blocks[i] = pool_get(&shard->blocks);
    shard->message.request = index;
    return index;
}

uint32_t requests_new_pending(struct shard *shard, uint16_t item, const struct policy_rule *rule,
                              const struct forward *forward)
{
    const uint32_t request = requests_current(shard);
    if (request == POOL_NONE)
        return POOL_NONE;
    struct request *waiting = pool_at(&shard->requests, request);
    ASSERT(item < waiting->count); /* PENDINGCHECK-5 */
    const uint32_t index = pending_new(shard, forward, waiting->deadline_ns);
    if (index == POOL_NONE)
        return POOL_NONE;
    struct pending_check *check = pending_at(shard, index);
    struct row *row = row_of(shard, request, item);
    check->request = request;
    check->item = item;
    check->rule = rule;
    route_pending_due(shard, check->deadline_ns);
    check->sibling = row->first_pending;
    row->first_pending = index;
    waiting->pending++;
    return index;
}

/* How much of the part's charge stays: nothing if the item was denied, else what all rules in force
 * granted; where there is none, all of it. */
static uint64_t kept(const struct row *row, const struct pending_check *check)
{
    if (!row->allowed)
        return 0;
    return row->granted_set ? row->granted : check->answer.granted;
}

/* What of the part's charge is to be undone: all if the item was denied, what others did not grant
 * as well if it took at most so much. A denial that counts stays: that is what its rule says. */
static bool owes_undo(struct shard *shard, const struct row *row, const struct pending_check *check)
{
    const bool several = (check->forward.flags & FORWARD_SEVERAL) != 0;
    const bool reserves = check->forward.operation == OPERATION_RESERVE;
    if (!several || (check->forward.operation != OPERATION_CHECK && !reserves))
        return false;
    if (check->answer.status == ANSWER_DECIDED && !check->at_fallback)
        return check->answer.allowed && check->answer.granted > kept(row, check);
    /* In doubt: it may have been charged, though the answer did not come in time, or a fallback
     * leader's came first. */
    const bool sent = check->sends > 0 || reserves ||
                      (!check->at_fallback && vnodes_quorum(shard, check->forward.vnode));
    if (!sent || row->allowed)
        return false;
    if (shard->pending.used < SHARD_UNDO_PENDING_MAX)
        return true;
    shard->stats.undo_lost++;
    return false;
}

/* All parts of the item are answered: those that were decided apart are let go. */
static void settle_item(struct shard *shard, struct row *row, struct effects *effects)
{
    ASSERT(row->pending_left == 0);
    uint32_t index = row->first_pending;
    row->first_pending = POOL_NONE;
    while (index != POOL_NONE) {
        struct pending_check *check = pending_at(shard, index);
        const uint32_t next = check->sibling;
        if (owes_undo(shard, row, check))
            route_pending_undo(shard, index, kept(row, check), effects);
        else
            pending_free(shard, index);
        index = next;
    }
}

/* Something of the request is to be told at the end of the event. */
static void note_news(struct shard *shard, uint32_t at)
{
    struct request *request = pool_at(&shard->requests, at);
    ASSERT(request->partly); /* REQUESTS-8 */
    if (request->news)
        return;
    request->news = true;
    request->next_ready = shard->ready;
    shard->ready = at;
}

void requests_pending_done(struct shard *shard, uint32_t index, uint64_t node,
                           struct effects *effects)
{
    const struct pending_check *check = pending_at(shard, index);
    const uint32_t at = check->request;
    if (check->rule != NULL && check->rule->consistency == POLICY_CONSISTENCY_ANY)
        lessee_told(shard, check);
    struct request *request = pool_at(&shard->requests, at);
    ASSERT(request->pending > 0 && check->status == PENDING_DONE); /* REQUESTS-7 */
    struct row *row = row_of(shard, at, check->item);
    merge(shard, row, check->rule,
          &check->forward.limits[check->answer.limit_index % PEER_LIMITS_MAX], check->forward.vnode,
          &check->answer, node);
    request->pending--;
    if (row->pending_left == 0)
        settle_item(shard, row, effects);
    if (at == shard->message.request)
        return;
    if (request->partly && row->pending_left == 0)
        note_news(shard, at);
    if (request->pending > 0 || request->news)
        return;
    reply(shard, request->connection, request->session, request->seq, at, request->count, effects);
    release(shard, at);
}

void requests_send_ready(struct shard *shard, struct effects *effects)
{
    while (shard->ready != POOL_NONE && effects_fit(effects, WIRE_MESSAGE_MAX)) {
        const uint32_t at = shard->ready;
        struct request *request = pool_at(&shard->requests, at);
        ASSERT(request->news && request->partly); /* REQUESTS-8 */
        shard->ready = request->next_ready;
        request->news = false;
        reply(shard, request->connection, request->session, request->seq, at, request->count,
              effects);
        if (request->pending == 0)
            release(shard, at);
    }
}

void requests_row_done(struct shard *shard, struct row *row, const struct policy_rule *rule,
                       const struct limit *limit, uint32_t vnode, const struct answer *answer,
                       struct effects *effects)
{
    merge(shard, row, rule, limit, vnode, answer, shard->options.node_id);
    if (row->pending_left == 0 && row->first_pending != POOL_NONE)
        settle_item(shard, row, effects);
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Whether all parts can be decided here, as one group of the engine of `rows` rows. A shadow rule
 * among several may not: its denial would keep the engine from charging the enforced ones. In the
 * plane of quorum every part has to wait, each for its vnode. */
static bool all_here(const struct shard *shard, const struct resolved *resolved, uint32_t *rows)
{
    *rows = 0;
    for (uint32_t i = 0; i < resolved->count; i++) {
        const struct forward *part = &resolved->parts[i];
        if (vnodes_quorum(shard, part->vnode) || part->home != 0 || lessor_sure(shard, part) ||
            !vnodes_here(shard, part->vnode) || (resolved->count > 1 && resolved->rules[i]->shadow))
            return false;
        *rows += part->limit_count;
    }
    return *rows <= LIMIT_GROUP_MAX;
}

/* How much each limit of the item may take, and if that is nothing, for the sake of which part. */
static __attribute__((noinline)) uint64_t take_shares(struct shard *shard,
                                                      const struct resolved *resolved,
                                                      uint8_t *withholds, struct effects *effects)
{
    uint64_t takes = ALLOCATION_ALL;
    for (uint32_t i = 0; i < resolved->count && takes != 0; i++) {
        const uint64_t part = allocation_take(shard, &resolved->parts[i], effects);
        takes = part < takes ? part : takes;
        *withholds = (uint8_t)i;
    }
    return takes;
}

/* DECIDE-9: it may have been decided before. */
static __attribute__((noinline)) void recall_item(struct shard *shard, struct batch_item *group,
                                                  const struct forward *first)
{
    group->recalled = decide_recall(shard, group, first->vnode, first->ids[0]);
    shard->stats.retries_recalled += group->recalled;
}

static void decide_together(struct shard *shard, uint32_t item, const struct resolved *resolved,
                            uint32_t rows, struct effects *effects)
{
    const struct forward *first = &resolved->parts[0];
    const bool repeated = (first->flags & FORWARD_RETRY) != 0 || decide_gives_back(first) ||
                          decide_expects_late(shard);
    struct retry_memory *memory = &shard->retries;
    uint64_t takes = ALLOCATION_ALL;
    uint8_t withholds = 0;
    if (allocation_matter(shard, first))
        takes = take_shares(shard, resolved, &withholds, effects);
    struct batch_item *group = decide_group(shard, rows, effects);
    group->item = (uint16_t)item;
    group->retry = first->retry;
    group->key = first->retry;
    group->again = first->flags & FORWARD_RETRY;
    group->takes = takes;
    group->withholds = withholds;
    group->once = (shard->message.checks.flags & WIRE_FLAG_ONCE) != 0;
    if (resolved->count > 1) {
        group->several = true;
        group->key = reserve_key(&first->retry, first->ids[0]);
        memory = &shard->reserves.answers;
    }
    if (!group->once) {
        group->tag = resolved->count > 1
                         ? retry_tag(memory, &group->key)
                         : retry_item_tag(shard->message.retries, (uint16_t)item, 0);
        retry_prefetch(memory, group->tag);
    }
    if (repeated && first->operation != OPERATION_PEEK)
        recall_item(shard, group, first);
    for (uint32_t i = 0; i < resolved->count; i++)
        decide_rows(shard, group, resolved->rules[i], &resolved->parts[i], 0);
}

static void decide_apart(struct shard *shard, uint32_t item, const struct resolved *resolved,
                         struct effects *effects)
{
    const struct answer busy = {.status = ANSWER_BUSY};
    uint32_t parts[POLICY_PARTS_MAX];
    shard->stats.several += resolved->count > 1;
    for (uint32_t i = 0; i < resolved->count; i++)
        parts[i] =
            requests_new_pending(shard, (uint16_t)item, resolved->rules[i], &resolved->parts[i]);
    for (uint32_t i = 0; i < resolved->count; i++) {
        if (parts[i] != POOL_NONE) {
            route_pending_dispatch(shard, parts[i], effects);
            continue;
        }
        shard->stats.busy++;
        requests_row_done(shard, &shard->rows[item], resolved->rules[i],
                          &resolved->parts[i].limits[0], resolved->parts[i].vnode, &busy, effects);
    }
}

static void dispatch_new(struct shard *shard, uint32_t item, const struct resolved *resolved,
                         uint32_t part, struct effects *effects)
{
    const struct answer busy = {.status = ANSWER_BUSY};
    const struct forward *forward = &resolved->parts[part];
    const uint32_t index =
        requests_new_pending(shard, (uint16_t)item, resolved->rules[part], forward);
    if (index != POOL_NONE) {
        route_pending_dispatch(shard, index, effects);
        return;
    }
    shard->stats.busy++;
    requests_row_done(shard, &shard->rows[item], resolved->rules[part], &forward->limits[0],
                      forward->vnode, &busy, effects);
}

/* Of one rule in force beside others on trial: whether it is decided near, as it would be alone. */
static bool decide_near_trials(struct shard *shard, uint32_t item, const struct resolved *resolved,
                               struct effects *effects)
{
    uint32_t at = resolved->count;
    struct answer answer;
    for (uint32_t i = 0; i < resolved->count; i++) {
        if (resolved->rules[i]->shadow)
            continue;
        if (at != resolved->count)
            return false; /* there are several */
        at = i;
    }
    if (at == resolved->count || resolved->parts[at].home != 0 ||
        resolved->rules[at]->consistency != POLICY_CONSISTENCY_ANY ||
        !resolve_part_holds(resolved, at) ||
        !lessee_decide(shard, &resolved->parts[at], &answer, effects))
        return false;
    requests_row_done(shard, &shard->rows[item], resolved->rules[at],
                      &resolved->parts[at].limits[answer.limit_index], resolved->parts[at].vnode,
                      &answer, effects);
    for (uint32_t i = 0; i < resolved->count; i++)
        if (i != at)
            dispatch_new(shard, item, resolved, i, effects);
    return true;
}

/* Whether the item is decided with tokens that this node holds, or by what it was told. */
static bool decide_near(struct shard *shard, uint32_t item, const struct resolved *resolved,
                        struct effects *effects)
{
    const struct forward *forward = &resolved->parts[0];
    const struct policy_rule *rule = resolved->rules[0];
    struct answer answer;
    if (resolved->trials && resolved->count > 1)
        return decide_near_trials(shard, item, resolved, effects);
    if (forward->home != 0) /* it may be a check that is answered at once */
        return resolved->count == 1 &&
               cross_region_decide_item(shard, item, rule, forward, effects);
    if (rule == NULL || rule->consistency != POLICY_CONSISTENCY_ANY ||
        !resolve_gives_holds(resolved) || !lessee_decide(shard, forward, &answer, effects))
        return false;
    requests_row_done(shard, &shard->rows[item], rule, &forward->limits[answer.limit_index],
                      forward->vnode, &answer, effects);
    return true;
}

static void take_item(struct shard *shard, uint32_t item, const struct resolved *resolved,
                      struct effects *effects)
{
    if (resolved->count == 0)
        return;
    shard->rows[item].pending_left = (uint16_t)resolved->count;
    shard->rows[item].looks = resolved->parts[0].operation == OPERATION_PEEK;
    if (decide_near(shard, item, resolved, effects))
        return;
    /* The parts of a repeated item may have been decided apart: each has an answer of its own. */
    const bool repeated =
        resolved->count > 1 && (shard->message.checks.flags & WIRE_FLAG_RETRY) != 0;
    const bool waits = lessor_asks(&resolved->parts[0]) ||
                       forward_reserves(&resolved->parts[0]); /* LESSOR-1, LESSOR-8 */
    uint32_t rows;
    if (!repeated && !waits && all_here(shard, resolved, &rows))
        decide_together(shard, item, resolved, rows, effects);
    else
        decide_apart(shard, item, resolved, effects);
}

/* Takes items in the order of the message, for what is decided depends on it. */
static uint32_t take_items(struct shard *shard, uint32_t first, uint32_t count,
                           struct effects *effects)
{
    struct resolved resolved[RESOLVED_MAX];
    for (uint32_t i = 0; i < count; i++)
        row_init(&shard->rows[first + i]);
    const uint32_t taken = resolve_items(shard, first, count, resolved);
    for (uint32_t i = 0; i < taken; i++)
        take_item(shard, first + i, &resolved[i], effects);
    return taken;
}

/* Whether the request is answered now, though some of it is not decided. */
static bool tells_now(const struct shard *shard, const struct request *request)
{
    for (uint32_t i = 0; request->partly && i < request->count; i++)
        if (shard->rows[i].pending_left == 0)
            return true;
    return false;
}

/* The message at hand has been worked through: answers it, or keeps its rows. */
static void finish_message(struct shard *shard, struct effects *effects)
{
    const uint32_t at = shard->message.request;
    const struct wire_checks *checks = &shard->message.checks;
    struct request *request = at == POOL_NONE ? NULL : pool_at(&shard->requests, at);
    if (request == NULL || request->pending == 0 || tells_now(shard, request))
        reply(shard, shard->message.connection, checks->session, checks->seq, at, checks->count,
              effects);
    shard->message.request = POOL_NONE;
    if (request == NULL) {
        explain_end(shard, shard->message.explained);
        return;
    }
    if (request->pending == 0) {
        release(shard, at);
        return;
    }
    for (uint32_t i = 0; i < request->count; i++)
        *row_of(shard, at, i) = shard->rows[i];
}

void requests_flags(struct shard *shard)
{
    const struct wire_checks *checks = &shard->message.checks;
    shard->message.flags = (checks->flags & WIRE_FLAG_RETRY) != 0 ? FORWARD_RETRY : 0;
    if (shard->message.explained != POOL_NONE)
        shard->message.flags |= FORWARD_EXPLAIN;
    shard->message.retries = retry_message(&shard->retries, checks->session, checks->seq);
}

void requests_work(struct shard *shard, uint32_t item, struct effects *effects)
{
    const uint32_t count = shard->message.checks.count;
    while (item < count) {
        if (resolve_waits(shard) && unfinished_keep(shard, item))
            break;
        const uint32_t left = count - item;
        item += take_items(shard, item, left < RESOLVED_MAX ? left : RESOLVED_MAX, effects);
    }
    decide_run(shard, effects);
    finish_message(shard, effects);
}

void requests_checks(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                     struct effects *effects)
{
    char error[WIRE_ERROR_LEN];
    const int result =
        wire_decode_checks(frame, len, &shard->checks_space, &shard->message.checks, error);
    if (result != 0) {
        shard->stats.bad_frames++;
        requests_refuse(shard, connection, frame, len, result, error, effects);
        return;
    }
    if (shard->view == NULL || shard->resigned)
        tallies_refused(shard, connection, shard->message.checks.count, OUTCOME_ERROR);
    if (shard->view == NULL) {
        requests_error(shard, connection, shard->message.checks.session, shard->message.checks.seq,
                       TG_EUNAVAILABLE, "this node has not joined a cluster yet", effects);
        return;
    }
    if (shard->resigned) { /* VNODES-10 */
        requests_error(shard, connection, shard->message.checks.session, shard->message.checks.seq,
                       TG_EUNAVAILABLE, "this node is about to stop; ask another", effects);
        return;
    }
    shard->message.connection = connection;
    shard->message.request = POOL_NONE;
    shard->message.work = 0;
    shard->message.frame = frame;
    shard->message.len = (uint32_t)len;
    explain_begin(shard);
    requests_flags(shard);
    requests_work(shard, 0, effects);
}
