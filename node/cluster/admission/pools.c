/* pools.c - reports of pools to their owners, and levels back; pools.h shows the way.
 *
 * The owner adds up what all leaders admit inside limits. What the pool's rate has beyond that is
 * spare, unless the service that the pool protects says that it is loaded enough. It is poured out
 * class by class (fair_share.h):
 *
 *      spare  |<- reserve ->|<----------------- open to all ----------------->|
 *             | critical ............ |  normal ............ |  batch ....... | left
 *
 * A leader gets the levels and a budget: what its keys take at these levels, and its part of what
 * nobody asked for. All budgets together are the spare; so it is never lent twice, however demand
 * moves until the next level.
 *
 * Of a global pool this is what its home's owner does, for whom the owner of each other region is a
 * leader with many keys. That one adds up and tells the home; of what comes back it makes levels
 * and budgets for its own leaders, which together are the region's budget.
 *
 * POOLS-1   A level is made of reports younger than POOLS_FRESH_NS, one of each leader.
 * POOLS-2   Who has become the owner tells no level for POOLS_LEARN_NS: by then each leader that
 *           has anything to tell has told it, and levels of a former owner are void.
 * POOLS-3   A report there was no room for stops lending of its pool: what it would have said may
 *           be that nothing is spare.
 * POOLS-4   A load is believed for as long as it was told to be, though who told it dies: it is the
 *           owner's to keep, not the report's. It is told at once, but not more often than each
 *           POOLS_SOON_NS.
 * POOLS-5   A level is taken only from the leader of the pool's vnode, as far as this shard knows;
 *           one from another region only by that leader, and from the region that its own rules
 *           call the home.
 *
 * Of global pools:
 *
 * POOLS-6   A level from another region is handed out when it comes, once, and none is made
 *           without: a region that is cut off from the home lends nothing from ELASTIC_LEVEL_NS on.
 *           No check waits for it.
 * POOLS-7   It is handed out only if it answers a report of this very owner that is younger than
 *           POOLS_WAY_NS. So all levels that a region's report brought are void POOLS_VOID_NS after
 *           it came, and until then the home takes the region's last budget for lent, though it is
 *           silent. Lending pauses where the way there and back takes longer than 400 ms.
 * POOLS-8   What a silent region last admitted inside its limits counts for POOLS_HELD_NS, or until
 *           it is removed, or its next owner reports. That one tells nothing while it learns
 *           (POOLS-2): who adds up half of a region's leaders would say that more is spare than
 *           there is.
 * POOLS-9   The home's new owner lends when each other region has reported to it, or POOLS_HELD_NS
 *           later: so a region that asks for nothing says so, each POOLS_IDLE_NS.
 * POOLS-10  Who is told by the rules that a pool has another scope or home learns anew, as a new
 *           owner. While rules are on their way, each region lends by those of its owner: a rate of
 *           its own, or what a home gives it, or, as the home, what the regions leave that report
 *           to it. So all together lend no more than by the older or by the newer rules, whichever
 *           say more.
 * POOLS-11  A pool has one place among those that are owned here.
 */
#include "node/cluster/admission/pools.h"
#include "node/cluster/partition/vnodes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/cluster/shard_state.h"

#define POOLS_EVERY_NS (100 * MS)
#define POOLS_SOON_NS  (20 * MS) /* after the last time, when a load has come */
#define POOLS_FRESH_NS (500 * MS)
#define POOLS_LEARN_NS (500 * MS)
#define POOLS_ALL_NS   (1000 * MS) /* how often everybody is told how a pool is doing */
#define POOLS_KNOWN_NS (3000 * MS) /* how long that is believed */
#define POOLS_WAY_NS   (500 * MS)  /* from a report to a home until the level is here (POOLS-7) */
#define POOLS_VOID_NS  (POOLS_WAY_NS + ELASTIC_LEVEL_NS)
#define POOLS_IDLE_NS  (1000 * MS) /* how often a home is told that nothing is asked for */
#define NANO           UINT64_C(1000000000)

