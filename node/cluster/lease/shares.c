/* shares.c - who gets what of a key that several regions want more of than there is.
 *
 * Of a rule with scope `global` the home's decider sees its own checks, each as it comes, and what
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
 * S1  All accounts and what is spare are together what was left when that was last looked at, less
 *     what was taken since. It is looked at when an account is empty, once in an event.
 * S2  Nobody has more set aside for him than he can use at a time (`most`); who has not asked for
 *     SHARES_IDLE_NS has nothing. So what one does not use is the others' within a second.
 * S3  No token stays behind because everybody has a part of it: who has most set aside may take
 *     what he needs, and owes that. It is made up for when more is dealt.
 * S4  Who has not asked for a while is dealt one token ahead of all others: a part of a thousandth
 *     would never become one.
 * S5  A repeated request is for the engine: it may be about what was taken before.
 * S6  A lease is of what is set aside for its region, and of an eighth of what is spare: others who
 *     begin to ask find something.
 */
#include "node/cluster/lease/shares.h"

#include "base/assert.h"
#include "base/sat.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/shard_state.h"

#define SECOND_NS UINT64_C(1000000000)

_Static_assert(SHARES_MAX % SHARES_WAYS == 0, "sets are whole");
_Static_assert(LIMIT_COUNT_MAX <= INT64_MAX / SHARES_PART / SHARES_PARTIES, "accounts have room");

int shares_init(struct shard *shard)
{
    struct shares *shares = &shard->shares;
    shares->list = alloc_array(shard->allocator, SHARES_MAX, sizeof *shares->list);
    return shares->list != NULL ? 0 : TG_ENOMEM;
}

void shares_fini(struct shard *shard)
{
    alloc_put(shard->allocator, shard->shares.list, SHARES_MAX * sizeof *shard->shares.list);
}

/* ---- keys and parties ------------------------------------------------------------------------ */

static struct shares_key *set_of(const struct shard *shard, struct hash128 id)
{
    const uint64_t set = hash_mix64(id.lo ^ id.hi) % (SHARES_MAX / SHARES_WAYS);
    return &shard->shares.list[set * SHARES_WAYS];
}

static struct shares_key *find(const struct shard *shard, struct hash128 id)
{
    struct shares_key *set = set_of(shard, id);
    for (uint32_t i = 0; i < SHARES_WAYS; i++)
        if (set[i].known && hash128_equal(set[i].id, id))
            return &set[i];
    return NULL;
}

/* An entry for the key, or NULL: then it is served as others are. */
static struct shares_key *make(struct shard *shard, struct hash128 id)
{
    struct shares_key *set = set_of(shard, id);
    for (uint32_t i = 0; i < SHARES_WAYS; i++) {
        if (set[i].known)
            continue;
        set[i] = (struct shares_key){.known = true, .id = id, .count = 1, .looked_ns = INT64_MIN};
        set[i].parties[SHARES_OWN].asked_ns = INT64_MIN;
        if (shard->shares.busy++ == 0)
            shard->shares.next_ns = shard->now_ns + SHARES_SPAN_NS;
        return &set[i];
    }
    return NULL;
}

static bool is_idle(const struct shard *shard, const struct shares_party *party)
{
    return sat_sub(shard->now_ns, party->asked_ns) > SHARES_IDLE_NS;
}

/* S2 */
static void drop_idle(const struct shard *shard, struct shares_key *key)
{
    for (uint32_t i = key->count; i-- > 0;) {
        struct shares_party *party = &key->parties[i];
        if (!is_idle(shard, party))
            continue;
        if (i == SHARES_OWN)
            *party = (struct shares_party){.asked_ns = INT64_MIN};
        else
            *party = key->parties[--key->count];
    }
}

static struct shares_party *party_of(struct shares_key *key, uint64_t who)
{
    for (uint32_t i = SHARES_OWN + 1; i < key->count; i++)
        if (key->parties[i].who == who)
            return &key->parties[i];
    if (key->count == SHARES_PARTIES)
        return NULL;
    key->parties[key->count] = (struct shares_party){.who = who, .asked_ns = INT64_MIN};
    return &key->parties[key->count++];
}

