/* test_sort_buffer.c - slots come out group by group, each once, and a full buffer takes no more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/writeback/sort_buffer.h"

enum { MAX = 1000, VNODES = 4096 };

static int set_up(void **state)
{
    static struct sort_buffer buffer;
    *state = &buffer;
    return sort_buffer_init(&buffer, alloc_heap(), MAX, VNODES);
}

static int tear_down(void **state)
{
    sort_buffer_fini(*state);
    return 0;
}

/* The vnode that a test gives to a slot. */
static uint32_t vnode_of(uint64_t slot)
{
    return (uint32_t)((slot * 2654435761u) % VNODES);
}

/* Puts slots `first` .. end - 1 at once, each of its vnode of so many. */
static void put(struct sort_buffer *buffer, uint32_t first, uint32_t end, uint32_t vnodes)
{
    struct table_write writes[MAX];
    uint16_t of[MAX];
    for (uint32_t slot = first; slot < end; slot++) {
        writes[slot - first] = (struct table_write){.ref = slot, .hint = slot + 1};
        of[slot - first] = (uint16_t)(vnodes == VNODES ? vnode_of(slot) : slot % vnodes);
    }
    sort_buffer_put(buffer, writes, of, end - first);
}

static uint64_t take(struct sort_buffer *buffer)
{
    const struct table_write *next = sort_buffer_rest(buffer);
    sort_buffer_take(buffer, 1);
    assert_int_equal(next->hint, next->ref + 1);
    return next->ref;
}

/* A vnode's slots are taken together, whatever portions they were put in order in: that is what
 * saves rewriting its chunks. */
static void slots_are_taken_by_groups_of_vnodes_each_once(void **state)
{
    struct sort_buffer *buffer = *state;
    bool seen[MAX] = {false};
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t group = 0;
        put(buffer, 0, MAX / 3, VNODES);
        assert_int_equal(sort_buffer_room(buffer), MAX - MAX / 3);
        put(buffer, MAX / 3, MAX, VNODES);
        assert_int_equal(sort_buffer_room(buffer), 0);
        assert_false(sort_buffer_order(buffer, MAX / 2));
        assert_true(sort_buffer_order(buffer, MAX));
        for (uint32_t n = 0; n < MAX; n++) {
            const uint64_t slot = take(buffer);
            assert_in_range(slot, 0, MAX - 1);
            assert_int_equal(seen[slot], round == 1);
            seen[slot] = round == 0;
            const uint32_t its = vnode_of(slot) / (VNODES / SORT_BUFFER_GROUPS);
            assert_true(its >= group);
            group = its;
        }
        assert_int_equal(buffer->left, 0);
        sort_buffer_clear(buffer);
    }
}

/* Who takes a batch may look at what follows it, and finds it where it was until slots are put
 * again. */
static void what_was_taken_stays_until_slots_are_put_again(void **state)
{
    struct sort_buffer *buffer = *state;
    put(buffer, 0, MAX, VNODES);
    assert_true(sort_buffer_order(buffer, MAX));
    const struct table_write *first = sort_buffer_rest(buffer);
    sort_buffer_take(buffer, 3);
    assert_ptr_equal(sort_buffer_rest(buffer), first + 3);
    const uint64_t taken = first->ref;
    const uint64_t next = first[3].ref;
    sort_buffer_take(buffer, MAX - 3);
    sort_buffer_clear(buffer);
    assert_int_equal(first->ref, taken);
    assert_int_equal(first[3].ref, next);
}

/* With fewer vnodes than groups each vnode is a group. */
static void few_vnodes_are_a_group_each(void **state)
{
    struct sort_buffer buffer;
    (void)state;
    assert_int_equal(sort_buffer_init(&buffer, alloc_heap(), MAX, 3), 0);
    put(&buffer, 0, 30, 3);
    assert_true(sort_buffer_order(&buffer, MAX));
    for (uint32_t n = 0; n < 30; n++)
        assert_int_equal(take(&buffer) % 3, n / 10);
    sort_buffer_fini(&buffer);
}

/* Without memory there is no buffer, and nothing leaks. */
static void a_failing_allocator_is_reported_and_nothing_leaks(void **state)
{
    struct alloc_failing failing;
    struct sort_buffer buffer;
    (void)state;
    for (uint32_t nth = 1; nth <= 3; nth++) {
        alloc_failing_init(&failing, nth);
        assert_int_equal(sort_buffer_init(&buffer, &failing.allocator, MAX, VNODES), TG_ENOMEM);
        sort_buffer_fini(&buffer);
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
