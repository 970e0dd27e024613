/* peer_records.h - what each kind of record says; peer_wire.h tells the bytes.
 */
#ifndef NODE_CLUSTER_WIRE_PEER_RECORDS_H
#define NODE_CLUSTER_WIRE_PEER_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limit.h"
#include "node/cluster/model/lineage.h"
#include "node/cluster/model/merge_base_blob.h"
#include "node/cluster/model/term.h"
#include "node/cluster/wire/peer_forward.h"
#include "node/cluster/wire/peer_kinds.h"
#include "node/limit/engine/elastic.h"

enum peer_role {
    ROLE_ABSENT = 0,
    ROLE_REPLICA = 1,
    ROLE_RECOVERING = 2,
    ROLE_LEADING = 3,
    ROLE_TRANSFERRING = 4,
    ROLE_END
};

/* The common body of WATERMARK, HELD, LACK, STALE, QUERY, REPORT, PULL, TRANSFER, OPENED,
 * DIVERGED_END and MERGED. */
struct peer_vnode {
    uint32_t vnode;
    uint8_t role;      /* enum peer_role; REPORT only */
    struct term term;  /* the newest term known */
    struct term state; /* the term that wrote the state held */
    uint64_t seq;      /* how far that state goes */
    uint32_t sync; /* WATERMARK, HELD, LACK, DIVERGED_END, MERGED: the sending that it belongs to;
                    * TRANSFER: how many RESERVED of the vnode went ahead of it */
    bool holds_newer; /* REPORT: parts of a newer state are held as well */
    bool asks;        /* WATERMARK: answer with HELD; MERGED: again; QUERY: do not wait for me */
    uint8_t flags;    /* enum peer_vnode_flag */
};

/* What the records of the plane of quorum say beside (quorum.c, quorum_ballot.c); BOUND in both. */
enum peer_vnode_flag {
    ENTRY_BALLOT = 4,  /* QUERY: promise `term`, which the sender wants to open; REPORT: it does */
    ENTRY_INVITED = 8, /* QUERY: the leader itself wants it so */
    ENTRY_BOUND = 16,  /* REPORT: a leader lives, as far as the sender knows */
    /* WATERMARK: a majority of the newest replicas holds the vnode. Its `term` has the epoch of the
     * configuration for which that is true; `state` is the term of what was sent. */
    ENTRY_SETTLED = 32,
    ENTRY_PROMISED = 64, /* REPORT: `term` is promised, and the promise is durable */
    ENTRY_OPEN = 128,    /* `term` was opened: its writer has told the sender, or is the sender */
    /* In the other plane; TRANSFER: leases of tokens may be out that the sender does not know. */
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
    bool cannot_hear_you; /* has not heard that process for nearly so long */
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
    struct lineage lineage;
};

/* What is remembered of a slot; merge_base.h. The blobs are read by peer_merge_base_next. */
struct peer_merge_base {
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

/* A TERM, a SLOT and perhaps a WATERMARK of one vnode. The term's writer is not told: it is the
 * sender of the frame. */
struct peer_change {
    struct peer_written term;
    struct peer_slot slot;
    bool marks;
    uint64_t seq; /* of the WATERMARK */
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
            struct lineage lineage;
        } lineage;
        struct peer_apart apart;
        struct peer_merge_base side;
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

#endif
