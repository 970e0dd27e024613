/* decide.c - checks of vnodes decided here, in batches through the engine.
 *
 * Whatever is to be decided now - items of a client's message, forwards of peers, parts that
 * waited - joins one batch; the engine decides it in one step; then each group's decision goes
 * back to where the group came from. A group is decided all or nothing.
 *
 *     item of the message at hand --+
 *     forward of a peer ------------+--> batch --> engine_step --> answer per part --> origin
 *     part that waited -------------+
 *
 * DECIDE-1   A group that the retry memory recalls consumes nothing: its rows only peek.
 * DECIDE-2   What was decided is remembered before it is answered.
 * DECIDE-3   Delivery adds nothing to the batch it reads: what it sets free is dispatched
 *            afterwards.
 * DECIDE-4   What may be a repetition is looked up after all that came before it was decided.
 * DECIDE-5   What took nothing because another part of its group was denied is not remembered.
 * DECIDE-6   In the plane of quorum an answer is remembered for its term alone, and those that this
 *            one was passed on to with all that was decided; it leaves only when it is committed
 *            (quorum.c).
 * DECIDE-7   There, what gives back is not done a second time when nothing is remembered of the
 *            first.
 * DECIDE-8   What is no longer decided here when its batch runs takes nothing, and goes on.
 * DECIDE-9   What waited, what gives back, and all of the plane of quorum, is looked up even if it
 *            is a first copy: a repeated one may have been decided before it. So is everything for
 *            as long as answers are kept after a repeated one that nobody knew was decided here, or
 *            after a term was opened: a first copy may be late, in a node that stood still or had
 *            nobody to ask.
 * DECIDE-10  An undo gives back what the memory of reservations says that its attempt alone was
 *            granted and still holds (reserve.h), and in the same breath that is so no more. So a
 *            repeated one does nothing, and nothing is given back of which nothing is known: nor of
 *            a state that this one does not descend from.
 * DECIDE-11  The id of a lease is a hash of the request's identity under the cluster's secret. So
 *            every node reckons the same one: a repeated request finds its lease wherever it is
 *            decided, the answer need not carry it, and nobody else can guess it.
 * DECIDE-13  A row about a lease of tokens, or a reservation, says which (DECIDE-11), and of what
 *            ends or renews it how much of it was used. Its answer waits until replicas know it
 *            (LESSOR-1), recalled or not.
 * DECIDE-14  Of a key that other regions want as well, a check or lease takes what its region's
 *            account gives (allocation.c). If that is nothing its rows only peek, it is denied, and
 *            that is not remembered.
 * DECIDE-12  An undo is looked up after all that came before it was decided: what it undoes may be
 *            there. Or it waits: then it is called off (RESERVE-5).
 * DECIDE-15  What is asked by older rules than this shard has seen (its own, or those of whoever
 *            asked) leaves states at the rates and on the grids that they have (ALGORITHM-7). So
 *            nodes that have an edit do not convert them, and those that still lack it do not
 *            convert them back. A version is one of all rules. A part that does not say by which
 *            rules it is asked - of an inline limit, of a node of release 0.1.0, of another region
 *            - is not held for older.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/dedup/lease_id.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/replication/exposure_granted.h"

/* A row of one of several parts: it is marked, so that it can be undone, or undoes one that was. */
static void reserve_row(struct batch *batch, const struct batch_item *item, uint32_t row,
                        uint32_t limit)
{
    if (!item->undo) {
        if (batch->operations[row] != OPERATION_CHECK ||
            (item->part == POOL_NONE && !item->from_peer))
            return;
        batch->flags[row] |= LIMIT_MARK;
        batch->marks[row] = (struct limit_mark){.place = 0}; /* a repeated lease charges none */
        return;
    }
    ASSERT(item->gives == 0 || limit < item->reservation.count); /* DECIDE-10 */
    batch->costs[row] = item->gives;
    if (item->gives > 0) {
        batch->flags[row] |= LIMIT_UNDO;
        batch->marks[row] = item->reservation.marks[limit];
    } else {
        batch->operations[row] = OPERATION_PEEK;
        batch->flags[row] |= LIMIT_LOADED; /* the disk need not be asked for that */
    }
}

/* DECIDE-13 */
static void hold_row(struct shard *shard, const struct batch_item *item,
                     const struct forward *forward, uint32_t row)
{
    struct batch *batch = &shard->batch;
    ASSERT(row < batch->count); /* DECIDE-13 */
    batch->flags[row] |= LIMIT_HOLD;
    batch->leases[row] = decide_lease(shard, forward);
    batch->ttls_ms[row] = 0;
    if (forward->operation == OPERATION_RESERVE)
        batch->ttls_ms[row] = (uint32_t)forward->used;
    else if (!item->recalled && forward->operation != OPERATION_LEASE)
        batch->costs[row] = forward->used;
}

