/* lessee.c - consistency `any`: a node decides on tokens that it holds, without asking.
 *
 * A shard that is asked for a key is a holder of its tokens, as a client
 * may be (node/limit/algorithms/leased.c): it has a lease of the key's leader, and admits checks
 * with that, by itself. The lease lasts a second; when half of its tokens or of its time is gone,
 * the next is asked for beside what is decided, as large as what was asked for lately, and what is
 * left of the old one goes back. So no check waits for another node while the tokens last.
 *
 *     check --> tokens left? --yes--> allowed here
 *                  | no
 *               denied lately? --yes--> denied here
 *                  | no
 *               leader: a check that is told when a majority knows it; out of reach: on_failure
 *
 *     first check: none     second within a second: LEASE     half gone: LEASE, then RELEASE
 *     |--|------------------|-----[ tokens ]------------------[ tokens ]-------- ...
 *                                                   nothing asked for since: RELEASE alone
 *
 * LESSEE-1   What is admitted here was taken out of the limit before, and counts in it until the
 *            lease has ended for the leader: a release states what was used; expired is spent. So
 *            all nodes together admit what the limit allows, whoever dies and however the network
 *            splits.
 * LESSEE-2   Nothing is taken of a lease after its end as this node must reckon it: from before it
 *            was asked for, less a 64th and a millisecond, for clocks are not alike (PROTOCOL.md).
 * LESSEE-3   A lease is released once, and nothing is taken of it after that.
 * LESSEE-4   A repeated check gets the answer that this shard gave it first (retry.h), or the
 *            leader (firsts.h). What this shard admitted by tokens may, repeated through another
 *            node, be charged twice, and is then admitted by the tokens of that one.
 * LESSEE-5   LESSEE_MAX keys; a key that finds no room, or is asked for less than LESSEE_HOT times
 *            a second, is asked of its leader: to take tokens for one check would take them from
 *            others.
 * LESSEE-6   A denial is believed until it can change by itself, LESSEE_DENIAL_NS at most: others
 *            may give back meanwhile. A refund or reset through this shard ends that belief, and
 *            gives back what is held: of what was admitted here the leader hears with the release,
 *            ahead of it, and can give back only what it has counted.
 * LESSEE-11  The key's leader is a holder as well, and has its tokens of itself: what it admitted
 *            at once and by its own count would be forgotten if it died before its replicas knew.
 *            So no check is admitted but by tokens that a majority knows to be gone, or it waits
 *            until a majority knows it (LESSOR-6). A leader that is alone by plan, or without a
 *            majority, just decides.
 *
 * Of a rule with scope `global` whose home is another region (remote_regions.c) the leader of the
 * key in this region is the holder, and the home's leader who is asked. That is far away, so a
 * check is decided there only if it finds no room for its key here: the first one asks for a lease,
 * and waits for it; a lease is for as long as the way there and back needs a few times (ahead_ns),
 * and the next is asked for before it could run out; and when an answer gave less than was asked
 * for, what finds no tokens is denied at once, as the limit is being used up. Each ask says how
 * many tokens a second callers want here: what is not enough for all is dealt out by that
 * (allocation.c). LESSEE-1 to LESSEE-3 hold as they are.
 *
 * LESSEE-7   A key whose home has changed is asked for at the new one alone; what is held of the
 *            old one goes back there, and what comes of it late is released unused.
 * LESSEE-8   A check of several rules is undone exactly while the lease lasts that it took from. Of
 *            one that has ended its use was told already, and stays.
 * LESSEE-9   No tokens are asked for that can be of no use: a check counts as a demand for what its
 *            limits can ever give, and for none if it is content with no less than more.
 * LESSEE-12  A lease is held of a key that is found by its id, and busy are as many as are counted.
 * LESSEE-10  Only the first checks of a key wait for its home, and those for more than a lease is:
 *            where tokens are held, and have run out before the next ones came, a check is denied
 *            at once, and told when these are due.
 */
#include "node/cluster/lease/lessee.h"
#include "node/cluster/dedup/lease_id.h"
#include "node/cluster/partition/vnodes.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/shard_state.h"

int lessee_init(struct shard *shard)
{
    struct lessee *lessee = &shard->lessee;
    uint8_t bytes[20];
    struct bytes_writer writer;
    bytes_writer_init(&writer, bytes, sizeof bytes);
    bytes_put_u64(&writer, shard->options.node_id);
    bytes_put_u64(&writer, shard->options.boot);
    bytes_put_u32(&writer, shard->options.shard);
    lessee->session = hash64(&shard->options.secret, bytes, writer.len);
    lessee->list = alloc_get(shard->allocator, LESSEE_MAX * sizeof *lessee->list);
    return lessee->list != NULL ? 0 : TG_ENOMEM;
}

void lessee_fini(struct shard *shard)
{
    alloc_put(shard->allocator, shard->lessee.list, LESSEE_MAX * sizeof *shard->lessee.list);
}

/* ---- lessee ---------------------------------------------------------------------------------- */

