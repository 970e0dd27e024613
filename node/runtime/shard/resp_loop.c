/* resp_loop.c - sockets of Redis clients: read in bursts, decided together, answered together.
 *
 * One turn:   events --> accept, read --> requests into the open batch --> full ones submitted
 *             --> the rest submitted --> answers --> what they held up goes on --> sent
 *             --> once more, if all was answered, for those who asked again meanwhile
 *             --> and polled a while for those who are about to (busy_poll.h), until there is
 *                 anything to do for the thread
 *
 * The sockets are in an epoll set of their own, and the shard's loop watches that set. libuv's
 * streams would read from every socket that is ready before anybody else has a turn, up to ten
 * thousand at a time; a shard that does not hear its peers for 70 ms gives up deciding. So a turn
 * asks for EVENTS_MAX sockets at once and takes BURST_NS at most, and what is left is taken first
 * in the next.
 *
 * A connection's memory is borrowed: bytes of a request that is not complete, or cannot be taken
 * yet, in `kept`; replies in a block, from the first one until all are sent. One that is idle has
 * neither. Nothing is taken from a connection that has something kept and cannot go on, or has
 * something to be sent that its client does not take: so at most KEPT_MAX bytes of what it sent and
 * RESP_OUT_LEN bytes for it are here, and the rest stays in its socket's buffers, which are small
 * (SOCKET_LEN each), and with the client. So it is with a node that has more to do than it can:
 * what has come waits as long as that much takes, and what has not waits where it is made.
 *
 *            all taken              request before      replies not taken
 *   READING ----------> READING    is not answered      by the client
 *      |                  ^   ^           |                  |
 *      +---- kept --------|---|-----> STALLED            BLOCKED --slow_ns--> closed, counted
 *                         |   +--answer---+                  |
 *                         +-------------writable-------------+
 *
 * A node that stops leaves its clients (resp_loop_leave): nothing more is read; what was is
 * answered, by a shard that has resigned with an error; then the client is told that no more will
 * come (FIN). To close with bytes unread would reset the connection, and the client could not know
 * what became of all that it had asked. So what still comes is thrown away, until the client
 * closes, or for LEAVE_NS: what has no answer by then was not taken. Who does not read what he
 * asked for loses it after LEAVE_MAX_NS.
 *
 * RESPLOOP-1  A connection in `dirty` is there once. One that can go on, or has something to be
 *             sent, is in it, or waits for its socket.
 * RESPLOOP-2  A token names one connection of one moment: its place, and how often that was used.
 * RESPLOOP-3  A stalled or blocked connection that has input is muted: its socket does not wake the
 *             loop.
 * RESPLOOP-4  When descriptors run out, the listener is muted for a while; what is waiting waits.
 * RESPLOOP-5  All sockets that were found ready have their turn before it is asked again which are:
 *             the kernel names them in the same order each time, so that those in front, if they
 *             always have more, would be all that is ever read.
 * RESPLOOP-6  To leave takes LEAVE_MAX_NS and LEAVE_NS at most, whatever clients and the shard do.
 * RESPLOOP-7  A place is a connection's, or in the list of free ones. What is counted is so: open
 *             connections, blocked ones, and bytes that are kept.
 */
#include "node/runtime/shard/resp_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "node/runtime/system/busy_poll.h"
#include "node/runtime/system/listener.h"

enum {
    EVENTS_MAX = 128,    /* sockets that are ready, at once */
    ACCEPTS_MAX = 64,    /* connections, likewise */
    READ_LEN = 16 << 10, /* of one connection, likewise */
    KEPT_MAX = RESP_PENDING_MAX + READ_LEN,
    KEPT_TOTAL_MAX = 256 << 20, /* of all connections; who would need more is closed, and counted */
    SOCKET_LEN = 64 << 10,      /* the kernel doubles it */
    BLOCKS_KEPT = 256,          /* free ones; more go back to the heap */
    LAST_ACCEPTS = 16,          /* times ACCEPTS_MAX: as many as may wait at the listener */
    NONE = UINT32_MAX,
};

