/* peers.c - the other shards of the cluster: frames to them, and whether they are there.
 *
 * Each peer has two channels (channel.h): one for what must not wait, one for complete copies.
 *
 * Whether a peer lives is judged by evidence of one's own: its connection closed, or nothing was
 * heard of it for silence_ns (it sends a keep-alive every keepalive_ns). Gossip has no say in it.
 *
 * A shard that is idle sends keep-alives every idle_ns. The echo of one is then up to two of these
 * old, which must stay below lease_ns; when work comes, it sends one at once.
 *
 * PEERS-1   A peer that was never heard counts as silent only grace_ns after the shard started.
 * PEERS-2   A pause of this shard is not a silence of the others, nor are frames that arrived but
 *           were not read yet: after either the clock of silence starts anew (silence_epoch_ns).
 * PEERS-3   A replica may take over silence_ns after it last heard of the leader. So a leader that
 *           has no echo of a ping younger than lease_ns (< silence_ns) from a live replica decides
 *           nothing until one comes, or the replica counts as gone: it may have been deposed. This
 *           covers its own pauses as well, and makes two leaders at once impossible but in a true
 *           partition.
 * PEERS-4   An echo counts only if every term that its sender has opened is known here: OPENED
 *           records are counted, pings carry the count, and who lacks one asks for an announcement
 *           of all. So a lease can never be renewed by a replica whose take-over got lost on the
 *           way.
 * PEERS-5   A frame of the bulk channel is no sign of life: it may have waited long on its way.
 * PEERS-6   A peer that does not hear this node is as good as gone: one that says in its
 *           keep-alives that its failure time-out has nearly passed *cannot hear us*. It counts as
 *           silent, and nothing it says is listened to but its keep-alives, until they say
 *           otherwise. So a node that hears nobody deposes nobody: the others do not listen to it
 *           before it finds them silent.
 * PEERS-7   A connection that was closed is silence only when the lease that this node's last echo
 *           gave is over, for the peer may live: lease_ns after it was last heard. It is at once if
 *           the peer's host refuses a new connection: then the process is gone.
 * PEERS-8   Where the way to a peer and back is long, patience with it is longer than silence_ns. A
 *           node tells its patience with each echo, and leases follow what the replica told;
 *           patience falls only after it was kept once more for as long as it was told before.
 * PEERS-9   The processes of a node are numbered (`boot`), and nobody but the newest speaks for it:
 *           what an earlier one sent may be on its way for long after the next one is heard. Only
 *           when that has been unheard for grace_ns one with a lower number is believed, whose data
 *           were put back. Nor is a process believed to be a new one that names itself above what
 *           gossip knows of the node (BOOT_BITS of a boot are random, above them is the incarnation
 *           it started with), or while the one that is known is heard over a connection that
 *           stands. So one frame in another's name does not silence it.
 * PEERS-10  A peer *lags* when no echo of a recent keep-alive has come: what is sent to it queues
 *           up behind more than it can do at present, or its answers do here. It lives; but to
 *           repeat anything, or to begin something new with it, would only make the queue longer.
 * PEERS-11  A peer that is starved of its processor, or of its network, lives: frames of it that
 *           come late are followed by later ones. From one that was late by more than an idle
 *           peer's step on, patience is PEERS_FAILURE_TIMEOUT_MAX_NS, until none has been late for
 *           PEERS_LATE_FOR_NS. One that came in time until it stopped is waited for silence_ns, and
 *           one whose connection closed is judged by that (PEERS-7): only a starved node that
 *           stands still costs its keys the longer wait.
 * PEERS-12  What this shard was late itself is no silence of the others. Longer stalls are pauses
 *           (PEERS-2); what shorter ones add up to since a peer was heard is taken off its silence.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

enum {
    PEER_INDEX_LEN = SHARD_PEERS_MAX * 2,
    PEERS_AGE_DECAY = 64, /* a second or so until a slow moment of the way is forgotten */
    BOOT_BITS = 20,       /* as in node/runtime/start/daemon.c */
    BOOT_STARTS = 1024,   /* that gossip may be behind: more it does not believe either */
};
#define PEERS_SPARE_NS               (60 * MS) /* of patience, beside twice the way there and back */
#define PEERS_LAG_NS                 (500 * MS) /* the longest way there and back that serves a leader */
#define PEERS_FAILURE_TIMEOUT_MAX_NS (1000 * MS) /* slower ways than half of it serve no leader */
#define PEERS_LATE_FOR_NS            (10000 * MS) /* stalls of a starved machine come seconds apart */

