/* sim.h - a whole cluster in one process and in virtual time: what the simulator's files share.
 *
 *              +-------------------- queue.c: events by time ---------------------+
 *              |                                                                  |
 *   phase.c, faults.c ---> node.c, shell.c (shipped cores) --> net.c, disk.c -----+
 *                                   |       ^
 *                                   v       |
 *                               check.c   client.c (load, what was admitted)
 *
 * SIM-1  Whatever happens is an event; events of one time happen in the order they were made in.
 * SIM-2  Every choice comes from one of the seeded streams, so a seed is a run, to the bit.
 * SIM-3  No event looks at the host's clock, at an address, or at memory that was not written.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "client/protocol/wire.h"
#include "node/cluster/control/control.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/shard/shard.h"
#include "node/cluster/shard/test_probe.h"
#include "node/runtime/system/clock.h"
#include "tests/sim/coverage.h"
#include "tests/sim/linear.h"
#include "tests/sim/options.h"

#define SIM_MS    ((int64_t)1000000)
#define SIM_SEC   (1000 * SIM_MS)
#define SIM_NEVER INT64_MAX
/* Noon of some day, so that a run of seconds never meets the edge of a day-long window. */
#define SIM_EPOCH ((1700006400 + 12 * 3600) * SIM_SEC)

enum {
    SIM_NODES_MAX = 8, /* of the region that clients ask */
    SIM_REGIONS_MAX = 3,
    SIM_REMOTE = 3, /* of each other one, in phases abroad and global; their numbers follow */
    SIM_ALL_MAX = SIM_NODES_MAX + (SIM_REGIONS_MAX - 1) * SIM_REMOTE,
    SIM_SHARDS_MAX = 2,
    SIM_CLIENTS_MAX = 6,
    SIM_KEYS_MAX = 8192,
    SIM_ITEMS_MAX = 32,
    SIM_CROWD_MAX = 2048, /* items of a message in a crowd */
    SIM_ITEM_KEYS = 3,    /* that one item may count on */
    SIM_VNODES_MAX = 256,
    SIM_PLANES_VNODES = 2 * SIM_VNODES_MAX, /* numbers of both planes, see shard.h */
    SIM_LIMIT = 40,                         /* of every exact key, per 24 hours */
    SIM_EVENTS_MIN = 20000,                 /* a seed is at least this long */
    SIM_DISK_BUCKETS = 64,                  /* of each vnode */
    SIM_SETTINGS_MAX = 4096,                /* versions that are remembered */
    SIM_SETTINGS_NAMES = 5,                 /* records that operators change */
    SIM_EDITS_MAX = 256,
    SIM_METAS_MAX = 256,     /* named values on one disk */
    SIM_POLICIES_MAX = 16,   /* sets of rules in one run */
    SIM_TERMS_MAX = 1 << 15, /* opened in one run */
    SIM_BASES_MAX = 16,      /* keys of a phase whose bases are kept */
    SIM_OFFSET_MAX_MS = 20,  /* by which a wall clock is off, unless it is stepped */
    SIM_BASE_LEN = 1024,
    SIM_TEXT_LEN = 64,
    SIM_PAST_MAX = 4096,  /* ring configurations of a run */
    SIM_FORMERS_MAX = 64, /* disks that a node may lose in one run */
    SIM_WHY_LEN = 4 * SIM_TEXT_LEN,
    SIM_FAILURE_LEN = 512,
};

/* Which part of the run a choice belongs to: adding a choice to one leaves the others alone. */
enum sim_stream {
    STREAM_NETWORK,
    STREAM_FAULTS,
    STREAM_CLIENTS,
    STREAM_DISK,
    STREAM_PLAN,
    STREAM_MID_STEP,
    STREAM_OLD_COUNT, /* how they were numbered first: each seed keeps its meaning */
    STREAM_LENT = STREAM_OLD_COUNT,
    STREAM_SETTINGS,
    STREAM_GLOBAL,
    STREAM_WIDE, /* what was added to phase global */
    STREAM_COUNT
};

enum event_kind {
    EVENT_GOSSIP,       /* frame to the control core of `node` */
    EVENT_PEER,         /* frame to shard `shard` of `node` */
    EVENT_CLIENT,       /* a client's frame to shard `shard` of `node` */
    EVENT_REPLY,        /* frame to client `node` */
    EVENT_CLOSED,       /* shard `lane` of `node` sees its connection to (from, shard) end */
    EVENT_TICK,         /* of shard `shard` */
    EVENT_CONTROL_TICK, /* of the control core */
    EVENT_COMMIT,       /* the batch of shard `shard` is on disk, or failed */
    EVENT_JOURNALED,    /* the journal batch of shard `shard` is on disk, or failed */
    EVENT_LOADED,       /* the disk answers a load of shard `shard` */
    EVENT_LISTED,       /* the disk answers a listing of shard `shard` */
    EVENT_TURN,         /* client `node` may send its next message */
    EVENT_TIMEOUT,      /* client `node` has no answer */
    EVENT_START,        /* the process of `node` starts */
    EVENT_CONNECT,      /* `node` tries to connect lane `lane` to `from` */
    EVENT_BREAK,        /* lane `lane` of `node` to `from` has heard nothing for too long */
    EVENT_PLAN,         /* the phase looks at what comes next */
    EVENT_KIND_END
};

struct event {
    int64_t at_ns;
    uint64_t order; /* SIM-1 */
    enum event_kind kind;
    uint8_t node;
    uint8_t shard;
    uint8_t from;
    uint8_t lane;
    uint64_t tag; /* boot, request, load or connection that it belongs to */
    struct hash128 id;
    uint32_t vnode;
    uint32_t len;
    uint8_t *bytes; /* owned, NULL if none */
};

