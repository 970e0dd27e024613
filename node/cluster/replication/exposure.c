/* exposure.c - how far this shard could over-admit at this moment, and how soon replicas know.
 *
 * If this process died now, its successor would go on from what some replica in reach has
 * acknowledged. So the bound of a vnode is what was granted and is in no such mark:
 *
 *     granted   ---------------|-------------|---------->       counts tokens, in this term
 *                     held by a replica    now
 *                              |<-- bound -->|
 *
 * Each WATERMARK (stream.c) notes how much was granted when it was put; once it is acknowledged by
 * a replica that confirmed its copy, that replica holds so much. What it held it keeps when a
 * stream begins anew, for slots are only overwritten by later ones; a new process of the replica
 * does not.
 *
 * A leader without any replica in reach (EXPOSURE-4) may have been succeeded already on the other
 * side of a split: each side then grants up to one limit a key. Such vnodes are counted as cut off.
 *
 * The lag is measured on samples: the oldest grant that a WATERMARK tells of, until the first
 * replica acknowledges that WATERMARK or a later one.
 *
 * EXPOSURE-1  held <= granted, for each link.
 * EXPOSURE-2  A sample is of a vnode that is decided here; it is dropped when that ends.
 * EXPOSURE-3  A replica that refuses a mark says so before it acknowledges the frame. So who is
 *             deposed counts nothing as held that is acknowledged afterwards.
 * EXPOSURE-4  What was granted in earlier terms is in no such count. A replica that does not hold
 *             the state on which the present term was opened, because its copy is still on the way,
 *             would go on from less than all of that; so it does not count as in reach of a
 *             successor.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

#define EXPOSURE_AGE_NS (60000 * MS) /* figures are of the last minutes */

enum { EXPOSURE_STRIDE_MAX = 1024 };

static bool deciding(const struct vnode *vnode)
{
    return vnode->role == ROLE_LEADING || vnode->role == ROLE_TRANSFERRING;
}

/* A link that is confirmed is in the live channel (STREAM-9). */
static const struct channel *live_channel(const struct shard *shard, uint16_t at)
{
    return &shard->peers[at]->channels[CHANNEL_LIVE];
}

/* ---- tokens ---------------------------------------------------------------------------------- */

void exposure_opened(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    vnode->granted = 0;
    vnode->oldest_ns = 0;
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        vnode->links[link].granted =
            (struct link_granted){.based = (vnode->equal & 1u << link) != 0 && !vnode->holds_newer};
}

/* Up to how many of the granted tokens the link's replica knows of. */
static uint64_t held_by(const struct shard *shard, const struct replica_link *link)
{
    if (!link->confirmed || link->peer == PEER_NONE)
        return link->granted.held;
    const uint64_t acked = live_channel(shard, link->peer)->out_acked;
    if (link->watermark_frame != 0 && link->watermark_frame <= acked)
        return link->granted.mark;
    if (link->sample_frame != 0 && link->sample_frame <= acked)
        return link->granted.sample;
    return link->granted.held;
}

void exposure_keep(const struct shard *shard, struct replica_link *link)
{
    link->granted.held = held_by(shard, link);
    link->granted.based = link->granted.based || link->confirmed;
}

void exposure_stepped_down(struct shard *shard, uint32_t number)
{
    for (uint32_t i = 0; i < SHARD_REPLICAS_OTHER; i++) {
        struct replica_link *link = &shard->vnodes[number].links[i];
        exposure_keep(shard, link);
        link->granted.mark = link->granted.sample = link->granted.held; /* EXPOSURE-3 */
    }
}

void exposure_confirmed(struct replica_link *link, uint64_t seq)
{
    if (seq == link->watermark_seq && link->granted.held < link->granted.mark)
        link->granted.held = link->granted.mark;
    else if (seq == link->sample_seq && link->granted.held < link->granted.sample)
        link->granted.held = link->granted.sample;
}

void exposure_forget(struct replica_link *link)
{
    link->granted = (struct link_granted){0};
}

/* ---- lag ------------------------------------------------------------------------------------- */

static struct exposure_sample *sample_of(struct shard *shard, uint32_t number)
{
    for (uint32_t i = 0; i < shard->exposure.count; i++)
        if (shard->exposure.samples[i].vnode == number)
            return &shard->exposure.samples[i];
    return NULL;
}

/* Every stride-th mark with grants is looked at, so that a burst of marks is sampled all over. */
static struct exposure_sample *sample_new(struct shard *shard, uint32_t number, int64_t from_ns)
{
    ASSERT(!shard->vnodes[number].sampled); /* EXPOSURE-5 */
    struct exposure *bound = &shard->exposure;
    if (++bound->passed < bound->stride)
        return NULL;
    bound->passed = 0;
    if (bound->count == EXPOSURE_SAMPLES_MAX) {
        bound->stride =
            bound->stride < EXPOSURE_STRIDE_MAX ? bound->stride * 2 : EXPOSURE_STRIDE_MAX;
        return NULL;
    }
    struct exposure_sample *sample = &bound->samples[bound->count++];
    *sample = (struct exposure_sample){.vnode = number, .from_ns = from_ns};
    shard->vnodes[number].sampled = true;
    return sample;
}

