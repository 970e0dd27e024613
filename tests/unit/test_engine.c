/* test_engine.c - batches, groups and flags of the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

#include "tests/unit/support_limit.h"

enum { VNODES = 64, ROWS = 200 };

struct columns {
    struct hash128 ids[ROWS];
    uint32_t vnodes[ROWS];
    const struct limit *limits[ROWS];
    uint64_t costs[ROWS];
    uint8_t operations[ROWS];
    uint8_t flags[ROWS];
    uint32_t groups[ROWS];
    uint8_t status[ROWS];
    uint8_t allowed[ROWS];
    uint64_t limit[ROWS];
    uint64_t used[ROWS];
    uint64_t remaining[ROWS];
    uint64_t granted[ROWS];
    int64_t reset_after_ns[ROWS];
    int64_t retry_after_ns[ROWS];
    int64_t delay_ns[ROWS];
    uint8_t notes[ROWS];
    size_t count;
};

static struct columns columns;

static void add_row(uint64_t key, const struct limit *limit, enum operation operation,
                    uint64_t cost, unsigned flags, uint32_t group)
{
    const size_t i = columns.count++;
    columns.ids[i] = limit_key(key);
    columns.vnodes[i] = (uint32_t)(key % VNODES);
    columns.limits[i] = limit;
    columns.costs[i] = cost;
    columns.operations[i] = (uint8_t)operation;
    columns.flags[i] = (uint8_t)flags;
    columns.groups[i] = group;
}

static void step(struct table *table, int64_t now_ns)
{
    const struct limit_batch batch = {
        columns.count,  columns.ids,    columns.vnodes,
        columns.limits, columns.costs,  columns.operations,
        columns.flags,  columns.groups, NULL,
        NULL,           NULL,           NULL,
    };
    struct limit_decisions out = {
        columns.status,    columns.allowed, columns.limit,          columns.used,
        columns.remaining, columns.granted, columns.reset_after_ns, columns.retry_after_ns,
        columns.delay_ns,  columns.notes,
    };
    engine_step(table, &batch, now_ns, &out);
}

static struct limit_decision row(size_t i)
{
    return (struct limit_decision){
        .status = columns.status[i],
        .allowed = columns.allowed[i],
        .limit = columns.limit[i],
        .used = columns.used[i],
        .remaining = columns.remaining[i],
        .granted = columns.granted[i],
        .reset_after_ns = columns.reset_after_ns[i],
        .retry_after_ns = columns.retry_after_ns[i],
        .delay_ns = columns.delay_ns[i],
        .notes = columns.notes[i],
    };
}

static uint64_t used_of(struct table *table, uint64_t key, const struct limit *limit,
                        int64_t now_ns)
{
    return limit_do(table, key, limit, OPERATION_PEEK, 0, 0, now_ns).used;
}

/* Limits of all algorithms and some sizes; a key always has the same algorithm. */
static struct limit limits[8];

static const struct limit *limit_of(uint64_t key)
{
    for (unsigned i = 0; i < 8; i++)
        limits[i] = (struct limit){.count = 3 + 5 * i,
                                   .window_ns = 1000000000ULL * (1 + i),
                                   .exceed_percent = (uint16_t)(i % 3 * 20),
                                   .algorithm = (uint8_t)(i % ALGORITHM_COUNT)};
    return &limits[key % 8];
}

/* A batch gives the same answers as its rows one by one, duplicates of a key included. */
static void a_batch_is_its_rows_one_by_one(void **state)
{
    (void)state;
    struct table *batched = limit_table();
    struct table *single = limit_table();
    struct random random;
    random_init(&random, 1);
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    for (unsigned n = 0; n < 1000; n++) {
        columns.count = 0;
        now_ns += (int64_t)random_below(&random, 300000000);
        const size_t rows = 1 + random_below(&random, ROWS);
        for (size_t i = 0; i < rows; i++) {
            const uint64_t key = random_below(&random, 500);
            add_row(key, limit_of(key), (enum operation)random_below(&random, OPERATION_COUNT),
                    random_below(&random, 4), LIMIT_LOADED | (unsigned)random_below(&random, 8),
                    (uint32_t)i);
        }
        step(batched, now_ns);
        for (size_t i = 0; i < rows; i++) {
            struct limit_decision one;
            engine_one(single, columns.ids[i], columns.vnodes[i], columns.limits[i],
                       columns.costs[i], (enum operation)columns.operations[i], columns.flags[i],
                       now_ns, &one);
            const struct limit_decision got = row(i);
            assert_true(limit_decisions_equal(&one, &got));
        }
    }
    table_check_invariants(batched);
    table_free(&batched);
    table_free(&single);
}

