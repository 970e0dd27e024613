/* link.c - one endpoint: a DEALER socket and its monitor.
 *
 * IMMEDIATE keeps messages out of pipes that have no connection behind them: a send then says
 * "not connected" and the message goes elsewhere, instead of waiting unseen. TCP finds a peer
 * that vanished without a word within three seconds; a single stalled request is noticed earlier,
 * by its own time-out. Heartbeats of libzmq would do so as well, but a node that reads one may end
 * by it (node/runtime/system/socket.c).
 *
 * LINK-3  A socket that was opened is closed on every path; a link without a socket is not `up`.
 * LINK-4  Only single-part messages of at most WIRE_MESSAGE_MAX bytes come in (MAXMSGSIZE).
 */
#include "client/lib/link.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum {
    LINGER_MS = 10, /* for the GOODBYE at close */
    RECONNECT_MS = 50,
    RECONNECT_MAX_MS = 2000,
    HANDSHAKE_MS = 2000,
    ASK_AFTER_S = 1, /* of silence; then each second */
    LOST_MS = 3000,
    PIPE_MESSAGES = 10000
};

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

static int set_options(void *socket, const char *endpoint, const struct client_keys *keys)
{
    const int64_t message_max = WIRE_MESSAGE_MAX;
    int failed = zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &message_max, sizeof message_max);

    failed |= set_int(socket, ZMQ_LINGER, LINGER_MS);
    failed |= set_int(socket, ZMQ_IMMEDIATE, 1);
    failed |= set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    failed |= set_int(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    failed |= set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
    failed |= set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    failed |= set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, ASK_AFTER_S);
    failed |= set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, ASK_AFTER_S);
    failed |= set_int(socket, ZMQ_TCP_MAXRT, LOST_MS);
    failed |= set_int(socket, ZMQ_SNDHWM, PIPE_MESSAGES);
    failed |= set_int(socket, ZMQ_RCVHWM, PIPE_MESSAGES);
    /* Only for a literal address: a name that also has an IPv6 address would miss IPv4 nodes. */
    failed |= set_int(socket, ZMQ_IPV6, strchr(endpoint, '[') != NULL);
    if (keys->server[0] != '\0') {
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->server, 40);
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public, 40);
        failed |= zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret, 40);
    }
    return failed;
}

static int open_monitor(struct client_link *link, void *context, uint64_t name)
{
    char address[64];

    (void)snprintf(address, sizeof address, "inproc://tidegate-monitor-%" PRIu64, name);
    if (zmq_socket_monitor(
            link->socket, address,
            ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
                ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) != 0)
        return -1;
    link->monitor = zmq_socket(context, ZMQ_PAIR);
    if (link->monitor == NULL)
        return -1;
    (void)set_int(link->monitor, ZMQ_LINGER, 0);
    return zmq_connect(link->monitor, address);
}

int client_link_open(struct client_link *link, void *context, const struct client_keys *keys,
                     uint64_t name)
{
    ASSERT(link->socket == NULL && !link->up); /* LINK-3 */
    link->socket = zmq_socket(context, ZMQ_DEALER);
    if (link->socket == NULL) {
        (void)snprintf(link->reason, sizeof link->reason, "no socket: %s", zmq_strerror(errno));
        return TG_ENOMEM;
    }
    if (set_options(link->socket, link->endpoint, keys) != 0 ||
        open_monitor(link, context, name) != 0 || zmq_connect(link->socket, link->endpoint) != 0) {
        (void)snprintf(link->reason, sizeof link->reason, "cannot connect: %s",
                       zmq_strerror(errno));
        client_link_close(link);
        return TG_EIO;
    }
    link->checks_max = WIRE_CHECKS_MAX;
    link->message_max = WIRE_MESSAGE_MAX;
    (void)snprintf(link->reason, sizeof link->reason, "connecting");
    return 0;
}

void client_link_close(struct client_link *link)
{
    if (link->socket != NULL) {
        (void)zmq_socket_monitor(link->socket, NULL, 0);
        (void)zmq_close(link->socket);
    }
    if (link->monitor != NULL)
        (void)zmq_close(link->monitor);
    link->socket = NULL;
    link->monitor = NULL;
    link->up = false;
    link->welcomed = false;
}

/* One monitor event: a frame with the number and a value, then a frame with the address. */
static bool read_event(void *monitor, uint16_t *event)
{
    uint8_t head[6];
    char address[256];
    const int len = zmq_recv(monitor, head, sizeof head, ZMQ_DONTWAIT);

    if (len != (int)sizeof head)
        return false;
    memcpy(event, head, sizeof *event); /* in the machine's order, as libzmq documents */
    (void)zmq_recv(monitor, address, sizeof address, ZMQ_DONTWAIT);
    return true;
}

static bool has_name(const char *endpoint)
{
    const char *host = strstr(endpoint, "//") + 2;

    return host[0] != '[' && host[strspn(host, "0123456789.:")] != '\0';
}

static const char *reason_of(uint16_t event, const char *endpoint)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return "keys refused";
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return "handshake failed: is this a client endpoint, and are the keys right?";
    case ZMQ_EVENT_DISCONNECTED:
        return "disconnected";
    default:
        return has_name(endpoint) ? "no such host, connection refused or timed out"
                                  : "connection refused or timed out";
    }
}

enum client_link_event client_link_watch(struct client_link *link)
{
    const bool was_up = link->up;
    bool fell = false;
    uint16_t event;

    while (link->monitor != NULL && read_event(link->monitor, &event)) {
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            link->up = true;
            link->stalled_ns = 0;
            link->reason[0] = '\0';
        } else {
            fell |= link->up;
            link->up = false;
            link->welcomed = false;
            (void)snprintf(link->reason, sizeof link->reason, "%s",
                           reason_of(event, link->endpoint));
        }
    }
    if ((was_up || fell) && !link->up)
        return CLIENT_LINK_FELL;
    /* Down and up again between two looks is a rise too: what was sent before is lost. */
    return link->up && (!was_up || fell) ? CLIENT_LINK_ROSE : CLIENT_LINK_QUIET;
}

int client_link_send(struct client_link *link, const void *frame, size_t len)
{
    ASSERT(!link->up || link->socket != NULL); /* LINK-3 */
    if (!link->up || zmq_send(link->socket, frame, len, ZMQ_DONTWAIT) < 0)
        return TG_EUNREACHABLE;
    return 0;
}
