/* test_order.c - requests of a log in the order of their time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/replay/order.h"
#include "tests/unit/support_effort.h"

enum { ITEMS = 2000, WAITING = 64 };

struct item {
    int64_t time_ns;
    uint32_t number; /* in order of arrival */
};

static int compare(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

/* Items out of order by less than the horizon leave exactly as a stable sort would have them, and
 * none counts as late. */
static void items_within_the_horizon_leave_as_sorted(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 11);
    for (int round = 0; round < EFFORT(100); round++) {
        static struct item items[ITEMS];
        struct order order;
        const int64_t horizon = random_between(&random, 0, 30);
        assert_int_equal(order_init(&order, alloc_heap(), ITEMS, sizeof *items, horizon), 0);
        int64_t newest = 0;
        for (uint32_t i = 0; i < ITEMS; i++) {
            const int64_t time = newest - (int64_t)random_below(&random, (uint64_t)horizon + 1) +
                                 (int64_t)random_below(&random, 3);
            items[i] = (struct item){time < 0 ? 0 : time, i};
            newest = time > newest ? time : newest;
        }
        uint32_t left = 0;
        static struct item out[ITEMS];
        int64_t time_ns;
        for (uint32_t i = 0; i < ITEMS; i++) {
            assert_false(order_add(&order, items[i].time_ns, &items[i]));
            order_check_invariants(&order);
            while (order_due(&order, false))
                out[left++] = *(const struct item *)order_take(&order, &time_ns);
        }
        while (order_due(&order, true)) {
            out[left++] = *(const struct item *)order_take(&order, &time_ns);
            assert_int_equal(out[left - 1].time_ns, time_ns);
        }
        assert_int_equal(left, ITEMS);
        qsort(items, ITEMS, sizeof *items, compare);
        for (uint32_t i = 0; i < ITEMS; i++)
            assert_int_equal(out[i].number, items[i].number);
        order_fini(&order);
    }
}

/* An item waits until one is more than the horizon newer, and no longer. */
static void an_item_is_due_as_soon_as_the_horizon_has_passed(void **state)
{
    (void)state;
    const struct item item = {100, 0};
    struct order order;
    int64_t time_ns;
    assert_int_equal(order_init(&order, alloc_heap(), WAITING, sizeof item, 10), 0);
    assert_false(order_add(&order, 100, &item));
    assert_false(order_add(&order, 110, &item));
    assert_false(order_due(&order, false));
    assert_false(order_add(&order, 111, &item));
    assert_true(order_due(&order, false));
    (void)order_take(&order, &time_ns);
    assert_int_equal(time_ns, 100);
    assert_false(order_due(&order, false));
    order_fini(&order);
}

/* However wild the times, no more wait than there is room for, nothing is lost, and what is late is
 * said to be: then, and only then, an item leaves behind one of a later time. */
static void what_comes_too_late_is_told_and_nothing_is_lost(void **state)
{
    (void)state;
    struct random random;
    struct order order;
    random_init(&random, 12);
    assert_int_equal(order_init(&order, alloc_heap(), WAITING, sizeof(struct item), 1000), 0);
    uint64_t late = 0;
    uint64_t behind = 0;
    uint32_t left = 0;
    int64_t latest = 0;
    for (uint32_t i = 0; i < ITEMS + 1; i++) {
        while (order_due(&order, i == ITEMS)) {
            int64_t time_ns;
            (void)order_take(&order, &time_ns);
            behind += time_ns < latest;
            latest = time_ns > latest ? time_ns : latest;
            left++;
        }
        const struct item item = {random_between(&random, 0, 100000), i};
        if (i < ITEMS)
            late += order_add(&order, item.time_ns, &item);
        assert_true(order.count <= WAITING);
    }
    assert_int_equal(left, ITEMS);
    assert_int_equal(late, behind);
    assert_true(late > 0);
    order_fini(&order);
}

/* Memory that runs out leaves nothing behind. */
static void a_failed_init_holds_nothing(void **state)
{
    (void)state;
    for (size_t at = 1; at <= 3; at++) {
        struct alloc_failing failing;
        struct order order;
        alloc_failing_init(&failing, at);
        assert_int_equal(order_init(&order, &failing.allocator, 8, 16, 0), TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_within_the_horizon_leave_as_sorted),
        cmocka_unit_test(an_item_is_due_as_soon_as_the_horizon_has_passed),
        cmocka_unit_test(what_comes_too_late_is_told_and_nothing_is_lost),
        cmocka_unit_test(a_failed_init_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