static bool is_busy(const struct lease_cache *cache)
{
    return cache->lease != 0 || cache->asking != 0;
}

static struct lease_cache *set_of(const struct shard *shard, struct hash128 id)
{
    const uint64_t set = hash_mix64(id.lo ^ id.hi) % (LESSEE_MAX / LESSEE_WAYS);
    return &shard->lessee.list[set * LESSEE_WAYS];
}

static struct lease_cache *find(const struct shard *shard, struct hash128 id)
{
    struct lease_cache *set = set_of(shard, id);
    for (uint32_t i = 0; i < LESSEE_WAYS; i++)
        if (set[i].known && hash128_equal(set[i].id, id))
            return &set[i];
    return NULL;
}

/* A lease cache for the key, in the place of the one that nobody has asked for longest; NULL: all
 * are busy. */
static struct lease_cache *make(const struct shard *shard, const struct forward *forward)
{
    struct lease_cache *set = set_of(shard, forward->ids[0]);
    struct lease_cache *best = NULL;
    for (uint32_t i = 0; i < LESSEE_WAYS; i++)
        if (!is_busy(&set[i]) && (best == NULL || set[i].seen_ns < best->seen_ns))
            best = &set[i];
    if (best == NULL)
        return NULL;
    *best = (struct lease_cache){.known = true, .id = forward->ids[0], .since_ns = shard->now_ns};
    best->forward = *forward;
    return best;
}

/* What can be taken now (LESSEE-2). */
static uint64_t left_in(const struct shard *shard, const struct lease_cache *cache)
{
    return cache->lease != 0 && shard->now_ns < cache->until_ns ? cache->granted - cache->used : 0;
}

/* Counts those that have something under way, after one may have changed. */
static void note_busy(struct shard *shard, const struct lease_cache *cache, bool was_busy)
{
    struct lessee *lessee = &shard->lessee;
    ASSERT(lessee->busy + is_busy(cache) >= was_busy && lessee->busy <= LESSEE_MAX);
    if (lessee->busy == 0 && is_busy(cache))
        lessee->next_ns = shard->now_ns + LESSEE_STEP_NS;
    lessee->busy = lessee->busy + is_busy(cache) - was_busy;
}

/* The least that the check is content with. */
static uint64_t least_of(const struct forward *forward)
{
    const bool at_most = (forward->flags & FORWARD_AT_MOST) != 0;
    return at_most && forward->cost > 0 ? 1 : forward->cost;
}

/* The most that its limits can ever give. */
static uint64_t most_of(const struct forward *forward)
{
    uint64_t most = LIMIT_COUNT_MAX;
    for (uint32_t i = 0; i < forward->limit_count; i++) {
        const uint64_t capacity = limit_capacity(&forward->limits[i]);
        most = capacity < most ? capacity : most;
    }
    return most;
}

static void note_demand(const struct shard *shard, struct lease_cache *cache,
                        const struct forward *forward, uint64_t most)
{
    if (cache->lease == 0 && shard->now_ns - cache->since_ns > LIMIT_LEASE_NS) {
        cache->since_ns = shard->now_ns;
        cache->asked = cache->asked_before = 0;
        cache->span_before_ns = 0;
        cache->checks = 0;
    }
    cache->forward = *forward; /* limits may have changed with the rules */
    cache->seen_ns = shard->now_ns;
    cache->asked = sat_addu(cache->asked, forward->cost < most ? forward->cost : most);
    cache->checks += cache->checks < UINT32_MAX;
}

/* ---- leases ---------------------------------------------------------------------------------- */

/* Sends what is about a lease, as the key is asked for. False: there is no room. */
static bool send(struct shard *shard, const struct lease_cache *cache, struct forward *forward,
                 uint16_t caller, struct effects *effects)
{
    if (shard->pending.used >= SHARD_UNDO_PENDING_MAX)
        return false;
    forward->retry = (struct retry_key){shard->lessee.session, shard->lessee.seq, 0, 0};
    forward->vnode = cache->forward.vnode;
    forward->home = cache->forward.home;
    forward->rules = cache->forward.rules;
    forward->limit_count = cache->forward.limit_count;
    memcpy(forward->ids, cache->forward.ids, sizeof forward->ids);
    memcpy(forward->limits, cache->forward.limits, sizeof forward->limits);
    const int64_t patience_ns = forward->home != 0 ? LESSEE_REMOTE_NS : LESSEE_TIMEOUT_NS;
    const uint32_t index = pending_new(shard, forward, shard->now_ns + patience_ns);
    if (index == POOL_NONE)
        return false;
    pending_at(shard, index)->cache = caller;
    route_pending_dispatch(shard, index, effects);
    return true;
}

/* LESSEE-3 */
static void release(struct shard *shard, const struct lease_cache *cache, uint64_t lease,
                    uint64_t used, struct effects *effects)
{
    struct forward forward = {.operation = OPERATION_RELEASE, .flags = FORWARD_HOLD};
    forward.cost = lease;
    forward.used = used;
    shard->lessee.seq++;
    (void)send(shard, cache, &forward, LEASE_CACHE_RETURN,
               effects); /* else it ends by itself: spent */
}