/* Random groups: taken from all limits or from none, and taken iff each would allow. */
static void groups_are_all_or_nothing(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct random random;
    random_init(&random, 2);
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    unsigned admitted = 0;
    unsigned denied = 0;
    for (unsigned n = 0; n < 20000; n++) {
        columns.count = 0;
        now_ns += (int64_t)random_below(&random, 100000000);
        const size_t rows = 2 + random_below(&random, 4);
        const uint64_t first = random_below(&random, 40);
        const uint64_t cost = random_below(&random, 4);
        const bool at_most = random_below(&random, 4) == 0;
        bool all = true;
        uint64_t least = cost;
        uint64_t before[8];
        for (size_t i = 0; i < rows; i++) {
            const uint64_t key = first + i * 3;
            add_row(key, limit_of(key), OPERATION_CHECK, cost,
                    LIMIT_LOADED | (at_most ? LIMIT_AT_MOST : 0), 7);
            const struct limit_decision alone = limit_do(table, key, limit_of(key), OPERATION_PEEK,
                                                         cost, at_most ? LIMIT_AT_MOST : 0, now_ns);
            all = all && alone.allowed;
            least = alone.granted < least ? alone.granted : least;
            before[i] = used_of(table, key, limit_of(key), now_ns);
        }
        step(table, now_ns);
        bool allowed = true;
        for (size_t i = 0; i < rows; i++)
            allowed = allowed && columns.allowed[i];
        assert_int_equal(allowed, all);
        for (size_t i = 0; i < rows; i++) {
            const uint64_t taken = all ? least : 0;
            assert_int_equal(columns.granted[i], taken);
            assert_int_equal(columns.used[i], before[i] + taken);
            assert_int_equal(used_of(table, first + i * 3, columns.limits[i], now_ns),
                             before[i] + taken);
            assert_int_equal(columns.retry_after_ns[i] == 0, columns.allowed[i]);
        }
        admitted += all;
        denied += !all;
    }
    assert_true(admitted > 1000 && denied > 1000);
    table_check_invariants(table);
    table_free(&table);
}

/* One key twice in a group must have room for both costs. */
static void a_key_twice_in_a_group_needs_room_for_both(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = {.count = 5, .window_ns = 60000000000};
    columns.count = 0;
    add_row(1, &limit, OPERATION_CHECK, 3, LIMIT_LOADED, 1);
    add_row(1, &limit, OPERATION_CHECK, 3, LIMIT_LOADED, 1);
    step(table, LIMIT_TEST_EPOCH_NS);
    assert_true(columns.allowed[0]);
    assert_false(columns.allowed[1]);
    assert_int_equal(used_of(table, 1, &limit, LIMIT_TEST_EPOCH_NS), 0);
    columns.count = 0;
    add_row(1, &limit, OPERATION_CHECK, 3, LIMIT_LOADED, 1);
    add_row(1, &limit, OPERATION_CHECK, 2, LIMIT_LOADED, 1);
    step(table, LIMIT_TEST_EPOCH_NS);
    assert_true(columns.allowed[0] && columns.allowed[1]);
    assert_int_equal(used_of(table, 1, &limit, LIMIT_TEST_EPOCH_NS), 5);
    table_free(&table);
}

