/* pools.c - reports of pools to their owners, and levels back; pools.h shows the way.
 *
 * The owner adds up what all deciders admit inside limits. What the pool's rate has beyond that is
 * spare, unless the service that the pool protects says that it is loaded enough. It is poured out
 * class by class (water.h):
 *
 *      spare  |<- reserve ->|<----------------- open to all ----------------->|
 *             | critical ............ |  normal ............ |  batch ....... | left
 *
 * A decider gets the levels and a budget: what its keys take at these levels, and its part of what
 * nobody asked for. All budgets together are the spare; so it is never lent twice, however demand
 * moves until the next level.
 *
 * L1  A level is made of reports younger than POOLS_FRESH_NS, one of each decider.
 * L2  Who has become the owner tells no level for POOLS_LEARN_NS: by then each decider that has
 *     anything to tell has told it, and levels of a former owner are void.
 * L3  A report there was no room for stops lending of its pool: what it would have said may be that
 *     nothing is spare.
 * L4  A load is believed for as long as it was told to be, though who told it dies: it is the
 *     owner's to keep, not the report's. It is told at once, but not more often than each
 *     POOLS_SOON_NS.
 * L5  A level is taken only from the decider of the pool's vnode, as far as this shard knows.
 */
#include "node/cluster/pools.h"

#include <assert.h>
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
#define NANO           UINT64_C(1000000000)

static_assert(POOLS_LEARN_NS >= ELASTIC_LEVEL_NS, "a former owner's levels are void (L2)");
static_assert(POOLS_FRESH_NS >= 2 * POOLS_EVERY_NS, "one lost report is no silence");
static_assert(2 * POOLS_EVERY_NS < ELASTIC_LEVEL_NS, "one lost level does not end borrowing");
static_assert((int)POLICY_POOLS_MAX == (int)ELASTIC_POOLS_MAX, "each pool has its place");
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

/* ---- what a decider does --------------------------------------------------------------------- */

void pools_load(struct shard *shard, uint32_t pool, uint32_t load_ppm)
{
    struct pool_load *place = &shard->pools.loads[0];
    for (uint32_t i = 0; i < POLICY_POOLS_MAX && place->id != pool; i++) {
        struct pool_load *load = &shard->pools.loads[i];
        if (load->id == pool || load->until_ns < place->until_ns)
            place = load; /* or the oldest: the rules have had other pools */
    }
    *place = (struct pool_load){pool, load_ppm, shard->now_ns + POOLS_LOAD_NS};
    const int64_t soon_ns = shard->pools.last_ns + POOLS_SOON_NS;
    if (soon_ns < shard->pools.next_ns)
        shard->pools.next_ns = soon_ns; /* L4 */
}

static const struct pool_load *load_of(const struct shard *shard, uint32_t pool)
{
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++)
        if (shard->pools.loads[i].id == pool && shard->pools.loads[i].until_ns > shard->now_ns)
            return &shard->pools.loads[i];
    return NULL;
}

static struct pool_entry *entry_of(struct shard *shard, uint32_t pool, uint16_t peer)
{
    struct pools *pools = &shard->pools;
    for (uint32_t i = 0; i < pools->entry_count; i++)
        if (pools->entries[i].report.pool == pool && pools->entries[i].peer == peer)
            return &pools->entries[i];
    if (pools->entry_count == POOLS_REPORTS_MAX)
        return NULL;
    return &pools->entries[pools->entry_count++];
}

static struct pool_owned *owned_of(struct shard *shard, uint32_t pool)
{
    struct pool_owned *place = NULL;
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++) {
        struct pool_owned *owned = &shard->pools.owned[i];
        if (owned->id == pool)
            return owned;
        if (owned->id == 0 && place == NULL)
            place = owned;
    }
    if (place != NULL)
        *place = (struct pool_owned){.id = pool, .since_ns = shard->now_ns};
    return place;
}