/* Nothing is taken of the lease any more. What was not used goes back. */
static void end_lease(struct shard *shard, struct lease_cache *cache, struct effects *effects)
{
    const uint64_t lease = cache->lease;
    cache->lease = 0;
    if (shard->now_ns < cache->until_ns) /* else it is spent */
        release(shard, cache, lease, cache->used, effects);
}

static bool is_global(const struct lease_cache *cache)
{
    return cache->forward.home != 0;
}

/* For how long tokens are asked for. A lease of another region is replaced when half of it is gone,
 * so that half is to last until the next has come; it is no larger, for what is out is not for
 * others. */
static int64_t ahead_ns(const struct shard *shard, const struct lease_cache *cache)
{
    if (!is_global(cache))
        return LIMIT_LEASE_NS;
    const int64_t ahead_ns = 4 * remote_rtt_ns(shard, cache->forward.home);
    return ahead_ns < LESSEE_AHEAD_NS       ? LESSEE_AHEAD_NS
           : ahead_ns > LESSEE_AHEAD_MAX_NS ? LESSEE_AHEAD_MAX_NS
                                            : ahead_ns;
}

/* What the limits give in so long, a quarter of it, or a part of what they can give at once: the
 * least that is asked for, as demand may come from another region in a moment. */
static uint64_t guess_of(const struct lease_cache *cache, int64_t span_ns)
{
    uint64_t guess = LIMIT_COUNT_MAX;
    for (uint32_t i = 0; i < cache->forward.limit_count; i++) {
        const struct limit *limit = &cache->forward.limits[i];
        uint64_t gives = sat_muldiv(limit->count, (uint64_t)span_ns / 4, limit->window_ns);
        const uint64_t part =
            limit_capacity(limit) / (cache->granted == 0 ? LESSEE_FIRST : LESSEE_GUESS);
        gives = gives > part ? gives : part;
        guess = gives < guess ? gives : guess;
    }
    return guess;
}

/* What the key is going to be asked for within `lasts_ns`, as far as the last moments tell. */
static uint64_t demand_in(const struct shard *shard, const struct lease_cache *cache,
                          int64_t lasts_ns)
{
    const int64_t least_ns = is_global(cache) ? ahead_ns(shard, cache) / 8 : LESSEE_SPAN_NS;
    int64_t span_ns = shard->now_ns - cache->since_ns + cache->span_before_ns;
    span_ns = span_ns < least_ns ? least_ns : span_ns;
    const uint64_t asked = sat_addu(cache->asked, cache->asked_before);
    uint64_t demand = sat_muldiv_up(asked, (uint64_t)lasts_ns, (uint64_t)span_ns);
    if (is_global(cache) && cache->lease == 0 && cache->checks < LESSEE_HOT)
        demand = asked;
    demand = demand > 0 ? demand : 1;
    return demand < LIMIT_COUNT_MAX ? demand : LIMIT_COUNT_MAX;
}

/* How many tokens are asked for. */
static uint64_t demand_of(const struct shard *shard, const struct lease_cache *cache)
{
    const int64_t lasts_ns = ahead_ns(shard, cache);
    const uint64_t demand = demand_in(shard, cache, lasts_ns);
    const uint64_t guess = is_global(cache) ? guess_of(cache, lasts_ns) : 0;
    return guess > demand ? guess : demand;
}

/* How many a second callers ask for: what is not enough for all is dealt out by that
 * (allocation.c). */
static uint64_t rate_of(const struct shard *shard, const struct lease_cache *cache)
{
    const int64_t lasts_ns = ahead_ns(shard, cache);
    return sat_muldiv_up(demand_in(shard, cache, lasts_ns), 1000 * MS, (uint64_t)lasts_ns);
}

static void ask(struct shard *shard, struct lease_cache *cache, struct effects *effects)
{
    if (cache->asking != 0 || shard->now_ns < cache->rest_ns || shard->resigning ||
        (is_global(cache) && remote_lost(shard, cache->forward.home)))
        return;
    const bool was_busy = is_busy(cache);
    struct forward forward = {.operation = OPERATION_LEASE,
                              .flags = FORWARD_HOLD | FORWARD_AT_MOST,
                              .cost = demand_of(shard, cache),
                              .used = is_global(cache) ? rate_of(shard, cache) : 0};
    if (cache->exact || (cache->need > 1 && cache->lease == 0 && cache->need >= forward.cost)) {
        cache->exact = true;
        forward.flags = FORWARD_HOLD;
        forward.cost = cache->need;
    }
    ASSERT(forward.cost > 0); /* LESSEE-9 */
    cache->asked_for = forward.cost;
    const struct retry_key key = {shard->lessee.session, ++shard->lessee.seq, 0, 0};
    cache->asking = decide_lease_of(shard, &key);
    cache->asking_ns = shard->now_ns;
    cache->rest_ns = shard->now_ns + LESSEE_STEP_NS;
    note_busy(shard, cache, was_busy);
    /* It may be answered within the call. */
    if (send(shard, cache, &forward, (uint16_t)(1 + (cache - shard->lessee.list)), effects))
        return;
    cache->asking = 0;
    note_busy(shard, cache, true);
}

