/* lobby.h - who answers clients before there are shards: with what the node waits for.
 *
 *   not joined yet: clients' sockets --> lobby --> UNAVAILABLE, and the reason, at once
 *   joined:         the same sockets --> shards
 *
 * Its connections of Redis clients are closed when the shards begin, who then accept them again;
 * those of native clients go on. The control loop's, which looks at it at every turn.
 */
#ifndef NODE_RUNTIME_CONTROL_LOBBY_H
#define NODE_RUNTIME_CONTROL_LOBBY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "node/runtime/system/socket.h"

enum { LOBBY_CONNECTIONS_MAX = 64, LOBBY_BYTES = 4096 };

struct lobby;

/* 0 or TG_ENOMEM. */
MUST_USE int lobby_new(struct lobby **out);
/* Closes its connections; NULL inside is allowed. */
void lobby_free(struct lobby **lobby);
/* Answers all that has come in at a native socket. */
void lobby_answer(struct lobby *lobby, void *router, const char *why);
/* Takes connections of Redis clients at a listener, -1 for none. */
void lobby_accept(struct lobby *lobby, int listener);
/* Answers all that these have sent. */
void lobby_answer_redis(struct lobby *lobby, const char *why);

#endif
