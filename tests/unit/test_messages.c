/* test_messages.c - what a node has no time for: it waits in the library, goes elsewhere, or is
 * refused there, against nodes that a test scripts; and what is told of what was not answered. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/lib/call.h"
#include "client/lib/client.h"
#include "client/lib/messages.h"
#include "client/protocol/wire.h"
#include "tests/unit/support_client.h"
#include "tests/unit/support_server.h"

static const tg_limit_t limit = {
    .algorithm = TG_TOKEN_BUCKET, .count = 100, .window_ns = 3600000000000ULL};

/* A deadline that is not what a test is about: only what never happens misses it. A try as long is
 * never repeated, so that a node counts what was asked, however late it runs. */
enum { PATIENT_MS = 60000 };

/* Not 0: what the library's clock says, and goes on saying. */
static _Atomic int64_t still_ns;

/* In the place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int64_t ns = atomic_load(&still_ns);

    if (clock != CLOCK_BOOTTIME || ns == 0)
        return (int)syscall(SYS_clock_gettime, clock, out);
    *out = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

/* ENOUGH messages refused close the window to its least size, 4,096 requests: LEAST messages, if
 * BEHIND requests wait. */
enum { BIG = 30000, ENOUGH = 48, LEAST = 2, BEHIND = 10000 };

struct many {
    sem_t done;
    int code;
};

static void many_done(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct many *many = argument;

    (void)decisions;
    (void)count;
    many->code = code;
    (void)sem_post(&many->done);
}

/* A client of two nodes that have too much to do: so it sends them little at a time. What it sends
 * next to `a` gets no answer there. */
struct crowd {
    struct server *a;
    struct server *b;
    tg_client_t *client;
    tg_request_t *requests;   /* [BIG] */
    tg_decision_t *decisions; /* [BIG] */
    struct many many;
    size_t before; /* messages that came to a until then */
};

static void crowd_begin(struct crowd *crowd, int timeout_ms)
{
    tg_options_t options = tg_options();
    char endpoints[160];

    *crowd = (struct crowd){.many.code = 1};
    crowd->a = server_new("a", SERVER_BUSY);
    crowd->b = server_new("b", SERVER_BUSY);
    (void)snprintf(endpoints, sizeof endpoints, "%s,%s", server_endpoint(crowd->a),
                   server_endpoint(crowd->b));
    options.timeout_ms = timeout_ms;
    options.try_timeout_ms = PATIENT_MS;
    options.no_leases = 1;
    crowd->client = client_open_checked(endpoints, &options);
    assert_non_null(crowd->client);
    crowd->requests = calloc(BIG, sizeof *crowd->requests);
    crowd->decisions = calloc(BIG, sizeof *crowd->decisions);
    assert_true(crowd->requests != NULL && crowd->decisions != NULL);
    for (size_t i = 0; i < BIG; i++)
        crowd->requests[i] = tg_request_inline("k", &limit);
    /* The first endpoint is asked once it is up. */
    while (server_count(crowd->a) < ENOUGH && server_count(crowd->b) < SERVER_NOTES_MAX / 2)
        assert_int_equal(tg_check_many(crowd->client, crowd->requests, BIG, crowd->decisions),
                         TG_EBUSY);
    crowd->before = server_count(crowd->a);
    assert_true(crowd->before >= ENOUGH);
    server_set_mode(crowd->a, SERVER_SWALLOW);
    server_set_mode(crowd->b, SERVER_ANSWER);
    (void)sem_init(&crowd->many.done, 0, 0);
}

/* Asks `count` requests from the one at `from` on. */
static void crowd_ask(struct crowd *crowd, size_t from, size_t count)
{
    assert_int_equal(tg_check_async(crowd->client, &crowd->requests[from], count,
                                    &crowd->decisions[from], many_done, &crowd->many),
                     0);
}

static void crowd_assert_allowed(const struct crowd *crowd, size_t count)
{
    assert_int_equal(crowd->many.code, 0);
    for (size_t i = 0; i < count; i++)
        assert_true(crowd->decisions[i].allowed && crowd->decisions[i].error == 0);
}

static void crowd_end(struct crowd *crowd)
{
    tg_close(&crowd->client);
    (void)sem_destroy(&crowd->many.done);
    free(crowd->requests);
    free(crowd->decisions);
    server_free(&crowd->a);
    server_free(&crowd->b);
}

/* A node that says it has too much to do is sent less: what is beyond waits in the library, not at
 * the node. When its connection is lost, that goes elsewhere with the rest, and all is answered. */