/* DECIDE-14 */
static void share_row(struct batch *batch, const struct batch_item *item, uint32_t row)
{
    if (item->recalled)
        return;
    if (item->takes == 0) {
        batch->operations[row] = OPERATION_PEEK;
        batch->flags[row] &= (uint8_t)~LIMIT_MARK;
        return;
    }
    batch->costs[row] = item->takes;
    if (batch->operations[row] == OPERATION_LEASE)
        batch->flags[row] &= (uint8_t)~LIMIT_AT_MOST; /* all of it: others have theirs */
}

/* A row that is not decided just as it was asked for, or is more than that. */
static __attribute__((noinline)) void special_row(struct shard *shard,
                                                  const struct batch_item *item,
                                                  const struct forward *forward, uint8_t loaded,
                                                  uint32_t limit, uint32_t row)
{
    struct batch *batch = &shard->batch;
    if (forward->limits[limit].algorithm == ALGORITHM_CONCURRENCY)
        batch->leases[row] = decide_lease(shard, forward);
    if (item->recalled) {
        batch->operations[row] = OPERATION_PEEK; /* DECIDE-1 */
        batch->costs[row] = item->memory.allowed ? 0 : forward->cost;
    }
    if ((loaded & 1u << limit) != 0)
        batch->flags[row] |= LIMIT_LOADED;
    if (item->several)
        reserve_row(batch, item, row, limit);
    if ((forward->flags & FORWARD_HOLD) != 0)
        hold_row(shard, item, forward, row);
    if (item->takes != ALLOCATION_ALL)
        share_row(batch, item, row);
}

/* DECIDE-15 */
bool decide_is_older(struct shard *shard, const struct forward *forward)
{
    if (forward->rules > shard->rules_seen)
        shard->rules_seen = forward->rules;
    return forward->rules != 0 && forward->rules < shard->rules_seen;
}

void decide_rows(struct shard *shard, struct batch_item *item, const struct policy_rule *rule,
                 const struct forward *forward, uint8_t loaded)
{
    struct batch *batch = &shard->batch;
    const bool special = item->recalled || item->several || item->takes != ALLOCATION_ALL ||
                         (forward->flags & FORWARD_HOLD) != 0 || loaded != 0;
    const uint8_t older = decide_is_older(shard, forward) ? LIMIT_OLDER : 0;
    for (uint32_t i = 0; i < forward->limit_count; i++) {
        const uint32_t row = batch->count++;
        const struct limit *limit = &forward->limits[i];
        batch->ids[row] = forward->ids[i];
        batch->vnodes[row] = forward->vnode;
        batch->limits[row] = *limit;
        batch->limit_of[row] = &batch->limits[row];
        batch->elastic |= limit->pool != 0;
        batch->costs[row] = forward->cost;
        batch->operations[row] = forward->operation;
        batch->flags[row] = (forward->flags & (LIMIT_AT_MOST | LIMIT_COUNT_DENIED)) | older;
        batch->groups[row] = batch->item_count;
        batch->classes[row] = forward->class;
        if (__builtin_expect(special || limit->algorithm == ALGORITHM_CONCURRENCY, 0))
            special_row(shard, item, forward, loaded, i, row);
    }
    const uint32_t part = item->parts++;
    item->operation = forward->operation;
    item->cost = forward->cost;
    item->used = forward->used;
    item->explains |= (forward->flags & FORWARD_EXPLAIN) != 0;
    item->rules[part] = rule;
    item->vnodes[part] = forward->vnode;
    item->count += forward->limit_count;
    item->ends[part] = item->count;
}

static bool undoes(const struct forward *forward)
{
    return (forward->retry.part & RETRY_UNDO) != 0;
}

/* DECIDE-4: a repeated forward may have its first copy in the very batch; and a first copy that is
 * looked up (DECIDE-9) a repeated one. */
static void run_before_repeated(struct shard *shard, const struct forward *forward, bool is_pending,
                                struct effects *effects)
{
    const struct batch *batch = &shard->batch;
    const bool repeated = (forward->flags & FORWARD_RETRY) != 0;
    if ((repeated && batch->item_count > 0) ||
        ((is_pending || decide_gives_back(forward) || decide_expects_late(shard)) &&
         batch->has_repeated) ||
        (undoes(forward) && batch->has_several)) /* DECIDE-12 */
        decide_run(shard, effects);
}

