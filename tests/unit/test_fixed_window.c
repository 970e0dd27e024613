/* test_fixed_window.c - the fixed window against one counter per window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/policy/model/calendar.h"
#include "tests/unit/support_limit.h"

/* The counter of one window: the newest seen, for a time that goes back goes on counting there. */
struct counter {
    uint64_t window_ns;
    uint64_t window;
    uint64_t count;
};

static void counter_clear(void *state, const struct limit *limit)
{
    *(struct counter *)state = (struct counter){.window_ns = limit->window_ns};
}

static void counter_turn(struct counter *counter, int64_t now_ns)
{
    const uint64_t window = (uint64_t)now_ns / counter->window_ns;
    /* An unused counter remembers no window. */
    if (window > counter->window || counter->count == 0) {
        counter->window = window;
        counter->count = 0;
    }
}

static uint64_t counter_used(void *state, int64_t now_ns)
{
    const struct counter *counter = state;
    return (uint64_t)now_ns / counter->window_ns > counter->window ? 0 : counter->count;
}

static void counter_add(void *state, int64_t now_ns, uint64_t count)
{
    struct counter *counter = state;
    counter_turn(counter, now_ns);
    counter->count += count;
}

static void counter_sub(void *state, int64_t now_ns, uint64_t count)
{
    struct counter *counter = state;
    if (counter_used(state, now_ns) == 0)
        return; /* nothing to give back: the state is not touched */
    counter_turn(counter, now_ns);
    counter->count = count < counter->count ? counter->count - count : 0;
}

static int64_t counter_begins(void *state)
{
    const struct counter *counter = state;
    return counter->count == 0 ? 0 : (int64_t)(counter->window * counter->window_ns);
}

static struct limit window_limit(uint64_t count, uint64_t window_ns)
{
    return (struct limit){
        .count = count, .window_ns = window_ns, .algorithm = ALGORITHM_FIXED_WINDOW};
}

/* Every decision of long random histories is that of the counter. */
static void agrees_with_one_counter_per_window(void **state)
{
    (void)state;
    const struct limit limits[] = {
        window_limit(5, 60000000000),      window_limit(3, 1000000),
        window_limit(100, 1500000),        window_limit(10, 512000000),
        window_limit(10, 1024000000),      window_limit(1000000000000, 86400000000000),
        window_limit(2, 2592000000000000),
    };
    struct counter counter;
    const struct limit_model model = {.clear = counter_clear,
                                      .used = counter_used,
                                      .add = counter_add,
                                      .sub = counter_sub,
                                      .begins = counter_begins,
                                      .state = &counter,
                                      .state_len = sizeof counter};
    limit_histories(2, limits, sizeof limits / sizeof *limits, &model);
}

/* ---- windows that a request begins ----------------------------------------------------------- */

struct begun {
    uint64_t window_ns;
    int64_t start_ns;
    uint64_t count;
};

static void begun_clear(void *state, const struct limit *limit)
{
    *(struct begun *)state = (struct begun){.window_ns = limit->window_ns};
}

static uint64_t begun_used(void *state, int64_t now_ns)
{
    const struct begun *begun = state;
    return now_ns < begun->start_ns + (int64_t)begun->window_ns ? begun->count : 0;
}

static void begun_add(void *state, int64_t now_ns, uint64_t count)
{
    struct begun *begun = state;
    if (begun_used(begun, now_ns) == 0)
        *begun = (struct begun){.window_ns = begun->window_ns, .start_ns = now_ns};
    begun->count += count;
}

static void begun_sub(void *state, int64_t now_ns, uint64_t count)
{
    struct begun *begun = state;
    if (begun_used(begun, now_ns) > 0)
        begun->count = count < begun->count ? begun->count - count : 0;
}

static int64_t begun_begins(void *state)
{
    const struct begun *begun = state;
    return begun->count == 0 ? 0 : begun->start_ns;
}

