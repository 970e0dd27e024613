/* vnodes_tick.c - what time does to a vnode, and the silence or return of a peer.
 *
 * A tick repeats what was not answered, takes over from leaders that fell silent, passes vnodes to
 * replicas that are preferred, and notes what has arrived where the configuration wants it. It
 * looks at marked active vnodes alone (VNODES-8), so that an idle shard does next to nothing.
 */
#include "base/assert.h"
#include "node/cluster/election/election.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"

enum {
    VNODES_TRANSFERS_PER_TICK = 256,
    VNODES_DROPS_PER_TICK = 1024,
    VNODES_ASK_AGAIN_MS = 100,
};

static void watch_leader(struct shard *shard, uint32_t number, struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->rank != UINT8_MAX);
    const bool own = vnode->term.writer == shard->options.node_id;
    const bool gone = own || vnode->hint == PEER_NONE || peers_silent(shard, vnode->hint);
    /* VNODES-6; else only the first may. */
    if (own || (gone && vnodes_first_alive(shard, number))) {
        vnodes_recover(shard, number, false, effects);
    } else if (!gone && vnodes_lacks(shard, number) && !reconcile_busy(vnode) &&
               shard->now_ns >= shard->full_until_ns &&
               shard->now_ns - vnode->asked_ns > VNODES_ASK_AGAIN_MS * MS) {
        vnode->asked_ns = shard->now_ns;
        stream_tell_lack(shard, vnode->hint, number, effects);
    }
}

/* Whether the configuration's wish for this vnode is fulfilled here (see shard_settled_epoch). */
static bool has_arrived(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_quorum(shard, number))
        return quorum_arrived(shard, number);
    if (vnode->role != ROLE_LEADING)
        return vnode->rank != 0;
    if (vnode->rank != 0 && !vnodes_given_up(shard, vnode->ids[0]))
        return false;
    const uint32_t replicas = shard->view->to.replicas;
    for (uint32_t i = 0; i < replicas && i < vnode->id_count; i++) {
        const int at = vnodes_link_to(vnode, vnode->ids[i]);
        if (at >= 0 && !vnode->links[at].confirmed && !vnodes_given_up(shard, vnode->ids[i]))
            return false;
    }
    return true;
}

/* Whether a state is pulled and nothing of it has come for long. */
static bool catch_up_stuck(const struct shard *shard, const struct vnode *vnode)
{
    const int64_t since_ns = vnode->in_ns > vnode->since_ns ? vnode->in_ns : vnode->since_ns;
    return vnode->catching_up && shard->now_ns - since_ns > VNODES_TRANSFER_GIVE_UP_MS * MS;
}

/* A replica watches its leader; one that is not wanted any more leaves when it may. */
static void tick_replica(struct shard *shard, uint32_t number, struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const bool quorum = vnodes_quorum(shard, number);
    if (!quorum)
        reconcile_tick(shard, number);
    if (vnode->rank == UINT8_MAX) {
        if (quorum ? !vnodes_kept(shard, number) : !reconcile_keeps(shard, number, effects))
            vnodes_drop(shard, number);
    } else if (quorum) {
        quorum_replica_tick(shard, number, effects);
    } else {
        watch_leader(shard, number, effects);
    }
}

/* How long to wait for answers. The replicas of a dead leader find it silent within a few
 * milliseconds of each other; but one that has lost its way to a living one asks for long. */
static int64_t ask_again_ns(const struct shard *shard, uint32_t number)
{
    const int64_t age_ns = shard->now_ns - shard->vnodes[number].since_ns;
    const int64_t seldom_ns = VNODES_ASK_AGAIN_MS * MS;
    if (!vnodes_held_back(shard, number) || age_ns / 4 > seldom_ns)
        return seldom_ns;
    return age_ns / 4;
}

static void tick_recovering(struct shard *shard, uint32_t number, struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    ASSERT(vnode->role == ROLE_RECOVERING);
    if (vnodes_quorum(shard, number)) {
        quorum_recover_tick(shard, number, effects);
        return;
    }
    if (shard->now_ns - vnode->asked_ns > ask_again_ns(shard, number))
        vnodes_ask(shard, number, effects);
    if (catch_up_stuck(shard, vnode))
        vnodes_recover(shard, number, vnode->fresh, effects);
    else
        vnodes_finish_recovery(shard, number, effects);
}

