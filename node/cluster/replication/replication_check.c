/* replication_check.c - what always holds of the streams to replicas and what is kept for them.
 *
 * STREAM-12  Phases and marks of links. A link whose mark or sample was put has a stream for it;
 *            what was acknowledged is no more than was done.
 *
 * EXPOSURE-5  A vnode has one sample at most, and is marked as having it.
 *
 * COLDKEYS-5  A copy of cold keys is of one vnode and of some links. Ids are asked for in their
 *             order, and no more at a time than the window has room for.
 *
 * FIRSTS-6  Numbers of answers rise: what is strung is older than the end, and heads of chains are
 *           older than both.
 *
 * HANDOFF-4  What is left to give or receive is of this shard's vnodes; a pass begins at a peer
 *            that there is.
 *
 * Changes nothing: for tests and the simulator.
 */
#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

static void check_link(const struct shard *shard, uint32_t number, uint32_t place)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *link = &vnode->links[place];
    INVARIANT("STREAM-12", link->phase <= LINK_ASKED);
    if (!vnodes_leads(vnode->role) || !link->confirmed)
        return; /* what is left of an earlier role, or of a copy that goes on, is of other terms */
    INVARIANT("STREAM-12", link->sample_frame == 0 || link->sample_seq <= link->watermark_seq);
    INVARIANT("STREAM-12", link->sample_frame == 0 || link->sample_frame <= link->watermark_frame);
    INVARIANT("STREAM-12", link->watermark_seq <= table_vnode_seq(shard->table, number));
    INVARIANT("STREAM-12", link->held_seq <= table_vnode_seq(shard->table, number));
    INVARIANT("EXPOSURE-1", link->granted.held <= vnode->granted);
    INVARIANT("EXPOSURE-1", link->granted.mark <= vnode->granted);
    INVARIANT("EXPOSURE-1", link->granted.sample <= vnode->granted);
}

static void check_samples(const struct shard *shard)
{
    const struct exposure *exposure = &shard->exposure;
    uint32_t marked = 0;
    INVARIANT("EXPOSURE-5", exposure->count <= EXPOSURE_SAMPLES_MAX);
    for (uint32_t i = 0; i < exposure->count; i++) {
        INVARIANT("EXPOSURE-5", exposure->samples[i].vnode < shard->options.vnodes);
        INVARIANT("EXPOSURE-5", shard->vnodes[exposure->samples[i].vnode].sampled);
        for (uint32_t k = 0; k < i; k++)
            INVARIANT("EXPOSURE-5", exposure->samples[k].vnode != exposure->samples[i].vnode);
    }
    for (uint32_t number = 0; number < shard->vnode_end; number++)
        marked += shard->vnodes[number].sampled;
    INVARIANT("EXPOSURE-5", marked == exposure->count);
}

static void check_cold_keys(const struct shard *shard)
{
    const struct cold_keys *copy = &shard->cold_keys;
    INVARIANT("COLDKEYS-5", copy->next <= copy->count && copy->count <= COLD_KEYS_IDS_MAX);
    INVARIANT("COLDKEYS-5", copy->out_count <= COLD_KEYS_WINDOW);
    INVARIANT("COLDKEYS-5", copy->links >> SHARD_REPLICAS_OTHER == 0);
    INVARIANT("COLDKEYS-5", !copy->active || copy->vnode < shard->vnode_end);
    INVARIANT("COLDKEYS-5", copy->count <= copy->listed);
    for (uint32_t link = 0; copy->active && link < SHARD_REPLICAS_OTHER; link++)
        INVARIANT("COLDKEYS-3", (copy->links & 1u << link) == 0 ||
                                    shard->vnodes[copy->vnode].links[link].copy_due);
}

static void check_firsts(const struct shard *shard)
{
    const struct firsts *firsts = &shard->firsts;
    INVARIANT("FIRSTS-6", firsts->strung >= 1 && firsts->strung <= firsts->end);
    INVARIANT("FIRSTS-3", firsts->budget <= FIRSTS_BURST);
    for (uint32_t number = 0; number < firsts->vnodes; number++) {
        INVARIANT("FIRSTS-6", firsts->own[number] < firsts->end);
        INVARIANT("FIRSTS-6", firsts->all[number] < firsts->strung);
    }
    for (uint32_t number = 0; number < shard->vnode_end; number++)
        if (firsts->own[number] != 0 && firsts->own[number] + firsts->max >= firsts->end)
            INVARIANT("FIRSTS-6",
                      firsts->list[firsts->own[number] & (firsts->max - 1)].vnode == number);
}

void replication_check_invariants(const struct shard *shard)
{
    const struct handoff *handoff = &shard->handoff;
    for (uint32_t number = 0; number < shard->vnode_end; number++)
        for (uint32_t link = 0; link < shard->vnodes[number].link_count; link++)
            check_link(shard, number, link);
    check_samples(shard);
    check_cold_keys(shard);
    check_firsts(shard);
    INVARIANT("HANDOFF-4", handoff->first < shard->peer_count || handoff->first == 0);
    INVARIANT("HANDOFF-4",
              handoff->give <= shard->vnode_end && handoff->receive <= shard->vnode_end);
    INVARIANT("HANDOFF-4", handoff->counted <= handoff->sent + handoff->received);
}
