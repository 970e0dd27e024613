/* test_elastic.c - what one leader lends: meters, budgets, ceilings, and what it reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "node/limit/engine/elastic.h"

#define MS    INT64_C(1000000)
#define S     (1000 * MS)
#define START (INT64_C(1700000000) * S)
#define TOKEN UINT64_C(1000000000)

enum { POOL = 7, BATCH = 2 };

static const struct limit plain = {.count = 10, .window_ns = 1000000000, .weight = 1, .pool = POOL};

static struct elastic_report report; /* too large for a stack */

static int set_up(void **state)
{
    struct elastic *elastic;
    assert_int_equal(elastic_new(&elastic, alloc_heap()), 0);
    *state = elastic;
    return 0;
}

static int tear_down(void **state)
{
    struct elastic *elastic = *state;
    elastic_check_invariants(elastic);
    elastic_free(&elastic);
    assert_null(elastic);
    return 0;
}

static struct hash128 id_of(uint64_t number)
{
    return (struct hash128){number * 77, number};
}

/* A level of `rate` tokens a second for all classes, and a budget of as many. */
static struct elastic_level level_of(uint64_t rate, uint64_t budget)
{
    return (struct elastic_level){
        .level = {rate * TOKEN, rate * TOKEN, rate * TOKEN},
        .budget = budget * TOKEN,
        .budget_open = budget * TOKEN,
        .spare = 1000 * TOKEN,
    };
}

/* One request of a key above its limit. */
static uint64_t lend(struct elastic *elastic, const struct limit *limit, uint64_t key,
                     int64_t now_ns)
{
    return elastic_lend(elastic, limit, id_of(key), 1, 0, now_ns);
}

/* What `keys` keys borrow in a span when each asks `rate` times a second, and levels come. */
static uint64_t borrow(struct elastic *elastic, const struct limit *limit, uint64_t keys,
                       uint64_t rate, const struct elastic_level *level, int64_t from_ns,
                       int64_t span_ns)
{
    uint64_t lent = 0;
    const int64_t step_ns = S / (int64_t)rate;
    for (int64_t at = 0; at < span_ns; at += step_ns) {
        for (uint64_t key = 0; key < keys; key++)
            lent += lend(elastic, limit, key, from_ns + at);
        if (level != NULL && (from_ns + at) / (100 * MS) != (from_ns + at + step_ns) / (100 * MS))
            elastic_set_level(elastic, POOL, level, from_ns + at + step_ns);
    }
    return lent;
}

/* Without a level nothing is lent; with one a key borrows at its rate; half a second after the
 * last one nothing any more. */
static void a_level_lends_while_it_is_young(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(55, 1000);
    assert_int_equal(borrow(elastic, &plain, 1, 1000, NULL, START, S), 0);
    const uint64_t lent = borrow(elastic, &plain, 1, 1000, &level, START + S, 10 * S);
    assert_in_range(lent, 540, 551);
    const int64_t end = START + 11 * S;
    assert_true(borrow(elastic, &plain, 1, 1000, NULL, end, 490 * MS) > 20);
    assert_int_equal(borrow(elastic, &plain, 1, 1000, NULL, end + 500 * MS, S), 0);
}

/* A level of zero ends borrowing at once, whatever was saved up. */
static void a_level_of_zero_ends_borrowing(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(500, 1000);
    const struct elastic_level none = level_of(0, 0);
    (void)lend(elastic, &plain, 1, START);
    elastic_set_level(elastic, POOL, &level, START);
    assert_int_equal(lend(elastic, &plain, 1, START + 400 * MS), 1);
    elastic_set_level(elastic, POOL, &none, START + 400 * MS);
    assert_int_equal(lend(elastic, &plain, 1, START + 401 * MS), 0);
    elastic_set_level(elastic, POOL, &level, START + 600 * MS);
    assert_int_equal(lend(elastic, &plain, 1, START + 700 * MS), 1);
}

/* Weight multiplies the level; the ceiling caps what is borrowed and what is asked for. */
static void weight_and_ceiling_bound_a_key(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(20, 1000);
    struct limit heavy = plain;
    heavy.weight = 3;
    assert_int_equal(lend(elastic, &heavy, 0, START), 0);
    elastic_set_level(elastic, POOL, &level, START);
    assert_in_range(borrow(elastic, &heavy, 1, 1000, &level, START, 10 * S), 590, 613);
    heavy.ceiling_percent = 350; /* 10/s and 25/s above it */
    assert_in_range(borrow(elastic, &heavy, 1, 1000, &level, START + 10 * S, 10 * S), 245, 256);
    assert_true(elastic_report(elastic, 0, START + 20 * S, &report));
    assert_int_equal(report.count[0], 1);
    assert_int_equal(report.shares[0][0].ask, 25 * TOKEN);
    assert_int_equal(report.shares[0][0].weight, 3);
}

