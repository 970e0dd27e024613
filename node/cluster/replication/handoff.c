/* handoff.c - complete copies of vnodes: whose turn it is, how fast, and how far they are.
 *
 * A copy is a walk over the table that sends every slot of the vnode (the COPYING of stream.c). One
 * walk, a *pass*, serves several vnodes for one peer, so that many small vnodes cost few walks; and
 * not all of them at once, so that what a broken connection makes void is little:
 *
 *   links WAITING --> gather vnodes of one pass ----> walk, slot by slot ----> its links CATCHING,
 *        ^            (a share of the table)          as room and rate allow   and the next pass
 *        +---- restarted: lost, refused, a new term ----------+
 *
 * The rate is a bucket of bytes for the whole shard, kept as one number (as a token bucket is in
 * node/limit/algorithms/gcra.c): `tat_ns` is when everything sent so far is paid for; bulk may be
 * sent while that lies at most HANDOFF_BURST_NS ahead.
 *
 * HANDOFF-1  What is in memory when a link begins to copy is sent by its pass, or becomes a change;
 *            what leaves memory meanwhile is on disk, and cold_keys.c, which begins after the pass,
 *            finds it there.
 * HANDOFF-2  A pass serves only links that are still COPYING to its peer; a restarted one waits for
 *            the next pass.
 * HANDOFF-3  A copy for somebody who recovers is not held up by the rate, nor by a pass to the same
 *            peer that the rate holds up: checks wait for it.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

enum {
    HANDOFF_SHARE = 32,      /* of the table: what one pass takes on */
    HANDOFF_SLOTS_MIN = 512, /* or that much */
    HANDOFF_STEPS = 1 << 16, /* slots looked at by one turn, of all passes */
};
#define HANDOFF_BURST_NS   (5 * MS) /* more than a turn, so that no turn is wasted */
#define HANDOFF_MEASURE_NS (500 * MS)

/* ---- the rate -------------------------------------------------------------------------------- */

bool handoff_allowed(const struct shard *shard)
{
    return shard->handoff.tat_ns <= shard->now_ns + HANDOFF_BURST_NS;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static uint32_t slots_max(const struct shard *shard)
{
    const uint32_t share = table_slots_end(shard->table) / HANDOFF_SHARE;
    return share > HANDOFF_SLOTS_MIN ? share : HANDOFF_SLOTS_MIN;
}

void handoff_offer(struct shard *shard, uint32_t number, uint32_t link)
{
    ASSERT(link < SHARD_REPLICAS_OTHER); /* its number is one byte, and 0 is none */
    struct vnode *vnode = &shard->vnodes[number];
    struct pass *pass = &shard->peers[stream_receiver(shard, number, link)]->pass;
    const uint32_t slots = table_count(shard->table, number);
    if (pass->links[number] != 0 || !stream_hears(shard, number, link))
        return;
    if (vnode->role == ROLE_REPLICA || vnode->role == ROLE_RECOVERING)
        /* HANDOFF-3: the one that runs, or the one that this vnode will be of */
        pass->urgent = true;
    if (pass->running || (pass->vnodes > 0 && pass->slots + slots > slots_max(shard)))
        return;
    pass->links[number] = (uint8_t)(link + 1);
    pass->vnodes++;
    pass->slots += slots;
    vnode->links[link].phase = LINK_COPYING;
}

/* The link of the vnode that the pass of peer `at` copies now, or -1 (HANDOFF-2). */
static int link_of(const struct shard *shard, uint16_t at, uint32_t number)
{
    const uint8_t place = shard->peers[at]->pass.links[number];
    if (place == 0)
        return -1;
    const uint32_t link = place - 1u;
    const bool copies = stream_receiver(shard, number, link) == at &&
                        shard->vnodes[number].links[link].phase == LINK_COPYING;
    return copies ? (int)link : -1;
}

/* All slots were seen: what changed meanwhile follows. */
static void end_transfer(struct shard *shard, uint16_t at)
{
    struct pass *pass = &shard->peers[at]->pass;
    ASSERT(pass->running); /* PEERS-16 */
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        const int link = link_of(shard, at, number);
        pass->links[number] = 0;
        if (link < 0)
            continue;
        shard->vnodes[number].links[link].phase = LINK_CATCHING;
        table_forgive_missed(shard->table, number, (unsigned)link + 1);
        cold_keys_restarted(shard, number, (uint32_t)link); /* HANDOFF-1 */
        if (table_vnode_behind(shard->table, number, (unsigned)link + 1))
            table_resume_vnode(shard->table, number, (unsigned)link + 1);
    }
    *pass = (struct pass){.links = pass->links};
}