static_assert(POOLS_LEARN_NS >= ELASTIC_LEVEL_NS, "a former owner's levels are void (POOLS-2)");
static_assert(POOLS_FRESH_NS >= 2 * POOLS_EVERY_NS, "one lost report is no silence");
static_assert(2 * POOLS_EVERY_NS < ELASTIC_LEVEL_NS, "one lost level does not end borrowing");
static_assert((int)POLICY_POOLS_MAX == (int)ELASTIC_POOLS_MAX, "each pool has its place");
static_assert(POOLS_IDLE_NS < POOLS_HELD_NS, "idle regions end the learning of a home (POOLS-9)");
static_assert((int)PEER_REPORT_MAX <= (int)REMOTE_LINE_LEN, "a report fits");
static_assert(PEER_REPORT_MAX <= CHANNEL_OUTBOX_LEN - CHANNEL_LIVE_FLUSH, "a report fits");

int pools_init(struct shard *shard)
{
    struct pools *pools = &shard->pools;
    pools->entries = alloc_array(shard->allocator, POOLS_REPORTS_MAX, sizeof *pools->entries);
    return pools->entries == NULL ? TG_ENOMEM : elastic_new(&pools->elastic, shard->allocator);
}

void pools_fini(struct shard *shard)
{
    struct pools *pools = &shard->pools;
    alloc_put(shard->allocator, pools->entries, POOLS_REPORTS_MAX * sizeof *pools->entries);
    elastic_free(&pools->elastic);
}

static uint32_t vnode_of(const struct shard *shard, uint32_t pool)
{
    return pools_vnode(pool, shard->options.vnodes);
}

static const struct policy_pool *policy_of(const struct shard *shard, uint32_t pool)
{
    return policy_pool_by_id(shard->policies[shard->policy].policy, pool);
}

/* Which region lends of the pool for all, as the rules here say; 0: each for itself. */
static uint64_t home_of(const struct shard *shard, uint32_t pool)
{
    return remote_pool_home(shard, policy_of(shard, pool));
}

/* ---- what a leader does --------------------------------------------------------------------- */

void pools_load(struct shard *shard, uint32_t pool, uint32_t load_ppm)
{
    ASSERT(pool != 0 && load_ppm <= PEER_LOAD_MAX); /* POOLS-4 */
    struct pool_load *place = &shard->pools.loads[0];
    for (uint32_t i = 0; i < POLICY_POOLS_MAX && place->id != pool; i++) {
        struct pool_load *load = &shard->pools.loads[i];
        if (load->id == pool || load->until_ns < place->until_ns)
            place = load; /* or the oldest: the rules have had other pools */
    }
    *place = (struct pool_load){pool, load_ppm, shard->now_ns + POOLS_LOAD_NS};
    const int64_t soon_ns = shard->pools.last_ns + POOLS_SOON_NS;
    if (soon_ns < shard->pools.next_ns)
        shard->pools.next_ns = soon_ns; /* POOLS-4 */
}

static const struct pool_load *load_of(const struct shard *shard, uint32_t pool)
{
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++)
        if (shard->pools.loads[i].id == pool && shard->pools.loads[i].until_ns > shard->now_ns)
            return &shard->pools.loads[i];
    return NULL;
}

static bool is_of(const struct pool_entry *entry, uint32_t pool, const struct pool_source *source)
{
    return entry->report.pool == pool && entry->source.peer == source->peer &&
           entry->source.node == source->node && entry->source.region == source->region;
}

static struct pool_entry *entry_of(struct shard *shard, uint32_t pool,
                                   const struct pool_source *source)
{
    struct pools *pools = &shard->pools;
    ASSERT(pools->entry_count <= POOLS_REPORTS_MAX); /* POOLS-3 */
    for (uint32_t i = 0; i < pools->entry_count; i++)
        if (is_of(&pools->entries[i], pool, source))
            return &pools->entries[i];
    if (pools->entry_count == POOLS_REPORTS_MAX)
        return NULL;
    struct pool_entry *entry = &pools->entries[pools->entry_count++];
    entry->source = *source;
    entry->budget = 0;
    return entry;
}

