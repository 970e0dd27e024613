/* loop.c - the I/O thread: sleep until something happens, then one turn of everything.
 *
 *      +--> poll: eventfd, monitors, sockets --> events --> answers --> dispatch --> tick --+
 *      |                                                                                     |
 *      +----------- until the nearest deadline or try ends ----------------------------------+
 *
 * The handle's thread drives while anything is live that is not a lone waiting caller's, and at
 * the start until it knows the ring. Then it parks, and a caller drives its own call: it
 * sends and receives itself, which saves the way to the thread and back.
 *
 * LOOP-1  Every turn takes the whole queue, so what was asked together travels together.
 * LOOP-2  The poll set is rebuilt whenever a link is opened or closed, before the next poll.
 * LOOP-3  A caller's turn never runs a callback: CLIENT-4.
 * LOOP-4  Whoever stops driving leaves no work without a driver: it looks once more under the lock.
 *         The parked thread wakes in time for the next lease to be looked at.
 */
#include "client/lib/loop.h"

#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "client/lib/answers.h"
#include "client/lib/call.h"
#include "client/lib/check.h"
#include "client/lib/client.h"
#include "client/lib/clock.h"
#include "client/lib/detail.h"
#include "client/lib/leases.h"
#include "client/lib/links.h"
#include "client/lib/messages.h"

static void build_polls(struct tg_client *client)
{
    int at = CLIENT_POLL_FIRST;

    client->driver.polls.items[0] =
        (zmq_pollitem_t){.fd = client->shared.wake_fd, .events = ZMQ_POLLIN};
    client->driver.polls.count = 0;
    for (uint16_t i = 0; i < client->driver.link_count; i++) {
        if (client->driver.links[i].socket == NULL)
            continue;
        client->driver.polls.items[at++] =
            (zmq_pollitem_t){.socket = client->driver.links[i].monitor, .events = ZMQ_POLLIN};
        client->driver.polls.items[at++] =
            (zmq_pollitem_t){.socket = client->driver.links[i].socket, .events = ZMQ_POLLIN};
        client->driver.polls.links[client->driver.polls.count++] = i;
    }
    ASSERT(at == CLIENT_POLL_FIRST + 2 * client->driver.polls.count); /* LOOP-2 */
    client->driver.polls.stale = false;
}

static long poll_ms(const struct tg_client *client)
{
    int64_t left_ns;

    if (client->driver.wake_ns == INT64_MAX)
        return -1;
    left_ns = client->driver.wake_ns - client_now_ns();
    return left_ns <= 0 ? 0 : (long)((left_ns + 999999) / 1000000);
}

static void watch_links(struct tg_client *client)
{
    for (uint16_t i = 0; i < client->driver.polls.count; i++) {
        const uint16_t number = client->driver.polls.links[i];
        enum client_link_event event;

        if ((client->driver.polls.items[CLIENT_POLL_FIRST + 2 * i].revents & ZMQ_POLLIN) == 0)
            continue;
        event = client_link_watch(&client->driver.links[number]);
        if (event == CLIENT_LINK_ROSE) {
            client->driver.links[number].refused = 0; /* it may be another release by now */
            client->driver.links[number].waits = false;
            client_hello(client, number);
        }
        if (event != CLIENT_LINK_QUIET)
            client_messages_move(client, number);
    }
}

static void receive(struct tg_client *client, uint16_t number)
{
    for (int i = 0; i < CLIENT_RECEIVE_MAX; i++) {
        void *socket = client->driver.links[number].socket;
        zmq_msg_t message;
        bool whole;

        if (socket == NULL)
            return; /* an answer made us drop this very link */
        (void)zmq_msg_init(&message);
        if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&message);
            return;
        }
        whole = zmq_msg_more(&message) == 0;
        if (whole)
            client_answer(client, number, zmq_msg_data(&message), zmq_msg_size(&message));
        else
            client_detail(client, "%s: found a multipart message, expected one frame",
                          client->driver.links[number].endpoint);
        (void)zmq_msg_close(&message);
    }
}

static void receive_links(struct tg_client *client)
{
    for (uint16_t i = 0; i < client->driver.polls.count; i++) {
        if ((client->driver.polls.items[CLIENT_POLL_FIRST + 2 * i + 1].revents & ZMQ_POLLIN) != 0)
            receive(client, client->driver.polls.links[i]);
    }
}

/* The queued calls, or none if one of them needs the thread and this is a caller (LOOP-3). */
static struct client_call *take_queue(struct tg_client *client, bool *closing)
{
    struct client_call *queue = NULL;
    uint64_t wakes;

