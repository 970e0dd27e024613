/* load_client.c - through libtidegate, as any program would.
 *
 *   client   closed loop: `window` calls of `items` requests each are out at a time, and a callback
 *            asks the next
 *   flood    open loop: `rate` calls a second, answered or not. What the library refuses at once is
 *            `unsent`; a latency counts from when the call was due
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h" /* before tidegate.h, which else defines the codes itself */

#include "client/include/tidegate.h"
#include "tests/bench/load.h"

struct call {
    struct call *next; /* of those that are free, of a flood */
    struct caller *caller;
    int64_t sent_ns;
    tg_decision_t *decisions;
};

struct caller {
    const struct load_options *options;
    tg_client_t *client;
    tg_request_t *requests; /* options->draws */
    char *texts;
    atomic_uint next;             /* which block of requests */
    struct load_outcome *outcome; /* the library's thread alone writes to it */
    atomic_bool measured;
    atomic_bool ending;
    atomic_uint out;
    struct load_outcome *warm;
    _Atomic(struct call *) given_back; /* of a flood: by the library's thread */
    struct call *free;
};

static void ask(struct call *call);

static void count(struct caller *caller, const tg_decision_t *decisions, size_t count, int64_t ns)
{
    struct load_outcome *outcome = atomic_load(&caller->measured) ? caller->outcome : caller->warm;
    uint64_t decided = 0;
    for (size_t i = 0; i < count; i++) {
        const tg_decision_t *decision = &decisions[i];
        if (decision->error == TG_EBUSY || decision->outcome == TG_BUSY)
            outcome->busy++;
        else if (decision->error != 0 || decision->outcome == TG_ERROR)
            outcome->errors++;
        else if (decision->allowed)
            outcome->allowed++;
        else
            outcome->denied++;
        decided += decision->error == 0 && decision->outcome < TG_BUSY;
        outcome->degraded += decision->degraded != 0;
    }
    load_histogram_add(&outcome->latency, ns, decided);
    outcome->messages++;
}

static void answered(void *argument, int code, tg_decision_t *decisions, size_t number)
{
    struct call *call = argument;
    struct caller *caller = call->caller;
    (void)code; /* each decision has its own */
    count(caller, decisions, number, load_now_ns() - call->sent_ns);
    if (atomic_load(&caller->ending))
        (void)atomic_fetch_sub(&caller->out, 1);
    else
        ask(call);
}

/* The library's thread, but for the first calls. */
static void ask(struct call *call)
{
    struct caller *caller = call->caller;
    const uint32_t items = caller->options->items;
    const uint32_t blocks = caller->options->draws / items;
    const uint32_t first = atomic_fetch_add(&caller->next, 1) % blocks * items;
    call->sent_ns = load_now_ns();
    const int code = tg_check_async(caller->client, caller->requests + first, items,
                                    call->decisions, answered, call);
    if (code != 0)
        load_fail("tg_check_async: %s", tg_strerror(code));
}

static void flood_answered(void *argument, int code, tg_decision_t *decisions, size_t number)
{
    struct call *call = argument;
    struct caller *caller = call->caller;
    (void)code;
    count(caller, decisions, number, load_now_ns() - call->sent_ns);
    (void)atomic_fetch_sub(&caller->out, 1);
    call->next = atomic_load(&caller->given_back);
    while (!atomic_compare_exchange_weak(&caller->given_back, &call->next, call))
        continue;
}

static struct call *take_call(struct caller *caller)
{
    if (caller->free == NULL)
        caller->free = atomic_exchange(&caller->given_back, NULL);
    struct call *call = caller->free;
    if (call != NULL) {
        caller->free = call->next;
        return call;
    }
    call = load_memory(1, sizeof *call); /* no more than may be in flight are ever made */
    call->caller = caller;
    call->decisions = load_memory(caller->options->items, sizeof *call->decisions);
    return call;
}

static void flood_ask(struct caller *caller, int64_t due_ns)
{
    const uint32_t items = caller->options->items;
    const uint32_t blocks = caller->options->draws / items;
    const uint32_t first = atomic_fetch_add(&caller->next, 1) % blocks * items;
    struct call *call = take_call(caller);
    call->sent_ns = due_ns;
    (void)atomic_fetch_add(&caller->out, 1);
    const int code = tg_check_async(caller->client, caller->requests + first, items,
                                    call->decisions, flood_answered, call);
    caller->outcome->asked += items;
    if (code == 0)
        return;
    if (code != TG_EBUSY)
        load_fail("tg_check_async: %s", tg_strerror(code));
    (void)atomic_fetch_sub(&caller->out, 1);
    caller->outcome->unsent += items;
    call->next = caller->free;
    caller->free = call;
}

static tg_limit_t limit_of(const struct limit *limit)
{
    return (tg_limit_t){.algorithm = (tg_algorithm_t)limit->algorithm,
                        .count = limit->count,
                        .window_ns = limit->window_ns,
                        .burst = limit->burst};
}

