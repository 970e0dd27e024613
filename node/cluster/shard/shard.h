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
#include "node/policy/model/policy.h"

enum {
    SHARD_PEERS_MAX = 2048,
    SHARD_HOLDINGS_MAX = 32,       /* regions; of more than these only the sum is told */
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
    uint64_t turn_work;    /* steps of finding rules in a turn (Z4 of resolve.c); 5,000,000 */
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
/* A client says how loaded what the pool of that id protects is, in millionths: believed for three
 * seconds. 0, TG_EINVALID for more than 10^6, TG_ENOTFOUND for a pool that the rules do not have.
 */
MUST_USE int shard_report_load(struct shard *shard, int64_t now_ns, uint32_t pool,
                               uint32_t load_ppm);
/* A new view; borrowed until the next one is given. */
void shard_view(struct shard *shard, int64_t now_ns, const struct view *view,
                struct effects *effects);
/* New rules; borrowed until shard_policy_unused tells that an older one may go. */
void shard_policy(struct shard *shard, const struct policy *policy);
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
    JOURNAL_PROMISE, /* this node promised `term`: nothing of a lower one is accepted any more */
    JOURNAL_HEADER,  /* with all before it, the slots of the vnode are those of (term, seq) */
    JOURNAL_SLOT,    /* state of `id` */
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

/* The highest epoch for which every vnode owned here under the newest configuration has arrived,
 * is decided here and is held by its replicas. */
uint64_t shard_settled_epoch(const struct shard *shard);

/* Of the rules with consistency quorum, and of the vnodes that are kept for them. */
struct shard_quorum_stats {
    uint64_t checks;      /* of shard_stats.checks: decided for such rules */
    uint64_t unavailable; /* refused because no majority could confirm them */
    uint64_t in_doubt;    /* decided, then given up by a change of the leader */
    uint64_t terms;       /* of shard_stats.terms_opened: in the plane of quorum */
    uint64_t uncommitted; /* decisions that wait for a majority, now */
    uint64_t lag_ns;      /* age of the oldest of them, 0 = none */
    uint32_t vnodes;      /* held here of the plane of quorum, 0 = it is not in use */
    uint32_t vnodes_leading;
    uint32_t vnodes_undecided; /* of which this node knows nobody who can decide */
};

/* Of complete copies of vnodes, to and from others. */
struct shard_handoff_stats {
    uint32_t give;    /* vnodes still to be copied or passed to others */
    uint32_t receive; /* vnodes still to be received */
    uint64_t sent;    /* bytes of complete copies, since the start */
    uint64_t received;
    uint64_t rate;   /* bytes a second now, both ways */
    int64_t left_ns; /* estimate until nothing is left; 0: nothing is, -1: not known */
};

/* Tokens of keys that another region counts. */
struct shard_holding {
    uint64_t region; /* by policy_region_id */
    uint64_t tokens;
    uint32_t keys;
};

struct shard_stats {
    int64_t taken_ns;       /* when these figures were true */
    struct busiest busiest; /* which rules answer most */

    /* ---- items, as they are decided */
    uint64_t checks; /* items decided here */
    uint64_t allowed;
    uint64_t denied;
    uint64_t borrowed; /* of `allowed`: above an elastic limit */
    uint64_t withheld; /* checks denied at home for what is set aside for other regions */

    /* ---- on their way, and refused */
    uint64_t forwarded;  /* parts sent to a peer */
    uint64_t resent;     /* sent again, or decided here after all: a new term may charge it twice */
    uint64_t moved;      /* forwards that came to the wrong node */
    uint64_t busy;       /* refused for want of room, those of `shed` included */
    uint64_t unfinished; /* messages whose rules took longer than a turn, each turn */
    uint64_t shed;       /* in messages that were refused unread: too much waited already */
    uint64_t expired;    /* not decided within the client's deadline */
    uint64_t no_address; /* values of addresses, `ip` as a rule, that were none: taken as absent */
    uint64_t stand_ins;  /* parts decided in place of others, who were silent */
    uint64_t explains_dropped; /* messages whose limits were not gathered for want of room */
    uint32_t checks_pending;
    uint64_t bad_frames;
    uint64_t clock_refused;  /* records of peers whose clock has no say */
    uint64_t forged_frames;  /* of a process that cannot be the peer's (P9 of peers.c), and records
                              * whose numbers cannot be what they say (credible.c) */
    uint64_t frames_dropped; /* did not fit in what one step may send */

    /* ---- asked again, and undone */
    uint64_t retries_recalled; /* answered from the retry memory */
    uint64_t retries_dropped;  /* of first answers for who asks again */
    uint64_t retry_lost;       /* of those that replicas are to know: F3 of firsts.h */
    uint64_t several;          /* requests whose rules were decided in several places */
    uint64_t undone;           /* reservations given back, as their leaders acknowledged */
    uint64_t undo_resent;      /* undos sent again, for no acknowledgement came */
    uint64_t undo_lost;        /* reservations that could not be given back in time */
    uint64_t undo_unknown;     /* here as the leader, each once: of nothing that is known. What they
                                * were for stays charged, if it was charged at all */
    uint64_t reserves_dropped; /* of what may have to be undone, for want of room (R1 of retry.h) */

