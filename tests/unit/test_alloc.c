/* test_alloc.c - the heap allocator and the one that fails on request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "tests/unit/support_death.h"

/* State starts from zero, also when the heap hands out memory that was used before. */
static void blocks_come_zeroed(void **state)
{
    enum { BYTES = 4096 };
    static const unsigned char zeros[BYTES];
    const struct allocator *heap = alloc_heap();

    (void)state;
    for (int i = 0; i < 8; i++) {
        unsigned char *block = alloc_get(heap, BYTES);
        assert_non_null(block);
        assert_memory_equal(block, zeros, BYTES);
        memset(block, 0xff, BYTES);
        alloc_put(heap, block, BYTES);
    }
    alloc_put(heap, NULL, 0);
}

/* A count whose bytes exceed size_t must not come back as a small block. */
static void an_array_that_overflows_is_refused(void **state)
{
    struct alloc_failing failing;

    (void)state;
    alloc_failing_init(&failing, 0);
    assert_null(alloc_array(&failing.allocator, SIZE_MAX / 8 + 1, 8));
    assert_null(alloc_array(&failing.allocator, 8, SIZE_MAX / 8 + 1));
    assert_int_equal(failing.requests, 0);
}

/* NULL means exhaustion and nothing else, so an empty array is a block. */
static void an_empty_array_is_not_null(void **state)
{
    const struct allocator *heap = alloc_heap();
    void *block = alloc_array(heap, 0, 8);

    (void)state;
    assert_non_null(block);
    alloc_put(heap, block, 0);
}

/* Exactly the chosen request fails, so a loop over it visits every path of failure. */
static void only_the_chosen_request_fails(void **state)
{
    (void)state;
    for (size_t fail_at = 0; fail_at <= 4; fail_at++) {
        struct alloc_failing failing;
        alloc_failing_init(&failing, fail_at);
        for (size_t request = 1; request <= 4; request++) {
            void *block = alloc_get(&failing.allocator, request);
            if (request == fail_at)
                assert_null(block);
            else
                assert_non_null(block);
            alloc_put(&failing.allocator, block, request);
        }
        assert_int_equal(failing.requests, 4);
        assert_int_equal(failing.bytes_live, 0);
    }
}

/* What is outstanding is known to the byte, so a leak in a failure path shows. */
static void live_bytes_are_counted(void **state)
{
    struct alloc_failing failing;

    (void)state;
    alloc_failing_init(&failing, 0);
    void *first = alloc_get(&failing.allocator, 100);
    void *second = alloc_array(&failing.allocator, 3, 10);
    assert_int_equal(failing.bytes_live, 130);
    alloc_put(&failing.allocator, first, 100);
    assert_int_equal(failing.bytes_live, 30);
    alloc_put(&failing.allocator, second, 30);
    assert_int_equal(failing.bytes_live, 0);
}

static void put_more_than_was_got(void *context)
{
    struct alloc_failing failing;

    (void)context;
    alloc_failing_init(&failing, 0);
    alloc_put(&failing.allocator, alloc_get(&failing.allocator, 8), 9);
}

/* An owner that misremembers its size is caught. */
static void giving_back_a_wrong_size_asserts(void **state)
{
    (void)state;
    assert_true(death_by_assert(put_more_than_was_got, NULL, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_zeroed),
        cmocka_unit_test(an_array_that_overflows_is_refused),
        cmocka_unit_test(an_empty_array_is_not_null),
        cmocka_unit_test(only_the_chosen_request_fails),
        cmocka_unit_test(live_bytes_are_counted),
        cmocka_unit_test(giving_back_a_wrong_size_asserts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
