/* shard_loop.h - the thread of one shard: its sockets, its timer, its disk results, one event loop.
 *
 *      native clients --+                       +--> their answers
 *       Redis clients --+                       +--> their replies
 *        HTTP clients --+                       +--> their responses
 *        peers ROUTER --+--> shard core --> effects --> links to peers
 *   timer, disk, messages+                       +--> disk loads, drops, writes
 *
 * Each turn of the loop takes a bounded burst of input, ticks the core once, and carries out its
 * effects. Batches form by themselves: what arrived during a turn leaves together at its end.
 */
#ifndef NODE_RUNTIME_SHARD_SHARD_LOOP_H
#define NODE_RUNTIME_SHARD_SHARD_LOOP_H

#include <stdint.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "node/cluster/shard/shard.h"
#include "node/cluster/shard/shard_told.h"
#include "node/gateway/http/http_exchange.h"
#include "node/gateway/resp_local.h"
#include "node/runtime/disk/disk.h"
#include "node/runtime/shard/connections.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/system/mailbox.h"

struct shard_loop;

/* Where clients of one protocol come. */
struct shard_loop_front {
    int listeners[CONNECTIONS_LISTENERS_MAX]; /* the loop's, also if it cannot be made */
    uint32_t listener_count;
    uint32_t aside;      /* how many of these, the last ones, are for metrics and probes alone */
    uint32_t max;        /* connections at a time */
    struct hash_key key; /* random */
};

struct shard_loop_options {
    void *context; /* ZeroMQ's */
    void *peers;   /* bound ROUTER; the loop's from now on */
    struct shard_loop_front native;
    struct shard_loop_front redis; /* without a listener: it takes none */
    uint64_t redis_session;        /* random */
    struct resp_facts redis_facts;
    struct shard_loop_front http; /* likewise */
    uint64_t http_session;
    struct http_facts http_facts;
    const _Atomic bool *crowded;    /* no further client is to be let in; NULL: never */
    const struct networks *trusted; /* proxies whose word is taken; NULL: none. They have to say */
    bool proxies_tell;              /* first for whom a connection is, or may */
    _Atomic uint64_t *keys;         /* of all shards of the node: each adds its own */
    struct shard *shard;            /* restored, without a view; the loop's from now on */
    uint32_t number;
    uint64_t node_id;
    const struct clock *clock;
    const struct log *log;
    const struct failpoints *failpoints; /* borrowed; NULL outside fault tests */
    bool polls;                          /* it may, for clients (busy_poll.h) */
    uint64_t waiting_max;    /* bytes that clients' requests and answers may take each */
    struct mailbox *control; /* where messages to the control loop go */
};

/* 0 or an error; on failure sockets and shard stay the caller's. The thread starts with
 * shard_loop_start. */
MUST_USE int shard_loop_new(const struct shard_loop_options *options, uint32_t vnodes,
                            struct shard_loop **out);
MUST_USE int shard_loop_start(struct shard_loop *loop, struct disk *disk);
/* The mailbox of the loop, and its wake-up for disk results: any thread. */
struct mailbox *shard_loop_mailbox(struct shard_loop *loop);
void shard_loop_wake(struct shard_loop *loop);
/* A recent copy of the shard's counters; `asked`: newer ones are wanted for a while. Any thread. */
void shard_loop_stats(struct shard_loop *loop, bool asked, struct shard_stats *out);
/* Adds what the shard tells beside them to `sum`, whose rules are those in force. Any thread. */
void shard_loop_told(struct shard_loop *loop, struct shard_told *sum);
/* The same of its clients, by protocol; zeros if it takes none. */
struct shard_loop_fronts {
    struct gateway_stats native;
    struct gateway_stats redis;
    struct gateway_stats http;
    struct http_stats http_more;
};
void shard_loop_clients(struct shard_loop *loop, struct shard_loop_fronts *out);
/* Frames since its start that no connection to a peer took. Any thread. */
uint64_t shard_loop_links_dropped(const struct shard_loop *loop);
/* How many of the MESSAGE_POLICY that it was sent are in force: by the last of these, or a later
 * one. Any thread. */
uint64_t shard_loop_policies(const struct shard_loop *loop);
/* What the shard saw of its peers' clocks since the last call; returns how many. Any thread. */
enum { SHARD_LOOP_CLOCKS_MAX = 256 };
uint32_t shard_loop_clocks(struct shard_loop *loop,
                           struct cluster_time_sample out[SHARD_LOOP_CLOCKS_MAX]);
/* Waits for the thread to end (after MESSAGE_STOP). */
void shard_loop_join(struct shard_loop *loop);
/* After the join: a tally of people and API keys that control has not got yet, the caller's; NULL
 * after the last one. */
struct usage_tally *shard_loop_usage(struct shard_loop *loop);
/* After the join, and after disk_free: its buffers may have been with the writer. */
void shard_loop_free(struct shard_loop **loop);

#endif
