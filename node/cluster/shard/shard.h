/* shard.h - one shard of a node: the checks of some vnodes decided, forwarded and replicated.
 *
 * A shard is a pure state machine: what happened goes in (with the time), what is to be done
 * comes out as effects. The runtime gives each shard a thread and sockets; the simulator gives it
 * virtual time and a faulty network. Both run this code.
 *
 *   client frame --> shard_client -->  decisions, forwards
 *   peer frame   --> shard_peer   -->  answers, acks, take-overs
 *   time         --> shard_tick   -->  keep-alives, replication, retries, time-outs
 *
 * Vnode v of a node with n shards belongs to shard v % n. A shard treats the other shards of its
 * own node as it treats those of other nodes.
 *
 * One thread calls all functions of one shard. Every call may append to `effects`; the caller
 * carries them out, in order, and clears the buffer before the next call. `now_ns` is the node's
 * clock: Unix time that never goes back.
 */
#ifndef NODE_CLUSTER_SHARD_SHARD_H
#define NODE_CLUSTER_SHARD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "node/cluster/admission/pools.h"
#include "node/cluster/model/busiest.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/model/lag.h"
#include "node/cluster/model/term.h"
#include "node/cluster/model/view.h"
#include "node/cluster/shard/shard_stats.h"
#include "node/policy/model/policy.h"

enum {
    SHARD_PEERS_MAX = 2048,
    SHARD_PENDING_MAX = 16384,     /* parts of requests that wait for a peer, a load or a term */
    SHARD_ADMIN_TOKENS_MAX = 1024, /* msgpack tokens of an ADMIN frame, here and in control */
    SHARD_REQUESTS_MAX = 8192,     /* client messages that wait */
    SHARD_ROW_BLOCKS_MAX = 2048    /* x SHARD_ROW_BLOCK items of waiting client messages */
};

struct shard_options {
    uint64_t node_id;
    uint64_t boot;        /* higher with every start of the process, and never twice the same */
    uint64_t incarnation; /* of the node, higher with every start; part of the terms it opens */
    uint16_t shard;
    uint16_t shards;
    uint32_t vnodes;
    uint64_t memory_bytes; /* of the slot table */
    bool ephemeral;        /* no disk: nothing is written, spilled or loaded */
    struct hash_key secret;
    struct hash_key route_key;
    uint8_t cluster_id[16];
    char name[VIEW_TEXT_LEN];
    char version[VIEW_TEXT_LEN];
    int64_t silence_ns;    /* a peer not heard for this long counts as gone; default 100 ms */
    int64_t lease_ns;      /* a leader pauses when a live replica's last echo is older; 70 ms */
    int64_t keepalive_ns;  /* default 10 ms */
    int64_t idle_ns;       /* the same of a shard that has nothing to do; default 25 ms */
    int64_t idle_after_ns; /* without a client's message or a peer's record; default 200 ms */
    int64_t replicate_ns;  /* dirty slots leave at most this late; default 2 ms */
    int64_t flush_ns;      /* from the end of a write-back to the next; default 500 ms */
    uint64_t turn_work;    /* steps of finding rules in a turn (RESOLVE-4); 5,000,000 */
    int64_t grace_ns;      /* after start: how long unheard peers are waited for; default 1 s */
    uint64_t handoff_rate; /* bytes of complete copies sent in a second, at most; default 64 MiB */
    uint32_t retry_sets;   /* of the retry memory, a power of two; default RETRY_SETS */
    uint32_t frames_max;   /* in flight on one channel; default, and at most, CHANNEL_FRAMES_MAX */
};

struct shard;

void shard_options_default(struct shard_options *options);

/* Creates a shard that owns nothing yet; give it its stored state (shard_restore), then a view.
 * Takes all memory it will need. 0, TG_ENOMEM or TG_EINVALID. */
MUST_USE int shard_new(const struct allocator *allocator, const struct shard_options *options,
                       int64_t now_ns, struct shard **out);
void shard_free(struct shard **shard);

/* ---- what was stored, before the first view ---------------------------------------------- */

/* One stored record of `vnode`. Malformed ones are TG_ECORRUPT; one that no longer fits in memory
 * is only noted in the filter, to be loaded on demand. */
MUST_USE int shard_restore_slot(struct shard *shard, uint32_t vnode, struct hash128 id,
                                const uint8_t *state, size_t len, int64_t now_ns);
/* Which state the records of `vnode` are. */
void shard_restore_vnode(struct shard *shard, uint32_t vnode, const struct term *state,
                         uint64_t seq);

/* The highest term that was promised for `vnode`, one of the second plane; the rest of what the
 * journal holds comes by the two functions above. */
