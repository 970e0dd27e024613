/* sim.h - a whole cluster in one process and in virtual time: what the simulator's files share.
 *
 *              +-------------------- queue.c: events by time ---------------------+
 *              |                                                                  |
 *   plan.c, faults.c ---> node.c, shell.c (shipped cores) --> net.c, disk.c ------+
 *                                   |       ^
 *                                   v       |
 *                               check.c   client.c (load, what was admitted)
 *
 * D1  Whatever happens is an event; events of one time happen in the order in which they were made.
 * D2  Every choice comes from one of the seeded streams, so a seed is a run, to the bit.
 * D3  No event looks at the host's clock, at an address, or at memory that was not written.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "client/protocol/wire.h"
#include "node/cluster/control.h"
#include "node/cluster/effects.h"
#include "node/cluster/shard.h"

#define SIM_MS    ((int64_t)1000000)
#define SIM_SEC   (1000 * SIM_MS)
#define SIM_NEVER INT64_MAX
/* Noon of some day, so that a run of seconds never meets the edge of a day-long window. */
#define SIM_EPOCH ((1700006400 + 12 * 3600) * SIM_SEC)

enum {
    SIM_NODES_MAX = 7,
    SIM_SHARDS_MAX = 2,
    SIM_CLIENTS_MAX = 6,
    SIM_KEYS_MAX = 8192,
    SIM_ITEMS_MAX = 64,
    SIM_VNODES_MAX = 256,
    SIM_LINK_FRAMES_MAX = 4096, /* under way from one shard to another */
    SIM_LIMIT = 100,            /* of every exact key, per 24 hours */
    SIM_EVENTS_MIN = 20000,     /* a seed is at least this long */
    SIM_DISK_BUCKETS = 256,     /* of each vnode */
    SIM_METAS_MAX = 64,         /* named values on one disk */
    SIM_TEXT_LEN = 64,
};

/* Which part of the run a choice belongs to: adding a choice to one leaves the others alone. */
enum sim_stream {
    STREAM_NETWORK,
    STREAM_FAULTS,
    STREAM_CLIENTS,
    STREAM_DISK,
    STREAM_PLAN,
    STREAM_COUNT
};

enum event_kind {
    EVENT_GOSSIP,       /* frame to the control core of `node` */
    EVENT_PEER,         /* frame to shard `shard` of `node` */
    EVENT_CLIENT,       /* a client's frame to shard `shard` of `node` */
    EVENT_REPLY,        /* frame to client `node` */
    EVENT_CLOSED,       /* the connection of `node` with (from, shard) ended */
    EVENT_TICK,         /* of shard `shard` */
    EVENT_CONTROL_TICK, /* of the control core */
    EVENT_COMMIT,       /* the batch of shard `shard` is on disk, or failed */
    EVENT_LOADED,       /* the disk answers a load of shard `shard` */
    EVENT_LISTED,       /* the disk answers a listing of shard `shard` */
    EVENT_TURN,         /* client `node` may send its next message */
    EVENT_TIMEOUT,      /* client `node` has no answer */
    EVENT_START,        /* the process of `node` starts */
    EVENT_PLAN,         /* the plan looks at what comes next */
    EVENT_KIND_END
};