/* The pool's place among those that are owned here, or a free one; NULL if there is neither. */
static struct pool_owned *place_of(struct shard *shard, uint32_t pool)
{
    struct pool_owned *place = NULL;
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++) {
        struct pool_owned *owned = &shard->pools.owned[i];
        if (owned->id == pool)
            return owned;
        if (owned->id == 0 && place == NULL)
            place = owned;
    }
    return place;
}

static struct pool_owned *owned_of(struct shard *shard, uint32_t pool)
{
    struct pools *pools = &shard->pools;
    struct pool_owned *place = place_of(shard, pool);
    const uint64_t home = home_of(shard, pool);
    if (place == NULL || (place->id == pool && place->home == home))
        return place;
    struct pool_owned owned = {.id = pool, .home = home, .since_ns = shard->now_ns};
    if (place->id == pool) { /* POOLS-10 */
        owned.load_ppm = place->load_ppm;
        owned.load_until_ns = place->load_until_ns;
    }
    *place = owned;
    for (uint32_t i = pools->entry_count; i-- > 0;)
        if (pools->entries[i].report.pool == pool)
            pools->entries[i] = pools->entries[--pools->entry_count];
    return place;
}

/* The load told last counts: it is valid longest (POOLS-4). */
static void keep_load(struct shard *shard, uint32_t pool, uint32_t ppm, int64_t until_ns)
{
    ASSERT(ppm <= PEER_LOAD_MAX);
    struct pool_owned *owned = owned_of(shard, pool);
    if (owned == NULL || until_ns <= owned->load_until_ns)
        return;
    owned->load_ppm = ppm;
    owned->load_until_ns = until_ns;
}

static bool owns(struct shard *shard, uint32_t pool)
{
    uint16_t at;
    return vnodes_route(shard, vnode_of(shard, pool), &at) == ROUTE_HERE;
}

/* A place for a report of that source, if the pool is owned here and there is room (POOLS-3). */
static struct pool_entry *take_entry(struct shard *shard, uint32_t pool,
                                     const struct pool_source *source, int64_t sent_ns)
{
    struct pool_owned *owned = owns(shard, pool) ? owned_of(shard, pool) : NULL;
    if (owned == NULL)
        return NULL;
    struct pool_entry *entry = entry_of(shard, pool, source);
    if (entry == NULL) {
        owned->lacking_ns = shard->now_ns;
        shard->pools.reports_dropped++;
        return NULL;
    }
    entry->at_ns = shard->now_ns;
    entry->sent_ns = sent_ns;
    return entry;
}

static uint32_t left_ms(const struct shard *shard, int64_t until_ns)
{
    return until_ns <= shard->now_ns ? 0 : (uint32_t)((until_ns - shard->now_ns) / MS + 1);
}

/* Brings the report to the pool's owner, be that this shard. */
static void tell_owner(struct shard *shard, const struct elastic_report *report,
                       struct effects *effects)
{
    uint16_t at;
    const enum route route = vnodes_route(shard, vnode_of(shard, report->pool), &at);
    const struct pool_load *load = load_of(shard, report->pool);
    if (route == ROUTE_HERE) {
        const struct pool_source here = {.peer = PEER_NONE};
        struct pool_entry *entry = take_entry(shard, report->pool, &here, 0);
        if (entry == NULL)
            return;
        entry->report = *report;
        if (load != NULL)
            keep_load(shard, report->pool, load->ppm, load->until_ns);
    } else if (route == ROUTE_PEER) {
        peer_put_pool_report(peers_outbox(shard, at, PEER_REPORT_MAX, effects), NULL, report,
                             load == NULL ? 0 : load->ppm,
                             load == NULL ? 0 : left_ms(shard, load->until_ns));
    }
}

static void send_reports(struct shard *shard, struct effects *effects)
{
    struct pools *pools = &shard->pools;
    for (uint32_t i = 0; i < elastic_pools(pools->elastic); i++)
        if (elastic_report(pools->elastic, i, shard->now_ns, &pools->report))
            tell_owner(shard, &pools->report, effects);
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++) {
        const struct pool_load *load = &pools->loads[i];
        if (load->until_ns <= shard->now_ns || elastic_knows(pools->elastic, load->id))
            continue;
        memset(&pools->report, 0, sizeof pools->report);
        pools->report.pool = load->id;
        tell_owner(shard, &pools->report, effects);
    }
}

