/* peer_wire.h - what shards of different nodes say to each other, byte by byte.
 *
 * One ZeroMQ frame is a msgpack envelope [1, node, shard, boot, records, channel, reads, wall,
 * seen]; `records` is a bin that holds fixed-layout little-endian records, one after the other, in
 * the order in which they were put. Order matters within a channel: a MARK follows the last SLOT
 * that it stands for. The channel is 1 for bulk copies, 0 for everything else (channel.c). Behind
 * it a frame says what its sender reads (enum peer_reads), and by how much its wall clock is ahead
 * of its cluster time; of one of release 0.1.0, which says neither, both are nothing. `seen` is
 * there for who is not listened to (W2 of skew.h).
 *
 *   record = u8 type | body            (lengths follow from the type, or are given within)
 *
 *   PING      i64 sent_ns | i64 echo_ns | u64 opened | u32 announced | u32 patience_ms |
 *             u64 process | u8 flags        keep-alive; echo of the last one; both >= 0
 *   FORWARD   ticket, retry identity, vnode, operation, limits        a check for the leader
 *             | u16 attempt, if it undoes one | u64 used, if it is about a lease of tokens
 *             | u64 version of the rules, if flag 2 is set: for peers whose PING says they read it
 *             | u16 class, if its operation has the bit 0x40: READS_CLASSES
 *             its operation has the bit 0x80 if it is to be sure (T6 of lessor.c): READS_SURE
 *   ANSWER    u64 ticket | decision                                   its decision
 *   MOVED     u64 ticket | u32 vnode | term                           not decided here
 *   STREAM    u64 stream | u64 seq | u64 boot     this frame's place in the stream to that process
 *   TERM      u32 vnode | term | u32 sync | u8 flags    what follows of it was written in that term
 *   GUARD     u32 vnode | guard             the cuts of the line that the sender's state is on
 *   SIDE      u32 vnode | id | u8 count | count x (u8 kind | term | u64 seq | u32 event |
 *                                           u32 len | bytes):
 *                                           what is remembered of the slot that comes next
 *   SLOT      u32 vnode | id | u32 len | state
 *   CHANGE    u32 vnode | u64 epoch | u64 number | u32 sync | u8 flags | u64 seq | id | u32 len |
 *             state                         what TERM, SLOT and (flag 4) MARK say, in this order:
 *                                           of a term that its sender writes, in the plane of
 *                                           `one`; for peers whose PING says they read it
 *   MARK      vnode entry: up to seq everything of the vnode has been sent in this sync
 *   HELD      vnode entry: that mark was taken      LACK    vnode entry: not all of that sync came
 *   ACK       u64 stream | u64 seq | u8 flags     1: begin the stream anew, 2: the bulk channel's
 *   STALE     vnode entry: you wrote in an old term; this is the newest I know
 *   QUERY     vnode entry: which state do you hold?       REPORT    vnode entry: this one
 *   PULL      vnode entry: stream me that state           PASS      vnode entry: decide from now on
 *   OPENED    vnode entry: I decide in this term
 *   APART     u32 vnode | term to | term state | u64 seq | u32 sync | guard
 *                                           what follows is a branch, for the leader of term `to`
 *   DIVERGED  as SLOT: a state of that branch
 *   DIVERGED_END  vnode entry: all of the branch was sent in this sync
 *   MERGED    vnode entry: all of that sync is merged and held, or (asks) send it again
 *
 *   EXPLAIN   u64 ticket | u8 count | count x (u8 allowed | u64 limit | u64 used | u64 remaining |
 *                                           i64 reset_after_ns | i64 retry_after_ns):
 *                                           what the part met, ahead of its ANSWER
 *   POOL_REPORT  u32 pool | u64 guaranteed | u64 borrowed | u32 load_ppm | u32 load_ms |
 *             3 x u16 count | counts x (u32 weight | u64 ask)     for the pool's owner (pools.h)
 *   POOL_LEVEL  u32 pool | 3 x u64 level | u64 budget | u64 budget_open | u64 spare |
 *             u64 guaranteed | u64 borrowed | u32 load_ppm        what it answers
 *
 *   RESERVED  u32 vnode | term | term line | u64 tag | u32 age_ms | u8 limit_index | u8 claims |
 *             u8 count | count x u16 name | u64 granted | u64 seq | u16 fold | u8 count |
 *             count x (u64 place | i64 at_ns | u32 part | u8 flags)
 *                                           ahead of a PASS: a charge that may have to be undone
 *                                           (reserve.h); for peers whose PING says they read it
 *
 *   FORWARD_GLOBAL  u64 home | u32 wait_ms | as FORWARD: of a rule that another region counts, for
 *                                           the leader in the sender's region (remote_regions.h)
 *
 * Between regions, in frames that hold nothing else (but EXPLAIN, ahead of an REMOTE_ANSWER):
 *
 *   REMOTE_PING    i64 sent_ns | i64 echo_ns        one of both is 0: it asks, or it answers
 *   REMOTE_ASK     u64 home | as FORWARD            to be decided in that region, the receiver's
 *   REMOTE_ANSWER  as ANSWER
 *   REMOTE_POOL_REPORT  u64 home | u64 node | u16 shard | i64 sent_ns | as POOL_REPORT: of a whole
 *             region, by that shard, for the pool's owner in the home; within that region, too: who
 *             was told passes it on
 *   REMOTE_POOL_LEVEL  i64 echo_ns | as POOL_LEVEL: to that shard; the time of its newest report
 *
 *   FIRSTS    u32 vnode | u16 len | so many bytes of (u8 flags | u8 limit_index | u64 tag |
 *             u32 granted | u16 age_ms | u16 attempt | u32 seq, if flag 4 is set)
 *                                           behind a SLOT or CHANGE, or ahead of a MARK: answers
 *                                           that it counts (firsts.h); for who says READS_FIRSTS
 *
 *   guard  = u8 flags | u8 count | count x (term | u64 seq)
 *
 * Decoding is by pulling: peer_next gives one record after the other as views into the frame; every
 * length is checked before a byte is read, and a malformed frame ends the iteration with an error.
 */