/* Every decision is that of a stopwatch that the first request starts; counts of both widths. */
static void agrees_with_a_stopwatch(void **state)
{
    (void)state;
    struct begun begun;
    const struct limit_model model = {.clear = begun_clear,
                                      .used = begun_used,
                                      .add = begun_add,
                                      .sub = begun_sub,
                                      .begins = begun_begins,
                                      .state = &begun,
                                      .state_len = sizeof begun};
    struct limit limits[] = {
        window_limit(5, 60000000000),        window_limit(3, 1000000),
        window_limit(100, 1500000),          window_limit(1000, 1023000000),
        window_limit(100000000, 1000000000), window_limit(1000000000000, 86400000000000),
        window_limit(2, 2592000000000001),
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        limits[i].align = LIMIT_ALIGN_FIRST;
    limit_histories(12, limits, sizeof limits / sizeof *limits, &model);
}

/* ---- windows of the calendar ----------------------------------------------------------------- */

enum { DAY_S = 86400, HOUR_S = 3600, SPANS = 200 };

/* A zone that moves its clock every few weeks, by a whole hour at a whole hour. */
static struct calendar_zone busy_zone(struct calendar_span *spans, struct random *random)
{
    int64_t at_s = (LIMIT_TEST_EPOCH_NS / 1000000000 / DAY_S - 30) * DAY_S;
    for (uint32_t i = 0; i < SPANS; i++) {
        spans[i] = (struct calendar_span){at_s, i % 2 == 0 ? 2 * HOUR_S : 3 * HOUR_S};
        at_s += random_between(random, 9, 40) * DAY_S + random_between(random, 0, 23) * HOUR_S;
    }
    return (struct calendar_zone){spans, SPANS};
}

/* The limit as a node resolves it whose clock shows `now_ns`. */
static struct limit resolved(const struct calendar_zone *zone, uint64_t count, unsigned align,
                             int64_t now_ns)
{
    struct limit limit = window_limit(count, 1);
    limit.align = (uint8_t)align;
    calendar_place(zone, now_ns, &limit);
    return limit;
}

/* One history of a unit: requests come through nodes whose clocks differ from the leader's. */
static void calendar_history(struct random *random, unsigned align, unsigned operations)
{
    static struct calendar_span spans[SPANS];
    const struct calendar_zone zone = busy_zone(spans, random);
    struct table *table = limit_table();
    const uint64_t count = 1 + random_below(random, 20);
    const int64_t length_ns = (int64_t)resolved(&zone, 1, align, LIMIT_TEST_EPOCH_NS).window_ns;
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    int64_t start_ns = 0; /* of the window that counts, in the model */
    uint64_t counted = 0;
    for (unsigned i = 0; i < operations; i++) {
        now_ns += random_below(random, 20) == 0
                      ? random_between(random, -length_ns / 2, 3 * length_ns)
                      : random_between(random, 0, length_ns / 20);
        if (now_ns > LIMIT_TEST_EPOCH_NS + INT64_C(2000) * DAY_S * 1000000000 ||
            now_ns < LIMIT_TEST_EPOCH_NS)
            now_ns = LIMIT_TEST_EPOCH_NS;
        const int64_t here_ns = resolved(&zone, count, align, now_ns).start_ns;
        /* A window further ahead than clocks differ came with a wrong one: exhausted as of now. */
        const bool ahead = counted > 0 && start_ns > now_ns + INT64_C(2000000000);
        const bool fresh = counted == 0 || here_ns > start_ns;
        uint64_t used = ahead ? count : fresh ? 0 : counted;
        const int64_t skew_ns = random_between(random, -length_ns / 3, length_ns / 3);
        const struct limit limit = resolved(&zone, count, align, now_ns + skew_ns);
        const uint64_t cost = 1 + random_below(random, 2);
        const enum operation operation =
            random_below(random, 8) == 0 ? OPERATION_REFUND : OPERATION_CHECK;
        const struct limit_decision as_is =
            limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, now_ns);
        const struct limit_decision peeked =
            limit_do(table, 1, &limit, OPERATION_PEEK, cost, 0, now_ns);
        const struct limit_decision got = limit_do(table, 1, &limit, operation, cost, 0, now_ns);
        const uint64_t before = used;
        if (operation == OPERATION_CHECK)
            limit_assert_peek(&peeked, &as_is, &got);
        if (operation == OPERATION_REFUND) {
            used -= cost < used ? cost : used;
        } else {
            assert_int_equal(got.allowed, used + cost <= count);
            used += got.allowed ? cost : 0;
        }
        if (ahead || used != before) { /* else it is not touched, should time go back */
            start_ns = fresh || ahead ? here_ns : start_ns;
            counted = used;
        }
        assert_int_equal(got.used, used);
        assert_true(used == 0 || got.reset_after_ns > 0);
    }
    table_check_invariants(table);
    table_free(&table);
}

