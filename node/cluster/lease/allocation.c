/* allocation.c - who gets what of a key that several regions want more of than there is.
 *
 * Of a rule with scope `global` the home's leader sees its own checks, each as it comes, and what
 * the others ask for their lessee, a few times a second (lessee.c). Were all served as they come
 * the home would take whatever becomes free before anybody else has asked. So while another region
 * asks for a key, what is left of it is dealt out: each region has an account, and takes from that.
 *
 *     left ----> dealt in proportion to what their callers ask for, as far as they can use it
 *                 |            |            |                  \
 *                own          us           ap                 spare: whoever asks
 *                 |            |            |
 *              checks        lease        lease
 *
 * The engine decides all the same: an account only says who has to wait for his turn. So nothing
 * here can admit more than the limit, and what is not known costs fairness alone.
 *
 * ALLOCATION-1  All accounts and what is spare are together what was left when that was last looked
 *               at, less what was taken since. It is looked at when an account is empty, once in an
 *               event.
 * ALLOCATION-2  Nobody has more set aside for him than he can use at a time (`most`); who has not
 *               asked for ALLOCATION_IDLE_NS has nothing. So what one does not use is the others'
 *               within a second.
 * ALLOCATION-3  No token stays behind because everybody has a part of it: who has most set aside
 *               may take what he needs, and owes that. It is made up for when more is dealt.
 * ALLOCATION-4  Who has not asked for a while is dealt one token ahead of all others: a part of a
 *               thousandth would never become one.
 * ALLOCATION-5  A repeated request is for the engine: it may be about what was taken before.
 * ALLOCATION-6  A lease is of what is set aside for its region, and of an eighth of what is spare:
 *               others who begin to ask find something.
 * ALLOCATION-7  A key is found by its id, its first claimant is this region, and no other claimant
 *               is listed twice. Nothing spare is owed.
 */
#include "node/cluster/lease/allocation.h"

#include "base/assert.h"
#include "base/sat.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/shard_state.h"

#define SECOND_NS UINT64_C(1000000000)

_Static_assert(ALLOCATION_MAX % ALLOCATION_WAYS == 0, "sets are whole");
_Static_assert(LIMIT_COUNT_MAX <= INT64_MAX / ALLOCATION_PART / ALLOCATION_CLAIMANTS,
               "accounts have room");

int allocation_init(struct shard *shard)
{
    struct allocation *allocation = &shard->allocation;
    allocation->list = alloc_array(shard->allocator, ALLOCATION_MAX, sizeof *allocation->list);
    return allocation->list != NULL ? 0 : TG_ENOMEM;
}

void allocation_fini(struct shard *shard)
{
    alloc_put(shard->allocator, shard->allocation.list,
              ALLOCATION_MAX * sizeof *shard->allocation.list);
}

/* ---- keys and claimants ------------------------------------------------------------------------
 */

static struct allocation_key *set_of(const struct shard *shard, struct hash128 id)
{
    const uint64_t set = hash_mix64(id.lo ^ id.hi) % (ALLOCATION_MAX / ALLOCATION_WAYS);
    return &shard->allocation.list[set * ALLOCATION_WAYS];
}

static struct allocation_key *find(const struct shard *shard, struct hash128 id)
{
    struct allocation_key *set = set_of(shard, id);
    for (uint32_t i = 0; i < ALLOCATION_WAYS; i++)
        if (set[i].known && hash128_equal(set[i].id, id))
            return &set[i];
    return NULL;
}

/* An entry for the key, or NULL: then it is served as others are. */
static struct allocation_key *make(struct shard *shard, struct hash128 id)
{
    struct allocation_key *set = set_of(shard, id);
    for (uint32_t i = 0; i < ALLOCATION_WAYS; i++) {
        if (set[i].known)
            continue;
        set[i] =
            (struct allocation_key){.known = true, .id = id, .count = 1, .looked_ns = INT64_MIN};
        set[i].claimants[ALLOCATION_OWN].asked_ns = INT64_MIN;
        if (shard->allocation.busy++ == 0)
            shard->allocation.next_ns = shard->now_ns + ALLOCATION_SPAN_NS;
        return &set[i];
    }
    return NULL;
}

