/* load.c - the load generator of the benchmarks: one mode a run, its figures as JSON.
 *
 *   load MODE NAME=VALUE ...
 *
 *   echo-server  answers whatever comes with itself; never ends
 *   echo         one message of `bytes` after the other to that
 *   closed       `window` messages of `items` checks on each of `connections` to each endpoint
 *   client       the same through libtidegate: `window` calls at a time, from one handle
 *   open         `rate` messages a second, answered or not
 *   flood        the same through libtidegate: `rate` calls of `items` requests
 *
 * Names: endpoints=tcp://H:P,... seconds= warm= items= window= connections= targets= (how many of
 * the endpoints are asked; all of them tell who decides) keys= first_key= draws=
 * draw=uniform|zipf|one route=first|decider|other limit=COUNT/WINDOW names=a,b (attributes in place
 * of the limit) rate= timeout_ms= bytes= pids=P,... (whose use of the processor is told). Exit
 * status: 0, 2 the node cannot be asked, 64 bad arguments.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/quantity.h"
#include "tests/bench/load.h"

int64_t load_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void load_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("load: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    _exit(2);
}

void *load_memory(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL)
        load_fail("no memory");
    return memory;
}

/* ---- the processor --------------------------------------------------------------------------- */

static double cpu_of(int pid)
{
    char path[64];
    char text[1024];
    unsigned long user = 0;
    unsigned long kernel = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        load_fail("pids: no process %d", pid);
    const size_t len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    (void)fclose(file);
    const char *rest = strrchr(text, ')');
    if (rest == NULL || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                               &user, &kernel) != 2)
        load_fail("%s: expected fields of proc(5)", path);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

double load_cpu_s(const struct load_options *options)
{
    double sum = 0;
    for (uint32_t i = 0; i < options->pid_count; i++)
        sum += cpu_of(options->pids[i]);
    return sum;
}

static double own_cpu_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

void load_measure_begin(const struct load_options *options, struct load_outcome *outcome)
{
    outcome->nodes_cpu_s = -load_cpu_s(options);
    outcome->own_cpu_s = -own_cpu_s();
    outcome->seconds = -(double)load_now_ns() * 1e-9;
}

void load_measure_end(const struct load_options *options, struct load_outcome *outcome)
{
    outcome->seconds += (double)load_now_ns() * 1e-9;
    outcome->own_cpu_s += own_cpu_s();
    outcome->nodes_cpu_s += load_cpu_s(options);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static _Noreturn void refuse(const char *name, const char *expected)
{
    (void)fprintf(stderr, "load: %s: expected %s\n", name, expected);
    exit(64);
}

static double number(const char *name, const char *text, double least, double most)
{
    char *end = NULL;
    char expected[64];
    const double value = strtod(text, &end);
    (void)snprintf(expected, sizeof expected, "a number from %g to %g", least, most);
    if (end == text || *end != '\0' || !(value >= least && value <= most))
        refuse(name, expected);
    return value;
}

static uint32_t whole(const char *name, const char *text, uint32_t least, uint32_t most)
{
    return (uint32_t)number(name, text, least, most);
}

/* Cuts `text` at its commas. */
static uint32_t list(const char *name, char *text, const char **out, uint32_t most)
{
    uint32_t count = 0;
    while (text != NULL) {
        if (count == most)
            refuse(name, "fewer");
        out[count++] = strsep(&text, ",");
    }
    return count;
}

static int choice(const char *name, const char *text, const char *const *words, const char *all)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    refuse(name, all);
}

static void read_limit(struct load_options *options, const char *text)
{
    struct quantity_rate rate;
    char error[QUANTITY_ERROR_LEN];
    if (quantity_parse_rate(text, &rate, error) != 0)
        refuse("limit", error);
    options->limit = (struct limit){.count = rate.count, .window_ns = rate.window_ns};
}

static void read_pids(struct load_options *options, char *text)
{
    const char *found[LOAD_PIDS_MAX];
    options->pid_count = list("pids", text, found, LOAD_PIDS_MAX);
    for (uint32_t i = 0; i < options->pid_count; i++)
        options->pids[i] = (int)whole("pids", found[i], 1, INT32_MAX);
}

static bool read_text(struct load_options *options, const char *name, char *value)
{
    static const char *const draws[] = {"uniform", "zipf", "one", NULL};
    static const char *const routes[] = {"first", "decider", "other", NULL};
    if (strcmp(name, "endpoints") == 0)
        options->endpoint_count = list(name, value, options->endpoints, LOAD_ENDPOINTS_MAX);
    else if (strcmp(name, "names") == 0)
        options->name_count = list(name, value, options->names, LOAD_NAMES_MAX);
    else if (strcmp(name, "pids") == 0)
        read_pids(options, value);
    else if (strcmp(name, "limit") == 0)
        read_limit(options, value);
    else if (strcmp(name, "draw") == 0)
        options->draw = (enum load_draw)choice(name, value, draws, "uniform, zipf or one");
    else if (strcmp(name, "route") == 0)
        options->route = (enum load_route)choice(name, value, routes, "first, decider or other");
    else
        return false;
    return true;
}

