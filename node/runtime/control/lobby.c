/* lobby.c - clients of a node that does not serve yet; lobby.h is the contract.
 *
 * LOBBY-1  Whoever asks is answered, or its connection is closed: never is a question left without
 *          a word. Nothing that a client sends takes more than its place here.
 * LOBBY-2  Whoever comes when all places are taken has that of who was quiet longest: idle
 *          connections, as clients keep ready, keep nobody out. A place is kept for a turn at
 *          least, in which what was asked is answered.
 */
#include "node/runtime/control/lobby.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "client/protocol/wire.h"
#include "node/gateway/resp_parser.h"

enum { BURST = 64, LINE_LEN = 640, ANSWER_LEN = 1024 };

struct lobby_connection {
    int fd;        /* -1: free */
    uint64_t turn; /* in which it came, or said something last */
    size_t len;
    char bytes[LOBBY_BYTES];
};

struct lobby {
    struct socket_holder holder;
    struct resp_request request;
    uint64_t turn;
    struct lobby_connection connections[LOBBY_CONNECTIONS_MAX];
};

int lobby_new(struct lobby **out)
{
    struct lobby *lobby = calloc(1, sizeof *lobby);
    *out = lobby;
    if (lobby == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i < LOBBY_CONNECTIONS_MAX; i++)
        lobby->connections[i].fd = -1;
    return 0;
}

static void leave(struct lobby_connection *connection)
{
    ASSERT(connection->fd >= 0 && connection->len <= LOBBY_BYTES);
    (void)close(connection->fd);
    connection->fd = -1;
    connection->len = 0;
}

void lobby_free(struct lobby **pointer)
{
    struct lobby *lobby = *pointer;
    *pointer = NULL;
    if (lobby == NULL)
        return;
    for (size_t i = 0; i < LOBBY_CONNECTIONS_MAX; i++)
        if (lobby->connections[i].fd >= 0)
            leave(&lobby->connections[i]);
    socket_release(&lobby->holder);
    free(lobby);
}

/* ---- native clients -------------------------------------------------------------------------- */

/* The length of the answer, 0 for none: an operator's question is answered as such, so that its
 * sentence is shown alone. */
static size_t refuse(const struct socket_message *message, const char *why, uint8_t out[ANSWER_LEN])
{
    struct wire_envelope envelope = {0};
    char ignored[WIRE_ERROR_LEN];
    const int result =
        wire_peek(message->data, message->odd ? 0 : message->len, &envelope, ignored);
    if (result == 0 && envelope.type == WIRE_GOODBYE)
        return 0;
    if (result == 0 && envelope.type == WIRE_ADMIN) {
        struct mp_writer writer;
        mp_writer_init(&writer, out, ANSWER_LEN);
        wire_begin_admin_reply(&writer, envelope.session, envelope.seq, TG_EUNAVAILABLE);
        mp_put_str(&writer, why);
        return writer.failed ? 0 : writer.len;
    }
    const struct wire_error error = {
        .session = envelope.session,
        .seq = envelope.seq,
        .code = result != 0 ? result : TG_EUNAVAILABLE,
        .text = wire_text_of(result != 0 ? ignored : why),
    };
    const int len = wire_encode_error(&error, out, ANSWER_LEN);
    return len > 0 ? (size_t)len : 0;
}

void lobby_answer(struct lobby *lobby, void *router, const char *why)
{
    struct socket_message message;
    uint8_t answer[ANSWER_LEN];
    for (int taken = 0; taken < BURST && socket_receive(router, &lobby->holder, &message) > 0;
         taken++) {
        const size_t len = refuse(&message, why, answer);
        if (len > 0)
            (void)socket_reply(router, message.connection, answer, len); /* or it is gone */
    }
}

/* ---- Redis clients --------------------------------------------------------------------------- */

/* A place for one who comes (LOBBY-2); NULL: in this turn there is none. */
static struct lobby_connection *place(struct lobby *lobby)
{
    struct lobby_connection *quiet = NULL;
    for (size_t i = 0; i < LOBBY_CONNECTIONS_MAX; i++) {
        struct lobby_connection *at = &lobby->connections[i];
        if (at->fd < 0)
            return at;
        if (at->turn < lobby->turn && (quiet == NULL || at->turn < quiet->turn))
            quiet = at;
    }
    return quiet;
}

void lobby_accept(struct lobby *lobby, int listener)
{
    for (int taken = 0; listener >= 0 && taken < BURST; taken++) {
        struct lobby_connection *to = place(lobby);
        const int fd =
            to == NULL ? -1 : accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return; /* the others wait in the kernel's queue */
        if (to->fd >= 0)
            leave(to);
        *to = (struct lobby_connection){.fd = fd, .turn = lobby->turn};
    }
}

/* "-UNAVAILABLE why\r\n", a line whatever is in the reason. */
static size_t write_line(const char *why, char out[LINE_LEN])
{
    const int len = snprintf(out, LINE_LEN - 2, "-UNAVAILABLE %s", why);
    const size_t end = len < LINE_LEN - 2 ? (size_t)(len > 0 ? len : 0) : LINE_LEN - 3;
    for (size_t i = 0; i < end; i++)
        if ((unsigned char)out[i] < ' ')
            out[i] = '?';
    memcpy(out + end, "\r\n", 2);
    return end + 2;
}

/* Answers each whole request of what was read. False: it is to be closed. */
static bool answer_all(struct lobby *lobby, struct lobby_connection *connection, const char *line,
                       size_t line_len)
{
    size_t at = 0;
    while (at < connection->len) {
        const char *error;
        const int taken =
            resp_parse(connection->bytes + at, connection->len - at, &lobby->request, &error);
        if (taken == 0)
            break;
        if (taken < 0 || lobby->request.count > 0) {
            const ssize_t sent = send(connection->fd, line, line_len, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (taken < 0 || sent != (ssize_t)line_len)
                return false; /* or it does not read */
        }
        at += (size_t)taken;
    }
    ASSERT(at <= connection->len); /* RESPPARSER-1 */
    connection->len -= at;
    memmove(connection->bytes, connection->bytes + at, connection->len);
    return connection->len < LOBBY_BYTES; /* LOBBY-1 */
}

void lobby_answer_redis(struct lobby *lobby, const char *why)
{
    char line[LINE_LEN];
    const size_t line_len = write_line(why, line);
    for (size_t i = 0; i < LOBBY_CONNECTIONS_MAX; i++) {
        struct lobby_connection *connection = &lobby->connections[i];
        if (connection->fd < 0)
            continue;
        const ssize_t got = recv(connection->fd, connection->bytes + connection->len,
                                 LOBBY_BYTES - connection->len, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        connection->len += got > 0 ? (size_t)got : 0;
        connection->turn = lobby->turn;
        if (got <= 0 || !answer_all(lobby, connection, line, line_len))
            leave(connection);
    }
    lobby->turn++;
}
