/* daemon_state.h - what the files of the main thread share.
 *
 * DAEMON-1  All of it is the main thread's, but for what shard loops and the disk synchronise.
 */
#ifndef NODE_RUNTIME_CONTROL_DAEMON_STATE_H
#define NODE_RUNTIME_CONTROL_DAEMON_STATE_H
#include <uv.h>

#include "node/cluster/consensus/register.h"
#include "node/cluster/control/control.h"
#include "node/runtime/config/config.h"
#include "node/runtime/control/compiler.h"
#include "node/runtime/control/held.h"
#include "node/runtime/control/lobby.h"
#include "node/runtime/control/rules_state.h"
#include "node/runtime/control/standing.h"
#include "node/runtime/control/teller.h"
#include "node/runtime/disk/disk.h"
#include "node/runtime/shard/shard_loop.h"
#include "node/runtime/system/admin_cred.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/system/failure.h"
#include "node/runtime/system/files.h"
#include "node/runtime/system/gossip_out.h"
#include "node/runtime/system/log_output.h"
#include "node/runtime/system/mailbox.h"
#include "node/runtime/system/process.h"
#include "node/runtime/system/room.h"
#include "node/runtime/system/signals.h"
#include "node/runtime/system/socket.h"
#include "storage/store.h"

/* Totals of people and API keys (usage.c). */
struct usage {
    struct usage_ledger *book;
    struct usage_tally *spare[CONFIG_SHARDS_MAX]; /* an empty one of each shard, or NULL */
    bool begun[CONFIG_SHARDS_MAX];                /* the shard has been given one */
    bool asked[CONFIG_SHARDS_MAX];                /* it has one to give back */
    int64_t looked_ns;
    uint32_t chunk;            /* from which on is written next */
    struct usage_round *round; /* chunks on their way to disk, while `writing` */
    bool writing;
    bool failed; /* the last write */
};

enum { SEEDS_LOST_LEN = 256 };

/* What goes from one run of a process to the next when it starts again for its clock. */
struct daemon_kept {
    bool again;       /* the process is to begin once more */
    char *rules_text; /* what the rules file held when it was read last, or NULL */
    size_t rules_len;
    uint8_t *peers; /* of a node without a disk: whom it shared a ring with (control_peers) */
    size_t peers_len;
};

/* Where clients of a protocol come, for each shard, whose loop has them when it has been made. */
struct daemon_listeners {
    int fds[CONFIG_SHARDS_MAX][CONFIG_LISTEN_MAX + 2];
    uint32_t counts[CONFIG_SHARDS_MAX];
    uint32_t places; /* how many of the further places are bound */
};

/* What the process listens at and sends by. */
struct daemon_sockets {
    void *context;
    void *gossip;
    void *peers[CONFIG_SHARDS_MAX];
    struct daemon_listeners native; /* of clients */
    struct daemon_listeners redis;
    struct daemon_listeners http;
    struct daemon_listeners metrics; /* for HTTP, of the first shard */
    struct lobby *lobby;             /* NULL: the shards answer clients */
    struct files files;
    struct gossip_out out;
    struct telemetry *telemetry; /* traces and metrics that are pushed */
    struct socket_holder holder;
};

/* Quota records, API keys and credentials in force. */
struct daemon_records {
    struct people *people;           /* or NULL */
    struct api_keys *api_keys;       /* or NULL */
    struct credentials *credentials; /* or NULL */
    int64_t collected_ns; /* when some were collected last, and how long it is left at that */
    int64_t pause_ns;
    bool owed;         /* the newest found no memory */
    int64_t missed_ns; /* when they found no memory beside the rules; or 0 */
};

/* What the disk of the control plane holds, or had no room for. */
struct daemon_disk {
    struct store_meta_item *items; /* EFFECTS_KEPT: of one transaction */
    size_t refused_len;            /* bytes that the disk had no room for */
    uint64_t incarnation_due;      /* it had none for this; 0: nothing is due */
    int64_t probed_ns;             /* when it was last asked whether it has */
};

