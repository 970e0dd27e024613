/* test_clients.c - clients that ask more than a shard can decide, and one that asks little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/runtime/shard/clients.h"
#include "node/runtime/system/clock.h"

enum { GREEDY = 3, POLITE = GREEDY, MESSAGES = 2000, PAYLOAD = 4096, TAKES_NS = 200 * 1000 };

struct message {
    uint32_t sender;
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
    struct clock clock;
    struct clients *clients;
    uint32_t sent[GREEDY + 1];    /* messages that a sender has sent, */
    uint32_t offered[GREEDY + 1]; /* of these taken, */
    uint32_t next[GREEDY + 1];    /* and number that is at least expected of it */
    uint32_t decided;
    uint32_t refused;
    uint32_t polite_decided;
    uint32_t polite_refused;
    uint32_t malformed;
    bool echoes; /* the polite one asks again with each answer of anybody */
};

/* Deciding takes its time, as a shard with too much to do would. */
static void decide(void *context, uint64_t connection, const void *data, size_t len)
{
    struct fixture *f = context;
    const int64_t until_ns = clock_now_ns(&f->clock) + TAKES_NS;
    if (len == 0) {
        f->malformed++;
        return;
    }
    const struct message message = message_at(data, len);
    assert_int_equal(connection, message.sender);
    assert_true(message.number >= f->next[message.sender]); /* CLIENTS-2 */
    f->next[message.sender] = message.number + 1;
    f->decided++;
    f->polite_decided += message.sender == POLITE;
    f->sent[POLITE] += f->echoes;
    while (clock_now_ns(&f->clock) < until_ns)
        continue;
}

static void refuse(void *context, uint64_t connection, const void *data, size_t len)
{
    struct fixture *f = context;
    assert_int_equal(connection, message_at(data, len).sender);
    f->refused++;
    f->polite_refused += connection == POLITE;
}

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof f);
    *state = &f;
    assert_int_equal(clock_init(&f.clock), 0);
    const struct clients_options options = {
        .clock = &f.clock, .decide = decide, .refuse = refuse, .context = &f};
    return clients_new(&options, &f.clients);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    clients_free(&f->clients);
    return 0;
}

/* Offers the sender's next message. False: it has none, or it is not taken in this turn. */
static bool offer(struct fixture *f, uint32_t sender, bool *full)
{
    const struct message message = {.sender = sender, .number = f->offered[sender]};
    if (*full || f->offered[sender] == f->sent[sender])
        return false;
    *full = !clients_take(f->clients, sender, &message, sizeof message);
    f->offered[sender] += !*full;
    return !*full;
}

/* One turn, in which each sender's messages are offered by turns. */
static void turn(struct fixture *f)
{
    bool full = false;
    bool any = true;
    clients_begin(f->clients);
    while (any) {
        any = false;
        for (uint32_t sender = 0; sender <= GREEDY; sender++)
            any = offer(f, sender, &full) || any;
    }
    bool empty = true;
    for (uint32_t sender = 0; sender <= GREEDY; sender++)
        empty = empty && f->offered[sender] == f->sent[sender];
    clients_end(f->clients, empty);
}

/* Takes turns until so many are decided or refused. */
static void run_until(struct fixture *f, uint32_t done)
{
    while (f->decided + f->refused < done)
        turn(f);
}

static uint32_t flood(struct fixture *f)
{
    for (uint32_t sender = 0; sender < GREEDY; sender++)
        f->sent[sender] += MESSAGES;
    return GREEDY * MESSAGES;
}

/* While nobody asks too much nothing is kept, and nothing refused. */
static void at_ease_everything_is_decided_as_it_is_taken(void **state)
{
    struct fixture *f = *state;
    for (uint32_t n = 0; n < 20; n++) {
        f->sent[POLITE]++;
        turn(f);
        assert_int_equal(f->decided, n + 1);
        assert_false(clients_waiting(f->clients));
    }
    assert_int_equal(f->refused, 0);
}