/* Whether it began to pass the vnode to a replica that is preferred. */
static bool tick_leading(struct shard *shard, uint32_t number, bool may_transfer,
                         struct effects *effects)
{
    ASSERT(shard->vnodes[number].role == ROLE_LEADING);
    stream_ask_again(shard, number, effects);
    if (vnodes_quorum(shard, number))
        quorum_tick(shard, number, effects); /* it may give way */
    else
        merge_watch(shard, number);
    return may_transfer && shard->vnodes[number].role == ROLE_LEADING &&
           vnodes_try_transfer(shard, number, effects);
}

static void tick_transferring(struct shard *shard, uint32_t number, struct effects *effects)
{
    if (vnodes_quorum(shard, number))
        quorum_tick(shard, number, effects); /* it may give way */
    if (shard->vnodes[number].role == ROLE_TRANSFERRING)
        vnodes_transfer_again(shard, number, effects);
}

/* Whether it began to pass the vnode. */
static bool tick_one(struct shard *shard, uint32_t number, bool may_transfer,
                     struct effects *effects)
{
    switch ((enum peer_role)shard->vnodes[number].role) {
    case ROLE_REPLICA:
        tick_replica(shard, number, effects);
        break;
    case ROLE_RECOVERING:
        tick_recovering(shard, number, effects);
        break;
    case ROLE_LEADING:
        return tick_leading(shard, number, may_transfer, effects);
    case ROLE_TRANSFERRING:
        tick_transferring(shard, number, effects);
        break;
    case ROLE_ABSENT:
        if (vnodes_may_return(shard, number))
            vnodes_recover(shard, number, true, effects);
        break;
    case ROLE_END:
        break;
    }
    return false;
}

/* Whether slots of the vnode may be on their way into a batch that would be written behind a drop.
 */
static bool is_being_copied(struct shard *shard, uint32_t number)
{
    return vnodes_quorum(shard, number) ? quorum_of(shard, number)->in_batch /* JOURNAL-4 */
                                        : shard->writeback.copied > 0;       /* WRITEBACK-4 */
}

/* Asks the disk to forget what was dropped, a bounded number of vnodes at a time. */
static uint32_t forget(struct shard *shard, uint32_t number, uint32_t dropped,
                       struct effects *effects)
{
    ASSERT(dropped <= VNODES_DROPS_PER_TICK && number < shard->vnode_end);
    struct vnode *vnode = &shard->vnodes[number];
    if (!vnode->drop_due || dropped == VNODES_DROPS_PER_TICK || is_being_copied(shard, number))
        return dropped;
    vnode->drop_due = false;
    vnode->claim_fell = vnode->claim_out = false; /* with what is stored */
    effects_add(effects, EFFECT_DROP_VNODE)->vnode = number;
    return dropped + 1;
}

/* Whether every other replica has confirmed, or is gone. */
static bool links_quiescent(const struct shard *shard, const struct vnode *vnode)
{
    for (uint32_t i = 0; i < vnode->link_count; i++) {
        const struct replica_link *link = &vnode->links[i];
        if (!link->confirmed && link->peer != PEER_NONE && !peers_gone(shard, link->peer))
            return false;
    }
    return true;
}

bool vnodes_quiescent(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->drop_due || !vnode->arrived)
        return false;
    if (vnodes_quorum(shard, number) && !quorum_quiescent(shard, number))
        return false;
    switch ((enum peer_role)vnode->role) {
    case ROLE_REPLICA:
        return vnode->rank != UINT8_MAX && vnode->copy_complete && !vnode->has_stale_slots &&
               term_compare(&vnode->state, &vnode->term) == 0 && vnode->hint != PEER_NONE &&
               vnode->term.writer != shard->options.node_id && !peers_gone(shard, vnode->hint);
    case ROLE_LEADING:
        return vnode->merge.lineage.count == 0 && links_quiescent(shard, vnode) &&
               vnodes_successor(shard, number) < 0;
    case ROLE_RECOVERING:
    case ROLE_TRANSFERRING:
        return false;
    case ROLE_ABSENT:
        return vnode->rank == UINT8_MAX;
    case ROLE_END:
        break;
    }
    return true;
}