static void know(struct shard *shard, const struct peer_pool_level *told)
{
    struct shard_pool *place = NULL;
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++) {
        struct shard_pool *known = &shard->pools.known[i];
        if (known->id == told->pool) {
            place = known;
            break;
        }
        if (place == NULL || known->at_ns < place->at_ns)
            place = known; /* the one heard of longest ago */
    }
    *place = (struct shard_pool){
        .id = told->pool,
        .load_ppm = told->load_ppm,
        .guaranteed = told->guaranteed,
        .borrowed = told->borrowed,
        .at_ns = shard->now_ns,
    };
    memcpy(place->level, told->level.level, sizeof place->level);
}

bool pools_known(const struct shard *shard, uint32_t pool, struct shard_pool *out)
{
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++) {
        *out = shard->pools.known[i];
        if (out->id == pool && shard->now_ns - out->at_ns < POOLS_KNOWN_NS)
            return true;
    }
    *out = (struct shard_pool){.id = pool, .load_ppm = PEER_LOAD_UNKNOWN};
    return false;
}

void pools_level(struct shard *shard, uint16_t at, const struct peer_pool_level *told)
{
    if (vnodes_leader(shard, vnode_of(shard, told->pool)) != shard->peers[at]->node) /* POOLS-5 */
        return;
    elastic_set_level(shard->pools.elastic, told->pool, &told->level, shard->now_ns);
    know(shard, told);
}

/* ---- what the owner does --------------------------------------------------------------------- */

static void read_report(const struct peer_pool_report *told, struct elastic_report *report)
{
    struct bytes_reader shares = told->shares;
    report->pool = told->pool;
    report->guaranteed = told->guaranteed;
    report->borrowed = told->borrowed;
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++) {
        report->count[class] = told->count[class];
        for (uint32_t i = 0; i < told->count[class]; i++) {
            const bool there = peer_share_next(&shares, &report->shares[class][i]);
            ASSERT(there);
        }
    }
}

static void take_report(struct shard *shard, const struct pool_source *source,
                        const struct peer_pool_report *told)
{
    struct pool_entry *entry = take_entry(shard, told->pool, source, told->origin.sent_ns);
    if (entry == NULL)
        return;
    read_report(told, &entry->report);
    const int64_t load_ns = told->load_ms * MS < POOLS_LOAD_NS ? told->load_ms * MS : POOLS_LOAD_NS;
    if (load_ns > 0)
        keep_load(shard, told->pool, told->load_ppm, shard->now_ns + load_ns);
}

void pools_reported(struct shard *shard, uint16_t at, const struct peer_pool_report *told)
{
    take_report(shard, &(struct pool_source){.peer = at}, told);
}

void pools_reported_remote(struct shard *shard, const struct peer_pool_report *told)
{
    const struct pool_source source = {.peer = told->origin.shard,
                                       .node = told->origin.node,
                                       .region = remote_region_of(shard, told->origin.node)};
    if (source.region != 0 && told->origin.home == shard->remote.own &&
        home_of(shard, told->pool) == shard->remote.own)
        take_report(shard, &source, told);
}

void pools_told_remote(struct shard *shard, const struct peer_envelope *envelope,
                       const struct peer_pool_report *told, struct effects *effects)
{
    const struct peer_pool_origin *origin = &told->origin;
    uint16_t at;
    if (origin->node != envelope->node || origin->shard != envelope->shard)
        return;
    const enum route route = vnodes_route(shard, vnode_of(shard, told->pool), &at);
    if (route == ROUTE_HERE) {
        pools_reported_remote(shard, told);
    } else if (route == ROUTE_PEER) { /* who gets it takes it or leaves it */
        read_report(told, &shard->pools.report);
        peer_put_pool_report(peers_outbox(shard, at, PEER_REPORT_MAX, effects), origin,
                             &shard->pools.report, told->load_ppm, told->load_ms);
    }
}

static bool is_fresh(const struct shard *shard, const struct pool_entry *entry)
{
    return shard->now_ns - entry->at_ns < POOLS_FRESH_NS;
}

