/* vnodes.c - roles and terms: who decides for each vnode, and how that changes hands.
 *
 *                 view lists us                    all live replicas reported,
 *     ABSENT ------------------------> RECOVERING  the best state is held here,
 *        ^                             |   ^   |   nobody of higher rank lives
 *        | view no longer              |   |   +------------------------> DECIDING
 *        | lists us      OPENED or     |   | the decider is silent         |    |
 *        |               REPORT of a   v   | and we are first              |    | a preferred
 *        +--------------- decider --> REPLICA <-- newer term seen ---------+    | replica is synced
 *                                      ^                                        v
 *                                      +---------- OPENED by the receiver -- PASSING
 *
 * RECOVERING asks every other replica what it holds - (state term, sequence) - and takes the
 * highest, pulling it if it is elsewhere; only then is a new term opened. It serves a start, a
 * take-over after a decider's silence, and a pass that got lost, by one mechanism.
 *
 * V1  A term is opened only by open_term, above every term known (T2 of term.h).
 * V2  A replica takes over only if by its own evidence the decider and every replica of higher
 *     rank are gone.
 * V3  PASS is sent after the receiver's MARK in one stream, and taken only by a receiver that
 *     holds exactly the state it states. The sender decides nothing from before the MARK on.
 * V4  The term number never repeats for one writer: each process opens above its own floor.
 * V5  Who asks what others hold, or tells a replica that follows it that it does not decide,
 *     decides no more. Its replica of the highest rank then recovers as well: the one that asks
 *     will wait for it.
 * V6  Who learns of a term of its own that it does not decide in (it restarted without its latest
 *     state) recovers, whatever its rank: the others follow it, and only it knows better.
 * V7  Only replicas keep terms apart; to others a term is a hint whom to ask. Who is told by the
 *     writer of a term that it knows of an older one alone (it lost the newer in a crash) believes
 *     it if it is no replica, and tells it the newer one if it is.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

enum {
    VNODES_PASSES_PER_TICK = 256,
    VNODES_DROPS_PER_TICK = 1024,
    VNODES_ASK_AGAIN_MS = 100,
    VNODES_PASS_GIVE_UP_MS = 1000
};

bool vnodes_mine(const struct shard *shard, uint32_t number)
{
    return number % shard->options.shards == shard->options.shard;
}

static uint8_t disk_mask(const struct shard *shard)
{
    return shard->options.ephemeral ? 0 : TABLE_TARGET_BIT(TABLE_DISK);
}

struct peer_vnode vnodes_entry(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct peer_vnode entry = {
        .vnode = number,
        .role = vnode->role,
        .term = vnode->term,
        .state = vnode->state,
        .seq = table_vnode_seq(shard->table, number),
    };
    return entry;
}

static bool self_at(const struct shard *shard, const struct vnode *vnode, uint32_t place)
{
    return vnode->ids[place] == shard->options.node_id;
}

static void set_role(struct shard *shard, struct vnode *vnode, enum peer_role role)
{
    vnode->role = (uint8_t)role;
    vnode->since_ns = shard->now_ns;
    vnode->pulling = false;
    shard->reroute_due = true;
}

/* ---- becoming a replica ---------------------------------------------------------------------- */

static void become_replica(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role == ROLE_DECIDING || vnode->role == ROLE_PASSING)
        shard->stats.stepped_down++;
    set_role(shard, vnode, ROLE_REPLICA);
    vnode->puller = PEER_NONE;
    table_set_targets(shard->table, number, disk_mask(shard));
}

bool vnodes_adopt(struct shard *shard, uint32_t number, const struct term *term)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (term_compare(term, &vnode->term) <= 0)
        return false;
    vnode->term = *term;
    vnode->whole = false; /* of the new decider's copy nothing was taken yet */
    const bool own = term->writer == shard->options.node_id && vnodes_mine(shard, number);
    vnode->hint = own ? PEER_NONE : peers_for(shard, term->writer, number);
    if (!own && vnode->role != ROLE_ABSENT && vnode->role != ROLE_REPLICA)
        become_replica(shard, number);
    shard->reroute_due = true;
    return true;
}