static void what_a_node_has_no_time_for_waits_here_and_moves_when_it_is_lost(void **state)
{
    struct crowd crowd;
    size_t moved = 0;

    (void)state;
    crowd_begin(&crowd, PATIENT_MS);
    crowd_ask(&crowd, 0, BEHIND);
    assert_true(server_wait(crowd.a, crowd.before + LEAST));
    const size_t others = server_count(crowd.b);
    server_stop(crowd.a);
    assert_int_equal(sem_wait(&crowd.many.done), 0);
    crowd_assert_allowed(&crowd, BEHIND);
    for (size_t i = others; i < server_count(crowd.b); i++)
        moved += (server_note(crowd.b, i).flags & WIRE_FLAG_RETRY) != 0;
    assert_int_equal(moved, LEAST); /* no more was sent there */
    crowd_end(&crowd);
}

static int let_time_pass(void **state)
{
    (void)state;
    still_ns = 0;
    return 0;
}

/* A node that lets a message wait too long is not sent what waits for its turn there: that goes
 * with the messages to the other one. Time passes only when the test says so. */
static void what_waits_for_a_silent_node_goes_elsewhere(void **state)
{
    struct crowd crowd;
    struct timespec now;

    (void)state;
    crowd_begin(&crowd, 3 * PATIENT_MS);
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    still_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    crowd_ask(&crowd, 0, BEHIND);
    assert_true(server_wait(crowd.a, crowd.before + LEAST));
    still_ns += (int64_t)(PATIENT_MS + 1) * 1000000;
    crowd_ask(&crowd, BEHIND, 1); /* makes it look */
    (void)clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += SERVER_WAIT_MS / 1000;
    for (int i = 0; i < 2; i++)
        assert_int_equal(sem_timedwait(&crowd.many.done, &now), 0);
    crowd_assert_allowed(&crowd, BEHIND + 1);
    assert_int_equal(server_count(crowd.a), crowd.before + LEAST);
    crowd_end(&crowd);
}

/* Calls of PORTION requests, and one of a single request that is made as each of them is answered.
 */
enum { PORTION = 1000, PORTIONS = BIG / PORTION, SLOW_S = 10 };

struct flood {
    struct crowd *crowd;
    sem_t done;
    size_t answered;
    size_t late_refused;
    tg_decision_t late[PORTIONS];
};

static void late_done(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct flood *flood = argument;

    assert_int_equal(count, 1);
    assert_int_equal(decisions[0].error, code);
    if (code != 0)
        assert_int_equal(code, TG_EBUSY);
    flood->late_refused += code != 0;
    (void)sem_post(&flood->done);
}

/* The first answer takes long; then time stands still again. */
static void flood_done(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct flood *flood = argument;

    assert_int_equal(code, 0);
    for (size_t i = 0; i < count; i++)
        assert_true(decisions[i].allowed);
    if (flood->answered == 0)
        still_ns += SLOW_S * INT64_C(1000000000);
    assert_int_equal(tg_check_async(flood->crowd->client, flood->crowd->requests, 1,
                                    &flood->late[flood->answered++], late_done, flood),
                     0);
    (void)sem_post(&flood->done);
}

/* All at once: what the library's own thread asks is looked at when it is done with that. */
static void flood_begin(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct flood *flood = argument;
    struct crowd *crowd = flood->crowd;

    (void)decisions;
    (void)count;
    assert_int_equal(code, 0);
    for (size_t i = 0; i < PORTIONS; i++)
        assert_int_equal(tg_check_async(crowd->client, &crowd->requests[i * PORTION], PORTION,
                                        &crowd->decisions[i * PORTION], flood_done, flood),
                         0);
}

/* Who asks without waiting is refused while so much waits already that no node would answer in a
 * quarter of the deadline; what was asked before is answered all the same. */
static void what_would_wait_for_too_long_is_refused_when_it_is_asked(void **state)
{
    static struct flood flood;
    struct crowd crowd;
    struct timespec now;
    tg_decision_t first;

    (void)state;
    crowd_begin(&crowd, PATIENT_MS);
    flood = (struct flood){.crowd = &crowd};
    (void)sem_init(&flood.done, 0, 0);
    server_stop(crowd.b);
    server_set_mode(crowd.a, SERVER_ANSWER);
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    still_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    assert_int_equal(tg_check_async(crowd.client, crowd.requests, 1, &first, flood_begin, &flood),
                     0);
    for (size_t i = 0; i < 2 * (size_t)PORTIONS; i++)
        assert_int_equal(sem_wait(&flood.done), 0);
    assert_int_equal(flood.answered, PORTIONS);
    assert_in_range(flood.late_refused, 1, PORTIONS - 1);
    (void)sem_destroy(&flood.done);
    crowd_end(&crowd);
}