bool decide_only_once(const struct shard *shard, const struct forward *forward)
{
    return vnodes_quorum(shard, forward->vnode) && (forward->flags & FORWARD_RETRY) != 0 &&
           decide_gives_back(forward) && !undoes(forward); /* DECIDE-10: that may be repeated */
}

/* Under which key the first answer is remembered. What was decided in another term may not be part
 * of what is counted now, so in the plane of quorum the line of terms belongs to the key
 * (DECIDE-6). */
static struct retry_key key_of(const struct shard *shard, const struct retry_key *retry,
                               uint32_t vnode, struct hash128 id, bool several)
{
    struct retry_key key = several ? reserve_key(retry, id) : *retry;
    if (vnodes_quorum(shard, vnode)) {
        const struct term *term = &shard->vnodes[vnode].line;
        key.session ^= hash_mix64(term->number ^ term->epoch << 40 ^ (uint64_t)vnode << 20);
    }
    return key;
}

static struct retry_memory *memory_of(struct shard *shard, bool several)
{
    return several ? &shard->reserves.answers : &shard->retries;
}

/* The attempt that the group belongs to: what is sent or waits keeps its ticket (retry.h). Only
 * what is decided at once, here and as a whole, has none: of that nothing is ever given back. */
static uint16_t attempt_of(const struct shard *shard, const struct batch_item *item)
{
    if (item->part != POOL_NONE)
        return pending_attempt(shard, item->part);
    return item->from_peer ? retry_attempt(shard->peers[item->peer]->node, item->ticket) : 0;
}

/* Under which key an answer is told to replicas: that of the plane of one, for the next term is
 * another one (firsts.h). */
static struct retry_key plain_key(const struct retry_key *retry, struct hash128 id, bool several)
{
    return several ? reserve_key(retry, id) : *retry;
}

bool decide_recall(struct shard *shard, struct batch_item *item, uint32_t vnode, struct hash128 id)
{
    struct retry_memory *memory = memory_of(shard, item->several);
    const struct retry_key plain = plain_key(&item->retry, id, item->several);
    if (retry_recall(memory, &item->key, item->attempt, shard->now_ns, &item->memory))
        return true;
    if (item->again == 0 && item->part == POOL_NONE && !decide_expects_late(shard))
        return false;
    if (firsts_recall(shard, vnode, &plain, &item->key, item->several))
        return retry_recall(memory, &item->key, item->attempt, shard->now_ns, &item->memory);
    if (item->again != 0)
        shard->late_until_ns = shard->now_ns + RETRY_KEEP_NS; /* DECIDE-9 */
    return false;
}

/* Whether the group was decided before, and how (DECIDE-9). */
static bool look_up(struct shard *shard, struct batch_item *item, const struct forward *forward)
{
    const bool waited = item->part != POOL_NONE;
    if (forward->operation == OPERATION_PEEK || undoes(forward) || forward_reserves(forward))
        return false;
    if (item->again == 0 && !waited && !decide_gives_back(forward) &&
        !vnodes_quorum(shard, forward->vnode) && !decide_expects_late(shard))
        return false;
    return decide_recall(shard, item, forward->vnode, forward->ids[0]);
}

/* An undo that was decided is known by its word for a while, as other answers are (retry.h). */
static bool first_copy(struct shard *shard, const struct forward *forward)
{
    struct retry_memory_entry ignored;
    const struct retry_key key = reserve_key(&forward->retry, forward->ids[0]);
    const struct retry_key word = reserve_word(&key, forward->attempt);
    const bool first = !retry_look(&shard->retries, &word, shard->now_ns, &ignored);
    (void)retry_remember(&shard->retries, &word, forward->attempt, false, 0, 0, shard->now_ns);
    return first;
}

/* What the undo is to give back (DECIDE-10); `cost` is what stays. */
static void prepare_undo(struct shard *shard, struct batch_item *item,
                         const struct forward *forward)
{
    struct reservation *what = &item->reservation;
    struct retry_key key = item->key;
    key.part &= (uint8_t)~RETRY_UNDO;
    item->undo = true;
    item->undo_for = forward->attempt;
    item->gives = 0;
    item->key = key;
    const enum reserve_hold hold =
        reserve_find(&shard->reserves, &key, forward->attempt, shard->now_ns, what);
    const bool first = first_copy(shard, forward);
    const bool known = hold == RESERVE_ALONE && what->count == forward->limit_count &&
                       what->fold == reserve_fold(forward->ids, forward->limit_count) &&
                       term_compare(&what->term, &shard->vnodes[forward->vnode].term) == 0;
    if (known)
        item->gives =
            what->granted - (forward->cost < what->granted ? forward->cost : what->granted);
    else if (hold != RESERVE_SHARED && first)
        shard->stats.undo_unknown++;
    const bool waited = item->part != POOL_NONE;
    if (hold == RESERVE_UNKNOWN && shard->active_count > (waited ? 1 : 0)) {
        const struct retry_key plain = reserve_key(&forward->retry, forward->ids[0]);
        reserve_call_off(&shard->reserves, &plain, forward->attempt, shard->now_ns);
    }
}

