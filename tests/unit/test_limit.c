/* test_limit.c - which parameters of a limit can be decided upon, and what refusals say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/limit.h"
#include "base/quantity.h"

#define SECOND_NS 1000000000ULL

static const struct limit plain = {
    .count = 5, .window_ns = 60 * SECOND_NS, .algorithm = ALGORITHM_TOKEN_BUCKET};

/* Checks that `limit` is refused with a sentence that contains `words`. */
static void refused_with(struct limit limit, const char *words)
{
    char error[QUANTITY_ERROR_LEN] = "";

    assert_int_equal(limit_validate(&limit, error), TG_EINVALID);
    if (strstr(error, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error, words);
}

static void accepted(struct limit limit)
{
    char error[QUANTITY_ERROR_LEN] = "";

    if (limit_validate(&limit, error) != TG_OK)
        fail_msg("refused: %s", error);
}

/* An ordinary limit is fine with each algorithm. */
static void ordinary_limits_are_accepted(void **state)
{
    struct limit limit = plain;

    (void)state;
    for (uint8_t i = 0; i < ALGORITHM_COUNT; i++) {
        limit.algorithm = i;
        accepted(limit);
    }
}

/* The ends of each range are in, and one step further is out. */
static void ranges_include_their_ends(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.count = 0;
    refused_with(limit, "count 0: expected 1 to 1000000000000000");
    limit.count = 1;
    accepted(limit);
    limit.window_ns = LIMIT_WINDOW_MIN_NS;
    accepted(limit);
    limit.window_ns--;
    refused_with(limit, "window 999999ns: expected 1 ms to 10 years");
    limit.window_ns = LIMIT_WINDOW_MAX_NS;
    accepted(limit);
    limit.count = LIMIT_COUNT_MAX;
    accepted(limit);
    limit.count++;
    refused_with(limit, "count");
    limit = plain;
    limit.window_ns = LIMIT_WINDOW_MAX_NS + 1;
    refused_with(limit, "window");
    limit.window_ns = UINT64_MAX;
    refused_with(limit, "window");
}

/* Only buckets have a capacity apart from their count. */
static void burst_belongs_to_buckets_alone(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.burst = 1;
    accepted(limit);
    limit.count = LIMIT_RATE_MAX;
    limit.window_ns = 1000000000;
    limit.burst = LIMIT_COUNT_MAX;
    accepted(limit);
    limit.burst++;
    refused_with(limit, "burst 1000000000000001: expected at most");
    for (uint8_t i = 0; i < ALGORITHM_COUNT; i++) {
        limit.algorithm = i;
        limit.burst = 10;
        if (limit_has_burst(i))
            accepted(limit);
        else
            refused_with(limit, "only token_bucket and leaky_bucket have a burst");
    }
}

/* A burst that would take more than 73 years to refill is refused, never cut. */
static void a_burst_refills_within_73_years(void **state)
{
    struct limit limit = {.count = 1, .window_ns = UINT64_C(31536000000000000), .burst = 73};

    (void)state;
    accepted(limit);
    limit.burst++;
    refused_with(limit, "burst 74: takes more than 73 years to refill; expected at most 73");
    limit.count = 2;
    accepted(limit);
    limit.burst = 140;
    limit.exceed_percent = 5; /* 2 a year stay 2, 140 become 147 */
    refused_with(limit, "exceeded by 5%: burst 147: takes more than 73 years");
}

/* A sliding log keeps one entry an event, so its count bounds its memory. */
static void a_sliding_log_is_bounded_by_its_entries(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.algorithm = ALGORITHM_SLIDING_LOG;
    limit.count = LIMIT_LOG_COUNT_MAX;
    accepted(limit);
    limit.count++;
    refused_with(limit, "sliding_log keeps every event");
    limit.algorithm = ALGORITHM_SLIDING_WINDOW;
    accepted(limit);
}

/* 10^9 a second is the finest a nanosecond clock can tell apart. */
static void a_rate_above_one_per_nanosecond_is_refused(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.window_ns = SECOND_NS;
    limit.count = 600000000;
    accepted(limit);
    limit.count = LIMIT_RATE_MAX;
    accepted(limit);
    limit.count++;
    refused_with(limit, "more than 1000000000 per second");
    limit.window_ns = 60 * SECOND_NS; /* one more in a minute is a fraction more a second */
    limit.count = 60 * LIMIT_RATE_MAX;
    accepted(limit);
    limit.count++;
    refused_with(limit, "per second");
    limit.window_ns = LIMIT_WINDOW_MIN_NS;
    limit.count = 1000000;
    accepted(limit);
    limit.count++;
    refused_with(limit, "per second");
}

/* A number from outside that is no algorithm is refused and not looked up. */
static void an_unknown_algorithm_is_refused(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.algorithm = ALGORITHM_COUNT;
    refused_with(limit, ": expected a number from 0 to");
    limit.algorithm = UINT8_MAX;
    refused_with(limit, "algorithm 255: expected");
}

/* What users see as "limit" is the most that can pass at once. */
static void the_capacity_is_the_burst_where_there_is_one(void **state)
{
    struct limit limit = plain;

    (void)state;
    assert_true(limit_capacity(&limit) == 5);
    limit.burst = 20;
    assert_true(limit_capacity(&limit) == 20);
    limit.algorithm = ALGORITHM_FIXED_WINDOW;
    assert_true(limit_capacity(&limit) == 5);
}

/* What a soft limit may be exceeded by is rounded down, for count and burst alike. */
static void a_soft_limit_is_exceeded_by_whole_tokens(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.exceed_percent = 10;
    accepted(limit);
    assert_true(limit_effective(&limit).count == 5);
    limit.count = 109;
    limit.burst = 29;
    const struct limit effective = limit_effective(&limit);
    assert_true(effective.count == 119 && effective.burst == 31);
    assert_true(effective.exceed_percent == 0 && effective.window_ns == limit.window_ns);
    limit.exceed_percent = 0;
    assert_true(limit_effective(&limit).count == 109 && limit_effective(&limit).burst == 29);
}

/* The bounds of limits hold for what a soft one may be exceeded by. */
static void a_soft_limit_above_a_bound_is_refused(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.exceed_percent = LIMIT_EXCEED_MAX;
    accepted(limit);
    limit.exceed_percent++;
    refused_with(limit, "exceed 1001%: expected at most 1000%");
    limit.exceed_percent = 1;
    limit.count = LIMIT_COUNT_MAX;
    limit.window_ns = LIMIT_WINDOW_MAX_NS;
    refused_with(limit, "exceeded by 1%: count 1010000000000000: expected 1 to");
    limit = plain;
    limit.exceed_percent = 10;
    limit.algorithm = ALGORITHM_SLIDING_LOG;
    limit.count = 60000;
    refused_with(limit, "exceeded by 10%: count 66000: sliding_log keeps every event");
    limit = plain;
    limit.exceed_percent = 10;
    limit.count = LIMIT_RATE_MAX;
    limit.window_ns = SECOND_NS;
    refused_with(limit, "exceeded by 10%: count 1100000000: more than");
}

/* An elastic limit says which pool lends to it, at which weight, how far, and in which class. */
static void an_elastic_limit_has_its_ranges(void **state)
{
    struct limit limit = plain;

    (void)state;
    limit.pool = 77;
    refused_with(limit, "weight 0: expected 1 to 1000");
    limit.weight = LIMIT_WEIGHT_MAX;
    accepted(limit);
    limit.ceiling_percent = 100;
    refused_with(limit, "ceiling 100%: expected more than 100%");
    limit.ceiling_percent = LIMIT_CEILING_MAX;
    accepted(limit);
    limit.ceiling_percent++;
    refused_with(limit, "ceiling 100001%: expected more than 100%");
    limit.ceiling_percent = 300;
    limit.class = LIMIT_CLASSES;
    refused_with(limit, "class 3: expected 0 to 2");
    limit.class = 0;
    limit.exceed_percent = 10;
    refused_with(limit, "exceed 10%: found in mode elastic");
    limit.exceed_percent = 0;
    limit.algorithm = ALGORITHM_CONCURRENCY;
    refused_with(limit, "algorithm concurrency: found in mode elastic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_limits_are_accepted),
        cmocka_unit_test(ranges_include_their_ends),
        cmocka_unit_test(burst_belongs_to_buckets_alone),
        cmocka_unit_test(a_burst_refills_within_73_years),
        cmocka_unit_test(a_sliding_log_is_bounded_by_its_entries),
        cmocka_unit_test(a_rate_above_one_per_nanosecond_is_refused),
        cmocka_unit_test(an_unknown_algorithm_is_refused),
        cmocka_unit_test(the_capacity_is_the_burst_where_there_is_one),
        cmocka_unit_test(a_soft_limit_is_exceeded_by_whole_tokens),
        cmocka_unit_test(a_soft_limit_above_a_bound_is_refused),
        cmocka_unit_test(an_elastic_limit_has_its_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