/* The pending events: a binary heap by (at_ns, order). */
struct queue {
    struct event *items;
    size_t count;
    size_t capacity;
    uint64_t order;
};

/* ---- network ------------------------------------------------------------------------------- */

/* What the network does to frames at present, in parts of a million. */
struct net_faults {
    uint32_t lose_ppm;
    uint32_t repeat_ppm;
    uint32_t late_ppm;
    uint32_t reorder_ppm;
};

enum {
    NET_GOSSIP = 0, /* lane of gossip; then one for each pair of shards, and again for copies */
    NET_LANES = 1 + 2 * SIM_SHARDS_MAX * SIM_SHARDS_MAX,
    NET_QUEUE_MAX = 2000,     /* frames under way on one connection */
    NET_GOSSIP_QUEUE_MAX = 32 /* that wait for a connection */
};

/* One node's connection to another, for one pair of sockets. */
struct net_connection {
    bool up;
    bool connecting;
    uint32_t attempts;   /* to connect, in vain */
    uint64_t number;     /* of the present or the latest connection */
    uint64_t valid_from; /* frames of earlier connections are lost */
    int64_t arrives_ns;  /* of the newest frame: in order unless a fault says otherwise */
    uint32_t under_way;
    struct event *held; /* frames that a split or a missing connection keeps back */
    uint32_t held_count;
    uint32_t held_capacity;
};

struct net_link {
    int64_t delay_ns;  /* at least */
    int64_t jitter_ns; /* and up to this more */
    int64_t slow_ns;   /* and this more while the link is slow */
    int64_t cut_ns;    /* since when nothing passes */
    bool cut;
    struct net_connection lanes[NET_LANES];
};

struct net {
    struct net_faults faults;
    uint32_t deaf_ppm; /* frames between clients and nodes that are lost */
    uint32_t mute_ppm; /* frames between nodes that are lost, of those with forwards or answers */
    struct net_link links[SIM_ALL_MAX][SIM_ALL_MAX];
};

/* ---- disk ---------------------------------------------------------------------------------- */

struct disk_record {
    struct disk_record *next;
    uint32_t vnode;
    struct hash128 id;
    uint32_t len;
    uint8_t state[];
};

/* A batch on its way to the disk. A crash loses it whole. */
struct disk_batch {
    bool out;
    uint32_t count;
    uint32_t header_count;
    struct shard_write *writes;
    struct shard_write_header *headers;
    uint8_t *bytes;
    bool drop[SIM_VNODES_MAX]; /* asked for after the batch was handed over */
};

/* A batch on its way to the journal: durable whole or not at all. */
struct disk_journal {
    bool out;
    uint32_t count;
    struct shard_journal_record *records;
    uint8_t *bytes;
    bool drop[SIM_VNODES_MAX]; /* asked for after the batch was handed over; of the second plane */
};

/* A value that was made durable under a name. */
struct disk_meta {
    char key[SIM_TEXT_LEN];
    uint8_t *bytes;
    size_t len;
};

/* What is durable. */
struct disk_content {
    bool has_identity;
    struct control_identity identity;
    uint64_t incarnation;
    uint32_t meta_count;
    struct disk_meta metas[SIM_METAS_MAX];
    bool has_header[SIM_PLANES_VNODES];
    struct shard_write_header headers[SIM_PLANES_VNODES];
    struct disk_record *buckets[SIM_PLANES_VNODES][SIM_DISK_BUCKETS];
    struct term promises[SIM_PLANES_VNODES]; /* of the second plane; number 0: none */
    uint64_t records;
};

struct disk {
    struct disk_content now;
    struct disk_content *snapshot; /* an old copy, or NULL */
    struct disk_batch batches[SIM_SHARDS_MAX];
    struct shard_writes writes[SIM_SHARDS_MAX]; /* scratch of gathering */
    struct disk_journal journals[SIM_SHARDS_MAX];
    int64_t full_until_ns; /* no commit succeeds before */
};

/* ---- nodes --------------------------------------------------------------------------------- */

struct node {
    uint8_t index;
    uint64_t id;
    uint64_t former_ids[SIM_FORMERS_MAX]; /* before its disks were lost; still sent to */
    uint32_t former_count;
    bool member; /* is to be in the ring */
    bool up;
    bool drains;   /* an operator wants it out of the ring; its next process does not know */
    bool leaves;   /* and it stops for good: it says good-bye before it ends */
    bool stopping; /* in order: it passes on what it decides, and writes what it holds */
    bool closed[SIM_SHARDS_MAX]; /* has passed it all on: listens to nobody any more */
    bool idle[SIM_SHARDS_MAX];   /* and has written it all */
    bool bootstrap;
    uint16_t shard_count;
    int32_t drift_ppb;          /* of its monotonic clock */
    int64_t boot_offset_ns;     /* what that was stepped by */
    int64_t wall_offset_ns;     /* its wall clock minus the true time */
    struct clock_course course; /* the shipped clock */
    int64_t starts_ns, next_adjust_ns;
    int64_t latest_ns; /* of its time, as it was seen */
    bool again;        /* it stops to start again with another time */
    int64_t paused_until_ns;
    uint64_t boots;
    struct control *control;
    struct view *view;
    struct shard *shards[SIM_SHARDS_MAX];
    int64_t tick_at_ns[SIM_SHARDS_MAX];
    int64_t control_tick_at_ns;
    uint64_t settled;
    struct disk disk;
    uint32_t policy;                            /* index of the rules in force here */
    uint64_t epoch;                             /* the newest seen, in all its processes */
    uint64_t ring_epoch;                        /* of the configuration that was looked at last */
    uint64_t settings_version;                  /* that was looked at last, in all its processes */
    uint64_t settings_copied;                   /* complete copies that this process had taken */
    uint64_t settings_seen[SIM_SETTINGS_NAMES]; /* versions of records that it had */
    bool rewound;                               /* an old copy of its disk was restored once */
    struct term ballots[SIM_VNODES_MAX];        /* the latest that it opened, of the second plane */
    struct probe_brief held[SIM_VNODES_MAX];    /* what the process holds, as last seen */
    bool catching_up[SIM_VNODES_MAX];
};

