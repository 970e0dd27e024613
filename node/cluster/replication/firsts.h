/* firsts.h - first answers that replicas know: so that a caller who asks again when a leader has
 * died is not charged twice.
 *
 * A leader remembers what it answered (retry.h). What it granted is in a slot, which goes to the
 * replicas; the answer goes with it, in the same frame, and each keeps it for as long as a caller
 * may ask again. Whoever decides next finds it when the request comes again.
 *
 *     decided --> ring of the leader --SLOT, FIRSTS--> ring of a replica --took over--> asked
 * again? retry memory                                                           found there
 *
 * One ring a shard holds what was answered here and what others told, in the order of noting. What
 * was answered here knows the one before it of its vnode, until links have sent it. What else has
 * to be found - by tag when a request comes again, by vnode when a copy is due - is strung together
 * only then, from where that was last done: mostly nobody asks. As the oldest are overwritten
 * first, a chain ends where the ring does, and nothing is ever taken out.
 *
 *     own[vnode] --> newest --> older --> ... --> overwritten: the end
 *
 * FIRSTS-1  Of each slot that a replica takes it has the answers to what the slot counts, for two
 *           seconds: they are in the frame that the slot is in, or in an earlier one. A complete
 *           copy brings all that its sender has, and who has just started and holds the same of its
 *           disk is told them beside the report that says so.
 * FIRSTS-2  In the plane of quorum an answer is believed only by who decides on a state that counts
 *           it: what is of another term, or later than that state goes, is void (QUORUM-6).
 * FIRSTS-3  All is bounded: so many are noted a millisecond (FIRSTS_A_MS, with a burst of
 *           FIRSTS_BURST), and the ring has a length. What was not noted, was overwritten while it
 *           was young, or is void is counted as lost: then a request that is asked again may be
 *           charged again.
 * FIRSTS-4  What was given back since, when another part of its request was denied, is no answer
 *           any more, and that is told in the same way, whatever else there is to be told. Once
 *           given back it stays so, whoever still tells the answer.
 * FIRSTS-5  Answers are told in the order in which they were noted: the newest of a request counts.
 *
 * What was denied, and charged nothing, is not told: asked again it is decided afresh.
 */
#ifndef NODE_CLUSTER_REPLICATION_FIRSTS_H
#define NODE_CLUSTER_REPLICATION_FIRSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "node/cluster/model/term.h"
#include "node/cluster/wire/peer_wire.h"

struct effects;
struct retry_memory_entry;
struct shard;

enum {
    FIRSTS_A_MS = 20,      /* answers that are noted in the long run */
    FIRSTS_BURST = 8192,   /* and at once: two messages of the most items */
    FIRSTS_PUT_MAX = 4096, /* that go with one slot */
};

/* One answer; what it says is that of retry.h. */
struct first {
    uint64_t tag;
    uint32_t vnode;
    uint32_t granted;
    uint32_t at_ms;
    uint32_t seq;    /* FIRSTS-2: low bits of the vnode's, when it was given or later */
    uint32_t term;   /* FIRSTS-2: a hash of the term that counts it */
    uint32_t older;  /* so many places before this one is the next of own[vnode]; 0: none */
    uint32_t next;   /* and of all[vnode], */
    uint32_t behind; /* and of its bucket */
    uint16_t attempt;
    uint8_t limit_index;
    uint8_t flags; /* enum peer_first_flag */
};

struct firsts {
    struct first *list; /* [max], a ring */
    uint64_t *own;      /* [vnodes]: the newest that was given here, 0 = none */
    uint64_t *all;      /* [vnodes]: the newest of those before `strung` */
    uint64_t *buckets;  /* [bucket_count]: the same */
    uint64_t *due;      /* [FIRSTS_PUT_MAX + 1], scratch: what is told now, the newest first */
    uint64_t strung;
    uint64_t end; /* the number of the next; the first is 1 */
    uint32_t max;
    uint32_t bucket_count; /* a power of two */
    uint32_t vnodes;       /* of both planes */
    uint32_t budget;       /* so many may be noted before time passes */
    int64_t budget_ns;     /* when it was filled last */
    uint64_t lost;
};

MUST_USE int firsts_init(struct shard *shard);
void firsts_fini(struct shard *shard);

/* An answer was given that charged something; `tag` is that of its plain key (retry_tag). */
void firsts_note(struct shard *shard, uint32_t vnode, uint64_t tag, uint16_t attempt,
                 uint8_t limit_index, uint64_t granted, uint8_t flags);
/* FIRSTS-4: what was granted was given back, but for what is left of it; NULL: nothing is. */
void firsts_undone(struct shard *shard, uint32_t vnode, uint64_t tag,
                   const struct retry_memory_entry *left);
/* If the answer to `plain` is known of that vnode: has the memory of the shard, of requests of one
 * part or of `several`, remember it under `key`, and returns true. */
bool firsts_recall(struct shard *shard, uint32_t vnode, const struct retry_key *plain,
                   const struct retry_key *key, bool several);

/* ---- to replicas ----------------------------------------------------------------------------- */

/* Room for what firsts_put would put now. */
size_t firsts_room(struct shard *shard, uint32_t vnode, uint32_t link);
/* Puts what the link's replica was not told yet, behind a record that says whose it is. */
void firsts_put(struct shard *shard, uint32_t vnode, uint32_t link, struct bytes_writer *outbox);
/* All that is known is to be told to the link again / nothing of what is known now. */
void firsts_restart(struct shard *shard, uint32_t vnode, uint32_t link);
void firsts_skip(struct shard *shard, uint32_t vnode, uint32_t link);
/* Beside a report: a process that has just started and holds the same state of its disk is told the
 * answers to what that counts. */
void firsts_report(struct shard *shard, uint16_t peer, const struct peer_vnode *asked,
                   struct effects *effects);
/* What another says, of what that term wrote; `reported`: that alone which goes with reports. */
void firsts_take(struct shard *shard, uint32_t vnode, const struct peer_firsts *told,
                 const struct term *written, bool reported);

/* ---- FIRSTS-2
 * -------------------------------------------------------------------------------------- */

/* `term` was opened on the state that (base, base_seq) wrote. */
void firsts_opened(struct shard *shard, uint32_t vnode, const struct term *base, uint64_t base_seq,
                   const struct term *term);
/* A mark was taken of the first state of `term`: by a complete copy, or by what (was, was_seq)
 * wrote and is held here. */
void firsts_marked(struct shard *shard, uint32_t vnode, const struct term *was, uint64_t was_seq,
                   const struct term *term, bool copy);

#endif