#ifndef NODE_CLUSTER_WIRE_PEER_WIRE_H
#define NODE_CLUSTER_WIRE_PEER_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limit.h"
#include "node/cluster/model/guard.h"
#include "node/cluster/model/side_blob.h"
#include "node/cluster/model/term.h"
#include "node/limit/engine/elastic.h"

enum {
    PEER_VERSION = 1,
    PEER_FRAME_MAX = 1 << 20,
    PEER_ENVELOPE_MAX = 56,
    PEER_LIMITS_MAX = 8, /* of one forwarded check: one rule's limits */
    PEER_WAIT_MAX_MS = 10000,
    PEER_LOAD_MAX = 1000000, /* millionths */
    PEER_SHARE_LEN = 12,
    PEER_REPORT_MAX = 64 + ELASTIC_SHARES_MAX * PEER_SHARE_LEN, /* of either kind */
};

enum peer_record_type {
    PEER_PING = 1,
    PEER_FORWARD,
    PEER_ANSWER,
    PEER_MOVED,
    PEER_STREAM,
    PEER_TERM,
    PEER_SLOT,
    PEER_MARK,
    PEER_ACK,
    PEER_STALE,
    PEER_QUERY,
    PEER_REPORT,
    PEER_PULL,
    PEER_PASS,
    PEER_OPENED,
    PEER_HELD,
    PEER_LACK,
    PEER_GUARD,
    PEER_SIDE,
    PEER_APART,
    PEER_DIVERGED,
    PEER_DIVERGED_END,
    PEER_MERGED,
    PEER_EXPLAIN,
    PEER_POOL_REPORT,
    PEER_POOL_LEVEL,
    PEER_RESERVED,
    PEER_FORWARD_GLOBAL,
    PEER_REMOTE_PING,
    PEER_REMOTE_ASK,
    PEER_REMOTE_ANSWER,
    PEER_CHANGE,
    PEER_REMOTE_POOL_REPORT,
    PEER_REMOTE_POOL_LEVEL,
    PEER_FIRSTS,
    PEER_TYPE_END
};

