/* test_new_keys.c - the budget of new keys, on its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/limit/table/new_keys.h"

/* Adds keys while it may, of a memory of `room` slots that nothing leaves. */
static uint32_t flood(struct new_keys *keys, uint32_t class, uint64_t *room)
{
    uint32_t added = 0;
    for (; new_keys_allow(keys, class, *room); added++, (*room)--)
        new_keys_add(keys, class);
    return added;
}

static void one_class_leaves_a_third_and_the_next_a_ninth(void **state)
{
    struct new_keys keys = {.closed = false};
    uint64_t room = 9000;
    (void)state;
    assert_int_equal(flood(&keys, 1, &room), 6000);
    assert_int_equal(flood(&keys, 2, &room), 2000);
    assert_int_equal(flood(&keys, 1, &room), 0);
    assert_int_equal(room, 1000);
}

/* Max-min, as write-back goes round: those that ask for more than there is get the same, however
 * much more one of them asks for, and one that wants less gets all of it. */
static void classes_that_ask_at_once_get_the_same(void **state)
{
    enum { ROUNDS = 20, ASKS = 100000, LITTLE = 50 };
    struct new_keys keys = {.closed = false};
    uint32_t added[4] = {0};
    uint64_t room = 9000;
    uint64_t before = 0;
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t asked = 0;
        const uint64_t marked = keys.added;
        new_keys_mark(&keys, room);
        for (unsigned n = 0; n < ASKS; n++) {
            const uint32_t class = n % 16 < 13 ? 0 : n % 16 - 12;
            if (class == 3 && asked++ >= LITTLE)
                continue;
            if (!new_keys_allow(&keys, class, room)) {
                new_keys_refuse(&keys, class);
                continue;
            }
            new_keys_add(&keys, class);
            added[class] += round > 1;
            room--;
        }
        new_keys_written(&keys);
        room += marked;
        assert_int_equal(room + keys.added, 9000);
        before = marked;
    }
    assert_true(before > 1000);
    assert_int_equal(added[3], LITTLE * (ROUNDS - 2));
    for (unsigned class = 1; class < 3; class ++)
        assert_in_range(added[class], added[0] / 10 * 8, added[0] / 10 * 12);
}

/* What is written is forgiven; what came after the mark is not. */
static void what_was_marked_is_gone_when_it_is_written(void **state)
{
    struct new_keys keys = {.closed = false};
    uint64_t room = 9000;
    (void)state;
    (void)flood(&keys, 5, &room);
    new_keys_mark(&keys, room);
    assert_false(new_keys_allow(&keys, 5, room));
    for (unsigned n = 0; n < 100; n++)
        new_keys_add(&keys, 5);
    new_keys_written(&keys);
    assert_int_equal(keys.added, 100);
    assert_true(new_keys_allow(&keys, 5, 51));
    assert_false(new_keys_allow(&keys, 5, 50));
    new_keys_mark(&keys, 9000); /* a write-back that fails: the next mark adds to what it was of */
    new_keys_mark(&keys, 9000);
    assert_false(new_keys_allow(&keys, 5, 50));
    new_keys_written(&keys);
    assert_int_equal(keys.added, 0);
}

static void nobody_is_said_to_have_added_more_than_there_is(void **state)
{
    struct new_keys keys = {.closed = false};
    (void)state;
    for (unsigned n = 0; n < 3000; n++)
        new_keys_add(&keys, n % 3 == 0);
    new_keys_settle(&keys, 2900);
    assert_int_equal(keys.added, 3000);
    new_keys_settle(&keys, 300);
    assert_int_equal(keys.added, 300);
    assert_true(new_keys_allow(&keys, 1, 51) && !new_keys_allow(&keys, 1, 50));
    new_keys_settle(&keys, 0);
    assert_int_equal(keys.added, 0);
}

static void without_room_or_closed_nobody_adds_any(void **state)
{
    struct new_keys keys = {.closed = false};
    (void)state;
    assert_false(new_keys_allow(&keys, 1, 0));
    assert_true(new_keys_allow(&keys, 1, 1));
    keys.closed = true;
    assert_false(new_keys_allow(&keys, 1, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_class_leaves_a_third_and_the_next_a_ninth),
        cmocka_unit_test(classes_that_ask_at_once_get_the_same),
        cmocka_unit_test(what_was_marked_is_gone_when_it_is_written),
        cmocka_unit_test(nobody_is_said_to_have_added_more_than_there_is),
        cmocka_unit_test(without_room_or_closed_nobody_adds_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
