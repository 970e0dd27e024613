/* test_tidegate.c - the client library against nodes that a test scripts: fail-over, retries,
 * deadlines, routing, coalescing and every way not to get an answer. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/protocol/identity.h"
#include "client/protocol/wire.h"
#include "tests/unit/support_client.h"
#include "tests/unit/support_server.h"

static const tg_limit_t limit = {
    .algorithm = TG_TOKEN_BUCKET, .count = 100, .window_ns = 3600000000000ULL};

/* A deadline that is not what a test is about: only what never happens misses it. A try as long is
 * never repeated, so that a node counts what was asked, however late it runs. */
enum { PATIENT_MS = 60000 };

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static tg_client_t *open_on(const char *endpoints, int timeout_ms, int try_timeout_ms,
                            tg_on_failure_t on_failure)
{
    tg_options_t options = tg_options();
    char error[256] = "";
    tg_client_t *client;

    options.timeout_ms = timeout_ms;
    options.try_timeout_ms = try_timeout_ms;
    options.on_failure = on_failure;
    options.no_leases = 1; /* test_leases.c has them */
    options.error = error;
    options.error_size = sizeof error;
    client = client_open_checked(endpoints, &options);
    if (client == NULL)
        fail_msg("%s", error);
    return client;
}

static const char *pair(char out[160], struct server *a, struct server *b)
{
    (void)snprintf(out, 160, "%s,%s", server_endpoint(a), server_endpoint(b));
    return out;
}

/* Everything that the node said arrives, and what was asked arrived there. */
static void a_check_gives_the_nodes_decision(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    tg_client_t *client = open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    tg_request_t request = tg_request_inline("user:42", &limit);
    tg_decision_t decision;
    struct server_note note;

    (void)state;
    request.cost = 3;
    assert_int_equal(tg_hit(client, &request, &decision), 0);
    assert_int_equal(decision.allowed, 1);
    assert_int_equal(decision.outcome, TG_ALLOW);
    assert_int_equal(decision.degraded, 0);
    assert_int_equal(decision.error, 0);
    assert_int_equal(decision.status, 200);
    assert_string_equal(decision.rule, "rule-of-the-test");
    assert_string_equal(decision.window, "5/h");
    assert_string_equal(decision.message, "MESSAGE");
    assert_string_equal(decision.node, "n1");
    assert_int_equal(decision.limit, 100);
    assert_int_equal(decision.granted, 3);
    assert_int_equal(decision.reset_after_ms, 1000);
    note = server_note(server, 0);
    assert_int_equal(note.operation, OPERATION_HIT);
    assert_int_equal(note.cost, 3);
    assert_int_equal(note.flags, 0);
    assert_string_equal(note.key, "user:42");
    assert_in_range(note.timeout_ms, 1, PATIENT_MS);
    tg_close(&client);
    assert_null(client);
    server_free(&server);
}

/* A batch is one message, decisions come in the order of the requests. */
static void a_batch_travels_as_one_message(void **state)
{
    enum { BATCH = 300 };
    struct server *server = server_new("n1", SERVER_ANSWER);
    tg_client_t *client = open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    static tg_request_t requests[BATCH];
    static tg_decision_t decisions[BATCH];
    const tg_attribute_t attributes[] = {{"api", "/login", TG_STRLEN}, {"ip", "\xc0\0\2\1", 4}};

    (void)state;
    for (size_t i = 0; i < BATCH; i++) {
        requests[i] = i % 3 == 0 ? tg_request(attributes, 2) : tg_request_inline("k", &limit);
        requests[i].cost = i;
    }
    assert_int_equal(tg_check_many(client, requests, BATCH, decisions), 0);
    assert_int_equal(server_count(server), 1);
    assert_int_equal(server_note(server, 0).count, BATCH);
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(decisions[i].granted, i);
        assert_int_equal(decisions[i].allowed, 1);
    }
    tg_close(&client);
    server_free(&server);
}

/* Many requests are split, so that a node decides some while the rest is under way, and all are
 * decided. */
