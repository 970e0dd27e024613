/* credible.c - no record of a peer names a number that leaves no higher one.
 *
 * Terms and places in streams only rise, and whoever hears a higher one goes on from there. So one
 * record near the end of the range would be the last of its vnode: no term could be opened above
 * it, by anybody, for good. All of these numbers rise by one at a time; what lies further above
 * those that are known here than anybody can have missed is not listened to, and counted.
 *
 *   known here            believed                                  not believed
 *   ---|------------------------------------------------|--------------------------->
 *                          2^20 openings, 2^20 changes of the ring, 2^48 changes of slots
 *
 * CREDIBLE-1  What is refused changes nothing; the next record that is in reach counts again.
 * CREDIBLE-2  The bounds are so wide that no node has ever been away for so long, and so narrow
 *             that as many frames as it takes to use the range up cannot be sent.
 */
#include "node/cluster/peer/credible.h"

#include "node/cluster/shard_state.h"

static bool epoch_credible(uint64_t known, uint64_t claimed)
{
    const uint64_t generation = ring_config_generation(known);
    if (claimed <= known)
        return true;
    if (ring_config_lineage(claimed) == ring_config_lineage(known))
        return claimed - known <= UINT64_C(1) << CREDIBLE_EPOCH_BITS;
    return ring_config_generation(claimed) <= generation + CREDIBLE_GENERATIONS &&
           (uint32_t)claimed <= UINT32_C(1) << CREDIBLE_EPOCH_BITS;
}

static bool term_credible(const struct shard *shard, uint32_t vnode, const struct term *term)
{
    const struct term *known = &shard->vnodes[vnode].term;
    const uint64_t epoch = known->epoch > shard->view->epoch ? known->epoch : shard->view->epoch;
    const uint64_t round = known->number >> TERM_INCARNATION_BITS;
    const uint64_t claimed = term->number >> TERM_INCARNATION_BITS;
    return epoch_credible(epoch, term->epoch) &&
           (claimed <= round || claimed - round <= UINT64_C(1) << CREDIBLE_ROUND_BITS);
}

static bool seq_credible(const struct shard *shard, uint32_t vnode, uint64_t seq)
{
    const uint64_t known = table_vnode_seq(shard->table, vnode);
    return seq <= known || seq - known <= UINT64_C(1) << CREDIBLE_SEQ_BITS;
}

bool credible_record(const struct shard *shard, uint32_t vnode, const struct peer_record *record)
{
    switch (record->type) {
    case PEER_MOVED:
        return term_credible(shard, vnode, &record->moved.term);
    case PEER_TERM:
        return term_credible(shard, vnode, &record->term.term);
    case PEER_CHANGE:
        return term_credible(shard, vnode, &record->change.term.term) &&
               seq_credible(shard, vnode, record->change.seq);
    case PEER_APART:
        return term_credible(shard, vnode, &record->apart.to) &&
               term_credible(shard, vnode, &record->apart.state) &&
               seq_credible(shard, vnode, record->apart.seq);
    case PEER_RESERVED:
        return term_credible(shard, vnode, &record->reserved.term) &&
               term_credible(shard, vnode, &record->reserved.line);
    case PEER_WATERMARK:
    case PEER_HELD:
    case PEER_LACK:
    case PEER_STALE:
    case PEER_QUERY:
    case PEER_REPORT:
    case PEER_PULL:
    case PEER_TRANSFER:
    case PEER_OPENED:
    case PEER_DIVERGED_END:
    case PEER_MERGED:
        return term_credible(shard, vnode, &record->vnode.term) &&
               term_credible(shard, vnode, &record->vnode.state) &&
               seq_credible(shard, vnode, record->vnode.seq);
    default:
        return true;
    }
}
