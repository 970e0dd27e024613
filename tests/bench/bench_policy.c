/* bench_policy.c - what 10,000 rules cost a request beside 10, for rules files of several shapes.
 *
 * Both are resolved interleaved; medians of several rounds, in time of the processor, so that what
 * else the machine does counts no more than by the caches it empties. Requests come as they do in a
 * node, some at a time and freshly written, and are spread over all rules, so that with 10,000 of
 * them none meets memory that the one before has warmed. Usage: bench_policy [rounds].
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/support_rules.h"

enum { FEW = 9, MANY = 9999, BATCH = 64, REQUESTS = 20032, ROUNDS_MAX = 31, PROMISE = 2 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bench {
    struct policy *policy;
    enum rules_shape shape;
    size_t rules;
    size_t count; /* requests a round */
    struct rules_request requests[BATCH];
    double ns[ROUNDS_MAX];
    double compared; /* rules a request */
};

static void bench_init(struct bench *bench, enum rules_shape shape, size_t rules)
{
    bench->policy = rules_policy(shape, rules);
    bench->shape = shape;
    bench->rules = rules;
    /* A request that looks at all rules is a hundred times slower: fewer of them will do. */
    bench->count = shape < RULES_BOUNDED ? REQUESTS : 4 * BATCH;
}

/* Resolves one batch. Returns the seconds that it took. */
static double resolve(struct bench *bench, size_t first, size_t *found, size_t *compared)
{
    struct policy_result result;
    for (size_t i = 0; i < BATCH; i++)
        rules_request_init(&bench->requests[i], bench->shape, bench->rules, (first + i) * 7919);
    const double start = seconds();
    for (size_t i = 0; i < BATCH; i++) {
        struct rules_request *request = &bench->requests[i];
        if (policy_resolve(bench->policy, request->attributes, request->count, &result) != 0)
            exit(1);
        *found += result.part_count;
        *compared += result.compared;
    }
    return seconds() - start;
}

static void measure(struct bench *bench, unsigned round)
{
    const size_t parts = rules_parts(bench->shape);
    size_t compared = 0;
    size_t found = 0;
    double taken = 0;
    for (size_t i = 0; i < bench->count; i += BATCH)
        taken += resolve(bench, i, &found, &compared);
    bench->ns[round] = taken * 1e9 / (double)bench->count;
    bench->compared = (double)compared / (double)bench->count;
    if (found != parts * bench->count) {
        (void)fprintf(stderr, "%zu rules act, expected %zu\n", found, parts * bench->count);
        exit(1);
    }
}

static void run(enum rules_shape shape, unsigned rounds)
{
    static struct bench few;
    static struct bench many;
    bench_init(&few, shape, FEW);
    bench_init(&many, shape, MANY);
    for (unsigned i = 0; i < rounds; i++) {
        measure(&few, i);
        measure(&many, i);
    }
    qsort(few.ns, rounds, sizeof *few.ns, compare);
    qsort(many.ns, rounds, sizeof *many.ns, compare);
    const double ratio = many.ns[rounds / 2] / few.ns[rounds / 2];
    printf("%-32s %8.0f ns %8.0f ns %8.2f %10.1f   %s\n", rules_shape_name(shape),
           few.ns[rounds / 2], many.ns[rounds / 2], ratio, many.compared,
           shape >= RULES_BOUNDED ? "grows with the rules, by nature"
           : ratio <= PROMISE     ? "as promised"
                                  : "FALLS SHORT of the promised 2");
    policy_free(&few.policy);
    policy_free(&many.policy);
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 7;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: bench_policy [rounds 1..%d]\n", ROUNDS_MAX);
        return 64;
    }
    printf("%-32s %11s %11s %8s %10s\n", "to find the rules of a request", "10 rules", "10,000",
           "ratio", "compared");
    for (enum rules_shape shape = 0; shape < RULES_SHAPES; shape++)
        run(shape, rounds);
    return 0;
}
