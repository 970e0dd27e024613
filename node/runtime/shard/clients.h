/* clients.h - what clients ask of a shard: read from their ROUTER and decided, in a turn's time.
 *
 *     at ease      read --> decide                          one after the other, until none is left
 *     overloaded   read ahead --> intake --> decide         each connection in its turn
 *                            \--> refuse                    more than can be decided soon
 *
 * A shard is overloaded when it has not read its socket empty for CLIENTS_BEHIND_NS; it is at ease
 * again when it has, and has decided all that it read (intake.h): though more may have come since.
 *
 * CLIENTS-1  A turn decides for about CLIENTS_DECIDE_US, and reads ahead for CLIENTS_AHEAD_US at
 *            most: what is refused can cost no more than that share of the time, however much is
 *            sent. What is not read then waits in libzmq and TCP, whose fair queueing is by
 *            connections, too.
 * CLIENTS-2  A connection's messages are decided in the order in which they came.
 * CLIENTS-3  Memory: of what waits, INTAKE-3.
 *
 * It belongs to the shard's thread.
 */
#ifndef NODE_RUNTIME_SHARD_CLIENTS_H
#define NODE_RUNTIME_SHARD_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct clock;

enum {
    CLIENTS_DECIDE_US = 2000,
    CLIENTS_AHEAD_US = 400,
    CLIENTS_BURST = 256, /* messages that are decided in a turn, at ease */
    CLIENTS_BEHIND_NS = 10 * 1000 * 1000,
};

/* A message: `data` lives until the return; several frames are told as none, of length 0. */
typedef void clients_take(void *context, uint64_t connection, const void *data, size_t len);

struct clients_options {
    void *socket; /* ROUTER; stays the caller's */
    const struct clock *clock;
    clients_take *decide;
    clients_take *refuse; /* it is not to be decided: there is too much to do */
    void *context;
};

struct clients;

/* 0 or TG_ENOMEM. */
MUST_USE int clients_new(const struct clients_options *options, struct clients **out);
/* What waits is dropped. */
void clients_free(struct clients **clients);

/* One turn. True if there is more to do: another turn is due without waiting for the socket. */
bool clients_turn(struct clients *clients);
/* Whether something was read and is not decided yet. */
bool clients_waiting(const struct clients *clients);

#endif
