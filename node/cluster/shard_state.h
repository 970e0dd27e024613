/* shard_state.h - the private state of a shard: that of all its rooms, put together.
 *
 *                          +-------------- shard/ ---------------+
 *       client frames ---> | request/ --> admission/, pending/   | ---> effects
 *         peer frames ---> | peer/ --> election/, replication/   |
 *                          +-------------------------------------+
 *
 * README.md has the rooms in their order. Each room's headers say what it offers; this one is what
 * lets a room reach the state of another, and goes when each has its own.
 *
 * SHARD-1  A check is decided here only while its vnode's role is DECIDING and its leases hold.
 * SHARD-2  A vnode's role is DECIDING iff this node is the writer of the highest term it knows of.
 * SHARD-3  Every part in use is in `active`, and every request in use has pending > 0, or is in
 *          `news`.
 * SHARD-4  A replica's (state term, seq) rises only by a WATERMARK of the leader it follows, so it
 *          never claims state that it does not hold.
 * SHARD-5  What is decided in the plane of quorum is answered only when majorities hold it
 *          (quorum.c).
 *
 * Nothing outside node/cluster includes this header.
 */
#ifndef NODE_CLUSTER_SHARD_STATE_H
#define NODE_CLUSTER_SHARD_STATE_H

#include <assert.h>
#include <stddef.h>

#include "base/pool.h"
#include "base/random.h"
#include "client/protocol/wire.h"
#include "node/cluster/admission/batch.h"
#include "node/cluster/admission/borrow.h"
#include "node/cluster/admission/explain.h"
#include "node/cluster/admission/pools.h"
#include "node/cluster/dedup/reserve.h"
#include "node/cluster/dedup/retry.h"
#include "node/cluster/lease/allocation.h"
#include "node/cluster/lease/lessee.h"
#include "node/cluster/lease/lessor.h"
#include "node/cluster/model/pace.h"
#include "node/cluster/partition/vnode.h"
#include "node/cluster/peer/channel.h"
#include "node/cluster/peer/peers.h"
#include "node/cluster/peer/skew.h"
#include "node/cluster/pending/pending.h"
#include "node/cluster/quorum/quorum.h"
#include "node/cluster/reconcile/merge.h"
#include "node/cluster/reconcile/reconcile.h"
#include "node/cluster/region/remote_regions.h"
#include "node/cluster/replication/cold_keys.h"
#include "node/cluster/replication/exposure.h"
#include "node/cluster/replication/firsts.h"
#include "node/cluster/replication/handoff.h"
#include "node/cluster/replication/stream.h"
#include "node/cluster/request/cross_region.h"
#include "node/cluster/request/fallback.h"
#include "node/cluster/request/reasons.h"
#include "node/cluster/request/requests.h"
#include "node/cluster/request/resolve.h"
#include "node/cluster/request/route_pending.h"
#include "node/cluster/request/tallies.h"
#include "node/cluster/request/unfinished.h"
#include "node/cluster/shard/admin.h"
#include "node/cluster/shard/shard.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/cluster/writeback/filter_rebuild.h"
#include "node/cluster/writeback/sort_buffer.h"
#include "node/cluster/writeback/writeback.h"
#include "node/limit/engine/engine.h"
#include "node/limit/table/table.h"
#include "node/policy/people/api_keys.h"

enum {
    SHARD_STATE_MAX = 1 << 19, /* exported bytes of one slot */
    SHARD_POLICIES_MAX = 8,
    SHARD_JOURNAL_SLOTS = 1 << 14, /* of one batch for the journal */
};

static_assert(SHARD_STATE_MAX + 3 * PEER_RECORD_MAX <= CHANNEL_OUTBOX_LEN - CHANNEL_LIVE_FLUSH,
              "one slot always fits behind a full outbox");

struct policy_slot {
    const struct policy *policy;
    const struct blocks *denied;     /* its blocks, or NULL */
    const struct api_keys *api_keys; /* of it, or NULL: none was issued */
    const struct people *people;     /* its quota records, or NULL */
    uint32_t references;             /* waiting requests */
    uint64_t version;                /* of the rules, in the configuration store, or 0 */
    bool global;                     /* some rule in force has scope global */
};