/* What a lease of another region tells of the key: whether more is to be had now. It is believed as
 * long as a lease lasts, and told anew with each. */
static void learn(struct shard *shard, struct lease_cache *cache, const struct answer *answer,
                  struct effects *effects)
{
    const bool exact = cache->exact;
    const uint64_t got = answer->allowed ? answer->granted : 0;
    cache->exact = false;
    cache->denied_until_ns = 0;
    if (got < cache->need && got > 0 && !exact) { /* what was got is part of what is left */
        cache->exact = true;
        cache->rest_ns = 0;
        end_lease(shard, cache, effects);
        cache->granted = cache->used = 0;
        return;
    }
    if (got == 0 || (got < cache->asked_for && cache->asked_for > LESSEE_SMALL)) {
        cache->denied_cost = exact ? cache->need : 1;
        cache->denied_until_ns = shard->now_ns + LIMIT_LEASE_NS;
        cache->denied_retry_ns =
            answer->retry_after_ns < 0 ? INT64_MAX : sat_add(shard->now_ns, answer->retry_after_ns);
        cache->denial = (struct answer){.status = ANSWER_DECIDED,
                                        .limit_index = answer->limit_index,
                                        .limit = answer->limit,
                                        .used = answer->limit,
                                        .reset_after_ns = answer->reset_after_ns,
                                        .retry_after_ns = answer->retry_after_ns};
    }
    cache->need = 0;
}

/* The leader's answer to `ask`. */
static void receive(struct shard *shard, struct lease_cache *cache, const struct answer *answer,
                    struct effects *effects)
{
    const uint64_t lease = cache->asking;
    const int64_t told_ns = answer->delay_ns;
    const int64_t until_ns = cache->asking_ns + told_ns - told_ns / 64 - MS; /* LESSEE-2 */
    const bool granted = answer->status == ANSWER_DECIDED && answer->allowed && answer->granted > 0;
    cache->asking = 0;
    if (granted && shard->now_ns < until_ns && !shard->resigning) {
        if (cache->lease != 0)
            end_lease(shard, cache, effects);
        cache->lease = lease;
        cache->granted = answer->granted;
        cache->used = 0;
        cache->until_ns = until_ns;
        cache->half_ns = cache->asking_ns + told_ns / 2;
        cache->limit = answer->limit;
        cache->limit_index = answer->limit_index;
        cache->full_ns = sat_add(shard->now_ns, answer->reset_after_ns);
        if (is_global(cache)) {
            cache->asked_before = cache->asked;
            cache->span_before_ns = shard->now_ns - cache->since_ns;
        }
        cache->since_ns = shard->now_ns;
        cache->asked = cache->checks = 0;
        cache->denied_until_ns = 0;
        if (is_global(cache)) {
            learn(shard, cache, answer, effects);
            shard->stats.global_leases++;
            shard->stats.global_tokens += answer->granted;
        } else {
            shard->stats.any_leases++;
            shard->stats.any_tokens += answer->granted;
        }
        return;
    }
    /* It may be out though the answer did not come, or came too late. */
    if (granted || answer->status == ANSWER_UNAVAILABLE)
        release(shard, cache, lease, 0, effects);
    int64_t rest_ns = LESSEE_REST_NS;
    if (answer->status == ANSWER_DECIDED && answer->retry_after_ns >= 0 &&
        answer->retry_after_ns < rest_ns) /* there was nothing left */
        rest_ns = answer->retry_after_ns;
    cache->rest_ns = shard->now_ns + (rest_ns > LESSEE_STEP_NS ? rest_ns : LESSEE_STEP_NS);
    if (is_global(cache) && answer->status == ANSWER_DECIDED)
        learn(shard, cache, answer, effects);
}

