/* main.c - the simulator's program: which seeds are run, and what is told of them.
 *
 *   sim --seeds N [--first F] [--jobs J]    seeds F .. F + N - 1
 *   sim --seed S [-v]... [OPTIONS]          one seed, with a trace
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/sim.h"

int main(int argc, char **argv)
{
    struct overrides given = {.values = {.trace = 0}};
    uint64_t first = 1, count = 0;
    for (int i = 1; i < argc;) {
        if (strcmp(argv[i], "--seed") == 0) {
            first = strtoull(argv[i + 1], NULL, 10);
            count = 1;
            i += 2;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0) {
            count = strtoull(argv[i + 1], NULL, 10);
            i += 2;
            continue;
        }
        if (strcmp(argv[i], "--first") == 0) {
            first = strtoull(argv[i + 1], NULL, 10);
            i += 2;
            continue;
        }
        int n = options_parse(&given, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        if (n <= 0) {
            fprintf(stderr, "bad %s\n", argv[i]);
            return 2;
        }
        i += n;
    }
    struct coverage sum = {0};
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    int failed = 0;
    for (uint64_t s = first; s < first + count; s++) {
        struct options options;
        static struct sim_result result;
        options_draw(s, &given, &options);
        sim_run(&options, &result);
        coverage_add(&sum, &result.coverage);
        if (result.failure[0]) {
            failed++;
            printf("seed %llu: %s (%llu events)\n", (unsigned long long)s, result.failure,
                   (unsigned long long)result.events);
            fflush(stdout);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    coverage_print(&sum, (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    coverage_complete(&sum);
    printf("%d failed\n", failed);
    return failed != 0;
}
