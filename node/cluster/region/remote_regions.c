/* remote_regions.c - rules of scope `global`: keys that another region counts.
 *
 * Each region has a ring of its own, so each key has a leader in every region. Of a global rule
 * one region is the key's home: there its leader counts, as it counts any key. The leaders of the
 * other regions hold tokens on lease (lessee.c) and admit checks with those, so that no check waits
 * for another region while there are any. All else about the key - hits, refunds, resets, peeks,
 * what clients hold - goes home, and so does what the lessee ask and give back.
 *
 *      region us                                          region eu, the home
 *   node --FORWARD_GLOBAL--> leader of the key           any member       leader of the key
 *                            | lease cache: tokens? -- yes --> allowed
 *                            | none left at home? -----> denied
 *                            \ none asked for yet ------ REMOTE_ASK -----> caller --FORWARD--> |
 *                              (waits, for wan_wait)  <- REMOTE_ANSWER --         <--ANSWER--- |
 *
 * Each shard speaks with one member of each other region, its contact: whoever is asked there
 * passes it on as if a caller of its own had asked. Who does not answer is given up for the next.
 * What is asked leaves as one frame in a turn, and a keep-alive now and then tells how long the way
 * is, while there are global rules or pools; without them nothing is ever said. What regions say
 * about pools is in pools.c.
 *
 * REMOTE-1  A lease is asked for, and given back, under one retry key however often and through
 *           whomever it is sent: the home's leader grants it once (DECIDE-11). What is told too
 *           late goes back (lessee.c), or is spent.
 * REMOTE-2  A part that was sent home ends by its answer, by the region's silence, or by its
 *           deadline. So none waits for a region that is out of reach, but the first ones that find
 *           it so.
 * REMOTE-3  What comes from another region goes to a leader of this region or nowhere: it names
 *           this region as the home that its sender means, or is refused. So nothing goes in
 *           circles, and two regions that disagree about a home (a view or rules are on their way)
 *           do not both grant one lease.
 * REMOTE-4  When no answer has come since a check began to wait, on_failure says what becomes of
 *           it: an error, an admission, or a decision in this region by a share of the limits, in a
 *           slot of its own (cross_region_fall_back), which the region's replicas hold as any
 *           other. What the region holds on lease is taken first. When the home does answer, but
 *           has not told yet, it is denied.
 * REMOTE-5  A rule that names no home is counted where the highest hash of (region, vnode) says,
 *           among the regions that have a ring. Those are in the configuration store (FOUNDING-7),
 *           so it is the same wherever that is the same. A key whose home changes is counted anew.
 * REMOTE-6  When regions come or go, each node takes the keys whose home changes from the old one
 *           at once, and gives them to the new one when leases of the old one have ended wherever
 *           that hears of the change in time. In between they have no home, as if it were out of
 *           reach.
 * REMOTE-7  What waits here for a peer is one part, however often that one sends it, and ends once:
 *           copies join it, and those that come when it was told that the home is out of reach are
 *           told the same. So tokens that come later are charged for none that was decided by
 *           REMOTE-4 meanwhile. What waits and what was told is remembered beside first answers
 *           (retry.h), and no longer.
 * REMOTE-8  Regions are in the order of their ids, each once. Each vnode's home is a region, and
 *           what is gathered for a shard elsewhere fits its line, one line a shard.
 */
#include "node/cluster/region/remote_regions.h"
#include "node/cluster/partition/vnodes.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

static_assert((int)VIEW_REGIONS_MAX <= (int)REMOTE_REGIONS_MAX,
              "all homes that a view tells have room");

#define LOCAL_ID UINT64_C(0x4c6f63616c536c74) /* makes the ids of REMOTE-4's slots different */

int remote_init(struct shard *shard)
{
    struct remote_regions *remote = &shard->remote;
    remote->regions = alloc_array(shard->allocator, REMOTE_REGIONS_MAX, sizeof *remote->regions);
    remote->homes = alloc_array(shard->allocator, shard->options.vnodes, sizeof *remote->homes);
    remote->moved = alloc_array(shard->allocator, shard->options.vnodes, sizeof *remote->moved);
    remote->bytes = alloc_get(shard->allocator, REMOTE_LINES_MAX * REMOTE_LINE_LEN);
    if (remote->regions == NULL || remote->homes == NULL || remote->moved == NULL ||
        remote->bytes == NULL)
        return TG_ENOMEM;
    for (uint32_t i = 0; i < REMOTE_LINES_MAX; i++)
        bytes_writer_init(&remote->lines[i].outbox, remote->bytes + (size_t)i * REMOTE_LINE_LEN,
                          REMOTE_LINE_LEN);
    return 0;
}