/* All keys of a leader together borrow no more than its budget, however high the level is. */
static void a_budget_bounds_all_keys_together(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(1000, 120);
    (void)borrow(elastic, &plain, 50, 100, &level, START, S);
    assert_in_range(borrow(elastic, &plain, 50, 100, &level, START + S, 10 * S), 1150, 1226);
}

/* What is not of the first class borrows from the open budget alone. */
static void the_reserve_is_for_the_first_class(void **state)
{
    struct elastic *elastic = *state;
    struct elastic_level level = level_of(1000, 100);
    struct limit batch = plain;
    batch.class = BATCH;
    level.budget_open = 40 * TOKEN;
    (void)borrow(elastic, &batch, 1, 1000, &level, START, S);
    assert_in_range(borrow(elastic, &batch, 1, 1000, &level, START + S, 10 * S), 385, 409);
    assert_in_range(borrow(elastic, &plain, 1, 1000, &level, START + 11 * S, 10 * S), 960, 1055);
    level.level[BATCH] = 0;
    elastic_set_level(elastic, POOL, &level, START + 21 * S);
    assert_int_equal(lend(elastic, &batch, 0, START + 21 * S), 0);
    assert_int_equal(lend(elastic, &plain, 0, START + 21 * S + 20 * MS), 1);
}

/* A thousand keys whose shares are far less than a token a second borrow their sum, from the
 * beginning on: neither nobody nor everybody at once. */
static void shares_of_less_than_a_token_add_up(void **state)
{
    struct elastic *elastic = *state;
    struct elastic_level level = level_of(0, 1000);
    for (unsigned i = 0; i < LIMIT_CLASSES; i++)
        level.level[i] = TOKEN * 12 / 100;
    for (uint64_t key = 0; key < 1000; key++)
        (void)lend(elastic, &plain, key, START);
    elastic_set_level(elastic, POOL, &level, START);
    const uint64_t first = borrow(elastic, &plain, 1000, 20, &level, START, S);
    assert_in_range(first, 80, 160);
    assert_in_range(borrow(elastic, &plain, 1000, 20, &level, START + S, 10 * S), 1100, 1300);
}

/* Who asks for a token now and then gets it, as long as it is within its share. */
static void one_who_asks_rarely_is_lent_to(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(5, 5);
    uint64_t lent = 0;
    for (int64_t at = 0; at < 20 * S; at += 10 * MS) {
        if (at % (100 * MS) == 0) {
            elastic_set_level(elastic, POOL, &level, START + at);
            (void)elastic_report(elastic, 0, START + at, &report);
        }
        if (at % (2 * S) == 0)
            lent += lend(elastic, &plain, 1, START + at);
    }
    assert_int_equal(lent, 9);
}

/* A request that costs more than can be saved up is lent when its meter is full, and paid for
 * afterwards; one that costs more than the pool has in a second never is. */
static void a_large_request_is_paid_for_afterwards(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(50, 1000);
    uint64_t lent = 0;
    for (int64_t at = 0; at < 20 * S; at += 100 * MS) {
        (void)lend(elastic, &plain, 2, START + at); /* keeps the pool known */
        elastic_set_level(elastic, POOL, &level, START + at);
        lent += elastic_lend(elastic, &plain, id_of(1), 100, 0, START + at);
        assert_int_equal(elastic_lend(elastic, &plain, id_of(3), 1100, 0, START + at), 0);
    }
    assert_in_range(lent, 900, 1100);
    const int64_t rested = START + 21 * S; /* nobody else borrows: all meters are full */
    elastic_set_level(elastic, POOL, &level, rested);
    (void)lend(elastic, &plain, 3, rested);
    elastic_set_level(elastic, POOL, &level, rested + 300 * MS);
    const int64_t now_ns = rested + 600 * MS;
    assert_int_equal(elastic_lend(elastic, &plain, id_of(3), 1100, 0, now_ns), 0);
    assert_int_equal(elastic_lend(elastic, &plain, id_of(3), 900, 0, now_ns), 900);
}

