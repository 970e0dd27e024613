/* resp_gate_state.h - what the files of the gate of Redis clients share; resp_gate.h is for others.
 *
 *   resp_batch.c        limits and faults of checks in the open batch (batches.h)
 *   resp_gate.c         requests in, frames for the shard, decisions, replies in order
 *   resp_keys.c         keys and their databases, and the commands on keys
 *   resp_transaction.c  MULTI, EXEC, DISCARD, and what is between them
 */
#ifndef NODE_GATEWAY_RESP_GATE_STATE_H
#define NODE_GATEWAY_RESP_GATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/protocol/wire.h"
#include "node/gateway/batches.h"
#include "node/gateway/resp_check.h"
#include "node/gateway/resp_command.h"
#include "node/gateway/resp_gate.h"
#include "node/gateway/throttle.h"

#define RESP_BUSY "BUSY the node has more requests than it can decide; try again later"

/* A command on keys is a call of as many checks as it has keys, or twice as many. */
enum ask {
    ASK_THROTTLE,
    ASK_CHECK,
    ASK_LOAD,
    ASK_KEY,     /* those from here on are of commands on keys */
    ASK_KEY_NEW, /* each is looked at, and made new by the next check */
    ASK_KEY_TYPE,
    ASK_KEY_TTL,
    ASK_KEY_PTTL
};

struct item {
    struct batch_call call;
    uint8_t ask;
    bool says;  /* ASK_CHECK: with the message, */
    bool tells; /* with the status */
    struct throttle_asked throttle;
};

struct resp_gate {
    const struct allocator *allocator;
    struct resp_facts facts;
    struct gateway_stats *stats; /* the caller's */
    struct resp_queues queues;   /* of transactions */
    struct batches *batches;     /* their calls are struct item */
    struct batch_user user;
    struct limit limit;   /* of the template made last */
    uint64_t limit_batch; /* the seq of the batch that it is in, */
    int limit_template;   /* and its index there */
    struct resp_request request;
    struct access access; /* of who has sent it */
    struct resp_check check;
    struct throttle throttle;
    char key[WIRE_VALUE_MAX]; /* with its database */
};

/* What became of a request. */
enum took { TOOK, TOOK_NOT };

/* The template of an inline limit in the open batch, or TG_EFULL. Clients use few limits, so mostly
 * it is the one before. */
int resp_batch_template(struct resp_gate *gate, const struct limit *limit);

/* Takes back what was appended for the request at hand: the batch is as it was. */
void resp_batch_cancel(struct resp_gate *gate);
/* What went wrong with a decision, or NULL. */
const char *resp_batch_fault(const struct wire_decision *decision);

/* The key in the peer's database: those of number 0 are the keys of native clients, too. NULL, or
 * what is wrong with the key. It lives until the next one is asked for. */
const char *resp_key_of(struct resp_gate *gate, const struct resp_peer *peer, struct wire_text key,
                        struct wire_text *out);
/* What a command on keys asks, DEL to UNLINK, and by how many checks. NULL, or why it may not be
 * asked. */
const char *resp_keys_read(struct resp_gate *gate, const struct resp_peer *peer,
                           enum resp_command_id id, struct item *item, uint32_t *checks);
/* Appends these. 0, or TG_EFULL. */
MUST_USE int resp_keys_append(struct resp_gate *gate, const struct resp_peer *peer,
                              const struct item *item);
/* All of them are decided. */
void resp_keys_answer(const struct item *item, const struct wire_decisions *decisions,
                      struct gateway_out *out);

/* MULTI, EXEC or DISCARD. What EXEC lets go is taken by resp_gate_take before anything else. */
void resp_transaction_take(struct resp_gate *gate, struct resp_peer *peer, enum resp_command_id id);
/* Whether the command is kept for EXEC: not one that ends a transaction, or the connection. */
bool resp_transaction_keeps(const struct resp_peer *peer, const struct resp_command *command);
/* Keeps the request at hand, which came as `data`, for EXEC. */
enum took resp_transaction_keep(struct resp_gate *gate, struct resp_peer *peer,
                                const struct resp_command *command, const char *data, size_t len);
void resp_transaction_end(struct resp_gate *gate, struct resp_peer *peer);

#endif
