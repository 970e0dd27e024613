/* abroad.c - rules of scope `global`: keys that another region counts.
 *
 * Each region has a ring of its own, so each key has a decider in every region. Of a global rule
 * one region is the key's home: there its decider counts, as it counts any key. The deciders of the
 * other regions hold tokens on lease (purses.c) and admit checks with those, so that no check waits
 * for another region while there are any. All else about the key - hits, refunds, resets, peeks,
 * what clients hold - goes home, and so does what the purses ask and give back.
 *
 *      region us                                          region eu, the home
 *   node --FORWARD_GLOBAL--> decider of the key           any member       decider of the key
 *                            | purse: tokens? -- yes --> allowed
 *                            | none left at home? -----> denied
 *                            \ none asked for yet ------ ABROAD_ASK -----> caller --FORWARD--> |
 *                              (waits, for wan_wait)  <- ABROAD_ANSWER --         <--ANSWER--- |
 *
 * Each shard speaks with one member of each other region, its contact: whoever is asked there
 * passes it on as if a caller of its own had asked. Who does not answer is given up for the next.
 * What is asked leaves as one frame in a turn, and a keep-alive now and then tells how long the way
 * is, while there are global rules or pools; without them nothing is ever said. What regions say
 * about pools is in pools.c.
 *
 * A1  A lease is asked for, and given back, under one retry key however often and through whomever
 *     it is sent: the home's decider grants it once (D11 of decide.c). What is told too late goes
 *     back (purses.c), or is spent.
 * A2  A part that was sent home ends by its answer, by the region's silence, or by its deadline.
 *     So none waits for a region that is out of reach, but the first ones that find it so.
 * A3  What comes from abroad goes to a decider of this region or nowhere: it names this region as
 *     the home that its sender means, or is refused. So nothing goes in circles, and two regions
 *     that disagree about a home (a view or rules are on their way) do not both grant one lease.
 * A4  When no answer has come since a check began to wait, on_failure says what becomes of it: an
 *     error, an admission, or a decision in this region by a share of the limits, in a slot of its
 *     own (abroad_fall_back), which the region's replicas hold as any other. What the region holds
 *     on lease is taken first. When the home does answer, but has not told yet, it is denied.
 * A5  A rule that names no home is counted where the highest hash of (region, vnode) says, among
 *     the regions that have a ring. Those are in the configuration store (G7 of control_region.c),
 *     so it is the same wherever that is the same. A key whose home changes is counted anew.
 * A6  When regions come or go, each node takes the keys whose home changes from the old one at
 *     once, and gives them to the new one when leases of the old one have ended wherever that hears
 *     of the change in time. In between they have no home, as if it were out of reach.
 * A7  What waits here for a peer is one part, however often that one sends it, and ends once:
 *     copies join it, and those that come when it was told that the home is out of reach are told
 *     the same. So tokens that come later are charged for none that was decided by A4 meanwhile.
 *     What waits and what was told is remembered beside first answers (retry.h), and no longer.
 */
#include "node/cluster/region/abroad.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/vnodes.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/shard_state.h"

static_assert((int)VIEW_REGIONS_MAX <= (int)ABROAD_REGIONS_MAX,
              "all homes that a view tells have room");

#define LOCAL_ID UINT64_C(0x4c6f63616c536c74) /* makes the ids of A4's slots different */
#define WAIT     UINT8_MAX                    /* in the place of a part, of what waits (A7) */

int abroad_init(struct shard *shard)
{
    struct abroad *abroad = &shard->abroad;
    abroad->regions = alloc_array(shard->allocator, ABROAD_REGIONS_MAX, sizeof *abroad->regions);
    abroad->homes = alloc_array(shard->allocator, shard->options.vnodes, sizeof *abroad->homes);
    abroad->moved = alloc_array(shard->allocator, shard->options.vnodes, sizeof *abroad->moved);
    abroad->bytes = alloc_get(shard->allocator, ABROAD_LINES_MAX * ABROAD_LINE_LEN);
    if (abroad->regions == NULL || abroad->homes == NULL || abroad->moved == NULL ||
        abroad->bytes == NULL)
        return TG_ENOMEM;
    for (uint32_t i = 0; i < ABROAD_LINES_MAX; i++)
        bytes_writer_init(&abroad->lines[i].outbox, abroad->bytes + (size_t)i * ABROAD_LINE_LEN,
                          ABROAD_LINE_LEN);
    return 0;
}