/* Whether somebody else of the entry's region has reported since. */
static bool is_replaced(const struct shard *shard, const struct pool_entry *entry)
{
    const struct pools *pools = &shard->pools;
    for (uint32_t i = 0; i < pools->entry_count; i++)
        if (pools->entries[i].report.pool == entry->report.pool &&
            pools->entries[i].source.region == entry->source.region &&
            pools->entries[i].at_ns > entry->at_ns)
            return true;
    return false;
}

static bool is_among(uint64_t id, const uint64_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Lets go reports that are old (POOLS-1, POOLS-8), or of a region that is no more. */
static void forget_reports(struct shard *shard)
{
    struct pools *pools = &shard->pools;
    uint64_t regions[REMOTE_REGIONS_MAX];
    const uint32_t region_count = remote_others(shard, regions);
    for (uint32_t i = pools->entry_count; i-- > 0;) {
        const struct pool_entry *entry = &pools->entries[i];
        const int64_t age_ns = shard->now_ns - entry->at_ns;
        const bool held = entry->source.region != 0 && age_ns < POOLS_HELD_NS &&
                          is_among(entry->source.region, regions, region_count) &&
                          (age_ns < POOLS_VOID_NS || !is_replaced(shard, entry));
        if (!held && !(entry->source.region == 0 && is_fresh(shard, entry)))
            pools->entries[i] = pools->entries[--pools->entry_count];
    }
}

/* And what is owned here no more or, of this region's own, has no reports. */
static void forget_old(struct shard *shard)
{
    struct pools *pools = &shard->pools;
    forget_reports(shard);
    for (uint32_t k = 0; k < POLICY_POOLS_MAX; k++) {
        struct pool_owned *owned = &pools->owned[k];
        bool used = owned->id != 0 && home_of(shard, owned->id) != 0;
        for (uint32_t i = 0; i < pools->entry_count && !used; i++)
            used = pools->entries[i].report.pool == owned->id;
        if (owned->id != 0 && (!used || !owns(shard, owned->id)))
            owned->id = 0; /* to learn anew, if it comes back (POOLS-2) */
    }
}

/* A global pool is owned whether it is asked for here or not: its home wants to know (POOLS-9). */
static void own_global(struct shard *shard)
{
    const struct policy *policy = shard->policies[shard->policy].policy;
    for (size_t i = 0; i < policy_pool_count(policy); i++) {
        const struct policy_pool *pool = policy_pool_at(policy, i);
        if (pool->scope == POLICY_SCOPE_GLOBAL && owns(shard, pool->id))
            (void)owned_of(shard, pool->id);
    }
}

/* What is known of one pool, all reports taken together. */
struct sum {
    uint64_t guaranteed;
    uint64_t borrowed;
    uint64_t held;     /* by regions that are silent: they may lend it yet (POOLS-7) */
    uint32_t deciders; /* that reported */
    uint32_t load_ppm;
};

static struct sum add_up(struct shard *shard, const struct pool_owned *owned)
{
    struct pools *pools = &shard->pools;
    const bool told = owned->load_until_ns > shard->now_ns;
    struct sum sum = {.load_ppm = told ? owned->load_ppm : PEER_LOAD_UNKNOWN};
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
        fair_share_clear(&pools->fair_share[class]);
    for (uint32_t i = 0; i < pools->entry_count; i++) {
        const struct pool_entry *entry = &pools->entries[i];
        if (entry->report.pool != owned->id)
            continue;
        sum.guaranteed = sat_addu(sum.guaranteed, entry->report.guaranteed);
        if (!is_fresh(shard, entry)) {
            const bool may_lend = shard->now_ns - entry->at_ns < POOLS_VOID_NS;
            sum.held = sat_addu(sum.held, may_lend ? entry->budget : 0);
            continue;
        }
        sum.borrowed = sat_addu(sum.borrowed, entry->report.borrowed);
        sum.deciders++;
        for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
            for (uint32_t k = 0; k < entry->report.count[class]; k++)
                fair_share_add(&pools->fair_share[class], entry->report.shares[class][k].weight,
                               entry->report.shares[class][k].ask);
    }
    return sum;
}

static bool region_reported(const struct shard *shard, const struct pool_owned *owned,
                            uint64_t region)
{
    const struct pools *pools = &shard->pools;
    for (uint32_t i = 0; i < pools->entry_count; i++)
        if (pools->entries[i].report.pool == owned->id && pools->entries[i].source.region == region)
            return true;
    return false;
}

/* POOLS-2, POOLS-9. */
static bool is_learning(const struct shard *shard, const struct pool_owned *owned)
{
    const int64_t age_ns = shard->now_ns - owned->since_ns;
    uint64_t regions[REMOTE_REGIONS_MAX];
    uint32_t silent = 0;
    const uint32_t count = remote_others(shard, regions);
    if (owned->home != shard->remote.own || count == 0)
        return age_ns < POOLS_LEARN_NS;
    for (uint32_t i = 0; i < count; i++)
        silent += !region_reported(shard, owned, regions[i]);
    return age_ns < POOLS_VOID_NS || (age_ns < POOLS_HELD_NS && silent > 0);
}

/* Whether not all is known that was reported (POOLS-3). */
static bool is_lacking(const struct shard *shard, const struct pool_owned *owned)
{
    return owned->lacking_ns != 0 && shard->now_ns - owned->lacking_ns < POOLS_FRESH_NS;
}

static uint64_t rate_of(const struct policy_pool *pool)
{
    const unsigned __int128 rate = (unsigned __int128)pool->rate.count * NANO * NANO;
    return (uint64_t)(rate / pool->rate.window_ns);
}

/* What the pool has to lend. */
static uint64_t spare_of(const struct shard *shard, const struct pool_owned *owned,
                         const struct policy_pool *pool, const struct sum *sum)
{
    const bool loaded = sum->load_ppm != PEER_LOAD_UNKNOWN && sum->load_ppm >= pool->load_max_ppm;
    if (is_learning(shard, owned) || is_lacking(shard, owned) || loaded)
        return 0;
    return sat_subu(rate_of(pool), sat_addu(sum->guaranteed, sum->held));
}

/* The levels, and what may be lent at all, and to all but the first class. */
static struct elastic_level pour(const struct shard *shard, const struct policy_pool *pool,
                                 uint64_t spare)
{
    const struct fair_share *fair_share = shard->pools.fair_share;
    struct elastic_level out = {.budget = spare, .spare = spare};
    const uint64_t reserve = sat_muldiv(rate_of(pool), pool->reserve_percent, 100);
    uint64_t left;
    out.level[0] = fair_share_level(&fair_share[0], spare, &left);
    const uint64_t used = spare - left; /* by the first class: of the reserve at first */
    uint64_t open = sat_subu(spare, used > reserve ? used : reserve);
    out.budget_open = open;
    for (uint32_t class = 1; class < LIMIT_CLASSES; class ++) {
        const uint64_t before = open;
        out.level[class] = fair_share_level(&fair_share[class], before, &open);
    }
    return out;
}

/* What the keys of some reports take at a level. */
struct taken {
    uint64_t all;
    uint64_t open; /* of this, all but those of the first class */
    uint32_t deciders;
};

static void add_taken(const struct elastic_report *report, const struct elastic_level *level,
                      struct taken *taken)
{
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++) {
        for (uint32_t i = 0; i < report->count[class]; i++) {
            const uint64_t tokens =
                fair_share_taken(&report->shares[class][i], level->level[class]);
            taken->all = sat_addu(taken->all, tokens);
            taken->open = sat_addu(taken->open, class == 0 ? 0 : tokens);
        }
    }
    taken->deciders++;
}