static void read_one(struct load_options *options, char *argument)
{
    char *value = argument;
    const char *name = strsep(&value, "=");
    const struct {
        const char *name;
        uint32_t *field;
        uint32_t most;
    } numbers[] = {{"items", &options->items, WIRE_CHECKS_MAX},
                   {"window", &options->window, LOAD_WINDOW_MAX / 4},
                   {"connections", &options->connections, LOAD_CONNECTIONS_MAX},
                   {"targets", &options->targets, LOAD_ENDPOINTS_MAX},
                   {"keys", &options->keys, LOAD_KEYS_MAX},
                   {"first_key", &options->first_key, LOAD_KEYS_MAX},
                   {"draws", &options->draws, LOAD_KEYS_MAX},
                   {"timeout_ms", &options->timeout_ms, WIRE_TIMEOUT_MS_MAX},
                   {"bytes", &options->bytes, WIRE_MESSAGE_MAX}};
    if (value == NULL)
        refuse(name, "NAME=VALUE");
    if (read_text(options, name, value))
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, name) == 0) {
            *numbers[i].field = whole(name, value, name[0] == 'f' ? 0 : 1, numbers[i].most);
            return;
        }
    if (strcmp(name, "seconds") == 0)
        options->seconds = number(name, value, 0.01, 3600);
    else if (strcmp(name, "warm") == 0)
        options->warm_s = number(name, value, 0, 60);
    else if (strcmp(name, "rate") == 0)
        options->rate = number(name, value, 1, 1e8);
    else
        refuse(name, "a name that `load` without arguments lists");
}

static void read_options(struct load_options *options, int argc, char **argv)
{
    *options = (struct load_options){.mode = argv[1],
                                     .seconds = 1,
                                     .warm_s = 0.3,
                                     .items = 1,
                                     .window = 1,
                                     .connections = 1,
                                     .keys = 1000000,
                                     .rate = 1000,
                                     .timeout_ms = 10000,
                                     .bytes = 100};
    read_limit(options, "100000/day"); /* a key is asked for again before it is as new */
    for (int i = 2; i < argc; i++)
        read_one(options, argv[i]);
    if (options->endpoint_count == 0)
        refuse("endpoints", "one at least");
    if (options->draws == 0)
        options->draws = options->keys > options->items ? options->keys : options->items;
    if ((uint64_t)options->connections * options->endpoint_count > LOAD_CONNECTIONS_MAX)
        refuse("connections", "256 at most to all endpoints together");
}

/* ---- what came of it ------------------------------------------------------------------------- */

static void print_latency(const char *name, const struct load_histogram *histogram)
{
    printf(",\"%s\":{\"p50\":%.3f,\"p99\":%.3f,\"p999\":%.3f,\"max\":%.3f,\"buckets\":", name,
           load_histogram_at(histogram, 0.5), load_histogram_at(histogram, 0.99),
           load_histogram_at(histogram, 0.999), load_histogram_at(histogram, 1));
    load_histogram_print(histogram);
    (void)putchar('}');
}

static void print_outcome(const struct load_outcome *outcome)
{
    printf("{\"seconds\":%.6f,\"messages\":%" PRIu64 ",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64,
           outcome->seconds, outcome->messages, outcome->allowed, outcome->denied);
    printf(",\"degraded\":%" PRIu64 ",\"busy\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"lost\":%" PRIu64
           ",\"unsent\":%" PRIu64 ",\"asked\":%" PRIu64,
           outcome->degraded, outcome->busy, outcome->errors, outcome->lost, outcome->unsent,
           outcome->asked);
    printf(",\"decisions_per_s\":%.1f,\"nodes_cpu_s\":%.3f,\"own_cpu_s\":%.3f",
           (double)(outcome->allowed + outcome->denied) / outcome->seconds, outcome->nodes_cpu_s,
           outcome->own_cpu_s);
    print_latency("latency_us", &outcome->latency);
    print_latency("busy_latency_us", &outcome->busy_latency);
    (void)puts("}");
}

static void run(const struct load_options *options, struct load_outcome *outcome)
{
    void *context = zmq_ctx_new();
    if (strcmp(options->mode, "echo-server") == 0)
        load_serve_echo(context, options);
    else if (strcmp(options->mode, "echo") == 0)
        load_run_echo(context, options, outcome);
    else if (strcmp(options->mode, "closed") == 0)
        load_run_closed(context, options, outcome);
    else if (strcmp(options->mode, "open") == 0)
        load_run_open(context, options, outcome);
    else if (strcmp(options->mode, "client") == 0)
        load_run_client(options, outcome);
    else if (strcmp(options->mode, "flood") == 0)
        load_run_flood(options, outcome);
    else
        refuse(options->mode, "echo-server, echo, closed, client, open or flood");
    (void)zmq_ctx_term(context);
}

int main(int argc, char **argv)
{
    struct load_options options;
    struct load_outcome *outcome = load_memory(1, sizeof *outcome);
    if (argc < 2) {
        (void)fprintf(stderr, "usage: load MODE NAME=VALUE ...; see tests/bench/load.c\n");
        return 64;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* who asked is gone: nobody reads the figures */
    read_options(&options, argc, argv);
    run(&options, outcome);
    print_outcome(outcome);
    free(outcome);
    return 0;
}
