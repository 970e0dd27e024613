/* test_window.c - how many items may be out to a node, against a node that answers at a pace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/lib/window.h"

static const int64_t ms_ns = 1000000;

enum { MOST = 65536, TARGET_MS = 60, MESSAGE = 512, MESSAGES = 1 << 16 };

/* A node that takes its time with each item, one after the other, and a way to it and back. */
struct node {
    int64_t item_ns;
    int64_t way_ns;
    int64_t free_ns; /* when it is done with what it has */
};

struct run {
    struct client_window window;
    struct node node;
    int64_t now_ns;
    int64_t sent_ns[MESSAGES];
    int64_t answer_ns[MESSAGES];
    uint32_t first;
    uint32_t last;
    uint64_t answered;
    int64_t took_most_ns; /* of late */
    size_t size_most;
};

static struct run *begin(int64_t item_ns, int64_t way_ns)
{
    static struct run run;
    run = (struct run){.node = {.item_ns = item_ns, .way_ns = way_ns}, .now_ns = ms_ns};
    client_window_init(&run.window, MOST, TARGET_MS * ms_ns);
    return &run;
}

static void send_all(struct run *run, size_t waiting)
{
    while (client_window_room(&run->window) >= MESSAGE && waiting >= MESSAGE) {
        struct node *node = &run->node;
        const int64_t arrives_ns = run->now_ns + node->way_ns / 2;
        node->free_ns =
            (node->free_ns > arrives_ns ? node->free_ns : arrives_ns) + node->item_ns * MESSAGE;
        run->sent_ns[run->last % MESSAGES] = run->now_ns;
        run->answer_ns[run->last++ % MESSAGES] = node->free_ns + node->way_ns / 2;
        client_window_sent(&run->window, MESSAGE);
        waiting -= MESSAGE;
    }
}

/* As many items as the window takes, for `ms`; at most `demand` are out or wait. */
static void run_for(struct run *run, int64_t ms, size_t demand)
{
    const int64_t end_ns = run->now_ns + ms * ms_ns;
    run->took_most_ns = 0;
    run->answered = 0;
    run->size_most = 0;
    for (; run->now_ns < end_ns; run->now_ns += ms_ns / 10) {
        while (run->first < run->last && run->answer_ns[run->first % MESSAGES] <= run->now_ns) {
            const int64_t sent_ns = run->sent_ns[run->first++ % MESSAGES];
            const size_t out = run->window.out;
            const size_t waiting = demand > out + MESSAGE ? demand - out : 0;
            if (run->now_ns - sent_ns > run->took_most_ns)
                run->took_most_ns = run->now_ns - sent_ns;
            client_window_answered(&run->window, MESSAGE, sent_ns, run->now_ns, waiting);
            run->answered += MESSAGE;
        }
        if (run->window.size > run->size_most)
            run->size_most = run->window.size;
        send_all(run, demand > run->window.out ? demand - run->window.out : 0);
    }
}

/* A node that answers in time is asked as much as the application wants, at once. */
static void a_node_that_answers_in_time_is_never_held_back(void **state)
{
    (void)state;
    struct run *run = begin(100, ms_ns); /* 10 M items a second */
    for (int i = 0; i < 20; i++) {
        run_for(run, 10, MOST);
        assert_int_equal(run->window.size, MOST);
    }
}

/* Asked for more than it can, a node has about the target's time of work before it, and is never
 * idle: all that it can do is done. */
static void an_overloaded_node_answers_within_the_target_and_is_never_idle(void **state)
{
    (void)state;
    for (int64_t item_ns = 4000; item_ns <= 12000; item_ns *= 3) {
        struct run *run = begin(item_ns, ms_ns);
        run_for(run, 2000, 1000000);
        run_for(run, 2000, 1000000);
        assert_true(run->took_most_ns <= TARGET_MS * ms_ns * 5 / 4);
        assert_true((int64_t)run->answered * item_ns >= 2000 * ms_ns * 95 / 100);
    }
}

/* WINDOW-2: however slow a node, one full message may be out; and a handle with less room has
 * less. */
static void the_window_has_a_least_size(void **state)
{
    (void)state;
    struct run *run = begin(ms_ns / 10, ms_ns);
    run_for(run, 30000, 1000000);
    assert_int_equal(run->window.size, CLIENT_WINDOW_LEAST);
    struct client_window small;
    client_window_init(&small, 100, TARGET_MS * ms_ns);
    client_window_sent(&small, 100);
    client_window_answered(&small, 100, 0, 1000 * ms_ns, 0);
    assert_int_equal(small.size, 100);
}

/* Within a second of the end of an overload a node is asked as before. */
static void the_window_opens_again_within_a_second(void **state)
{
    (void)state;
    struct run *run = begin(10000, ms_ns);
    run_for(run, 3000, 1000000);
    assert_true(run->window.size < MOST / 4);
    run->node.item_ns = 500;
    run_for(run, 1000, 1000000);
    assert_int_equal(run->window.size, MOST);
}

/* A refusal closes the window as a late answer does, by halves, and gives its room back. */
static void a_refusal_closes_the_window(void **state)
{
    (void)state;
    struct client_window window;
    client_window_init(&window, MOST, TARGET_MS * ms_ns);
    client_window_sent(&window, MOST);
    for (int i = 0; i < MOST / MESSAGE; i++)
        client_window_refused(&window, MESSAGE);
    assert_int_equal(window.out, 0);
    assert_in_range(window.size, MOST / 2 - MOST / MESSAGE, MOST / 2);
}

/* WINDOW-3: how long one would wait is told by the pace of answers while others waited, and by
 * nothing else. */
static void the_wait_is_known_from_when_others_waited(void **state)
{
    (void)state;
    struct run *run = begin(10000, ms_ns);
    run_for(run, 1000, 2000); /* one who asks little: the pace is his own */
    assert_int_equal(client_window_wait_ns(&run->window, 1000000), 0);
    run_for(run, 1000, 1000000);
    const int64_t wait_ns = client_window_wait_ns(&run->window, 100000);
    const int64_t true_ns = (int64_t)(100000 + run->window.out) * run->node.item_ns;
    assert_in_range(wait_ns * 100 / true_ns, 80, 120);
}

/* WINDOW-3: the pace of a node that was slow for a while keeps nobody from asking it for longer
 * than a second. */
static void a_pause_is_not_believed_for_long(void **state)
{
    (void)state;
    struct run *run = begin(100000, ms_ns);
    run_for(run, 1000, 1000000);
    assert_true(client_window_wait_ns(&run->window, 0) > 100 * ms_ns);
    run->node.item_ns = 500;
    run_for(run, 2000, 2000); /* too little for any to wait */
    assert_int_equal(client_window_wait_ns(&run->window, 1000000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_answers_in_time_is_never_held_back),
        cmocka_unit_test(an_overloaded_node_answers_within_the_target_and_is_never_idle),
        cmocka_unit_test(the_window_has_a_least_size),
        cmocka_unit_test(the_window_opens_again_within_a_second),
        cmocka_unit_test(a_refusal_closes_the_window),
        cmocka_unit_test(the_wait_is_known_from_when_others_waited),
        cmocka_unit_test(a_pause_is_not_believed_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