static uint32_t home_of(uint64_t node, uint16_t peer_shard)
{
    return (uint32_t)(hash_mix64(node + peer_shard) % PEER_INDEX_LEN);
}

uint16_t peers_find(const struct shard *shard, uint64_t node, uint16_t peer_shard)
{
    for (uint32_t i = home_of(node, peer_shard);; i = (i + 1) % PEER_INDEX_LEN) {
        const uint16_t found = shard->peer_index[i];
        if (found == 0)
            return PEER_NONE;
        const struct peer *peer = shard->peers[found - 1];
        if (peer->node == node && peer->shard == peer_shard)
            return (uint16_t)(found - 1);
    }
}

static void index_add(struct shard *shard, uint16_t at)
{
    ASSERT(at < SHARD_PEERS_MAX);
    const struct peer *peer = shard->peers[at];
    uint32_t i = home_of(peer->node, peer->shard);
    while (shard->peer_index[i] != 0)
        i = (i + 1) % PEER_INDEX_LEN;
    shard->peer_index[i] = (uint16_t)(at + 1);
}

static void peer_free(struct shard *shard, struct peer *peer)
{
    for (uint32_t kind = 0; kind < CHANNELS; kind++)
        if (peer->channels[kind].outbox.data != NULL)
            channel_fini(shard, &peer->channels[kind]);
    alloc_put(shard->allocator, peer->pass.links, 2 * shard->options.vnodes);
    alloc_put(shard->allocator, peer, sizeof *peer);
}

static struct peer *peer_new(struct shard *shard)
{
    struct peer *peer = alloc_get(shard->allocator, sizeof *peer);
    if (peer == NULL)
        return NULL;
    peer->pass.links = alloc_get(shard->allocator, 2 * shard->options.vnodes);
    bool ok = peer->pass.links != NULL;
    for (uint32_t kind = 0; kind < CHANNELS && ok; kind++)
        ok = channel_init(shard, &peer->channels[kind]);
    if (ok)
        return peer;
    peer_free(shard, peer);
    return NULL;
}

/* Adds a peer. A cluster larger than the table, or than memory, leaves the rest out: they are then
 * reached through others and hold no replicas of this shard, which `status` tells. Places are never
 * given back, for much refers to them: members that come under ever new names use them up until
 * this process is started again. */
static void peer_add(struct shard *shard, uint64_t node, uint16_t peer_shard)
{
    ASSERT(peers_find(shard, node, peer_shard) == PEER_NONE); /* PEERS-13 */
    if (shard->peer_count == SHARD_PEERS_MAX)
        return;
    struct peer *peer = peer_new(shard);
    if (peer == NULL)
        return;
    peer->node = node;
    peer->shard = peer_shard;
    peer->since_ns = shard->now_ns;
    shard->peers[shard->peer_count] = peer;
    index_add(shard, shard->peer_count);
    shard->peer_count++;
}

/* Half of the places are kept for members of the ring: others may come under ever new names. */
static bool has_place(const struct shard *shard, uint64_t node)
{
    return shard->peer_count < SHARD_PEERS_MAX / 2 || ring_index_of(&shard->view->to, node) >= 0 ||
           ring_index_of(&shard->view->from, node) >= 0;
}

void peers_follow_view(struct shard *shard)
{
    const struct view *view = shard->view;
    shard->resume_due = true; /* replication to absent peers was put off */
    shard->stats.peers_left_out = 0;
    for (uint16_t i = 0; i < shard->peer_count; i++)
        shard->peers[i]->in_view = false;
    for (uint32_t m = 0; m < view->member_count; m++) {
        const struct view_member *member = &view->members[m];
        if (member->state == VIEW_LEFT || view_is_remote(view, member))
            continue;
        for (uint16_t s = 0; s < member->shards; s++) {
            if (member->id == shard->options.node_id && s == shard->options.shard)
                continue;
            if (peers_find(shard, member->id, s) == PEER_NONE && has_place(shard, member->id))
                peer_add(shard, member->id, s);
            const uint16_t at = peers_find(shard, member->id, s);
            if (at != PEER_NONE)
                shard->peers[at]->in_view = true;
            else
                shard->stats.peers_left_out++;
        }
    }
}

