/* tidegate.c - the public functions: check arguments, hand a call over, wait.
 *
 * A caller's thread validates, links its call into the queue and wakes the driver if the queue was
 * empty; then it sleeps on the call's semaphore. If nobody drives, it drives itself.
 *
 * API-1  Nothing invalid enters the queue: the I/O thread need not report mistakes.
 * API-2  A handle that tg_open returned is complete; whatever fails in between is undone in
 *        reverse.
 * API-3  Nothing of a handle is touched after a fork but by the process that opened it: the child
 *        has a copy of its tokens, connections and locks, but none of its threads.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "client/lib/call.h"
#include "client/lib/client.h"
#include "client/lib/clock.h"
#include "client/lib/detail.h"
#include "client/lib/local.h"
#include "client/lib/loop.h"
#include "client/lib/wake.h"

#define CLIENT_VERSION "0.1.0"

/* ---- words ----------------------------------------------------------------------------- */

const char *tg_strerror(int code)
{
    return code == 0 ? "ok" : error_message(code);
}

const char *tg_error_name(int code)
{
    return error_name(code);
}

int tg_retryable(int code)
{
    return error_retryable(code);
}

const char *tg_version(void)
{
    return CLIENT_VERSION;
}

const char *tg_outcome_name(tg_outcome_t outcome)
{
    const char *name = outcome_name((unsigned)outcome);

    return name != NULL ? name : "unknown";
}

const char *tg_algorithm_name(tg_algorithm_t algorithm)
{
    const char *name = algorithm_name((unsigned)algorithm);

    return name != NULL ? name : "unknown";
}

int tg_algorithm_parse(const char *name, tg_algorithm_t *algorithm)
{
    const int number = name != NULL ? algorithm_parse(name, strlen(name)) : -1;

    if (number < 0)
        return TG_EINVALID;
    *algorithm = (tg_algorithm_t)number;
    return 0;
}

int tg_limit_parse(const char *rate, tg_limit_t *limit, char *error, size_t error_size)
{
    char sentence[QUANTITY_ERROR_LEN] = "rate: found NULL, expected COUNT/[N]UNIT";
    struct quantity_rate parsed;

    if (rate == NULL || quantity_parse_rate(rate, &parsed, sentence) != 0) {
        if (error != NULL && error_size != 0)
            (void)snprintf(error, error_size, "%s", sentence);
        return TG_EINVALID;
    }
    *limit = (tg_limit_t){
        .algorithm = TG_TOKEN_BUCKET, .count = parsed.count, .window_ns = parsed.window_ns};
    return 0;
}

tg_options_t tg_options(void)
{
    return (tg_options_t){.struct_size = sizeof(tg_options_t)};
}

/* Copied, for an initialiser clears what it does not name by an instruction that is slow to begin.
 */
static const tg_request_t one_token = {.cost = 1};

tg_request_t tg_request(const tg_attribute_t *attributes, size_t attribute_count)
{
    tg_request_t request = one_token;

    request.attributes = attributes;
    request.attribute_count = attribute_count;
    return request;
}

tg_request_t tg_request_inline(const char *key, const tg_limit_t *limit)
{
    tg_request_t request = one_token;

    request.key = key;
    request.key_len = TG_STRLEN;
    request.limit = *limit;
    return request;
}

/* ---- fork (API-3) -------------------------------------------------------------------------- */

static _Atomic unsigned forks; /* between this process and the first that opened a handle */
static pthread_once_t watched = PTHREAD_ONCE_INIT;
static int watch_failed;

static void count_fork(void)
{
    (void)atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    watch_failed = pthread_atfork(NULL, NULL, count_fork);
}

static inline bool is_inherited(const struct tg_client *client)
{
    return atomic_load_explicit(&forks, memory_order_relaxed) != client->config.forks;
}

/* ---- detail ---------------------------------------------------------------------------- */