/* ---- clients ------------------------------------------------------------------------------- */

enum key_kind { KEY_EXACT, KEY_RULE, KEY_QUORUM, KEY_LENT, KEY_SEVERAL, KEY_NOISE, KEY_FLIGHT };

/* What the rule of a lent key says of times at which nobody who holds the key can be reached. */
enum lent { LENT_LOCAL, LENT_OPEN, LENT_CLOSED, LENT_NAMED, LENT_COUNT };

struct key {
    char text[SIM_TEXT_LEN];
    enum key_kind kind;
    enum lent lent; /* of KEY_LENT */
    struct limit limit;
    uint32_t vnode;
    struct hash128 id;
    uint64_t attempts;
    uint64_t admitted;
    uint64_t sure;      /* of those: not marked degraded */
    uint64_t failed;    /* checks of several rules that were answered with an error or busy */
    uint64_t uncertain; /* checks that may have been charged though nobody was told */
    uint64_t repeated;  /* checks that were sent again: a change of leader may charge them twice */
    uint64_t used;      /* as told by the latest audit */
    uint64_t at_least;  /* of those, what cannot be a delay of draining (SIMKEYS-5) */
    bool audited;
};

struct client {
    uint8_t index;
    uint64_t session;
    uint64_t seq;
    bool waiting, echoes, brief; /* a message is under way; answered before; with little time */
    bool turn_pending;
    uint32_t tries;
    uint32_t replies;
    int64_t asked_ns; /* when it was sent first */
    uint32_t item_count;
    uint32_t keys[SIM_CROWD_MAX][SIM_ITEM_KEYS]; /* what each item counts on; several for rules */
    uint8_t operations[SIM_CROWD_MAX];
    uint32_t histories[SIM_CROWD_MAX]; /* its place in the history, or HISTORY_NONE */
    uint8_t *frame;
    size_t frame_len;
};

/* Operations on keys that majorities keep. */
struct history {
    struct linear_op *ops;
    uint32_t *keys;
    uint64_t *repeats; /* by nodes, of anything, when it was called */
    uint32_t count;
    uint32_t capacity;
};

/* The keys that a phase hammers: [first, first + count), and then those that majorities keep. */
struct key_set {
    uint32_t first;
    uint32_t count;
};

struct load {
    struct key_set keys;    /* what clients ask for now; none: they stop */
    struct key_set lent;    /* and these beside, of rules that say what if nobody is reached */
    struct key_set several; /* or these instead: a crowd of requests that meet several rules */
    uint32_t audit_next;    /* the next key that is only looked at */
    bool audit;
    uint32_t timeout_ms; /* a message is sent again after this */
};

/* ---- the run ------------------------------------------------------------------------------- */

/* The newest leader of a vnode. */
struct front {
    struct term term;
    uint64_t seq;
    uint64_t lost; /* changes that a newer term did not know of, since the phase began */
};

/* A configuration that was in force somewhere. */
struct ring_past {
    uint32_t region;
    uint64_t epoch;
    uint64_t digest;
};

/* What a key was at a node when it opened a term of the key's vnode; check_merge.c. */
struct merge_base {
    bool seen;
    uint32_t len;
    uint8_t bytes[SIM_BASE_LEN];
};

struct phase;

/* Where the run is; phase.h tells of phases. */
/* How the ring changes in phase shift. */
enum plan_change { PLAN_DEPART, PLAN_REMOVE, PLAN_JOIN, PLAN_CHANGE_END };

struct plan {
    const struct phase *phase;
    uint32_t phase_next; /* in options.phases */
    uint32_t step;
    bool entered;    /* the step was called before */
    int64_t next_ns; /* no step before */
    int64_t entered_ns;
    int64_t patience_ns;
    struct key_set keys;    /* of the phase */
    struct key_set lent;    /* of phase alone */
    struct key_set several; /* of phases apart and orphan */
    uint64_t orphans;       /* parts that the node had which died */
    uint32_t side;          /* nodes that were cut off, a bit each */
    uint8_t victim;
    enum plan_change change;
    uint32_t left;      /* of what the phase does several times */
    uint64_t bound;     /* what may be admitted above the limits */
    uint64_t splits;    /* times at which two leaders may have come to be */
    uint64_t resent;    /* nodes_resent when the phase began */
    uint64_t undo_lost; /* nodes_undo_lost then */
    uint64_t takeovers; /* nodes_takeovers when a step began */
    bool strict;        /* at most one node decides a vnode */
    bool changed;       /* leaders may have changed since the phase began */
    bool done;
};

/* A version of the settings that some node had. */
struct settings_past {
    uint64_t version;
    struct hash128 digest;
    struct register_voters voters;
};

/* An edit that an operator waits for. */
struct settings_asked {
    struct hash128 id;
    uint8_t node;
    uint64_t boots;
};

/* What phase borrow has seen; phase_borrow.c. */
enum { BORROW_SAMPLES = 256, BORROW_POOL_RATE = 200 };