/* A turn at ease takes no more than its time, whatever is there. */
static void a_turn_takes_no_more_than_its_share(void **state)
{
    struct fixture *f = *state;
    (void)flood(f);
    turn(f);
    assert_in_range(f->decided, 1, 1 + CLIENTS_DECIDE_US * 1000 / TAKES_NS);
    assert_int_equal(f->refused, 0);
}

/* Each message is decided or refused, once, those of a connection in order (decide looks); who asks
 * little is not refused for what others do. */
static void too_much_is_refused_of_those_who_ask_too_much(void **state)
{
    struct fixture *f = *state;
    uint32_t sent = flood(f);
    for (uint32_t n = 0; n < 5; n++) {
        run_until(f, (n + 1) * MESSAGES / 2);
        f->sent[POLITE]++;
        sent++;
    }
    run_until(f, sent);
    assert_int_equal(f->decided + f->refused, sent);
    assert_true(f->refused > 0);
    assert_true(f->decided > 0);
    assert_int_equal(f->polite_decided, 5);
    assert_int_equal(f->polite_refused, 0);
    assert_false(clients_waiting(f->clients));
    turn(f);
    f->sent[POLITE]++; /* at ease again */
    turn(f);
    assert_int_equal(f->polite_decided, 6);
}

/* An overload is over when all was decided, though each time the next message is there already: who
 * asks one by one, without a pause, is no overload. Only at ease a turn decides what came within.
 */
static void an_overload_ends_though_somebody_goes_on_asking(void **state)
{
    struct fixture *f = *state;
    uint32_t most = 0;
    run_until(f, flood(f));
    assert_true(f->refused > 0);
    f->echoes = true;
    f->sent[POLITE]++;
    for (int turns = 0; turns < 1000 && most < 2; turns++) {
        const uint32_t before = f->decided;
        turn(f);
        most = f->decided - before > most ? f->decided - before : most;
    }
    assert_true(most >= 2);
}

/* What waits when a shard ends is dropped, without a leak (the sanitizer looks). */
static void what_waits_at_the_end_is_dropped(void **state)
{
    struct fixture *f = *state;
    (void)flood(f);
    while (!clients_waiting(f->clients))
        turn(f);
}

/* A shard that ends refuses all, and decides by then what it has taken, in its order (decide
 * looks): an answer that is awaited comes. No overload is left behind. */
static void what_waits_is_decided_at_once_where_a_shard_finishes(void **state)
{
    struct fixture *f = *state;
    (void)flood(f);
    while (!clients_waiting(f->clients))
        turn(f);
    uint32_t taken = 0;
    for (uint32_t sender = 0; sender <= GREEDY; sender++)
        taken += f->offered[sender];
    assert_true(f->decided + f->refused < taken);
    clients_finish(f->clients);
    assert_int_equal(f->decided + f->refused, taken);
    assert_false(clients_waiting(f->clients));
    const uint32_t decided = f->decided;
    bool full = false;
    f->sent[POLITE]++;
    clients_begin(f->clients);
    assert_true(offer(f, POLITE, &full));
    assert_int_equal(f->decided, decided + 1);
}

/* A message of several frames is none: it is decided at once, as malformed. */
static void several_frames_are_malformed(void **state)
{
    struct fixture *f = *state;
    clients_begin(f->clients);
    assert_true(clients_take(f->clients, POLITE, "", 0));
    assert_int_equal(f->malformed, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(at_ease_everything_is_decided_as_it_is_taken),
        TEST(a_turn_takes_no_more_than_its_share),
        TEST(too_much_is_refused_of_those_who_ask_too_much),
        TEST(an_overload_ends_though_somebody_goes_on_asking),
        TEST(what_waits_at_the_end_is_dropped),
        TEST(what_waits_is_decided_at_once_where_a_shard_finishes),
        TEST(several_frames_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
