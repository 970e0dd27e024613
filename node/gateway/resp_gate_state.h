/* resp_gate_state.h - what the files of the gate of Redis clients share; resp_gate.h is for others.
 *
 *   resp_batch.c        batches, and the checks in them
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
#include "node/gateway/resp_check.h"
#include "node/gateway/resp_command.h"
#include "node/gateway/resp_gate.h"
#include "node/gateway/throttle.h"

enum {
    RESP_PLACE_BITS = 11,
    RESP_NO_BATCH = UINT16_MAX,
    RESP_VALUES_LEN = 1 << 19 /* of a batch: no single check needs as much */
};

/* A command on keys asks as often as it has keys, or twice; the last of these has the reply. */
enum ask {
    ASK_THROTTLE,
    ASK_CHECK,
    ASK_LOAD,
    ASK_KEY, /* those from here on are of commands on keys */
    ASK_KEY_NEW,
    ASK_KEY_TYPE,
    ASK_KEY_TTL,
    ASK_KEY_PTTL
};

struct item {
    uint64_t token;
    uint8_t ask;
    bool answered;
    bool says;  /* ASK_CHECK: with the message, */
    bool tells; /* with the status */
    bool more;  /* of a command on keys: others of it follow */
    struct throttle_asked throttle;
};

struct batch {
    uint64_t seq; /* 0: free */
    int64_t submitted_ns;
    uint16_t next_free;
    uint16_t count;
    struct item *items; /* [RESP_BATCH_MAX] */
};

struct resp_gate {
    const struct allocator *allocator;
    uint64_t session;
    uint64_t serial;
    uint64_t answers; /* that came */
    struct resp_facts facts;
    struct gateway_stats *stats; /* the caller's */
    struct resp_queues queues;   /* of transactions */
    uint16_t first_free;
    uint16_t open; /* the batch that is being filled, or RESP_NO_BATCH */
    uint32_t waiting;
    bool loads;         /* the open batch is a report of a pool's load, and nothing else */
    struct limit limit; /* of the template made last */
    int limit_template; /* its index in the open batch, < 0: none */
    struct batch batches[RESP_BATCHES_MAX];
    struct item items[RESP_BATCHES_MAX * RESP_BATCH_MAX]; /* the first ones are used most */
    struct wire_checks_builder builder;
    struct wire_decisions_space space;
    struct resp_request request;
    struct resp_check check;
    uint8_t values[RESP_VALUES_LEN];
    char key[WIRE_VALUE_MAX]; /* with its database */
    uint8_t frame[WIRE_MESSAGE_MAX];
    size_t load_len; /* of a frame of a load */
};

/* What became of a request. */
enum took { TOOK, TOOK_NOT };

/* The open batch, opened if there is none; NULL if all are out. */
struct batch *resp_batch_open(struct resp_gate *gate);
/* Takes a check that the builder has into the open batch, for the peer. */
void resp_batch_add(struct resp_gate *gate, struct resp_peer *peer, const struct item *item);
/* The template of an inline limit in the open batch, or TG_EFULL. Clients use few limits, so mostly
 * it is the one before. */
int resp_batch_template(struct resp_gate *gate, const struct limit *limit);
/* The submitted batch of that number, or NULL. */
struct batch *resp_batch_find(struct resp_gate *gate, uint64_t seq);
/* The item is answered now; `peer` is whose it is, NULL: it is gone. */
void resp_batch_settle(struct resp_peer *peer, struct item *item);
/* The batch is free again: all in it are answered. */
void resp_batch_release(struct resp_gate *gate, struct batch *batch);

/* The key in the peer's database: those of number 0 are the keys of native clients, too. NULL, or
 * what is wrong with the key. It lives until the next one is asked for. */
const char *resp_key_of(struct resp_gate *gate, const struct resp_peer *peer, struct wire_text key,
                        struct wire_text *out);
/* Takes a command on keys, DEL to UNLINK, into the open batch. */
enum took resp_keys_take(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                         enum resp_command_id id);
/* One of the asks of a command on keys is answered; `failed` is NULL if it was decided. */
void resp_keys_answer(struct resp_peer *peer, const struct item *item,
                      const struct wire_decision *decision, const char *failed);

/* MULTI, EXEC or DISCARD. What EXEC lets go is taken by resp_gate_take before anything else. */
void resp_transaction_take(struct resp_gate *gate, struct resp_peer *peer, enum resp_command_id id);
/* Whether the command is kept for EXEC: not one that ends a transaction, or the connection. */
bool resp_transaction_keeps(const struct resp_peer *peer, const struct resp_command *command);
/* Keeps the request at hand, which came as `data`, for EXEC. */
enum took resp_transaction_keep(struct resp_gate *gate, struct resp_peer *peer,
                                const struct resp_command *command, const char *data, size_t len);
void resp_transaction_end(struct resp_gate *gate, struct resp_peer *peer);

#endif