static void make_requests(struct caller *caller)
{
    const struct load_options *options = caller->options;
    const tg_limit_t limit = limit_of(&options->limit);
    uint32_t *keys = load_draw_keys(options);
    caller->requests = load_memory(options->draws, sizeof *caller->requests);
    caller->texts = load_memory(options->draws, LOAD_KEY_LEN + 1);
    for (uint32_t i = 0; i < options->draws; i++) {
        char *text = caller->texts + (size_t)i * (LOAD_KEY_LEN + 1);
        load_key_text(keys[i], text);
        caller->requests[i] = tg_request_inline(text, &limit);
        caller->requests[i].key_len = LOAD_KEY_LEN;
    }
    free(keys);
}

static char *joined(const struct load_options *options)
{
    size_t len = 1;
    for (uint32_t e = 0; e < options->endpoint_count; e++)
        len += strlen(options->endpoints[e]) + 1;
    char *all = load_memory(len, 1);
    for (uint32_t e = 0; e < options->endpoint_count; e++) {
        if (e > 0)
            strncat(all, ",", len);
        strncat(all, options->endpoints[e], len);
    }
    return all;
}

static void wait_s(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&time, NULL);
}

static void run_calls(struct caller *caller, struct call *calls)
{
    const struct load_options *options = caller->options;
    atomic_store(&caller->out, options->window);
    for (uint32_t i = 0; i < options->window; i++) {
        calls[i].caller = caller;
        calls[i].decisions = load_memory(options->items, sizeof *calls[i].decisions);
    }
    for (uint32_t i = 0; i < options->window; i++)
        ask(&calls[i]);
    wait_s(options->warm_s);
    atomic_store(&caller->measured, true);
    load_measure_begin(options, caller->outcome);
    wait_s(options->seconds);
    load_measure_end(options, caller->outcome);
    atomic_store(&caller->measured, false);
    atomic_store(&caller->ending, true);
    while (atomic_load(&caller->out) > 0)
        wait_s(0.001);
    for (uint32_t i = 0; i < options->window; i++)
        free(calls[i].decisions);
}

static void free_calls(struct call *call)
{
    while (call != NULL) {
        struct call *next = call->next;
        free(call->decisions);
        free(call);
        call = next;
    }
}

static void run_flood(struct caller *caller)
{
    const struct load_options *options = caller->options;
    const int64_t start_ns = load_now_ns();
    const int64_t end_ns = start_ns + (int64_t)(options->seconds * 1e9);
    uint64_t asked = 0;
    atomic_store(&caller->measured, true);
    load_measure_begin(options, caller->outcome);
    for (int64_t now_ns = start_ns; now_ns < end_ns; now_ns = load_now_ns()) {
        const uint64_t due = (uint64_t)((double)(now_ns - start_ns) * options->rate / 1e9);
        for (; asked < due; asked++)
            flood_ask(caller, start_ns + (int64_t)((double)asked * 1e9 / options->rate));
        wait_s(0.0005);
    }
    load_measure_end(options, caller->outcome);
    atomic_store(&caller->measured, false);
    while (atomic_load(&caller->out) > 0)
        wait_s(0.001);
    free_calls(caller->free);
    free_calls(atomic_load(&caller->given_back));
}

static void run_client(const struct load_options *options, struct load_outcome *outcome, bool flood)
{
    struct caller *caller = load_memory(1, sizeof *caller);
    struct call *calls = load_memory(options->window, sizeof *calls);
    char *endpoints = joined(options);
    char error[256] = "";
    tg_options_t opening = tg_options();
    tg_decision_t decision;
    opening.agent = "load";
    opening.no_leases = 1; /* what travels is measured */
    opening.no_denials = 1;
    opening.error = error;
    opening.error_size = sizeof error;
    opening.in_flight_max = flood ? 0 : 2 * options->items * options->window; /* 0: as it comes */
    caller->options = options;
    caller->outcome = outcome;
    caller->warm = load_memory(1, sizeof *caller->warm);
    make_requests(caller);
    caller->client = tg_open(endpoints, &opening);
    if (caller->client == NULL)
        load_fail("tg_open: %s", error);
    const int code = tg_peek(caller->client, &caller->requests[0], &decision);
    if (code != 0)
        load_fail("tg_peek: %s", tg_strerror(code));
    if (flood)
        run_flood(caller);
    else
        run_calls(caller, calls);
    tg_close(&caller->client);
    free(caller->requests);
    free(caller->texts);
    free(caller->warm);
    free(caller);
    free(calls);
    free(endpoints);
}

void load_run_client(const struct load_options *options, struct load_outcome *outcome)
{
    run_client(options, outcome, false);
}

void load_run_flood(const struct load_options *options, struct load_outcome *outcome)
{
    run_client(options, outcome, true);
}
