/* clients.c - turns of taking and deciding; clients.h tells the rules.
 *
 * The message that waits under place p of the intake is kept in held[p].
 */
#include "node/runtime/shard/clients.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/runtime/shard/intake.h"
#include "node/runtime/system/clock.h"

struct held {
    void *data;
    size_t len;
};

struct clients {
    struct clients_options options;
    struct intake *intake;
    struct held *held; /* INTAKE_MESSAGES_MAX */
    int64_t until_ns;  /* of this turn's taking */
    uint32_t taken;    /* in this turn */
    int64_t behind_ns; /* when something was first left unread; 0: all was read */
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

static void release(struct held *held)
{
    free(held->data);
    *held = (struct held){NULL, 0};
}

void clients_free(struct clients **pointer)
{
    struct clients *clients = *pointer;
    *pointer = NULL;
    if (clients == NULL)
        return;
    for (uint32_t i = 0; clients->held != NULL && i < INTAKE_MESSAGES_MAX; i++)
        release(&clients->held[i]);
    intake_free(&clients->intake);
    free(clients->held);
    free(clients);
}

void clients_begin(struct clients *clients)
{
    const int64_t us = clients->overloaded ? CLIENTS_AHEAD_US : CLIENTS_DECIDE_US;
    clients->until_ns = now_of(clients) + us * 1000;
    clients->taken = 0;
}

/* Puts a message to those that wait, or has it refused. */
static void put(struct clients *clients, uint64_t connection, const void *data, size_t len)
{
    void *copy = malloc(len);
    const uint16_t at =
        copy != NULL ? intake_put(clients->intake, connection, len) : (uint16_t)INTAKE_NONE;
    if (at == INTAKE_NONE) {
        free(copy);
        clients->options.refuse(clients->options.context, connection, data, len);
        return;
    }
    memcpy(copy, data, len);
    clients->held[at] = (struct held){copy, len};
}

bool clients_take(struct clients *clients, uint64_t connection, const void *data, size_t len)
{
    if (now_of(clients) >= clients->until_ns)
        return false;
    if (clients->overloaded && len > 0) {
        if (!intake_room(clients->intake))
            return false;
        put(clients, connection, data, len);
        return true;
    }
    if (!clients->overloaded && clients->taken++ >= CLIENTS_BURST)
        return false;
    clients->options.decide(clients->options.context, connection, data, len);
    return true;
}

static void decide_waiting(struct clients *clients, int64_t until_ns)
{
    const int64_t began_ns = now_of(clients);
    int64_t now_ns = began_ns;
    uint64_t connection;
    uint16_t at;
    while (now_ns < until_ns && (at = intake_take(clients->intake, &connection)) != INTAKE_NONE) {
        ASSERT(at < INTAKE_MESSAGES_MAX && clients->held[at].data != NULL); /* CLIENTS-2 */
        struct held *held = &clients->held[at];
        clients->options.decide(clients->options.context, connection, held->data, held->len);
        release(held);
        now_ns = now_of(clients);
    }
    intake_decided(clients->intake, now_ns - began_ns);
}

bool clients_waiting(const struct clients *clients)
{
    return intake_count(clients->intake) > 0;
}

void clients_each_waiting(const struct clients *clients,
                          void (*fn)(void *context, uint64_t connection), void *context)
{
    intake_each(clients->intake, fn, context);
}

void clients_finish(struct clients *clients)
{
    decide_waiting(clients, INT64_MAX);
    clients->overloaded = false;
}

void clients_end(struct clients *clients, bool empty)
{
    const int64_t now_ns = now_of(clients);
    if (clients_waiting(clients))
        decide_waiting(clients, now_ns + CLIENTS_DECIDE_US * (int64_t)1000);
    const bool caught_up = empty && !clients_waiting(clients);
    if (caught_up)
        clients->behind_ns = 0;
    else if (clients->behind_ns == 0)
        clients->behind_ns = now_ns;
    clients->overloaded = !caught_up && (clients->overloaded ||
                                         now_of(clients) - clients->behind_ns >= CLIENTS_BEHIND_NS);
}