void remote_fini(struct shard *shard)
{
    struct remote_regions *remote = &shard->remote;
    alloc_put(shard->allocator, remote->bytes, REMOTE_LINES_MAX * REMOTE_LINE_LEN);
    alloc_put(shard->allocator, remote->moved, shard->options.vnodes * sizeof *remote->moved);
    alloc_put(shard->allocator, remote->homes, shard->options.vnodes * sizeof *remote->homes);
    alloc_put(shard->allocator, remote->regions, REMOTE_REGIONS_MAX * sizeof *remote->regions);
}

/* ---- regions --------------------------------------------------------------------------------- */

struct remote_region *remote_find(const struct shard *shard, uint64_t id)
{
    const struct remote_regions *remote = &shard->remote;
    for (uint32_t i = 0; i < remote->count; i++)
        if (remote->regions[i].id == id)
            return &remote->regions[i];
    return NULL;
}

static uint64_t id_of(const char *name)
{
    return policy_region_id(name, strlen(name));
}

uint64_t remote_region_of_member(const struct view_member *member)
{
    return id_of(member->region);
}

/* Adds the region of the view's member, keeping the order of ids; beyond the bound the last ones
 * are left out. */
static void add(struct remote_regions *remote, const struct remote_region *region)
{
    uint32_t at = remote->count;
    while (at > 0 && remote->regions[at - 1].id > region->id)
        at--;
    ASSERT(remote->count <= REMOTE_REGIONS_MAX && at <= remote->count);
    if (at == REMOTE_REGIONS_MAX)
        return;
    if (remote->count == REMOTE_REGIONS_MAX)
        remote->count--;
    memmove(&remote->regions[at + 1], &remote->regions[at],
            (remote->count - at) * sizeof *remote->regions);
    remote->regions[at] = *region;
    remote->count++;
}

/* The member of the region that is the `nth` of those that may be asked: who lives, as far as is
 * known, or else anybody. */
static const struct view_member *member_at(const struct shard *shard, uint64_t region, uint32_t nth)
{
    const struct view *view = shard->view;
    for (unsigned lives = 1;; lives--) {
        uint32_t count = 0;
        for (unsigned pass = 0; pass < 2 && (pass == 0 || count > 0); pass++) {
            const uint32_t wanted = pass == 0 ? UINT32_MAX : nth % count;
            uint32_t at = 0;
            for (uint32_t m = 0; m < view->member_count; m++) {
                const struct view_member *member = &view->members[m];
                const bool fits = lives ? member->state <= VIEW_SUSPECT : true;
                if (member->state == VIEW_LEFT || member->shards == 0 || !fits ||
                    remote_region_of_member(member) != region)
                    continue;
                if (at++ == wanted)
                    return member;
            }
            count = at;
        }
        if (lives == 0)
            return NULL;
    }
}

static void choose(struct shard *shard, struct remote_region *region)
{
    ASSERT(region->id != shard->remote.own); /* REMOTE-3 */
    const uint64_t mixed = hash_mix64(shard->options.node_id ^ region->id);
    const struct view_member *member =
        member_at(shard, region->id, (uint32_t)(mixed >> 32) % (1u << 20) + region->turn);
    region->contact = member != NULL ? member->id : 0;
    region->shard = member != NULL ? (uint16_t)(shard->options.shard % member->shards) : 0;
    region->turned_ns = shard->now_ns;
    region->reads = 0;
}

static bool is_contact(const struct shard *shard, const struct remote_region *region)
{
    const struct view_member *member = view_find(shard->view, region->contact);
    return member != NULL && member->state <= VIEW_SUSPECT &&
           remote_region_of_member(member) == region->id && region->shard < member->shards;
}

/* The regions that keys may be at home in, by name: as long as the view knows none, those of its
 * members. */
static uint32_t list_homes(const struct shard *shard, const char *names[REMOTE_REGIONS_MAX])
{
    const struct remote_regions *remote = &shard->remote;
    const struct view_regions *known = &shard->view->regions;
    if (known->count == 0)
        for (uint32_t i = 0; i < remote->count; i++)
            names[i] = shard->view->members[remote->regions[i].member].region;
    for (uint32_t i = 0; i < known->count; i++)
        names[i] = known->names[i];
    return known->count > 0 ? known->count : remote->count;
}