/* In a denied group only the rows that count denials and deny are charged. */
static void counted_denials_charge_only_the_denying_row(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit small = {.count = 1, .window_ns = 60000000000};
    const struct limit large = {.count = 9, .window_ns = 60000000000};
    const unsigned flags = LIMIT_LOADED | LIMIT_COUNT_DENIED;
    for (unsigned n = 0; n < 2; n++) {
        columns.count = 0;
        add_row(1, &small, OPERATION_CHECK, 1, flags, 1);
        add_row(2, &large, OPERATION_CHECK, 1, flags, 1);
        step(table, LIMIT_TEST_EPOCH_NS);
    }
    assert_false(columns.allowed[0]);
    assert_true(columns.allowed[1]);
    assert_int_equal(used_of(table, 1, &small, LIMIT_TEST_EPOCH_NS), 2);
    assert_int_equal(used_of(table, 2, &large, LIMIT_TEST_EPOCH_NS), 1);
    table_free(&table);
}

/* 5 an hour and 30 a day on one phone number: of six in an hour the sixth is denied by the first
 * limit and charges neither; the 31st of a day is denied by the second. */
static void two_windows_of_one_number_hold_together(void **state)
{
    (void)state;
    const int64_t minute_ns = INT64_C(60) * 1000000000;
    const struct limit hour = {
        .count = 5, .window_ns = 60 * (uint64_t)minute_ns, .algorithm = ALGORITHM_SLIDING_LOG};
    const struct limit day = {
        .count = 30, .window_ns = 24 * hour.window_ns, .algorithm = ALGORITHM_SLIDING_LOG};
    struct table *table = limit_table();
    for (unsigned n = 0; n < 8 * 6; n++) {
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS + (n / 6 * 61 + n % 6) * minute_ns;
        const unsigned admitted = n / 6 < 6 ? n / 6 * 5 + (n % 6 < 5 ? n % 6 : 5) : 30;
        columns.count = 0;
        add_row(1, &hour, OPERATION_CHECK, 1, LIMIT_LOADED, 1);
        add_row(2, &day, OPERATION_CHECK, 1, LIMIT_LOADED, 1);
        step(table, now_ns);
        assert_int_equal(columns.allowed[0], n / 6 >= 6 || n % 6 < 5);
        assert_int_equal(columns.allowed[1], admitted < 30);
        const bool all = columns.allowed[0] && columns.allowed[1];
        assert_int_equal(used_of(table, 2, &day, now_ns), admitted + all);
    }
    const int64_t next_ns = LIMIT_TEST_EPOCH_NS + (int64_t)day.window_ns + minute_ns / 2;
    step(table, next_ns);
    assert_true(columns.allowed[0] && columns.allowed[1]); /* the first of them is a day old */
    table_free(&table);
}