/* What a peer may be sent. */
enum peer_reads {
    READS_SURE = 1, /* forwards that are to be sure */
    READS_FIRSTS = 2,
    READS_CLASSES = 4, /* the class of new keys in a forward */
    READS_ALL = READS_SURE | READS_FIRSTS | READS_CLASSES,
};

/* Who sent a frame, and since when it runs (`boot` is higher with every start of the process). */
struct peer_envelope {
    uint64_t node;
    uint16_t shard;
    uint64_t boot;
    bool bulk;       /* on the channel of bulk copies */
    uint8_t reads;   /* enum peer_reads: what the sender does, beyond release 0.1.0 */
    int64_t wall_ns; /* its wall clock minus its cluster time; 0 of release 0.1.0 */
    int64_t seen_ns; /* the newest sent_ns that it read of whom it does not listen to, 0: it does */
    const uint8_t *records;
    size_t len;
};

/* A retry is recognised by the caller's session and sequence, the item and the part of it. */
struct retry_key {
    uint64_t session;
    uint64_t seq;
    uint16_t item;
    uint8_t part; /* with RETRY_UNDO: gives back what that part was granted */
};

enum {
    RETRY_UNDO = 0x80,
    RETRY_LOCAL = 0x40,     /* its home is out of reach: A4 of remote_regions.c */
    RETRY_ATTEMPTS_MAX = 4, /* that a memory of answers knows by name */
};

/* The first three are the engine's own (enum limit_flag of node/limit/engine/engine.h). */
enum forward_flags {
    FORWARD_AT_MOST = 1, /* take what there is, up to cost */
    FORWARD_LOADED = 2,  /* the leader asked its disk; in a record: a version of rules follows */
    FORWARD_COUNT_DENIED = 4, /* a denied request consumes as well */
    FORWARD_RETRY = 8,        /* may have been decided before: look into the retry memory */
    FORWARD_STAND_IN = 16,    /* decide in place of those who cannot be reached; stand_in.c */
    FORWARD_SEVERAL = 32,     /* one of several parts of a request: it may have to be undone */
    FORWARD_HOLD = 64,        /* lease, release or renewal of tokens; lessor.h */
    FORWARD_EXPLAIN = 128,    /* tell the state of every limit as well; explain.h */
};

/* One part of a request: all limits of one rule (or the inline limit) on one key. */
struct forward {
    uint64_t ticket; /* the sender's own reference, given back in the answer */
    struct retry_key retry;
    uint8_t flags;
    uint8_t operation;
    uint8_t limit_count; /* 1 .. PEER_LIMITS_MAX */
    uint16_t class;      /* whose budget of new keys it is of: 0, or 1 + the rule's rank */
    bool sure;           /* what it is granted is told when a majority of the replicas knows it */
    uint16_t attempt; /* of an undo (RETRY_UNDO): the attempt that it is for, as retry.h names it */
    uint32_t vnode;
    uint64_t cost;    /* of an undo: tokens that stay; of a release or renewal: the lease */
    uint64_t used;    /* HOLD: how many tokens of the lease were used, as its holder states; of one
                       * that another region asks for: how many a second its callers want */
    uint64_t rules;   /* the version of the rules that it is asked by; 0: none, or not known */
    uint64_t home;    /* the region that counts it, by policy_region_id; 0: the one it is in */
    uint32_t wait_ms; /* with a home: how long it may wait for that region, and its client does */
    struct hash128 ids[PEER_LIMITS_MAX];
    struct limit limits[PEER_LIMITS_MAX];
};

