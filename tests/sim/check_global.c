/* check_global.c - limits that several regions share: what is counted at home, held and admitted.
 *
 * The keys of phase global are followed from outside: what the newest decider of a key's home has
 * counted, after each event in which that changed, and what every node holds of it. What is lost
 * with a decider - its successor opens a term on less - is known to the token, and is all that may
 * come on top of a limit.
 *
 *       home: |#### spent ####|== out on lease ==|   left   | <= limit + lost      G1
 *     abroad:                  held: spent later            |
 *    clients: |## admitted ##|      + held                  | <= limit + lost      G2
 *
 * G1  At the home spent + leased <= limit, always; more only when what another writer had counted
 *     was added (merge.c).
 * G2  What clients were told as admitted, in all regions, and what nodes may still spend, is the
 *     limit at most: of a day, and of each short window. Answers that are marked as degraded are
 *     not among it.
 * G3  A decider grants a lease only when it knows of every other one that somebody may still spend
 *     of: what is not in its state cannot be subtracted from the limit.
 * G4  Of a bucket: in any interval no more than its burst and what was refilled.
 *
 * Clocks of deciders differ by twice SIM_OFFSET_MAX_MS at most, and so do the edges of windows.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/inspect.h"
#include "node/cluster/peer_wire.h"
#include "node/limit/engine.h"
#include "node/limit/leased.h"
#include "node/limit/table.h"
#include "tests/sim/sim.h"

enum { VNODE = 0, EDGE_MS = 3 * SIM_OFFSET_MAX_MS, CLOCKS_MS = 200 };

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

static bool is_short(const struct global_key *key)
{
    return !is_bucket(key) && key->limit.window_ns <= (uint64_t)GLOBAL_WINDOW_S * (uint64_t)SIM_SEC;
}

static uint32_t number_of(const struct sim *sim, const struct global_key *key)
{
    return (uint32_t)(key - sim->global.keys);
}

/* ---- what a state says ----------------------------------------------------------------------- */

struct state {
    const uint8_t *bytes;
    size_t len;
};

/* Spent and leased, at that time of a decider's clock. */
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

/* ---- G2 -------------------------------------------------------------------------------------- */

uint64_t check_global_out(const struct sim *sim, uint32_t key)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim->all_count; i++) {
        const struct global_purse *purse = &sim->global.keys[key].purses[i];
        sum += purse->lease != 0 && sim->now_ns < purse->until_ns ? purse->left : 0;
    }
    return sum;
}

static int64_t window_at(const struct global_key *key, int64_t at_ns)
{
    return (SIM_EPOCH + at_ns) / (int64_t)key->limit.window_ns;
}

/* Whether both moments are of that window, for everybody's clock. */
static bool inside(const struct global_key *key, int64_t window, int64_t from_ns, int64_t to_ns)
{
    const int64_t edge_ns = EDGE_MS * SIM_MS;
    return window_at(key, from_ns - edge_ns) == window && window_at(key, to_ns + edge_ns) == window;
}

static void judge_sum(struct sim *sim, const struct global_key *key)
{
    if (is_short(key) && !inside(key, key->window, sim->now_ns, sim->now_ns))
        return; /* what is held may be of another window */
    const uint64_t out = check_global_out(sim, number_of(sim, key));
    const uint64_t admitted = is_short(key) ? key->in_window : key->admitted;
    if (!is_bucket(key) && admitted + out > key->limit.count + key->forgotten)
        sim_fail(sim, "G2: %llu admitted of key %u and %llu held, limit %llu, %llu were lost",
                 (unsigned long long)admitted, number_of(sim, key), (unsigned long long)out,
                 (unsigned long long)key->limit.count, (unsigned long long)key->forgotten);
}

/* One that was admitted near the edge of a window belongs to either. */
static void count_in_window(struct global_key *key, uint64_t tokens, int64_t from_ns, int64_t to_ns)
{
    const int64_t window = window_at(key, from_ns);
    if (!inside(key, window, from_ns, to_ns))
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
        count_in_window(key, tokens, from_ns, to_ns);
    judge_sum(sim, key);
}

/* ---- G4 -------------------------------------------------------------------------------------- */