/* Whose clock ever resolved the window: the leader's says which one counts, and in none is more
 * admitted than the limit. Days of 23, 24 and 25 hours are one window each. */
static void a_calendar_window_is_that_of_the_deciders_clock(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 13);
    for (unsigned n = 0; n < 12; n++)
        for (unsigned align = LIMIT_ALIGN_MINUTE; align < LIMIT_ALIGN_COUNT; align++)
            calendar_history(&random, align, HISTORY / 72);
}

/* Whoever resolved the window may have a clock that is off by many windows: it is decided in the
 * window of the leader's clock, as for anybody else, and denies nobody whose clock is right. */
static void a_window_found_by_a_clock_far_off_is_that_of_now(void **state)
{
    (void)state;
    static const struct calendar_span utc = {INT64_MIN, 0};
    const struct calendar_zone zone = {&utc, 1};
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS + 17 * INT64_C(1000000000);
    for (unsigned align = LIMIT_ALIGN_MINUTE; align < LIMIT_ALIGN_COUNT; align++) {
        struct table *table = limit_table();
        const struct limit right = resolved(&zone, 3, align, now_ns);
        const int64_t length_ns = (int64_t)right.window_ns;
        for (int64_t by = -50; by <= 50; by++) {
            if (by >= -1 && by <= 1)
                continue;
            struct limit ahead = resolved(&zone, 3, align, now_ns + by * length_ns);
            const struct limit_decision asked =
                limit_do(table, (uint64_t)(by + 100), &ahead, OPERATION_CHECK, 1, 0, now_ns);
            assert_true(asked.allowed);
            assert_int_equal(asked.used, 1);
            assert_true(asked.reset_after_ns <= 2 * length_ns);
            ahead.before_s = 0; /* as nobody resolves it */
            (void)limit_do(table, (uint64_t)(by + 100), &ahead, OPERATION_PEEK, 1, 0, now_ns);
            const struct limit_decision got =
                limit_do(table, (uint64_t)(by + 100), &right, OPERATION_CHECK, 1, 0, now_ns);
            assert_true(got.allowed);
            if (align <= LIMIT_ALIGN_DAY) /* longer ones differ in length */
                assert_int_equal(got.used, 2);
        }
        table_free(&table);
    }
}

/* An hour of which a change of the clock leaves half is over when that half is, though keys so near
 * to each other could be those of two rules; whoever resolved the request, and when. */
static void an_hour_cut_short_is_over_when_it_ends(void **state)
{
    (void)state;
    const int64_t change_s = 1712000000 / DAY_S * DAY_S + 2 * HOUR_S - 37800; /* 02:00 --> 02:30 */
    const struct calendar_span spans[] = {{INT64_MIN, 37800}, {change_s, 39600}};
    const struct calendar_zone zone = {spans, 2};
    const int64_t change_ns = change_s * 1000000000;
    const int64_t half_ns = INT64_C(1800000000000);
    const int64_t times_ns[] = {change_ns - 10, change_ns, change_ns + half_ns,
                                change_ns + 3 * half_ns};
    struct table *table = limit_table();
    for (uint64_t key = 1; key <= 2; key++) /* resolved in time, or in the window before */
        for (size_t i = key - 1; i < sizeof times_ns / sizeof *times_ns; i++) {
            const int64_t seen_ns = times_ns[key == 1 ? i : i - 1];
            const struct limit limit = resolved(&zone, 2, LIMIT_ALIGN_HOUR, seen_ns);
            const int64_t now_ns = times_ns[i] + 5;
            if (i == 1 && key == 1)
                assert_int_equal(limit.window_ns, half_ns);
            for (uint64_t n = 1; n <= 3; n++)
                assert_int_equal(
                    limit_do(table, key, &limit, OPERATION_CHECK, 1, 0, now_ns).allowed, n <= 2);
        }
    table_free(&table);
}

