/* test_gcra.c - the token bucket against its definition in unreduced rationals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sat.h"
#include "tests/unit/support_limit.h"

/* TAT in units of 1/count ns: nothing is ever rounded. */
struct bucket {
    const struct limit *limit;
    __int128 tat;
};

static __int128 bucket_debt(const struct bucket *bucket, int64_t now_ns)
{
    const __int128 now = (__int128)now_ns * (__int128)bucket->limit->count;
    return bucket->tat > now ? bucket->tat - now : 0;
}

static void bucket_clear(void *state, const struct limit *limit)
{
    *(struct bucket *)state = (struct bucket){.limit = limit};
}

static uint64_t bucket_used(void *state, int64_t now_ns)
{
    const struct bucket *bucket = state;
    const __int128 token = (__int128)bucket->limit->window_ns;
    return (uint64_t)((bucket_debt(bucket, now_ns) + token - 1) / token);
}

static void bucket_add(void *state, int64_t now_ns, uint64_t count)
{
    struct bucket *bucket = state;
    bucket->tat = (__int128)now_ns * (__int128)bucket->limit->count + bucket_debt(bucket, now_ns) +
                  (__int128)count * (__int128)bucket->limit->window_ns;
}

static void bucket_sub(void *state, int64_t now_ns, uint64_t count)
{
    struct bucket *bucket = state;
    const __int128 debt = bucket_debt(bucket, now_ns);
    const __int128 back = (__int128)count * (__int128)bucket->limit->window_ns;
    const __int128 now = (__int128)now_ns * (__int128)bucket->limit->count;
    if (debt > 0) /* else there is nothing to give back, and the state is not touched */
        bucket->tat = back < debt ? now + debt - back : 0;
}

static void bucket_tidy(void *state, int64_t now_ns, uint64_t most)
{
    struct bucket *bucket = state;
    if (bucket_debt(bucket, now_ns) <= (__int128)most * (__int128)bucket->limit->window_ns)
        return;
    bucket->tat = (__int128)now_ns * (__int128)bucket->limit->count +
                  (__int128)most * (__int128)bucket->limit->window_ns;
}

/* However far ahead its debt reaches, that is a debt, of which so much counts as the limit owes. */
static int64_t bucket_begins(void *state)
{
    (void)state;
    return 0;
}

static struct bucket metered;

static const struct limit_model model = {.clear = bucket_clear,
                                         .used = bucket_used,
                                         .add = bucket_add,
                                         .sub = bucket_sub,
                                         .tidy = bucket_tidy,
                                         .begins = bucket_begins,
                                         .state = &metered,
                                         .state_len = sizeof metered};

static struct limit bucket_limit(uint64_t count, uint64_t window_ns, uint64_t burst)
{
    return (struct limit){.count = count,
                          .window_ns = window_ns,
                          .burst = burst,
                          .algorithm = ALGORITHM_TOKEN_BUCKET};
}

/* Every decision of long random histories is that of the definition. */
static void agrees_with_the_definition(void **state)
{
    (void)state;
    const struct limit limits[] = {
        bucket_limit(5, 60000000000, 0),
        bucket_limit(7, 60000000000, 20),
        bucket_limit(1, 1000000, 1),
        bucket_limit(1000, 1000000000, 50),
        bucket_limit(600000000, 1000000000, 0),
        bucket_limit(3, 31536000000000000, 2),
        bucket_limit(999983, 1000000000, 0),
    };
    limit_histories(1, limits, sizeof limits / sizeof *limits, &model);
}

/* A leaky bucket decides as the token bucket does, and tells how long the queue is. */
static void a_leaky_bucket_is_the_same_meter(void **state)
{
    (void)state;
    const uint64_t windows_ns[] = {60000000000, 1000000, 31536000000000000, 1000000000};
    struct limit limits[4];
    for (size_t i = 0; i < 4; i++) {
        limits[i] = bucket_limit(3 + 94 * i, windows_ns[i], 10 * i);
        limits[i].algorithm = ALGORITHM_LEAKY_BUCKET;
    }
    limit_histories(8, limits, 4, &model);
}

/* Whoever waits as told goes on when all who were admitted before have had their turns: so what
 * comes out is evenly spaced, and the queue never holds more than its burst. */
