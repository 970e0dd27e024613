/* daemon_state.h - what daemon.c (start and stop), control_loop.c (the main thread's loop) and
 * rules_file.c share.
 *
 * D1  All of it belongs to the main thread, but for what shard loops and the disk synchronise
 *     themselves.
 */
#ifndef NODE_RUNTIME_DAEMON_STATE_H
#define NODE_RUNTIME_DAEMON_STATE_H

#include <uv.h>

#include "node/cluster/control.h"
#include "node/cluster/register.h"
#include "node/runtime/clock.h"
#include "node/runtime/config.h"
#include "node/runtime/daemon.h"
#include "node/runtime/disk.h"
#include "node/runtime/failure.h"
#include "node/runtime/gossip_out.h"
#include "node/runtime/log_output.h"
#include "node/runtime/mailbox.h"
#include "node/runtime/shard_loop.h"
#include "node/runtime/socket.h"
#include "storage/store.h"

struct daemon {
    const struct config *config;
    struct log_output output;
    const struct log *log;
    struct clock clock;
    struct failure failure;
    const struct failpoints *failpoints; /* NULL: outside fault tests */
    struct store *store;                 /* NULL: ephemeral */
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t boot;
    int64_t started_ns;
    void *context;
    void *gossip;
    void *clients[CONFIG_SHARDS_MAX];
    void *peers[CONFIG_SHARDS_MAX];
    struct gossip_out gossip_out;
    struct control *control;
    struct effects effects;
    struct policy *policy; /* the control thread's own copy of the rules in force, or NULL */
    char *rules_text;      /* what it was compiled from */
    size_t rules_len;
    struct disk *disk;
    struct shard_loop *shards[CONFIG_SHARDS_MAX];
    uint32_t shard_count; /* running */
    uint64_t settled[CONFIG_SHARDS_MAX];
    bool idle[CONFIG_SHARDS_MAX];
    uint8_t config_bytes[REGISTER_RECORD_LEN_MAX];
    uint8_t reply[SOCKET_FRAME_MAX];
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    uv_poll_t poll;
    uv_signal_t signals[3];
    struct mailbox mailbox;
    struct socket_holder holder;
    bool joined_due;
    bool ready_told;
    bool waiting_told;
    bool stopping;
    bool leaving; /* for good: gossip is told */
    bool done;
    int64_t waited_ns; /* when it was last told that no cluster was found */
    int64_t stop_ns;
    int64_t adjusted_ns;
    int exit_code;
};

/* ---- daemon.c ---- */
/* The cluster is known: keeps its identity, restores and starts the shards. 0 or an exit code. */
int daemon_start_shards(struct daemon *daemon);

/* ---- control_loop.c ---- */
MUST_USE int control_loop_open(struct daemon *daemon);
void control_loop_run(struct daemon *daemon);
void control_loop_close(struct daemon *daemon);

/* ---- seeds.c ---- */
/* The gossip addresses of the configured seeds, at most CONTROL_SEEDS_MAX; returns how many. */
uint32_t seeds_resolve(const struct config *config, char (*seeds)[VIEW_TEXT_LEN],
                       const struct log *log);

/* ---- rules_file.c ---- */
/* Reads and compiles the rules file, one policy for the control thread and one a shard. 0, or
 * TG_EINVALID with "FILE:LINE:COLUMN: what" in `error`; the old rules then stay in force. Without
 * a rules file there is nothing to do. */
MUST_USE int rules_load(struct daemon *daemon, char *error, size_t capacity);
/* Gives every running shard its own copy of the rules in force. */
void rules_spread(struct daemon *daemon);

#endif