/* REMOTE-5, REMOTE-6. */
static void settle_homes(struct shard *shard)
{
    struct remote_regions *remote = &shard->remote;
    const char *names[REMOTE_REGIONS_MAX];
    uint64_t ids[REMOTE_REGIONS_MAX];
    const uint32_t count = list_homes(shard, names);
    ASSERT(count <= REMOTE_REGIONS_MAX);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = id_of(names[i]);
    const bool learns = shard->now_ns < remote->moved_until_ns;
    bool moves = false;
    for (uint32_t vnode = 0; vnode < shard->options.vnodes; vnode++) {
        const uint64_t before = remote->homes[vnode];
        uint64_t best = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t score = hash_mix64(ids[i] ^ hash_mix64(vnode + 1));
            if (i == 0 || score > best) {
                best = score;
                remote->homes[vnode] = ids[i];
            }
        }
        const bool moved = remote->known && before != remote->homes[vnode];
        remote->moved[vnode] = moved || (learns && remote->moved[vnode]);
        moves = moves || moved;
    }
    remote->known = shard->view->regions.count > 0;
    if (moves)
        remote->moved_until_ns = shard->now_ns + REMOTE_MOVED_NS;
}

static bool has_moved(const struct shard *shard, uint32_t vnode)
{
    return shard->now_ns < shard->remote.moved_until_ns && shard->remote.moved[vnode];
}

void remote_follow_view(struct shard *shard)
{
    struct remote_regions *remote = &shard->remote;
    const struct view *view = shard->view;
    struct remote_region before[REMOTE_REGIONS_MAX];
    const uint32_t count = remote->count;
    memcpy(before, remote->regions, sizeof before);
    ASSERT(view->self < view->member_count && count <= REMOTE_REGIONS_MAX); /* VIEW-1 */
    remote->count = 0;
    remote->own = remote_region_of_member(&view->members[view->self]);
    for (uint32_t m = 0; m < view->member_count; m++) {
        struct remote_region region = {.id = remote_region_of_member(&view->members[m]),
                                       .member = m};
        if (view->members[m].state == VIEW_LEFT || remote_find(shard, region.id) != NULL)
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (before[i].id == region.id) {
                region = before[i];
                region.member = m;
            }
        add(remote, &region);
    }
    for (uint32_t i = 0; i < remote->count; i++)
        if (remote->regions[i].id != remote->own && !is_contact(shard, &remote->regions[i]))
            choose(shard, &remote->regions[i]);
    settle_homes(shard);
}

uint64_t remote_home(const struct shard *shard, const struct policy_rule *rule, uint32_t vnode)
{
    if (rule->scope != POLICY_SCOPE_GLOBAL)
        return 0;
    const uint32_t number = vnodes_ring(shard, vnode);
    const bool named = rule->home_region != 0;
    if (!named && has_moved(shard, number))
        return REMOTE_NOWHERE;
    const uint64_t home = named ? rule->home_region : shard->remote.homes[number];
    return home != shard->remote.own ? home : 0;
}

/* The name of a region that may be a home; "" if it is not known. */
static const char *name_of(const struct shard *shard, uint64_t id)
{
    const char *names[REMOTE_REGIONS_MAX];
    for (uint32_t i = shard->view != NULL ? list_homes(shard, names) : 0; i-- > 0;)
        if (id_of(names[i]) == id)
            return names[i];
    return "";
}

const char *remote_home_name(const struct shard *shard, const struct policy_rule *rule,
                             uint32_t vnode)
{
    if (rule == NULL || rule->scope != POLICY_SCOPE_GLOBAL)
        return "";
    return rule->home_region != 0 ? rule->home.data
                                  : name_of(shard, shard->remote.homes[vnodes_ring(shard, vnode)]);
}

uint64_t remote_pool_home(const struct shard *shard, const struct policy_pool *pool)
{
    if (pool == NULL || pool->scope != POLICY_SCOPE_GLOBAL)
        return 0;
    const uint32_t vnode = pools_vnode(pool->id, shard->options.vnodes);
    if (pool->home_region != 0)
        return pool->home_region;
    return has_moved(shard, vnode) ? REMOTE_NOWHERE : shard->remote.homes[vnode];
}

const char *remote_pool_home_name(const struct shard *shard, const struct policy_pool *pool)
{
    if (pool->scope != POLICY_SCOPE_GLOBAL || pool->home_region != 0)
        return pool->home.data;
    return name_of(shard, shard->remote.homes[pools_vnode(pool->id, shard->options.vnodes)]);
}

