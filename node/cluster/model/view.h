/* view.h - what a shard knows of the cluster: members, the ring configuration, replica sets.
 *
 * The control core makes a view whenever membership or configuration changes; shards only read
 * it. Liveness in it is gossip's opinion: for showing, for choosing whom to prefer. Whether a
 * *leader* is gone a shard judges by its own evidence alone (vnode.c).
 *
 * VIEW-1  members are sorted by id; `self` is the index of this node (always present).
 * VIEW-2  Members are of all regions, the ring is that of this node's own. Who walks members to
 *         speak of keys passes over those that are abroad. Nor are regions those of its members,
 *         but those that the configuration store says have a ring.
 * VIEW-3  A replica set lists the `to` replicas in preference order, then those of `from` that are
 *         not among them; it never repeats a node and never exceeds VIEW_REPLICAS_MAX.
 */
#ifndef NODE_CLUSTER_MODEL_VIEW_H
#define NODE_CLUSTER_MODEL_VIEW_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/cluster/clock/cluster_time.h"
#include "ring/config.h"
#include "ring/ring.h"

enum {
    VIEW_TEXT_LEN = 64,
    VIEW_MEMBERS_MAX = RING_MEMBERS_MAX,
    VIEW_REPLICATION_MAX = 3,                     /* replicas of a vnode, its owner included */
    VIEW_REPLICAS_MAX = 2 * VIEW_REPLICATION_MAX, /* while a transition is under way */
    VIEW_SHARDS_MAX = 16,
    VIEW_REGIONS_MAX = 32,
    VIEW_SHARD_PORT_STEP = 10, /* shard i listens at port + 10 i */
};

/* Regions that have a ring, by name; the first ones, which are the same everywhere. */
struct view_regions {
    uint32_t count; /* 0: they are not known */
    char names[VIEW_REGIONS_MAX][VIEW_TEXT_LEN];
};

/* What this node makes of a member's clock (cluster_time.h). */
struct view_clock {
    enum clock_verdict verdict;
    uint64_t process;     /* of which that is said: a later one is not judged yet */
    bool held;            /* it is kept out of the ring for its wall clock */
    int64_t skew_ns;      /* its cluster time minus the majority's, or this node's */
    int64_t wall_skew_ns; /* its wall clock minus the majority's, or this node's */
    bool ours;            /* no majority agrees: skew_ns is against this node's time */
    bool wall_ours;       /* and wall_skew_ns against its wall clock */
};

enum view_state { VIEW_ALIVE, VIEW_SUSPECT, VIEW_DEAD, VIEW_LEFT };

struct view_member {
    uint64_t id;
    uint64_t incarnation;
    uint64_t rules_digest;
    uint64_t ring_epoch;
    enum view_state state;
    bool stops;  /* its process ends, or has ended, in order: it is expected to come back */
    bool drains; /* it wants out of the ring */
    uint16_t shards;
    struct view_clock clock;
    char name[VIEW_TEXT_LEN];
    char region[VIEW_TEXT_LEN];
    char zone[VIEW_TEXT_LEN];
    char client[VIEW_TEXT_LEN]; /* HOST:PORT of shard 0 */
    char peer[VIEW_TEXT_LEN];
    char gossip[VIEW_TEXT_LEN];
    char version[VIEW_TEXT_LEN];
};

struct view {
    uint64_t version; /* rises with every change, never repeats on one node */
    uint32_t member_count;
    uint32_t self;
    struct view_member *members;
    struct view_regions regions; /* none in a new view: its maker's to fill in */
    uint64_t epoch;
    uint32_t vnodes;
    uint32_t replicas;
    bool stable;            /* from and to are the same */
    struct ring_table from; /* equal to `to` when stable */
    struct ring_table to;
    const struct allocator *allocator;
};

/* Makes a view of `members` (copied; any order; must contain `self_id`) under `config`.
 * 0, TG_ENOMEM, or TG_EINVALID when self is missing. Free it with view_free. */
MUST_USE int view_new(const struct allocator *allocator, uint64_t version,
                      const struct view_member *members, uint32_t member_count, uint64_t self_id,
                      const struct ring_config *config, struct view **out);
/* A view of other members under the configuration of `like`, whose ring is not computed again.
 * Errors as above. */
MUST_USE int view_again(const struct allocator *allocator, uint64_t version,
                        const struct view_member *members, uint32_t member_count, uint64_t self_id,
                        const struct view *like, struct view **out);
void view_free(struct view **view);

/* Whether the member is of another region: it has no part in this ring, and is no peer. */
bool view_is_remote(const struct view *view, const struct view_member *member);

/* The member of that id, or NULL. */
const struct view_member *view_find(const struct view *view, uint64_t id);

/* Node ids of the replica set of `vnode` in the order of VIEW-3; returns how many. out[0] is the
 * owner that the newest configuration prefers. */
uint32_t view_replica_set(const struct view *view, uint32_t vnode, uint64_t out[VIEW_REPLICAS_MAX]);

/* How many members are up, of all regions, this node among them: those that gossip holds for dead
 * are not, nor those that have left. */
uint32_t view_up(const struct view *view);

/* How many vnodes `id` owns in the newest configuration. */
uint32_t view_owned(const struct view *view, uint64_t id);

const char *view_state_name(enum view_state state);

/* "HOST:PORT" of shard `shard` from the endpoint of shard 0. 0, or TG_EINVALID. */
MUST_USE int view_shard_endpoint(const char *base, uint16_t shard, char out[VIEW_TEXT_LEN]);

/* Asserts the above. */
void view_check_invariants(const struct view *view);

#endif