/* A rule that moves from one alignment to another carries along what is not surely over. */
static void a_changed_alignment_keeps_the_count(void **state)
{
    (void)state;
    static const struct calendar_span utc = {INT64_MIN, 0};
    const struct calendar_zone zone = {&utc, 1};
    struct table *table = limit_table();
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS + INT64_C(12) * HOUR_S * 1000000000;
    const struct limit epoch = window_limit(100, (uint64_t)DAY_S * 1000000000);
    struct limit first = epoch;
    first.align = LIMIT_ALIGN_FIRST;
    const struct limit day = resolved(&zone, 100, LIMIT_ALIGN_DAY, now_ns);
    const struct limit month = resolved(&zone, 100, LIMIT_ALIGN_MONTH, now_ns);
    const struct limit *const limits[] = {&epoch, &first, &day, &month, &first, &month, &epoch};
    for (uint64_t i = 0; i < sizeof limits / sizeof *limits; i++)
        assert_int_equal(limit_do(table, 1, limits[i], OPERATION_CHECK, 1, 0, now_ns).used, i + 1);
    table_free(&table);
}

/* A first window that counts beyond its slot moves to the arena, and gives the block back. */
static void large_counts_of_first_windows_live_in_the_arena(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct table_stats stats;
    struct limit limit = window_limit(LIMIT_COUNT_MAX, 1000000000000000);
    limit.align = LIMIT_ALIGN_FIRST;
    (void)limit_do(table, 1, &limit, OPERATION_HIT, UINT64_MAX, 0, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, LIMIT_TEST_EPOCH_NS).used,
                     2 * LIMIT_COUNT_MAX);
    table_stats(table, &stats);
    assert_true(stats.arena_bytes > 0);
    limit.align = LIMIT_ALIGN_EPOCH;
    assert_int_equal(limit_do(table, 1, &limit, OPERATION_REFUND, 1, 0, LIMIT_TEST_EPOCH_NS).used,
                     2 * LIMIT_COUNT_MAX - 1);
    table_stats(table, &stats);
    assert_int_equal(stats.arena_bytes, 0);
    table_free(&table);
}

/* The largest count of the largest window fits, debt and all. */
static void the_largest_count_fits(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = window_limit(LIMIT_COUNT_MAX, 1000000000000000);
    const struct limit_decision got =
        limit_do(table, 1, &limit, OPERATION_HIT, UINT64_MAX, 0, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(got.used, 2 * LIMIT_COUNT_MAX);
    assert_int_equal(limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, LIMIT_TEST_EPOCH_NS + 1).used,
                     2 * LIMIT_COUNT_MAX);
    table_free(&table);
}

/* A rule whose count or window changes keeps what was consumed. */
static void a_changed_window_keeps_the_count(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const uint64_t windows_ns[] = {60000000000, 50000000000, 3600000000000, 10000000000};
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS + 3000000000;
    const struct limit first = window_limit(10, 60000000000);
    (void)limit_do(table, 1, &first, OPERATION_CHECK, 4, 0, now_ns);
    for (size_t i = 0; i < 4; i++) {
        const struct limit next = window_limit(20, windows_ns[i]);
        const struct limit_decision got = limit_do(table, 1, &next, OPERATION_CHECK, 1, 0, now_ns);
        assert_int_equal(got.used, 5 + i);
        assert_int_equal(got.remaining, 15 - i);
    }
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_one_counter_per_window),
        cmocka_unit_test(agrees_with_a_stopwatch),
        cmocka_unit_test(a_calendar_window_is_that_of_the_deciders_clock),
        cmocka_unit_test(a_window_found_by_a_clock_far_off_is_that_of_now),
        cmocka_unit_test(an_hour_cut_short_is_over_when_it_ends),
        cmocka_unit_test(a_changed_alignment_keeps_the_count),
        cmocka_unit_test(large_counts_of_first_windows_live_in_the_arena),
        cmocka_unit_test(the_largest_count_fits),
        cmocka_unit_test(a_changed_window_keeps_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