/* Looks the group up in the retry memory (DECIDE-1). */
static void recall(struct shard *shard, struct batch_item *item, const struct forward *forward)
{
    item->several =
        ((forward->flags & FORWARD_SEVERAL) != 0 && !forward_reserves(forward)) || undoes(forward);
    item->retry = forward->retry;
    item->key = key_of(shard, &forward->retry, forward->vnode, forward->ids[0], item->several);
    item->again = forward->flags & FORWARD_RETRY;
    item->attempt = attempt_of(shard, item);
    item->recalled = look_up(shard, item, forward);
    if (item->again != 0 || decide_gives_back(forward))
        shard->batch.has_repeated = true;
    if (item->several)
        shard->batch.has_several = true;
    shard->stats.retries_recalled += item->recalled;
    if (undoes(forward))
        prepare_undo(shard, item, forward);
}

bool decide_called_off(const struct shard *shard, uint32_t index)
{
    const struct pending_check *check = pending_at(shard, index);
    const struct forward *forward = &check->forward;
    if (!check->from_peer || (forward->flags & FORWARD_SEVERAL) == 0 || undoes(forward))
        return false;
    const struct retry_key key = reserve_key(&forward->retry, forward->ids[0]);
    return reserve_called_off(&shard->reserves, &key, pending_attempt(shard, index), shard->now_ns);
}

void decide_part(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct pending_check *check = pending_at(shard, index);
    if (decide_called_off(shard, index)) {
        pending_free(shard, index);
        return;
    }
    if ((lessor_asks(&check->forward) || forward_reserves(&check->forward)) &&
        lessor_refuses(shard, &check->forward)) {
        const struct answer busy = {.status = ANSWER_BUSY};
        shard->stats.leases_refused++;
        route_pending_answer(shard, index, &busy, shard->options.node_id, effects);
        return;
    }
    run_before_repeated(shard, &check->forward, true, effects);
    if (decide_only_once(shard, &check->forward)) {
        const struct forward *forward = &check->forward;
        const bool several = (forward->flags & FORWARD_SEVERAL) != 0;
        const struct retry_key key =
            key_of(shard, &forward->retry, forward->vnode, forward->ids[0], several);
        const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
        const struct retry_key plain = plain_key(&forward->retry, forward->ids[0], several);
        struct retry_memory_entry first;
        if (!retry_look(memory_of(shard, several), &key, shard->now_ns, &first) &&
            !firsts_recall(shard, forward->vnode, &plain, &key, several)) { /* DECIDE-7 */
            route_pending_answer(shard, index, &unavailable, shard->options.node_id, effects);
            return;
        }
    }
    const uint64_t takes = allocation_take(shard, &check->forward, effects);
    struct batch_item *item = decide_group(shard, check->forward.limit_count, effects);
    item->part = index;
    item->takes = takes;
    recall(shard, item, &check->forward);
    decide_rows(shard, item, check->rule, &check->forward, check->loaded);
    check->status = PENDING_DECIDING;
}

void decide_forward(struct shard *shard, uint16_t at, const struct forward *forward,
                    struct effects *effects)
{
    run_before_repeated(shard, forward, false, effects);
    const uint64_t takes = allocation_take(shard, forward, effects);
    struct batch_item *item = decide_group(shard, forward->limit_count, effects);
    item->from_peer = true;
    item->takes = takes;
    item->peer = at;
    item->ticket = forward->ticket;
    recall(shard, item, forward);
    decide_rows(shard, item, NULL, forward, 0);
}

/* ---- from rows to answers -------------------------------------------------------------------- */

/* Whether row `a` says more about a denial than row `b`: the later success, never being latest. */
static bool denies_longer(const struct batch *batch, uint32_t a, uint32_t b)
{
    const uint64_t retry_a = (uint64_t)batch->retry_after_ns[a]; /* -1, never, is the largest */
    const uint64_t retry_b = (uint64_t)batch->retry_after_ns[b];
    return retry_a > retry_b;
}

/* Whether row `a` says more about an admission than row `b`: less is left, and of none, one was
 * borrowed above, or exceeded. */
