/* test_sliding_log.c - the exact rolling window against a plain list of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_limit.h"

enum { EVENTS_MAX = 1 << 16 };

/* Every event with its time, rounded up to the quantum of the window. */
struct list {
    const struct limit *limit;
    int64_t quantum_ns;
    int64_t last_ns;
    size_t count;
    struct limit_entry entry[EVENTS_MAX];
};

static struct list list;

static void list_clear(void *state, const struct limit *limit)
{
    struct list *l = state;
    l->limit = limit;
    l->count = 0;
    l->last_ns = 0;
    l->quantum_ns = 1;
    while (limit->window_ns / (uint64_t)l->quantum_ns > 1u << 30)
        l->quantum_ns *= 10;
}

/* Counts what lies in (now - W, now]. */
static uint64_t list_used(void *state, int64_t now_ns)
{
    const struct list *l = state;
    uint64_t used = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->entry[i].at > now_ns - (int64_t)l->limit->window_ns)
            used += l->entry[i].tokens;
    return used;
}

/* What a later time has seen leave is gone for good; a peek sees nothing. */
static void list_tidy(void *state, int64_t now_ns, uint64_t most)
{
    struct list *l = state;
    size_t kept = 0;
    (void)most;
    for (size_t i = 0; i < l->count; i++)
        if (l->entry[i].at > now_ns - (int64_t)l->limit->window_ns)
            l->entry[kept++] = l->entry[i];
    l->count = kept;
}

/* The 4-byte words that the log may need for the list. */
static uint64_t list_words(const struct list *l)
{
    uint64_t words = 0;
    for (size_t i = 0; i < l->count; i++)
        words += l->entry[i].tokens > 1 ? 2 : 1;
    return words;
}

/* Adds at the end; entries in debt that would need more memory than the limit's count merge. */
static void list_add(void *state, int64_t now_ns, uint64_t count)
{
    struct list *l = state;
    int64_t time_ns = (now_ns + l->quantum_ns - 1) / l->quantum_ns * l->quantum_ns;
    if (l->count > 0 && time_ns < l->last_ns)
        time_ns = l->last_ns;
    l->last_ns = time_ns;
    while (list_words(l) + (count > 1 ? 2 : 1) > l->limit->count)
        count += l->entry[--l->count].tokens;
    l->entry[l->count++] = (struct limit_entry){time_ns, count};
}

static void list_sub(void *state, int64_t now_ns, uint64_t count)
{
    struct list *l = state;
    (void)now_ns;
    l->count = limit_take_back(l->entry, l->count, count);
}

static int64_t list_begins(void *state)
{
    const struct list *l = state;
    return l->count == 0 ? 0 : l->last_ns - l->quantum_ns;
}

static struct limit log_limit(uint64_t count, uint64_t window_ns)
{
    return (struct limit){
        .count = count, .window_ns = window_ns, .algorithm = ALGORITHM_SLIDING_LOG};
}

/* Every decision of long random histories is that of the list. */
static void agrees_with_a_list_of_times(void **state)
{
    (void)state;
    const struct limit limits[] = {
        log_limit(500, 60000000000),     log_limit(40, 1000000),      log_limit(100, 3600000000000),
        log_limit(30, 2592000000000000), log_limit(1000, 1000000000), log_limit(4, 60000000000),
    };
    const struct limit_model model = {.clear = list_clear,
                                      .used = list_used,
                                      .add = list_add,
                                      .sub = list_sub,
                                      .tidy = list_tidy,
                                      .begins = list_begins,
                                      .state = &list,
                                      .state_len = sizeof list};
    limit_histories(5, limits, sizeof limits / sizeof *limits, &model);
}

/* Whatever happens, no interval (t - W, t] ever holds more than `count` admitted events; and what
 * is older than a window, to the ns, does not count. */
static void never_admits_more_in_any_interval(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 6);
    for (uint64_t count = 1; count <= 12; count++) {
        const struct limit limit = log_limit(count, 1000000000);
        limit_intervals(&random, &limit, true, 0);
        limit_intervals(&random, &limit, false, 1000000000);
    }
}

/* The fifth of 5/h leaves exactly an hour after it came, to the ns for whole microseconds. */
static void five_an_hour_frees_the_sixth_after_an_hour(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = log_limit(5, 3600000000000);
    for (unsigned i = 0; i < 5; i++)
        assert_true(
            limit_do(table, 1, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS + i * 1000000)
                .allowed);
    const struct limit_decision denied =
        limit_do(table, 1, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS + 5000000);
    assert_false(denied.allowed);
    assert_int_equal(denied.retry_after_ns, 3600000000000 - 5000000);
    assert_true(
        limit_do(table, 1, &limit, OPERATION_CHECK, 1, 0, LIMIT_TEST_EPOCH_NS + 3600000000000)
            .allowed);
    table_free(&table);
}

/* A new count or window keeps the events; a finer or coarser quantum never lets one go early. */
static void a_changed_rule_keeps_the_events(void **state)
{
    (void)state;
    const uint64_t windows_ns[] = {60000000000,    3600000000000, 600000000000,
                                   86400000000000, 30000000000,   2592000000000000};
    struct table *table = limit_table();
    int64_t now_ns = LIMIT_TEST_EPOCH_NS + 12345;
    for (uint64_t i = 0; i < sizeof windows_ns / sizeof *windows_ns; i++) {
        const struct limit limit = log_limit(10 + i, windows_ns[i]);
        const struct limit_decision got = limit_do(table, 1, &limit, OPERATION_CHECK, 1, 0, now_ns);
        assert_int_equal(got.used, i + 1);
        assert_true(got.reset_after_ns >= (int64_t)windows_ns[i]);
        now_ns += 1000000;
    }
    table_check_invariants(table);
    table_free(&table);
}

/* A cost of many tokens is one run, not many entries; and hits in debt stay within the bound. */
static void memory_stays_within_four_bytes_an_event(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct table_stats stats;
    const struct limit large = log_limit(LIMIT_LOG_COUNT_MAX, 3600000000000);
    assert_true(
        limit_do(table, 1, &large, OPERATION_CHECK, LIMIT_LOG_COUNT_MAX, 0, LIMIT_TEST_EPOCH_NS)
            .allowed);
    table_stats(table, &stats);
    assert_true(stats.arena_bytes <= 64);
    const struct limit small = log_limit(20, 3600000000000);
    for (unsigned i = 0; i < 100; i++)
        (void)limit_do(table, 2, &small, OPERATION_HIT, 1, 0, LIMIT_TEST_EPOCH_NS + i * 1000000);
    assert_int_equal(
        limit_do(table, 2, &small, OPERATION_PEEK, 0, 0, LIMIT_TEST_EPOCH_NS + 1000000000).used,
        40);
    table_stats(table, &stats);
    assert_true(stats.arena_bytes <= 64 + 20 * 4 + 48);
    table_check_invariants(table);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_list_of_times),
        cmocka_unit_test(never_admits_more_in_any_interval),
        cmocka_unit_test(five_an_hour_frees_the_sixth_after_an_hour),
        cmocka_unit_test(a_changed_rule_keeps_the_events),
        cmocka_unit_test(memory_stays_within_four_bytes_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
