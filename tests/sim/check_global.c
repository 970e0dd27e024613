/* check_global.c - limits that several regions share: what is counted at home, held and admitted.
 *
 * The keys of phase global are followed from outside: what the newest leader of a key's home has
 * counted, after each event in which that changed, and what every node holds of it. What is lost
 * with a leader - its successor opens a term on less - is known to the token, and is all that may
 * come on top of a limit.
 *
 *       home: |#### spent ####|== out on lease ==|   left   | <= limit + lost      SIMGLOBAL-1
 *     in another region:                  held: spent later            |
 *    clients: |## admitted ##|      + held                  | <= limit + lost      SIMGLOBAL-2
 *
 * SIMGLOBAL-1  At the home spent + leased <= limit, always; more only when what another writer had
 *              counted was added (merge.c). So it is where a region that is cut off decides by a
 *              share.
 * SIMGLOBAL-2  What clients were told as admitted, in all regions, and what nodes may still spend,
 *              is the limit at most: of a day, and of each short window. Answers that are marked as
 *              degraded are not among it.
 * SIMGLOBAL-3  A leader grants a lease only when it knows of every other one of its region's that
 *              somebody may still spend of: what is not in its state cannot be subtracted from the
 *              limit.
 * SIMGLOBAL-4  Of a bucket: in any interval no more than its burst and what was refilled.
 * SIMGLOBAL-7  Where a region that is cut off decides by a share, it admits that share, and what
 *              its lost leaders had counted of it, at most; and one more for each process that
 *              stood in for all of them (fallback.c), which counts by itself. All that was admitted
 *              of such a key, by its home and by shares, is its limit and those at most.
 *
 * When rules change, the old and the new ones are in force beside one another: a request that a
 * node has sent on carries the limits that the node knew, a lease cache those of the check that it
 * saw last (lessee.c), and a lease that was granted under the old ones may be spent until it ends.
 * So until SETTLE_MS after the last node has got the new rules
 *
 *   lowered, raised   the larger one of both limits is allowed: of SIMGLOBAL-1, SIMGLOBAL-2 and
 *                     SIMGLOBAL-4;
 *   home changed      each of the two homes may count up to the limit: such a key is counted anew.
 *
 * From then on (strict), when nothing of the old ones is left anywhere,
 *
 * SIMGLOBAL-8  the new limit alone counts: what the home has counted above it only falls (of a day;
 *              of short windows and buckets there is nothing above it any more), and at the old
 *              home nothing is counted any more: so both together are the limit and what the old
 *              one had counted by then.
 *
 * Clocks of leaders differ by twice SIM_OFFSET_MAX_MS at most, and by sim->clocks_ns where some
 * are off; so do the edges of windows, and for so long a bucket may have been refilled twice.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard/test_probe.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/limit/algorithms/leased.h"
#include "node/limit/engine/engine.h"
#include "node/limit/table/table.h"
#include "node/policy/model/policy.h"
#include "tests/sim/global.h"

enum {
    VNODE = 0,
    EDGE_MS = 3 * SIM_OFFSET_MAX_MS,
    CLOCKS_MS = 200,
    SETTLE_MS = 3000,     /* a lease that was asked for late, with what it is asked for again */
    SETTLE_MORE_MS = 3000 /* and then a window, or until a bucket has drained */
};

/* The simulator runs one seed at a time in a process. */
static struct table *scratch;

void check_global_end(void)
{
    table_free(&scratch);
}

static bool is_bucket(const struct global_key *key)
{
    return limit_has_burst(key->limit.algorithm);
}

static bool is_of_day(const struct global_key *key)
{
    return key->limit.window_ns > (uint64_t)GLOBAL_WINDOW_S * (uint64_t)SIM_SEC;
}

static bool is_short(const struct global_key *key)
{
    return !is_bucket(key) && !is_of_day(key);
}

static uint32_t number_of(const struct sim *sim, const struct global_key *key)
{
    return (uint32_t)(key - sim->global.keys);
}

/* By how much clocks are off, and what follows from it. */
static int64_t off_ms(const struct sim *sim)
{
    return (sim->clocks_ns < 0 ? -sim->clocks_ns : sim->clocks_ns) / SIM_MS;
}