static void a_large_batch_is_split_into_quarters(void **state)
{
    enum { MESSAGE = 1024, BATCH = 4 * MESSAGE };
    struct server *server = server_new("n1", SERVER_ANSWER);
    tg_client_t *client = open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    tg_request_t *requests = calloc(BATCH, sizeof *requests);
    tg_decision_t *decisions = calloc(BATCH, sizeof *decisions);

    (void)state;
    assert_true(requests != NULL && decisions != NULL);
    for (size_t i = 0; i < BATCH; i++)
        requests[i] = tg_request_inline("k", &limit);
    assert_int_equal(tg_check_many(client, requests, BATCH, decisions), 0);
    assert_int_equal(server_count(server), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(server_note(server, i).count, MESSAGE);
    assert_int_equal(decisions[BATCH - 1].allowed, 1);
    assert_int_equal(tg_check_many(client, requests, BATCH - 3, decisions), 0);
    assert_int_equal(server_count(server), 8); /* a quarter is rounded up: no crumbs are left */
    assert_int_equal(server_note(server, 7).count, MESSAGE - 3);
    free(requests);
    free(decisions);
    tg_close(&client);
    server_free(&server);
}

enum { FOLLOWERS = 50 };

struct burst {
    tg_client_t *client;
    tg_request_t request;
    tg_decision_t decisions[1 + FOLLOWERS];
    sem_t done;
};

static void follower_done(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct burst *burst = argument;

    (void)decisions;
    if (code == 0 && count == 1)
        (void)sem_post(&burst->done);
}

/* While the I/O thread is in here, whatever is asked is queued. */
static void start_followers(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct burst *burst = argument;

    (void)decisions;
    (void)count;
    for (size_t i = 0; code == 0 && i < FOLLOWERS; i++)
        code = tg_check_async(burst->client, &burst->request, 1, &burst->decisions[1 + i],
                              follower_done, burst);
    if (code == 0)
        (void)sem_post(&burst->done);
}

/* Calls that are queued together share a message, without any timer. */
static void queued_calls_share_one_message(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    struct burst burst = {.request = tg_request_inline("k", &limit)};

    (void)state;
    (void)sem_init(&burst.done, 0, 0);
    burst.client = open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    assert_int_equal(tg_check_async(burst.client, &burst.request, 1, &burst.decisions[0],
                                    start_followers, &burst),
                     0);
    for (int i = 0; i < 1 + FOLLOWERS; i++)
        assert_int_equal(sem_wait(&burst.done), 0);
    assert_int_equal(server_count(server), 2);
    assert_int_equal(server_note(server, 1).count, FOLLOWERS);
    tg_close(&burst.client);
    (void)sem_destroy(&burst.done);
    server_free(&server);
}

static void waiting_inside(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct burst *burst = argument;

    (void)count;
    if (code == 0 && tg_check(burst->client, &burst->request, &decisions[0]) == TG_EINVALID)
        (void)sem_post(&burst->done);
}

/* It would wait for itself. */
static void a_callback_cannot_make_a_waiting_call(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    struct burst burst = {.request = tg_request_inline("k", &limit)};

    (void)state;
    (void)sem_init(&burst.done, 0, 0);
    burst.client = open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    assert_int_equal(tg_check_async(burst.client, &burst.request, 1, &burst.decisions[0],
                                    waiting_inside, &burst),
                     0);
    assert_int_equal(sem_wait(&burst.done), 0);
    tg_close(&burst.client);
    (void)sem_destroy(&burst.done);
    server_free(&server);
}

/* How often one message was sent, whoever got it: a node that is late is asked again as well. */
struct asked {
    size_t notes;
    size_t first; /* without the flag of a repetition */
    uint32_t first_timeout_ms;
    uint32_t retry_timeout_ms; /* the longest of them */
};

static void note_attempts(struct server *server, const struct server_note *one, struct asked *asked)
{
    const size_t count = server_count(server);

    for (size_t i = 0; i < count && i < SERVER_NOTES_MAX; i++) {
        const struct server_note note = server_note(server, i);
        if (note.seq != one->seq)
            continue;
        assert_int_equal(note.session, one->session);
        assert_int_equal(note.count, one->count);
        asked->notes++;
        if ((note.flags & WIRE_FLAG_RETRY) == 0) {
            asked->first++;
            asked->first_timeout_ms = note.timeout_ms;
        } else if (note.timeout_ms > asked->retry_timeout_ms) {
            asked->retry_timeout_ms = note.timeout_ms;
        }
    }
}

/* The second node is asked with the first one's identification, so that nothing counts twice. */
static void an_unanswered_message_is_retried_elsewhere_under_its_own_seq(void **state)
{
    struct server *a = server_new("a", SERVER_SWALLOW);
    struct server *b = server_new("b", SERVER_SWALLOW);
    char endpoints[160];
    tg_client_t *client = open_on(pair(endpoints, a, b), PATIENT_MS, 50, TG_FAIL_ERROR);
    tg_request_t request = tg_request_inline("k", &limit);
    tg_decision_t decision;
    struct asked asked = {.notes = 0};

    (void)state;
    /* Whoever is asked first stays silent; the other one answers. */
    server_set_mode(b, SERVER_ANSWER);
    for (int i = 0; server_count(a) == 0 && i < 20; i++)
        assert_int_equal(tg_check(client, &request, &decision), 0);
    if (server_count(a) == 0) { /* b was up first and is preferred: silence it, let a answer */
        server_set_mode(b, SERVER_SWALLOW);
        server_set_mode(a, SERVER_ANSWER);
        assert_int_equal(tg_check(client, &request, &decision), 0);
        assert_string_equal(decision.node, "a");
    } else {
        assert_string_equal(decision.node, "b");
    }
    const struct server_note one = server_note(a, 0);
    note_attempts(a, &one, &asked);
    note_attempts(b, &one, &asked);
    assert_true(asked.notes >= 2);
    assert_int_equal(asked.first, 1);
    assert_true(asked.first_timeout_ms > asked.retry_timeout_ms);
    tg_close(&client);
    server_free(&a);
    server_free(&b);
}

struct caller {
    tg_client_t *client;
    tg_decision_t decision;
    int code;
};

static void *call_once(void *argument)
{
    struct caller *caller = argument;
    const tg_request_t request = tg_request_inline("k", &limit);

    caller->code = tg_check(caller->client, &request, &caller->decision);
    return NULL;
}

/* No time-out is waited for: the closed connection says it. */
static void a_lost_connection_moves_its_messages_at_once(void **state)
{
    struct server *a = server_new("a", SERVER_SWALLOW);
    struct server *b = server_new("b", SERVER_SWALLOW);
    struct caller caller = {.code = 1};
    char endpoints[160];
    int64_t start;
    pthread_t thread;

    (void)state;
    caller.client = open_on(pair(endpoints, a, b), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    assert_int_equal(pthread_create(&thread, NULL, call_once, &caller), 0);
    while (server_count(a) + server_count(b) == 0)
        (void)sched_yield();
    start = now_ms();
    if (server_count(a) != 0) {
        server_set_mode(b, SERVER_ANSWER);
        server_stop(a);
    } else {
        server_set_mode(a, SERVER_ANSWER);
        server_stop(b);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(caller.code, 0);
    assert_true(now_ms() - start < PATIENT_MS / 2);
    tg_close(&caller.client);
    server_free(&a);
    server_free(&b);
}

/* Silence ends with the deadline, and says that it may have been charged. */
static void a_silent_node_costs_no_more_than_the_deadline(void **state)
{
    struct server *server = server_new("n1", SERVER_SWALLOW);
    tg_client_t *client = open_on(server_endpoint(server), 800, 40, TG_FAIL_ERROR);
    const tg_request_t request = tg_request_inline("k", &limit);
    tg_decision_t decision;
    char detail[256];
    const int64_t start = now_ms();

    (void)state;
    assert_int_equal(tg_check(client, &request, &decision), TG_ETIMEOUT);
    assert_in_range(now_ms() - start, 799, PATIENT_MS / 2);
    assert_int_equal(decision.allowed, 0);
    assert_int_equal(decision.error, TG_ETIMEOUT);
    assert_true(server_wait(server, 2)); /* it was tried again in between */
    assert_int_equal(server_note(server, 0).seq, server_note(server, 1).seq);
    tg_error_detail(client, detail, sizeof detail);
    assert_non_null(strstr(detail, "no answer for 40 ms"));
    tg_close(&client);
    server_free(&server);
}

/* Nobody listens: unreachable, and the sentence names the endpoint. */
static void no_live_endpoint_is_unreachable_by_name(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    const tg_request_t request = tg_request_inline("k", &limit);
    tg_decision_t decision;
    tg_client_t *client;
    char detail[256];
    const int64_t start = now_ms();

    (void)state;
    server_stop(server);
    client = open_on(server_endpoint(server), 500, 0, TG_FAIL_ERROR);
    assert_int_equal(tg_check(client, &request, &decision), TG_EUNREACHABLE);
    assert_in_range(now_ms() - start, 499, PATIENT_MS / 2);
    tg_error_detail(client, detail, sizeof detail);
    assert_non_null(strstr(detail, server_endpoint(server)));
    assert_non_null(strstr(detail, ": connection refused"));
    tg_close(&client);
    server_free(&server);
}

/* The caller's choice gives a flagged decision; a caller's mistake stays an error. */
static void on_failure_gives_a_flagged_decision(void **state)
{
    struct server *server = server_new("n1", SERVER_BUSY);
    tg_client_t *client = open_on(server_endpoint(server), PATIENT_MS, 0, TG_FAIL_OPEN);
    tg_request_t request = tg_request_inline("k", &limit);
    tg_decision_t decision;

    (void)state;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.allowed, 1);
    assert_int_equal(decision.degraded, 1);
    assert_int_equal(decision.error, TG_EBUSY);
    assert_int_equal(decision.outcome, TG_BUSY);
    request.cost = TG_COST_MAX + 1;
    assert_int_equal(tg_check(client, &request, &decision), TG_EINVALID);
    assert_int_equal(decision.allowed, 0);
    tg_close(&client);
    client = open_on(server_endpoint(server), PATIENT_MS, 0, TG_FAIL_CLOSED);
    request.cost = 1;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.allowed, 0);
    assert_int_equal(decision.degraded, 1);
    assert_int_equal(decision.status, 503);
    tg_close(&client);
    server_free(&server);
}

/* Each refusal and each malformed answer has its code, within no time. */
static void what_a_node_refuses_has_its_code(void **state)
{
    static const struct {
        enum server_mode mode;
        int code;
        const char *detail;
    } cases[] = {
        {SERVER_BUSY, TG_EBUSY, "says the test"},
        {SERVER_MALFORMED, TG_EPROTOCOL, "expected at least 19 in a DECISIONS"},
        {SERVER_SHORT, TG_EPROTOCOL, "expected 1"},
        {SERVER_NOT_YET, 0, "says the test"},
    };
    const tg_request_t request = tg_request_inline("k", &limit);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct server *server = server_new("n1", cases[i].mode);
        tg_client_t *client =
            open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
        tg_decision_t decision;
        char detail[512];

        assert_int_equal(tg_check(client, &request, &decision), cases[i].code);
        tg_error_detail(client, detail, sizeof detail);
        assert_non_null(strstr(detail, cases[i].detail));
        tg_close(&client);
        server_free(&server);
    }
}

