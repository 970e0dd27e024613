/* clients.h - what native clients ask of a shard: decided as it is read, or in a turn's time.
 *
 *     at ease      take --> decide                          one after the other, until none is left
 *     overloaded   take --> intake, then decide             each connection in its turn
 *                      \--> refuse                          more than can be decided soon
 *
 * A shard is overloaded when its connections have not been read empty for CLIENTS_BEHIND_NS; it is
 * at ease again when they have, and all that was read is decided (intake.h): though more may have
 * come since.
 *
 * CLIENTS-1  A turn decides for about CLIENTS_DECIDE_US, and reads ahead for CLIENTS_AHEAD_US at
 *            most: what is refused can cost no more than that share of the time, however much is
 *            sent. What is not taken then waits in TCP, and each connection is read in its turn.
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
typedef void clients_take_fn(void *context, uint64_t connection, const void *data, size_t len);

struct clients_options {
    const struct clock *clock;
    clients_take_fn *decide;
    clients_take_fn *refuse; /* it is not to be decided: there is too much to do */
    void *context;
};

struct clients;

/* 0 or TG_ENOMEM. */
MUST_USE int clients_new(const struct clients_options *options, struct clients **out);
/* What waits is dropped. */
void clients_free(struct clients **clients);

/* A turn begins. */
void clients_begin(struct clients *clients);
/* Takes a message. False: this turn has taken enough, and it is to come again in the next one. */
bool clients_take(struct clients *clients, uint64_t connection, const void *data, size_t len);
/* Reading ends in this turn, with nothing left if `empty`: decides what waits. */
void clients_end(struct clients *clients, bool empty);
/* Decides all that waits, however long it takes: the shard refuses it all by now. */
void clients_finish(struct clients *clients);
/* Calls `fn` for each connection of which something was taken and is not decided yet. */
void clients_each_waiting(const struct clients *clients,
                          void (*fn)(void *context, uint64_t connection), void *context);
/* Whether something was taken and is not decided yet: another turn is due. */
bool clients_waiting(const struct clients *clients);

#endif
