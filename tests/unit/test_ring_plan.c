/* test_ring_plan.c - a plan turns one table into the other, and names nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "ring/ring.h"
#include "tests/unit/support_ring_plan.h"

enum { VNODES = 1024, SIZE = 7 };

static struct ring_member members[SIZE + 1];
static struct ring_table from;
static struct ring_table to;

/* SIZE members in `from`; `to` has one more, or lacks the first. */
static void make_tables(uint64_t seed, int leaving)
{
    struct random random;

    random_init(&random, seed);
    for (uint32_t i = 0; i <= SIZE; i++) {
        assert_int_equal(
            ring_member_init(&members[i], random_next(&random) | 1U, "", i % 2 ? "a" : "b", 100),
            0);
        assert_int_equal(ring_member_seat(&members[i], members, i), 0);
    }
    assert_int_equal(ring_table_init(&from, alloc_heap(), members, SIZE, VNODES, 3), 0);
    assert_int_equal(leaving ? ring_table_init(&to, alloc_heap(), members + 1, SIZE - 1, VNODES, 3)
                             : ring_table_init(&to, alloc_heap(), members, SIZE + 1, VNODES, 3),
                     0);
}

static int holds(const struct ring_table *table, uint32_t vnode, uint64_t id)
{
    return ring_position_of(table, vnode, id) >= 0;
}

static int listed(const uint64_t *ids, uint32_t count, uint64_t id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return 1;
        }
    }
    return 0;
}

/* For every vnode and member: old set + gain - drop = new set, and vnodes left out are equal. */
static void plan_turns_the_old_sets_into_the_new(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct ring_plan plan;
        struct ring_move move;
        uint32_t expected_vnode = 0;
        make_tables(seed, seed % 2 == 0);
        ring_plan_init(&plan, &from, &to);
        int more = ring_plan_next(&plan, &move);
        for (; expected_vnode < VNODES; expected_vnode++) {
            const int named = more && move.vnode == expected_vnode;
            assert_true(named ||
                        ring_owner_id(&from, expected_vnode) == ring_owner_id(&to, expected_vnode));
            for (uint32_t i = 0; i <= SIZE; i++) {
                const uint64_t id = members[i].id;
                const int gains = named && listed(move.gain, move.gain_count, id);
                const int drops = named && listed(move.drop, move.drop_count, id);
                assert_int_equal(holds(&from, expected_vnode, id) + gains - drops,
                                 holds(&to, expected_vnode, id));
                assert_false(gains && drops);
            }
            if (named) {
                assert_int_equal(move.from_owner, ring_owner_id(&from, expected_vnode));
                assert_int_equal(move.to_owner, ring_owner_id(&to, expected_vnode));
                assert_int_equal(move.owner_changes, move.from_owner != move.to_owner);
                more = ring_plan_next(&plan, &move);
            }
        }
        assert_false(more);
        ring_table_fini(&from);
        ring_table_fini(&to);
    }
}

/* The count of owner changes is that of the moves which say so. */
static void owner_changes_are_counted(void **state)
{
    struct ring_plan plan;
    struct ring_move move;
    uint32_t changes = 0;

    (void)state;
    make_tables(20, 0);
    ring_plan_init(&plan, &from, &to);
    while (ring_plan_next(&plan, &move)) {
        changes += move.owner_changes ? 1 : 0;
    }
    assert_int_equal(changes, ring_plan_owner_changes(&plan));
    assert_in_range(changes, VNODES / (SIZE + 1) - 2, VNODES / (SIZE + 1) + 2);
    ring_table_fini(&from);
    ring_table_fini(&to);
}

/* From a table to itself nothing moves. */
static void equal_tables_have_an_empty_plan(void **state)
{
    struct ring_plan plan;
    struct ring_move move;

    (void)state;
    make_tables(21, 0);
    ring_plan_init(&plan, &from, &from);
    assert_false(ring_plan_next(&plan, &move));
    assert_false(ring_plan_next(&plan, &move));
    ring_plan_at(&plan, 5, &move);
    assert_int_equal(move.gain_count + move.drop_count + (move.owner_changes ? 1U : 0U), 0);
    ring_table_fini(&from);
    ring_table_fini(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_turns_the_old_sets_into_the_new),
        cmocka_unit_test(owner_changes_are_counted),
        cmocka_unit_test(equal_tables_have_an_empty_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