/* A node of another major version is never used; the code says why nothing came of it. */
static void a_node_without_a_common_version_is_named_so(void **state)
{
    struct server *server = server_new("n1", SERVER_VERSION);
    tg_client_t *client = open_on(server_endpoint(server), 150, 0, TG_FAIL_ERROR);
    const tg_request_t request = tg_request_inline("k", &limit);
    tg_decision_t decision;

    (void)state;
    int code = 0; /* a check may have left before the refusal */
    for (int i = 0; code != TG_EVERSION && i < PATIENT_MS / 150; i++)
        code = tg_check(client, &request, &decision);
    assert_int_equal(code, TG_EVERSION);
    tg_close(&client);
    server_free(&server);
}

/* The bound is on requests, not on calls, and is given back. */
static void too_many_in_flight_are_busy_at_once(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    tg_options_t options = tg_options();
    tg_request_t requests[3];
    tg_decision_t decisions[3];
    tg_client_t *client;

    (void)state;
    options.in_flight_max = 2;
    options.timeout_ms = PATIENT_MS;
    client = client_open_checked(server_endpoint(server), &options);
    assert_non_null(client);
    for (int i = 0; i < 3; i++)
        requests[i] = tg_request_inline("k", &limit);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tg_check_many(client, requests, 3, decisions), TG_EBUSY);
        assert_int_equal(decisions[2].error, TG_EBUSY);
        assert_int_equal(tg_check_many(client, requests, 2, decisions), 0);
    }
    tg_close(&client);
    server_free(&server);
}

