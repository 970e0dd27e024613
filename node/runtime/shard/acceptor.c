/* acceptor.c - how clients come: who waits at a listener is accepted, a burst at a time.
 *
 * Two things bound how many there are: all places, and three quarters of them for one address, so
 * that another address always finds a quarter. 127.0.0.1 and ::1 may have all, and so may a trusted
 * proxy, whose clients are counted by what it says of them (connection_proxy.c). Where a bound is
 * reached a newcomer has the place of the connection that was quiet for longest, if that was
 * quiet_ns: connections that clients keep ready, or an attacker leaves open, keep nobody out. Where
 * none was quiet the newcomer is told so and closed.
 *
 * ACCEPTOR-1  When descriptors run out, the listeners are muted for a while; what is waiting waits.
 *             Level-triggered, they would wake the loop without end.
 * ACCEPTOR-2  A connection that has something left to be sent, or unread, or a request unfinished,
 *             gives its place to nobody; nor does one that is owed an answer, as its protocol or
 *             the shard tells. One that does not get beyond its beginning does.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/runtime/shard/connections_state.h"
#include "node/runtime/system/listener.h"

enum {
    ACCEPTS_MAX = 64,  /* connections at once */
    LAST_ACCEPTS = 16, /* times ACCEPTS_MAX: as many as may wait at a listener */
    LOOKS_MAX = 64,    /* quiet connections that are looked at for one newcomer */
    /* How long a connection may be silent until TCP asks, how often it does, and when it is lost.
     */
    IDLE_S = 30,
    STEP_S = 10,
    LOST_MS = 60000
};

#define REST_NS  INT64_C(100000000) /* how long the listeners rest when descriptors have run out */
#define LOG_NS   INT64_C(10000000000) /* from one complaint to the next */
#define LISTENER (UINT64_C(0xffffffff) << 32)

bool acceptor_is_listener(uint64_t token, uint32_t *number)
{
    *number = (uint32_t)token;
    return token >= LISTENER;
}

/* A socket of the file system is shared with other shards: one is woken for a newcomer, not all. */
static void watch(const struct connections *connections, bool on)
{
    for (uint32_t i = 0; i < connections->options.listener_count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE,
                                    .data = {.u64 = LISTENER | i}};
        (void)epoll_ctl(connections->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                        connections->options.listeners[i], &event);
    }
}

void acceptor_open(struct connections *connections)
{
    const int len = (int)connections->options.codec->socket_len; /* connections inherit it */
    for (uint32_t i = 0; i < connections->options.listener_count; i++) {
        const int listener = connections->options.listeners[i];
        (void)setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &len, sizeof len);
        (void)setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &len, sizeof len);
    }
    watch(connections, true);
}

/* ACCEPTOR-1 */
static void rest(struct connections *connections)
{
    const char *why = strerror(errno);
    connections->stats->accept_failures++;
    connections->accept_ns = connections->now_ns + REST_NS;
    watch(connections, false);
    if (connections->logged_ns != 0 && connections->now_ns - connections->logged_ns < LOG_NS)
        return;
    connections->logged_ns = connections->now_ns;
    log_printf(connections->options.log, LOG_LEVEL_WARN,
               "%s: a connection cannot be accepted (%s), with %" PRIu64 " open; trying again",
               connections->options.codec->name, why, connections->stats->connections);
}

void acceptor_look(struct connections *connections)
{
    if (connections->accept_ns == 0 || connections->now_ns < connections->accept_ns)
        return;
    connections->accept_ns = 0;
    watch(connections, true);
}

/* ---- who comes ------------------------------------------------------------------------------- */

static struct connection_end end_of(const struct sockaddr_storage *from)
{
    const struct sockaddr_in *v4 = (const void *)from;
    const struct sockaddr_in6 *v6 = (const void *)from;
    struct connection_end end = {.local = from->ss_family == AF_UNIX};
    if (from->ss_family == AF_INET6) {
        end.ip = v6->sin6_addr;
        end.port = ntohs(v6->sin6_port);
    } else if (from->ss_family == AF_INET) {
        end.ip.s6_addr[10] = end.ip.s6_addr[11] = 0xff;
        memcpy(&end.ip.s6_addr[12], &v4->sin_addr, sizeof v4->sin_addr);
        end.port = ntohs(v4->sin_port);
    }
    return end;
}

static bool is_idle(struct connections *connections, const struct connection *connection)
{
    const struct gateway_peer *peer = connection_peer(connections, connection);
    const bool any = connections->options.quiet_ns == 0; /* whoever is not owed something */
    int unread = 0;
    if (connection->dirty || connection->deferred)
        return false;
    if (connection->wait == CONNECTION_BEGINS || connection->shut)
        return true;
    if (peer->waiting > 0 || peer->out.len > 0 || peer->told ||
        (connection->wait != CONNECTION_SETTLED && !any) ||
        connection_owed(connections, connection))
        return false;
    (void)ioctl(connection->fd, FIONREAD, &unread);
    return unread == 0; /* ACCEPTOR-2 */
}

/* Ends the connection of who was quiet for longest, of that address where it is not NULL. False:
 * there is none that may end. */