void vnodes_moved(struct shard *shard, uint16_t at, uint32_t number, const struct term *term,
                  struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_adopt(shard, number, term) || vnode->hint != at ||
        term_compare(term, &vnode->term) == 0)
        return;
    if (vnode->role == ROLE_ABSENT) { /* V7 */
        vnode->term = *term;
        vnode->hint = peers_for(shard, term->writer, number);
        shard->reroute_due = true;
    } else {
        const struct peer_vnode entry = vnodes_entry(shard, number);
        peers_put_vnode(shard, at, PEER_STALE, &entry, effects);
    }
}

/* ---- recovering ------------------------------------------------------------------------------ */

static void ask(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const struct peer_vnode entry = vnodes_entry(shard, number);
    vnode->asked_ns = shard->now_ns;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint16_t at = vnode->links[i].peer;
        if (at != PEER_NONE && !peers_silent(shard, at))
            peers_put_vnode(shard, at, PEER_QUERY, &entry, effects);
    }
}

static void recover(struct shard *shard, uint32_t number, bool fresh, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    set_role(shard, vnode, ROLE_RECOVERING);
    vnode->fresh = fresh;
    vnode->reported = 0;
    vnode->equal = 0;
    vnode->best = PEER_NONE;
    vnode->best_state = vnode->state;
    vnode->best_seq = table_vnode_seq(shard->table, number);
    vnode->puller = PEER_NONE;
    table_set_targets(shard->table, number, disk_mask(shard));
    ask(shard, number, effects);
}

static void open_term(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const bool replaces = !term_is_none(&vnode->term) && !vnode->fresh;
    struct term above = vnode->term;
    if (above.number < shard->options.term_floor)
        above.number = shard->options.term_floor; /* V4 */
    vnode->term = term_above(&above, shard->view->epoch, shard->options.node_id);
    vnode->state = vnode->term;
    vnode->hint = PEER_NONE;
    vnode->puller = PEER_NONE;
    set_role(shard, vnode, ROLE_DECIDING);
    uint8_t mask = disk_mask(shard);
    for (uint32_t i = 0; i < vnode->link_count; i++)
        mask |= TABLE_TARGET_BIT(i + 1);
    table_set_targets(shard->table, number, mask);
    table_set_vnode_seq(shard->table, number, table_vnode_seq(shard->table, number) + 1);
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        if ((vnode->equal & 1u << i) != 0)
            stream_owe_mark(shard, number, i);
        else
            stream_restart_link(shard, number, i);
    }
    struct peer_vnode entry = vnodes_entry(shard, number);
    entry.sync = (uint32_t)++shard->opened;
    for (uint16_t i = 0; i < shard->peer_count; i++)
        if (shard->peers[i]->in_view)
            peers_put_vnode(shard, i, PEER_OPENED, &entry, effects);
    shard->stats.terms_opened++;
    shard->stats.takeovers += replaces;
}

uint32_t vnodes_announce(struct shard *shard, uint16_t at, struct effects *effects)
{
    uint32_t count = 0;
    for (uint32_t number = shard->options.shard; number < shard->options.vnodes;
         number += shard->options.shards) {
        if (shard->vnodes[number].role != ROLE_DECIDING)
            continue;
        struct peer_vnode entry = vnodes_entry(shard, number);
        entry.sync = 0;
        peers_put_vnode(shard, at, PEER_OPENED, &entry, effects);
        count++;
    }
    return count;
}

/* V2: whether no replica of higher rank lives, by this shard's own evidence. */
static bool first_alive(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        if (self_at(shard, vnode, i))
            return true;
        if (!peers_silent_node(shard, vnode->ids[i], number))
            return false;
    }
    return false;
}

/* Whether `link` need not be waited for any more. */
static bool accounted(const struct shard *shard, const struct vnode *vnode, uint32_t link)
{
    const uint16_t at = vnode->links[link].peer;
    if ((vnode->reported & 1u << link) != 0 || (at != PEER_NONE && peers_silent(shard, at)))
        return true;
    const int64_t patience_ns = vnode->fresh ? shard->options.grace_ns : SHARD_RECOVER_NS;
    return shard->now_ns - vnode->since_ns > patience_ns;
}

