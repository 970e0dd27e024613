/* allocation.h - who gets what of a key that several regions want more of than there is
 * (allocation.c).
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_LEASE_ALLOCATION_H
#define NODE_CLUSTER_LEASE_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

struct effects;
struct forward;
struct shard;

enum {
    ALLOCATION_WAYS = 4,
    ALLOCATION_MAX = 256,     /* keys that other regions ask for at a time */
    ALLOCATION_CLAIMANTS = 8, /* of a key: the own region, and seven others */
    ALLOCATION_OWN = 0,       /* of the claimants */
    ALLOCATION_PART = 1000,   /* accounts are in thousandths of a token */
    ALLOCATION_SPARED = 8,    /* such a part of what is spare goes with a lease */
};

#define ALLOCATION_IDLE_NS                                                                         \
    INT64_C(1000000000) /* who asks for nothing so long has no part any more */
#define ALLOCATION_WAIT_NS                                                                         \
    INT64_C(20000000)                          /* so long, at least, who is denied is told to wait \
                                                */
#define ALLOCATION_AHEAD_NS INT64_C(400000000) /* for so long others have tokens set aside, */
#define ALLOCATION_SPAN_NS  INT64_C(200000000) /* and this one; own checks are counted over that */

/* A region that asks. */
struct allocation_claimant {
    uint64_t who;  /* the session of its lessee; 0: this region */
    uint64_t rate; /* tokens a second that its callers ask for */
    uint64_t most; /* so many it can use at a time */
    int64_t has;   /* what is set aside for it, or was taken ahead of it (ALLOCATION-3) */
    int64_t asked_ns;
    bool fresh; /* it has not asked for a while */
};

struct allocation_key {
    bool known;
    struct hash128 id; /* of the slot of the first limit */
    uint32_t count;    /* of claimants, ALLOCATION_OWN among them */
    int64_t spare;     /* what nobody needs */
    int64_t looked_ns; /* when it was last seen what is left */
    /* what is asked for here */
    uint64_t asked;
    int64_t since_ns;
    struct allocation_claimant claimants[ALLOCATION_CLAIMANTS];
};

struct allocation {
    struct allocation_key *list; /* [ALLOCATION_MAX], in sets */
    uint32_t busy;               /* of them are known */
    int64_t next_ns;             /* when they are looked at next */
};

int allocation_init(struct shard *shard);
void allocation_fini(struct shard *shard);
#define ALLOCATION_ALL UINT64_MAX
/* As allocation_take of decide.h, where there may be something to share. */
uint64_t allocation_ask(struct shard *shard, const struct forward *forward,
                        struct effects *effects);
void allocation_tick(struct shard *shard);
/* Asserts what allocation.c says of all keys. */
void allocation_check_invariants(const struct shard *shard);

#endif