static bool leaves_less(const struct batch *batch, uint32_t a, uint32_t b)
{
    if (batch->remaining[a] != batch->remaining[b])
        return batch->remaining[a] < batch->remaining[b];
    const bool a_borrowed = batch->elastic && batch->borrowed[a] != 0;
    const bool b_borrowed = batch->elastic && batch->borrowed[b] != 0;
    return a_borrowed != b_borrowed
               ? a_borrowed
               : (batch->notes[a] & LIMIT_SOFT) > (batch->notes[b] & LIMIT_SOFT);
}

/* The row that the answer of rows first .. end - 1 is about. */
static uint32_t deciding_row(const struct batch *batch, uint32_t first, uint32_t end)
{
    uint32_t best = first;
    for (uint32_t row = first + 1; row < end; row++) {
        if (batch->allowed[row] != batch->allowed[best]) {
            if (!batch->allowed[row])
                best = row;
        } else if (!batch->allowed[row] ? denies_longer(batch, row, best)
                                        : leaves_less(batch, row, best)) {
            best = row;
        }
    }
    return best;
}

/* A request that joins several queues waits for the longest; a lease ends with the first of several
 * limits. */
static int64_t delay_of(const struct batch *batch, uint32_t first, uint32_t end)
{
    const bool holds = (batch->flags[first] & LIMIT_HOLD) != 0;
    int64_t delay_ns = batch->delay_ns[first];
    for (uint32_t row = first + 1; row < end; row++)
        if (holds ? batch->delay_ns[row] < delay_ns : batch->delay_ns[row] > delay_ns)
            delay_ns = batch->delay_ns[row];
    return delay_ns;
}

/* In place of what the rows say of a request that was decided before. */
static void recall_answer(const struct batch_item *item, struct answer *answer)
{
    answer->allowed = item->memory.allowed;
    answer->granted = item->memory.granted;
    if (answer->allowed)
        answer->retry_after_ns = 0;
    answer->borrowed = answer->allowed && (item->memory.limit_index & RETRY_BORROWED) != 0;
}

static inline void make_answer(const struct shard *shard, const struct batch_item *item,
                               uint32_t first, uint32_t end, struct answer *answer)
{
    const struct batch *batch = &shard->batch;
    const uint32_t row = deciding_row(batch, first, end);
    if (__builtin_expect(batch->status[first] == LIMIT_NO_ROOM, 0)) {
        const bool takes = batch->operations[first] <= OPERATION_HIT;
        *answer =
            (struct answer){.status = ANSWER_BUSY, .full = true, .granted = takes ? item->cost : 0};
        return;
    }
    answer->status = ANSWER_DECIDED;
    answer->full = false;
    answer->allowed = batch->allowed[row] != 0;
    answer->borrowed = answer->allowed && batch->elastic && batch->borrowed[row] != 0;
    answer->degraded = vnodes_degraded(shard, batch->vnodes[row]);
    answer->limit_index = (uint8_t)(row - first);
    answer->limit = batch->limit[row];
    answer->used = batch->used[row];
    answer->remaining = batch->remaining[row];
    answer->granted = batch->granted[row];
    answer->reset_after_ns = batch->reset_after_ns[row];
    answer->retry_after_ns = batch->retry_after_ns[row];
    answer->delay_ns = delay_of(batch, first, end);
    if (__builtin_expect(item->recalled, 0))
        recall_answer(item, answer);
    answer->soft = answer->allowed && (batch->notes[row] & LIMIT_SOFT) != 0;
    answer->held = (batch->notes[row] & LIMIT_HELD) != 0;
}

/* DECIDE-14: what is left is for others. When there is more nobody knows. */
static void withhold(struct shard *shard, struct answer *answer)
{
    if (answer->status != ANSWER_DECIDED)
        return;
    shard->stats.withheld++;
    if (answer->allowed ||
        (answer->retry_after_ns >= 0 && answer->retry_after_ns < ALLOCATION_WAIT_NS))
        answer->retry_after_ns = ALLOCATION_WAIT_NS;
    answer->allowed = answer->soft = answer->borrowed = false;
    answer->held = true;
    answer->granted = answer->remaining = 0;
    answer->delay_ns = 0;
    answer->used = answer->used > answer->limit ? answer->used : answer->limit;
}

/* What is remembered of an answer beside what was granted. */
static uint8_t told_index(const struct answer *answer)
{
    return answer->limit_index | (answer->borrowed ? RETRY_BORROWED : 0);
}

/* Lets replicas know the answer, if it charged something (firsts.h). */
static inline void tell(struct shard *shard, const struct batch_item *item, uint32_t part,
                        uint64_t tag, const struct answer *answer)
{
    const uint8_t denied = shard->batch.flags[item->first] & LIMIT_COUNT_DENIED;
    if (!answer->allowed && denied == 0)
        return;
    firsts_note(
        shard, item->vnodes[part], tag, item->attempt, told_index(answer), answer->granted,
        (uint8_t)((answer->allowed ? FIRST_ALLOWED : 0) | (item->several ? FIRST_SEVERAL : 0)));
}

