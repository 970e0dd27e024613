/* sim.c - the deterministic simulator: whole clusters of the shipped code, in virtual time.
 *
 *   sim --seeds N         seeds 1 .. N
 *   sim --seed S [-v]...  one seed, with a trace
 *
 * A failure prints the seed, the commit and the command that replays it. The first seeds of a run
 * are run twice: the traces must be the same, to the bit.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

enum { TWICE_SEEDS = 3, CHECK_ALL_EVERY = 5000, CHECK_ALL_FLOODED = 100000, COMMIT_LEN = 256 };

struct options {
    uint64_t seeds;
    uint64_t seed; /* 0: all of 1 .. seeds */
    int trace;
};

/* ---- small things ---------------------------------------------------------------------------- */

struct random *sim_stream(struct sim *sim, enum sim_stream stream)
{
    return &sim->streams[stream];
}

bool sim_chance(struct sim *sim, enum sim_stream stream, uint32_t ppm)
{
    return ppm > 0 && random_below(sim_stream(sim, stream), 1000000) < ppm;
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    if (sim->failure[0] != '\0')
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sim->failure, sizeof sim->failure, format, arguments);
    va_end(arguments);
}

void sim_tell(const struct sim *sim, int level, const char *format, ...)
{
    if (sim->trace < level)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("%12.6f ", (double)sim->now_ns / (double)SIM_SEC);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

uint8_t *sim_copy(const void *bytes, size_t len)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len);
    ASSERT(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

/* ---- one seed -------------------------------------------------------------------------------- */

static void mix(struct sim *sim, uint64_t value)
{
    sim->hash = hash_mix64(sim->hash ^ value);
}

static void mix_event(struct sim *sim, const struct event *event)
{
    mix(sim, (uint64_t)event->at_ns);
    mix(sim, (uint64_t)event->kind << 24 | (uint64_t)event->node << 16 |
                 (uint64_t)event->shard << 8 | event->from);
    uint32_t at = 0;
    for (; at + 8 <= event->len && event->bytes != NULL; at += 8) {
        uint64_t word;
        memcpy(&word, event->bytes + at, sizeof word);
        mix(sim, word);
    }
    for (; at < event->len && event->bytes != NULL; at++)
        mix(sim, event->bytes[at]);
}

static void tell_event(const struct sim *sim, const struct event *event)
{
    static const char *const names[] = {"gossip", "peer",    "client", "reply",  "closed",
                                        "tick",   "control", "commit", "loaded", "listed",
                                        "turn",   "timeout", "start",  "plan"};
    if (event->kind != EVENT_PLAN)
        sim_tell(sim, 4, "%s n%u.%u from %u, %u bytes", names[event->kind], event->node,
                 event->shard, event->from, event->len);
}

static void step(struct sim *sim, const struct event *event)
{
    sim->now_ns = event->at_ns;
    sim->events++;
    mix_event(sim, event);
    tell_event(sim, event);
    switch (event->kind) {
    case EVENT_PLAN:
        plan_event(sim);
        break;
    case EVENT_REPLY:
    case EVENT_TURN:
    case EVENT_TIMEOUT:
        client_event(sim, event);
        break;
    default:
        node_event(sim, event);
        break;
    }
    /* It walks all tables, and those of a flooded seed are full. */
    const uint64_t every = sim->plan.flooded ? CHECK_ALL_FLOODED : CHECK_ALL_EVERY;
    if (sim->events % every == 0)
        check_all(sim);
}

static void set_up(struct sim *sim, uint64_t seed)
{
    sim->seed = seed;
    sim->allocator = alloc_heap();
    for (uint32_t i = 0; i < STREAM_COUNT; i++)
        random_init(&sim->streams[i], hash_mix64(seed * STREAM_COUNT + i));
    struct random *random = sim_stream(sim, STREAM_PLAN);
    sim->node_count = 5 + (random_below(random, 8) == 0 ? 2 : 0);
    sim->vnodes = random_below(random, 4) == 0 ? SIM_VNODES_MAX : 64;
    sim->replicas = random_below(random, 5) == 0 ? 2 : 3;
    for (uint32_t i = 0; i < sizeof sim->identity.cluster_id; i++)
        sim->identity.cluster_id[i] = (uint8_t)random_next(random);
    for (uint32_t i = 0; i < HASH_KEY_LEN; i++) {
        sim->identity.secret.bytes[i] = (uint8_t)random_next(random);
        sim->identity.route_key.bytes[i] = (uint8_t)random_next(random);
    }
    sim->identity.vnodes = sim->vnodes;
    sim->identity.replicas = sim->replicas;
    const int error = effects_init(&sim->effects, sim->allocator);
    ASSERT(error == 0);
    for (uint8_t i = 0; i < sim->node_count; i++)
        node_init(sim, i, random_next(random) | 1);
    net_init(sim);
    client_init(sim);
    plan_init(sim);
}

static void add_up(struct sim *sim)
{
    struct coverage *coverage = sim->coverage;
    coverage->seeds++;
    coverage->events += sim->events;
    coverage->virtual_ms += (uint64_t)(sim->now_ns / SIM_MS);
    coverage->sent += sim->net.sent;
    coverage->lost += sim->net.lost;
    coverage->repeated += sim->net.repeated;
    coverage->late += sim->net.late;
    coverage->reordered += sim->net.reordered;
    coverage->full += sim->net.full;
    coverage->cut_frames += sim->net.cut;
}

/* Runs one seed. Returns the hash of its trace; *failed gets the reason, "" if none. */
static uint64_t run_seed(uint64_t seed, int trace, struct coverage *coverage,
                         char failed[sizeof((struct sim *)0)->failure])
{
    struct sim *sim = calloc(1, sizeof *sim);
    struct event event;
    ASSERT(sim != NULL);
    sim->coverage = coverage;
    sim->trace = trace;
    set_up(sim, seed);
    while (!sim->plan.done && sim->failure[0] == '\0' && queue_pop(&sim->queue, &event)) {
        step(sim, &event);
        free(event.bytes);
    }
    check_all(sim);
    for (uint32_t i = 0; i < sim->node_count; i++)
        node_fini(sim, &sim->nodes[i]);
    add_up(sim);
    memcpy(failed, sim->failure, sizeof sim->failure);
    const uint64_t hash = sim->hash;
    sim_tell(sim, 1, "end, %llu events, trace %016llx", (unsigned long long)sim->events,
             (unsigned long long)hash);
    client_fini(sim);
    queue_fini(&sim->queue);
    effects_fini(&sim->effects);
    free(sim->writes);
    free(sim->headers);
    free(sim->bytes);
    free(sim);
    return hash;
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool read_line(const char *path, char *out, size_t capacity)
{
    FILE *file = fopen(path, "r");
    out[0] = '\0';
    if (file == NULL)
        return false;
    if (fgets(out, (int)capacity, file) == NULL)
        out[0] = '\0';
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

/* The commit that is checked out here, as far as .git tells it plainly. */
static const char *commit(char *out, size_t capacity)
{
    char path[COMMIT_LEN];
    if (!read_line(".git/HEAD", out, capacity))
        return "unknown";
    if (strncmp(out, "ref: ", 5) == 0) {
        snprintf(path, sizeof path, ".git/%s", out + 5);
        if (!read_line(path, out, capacity))
            return "unknown";
    }
    return out;
}

static bool run_one(const char *program, uint64_t seed, int trace, bool twice,
                    struct coverage *coverage)
{
    char failed[sizeof((struct sim *)0)->failure];
    char again[sizeof failed];
    char text[COMMIT_LEN];
    const uint64_t hash = run_seed(seed, trace, coverage, failed);
    if (twice && failed[0] == '\0') {
        struct coverage ignored = {0};
        if (run_seed(seed, 0, &ignored, again) != hash)
            snprintf(failed, sizeof failed, "two runs differ: the simulation is not deterministic");
    }
    if (failed[0] == '\0')
        return true;
    fflush(stdout);
    printf("seed %llu failed: %s\n  commit %s; replay: %s --seed %llu -v\n",
           (unsigned long long)seed, failed, commit(text, sizeof text), program,
           (unsigned long long)seed);
    return false;
}

static void print_coverage(const struct coverage *c, double seconds)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"events", c->events},
        {"events a second", (uint64_t)((double)c->events / (seconds > 0 ? seconds : 1))},
        {"virtual seconds", c->virtual_ms / 1000},
        {"joins", c->joins},
        {"crashes", c->crashes},
        {"restarts", c->restarts},
        {"orderly stops", c->stops},
        {"blackouts", c->blackouts},
        {"floods", c->floods},
        {"cuts", c->cuts},
        {"pauses", c->pauses},
        {"terms opened", c->terms},
        {"take-overs", c->takeovers},
        {"stepped down", c->stepped_down},
        {"passes", c->passes},
        {"recoveries", c->recoveries},
        {"pulls", c->pulls},
        {"resyncs", c->resyncs},
        {"disk copies", c->disk_copies},
        {"stalls", c->stalls},
        {"checks decided", c->checks},
        {"checks admitted", c->admitted},
        {"forwards", c->forwarded},
        {"moved", c->moved},
        {"client retries", c->retries},
        {"retries recalled", c->recalled},
        {"undone", c->undone},
        {"spilled slots", c->evicted},
        {"forgotten slots", c->forgotten},
        {"loads", c->loads},
        {"commits", c->commits},
        {"commits failed", c->commits_failed},
        {"frames", c->sent},
        {"frames lost", c->lost},
        {"frames repeated", c->repeated},
        {"frames late", c->late},
        {"frames reordered", c->reordered},
        {"frames cut off", c->cut_frames},
        {"frames refused", c->full},
        {"excess by crashes", c->excess},
        {"bound of that", c->excess_bound},
        {"longest settling, ms", (uint64_t)(c->settle_ns_max / SIM_MS)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("  %-22s %12llu\n", rows[i].name, (unsigned long long)rows[i].value);
}

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "-v") == 0) {
            options->trace++;
            continue;
        }
        const bool seeds = strcmp(argv[i], "--seeds") == 0;
        if ((!seeds && strcmp(argv[i], "--seed") != 0) || i + 1 == argc)
            return false;
        const uint64_t value = strtoull(argv[++i], &end, 10);
        if (*end != '\0' || value == 0)
            return false;
        if (seeds)
            options->seeds = value;
        else
            options->seed = value;
    }
    return options->seeds != 0 || options->seed != 0;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct coverage coverage = {0};
    uint64_t passed = 0;
    uint64_t failed = 0;
    if (!parse(argc, argv, &options)) {
        fprintf(stderr, "usage: %s --seeds N | --seed S [-v]...\n", argv[0]);
        return 2;
    }
    const uint64_t first = options.seed != 0 ? options.seed : 1;
    const uint64_t last = options.seed != 0 ? options.seed : options.seeds;
    struct timespec begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t seed = first; seed <= last; seed++) {
        const bool ok = run_one(argv[0], seed, options.trace,
                                options.seed == 0 && seed - first < TWICE_SEEDS, &coverage);
        passed += ok;
        failed += !ok;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    print_coverage(&coverage, (double)(end.tv_sec - begin.tv_sec) +
                                  (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed == 0 ? 0 : 1;
}