void shard_restore_promise(struct shard *shard, uint32_t vnode, const struct term *promised);

/* ---- events -------------------------------------------------------------------------------- */

/* A frame from client connection `connection`. Anything malformed is answered with an ERROR. */
void shard_client(struct shard *shard, int64_t now_ns, uint64_t connection, const void *frame,
                  size_t len, struct effects *effects);
/* One that came when more waits already than can be decided soon: a CHECKS is answered with an
 * ERROR `busy` and counted, none of it is decided; anything else is answered as by shard_client. */
void shard_refuse(struct shard *shard, int64_t now_ns, uint64_t connection, const void *frame,
                  size_t len, struct effects *effects);
/* A frame from a peer. Malformed ones are counted and dropped. */
void shard_peer(struct shard *shard, int64_t now_ns, const void *frame, size_t len,
                struct effects *effects);
/* The connection to shard `peer_shard` of `node` was closed by the other side. `refused`: its host
 * refuses to make a new one, so the process is gone: evidence at once, else only when its lease is
 * over. */
void shard_peer_closed(struct shard *shard, int64_t now_ns, uint64_t node, uint16_t peer_shard,
                       bool refused, struct effects *effects);
/* A new view; borrowed until the next one is given. */
void shard_view(struct shard *shard, int64_t now_ns, const struct view *view,
                struct effects *effects);
/* New rules; borrowed until shard_policy_unused tells that an older one may go. */
void shard_policy(struct shard *shard, const struct policy *policy);
/* The cluster's, by which keys become places. */
struct hash_key shard_secret(const struct shard *shard);
/* The rules in force. */
const struct policy *shard_policy_now(const struct shard *shard);
/* An older policy that no waiting request refers to any more, or NULL. Ask after each tick. */
const struct policy *shard_policy_unused(struct shard *shard);
struct usage_tally;
/* What the shard has counted of people and API keys since this was asked last, for an empty tally,
 * which is its own from now on; NULL, before and after: nothing is counted. */
struct usage_tally *shard_usage(struct shard *shard, struct usage_tally *empty);
/* At the end, when no event follows: the next policy it still holds, NULL when there is none. */
const struct policy *shard_policy_take(struct shard *shard);
/* The answer to EFFECT_LOAD: 0 with the state, TG_ENOTFOUND, or another error. */
void shard_loaded(struct shard *shard, int64_t now_ns, uint32_t vnode, struct hash128 id,
                  int result, const uint8_t *state, size_t len, struct effects *effects);
/* A piece of the answer to EFFECT_LIST: `count` ids, each stored id of `vnode` in one of the pieces
 * (expired ones may be left out). `last` ends the answer, and so does a `result` other than 0;
 * every EFFECT_LIST has exactly one such end. The disk is read after the effect was given. */
void shard_listed(struct shard *shard, int64_t now_ns, uint32_t vnode, const struct hash128 *ids,
                  size_t count, bool last, int result);
/* Time passed, or a burst of input ended: sends what has gathered, retries, times out. */
void shard_tick(struct shard *shard, int64_t now_ns, struct effects *effects);
/* Frames of peers have arrived that this shard was not given yet: nobody is silent meanwhile. */
void shard_unread(struct shard *shard, int64_t now_ns);

/* This node's wall clock minus its cluster time, to be told to others. */
void shard_wall(struct shard *shard, int64_t wall_ns);
/* What peers' keep-alives have said of their clocks since the last look, at most `capacity`;
 * returns how many. */
uint32_t shard_clocks(struct shard *shard, struct cluster_time_sample *out, uint32_t capacity);
/* When shard_tick is due next. */
int64_t shard_next_deadline(const struct shard *shard);

/* ---- write-back ---------------------------------------------------------------------------- */

/* One record to be written; the bytes lie in the caller's buffer. */
struct shard_write {
    uint32_t vnode;
    struct hash128 id;
    uint64_t expires_ms;
    uint32_t offset;
    uint32_t len;
};

struct shard_write_header {
    uint32_t vnode;
    bool fell; /* the claim that is stored is void: no slot of this batch may be stored under it */
    struct term state;
    uint64_t seq;
};

/* A batch of dirty slots for the storage writer, gathered into caller memory: writes as they come,
 * each slot once; headers by ascending vnode. */
struct shard_writes {
    struct shard_write *writes;
    uint32_t count;
    uint32_t capacity;
    struct shard_write_header *headers; /* capacity: number of vnodes */
    uint32_t header_count;
    uint8_t *bytes;
    size_t bytes_len;
    size_t bytes_capacity;
    uint32_t effort; /* slots that a call finds, orders or copies, about; 0: as many as it likes */
};