    if ((client->driver.polls.items[0].revents & ZMQ_POLLIN) != 0)
        (void)!read(client->shared.wake_fd, &wakes, sizeof wakes);
    (void)pthread_mutex_lock(&client->shared.lock);
    if (client->shared.driver == CLIENT_DRIVER_THREAD ||
        atomic_load(&client->shared.asynchronous) == 0) {
        queue = client->shared.queue_first;
        client->shared.queue_first = NULL;
        client->shared.queue_last = NULL;
    }
    *closing = client->shared.closing;
    (void)pthread_mutex_unlock(&client->shared.lock);
    return queue;
}

/* Waits at most `timeout_ms` (-1 = for ever), then does all there is to do. True when closing. */
static bool turn(struct tg_client *client, long timeout_ms)
{
    struct client_call *queue;
    bool closing;

    if (client->driver.polls.stale)
        build_polls(client);
    if (zmq_poll(client->driver.polls.items, CLIENT_POLL_FIRST + 2 * client->driver.polls.count,
                 timeout_ms) < 0)
        client->driver.polls.items[0].revents =
            0; /* interrupted: nothing is ready, time has passed */
    client->driver.now_ns = client_now_ns();
    watch_links(client);
    receive_links(client);
    queue = take_queue(client, &closing);
    client_leases_tick(client);
    client_dispatch(client, queue);
    client_messages_tick(client);
    if (atomic_load_explicit(&client->shared.checked, memory_order_relaxed))
        client_check_invariants(client);
    return closing;
}

void client_drive(struct tg_client *client, const struct client_call *call)
{
    bool alone = !turn(client, 0);

    while (alone && !call->done)
        alone = !turn(client, poll_ms(client)) && atomic_load(&client->shared.asynchronous) == 0;
    (void)pthread_mutex_lock(&client->shared.lock);
    if (!alone || client->shared.closing || client->driver.live != NULL ||
        client->shared.queue_first != NULL ||
        client->driver.holds_next_ns < client->shared.parked_ns) {
        client->shared.driver = CLIENT_DRIVER_THREAD;
        (void)pthread_cond_signal(&client->shared.driver_changed);
    } else {
        client->shared.driver = CLIENT_DRIVER_NONE;
    }
    (void)pthread_mutex_unlock(&client->shared.lock);
}

/* The moment as the clock of the condition tells it (tidegate.c). */
static struct timespec condition_time(int64_t when_ns)
{
    struct timespec now;
    int64_t ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + when_ns - client_now_ns();
    ns = ns > 0 ? ns : 0;
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* Parks until the thread has to drive, if only to look after connections and leases. */
static void park(struct tg_client *client)
{
    static const int64_t parked_ns = (int64_t)CLIENT_PARKED_MS * 1000000;
    struct timespec until;

    (void)pthread_mutex_lock(&client->shared.lock);
    if (client->shared.queue_first == NULL && !client->shared.closing) {
        client->shared.driver = CLIENT_DRIVER_NONE;
        client->shared.parked_ns = client_now_ns() + parked_ns;
        if (client->driver.holds_next_ns < client->shared.parked_ns)
            client->shared.parked_ns = client->driver.holds_next_ns;
        while (client->shared.driver != CLIENT_DRIVER_THREAD) {
            until = condition_time(client->shared.parked_ns);
            if (pthread_cond_timedwait(&client->shared.driver_changed, &client->shared.lock,
                                       &until) == 0)
                continue;
            if (client->shared.driver == CLIENT_DRIVER_NONE)
                client->shared.driver = CLIENT_DRIVER_THREAD;
            else
                client->shared.parked_ns += parked_ns; /* a caller drives: it sees to all */
        }
    }
    (void)pthread_mutex_unlock(&client->shared.lock);
}

static void leave(struct tg_client *client)
{
    uint8_t frame[64];
    const int len = wire_encode_goodbye(client->config.session, frame, sizeof frame);

    client_messages_close(client);
    client_leases_end(client);
    while (client->driver.live != NULL)
        (void)turn(client, poll_ms(client)); /* what is given back: not long */
    client_messages_end(client);
    ASSERT(client->driver.live == NULL && client->driver.pending.count == 0); /* CLIENT-3 */
    for (uint16_t i = 0; i < client->driver.link_count; i++) {
        if (len > 0)
            (void)!client_link_send(&client->driver.links[i], frame, (size_t)len);
        client_link_close(&client->driver.links[i]);
    }
}

void client_loop(struct tg_client *client)
{
    bool closing = false;

    for (size_t i = 0; i < client->config.endpoints.count; i++) {
        const uint16_t number = client_link_number(client, client->config.endpoints.text[i]);

        client->driver.links[number].configured = true;
        client_link_want(client, number);
    }
    while (!closing) {
        closing = turn(client, 0);
        while (!closing && (client->driver.live != NULL || !client->driver.route.ring_known))
            closing = turn(client, poll_ms(client));
        if (!closing)
            park(client);
    }
    leave(client);
}
