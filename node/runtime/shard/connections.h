/* connections.h - the connections of clients, in the thread of the shard that decides for them.
 *
 *   listeners --> connections --> codec (node/gateway) --submit, message--> shard
 *                     ^                                                       |
 *                     +--- bytes <---- codec <--- answer, put <---------------+
 *
 * One loop serves the clients of one protocol. connections.c tells what a turn is and what is
 * bounded. One thread, that of the shard's loop, calls all functions after connections_new; before
 * that thread runs, the one that starts it may.
 */
#ifndef NODE_RUNTIME_SHARD_CONNECTIONS_H
#define NODE_RUNTIME_SHARD_CONNECTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "node/gateway/gateway.h"
#include "node/gateway/networks.h"
#include "node/runtime/system/clock.h"

struct connections;

enum { CONNECTIONS_LISTENERS_MAX = 168 };

/* How long a client may take nothing of what was answered, until it is cut off; how long what a
 * connection begins with may take, and a request that has begun; and how long it must have been
 * quiet for a newcomer to have its place. */
#define CONNECTIONS_SLOW_NS    INT64_C(10000000000)
#define CONNECTIONS_BEGIN_NS   INT64_C(5000000000)
#define CONNECTIONS_REQUEST_NS INT64_C(30000000000)
#define CONNECTIONS_QUIET_NS   INT64_C(250000000)

enum { CONNECTIONS_WAITING_MAX = 256 << 20 };

struct connections_options {
    const struct gateway_codec *codec;
    void *gate;              /* the codec's; borrowed, as `stats` is, which it counts in, too */
    struct batches *batches; /* the gate's (node/gateway/batches.h); NULL: it has none */
    struct gateway_stats *stats;
    int listeners[CONNECTIONS_LISTENERS_MAX]; /* of listener_open; the loop's, also if it fails */
    uint32_t listener_count;
    uint32_t aside;                 /* how many of these, the last ones, are not for everything */
    uint32_t max;                   /* connections at a time */
    struct hash_key key;            /* random: nobody finds addresses that meet in one place */
    const _Atomic bool *crowded;    /* no further connection is to be accepted; NULL: never */
    const struct networks *trusted; /* proxies that may say for whom a connection is; NULL: none */
    bool proxies_tell;              /* these have to */
    bool polls;                     /* a turn may (busy_poll.h) */
    /* Bytes of requests that are not complete, and of answers: of each at most so much of all
     * connections together. 0: CONNECTIONS_WAITING_MAX */
    uint64_t waiting_max;
    int all; /* borrowed: readable when there is anything to do for the thread; -1: the loop's own
              */
    int64_t slow_ns;
    int64_t begin_ns;
    int64_t request_ns;
    int64_t idle_ns;  /* how long a connection may be quiet between requests; 0: for ever */
    int64_t quiet_ns; /* who was quiet for so long gives its place to a newcomer, if none is free */
    const struct clock *clock;
    const struct log *log;
    /* Gives a frame of a batch to the shard, whose answer comes by connections_answer, then or
     * later. NULL where there are no batches. */
    void (*submit)(void *context, const void *frame, size_t len);
    /* Reading has come to its end in this turn: `empty` tells whether nothing was left. What waits
     * may be decided. NULL: nothing does. */
    void (*read)(void *context, bool empty);
    /* Calls connections_owe for each connection whose answer is under way. NULL where the codec
     * knows by itself (gateway_peer.waiting). */
    void (*owes)(void *context, struct connections *connections);
    void *context;
};

/* 0, TG_ENOMEM or TG_EIO. */
MUST_USE int connections_new(const struct connections_options *options, struct connections **out);
void connections_free(struct connections **connections);

/* A descriptor that is readable while there is something for connections_turn to do. */
int connections_fd(const struct connections *connections);
/* The thread does something else, too: turns do not wait for clients that are about to ask, for a
 * while. */
void connections_other(struct connections *connections);
/* Reads a burst, has it decided, answers. */
void connections_turn(struct connections *connections);
/* Whether something is left to do that the descriptor does not tell of. */
bool connections_pending(const struct connections *connections);
/* Whether it is time to look for what is slow or late, by a turn. */
bool connections_due(const struct connections *connections, int64_t now_ns);

/* What the shard sent for a batch. Its replies leave with the next turn. */
void connections_answer(struct connections *connections, const void *frame, size_t len);
/* A message of the shard's for one connection, which leaves with the next turn. False: it is gone,
 * or its client leaves too much unread, which is counted. */
bool connections_put(struct connections *connections, uint64_t token, const void *data, size_t len);

/* From `owes`: the shard owes that connection an answer. */
void connections_owe(struct connections *connections, uint64_t token);
/* A question of the connection is answered elsewhere, by a later connections_put. */
void connections_asked(struct connections *connections, uint64_t token);

/* For good: nothing is accepted or read any more, and turns end what there is, in order. The shard
 * takes no checks any more (shard_resign), but answers. Once is enough. */
void connections_leave(struct connections *connections);
/* Whether something submitted has no answer yet: it may come of another node. */
bool connections_waits(const struct connections *connections);
/* Whether all connections have ended after connections_leave, within some seconds. */
bool connections_left(const struct connections *connections);
void connections_stats(const struct connections *connections, struct gateway_stats *out);
/* Asserts what always holds of places, lists, bytes and counts, between two turns. For tests. */
void connections_check_invariants(const struct connections *connections);

#endif