/* Whether the pass may send one slot more. */
static bool may_go_on(const struct shard *shard, uint16_t at, const struct effects *effects)
{
    return channel_has_room(shard, at, CHANNEL_BULK, effects) &&
           (shard->peers[at]->pass.urgent || handoff_allowed(shard));
}

/* Goes on with the pass of one peer; true if it came to its end. */
static bool step_transfer(struct shard *shard, uint16_t at, uint32_t *steps,
                          struct effects *effects)
{
    struct pass *pass = &shard->peers[at]->pass;
    if (!pass->running) {
        pass->running = true;
        pass->at = 0;
    }
    const uint32_t end = pass->slots > 0 ? table_slots_end(shard->table) : 0;
    while (pass->at<end && * steps> 0 && may_go_on(shard, at, effects)) {
        const uint32_t slot = pass->at++;
        (*steps)--;
        if (!table_slot_used(shard->table, slot))
            continue;
        const int link = link_of(shard, at, table_slot_vnode(shard->table, slot));
        if (link < 0)
            continue;
        stream_put_slot(shard, slot, (uint32_t)link, effects);
        shard->stats.slots_copied++;
    }
    if (pass->at < end)
        return false;
    end_transfer(shard, at);
    return true;
}

bool handoff_send(struct shard *shard, struct effects *effects)
{
    struct handoff *handoff = &shard->handoff;
    ASSERT(handoff->first <= shard->peer_count); /* HANDOFF-4 */
    uint32_t steps = HANDOFF_STEPS;
    bool ended = false;
    handoff->busy = false;
    for (uint16_t i = 0; i < shard->peer_count; i++) {
        const uint16_t at = (uint16_t)((handoff->first + i) % shard->peer_count);
        if (shard->peers[at]->pass.vnodes == 0)
            continue;
        ended = step_transfer(shard, at, &steps, effects) || ended;
        handoff->busy = handoff->busy || channel_has_room(shard, at, CHANNEL_BULK, effects);
    }
    handoff->first =
        (uint16_t)(shard->peer_count == 0 ? 0 : (handoff->first + 1) % shard->peer_count);
    return ended;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Whether somebody else shall decide the vnode, or lacks the copy of it that is kept here. */
static bool to_give(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role == ROLE_TRANSFERRING)
        return true;
    if (vnode->role != ROLE_LEADING)
        return false;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (!vnode->links[i].confirmed && stream_hears(shard, number, i))
            return true;
    return vnodes_successor(shard, number) >= 0;
}

static bool to_receive(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->rank == UINT8_MAX)
        return false;
    if (vnode->role == ROLE_REPLICA)
        return !vnode->copy_complete || term_compare(&vnode->state, &vnode->term) != 0;
    return vnode->role == ROLE_RECOVERING;
}

static void measure(struct handoff *handoff, int64_t now_ns)
{
    const int64_t passed_ns = now_ns - handoff->counted_ns;
    if (passed_ns < HANDOFF_MEASURE_NS)
        return;
    const uint64_t total = handoff->sent + handoff->received;
    const double seconds = (double)passed_ns / 1e9;
    handoff->rate = (uint64_t)((double)(total - handoff->counted) / seconds);
    handoff->counted = total;
    handoff->counted_ns = now_ns;
}

void handoff_tick(struct shard *shard)
{
    struct handoff *handoff = &shard->handoff;
    measure(handoff, shard->now_ns);
    handoff->give = 0;
    handoff->receive = 0;
    for (uint32_t i = 0; i < shard->active_vnodes.count; i++) { /* what is calm has nothing left */
        handoff->give += to_give(shard, shard->active_vnodes.list[i]);
        handoff->receive += to_receive(shard, shard->active_vnodes.list[i]);
    }
    const uint32_t left = handoff->give + handoff->receive;
    if (left == 0 || handoff->most == 0)
        handoff->since_ns = shard->now_ns;
    if (left == 0 || left > handoff->most)
        handoff->most = left;
}

void handoff_stats(const struct shard *shard, struct shard_stats *out)
{
    const struct handoff *handoff = &shard->handoff;
    const uint32_t left = handoff->give + handoff->receive;
    const uint32_t done = handoff->most - left;
    const int64_t passed_ns = shard->now_ns - handoff->since_ns;
    out->handoff.give = handoff->give;
    out->handoff.receive = handoff->receive;
    out->handoff.sent = handoff->sent;
    out->handoff.received = handoff->received;
    out->handoff.rate = handoff->rate;
    out->handoff.left_ns = left == 0 ? 0 : done == 0 ? -1 : passed_ns / done * left;
}