static void who_waits_as_told_comes_out_evenly(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 9);
    for (unsigned i = 0; i < 50; i++) {
        struct table *table = limit_table();
        struct limit limit = bucket_limit(1 + random_below(&random, 1000),
                                          1000000 * (1 + random_below(&random, 100000)),
                                          1 + random_below(&random, 30));
        limit.algorithm = ALGORITHM_LEAKY_BUCKET;
        const __int128 token = (__int128)limit.window_ns;
        int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        __int128 next = 0; /* the earliest turn of the next, in 1/count ns */
        for (unsigned n = 0; n < 1000; n++) {
            now_ns += random_between(&random, 0, 2 * (int64_t)(limit.window_ns / limit.count) + 1);
            const uint64_t cost = random_below(&random, 3);
            const struct limit_decision peeked =
                limit_do(table, 1, &limit, OPERATION_PEEK, cost, 0, now_ns);
            const struct limit_decision got =
                limit_do(table, 1, &limit, OPERATION_CHECK, cost, 0, now_ns);
            assert_int_equal(peeked.delay_ns, got.delay_ns);
            if (!got.allowed) {
                assert_int_equal(got.delay_ns, 0);
                continue;
            }
            const __int128 now = (__int128)now_ns * (__int128)limit.count;
            const __int128 turn = next > now ? next : now;
            const __int128 exact = turn - now;
            assert_true(got.delay_ns * (__int128)limit.count >= exact);
            assert_true((got.delay_ns - 1) * (__int128)limit.count < exact);
            assert_true(got.delay_ns * (__int128)limit.count <
                        (__int128)limit.burst * token + (__int128)limit.count);
            next = turn + (__int128)cost * token;
        }
        table_free(&table);
    }
}

/* Greedy checking over a long time admits exactly the rate, from once a year to 10^9 a second. */
static void does_not_drift(void **state)
{
    (void)state;
    const struct limit limits[] = {
        bucket_limit(7, 60000000000, 4),        bucket_limit(1, 31536000000000000, 4),
        bucket_limit(600000000, 1000000000, 4), bucket_limit(1000000000, 1000000000, 4),
        bucket_limit(599999999, 1000000000, 4), bucket_limit(30, 86400000000000, 4),
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct table *table = limit_table();
        const struct limit *limit = &limits[i];
        int64_t now_ns = 0;
        const uint64_t rounds = limit->count > 1000 ? 20000 : 7 * 1440;
        for (uint64_t n = 0; n < rounds; n++) {
            struct limit_decision got = limit_do(table, 1, limit, OPERATION_CHECK, 1, 0, now_ns);
            if (!got.allowed) {
                now_ns += got.retry_after_ns;
                got = limit_do(table, 1, limit, OPERATION_CHECK, 1, 0, now_ns);
            }
            assert_true(got.allowed);
            if (now_ns > INT64_C(2000000000000000000))
                break;
            const __int128 exact =
                n < 4 ? 0 : (__int128)(n - 3) * (__int128)limit->window_ns / (__int128)limit->count;
            assert_true(now_ns >= (int64_t)exact);
            /* A rate whose reduced interval needs more than 20 bits may lag by 2^-20 ns a token. */
            assert_true(now_ns <= (int64_t)exact + 1 + (int64_t)(n >> 20) + 1);
        }
        table_free(&table);
    }
}

/* Rates of many digits, whose interval no cell can keep, admit no token too many, and lag behind by
 * no more than a hundred-millionth of themselves, or by 2^-20 ns a token where they lie just below
 * a rate of few digits. */
static void odd_rates_lag_by_next_to_nothing(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        uint64_t window_ns;
        uint64_t part; /* of the tokens of a day, that many may be missing: one in so many */
    } rates[] = {
        {1234567, 1000000000, 1000000000000}, {1048577, 1000000000, 1000000000000},
        {7654321, 1000000000, 1000000000000}, {123456789, 1000000000, 300000000},
        {987654321, 1000000000, 50000000000}, {999999999, 1000000000, 1000000},
        {599999999, 1000000000, 5000000},     {LIMIT_COUNT_MAX - 1, 1000000000000000, 1000000},
    };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        enum { STEPS = 20000 };
        /* Deep enough never to run over between two steps. */
        const uint64_t day = sat_muldiv(rates[i].count, 86400000000000, rates[i].window_ns);
        const struct limit limit = bucket_limit(rates[i].count, rates[i].window_ns, day / 1000);
        const int64_t step_ns = INT64_C(86400000000000) / STEPS;
        struct table *table = limit_table();
        __int128 granted = 0;
        for (int64_t n = 0; n <= STEPS; n++)
            granted += (__int128)limit_do(table, 1, &limit, OPERATION_CHECK, LIMIT_COUNT_MAX,
                                          LIMIT_AT_MOST, LIMIT_TEST_EPOCH_NS + n * step_ns)
                           .granted;
        const __int128 exact =
            (__int128)86400000000000 * (__int128)limit.count / (__int128)limit.window_ns;
        const __int128 got = granted - (__int128)limit_capacity(&limit);
        assert_true(got <= exact);
        assert_true(got >= exact - 1 - exact / (__int128)rates[i].part);
        table_free(&table);
    }
}

/* 7 per 60 s admits 7 * 1440 in a day, whenever one asks. */
static void seven_a_minute_is_10080_a_day(void **state)
{
    (void)state;
    const struct limit limit = bucket_limit(7, 60000000000, 1);
    const struct limit full = bucket_limit(7, 60000000000, 7);
    struct table *table = limit_table();
    uint64_t admitted = 0;
    for (int64_t ms = 0; ms < 86400000; ms += 500)
        admitted +=
            limit_do(table, 1, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS + ms * 1000000)
                .allowed;
    assert_in_range(admitted, 7 * 1440 * 94 / 100, 7 * 1440 + 1);
    admitted = 0;
    for (int64_t us = 0; us < INT64_C(86400000000); us += 250000)
        admitted +=
            limit_do(table, 2, &full, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS + us * 1000)
                .allowed;
    assert_in_range(admitted, 7 * 1440, 7 * 1440 + 7);
    table_free(&table);
}