static void no_answer(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    (void)decisions;
    (void)count;
    *(int *)argument = code;
}

/* Without room a call is refused before it is looked at, even where there is nothing to look at.
 * With room it is told what is wrong with it. */
static void a_full_handle_does_not_look_at_what_it_refuses(void **state)
{
    struct server *server = server_new("n1", SERVER_SWALLOW);
    const tg_request_t *nowhere = (const tg_request_t *)(uintptr_t)8;
    tg_options_t options = tg_options();
    tg_request_t requests[2] = {tg_request_inline("k", &limit), tg_request_inline("k", &limit)};
    tg_decision_t decisions[2];
    char error[256];
    int code = 0;
    tg_client_t *client;

    (void)state;
    options.in_flight_max = 2;
    options.timeout_ms = options.try_timeout_ms = PATIENT_MS;
    client = client_open_checked(server_endpoint(server), &options);
    assert_non_null(client);
    requests[1].cost = TG_COST_MAX + 1;
    assert_int_equal(tg_check_async(client, requests, 2, decisions, no_answer, &code), TG_EINVALID);
    tg_error_detail(client, error, sizeof error);
    assert_non_null(strstr(error, "cost: found 1000000000000001, expected at most"));
    assert_int_equal(tg_check_async(client, requests, 1, decisions, NULL, NULL), TG_EINVALID);
    requests[1].cost = 1;
    assert_int_equal(tg_check_async(client, requests, 2, decisions, no_answer, &code), 0);
    assert_int_equal(tg_check_async(client, nowhere, 1, decisions, no_answer, &code), TG_EBUSY);
    assert_int_equal(code, 0);
    tg_close(&client);
    assert_int_equal(code, TG_ECLOSED);
    server_free(&server);
}

