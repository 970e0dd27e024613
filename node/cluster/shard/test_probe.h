/* test_probe.h - what tests and the simulator may see of a shard beyond shard.h.
 *
 * Read-only. It exists so that they can compare what nodes hold without knowing how it is kept.
 */
#ifndef NODE_CLUSTER_SHARD_TEST_PROBE_H
#define NODE_CLUSTER_SHARD_TEST_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "node/cluster/shard/shard.h"

/* What this shard holds of a vnode. */
struct probe_vnode {
    enum shard_role role;
    struct term term;       /* the newest known */
    struct term state;      /* the term that wrote what is held here */
    uint64_t seq;           /* and how far */
    struct term base_state; /* DECIDING: what its term was opened on */
    uint64_t base_seq;
    uint32_t slots;
    uint8_t replicas;  /* of the whole replica set, this node included if it is one */
    uint8_t confirmed; /* DECIDING: other replicas known to hold everything up to a mark */
    bool catching_up;  /* RECOVERING: fetches a better state */
    bool synced;       /* DECIDING: every other replica holds everything up to now */
};

/* What is compared after every event. */
struct probe_brief {
    struct term term;
    uint64_t seq; /* of a leader */
    uint8_t role; /* enum shard_role */
};

/* The first of the vnodes `from`, `from + step` ... below `end` that is recovering, or of which the
 * role, the term or, of a leader, the seq is not as in `known` (by vnode); `end` or more if there
 * is none. */
uint32_t probe_differs(const struct shard *shard, uint32_t from, uint32_t step, uint32_t end,
                       const struct probe_brief *known);
/* Requests that pools have lent to here. */
uint64_t probe_lent(const struct shard *shard);
/* As shard_stats tells, for who asks after each event. */
uint64_t probe_clock_refused(const struct shard *shard);
/* The vnode, of so many, whose leader owns the pool of that id. */
uint32_t probe_pool_vnode(uint32_t pool, uint32_t vnodes);
/* How far what is held of a vnode is; for decisions, the same as probe_vnode tells. */
uint64_t probe_seq(const struct shard *shard, uint32_t vnode);
void probe_vnode(const struct shard *shard, uint32_t vnode, struct probe_vnode *out);
/* What of a key's tokens this shard holds, which others count. */
struct probe_lease_cache {
    uint64_t lease; /* 0: it has none */
    uint64_t left;
    int64_t until_ns; /* by the shard's clock: from then on nothing is taken of it */
    uint64_t home;    /* the region that counts them, 0: this one */
};

void probe_lease_cache(const struct shard *shard, struct hash128 id, struct probe_lease_cache *out);
/* Of a key that another region counts: what this one counts by a share of it (REMOTE-4). */
struct hash128 probe_local_id(struct hash128 id);
/* The region that counts keys of the vnode whose rule of scope global names none. */
uint64_t probe_home(const struct shard *shard, uint32_t vnode);
/* Whether slot `id` may be on disk though not in memory, as far as the shard knows. */
bool probe_spilled(const struct shard *shard, uint32_t vnode, struct hash128 id);
/* The exported state of slot `id`: its length, 0 if it is not in memory, or TG_ETOOBIG. */
MUST_USE int probe_slot(const struct shard *shard, struct hash128 id, void *out, size_t capacity);

#endif
