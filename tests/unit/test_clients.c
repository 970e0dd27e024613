/* test_clients.c - clients that ask more than a shard can decide, and one that asks little, over
 * loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <zmq.h>

#include "node/runtime/shard/clients.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/system/socket.h"

enum { GREEDY = 3, MESSAGES = 2000, PAYLOAD = 4096, TAKES_NS = 200 * 1000, WAIT_MS = 20000 };

struct message {
    uint32_t sender; /* GREEDY: the polite one */
    uint32_t number;
    char payload[PAYLOAD];
};

/* As it came: at any address. */
static struct message message_at(const void *data, size_t len)
{
    struct message message;
    assert_int_equal(len, sizeof message);
    memcpy(&message, data, sizeof message);
    return message;
}

struct fixture {
    void *context;
    void *router;
    void *greedy[GREEDY];
    void *polite;
    struct clock clock;
    struct clients *clients;
    uint32_t next[GREEDY + 1]; /* number that is at least expected of a sender */
    uint32_t decided;
    uint32_t refused;
    uint32_t polite_decided;
    uint32_t polite_refused;
    uint32_t malformed;
    uint32_t echo_from; /* not 0: with the so-manieth message, the polite one begins to answer */
};

static void say(void *socket, uint32_t sender, uint32_t number)
{
    const struct message message = {.sender = sender, .number = number};
    assert_int_equal(zmq_send(socket, &message, sizeof message, 0), sizeof message);
}

/* Deciding takes its time, as a shard with too much to do would. */
static void decide(void *context, uint64_t connection, const void *data, size_t len)
{
    struct fixture *f = context;
    const int64_t until_ns = clock_now_ns(&f->clock) + TAKES_NS;
    (void)connection;
    if (len == 0) {
        f->malformed++;
        return;
    }
    const struct message message = message_at(data, len);
    assert_true(message.number >= f->next[message.sender]); /* CLIENTS-2 */
    f->next[message.sender] = message.number + 1;
    f->decided++;
    f->polite_decided += message.sender == GREEDY;
    while (clock_now_ns(&f->clock) < until_ns)
        continue;
    if (f->echo_from == 0 || f->decided + f->refused < f->echo_from)
        return;
    zmq_pollitem_t item = {.socket = f->router, .events = ZMQ_POLLIN};
    say(f->polite, GREEDY, f->next[GREEDY]);
    assert_int_equal(zmq_poll(&item, 1, WAIT_MS), 1);
}

static void refuse(void *context, uint64_t connection, const void *data, size_t len)
{
    struct fixture *f = context;
    (void)connection;
    f->refused++;
    f->polite_refused += message_at(data, len).sender == GREEDY;
}

static void *connect_to(void *context, const char *url)
{
    const int none = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    assert_non_null(socket);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none), 0);
    assert_int_equal(zmq_connect(socket, url), 0);
    return socket;
}

static int set_up(void **state)
{
    static struct fixture f;
    char url[SOCKET_URL_LEN];
    size_t len = sizeof url;
    memset(&f, 0, sizeof f);
    *state = &f;
    assert_int_equal(clock_init(&f.clock), 0);
    assert_int_equal(socket_context_new(64, &f.context), 0);
    assert_int_equal(socket_bind(f.context, SOCKET_CLIENTS, "127.0.0.1", 0, &f.router), 0);
    assert_int_equal(zmq_getsockopt(f.router, ZMQ_LAST_ENDPOINT, url, &len), 0);
    for (int i = 0; i < GREEDY; i++)
        f.greedy[i] = connect_to(f.context, url);
    f.polite = connect_to(f.context, url);
    const struct clients_options options = {
        .socket = f.router, .clock = &f.clock, .decide = decide, .refuse = refuse, .context = &f};
    assert_int_equal(clients_new(&options, &f.clients), 0);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    clients_free(&f->clients);
    for (int i = 0; i < GREEDY; i++)
        socket_close(&f->greedy[i]);
    socket_close(&f->polite);
    socket_close(&f->router);
    socket_context_free(&f->context);
    return 0;
}

