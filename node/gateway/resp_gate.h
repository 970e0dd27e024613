/* resp_gate.h - between Redis clients and a shard: requests in, one CHECKS for many of them out,
 * decisions in, replies out, in order.
 *
 *   bytes of a peer --> resp_gate_take --> reply at once (PING ...)
 *                             |
 *                             v
 *                       the open batch --> resp_gate_submit --> frame for the shard
 *                                                                    |
 *   replies of peers <-- resp_gate_answer <-- frame of the shard <---+  at once, or later
 *
 * resp_gate.c tells how order is kept and what is bounded. Pure: memory at the start only; time is
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

enum {
    /* Checks of one batch: as many as the engine asks memory for at a time. */
    RESP_BATCH_MAX = 64,
    /* Batches without an answer. Each that waits takes a place at the shard as well. */
    RESP_BATCHES_MAX = 1 << 11,
    RESP_TIMEOUT_MS = 1000, /* in which a batch is to be decided */
    /* Bytes of a reply to CL.THROTTLE, to a check by rules, to one that asks for the message; of
     * any of these. */
    RESP_THROTTLE_MAX = 192,
    RESP_CHECK_MAX = 384,
    RESP_ANSWER_MAX = 704,
    /* A peer's `out` has so much room when it is given to resp_gate_take. */
    RESP_OUT_LEN = 16 << 10
};

/* `session`: random, like no other of the cluster; `stats` is the caller's to read. */
MUST_USE int resp_gate_new(const struct allocator *allocator, uint64_t session,
                           const struct resp_facts *facts, struct resp_gate **out);
void resp_gate_free(struct resp_gate **gate);
struct resp_stats *resp_gate_stats(struct resp_gate *gate);
void resp_gate_now(struct resp_gate *gate, int64_t now_ns);

/* Why no more was taken. */
enum resp_stop {
    RESP_NEED_BYTES,  /* the last request is not complete */
    RESP_NEED_SUBMIT, /* the open batch is full: submit it, then go on */
    RESP_NEED_ANSWER, /* what follows waits for answers to checks of this peer: go on then */
    RESP_NEED_ROOM,   /* `out` is full: send it, then go on */
    RESP_AT_END,      /* the peer is closing */
};

/* Takes requests from the peer's bytes; *used tells how many. `token` names the peer later. */
enum resp_stop resp_gate_take(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                              const char *data, size_t len, size_t *used);

/* The frame of the open batch, which is closed by that; 0 if there is nothing in it. It lives until
 * the next call. */
size_t resp_gate_submit(struct resp_gate *gate, const uint8_t **frame);

/* Finds the peer of a token; NULL if it is gone. */
struct resp_finder {
    struct resp_peer *(*find)(void *context, uint64_t token);
    void *context;
};
/* Takes a frame that the shard sent, and writes the replies. */
void resp_gate_answer(struct resp_gate *gate, const void *frame, size_t len,
                      const struct resp_finder *finder);
/* Gives up batches that have had no answer for too long: BUSY to all in them. Now and then. */
void resp_gate_expire(struct resp_gate *gate, const struct resp_finder *finder);
/* Batches that wait for an answer. */
uint32_t resp_gate_waiting(const struct resp_gate *gate);
/* Asserts RESPGATE-5; and RESPGATE-1 and RESPGATE-2 of the peer that the token names. For tests. */
void resp_gate_check_invariants(const struct resp_gate *gate);
void resp_gate_check_peer(const struct resp_gate *gate, const struct resp_peer *peer,
                          uint64_t token);

#endif