void peers_fini(struct shard *shard)
{
    for (uint16_t i = 0; i < shard->peer_count; i++)
        peer_free(shard, shard->peers[i]);
    shard->peer_count = 0;
}

uint16_t peers_for(const struct shard *shard, uint64_t node, uint32_t vnode)
{
    const struct view_member *member = view_find(shard->view, node);
    if (member == NULL || member->shards == 0)
        return PEER_NONE;
    return peers_find(shard, node, (uint16_t)(vnodes_ring(shard, vnode) % member->shards));
}

/* ---- frames out ------------------------------------------------------------------------------ */

void peers_flush(struct shard *shard, uint16_t at, struct effects *effects)
{
    ASSERT(at < shard->peer_count);
    channel_flush(shard, at, CHANNEL_LIVE, effects);
    channel_flush(shard, at, CHANNEL_BULK, effects);
}

struct bytes_writer *peers_outbox(struct shard *shard, uint16_t at, size_t len,
                                  struct effects *effects)
{
    return channel_outbox(shard, at, CHANNEL_LIVE, len, effects);
}

void peers_put_vnode(struct shard *shard, uint16_t at, enum peer_record_type type,
                     const struct peer_vnode *entry, struct effects *effects)
{
    peer_put_vnode(peers_outbox(shard, at, PEER_RECORD_MAX, effects), type, entry);
}

/* ---- evidence -------------------------------------------------------------------------------- */

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

bool peers_gone(const struct shard *shard, uint16_t at)
{
    ASSERT(at < shard->peer_count);
    const struct peer *peer = shard->peers[at];
    return !peer->in_view || peer->silent;
}

int64_t peers_detour_ns(const struct shard *shard, uint16_t at)
{
    const int64_t way_ns = shard->peers[at]->way_ns - shard->options.silence_ns;
    return way_ns > 0 ? way_ns : 0;
}

/* By how much a lease is shorter than the patience of who gave it. */
static int64_t margin(const struct shard *shard)
{
    return shard->options.silence_ns - shard->options.lease_ns;
}

int64_t peers_failure_timeout_ns(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    const bool keeps = shard->now_ns < peer->kept_until_ns && peer->kept_ns > peer->told_ns;
    return latest(keeps ? peer->kept_ns : peer->told_ns, shard->options.silence_ns);
}

/* Since when the peer's silence is counted. */
static int64_t quiet_since(const struct shard *shard, const struct peer *peer)
{
    if (shard->silence_epoch_ns >= peer->heard_ns) /* PEERS-2 */
        return shard->silence_epoch_ns;
    return peer->heard_ns + shard->behind_ns - peer->heard_behind_ns; /* PEERS-12 */
}

/* When the peer will be silent if nothing of it is heard until then. */
static int64_t silence_at(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    if (peer->heard_ns == 0) /* PEERS-1 */
        return latest(peer->since_ns, shard->silence_epoch_ns) + shard->options.grace_ns;
    const int64_t early_ns = peer->closed ? margin(shard) : 0; /* PEERS-7 */
    return quiet_since(shard, peer) + peers_failure_timeout_ns(shard, at) - early_ns;
}

bool peers_silent(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    return !peer->in_view || peer->refused || (peer->cannot_hear_us && peer->heard_ns != 0) ||
           shard->now_ns >= silence_at(shard, at);
}

/* Whether this node will find the peer silent soon; the peer is told in time (PEERS-6). */
static bool nearly_silent(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    if (peer->refused)
        return true;
    if (peer->heard_ns == 0)
        return shard->now_ns >=
               latest(peer->since_ns, shard->silence_epoch_ns) + shard->options.grace_ns;
    return shard->now_ns >=
           quiet_since(shard, peer) + peers_failure_timeout_ns(shard, at) - margin(shard);
}

bool peers_lag(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    return peer->echo_seen_ns != 0 && shard->now_ns - peer->echo_seen_ns > PEERS_LAG_NS;
}

bool peers_cannot_hear_us(const struct shard *shard, uint16_t at)
{
    return shard->peers[at]->cannot_hear_us;
}

bool peers_silent_node(const struct shard *shard, uint64_t node, uint32_t vnode)
{
    if (node == shard->options.node_id && vnodes_mine(shard, vnode))
        return false;
    const uint16_t at = peers_for(shard, node, vnode);
    return at == PEER_NONE || peers_silent(shard, at);
}