/* Takes turns until all that was sent is decided or refused. */
static void run_until(struct fixture *f, uint32_t done)
{
    while (f->decided + f->refused < done) {
        zmq_pollitem_t item = {.socket = f->router, .events = ZMQ_POLLIN};
        if (!clients_turn(f->clients) && f->decided + f->refused < done)
            assert_int_equal(zmq_poll(&item, 1, WAIT_MS), 1);
    }
}

/* While nobody asks too much nothing is kept, and nothing refused. */
static void at_ease_everything_is_decided_as_it_is_read(void **state)
{
    struct fixture *f = *state;
    for (uint32_t n = 0; n < 20; n++) {
        say(f->polite, GREEDY, n);
        run_until(f, n + 1);
        assert_false(clients_waiting(f->clients));
    }
    assert_int_equal(f->decided, 20);
    assert_int_equal(f->refused, 0);
}

/* Each message is decided or refused, once, those of a connection in order (decide looks); who asks
 * little is not refused for what others do. */
static void too_much_is_refused_of_those_who_ask_too_much(void **state)
{
    struct fixture *f = *state;
    uint32_t sent = 0;
    for (uint32_t n = 0; n < MESSAGES; n++)
        for (uint32_t i = 0; i < GREEDY; i++, sent++)
            say(f->greedy[i], i, n);
    for (uint32_t n = 0; n < 5; n++) {
        run_until(f, (n + 1) * MESSAGES / 2);
        say(f->polite, GREEDY, n);
        sent++;
    }
    run_until(f, sent);
    assert_int_equal(f->decided + f->refused, sent);
    assert_true(f->refused > 0);
    assert_true(f->decided > 0);
    assert_int_equal(f->polite_decided, 5);
    assert_int_equal(f->polite_refused, 0);
    assert_false(clients_waiting(f->clients));
    while (clients_turn(f->clients))
        continue;
    say(f->polite, GREEDY, 5); /* at ease again */
    run_until(f, sent + 1);
    assert_int_equal(f->polite_decided, 6);
}

/* An overload is over when all was decided, though each time the next message is there already: who
 * asks one by one, without a pause, is no overload. Only at ease a turn decides what came within.
 */
static void an_overload_ends_though_somebody_goes_on_asking(void **state)
{
    struct fixture *f = *state;
    uint32_t most = 0;
    for (uint32_t n = 0; n < MESSAGES; n++)
        for (uint32_t i = 0; i < GREEDY; i++)
            say(f->greedy[i], i, n);
    f->echo_from = GREEDY * MESSAGES;
    run_until(f, f->echo_from);
    assert_true(f->refused > 0);
    for (int turns = 0; turns < 1000 && most < 2; turns++) {
        const uint32_t before = f->decided;
        (void)clients_turn(f->clients);
        most = f->decided - before > most ? f->decided - before : most;
    }
    assert_true(most >= 2);
}

/* What waits when a shard ends is dropped, without a leak (the sanitizer looks). */
static void what_waits_at_the_end_is_dropped(void **state)
{
    struct fixture *f = *state;
    for (uint32_t n = 0; n < MESSAGES; n++)
        for (uint32_t i = 0; i < GREEDY; i++)
            say(f->greedy[i], i, n);
    while (!clients_waiting(f->clients))
        (void)clients_turn(f->clients);
}

/* A message of several frames is none: it is decided at once, as malformed. */
static void several_frames_are_malformed(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(zmq_send(f->polite, "a", 1, ZMQ_SNDMORE), 1);
    assert_int_equal(zmq_send(f->polite, "b", 1, 0), 1);
    while (f->malformed == 0)
        (void)clients_turn(f->clients);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(at_ease_everything_is_decided_as_it_is_read),
        TEST(too_much_is_refused_of_those_who_ask_too_much),
        TEST(an_overload_ends_though_somebody_goes_on_asking),
        TEST(what_waits_at_the_end_is_dropped),
        TEST(several_frames_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