#define PEER_LOAD_UNKNOWN UINT32_MAX

enum answer_status { ANSWER_DECIDED, ANSWER_BUSY, ANSWER_UNAVAILABLE, ANSWER_STATUS_END };

/* The decision of one part: the limit that decided it (index into the part's limits). */
struct answer {
    uint8_t status; /* enum answer_status */
    bool allowed;
    bool degraded; /* not confirmed by a majority of the vnode's replicas */
    bool soft;     /* allowed above a limit, which may be exceeded so far */
    bool borrowed; /* allowed above a limit, of what a pool can spare */
    bool held;     /* tokens of the limit are held elsewhere */
    bool full;     /* BUSY: there is no room for the key; `granted` is what was asked for */
    uint8_t limit_index;
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    uint64_t granted;
    int64_t reset_after_ns;
    int64_t retry_after_ns; /* -1: never */
    int64_t delay_ns;       /* HOLD: how long the lease lasts */
};

/* One limit as a part met it. */
struct peer_state {
    bool allowed;
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    int64_t reset_after_ns;
    int64_t retry_after_ns; /* -1: never */
};

enum peer_role { ROLE_ABSENT, ROLE_REPLICA, ROLE_RECOVERING, ROLE_LEADING, ROLE_PASSING, ROLE_END };

/* The common body of MARK, HELD, LACK, STALE, QUERY, REPORT, PULL, PASS, OPENED, DIVERGED_END and
 * MERGED. */
struct peer_vnode {
    uint32_t vnode;
    uint8_t role;      /* enum peer_role; REPORT only */
    struct term term;  /* the newest term known */
    struct term state; /* the term that wrote the state held */
    uint64_t seq;      /* how far that state goes */
    uint32_t sync;     /* MARK, HELD, LACK, DIVERGED_END, MERGED: the sending that it belongs to;
                        * PASS: how many RESERVED of the vnode went ahead of it */
    bool beyond;       /* REPORT: parts of a newer state are held as well */
    bool asks;         /* MARK: answer with HELD; MERGED: again; QUERY: do not wait for me */
    uint8_t flags;     /* enum peer_vnode_flag */
};

/* What the records of the plane of quorum say beside (quorum.c, quorum_ballot.c); BOUND in both. */
enum peer_vnode_flag {
    ENTRY_BALLOT = 4,  /* QUERY: promise `term`, which the sender wants to open; REPORT: it does */
    ENTRY_INVITED = 8, /* QUERY: the leader itself wants it so */
    ENTRY_BOUND = 16,  /* REPORT: a leader lives, as far as the sender knows */
    /* MARK: a majority of the newest replicas holds the vnode. Its `term` has the epoch of the
     * configuration for which that is true; `state` is the term of what was sent. */
    ENTRY_SETTLED = 32,
    ENTRY_PROMISED = 64, /* REPORT: `term` is promised, and the promise is durable */
    ENTRY_OPEN = 128,    /* `term` was opened: its writer has told the sender, or is the sender */
    /* In the other plane; PASS: leases of tokens may be out that the sender does not know. */
    ENTRY_LEARNS = 4,
};

/* A keep-alive. Beside time it carries how many terms its sender has opened, so that the receiver
 * knows whether an OPENED of them is missing. */
struct peer_ping {
    int64_t sent_ns;
    int64_t echo_ns;
    uint64_t opened;      /* terms opened by the sender since its start */
    uint32_t announced;   /* OPENED records of the announcement that this ping ends */
    bool announces;       /* ends an announcement of all vnodes that the sender decides */
    bool asks;            /* wants one: it lacks some */
    uint32_t patience_ms; /* its sender does not depose the receiver within this after an echo */
    bool resigning;       /* stops soon: pass it nothing */
    uint64_t process;     /* a name of the process that it is for, as far as its sender knows */
    bool deaf;            /* has not heard that process for nearly so long */
    bool reserves;        /* its sender reads RESERVED */
    bool leases;          /* and slots with leases of tokens, and forwards about them */
    bool changes;         /* and CHANGE */
    bool versions;        /* and FORWARD with the version of its rules */
};

