/* resp_gate.h - between Redis clients and a shard: requests in, one CHECKS for many of them out,
 * decisions in, replies out, in order.
 *
 *   bytes of a peer --> resp_gate_take --> reply at once (PING ...)
 *                             |
 *                             v
 *                       the open batch --> batches_submit --> frame for the shard
 *                                                                    |
 *   replies of peers <---- batches_answer <-- frame of the shard <---+  at once, or later
 *
 * batches.c tells how order is kept and what is bounded. Pure: memory at the start only; time is
 * told. One thread uses a gate and its peers.
 */
#ifndef NODE_GATEWAY_RESP_GATE_H
#define NODE_GATEWAY_RESP_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "client/protocol/wire.h"
#include "node/gateway/resp_local.h"

struct resp_gate;

/* The protocol for a loop; its `gate` is a struct resp_gate. */
extern const struct gateway_codec resp_codec;

enum {
    /* Bytes of a reply to CL.THROTTLE, to a check by rules, to one that asks for the message; of
     * any of these. */
    RESP_THROTTLE_MAX = 192,
    RESP_CHECK_MAX = 384,
    RESP_ANSWER_MAX = 704
};

/* `session`: random, like no other of the cluster; `stats`, all zero, is the caller's and counted
 * up. */
MUST_USE int resp_gate_new(const struct allocator *allocator, uint64_t session,
                           const struct resp_facts *facts, struct gateway_stats *stats,
                           struct resp_gate **out);
void resp_gate_free(struct resp_gate **gate);
void resp_gate_now(struct resp_gate *gate, int64_t now_ns);
/* The policy in force from now on, between two turns: it has to live until the next one is. `gate`
 * may be NULL. */
void resp_gate_policy(struct resp_gate *gate, const struct policy *policy);

/* Takes requests from the peer's bytes; *used tells how many. `token` names the peer later. */
enum gateway_stop resp_gate_take(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                                 const char *data, size_t len, size_t *used);

/* The connection has ended: what its transaction holds is given back. */
void resp_gate_close(struct resp_gate *gate, struct resp_peer *peer);

/* What the shard is asked in, and answers to. */
struct batches *resp_gate_batches(struct resp_gate *gate);

#endif