static void finish_recovery(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (!accounted(shard, vnode, i))
            return;
    if (!first_alive(shard, number))
        return;
    if (vnode->best == PEER_NONE) {
        open_term(shard, number, effects);
        return;
    }
    if (peers_silent(shard, vnode->best)) {
        recover(shard, number, vnode->fresh, effects);
        return;
    }
    if (vnode->pulling)
        return;
    vnode->pulling = true;
    const struct peer_vnode entry = vnodes_entry(shard, number);
    peers_put_vnode(shard, vnode->best, PEER_PULL, &entry, effects);
}

void vnodes_query(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                  struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && entry->role == ROLE_RECOVERING &&
        first_alive(shard, entry->vnode))
        recover(shard, entry->vnode, false, effects); /* V5 */
    const struct peer_vnode report = vnodes_entry(shard, entry->vnode);
    peers_put_vnode(shard, at, PEER_REPORT, &report, effects);
}

static void note_report(struct shard *shard, uint32_t link, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    int order = term_compare(&entry->state, &vnode->best_state);
    if (order == 0)
        order = entry->seq < vnode->best_seq ? -1 : entry->seq > vnode->best_seq;
    vnode->reported |= (uint8_t)(1u << link);
    if (order > 0) {
        vnode->best = vnode->links[link].peer;
        vnode->best_state = entry->state;
        vnode->best_seq = entry->seq;
        vnode->equal = 0;
    }
    if (order >= 0)
        vnode->equal |= (uint8_t)(1u << link);
}

/* What a node says of itself that does not decide, though others follow it (V5). */
static bool decides(uint8_t role)
{
    return role == ROLE_DECIDING || role == ROLE_PASSING;
}

void vnodes_lack(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                 struct effects *effects)
{
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    const struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (decides(vnode->role) || vnode->puller == at) {
        stream_lacks(shard, at, entry);
        return;
    }
    const struct peer_vnode report = vnodes_entry(shard, entry->vnode);
    peers_put_vnode(shard, at, PEER_REPORT, &report, effects);
}

void vnodes_report(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                   struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    if (vnode->role == ROLE_REPLICA && vnode->hint == at && !decides(entry->role) &&
        first_alive(shard, entry->vnode))
        recover(shard, entry->vnode, false, effects);
    if (vnode->role != ROLE_RECOVERING)
        return;
    if (decides(entry->role) && term_compare(&entry->term, &vnode->term) == 0) {
        vnode->hint = at;
        become_replica(shard, entry->vnode);
        return;
    }
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer == at && !vnode->pulling)
            note_report(shard, i, entry);
    finish_recovery(shard, entry->vnode, effects);
}

void vnodes_pull(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    if (!vnodes_mine(shard, entry->vnode) ||
        (vnode->role != ROLE_REPLICA && vnode->role != ROLE_RECOVERING))
        return;
    vnode->puller = at;
    table_set_targets(shard->table, entry->vnode,
                      (uint8_t)(disk_mask(shard) | TABLE_TARGET_BIT(TABLE_REPLICA_1)));
    stream_restart_link(shard, entry->vnode, 0);
}

void vnodes_pulled(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    vnode->pulling = false;
    vnode->best = PEER_NONE;
    vnode->best_state = vnode->state;
    vnode->best_seq = table_vnode_seq(shard->table, number);
    finish_recovery(shard, number, effects);
}

void vnodes_opened(struct shard *shard, uint16_t at, const struct peer_vnode *entry)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    if (term_compare(&entry->term, &vnode->term) != 0 ||
        entry->term.writer != shard->peers[at]->node)
        return;
    vnode->hint = at;
    if (vnode->role == ROLE_RECOVERING)
        become_replica(shard, entry->vnode);
    vnode->puller = PEER_NONE;
}

/* ---- passing --------------------------------------------------------------------------------- */

static void put_pass(struct shard *shard, uint32_t number, uint32_t link, struct effects *effects)
{
    const struct peer_vnode entry = vnodes_entry(shard, number);
    shard->vnodes[number].asked_ns = shard->now_ns;
    peers_put_vnode(shard, shard->vnodes[number].links[link].peer, PEER_PASS, &entry, effects);
}

