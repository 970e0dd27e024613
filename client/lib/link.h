/* link.h - one endpoint of the cluster: a DEALER socket, its monitor, and how it fares.
 *
 *            open                 handshake done              HELLO answered
 *   CLOSED --------> CONNECTING ----------------> UP ---------------------> UP, welcomed
 *      ^                 ^  \                      |
 *      |   close         |   refused, retried      | disconnected
 *      +---- (any) ------+-------------------------+
 *
 * ZeroMQ reconnects by itself; the monitor tells when, so that messages move to another endpoint
 * at once and not after a time-out.
 *
 * LINK-1  A link belongs to the I/O thread: no other thread may touch it (ZeroMQ's rule).
 * LINK-2  `up` is true only between a finished handshake and the next disconnection.
 */
#ifndef CLIENT_LIB_LINK_H
#define CLIENT_LIB_LINK_H

#include <zmq.h>

#include "base/error.h"

#include "client/include/tidegate.h"
#include "client/lib/endpoints.h"
#include "client/lib/items.h"
#include "client/lib/window.h"
#include "client/protocol/wire.h"

enum { CLIENT_LINK_REASON_LEN = 96 };

/* CURVE keys in Z85 with their NUL; empty strings = no CURVE. */
struct client_keys {
    char server[41];
    char public[41];
    char secret[41];
};

enum client_link_event {
    CLIENT_LINK_QUIET, /* nothing of note */
    CLIENT_LINK_ROSE,  /* came up */
    CLIENT_LINK_FELL   /* went down */
};

struct client_link {
    char endpoint[CLIENT_ENDPOINT_LEN]; /* "" = this number is free */
    void *socket;                       /* NULL = not connected yet */
    void *monitor;
    bool up;
    bool configured;       /* given to tg_open: never dropped */
    bool in_ring;          /* named by the present ring */
    bool welcomed;         /* WELCOME came since it came up */
    bool waits;            /* instead, the node has said that it does not serve yet */
    int refused;           /* 0, or why this node is of no use (TG_EVERSION ...) */
    int64_t stalled_ns;    /* it let a message time out: avoided until then */
    uint64_t view_version; /* of the ring it was last asked for; its own count */
    uint32_t checks_max;   /* of WELCOME, else the protocol's */
    uint32_t message_max;
    struct client_window window;
    struct client_queue queue;           /* items that wait to be built into messages for it */
    char reason[CLIENT_LINK_REASON_LEN]; /* why it is down, for people */
};

/* Connects the link's endpoint. TG_EIO, TG_ENOMEM; then the link stays closed, with a reason. */
MUST_USE int client_link_open(struct client_link *link, void *context,
                              const struct client_keys *keys, uint64_t name);
/* Closes the sockets; what was handed over in the last moments still goes out. */
void client_link_close(struct client_link *link);
/* Reads all events of the monitor. */
enum client_link_event client_link_watch(struct client_link *link);
/* Sends one frame without waiting. 0, or TG_EUNREACHABLE (not connected, or its pipe is full). */
MUST_USE int client_link_send(struct client_link *link, const void *frame, size_t len);

#endif