/* The event loop of the control thread. */
struct daemon_events {
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    uv_poll_t poll;
    uv_poll_t signals_poll;
    int signals;
    int64_t wake_ns; /* when the loop wanted to wake, as uv_hrtime tells */
};

/* What the log was told, so that it is told once. */
struct daemon_told {
    struct teller teller; /* for what is an event, too */
    struct view *view;    /* what the log knows of members, or NULL */
    bool ready;
    bool foreign;
    uint64_t twin;      /* the other node of this one's name that was told of last, or 0 */
    int64_t waiting_ns; /* when the log last had what is waited for, or 0 */
};

/* What is looked at now and then. */
struct daemon_looks {
    int64_t seeds_ns;           /* when seeds were last resolved while no cluster is found */
    int64_t health_ns;          /* when what is wrong with the node was looked at last, */
    bool troubled;              /* and whether something was */
    int64_t rate_ns, clocks_ns; /* when the clock's rate was set, and when clocks were looked at */
    int64_t latest_ns;          /* of time, as it was seen */
};

/* How the process ends. */
struct daemon_end {
    bool stopping;
    bool leaving; /* for good: gossip is told */
    bool done;
    bool again; /* stops to start again, with another offset of its clock */
    int64_t stop_ns;
    int exit_code;
};

struct daemon {
    const struct config *config;
    struct daemon_kept *kept; /* NULL: --check-config */
    struct log_output output;
    const struct log *log;
    struct clock clock;
    struct failure failure;
    const struct failpoints *failpoints; /* NULL: outside fault tests */
    struct store *store;                 /* NULL: ephemeral */
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t boot;
    _Atomic uint64_t keys; /* in memory, of all shards */
    int64_t started_ns;
    struct daemon_sockets sockets;
    struct standing standing;
    struct room room;
    struct control *control;
    struct effects effects;
    struct daemon_rules rules;
    struct daemon_records records;
    uint32_t views_owed; /* bits of shards to be given the newest view */
    struct usage usage;
    struct daemon_disk kept_on_disk;
    struct disk *disk;
    struct shard_loop *shards[CONFIG_SHARDS_MAX];
    uint32_t shard_count; /* running */
    uint64_t settled[CONFIG_SHARDS_MAX];
    bool idle[CONFIG_SHARDS_MAX];
    struct mailbox mailbox;
    struct held held;
    struct admin_cred cred;
    uint8_t config_bytes[REGISTER_RECORD_LEN_MAX];
    uint8_t reply[SOCKET_FRAME_MAX];
    struct control_page page; /* of metrics, for all messages that are read at once */
    struct daemon_events events;
    char seeds_lost[SEEDS_LOST_LEN]; /* as of seeds_resolve */
    bool joined_due;
    struct daemon_told told;
    struct daemon_looks looks;
    struct daemon_end end;
};

/* The bits of all shards that run, as in rules.owed. */
static inline uint32_t daemon_all_shards(const struct daemon *daemon)
{
    static_assert(CONFIG_SHARDS_MAX < 32, "a bit a shard");
    return (1u << daemon->shard_count) - 1;
}

/* ---- complain.c ---- */
/* Logs the sentence as an error, and returns `code`. */
int daemon_complain(const struct daemon *daemon, int code, const char *sentence);
/* Says what is wrong with the store's content, and the way out. Returns DAEMON_DATA. */
int daemon_complain_corrupt(const struct daemon *daemon, const char *sentence);
uint64_t daemon_random_id(void); /* any number but 0 */
/* What HTTP clients are told, and who may ask; of the configuration. */
struct http_facts daemon_http_facts(const struct daemon *daemon);

/* ---- recall.c ---- */
/* The region that a data directory belongs to. */
#define DAEMON_REGION_KEY "node.region"
/* A stored meta value in fresh memory, or NULL. 0, TG_ECORRUPT, TG_ENOMEM, TG_EIO, TG_ETOOBIG. */
int daemon_recall_meta(struct daemon *daemon, const char *key, uint8_t **out, size_t *len);
/* What is stored of the ring, in fresh memory, for daemon_ring_free; NULL: nothing. */
struct daemon_ring {
    uint8_t *config;
    size_t config_len;
    uint8_t *ballots;
    size_t ballots_len;
};
/* 0, or it is not known what is stored: as daemon_recall_meta. */
MUST_USE int daemon_recall_ring(struct daemon *daemon, struct daemon_ring *ring);
void daemon_ring_free(struct daemon_ring *ring);
/* Gives control the stored settings. 0, TG_ECORRUPT, TG_ENOMEM, TG_EIO. */
MUST_USE int daemon_recall_settings(struct daemon *daemon);