static void sample_drop(struct shard *shard, uint32_t index)
{
    struct exposure *bound = &shard->exposure;
    ASSERT(index < bound->count && shard->vnodes[bound->samples[index].vnode].sampled);
    shard->vnodes[bound->samples[index].vnode].sampled = false;
    bound->samples[index] = bound->samples[--bound->count];
}

void exposure_watermarked(struct shard *shard, uint32_t number, uint32_t link)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(link < SHARD_REPLICAS_OTHER && deciding(vnode)); /* EXPOSURE-2 */
    vnode->links[link].granted.mark = vnode->granted;
    if (vnode->links[link].phase != LINK_LIVE || number >= shard->options.vnodes)
        return; /* nor is anything answered before it is acknowledged on the plane of quorum */
    struct exposure_sample *sample = NULL;
    if (vnode->sampled)
        sample = sample_of(shard, number);
    else if (vnode->oldest_ns != 0)
        sample = sample_new(shard, number, vnode->oldest_ns);
    vnode->oldest_ns = 0;
    if (sample == NULL || sample->frame[link] != 0)
        return;
    const struct channel *channel = live_channel(shard, vnode->links[link].peer);
    sample->frame[link] = channel->out_seq;
    sample->stream[link] = channel->out_stream;
}

/* Whether a replica has acknowledged what the sample is of. */
static bool sample_known(const struct shard *shard, const struct exposure_sample *sample)
{
    const struct vnode *vnode = &shard->vnodes[sample->vnode];
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const struct replica_link *link = &vnode->links[i];
        if (sample->frame[i] == 0 || !link->confirmed || link->peer == PEER_NONE)
            continue;
        const struct channel *channel = live_channel(shard, link->peer);
        if (sample->stream[i] == channel->out_stream && sample->frame[i] <= channel->out_acked)
            return true;
    }
    return false;
}

void exposure_acked(struct shard *shard)
{
    struct exposure *bound = &shard->exposure;
    for (uint32_t i = bound->count; i-- > 0;) {
        if (!sample_known(shard, &bound->samples[i]))
            continue;
        lag_add(&bound->lag, shard->now_ns - bound->samples[i].from_ns);
        sample_drop(shard, i);
    }
}

/* Whether some replica may still acknowledge the sample: not after its stream began anew. */
static bool sample_lives(const struct shard *shard, const struct exposure_sample *sample)
{
    const struct vnode *vnode = &shard->vnodes[sample->vnode];
    if (!deciding(vnode)) /* EXPOSURE-2 */
        return false;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const uint16_t at = vnode->links[i].peer;
        if (at == PEER_NONE || peers_silent(shard, at))
            continue;
        if (sample->frame[i] == 0 || sample->stream[i] == live_channel(shard, at)->out_stream)
            return true;
    }
    return false;
}

void exposure_tick(struct shard *shard)
{
    struct exposure *bound = &shard->exposure;
    for (uint32_t i = bound->count; i-- > 0;)
        if (!sample_lives(shard, &bound->samples[i]))
            sample_drop(shard, i);
    if (bound->count < EXPOSURE_SAMPLES_MAX / 4 && bound->stride > 1)
        bound->stride /= 2;
    if (shard->now_ns - bound->aged_ns >= EXPOSURE_AGE_NS) {
        bound->aged_ns = shard->now_ns;
        lag_age(&bound->lag);
    }
}

/* ---- what it comes to ------------------------------------------------------------------------ */

/* Whether what is held here is still of a term in which this node decided: then what it granted may
 * be known to nobody else, even if it was deposed and has yet to hand it over (reconcile.c). */
static bool granted_here(const struct shard *shard, const struct vnode *vnode)
{
    return deciding(vnode) ||
           (vnode->state.writer == shard->options.node_id && vnode->role != ROLE_ABSENT);
}

static void add_vnode(const struct shard *shard, uint32_t number, struct shard_stats *out)
{
    const struct vnode *vnode = &shard->vnodes[number];
    uint64_t held = 0;          /* by any */
    uint64_t held_in_reach = 0; /* by those in reach: one of them would be the successor */
    uint32_t others = 0;
    uint32_t reached = 0;
    uint32_t based = 0; /* of those in reach: hold what the term was opened on */
    uint32_t complete = 0;
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const struct replica_link *link = &vnode->links[i];
        const uint64_t known = held_by(shard, link);
        const bool reach = link->peer != PEER_NONE && !peers_silent(shard, link->peer);
        ASSERT(known <= vnode->granted); /* EXPOSURE-1 */
        held = known > held ? known : held;
        held_in_reach = reach && known > held_in_reach ? known : held_in_reach;
        others += link->node != 0;
        reached += reach;
        based += reach && (link->granted.based || link->confirmed);
        complete += link->confirmed;
    }
    if (others == 0)
        return;
    out->over_tokens += vnode->granted - (reached > 0 ? held_in_reach : held);
    if (!deciding(vnode))
        return;
    out->vnodes_cut_off += based == 0; /* EXPOSURE-4 */
    out->vnodes_incomplete += complete < others;
    out->vnodes_unconfirmed += vnodes_degraded(shard, number);
}

void exposure_stats(const struct shard *shard, struct shard_stats *out)
{
    out->lag = shard->exposure.lag;
    for (uint32_t number = shard->options.shard; number < shard->options.vnodes;
         number += shard->options.shards)
        if (granted_here(shard, &shard->vnodes[number]))
            add_vnode(shard, number, out);
}