/* Counts a check of this region: what it is asked for now, and lately. */
static void count_own(const struct shard *shard, struct shares_key *key, uint64_t cost)
{
    struct shares_party *own = &key->parties[SHARES_OWN];
    const int64_t span_ns = shard->now_ns - key->since_ns;
    if (own->fresh || span_ns >= SHARES_SPAN_NS) {
        const uint64_t lately =
            own->fresh ? 0 : sat_muldiv(key->asked, SECOND_NS, (uint64_t)span_ns);
        own->rate = own->rate / 2 + lately / 2;
        key->since_ns = shard->now_ns;
        key->asked = 0;
    }
    key->asked = sat_addu(key->asked, cost);
    const uint64_t now = sat_muldiv_up(key->asked, SECOND_NS, SHARES_SPAN_NS);
    own->rate = now > own->rate ? now : own->rate;
}

static uint64_t bounded(uint64_t count)
{
    return count < LIMIT_COUNT_MAX ? count : LIMIT_COUNT_MAX;
}

static void note(const struct shard *shard, struct shares_key *key, struct shares_party *party,
                 const struct forward *forward, uint64_t least)
{
    const bool own = party == &key->parties[SHARES_OWN];
    party->fresh = is_idle(shard, party);
    if (own)
        count_own(shard, key, forward->cost);
    else
        party->rate = bounded(forward->used);
    const uint64_t ahead_ns = own ? SHARES_SPAN_NS : SHARES_AHEAD_NS;
    party->most = bounded(sat_muldiv(party->rate, ahead_ns, SECOND_NS));
    party->most = least > party->most ? least : party->most;
    party->asked_ns = shard->now_ns;
}

/* ---- dealing --------------------------------------------------------------------------------- */

/* There is less than was thought: who has something set aside loses in proportion. */
static void take_back(struct shares_key *key, uint64_t missing)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < key->count; i++)
        all += key->parties[i].has > 0 ? (uint64_t)key->parties[i].has : 0;
    missing = missing < all ? missing : all;
    for (uint32_t i = 0; i < key->count; i++)
        if (key->parties[i].has > 0)
            key->parties[i].has -= (int64_t)sat_muldiv((uint64_t)key->parties[i].has, missing, all);
}

static int64_t give(struct shares_party *party, int64_t part, int64_t most)
{
    const int64_t room = most - party->has;
    part = part < room ? part : room;
    if (part <= 0)
        return 0;
    party->has += part;
    return part;
}

/* Deals what is spare to those who can use it. False: there is no more to deal, or nobody. */
static bool deal(struct shares_key *key)
{
    uint64_t rates = 0;
    const int64_t spare = key->spare;
    for (uint32_t i = 0; i < key->count; i++)
        if (key->parties[i].has < (int64_t)key->parties[i].most * SHARES_PART)
            rates += key->parties[i].rate;
    for (uint32_t i = 0; i < key->count && rates > 0; i++) {
        struct shares_party *party = &key->parties[i];
        const int64_t part = (int64_t)sat_muldiv((uint64_t)spare, party->rate, rates);
        key->spare -= give(party, part, (int64_t)party->most * SHARES_PART);
    }
    return key->spare > 0 && key->spare < spare;
}

/* S1 */
static void settle(const struct shard *shard, struct shares_key *key, uint64_t left)
{
    int64_t all = 0;
    for (uint32_t i = 0; i < key->count; i++) {
        struct shares_party *party = &key->parties[i];
        const int64_t most = (int64_t)party->most * SHARES_PART;
        party->has = party->has < most ? party->has : most;
        all += party->has;
    }
    const int64_t more = (int64_t)bounded(left) * SHARES_PART - all;
    key->looked_ns = shard->now_ns;
    key->spare = more > 0 ? more : 0;
    if (more < 0)
        take_back(key, (uint64_t)-more);
    for (uint32_t i = 0; i < key->count; i++) /* S4 */
        if (key->parties[i].fresh) {
            const int64_t part = key->spare < SHARES_PART ? key->spare : SHARES_PART;
            key->spare -= give(&key->parties[i], part, SHARES_PART);
            key->parties[i].fresh = false;
        }
    for (uint32_t rounds = 0; rounds < SHARES_PARTIES && deal(key); rounds++)
        ;
}

