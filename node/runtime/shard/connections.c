/* connections.c - turns of a loop of connections: read in bursts, decided together, answered
 * together. connections_state.h names the files beside this one.
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
 * asks for CONNECTIONS_EVENTS_MAX sockets at once and takes BURST_NS at most, and what is left is
 * taken first in the next.
 *
 * Nothing is taken from a connection that has something kept and cannot go on, or has something to
 * be sent that its client does not take: so at most a request of the protocol and what was read
 * with it are here, and what is owed for it, and the rest stays in its socket's buffers, which are
 * small, and with the client. So it is with a node that has more to do than it can: what has come
 * waits as long as that much takes, and what has not waits where it is made.
 *
 *            all taken              request before      replies not taken
 *   READING ----------> READING    is not answered      by the client
 *      |                  ^   ^           |                  |
 *      +---- kept --------|---|-----> STALLED            BLOCKED --slow_ns--> closed, counted
 *                         |   +--answer---+                  |
 *                         +-------------writable-------------+
 *
 * What has begun has to end: the beginning of a connection within begin_ns, a request within
 * request_ns. Who is idle between requests may stay for idle_ns (acceptor.c says until when where
 * that is 0).
 *
 * A node that stops leaves its clients (connections_leave): nothing more is read; what was is
 * answered, by a shard that has resigned with an error, and what waits for another node by that
 * one; then the client is told that no more will
 * come (FIN), as one that was closed for what it sent; ENDS_NS after an answer, for libzmq drops
 * what its application has not taken by then. To close with bytes unread would reset the
 * connection, and the client could not know what became of all that it had asked. So what still
 * comes is thrown away, until the client closes, or for LEAVE_NS: what has no answer by then was
 * not taken. A client that does not read what it asked for loses it after LEAVE_MAX_NS.
 *
 * CONNECTIONS-1  A connection that can go on, or has something to be sent, is in `dirty` or
 *                `deferred`, or waits for its socket.
 * CONNECTIONS-2  A stalled or blocked connection that has input is muted: its socket does not wake
 *                the loop.
 * CONNECTIONS-3  All sockets that were found ready have their turn before it is asked again which
 *                are: the kernel names them in the same order each time, so that those in front, if
 *                they always have more, would be all that is ever read.
 * CONNECTIONS-4  To leave takes LEAVE_MAX_NS and LEAVE_NS at most, whatever clients and the shard
 *                do.
 * CONNECTIONS-5  A turn takes BURST_NS, and what one connection may take at once: a batch, or as
 *                much as there is room to answer. Other shards' patience is worth more than that.
 * CONNECTIONS-6  A connection that was left for another turn goes on first in every second one:
 *                those that have just become ready do not take all the time, nor does it. It goes
 *                on before those that were left after it.
 * CONNECTIONS-7  A connection that sleeps, as a response does that goes on now and then, costs a
 *                turn nothing: it is looked at when its codec has it found, or the node stops.
 */
#include "node/runtime/shard/connections.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "node/gateway/batches.h"
#include "node/runtime/shard/connections_state.h"

#define BURST_NS INT64_C(2000000) /* of a turn */
/* Where clients ask one thing after the other, some have asked again by the time the others are
 * answered, or are about to. So long a turn begins anew with them, and polls for them, for another
 * one costs more; not while somebody waits for another node's answer, which the rest of the shard's
 * turn brings. */
#define AGAIN_NS INT64_C(250000)
#define LOOK_NS  INT64_C(200000000) /* from one look for what is late or slow to the next */
/* Leaving: how long all is there to be read by a client that has not closed, and how long before
 * that answers and slow readers may be waited for. The gate gives up what is not answered sooner.
 */
#define LEAVE_NS     INT64_C(250000000)
#define ENDS_NS      INT64_C(25000000) /* from an answer to the end that is told behind it */
#define LEAVE_MAX_NS INT64_C(3000000000)

enum { DISCARD_MAX = 1 << 20 }; /* bytes of a client that was told that no more will come */