/* Where the charge of one limit is (struct limit_mark, as far as another node can use it). */
struct peer_mark {
    uint64_t place;
    int64_t at_ns;
    uint32_t part;
    bool nothing; /* none was made */
};

/* What a leader remembers of a part that it granted, and may have to give back. */
struct peer_reservation {
    uint64_t tag; /* names the part, in the memory of every node (retry.c) */
    uint32_t age_ms;
    uint8_t limit_index;
    uint8_t claims;
    uint8_t attempts; /* <= RETRY_ATTEMPTS_MAX */
    uint16_t names[RETRY_ATTEMPTS_MAX];
    uint64_t granted;
    uint64_t seq;
    uint16_t fold; /* of the limits' slots */
    uint8_t count; /* 1 .. PEER_LIMITS_MAX */
    struct peer_mark marks[PEER_LIMITS_MAX];
};

enum { PEER_FIRST_LEN = 18, PEER_FIRST_SEQ_LEN = 4 };

enum peer_first_flag {
    FIRST_ALLOWED = 1,
    FIRST_SEVERAL = 2,   /* of one of several parts of a request */
    FIRST_SEQ = 4,       /* on the wire: its seq is told, as in the plane of quorum */
    FIRST_BACK = 8,      /* what it granted was given back: it is no answer any more */
    FIRST_REPORTED = 16, /* on the wire: ahead of a REPORT of the state that its receiver holds */
    FIRST_VOID = 128,    /* in memory: the state does not count it (firsts.h) */
};

/* A first answer. */
struct peer_first {
    uint64_t tag; /* names the request, in the memory of every node (retry.c) */
    uint32_t granted;
    uint32_t seq;
    uint16_t age_ms;
    uint16_t attempt;
    uint8_t limit_index;
    uint8_t flags; /* enum peer_first_flag */
};

/* Answers of one vnode. They are read by peer_first_next. */
struct peer_firsts {
    uint32_t vnode;
    struct bytes_reader bytes;
};

/* A branch that is handed over: whose it is, and how it descends. */
struct peer_apart {
    uint32_t vnode;
    struct term to;    /* for the leader of this term */
    struct term state; /* the term that the branch was decided in */
    uint64_t seq;      /* how far it goes */
    uint32_t sync;     /* names this sending of it */
    struct guard guard;
};

/* What is remembered of a slot; side_table.h. The blobs are read by peer_side_next. */
struct peer_side {
    uint32_t vnode;
    struct hash128 id;
    uint8_t count;
    struct bytes_reader blobs;
};

/* Whose report it is that a region tells a pool's home. */
struct peer_pool_origin {
    uint64_t home; /* by policy_region_id; 0: none, it is a leader's */
    uint64_t node;
    uint16_t shard;
    int64_t sent_ns; /* by its own clock */
};

/* What a leader tells a pool's owner. The shares are read by peer_share_next, class by class. */
struct peer_pool_report {
    struct peer_pool_origin origin;
    uint32_t pool;
    uint64_t guaranteed; /* a rate, as all that follows: fair_share.h */
    uint64_t borrowed;
    uint32_t load_ppm; /* as the protected service says, ... */
    uint32_t load_ms;  /* ... valid for so long; 0: nothing is said */
    uint16_t count[LIMIT_CLASSES];
    struct bytes_reader shares;
};

/* What the owner tells in return, and how the pool is doing. */
struct peer_pool_level {
    uint32_t pool;
    struct elastic_level level;
    uint64_t guaranteed;
    uint64_t borrowed;
    uint32_t load_ppm; /* PEER_LOAD_UNKNOWN: none */
    int64_t echo_ns;   /* when the region sent what this answers; 0: it is for a leader */
};