/* At most: less than asked for is lent if there is less; and what is not used is given back. */
static void at_most_takes_what_there_is(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(50, 1000);
    (void)lend(elastic, &plain, 1, START);
    elastic_set_level(elastic, POOL, &level, START);
    assert_in_range(lend(elastic, &plain, 1, START + 400 * MS), 0, 1);
    elastic_set_level(elastic, POOL, &level, START + 400 * MS);
    const int64_t now_ns = START + 800 * MS; /* full: 10 tokens */
    assert_int_equal(elastic_lend(elastic, &plain, id_of(1), 4, ELASTIC_PEEK, now_ns), 4);
    assert_int_equal(elastic_lend(elastic, &plain, id_of(1), 4, 0, now_ns), 4);
    assert_int_equal(elastic_lend(elastic, &plain, id_of(1), 9, 0, now_ns), 0);
    assert_int_equal(elastic_lend(elastic, &plain, id_of(1), 9, ELASTIC_AT_MOST, now_ns), 6);
    assert_int_equal(elastic_lend(elastic, &plain, id_of(1), 1, 0, now_ns), 0);
    elastic_give_back(elastic, &plain, id_of(1), 5, now_ns);
    assert_int_equal(elastic_lend(elastic, &plain, id_of(1), 5, 0, now_ns), 5);
}

/* What is reported is the last half second: what was admitted, what was borrowed, and what each key
 * asked for above its limit. */
static void a_report_is_of_the_last_half_second(void **state)
{
    struct elastic *elastic = *state;
    struct limit batch = plain;
    batch.class = BATCH;
    batch.weight = 5;
    for (int64_t at = 0; at < S; at += MS) {
        elastic_admitted(elastic, &plain, 3, START + at);
        (void)lend(elastic, &plain, 1, START + at);
        if (at % (100 * MS) == 0)
            (void)lend(elastic, &batch, 2, START + at);
    }
    assert_true(elastic_report(elastic, 0, START + S, &report));
    assert_int_equal(report.pool, POOL);
    assert_int_equal(report.guaranteed, 3000 * TOKEN);
    assert_int_equal(report.borrowed, 0);
    assert_int_equal(report.count[0], 1);
    assert_int_equal(report.shares[0][0].ask, 1000 * TOKEN);
    assert_int_equal(report.count[1], 0);
    assert_int_equal(report.count[BATCH], 1);
    assert_int_equal(report.shares[BATCH][0].ask, 10 * TOKEN);
    assert_int_equal(report.shares[BATCH][0].weight, 5);
    assert_true(elastic_report(elastic, 0, START + S + 550 * MS, &report));
    assert_int_equal(report.guaranteed, 0);
    assert_int_equal(report.count[0] + report.count[BATCH], 0);
    assert_false(elastic_report(elastic, 0, START + 12 * S, &report)); /* idle, and forgotten */
    assert_false(elastic_report(elastic, 0, START + 12 * S, &report));
    struct elastic_stats stats;
    elastic_stats(elastic, &stats);
    assert_int_equal(stats.keys + stats.pools, 0);
}

/* Keys come and go in any order, in several pools, and each pool's report is the sum of its own. */
static void reports_are_the_sum_of_their_keys(void **state)
{
    enum { KEYS = 200, POOLS = 3 };
    struct elastic *elastic = *state;
    static uint64_t asked[POOLS][KEYS][64]; /* by bucket */
    struct random random;
    random_init(&random, 5);
    for (int64_t bucket = 0; bucket < 2000; bucket++) {
        const int64_t now_ns = START + bucket * ELASTIC_BUCKET_NS;
        for (size_t pool = 0; pool < POOLS; pool++)
            for (size_t key = 0; key < KEYS; key++)
                asked[pool][key][bucket % 64] = 0;
        for (unsigned i = 0; i < 20 && bucket % 400 < 150; i++) {
            struct limit limit = plain;
            const size_t key = random_below(&random, KEYS);
            limit.pool = (uint32_t)(1 + key % POOLS);
            const uint64_t cost = 1 + random_below(&random, 5);
            asked[key % POOLS][key][bucket % 64] += cost;
            (void)elastic_lend(elastic, &limit, id_of(key), cost, 0, now_ns);
        }
        for (uint32_t i = 0; i < elastic_pools(elastic); i++) {
            if (!elastic_report(elastic, i, now_ns, &report))
                continue;
            uint64_t expected = 0, told = 0;
            for (size_t key = 0; key < KEYS; key++)
                for (int64_t back = 1; back <= ELASTIC_BUCKETS && back <= bucket; back++)
                    expected += asked[report.pool - 1][key][(bucket - back) % 64] * 2 * TOKEN;
            for (uint32_t k = 0; k < report.count[0]; k++)
                told += report.shares[0][k].ask;
            assert_int_equal(told, expected);
        }
        elastic_check_invariants(elastic);
    }
}