/* The vnode of each key is computed here once more; each key must arrive at its leader. */
static void inline_keys_go_to_their_deciders(void **state)
{
    struct server *even = server_new("even", SERVER_ANSWER);
    struct server *odd = server_new("odd", SERVER_ANSWER);
    const struct hash_key route_key = {{9}};
    tg_client_t *client;
    tg_decision_t decision;
    int right = 0;
    const int64_t start = now_ms();

    (void)state;
    server_set_ring(even, 16, 5, server_endpoint(even), server_endpoint(odd));
    server_set_ring(odd, 16, 5, server_endpoint(even), server_endpoint(odd));
    client = open_on(server_endpoint(even), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    for (int i = 0; right < 100 && now_ms() - start < SERVER_WAIT_MS; i++) {
        char key[32];
        struct identity identity;
        tg_request_t request;
        bool is_odd;

        (void)snprintf(key, sizeof key, "user:%d", i);
        request = tg_request_inline(key, &limit);
        assert_int_equal(identity_inline(&identity, key, strlen(key)), 0);
        is_odd = identity_vnode(&route_key, &identity, 16) % 2 == 1;
        assert_int_equal(tg_check(client, &request, &decision), 0);
        /* Until the second connection stands, the first node answers everything. */
        right = strcmp(decision.node, is_odd ? "odd" : "even") == 0 ? right + 1 : 0;
    }
    assert_int_equal(right, 100);
    tg_close(&client);
    server_free(&even);
    server_free(&odd);
}

/* The first decision names vnode 1; from then on these attributes go to its leader. */
static void attributes_go_where_they_were_decided_before(void **state)
{
    struct server *even = server_new("even", SERVER_ANSWER);
    struct server *odd = server_new("odd", SERVER_ANSWER);
    const tg_attribute_t attributes[] = {{"user", "42", TG_STRLEN}};
    const tg_request_t request = tg_request(attributes, 1);
    tg_client_t *client;
    tg_decision_t decision;
    int right = 0;
    const int64_t start = now_ms();

    (void)state;
    server_set_ring(even, 16, 5, server_endpoint(even), server_endpoint(odd));
    server_set_ring(odd, 16, 5, server_endpoint(even), server_endpoint(odd));
    client = open_on(server_endpoint(even), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    while (right < 20 && now_ms() - start < SERVER_WAIT_MS) {
        assert_int_equal(tg_check(client, &request, &decision), 0);
        right = strcmp(decision.node, "odd") == 0 ? right + 1 : 0;
    }
    assert_int_equal(right, 20);
    tg_close(&client);
    server_free(&even);
    server_free(&odd);
}

/* A decision with another view version makes the client ask again, and go elsewhere. */
static void a_changed_ring_is_learned(void **state)
{
    struct server *a = server_new("a", SERVER_ANSWER);
    struct server *b = server_new("b", SERVER_ANSWER);
    const tg_request_t request = tg_request_inline("k", &limit);
    tg_client_t *client;
    tg_decision_t decision;
    bool moved = false;
    const int64_t start = now_ms();

    (void)state;
    server_set_ring(a, 16, 1, server_endpoint(a), server_endpoint(a));
    server_set_ring(b, 16, 1, server_endpoint(b), server_endpoint(b));
    client = open_on(server_endpoint(a), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_string_equal(decision.node, "a");
    server_set_ring(a, 16, 2, server_endpoint(b), server_endpoint(b));
    while (!moved && now_ms() - start < SERVER_WAIT_MS) {
        assert_int_equal(tg_check(client, &request, &decision), 0);
        moved = strcmp(decision.node, "b") == 0;
    }
    assert_true(moved);
    assert_true(server_rings(a) <= 3);
    tg_close(&client);
    server_free(&a);
    server_free(&b);
}

/* Administration carries any msgpack value there and back; a refusal carries its sentence. */
static void administration_gives_the_nodes_value_or_sentence(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    tg_client_t *client = open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);
    const uint8_t map[] = {0x81, 0xa1, 'x', 0x93, 1, 2, 0xc0};
    tg_reply_t reply;

    (void)state;
    assert_int_equal(tg_admin(client, "echo", map, sizeof map, 0, &reply), 0);
    assert_int_equal(reply.len, sizeof map);
    assert_memory_equal(reply.data, map, sizeof map);
    tg_reply_free(&reply);
    assert_int_equal(tg_admin(client, "echo", NULL, 0, 0, &reply), 0);
    assert_int_equal(reply.len, 1);
    tg_reply_free(&reply);
    assert_int_equal(tg_admin(client, "nothing", NULL, 0, 0, &reply), TG_ENOTFOUND);
    assert_int_equal(reply.len, 16);
    assert_memory_equal((char *)reply.data + 1, "no such command", 15);
    tg_reply_free(&reply);
    assert_int_equal(tg_admin(client, "", NULL, 0, 0, &reply), TG_EINVALID);
    server_set_mode(server, SERVER_SWALLOW);
    assert_int_equal(tg_admin(client, "echo", NULL, 0, 100, &reply), TG_ETIMEOUT);
    assert_null(reply.data);
    tg_close(&client);
    server_free(&server);
}

/* A waiting call ends with the handle. */
static void closing_ends_calls_that_wait(void **state)
{
    struct server *server = server_new("n1", SERVER_SWALLOW);
    struct caller caller = {.code = 1};
    pthread_t thread;

    (void)state;
    caller.client = open_on(server_endpoint(server), 60000, 60000, TG_FAIL_ERROR);
    assert_int_equal(pthread_create(&thread, NULL, call_once, &caller), 0);
    assert_true(server_wait(server, 1));
    tg_close(&caller.client);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(caller.code, TG_ECLOSED);
    server_free(&server);
}

enum { THREADS = 8, CALLS = 200 };

static void *call_many(void *argument)
{
    tg_client_t *client = argument;
    size_t wrong = 0;

    for (size_t i = 0; i < CALLS; i++) {
        tg_request_t requests[2] = {tg_request_inline("a", &limit), tg_request_inline("b", &limit)};
        tg_decision_t decisions[2];

        requests[0].cost = i;
        requests[1].cost = i + 1;
        wrong += tg_check_many(client, requests, 2, decisions) != 0 || decisions[0].granted != i ||
                 decisions[1].granted != i + 1;
    }
    return (void *)wrong;
}

/* Each thread gets its own answers, while the nodes come and go. */
static void threads_share_a_handle(void **state)
{
    struct server *a = server_new("a", SERVER_ANSWER);
    struct server *b = server_new("b", SERVER_ANSWER);
    char endpoints[160];
    tg_client_t *client = open_on(pair(endpoints, a, b), PATIENT_MS, 100, TG_FAIL_ERROR);
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_many, client), 0);
    while (server_count(a) + server_count(b) == 0)
        (void)sched_yield();
    server_stop(a);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    tg_close(&client);
    server_free(&a);
    server_free(&b);
}