struct event {
    int64_t at_ns;
    uint64_t order; /* D1 */
    enum event_kind kind;
    uint8_t node;
    uint8_t shard;
    uint8_t from;
    uint64_t tag; /* boot, request or load that it belongs to */
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

struct net_link {
    int64_t delay_ns;   /* at least */
    int64_t jitter_ns;  /* and up to this more */
    int64_t arrives_ns; /* of the newest frame: in order unless a fault says otherwise */
    uint32_t under_way;
    bool cut;
};

struct net {
    struct net_faults faults;
    struct net_link links[SIM_NODES_MAX][SIM_NODES_MAX];
    uint64_t sent;
    uint64_t lost;
    uint64_t repeated;
    uint64_t late;
    uint64_t reordered;
    uint64_t full; /* refused by a bounded queue */
    uint64_t cut;
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

/* A value that was made durable under a name. */
struct disk_meta {
    char key[SIM_TEXT_LEN];
    uint8_t *bytes;
    size_t len;
};

struct disk {
    bool has_identity;
    struct control_identity identity;
    uint64_t incarnation;
    uint32_t meta_count;
    struct disk_meta metas[SIM_METAS_MAX];
    bool has_header[SIM_VNODES_MAX];
    struct shard_write_header headers[SIM_VNODES_MAX];
    struct disk_record *buckets[SIM_VNODES_MAX][SIM_DISK_BUCKETS];
    uint64_t records;
    struct disk_batch batches[SIM_SHARDS_MAX];
};

/* ---- nodes --------------------------------------------------------------------------------- */

struct node {
    uint8_t index;
    uint64_t id;
    bool up;
    bool stopping; /* in order: it passes on what it decides, and writes what it holds */
    bool bootstrap;
    uint16_t shard_count;
    int64_t offset_ns; /* its clock minus the true one */
    int64_t paused_until_ns;
    uint64_t boots;
    struct control *control;
    struct view *view;
    struct shard *shards[SIM_SHARDS_MAX];
    int64_t tick_at_ns[SIM_SHARDS_MAX];
    int64_t control_tick_at_ns;
    uint64_t settled;
    struct disk disk;
    struct term terms[SIM_VNODES_MAX]; /* newest seen in this boot */
    uint8_t roles[SIM_VNODES_MAX];     /* as last seen, for trace and coverage */
    bool pulling[SIM_VNODES_MAX];
};

/* ---- clients ------------------------------------------------------------------------------- */

enum key_kind { KEY_EXACT, KEY_RULE, KEY_NOISE };

struct key {
    char text[SIM_TEXT_LEN];
    enum key_kind kind;
    struct limit limit;
    uint32_t vnode;
    struct hash128 id;
    uint64_t attempts;
    uint64_t admitted;
    uint64_t uncertain; /* checks that may have been charged though nobody was told */
    uint64_t repeated;  /* checks that were sent again: a change of decider may charge them twice */
};

struct client {
    uint8_t index;
    uint64_t session;
    uint64_t seq;
    bool active; /* may start new messages */
    bool waiting;
    uint32_t tries;
    uint32_t replies;
    uint32_t item_count;
    uint32_t keys[SIM_ITEMS_MAX][2]; /* what each item counts on; the second for rules */
    uint8_t operations[SIM_ITEMS_MAX];
    uint8_t *frame;
    size_t frame_len;
};

/* The keys that a phase hammers: [first, first + count). */
struct key_set {
    uint32_t first;
    uint32_t count;
};

/* ---- the run ------------------------------------------------------------------------------- */

struct coverage {
    uint64_t seeds;
    uint64_t events;
    uint64_t virtual_ms;
    uint64_t joins;
    uint64_t crashes;
    uint64_t restarts;
    uint64_t cuts;
    uint64_t pauses;
    uint64_t takeovers;
    uint64_t terms;
    uint64_t stepped_down;
    uint64_t recoveries;
    uint64_t passes;
    uint64_t stops;
    uint64_t blackouts;
    uint64_t floods;
    uint64_t pulls;
    uint64_t resyncs;
    uint64_t disk_copies;
    uint64_t forwarded;
    uint64_t moved;
    uint64_t recalled;
    uint64_t undone;
    uint64_t loads;
    uint64_t evicted;
    uint64_t forgotten;
    uint64_t stalls;
    uint64_t commits;
    uint64_t commits_failed;
    uint64_t sent;
    uint64_t lost;
    uint64_t repeated;
    uint64_t late;
    uint64_t reordered;
    uint64_t full;
    uint64_t cut_frames;
    uint64_t checks;
    uint64_t admitted;
    uint64_t retries;
    uint64_t excess;       /* admitted above limits by crashes under load */
    uint64_t excess_bound; /* what was allowed to be */
    int64_t settle_ns_max; /* longest convergence after faults */
};

struct plan {
    uint32_t step;
    int64_t next_ns; /* no step before */
    int64_t deadline_ns;
    uint8_t victim;
    uint32_t chaos_left;
    uint32_t stops_left;
    uint64_t excess_bound;
    struct key_set formed;
    struct key_set calm;
    struct key_set idle;
    struct key_set load;
    struct key_set roll;
    struct key_set dark;
    struct key_set chaos;
    struct key_set healed;
    uint64_t splits; /* times at which two deciders may have come to be, in chaos */
    bool flooded;
    bool strict; /* at most one node decides a vnode */
    bool done;
};

struct sim {
    uint64_t seed;
    int trace; /* 0, or how much is told */
    const struct allocator *allocator;
    struct random streams[STREAM_COUNT];
    int64_t now_ns; /* true time */
    uint64_t events;
    uint64_t hash; /* of everything that happened */
    struct queue queue;
    struct net net;
    struct effects effects;
    uint32_t node_count;
    struct node nodes[SIM_NODES_MAX];
    uint32_t vnodes;
    uint32_t replicas;
    struct control_identity identity;
    struct policy *policy;
    uint32_t client_count;
    struct client clients[SIM_CLIENTS_MAX + 1]; /* the last takes what nobody asked for */
    struct wire_checks_builder builder;
    struct wire_decisions_space space;
    uint8_t values[1 << 16];
    uint32_t key_count;
    struct key keys[SIM_KEYS_MAX];
    struct key_set load; /* what clients ask for now */
    struct key_set rules;
    uint8_t deciders[SIM_VNODES_MAX]; /* a bit for each node that decides */
    struct plan plan;
    struct coverage *coverage;
    struct shard_write *writes; /* scratch of gathering */
    struct shard_write_header *headers;
    uint8_t *bytes;
    char failure[512]; /* set once: why the seed failed */
};

/* ---- sim.c ----------------------------------------------------------------------------------- */

struct random *sim_stream(struct sim *sim, enum sim_stream stream);
/* True `ppm` times in a million. */
bool sim_chance(struct sim *sim, enum sim_stream stream, uint32_t ppm);
/* Notes why the run failed; the first reason counts. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One line of the trace, if level `level` is wanted. */
void sim_tell(const struct sim *sim, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies `len` bytes, for an event to own. */
uint8_t *sim_copy(const void *bytes, size_t len);

/* ---- queue.c --------------------------------------------------------------------------------- */

void queue_push(struct queue *queue, const struct event *event);
bool queue_pop(struct queue *queue, struct event *event);
void queue_fini(struct queue *queue);

/* ---- net.c ----------------------------------------------------------------------------------- */

void net_init(struct sim *sim);
/* Sends a frame between nodes: EVENT_GOSSIP or EVENT_PEER. */
void net_send(struct sim *sim, uint8_t from, uint8_t to, enum event_kind kind, uint8_t shard,
              const uint8_t *bytes, size_t len);
void net_arrived(struct sim *sim, const struct event *event);
/* Frames between a client and a node: they take their time, and are lost with a crash only. */
void net_ask(struct sim *sim, uint8_t client, uint8_t node, uint8_t shard, const uint8_t *bytes,
             size_t len);
void net_reply(struct sim *sim, uint8_t client, const uint8_t *bytes, size_t len);
void net_cut(struct sim *sim, uint32_t side, bool one_way);
void net_heal(struct sim *sim);

/* ---- disk.c ---------------------------------------------------------------------------------- */

/* Makes the value of `key` durable, whatever the key is. */
void disk_put_meta(struct disk *disk, const char *key, const uint8_t *bytes, size_t len);
/* The value of `key`, an empty one (bytes NULL) if there is none; valid until it is put again. */
struct disk_meta disk_get_meta(const struct disk *disk, const char *key);
void disk_drop(struct node *node, uint32_t vnode);
/* Takes a batch from the shard if one is due. */
void disk_gather(struct sim *sim, struct node *node, uint8_t shard);
void disk_commit(struct sim *sim, struct node *node, uint8_t shard);
/* Gives the shard all ids that are stored of `vnode`, in pieces. */
void disk_listed(struct sim *sim, struct node *node, uint8_t shard, uint32_t vnode);
const struct disk_record *disk_find(const struct disk *disk, uint32_t vnode, struct hash128 id);
/* Gives the new process of the node what was stored. */
void disk_restore(struct sim *sim, struct node *node, uint8_t shard);
/* All slots are lost, but not who the node is. */
void disk_wipe(struct disk *disk);
/* Batches under way are lost. */
void disk_crash(struct disk *disk);
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
void node_start(struct sim *sim, struct node *node);
/* Starts a shard with what is stored; the node has a cluster. */
void node_start_shard(struct sim *sim, struct node *node, uint8_t shard);
/* The process dies at once; `told` says whether connections are seen to close. */
void node_crash(struct sim *sim, struct node *node, bool told);
/* Whether everything that it holds is on its disk. */
bool node_flushed(const struct node *node);
/* Lets it stop in order: `up` is false when it has. */
void node_stop(struct sim *sim, struct node *node);
void node_event(struct sim *sim, const struct event *event);
void node_fini(struct sim *sim, struct node *node);
/* The unconfirmed changes of all its shards. */
uint64_t node_unconfirmed(const struct node *node);
int node_by_id(const struct sim *sim, uint64_t id);
void node_count_stats(struct sim *sim, const struct node *node);

/* ---- client.c -------------------------------------------------------------------------------- */

void client_init(struct sim *sim);
void client_fini(struct sim *sim);
/* New keys, `each` of every algorithm. */
struct key_set client_keys(struct sim *sim, const char *name, uint32_t each);
void client_event(struct sim *sim, const struct event *event);
/* Sends checks of so many keys that tables overflow; nobody counts the answers. */
void client_flood(struct sim *sim);
/* Lets clients ask for `set`, or stop when it is empty. */
void client_load(struct sim *sim, struct key_set set);
bool client_idle(const struct sim *sim);
/* The least number of attempts that a key of the set has seen. */
uint64_t client_attempts(const struct sim *sim, struct key_set set);

/* ---- faults.c -------------------------------------------------------------------------------- */

/* Some node that runs; there must be one. */
struct node *faults_up_node(struct sim *sim);
/* Kills the node; most times the others see its connections close. */
void faults_crash(struct sim *sim, struct node *node);
/* One fault, or the end of some. */
void faults_act(struct sim *sim);

/* ---- plan.c ---------------------------------------------------------------------------------- */

void plan_init(struct sim *sim);
void plan_event(struct sim *sim);

/* ---- check.c --------------------------------------------------------------------------------- */

/* After each event of a node. */
void check_event(struct sim *sim, struct node *node);
/* Everything, of every node. */
void check_all(struct sim *sim);
/* Whether the cluster has come to rest; if not, `why` (SIM_TEXT_LEN * 4) says what is missing. */
bool check_converged(struct sim *sim, char *why);
/* Whether all are members and every vnode is decided by its owner, be it under load. */
bool check_owned(struct sim *sim, char *why);
/* Whether all replicas hold what their decider holds. */
bool check_equal(struct sim *sim, char *why);
/* Every key of the set: limit - uncertain <= admitted <= limit; less by what was sent again, if
 * deciders may have changed meanwhile. */
void check_exact(struct sim *sim, struct key_set set, const char *when, bool changed);
/* The sum of what was admitted above the limits. */
uint64_t check_excess(const struct sim *sim, struct key_set set);

#endif