/* Notes the answer to a part of a request of several, and where its charges are. A group's parts
 * were decided together: they need no undo. */
static void remember_several(struct shard *shard, const struct batch_item *item, uint32_t part,
                             const struct answer *answer)
{
    const struct batch *batch = &shard->batch;
    const uint32_t first = item->first + (part == 0 ? 0 : item->ends[part - 1]);
    const uint32_t vnode = item->vnodes[part];
    const struct retry_key key =
        item->parts == 1 ? item->key : key_of(shard, &item->retry, vnode, batch->ids[first], true);
    const bool marked =
        item->parts == 1 && answer->allowed && (batch->flags[first] & LIMIT_MARK) != 0;
    const struct reservation what = {
        .vnode = vnode,
        .term = shard->vnodes[vnode].term,
        .seq = table_vnode_seq(shard->table, vnode),
        .granted = answer->granted,
        .fold = marked ? reserve_fold(&batch->ids[first], item->count) : 0,
        .count = (uint8_t)(item->first + item->ends[part] - first),
        .marks = marked ? &batch->marks[first] : NULL,
    };
    reserve_note(&shard->reserves, &key, item->attempt, answer->allowed, told_index(answer),
                 shard->now_ns, &what);
    const struct retry_key plain = plain_key(&item->retry, batch->ids[first], true);
    tell(shard, item, part, retry_tag(&shard->reserves.answers, &plain), answer);
}

static void remember_one(struct shard *shard, const struct batch_item *item, uint32_t part,
                         const struct answer *answer)
{
    const uint64_t tag = item->tag != 0 ? item->tag : retry_tag(&shard->retries, &item->key);
    const bool quorum = vnodes_quorum(shard, item->vnodes[part]);
    retry_remember_tag(&shard->retries, tag, item->attempt, answer->allowed, told_index(answer),
                       answer->granted, shard->now_ns);
    tell(shard, item, part, quorum ? retry_tag(&shard->retries, &item->retry) : tag, answer);
}

static void take_back(struct shard *shard, const struct batch_item *item)
{
    struct retry_memory *memory = &shard->reserves.answers;
    struct retry_memory_entry left;
    struct retry_key plain = plain_key(&item->retry, shard->batch.ids[item->first], true);
    plain.part &= (uint8_t)~RETRY_UNDO;
    reserve_undone(&shard->reserves, &item->key, item->undo_for, item->cost, shard->now_ns);
    const bool stays = retry_look(memory, &item->key, shard->now_ns, &left);
    firsts_undone(shard, item->vnodes[0], retry_tag(memory, &plain), stays ? &left : NULL);
}

static void remember(struct shard *shard, const struct batch_item *item, uint8_t operation,
                     const struct answer *answer, uint32_t part)
{
    if (answer->status != ANSWER_DECIDED)
        return;
    if (item->undo)
        take_back(shard, item);
    else if (item->recalled || operation == OPERATION_PEEK || operation >= OPERATION_RESERVE)
        return; /* LEASED-8: a reservation tells it itself */
    else if (item->several)
        remember_several(shard, item, part, answer);
    else if (item->once)
        return; /* decided here and at once, for who does not repeat it */
    else
        remember_one(shard, item, part, answer);
}

static void count_decision(struct shard *shard, const struct answer *answer)
{
    shard->stats.checks++;
    if (answer->status != ANSWER_DECIDED)
        shard->stats.busy++;
    else if (answer->allowed)
        shard->stats.allowed++;
    else
        shard->stats.denied++;
}

/* Tokens that were leased, and those that came back. */
static void count_tokens(struct shard *shard, const struct batch_item *item,
                         const struct answer *answer)
{
    if (answer->status != ANSWER_DECIDED || !answer->allowed)
        return;
    if (item->operation == OPERATION_LEASE || item->operation == OPERATION_RESERVE)
        shard->stats.leases_tokens += answer->granted;
    else if (item->operation == OPERATION_RELEASE || item->operation == OPERATION_CANCEL)
        shard->stats.leases_back += answer->granted;
}

/* ---- delivery -------------------------------------------------------------------------------- */