/* ---- out of time: why ------------------------------------------------------------------------ */

static const char *detail_of(tg_client_t *client)
{
    static char text[1024];

    tg_error_detail(client, text, sizeof text);
    return text;
}

/* What never left this host because the node was behind is an overload; what did leave is late. */
static void who_waited_for_a_full_window_is_told_of_an_overload(void **state)
{
    struct many many[3];
    struct crowd crowd;
    struct timespec now;
    tg_reply_t reply = {.data = NULL};

    (void)state;
    crowd_begin(&crowd, PATIENT_MS);
    server_stop(crowd.b);
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    still_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    for (size_t i = 0; i < 3; i++) {
        const size_t from = i == 0 ? 0 : BEHIND + i;

        many[i].code = 1;
        (void)sem_init(&many[i].done, 0, 0);
        if (i == 2)
            still_ns += (int64_t)(PATIENT_MS + 1) * 1000000; /* for those before it */
        assert_int_equal(tg_check_async(crowd.client, &crowd.requests[from], i == 0 ? BEHIND : 1,
                                        &crowd.decisions[from], many_done, &many[i]),
                         0);
        if (i == 0)
            assert_true(server_wait(crowd.a, crowd.before + LEAST));
        server_set_mode(crowd.a, SERVER_ANSWER);
        if (i < 2) /* answered, so that what was asked before it waits by now */
            assert_int_equal(tg_admin(crowd.client, "echo", NULL, 0, 0, &reply), 0);
        tg_reply_free(&reply);
    }
    assert_int_equal(sem_wait(&many[0].done), 0);
    assert_int_equal(sem_wait(&many[1].done), 0);
    assert_int_equal(many[0].code, TG_ETIMEOUT);
    assert_int_equal(many[1].code, TG_EBUSY);
    assert_non_null(strstr(detail_of(crowd.client), "more was asked than the nodes answered"));
    crowd_end(&crowd);
}

static struct tg_client idle;
static tg_request_t one;
static tg_decision_t decision;

/* Ends a call that no message was sent for; its code. Nothing else is asked of the handle. */
static int code_of_unsent(bool crowded, bool up)
{
    struct client_call *call = calloc(1, sizeof *call);

    assert_non_null(call);
    memset(&idle, 0, sizeof idle);
    (void)pthread_mutex_init(&idle.shared.lock, NULL);
    idle.driver.link_count = 1;
    idle.driver.links[0].configured = true;
    idle.driver.links[0].up = up;
    idle.driver.now_ns = 2000000000;
    idle.config.on_failure = TG_FAIL_ERROR;
    one = tg_request_inline("k", &limit);
    decision = (tg_decision_t){.outcome = (tg_outcome_t)CLIENT_UNDECIDED};
    *call = (struct client_call){.requests = &one,
                                 .decisions = &decision,
                                 .count = 1,
                                 .operation = -1,
                                 .undecided = 1,
                                 .crowded = crowded,
                                 .deadline_ns = idle.driver.now_ns};
    (void)sem_init(&call->completed, 0, 0);
    atomic_init(&call->owners, 2);
    atomic_init(&idle.shared.in_flight, 1);
    idle.driver.live = call;
    client_messages_tick(&idle);
    assert_true(call->done && idle.driver.live == NULL);
    const int code = call->code;
    client_call_drop(call);
    return code;
}

/* An idle node is not overloaded because somebody had too little time to ask it. */
static void who_was_late_by_itself_is_not_told_of_an_overload(void **state)
{
    (void)state;
    assert_int_equal(code_of_unsent(false, true), TG_ETIMEOUT);
    assert_int_equal(decision.error, TG_ETIMEOUT);
    assert_non_null(strstr(idle.shared.detail, "before the question could be sent"));
    assert_int_equal(code_of_unsent(true, true), TG_EBUSY);
    assert_non_null(strstr(idle.shared.detail, "more was asked than the nodes answered"));
    assert_int_equal(code_of_unsent(false, false), TG_EUNREACHABLE);
}

struct held_up {
    tg_client_t *client;
    tg_request_t request;
    tg_decision_t decision;
    struct many many;
};

/* Keeps the library's thread, after what was asked before, for longer than what it asks may take.
 */