/* The link that should decide instead of this node, or -1. */
static int successor(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    uint32_t link = 0;
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        if (self_at(shard, vnode, i)) {
            if (!shard->resigning)
                return -1;
            continue;
        }
        if (link == vnode->link_count)
            break;
        const uint16_t at = vnode->links[link].peer;
        if (at != PEER_NONE && !peers_silent(shard, at) && !shard->peers[at]->resigning)
            return (int)link;
        link++;
    }
    return -1;
}

static bool try_pass(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->rank == 0 && !shard->resigning)
        return false; /* nobody is preferred to this node */
    const int link = successor(shard, number);
    if (link < 0 || !vnode->links[link].confirmed)
        return false;
    set_role(shard, vnode, ROLE_PASSING); /* V3: nothing is decided from here on */
    vnode->passing_to = vnode->links[link].peer;
    if (stream_drain(shard, number, (uint32_t)link, effects)) {
        put_pass(shard, number, (uint32_t)link, effects);
        return true;
    }
    set_role(shard, vnode, ROLE_DECIDING); /* nothing was promised yet */
    return false;
}

void vnodes_pass(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                 struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    (void)vnodes_adopt(shard, entry->vnode, &entry->term);
    const bool whole = vnode->role == ROLE_REPLICA &&
                       term_compare(&vnode->term, &entry->term) == 0 &&
                       term_compare(&vnode->state, &entry->term) == 0 &&
                       table_vnode_seq(shard->table, entry->vnode) == entry->seq;
    if (whole && vnodes_mine(shard, entry->vnode)) {
        vnode->equal = 0;
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if (vnode->links[i].peer == at)
                vnode->equal |= (uint8_t)(1u << i);
        vnode->fresh = true; /* a planned change, not a take-over */
        open_term(shard, entry->vnode, effects);
        return;
    }
    const struct peer_vnode reply = vnodes_entry(shard, entry->vnode);
    peers_put_vnode(shard, at, vnode->role == ROLE_DECIDING ? PEER_OPENED : PEER_REPORT, &reply,
                    effects);
}

static void pass_again(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (peers_silent(shard, vnode->passing_to) ||
        shard->now_ns - vnode->since_ns > VNODES_PASS_GIVE_UP_MS * MS) {
        recover(shard, number, false, effects);
        return;
    }
    if (shard->now_ns - vnode->asked_ns < SHARD_PASS_RETRY_NS)
        return;
    vnode->asked_ns = shard->now_ns;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        if (vnode->links[i].peer != vnode->passing_to)
            continue;
        if (!stream_synced(shard, number, i))
            stream_restart_link(shard, number, i);
        if (stream_drain(shard, number, i, effects))
            put_pass(shard, number, i, effects);
    }
}

/* ---- the view -------------------------------------------------------------------------------- */

static bool same_ids(const struct vnode *vnode, const uint64_t *ids, uint32_t count)
{
    return vnode->id_count == count && memcmp(vnode->ids, ids, count * sizeof *ids) == 0;
}

/* Rebuilds the links to the other replicas; true for links that changed their peer. */
static uint8_t set_replicas(struct shard *shard, uint32_t number, const uint64_t *ids,
                            uint32_t count)
{
    struct vnode *vnode = &shard->vnodes[number];
    uint8_t changed = 0;
    uint32_t links = 0;
    vnode->id_count = (uint8_t)count;
    vnode->rank = UINT8_MAX;
    memcpy(vnode->ids, ids, count * sizeof *ids);
    for (uint32_t i = 0; i < count; i++) {
        if (self_at(shard, vnode, i)) {
            vnode->rank = (uint8_t)i;
            continue;
        }
        if (links == SHARD_REPLICAS_OTHER)
            break;
        const uint16_t at = peers_for(shard, ids[i], number);
        struct replica_link *link = &vnode->links[links];
        if (links >= vnode->link_count || link->peer != at) {
            *link = (struct replica_link){.peer = at, .mark_due = link->mark_due};
            changed |= (uint8_t)(1u << links);
        }
        links++;
    }
    vnode->link_count = (uint8_t)links;
    return changed;
}