struct borrow_sample {
    int64_t at_ns;
    uint64_t lent;
};

struct borrow {
    uint64_t seq;
    uint64_t seen[SIM_NODES_MAX][SIM_SHARDS_MAX]; /* as its present process counts */
    uint64_t lent;                                /* of all, since the phase began */
    uint32_t count;
    struct borrow_sample samples[BORROW_SAMPLES]; /* the latest */
    int64_t until_ns;
    uint64_t warm_from;
    uint64_t full_from;
};

/* What phase lease has under way; phase_lease.c. */
enum { LEASE_KEYS = 4, LEASE_LIMIT = 5, LEASE_WORKERS = 28 };

struct lease_worker {
    uint8_t state;     /* enum of phase_lease.c */
    uint8_t operation; /* that waits for its answer */
    uint32_t key;      /* 0 .. LEASE_KEYS - 1 */
    uint64_t seq;
    uint64_t lease;
    uint32_t tries;
    int64_t asked_ns;  /* when its message was sent first */
    int64_t resend_ns; /* and when it is sent again */
    int64_t until_ns;  /* it holds its lease for sure until then */
};

struct leases_held {
    struct lease_worker workers[LEASE_WORKERS];
    struct key_set keys;
    uint64_t doubts[LEASE_KEYS];   /* leases that may be taken though nobody has them */
    uint64_t repeated[LEASE_KEYS]; /* so may these be, if leaders changed meanwhile */
    uint64_t unconfirmed;          /* and releases that one side of a split has not heard of */
    uint64_t free[LEASE_KEYS];     /* places of each key, as told when all had released theirs */
    bool looked[LEASE_KEYS];
    bool asking;       /* workers that have no lease ask for one */
    bool leaving;      /* and those that have one release it */
    int64_t mended_ns; /* since when nothing is wrong any more; SIM_NEVER: something may be */
    int64_t until_ns;
};

/* What phase hold has under way; phase_hold.c. */
enum {
    HOLD_KEYS = 6,
    HOLD_WORKERS = 48,
    HOLD_USES = 4096,
    HOLD_LIMIT = 300,
    HOLD_RATE = 40, /* a second */
    HOLD_BURST = 60,
};

struct hold_worker {
    uint8_t state;     /* enum of phase_hold.c */
    uint8_t operation; /* that waits for its answer */
    uint32_t key;      /* 0 .. HOLD_KEYS - 1 */
    uint64_t seq;
    uint64_t lease;
    uint64_t cost;
    uint64_t granted;
    uint64_t used;
    uint64_t stated; /* in the message that is under way */
    uint32_t tries;
    int64_t asked_ns;  /* when its message was sent first */
    int64_t resend_ns; /* and when it is sent again */
    int64_t until_ns;  /* it may use its tokens until then */
};

struct hold_use {
    int64_t from_ns;
    int64_t to_ns;
    uint64_t tokens;
};

struct tokens_held {
    uint32_t name; /* of the phase's keys */
    struct hold_worker workers[HOLD_WORKERS];
    uint64_t admitted[HOLD_KEYS];
    uint64_t charged[HOLD_KEYS]; /* as told when all leases were over */
    uint64_t loose[HOLD_KEYS];   /* of those admitted: said to be degraded */
    uint32_t uses_count[HOLD_KEYS];
    struct hold_use uses[HOLD_KEYS][HOLD_USES]; /* of buckets */
    bool asking;                                /* workers that have no lease ask for one */
    bool leaving;                               /* and those that have one release it */
    bool deadly;                                /* who decides the next lease dies as it is told */
    int64_t until_ns;
};

/* What phase global has under way, and what is followed of its keys; phase_global.c,
 * global_keys.c, global_faults.c, check_global.c. */
enum {
    GLOBAL_KEYS = 12,
    GLOBAL_SHARE = 4, /* the key of which a region that is cut off decides a share, */
    GLOBAL_AJAR = 5,  /* the one that is admitted then, and */
    GLOBAL_DAYS = 6,  /* so many of a day, from 0 on; of these what is left is asked for */
    GLOBAL_PAIR = 10, /* and two of a day that are asked for together */
    GLOBAL_WORKERS = 6 * GLOBAL_KEYS,
    GLOBAL_USES = 4096,
    GLOBAL_LIMIT = 150,        /* of a day */
    GLOBAL_SHARE_PERCENT = 20, /* of that, where a region that is cut off may decide so much */
    GLOBAL_WINDOW_LIMIT = 60,  /* of each window of so many seconds */
    GLOBAL_WINDOW_S = 2,
    GLOBAL_RATE = 40, /* a second */
    GLOBAL_BURST = 60,
    GLOBAL_COST_MAX = 4,        /* of a request */
    GLOBAL_STATE_LEN = 1 << 13, /* of a slot's bytes */
};

/* What rules say of a key at present. */
struct global_rule {
    uint32_t percent; /* of the numbers above */
    uint32_t home;
};

struct global_worker {
    uint8_t state; /* enum of phase_global.c */
    uint8_t operation;
    uint8_t region; /* whose nodes it asks */
    uint32_t key;   /* 0 .. GLOBAL_KEYS - 1 */
    uint64_t seq;
    uint64_t cost;
    uint32_t tries;
    int64_t asked_ns;  /* when its message was sent first */
    int64_t resend_ns; /* and when it is sent again */
};

struct global_use {
    int64_t from_ns;
    int64_t to_ns;
    uint64_t tokens;
};

/* Tokens that a node holds. */
struct global_lease_cache {
    uint64_t lease;
    uint64_t left;
    uint32_t home;    /* who counts them */
    int64_t until_ns; /* true time */
};

