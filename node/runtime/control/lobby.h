/* lobby.h - who answers clients before there are shards: with what the node waits for.
 *
 *   not joined yet: clients' listeners --> lobby --> UNAVAILABLE, and the reason, at once
 *   joined:         the same listeners --> shards
 *
 * Its connections are closed when the shards begin, and their clients come again. The control
 * loop's, which looks at it at every turn.
 */
#ifndef NODE_RUNTIME_CONTROL_LOBBY_H
#define NODE_RUNTIME_CONTROL_LOBBY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "node/runtime/system/clock.h"

enum { LOBBY_CONNECTIONS_MAX = 64 /* of a protocol */ };

struct http_facts;
struct lobby;

struct lobby_options {
    const int *native;     /* listeners of native clients, -1 for none; they stay the caller's */
    uint32_t native_count; /* at most LOBBY_LISTENERS_MAX */
    const int *redis;      /* those of Redis clients, likewise */
    uint32_t redis_count;
    const int *http; /* those of HTTP clients, likewise */
    uint32_t http_count;
    uint64_t http_session;               /* not 0 */
    const struct http_facts *http_facts; /* those of the shards: who may ask, and by which name */
    const struct clock *clock;
};

enum { LOBBY_LISTENERS_MAX = 168 };

/* 0, TG_ENOMEM or TG_EIO. */
MUST_USE int lobby_new(const struct lobby_options *options, struct lobby **out);
/* Closes its connections; NULL inside is allowed. */
void lobby_free(struct lobby **lobby);
/* Takes who comes, and answers all that was asked. */
void lobby_turn(struct lobby *lobby, const char *why);

#endif
