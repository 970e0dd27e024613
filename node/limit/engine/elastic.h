/* elastic.h - what one leader lends and measures for elastic limits.
 *
 * A pool is a rate of the whole cluster. Requests inside their limit are admitted anyhow and only
 * counted here; a request above it may borrow, at a rate that the pool's owner has told:
 *
 *      admitted inside the limit ---> elastic_admitted --+
 *      denied by the limit ---------> elastic_lend ------+--> elastic_report (every 100 ms)
 *                                        ^                        |
 *                                        |                        v
 *      elastic_set_level <--------- levels, for 500 ms ----- the pool's owner (pools.c)
 *
 * A key that asks for more than its limit has a second meter here: it is credited weight * level
 * tokens a second, its ceiling allowing, and keeps 200 ms of that at most. What all keys of a pool
 * borrow here is metered once more by a budget, this leader's part of the spare; so however
 * demand changes between two levels, all leaders together never lend more than there was.
 *
 * ELASTIC-1  Without a level that is younger than ELASTIC_LEVEL_NS nothing is lent.
 * ELASTIC-2  In any span d a pool lends here at most budget * (d + ELASTIC_BUDGET_SLACK_NS), the
 *            largest budget of that time, and five tokens, or one request.
 * ELASTIC-3  A key in the table is one that asked for more than its limit in the last
 *            ELASTIC_IDLE_NS.
 * ELASTIC-4  All memory is taken by elastic_new. What there is no room for is not lent to, and
 *            counted.
 * ELASTIC-5  Each key is in the chain of its pool once, linked both ways, and found by the index,
 *            which names no other.
 *
 * Rates are in nanotokens a second (fair_share.h). Pure: the time is an argument. One thread.
 */
#ifndef NODE_LIMIT_ENGINE_ELASTIC_H
#define NODE_LIMIT_ENGINE_ELASTIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/limit.h"
#include "node/limit/engine/fair_share.h"

enum {
    ELASTIC_POOLS_MAX = 64,
    ELASTIC_KEYS_MAX = 16384,
    ELASTIC_BUCKETS = 10, /* of what is measured */
    ELASTIC_SHARES_MAX = LIMIT_CLASSES * FAIR_SHARE_SUMMARY_MAX,
};
#define ELASTIC_BUCKET_NS INT64_C(50000000)
#define ELASTIC_SPAN_NS   (ELASTIC_BUCKETS * ELASTIC_BUCKET_NS) /* rates are over 500 ms */
#define ELASTIC_LEVEL_NS  INT64_C(500000000)
/* Of a rate can be saved up: requests come in bunches, and what is measured of them swings more. */
#define ELASTIC_SLACK_NS        INT64_C(200000000)
#define ELASTIC_BUDGET_SLACK_NS INT64_C(500000000)
/* Until a key, or a pool, of which nothing is heard is forgotten: who asks for a token now and then
 * has to be known when it does again, to be lent what it was credited. */
#define ELASTIC_IDLE_NS INT64_C(10000000000)

/* What the owner of a pool tells a leader. */
struct elastic_level {
    uint64_t level[LIMIT_CLASSES]; /* a key of weight w may borrow w times this */
    uint64_t budget;               /* what all may borrow here */
    uint64_t budget_open;          /* of this, all but those of the first class */
    uint64_t spare;                /* of the pool: no single request may borrow a second's worth */
};

/* What a leader tells the owner of a pool. */
struct elastic_report {
    uint32_t pool;
    uint64_t guaranteed; /* admitted inside limits, a rate */
    uint64_t borrowed;   /* admitted above them, a rate */
    uint32_t count[LIMIT_CLASSES];
    struct fair_share_bin shares[LIMIT_CLASSES]
                                [FAIR_SHARE_SUMMARY_MAX]; /* what keys ask for more */
};

struct elastic_stats {
    uint64_t lent;    /* requests that borrowed */
    uint64_t refused; /* requests above their limit that could not */
    uint64_t no_room; /* of these: neither table had room */
    uint32_t keys;
    uint32_t pools;
};

struct elastic;

MUST_USE int elastic_new(struct elastic **elastic, const struct allocator *allocator);
void elastic_free(struct elastic **elastic);
void elastic_stats(const struct elastic *elastic, struct elastic_stats *stats);

/* A request was admitted inside `limit`, an elastic one. */
void elastic_admitted(struct elastic *elastic, const struct limit *limit, uint64_t cost,
                      int64_t now_ns);

enum elastic_flag {
    ELASTIC_PEEK = 1,    /* what would be lent: nothing is asked for, nor taken */
    ELASTIC_AT_MOST = 2, /* less than `cost`, if there is not so much */
};
/* A request of `cost` (> 0) tokens was denied by `limit` on the key `id`: how many it may borrow,
 * `cost` or 0 but for AT_MOST. They are taken. */
uint64_t elastic_lend(struct elastic *elastic, const struct limit *limit, struct hash128 id,
                      uint64_t cost, unsigned flags, int64_t now_ns);
/* Such a request was denied elsewhere, and is undone: it is no load of the pool. */
void elastic_unadmitted(struct elastic *elastic, const struct limit *limit, uint64_t cost,
                        int64_t now_ns);
/* Tokens that were lent a moment ago are not used after all. */
void elastic_give_back(struct elastic *elastic, const struct limit *limit, struct hash128 id,
                       uint64_t tokens, int64_t now_ns);

/* The owner has spoken. A pool that is not known here is of no concern. */
void elastic_set_level(struct elastic *elastic, uint32_t pool, const struct elastic_level *level,
                       int64_t now_ns);
/* The level in force. False, and none, if there is none (ELASTIC-1). */
bool elastic_level(const struct elastic *elastic, uint32_t pool, int64_t now_ns,
                   struct elastic_level *level);

/* Whether the pool is known here: something of it was admitted or asked for lately. */
bool elastic_knows(const struct elastic *elastic, uint32_t pool);
/* How many places of pools there are: an `index` goes from 0 to below it. */
uint32_t elastic_pools(const struct elastic *elastic);
/* Makes the report of the pool at `index`, and forgets keys and pools that are idle. False if there
 * is none. */
bool elastic_report(struct elastic *elastic, uint32_t index, int64_t now_ns,
                    struct elastic_report *report);
/* Asserts what this file says; O(keys). */
void elastic_check_invariants(const struct elastic *elastic);

#endif