static int64_t edge_ns(const struct sim *sim)
{
    return (EDGE_MS + off_ms(sim)) * SIM_MS;
}

/* ---- limits that change ---------------------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What a region may count of the key at present (SIMGLOBAL-8). */
static uint64_t most_of(const struct global_key *key, const struct global_count *count)
{
    const uint64_t now = limit_capacity(&count->limit);
    if (!key->strict)
        return larger(now, limit_capacity(&count->before));
    return larger(now, count->most);
}

/* What all homes may, as clients see it: of a moment, or of a window or an interval from then on.
 */
static uint64_t all_of(const struct global_key *key, bool strict)
{
    uint64_t sum = 0;
    for (uint32_t region = 0; region < SIM_REGIONS_MAX; region++) {
        const struct global_count *count = &key->counts[region];
        const uint64_t now = limit_capacity(&count->limit);
        if (count->kind == GLOBAL_HOME)
            sum += larger(now, strict ? count->settled : limit_capacity(&count->before));
    }
    return sum;
}

static uint64_t rate_of(const struct global_key *key, bool strict)
{
    uint64_t sum = 0;
    for (uint32_t region = 0; region < SIM_REGIONS_MAX; region++) {
        const struct global_count *count = &key->counts[region];
        if (count->kind == GLOBAL_HOME)
            sum += larger(count->limit.count, strict ? 0 : count->before.count);
    }
    return sum;
}

void check_global_spread(struct sim *sim)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        struct global_key *key = &sim->global.keys[i];
        const int64_t ms = SETTLE_MS + (is_of_day(key) ? 0 : SETTLE_MORE_MS);
        if (key->strict_ns == SIM_NEVER)
            key->strict_ns = sim->now_ns + ms * SIM_MS;
    }
}

bool check_global_unsettled(const struct sim *sim)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++)
        if (!sim->global.keys[i].strict)
            return true;
    return false;
}

void check_global_time(struct sim *sim)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        struct global_key *key = &sim->global.keys[i];
        if (key->strict || sim->now_ns < key->strict_ns)
            continue;
        key->strict = true;
        sim->coverage.global_strict++;
        for (uint32_t region = 0; region < SIM_REGIONS_MAX; region++) {
            struct global_count *count = &key->counts[region];
            count->settled = count->most = is_of_day(key) ? count->sum : 0;
        }
    }
}

/* ---- what a state says ----------------------------------------------------------------------- */

struct state {
    const uint8_t *bytes;
    size_t len;
};

/* Spent and leased, at that time of a leader's clock. */
static uint64_t counted_in(const struct global_key *key, struct state state, int64_t now_ns)
{
    static const struct hash128 id = {.lo = 1, .hi = 1};
    struct limit_decision decision;
    int error = scratch == NULL ? table_new(&scratch, alloc_heap(), TABLE_MEMORY_MIN, 1) : 0;
    ASSERT(error == 0);
    const uint32_t slot = table_lookup(scratch, id);
    if (slot != TABLE_NONE)
        table_drop(scratch, slot);
    if (state.len == 0)
        return 0;
    error = table_import(scratch, VNODE, id, state.bytes, state.len, now_ns, 0);
    ASSERT(error == 0);
    engine_one(scratch, id, VNODE, &key->limit, 0, OPERATION_PEEK, LIMIT_LOADED, now_ns, &decision);
    ASSERT(decision.status == LIMIT_DECIDED);
    return decision.used;
}

/* The leases that are in a state. */
static uint32_t leases_in(struct state state, struct bytes_reader *holders)
{
    struct bytes_reader reader;
    struct leased_head head = {.count = 0};
    if (state.len == 0)
        return 0;
    bytes_reader_init(&reader, state.bytes, state.len);
    (void)bytes_get_u8(&reader); /* the version */
    if (bytes_get_u8(&reader) != LIMIT_LEASED)
        return 0;
    const int error = leased_read_head(&reader, &head);
    ASSERT(error == 0);
    *holders = head.holders;
    return head.count;
}