/* Tables are bounded: keys and pools there is no room for borrow nothing, and are counted. */
static void what_there_is_no_room_for_is_not_lent_to(void **state)
{
    struct elastic *elastic = *state;
    const struct elastic_level level = level_of(1000, 1000000);
    struct elastic_stats stats;
    for (uint64_t key = 0; key < ELASTIC_KEYS_MAX; key++)
        (void)lend(elastic, &plain, key, START);
    elastic_set_level(elastic, POOL, &level, START);
    assert_int_equal(lend(elastic, &plain, ELASTIC_KEYS_MAX, START + 10 * MS), 0);
    elastic_stats(elastic, &stats);
    assert_int_equal(stats.no_room, 1);
    assert_int_equal(stats.keys, ELASTIC_KEYS_MAX);
    assert_int_equal(lend(elastic, &plain, 5, START + 10 * MS), 1);
    struct limit other = plain;
    for (uint32_t pool = 100; pool < 100 + ELASTIC_POOLS_MAX; pool++) {
        other.pool = pool;
        elastic_admitted(elastic, &other, 1, START);
    }
    assert_int_equal(lend(elastic, &other, 1, START), 0);
    elastic_stats(elastic, &stats);
    assert_int_equal(stats.no_room, 2);
    assert_int_equal(stats.pools, ELASTIC_POOLS_MAX);
    (void)elastic_report(elastic, 0, START + 11 * S, &report);
    elastic_stats(elastic, &stats);
    assert_int_equal(stats.keys, 0);
}

/* Over random levels and demand, what is lent in any second stays within what ELASTIC-2 allows. */
static void nothing_beyond_the_budget_is_ever_lent(void **state)
{
    enum { STEPS = 60000, SECOND = 1000 };
    struct elastic *elastic = *state;
    static uint32_t lent_at[STEPS];
    static uint64_t budget_at[STEPS];
    struct random random;
    uint64_t budget = 0;
    random_init(&random, 11);
    for (int step = 0; step < STEPS; step++) {
        const int64_t now_ns = START + step * MS;
        if (step % 100 == 0) {
            budget = random_below(&random, 300);
            const struct elastic_level level = level_of(random_below(&random, 300), budget);
            elastic_set_level(elastic, POOL, &level, now_ns);
        }
        budget_at[step] = budget;
        struct limit limit = plain;
        limit.class = (uint8_t)random_below(&random, LIMIT_CLASSES);
        for (uint64_t i = random_below(&random, step % 5000 < 2500 ? 4 : 1); i > 0; i--)
            lent_at[step] += (uint32_t)lend(elastic, &limit, random_below(&random, 20), now_ns);
    }
    for (int from = 0; from + SECOND < STEPS; from += 7) {
        uint64_t lent = 0, most = 0;
        for (int i = from; i < from + SECOND; i++) {
            lent += lent_at[i];
            most = budget_at[i] > most ? budget_at[i] : most;
        }
        for (int i = from; i > 0 && i > from - 500; i--)
            most = budget_at[i] > most ? budget_at[i] : most;
        assert_true(lent <= most + most / 2 + 5);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_level_lends_while_it_is_young),
        TEST(a_level_of_zero_ends_borrowing),
        TEST(weight_and_ceiling_bound_a_key),
        TEST(a_budget_bounds_all_keys_together),
        TEST(the_reserve_is_for_the_first_class),
        TEST(shares_of_less_than_a_token_add_up),
        TEST(one_who_asks_rarely_is_lent_to),
        TEST(a_large_request_is_paid_for_afterwards),
        TEST(at_most_takes_what_there_is),
        TEST(a_report_is_of_the_last_half_second),
        TEST(reports_are_the_sum_of_their_keys),
        TEST(what_there_is_no_room_for_is_not_lent_to),
        TEST(nothing_beyond_the_budget_is_ever_lent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
