/* zmtp.h - ZMTP 3.0 and 3.1, the wire protocol of ZeroMQ, as a ROUTER that takes DEALERs, mechanism
 * NULL (https://rfc.zeromq.org/spec/23, https://rfc.zeromq.org/spec/37).
 *
 *   client   greeting 64 bytes, READY {Socket-Type: DEALER} --> messages, PING ...
 *   node     greeting 64 bytes, READY {Socket-Type: ROUTER} --> messages, PONG ...
 *
 *              64 bytes of 3.x          READY of a DEALER
 *   GREETING --------------> HANDSHAKE ------------------> TRAFFIC
 *      |                         |                           |
 *      +-------- anything else --+-- ERROR and a close <-----+ MORE, a frame that is too long,
 *                                                              reserved flags
 *
 * A message is one frame, as the client protocol has it. It is handed on as it lies in the bytes of
 * its connection: nothing is copied here.
 *
 * Pure. The thread of the connections.
 */
#ifndef NODE_GATEWAY_ZMTP_H
#define NODE_GATEWAY_ZMTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/protocol/wire.h"
#include "node/gateway/gateway.h"

enum {
    ZMTP_GREETING_LEN = 64,
    ZMTP_HEAD_MAX = 9,       /* of a frame */
    ZMTP_COMMAND_MAX = 4096, /* of the body of a command */
    ZMTP_PENDING_MAX = WIRE_MESSAGE_MAX + ZMTP_HEAD_MAX,
    ZMTP_CONTEXT_MAX = 16,      /* of a PING, which its PONG repeats */
    ZMTP_PONGS_MAX = 50,        /* a second to a peer; further PINGs have no answer */
    ZMTP_UNSENT_MAX = 256 << 10 /* more of one peer's answers unsent: nothing is taken */
};

enum zmtp_state { ZMTP_GREETING, ZMTP_HANDSHAKE, ZMTP_TRAFFIC };

struct zmtp_peer {
    struct gateway_peer base;
    uint8_t state; /* enum zmtp_state */
    uint8_t pongs; /* in the second that began at pong_ns */
    int64_t pong_ns;
};

/* The state of the codec for all its peers: filled in by the caller, and its own. */
struct zmtp_gate {
    /* Takes a message of the peer's; several frames that belong together are told as none, of
     * length 0. What the shard answers at once may be put to the peer before the return. False: not
     * in this turn, and it is offered again. */
    bool (*message)(void *context, uint64_t token, const void *data, size_t len);
    void *context;
    struct gateway_stats *stats;
    int64_t now_ns;
};

/* The protocol for a loop; its `gate` is a struct zmtp_gate. */
extern const struct gateway_codec zmtp_codec;

#endif