static bool knows(struct state state, uint64_t lease)
{
    struct bytes_reader holders;
    for (uint32_t left = leases_in(state, &holders); left > 0; left--)
        if (leased_read_holder(&holders).id == lease)
            return true;
    return false;
}

/* How many of the leases end by themselves, or have not ended yet at that time. */
static uint32_t leases_until(struct state state, int64_t now_ns, bool ended)
{
    struct bytes_reader holders;
    uint32_t count = 0;
    for (uint32_t left = leases_in(state, &holders); left > 0; left--)
        count += (leased_read_holder(&holders).until_ns <= now_ns) == ended;
    return count;
}

/* ---- SIMGLOBAL-2
 * -------------------------------------------------------------------------------------- */

uint64_t check_global_lost(const struct global_key *key)
{
    uint64_t sum = 0;
    for (uint32_t region = 0; region < SIM_REGIONS_MAX; region++)
        if (key->counts[region].kind == GLOBAL_HOME)
            sum += key->counts[region].forgotten;
    return sum;
}

uint64_t check_global_out(const struct sim *sim, uint32_t key)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim->all_count; i++) {
        const struct global_lease_cache *cache = &sim->global.keys[key].lessee[i];
        sum += cache->lease != 0 && sim->now_ns < cache->until_ns ? cache->left : 0;
    }
    return sum;
}

static int64_t window_at(const struct global_key *key, int64_t at_ns)
{
    return (SIM_EPOCH + at_ns) / (int64_t)key->limit.window_ns;
}

/* Whether both moments are of that window, for everybody's clock. */
static bool inside(const struct sim *sim, const struct global_key *key, int64_t window,
                   int64_t from_ns, int64_t to_ns)
{
    return window_at(key, from_ns - edge_ns(sim)) == window &&
           window_at(key, to_ns + edge_ns(sim)) == window;
}

/* Whether the window begins when new rules alone count. */
static bool is_strict_in(const struct sim *sim, const struct global_key *key, int64_t window)
{
    const int64_t begin_ns = window * (int64_t)key->limit.window_ns - SIM_EPOCH;
    return key->strict && begin_ns - edge_ns(sim) >= key->strict_ns;
}

static void judge_sum(struct sim *sim, const struct global_key *key)
{
    if (is_bucket(key) ||
        (is_short(key) && !inside(sim, key, key->window, sim->now_ns, sim->now_ns)))
        return; /* what is held may be of another window */
    const bool strict = is_short(key) ? is_strict_in(sim, key, key->window) : key->strict;
    const uint64_t out = check_global_out(sim, number_of(sim, key));
    const uint64_t admitted = is_short(key) ? key->in_window : key->admitted;
    const uint64_t most = all_of(key, strict);
    const uint64_t lost = check_global_lost(key);
    if (admitted + out > most + lost)
        sim_fail(sim,
                 "SIMGLOBAL-2: %llu admitted of key %u and %llu held, limit %llu, %llu were lost",
                 (unsigned long long)admitted, number_of(sim, key), (unsigned long long)out,
                 (unsigned long long)most, (unsigned long long)lost);
}

/* One that was admitted near the edge of a window belongs to either. */
static void count_in_window(const struct sim *sim, struct global_key *key, uint64_t tokens,
                            int64_t from_ns, int64_t to_ns)
{
    const int64_t window = window_at(key, from_ns);
    if (!inside(sim, key, window, from_ns, to_ns))
        return;
    if (window > key->window) {
        key->window = window;
        key->in_window = 0;
    }
    key->in_window += window == key->window ? tokens : 0;
}

void check_global_admitted(struct sim *sim, uint32_t number, uint64_t tokens, int64_t from_ns,
                           int64_t to_ns)
{
    struct global_key *key = &sim->global.keys[number];
    key->admitted += tokens;
    if (is_bucket(key) && key->uses_count < GLOBAL_USES)
        key->uses[key->uses_count++] = (struct global_use){from_ns, to_ns, tokens};
    else if (is_short(key))
        count_in_window(sim, key, tokens, from_ns, to_ns);
    judge_sum(sim, key);
}

/* ---- SIMGLOBAL-4
 * -------------------------------------------------------------------------------------- */

