/* test_invariants.c - a pool, a ring table, a store and the tables of a replay with one wrong field
 * are seen by their x_check_invariants, which name the invariant that is broken. */
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/pool.h"
#include "client/replay/callers.h"
#include "client/replay/order.h"
#include "ring/ring.h"
#include "storage/internal.h"
#include "tests/unit/support_death.h"

/* Whether looking at what is corrupt ends in an assertion that begins with the invariant's id. */
static void assert_broken(void (*check)(void *whole), void *whole, const char *id)
{
    char text[256];

    assert_true(death_by_assert(check, whole, text, sizeof text));
    assert_non_null(strstr(text, id));
}

/* ---- pool -------------------------------------------------------------------------------- */

static void pool_check(void *pool)
{
    pool_check_invariants(pool);
}

static void a_pool_whose_chain_is_wrong_is_seen(void **state)
{
    struct pool pool;

    (void)state;
    assert_int_equal(pool_init(&pool, alloc_heap(), 8, 5), 0);
    const uint32_t taken = pool_get(&pool);
    pool_check_invariants(&pool);
    const uint32_t first = pool.first_free;
    pool.first_free = taken; /* an element in use is handed out again */
    assert_broken(pool_check, &pool, "POOL-1: ");
    pool.first_free = first;
    pool.next_free[first] = first; /* a circle */
    assert_broken(pool_check, &pool, "POOL-2: ");
    pool.next_free[first] = POOL_NONE; /* the rest is lost */
    assert_broken(pool_check, &pool, "POOL-2: ");
    pool_fini(&pool);
}

/* ---- ring -------------------------------------------------------------------------------- */

static void table_check(void *table)
{
    ring_table_check_invariants(table);
}

static void table_new(struct ring_table *table)
{
    struct ring_member members[4];

    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(ring_member_init(&members[i], 10 + i, "", i % 2 ? "a" : "b", 100), 0);
    assert_int_equal(ring_table_init(table, alloc_heap(), members, 4, 64, 3), 0);
    ring_table_check_invariants(table);
}

static void a_vnode_with_one_replica_twice_is_seen(void **state)
{
    struct ring_table table;

    (void)state;
    table_new(&table);
    table.positions[7] = table.positions[6];
    assert_broken(table_check, &table, "RING-3: ");
    table.positions[7] = 4; /* nobody's index */
    assert_broken(table_check, &table, "RING-3: ");
    ring_table_fini(&table);
}

static void members_out_of_order_are_seen(void **state)
{
    struct ring_table table;

    (void)state;
    table_new(&table);
    table.ids[2] = 1;
    assert_broken(table_check, &table, "RING-1: ");
    table.ids[2] = 12;
    table.weights[1] = 0;
    assert_broken(table_check, &table, "RING-4: ");
    ring_table_fini(&table);
}

/* ---- store ------------------------------------------------------------------------------- */

static void store_check(void *store)
{
    store_check_invariants(store);
}

static void a_store_whose_counts_disagree_is_seen(void **state)
{
    static struct store store;

    (void)state;
    store.chunks_written = 2;
    store.bytes_written = 2000;
    store_check_invariants(&store);
    store.bytes_written = CHUNK_HEAD_LEN;
    assert_broken(store_check, &store, "STORE-8: ");
    store.bytes_written = 2000;
    store.merged.capacity = 8;
    assert_broken(store_check, &store, "STORE-6: ");
    store.merged.capacity = 0;
    store.lock_file = -1;
    assert_broken(store_check, &store, "OPEN-1: ");
}

/* ---- replay ------------------------------------------------------------------------------ */

static void callers_check(void *callers)
{
    callers_check_invariants(callers);
}

static void a_caller_that_the_index_lost_is_seen(void **state)
{
    struct callers callers;

    (void)state;
    assert_int_equal(callers_init(&callers, alloc_heap(), 16, 1024), 0);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_not_equal(callers_add(&callers, (struct hash128){i, i}, 0, "key", 3),
                             CALLERS_NONE);
    callers_check_invariants(&callers);
    callers.entries[1].text = 1000;
    assert_broken(callers_check, &callers, "CALLERS-5: ");
    callers.entries[1].text = 3;
    callers.entries[1].denied = 1;
    assert_broken(callers_check, &callers, "CALLERS-2: ");
    callers.entries[1].denied = 0;
    callers.count--;
    assert_broken(callers_check, &callers, "CALLERS-4: ");
    callers_fini(&callers);
}

static void order_check(void *order)
{
    order_check_invariants(order);
}

static void an_item_that_waits_and_is_free_is_seen(void **state)
{
    struct order order;
    int number = 7;

    (void)state;
    assert_int_equal(order_init(&order, alloc_heap(), 4, sizeof number, 100), 0);
    (void)order_add(&order, 50, &number);
    (void)order_add(&order, 60, &number);
    order_check_invariants(&order);
    order.newest_ns = 10;
    assert_broken(order_check, &order, "ORDER-1: ");
    order.newest_ns = 60;
    order.free[1] = 0; /* the first item's number */
    assert_broken(order_check, &order, "ORDER-4: ");
    order_fini(&order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_whose_chain_is_wrong_is_seen),
        cmocka_unit_test(a_vnode_with_one_replica_twice_is_seen),
        cmocka_unit_test(members_out_of_order_are_seen),
        cmocka_unit_test(a_store_whose_counts_disagree_is_seen),
        cmocka_unit_test(a_caller_that_the_index_lost_is_seen),
        cmocka_unit_test(an_item_that_waits_and_is_free_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