void check_global_bucket(struct sim *sim, uint32_t number)
{
    const struct global_key *key = &sim->global.keys[number];
    for (uint32_t first = 0; first < key->uses_count; first++) {
        const int64_t from_ns = key->uses[first].from_ns;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < key->uses_count; i++) { /* in the order of to_ns */
            const struct global_use *use = &key->uses[i];
            if (use->from_ns < from_ns)
                continue;
            const uint64_t ms = (uint64_t)((use->to_ns - from_ns) / SIM_MS) + CLOCKS_MS;
            const uint64_t most = key->limit.burst + key->limit.count * ms / 1000 + key->forgotten;
            sum += use->tokens;
            if (sum <= most)
                continue;
            sim_fail(sim, "G4: %llu admitted of key %u in %llu ms, %llu expected",
                     (unsigned long long)sum, number, (unsigned long long)ms,
                     (unsigned long long)most);
            return;
        }
    }
}

/* ---- holders --------------------------------------------------------------------------------- */

static void follow_purse(struct sim *sim, struct node *node, const struct shard *shard,
                         struct global_key *key)
{
    struct global_purse *before = &key->purses[node->index];
    struct inspect_purse now;
    inspect_purse(shard, key->id, &now);
    const bool taken = now.lease != before->lease && now.lease != 0;
    before->lease = now.lease;
    before->left = now.left;
    if (!taken)
        return;
    before->until_ns = sim->now_ns + (now.until_ns - shell_clock(sim, node));
    sim_tell(sim, 2, "n%u holds %llu of key %u", node->index, (unsigned long long)now.left,
             number_of(sim, key));
    judge_sum(sim, key);
}

/* ---- the home -------------------------------------------------------------------------------- */

/* The state of the key at the node, which decides it; what is not in memory is on disk. */
static struct state state_at(const struct node *node, const struct shard *shard,
                             const struct global_key *key, uint8_t out[GLOBAL_STATE_LEN])
{
    const int len = inspect_slot(shard, key->id, out, GLOBAL_STATE_LEN);
    ASSERT(len >= 0);
    if (len > 0 || !inspect_spilled(shard, key->vnode, key->id))
        return (struct state){out, (size_t)len};
    const struct disk_record *record = disk_find(&node->disk, key->vnode, key->id);
    if (record == NULL)
        return (struct state){out, 0};
    return (struct state){record->state, record->len};
}

/* A newer term was opened: what of all that was counted does its decider not know? */
static void note_lost(struct sim *sim, struct node *node, const struct shard *shard,
                      struct global_key *key, uint64_t counted)
{
    struct inspect_vnode at;
    const int64_t now_ns = shell_clock(sim, node);
    const struct state front = {key->state, key->len};
    inspect_vnode(shard, key->vnode, &at);
    sim->coverage.global_takeovers += leases_until(front, now_ns, false) > 0;
    if (term_compare(&at.base_state, &key->term) == 0 && at.base_seq >= key->seq)
        return;
    /* Since it was opened, in this very event, something may have been counted anew. */
    const uint64_t since = at.seq > at.base_seq + 1 ? at.seq - at.base_seq - 1 : 0;
    const uint64_t anew = since * GLOBAL_COST_MAX < counted ? since * GLOBAL_COST_MAX : counted;
    const uint64_t had = counted_in(key, front, now_ns);
    const uint64_t lost = had > counted - anew ? had - (counted - anew) : 0;
    if (lost > 0)
        sim_tell(sim, 2, "n%u does not know of %llu tokens of key %u", node->index,
                 (unsigned long long)lost, number_of(sim, key));
    key->forgotten += lost;
}

/* G3: the decider has granted a lease, and what it knew before. */
static void judge_grant(struct sim *sim, const struct node *node, const struct global_key *key,
                        struct state state)
{
    for (uint32_t i = 0; i < sim->all_count; i++) {
        const struct global_purse *purse = &key->purses[i];
        if (purse->lease == 0 || sim->now_ns + EDGE_MS * SIM_MS >= purse->until_ns ||
            purse->left == 0 || knows(state, purse->lease))
            continue;
        sim_fail(sim, "G3: node %u grants a lease of key %u, and does not know the one of node %u",
                 node->index, number_of(sim, key), i);
    }
}

static void judge_grants(struct sim *sim, const struct node *node, const struct global_key *key,
                         struct state state)
{
    struct bytes_reader holders;
    const struct state before = {key->state, key->len};
    for (uint32_t left = leases_in(state, &holders); left > 0; left--)
        if (!knows(before, leased_read_holder(&holders).id)) {
            judge_grant(sim, node, key, state);
            return;
        }
}

