/* test_filter.c - the per-vnode filter: certain noes, few false maybes, rebuilds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

#include "node/limit/table/filter.h"

enum { VNODES = 16, BYTES = 64 << 10 };

static struct hash128 id_of(uint64_t number)
{
    return (struct hash128){hash_mix64(number + 1), hash_mix64(~number)};
}

static unsigned maybes(const struct filter *filter, uint32_t vnode, uint64_t from, uint64_t to)
{
    unsigned count = 0;
    for (uint64_t n = from; n < to; n++)
        count += filter_maybe(filter, vnode, id_of(n)) != 0;
    return count;
}

/* Every id added is a maybe; of others at most a few in a hundred are, and none in other vnodes. */
static void added_ids_are_maybes_and_few_others(void **state)
{
    (void)state;
    struct filter filter;
    assert_int_equal(filter_init(&filter, alloc_heap(), VNODES, BYTES), 0);
    assert_true(filter_bytes(VNODES, BYTES) <= BYTES + VNODES * 4);
    for (uint64_t n = 0; n < 2000; n++)
        filter_add(&filter, 3, id_of(n));
    assert_int_equal(maybes(&filter, 3, 0, 2000), 2000);
    assert_in_range(maybes(&filter, 3, 10000, 20000), 0, 500);
    assert_int_equal(maybes(&filter, 4, 0, 2000), 0);
    assert_in_range(filter_fill_permille(&filter, 3), 150, 300);
    filter_fini(&filter);
}

/* A reset makes all ids noes, saturation makes all of them maybes. */
static void reset_and_saturate_are_the_two_extremes(void **state)
{
    (void)state;
    struct filter filter;
    assert_int_equal(filter_init(&filter, alloc_heap(), VNODES, BYTES), 0);
    filter_saturate(&filter, 15);
    filter_add(&filter, 15, id_of(1));
    assert_int_equal(maybes(&filter, 15, 0, 1000), 1000);
    assert_int_equal(filter_fill_permille(&filter, 15), 1000);
    filter_reset(&filter, 15);
    assert_int_equal(maybes(&filter, 15, 0, 1000), 0);
    assert_int_equal(filter.slices_used, 0);
    assert_int_equal(filter_fill_permille(&filter, 15), 0);
    filter_add(&filter, 15, id_of(1)); /* one key is enough to be told from none */
    assert_int_equal(filter_fill_permille(&filter, 15), 1);
    filter_fini(&filter);
}

/* While a slice is rebuilt the old one answers, and ids added meanwhile are in the new one too. */
static void a_rebuild_loses_nothing_and_drops_the_stale(void **state)
{
    (void)state;
    struct filter filter;
    assert_int_equal(filter_init(&filter, alloc_heap(), VNODES, BYTES), 0);
    for (uint64_t n = 0; n < 3000; n++)
        filter_add(&filter, 1, id_of(n));
    assert_int_equal(filter_rebuild_begin(&filter, 1), 0);
    assert_int_equal(filter_rebuild_begin(&filter, 2), TG_EBUSY);
    for (uint64_t n = 0; n < 100; n++)
        filter_rebuild_add(&filter, id_of(n));
    filter_add(&filter, 1, id_of(5000));
    assert_int_equal(maybes(&filter, 1, 0, 3000), 3000);
    filter_rebuild_end(&filter);
    assert_int_equal(maybes(&filter, 1, 0, 100), 100);
    assert_int_equal(maybes(&filter, 1, 5000, 5001), 1);
    assert_in_range(maybes(&filter, 1, 100, 3000), 0, 30);
    assert_int_equal(filter_rebuild_begin(&filter, 2), 0);
    filter_reset(&filter, 2); /* ends that rebuild */
    filter_rebuild_add(&filter, id_of(1));
    filter_rebuild_end(&filter);
    assert_int_equal(maybes(&filter, 2, 1, 2), 0);
    assert_int_equal(filter_rebuild_begin(&filter, 3), 0);
    filter_rebuild_abort(&filter);
    filter_fini(&filter);
}

/* A failed allocation leaves nothing behind. */
static void failed_allocations_are_survived(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at <= 2; fail_at++) {
        struct alloc_failing failing;
        struct filter filter;
        alloc_failing_init(&failing, fail_at);
        assert_int_equal(filter_init(&filter, &failing.allocator, VNODES, BYTES), TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_ids_are_maybes_and_few_others),
        cmocka_unit_test(reset_and_saturate_are_the_two_extremes),
        cmocka_unit_test(a_rebuild_loses_nothing_and_drops_the_stale),
        cmocka_unit_test(failed_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