/* The part of the group as a forward again, so that it can wait for its slots. */
static void rebuild_forward(const struct shard *shard, const struct batch_item *item, uint32_t part,
                            struct forward *forward)
{
    const struct batch *batch = &shard->batch;
    const uint32_t first = item->first + (part == 0 ? 0 : item->ends[part - 1]);
    memset(forward, 0, sizeof *forward);
    forward->ticket = item->ticket;
    forward->retry = item->retry;
    forward->retry.part = (uint8_t)(forward->retry.part + part);
    forward->flags = batch->flags[first] & (LIMIT_AT_MOST | LIMIT_COUNT_DENIED);
    forward->flags |= item->again;
    forward->flags |= item->several ? FORWARD_SEVERAL : 0;
    forward->flags |= (batch->flags[first] & LIMIT_HOLD) != 0 ? FORWARD_HOLD : 0;
    forward->used = item->used;
    forward->attempt = item->undo ? item->undo_for : 0;
    if (item->recalled) /* it was decided before: recall it again then */
        forward->flags |= FORWARD_RETRY;
    if (item->explains)
        forward->flags |= FORWARD_EXPLAIN;
    if (item->takes != ALLOCATION_ALL && item->takes != 0 && item->operation == OPERATION_LEASE)
        forward->flags |= FORWARD_AT_MOST;
    forward->operation = item->operation;
    forward->vnode = batch->vnodes[first];
    forward->class = (uint16_t)batch->classes[first];
    forward->cost = item->cost;
    forward->limit_count = (uint8_t)(item->first + item->ends[part] - first);
    memcpy(forward->ids, &batch->ids[first], forward->limit_count * sizeof *forward->ids);
    memcpy(forward->limits, &batch->limits[first], forward->limit_count * sizeof *forward->limits);
}

static void answer_busy(struct shard *shard, const struct batch_item *item, uint32_t part,
                        const struct forward *forward, struct effects *effects)
{
    const struct answer busy = {.status = ANSWER_BUSY};
    shard->stats.busy++;
    if (item->from_peer)
        peer_put_answer(peers_outbox(shard, item->peer, PEER_RECORD_MAX, effects), item->ticket,
                        &busy);
    else
        requests_row_done(shard, &shard->rows[item->item], item->rules[part], &forward->limits[0],
                          forward->vnode, &busy, effects);
}

/* Slots of the group are on disk: each of its parts waits for its own. */
static void wait_for_disk(struct shard *shard, const struct batch_item *item,
                          struct effects *effects)
{
    if (item->part != POOL_NONE) {
        route_pending_load(shard, item->part, effects);
        return;
    }
    for (uint32_t i = 0; i < item->parts; i++) {
        struct forward forward;
        rebuild_forward(shard, item, i, &forward);
        const uint32_t part =
            item->from_peer ? pending_new(shard, &forward, shard->now_ns + SHARD_FORWARD_NS)
                            : requests_new_pending(shard, item->item, item->rules[i], &forward);
        if (part == POOL_NONE) {
            answer_busy(shard, item, i, &forward, effects);
            continue;
        }
        if (item->from_peer) {
            pending_at(shard, part)->from_peer = true;
            pending_at(shard, part)->origin_peer = item->peer;
            pending_at(shard, part)->origin_ticket = item->ticket;
        }
        route_pending_load(shard, part, effects);
    }
}

/* Whether what a part's rows say was the verdict on the group. One that allowed in a group that was
 * denied took nothing, and decides afresh next time (DECIDE-5). */
static bool stands(const struct batch *batch, const struct batch_item *item, bool allowed)
{
    if (item->parts == 1)
        return true;
    for (uint32_t row = item->first; allowed && row < item->first + item->count; row++)
        if (!batch->allowed[row])
            return false;
    return true;
}

/* DECIDE-8: in the plane of quorum a term may have ended since the part joined the batch. */
static void revoke(struct shard *shard)
{
    struct batch *batch = &shard->batch;
    for (uint32_t i = 0; i < batch->item_count; i++) {
        struct batch_item *item = &batch->items[i];
        ASSERT(item->first + item->count <= batch->count); /* DECIDE-8 */
        item->revoked = vnodes_quorum(shard, item->vnodes[0]) &&
                        shard->vnodes[item->vnodes[0]].role != ROLE_LEADING;
        for (uint32_t row = item->first; item->revoked && row < item->first + item->count; row++) {
            batch->operations[row] = OPERATION_PEEK;
            batch->flags[row] &= (uint8_t)~LIMIT_UNDO;
        }
    }
}

/* DECIDE-13, LESSOR-6: whether what the part was granted is told when a majority knows it. */
static bool awaits_replicas(const struct shard *shard, const struct batch *batch,
                            const struct batch_item *item, uint32_t first)
{
    const struct forward *forward = &pending_at(shard, item->part)->forward;
    if ((batch->flags[first] & LIMIT_HOLD) != 0 && lessor_asks(forward))
        return true;
    return !item->undo && lessor_sure(shard, forward); /* of a commit, too: LESSOR-8 */
}

