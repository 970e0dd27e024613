/* sim.c - one seed: a whole cluster of the shipped code, set up, run, judged and taken down. */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/global.h"
#include "tests/sim/phase.h"

/* How often all invariants of all cores are looked at: they walk all tables, and those of a flooded
 * seed are full. */
enum { CHECK_ALL_EVERY = 2000, CHECK_ALL_FLOODED = 50000 };

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
    if (sim->options.trace < level)
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

/* ---- the trace ------------------------------------------------------------------------------- */

static void mix(struct sim *sim, uint64_t value)
{
    sim->hash = hash_mix64(sim->hash ^ value);
}

static void mix_event(struct sim *sim, const struct event *event)
{
    mix(sim, (uint64_t)event->at_ns);
    mix(sim, (uint64_t)event->kind << 32 | (uint64_t)event->lane << 24 |
                 (uint64_t)event->node << 16 | (uint64_t)event->shard << 8 | event->from);
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
    static const char *const names[EVENT_KIND_END] = {
        "gossip",  "peer",   "client",    "reply",  "closed", "tick",
        "control", "commit", "journaled", "loaded", "listed", "turn",
        "timeout", "start",  "connect",   "break",  "plan"};
    if (event->kind != EVENT_PLAN)
        sim_tell(sim, 4, "%s n%u.%u from %u, %u bytes", names[event->kind], event->node,
                 event->shard, event->from, event->len);
}

/* ---- one event ------------------------------------------------------------------------------- */

/* Returns whether anything happened: an event that came too late, or that only makes the simulation
 * go on, is not one of the run's. */
static bool carry_out(struct sim *sim, const struct event *event)
{
    switch (event->kind) {
    case EVENT_PLAN:
        phase_event(sim);
        return false;
    case EVENT_CONNECT:
    case EVENT_BREAK:
        net_event(sim, event);
        return false;
    case EVENT_REPLY:
    case EVENT_TURN:
    case EVENT_TIMEOUT:
        return client_event(sim, event);
    default:
        return node_event(sim, event);
    }
}

static void step(struct sim *sim, const struct event *event)
{
    sim->now_ns = event->at_ns;
    tell_event(sim, event);
    if (!carry_out(sim, event))
        return;
    sim->events++;
    mix_event(sim, event);
    const uint64_t every = sim->flooded ? CHECK_ALL_FLOODED : CHECK_ALL_EVERY;
    if (sim->events % every == 0)
        check_all(sim);
}

/* ---- one seed -------------------------------------------------------------------------------- */

static void set_up(struct sim *sim, const struct options *options)
{
    sim->options = *options;
    sim->allocator = alloc_heap();
    for (uint32_t i = 0; i < STREAM_COUNT; i++)
        random_init(&sim->streams[i], i < STREAM_OLD_COUNT
                                          ? hash_mix64(options->seed * STREAM_OLD_COUNT + i)
                                          : hash_mix64(hash_mix64(options->seed) ^ i));
    struct random *random = sim_stream(sim, STREAM_PLAN);
    sim->node_count = options->nodes + options->spare;
    if (sim->node_count > SIM_NODES_MAX)
        sim->node_count = SIM_NODES_MAX;
    sim->vnodes = options->vnodes;
    for (uint32_t i = 0; i < sizeof sim->identity.cluster_id; i++)
        sim->identity.cluster_id[i] = (uint8_t)random_next(random);
    for (uint32_t i = 0; i < HASH_KEY_LEN; i++) {
        sim->identity.secret.bytes[i] = (uint8_t)random_next(random);
        sim->identity.route_key.bytes[i] = (uint8_t)random_next(random);
    }
    sim->identity.vnodes = sim->vnodes;
    sim->identity.replicas = options->replicas;
    const int error = effects_init(&sim->effects, sim->allocator);
    ASSERT(error == 0);
    for (uint8_t i = 0; i < sim->node_count; i++)
        node_init(sim, i, random_next(random) | 1);
    sim->all_count = sim->node_count + (options->regions - 1) * SIM_REMOTE;
    for (uint32_t i = sim->node_count; i < sim->all_count; i++)
        node_init_remote(sim, (uint8_t)i);
    net_init(sim);
    client_init(sim);
    phase_init(sim);
}

static void take_down(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        node_fini(sim, &sim->nodes[i]);
    sim->coverage.seeds = 1;
    sim->coverage.events = sim->events;
    sim->coverage.virtual_ms = (uint64_t)(sim->now_ns / SIM_MS);
    client_fini(sim);
    net_fini(sim);
    queue_fini(&sim->queue);
    effects_fini(&sim->effects);
    free(sim->journal.records);
    free(sim->journal.bytes);
}

void sim_run(const struct options *options, struct sim_result *result)
{
    struct sim *sim = calloc(1, sizeof *sim);
    struct event event;
    ASSERT(sim != NULL);
    set_up(sim, options);
    check_merge_begin(sim);
    while (!sim->plan.done && sim->failure[0] == '\0' && queue_pop(&sim->queue, &event)) {
        step(sim, &event);
        free(event.bytes);
        if (options->until != 0 && sim->events >= options->until)
            break;
    }
    check_all(sim);
    check_merge_end();
    check_global_end();
    result->seed = options->seed;
    result->hash = sim->hash;
    result->events = sim->events;
    result->phases = sim->plan.phase_next;
    memcpy(result->failure, sim->failure, sizeof result->failure);
    sim_tell(sim, 1, "end, %llu events, trace %016llx", (unsigned long long)sim->events,
             (unsigned long long)sim->hash);
    take_down(sim);
    result->coverage = sim->coverage;
    free(sim);
}