void tg_error_detail(tg_client_t *client, char *out, size_t size)
{
    if (size == 0)
        return;
    if (is_inherited(client)) {
        (void)snprintf(
            out, size,
            "the handle was opened before a fork; expected one that this process opened");
        return;
    }
    client_detail_get(client, out, size);
}

/* ---- opening and closing --------------------------------------------------------------- */

static bool take_key(char out[41], const char *key)
{
    if (key == NULL || strlen(key) != 40)
        return false;
    memcpy(out, key, 41);
    return true;
}

static int take_options(struct tg_client *client, const tg_options_t *options, char *error,
                        size_t error_size)
{
    const char *program = options->agent != NULL ? options->agent : "";
    const bool any_key = options->curve_server_key != NULL || options->curve_public_key != NULL ||
                         options->curve_secret_key != NULL;

    client->config.timeout_ms =
        options->timeout_ms != 0 ? options->timeout_ms : TG_TIMEOUT_MS_DEFAULT;
    client->config.try_timeout_ms =
        options->try_timeout_ms != 0 ? options->try_timeout_ms : TG_TRY_TIMEOUT_MS_DEFAULT;
    client->config.in_flight_max =
        options->in_flight_max != 0 ? options->in_flight_max : TG_IN_FLIGHT_DEFAULT;
    client->config.on_failure = options->on_failure;
    client->config.no_leases = options->no_leases != 0;
    client->config.no_denials = options->no_denials != 0;
    if (client->config.timeout_ms < 1 || client->config.timeout_ms > TG_TIMEOUT_MS_MAX ||
        client->config.try_timeout_ms < 1 || client->config.try_timeout_ms > TG_TIMEOUT_MS_MAX ||
        client->config.in_flight_max > CLIENT_IN_FLIGHT_MAX ||
        (unsigned)client->config.on_failure > TG_FAIL_CLOSED ||
        strlen(program) > CLIENT_AGENT_MAX) {
        (void)snprintf(error, error_size,
                       "options: expected time-outs of 1 to %d ms, at most %d in flight, a known "
                       "on_failure and an agent of at most %d bytes",
                       TG_TIMEOUT_MS_MAX, CLIENT_IN_FLIGHT_MAX, CLIENT_AGENT_MAX);
        return TG_EINVALID;
    }
    if (any_key && (!take_key(client->config.keys.server, options->curve_server_key) ||
                    !take_key(client->config.keys.public, options->curve_public_key) ||
                    !take_key(client->config.keys.secret, options->curve_secret_key))) {
        (void)snprintf(error, error_size,
                       "options: expected all three CURVE keys of 40 characters, or none");
        return TG_EINVALID;
    }
    (void)snprintf(client->config.agent, sizeof client->config.agent, "%s",
                   program[0] != '\0' ? program : "libtidegate/" CLIENT_VERSION);
    return 0;
}

static int take_memory(struct tg_client *client)
{
    const struct allocator *heap = alloc_heap();

    client->config.items_max = client->config.in_flight_max + CLIENT_LEASE_CALLS_MAX;
    if (client_items_init(&client->driver.items, heap, client->config.items_max,
                          2 + CLIENT_LINKS_MAX) != 0 ||
        client_pending_init(&client->driver.pending, heap, client->config.items_max) != 0 ||
        client_route_init(&client->driver.route, heap) != 0 ||
        client_intern_init(&client->driver.intern, heap) != 0 ||
        client_hold_init(&client->shared.holds, heap) != 0 ||
        client_denial_init(&client->shared.denials, heap) != 0 ||
        client_heat_init(&client->driver.heat, heap) != 0)
        return TG_ENOMEM;
    ASSERT(client->config.items_max > client->config.in_flight_max); /* CLIENT-5 */
    client->driver.preferred = CLIENT_LINK_NONE;
    client->driver.wake_ns = INT64_MAX;
    client->driver.holds_next_ns = INT64_MAX;
    client->driver.ring_asked_ns = INT64_MIN / 2;
    client->driver.polls.stale = true;
    wire_checks_builder_init(&client->scratch.building.builder, client->scratch.values,
                             sizeof client->scratch.values);
    return 0;
}