    /* ---- who decides */
    uint64_t takeovers; /* terms opened after a leader's silence */
    uint64_t terms_opened;
    uint64_t stepped_down; /* gave way to a newer term */
    uint64_t stalls;       /* own pauses long enough to be deposed in */
    uint32_t vnodes_leading;
    uint32_t vnodes_replica;
    uint32_t vnodes_recovering;
    uint32_t vnodes_cut_off; /* decided here, and no other replica with a whole copy is in reach */
    uint32_t vnodes_unconfirmed; /* decided here, and no majority of replicas stands behind it */
    uint32_t vnodes_incomplete;  /* decided here, and some replica has no confirmed copy */
    uint32_t peers_left_out;     /* shards of members that this one has no room to know */

    /* ---- replication, and copies */
    uint64_t slots_replicated;
    uint64_t stale_writes; /* replication refused: old term */
    uint64_t resyncs;      /* replication streams started anew */
    uint64_t copies;       /* complete copies of vnodes begun */
    uint64_t slots_copied; /* slots sent in them, once each */
    struct shard_handoff_stats handoff;
    uint64_t unconfirmed; /* changes not yet acknowledged by any replica, now */
    uint64_t over_tokens; /* granted, and known to no other replica, now */
    struct lag lag;       /* from a grant to the first replica's acknowledgement */

    /* ---- after a split */
    uint64_t merges;          /* branches of a split that were merged here */
    uint64_t merged_slots;    /* slots that something was added to */
    uint64_t merge_fallbacks; /* of which the larger of both was taken, or less, for want of room */
    uint64_t handed_over;     /* vnodes of which a branch was handed over */
    uint64_t guarded;         /* slots remembered to be merged with, now */

    /* ---- memory and disk */
    uint64_t slots;
    uint64_t slots_max;
    uint64_t evicted;
    uint64_t forgotten;        /* slots that were given up while their limits lasted: unreadable */
    uint64_t refused;          /* changes, and states of copies, that found no room */
    int64_t turned_away_ns;    /* when one was last, 0: never */
    uint64_t turned_away;      /* of these: new keys that were over the budget of their rule */
    uint64_t uncounted;        /* tokens that on_failure allowed for want of room, not counted */
    uint64_t room;             /* free places for slots, and those of slots that may leave memory */
    uint64_t loads;            /* slots fetched from disk */
    uint64_t loads_missed;     /* of which the disk held nothing */
    uint64_t disk_copies;      /* vnodes of which keys on disk were sent to replicas */
    uint64_t unreadable;       /* damaged slots and listings that copies and merges passed over */
    uint64_t filter_refreshes; /* filters of what is on disk made anew */
    int64_t flush_lag_ns;      /* age of the oldest change that is not on disk, 0 = none */

    /* ---- consistency quorum */
    struct shard_quorum_stats quorum;
    uint64_t journal_batches;
    uint64_t journal_records;
    uint64_t journal_failures; /* batches that could not be written */

    /* ---- leases of tokens */
    uint64_t leases_granted; /* of tokens, told to who asked (of keys that majorities keep: not) */
    uint64_t leases_refused; /* not asked of the limit: for a while, or for want of room */
    uint64_t leases_tokens;  /* that were leased */
    uint64_t leases_back;    /* of them, given back by releases */
    uint64_t leases_untold;  /* granted, and not known to a majority in time: spent */

    /* ---- consistency any */
    uint64_t any_allowed; /* checks of consistency any, by tokens that were held here */
    uint64_t any_denied;  /* and by a denial that was known */
    uint64_t any_leases;  /* leases that their tokens came with */
    uint64_t any_tokens;  /* of these */
    uint64_t any_back;    /* of them went back, not used */

    /* ---- scope global */
    uint64_t global_allowed; /* checks of scope global, by tokens that this region held */
    uint64_t global_denied;  /* and by what it knew of the home */
    uint64_t global_late;    /* of these: no tokens came in time */
    uint64_t global_waited;  /* checks that waited for another region */
    uint64_t global_local;   /* decided by a share, as the home was out of reach */
    uint64_t global_leases;  /* leases that their tokens came with */
    uint64_t global_tokens;  /* of these */
    uint64_t global_back;    /* of them went back, not used */
    uint64_t remote_asked;   /* sent to other regions */
    uint64_t remote_served;  /* asked here by other regions */
    uint64_t global_held;    /* tokens of keys that other regions count, now */
    uint32_t holding_count;  /* regions whose keys' tokens are held here, now */
    struct shard_holding holding[SHARD_HOLDINGS_MAX];

    /* ---- pools */
    uint64_t pools_lent;            /* requests that pools lent to here */
    uint64_t pools_refused;         /* requests above an elastic limit that got nothing */
    uint64_t pools_no_room;         /* of these: for want of room to meter them */
    uint64_t pools_reports_dropped; /* reports that there was no room for: nothing was lent then */
    uint32_t pools_keys;            /* that asked for more than their limit lately */
    uint32_t pool_count;            /* of the rules in force */
    struct shard_pool pools[POLICY_POOLS_MAX]; /* how they are doing */
};

void shard_stats(const struct shard *shard, struct shard_stats *out);
/* The newest term known of `vnode` and this node's role for it. */
enum shard_role { SHARD_ABSENT, SHARD_REPLICA, SHARD_RECOVERING, SHARD_LEADING, SHARD_PASSING };
enum shard_role shard_vnode(const struct shard *shard, uint32_t vnode, struct term *term);
/* Asserts the invariants of the whole state; for tests and the simulator. */
void shard_check_invariants(const struct shard *shard);

#endif
