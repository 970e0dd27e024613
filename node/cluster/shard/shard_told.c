/* shard_told.c - see shard_told.h. */
#include "node/cluster/shard/shard_told.h"

#include "node/cluster/shard_state.h"

struct shard_told_peer *shard_told_peer_of(struct shard_told *told, uint64_t node)
{
    for (uint32_t i = told->peer_count; i > 0; i--) /* shards of a node stand together */
        if (told->peers[i - 1].node == node)
            return &told->peers[i - 1];
    if (told->peer_count == SHARD_TOLD_PEERS_MAX)
        return NULL;
    struct shard_told_peer *peer = &told->peers[told->peer_count++];
    *peer = (struct shard_told_peer){.node = node};
    return peer;
}

static void add(struct shard_told *told, const struct shard_told_peer *more)
{
    struct shard_told_peer *peer = shard_told_peer_of(told, more->node);
    if (peer == NULL) {
        told->forwarded_more += more->forwarded;
        return;
    }
    peer->forwarded += more->forwarded;
    if (more->lag_ns > peer->lag_ns)
        peer->lag_ns = more->lag_ns;
}

/* Nothing is sent to who is silent; so that counts, if its node lives: of one that is dead others
 * have taken over, and that is told elsewhere. */
static int64_t lag_of(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    const struct channel *live = &peer->channels[CHANNEL_LIVE];
    const struct view_member *member = view_find(shard->view, peer->node);
    if (peers_silent(shard, at) && peer->heard_ns != 0)
        return member != NULL && member->state == VIEW_ALIVE ? shard->now_ns - peer->heard_ns : 0;
    if (live->out_acked == live->out_seq || shard->now_ns < live->out_wait_ns)
        return 0;
    return shard->now_ns - live->out_wait_ns;
}

void shard_told(const struct shard *shard, struct shard_told *out)
{
    out->answered = shard->tallies.answered;
    out->forwarded_more = 0;
    out->peer_count = 0;
    for (uint16_t i = 0; i < shard->peer_count; i++) {
        const struct peer *peer = shard->peers[i];
        if (peer->in_view)
            add(out, &(struct shard_told_peer){peer->node, peer->forwarded, lag_of(shard, i)});
    }
}

void shard_told_join(struct shard_told *sum, const struct shard_told *of)
{
    answered_join(&sum->answered, &of->answered);
    sum->forwarded_more += of->forwarded_more;
    for (uint32_t i = 0; i < of->peer_count; i++)
        add(sum, &of->peers[i]);
}

void shard_took(struct shard *shard, int64_t ns)
{
    answered_took(&shard->tallies.answered, ns);
}