void abroad_fini(struct shard *shard)
{
    struct abroad *abroad = &shard->abroad;
    alloc_put(shard->allocator, abroad->bytes, ABROAD_LINES_MAX * ABROAD_LINE_LEN);
    alloc_put(shard->allocator, abroad->moved, shard->options.vnodes * sizeof *abroad->moved);
    alloc_put(shard->allocator, abroad->homes, shard->options.vnodes * sizeof *abroad->homes);
    alloc_put(shard->allocator, abroad->regions, ABROAD_REGIONS_MAX * sizeof *abroad->regions);
}

/* ---- regions --------------------------------------------------------------------------------- */

static struct abroad_region *find(const struct shard *shard, uint64_t id)
{
    const struct abroad *abroad = &shard->abroad;
    for (uint32_t i = 0; i < abroad->count; i++)
        if (abroad->regions[i].id == id)
            return &abroad->regions[i];
    return NULL;
}

static uint64_t id_of(const char *name)
{
    return policy_region_id(name, strlen(name));
}

static uint64_t region_of(const struct view_member *member)
{
    return id_of(member->region);
}

/* Adds the region of the view's member, keeping the order of ids; beyond the bound the last ones
 * are left out. */
static void add(struct abroad *abroad, const struct abroad_region *region)
{
    uint32_t at = abroad->count;
    while (at > 0 && abroad->regions[at - 1].id > region->id)
        at--;
    if (at == ABROAD_REGIONS_MAX)
        return;
    if (abroad->count == ABROAD_REGIONS_MAX)
        abroad->count--;
    memmove(&abroad->regions[at + 1], &abroad->regions[at],
            (abroad->count - at) * sizeof *abroad->regions);
    abroad->regions[at] = *region;
    abroad->count++;
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
                    region_of(member) != region)
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

static void choose(struct shard *shard, struct abroad_region *region)
{
    const uint64_t mixed = hash_mix64(shard->options.node_id ^ region->id);
    const struct view_member *member =
        member_at(shard, region->id, (uint32_t)(mixed >> 32) % (1u << 20) + region->turn);
    region->contact = member != NULL ? member->id : 0;
    region->shard = member != NULL ? (uint16_t)(shard->options.shard % member->shards) : 0;
    region->turned_ns = shard->now_ns;
}

static bool is_contact(const struct shard *shard, const struct abroad_region *region)
{
    const struct view_member *member = view_find(shard->view, region->contact);
    return member != NULL && member->state <= VIEW_SUSPECT && region_of(member) == region->id &&
           region->shard < member->shards;
}

/* The regions that keys may be at home in, by name: as long as the view knows none, those of its
 * members. */
static uint32_t list_homes(const struct shard *shard, const char *names[ABROAD_REGIONS_MAX])
{
    const struct abroad *abroad = &shard->abroad;
    const struct view_regions *known = &shard->view->regions;
    if (known->count == 0)
        for (uint32_t i = 0; i < abroad->count; i++)
            names[i] = shard->view->members[abroad->regions[i].member].region;
    for (uint32_t i = 0; i < known->count; i++)
        names[i] = known->names[i];
    return known->count > 0 ? known->count : abroad->count;
}

/* A5, A6. */
static void settle_homes(struct shard *shard)
{
    struct abroad *abroad = &shard->abroad;
    const char *names[ABROAD_REGIONS_MAX];
    uint64_t ids[ABROAD_REGIONS_MAX];
    const uint32_t count = list_homes(shard, names);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = id_of(names[i]);
    const bool learns = shard->now_ns < abroad->moved_until_ns;
    bool moves = false;
    for (uint32_t vnode = 0; vnode < shard->options.vnodes; vnode++) {
        const uint64_t before = abroad->homes[vnode];
        uint64_t best = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t score = hash_mix64(ids[i] ^ hash_mix64(vnode + 1));
            if (i == 0 || score > best) {
                best = score;
                abroad->homes[vnode] = ids[i];
            }
        }
        const bool moved = abroad->known && before != abroad->homes[vnode];
        abroad->moved[vnode] = moved || (learns && abroad->moved[vnode]);
        moves = moves || moved;
    }
    abroad->known = shard->view->regions.count > 0;
    if (moves)
        abroad->moved_until_ns = shard->now_ns + ABROAD_MOVED_NS;
}

