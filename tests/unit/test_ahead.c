/* test_ahead.c - what a leader with a wrong clock has left is exhausted as of now, for every
 * algorithm: never fresh, and never denied beyond its window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support_limit.h"

#define S_NS    INT64_C(1000000000)
#define HOUR_NS (3600 * S_NS)
#define DAY_NS  (24 * HOUR_NS)
#define NOW_NS  (LIMIT_TEST_EPOCH_NS + 17 * S_NS)

enum { KEY = 1, COUNT = 5, WINDOW_S = 60 };

static struct limit limit_of(unsigned algorithm)
{
    return (struct limit){
        .count = COUNT,
        .window_ns = WINDOW_S * (uint64_t)S_NS,
        .algorithm = (uint8_t)algorithm,
        .burst =
            algorithm == ALGORITHM_TOKEN_BUCKET || algorithm == ALGORITHM_LEAKY_BUCKET ? COUNT : 0};
}

static struct limit_decision at(struct table *table, const struct limit *limit,
                                enum operation operation, uint64_t cost, int64_t now_ns)
{
    return limit_do(table, KEY, limit, operation, cost, 0, now_ns);
}

/* The most that is denied of a limit that is used up, as each algorithm says of itself. */
static int64_t longest_ns(const struct limit *limit)
{
    const int64_t window_ns = (int64_t)limit->window_ns;
    switch (limit->algorithm) {
    case ALGORITHM_TOKEN_BUCKET: /* it may owe one further limit */
    case ALGORITHM_LEAKY_BUCKET:
        return window_ns + window_ns / COUNT;
    case ALGORITHM_SLIDING_WINDOW: /* the whole of this window, and a part of the next */
        return window_ns + window_ns / COUNT;
    case ALGORITHM_SLIDING_BUCKETS:
        return window_ns + window_ns / 60 + 1;
    default:
        return window_ns;
    }
}

/* The limit is used by `by_ns` in the future, up to its debt; then the clock is right. */
static void bounded(struct limit limit, int64_t by_ns, uint64_t used)
{
    struct table *table = limit_table();
    (void)at(table, &limit, OPERATION_HIT, used, NOW_NS + by_ns);
    const struct limit_decision peeked = at(table, &limit, OPERATION_PEEK, 1, NOW_NS);
    const struct limit_decision got = at(table, &limit, OPERATION_CHECK, 1, NOW_NS);
    assert_false(got.allowed); /* never fresh */
    assert_false(peeked.allowed);
    const uint64_t most = limit_has_burst(limit.algorithm) ? 2 * COUNT : COUNT;
    assert_int_equal(got.used, most);
    assert_int_equal(peeked.used, most);
    assert_int_equal(got.retry_after_ns, peeked.retry_after_ns);
    assert_in_range(got.retry_after_ns, 1, longest_ns(&limit));
    const int64_t then_ns = NOW_NS + got.retry_after_ns;
    assert_false(at(table, &limit, OPERATION_CHECK, 1, then_ns - 1).allowed);
    assert_true(at(table, &limit, OPERATION_CHECK, 1, then_ns).allowed);
    assert_int_equal(at(table, &limit, OPERATION_PEEK, 0, NOW_NS + 3 * WINDOW_S * S_NS).used, 0);
    table_check_invariants(table);
    table_free(&table);
}

static void what_lies_ahead_is_exhausted_as_of_now(void **state)
{
    (void)state;
    static const int64_t by_ns[] = {HOUR_NS, DAY_NS, 400 * DAY_NS};
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++)
        for (size_t i = 0; i < 3 && algorithm != ALGORITHM_CONCURRENCY; i++)
            for (uint64_t used = 1; used <= 2 * COUNT; used += 3)
                bounded(limit_of(algorithm), by_ns[i], used);
    struct limit first = limit_of(ALGORITHM_FIXED_WINDOW);
    first.align = LIMIT_ALIGN_FIRST;
    bounded(first, HOUR_NS, 1);
}

/* What a limit can owe is left as it is, whatever clock it is of. */
static void what_a_limit_can_owe_stays(void **state)
{
    (void)state;
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct table *table = limit_table();
        const struct limit limit = limit_of(algorithm);
        (void)at(table, &limit, OPERATION_HIT, COUNT + 2, NOW_NS + S_NS); /* clocks differ so far */
        const struct limit_decision got = at(table, &limit, OPERATION_CHECK, 1, NOW_NS);
        assert_false(got.allowed);
        assert_in_range(got.used, COUNT + 2, COUNT + 3);
        table_free(&table);
    }
}