enum global_kind {
    GLOBAL_NOTHING,
    GLOBAL_HOME, /* it is the key's home, or was before rules changed */
    GLOBAL_LOCAL /* it decides by a share while it is cut off */
};

/* What the newest leader of a region has counted of a key. */
struct global_count {
    uint8_t kind;
    struct hash128 id;
    struct limit limit;  /* of the rules that are in force, or begin to be; 0: it is no home now */
    struct limit before; /* of those before */
    struct term term;
    uint64_t seq;
    uint32_t len;
    uint8_t state[GLOBAL_STATE_LEN];
    uint64_t sum;                  /* spent and leased, in that state */
    uint64_t counted[SIM_ALL_MAX]; /* what each node counted when it decided last */
    uint64_t forgotten;            /* what newer leaders did not know of */
    uint64_t merged;               /* what was added to that of others */
    bool merging;                  /* in this event */
    uint64_t settled;              /* counted when new rules had been in force for a while, */
    uint64_t most;                 /* and the least since */
};

struct global_key {
    struct hash128 id;
    uint32_t vnode;
    uint32_t home;   /* its region */
    uint32_t silent; /* regions in which nobody asks for it, a bit each */
    struct limit limit;
    bool moved;        /* its home is another one than when the phase began */
    bool strict;       /* the limit alone counts, not the one before */
    int64_t strict_ns; /* from then on; SIM_NEVER: some nodes have not heard of it yet */
    struct global_count counts[SIM_REGIONS_MAX];
    struct global_lease_cache lessee[SIM_ALL_MAX];
    /* what was admitted */
    uint64_t admitted; /* not marked as degraded */
    uint64_t degraded[SIM_REGIONS_MAX];
    uint64_t unsure; /* checks that may have been charged though nobody was told */
    int64_t window;
    uint64_t in_window;
    uint64_t told;   /* what is charged, as its home says */
    uint64_t wanted; /* from when on enough was admitted of what was left */
    uint32_t uses_count;
    struct global_use uses[GLOBAL_USES]; /* of buckets */
};

struct global {
    uint32_t name;      /* of the phase's keys */
    bool watching;      /* the keys are followed */
    bool asking, eager; /* and as often as can be */
    bool calm;          /* nothing has gone wrong, and no message was lost */
    uint32_t ask_ppm;
    uint32_t changes;              /* of rules */
    int64_t rules_ns[SIM_ALL_MAX]; /* when the new ones reach each node */
    int64_t until_ns;
    int64_t doom_ns;                                 /* a region is lost then; 0: none is to be */
    uint32_t doom_region;                            /* that one */
    uint64_t fallbacks[SIM_ALL_MAX][SIM_SHARDS_MAX]; /* as its present process counts */
    uint32_t at_fallback[SIM_REGIONS_MAX];           /* processes that did */
    struct global_worker workers[GLOBAL_WORKERS];
    struct global_key keys[GLOBAL_KEYS];
};

struct sim {
    struct options options;
    const struct allocator *allocator;
    struct random streams[STREAM_COUNT];
    int64_t now_ns; /* true time */
    uint64_t events;
    uint64_t hash; /* of everything that happened */
    struct queue queue;
    struct net net;
    struct effects effects;
    uint32_t node_count; /* of the own region, members or spare */
    uint32_t all_count;  /* remote ones included, whether or not they have ever started */
    struct node nodes[SIM_ALL_MAX];
    uint32_t vnodes;
    struct control_identity identity;
    uint32_t policy_count;
    struct policy *policies[SIM_POLICIES_MAX];
    uint32_t generation; /* of the newest rules */
    uint32_t client_count;
    struct client clients[SIM_CLIENTS_MAX + 1]; /* the last takes what nobody asked for */
    struct wire_checks_builder builder;
    struct wire_decisions_space space;
    uint8_t values[1 << 18];
    uint32_t key_count;
    struct key keys[SIM_KEYS_MAX];
    struct load load;
    struct history history;
    int64_t settings_next_ns;
    uint32_t settings_count, settings_asked_count;
    struct settings_past settings[SIM_SETTINGS_MAX];
    struct settings_asked settings_asked[SIM_EDITS_MAX];
    uint32_t settings_done_count, settings_refused_count; /* told as made, and as not made */
    struct settings_past settings_done[SIM_EDITS_MAX];
    struct hash128 settings_refused[SIM_EDITS_MAX];
    struct borrow borrow;
    struct leases_held leases;
    struct tokens_held tokens;
    struct global_rule global_rules[GLOBAL_KEYS];
    struct global global;
    int64_t clocks_ns;  /* by which some wall clocks are off beyond SIM_OFFSET_MAX_MS */
    bool flooded;       /* tables are full of keys that nobody counts */
    bool stepped, cold; /* clocks differ by more than they should; nobody runs whose is known */
    int64_t ballots_ns[SIM_VNODES_MAX]; /* when one was opened last, of the second plane */
    bool mid_step;                      /* processes may end between two effects */
    bool crash_due;                     /* the node at hand ends with this event */
    uint8_t deciders[SIM_REGIONS_MAX][SIM_VNODES_MAX]; /* a bit for each node that decides */
    struct front fronts[SIM_VNODES_MAX];
    uint8_t acting; /* the node whose event is carried out */
    struct merge_base bases[SIM_NODES_MAX][SIM_BASES_MAX];
    uint32_t openings[SIM_PLANES_VNODES]; /* terms opened since the phase began */
    uint32_t term_count;
    uint64_t terms[SIM_TERMS_MAX]; /* digests of all that were opened, open addressing */
    uint32_t past_count;
    struct ring_past past[SIM_PAST_MAX];
    struct plan plan;
    struct coverage coverage;
    struct shard_journal journal;  /* scratch of gathering */
    char failure[SIM_FAILURE_LEN]; /* set once: why the seed failed */
};