static void hold_up(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct held_up *held_up = argument;

    (void)code;
    (void)decisions;
    (void)count;
    held_up->request = tg_request_inline("late", &limit);
    held_up->many.code = tg_check_async(held_up->client, &held_up->request, 1, &held_up->decision,
                                        many_done, &held_up->many);
    still_ns += (int64_t)(PATIENT_MS + 1) * 1000000;
}

/* Nor is it asked then: what nobody waits for any more is not to be counted. */
static void a_call_that_the_thread_finds_late_is_late_and_is_not_sent(void **state)
{
    struct server *server = server_new("n1", SERVER_SWALLOW);
    struct held_up held_up = {.many.code = 1};
    struct many nudge = {.code = 1};
    const tg_request_t request = tg_request_inline("k", &limit);
    tg_options_t options = tg_options();
    tg_decision_t asked[2];
    struct timespec now;

    (void)state;
    options.timeout_ms = PATIENT_MS;
    options.try_timeout_ms = PATIENT_MS;
    options.no_leases = 1;
    held_up.client = client_open_checked(server_endpoint(server), &options);
    assert_non_null(held_up.client);
    (void)sem_init(&held_up.many.done, 0, 0);
    (void)sem_init(&nudge.done, 0, 0);
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    still_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    assert_int_equal(tg_check_async(held_up.client, &request, 1, &asked[0], hold_up, &held_up), 0);
    assert_true(server_wait(server, 1));
    still_ns += (int64_t)(PATIENT_MS + 1) * 1000000; /* the first one ends, and holds up */
    assert_int_equal(tg_check_async(held_up.client, &request, 1, &asked[1], many_done, &nudge), 0);
    assert_int_equal(sem_wait(&held_up.many.done), 0);
    assert_int_equal(sem_wait(&nudge.done), 0);
    assert_int_equal(held_up.many.code, TG_ETIMEOUT);
    assert_int_equal(nudge.code, TG_ETIMEOUT);
    assert_non_null(strstr(detail_of(held_up.client), "before the question could be sent"));
    tg_close(&held_up.client);
    for (size_t i = 0; i < server_count(server); i++) /* the nudge may be among them, or late too */
        assert_string_not_equal(server_note(server, i).key, "late");
    server_free(&server);
}

/* An administrative command is for the node that was named: that others are up is no comfort. */
static void a_command_for_a_node_that_is_gone_says_so_though_others_are_up(void **state)
{
    struct server *named = server_new("named", SERVER_ANSWER);
    struct server *other = server_new("other", SERVER_ANSWER);
    const tg_request_t request = tg_request_inline("k", &limit);
    tg_options_t options = tg_options();
    int code = TG_ETIMEOUT;
    tg_decision_t asked;
    tg_reply_t reply;

    (void)state;
    server_set_ring(named, 16, 1, server_endpoint(other), server_endpoint(other));
    server_set_ring(other, 16, 1, server_endpoint(other), server_endpoint(other));
    options.timeout_ms = PATIENT_MS;
    options.try_timeout_ms = PATIENT_MS;
    options.no_leases = 1;
    tg_client_t *client = client_open_checked(server_endpoint(named), &options);
    assert_non_null(client);
    while (server_count(other) == 0) /* it learns of it, and asks it from then on */
        assert_int_equal(tg_check(client, &request, &asked), 0);
    server_stop(named);
    for (int i = 0; i < 100 && code == TG_ETIMEOUT; i++) { /* sent before the loss was noticed */
        code = tg_admin(client, "echo", NULL, 0, 50, &reply);
        tg_reply_free(&reply);
    }
    assert_int_equal(code, TG_EUNREACHABLE);
    assert_non_null(strstr(detail_of(client), server_endpoint(named)));
    assert_int_equal(tg_check(client, &request, &asked), 0);
    tg_close(&client);
    server_free(&named);
    server_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_node_has_no_time_for_waits_here_and_moves_when_it_is_lost),
        cmocka_unit_test_teardown(what_waits_for_a_silent_node_goes_elsewhere, let_time_pass),
        cmocka_unit_test_teardown(what_would_wait_for_too_long_is_refused_when_it_is_asked,
                                  let_time_pass),
        cmocka_unit_test_teardown(who_waited_for_a_full_window_is_told_of_an_overload,
                                  let_time_pass),
        cmocka_unit_test(who_was_late_by_itself_is_not_told_of_an_overload),
        cmocka_unit_test_teardown(a_call_that_the_thread_finds_late_is_late_and_is_not_sent,
                                  let_time_pass),
        cmocka_unit_test(a_command_for_a_node_that_is_gone_says_so_though_others_are_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
