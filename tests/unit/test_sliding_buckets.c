/* test_sliding_buckets.c - the window cut into sub-windows against a plain list of counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_limit.h"

enum { ENTRIES_MAX = 1024 };

/* One entry a sub-window that has counts, by its number. */
struct list {
    int64_t sub_ns;
    int64_t cut;
    int64_t newest;
    size_t count;
    struct limit_entry entry[ENTRIES_MAX];
};

static struct list list;

static void list_clear(void *state, const struct limit *limit)
{
    struct list *l = state;
    memset(l, 0, sizeof *l);
    l->cut = limit->buckets != 0 ? limit->buckets : 60;
    l->sub_ns = ((int64_t)limit->window_ns + l->cut - 1) / l->cut;
}

static uint64_t list_used(void *state, int64_t now_ns)
{
    const struct list *l = state;
    const int64_t now = now_ns / l->sub_ns;
    uint64_t used = 0;
    for (size_t i = 0; i < l->count; i++)
        used += l->entry[i].at + l->cut >= now ? l->entry[i].tokens : 0;
    return used;
}

/* Time has come to `now`: what has left by then has left for good. */
static void list_turn(struct list *l, int64_t now_ns)
{
    const int64_t now = now_ns / l->sub_ns;
    size_t kept = 0;
    if (now > l->newest || l->count == 0)
        l->newest = now;
    for (size_t i = 0; i < l->count; i++)
        if (l->entry[i].at + l->cut >= l->newest)
            l->entry[kept++] = l->entry[i];
    l->count = kept;
}

static void list_add(void *state, int64_t now_ns, uint64_t count)
{
    struct list *l = state;
    list_turn(l, now_ns);
    if (l->count == 0 || l->entry[l->count - 1].at < l->newest) {
        assert_true(l->count < ENTRIES_MAX);
        l->entry[l->count++] = (struct limit_entry){.at = l->newest};
    }
    l->entry[l->count - 1].tokens += count;
}

static void list_sub(void *state, int64_t now_ns, uint64_t count)
{
    struct list *l = state;
    if (list_used(l, now_ns) == 0)
        return; /* nothing to give back: the state is not touched */
    if (count > 0)
        list_turn(l, now_ns);
    l->count = limit_take_back(l->entry, l->count, count);
}

static int64_t list_begins(void *state)
{
    const struct list *l = state;
    return l->count == 0 ? 0 : l->newest * l->sub_ns;
}

static const struct limit_model model = {.clear = list_clear,
                                         .used = list_used,
                                         .add = list_add,
                                         .sub = list_sub,
                                         .begins = list_begins,
                                         .state = &list,
                                         .state_len = sizeof list};

static struct limit buckets_limit(uint64_t count, uint64_t window_ns, uint8_t buckets)
{
    return (struct limit){.count = count,
                          .window_ns = window_ns,
                          .buckets = buckets,
                          .algorithm = ALGORITHM_SLIDING_BUCKETS};
}

/* Every decision of long random histories is that of the list; counts of all widths. */
static void agrees_with_a_list_of_counts(void **state)
{
    (void)state;
    const struct limit limits[] = {
        buckets_limit(50, 60000000000, 0),
        buckets_limit(5, 1000000, 7),
        buckets_limit(1000, 3600000000000, 240),
        buckets_limit(400000, 1000000000, 10),
        buckets_limit(1000000000000, 86400000000000, 0),
        buckets_limit(30, 2592000000000001, 2),
        buckets_limit(200000, 60000000000, 3),
    };
    limit_histories(21, limits, sizeof limits / sizeof *limits, &model);
}

/* Whatever happens, no interval (t - W, t] ever holds more than `count` admitted events; and none
 * counts for longer than a window and a sub-window. */
static void never_admits_more_in_any_interval(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 22);
    for (uint64_t count = 1; count <= 24; count++) {
        const uint8_t buckets = (uint8_t)(2 + random_below(&random, 30));
        const struct limit limit =
            buckets_limit(count, 1000000000 + random_below(&random, 1000), buckets);
        limit_intervals(&random, &limit, false,
                        (int64_t)(limit.window_ns + limit.window_ns / buckets + 2));
    }
}