static bool is_idle(const struct shard *shard, const struct allocation_claimant *claimant)
{
    return sat_sub(shard->now_ns, claimant->asked_ns) > ALLOCATION_IDLE_NS;
}

/* ALLOCATION-2 */
static void drop_idle(const struct shard *shard, struct allocation_key *key)
{
    for (uint32_t i = key->count; i-- > 0;) {
        struct allocation_claimant *claimant = &key->claimants[i];
        if (!is_idle(shard, claimant))
            continue;
        if (i == ALLOCATION_OWN)
            *claimant = (struct allocation_claimant){.asked_ns = INT64_MIN};
        else
            *claimant = key->claimants[--key->count];
    }
}

static struct allocation_claimant *claimant_of(struct allocation_key *key, uint64_t who)
{
    for (uint32_t i = ALLOCATION_OWN + 1; i < key->count; i++)
        if (key->claimants[i].who == who)
            return &key->claimants[i];
    if (key->count == ALLOCATION_CLAIMANTS)
        return NULL;
    key->claimants[key->count] = (struct allocation_claimant){.who = who, .asked_ns = INT64_MIN};
    return &key->claimants[key->count++];
}

/* Counts a check of this region: what it is asked for now, and lately. */
static void count_own(const struct shard *shard, struct allocation_key *key, uint64_t cost)
{
    struct allocation_claimant *own = &key->claimants[ALLOCATION_OWN];
    const int64_t span_ns = shard->now_ns - key->since_ns;
    if (own->fresh || span_ns >= ALLOCATION_SPAN_NS) {
        const uint64_t lately =
            own->fresh ? 0 : sat_muldiv(key->asked, SECOND_NS, (uint64_t)span_ns);
        own->rate = own->rate / 2 + lately / 2;
        key->since_ns = shard->now_ns;
        key->asked = 0;
    }
    key->asked = sat_addu(key->asked, cost);
    const uint64_t now = sat_muldiv_up(key->asked, SECOND_NS, ALLOCATION_SPAN_NS);
    own->rate = now > own->rate ? now : own->rate;
}

static uint64_t bounded(uint64_t count)
{
    return count < LIMIT_COUNT_MAX ? count : LIMIT_COUNT_MAX;
}

static void note(const struct shard *shard, struct allocation_key *key,
                 struct allocation_claimant *claimant, const struct forward *forward,
                 uint64_t least)
{
    const bool own = claimant == &key->claimants[ALLOCATION_OWN];
    claimant->fresh = is_idle(shard, claimant);
    if (own)
        count_own(shard, key, forward->cost);
    else
        claimant->rate = bounded(forward->used);
    const uint64_t ahead_ns = own ? ALLOCATION_SPAN_NS : ALLOCATION_AHEAD_NS;
    claimant->most = bounded(sat_muldiv(claimant->rate, ahead_ns, SECOND_NS));
    claimant->most = least > claimant->most ? least : claimant->most;
    claimant->asked_ns = shard->now_ns;
}

/* ---- dealing --------------------------------------------------------------------------------- */

/* There is less than was thought: who has something set aside loses in proportion. */
static void take_back(struct allocation_key *key, uint64_t missing)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < key->count; i++)
        all += key->claimants[i].has > 0 ? (uint64_t)key->claimants[i].has : 0;
    missing = missing < all ? missing : all;
    ASSERT(all > 0 || missing == 0);
    for (uint32_t i = 0; i < key->count; i++)
        if (key->claimants[i].has > 0)
            key->claimants[i].has -=
                (int64_t)sat_muldiv((uint64_t)key->claimants[i].has, missing, all);
}

static int64_t give(struct allocation_claimant *claimant, int64_t part, int64_t most)
{
    const int64_t room = most - claimant->has;
    part = part < room ? part : room;
    if (part <= 0)
        return 0;
    claimant->has += part;
    return part;
}

