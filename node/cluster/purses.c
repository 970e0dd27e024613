/* purses.c - consistency `any`: a node decides on tokens that it holds, without asking.
 *
 * A shard that is asked for a key which another one decides is a holder of its tokens, as a client
 * may be (node/limit/leased.c): it has a lease of the key's decider, and admits checks with that,
 * by itself. The lease lasts a second; when half of its tokens or of its time is gone, the next is
 * asked for beside what is decided, as large as what was asked for lately, and what is left of the
 * old one goes back. So no check waits for another node while the tokens last.
 *
 *     check --> tokens left? --yes--> allowed here
 *                  | no
 *               denied lately? --yes--> denied here
 *                  | no
 *               decider: an ordinary check (parts.c); out of reach: on_failure
 *
 *     first check: none     second within a second: LEASE     half gone: LEASE, then RELEASE
 *     |--|------------------|-----[ tokens ]------------------[ tokens ]-------- ...
 *                                                   nothing asked for since: RELEASE alone
 *
 * U1  What is admitted here was taken out of the limit before, and counts in it until the lease has
 *     ended for the decider: a release states what was used; expired is spent. So all nodes
 *     together admit what the limit allows, whoever dies and however the network splits.
 * U2  Nothing is taken of a lease after its end as this node must reckon it: from before it was
 *     asked for, less a 64th and a millisecond, for clocks are not alike (PROTOCOL.md).
 * U3  A lease is released once, and nothing is taken of it after that.
 * U4  A repeated check gets the answer that this shard gave it first (retry.h). One that is
 *     repeated through another node may be charged twice, and is then admitted by its own tokens.
 * U5  PURSES_MAX keys; a key that finds no room, or is asked for less than PURSES_HOT times a
 *     second, is asked of its decider: to take tokens for one check would take them from others.
 * U6  A denial is believed until it can change by itself, PURSES_DENIAL_NS at most: others may give
 *     back meanwhile. A refund or reset through this shard ends that belief.
 */
#include "node/cluster/purses.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/cluster/shard_state.h"

int purses_init(struct shard *shard)
{
    struct purses *purses = &shard->purses;
    uint8_t bytes[20];
    struct bytes_writer writer;
    bytes_writer_init(&writer, bytes, sizeof bytes);
    bytes_put_u64(&writer, shard->options.node_id);
    bytes_put_u64(&writer, shard->options.boot);
    bytes_put_u32(&writer, shard->options.shard);
    purses->session = hash64(&shard->options.secret, bytes, writer.len);
    purses->list = alloc_get(shard->allocator, PURSES_MAX * sizeof *purses->list);
    return purses->list != NULL ? 0 : TG_ENOMEM;
}

void purses_fini(struct shard *shard)
{
    alloc_put(shard->allocator, shard->purses.list, PURSES_MAX * sizeof *shard->purses.list);
}

/* ---- purses ---------------------------------------------------------------------------------- */

static bool is_busy(const struct purse *purse)
{
    return purse->lease != 0 || purse->asking != 0;
}

static struct purse *set_of(const struct shard *shard, struct hash128 id)
{
    const uint64_t set = hash_mix64(id.lo ^ id.hi) % (PURSES_MAX / PURSES_WAYS);
    return &shard->purses.list[set * PURSES_WAYS];
}

static struct purse *find(const struct shard *shard, struct hash128 id)
{
    struct purse *set = set_of(shard, id);
    for (uint32_t i = 0; i < PURSES_WAYS; i++)
        if (set[i].known && hash128_equal(set[i].id, id))
            return &set[i];
    return NULL;
}

/* A purse for the key, in the place of the one that nobody has asked for longest; NULL: all are
 * busy. */
static struct purse *make(const struct shard *shard, const struct forward *forward)
{
    struct purse *set = set_of(shard, forward->ids[0]);
    struct purse *best = NULL;
    for (uint32_t i = 0; i < PURSES_WAYS; i++)
        if (!is_busy(&set[i]) && (best == NULL || set[i].seen_ns < best->seen_ns))
            best = &set[i];
    if (best == NULL)
        return NULL;
    *best = (struct purse){.known = true, .id = forward->ids[0], .since_ns = shard->now_ns};
    best->forward = *forward;
    return best;
}

/* What can be taken now (U2). */
static uint64_t left_in(const struct shard *shard, const struct purse *purse)
{
    return purse->lease != 0 && shard->now_ns < purse->until_ns ? purse->granted - purse->used : 0;
}