#define BURST_NS INT64_C(2000000) /* of a turn */
/* Where clients ask one thing after the other, some have asked again by the time the others are
 * answered, or are about to. So long a turn begins anew with them, and polls for them, for another
 * one costs more; not while somebody waits for another node's answer, which the rest of the shard's
 * turn brings. */
#define AGAIN_NS INT64_C(250000)
/* How long the listener rests when descriptors have run out. */
#define ACCEPT_NS INT64_C(100000000)
#define LOOK_NS   INT64_C(200000000)   /* from one look for what is late or slow to the next */
#define LOG_NS    INT64_C(10000000000) /* from one complaint to the next */
#define LISTENER  UINT64_MAX
/* Leaving: how long all is there to be read by who has not closed, and how long before that may be
 * waited for answers and slow readers. The gate gives up what is not answered sooner. */
#define LEAVE_NS     INT64_C(250000000)
#define LEAVE_MAX_NS INT64_C(3000000000)

struct connection {
    int fd;              /* -1: the place is free */
    uint32_t generation; /* how often the place was used */
    uint32_t next;       /* in the list of free places, or in `dirty` */
    bool dirty;
    bool stalled; /* something is kept that cannot be taken yet */
    bool muted;
    bool blocked;     /* its socket takes no more */
    bool ended;       /* the client sends no more */
    bool shut;        /* it was told that no more will come */
    bool broken;      /* its socket is of no use any more */
    int64_t moved_ns; /* blocked: when its socket took something last */
    size_t sent;      /* of out */
    char *kept;
    size_t kept_len;
    struct resp_peer peer;
};

struct resp_loop {
    struct resp_loop_options options;
    struct resp_gate *gate;
    struct resp_stats *stats; /* the gate's */
    struct busy_poll busy_poll;
    int epoll;
    struct connection *connections; /* [facts.connections_max] */
    uint32_t used_max;              /* places that were ever used */
    uint32_t first_free;
    uint32_t dirty_first;
    uint32_t dirty_last;
    uint32_t blocked; /* connections */
    uint64_t ids;
    int64_t now_ns;
    int64_t looked_ns;
    int64_t accept_ns; /* the listener rests until then; 0: it does not */
    int64_t leave_ns;  /* when it began to leave; 0: it does not */
    int64_t busy_ns;   /* leaving: when there was something to do last */
    int64_t logged_ns;
    size_t kept_total;
    uint32_t block_count;
    int event_at; /* RESPLOOP-5: of the next event to be taken */
    int event_count;
    struct epoll_event events[EVENTS_MAX];
    char *blocks[BLOCKS_KEPT]; /* free ones of RESP_OUT_LEN bytes */
    char input[KEPT_MAX];
};

/* ---- memory ---------------------------------------------------------------------------------- */

static char *take_block(struct resp_loop *loop)
{
    return loop->block_count > 0 ? loop->blocks[--loop->block_count] : malloc(RESP_OUT_LEN);
}

static void give_block(struct resp_loop *loop, char *block)
{
    ASSERT(loop->block_count <= BLOCKS_KEPT); /* RESPLOOP-7 */
    if (loop->block_count < BLOCKS_KEPT)
        loop->blocks[loop->block_count++] = block;
    else
        free(block);
}

static bool ensure_out(struct resp_loop *loop, struct connection *connection)
{
    struct resp_writer *out = &connection->peer.out;
    if (out->data == NULL) {
        out->data = take_block(loop);
        out->capacity = out->data != NULL ? RESP_OUT_LEN : 0;
    }
    return out->data != NULL;
}

static void drop_out(struct resp_loop *loop, struct connection *connection)
{
    struct resp_writer *out = &connection->peer.out;
    if (out->data != NULL)
        give_block(loop, out->data);
    out->data = NULL;
    out->capacity = out->len = connection->sent = 0;
}

static void drop_kept(struct resp_loop *loop, struct connection *connection)
{
    ASSERT(connection->kept_len <= loop->kept_total); /* RESPLOOP-7 */
    loop->kept_total -= connection->kept_len;
    free(connection->kept);
    connection->kept = NULL;
    connection->kept_len = 0;
}

