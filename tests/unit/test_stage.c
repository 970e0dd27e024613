/* test_stage.c - slots come out group by group, each once, and a full stage takes no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/stage.h"

enum { MAX = 1000, VNODES = 4096 };

static int set_up(void **state)
{
    static struct stage stage;
    *state = &stage;
    return stage_init(&stage, alloc_heap(), MAX);
}

static int tear_down(void **state)
{
    stage_fini(*state);
    return 0;
}

/* The vnode that a test gives to a slot. */
static uint32_t vnode_of(uint64_t slot)
{
    return (uint32_t)((slot * 2654435761u) % VNODES);
}

/* A vnode's slots are taken together, whatever portions they were put in order in: that is what
 * saves rewriting its chunks. */
static void slots_are_taken_by_groups_of_vnodes_each_once(void **state)
{
    struct stage *stage = *state;
    bool seen[MAX] = {false};
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t group = 0;
        for (uint32_t slot = 0; slot < MAX; slot++)
            stage_put(stage, slot, vnode_of(slot), VNODES);
        assert_true(stage_full(stage));
        assert_false(stage_order(stage, MAX / 2));
        assert_true(stage_order(stage, MAX));
        for (uint32_t n = 0; n < MAX; n++) {
            const uint64_t slot = stage_take(stage);
            assert_in_range(slot, 0, MAX - 1);
            assert_int_equal(seen[slot], round == 1);
            seen[slot] = round == 0;
            const uint32_t its = vnode_of(slot) / (VNODES / STAGE_GROUPS);
            assert_true(its >= group);
            group = its;
        }
        assert_int_equal(stage->left, 0);
        stage_clear(stage);
    }
}

/* Who looks ahead asks memory for the right slot. */
static void what_is_peeked_is_taken_later(void **state)
{
    struct stage *stage = *state;
    uint64_t ahead;
    assert_false(stage_peek(stage, 0, &ahead));
    for (uint32_t slot = 0; slot < MAX; slot++)
        stage_put(stage, slot, vnode_of(slot), VNODES);
    assert_true(stage_order(stage, MAX));
    while (stage->left > 3) {
        assert_true(stage_peek(stage, 3, &ahead));
        for (uint32_t n = 0; n < 3; n++)
            assert_int_not_equal(stage_take(stage), ahead);
        assert_int_equal(stage_take(stage), ahead);
    }
    assert_false(stage_peek(stage, stage->left, &ahead));
}

/* With fewer vnodes than groups each vnode is a group. */
static void few_vnodes_are_a_group_each(void **state)
{
    struct stage *stage = *state;
    for (uint32_t slot = 0; slot < 30; slot++)
        stage_put(stage, slot, slot % 3, 3);
    assert_true(stage_order(stage, MAX));
    for (uint32_t n = 0; n < 30; n++)
        assert_int_equal(stage_take(stage) % 3, n / 10);
}

/* Without memory there is no stage, and nothing leaks. */
static void a_failing_allocator_is_reported_and_nothing_leaks(void **state)
{
    struct alloc_failing failing;
    struct stage stage;
    (void)state;
    for (uint32_t nth = 1; nth <= 3; nth++) {
        alloc_failing_init(&failing, nth);
        assert_int_equal(stage_init(&stage, &failing.allocator, MAX), TG_ENOMEM);
        stage_fini(&stage);
        assert_int_equal(failing.bytes_live, 0);
    }
}

#define WITH_STAGE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STAGE(slots_are_taken_by_groups_of_vnodes_each_once),
        WITH_STAGE(what_is_peeked_is_taken_later),
        WITH_STAGE(few_vnodes_are_a_group_each),
        cmocka_unit_test(a_failing_allocator_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