static void give_back(struct tg_client *client)
{
    const struct allocator *heap = alloc_heap();

    if (client->shared.wake_fd >= 0)
        (void)close(client->shared.wake_fd);
    if (client->driver.context != NULL) {
        while (zmq_ctx_term(client->driver.context) != 0 && errno == EINTR) {
        }
    }
    client_heat_fini(&client->driver.heat);
    client_denial_fini(&client->shared.denials);
    client_hold_fini(&client->shared.holds);
    client_intern_fini(&client->driver.intern);
    client_route_fini(&client->driver.route);
    client_pending_fini(&client->driver.pending);
    client_items_fini(&client->driver.items);
    (void)pthread_cond_destroy(&client->shared.driver_changed);
    (void)pthread_mutex_destroy(&client->shared.lock);
    alloc_put(heap, client, sizeof *client);
}

/* The handle whose thread this is. By the model of a shared library to ask for it would be a call,
 * in each check; by this one it is a load, and the library takes 8 bytes of what the dynamic loader
 * keeps for those that are opened late. */
static _Thread_local const struct tg_client *own __attribute__((tls_model("initial-exec")));

/* Whether a callback calls. */
static inline bool inside(const struct tg_client *client)
{
    return own == client;
}

static void *run(void *client)
{
    own = client;
    client_loop(client);
    return NULL;
}

static int start_thread(struct tg_client *client)
{
    sigset_t all;
    sigset_t before;
    int status;

    (void)sigfillset(&all); /* inherited by the I/O threads: signals are the program's */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    client->driver.context = zmq_ctx_new();
    if (client->driver.context != NULL)
        (void)zmq_ctx_set(client->driver.context, ZMQ_MAX_SOCKETS, 4 * CLIENT_LINKS_MAX);
    status = client->driver.context != NULL
                 ? pthread_create(&client->shared.thread, NULL, run, client)
                 : ENOMEM;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status == 0 ? 0 : TG_ENOMEM;
}