/* Counts those that have something under way, after one may have changed. */
static void note_busy(struct shard *shard, const struct purse *purse, bool was_busy)
{
    struct purses *purses = &shard->purses;
    if (purses->busy == 0 && is_busy(purse))
        purses->next_ns = shard->now_ns + PURSES_STEP_NS;
    purses->busy = purses->busy + is_busy(purse) - was_busy;
}

static void note_demand(const struct shard *shard, struct purse *purse,
                        const struct forward *forward)
{
    if (purse->lease == 0 && shard->now_ns - purse->since_ns > LIMIT_LEASE_NS) {
        purse->since_ns = shard->now_ns;
        purse->asked = 0;
        purse->checks = 0;
    }
    purse->forward = *forward; /* limits may have changed with the rules */
    purse->seen_ns = shard->now_ns;
    purse->asked = sat_addu(purse->asked, forward->cost);
    purse->checks += purse->checks < UINT32_MAX;
}

/* ---- leases ---------------------------------------------------------------------------------- */

/* Sends what is about a lease, as the key is asked for. False: there is no room. */
static bool send(struct shard *shard, const struct purse *purse, struct forward *forward,
                 uint16_t caller, struct effects *effects)
{
    if (shard->parts.used >= SHARD_UNDO_PARTS_MAX)
        return false;
    forward->retry = (struct retry_key){shard->purses.session, shard->purses.seq, 0, 0};
    forward->vnode = purse->forward.vnode;
    forward->limit_count = purse->forward.limit_count;
    memcpy(forward->ids, purse->forward.ids, sizeof forward->ids);
    memcpy(forward->limits, purse->forward.limits, sizeof forward->limits);
    const uint32_t index = parts_new(shard, forward, shard->now_ns + PURSES_PATIENCE_NS);
    if (index == POOL_NONE)
        return false;
    parts_at(shard, index)->purse = caller;
    parts_dispatch(shard, index, effects);
    return true;
}

/* U3 */
static void release(struct shard *shard, const struct purse *purse, uint64_t lease, uint64_t used,
                    struct effects *effects)
{
    struct forward forward = {.operation = OPERATION_RELEASE, .flags = FORWARD_HOLD};
    forward.cost = lease;
    forward.used = used;
    shard->purses.seq++;
    (void)send(shard, purse, &forward, PURSE_RETURN, effects); /* else it ends by itself: spent */
}

/* Nothing is taken of the lease any more. What was not used goes back. */
static void end_lease(struct shard *shard, struct purse *purse, struct effects *effects)
{
    const uint64_t lease = purse->lease;
    purse->lease = 0;
    if (shard->now_ns < purse->until_ns) /* else it is spent */
        release(shard, purse, lease, purse->used, effects);
}

/* What the key is going to be asked for while a lease lasts, as far as the last moments tell. */
static uint64_t demand_of(const struct shard *shard, const struct purse *purse)
{
    int64_t span_ns = shard->now_ns - purse->since_ns;
    span_ns = span_ns < PURSES_SPAN_NS ? PURSES_SPAN_NS : span_ns;
    const uint64_t demand = sat_muldiv_up(purse->asked, LIMIT_LEASE_NS, (uint64_t)span_ns);
    return demand < LIMIT_COUNT_MAX ? demand : LIMIT_COUNT_MAX;
}

static void ask(struct shard *shard, struct purse *purse, struct effects *effects)
{
    if (purse->asking != 0 || shard->now_ns < purse->rest_ns || shard->resigning)
        return;
    const bool was_busy = is_busy(purse);
    struct forward forward = {.operation = OPERATION_LEASE,
                              .flags = FORWARD_HOLD | FORWARD_AT_MOST,
                              .cost = demand_of(shard, purse)};
    const struct retry_key key = {shard->purses.session, ++shard->purses.seq, 0, 0};
    purse->asking = decide_lease_of(shard, &key);
    purse->asking_ns = shard->now_ns;
    purse->rest_ns = shard->now_ns + PURSES_STEP_NS;
    note_busy(shard, purse, was_busy);
    /* It may be answered within the call. */
    if (send(shard, purse, &forward, (uint16_t)(1 + (purse - shard->purses.list)), effects))
        return;
    purse->asking = 0;
    note_busy(shard, purse, true);
}