uint64_t remote_region_of(const struct shard *shard, uint64_t node)
{
    const struct view_member *member = view_find(shard->view, node);
    return member != NULL && view_is_remote(shard->view, member) ? remote_region_of_member(member)
                                                                 : 0;
}

uint32_t remote_others(const struct shard *shard, uint64_t out[REMOTE_REGIONS_MAX])
{
    const char *names[REMOTE_REGIONS_MAX];
    const uint32_t all = list_homes(shard, names);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all; i++) {
        out[count] = id_of(names[i]);
        count += out[count] != shard->remote.own;
    }
    ASSERT(count <= all && all <= REMOTE_REGIONS_MAX);
    return count;
}

int64_t remote_rtt_ns(const struct shard *shard, uint64_t id)
{
    const struct remote_region *region = remote_find(shard, id);
    return region != NULL && region->rtt_ns != 0 ? region->rtt_ns : REMOTE_RTT_NS;
}

static int64_t at_least(int64_t least, int64_t value)
{
    return value > least ? value : least;
}

/* How long an answer is waited for until another member is asked; the first one takes as long as a
 * connection does. */
int64_t remote_timeout_ns(const struct remote_region *region)
{
    if (region->heard_ns == 0)
        return REMOTE_LOST_NS;
    return at_least(REMOTE_TIMEOUT_NS, 2 * region->rtt_ns);
}

bool remote_lost(const struct shard *shard, uint64_t id)
{
    const struct remote_region *region = remote_find(shard, id);
    if (region == NULL || region->contact == 0)
        return true;
    return region->unanswered_ns != 0 &&
           shard->now_ns - region->unanswered_ns >= at_least(REMOTE_LOST_NS, 4 * region->rtt_ns);
}

