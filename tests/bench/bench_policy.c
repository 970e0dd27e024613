/* bench_policy.c - what 10,000 rules cost a request beside 10, for rules files of several shapes.
 *
 * Three costs, each of both: to find the rules of a request; a request that comes alone, which is
 * that, naming the counters of the rules found, and deciding them in the engine; and a request of a
 * message of many, whose rules are looked for some at a time, in steps, as
 * node/cluster/request/requests.c does. A message, its way, and its answer would come on top in
 * all, and hide more of the difference, most for the request that has a message of its own; so they
 * are left out.
 *
 * Both are measured interleaved; medians of several rounds, in time of the processor, so that what
 * else the machine does counts no more than by the caches it empties. Requests come as they do in a
 * node, some at a time and freshly written, and are spread over all rules, so that with 10,000 of
 * them none meets memory that the one before has warmed; and over as many users, so that there are
 * as many counters with 10 rules as with 10,000. Usage: bench_policy [rounds].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/protocol/identity.h"
#include "node/limit/engine/engine.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/index/policy_search.h"
#include "tests/unit/support_rules.h"

enum {
    FEW = 9,
    MANY = 9999,
    BATCH = 64,
    TAKEN = 8, /* as node/cluster/request/requests.c takes items of a message */
    REQUESTS = 20032,
    ROUNDS_MAX = 31,
    PROMISE = 2,
    USER_LEN = 16,
    VNODES = 4096,
    TABLE_BYTES = 64 << 20
};
#define NOW_NS INT64_C(1700000000000000000)

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

static_assert(BATCH % TAKEN == 0, "a batch is taken whole");

enum cost { FOUND, ALONE, TOGETHER, COSTS };

struct bench {
    struct policy *policy;
    struct table *table;
    enum rules_shape shape;
    size_t rules;
    size_t count; /* requests a round */
    struct rules_request requests[BATCH];
    char users[BATCH][USER_LEN];
    double ns[COSTS][ROUNDS_MAX];
    size_t compared; /* rules, in a round */
    size_t found;
};

static void bench_init(struct bench *bench, enum rules_shape shape, size_t rules)
{
    bench->policy = rules_policy(shape, rules);
    bench->shape = shape;
    bench->rules = rules;
    /* A request that looks at all rules is a hundred times slower: fewer of them will do. */
    bench->count = shape < RULES_BOUNDED ? REQUESTS : 4 * BATCH;
    if (table_new(&bench->table, alloc_heap(), TABLE_BYTES, VNODES) != 0)
        exit(1);
}

static void bench_fini(struct bench *bench)
{
    policy_free(&bench->policy);
    table_free(&bench->table);
}

/* Request number `i` of user number `i`, as slot `at` of the batch. */
static void ask(struct bench *bench, size_t at, size_t i)
{
    struct rules_request *request = &bench->requests[at];
    char *user = bench->users[at];
    rules_request_init(request, bench->shape, bench->rules, i * 7919);
    const int len = snprintf(user, USER_LEN, "u%05zu", i);
    for (size_t k = 0; k < request->count; k++) {
        struct policy_attribute *attribute = &request->attributes[k];
        if (attribute->name_len != 4 || memcmp(attribute->name, "user", 4) != 0)
            continue;
        attribute->value = user;
        attribute->value_len = (size_t)len;
    }
}

/* Names the counters of the rules that were found, and decides them. */
static void decide(struct bench *bench, const struct policy_result *result, int64_t now_ns)
{
    static const struct hash_key key = {{1, 2}};
    static struct identity identity;
    for (size_t i = 0; i < result->part_count; i++) {
        const struct policy_part *part = &result->parts[i];
        const struct policy_rule *rule = part->rule;
        struct identity_value values[IDENTITY_VALUES_MAX];
        struct limit_decision decision;
        for (size_t k = 0; k < rule->key_count; k++)
            values[k] = (struct identity_value){part->values[k].data, part->values[k].len};
        if (identity_rule(&identity, rule->counted.data, rule->counted.len, values,
                          rule->key_count) != 0)
            exit(1);
        const uint32_t vnode = identity_vnode(&key, &identity, VNODES);
        for (size_t k = 0; k < rule->limit_count; k++) {
            const struct limit *limit = &rule->limits[k];
            engine_one(bench->table,
                       identity_slot(&key, &identity, limit->algorithm, limit->ordinal), vnode,
                       limit, 1, OPERATION_CHECK, LIMIT_LOADED, now_ns, &decision);
            if (decision.status != LIMIT_DECIDED)
                exit(1);
        }
    }
}