/* Whether somebody decides in the newest term that was seen. One that nobody remembers, because all
 * died before anything was on a disk, may be followed by a lower one. */
static bool front_decides(const struct sim *sim, const struct global_key *key)
{
    const int at = node_by_id(sim, key->term.writer);
    struct term term;
    if (at < 0 || !sim->nodes[at].up)
        return false;
    const struct shard *shard = sim->nodes[at].shards[key->vnode % sim->nodes[at].shard_count];
    if (shard == NULL)
        return false;
    const enum shard_role role = shard_vnode(shard, key->vnode, &term);
    return (role == SHARD_DECIDING || role == SHARD_PASSING) &&
           term_compare(&term, &key->term) == 0;
}

static void follow_home(struct sim *sim, struct node *node, const struct shard *shard,
                        struct global_key *key)
{
    static uint8_t bytes[GLOBAL_STATE_LEN];
    struct term term;
    const enum shard_role role = shard_vnode(shard, key->vnode, &term);
    const uint64_t seq = inspect_seq(shard, key->vnode);
    int order = term_compare(&term, &key->term);
    if ((role != SHARD_DECIDING && role != SHARD_PASSING) || (order == 0 && seq == key->seq))
        return;
    if (order < 0 && !front_decides(sim, key))
        order = 1;
    const struct state state = state_at(node, shard, key, bytes);
    const uint64_t counted = counted_in(key, state, shell_clock(sim, node));
    const uint64_t before = key->counted[node->index];
    if (order < 0) { /* what is counted behind the back of a newer term is lost for it */
        key->forgotten += counted > before ? counted - before : 0;
    } else if (order == 0) {
        if (!key->merging) /* else it may be another writer's */
            judge_grants(sim, node, key, state);
        sim->coverage.global_expired +=
            leases_until((struct state){key->state, key->len}, shell_clock(sim, node), true);
    } else if (!term_is_none(&key->term)) {
        note_lost(sim, node, shard, key, counted);
    }
    key->counted[node->index] = counted;
    sim_tell(sim, 3, "n%u counts %llu of key %u", node->index, (unsigned long long)counted,
             number_of(sim, key));
    if (order < 0)
        return;
    if (key->merging && counted > before)
        key->merged += counted - before;
    key->merging = false;
    if (counted > limit_capacity(&key->limit) + key->forgotten + key->merged)
        sim_fail(sim, "G1: %llu of key %u are spent or leased, limit %llu, %llu were lost",
                 (unsigned long long)counted, number_of(sim, key),
                 (unsigned long long)limit_capacity(&key->limit),
                 (unsigned long long)key->forgotten);
    key->term = term;
    key->seq = seq;
    key->len = (uint32_t)state.len;
    memcpy(key->state, state.bytes, state.len);
}

void check_global(struct sim *sim, struct node *node)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        struct global_key *key = &sim->global.keys[i];
        const struct shard *shard = node->shards[key->vnode % node->shard_count];
        if (shard == NULL)
            continue;
        if (node_abroad(sim, node) == key->abroad)
            follow_home(sim, node, shard, key);
        else
            follow_purse(sim, node, shard, key);
    }
}

void check_global_asks(struct sim *sim, const struct node *from, const struct node *to,
                       const uint8_t *bytes, size_t len)
{
    struct peer_envelope envelope;
    struct peer_record record;
    struct bytes_reader reader;
    if (node_abroad(sim, from) == node_abroad(sim, to) || peer_decode(bytes, len, &envelope) != 0)
        return;
    bytes_reader_init(&reader, envelope.records, envelope.len);
    while (peer_next(&reader, 2 * sim->vnodes, &record) == 1)
        sim->coverage.global_again +=
            record.type == PEER_ABROAD_ASK && (record.forward.flags & FORWARD_RETRY) != 0;
}

void check_global_merged(struct sim *sim, struct hash128 id)
{
    for (uint32_t i = 0; sim->global.watching && i < GLOBAL_KEYS; i++)
        if (hash128_equal(sim->global.keys[i].id, id))
            sim->global.keys[i].merging = true;
}

void check_global_ended(struct sim *sim, const struct node *node)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++)
        sim->global.keys[i].purses[node->index] = (struct global_purse){.lease = 0};
}