/* The decider's answer to `ask`. */
static void receive(struct shard *shard, struct purse *purse, const struct answer *answer,
                    struct effects *effects)
{
    const uint64_t lease = purse->asking;
    const int64_t told_ns = answer->delay_ns;
    const int64_t until_ns = purse->asking_ns + told_ns - told_ns / 64 - MS; /* U2 */
    const bool granted = answer->status == ANSWER_DECIDED && answer->allowed && answer->granted > 0;
    purse->asking = 0;
    if (granted && shard->now_ns < until_ns && !shard->resigning) {
        if (purse->lease != 0)
            end_lease(shard, purse, effects);
        purse->lease = lease;
        purse->granted = answer->granted;
        purse->used = 0;
        purse->until_ns = until_ns;
        purse->half_ns = purse->asking_ns + told_ns / 2;
        purse->limit = answer->limit;
        purse->limit_index = answer->limit_index;
        purse->full_ns = sat_add(shard->now_ns, answer->reset_after_ns);
        purse->since_ns = shard->now_ns;
        purse->asked = purse->checks = 0;
        purse->denied_until_ns = 0;
        shard->stats.any_leases++;
        shard->stats.any_tokens += answer->granted;
        return;
    }
    /* It may be out though the answer did not come, or came too late. */
    if (granted || answer->status == ANSWER_UNAVAILABLE)
        release(shard, purse, lease, 0, effects);
    int64_t rest_ns = PURSES_REST_NS;
    if (answer->status == ANSWER_DECIDED && answer->retry_after_ns >= 0 &&
        answer->retry_after_ns < rest_ns) /* there was nothing left */
        rest_ns = answer->retry_after_ns;
    purse->rest_ns = shard->now_ns + (rest_ns > PURSES_STEP_NS ? rest_ns : PURSES_STEP_NS);
}

