/* test_replies.c - answers for readers that do not read, and for those that do, over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zmq.h>

#include "node/runtime/shard/replies.h"
#include "node/runtime/system/socket.h"

enum { WAIT_MS = 20000, ANSWER_LEN = 1 << 20, ANSWERS = 64 };

struct fixture {
    void *context;
    void *router;
    void *client;
    struct socket_holder holder;
    struct replies *replies;
    uint64_t connection;
    unsigned char *answer;
};

static void wait_for(void *socket)
{
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};

    if (zmq_poll(&item, 1, WAIT_MS) != 1)
        fail_msg("the socket did not become ready");
}

static int setup(void **state)
{
    static struct fixture f;
    char url[SOCKET_URL_LEN];
    size_t len = sizeof(url);
    struct socket_message message;
    const int linger = 0;
    const int queue = 1;

    memset(&f, 0, sizeof(f));
    *state = &f;
    assert_int_equal(socket_context_new(64, &f.context), 0);
    assert_int_equal(replies_new(&f.replies), 0);
    f.answer = calloc(1, ANSWER_LEN);
    assert_non_null(f.answer);
    assert_int_equal(socket_bind(f.context, SOCKET_CLIENTS, "127.0.0.1", 0, &f.router), 0);
    assert_int_equal(zmq_getsockopt(f.router, ZMQ_LAST_ENDPOINT, url, &len), 0);
    f.client = zmq_socket(f.context, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(f.client, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    assert_int_equal(zmq_setsockopt(f.client, ZMQ_RCVHWM, &queue, sizeof(queue)), 0);
    assert_int_equal(zmq_connect(f.client, url), 0);
    assert_int_equal(zmq_send(f.client, "ask", 3, 0), 3);
    wait_for(f.router);
    assert_int_equal(socket_receive(f.router, &f.holder, &message), 1);
    f.connection = message.connection;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    socket_release(&f->holder);
    replies_free(&f->replies); /* before the answers that still wait: REPLIES-3 */
    socket_close(&f->client);
    socket_close(&f->router);
    socket_context_free(&f->context);
    free(f->answer);
    return 0;
}

/* Whose answers are not read gets no more of them once their bytes reach the bound. */
static void a_client_that_never_reads_costs_a_bounded_memory(void **state)
{
    struct fixture *f = *state;
    uint32_t refused = 0;

    for (uint32_t i = 0; i < ANSWERS; i++)
        refused +=
            replies_send(f->replies, f->router, f->connection, f->answer, ANSWER_LEN) == TG_EBUSY;
    assert_true(refused > 0);
    assert_int_equal(replies_dropped(f->replies), refused);
}

/* Bytes that were read count no more: a reader gets any number of answers, one after the other. */
static void a_client_that_reads_gets_every_answer(void **state)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < ANSWERS; i++) {
        f->answer[0] = (unsigned char)i;
        assert_int_equal(replies_send(f->replies, f->router, f->connection, f->answer, ANSWER_LEN),
                         0);
        wait_for(f->client);
        zmq_msg_t message;
        (void)zmq_msg_init(&message);
        assert_int_equal(zmq_msg_recv(&message, f->client, 0), ANSWER_LEN);
        assert_int_equal(*(unsigned char *)zmq_msg_data(&message), i);
        (void)zmq_msg_close(&message);
    }
    assert_int_equal(replies_dropped(f->replies), 0);
}

/* A small answer is sent whatever else waits, and one to nobody is an error that leaks nothing. */
static void small_answers_and_absent_readers_are_told_apart(void **state)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < ANSWERS; i++)
        (void)replies_send(f->replies, f->router, f->connection, f->answer, ANSWER_LEN);
    assert_int_equal(replies_send(f->replies, f->router, f->connection, f->answer, 100), 0);
    assert_int_equal(
        replies_send(f->replies, f->router, f->connection + 1, f->answer, REPLIES_SMALL + 1),
        TG_EUNREACHABLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_client_that_never_reads_costs_a_bounded_memory),
        TEST(a_client_that_reads_gets_every_answer),
        TEST(small_answers_and_absent_readers_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
