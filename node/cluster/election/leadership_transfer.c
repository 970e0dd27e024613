/* leadership_transfer.c - deciding goes from one replica to another, in order.
 *
 *    leader A                                          replica B (synced)
 *    DECIDING
 *    TRANSFERRING: seals the state     WATERMARK seq, TRANSFER seq
 *             decides nothing  ------------------->     holds exactly (term, seq)?
 *                                                       DECIDING in a new term
 *    REPLICA of B              <-------------------     OPENED
 *    forwards what comes late
 *
 * What A remembers of charges that may have to be undone goes ahead of the TRANSFER, which says how
 * many there were (RESERVED; RESERVE-6). B notes it as long as it is a replica in A's term: from
 * A's seal on nothing of it changes, and once B decides, a late copy would bring back what B has
 * undone. If some were lost on the way, B waits for the TRANSFER to be repeated.
 *
 * A TRANSFER that is not answered is repeated with what B may have lost; when B falls silent or
 * does not take it for VNODES_TRANSFER_GIVE_UP_MS, A recovers: it asks all replicas, and only if
 * none decides and none holds more, opens a term of its own. VNODES-3 is the invariant.
 */
#include "base/assert.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"

/* Returns how many went out. */
static uint32_t put_reservations(struct shard *shard, uint32_t number, uint16_t at,
                                 struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    struct peer_reservation what;
    const uint32_t resets = engine_resets(shard->table, number);
    uint32_t place = reserve_first(&shard->reserves, number);
    uint32_t count = 0;
    while (shard->peers[at]->reserves && count < RESERVE_TRANSFER_MAX &&
           reserve_next(&shard->reserves, &place, resets, shard->now_ns, &what)) {
        peer_put_reserved(peers_outbox(shard, at, PEER_RESERVED_MAX, effects), number, &vnode->term,
                          &vnode->line, &what);
        count++;
    }
    ASSERT(count <= RESERVE_TRANSFER_MAX); /* RESERVE-6 */
    return count;
}

static void put_transfer(struct shard *shard, uint32_t number, uint32_t link,
                         struct effects *effects)
{
    ASSERT(shard->vnodes[number].role == ROLE_TRANSFERRING); /* VNODES-3 */
    struct peer_vnode entry = vnodes_entry(shard, number);
    const uint16_t at = shard->vnodes[number].links[link].peer;
    shard->vnodes[number].asked_ns = shard->now_ns;
    if (effects->used >= CHANNEL_ARENA_MAX)
        return; /* enough is sent in this step: the pass is repeated */
    entry.sync = put_reservations(shard, number, at, effects);
    entry.flags |= lessor_learns(shard, number) ? ENTRY_LEARNS : 0;
    peers_put_vnode(shard, at, PEER_TRANSFER, &entry, effects);
}

void vnodes_reserved(struct shard *shard, const struct peer_record *record)
{
    const uint32_t number = record->reserved.vnode;
    const struct term *term = &record->reserved.term;
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role != ROLE_REPLICA || term_compare(&vnode->term, term) != 0)
        return;
    vnode->line = record->reserved.line;
    vnode->line_of = *term;
    vnode->reserved++;
    reserve_take(&shard->reserves, number, term, &record->reserved.what,
                 engine_resets(shard->table, number), shard->now_ns);
}

/* QUORUM-8: the TRANSFER follows when all that was decided is committed. */
static bool seal_quorum(struct shard *shard, uint32_t number, uint32_t link)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->role == ROLE_LEADING && vnode->links[link].confirmed);
    if (!quorum_current(shard, number) || quorum_of(shard, number)->sealed ||
        quorum_of(shard, number)->outbid)
        return false; /* another ballot is due first */
    if (shard->quorum.roles[ROLE_TRANSFERRING] >= VNODES_TRANSFERS_MAX ||
        peers_lag(shard, vnode->links[link].peer))
        return false;
    vnodes_set_role(shard, vnode, ROLE_TRANSFERRING);
    vnode->transfer_to = vnode->links[link].peer;
    vnode->asked_ns = 0;
    return true;
}

static void transfer_quorum(struct shard *shard, uint32_t number, uint32_t link,
                            struct effects *effects)
{
    ASSERT(link < shard->vnodes[number].link_count); /* QUORUM-8 */
    if (!quorum_committed(shard, number))
        return;
    if (shard->vnodes[number].links[link].durable_seq == table_vnode_seq(shard->table, number))
        put_transfer(shard, number, link, effects);
    else
        stream_watermark_again(shard, number, link);
}

bool vnodes_try_transfer(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->role == ROLE_LEADING); /* VNODES-3 */
    const int link = vnodes_successor(shard, number);
    if (link < 0 || !vnode->links[link].confirmed || peers_silent(shard, vnode->links[link].peer))
        return false;
    if (vnodes_quorum(shard, number))
        return seal_quorum(shard, number, (uint32_t)link);
    /* VNODES-3: nothing is decided from here on */
    vnodes_set_role(shard, vnode, ROLE_TRANSFERRING);
    vnode->transfer_to = vnode->links[link].peer;
    if (stream_drain(shard, number, (uint32_t)link, effects)) {
        put_transfer(shard, number, (uint32_t)link, effects);
        return true;
    }
    vnodes_set_role(shard, vnode, ROLE_LEADING); /* nothing was promised yet */
    return false;
}

void vnodes_transfer(struct shard *shard, uint16_t at, const struct peer_vnode *entry,
                     struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[entry->vnode];
    vnodes_hear(shard, at, entry);
    const bool told = vnode->reserved == entry->sync;
    vnode->reserved = 0;
    const bool whole = told && vnode->role == ROLE_REPLICA &&
                       term_compare(&vnode->term, &entry->term) == 0 &&
                       term_compare(&vnode->state, &entry->term) == 0 &&
                       table_vnode_seq(shard->table, entry->vnode) == entry->seq;
    if (vnodes_quorum(shard, entry->vnode)) {
        if (!whole || !quorum_transferred(shard, entry->vnode, effects))
            quorum_put_report(shard, at, entry->vnode, effects);
        return;
    }
    if (whole && vnodes_mine(shard, entry->vnode)) {
        vnode->equal = 0;
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if (vnode->links[i].peer == at)
                vnode->equal |= (uint8_t)(1u << i);
        vnode->fresh = true; /* a planned change, not a take-over */
        if ((entry->flags & ENTRY_LEARNS) != 0)
            lessor_learn(shard, entry->vnode);
        vnodes_open_term(shard, entry->vnode, effects);
        return;
    }
    merge_put_report(shard, at, entry->vnode,
                     vnode->role == ROLE_LEADING ? PEER_OPENED : PEER_REPORT, effects);
}

void vnodes_transfer_again(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->role == ROLE_TRANSFERRING && vnode->transfer_to < shard->peer_count);
    if (peers_silent(shard, vnode->transfer_to) ||
        shard->now_ns - vnode->since_ns > VNODES_TRANSFER_GIVE_UP_MS * MS) {
        vnodes_recover(shard, number, false, effects);
        return;
    }
    if (shard->now_ns - vnode->asked_ns < SHARD_TRANSFER_RETRY_NS)
        return;
    vnode->asked_ns = shard->now_ns;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        if (vnode->links[i].peer != vnode->transfer_to)
            continue;
        if (vnodes_quorum(shard, number)) {
            transfer_quorum(shard, number, i, effects);
            continue;
        }
        /* What was lost is copied again first: the sealed state does not change meanwhile. */
        if (vnode->links[i].confirmed && stream_drain(shard, number, i, effects))
            put_transfer(shard, number, i, effects);
    }
}