/* One leader's part of a budget: what its keys take, and its part of the rest. Where all keys take
 * more than there is, for the levels are of reports that were older, each gets so much less. */
static uint64_t part_of(uint64_t budget, uint64_t taken, uint64_t all, uint32_t deciders)
{
    return all > budget ? sat_muldiv(taken, budget, all) : taken + (budget - all) / deciders;
}

/* Whether a leader's report on the pool is here. */
static bool is_reporter(const struct shard *shard, uint32_t pool, uint16_t at)
{
    const struct pools *pools = &shard->pools;
    const struct pool_source source = {.peer = at};
    for (uint32_t i = 0; i < pools->entry_count; i++)
        if (is_of(&pools->entries[i], pool, &source))
            return true;
    return false;
}

/* Everybody else hears how the pool is doing, for people who ask there. */
static void tell_others(struct shard *shard, const struct peer_pool_level *told,
                        struct effects *effects)
{
    for (uint16_t at = 0; at < shard->peer_count; at++)
        if (!peers_gone(shard, at) && !is_reporter(shard, told->pool, at))
            peer_put_pool_level(peers_outbox(shard, at, PEER_RECORD_MAX, effects), told);
}

static void tell_one(struct shard *shard, const struct pool_source *source,
                     const struct peer_pool_level *told, struct effects *effects)
{
    if (source->region != 0)
        peer_put_pool_level(
            remote_outbox_of(shard, source->node, source->peer, PEER_RECORD_MAX, effects), told);
    else if (source->peer == PEER_NONE)
        elastic_set_level(shard->pools.elastic, told->pool, &told->level, shard->now_ns);
    else if (!peers_gone(shard, source->peer))
        peer_put_pool_level(peers_outbox(shard, source->peer, PEER_RECORD_MAX, effects), told);
}