static void take_alone(struct bench *bench, const struct rules_request *request, bool decides)
{
    struct policy_result result;
    if (policy_resolve(bench->policy, request->attributes, request->count, &result) != 0)
        exit(1);
    if (decides)
        decide(bench, &result, NOW_NS);
    bench->found += result.part_count;
    bench->compared += result.compared;
}

static void take_together(struct bench *bench, const struct rules_request *requests)
{
    struct policy_search searches[TAKEN];
    struct policy_result results[TAKEN];
    for (size_t i = 0; i < TAKEN; i++)
        if (policy_search_ask(&searches[i], bench->policy, requests[i].attributes,
                              requests[i].count, &results[i]) != 0)
            exit(1);
    for (size_t i = 0; i < TAKEN; i++)
        policy_search_look(&searches[i]);
    for (size_t i = 0; i < TAKEN; i++) {
        policy_search_run(&searches[i]);
        decide(bench, &results[i], NOW_NS);
        bench->found += results[i].part_count;
        bench->compared += results[i].compared;
    }
}

/* One batch. Returns the seconds that it took. */
static double take(struct bench *bench, size_t first, enum cost cost)
{
    for (size_t i = 0; i < BATCH; i++)
        ask(bench, i, first + i);
    const double start = seconds();
    for (size_t i = 0; cost == TOGETHER && i < BATCH; i += TAKEN)
        take_together(bench, &bench->requests[i]);
    for (size_t i = 0; cost != TOGETHER && i < BATCH; i++)
        take_alone(bench, &bench->requests[i], cost == ALONE);
    return seconds() - start;
}

/* Nanoseconds a request. */
static double measure(struct bench *bench, enum cost cost)
{
    const size_t parts = rules_parts(bench->shape);
    double taken = 0;
    bench->compared = 0;
    bench->found = 0;
    for (size_t i = 0; i < bench->count; i += BATCH)
        taken += take(bench, i, cost);
    if (bench->found != parts * bench->count) {
        (void)fprintf(stderr, "%zu rules act, expected %zu\n", bench->found, parts * bench->count);
        exit(1);
    }
    return taken * 1e9 / (double)bench->count;
}

static double median(double *ns, unsigned rounds)
{
    qsort(ns, rounds, sizeof *ns, compare);
    return ns[rounds / 2];
}

static void run(enum rules_shape shape, unsigned rounds)
{
    static struct bench few;
    static struct bench many;
    bench_init(&few, shape, FEW);
    bench_init(&many, shape, MANY);
    (void)measure(&few, ALONE); /* the counters are there */
    (void)measure(&many, ALONE);
    for (unsigned i = 0; i < rounds; i++) {
        for (enum cost cost = 0; cost < COSTS; cost++) {
            few.ns[cost][i] = measure(&few, cost);
            many.ns[cost][i] = measure(&many, cost);
        }
    }
    printf("%-32s", rules_shape_name(shape));
    double ratio = 0;
    for (enum cost cost = 0; cost < COSTS; cost++) {
        const double ns[2] = {median(few.ns[cost], rounds), median(many.ns[cost], rounds)};
        ratio = ns[1] / ns[0];
        printf(" %6.0f %7.0f %6.2f ", ns[0], ns[1], ratio);
    }
    printf("%8.1f   %s\n", (double)many.compared / (double)many.count,
           shape >= RULES_BOUNDED ? "grows with the rules, by nature"
           : ratio <= PROMISE     ? "as promised"
                                  : "FALLS SHORT of the promised 2");
    bench_fini(&few);
    bench_fini(&many);
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 7;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: bench_policy [rounds 1..%d]\n", ROUNDS_MAX);
        return 64;
    }
    printf("%-32s %21s  %21s  %21s\n", "", "its rules found, ns", "a request alone, ns",
           "one of a message, ns");
    printf("%-32s", "rules");
    for (enum cost cost = 0; cost < COSTS; cost++)
        printf(" %6s %7s %6s ", "10", "10,000", "ratio");
    printf("%8s\n", "compared");
    for (enum rules_shape shape = 0; shape < RULES_SHAPES; shape++)
        run(shape, rounds);
    return 0;
}