/* ---- shards.c ---- */
/* The cluster is known: keeps its identity, restores and starts the shards. 0 or an exit code. */
int daemon_start_shards(struct daemon *daemon);

/* ---- control_loop.c ---- */
MUST_USE int control_loop_open(struct daemon *daemon);
void control_loop_run(struct daemon *daemon);
void control_loop_close(struct daemon *daemon);

/* ---- control_disk_loop.c ---- */
/* Makes `count` values durable in one transaction. False if the disk has no room: control is back
 * at what is stored, and the effects that follow are not to be carried out. */
bool disk_keep(struct daemon *daemon, const struct effect *effects, size_t count);
void disk_keep_incarnation(struct daemon *daemon, uint64_t incarnation);
/* After every event: whether a disk that had no room has some again. */
void disk_look(struct daemon *daemon);

/* ---- seeds.c ---- */
/* The gossip addresses of the configured seeds, at most CONTROL_SEEDS_MAX; returns how many.
 * `lost`: a sentence's part on the names that stand for none, or "". `log` may be NULL. */
uint32_t seeds_resolve(const struct config *config, char (*seeds)[VIEW_TEXT_LEN],
                       const struct log *log, char lost[SEEDS_LOST_LEN]);

/* ---- records.c ---- */
/* Collects the quota records and the API keys of the settings if they have changed: true if they
 * are to be joined with the rules anew. After every event. */
bool records_look(struct daemon *daemon);

/* ---- usage.c ---- */
/* Begins the totals with those on disk. 0, or an error: there is no memory, or no store. */
MUST_USE int usage_open(struct daemon *daemon);
/* Collects and writes, once a second. After every event. */
void usage_look(struct daemon *daemon);
/* Takes a MESSAGE_USAGE, and its tally. */
void usage_take(struct daemon *daemon, const struct mailbox_message *message);
/* After the shards' threads have ended: takes what they have counted last, and writes all. */
void usage_close(struct daemon *daemon);

/* ---- rules_file.c ---- */
/* Reads and compiles the rules file, which is in force until the settings have rules. 0, or
 * TG_EINVALID with "FILE:LINE:COLUMN: what" in `error`; what was before then stays. Without a rules
 * file there is nothing to do. */
MUST_USE int rules_load(struct daemon *daemon, char *error, size_t capacity);
/* Gives every running shard the rules in force; one without room for them gets them later. */
void rules_spread(struct daemon *daemon);
/* Whether nobody may be served yet, for what the settings say could not be put in force. */
bool rules_awaited(const struct daemon *daemon);
/* After every event: puts new rules of the settings in force, seeds them, tells how edits ended. */
void rules_look(struct daemon *daemon);
/* Tells control by which settings all shards decide, for whoever waits for an edit. */
void rules_note_spread(struct daemon *daemon);
/* SIGHUP: has the rules file compiled, to be applied to the settings then. */
void rules_reload(struct daemon *daemon);
/* Begins to look whether what --rules names changes, if that is wanted. 0 or TG_ENOMEM. */
MUST_USE int rules_watch_begin(struct daemon *daemon);
/* The file as it was read last, as far as it was applied, for the next run of the process; what it
 * holds is the caller's then, and must be freed. */
void rules_keep(struct daemon *daemon, char **text, size_t *len);
void rules_file_fini(struct daemon *daemon);
/* Takes what the compiler was asked for by this file: rules to be in force, or those of the file.
 * The job stays the caller's. */
void rules_compiled(struct daemon *daemon, struct compiler_job *job);
struct compiler_options rules_compiler_options(struct daemon *daemon);

#endif