static bool end_quietest(struct connections *connections, const struct in6_addr *of)
{
    uint32_t at = connections->used.oldest;
    if (of != NULL && connections->quiet_at < connections->used_max &&
        connections->places[connections->quiet_at].fd >= 0)
        at = connections->quiet_at; /* those before it were of others, or not idle */
    for (uint32_t i = 0; i < LOOKS_MAX && at != CONNECTIONS_NONE; i++) {
        struct connection *connection = &connections->places[at];
        at = connection->links[CONNECTION_BY_USE].newer;
        if (of != NULL)
            connections->quiet_at = at;
        if (connections->now_ns - connection->heard_ns < connections->options.quiet_ns) {
            connections->quiet_at = CONNECTIONS_NONE;
            return false;
        }
        if ((of != NULL && memcmp(&connection->address, of, sizeof *of) != 0) ||
            !is_idle(connections, connection))
            continue;
        connections->stats->evicted++;
        connection_close(connections, connection);
        return true;
    }
    return false;
}

static bool is_this_machine(const struct in6_addr *address)
{
    const struct in6_addr v6 = IN6ADDR_LOOPBACK_INIT;
    static const uint8_t v4[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    return memcmp(address, &v6, sizeof v6) == 0 || memcmp(address, v4, sizeof v4) == 0;
}

bool acceptor_has_room_of(struct connections *connections, const struct in6_addr *address)
{
    return connection_count_of(connections, address) < connections->address_max ||
           end_quietest(connections, address);
}

/* Makes room for one more of that address, of which there may be any number if `free`. */
static bool make_room(struct connections *connections, const struct in6_addr *address, bool free)
{
    if (!free && !acceptor_has_room_of(connections, address))
        return false;
    return connections->stats->connections < connections->options.max ||
           end_quietest(connections, NULL);
}

static void refuse(struct connections *connections, int fd)
{
    const char *sentence = connections->options.codec->refusal;
    connections->stats->refused++;
    (void)!send(fd, sentence, strlen(sentence), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)close(fd);
}

static void set_options(int fd)
{
    const int on = 1;
    const int idle_s = IDLE_S;
    const int step_s = STEP_S;
    const unsigned lost_ms = LOST_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step_s, sizeof step_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof lost_ms);
}

/* Who has come says nothing yet: the protocol may. */
static void begin(struct connections *connections, struct connection *connection)
{
    struct gateway_peer *peer = connection_peer(connections, connection);
    struct epoll_event event = {.events = EPOLLIN,
                                .data = {.u64 = connection_token(connections, connection)}};
    if (epoll_ctl(connections->epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0 ||
        !connection_ensure_out(connections, connection)) {
        connection_break(connections, connection);
        return;
    }
    connections->options.codec->open(connections->options.gate, peer);
    connection_flush(connections, connection);
    connection_set_wait(connections, connection,
                        peer->begun && !connection_proxy_waits(connections, connection)
                            ? CONNECTION_SETTLED
                            : CONNECTION_BEGINS);
}

static void take_in(struct connections *connections, int fd, const struct sockaddr_storage *from,
                    bool aside)
{
    const struct connection_end end = end_of(from);
    const struct in6_addr address = connection_end_counted(&end);
    const bool trusted = connection_proxy_trusted(connections, &end);
    struct connection *connection = NULL;
    if (make_room(connections, &address, trusted || is_this_machine(&address)))
        connection = connection_take_place(connections);
    if (connection == NULL) {
        refuse(connections, fd);
        return;
    }
    set_options(fd);
    connection_open(connections, connection, fd, &address);
    connection->fresh = true;
    struct gateway_peer *peer = connection_peer(connections, connection);
    peer->trusted = trusted;
    peer->aside = aside;
    struct sockaddr_storage local = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof local;
    connection_end_text(&end, peer->address);
    if (getsockname(fd, (struct sockaddr *)&local, &len) == 0) {
        const struct connection_end here = end_of(&local);
        connection_end_text(&here, peer->local);
    }
    begin(connections, connection);
}

void acceptor_accept(struct connections *connections, uint32_t number)
{
    const bool crowded =
        connections->options.crowded != NULL && atomic_load(connections->options.crowded);
    if (crowded && !end_quietest(connections, NULL)) {
        errno = EMFILE;
        rest(connections);
        return;
    }
    for (uint32_t i = 0; i < (crowded ? 1 : ACCEPTS_MAX); i++) {
        struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof from;
        const int fd = accept4(connections->options.listeners[number], (struct sockaddr *)&from,
                               &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            take_in(connections, fd, &from,
                    number + connections->options.aside >= connections->options.listener_count);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            rest(connections);
            return;
        } /* else that connection failed before it was accepted */
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

void acceptor_leave(struct connections *connections)
{
    for (uint32_t number = 0; number < connections->options.listener_count; number++)
        for (uint32_t i = 0; i < LAST_ACCEPTS; i++)
            acceptor_accept(connections, number); /* the kernel would reset them */
    acceptor_close(connections);
    connections->accept_ns = 0;
}

void acceptor_close(struct connections *connections)
{
    for (uint32_t i = 0; i < connections->options.listener_count; i++)
        listener_close(&connections->options.listeners[i]);
    connections->options.listener_count = 0;
}