static int take_random(void *out, size_t len)
{
    uint8_t *at = out;

    while (len != 0) {
        const ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno != EINTR)
            return TG_EIO;
        at += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int start(struct tg_client *client, const char *endpoints, const tg_options_t *options,
                 char *error, size_t error_size)
{
    int status = client_endpoints_parse(&client->config.endpoints, endpoints, error, error_size);

    if (status == 0)
        status = take_options(client, options, error, error_size);
    if (status != 0)
        return status;
    (void)snprintf(error, error_size, "out of memory, descriptors or threads");
    (void)pthread_once(&watched, watch_forks);
    client->config.forks = atomic_load_explicit(&forks, memory_order_relaxed);
    if (watch_failed != 0 || take_memory(client) != 0)
        return TG_ENOMEM;
    client->shared.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    while (client->config.session == 0) {
        if (take_random(&client->config.session, sizeof client->config.session) != 0)
            return TG_EIO;
    }
    if (take_random(&client->config.tag_key, sizeof client->config.tag_key) != 0)
        return TG_EIO;
    return client->shared.wake_fd >= 0 ? start_thread(client) : TG_EIO;
}

static void init_locks(struct tg_client *client)
{
    pthread_condattr_t attributes;

    (void)pthread_mutex_init(&client->shared.lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&client->shared.driver_changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

tg_client_t *tg_open(const char *endpoints, const tg_options_t *options)
{
    tg_options_t known = tg_options();
    struct tg_client *client = alloc_get(alloc_heap(), sizeof *client);
    char sentence[CLIENT_DETAIL_LEN] = "out of memory";
    int status = TG_ENOMEM;

    if (options != NULL)
        memcpy(&known, options,
               options->struct_size < sizeof known ? options->struct_size : sizeof known);
    if (client != NULL) {
        client->shared.wake_fd = -1;
        init_locks(client);
        status = start(client, endpoints, &known, sentence, sizeof sentence);
        if (status == 0)
            return client;
        give_back(client);
    }
    if (known.error != NULL && known.error_size != 0)
        (void)snprintf(known.error, known.error_size, "%s", sentence);
    return NULL;
}

void tg_close(tg_client_t **client)
{
    if (client == NULL || *client == NULL)
        return;
    if (is_inherited(*client)) {
        *client = NULL; /* its thread, which would have to end first, is not here */
        return;
    }
    (void)pthread_mutex_lock(&(*client)->shared.lock);
    (*client)->shared.closing = true;
    if ((*client)->shared.driver == CLIENT_DRIVER_NONE)
        (*client)->shared.driver = CLIENT_DRIVER_THREAD;
    (void)pthread_cond_signal(&(*client)->shared.driver_changed);
    (void)pthread_mutex_unlock(&(*client)->shared.lock);
    client_wake(*client);
    (void)pthread_join((*client)->shared.thread, NULL);
    give_back(*client);
    *client = NULL;
}

/* ---- calls ----------------------------------------------------------------------------- */

static struct client_call *call_new(struct tg_client *client, int timeout_ms)
{
    struct client_call *call = calloc(1, sizeof *call);

    if (call == NULL)
        return NULL;
    (void)sem_init(&call->completed, 0, 0);
    atomic_init(&call->owners, 1);
    call->operation = -1;
    call->deadline_ns =
        client_now_ns() +
        (int64_t)(timeout_ms != 0 ? timeout_ms : client->config.timeout_ms) * 1000000;
    return call;
}

/* Queues the call and sees to it that somebody drives. True if that is the caller itself. */
static bool enqueue(struct tg_client *client, struct client_call *call)
{
    bool drives = false;
    bool asleep = false;

    (void)pthread_mutex_lock(&client->shared.lock);
    asleep = client->shared.queue_first == NULL; /* else whoever came first has woken the driver */
    if (client->shared.queue_first == NULL)
        client->shared.queue_first = call;
    else
        client->shared.queue_last->next = call;
    ASSERT(call->next == NULL && !call->done);
    client->shared.queue_last = call;
    if (call->callback != NULL)
        (void)atomic_fetch_add(&client->shared.asynchronous, 1);
    if (client->shared.driver == CLIENT_DRIVER_NONE) {
        asleep = false; /* whoever starts to drive looks at the queue first */
        drives = call->callback == NULL && atomic_load(&client->shared.asynchronous) == 0;
        client->shared.driver = drives ? CLIENT_DRIVER_CALLER : CLIENT_DRIVER_THREAD;
        if (!drives)
            (void)pthread_cond_signal(&client->shared.driver_changed);
    }
    (void)pthread_mutex_unlock(&client->shared.lock);
    if (asleep)
        client_wake(client);
    return drives;
}

/* Waits for the call's end and gives its code, and its reply if it is an administrative one. */
static int await(struct client_call *call, tg_reply_t *reply)
{
    int code;

    while (sem_wait(&call->completed) != 0) {
        /* interrupted by a signal of the program */
    }
    ASSERT(call->done && call->undecided == 0); /* CLIENT-3 */
    code = call->code;
    if (reply != NULL)
        *reply = call->reply;
    client_call_drop(call);
    return code;
}

static int check_requests(struct tg_client *client, const tg_request_t *requests, size_t count,
                          int operation, const tg_decision_t *decisions)
{
    char error[CLIENT_REQUEST_ERROR_LEN] = "requests: found none, or no decisions";
    tg_limit_t valid_limit = {.count = 0};
    int status = TG_EINVALID;

    if (requests != NULL && decisions != NULL && count != 0 && count <= UINT32_MAX)
        status = 0;
    for (size_t i = 0; status == 0 && i < count; i++)
        status = client_request_check(&requests[i], operation, &valid_limit, error);
    if (status != 0)
        client_detail(client, "%s", error);
    return status;
}

/* Asks for what is not decided yet: all but `decided` of the requests. */
static int ask(struct tg_client *client, const tg_request_t *requests, size_t count, size_t decided,
               int operation, tg_decision_t *decisions, tg_callback_t callback, void *argument)
{
    struct client_call *call = call_new(client, 0);

    if (call == NULL)
        return TG_ENOMEM;
    ASSERT(decided < count); /* else it never comes here */
    call->requests = requests;
    call->decisions = decisions;
    call->count = count;
    call->undecided = count - decided;
    call->operation = operation;
    call->callback = callback;
    call->argument = argument;
    if (callback == NULL)
        atomic_store(&call->owners, 2);
    if (enqueue(client, call))
        client_drive(client, call);
    return callback == NULL ? await(call, NULL) : 0;
}

/* Fills every decision by `code`, for calls that are wrong, if only in having none. */
static int fail_all(const struct tg_client *client, tg_decision_t *decisions, size_t count,
                    int code)
{
    int result = code;

    for (size_t i = 0; i < count; i++)
        result = client_decision_fail(&decisions[i], code, client->config.on_failure);
    return result;
}

/* Fills what is not decided yet by `code`, for calls that never got as far as the queue. */
static int fail_rest(const struct tg_client *client, tg_decision_t *decisions, size_t count,
                     int code)
{
    int result = 0;

    for (size_t i = 0; i < count; i++) {
        if ((int)decisions[i].outcome == CLIENT_UNDECIDED)
            result = client_decision_fail(&decisions[i], code, client->config.on_failure);
    }
    return result;
}

static bool any_undecided(const tg_decision_t *decisions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((int)decisions[i].outcome == CLIENT_UNDECIDED)
            return true;
    }
    return false;
}

static int ask_and_wait(struct tg_client *client, const tg_request_t *requests, size_t count,
                        int operation, tg_decision_t *decisions)
{
    size_t decided = 0;
    int status = TG_EINVALID;

    if (!is_inherited(client) && !inside(client)) {
        if (requests != NULL && decisions != NULL)
            decided = client_local_decide(client, requests, count, operation, decisions);
        status = decided != 0 && decided == count
                     ? 0
                     : check_requests(client, requests, count, operation, decisions);
        if (decided != 0)
            client_local_end(client, requests, count, decisions, status == 0);
    }
    if (status != 0)
        return decisions != NULL ? fail_all(client, decisions, count, status) : status;
    if (decided != 0 && decided == count)
        return 0;
    if (!client_call_reserve(client, count)) {
        client_detail(client, "requests: found %zu in flight, expected at most %zu",
                      atomic_load(&client->shared.in_flight), client->config.in_flight_max);
        return fail_rest(client, decisions, count, TG_EBUSY);
    }
    status = ask(client, requests, count, decided, operation, decisions, NULL, NULL);
    if (status == TG_ENOMEM && any_undecided(decisions, count)) {
        client_call_unreserve(client, count);
        return fail_rest(client, decisions, count, TG_ENOMEM);
    }
    return status;
}

int tg_call(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, -1, decision);
}

int tg_check(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    if (request != NULL && decision != NULL && !is_inherited(client) && !inside(client) &&
        client_local_check(client, request, decision))
        return 0;
    return ask_and_wait(client, request, 1, TG_CHECK, decision);
}

int tg_peek(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_PEEK, decision);
}