/* When what does not wait for an event is looked at again. */
struct upkeep {
    int64_t stream_ns;
    int64_t watch_ns;
    int64_t pending_ns;
};

struct shard {
    const struct allocator *allocator;
    struct shard_options options;
    struct shard_stats stats;
    const struct view *view;
    struct table *table;
    struct table *fallbacks;               /* what this shard counted in place of others */
    uint16_t ring_order[RING_MEMBERS_MAX]; /* scratch */
    struct random random;
    int64_t now_ns;
    int64_t started_ns;
    int64_t silence_epoch_ns; /* silence is counted from here at the earliest */
    int64_t behind_ns; /* by how much this shard's short stalls made it late, in all (PEERS-12) */
    struct upkeep next;
    struct writeback writeback;
    uint64_t opened;       /* terms opened since the start */
    int64_t full_until_ns; /* a copy found no room: none is asked for before that (STREAMIN-3) */
    bool reroute_due;
    bool resigning;
    bool resigned; /* VNODES-10 */

    struct peer *peers[SHARD_PEERS_MAX];
    uint16_t peer_count;
    uint64_t peers_followed; /* digest of who has which shards, as vnodes last followed it */
    uint16_t peer_index[SHARD_PEERS_MAX * 2]; /* open addressing by (node, shard) */

    void *vnodes_block;   /* as allocated */
    struct vnode *vnodes; /* [2 x options.vnodes]: the plane of `one`, that of quorum */
    uint32_t vnode_end;   /* of these in use: options.vnodes, or all */
    struct quorum_plane quorum;
    struct vnode_list watermarks;    /* those that owe a WATERMARK */
    struct vnode_list active_vnodes; /* those that a tick looks at (VNODES-8) */
    uint32_t ticks;                  /* of the vnodes, counted */
    uint32_t roles[ROLE_END];        /* vnodes of this shard by role, in the first plane */
    uint32_t unarrived;              /* of both planes, vnodes that are not `arrived` */
    bool resume_due;                 /* a peer may have room again */
    uint64_t settled_epoch;

    struct pool pending;
    uint32_t active[SHARD_PENDING_MAX];
    uint32_t active_count;
    struct pool requests;
    uint32_t ready; /* the first request of which something is to be told, or POOL_NONE */
    struct pool blocks;
    struct pool explains; /* struct explained */
    struct loads loads;
    struct filter_rebuild filter_rebuild;
    struct cold_keys cold_keys;
    struct handoff handoff;
    struct exposure exposure;
    struct lessor lessor;
    struct unfinished unfinished;
    struct lessee lessee;
    struct allocation allocation;
    struct remote_regions remote;
    struct pools pools;
    struct keepalive keepalive;
    struct skew_watch watch;
    struct journaling journaling;
    struct policy_slot policies[SHARD_POLICIES_MAX];
    uint32_t policy;     /* index of the one in force */
    uint64_t rules_seen; /* the newest version that decided something here (DECIDE-15) */
    struct api_keys_cache api_keys_cache; /* of that one */
    uint32_t generation;
    uint32_t sync;   /* the newest name of a copy that was given */
    uint32_t frames; /* begun, of all channels */
    struct retry_memory retries;
    struct firsts firsts;    /* and what replicas know of them */
    int64_t late_until_ns;   /* until then first copies are looked up, too: DECIDE-9 */
    struct reserve reserves; /* the same for requests of several parts */
    struct merge merge;
    struct tallies tallies;

    /* scratch: valid within one event */
    struct message message;
    uint64_t turn_work; /* that looking for rules has cost in this turn (RESOLVE-4) */
    struct batch batch;
    struct row rows[WIRE_CHECKS_MAX];
    struct wire_checks_space checks_space;
    struct reply reply;
    struct identity identity;
    struct admin_scratch admin;
    uint8_t state[SHARD_STATE_MAX];
};

/* The beginning and the end of every event. */
void shard_enter(struct shard *shard, int64_t now_ns);
void shard_settle(struct shard *shard, struct effects *effects);

#endif