void vnodes_tick(struct shard *shard, struct effects *effects)
{
    uint32_t dropped = 0;
    uint32_t passes = 0;
    uint32_t kept = 0;
    shard->ticks++;
    for (uint32_t i = 0; i < shard->active_vnodes.count;
         i++) { /* what it marks active is looked at as well */
        const uint32_t number = shard->active_vnodes.list[i];
        struct vnode *vnode = &shard->vnodes[number];
        dropped = forget(shard, number, dropped, effects);
        if (!shard->resigned) /* VNODES-10 */
            passes += tick_one(shard, number, passes < VNODES_TRANSFERS_PER_TICK, effects);
        if (!vnode->arrived && has_arrived(shard, number)) {
            ASSERT(shard->unarrived > 0); /* PARTITION-2 */
            vnode->arrived = true;
            shard->unarrived--;
        }
        vnode->is_active = !vnodes_quiescent(shard, number);
        if (vnode->is_active)
            shard->active_vnodes.list[kept++] = number;
    }
    ASSERT(kept <= shard->active_vnodes.count); /* PARTITION-1 */
    shard->active_vnodes.count = kept;
    if (shard->unarrived == 0)
        shard->settled_epoch = shard->view->epoch;
}

void vnodes_peer_silent(struct shard *shard, uint16_t at, struct effects *effects)
{
    for (uint32_t number = vnodes_first(shard); number < shard->vnode_end;
         number = vnodes_next(shard, number)) {
        struct vnode *vnode = &shard->vnodes[number];
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if (vnode->links[i].peer == at)
                stream_unconfirm(shard, number, i);
        vnodes_mark_active(shard, number);
        if (shard->resigned) /* VNODES-10 */
            continue;
        if (vnode->role == ROLE_REPLICA && vnode->hint == at && vnodes_quorum(shard, number))
            quorum_replica_tick(shard, number, effects);
        else if (vnode->role == ROLE_REPLICA && vnode->hint == at)
            watch_leader(shard, number, effects);
        else if (vnode->role == ROLE_RECOVERING) {
            if (vnodes_quorum(shard, number))
                quorum_of(shard, number)->asks = 0; /* others may have become free */
            vnodes_finish_recovery(shard, number, effects);
        }
    }
}

/* What a peer reported may have been in its memory alone: a mark without slots is not enough for
 * it any more, and a state that was to be pulled from it is looked for again. What it promised is
 * durable, and stands. */
static void forget_report(struct shard *shard, uint16_t at, uint32_t number,
                          struct effects *effects)
{
    struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer == at)
            vnode->equal &= (uint8_t) ~(1u << i);
    if (vnode->role == ROLE_RECOVERING && vnode->best == at)
        vnodes_recover(shard, number, vnode->fresh, effects);
}

void vnodes_peer_restarted(struct shard *shard, uint16_t at, struct effects *effects)
{
    for (uint32_t number = vnodes_first(shard); number < shard->vnode_end;
         number = vnodes_next(shard, number)) {
        struct vnode *vnode = &shard->vnodes[number];
        if (vnode->role == ROLE_REPLICA && vnode->hint == at)
            vnode->copy_complete = false; /* does it still decide? */
        if (vnode->in_from == at)
            vnode->in_from = PEER_NONE; /* the names of its copies begin anew */
        forget_report(shard, at, number, effects);
        vnodes_mark_active(shard, number);
        if (vnode->role != ROLE_LEADING && vnode->role != ROLE_TRANSFERRING)
            continue;
        for (uint32_t i = 0; i < vnode->link_count; i++)
            if (vnode->links[i].peer == at) {
                stream_restart_link(shard, number, i);
                exposure_forget(&vnode->links[i]);
            }
    }
    stream_restart(shard, at, CHANNEL_LIVE);
    stream_restart(shard, at, CHANNEL_BULK);
}