int tg_hit(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_HIT, decision);
}

int tg_refund(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_REFUND, decision);
}

int tg_reset(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_RESET, decision);
}

int tg_lease(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_LEASE, decision);
}

int tg_release(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_RELEASE, decision);
}

int tg_renew(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_RENEW, decision);
}

int tg_reserve(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_RESERVE, decision);
}

int tg_commit(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_COMMIT, decision);
}

int tg_cancel(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision)
{
    return ask_and_wait(client, request, 1, TG_CANCEL, decision);
}

int tg_check_many(tg_client_t *client, const tg_request_t *requests, size_t count,
                  tg_decision_t *decisions)
{
    return ask_and_wait(client, requests, count, -1, decisions);
}

int tg_check_async(tg_client_t *client, const tg_request_t *requests, size_t count,
                   tg_decision_t *decisions, tg_callback_t callback, void *argument)
{
    int status;

    if (callback == NULL || is_inherited(client))
        return TG_EINVALID;
    if (!client_call_room(client, count))
        return TG_EBUSY; /* a flood costs no more than this look */
    status = check_requests(client, requests, count, -1, decisions);
    if (status != 0)
        return status;
    if (!client_call_reserve(client, count))
        return TG_EBUSY;
    for (size_t i = 0; i < count; i++)
        decisions[i].outcome = (tg_outcome_t)CLIENT_UNDECIDED;
    status = ask(client, requests, count, 0, -1, decisions, callback, argument);
    if (status != 0)
        client_call_unreserve(client, count);
    return status;
}