bool peers_lease_holds(const struct shard *shard, uint16_t at)
{
    const struct peer *peer = shard->peers[at];
    return shard->now_ns - peer->echo_ns <= peer->promised_ns - margin(shard) ||
           peer->heard_ns == 0 || peers_silent(shard, at);
}

/* The peer is there, or there again. */
static void revive(struct shard *shard, struct peer *peer)
{
    peer->silent = false;
    peer->cannot_hear_us = false;
    shard->reroute_due = true;
    shard->resume_due = true; /* replication to it was put off */
    shard->keepalive.listener->changed(shard);
}

/* PEERS-8: learns how long the way to the peer and back is, from what its keep-alive echoes. */
static void measure(struct shard *shard, struct peer *peer, const struct peer_ping *ping)
{
    if (ping->echo_ns > shard->now_ns || ping->echo_ns <= peer->echo_seen_ns)
        return;
    const int64_t age_ns = shard->now_ns - ping->echo_ns;
    peer->echo_seen_ns = ping->echo_ns;
    if (age_ns > peer->age_ns)
        peer->age_ns = age_ns;
    else
        peer->age_ns -= (peer->age_ns - age_ns) / PEERS_AGE_DECAY;
    /* What an idle peer waits longer with its echoes than a busy one is not the way's length. */
    const int64_t slack_ns = 2 * (shard->options.idle_ns - shard->options.keepalive_ns);
    int64_t wanted_ns =
        latest(2 * peer->age_ns + PEERS_SPARE_NS - slack_ns, shard->options.silence_ns);
    const int64_t most_ns = latest(PEERS_FAILURE_TIMEOUT_MAX_NS, shard->options.silence_ns);
    if (wanted_ns > most_ns)
        wanted_ns = most_ns;
    peer->way_ns = wanted_ns;
    if (shard->now_ns < peer->late_until_ns) /* PEERS-11 */
        wanted_ns = most_ns;
    if (wanted_ns < peer->told_ns) { /* what was told before is kept for as long as it says */
        const bool kept = shard->now_ns < peer->kept_until_ns;
        peer->kept_ns = kept ? latest(peer->kept_ns, peer->told_ns) : peer->told_ns;
        peer->kept_until_ns = shard->now_ns + peer->kept_ns;
    }
    peer->told_ns = wanted_ns;
}

/* Idle nodes fall into step: one that hears a keep-alive sends its own at once if it is due before
 * long. So what all peers send arrives together and wakes this node once, however many they are. */
static void fall_into_step(struct shard *shard)
{
    const int64_t interval_ns = peers_interval_ns(shard);
    if (interval_ns != shard->options.keepalive_ns &&
        shard->keepalive.next_ping_ns - shard->now_ns <= interval_ns / 2)
        shard->keepalive.next_ping_ns = shard->now_ns;
}

/* Names a process of a node: a ping may come to one that took the address of another. */
static uint64_t process_of(uint64_t node, uint64_t boot)
{
    return node ^ hash_mix64(boot);
}

/* PEERS-6. A peer that has not heard this process yet (what it says may be for one that was here
 * before) is given the time of one that was never heard; and after a pause of this node it is the
 * pause that the peer tells of. */
static void take_deafness(struct shard *shard, uint16_t at, const struct peer_ping *ping)
{
    struct peer *peer = shard->peers[at];
    const bool paused =
        shard->now_ns < shard->silence_epoch_ns + peers_failure_timeout_ns(shard, at);
    const bool for_us = ping->process == process_of(shard->options.node_id, shard->options.boot);
    peer->hears_us = peer->hears_us || for_us;
    if (for_us && !ping->cannot_hear_you && peer->cannot_hear_us)
        revive(shard, peer);
    else if (!paused &&
             (for_us ? ping->cannot_hear_you
                     : !peer->hears_us && shard->now_ns >= peer->met_ns + shard->options.grace_ns))
        peer->cannot_hear_us = true; /* the next tick finds it silent */
}

/* PEERS-11: notes a frame that came later than any that a peer sends which runs when it wants to.
 * What came later than a second was not slow, but away. */
static void watch_gap(const struct shard *shard, struct peer *peer)
{
    const int64_t gap_ns = shard->now_ns - quiet_since(shard, peer);
    if (peer->heard_ns != 0 && gap_ns > shard->options.idle_ns + shard->options.keepalive_ns &&
        gap_ns < PEERS_FAILURE_TIMEOUT_MAX_NS)
        peer->late_until_ns = shard->now_ns + PEERS_LATE_FOR_NS;
}

