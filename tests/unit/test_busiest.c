/* test_busiest.c - the sketch of busy rules, against a count of all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/model/busiest.h"

#define MS INT64_C(1000000)

enum { RULES = 200 };

static uint32_t found(const struct busiest_counts *counts, uint16_t rank, uint32_t *denied)
{
    for (uint32_t i = 0; i < counts->count; i++)
        if (counts->ranks[i] == rank) {
            *denied = counts->denied[i];
            return counts->checks[i];
        }
    return 0;
}

static void few_rules_are_counted_exactly(void **state)
{
    struct busiest busiest = {.digest = 0};
    uint32_t denied;
    (void)state;
    for (int64_t ms = 1; ms <= 1000; ms++)
        busiest_count(&busiest, 7, (uint16_t)(ms % 10), ms % 20 == 3, 5000 * MS + ms * MS);
    assert_int_equal(found(&busiest.now, 3, &denied), 100);
    assert_int_equal(denied, 50);
    assert_int_equal(found(&busiest.now, 4, &denied), 100);
    assert_int_equal(denied, 0);
    assert_int_equal(busiest.span_ns, 0);
    busiest_count(&busiest, 7, 3, false, 6001 * MS);
    assert_int_equal(busiest.span_ns, 1000 * MS);
    assert_int_equal(found(&busiest.last, 3, &denied), 100);
    assert_int_equal(found(&busiest.now, 3, &denied), 1);
}

/* Whoever answers more than one in BUSIEST_TRACKED is there, and is told no less than it did. */
static void no_busy_rule_is_missed_among_many(void **state)
{
    struct busiest busiest = {.digest = 0};
    uint32_t truth[RULES] = {0};
    struct random random;
    uint32_t checks = 0;
    (void)state;
    random_init(&random, 11);
    for (int i = 0; i < 20000; i++) {
        const bool busy = random_below(&random, 2) == 0;
        const uint16_t rank =
            (uint16_t)(busy ? random_below(&random, 4) * 50 : random_below(&random, RULES));
        truth[rank]++;
        checks++;
        busiest_count(&busiest, 7, rank, false, 1000 * MS + i * MS / 40);
    }
    assert_int_equal(busiest.now.count, BUSIEST_TRACKED);
    for (uint16_t rank = 0; rank < RULES; rank++) {
        uint32_t denied;
        const uint32_t told = found(&busiest.now, rank, &denied);
        if (truth[rank] > checks / BUSIEST_TRACKED)
            assert_true(told >= truth[rank] && told <= truth[rank] + checks / BUSIEST_TRACKED);
        assert_true(told == 0 || told >= truth[rank]);
    }
}

static void other_rules_begin_anew(void **state)
{
    struct busiest busiest = {.digest = 0};
    uint32_t denied;
    (void)state;
    busiest_count(&busiest, 7, 1, true, 1000 * MS);
    busiest_count(&busiest, 8, 1, false, 1001 * MS);
    assert_int_equal(found(&busiest.now, 1, &denied), 1);
    assert_int_equal(denied, 0);
    assert_int_equal(busiest.span_ns, 0);           /* what went before has no rate */
    busiest_count(&busiest, 8, 1, false, 500 * MS); /* a time that went back */
    assert_int_equal(found(&busiest.now, 1, &denied), 1);
    assert_int_equal(busiest.span_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rules_are_counted_exactly),
        cmocka_unit_test(no_busy_rule_is_missed_among_many),
        cmocka_unit_test(other_rules_begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