/* Looks at what is left of all limits of the forward. False: that is not in memory. */
static bool look(struct shard *shard, struct shares_key *key, const struct forward *forward,
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
    return parts > 0 ? (uint64_t)parts / SHARES_PART : 0;
}

/* How much the party may take, that is content with no less than `least`; 0: less than that. Of
 * what is spare a lease takes a part only (S6). */
static uint64_t payable(const struct shares_key *key, const struct shares_party *party,
                        uint64_t least, bool claims)
{
    const int64_t own = party->has > 0 ? party->has : 0;
    int64_t all = key->spare;
    if (whole(own + key->spare) >= least) {
        const uint64_t most = whole(own + (claims ? key->spare / SHARES_SPARED : key->spare));
        return most > least ? most : least;
    }
    for (uint32_t i = 0; i < key->count; i++) {
        if (key->parties[i].has > party->has)
            return 0;
        all += key->parties[i].has;
    }
    return whole(all) >= least ? least : 0; /* S3 */
}

static void pay(struct shares_key *key, struct shares_party *party, uint64_t tokens)
{
    int64_t parts = (int64_t)tokens * SHARES_PART;
    const int64_t own = party->has < 0 ? 0 : party->has < parts ? party->has : parts;
    party->has -= own;
    parts -= own;
    const int64_t spare = key->spare < parts ? key->spare : parts;
    key->spare -= spare;
    party->has -= parts - spare;
}

static uint64_t take(struct shard *shard, struct shares_key *key, const struct forward *forward,
                     bool claims, struct effects *effects)
{
    const bool at_most = (forward->flags & FORWARD_AT_MOST) != 0;
    const uint64_t least = at_most ? 1 : forward->cost;
    drop_idle(shard, key);
    struct shares_party *party =
        claims ? party_of(key, forward->retry.session) : &key->parties[SHARES_OWN];
    if (party == NULL)
        return SHARES_ALL;
    note(shard, key, party, forward, least);
    if ((claims || payable(key, party, least, claims) == 0) && !look(shard, key, forward, effects))
        return SHARES_ALL;
    const uint64_t most = payable(key, party, least, claims);
    const uint64_t tokens = most < forward->cost ? most : forward->cost;
    pay(key, party, tokens);
    return tokens == forward->cost && !(claims && at_most) ? SHARES_ALL : tokens;
}

uint64_t shares_ask(struct shard *shard, const struct forward *forward, struct effects *effects)
{
    const bool lease = forward->operation == OPERATION_LEASE;
    const bool claims = lease && forward->used > 0;
    if ((forward->operation != OPERATION_CHECK && !lease) || forward->cost == 0 ||
        forward->cost > LIMIT_COUNT_MAX || (forward->flags & FORWARD_RETRY) != 0) /* S5 */
        return SHARES_ALL;
    struct shares_key *key = find(shard, forward->ids[0]);
    if (key == NULL && claims)
        key = make(shard, forward->ids[0]);
    return key != NULL ? take(shard, key, forward, claims, effects) : SHARES_ALL;
}

void shares_tick(struct shard *shard)
{
    struct shares *shares = &shard->shares;
    if (shares->busy == 0 || shard->now_ns < shares->next_ns)
        return;
    shares->next_ns = shard->now_ns + SHARES_SPAN_NS;
    for (uint32_t i = 0; i < SHARES_MAX; i++) {
        struct shares_key *key = &shares->list[i];
        if (!key->known)
            continue;
        drop_idle(shard, key);
        key->known = key->count > SHARES_OWN + 1;
        shares->busy -= !key->known;
    }
}
