/* pools.h - the pools of elastic limits: what a shard reports of them, and owns.
 *
 *   every shard   POOL_REPORT, each 100 ms  --->  the pool's owner: the leader of the vnode that
 *                 POOL_LEVEL                <---  the pool's name hashes to
 *
 * Like a check, a report goes where the vnode is decided, so a pool has one owner wherever there is
 * one leader, and a new one as soon as there is. Nothing of it is stored or handed over: an owner
 * learns for half a second from the reports that come, in which the levels of a former one expire.
 *
 * That is so in each region. Of a pool of scope global one region is the home, and its owner takes
 * the reports of all regions:
 *
 *   region us   every shard --POOL_REPORT--> us's owner --REMOTE_POOL_REPORT--> any node of eu
 *   region eu, the home                      eu's owner <--REMOTE_POOL_REPORT--+  (a contact)
 *                                            eu's owner --REMOTE_POOL_LEVEL--> us's owner
 *   region us   every shard <--POOL_LEVEL--- us's owner, as soon as that has come
 */
#ifndef NODE_CLUSTER_ADMISSION_POOLS_H
#define NODE_CLUSTER_ADMISSION_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "node/limit/engine/elastic.h"
#include "node/policy/model/policy.h"

struct shard;
struct effects;
struct peer_envelope;
struct peer_pool_report;
struct peer_pool_level;

enum {
    POOLS_REPORTS_MAX = 512, /* reports that an owner keeps, of all its pools */
};
/* So long the home counts what a region last admitted inside its limits, though it has fallen
 * silent: whoever is cut off from the home is not cut off from the service that the pool protects.
 */
#define POOLS_HELD_NS INT64_C(10000000000)
#define POOLS_LOAD_NS INT64_C(3000000000) /* how long a reported load is believed */

/* Who reports on a pool: a leader of this region or, to the home of a global one, the owner of
 * another region. */
struct pool_source {
    uint16_t peer;   /* PEER_NONE: this shard. Of another region: the number of the shard there, */
    uint64_t node;   /* of this node */
    uint64_t region; /* 0: this one */
};

/* The newest report of one source on one pool. */
struct pool_entry {
    struct pool_source source;
    int64_t at_ns;
    int64_t sent_ns; /* of another region: by its owner's clock */
    uint64_t budget; /* and what it was told last */
    struct elastic_report report;
};

/* A pool that is owned here. */
struct pool_owned {
    uint32_t id;   /* 0: free */
    uint64_t home; /* remote_pool_home of it, all the time since */
    int64_t since_ns;
    int64_t lacking_ns; /* when there was no room for a report of it last; 0: never */
    int64_t told_all_ns;
    int64_t told_home_ns;         /* when the home was told last */
    uint64_t near[LIMIT_CLASSES]; /* the levels that the home told last */
    uint32_t load_ppm;            /* the one told last, of all leaders */
    int64_t load_until_ns;        /* 0: none */
};

/* A load that a client told this shard. */
struct pool_load {
    uint32_t id; /* 0: free */
    uint32_t ppm;
    int64_t until_ns;
};

/* How a pool is doing, as its owner says. */
struct shard_pool {
    uint32_t id;
    uint32_t load_ppm; /* PEER_LOAD_UNKNOWN: none */
    uint64_t guaranteed;
    uint64_t borrowed;
    uint64_t level[LIMIT_CLASSES];
    int64_t at_ns;                        /* when it was heard of; 0: not lately */
    char home[POLICY_REGION_LEN_MAX + 1]; /* of a global one, as far as known */
};

struct pools {
    struct elastic *elastic;
    int64_t next_ns;
    int64_t last_ns;            /* when all was told last */
    struct pool_entry *entries; /* [POOLS_REPORTS_MAX] */
    uint32_t entry_count;
    uint64_t reports_dropped;
    struct pool_owned owned[POLICY_POOLS_MAX];
    struct pool_load loads[POLICY_POOLS_MAX];
    struct shard_pool known[POLICY_POOLS_MAX];
    struct elastic_report report;                /* scratch */
    struct fair_share fair_share[LIMIT_CLASSES]; /* scratch */
};

/* 0 or TG_ENOMEM. */
MUST_USE int pools_init(struct shard *shard);
void pools_fini(struct shard *shard);
/* Each 100 ms: tells what was measured to the owners, and levels to leaders. */
void pools_tick(struct shard *shard, struct effects *effects);
void pools_reported(struct shard *shard, uint16_t peer, const struct peer_pool_report *report);
void pools_level(struct shard *shard, uint16_t peer, const struct peer_pool_level *level);
/* What the owner in another region tells the home, from there and as a node of this one passes it
 * on; and what the owner in that region, the home, says. */
void pools_told_remote(struct shard *shard, const struct peer_envelope *envelope,
                       const struct peer_pool_report *report, struct effects *effects);
void pools_reported_remote(struct shard *shard, const struct peer_pool_report *report);
void pools_level_remote(struct shard *shard, uint64_t region, const struct peer_pool_level *level,
                        struct effects *effects);
/* A client says how loaded what the pool, one of the rules, protects is. */
void pools_load(struct shard *shard, uint32_t pool, uint32_t load_ppm);
/* How the pool is doing. False, and zeros, if nothing was heard of it lately. */
bool pools_known(const struct shard *shard, uint32_t pool, struct shard_pool *out);
struct shard_stats;
void pools_stats(const struct shard *shard, struct shard_stats *out);
/* Asserts what pools.c says. */
void pools_check_invariants(const struct shard *shard);

#endif
