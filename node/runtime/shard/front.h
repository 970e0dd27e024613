/* front.h - the clients of one protocol, as the loop of a shard sees them.
 *
 * It belongs to the shard's thread, but for `told`, which is under the loop's lock.
 */
#ifndef NODE_RUNTIME_SHARD_FRONT_H
#define NODE_RUNTIME_SHARD_FRONT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "node/runtime/shard/connections.h"

struct front {
    struct connections *connections; /* NULL: there are none */
    struct gateway_stats stats;      /* counted by the loop's thread */
    struct gateway_stats told;       /* a copy, under the lock */
    uv_poll_t poll;
    bool due; /* their sockets have something */
};

/* Makes the connections, whose sockets the loop watches from now on. 0, TG_ENOMEM or TG_EIO. */
MUST_USE int front_open(struct front *front, const struct connections_options *options,
                        uv_loop_t *loop);
/* Whether a turn has something to do. */
bool front_has_work(const struct front *front, int64_t now_ns);
/* A turn. */
void front_turn(struct front *front);
/* Whether something is left to do that no socket tells of. */
bool front_is_pending(const struct front *front);
/* Whether a turn has something to do at once. */
bool front_is_busy(const struct front *front);
/* The thread has something else to do: turns do not wait for clients that are about to ask. */
void front_hurry(struct front *front);
/* No client is taken in any more, and those that are there are let go. */
void front_leave(const struct front *front);
/* Whether an answer to something submitted is awaited; whether all have left. */
bool front_waits(const struct front *front);
bool front_has_left(const struct front *front);

#endif
