/* bench_lease.c - decisions a second of one thread on a hot key under a client's lease.
 *
 *   bench_lease [ENDPOINT [SECONDS]]
 *
 * Without an endpoint: what a decision costs in process, where everything is granted: the tag of
 * the request, the take, and both. With one: tg_check and tg_check_many on a node, from when the
 * key is held, renewals included; then a limit that is asked for more than it has, of which is told
 * how many tokens were admitted beyond what its algorithm allows in the time that passed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/cache/hold.h"

enum { IN_PROCESS = 10000000, BATCH = 64 };
#define WARM_NS      INT64_C(5000000000)
#define WARM_TURN_NS INT64_C(1000000) /* so long that something is asked */

static const tg_limit_t unbounded = {.count = 1000000000, .window_ns = 1000000000};
static const tg_limit_t bounded = {.count = 1000000, .window_ns = 1000000000};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void tell(const char *what, int64_t start_ns, uint64_t count)
{
    const double ns = (double)(now_ns() - start_ns) / (double)count;

    printf("%-34s %8.2f ns  %8.2f M/s\n", what, ns, 1e3 / ns);
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_lease: %s\n", what);
    exit(1);
}

static void measure_in_process(void)
{
    static struct client_hold_table table;
    static struct client_tag_key key;
    const tg_attribute_t who[] = {{"api", "/user/v1/login", TG_STRLEN}, {"ip", "192.0.2.77", 10}};
    const tg_request_t request = tg_request(who, 2);
    const tg_decision_t grant = {.allowed = 1, .granted = 4 * IN_PROCESS};
    struct client_hold_taken taken;
    struct client_hold *hold;
    struct client_tag tag;
    tg_decision_t decision;
    uint64_t sum = 0;
    int64_t start_ns;

    for (size_t i = 0; i < sizeof key.word / sizeof key.word[0]; i++)
        key.word[i] = (uint64_t)i * 0x9e3779b97f4a7c15;
    if (client_hold_init(&table, alloc_heap()) != 0 || !client_tag_of(&key, &request, &tag))
        fail("no memory");
    hold = client_hold_claim(&table, &tag, &request);
    (void)client_hold_ask_first(hold, grant.granted, now_ns());
    client_hold_granted(hold, 1, 1000000, &grant, now_ns());
    start_ns = now_ns();
    for (int i = 0; i < IN_PROCESS; i++) {
        (void)client_tag_of(&key, &request, &tag);
        sum += tag.place;
    }
    tell("tag of two attributes", start_ns, IN_PROCESS);
    start_ns = now_ns();
    for (int i = 0; i < IN_PROCESS; i++)
        sum += client_hold_take(&table, &tag, 1, &decision, &taken) ? decision.remaining : 0;
    tell("take", start_ns, IN_PROCESS);
    start_ns = now_ns();
    for (int i = 0; i < IN_PROCESS; i++) {
        (void)client_tag_of(&key, &request, &tag);
        sum += client_hold_take(&table, &tag, 1, &decision, &taken) ? decision.remaining : 0;
    }
    tell("tag and take", start_ns, IN_PROCESS);
    if (sum == 0)
        fail("nothing was taken");
    client_hold_fini(&table);
}

struct outcome {
    uint64_t decisions;
    uint64_t allowed;
    uint64_t local;
};

/* Asks about one key, `batch` at a time, for so long. */
static struct outcome ask(tg_client_t *client, const char *key, const tg_limit_t *limit,
                          size_t batch, int64_t lasts_ns)
{
    static tg_request_t requests[BATCH];
    static tg_decision_t decisions[BATCH];
    const int64_t end_ns = now_ns() + lasts_ns;
    struct outcome outcome = {0, 0, 0};

    for (size_t i = 0; i < batch; i++) {
        requests[i] = tg_request_inline(key, limit);
        requests[i].key_len = strlen(key);
    }
    for (uint64_t turn = 0; turn % 256 != 0 || now_ns() < end_ns; turn++) {
        const int code = batch == 1 ? tg_check(client, requests, decisions)
                                    : tg_check_many(client, requests, batch, decisions);

        if (code != 0)
            fail(tg_strerror(code));
        outcome.decisions += batch;
        for (size_t i = 0; i < batch; i++) {
            outcome.allowed += decisions[i].allowed != 0;
            outcome.local += decisions[i].local != 0;
        }
    }
    return outcome;
}

/* Until the key is held, for some seconds at most: a node that has just started grants nothing. */
static void warm_up(tg_client_t *client, const char *key, const tg_limit_t *limit)
{
    const int64_t end_ns = now_ns() + WARM_NS;

    while (ask(client, key, limit, BATCH, WARM_TURN_NS).local == 0 && now_ns() < end_ns) {
    }
}

static void measure_rate(tg_client_t *client, const char *what, const char *key, size_t batch,
                         int64_t lasts_ns)
{
    struct outcome outcome;
    int64_t start_ns;

    warm_up(client, key, &unbounded);
    start_ns = now_ns();
    outcome = ask(client, key, &unbounded, batch, lasts_ns);
    tell(what, start_ns, outcome.decisions);
    printf("%-34s %8.4f %%\n", "  of them asked for",
           100.0 * (double)(outcome.decisions - outcome.local) / (double)outcome.decisions);
}

static void measure_bound(tg_client_t *client, const char *key, int64_t lasts_ns)
{
    const int64_t start_ns = now_ns();
    const struct outcome outcome = ask(client, key, &bounded, BATCH, lasts_ns);
    const double passed_s = (double)(now_ns() - start_ns) / 1e9;
    const double most = (double)bounded.count * (1 + passed_s);

    printf("%-34s %10" PRIu64 " of %.0f: %.0f too many\n", "admitted of 1 M/s, bucket 1 M",
           outcome.allowed, most,
           (double)outcome.allowed > most ? (double)outcome.allowed - most : 0);
}

int main(int argc, char **argv)
{
    const int64_t lasts_ns = (int64_t)((argc > 2 ? strtod(argv[2], NULL) : 1.0) * 1e9);
    char error[256] = "";
    char keys[3][32];
    tg_options_t options = tg_options();
    tg_client_t *client;

    if (argc < 2) {
        measure_in_process();
        return 0;
    }
    options.error = error;
    options.error_size = sizeof error;
    client = tg_open(argv[1], &options);
    if (client == NULL)
        fail(error);
    for (size_t i = 0; i < 3; i++) /* new ones each time */
        (void)snprintf(keys[i], sizeof keys[i], "hot %zu %" PRId64, i, now_ns());
    measure_rate(client, "one by one", keys[0], 1, lasts_ns);
    measure_rate(client, "batches of 64", keys[1], BATCH, lasts_ns);
    measure_bound(client, keys[2], lasts_ns);
    tg_close(&client);
    return 0;
}
