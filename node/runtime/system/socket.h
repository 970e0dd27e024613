/* socket.h - the few kinds of ZeroMQ socket that the node uses, with the defaults that it needs.
 *
 * libzmq's defaults are made for other uses: unlimited messages, silent drops, minutes
 * of lingering, connections that are lost and not missed. Every socket is made here, so that none
 * is forgotten.
 *
 * Threads: the context is shared; a socket belongs to one thread at a time. One that is bound by
 * the starting thread may be handed to another before that one uses it.
 */
#ifndef NODE_RUNTIME_SYSTEM_SOCKET_H
#define NODE_RUNTIME_SYSTEM_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { SOCKET_URL_LEN = 300, SOCKET_FRAME_MAX = 1 << 20 };

enum socket_use {
    SOCKET_PEERS,  /* ROUTER for peers' frames */
    SOCKET_GOSSIP, /* ROUTER for gossip */
};

/* The process's one context: 0 or TG_ENOMEM. `sockets_max` bounds all sockets of the process. */
MUST_USE int socket_context_new(int sockets_max, void **context);
void socket_context_free(void **context);

/* A ROUTER bound to host:port. 0, TG_EADDRINUSE, TG_EINVALID (the address is not this machine's)
 * or TG_EIO. */
MUST_USE int socket_bind(void *context, enum socket_use use, const char *host, uint16_t port,
                         void **socket);
/* A DEALER for `endpoint` ("HOST:PORT"), not connected yet (a monitor is attached first). For peers
 * it takes messages only while it is connected; for gossip it keeps a few until it is. 0, TG_EIO.
 */
MUST_USE int socket_connect(void *context, enum socket_use use, const char *endpoint,
                            void **socket);
/* Lets a DEALER connect, and reconnect for ever. 0, or TG_EINVALID for a bad endpoint. */
MUST_USE int socket_join(void *socket, const char *endpoint);
/* A socket that tells when `watched` loses its connection: read it with socket_lost. */
MUST_USE int socket_monitor(void *context, void *watched, uint64_t number, void **monitor);
/* Takes what the monitor has to tell; true if a connection was lost. */
bool socket_lost(void *monitor);
enum socket_listener {
    SOCKET_LISTENS,
    SOCKET_REFUSES, /* the host does, as when the process that listened there has ended */
    SOCKET_UNKNOWN  /* no answer within SOCKET_REFUSED_MS, or `endpoint` is a name */
};
enum { SOCKET_REFUSED_MS = 2 };
/* Whether somebody takes connections to `endpoint` ("HOST:PORT"). Waits SOCKET_REFUSED_MS at most.
 */
enum socket_listener socket_listener(const char *endpoint);
/* Closes without lingering and nulls; NULL is allowed. */
void socket_close(void **socket);

/* The descriptor to poll; it only tells that socket_readable should be asked. -1 on error. */
int socket_fd(void *socket);
bool socket_readable(void *socket);

struct socket_message {
    const void *data; /* lives until the next socket_receive on that socket's `message` */
    size_t len;
    bool odd; /* not exactly one frame behind the routing id */
};

/* The next message of a ROUTER without waiting: 1, or 0 if there is none. Messages of senders that
 * chose their own routing id are dropped: they cannot be told apart safely. `holder` keeps the
 * message's memory: SOCKET_HOLDER_LEN bytes, zeroed at first, released by socket_release. */
enum { SOCKET_HOLDER_LEN = 64 };
struct socket_holder {
    bool held;
    _Alignas(16) unsigned char bytes[SOCKET_HOLDER_LEN];
};
int socket_receive(void *router, struct socket_holder *holder, struct socket_message *out);
void socket_release(struct socket_holder *holder);
/* Sends without waiting: 0, TG_EBUSY (its queue is full) or TG_EUNREACHABLE (no connection). */
int socket_send(void *dealer, const void *data, size_t len);

#endif