/* Keeps bytes for later. False if there is no room for them. */
static bool keep(struct resp_loop *loop, struct connection *connection, const char *data,
                 size_t len)
{
    ASSERT(connection->kept == NULL && len <= KEPT_MAX);
    if (len == 0)
        return true;
    if (len <= KEPT_TOTAL_MAX - loop->kept_total)
        connection->kept = malloc(len);
    if (connection->kept == NULL) {
        loop->stats->crowded++;
        return false;
    }
    memcpy(connection->kept, data, len);
    connection->kept_len = len;
    loop->kept_total += len;
    return true;
}

/* ---- connections ----------------------------------------------------------------------------- */

static uint64_t token_of(const struct resp_loop *loop, const struct connection *connection)
{
    return (uint64_t)connection->generation << 32 |
           (uint64_t)(connection - loop->connections); /* RESPLOOP-2 */
}

/* The connection of a token, or NULL. */
static struct connection *connection_of(struct resp_loop *loop, uint64_t token)
{
    struct connection *connection = &loop->connections[(uint32_t)token];
    ASSERT((uint32_t)token < loop->used_max);
    return connection->fd >= 0 && connection->generation == token >> 32 ? connection : NULL;
}

static void mark_dirty(struct resp_loop *loop, struct connection *connection)
{
    const uint32_t at = (uint32_t)(connection - loop->connections);
    if (connection->dirty)
        return;
    connection->dirty = true; /* RESPLOOP-1 */
    connection->next = NONE;
    if (loop->dirty_first == NONE)
        loop->dirty_first = at;
    else
        loop->connections[loop->dirty_last].next = at;
    loop->dirty_last = at;
}

static struct connection *take_dirty(struct resp_loop *loop)
{
    if (loop->dirty_first == NONE)
        return NULL;
    struct connection *connection = &loop->connections[loop->dirty_first];
    ASSERT(connection->dirty && connection->fd >= 0); /* RESPLOOP-1 */
    loop->dirty_first = connection->next;
    connection->dirty = false;
    return connection;
}

/* What the socket is to tell of. */
static void watch(struct resp_loop *loop, const struct connection *connection)
{
    struct epoll_event event = {
        .events = (connection->muted ? 0 : (uint32_t)EPOLLIN) |
                  (connection->blocked ? (uint32_t)EPOLLOUT : 0),
        .data = {.u64 = token_of(loop, connection)},
    };
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

static void set_muted(struct resp_loop *loop, struct connection *connection, bool muted)
{
    if (connection->muted == muted)
        return;
    connection->muted = muted;
    watch(loop, connection);
}

static void set_blocked(struct resp_loop *loop, struct connection *connection, bool blocked)
{
    connection->moved_ns = loop->now_ns;
    if (connection->blocked == blocked)
        return;
    connection->blocked = blocked;
    ASSERT(blocked || loop->blocked > 0); /* RESPLOOP-7 */
    loop->blocked += blocked ? 1 : UINT32_MAX;
    watch(loop, connection);
}

/* The place is free when this was taken out of `dirty`, where it must not be. */
static void close_connection(struct resp_loop *loop, struct connection *connection)
{
    ASSERT(!connection->dirty);
    ASSERT(connection->fd >= 0 && loop->stats->connections > 0); /* RESPLOOP-7 */
    loop->blocked -= connection->blocked;
    drop_out(loop, connection);
    drop_kept(loop, connection);
    (void)close(connection->fd);
    connection->fd = -1;
    connection->generation++; /* RESPLOOP-2 */
    connection->next = loop->first_free;
    loop->first_free = (uint32_t)(connection - loop->connections);
    loop->stats->connections--;
}

/* To be closed when it is taken out of `dirty`. */
static void break_connection(struct resp_loop *loop, struct connection *connection)
{
    connection->broken = true;
    mark_dirty(loop, connection);
}

/* A free place, or NULL. */
static struct connection *take_place(struct resp_loop *loop)
{
    if (loop->first_free != NONE) {
        struct connection *connection = &loop->connections[loop->first_free];
        ASSERT(connection->fd < 0 && !connection->dirty); /* RESPLOOP-7 */
        loop->first_free = connection->next;
        return connection;
    }
    if (loop->used_max == loop->options.facts.connections_max)
        return NULL;
    return &loop->connections[loop->used_max++];
}

static void describe(const struct sockaddr_storage *address, char out[RESP_ADDRESS_LEN])
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;
    const bool is_v6 = address->ss_family == AF_INET6;
    (void)inet_ntop(address->ss_family,
                    is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr, host,
                    sizeof host);
    (void)snprintf(out, RESP_ADDRESS_LEN, is_v6 ? "[%s]:%u" : "%s:%u", host,
                   (unsigned)ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
}

static void open_connection(struct resp_loop *loop, struct connection *connection, int fd,
                            const struct sockaddr_storage *address)
{
    const uint32_t generation = connection->generation;
    const int on = 1;
    char text[RESP_ADDRESS_LEN];
    memset(connection, 0, sizeof *connection);
    connection->generation = generation;
    connection->fd = fd;
    describe(address, text);
    resp_peer_init(&connection->peer, ++loop->ids, text);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    loop->stats->accepted++;
    loop->stats->connections++;
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = token_of(loop, connection)}};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        break_connection(loop, connection);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static void watch_listener(struct resp_loop *loop, int operation, bool on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0, .data = {.u64 = LISTENER}};
    (void)epoll_ctl(loop->epoll, operation, loop->options.listener, &event);
}