void lessee_answered(struct shard *shard, uint32_t part, struct effects *effects)
{
    const struct pending_check *answered = pending_at(shard, part);
    const struct answer answer = answered->answer;
    const bool global = answered->forward.home != 0;
    if (answered->cache == LEASE_CACHE_RETURN) {
        if (answer.status == ANSWER_DECIDED && global)
            shard->stats.global_back += answer.granted;
        else if (answer.status == ANSWER_DECIDED)
            shard->stats.any_back += answer.granted;
        return;
    }
    ASSERT(answered->cache > 0 && answered->cache <= LESSEE_MAX);
    struct lease_cache *cache = &shard->lessee.list[answered->cache - 1];
    ASSERT(cache->asking != 0 && cache->asking == decide_lease(shard, &answered->forward));
    if (answered->forward.home != cache->forward.home) { /* LESSEE-7: it is of a home that was */
        cache->asking = 0;
        if (answer.status != ANSWER_DECIDED || answer.granted > 0)
            release(shard, &(struct lease_cache){.forward = answered->forward},
                    decide_lease(shard, &answered->forward), 0, effects);
    } else {
        receive(shard, cache, &answer, effects);
    }
    shard->reroute_due = shard->reroute_due || global; /* checks wait for it */
    note_busy(shard, cache, true);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void fill_recalled(struct shard *shard, const struct lease_cache *cache,
                          const struct forward *forward, const struct retry_memory_entry *memory,
                          struct answer *answer)
{
    answer->allowed = memory->allowed;
    answer->granted = memory->granted;
    answer->limit_index = memory->limit_index < forward->limit_count ? memory->limit_index : 0;
    answer->retry_after_ns = memory->allowed ? 0 : LESSEE_DENIAL_NS;
    answer->limit = cache != NULL ? cache->limit : forward->limits[answer->limit_index].count;
    answer->remaining = memory->allowed && cache != NULL ? left_in(shard, cache) : 0;
    answer->used = sat_subu(answer->limit, answer->remaining);
    shard->stats.retries_recalled++;
}

/* LESSEE-4 */
static bool recall(struct shard *shard, const struct lease_cache *cache,
                   const struct forward *forward, struct answer *answer)
{
    struct retry_memory_entry memory;
    if (!retry_look(&shard->retries, &forward->retry, shard->now_ns, &memory))
        return false;
    fill_recalled(shard, cache, forward, &memory, answer);
    return true;
}

/* Admits the check with tokens of the lease cache, if there are enough. */
static bool take(struct shard *shard, struct lease_cache *cache, const struct forward *forward,
                 struct answer *answer)
{
    const uint64_t left = left_in(shard, cache);
    if (left == 0 || forward->cost > left)
        return false;
    cache->used += forward->cost;
    answer->allowed = true;
    answer->granted = forward->cost;
    answer->limit_index = cache->limit_index < forward->limit_count ? cache->limit_index : 0;
    answer->limit = cache->limit;
    answer->remaining = left - forward->cost;
    answer->used = sat_subu(answer->limit, answer->remaining);
    answer->reset_after_ns = cache->full_ns > shard->now_ns ? cache->full_ns - shard->now_ns : 0;
    shard->stats.any_allowed += !is_global(cache);
    shard->stats.global_allowed += is_global(cache);
    shard->stats.allowed++;
    return true;
}

/* LESSEE-6 */
static bool deny(struct shard *shard, const struct lease_cache *cache,
                 const struct forward *forward, struct answer *answer)
{
    if (shard->now_ns >= cache->denied_until_ns || least_of(forward) < cache->denied_cost)
        return false;
    *answer = cache->denial;
    if (answer->retry_after_ns >= 0 && is_global(cache)) {
        const int64_t left_ns = cache->denied_retry_ns - shard->now_ns;
        answer->retry_after_ns = left_ns > LESSEE_STEP_NS ? left_ns : LESSEE_STEP_NS;
    } else if (answer->retry_after_ns > 0) {
        answer->retry_after_ns = cache->denied_retry_ns - shard->now_ns;
    }
    shard->stats.any_denied += !is_global(cache);
    shard->stats.global_denied += is_global(cache);
    shard->stats.denied++;
    return true;
}

/* LESSEE-6: something is to be given back. */
static void give_back(struct shard *shard, struct lease_cache *cache, struct effects *effects)
{
    cache->denied_until_ns = 0;
    if (cache->lease == 0 || cache->used == 0)
        return;
    end_lease(shard, cache, effects);
    note_busy(shard, cache, true);
}

bool lessee_decide(struct shard *shard, const struct forward *forward, struct answer *answer,
                   struct effects *effects)
{
    uint16_t at;
    struct lease_cache *cache = find(shard, forward->ids[0]);
    if (cache != NULL && decide_gives_back(forward))
        give_back(shard, cache, effects);
    if (forward->operation != OPERATION_CHECK || (forward->flags & FORWARD_EXPLAIN) != 0)
        return false;
    *answer = (struct answer){.status = ANSWER_DECIDED};
    if ((forward->flags & FORWARD_RETRY) != 0)
        return recall(shard, cache, forward, answer);
    if (vnodes_route(shard, forward->vnode, &at) == ROUTE_HERE && !lessor_sure(shard, forward))
        return false; /* LESSEE-11 */
    if (cache == NULL)
        cache = make(shard, forward);
    if (cache == NULL)
        return false;
    const uint64_t most = most_of(forward);
    if (least_of(forward) <= most) /* LESSEE-9 */
        note_demand(shard, cache, forward, most);
    const bool decided = take(shard, cache, forward, answer) || deny(shard, cache, forward, answer);
    if (decided) {
        shard->stats.checks++;
        (void)retry_remember(&shard->retries, &forward->retry, 0, answer->allowed,
                             answer->limit_index, answer->granted, shard->now_ns);
    }
    const bool wanted = cache->lease == 0 ? !decided && cache->checks >= LESSEE_HOT
                                          : 2 * left_in(shard, cache) <= cache->granted;
    if (wanted)
        ask(shard, cache, effects);
    return decided;
}

/* ---- checks of scope global ------------------------------------------------------------------ */

/* Under which key a charge of the lease cache's lease is remembered, to be undone while that lasts.
 */
static struct retry_key charge_key(const struct retry_key *key, uint64_t lease)
{
    struct retry_key out = *key;
    out.session ^= hash_mix64(lease);
    return out;
}

static bool is_several(const struct forward *forward)
{
    return (forward->flags & FORWARD_SEVERAL) != 0;
}

/* Under which key the answer to the forward is remembered. */
static struct retry_key key_of(const struct forward *forward)
{
    return is_several(forward) ? reserve_key(&forward->retry, forward->ids[0]) : forward->retry;
}

static struct retry_memory *memory_of(struct shard *shard, const struct forward *forward)
{
    return is_several(forward) ? &shard->reserves.answers : &shard->retries;
}

/* LESSEE-4: the first answer, to the attempt as well; what was charged for it is the attempt's too
 * (RETRY-2). */
static bool recall_global(struct shard *shard, const struct lease_cache *cache,
                          const struct forward *forward, const struct retry_key *key,
                          uint16_t attempt, struct answer *answer)
{
    struct retry_memory *memory = memory_of(shard, forward);
    struct retry_memory_entry entry;
    struct retry_memory_entry charged;
    if (!retry_recall(memory, key, attempt, shard->now_ns, &entry))
        return false;
    if (is_several(forward) && cache != NULL) {
        const struct retry_key charge = charge_key(key, cache->lease);
        (void)retry_recall(memory, &charge, attempt, shard->now_ns, &charged);
    }
    fill_recalled(shard, cache, forward, &entry, answer);
    return true;
}

static void remember_global(struct shard *shard, const struct forward *forward,
                            const struct retry_key *key, uint16_t attempt,
                            const struct answer *answer)
{
    (void)retry_remember(memory_of(shard, forward), key, attempt, answer->allowed,
                         answer->limit_index, answer->granted, shard->now_ns);
}

/* LESSEE-8: what was taken of the lease cache's lease, which may have to be undone. */
static void remember_charge(struct shard *shard, const struct lease_cache *cache,
                            const struct forward *forward, const struct retry_key *key,
                            uint16_t attempt, const struct answer *answer)
{
    if (!is_several(forward) || !answer->allowed || answer->granted == 0)
        return;
    const struct retry_key charge = charge_key(key, cache->lease);
    (void)retry_remember(memory_of(shard, forward), &charge, attempt, true, 0, answer->granted,
                         shard->now_ns);
}

/* LESSEE-7: what is held of another home goes back there. */
static void move_home(struct shard *shard, struct lease_cache *cache, const struct forward *forward,
                      struct effects *effects)
{
    if (cache->forward.home == forward->home)
        return;
    if (cache->lease != 0) {
        end_lease(shard, cache, effects);
        note_busy(shard, cache, true);
    }
    cache->forward = *forward;
    cache->granted = cache->used = 0;
    cache->denied_until_ns = 0;
    cache->need = 0;
    cache->exact = false;
}

static bool is_same(const struct retry_key *a, const struct retry_key *b)
{
    return a->session == b->session && a->seq == b->seq && a->item == b->item && a->part == b->part;
}

/* Admits what needs no tokens, or is content with those that are left. */
static bool take_some(struct shard *shard, struct lease_cache *cache, const struct forward *forward,
                      struct answer *answer)
{
    const uint64_t left = left_in(shard, cache);
    struct forward some = *forward;
    if (forward->cost == 0) {
        answer->allowed = true;
        answer->limit = cache->limit != 0 ? cache->limit : forward->limits[0].count;
        answer->remaining = left;
        answer->used = sat_subu(answer->limit, left);
        return true;
    }
    if ((forward->flags & FORWARD_AT_MOST) != 0 && left > 0 && left < forward->cost)
        some.cost = left;
    return take(shard, cache, &some, answer);
}

/* The check found too little: at least so much is to be asked for. */
static void note_need(struct lease_cache *cache, const struct forward *forward)
{
    const uint64_t least = least_of(forward);
    if (least > cache->need && least <= LIMIT_COUNT_MAX)
        cache->need = least;
}

/* Whether the next lease is to be asked for: half of this one is gone, or what is asked since it
 * came would use it up before that one is here for sure. */
static bool is_low(const struct shard *shard, const struct lease_cache *cache)
{
    const uint64_t left = left_in(shard, cache);
    const int64_t span_ns = shard->now_ns - cache->since_ns;
    const int64_t least_ns = ahead_ns(shard, cache) / 8;
    const int64_t until_ns = 2 * remote_rtt_ns(shard, cache->forward.home);
    return 2 * left <= cache->granted ||
           sat_muldiv(cache->asked, (uint64_t)until_ns,
                      (uint64_t)(span_ns > least_ns ? span_ns : least_ns)) >= left;
}

/* Whether tokens of the key were held here just now, and have run out: the next ones are on their
 * way, and no check waits for them (LESSEE-10). */
static bool is_late(const struct shard *shard, const struct lease_cache *cache,
                    const struct forward *forward)
{
    return cache->granted != 0 && shard->now_ns < cache->until_ns &&
           forward->cost <= cache->granted && !remote_lost(shard, forward->home);
}

static void deny_late(struct shard *shard, const struct lease_cache *cache,
                      const struct forward *forward, struct answer *answer)
{
    const int64_t since_ns = cache->asking != 0 ? cache->asking_ns : shard->now_ns;
    const int64_t due_ns = since_ns + remote_rtt_ns(shard, forward->home) - shard->now_ns;
    answer->limit_index = cache->limit_index < forward->limit_count ? cache->limit_index : 0;
    answer->limit = answer->used = cache->limit;
    answer->held = true;
    answer->retry_after_ns = due_ns > LESSEE_STEP_NS ? due_ns : LESSEE_STEP_NS;
    answer->reset_after_ns = cache->full_ns > shard->now_ns ? cache->full_ns - shard->now_ns : 0;
    shard->stats.global_denied++;
    shard->stats.global_late++;
    shard->stats.checks++;
    shard->stats.denied++;
}

enum lessee_verdict lessee_decide_global(struct shard *shard, const struct forward *forward,
                                         uint16_t attempt, bool waited, struct answer *answer,
                                         struct effects *effects)
{
    const struct retry_key key = key_of(forward);
    struct lease_cache *cache = find(shard, forward->ids[0]);
    const bool again = waited || (forward->flags & FORWARD_RETRY) != 0;
    *answer = (struct answer){.status = ANSWER_DECIDED};
    if (again && recall_global(shard, cache, forward, &key, attempt, answer))
        return LESSEE_DECIDED;
    if (cache == NULL)
        cache = make(shard, forward);
    if (cache == NULL)
        return LESSEE_FULL;
    move_home(shard, cache, forward, effects);
    const uint64_t most = most_of(forward);
    const bool seen = cache->seen_ns != 0 && is_same(&cache->forward.retry, &forward->retry);
    if (!again && !seen && least_of(forward) <= most) /* LESSEE-9 */
        note_demand(shard, cache, forward, most);
    const bool decided =
        take_some(shard, cache, forward, answer) || deny(shard, cache, forward, answer);
    if (decided) {
        shard->stats.checks++;
        remember_global(shard, forward, &key, attempt, answer);
        remember_charge(shard, cache, forward, &key, attempt, answer);
    }
    const bool late = !decided && !waited && is_late(shard, cache, forward);
    if (!decided && !late)
        note_need(cache, forward);
    if (!decided || !answer->allowed || (forward->cost > 0 && is_low(shard, cache)))
        ask(shard, cache, effects);
    if (late) {
        deny_late(shard, cache, forward, answer);
        remember_global(shard, forward, &key, attempt, answer);
    }
    if (decided || late)
        return LESSEE_DECIDED;
    answer->status = ANSWER_UNAVAILABLE;
    return remote_lost(shard, forward->home) ? LESSEE_DECIDED : LESSEE_WAIT;
}

void lessee_denied(struct shard *shard, const struct forward *forward, uint16_t attempt,
                   const struct answer *answer)
{
    const struct retry_key key = key_of(forward);
    remember_global(shard, forward, &key, attempt, answer);
}

void lessee_undo(struct shard *shard, const struct forward *forward, struct answer *answer)
{
    struct retry_memory *memory = &shard->reserves.answers;
    struct lease_cache *cache = find(shard, forward->ids[0]);
    struct retry_memory_entry entry;
    struct retry_key key = reserve_key(&forward->retry, forward->ids[0]);
    uint32_t at;
    key.part &= (uint8_t)~RETRY_UNDO;
    *answer = (struct answer){.status = ANSWER_DECIDED, .allowed = true};
    if (retry_held(memory, &key, forward->attempt, shard->now_ns, &entry, &at) == RETRY_HELD_NOT)
        reserve_call_off(&shard->reserves, &key, forward->attempt, shard->now_ns);
    retry_let_go(memory, &key, forward->attempt, forward->cost, shard->now_ns);
    if (cache == NULL || cache->lease == 0)
        return;
    const struct retry_key charge = charge_key(&key, cache->lease);
    if (retry_held(memory, &charge, forward->attempt, shard->now_ns, &entry, &at) ==
            RETRY_HELD_ALONE &&
        entry.granted > forward->cost) {
        const uint64_t back = entry.granted - forward->cost;
        answer->granted = back < cache->used ? back : cache->used; /* LESSEE-1, whoever told it */
        cache->used -= answer->granted;
    }
    retry_let_go(memory, &charge, forward->attempt, forward->cost, shard->now_ns);
}

void lessee_told(struct shard *shard, const struct pending_check *check)
{
    const struct forward *forward = &check->forward;
    const struct answer *answer = &check->answer;
    const bool denied = answer->status == ANSWER_DECIDED && !answer->allowed;
    if (!denied || check->at_fallback || forward->operation != OPERATION_CHECK ||
        (forward->flags & FORWARD_SEVERAL) != 0)
        return;
    struct lease_cache *cache = find(shard, forward->ids[0]);
    if (cache == NULL)
        return;
    const bool never = answer->retry_after_ns < 0;
    const int64_t for_ns = never || answer->retry_after_ns > LESSEE_DENIAL_NS
                               ? LESSEE_DENIAL_NS
                               : answer->retry_after_ns;
    cache->denial = *answer;
    cache->denied_until_ns = shard->now_ns + for_ns;
    cache->denied_retry_ns = sat_add(shard->now_ns, answer->retry_after_ns);
    cache->denied_cost = least_of(forward);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Whether a lease of another region is used up. It is told so before the next one comes: until then
 * the limit has less room there, and what was used does not begin to drain. (Not at once: what was
 * taken last may have to be undone, LESSEE-8.) */
static bool is_used_up(const struct lease_cache *cache)
{
    return is_global(cache) && cache->lease != 0 && cache->used == cache->granted;
}

static void tick(struct shard *shard, struct lease_cache *cache, struct effects *effects)
{
    if (is_used_up(cache)) {
        end_lease(shard, cache, effects);
        note_busy(shard, cache, true);
    }
    if (cache->lease == 0 || shard->now_ns < cache->half_ns)
        return;
    const bool late = shard->now_ns >= cache->until_ns - LESSEE_LATE_NS;
    if (!late && (cache->checks > 0 || cache->asking != 0)) {
        ask(shard, cache, effects);
        return;
    }
    end_lease(shard, cache, effects);
    cache->granted = cache->used = 0; /* whoever comes next is the first again: LESSEE-10 */
    note_busy(shard, cache, true);
}

void lessee_tick(struct shard *shard, struct effects *effects)
{
    struct lessee *lessee = &shard->lessee;
    if (lessee->busy == 0 || shard->now_ns < lessee->next_ns)
        return;
    lessee->next_ns = shard->now_ns + LESSEE_STEP_NS;
    for (uint32_t i = 0; i < LESSEE_MAX; i++)
        if (is_busy(&lessee->list[i]))
            tick(shard, &lessee->list[i], effects);
}

void lessee_close(struct shard *shard, struct effects *effects)
{
    for (uint32_t i = 0; i < LESSEE_MAX && shard->lessee.busy > 0; i++) {
        struct lease_cache *cache = &shard->lessee.list[i];
        if (cache->lease == 0)
            continue;
        end_lease(shard, cache, effects);
        note_busy(shard, cache, true);
    }
}

const struct lease_cache *lessee_look(const struct shard *shard, struct hash128 id)
{
    return find(shard, id);
}

static void note_held(struct shard_stats *out, uint64_t region, uint64_t tokens)
{
    uint32_t at = 0;
    while (at < out->holding_count && out->holding[at].region != region)
        at++;
    out->global_held = sat_addu(out->global_held, tokens);
    if (at == SHARD_HOLDINGS_MAX)
        return;
    if (at == out->holding_count)
        out->holding[out->holding_count++] = (struct shard_holding){.region = region};
    out->holding[at].tokens = sat_addu(out->holding[at].tokens, tokens);
    out->holding[at].keys++;
}

void lessee_stats(const struct shard *shard, struct shard_stats *out)
{
    out->global_held = 0;
    out->holding_count = 0;
    for (uint32_t i = 0; i < LESSEE_MAX && shard->lessee.busy > 0; i++) {
        const struct lease_cache *cache = &shard->lessee.list[i];
        const uint64_t left = is_busy(cache) && is_global(cache) ? left_in(shard, cache) : 0;
        if (left > 0)
            note_held(out, cache->forward.home, left);
    }
}

static void check_cache(const struct shard *shard, const struct lease_cache *cache)
{
    INVARIANT("LESSEE-1", cache->used <= cache->granted);
    INVARIANT("LESSEE-12", find(shard, cache->id) == cache);
    INVARIANT("LESSEE-3", cache->lease == 0 || cache->lease != cache->asking);
    INVARIANT("LESSEE-2", cache->lease == 0 || cache->half_ns <= cache->until_ns);
    INVARIANT("LESSEE-12", cache->forward.limit_count > 0);
    INVARIANT("LESSEE-12", cache->forward.vnode < 2 * shard->options.vnodes);
}

void lessee_check_invariants(const struct shard *shard)
{
    uint32_t busy = 0;
    for (uint32_t i = 0; i < LESSEE_MAX; i++) {
        const struct lease_cache *cache = &shard->lessee.list[i];
        busy += is_busy(cache);
        if (cache->known)
            check_cache(shard, cache);
        else
            INVARIANT("LESSEE-12", !is_busy(cache));
    }
    INVARIANT("LESSEE-12", busy == shard->lessee.busy);
}
