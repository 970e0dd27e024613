/* lessee.h - tokens that this shard holds of limits which others decide: for rules with consistency
 * `any` the leader of the key, and for those of scope `global` the region that is its home
 * (lessee.c).
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_LEASE_LESSEE_H
#define NODE_CLUSTER_LEASE_LESSEE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/wire/peer_wire.h"
#include "node/limit/engine/engine.h"

struct effects;
struct pending_check;
struct shard;

enum {
    LESSEE_WAYS = 4,
    LESSEE_MAX = 1024, /* keys whose tokens a shard holds at a time */
    LESSEE_SMALL =
        8, /* global: less than was asked for is scarcity, if that was more than so many */
    LESSEE_FIRST = 8,  /* global: such a part of what a limit can give is asked for at least, */
    LESSEE_GUESS = 32, /* and such a one when there was a lease before */
    LESSEE_HOT = 2,    /* so many checks within a lease's time make it worth one */
    /* In the place of a lease cache, of a part that gives tokens back: it is about none any more.
     */
    LEASE_CACHE_RETURN = UINT16_MAX,
};

static_assert(LESSEE_MAX % LESSEE_WAYS == 0 && LESSEE_MAX < LEASE_CACHE_RETURN, "sets are whole");

#define LESSEE_STEP_NS      INT64_C(20000000)  /* so often they are looked at */
#define LESSEE_PATIENCE_NS  INT64_C(300000000) /* so long an answer is waited for */
#define LESSEE_REST_NS      INT64_C(200000000) /* no lease is asked for after one was refused */
#define LESSEE_DENIAL_NS    INT64_C(250000000) /* so long a denial is believed at most */
#define LESSEE_LATE_NS      INT64_C(100000000) /* so long before its end a lease goes back */
#define LESSEE_SPAN_NS      INT64_C(100000000) /* demand is not believed to be faster than in that */
#define LESSEE_AHEAD_NS     INT64_C(150000000)   /* global: tokens for so long at least, */
#define LESSEE_AHEAD_MAX_NS (LIMIT_LEASE_NS / 2) /* and at most, are asked for */
/* So long an answer of another region is waited for. */
#define LESSEE_REMOTE_NS INT64_C(600000000)

static_assert(LESSEE_LATE_NS > 2 * LESSEE_STEP_NS, "what is not used is noticed in time");
static_assert(2 * LESSEE_LATE_NS < LIMIT_LEASE_NS / 2, "the next lease has time to come before");

/* What callers ask of one key here, and what this shard has of it. */
struct lease_cache {
    bool known;
    struct hash128 id; /* of the slot of the first limit */
    int64_t seen_ns;
    /* asked for since the lease began, or lately */
    int64_t since_ns;
    uint64_t asked;
    uint32_t checks;
    /* global: the same of the lease before, of which so much time had passed */
    uint64_t asked_before;
    int64_t span_before_ns;
    /* the lease */
    uint64_t lease; /* 0: none; what follows is then of one that was used up, if granted is not 0 */
    uint64_t granted;
    uint64_t used;
    int64_t half_ns;  /* from then on it is replaced, or goes back */
    int64_t until_ns; /* from then on nothing is taken of it */
    uint8_t limit_index;
    uint64_t limit;
    int64_t full_ns; /* when the limit was said to be full again */
    /* the next one */
    uint64_t asking; /* the lease that is asked for; 0: none */
    uint64_t asked_for;
    uint64_t need; /* global: the least that a check is waiting for, and did not find */
    bool exact;    /* so much and no less is asked for: a half of what is left was not enough */
    int64_t asking_ns;
    int64_t rest_ns; /* none is asked for before */
    /* a denial */
    int64_t denied_until_ns;
    uint64_t denied_cost; /* checks that are not content with less are denied */
    int64_t denied_retry_ns;
    struct answer denial;
    struct forward forward; /* how the key is asked for */
};

struct lessee {
    struct lease_cache *list; /* [LESSEE_MAX], in sets */
    uint32_t busy;            /* of them have a lease, or ask for one */
    int64_t next_ns;          /* when they are looked at next, if some are */
    uint64_t session;         /* of the leases that this shard asks for: nobody can guess it */
    uint64_t seq;
};

int lessee_init(struct shard *shard);
void lessee_fini(struct shard *shard);
/* Decides a check of a rule with consistency any, all of whose limits give leases: by tokens that
 * are held here, or by what was told of the key. False: its leader is to be asked. */
bool lessee_decide(struct shard *shard, const struct forward *forward, struct answer *answer,
                   struct effects *effects);
enum lessee_verdict {
    LESSEE_DECIDED, /* or denied for want of an answer: unavailable */
    LESSEE_WAIT,    /* tokens are asked for */
    LESSEE_FULL,    /* there is no room for the key */
};
/* The same for a rule of scope global, at who decides the key in this region. `waited`: it was
 * asked before. */
enum lessee_verdict lessee_decide_global(struct shard *shard, const struct forward *forward,
                                         uint16_t attempt, bool waited, struct answer *answer,
                                         struct effects *effects);
/* A check that waited for tokens was told that there are none: so is each copy of it. */
void lessee_denied(struct shard *shard, const struct forward *forward, uint16_t attempt,
                   const struct answer *answer);
/* Gives back what a check of several rules took here, but for what is to stay. */
void lessee_undo(struct shard *shard, const struct forward *forward, struct answer *answer);
/* The leader has answered a part of such a rule. */
void lessee_told(struct shard *shard, const struct pending_check *check);
/* And a part of which a lease cache is the caller. */
void lessee_answered(struct shard *shard, uint32_t part, struct effects *effects);
void lessee_tick(struct shard *shard, struct effects *effects);
/* Gives everything back: this node is about to stop. */
void lessee_close(struct shard *shard, struct effects *effects);
/* What this shard knows and holds of the key, or NULL; for inspect.c. */
const struct lease_cache *lessee_look(const struct shard *shard, struct hash128 id);
struct shard_stats;
/* How many tokens it holds of what other regions count, and of each. */
void lessee_stats(const struct shard *shard, struct shard_stats *out);
void lessee_check_invariants(const struct shard *shard);

#endif
