/* bench_memory.c - memory of one key of each algorithm, beside what is promised (promise S9).
 *
 * A table is filled, in a process of its own, and each key must be there then with all that it has
 * consumed. States that fit a slot get a table of exactly as many bytes as the promise allows for
 * all keys, everything included; those with blocks besides get half as much again, because blocks
 * take three quarters of a table at most. Beside what the table reckons stands what the process has
 * grown by, as the kernel counts it. Memory does not depend on what else the machine does: a
 * promise that is broken ends the program with 1. Usage: bench_memory [keys of a small state].
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/limit/engine/engine.h"

enum { BATCH = 64, VNODES = 4096, LOGS_SHARE = 10, ROOMY = 1000 /* bytes */ };

#define S_NS     INT64_C(1000000000)
#define START_NS (INT64_C(1700000000) * S_NS)

/* Rounds of requests to all keys, one a step, and what a key may take. */
struct kind {
    const char *name;
    struct limit limit;
    bool wide; /* the state has a block besides its slot */
    bool few;  /* a tenth of the keys */
    unsigned rounds;
    int64_t step_ns;
    uint64_t cost;
    unsigned promise; /* bytes; 0: none was made */
};

#define SHORT_WINDOW(name)                                                                         \
    {                                                                                              \
        .count = 60, .window_ns = 60 * S_NS, .algorithm = (name)                                   \
    }
#define LONG_WINDOW(events, name)                                                                  \
    {                                                                                              \
        .count = (events), .window_ns = 3600 * S_NS, .algorithm = (name)                           \
    }

static const struct kind kinds[] = {
    {"token_bucket", SHORT_WINDOW(ALGORITHM_TOKEN_BUCKET), false, false, 2, S_NS / 2, 1, 40},
    {"leaky_bucket", SHORT_WINDOW(ALGORITHM_LEAKY_BUCKET), false, false, 2, S_NS / 2, 1, 0},
    {"fixed_window", SHORT_WINDOW(ALGORITHM_FIXED_WINDOW), false, false, 2, S_NS, 1, 40},
    {"fixed_window, align: first",
     {.count = 60,
      .window_ns = 60 * S_NS,
      .algorithm = ALGORITHM_FIXED_WINDOW,
      .align = LIMIT_ALIGN_FIRST},
     false,
     false,
     2,
     S_NS,
     1,
     40},
    {"fixed_window, a calendar's day",
     {.count = 60,
      .window_ns = 86400 * S_NS,
      .start_ns = START_NS / (86400 * S_NS) * (86400 * S_NS),
      .before_s = 86400,
      .algorithm = ALGORITHM_FIXED_WINDOW,
      .align = LIMIT_ALIGN_DAY},
     false,
     false,
     2,
     S_NS,
     1,
     40},
    {"sliding_window", SHORT_WINDOW(ALGORITHM_SLIDING_WINDOW), false, false, 2, S_NS, 1, 40},
    {"sliding_buckets of 60", LONG_WINDOW(60000, ALGORITHM_SLIDING_BUCKETS), true, false, 6,
     540 * S_NS, 1000, 220},
    {"sliding_log of 500 events", LONG_WINDOW(500, ALGORITHM_SLIDING_LOG), true, true, 500, S_NS, 1,
     2200},
    {"concurrency, 10 leases", LONG_WINDOW(10, ALGORITHM_CONCURRENCY), true, true, 10, S_NS, 1, 0},
};

/* Cheap, and as good as any 16 bytes of a hash. */
static struct hash128 key_id(uint64_t key)
{
    const uint64_t lo = hash_mix64(key + 1);
    return (struct hash128){lo, lo * 0x9e3779b97f4a7c15ULL};
}