/* ---- administration -------------------------------------------------------------------- */

int tg_admin(tg_client_t *client, const char *command, const void *arguments, size_t arguments_len,
             int timeout_ms, tg_reply_t *reply)
{
    static const uint8_t empty_map[] = {0x80};
    struct client_call *call;

    *reply = (tg_reply_t){0};
    if (is_inherited(client))
        return TG_EINVALID;
    if (inside(client) || command == NULL || command[0] == '\0' ||
        strlen(command) > WIRE_NAME_MAX || timeout_ms < 0 || timeout_ms > TG_TIMEOUT_MS_MAX ||
        arguments_len > WIRE_MESSAGE_MAX - 256) {
        client_detail(client,
                      "command: expected a name of 1 to %d bytes, at most %d bytes of arguments, "
                      "at most %d ms, and no callback around it",
                      WIRE_NAME_MAX, WIRE_MESSAGE_MAX - 256, TG_TIMEOUT_MS_MAX);
        return TG_EINVALID;
    }
    if (!client_call_reserve(client, 1))
        return TG_EBUSY;
    call = call_new(client, timeout_ms);
    if (call == NULL) {
        client_call_unreserve(client, 1);
        return TG_ENOMEM;
    }
    call->command = command;
    call->arguments = arguments != NULL ? arguments : empty_map;
    call->arguments_len = arguments != NULL ? arguments_len : sizeof empty_map;
    atomic_store(&call->owners, 2);
    if (enqueue(client, call))
        client_drive(client, call);
    return await(call, reply);
}

int tg_report_load(tg_client_t *client, const char *pool, double load)
{
    enum { QUESTION_LEN = 512, POOL_LEN_MAX = 128 };
    uint8_t bytes[QUESTION_LEN];
    struct mp_writer question;
    tg_reply_t reply;

    if (is_inherited(client))
        return TG_EINVALID;
    if (pool == NULL || pool[0] == '\0' || strlen(pool) > POOL_LEN_MAX ||
        !(load >= 0 && load <= 1)) {
        client_detail(client, "load: found %g, expected 0 to 1, of a pool's name of 1 to %d bytes",
                      load, POOL_LEN_MAX);
        return TG_EINVALID;
    }
    mp_writer_init(&question, bytes, sizeof bytes);
    mp_put_map(&question, 2);
    mp_put_str(&question, "pool");
    mp_put_str(&question, pool);
    mp_put_str(&question, "load");
    mp_put_real(&question, load);
    const int code = tg_admin(client, "pools.report", bytes, question.len, 0, &reply);
    tg_reply_free(&reply);
    return code;
}

void tg_reply_free(tg_reply_t *reply)
{
    free(reply->data);
    *reply = (tg_reply_t){0};
}