/* True when the flush interval has passed (or memory presses) and something is dirty. */
bool shard_write_due(const struct shard *shard, int64_t now_ns);
/* Whether the disk has no room for keys that it does not have: then none is added that outlasts a
 * flush interval. */
void shard_close(struct shard *shard, bool closed);
/* Goes on with write-back: gathers the next batch, or (count 0) does a part of that. What is in
 * `out` by then stays there for the next call, which may have another effort. A batch's slots stay
 * protected from eviction until shard_written. Only one may be out at a time. */
void shard_gather(struct shard *shard, int64_t now_ns, struct shard_writes *out);
/* The outcome of the batch gathered last: false makes its slots dirty again. */
void shard_written(struct shard *shard, int64_t now_ns, bool ok);
/* Asks for everything dirty to be written as soon as possible (for an orderly stop). True when
 * nothing is dirty any more. */
bool shard_flushed(struct shard *shard);

/* ---- the journal: what consistency `quorum` may not forget ---------------------------------- */

/* Vnode numbers of a shard are those of the ring, 0 .. V - 1, and V + v: the second plane of ring
 * vnode v, whose keys are those of rules with consistency `quorum`. What has a number of V or more
 * lives in the journal alone: EFFECT_LOAD, EFFECT_LIST and EFFECT_DROP_VNODE of such a vnode mean
 * the journal, and shard_gather never gathers its slots. */

enum shard_journal_kind {
    JOURNAL_PROMISE =
        0,              /* this node promised `term`: nothing of a lower one is accepted any more */
    JOURNAL_HEADER = 1, /* with all before it, the slots of the vnode are those of (term, seq) */
    JOURNAL_SLOT = 2,   /* state of `id` */
};

struct shard_journal_record {
    uint32_t vnode;
    uint8_t kind; /* enum shard_journal_kind */
    struct term term;
    uint64_t seq;
    struct hash128 id;
    uint64_t expires_ms;
    uint32_t offset; /* of the state in `bytes` */
    uint32_t len;
};

/* A batch in the caller's memory. capacity >= SHARD_JOURNAL_RECORDS_MIN, bytes_capacity >=
 * SHARD_JOURNAL_BYTES_MIN: with less a batch might never make headway. */
struct shard_journal {
    struct shard_journal_record *records;
    uint32_t count;
    uint32_t capacity;
    uint8_t *bytes;
    size_t bytes_len;
    size_t bytes_capacity;
};

enum { SHARD_JOURNAL_RECORDS_MIN = 64, SHARD_JOURNAL_BYTES_MIN = 1 << 19 };

/* True when something waits for the journal and no batch is out. Ask after every event. */
bool shard_journal_due(const struct shard *shard);
/* Gathers the next batch: all its records are to be written in one transaction, durably. Its slots
 * stay in memory until shard_journaled. Only one batch may be out at a time. */
void shard_journal_gather(struct shard *shard, int64_t now_ns, struct shard_journal *out);
/* The outcome of that batch. What waited for it is released if `ok`; else it is gathered again. */
void shard_journaled(struct shard *shard, int64_t now_ns, bool ok, struct effects *effects);

/* ---- orderly stop -------------------------------------------------------------------------- */

/* Passes deciding to the replicas. When no vnode is decided here any more, or none can be passed on
 * (no live replica), nothing is taken over, and clients are sent to another node (TG_EUNAVAILABLE):
 * so that what is under way comes to an end. True when besides nothing is under way that could
 * leave a charge of a denied request on another node. Call again with each tick. */
bool shard_resign(struct shard *shard, int64_t now_ns, struct effects *effects);

/* ---- what it knows ------------------------------------------------------------------------- */

/* Calls `fn` for each message of a client that waits for its answer, with its connection. */
void shard_each_waiting(const struct shard *shard, void (*fn)(void *context, uint64_t connection),
                        void *context);
/* The highest epoch for which every vnode owned here under the newest configuration has arrived,
 * is decided here and is held by its replicas. */
uint64_t shard_settled_epoch(const struct shard *shard);

void shard_stats(const struct shard *shard, struct shard_stats *out);
/* The newest term known of `vnode` and this node's role for it. */
enum shard_role {
    SHARD_ABSENT,
    SHARD_REPLICA,
    SHARD_RECOVERING,
    SHARD_LEADING,
    SHARD_TRANSFERRING
};
enum shard_role shard_vnode(const struct shard *shard, uint32_t vnode, struct term *term);
/* Asserts the invariants of the whole state; for tests and the simulator. */
void shard_check_invariants(const struct shard *shard);

#endif