/* RESPLOOP-4: level-triggered, the listener would wake the loop without end. */
static void rest_listener(struct resp_loop *loop)
{
    loop->stats->accept_failures++;
    loop->accept_ns = loop->now_ns + ACCEPT_NS;
    watch_listener(loop, EPOLL_CTL_MOD, false);
    if (loop->logged_ns != 0 && loop->now_ns - loop->logged_ns < LOG_NS)
        return;
    loop->logged_ns = loop->now_ns;
    log_printf(loop->options.log, LOG_LEVEL_WARN,
               "resp: a connection cannot be accepted (%s), with %" PRIu64 " open; trying again",
               strerror(errno), loop->stats->connections);
}

static void refuse(struct resp_loop *loop, int fd)
{
    static const char sentence[] = "-ERR max number of clients reached\r\n";
    loop->stats->refused++;
    (void)!send(fd, sentence, sizeof sentence - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)close(fd);
}

static void accept_some(struct resp_loop *loop)
{
    if (loop->options.crowded != NULL && atomic_load(loop->options.crowded)) {
        errno = EMFILE;
        rest_listener(loop);
        return;
    }
    for (uint32_t i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof address;
        const int fd = accept4(loop->options.listener, (struct sockaddr *)&address, &len,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            rest_listener(loop);
            return;
        }
        if (fd < 0)
            continue; /* that connection failed before it was accepted */
        struct connection *connection = take_place(loop);
        if (connection == NULL)
            refuse(loop, fd);
        else
            open_connection(loop, connection, fd, &address);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Sends what there is. Afterwards it is all sent, or the connection is blocked, or broken. */
static void flush(struct resp_loop *loop, struct connection *connection)
{
    struct resp_writer *out = &connection->peer.out;
    ASSERT(!out->failed); /* RESPGATE-2 */
    while (connection->sent < out->len) {
        const ssize_t sent = send(connection->fd, out->data + connection->sent,
                                  out->len - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!connection->blocked)
                set_blocked(loop, connection, true);
            return;
        }
        if (sent < 0) {
            break_connection(loop, connection);
            return;
        }
        connection->sent += (size_t)sent;
        ASSERT(connection->sent <= out->len && out->len <= out->capacity);
        if (connection->blocked)
            connection->moved_ns = loop->now_ns;
    }
    connection->sent = out->len = 0;
    if (connection->blocked)
        set_blocked(loop, connection, false);
    if (connection->peer.waiting == 0)
        drop_out(loop, connection);
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct resp_peer *find(void *context, uint64_t token)
{
    struct resp_loop *loop = context;
    struct connection *connection = connection_of(loop, token);
    if (connection == NULL)
        return NULL;
    mark_dirty(loop, connection);
    return &connection->peer;
}

static struct resp_finder finder_of(struct resp_loop *loop)
{
    return (struct resp_finder){find, loop};
}

void resp_loop_answer(struct resp_loop *loop, const void *frame, size_t len)
{
    const struct resp_finder finder = finder_of(loop);
    resp_gate_answer(loop->gate, frame, len, &finder);
}

static void submit(struct resp_loop *loop)
{
    const uint8_t *frame;
    const size_t len = resp_gate_submit(loop->gate, &frame);
    if (len > 0)
        loop->options.submit(loop->options.context, frame, len);
}

/* Whether more can be taken after `stop`, with what can be done about it now. */
static bool go_on(struct resp_loop *loop, struct connection *connection, enum resp_stop stop)
{
    switch (stop) {
    case RESP_NEED_SUBMIT:
        submit(loop);
        return true;
    case RESP_NEED_ROOM:
        if (connection->peer.out.len > 0) {
            flush(loop, connection);
            return !connection->blocked && !connection->broken && ensure_out(loop, connection);
        }
        submit(loop); /* all room is reserved for answers */
        return connection->peer.waiting == 0;
    case RESP_NEED_BYTES:
    case RESP_NEED_ANSWER:
    case RESP_AT_END:
        break;
    }
    return false;
}

/* Takes requests from the first `len` bytes of the input, and keeps what is left. */
static void feed(struct resp_loop *loop, struct connection *connection, size_t len)
{
    size_t at = 0;
    enum resp_stop stop;
    do {
        size_t used = 0;
        if (!ensure_out(loop, connection)) {
            break_connection(loop, connection);
            return;
        }
        stop = resp_gate_take(loop->gate, &connection->peer, token_of(loop, connection),
                              loop->input + at, len - at, &used);
        ASSERT(used <= len - at); /* RESPPARSER-1 */
        at += used;
    } while (go_on(loop, connection, stop));
    connection->stalled = stop == RESP_NEED_ANSWER || stop == RESP_NEED_ROOM;
    if (stop != RESP_AT_END && !keep(loop, connection, loop->input + at, len - at))
        break_connection(loop, connection);
    mark_dirty(loop, connection);
}

/* What comes from a client that was told that no more will come. */
static void discard(struct resp_loop *loop, struct connection *connection)
{
    const ssize_t got = recv(connection->fd, loop->input, sizeof loop->input, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        break_connection(loop, connection);
}

static void read_from(struct resp_loop *loop, struct connection *connection)
{
    if (connection->shut) {
        discard(loop, connection);
        return;
    }
    if (connection->stalled || connection->blocked || connection->peer.closing ||
        connection->ended || loop->leave_ns != 0) {
        set_muted(loop, connection, true); /* RESPLOOP-3 */
        return;
    }
    const size_t before = connection->kept_len;
    ASSERT(before <= RESP_PENDING_MAX); /* RESPPARSER-3 */
    const ssize_t got = recv(connection->fd, loop->input + before, READ_LEN, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got <= 0) {
        connection->ended = true;
        connection->broken = got < 0;
        set_muted(loop, connection, true);
        mark_dirty(loop, connection);
        return;
    }
    if (before > 0)
        memcpy(loop->input, connection->kept, before);
    drop_kept(loop, connection);
    feed(loop, connection, before + (size_t)got);
}

/* Whether the connection has come to its end, and all is done: what was kept has been gone on with,
 * so if some of it is left, something is waited for, or to be sent. */
static bool finished(const struct resp_loop *loop, const struct connection *connection)
{
    if (connection->broken)
        return true;
    if (connection->peer.waiting > 0 || connection->peer.out.len > 0)
        return false;
    return connection->peer.closing || connection->ended || loop->leave_ns != 0;
}

/* Ends a connection that is finished: one whose client may still send, when the node stops, as the
 * head of this file says. */
static void finish(struct resp_loop *loop, struct connection *connection)
{
    if (loop->leave_ns == 0 || connection->broken || connection->ended ||
        (!connection->shut && shutdown(connection->fd, SHUT_WR) != 0)) {
        close_connection(loop, connection);
        return;
    }
    connection->shut = true;
    drop_kept(loop, connection);
    set_muted(loop, connection, false);
}

/* Goes on with a connection after something has happened to it. */
static void go_on_with(struct resp_loop *loop, struct connection *connection)
{
    if (connection->stalled && !connection->broken && !connection->blocked &&
        connection->peer.waiting == 0) {
        const size_t len = connection->kept_len;
        memcpy(loop->input, connection->kept, len);
        drop_kept(loop, connection);
        feed(loop, connection, len);
    }
    if (!connection->broken && !connection->blocked)
        flush(loop, connection);
    if (finished(loop, connection)) {
        if (!connection->dirty)
            finish(loop, connection);
        return; /* else it comes again */
    }
    if (!connection->stalled && !connection->blocked && !connection->ended &&
        !connection->peer.closing)
        set_muted(loop, connection, false);
}

/* Submits what was taken and goes on with whatever has been answered, until nothing is left, or
 * the turn has taken long enough. */
static void settle(struct resp_loop *loop, int64_t until_ns)
{
    struct connection *connection;
    do {
        submit(loop);
        for (uint32_t i = 0; i < EVENTS_MAX && (connection = take_dirty(loop)) != NULL; i++)
            go_on_with(loop, connection);
        submit(loop);
    } while (loop->dirty_first != NONE && clock_now_ns(loop->options.clock) < until_ns);
}

/* ---- a turn ---------------------------------------------------------------------------------- */

/* Cuts off who takes nothing of what was answered, and gives up what the shard does not answer. */
static void look(struct resp_loop *loop)
{
    const struct resp_finder finder = finder_of(loop);
    loop->looked_ns = loop->now_ns;
    resp_gate_expire(loop->gate, &finder);
    if (loop->accept_ns != 0 && loop->now_ns >= loop->accept_ns) {
        loop->accept_ns = 0;
        watch_listener(loop, EPOLL_CTL_MOD, true);
    }
    for (uint32_t i = 0; loop->blocked > 0 && i < loop->used_max; i++) {
        struct connection *connection = &loop->connections[i];
        if (connection->fd < 0 || !connection->blocked || connection->broken ||
            loop->now_ns - connection->moved_ns < loop->options.slow_ns)
            continue;
        loop->stats->slow_readers++;
        break_connection(loop, connection);
    }
}

static void take_event(struct resp_loop *loop, const struct epoll_event *event)
{
    if (event->data.u64 == LISTENER) {
        if (loop->leave_ns == 0)
            accept_some(loop);
        return;
    }
    struct connection *connection = connection_of(loop, event->data.u64);
    if (connection == NULL || connection->broken)
        return;
    if ((event->events & (EPOLLERR | EPOLLHUP)) != 0) {
        break_connection(loop, connection);
        return;
    }
    if ((event->events & EPOLLOUT) != 0) {
        flush(loop, connection);
        mark_dirty(loop, connection);
    }
    if ((event->events & EPOLLIN) != 0 && !connection->broken)
        read_from(loop, connection);
}

/* RESPLOOP-5. An event may be out of date: its connection gone, or read meanwhile; that does no
 * harm. Whether there was any. */
static bool take_events(struct resp_loop *loop, int64_t until_ns)
{
    if (loop->event_at == loop->event_count) {
        const int count = epoll_wait(loop->epoll, loop->events, EVENTS_MAX, 0);
        loop->event_at = 0;
        loop->event_count = count > 0 ? count : 0;
    }
    const bool any = loop->event_at < loop->event_count;
    while (loop->event_at < loop->event_count) {
        take_event(loop, &loop->events[loop->event_at++]);
        if (clock_now_ns(loop->options.clock) >= until_ns)
            break; /* the others are next, in the next turn */
    }
    return any;
}

static void close_all(struct resp_loop *loop)
{
    loop->dirty_first = NONE;
    for (uint32_t i = 0; i < loop->used_max; i++) {
        struct connection *connection = &loop->connections[i];
        if (connection->fd < 0)
            continue;
        if (!connection->broken && !connection->blocked)
            flush(loop, connection);
        connection->dirty = false;
        close_connection(loop, connection);
    }
    loop->dirty_first = NONE;
}

/* RESPLOOP-6 */
static void look_at_leaving(struct resp_loop *loop)
{
    const bool busy =
        loop->dirty_first != NONE || loop->blocked > 0 || resp_gate_waiting(loop->gate) > 0;
    if (busy && loop->now_ns - loop->leave_ns < LEAVE_MAX_NS)
        loop->busy_ns = loop->now_ns;
    if (loop->stats->connections > 0 && loop->now_ns - loop->busy_ns >= LEAVE_NS)
        close_all(loop);
}

/* Polls for who is about to ask. True if there is something to do for the thread, of Redis clients
 * or not. */
static bool wait_for_more(struct resp_loop *loop, int64_t until_ns)
{
    struct pollfd all = {.fd = loop->options.all, .events = POLLIN};
    while (loop->now_ns < until_ns && busy_poll_on(&loop->busy_poll, false, loop->now_ns)) {
        loop->stats->polls++;
        if (poll(&all, 1, 0) > 0)
            return true;
        loop->now_ns = clock_now_ns(loop->options.clock);
    }
    return false;
}

void resp_loop_other(struct resp_loop *loop)
{
    busy_poll_other(&loop->busy_poll, clock_now_ns(loop->options.clock));
}

void resp_loop_turn(struct resp_loop *loop)
{
    loop->now_ns = clock_now_ns(loop->options.clock);
    const int64_t until_ns = loop->now_ns + BURST_NS;
    const int64_t again_ns = loop->now_ns + AGAIN_NS;
    bool any = true;
    bool more;
    busy_poll_begin(&loop->busy_poll);
    do {
        const bool waited = !any;
        resp_gate_now(loop->gate, loop->now_ns);
        any = take_events(loop, until_ns);
        if (any)
            (void)busy_poll_on(&loop->busy_poll, true, loop->now_ns);
        if (loop->now_ns - loop->looked_ns >= LOOK_NS)
            look(loop);
        settle(loop, until_ns);
        loop->now_ns = clock_now_ns(loop->options.clock);
        more = resp_gate_waiting(loop->gate) == 0 && loop->now_ns < again_ns;
        if (!any && waited) /* what ended polling was not of Redis clients */
            busy_poll_other(&loop->busy_poll, loop->now_ns);
        if (more && !any)
            more = !waited && loop->leave_ns == 0 && wait_for_more(loop, again_ns);
    } while (more);
    if (loop->leave_ns != 0)
        look_at_leaving(loop);
}

void resp_loop_leave(struct resp_loop *loop)
{
    if (loop->leave_ns != 0)
        return;
    for (uint32_t i = 0; i < LAST_ACCEPTS; i++)
        accept_some(loop); /* the kernel would reset them */
    listener_close(&loop->options.listener);
    loop->accept_ns = 0;
    loop->leave_ns = loop->busy_ns = loop->now_ns = clock_now_ns(loop->options.clock);
    for (uint32_t i = 0; i < loop->used_max; i++)
        if (loop->connections[i].fd >= 0)
            mark_dirty(loop, &loop->connections[i]);
}

bool resp_loop_waits(const struct resp_loop *loop)
{
    return resp_gate_waiting(loop->gate) > 0;
}

bool resp_loop_left(const struct resp_loop *loop)
{
    return loop->leave_ns != 0 && loop->stats->connections == 0;
}

bool resp_loop_pending(const struct resp_loop *loop)
{
    return loop->dirty_first != NONE || loop->event_at < loop->event_count;
}

bool resp_loop_due(const struct resp_loop *loop, int64_t now_ns)
{
    return loop->leave_ns != 0 || now_ns - loop->looked_ns >= LOOK_NS;
}

int resp_loop_fd(const struct resp_loop *loop)
{
    return loop->epoll;
}

void resp_loop_stats(const struct resp_loop *loop, struct resp_stats *out)
{
    *out = *loop->stats;
}

/* ---- life ------------------------------------------------------------------------------------ */

int resp_loop_new(const struct resp_loop_options *options, struct resp_loop **out)
{
    struct resp_loop *loop = calloc(1, sizeof *loop);
    int listener = options->listener;
    *out = loop;
    if (loop == NULL) {
        listener_close(&listener);
        return TG_ENOMEM;
    }
    loop->options = *options;
    loop->first_free = loop->dirty_first = NONE;
    loop->connections = calloc(options->facts.connections_max, sizeof *loop->connections);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->all < 0)
        loop->options.all = loop->epoll;
    int error = loop->connections == NULL ? TG_ENOMEM : 0;
    if (error == 0 && loop->epoll < 0)
        error = TG_EIO;
    if (error == 0)
        error = resp_gate_new(alloc_heap(), options->session, &options->facts, &loop->gate);
    if (error != 0) {
        resp_loop_free(out);
        return error;
    }
    loop->stats = resp_gate_stats(loop->gate);
    const int len = SOCKET_LEN; /* connections inherit it */
    (void)setsockopt(options->listener, SOL_SOCKET, SO_RCVBUF, &len, sizeof len);
    (void)setsockopt(options->listener, SOL_SOCKET, SO_SNDBUF, &len, sizeof len);
    watch_listener(loop, EPOLL_CTL_ADD, true);
    return 0;
}

void resp_loop_free(struct resp_loop **pointer)
{
    struct resp_loop *loop = *pointer;
    *pointer = NULL;
    if (loop == NULL)
        return;
    if (loop->gate != NULL)
        close_all(loop);
    listener_close(&loop->options.listener);
    while (loop->block_count > 0)
        free(loop->blocks[--loop->block_count]);
    if (loop->epoll >= 0)
        (void)close(loop->epoll);
    free(loop->connections);
    resp_gate_free(&loop->gate);
    free(loop);
}

/* ---- the invariants -------------------------------------------------------------------------- */

static void check_connection(const struct resp_loop *loop, const struct connection *connection)
{
    const struct resp_writer *out = &connection->peer.out;
    INVARIANT("RESPLOOP-7", (connection->kept == NULL) == (connection->kept_len == 0));
    INVARIANT("RESPLOOP-7", connection->kept_len <= KEPT_MAX);
    INVARIANT("RESPLOOP-7", out->capacity == (out->data != NULL ? RESP_OUT_LEN : 0));
    INVARIANT("RESPLOOP-7", connection->sent <= out->len);
    INVARIANT("RESPLOOP-1", connection->dirty || connection->peer.waiting > 0 ||
                                connection->blocked || out->len == 0);
    resp_gate_check_peer(loop->gate, &connection->peer, token_of(loop, connection));
}

static uint32_t count_places(const struct resp_loop *loop, uint32_t first, bool dirty)
{
    uint32_t count = 0;
    for (uint32_t at = first; at != NONE; at = loop->connections[at].next) {
        INVARIANT("RESPLOOP-1", at < loop->used_max && count < loop->used_max);
        INVARIANT("RESPLOOP-1", loop->connections[at].dirty == dirty);
        INVARIANT("RESPLOOP-7", (loop->connections[at].fd >= 0) == dirty);
        count++;
    }
    return count;
}

void resp_loop_check_invariants(const struct resp_loop *loop)
{
    uint64_t open = 0;
    uint32_t blocked = 0;
    uint32_t dirty = 0;
    size_t kept = 0;
    for (uint32_t at = 0; at < loop->used_max; at++) {
        const struct connection *connection = &loop->connections[at];
        if (connection->fd < 0)
            continue;
        check_connection(loop, connection);
        open++;
        blocked += connection->blocked;
        dirty += connection->dirty;
        kept += connection->kept_len;
    }
    INVARIANT("RESPLOOP-1", count_places(loop, loop->dirty_first, true) == dirty);
    INVARIANT("RESPLOOP-7", open + count_places(loop, loop->first_free, false) == loop->used_max);
    INVARIANT("RESPLOOP-7", open == loop->stats->connections && blocked == loop->blocked);
    INVARIANT("RESPLOOP-7", kept == loop->kept_total && kept <= KEPT_TOTAL_MAX);
    INVARIANT("RESPLOOP-7", loop->block_count <= BLOCKS_KEPT);
    INVARIANT("RESPLOOP-5", loop->event_at <= loop->event_count);
    resp_gate_check_invariants(loop->gate);
}
