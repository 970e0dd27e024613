/* test_leases.c - hot keys and denials through the whole library, against nodes that a test
 * scripts: what is admitted here is what was granted, and what is told back is what was admitted.
 */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/vocabulary.h"
#include "tests/unit/support_client.h"
#include "tests/unit/support_server.h"

enum { HEAT = 64, HEAT_COST = 16, THREADS = 4, PATIENCE_MS = 20000 };

static const tg_limit_t limit = {
    .algorithm = TG_TOKEN_BUCKET, .count = 100, .window_ns = 3600000000000ULL};

/* For how long the machine was suspended, as the library is made to believe. */
static _Atomic int64_t suspended_ms;

/* In the place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int status = (int)syscall(SYS_clock_gettime, clock, out);

    if (status == 0 && clock == CLOCK_BOOTTIME) {
        const int64_t ns = out->tv_nsec + atomic_load(&suspended_ms) * 1000000;

        out->tv_sec += ns / 1000000000;
        out->tv_nsec = ns % 1000000000;
    }
    return status;
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static tg_client_t *open_with(struct server *server, int no_leases, int no_denials)
{
    tg_options_t options = tg_options();
    tg_client_t *client;

    options.timeout_ms = 10000;
    options.try_timeout_ms = 10000; /* nothing is asked twice on a busy machine */
    options.no_leases = no_leases;
    options.no_denials = no_denials;
    client = client_open_checked(server_endpoint(server), &options);
    assert_non_null(client);
    return client;
}

static struct server *server_with(uint64_t tokens, uint32_t lease_ms)
{
    struct server *server = server_new("n1", SERVER_ANSWER);
    const struct server_leases leases = {.tokens = tokens, .lease_ms = lease_ms};

    server_set_leases(server, &leases);
    return server;
}

/* Enough checks in one message to make the key hot, however slow the machine is, and of so many
 * tokens that the lease is a large one: it does not look cold soon. */
static void heat(tg_client_t *client, const char *key)
{
    static tg_request_t requests[HEAT];
    static tg_decision_t decisions[HEAT];

    for (size_t i = 0; i < HEAT; i++) {
        requests[i] = tg_request_inline(key, &limit);
        requests[i].cost = HEAT_COST;
    }
    assert_int_equal(tg_check_many(client, requests, HEAT, decisions), 0);
}

/* Heats the key and asks about it until the answer is made here; the checks that were is 1. */
static bool until_local(tg_client_t *client, const char *key, tg_decision_t *decision)
{
    const tg_request_t request = tg_request_inline(key, &limit);
    const int64_t end = now_ms() + PATIENCE_MS;

    heat(client, key);
    do {
        assert_int_equal(tg_check(client, &request, decision), 0);
    } while (!decision->local && now_ms() < end);
    return decision->local != 0;
}

/* A hot key is asked for no more; its decisions say what the grant said, and at the close the node
 * hears exactly what was used. */
