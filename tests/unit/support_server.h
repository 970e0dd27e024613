/* support_server.h - a node that a test scripts: a ROUTER in a thread that speaks the protocol.
 *
 * It answers HELLO and GET_RING from what the test set up, and CHECKS by its mode; it notes
 * each CHECKS. Waits are for a condition, with a deadline.
 */
#ifndef TESTS_UNIT_SUPPORT_SERVER_H
#define TESTS_UNIT_SUPPORT_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SERVER_LEASES_MAX = 1024,
    SERVER_NOTES_MAX = 256,
    SERVER_KEY_LEN = 64,
    SERVER_WAIT_MS = 30000
};

enum server_mode {
    SERVER_ANSWER,    /* allow everything; rule, window, node as below */
    SERVER_DENY,      /* deny every check, as server_set_denial says */
    SERVER_SWALLOW,   /* note and say nothing */
    SERVER_BUSY,      /* ERROR TG_EBUSY */
    SERVER_NOT_YET,   /* ERROR TG_EUNAVAILABLE once, then answer */
    SERVER_MALFORMED, /* DECISIONS with a body of noise */
    SERVER_SHORT,     /* DECISIONS for one item too few, or too many if there is one */
    SERVER_VERSION    /* ERROR TG_EVERSION to everything */
};

/* One CHECKS as it came in. */
struct server_note {
    uint64_t session;
    uint64_t seq;
    uint32_t flags;
    uint32_t count;
    uint32_t timeout_ms;
    uint8_t operation;        /* of the first item */
    uint64_t cost;            /* of the first item */
    uint64_t used;            /* the same, if it states any */
    char key[SERVER_KEY_LEN]; /* first value of the first item */
};

/* How it answers LEASE: with `tokens`, or what was asked for if that is less, for `lease_ms`; 0
 * tokens: with the outcome (enum outcome), status and retry_after_ms. Silent: a message that begins
 * with one is noted, and not answered. At first: outcome error, status 400. */
struct server_leases {
    uint64_t tokens;
    uint32_t lease_ms;
    uint8_t outcome;
    uint16_t status;
    int64_t retry_after_ms;
    bool silent;
};

/* What became of leases so far. */
struct server_tally {
    size_t asked;     /* LEASE items */
    size_t given;     /* leases */
    uint64_t granted; /* tokens */
    size_t released;  /* leases; each id once */
    uint64_t used;    /* of those that were released */
    size_t strange;   /* releases of what was not given, or of more than that */
};

struct server;

/* Starts a server on a free port of the loopback that calls itself `name`. */
struct server *server_new(const char *name, enum server_mode mode);
/* Stops it; clients see the connection close. */
void server_free(struct server **server);
/* "tcp://127.0.0.1:PORT" */
const char *server_endpoint(const struct server *server);
/* The port is `server`'s, but nobody listens: for an endpoint that refuses. */
void server_stop(struct server *server);
void server_set_mode(struct server *server, enum server_mode mode);
/* The ring it tells: `vnodes` vnodes, of which odd ones belong to `odd` and even ones to `even`. */
void server_set_ring(struct server *server, uint32_t vnodes, uint64_t view_version,
                     const char *even, const char *odd);
void server_set_leases(struct server *server, const struct server_leases *leases);
struct server_tally server_tally(struct server *server);
/* Waits until so many leases were asked for, and released; false after SERVER_WAIT_MS. */
bool server_wait_leases(struct server *server, size_t asked, size_t released);
/* What SERVER_DENY says: try again after so long; `steady`: it will not change before. */
void server_set_denial(struct server *server, int64_t retry_after_ms, bool steady);
/* Waits until it has noted `count` CHECKS; false after SERVER_WAIT_MS. */
bool server_wait(struct server *server, size_t count);
size_t server_count(struct server *server);
struct server_note server_note(struct server *server, size_t i);
/* How many GET_RING it answered. */
size_t server_rings(struct server *server);

#endif
