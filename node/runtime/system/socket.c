/* socket.c - ZeroMQ sockets as socket.h promises them.
 *
 * The routing ids that libzmq gives to connections are a zero byte and a 32-bit number.
 */
#include "node/runtime/system/socket.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "base/assert.h"

enum {
    HANDSHAKE_MS = 2000,
    /* How long a connection may be silent until TCP asks, how often it does, and until it is lost:
     * one that is bound, and one that connects. */
    BOUND_IDLE_S = 30,
    BOUND_STEP_S = 10,
    BOUND_LOST_MS = 60000,
    JOINED_IDLE_S = 1,
    JOINED_STEP_S = 1,
    JOINED_LOST_MS = 3000,
    RECONNECT_MS = 10, /* a reset between the living is mended before anybody loses patience */
    RECONNECT_MAX_MS = 500,
    CONNECT_MS = 1000, /* then it is begun anew: TCP asks in vain ever more seldom, and who is in
                        * reach again would not be found for as long as he was not */
    BACKLOG = 1024,
    ROUTING_ID_LEN = 5,
    GOSSIP_QUEUE = 32,
    QUEUE = 2000,
    GOSSIP_UNREAD = 128, /* of one member: each may be as long as a frame may be */
};

static_assert(sizeof(zmq_msg_t) <= SOCKET_HOLDER_LEN, "a message fits its holder");

int socket_context_new(int sockets_max, void **context)
{
    *context = zmq_ctx_new();
    if (*context == NULL)
        return TG_ENOMEM;
    if (zmq_ctx_set(*context, ZMQ_MAX_SOCKETS, sockets_max) == 0 &&
        zmq_ctx_set(*context, ZMQ_BLOCKY, 0) == 0)
        return 0;
    socket_context_free(context);
    return TG_ENOMEM;
}

void socket_context_free(void **context)
{
    if (*context == NULL)
        return;
    while (zmq_ctx_term(*context) != 0 && errno == EINTR)
        continue;
    *context = NULL;
}

static bool set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_common(void *socket, enum socket_use use)
{
    const int64_t frame_max = SOCKET_FRAME_MAX;
    const int queue = use == SOCKET_GOSSIP ? GOSSIP_QUEUE : QUEUE;
    const int unread = use == SOCKET_GOSSIP ? GOSSIP_UNREAD : QUEUE;
    bool ok = zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max) == 0 &&
              set_int(socket, ZMQ_LINGER, 0) && set_int(socket, ZMQ_SNDTIMEO, 0) &&
              set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) &&
              set_int(socket, ZMQ_SNDHWM, queue) && set_int(socket, ZMQ_RCVHWM, unread);
    return ok;
}

/* TCP looks after connections that fell silent, not libzmq's heartbeats: 4.3.4 ends the process
 * (assertion !_io_error) when one is due, or one of the other side is read, on a connection that
 * broke while a full queue had stopped its input. So nothing here sends any. */
static bool set_patience(void *socket, int idle_s, int step_s, int lost_ms)
{
    return set_int(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, idle_s) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, step_s) &&
           set_int(socket, ZMQ_TCP_MAXRT, lost_ms);
}

int socket_bind(void *context, enum socket_use use, const char *host, uint16_t port, void **socket)
{
    char url[SOCKET_URL_LEN];
    const bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(url, sizeof url, v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host, (unsigned)port);
    *socket = zmq_socket(context, ZMQ_ROUTER);
    if (*socket == NULL)
        return TG_EIO;
    if (!set_common(*socket, use) ||
        !set_patience(*socket, BOUND_IDLE_S, BOUND_STEP_S, BOUND_LOST_MS) ||
        !set_int(*socket, ZMQ_ROUTER_MANDATORY, 1) || !set_int(*socket, ZMQ_BACKLOG, BACKLOG) ||
        !set_int(*socket, ZMQ_IPV6, v6)) {
        socket_close(socket);
        return TG_EIO;
    }
    if (zmq_bind(*socket, url) == 0)
        return 0;
    const int error = errno;
    socket_close(socket);
    if (error == EADDRINUSE)
        return TG_EADDRINUSE;
    return error == EINVAL || error == ENODEV || error == EADDRNOTAVAIL ? TG_EINVALID : TG_EIO;
}

int socket_connect(void *context, enum socket_use use, const char *endpoint, void **socket)
{
    *socket = zmq_socket(context, ZMQ_DEALER);
    if (*socket == NULL)
        return TG_EIO;
    if (!set_common(*socket, use) ||
        (use != SOCKET_GOSSIP &&
         !set_patience(*socket, JOINED_IDLE_S, JOINED_STEP_S, JOINED_LOST_MS)) ||
        !set_int(*socket, ZMQ_IMMEDIATE, use != SOCKET_GOSSIP) ||
        !set_int(*socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) ||
        !set_int(*socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS) ||
        !set_int(*socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS) ||
        !set_int(*socket, ZMQ_IPV6, endpoint[0] == '[')) {
        socket_close(socket);
        return TG_EIO;
    }
    return 0;
}