static bool has_moved(const struct shard *shard, uint32_t vnode)
{
    return shard->now_ns < shard->abroad.moved_until_ns && shard->abroad.moved[vnode];
}

void abroad_follow_view(struct shard *shard)
{
    struct abroad *abroad = &shard->abroad;
    const struct view *view = shard->view;
    struct abroad_region before[ABROAD_REGIONS_MAX];
    const uint32_t count = abroad->count;
    memcpy(before, abroad->regions, sizeof before);
    abroad->count = 0;
    abroad->own = region_of(&view->members[view->self]);
    for (uint32_t m = 0; m < view->member_count; m++) {
        struct abroad_region region = {.id = region_of(&view->members[m]), .member = m};
        if (view->members[m].state == VIEW_LEFT || find(shard, region.id) != NULL)
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (before[i].id == region.id) {
                region = before[i];
                region.member = m;
            }
        add(abroad, &region);
    }
    for (uint32_t i = 0; i < abroad->count; i++)
        if (abroad->regions[i].id != abroad->own && !is_contact(shard, &abroad->regions[i]))
            choose(shard, &abroad->regions[i]);
    settle_homes(shard);
}

uint64_t abroad_home(const struct shard *shard, const struct policy_rule *rule, uint32_t vnode)
{
    if (rule->scope != POLICY_SCOPE_GLOBAL)
        return 0;
    const uint32_t number = vnodes_ring(shard, vnode);
    const bool named = rule->home_region != 0;
    if (!named && has_moved(shard, number))
        return ABROAD_NOWHERE;
    const uint64_t home = named ? rule->home_region : shard->abroad.homes[number];
    return home != shard->abroad.own ? home : 0;
}

/* The name of a region that may be a home; "" if it is not known. */
static const char *name_of(const struct shard *shard, uint64_t id)
{
    const char *names[ABROAD_REGIONS_MAX];
    for (uint32_t i = shard->view != NULL ? list_homes(shard, names) : 0; i-- > 0;)
        if (id_of(names[i]) == id)
            return names[i];
    return "";
}

const char *abroad_home_name(const struct shard *shard, const struct policy_rule *rule,
                             uint32_t vnode)
{
    if (rule == NULL || rule->scope != POLICY_SCOPE_GLOBAL)
        return "";
    return rule->home_region != 0 ? rule->home.data
                                  : name_of(shard, shard->abroad.homes[vnodes_ring(shard, vnode)]);
}

uint64_t abroad_pool_home(const struct shard *shard, const struct policy_pool *pool)
{
    if (pool == NULL || pool->scope != POLICY_SCOPE_GLOBAL)
        return 0;
    const uint32_t vnode = pools_vnode(pool->id, shard->options.vnodes);
    if (pool->home_region != 0)
        return pool->home_region;
    return has_moved(shard, vnode) ? ABROAD_NOWHERE : shard->abroad.homes[vnode];
}

const char *abroad_pool_home_name(const struct shard *shard, const struct policy_pool *pool)
{
    if (pool->scope != POLICY_SCOPE_GLOBAL || pool->home_region != 0)
        return pool->home.data;
    return name_of(shard, shard->abroad.homes[pools_vnode(pool->id, shard->options.vnodes)]);
}

uint64_t abroad_region_of(const struct shard *shard, uint64_t node)
{
    const struct view_member *member = view_find(shard->view, node);
    return member != NULL && view_is_abroad(shard->view, member) ? region_of(member) : 0;
}

uint32_t abroad_others(const struct shard *shard, uint64_t out[ABROAD_REGIONS_MAX])
{
    const char *names[ABROAD_REGIONS_MAX];
    const uint32_t all = list_homes(shard, names);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all; i++) {
        out[count] = id_of(names[i]);
        count += out[count] != shard->abroad.own;
    }
    return count;
}

int64_t abroad_rtt_ns(const struct shard *shard, uint64_t id)
{
    const struct abroad_region *region = find(shard, id);
    return region != NULL && region->rtt_ns != 0 ? region->rtt_ns : ABROAD_RTT_NS;
}

static int64_t at_least(int64_t least, int64_t value)
{
    return value > least ? value : least;
}

/* How long an answer is waited for until another member is asked; the first one takes as long as a
 * connection does. */
static int64_t patience_ns(const struct abroad_region *region)
{
    if (region->heard_ns == 0)
        return ABROAD_LOST_NS;
    return at_least(ABROAD_PATIENCE_NS, 2 * region->rtt_ns);
}