/* Gives all who reported the levels, and each its part of the budget. */
static void tell_levels(struct shard *shard, struct pool_owned *owned,
                        const struct peer_pool_level *all, struct effects *effects)
{
    struct pools *pools = &shard->pools;
    struct taken sum = {.deciders = 0};
    know(shard, all);
    if (shard->now_ns - owned->told_all_ns >= POOLS_ALL_NS) {
        owned->told_all_ns = shard->now_ns;
        tell_others(shard, all, effects);
    }
    for (uint32_t i = 0; i < pools->entry_count; i++)
        if (pools->entries[i].report.pool == owned->id && is_fresh(shard, &pools->entries[i]))
            add_taken(&pools->entries[i].report, &all->level, &sum);
    for (uint32_t i = 0; i < pools->entry_count; i++) {
        struct pool_entry *entry = &pools->entries[i];
        struct peer_pool_level told = *all;
        struct taken taken = {.deciders = 0};
        if (entry->report.pool != owned->id || !is_fresh(shard, entry))
            continue;
        add_taken(&entry->report, &all->level, &taken);
        told.level.budget = part_of(all->level.budget, taken.all, sum.all, sum.deciders);
        told.level.budget_open =
            part_of(all->level.budget_open, taken.open, sum.open, sum.deciders);
        told.echo_ns = entry->sent_ns;
        entry->budget = told.level.budget;
        tell_one(shard, &entry->source, &told, effects);
    }
}

/* The owner of a pool of its own region, or of all. */
static void lend(struct shard *shard, struct pool_owned *owned, struct effects *effects)
{
    const struct policy_pool *pool = policy_of(shard, owned->id);
    if (pool == NULL)
        return; /* the rules here do not have it (yet): nothing is lent */
    const struct sum sum = add_up(shard, owned);
    const struct peer_pool_level told = {
        .pool = owned->id,
        .level = pour(shard, pool, spare_of(shard, owned, pool, &sum)),
        .guaranteed = sum.guaranteed,
        .borrowed = sum.borrowed,
        .load_ppm = sum.load_ppm,
    };
    tell_levels(shard, owned, &told, effects);
}