/* Deals what is spare to those who can use it. False: there is no more to deal, or nobody. */
static bool deal(struct allocation_key *key)
{
    uint64_t rates = 0;
    const int64_t spare = key->spare;
    ASSERT(spare >= 0);
    for (uint32_t i = 0; i < key->count; i++)
        if (key->claimants[i].has < (int64_t)key->claimants[i].most * ALLOCATION_PART)
            rates += key->claimants[i].rate;
    for (uint32_t i = 0; i < key->count && rates > 0; i++) {
        struct allocation_claimant *claimant = &key->claimants[i];
        const int64_t part = (int64_t)sat_muldiv((uint64_t)spare, claimant->rate, rates);
        key->spare -= give(claimant, part, (int64_t)claimant->most * ALLOCATION_PART);
    }
    return key->spare > 0 && key->spare < spare;
}

/* ALLOCATION-1 */
static void settle(const struct shard *shard, struct allocation_key *key, uint64_t left)
{
    int64_t all = 0;
    for (uint32_t i = 0; i < key->count; i++) {
        struct allocation_claimant *claimant = &key->claimants[i];
        const int64_t most = (int64_t)claimant->most * ALLOCATION_PART;
        claimant->has = claimant->has < most ? claimant->has : most;
        all += claimant->has;
    }
    const int64_t more = (int64_t)bounded(left) * ALLOCATION_PART - all;
    key->looked_ns = shard->now_ns;
    key->spare = more > 0 ? more : 0;
    if (more < 0)
        take_back(key, (uint64_t)-more);
    for (uint32_t i = 0; i < key->count; i++) /* ALLOCATION-4 */
        if (key->claimants[i].fresh) {
            const int64_t part = key->spare < ALLOCATION_PART ? key->spare : ALLOCATION_PART;
            key->spare -= give(&key->claimants[i], part, ALLOCATION_PART);
            key->claimants[i].fresh = false;
        }
    ASSERT(key->spare >= 0 && key->count <= ALLOCATION_CLAIMANTS); /* ALLOCATION-1 */
    for (uint32_t rounds = 0; rounds < ALLOCATION_CLAIMANTS && deal(key); rounds++)
        ;
}