/* In which term what follows of a vnode was written. */
struct peer_written {
    uint32_t vnode;
    struct term term;
    uint32_t sync;
    bool copy;   /* the sync is a complete copy: what is not in it is no more */
    bool begins; /* nothing of the sync was sent before */
};

struct peer_slot {
    uint32_t vnode;
    struct hash128 id;
    uint32_t len;
    const uint8_t *state;
};

/* A TERM, a SLOT and perhaps a MARK of one vnode. The term's writer is not told: it is the sender
 * of the frame. */
struct peer_change {
    struct peer_written term;
    struct peer_slot slot;
    bool marks;
    uint64_t seq; /* of the MARK */
};

struct peer_record {
    enum peer_record_type type;
    union {
        struct peer_ping ping;
        struct forward forward;
        struct {
            uint64_t ticket;
            struct answer answer;
        } answer;
        struct {
            uint64_t ticket;
            uint32_t vnode;
            struct term term;
        } moved;
        struct {
            int64_t sent_ns;
            int64_t echo_ns;
        } remote_ping;
        struct {
            uint64_t stream;
            uint64_t seq;
            uint64_t boot; /* STREAM */
            bool resync;   /* ACK */
            bool bulk;     /* ACK: of which channel */
        } stream;
        struct peer_written term;
        struct {
            uint32_t vnode;
            struct guard guard;
        } guard;
        struct peer_apart apart;
        struct peer_side side;
        struct peer_firsts firsts;
        struct peer_pool_report pool_report;
        struct peer_pool_level pool_level;
        struct peer_slot slot;
        struct peer_change change;
        struct peer_vnode vnode;
        struct {
            uint64_t ticket;
            uint8_t count; /* 1 .. PEER_LIMITS_MAX */
            struct peer_state states[PEER_LIMITS_MAX];
        } explain;
        struct {
            uint32_t vnode;
            struct term term; /* in which the sender decides */
            struct term line; /* under which it remembers answers (decide.c) */
            struct peer_reservation what;
        } reserved;
    };
};

/* Upper bound of the bytes of one record without a slot's state. */
enum { PEER_RECORD_MAX = 84 + PEER_LIMITS_MAX * 69, PEER_RESERVED_MAX = 96 + PEER_LIMITS_MAX * 21 };

void peer_put_ping(struct bytes_writer *writer, const struct peer_ping *ping);
/* As FORWARD, or as FORWARD_GLOBAL if it has a home. */
void peer_put_forward(struct bytes_writer *writer, const struct forward *forward);
void peer_put_remote_ping(struct bytes_writer *writer, int64_t sent_ns, int64_t echo_ns);
void peer_put_remote_ask(struct bytes_writer *writer, const struct forward *forward);
void peer_put_remote_answer(struct bytes_writer *writer, uint64_t ticket,
                            const struct answer *answer);
void peer_put_answer(struct bytes_writer *writer, uint64_t ticket, const struct answer *answer);
void peer_put_explain(struct bytes_writer *writer, uint64_t ticket, const struct peer_state *states,
                      uint32_t count);
void peer_put_reserved(struct bytes_writer *writer, uint32_t vnode, const struct term *term,
                       const struct term *line, const struct peer_reservation *what);
void peer_put_moved(struct bytes_writer *writer, uint64_t ticket, uint32_t vnode,
                    const struct term *term);
void peer_put_stream(struct bytes_writer *writer, uint64_t stream, uint64_t seq, uint64_t boot);
void peer_put_ack(struct bytes_writer *writer, uint64_t stream, uint64_t seq, bool resync,
                  bool bulk);
void peer_put_term(struct bytes_writer *writer, uint32_t vnode, const struct term *term,
                   uint32_t sync, bool copy, bool begins);