/* The highest name that a process of the peer may have; of whom gossip has heard nothing, and whose
 * incarnation leaves no room for it (an older release followed any), that is any. Gossip may be
 * some starts behind. */
static uint64_t boot_max(const struct shard *shard, const struct peer *peer)
{
    const struct view_member *member = view_find(shard->view, peer->node);
    const uint64_t known = member != NULL ? member->incarnation : 0;
    const uint64_t room = UINT64_MAX >> BOOT_BITS;
    if (known == 0 || known > room - BOOT_STARTS)
        return UINT64_MAX;
    return ((known + BOOT_STARTS) << BOOT_BITS) | ((UINT64_C(1) << BOOT_BITS) - 1);
}

bool peers_credible(const struct shard *shard, uint16_t at, uint64_t boot)
{
    const struct peer *peer = shard->peers[at];
    const bool stands =
        peer->boot != 0 && peer->heard_ns != 0 && !peer->closed && !peer->refused &&
        shard->now_ns < latest(peer->heard_ns, shard->silence_epoch_ns) + shard->options.silence_ns;
    return boot <= boot_max(shard, peer) &&
           (boot == peer->boot || !stands || peer->boot > boot_max(shard, peer));
}

bool peers_former(const struct shard *shard, uint16_t at, uint64_t boot)
{
    const struct peer *peer = shard->peers[at];
    return boot < peer->boot && peer->boot <= boot_max(shard, peer) &&
           shard->now_ns <
               latest(peer->heard_ns, shard->silence_epoch_ns) + shard->options.grace_ns;
}

bool peers_heard(struct shard *shard, uint16_t at, uint64_t boot)
{
    ASSERT(at < shard->peer_count && shard->peers[at]->heard_ns <= shard->now_ns);
    struct peer *peer = shard->peers[at];
    const bool restarted = peer->boot != 0 && peer->boot != boot;
    if (restarted || peer->boot == 0) {
        peer->cannot_hear_us = false;
        peer->hears_us = false;
        peer->echo_seen_ns = 0;
        peer->met_ns = shard->now_ns;
    }
    if (!peer->cannot_hear_us && (peer->silent || peer->heard_ns == 0))
        revive(shard, peer);
    if (!restarted)
        watch_gap(shard, peer);
    peer->heard_ns = shard->now_ns;
    peer->heard_behind_ns = shard->behind_ns;
    peer->closed = false;
    peer->refused = false;
    peer->boot = boot;
    if (restarted) {
        peer->opened = 0;
        peer->known = 0;
        peer->told = 0;
        peer->changes = false;
        peer->versions = false;
        peer->ping_ns = 0; /* by the clock of its host, which may have been set back meanwhile */
        channel_forget(&peer->channels[CHANNEL_LIVE]);
        channel_forget(&peer->channels[CHANNEL_BULK]);
    }
    return restarted;
}

/* PEERS-3 and PEERS-8: the patience is told for the echo that it comes with. One that comes late,
 * behind a newer echo, says what was true once, and lengthens nothing. */
static void take_lease(struct peer *peer, const struct peer_ping *ping)
{
    ASSERT(peer->known == peer->opened); /* PEERS-4 */
    if (ping->echo_ns < peer->echo_ns)
        return;
    const int64_t told_ns = ping->patience_ms * MS;
    peer->echo_ns = ping->echo_ns;
    peer->promised_ns =
        told_ns < PEERS_FAILURE_TIMEOUT_MAX_NS ? told_ns : PEERS_FAILURE_TIMEOUT_MAX_NS;
}

void peers_ping(struct shard *shard, uint16_t at, const struct peer_ping *ping)
{
    struct peer *peer = shard->peers[at];
    if (!peers_lease_holds(shard, at))
        shard->reroute_due = true;
    if (peer->resigning != ping->resigning)
        shard->keepalive.listener->changed(shard);
    peer->resigning = ping->resigning;
    peer->reserves = ping->reserves;
    peer->leases = ping->leases;
    peer->changes = ping->changes;
    peer->versions = ping->versions;
    fall_into_step(shard);
    measure(shard, peer, ping);
    skew_ping(shard, at, ping);
    take_deafness(shard, at, ping);
    peer->announce_due = peer->announce_due || ping->asks;
    peer->opened = ping->opened;
    if (ping->sent_ns > peer->ping_ns ||
        peer->ping_ns - ping->sent_ns > PEERS_FAILURE_TIMEOUT_MAX_NS)
        peer->ping_ns = ping->sent_ns; /* none is so late: the other was not of its clock */
    if (ping->announces && ping->announced == peer->told)
        peer->known = ping->opened;
    if (ping->announces)
        peer->told = 0;
    if (ping->echo_ns <= shard->now_ns && peer->known == peer->opened) /* PEERS-4 */
        take_lease(peer, ping);
}