void check_global_bucket(struct sim *sim, uint32_t number)
{
    const struct global_key *key = &sim->global.keys[number];
    for (uint32_t first = 0; first < key->uses_count; first++) {
        const int64_t from_ns = key->uses[first].from_ns;
        const bool strict = key->strict && from_ns >= key->strict_ns;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < key->uses_count; i++) { /* in the order of to_ns */
            const struct global_use *use = &key->uses[i];
            if (use->from_ns < from_ns)
                continue;
            const uint64_t ms =
                (uint64_t)((use->to_ns - from_ns) / SIM_MS + CLOCKS_MS + off_ms(sim));
            const uint64_t most =
                all_of(key, strict) + rate_of(key, strict) * ms / 1000 + check_global_lost(key);
            sum += use->tokens;
            if (sum <= most)
                continue;
            sim_fail(sim, "SIMGLOBAL-4: %llu admitted of key %u in %llu ms, %llu expected",
                     (unsigned long long)sum, number, (unsigned long long)ms,
                     (unsigned long long)most);
            return;
        }
    }
}

/* ---- SIMGLOBAL-7
 * -------------------------------------------------------------------------------------- */

static void note_fallbacks(struct sim *sim, const struct node *node)
{
    for (uint8_t s = 0; s < node->shard_count; s++) {
        struct shard_stats stats;
        uint64_t *seen = &sim->global.fallbacks[node->index][s];
        if (node->shards[s] == NULL)
            continue;
        shard_stats(node->shards[s], &stats);
        sim->global.at_fallback[node_region(sim, node)] += stats.fallbacks > *seen;
        *seen = stats.fallbacks;
    }
}

void check_global_begin(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        note_fallbacks(sim, &sim->nodes[i]);
    memset(sim->global.at_fallback, 0, sizeof sim->global.at_fallback);
}

void check_global_share(struct sim *sim)
{
    const struct global_key *key = &sim->global.keys[GLOBAL_SHARE];
    const uint64_t share = key->limit.count * GLOBAL_SHARE_PERCENT / 100;
    uint64_t admitted = key->admitted;
    uint64_t most = key->limit.count;
    for (uint32_t i = 0; i < sim->all_count; i++)
        note_fallbacks(sim, &sim->nodes[i]);
    for (uint32_t region = 0; region < sim->options.regions; region++) {
        const struct global_count *count = &key->counts[region];
        const uint64_t shares = sim->global.at_fallback[region] + (region != key->home);
        const uint64_t here = shares * share + count->forgotten;
        admitted += key->degraded[region];
        most += here;
        if (region != key->home && key->degraded[region] > here)
            sim_fail(
                sim,
                "SIMGLOBAL-7: %llu admitted in region %s by %llu shares of %llu, %llu were lost",
                (unsigned long long)key->degraded[region], region_name(region),
                (unsigned long long)shares, (unsigned long long)share,
                (unsigned long long)count->forgotten);
    }
    if (admitted > most)
        sim_fail(sim, "SIMGLOBAL-7: %llu admitted of key %u, %llu expected",
                 (unsigned long long)admitted, GLOBAL_SHARE, (unsigned long long)most);
}

/* ---- holders --------------------------------------------------------------------------------- */

static uint32_t region_of(uint64_t id)
{
    for (uint32_t region = 0; region < SIM_REGIONS_MAX; region++)
        if (policy_region_id(region_name(region), strlen(region_name(region))) == id)
            return region;
    return SIM_REGIONS_MAX;
}

static void follow_lease_cache(struct sim *sim, struct node *node, const struct shard *shard,
                               struct global_key *key)
{
    struct global_lease_cache *before = &key->lessee[node->index];
    struct probe_lease_cache now;
    probe_lease_cache(shard, key->id, &now);
    const bool taken = now.lease != before->lease && now.lease != 0;
    before->lease = now.lease;
    before->left = now.left;
    if (!taken)
        return;
    before->home = region_of(now.home);
    before->until_ns = sim->now_ns + (now.until_ns - shell_clock(sim, node));
    sim_tell(sim, 2, "n%u holds %llu of key %u", node->index, (unsigned long long)now.left,
             number_of(sim, key));
    judge_sum(sim, key);
}

/* ---- the home -------------------------------------------------------------------------------- */