static uint64_t resident_bytes(void)
{
    uint64_t size = 0;
    uint64_t resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
        exit(1);
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* One request to each of `keys` keys. Returns how many were allowed. */
static uint64_t ask_all(struct table *table, const struct kind *kind, uint64_t keys, uint64_t lease,
                        enum operation operation, int64_t now_ns, uint64_t *used)
{
    struct hash128 ids[BATCH];
    uint32_t vnodes[BATCH];
    const struct limit *limits[BATCH];
    uint64_t costs[BATCH], leases[BATCH], numbers[3][BATCH], used_of[BATCH];
    uint8_t operations[BATCH], status[BATCH], allowed[BATCH];
    int64_t times[3][BATCH];
    struct limit_decisions out = {status,     allowed,  numbers[0], used_of,  numbers[1],
                                  numbers[2], times[0], times[1],   times[2], NULL};
    uint64_t sum = 0;
    for (uint64_t key = 0; key < keys; key += BATCH) {
        const size_t count = keys - key < BATCH ? (size_t)(keys - key) : BATCH;
        const struct limit_batch batch = {.count = count,
                                          .ids = ids,
                                          .vnodes = vnodes,
                                          .limits = limits,
                                          .costs = costs,
                                          .operations = operations,
                                          .leases = leases};
        for (size_t i = 0; i < count; i++) {
            ids[i] = key_id(key + i);
            vnodes[i] = (uint32_t)(ids[i].hi >> 52);
            limits[i] = &kind->limit;
            costs[i] = operation == OPERATION_PEEK ? 0 : kind->cost;
            operations[i] = (uint8_t)operation;
            leases[i] = lease;
        }
        engine_step(table, &batch, now_ns, &out);
        for (size_t i = 0; i < count; i++) {
            sum += status[i] == LIMIT_DECIDED && allowed[i];
            *used += status[i] == LIMIT_DECIDED ? used_of[i] : 0;
        }
    }
    return sum;
}

/* Fills the table, and looks at what it has. False when a request was not counted, or forgotten. */
static bool fill(struct table *table, const struct kind *kind, uint64_t keys)
{
    struct table_stats stats;
    uint64_t used = 0;
    int64_t now_ns = START_NS;
    for (unsigned round = 0; round < kind->rounds; round++) {
        now_ns = START_NS + (int64_t)round * kind->step_ns;
        if (ask_all(table, kind, keys, round + 1, OPERATION_CHECK, now_ns, &used) != keys)
            return false;
    }
    used = 0;
    (void)ask_all(table, kind, keys, 0, OPERATION_PEEK, now_ns, &used);
    table_stats(table, &stats);
    return stats.used == keys && stats.refused + stats.turned_away + stats.evicted == 0 &&
           used == keys * kind->rounds * kind->cost;
}

/* Bytes of the table that is filled. */
static size_t room_for(const struct kind *kind, uint64_t keys)
{
    if (kind->promise == 0)
        return (size_t)keys * ROOMY;
    const size_t promised = (size_t)keys * kind->promise;
    return kind->wide ? promised * 3 / 2 : promised;
}

/* False when the promise is broken. */
static bool run(const struct kind *kind, uint64_t keys)
{
    const uint64_t before = resident_bytes();
    struct table_stats stats;
    struct table *table;
    if (table_new(&table, alloc_heap(), room_for(kind, keys), VNODES) != 0) {
        printf("%-32s %9" PRIu64 " no table of %zu bytes\n", kind->name, keys,
               room_for(kind, keys));
        return false;
    }
    const bool whole = fill(table, kind, keys);
    table_stats(table, &stats);
    const double bytes = (double)stats.bytes / (double)keys;
    const double grown = (double)(resident_bytes() - before) / (double)keys;
    const bool kept = whole && (kind->promise == 0 || bytes <= kind->promise);
    char promised[16] = "-";
    if (kind->promise != 0)
        (void)snprintf(promised, sizeof promised, "<= %u", kind->promise);
    printf("%-32s %9" PRIu64 " %10s %10.1f %10.1f   %s\n", kind->name, keys, promised, bytes, grown,
           !whole               ? "FALLS SHORT: something was forgotten"
           : !kept              ? "FALLS SHORT of the promise"
           : kind->promise == 0 ? "no promise"
                                : "as promised");
    table_free(&table);
    return kept;
}

/* Runs one in a process of its own, so that the memory of one is not taken for another's. */
static bool run_apart(const struct kind *kind, uint64_t keys)
{
    int status = 1;
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const bool kept = run(kind, keys);
        (void)fflush(stdout);
        _exit(kept ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    const uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    bool kept = true;
    if (keys < LOGS_SHARE * BATCH || keys > UINT32_MAX / 4) {
        (void)fprintf(stderr, "usage: bench_memory [keys >= %d]\n", LOGS_SHARE * BATCH);
        return 64;
    }
    printf("%-32s %9s %10s %10s %10s\n", "bytes a key, all included", "keys", "promised", "found",
           "resident");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        kept = run_apart(&kinds[i], kinds[i].few ? keys / LOGS_SHARE : keys) && kept;
    return kept ? 0 : 1;
}