static void drop(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    set_role(shard, vnode, ROLE_ABSENT);
    memset(&vnode->state, 0, sizeof vnode->state);
    vnode->puller = PEER_NONE;
    vnode->whole = false;
    vnode->header_due = false;
    table_set_targets(shard->table, number, 0);
    table_set_vnode_seq(shard->table, number, 0);
    table_remove_vnode(shard->table, number);
    vnode->drop_due = !shard->options.ephemeral;
}

static void follow_one(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    uint64_t ids[VIEW_REPLICAS_MAX];
    const uint32_t count = view_replica_set(shard->view, number, ids);
    if (!term_is_none(&vnode->term) && vnode->term.writer != shard->options.node_id)
        vnode->hint = peers_for(shard, vnode->term.writer, number);
    const bool same = same_ids(vnode, ids, count);
    const uint8_t changed = set_replicas(shard, number, ids, count);
    if (!vnodes_mine(shard, number) || (same && changed == 0))
        return; /* a replica that is no member is dropped by its tick */
    const bool member = vnode->rank != UINT8_MAX;
    if (vnode->role == ROLE_DECIDING || vnode->role == ROLE_PASSING) {
        uint8_t mask = disk_mask(shard);
        for (uint32_t i = 0; i < vnode->link_count; i++)
            mask |= TABLE_TARGET_BIT(i + 1);
        table_set_targets(shard->table, number, mask);
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if ((changed & 1u << i) != 0)
                stream_restart_link(shard, number, i);
    } else if (member && (vnode->role == ROLE_ABSENT || vnode->role == ROLE_RECOVERING)) {
        recover(shard, number, true, effects);
    } else if (!member && vnode->role != ROLE_ABSENT) {
        drop(shard, number);
    }
}

void vnodes_follow_view(struct shard *shard, struct effects *effects)
{
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        shard->vnodes[number].arrived = false;
        follow_one(shard, number, effects);
    }
}

/* ---- time and evidence ----------------------------------------------------------------------- */

static void watch_decider(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    const bool own = vnode->term.writer == shard->options.node_id;
    const bool gone = own || vnode->hint == PEER_NONE || peers_silent(shard, vnode->hint);
    /* V6; else only the first may. */
    if (own || (gone && first_alive(shard, number))) {
        recover(shard, number, false, effects);
    } else if (!gone && !vnode->whole &&
               shard->now_ns - vnode->asked_ns > VNODES_ASK_AGAIN_MS * MS) {
        vnode->asked_ns = shard->now_ns;
        stream_tell_lack(shard, vnode->hint, number, effects);
    }
}

/* Whether the configuration's wish for this vnode is fulfilled here (see shard_settled_epoch). */
static bool has_arrived(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->rank != 0)
        return vnode->role != ROLE_DECIDING || peers_silent_node(shard, vnode->ids[0], number);
    if (vnode->role != ROLE_DECIDING)
        return false;
    const uint32_t replicas = shard->view->to.replicas;
    for (uint32_t i = 0; i + 1 < replicas; i++)
        if (!vnode->links[i].confirmed && vnode->links[i].peer != PEER_NONE &&
            !peers_silent(shard, vnode->links[i].peer))
            return false;
    return true;
}

static uint32_t tick_one(struct shard *shard, uint32_t number, uint32_t passes,
                         struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    switch ((enum peer_role)vnode->role) {
    case ROLE_REPLICA:
        if (vnode->rank == UINT8_MAX)
            drop(shard, number);
        else
            watch_decider(shard, number, effects);
        break;
    case ROLE_RECOVERING:
        if (shard->now_ns - vnode->asked_ns > VNODES_ASK_AGAIN_MS * MS)
            ask(shard, number, effects);
        if (vnode->pulling && shard->now_ns - vnode->since_ns > VNODES_PASS_GIVE_UP_MS * MS)
            recover(shard, number, vnode->fresh, effects);
        else
            finish_recovery(shard, number, effects);
        break;
    case ROLE_DECIDING:
        stream_ask_again(shard, number);
        if (passes < VNODES_PASSES_PER_TICK && try_pass(shard, number, effects))
            passes++;
        break;
    case ROLE_PASSING:
        pass_again(shard, number, effects);
        break;
    case ROLE_ABSENT:
    case ROLE_END:
        break;
    }
    return passes;
}