/* The state of the key at the node, which decides it; what is not in memory is on disk. */
static struct state state_at(const struct node *node, const struct shard *shard,
                             const struct global_key *key, struct hash128 id,
                             uint8_t out[GLOBAL_STATE_LEN])
{
    const int len = probe_slot(shard, id, out, GLOBAL_STATE_LEN);
    ASSERT(len >= 0);
    if (len > 0 || !probe_spilled(shard, key->vnode, id))
        return (struct state){out, (size_t)len};
    const struct disk_record *record = disk_find(&node->disk, key->vnode, id);
    if (record == NULL)
        return (struct state){out, 0};
    return (struct state){record->state, record->len};
}

/* A newer term was opened: what of all that was counted does its leader not know? */
static void note_lost(struct sim *sim, struct node *node, const struct shard *shard,
                      const struct global_key *key, struct global_count *count, uint64_t counted)
{
    struct probe_vnode at;
    const int64_t now_ns = shell_clock(sim, node);
    const struct state front = {count->state, count->len};
    probe_vnode(shard, key->vnode, &at);
    sim->coverage.global_takeovers += leases_until(front, now_ns, false) > 0;
    if (term_compare(&at.base_state, &count->term) == 0 && at.base_seq >= count->seq)
        return;
    /* Since it was opened, in this very event, something may have been counted anew. */
    const uint64_t since = at.seq > at.base_seq + 1 ? at.seq - at.base_seq - 1 : 0;
    const uint64_t anew = since * GLOBAL_COST_MAX < counted ? since * GLOBAL_COST_MAX : counted;
    const uint64_t had = counted_in(key, front, now_ns);
    const uint64_t lost = had > counted - anew ? had - (counted - anew) : 0;
    if (lost > 0)
        sim_tell(sim, 2, "n%u does not know of %llu tokens of key %u", node->index,
                 (unsigned long long)lost, number_of(sim, key));
    count->forgotten += lost;
}

/* SIMGLOBAL-3: the leader of the region has granted a lease, and what it knew before. */
static void judge_grant(struct sim *sim, const struct node *node, const struct global_key *key,
                        struct state state)
{
    for (uint32_t i = 0; i < sim->all_count; i++) {
        const struct global_lease_cache *cache = &key->lessee[i];
        if (cache->lease == 0 || sim->now_ns + edge_ns(sim) >= cache->until_ns ||
            cache->left == 0 || cache->home != node_region(sim, node) || knows(state, cache->lease))
            continue;
        sim_fail(
            sim,
            "SIMGLOBAL-3: node %u grants a lease of key %u, and does not know the one of node %u",
            node->index, number_of(sim, key), i);
    }
}

static void judge_grants(struct sim *sim, const struct node *node, const struct global_key *key,
                         const struct global_count *count, struct state state)
{
    struct bytes_reader holders;
    const struct state before = {count->state, count->len};
    for (uint32_t left = leases_in(state, &holders); left > 0; left--)
        if (!knows(before, leased_read_holder(&holders).id)) {
            judge_grant(sim, node, key, state);
            return;
        }
}

/* Whether somebody decides in the newest term that was seen. One that nobody remembers, because all
 * died before anything was on a disk, may be followed by a lower one. */
static bool front_decides(const struct sim *sim, const struct global_key *key,
                          const struct global_count *count)
{
    const int at = node_by_id(sim, count->term.writer);
    struct term term;
    if (at < 0 || !sim->nodes[at].up)
        return false;
    const struct shard *shard = sim->nodes[at].shards[key->vnode % sim->nodes[at].shard_count];
    if (shard == NULL)
        return false;
    const enum shard_role role = shard_vnode(shard, key->vnode, &term);
    return (role == SHARD_LEADING || role == SHARD_TRANSFERRING) &&
           term_compare(&term, &count->term) == 0;
}