/* The load told last counts: it is valid longest (L4). */
static void keep_load(struct shard *shard, uint32_t pool, uint32_t ppm, int64_t until_ns)
{
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

/* A place for a report of that peer, if the pool is owned here and there is room (L3). */
static struct pool_entry *take_entry(struct shard *shard, uint32_t pool, uint16_t peer)
{
    struct pool_owned *owned = owns(shard, pool) ? owned_of(shard, pool) : NULL;
    if (owned == NULL)
        return NULL;
    struct pool_entry *entry = entry_of(shard, pool, peer);
    if (entry == NULL) {
        owned->lacking_ns = shard->now_ns;
        shard->pools.reports_dropped++;
        return NULL;
    }
    entry->peer = peer;
    entry->at_ns = shard->now_ns;
    return entry;
}

/* Brings the report to the pool's owner, be that this shard. */
static void tell_owner(struct shard *shard, const struct elastic_report *report,
                       struct effects *effects)
{
    uint16_t at;
    const enum route route = vnodes_route(shard, vnode_of(shard, report->pool), &at);
    const struct pool_load *load = load_of(shard, report->pool);
    if (route == ROUTE_HERE) {
        struct pool_entry *entry = take_entry(shard, report->pool, PEER_NONE);
        if (entry == NULL)
            return;
        entry->report = *report;
        if (load != NULL)
            keep_load(shard, report->pool, load->ppm, load->until_ns);
    } else if (route == ROUTE_PEER) {
        const uint32_t left_ms =
            load == NULL ? 0 : (uint32_t)((load->until_ns - shard->now_ns) / MS + 1);
        peer_put_pool_report(peers_outbox(shard, at, PEER_REPORT_MAX, effects), report,
                             load == NULL ? 0 : load->ppm, left_ms);
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
    if (vnodes_decider(shard, vnode_of(shard, told->pool)) != shard->peers[at]->node) /* L5 */
        return;
    elastic_set_level(shard->pools.elastic, told->pool, &told->level, shard->now_ns);
    know(shard, told);
}

/* ---- what the owner does --------------------------------------------------------------------- */

void pools_reported(struct shard *shard, uint16_t at, const struct peer_pool_report *told)
{
    struct bytes_reader shares = told->shares;
    struct pool_entry *entry = take_entry(shard, told->pool, at);
    if (entry == NULL)
        return;
    struct elastic_report *report = &entry->report;
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
    const int64_t load_ns = told->load_ms * MS < POOLS_LOAD_NS ? told->load_ms * MS : POOLS_LOAD_NS;
    if (load_ns > 0)
        keep_load(shard, told->pool, told->load_ppm, shard->now_ns + load_ns);
}

/* Lets go reports that are old (L1), and what is owned here no more, or has none. */
static void forget_old(struct shard *shard)
{
    struct pools *pools = &shard->pools;
    for (uint32_t i = pools->entry_count; i-- > 0;)
        if (shard->now_ns - pools->entries[i].at_ns >= POOLS_FRESH_NS)
            pools->entries[i] = pools->entries[--pools->entry_count];
    for (uint32_t k = 0; k < POLICY_POOLS_MAX; k++) {
        struct pool_owned *owned = &pools->owned[k];
        bool reported = false;
        for (uint32_t i = 0; i < pools->entry_count && !reported; i++)
            reported = pools->entries[i].report.pool == owned->id;
        if (owned->id != 0 && (!reported || !owns(shard, owned->id)))
            owned->id = 0; /* to learn anew, if it comes back (L2) */
    }
}

/* What is known of one pool, all reports taken together. */
struct sum {
    uint64_t guaranteed;
    uint64_t borrowed;
    uint32_t deciders; /* that reported */
    uint32_t load_ppm;
};

static struct sum add_up(struct shard *shard, const struct pool_owned *owned)
{
    struct pools *pools = &shard->pools;
    const bool told = owned->load_until_ns > shard->now_ns;
    struct sum sum = {.load_ppm = told ? owned->load_ppm : PEER_LOAD_UNKNOWN};
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
        water_clear(&pools->water[class]);
    for (uint32_t i = 0; i < pools->entry_count; i++) {
        const struct pool_entry *entry = &pools->entries[i];
        if (entry->report.pool != owned->id)
            continue;
        sum.guaranteed = sat_addu(sum.guaranteed, entry->report.guaranteed);
        sum.borrowed = sat_addu(sum.borrowed, entry->report.borrowed);
        sum.deciders++;
        for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
            for (uint32_t k = 0; k < entry->report.count[class]; k++)
                water_add(&pools->water[class], entry->report.shares[class][k].weight,
                          entry->report.shares[class][k].ask);
    }
    return sum;
}

/* What the pool has to lend. */
static uint64_t spare_of(const struct shard *shard, const struct pool_owned *owned,
                         const struct policy_pool *pool, const struct sum *sum)
{
    const bool learns = shard->now_ns - owned->since_ns < POOLS_LEARN_NS;
    const bool lacks = owned->lacking_ns != 0 && shard->now_ns - owned->lacking_ns < POOLS_FRESH_NS;
    const bool loaded = sum->load_ppm != PEER_LOAD_UNKNOWN && sum->load_ppm >= pool->load_max_ppm;
    if (learns || lacks || loaded)
        return 0;
    const unsigned __int128 rate = (unsigned __int128)pool->rate.count * NANO * NANO;
    return sat_subu((uint64_t)(rate / pool->rate.window_ns), sum->guaranteed);
}

/* The levels, and what is left, of all and of what is open to all classes. */
struct pouring {
    struct elastic_level level;
    uint64_t left;
    uint64_t left_open;
};

static struct pouring pour(const struct shard *shard, const struct policy_pool *pool,
                           uint64_t spare)
{
    const struct water *water = shard->pools.water;
    struct pouring out = {.level = {.spare = spare}};
    const unsigned __int128 rate = (unsigned __int128)pool->rate.count * NANO * NANO;
    const uint64_t reserve =
        sat_muldiv((uint64_t)(rate / pool->rate.window_ns), pool->reserve_percent, 100);
    uint64_t left;
    out.level.level[0] = water_level(&water[0], spare, &left);
    const uint64_t used = spare - left; /* by the first class: of the reserve at first */
    uint64_t open = sat_subu(spare, used > reserve ? used : reserve);
    out.left = left;
    for (uint32_t class = 1; class < LIMIT_CLASSES; class ++) {
        const uint64_t before = open;
        out.level.level[class] = water_level(&water[class], before, &open);
        out.left -= before - open;
    }
    out.left_open = open;
    return out;
}

/* What one decider may lend: what its keys take at the levels, and its part of the rest. */
static void set_budget(const struct elastic_report *report, const struct pouring *pouring,
                       uint32_t deciders, struct elastic_level *level)
{
    uint64_t first = 0;
    uint64_t open = 0;
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++) {
        uint64_t *taken = class == 0 ? &first : &open;
        for (uint32_t i = 0; i < report->count[class]; i++)
            *taken = sat_addu(*taken,
                              water_taken(&report->shares[class][i], pouring->level.level[class]));
    }
    level->budget = sat_addu(sat_addu(first, open), pouring->left / deciders);
    level->budget_open = sat_addu(open, pouring->left_open / deciders);
    level->budget = level->budget < level->spare ? level->budget : level->spare;
    level->budget_open = level->budget_open < level->spare ? level->budget_open : level->spare;
}

/* Whether a decider's report on the pool is here. */
static bool is_reporter(const struct shard *shard, uint32_t pool, uint16_t at)
{
    const struct pools *pools = &shard->pools;
    for (uint32_t i = 0; i < pools->entry_count; i++)
        if (pools->entries[i].report.pool == pool && pools->entries[i].peer == at)
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

static void tell_levels(struct shard *shard, struct pool_owned *owned, struct effects *effects)
{
    struct pools *pools = &shard->pools;
    const struct policy_pool *pool = policy_of(shard, owned->id);
    if (pool == NULL)
        return; /* the rules here do not have it (yet): nothing is lent */
    const struct sum sum = add_up(shard, owned);
    const uint64_t spare = spare_of(shard, owned, pool, &sum);
    const struct pouring pouring = pour(shard, pool, spare);
    struct peer_pool_level told = {
        .pool = owned->id,
        .level = pouring.level,
        .guaranteed = sum.guaranteed,
        .borrowed = sum.borrowed,
        .load_ppm = sum.load_ppm,
    };
    know(shard, &told);
    if (shard->now_ns - owned->told_all_ns >= POOLS_ALL_NS) {
        owned->told_all_ns = shard->now_ns;
        tell_others(shard, &told, effects);
    }
    for (uint32_t i = 0; i < pools->entry_count; i++) {
        const struct pool_entry *entry = &pools->entries[i];
        if (entry->report.pool != owned->id)
            continue;
        set_budget(&entry->report, &pouring, sum.deciders, &told.level);
        if (entry->peer == PEER_NONE)
            elastic_set_level(pools->elastic, owned->id, &told.level, shard->now_ns);
        else if (!peers_gone(shard, entry->peer))
            peer_put_pool_level(peers_outbox(shard, entry->peer, PEER_RECORD_MAX, effects), &told);
    }
}

void pools_tick(struct shard *shard, struct effects *effects)
{
    struct pools *pools = &shard->pools;
    if (shard->now_ns < pools->next_ns)
        return;
    pools->last_ns = shard->now_ns;
    pools->next_ns = shard->now_ns + POOLS_EVERY_NS;
    send_reports(shard, effects);
    forget_old(shard);
    for (uint32_t i = 0; i < POLICY_POOLS_MAX; i++)
        if (pools->owned[i].id != 0)
            tell_levels(shard, &pools->owned[i], effects);
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
    for (uint32_t i = 0; i < out->pool_count; i++)
        (void)pools_known(shard, policy_pool_at(policy, i)->id, &out->pools[i]);
}

void pools_check_invariants(const struct shard *shard)
{
    const struct pools *pools = &shard->pools;
    ASSERT(pools->entry_count <= POOLS_REPORTS_MAX);
    for (uint32_t i = 0; i < pools->entry_count; i++)
        for (uint32_t k = 0; k < i; k++) /* L1 */
            ASSERT(pools->entries[i].report.pool != pools->entries[k].report.pool ||
                   pools->entries[i].peer != pools->entries[k].peer);
    elastic_check_invariants(pools->elastic);
}
