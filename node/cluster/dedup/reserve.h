/* reserve.h - what parts of requests were granted, so that it can be given back exactly.
 *
 * A request that meets rules with keys of different nodes is decided in parts, each charged at
 * once; if one denies, the others are undone. The leader of a part remembers what it answered, as
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
 * RESERVE-1  What is given back was charged, and is given back once: only a known reservation is
 *            undone, and it is not known any more, or smaller, afterwards. So an undo may be
 *            repeated at will.
 * RESERVE-2  What another attempt at the same request was told of as well stays for that one.
 * RESERVE-3  An undo acts for its own attempt alone: one that was never told of a grant undoes
 *            nothing.
 * RESERVE-4  What is not known any more (too long ago, no room) stays charged until it drains.
 * RESERVE-5  An undo may come before its charge was decided, which waits for the disk or a term. It
 *            leaves word, and the charge is not made: nobody waits for it any more.
 * RESERVE-6  When deciding is passed on in order, what is known of the vnode goes along: the newest
 *            RESERVE_TRANSFER_MAX of its reservations, each once. Who opens a term on a state that
 *            contains them owns them from then on (reserve_opened); any that are of another state
 *            are forgotten, so that what a successor has undone is not known any more when deciding
 *            comes back. Of a charge that a reset may have taken since, it is told that there is
 *            nothing to give back; and who takes the others counts resets from then on.
 *
 * RESERVE-7  A place with marks is in the chain of its vnode, once; its marks were written.
 *
 *     places   vnode 7: newest <-> older <-> ...        one chain a vnode, of those with marks
 */
#ifndef NODE_CLUSTER_DEDUP_RESERVE_H
#define NODE_CLUSTER_DEDUP_RESERVE_H

#include "node/cluster/dedup/retry.h"
#include "node/cluster/model/term.h"
#include "node/limit/engine/engine.h"

#define RESERVE_NONE UINT32_MAX

enum {
    RESERVE_MARKS_PER_SET = 8,
    RESERVE_TRANSFER_MAX = 4096, /* reservations of a vnode that go along when it is passed on */
};
/* How long a reservation is known: while its request may wait for other parts, and be undone. */
#define RESERVE_KEEP_NS INT64_C(15000000000)

/* A part that was granted something. */
struct reservation {
    uint32_t vnode;
    struct term term;               /* of the vnode, in which it was charged or taken over */
    uint64_t seq;                   /* of the vnode when that was done, or later */
    uint64_t granted;               /* tokens of each limit that are still charged */
    uint16_t fold;                  /* of the limits' slots: reserve_fold */
    uint8_t count;                  /* limits; 0: where the charges are is not known */
    const struct limit_mark *marks; /* [count]; valid until the next reserve_note */
};

struct reserve_place {
    uint64_t first; /* of its marks: how many were written before */
    struct term term;
    uint64_t seq;
    uint32_t vnode; /* whose chain it is in, RESERVE_NONE */
    uint32_t newer; /* in the chain */
    uint32_t older;
    uint16_t fold;
    uint8_t count;
};

struct reserve {
    struct retry_memory answers;
    struct reserve_place *places; /* [answers.sets * RETRY_WAYS], beside its entries */
    struct limit_mark *marks;     /* a ring */
    uint32_t marks_max;           /* a power of two */
    uint64_t marks_end;           /* marks ever written */
    uint32_t *heads;              /* [vnodes]: the newest place of the chain */
    uint32_t vnodes;
};

/* What an undo may do. */
enum reserve_hold {
    RESERVE_UNKNOWN, /* nothing: RESERVE-1, RESERVE-3, RESERVE-4 */
    RESERVE_SHARED,  /* nothing now: RESERVE-2 */
    RESERVE_ALONE,   /* give back what is not to be kept */
};

/* `sets` is a power of two; `vnodes` of all planes. 0 or TG_ENOMEM; then reserve_fini is still to
 * be called. */
MUST_USE int reserve_init(struct reserve *reserve, const struct allocator *allocator,
                          const struct hash_key *key, uint32_t sets, uint32_t vnodes);
void reserve_fini(struct reserve *reserve);
/* Under which key a part of a request is remembered: by what it charges, `id` being the first slot,
 * and not by its number, for rules may have changed when the request is repeated. */
struct retry_key reserve_key(const struct retry_key *key, struct hash128 id);
/* Under which key the word of an undo is left: beside the part's answer, by attempt. */
struct retry_key reserve_word(const struct retry_key *key, uint16_t attempt);
/* What tells whether an undo is about the same slots, in the same order, as the charge was. */
uint16_t reserve_fold(const struct hash128 *ids, uint32_t count);
/* Notes the answer to a part, which `attempt` is told. `marks` NULL: it is not known where the
 * charges are, and they will not be undone. */
void reserve_note(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                  bool allowed, uint8_t limit_index, int64_t now_ns,
                  const struct reservation *what);
/* Notes an answer that another leader gave; where its charges are is not known. */
void reserve_learn(struct reserve *reserve, const struct retry_memory_entry *entry, int64_t now_ns);
/* What an undo of `attempt` may do; except for UNKNOWN, the reservation. */
enum reserve_hold reserve_find(const struct reserve *reserve, const struct retry_key *key,
                               uint16_t attempt, int64_t now_ns, struct reservation *out);
/* RESERVE-5: an undo of `attempt` met nothing that is known. `key` is that of reserve_key, undo or
 * not. */
void reserve_call_off(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                      int64_t now_ns);
/* Whether that was so: what the attempt still has waiting is not to be charged. */
bool reserve_called_off(const struct reserve *reserve, const struct retry_key *key,
                        uint16_t attempt, int64_t now_ns);
/* The undo was done, and `keep` tokens stay. */
void reserve_undone(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                    uint64_t keep, int64_t now_ns);

/* ---- RESERVE-6
 * -------------------------------------------------------------------------------------- */

/* The newest reservation of the vnode that can be undone, from place *at on, which moves on;
 * reserve_first is where to begin. `resets`: engine_resets of the vnode. False: there is none. */
uint32_t reserve_first(const struct reserve *reserve, uint32_t vnode);
bool reserve_next(const struct reserve *reserve, uint32_t *at, uint32_t resets, int64_t now_ns,
                  struct peer_reservation *out);
/* Notes what another leader knows of a charge, made in its term `term` or before; `resets` as
 * above, of this node's table. */
void reserve_take(struct reserve *reserve, uint32_t vnode, const struct term *term,
                  const struct peer_reservation *what, uint32_t resets, int64_t now_ns);
/* `term` was opened on the state that (base, base_seq) wrote: what is of that state is of this term
 * now, but that time may have changed it elsewhere; all else of the vnode is forgotten. */
void reserve_opened(struct reserve *reserve, uint32_t vnode, const struct term *base,
                    uint64_t base_seq, const struct term *term);

/* Asserts what is said of chains above. */
void reserve_check_invariants(const struct reserve *reserve);

#endif