/* tg_open says what is wrong; bad requests never leave the process. */
static void mistakes_are_named_before_anything_is_sent(void **state)
{
    static const char *const bad[] = {"",          "http://x:1",    "tcp://x",    "tcp://:7",
                                      "tcp://x:0", "tcp://x:65536", "tcp://x:7,,"};
    const tg_attribute_t twice[] = {{"ip", "1", TG_STRLEN}, {"ip", "2", TG_STRLEN}};
    tg_options_t options = tg_options();
    char error[256];
    tg_request_t request = tg_request(twice, 2);
    tg_decision_t decision;
    tg_client_t *client;

    (void)state;
    options.error = error;
    options.error_size = sizeof error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error[0] = '\0';
        assert_null(tg_open(bad[i], &options));
        assert_non_null(strstr(error, "expected tcp://HOST:PORT"));
    }
    options.timeout_ms = -1;
    assert_null(tg_open("tcp://127.0.0.1:1", &options));
    options.timeout_ms = 0;
    options.curve_server_key = "short";
    assert_null(tg_open("tcp://127.0.0.1:1", &options));
    assert_non_null(strstr(error, "CURVE"));
    options.curve_server_key = NULL;
    client = client_open_checked("tcp://127.0.0.1:1", &options);
    assert_non_null(client);
    assert_int_equal(tg_check(client, &request, &decision), TG_EINVALID);
    tg_error_detail(client, error, sizeof error);
    assert_string_equal(error, "attributes[1].name: found \"ip\" again, expected distinct names");
    request = tg_request_inline("k", &limit);
    assert_int_equal(tg_check_many(client, &request, 0, &decision), TG_EINVALID);
    tg_error_detail(client, error, sizeof error);
    assert_non_null(strstr(error, "requests: found none"));
    assert_int_equal(tg_release(client, &request, &decision), TG_EINVALID);
    tg_error_detail(client, error, sizeof error);
    assert_non_null(strstr(error, "lease_id: found 0"));
    assert_int_equal(tg_report_load(client, "api", 2), TG_EINVALID);
    tg_error_detail(client, error, sizeof error);
    assert_non_null(strstr(error, "load: found 2, expected 0 to 1"));
    tg_close(&client);
    tg_close(&client); /* twice is harmless */
}