/* Asks the disk to forget what was dropped, a bounded number of vnodes at a time. */
static uint32_t forget(struct shard *shard, uint32_t number, uint32_t dropped,
                       struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (!vnode->drop_due || dropped == VNODES_DROPS_PER_TICK)
        return dropped;
    vnode->drop_due = false;
    effects_add(effects, EFFECT_DROP_VNODE)->vnode = number;
    return dropped + 1;
}

void vnodes_tick(struct shard *shard, struct effects *effects)
{
    uint32_t dropped = 0;
    uint32_t passes = 0;
    bool settled = true;
    for (uint32_t number = shard->options.shard; number < shard->options.vnodes;
         number += shard->options.shards) {
        struct vnode *vnode = &shard->vnodes[number];
        dropped = forget(shard, number, dropped, effects);
        passes = tick_one(shard, number, passes, effects);
        if (!vnode->arrived)
            vnode->arrived = has_arrived(shard, number);
        settled = settled && vnode->arrived;
    }
    if (settled)
        shard->settled_epoch = shard->view->epoch;
}

void vnodes_peer_silent(struct shard *shard, uint16_t at, struct effects *effects)
{
    for (uint32_t number = shard->options.shard; number < shard->options.vnodes;
         number += shard->options.shards) {
        struct vnode *vnode = &shard->vnodes[number];
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if (vnode->links[i].peer == at)
                vnode->links[i].confirmed = false;
        if (vnode->role == ROLE_REPLICA && vnode->hint == at)
            watch_decider(shard, number, effects);
        else if (vnode->role == ROLE_RECOVERING)
            finish_recovery(shard, number, effects);
    }
}

void vnodes_peer_restarted(struct shard *shard, uint16_t at)
{
    for (uint32_t number = shard->options.shard; number < shard->options.vnodes;
         number += shard->options.shards) {
        struct vnode *vnode = &shard->vnodes[number];
        if (vnode->role == ROLE_REPLICA && vnode->hint == at)
            vnode->whole = false; /* does it still decide? */
        if (vnode->role != ROLE_DECIDING && vnode->role != ROLE_PASSING)
            continue;
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if (vnode->links[i].peer == at)
                stream_restart_link(shard, number, i);
    }
    stream_restart(shard, at);
}

/* ---- answers --------------------------------------------------------------------------------- */

bool vnodes_degraded(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    uint32_t holders = 1;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        holders += vnode->links[i].confirmed;
    return holders < (vnode->link_count + 1u) / 2 + 1;
}

uint64_t vnodes_decider(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (!term_is_none(&vnode->term))
        return vnode->term.writer;
    return vnode->id_count > 0 ? vnode->ids[0] : 0;
}

/* The first replica that lives, when the decider does not. */
static enum route route_to_replica(struct shard *shard, uint32_t number, uint16_t *peer)
{
    const struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->id_count; i++) {
        if (self_at(shard, vnode, i) && vnodes_mine(shard, number))
            return ROUTE_WAIT; /* it is for this shard to take over */
        *peer = peers_for(shard, vnode->ids[i], number);
        if (*peer != PEER_NONE && !peers_silent(shard, *peer))
            return ROUTE_PEER;
    }
    return ROUTE_WAIT;
}

/* P3 of peers.c for every other replica. */
static bool leases_hold(const struct shard *shard, const struct vnode *vnode)
{
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer != PEER_NONE && !peers_lease_holds(shard, vnode->links[i].peer))
            return false;
    return true;
}

enum route vnodes_route(struct shard *shard, uint32_t number, uint16_t *peer)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_mine(shard, number)) {
        if (vnode->role == ROLE_DECIDING) /* S1 */
            return leases_hold(shard, vnode) ? ROUTE_HERE : ROUTE_WAIT;
        if (vnode->role == ROLE_RECOVERING || vnode->role == ROLE_PASSING)
            return ROUTE_WAIT;
    }
    if (!term_is_none(&vnode->term)) {
        *peer = vnode->hint;
        if (*peer != PEER_NONE && !peers_silent(shard, *peer))
            return ROUTE_PEER;
    }
    return route_to_replica(shard, number, peer);
}