/* ---- sim.c ----------------------------------------------------------------------------------- */

/* How a seed went. */
struct sim_result {
    uint64_t seed;
    uint64_t hash;
    uint64_t events;
    uint32_t phases;
    char failure[SIM_FAILURE_LEN]; /* "" if none */
    struct coverage coverage;
};

void sim_run(const struct options *options, struct sim_result *result);

struct random *sim_stream(struct sim *sim, enum sim_stream stream);
/* True `ppm` times in a million. */
bool sim_chance(struct sim *sim, enum sim_stream stream, uint32_t ppm);
/* Notes why the run failed; the first reason counts. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One line of the trace, if level `level` is wanted. */
void sim_tell(const struct sim *sim, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The name of the phase under way. */
const char *sim_phase(const struct sim *sim);
/* Copies `len` bytes, for an event to own. */
uint8_t *sim_copy(const void *bytes, size_t len);

/* ---- queue.c --------------------------------------------------------------------------------- */

void queue_push(struct queue *queue, const struct event *event);
bool queue_pop(struct queue *queue, struct event *event);
void queue_fini(struct queue *queue);

/* ---- net.c ----------------------------------------------------------------------------------- */

void net_init(struct sim *sim);
void net_fini(struct sim *sim);
/* Sends a frame of shard `from_shard`, between nodes: EVENT_GOSSIP or EVENT_PEER. */
void net_send(struct sim *sim, uint8_t from, uint8_t from_shard, uint8_t to, enum event_kind kind,
              uint8_t shard, bool bulk, const uint8_t *bytes, size_t len);
/* A frame reaches its node: whether it is still there. */
bool net_arrived(struct sim *sim, const struct event *event);
/* Frames between a client and a node. */
void net_ask(struct sim *sim, uint8_t client, uint8_t node, uint8_t shard, const uint8_t *bytes,
             size_t len);
void net_reply(struct sim *sim, uint8_t client, const uint8_t *bytes, size_t len);
/* EVENT_CONNECT and EVENT_BREAK. */
void net_event(struct sim *sim, const struct event *event);
/* The process of the node has ended: its connections end, at once (`told`) or when nothing was
 * heard for too long. */
void net_ended(struct sim *sim, uint8_t node, bool told);
/* A new process listens where an older one did. */
void net_started(struct sim *sim, uint8_t node);
/* Breaks one connection between living nodes; false if there is none. */
bool net_reset(struct sim *sim);
/* Lets nothing pass from the nodes in `side` (a bit each) to the others, nor back unless `one_way`;
 * `at_once` breaks the connections, else they end when nothing was heard for too long. */
void net_cut(struct sim *sim, uint32_t side, bool one_way, bool at_once);
/* The same between two sides alone. */
void net_cut_between(struct sim *sim, uint32_t from, uint32_t to, bool one_way, bool at_once);
/* Lets everything pass again. */
void net_heal(struct sim *sim);

/* ---- settings.c ------------------------------------------------------------------------------ */

/* What operators do now, and what they hear. */
void settings_operate(struct sim *sim);
/* After an event of the node. */
void settings_check(struct sim *sim, struct node *node);
/* Whether all nodes that run have the same settings; then also what has to be in them. */
bool settings_agree(struct sim *sim, char *why);
/* Whether the voters are spread over all regions. */
bool settings_spread(const struct sim *sim, char *why);

/* ---- disk.c ---------------------------------------------------------------------------------- */

/* Makes the value of `key` durable, whatever the key is; bytes NULL removes it. */
void disk_put_meta(struct disk *disk, const char *key, const uint8_t *bytes, size_t len);
/* The value of `key`, an empty one (bytes NULL) if there is none; valid until it is put again. */
struct disk_meta disk_get_meta(const struct disk *disk, const char *key);
/* Puts the values in the order of their keys. */
void disk_sort_metas(struct disk *disk);
void disk_drop(struct sim *sim, struct node *node, uint32_t vnode);
/* Takes a batch from the shard if one is due. */
void disk_gather(struct sim *sim, struct node *node, uint8_t shard);
void disk_commit(struct sim *sim, struct node *node, uint8_t shard);
/* Hands what shard `shard` may not forget to the journal. True if there was nothing to write: then
 * what waited is released, and its effects are in sim->effects. */
bool disk_journal(struct sim *sim, struct node *node, uint8_t shard);
void disk_journaled(struct sim *sim, struct node *node, uint8_t shard);
/* What is durable of a slot, NULL if nothing is. */
const struct disk_record *disk_find(const struct disk *disk, uint32_t vnode, struct hash128 id);
/* Answers a load. */
void disk_loaded(struct sim *sim, struct node *node, const struct event *event);
/* Gives the shard all ids that are stored of `vnode`, in pieces. */
void disk_listed(struct sim *sim, struct node *node, uint8_t shard, uint32_t vnode);
/* Gives the new process of the node what was stored. */
void disk_restore(struct sim *sim, struct node *node, uint8_t shard);
/* All slots are lost, but not who the node is and what it promised: as by a store set aside. */
void disk_wipe(const struct sim *sim, struct disk *disk);
/* Copies what is durable, to be restored later. */
void disk_take_snapshot(struct disk *disk);
/* Puts the old copy in place; false if there is none. */
bool disk_restore_snapshot(struct disk *disk);
/* Batches under way are lost. */
void disk_crash(struct sim *sim, struct node *node);
void disk_fini(struct disk *disk);

/* ---- shell.c --------------------------------------------------------------------------------- */

/* The node's own clock. */
int64_t shell_clock(const struct sim *sim, const struct node *node);
/* Ticks the shard, or the control core, at `at_ns` at the latest. */
void shell_tick_at(struct sim *sim, struct node *node, uint8_t shard, int64_t at_ns);
void shell_control_tick_at(struct sim *sim, struct node *node, int64_t at_ns);
void shell_next_tick(struct sim *sim, struct node *node, uint8_t shard);
/* After an event of a shard (`input`: it brought work), or of the control core. */
void shell_shard_done(struct sim *sim, struct node *node, uint8_t shard, bool input);
void shell_control_done(struct sim *sim, struct node *node);

/* ---- node.c ---------------------------------------------------------------------------------- */

void node_init(struct sim *sim, uint8_t index, uint64_t id);
/* A node of another region, which is as all of them but draws nothing. */
void node_init_remote(struct sim *sim, uint8_t index);
/* Gives all first members the disks of a cluster that was stopped in order. */
void node_form(struct sim *sim);
void node_start(struct sim *sim, struct node *node);
/* Gives the node's control core what its disk has of the settings. */
void node_restore_settings(struct node *node);
void node_start_later(struct sim *sim, uint8_t node, int64_t delay_ns);
/* Starts a shard with what is stored; the node has a cluster. */
void node_start_shard(struct sim *sim, struct node *node, uint8_t shard);
/* The process dies at once; `told` says whether connections are seen to close. */
void node_crash(struct sim *sim, struct node *node, bool told);
/* The node's disk is lost; it will be another node of the same name. */
void node_replace(struct sim *sim, struct node *node);
/* Whether everything that it holds is on its disk. */
bool node_flushed(const struct node *node);
/* Lets it stop in order: `up` is false when it has. */
void node_stop(struct sim *sim, struct node *node);
/* Gives it the newest rules. */
void node_rules(struct sim *sim, struct node *node);
/* Carries out an event of a node. False if it was for nobody any more. */
bool node_event(struct sim *sim, const struct event *event);
void node_fini(struct sim *sim, struct node *node);
/* The unconfirmed changes of all its shards. */
uint64_t node_unconfirmed(const struct node *node);
/* Forwards that nodes sent more than once, since the run began. */
uint64_t nodes_resent(const struct sim *sim);
/* Undos that nodes gave up, and charges that leaders could not give back for want of memory. */
uint64_t nodes_undo_lost(const struct sim *sim);
uint64_t nodes_takeovers(const struct sim *sim); /* vnodes that were taken over */
/* Parts of requests that wait at the node: undos too. */
uint32_t node_parts(const struct node *node);
/* Checks that nodes asked for more than once, or decided without knowing what becomes of it. */
uint64_t nodes_repeated(const struct sim *sim);
int node_by_id(const struct sim *sim, uint64_t id);
/* Which region it is of, 0 .. options.regions - 1; and what nodes call that. */
uint32_t node_region(const struct sim *sim, const struct node *node);
const char *region_name(uint32_t region);
/* The first node of a region; of the one behind the last, the number of all. */
uint32_t region_first(const struct sim *sim, uint32_t region);
/* Its nodes, a bit each. */
uint32_t region_nodes(const struct sim *sim, uint32_t region);
/* Whether the node is of another region than those whom clients ask. */
bool node_remote(const struct sim *sim, const struct node *node);
/* Those in another region, a bit each. */
uint32_t nodes_remote(const struct sim *sim);
uint32_t node_up_count(const struct sim *sim);
uint32_t node_members(const struct sim *sim);
/* Some member that runs; there must be one. */
struct node *node_some_up(struct sim *sim);

/* Addresses of members that a faulty one makes up begin so, and their ids (phase_wild.c). */
#define WILD_ADDRESS "10.9.9."
#define WILD_ID      UINT64_C(0x77696c64)

/* ---- keys.c ---------------------------------------------------------------------------------- */

/* New keys, four times `each` of all algorithms in turn, and the users and addresses of two rules.
 */
struct key_set keys_new(struct sim *sim, const char *name, uint32_t each);
/* Keys of rules that say what is to be done when nobody who holds them can be reached. */
struct key_set keys_lent(struct sim *sim, const char *name);
/* What a fallback leader may admit of such a key, and what the rules call it. */
enum { KEYS_LENT_SHARE = 10 };
const char *keys_lent_name(enum lent lent);
/* Users, hosts and teams that three rules limit, each on the vnode of its own key. */
struct key_set keys_several(struct sim *sim, const char *name);
enum { KEYS_MEMBERS = 12, KEYS_HOSTS = 6, KEYS_TEAMS = 2 };
/* LEASE_KEYS keys of which so many may be in flight; those of odd numbers end by themselves. */
struct key_set keys_flight(struct sim *sim, const char *name);
enum { KEYS_BRIEF_MS = 1200 };
/* How many of a set are exact keys; they come first, then users, then addresses. */
uint32_t keys_exact(struct key_set set);
enum { KEYS_USERS = 4, KEYS_ADDRESSES = 2, KEYS_VAULTS = 2 };
/* Puts a new set of rules in force: the limits of `generation` are higher by so many. */
void keys_rules(struct sim *sim, uint32_t generation);
/* The least number of attempts that an exact key of the set has seen. */
uint64_t keys_attempts(const struct sim *sim, struct key_set set);

/* ---- history.c ------------------------------------------------------------------------------- */

enum { HISTORY_NONE = UINT32_MAX };

/* An operation on key `key` is sent; gives its place. */
uint32_t history_call(struct sim *sim, uint32_t key, enum linear_kind kind, uint32_t cost);
void history_again(struct sim *sim, uint32_t at); /* it is sent again */
bool history_admitted(const struct sim *sim, uint32_t at);
void history_return(struct sim *sim, uint32_t at, bool allowed, uint64_t used);
/* Whether what was done to the set's keys of consistency quorum is linearizable. */
void history_judge(struct sim *sim, struct key_set set);
void history_fini(struct sim *sim);

/* ---- client.c -------------------------------------------------------------------------------- */

void client_init(struct sim *sim);
void client_fini(struct sim *sim);
/* Carries out an event of a client. False if it was for nobody any more. */
bool client_event(struct sim *sim, const struct event *event);
/* Which of the workers whose sessions are `count` from `first` on is answered; -1: none of them. */
int worker_of_reply(const struct event *event, uint64_t first, uint32_t count);
/* The one decision of an answer to a worker's message `seq`. False if it is another answer. */
bool worker_decision(struct sim *sim, const struct event *event, uint64_t seq,
                     struct wire_decision *out);
/* Sends checks of so many keys that tables overflow; nobody counts the answers. */
void client_flood(struct sim *sim, uint32_t frames);
/* Lets clients ask for `set`, or stop when it is empty. */
void client_load(struct sim *sim, struct key_set set);
/* Beside, until clients stop. */
void client_lend(struct sim *sim, struct key_set set);
/* Lets all ask for these at once, in messages as large as `options.crowd` wants. */
void client_crowd(struct sim *sim, struct key_set set);
/* Lets one client look at every key of the set once, without charging any. */
void client_audit(struct sim *sim, struct key_set set);
void client_echo(struct sim *sim); /* lets all ask again what they were answered last */
bool client_idle(const struct sim *sim);

/* ---- faults.c -------------------------------------------------------------------------------- */

/* Kills the node; most times the others see its connections close. */
void faults_crash(struct sim *sim, struct node *node);
/* One fault, or the end of some. */
void faults_act(struct sim *sim);
/* No fault is in force any more; what is down starts soon. */
void faults_end(struct sim *sim);

/* ---- check_quorum.c ------------------------------------------------------------------------- */

/* A frame that the node is about to send to another's shards: SIMQUORUM-1. */
void check_word(struct sim *sim, const struct node *node, const uint8_t *bytes, size_t len);
/* After an event of the node, for a shard of it: SIMQUORUM-2. */
void check_ballots(struct sim *sim, struct node *node, uint8_t shard);

/* ---- check_ring.c --------------------------------------------------------------------------- */

/* After an event of the control core: SIMRING-1 and SIMRING-2. */
void check_ring(struct sim *sim, struct node *node);
/* A frame that the node is about to send to another's control core: SIMRING-3. */
void check_vote(struct sim *sim, const struct node *node, const uint8_t *bytes, size_t len);

/* ---- check.c --------------------------------------------------------------------------------- */

/* After each event of a node. */
void check_event(struct sim *sim, struct node *node);
/* The process of the node is gone. */
void check_ended(struct sim *sim, struct node *node);
/* Everything, of every node. */
void check_all(struct sim *sim);

/* ---- check_merge.c --------------------------------------------------------------------------- */

/* Judges all merges from now on, for this run; until check_merge_end. */
void check_merge_begin(struct sim *sim);
void check_merge_end(void);
/* A phase begins. */
void check_merge_phase(struct sim *sim);
/* The node has opened a term of the vnode. */
void check_merge_opened(struct sim *sim, const struct node *node, const struct shard *shard,
                        uint32_t vnode);

/* ---- check_rest.c ---------------------------------------------------------------------------- */

/* Whether the cluster has come to rest; if not, `why` (SIM_WHY_LEN) says what is missing. */
bool check_converged(struct sim *sim, char *why);
/* The same of the regions abroad. */
bool check_remote(struct sim *sim, char *why);
/* Whether all are members and every vnode is decided by its owner, be it under load. */
bool check_owned(struct sim *sim, char *why);
/* Whether all replicas hold what their leader holds. */
bool check_equal(struct sim *sim, char *why);

/* ---- check_keys.c ---------------------------------------------------------------------------- */

/* Every key of the set: limit - uncertain <= admitted <= limit; less by what was sent again, if
 * leaders may have changed meanwhile. */
void check_exact(struct sim *sim, struct key_set set);
/* What was admitted above the limits, in all: no more than `bound`. */
void check_bound(struct sim *sim, struct key_set set, uint64_t bound);
/* Every key: no more than its limit for each side of `splits`; and of answers that were not marked
 * as degraded, no more than the limit and what new leaders did not know of. */
void check_splits(struct sim *sim, struct key_set set, uint64_t splits);
/* After an audit, every key that several rules limit together: no more was admitted than its limit
 * and `bound` in all; and what was admitted was charged and nothing else, but for `lost` changes
 * and `kept` charges that nobody could give back. */
void check_several(struct sim *sim, struct key_set set, uint64_t lost, uint64_t kept);
/* Every lent key, after a split in two at most: what each side may admit. On the side of `side`,
 * and on the other one, a limit if a replica of the key is there; else a share of it (local),
 * nothing (closed), anything, but marked as degraded (open); or also a share a node (named). */
void check_lent(struct sim *sim, struct key_set set, uint32_t side);
/* After an audit: what was admitted was charged, but for `lost` changes, and no more than asked. */
void check_charged(struct sim *sim, struct key_set set, uint64_t lost);

#endif
