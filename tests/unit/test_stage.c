/* test_stage.c - slots come out group by group, each once, and a full stage takes no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/writeback/stage.h"

enum { MAX = 1000, VNODES = 4096 };

static int set_up(void **state)
{
    static struct stage stage;
    *state = &stage;
    return stage_init(&stage, alloc_heap(), MAX, VNODES);
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

/* Puts slots `first` .. end - 1 at once, each of its vnode of so many. */
static void put(struct stage *stage, uint32_t first, uint32_t end, uint32_t vnodes)
{
    struct table_write writes[MAX];
    uint16_t of[MAX];
    for (uint32_t slot = first; slot < end; slot++) {
        writes[slot - first] = (struct table_write){.ref = slot, .hint = slot + 1};
        of[slot - first] = (uint16_t)(vnodes == VNODES ? vnode_of(slot) : slot % vnodes);
    }
    stage_put(stage, writes, of, end - first);
}

static uint64_t take(struct stage *stage)
{
    const struct table_write *next = stage_rest(stage);
    stage_take(stage, 1);
    assert_int_equal(next->hint, next->ref + 1);
    return next->ref;
}

/* A vnode's slots are taken together, whatever portions they were put in order in: that is what
 * saves rewriting its chunks. */
static void slots_are_taken_by_groups_of_vnodes_each_once(void **state)
{
    struct stage *stage = *state;
    bool seen[MAX] = {false};
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t group = 0;
        put(stage, 0, MAX / 3, VNODES);
        assert_int_equal(stage_room(stage), MAX - MAX / 3);
        put(stage, MAX / 3, MAX, VNODES);
        assert_int_equal(stage_room(stage), 0);
        assert_false(stage_order(stage, MAX / 2));
        assert_true(stage_order(stage, MAX));
        for (uint32_t n = 0; n < MAX; n++) {
            const uint64_t slot = take(stage);
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

/* Who takes a batch may look at what follows it, and finds it where it was until slots are put
 * again. */
static void what_was_taken_stays_until_slots_are_put_again(void **state)
{
    struct stage *stage = *state;
    put(stage, 0, MAX, VNODES);
    assert_true(stage_order(stage, MAX));
    const struct table_write *first = stage_rest(stage);
    stage_take(stage, 3);
    assert_ptr_equal(stage_rest(stage), first + 3);
    const uint64_t taken = first->ref;
    const uint64_t next = first[3].ref;
    stage_take(stage, MAX - 3);
    stage_clear(stage);
    assert_int_equal(first->ref, taken);
    assert_int_equal(first[3].ref, next);
}

/* With fewer vnodes than groups each vnode is a group. */
static void few_vnodes_are_a_group_each(void **state)
{
    struct stage stage;
    (void)state;
    assert_int_equal(stage_init(&stage, alloc_heap(), MAX, 3), 0);
    put(&stage, 0, 30, 3);
    assert_true(stage_order(&stage, MAX));
    for (uint32_t n = 0; n < 30; n++)
        assert_int_equal(take(&stage) % 3, n / 10);
    stage_fini(&stage);
}

/* Without memory there is no stage, and nothing leaks. */
static void a_failing_allocator_is_reported_and_nothing_leaks(void **state)
{
    struct alloc_failing failing;
    struct stage stage;
    (void)state;
    for (uint32_t nth = 1; nth <= 3; nth++) {
        alloc_failing_init(&failing, nth);
        assert_int_equal(stage_init(&stage, &failing.allocator, MAX, VNODES), TG_ENOMEM);
        stage_fini(&stage);
        assert_int_equal(failing.bytes_live, 0);
    }
}

#define WITH_STAGE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STAGE(slots_are_taken_by_groups_of_vnodes_each_once),
        WITH_STAGE(what_was_taken_stays_until_slots_are_put_again),
        cmocka_unit_test(few_vnodes_are_a_group_each),
        cmocka_unit_test(a_failing_allocator_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
