/* elastic.c - second meters, budgets and what is measured for reports; see elastic.h.
 *
 *   keys    | live 0 .. count |            dense; the last one fills the place of one that goes
 *   index   id -> key + 1, open addressing, at most half full
 *   pool    heads the chain of its keys
 *
 * Measuring. What was asked for is added up in buckets of 50 ms; a rate is the sum of the ten whole
 * buckets before the present one. So a rate is of what is over, the same whenever in a bucket it is
 * asked for, and it is all new half a second after a change.
 *
 *   rate of   | b | b | b | b | b | b | b | b | b | b | present |
 *             |<------------- 500 ms ---------------->|
 *
 * Metering. A credit grows with time and is spent by requests. One that costs more than can be
 * saved up is lent when all that can be is there, and leaves a debt. A key that is new has part of
 * a token by chance, so that thousands of new keys with shares of less than a token do not all
 * borrow at once, nor all wait.
 *
 * A pool has three meters: of all its keys, of those that are not of the first class; and each key
 * has its own. A request borrows if all that concern it have credit.
 */
#include "node/limit/engine/elastic.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"

enum {
    INDEX_LEN = 2 * ELASTIC_KEYS_MAX,
    NONE = UINT32_MAX,
    PERCENT = 100,
    /* Can always be saved up of a budget: several shares of less than one; and requests that are
     * even on average come in bunches. */
    BUDGET_TOKENS_MIN = 5,
};
#define NANO     INT64_C(1000000000)
#define NS_S     INT64_C(1000000000)
#define COST_MAX UINT64_C(1000000000) /* in nanotokens it fits a credit */

static_assert((INDEX_LEN & (INDEX_LEN - 1)) == 0, "the index is a power of two long");
static_assert(FAIR_SHARE_RATE_MAX / (uint64_t)NANO == COST_MAX, "a rate is at most 10^9 tokens");

/* What was counted in the last buckets, and in the present one. */
struct measure {
    int64_t bucket;                     /* the present one: its number since 1970 */
    uint64_t sums[ELASTIC_BUCKETS + 1]; /* of bucket b at b % (ELASTIC_BUCKETS + 1) */
};

struct meter {
    int64_t credit; /* nanotokens; negative: a debt */
    int64_t at_ns;
};

struct key {
    struct hash128 id;
    uint32_t pool; /* index */
    uint32_t next; /* in its pool's chain */
    uint32_t before;
    uint16_t weight;
    uint8_t class;
    uint64_t ceiling; /* what it may borrow at most, a rate */
    struct meter meter;
    struct measure asked;
};

struct pool {
    uint32_t id; /* 0: free */
    uint32_t first;
    int64_t used_ns;  /* something was admitted or asked for last */
    int64_t level_ns; /* when the level came; 0: none did */
    struct elastic_level level;
    struct meter all;
    struct meter open;
    struct measure guaranteed;
    struct measure borrowed;
};

struct elastic {
    const struct allocator *allocator;
    struct elastic_stats stats;
    struct pool pools[ELASTIC_POOLS_MAX];
    uint32_t pools_end;
    uint32_t pool_last; /* found last */
    uint32_t count;
    struct key keys[ELASTIC_KEYS_MAX];
    uint32_t index[INDEX_LEN];
    struct fair_share fair_share[LIMIT_CLASSES]; /* scratch of reports */
};

int elastic_new(struct elastic **out, const struct allocator *allocator)
{
    *out = alloc_get(allocator, sizeof **out);
    if (*out == NULL)
        return TG_ENOMEM;
    (*out)->allocator = allocator;
    return 0;
}

void elastic_free(struct elastic **elastic)
{
    if (*elastic != NULL)
        alloc_put((*elastic)->allocator, *elastic, sizeof **elastic);
    *elastic = NULL;
}

