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
#include "node/gateway/resp_queue.h"
#include "node/gateway/resp_user.h"
#include "node/gateway/resp_writer.h"

enum {
    RESP_NAME_LEN = 64, /* of a connection, with its NUL */
    RESP_DATABASES = 16,
    RESP_LOCAL_MAX = 12 << 10, /* bytes of an answer given here, at most */
    RESP_ECHO_MAX = 8 << 10    /* bytes of a text that is given back */
};

/* What is told of the node; `name`, `version` and `stats` are borrowed. */
struct resp_facts {
    uint64_t node_id;
    const _Atomic uint64_t *keys; /* that the node has; NULL: unknown */
    const char *name;
    const char *version;
    const struct gateway_stats *stats;
    uint32_t connections_max;
    uint16_t port;
    const char *told_host; /* where clients of a cluster or sentinel are told to connect, "" or */
    uint16_t told_port;    /* NULL: where they came; borrowed */
    int64_t started_ns;
    int64_t now_ns;
    uint8_t anonymous;           /* roles of who has shown no token */
    const struct policy *policy; /* in force; NULL: none is yet. It lives until the next one is */
};

/* A connection. */
struct resp_peer {
    struct gateway_peer base;
    char name[RESP_NAME_LEN];
    struct access_kept user;
    uint8_t database;        /* that it has selected */
    bool queues;             /* between MULTI and EXEC */
    bool spoiled;            /* one of the commands since MULTI was refused */
    struct resp_queue queue; /* of these, or what EXEC has left of them */
    uint32_t channels;       /* that it has subscribed to */
};

/* A peer that has connected: all zero but for what `base` has by then. */
void resp_peer_init(struct resp_peer *peer);

/* By what users are told apart now. */
struct resp_users resp_local_users(const struct resp_facts *facts);

/* Answers `request`, which fits `command`, one with an id above RESP_TG_LOAD, into peer->out, which
 * has room for RESP_LOCAL_MAX bytes. */
void resp_local(const struct resp_facts *facts, struct resp_peer *peer,
                const struct resp_command *command, const struct resp_request *request);

#endif
