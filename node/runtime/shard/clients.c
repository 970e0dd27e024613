/* clients.c - turns of reading and deciding; clients.h tells the rules.
 *
 * The message that waits under place p of the intake is kept in held[p]. A message of ZeroMQ is
 * moved there as it is: its bytes are copied only if they are a few, which it holds in itself.
 */
#include "node/runtime/shard/clients.h"

#include <stdlib.h>

#include "base/assert.h"
#include "node/runtime/shard/intake.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/system/socket.h"

struct clients {
    struct clients_options options;
    struct intake *intake;
    struct socket_holder *held;  /* INTAKE_MESSAGES_MAX */
    struct socket_holder holder; /* of the message that was read last */
    int64_t behind_ns;           /* when it was first left unread; 0: it was read empty */
    bool overloaded;
};

static int64_t now_of(const struct clients *clients)
{
    return clock_now_ns(clients->options.clock);
}

int clients_new(const struct clients_options *options, struct clients **out)
{
    struct clients *clients = calloc(1, sizeof *clients);
    *out = clients;
    if (clients == NULL)
        return TG_ENOMEM;
    clients->options = *options;
    clients->held = calloc(INTAKE_MESSAGES_MAX, sizeof *clients->held);
    if (clients->held != NULL && intake_new(&clients->intake) == 0)
        return 0;
    clients_free(out);
    return TG_ENOMEM;
}

void clients_free(struct clients **pointer)
{
    struct clients *clients = *pointer;
    *pointer = NULL;
    if (clients == NULL)
        return;
    for (uint32_t i = 0; clients->held != NULL && i < INTAKE_MESSAGES_MAX; i++)
        socket_release(&clients->held[i]);
    socket_release(&clients->holder);
    intake_free(&clients->intake);
    free(clients->held);
    free(clients);
}

static bool receive(struct clients *clients, struct socket_message *message)
{
    if (socket_receive(clients->options.socket, &clients->holder, message) == 0)
        return false;
    if (message->odd)
        message->len = 0; /* refused as malformed */
    return true;
}

static void decide(struct clients *clients, uint64_t connection, const void *data, size_t len)
{
    clients->options.decide(clients->options.context, connection, data, len);
}

/* Reads and decides. True if it was read empty. */
static bool decide_read(struct clients *clients, int64_t until_ns)
{
    struct socket_message message;
    for (uint32_t taken = 0; taken < CLIENTS_BURST && now_of(clients) < until_ns; taken++) {
        if (!receive(clients, &message))
            return true;
        decide(clients, message.connection, message.data, message.len);
    }
    return false;
}

/* Reads ahead. True if it was read empty. */
static bool read_ahead(struct clients *clients, int64_t until_ns)
{
    struct socket_message message;
    while (intake_room(clients->intake) && now_of(clients) < until_ns) {
        if (!receive(clients, &message))
            return true;
        if (message.odd) {
            decide(clients, message.connection, message.data, message.len);
            continue;
        }
        const uint16_t at = intake_put(clients->intake, message.connection, message.len);
        if (at != INTAKE_NONE)
            socket_move(&clients->held[at], &clients->holder);
        else
            clients->options.refuse(clients->options.context, message.connection, message.data,
                                    message.len);
    }
    return false;
}

static void decide_waiting(struct clients *clients, int64_t until_ns)
{
    const int64_t began_ns = now_of(clients);
    int64_t now_ns = began_ns;
    uint64_t connection;
    uint16_t at;
    while (now_ns < until_ns && (at = intake_take(clients->intake, &connection)) != INTAKE_NONE) {
        ASSERT(at < INTAKE_MESSAGES_MAX && clients->held[at].held); /* CLIENTS-2 */
        size_t len;
        const void *data = socket_held(&clients->held[at], &len);
        decide(clients, connection, data, len);
        socket_release(&clients->held[at]);
        now_ns = now_of(clients);
    }
    intake_decided(clients->intake, now_ns - began_ns);
}

bool clients_waiting(const struct clients *clients)
{
    return intake_count(clients->intake) > 0;
}

/* The last that is done to the socket is a read that finds nothing: answers that are sent may take
 * its news away. */
bool clients_turn(struct clients *clients)
{
    const int64_t now_ns = now_of(clients);
    bool empty;
    bool idle;
    if (clients->overloaded) {
        empty = read_ahead(clients, now_ns + CLIENTS_AHEAD_US * (int64_t)1000);
        idle = empty && !clients_waiting(clients);
        decide_waiting(clients, now_of(clients) + CLIENTS_DECIDE_US * (int64_t)1000);
    } else {
        empty = idle = decide_read(clients, now_ns + CLIENTS_DECIDE_US * (int64_t)1000);
    }
    const bool caught_up = empty && !clients_waiting(clients);
    if (caught_up)
        clients->behind_ns = 0;
    else if (clients->behind_ns == 0)
        clients->behind_ns = now_ns;
    clients->overloaded = !caught_up && (clients->overloaded ||
                                         now_of(clients) - clients->behind_ns >= CLIENTS_BEHIND_NS);
    return !idle;
}