/* Who decides by older rules rewrites nothing. */
static void older_rules_bound_nothing(void **state)
{
    (void)state;
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct table *table = limit_table();
        const struct limit limit = limit_of(algorithm);
        (void)at(table, &limit, OPERATION_HIT, 1, NOW_NS + HOUR_NS);
        const int64_t expires_ns = table_expires_ns(table, table_lookup(table, limit_key(KEY)));
        (void)limit_do(table, KEY, &limit, OPERATION_CHECK, 100, LIMIT_OLDER, NOW_NS);
        assert_true(table_expires_ns(table, table_lookup(table, limit_key(KEY))) >= expires_ns);
        table_free(&table);
    }
}

/* A place in flight is freed a time-out from now at the latest, and can be released before. */
static void a_place_in_flight_ends_with_the_time_out(void **state)
{
    (void)state;
    struct limit limit = limit_of(ALGORITHM_CONCURRENCY);
    struct limit_decision got;
    struct table *table = limit_table();
    for (uint64_t id = 1; id <= COUNT; id++)
        engine_one_leased(table, limit_key(KEY), 1, &limit, 1, id, OPERATION_CHECK, LIMIT_LOADED,
                          NOW_NS + HOUR_NS, &got);
    engine_one_leased(table, limit_key(KEY), 1, &limit, 1, 9, OPERATION_CHECK, LIMIT_LOADED, NOW_NS,
                      &got);
    assert_false(got.allowed);
    assert_int_equal(got.used, COUNT);
    assert_int_equal(got.retry_after_ns, WINDOW_S * S_NS);
    engine_one_leased(table, limit_key(KEY), 1, &limit, 0, 3, OPERATION_RELEASE, LIMIT_LOADED,
                      NOW_NS, &got);
    assert_int_equal(got.granted, 1);
    assert_int_equal(got.used, COUNT - 1);
    engine_one_leased(table, limit_key(KEY), 1, &limit, COUNT, 9, OPERATION_CHECK, LIMIT_LOADED,
                      NOW_NS + WINDOW_S * S_NS, &got);
    assert_true(got.allowed);
    table_check_invariants(table);
    table_free(&table);
}

/* Tokens that are held weigh no longer than a lease, and what lies under them is bounded, too. */
static void a_lease_of_tokens_ends_with_its_length(void **state)
{
    (void)state;
    static const unsigned algorithms[] = {ALGORITHM_TOKEN_BUCKET, ALGORITHM_FIXED_WINDOW,
                                          ALGORITHM_SLIDING_WINDOW, ALGORITHM_SLIDING_BUCKETS,
                                          ALGORITHM_SLIDING_LOG};
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        struct limit limit = limit_of(algorithms[i]);
        struct limit_decision got;
        struct table *table = limit_table();
        engine_one_leased(table, limit_key(KEY), 1, &limit, 2, 7, OPERATION_LEASE,
                          LIMIT_LOADED | LIMIT_HOLD, NOW_NS + HOUR_NS, &got);
        assert_true(got.allowed);
        engine_one(table, limit_key(KEY), 1, &limit, COUNT, OPERATION_CHECK, LIMIT_LOADED, NOW_NS,
                   &got);
        assert_false(got.allowed); /* tokens are out */
        const int64_t then_ns = NOW_NS + 2 * longest_ns(&limit) + 60 * S_NS;
        engine_one(table, limit_key(KEY), 1, &limit, COUNT, OPERATION_CHECK, LIMIT_LOADED, then_ns,
                   &got);
        engine_one(table, limit_key(KEY), 1, &limit, COUNT, OPERATION_CHECK, LIMIT_LOADED,
                   then_ns + 3 * WINDOW_S * S_NS, &got);
        assert_true(got.allowed);
        table_check_invariants(table);
        table_free(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_ahead_is_exhausted_as_of_now),
        cmocka_unit_test(what_a_limit_can_owe_stays),
        cmocka_unit_test(older_rules_bound_nothing),
        cmocka_unit_test(a_place_in_flight_ends_with_the_time_out),
        cmocka_unit_test(a_lease_of_tokens_ends_with_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