void purses_answered(struct shard *shard, uint32_t part, struct effects *effects)
{
    const struct part *answered = parts_at(shard, part);
    const struct answer answer = answered->answer;
    if (answered->purse == PURSE_RETURN) {
        if (answer.status == ANSWER_DECIDED)
            shard->stats.any_back += answer.granted;
        return;
    }
    ASSERT(answered->purse > 0 && answered->purse <= PURSES_MAX);
    struct purse *purse = &shard->purses.list[answered->purse - 1];
    ASSERT(purse->asking != 0 && purse->asking == decide_lease(shard, &answered->forward));
    receive(shard, purse, &answer, effects);
    note_busy(shard, purse, true);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* U4 */
static bool recall(struct shard *shard, const struct purse *purse, const struct forward *forward,
                   struct answer *answer)
{
    struct retry_memory_entry memory;
    if (!retry_look(&shard->retries, &forward->retry, shard->now_ns, &memory))
        return false;
    answer->allowed = memory.allowed;
    answer->granted = memory.granted;
    answer->limit_index = memory.limit_index < forward->limit_count ? memory.limit_index : 0;
    answer->retry_after_ns = memory.allowed ? 0 : PURSES_DENIAL_NS;
    answer->limit = purse != NULL ? purse->limit : forward->limits[answer->limit_index].count;
    answer->remaining = memory.allowed && purse != NULL ? left_in(shard, purse) : 0;
    answer->used = sat_subu(answer->limit, answer->remaining);
    shard->stats.retries_recalled++;
    return true;
}

/* Admits the check with tokens of the purse, if there are enough. */
static bool take(struct shard *shard, struct purse *purse, const struct forward *forward,
                 struct answer *answer)
{
    const uint64_t left = left_in(shard, purse);
    if (left == 0 || forward->cost > left)
        return false;
    purse->used += forward->cost;
    answer->allowed = true;
    answer->granted = forward->cost;
    answer->limit_index = purse->limit_index < forward->limit_count ? purse->limit_index : 0;
    answer->limit = purse->limit;
    answer->remaining = left - forward->cost;
    answer->used = sat_subu(answer->limit, answer->remaining);
    answer->reset_after_ns = purse->full_ns > shard->now_ns ? purse->full_ns - shard->now_ns : 0;
    shard->stats.any_allowed++;
    shard->stats.allowed++;
    return true;
}

/* The least that the check is content with. */
static uint64_t least_of(const struct forward *forward)
{
    const bool at_most = (forward->flags & FORWARD_AT_MOST) != 0;
    return at_most && forward->cost > 0 ? 1 : forward->cost;
}

/* U6 */
static bool deny(struct shard *shard, const struct purse *purse, const struct forward *forward,
                 struct answer *answer)
{
    if (shard->now_ns >= purse->denied_until_ns || least_of(forward) < purse->denied_cost)
        return false;
    *answer = purse->denial;
    if (answer->retry_after_ns > 0)
        answer->retry_after_ns = purse->denied_retry_ns - shard->now_ns;
    shard->stats.any_denied++;
    shard->stats.denied++;
    return true;
}

bool purses_decide(struct shard *shard, const struct forward *forward, struct answer *answer,
                   struct effects *effects)
{
    uint16_t at;
    struct purse *purse = find(shard, forward->ids[0]);
    if (purse != NULL && decide_gives_back(forward))
        purse->denied_until_ns = 0;
    if (forward->operation != OPERATION_CHECK || (forward->flags & FORWARD_EXPLAIN) != 0)
        return false;
    *answer = (struct answer){.status = ANSWER_DECIDED};
    if ((forward->flags & FORWARD_RETRY) != 0)
        return recall(shard, purse, forward, answer);
    if (vnodes_route(shard, forward->vnode, &at) == ROUTE_HERE)
        return false;
    if (purse == NULL)
        purse = make(shard, forward);
    if (purse == NULL)
        return false;
    note_demand(shard, purse, forward);
    const bool decided = take(shard, purse, forward, answer) || deny(shard, purse, forward, answer);
    if (decided) {
        shard->stats.checks++;
        (void)retry_remember(&shard->retries, &forward->retry, 0, answer->allowed,
                             answer->limit_index, answer->granted, shard->now_ns);
    }
    const bool wanted = purse->lease == 0 ? !decided && purse->checks >= PURSES_HOT
                                          : 2 * left_in(shard, purse) <= purse->granted;
    if (wanted)
        ask(shard, purse, effects);
    return decided;
}

void purses_told(struct shard *shard, const struct part *part)
{
    const struct forward *forward = &part->forward;
    const struct answer *answer = &part->answer;
    const bool denied = answer->status == ANSWER_DECIDED && !answer->allowed;
    if (!denied || part->stood_in || forward->operation != OPERATION_CHECK ||
        (forward->flags & FORWARD_SEVERAL) != 0)
        return;
    struct purse *purse = find(shard, forward->ids[0]);
    if (purse == NULL)
        return;
    const bool never = answer->retry_after_ns < 0;
    const int64_t for_ns = never || answer->retry_after_ns > PURSES_DENIAL_NS
                               ? PURSES_DENIAL_NS
                               : answer->retry_after_ns;
    purse->denial = *answer;
    purse->denied_until_ns = shard->now_ns + for_ns;
    purse->denied_retry_ns = sat_add(shard->now_ns, answer->retry_after_ns);
    purse->denied_cost = least_of(forward);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void tick(struct shard *shard, struct purse *purse, struct effects *effects)
{
    if (purse->lease == 0 || shard->now_ns < purse->half_ns)
        return;
    const bool late = shard->now_ns >= purse->until_ns - PURSES_LATE_NS;
    if (!late && (purse->checks > 0 || purse->asking != 0)) {
        ask(shard, purse, effects);
        return;
    }
    end_lease(shard, purse, effects);
    note_busy(shard, purse, true);
}

void purses_tick(struct shard *shard, struct effects *effects)
{
    struct purses *purses = &shard->purses;
    if (purses->busy == 0 || shard->now_ns < purses->next_ns)
        return;
    purses->next_ns = shard->now_ns + PURSES_STEP_NS;
    for (uint32_t i = 0; i < PURSES_MAX; i++)
        if (is_busy(&purses->list[i]))
            tick(shard, &purses->list[i], effects);
}

void purses_close(struct shard *shard, struct effects *effects)
{
    for (uint32_t i = 0; i < PURSES_MAX && shard->purses.busy > 0; i++) {
        struct purse *purse = &shard->purses.list[i];
        if (purse->lease == 0)
            continue;
        end_lease(shard, purse, effects);
        note_busy(shard, purse, true);
    }
}

void purses_check_invariants(const struct shard *shard)
{
    uint32_t busy = 0;
    for (uint32_t i = 0; i < PURSES_MAX; i++) {
        const struct purse *purse = &shard->purses.list[i];
        busy += is_busy(purse);
        ASSERT(purse->used <= purse->granted);
        ASSERT(!is_busy(purse) || find(shard, purse->id) == purse);
    }
    ASSERT(busy == shard->purses.busy);
}