/* A rule whose count, window or sub-windows change keeps what was consumed, for long enough. */
static void a_changed_rule_keeps_the_counts(void **state)
{
    (void)state;
    const struct {
        uint64_t window_ns;
        uint8_t buckets;
    } rules[] = {{60000000000, 0},     {3600000000000, 0}, {600000000000, 12},
                 {86400000000000, 60}, {30000000000, 240}, {2592000000000000, 2}};
    struct table *table = limit_table();
    int64_t now_ns = LIMIT_TEST_EPOCH_NS + 12345;
    for (uint64_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct limit limit = buckets_limit(10 + i, rules[i].window_ns, rules[i].buckets);
        const struct limit_decision as_is =
            limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, now_ns);
        const struct limit_decision peeked =
            limit_do(table, 1, &limit, OPERATION_PEEK, 1, 0, now_ns);
        const struct limit_decision got = limit_do(table, 1, &limit, OPERATION_CHECK, 1, 0, now_ns);
        limit_assert_peek(&peeked, &as_is, &got);
        assert_int_equal(got.used, i + 1);
        assert_true(got.reset_after_ns >= (int64_t)rules[i].window_ns);
        now_ns += 1000000;
    }
    table_check_invariants(table);
    table_free(&table);
}

/* However often the window is cut anew, and whenever: what came within a window of now counts, and
 * three windows later nothing does. */
static void no_other_cut_forgets_what_counts(void **state)
{
    (void)state;
    enum { EVENTS = 60, ROUNDS = 300, WINDOW_NS = 1000000000 };
    struct random random;
    random_init(&random, 23);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct table *table = limit_table();
        int64_t came_ns[EVENTS];
        int64_t now_ns = LIMIT_TEST_EPOCH_NS + (int64_t)random_below(&random, WINDOW_NS);
        for (size_t i = 0; i < EVENTS; i++) {
            const uint8_t cut = (uint8_t)(2 + random_below(&random, 1U << (1 + i % 7)));
            const struct limit limit = buckets_limit(1000000, WINDOW_NS, cut);
            uint64_t counting = 1;
            now_ns += random_between(&random, 0, WINDOW_NS / 8);
            came_ns[i] = now_ns;
            for (size_t k = 0; k < i; k++)
                counting += came_ns[k] > now_ns - WINDOW_NS;
            assert_true(limit_do(table, 1, &limit, OPERATION_HIT, 1, 0, now_ns).used >= counting);
        }
        const struct limit limit = buckets_limit(1000000, WINDOW_NS, 2);
        now_ns += 3 * (int64_t)WINDOW_NS;
        assert_int_equal(limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, now_ns).used, 0);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* Two bytes a sub-window while counts are small, four and eight when one is not, and back. */
static void counts_are_as_wide_as_they_need(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct table_stats stats;
    const struct limit limit = buckets_limit(LIMIT_COUNT_MAX, 1000000000000000, 0);
    const uint64_t costs[] = {65535, 1, UINT32_MAX - 65536, 1};
    const uint64_t bytes[] = {176, 288, 288, 528};
    for (unsigned i = 0; i < 4; i++) {
        (void)limit_do(table, 1, &limit, OPERATION_HIT, costs[i], 0, LIMIT_TEST_EPOCH_NS);
        table_stats(table, &stats);
        assert_int_equal(stats.arena_bytes, bytes[i]);
    }
    assert_int_equal(limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, LIMIT_TEST_EPOCH_NS).used,
                     UINT64_C(1) << 32);
    (void)limit_do(table, 1, &limit, OPERATION_HIT, UINT64_MAX, 0, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(limit_do(table, 1, &limit, OPERATION_PEEK, 0, 0, LIMIT_TEST_EPOCH_NS).used,
                     2 * LIMIT_COUNT_MAX);
    (void)limit_do(table, 1, &limit, OPERATION_RESET, 0, 0, LIMIT_TEST_EPOCH_NS);
    table_stats(table, &stats);
    assert_int_equal(stats.arena_bytes, 0);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_list_of_counts),
        cmocka_unit_test(never_admits_more_in_any_interval),
        cmocka_unit_test(a_changed_rule_keeps_the_counts),
        cmocka_unit_test(no_other_cut_forgets_what_counts),
        cmocka_unit_test(counts_are_as_wide_as_they_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