/* Looks at what is left of all limits of the forward. False: that is not in memory. */
static bool look(struct shard *shard, struct allocation_key *key, const struct forward *forward,
                 struct effects *effects)
{
    uint64_t left = UINT64_MAX;
    if (key->looked_ns == shard->now_ns)
        return true;
    decide_run(shard, effects); /* what was taken already is in the count then */
    for (uint32_t i = 0; i < forward->limit_count; i++) {
        struct limit_decision seen;
        engine_one(shard->table, forward->ids[i], forward->vnode, &forward->limits[i], 0,
                   OPERATION_PEEK, 0, shard->now_ns, &seen);
        if (seen.status != LIMIT_DECIDED)
            return false;
        left = seen.remaining < left ? seen.remaining : left;
    }
    settle(shard, key, left);
    return true;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static uint64_t whole(int64_t parts)
{
    return parts > 0 ? (uint64_t)parts / ALLOCATION_PART : 0;
}

/* How much the claimant may take, that is content with no less than `least`; 0: less than that. Of
 * what is spare a lease takes a part only (ALLOCATION-6). */
static uint64_t payable(const struct allocation_key *key,
                        const struct allocation_claimant *claimant, uint64_t least, bool claims)
{
    const int64_t own = claimant->has > 0 ? claimant->has : 0;
    int64_t all = key->spare;
    if (whole(own + key->spare) >= least) {
        const uint64_t most = whole(own + (claims ? key->spare / ALLOCATION_SPARED : key->spare));
        return most > least ? most : least;
    }
    for (uint32_t i = 0; i < key->count; i++) {
        if (key->claimants[i].has > claimant->has)
            return 0;
        all += key->claimants[i].has;
    }
    return whole(all) >= least ? least : 0; /* ALLOCATION-3 */
}

static void pay(struct allocation_key *key, struct allocation_claimant *claimant, uint64_t tokens)
{
    ASSERT(key->spare >= 0 && tokens <= LIMIT_COUNT_MAX); /* ALLOCATION-7 */
    int64_t parts = (int64_t)tokens * ALLOCATION_PART;
    const int64_t own = claimant->has < 0 ? 0 : claimant->has < parts ? claimant->has : parts;
    claimant->has -= own;
    parts -= own;
    const int64_t spare = key->spare < parts ? key->spare : parts;
    key->spare -= spare;
    claimant->has -= parts - spare;
}

static uint64_t take(struct shard *shard, struct allocation_key *key, const struct forward *forward,
                     bool claims, struct effects *effects)
{
    const bool at_most = (forward->flags & FORWARD_AT_MOST) != 0;
    const uint64_t least = at_most ? 1 : forward->cost;
    drop_idle(shard, key);
    struct allocation_claimant *claimant =
        claims ? claimant_of(key, forward->retry.session) : &key->claimants[ALLOCATION_OWN];
    if (claimant == NULL)
        return ALLOCATION_ALL;
    note(shard, key, claimant, forward, least);
    if ((claims || payable(key, claimant, least, claims) == 0) &&
        !look(shard, key, forward, effects))
        return ALLOCATION_ALL;
    const uint64_t most = payable(key, claimant, least, claims);
    const uint64_t tokens = most < forward->cost ? most : forward->cost;
    pay(key, claimant, tokens);
    return tokens == forward->cost && !(claims && at_most) ? ALLOCATION_ALL : tokens;
}

uint64_t allocation_ask(struct shard *shard, const struct forward *forward, struct effects *effects)
{
    const bool lease = forward->operation == OPERATION_LEASE;
    const bool claims = lease && forward->used > 0;
    if ((forward->operation != OPERATION_CHECK && forward->operation != OPERATION_RESERVE &&
         !lease) ||
        forward->cost == 0 || forward->cost > LIMIT_COUNT_MAX ||
        (forward->flags & FORWARD_RETRY) != 0) /* ALLOCATION-5 */
        return ALLOCATION_ALL;
    struct allocation_key *key = find(shard, forward->ids[0]);
    if (key == NULL && claims)
        key = make(shard, forward->ids[0]);
    return key != NULL ? take(shard, key, forward, claims, effects) : ALLOCATION_ALL;
}

void allocation_tick(struct shard *shard)
{
    struct allocation *allocation = &shard->allocation;
    if (allocation->busy == 0 || shard->now_ns < allocation->next_ns)
        return;
    allocation->next_ns = shard->now_ns + ALLOCATION_SPAN_NS;
    for (uint32_t i = 0; i < ALLOCATION_MAX; i++) {
        struct allocation_key *key = &allocation->list[i];
        if (!key->known)
            continue;
        ASSERT(allocation->busy > 0); /* ALLOCATION-7 */
        drop_idle(shard, key);
        key->known = key->count > ALLOCATION_OWN + 1;
        allocation->busy -= !key->known;
    }
}

/* ---- what always holds ----------------------------------------------------------------------- */

static void check_key(const struct shard *shard, const struct allocation_key *key)
{
    INVARIANT("ALLOCATION-7", find(shard, key->id) == key);
    INVARIANT("ALLOCATION-7", key->count > ALLOCATION_OWN && key->count <= ALLOCATION_CLAIMANTS);
    INVARIANT("ALLOCATION-7", key->spare >= 0);
    INVARIANT("ALLOCATION-7", key->claimants[ALLOCATION_OWN].who == 0);
    for (uint32_t i = 0; i < key->count; i++) {
        const struct allocation_claimant *claimant = &key->claimants[i];
        INVARIANT("ALLOCATION-2", claimant->most <= LIMIT_COUNT_MAX);
        INVARIANT("ALLOCATION-2", claimant->has <= 0 || claimant->asked_ns <= shard->now_ns);
        for (uint32_t k = ALLOCATION_OWN + 1; k < i; k++)
            INVARIANT("ALLOCATION-7", key->claimants[k].who != claimant->who);
    }
}

void allocation_check_invariants(const struct shard *shard)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < ALLOCATION_MAX && shard->allocation.busy > 0; i++) {
        if (!shard->allocation.list[i].known)
            continue;
        check_key(shard, &shard->allocation.list[i]);
        known++;
    }
    INVARIANT("ALLOCATION-7", known == shard->allocation.busy);
}
