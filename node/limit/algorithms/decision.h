/* decision.h - one request to a limit, in words of flags, and what is decided of it.
 *
 * The engine, which asks, and the algorithms, which decide, share these words.
 */
#ifndef NODE_LIMIT_ALGORITHMS_DECISION_H
#define NODE_LIMIT_ALGORITHMS_DECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/limit.h"

/* Flags of a row. */
enum limit_flag {
    LIMIT_AT_MOST = 1,      /* take what there is, up to cost; `granted` says how many */
    LIMIT_LOADED = 2,       /* the disk was asked: a key absent from the table is new */
    LIMIT_COUNT_DENIED = 4, /* a denied check is charged all the same, as a hit would be */
    LIMIT_HOLD = 8,         /* about tokens of the limit that are held: below */
    LIMIT_OLDER = 16,       /* by rules that newer ones have replaced: ALGORITHM-7 */
    LIMIT_MARK = 32,        /* the row's mark is to name what is charged */
    LIMIT_UNDO = 64,        /* a refund of that charge and of no other: what the row's mark names;
                             * a cancel in the step of its reserve: nothing is remembered */
};

/* Tokens of a leasable limit can be held (leased.c): with LIMIT_HOLD, and `leases` naming the
 * lease, a LEASE takes `cost` tokens out of the limit (AT_MOST: up to so many, and half of what is
 * left), a RELEASE ends it, of which `cost` tokens were used in all, and a RENEW lets its time
 * begin anew for those that are not, stating the same. A PEEK tells what a LEASE would get. In the
 * decision `granted` is what is held, of a RELEASE what has come back, and delay_ns is how long the
 * lease lasts, counted from before it was asked for.
 *
 * Likewise a RESERVE takes `cost` tokens out, for as long as the row's ttl says: an estimate. A
 * COMMIT charges what was really used, `cost`, which may be less or more, and gives the rest back;
 * a CANCEL gives all of it back. What nobody settles in time is given back by itself; a COMMIT of
 * it then is a hit. Settled is settled: whatever comes later under the id changes nothing, for at
 * least LIMIT_SETTLED_NS, while fewer than HOLDERS_MAX are remembered. A CANCEL with a cost is the
 * undo of a request that was denied elsewhere: a late RESERVE of that id gets nothing, a COMMIT is
 * a hit. In the decision `granted` is what is reserved, what was charged, what came back. */
#define LIMIT_SETTLED_NS INT64_C(30000000000)
#define LIMIT_LEASE_NS   INT64_C(1000000000)
/* So much later it ends for who decides: clocks of nodes differ. */
#define LIMIT_LEASE_SLACK_NS INT64_C(100000000)

/* Why no lease of the limit is given, as the end of a sentence; NULL if one is. */
const char *limit_lease_refusal(const struct limit *limit);

enum limit_status {
    LIMIT_DECIDED = 0,
    LIMIT_ABSENT = 1,  /* the key may be on disk: load it, then ask again with LIMIT_LOADED */
    LIMIT_NO_ROOM = 2, /* no room for the key, or no more for new ones of its class: on_failure */
};

/* What more there is to say of a decision. */
enum limit_note {
    LIMIT_SOFT = 1, /* allowed above the limit, which is a soft one */
    LIMIT_HELD = 2, /* tokens of the limit are held: a release may make room at any time */
};

#define LIMIT_RETRY_NEVER (-1) /* this cost can never be admitted */

/* Names one charge on one key, so that it can be given back exactly (LIMIT_UNDO): never what others
 * were granted, nor what time has given back already. What is in it is the algorithm's business.
 * Whoever undoes a charge twice gives back twice: that it is done once is the caller's part. */
struct limit_mark {
    uint64_t place; /* where in the state the charge is */
    uint64_t given; /* what had been given back before, on keys like this one */
    int64_t at_ns;  /* when it was made */
    uint32_t part;
    uint32_t resets; /* engine_resets then: behind a reset nothing is left of the charge */
};

/* In `given`: the charge was made in another table. Then `resets` is engine_resets of this one, as
 * of when its slots were those of that table. */
#define LIMIT_GIVEN_UNKNOWN UINT64_MAX
/* In `given`: no charge was made; there is nothing to undo. */
#define LIMIT_GIVEN_NOTHING (UINT64_MAX - 1)

/* One row's decision. `allowed` is the row's own verdict: a group's request is allowed iff all its
 * rows are, and only then was anything taken (COUNT_DENIED apart). The other fields describe the
 * limit after the operation; for a peek, as it is: nothing is consumed. (What of `allowed`,
 * `granted`, `retry_after_ns`, `delay_ns` and `notes` a check of that cost would be told, a peek
 * is.) Of a soft limit, `limit` and `remaining` are about the limit as written: between it and what
 * it may be exceeded by, remaining is 0 and LIMIT_SOFT is set. For a status other than
 * LIMIT_DECIDED nothing was taken in the whole group, and all its rows carry that status; the other
 * fields are then 0. */
struct limit_decision {
    uint8_t status;  /* enum limit_status */
    uint8_t allowed; /* 0 or 1 */
    uint64_t limit;
    uint64_t used; /* above `limit` when in debt */
    uint64_t remaining;
    uint64_t granted;       /* tokens taken (peek: that a check would take); 0 if denied */
    int64_t reset_after_ns; /* until nothing is used any more */
    int64_t retry_after_ns; /* 0 if allowed, else exact; LIMIT_RETRY_NEVER */
    int64_t delay_ns;       /* leaky_bucket, of what is allowed: until its turn; else 0 */
    uint8_t notes;          /* enum limit_note */
};

#endif