bool remote_heard_since(const struct shard *shard, uint64_t id, int64_t since_ns)
{
    const struct remote_region *region = remote_find(shard, id);
    return region != NULL && region->heard_ns >= since_ns;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void flush(struct shard *shard, struct remote_line *line, struct effects *effects)
{
    if (line->outbox.len == 0)
        return;
    const struct peer_envelope envelope = {
        .node = shard->options.node_id,
        .shard = shard->options.shard,
        .boot = shard->options.boot,
        .records = line->outbox.data,
        .len = line->outbox.len,
        .reads = READS_ALL,
    };
    const size_t room = line->outbox.len + PEER_ENVELOPE_MAX;
    ASSERT(!line->outbox.failed);
    if (effects_fit(effects, room)) {
        const int len = peer_encode(&envelope, effects_reserve(effects, room), room);
        ASSERT(len > 0);
        struct effect *effect = effects_add(effects, EFFECT_SEND_PEER);
        effect->target = line->node;
        effect->shard = line->shard;
        effects_commit(effects, effect, (size_t)len);
    } else {
        shard->stats.frames_dropped++;
    }
    line->outbox.len = 0;
}

struct bytes_writer *remote_outbox_of(struct shard *shard, uint64_t node, uint16_t to, size_t len,
                                      struct effects *effects)
{
    struct remote_line *line = &shard->remote.lines[0];
    for (uint32_t i = 0; i < REMOTE_LINES_MAX; i++) {
        struct remote_line *at = &shard->remote.lines[i];
        if (at->outbox.len != 0 && at->node == node && at->shard == to) {
            line = at;
            break;
        }
        if (at->outbox.len == 0)
            line = at;
    }
    if (line->node != node || line->shard != to || line->outbox.len + len > REMOTE_LINE_LEN)
        flush(shard, line, effects);
    ASSERT(len <= REMOTE_LINE_LEN - line->outbox.len); /* REMOTE-8 */
    line->node = node;
    line->shard = to;
    return &line->outbox;
}

struct bytes_writer *remote_outbox(struct shard *shard, uint64_t id, size_t len,
                                   struct effects *effects)
{
    const struct remote_region *region = remote_find(shard, id);
    if (remote_lost(shard, id))
        return NULL;
    return remote_outbox_of(shard, region->contact, region->shard, len, effects);
}

struct bytes_writer *remote_record(struct shard *shard, uint64_t node, uint16_t to,
                                   struct effects *effects)
{
    return remote_outbox_of(shard, node, to, PEER_RECORD_MAX, effects);
}

void remote_flush(struct shard *shard, struct effects *effects)
{
    for (uint32_t i = 0; i < REMOTE_LINES_MAX; i++)
        flush(shard, &shard->remote.lines[i], effects);
}

/* ---- answers ------------------------------------------------------------------------------- */

void remote_await(struct shard *shard, struct remote_region *region)
{
    if (region->unanswered_ns == 0)
        region->unanswered_ns = shard->now_ns;
}

void remote_hear(struct shard *shard, struct remote_region *region)
{
    region->heard_ns = shard->now_ns;
    region->unanswered_ns = 0;
}

void remote_answer(struct shard *shard, uint32_t index, const struct answer *answer,
                   struct effects *effects)
{
    const struct pending_check *check = pending_at(shard, index);
    ASSERT(check->remote); /* PENDINGCHECK-5 */
    peer_put_remote_answer(remote_record(shard, check->origin_node, check->origin_peer, effects),
                           check->origin_ticket, answer);
}

void remote_explain(struct shard *shard, uint32_t index, const struct peer_state *states,
                    uint32_t count, struct effects *effects)
{
    const struct pending_check *check = pending_at(shard, index);
    ASSERT(check->remote && count <= PEER_LIMITS_MAX);
    peer_put_explain(remote_record(shard, check->origin_node, check->origin_peer, effects),
                     check->origin_ticket, states, count);
}

struct hash128 remote_local_id(struct hash128 id)
{
    id.hi ^= LOCAL_ID;
    return id;
}

/* ---- time ------------------------------------------------------------------------------------ */

void remote_tick(struct shard *shard, struct effects *effects)
{
    struct remote_regions *remote = &shard->remote;
    if (!shard->policies[shard->policy].global)
        return;
    for (uint32_t i = 0; i < remote->count; i++) {
        struct remote_region *region = &remote->regions[i];
        if (region->id == remote->own || region->contact == 0)
            continue;
        const int64_t since_ns = at_least(region->turned_ns, region->unanswered_ns);
        if (region->unanswered_ns != 0 && shard->now_ns - since_ns >= remote_timeout_ns(region)) {
            region->turn++;
            choose(shard, region);
            region->next_ping_ns = shard->now_ns;
        }
        if (shard->now_ns < region->next_ping_ns)
            continue;
        remote_await(shard, region);
        region->next_ping_ns =
            shard->now_ns + (region->heard_ns == 0 ? REMOTE_TIMEOUT_NS : REMOTE_PING_NS);
        peer_put_remote_ping(remote_record(shard, region->contact, region->shard, effects),
                             shard->now_ns, 0);
    }
}

/* ---- what always holds ----------------------------------------------------------------------- */

static void check_region(const struct shard *shard, const struct remote_region *region)
{
    INVARIANT("REMOTE-8", region->member < shard->view->member_count);
    INVARIANT("REMOTE-8",
              remote_region_of_member(&shard->view->members[region->member]) == region->id);
    INVARIANT("REMOTE-8", region->heard_ns <= shard->now_ns);
    INVARIANT("REMOTE-8", region->unanswered_ns <= shard->now_ns && region->rtt_ns >= 0);
}

static void check_lines(const struct remote_regions *remote)
{
    for (uint32_t i = 0; i < REMOTE_LINES_MAX; i++) {
        const struct remote_line *line = &remote->lines[i];
        INVARIANT("REMOTE-8", !line->outbox.failed && line->outbox.len <= REMOTE_LINE_LEN);
        for (uint32_t k = 0; k < i && line->outbox.len > 0; k++)
            INVARIANT("REMOTE-8", remote->lines[k].outbox.len == 0 ||
                                      remote->lines[k].node != line->node ||
                                      remote->lines[k].shard != line->shard);
    }
}

void remote_check_invariants(const struct shard *shard)
{
    const struct remote_regions *remote = &shard->remote;
    INVARIANT("REMOTE-8", remote->count <= REMOTE_REGIONS_MAX);
    check_lines(remote);
    if (shard->view == NULL)
        return;
    for (uint32_t i = 0; i < remote->count; i++) {
        INVARIANT("REMOTE-8", i == 0 || remote->regions[i - 1].id < remote->regions[i].id);
        check_region(shard, &remote->regions[i]);
    }
    for (uint32_t vnode = 0; vnode < shard->options.vnodes; vnode++) {
        INVARIANT("REMOTE-5", remote->homes[vnode] != 0 && remote->homes[vnode] != REMOTE_NOWHERE);
        INVARIANT("REMOTE-6", !remote->moved[vnode] || remote->moved_until_ns != 0);
    }
}