void elastic_stats(const struct elastic *elastic, struct elastic_stats *stats)
{
    *stats = elastic->stats;
    stats->keys = elastic->count;
    for (uint32_t i = 0; i < elastic->pools_end; i++)
        stats->pools += elastic->pools[i].id != 0;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int64_t bucket_at(int64_t now_ns)
{
    return now_ns / ELASTIC_BUCKET_NS;
}

static void measure_turn(struct measure *measure, int64_t now_ns)
{
    const int64_t bucket = bucket_at(now_ns);
    if (bucket - measure->bucket > ELASTIC_BUCKETS) {
        memset(measure->sums, 0, sizeof measure->sums);
        measure->bucket = bucket;
    }
    while (measure->bucket < bucket)
        measure->sums[++measure->bucket % (ELASTIC_BUCKETS + 1)] = 0;
}

static void measure_add(struct measure *measure, uint64_t tokens, int64_t now_ns)
{
    measure_turn(measure, now_ns);
    uint64_t *sum = &measure->sums[measure->bucket % (ELASTIC_BUCKETS + 1)];
    *sum = sat_addu(*sum, tokens);
}

/* Takes off what was added a moment ago: from the newest buckets that have it. */
static void measure_sub(struct measure *measure, uint64_t tokens, int64_t now_ns)
{
    measure_turn(measure, now_ns);
    for (int64_t back = 0; back <= ELASTIC_BUCKETS && tokens > 0; back++) {
        const int64_t at = measure->bucket + ELASTIC_BUCKETS + 1 - back;
        uint64_t *sum = &measure->sums[at % (ELASTIC_BUCKETS + 1)];
        const uint64_t part = *sum < tokens ? *sum : tokens;
        *sum -= part;
        tokens -= part;
    }
}

/* As a rate. */
static uint64_t measure_rate(struct measure *measure, int64_t now_ns)
{
    uint64_t sum = 0;
    measure_turn(measure, now_ns);
    for (int64_t back = 1; back <= ELASTIC_BUCKETS; back++)
        sum = sat_addu(
            sum,
            measure->sums[(measure->bucket + ELASTIC_BUCKETS + 1 - back) % (ELASTIC_BUCKETS + 1)]);
    const uint64_t rate = sat_muldiv(sum, (uint64_t)(NANO * (NS_S / ELASTIC_SPAN_NS)), 1);
    return rate < FAIR_SHARE_RATE_MAX ? rate : FAIR_SHARE_RATE_MAX;
}

/* ---- meters ---------------------------------------------------------------------------------- */

/* What can be saved up at that rate. */
static int64_t meter_room(uint64_t rate, int64_t slack_ns, int64_t tokens_min)
{
    const int64_t room = (int64_t)sat_muldiv(rate, (uint64_t)slack_ns, (uint64_t)NS_S);
    return room > tokens_min * NANO ? room : tokens_min * NANO;
}

static void meter_fill(struct meter *meter, uint64_t rate, int64_t room, int64_t now_ns)
{
    if (now_ns > meter->at_ns) {
        const uint64_t grown = sat_muldiv(rate, (uint64_t)(now_ns - meter->at_ns), (uint64_t)NS_S);
        const bool full = grown > INT64_MAX || sat_add(meter->credit, (int64_t)grown) > room;
        meter->credit = full ? room : meter->credit + (int64_t)grown;
        meter->at_ns = now_ns;
    }
    if (meter->credit > room)
        meter->credit = room; /* the rate is lower than it was */
}

/* Tokens that the meter lets go: all of `cost`, or as many as are there. */
static uint64_t meter_grants(const struct meter *meter, uint64_t cost, int64_t room)
{
    const int64_t wanted = (int64_t)cost * NANO;
    if (meter->credit >= (wanted < room ? wanted : room))
        return cost;
    return meter->credit <= 0 ? 0 : (uint64_t)(meter->credit / NANO);
}

/* ---- pools and keys -------------------------------------------------------------------------- */

static uint32_t pool_find(const struct elastic *elastic, uint32_t id)
{
    if (elastic->pools[elastic->pool_last].id == id)
        return elastic->pool_last;
    for (uint32_t i = 0; i < elastic->pools_end; i++)
        if (elastic->pools[i].id == id)
            return i;
    return NONE;
}

/* The pool, made if it is new; NONE if there is no room. */
static uint32_t pool_use(struct elastic *elastic, uint32_t id, int64_t now_ns)
{
    uint32_t at = pool_find(elastic, id);
    for (uint32_t i = 0; at == NONE && i < ELASTIC_POOLS_MAX; i++) {
        if (elastic->pools[i].id != 0)
            continue;
        at = i;
        elastic->pools[at] = (struct pool){.id = id, .first = NONE};
        if (elastic->pools_end <= at)
            elastic->pools_end = at + 1;
    }
    if (at == NONE)
        return NONE;
    elastic->pool_last = at;
    elastic->pools[at].used_ns = now_ns;
    return at;
}

static uint32_t home_of(struct hash128 id)
{
    return (uint32_t)hash_mix64(id.lo ^ id.hi) & (INDEX_LEN - 1);
}

static uint32_t index_place(const struct elastic *elastic, struct hash128 id)
{
    uint32_t at = home_of(id);
    while (elastic->index[at] != 0 && !hash128_equal(elastic->keys[elastic->index[at] - 1].id, id))
        at = (at + 1) & (INDEX_LEN - 1);
    return at;
}

static void index_remove(struct elastic *elastic, struct hash128 id)
{
    uint32_t hole = index_place(elastic, id);
    ASSERT(elastic->index[hole] != 0); /* ELASTIC-5 */
    for (uint32_t at = (hole + 1) & (INDEX_LEN - 1); elastic->index[at] != 0;
         at = (at + 1) & (INDEX_LEN - 1)) {
        const uint32_t home = home_of(elastic->keys[elastic->index[at] - 1].id);
        if (((at - home) & (INDEX_LEN - 1)) >= ((at - hole) & (INDEX_LEN - 1))) {
            elastic->index[hole] = elastic->index[at];
            hole = at;
        }
    }
    elastic->index[hole] = 0;
}

static void chain_add(struct elastic *elastic, uint32_t at)
{
    struct key *key = &elastic->keys[at];
    struct pool *pool = &elastic->pools[key->pool];
    key->before = NONE;
    key->next = pool->first;
    if (pool->first != NONE)
        elastic->keys[pool->first].before = at;
    pool->first = at;
}

static void chain_remove(struct elastic *elastic, uint32_t at)
{
    const struct key *key = &elastic->keys[at];
    ASSERT(key->before != NONE || elastic->pools[key->pool].first == at); /* ELASTIC-5 */
    if (key->next != NONE)
        elastic->keys[key->next].before = key->before;
    if (key->before != NONE)
        elastic->keys[key->before].next = key->next;
    else
        elastic->pools[key->pool].first = key->next;
}

static void key_remove(struct elastic *elastic, uint32_t at)
{
    ASSERT(at < elastic->count);
    const uint32_t last = elastic->count - 1;
    chain_remove(elastic, at);
    index_remove(elastic, elastic->keys[at].id);
    if (at != last) {
        struct key *key = &elastic->keys[at];
        const uint32_t place = index_place(elastic, elastic->keys[last].id);
        *key = elastic->keys[last]; /* and keeps its place in its chain */
        elastic->index[place] = at + 1;
        if (key->next != NONE)
            elastic->keys[key->next].before = at;
        if (key->before != NONE)
            elastic->keys[key->before].next = at;
        else
            elastic->pools[key->pool].first = at;
    }
    elastic->count--;
}

static uint64_t ceiling_of(const struct limit *limit)
{
    if (limit->ceiling_percent == 0)
        return FAIR_SHARE_RATE_MAX;
    const unsigned __int128 above =
        (unsigned __int128)limit->count * (limit->ceiling_percent - PERCENT);
    const unsigned __int128 rate = above * (uint64_t)NANO / PERCENT;
    const unsigned __int128 most = (unsigned __int128)FAIR_SHARE_RATE_MAX * limit->window_ns / NS_S;
    return rate > most ? FAIR_SHARE_RATE_MAX : (uint64_t)(rate * NS_S / limit->window_ns);
}

/* The key's entry, made if it is new and may be; NULL if there is none. */
static struct key *key_use(struct elastic *elastic, const struct limit *limit, uint32_t pool,
                           struct hash128 id, bool make, int64_t now_ns)
{
    const uint32_t place = index_place(elastic, id);
    if (elastic->index[place] == 0) {
        if (!make || elastic->count == ELASTIC_KEYS_MAX)
            return NULL;
        const uint32_t at = elastic->count++;
        elastic->keys[at] = (struct key){
            .id = id,
            .pool = pool,
            .meter = {.credit = (int64_t)(hash_mix64(id.lo) % (uint64_t)NANO), .at_ns = now_ns},
        };
        elastic->index[place] = at + 1;
        chain_add(elastic, at);
    }
    const uint32_t at = elastic->index[place] - 1;
    ASSERT(at < elastic->count && pool < elastic->pools_end); /* ELASTIC-5 */
    struct key *key = &elastic->keys[at];
    if (key->pool != pool) { /* the rule has changed */
        chain_remove(elastic, at);
        key->pool = pool;
        chain_add(elastic, at);
    }
    key->weight = limit->weight;
    key->class = limit->class;
    key->ceiling = ceiling_of(limit);
    return key;
}

/* ---- lending --------------------------------------------------------------------------------- */

void elastic_admitted(struct elastic *elastic, const struct limit *limit, uint64_t cost,
                      int64_t now_ns)
{
    const uint32_t at = pool_use(elastic, limit->pool, now_ns);
    if (at != NONE)
        measure_add(&elastic->pools[at].guaranteed, cost, now_ns);
}

void elastic_unadmitted(struct elastic *elastic, const struct limit *limit, uint64_t cost,
                        int64_t now_ns)
{
    const uint32_t at = pool_find(elastic, limit->pool);
    if (at != NONE)
        measure_sub(&elastic->pools[at].guaranteed, cost, now_ns);
}

static bool level_holds(const struct pool *pool, int64_t now_ns)
{
    return pool->level_ns != 0 && now_ns - pool->level_ns < ELASTIC_LEVEL_NS; /* ELASTIC-1 */
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What all the meters let go, which are brought up to now. */
static uint64_t grant(struct pool *pool, struct key *key, uint64_t cost, int64_t now_ns)
{
    const struct elastic_level *level = &pool->level;
    uint64_t rate = sat_muldiv(level->level[key->class], key->weight, 1);
    rate = least(rate, key->ceiling);
    if (!level_holds(pool, now_ns) || rate == 0) {
        key->meter.at_ns = now_ns; /* nothing is saved up meanwhile */
        return 0;
    }
    rate = least(rate, FAIR_SHARE_RATE_MAX);
    int64_t room = meter_room(rate, ELASTIC_SLACK_NS, 1);
    meter_fill(&key->meter, rate, room, now_ns);
    uint64_t granted = meter_grants(&key->meter, cost, room);
    room = meter_room(level->budget, ELASTIC_BUDGET_SLACK_NS, BUDGET_TOKENS_MIN);
    meter_fill(&pool->all, level->budget, room, now_ns);
    granted = least(granted, meter_grants(&pool->all, cost, room));
    room = meter_room(level->budget_open, ELASTIC_BUDGET_SLACK_NS, BUDGET_TOKENS_MIN);
    meter_fill(&pool->open, level->budget_open, room, now_ns);
    if (key->class != 0)
        granted = least(granted, meter_grants(&pool->open, cost, room));
    return granted;
}

/* Takes tokens out of all the meters, or puts them back (a negative number). */
static void take(struct elastic *elastic, struct pool *pool, struct key *key, int64_t tokens)
{
    key->meter.credit -= tokens * NANO;
    pool->all.credit -= tokens * NANO;
    if (key->class != 0)
        pool->open.credit -= tokens * NANO;
    elastic->stats.lent += tokens > 0;
}

uint64_t elastic_lend(struct elastic *elastic, const struct limit *limit, struct hash128 id,
                      uint64_t cost, unsigned flags, int64_t now_ns)
{
    const bool peek = (flags & ELASTIC_PEEK) != 0;
    const uint32_t at =
        peek ? pool_find(elastic, limit->pool) : pool_use(elastic, limit->pool, now_ns);
    ASSERT(limit->pool != 0 && cost > 0);
    struct key *key = at == NONE ? NULL : key_use(elastic, limit, at, id, !peek, now_ns);
    if (key == NULL) {
        elastic->stats.no_room += !peek;
        elastic->stats.refused += !peek;
        return 0;
    }
    struct pool *pool = &elastic->pools[at];
    if (!peek)
        measure_add(&key->asked, cost, now_ns);
    const bool at_most = (flags & ELASTIC_AT_MOST) != 0;
    const uint64_t most = least(COST_MAX, pool->level.spare / (uint64_t)NANO + 1);
    uint64_t granted = grant(pool, key, least(cost, most), now_ns);
    if (granted < cost && !at_most)
        granted = 0; /* so is what costs more than the whole pool has in a second */
    if (peek)
        return granted;
    if (granted == 0) {
        elastic->stats.refused++;
        return 0;
    }
    take(elastic, pool, key, (int64_t)granted);
    measure_add(&pool->borrowed, granted, now_ns);
    return granted;
}

void elastic_give_back(struct elastic *elastic, const struct limit *limit, struct hash128 id,
                       uint64_t tokens, int64_t now_ns)
{
    const uint32_t at = pool_find(elastic, limit->pool);
    struct key *key = at == NONE ? NULL : key_use(elastic, limit, at, id, false, now_ns);
    if (key == NULL || tokens > COST_MAX)
        return;
    take(elastic, &elastic->pools[at], key, -(int64_t)tokens);
    measure_sub(&elastic->pools[at].borrowed, tokens, now_ns);
}

void elastic_set_level(struct elastic *elastic, uint32_t id, const struct elastic_level *level,
                       int64_t now_ns)
{
    const uint32_t at = pool_find(elastic, id);
    if (at == NONE || id == 0)
        return;
    struct pool *pool = &elastic->pools[at];
    if (!level_holds(pool, now_ns)) { /* nothing was saved up before */
        pool->all.at_ns = now_ns;
        pool->open.at_ns = now_ns;
    }
    pool->level = *level;
    pool->level_ns = now_ns;
}

bool elastic_level(const struct elastic *elastic, uint32_t id, int64_t now_ns,
                   struct elastic_level *level)
{
    const uint32_t at = pool_find(elastic, id);
    const bool holds = at != NONE && id != 0 && level_holds(&elastic->pools[at], now_ns);
    *level = holds ? elastic->pools[at].level : (struct elastic_level){.spare = 0};
    return holds;
}

/* ---- reports --------------------------------------------------------------------------------- */

bool elastic_knows(const struct elastic *elastic, uint32_t id)
{
    return id != 0 && pool_find(elastic, id) != NONE;
}

uint32_t elastic_pools(const struct elastic *elastic)
{
    return elastic->pools_end;
}

/* Adds up what the keys ask for, and lets go those that ask for nothing any more. */
static void gather(struct elastic *elastic, struct pool *pool, int64_t now_ns)
{
    uint32_t at = pool->first;
    for (uint32_t i = 0; i < LIMIT_CLASSES; i++)
        fair_share_clear(&elastic->fair_share[i]);
    while (at != NONE) {
        struct key *key = &elastic->keys[at];
        const uint64_t asked = least(measure_rate(&key->asked, now_ns), key->ceiling);
        const uint32_t next = key->next;
        const uint32_t last = elastic->count - 1;
        if (asked > 0)
            fair_share_add(&elastic->fair_share[key->class], key->weight, asked);
        if (asked > 0 || now_ns - key->meter.at_ns < ELASTIC_IDLE_NS) {
            at = next;
            continue;
        }
        key_remove(elastic, at); /* ELASTIC-3 */
        at = next == last ? at : next;
    }
}

bool elastic_report(struct elastic *elastic, uint32_t index, int64_t now_ns,
                    struct elastic_report *report)
{
    struct pool *pool = &elastic->pools[index];
    if (pool->id == 0)
        return false;
    gather(elastic, pool, now_ns);
    report->pool = pool->id;
    report->guaranteed = measure_rate(&pool->guaranteed, now_ns);
    report->borrowed = measure_rate(&pool->borrowed, now_ns);
    struct elastic_level level;
    (void)elastic_level(elastic, pool->id, now_ns, &level);
    for (uint32_t i = 0; i < LIMIT_CLASSES; i++)
        report->count[i] = (uint32_t)fair_share_summary(&elastic->fair_share[i], level.level[i],
                                                        report->shares[i]);
    const bool idle = now_ns - pool->used_ns >= ELASTIC_IDLE_NS && pool->first == NONE;
    if (idle)
        pool->id = 0;
    return !idle;
}

void elastic_check_invariants(const struct elastic *elastic)
{
    uint32_t chained = 0;
    uint32_t indexed = 0;
    INVARIANT("ELASTIC-4", elastic->count <= ELASTIC_KEYS_MAX);
    INVARIANT("ELASTIC-4", elastic->pools_end <= ELASTIC_POOLS_MAX);
    for (uint32_t i = 0; i < elastic->pools_end; i++) {
        uint32_t before = NONE;
        if (elastic->pools[i].id == 0)
            continue;
        for (uint32_t at = elastic->pools[i].first; at != NONE; at = elastic->keys[at].next) {
            INVARIANT("ELASTIC-5", at < elastic->count && elastic->keys[at].pool == i);
            INVARIANT("ELASTIC-5", elastic->keys[at].before == before);
            before = at;
            chained++;
        }
    }
    for (uint32_t at = 0; at < elastic->count; at++) {
        const uint32_t place = index_place(elastic, elastic->keys[at].id);
        INVARIANT("ELASTIC-5", elastic->index[place] == at + 1);
    }
    for (uint32_t place = 0; elastic->pools_end > 0 && place < INDEX_LEN; place++)
        indexed += elastic->index[place] != 0;
    INVARIANT("ELASTIC-5", chained == elastic->count && indexed == elastic->count);
}