static void deliver(struct shard *shard, const struct batch_item *item, struct effects *effects)
{
    const struct batch *batch = &shard->batch;
    if (item->revoked) {
        route_pending_dispatch(shard, item->part, effects);
        return;
    }
    if (batch->status[item->first] == LIMIT_ABSENT) {
        wait_for_disk(shard, item, effects);
        return;
    }
    uint32_t first = item->first;
    for (uint32_t i = 0; i < item->parts; i++) {
        const uint32_t end = item->first + item->ends[i];
        struct answer answer;
        make_answer(shard, item, first, end, &answer);
        if (__builtin_expect(item->takes == 0, 0) && !item->recalled && item->withholds == i)
            withhold(shard, &answer);
        if (item->undo || stands(batch, item, answer.allowed))
            remember(shard, item, batch->operations[first], &answer, i);
        count_decision(shard, &answer);
        if ((batch->flags[first] & LIMIT_HOLD) != 0 && !item->recalled)
            count_tokens(shard, item, &answer);
        if (__builtin_expect(item->explains, 0))
            explain_rows(shard, item, i, first, end, effects);
        if (vnodes_quorum(shard, item->vnodes[i]) && answer.status == ANSWER_DECIDED) {
            quorum_wait(shard, item->part, &answer); /* DECIDE-6 */
            quorum_advance(shard, item->vnodes[i], effects);
        } else if (answer.allowed && item->part != POOL_NONE &&
                   awaits_replicas(shard, batch, item, first))
            lessor_wait(shard, item->part, &answer, effects); /* DECIDE-13 */
        else if (item->part != POOL_NONE)
            route_pending_answer(shard, item->part, &answer, shard->options.node_id, effects);
        else if (item->from_peer)
            peer_put_answer(peers_outbox(shard, item->peer, PEER_RECORD_MAX, effects), item->ticket,
                            &answer);
        else
            requests_row_done(shard, &shard->rows[item->item], item->rules[i],
                              &batch->limits[first + answer.limit_index], item->vnodes[i], &answer,
                              effects);
        first = end;
    }
}

void decide_step(struct shard *shard, uint32_t first, uint32_t count)
{
    struct batch *batch = &shard->batch;
    const struct limit_batch columns = {
        .count = count,
        .ids = batch->ids + first,
        .vnodes = batch->vnodes + first,
        .limits = batch->limit_of + first,
        .costs = batch->costs + first,
        .operations = batch->operations + first,
        .flags = batch->flags + first,
        .groups = batch->groups + first,
        .classes = batch->classes + first,
        .leases = batch->leases + first,
        .ttls_ms = batch->ttls_ms + first,
        .marks = batch->marks + first,
    };
    struct limit_decisions decisions = {
        .status = batch->status + first,
        .allowed = batch->allowed + first,
        .limit = batch->limit + first,
        .used = batch->used + first,
        .remaining = batch->remaining + first,
        .granted = batch->granted + first,
        .reset_after_ns = batch->reset_after_ns + first,
        .retry_after_ns = batch->retry_after_ns + first,
        .delay_ns = batch->delay_ns + first,
        .notes = batch->notes + first,
    };
    engine_step(shard->table, &columns, shard->now_ns, &decisions);
    for (uint32_t row = first; row < first + count; row++)
        if (batch->granted[row] != 0 &&
            (batch->operations[row] < OPERATION_RELEASE ||
             batch->operations[row] == OPERATION_RESERVE) &&
            batch->operations[row] != OPERATION_PEEK &&
            !vnodes_quorum(shard, batch->vnodes[row])) /* there nothing is at risk */
            exposure_granted(shard, batch->vnodes[row], batch->granted[row]);
}

void decide_run(struct shard *shard, struct effects *effects)
{
    struct batch *batch = &shard->batch;
    if (batch->item_count == 0)
        return;
    ASSERT(!batch->delivering); /* DECIDE-3 */
    const uint32_t items = batch->item_count;
    if (shard->vnode_end > shard->options.vnodes)
        revoke(shard);
    if (shard->merge.guarded > 0)
        merge_before(shard); /* MERGE-1 */
    decide_step(shard, 0, batch->count);
    if (__builtin_expect(batch->elastic, 0))
        borrow_batch(shard);
    batch->count = 0;
    batch->item_count = 0;
    batch->has_repeated = false;
    batch->has_several = false;
    batch->delivering = true;
    for (uint32_t i = 0; i < items; i++)
        deliver(shard, &batch->items[i], effects);
    batch->delivering = false;
    batch->elastic = false;
}
