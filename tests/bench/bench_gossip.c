/* bench_gossip.c - what membership promises (R1, R6, S10), by virtual time for 3 to 1,000 nodes.
 *
 * The shipped gossip runs as a whole cluster in this process (support_swim.h): 0.1 to 1 ms of
 * delay, no loss but where it is said. Figures are of virtual time, so they do not depend on this
 * machine. Usage: bench_gossip [largest number of nodes] | bench_gossip soak [hours].
 *
 *   bench_gossip         a table for 3, 10, 100 and 1,000 nodes, in less than a minute
 *   bench_gossip soak    24 hours of 100 nodes at 1% loss: exit status 1 if one who lived was
 *                        declared dead (some minutes of this machine's time)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/support_swim.h"

enum {
    TIMES_MAX = 200000,
    QUIET_SECONDS = 20, /* of which bytes are counted */
    SOAK_NODES = 100,
    SOAK_HOURS = 24,
};

/* How many deaths are measured: in clusters of its own each, or one after the other in one. */
struct size {
    uint32_t nodes;
    uint32_t deaths;
    bool own;
};

struct figures {
    int64_t p50_ns; /* until a node that lives has marked it dead */
    int64_t p99_ns;
    int64_t all_p50_ns; /* until all have */
    int64_t all_p99_ns;
    size_t deaths;
    double bytes;
};

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t quantile(int64_t *times_ns, size_t count, unsigned percent)
{
    qsort(times_ns, count, sizeof *times_ns, compare);
    return times_ns[(count - 1) * percent / 100];
}

static void require(bool met, const char *what)
{
    if (met)
        return;
    fprintf(stderr, "bench_gossip: %s\n", what);
    exit(1);
}

/* One death; adds each observer's time, and the last one's. */
static size_t die(struct swarm *swarm, uint32_t victim, int64_t *times_ns, int64_t *last_ns)
{
    const size_t count = swarm_death(swarm, victim, times_ns, false);
    *last_ns = 0;
    for (size_t i = 0; i < count; i++)
        *last_ns = times_ns[i] > *last_ns ? times_ns[i] : *last_ns;
    return count;
}

static double quiet_bytes(struct swarm *swarm)
{
    swarm_run(swarm, 15 * SWARM_SECOND); /* the news of the joins die down */
    const uint64_t before = swarm_sent_bytes(swarm);
    swarm_run(swarm, QUIET_SECONDS * SWARM_SECOND);
    return (double)(swarm_sent_bytes(swarm) - before) / QUIET_SECONDS / swarm->nodes_count;
}

static struct figures measure(const struct size *size)
{
    static int64_t times_ns[TIMES_MAX];
    static int64_t last_ns[TIMES_MAX];
    struct figures figures = {.deaths = size->deaths};
    size_t count = 0;
    struct swarm *swarm = NULL;
    for (uint32_t n = 0; n < size->deaths; n++) {
        if (swarm == NULL) {
            swarm = swarm_new(size->nodes, n + 1);
            require(swarm_settle(swarm, 90 * SWARM_SECOND) >= 0, "the nodes do not find together");
        }
        if (n == 0)
            figures.bytes = quiet_bytes(swarm);
        swarm_run(swarm, random_between(&swarm->random, 0, 2 * SWARM_SECOND));
        const uint32_t victim = 1 + (uint32_t)random_below(&swarm->random, size->nodes - 1);
        require(count + size->nodes <= TIMES_MAX, "too many times");
        count += die(swarm, victim, times_ns + count, &last_ns[n]);
        if (size->own) {
            swarm_free(swarm);
            swarm = NULL;
        } else if (n + 1 < size->deaths) {
            swarm_start(swarm, victim, 0);
            require(swarm_settle(swarm, 30 * SWARM_SECOND) >= 0, "a node does not come back");
        }
    }
    if (swarm != NULL)
        swarm_free(swarm);
    figures.p50_ns = quantile(times_ns, count, 50);
    figures.p99_ns = quantile(times_ns, count, 99);
    figures.all_p50_ns = quantile(last_ns, size->deaths, 50);
    figures.all_p99_ns = quantile(last_ns, size->deaths, 99);
    return figures;
}

static double seconds(int64_t ns)
{
    return (double)ns / SWARM_SECOND;
}

static void table(uint32_t largest)
{
    static const struct size sizes[] = {
        {3, 300, true}, {10, 100, true}, {100, 12, false}, {1000, 2, false}};
    double flat = 0;
    printf("virtual time; delay 0.1-1 ms, no loss\n");
    printf("%5s  %6s  %-24s  %-24s  %s\n", "nodes", "deaths", "a node marks it dead, s",
           "all nodes have, s", "gossip, bytes/s a node");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i].nodes <= largest; i++) {
        const struct figures got = measure(&sizes[i]);
        char each[32];
        char all[32];
        (void)snprintf(each, sizeof each, "p50 %.2f  p99 %.2f", seconds(got.p50_ns),
                       seconds(got.p99_ns));
        (void)snprintf(all, sizeof all, "p50 %.2f  p99 %.2f", seconds(got.all_p50_ns),
                       seconds(got.all_p99_ns));
        printf("%5u  %6zu  %-24s  %-24s  %.0f", sizes[i].nodes, got.deaths, each, all, got.bytes);
        flat = sizes[i].nodes == 10 ? got.bytes : flat;
        if (sizes[i].nodes > 10)
            printf("  (%+.0f%% against 10 nodes)", 100 * (got.bytes / flat - 1));
        printf("\n");
        (void)fflush(stdout);
    }
}

/* R6: nobody who lives is declared dead. */
static int soak(int64_t hours)
{
    struct swarm *swarm = swarm_new(SOAK_NODES, 11);
    uint64_t suspicions = 0;
    swarm->loss_ppm = SWARM_PPM / 100;
    require(swarm_settle(swarm, 60 * SWARM_SECOND) >= 0, "the nodes do not find together");
    swarm_run(swarm, hours * 3600 * SWARM_SECOND);
    for (uint32_t i = 0; i < SOAK_NODES; i++) {
        struct swim_stats stats;
        swim_stats(swarm->nodes[i].swim, &stats);
        suspicions += stats.suspicions;
    }
    printf("%d nodes, 1%% loss, %lld h of virtual time: %llu suspicions, %llu deaths declared\n",
           SOAK_NODES, (long long)hours, (unsigned long long)suspicions,
           (unsigned long long)swarm->deaths);
    const bool kept = swarm->deaths == 0;
    swarm_free(swarm);
    return kept ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "soak") == 0)
        return soak(argc > 2 ? strtoll(argv[2], NULL, 10) : SOAK_HOURS);
    table(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : SWARM_NODES_MAX);
    return 0;
}
