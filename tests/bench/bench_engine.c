/* bench_engine.c - decisions per second of the engine in process, one core (promise S1).
 *
 * Random checks over a working set of keys, in batches and one by one, for each algorithm;
 * medians of several rounds. Usage: bench_engine [keys] [rounds].
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/random.h"
#include "node/limit/engine/engine.h"

enum { BATCH = 64, ROUND_CHECKS = 2000000, ROUNDS_MAX = 31, VNODES = 4096 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Cheap, for what the driver does between two checks is measured with them. */
static struct hash128 key_id(uint64_t key)
{
    const uint64_t lo = hash_mix64(key + 1);
    return (struct hash128){lo, lo * 0x9e3779b97f4a7c15ULL};
}

static uint64_t random_key(struct random *random, uint64_t keys)
{
    return (uint64_t)((unsigned __int128)random_next(random) * keys >> 64);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bench {
    struct table *table;
    const struct limit *limit;
    uint64_t keys;
    struct random random;
    int64_t now_ns;
    uint64_t allowed;
    /* columns */
    struct hash128 ids[BATCH];
    uint32_t vnodes[BATCH];
    const struct limit *limits[BATCH];
    uint64_t costs[BATCH];
};

static void fill_row(struct bench *bench, size_t i, uint64_t key)
{
    bench->ids[i] = key_id(key);
    bench->vnodes[i] = (uint32_t)(bench->ids[i].hi >> 52);
    bench->limits[i] = bench->limit;
    bench->costs[i] = 1;
}

static void step(struct bench *bench)
{
    static uint8_t status[BATCH], allowed[BATCH];
    static uint64_t limit[BATCH], used[BATCH], remaining[BATCH], granted[BATCH];
    static int64_t reset[BATCH], retry[BATCH], delay[BATCH];
    struct limit_decisions out = {status,  allowed, limit, used,  remaining,
                                  granted, reset,   retry, delay, NULL};
    const struct limit_batch batch = {.count = BATCH,
                                      .ids = bench->ids,
                                      .vnodes = bench->vnodes,
                                      .limits = bench->limits,
                                      .costs = bench->costs};
    engine_step(bench->table, &batch, bench->now_ns, &out);
    for (size_t i = 0; i < BATCH; i++)
        bench->allowed += allowed[i];
}

static double round_batches(struct bench *bench)
{
    const double start = seconds();
    for (unsigned n = 0; n < ROUND_CHECKS / BATCH; n++) {
        bench->now_ns += 10000;
        for (size_t i = 0; i < BATCH; i++)
            fill_row(bench, i, random_key(&bench->random, bench->keys));
        step(bench);
    }
    return ROUND_CHECKS / (seconds() - start);
}

static double round_ones(struct bench *bench)
{
    const double start = seconds();
    for (unsigned n = 0; n < ROUND_CHECKS; n++) {
        struct limit_decision decision;
        const struct hash128 id = key_id(random_key(&bench->random, bench->keys));
        bench->now_ns += 150;
        engine_one(bench->table, id, (uint32_t)(id.hi >> 52), bench->limit, 1, OPERATION_CHECK, 0,
                   bench->now_ns, &decision);
        bench->allowed += decision.allowed;
    }
    return ROUND_CHECKS / (seconds() - start);
}

static double fill(struct bench *bench)
{
    const double start = seconds();
    for (uint64_t key = 0; key < bench->keys; key += BATCH) {
        for (size_t i = 0; i < BATCH; i++)
            fill_row(bench, i, key + i);
        step(bench);
    }
    return (double)bench->keys / (seconds() - start);
}

static void run(const struct limit *limit, uint64_t keys, unsigned rounds)
{
    struct bench bench = {.limit = limit, .keys = keys, .now_ns = 1700000000000000000};
    random_init(&bench.random, 1);
    if (table_new(&bench.table, alloc_heap(), (size_t)keys * 64 + (8u << 20), VNODES) != 0) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(bench.table, vnode, 7);
    double batches[ROUNDS_MAX];
    double ones[ROUNDS_MAX];
    const double inserts = fill(&bench);
    for (unsigned i = 0; i < rounds; i++) {
        batches[i] = round_batches(&bench);
        ones[i] = round_ones(&bench);
    }
    qsort(batches, rounds, sizeof *batches, compare);
    qsort(ones, rounds, sizeof *ones, compare);
    struct table_stats stats;
    table_stats(bench.table, &stats);
    printf("%-15s batches of %d: %5.1f M/s   one by one: %5.1f M/s   new keys: %5.1f M/s   "
           "%.1f B/key   allowed %.1f%%\n",
           algorithm_name(limit->algorithm), BATCH, batches[rounds / 2] * 1e-6,
           ones[rounds / 2] * 1e-6, inserts * 1e-6, (double)stats.bytes / (double)stats.used,
           100.0 * (double)bench.allowed / ((double)rounds * 2 * ROUND_CHECKS + (double)keys));
    table_free(&bench.table);
}

int main(int argc, char **argv)
{
    const uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5;
    if (rounds < 1 || rounds > ROUNDS_MAX || keys < BATCH) {
        fprintf(stderr, "usage: bench_engine [keys >= %d] [rounds 1..%d]\n", BATCH, ROUNDS_MAX);
        return 64;
    }
    for (unsigned algorithm = 0; algorithm <= ALGORITHM_SLIDING_WINDOW; algorithm++) {
        const struct limit limit = {
            .count = 60, .window_ns = 60000000000, .algorithm = (uint8_t)algorithm};
        run(&limit, keys, rounds);
    }
    return 0;
}
