/* test_mailbox.c - messages between loops: order, bound, ownership, and the wake-up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/runtime/system/mailbox.h"

enum { SENDERS = 3, MESSAGES_EACH = 20000 };

struct fixture {
    uv_loop_t loop;
    uv_async_t wake;
    struct mailbox mailbox;
    uint32_t next[SENDERS]; /* the number expected from each sender */
    uint32_t taken;
};

/* The receiver: takes what there is and ends the loop when all has come. */
static void on_wake(uv_async_t *wake)
{
    struct fixture *f = wake->data;
    struct mailbox_message message;

    while (mailbox_take(&f->mailbox, &message)) {
        assert_true(message.shard < SENDERS);
        assert_int_equal(message.number, f->next[message.shard]++);
        f->taken++;
    }
    if (f->taken == SENDERS * MESSAGES_EACH)
        uv_stop(&f->loop);
}

static int setup(void **state)
{
    static struct fixture fixture;

    memset(&fixture, 0, sizeof(fixture));
    *state = &fixture;
    if (uv_loop_init(&fixture.loop) != 0 ||
        uv_async_init(&fixture.loop, &fixture.wake, on_wake) != 0)
        return -1;
    fixture.wake.data = &fixture;
    return mailbox_init(&fixture.mailbox, &fixture.wake);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mailbox_check_invariants(&f->mailbox);
    mailbox_fini(&f->mailbox);
    uv_close((uv_handle_t *)&f->wake, NULL);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&f->loop);
}

/* What was put first is taken first, whole. */
static void messages_come_in_the_order_they_were_put(void **state)
{
    struct fixture *f = *state;
    struct mailbox_message message = {.kind = MESSAGE_SETTLED, .shard = 3, .number = 9};

    assert_false(mailbox_take(&f->mailbox, &message));
    assert_true(mailbox_put(&f->mailbox, &message));
    message.kind = MESSAGE_IDLE;
    assert_true(mailbox_put(&f->mailbox, &message));
    assert_true(mailbox_take(&f->mailbox, &message));
    assert_int_equal(message.kind, MESSAGE_SETTLED);
    assert_int_equal(message.shard, 3);
    assert_int_equal(message.number, 9);
    assert_true(mailbox_take(&f->mailbox, &message));
    assert_int_equal(message.kind, MESSAGE_IDLE);
    assert_false(mailbox_take(&f->mailbox, &message));
}

/* A copy is the receiver's: it does not change with what was copied. */
static void a_copied_block_is_the_receivers(void **state)
{
    struct fixture *f = *state;
    struct mailbox_message message;
    char text[] = "frame";

    assert_true(mailbox_put_copy(&f->mailbox, MESSAGE_ADMIN, 1, 42, text, sizeof(text)));
    memset(text, 'x', sizeof(text));
    assert_true(mailbox_put_copy(&f->mailbox, MESSAGE_REPLY, 1, 43, text, 0));
    assert_true(mailbox_take(&f->mailbox, &message));
    assert_int_equal(message.kind, MESSAGE_ADMIN);
    assert_int_equal(message.number, 42);
    assert_int_equal(message.len, sizeof(text));
    assert_string_equal(message.pointer, "frame");
    free(message.pointer);
    assert_true(mailbox_take(&f->mailbox, &message));
    assert_int_equal(message.len, 0);
    free(message.pointer);
}

/* A full mailbox refuses and counts; blocks that nobody takes are freed with it (under asan). */
static void a_full_mailbox_refuses_and_counts(void **state)
{
    struct fixture *f = *state;
    struct mailbox_message message;

    for (uint32_t i = 0; i < MAILBOX_MESSAGES_MAX - MAILBOX_KEPT; i++)
        assert_true(mailbox_put_copy(&f->mailbox, MESSAGE_REPLY, 0, i, "x", 1));
    assert_false(mailbox_put_copy(&f->mailbox, MESSAGE_REPLY, 0, 0, "x", 1));
    assert_int_equal(f->mailbox.refused, 1);
    mailbox_check_invariants(&f->mailbox);
    assert_true(mailbox_take(&f->mailbox, &message));
    assert_int_equal(message.number, 0);
    free(message.pointer);
    assert_true(mailbox_put_copy(&f->mailbox, MESSAGE_REPLY, 0, 7777, "x", 1)); /* round the end */
    for (uint32_t i = 1; i < MAILBOX_MESSAGES_MAX / 2; i++) {
        assert_true(mailbox_take(&f->mailbox, &message));
        assert_int_equal(message.number, i);
        free(message.pointer);
    }
}

/* Clients' questions and answers leave room for what the node itself has to say. */
static void questions_keep_no_end_from_a_shard(void **state)
{
    struct fixture *f = *state;
    const struct mailbox_message stop = {.kind = MESSAGE_STOP};

    while (mailbox_put_copy(&f->mailbox, MESSAGE_ADMIN, 0, 0, "x", 1))
        continue;
    for (uint32_t i = 0; i < MAILBOX_KEPT; i++)
        assert_true(mailbox_put(&f->mailbox, &stop));
    assert_false(mailbox_put(&f->mailbox, &stop));
    assert_int_equal(f->mailbox.refused, 2);
}

struct sender {
    struct fixture *fixture;
    uint32_t number;
    pthread_t thread;
};

static void *send_all(void *context)
{
    const struct sender *sender = context;

    for (uint32_t i = 0; i < MESSAGES_EACH; i++) {
        const struct mailbox_message message = {
            .kind = MESSAGE_SETTLED, .shard = sender->number, .number = i};
        while (!mailbox_put(&sender->fixture->mailbox, &message))
            (void)sched_yield(); /* full: the receiver is awake */
    }
    return NULL;
}

/* Threads that put at once lose nothing, keep each its order, and wake a receiver that sleeps. */
static void many_threads_may_write_to_one_loop(void **state)
{
    struct fixture *f = *state;
    struct sender senders[SENDERS];

    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.fixture = f, .number = i};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]), 0);
    }
    (void)uv_run(&f->loop, UV_RUN_DEFAULT); /* ends when the last message was taken */
    for (uint32_t i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
        assert_int_equal(f->next[i], MESSAGES_EACH);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_come_in_the_order_they_were_put), TEST(a_copied_block_is_the_receivers),
        TEST(a_full_mailbox_refuses_and_counts),        TEST(questions_keep_no_end_from_a_shard),
        TEST(many_threads_may_write_to_one_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
