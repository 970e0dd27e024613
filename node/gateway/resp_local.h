/* resp_local.h - what a node answers to a Redis client by itself: who it is, who the client is.
 *
 * Pure. The thread of the connection.
 */
#ifndef NODE_GATEWAY_RESP_LOCAL_H
#define NODE_GATEWAY_RESP_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "node/gateway/resp_command.h"
#include "node/gateway/resp_parser.h"
#include "node/gateway/resp_writer.h"

enum {
    RESP_NAME_LEN = 64,        /* of a connection, with its NUL */
    RESP_ADDRESS_LEN = 64,     /* likewise */
    RESP_LOCAL_MAX = 12 << 10, /* bytes of an answer given here, at most */
    RESP_ECHO_MAX = 8 << 10    /* bytes of a text that is given back */
};

/* What has been counted since the start, but for `connections`. */
struct resp_stats {
    uint64_t connections; /* open now */
    uint64_t accepted;
    uint64_t refused;         /* closed at once: there were too many */
    uint64_t accept_failures; /* the machine gave no descriptor */
    uint64_t commands;        /* of any kind */
    uint64_t checks;          /* of these: for the shard */
    uint64_t batches;         /* in which they came to it */
    uint64_t busy;            /* of these: answered BUSY */
    uint64_t protocol_errors; /* connections closed for what they sent */
    uint64_t slow_readers;    /* connections closed for not reading */
    uint64_t crowded;         /* connections closed for want of room for what they had sent */
    uint64_t late;            /* batches given up: no answer came */
    uint64_t polls; /* looks for clients that were about to ask (node/runtime/system/busy_poll.h) */
};

/* What is told of the node; `name`, `version` and `stats` are borrowed. */
struct resp_facts {
    const char *name;
    const char *version;
    const struct resp_stats *stats;
    uint32_t connections_max;
    uint16_t port;
    int64_t started_ns;
    int64_t now_ns;
};

/* A connection, as far as the protocol is concerned. */
struct resp_peer {
    uint64_t id;            /* of its process's connections, from 1 on */
    struct resp_writer out; /* where replies to it go; `protocol` is the one it speaks */
    uint64_t batch;         /* the batch its checks are in, while `waiting` */
    uint64_t held;          /* the answer that left a check of it pending: others of it wait */
    uint32_t waiting;       /* checks taken and not answered */
    uint32_t reserved;      /* bytes of `out` that their answers may take */
    bool closing;           /* nothing is taken any more: it goes when all is answered and sent */
    char name[RESP_NAME_LEN];
    char address[RESP_ADDRESS_LEN];
};

/* A peer as it is when it has connected; `address` may be cut. */
void resp_peer_init(struct resp_peer *peer, uint64_t id, const char *address);

/* Answers `request`, which fits `command`, one with an id above RESP_TG_LOAD, into peer->out, which
 * has room for RESP_LOCAL_MAX bytes. */
void resp_local(const struct resp_facts *facts, struct resp_peer *peer,
                const struct resp_command *command, const struct resp_request *request);

#endif
