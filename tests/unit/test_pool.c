/* test_pool.c - the pool against a naive set of indexes, its failures and its assertions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/pool.h"
#include "base/random.h"
#include "tests/unit/support_death.h"

/* A pool gives each of its elements once, then says that it is empty. */
static void a_pool_gives_each_element_once(void **state)
{
    enum { CAPACITY = 5 };
    bool seen[CAPACITY] = {false};
    struct pool pool;

    (void)state;
    assert_int_equal(pool_init(&pool, alloc_heap(), 24, CAPACITY), 0);
    for (int i = 0; i < CAPACITY; i++) {
        const uint32_t index = pool_get(&pool);
        assert_true(index < CAPACITY && !seen[index]);
        seen[index] = true;
    }
    assert_true(pool_get(&pool) == POOL_NONE);
    assert_int_equal(pool.used, CAPACITY);
    pool_fini(&pool);
}

/* What the last owner wrote is not seen by the next. */
static void an_element_comes_zeroed_also_the_second_time(void **state)
{
    static const unsigned char zeros[24];
    struct pool pool;

    (void)state;
    assert_int_equal(pool_init(&pool, alloc_heap(), sizeof(zeros), 1), 0);
    for (int i = 0; i < 2; i++) {
        const uint32_t index = pool_get(&pool);
        assert_memory_equal(pool_at(&pool, index), zeros, sizeof(zeros));
        memset(pool_at(&pool, index), 0xee, sizeof(zeros));
        pool_put(&pool, index);
    }
    pool_fini(&pool);
}

/* Random gets and puts agree with a plain table of what is in use and what was written there. */
static void random_gets_and_puts_agree_with_a_table(void **state)
{
    enum { CAPACITY = 17, STEPS = 20000 };
    uint64_t written[CAPACITY] = {0}; /* 0 = free */
    struct random random;
    struct pool pool;
    uint32_t used = 0;

    (void)state;
    random_init(&random, 11);
    assert_int_equal(pool_init(&pool, alloc_heap(), sizeof(uint64_t), CAPACITY), 0);
    for (uint64_t step = 1; step <= STEPS; step++) {
        const uint32_t chosen = (uint32_t)random_below(&random, CAPACITY);
        if (written[chosen] != 0) {
            assert_memory_equal(pool_at(&pool, chosen), &written[chosen], sizeof(uint64_t));
            pool_put(&pool, chosen);
            written[chosen] = 0;
            used--;
        } else {
            const uint32_t index = pool_get(&pool);
            assert_true(index < CAPACITY && written[index] == 0);
            written[index] = step;
            memcpy(pool_at(&pool, index), &step, sizeof(step));
            used++;
        }
        assert_int_equal(pool.used, used);
    }
    pool_fini(&pool);
}

/* Whichever allocation fails, init says so and leaks nothing. */
static void every_failed_allocation_is_reported_without_a_leak(void **state)
{
    (void)state;
    for (size_t fail_at = 0; fail_at <= 2; fail_at++) {
        struct alloc_failing failing;
        struct pool pool;
        alloc_failing_init(&failing, fail_at);
        const int result = pool_init(&pool, &failing.allocator, 40, 10);
        assert_int_equal(result, fail_at == 0 ? 0 : TG_ENOMEM);
        assert_int_equal(failing.requests, 2);
        pool_fini(&pool);
        assert_int_equal(failing.bytes_live, 0);
    }
}

/* A pool of nothing is allowed and always empty. */
static void a_pool_without_elements_is_always_empty(void **state)
{
    struct pool pool;

    (void)state;
    assert_int_equal(pool_init(&pool, alloc_heap(), 8, 0), 0);
    assert_true(pool_get(&pool) == POOL_NONE);
    pool_fini(&pool);
}

static void put_twice(void *context)
{
    struct pool *pool = context;
    const uint32_t index = pool_get(pool);
    pool_put(pool, index);
    pool_put(pool, index);
}

static void look_at_a_free_element(void *context)
{
    (void)pool_at(context, 1);
}

static void look_past_the_end(void *context)
{
    (void)pool_at(context, 3);
}

/* Indexes that are not in use are a programmer's mistake and stop the process. */
static void misused_indexes_assert(void **state)
{
    struct pool pool;

    (void)state;
    assert_int_equal(pool_init(&pool, alloc_heap(), 8, 3), 0);
    assert_true(death_by_assert(put_twice, &pool, NULL, 0));
    assert_true(death_by_assert(look_at_a_free_element, &pool, NULL, 0));
    assert_true(death_by_assert(look_past_the_end, &pool, NULL, 0));
    pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_gives_each_element_once),
        cmocka_unit_test(an_element_comes_zeroed_also_the_second_time),
        cmocka_unit_test(random_gets_and_puts_agree_with_a_table),
        cmocka_unit_test(every_failed_allocation_is_reported_without_a_leak),
        cmocka_unit_test(a_pool_without_elements_is_always_empty),
        cmocka_unit_test(misused_indexes_assert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