static int64_t clock_of(const struct connections *connections)
{
    return clock_now_ns(connections->options.clock);
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct gateway_peer *find(void *context, uint64_t token)
{
    struct connections *connections = context;
    struct connection *connection = connection_of(connections, token);
    if (connection == NULL)
        return NULL;
    connection->sleeps = false;
    connection_mark_dirty(connections, connection);
    return connection_peer(connections, connection);
}

static struct gateway_finder finder_of(struct connections *connections)
{
    return (struct gateway_finder){find, connections};
}

void connections_answer(struct connections *connections, const void *frame, size_t len)
{
    const struct gateway_finder finder = finder_of(connections);
    /* Moments are told from now on, and another node may have taken a while. */
    connections->options.codec->now(connections->options.gate, clock_of(connections));
    batches_answer(connections->options.batches, frame, len, &finder);
}

bool connections_put(struct connections *connections, uint64_t token, const void *data, size_t len)
{
    struct connection *connection = connection_of(connections, token);
    if (connection == NULL || connection->broken || connection->shut)
        return false;
    if (!connection_room(connections, connection, len + GATEWAY_PUT_HEAD)) {
        connections->stats->dropped += !connection->broken;
        return false;
    }
    connections->options.codec->put(connections->options.gate,
                                    connection_peer(connections, connection), data, len);
    connection->asked_ns = 0;
    connection->answered_ns = connections->now_ns;
    connections->owed_known = false;
    connection_mark_dirty(connections, connection);
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void submit(struct connections *connections)
{
    const uint8_t *frame;
    if (connections->options.batches == NULL)
        return;
    const size_t len = batches_submit(connections->options.batches, &frame);
    if (len > 0)
        connections->options.submit(connections->options.context, frame, len);
}

static uint32_t waiting(const struct connections *connections)
{
    const struct batches *batches = connections->options.batches;
    return batches != NULL ? batches->waiting : 0;
}

/* Gives `out` the room that the codec has asked for. One that waits for nothing is not left without
 * it: its request is refused. */
static bool make_room(struct connections *connections, struct connection *connection)
{
    struct gateway_peer *peer = connection_peer(connections, connection);
    if (peer->room == 0)
        return false;
    if (connection_room(connections, connection, peer->reserved + peer->room))
        return true;
    peer->cramped = peer->waiting == 0;
    return peer->cramped && !connection->broken;
}

/* Whether more can be taken after `stop`, with what can be done about it now. */
static bool go_on(struct connections *connections, struct connection *connection,
                  enum gateway_stop stop)
{
    const struct gateway_peer *peer = connection_peer(connections, connection);
    switch (stop) {
    case GATEWAY_NEED_SUBMIT:
        submit(connections);
        return true;
    case GATEWAY_NEED_ROOM:
        if (peer->out.len > 0) {
            connection_flush(connections, connection);
            return !connection->blocked && !connection->broken;
        }
        if (make_room(connections, connection))
            return true;
        submit(connections); /* all room is reserved for answers */
        return peer->waiting == 0;
    case GATEWAY_NEED_BYTES:
    case GATEWAY_NEED_ANSWER:
    case GATEWAY_NEED_TURN:
    case GATEWAY_NEED_TIME:
    case GATEWAY_AT_END:
        break;
    }
    return false;
}

/* When what is left began: it is another request than before if something was taken. */
static void note_unfinished(struct connections *connections, struct connection *connection,
                            bool taken)
{
    const struct gateway_peer *peer = connection_peer(connections, connection);
    const bool asks = peer->open || (connection->kept_len > 0 && !connection->stalled);
    const bool begins =
        !peer->begun || connection_proxy_waits(connections, connection) || (asks && peer->early);
    if (taken && peer->begun && !peer->open)
        connection_set_wait(connections, connection, CONNECTION_SETTLED);
    connection_set_wait(connections, connection,
                        begins ? CONNECTION_BEGINS
                        : asks ? CONNECTION_ASKS
                               : CONNECTION_SETTLED);
}

/* Looks whether a proxy says for whom the connection is. False: there is nothing to be taken, yet
 * or ever. */
static bool is_known(struct connections *connections, struct connection *connection,
                     const char *data, size_t len, size_t *used)
{
    if (!connection->fresh)
        return true;
    const bool known = connection_proxy_take(connections, connection, data, len, used);
    if (known && *used < len)
        return true;
    if (known || connection_peer(connections, connection)->closing)
        connection_drop_kept(connections, connection);
    else if (!connection_keep(connections, connection, data, len, 0))
        connection_break(connections, connection);
    note_unfinished(connections, connection, false);
    connection_mark_dirty(connections, connection);
    return false;
}

/* Takes requests from `data`, which is the input or what is kept, and keeps what is left. */
static void feed(struct connections *connections, struct connection *connection, const char *data,
                 size_t len)
{
    const struct gateway_codec *codec = connections->options.codec;
    struct gateway_peer *peer = connection_peer(connections, connection);
    const uint64_t token = connection_token(connections, connection);
    enum gateway_stop stop;
    size_t at = 0;
    if (!is_known(connections, connection, data, len, &at))
        return;
    connections->owed_known = false;
    do {
        size_t used = 0;
        if (!connection_ensure_out(connections, connection)) {
            connection_break(connections, connection);
            return;
        }
        stop = codec->take(connections->options.gate, peer, token, data + at, len - at, &used);
        at += used;
        if (!go_on(connections, connection, stop))
            break;
        stop = GATEWAY_NEED_TURN; /* unless there is time left for more (CONNECTIONS-5) */
    } while (clock_of(connections) < connections->until_ns);
    if (stop == GATEWAY_AT_END)
        connection_drop_kept(connections, connection);
    else if (!connection_keep(connections, connection, data, len, at))
        connection_break(connections, connection);
    connection->sleeps = stop == GATEWAY_NEED_TIME;
    connection->stalled = stop == GATEWAY_NEED_ANSWER || stop == GATEWAY_NEED_ROOM ||
                          stop == GATEWAY_NEED_TURN || connection->sleeps;
    note_unfinished(connections, connection, at > 0);
    connections->full = connections->full || stop == GATEWAY_NEED_TURN;
    if (stop == GATEWAY_NEED_TURN && !connection->dirty && !connection->broken)
        connection_defer(connections, connection);
    else
        connection_mark_dirty(connections, connection);
}

/* What comes from a client that was told that no more will come. */
static void discard(struct connections *connections, struct connection *connection)
{
    const ssize_t got =
        recv(connection->fd, connections->input, sizeof connections->input, MSG_DONTWAIT);
    connection->discarded += got > 0 ? (size_t)got : 0;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ||
        connection->discarded > DISCARD_MAX)
        connection_break(connections, connection);
}

static void read_from(struct connections *connections, struct connection *connection)
{
    const struct gateway_peer *peer = connection_peer(connections, connection);
    if (connection->shut) {
        discard(connections, connection);
        return;
    }
    if (connection->stalled || connection->blocked || peer->closing || connection->ended ||
        connections->leave_ns != 0) {
        connection_set_muted(connections, connection, true); /* CONNECTIONS-2 */
        return;
    }
    size_t len;
    char *input = connection_input(connections, connection, &len);
    if (input == NULL) {
        connection_break(connections, connection);
        return;
    }
    const ssize_t got = recv(connection->fd, input, len, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got <= 0) {
        connection->ended = true;
        connection->broken = got < 0;
        connection_set_muted(connections, connection, true);
        connection_mark_dirty(connections, connection);
        return;
    }
    connection_heard(connections, connection);
    if (input == connections->input + connection->kept_len) {
        feed(connections, connection, connections->input, connection->kept_len + (size_t)got);
        return;
    }
    connection->kept_len += (size_t)got;
    if (connection->kept_len >= peer->need)
        feed(connections, connection, connection->kept, connection->kept_len);
}

/* ---- what is dirty --------------------------------------------------------------------------- */

/* Whether the connection has come to its end, and all is done: what was kept has been gone on with,
 * so if some of it is left, something is waited for, or to be sent. */
static bool finished(struct connections *connections, const struct connection *connection)
{
    const struct gateway_peer *peer = connection_peer(connections, connection);
    if (connection->broken)
        return true;
    if (peer->waiting > 0 || peer->out.len > 0 ||
        (connections->leave_ns != 0 && !connection->shut &&
         connection_owed(connections, connection)))
        return false;
    return peer->closing || connection->ended || connections->leave_ns != 0;
}

/* Ends a connection that is finished. One whose client may still send is told that no more will
 * come (FIN), and what it sends is thrown away until it closes: to close with bytes unread would
 * take back what it has not read yet, the sentence that says what was wrong as well. */
static void finish(struct connections *connections, struct connection *connection)
{
    const bool answered = connections->leave_ns != 0 && connection->answered_ns != 0 &&
                          connections->now_ns - connection->answered_ns < ENDS_NS;
    const bool late = answered || connection_peer(connections, connection)->ends_late;
    if (connection->broken || connection->ended ||
        (!connection->shut && !late && shutdown(connection->fd, SHUT_WR) != 0)) {
        connection_close(connections, connection);
        return;
    }
    if (!connection->shut)
        connection_set_wait(connections, connection,
                            answered ? CONNECTION_ENDS : CONNECTION_LEAVES);
    connection->shut = true;
    connection_drop_kept(connections, connection);
    connection_set_muted(connections, connection, false);
}

/* Has a peer whose answers come by stream write them, as long as its client takes them. */
static void pump(struct connections *connections, struct connection *connection)
{
    const struct gateway_codec *codec = connections->options.codec;
    struct gateway_peer *peer = connection_peer(connections, connection);
    bool more = peer->by_stream && !connection->shut;
    while (more && !connection->broken && !connection->blocked) {
        if (!connection_ensure_out(connections, connection)) {
            connection_break(connections, connection);
            return;
        }
        more = codec->pump(connections->options.gate, peer, connections->leave_ns != 0);
        connection_flush(connections, connection);
    }
}

/* Whether what is kept may be taken now: where answers have an order, behind the last of them. */
static bool may_go_on(const struct connection *connection, const struct gateway_peer *peer)
{
    return connection->stalled && !connection->sleeps /* CONNECTIONS-7 */ && !connection->broken &&
           !connection->blocked && (peer->waiting == 0 || peer->by_stream);
}

/* Goes on with a connection after something has happened to it. */
static void go_on_with(struct connections *connections, struct connection *connection)
{
    const struct gateway_peer *peer = connection_peer(connections, connection);
    if (may_go_on(connection, peer)) {
        feed(connections, connection,
             connection->kept != NULL ? connection->kept : connections->input,
             connection->kept_len);
    }
    pump(connections, connection);
    if (!connection->broken && !connection->blocked)
        connection_flush(connections, connection);
    if (connection->deferred)
        return; /* it comes again in the next turn */
    if (finished(connections, connection)) {
        if (!connection->dirty)
            finish(connections, connection);
        return; /* else it comes again */
    }
    if (!connection->stalled && !connection->blocked && !connection->ended && !peer->closing)
        connection_set_muted(connections, connection, false);
}

/* Submits what was taken and goes on with whatever has been answered, or was left for another turn,
 * until nothing is left, or the turn has taken long enough. In a turn that has, those that were
 * left keep their places before those that it leaves (CONNECTIONS-6). */
static void settle(struct connections *connections)
{
    struct connection *connection;
    bool time_left = true;
    if (!connections->full)
        connection_resume(connections);
    while (time_left) {
        submit(connections);
        for (uint32_t i = 0; time_left && i < CONNECTIONS_EVENTS_MAX &&
                             (connection = connection_take_dirty(connections)) != NULL;
             i++) {
            go_on_with(connections, connection);
            time_left = clock_of(connections) < connections->until_ns; /* CONNECTIONS-5 */
        }
        submit(connections);
        time_left = time_left && connections->dirty.first != CONNECTIONS_NONE;
    }
}

/* ---- a turn ---------------------------------------------------------------------------------- */

/* A request took too long: its client is told, if it can be. */
static void tell_late(struct connections *connections, struct connection *connection)
{
    const struct gateway_codec *codec = connections->options.codec;
    if (codec->late == NULL || connection->broken || connection->blocked || connection->shut ||
        !connection_ensure_out(connections, connection))
        return;
    codec->late(connections->options.gate, connection_peer(connections, connection));
    connection_flush(connections, connection);
}

/* Breaks those in front of an order, which have been in it since what `since` tells for so long.
 * Returns how many: broken ones stay in it until they are closed, soon. */
static uint64_t cut_off(struct connections *connections, const struct connection_order *order,
                        enum connection_by by, int64_t longest_ns)
{
    uint64_t count = 0;
    struct connection *connection = connection_oldest(connections, order);
    for (; connection != NULL; connection = connection_newer(connections, connection, by)) {
        const int64_t since_ns =
            by == CONNECTION_BY_BLOCK ? connection->moved_ns : connection->since_ns;
        if (connections->now_ns - since_ns < longest_ns)
            break; /* PLACES-5 */
        count += !connection->broken;
        if (by == CONNECTION_BY_WAIT && !connection->broken)
            tell_late(connections, connection);
        connection_break(connections, connection);
    }
    return count;
}

/* Ends connections that have been quiet for as long as they may: those that were quiet for longest
 * come first. */
static void end_quiet(struct connections *connections)
{
    const int64_t idle_ns = connections->options.idle_ns;
    struct connection *connection = connection_oldest(connections, &connections->used);
    for (; idle_ns > 0 && connection != NULL;
         connection = connection_newer(connections, connection, CONNECTION_BY_USE)) {
        const struct gateway_peer *peer = connection_peer(connections, connection);
        if (connections->now_ns - connection->heard_ns < idle_ns)
            return;
        if (connection->dirty || connection->deferred || connection->broken || connection->shut ||
            peer->waiting > 0 || peer->out.len > 0 || peer->told || peer->by_stream)
            continue; /* other bounds are its own */
        connections->stats->idle++;
        connection_break(connections, connection);
    }
}

/* Cuts off who takes nothing of what was answered, or does not end what it began, and gives up what
 * the shard does not answer. */
static void look(struct connections *connections)
{
    const struct connections_options *options = &connections->options;
    const struct connection_order *waits = connections->waits;
    struct gateway_stats *stats = connections->stats;
    const struct gateway_finder finder = finder_of(connections);
    connections->looked_ns = connections->now_ns;
    if (options->batches != NULL)
        batches_expire(options->batches, &finder);
    if (options->codec->look != NULL)
        options->codec->look(options->gate, &finder);
    acceptor_look(connections);
    end_quiet(connections);
    stats->slow_readers +=
        cut_off(connections, &connections->stuck, CONNECTION_BY_BLOCK, options->slow_ns);
    stats->unfinished +=
        cut_off(connections, &waits[CONNECTION_BEGINS], CONNECTION_BY_WAIT, options->begin_ns);
    stats->unfinished +=
        cut_off(connections, &waits[CONNECTION_ASKS], CONNECTION_BY_WAIT, options->request_ns);
    if (connections->leave_ns == 0)
        (void)cut_off(connections, &waits[CONNECTION_LEAVES], CONNECTION_BY_WAIT, LEAVE_NS);
}

static void take_event(struct connections *connections, const struct epoll_event *event)
{
    uint32_t number;
    if (acceptor_is_listener(event->data.u64, &number)) {
        if (connections->leave_ns == 0)
            acceptor_accept(connections, number);
        return;
    }
    struct connection *connection = connection_of(connections, event->data.u64);
    if (connection == NULL || connection->broken)
        return;
    if ((event->events & (EPOLLERR | EPOLLHUP)) != 0) {
        connection_break(connections, connection);
        return;
    }
    if ((event->events & EPOLLOUT) != 0) {
        connection_flush(connections, connection);
        connection_mark_dirty(connections, connection);
    }
    if ((event->events & EPOLLIN) != 0 && !connection->broken)
        read_from(connections, connection);
}

static void ask_events(struct connections *connections)
{
    const int count =
        epoll_wait(connections->epoll, connections->events, CONNECTIONS_EVENTS_MAX, 0);
    connections->event_at = 0;
    connections->event_count = count > 0 ? count : 0;
}

/* CONNECTIONS-3. An event may be out of date: its connection gone, or read meanwhile; that does no
 * harm. Whether there was any. */
static bool take_events(struct connections *connections)
{
    if (connections->event_at == connections->event_count)
        ask_events(connections);
    const bool any = connections->event_at < connections->event_count;
    while (connections->event_at < connections->event_count && !connections->full) {
        take_event(connections, &connections->events[connections->event_at++]);
        if (clock_of(connections) >= connections->until_ns)
            break; /* the others are next, in the next turn */
    }
    return any;
}

static void close_all(struct connections *connections)
{
    connections->dirty.first = connections->deferred.first = CONNECTIONS_NONE;
    for (uint32_t i = 0; i < connections->used_max; i++) {
        struct connection *connection = &connections->places[i];
        if (connection->fd < 0)
            continue;
        connection->dirty = connection->deferred =
            true; /* in no list any more, and in none again */
        if (!connection->broken && !connection->blocked)
            connection_flush(connections, connection);
        connection->dirty = connection->deferred = false;
        connection_close(connections, connection);
    }
}

/* Tells those that no more comes who have had time to take what they were answered. */
static void tell_ends(struct connections *connections)
{
    const struct connection_order *order = &connections->waits[CONNECTION_ENDS];
    struct connection *connection;
    while ((connection = connection_oldest(connections, order)) != NULL &&
           connections->now_ns - connection->since_ns >= ENDS_NS) {
        if (shutdown(connection->fd, SHUT_WR) != 0)
            connection_break(connections, connection);
        connection_set_wait(connections, connection, CONNECTION_LEAVES);
    }
}

/* CONNECTIONS-4 */
static void look_at_leaving(struct connections *connections)
{
    connection_look_owed(connections);
    tell_ends(connections);
    const bool busy = connections->dirty.first != CONNECTIONS_NONE ||
                      connections->deferred.first != CONNECTIONS_NONE ||
                      connections->stuck.oldest != CONNECTIONS_NONE ||
                      connections_waits(connections);
    if (busy && connections->now_ns - connections->leave_ns < LEAVE_MAX_NS)
        connections->busy_ns = connections->now_ns;
    if (connections->stats->connections > 0 &&
        connections->now_ns - connections->busy_ns >= LEAVE_NS)
        close_all(connections);
}

/* Polls for who is about to ask. True if there is something to do for the thread, of these clients
 * or not. */
static bool wait_for_more(struct connections *connections, int64_t until_ns)
{
    struct pollfd all = {.fd = connections->options.all, .events = POLLIN};
    while (connections->options.polls && connections->now_ns < until_ns &&
           busy_poll_on(&connections->busy_poll, false, connections->now_ns)) {
        connections->stats->polls++;
        if (poll(&all, 1, 0) > 0)
            return true;
        connections->now_ns = clock_of(connections);
    }
    return false;
}

void connections_other(struct connections *connections)
{
    busy_poll_other(&connections->busy_poll, clock_of(connections));
}

static void set_now(struct connections *connections)
{
    connections->now_ns = clock_of(connections);
    connections->options.codec->now(connections->options.gate, connections->now_ns);
}

/* Whether all that was ready has been read: it is looked once more where the turn ended sooner. */
static bool is_empty(struct connections *connections, bool any)
{
    if (connections->deferred.first != CONNECTIONS_NONE ||
        connections->event_at < connections->event_count)
        return false;
    if (any)
        ask_events(connections);
    return connections->event_at == connections->event_count;
}

void connections_turn(struct connections *connections)
{
    set_now(connections);
    const int64_t again_ns = connections->now_ns + AGAIN_NS;
    bool any = true;
    bool more;
    busy_poll_begin(&connections->busy_poll);
    connections->owed_known = false;
    connections->until_ns = connections->now_ns + BURST_NS;
    connections->full = false;
    if (++connections->turns % 2 == 0)
        settle(connections); /* CONNECTIONS-6 */
    do {
        const bool waited = !any;
        set_now(connections);
        any = take_events(connections);
        if (any)
            (void)busy_poll_on(&connections->busy_poll, true, connections->now_ns);
        if (connections->now_ns - connections->looked_ns >= LOOK_NS)
            look(connections);
        if (!any || connections->options.batches != NULL)
            settle(connections); /* else what comes meanwhile is answered together */
        connections->now_ns = clock_of(connections);
        more = waiting(connections) == 0 && connections->now_ns < again_ns && !connections->full;
        if (!any && waited) /* what ended polling was not of these clients */
            busy_poll_other(&connections->busy_poll, connections->now_ns);
        if (more && !any)
            more = !waited && connections->leave_ns == 0 && wait_for_more(connections, again_ns);
    } while (more);
    if (connections->options.read != NULL)
        connections->options.read(connections->options.context, is_empty(connections, any));
    if (connections->options.batches == NULL) { /* answers were held back for one another */
        connections->until_ns = clock_of(connections) + BURST_NS;
        settle(connections);
    }
    if (connections->leave_ns != 0)
        look_at_leaving(connections);
}

/* ---- leaving --------------------------------------------------------------------------------- */

void connections_leave(struct connections *connections)
{
    if (connections->leave_ns != 0)
        return;
    connections->now_ns = clock_of(connections);
    acceptor_leave(connections);
    connections->leave_ns = connections->busy_ns = connections->now_ns;
    connection_look_owed(connections);
    for (uint32_t i = 0; i < connections->used_max; i++) {
        connections->places[i].sleeps = false;
        if (connections->places[i].fd >= 0)
            connection_mark_dirty(connections, &connections->places[i]);
    }
}

bool connections_waits(const struct connections *connections)
{
    return waiting(connections) > 0 || (connections->leave_ns != 0 && connections->owed_count > 0);
}

bool connections_left(const struct connections *connections)
{
    return connections->leave_ns != 0 && connections->stats->connections == 0;
}

bool connections_pending(const struct connections *connections)
{
    return connections->dirty.first != CONNECTIONS_NONE ||
           connections->deferred.first != CONNECTIONS_NONE ||
           connections->event_at < connections->event_count;
}

bool connections_due(const struct connections *connections, int64_t now_ns)
{
    return connections->leave_ns != 0 || now_ns - connections->looked_ns >= LOOK_NS;
}

int connections_fd(const struct connections *connections)
{
    return connections->epoll;
}

void connections_stats(const struct connections *connections, struct gateway_stats *out)
{
    *out = *connections->stats;
}

/* ---- life ------------------------------------------------------------------------------------ */

int connections_new(const struct connections_options *options, struct connections **out)
{
    struct connections *connections = calloc(1, sizeof *connections);
    *out = connections;
    if (connections == NULL) {
        for (uint32_t i = 0; i < options->listener_count; i++)
            (void)close(options->listeners[i]);
        return TG_ENOMEM;
    }
    ASSERT(options->codec->read_len <= CONNECTIONS_READ_MAX);
    connections->options = *options;
    if (options->waiting_max == 0)
        connections->options.waiting_max = CONNECTIONS_WAITING_MAX;
    connections->stats = options->stats;
    connections->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->all < 0)
        connections->options.all = connections->epoll;
    int error = connection_places_new(connections);
    if (error == 0 && connections->epoll < 0)
        error = TG_EIO;
    if (error != 0) {
        connections_free(out);
        return error;
    }
    acceptor_open(connections);
    return 0;
}

void connections_free(struct connections **pointer)
{
    struct connections *connections = *pointer;
    *pointer = NULL;
    if (connections == NULL)
        return;
    close_all(connections);
    acceptor_close(connections);
    connection_bytes_free(connections);
    connection_places_free(connections);
    if (connections->epoll >= 0)
        (void)close(connections->epoll);
    free(connections);
}