void peer_put_guard(struct bytes_writer *writer, uint32_t vnode, const struct guard *guard);
void peer_put_apart(struct bytes_writer *writer, const struct peer_apart *apart);
/* A SIDE record is begun, and its blobs follow one by one: `count` of them. */
void peer_put_side(struct bytes_writer *writer, uint32_t vnode, struct hash128 id, uint8_t count);
void peer_put_blob(struct bytes_writer *writer, const struct side_blob *blob, const uint8_t *bytes);
/* A FIRSTS record is begun, and its answers follow one by one. Returns where it lies, for
 * peer_end_firsts, which notes how long it is by then. */
size_t peer_put_firsts(struct bytes_writer *writer, uint32_t vnode);
void peer_end_firsts(struct bytes_writer *writer, size_t at);
void peer_put_first(struct bytes_writer *writer, const struct peer_first *first);
/* The next answer of a FIRSTS record that peer_next gave; false at the end. */
bool peer_first_next(struct bytes_reader *bytes, struct peer_first *first);
/* The next blob of a SIDE record that peer_next gave; false at the end. */
bool peer_side_next(struct bytes_reader *blobs, struct side_blob *blob, const uint8_t **bytes);
void peer_put_slot(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                   const uint8_t *state, uint32_t len);
/* Returns where in `writer` it lies, for peer_mark_change. */
size_t peer_put_change(struct bytes_writer *writer, const struct peer_written *term,
                       struct hash128 id, const uint8_t *state, uint32_t len);
/* Has the CHANGE at that place say what a MARK of `seq` behind it would. */
void peer_mark_change(struct bytes_writer *writer, size_t at, uint64_t seq);
void peer_put_diverged(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                       const uint8_t *state, uint32_t len);
/* As POOL_REPORT, or as REMOTE_POOL_REPORT if its origin, which may be NULL, has a home. */
void peer_put_pool_report(struct bytes_writer *writer, const struct peer_pool_origin *origin,
                          const struct elastic_report *report, uint32_t load_ppm, uint32_t load_ms);
/* As POOL_LEVEL, or as REMOTE_POOL_LEVEL if it is an echo. */
void peer_put_pool_level(struct bytes_writer *writer, const struct peer_pool_level *level);
/* The next share of either report that peer_next gave; false at the end. */
bool peer_share_next(struct bytes_reader *shares, struct fair_share_bin *share);
/* `type` is one of those whose body is a vnode entry. */
void peer_put_vnode(struct bytes_writer *writer, enum peer_record_type type,
                    const struct peer_vnode *entry);

/* Wraps `records` into a frame at `out`; returns its length, or TG_ETOOBIG. */
MUST_USE int peer_encode(const struct peer_envelope *envelope, void *out, size_t capacity);
/* Opens a frame. TG_EPROTOCOL, TG_EVERSION or TG_ETOOBIG; then nothing may be used. */
MUST_USE int peer_decode(const void *frame, size_t len, struct peer_envelope *envelope);
/* Whether the record says what one of `type` does: it is one, or a CHANGE with that part. */
bool peer_says(const struct peer_record *record, enum peer_record_type type);
/* What a record that replicates is about, for who wants to look ahead. */
struct peer_glance {
    uint32_t vnode;
    bool slot; /* it is a SLOT or a CHANGE, of `id` */
    struct hash128 id;
};
/* Passes over the next record if it is a TERM, SLOT, CHANGE or MARK; false, and nothing is passed
 * over, if it is another one or malformed, or there is none. */
bool peer_glance(struct bytes_reader *reader, uint32_t vnodes, struct peer_glance *glance);
/* The next record: 1, 0 at the end, TG_EPROTOCOL for anything malformed or out of range
 * (`vnodes` bounds vnode numbers). */
MUST_USE int peer_next(struct bytes_reader *reader, uint32_t vnodes, struct peer_record *record);

#endif