bool abroad_lost(const struct shard *shard, uint64_t id)
{
    const struct abroad_region *region = find(shard, id);
    if (region == NULL || region->contact == 0)
        return true;
    return region->unanswered_ns != 0 &&
           shard->now_ns - region->unanswered_ns >= at_least(ABROAD_LOST_NS, 4 * region->rtt_ns);
}

bool abroad_heard_since(const struct shard *shard, uint64_t id, int64_t since_ns)
{
    const struct abroad_region *region = find(shard, id);
    return region != NULL && region->heard_ns >= since_ns;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void flush(struct shard *shard, struct abroad_line *line, struct effects *effects)
{
    if (line->outbox.len == 0)
        return;
    const struct peer_envelope envelope = {
        .node = shard->options.node_id,
        .shard = shard->options.shard,
        .boot = shard->options.boot,
        .records = line->outbox.data,
        .len = line->outbox.len,
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

struct bytes_writer *abroad_outbox_of(struct shard *shard, uint64_t node, uint16_t to, size_t len,
                                      struct effects *effects)
{
    struct abroad_line *line = &shard->abroad.lines[0];
    for (uint32_t i = 0; i < ABROAD_LINES_MAX; i++) {
        struct abroad_line *at = &shard->abroad.lines[i];
        if (at->outbox.len != 0 && at->node == node && at->shard == to) {
            line = at;
            break;
        }
        if (at->outbox.len == 0)
            line = at;
    }
    if (line->node != node || line->shard != to || line->outbox.len + len > ABROAD_LINE_LEN)
        flush(shard, line, effects);
    line->node = node;
    line->shard = to;
    return &line->outbox;
}

struct bytes_writer *abroad_outbox(struct shard *shard, uint64_t id, size_t len,
                                   struct effects *effects)
{
    const struct abroad_region *region = find(shard, id);
    if (abroad_lost(shard, id))
        return NULL;
    return abroad_outbox_of(shard, region->contact, region->shard, len, effects);
}

/* What goes to that shard, with room for one more record. */
static struct bytes_writer *outbox(struct shard *shard, uint64_t node, uint16_t to,
                                   struct effects *effects)
{
    return abroad_outbox_of(shard, node, to, PEER_RECORD_MAX, effects);
}

void abroad_flush(struct shard *shard, struct effects *effects)
{
    for (uint32_t i = 0; i < ABROAD_LINES_MAX; i++)
        flush(shard, &shard->abroad.lines[i], effects);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void await(struct shard *shard, struct abroad_region *region)
{
    if (region->unanswered_ns == 0)
        region->unanswered_ns = shard->now_ns;
}

/* Under which key it is remembered what waits here under a peer's ticket (A7). */
static struct retry_key wait_key(const struct shard *shard, uint16_t peer, uint64_t ticket)
{
    const struct peer *asker = shard->peers[peer];
    return (struct retry_key){asker->node, ticket & ~RETRY_TICKET_STANDS, asker->shard, WAIT};
}

static void fail(struct shard *shard, uint32_t index, uint8_t status, struct effects *effects)
{
    const struct answer answer = {.status = status};
    parts_answer(shard, index, &answer, shard->options.node_id, effects);
}

/* Notes that the peer's part waits, or was told that the home is out of reach (A7). */
static void note_wait(struct shard *shard, uint32_t index, bool waits)
{
    const struct part *part = parts_at(shard, index);
    const struct retry_key key = wait_key(shard, part->origin_peer, part->origin_ticket);
    (void)retry_remember(&shard->retries, &key, 0, waits, 0, parts_ticket(shard, index),
                         shard->now_ns);
}

void abroad_unavailable(struct shard *shard, uint32_t index)
{
    note_wait(shard, index, false);
}

/* Whether another copy of what the peer has sent under the ticket waits here, in a part that is not
 * `own`, or did: then it waits on as one with that, or is told the same (A7). */
static bool joins(struct shard *shard, uint16_t peer, uint64_t ticket, uint32_t own,
                  struct effects *effects)
{
    const struct answer unavailable = {.status = ANSWER_UNAVAILABLE};
    const struct retry_key key = wait_key(shard, peer, ticket);
    struct retry_memory_entry memory;
    if (!retry_look(&shard->retries, &key, shard->now_ns, &memory))
        return false;
    if (!memory.allowed) {
        peer_put_answer(peers_outbox(shard, peer, PEER_RECORD_MAX, effects), ticket, &unavailable);
        return true;
    }
    const uint32_t index = parts_find(shard, memory.granted);
    if (index == POOL_NONE || index == own)
        return false; /* its key has moved meanwhile, or it is the one */
    struct part *part = parts_at(shard, index);
    part->origin_peer = peer;
    part->origin_ticket = ticket;
    part->forward.flags |= FORWARD_RETRY;
    note_wait(shard, index, true); /* it is remembered for as long as copies come */
    return true;
}

void abroad_send(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    struct abroad_region *region = find(shard, part->forward.home);
    if (abroad_lost(shard, part->forward.home)) { /* A2 */
        fail(shard, index, ANSWER_UNAVAILABLE, effects);
        return;
    }
    if (part->status != PART_ABROAD && part->from_peer) {
        part->deadline_ns = shard->now_ns + SHARD_FORWARD_NS;
        note_wait(shard, index, true);
    }
    part->status = PART_ABROAD;
    part->sent_ns = shard->now_ns;
    part->retry_ns = shard->now_ns + patience_ns(region);
    part->forward.ticket = parts_ticket(shard, index);
    peer_put_abroad_ask(outbox(shard, region->contact, region->shard, effects), &part->forward);
    part->forward.flags |= FORWARD_RETRY; /* from the second time on */
    await(shard, region);
    shard->stats.abroad_asked++;
}

/* Whether tokens of all that the part meets can be held here. */
static bool gives_tokens(const struct forward *forward)
{
    for (uint32_t i = 0; i < forward->limit_count; i++)
        if (limit_lease_refusal(&forward->limits[i]) != NULL)
            return false;
    return true;
}

/* Whether the forward is a check that a purse decides. One that is to tell every limit asks who
 * knows them, unless it may have to be undone. */
static bool is_for_purse(const struct forward *forward)
{
    const bool tells =
        (forward->flags & FORWARD_EXPLAIN) != 0 && (forward->flags & FORWARD_SEVERAL) == 0;
    return forward->operation == OPERATION_CHECK && !tells && gives_tokens(forward);
}

/* No tokens, and no word of the home within the time that the rule gives it (A4). */
static void end_wait(struct shard *shard, uint32_t index, struct effects *effects)
{
    const struct part *part = parts_at(shard, index);
    const int64_t since_ns = part->wan_ns - part->forward.wait_ms * MS;
    if (!abroad_heard_since(shard, part->forward.home, since_ns)) {
        fail(shard, index, ANSWER_UNAVAILABLE, effects);
        return;
    }
    const struct answer denied = {
        .status = ANSWER_DECIDED,
        .limit = part->forward.limits[0].count,
        .retry_after_ns = abroad_rtt_ns(shard, part->forward.home),
    };
    shard->stats.global_denied++;
    shard->stats.global_late++;
    purses_denied(shard, &part->forward, parts_attempt(shard, index), &denied);
    parts_answer(shard, index, &denied, shard->options.node_id, effects);
}

void abroad_decide(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    struct answer answer;
    if ((part->forward.retry.part & RETRY_UNDO) != 0) {
        purses_undo(shard, &part->forward, &answer);
        parts_answer(shard, index, &answer, shard->options.node_id, effects);
        return;
    }
    const bool waited = part->wan_ns != 0;
    if (part->from_peer && !waited &&
        joins(shard, part->origin_peer, part->origin_ticket, index, effects)) {
        parts_free(shard, index);
        return;
    }
    if (!is_for_purse(&part->forward)) {
        abroad_send(shard, index, effects);
        return;
    }
    if (decide_called_off(shard, index)) {
        parts_free(shard, index);
        return;
    }
    switch (purses_decide_global(shard, &part->forward, parts_attempt(shard, index), waited,
                                 &answer, effects)) {
    case PURSES_DECIDED:
        parts_answer(shard, index, &answer, shard->options.node_id, effects);
        return;
    case PURSES_FULL:
        abroad_send(shard, index, effects);
        return;
    case PURSES_WAIT:
        break;
    }
    if (!waited) {
        shard->stats.global_waited++;
        part->wan_ns = shard->now_ns + part->forward.wait_ms * MS;
        if (part->from_peer) {
            part->deadline_ns = part->wan_ns + SHARD_FORWARD_NS;
            note_wait(shard, index, true);
        }
    }
    if (shard->now_ns >= part->wan_ns)
        end_wait(shard, index, effects);
    else
        parts_park(shard, index);
}

bool abroad_decide_forward(struct shard *shard, uint16_t peer, const struct forward *forward,
                           struct effects *effects)
{
    struct answer answer;
    if ((forward->retry.part & RETRY_UNDO) != 0)
        return false;
    if ((forward->flags & FORWARD_RETRY) != 0 &&
        joins(shard, peer, forward->ticket, POOL_NONE, effects))
        return true;
    if (!is_for_purse(forward))
        return false;
    const uint16_t attempt = retry_attempt(shard->peers[peer]->node, forward->ticket);
    if (purses_decide_global(shard, forward, attempt, false, &answer, effects) != PURSES_DECIDED)
        return false;
    peer_put_answer(peers_outbox(shard, peer, PEER_RECORD_MAX, effects), forward->ticket, &answer);
    return true;
}

bool abroad_decide_item(struct shard *shard, uint32_t item, const struct policy_rule *rule,
                        const struct forward *forward, struct effects *effects)
{
    struct answer answer;
    uint16_t at;
    if (!is_for_purse(forward) ||
        vnodes_route(shard, vnodes_ring(shard, forward->vnode), &at) != ROUTE_HERE)
        return false;
    if (purses_decide_global(shard, forward, 0, false, &answer, effects) != PURSES_DECIDED ||
        answer.status != ANSWER_DECIDED)
        return false;
    requests_row_done(shard, &shard->rows[item], rule, &forward->limits[answer.limit_index],
                      forward->vnode, &answer, effects);
    return true;
}

struct hash128 abroad_local_id(struct hash128 id)
{
    id.hi ^= LOCAL_ID;
    return id;
}

bool abroad_fall_back(struct shard *shard, uint32_t index, struct effects *effects)
{
    struct part *part = parts_at(shard, index);
    struct forward *forward = &part->forward;
    if (part->request == POOL_NONE || part->undo || part->rule == NULL || forward->home == 0 ||
        part->rule->on_failure != POLICY_FAILURE_LOCAL || forward->operation != OPERATION_CHECK ||
        shard->now_ns >= part->deadline_ns)
        return false;
    stand_in_scale(forward, part->rule->local_share);
    for (uint32_t i = 0; i < forward->limit_count; i++)
        forward->ids[i] = abroad_local_id(forward->ids[i]);
    forward->home = 0;
    forward->flags &= (uint8_t)~FORWARD_RETRY;
    forward->retry.part |= RETRY_LOCAL;
    part->fell_back = true;
    part->sends = 0;
    part->stood_in = false;
    part->generation = ++shard->generation;
    shard->stats.global_local++;
    parts_dispatch(shard, index, effects);
    return true;
}

/* ---- being asked ----------------------------------------------------------------------------- */

void abroad_answer(struct shard *shard, uint32_t index, const struct answer *answer,
                   struct effects *effects)
{
    const struct part *part = parts_at(shard, index);
    peer_put_abroad_answer(outbox(shard, part->origin_node, part->origin_peer, effects),
                           part->origin_ticket, answer);
}

void abroad_explain(struct shard *shard, uint32_t index, const struct peer_state *states,
                    uint32_t count, struct effects *effects)
{
    const struct part *part = parts_at(shard, index);
    peer_put_explain(outbox(shard, part->origin_node, part->origin_peer, effects),
                     part->origin_ticket, states, count);
}

static void take_ask(struct shard *shard, const struct peer_envelope *envelope,
                     const struct forward *asked, struct effects *effects)
{
    struct forward forward = *asked;
    struct answer answer = {.status = ANSWER_BUSY};
    uint32_t index = POOL_NONE;
    forward.home = 0;
    if (asked->home != shard->abroad.own || (forward.retry.part & RETRY_UNDO) != 0)
        answer.status = ANSWER_UNAVAILABLE; /* A3 */
    else if (shard->parts.used < SHARD_UNDO_PARTS_MAX)
        index = parts_new(shard, &forward, shard->now_ns + SHARD_FORWARD_NS);
    if (index == POOL_NONE) {
        shard->stats.busy += answer.status == ANSWER_BUSY;
        peer_put_abroad_answer(outbox(shard, envelope->node, envelope->shard, effects),
                               asked->ticket, &answer);
        return;
    }
    struct part *part = parts_at(shard, index);
    part->abroad = true;
    part->origin_node = envelope->node;
    part->origin_peer = envelope->shard;
    part->origin_ticket = asked->ticket;
    shard->stats.abroad_served++;
    shard->keepalive.busy_ns = shard->now_ns;
    if (vnodes_quorum(shard, forward.vnode))
        vnodes_use_quorum(shard, effects);
    parts_dispatch(shard, index, effects);
}

static void hear(struct shard *shard, struct abroad_region *region)
{
    region->heard_ns = shard->now_ns;
    region->unanswered_ns = 0;
}

static void take_ping(struct shard *shard, struct abroad_region *region,
                      const struct peer_envelope *envelope, const struct peer_record *record,
                      struct effects *effects)
{
    const int64_t rtt_ns = shard->now_ns - record->abroad_ping.echo_ns;
    if (record->abroad_ping.sent_ns != 0) {
        peer_put_abroad_ping(outbox(shard, envelope->node, envelope->shard, effects), 0,
                             record->abroad_ping.sent_ns);
        return;
    }
    if (rtt_ns < 0 || rtt_ns > 4 * ABROAD_LOST_NS)
        return; /* of a process that was here before, or long on its way */
    region->rtt_ns = region->rtt_ns == 0 ? rtt_ns : (7 * region->rtt_ns + rtt_ns) / 8;
    hear(shard, region);
}

/* What one of another region may say; false for anything else. */
static bool take(struct shard *shard, const struct peer_envelope *envelope,
                 const struct peer_record *record, struct effects *effects)
{
    const struct view_member *member = view_find(shard->view, envelope->node);
    struct abroad_region *region = find(shard, region_of(member));
    if (region == NULL)
        return true; /* too many regions */
    switch (record->type) {
    case PEER_ABROAD_PING:
        take_ping(shard, region, envelope, record, effects);
        return true;
    case PEER_ABROAD_ASK:
        take_ask(shard, envelope, &record->forward, effects);
        return true;
    case PEER_EXPLAIN:
        if (parts_abroad(shard, record->explain.ticket, region->id) != POOL_NONE)
            explain_part(shard, parts_abroad(shard, record->explain.ticket, region->id),
                         record->explain.states, record->explain.count, effects);
        return true;
    case PEER_ABROAD_ANSWER: {
        const uint32_t index = parts_abroad(shard, record->answer.ticket, region->id);
        hear(shard, region);
        shard->keepalive.busy_ns = shard->now_ns;
        if (index != POOL_NONE)
            parts_answer(shard, index, &record->answer.answer, envelope->node, effects);
        return true;
    }
    case PEER_ABROAD_POOL_REPORT:
        pools_told_abroad(shard, envelope, &record->pool_report, effects);
        return true;
    case PEER_ABROAD_POOL_LEVEL:
        pools_level_abroad(shard, region->id, &record->pool_level, effects);
        return true;
    default:
        return false;
    }
}

void abroad_frame(struct shard *shard, const struct peer_envelope *envelope,
                  struct effects *effects)
{
    struct bytes_reader reader;
    struct peer_record record;
    int result;
    bytes_reader_init(&reader, envelope->records, envelope->len);
    while ((result = peer_next(&reader, 2 * shard->options.vnodes, &record)) > 0)
        if (!take(shard, envelope, &record, effects)) {
            result = TG_EPROTOCOL;
            break;
        }
    shard->stats.bad_frames += result < 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

void abroad_tick(struct shard *shard, struct effects *effects)
{
    struct abroad *abroad = &shard->abroad;
    if (!shard->policies[shard->policy].global)
        return;
    for (uint32_t i = 0; i < abroad->count; i++) {
        struct abroad_region *region = &abroad->regions[i];
        if (region->id == abroad->own || region->contact == 0)
            continue;
        const int64_t since_ns = at_least(region->turned_ns, region->unanswered_ns);
        if (region->unanswered_ns != 0 && shard->now_ns - since_ns >= patience_ns(region)) {
            region->turn++;
            choose(shard, region);
            region->next_ping_ns = shard->now_ns;
        }
        if (shard->now_ns < region->next_ping_ns)
            continue;
        await(shard, region);
        region->next_ping_ns =
            shard->now_ns + (region->heard_ns == 0 ? ABROAD_PATIENCE_NS : ABROAD_PING_NS);
        peer_put_abroad_ping(outbox(shard, region->contact, region->shard, effects), shard->now_ns,
                             0);
    }
}