/* A key that may be on disk is ABSENT, with its whole group, and nothing is taken. */
static void a_key_that_may_be_on_disk_is_absent(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = {.count = 5, .window_ns = 60000000000};
    table_filter_add(table, 1, limit_key(1));
    columns.count = 0;
    add_row(2, &limit, OPERATION_CHECK, 1, 0, 1);
    add_row(1, &limit, OPERATION_CHECK, 1, 0, 1);
    add_row(3, &limit, OPERATION_CHECK, 1, 0, 2);
    step(table, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(columns.status[0], LIMIT_ABSENT);
    assert_int_equal(columns.status[1], LIMIT_ABSENT);
    assert_int_equal(columns.status[2], LIMIT_DECIDED);
    assert_int_equal(used_of(table, 2, &limit, LIMIT_TEST_EPOCH_NS), 0);
    const struct limit_decision got =
        limit_do(table, 1, &limit, OPERATION_CHECK, 1, LIMIT_LOADED, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(got.status, LIMIT_DECIDED);
    assert_int_equal(got.used, 1);
    table_free(&table);
}

/* Peeks and denials of unknown keys leave no slot behind. */
static void unknown_keys_that_take_nothing_leave_no_trace(void **state)
{
    (void)state;
    struct table *table = limit_table();
    for (uint64_t key = 0; key < 80; key++) {
        const struct limit *limit = limit_of(key);
        (void)limit_do(table, key, limit, OPERATION_PEEK, 1, 0, LIMIT_TEST_EPOCH_NS);
        (void)limit_do(table, key, limit, OPERATION_CHECK, 0, 0, LIMIT_TEST_EPOCH_NS);
        (void)limit_do(table, key, limit, OPERATION_CHECK, 10000, 0, LIMIT_TEST_EPOCH_NS);
        (void)limit_do(table, key, limit, OPERATION_REFUND, 5, 0, LIMIT_TEST_EPOCH_NS);
        (void)limit_do(table, key, limit, OPERATION_RESET, 0, 0, LIMIT_TEST_EPOCH_NS);
    }
    struct table_stats stats;
    table_stats(table, &stats);
    assert_int_equal(stats.used, 0);
    assert_int_equal(stats.arena_bytes, 0);
    table_free(&table);
}

/* A limit of another algorithm than the slot's is refused, not misread. */
static void another_algorithm_on_a_slot_is_refused(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit bucket = {.count = 5, .window_ns = 60000000000};
    const struct limit log = {
        .count = 5, .window_ns = 60000000000, .algorithm = ALGORITHM_SLIDING_LOG};
    (void)limit_do(table, 1, &bucket, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(limit_do(table, 1, &log, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS).status,
                     LIMIT_NO_ROOM);
    assert_int_equal(used_of(table, 1, &bucket, LIMIT_TEST_EPOCH_NS), 1);
    table_free(&table);
}

/* A group larger than the bound is refused whole; times outside the calendar are survived. */
static void bounds_are_survived(void **state)
{
    (void)state;
    struct table *table = limit_table();
    columns.count = 0;
    for (uint64_t key = 0; key < LIMIT_GROUP_MAX + 1; key++)
        add_row(key, limit_of(key), OPERATION_CHECK, 1, LIMIT_LOADED, 1);
    step(table, LIMIT_TEST_EPOCH_NS);
    for (size_t i = 0; i < columns.count; i++)
        assert_int_equal(columns.status[i], LIMIT_NO_ROOM);
    const int64_t times_ns[] = {INT64_MIN, -1, 0, 1, INT64_MAX, LIMIT_TEST_EPOCH_NS, INT64_MAX - 1};
    for (size_t i = 0; i < sizeof times_ns / sizeof *times_ns; i++) {
        for (uint64_t key = 0; key < 80; key++) {
            const struct limit_decision got =
                limit_do(table, key, limit_of(key), OPERATION_CHECK, 1, 0, times_ns[i]);
            assert_int_equal(got.status, LIMIT_DECIDED);
            assert_true(got.reset_after_ns >= 0 && got.retry_after_ns >= 0);
        }
    }
    table_check_invariants(table);
    table_free(&table);
}

/* 100 a minute and 10% more: 110 are allowed, the last ten said to be above the limit. */
static void a_soft_limit_allows_more_and_says_so(void **state)
{
    (void)state;
    struct table *table = limit_table();
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        const struct limit limit = {.count = 100,
                                    .window_ns = UINT64_C(60000000000),
                                    .algorithm = (uint8_t)algorithm,
                                    .exceed_percent = 10};
        for (unsigned n = 1; n <= 115; n++) {
            const struct limit_decision got =
                limit_do(table, algorithm, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS);
            assert_int_equal(got.allowed, n <= 110);
            assert_int_equal(got.notes, n > 100 && n <= 110);
            assert_int_equal(got.limit, 100);
            assert_int_equal(got.used, n < 110 ? n : 110);
            assert_int_equal(got.remaining, n < 100 ? 100 - n : 0);
            assert_int_equal(got.granted, n <= 110);
        }
        if (algorithm == ALGORITHM_CONCURRENCY)
            continue; /* there a lease is given back, not a cost */
        const struct limit_decision refunded =
            limit_do(table, algorithm, &limit, OPERATION_REFUND, 2, 0, LIMIT_TEST_EPOCH_NS);
        assert_int_equal(refunded.used, 108);
        assert_int_equal(refunded.notes, 0); /* giving back exceeds nothing */
    }
    table_free(&table);
}

/* A soft limit decides as a hard one of its bound does, whatever is asked; only what it says of the
 * limit differs. */
static void a_soft_limit_decides_as_a_hard_one_of_its_bound(void **state)
{
    (void)state;
    struct table *soft_table = limit_table();
    struct table *hard_table = limit_table();
    struct random random;
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    unsigned exceeded = 0;
    random_init(&random, 5);
    for (unsigned n = 0; n < 100000; n++) {
        const uint64_t key = random_below(&random, 3 * ALGORITHM_COUNT);
        struct limit soft = {.count = 10 + key,
                             .window_ns = UINT64_C(7000000000),
                             .algorithm = (uint8_t)(key % ALGORITHM_COUNT),
                             .exceed_percent = (uint16_t)(1 + 37 * (key % 4))};
        if (soft.algorithm == ALGORITHM_TOKEN_BUCKET && key % 2 == 0)
            soft.burst = 5 + key;
        const struct limit hard = limit_effective(&soft);
        const enum operation operation = (enum operation)random_below(&random, OPERATION_RESET);
        const uint64_t cost = random_below(&random, 9);
        const unsigned flags = (unsigned)random_below(&random, 8) & ~(unsigned)LIMIT_LOADED;
        now_ns += (int64_t)random_below(&random, 400000000);
        struct limit_decision got =
            limit_do(soft_table, key, &soft, operation, cost, flags, now_ns);
        const struct limit_decision expected =
            limit_do(hard_table, key, &hard, operation, cost, flags, now_ns);
        const uint64_t base = limit_capacity(&soft);
        assert_int_equal(got.limit, base);
        assert_int_equal(got.remaining, got.used < base ? base - got.used : 0);
        const uint64_t asked = operation == OPERATION_PEEK ? got.granted : 0;
        assert_int_equal(got.notes,
                         expected.allowed && got.used + asked > base && operation <= OPERATION_HIT);
        exceeded += got.notes;
        got.limit = expected.limit;
        got.remaining = expected.remaining;
        got.notes = expected.notes;
        assert_true(limit_decisions_equal(&got, &expected));
    }
    assert_in_range(exceeded, 1000, 99000);
    table_free(&soft_table);
    table_free(&hard_table);
}

/* A new key of 5 shows used 0 and remaining 5, of each algorithm; what a check would be told of its
 * own cost a peek is told as well. */
static void a_peek_tells_the_state_as_it_is(void **state)
{
    (void)state;
    struct table *table = limit_table();
    for (uint8_t algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        const struct limit limit = {
            .count = 5, .window_ns = UINT64_C(60000000000), .algorithm = algorithm};
        struct limit_decision seen =
            limit_do(table, algorithm, &limit, OPERATION_PEEK, 1, 0, LIMIT_TEST_EPOCH_NS);
        assert_true(seen.allowed);
        assert_int_equal(seen.granted, 1);
        assert_int_equal(seen.used, 0);
        assert_int_equal(seen.remaining, 5);
        assert_int_equal(seen.reset_after_ns, 0);
        (void)limit_do(table, algorithm, &limit, OPERATION_CHECK, 3, 0, LIMIT_TEST_EPOCH_NS);
        const struct limit_decision as_is =
            limit_do(table, algorithm, &limit, OPERATION_PEEK, 0, 0, LIMIT_TEST_EPOCH_NS);
        for (unsigned flags = 0; flags <= LIMIT_COUNT_DENIED; flags += LIMIT_COUNT_DENIED) {
            seen =
                limit_do(table, algorithm, &limit, OPERATION_PEEK, 3, flags, LIMIT_TEST_EPOCH_NS);
            assert_false(seen.allowed);
            assert_int_equal(seen.granted, 0);
            assert_int_equal(seen.used, 3);
            assert_int_equal(seen.remaining, 2);
            assert_int_equal(seen.reset_after_ns, as_is.reset_after_ns);
            assert_true(seen.retry_after_ns > 0);
        }
        seen = limit_do(table, algorithm, &limit, OPERATION_PEEK, 6, 0, LIMIT_TEST_EPOCH_NS);
        assert_int_equal(seen.retry_after_ns, LIMIT_RETRY_NEVER);
        seen = limit_do(table, algorithm, &limit, OPERATION_PEEK, 9, LIMIT_AT_MOST,
                        LIMIT_TEST_EPOCH_NS);
        assert_true(seen.allowed);
        assert_int_equal(seen.granted, 2); /* what a check would take */
        assert_int_equal(seen.used, 3);
        assert_int_equal(seen.remaining, 2);
    }
    table_free(&table);
}

/* What several windows deny, and count, fits again when all say so, the counted denial included. */
static void a_counted_denial_of_a_group_tells_when_its_cost_fits(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit narrow = {.count = 2, .window_ns = UINT64_C(2000000000)};
    const struct limit wide = {.count = 100, .window_ns = UINT64_C(60000000000)};
    const unsigned flags = LIMIT_LOADED | LIMIT_COUNT_DENIED;
    for (unsigned n = 0; n < 3; n++) {
        columns.count = 0;
        add_row(1, &narrow, OPERATION_CHECK, 1, flags, 1);
        add_row(2, &wide, OPERATION_CHECK, 1, flags, 1);
        step(table, LIMIT_TEST_EPOCH_NS);
        assert_int_equal(row(0).allowed, n < 2);
    }
    assert_int_equal(row(0).used, 3);
    const int64_t then_ns = LIMIT_TEST_EPOCH_NS + row(0).retry_after_ns;
    assert_false(limit_do(table, 1, &narrow, OPERATION_PEEK, 1, 0, then_ns - 1).allowed);
    assert_true(limit_do(table, 1, &narrow, OPERATION_PEEK, 1, 0, then_ns).allowed);
    table_free(&table);
}

/* Of several windows a hard one denies for all, and then nothing is exceeded. */
static void a_soft_window_beside_a_hard_one_is_all_or_nothing(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit soft = {.count = 4,
                               .window_ns = UINT64_C(1000000000),
                               .algorithm = ALGORITHM_FIXED_WINDOW,
                               .exceed_percent = 50};
    const struct limit hard = {
        .count = 5, .window_ns = UINT64_C(60000000000), .algorithm = ALGORITHM_SLIDING_LOG};
    for (unsigned n = 1; n <= 7; n++) {
        columns.count = 0;
        add_row(1, &soft, OPERATION_CHECK, 1, LIMIT_LOADED, 1);
        add_row(2, &hard, OPERATION_CHECK, 1, LIMIT_LOADED, 1);
        step(table, LIMIT_TEST_EPOCH_NS);
        assert_int_equal(row(0).allowed && row(1).allowed, n <= 5);
        assert_int_equal(row(0).notes, n == 5);
        assert_int_equal(row(0).used, n < 5 ? n : 5);
        assert_int_equal(row(1).used, n < 5 ? n : 5);
    }
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_its_rows_one_by_one),
        cmocka_unit_test(groups_are_all_or_nothing),
        cmocka_unit_test(a_key_twice_in_a_group_needs_room_for_both),
        cmocka_unit_test(counted_denials_charge_only_the_denying_row),
        cmocka_unit_test(two_windows_of_one_number_hold_together),
        cmocka_unit_test(a_key_that_may_be_on_disk_is_absent),
        cmocka_unit_test(unknown_keys_that_take_nothing_leave_no_trace),
        cmocka_unit_test(another_algorithm_on_a_slot_is_refused),
        cmocka_unit_test(bounds_are_survived),
        cmocka_unit_test(a_soft_limit_allows_more_and_says_so),
        cmocka_unit_test(a_soft_limit_decides_as_a_hard_one_of_its_bound),
        cmocka_unit_test(a_soft_window_beside_a_hard_one_is_all_or_nothing),
        cmocka_unit_test(a_peek_tells_the_state_as_it_is),
        cmocka_unit_test(a_counted_denial_of_a_group_tells_when_its_cost_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