static void a_hot_key_is_decided_here(void **state)
{
    struct server *server = server_with(1000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    struct server_tally tally;
    tg_decision_t decision;
    size_t asked;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    asked = server_count(server);
    assert_int_equal(decision.allowed, 1);
    assert_int_equal(decision.outcome, TG_ALLOW);
    assert_int_equal(decision.status, 200);
    assert_string_equal(decision.rule, "rule-of-the-test");
    assert_string_equal(decision.window, "5/h");
    assert_string_equal(decision.node, "n1");
    assert_int_equal(decision.limit, 100);
    assert_int_equal(decision.granted, 1);
    assert_int_equal(decision.used, 11);
    assert_int_equal(decision.lease_id, 0);
    for (uint64_t i = 2; i <= 20; i++) {
        assert_int_equal(tg_check(client, &request, &decision), 0);
        assert_int_equal(decision.local, 1);
        assert_int_equal(decision.used, 10 + i);
    }
    assert_int_equal(server_count(server), asked);
    tg_close(&client);
    tally = server_tally(server);
    assert_int_equal(tally.asked, 1);
    assert_int_equal(tally.released, 1);
    assert_int_equal(tally.used, 20);
    assert_int_equal(tally.strange, 0);
    server_free(&server);
}

struct asker {
    pthread_t thread;
    tg_client_t *client;
    uint64_t checks;
    uint64_t local;  /* tokens that were taken here */
    uint64_t errors; /* decisions that there are none of */
};

static void *ask_many(void *argument)
{
    struct asker *asker = argument;
    tg_request_t request = tg_request_inline("hot", &limit);
    tg_decision_t decision;

    for (uint64_t i = 0; i < asker->checks; i++) {
        request.cost = 1 + i % 3;
        asker->errors += tg_check(asker->client, &request, &decision) != 0;
        asker->local += decision.local ? decision.granted : 0;
    }
    return NULL;
}

/* Threads take of many small leases, renewed all the time: in the end the node heard of each lease
 * once, and of every token that was taken. */
static void what_threads_take_is_what_the_node_hears(void **state)
{
    static struct asker askers[THREADS];
    struct server *server = server_with(2000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    struct server_tally tally;
    tg_decision_t decision;
    uint64_t local = 1;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){.client = client, .checks = 3000};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_many, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(askers[i].thread, NULL), 0);
        assert_int_equal(askers[i].errors, 0);
        local += askers[i].local;
    }
    tg_close(&client);
    tally = server_tally(server);
    assert_int_equal(tally.strange, 0);
    assert_int_equal(tally.released, tally.given);
    assert_int_equal(tally.used, local);
    assert_true(tally.given > 1 && tally.used <= tally.granted);
    server_free(&server);
}

/* After its end a lease admits nothing: whatever was asked for 100 ms after the first decision of a
 * lease of 100 ms was asked at the node. */
static void nothing_is_admitted_after_the_end_of_a_lease(void **state)
{
    const struct server_leases none = {
        .outcome = OUTCOME_DENY, .status = 429, .retry_after_ms = 60000};
    struct server *server = server_with(1000000, 100);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    tg_decision_t decision;
    int64_t first;
    int64_t asked;

    (void)state;
    heat(client, "hot");
    assert_true(server_wait_leases(server, 1, 0));
    server_set_leases(server, &none);
    first = now_ms();
    do {
        asked = now_ms();
        assert_int_equal(tg_check(client, &request, &decision), 0);
        assert_true(!decision.local || asked <= first + 100);
    } while (asked <= first + 150);
    assert_true(server_wait_leases(server, 1, 1)); /* given back, though nobody asked for more */
    tg_close(&client);
    server_free(&server);
}

/* Who is told that a key gives no leases asks for it as before, and does not ask for one again. */
static void a_limit_without_leases_is_left_alone(void **state)
{
    struct server *server = server_new("n1", SERVER_ANSWER); /* outcome error, status 400 */
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    tg_decision_t decision;

    (void)state;
    heat(client, "hot");
    assert_true(server_wait_leases(server, 1, 0));
    for (int i = 0; i < 5; i++) {
        heat(client, "hot");
        assert_int_equal(tg_check(client, &request, &decision), 0);
        assert_int_equal(decision.local, 0);
        assert_int_equal(decision.allowed, 1);
    }
    assert_int_equal(server_tally(server).asked, 1);
    tg_close(&client);
    server_free(&server);
}