/* A service reports its load by the pool's name; what is no load is not sent at all. */
static void a_load_is_reported_for_a_pool(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    tg_client_t *client = open_on(server_endpoint(server), PATIENT_MS, PATIENT_MS, TG_FAIL_ERROR);

    (void)state;
    assert_int_equal(tg_report_load(client, "api", 0.93), 0);
    assert_int_equal(tg_report_load(client, "other", 0.93), TG_ENOTFOUND);
    assert_int_equal(tg_report_load(client, "api", 1.01), TG_EINVALID);
    assert_int_equal(tg_report_load(client, "api", -0.01), TG_EINVALID);
    assert_int_equal(tg_report_load(client, "api", (double)NAN), TG_EINVALID);
    assert_int_equal(tg_report_load(client, "", 0.5), TG_EINVALID);
    assert_int_equal(tg_report_load(client, NULL, 0.5), TG_EINVALID);
    tg_close(&client);
    server_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_gives_the_nodes_decision),
        cmocka_unit_test(a_batch_travels_as_one_message),
        cmocka_unit_test(a_large_batch_is_split_into_quarters),
        cmocka_unit_test(queued_calls_share_one_message),
        cmocka_unit_test(a_callback_cannot_make_a_waiting_call),
        cmocka_unit_test(an_unanswered_message_is_retried_elsewhere_under_its_own_seq),
        cmocka_unit_test(a_lost_connection_moves_its_messages_at_once),
        cmocka_unit_test(a_silent_node_costs_no_more_than_the_deadline),
        cmocka_unit_test(no_live_endpoint_is_unreachable_by_name),
        cmocka_unit_test(on_failure_gives_a_flagged_decision),
        cmocka_unit_test(what_a_node_refuses_has_its_code),
        cmocka_unit_test(a_node_without_a_common_version_is_named_so),
        cmocka_unit_test(too_many_in_flight_are_busy_at_once),
        cmocka_unit_test(a_full_handle_does_not_look_at_what_it_refuses),
        cmocka_unit_test(inline_keys_go_to_their_deciders),
        cmocka_unit_test(attributes_go_where_they_were_decided_before),
        cmocka_unit_test(a_changed_ring_is_learned),
        cmocka_unit_test(administration_gives_the_nodes_value_or_sentence),
        cmocka_unit_test(a_load_is_reported_for_a_pool),
        cmocka_unit_test(closing_ends_calls_that_wait),
        cmocka_unit_test(threads_share_a_handle),
        cmocka_unit_test(mistakes_are_named_before_anything_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