static void judge_count(struct sim *sim, const struct node *node, const struct global_key *key,
                        struct global_count *count)
{
    const uint64_t most = most_of(key, count);
    const bool anew = key->strict && key->strict_ns != 0; /* the rules have changed */
    if (count->sum > most + count->forgotten + count->merged)
        sim_fail(sim,
                 "%s: %llu of key %u are spent or leased in region %s, limit %llu, %llu were lost",
                 anew ? "SIMGLOBAL-8" : "SIMGLOBAL-1", (unsigned long long)count->sum,
                 number_of(sim, key), region_name(node_region(sim, node)), (unsigned long long)most,
                 (unsigned long long)count->forgotten);
    count->most = count->sum < count->most ? count->sum : count->most;
}

static void follow_count(struct sim *sim, struct node *node, const struct shard *shard,
                         const struct global_key *key, struct global_count *count)
{
    static uint8_t bytes[GLOBAL_STATE_LEN];
    struct term term;
    const enum shard_role role = shard_vnode(shard, key->vnode, &term);
    const uint64_t seq = probe_seq(shard, key->vnode);
    int order = term_compare(&term, &count->term);
    if ((role != SHARD_LEADING && role != SHARD_TRANSFERRING) || (order == 0 && seq == count->seq))
        return;
    if (order < 0 && !front_decides(sim, key, count))
        order = 1;
    const struct state state = state_at(node, shard, key, count->id, bytes);
    const uint64_t counted = counted_in(key, state, shell_clock(sim, node));
    const uint64_t before = count->counted[node->index];
    if (order < 0) { /* what is counted behind the back of a newer term is lost for it */
        count->forgotten += counted > before ? counted - before : 0;
    } else if (order == 0) {
        if (!count->merging) /* else it may be another writer's */
            judge_grants(sim, node, key, count, state);
        sim->coverage.global_expired +=
            leases_until((struct state){count->state, count->len}, shell_clock(sim, node), true);
    } else if (!term_is_none(&count->term)) {
        note_lost(sim, node, shard, key, count, counted);
    }
    count->counted[node->index] = counted;
    sim_tell(sim, 3, "n%u counts %llu of key %u", node->index, (unsigned long long)counted,
             number_of(sim, key));
    if (order < 0)
        return;
    if (count->merging && counted > before)
        count->merged += counted - before;
    count->merging = false;
    count->term = term;
    count->seq = seq;
    count->sum = counted;
    count->len = (uint32_t)state.len;
    memcpy(count->state, state.bytes, state.len);
    judge_count(sim, node, key, count);
}

void check_global(struct sim *sim, struct node *node)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        struct global_key *key = &sim->global.keys[i];
        struct global_count *count = &key->counts[node_region(sim, node)];
        const struct shard *shard = node->shards[key->vnode % node->shard_count];
        if (shard == NULL)
            continue;
        if (count->kind != GLOBAL_NOTHING)
            follow_count(sim, node, shard, key, count);
        if (count->kind != GLOBAL_HOME || key->moved)
            follow_lease_cache(sim, node, shard, key);
    }
}

void check_global_asks(struct sim *sim, const struct node *from, const struct node *to,
                       const uint8_t *bytes, size_t len)
{
    struct peer_envelope envelope;
    struct peer_record record;
    struct bytes_reader reader;
    if (node_region(sim, from) == node_region(sim, to) || peer_decode(bytes, len, &envelope) != 0)
        return;
    bytes_reader_init(&reader, envelope.records, envelope.len);
    while (peer_next(&reader, 2 * sim->vnodes, &record) == 1)
        sim->coverage.global_again +=
            record.type == PEER_REMOTE_ASK && (record.forward.flags & FORWARD_RETRY) != 0;
}

void check_global_merged(struct sim *sim, struct hash128 id)
{
    const uint32_t region = node_region(sim, &sim->nodes[sim->acting]);
    for (uint32_t i = 0; sim->global.watching && i < GLOBAL_KEYS; i++) {
        struct global_count *count = &sim->global.keys[i].counts[region];
        if (count->kind != GLOBAL_NOTHING && hash128_equal(count->id, id))
            count->merging = true;
    }
}

void check_global_ended(struct sim *sim, const struct node *node)
{
    note_fallbacks(sim, node);
    memset(sim->global.fallbacks[node->index], 0, sizeof sim->global.fallbacks[node->index]);
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++)
        sim->global.keys[i].lessee[node->index] = (struct global_lease_cache){.lease = 0};
}