/* The owner in a region that is not the pool's home tells that one what is asked for here. */
static void tell_home(struct shard *shard, struct pool_owned *owned, struct effects *effects)
{
    struct pools *pools = &shard->pools;
    const struct peer_pool_origin origin = {.home = owned->home,
                                            .node = shard->options.node_id,
                                            .shard = shard->options.shard,
                                            .sent_ns = shard->now_ns};
    const struct sum sum = add_up(shard, owned);
    const bool idle = sum.deciders == 0 && sum.load_ppm == PEER_LOAD_UNKNOWN;
    if (is_learning(shard, owned) || is_lacking(shard, owned) ||
        (idle && shard->now_ns - owned->told_home_ns < POOLS_IDLE_NS))
        return; /* POOLS-8, POOLS-3, POOLS-9 */
    struct bytes_writer *outbox = remote_outbox(shard, owned->home, PEER_REPORT_MAX, effects);
    if (outbox == NULL)
        return; /* POOLS-6 */
    owned->told_home_ns = shard->now_ns;
    pools->report.pool = owned->id;
    pools->report.guaranteed = sum.guaranteed;
    pools->report.borrowed = sum.borrowed;
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
        pools->report.count[class] = (uint32_t)fair_share_summary(
            &pools->fair_share[class], owned->near[class], pools->report.shares[class]);
    const uint32_t load_ms = left_ms(shard, owned->load_until_ns);
    peer_put_pool_report(outbox, &origin, &pools->report, load_ms == 0 ? 0 : owned->load_ppm,
                         load_ms);
}

void pools_level_remote(struct shard *shard, uint64_t region, const struct peer_pool_level *told,
                        struct effects *effects)
{
    struct pool_owned *owned = place_of(shard, told->pool);
    const int64_t way_ns = shard->now_ns - told->echo_ns;
    struct peer_pool_level all = *told;
    if (owned == NULL || owned->id != told->pool || owned->home != region ||
        home_of(shard, told->pool) != region || !owns(shard, told->pool)) /* POOLS-5 */
        return;
    if (told->echo_ns < owned->since_ns || way_ns < 0 || way_ns >= POOLS_WAY_NS) /* POOLS-7 */
        return;
    all.echo_ns = 0;
    memcpy(owned->near, told->level.level, sizeof owned->near);
    tell_levels(shard, owned, &all, effects);
}

void pools_tick(struct shard *shard, struct effects *effects)
{
    struct pools *pools = &shard->pools;
    if (shard->now_ns < pools->next_ns)
        return;
    pools->last_ns = shard->now_ns;
    pools->next_ns = shard->now_ns + POOLS_EVERY_NS;
    own_global(shard);
    send_reports(shard, effects);
    forget_old(shard);
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++) {
        struct pool_owned *owned = &pools->owned[i];
        if (owned->id == 0)
            continue;
        if (owned->home == 0 || owned->home == shard->remote.own)
            lend(shard, owned, effects);
        else
            tell_home(shard, owned, effects);
    }
}

void pools_stats(const struct shard *shard, struct shard_stats *out)
{
    const struct policy *policy = shard->policies[shard->policy].policy;
    struct elastic_stats stats;
    elastic_stats(shard->pools.elastic, &stats);
    out->pools_lent = stats.lent;
    out->pools_refused = stats.refused;
    out->pools_no_room = stats.no_room;
    out->pools_keys = stats.keys;
    out->pools_reports_dropped = shard->pools.reports_dropped;
    out->pool_count = (uint32_t)policy_pool_count(policy);
    for (uint32_t i = 0; i < out->pool_count; i++) {
        const struct policy_pool *pool = policy_pool_at(policy, i);
        (void)pools_known(shard, pool->id, &out->pools[i]);
        (void)snprintf(out->pools[i].home, sizeof out->pools[i].home, "%s",
                       remote_pool_home_name(shard, pool));
    }
}

static void check_owned(const struct pools *pools)
{
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++)
        for (uint32_t k = 0; k < i && pools->owned[i].id != 0; k++)
            INVARIANT("POOLS-11", pools->owned[k].id != pools->owned[i].id);
}

void pools_check_invariants(const struct shard *shard)
{
    const struct pools *pools = &shard->pools;
    INVARIANT("POOLS-3", pools->entry_count <= POOLS_REPORTS_MAX);
    check_owned(pools);
    for (uint32_t i = 0; i < pools->entry_count; i++) {
        const struct pool_entry *entry = &pools->entries[i];
        INVARIANT("POOLS-1", entry->at_ns <= shard->now_ns);
        for (uint32_t k = 0; k < i; k++)
            INVARIANT("POOLS-1", !is_of(&pools->entries[i], pools->entries[k].report.pool,
                                        &pools->entries[k].source));
    }
    elastic_check_invariants(pools->elastic);
}