int socket_join(void *socket, const char *endpoint)
{
    char url[SOCKET_URL_LEN];
    (void)snprintf(url, sizeof url, "tcp://%s", endpoint);
    return zmq_connect(socket, url) == 0 ? 0 : TG_EINVALID;
}

int socket_monitor(void *context, void *watched, uint64_t number, void **monitor)
{
    char url[64];
    (void)snprintf(url, sizeof url, "inproc://monitor-%llu", (unsigned long long)number);
    *monitor = NULL;
    if (zmq_socket_monitor(watched, url, ZMQ_EVENT_DISCONNECTED) != 0)
        return TG_EIO;
    *monitor = zmq_socket(context, ZMQ_PAIR);
    if (*monitor != NULL && set_int(*monitor, ZMQ_LINGER, 0) && zmq_connect(*monitor, url) == 0)
        return 0;
    socket_close(monitor);
    return TG_EIO;
}

bool socket_lost(void *monitor)
{
    bool lost = false;
    for (;;) {
        unsigned char event[16];
        const int len = zmq_recv(monitor, event, sizeof event, ZMQ_DONTWAIT);
        if (len < 0)
            return lost;
        char address[SOCKET_URL_LEN];
        (void)zmq_recv(monitor, address, sizeof address, ZMQ_DONTWAIT);
        lost = true;
    }
}

/* The numeric address of an endpoint; false for a name, which takes too long to look up. */
static bool address_of(const char *endpoint, struct sockaddr_storage *address, socklen_t *len)
{
    char host[SOCKET_URL_LEN];
    const char *colon = strrchr(endpoint, ':');
    const bool v6 = endpoint[0] == '[';
    if (colon == NULL || (size_t)(colon - endpoint) >= sizeof host || (v6 && colon[-1] != ']'))
        return false;
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - endpoint) - (v6 ? 2 : 0),
                   endpoint + (v6 ? 1 : 0));
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return false;
    ASSERT(found->ai_addrlen <= sizeof *address);
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

enum socket_listener socket_listener(const char *endpoint)
{
    struct sockaddr_storage address;
    socklen_t len;
    if (!address_of(endpoint, &address, &len))
        return SOCKET_UNKNOWN;
    const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return SOCKET_UNKNOWN;
    int error = connect(fd, (const struct sockaddr *)&address, len) == 0 ? 0 : errno;
    struct pollfd waited = {.fd = fd, .events = POLLOUT};
    socklen_t error_len = sizeof error;
    if (error == EINPROGRESS && poll(&waited, 1, SOCKET_REFUSED_MS) == 1)
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len);
    (void)close(fd);
    return error == 0 ? SOCKET_LISTENS : error == ECONNREFUSED ? SOCKET_REFUSES : SOCKET_UNKNOWN;
}

void socket_close(void **socket)
{
    if (*socket != NULL)
        (void)zmq_close(*socket);
    *socket = NULL;
}

int socket_fd(void *socket)
{
    int fd = -1;
    size_t len = sizeof fd;
    return zmq_getsockopt(socket, ZMQ_FD, &fd, &len) == 0 ? fd : -1;
}

bool socket_readable(void *socket)
{
    int events = 0;
    size_t len = sizeof events;
    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &len) == 0 && (events & ZMQ_POLLIN) != 0;
}

static zmq_msg_t *message_of(struct socket_holder *holder)
{
    return (zmq_msg_t *)(void *)holder->bytes;
}

void socket_release(struct socket_holder *holder)
{
    if (holder->held)
        (void)zmq_msg_close(message_of(holder));
    holder->held = false;
}

static bool more(void *socket)
{
    int value = 0;
    size_t len = sizeof value;
    return zmq_getsockopt(socket, ZMQ_RCVMORE, &value, &len) == 0 && value != 0;
}

/* Reads away the rest of a message of several frames. */
static void skip_rest(void *router)
{
    while (more(router)) {
        zmq_msg_t part;
        (void)zmq_msg_init(&part);
        const int result = zmq_msg_recv(&part, router, ZMQ_DONTWAIT);
        (void)zmq_msg_close(&part);
        if (result < 0)
            return;
    }
}

int socket_receive(void *router, struct socket_holder *holder, struct socket_message *out)
{
    unsigned char id[256];
    for (;;) {
        const int id_len = zmq_recv(router, id, sizeof id, ZMQ_DONTWAIT);
        if (id_len < 0)
            return 0;
        if (id_len != ROUTING_ID_LEN || id[0] != 0 || !more(router)) {
            skip_rest(router);
            continue;
        }
        socket_release(holder);
        (void)zmq_msg_init(message_of(holder));
        holder->held = true;
        if (zmq_msg_recv(message_of(holder), router, ZMQ_DONTWAIT) < 0)
            return 0;
        out->odd = more(router);
        out->data = zmq_msg_data(message_of(holder));
        out->len = zmq_msg_size(message_of(holder));
        skip_rest(router);
        return 1;
    }
}

static int send_error(void)
{
    return errno == EHOSTUNREACH ? TG_EUNREACHABLE : TG_EBUSY;
}

int socket_send(void *dealer, const void *data, size_t len)
{
    return zmq_send(dealer, data, len, ZMQ_DONTWAIT) < 0 ? send_error() : 0;
}
