/* resp_loop.h - the connections of Redis clients, in the thread of the shard that decides for them.
 *
 *   listener --> connections --> gate (node/gateway) --submit--> shard
 *                     ^                                            |
 *                     +------ replies <------- resp_loop_answer ---+
 *
 * resp_loop.c tells what is bounded. One thread, that of the shard's loop, calls all functions
 * after resp_loop_new.
 */
#ifndef NODE_RUNTIME_SHARD_RESP_LOOP_H
#define NODE_RUNTIME_SHARD_RESP_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "node/gateway/resp_gate.h"
#include "node/runtime/system/clock.h"

struct resp_loop;

#define RESP_SLOW_NS INT64_C(10000000000) /* a client that takes nothing for so long is cut off */

struct resp_loop_options {
    int listener;     /* of listener_open; the loop's from now on, also if resp_loop_new fails */
    uint64_t session; /* random, not 0, like no other of the cluster */
    struct resp_facts facts;
    const _Atomic bool *crowded; /* no further connection is to be accepted; NULL: never */
    int all; /* borrowed: readable when there is anything to do for the thread; -1: resp_loop_fd's
              */
    int64_t slow_ns;
    const struct clock *clock;
    const struct log *log;
    /* Gives a frame to the shard, whose answer comes by resp_loop_answer, then or later. */
    void (*submit)(void *context, const void *frame, size_t len);
    void *context;
};

/* At most facts.connections_max connections at a time. 0, TG_ENOMEM or TG_EIO. */
MUST_USE int resp_loop_new(const struct resp_loop_options *options, struct resp_loop **out);
void resp_loop_free(struct resp_loop **loop);

/* A descriptor that is readable while there is something for resp_loop_turn to do. */
int resp_loop_fd(const struct resp_loop *loop);
/* The thread does something else, too: turns do not wait for clients that are about to ask, for a
 * while. */
void resp_loop_other(struct resp_loop *loop);
/* Reads a burst, has it decided, answers. */
void resp_loop_turn(struct resp_loop *loop);
/* Whether something is left to do that the descriptor does not tell of. */
bool resp_loop_pending(const struct resp_loop *loop);
/* Whether it is time to look for what is slow or late, by a turn. */
bool resp_loop_due(const struct resp_loop *loop, int64_t now_ns);
/* What the shard sent. Its replies leave with the next turn. */
void resp_loop_answer(struct resp_loop *loop, const void *frame, size_t len);
/* For good: nothing is accepted or read any more, and turns end what there is, in order. The shard
 * takes no checks any more (shard_resign), but answers. Once is enough. */
void resp_loop_leave(struct resp_loop *loop);
/* Whether something submitted has no answer yet: it may come of another node. */
bool resp_loop_waits(const struct resp_loop *loop);
/* Whether all connections have ended after resp_loop_leave, within some seconds. */
bool resp_loop_left(const struct resp_loop *loop);
void resp_loop_stats(const struct resp_loop *loop, struct resp_stats *out);
/* Asserts RESPLOOP-1 and RESPLOOP-7, between two turns. For tests. */
void resp_loop_check_invariants(const struct resp_loop *loop);

#endif