void peers_opened(struct shard *shard, uint16_t at, uint32_t ordinal)
{
    ASSERT(at < shard->peer_count);
    struct peer *peer = shard->peers[at];
    if (ordinal == 0)
        peer->told++;
    else if (ordinal == (uint32_t)(peer->known + 1))
        peer->known++;
}

static void fall_silent(struct shard *shard, uint16_t at, struct effects *effects)
{
    ASSERT(shard->keepalive.listener != NULL && at < shard->peer_count);
    struct peer *peer = shard->peers[at];
    if (peer->silent)
        return;
    peer->silent = true;
    peer->ping_ns = 0;
    peer->echo_ns = 0;
    shard->keepalive.listener->silent(shard, at, effects);
    shard->reroute_due = true;
}

void peers_closed(struct shard *shard, uint16_t at, bool refused, struct effects *effects)
{
    ASSERT(at < shard->peer_count);
    shard->peers[at]->closed = true;
    shard->peers[at]->refused = refused;
    if (refused) /* PEERS-7 */
        fall_silent(shard, at, effects);
}

static void put_ping(struct shard *shard, uint16_t at, struct effects *effects)
{
    struct peer *peer = shard->peers[at];
    struct peer_ping ping = {
        .sent_ns = shard->now_ns,
        .echo_ns = peer->ping_ns,
        .opened = shard->opened,
        .announces = peer->announce_due,
        .asks = peer->known != peer->opened,
        .patience_ms = (uint32_t)(latest(peer->told_ns, shard->options.silence_ns) / MS),
        .process = process_of(peer->node, peer->boot),
        .cannot_hear_you = nearly_silent(shard, at),
        .resigning = shard->resigning,
        .reserves = true,
        .leases = true,
        .changes = true,
        .versions = true,
    };
    if (peer->announce_due)
        ping.announced = shard->keepalive.listener->announce(shard, at, effects);
    peer->announce_due = false;
    peer_put_ping(peers_outbox(shard, at, PEER_RECORD_MAX, effects), &ping);
}

int64_t peers_interval_ns(const struct shard *shard)
{
    const bool idle = shard->now_ns - shard->keepalive.busy_ns >= shard->options.idle_after_ns &&
                      shard->active_vnodes.count == 0 && shard->active_count == 0 &&
                      !shard->handoff.busy && !shard->keepalive.uneasy && !shard->resigning;
    return idle ? shard->options.idle_ns : shard->options.keepalive_ns;
}

/* A peer that was not heard for long ends idleness, so that it is told in time (PEERS-6). */
static void await_silence(struct shard *shard, uint16_t at)
{
    const bool near = nearly_silent(shard, at);
    const int64_t at_ns = silence_at(shard, at) - (near ? 0 : margin(shard));
    shard->keepalive.uneasy = shard->keepalive.uneasy || (near && shard->peers[at]->heard_ns != 0);
    if (at_ns > shard->now_ns && at_ns < shard->keepalive.next_silence_ns)
        shard->keepalive.next_silence_ns = at_ns;
}

void peers_tick(struct shard *shard, struct effects *effects)
{
    const bool ping = shard->now_ns >= shard->keepalive.next_ping_ns;
    if (ping)
        shard->keepalive.next_ping_ns = shard->now_ns + peers_interval_ns(shard);
    shard->keepalive.next_silence_ns = INT64_MAX;
    shard->keepalive.uneasy = false;
    for (uint16_t i = 0; i < shard->peer_count; i++) {
        struct peer *peer = shard->peers[i];
        if (!peer->in_view) {
            channel_drop(shard, &peer->channels[CHANNEL_LIVE]);
            channel_drop(shard, &peer->channels[CHANNEL_BULK]);
            continue;
        }
        if (peers_silent(shard, i))
            fall_silent(shard, i, effects);
        else
            await_silence(shard, i);
        channel_put_acks(shard, i, effects);
        if (ping || peer->announce_due)
            put_ping(shard, i, effects);
    }
}
