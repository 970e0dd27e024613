/* reserve.h - what parts of requests were granted, so that it can be given back exactly.
 *
 * A request that meets rules with keys of different nodes is decided in parts, each charged at
 * once; if one denies, the others are undone. The decider of a part remembers what it answered, as
 * for any request (retry.h), and beside that where in the limits' states the charge is. An undo
 * names the request and the attempt that it is for, and what is to stay:
 *
 *     part answered ---> noted, with marks --- undo, keep nothing --> given back, forgotten
 *                               |    \-------- undo, keep n --------> the rest is given back
 *                               |
 *                               +-- told to other attempts too: they hold it, it stays
 *
 * The memory is a fixed table beside the one of ordinary answers, so that a flood of those does not
 * push out what may have to be undone. Marks are in a ring; the oldest are overwritten. An undo
 * comes when the slowest part has answered, or the caller's patience is over, and is repeated for a
 * while, so it is kept for longer than ordinary answers.
 *
 * V1  What is given back was charged, and is given back once: only a known reservation is undone,
 *     and it is not known any more, or smaller, afterwards. So an undo may be repeated at will.
 * V2  What another attempt at the same request was told of as well stays for that one.
 * V3  An undo acts for its own attempt alone: one that was never told of a grant undoes nothing.
 * V4  What is not known any more (too long ago, no room) stays charged until it drains.
 * V5  An undo may come before its charge was decided, which waits for the disk or a term. It leaves
 *     word, and the charge is not made: nobody waits for it any more.
 */
#ifndef NODE_CLUSTER_RESERVE_H
#define NODE_CLUSTER_RESERVE_H

#include "node/cluster/retry.h"
#include "node/cluster/term.h"
#include "node/limit/engine.h"

enum { RESERVE_MARKS_PER_SET = 8 };
/* How long a reservation is known: while its request may wait for other parts, and be undone. */
#define RESERVE_KEEP_NS INT64_C(15000000000)

/* A part that was granted something. */
struct reservation {
    struct term term;               /* of the vnode, in which it was charged */
    uint64_t seq;                   /* of the vnode when that was done, or later */
    uint64_t granted;               /* tokens of each limit that are still charged */
    uint8_t count;                  /* limits; 0: where the charges are is not known */
    const struct limit_mark *marks; /* [count]; valid until the next reserve_note */
};

struct reserve_place {
    uint64_t first; /* of its marks: how many were written before */
    struct term term;
    uint64_t seq;
    uint8_t count;
};

struct reserve {
    struct retry_memory answers;
    struct reserve_place *places; /* [answers.sets * RETRY_WAYS], beside its entries */
    struct limit_mark *marks;     /* a ring */
    uint32_t marks_max;           /* a power of two */
    uint64_t marks_end;           /* marks ever written */
};

/* What an undo may do. */
enum reserve_hold {
    RESERVE_UNKNOWN, /* nothing: V1, V3, V4 */
    RESERVE_SHARED,  /* nothing now: V2 */
    RESERVE_ALONE,   /* give back what is not to be kept */
};

/* `sets` is a power of two. 0 or TG_ENOMEM; then reserve_fini is still to be called. */
MUST_USE int reserve_init(struct reserve *reserve, const struct allocator *allocator,
                          const struct hash_key *key, uint32_t sets);
void reserve_fini(struct reserve *reserve);
/* Under which key a part of a request is remembered: by what it charges, `id` being the first slot,
 * and not by its number, for rules may have changed when the request is repeated. */
struct retry_key reserve_key(const struct retry_key *key, struct hash128 id);
/* Notes the answer to a part, which `attempt` is told. `marks` NULL: it is not known where the
 * charges are, and they will not be undone. */
void reserve_note(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                  bool allowed, uint8_t limit_index, int64_t now_ns,
                  const struct reservation *what);
/* What an undo of `attempt` may do; except for UNKNOWN, the reservation. */
enum reserve_hold reserve_find(const struct reserve *reserve, const struct retry_key *key,
                               uint16_t attempt, int64_t now_ns, struct reservation *out);
/* V5: an undo of `attempt` met nothing that is known. `key` is that of reserve_key, undo or not. */
void reserve_call_off(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                      int64_t now_ns);
/* Whether that was so: what the attempt still has waiting is not to be charged. */
bool reserve_called_off(const struct reserve *reserve, const struct retry_key *key,
                        uint16_t attempt, int64_t now_ns);
/* The undo was done, and `keep` tokens stay. */
void reserve_undone(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                    uint64_t keep, int64_t now_ns);

#endif