/* A user who is blocked meanwhile loses what is held when the next lease is refused for it. */
static void a_block_ends_what_is_held(void **state)
{
    const struct server_leases blocked = {.outcome = OUTCOME_BLOCKED, .status = 403};
    struct server *server = server_with(2000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    tg_decision_t decision;
    uint64_t taken = 1;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    server_set_leases(server, &blocked);
    for (; taken < 1000; taken += decision.local != 0) /* half of it makes it ask again */
        assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_true(server_wait_leases(server, 2, 1));
    assert_int_equal(server_tally(server).used, taken);
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    tg_close(&client);
    server_free(&server);
}

/* What is no plain check, or a dear one, travels, though the key is held. */
static void only_plain_checks_are_decided_here(void **state)
{
    struct server *server = server_with(100000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    tg_request_t request = tg_request_inline("hot", &limit);
    tg_explain_t rows[1];
    tg_decision_t decision;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    request.cost = 16;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.local, 1);
    request.cost = 17;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    request.cost = 0;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    request.cost = 1;
    assert_int_equal(tg_peek(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    assert_int_equal(tg_hit(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    request.at_most = 1;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    request.at_most = 0;
    request.explain = rows;
    request.explain_max = 1;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    tg_close(&client);
    server_free(&server);
}

/* A batch takes of leases what it can, and asks for the rest, in one message. */
static void a_batch_asks_only_for_the_rest(void **state)
{
    enum { BATCH = 200 };
    static tg_request_t requests[BATCH];
    static tg_decision_t decisions[BATCH];
    struct server *server = server_with(100000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    tg_decision_t decision;
    size_t count;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    count = server_count(server);
    for (size_t i = 0; i < BATCH; i++)
        requests[i] = tg_request_inline(i % 4 == 0 ? "cool" : "hot", &limit);
    assert_int_equal(tg_check_many(client, requests, BATCH, decisions), 0);
    assert_int_equal(server_count(server), count + 1);
    assert_int_equal(server_note(server, count).count, BATCH / 4);
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(decisions[i].local, i % 4 != 0);
        assert_int_equal(decisions[i].allowed, 1);
    }
    tg_close(&client);
    server_free(&server);
}

/* A batch that is refused for one bad request spends nothing of what is held for the others. */
static void a_refused_batch_takes_nothing_of_a_lease(void **state)
{
    enum { BATCH = 200 };
    static tg_request_t requests[BATCH];
    static tg_decision_t decisions[BATCH];
    struct server *server = server_with(100000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    tg_decision_t decision;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    for (size_t i = 0; i < BATCH; i++)
        requests[i] = tg_request_inline("hot", &limit);
    requests[BATCH - 1].cost = TG_COST_MAX + 1;
    assert_int_equal(tg_check_many(client, requests, BATCH, decisions), TG_EINVALID);
    for (size_t i = 0; i < BATCH; i++)
        assert_int_equal(decisions[i].error, TG_EINVALID);
    tg_close(&client);
    assert_int_equal(server_tally(server).used, 1); /* the check of until_local */
    server_free(&server);
}

/* A refund, or a reset, comes to the node behind word of what was admitted here, in one message:
 * else the node would have nothing to give back yet. What is held goes on serving. */
static void what_was_used_is_told_before_a_refund(void **state)
{
    static const tg_operation_t backs[] = {TG_REFUND, TG_RESET};
    struct server *server = server_with(100000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    tg_request_t request = tg_request_inline("hot", &limit);
    tg_decision_t decision;
    uint64_t used = 1;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    for (size_t i = 0; i < 2; i++) {
        request.operation = TG_CHECK;
        for (int k = 0; k < 10; k++, used++) {
            assert_int_equal(tg_check(client, &request, &decision), 0);
            assert_int_equal(decision.local, 1);
        }
        const size_t count = server_count(server);
        request.operation = backs[i];
        assert_int_equal(tg_call(client, &request, &decision), 0);
        assert_int_equal(server_count(server), count + 1);
        assert_int_equal(server_note(server, count).operation, OPERATION_RENEW);
        assert_int_equal(server_note(server, count).used, used);
        assert_int_equal(server_note(server, count).count, 2);
    }
    tg_close(&client);
    assert_int_equal(server_tally(server).used, used);
    assert_int_equal(server_tally(server).strange, 0);
    server_free(&server);
}

struct completion {
    sem_t done;
    int code;
    pthread_t thread;
};

static void complete(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct completion *completion = argument;

    (void)decisions;
    (void)count;
    completion->code = code;
    completion->thread = pthread_self();
    (void)sem_post(&completion->done);
}

/* An asynchronous call that needs no node still ends on the library's thread, once. */
static void asynchronous_calls_take_of_leases_too(void **state)
{
    struct server *server = server_with(100000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    tg_request_t requests[2];
    struct completion completion = {.code = 1};
    tg_decision_t decisions[2];
    tg_decision_t decision;
    size_t count;

    (void)state;
    assert_int_equal(sem_init(&completion.done, 0, 0), 0);
    assert_true(until_local(client, "hot", &decision));
    count = server_count(server);
    requests[0] = requests[1] = tg_request_inline("hot", &limit);
    assert_int_equal(tg_check_async(client, requests, 2, decisions, complete, &completion), 0);
    while (sem_wait(&completion.done) != 0) {
    }
    assert_int_equal(completion.code, 0);
    assert_false(pthread_equal(completion.thread, pthread_self()));
    assert_int_equal(decisions[0].local, 1);
    assert_int_equal(decisions[1].local, 1);
    assert_int_equal(server_count(server), count);
    tg_close(&client);
    (void)sem_destroy(&completion.done);
    server_free(&server);
}

static void note_code(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    (void)decisions;
    (void)count;
    *(_Atomic int *)argument = code;
}

/* in_flight_max is the caller's alone: with a question for a lease out he may ask so many at once,
 * each in a message of its own, and no more. */
static void a_lease_takes_no_room_of_the_callers(void **state)
{
    static tg_decision_t decisions[HEAT + 1];
    const struct server_leases silent = {.silent = true};
    struct server *server = server_with(1000, 60000);
    const tg_request_t request = tg_request_inline("cool", &limit);
    tg_options_t options = tg_options();
    tg_client_t *client;
    _Atomic int codes[HEAT + 1];

    (void)state;
    server_set_leases(server, &silent);
    options.timeout_ms = options.try_timeout_ms = 10000;
    options.in_flight_max = HEAT;
    client = client_open_checked(server_endpoint(server), &options);
    assert_non_null(client);
    heat(client, "hot");
    assert_true(server_wait_leases(server, 1, 0));
    server_set_mode(server, SERVER_SWALLOW);
    const size_t before = server_count(server);
    for (size_t i = 0; i < HEAT; i++) {
        codes[i] = 1;
        assert_int_equal(tg_check_async(client, &request, 1, &decisions[i], note_code, &codes[i]),
                         0);
        assert_true(server_wait(server, before + i + 1));
    }
    assert_int_equal(tg_check_async(client, &request, 1, &decisions[HEAT], note_code, &codes[HEAT]),
                     TG_EBUSY);
    tg_close(&client);
    for (size_t i = 0; i < HEAT; i++)
        assert_int_equal(codes[i], TG_ECLOSED);
    server_free(&server);
}

/* A key that nobody asks about any more is given back, though nobody calls. */
static void an_idle_key_is_given_back(void **state)
{
    struct server *server = server_with(1000, 200);
    tg_client_t *client = open_with(server, 0, 0);

    (void)state;
    heat(client, "hot");
    assert_true(server_wait_leases(server, 1, 1));
    assert_int_equal(server_tally(server).used, 0);
    assert_int_equal(server_tally(server).asked, 1);
    tg_close(&client);
    server_free(&server);
}

struct holdup {
    sem_t entered;
    _Atomic int64_t until; /* ms */
};

static void hold_up(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    struct holdup *holdup = argument;

    (void)code;
    (void)decisions;
    (void)count;
    (void)sem_post(&holdup->entered);
    while (now_ms() < holdup->until) {
    }
}

/* A lease ends by the clock of who takes of it: also while the library's thread, which would take
 * back what is left, is held up by the program. */
static void the_end_of_a_lease_waits_for_nobody(void **state)
{
    struct server *server = server_with(1000000, 100);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    const tg_request_t other = tg_request_inline("other", &limit);
    struct holdup holdup;
    tg_decision_t decisions[2];
    int64_t end;

    (void)state;
    assert_int_equal(sem_init(&holdup.entered, 0, 0), 0);
    assert_true(until_local(client, "hot", &decisions[0]));
    holdup.until = INT64_MAX;
    assert_int_equal(tg_check_async(client, &other, 1, &decisions[1], hold_up, &holdup), 0);
    while (sem_wait(&holdup.entered) != 0) {
    }
    end = now_ms() + 100; /* what is held now was asked for before */
    holdup.until = end + 60;
    while (now_ms() <= end) {
    }
    assert_int_equal(tg_check(client, &request, &decisions[0]), 0);
    assert_true(!decisions[0].local || now_ms() >= holdup.until); /* then it was renewed */
    tg_close(&client);
    (void)sem_destroy(&holdup.entered);
    server_free(&server);
}

/* While the machine is suspended leases end: what was held is not used when it wakes. */
static void a_suspended_machine_has_spent_its_leases(void **state)
{
    struct server *server = server_with(1000000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    struct timespec before;
    struct timespec now;
    tg_decision_t decision;
    uint64_t asked;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    asked = server_tally(server).asked;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &before);
    atomic_fetch_add(&suspended_ms, 60000);
    do { /* the next tick tells */
        (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    } while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_true(!decision.local || server_tally(server).asked > asked); /* of the next lease */
    tg_close(&client);
    server_free(&server);
}

/* What a LEASE takes of a limit of places in flight is no block of tokens: it is given back. */
static void a_place_in_flight_is_given_back(void **state)
{
    struct server *server = server_with(1000, 0);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    tg_decision_t decision;

    (void)state;
    heat(client, "hot");
    assert_true(server_wait_leases(server, 1, 1));
    assert_int_equal(server_tally(server).used, 0);
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.local, 0);
    tg_close(&client);
    assert_int_equal(server_tally(server).released, 1);
    server_free(&server);
}

static void count_answer(void *argument, int code, tg_decision_t *decisions, size_t count)
{
    (void)code;
    (void)decisions;
    *(size_t *)argument += count;
}

/* What a child gets of its parent's handle: an error from each call. 0, or what was wrong. */
static int use_inherited(tg_client_t *client, const tg_request_t *request)
{
    size_t answers = 0;
    tg_decision_t decision;
    tg_reply_t reply;
    char detail[256];

    if (tg_check(client, request, &decision) != TG_EINVALID || decision.allowed)
        return 1;
    if (tg_check_many(client, request, 1, &decision) != TG_EINVALID || decision.allowed)
        return 2;
    if (tg_check_async(client, request, 1, &decision, count_answer, &answers) != TG_EINVALID)
        return 3;
    if (tg_admin(client, "status", NULL, 0, 0, &reply) != TG_EINVALID ||
        tg_report_load(client, "api", 0.5) != TG_EINVALID)
        return 4;
    tg_error_detail(client, detail, sizeof detail);
    if (strstr(detail, "fork") == NULL)
        return 5;
    tg_close(&client);
    return client == NULL && answers == 0 ? 0 : 6;
}

/* A child has a copy of what is held, and may not spend it once more; nor does it wait for threads
 * that it has not. */
static void what_is_held_is_not_spent_by_a_child_too(void **state)
{
    enum { HUNG_S = 60 };
    struct server *server = server_with(1000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("hot", &limit);
    tg_decision_t decision;
    int status = -1;
    pid_t child;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(HUNG_S);
        _exit(use_inherited(client, &request));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(tg_check(client, &request, &decision), 0);
    tg_close(&client);
    assert_int_equal(server_tally(server).used, 2);
    server_free(&server);
}

/* With no_leases every check is asked for. */
static void leases_can_be_turned_off(void **state)
{
    struct server *server = server_with(1000, 60000);
    tg_client_t *client = open_with(server, 1, 0);

    (void)state;
    for (int i = 0; i < 5; i++)
        heat(client, "hot");
    assert_int_equal(server_tally(server).asked, 0);
    assert_int_equal(server_count(server), 5);
    tg_close(&client);
    server_free(&server);
}

/* A node that went away is not waited for at the close, however much is held. */
static void closing_does_not_wait_for_a_node_that_is_gone(void **state)
{
    struct server *server = server_with(1000, 60000);
    tg_client_t *client = open_with(server, 0, 0);
    tg_decision_t decision;
    int64_t before;

    (void)state;
    assert_true(until_local(client, "hot", &decision));
    server_stop(server);
    before = now_ms();
    tg_close(&client);
    assert_true(now_ms() - before < 9000);
    server_free(&server);
}

/* ---- denials ----------------------------------------------------------------------------- */

static tg_decision_t check(tg_client_t *client, uint64_t cost)
{
    tg_request_t request = tg_request_inline("k", &limit);
    tg_decision_t decision;

    request.cost = cost;
    assert_int_equal(tg_check(client, &request, &decision), 0);
    assert_int_equal(decision.allowed, 0);
    assert_int_equal(decision.outcome, TG_DENY);
    return decision;
}

static struct server *server_that_denies(int64_t retry_after_ms, bool steady)
{
    struct server *server = server_new("n1", SERVER_DENY);

    server_set_denial(server, retry_after_ms, steady);
    return server;
}

/* How often out of `tries` the check was answered here. */
static int local_of(tg_client_t *client, uint64_t cost, int tries)
{
    int local = 0;

    for (int i = 0; i < tries; i++)
        local += check(client, cost).local;
    return local;
}

/* Asks until the denial is made here: a second may pass between two on a busy machine. */
static tg_decision_t until_denied_here(tg_client_t *client, uint64_t cost)
{
    const int64_t end = now_ms() + PATIENCE_MS;
    tg_decision_t decision;

    do {
        decision = check(client, cost);
    } while (!decision.local && now_ms() < end);
    assert_int_equal(decision.local, 1);
    return decision;
}

/* Who was denied and asks again at once is answered here, with what the node said; who asks for
 * less is not. */
static void a_denial_is_remembered(void **state)
{
    struct server *server = server_that_denies(60000, true);
    tg_client_t *client = open_with(server, 0, 0);
    tg_decision_t decision;

    (void)state;
    assert_int_equal(check(client, 5).local, 0);
    decision = until_denied_here(client, 5);
    assert_string_equal(decision.rule, "rule-of-the-test");
    assert_string_equal(decision.node, "n1");
    assert_in_range(decision.retry_after_ms, 30000, 60000);
    assert_int_equal(check(client, 4).local, 0);
    tg_close(&client);
    server_free(&server);
}

/* A denial that something else than time may change is asked for each time; so is every one with
 * no_denials. */
static void a_denial_that_may_change_is_asked_for(void **state)
{
    struct server *server = server_that_denies(60000, false);
    tg_client_t *client = open_with(server, 0, 0);

    (void)state;
    assert_int_equal(local_of(client, 1, 20), 0);
    assert_int_equal(server_count(server), 20);
    tg_close(&client);
    server_set_denial(server, 60000, true);
    client = open_with(server, 0, 1);
    assert_int_equal(local_of(client, 1, 20), 0);
    tg_close(&client);
    server_free(&server);
}

/* After the handle gave something back itself, it asks. */
static void what_the_handle_gives_back_counts_at_once(void **state)
{
    static const tg_operation_t backs[] = {TG_REFUND, TG_RESET};
    struct server *server = server_that_denies(60000, true);
    tg_client_t *client = open_with(server, 0, 0);
    tg_request_t other = tg_request_inline("another", &limit);
    tg_decision_t decision;

    (void)state;
    for (size_t i = 0; i < sizeof backs / sizeof backs[0]; i++) {
        (void)until_denied_here(client, 1);
        other.operation = backs[i];
        assert_int_equal(tg_call(client, &other, &decision), 0);
        assert_int_equal(check(client, 1).local, 0);
    }
    tg_close(&client);
    server_free(&server);
}

/* What stands behind something that gives back is decided after it: in one call, and in a call that
 * is made while the other one is under way. */
static void what_is_asked_behind_a_refund_is_asked(void **state)
{
    struct server *server = server_that_denies(60000, true);
    tg_client_t *client = open_with(server, 0, 0);
    tg_request_t requests[2] = {tg_request_inline("another", &limit),
                                tg_request_inline("k", &limit)};
    tg_decision_t decisions[2];
    struct completion done[2];

    (void)state;
    requests[0].operation = TG_REFUND;
    (void)until_denied_here(client, 1);
    assert_int_equal(tg_check_many(client, requests, 2, decisions), 0);
    assert_int_equal(decisions[1].local, 0);
    (void)until_denied_here(client, 1);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sem_init(&done[i].done, 0, 0), 0);
        assert_int_equal(tg_check_async(client, &requests[i], 1, &decisions[i], complete, &done[i]),
                         0);
    }
    for (size_t i = 0; i < 2; i++) {
        while (sem_wait(&done[i].done) != 0) {
        }
        (void)sem_destroy(&done[i].done);
    }
    assert_int_equal(decisions[1].outcome, TG_DENY);
    assert_int_equal(decisions[1].local, 0);
    tg_close(&client);
    server_free(&server);
}

/* A refund without an answer may have been carried out, at the latest when it is given up: what was
 * denied while it was under way is asked for again. */
static void a_refund_that_is_not_answered_counts_too(void **state)
{
    struct server *server = server_that_denies(60000, true);
    tg_client_t *client = open_with(server, 0, 0); /* a call has ten seconds */
    tg_request_t refund = tg_request_inline("another", &limit);
    const int64_t end = now_ms() + PATIENCE_MS;
    tg_decision_t refunded;
    tg_decision_t decision;
    _Atomic int code;

    (void)state;
    refund.operation = TG_REFUND;
    do { /* a denial that was told before the refund was given up */
        const size_t before = server_count(server);

        code = 1;
        server_set_mode(server, SERVER_SWALLOW);
        assert_int_equal(tg_check_async(client, &refund, 1, &refunded, note_code, &code), 0);
        assert_true(server_wait(server, before + 1));
        server_set_mode(server, SERVER_DENY);
        atomic_fetch_add(&suspended_ms, 9500);
        (void)until_denied_here(client, 1);
    } while (code != 1);
    atomic_fetch_add(&suspended_ms, 600); /* less than a denial is remembered for */
    do { /* the refund may be given up behind an answer of the same turn */
        assert_int_equal(tg_peek(client, &refund, &decision), 0);
    } while (code == 1 && now_ms() < end);
    assert_int_equal(code, TG_ETIMEOUT);
    assert_int_equal(check(client, 1).local, 0);
    tg_close(&client);
    server_free(&server);
}

/* When its time is over it is asked for again, and what is allowed then is allowed. */
static void a_remembered_denial_ends(void **state)
{
    struct server *server = server_that_denies(100, true);
    tg_client_t *client = open_with(server, 0, 0);
    const tg_request_t request = tg_request_inline("k", &limit);
    const int64_t end = now_ms() + PATIENCE_MS;
    tg_decision_t decision;

    (void)state;
    (void)until_denied_here(client, 1);
    server_set_mode(server, SERVER_ANSWER);
    do {
        assert_int_equal(tg_check(client, &request, &decision), 0);
    } while (!decision.allowed && now_ms() < end);
    assert_int_equal(decision.allowed, 1);
    tg_close(&client);
    server_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hot_key_is_decided_here),
        cmocka_unit_test(what_threads_take_is_what_the_node_hears),
        cmocka_unit_test(nothing_is_admitted_after_the_end_of_a_lease),
        cmocka_unit_test(a_limit_without_leases_is_left_alone),
        cmocka_unit_test(a_block_ends_what_is_held),
        cmocka_unit_test(only_plain_checks_are_decided_here),
        cmocka_unit_test(a_batch_asks_only_for_the_rest),
        cmocka_unit_test(a_refused_batch_takes_nothing_of_a_lease),
        cmocka_unit_test(what_was_used_is_told_before_a_refund),
        cmocka_unit_test(asynchronous_calls_take_of_leases_too),
        cmocka_unit_test(a_lease_takes_no_room_of_the_callers),
        cmocka_unit_test(an_idle_key_is_given_back),
        cmocka_unit_test(the_end_of_a_lease_waits_for_nobody),
        cmocka_unit_test(a_suspended_machine_has_spent_its_leases),
        cmocka_unit_test(a_place_in_flight_is_given_back),
        cmocka_unit_test(what_is_held_is_not_spent_by_a_child_too),
        cmocka_unit_test(leases_can_be_turned_off),
        cmocka_unit_test(closing_does_not_wait_for_a_node_that_is_gone),
        cmocka_unit_test(a_denial_is_remembered),
        cmocka_unit_test(a_denial_that_may_change_is_asked_for),
        cmocka_unit_test(what_the_handle_gives_back_counts_at_once),
        cmocka_unit_test(what_is_asked_behind_a_refund_is_asked),
        cmocka_unit_test(a_refund_that_is_not_answered_counts_too),
        cmocka_unit_test(a_remembered_denial_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