/* After a new rate or burst what was consumed stays so: remaining moves by the difference. */
static void a_changed_rate_keeps_what_was_consumed(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 3);
    for (unsigned n = 0; n < 20000; n++) {
        struct table *table = n == 0 ? limit_table() : *state;
        *state = table;
        const uint64_t first = 1 + random_below(&random, 1000);
        const uint64_t used = random_below(&random, first + 1);
        const struct limit before =
            bucket_limit(first, 1000000 * (1 + random_below(&random, 1u << 20)), 0);
        const uint64_t second = 1 + random_below(&random, 1000);
        const struct limit after =
            bucket_limit(second, 1000000 * (1 + random_below(&random, 1u << 20)), 0);
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        /* One key at a time: rates have 4095 numbers, and this uses up 40,000 rates. */
        if (table_lookup(table, limit_key(1)) != TABLE_NONE)
            table_drop(table, table_lookup(table, limit_key(1)));
        (void)limit_do(table, 1, &before, OPERATION_HIT, used, 0, now_ns);
        struct limit_decision got = limit_do(table, 1, &after, OPERATION_PEEK, 0, 0, now_ns);
        const uint64_t owed = used < 2 * second ? used : 2 * second; /* one further limit */
        assert_int_equal(got.used, owed);
        assert_int_equal(got.remaining, used < second ? second - used : 0);
        /* Also once it has been written at the new rate. */
        got = limit_do(table, 1, &after, OPERATION_HIT, 1, 0, now_ns);
        assert_int_equal(got.used, used < 2 * second ? used + 1 : owed);
    }
    struct table *table = *state;
    table_check_invariants(table);
    table_free(&table);
    *state = NULL;
}

/* Whatever limit asks: the debt drains at the rate at which it was charged. */
static void a_peek_of_no_tokens_tells_when_the_bucket_will_be_full(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit own = bucket_limit(30, 60000000000, 16);
    const struct limit other = bucket_limit(1, 1000000000, 1);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    assert_int_equal(limit_do(table, 1, &own, OPERATION_CHECK, 5, 0, now_ns).reset_after_ns,
                     10000000000);
    const struct limit_decision seen =
        limit_do(table, 1, &other, OPERATION_PEEK, 0, 0, now_ns + 1000000000);
    assert_int_equal(seen.reset_after_ns, 9000000000);
    assert_true(seen.used > 0);
    assert_int_equal(
        limit_do(table, 1, &other, OPERATION_PEEK, 1, 0, now_ns + 1000000000).reset_after_ns,
        2000000000); /* one that would take some is told by what it would be under */
    assert_int_equal(limit_do(table, 2, &other, OPERATION_PEEK, 0, 0, now_ns).reset_after_ns, 0);
    table_check_invariants(table);
    table_free(&table);
}

/* With more rates than numbers for them, buckets still never admit too much. */
static void too_many_rates_fall_back_to_time(void **state)
{
    (void)state;
    struct table *table = limit_table();
    for (uint64_t n = 0; n < 10000; n++) {
        const struct limit limit = bucket_limit(3, 60000000000 + n * 1000000, 0);
        for (unsigned i = 0; i < 5; i++)
            assert_int_equal(
                limit_do(table, n, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS).allowed,
                i < 3);
    }
    table_check_invariants(table);
    table_free(&table);
}

/* A bucket's debt never reaches beyond the end of time, however slow the rate. */
static void a_bucket_holds_at_most_73_years(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = bucket_limit(1, LIMIT_WINDOW_MAX_NS, 1000);
    struct limit_decision got =
        limit_do(table, 1, &limit, OPERATION_HIT, UINT64_MAX, 0, LIMIT_TEST_EPOCH_NS);
    assert_in_range(got.limit, 7, 8);
    assert_int_equal(got.used, 2 * got.limit);
    assert_true(got.reset_after_ns > 0);
    assert_int_equal(limit_do(table, 1, &limit, OPERATION_CHECK, 1, 0, INT64_MAX).status,
                     LIMIT_DECIDED);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(a_leaky_bucket_is_the_same_meter),
        cmocka_unit_test(who_waits_as_told_comes_out_evenly),
        cmocka_unit_test(does_not_drift),
        cmocka_unit_test(odd_rates_lag_by_next_to_nothing),
        cmocka_unit_test(seven_a_minute_is_10080_a_day),
        cmocka_unit_test(a_changed_rate_keeps_what_was_consumed),
        cmocka_unit_test(a_peek_of_no_tokens_tells_when_the_bucket_will_be_full),
        cmocka_unit_test(too_many_rates_fall_back_to_time),
        cmocka_unit_test(a_bucket_holds_at_most_73_years),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
